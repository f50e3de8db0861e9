/* ops/state/scatter_nd.c -- updates slices that index tuples select, in a variable or in a copy of a
 * tensor: ScatterNd*, ResourceScatterNd*, TensorScatter*, ScatterNdNonAliasingAdd; and
 * ResourceGatherNd.
 *
 * Each tuple is converted to a row number (mr_index_load_nd); rows are updated in the order of the
 * tuples.  Everything is checked before anything is changed. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/add_run.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "ops/state/update.h"
#include "run/scratch.h"

/* ---- updating a tensor ---- */

static mr_status *check_updates(const mr_run *r, mr_update_kind kind, const mr_tensor *t)
{
    const mr_tensor *indices = mr_in(r, 1), *updates = mr_in(r, 2);
    if (t->dtype != updates->dtype)
        return mr_invalid("a variable of type %s cannot be updated by %s", mr_dtype_name(t->dtype),
                          mr_dtype_name(updates->dtype));
    MR_TRY(mr_scatter_nd_check(indices, updates, t->rank, t->dims));
    return mr_update_check(kind, updates);
}

typedef struct job {
    mr_tensor *t;
    const mr_tensor *updates;
    const int64_t *rows;
    int64_t n, inner;
} job;

static mr_status *set_rows(const job *j)
{
    mr_status *st = NULL;
    for (int64_t k = 0; k < j->n && !st; k++)
        st = mr_tensor_try_copy_elements(j->t, j->rows[k] * j->inner, j->updates, k * j->inner,
                                         j->inner);
    return st;
}

static mr_status *add_strings(const job *j)
{
    mr_status *st = NULL;
    for (int64_t i = 0; i < j->n * j->inner && !st; i++)
        st = mr_add_string(j->t, j->rows[i / j->inner] * j->inner + i % j->inner, j->updates, i);
    return st;
}

static void update_rows(const job *j, mr_update_loop *loop, mr_add_run *add)
{
    size_t row = (size_t)j->inner * mr_dtype_size((mr_dtype)j->t->dtype);
    for (int64_t k = 0; k < j->n; k++) {
        char *to = (char *)j->t->data + (size_t)j->rows[k] * row;
        const char *from = (const char *)j->updates->data + (size_t)k * row;
        if (loop)
            loop(to, from, j->inner);
        else
            add(to, from, 1, j->inner);
    }
}

static mr_status *apply_updates(mr_update_kind kind, const job *j)
{
    mr_dtype type = (mr_dtype)j->t->dtype;
    mr_update_loop *loop = mr_update_find(kind, type);
    mr_add_run *add = kind == MR_UPDATE_ADD ? mr_add_run_of(type) : NULL; /* also for bools */
    if (kind == MR_UPDATE_SET)
        return set_rows(j);
    if (kind == MR_UPDATE_ADD && type == MR_STRING)
        return add_strings(j);
    if (!loop && !add)
        return mr_error(MR_UNIMPLEMENTED, "this update is not implemented for type %s",
                        mr_dtype_name(type));
    update_rows(j, loop, add);
    return NULL;
}

/* Updates t, which is writable and has been checked. */
static mr_status *update_tensor(const mr_run *r, mr_update_kind kind, mr_tensor *t)
{
    const mr_tensor *indices = mr_in(r, 1), *updates = mr_in(r, 2);
    int k = (int)indices->dims[indices->rank - 1];
    job j = {t, updates, NULL, mr_dims_product(indices->dims, 0, indices->rank - 1),
             mr_dims_product(t->dims, k, t->rank)};
    int64_t *rows;
    if (updates->n == 0)
        return NULL;
    MR_TRY(mr_index_load_nd(r, indices, t->rank, t->dims, "shape", &rows));
    j.rows = rows;
    mr_status *st = apply_updates(kind, &j);
    mr_scratch_free(rows);
    return st;
}

/* ---- variables ---- */

