/* dist/worker_steps_test.c */
#include "dist/worker_steps.h"

#include "tests/harness/test.h"

MR_TEST(worker_steps_meet_in_either_order)
{
    mr_worker_steps *t = mr_worker_steps_new();
    mr_worker_step *a, *b;
    bool is_new;
    MR_CHECK_OK(mr_worker_steps_get(t, 7, &a, &is_new));
    MR_CHECK(is_new);
    a->host = t;
    MR_CHECK_OK(mr_worker_steps_get(t, 7, &b, &is_new));
    MR_CHECK(!is_new && a == b && mr_worker_steps_any(t, NULL) == a);
    MR_CHECK(mr_worker_steps_end(t, 7) == t);
    MR_CHECK(!mr_worker_steps_any(t, NULL));
    mr_worker_steps_free(t);
}

MR_TEST(worker_steps_that_are_over_stay_so)
{
    mr_worker_steps *t = mr_worker_steps_new();
    mr_worker_step *a;
    bool is_new;
    MR_CHECK(!mr_worker_steps_end(t, 5)); /* the end came before anything else */
    MR_CHECK_ERR(mr_worker_steps_get(t, 5, &a, &is_new), MR_ABORTED, "Step 5 is over");
    for (int i = 100; i < 100 + MR_STEPS_REMEMBERED; i++)
        mr_worker_steps_end(t, i);
    MR_CHECK_OK(mr_worker_steps_get(t, 5, &a, &is_new)); /* forgotten at last */
    mr_worker_steps_end(t, 5);
    mr_worker_steps_free(t);
}

MR_TEST(worker_steps_do_a_request_once)
{
    mr_worker_steps *t = mr_worker_steps_new();
    MR_CHECK_OK(mr_worker_steps_once(t, 0));
    MR_CHECK_OK(mr_worker_steps_once(t, 0));
    MR_CHECK_OK(mr_worker_steps_once(t, -3));
    MR_CHECK_ERR(mr_worker_steps_once(t, -3), MR_ABORTED, "received twice");
    mr_worker_steps_free(t);
}

MR_TEST(worker_steps_begin_once_but_in_pieces)
{
    mr_worker_step s = {.id = 4}, p = {.id = 5};
    MR_CHECK_OK(mr_worker_steps_begin(&s, false, NULL));
    MR_CHECK_ERR(mr_worker_steps_begin(&s, false, NULL), MR_ABORTED, "Step 4 was begun before");
    MR_CHECK_ERR(mr_worker_steps_begin(&s, true, NULL), MR_ABORTED, "begun before");
    MR_CHECK_OK(mr_worker_steps_begin(&p, true, NULL));
    MR_CHECK_OK(mr_worker_steps_begin(&p, true, NULL));
}

MR_TEST(worker_steps_nobody_waits_for_end)
{
    mr_worker_step s = {.id = 4};
    mr_worker_steps_ask(&s);
    mr_worker_steps_ask(&s);
    MR_CHECK(!mr_worker_steps_asked(&s, true)); /* one more waits */
    MR_CHECK(mr_worker_steps_asked(&s, true));
    mr_worker_steps_ask(&s);
    MR_CHECK_OK(mr_worker_steps_begin(&s, false, NULL));
    MR_CHECK(!mr_worker_steps_asked(&s, true)); /* its master cleans it up */
}

MR_TEST(worker_steps_of_one_owner_are_found)
{
    mr_worker_steps *t = mr_worker_steps_new();
    mr_worker_step *a, *b;
    bool is_new;
    int x, y;
    MR_CHECK_OK(mr_worker_steps_get(t, 1, &a, &is_new));
    MR_CHECK_OK(mr_worker_steps_get(t, 2, &b, &is_new));
    MR_CHECK_OK(mr_worker_steps_begin(b, false, &x));
    MR_CHECK(mr_worker_steps_any(t, &x) == b && !mr_worker_steps_any(t, &y));
    mr_worker_steps_end(t, 1);
    mr_worker_steps_end(t, 2);
    mr_worker_steps_free(t);
}
