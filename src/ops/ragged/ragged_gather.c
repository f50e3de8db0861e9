/* ops/ragged/ragged_gather.c -- RaggedGather: gathers rows of a ragged tensor by index; RaggedTensorToSparse. */
#include "base/memory.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "ops/ragged/ragged.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

/* ---- RaggedGather ---- */

typedef struct gathering {
    int depth; /* splits of the input */
    mr_tensor *splits[MR_MAX_RANK];
    const mr_tensor *values, *indices;
    const int64_t *rows; /* the rows to gather */
} gathering;

/* The position, `level` levels further in, that corresponds to position `row` in splits 0. */
static int64_t follow_splits(const gathering *g, int64_t row, int level)
{
    for (int i = 0; i < level; i++)
        row = mr_tensor_int_at(g->splits[i], row);
    return row;
}

/* Sets the splits of the output for dimension d of indices: all its rows have the same length. */
static mr_status *give_index_splits(mr_run *r, const gathering *g, int d)
{
    int64_t n = mr_dims_product(g->indices->dims, 0, d + 1), size = g->indices->dims[d + 1], *v;
    MR_TRY(mr_new_i64(r, n + 1, &v));
    for (int64_t i = 0; i <= n; i++)
        v[i] = i * size;
    mr_status *st = mr_give_splits(r, d, n + 1, v);
    mr_scratch_free(v);
    return st;
}

/* Sets output o to the splits of the input at a level, concatenated for the gathered rows. */
static mr_status *give_level(mr_run *r, const gathering *g, int level, int o)
{
    const mr_tensor *s = g->splits[level];
    int64_t total = 0, *v, at = 0;
    for (int64_t i = 0; i < g->indices->n; i++)
        if (!mr_i64_add(total, follow_splits(g, g->rows[i] + 1, level) - follow_splits(g, g->rows[i], level),
                        &total))
            return mr_error(MR_RESOURCE_EXHAUSTED, "too many rows to gather");
    MR_TRY(mr_new_i64(r, total + 1, &v));
    v[0] = 0;
    for (int64_t i = 0; i < g->indices->n; i++) {
        int64_t begin = follow_splits(g, g->rows[i], level), end = follow_splits(g, g->rows[i] + 1, level);
        for (int64_t k = begin; k < end; k++, at++)
            v[at + 1] = v[at] + mr_tensor_int_at(s, k + 1) - mr_tensor_int_at(s, k);
    }
    mr_status *st = mr_give_splits(r, o, total + 1, v);
    mr_scratch_free(v);
    return st;
}

static mr_status *give_values(mr_run *r, const gathering *g, int o)
{
    mr_shape shape;
    mr_tensor *out;
    int64_t total = 0, at = 0, width = mr_dims_product(g->values->dims, 1, g->values->rank);
    for (int64_t i = 0; i < g->indices->n; i++)
        if (!mr_i64_add(total,
                        follow_splits(g, g->rows[i] + 1, g->depth) - follow_splits(g, g->rows[i], g->depth),
                        &total))
            return mr_error(MR_RESOURCE_EXHAUSTED, "too many values to gather");
    mr_shape_set(&shape, g->values->rank, g->values->dims);
    shape.dims[0] = total;
    MR_TRY(mr_run_output(r, o, shape.rank, shape.dims, &out));
    for (int64_t i = 0; i < g->indices->n; i++) {
        int64_t begin = follow_splits(g, g->rows[i], g->depth),
                n = follow_splits(g, g->rows[i] + 1, g->depth) - begin;
        MR_TRY(mr_tensor_try_copy_elements(out, at * width, g->values, begin * width, n * width));
        at += n;
    }
    return NULL;
}

