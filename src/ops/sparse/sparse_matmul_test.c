/* ops/sparse/sparse_matmul_test.c -- SparseTensorDenseMatMul beside its definition, for rows of every length. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

enum { ROWS = 9, INNER = 13, ENTRIES = 40 };

/* All numbers are small integers, so that sums are exact in any order. */
static void check_product(mr_dtype type, int64_t n, bool adjoint_b)
{
    mr_kernel_fixture b;
    const int64_t *dims = adjoint_b ? (int64_t[]){n, INNER} : (int64_t[]){INNER, n};
    const int64_t shape[] = {ROWS, INNER};
    double *want = mr_new_array(double, ROWS *n);
    mr_tensor *in[4] = {NULL, mr_kernel_fixture_random(type, 1, (int64_t[]){ENTRIES}), mr_tensor_vector_i64(2, shape),
                        mr_kernel_fixture_random(type, 2, dims)},
              *out;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT64, 2, (int64_t[]){ENTRIES, 2}, &in[0]));
    memset(want, 0, (size_t)(ROWS * n) * sizeof *want);
    for (int i = 0; i < ENTRIES; i++) {
        int64_t row = (int64_t)(mr_test_random() % ROWS), col = (int64_t)(mr_test_random() % INNER);
        MR_DATA(int64_t, in[0])[2 * i] = row;
        MR_DATA(int64_t, in[0])[2 * i + 1] = col;
        for (int64_t k = 0; k < n; k++)
            want[row * n + k] += mr_kernel_fixture_at(in[1], i) *
                                 mr_kernel_fixture_at(in[3], adjoint_b ? k * INNER + col : col * n + k);
    }
    mr_kernel_fixture_init(&b, 2, "SparseTensorDenseMatMul", MR_ATTRS({"adjoint_b", mr_a_bool(adjoint_b)}), 4,
                           (mr_dtype[]){MR_INT64, type, MR_INT64, type});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &out));
    for (int64_t i = 0; i < ROWS * n; i++)
        MR_CHECK(mr_kernel_fixture_at(out, i) == want[i]);
    mr_tensor_unref(out);
    mr_free(want);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(sparse_times_dense_for_rows_of_every_length)
{
    static const mr_dtype types[] = {MR_FLOAT, MR_DOUBLE, MR_INT32};
    for (int t = 0; t < MR_COUNT(types); t++)
        for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 33) {
            check_product(types[t], n, false);
            check_product(types[t], n, true);
        }
}
