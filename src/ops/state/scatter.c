/* ops/state/scatter.c -- rows of a variable: ResourceGather, and Scatter* through references and handles.
 *
 * Updates are applied in the order of the indices, so if a row occurs twice, the last update wins (Update) or both
 * count (Add, Sub, Mul, Div, Min, Max).  All indices are checked before anything is changed. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/index.h"
#include "ops/state/update.h"
#include "run/scratch.h"

/* ---- gathering ---- */

static mr_status *gather_shape(mr_infer *c)
{
    const mr_pshape *s = mr_infer_variable(c, 0), *indices, *ignored;
    int64_t batch;
    MR_TRY(mr_node_get_int(c->node, "batch_dims", &batch));
    if (batch < 0 || batch >= MR_MAX_RANK)
        return mr_invalid("batch_dims %lld is not in [0, %d)", (long long)batch, MR_MAX_RANK);
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], (int)batch, &indices));
    MR_TRY(mr_infer_rank_at_least(c, s, (int)batch + 1, &s));
    if (s->rank < 0 || indices->rank < 0)
        return NULL;
    MR_TRY(mr_infer_merge(c, mr_infer_sub(c, s, 0, (int)batch), mr_infer_sub(c, indices, 0, (int)batch), &ignored));
    c->out[0] = mr_infer_concat(c, indices, mr_infer_sub(c, s, (int)batch + 1, MR_MAX_RANK));
    return NULL;
}

/* Output: indices.shape[:] + params.shape[1:], or with batch dims b: indices.shape + params.shape[b+1:]. */
static mr_status *gather_from(mr_run *r, const mr_tensor *params, int b)
{
    const mr_tensor *indices = mr_in(r, 1);
    mr_shape shape;
    mr_tensor *out;
    int64_t *rows, batches = 1, inner = 1;
    if (params->rank < b + 1 || indices->rank < b)
        return mr_invalid("params must be at least %d dimensional, got shape %s", b + 1, MR_TENSOR_SHAPE(params));
    mr_shape_set(&shape, indices->rank, indices->dims);
    for (int i = 0; i < b; i++) {
        if (params->dims[i] != indices->dims[i])
            return mr_invalid("params.shape[%d]: %lld should be equal to indices.shape[%d]: %lld", i,
                              (long long)params->dims[i], i, (long long)indices->dims[i]);
        batches *= params->dims[i];
    }
    for (int i = b + 1; i < params->rank; i++) {
        MR_TRY(mr_shape_push(&shape, params->dims[i]));
        inner *= params->dims[i];
    }
    MR_TRY(mr_index_load(r, indices, "indices", params->dims[b], &rows));
    mr_status *st = mr_run_output(r, 0, shape.rank, shape.dims, &out);
    if (!st && out->n > 0)
        st = mr_gather_rows(r, &(mr_gather){out, params, inner, indices->n / batches, rows}, batches, params->dims[b], 1);
    mr_scratch_free(rows);
    return st;
}

static mr_status *resource_gather(mr_run *r)
{
    mr_variable *v;
    mr_tensor *params = NULL;
    int64_t batch;
    MR_TRY(mr_node_get_int(r->node, "batch_dims", &batch));
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    params = mr_tensor_ref(v->t); /* a snapshot: a writer copies the value while this reference exists */
    mr_unlock(&v->mu);
    mr_status *st = NULL;
    if (!params)
        st = mr_error(MR_FAILED_PRECONDITION, "Could not find variable %s: it has no value", v->name);
    else if (v->dtype != mr_out_dtype(r, 0) || batch < 0 || batch >= MR_MAX_RANK)
        st = mr_invalid("the variable is of type %s, the output of type %s; batch_dims is %lld",
                        mr_dtype_name(v->dtype), mr_dtype_name(mr_out_dtype(r, 0)), (long long)batch);
    else
        st = gather_from(r, params, (int)batch);
    mr_tensor_unref(params);
    mr_variable_unref(v);
    return st;
}

/* `n` entries (-1: the rest) of a shape vector, starting at `begin`. */
static mr_out part_of(mr_grad *g, mr_out shape, int64_t begin, int64_t n)
{
    return mr_emit(g->s, "Slice", shape, mr_const_vec_i32(g->s, 1, (int32_t[]){(int32_t)begin}),
                   mr_const_vec_i32(g->s, 1, (int32_t[]){(int32_t)n}));
}