static mr_status *gather_rows(mr_run *r, const gathering *g)
{
    int lead = g->indices->rank - 1; /* -1 for one row, which loses its outer splits */
    if (r->n_out - 1 != g->depth + lead)
        return mr_invalid(
            "OUTPUT_RAGGED_RANK must be indices.rank + PARAMS_RAGGED_RANK - 1: %d and %d",
            r->n_out - 1, g->depth + lead);
    for (int d = 0; d < lead; d++)
        MR_TRY(give_index_splits(r, g, d));
    for (int level = 0; level < g->depth; level++)
        if (level + lead >= 0)
            MR_TRY(give_level(r, g, level, level + lead));
    return give_values(r, g, r->n_out - 1);
}

static mr_status *run_gather(mr_run *r)
{
    gathering g = {
        .depth = r->n_in - 2, .values = mr_in(r, r->n_in - 2), .indices = mr_in(r, r->n_in - 1)};
    int64_t *rows = NULL;
    if (g.depth > MR_MAX_RANK)
        return mr_invalid("ragged rank %d is too large, the maximum is %d", g.depth, MR_MAX_RANK);
    for (int i = 0; i < g.depth; i++)
        g.splits[i] = mr_in(r, i);
    MR_TRY(mr_ragged_check(g.splits, g.depth, g.values));
    MR_TRY(mr_index_load(r, g.indices, "indices", g.splits[0]->n - 1, &rows));
    g.rows = rows;
    mr_status *st = gather_rows(r, &g);
    mr_scratch_free(rows);
    return st;
}

static mr_status *gather_shape(mr_infer *c)
{
    const mr_pshape *indices = c->in[c->n_in - 1], *values = NULL, *v;
    MR_TRY(mr_infer_rank_at_least(c, c->in[c->n_in - 2], 1, &values));
    for (int i = 0; i < c->n_in - 2; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &v));
    if (indices->rank >= 0 && indices->rank + c->n_in - 3 != c->n_out - 1)
        return mr_invalid(
            "OUTPUT_RAGGED_RANK must be indices.rank + PARAMS_RAGGED_RANK - 1: %d and %d",
            c->n_out - 1, indices->rank + c->n_in - 3);
    for (int i = 0; i < c->n_out - 1; i++)
        mr_infer_out_vector(c, i, -1);
    if (values->rank > 0)
        c->out[c->n_out - 1] = mr_pshape_with(c->arena, values, 0, -1);
    return NULL;
}

/* The gradient of the values is sparse: the rows that were gathered, in order. */
static void gather_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    int depth = g->node->n_in - 2;
    mr_out zero = mr_const_i32(s, 0), ends = mr_xi(g, 0), values = mr_xi(g, depth);
    for (int i = 1; i < depth; i++)
        ends = mr_emit(s, "GatherV2", mr_xi(g, i), ends, zero);
    mr_out rows =
        mr_emit(s, "Reshape", mr_xi(g, depth + 1), mr_const_vec_i32(s, 1, (int32_t[]){-1}));
    mr_out begin = mr_emit(s, "GatherV2", ends, rows, zero);
    mr_out end =
        mr_emit(s, "GatherV2", ends, mr_emit(s, "AddV2", rows, mr_scalar_like(g, 1, rows)), zero);
    mr_out taken = mr_nth(mr_emit(s, "RaggedRange", begin, end, mr_scalar_like(g, 1, begin)), 1);
    mr_dxi_sparse(g, depth, mr_dyi(g, g->node->n_out - 1), taken, mr_shape_of(g, values));
}

