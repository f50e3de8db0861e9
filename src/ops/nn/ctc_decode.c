/* ops/nn/ctc_decode.c -- CTCGreedyDecoder and CTCBeamSearchDecoder: labels from the logits of
 * classes, one of which is a blank, over time.
 *
 * Greedy decoding takes the largest logit at every step.  The beam search keeps the beam_width
 * likeliest sequences, as nodes of a tree of labels.  Each node has the log probability of all paths
 * that spell its sequence, split into paths that end in a blank and paths that end in its last label. */
#include <math.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "run/scratch.h"

typedef struct state {
    bool merge;
    int64_t blank;            /* only greedy; a negative number counts from the end */
    int64_t width, top_paths; /* of the beam search; greedy has 1 path */
} state;

static mr_status *init_greedy(mr_make *m, void *state_)
{
    state *s = state_;
    s->top_paths = 1;
    MR_TRY(mr_node_get_int(m->node, "blank_index", &s->blank));
    return mr_node_get_bool(m->node, "merge_repeated", &s->merge);
}

static mr_status *init_beam(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(mr_node_get_int(m->node, "beam_width", &s->width));
    MR_TRY(mr_node_get_int(m->node, "top_paths", &s->top_paths));
    return mr_node_get_bool(m->node, "merge_repeated", &s->merge);
}

/* ---- shared by both decoders ---- */

/* The labels of one path for all sequences of the batch, concatenated. */
typedef struct path {
    int32_t *labels;
    int64_t n, cap;
    int64_t *ends; /* ends[b]: end of the labels of sequence b */
} path;

static bool path_push(const mr_run *r, path *q, int32_t label)
{
    if (q->n == q->cap) {
        int64_t cap = q->cap ? 2 * q->cap : 64;
        int32_t *more = mr_scratch_more(r, q->labels, sizeof(int32_t) * (size_t)cap);
        if (!more)
            return false;
        q->labels = more;
        q->cap = cap;
    }
    q->labels[q->n++] = label;
    return true;
}

typedef struct decoding {
    mr_run *r;
    const state *s;
    int64_t time, batch, classes;
    mr_tensor *log_p; /* [batch, paths] */
    path *paths;
} decoding;

static mr_status *decoding_open(mr_run *r, decoding *d)
{
    const mr_tensor *x = mr_in(r, 0), *lengths = mr_in(r, 1);
    *d = (decoding){.r = r, .s = r->state};
    if (x->rank != 3)
        return mr_invalid("inputs is not a 3-Tensor");
    if (x->n == 0)
        return mr_invalid("inputs must not be empty");
    if (lengths->rank != 1)
        return mr_invalid("sequence_length is not a vector");
    d->time = x->dims[0];
    d->batch = x->dims[1];
    d->classes = x->dims[2];
    if (lengths->dims[0] != d->batch)
        return mr_error(MR_FAILED_PRECONDITION, "len(sequence_length) != batch_size.  "
                        "len(sequence_length):  %lld batch_size: %lld", (long long)lengths->dims[0],
                        (long long)d->batch);
    for (int64_t b = 0; b < d->batch; b++)
        if (MR_DATA(int32_t, lengths)[b] > d->time)
            return mr_error(MR_FAILED_PRECONDITION, "sequence_length(%lld) <= %lld", (long long)b,
                            (long long)d->time);
    if (d->classes > INT32_MAX)
        return mr_invalid("num_classes cannot exceed max int");
    int64_t dims[2] = {d->batch, d->s->top_paths};
    MR_TRY(mr_run_output(r, (int)(3 * d->s->top_paths), 2, dims, &d->log_p));
    bool made = (d->paths = mr_scratch_zeroed(r, (size_t)d->s->top_paths, sizeof(path))) != NULL;
    for (int64_t p = 0; p < d->s->top_paths && made; p++) {
        d->paths[p].ends = mr_scratch_zeroed(r, (size_t)d->batch, sizeof(int64_t));
        made = d->paths[p].ends != NULL;
    }
    return made ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld paths",
                                  (long long)d->s->top_paths);
}

static void decoding_close(decoding *d)
{
    for (int64_t p = 0; d->paths && p < d->s->top_paths; p++) {
        mr_scratch_free(d->paths[p].labels);
        mr_scratch_free(d->paths[p].ends);
    }
    mr_scratch_free(d->paths);
}

static int64_t length_of(const decoding *d, int64_t b)
{
    return MR_DATA(int32_t, mr_in(d->r, 1))[b];
}

