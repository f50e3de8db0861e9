/* ops/image/scale_and_translate.c -- ScaleAndTranslate, and its gradient: resizes with any scale, position and
 * kernel.
 *
 * Along each side, a pixel of the result is a weighted sum of a span of pixels of the original, with a kernel
 * around its source position as weights; if the image shrinks, the kernel is widened accordingly (antialias). Rows
 * are summed first, then columns. The gradient reverses both steps. */
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/resize.h"
#include "ops/image/pixels.h"

/* ---- kernels ---- */

static float lanczos_kernel(float x, float radius)
{
    const float pi = 3.14159265359f;
    if (x > radius)
        return 0;
    return x <= 1e-3f ? 1 : radius * sinf(pi * x) * sinf(pi * x / radius) / (pi * pi * x * x);
}
static float lanczos1_kernel(float x) { return lanczos_kernel(x, 1); }
static float lanczos3_kernel(float x) { return lanczos_kernel(x, 3); }
static float lanczos5_kernel(float x) { return lanczos_kernel(x, 5); }
static float gaussian_kernel(float x) { return x >= 1.5f ? 0 : (float)exp(-(double)(x * x) / (2 * 0.5 * 0.5)); }
static float box_kernel(float x) { return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0; }
static float triangle_kernel(float x) { return x < 1 ? 1 - x : 0; }

static float keys_cubic(float x)
{
    return x >= 2 ? 0 : x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : ((1.5f * x - 2.5f) * x) * x + 1;
}

static float mitchell_cubic(float x)
{
    return x >= 2   ? 0
           : x >= 1 ? (((-7 / 18.0f) * x + 2) * x - 10 / 3.0f) * x + 16 / 9.0f
                    : (((7 / 6.0f) * x - 2) * x) * x + 8 / 9.0f;
}

typedef struct kernel {
    const char *name;
    float radius;
    float (*at)(float distance);
} kernel;

static const kernel kernels[] = {{"lanczos1", 1, lanczos1_kernel}, {"lanczos3", 3, lanczos3_kernel},
                                 {"lanczos5", 5, lanczos5_kernel}, {"gaussian", 1.5f, gaussian_kernel},
                                 {"box", 1, box_kernel},           {"triangle", 1, triangle_kernel},
                                 {"keyscubic", 2, keys_cubic},     {"mitchellcubic", 2, mitchell_cubic}};

typedef struct state {
    const kernel *kernel;
    bool antialias;
} state;

static mr_status *init_scale_and_translate(mr_make *m, void *room)
{
    state *s = room;
    mr_sv name;
    MR_TRY(mr_node_get_bool(m->node, "antialias", &s->antialias));
    MR_TRY(mr_node_get_str(m->node, "kernel_type", &name));
    for (int i = 0; i < MR_COUNT(kernels); i++)
        if (mr_sv_is(name, kernels[i].name))
            s->kernel = &kernels[i];
    return s->kernel ? NULL : mr_invalid("Unrecognized kernel type: %.*s", MR_SV_ARG(name));
}

/* ---- spans ---- */

typedef struct spans { /* the source spans along one side */
    int64_t n_in, n_out, size; /* size: of the longest span */
    mr_tensor *room;
    float *weights;  /* [n_out, size]; 0 where a span is shorter, or outside the image */
    int32_t *starts; /* [n_out] */
} spans;

/* Computes the weights of one pixel of the result whose source is `at`; their sum is 1. */
static void weigh_pixel(const kernel *k, spans *s, int64_t i, float at, float widen)
{
    double reach = (double)k->radius * (double)widen;
    double first = ceil((double)at - reach - 0.5), last = floor((double)at + reach - 0.5);
    int64_t start = (int64_t)fmin(fmax(first, 0), (double)(s->n_in - 1));
    int64_t end = (int64_t)fmin(fmax(last, 0), (double)(s->n_in - 1)) + 1;
    float sum = 0, *w = s->weights + i * s->size;
    end = MR_MIN(end, start + s->size);
    for (int64_t j = start; j < end; j++)
        sum += w[j - start] = k->at(fabsf(((float)j + 0.5f - at) * (1 / widen)));
    bool some = fabsf(sum) >= 1000 * FLT_MIN;
    for (int64_t j = start; j < end; j++)
        w[j - start] = some ? w[j - start] * (1 / sum) : 0;
    s->starts[i] = (int32_t)start;
}

