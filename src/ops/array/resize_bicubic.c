/* ops/array/resize_bicubic.c -- ResizeBicubic, and its gradient.
 *
 * A pixel of the result is a weighted sum of 4 x 4 pixels of the original, with a cubic along each side. As in
 * TensorFlow, the position between two pixels is rounded to 1/1024 first. With half_pixel_centers the cubic is that
 * of Keys (a = -0.5), pixels outside the image are ignored and the weights of the others are scaled up; otherwise a
 * = -0.75 and the pixels at the edge are repeated. */
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "graph/grad.h"
#include "ops/array/resize.h"
#include "ops/array/resize_taps.h"
#include "ops/image/pixels.h"
#include "run/scratch.h"

#define STEPS 1024

typedef struct place { /* the four source rows or columns of one row or column of the result */
    int64_t index[4];
    float weight[4];
} place;

/* The cubic at a distance below 1, and at one between 1 and 2, in steps. */
static float near_weight(double a, int64_t step)
{
    float x = (float)((double)step / STEPS);
    return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}

static float far_weight(double a, int64_t step)
{
    float x = (float)((double)step / STEPS) + 1;
    return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

/* Ignores pixels outside the image and scales the other weights to a sum of 1. */
static void drop_outside(place *p, int64_t first)
{
    float sum = 0;
    for (int k = 0; k < 4; k++) {
        if (p->index[k] != first + k)
            p->weight[k] = 0;
        sum += p->weight[k];
    }
    if (fabsf(sum) >= 1000 * FLT_MIN)
        for (int k = 0; k < 4; k++)
            p->weight[k] *= 1 / sum;
}

static place find_source(const mr_resize *z, int64_t i, float scale, int64_t n)
{
    bool half = z->half_pixel_centers;
    float at = half ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
    int64_t below = (int64_t)floorf(at), step = lrintf((at - (float)below) * STEPS);
    double a = half ? -0.5 : -0.75;
    place p = {.weight = {far_weight(a, step), near_weight(a, step), near_weight(a, STEPS - step),
                          far_weight(a, STEPS - step)}};
    for (int k = 0; k < 4; k++)
        p.index[k] = MR_MIN(n - 1, MR_MAX(0, below - 1 + k));
    if (half)
        drop_outside(&p, below - 1);
    return p;
}

/* Finds the sources of all rows, then of all columns. */
static mr_status *find_all(const mr_run *r, const mr_resize *z, place **out)
{
    size_t n = (size_t)z->out_h + (size_t)z->out_w;
    if (!(*out = mr_scratch_zeroed(r, n, sizeof(place))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %zu positions", n);
    for (int64_t i = 0; i < z->out_h; i++)
        (*out)[i] = find_source(z, i, z->scale_h, z->in_h);
    for (int64_t i = 0; i < z->out_w; i++)
        (*out)[z->out_h + i] = find_source(z, i, z->scale_w, z->in_w);
    return NULL;
}

typedef struct job {
    mr_resize z;
    const place *rows, *cols;
    const float *x; /* the input: the images, or the gradients of the resized ones */
    void *out;
    /* NULL, or the four taps of a row; then `weights` has four rows of one for each element of a row */
    const mr_taps *taps;
    const float *weights;
} job;

/* ---- forward ---- */

/* Computes one row of the result from four of the original: first down the columns, then along the row. */
static void make_row(const job *j, const float *const in[4], const place *y, float *out)
{
    int64_t ch = j->z.channels;
    for (int64_t i = 0; i < j->z.out_w; i++, out += ch) {
        const place *x = &j->cols[i];
        for (int64_t k = 0; k < ch; k++) {
            float column[4];
            for (int c = 0; c < 4; c++) {
                int64_t at = x->index[c] * ch + k;
                column[c] = in[0][at] * y->weight[0] + in[1][at] * y->weight[1] + in[2][at] * y->weight[2] +
                            in[3][at] * y->weight[3];
            }
            out[k] = column[0] * x->weight[0] + column[1] * x->weight[1] + column[2] * x->weight[2] +
                     column[3] * x->weight[3];
        }
    }
}

/* Computes rows begin..end, counted over the results of all images. */
static void make_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t row = j->z.in_w * j->z.channels;
    for (int64_t r = begin; r < end; r++) {
        const place *y = &j->rows[r % j->z.out_h];
        const float *image = j->x + r / j->z.out_h * j->z.in_h * row;
        const float *const in[4] = {image + y->index[0] * row, image + y->index[1] * row, image + y->index[2] * row,
                                    image + y->index[3] * row};
        make_row(j, in, y, (float *)j->out + r * j->z.out_w * j->z.channels);
    }
}

/* ---- forward with taps ---- */

MR_CLONES static void add_rows(const float *const in[4], const float w[4], float *restrict to, int64_t n)
{
    const float *a = in[0], *b = in[1], *c = in[2], *d = in[3];
    float wa = w[0], wb = w[1], wc = w[2], wd = w[3];
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
}

MR_CLONES static void add_taps(float (*in)[MR_TAPS_OUT], const float *const w[4], float *restrict to, int64_t n)
{
    const float *wa = w[0], *wb = w[1], *wc = w[2], *wd = w[3];
    for (int64_t i = 0; i < n; i++)
        to[i] = in[0][i] * wa[i] + in[1][i] * wb[i] + in[2][i] * wc[i] + in[3][i] * wd[i];
}

/* Computes a block of a row as make_row does. */
static void make_block(const job *j, const mr_taps_block *b, const float *const in[4], const place *y, float *out)
{
    _Alignas(64) float columns[MR_TAPS_IN], taken[4][MR_TAPS_OUT];
    const float *from[4], *weights[4];
    for (int k = 0; k < 4; k++) {
        from[k] = in[k] + b->from;
        weights[k] = j->weights + k * j->z.out_w * j->z.channels + b->out;
    }
    add_rows(from, y->weight, columns, b->n_from);
    for (int k = 0; k < 4; k++)
        mr_taps_take(j->taps, k, b, columns, taken[k]);
    add_taps(taken, weights, out + b->out, b->n);
}

static void make_rows_by_taps(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t row = j->z.in_w * j->z.channels;
    for (int64_t r = begin; r < end; r++) {
        const place *y = &j->rows[r % j->z.out_h];
        const float *image = j->x + r / j->z.out_h * j->z.in_h * row;
        const float *const in[4] = {image + y->index[0] * row, image + y->index[1] * row, image + y->index[2] * row,
                                    image + y->index[3] * row};
        for (int i = 0; i < mr_taps_blocks(j->taps); i++)
            make_block(j, mr_taps_block_at(j->taps, i), in, y, (float *)j->out + r * j->z.out_w * j->z.channels);
    }
}

/* Makes the taps if this CPU has them; the caller frees them and *weights. */
static mr_status *make_taps(const mr_run *r, job *j, mr_taps **taps, float **weights)
{
    int64_t w = j->z.out_w, ch = j->z.channels;
    mr_status *st = NULL;
    int64_t *pixels = mr_scratch(r, 4 * (size_t)w * sizeof(int64_t));
    if (!pixels)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld positions", (long long)w);
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < w; i++)
            pixels[k * w + i] = j->cols[i].index[k];
    MR_GO(mr_taps_new(r, MR_FLOAT, 4, pixels, w, j->z.in_w, ch, taps));
    if (!*taps)
        goto out;
    if (!(*weights = mr_scratch(r, 4 * (size_t)(w * ch) * sizeof(float)))) {
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld positions", (long long)(w * ch));
        goto out;
    }
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < w; i++)
            for (int64_t c = 0; c < ch; c++)
                (*weights)[(k * w + i) * ch + c] = j->cols[i].weight[k];
    j->taps = *taps;
    j->weights = *weights;
out:
    mr_scratch_free(pixels);
    return st;
}

