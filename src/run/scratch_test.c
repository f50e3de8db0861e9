#include "base/memory.h"
#include "run/scratch.h"
#include "tests/harness/test.h"

/* A run on a device with this allocator; nothing else of it is looked at. */
#define ON(allocator)                                      \
    &(mr_run)                                              \
    {                                                      \
        .step = &(mr_step)                                 \
        {                                                  \
            .device = &(mr_device) { .alloc = (allocator) } \
        }                                                  \
    }

MR_TEST(scratch_is_aligned_and_counted_while_it_is_there)
{
    mr_allocator *b = mr_budget_new(NULL, "scratch", 0);
    mr_allocator_stats stats;
    char *p = mr_scratch(ON(b), 100), *q = mr_scratch(ON(b), 0);
    MR_CHECK(p && q && (uintptr_t)p % 64 == 0);
    memset(p, 1, 100);
    mr_allocator_get_stats(b, &stats);
    MR_CHECK(stats.in_use >= 100);
    mr_scratch_free(p);
    mr_scratch_free(q);
    mr_scratch_free(NULL);
    mr_allocator_get_stats(b, &stats);
    MR_CHECK_INT(stats.in_use, 0);
    mr_budget_free(b);
}

MR_TEST(scratch_beyond_the_budget_is_refused)
{
    mr_allocator *b = mr_budget_new(NULL, "scratch", 1000);
    char *p = mr_scratch(ON(b), 500);
    MR_CHECK(p && !mr_scratch(ON(b), 500));
    MR_CHECK(!mr_scratch_more(ON(b), p, 900));
    mr_scratch_free(p);
    mr_budget_free(b);
}

MR_TEST(scratch_of_more_bytes_than_there_are_is_refused)
{
    volatile size_t many = SIZE_MAX; /* volatile: the compiler would see that it is too much */
    MR_CHECK(!mr_scratch(ON(mr_cpu_allocator()), many));
    MR_CHECK(!mr_scratch_zeroed(ON(mr_cpu_allocator()), many / 8, 16));
}

MR_TEST(scratch_zeroed_is_zero_where_other_scratch_was)
{
    const mr_run *r = ON(mr_cpu_allocator());
    for (int turn = 0; turn < 3; turn++) {
        char *p = mr_scratch_zeroed(r, 30, 10);
        for (int i = 0; i < 300; i++)
            MR_CHECK_INT(p[i], 0);
        memset(p, 7, 300);
        mr_scratch_free(p);
    }
}

MR_TEST(scratch_that_grows_keeps_what_it_held)
{
    const mr_run *r = ON(mr_cpu_allocator());
    char *p = mr_scratch_more(r, NULL, 10);
    memcpy(p, "millrace!", 10);
    MR_CHECK((p = mr_scratch_more(r, p, 100000)) != NULL);
    MR_CHECK_STR(p, "millrace!");
    MR_CHECK((p = mr_scratch_more(r, p, 10)) != NULL);
    MR_CHECK_STR(p, "millrace!");
    mr_scratch_free(p);
}
