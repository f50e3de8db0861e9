/* ops/state/strided_slice_assign.c -- x[a:b:c] = value, in a variable or in a copy of a tensor:
 * StridedSliceAssign, ResourceStridedSliceAssign, TensorStridedSliceUpdate. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/strided_slice.h"
#include "ops/state/update.h"

#define MASKS "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"

/* Parses the slice and checks the value.  An empty slice accepts a value of any shape, as in TensorFlow. */
static mr_status *parse_slice(const mr_run *r, const mr_tensor *t, mr_slicing *s)
{
    const mr_tensor *value = mr_in(r, 4);
    bool empty = false;
    if (t->dtype != value->dtype)
        return mr_invalid("l-value dtype %s does not match r-value dtype %s",
                          mr_dtype_name(t->dtype), mr_dtype_name(value->dtype));
    MR_TRY(mr_slicing_parse(r->node, mr_in(r, 1), mr_in(r, 2), mr_in(r, 3), t->rank, t->dims, s));
    for (int d = 0; d < s->rank; d++)
        empty |= s->ranges[d].size == 0;
    if (empty || mr_shape_eq(value->rank, value->dims, s->shape.rank, s->shape.dims))
        return NULL;
    return mr_error(MR_UNIMPLEMENTED,
                    "sliced l-value shape %s does not match r-value shape %s. Automatic "
                    "broadcasting not yet implemented.",
                    MR_SHAPE_TEXT(s->shape.rank, s->shape.dims), MR_TENSOR_SHAPE(value));
}

static mr_status *write_slice(mr_run *r, const mr_slicing *s, mr_tensor *t)
{
    int64_t strides[MR_MAX_RANK];
    mr_blit b;
    mr_dims_strides(t->rank, t->dims, strides);
    int64_t start = mr_slicing_walk(s, strides, false, &b);
    return b.empty ? NULL : mr_blit_copy(r, &b, t, start, mr_in(r, 4), 0);
}

static mr_status *assign_locked(mr_run *r, mr_variable *v, mr_update_kind kind) MR_REQUIRES(v->mu)
{
    (void)kind; /* it always sets */
    mr_slicing s;
    mr_tensor *t;
    if (!v->t)
        return mr_error(MR_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                        v->name);
    MR_TRY(parse_slice(r, v->t, &s));
    MR_TRY(mr_variable_writable(v, mr_run_allocator(r), &t));
    return write_slice(r, &s, t);
}

static mr_status *assign_slice(mr_run *r) { return mr_update_variable(r, MR_UPDATE_SET, assign_locked); }

static mr_status *update_slice(mr_run *r)
{
    mr_slicing s;
    mr_tensor *t;
    MR_TRY(parse_slice(r, mr_in(r, 0), &s));
    MR_TRY(mr_take_over(r, 0, 0, &t));
    return write_slice(r, &s, t);
}

/* The result, if any, has the shape of the input; begin, end and strides are vectors of the same length. */
static mr_status *assign_shape(mr_infer *c)
{
    const mr_pshape *s = c->in[1], *ignored;
    for (int i = 2; i < 4; i++)
        MR_TRY(mr_infer_merge(c, s, c->in[i], &s));
    MR_TRY(mr_infer_rank(c, s, 1, &ignored));
    if (c->n_out > 0)
        c->out[0] = c->in[0];
    return NULL;
}

/* The gradient of the value, from that of the slice: in the value's shape; zeros if the slice was empty and
 * accepted a value of another shape. */
static mr_out as_value(mr_grad *g, mr_out d)
{
    mr_scope *s = g->s;
    mr_out value = mr_xi(g, 4), zero = mr_const_i32(s, 0),
           all = mr_const_vec_i32(s, 1, (int32_t[]){-1});
    const mr_pshape *a = mr_out_shape(d), *b = mr_out_shape(value);
    if (mr_pshape_full(a) && mr_pshape_eq(a, b))
        return d;
    mr_out missing = mr_emit(s, "Sub", mr_emit(s, "Size", value), mr_emit(s, "Size", d));
    mr_out pads = mr_emit(s, "Reshape", mr_emit(s, "Pack", zero, missing),
                          mr_const_vec_i32(s, 2, (int32_t[]){1, 2}));
    return mr_emit(s, "Reshape", mr_emit(s, "Pad", mr_emit(s, "Reshape", d, all), pads),
                   mr_shape_of(g, value));
}