static mr_status *run_resize(mr_run *r)
{
    mr_status *st = NULL;
    job j = {0};
    place *places = NULL;
    mr_taps *taps = NULL;
    float *weights = NULL;
    mr_tensor *out;
    mr_wide x = {0};
    MR_TRY(mr_resize_read(r, &j.z));
    int64_t dims[] = {j.z.batch, j.z.out_h, j.z.out_w, j.z.channels};
    MR_TRY(mr_run_output(r, 0, 4, dims, &out));
    if (out->n == 0)
        return NULL;
    MR_GO(mr_pixels_in(r, 0, MR_FLOAT, &x));
    MR_GO(find_all(r, &j.z, &places));
    j.rows = places;
    j.cols = places + j.z.out_h;
    j.x = x.t->data;
    j.out = out->data;
    MR_GO(make_taps(r, &j, &taps, &weights));
    mr_run_for(r, j.z.batch * j.z.out_h, (taps ? 0.5 : 12.0) * (double)(j.z.out_w * j.z.channels),
               taps ? make_rows_by_taps : make_rows, &j);
out:
    mr_wide_deinit(&x);
    mr_scratch_free(weights);
    mr_scratch_free(taps);
    mr_scratch_free(places);
    return st;
}

static void resize_backward(mr_grad *g)
{
    mr_dtype t = mr_dtype_base(mr_out_type(mr_xi(g, 0)));
    if (t != MR_FLOAT && t != MR_DOUBLE)
        return;
    mr_out in[] = {mr_dyi(g, 0), mr_xi(g, 0)};
    mr_dxi(g, 0, mr_emit_like(g, "ResizeBicubicGrad", "align_corners half_pixel_centers", in, 2));
}

#define RESIZED_TYPES(M, ...)                                                          \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)  \
    MR_TYPE_UINT16(M, __VA_ARGS__)
