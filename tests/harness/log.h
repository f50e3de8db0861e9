/* tests/harness/log.h -- captures the library's log, for tests that wait for a line. */
#ifndef MR_TESTS_HARNESS_LOG_H
#define MR_TESTS_HARNESS_LOG_H

#include <stdint.h>

/* Captures the log from now on; sets the interval of messages about long waits (base/long_wait.h). */
void mr_test_log_begin(int64_t wait_period_ns);
/* Waits until a text has occurred that many times; the test's deadline bounds the wait. */
void mr_test_log_wait(const char *part, int times);
int mr_test_log_count(const char *part);
void mr_test_log_end(void);

#endif