static mr_status *make_spans(mr_run *r, const state *st, float scale, float translation, spans *s)
{
    float back = 1 / scale, shift = -back * translation, widen = st->antialias ? MR_MAX(back, 1.0f) : 1;
    s->size = (int64_t)fmin(2 * ceil((double)st->kernel->radius * (double)widen) + 1, (double)s->n_in);
    int64_t n;
    if (!mr_i64_mul(s->n_out, s->size + 1, &n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld spans", (long long)s->n_out);
    MR_TRY(mr_run_temp(r, MR_FLOAT, 1, &n, &s->room));
    mr_tensor_zero(s->room);
    s->weights = s->room->data;
    s->starts = (int32_t *)(s->weights + s->n_out * s->size);
    for (int64_t i = 0; i < s->n_out; i++) {
        float at = ((float)i + 0.5f) * back + shift;
        if (at >= 0 && at <= (float)s->n_in)
            weigh_pixel(st->kernel, s, i, at, widen);
    }
    return NULL;
}

/* ---- sums along one side: [outer, n, inner] ---- */

typedef struct pass {
    const spans *s;
    int64_t inner;
    const float *from;
    float *to;
} pass;

static void sum_forward(void *ctx, int64_t begin, int64_t end)
{
    const pass *p = ctx;
    const spans *s = p->s;
    for (int64_t o = begin; o < end; o++) {
        const float *in = p->from + o / s->n_out * s->n_in * p->inner;
        const float *w = s->weights + o % s->n_out * s->size;
        int64_t start = s->starts[o % s->n_out];
        float *out = p->to + o * p->inner;
        memset(out, 0, (size_t)p->inner * sizeof(float));
        for (int64_t j = 0; j < s->size && start + j < s->n_in; j++)
            for (int64_t k = 0; w[j] != 0 && k < p->inner; k++)
                out[k] += in[(start + j) * p->inner + k] * w[j];
    }
}

static void sum_back(void *ctx, int64_t begin, int64_t end)
{
    const pass *p = ctx;
    const spans *s = p->s;
    for (int64_t o = begin; o < end; o++) {
        float *out = p->to + o * s->n_in * p->inner;
        memset(out, 0, (size_t)(s->n_in * p->inner) * sizeof(float));
        for (int64_t i = 0; i < s->n_out; i++)
            for (int64_t j = 0; j < s->size && s->starts[i] + j < s->n_in; j++) {
                float w = s->weights[i * s->size + j];
                const float *in = p->from + (o * s->n_out + i) * p->inner;
                for (int64_t k = 0; w != 0 && k < p->inner; k++)
                    out[(s->starts[i] + j) * p->inner + k] += in[k] * w;
            }
    }
}

static void resample_forward(mr_run *r, const spans *s, int64_t outer, int64_t inner, const float *from, float *to)
{
    pass p = {s, inner, from, to};
    mr_run_for(r, outer * s->n_out, (double)s->size * (double)inner, sum_forward, &p);
}

static void resample_back(mr_run *r, const spans *s, int64_t outer, int64_t inner, const float *from, float *to)
{
    pass p = {s, inner, from, to};
    mr_run_for(r, outer, (double)s->n_out * (double)s->size * (double)inner, sum_back, &p);
}

/* ---- the ops ---- */

static mr_status *two_floats(const mr_run *r, int i, const char *what, float out[2])
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1 || t->n != 2)
        return mr_invalid("%s must be a vector of two elements, got shape %s", what, MR_TENSOR_SHAPE(t));
    memcpy(out, t->data, 2 * sizeof(float));
    return NULL;
}

static mr_status *both_spans(mr_run *r, spans *rows, spans *cols)
{
    float scale[2], translation[2];
    MR_TRY(two_floats(r, 2, "scale", scale));
    MR_TRY(two_floats(r, 3, "translation", translation));
    if (!(scale[0] > 0 && scale[1] > 0))
        return mr_invalid("Scale must be greater than zero.");
    if (rows->n_in > INT32_MAX || cols->n_in > INT32_MAX)
        return mr_invalid("input sizes must be between 0 and max int32");
    MR_TRY(make_spans(r, r->state, scale[0], translation[0], rows));
    return make_spans(r, r->state, scale[1], translation[1], cols);
}