/* The gradient is sparse: the rows of dy belong to the rows that were read. */
static void rows_backward(mr_grad *g)
{
    mr_out dy = mr_dy(g, "output"), indices = mr_x(g, "indices");
    mr_out shape = mr_emit(g->s, "VariableShape", mr_x(g, "resource"));
    mr_out size = mr_emit(g->s, "ExpandDims", mr_emit(g->s, "Size", indices), mr_const_i32(g->s, 0));
    mr_out rows = mr_emit(g->s, "ConcatV2", size, part_of(g, shape, 1, -1), mr_const_i32(g->s, 0));
    mr_out values = mr_emit(g->s, "Reshape", dy, rows);
    mr_dxi_sparse(g, 0, values, mr_emit(g->s, "Reshape", indices, size), shape);
}

/* Each batch has separate rows: the rows of all batches are numbered together, and the gradients of each row are
 * added. */
static void batches_backward(mr_grad *g, int64_t batch)
{
    mr_scope *s = g->s;
    mr_out indices = mr_x(g, "indices"), zero = mr_const_i32(s, 0);
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(indices)));
    mr_out shape = mr_emit_with(s, "VariableShape", MR_ATTRS({"out_type", type}), mr_x(g, "resource"));
    mr_out batches = mr_emit(s, "Prod", part_of(g, shape, 0, batch), zero);
    mr_out n = mr_emit(s, "Prod", part_of(g, shape, batch, 1), zero);
    mr_out all = mr_emit(s, "Range", mr_scalar_like(g, 0, n), batches, mr_scalar_like(g, 1, n));
    mr_out starts = mr_emit(s, "ExpandDims", mr_emit(s, "Mul", all, n), mr_const_i32(s, 1));
    mr_out flat = mr_emit(s, "Reshape", indices, mr_emit(s, "Pack", batches, mr_scalar_like(g, -1, n)));
    flat = mr_emit(s, "Reshape", mr_emit(s, "Add", flat, starts), mr_const_vec_i32(s, 1, (int32_t[]){-1}));
    mr_out size = mr_emit_with(s, "Size", MR_ATTRS({"out_type", type}), indices);
    mr_out rows = mr_emit(s, "ConcatV2", mr_emit(s, "ExpandDims", size, zero), part_of(g, shape, batch + 1, -1), zero);
    mr_out sums = mr_emit(s, "UnsortedSegmentSum", mr_emit(s, "Reshape", mr_dy(g, "output"), rows), flat,
                          mr_emit(s, "Mul", batches, n));
    mr_dxi(g, 0, mr_emit(s, "Reshape", sums, shape));
}

static void gather_backward(mr_grad *g)
{
    int64_t batch = 0;
    mr_scope_fail(g->s, mr_node_get_int(g->node, "batch_dims", &batch));
    if (batch == 0)
        rows_backward(g);
    else
        batches_backward(g, batch);
}

MR_OP(ResourceGather,
    .doc      = "rows of a variable by index",
    .sig      = "resource: resource, indices: Tindices -> output: dtype",
    .attrs    = "batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: {int32, int64}",
    .flags    = MR_STATEFUL,
    .key      = "dtype",
    .shape    = gather_shape,
    .grad     = gather_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(resource_gather)),
    .examples = MR_EXAMPLES(
        "v = VarHandleOp dtype=$T shape=[3]; AssignVariableOp: v, [1, 2, 3]; : v, int32[2, 0] -> [3, 1]",
        "v = VarHandleOp dtype=$T shape=[2,2]; AssignVariableOp: v, [[1, 2], [3, 4]]; batch_dims=1: v, int32[1, 0] -> [2, 3]",
        "v = VarHandleOp dtype=string shape=[2]; AssignVariableOp: v, string[\"a\", \"b\"]; dtype=string: v, int32[1] -> [\"b\"]",
        "v = VarHandleOp dtype=bool shape=[2]; AssignVariableOp: v, bool[true, false]; dtype=bool: v, int32[1] -> [false]",
        "v = VarHandleOp dtype=float shape=[2,2]; AssignVariableOp: v, float[[1, 2], [3, 4]]; "
        "dtype=float: v, int64[[1], [1]] -> [[[3, 4]], [[3, 4]]]",
        "v = VarHandleOp dtype=float shape=[2]; AssignVariableOp: v, float[1, 2]; "
        "dtype=float: v, int32[2] -> !INVALID_ARGUMENT indices[0] = 2 is not in [0, 2)"));

