/* ops/nn/batch_norm_test.c -- the gradient of FusedBatchNorm in training against finite differences of
 * y alone (the check of the examples would also differentiate the other outputs, which are statistics),
 * and the accuracy of its sums. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/kernel_fixture.h"
#include "ops/table.h"
#include "ops/values_fixture.h"
#include "tests/harness/test.h"

enum { N_IN = 5, N_OUT = 6 };

static void open_forward(mr_kernel_fixture *b, int threads, const char *layout)
{
    const mr_dtype types[N_IN] = {MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT};
    mr_kernel_fixture_init(b, threads, "FusedBatchNormV3", MR_ATTRS({"data_format", mr_a_str(layout)}), N_IN,
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

static void forward(mr_kernel_fixture *b, const mr_tensor *x, int64_t channels, mr_tensor **out)
{
    mr_tensor *in[N_IN] = {mr_tensor_ref(x), vector(channels, 0.5f, 0.25f), vector(channels, 1, -1),
                           vector(0, 0, 0), vector(0, 0, 0)};
    MR_CHECK_OK(mr_kernel_fixture_run(b, in, out));
}

static void drop(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(t[i]);
}

/* sum(w y), with element i of x moved by h. */
static double loss(mr_kernel_fixture *b, const mr_tensor *x, int64_t i, float h, const mr_tensor *w,
                   int64_t channels)
{
    mr_tensor *moved, *out[N_OUT];
    MR_CHECK_OK(mr_tensor_copy(NULL, x, &moved));
    MR_DATA(float, moved)[i] += h;
    forward(b, moved, channels, out);
    double sum = 0;
    for (int64_t k = 0; k < w->n; k++)
        sum += mr_kernel_fixture_at(w, k) * mr_kernel_fixture_at(out[0], k);
    mr_tensor_unref(moved);
    drop(out, N_OUT);
    return sum;
}

static void check_gradient(const char *layout, const int64_t *dims, int64_t channels)
{
    mr_kernel_fixture b, back;
    const mr_dtype types[6] = {MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT};
    open_forward(&b, 1, layout);
    mr_kernel_fixture_init(&back, 1, "FusedBatchNormGradV3", MR_ATTRS({"data_format", mr_a_str(layout)}), 6,
                  types);
    mr_tensor *x = random_image(dims, 0), *w = random_image(dims, 0), *out[N_OUT], *d[5];
    forward(&b, x, channels, out);
    mr_tensor *in[6] = {mr_tensor_ref(w),      mr_tensor_ref(x),      vector(channels, 0.5f, 0.25f),
                        mr_tensor_ref(out[3]), mr_tensor_ref(out[4]), mr_tensor_ref(out[5])};
    MR_CHECK_OK(mr_kernel_fixture_run(&back, in, d));
    for (int64_t i = 0; i < x->n; i++) {
        double up = loss(&b, x, i, 0.01f, w, channels), down = loss(&b, x, i, -0.01f, w, channels);
        MR_CHECK_NEAR(mr_kernel_fixture_at(d[0], i), (up - down) / 0.02, 2e-3);
    }
    drop(out, N_OUT);
    drop(d, 5);
    mr_tensor_unref(x);
    mr_tensor_unref(w);
    mr_kernel_fixture_deinit(&b);
    mr_kernel_fixture_deinit(&back);
}

MR_TEST(batch_norm_gradient_agrees_with_differences)
{
    check_gradient("NHWC", (const int64_t[]){2, 3, 3, 3}, 3);
}

MR_TEST(batch_norm_gradient_agrees_with_differences_channels_first)
{
    check_gradient("NCHW", (const int64_t[]){2, 3, 3, 4}, 3);
}

/* ---- second derivatives ---- */

typedef struct twice { /* FusedBatchNormGrad on the reserves of FusedBatchNorm, and its gradients */
    mr_graph *graph;
    mr_scope s;
    mr_device *device;
    mr_out in[3], out[3], d[3]; /* dy, x, scale; the outputs; the gradients by the inputs */
} twice;

