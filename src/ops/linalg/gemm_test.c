/* ops/linalg/gemm_test.c -- compares products of random sizes with a plain loop. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "ops/linalg/sgemm.h"
#include "tests/harness/test.h"

static double entry(const mr_tensor *t, bool transposed, int64_t i, int64_t j)
{
    return mr_kernel_fixture_at(t, transposed ? j * t->dims[1] + i : i * t->dims[1] + j);
}

static void check_product(mr_dtype type, bool ta, bool tb, int64_t m, int64_t n, int64_t k)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 3, "MatMul",
                  MR_ATTRS({"transpose_a", mr_a_bool(ta)}, {"transpose_b", mr_a_bool(tb)}), 2,
                  (mr_dtype[]){type, type});
    mr_tensor *x = mr_kernel_fixture_random(type, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k});
    mr_tensor *y = mr_kernel_fixture_random(type, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n}), *z;
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(y)}, &z));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double want = 0;
            for (int64_t l = 0; l < k; l++)
                want += entry(x, ta, i, l) * entry(y, tb, l, j);
            MR_CHECK_NEAR(mr_kernel_fixture_at(z, i * n + j), want,
                          type == MR_HALF || type == MR_BFLOAT16 ? fabs(want) / 100 : 0);
        }
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    mr_tensor_unref(z);
    mr_kernel_fixture_deinit(&b);
}

/* Sizes around the limits of strips, panels and blocks. */
static void check_type(mr_dtype type)
{
    static const int64_t sizes[] = {1, 3, 4, 8, 17, 65, 130, 300};
    for (int round = 0; round < 24; round++) {
        int64_t m = sizes[mr_test_random() % 8], n = sizes[mr_test_random() % 8],
                k = sizes[mr_test_random() % 8];
        if (m * n * k > 1000000)
            m = 5;
        check_product(type, round & 1, round & 2, m, n, k);
    }
}

MR_TEST(matmul_of_floats_equals_a_plain_loop) { check_type(MR_FLOAT); }
MR_TEST(matmul_of_doubles_equals_a_plain_loop) { check_type(MR_DOUBLE); }
MR_TEST(matmul_of_ints_equals_a_plain_loop) { check_type(MR_INT32); }
MR_TEST(matmul_of_long_ints_equals_a_plain_loop) { check_type(MR_INT64); }
MR_TEST(matmul_of_halfs_equals_a_plain_loop) { check_type(MR_HALF); }
MR_TEST(matmul_of_bfloat16_equals_a_plain_loop) { check_type(MR_BFLOAT16); }
MR_TEST(matmul_of_complex_numbers_equals_a_plain_loop) { check_type(MR_COMPLEX64); }

/* ---- floats ---- */

static float *random_matrix(int64_t n)
{
    float *p = mr_new_array(float, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)(mr_test_random() % 2001) / 1000.0f - 1.0f;
    return p;
}

/* The matrices are parts of larger ones: rows are some entries apart. */
static void check_sgemm(bool ta, bool tb, mr_to_c how, int64_t m, int64_t n, int64_t k)
{
    mr_sgemm g = {.ta = ta,
                  .tb = tb,
                  .how = how,
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = (ta ? m : k) + 3,
                  .ldb = (tb ? k : n) + 5,
                  .ldc = n + (n > 1)};
    int64_t size = g.m * g.ldc;
    float *a = random_matrix((ta ? k : m) * g.lda), *b = random_matrix((tb ? n : k) * g.ldb);
    float *c = random_matrix(size), *before = mr_new_array(float, size);
    memcpy(before, c, (size_t)size * sizeof *c);
    g.a = a, g.b = b, g.c = c, g.thin = mr_sgemm_thin(&g);
    size_t bytes = mr_sgemm_room(&g);
    mr_allocator *alloc = mr_cpu_allocator();
    void *room = alloc->alloc(alloc, bytes);
    mr_sgemm_run(&g, room);
    alloc->free(alloc, room, bytes);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < g.ldc; j++) {
            double sum = 0, old = before[i * g.ldc + j];
            for (int64_t l = 0; l < k && j < n; l++)
                sum += (double)a[ta ? l * g.lda + i : i * g.lda + l] *
                       b[tb ? j * g.ldb + l : l * g.ldb + j];
            double want = j >= n              ? old
                          : how == MR_C_WRITE ? sum
                          : how == MR_C_ADD   ? old + sum
                                              : old - sum;
            MR_CHECK_NEAR(c[i * g.ldc + j], want, j < n ? 1e-5 * sqrt((double)k) : 0);
        }
    mr_free(a), mr_free(b), mr_free(c), mr_free(before);
}

static void check_kind(const char *kind)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 29, 33, 67, 130, 150};
    if (!mr_tiles_use(kind))
        mr_test_skip("this CPU cannot run %s", kind);
    for (int round = 0; round < 300; round++) {
        int64_t m = sizes[mr_test_random() % 14], n = sizes[mr_test_random() % 14];
        int64_t k = sizes[mr_test_random() % 14];
        check_sgemm(round & 1, round & 2, (mr_to_c)(round % 3), m, n, k);
    }
    check_sgemm(false, false, MR_C_WRITE, 31, 1030, 20);
    check_sgemm(true, true, MR_C_SUBTRACT, 31, 33, 600);
}

MR_TEST(sgemm_for_any_cpu_equals_a_plain_loop) { check_kind("plain"); }
MR_TEST(sgemm_for_avx2_equals_a_plain_loop) { check_kind("avx2"); }
MR_TEST(sgemm_for_avx512_equals_a_plain_loop) { check_kind("avx512"); }

/* The bits of a product, computed by this number of threads. */
static mr_tensor *product_of(int threads, const mr_tensor *x, const mr_tensor *y)
{
    mr_kernel_fixture b;
    mr_tensor *z;
    mr_dtype type = (mr_dtype)x->dtype;
    mr_kernel_fixture_init(&b, threads, "MatMul", NULL, 0, 2, (mr_dtype[]){type, type});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(y)}, &z));
    mr_kernel_fixture_deinit(&b);
    return z;
}

static void check_threads(mr_dtype type, int64_t m, int64_t n, int64_t k)
{
    mr_tensor *x = mr_kernel_fixture_random(type, 2, (int64_t[]){m, k});
    mr_tensor *y = mr_kernel_fixture_random(type, 2, (int64_t[]){k, n});
    for (int64_t e = 0; e < x->n; e++)
        if (type == MR_FLOAT)
            MR_DATA(float, x)[e] *= 0.1f;
        else
            MR_DATA(double, x)[e] *= 0.1;
    mr_tensor *one = product_of(1, x, y);
    for (int threads = 2; threads <= 5; threads++) {
        mr_tensor *many = product_of(threads, x, y);
        MR_CHECK(memcmp(one->data, many->data, (size_t)one->n * mr_dtype_size(type)) == 0);
        mr_tensor_unref(many);
    }
    mr_tensor_unref(one), mr_tensor_unref(x), mr_tensor_unref(y);
}

MR_TEST(matmul_gives_the_same_bits_with_any_number_of_threads)
{
    static const int64_t shapes[][3] = {
        {130, 300, 270}, {601, 75, 129}, {2, 3000, 70}, {3001, 1, 70}, {2000, 5, 40}, {2, 3, 3000}};
    for (int i = 0; i < MR_COUNT(shapes); i++) {
        check_threads(MR_FLOAT, shapes[i][0], shapes[i][1], shapes[i][2]);
        check_threads(MR_DOUBLE, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
}
