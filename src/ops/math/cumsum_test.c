/* ops/math/cumsum_test.c -- running sums of any number of packed rows. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static void check_scan(bool exclusive, bool reverse)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 3, "Cumsum",
                           MR_ATTRS({"exclusive", mr_a_bool(exclusive)}, {"reverse", mr_a_bool(reverse)}), 2,
                           (mr_dtype[]){MR_FLOAT, MR_INT32});
    for (int64_t rows = 1; rows < 14; rows++)
        for (int64_t n = 1; n < 9; n += 3) {
            mr_tensor *in[2] = {mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){rows, n}), mr_tensor_scalar_i32(1)};
            mr_tensor *x = mr_tensor_ref(in[0]), *y;
            MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &y));
            for (int64_t r = 0; r < rows; r++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++) {
                    int64_t at = r * n + (reverse ? n - 1 - i : i);
                    double next = sum + mr_kernel_fixture_at(x, at);
                    MR_CHECK(mr_kernel_fixture_at(y, at) == (exclusive ? sum : next));
                    sum = next;
                }
            }
            mr_tensor_unref(x);
            mr_tensor_unref(y);
        }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(cumsum_of_packed_rows_is_that_of_each_row)
{
    for (int k = 0; k < 4; k++)
        check_scan(k & 1, k & 2);
}
