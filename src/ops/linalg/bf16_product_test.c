/* ops/linalg/bf16_product_test.c -- compares products of bfloat16 with a plain loop and with those through floats. */
#include "ops/linalg/bf16_product.h"

#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* Whole numbers, so small that all sums are exact in float, and so large that they are not in bfloat16. */
static mr_bf16 *random_matrix(int64_t n)
{
    mr_bf16 *x = mr_new_array(mr_bf16, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = mr_float_to_bf16((float)(mr_test_random() % 201) - 100);
    return x;
}

/* All matrices are parts of larger ones, and what is beside C stays as it is. */
static void check_product(mr_bf16_product p)
{
    p.lda = (p.ta ? p.m : p.k) + 3;
    p.ldb = (p.tb ? p.k : p.n) + 2;
    p.ldc = p.n + 1;
    mr_bf16 *a = random_matrix((p.ta ? p.k : p.m) * p.lda), *b = random_matrix((p.tb ? p.n : p.k) * p.ldb);
    mr_bf16 *c = random_matrix(p.m * p.ldc), *old = mr_new_array(mr_bf16, p.m * p.ldc);
    memcpy(old, c, (size_t)(p.m * p.ldc) * sizeof *c);
    p.a = a, p.b = b, p.c = c;
    mr_allocator *alloc = mr_cpu_allocator();
    size_t bytes = mr_bf16_product_room(&p);
    void *room = alloc->alloc(alloc, bytes);
    mr_bf16_product_run(&p, room);
    alloc->free(alloc, room, bytes);
    int64_t wrong = 0;
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.ldc; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p.k && j < p.n; k++)
                sum += (double)mr_bf16_to_float(a[p.ta ? k * p.lda + i : i * p.lda + k]) *
                       (double)mr_bf16_to_float(b[p.tb ? j * p.ldb + k : k * p.ldb + j]);
            mr_bf16 want = j < p.n ? mr_float_to_bf16((float)sum) : old[i * p.ldc + j];
            wrong += c[i * p.ldc + j].bits != want.bits;
        }
    MR_CHECK_INT(wrong, 0);
    mr_free(a), mr_free(b), mr_free(c), mr_free(old);
}

static void need_instructions(void)
{
    if (!mr_bf16_product_pay(100))
        mr_test_skip("this CPU has no AVX512_BF16");
}

MR_TEST(bf16_product_equals_a_plain_loop)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 13, 14, 15, 16, 17, 27, 28, 29, 31, 32, 33, 64, 70};
    need_instructions();
    for (int round = 0; round < 400; round++)
        check_product((mr_bf16_product){.ta = round & 1,
                                 .tb = round & 2,
                                 .m = sizes[mr_test_random() % MR_COUNT(sizes)],
                                 .n = sizes[mr_test_random() % MR_COUNT(sizes)],
                                 .k = sizes[mr_test_random() % MR_COUNT(sizes)]});
    for (int round = 0; round < 4; round++) { /* several blocks of B, of A, and a long sum */
        check_product((mr_bf16_product){.ta = round & 1, .tb = round & 2, .m = 5, .n = 530, .k = 65});
        check_product((mr_bf16_product){.ta = round & 1, .tb = round & 2, .m = 303, .n = 34, .k = 511});
        check_product((mr_bf16_product){.ta = round & 1, .tb = round & 2, .m = 30, .n = 34, .k = 1500});
    }
}

/* x y, computed by the MatMul op on some threads. */
static mr_tensor *matmul(int threads, bool pairs, const mr_tensor *x, const mr_tensor *y)
{
    mr_kernel_fixture b;
    mr_tensor *z;
    mr_fp_mode mode = mr_denormals_flush(); /* as in a step */
    mr_bf16_product_use(pairs);
    mr_kernel_fixture_init(&b, threads, "MatMul", NULL, 0, 2, (mr_dtype[]){MR_BFLOAT16, MR_BFLOAT16});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(y)}, &z));
    mr_kernel_fixture_deinit(&b);
    mr_bf16_product_use(true);
    mr_denormals_restore(mode);
    return z;
}

