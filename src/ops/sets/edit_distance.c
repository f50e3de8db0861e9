/* ops/sets/edit_distance.c -- EditDistance: how many changes make one sequence of the other. */
#include <math.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/sets/rows.h"

static mr_status *init_normalize(mr_make *m, void *p)
{
    return mr_node_get_bool(m->node, "normalize", p);
}

/* ---- one pair ---- */

typedef struct sequence {
    const mr_rows *of;
    int64_t from, n;
} sequence;

static bool same(const sequence *a, int64_t i, const sequence *b, int64_t k)
{
    return mr_element_compare(a->of->values, a->of->e[a->from + i].at, b->of->values,
                              b->of->e[b->from + k].at) == 0;
}

/* Levenshtein's distance, row by row; `row` has room for b's length and one. */
static mr_status *distance(mr_run *r, const sequence *a, const sequence *b, int64_t *row, int64_t *out)
{
    for (int64_t k = 0; k <= b->n; k++)
        row[k] = k;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t diagonal = row[0];
        if (mr_cancel_started(r->step->cancel))
            return mr_error(MR_CANCELLED, "EditDistance was cancelled");
        row[0] = i + 1;
        for (int64_t k = 0; k < b->n; k++) {
            int64_t change = diagonal + !same(a, i, b, k), either = MR_MIN(row[k], row[k + 1]) + 1;
            diagonal = row[k + 1];
            row[k + 1] = MR_MIN(change, either);
        }
    }
    *out = row[b->n];
    return NULL;
}

/* Against nothing, everything has to be put in; there is no truth to divide by. */
static mr_status *result(mr_run *r, const sequence *hyp, const sequence *truth, int64_t *row, float *out)
{
    bool normalize = *(bool *)r->state;
    int64_t d = 0;
    MR_TRY(distance(r, hyp, truth, row, &d));
    if (!normalize)
        *out = (float)d;
    else if (truth->n == 0)
        *out = hyp->n ? INFINITY : 0;
    else
        *out = (float)d / (float)truth->n;
    return NULL;
}

/* ---- all pairs ---- */

static int64_t run_of(const mr_rows *r, int64_t from)
{
    int64_t n = 1;
    while (from + n < r->n && r->e[from + n].group == r->e[from].group)
        n++;
    return n;
}

/* The next group of either; false at the end. */
static bool next_pair(sequence *a, sequence *b, int64_t *group)
{
    int64_t ga, gb;
    a->from += a->n;
    b->from += b->n;
    ga = a->from < a->of->n ? a->of->e[a->from].group : INT64_MAX;
    gb = b->from < b->of->n ? b->of->e[b->from].group : INT64_MAX;
    *group = MR_MIN(ga, gb);
    a->n = ga == *group && a->from < a->of->n ? run_of(a->of, a->from) : 0;
    b->n = gb == *group && b->from < b->of->n ? run_of(b->of, b->from) : 0;
    return a->n + b->n > 0;
}

static mr_status *all_pairs(mr_run *r, mr_rows *hyp, mr_rows *truth, mr_tensor *out)
{
    sequence a = {hyp, 0, 0}, b = {truth, 0, 0};
    int64_t group;
    mr_status *st = NULL;
    int64_t *row = mr_try_calloc((size_t)truth->n + 1, sizeof *row);
    if (!row)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for an edit distance");
    mr_rows_sort(hyp, false);
    mr_rows_sort(truth, false);
    while (!st && next_pair(&a, &b, &group))
        st = result(r, &a, &b, row, MR_DATA(float, out) + group);
    mr_free(row);
    return st;
}