static mr_status *change_locked(mr_run *r, mr_variable *v, mr_update_kind kind) MR_REQUIRES(v->mu)
{
    mr_tensor *t;
    if (!v->t)
        return mr_error(MR_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                        v->name);
    MR_TRY(check_updates(r, kind, v->t));
    MR_TRY(mr_variable_writable(v, mr_run_allocator(r), &t));
    return update_tensor(r, kind, t);
}

static mr_status *scatter_variable(mr_run *r, mr_update_kind kind) { return mr_update_variable(r, kind, change_locked); }

static mr_status *scatter_tensor(mr_run *r, mr_update_kind kind)
{
    mr_tensor *t;
    MR_TRY(check_updates(r, kind, mr_in(r, 0)));
    MR_TRY(mr_take_over(r, 0, 0, &t));
    return update_tensor(r, kind, t);
}

static mr_status *nd_update(mr_run *r) { return scatter_variable(r, MR_UPDATE_SET); }
static mr_status *nd_add(mr_run *r) { return scatter_variable(r, MR_UPDATE_ADD); }
static mr_status *nd_sub(mr_run *r) { return scatter_variable(r, MR_UPDATE_SUB); }
static mr_status *nd_min(mr_run *r) { return scatter_variable(r, MR_UPDATE_MIN); }
static mr_status *nd_max(mr_run *r) { return scatter_variable(r, MR_UPDATE_MAX); }
static mr_status *tensor_update(mr_run *r) { return scatter_tensor(r, MR_UPDATE_SET); }
static mr_status *tensor_add(mr_run *r) { return scatter_tensor(r, MR_UPDATE_ADD); }
static mr_status *tensor_sub(mr_run *r) { return scatter_tensor(r, MR_UPDATE_SUB); }
static mr_status *tensor_min(mr_run *r) { return scatter_tensor(r, MR_UPDATE_MIN); }
static mr_status *tensor_max(mr_run *r) { return scatter_tensor(r, MR_UPDATE_MAX); }

/* ---- shapes ---- */

/* Errors call a variable "input" and a tensor "output". */
static mr_status *nd_shape(mr_infer *c)
{
    const mr_pshape *t = mr_infer_variable(c, 0);
    bool variable = mr_dtype_is_ref(c->node->in_types[0]) || c->n_out == 0;
    if (!variable)
        MR_TRY(mr_infer_rank_at_least(c, t, 1, &t));
    if (c->n_out > 0)
        c->out[0] = t;
    return mr_infer_scatter_nd(c, c->in[1], c->in[2], t, variable ? "input" : "output");
}

/* ---- gradients ---- */

/* The indices in a type that GatherNd and ScatterNd accept. */
static mr_out plain_indices(mr_grad *g)
{
    mr_out v = mr_xi(g, 1);
    mr_dtype t = mr_out_type(v);
    return t == MR_INT32 || t == MR_INT64
               ? v
               : mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), v);
}

static void update_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0,
           mr_emit(g->s, "TensorScatterUpdate", dy, mr_xi(g, 1), mr_zeros_like(g, mr_xi(g, 2))));
    mr_dxi(g, 2, mr_emit(g->s, "GatherNd", dy, plain_indices(g)));
}

static void add_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_dyi(g, 0));
    mr_dxi(g, 2, mr_emit(g->s, "GatherNd", mr_dyi(g, 0), plain_indices(g)));
}

static void sub_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_dyi(g, 0));
    mr_dxi(g, 2, mr_emit(g->s, "Neg", mr_emit(g->s, "GatherNd", mr_dyi(g, 0), plain_indices(g))));
}

static mr_out ones_where_equal(mr_grad *g, mr_out a, mr_out b)
{
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_out_type(a))}),
                        mr_emit(g->s, "Equal", a, b));
}

/* The elements that attain the extreme share its gradient equally. */
static void extreme_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), y = mr_yi(g, 0), indices = plain_indices(g), shape = mr_shape_of(g, x);
    if (mr_out_type(indices) == MR_INT64)
        shape = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), shape);
    mr_out x_is = ones_where_equal(g, x, y);
    mr_out update_is = ones_where_equal(g, mr_xi(g, 2), mr_emit(s, "GatherNd", y, indices));
    mr_out count = mr_emit(s, "AddV2", x_is, mr_emit(s, "ScatterNd", indices, update_is, shape));
    mr_out part = mr_emit(s, "RealDiv", mr_dyi(g, 0), count);
    mr_dxi(g, 0, mr_emit(s, "Mul", part, x_is));
    mr_dxi(g, 2, mr_emit(s, "Mul", mr_emit(s, "GatherNd", part, indices), update_is));
}