MR_OP(RaggedGather,
    .doc      = "rows of a ragged tensor by index",
    .sig      = "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, indices: Tindices -> "
                "output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
    .attrs    = "Tvalues: type; Tindices: {int32, int64}; Tsplits: {int32, int64} = DT_INT64; PARAMS_RAGGED_RANK: int >= 1; "
                "OUTPUT_RAGGED_RANK: int >= 0",
    .key      = "Tvalues",
    .shape    = gather_shape,
    .grad     = gather_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_gather)),
    .examples = MR_EXAMPLES(
        "OUTPUT_RAGGED_RANK=1: ([0, 2, 2, 3]), [1, 2, 3], int32[2, 0, 2] -> [0, 1, 3, 4], [3, 1, 2, 3]",
        "OUTPUT_RAGGED_RANK=0: ([0, 2, 2, 3]), [1, 2, 3], int64 0 -> [1, 2]",
        "OUTPUT_RAGGED_RANK=2 Tsplits=int32: ([0, 2, 2, 3]), [1, 2, 3], int32[[0], [1]] -> [0, 1, 2], [0, 2, 2], [1, 2]",
        "OUTPUT_RAGGED_RANK=2: ([0, 1, 3], [0, 2, 3, 4]), [[1, 2], [3, 4], [5, 6], [7, 8]], int32[1] -> [0, 2], [0, 1, 2], [[5, 6], [7, 8]]",
        "OUTPUT_RAGGED_RANK=1: ([0, 1]), [\"a\"], int32[0, 0] -> [0, 1, 2], [\"a\", \"a\"]",
        "OUTPUT_RAGGED_RANK=1: ([0, 1]), [1], int32 shape(0) -> [0], shape(0)",
        "OUTPUT_RAGGED_RANK=1: ([0, 1]), [1], int32[1] -> !INVALID_ARGUMENT indices[0] = 1 is not in [0, 1)",
        "OUTPUT_RAGGED_RANK=1: ([1, 1]), [1], int32[0] -> !INVALID_ARGUMENT Ragged splits must start at 0",
        "OUTPUT_RAGGED_RANK=1: ([0, 2, 1]), [1], int32[0] -> !INVALID_ARGUMENT Ragged splits must be sorted",
        "OUTPUT_RAGGED_RANK=2: ([0, 1]), [1], int32[0] -> !INVALID_ARGUMENT OUTPUT_RAGGED_RANK must be"));

/* ---- RaggedTensorToSparse ---- */

/* The dims of the sparse tensor: the rows, the longest row of each level, the inner dense dimensions. */
static mr_status *sparse_dims(mr_run *r, int depth, const mr_tensor *values, mr_shape *out)
{
    out->rank = 0;
    MR_TRY(mr_shape_push(out, mr_in(r, 0)->n - 1));
    for (int i = 0; i < depth; i++) {
        int64_t longest = 0;
        for (int64_t k = 1; k < mr_in(r, i)->n; k++)
            longest = MR_MAX(longest, mr_tensor_int_at(mr_in(r, i), k) -
                                          mr_tensor_int_at(mr_in(r, i), k - 1));
        MR_TRY(mr_shape_push(out, longest));
    }
    for (int d = 1; d < values->rank; d++)
        MR_TRY(mr_shape_push(out, values->dims[d]));
    return NULL;
}

/* Writes column `level` + 1 of the indices, and for the outermost level also column 0: the index of each
 * value's ancestor in its row.  On entry owner[k] is the ancestor of value k at the level below; on return,
 * the one at this level. */
static void write_level(const mr_tensor *splits, int64_t n, int64_t inner, int64_t width,
                        int column, int64_t *owner, int64_t *out)
{
    int64_t row = 0;
    for (int64_t k = 0; k < n; k++) { /* owners increase with k */
        while (mr_tensor_int_at(splits, row + 1) <=
               owner[k]) /* the last split is above all of them */
            row++;
        int64_t within = owner[k] - mr_tensor_int_at(splits, row);
        owner[k] = row;
        for (int64_t i = 0; i < inner; i++)
            out[(k * inner + i) * width + column] = within;
        for (int64_t i = 0; i < inner && column == 1; i++)
            out[(k * inner + i) * width] = row;
    }
}

static void write_rest(const mr_tensor *values, int64_t inner, int64_t width, int column,
                       int64_t *out)
{
    for (int64_t i = 0; i < values->n; i++) {
        int64_t left = i % inner;
        for (int d = values->rank - 1; d >= 1; d--) {
            out[i * width + column + d - 1] = left % values->dims[d];
            left /= values->dims[d];
        }
    }
}