static void row_at(const decoding *d, int64_t t, int64_t b, double *out)
{
    const mr_tensor *x = mr_in(d->r, 0);
    size_t at = (size_t)((t * d->batch + b) * d->classes) * mr_dtype_size((mr_dtype)x->dtype);
    mr_dtype_convert((mr_dtype)x->dtype, (const char *)x->data + at, MR_DOUBLE, out, d->classes,
                     false);
}

static void set_log_p(const decoding *d, int64_t b, int64_t p, double v)
{
    int64_t at = b * d->s->top_paths + p;
    if (d->log_p->dtype == MR_DOUBLE)
        MR_DATA(double, d->log_p)[at] = v;
    else
        MR_DATA(float, d->log_p)[at] = (float)v;
}

/* Stores the sparse matrix of path p in the outputs p, p + paths and p + 2 paths. */
static mr_status *store_path(const decoding *d, int p)
{
    const path *q = &d->paths[p];
    int paths = (int)d->s->top_paths;
    int64_t n = q->n, longest = 0, at = 0;
    mr_tensor *indices, *values, *shape;
    MR_TRY(mr_run_output(d->r, p, 2, (int64_t[]){n, 2}, &indices));
    MR_TRY(mr_run_output(d->r, paths + p, 1, &n, &values));
    MR_TRY(mr_run_output(d->r, 2 * paths + p, 1, (int64_t[]){2}, &shape));
    for (int64_t b = 0; b < d->batch; b++) {
        int64_t begin = at;
        for (; at < q->ends[b]; at++) {
            MR_DATA(int64_t, indices)[2 * at] = b;
            MR_DATA(int64_t, indices)[2 * at + 1] = at - begin;
            MR_DATA(int64_t, values)[at] = q->labels[at];
        }
        longest = MR_MAX(longest, at - begin);
    }
    MR_DATA(int64_t, shape)[0] = d->batch;
    MR_DATA(int64_t, shape)[1] = longest;
    return NULL;
}

static mr_status *store_paths(const decoding *d)
{
    for (int p = 0; p < d->s->top_paths; p++)
        MR_TRY(store_path(d, p));
    return NULL;
}

static mr_status *infer_decoder(mr_infer *c)
{
    const mr_pshape *x, *n;
    int64_t batch, paths = (c->n_out - 1) / 3;
    MR_TRY(mr_infer_rank(c, c->in[0], 3, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &n));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(x, 1), mr_infer_dim(n, 0), &batch));
    for (int p = 0; p < paths; p++) {
        c->out[p] = mr_pshape_matrix(c->arena, -1, 2);
        mr_infer_out_vector(c, (int)paths + p, -1);
        mr_infer_out_vector(c, (int)(2 * paths) + p, 2);
    }
    c->out[c->n_out - 1] = mr_pshape_matrix(c->arena, batch, paths);
    return NULL;
}

/* ---- greedy ---- */

static bool greedy_sequence(decoding *d, int64_t b, int64_t blank, double *row)
{
    path *q = &d->paths[0];
    double sum = 0;
    int64_t last = -1;
    for (int64_t t = 0; t < length_of(d, b); t++) {
        int64_t best = 0;
        row_at(d, t, b, row);
        for (int64_t c = 1; c < d->classes; c++)
            best = row[c] > row[best] ? c : best;
        sum -= row[best];
        bool said = best != blank && !(d->s->merge && best == last);
        if (said && !path_push(d->r, q, (int32_t)best))
            return false;
        last = best;
    }
    q->ends[b] = q->n;
    set_log_p(d, b, 0, sum);
    return true;
}

static mr_status *decode_greedy(mr_run *r)
{
    mr_status *st = NULL;
    double *row = NULL;
    decoding d;
    MR_GO(decoding_open(r, &d));
    int64_t blank = d.s->blank < 0 ? d.classes + d.s->blank : d.s->blank;
    if (blank < 0 || blank >= d.classes)
        MR_GO(mr_invalid("blank_index expected to be between %lld and %lld but was %lld",
                         (long long)-d.classes, (long long)d.classes - 1, (long long)d.s->blank));
    row = mr_scratch(r, sizeof(double) * (size_t)d.classes);
    if (!row)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld classes", (long long)d.classes));
    for (int64_t b = 0; b < d.batch; b++)
        if (!greedy_sequence(&d, b, blank, row))
            MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the labels"));
    st = store_paths(&d);
out:
    mr_scratch_free(row);
    decoding_close(&d);
    return st;
}