static void twice_init(twice *t, const char *layout, mr_tensor *const *w)
{
    const mr_named_attr format = {"data_format", mr_a_str(layout)};
    mr_gradient dy[3], got[3];
    mr_ops_register();
    *t = (twice){.graph = mr_graph_new()};
    mr_scope_init(&t->s, t->graph, "");
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &t->device));
    for (int i = 0; i < 3; i++)
        t->in[i] = mr_placeholder(&t->s, MR_FLOAT, "in", &mr_pshape_unknown);
    mr_out none = mr_const(&t->s, vector(0, 0, 0)), offset = mr_const(&t->s, vector(3, 0, 1));
    mr_out y = mr_emit_n(&t->s, "FusedBatchNormV3", &format, 1,
                         MR_OUTS(t->in[1], t->in[2], offset, none, none));
    mr_out z =
        mr_emit_n(&t->s, "FusedBatchNormGradV3", &format, 1,
                  MR_OUTS(t->in[0], t->in[1], t->in[2], mr_nth(y, 3), mr_nth(y, 4), mr_nth(y, 5)));
    for (int i = 0; i < 3; i++) {
        t->out[i] = mr_nth(z, i);
        dy[i] = MR_NO_GRAD;
        dy[i].dense = mr_const(&t->s, mr_tensor_ref(w[i]));
    }
    MR_CHECK_OK(mr_scope_status(&t->s));
    MR_CHECK_OK(mr_graph_gradients(t->graph, t->out, 3, t->in, 3,
                                   &(mr_gradient_options){.grad_ys = dy}, got));
    for (int i = 0; i < 3; i++)
        t->d[i] = got[i].dense;
}

static void twice_deinit(twice *t)
{
    mr_scope_deinit(&t->s);
    mr_graph_unref(t->graph);
    mr_device_free(t->device);
}

static void twice_values(twice *t, mr_values *v, mr_tensor *const *in)
{
    mr_values_init(v, t->graph, t->device);
    for (int i = 0; i < 3; i++)
        mr_values_set(v, t->in[i].node, &in[i], 1);
}

/* sum(w out), with element i of input k moved by h. */
static double twice_loss(twice *t, mr_tensor **in, int k, int64_t i, float h, mr_tensor *const *w)
{
    mr_values v;
    mr_tensor *kept = in[k], *out;
    double sum = 0;
    MR_CHECK_OK(mr_tensor_copy(NULL, kept, &in[k]));
    MR_DATA(float, in[k])[i] += h;
    twice_values(t, &v, in);
    for (int o = 0; o < 3; o++) {
        MR_CHECK_OK(mr_values_get(&v, t->out[o], &out));
        for (int64_t e = 0; e < out->n; e++)
            sum += mr_kernel_fixture_at(out, e) * mr_kernel_fixture_at(w[o], e);
    }
    mr_values_deinit(&v);
    mr_tensor_unref(in[k]);
    in[k] = kept;
    return sum;
}

static void check_twice(const char *layout, const int64_t *dims)
{
    twice t;
    mr_values v;
    mr_tensor *in[3] = {random_image(dims, 0), random_image(dims, 0), vector(3, 0.5f, 0.25f)};
    mr_tensor *w[3] = {random_image(dims, 0), vector(3, -1, 0.75f), vector(3, 2, -0.5f)}, *d;
    twice_init(&t, layout, w);
    twice_values(&t, &v, in);
    for (int k = 0; k < 3; k++) {
        MR_CHECK_OK(mr_values_get(&v, t.d[k], &d));
        MR_CHECK(mr_tensor_same_shape(d, in[k]));
        for (int64_t i = 0; i < d->n; i++) {
            double up = twice_loss(&t, in, k, i, 0.01f, w),
                   down = twice_loss(&t, in, k, i, -0.01f, w);
            MR_CHECK_NEAR(mr_kernel_fixture_at(d, i), (up - down) / 0.02, 5e-3);
        }
    }
    mr_values_deinit(&v);
    twice_deinit(&t);
    drop(in, 3);
    drop(w, 3);
}

MR_TEST(batch_norm_second_derivatives_agree_with_differences)
{
    check_twice("NHWC", (const int64_t[]){2, 3, 2, 3});
}

MR_TEST(batch_norm_second_derivatives_agree_with_differences_channels_first)
{
    check_twice("NCHW", (const int64_t[]){2, 3, 3, 2});
}

/* ---- sums ---- */

/* Element i of x belongs to this channel. */
static int64_t channel_of(const mr_tensor *x, bool last, int64_t i)
{
    return last ? i % x->dims[3] : i / (x->dims[2] * x->dims[3]) % x->dims[1];
}