/* ---- through references ---- */

#define REF_ND(types, locking)                                                                       \
    .sig = "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",                       \
    .attrs = "T: " types "; Tindices: {int32, int64}; use_locking: bool = " locking,                 \
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = nd_shape

MR_OP(ScatterNdUpdate, .doc = "replaces slices of a variable", REF_ND("type", "true"),
    .kernels = MR_KERNELS(MR_CPU_ANY(nd_update)),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[[2], [0]], [7, 8] -> [8, 2, 7]",
                            "[[1, 2], [3, 4]], int64[[1, 0]], [0] -> [[1, 2], [0, 4]]",
                            "[[1, 2], [3, 4]], int32[[1], [1]], [[0, 0], [5, 6]] -> [[1, 2], [5, 6]]",
                            "T=string: [\"a\", \"b\"], int32[[1]], [\"c\"] -> [\"a\", \"c\"]",
                            "shape(0,2), int32 shape(0,1), shape(0,2) -> shape(0,2)",
                            "[1, 2], int32[[2]], [7] -> !INVALID_ARGUMENT indices[0] = [2] does not index into shape [2]",
                            "shape(0), int32[[0]], [7] -> !INVALID_ARGUMENT Indices and updates specified for empty "
                            "output shape",
                            "[1, 2], int32[[1]], [7, 8] -> !INVALID_ARGUMENT The outer 1 dimensions of "
                            "indices.shape=[1,1] must match "
                            "the outer 1 dimensions of updates.shape=[2]: Dimension 0 in both shapes must be equal, "
                            "but are 1 and 2",
                            "[[1, 2]], int32[[0]], [[7]] -> !INVALID_ARGUMENT The inner 1 dimensions of "
                            "input.shape=[1,2] must match "
                            "the inner 1 dimensions of updates.shape=[1,1]: Dimension 0 in both shapes must be equal, "
                            "but are 2 and 1"));
MR_OP(ScatterNdAdd, .doc = "adds to slices of a variable", REF_ND("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_add, MR_NUMBERS) MR_CPU_ONE(nd_add, MR_CODES)),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[[2], [0], [2]], [1, 2, 3] -> [3, 2, 7]",
                            "T=qint8: [1, 2], int64[[0]], [-3] -> [-2, 2]"));
MR_OP(ScatterNdSub, .doc = "subtracts from slices of a variable", REF_ND("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_sub, MR_NUMBERS) MR_CPU_ONE(nd_sub, MR_CODES)),
    .examples = MR_EXAMPLES("[[5, 6], [7, 8]], int32[[1, 1], [0, 0]], [1, 2] -> [[3, 6], [7, 7]]"));
MR_OP(ScatterNdMin, .doc = "the smaller of slices of a variable and the updates", REF_ND("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_min, MR_REALS) MR_CPU_ONE(nd_min, MR_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[[2], [0]], [1, 9] -> [5, 6, 1]"));
MR_OP(ScatterNdMax, .doc = "the larger of slices of a variable and the updates", REF_ND("numbertype", "false"),
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_max, MR_REALS) MR_CPU_ONE(nd_max, MR_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[[2], [0]], [1, 9] -> [9, 6, 7]"));

/* ---- through handles ---- */

#define RESOURCE_ND                                                                                  \
    .sig = "ref: resource, indices: Tindices, updates: T ->",                                        \
    .attrs = "T: type; Tindices: {int32, int64}; use_locking: bool = true",                          \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = nd_shape
#define STEPS "v = VarHandleOp dtype=$T shape=[3]; AssignVariableOp: v, [1, 2, 3]; "
#define BOOLS "v = VarHandleOp dtype=bool shape=[2]; AssignVariableOp: v, bool[true, false]; T=bool: v, int32[[1]], [true] ->"
#define STRINGS \
    "v = VarHandleOp dtype=string shape=[2]; AssignVariableOp: v, string[\"a\", \"b\"]; T=string: v, int32[[1]], [\"c\"] ->"
MR_OP(ResourceScatterNdUpdate, .doc = "replaces slices of a variable", RESOURCE_ND,
    .kernels = MR_KERNELS(MR_CPU_ANY(nd_update)),
    .examples = MR_EXAMPLES(STEPS ": v, int32[[2], [0]], [7, 8] ->", STRINGS, BOOLS,
                            STEPS ": v, int64[[3]], [7] -> !INVALID_ARGUMENT indices[0] = [3] does not index into shape [3]",
                            STEPS ": v, int32[[0, 1]], [7] -> !INVALID_ARGUMENT Inner dimensions of output shape "
                                  "must match"));
MR_OP(ResourceScatterNdAdd, .doc = "adds to slices of a variable", RESOURCE_ND,
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_add, MR_PLAIN) {"CPU", MR_STRING, nd_add},),
    .examples = MR_EXAMPLES(STEPS ": v, int32[[2], [0]], [7, 8] ->", STRINGS, BOOLS));
