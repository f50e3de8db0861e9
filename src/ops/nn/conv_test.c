/* ops/nn/conv_test.c -- convolutions of floats against those of doubles, which use other code; and the
 * primitives that a kernel keeps. */
#include <pthread.h>

#include "base/memory.h"
#include "ops/dnnl_conv.h"
#include "ops/kernel_fixture.h"
#include "ops/linalg/tiles.h"
#include "tests/harness/test.h"

int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int n) __attribute__((weak));

typedef struct geometry {
    int64_t batch, height, width, in, out, kernel_h, kernel_w, stride, dilation, groups;
    const char *padding, *layout;
} geometry;

static const geometry geometries[] = {
    {3, 9, 7, 5, 6, 3, 3, 1, 1, 1, "SAME", "NHWC"},
    {2, 8, 8, 8, 16, 3, 3, 1, 1, 1, "VALID", "NHWC"},
    {5, 12, 12, 20, 50, 5, 5, 1, 1, 1, "VALID", "NHWC"},
    {4, 28, 28, 1, 20, 5, 5, 1, 1, 1, "SAME", "NHWC"},
    {3, 11, 9, 3, 16, 4, 2, 2, 1, 1, "SAME", "NHWC"},
    {2, 10, 10, 8, 8, 3, 3, 1, 2, 1, "SAME", "NHWC"},
    {2, 10, 13, 4, 8, 3, 3, 2, 2, 1, "VALID", "NHWC"},
    {2, 7, 7, 12, 8, 3, 3, 1, 1, 4, "SAME", "NHWC"},
    {2, 7, 7, 32, 32, 3, 3, 1, 1, 2, "SAME", "NHWC"},
    {3, 7, 9, 16, 16, 3, 3, 1, 1, 16, "SAME", "NHWC"},
    {3, 7, 9, 10, 30, 3, 3, 2, 1, 10, "SAME", "NHWC"},
    {2, 9, 9, 8, 8, 5, 5, 1, 1, 8, "SAME", "NHWC"},
    {2, 9, 9, 8, 8, 3, 3, 1, 2, 8, "VALID", "NHWC"},
    {3, 6, 5, 7, 9, 3, 3, 1, 1, 1, "SAME", "NCHW"},
    {4, 6, 6, 16, 24, 1, 1, 1, 1, 1, "VALID", "NHWC"},
    {4, 7, 7, 16, 24, 1, 1, 2, 1, 1, "SAME", "NCHW"},
    {66, 4, 4, 8, 8, 3, 3, 1, 1, 1, "SAME", "NHWC"},
    {1, 1, 30, 2, 4, 1, 9, 1, 1, 1, "SAME", "NHWC"},
    {3, 14, 14, 32, 64, 5, 5, 1, 1, 1, "SAME", "NHWC"},
    {2, 9, 31, 3, 32, 3, 3, 1, 1, 1, "SAME", "NHWC"},
    {2, 3, 3, 16, 32, 7, 7, 1, 1, 1, "SAME", "NHWC"},
    {2, 15, 13, 24, 32, 3, 3, 2, 1, 1, "SAME", "NCHW"},
    {2, 21, 22, 30, 31, 3, 3, 1, 1, 1, "VALID", "NHWC"},
    {2, 12, 9, 16, 32, 3, 1, 1, 2, 1, "SAME", "NHWC"},
    {2, 12, 9, 32, 16, 2, 3, 3, 1, 1, "VALID", "NHWC"},
    {1, 50, 70, 16, 16, 3, 3, 1, 1, 1, "SAME", "NHWC"},
    {33, 1, 1, 40, 48, 1, 1, 1, 1, 1, "VALID", "NHWC"},
    {37, 3, 1, 16, 56, 1, 1, 1, 1, 1, "SAME", "NHWC"},
    {3, 5, 17, 1024, 16, 1, 1, 1, 1, 1, "SAME", "NHWC"},
    {11, 7, 7, 330, 48, 3, 3, 1, 1, 1, "SAME", "NHWC"},
    {2, 9, 9, 1024, 24, 3, 1, 2, 1, 1, "SAME", "NHWC"},
    {5, 1, 30, 12, 32, 1, 5, 1, 1, 1, "SAME", "NHWC"},
    {7, 4, 9, 16, 40, 1, 3, 1, 1, 1, "SAME", "NHWC"},
    {3, 9, 8, 24, 17, 1, 1, 3, 1, 1, "SAME", "NHWC"},
    {2, 6, 5, 260, 256, 1, 1, 1, 1, 1, "VALID", "NHWC"},
    {2, 5, 6, 256, 128, 3, 3, 1, 1, 1, "SAME", "NHWC"},
    {3, 7, 4, 250, 128, 3, 3, 2, 1, 1, "SAME", "NHWC"},
    {2, 7, 6, 256, 129, 3, 3, 1, 2, 1, "VALID", "NCHW"},
    {2, 5, 7, 1030, 40, 2, 3, 1, 1, 1, "SAME", "NHWC"},
    {2, 53, 75, 133, 133, 3, 3, 1, 1, 133, "SAME", "NHWC"}, /* images larger than a cache */
    {3, 51, 53, 133, 133, 3, 3, 2, 1, 133, "SAME", "NHWC"},
};

