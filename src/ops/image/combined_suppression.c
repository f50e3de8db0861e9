/* ops/image/combined_suppression.c -- CombinedNonMaxSuppression: the best boxes of all classes of an image; and
 * GenerateBoundingBoxProposals: the best regions from an image's anchors. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/image/pixels.h"
#include "ops/image/suppress.h"
#include "run/scratch.h"

/* ---- CombinedNonMaxSuppression ---- */

typedef struct found { /* a box that was selected */
    float score;
    int32_t class, box;
    int64_t order; /* order of selection, which breaks ties */
} found;

typedef struct combined {
    int64_t batch, n, kinds, classes; /* boxes are [batch, n, kinds, 4], kinds being 1 or classes */
    int64_t per_class, total;
    float threshold, score_threshold;
    const float *boxes, *scores;
    bool clip;
    const mr_run *run;
    /* scratch memory */
    float *column, *taken_scores;
    int32_t *taken;
    found *found;
} combined;

static int by_score(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Appends the boxes of one class of one image to those found. */
static mr_status *suppress_class(combined *c, int64_t b, int64_t class, int64_t *n_found)
{
    int64_t n_taken, kind = c->kinds > 1 ? class : 0;
    for (int64_t i = 0; i < c->n; i++)
        c->column[i] = c->scores[(b * c->n + i) * c->classes + class];
    mr_suppress s = {.n = c->n, .scores = c->column, .overlap = mr_overlap_of_boxes,
                     .data = c->boxes + (b * c->n * c->kinds + kind) * 4, .stride = c->kinds * 4, .threshold = c->threshold,
                     .score_threshold = c->score_threshold, .limit = MR_MIN(c->per_class, c->n), .cancel = c->run->step->cancel};
    MR_TRY(mr_suppress_run(c->run, &s, c->taken, c->taken_scores, &n_taken));
    for (int64_t i = 0; i < n_taken; i++, (*n_found)++)
        c->found[*n_found] = (found){c->taken_scores[i], (int32_t)class, c->taken[i], *n_found};
    return NULL;
}

static float clip_coordinate(const combined *c, float v) { return c->clip ? fmaxf(fminf(v, 1), 0) : v; }

/* Writes the rows of one image to each output, with zeros after the boxes found. */
static void put_image(const combined *c, mr_run *r, int64_t b, int64_t room, int64_t n_found)
{
    int64_t n = MR_MIN(n_found, room);
    qsort(c->found, (size_t)n_found, sizeof(found), by_score);
    MR_DATA(int32_t, r->out[3].t)[b] = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        const found *f = &c->found[i];
        const float *box = c->boxes + ((b * c->n + f->box) * c->kinds + (c->kinds > 1 ? f->class : 0)) * 4;
        for (int k = 0; k < 4; k++)
            MR_DATA(float, r->out[0].t)[(b * room + i) * 4 + k] = clip_coordinate(c, box[k]);
        MR_DATA(float, r->out[1].t)[b * room + i] = f->score;
        MR_DATA(float, r->out[2].t)[b * room + i] = (float)f->class;
    }
}

static mr_status *check_combined(const mr_run *r, combined *c)
{
    const mr_tensor *boxes = mr_in(r, 0), *scores = mr_in(r, 1);
    if (boxes->rank != 4 || boxes->dims[3] != 4)
        return mr_invalid("boxes must be 4-D with 4 columns, got shape %s", MR_TENSOR_SHAPE(boxes));
    if (scores->rank != 3)
        return mr_invalid("scores must be 3-D, got shape %s", MR_TENSOR_SHAPE(scores));
    if (boxes->dims[0] != scores->dims[0] || boxes->dims[1] != scores->dims[1])
        return mr_invalid("boxes and scores must have same number of boxes and batches, got shapes %s and %s",
                          MR_TENSOR_SHAPE(boxes), MR_TENSOR_SHAPE(scores));
    if (boxes->dims[2] != 1 && boxes->dims[2] != scores->dims[2])
        return mr_invalid("third dimension of boxes must be either 1 or num classes, got %lld", (long long)boxes->dims[2]);
    if (boxes->dims[1] > INT32_MAX || scores->dims[2] > INT32_MAX)
        return mr_invalid("too many boxes or classes: %s", MR_TENSOR_SHAPE(scores));
    MR_TRY(mr_in_scalar_int(r, 2, "max_size_per_class", &c->per_class));
    MR_TRY(mr_in_scalar_int(r, 3, "max_total_size", &c->total));
    if (c->per_class <= 0 || c->total <= 0)
        return mr_invalid("max_size_per_class and max_total_size must be > 0");
    MR_TRY(mr_in_scalar_float(r, 4, "iou_threshold", &c->threshold));
    MR_TRY(mr_in_scalar_float(r, 5, "score_threshold", &c->score_threshold));
    if (!(c->threshold >= 0 && c->threshold <= 1))
        return mr_invalid("iou_threshold must be in [0, 1]");
    c->batch = boxes->dims[0], c->n = boxes->dims[1], c->kinds = boxes->dims[2], c->classes = scores->dims[2];
    c->boxes = boxes->data;
    c->scores = scores->data;
    c->run = r;
    return NULL;
}

