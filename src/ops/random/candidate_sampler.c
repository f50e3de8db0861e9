/* ops/random/candidate_sampler.c -- draws classes for sampled losses: LogUniformCandidateSampler,
 * UniformCandidateSampler, AllCandidateSampler; ComputeAccidentalHits.
 *
 * Each run draws num_sampled classes for the whole batch.  The expected count of a class follows from
 * its probability and, if all classes must be different, from the number of draws that this took. */
#include <float.h>
#include <math.h>

#include "base/vmath.h"
#include "ops/random/candidate_sampler.h"
#include "run/scratch.h"

static mr_status *positive_int32(const mr_node *n, const char *attr, int64_t *out)
{
    MR_TRY(mr_node_get_int(n, attr, out));
    if (*out < 1 || *out > INT32_MAX)
        return mr_invalid("Attr %s has value %lld out of range for an int32", attr,
                          (long long)*out);
    return NULL;
}

mr_status *mr_sampler_init(mr_make *m, void *state)
{
    mr_sampler_state *s = state;
    MR_TRY(mr_random_init(m, &s->random));
    MR_TRY(positive_int32(m->node, "num_true", &s->num_true));
    MR_TRY(positive_int32(m->node, "num_sampled", &s->num_sampled));
    MR_TRY(mr_node_get_bool(m->node, "unique", &s->unique));
    s->range = s->num_sampled; /* AllCandidateSampler has no range_max */
    if (mr_op_def_attr(m->node->def, "range_max"))
        MR_TRY(mr_node_get_int(m->node, "range_max", &s->range));
    return s->range > 0 ? NULL : mr_invalid("range_max must be positive");
}

/* ---- distributions ---- */

static int64_t draw_uniform(const void *ctx, mr_words *w, int64_t range)
{
    (void)ctx;
    return (int64_t)mr_words_below(w, (uint64_t)range);
}

static float uniform_probability(const void *ctx, int64_t range, int64_t class_)
{
    (void)ctx;
    (void)class_;
    return (float)(1.0 / (double)range);
}

/* ctx: log(range + 1).  Class c for uniform numbers in [0, log(range + 1)) that are between log(c + 1) and log(c + 2).  Rounding may
 * give a class just outside of the range, which is wrapped back into it. */
static int64_t draw_log_uniform(const void *ctx, mr_words *w, int64_t range)
{
    double v = exp(mr_words_double(w) * *(const double *)ctx);
    return v < 0x1p63 ? ((int64_t)v - 1) % range : 0;
}

static float log_uniform_probability(const void *ctx, int64_t range, int64_t class_)
{
    (void)range;
    double c = (double)class_;
    return (float)(log((c + 2) / (c + 1)) / *(const double *)ctx);
}

/* ---- sampling without repetition ---- */

typedef struct id_set { /* ids >= 0; open addressing */
    int64_t *slots;     /* id + 1; 0: free */
    uint64_t mask;
} id_set;

static bool id_set_init(const mr_run *r, id_set *s, int64_t n)
{
    uint64_t cap = 16;
    while (cap < 2 * (uint64_t)n)
        cap *= 2;
    s->mask = cap - 1;
    s->slots = mr_scratch_zeroed(r, cap, sizeof(int64_t));
    return s->slots != NULL;
}

/* Returns false if the id is already in the set. */
static bool id_set_add(id_set *s, int64_t id)
{
    uint64_t at = (uint64_t)id * 0x9E3779B97F4A7C15u >> 20 & s->mask;
    for (; s->slots[at]; at = (at + 1) & s->mask)
        if (s->slots[at] == id + 1)
            return false;
    s->slots[at] = id + 1;
    return true;
}

/* Draws num_sampled different classes; *tries is the number of draws that this took. */
static mr_status *draw_unique(mr_run *r, const mr_sampler *d, const void *ctx, mr_words *w,
                              int64_t *out, int64_t *tries)
{
    const mr_sampler_state *s = r->state;
    mr_status *st = NULL;
    id_set seen;
    if (!id_set_init(r, &seen, s->num_sampled))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to draw %lld classes",
                        (long long)s->num_sampled);
    int64_t n = 0;
    for (*tries = 0; n < s->num_sampled && !st; ++*tries) {
        int64_t id = d->draw(ctx, w, s->range);
        if (id_set_add(&seen, id))
            out[n++] = id;
        if (*tries == INT32_MAX)
            st = mr_error(MR_RESOURCE_EXHAUSTED, "could not find %lld different classes in 2^31 draws",
                          (long long)s->num_sampled);
        else if (*tries % 65536 == 65535 && r->step->cancel &&
                 mr_cancel_started(r->step->cancel))
            st = mr_error(MR_CANCELLED, "candidate sampling was cancelled");
    }
    mr_scratch_free(seen.slots);
    return st;
}

