/* dist/session_test.c */
#include "dist/session.h"

#include <stdio.h>

#include "tests/harness/test.h"

/* "ask 0, ask 2"; clears the actions. */
static const char *told(mr_create_actions *a)
{
    static const char *const names[] = {"ask", "gather", "make", "cancel", "delete", "reply"};
    static char text[256];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < a->n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %d", i ? ", " : "", names[a->p[i].what], a->p[i].task);
    a->n = 0;
    return text;
}

static const bool members[] = {true, false, true};

MR_TEST(creation_goes_in_rounds)
{
    mr_creation c;
    mr_create_actions a = {0};
    mr_creation_init(&c, 3, members);
    mr_creation_begin(&c, &a);
    MR_CHECK_STR(told(&a), "ask 0, ask 2");
    mr_creation_came(&c, 2, NULL, &a);
    mr_creation_came(&c, 2, NULL, &a);
    MR_CHECK_STR(told(&a), "");
    mr_creation_came(&c, 0, NULL, &a);
    MR_CHECK_STR(told(&a), "gather -1");
    mr_creation_gathered(&c, NULL, &a);
    MR_CHECK_STR(told(&a), "make 0, make 2");
    mr_creation_came(&c, 0, NULL, &a);
    mr_creation_came(&c, 2, NULL, &a);
    MR_CHECK_STR(told(&a), "reply -1");
    MR_CHECK_OK(mr_creation_result(&c));
    mr_vec_deinit(&a);
    mr_creation_deinit(&c);
}

MR_TEST(creation_that_fails_leaves_no_session_behind)
{
    mr_creation c;
    mr_create_actions a = {0};
    mr_creation_init(&c, 3, members);
    mr_creation_begin(&c, &a);
    mr_creation_came(&c, 0, NULL, &a);
    mr_creation_came(&c, 2, NULL, &a);
    mr_creation_gathered(&c, NULL, &a);
    told(&a);
    mr_creation_came(&c, 2, mr_error(MR_UNAVAILABLE, "gone"), &a);
    MR_CHECK_STR(told(&a), "cancel 0");
    mr_creation_came(&c, 0, mr_error(MR_CANCELLED, "cancelled"), &a);
    MR_CHECK_STR(told(&a), "delete 0, delete 2, reply -1"); /* 2 may have made one before it went */
    MR_CHECK_ERR(mr_creation_result(&c), MR_UNAVAILABLE, "gone");
    mr_vec_deinit(&a);
    mr_creation_deinit(&c);
}

MR_TEST(creation_ends_when_the_client_leaves)
{
    mr_creation c;
    mr_create_actions a = {0};
    mr_creation_init(&c, 3, members);
    mr_creation_begin(&c, &a);
    told(&a);
    mr_creation_stop(&c, mr_error(MR_CANCELLED, "left"), &a);
    MR_CHECK_STR(told(&a), "cancel 0, cancel 2");
    mr_creation_came(&c, 0, NULL, &a);
    mr_creation_came(&c, 2, mr_error(MR_CANCELLED, "cancelled"), &a);
    MR_CHECK_STR(told(&a), "reply -1");
    MR_CHECK_ERR(mr_creation_result(&c), MR_CANCELLED, "left");
    mr_vec_deinit(&a);
    mr_creation_deinit(&c);
}

MR_TEST(telling_is_tried_again_while_it_may_help)
{
    MR_CHECK_INT(mr_tell_again_ns(0, MR_UNAVAILABLE), 100000000);
    MR_CHECK_INT(mr_tell_again_ns(20, MR_DEADLINE_EXCEEDED), 10000000000);
    MR_CHECK_INT(mr_tell_again_ns(0, MR_ABORTED), -1);
    MR_CHECK_INT(mr_tell_again_ns(66, MR_UNAVAILABLE), -1);
}

MR_TEST(worker_sessions_end_with_their_master)
{
    mr_worker_sessions t = {0};
    mr_worker_session *a, *b, *c;
    mr_sv m = MR_SV("m");
    MR_CHECK_OK(mr_worker_sessions_add(&t, MR_SV("a"), m, 1, &a));
    MR_CHECK_OK(mr_worker_sessions_add(&t, MR_SV("b"), m, 2, &b));
    MR_CHECK_OK(mr_worker_sessions_add(&t, MR_SV("c"), MR_SV(""), 0, &c));
    MR_CHECK_ERR(mr_worker_sessions_add(&t, MR_SV("b"), m, 2, &a), MR_ALREADY_EXISTS, "already exists");
    a = mr_worker_sessions_left_by(&t, &m, 2);
    MR_CHECK(a && strcmp(a->handle, "a") == 0);
    mr_worker_sessions_end(&t, mr_sv_of(a->handle));
    MR_CHECK(!mr_worker_sessions_left_by(&t, &m, 2));
    MR_CHECK(mr_worker_sessions_left_by(&t, &m, 0) == b);
    MR_CHECK_ERR(mr_worker_sessions_add(&t, MR_SV("a"), m, 1, &a), MR_ABORTED, "was deleted");
    mr_worker_sessions_end(&t, MR_SV("b"));
    mr_worker_sessions_end(&t, MR_SV("c"));
    MR_CHECK(!mr_worker_sessions_left_by(&t, NULL, 0));
    mr_worker_sessions_deinit(&t);
}
