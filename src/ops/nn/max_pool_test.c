/* ops/nn/max_pool_test.c -- the gradient of max pooling by windows that do not overlap, for which there is a faster
 * loop, against one value at a time. */
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static float value_at(const mr_tensor *x, int64_t b, int64_t y, int64_t x_at, int64_t k)
{
    return MR_DATA(float, x)[((b * x->dims[1] + y) * x->dims[2] + x_at) * x->dims[3] + k];
}

/* The tap of a window of 2 x 2 pixels that gets its gradient: the first of the largest; a NaN only if it is the first. */
static int top_of(const mr_tensor *x, int64_t b, int64_t y, int64_t x_at, int64_t k)
{
    int top = 0;
    for (int i = 1; i < 4; i++)
        if (value_at(x, b, 2 * y + i / 2, 2 * x_at + i % 2, k) > value_at(x, b, 2 * y + top / 2, 2 * x_at + top % 2, k))
            top = i;
    return top;
}

static mr_tensor *expected_gradient(const mr_tensor *x, const mr_tensor *g)
{
    mr_tensor *d;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 4, x->dims, &d));
    mr_tensor_zero(d);
    for (int64_t i = 0; i < g->n; i++) {
        int64_t k = i % g->dims[3], at = i / g->dims[3] % g->dims[2], y = i / g->dims[3] / g->dims[2] % g->dims[1];
        int64_t b = i / g->dims[3] / g->dims[2] / g->dims[1];
        int top = top_of(x, b, y, at, k);
        int64_t pixel = (b * x->dims[1] + 2 * y + top / 2) * x->dims[2] + 2 * at + top % 2;
        MR_DATA(float, d)[pixel * x->dims[3] + k] = 0 + MR_DATA(float, g)[i];
    }
    return d;
}

/* Few different values, so that windows have several maxima. */
static mr_tensor *random_image(const int64_t *dims)
{
    static const float values[] = {-1, 0, -0.0f, 1, 2, INFINITY, -INFINITY, NAN};
    mr_tensor *x;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 4, dims, &x));
    for (int64_t i = 0; i < x->n; i++)
        MR_DATA(float, x)[i] = values[mr_test_random() % MR_COUNT(values)];
    return x;
}

static void check_squares(const int64_t *dims, int threads)
{
    const mr_dtype types[3] = {MR_FLOAT, MR_FLOAT, MR_FLOAT};
    const int64_t two[4] = {1, 2, 2, 1}, small[4] = {dims[0], dims[1] / 2, dims[2] / 2, dims[3]};
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, threads, "MaxPoolGrad",
                           MR_ATTRS({"ksize", mr_a_ints(4, two)}, {"strides", mr_a_ints(4, two)},
                                    {"padding", mr_a_str("VALID")}), 3, types);
    mr_tensor *x = random_image(dims), *g = random_image(small), *d, *want = expected_gradient(x, g);
    mr_tensor *in[3] = {mr_tensor_ref(x), mr_tensor_ref(g), mr_tensor_ref(g)};
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &d));
    for (int64_t i = 0; i < d->n; i++) {
        float a = MR_DATA(float, d)[i], e = MR_DATA(float, want)[i];
        MR_CHECK(isnan(e) ? isnan(a) : a == e && signbit(a) == signbit(e));
    }
    mr_tensor_unref(d);
    mr_tensor_unref(want);
    mr_tensor_unref(g);
    mr_tensor_unref(x);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(max_pool_gradient_of_separate_squares)
{
    const int64_t dims[][4] = {{2, 8, 8, 33}, {3, 7, 9, 16}, {1, 2, 2, 1}, {2, 3, 2, 5}, {1, 9, 4, 70}};
    for (int i = 0; i < MR_COUNT(dims); i++) {
        check_squares(dims[i], 1);
        check_squares(dims[i], 3);
    }
}