/* ---- the op ---- */

/* How often each of n classes is expected among num_sampled: p each time, or if all had to differ, 1 - (1 - p)^tries. */
static void expect_classes(const mr_sampler_state *s, const mr_sampler *d, const void *ctx, int64_t tries, int64_t n,
                           const int64_t *classes, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = d->probability(ctx, s->range, classes[i]);
    if (tries == s->num_sampled) {
        for (int64_t i = 0; i < n; i++)
            out[i] *= (float)tries;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = -out[i];
    mr_vlog1p_f(n, out, out);
    for (int64_t i = 0; i < n; i++)
        out[i] *= (float)tries;
    mr_vexpm1_f(n, out, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = -out[i];
}

static mr_status *check_classes(const mr_sampler_state *s, const mr_tensor *classes)
{
    if (classes->rank != 2)
        return mr_invalid("true_classes must be a matrix");
    if (classes->dims[1] != s->num_true)
        return mr_invalid("true_classes must have num_true columns, expected: %lld was: %lld",
                          (long long)classes->dims[1], (long long)s->num_true);
    if (s->unique && s->num_sampled > s->range)
        return mr_invalid("Sampler's range is too small.");
    for (int64_t i = 0; i < classes->n; i++) {
        int64_t c = MR_DATA(int64_t, classes)[i];
        if (c < 0 || c >= s->range)
            return mr_invalid("`true_candidate` out of range [0, %lld), received %lld",
                              (long long)s->range, (long long)c);
    }
    return NULL;
}

static mr_status *make_outputs(mr_run *r, const mr_sampler_state *s, mr_tensor **out)
{
    const mr_tensor *classes = mr_in(r, 0);
    MR_TRY(mr_run_output(r, 0, 1, &s->num_sampled, &out[0]));
    MR_TRY(mr_run_output(r, 1, 2, classes->dims, &out[1]));
    return mr_run_output(r, 2, 1, &s->num_sampled, &out[2]);
}

mr_status *mr_sampler_run(mr_run *r, const mr_sampler *d, const void *ctx)
{
    mr_sampler_state *s = r->state;
    const int64_t *classes = MR_DATA(int64_t, mr_in(r, 0));
    mr_tensor *out[3];
    MR_TRY(check_classes(s, mr_in(r, 0)));
    MR_TRY(make_outputs(r, s, out));
    int64_t tries = s->num_sampled, *sampled = out[0]->data;
    mr_words w = mr_words_at(mr_random_reserve(&s->random, (uint64_t)s->num_sampled * 2048 / 4), 0);
    if (s->unique)
        MR_TRY(draw_unique(r, d, ctx, &w, sampled, &tries));
    for (int64_t i = 0; i < s->num_sampled && !s->unique; i++)
        sampled[i] = d->draw(ctx, &w, s->range);
    expect_classes(s, d, ctx, tries, s->num_sampled, sampled, MR_DATA(float, out[2]));
    expect_classes(s, d, ctx, tries, out[1]->n, classes, MR_DATA(float, out[1]));
    return NULL;
}

static mr_status *run_uniform(mr_run *r)
{
    static const mr_sampler sampler = {draw_uniform, uniform_probability};
    return mr_sampler_run(r, &sampler, NULL);
}

static mr_status *run_log_uniform(mr_run *r)
{
    static const mr_sampler sampler = {draw_log_uniform, log_uniform_probability};
    double log_range = log1p((double)((const mr_sampler_state *)r->state)->range);
    return mr_sampler_run(r, &sampler, &log_range);
}

/* Returns all classes, each once. */
static mr_status *run_all(mr_run *r)
{
    const mr_sampler_state *s = r->state;
    mr_tensor *out[3];
    MR_TRY(check_classes(s, mr_in(r, 0)));
    MR_TRY(make_outputs(r, s, out));
    for (int64_t i = 0; i < s->num_sampled; i++) {
        MR_DATA(int64_t, out[0])[i] = i;
        MR_DATA(float, out[2])[i] = 1;
    }
    for (int64_t i = 0; i < out[1]->n; i++)
        MR_DATA(float, out[1])[i] = 1;
    return NULL;
}

mr_status *mr_sampler_shape(mr_infer *c)
{
    int64_t num_true, num_sampled;
    const mr_pshape *classes;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &classes));
    MR_TRY(mr_node_get_int(c->node, "num_true", &num_true));
    MR_TRY(mr_node_get_int(c->node, "num_sampled", &num_sampled));
    mr_infer_out_vector(c, 0, num_sampled);
    c->out[1] = mr_pshape_matrix(c->arena, mr_infer_dim(classes, 0), num_true);
    mr_infer_out_vector(c, 2, num_sampled);
    return NULL;
}

