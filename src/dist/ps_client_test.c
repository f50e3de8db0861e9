/* dist/ps_client_test.c -- a client, told as stories: what happens, and what follows.
 *
 * Ranges 0 and 1 are at server A (id 1), ranges 2 and 3 at B (id 2).  What follows is written as "push A 0:1<0" (range,
 * timestamp, the one before it; "empty" for a part without payload), "pull B 2", "done 1 OK", "ask". */
#include "dist/ps_client.h"

#include "base/str.h"
#include "tests/harness/test.h"

enum { A = 1, B = 2 };

typedef struct story {
    mr_psc *c;
    mr_ps_view v;
    mr_str log;
    mr_psc_actions out;
    int64_t now;
    int64_t task; /* the last one begun */
} story;

static const char *told(story *t)
{
    mr_str_clear(&t->log);
    for (int i = 0; i < t->out.n; i++) {
        const mr_psc_action *a = &t->out.p[i];
        mr_str_printf(&t->log, "%s", i ? ", " : "");
        if (a->what == MR_PSC_PUSH)
            mr_str_printf(&t->log, "%s %c %d:%d<%d", a->empty ? "empty" : "push", (char)('@' + (int)a->to), a->range,
                          (int)a->ts, (int)a->prev);
        else if (a->what == MR_PSC_PULL)
            mr_str_printf(&t->log, "pull %c %d", (char)('@' + (int)a->to), a->range);
        else if (a->what == MR_PSC_DONE)
            mr_str_printf(&t->log, "done %d %s", (int)a->task, mr_code_name(a->code));
        else
            mr_str_printf(&t->log, "ask");
    }
    t->out.n = 0;
    return mr_str_z(&t->log);
}

static const char *view(story *t)
{
    t->v.epoch++;
    MR_CHECK_OK(mr_psc_view(t->c, &t->v, t->now, &t->out));
    return told(t);
}

static void begin(story *t, mr_psc_options o)
{
    *t = (story){.v = {.epoch = 1, .replicas = 1}};
    o.retry_ns = 10;
    o.answer_ns = 1000;
    t->c = mr_psc_new(77, &o);
    mr_vec_push(&t->v.servers, (mr_ps_peer){A, false});
    mr_vec_push(&t->v.servers, (mr_ps_peer){B, false});
    for (int i = 0; i < 4; i++)
        mr_vec_push(&t->v.ranges, (mr_ps_range){.epoch = 1, .generation = 1, .n = 1, .chain = {{i < 2 ? A : B, 1}}});
    view(t);
}

static void end(story *t)
{
    mr_psc_free(t->c);
    mr_ps_view_deinit(&t->v);
    mr_str_deinit(&t->log);
    mr_vec_deinit(&t->out);
}

/* Ranges as digits. */
static const char *task(story *t, bool push, const char *ranges, int64_t after, int64_t deadline_ns)
{
    mr_psc_piece pieces[8];
    int n = 0;
    for (; ranges[n]; n++)
        pieces[n] = (mr_psc_piece){ranges[n] - '0', 10};
    MR_CHECK_OK(mr_psc_begin(t->c, push, pieces, n, &after, after > 0, deadline_ns, t->now, &t->task, &t->out));
    return told(t);
}

static const char *push(story *t, const char *ranges) { return task(t, true, ranges, 0, INT64_MAX); }

/* The answer to the last try of a part that was sent once or twice. */
static const char *answer(story *t, uint64_t from, int64_t id, int piece, int try, mr_code code, uint64_t last)
{
    mr_psc_answer(t->c, from, id, piece, try, code, 0, last, t->now, &t->out);
    return told(t);
}

static const char *tick(story *t, int64_t later)
{
    t->now += later;
    mr_psc_tick(t->c, t->now, &t->out);
    return told(t);
}

/* Range i changes: another head, by the next view. */
static void move_range(story *t, int range, uint64_t to)
{
    mr_ps_range *s = &t->v.ranges.p[range];
    s->epoch = t->v.epoch + 1;
    s->chain[0] = (mr_ps_member){to, s->epoch};
}

MR_TEST(ps_client_splits_a_push_and_ends_with_its_last_part)
{
    story t;
    begin(&t, (mr_psc_options){0});
    MR_CHECK_STR(push(&t, "02"), "push A 0:1<0, push B 2:1<0");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "");
    MR_CHECK(!mr_psc_ended(t.c, 1) && mr_psc_open(t.c) == 1);
    MR_CHECK_STR(answer(&t, B, 1, 1, 1, MR_OK, 0), "done 1 OK");
    MR_CHECK(mr_psc_ended(t.c, 1) && mr_psc_settled(t.c));
    MR_CHECK_STR(answer(&t, B, 1, 1, 1, MR_OK, 0), ""); /* again */
    end(&t);
}

