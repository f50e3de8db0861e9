/* ops/image/crop_and_resize.c -- CropAndResize, and its gradients by the image and by the boxes.
 *
 * A box is [y1, x1, y2, x2] in fractions of the image: 0 is the center of the first pixel, 1 that of the last; y1
 * above y2 flips the crop vertically. The crop's pixels are spaced evenly between the corners; pixels outside the
 * image (or with NaN coordinates) get the extrapolation value and no gradient. */
#include <math.h>

#include "graph/grad.h"
#include "ops/image/pixels.h"

typedef struct job {
    int64_t batch, h, w, ch; /* size of the images */
    int64_t n, crop_h, crop_w;
    const float *boxes, *image;
    const int32_t *box_ind;
    const float *grads;
    void *out;
    bool nearest, wide; /* wide: out holds doubles */
    float extrapolation;
} job;

/* The position of a row (or column) of the crop in the image. */
typedef struct place {
    int64_t lower, upper;
    float lerp;
} place;

static bool find_source(const job *j, float from, float to, int64_t i, int64_t n_crop, int64_t n, place *out)
{
    float last = (float)(n - 1);
    float step = n_crop > 1 ? (to - from) * last / (float)(n_crop - 1) : 0;
    float at = n_crop > 1 ? from * last + (float)i * step : 0.5f * (from + to) * last;
    if (!(at >= 0 && at <= last))
        return false;
    float floor_at = j->nearest ? roundf(at) : floorf(at);
    *out = (place){(int64_t)floor_at, j->nearest ? (int64_t)floor_at : (int64_t)ceilf(at), at - floor_at};
    if (j->nearest)
        out->lerp = 0;
    return true;
}

/* ---- checks that the three ops share ---- */

static mr_status *check_boxes(mr_run *r, int boxes, int box_ind, job *j)
{
    const mr_tensor *b = mr_in(r, boxes), *i = mr_in(r, box_ind);
    if (b->rank != 2 || b->dims[1] != 4)
        return mr_invalid("boxes must be 2-D with 4 columns, got shape %s", MR_TENSOR_SHAPE(b));
    if (i->rank != 1 || i->n != b->dims[0])
        return mr_invalid("box_index has incompatible shape %s for boxes of shape %s", MR_TENSOR_SHAPE(i),
                          MR_TENSOR_SHAPE(b));
    j->n = i->n;
    j->boxes = b->data;
    j->box_ind = i->data;
    return NULL;
}

static mr_status *check_images(job *j, const int64_t *dims)
{
    j->batch = dims[0], j->h = dims[1], j->w = dims[2], j->ch = dims[3];
    if (j->h <= 0 || j->w <= 0)
        return mr_invalid("image dimensions must be positive");
    for (int64_t i = 0; i < j->n; i++)
        if (j->box_ind[i] < 0 || j->box_ind[i] >= j->batch)
            return mr_error(MR_OUT_OF_RANGE, "box_index has values outside [0, batch_size)");
    return NULL;
}

static mr_status *check_grads(mr_run *r, job *j)
{
    const mr_tensor *g = mr_in(r, 0);
    if (g->rank != 4)
        return mr_invalid("grads must be 4-D, got shape %s", MR_TENSOR_SHAPE(g));
    j->crop_h = g->dims[1], j->crop_w = g->dims[2];
    if (j->crop_h <= 0 || j->crop_w <= 0)
        return mr_invalid("grads dimensions must be positive");
    if (g->dims[0] != j->n)
        return mr_invalid("boxes and grads have incompatible shape");
    j->grads = g->data;
    return NULL;
}

static mr_status *image_of(mr_run *r, int i, job *j)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 4)
        return mr_invalid("input image must be 4-D, got shape %s", MR_TENSOR_SHAPE(t));
    return check_images(j, t->dims);
}

/* ---- forward ---- */