static mr_tensor *random_tensor(int64_t m, int64_t n)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_BFLOAT16, 2, (int64_t[]){m, n}, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(mr_bf16, t)[i] = mr_float_to_bf16((float)(mr_test_random() % 2001) / 1000 - 1);
    return t;
}

/* Sums in another order, of which a few then round to the other neighbour. */
MR_TEST(bf16_product_equals_products_through_floats)
{
    mr_tensor *x = random_tensor(60, 301), *y = random_tensor(301, 90);
    mr_tensor *z = matmul(2, true, x, y), *through_floats = matmul(2, false, x, y);
    for (int64_t i = 0; i < z->n; i++) {
        float want = mr_bf16_to_float(MR_DATA(mr_bf16, through_floats)[i]);
        MR_CHECK_NEAR(mr_bf16_to_float(MR_DATA(mr_bf16, z)[i]), want, fabsf(want) / 128 + 1e-5f);
    }
    mr_tensor_unref(x), mr_tensor_unref(y), mr_tensor_unref(z), mr_tensor_unref(through_floats);
}

MR_TEST(bf16_product_gives_the_same_bits_with_any_number_of_threads)
{
    static const int64_t shapes[][3] = {{130, 300, 271}, {601, 75, 129}, {2, 3000, 70}, {3001, 8, 70}};
    for (int i = 0; i < MR_COUNT(shapes); i++) {
        mr_tensor *x = random_tensor(shapes[i][0], shapes[i][2]), *y = random_tensor(shapes[i][2], shapes[i][1]);
        mr_tensor *one = matmul(1, true, x, y);
        for (int threads = 2; threads <= 5; threads++) {
            mr_tensor *many = matmul(threads, true, x, y);
            MR_CHECK(memcmp(one->data, many->data, (size_t)one->n * sizeof(mr_bf16)) == 0);
            mr_tensor_unref(many);
        }
        mr_tensor_unref(one), mr_tensor_unref(x), mr_tensor_unref(y);
    }
}

/* NaN, infinities, zeros of both signs, and numbers whose products, or which themselves, are denormal or too large:
 * the same as through floats. A product that underflows gives a zero of either sign, which depends on whether multiply
 * and add are fused. Each sum has one term, beside zeros. */
MR_TEST(bf16_product_treats_special_numbers_as_products_through_floats_do)
{
    static const uint16_t bits[] = {0x7fc0, 0xffc1, 0x7f80, 0xff80, 0x0000, 0x8000, 0x0001, 0x807f, 0x0080,
                                    0x8080, 0x0100, 0x1f80, 0x2000, 0x3f80, 0xbf80, 0x3f81, 0x5f80, 0x7f7f, 0xff7f};
    enum { N = MR_COUNT(bits) };
    mr_tensor *x, *y;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_BFLOAT16, 2, (int64_t[]){N, 3}, &x));
    MR_CHECK_OK(mr_tensor_new(NULL, MR_BFLOAT16, 2, (int64_t[]){3, N}, &y));
    for (int at = 0; at < 3; at++) {
        memset(x->data, 0, sizeof(mr_bf16) * (size_t)x->n);
        memset(y->data, 0, sizeof(mr_bf16) * (size_t)y->n);
        for (int i = 0; i < N; i++)
            MR_DATA(mr_bf16, x)[3 * i + at].bits = MR_DATA(mr_bf16, y)[at * N + i].bits = bits[i];
        mr_tensor *z = matmul(1, true, x, y), *want = matmul(1, false, x, y);
        for (int64_t i = 0; i < z->n; i++) {
            float v = mr_bf16_to_float(MR_DATA(mr_bf16, z)[i]), w = mr_bf16_to_float(MR_DATA(mr_bf16, want)[i]);
            MR_CHECK(isnan(w) ? isnan(v) : v == w);
        }
        mr_tensor_unref(z), mr_tensor_unref(want);
    }
    mr_tensor_unref(x), mr_tensor_unref(y);
}