/* ---- scattering ---- */

static mr_status *check_updates(const mr_tensor *var, const mr_tensor *indices, const mr_tensor *updates)
{
    if (var->rank < 1)
        return mr_invalid("params must be at least 1-D, got shape %s", MR_TENSOR_SHAPE(var));
    if (updates->rank == 0)
        return NULL;
    bool fits = updates->rank == indices->rank + var->rank - 1 &&
                mr_shape_eq(indices->rank, indices->dims, indices->rank, updates->dims) &&
                mr_shape_eq(var->rank - 1, var->dims + 1, var->rank - 1, updates->dims + indices->rank);
    return fits ? NULL
                : mr_invalid("Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
                             "updates.shape %s, indices.shape %s, params.shape %s",
                             MR_TENSOR_SHAPE(updates), MR_TENSOR_SHAPE(indices), MR_TENSOR_SHAPE(var));
}

/* Replaces a row by row k of `updates`, or each of its elements by the scalar. */
static mr_status *set_row(mr_tensor *var, int64_t at, const mr_tensor *updates, int64_t k, int64_t inner)
{
    if (updates->rank > 0)
        return mr_tensor_try_copy_elements(var, at, updates, k * inner, inner);
    for (int64_t i = 0; i < inner; i++)
        MR_TRY(mr_tensor_try_copy_elements(var, at + i, updates, 0, 1));
    return NULL;
}

/* Updates n rows with those of `updates`, or each of their elements with the scalar. */
static void change_rows(mr_update_loop *loop, mr_tensor *var, const int64_t *rows, int64_t n, const mr_tensor *updates,
                        int64_t inner)
{
    size_t size = mr_dtype_size((mr_dtype)var->dtype), row_bytes = (size_t)inner * size;
    const char *src = updates->data;
    for (int64_t k = 0; k < n; k++) {
        char *dst = (char *)var->data + (size_t)rows[k] * row_bytes;
        if (updates->rank > 0)
            loop(dst, src + (size_t)k * row_bytes, inner);
        for (int64_t i = 0; updates->rank == 0 && i < inner; i++)
            loop(dst + (size_t)i * size, src, 1);
    }
}

static mr_status *scatter_locked(mr_run *r, mr_variable *v, mr_update_kind kind) MR_REQUIRES(v->mu)
{
    const mr_tensor *indices = mr_in(r, 1), *updates = mr_in(r, 2);
    mr_tensor *t;
    int64_t *rows;
    if (v->dtype != updates->dtype)
        return mr_invalid("a variable of type %s cannot be updated by %s", mr_dtype_name(v->dtype), mr_dtype_name(updates->dtype));
    mr_update_loop *loop = mr_update_find(kind, v->dtype);
    if (kind != MR_UPDATE_SET && !loop)
        return mr_error(MR_UNIMPLEMENTED, "%s is not implemented for type %s", r->node->def->name,
                        mr_dtype_name(v->dtype));
    if (!v->t)
        return mr_error(MR_FAILED_PRECONDITION, "Attempting to use uninitialized value %s", v->name);
    MR_TRY(check_updates(v->t, indices, updates));
    MR_TRY(mr_update_check(kind, updates));
    MR_TRY(mr_index_load(r, indices, "indices", v->t->dims[0], &rows));
    mr_status *st = mr_variable_writable(v, mr_run_allocator(r), &t);
    int64_t inner = !st && t->dims[0] ? t->n / t->dims[0] : 0;
    if (!st && loop)
        change_rows(loop, t, rows, indices->n, updates, inner);
    for (int64_t k = 0; !st && !loop && k < indices->n; k++)
        st = set_row(t, rows[k] * inner, updates, k, inner);
    mr_scratch_free(rows);
    return st;
}

static mr_status *run_scatter(mr_run *r, mr_update_kind kind) { return mr_update_variable(r, kind, scatter_locked); }

