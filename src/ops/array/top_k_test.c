/* ops/array/top_k_test.c -- TopKV2 beside its definition, for rows and k of all sizes. */
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* NaN above all, equal elements from the left. */
static bool is_before(const float *x, int64_t a, int64_t b)
{
    if (isnan(x[a]) || isnan(x[b]))
        return isnan(x[a]) && isnan(x[b]) ? a < b : isnan(x[a]);
    return x[a] != x[b] ? x[a] > x[b] : a < b;
}

static float random_element(int kind)
{
    int v = (int)(mr_test_random() % 40);
    if (kind == 0)
        return (float)(mr_test_random() % 1000000) - 5e5f;
    return v == 0 ? NAN : v == 1 ? -0.0f : v == 2 ? INFINITY : v == 3 ? -INFINITY : (float)(v % 6);
}

/* The elements chosen must be in order, and as many as are left out must come after the last of them. */
static void check_row(const float *x, int64_t n, const float *values, const int32_t *places, int64_t k)
{
    int64_t after = 0;
    for (int64_t i = 0; i < k; i++) {
        MR_CHECK(places[i] >= 0 && places[i] < n);
        MR_CHECK(memcmp(&values[i], &x[places[i]], sizeof *x) == 0);
        MR_CHECK(i == 0 || is_before(x, places[i - 1], places[i]));
    }
    for (int64_t i = 0; i < n; i++)
        after += is_before(x, places[k - 1], i);
    MR_CHECK_INT(after, n - k);
}

static void check_size(mr_kernel_fixture *b, int64_t rows, int64_t n, int64_t k, int kind)
{
    mr_tensor *in[2], *out[2];
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, (int64_t[]){rows, n}, &in[0]));
    in[1] = mr_tensor_scalar_i32((int32_t)k);
    float *x = in[0]->data, *copy = mr_new_array(float, rows *n);
    for (int64_t i = 0; i < rows * n; i++)
        x[i] = kind == 2 ? (float)i : random_element(kind); /* 2: every element replaces another */
    memcpy(copy, x, (size_t)(rows * n) * sizeof(float));
    MR_CHECK_OK(mr_kernel_fixture_run(b, in, out));
    for (int64_t r = 0; r < rows; r++)
        check_row(copy + r * n, n, MR_DATA(float, out[0]) + r * k, MR_DATA(int32_t, out[1]) + r * k, k);
    mr_tensor_unref(out[0]);
    mr_tensor_unref(out[1]);
    mr_free(copy);
}

MR_TEST(top_k_is_the_first_k_of_each_row_in_order)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 2, "TopKV2", NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_INT32});
    for (int kind = 0; kind < 3; kind++)
        for (int64_t n = 1; n < 2000; n += n < 70 ? 1 : n / 2)
            for (int64_t k = 1; k <= n; k += 1 + k / 2)
                check_size(&b, 1 + n % 3, n, k, kind);
    check_size(&b, 1, 50000, 100, 0);
    mr_kernel_fixture_deinit(&b);
}
