/* base/long_wait_test.c */
#include "base/long_wait.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

#define SECOND INT64_C(1000000000)

MR_TEST(long_wait_is_due_every_ten_seconds)
{
    mr_long_wait w;
    double seconds = 0;
    mr_long_wait_begin(&w, 5 * SECOND);
    MR_CHECK(!mr_long_wait_due(&w, 15 * SECOND - 1, &seconds));
    MR_CHECK(mr_long_wait_due(&w, 15 * SECOND, &seconds) && seconds == 10);
    MR_CHECK(!mr_long_wait_due(&w, 25 * SECOND - 1, &seconds));
    MR_CHECK(mr_long_wait_due(&w, 25 * SECOND, &seconds) && seconds == 20);
}

MR_TEST(long_wait_that_nobody_looked_at_is_due_once)
{
    mr_long_wait w;
    mr_long_wait_begin(&w, 0);
    MR_CHECK(mr_long_wait_due(&w, 100 * SECOND, NULL));
    MR_CHECK(!mr_long_wait_due(&w, 101 * SECOND, NULL));
}

MR_TEST(long_wait_takes_its_period_from_the_environment)
{
    mr_long_wait w;
    setenv("MILLRACE_WAIT_LOG_MS", "250", 1);
    mr_long_wait_set_period_ns(0);
    mr_long_wait_begin(&w, 0);
    MR_CHECK_INT(w.next_ns, SECOND / 4);
    setenv("MILLRACE_WAIT_LOG_MS", "soon", 1);
    mr_long_wait_set_period_ns(0);
    mr_long_wait_begin(&w, 0);
    MR_CHECK_INT(w.next_ns, 10 * SECOND);
    unsetenv("MILLRACE_WAIT_LOG_MS");
    mr_long_wait_set_period_ns(0);
}

MR_TEST(long_wait_on_a_condition_is_logged_until_its_time_is_over)
{
    mr_mutex mu;
    mr_cond c;
    mr_long_wait w;
    mr_mutex_init(&mu);
    mr_cond_init(&c);
    mr_test_log_begin(SECOND / 100);
    int64_t until_ns = mr_now_ns() + SECOND / 20;
    mr_long_wait_begin(&w, mr_now_ns());
    mr_lock(&mu);
    while (mr_long_wait_cond(&w, &c, &mu, until_ns, "%s: it is %s", "ps/0", "late"))
        ;
    MR_CHECK(mr_now_ns() >= until_ns);
    MR_CHECK(mr_test_log_count("Still waiting for ps/0: it is late (") >= 1);
    while (mr_test_log_count("Still waiting for ps/1 (") < 2) /* again and again */
        MR_CHECK(mr_long_wait_cond(&w, &c, &mu, 0, "ps/1"));
    mr_unlock(&mu);
    mr_test_log_end();
    mr_cond_deinit(&c);
    mr_mutex_deinit(&mu);
}