static mr_status *run_to_sparse(mr_run *r)
{
    int depth = r->n_in - 1;
    mr_tensor *values = mr_in(r, depth), *splits[MR_MAX_RANK], *indices, *out;
    mr_shape shape;
    int64_t *owner;
    if (depth > MR_MAX_RANK)
        return mr_invalid("ragged rank %d is too large, the maximum is %d", depth, MR_MAX_RANK);
    for (int i = 0; i < depth; i++)
        splits[i] = mr_in(r, i);
    MR_TRY(mr_ragged_check(splits, depth, values));
    MR_TRY(sparse_dims(r, depth, values, &shape));
    MR_TRY(mr_sparse_output(r, 0, values->n, shape.rank, &indices, &out));
    MR_TRY(mr_tensor_try_copy_elements(out, 0, values, 0, values->n));
    if (values->n > 0) {
        int64_t inner = values->n / values->dims[0];
        MR_TRY(mr_new_i64(r, values->dims[0], &owner));
        for (int64_t k = 0; k < values->dims[0]; k++)
            owner[k] = k;
        for (int i = depth - 1; i >= 0; i--)
            write_level(splits[i], values->dims[0], inner, shape.rank, i + 1, owner, indices->data);
        write_rest(values, inner, shape.rank, depth + 1, indices->data);
        mr_scratch_free(owner);
    }
    return mr_give_vector(r, 2, shape.rank, shape.dims);
}

static mr_status *to_sparse_shape(mr_infer *c)
{
    const mr_pshape *values = NULL, *v;
    int depth = c->n_in - 1;
    int64_t n = 1;
    for (int i = 0; i < depth; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &v));
    MR_TRY(mr_infer_rank_at_least(c, c->in[depth], 1, &values));
    for (int d = 0; d < values->rank; d++)
        if (n >= 0 && (values->dims[d] < 0 || !mr_i64_mul(n, values->dims[d], &n)))
            n = -1;
    bool known = values->rank >= 0;
    mr_infer_out_sparse(c, 0, known ? n : -1, known ? depth + values->rank : -1, true);
    return NULL;
}

static void to_sparse_backward(mr_grad *g)
{
    int depth = g->node->n_in - 1;
    mr_dxi(g, depth, mr_emit(g->s, "Reshape", mr_dyi(g, 1), mr_shape_of(g, mr_xi(g, depth))));
}

MR_OP(RaggedTensorToSparse,
    .doc      = "a ragged tensor as a sparse one",
    .sig      = "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T -> sparse_indices: int64, sparse_values: T, "
                "sparse_dense_shape: int64",
    .attrs    = "RAGGED_RANK: int >= 1; T: type; Tsplits: {int32, int64} = DT_INT64",
    .key      = "T",
    .shape    = to_sparse_shape,
    .grad     = to_sparse_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_to_sparse)),
    .examples = MR_EXAMPLES(
        "([0, 2, 2, 3]), [1, 2, 3] -> [[0, 0], [0, 1], [2, 0]], [1, 2, 3], [3, 2]",
        "Tsplits=int32: ([0, 1, 3], [0, 0, 2, 3]), [1, 2, 3] -> [[1, 0, 0], [1, 0, 1], [1, 1, 0]], [1, 2, 3], [2, 2, 2]",
        "([0, 0, 1]), [[1, 2]] -> [[1, 0, 0], [1, 0, 1]], [1, 2], [2, 1, 2]", "([0, 1]), [\"a\"] -> [[0, 0]], [\"a\"], [1, 1]",
        "([0]), shape(0) -> shape(0,2), shape(0), [0, 0]",
        "([0, 3]), [1] -> !INVALID_ARGUMENT Final value of ragged splits must match the length",
        "([1, 1]), [1] -> !INVALID_ARGUMENT must start at 0"));
