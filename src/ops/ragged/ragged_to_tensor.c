/* ops/ragged/ragged_to_tensor.c -- RaggedTensorToTensor: rows padded, or cut, to one length.
 *
 * A partition assigns each row of one level to a row of the level above: by row splits, or by the row's
 * number for each value (VALUE_ROWIDS; then FIRST_DIM_SIZE is the number of rows of the first level).
 * Level by level, every row gets its position in the result, or -1 if it is cut off. */
#include "base/memory.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "ops/ragged/ragged.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

typedef enum kind { FIRST_DIM_SIZE, VALUE_ROWIDS, ROW_SPLITS, N_KINDS } kind;
static const char *const kind_names[N_KINDS] = {"FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"};

typedef struct kinds {
    int n;
    kind of[MR_MAX_RANK];
} kinds;

static mr_status *read_kinds(const mr_node *node, int n_tensors, kinds *k)
{
    const mr_attr *a = mr_node_attr(node, "row_partition_types");
    if (!a || a->n != n_tensors || a->n > MR_MAX_RANK)
        return mr_invalid(
            "row_partition_types must have one entry for each of the %d row_partition_tensors",
            n_tensors);
    k->n = a->n;
    for (int i = 0; i < a->n; i++) {
        int at = 0;
        while (at < N_KINDS && !mr_sv_is(a->ss[i], kind_names[at]))
            at++;
        if (at == N_KINDS)
            return mr_invalid("Unknown string for partition info type: %.*s", MR_SV_ARG(a->ss[i]));
        bool counted = k->n > 0 && i > 0 && k->of[0] == FIRST_DIM_SIZE;
        if ((at == FIRST_DIM_SIZE && i > 0) || (at == VALUE_ROWIDS && !counted))
            return mr_invalid("%s is not allowed at position %d of row_partition_types",
                              kind_names[at], i);
        k->of[i] = (kind)at;
    }
    return k->n > 0 ? NULL : mr_invalid("row_partition_types is empty");
}

static mr_status *kinds_init(mr_make *m, void *state)
{
    return read_kinds(m->node, m->node->n_in - 3, state);
}

typedef struct padding {
    int n; /* partitions */
    const kind *kinds;
    mr_tensor *const *parts;
    const mr_tensor *values, *rest;
    int64_t rows; /* of the first level */
    mr_shape shape;
    int64_t inner; /* elements of one value */
} padding;

/* ---- checks ---- */

static mr_status *check_rowids(const mr_tensor *t, int64_t rows)
{
    int64_t before = 0;
    for (int64_t i = 0; i < t->n; i++) {
        int64_t v = mr_tensor_int_at(t, i);
        if (v < before || v >= rows)
            return mr_invalid("value_rowids must not decrease and must be in [0, %lld): entry %lld is %lld",
                              (long long)rows, (long long)i, (long long)v);
        before = v;
    }
    return NULL;
}

static mr_status *check_splits(const mr_tensor *t, int64_t rows)
{
    if (t->n < 1 || mr_tensor_int_at(t, 0) != 0)
        return mr_invalid("row_splits must start with 0");
    if (rows >= 0 && t->n != rows + 1)
        return mr_invalid("row_splits has %lld entries, but there are %lld rows", (long long)t->n,
                          (long long)rows);
    for (int64_t i = 1; i < t->n; i++)
        if (mr_tensor_int_at(t, i) < mr_tensor_int_at(t, i - 1))
            return mr_invalid("row_splits must not decrease: entry %lld does", (long long)i);
    return NULL;
}

/* Checks that the number of rows of each level matches the next level, and of the last one the values. */
static mr_status *check_parts(padding *p)
{
    int64_t rows = -1;
    for (int i = 0; i < p->n; i++) {
        const mr_tensor *t = p->parts[i];
        if (p->kinds[i] == FIRST_DIM_SIZE) {
            if (t->n != 1 || mr_tensor_int_at(t, 0) < 0)
                return mr_invalid(
                    "FIRST_DIM_SIZE must be one non-negative number, got shape %s",
                    MR_TENSOR_SHAPE(t));
            p->rows = rows = mr_tensor_int_at(t, 0);
            continue;
        }
        if (t->rank != 1)
            return mr_invalid("row partitions must be vectors, got shape %s", MR_TENSOR_SHAPE(t));
        MR_TRY(p->kinds[i] == VALUE_ROWIDS ? check_rowids(t, rows) : check_splits(t, rows));
        if (i == 0)
            p->rows = t->n - 1;
        rows = p->kinds[i] == VALUE_ROWIDS ? t->n : mr_tensor_int_at(t, t->n - 1);
    }
    return p->values->rank > 0 && p->values->dims[0] == rows
               ? NULL
               : mr_invalid("the row partitions end with %lld values, but values has shape %s",
                            (long long)rows, MR_TENSOR_SHAPE(p->values));
}

