/* ops/image/sample_box.c -- SampleDistortedBoundingBox, its second version and the stateless one: a random crop of
 * an image that contains enough of an object.
 *
 * A shape is drawn (aspect ratio, then height), then a position. The crop is accepted if it covers the required
 * fraction of one of the boxes; after max_attempts the whole image is used. The order and kind of random numbers is
 * TensorFlow's, so equal seeds give equal crops. */
#include <math.h>

#include "base/memory.h"
#include "ops/image/pixels.h"
#include "ops/random/key.h"
#include "ops/random/philox.h"
#include "run/scratch.h"

typedef struct state {
    mr_random_state random; /* first member: mr_random_init fills it */
    bool stateless, use_image;
    float covered; /* attr of the first version */
    float aspect[2], area[2];
    int64_t max_attempts;
} state;

/* ---- attrs ---- */

static mr_status *read_range(const mr_node *n, const char *name, const char *what, float out[2])
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(n, name, MR_ATTR_FLOAT, &a));
    if (a->n != 2)
        return mr_invalid("%s range field must specify 2 dimensions", what);
    out[0] = a->fs[0], out[1] = a->fs[1];
    if (!(out[0] > 0 && out[1] > 0))
        return mr_invalid("%s range must be non-negative: [%g, %g]", what, (double)out[0], (double)out[1]);
    return NULL;
}

static mr_status *check_covered(float v)
{
    return v >= 0 ? NULL : mr_invalid("Min object covered must be non-negative: %g", (double)v);
}

static mr_status *read_attrs(const mr_node *n, state *s)
{
    if (mr_node_attr(n, "min_object_covered")) {
        MR_TRY(mr_node_get_float(n, "min_object_covered", &s->covered));
        MR_TRY(check_covered(s->covered));
    }
    MR_TRY(mr_node_get_bool(n, "use_image_if_no_bounding_boxes", &s->use_image));
    MR_TRY(read_range(n, "aspect_ratio_range", "Aspect ratio", s->aspect));
    MR_TRY(read_range(n, "area_range", "Area", s->area));
    if (s->area[0] > 1 || s->area[1] > 1)
        return mr_invalid("Area range must be less then or equal to 1.0: [%g, %g]", (double)s->area[0], (double)s->area[1]);
    MR_TRY(mr_node_get_int(n, "max_attempts", &s->max_attempts));
    if (s->max_attempts <= 0 || s->max_attempts > INT32_MAX)
        return mr_invalid("Max attempts must be non-negative: %lld", (long long)s->max_attempts);
    return NULL;
}

static mr_status *init_sample_box(mr_make *m, void *room)
{
    state *s = room;
    s->stateless = mr_node_attr(m->node, "seed") == NULL;
    MR_TRY(read_attrs(m->node, s));
    return s->stateless ? NULL : mr_random_init(m, &s->random);
}

static void deinit_sample_box(void *room)
{
    state *s = room;
    if (!s->stateless)
        mr_random_deinit(&s->random);
}

/* ---- drawing ---- */

typedef struct rect {
    int32_t left, top, right, bottom;
} rect;

static float area_of(rect r) { return (float)((int64_t)(r.right - r.left) * (r.bottom - r.top)); }

static rect overlap_of(rect a, rect b)
{
    rect r = {MR_MAX(a.left, b.left), MR_MAX(a.top, b.top), MR_MIN(a.right, b.right), MR_MIN(a.bottom, b.bottom)};
    return r.left > r.right || r.top > r.bottom ? (rect){0} : r;
}

/* A uniform number below n: numbers that would make some results more likely are drawn again. */
static uint32_t draw_below(mr_words *w, uint32_t n)
{
    uint32_t v, rest = UINT32_MAX % n + 1;
    do
        v = mr_words_next(w);
    while (v > UINT32_MAX - rest);
    return v % n;
}

/* Rounds to the nearest number of pixels that fits. */
static int64_t round_to_pixels(float v) { return v < (float)INT32_MAX ? lrintf(v) : INT32_MAX; }
static int64_t width_of(int64_t height, float aspect) { return round_to_pixels((float)height * aspect); }

