/* ops/image/non_max_suppression.c -- NonMaxSuppression in its five versions, and with given overlaps. */
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "ops/image/pixels.h"
#include "ops/image/suppress.h"
#include "run/scratch.h"

/* ---- reading the inputs ---- */

static mr_status *read_scores(const mr_run *r, int64_t n)
{
    const mr_tensor *t = mr_in(r, 1);
    if (t->rank != 1)
        return mr_invalid("scores must be 1-D, got shape %s", MR_TENSOR_SHAPE(t));
    if (t->n != n)
        return mr_invalid("scores has incompatible shape: %lld of them for %lld boxes", (long long)t->n, (long long)n);
    return NULL;
}

static mr_status *read_limit(const mr_run *r, int64_t *out)
{
    const mr_tensor *t = mr_in(r, 2);
    if (t->rank != 0)
        return mr_invalid("max_output_size must be 0-D, got shape %s", MR_TENSOR_SHAPE(t));
    *out = *MR_DATA(const int32_t, t);
    if (*out < 0)
        return mr_invalid("max_output_size must be non-negative, got %lld", (long long)*out);
    return NULL;
}

static mr_status *read_boxes(const mr_run *r, mr_suppress *s)
{
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank != 2)
        return mr_invalid("boxes must be 2-D, got shape %s", MR_TENSOR_SHAPE(t));
    if (t->dims[1] != 4)
        return mr_invalid("boxes must have 4 columns");
    if (t->dims[0] > INT32_MAX)
        return mr_invalid("too many boxes: %lld", (long long)t->dims[0]);
    s->n = t->dims[0];
    s->stride = 4;
    s->overlap = mr_overlap_of_boxes;
    return read_scores(r, s->n);
}

static mr_status *check_threshold(float threshold)
{
    if (!(threshold >= 0 && threshold <= 1))
        return mr_invalid("iou_threshold must be in [0, 1]");
    return NULL;
}

/* ---- running ---- */

typedef struct outputs {
    int indices, scores, valid; /* indices of outputs; -1: the op does not have it */
    bool pad;
} outputs;

/* Sets output i to a vector of `n` elements of which the first are `from`, the others 0. */
static mr_status *put_vector(mr_run *r, int i, int64_t n, mr_dtype type, const void *from, int64_t n_from)
{
    mr_tensor *t;
    MR_TRY(mr_run_output(r, i, 1, &n, &t));
    mr_tensor_zero(t);
    mr_dtype_convert(type, from, (mr_dtype)t->dtype, t->data, n_from, false);
    return NULL;
}

static mr_status *put_outputs(mr_run *r, const outputs *o, int64_t limit, const int32_t *indices, const float *scores,
                              int64_t n)
{
    int64_t room = o->pad ? limit : n;
    mr_tensor *valid;
    MR_TRY(put_vector(r, o->indices, room, MR_INT32, indices, n));
    if (o->scores >= 0)
        MR_TRY(put_vector(r, o->scores, room, MR_FLOAT, scores, n));
    if (o->valid >= 0) {
        MR_TRY(mr_run_output(r, o->valid, 0, NULL, &valid));
        *MR_DATA(int32_t, valid) = (int32_t)n;
    }
    return NULL;
}

static mr_status *run_suppression(mr_run *r, mr_suppress *s, const outputs *o)
{
    mr_status *st = NULL;
    mr_wide data = {0}, scores = {0};
    int64_t room = MR_MIN(s->limit, s->n), n_taken;
    int32_t *taken = mr_scratch_zeroed(r, (size_t)room + 1, sizeof(*taken));
    float *taken_scores = mr_scratch_zeroed(r, (size_t)room + 1, sizeof(*taken_scores));
    if (!taken || !taken_scores)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld boxes", (long long)room));
    MR_GO(mr_pixels_in(r, 0, MR_FLOAT, &data));
    MR_GO(mr_pixels_in(r, 1, MR_FLOAT, &scores));
    s->data = data.t->data;
    s->scores = scores.t->data;
    s->cancel = r->step->cancel;
    MR_GO(mr_suppress_run(r, s, taken, taken_scores, &n_taken));
    MR_GO(put_outputs(r, o, s->limit, taken, taken_scores, n_taken));
out:
    mr_wide_deinit(&data);
    mr_wide_deinit(&scores);
    mr_scratch_free(taken);
    mr_scratch_free(taken_scores);
    return st;
}