static bool channels_first(const geometry *g) { return g->layout[1] == 'C'; }

static void image_dims(const geometry *g, int64_t h, int64_t w, int64_t c, int64_t *out_dims)
{
    const int64_t last[4] = {g->batch, h, w, c}, first[4] = {g->batch, c, h, w};
    memcpy(out_dims, channels_first(g) ? first : last, sizeof last);
}

static int64_t out_size(const geometry *g, int64_t n, int64_t kernel)
{
    int64_t before, after, out;
    MR_CHECK_OK(mr_window_size(n, kernel, g->dilation, g->stride,
                               g->padding[0] == 'S' ? MR_PAD_SAME : MR_PAD_VALID, &before, &after,
                               &out));
    return out;
}

static void open_bench(mr_kernel_fixture *b, int threads, const geometry *g, mr_conv_pass pass,
                       mr_dtype type)
{
    static const char *const names[] = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"};
    bool first = channels_first(g);
    int64_t strides[4] = {1, first ? 1 : g->stride, g->stride, first ? g->stride : 1};
    int64_t dilations[4] = {1, first ? 1 : g->dilation, g->dilation, first ? g->dilation : 1};
    const mr_dtype types[3][3] = {{type, type}, {MR_INT32, type, type}, {type, MR_INT32, type}};
    mr_kernel_fixture_init(b, threads, names[pass],
                  MR_ATTRS({"strides", mr_a_ints(4, strides)},
                           {"dilations", mr_a_ints(4, dilations)},
                           {"padding", mr_a_str(g->padding)}, {"data_format", mr_a_str(g->layout)}),
                  pass == MR_CONV_FORWARD ? 2 : 3, types[pass]);
}

static mr_tensor *sizes_of(const int64_t *dims)
{
    int32_t v[4] = {(int32_t)dims[0], (int32_t)dims[1], (int32_t)dims[2], (int32_t)dims[3]};
    return mr_tensor_vector_i32(4, v);
}

/* Inputs of a pass in double. */
static void make_inputs(const geometry *g, mr_conv_pass pass, mr_tensor **in)
{
    int64_t image[4], out[4], filter[4] = {g->kernel_h, g->kernel_w, g->in / g->groups, g->out};
    image_dims(g, g->height, g->width, g->in, image);
    image_dims(g, out_size(g, g->height, g->kernel_h), out_size(g, g->width, g->kernel_w), g->out,
               out);
    in[0] = pass == MR_CONV_INPUT ? sizes_of(image) : mr_kernel_fixture_random(MR_DOUBLE, 4, image);
    in[1] = pass == MR_CONV_FILTER ? sizes_of(filter) : mr_kernel_fixture_random(MR_DOUBLE, 4, filter);
    in[2] = pass == MR_CONV_FORWARD ? NULL : mr_kernel_fixture_random(MR_DOUBLE, 4, out);
}