/* Draws a height such that the area is within the limits, if there is one; rounding is corrected by one pixel. */
static bool draw_size(const state *s, float aspect, int32_t width, int32_t height, mr_words *w, int64_t *out_w, int64_t *out_h)
{
    float least = s->area[0] * (float)width * (float)height, most = s->area[1] * (float)width * (float)height;
    int64_t h = round_to_pixels(sqrtf(least / aspect)), top = round_to_pixels(sqrtf(most / aspect));
    if (width_of(top, aspect) > width) {
        const float eps = 0.0000001f;
        top = (int64_t)fmin((width + 0.5 - (double)eps) / (double)aspect, INT32_MAX);
        if (width_of(top, aspect) > width)
            top--;
    }
    top = MR_MIN(top, height);
    h = MR_MIN(h, top);
    if (h < top)
        h += draw_below(w, (uint32_t)(top - h + 1));
    float area = (float)(width_of(h, aspect) * h);
    if (area < least) {
        h++;
        area = (float)(width_of(h, aspect) * h);
    }
    if (area > most) {
        h--;
        area = (float)(width_of(h, aspect) * h);
    }
    *out_h = h;
    *out_w = width_of(h, aspect);
    return !(area < least || area > most || *out_w > width || h > height || *out_w <= 0 || h <= 0);
}

static bool draw_crop(const state *s, int32_t width, int32_t height, mr_words *w, rect *out)
{
    int64_t crop_w, crop_h;
    float aspect = mr_philox_float(mr_words_next(w)) * (s->aspect[1] - s->aspect[0]) + s->aspect[0];
    if (aspect <= 0 || width <= 0 || height <= 0 || s->area[0] > s->area[1])
        return false;
    if (!draw_size(s, aspect, width, height, w, &crop_w, &crop_h))
        return false;
    int32_t y = crop_h < height ? (int32_t)draw_below(w, (uint32_t)(height - crop_h)) : 0;
    int32_t x = crop_w < width ? (int32_t)draw_below(w, (uint32_t)(width - crop_w)) : 0;
    *out = (rect){x, y, x + (int32_t)crop_w, y + (int32_t)crop_h};
    return true;
}

static bool is_covered(rect crop, float wanted, const rect *boxes, int64_t n)
{
    for (int64_t i = 0; area_of(crop) >= 1 && i < n; i++)
        if (area_of(boxes[i]) >= 1 && area_of(overlap_of(crop, boxes[i])) / area_of(boxes[i]) >= wanted)
            return true;
    return false;
}

/* ---- the op ---- */