/* ---- shapes ---- */

/* boxes [n, 4], scores [n], then scalars. */
static mr_status *check_shapes(mr_infer *c)
{
    const mr_pshape *boxes, *scores, *scalar;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &boxes));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &scores));
    for (int i = 2; i < c->n_in; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &scalar));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(boxes, 0), mr_infer_dim(scores, 0), &n));
    return mr_infer_dim_is(mr_infer_dim(boxes, 1), 4);
}

static mr_status *vector_shape(mr_infer *c)
{
    MR_TRY(check_shapes(c));
    mr_infer_out_vector(c, 0, -1);
    return NULL;
}

/* V4 and V5: the length of the vectors is known when they are padded. */
static mr_status *padded_shape(mr_infer *c)
{
    int64_t n = -1;
    bool pad;
    MR_TRY(check_shapes(c));
    MR_TRY(mr_node_get_bool(c->node, "pad_to_max_output_size", &pad));
    if (!pad || !mr_infer_int(c, 2, &n))
        n = -1;
    else if (n < 0)
        return mr_invalid("max_output_size must be non-negative, got %lld", (long long)n);
    for (int i = 0; i < c->n_out - 1; i++)
        mr_infer_out_vector(c, i, n);
    mr_infer_out_scalar(c, c->n_out - 1);
    return NULL;
}

/* ---- the ops ---- */

static mr_status *init_v1(mr_make *m, void *state)
{
    MR_TRY(mr_node_get_float(m->node, "iou_threshold", state));
    return check_threshold(*(float *)state);
}

static mr_status *init_pad(mr_make *m, void *state)
{
    return mr_node_get_bool(m->node, "pad_to_max_output_size", state);
}

static mr_status *nms_v1(mr_run *r)
{
    mr_suppress s = {.threshold = *(const float *)r->state, .score_threshold = -FLT_MAX};
    MR_TRY(read_limit(r, &s.limit));
    MR_TRY(read_boxes(r, &s));
    return run_suppression(r, &s, &(outputs){0, -1, -1});
}

/* Reads the inputs that versions 2 to 5 add. */
static mr_status *read_more(mr_run *r, mr_suppress *s)
{
    s->score_threshold = mr_in(r, 0)->dtype == MR_HALF ? -65504 : -FLT_MAX; /* the lowest number of the type */
    MR_TRY(read_limit(r, &s->limit));
    MR_TRY(mr_in_scalar_float(r, 3, "iou_threshold", &s->threshold));
    MR_TRY(check_threshold(s->threshold));
    if (r->n_in > 4)
        MR_TRY(mr_in_scalar_float(r, 4, "score_threshold", &s->score_threshold));
    if (r->n_in > 5)
        MR_TRY(mr_in_scalar_float(r, 5, "soft_nms_sigma", &s->sigma));
    if (!(s->sigma >= 0))
        return mr_invalid("soft_nms_sigma_val must be non-negative");
    return read_boxes(r, s);
}

static mr_status *nms_v23(mr_run *r)
{
    mr_suppress s = {0};
    MR_TRY(read_more(r, &s));
    return run_suppression(r, &s, &(outputs){0, -1, -1});
}

static mr_status *nms_v4(mr_run *r)
{
    mr_suppress s = {0};
    MR_TRY(read_more(r, &s));
    return run_suppression(r, &s, &(outputs){0, -1, 1, *(const bool *)r->state});
}

static mr_status *nms_v5(mr_run *r)
{
    mr_suppress s = {0};
    MR_TRY(read_more(r, &s));
    return run_suppression(r, &s, &(outputs){0, 1, 2, *(const bool *)r->state});
}

#define SIX_BOXES "[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]"
#define SIX_SCORES "[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]"
#define HALF_FLOAT_KERNELS(fn) MR_KERNELS({"CPU", MR_HALF, fn}, {"CPU", MR_FLOAT, fn},)

