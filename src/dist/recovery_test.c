/* dist/recovery_test.c -- ways back to work. */
#include "dist/recovery.h"

#include "tests/harness/test.h"

static mr_status *gone(void) { return mr_error(MR_UNAVAILABLE, "ps/0 is gone"); }

MR_TEST(recovery_chief_prepares_what_is_not_ready)
{
    mr_recovery r;
    mr_recovery_init(&r, true, 0);
    MR_CHECK_INT(mr_recovery_begin(&r, 0), MR_RECOVER_OPEN);
    MR_CHECK_INT(mr_recovery_opened(&r, NULL, 1), MR_RECOVER_CHECK);
    MR_CHECK_INT(mr_recovery_checked(&r, NULL, false, 2), MR_RECOVER_PREPARE);
    MR_CHECK_INT(mr_recovery_prepared(&r, NULL, 3), MR_RECOVER_CHECK);
    MR_CHECK_INT(mr_recovery_checked(&r, NULL, true, 4), MR_RECOVER_WORK);
    mr_recovery_deinit(&r);
}

MR_TEST(recovery_others_wait_for_the_chief)
{
    mr_recovery r;
    mr_recovery_init(&r, false, 0);
    mr_recovery_begin(&r, 0);
    mr_recovery_opened(&r, NULL, 1);
    MR_CHECK_INT(mr_recovery_checked(&r, NULL, false, 2), MR_RECOVER_PAUSE);
    MR_CHECK_INT(mr_recovery_paused(&r), MR_RECOVER_CHECK);
    MR_CHECK_INT(mr_recovery_checked(&r, NULL, true, 2), MR_RECOVER_WORK);
    mr_recovery_deinit(&r);
}

MR_TEST(recovery_opens_anew_after_any_loss)
{
    mr_recovery r;
    mr_recovery_init(&r, true, 0);
    mr_recovery_begin(&r, 0);
    MR_CHECK_INT(mr_recovery_opened(&r, gone(), 1), MR_RECOVER_PAUSE);
    int64_t first = r.pause_ns;
    MR_CHECK_INT(mr_recovery_paused(&r), MR_RECOVER_OPEN);
    MR_CHECK(r.pause_ns > first);
    mr_recovery_opened(&r, NULL, 2);
    MR_CHECK_INT(mr_recovery_checked(&r, gone(), false, 3), MR_RECOVER_PAUSE);
    MR_CHECK_INT(mr_recovery_paused(&r), MR_RECOVER_OPEN);
    mr_recovery_opened(&r, NULL, 4);
    mr_recovery_checked(&r, NULL, false, 5);
    MR_CHECK_INT(mr_recovery_prepared(&r, gone(), 6), MR_RECOVER_PAUSE);
    MR_CHECK_INT(mr_recovery_paused(&r), MR_RECOVER_OPEN);
    mr_recovery_opened(&r, NULL, 7);
    MR_CHECK_INT(mr_recovery_checked(&r, NULL, true, 8), MR_RECOVER_WORK);
    MR_CHECK_INT(mr_recovery_lost(&r, gone(), 9), MR_RECOVER_PAUSE);
    MR_CHECK_INT((int)(r.pause_ns == first), 1); /* a new trouble, new patience */
    mr_recovery_deinit(&r);
}

MR_TEST(recovery_does_not_mend_a_wrong_graph)
{
    mr_recovery r;
    mr_recovery_init(&r, true, 0);
    mr_recovery_begin(&r, 0);
    MR_CHECK_INT(mr_recovery_opened(&r, mr_invalid("no such op"), 1), MR_RECOVER_FAIL);
    MR_CHECK_INT(mr_status_code(r.why), MR_INVALID_ARGUMENT);
    mr_recovery_deinit(&r);
}

MR_TEST(recovery_gives_up_at_the_deadline)
{
    mr_recovery r;
    mr_recovery_init(&r, true, 100);
    mr_recovery_begin(&r, 0);
    MR_CHECK_INT(mr_recovery_opened(&r, gone(), 100), MR_RECOVER_PAUSE);
    MR_CHECK_INT(mr_recovery_opened(&r, gone(), 101), MR_RECOVER_FAIL);
    MR_CHECK(strstr(mr_status_message(r.why), "ps/0 is gone") != NULL);
    mr_recovery_deinit(&r);
    mr_recovery_init(&r, false, 100); /* a chief that never comes */
    mr_recovery_begin(&r, 0);
    mr_recovery_opened(&r, NULL, 1);
    MR_CHECK_INT(mr_recovery_checked(&r, NULL, false, 101), MR_RECOVER_FAIL);
    MR_CHECK_INT(mr_status_code(r.why), MR_DEADLINE_EXCEEDED);
    mr_recovery_deinit(&r);
}