static mr_tensor *as_type(const mr_tensor *t, mr_dtype type)
{
    mr_tensor *y;
    if (!t || t->dtype == MR_INT32)
        return mr_tensor_ref(t);
    MR_CHECK_OK(mr_tensor_new(NULL, type, t->rank, t->dims, &y));
    mr_dtype_convert((mr_dtype)t->dtype, t->data, type, y->data, t->n, false);
    return y;
}

static mr_tensor *run(mr_kernel_fixture *b, mr_tensor *const *in, mr_dtype type)
{
    mr_tensor *given[3] = {as_type(in[0], type), as_type(in[1], type), as_type(in[2], type)}, *y;
    MR_CHECK_OK(mr_kernel_fixture_run(b, given, &y));
    return y;
}

/* Products of small integers are exact in both. */
static void check_equal(const mr_tensor *a, const mr_tensor *b, int which)
{
    MR_CHECK(mr_tensor_same_shape(a, b));
    for (int64_t i = 0; i < a->n; i++)
        if (mr_kernel_fixture_at(a, i) != mr_kernel_fixture_at(b, i))
            mr_test_fail(__FILE__, __LINE__, "geometry %d: element %lld is %g, expected %g", which,
                         (long long)i, mr_kernel_fixture_at(a, i), mr_kernel_fixture_at(b, i));
}

static void compare(mr_conv_pass pass, int threads)
{
    mr_test_deadline(120);
    for (int i = 0; i < MR_COUNT(geometries); i++) {
        mr_kernel_fixture narrow, wide;
        mr_tensor *in[3];
        open_bench(&narrow, threads, &geometries[i], pass, MR_FLOAT);
        open_bench(&wide, 1, &geometries[i], pass, MR_DOUBLE);
        make_inputs(&geometries[i], pass, in);
        mr_tensor *x = run(&narrow, in, MR_FLOAT), *y = run(&wide, in, MR_DOUBLE);
        check_equal(x, y, i);
        mr_tensor_unref(x);
        mr_tensor_unref(y);
        for (int k = 0; k < 3; k++)
            mr_tensor_unref(in[k]);
        mr_kernel_fixture_deinit(&narrow);
        mr_kernel_fixture_deinit(&wide);
    }
}

MR_TEST(conv_forward_of_float_equals_double) { compare(MR_CONV_FORWARD, 1); }
MR_TEST(conv_forward_equals_in_three_threads) { compare(MR_CONV_FORWARD, 3); }
MR_TEST(conv_input_gradient_of_float_equals_double) { compare(MR_CONV_INPUT, 1); }
MR_TEST(conv_input_gradient_equals_in_three_threads) { compare(MR_CONV_INPUT, 3); }
MR_TEST(conv_filter_gradient_of_float_equals_double) { compare(MR_CONV_FILTER, 1); }
MR_TEST(conv_filter_gradient_equals_in_three_threads) { compare(MR_CONV_FILTER, 3); }

static void check_bits(const geometry *g)
{
    for (int pass = MR_CONV_FORWARD; pass <= MR_CONV_FILTER; pass++) {
        mr_tensor *in[3], *one = NULL;
        make_inputs(g, (mr_conv_pass)pass, in);
        for (int threads = 1; threads <= 4; threads++) {
            mr_kernel_fixture b;
            open_bench(&b, threads, g, (mr_conv_pass)pass, MR_FLOAT);
            mr_tensor *many = run(&b, in, MR_FLOAT);
            one = one ? one : mr_tensor_ref(many);
            MR_CHECK(memcmp(one->data, many->data, (size_t)one->n * sizeof(float)) == 0);
            mr_tensor_unref(many);
            mr_kernel_fixture_deinit(&b);
        }
        mr_tensor_unref(one);
        for (int k = 0; k < 3; k++)
            mr_tensor_unref(in[k]);
    }
}