/* ---- sizes ---- */

static int64_t longest_row(const padding *p, int i)
{
    const mr_tensor *t = p->parts[i];
    int64_t longest = 0, run = 0;
    for (int64_t k = 0; k < t->n; k++) {
        int64_t v = mr_tensor_int_at(t, k);
        if (p->kinds[i] == VALUE_ROWIDS)
            run = k > 0 && v == mr_tensor_int_at(t, k - 1) ? run + 1 : 1;
        else
            run = k > 0 ? v - mr_tensor_int_at(t, k - 1) : 0;
        longest = MR_MAX(longest, run);
    }
    return longest;
}

/* Reads the requested shape: -1 means as large as needed; a scalar -1 means that for all dimensions. */
static mr_status *read_wanted_shape(const mr_tensor *t, int rank, int64_t *out)
{
    if (t->rank > 1 || (t->rank == 0 && mr_tensor_int_at(t, 0) != -1))
        return mr_invalid("The only valid scalar shape tensor is the fully unknown shape specified "
                          "as -1, and others are vectors");
    if (t->rank == 1 && t->n != rank)
        return mr_invalid(
            "Shape must have %d dimensions, as the partitions and values require, but has %lld",
            rank, (long long)t->n);
    for (int d = 0; d < rank; d++) {
        out[d] = t->rank == 1 ? mr_tensor_int_at(t, d) : -1;
        if (out[d] < -1)
            return mr_invalid("Dimension %d of shape must be >= -1", d);
    }
    return NULL;
}

static mr_status *result_shape(padding *p, const mr_tensor *shape)
{
    int first = p->kinds[0] == FIRST_DIM_SIZE ? 1 : 0, levels = p->n - first,
        rank = levels + p->values->rank;
    int64_t want[MR_MAX_RANK] = {0};
    if (rank > MR_MAX_RANK)
        return mr_invalid("the result would have %d dimensions, the maximum is %d", rank, MR_MAX_RANK);
    MR_TRY(read_wanted_shape(shape, rank, want));
    p->shape.rank = rank;
    p->shape.dims[0] = want[0] >= 0 ? want[0] : p->rows;
    for (int i = 0; i < levels; i++)
        p->shape.dims[1 + i] = want[1 + i] >= 0 ? want[1 + i] : longest_row(p, first + i);
    for (int d = 1; d < p->values->rank; d++) {
        if (want[levels + d] >= 0 && want[levels + d] != p->values->dims[d])
            return mr_invalid("Dimension %d of shape is %lld, but that of values is %lld",
                              levels + d, (long long)want[levels + d],
                              (long long)p->values->dims[d]);
        p->shape.dims[levels + d] = p->values->dims[d];
    }
    p->inner = mr_dims_product(p->values->dims, 1, p->values->rank);
    return NULL;
}

/* ---- places ---- */

/* Computes the positions of the rows of the next level: the parent's position times `size` plus the index
 * within the parent; -1 if either is cut off. */
static mr_status *next_places(const mr_run *r, const padding *p, int i, int64_t size, int64_t **places)
{
    const mr_tensor *t = p->parts[i];
    bool by_id = p->kinds[i] == VALUE_ROWIDS;
    int64_t n = by_id ? t->n : mr_tensor_int_at(t, t->n - 1), *next, row = 0, within = 0;
    MR_TRY(mr_new_i64(r, n, &next));
    for (int64_t k = 0; k < n; k++, within++) {
        int64_t before = row;
        if (by_id)
            row = mr_tensor_int_at(t, k);
        else
            while (mr_tensor_int_at(t, row + 1) <= k)
                row++;
        within = row != before ? 0 : within;
        int64_t parent = (*places)[row];
        next[k] = parent < 0 || within >= size ? -1 : parent * size + within;
    }
    mr_scratch_free(*places);
    *places = next;
    return NULL;
}

static mr_status *find_places(const mr_run *r, const padding *p, int64_t **places)
{
    int first = p->kinds[0] == FIRST_DIM_SIZE ? 1 : 0;
    MR_TRY(mr_new_i64(r, p->rows, places));
    for (int64_t i = 0; i < p->rows; i++)
        (*places)[i] = i < p->shape.dims[0] ? i : -1;
    for (int i = first; i < p->n; i++)
        MR_TRY(next_places(r, p, i, p->shape.dims[1 + i - first], places));
    return NULL;
}