MR_OP(NonMaxSuppression,
    .doc         = "indices of boxes by falling score, without those that overlap a better one too much",
    .sig         = "boxes: float, scores: float, max_output_size: int32 -> selected_indices: int32",
    .attrs       = "iou_threshold: float = 0.5",
    .flags       = MR_NO_GRADIENT,
    .shape       = vector_shape,
    .kernels     = MR_KERNELS(MR_CPU_ANY(nms_v1)),
    .state_bytes = sizeof(float),
    .init        = init_v1,
    .examples    = MR_EXAMPLES(
        SIX_BOXES ", " SIX_SCORES ", 3 -> [3, 0, 5]",
        "[[1, 1, 0, 0], [0, 0.1, 1, 1.1], [0, 5, 1, 6]], [1, 1, 1], 30 -> [0, 2]",
        "iou_threshold=1: [[0, 0, 1, 1], [0, 0, 1, 1]], [1, 2], 3 -> [1, 0]",
        "[[0, 0, 1, 1], [0, 0, 1, 1]], [nan, 2], 3 -> [1]",
        "[[0, 0, 1, 1]], [1], 0 -> shape(0)",
        "shape(0,4), shape(0), 3 -> shape(0)",
        "iou_threshold=2: [[0, 0, 1, 1]], [1], 3 -> !INVALID_ARGUMENT iou_threshold must be in [0, 1]",
        "[[0, 0, 1, 1]], [1], -1 -> !INVALID_ARGUMENT max_output_size must be non-negative",
        "[[0, 0, 1]], [1], 3 -> !INVALID_ARGUMENT",
        "[[0, 0, 1, 1]], [1, 2], 3 -> !INVALID_ARGUMENT"));

MR_OP(NonMaxSuppressionV2,
    .doc      = "NonMaxSuppression with the threshold as an input",
    .sig      = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold -> selected_indices: int32",
    .attrs    = "T: {half, float} = DT_FLOAT; T_threshold: {half, float} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = vector_shape,
    .kernels  = HALF_FLOAT_KERNELS(nms_v23),
    .examples = MR_EXAMPLES(
        SIX_BOXES ", " SIX_SCORES ", 3, 0.5 -> [3, 0, 5]",
        "T_threshold=half: " SIX_BOXES ", " SIX_SCORES ", 3, 0.5 -> [3, 0, 5]",
        "shape(0,4), shape(0), 3, 0 -> shape(0)",
        "[[0, 0, 1, 1]], [1], 3, nan -> !INVALID_ARGUMENT iou_threshold must be in [0, 1]",
        "[[0, 0, 1, 1]], [1], 3, [0.5] -> !INVALID_ARGUMENT"));

MR_OP(NonMaxSuppressionV3,
    .doc      = "NonMaxSuppressionV2 of the boxes with a score above a threshold",
    .sig      = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, score_threshold: T_threshold "
                "-> selected_indices: int32",
    .attrs    = "T: {half, float} = DT_FLOAT; T_threshold: {half, float} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = vector_shape,
    .kernels  = HALF_FLOAT_KERNELS(nms_v23),
    .examples = MR_EXAMPLES(
        SIX_BOXES ", " SIX_SCORES ", 3, 0.5, 0.4 -> [3, 0]",
        "T_threshold=half: " SIX_BOXES ", " SIX_SCORES ", 1, 0.5, 0 -> [3]",
        "[[0, 0, 1, 1]], [1], 3, 0.5, nan -> shape(0)",
        "[[0, 0, 1, 1]], [1], 3, 1.5, 0 -> !INVALID_ARGUMENT iou_threshold must be in [0, 1]"));

MR_OP(NonMaxSuppressionV4,
    .doc         = "NonMaxSuppressionV3 that fills up with zeros on request and says how many indices count",
    .sig         = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, score_threshold: T_threshold "
                   "-> selected_indices: int32, valid_outputs: int32",
    .attrs       = "T: {half, float} = DT_FLOAT; T_threshold: {half, float} = DT_FLOAT; "
                   "pad_to_max_output_size: bool = false",
    .flags       = MR_NO_GRADIENT,
    .shape       = padded_shape,
    .kernels     = HALF_FLOAT_KERNELS(nms_v4),
    .state_bytes = sizeof(bool),
    .init        = init_pad,
    .examples    = MR_EXAMPLES(
        SIX_BOXES ", " SIX_SCORES ", 5, 0.5, 0.4 -> [3, 0], 2",
        "pad_to_max_output_size=true: " SIX_BOXES ", " SIX_SCORES ", 5, 0.5, 0.4 -> [3, 0, 0, 0, 0], 2",
        "T_threshold=half: " SIX_BOXES ", " SIX_SCORES ", 5, 0.5, 0.4 -> [3, 0], 2",
        "pad_to_max_output_size=true: shape(0,4), shape(0), 2, 0.5, 0 -> [0, 0], 0"));