static mr_status *read_boxes(const mr_run *r, const mr_tensor *t, const state *s, rect image, rect **out, int64_t *n)
{
    const float *b = t->data;
    *n = t->n / 4;
    if (*n == 0 && !s->use_image)
        return mr_invalid("No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to "
                          "not provide any bounding boxes.");
    if (!(*out = mr_scratch_zeroed(r, (size_t)MR_MAX(*n, 1), sizeof(rect))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld boxes", (long long)*n);
    for (int64_t i = 0; i < t->n; i++)
        if (!(b[i] >= 0 && b[i] <= 1))
            return mr_invalid("All bounding box coordinates must be in [0.0, 1.0]: %g", (double)b[i]);
    for (int64_t i = 0; i < *n; i++, b += 4)
        (*out)[i] = (rect){(int32_t)(b[1] * (float)image.right), (int32_t)(b[0] * (float)image.bottom),
                           (int32_t)(b[3] * (float)image.right), (int32_t)(b[2] * (float)image.bottom)};
    if (*n == 0)
        (*out)[(*n)++] = image;
    return NULL;
}

static mr_status *read_image(const mr_run *r, rect *out)
{
    const mr_tensor *size = mr_in(r, 0), *boxes = mr_in(r, 1);
    int64_t v[3];
    if (size->rank != 1 || size->n != 3)
        return mr_invalid("image_size must be 1-dimensional and contain 3 elements, got shape %s", MR_TENSOR_SHAPE(size));
    mr_dtype_convert((mr_dtype)size->dtype, size->data, MR_INT64, v, 3, false);
    if (v[0] < 0 || v[0] >= INT32_MAX || v[1] < 0 || v[1] >= INT32_MAX)
        return mr_invalid("image %s cannot be >= int32 max", v[0] < 0 || v[0] >= INT32_MAX ? "height" : "width");
    if (boxes->rank != 3 || boxes->dims[2] != 4)
        return mr_invalid("input boxes must be 3-dimensional [batch, num_boxes, coords] with 4 of them: %s", MR_TENSOR_SHAPE(boxes));
    /* a box of the whole width may exceed it by one after rounding */
    *out = (rect){0, 0, (int32_t)MR_MIN(v[1], INT32_MAX - 128), (int32_t)MR_MIN(v[0], INT32_MAX - 128)};
    return NULL;
}

static mr_status *put_outputs(mr_run *r, rect crop, rect image)
{
    mr_tensor *begin, *size, *box;
    int64_t from[] = {crop.top, crop.left, 0}, extent[] = {crop.bottom - crop.top, crop.right - crop.left, -1};
    float h = (float)image.bottom, w = (float)image.right;
    MR_TRY(mr_run_output(r, 0, 1, (const int64_t[]){3}, &begin));
    MR_TRY(mr_run_output(r, 1, 1, (const int64_t[]){3}, &size));
    MR_TRY(mr_run_output(r, 2, 3, (const int64_t[]){1, 1, 4}, &box));
    mr_dtype_convert(MR_INT64, from, (mr_dtype)begin->dtype, begin->data, 3, false);
    mr_dtype_convert(MR_INT64, extent, (mr_dtype)size->dtype, size->data, 3, false);
    const float corners[] = {(float)crop.top / h, (float)crop.left / w, (float)crop.bottom / h, (float)crop.right / w};
    memcpy(box->data, corners, sizeof(corners));
    return NULL;
}

static mr_status *run_sample_box(mr_run *r)
{
    state *s = r->state;
    float covered = s->covered;
    rect image = {0}, crop = {0}, *boxes = NULL;
    int64_t n = 0;
    mr_philox stream;
    MR_TRY(read_image(r, &image));
    if (r->n_in > 2) {
        MR_TRY(mr_in_scalar_float(r, 2, "min_object_covered", &covered));
        MR_TRY(check_covered(covered));
    }
    if (s->stateless)
        MR_TRY(mr_seed_stream(r, 3, &stream));
    else
        stream = mr_random_reserve(&s->random, (uint64_t)s->max_attempts);
    mr_status *st = read_boxes(r, mr_in(r, 1), s, image, &boxes, &n);
    mr_words words = mr_words_at(stream, 0);
    bool found = false;
    for (int64_t i = 0; !st && !found && i < s->max_attempts; i++) {
        found = draw_crop(s, image.right, image.bottom, &words, &crop) && is_covered(crop, covered, boxes, n);
        if (i % 1024 == 1023 && r->step->cancel && mr_cancel_started(r->step->cancel))
            st = mr_error(MR_CANCELLED, "the sampling of boxes was cancelled");
    }
    mr_scratch_free(boxes);
    return st ? st : put_outputs(r, found ? crop : image, image);
}

static mr_status *infer_sample_box(mr_infer *c)
{
    const mr_pshape *size, *boxes;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &size));
    MR_TRY(mr_infer_rank(c, c->in[1], 3, &boxes));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(size, 0), 3));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(boxes, 2), 4));
    if (c->n_in > 2)
        MR_TRY(mr_infer_rank(c, c->in[2], 0, &size));
    if (c->n_in > 3)
        MR_TRY(mr_seed_infer(c, 3));
    mr_infer_out_vector(c, 0, 3);
    mr_infer_out_vector(c, 1, 3);
    c->out[2] = mr_pshape_of(c->arena, 3, (const int64_t[]){1, 1, 4});
    return NULL;
}

#define SIZE_TYPES(M, ...) MR_TYPE_UINT8(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__)
#define SIZE_ATTR "T: {uint8, int8, int16, int32, int64}; "
#define SEED_ATTRS "seed: int = 0; seed2: int = 0; "
#define RANGE_ATTRS                                                                                                \
    "aspect_ratio_range: list(float) = [0.75, 1.33]; area_range: list(float) = [0.05, 1]; max_attempts: int = 100; " \
    "use_image_if_no_bounding_boxes: bool = false"
