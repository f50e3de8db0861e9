/* ops/linalg/gemm_test.c -- products of random sizes against a plain loop. */
#include "ops/kernel_test.h"
#include "tests/harness/test.h"

static double entry(const mr_tensor *t, bool transposed, int64_t i, int64_t j)
{
    return mr_bench_at(t, transposed ? j * t->dims[1] + i : i * t->dims[1] + j);
}

static void check_product(mr_dtype type, bool ta, bool tb, int64_t m, int64_t n, int64_t k)
{
    mr_bench b;
    mr_bench_init(&b, 3, "MatMul",
                  MR_ATTRS({"transpose_a", mr_a_bool(ta)}, {"transpose_b", mr_a_bool(tb)}), 2,
                  (mr_dtype[]){type, type});
    mr_tensor *x = mr_bench_random(type, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k});
    mr_tensor *y = mr_bench_random(type, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n}), *z;
    MR_CHECK_OK(mr_bench_run(&b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(y)}, &z));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double want = 0;
            for (int64_t l = 0; l < k; l++)
                want += entry(x, ta, i, l) * entry(y, tb, l, j);
            MR_CHECK_NEAR(mr_bench_at(z, i * n + j), want,
                          type == MR_HALF || type == MR_BFLOAT16 ? fabs(want) / 100 : 0);
        }
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    mr_tensor_unref(z);
    mr_bench_deinit(&b);
}

/* Sizes around the borders of strips, panels and blocks, and of what goes to oneDNN. */
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
MR_TEST(matmul_of_complex_numbers_equals_a_plain_loop) { check_type(MR_COMPLEX64); }

/* Declared weakly: oneDNN brings OpenMP along, or not. */
int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int n) __attribute__((weak));

MR_TEST(matmul_leaves_the_number_of_openmp_threads_as_it_was)
{
    if (!omp_get_max_threads || !omp_set_num_threads)
        mr_test_skip("oneDNN here does not use OpenMP");
    omp_set_num_threads(7);
    check_product(MR_FLOAT, false, false, 65, 65, 65);
    MR_CHECK_INT(omp_get_max_threads(), 7);
}