MR_OP(NonMaxSuppressionV5,
    .doc         = "NonMaxSuppressionV4 that lowers the scores of boxes that overlap when soft_nms_sigma is above 0",
    .sig         = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T, score_threshold: T, soft_nms_sigma: T "
                   "-> selected_indices: int32, selected_scores: T, valid_outputs: int32",
    .attrs       = "T: {half, float} = DT_FLOAT; pad_to_max_output_size: bool = false",
    .flags       = MR_NO_GRADIENT,
    .shape       = padded_shape,
    .kernels     = HALF_FLOAT_KERNELS(nms_v5),
    .state_bytes = sizeof(bool),
    .init        = init_pad,
    .examples    = MR_EXAMPLES(
        SIX_BOXES ", " SIX_SCORES ", 6, 0.5, 0, 0 -> [3, 0, 5], [0.95, 0.9, 0.3], 3",
        SIX_BOXES ", " SIX_SCORES ", 6, 1, 0, 0.5 -> "
        "[3, 0, 1, 5, 4, 2], [0.95, 0.9, 0.384, 0.3, 0.256, 0.197], 6",
        "pad_to_max_output_size=true: " SIX_BOXES ", " SIX_SCORES ", 4, 1, 0.35, 0.5 -> "
        "[3, 0, 1, 0], [0.95, 0.9, 0.384, 0], 3",
        "[[0, 0, 1, 1]], [1], 3, 0.5, 0, -1 -> !INVALID_ARGUMENT soft_nms_sigma_val must be non-negative"));

/* ---- with given overlaps ---- */

static float given_overlap(const mr_suppress *s, int64_t i, int64_t k) { return s->data[i * s->stride + k]; }

static mr_status *nms_with_overlaps(mr_run *r)
{
    mr_suppress s = {.overlap = given_overlap};
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank != 2 || t->dims[0] != t->dims[1])
        return mr_invalid("overlaps must be square, got shape %s", MR_TENSOR_SHAPE(t));
    MR_TRY(read_limit(r, &s.limit));
    s.n = s.stride = t->dims[0];
    MR_TRY(read_scores(r, s.n));
    MR_TRY(mr_in_scalar_float(r, 3, "overlap_threshold", &s.threshold));
    MR_TRY(mr_in_scalar_float(r, 4, "score_threshold", &s.score_threshold));
    return run_suppression(r, &s, &(outputs){0, -1, -1});
}

static mr_status *overlaps_shape(mr_infer *c)
{
    const mr_pshape *overlaps, *scores, *scalar;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &overlaps));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &scores));
    for (int i = 2; i < 5; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &scalar));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(overlaps, 0), mr_infer_dim(overlaps, 1), &n));
    MR_TRY(mr_infer_merge_dim(n, mr_infer_dim(scores, 0), &n));
    mr_infer_out_vector(c, 0, -1);
    return NULL;
}

MR_OP(NonMaxSuppressionWithOverlaps,
    .doc      = "NonMaxSuppression where how much two boxes overlap is given, in a matrix",
    .sig      = "overlaps: float, scores: float, max_output_size: int32, overlap_threshold: float, "
                "score_threshold: float -> selected_indices: int32",
    .flags    = MR_NO_GRADIENT,
    .shape    = overlaps_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(nms_with_overlaps)),
    .examples = MR_EXAMPLES(
        "[[1, 0.8, 0.1], [0.8, 1, 0.4], [0.1, 0.4, 1]], [0.5, 0.9, 0.3], 3, 0.5, 0 -> [1, 2]",
        "[[1, 0.8, 0.1], [0.8, 1, 0.4], [0.1, 0.4, 1]], [0.5, 0.9, 0.3], 1, 9, 0 -> [1]",
        "shape(0,0), shape(0), 3, 0.5, 0 -> shape(0)",
        "[[1, 2]], [1], 3, 0.5, 0 -> !INVALID_ARGUMENT"));