static void crop_row(const job *j, const float *box, const float *image, int64_t i, float *out)
{
    place y, x;
    bool inside = find_source(j, box[0], box[2], i, j->crop_h, j->h, &y);
    for (int64_t c = 0; c < j->crop_w; c++, out += j->ch) {
        if (!inside || !find_source(j, box[1], box[3], c, j->crop_w, j->w, &x)) {
            for (int64_t k = 0; k < j->ch; k++)
                out[k] = j->extrapolation;
            continue;
        }
        const float *top = image + y.lower * j->w * j->ch, *bottom = image + y.upper * j->w * j->ch;
        int64_t a = x.lower * j->ch, b = x.upper * j->ch;
        for (int64_t k = 0; k < j->ch; k++) {
            float t = top[a + k] + (top[b + k] - top[a + k]) * x.lerp;
            float d = bottom[a + k] + (bottom[b + k] - bottom[a + k]) * x.lerp;
            out[k] = t + (d - t) * y.lerp;
        }
    }
}

/* Computes rows begin..end, counted over all crops. */
static void crop_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t r = begin; r < end; r++) {
        int64_t box = r / j->crop_h;
        const float *image = j->image + j->box_ind[box] * j->h * j->w * j->ch;
        crop_row(j, j->boxes + 4 * box, image, r % j->crop_h, (float *)j->out + r * j->crop_w * j->ch);
    }
}

typedef struct crop_state {
    bool nearest;
    float extrapolation;
} crop_state;

static mr_status *init_crop_and_resize(mr_make *m, void *state)
{
    crop_state *s = state;
    mr_sv method = MR_SV("bilinear");
    MR_TRY(mr_node_get_str(m->node, "method", &method));
    s->nearest = mr_sv_is(method, "nearest");
    if (mr_node_attr(m->node, "extrapolation_value"))
        MR_TRY(mr_node_get_float(m->node, "extrapolation_value", &s->extrapolation));
    return NULL;
}

static mr_status *crop_and_resize(mr_run *r)
{
    const crop_state *s = r->state;
    job j = {.nearest = s->nearest, .extrapolation = s->extrapolation};
    const int32_t *size;
    mr_wide image = {0};
    mr_tensor *out;
    MR_TRY(check_boxes(r, 1, 2, &j));
    MR_TRY(image_of(r, 0, &j));
    MR_TRY(mr_in_int32_vector(r, 3, "crop_size", 2, &size));
    if (size[0] <= 0 || size[1] <= 0)
        return mr_invalid("crop dimensions must be positive");
    j.crop_h = size[0], j.crop_w = size[1];
    MR_TRY(mr_run_output(r, 0, 4, (const int64_t[]){j.n, j.crop_h, j.crop_w, j.ch}, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(mr_pixels_in(r, 0, MR_FLOAT, &image));
    j.image = image.t->data;
    j.out = out->data;
    mr_run_for(r, j.n * j.crop_h, (double)j.crop_w * (5 + 3 * (double)j.ch), crop_rows, &j);
    mr_wide_deinit(&image);
    return NULL;
}

static mr_status *crop_shape(mr_infer *c)
{
    const mr_pshape *image, *boxes, *ind, *size;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &image));
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &boxes));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ind));
    MR_TRY(mr_infer_rank(c, c->in[3], 1, &size));
    MR_TRY(mr_infer_merge_dim(boxes->dims[0], ind->dims[0], &n));
    MR_TRY(mr_infer_dim_is(boxes->dims[1], 4));
    MR_TRY(mr_infer_dim_is(size->dims[0], 2));
    const mr_tensor *t = mr_infer_const(c, 3);
    mr_pshape *out = mr_pshape_new(c->arena, 4);
    out->dims[0] = n;
    out->dims[3] = image->dims[3];
    for (int i = 0; t && i < 2; i++)
        if ((out->dims[1 + i] = mr_tensor_int_at(t, i)) <= 0)
            return mr_invalid("crop dimensions must be positive");
    c->out[0] = out;
    return NULL;
}

static void crop_backward(mr_grad *g)
{
    mr_out image = mr_xi(g, 0), boxes = mr_xi(g, 1), ind = mr_xi(g, 2), dy = mr_dyi(g, 0);
    mr_dtype t = mr_dtype_base(mr_out_type(image));
    if (mr_dtype_is_floating(t))
        mr_dxi(g, 0, mr_emit_like(g, "CropAndResizeGradImage", "T method", MR_OUTS(dy, boxes, ind, mr_shape_of(g, image))));
    if (mr_needs_dx(g, 1))
        mr_dxi(g, 1, mr_emit(g->s, "CropAndResizeGradBoxes", dy, image, boxes, ind));
}

