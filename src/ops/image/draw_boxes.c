/* ops/image/draw_boxes.c -- DrawBoundingBoxes and its second version: draw frames of one pixel's width around
 * objects. */
#include <math.h>

#include "base/memory.h"
#include "ops/image/pixels.h"

enum { MOST_CHANNELS = 4, N_COLORS = 10 };

static const float usual[N_COLORS][MOST_CHANNELS] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},   {1, 0, 0, 1},   {0, 1, 0, 1}, {0.5f, 0, 0.5f, 1},
    {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1},
};
static const float white[] = {1, 1, 1, 1};

typedef struct job {
    int64_t height, width, channels, n_boxes;
    const float *boxes;  /* [batch, n_boxes, 4] */
    const float *colors; /* [n_colors, color_channels]; NULL: the default colors */
    int64_t n_colors, color_channels;
    float *out;
} job;

static const float *color_of(const job *j, int64_t box)
{
    if (j->colors)
        return j->colors + box % j->n_colors * j->color_channels;
    return j->channels == 1 ? white : usual[box % N_COLORS];
}

static void paint_pixel(const job *j, float *image, int64_t y, int64_t x, const float *color)
{
    for (int64_t k = 0; k < j->channels; k++)
        image[(y * j->width + x) * j->channels + k] = color[k];
}

/* Sides outside the image are not drawn; a box that is empty or completely outside is not drawn at all. */
static void draw_box(const job *j, float *image, const float *box, const float *color)
{
    double at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = trunc((double)(box[i] * (float)((i % 2 ? j->width : j->height) - 1)));
        if (!(fabs(at[i]) < 1e15))
            return;
    }
    int64_t top = (int64_t)at[0], left = (int64_t)at[1], bottom = (int64_t)at[2], right = (int64_t)at[3];
    if (top > bottom || left > right || top >= j->height || bottom < 0 || left >= j->width || right < 0)
        return;
    for (int64_t x = MR_MAX(left, 0); x <= MR_MIN(right, j->width - 1); x++) {
        if (top >= 0)
            paint_pixel(j, image, top, x, color);
        if (bottom < j->height)
            paint_pixel(j, image, bottom, x, color);
    }
    for (int64_t y = MR_MAX(top, 0); y <= MR_MIN(bottom, j->height - 1); y++) {
        if (left >= 0)
            paint_pixel(j, image, y, left, color);
        if (right < j->width)
            paint_pixel(j, image, y, right, color);
    }
}

static void draw_images(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t b = begin; b < end; b++)
        for (int64_t i = 0; i < j->n_boxes; i++)
            draw_box(j, j->out + b * j->height * j->width * j->channels, j->boxes + (b * j->n_boxes + i) * 4,
                     color_of(j, i));
}

static mr_status *check_inputs(const mr_run *r, job *j)
{
    const mr_tensor *images = mr_in(r, 0), *boxes = mr_in(r, 1);
    if (images->rank != 4)
        return mr_invalid("The rank of the images should be 4");
    if (boxes->rank != 3 || boxes->dims[2] != 4)
        return mr_invalid("The rank of the boxes tensor should be 3, with 4 coordinates, got shape %s", MR_TENSOR_SHAPE(boxes));
    if (images->dims[0] != boxes->dims[0])
        return mr_invalid("The batch sizes should be the same");
    j->height = images->dims[1], j->width = images->dims[2], j->channels = images->dims[3];
    if (j->channels != 1 && j->channels != 3 && j->channels != 4)
        return mr_invalid("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
    j->n_boxes = boxes->dims[1];
    j->boxes = boxes->data;
    if (r->n_in == 2 || mr_in(r, 2)->n == 0)
        return NULL;
    const mr_tensor *colors = mr_in(r, 2);
    if (colors->rank != 2)
        return mr_invalid("colors must be a 2-D matrix, got shape %s", MR_TENSOR_SHAPE(colors));
    if (colors->dims[1] < j->channels)
        return mr_invalid("Color depth should be equal or more than the image's: %lld and %lld", (long long)colors->dims[1],
                          (long long)j->channels);
    j->colors = colors->data;
    j->n_colors = colors->dims[0];
    j->color_channels = colors->dims[1];
    return NULL;
}

static mr_status *draw_boxes(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide in = {0}, out = {0};
    const mr_tensor *x = mr_in(r, 0);
    job j = {0};
    MR_TRY(check_inputs(r, &j));
    MR_GO(mr_wide_in(r, 0, &in));
    MR_GO(mr_wide_out(r, 0, 0, 4, x->dims, &out));
    if (out.t != in.t && out.t->n > 0 && out.t->data != in.t->data)
        memcpy(out.t->data, in.t->data, mr_tensor_bytes(out.t));
    j.out = out.t->data;
    if (out.t->n > 0)
        mr_run_for(r, x->dims[0], (double)j.n_boxes * (double)(j.height + j.width) * 4, draw_images, &j);
    mr_wide_store(r, 0, &out);
out:
    mr_wide_deinit(&in);
    mr_wide_deinit(&out);
    return st;
}

static mr_status *infer_draw_boxes(mr_infer *c) { return mr_infer_rank_at_least(c, c->in[0], 3, &c->out[0]); }

#define HALF_FLOAT_KERNELS MR_KERNELS({"CPU", MR_HALF, draw_boxes}, {"CPU", MR_FLOAT, draw_boxes},)

MR_OP(DrawBoundingBoxes,
    .doc      = "images with boxes [y1, x1, y2, x2], in parts of the image, drawn on them",
    .sig      = "images: T, boxes: float -> output: T",
    .attrs    = "T: {float, half} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = infer_draw_boxes,
    .kernels  = HALF_FLOAT_KERNELS,
    .examples = MR_EXAMPLES(
        "fill(9, 1,3,4,1), [[[0, 0, 1, 0.7]]] -> "
        "[[[[1], [1], [1], [9]], [[1], [9], [1], [9]], [[1], [1], [1], [9]]]]",
        "fill(9, 1,2,2,3), [[[-5, 0, 0, 5], [1, 1, 1, 1]]] -> "
        "[[[[1, 1, 0], [1, 1, 0]], [[9, 9, 9], [0, 0, 1]]]]",
        "[[[[9]]]], [[[nan, 0, 1, 1], [1, 0, 0, 1], [0, 5, 1, 6]]] -> [[[[1]]]]",
        "shape(0,2,2,1), shape(0,3,4) -> shape(0,2,2,1)",
        "[[[[1, 2]]]], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT Channel depth should be either",
        "[[[[1]]]], shape(2,1,4) -> !INVALID_ARGUMENT batch sizes should be the same",
        "[[[[1]]]], [[[0, 0, 1]]] -> !INVALID_ARGUMENT"));

MR_OP(DrawBoundingBoxesV2,
    .doc      = "DrawBoundingBoxes in given colors, one after another, or the usual ones when there are none",
    .sig      = "images: T, boxes: float, colors: float -> output: T",
    .attrs    = "T: {float, half} = DT_FLOAT",
    .shape    = infer_draw_boxes,
    .kernels  = HALF_FLOAT_KERNELS,
    .examples = MR_EXAMPLES(
        "fill(9, 1,1,3,1), [[[0, 0, 1, 0], [0, 1, 1, 1]]], [[5, 6]] -> [[[[5], [9], [5]]]]",
        "fill(9, 1,1,1,3), [[[0, 0, 1, 0]]], shape(0,0) -> [[[[1, 1, 0]]]]",
        "fill(9, 1,1,1,3), [[[0, 0, 1, 0]]], [[1]] -> !INVALID_ARGUMENT Color depth should be equal or more"));