static mr_status *make_room(combined *c)
{
    int64_t most;
    size_t n = (size_t)c->n + 1;
    if (!mr_i64_mul(MR_MIN(c->per_class, c->n), c->classes, &most))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for boxes of %lld classes", (long long)c->classes);
    c->column = mr_scratch_zeroed(c->run, n, sizeof(float));
    c->taken_scores = mr_scratch_zeroed(c->run, n, sizeof(float));
    c->taken = mr_scratch_zeroed(c->run, n, sizeof(int32_t));
    c->found = mr_scratch_zeroed(c->run, (size_t)most + 1, sizeof(found));
    if (c->column && c->taken_scores && c->taken && c->found)
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld boxes", (long long)most);
}

typedef struct state {
    bool per_class, clip;
} state;

static mr_status *init_combined(mr_make *m, void *room)
{
    state *s = room;
    MR_TRY(mr_node_get_bool(m->node, "pad_per_class", &s->per_class));
    return mr_node_get_bool(m->node, "clip_boxes", &s->clip);
}

/* With pad_per_class, not more rows than there can be boxes. */
static int64_t rows_of(bool pad_per_class, int64_t total, int64_t per_class, int64_t classes)
{
    int64_t most;
    return pad_per_class && mr_i64_mul(per_class, classes, &most) ? MR_MIN(total, most) : total;
}

static mr_status *run_combined(mr_run *r, combined *c, int64_t rows)
{
    mr_tensor *t;
    int64_t dims[] = {c->batch, rows, 4};
    for (int i = 0; i < 3; i++) {
        MR_TRY(mr_run_output(r, i, i == 0 ? 3 : 2, dims, &t));
        mr_tensor_zero(t);
    }
    MR_TRY(mr_run_output(r, 3, 1, dims, &t));
    MR_TRY(make_room(c));
    for (int64_t b = 0; b < c->batch; b++) {
        int64_t n_found = 0;
        for (int64_t k = 0; k < c->classes; k++)
            MR_TRY(suppress_class(c, b, k, &n_found));
        put_image(c, r, b, rows, n_found);
    }
    return NULL;
}

static mr_status *combined_suppression(mr_run *r)
{
    const state *s = r->state;
    combined c = {.clip = s->clip};
    MR_TRY(check_combined(r, &c));
    mr_status *st = run_combined(r, &c, rows_of(s->per_class, c.total, c.per_class, c.classes));
    mr_scratch_free(c.column);
    mr_scratch_free(c.taken_scores);
    mr_scratch_free(c.taken);
    mr_scratch_free(c.found);
    return st;
}