MR_TEST(ps_client_each_part_names_the_one_before_it_at_its_range)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    push(&t, "1");
    MR_CHECK_STR(push(&t, "01"), "push A 0:3<1, push A 1:3<2");
    end(&t);
}

MR_TEST(ps_client_sends_a_window_of_parts)
{
    story t;
    begin(&t, (mr_psc_options){.window = 2});
    push(&t, "0");
    push(&t, "0");
    MR_CHECK_STR(push(&t, "0"), "");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "done 1 OK, push A 0:3<2");
    end(&t);
}

MR_TEST(ps_client_resends_in_order_after_a_broken_connection)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "02");
    push(&t, "0");
    mr_psc_broken(t.c, A, t.now, &t.out);
    MR_CHECK_STR(told(&t), "ask");
    MR_CHECK_STR(push(&t, "2"), "push B 2:3<1"); /* others are not held up */
    MR_CHECK_STR(tick(&t, 9), "");
    MR_CHECK_STR(tick(&t, 1), "push A 0:1<0, push A 0:2<1");
    MR_CHECK_INT(mr_psc_resent(t.c), 2);
    end(&t);
}

MR_TEST(ps_client_resends_to_the_new_head)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "02");
    move_range(&t, 0, B);
    MR_CHECK_STR(view(&t), "push B 0:1<0");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_UNAVAILABLE, 0), ""); /* of the first try */
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "");          /* but an acknowledgement holds, from any server */
    MR_CHECK_STR(answer(&t, B, 1, 1, 1, MR_OK, 0), "done 1 OK");
    end(&t);
}

MR_TEST(ps_client_knows_which_server_owes_an_answer)
{
    story t;
    begin(&t, (mr_psc_options){0});
    MR_CHECK(mr_psc_waits_for(t.c, 0) == 0);
    push(&t, "02");
    MR_CHECK(mr_psc_waits_for(t.c, 1) == A);
    answer(&t, A, 1, 0, 1, MR_OK, 0);
    MR_CHECK(mr_psc_waits_for(t.c, 1) == B);
    MR_CHECK(mr_psc_waits_for(t.c, 2) == B); /* as of a task that comes after it */
    mr_psc_broken(t.c, B, t.now, &t.out);    /* it is to be sent again */
    MR_CHECK(mr_psc_waits_for(t.c, 1) == B);
    told(&t);
    end(&t);
}

MR_TEST(ps_client_waits_longer_each_time_it_is_turned_away)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_UNAVAILABLE, 0), "");
    MR_CHECK_STR(tick(&t, 10), "push A 0:1<0");
    answer(&t, A, 1, 0, 2, MR_UNAVAILABLE, 0);
    MR_CHECK_STR(tick(&t, 10), "");
    MR_CHECK_STR(tick(&t, 10), "push A 0:1<0");
    end(&t);
}

MR_TEST(ps_client_fills_a_gap_in_order)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    push(&t, "0");
    MR_CHECK_STR(answer(&t, A, 2, 0, 1, MR_ABORTED, 0), "push A 0:2<1"); /* it overtook the first, which is under way */
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "done 1 OK");
    MR_CHECK_STR(answer(&t, A, 2, 0, 2, MR_ABORTED, 0), "push A 0:2<1"); /* again too early, as it turns out */
    MR_CHECK_STR(answer(&t, A, 2, 0, 3, MR_OK, 0), "done 2 OK");
    end(&t);
}

MR_TEST(ps_client_pauses_when_a_server_misses_what_it_has)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    answer(&t, A, 1, 0, 1, MR_OK, 0);
    push(&t, "0");
    MR_CHECK_STR(answer(&t, A, 2, 0, 1, MR_ABORTED, 1), "");
    MR_CHECK_STR(tick(&t, 9), "");
    MR_CHECK_STR(tick(&t, 1), "push A 0:2<1");
    MR_CHECK_STR(answer(&t, A, 2, 0, 2, MR_ABORTED, 1), ""); /* longer than before */
    MR_CHECK_STR(tick(&t, 10), "");
    MR_CHECK_STR(tick(&t, 10), "push A 0:2<1");
    MR_CHECK_STR(answer(&t, A, 2, 0, 3, MR_OK, 0), "done 2 OK");
    end(&t);
}