#define IMAGE_TYPES(M, ...)                                                                        \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__)             \
    MR_TYPE_UINT8(M, __VA_ARGS__) MR_TYPE_UINT16(M, __VA_ARGS__)
#define IMAGE_TYPES_TEXT "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}"

MR_OP(CropAndResize,
    .doc         = "boxes cut out of images and resized to one size",
    .sig         = "image: T, boxes: float, box_ind: int32, crop_size: int32 -> crops: float",
    .attrs       = IMAGE_TYPES_TEXT "; method: {'bilinear', 'nearest'} = 'bilinear'; extrapolation_value: float = 0",
    .shape       = crop_shape,
    .grad        = crop_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(crop_and_resize, IMAGE_TYPES)),
    .state_bytes = sizeof(crop_state),
    .init        = init_crop_and_resize,
    .examples    = MR_EXAMPLES(
        "[[[[1], [3]], [[5], [7]]]], [[0.0625, 0.125, 0.875, 0.9375]], [0], [2, 2] -> "
        "[[[[1.5], [3.125]], [[4.75], [6.375]]]]",
        "nograd: [[[[1, 10], [3, 30]]]], [[0, 1, 0, 0]], [0], [1, 3] -> [[[[3, 30], [2, 20], [1, 10]]]]",
        "nograd method=\"nearest\": [[[[1], [3], [9]]]], [[0, 0.3, 0, 0.9]], [0], [1, 2] -> [[[[3], [9]]]]",
        "nograd extrapolation_value=-5: [[[[1], [3]]], [[[2], [4]]]], [[0, 0, 0, 2], [0, 0, 0, nan]], [1, 0], [1, 2] -> "
        "[[[[2], [-5]]], [[[-5], [-5]]]]",
        "[[[[1], [3]], [[5], [7]]]], [[0, 0.2, 1, 0.6]], [0], [1, 1] -> [[[[3.8]]]]",
        "shape(1,2,2,1), shape(0,4), shape(0), [2, 2] -> shape(0,2,2,1)",
        "[[[[1]]]], [[0, 0, 1, 1]], [1], [1, 1] -> !OUT_OF_RANGE box_index has values outside [0, batch_size)",
        "[[[[1]]]], [[0, 0, 1, 1]], [0], [1, 0] -> !INVALID_ARGUMENT crop dimensions must be positive",
        "shape(1,0,1,1), [[0, 0, 1, 1]], [0], [1, 1] -> !INVALID_ARGUMENT image dimensions must be positive",
        "[[[[1]]]], [[0, 0, 1, 1]], [0, 0], [1, 1] -> !INVALID_ARGUMENT"));

/* ---- the gradient by the image ---- */

#define ADD_ROW(T)                                                                                        \
    static void add_row_##T(const job *j, const float *box, T *image, int64_t i, const float *dy)         \
    {                                                                                                     \
        place y, x;                                                                                       \
        if (!find_source(j, box[0], box[2], i, j->crop_h, j->h, &y))                                      \
            return;                                                                                       \
        for (int64_t c = 0; c < j->crop_w; c++, dy += j->ch) {                                            \
            if (!find_source(j, box[1], box[3], c, j->crop_w, j->w, &x))                                  \
                continue;                                                                                 \
            T *top = image + y.lower * j->w * j->ch, *bottom = image + y.upper * j->w * j->ch;            \
            int64_t a = x.lower * j->ch, b = x.upper * j->ch;                                             \
            for (int64_t k = 0; k < j->ch; k++) {                                                         \
                T t = (T)dy[k] * (1 - y.lerp), d = (T)dy[k] * y.lerp;                                     \
                top[a + k] += t * (1 - x.lerp);                                                           \
                top[b + k] += t * x.lerp;                                                                 \
                bottom[a + k] += d * (1 - x.lerp);                                                        \
                bottom[b + k] += d * x.lerp;                                                              \
            }                                                                                             \
        }                                                                                                 \
    }
ADD_ROW(float)
ADD_ROW(double)

/* The gradients of images begin..end: each image by one thread, in the order of the boxes. */
static void add_images(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t image = j->h * j->w * j->ch, row = j->crop_w * j->ch;
    for (int64_t b = 0; b < j->n; b++) {
        if (j->box_ind[b] < begin || j->box_ind[b] >= end)
            continue;
        for (int64_t i = 0; i < j->crop_h; i++) {
            const float *dy = j->grads + (b * j->crop_h + i) * row;
            if (j->wide)
                add_row_double(j, j->boxes + 4 * b, (double *)j->out + j->box_ind[b] * image, i, dy);
            else
                add_row_float(j, j->boxes + 4 * b, (float *)j->out + j->box_ind[b] * image, i, dy);
        }
    }
}