static mr_status *combined_shape(mr_infer *c)
{
    const mr_pshape *boxes, *scores, *scalar;
    int64_t batch, n, total, per_class, rows = -1, kinds;
    state s;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &boxes));
    MR_TRY(mr_infer_rank(c, c->in[1], 3, &scores));
    for (int i = 2; i < 6; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &scalar));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(boxes, 0), mr_infer_dim(scores, 0), &batch));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(boxes, 1), mr_infer_dim(scores, 1), &n));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(boxes, 3), 4));
    if (mr_infer_dim(boxes, 2) >= 0 && mr_infer_dim(boxes, 2) != 1)
        MR_TRY(mr_infer_merge_dim(mr_infer_dim(boxes, 2), mr_infer_dim(scores, 2), &kinds));
    MR_TRY(mr_node_get_bool(c->node, "pad_per_class", &s.per_class));
    bool known = mr_infer_int(c, 3, &total) && total > 0;
    if (known && !s.per_class)
        rows = total;
    else if (known && mr_infer_int(c, 2, &per_class) && per_class > 0 && mr_infer_dim(scores, 2) >= 0)
        rows = rows_of(true, total, per_class, mr_infer_dim(scores, 2));
    c->out[0] = mr_pshape_of(c->arena, 3, (const int64_t[]){batch, rows, 4});
    c->out[1] = c->out[2] = mr_pshape_matrix(c->arena, batch, rows);
    mr_infer_out_vector(c, 3, batch);
    return NULL;
}

#define FOUR_BOXES "[[[[0, 0, 1, 1]], [[0, 0.1, 1, 1.1]], [[0, 5, 1, 6]], [[0, 0, 0.5, 0.5]]]]"

MR_OP(CombinedNonMaxSuppression,
    .doc         = "for each image the best boxes over all classes, those of a class without what a better one overlaps",
    .sig         = "boxes: float, scores: float, max_output_size_per_class: int32, max_total_size: int32, iou_threshold: float, "
                   "score_threshold: float -> nmsed_boxes: float, nmsed_scores: float, nmsed_classes: float, "
                   "valid_detections: int32",
    .attrs       = "pad_per_class: bool = false; clip_boxes: bool = true",
    .shape       = combined_shape,
    .kernels     = MR_KERNELS(MR_CPU_ANY(combined_suppression)),
    .state_bytes = sizeof(state),
    .init        = init_combined,
    .examples    = MR_EXAMPLES(
        FOUR_BOXES ", [[[0.9, 0.1], [0.8, 0.7], [0.3, 0.2], [0, 0.6]]], 2, 3, 0.5, 0.15 -> "
        "[[[0, 0, 1, 1], [0, 0.1, 1, 1], [0, 0, 0.5, 0.5]]], [[0.9, 0.7, 0.6]], [[0, 1, 1]], [3]",
        "pad_per_class=true clip_boxes=false: " FOUR_BOXES ", [[[0.9], [0.8], [0.3], [0]]], 2, 9, 0.5, 0.15 -> "
        "[[[0, 0, 1, 1], [0, 5, 1, 6]]], [[0.9, 0.3]], [[0, 0]], [2]",
        "[[[[0, 0, 1, 1], [0, 0, 2, 1]]]], [[[0.5, 0.6]]], 1, 3, 0.5, 0 -> "
        "[[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]]], [[0.6, 0.5, 0]], [[1, 0, 0]], [2]",
        "shape(1,0,1,4), shape(1,0,2), 1, 2, 0.5, 0 -> [[[0, 0, 0, 0], [0, 0, 0, 0]]], [[0, 0]], [[0, 0]], [0]",
        FOUR_BOXES ", shape(1,4,2), 0, 3, 0.5, 0 -> !INVALID_ARGUMENT must be > 0",
        FOUR_BOXES ", shape(1,4,2), 1, 3, 2, 0 -> !INVALID_ARGUMENT iou_threshold must be in [0, 1]",
        FOUR_BOXES ", shape(1,3,2), 1, 3, 1, 0 -> !INVALID_ARGUMENT"));

/* ---- GenerateBoundingBoxProposals ---- */

typedef struct proposals {
    int64_t n, rows;        /* anchors of an image, rows of the result */
    int64_t most;           /* number of boxes to examine */
    float threshold, min_size;
    float *boxes, *scores, *taken_scores; /* of the examined boxes, in the order of their scores */
    int32_t *taken;
    found *order;
} proposals;

static float limit_coordinate(float v, float most) { return fmaxf(fminf(v, most), 0); }

/* Moves and scales the anchor by its deltas, and clips it to the image; false: it is too small. Both are [y, x, ..]. */
static bool decode_box(const float *anchor, const float *delta, const float *info, float min_size, float *out)
{
    const float largest = 4.135166556742356f; /* log(1000 / 16) */
    for (int k = 0; k < 2; k++) {
        float size = anchor[k + 2] - anchor[k], center = anchor[k] + 0.5f * size + size * delta[k];
        float half = 0.5f * size * expf(fminf(delta[k + 2], largest));
        out[k] = limit_coordinate(center - half, info[k]);
        out[k + 2] = limit_coordinate(center + half, info[k]);
    }
    return fminf(out[2] - out[0], out[3] - out[1]) >= min_size * info[2];
}