MR_TEST(ps_client_pauses_at_a_gap_that_stays)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    push(&t, "0");
    MR_CHECK_STR(answer(&t, A, 2, 0, 1, MR_ABORTED, 7), "push A 0:2<1");
    MR_CHECK_STR(answer(&t, A, 2, 0, 2, MR_ABORTED, 7), "push A 0:2<1");
    MR_CHECK_STR(answer(&t, A, 2, 0, 3, MR_ABORTED, 7), "");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "done 1 OK, push A 0:2<1"); /* what it missed is there */
    MR_CHECK_STR(answer(&t, A, 2, 0, 4, MR_OK, 0), "done 2 OK");
    end(&t);
}

MR_TEST(ps_client_that_was_forgotten_ends)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    answer(&t, A, 1, 0, 1, MR_OK, 0);
    push(&t, "0");
    MR_CHECK_STR(answer(&t, A, 2, 0, 1, MR_ABORTED, 0), "done 2 ABORTED"); /* what was acknowledged is not known there */
    end(&t);
}

MR_TEST(ps_client_asks_again_when_no_answer_comes)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    MR_CHECK_INT(mr_psc_tick(t.c, t.now, &t.out), 1000);
    MR_CHECK_STR(tick(&t, 1000), "ask, push A 0:1<0");
    MR_CHECK_INT(mr_psc_tick(t.c, t.now, &t.out), 2000);
    end(&t);
}

MR_TEST(ps_client_closes_the_row_behind_what_was_cancelled)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    push(&t, "0");
    mr_psc_cancel(t.c, 1, t.now, &t.out);
    MR_CHECK_STR(told(&t), "done 1 CANCELLED");
    mr_psc_broken(t.c, A, t.now, &t.out);
    told(&t);
    MR_CHECK_STR(tick(&t, 10), "empty A 0:1<0, push A 0:2<1");
    MR_CHECK_STR(answer(&t, A, 1, 0, 2, MR_OK, 0), "");
    MR_CHECK_STR(answer(&t, A, 2, 0, 2, MR_OK, 0), "done 2 OK");
    MR_CHECK(mr_psc_settled(t.c));
    end(&t);
}

MR_TEST(ps_client_a_number_that_nobody_saw_is_taken_back)
{
    story t;
    begin(&t, (mr_psc_options){.window = 1});
    push(&t, "0");
    push(&t, "0"); /* not sent */
    mr_psc_cancel(t.c, 2, t.now, &t.out);
    MR_CHECK_STR(told(&t), "done 2 CANCELLED");
    push(&t, "0");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "done 1 OK, push A 0:3<1");
    end(&t);
}

MR_TEST(ps_client_a_refused_part_ends_the_push_when_the_others_are_done)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "02");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_INVALID_ARGUMENT, 0), "");
    MR_CHECK_STR(answer(&t, B, 1, 1, 1, MR_OK, 0), "done 1 INVALID_ARGUMENT");
    MR_CHECK_STR(tick(&t, 10), "empty A 0:1<0");
    MR_CHECK_STR(push(&t, "0"), "push A 0:2<1");
    end(&t);
}

MR_TEST(ps_client_a_deadline_ends_a_task_once)
{
    story t;
    begin(&t, (mr_psc_options){0});
    task(&t, true, "0", 0, 50);
    MR_CHECK_STR(tick(&t, 49), "");
    MR_CHECK_STR(tick(&t, 1), "done 1 DEADLINE_EXCEEDED");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "");
    MR_CHECK(mr_psc_settled(t.c));
    end(&t);
}

MR_TEST(ps_client_begins_a_task_after_others_have_ended)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    MR_CHECK_STR(task(&t, false, "0", 1, INT64_MAX), "");
    MR_CHECK_STR(task(&t, true, "2", 2, INT64_MAX), "");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), "done 1 OK, pull A 0");
    MR_CHECK_STR(answer(&t, A, 2, 0, 1, MR_OK, 0), "done 2 OK, push B 2:2<0");
    end(&t);
}

MR_TEST(ps_client_a_long_row_of_tasks_ends_without_recursion)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    for (int64_t i = 1; i < 100000; i++)
        task(&t, true, "", i, INT64_MAX);
    mr_psc_cancel(t.c, 1, t.now, &t.out);
    MR_CHECK_INT(t.out.n, 100000);
    MR_CHECK_INT(mr_psc_open(t.c), 0);
    end(&t);
}