static mr_status *scatter_update(mr_run *r) { return run_scatter(r, MR_UPDATE_SET); }
static mr_status *scatter_add(mr_run *r) { return run_scatter(r, MR_UPDATE_ADD); }
static mr_status *scatter_sub(mr_run *r) { return run_scatter(r, MR_UPDATE_SUB); }
static mr_status *scatter_mul(mr_run *r) { return run_scatter(r, MR_UPDATE_MUL); }
static mr_status *scatter_div(mr_run *r) { return run_scatter(r, MR_UPDATE_DIV); }
static mr_status *scatter_min(mr_run *r) { return run_scatter(r, MR_UPDATE_MIN); }
static mr_status *scatter_max(mr_run *r) { return run_scatter(r, MR_UPDATE_MAX); }

/* updates must be a scalar, or have the shape of the indices followed by that of the variable's rows. */
static mr_status *scatter_shape(mr_infer *c)
{
    const mr_pshape *var = mr_infer_variable(c, 0), *ignored;
    MR_TRY(mr_infer_handle_type(c, 0, "dtype"));
    if (c->in[2]->rank != 0)
        MR_TRY(mr_infer_merge(c, c->in[2], mr_infer_concat(c, c->in[1], mr_infer_sub(c, var, 1, MR_MAX_RANK)),
                              &ignored));
    if (c->n_out > 0)
        c->out[0] = var;
    return NULL;
}

#define REF_SCATTER(types, locking)                                                                  \
    .sig = "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",                       \
    .attrs = "T: " types "; Tindices: {int32, int64}; use_locking: bool = " locking,                 \
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = scatter_shape

#define RESOURCE_SCATTER(types)                                                                      \
    .sig = "resource: resource, indices: Tindices, updates: dtype ->",                               \
    .attrs = "dtype: " types "; Tindices: {int32, int64}", .key = "dtype",                           \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = scatter_shape

MR_OP(ScatterUpdate, .doc = "replaces rows of a variable", REF_SCATTER("type", "true"),
    .kernels = MR_KERNELS(MR_CPU_ANY(scatter_update)),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[2, 0], [7, 8] -> [8, 2, 7]", "[[1, 2], [3, 4]], int64 1, 0 -> [[1, 2], [0, 0]]",
                            "[1, 2], int32[2], [7] -> !INVALID_ARGUMENT indices[0] = 2 is not in [0, 2)",
                            "[1, 2], int32[1], [7, 8] -> !INVALID_ARGUMENT Dimension 0 in both shapes must be equal, "
                            "but are 2 and 1. Shapes are [2] and [1].",
                            "u = PlaceholderWithDefault dtype=$T shape=?: [7, 8]; : [1, 2], int32[1], u -> "
                            "!INVALID_ARGUMENT "
                            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got"));
MR_OP(ScatterAdd, .doc = "adds to rows of a variable", REF_SCATTER("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_add, MR_NUMBERS) MR_CPU_ONE(scatter_add, MR_CODES)),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[2, 0, 2], [1, 2, 3] -> [3, 2, 7]",
                            "T=qint8: [1, 2], int64[0], [-3] -> [-2, 2]"));
MR_OP(ScatterSub, .doc = "subtracts from rows of a variable", REF_SCATTER("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_sub, MR_NUMBERS) MR_CPU_ONE(scatter_sub, MR_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[2, 0], [1, 2] -> [3, 6, 6]"));

#define SCATTER_STEPS "v = VarHandleOp dtype=$T shape=[3]; AssignVariableOp: v, [1, 2, 3]; "
MR_OP(ResourceScatterUpdate, .doc = "replaces rows of a variable", RESOURCE_SCATTER("type"),
    .kernels = MR_KERNELS(MR_CPU_ANY(scatter_update)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [7, 8] ->",
                            SCATTER_STEPS ": v, int32[2, 0], [7] -> !INVALID_ARGUMENT Dimension 0 in both shapes "
                                          "must be equal",
                            SCATTER_STEPS ": v, int32[2], [[7]] -> !INVALID_ARGUMENT Shapes must be equal rank, but "
                                          "are 2 and 1",
                            "v = VarHandleOp dtype=string shape=[2]; AssignVariableOp: v, string[\"a\", \"b\"]; "
                            "dtype=string: v, int32[1], [\"c\"] ->"));
MR_OP(ResourceScatterAdd, .doc = "adds to rows of a variable", RESOURCE_SCATTER("numbertype"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_add, MR_NUMBERS) MR_CPU_ONE(scatter_add, MR_CODES)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [7, 8] ->",
                            SCATTER_STEPS ": v, int32[3], [7] -> !INVALID_ARGUMENT is not in [0, 3)"));
