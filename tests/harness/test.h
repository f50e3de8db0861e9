/* tests/harness/test.h -- macros and functions for unit tests.
 *
 * MR_TEST(name) at the start of a line is found by the build; the runner (main.c beside this file)
 * runs each test in a child process with a deadline, so a crash or a hang is one red line.  A check
 * that fails prints where and both sides, and ends the test. */
#ifndef MR_TESTS_HARNESS_TEST_H
#define MR_TESTS_HARNESS_TEST_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

#define MR_TEST(name)       \
    void mr_test_##name(void); \
    void mr_test_##name(void)

void mr_test_fail(const char *file, int line, const char *fmt, ...) __attribute__((noreturn, format(printf, 3, 4)));
/* Ends the test as skipped; the reason is printed and counted. */
void mr_test_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* This test may take longer than the default deadline of 20 s. */
void mr_test_deadline(int seconds);
/* A fresh empty folder for this test, removed afterwards. */
const char *mr_test_dir(void);
/* The folder of our own golden files, tests/golden. */
const char *mr_test_golden(void);
/* The folder of the golden files made by TensorFlow (MILLRACE_GOLDEN, default ../shared/golden), which are not part of
 * the repository. Where it does not exist this ends the test, and the runner counts all such tests in one line. */
const char *mr_test_tensorflow_golden(void);
/* Deterministic numbers for a test: MILLRACE_SEED or 1. */
uint64_t mr_test_random(void);

#define MR_CHECK(cond) ((cond) ? (void)0 : mr_test_fail(__FILE__, __LINE__, "%s", #cond))
#define MR_CHECK_INT(a, b)                                                                             \
    do {                                                                                               \
        int64_t a_ = (int64_t)(a), b_ = (int64_t)(b);                                                  \
        if (a_ != b_)                                                                                  \
            mr_test_fail(__FILE__, __LINE__, "%s is %" PRId64 ", expected %s = %" PRId64, #a, a_, #b, b_); \
    } while (0)
#define MR_CHECK_STR(a, b)                                                                    \
    do {                                                                                      \
        const char *a_ = (a), *b_ = (b);                                                      \
        if (strcmp(a_, b_) != 0)                                                              \
            mr_test_fail(__FILE__, __LINE__, "%s is\n    \"%s\"\n  expected\n    \"%s\"", #a, a_, b_); \
    } while (0)
#define MR_CHECK_NEAR(a, b, tol)                                                                \
    do {                                                                                        \
        double a_ = (a), b_ = (b), t_ = (tol);                                                  \
        if (!(fabs(a_ - b_) <= t_) && !(isnan(a_) && isnan(b_)) && a_ != b_)                    \
            mr_test_fail(__FILE__, __LINE__, "%s is %.9g, expected %.9g within %g", #a, a_, b_, t_); \
    } while (0)
/* The call succeeds. */
#define MR_CHECK_OK(call)                                                                     \
    do {                                                                                      \
        mr_status *s_ = (call);                                                               \
        if (s_)                                                                               \
            mr_test_fail(__FILE__, __LINE__, "%s: %s: %s", #call, mr_code_name(mr_status_code(s_)), \
                         mr_status_message(s_));                                              \
    } while (0)
/* The call fails with this code and its message holds this text. */
#define MR_CHECK_ERR(call, code, text)                                                        \
    do {                                                                                      \
        mr_status *s_ = (call);                                                               \
        mr_test_check_error(__FILE__, __LINE__, #call, s_, code, text);                       \
    } while (0)
void mr_test_check_error(const char *file, int line, const char *what, mr_status *s, mr_code code,
                         const char *text); /* frees s */

#endif