/* ---- beam search ---- */

typedef struct odds {
    double total, blank, label; /* log probabilities */
} odds;
static const odds none = {-INFINITY, -INFINITY, -INFINITY};

typedef struct entry {
    int32_t parent, label, child, sibling; /* -1: none; child is the newest child */
    odds before, now;
} entry;

typedef struct beam {
    const mr_run *run;
    entry *all;      /* [0] is the empty sequence */
    int32_t n, cap;
    int32_t *leaves; /* at most `width` entries, by decreasing probability */
    int32_t *branches;
    int64_t n_leaves, leaves_cap, width;
    int32_t *children; /* by label, for the entry that grow_leaf works on; -1 otherwise */
} beam;

static double log_add(double a, double b)
{
    if (a == -INFINITY || b == -INFINITY)
        return a == -INFINITY ? b : a;
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

static bool beam_add(beam *m, int32_t parent, int32_t label)
{
    if (m->n == m->cap) {
        if (m->cap > INT32_MAX / 2)
            return false;
        entry *more = mr_scratch_more(m->run, m->all, sizeof(entry) * 2 * (size_t)m->cap);
        if (!more)
            return false;
        m->all = more;
        m->cap *= 2;
    }
    m->all[m->n] = (entry){parent, label, -1, parent < 0 ? -1 : m->all[parent].child, none, none};
    if (parent >= 0)
        m->all[parent].child = m->n;
    m->n++;
    return true;
}

/* Inserts e into the sorted leaves, after equally likely ones. */
static bool beam_push(beam *m, int32_t e)
{
    if (m->n_leaves == m->leaves_cap) {
        int64_t cap = 2 * m->leaves_cap;
        int32_t *a = mr_scratch_more(m->run, m->leaves, sizeof(int32_t) * (size_t)cap);
        m->leaves = a ? a : m->leaves;
        int32_t *b = mr_scratch_more(m->run, m->branches, sizeof(int32_t) * (size_t)cap);
        m->branches = b ? b : m->branches;
        if (!a || !b)
            return false;
        m->leaves_cap = cap;
    }
    int64_t at = m->n_leaves, n = m->n_leaves++;
    while (at > 0 && m->all[m->leaves[at - 1]].now.total < m->all[e].now.total)
        at--;
    memmove(m->leaves + at + 1, m->leaves + at, sizeof(int32_t) * (size_t)(n - at));
    m->leaves[at] = e;
    return true;
}

static bool beam_reset(beam *m)
{
    m->n = 0;
    m->n_leaves = 0;
    if (!beam_add(m, -1, -1))
        return false;
    m->all[0].now = (odds){0, 0, -INFINITY};
    return beam_push(m, 0);
}

static bool is_candidate(const beam *m, const odds *o)
{
    return o->total > -INFINITY &&
           (m->n_leaves < m->width || o->total > m->all[m->leaves[m->n_leaves - 1]].now.total);
}

/* Updates the probabilities of a leaf whose sequence stays the same in this step: its paths repeat the last
 * label or add a blank, and its parent's paths add the label. */
static void carry_on(beam *m, int32_t at, const double *y, int32_t blank)
{
    entry *e = &m->all[at];
    if (e->parent >= 0) {
        const entry *up = &m->all[e->parent];
        if (up->now.total > -INFINITY) {
            double before = e->label == up->label ? up->before.blank : up->before.total;
            e->now.label = log_add(e->now.label, before);
        }
        e->now.label += y[e->label];
    }
    e->now.blank = e->before.total + y[blank];
    e->now.total = log_add(e->now.blank, e->now.label);
}

/* Adds the child of a leaf for `label` if it is likely enough.  Returns false if there is no memory. */
static bool grow_child(beam *m, int32_t at, int32_t label, const double *y)
{
    int32_t c = m->children[label];
    if (c >= 0 && m->all[c].now.total > -INFINITY)
        return true; /* the child is a leaf already */
    const entry *e = &m->all[at];
    double p = y[label] + (label == e->label ? e->before.blank : e->before.total);
    odds now = {p, -INFINITY, p};
    if (!is_candidate(m, &now)) {
        if (c >= 0)
            m->all[c].before = m->all[c].now = none;
        return true;
    }
    if (c < 0) {
        if (!beam_add(m, at, label))
            return false;
        c = m->children[label] = m->n - 1;
    }
    m->all[c].now = now;
    if (m->n_leaves == m->width)
        m->all[m->leaves[--m->n_leaves]].now = none; /* the least likely leaf leaves the beam */
    return beam_push(m, c);
}

static bool grow_leaf(beam *m, int32_t at, int64_t n_labels, const double *y)
{
    bool grown = true;
    if (!is_candidate(m, &m->all[at].before))
        return true;
    for (int32_t c = m->all[at].child; c >= 0; c = m->all[c].sibling)
        m->children[m->all[c].label] = c;
    for (int64_t k = 0; k < n_labels && grown; k++)
        grown = grow_child(m, at, (int32_t)k, y);
    for (int32_t c = m->all[at].child; c >= 0; c = m->all[c].sibling)
        m->children[m->all[c].label] = -1;
    return grown;
}

/* One time step.  y holds the logits and is overwritten with log probabilities. */
static bool beam_step(beam *m, double *y, int64_t classes)
{
    double top = y[0], sum = 0;
    for (int64_t c = 1; c < classes; c++)
        top = y[c] > top ? y[c] : top;
    for (int64_t c = 0; c < classes; c++)
        sum += exp(y[c] - top);
    for (int64_t c = 0; c < classes; c++)
        y[c] -= top + log(sum);
    int64_t n = m->n_leaves;
    memcpy(m->branches, m->leaves, sizeof(int32_t) * (size_t)n);
    m->n_leaves = 0;
    for (int64_t i = 0; i < n; i++)
        m->all[m->branches[i]].before = m->all[m->branches[i]].now;
    for (int64_t i = 0; i < n; i++) {
        carry_on(m, m->branches[i], y, (int32_t)(classes - 1));
        if (!beam_push(m, m->branches[i]))
            return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (!grow_leaf(m, m->branches[i], classes - 1, y))
            return false;
    return true;
}

/* Appends the labels of a leaf, from the root, to q as the result for sequence b. */
static bool take_path(const beam *m, int32_t at, bool merge, int64_t b, path *q)
{
    int64_t first = q->n, last = -1;
    for (; m->all[at].parent >= 0; at = m->all[at].parent) {
        if ((!merge || m->all[at].label != last) && !path_push(m->run, q, m->all[at].label))
            return false;
        last = m->all[at].label;
    }
    for (int64_t i = first, k = q->n - 1; i < k; i++, k--) {
        int32_t t = q->labels[i];
        q->labels[i] = q->labels[k];
        q->labels[k] = t;
    }
    q->ends[b] = q->n;
    return true;
}

static mr_status *beam_sequence(decoding *d, beam *m, int64_t b, double *row)
{
    bool made = beam_reset(m);
    for (int64_t t = 0; t < length_of(d, b) && made; t++) {
        if (d->r->step->cancel && mr_cancel_started(d->r->step->cancel))
            return mr_error(MR_CANCELLED, "the beam search was cancelled");
        row_at(d, t, b, row);
        made = beam_step(m, row, d->classes);
    }
    if (!made)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the beam search");
    if (d->s->top_paths > m->n_leaves)
        return mr_invalid("Less leaves in the beam search than requested.");
    for (int64_t p = 0; p < d->s->top_paths; p++) {
        if (!take_path(m, m->leaves[p], d->s->merge, b, &d->paths[p]))
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the labels");
        set_log_p(d, b, p, m->all[m->leaves[p]].now.total);
    }
    return NULL;
}

static mr_status *beam_search(mr_run *r)
{
    enum { FIRST = 64 };
    mr_status *st = NULL;
    double *row = NULL;
    beam m = {.run = r, .cap = FIRST, .leaves_cap = FIRST};
    decoding d;
    MR_GO(decoding_open(r, &d));
    m.width = d.s->width;
    if (d.s->top_paths > d.s->width)
        MR_GO(mr_invalid("requested more paths than the beam width."));
    row = mr_scratch(r, sizeof(double) * (size_t)d.classes);
    m.children = mr_scratch(r, sizeof(int32_t) * (size_t)d.classes);
    m.all = mr_scratch(r, sizeof(entry) * FIRST);
    m.leaves = mr_scratch(r, sizeof(int32_t) * FIRST);
    m.branches = mr_scratch(r, sizeof(int32_t) * FIRST);
    if (!row || !m.children || !m.all || !m.leaves || !m.branches)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld classes", (long long)d.classes));
    for (int64_t c = 0; c < d.classes; c++)
        m.children[c] = -1;
    for (int64_t b = 0; b < d.batch; b++)
        MR_GO(beam_sequence(&d, &m, b, row));
    st = store_paths(&d);
out:
    mr_scratch_free(row);
    mr_scratch_free(m.children);
    mr_scratch_free(m.all);
    mr_scratch_free(m.leaves);
    mr_scratch_free(m.branches);
    decoding_close(&d);
    return st;
}

/* ---- ops ---- */

#define STATE(fn) .state_bytes = sizeof(state), .init = fn

MR_OP(CTCGreedyDecoder,
    .doc      = "the likeliest class at every time step, without blanks",
    .sig      = "inputs: T, sequence_length: int32 -> decoded_indices: int64, decoded_values: "
                "int64, decoded_shape: int64, log_probability: T",
    .attrs    = "merge_repeated: bool = false; blank_index: int = -1; "
                "T: {float, double} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = infer_decoder,
    .kernels  = MR_KERNELS(MR_CPU_ONE(decode_greedy, MR_FLOATS32)),
    STATE(init_greedy),
    .examples = MR_EXAMPLES(
        "[[[1, 0, 0]], [[2, 0, 0]], [[0, 0, 3]], [[0, 4, 0]]], [4] -> [[0, 0], [0, 1], [0, 2]], "
        "[0, 0, 1], [1, 3], [[-10]]",
        "merge_repeated=true: [[[1, 0, 0]], [[2, 0, 0]], [[0, 0, 3]], [[0, 4, 0]]], [4] -> "
        "[[0, 0], [0, 1]], [0, 1], [1, 2], [[-10]]",
        "blank_index=0: [[[1, 0], [0, 2]]], [1, 1] -> [[1, 0]], [1], [2, 1], [[-1], [-2]]",
        "[[[1, 0], [0, 2]]], [0, 0] -> shape(0,2), shape(0), [2, 0], [[0], [0]]",
        "[[[1, 0]]], [2] -> !FAILED_PRECONDITION sequence_length(0) <= 1",
        "[[[1, 0]]], [1, 1] -> !INVALID_ARGUMENT", "[[1, 0]], [1] -> !INVALID_ARGUMENT",
        "shape(0,1,2), [0] -> !INVALID_ARGUMENT inputs must not be empty",
        "blank_index=2: [[[1, 0]]], [1] -> !INVALID_ARGUMENT blank_index expected to be between -2 "
        "and 1 but was 2"));

MR_OP(CTCBeamSearchDecoder,
    .doc      = "the likeliest sequences of labels, with their log probabilities; the last class "
                "is the blank",
    .sig      = "inputs: T, sequence_length: int32 -> decoded_indices: top_paths * int64, "
                "decoded_values: top_paths * int64, decoded_shape: top_paths * int64, "
                "log_probability: T",
    .attrs    = "beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = true; "
                "T: {float, double} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = infer_decoder,
    .kernels  = MR_KERNELS(MR_CPU_ONE(beam_search, MR_FLOATS32)),
    STATE(init_beam),
    .examples = MR_EXAMPLES(
        /* two steps of 0.4 against the blank: a 0.64 */
        "beam_width=4 top_paths=2: [[[-0.9162907, -0.5108256]], [[-0.9162907, -0.5108256]]], [2] "
        "-> [[0, 0]], shape(0,2), [0], shape(0), [1, 1], [1, 0], [[-0.446287, -1.021651]]",
        "beam_width=2 top_paths=1 merge_repeated=false: [[[5, 0, 0]], [[0, 0, 5]], [[5, 0, 0]]], "
        "[3] -> [[0, 0], [0, 1]], [0, 0], [1, 2], shape(1,1)",
        "beam_width=2 top_paths=1: [[[5, 0, 0]], [[0, 0, 5]], [[5, 0, 0]]], [3] -> [[0, 0]], [0], "
        "[1, 1], shape(1,1)",
        "beam_width=1 top_paths=1: [[[5, 0, 0]]], [0] -> shape(0,2), shape(0), [1, 0], [[0]]",
        "beam_width=1 top_paths=2: [[[5, 0, 0]]], [1] -> !INVALID_ARGUMENT requested more paths",
        "beam_width=9 top_paths=3: [[[5, 0]]], [1] -> !INVALID_ARGUMENT Less leaves in the beam",
        "beam_width=1 top_paths=1: [[[5, 0]]], [2] -> !FAILED_PRECONDITION"));