#define SAMPLER_OP                                                                              \
    .sig = MR_SAMPLER_SIG, .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_sampler_shape,    \
    .state_bytes = sizeof(mr_sampler_state), .init = mr_sampler_init, .deinit = mr_random_deinit
#define RANGE_ATTRS                                                                             \
    "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; "            \
    "seed: int = 0; seed2: int = 0"

MR_OP(LogUniformCandidateSampler,
    .doc      = "classes drawn by Zipf's law, if they are numbered by decreasing frequency",
    .attrs    = RANGE_ATTRS, SAMPLER_OP,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_log_uniform)),
    .examples = MR_EXAMPLES(
        "num_true=1 num_sampled=6 unique=false range_max=1000 seed=87654321 seed2=1: [[1], [5]] -> "
        "[545, 15, 111, 129, 1, 5], [[0.35213158], [0.13387421]], "
        "[0.0015891372, 0.052650258, 0.0077197244, 0.006654924, 0.35213158, 0.13387421]",
        "num_true=2 num_sampled=6 unique=true range_max=8 seed=87654321 seed2=1: [[6, 0]] -> "
        "[6, 1, 3, 0, 2, 5], [[0.6961614, 0.9992544]], "
        "[0.6961614, 0.9792652, 0.86928666, 0.9992544, 0.93049073, 0.7489369]",
        "num_true=2 num_sampled=2 unique=false range_max=1: [[0, 0]] -> [0, 0], [[2, 2]], [2, 2]",
        "num_true=1 num_sampled=4 unique=true range_max=3: [[0]] -> "
        "!INVALID_ARGUMENT Sampler's range is too small.",
        "num_true=1 num_sampled=1 unique=true range_max=3: [[3]] -> "
        "!INVALID_ARGUMENT `true_candidate` out of range [0, 3), received 3",
        "num_true=2 num_sampled=1 unique=true range_max=3: [[0]] -> "
        "!INVALID_ARGUMENT true_classes must have num_true columns"));

MR_OP(UniformCandidateSampler,
    .doc      = "classes drawn uniformly",
    .attrs    = RANGE_ATTRS, SAMPLER_OP,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_uniform)),
    .examples = MR_EXAMPLES(
        "num_true=1 num_sampled=4 unique=false range_max=8: [[0], [1]] -> "
        "shape(4), [[0.5], [0.5]], [0.5, 0.5, 0.5, 0.5]",
        "num_true=1 num_sampled=6 unique=false range_max=1000 seed=87654321 seed2=1: shape(0,1) -> "
        "[791, 905, 701, 154, 467, 256], shape(0,1), [0.006, 0.006, 0.006, 0.006, 0.006, 0.006]",
        "num_true=1 num_sampled=5 unique=true range_max=6 seed=87654321 seed2=1: [[0]] -> "
        "[5, 1, 3, 2, 4], [[0.665102]], [0.665102, 0.665102, 0.665102, 0.665102, 0.665102]",
        "num_true=1 num_sampled=4 unique=false range_max=1024 seed=87654321 seed2=1: [[0]] -> "
        "[199, 817, 613, 842], shape(1,1), shape(4)",
        "num_true=1 num_sampled=1 unique=true range_max=1: [[0]] -> [0], [[1]], [1]"));

MR_OP(AllCandidateSampler,
    .doc      = "all classes, for tests",
    .attrs    = "num_true: int >= 1; num_sampled: int >= 1; unique: bool; seed: int = 0; "
                "seed2: int = 0",
    SAMPLER_OP,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_all)),
    .examples = MR_EXAMPLES("num_true=1 num_sampled=3 unique=true: [[2]] -> "
                            "[0, 1, 2], [[1]], [1, 1, 1]"));

/* ---- ComputeAccidentalHits ---- */

typedef struct place {
    int64_t id, at;
} place;