MR_TEST(ps_client_a_lost_range_fails_and_the_row_goes_on_when_it_is_back)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    mr_ps_range *s = &t.v.ranges.p[0];
    s->lost = true;
    s->epoch = t.v.epoch + 1;
    MR_CHECK_STR(view(&t), "done 1 DATA_LOSS, ask");
    MR_CHECK_STR(push(&t, "0"), "done 2 DATA_LOSS");
    MR_CHECK_STR(push(&t, "1"), "push A 1:3<0");
    s->lost = false;
    s->epoch = t.v.epoch + 1;
    MR_CHECK_STR(view(&t), "empty A 0:1<0");
    MR_CHECK_STR(push(&t, "0"), "push A 0:4<1");
    end(&t);
}

MR_TEST(ps_client_another_generation_begins_at_zero)
{
    story t;
    begin(&t, (mr_psc_options){0});
    push(&t, "0");
    mr_ps_range *s = &t.v.ranges.p[0];
    s->epoch = s->generation = t.v.epoch + 1;
    MR_CHECK_STR(view(&t), "done 1 DATA_LOSS");
    MR_CHECK_STR(push(&t, "0"), "push A 0:2<0");
    end(&t);
}

MR_TEST(ps_client_holds_pushes_while_a_range_drains)
{
    story t;
    begin(&t, (mr_psc_options){0});
    mr_ps_range *s = &t.v.ranges.p[0];
    s->draining = true;
    s->epoch = t.v.epoch + 1;
    view(&t);
    MR_CHECK_STR(push(&t, "0"), "ask");
    MR_CHECK_STR(task(&t, false, "1", 0, INT64_MAX), "pull A 1");
    s->draining = false;
    move_range(&t, 0, B);
    MR_CHECK_STR(view(&t), "push B 0:1<0");
    end(&t);
}

MR_TEST(ps_client_has_room_for_so_many_bytes)
{
    story t;
    int64_t id;
    begin(&t, (mr_psc_options){.max_bytes = 25});
    push(&t, "0");
    push(&t, "0");
    MR_CHECK(mr_psc_room(t.c, 5) && !mr_psc_room(t.c, 6) && !mr_psc_room(t.c, SIZE_MAX));
    mr_psc_piece piece = {0, 10};
    mr_status *st = mr_psc_begin(t.c, true, &piece, 1, NULL, 0, INT64_MAX, 0, &id, &t.out);
    MR_CHECK(mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
    mr_status_free(st);
    answer(&t, A, 1, 0, 1, MR_OK, 0);
    MR_CHECK(mr_psc_room(t.c, 15));
    answer(&t, A, 2, 0, 1, MR_OK, 0);
    MR_CHECK(mr_psc_room(t.c, 1000)); /* too large for ever, so it goes alone */
    end(&t);
}

MR_TEST(ps_client_refuses_tasks_that_cannot_be)
{
    story t;
    int64_t id, after = 9;
    begin(&t, (mr_psc_options){0});
    const mr_psc_piece bad[][2] = {{{1, 1}, {1, 1}},
                                   {{2, 1}, {1, 1}},
                                   {{0, 1}, {4, 1}},
                                   {{-1, 1}, {1, 1}},
                                   {{0, SIZE_MAX}, {1, 1}}};
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_status *st = mr_psc_begin(t.c, true, bad[i], 2, NULL, 0, INT64_MAX, 0, &id, &t.out);
        MR_CHECK(mr_status_code(st) == MR_INVALID_ARGUMENT);
        mr_status_free(st);
    }
    mr_status *st = mr_psc_begin(t.c, true, NULL, 0, &after, 1, INT64_MAX, 0, &id, &t.out);
    MR_CHECK(mr_status_code(st) == MR_INVALID_ARGUMENT && t.out.n == 0);
    mr_status_free(st);
    end(&t);
}

MR_TEST(ps_client_begins_nothing_before_the_first_view)
{
    mr_psc *c = mr_psc_new(7, NULL);
    mr_psc_actions out = {0};
    int64_t id;
    mr_status *st = mr_psc_begin(c, true, NULL, 0, NULL, 0, INT64_MAX, 0, &id, &out);
    MR_CHECK(mr_status_code(st) == MR_UNAVAILABLE && mr_psc_range(c, 0) == NULL);
    mr_status_free(st);
    mr_psc_free(c);
}

MR_TEST(ps_client_takes_no_older_view)
{
    story t;
    begin(&t, (mr_psc_options){0});
    uint64_t epoch = mr_psc_epoch(t.c);
    t.v.epoch = epoch;
    move_range(&t, 0, B);
    t.v.ranges.p[0].epoch = 1;
    t.v.ranges.p[0].chain[0].since = 1;
    MR_CHECK_OK(mr_psc_view(t.c, &t.v, 0, &t.out));
    MR_CHECK(mr_psc_range(t.c, 0)->chain[0].id == A);
    end(&t);
}

