/* base/memory_test.c */
#include "base/memory.h"
#include "base/vec.h"
#include "tests/harness/test.h"

MR_TEST(memory_of_zero_bytes_is_a_pointer)
{
    void *p[] = {mr_alloc(0), mr_calloc(0, 8), mr_calloc(8, 0), mr_try_alloc(0),
                 mr_try_calloc(0, 0)};
    for (int i = 0; i < MR_COUNT(p); i++) {
        MR_CHECK(p[i] != NULL);
        mr_free(p[i]);
    }
    mr_free(NULL);
}

MR_TEST(memory_new_is_zeroed)
{
    int *p = mr_new_array(int, 1000);
    for (int i = 0; i < 1000; i++)
        MR_CHECK_INT(p[i], 0);
    mr_free(p);
}

MR_TEST(memory_strndup_copies_nuls_inside)
{
    char *s = mr_strndup("a\0bc", 3);
    MR_CHECK(memcmp(s, "a\0b", 4) == 0);
    mr_free(s);
    s = mr_strndup(NULL, 0);
    MR_CHECK_STR(s, "");
    mr_free(s);
}

MR_TEST(memory_try_refuses_sizes_that_overflow)
{
    volatile size_t huge = SIZE_MAX / 2; /* hidden from the compiler, which would warn */
    MR_CHECK(mr_try_calloc(huge, 3) == NULL);
    MR_CHECK(mr_try_alloc(huge + 1) == NULL);
    void *p = mr_try_alloc(8);
    MR_CHECK(mr_try_realloc(p, huge + 1) == NULL);
    mr_free(p);
}

MR_TEST(memory_fails_the_nth_try_only)
{
    mr_memory_fail_after(2);
    void *p[] = {mr_try_alloc(8), mr_try_alloc(8), mr_try_alloc(8)};
    MR_CHECK(p[0] && !p[1] && p[2]);
    mr_memory_fail_after(1);
    mr_free(mr_alloc(8)); /* not one of them */
    MR_CHECK(mr_try_realloc(p[0], 100) == NULL);
    mr_memory_fail_after(1);
    mr_memory_fail_after(0);
    p[1] = mr_try_calloc(1, 1);
    MR_CHECK(p[1] != NULL);
    for (int i = 0; i < 3; i++)
        mr_free(p[i]);
}

MR_TEST(memory_size_arithmetic_tells_overflow)
{
    size_t n = 7;
    int64_t i = 7;
    MR_CHECK(mr_size_add(SIZE_MAX - 1, 1, &n) && n == SIZE_MAX);
    MR_CHECK(!mr_size_add(SIZE_MAX, 1, &n));
    MR_CHECK(!mr_size_mul(SIZE_MAX / 2, 3, &n));
    MR_CHECK(mr_i64_mul(INT64_MIN, 1, &i) && i == INT64_MIN);
    MR_CHECK(!mr_i64_mul(INT64_MIN, -1, &i));
    MR_CHECK(!mr_i64_add(INT64_MAX, 1, &i));
}

MR_TEST(vec_pushes_pops_and_removes)
{
    MR_VEC(int) v = {0};
    for (int i = 0; i < 1000; i++)
        mr_vec_push(&v, i);
    MR_CHECK_INT(v.n, 1000);
    MR_CHECK_INT(mr_vec_last(&v), 999);
    MR_CHECK_INT(mr_vec_pop(&v), 999);
    mr_vec_remove_swap(&v, 10);
    MR_CHECK_INT(v.p[10], 998);
    MR_CHECK_INT(v.n, 998);
    mr_vec_deinit(&v);
    MR_CHECK(v.p == NULL && v.n == 0);
}

MR_TEST(vec_reserve_keeps_what_is_there)
{
    MR_VEC(struct { char c[24]; }) v = {0};
    mr_vec_reserve(&v, 3);
    int cap = v.cap;
    MR_CHECK(cap >= 3);
    v.n = 1;
    memset(&v.p[0], 'x', 24);
    mr_vec_reserve(&v, 1000);
    MR_CHECK(v.cap >= 1000 && v.p[0].c[23] == 'x');
    mr_vec_deinit(&v);
}
