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
    MR_CHECK(!is_new && a == b && mr_worker_steps_any(t) == a);
    MR_CHECK(mr_worker_steps_end(t, 7) == t);
    MR_CHECK(!mr_worker_steps_any(t));
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
