/* base/arena_test.c */
#include "base/arena.h"

#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(arena_gives_aligned_memory_that_does_not_overlap)
{
    mr_arena a;
    char *p[500];
    mr_arena_init(&a, 300);
    for (int i = 0; i < 500; i++) {
        size_t n = (size_t)(mr_test_random() % 200);
        p[i] = mr_arena_alloc(&a, n + 4);
        MR_CHECK_INT((uintptr_t)p[i] % 16, 0);
        memset(p[i], i & 0xff, n + 4);
    }
    for (int i = 0; i < 500; i++)
        for (int j = 0; j < 4; j++)
            MR_CHECK_INT((unsigned char)p[i][j], i & 0xff);
    mr_arena_deinit(&a);
}

MR_TEST(arena_serves_requests_larger_than_a_block)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    char *small = mr_arena_alloc(&a, 10);
    char *large = mr_arena_alloc(&a, 1 << 20);
    memset(large, 1, 1 << 20);
    char *next = mr_arena_alloc(&a, 10); /* the first block still has room */
    MR_CHECK(next - small > 0 && next - small < 64);
    mr_arena_deinit(&a);
}

/* One round of a step's allocations, none of which may need new memory when the arena is warm. */
static void one_step(mr_arena *a)
{
    for (int i = 0; i < 200; i++)
        MR_CHECK(mr_arena_try_alloc(a, (size_t)(i * 7 % 90)) != NULL);
    MR_CHECK(mr_arena_try_alloc(a, 50000) != NULL);
    MR_CHECK(mr_arena_try_alloc(a, 3000) != NULL);
    for (int i = 0; i < 200; i++)
        MR_CHECK(mr_arena_try_alloc(a, 100) != NULL);
}

MR_TEST(arena_allocates_nothing_when_warm)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    for (int i = 0; i < 5; i++) {
        one_step(&a);
        mr_arena_reset(&a);
        mr_memory_fail_after(1); /* the next allocation would fail */
    }
    mr_memory_fail_after(0);
    mr_arena_deinit(&a);
}

MR_TEST(arena_try_alloc_gives_null_when_memory_is_out)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_memory_fail_after(1);
    MR_CHECK(mr_arena_try_alloc(&a, 10) == NULL);
    MR_CHECK(mr_arena_try_alloc(&a, SIZE_MAX) == NULL);
    MR_CHECK(mr_arena_try_alloc(&a, SIZE_MAX - 40) == NULL);
    MR_CHECK(mr_arena_try_calloc(&a, SIZE_MAX / 2, 3) == NULL);
    MR_CHECK(mr_arena_try_alloc(&a, 10) != NULL);
    mr_arena_deinit(&a);
}

MR_TEST(arena_alloc_survives_a_single_refusal)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_memory_fail_after(1);
    MR_CHECK(mr_arena_alloc(&a, 10) != NULL);
    mr_arena_deinit(&a);
}

MR_TEST(arena_copies_and_formats)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    MR_CHECK_STR(mr_arena_strdup(&a, "abc"), "abc");
    MR_CHECK(memcmp(mr_arena_strndup(&a, "a\0b", 3), "a\0b", 4) == 0);
    MR_CHECK_STR(mr_arena_strndup(&a, NULL, 0), "");
    MR_CHECK_STR(mr_arena_printf(&a, "%d %s", 7, "x"), "7 x");
    MR_CHECK(memcmp(mr_arena_memdup(&a, "xyz", 3), "xyz", 3) == 0);
    MR_CHECK(mr_arena_memdup(&a, NULL, 0) != NULL);
    int *zeros = mr_arena_array(&a, int, 100);
    for (int i = 0; i < 100; i++)
        MR_CHECK_INT(zeros[i], 0);
    mr_arena_deinit(&a);
}

MR_TEST(arena_may_be_zeroed_instead_of_initialised)
{
    mr_arena a = {0};
    char *p = mr_arena_alloc(&a, 10), *q = mr_arena_alloc(&a, 10);
    MR_CHECK(q - p > 0 && q - p < 64); /* in one block */
    mr_arena_deinit(&a);
}

MR_TEST(arena_can_be_used_again_after_deinit)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_arena_alloc(&a, 10);
    mr_arena_deinit(&a);
    mr_arena_alloc(&a, 10);
    mr_arena_deinit(&a);
}
