/* ops/string/reduce_join.c -- ReduceJoin, UnsortedSegmentJoin: join many strings to one.
 *
 * ReduceJoin joins along the axes in the order of reduction_indices: the first one varies fastest. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

typedef struct joining {
    bool keep_dims;
    mr_str separator;
} joining;

static mr_status *init_joining(mr_make *m, void *p)
{
    joining *j = p;
    mr_sv separator;
    if (mr_node_attr(m->node, "keep_dims"))
        MR_TRY(mr_node_get_bool(m->node, "keep_dims", &j->keep_dims));
    MR_TRY(mr_node_get_str(m->node, "separator", &separator));
    mr_str_append(&j->separator, separator.p, separator.n);
    return NULL;
}

static void deinit_joining(void *p) { mr_str_deinit(&((joining *)p)->separator); }

/* ---- ReduceJoin ---- */

typedef struct axes {
    int n;                     /* number of reduced axes; `order` lists them in the order of the input */
    int order[MR_MAX_RANK];
    bool reduced[MR_MAX_RANK]; /* by dimension */
    int64_t stride[MR_MAX_RANK];
} axes;

static mr_status *read_axes(const mr_tensor *in, const mr_tensor *t, axes *a)
{
    int64_t step = 1;
    *a = (axes){0};
    for (int d = in->rank - 1; d >= 0; d--) {
        a->stride[d] = step;
        step *= in->dims[d];
    }
    for (int64_t i = 0; i < t->n; i++) {
        int64_t d = mr_tensor_int_at(t, i);
        if (d < -in->rank || d >= in->rank)
            return mr_invalid("Invalid reduction dimension %lld for input with %d dimension(s)",
                              (long long)d, in->rank);
        d += d < 0 ? in->rank : 0;
        if (a->reduced[d])
            return mr_invalid("Duplicate reduction dimension %lld", (long long)d);
        a->reduced[d] = true;
        a->order[a->n++] = (int)d;
    }
    return NULL;
}

/* The offset of element i of the sub-array that the n dimensions dims_of span.  The last of them varies fastest,
 * or the first if first_fastest. */
static int64_t element_offset(int64_t i, int n, const int *dims_of, const mr_tensor *in, const axes *a,
                              bool first_fastest)
{
    int64_t at = 0;
    for (int k = 0; k < n; k++) {
        int d = dims_of[first_fastest ? k : n - 1 - k];
        at += i % in->dims[d] * a->stride[d];
        i /= in->dims[d];
    }
    return at;
}

static mr_status *join_one(const mr_tensor *in, const axes *a, int64_t base, int64_t n,
                           mr_sv separator, mr_str *s)
{
    mr_str_clear(s);
    for (int64_t k = 0; k < n; k++) {
        mr_sv part = mr_tensor_str_at(in, base + element_offset(k, a->n, a->order, in, a, true));
        if (k > 0)
            MR_TRY(mr_string_add(s, separator.p, separator.n));
        MR_TRY(mr_string_add(s, part.p, part.n));
    }
    return NULL;
}

static mr_status *run_reduce(mr_run *r, const mr_tensor *in, const axes *a)
{
    const joining *j = r->state;
    mr_shape shape = {0};
    int kept[MR_MAX_RANK], n_kept = 0;
    int64_t count = 1;
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    for (int d = 0; d < in->rank; d++) {
        if (a->reduced[d])
            count *= in->dims[d];
        else
            kept[n_kept++] = d;
        if (!a->reduced[d] || j->keep_dims)
            MR_TRY(mr_shape_push(&shape, a->reduced[d] ? 1 : in->dims[d]));
    }
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    for (int64_t i = 0; i < out->n; i++) {
        MR_GO(join_one(in, a, element_offset(i, n_kept, kept, in, a, false), count,
                       mr_str_view(&j->separator), &s));
        MR_GO(mr_tensor_set_str(out, i, mr_str_view(&s)));
    }
out:
    mr_str_deinit(&s);
    return st;
}

static mr_status *run_reduce_join(mr_run *r)
{
    axes a;
    if (mr_in(r, 1)->rank > 1)
        return mr_invalid("reduction_indices must be a scalar or vector, got shape %s",
                          MR_TENSOR_SHAPE(mr_in(r, 1)));
    MR_TRY(read_axes(mr_in(r, 0), mr_in(r, 1), &a));
    if (a.n == 0) { /* no axes: the output is the input */
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    return run_reduce(r, mr_in(r, 0), &a);
}

MR_OP(ReduceJoin,
    .doc      = "joins strings along axes",
    .sig      = "inputs: string, reduction_indices: int32 -> output: string",
    .attrs    = "keep_dims: bool = false; separator: string = ''",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_reduction,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reduce_join)),
    .state_bytes = sizeof(joining), .init = init_joining, .deinit = deinit_joining,
    .examples = MR_EXAMPLES(
        "[[\"a\", \"b\"], [\"c\", \"d\"]], 0 -> [\"ac\", \"bd\"]",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], -1 -> [\"ab\", \"cd\"]",
        "keep_dims=true: [[\"a\", \"b\"], [\"c\", \"d\"]], 0 -> [[\"ac\", \"bd\"]]",
        "separator=\".\": [[\"a\", \"b\"], [\"c\", \"d\"]], [1] -> [\"a.b\", \"c.d\"]",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], [0, 1] -> \"acbd\"",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], [1, 0] -> \"abcd\"",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], shape(0) -> [[\"a\", \"b\"], [\"c\", \"d\"]]",
        "\"a\", shape(0) -> \"a\"", "shape(0,2), 0 -> [\"\", \"\"]", "shape(0,2), 1 -> shape(0)",
        "[\"a\"], 1 -> !INVALID_ARGUMENT Invalid reduction dimension",
        "[[\"a\"]], [0, -2] -> !INVALID_ARGUMENT"));