static mr_status *run_edit(mr_run *r)
{
    const mr_tensor *hs = mr_in(r, 2), *ts = mr_in(r, 5);
    mr_rows hyp = {0}, truth = {0};
    mr_shape shape = {0};
    mr_tensor *out;
    mr_status *st = NULL;
    MR_TRY(mr_sparse_check("hypothesis", mr_in(r, 0), mr_in(r, 1), hs));
    MR_TRY(mr_sparse_check("truth", mr_in(r, 3), mr_in(r, 4), ts));
    if (hs->n != ts->n)
        return mr_invalid("Expected hypothesis.shape[0] == truth.shape[0]: ranks %lld and %lld differ",
                          (long long)hs->n, (long long)ts->n);
    if (hs->n < 2)
        return mr_invalid("Input must have rank at least 2, got %lld", (long long)hs->n);
    const int64_t *h = MR_DATA(int64_t, hs), *t = MR_DATA(int64_t, ts);
    for (int d = 0; d + 1 < hs->n; d++)
        MR_TRY(mr_shape_push(&shape, MR_MAX(h[d], t[d])));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    mr_tensor_zero(out);
    MR_GO(mr_rows_of_sparse(mr_in(r, 0), mr_in(r, 1), (int)hs->n, h, shape.dims, &hyp));
    MR_GO(mr_rows_of_sparse(mr_in(r, 3), mr_in(r, 4), (int)ts->n, t, shape.dims, &truth));
    MR_GO(all_pairs(r, &hyp, &truth, out));
out:
    mr_rows_deinit(&hyp);
    mr_rows_deinit(&truth);
    return st;
}

/* ---- the op ---- */

static mr_status *check_parts(mr_infer *c, int first)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[first], 2, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[first + 1], 1, &ignored));
    return mr_infer_rank(c, c->in[first + 2], 1, &ignored);
}

static mr_status *edit_shape(mr_infer *c)
{
    const mr_pshape *h, *t;
    MR_TRY(check_parts(c, 0));
    MR_TRY(check_parts(c, 3));
    const mr_tensor *hs = mr_infer_const(c, 2), *ts = mr_infer_const(c, 5);
    if (!hs || !ts)
        return NULL;
    MR_TRY(mr_infer_shape_value(c, 2, &h));
    MR_TRY(mr_infer_shape_value(c, 5, &t));
    if (h->rank != t->rank)
        return mr_invalid("Num elements of hypothesis_shape does not match truth_shape: %d vs. %d",
                          h->rank, t->rank);
    mr_pshape *out = mr_pshape_new(c->arena, MR_MAX(h->rank - 1, 0));
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = h->dims[d] < 0 || t->dims[d] < 0 ? -1 : MR_MAX(h->dims[d], t->dims[d]);
    c->out[0] = out;
    return NULL;
}

#define WORDS "[[0, 0], [0, 1], [1, 0]], [\"a\", \"b\", \"c\"], [3, 2]"
MR_OP(EditDistance,
    .doc      = "how many elements must be put in, left out or changed to make truth of hypothesis",
    .sig      = "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
                "truth_indices: int64, truth_values: T, truth_shape: int64 -> output: float",
    .attrs    = "normalize: bool = true; T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = edit_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_edit, MR_PLAIN) {"CPU", MR_STRING, run_edit},),
    .state_bytes = sizeof(bool), .init = init_normalize,
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 1]], [0, 1], [1, 2], [[0, 0], [0, 1]], [1, 1], [1, 2] -> [0.5]",
        "normalize=false: [[0, 0], [0, 1], [0, 2]], [0, 1, 1], [1, 3], [[0, 0]], [1], [1, 1] -> [2]",
        "T=string: " WORDS ", [[0, 0], [2, 0]], [\"b\", \"x\"], [3, 1] -> [1, inf, 1]",
        "T=string normalize=false: " WORDS ", [[0, 0], [2, 0]], [\"b\", \"x\"], [3, 1] -> [1, 1, 1]",
        "shape(0,3), shape(0), [2, 2, 2], shape(0,3), shape(0), [1, 3, 2] -> [[0, 0, 0], [0, 0, 0]]",
        "T=int32: [[0, 2]], [1], [1, 2], shape(0,2), shape(0), [1, 2] -> !INVALID_ARGUMENT out of bounds",
        "T=int32: [[0]], [1], [1], [[0]], [1], [1] -> !INVALID_ARGUMENT rank at least 2",
        "T=int32: [[0, 0]], [1], [1, 1], [[0]], [1], [1] -> !INVALID_ARGUMENT does not match truth_shape",
        "T=int32: [0], [1], [1], [[0]], [1], [1] -> !INVALID_ARGUMENT must be rank 2"));