MR_OP(ResourceScatterNdSub, .doc = "subtracts from slices of a variable", RESOURCE_ND,
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_sub, MR_NUMBERS) MR_CPU_ONE(nd_sub, MR_ALL_CODES)),
    .examples = MR_EXAMPLES(STEPS ": v, int32[[2], [0]], [3, 1] ->"));
MR_OP(ResourceScatterNdMin, .doc = "the smaller of slices of a variable and the updates", RESOURCE_ND,
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_min, MR_REALS) MR_CPU_ONE(nd_min, MR_ALL_CODES)),
    .examples = MR_EXAMPLES(STEPS ": v, int32[[2], [0]], [7, 8] ->"));
MR_OP(ResourceScatterNdMax, .doc = "the larger of slices of a variable and the updates", RESOURCE_ND,
    .kernels = MR_KERNELS(MR_CPU_ONE(nd_max, MR_REALS) MR_CPU_ONE(nd_max, MR_ALL_CODES)),
    .examples = MR_EXAMPLES(STEPS ": v, int32[[2], [0]], [7, 8] ->"));

/* ---- tensors ---- */

#define TENSOR_ND(index_types)                                                                       \
    .sig = "tensor: T, indices: Tindices, updates: T -> output: T",                                  \
    .attrs = "T: type; Tindices: {" index_types "}", .shape = nd_shape

MR_OP(TensorScatterUpdate, .doc = "the tensor with slices replaced", TENSOR_ND("int16, int32, int64, uint16"),
    .grad = update_backward,
    .kernels = MR_KERNELS(MR_CPU_ANY(tensor_update)),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[[2], [0]], [7, 8] -> [8, 2, 7]",
                            "[[1, 2], [3, 4]], int64[[1], [0]], [[5, 6], [7, 8]] -> [[7, 8], [5, 6]]",
                            "[1, 2], int16[[1]], [0] -> [1, 0]", "[1, 2], uint16[[1]], [0] -> [1, 0]",
                            "[\"a\", \"b\"], int32[[0]], [\"c\"] -> [\"c\", \"b\"]",
                            "[1, 2], int32 shape(0,1), shape(0) -> [1, 2]",
                            "[1, 2], int32[[-1]], [7] -> !INVALID_ARGUMENT indices[0] = [-1] does not index into shape [2]",
                            "1, int32[[0]], [7] -> !INVALID_ARGUMENT at least rank 1"));