MR_OP(ResourceScatterSub, .doc = "subtracts from rows of a variable", RESOURCE_SCATTER("numbertype"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_sub, MR_NUMBERS) MR_CPU_ONE(scatter_sub, MR_CODES)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [3, 1] ->"));

MR_OP(ScatterMul, .doc = "multiplies rows of a variable", REF_SCATTER("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_mul, MR_NUMBERS) MR_CPU_ONE(scatter_mul, MR_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[2, 0], [1, 2] -> [10, 6, 7]", "[[1, 2], [3, 4]], int64 1, 2 -> [[1, 2], [6, 8]]",
                            "[1i, 2], int32[0, 0], [1i, 2] -> [-2, 2]", "[3], int32 shape(0), shape(0) -> [3]",
                            "[1, 2], int32[-1], [7] -> !INVALID_ARGUMENT indices[0] = -1 is not in [0, 2)"));
MR_OP(ScatterDiv, .doc = "divides rows of a variable", REF_SCATTER("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_div, MR_NUMBERS) MR_CPU_ONE(scatter_div, MR_CODES)),
    .examples = MR_EXAMPLES("[8, 6, 7], int32[0, 0], [2, 2] -> [2, 6, 7]", "T=int32: [7, -7], int64[0, 1], [2, 2] -> [3, -3]",
                            "T=int8: [-128], int32[0], [-1] -> [-128]", "T=float: [1, 0], int32[0, 1], [0, 0] -> [inf, nan]",
                            "T=int32: [7], int32[0], [0] -> !INVALID_ARGUMENT Integer division by zero",
                            "T=quint8: [200], int32[0], [3] -> [66]"));
#define ORDERED "{half, bfloat16, float, double, int32, int64}"
MR_OP(ScatterMin, .doc = "the smaller of rows of a variable and the updates", REF_SCATTER(ORDERED, "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_min, MR_FLOATS) MR_CPU_ONE(scatter_min, MR_INDEXES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[2, 0], [1, 9] -> [5, 6, 1]", "[1, 2], int64[0], [nan] -> [nan, 2]",
                            "[[1, 5]], int32 0, 3 -> [[1, 3]]"));
MR_OP(ScatterMax, .doc = "the larger of rows of a variable and the updates", REF_SCATTER(ORDERED, "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_max, MR_FLOATS) MR_CPU_ONE(scatter_max, MR_INDEXES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[2, 0], [1, 9] -> [9, 6, 7]", "[1, 2], int64[0, 0], [7, 4] -> [7, 2]",
                            "[nan], int32[0], [1] -> [nan]"));

MR_OP(ResourceScatterMul, .doc = "multiplies rows of a variable", RESOURCE_SCATTER("numbertype"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_mul, MR_NUMBERS) MR_CPU_ONE(scatter_mul, MR_CODES)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [3, 1] ->", SCATTER_STEPS ": v, int64 1, 2 ->"));
MR_OP(ResourceScatterDiv, .doc = "divides rows of a variable", RESOURCE_SCATTER("numbertype"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_div, MR_NUMBERS) MR_CPU_ONE(scatter_div, MR_CODES)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [3, 1] ->",
                            "v = VarHandleOp dtype=int32 shape=[1]; AssignVariableOp: v, int32[1]; "
                            "dtype=int32: v, int32[0], [0] -> !INVALID_ARGUMENT Integer division by zero"));
MR_OP(ResourceScatterMin, .doc = "the smaller of rows of a variable and the updates", RESOURCE_SCATTER("numbertype"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_min, MR_REALS) MR_CPU_ONE(scatter_min, MR_CODES)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [3, 1] ->"));
MR_OP(ResourceScatterMax, .doc = "the larger of rows of a variable and the updates", RESOURCE_SCATTER("numbertype"),
    .kernels = MR_KERNELS(MR_CPU_ONE(scatter_max, MR_REALS) MR_CPU_ONE(scatter_max, MR_CODES)),
    .examples = MR_EXAMPLES(SCATTER_STEPS ": v, int32[2, 0], [3, 1] ->"));