static mr_status *grad_image(mr_run *r)
{
    const crop_state *s = r->state;
    job j = {.nearest = s->nearest, .wide = mr_out_dtype(r, 0) == MR_DOUBLE};
    const int32_t *size;
    mr_wide out = {0};
    MR_TRY(check_boxes(r, 1, 2, &j));
    MR_TRY(check_grads(r, &j));
    MR_TRY(mr_in_int32_vector(r, 3, "image_size", 4, &size));
    int64_t dims[] = {size[0], size[1], size[2], size[3]};
    MR_TRY(check_images(&j, dims));
    if (j.ch != mr_in(r, 0)->dims[3])
        return mr_invalid("image_size and grads are incompatible: %lld and %lld channels", (long long)j.ch,
                          (long long)mr_in(r, 0)->dims[3]);
    mr_status *st = NULL;
    MR_GO(mr_pixels_out(r, 0, j.wide ? MR_DOUBLE : MR_FLOAT, 4, dims, true, &out));
    j.out = out.t->data;
    if (out.t->n > 0)
        mr_run_for(r, j.batch, 10 * (double)mr_in(r, 0)->n / (double)j.batch + (double)j.n, add_images, &j);
    mr_wide_store(r, 0, &out);
out:
    mr_wide_deinit(&out);
    return st;
}

static mr_status *grad_image_shape(mr_infer *c)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_ranks(c, 3, (const int[]){4, 2, 1}));
    MR_TRY(mr_infer_shape_value(c, 3, &s));
    return mr_infer_rank(c, s, 4, &c->out[0]);
}

#define GRAD_TYPES(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)

MR_OP(CropAndResizeGradImage,
    .doc         = "the gradient of CropAndResize by its images, of shape image_size",
    .sig         = "grads: float, boxes: float, box_ind: int32, image_size: int32 -> output: T",
    .attrs       = "T: {float, half, double}; method: {'bilinear', 'nearest'} = 'bilinear'",
    .shape       = grad_image_shape,
    .kernels     = MR_KERNELS(MR_CPU_ONE(grad_image, GRAD_TYPES)),
    .state_bytes = sizeof(crop_state),
    .init        = init_crop_and_resize,
    .examples    = MR_EXAMPLES(
        "T=$T: [[[[1], [2], [4]]]], [[0, 0, 0, 1]], [0], [1, 1, 2, 1] -> [[[[2], [5]]]]",
        "T=$T method=\"nearest\": [[[[1], [2], [4]]]], [[0, 0, 0, 1]], [0], [2, 1, 2, 1] -> [[[[1], [6]]], [[[0], [0]]]]",
        "T=$T: [[[[1]]], [[[2]]]], [[0, 0, 0, 0], [0, 0.5, 0, 2]], [0, 0], [1, 1, 2, 1] -> [[[[1], [0]]]]",
        "T=$T: shape(0,1,1,1), shape(0,4), shape(0), [1, 1, 2, 1] -> [[[[0], [0]]]]",
        "T=float: [[[[1]]]], [[0, 0, 1, 1]], [1], [1, 1, 2, 1] -> !OUT_OF_RANGE box_index",
        "T=float: [[[[1]]]], [[0, 0, 1, 1]], [0], [1, 1, 2, 3] -> !INVALID_ARGUMENT incompatible",
        "T=float: [[[[1]]]], [[0, 0, 1, 1]], [0], [1, 0, 2, 1] -> !INVALID_ARGUMENT image dimensions must be positive"));

/* ---- the gradient by the boxes ---- */

/* The derivative by the position of one pixel of the crop: how the sum over channels changes when it moves down, or
 * to the right. */
