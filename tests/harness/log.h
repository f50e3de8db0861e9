/* tests/harness/log.h -- what the library logs, for tests that wait for a line. */
#ifndef MR_TESTS_HARNESS_LOG_H
#define MR_TESTS_HARNESS_LOG_H

#include <stdint.h>

/* Hears the log from now on; long waits are due every so often (base/long_wait.h). */
void mr_test_log_begin(int64_t wait_period_ns);
/* Waits until a text has come so many times; the test's deadline ends a wait in vain. */
void mr_test_log_wait(const char *part, int times);
int mr_test_log_count(const char *part);
void mr_test_log_end(void);

#endif