#define COMMON                                                                                                     \
    .shape = infer_sample_box, .kernels = MR_KERNELS(MR_CPU_ONE(run_sample_box, SIZE_TYPES)),                      \
    .state_bytes = sizeof(state), .init = init_sample_box, .deinit = deinit_sample_box
/* An area and an aspect ratio that allow only one crop. */
#define WHOLE "area_range=[1,1] aspect_ratio_range=[1,1]"

MR_OP(SampleDistortedBoundingBox,
    .doc      = "a random part of an image that covers enough of one of the boxes: where it begins, its size, and as a box",
    .sig      = "image_size: T, bounding_boxes: float -> begin: T, size: T, bboxes: float",
    .attrs    = SIZE_ATTR SEED_ATTRS "min_object_covered: float = 0.1; " RANGE_ATTRS,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    COMMON,
    .examples = MR_EXAMPLES(
        WHOLE ": [10, 10, 3], [[[0.2, 0.2, 0.5, 0.5]]] -> [0, 0, 0], [10, 10, ?], [[[0, 0, 1, 1]]]",
        "seed=3: [40, 50, 3], [[[0.2, 0.2, 0.5, 0.5]]] -> [?, ?, 0], [?, ?, ?], shape(1,1,4)",
        "use_image_if_no_bounding_boxes=true " WHOLE ": [10, 10, 3], shape(1,0,4) -> [0, 0, 0], [10, 10, ?], [[[0, 0, 1, 1]]]",
        "[10, 10, 3], shape(1,0,4) -> !INVALID_ARGUMENT No bounding boxes provided as input.",
        "[10, 10, 3], [[[0, 0, 1, nan]]] -> !INVALID_ARGUMENT All bounding box coordinates must be in [0.0, 1.0]",
        "min_object_covered=-1: [10, 10, 3], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT Min object covered must be non-negative",
        "area_range=[0.5]: [10, 10, 3], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT Area range field must specify 2 dimensions",
        "area_range=[0.5,2]: [10, 10, 3], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT less then or equal to 1.0",
        "aspect_ratio_range=[0,1]: [10, 10, 3], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT Aspect ratio range must be non-negative",
        "max_attempts=0: [10, 10, 3], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT Max attempts must be non-negative",
        "[10, 10], [[[0, 0, 1, 1]]] -> !INVALID_ARGUMENT"));

MR_OP(SampleDistortedBoundingBoxV2,
    .doc      = "SampleDistortedBoundingBox with min_object_covered as an input",
    .sig      = "image_size: T, bounding_boxes: float, min_object_covered: float -> begin: T, size: T, bboxes: float",
    .attrs    = SIZE_ATTR SEED_ATTRS RANGE_ATTRS,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    COMMON,
    .examples = MR_EXAMPLES(
        WHOLE ": [10, 10, 3], [[[0.2, 0.2, 0.5, 0.5]]], 0.5 -> [0, 0, 0], [10, 10, ?], [[[0, 0, 1, 1]]]",
        "[10, 10, 3], [[[0, 0, 1, 1]]], -1 -> !INVALID_ARGUMENT Min object covered must be non-negative",
        "[10, 10, 3], [[[0, 0, 1, 1]]], [1] -> !INVALID_ARGUMENT"));

MR_OP(StatelessSampleDistortedBoundingBox,
    .doc      = "SampleDistortedBoundingBoxV2 that is the same for the same seed",
    .sig      = "image_size: T, bounding_boxes: float, min_object_covered: float, seed: Tseed "
                "-> begin: T, size: T, bboxes: float",
    .attrs    = SIZE_ATTR "Tseed: {int32, int64}; " RANGE_ATTRS,
    COMMON,
    .examples = MR_EXAMPLES(
        "Tseed=int32 " WHOLE ": [10, 10, 3], [[[0.2, 0.2, 0.5, 0.5]]], 0.5, [1, 2] -> [0, 0, 0], [10, 10, ?], [[[0, 0, 1, 1]]]",
        "Tseed=int64: [40, 50, 3], [[[0, 0, 1, 1]]], 0.1, [1, 2] -> [?, ?, 0], [?, ?, ?], shape(1,1,4)",
        "Tseed=int64: [40, 50, 3], [[[0, 0, 1, 1]]], 0.1, [1] -> !INVALID_ARGUMENT"));
