/* base/deterministic_test.c -- loops are cut alike for any number of threads. */
#include "base/deterministic.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "tests/harness/test.h"

enum { N = 100003 };

static void mark(void *ctx, int64_t begin, int64_t end)
{
    unsigned char *starts = ctx; /* each part writes its own */
    starts[begin] = 1;
    for (int64_t i = begin + 1; i < end; i++)
        starts[i] = 2;
}

static unsigned char *parts_of(int n_threads)
{
    mr_pool *p = NULL;
    unsigned char *starts = mr_new_array(unsigned char, N);
    if (n_threads)
        MR_CHECK_OK(mr_pool_new("test", n_threads, &p));
    mr_pool_for(p, N, 1000, mark, starts);
    mr_pool_free(p);
    return starts;
}

MR_TEST(deterministic_loops_have_the_same_parts_for_any_threads)
{
    mr_deterministic_set(true);
    unsigned char *none = parts_of(0);
    int parts = 0;
    for (int i = 0; i < N; i++) {
        MR_CHECK(none[i] != 0);
        parts += none[i] == 1;
    }
    MR_CHECK(parts > 1);
    const int threads[] = {1, 2, 5, 40};
    for (int i = 0; i < MR_COUNT(threads); i++) {
        unsigned char *other = parts_of(threads[i]);
        MR_CHECK(memcmp(none, other, N) == 0);
        mr_free(other);
    }
    mr_free(none);
}

MR_TEST(deterministic_is_asked_for_by_the_environment)
{
    setenv("MILLRACE_DETERMINISTIC", "1", 1);
    MR_CHECK(mr_deterministic());
    MR_CHECK_INT(mr_pool_shares(NULL), MR_SHARES);
    mr_deterministic_set(false);
    MR_CHECK(!mr_deterministic());
    MR_CHECK_INT(mr_pool_shares(NULL), 1);
}