/* A stable merge sort by id, which alternates between the two arrays and returns the one with the result.  (qsort would
 * call malloc for the second array.) */
static const place *sort_by_id(place *from, place *to, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = MR_MIN(begin + width, n), end = MR_MIN(middle + width, n);
            int64_t a = begin, b = middle;
            for (int64_t k = begin; k < end; k++)
                to[k] = b >= end || (a < middle && from[a].id <= from[b].id) ? from[a++] : from[b++];
        }
        place *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* The position of the last entry with this id among n sorted ones, or -1. */
static int64_t last_place(const place *p, int64_t n, int64_t id)
{
    int64_t at = 0;
    while (n > 0) { /* binary search for the first greater id */
        int64_t half = n / 2;
        if (p[at + half].id <= id) {
            at += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return at > 0 && p[at - 1].id == id ? p[at - 1].at : -1;
}

static mr_status *give_hits(mr_run *r, const place *places, int64_t n_places)
{
    const mr_tensor *classes = mr_in(r, 0);
    const int64_t *ids = MR_DATA(int64_t, classes);
    int64_t n = 0;
    mr_tensor *out[3];
    for (int64_t i = 0; i < classes->n; i++)
        n += last_place(places, n_places, ids[i]) >= 0;
    for (int i = 0; i < 3; i++)
        MR_TRY(mr_run_output(r, i, 1, &n, &out[i]));
    n = 0;
    for (int64_t i = 0; i < classes->n; i++) {
        int64_t at = last_place(places, n_places, ids[i]);
        if (at < 0)
            continue;
        MR_DATA(int32_t, out[0])[n] = (int32_t)(i / classes->dims[1]);
        MR_DATA(int64_t, out[1])[n] = at;
        MR_DATA(float, out[2])[n++] = -FLT_MAX;
    }
    return NULL;
}

static mr_status *accidental_hits(mr_run *r)
{
    const mr_tensor *classes = mr_in(r, 0), *sampled = mr_in(r, 1);
    const int64_t *num_true = r->state;
    if (classes->rank != 2 || classes->dims[1] != *num_true || classes->dims[0] > INT32_MAX)
        return mr_invalid("true_candidates must be a batch_size * num_true matrix, got shape %s",
                          MR_TENSOR_SHAPE(classes));
    if (sampled->rank != 1)
        return mr_invalid("sampled_candidates must be a vector, which is typically an output from "
                          "CandidateSampler");
    place *places = mr_scratch(r, 2 * sizeof(place) * (size_t)(sampled->n + 1));
    if (!places)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld candidates",
                        (long long)sampled->n);
    for (int64_t i = 0; i < sampled->n; i++)
        places[i] = (place){MR_DATA(int64_t, sampled)[i], i};
    mr_status *st = give_hits(r, sort_by_id(places, places + sampled->n, sampled->n), sampled->n);
    mr_scratch_free(places);
    return st;
}

static mr_status *hits_init(mr_make *m, void *s)
{
    return mr_node_get_int(m->node, "num_true", s);
}

static mr_status *hits_shape(mr_infer *c)
{
    int64_t num_true, merged;
    const mr_pshape *classes, *ignored;
    MR_TRY(mr_node_get_int(c->node, "num_true", &num_true));
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &classes));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(classes, 1), num_true, &merged));
    for (int i = 0; i < 3; i++)
        mr_infer_out_vector(c, i, -1);
    return NULL;
}

MR_OP(ComputeAccidentalHits,
    .doc      = "where sampled classes are true ones: rows, positions among the sampled, and weights that remove "
                "them from a softmax",
    .sig      = "true_classes: int64, sampled_candidates: int64 -> indices: int32, ids: int64, "
                "weights: float",
    .attrs    = "num_true: int; seed: int = 0; seed2: int = 0",
    .flags    = MR_NO_GRADIENT,
    .shape    = hits_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(accidental_hits)),
    .state_bytes = sizeof(int64_t), .init = hits_init,
    .examples = MR_EXAMPLES(
        "num_true=2: [[1, 2], [3, 5]], [5, 1, 7, 1] -> [0, 1], [3, 0], "
        "[-3.4028234e38, -3.4028234e38]",
        "num_true=1: [[1]], [2] -> shape(0), shape(0), shape(0)",
        "num_true=1: shape(0,1), shape(0) -> shape(0), shape(0), shape(0)",
        "num_true=2: [[1]], [2] -> !INVALID_ARGUMENT"));