/* ---- values ---- */

/* Fills the output with the default, broadcast to the shape of one value. */
static mr_status *fill_default(mr_run *r, const padding *p, mr_tensor *out)
{
    const mr_tensor *rest = p->rest;
    int64_t from = 1, to = 1;
    mr_blit b;
    mr_blit_init(&b);
    if (rest->rank > p->values->rank - 1)
        return mr_invalid("default_value.shape=%s and rt_input.flat_values.shape=%s are "
                          "incompatible: default_value.rank = %d  must "
                          "be less than rt_input.flat_values.rank = %d",
                          MR_TENSOR_SHAPE(rest), MR_TENSOR_SHAPE(p->values), rest->rank,
                          p->values->rank);
    for (int d = p->values->rank - 1, k = rest->rank - 1; d >= 1; d--, k--) {
        int64_t n = p->values->dims[d], m = k >= 0 ? rest->dims[k] : 1;
        if (m != 1 && m != n)
            return mr_invalid(
                "default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible",
                MR_TENSOR_SHAPE(rest), MR_TENSOR_SHAPE(p->values));
        mr_blit_dim(&b, n, m == 1 ? 0 : from, to);
        from *= m;
        to *= n;
    }
    if (out->n == 0)
        return NULL;
    mr_blit_dim(&b, out->n / p->inner, 0, p->inner);
    return mr_blit_copy(r, &b, out, 0, rest, 0);
}

static mr_status *run_to_tensor(mr_run *r)
{
    const kinds *k = r->state;
    mr_tensor *parts[MR_MAX_RANK], *out;
    padding p = {
        .n = k->n, .kinds = k->of, .parts = parts, .values = mr_in(r, 1), .rest = mr_in(r, 2)};
    int64_t *places = NULL;
    for (int i = 0; i < p.n; i++)
        parts[i] = mr_in(r, 3 + i);
    MR_TRY(check_parts(&p));
    MR_TRY(result_shape(&p, mr_in(r, 0)));
    MR_TRY(mr_run_output(r, 0, p.shape.rank, p.shape.dims, &out));
    MR_TRY(fill_default(r, &p, out));
    mr_status *st = out->n > 0 ? find_places(r, &p, &places) : NULL;
    for (int64_t i = 0; out->n > 0 && !st && i < p.values->dims[0]; i++)
        if (places[i] >= 0)
            st = mr_tensor_try_copy_elements(out, places[i] * p.inner, p.values, i * p.inner,
                                             p.inner);
    mr_scratch_free(places);
    return st;
}

static mr_status *to_tensor_shape(mr_infer *c)
{
    const mr_pshape *values = c->in[1], *want = &mr_pshape_unknown;
    kinds k;
    MR_TRY(read_kinds(c->node, c->n_in - 3, &k));
    if (c->in[0]->rank == 1)
        MR_TRY(mr_infer_shape_value(c, 0, &want));
    int levels = k.n - (k.of[0] == FIRST_DIM_SIZE);
    if (values->rank < 1 || levels + values->rank > MR_MAX_RANK) {
        c->out[0] = want;
        return NULL;
    }
    mr_pshape *own = mr_pshape_new(c->arena, levels + values->rank);
    memcpy(own->dims + levels + 1, values->dims + 1, (size_t)(values->rank - 1) * sizeof(int64_t));
    return mr_infer_merge(c, want, own, &c->out[0]);
}

/* The indices of the values (from 1), padded in the same way with 0, say which value each element of the
 * result comes from. */