MR_TEST(conv_gives_the_same_bits_with_any_number_of_threads)
{
    const geometry some[] = {{5, 14, 14, 32, 64, 5, 5, 1, 1, 1, "SAME", "NHWC"},
                             {4, 5, 6, 256, 128, 3, 3, 1, 1, 1, "SAME", "NHWC"},
                             {9, 8, 7, 70, 90, 1, 1, 2, 1, 1, "SAME", "NHWC"}};
    for (int i = 0; i < MR_COUNT(some); i++)
        check_bits(&some[i]);
}

/* Compares the code for each kind of CPU that this machine can run. */
static void compare_kind(const char *kind)
{
    if (!mr_tiles_use(kind))
        mr_test_skip("this CPU cannot run %s", kind);
    for (int pass = MR_CONV_FORWARD; pass <= MR_CONV_FILTER; pass++)
        compare((mr_conv_pass)pass, 2);
}

MR_TEST(conv_for_any_cpu_equals_double) { compare_kind("plain"); }
MR_TEST(conv_for_avx2_equals_double) { compare_kind("avx2"); }
MR_TEST(conv_for_avx512_equals_double) { compare_kind("avx512"); }

/* ---- what is kept ---- */

/* Dilation along a row makes oneDNN run the pass. */
static const geometry small = {1, 6, 6, 4, 8, 3, 3, 1, 2, 1, "SAME", "NHWC"};

static void run_once(mr_kernel_fixture *b, const geometry *g, mr_conv_pass pass)
{
    mr_tensor *in[3];
    make_inputs(g, pass, in);
    mr_tensor_unref(run(b, in, MR_FLOAT));
    for (int k = 0; k < 3; k++)
        mr_tensor_unref(in[k]);
}

static int kept(const mr_kernel_fixture *b)
{
    return mr_dnnl_convs_count(((const mr_conv_state *)b->kernel->state)->kept);
}

MR_TEST(conv_batch_sizes_share_primitives)
{
    for (int pass = MR_CONV_FORWARD; pass <= MR_CONV_FILTER; pass++) {
        mr_kernel_fixture b;
        open_bench(&b, 2, &small, (mr_conv_pass)pass, MR_FLOAT);
        for (int n = 1; n <= 300; n++) {
            geometry g = small;
            g.batch = n;
            run_once(&b, &g, (mr_conv_pass)pass);
        }
        MR_CHECK(kept(&b) <= 7);
        mr_kernel_fixture_deinit(&b);
    }
}