/* Checks mean and variance of every channel against sums in double. */
static void check_moments(const mr_tensor *x, const char *layout)
{
    bool last = strcmp(layout, "NHWC") == 0;
    int64_t channels = x->dims[last ? 3 : 1];
    double mean[700] = {0}, variance[700] = {0}, m = (double)(x->n / channels);
    mr_kernel_fixture b;
    mr_tensor *out[N_OUT];
    open_forward(&b, 2, layout);
    forward(&b, x, channels, out);
    for (int64_t i = 0; i < x->n; i++)
        mean[channel_of(x, last, i)] += mr_kernel_fixture_at(x, i) / m;
    for (int64_t i = 0; i < x->n; i++) {
        double d = mr_kernel_fixture_at(x, i) - mean[channel_of(x, last, i)];
        variance[channel_of(x, last, i)] += d * d / m;
    }
    for (int64_t c = 0; c < channels; c++) {
        MR_CHECK_NEAR(mr_kernel_fixture_at(out[3], c), mean[c], 1e-4);
        MR_CHECK_NEAR(mr_kernel_fixture_at(out[4], c), variance[c], 1e-6);
    }
    drop(out, N_OUT);
    mr_kernel_fixture_deinit(&b);
}

/* With a mean far from zero, a variance computed as E[x^2] - E[x]^2 would lose its digits. */
MR_TEST(batch_norm_variance_survives_a_large_mean)
{
    const int64_t dims[][4] = {{16, 32, 32, 5}, {3, 5, 7, 700}, {2, 40, 33, 16}, {1, 1, 1, 513}};
    for (int i = 0; i < MR_COUNT(dims); i++) {
        mr_tensor *x = random_image(dims[i], 1000);
        check_moments(x, "NHWC");
        check_moments(x, "NCHW");
        mr_tensor_unref(x);
    }
}

/* All elements of a channel are equal, so that sums around a rounded mean must not become negative. */
MR_TEST(batch_norm_of_equal_elements_has_no_variance)
{
    const int64_t dims[4] = {4, 20, 20, 20};
    mr_tensor *x = random_image(dims, 0);
    for (int64_t i = 0; i < x->n; i++)
        MR_DATA(float, x)[i] = 0.1f;
    check_moments(x, "NHWC");
    check_moments(x, "NCHW");
    mr_tensor_unref(x);
}

/* An infinite element makes the mean of its channel infinite and the variance NaN; other channels do not change. */
MR_TEST(batch_norm_keeps_infinities_to_their_channel)
{
    const int64_t dims[4] = {2, 30, 30, 3};
    mr_kernel_fixture b;
    mr_tensor *x = random_image(dims, 0), *out[N_OUT];
    MR_DATA(float, x)[3 * 1000 + 1] = INFINITY;
    MR_DATA(float, x)[3 * 500 + 2] = NAN;
    open_forward(&b, 1, "NHWC");
    forward(&b, x, 3, out);
    MR_CHECK(isfinite(mr_kernel_fixture_at(out[3], 0)) && mr_kernel_fixture_at(out[4], 0) > 0);
    MR_CHECK(mr_kernel_fixture_at(out[3], 1) == INFINITY && isnan(mr_kernel_fixture_at(out[4], 1)));
    MR_CHECK(isnan(mr_kernel_fixture_at(out[3], 2)) && isnan(mr_kernel_fixture_at(out[4], 2)));
    mr_tensor_unref(x);
    drop(out, N_OUT);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(batch_norm_is_the_same_in_any_number_of_threads)
{
    const int64_t dims[4] = {16, 20, 20, 24};
    mr_tensor *x = random_image(dims, 0), *one[N_OUT], *three[N_OUT];
    for (int k = 0; k < 2; k++) {
        mr_kernel_fixture a, b;
        int64_t channels = k ? 20 : 24;
        open_forward(&a, 1, k ? "NCHW" : "NHWC");
        open_forward(&b, 3, k ? "NCHW" : "NHWC");
        forward(&a, x, channels, one);
        forward(&b, x, channels, three);
        for (int i = 0; i < N_OUT; i++)
            MR_CHECK(mr_tensor_equal(one[i], three[i]));
        drop(one, N_OUT);
        drop(three, N_OUT);
        mr_kernel_fixture_deinit(&a);
        mr_kernel_fixture_deinit(&b);
    }
    mr_tensor_unref(x);
}