/* ---- UnsortedSegmentJoin ---- */

/* Adds row i of the inputs to the strings of its segment. */
static mr_status *add_row(const mr_tensor *in, int64_t i, int64_t width, int64_t segment, bool first,
                          mr_sv separator, mr_str *to)
{
    for (int64_t k = 0; k < width; k++) {
        mr_sv part = mr_tensor_str_at(in, i * width + k);
        mr_str *s = &to[segment * width + k];
        if (!first)
            MR_TRY(mr_string_add(s, separator.p, separator.n));
        MR_TRY(mr_string_add(s, part.p, part.n));
    }
    return NULL;
}

static mr_status *join_rows(mr_run *r, int64_t n_segments, int64_t width, mr_str *to, bool *seen)
{
    const mr_tensor *in = mr_in(r, 0), *ids = mr_in(r, 1);
    mr_sv separator = mr_str_view(&((joining *)r->state)->separator);
    for (int64_t i = 0; i < ids->n; i++) {
        int64_t id = mr_tensor_int_at(ids, i);
        if (id >= n_segments || id < 0)
            return mr_invalid("segment_ids are not allowed to exceed num_segments or to have negative values.");
        MR_TRY(add_row(in, i, width, id, !seen[id], separator, to));
        seen[id] = true;
    }
    return NULL;
}

static mr_status *join_segments(mr_run *r, int64_t n_segments, int64_t width, mr_tensor *out)
{
    mr_str *to = mr_try_calloc((size_t)out->n + 1, sizeof *to);
    bool *seen = mr_try_calloc((size_t)n_segments + 1, 1);
    mr_status *st = NULL;
    MR_GO(mr_string_room(to && seen));
    MR_GO(join_rows(r, n_segments, width, to, seen));
    for (int64_t i = 0; i < out->n; i++)
        MR_GO(mr_tensor_set_str(out, i, mr_str_view(&to[i])));
out:
    for (int64_t i = 0; to && i < out->n; i++)
        mr_str_deinit(&to[i]);
    mr_free(to);
    mr_free(seen);
    return st;
}

static mr_status *run_segment_join(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0), *ids = mr_in(r, 1);
    int64_t n_segments, width = 1;
    mr_shape shape = {0};
    mr_tensor *out;
    if (mr_in(r, 2)->rank != 0)
        return mr_invalid("Number of segments must be a scalar");
    MR_TRY(mr_in_scalar_int(r, 2, "num_segments", &n_segments));
    if (n_segments < 0)
        return mr_invalid("num_segments must be positive");
    if (ids->rank == 0)
        return mr_invalid("Segment_id cannot have rank 0");
    if (in->rank < ids->rank || !mr_shape_eq(ids->rank, ids->dims, ids->rank, in->dims))
        return mr_invalid("segment_ids.shape = %s does not start data.shape = %s",
                          MR_TENSOR_SHAPE(ids), MR_TENSOR_SHAPE(in));
    MR_TRY(mr_shape_push(&shape, n_segments));
    for (int d = ids->rank; d < in->rank; width *= in->dims[d], d++)
        MR_TRY(mr_shape_push(&shape, in->dims[d]));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    return join_segments(r, n_segments, width, out);
}

static mr_status *segment_join_shape(mr_infer *c)
{
    const mr_pshape *ids = c->in[1], *prefix, *ignored;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    if (c->in[0]->rank < 0 || ids->rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], ids->rank, &ignored));
    MR_TRY(mr_infer_merge(c, mr_infer_sub(c, c->in[0], 0, ids->rank), ids, &prefix));
    if (mr_infer_int(c, 2, &n) && n < 0)
        return mr_invalid("Dimension size, given by scalar input 2, must be non-negative but is %lld",
                          (long long)n);
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, mr_infer_int(c, 2, &n) ? n : -1),
                                mr_infer_sub(c, c->in[0], ids->rank, MR_MAX_RANK));
    return NULL;
}

MR_OP(UnsortedSegmentJoin,
    .doc      = "joins the strings of each segment in order",
    .sig      = "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments -> output: string",
    .attrs    = "separator: string = ''; Tindices: {int32, int64}; "
                "Tnumsegments: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = segment_join_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_segment_join)),
    .state_bytes = sizeof(joining), .init = init_joining, .deinit = deinit_joining,
    .examples = MR_EXAMPLES(
        "separator=\":\": [\"this\", \"a\", \"test\", \"is\"], [0, 1, 1, 0], 2 -> "
        "[\"this:is\", \"a:test\"]",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], [2, 2], 3 -> [[\"\", \"\"], [\"\", \"\"], [\"ac\", \"bd\"]]",
        "separator=\",\": [[\"a\", \"b\"], [\"\", \"d\"]], [[0, 0], [0, 1]], 2 -> [\"a,b,\", \"d\"]",
        "[\"a\", \"b\"], [-1, 0], 1 -> !INVALID_ARGUMENT segment_ids are not allowed to exceed num_segments or to "
        "have negative values.", "shape(0), shape(0), 0 -> shape(0)",
        "[\"a\"], [1], 1 -> !INVALID_ARGUMENT segment_ids are not allowed to exceed num_segments",
        "[\"a\"], [0], -1 -> !INVALID_ARGUMENT must be non-negative",
        "[\"a\"], [0, 0], 1 -> !INVALID_ARGUMENT must be equal"));
