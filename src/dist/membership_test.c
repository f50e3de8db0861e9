/* dist/membership_test.c */
#include "dist/membership.h"

#include <stdio.h>

#include "tests/harness/test.h"

enum { MS = 1000000 };

/* "joined 1:7, left 2:9"; clears the events. */
static const char *told(mr_member_events *e)
{
    static char text[256];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < e->n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %d:%d", i ? ", " : "", mr_member_what_name(e->p[i].what),
                              e->p[i].task, (int)e->p[i].incarnation);
    e->n = 0;
    return text;
}

static void at(mr_membership *m, int64_t ms, mr_member_events *e) { mr_membership_tick(m, ms * MS, e, NULL); }

MR_TEST(membership_silence_is_suspected_then_lost)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_membership_init(&m, 2, 0, NULL, 0);
    MR_CHECK(mr_membership_heard(&m, 1, 7, -1, 0, &e));
    MR_CHECK_STR(told(&e), "joined 1:7");
    at(&m, 2999, &e);
    MR_CHECK_STR(told(&e), "");
    at(&m, 3000, &e);
    MR_CHECK_STR(told(&e), "suspected 1:7");
    mr_membership_heard(&m, 1, 7, -1, 4000 * (int64_t)MS, &e);
    MR_CHECK_STR(told(&e), "cleared 1:7");
    at(&m, 14000, &e);
    MR_CHECK_STR(told(&e), "left 1:7");
    MR_CHECK(mr_membership_ended(&m, 1, 7));
    at(&m, 60000, &e);
    MR_CHECK_STR(told(&e), "");
    mr_membership_heard(&m, 1, 7, -1, 61000 * (int64_t)MS, &e); /* it had only been cut off */
    MR_CHECK_STR(told(&e), "joined 1:7");
    MR_CHECK(!mr_membership_ended(&m, 1, 7));
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}

MR_TEST(membership_late_word_of_an_earlier_life_is_ignored)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_membership_init(&m, 3, 0, NULL, 0);
    mr_membership_heard(&m, 2, 7, -1, 0, &e);
    mr_membership_heard(&m, 2, 8, 5, 10, &e);
    MR_CHECK_STR(told(&e), "joined 2:7, restarted 2:8");
    MR_CHECK(!mr_membership_heard(&m, 2, 7, 4, 20, &e));
    mr_membership_gone(&m, 2, 7, 20, &e);
    MR_CHECK_STR(told(&e), "");
    MR_CHECK(mr_membership_ended(&m, 2, 7) && !mr_membership_ended(&m, 2, 8));
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}

MR_TEST(membership_believes_the_answer_that_was_asked_for_last)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_membership_init(&m, 2, 0, NULL, 0);
    mr_membership_heard(&m, 1, 7, -1, 0, &e);
    MR_CHECK(!mr_membership_heard(&m, 1, 9, -1, 10, &e)); /* a call: who knows when it was made */
    MR_CHECK(mr_membership_heard(&m, 1, 9, 15, 20, &e));
    MR_CHECK(!mr_membership_heard(&m, 1, 8, 18, 30, &e)); /* an incarnation between the two */
    MR_CHECK(mr_membership_heard(&m, 1, 9, 25, 40, &e));
    MR_CHECK_STR(told(&e), "joined 1:7, restarted 1:9");
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}

MR_TEST(membership_end_that_is_seen_is_told_at_once)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_membership_init(&m, 2, 0, NULL, 0);
    mr_membership_gone(&m, 1, 0, 5, &e); /* it was never there */
    mr_membership_heard(&m, 1, 7, -1, 10, &e);
    mr_membership_gone(&m, 1, 0, 20, &e);
    mr_membership_gone(&m, 1, 7, 30, &e);
    MR_CHECK_STR(told(&e), "joined 1:7, left 1:7");
    mr_membership_heard(&m, 1, 9, -1, 40, &e);
    MR_CHECK_STR(told(&e), "restarted 1:9");
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}

MR_TEST(membership_asks_the_others_at_intervals)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_member_tasks ask = {0};
    mr_membership_init(&m, 3, 1, NULL, 0);
    MR_CHECK_INT(mr_membership_tick(&m, 0, &e, &ask), 1000 * (int64_t)MS);
    MR_CHECK_INT(ask.n, 2);
    MR_CHECK(ask.p[0] == 0 && ask.p[1] == 2);
    mr_membership_tick(&m, 500 * MS, &e, &ask);
    MR_CHECK_INT(ask.n, 2);
    mr_membership_tick(&m, 1000 * MS, &e, &ask);
    MR_CHECK_INT(ask.n, 4);
    at(&m, 1000000, &e); /* who was never there is not lost */
    MR_CHECK_INT(e.n, 0);
    mr_vec_deinit(&ask);
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}

MR_TEST(membership_silence_counts_only_while_somebody_cares)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_member_tasks ask = {0};
    mr_membership_init(&m, 2, 0, NULL, 0);
    mr_membership_heard(&m, 1, 7, -1, 0, &e);
    MR_CHECK_STR(told(&e), "joined 1:7");
    mr_membership_care(&m, 1, false, 0);
    mr_membership_tick(&m, 60000 * (int64_t)MS, &e, &ask);
    MR_CHECK_STR(told(&e), "");
    MR_CHECK_INT(ask.n, 0);
    mr_membership_care(&m, 1, true, 60000 * (int64_t)MS);
    mr_membership_tick(&m, 60000 * (int64_t)MS, &e, &ask);
    MR_CHECK_STR(told(&e), "");
    MR_CHECK_INT(ask.n, 1);
    at(&m, 70000, &e);
    MR_CHECK_STR(told(&e), "left 1:7");
    mr_vec_deinit(&ask);
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}

MR_TEST(membership_who_slept_does_not_judge_others)
{
    mr_membership m;
    mr_member_events e = {0};
    mr_membership_init(&m, 2, 0, NULL, 0);
    mr_membership_heard(&m, 1, 7, -1, 0, &e);
    MR_CHECK_STR(told(&e), "joined 1:7");
    mr_membership_slept(&m, 60000 * (int64_t)MS);
    at(&m, 60000, &e);
    MR_CHECK_STR(told(&e), "");
    at(&m, 70000, &e);
    MR_CHECK_STR(told(&e), "left 1:7");
    mr_vec_deinit(&e);
    mr_membership_deinit(&m);
}
