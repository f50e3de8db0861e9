/* ops/sets/edit_distance.c -- EditDistance: how many edits convert one sequence to the other.
 *
 * The elements of a sequence are adjacent and differ only in their last index; the other indices are its name and give
 * the place of its distance in the output.  Sequences are read in the order of the input, which should be row-major.
 * The last index is never read, so it may be beyond the dense shape. */
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
    const mr_tensor *indices, *values;
    int64_t rank;    /* of the sparse tensor: the first rank - 1 indices name the sequence */
    int64_t from, n; /* its elements */
} sequence;

static bool is_same_element(const sequence *a, int64_t i, const sequence *b, int64_t k)
{
    return mr_element_compare(a->values, a->from + i, b->values, b->from + k) == 0;
}

/* Levenshtein's distance, row by row; `row` has room for b->n + 1 numbers. */
static mr_status *levenshtein_distance(mr_run *r, const sequence *a, const sequence *b, int64_t *row, int64_t *out)
{
    for (int64_t k = 0; k <= b->n; k++)
        row[k] = k;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t diagonal = row[0];
        if (mr_cancel_started(r->step->cancel))
            return mr_error(MR_CANCELLED, "EditDistance was cancelled");
        row[0] = i + 1;
        for (int64_t k = 0; k < b->n; k++) {
            int64_t change = diagonal + !is_same_element(a, i, b, k), either = MR_MIN(row[k], row[k + 1]) + 1;
            diagonal = row[k + 1];
            row[k + 1] = MR_MIN(change, either);
        }
    }
    *out = row[b->n];
    return NULL;
}

/* The distance, normalized by the length of the truth if the attr says so.  With an empty truth there is nothing
 * to divide by: the result is infinity, or 0 if both are empty. */
static mr_status *compute_result(mr_run *r, const sequence *hyp, const sequence *truth, int64_t *row, float *out)
{
    bool normalize = *(bool *)r->state;
    int64_t d = 0;
    MR_TRY(levenshtein_distance(r, hyp, truth, row, &d));
    if (!normalize)
        *out = (float)d;
    else if (truth->n == 0)
        *out = hyp->n ? INFINITY : 0;
    else
        *out = (float)d / (float)truth->n;
    return NULL;
}

/* ---- all pairs ---- */

static const int64_t *name_of(const sequence *s) { return MR_DATA(const int64_t, s->indices) + s->from * s->rank; }

static int compare_names(const int64_t *a, const int64_t *b, int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        if (a[d] != b[d])
            return a[d] < b[d] ? -1 : 1;
    return 0;
}

/* The number of elements from s->from on that belong to one sequence; 0 at the end. */
static int64_t length_of(const sequence *s)
{
    int64_t n = 0;
    const int64_t *name = name_of(s);
    while (s->from + n < s->values->n && compare_names(name + n * s->rank, name, s->rank - 1) == 0)
        n++;
    return n;
}

/* The next sequence of a or b, or of both if their names are equal; otherwise the other one is empty.  False at the
 * end.  Only the lengths of these are counted, so that each element is read once. */
static bool next_pair(sequence *a, sequence *b, const int64_t **name)
{
    a->from += a->n;
    b->from += b->n;
    int c = a->from == a->values->n   ? 1
            : b->from == b->values->n ? -1
                                      : compare_names(name_of(a), name_of(b), a->rank - 1);
    *name = name_of(c <= 0 ? a : b);
    a->n = c <= 0 ? length_of(a) : 0;
    b->n = c >= 0 ? length_of(b) : 0;
    return a->n + b->n > 0;
}

/* The offset of a name in the output.  A name beyond the dense shape may still have one. */
static mr_status *place_of(const int64_t *name, const mr_tensor *out, int64_t *at)
{
    int64_t stride = 1, step, sum = 0;
    bool fits = true;
    for (int d = out->rank - 1; d >= 0; stride *= out->dims[d], d--)
        fits = fits && mr_i64_mul(name[d], stride, &step) && mr_i64_add(sum, step, &sum);
    *at = sum;
    return fits && sum >= 0 && sum < out->n
               ? NULL
               : mr_error(MR_INTERNAL,
                          "Got an inner product %lld which would require writing to outside of the buffer for the "
                          "output tensor (max elements %lld)",
                          (long long)sum, (long long)out->n);
}

static mr_status *all_pairs(mr_run *r, sequence *hyp, sequence *truth, mr_tensor *out)
{
    const int64_t *name;
    int64_t at;
    mr_status *st = NULL;
    int64_t *row = mr_try_calloc((size_t)truth->values->n + 1, sizeof *row);
    if (!row)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for an edit distance");
    while (next_pair(hyp, truth, &name)) {
        MR_GO(place_of(name, out, &at));
        MR_GO(compute_result(r, hyp, truth, row, MR_DATA(float, out) + at));
    }
out:
    mr_free(row);
    return st;
}

static mr_status *run_edit(mr_run *r)
{
    const mr_tensor *hs = mr_in(r, 2), *ts = mr_in(r, 5);
    mr_shape shape = {0};
    mr_tensor *out;
    MR_TRY(mr_sparse_check("hypothesis", mr_in(r, 0), mr_in(r, 1), hs));
    MR_TRY(mr_sparse_check("truth", mr_in(r, 3), mr_in(r, 4), ts));
    if (ts->n < 2)
        return mr_invalid("Input SparseTensors must have rank at least 2, but truth_shape rank is: %lld",
                          (long long)ts->n);
    if (hs->n != ts->n)
        return mr_invalid("Expected truth and hypothesis to have matching ranks, but their shapes are: %s and %s",
                          MR_TENSOR_SHAPE(ts), MR_TENSOR_SHAPE(hs));
    const int64_t *h = MR_DATA(int64_t, hs), *t = MR_DATA(int64_t, ts);
    for (int d = 0; d + 1 < hs->n; d++)
        MR_TRY(mr_shape_push(&shape, MR_MAX(h[d], t[d])));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    mr_tensor_zero(out);
    return all_pairs(r, &(sequence){mr_in(r, 0), mr_in(r, 1), hs->n, 0, 0},
                     &(sequence){mr_in(r, 3), mr_in(r, 4), ts->n, 0, 0}, out);
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
    .doc      = "how many insertions, deletions and substitutions convert hypothesis to truth",
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
        "T=int32: [[0, 2]], [1], [1, 2], shape(0,2), shape(0), [1, 2] -> [inf]",
        "T=int32 normalize=false: [[0, -7], [1, 9]], [1, 1], [1, 2], [[0, 5], [0, 6]], [1, 2], [2, 2] -> [1, 1]",
        "T=int32: [[2, 0]], [1], [1, 1], [[0, 0]], [1], [2, 1] -> !INTERNAL Got an inner product 2 which would require "
        "writing to outside of the buffer for the output tensor (max elements 2)",
        "T=int32: [[-1, 0]], [1], [1, 1], [[0, 0]], [1], [2, 1] -> !INTERNAL Got an inner product -1",
        "T=int32: [[0, 9223372036854775807, 0]], [1], [2, 4, 1], shape(0,3), shape(0), [2, 4, 1] -> !INTERNAL",
        "T=int32: [[0]], [1], [1], [[0]], [1], [1] -> !INVALID_ARGUMENT rank at least 2",
        "T=int32: [[0, 0]], [1], [1, 1], [[0]], [1], [1] -> !INVALID_ARGUMENT does not match truth_shape",
        "T=int32: [0], [1], [1], [[0]], [1], [1] -> !INVALID_ARGUMENT must be rank 2"));