static void update_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), b = mr_xi(g, 1), e = mr_xi(g, 2), s = mr_xi(g, 3);
    mr_out zeros = mr_zeros_like(g, mr_xi(g, 4));
    mr_dxi(g, 0,
           mr_emit_like(g, "TensorStridedSliceUpdate", MASKS, (mr_out[]){dy, b, e, s, zeros}, 5));
    mr_dxi(g, 4, as_value(g, mr_emit_like(g, "StridedSlice", MASKS, (mr_out[]){dy, b, e, s}, 4)));
}

#define SLICE_ATTRS                                                                             \
    "T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; "                  \
    "ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0"

MR_OP(StridedSliceAssign,
    .doc      = "replaces var[begin:end:strides]",
    .sig      = "ref: Ref(T), begin: Index, end: Index, strides: Index, value: T -> output_ref: Ref(T)",
    .attrs    = SLICE_ATTRS,
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = assign_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(assign_slice)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4], int32[1], int32[3], int32[1], [7, 8] -> [1, 7, 8, 4]",
        "[1, 2, 3, 4], int64[3], int64[0], int64[-2], [7, 8] -> [1, 8, 3, 7]",
        "begin_mask=1 end_mask=1 shrink_axis_mask=2: [[1, 2], [3, 4]], int32[0, 1], int32[0, 0], int32[1, 1], [7, 8] -> "
        "[[1, 7], [3, 8]]",
        "T=string: [\"a\", \"b\"], int32[1], int32[2], int32[1], [\"c\"] -> [\"a\", \"c\"]",
        "[1, 2], int32[1], int32[1], int32[1], shape(0) -> [1, 2]",
        "[1, 2], int32[0], int32[2], int32[1], 7 -> !UNIMPLEMENTED sliced l-value shape [2] does not match r-value shape []",
        "[1, 2], int32[0], int32[2], int32[0], [1, 2] -> !INVALID_ARGUMENT strides[0] must be non-zero"));

MR_OP(ResourceStridedSliceAssign,
    .doc      = "replaces var[begin:end:strides]",
    .sig      = "ref: resource, begin: Index, end: Index, strides: Index, value: T ->",
    .attrs    = SLICE_ATTRS,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = assign_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(assign_slice)),
    .examples = MR_EXAMPLES(
        "v = VarHandleOp dtype=$T shape=[3]; AssignVariableOp: v, [1, 2, 3]; : v, int32[1], int32[3], int32[1], [7, 8] ->",
        "v = VarHandleOp dtype=string shape=[1]; AssignVariableOp: v, string[\"a\"]; "
        "T=string: v, int64[0], int64[1], int64[1], [\"b\"] ->",
        "v = VarHandleOp dtype=bool shape=[1]; AssignVariableOp: v, bool[true]; T=bool: v, int64[0], int64[1], int64[1], [false] ->",
        "v = VarHandleOp dtype=float shape=[1]; T=float: v, int32[0], int32[1], int32[1], [1] -> !NOT_FOUND does not exist"));

MR_OP(TensorStridedSliceUpdate,
    .doc      = "the input with input[begin:end:strides] replaced",
    .sig      = "input: T, begin: Index, end: Index, strides: Index, value: T -> output: T",
    .attrs    = SLICE_ATTRS,
    .shape    = assign_shape,
    .grad     = update_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(update_slice)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4], int32[1], int32[3], int32[1], [7, 8] -> [1, 7, 8, 4]",
        "new_axis_mask=1: [1, 2], int64[0, 1], int64[0, 2], int64[1, 1], [[7]] -> [1, 7]",
        "ellipsis_mask=1: [[1, 2], [3, 4]], int32[0, 1], int32[0, 2], int32[1, 1], [[7], [8]] -> [[1, 7], [3, 8]]",
        "[\"a\", \"b\"], int32[0], int32[1], int32[1], [\"c\"] -> [\"c\", \"b\"]",
        "[1, 2], int32[1], int32[1], int32[1], [7] -> [1, 2]",
        "[1, 2], int32[0], int32[2], int32[1], [7] -> !UNIMPLEMENTED sliced l-value shape [2] does not match r-value shape [1]"));