static mr_status *propose_boxes(mr_run *r, proposals *p, int64_t image)
{
    const float *scores = MR_DATA(const float, mr_in(r, 0)) + image * p->n, *info = MR_DATA(const float, mr_in(r, 2)) + 5 * image;
    const float *deltas = MR_DATA(const float, mr_in(r, 1)) + image * p->n * 4, *anchors = mr_in(r, 3)->data;
    int64_t n = 0, n_taken;
    for (int64_t i = 0; i < p->n; i++)
        p->order[i] = (found){isnan(scores[i]) ? -INFINITY : scores[i], 0, (int32_t)i, i};
    qsort(p->order, (size_t)p->n, sizeof(found), by_score);
    for (int64_t i = 0; i < p->most; i++) {
        int64_t k = p->order[i].box;
        if (decode_box(anchors + 4 * k, deltas + 4 * k, info, p->min_size, p->boxes + 4 * n))
            p->scores[n++] = p->order[i].score;
    }
    mr_suppress s = {.n = n, .scores = p->scores, .overlap = mr_overlap_of_boxes, .data = p->boxes, .stride = 4,
                     .threshold = p->threshold, .score_threshold = -INFINITY, .limit = p->rows, .cancel = r->step->cancel};
    MR_TRY(mr_suppress_run(r, &s, p->taken, p->taken_scores, &n_taken));
    for (int64_t i = 0; i < n_taken; i++) {
        memcpy(MR_DATA(float, r->out[0].t) + (image * p->rows + i) * 4, p->boxes + 4 * p->taken[i], 4 * sizeof(float));
        MR_DATA(float, r->out[1].t)[image * p->rows + i] = p->taken_scores[i];
    }
    return NULL;
}

static mr_status *check_proposals(const mr_run *r, proposals *p)
{
    const mr_tensor *scores = mr_in(r, 0), *deltas = mr_in(r, 1), *info = mr_in(r, 2), *anchors = mr_in(r, 3);
    int64_t most;
    if (scores->rank != 4 || deltas->rank != 4 || info->rank != 2 || anchors->rank != 3)
        return mr_invalid("scores and bbox_deltas must be 4-D, image_info 2-D and anchors 3-D, got %s, %s, %s and %s",
                          MR_TENSOR_SHAPE(scores), MR_TENSOR_SHAPE(deltas), MR_TENSOR_SHAPE(info), MR_TENSOR_SHAPE(anchors));
    bool fits = deltas->n / 4 == scores->n && deltas->n % 4 == 0 && deltas->dims[0] == scores->dims[0] &&
                info->dims[0] == scores->dims[0] && info->dims[1] == 5;
    p->n = scores->dims[1] * scores->dims[2] * scores->dims[3];
    if (!fits || anchors->n % 4 != 0 || anchors->n / 4 != p->n || p->n > INT32_MAX)
        return mr_error(MR_OUT_OF_RANGE, "Box dimensions need to be 4: scores %s, bbox_deltas %s, image_info %s, anchors %s",
                        MR_TENSOR_SHAPE(scores), MR_TENSOR_SHAPE(deltas), MR_TENSOR_SHAPE(info), MR_TENSOR_SHAPE(anchors));
    MR_TRY(mr_in_scalar_float(r, 4, "nms_threshold", &p->threshold));
    if (!(p->threshold >= 0 && p->threshold <= 1))
        return mr_invalid("nms_threshold should be between 0 and 1. Got %g", (double)p->threshold);
    MR_TRY(mr_in_scalar_int(r, 5, "pre_nms_topn", &most));
    if (most <= 0)
        return mr_invalid("pre_nms_topn should be greater than 0, got %lld", (long long)most);
    p->most = MR_MIN(most, p->n);
    return mr_in_scalar_float(r, 6, "min_size", &p->min_size);
}