MR_OP(TensorScatterAdd, .doc = "the tensor with the updates added to slices", TENSOR_ND("int32, int64"),
    .grad = add_backward,
    .kernels = MR_KERNELS(MR_CPU_ONE(tensor_add, MR_PLAIN) {"CPU", MR_STRING, tensor_add},),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[[2], [0], [2]], [1, 2, 3] -> [3, 2, 7]",
                            "[[1, 2], [3, 4]], int64[[1, 0]], [2] -> [[1, 2], [5, 4]]",
                            "[true, false], int32[[1], [0]], [true, false] -> [true, true]",
                            "[\"a\", \"b\"], int32[[0]], [\"c\"] -> [\"ac\", \"b\"]",
                            "[1, 2], int32[[1]], [7, 8] -> !INVALID_ARGUMENT The outer 1 dimensions of "
                            "indices.shape=[1,1] must match"));
MR_OP(TensorScatterSub, .doc = "the tensor with the updates subtracted from slices", TENSOR_ND("int32, int64"),
    .grad = sub_backward,
    .kernels = MR_KERNELS(MR_CPU_ONE(tensor_sub, MR_NUMBERS) MR_CPU_ONE(tensor_sub, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[[2], [0], [2]], [1, 2, 3] -> [3, 6, 3]",
                            "[[5, 6], [7, 8]], int64[[0]], [[1, 2]] -> [[4, 4], [7, 8]]"));
MR_OP(TensorScatterMin, .doc = "the tensor, slices being the smaller of it and the updates", TENSOR_ND("int32, int64"),
    .grad = extreme_backward,
    .kernels = MR_KERNELS(MR_CPU_ONE(tensor_min, MR_REALS) MR_CPU_ONE(tensor_min, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[[2], [0]], [1, 9] -> [5, 6, 1]",
                            "[5, 6], int64[[0], [0]], [4, 3] -> [3, 6]", "nograd: [1], int32[[0]], [nan] -> [nan]"));
MR_OP(TensorScatterMax, .doc = "the tensor, slices being the larger of it and the updates", TENSOR_ND("int32, int64"),
    .grad = extreme_backward,
    .kernels = MR_KERNELS(MR_CPU_ONE(tensor_max, MR_REALS) MR_CPU_ONE(tensor_max, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[5, 6, 7], int32[[2], [0]], [1, 9] -> [9, 6, 7]", "[5, 6], int64[[0], [0]], [7, 8] -> [8, 6]"));

MR_OP(ScatterNdNonAliasingAdd, .doc = "the input with the updates added to slices",
    .sig = "input: T, indices: Tindices, updates: T -> output: T",
    .attrs = "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, uint16, "
             "complex128, half, uint32, uint64, bool}; Tindices: {int32, int64}",
    .shape = nd_shape, .grad = add_backward,
    .kernels = MR_KERNELS(MR_CPU_ONE(tensor_add, MR_NUMBERS) MR_CPU_ONE(tensor_add, MR_CODES) {"CPU", MR_BOOL, tensor_add},),
    .examples = MR_EXAMPLES("[1, 2, 3], int32[[2], [0], [2]], [1, 2, 3] -> [3, 2, 7]",
                            "[false, false], int64[[1]], [true] -> [false, true]"));

/* ---- ResourceGatherNd ---- */

static mr_status *gather_nd_shape(mr_infer *c)
{
    const mr_pshape *t = NULL, *indices = NULL;
    MR_TRY(mr_infer_handle_type(c, 0, "dtype"));
    t = mr_infer_variable(c, 0);
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &indices));
    int64_t k = indices->rank < 0 ? -1 : mr_infer_dim(indices, -1);
    if (t->rank < 0 || k < 0)
        return NULL;
    if (k > t->rank)
        return mr_invalid("indices.shape[-1] must be <= params.rank, but saw indices shape: %s and "
                          "params shape: %s",
                          MR_PSHAPE_TEXT(indices), MR_PSHAPE_TEXT(t));
    c->out[0] = mr_infer_concat(c, mr_infer_sub(c, indices, 0, -1),
                                mr_infer_sub(c, t, (int)k, MR_MAX_RANK));
    return NULL;
}

static mr_status *gather_from(mr_run *r, const mr_tensor *params)
{
    const mr_tensor *indices = mr_in(r, 1);
    mr_shape shape;
    mr_tensor *out;
    int64_t *rows;
    if (params->rank < 1 || indices->rank < 1 || indices->dims[indices->rank - 1] > params->rank)
        return mr_invalid(
            "index innermost dimension length must be <= params rank; saw indices %s, params %s",
            MR_TENSOR_SHAPE(indices), MR_TENSOR_SHAPE(params));
    int k = (int)indices->dims[indices->rank - 1];
    mr_shape_set(&shape, indices->rank - 1, indices->dims);
    for (int d = k; d < params->rank; d++)
        MR_TRY(mr_shape_push(&shape, params->dims[d]));
    int64_t n = mr_dims_product(indices->dims, 0, indices->rank - 1);
    if (n > 0 && params->n == 0 && k > 0)
        return mr_invalid("Requested more than 0 entries, but params is empty. Params shape: %s",
                          MR_TENSOR_SHAPE(params));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(mr_index_load_nd(r, indices, params->rank, params->dims, "param shape", &rows));
    mr_status *st = mr_gather_rows(
        r, &(mr_gather){out, params, mr_dims_product(params->dims, k, params->rank), n, rows}, 1, 0,
        1);
    mr_scratch_free(rows);
    return st;
}

static mr_status *resource_gather_nd(mr_run *r)
{
    mr_variable *v;
    mr_status *st;
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    mr_tensor *params = mr_tensor_ref(v->t); /* a snapshot: a writer copies the value while this reference exists */
    mr_unlock(&v->mu);
    if (!params)
        st = mr_error(MR_FAILED_PRECONDITION, "Could not find variable %s: it has no value",
                      v->name);
    else if (params->dtype != mr_out_dtype(r, 0))
        st = mr_invalid("the variable is of type %s, the output of type %s", mr_dtype_name(params->dtype),
                        mr_dtype_name(mr_out_dtype(r, 0)));
    else
        st = gather_from(r, params);
    mr_tensor_unref(params);
    mr_variable_unref(v);
    return st;
}

/* Tuples of one index select rows, so the gradient can stay sparse. */
static void gather_nd_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out indices = mr_xi(g, 1), dy = mr_dyi(g, 0);
    const mr_pshape *is = mr_out_shape(indices);
    if (is->rank == 2 && is->dims[1] == 1) {
        mr_out flat = mr_emit(s, "Reshape", indices, mr_const_vec_i32(s, 1, (int32_t[]){-1}));
        mr_dxi_sparse(g, 0, dy, flat, mr_emit(s, "VariableShape", mr_xi(g, 0)));
        return;
    }
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(indices)));
    mr_out shape = mr_emit_with(s, "VariableShape", MR_ATTRS({"out_type", type}), mr_xi(g, 0));
    mr_dxi(g, 0, mr_emit(s, "ScatterNd", indices, dy, shape));
}