static void to_tensor_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    int n = g->node->n_in - 3;
    mr_out values = mr_xi(g, 1), rest = mr_xi(g, 2), dy = mr_dyi(g, 0), zero = mr_const_i32(s, 0),
           one = mr_const_i32(s, 1);
    mr_out all = mr_const_vec_i32(s, 1, (int32_t[]){-1}), shape = mr_shape_of(g, values);
    mr_out count = mr_emit(s, "GatherV2", shape, zero, zero);
    mr_out element = mr_emit(s, "Slice", shape, mr_const_vec_i32(s, 1, (int32_t[]){1}), all);
    mr_out outer = mr_emit(s, "Slice", mr_shape_of(g, dy), mr_const_vec_i32(s, 1, (int32_t[]){0}),
                           mr_emit(s, "ExpandDims",
                                   mr_emit(s, "Sub", mr_emit(s, "Size", mr_shape_of(g, dy)),
                                           mr_emit(s, "Size", element)),
                                   zero));
    mr_out *parts = mr_new_array(mr_out, n);
    for (int i = 0; i < n; i++)
        parts[i] = mr_xi(g, 3 + i);
    mr_out numbers = mr_emit(s, "Range", one, mr_emit(s, "AddV2", count, one), one);
    const mr_attr *types = mr_node_attr(g->node, "row_partition_types");
    mr_out from =
        mr_emit_lists(s, "RaggedTensorToTensor", MR_ATTRS({"row_partition_types", *types}),
                      (mr_emit_arg[]){{-1, &outer}, {-1, &numbers}, {-1, &zero}, {n, parts}}, 4);
    mr_free(parts);
    mr_out ids = mr_emit(s, "Sub", from, one); /* -1 where the result has the default */
    mr_dxi(g, 1, mr_emit(s, "UnsortedSegmentSum", dy, ids, count));
    mr_out unused =
        mr_emit(s, "SelectV2", mr_emit(s, "Less", ids, zero), zero, mr_const_i32(s, -1));
    mr_out sum = mr_emit(s, "Reshape", mr_emit(s, "UnsortedSegmentSum", dy, unused, one), element);
    mr_out axes = mr_emit(s, "BroadcastGradientArgs", mr_shape_of(g, rest), element);
    mr_dxi(g, 2, mr_emit(s, "Reshape", mr_emit(s, "Sum", sum, axes), mr_shape_of(g, rest)));
}

#define SPLITS "row_partition_types=[\"ROW_SPLITS\"]: "
MR_OP(RaggedTensorToTensor,
    .doc      = "a ragged tensor as a dense one: rows are padded with default_value, or cut",
    .sig      = "shape: Tshape, values: T, default_value: T, row_partition_tensors: num_row_partition_tensors * Tindex -> result: T",
    .attrs    = "T: type; Tindex: {int64, int32}; Tshape: {int64, int32}; num_row_partition_tensors: int >= 1; "
                "row_partition_types: list(string)",
    .shape    = to_tensor_shape,
    .grad     = to_tensor_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_to_tensor)),
    .state_bytes = sizeof(kinds), .init = kinds_init,
    .examples = MR_EXAMPLES(
        SPLITS "int64 -1, [1, 2, 3], 9, (int64[0, 2, 2, 3]) -> [[1, 2], [9, 9], [3, 9]]",
        SPLITS "int32[2, 1], [1, 2, 3], 9, (int32[0, 2, 2, 3]) -> [[1], [9]]",
        SPLITS "int64[4, 3], [1, 2, 3], 9, (int32[0, 2, 2, 3]) -> [[1, 2, 9], [9, 9, 9], [3, 9, 9], [9, 9, 9]]",
        "row_partition_types=[\"FIRST_DIM_SIZE\", \"VALUE_ROWIDS\"]: int32 -1, [1, 2, 3], 9, (int64 3, int64[0, 0, 2]) -> "
        "[[1, 2], [9, 9], [3, 9]]",
        "row_partition_types=[\"ROW_SPLITS\", \"ROW_SPLITS\"]: int64 -1, [[1, 2], [3, 4], [5, 6]], [8, 9], (int64[0, 1, 2], int64[0, 2, 3]) "
        "-> [[[[1, 2], [3, 4]]], [[[5, 6], [8, 9]]]]",
        SPLITS "int64 -1, [\"a\"], \"-\", (int64[0, 0, 1]) -> [[\"-\"], [\"a\"]]",
        SPLITS "int64 -1, shape(0), 9, (int64[0]) -> shape(0,0)",
        SPLITS "int64 -1, [1, 2], 9, (int64[0, 1]) -> !INVALID_ARGUMENT the row partitions end with 1 values",
        SPLITS "int64 -1, [1, 2], 9, (int64[1, 2]) -> !INVALID_ARGUMENT row_splits must start with 0",
        SPLITS "int64[2], [1, 2], 9, (int64[0, 2]) -> !INVALID_ARGUMENT",
        SPLITS "int64 -1, [1, 2], [9], (int64[0, 2]) -> !INVALID_ARGUMENT must be less than rt_input.flat_values.rank",
        "row_partition_types=[\"ROWS\"]: int64 -1, [1, 2], 9, (int64[0, 2]) -> !INVALID_ARGUMENT Unknown string for partition info type",
        "row_partition_types=[\"VALUE_ROWIDS\"]: int64 -1, [1, 2], 9, (int64[0, 2]) -> !INVALID_ARGUMENT not allowed at position 0"));