static mr_status *run_proposals(mr_run *r, proposals *p)
{
    size_t n = (size_t)p->n + 1;
    mr_tensor *t;
    int64_t images = mr_in(r, 0)->dims[0], dims[] = {images, p->rows, 4};
    for (int i = 0; i < 2; i++) {
        MR_TRY(mr_run_output(r, i, 3 - i, dims, &t));
        mr_tensor_zero(t);
    }
    p->boxes = mr_scratch_zeroed(r, n, 4 * sizeof(float));
    p->scores = mr_scratch_zeroed(r, n, sizeof(float));
    p->taken_scores = mr_scratch_zeroed(r, n, sizeof(float));
    p->taken = mr_scratch_zeroed(r, n, sizeof(int32_t));
    p->order = mr_scratch_zeroed(r, n, sizeof(found));
    if (!p->boxes || !p->scores || !p->taken_scores || !p->taken || !p->order)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld boxes", (long long)p->n);
    for (int64_t i = 0; i < images; i++)
        MR_TRY(propose_boxes(r, p, i));
    return NULL;
}

static mr_status *generate_proposals(mr_run *r)
{
    proposals p = {.rows = *(const int64_t *)r->state};
    MR_TRY(check_proposals(r, &p));
    mr_status *st = run_proposals(r, &p);
    mr_scratch_free(p.boxes);
    mr_scratch_free(p.scores);
    mr_scratch_free(p.taken_scores);
    mr_scratch_free(p.taken);
    mr_scratch_free(p.order);
    return st;
}

static mr_status *read_topn(const mr_node *n, int64_t *out)
{
    MR_TRY(mr_node_get_int(n, "post_nms_topn", out));
    return *out > 0 && *out <= INT32_MAX ? NULL : mr_invalid("post_nms_topn can't be 0 or less");
}

static mr_status *init_proposals(mr_make *m, void *topn) { return read_topn(m->node, topn); }

static mr_status *proposals_shape(mr_infer *c)
{
    int64_t rows, images;
    MR_TRY(mr_infer_ranks(c, 7, (const int[]){4, 4, 2, 3, 0, 0, 0}));
    MR_TRY(read_topn(c->node, &rows));
    images = mr_infer_dim(c->in[0], 0);
    c->out[0] = mr_pshape_of(c->arena, 3, (const int64_t[]){images, rows, 4});
    c->out[1] = mr_pshape_matrix(c->arena, images, rows);
    return NULL;
}

MR_OP(GenerateBoundingBoxProposals,
    .doc         = "for each image the best regions that its anchors, moved by deltas, point to",
    .sig         = "scores: float, bbox_deltas: float, image_info: float, anchors: float, nms_threshold: float, "
                   "pre_nms_topn: int32, min_size: float -> rois: float, roi_probabilities: float",
    .attrs       = "post_nms_topn: int = 300",
    .shape       = proposals_shape,
    .kernels     = MR_KERNELS(MR_CPU_ANY(generate_proposals)),
    .state_bytes = sizeof(int64_t),
    .init        = init_proposals,
    .examples    = MR_EXAMPLES(
        "post_nms_topn=3: [[[[0.5, 0.9, 0.8]]]], [[[[0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0]]]], [[100, 100, 1, 0, 0]], "
        "[[[0, 0, 10, 10, 0, 0, 10, 20, 0, 0, 10, 19]]], 0.5, 10, 1 -> "
        "[[[5, 0, 15, 20], [0, 0, 10, 19], [0, 0, 0, 0]]], [[0.9, 0.8, 0]]",
        "post_nms_topn=1: [[[[0.5]]]], [[[[0, 0, 0, 0]]]], [[100, 100, 1, 0, 0]], [[[0, 0, 10, 10]]], 0.5, 10, 11 -> "
        "[[[0, 0, 0, 0]]], [[0]]",
        "post_nms_topn=0: [[[[0.5]]]], [[[[0, 0, 0, 0]]]], [[9, 9, 1, 0, 0]], [[[0, 0, 10, 10]]], 0.5, 10, 1 -> "
        "!INVALID_ARGUMENT post_nms_topn can't be 0 or less",
        "post_nms_topn=1: [[[[0.5]]]], [[[[0, 0, 0, 0]]]], [[9, 9, 1, 0, 0]], [[[0, 0, 10]]], 0.5, 10, 1 -> "
        "!OUT_OF_RANGE Box dimensions need to be 4"));