static mr_status *run_forward(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    spans rows = {0}, cols = {0};
    mr_wide in = {0};
    mr_tensor *out, *half_way = NULL;
    mr_status *st = NULL;
    if (x->rank != 4)
        return mr_invalid("input must be 4-dimensional %s", MR_TENSOR_SHAPE(x));
    MR_TRY(mr_resize_size(r, 1, &rows.n_out, &cols.n_out));
    rows.n_in = x->dims[1], cols.n_in = x->dims[2];
    int64_t batch = x->dims[0], ch = x->dims[3];
    if (ch <= 0)
        return mr_invalid("image must have at least one channel");
    if (rows.n_in <= 0 || cols.n_in <= 0)
        return mr_invalid("input image must be of non-zero size");
    MR_TRY(mr_run_output(r, 0, 4, (const int64_t[]){batch, rows.n_out, cols.n_out, ch}, &out));
    MR_GO(both_spans(r, &rows, &cols));
    if (out->n > 0) {
        MR_GO(mr_pixels_in(r, 0, MR_FLOAT, &in));
        MR_GO(mr_run_temp(r, MR_FLOAT, 4, (const int64_t[]){batch, rows.n_out, cols.n_in, ch}, &half_way));
        resample_forward(r, &rows, batch, cols.n_in * ch, in.t->data, half_way->data);
        resample_forward(r, &cols, batch * rows.n_out, ch, half_way->data, out->data);
    }
out:
    mr_wide_deinit(&in);
    mr_tensor_unref(half_way);
    mr_tensor_unref(rows.room);
    mr_tensor_unref(cols.room);
    return st;
}

static mr_status *run_back(mr_run *r)
{
    const mr_tensor *dy = mr_in(r, 0), *x = mr_in(r, 1);
    spans rows = {0}, cols = {0};
    mr_tensor *out, *half_way = NULL;
    mr_status *st = NULL;
    if (dy->rank != 4 || x->rank != 4)
        return mr_invalid("input_grad and original_image must be 4-dimensional, got shapes %s and %s", MR_TENSOR_SHAPE(dy),
                          MR_TENSOR_SHAPE(x));
    if (dy->dims[0] != x->dims[0] || dy->dims[3] != x->dims[3])
        return mr_invalid("batch and channels of grads %s and original_image %s must be equal", MR_TENSOR_SHAPE(dy),
                          MR_TENSOR_SHAPE(x));
    rows.n_out = dy->dims[1], cols.n_out = dy->dims[2], rows.n_in = x->dims[1], cols.n_in = x->dims[2];
    int64_t batch = x->dims[0], ch = x->dims[3];
    MR_TRY(mr_run_output(r, 0, 4, x->dims, &out));
    MR_GO(both_spans(r, &rows, &cols));
    if (out->n > 0) {
        MR_GO(mr_run_temp(r, MR_FLOAT, 4, (const int64_t[]){batch, rows.n_out, cols.n_in, ch}, &half_way));
        resample_back(r, &cols, batch * rows.n_out, ch, dy->data, half_way->data);
        resample_back(r, &rows, batch, cols.n_in * ch, half_way->data, out->data);
    }
out:
    mr_tensor_unref(half_way);
    mr_tensor_unref(rows.room);
    mr_tensor_unref(cols.room);
    return st;
}

static mr_status *back_shape(mr_infer *c)
{
    MR_TRY(mr_infer_ranks(c, 4, (const int[]){4, 4, 1, 1}));
    return mr_infer_rank(c, c->in[1], 4, &c->out[0]);
}

static mr_status *forward_shape(mr_infer *c)
{
    MR_TRY(mr_infer_ranks(c, 4, (const int[]){4, 1, 1, 1}));
    return mr_resize_shape(c);
}

/* The gradient op supports only float; images of other types are converted. */
static void scale_and_translate_backward(mr_grad *g)
{
    mr_out x = mr_xi(g, 0);
    mr_dtype t = mr_dtype_base(mr_out_type(x));
#define CAST(v, to) mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(to)}), v)
    if (!mr_dtype_is_floating(t))
        return;
    mr_out in[] = {mr_dyi(g, 0), t == MR_FLOAT ? x : CAST(x, MR_FLOAT), mr_xi(g, 2), mr_xi(g, 3)};
    mr_out dx = mr_emit_like(g, "ScaleAndTranslateGrad", "kernel_type antialias", in, 4);
    mr_dxi(g, 0, t == MR_FLOAT ? dx : CAST(dx, t));
#undef CAST
}