MR_OP(ResourceGatherNd,
    .doc      = "slices of a variable by tuples of indices",
    .sig      = "resource: resource, indices: Tindices -> output: dtype",
    .attrs    = "dtype: type; Tindices: {int32, int64}",
    .flags    = MR_STATEFUL,
    .key      = "dtype",
    .shape    = gather_nd_shape,
    .grad     = gather_nd_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(resource_gather_nd)),
    .examples = MR_EXAMPLES(
        "v = VarHandleOp dtype=$T shape=[3]; AssignVariableOp: v, [1, 2, 3]; : v, int32[[2], [0]] -> [3, 1]",
        "v = VarHandleOp dtype=$T shape=[2,2]; AssignVariableOp: v, [[1, 2], [3, 4]]; : v, int64[[1, 0]] -> [3]",
        "v = VarHandleOp dtype=bool shape=[2]; AssignVariableOp: v, bool[true, false]; dtype=bool: v, int32[[1]] -> [false]",
        "v = VarHandleOp dtype=string shape=[2]; AssignVariableOp: v, string[\"a\", \"b\"]; dtype=string: v, int32[1] -> \"b\"",
        "v = VarHandleOp dtype=float shape=[2]; AssignVariableOp: v, float[1, 2]; "
        "dtype=float: v, int32[[2]] -> !INVALID_ARGUMENT indices[0] = [2] does not index into param shape [2]"));
