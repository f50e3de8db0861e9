/* ops/linalg/product_test.c -- compares every algorithm of product.c, on every kind of CPU, with a plain loop. */
#include "ops/linalg/product.h"

#include <complex.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const mr_dtype types[] = {MR_FLOAT, MR_DOUBLE, MR_INT16, MR_INT32, MR_INT64, MR_COMPLEX64, MR_COMPLEX128};

/* Entry i of a matrix, as complex number of double. Entries are small whole numbers, so all sums are exact. */
static mr_c128 entry(mr_dtype type, const void *x, int64_t i)
{
    mr_c128 v;
    mr_dtype_convert(type, (const char *)x + (size_t)i * mr_dtype_size(type), MR_COMPLEX128, &v, 1, false);
    return v;
}

static char *random_matrix(mr_dtype type, int64_t n)
{
    size_t size = mr_dtype_size(type);
    char *x = mr_alloc((size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        mr_c128 v = (double)(mr_test_random() % 9) - 4;
        if (mr_dtype_is_complex(type))
            v += I * ((double)(mr_test_random() % 9) - 4);
        mr_dtype_convert(MR_COMPLEX128, &v, type, x + (size_t)i * size, 1, false);
    }
    return x;
}

static mr_c128 expected(const mr_product *p, mr_c128 old, int64_t i, int64_t j)
{
    mr_c128 sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        mr_c128 a = entry(p->type, p->a, p->ta ? k * p->lda + i : i * p->lda + k);
        mr_c128 b = entry(p->type, p->b, p->tb ? j * p->ldb + k : k * p->ldb + j);
        sum += (p->conj_a ? conj(a) : a) * (p->conj_b ? conj(b) : b);
    }
    return p->how == MR_C_WRITE ? sum : p->how == MR_C_ADD ? old + sum : old - sum;
}

/* All matrices are parts of larger ones, and what is beside C stays as it is. */
static void check_product(mr_product p)
{
    size_t size = mr_dtype_size(p.type);
    int64_t beside = p.n == 1 ? 0 : (int64_t)(mr_test_random() % 3);
    p.lda = (p.ta ? p.m : p.k) + 3;
    p.ldb = (p.tb ? p.k : p.n) + 2;
    p.ldc = p.n + beside;
    char *a = random_matrix(p.type, (p.ta ? p.k : p.m) * p.lda), *b = random_matrix(p.type, (p.tb ? p.n : p.k) * p.ldb);
    char *c = random_matrix(p.type, p.m * p.ldc), *old = mr_alloc((size_t)(p.m * p.ldc) * size);
    memcpy(old, c, (size_t)(p.m * p.ldc) * size);
    p.a = a, p.b = b, p.c = c;
    p.way = mr_product_choose(&p);
    void *room = aligned_alloc(64, (mr_product_room(&p) + 63) / 64 * 64);
    mr_product_run(&p, room);
    int64_t wrong = 0;
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.ldc; j++) {
            mr_c128 before = entry(p.type, old, i * p.ldc + j), now = entry(p.type, c, i * p.ldc + j);
            wrong += now != (j < p.n ? expected(&p, before, i, j) : before);
        }
    MR_CHECK_INT(wrong, 0);
    free(room);
    mr_free(a);
    mr_free(b);
    mr_free(c);
    mr_free(old);
}

static void check_kind(const char *kind)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 13, 16, 30, 33, 70};
    if (!mr_product_use(kind))
        mr_test_skip("this CPU cannot run %s", kind);
    for (int t = 0; t < MR_COUNT(types); t++)
        for (int round = 0; round < 90; round++) {
            mr_product p = {.type = types[t], .ta = round & 1, .tb = round & 2, .how = (mr_to_c)(round % 3)};
            p.conj_a = mr_dtype_is_complex(p.type) && (round & 4);
            p.conj_b = mr_dtype_is_complex(p.type) && (round & 8);
            p.m = sizes[mr_test_random() % 11];
            p.n = sizes[mr_test_random() % 11];
            p.k = round % 10 == 0 ? 1100 : sizes[mr_test_random() % 11];
            check_product(p);
        }
    mr_product_use(NULL);
}

MR_TEST(product_equals_a_plain_loop_on_every_cpu) { check_kind("plain"); }
MR_TEST(product_equals_a_plain_loop_with_avx2) { check_kind("avx2"); }
MR_TEST(product_equals_a_plain_loop_with_avx512) { check_kind("avx512"); }

MR_TEST(product_of_large_matrices_equals_a_plain_loop)
{
    for (int t = 0; t < MR_COUNT(types); t++) { /* several blocks of B and k; of A and k; of A and B */
        check_product((mr_product){.type = types[t], .m = 12, .n = 600, .k = 270});
        check_product((mr_product){.type = types[t], .m = 400, .n = 40, .k = 270});
    }
    check_product((mr_product){.type = MR_COMPLEX128, .m = 120, .n = 530, .k = 260});
}

/* 60000 * 60000 is beyond an int. */
MR_TEST(product_of_short_ints_wraps)
{
    uint16_t a[40], b[40], c = 0, want = 0;
    for (int i = 0; i < 40; i++) {
        a[i] = b[i] = (uint16_t)(60000 + i);
        want = (uint16_t)(want + (unsigned)a[i] * b[i]);
    }
    mr_product p = {.type = MR_INT16, .m = 1, .n = 1, .k = 40, .lda = 40, .ldb = 1, .ldc = 1, .a = a, .b = b, .c = &c};
    p.way = mr_product_choose(&p);
    void *room = aligned_alloc(64, (mr_product_room(&p) + 63) / 64 * 64);
    mr_product_run(&p, room);
    MR_CHECK_INT(c, want);
    free(room);
}
