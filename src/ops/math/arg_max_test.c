/* ops/math/arg_max_test.c -- positions in packed rows of every length, with equal values and NaN among them. */
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* The definition: the first of the best numbers; 0 if all are NaN. */
static int64_t exact_place(const float *x, int64_t n, bool largest)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best < 0 || (largest ? x[i] > x[best] : x[i] < x[best])))
            best = i;
    return best < 0 ? 0 : best;
}

static void check_rows(mr_kernel_fixture *b, bool largest, int64_t rows, int64_t n)
{
    mr_tensor *in[2], *out;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, (int64_t[]){rows, n}, &in[0]));
    in[1] = mr_tensor_scalar_i32(1);
    float *x = in[0]->data, *copy = mr_new_array(float, rows *n);
    int numbers = (int)(mr_test_random() % 20);
    for (int64_t i = 0; i < rows * n; i++) { /* few different values, so that many are equal */
        int v = (int)(mr_test_random() % 24);
        x[i] = v > numbers ? NAN : v == 3 ? -INFINITY : v == 4 ? INFINITY : v == 5 ? -0.0f : (float)(v - 6);
    }
    memcpy(copy, x, (size_t)(rows * n) * sizeof(float));
    MR_CHECK_OK(mr_kernel_fixture_run(b, in, &out));
    for (int64_t r = 0; r < rows; r++)
        MR_CHECK_INT(MR_DATA(int64_t, out)[r], exact_place(copy + r * n, n, largest));
    mr_tensor_unref(out);
    mr_free(copy);
}

static void check_lengths(const char *op, bool largest)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 2, op, NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_INT32});
    for (int64_t n = 1; n < 300; n += n < 140 ? 1 : 37)
        check_rows(&b, largest, 1 + n % 5, n);
    check_rows(&b, largest, 700, 3);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(arg_max_of_packed_rows_is_the_first_largest_number) { check_lengths("ArgMax", true); }
MR_TEST(arg_min_of_packed_rows_is_the_first_smallest_number) { check_lengths("ArgMin", false); }
