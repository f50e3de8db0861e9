/* ops/nn/batch_norm_test.c -- the gradient of FusedBatchNorm in training against differences of y
 * alone (its other outputs are statistics, which the examples' check would differentiate too), and
 * its sums. */
#include "base/memory.h"
#include "ops/kernel_test.h"
#include "tests/harness/test.h"

enum { N_IN = 5, N_OUT = 6 };

static void open_forward(mr_bench *b, int threads, const char *layout)
{
    const mr_dtype types[N_IN] = {MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT};
    mr_bench_init(b, threads, "FusedBatchNormV3", MR_ATTRS({"data_format", mr_a_str(layout)}), N_IN,
                  types);
}

static mr_tensor *random_image(const int64_t *dims, float mean)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 4, dims, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(float, t)[i] = mean + (float)(mr_test_random() % 2001) / 1000.0f - 1.0f;
    return t;
}

static mr_tensor *vector(int64_t n, float first, float step)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, &n, &t));
    for (int64_t i = 0; i < n; i++)
        MR_DATA(float, t)[i] = first + step * (float)i;
    return t;
}

static void forward(mr_bench *b, const mr_tensor *x, int64_t channels, mr_tensor **out)
{
    mr_tensor *in[N_IN] = {mr_tensor_ref(x), vector(channels, 0.5f, 0.25f), vector(channels, 1, -1),
                           vector(0, 0, 0), vector(0, 0, 0)};
    MR_CHECK_OK(mr_bench_run(b, in, out));
}

static void drop(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(t[i]);
}

/* sum(w y), with element i of x moved by h. */
static double loss(mr_bench *b, const mr_tensor *x, int64_t i, float h, const mr_tensor *w,
                   int64_t channels)
{
    mr_tensor *moved, *out[N_OUT];
    MR_CHECK_OK(mr_tensor_copy(NULL, x, &moved));
    MR_DATA(float, moved)[i] += h;
    forward(b, moved, channels, out);
    double sum = 0;
    for (int64_t k = 0; k < w->n; k++)
        sum += mr_bench_at(w, k) * mr_bench_at(out[0], k);
    mr_tensor_unref(moved);
    drop(out, N_OUT);
    return sum;
}

static void check_gradient(const char *layout, const int64_t *dims, int64_t channels)
{
    mr_bench b, back;
    const mr_dtype types[6] = {MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT};
    open_forward(&b, 1, layout);
    mr_bench_init(&back, 1, "FusedBatchNormGradV3", MR_ATTRS({"data_format", mr_a_str(layout)}), 6,
                  types);
    mr_tensor *x = random_image(dims, 0), *w = random_image(dims, 0), *out[N_OUT], *d[5];
    forward(&b, x, channels, out);
    mr_tensor *in[6] = {mr_tensor_ref(w), mr_tensor_ref(x), vector(channels, 0.5f, 0.25f),
                        mr_tensor_ref(out[3]), mr_tensor_ref(out[4]), mr_tensor_ref(out[5])};
    MR_CHECK_OK(mr_bench_run(&back, in, d));
    for (int64_t i = 0; i < x->n; i++) {
        double up = loss(&b, x, i, 0.01f, w, channels), down = loss(&b, x, i, -0.01f, w, channels);
        MR_CHECK_NEAR(mr_bench_at(d[0], i), (up - down) / 0.02, 2e-3);
    }
    drop(out, N_OUT);
    drop(d, 5);
    mr_tensor_unref(x);
    mr_tensor_unref(w);
    mr_bench_deinit(&b);
    mr_bench_deinit(&back);
}

MR_TEST(batch_norm_gradient_agrees_with_differences)
{
    check_gradient("NHWC", (const int64_t[]){2, 3, 3, 3}, 3);
}

MR_TEST(batch_norm_gradient_agrees_with_differences_channels_first)
{
    check_gradient("NCHW", (const int64_t[]){2, 3, 3, 4}, 3);
}

/* A mean far from zero would ruin a variance computed as mean of squares minus square of mean. */
MR_TEST(batch_norm_variance_survives_a_large_mean)
{
    const int64_t dims[4] = {16, 32, 32, 5};
    mr_bench b;
    mr_tensor *x = random_image(dims, 1000), *out[N_OUT];
    open_forward(&b, 2, "NHWC");
    forward(&b, x, 5, out);
    for (int64_t c = 0; c < 5; c++) {
        double mean = 0, squares = 0, m = (double)x->n / 5;
        for (int64_t i = c; i < x->n; i += 5)
            mean += mr_bench_at(x, i) / m;
        for (int64_t i = c; i < x->n; i += 5)
            squares += (mr_bench_at(x, i) - mean) * (mr_bench_at(x, i) - mean) / m;
        MR_CHECK_NEAR(mr_bench_at(out[3], c), mean, 1e-4);
        MR_CHECK_NEAR(mr_bench_at(out[4], c), squares, 1e-6);
    }
    mr_tensor_unref(x);
    drop(out, N_OUT);
    mr_bench_deinit(&b);
}

MR_TEST(batch_norm_is_the_same_in_any_number_of_threads)
{
    const int64_t dims[4] = {16, 20, 20, 24};
    mr_tensor *x = random_image(dims, 0), *one[N_OUT], *three[N_OUT];
    for (int k = 0; k < 2; k++) {
        mr_bench a, b;
        int64_t channels = k ? 20 : 24;
        open_forward(&a, 1, k ? "NCHW" : "NHWC");
        open_forward(&b, 3, k ? "NCHW" : "NHWC");
        forward(&a, x, channels, one);
        forward(&b, x, channels, three);
        for (int i = 0; i < N_OUT; i++)
            MR_CHECK(mr_tensor_equal(one[i], three[i]));
        drop(one, N_OUT);
        drop(three, N_OUT);
        mr_bench_deinit(&a);
        mr_bench_deinit(&b);
    }
    mr_tensor_unref(x);
}