#define SCALED_TYPES(M, ...)                                                           \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)  \
    MR_TYPE_UINT16(M, __VA_ARGS__)
#define KERNEL_ATTRS "kernel_type: string = 'lanczos3'; antialias: bool = true"

MR_OP(ScaleAndTranslate,
    .doc         = "images scaled and moved by any kernel; [batch, height, width, channels]",
    .sig         = "images: T, size: int32, scale: float, translation: float -> resized_images: float",
    .attrs       = "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}; " KERNEL_ATTRS,
    .shape       = forward_shape,
    .grad        = scale_and_translate_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(run_forward, SCALED_TYPES)),
    .state_bytes = sizeof(state),
    .init        = init_scale_and_translate,
    .examples    = MR_EXAMPLES(
        "kernel_type=\"triangle\": [[[[0], [8]]]], [1, 4], [1, 2], [0, 0] -> [[[[0], [2], [6], [8]]]]",
        "kernel_type=\"triangle\": [[[[0], [8], [0], [8]]]], [1, 2], [1, 0.5], [0, 0] -> [[[[3.428571], [4.571428]]]]",
        "kernel_type=\"triangle\" antialias=false: [[[[0], [8], [0], [8]]]], [1, 2], [1, 0.5], [0, 0] -> [[[[4], [4]]]]",
        "kernel_type=\"box\": [[[[1], [2], [3]]]], [1, 4], [1, 1], [0, 2] -> [[[[0], [0], [1], [2]]]]",
        "kernel_type=\"lanczos1\": iota(1,3,3,1), [3, 3], [1, 1], [0, 0] -> iota(1,3,3,1)",
        "iota(1,3,3,1), [3, 3], [1, 1], [0, 0] -> iota(1,3,3,1)",
        "kernel_type=\"lanczos5\": fill(3, 1,4,3,2), [5, 1], [2, 0.3], [0, 0] -> fill(3, 1,5,1,2)",
        "kernel_type=\"gaussian\": fill(3, 1,4,3,1), [2, 2], [0.5, 0.6], [0, 0] -> fill(3, 1,2,2,1)",
        "kernel_type=\"keyscubic\": fill(3, 1,4,3,1), [8, 2], [2, 0.6], [0, 0] -> fill(3, 1,8,2,1)",
        "kernel_type=\"mitchellcubic\": fill(3, 1,4,3,1), [8, 2], [2, 0.6], [0, 0] -> fill(3, 1,8,2,1)",
        "nograd: [[[[1]]]], [1, 1], [1, 1], [nan, 0] -> [[[[0]]]]",
        "shape(0,2,2,1), [3, 3], [1, 1], [0, 0] -> shape(0,3,3,1)",
        "kernel_type=\"cubic\": [[[[1]]]], [1, 1], [1, 1], [0, 0] -> !INVALID_ARGUMENT Unrecognized kernel type: cubic",
        "[[[[1]]]], [1, 1], [0, 1], [0, 0] -> !INVALID_ARGUMENT Scale must be greater than zero.",
        "[[[[1]]]], [1, 1], [1], [0, 0] -> !INVALID_ARGUMENT",
        "[[[[1]]]], [0, 1], [1, 1], [0, 0] -> !INVALID_ARGUMENT output dimensions must be positive"));

MR_OP(ScaleAndTranslateGrad,
    .doc         = "the gradient of ScaleAndTranslate",
    .sig         = "grads: T, original_image: T, scale: float, translation: float -> output: T",
    .attrs       = "T: {float}; " KERNEL_ATTRS,
    .shape       = back_shape,
    .kernels     = MR_KERNELS({"CPU", MR_FLOAT, run_back},),
    .state_bytes = sizeof(state),
    .init        = init_scale_and_translate,
    .examples    = MR_EXAMPLES(
        "kernel_type=\"triangle\": [[[[1], [1], [1], [1]]]], [[[[0], [0]]]], [1, 2], [0, 0] -> [[[[2], [2]]]]",
        "kernel_type=\"triangle\": [[[[1], [2], [4], [8]]]], [[[[0], [0]]]], [1, 2], [0, 0] -> [[[[3.5], [11.5]]]]",
        "shape(0,3,3,1), shape(0,2,2,1), [1, 1], [0, 0] -> shape(0,2,2,1)",
        "[[[[1, 2]]]], [[[[1]]]], [1, 1], [0, 0] -> !INVALID_ARGUMENT must be equal"));