MR_TEST(ps_client_a_pull_is_asked_again_freely)
{
    story t;
    begin(&t, (mr_psc_options){0});
    MR_CHECK_STR(task(&t, false, "03", 0, INT64_MAX), "pull A 0, pull B 3");
    mr_psc_broken(t.c, A, t.now, &t.out);
    MR_CHECK_STR(told(&t), "ask");
    MR_CHECK_STR(tick(&t, 10), "pull A 0");
    MR_CHECK_STR(answer(&t, A, 1, 0, 1, MR_OK, 0), ""); /* of a try that was given up: its values may be half there */
    MR_CHECK_STR(answer(&t, A, 1, 0, 2, MR_OK, 0), "");
    MR_CHECK_STR(answer(&t, B, 1, 1, 1, MR_OK, 0), "done 1 OK");
    end(&t);
}

/* ---- whatever comes ---- */

static void any_view(story *t)
{
    mr_ps_range *s = &t->v.ranges.p[mr_test_random() % 4];
    uint64_t head = 1 + mr_test_random() % 2;
    t->v.epoch++;
    *s = (mr_ps_range){.epoch = t->v.epoch, .generation = s->generation, .n = 1, .chain = {{head, t->v.epoch}}};
    s->draining = mr_test_random() % 4 == 0;
    s->lost = !s->draining && mr_test_random() % 8 == 0;
    if (mr_test_random() % 8 == 0)
        s->generation = t->v.epoch;
    MR_CHECK_OK(mr_psc_view(t->c, &t->v, t->now, &t->out));
}

static void any_task(story *t)
{
    mr_psc_piece pieces[4];
    int n = 0;
    for (int range = 0; range < 4; range++)
        if (mr_test_random() % 2)
            pieces[n++] = (mr_psc_piece){range, 10};
    int64_t after = t->task > 0 ? 1 + (int64_t)(mr_test_random() % (uint64_t)t->task) : 0;
    int64_t deadline_ns = mr_test_random() % 4 ? INT64_MAX : t->now + (int64_t)(mr_test_random() % 500);
    bool push = mr_test_random() % 4 > 0;
    MR_CHECK_OK(mr_psc_begin(t->c, push, pieces, n, &after, after > 0, deadline_ns, t->now, &t->task, &t->out));
}

static void any_answer(story *t)
{
    static const mr_code codes[] = {MR_OK,        MR_OK,      MR_ABORTED,          MR_UNAVAILABLE,
                                    MR_DATA_LOSS, MR_UNKNOWN, MR_INVALID_ARGUMENT, MR_RESOURCE_EXHAUSTED};
    int64_t id = t->task - (int64_t)(mr_test_random() % 8);
    mr_psc_answer(t->c, 1 + mr_test_random() % 2, id, (int)(mr_test_random() % 5) - 1, (int)(mr_test_random() % 3),
                  codes[mr_test_random() % MR_COUNT(codes)], mr_test_random() % 4, mr_test_random() % 4, t->now, &t->out);
}

MR_TEST(ps_client_ends_each_task_once_whatever_comes)
{
    enum { MOST = 20000 };
    static uint8_t ended[MOST + 1];
    story t;
    begin(&t, (mr_psc_options){.window = 2});
    for (int i = 0; i < 60000 && t.task < MOST; i++) {
        t.now += (int64_t)(mr_test_random() % 20);
        switch (mr_test_random() % 16) {
        case 0: any_view(&t); break;
        case 1: mr_psc_broken(t.c, 1 + mr_test_random() % 2, t.now, &t.out); break;
        case 2: mr_psc_cancel(t.c, t.task - (int64_t)(mr_test_random() % 8), t.now, &t.out); break;
        case 3: mr_psc_tick(t.c, t.now, &t.out); break;
        case 4: any_task(&t); break;
        default: any_answer(&t); break;
        }
        for (int k = 0; k < t.out.n; k++)
            if (t.out.p[k].what == MR_PSC_DONE)
                MR_CHECK(++ended[t.out.p[k].task] == 1 && mr_psc_ended(t.c, t.out.p[k].task));
        t.out.n = 0;
    }
    int n_ended = 0;
    for (int64_t id = 1; id <= t.task; id++)
        n_ended += ended[id];
    MR_CHECK_INT(n_ended + mr_psc_open(t.c), t.task);
    end(&t);
}