MR_TEST(conv_keeps_at_most_sixteen_primitives)
{
    mr_kernel_fixture b;
    open_bench(&b, 1, &small, MR_CONV_FORWARD, MR_FLOAT);
    for (int n = 3; n < 33; n++) {
        geometry g = small;
        g.height = n;
        run_once(&b, &g, MR_CONV_FORWARD);
    }
    MR_CHECK_INT(kept(&b), 16);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(conv_leaves_the_callers_openmp_setting)
{
    if (!omp_set_num_threads)
        mr_test_skip("oneDNN was built without OpenMP");
    omp_set_num_threads(3);
    for (int pass = MR_CONV_FORWARD; pass <= MR_CONV_FILTER; pass++) {
        mr_kernel_fixture b;
        open_bench(&b, 2, &small, (mr_conv_pass)pass, MR_FLOAT);
        run_once(&b, &small, (mr_conv_pass)pass);
        MR_CHECK_INT(omp_get_max_threads(), 3);
        mr_kernel_fixture_deinit(&b);
    }
}

/* A constant filter is kept in the primitives' format, and is not confused with another filter. */
MR_TEST(conv_of_constant_filters)
{
    for (int pass = MR_CONV_FORWARD; pass <= MR_CONV_INPUT; pass++) {
        mr_kernel_fixture b, wide;
        open_bench(&b, 1, &small, (mr_conv_pass)pass, MR_FLOAT);
        open_bench(&wide, 1, &small, (mr_conv_pass)pass, MR_DOUBLE);
        mr_tensor *in[2][3], *filter[2];
        for (int i = 0; i < 2; i++) {
            make_inputs(&small, (mr_conv_pass)pass, in[i]);
            filter[i] = as_type(in[i][1], MR_FLOAT);
            filter[i]->readonly = true;
        }
        for (int i = 0; i < 6; i++) {
            int k = i / 2 % 2;
            mr_tensor *given[3] = {as_type(in[k][0], MR_FLOAT), mr_tensor_ref(filter[k]),
                                   as_type(in[k][2], MR_FLOAT)};
            mr_tensor *x, *y = run(&wide, in[k], MR_DOUBLE);
            MR_CHECK_OK(mr_kernel_fixture_run(&b, given, &x));
            check_equal(x, y, i);
            mr_tensor_unref(x);
            mr_tensor_unref(y);
        }
        for (int i = 0; i < 2; i++) {
            mr_tensor_unref(filter[i]);
            for (int k = 0; k < 3; k++)
                mr_tensor_unref(in[i][k]);
        }
        mr_kernel_fixture_deinit(&b);
        mr_kernel_fixture_deinit(&wide);
    }
}

/* ---- one kernel in several steps at once ---- */

typedef struct runner {
    mr_kernel_fixture *b;
    geometry g;
    mr_tensor *in[3], *want;
} runner;

static void *run_many(void *arg)
{
    runner *t = arg;
    for (int i = 0; i < 20; i++) {
        mr_tensor *y = run(t->b, t->in, MR_FLOAT);
        check_equal(y, t->want, i);
        mr_tensor_unref(y);
    }
    return NULL;
}

MR_TEST(conv_runs_share_a_kernel)
{
    for (int pass = MR_CONV_FORWARD; pass <= MR_CONV_FILTER; pass++) {
        mr_kernel_fixture b, wide;
        runner t[3];
        pthread_t threads[3];
        open_bench(&b, 2, &small, (mr_conv_pass)pass, MR_FLOAT);
        open_bench(&wide, 1, &small, (mr_conv_pass)pass, MR_DOUBLE);
        for (int i = 0; i < 3; i++) {
            t[i] = (runner){.b = &b, .g = small};
            t[i].g.batch = 5 + 3 * i;
            make_inputs(&t[i].g, (mr_conv_pass)pass, t[i].in);
            t[i].want = run(&wide, t[i].in, MR_DOUBLE);
        }
        for (int i = 0; i < 3; i++)
            MR_CHECK_INT(pthread_create(&threads[i], NULL, run_many, &t[i]), 0);
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
            mr_tensor_unref(t[i].want);
            for (int k = 0; k < 3; k++)
                mr_tensor_unref(t[i].in[k]);
        }
        mr_kernel_fixture_deinit(&b);
        mr_kernel_fixture_deinit(&wide);
    }
}

/* ---- sizes that must not reach oneDNN ---- */

MR_TEST(conv_of_a_stride_beyond_32_bits)
{
    geometry g = {2, 5, 5, 2, 3, 2, 2, INT64_C(1) << 40, 1, 1, "SAME", "NHWC"};
    mr_kernel_fixture b;
    open_bench(&b, 1, &g, MR_CONV_FORWARD, MR_FLOAT);
    run_once(&b, &g, MR_CONV_FORWARD);
    MR_CHECK_INT(kept(&b), 0);
    mr_kernel_fixture_deinit(&b);
}