#define RESIZE_ATTRS "; align_corners: bool = false; half_pixel_centers: bool = false"

MR_OP(ResizeBicubic,
    .doc      = "images of another size, by cubic interpolation; [batch, height, width, channels]",
    .sig      = "images: T, size: int32 -> resized_images: float",
    .attrs    = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}" RESIZE_ATTRS,
    .shape    = mr_resize_shape,
    .grad     = resize_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize, RESIZED_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[[0], [16], [32], [48]]]], [1, 8] -> [[[[0], [6.5], [16], [24], [32], [41.5], [48], [49.5]]]]",
        "align_corners=true: [[[[0], [16], [0]]]], [1, 5] -> [[[[0], [9.5], [16], [9.5], [0]]]]",
        "half_pixel_centers=true: [[[[0], [32], [64]]]], [1, 6] -> "
        "[[[[-2.823529], [5.372263], [22.717557], [41.282443], [58.627738], [66.823530]]]]",
        "iota(1,4,4,1), [2, 2] -> [[[[0], [2]], [[8], [10]]]]",
        "[[[[1, 10], [1, 10]]]], [2, 3] -> "
        "[[[[1, 10], [1, 10], [1, 10]], [[1, 10], [1, 10], [1, 10]]]]",
        "shape(0,2,2,3), [3, 3] -> shape(0,3,3,3)",
        "[[[[1]]]], [0, 2] -> !INVALID_ARGUMENT output dimensions must be positive",
        "shape(1,0,2,1), [2, 2] -> !INVALID_ARGUMENT input image must be of non-zero size",
        "[1], [2, 2] -> !INVALID_ARGUMENT must be rank 4"));

/* ---- gradient ---- */

/* Adds the gradient of every pixel of images begin..end to the 16 pixels it was computed from. */
#define ADD_IMAGES(E, T, number, S, C, ...)                                                            \
    static void add_images_##T(void *ctx, int64_t begin, int64_t end)                                  \
    {                                                                                                  \
        const job *j = ctx;                                                                            \
        int64_t ch = j->z.channels, row = j->z.in_w * ch;                                              \
        for (int64_t r = begin * j->z.out_h; r < end * j->z.out_h; r++) {                              \
            const place *y = &j->rows[r % j->z.out_h];                                                 \
            T *image = (T *)j->out + r / j->z.out_h * j->z.in_h * row;                                 \
            const float *dy = j->x + r * j->z.out_w * ch;                                              \
            for (int64_t i = 0; i < j->z.out_w; i++, dy += ch)                                         \
                for (int tap = 0; tap < 16; tap++) {                                                   \
                    T weight = (T)y->weight[tap / 4] * (T)j->cols[i].weight[tap % 4];                  \
                    T *to = image + y->index[tap / 4] * row + j->cols[i].index[tap % 4] * ch;          \
                    for (int64_t k = 0; k < ch; k++)                                                   \
                        to[k] += (T)dy[k] * weight;                                                    \
                }                                                                                      \
        }                                                                                              \
    }
MR_FLOATS32(ADD_IMAGES, )

static mr_status *run_resize_grad(mr_run *r)
{
    const mr_tensor *image = mr_in(r, 1);
    mr_tensor *out;
    place *places = NULL;
    job j = {.x = mr_in(r, 0)->data};
    MR_TRY(mr_resize_read_grad(r, &j.z));
    MR_TRY(mr_run_output(r, 0, 4, image->dims, &out));
    if (out->n == 0)
        return NULL;
    mr_tensor_zero(out);
    MR_TRY(find_all(r, &j.z, &places));
    j.rows = places;
    j.cols = places + j.z.out_h;
    j.out = out->data;
    mr_run_for(r, j.z.batch, 16.0 * (double)(j.z.out_h * j.z.out_w * j.z.channels),
               out->dtype == MR_FLOAT ? add_images_float : add_images_double, &j);
    mr_scratch_free(places);
    return NULL;
}

MR_OP(ResizeBicubicGrad,
    .doc      = "the gradient of ResizeBicubic",
    .sig      = "grads: float, original_image: T -> output: T",
    .attrs    = "T: {float, double}" RESIZE_ATTRS,
    .shape    = mr_resize_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize_grad, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "[[[[1], [1], [1], [1]]]], [[[[0], [0]]]] -> [[[[1.40625], [2.59375]]]]",
        "align_corners=true: [[[[1], [2], [3]]]], [[[[0], [0]]]] -> [[[[2], [4]]]]",
        "half_pixel_centers=true: [[[[1], [1]]]], [[[[0], [0]]]] -> [[[[1], [1]]]]",
        "shape(0,3,3,1), shape(0,2,2,1) -> shape(0,2,2,1)",
        "[[[[1, 2]]]], [[[[1]]]] -> !INVALID_ARGUMENT must be equal"));