static void pixel_slopes(const job *j, const float *image, place y, place x, const float *dy, float *down, float *right)
{
    const float *top = image + y.lower * j->w * j->ch, *bottom = image + y.upper * j->w * j->ch;
    int64_t a = x.lower * j->ch, b = x.upper * j->ch;
    *down = *right = 0;
    for (int64_t k = 0; k < j->ch; k++) {
        float tl = top[a + k], tr = top[b + k], bl = bottom[a + k], br = bottom[b + k];
        *down += dy[k] * ((1 - x.lerp) * (bl - tl) + x.lerp * (br - tr));
        *right += dy[k] * ((1 - y.lerp) * (tr - tl) + y.lerp * (br - bl));
    }
}

/* Adds the derivative by the position of pixel i to those by the first and the last end of the box. */
static void add_to_box_ends(int64_t i, int64_t n_crop, int64_t n, float slope, float *first, float *last)
{
    float span = (float)(n - 1), part = n_crop > 1 ? (float)i / (float)(n_crop - 1) : 0.5f;
    *first += slope * span * (1 - part);
    *last += slope * span * part;
}

static void add_boxes(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t b = begin; b < end; b++) {
        const float *box = j->boxes + 4 * b, *image = j->image + j->box_ind[b] * j->h * j->w * j->ch;
        float *out = (float *)j->out + 4 * b, down, right;
        place y, x;
        for (int64_t i = 0; i < j->crop_h * j->crop_w; i++) {
            int64_t row = i / j->crop_w, col = i % j->crop_w;
            if (!find_source(j, box[0], box[2], row, j->crop_h, j->h, &y) ||
                !find_source(j, box[1], box[3], col, j->crop_w, j->w, &x))
                continue;
            pixel_slopes(j, image, y, x, j->grads + (b * j->crop_h * j->crop_w + i) * j->ch, &down, &right);
            add_to_box_ends(row, j->crop_h, j->h, down, &out[0], &out[2]);
            add_to_box_ends(col, j->crop_w, j->w, right, &out[1], &out[3]);
        }
    }
}

static mr_status *grad_boxes(mr_run *r)
{
    job j = {0};
    mr_wide image = {0};
    mr_tensor *out;
    MR_TRY(check_boxes(r, 2, 3, &j));
    MR_TRY(check_grads(r, &j));
    MR_TRY(image_of(r, 1, &j));
    if (j.ch != mr_in(r, 0)->dims[3])
        return mr_invalid("image, grads depth differ: %lld and %lld", (long long)j.ch, (long long)mr_in(r, 0)->dims[3]);
    MR_TRY(mr_run_output(r, 0, 2, (const int64_t[]){j.n, 4}, &out));
    mr_tensor_zero(out);
    if (mr_in(r, 0)->n == 0)
        return NULL;
    MR_TRY(mr_pixels_in(r, 1, MR_FLOAT, &image));
    j.image = image.t->data;
    j.out = out->data;
    mr_run_for(r, j.n, 10.0 * (double)(j.crop_h * j.crop_w * j.ch), add_boxes, &j);
    mr_wide_deinit(&image);
    return NULL;
}

static mr_status *grad_boxes_shape(mr_infer *c)
{
    MR_TRY(mr_infer_ranks(c, 4, (const int[]){4, 4, 2, 1}));
    return mr_infer_rank(c, c->in[2], 2, &c->out[0]);
}

MR_OP(CropAndResizeGradBoxes,
    .doc      = "the gradient of CropAndResize by its boxes",
    .sig      = "grads: float, image: T, boxes: float, box_ind: int32 -> output: float",
    .attrs    = IMAGE_TYPES_TEXT "; method: {'bilinear'} = 'bilinear'",
    .shape    = grad_boxes_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(grad_boxes, IMAGE_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[[1], [2]]]], [[[[1], [3], [9]]]], [[0, 0.25, 0, 0.75]], [0] -> [[0, 4, 0, 24]]",
        "[[[[1]]]], [[[[1], [3]], [[5], [7]]]], [[0, 0.2, 1, 0.6]], [0] -> [[2, 1, 2, 1]]",
        "[[[[1]]]], [[[[1]]]], [[0, 0, 0, 4]], [0] -> [[0, 0, 0, 0]]",
        "shape(0,1,1,1), [[[[1]]]], shape(0,4), shape(0) -> shape(0,4)",
        "[[[[1]]]], [[[[1]]]], [[0, 0, 1, 1]], [-1] -> !OUT_OF_RANGE box_index",
        "[[[[1, 2]]]], [[[[1]]]], [[0, 0, 1, 1]], [0] -> !INVALID_ARGUMENT depth differ"));
