/* graph/interpreter_ops_fixture.c -- the ops of interpreter_fixture.h: definitions, shapes and gradients.  No
 * kernels. */
#include "graph/interpreter_fixture.h"
#include "tests/harness/test.h"

/* ---- shapes ---- */
static mr_status *const_shape(mr_infer *c)
{
    mr_tensor *t;
    MR_TRY(mr_node_get_tensor(c->node, "value", &t));
    c->out[0] = mr_pshape_of(c->arena, t->rank, t->dims);
    mr_tensor_unref(t);
    return NULL;
}

static mr_status *shape_shape(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        mr_infer_out_vector(c, i, c->in[i]->rank);
    return NULL;
}

static mr_status *enter_shape(mr_infer *c)
{
    bool constant;
    MR_TRY(mr_node_get_bool(c->node, "is_constant", &constant));
    if (constant)
        c->out[0] = c->in[0];
    return NULL;
}

static mr_status *merge_shape(mr_infer *c)
{
    c->out[0] = c->in[0];
    for (int i = 1; i < c->n_in; i++)
        c->out[0] = mr_pshape_relax(c->arena, c->out[0], c->in[i]);
    mr_infer_out_scalar(c, 1);
    return NULL;
}

static mr_status *reshape_shape(mr_infer *c) { return mr_infer_shape_value(c, 1, &c->out[0]); }

static mr_status *pack_shape(mr_infer *c)
{
    const mr_pshape *s = c->in[0];
    for (int i = 1; i < c->n_in; i++)
        MR_TRY(mr_infer_merge(c, s, c->in[i], &s));
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, c->n_in), s);
    return NULL;
}

static mr_status *handle_shape(mr_infer *c)
{
    mr_dtype t;
    const mr_pshape *s;
    mr_handle_info *h = mr_arena_new(c->arena, mr_handle_info);
    struct mr_handle_part *part = mr_arena_new(c->arena, struct mr_handle_part);
    MR_TRY(mr_node_get_type(c->node, "dtype", &t));
    MR_TRY(mr_node_get_shape(c->node, "shape", &s));
    *part = (struct mr_handle_part){t, s};
    *h = (mr_handle_info){1, part};
    c->out_handles[0] = h;
    mr_infer_out_scalar(c, 0);
    return NULL;
}

static mr_status *read_shape(mr_infer *c)
{
    if (c->in_handles[0])
        c->out[0] = c->in_handles[0]->parts[0].shape;
    return NULL;
}

static mr_status *matmul_shape(mr_infer *c)
{
    const mr_pshape *a, *b;
    int64_t inner;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &a));
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(a, 1), mr_infer_dim(b, 0), &inner));
    c->out[0] = mr_pshape_matrix(c->arena, mr_infer_dim(a, 0), mr_infer_dim(b, 1));
    return NULL;
}

/* ---- gradients ---- */
static void add_grad(mr_grad *g) { mr_dx_broadcast(g, mr_dyi(g, 0), mr_dyi(g, 0)); }

static void sub_grad(mr_grad *g)
{
    mr_dx_broadcast(g, mr_dyi(g, 0), mr_emit(g->s, "Neg", mr_dyi(g, 0)));
}

static void mul_grad(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dx_broadcast(g, mr_emit(g->s, "Mul", dy, mr_xi(g, 1)),
                    mr_emit(g->s, "Mul", mr_xi(g, 0), dy));
}

static void neg_grad(mr_grad *g) { mr_dxi(g, 0, mr_emit(g->s, "Neg", mr_dyi(g, 0))); }

static void tanh_grad(mr_grad *g)
{
    mr_out y = mr_yi(g, 0), one = mr_scalar_like(g, 1, y);
    mr_dxi(
        g, 0,
        mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_emit(g->s, "Sub", one, mr_emit(g->s, "Mul", y, y))));
}

static void sum_grad(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_ones_like(g, mr_xi(g, 0))));
}

static void addn_grad(mr_grad *g)
{
    for (int i = 0; i < g->node->n_in; i++)
        mr_dxi(g, i, mr_dyi(g, 0));
}

static void gather_grad(mr_grad *g)
{
    mr_dxi_sparse(g, 0, mr_dyi(g, 0), mr_xi(g, 1), mr_shape_of(g, mr_xi(g, 0)));
}

static void read_grad(mr_grad *g) { mr_dxi(g, 0, mr_dyi(g, 0)); }

/* Append(x, y): concatenates two vectors; Part takes a piece.  For shapes that change. */
static void append_grad(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), first = mr_shape_of(g, mr_xi(g, 0)),
           second = mr_shape_of(g, mr_xi(g, 1));
    mr_dxi(g, 0, mr_emit(g->s, "Part", dy, mr_const_vec_i32(g->s, 1, (const int32_t[]){0}), first));
    mr_dxi(g, 1, mr_emit(g->s, "Part", dy, first, second));
}

/* Two outputs, of which either may get no gradient. */
static void both_grad(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Add", mr_dyi(g, 0), mr_emit(g->s, "Neg", mr_dyi(g, 1))));
}

#define BINARY(Name, gradient, types)                                        \
    {                                                                        \
        .name = #Name, .sig = "x: T, y: T -> z: " types, .attrs = "T: type", \
        .shape = mr_shape_broadcast2, gradient                               \
    }
#define FLOW MR_NO_FOLD

static const mr_op ops[] = {
    {.name = "Const",
     .sig = "-> output: dtype",
     .attrs = "value: tensor; dtype: type",
     .shape = const_shape,
     .flags = MR_NO_GRADIENT},
    {.name = "Placeholder",
     .sig = "-> output: dtype",
     .attrs = "dtype: type; shape: shape = ?",
     .shape = mr_shape_from_attr},
    {.name = "Identity",
     .sig = "input: T -> output: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .grad = mr_grad_identity},
    {.name = "StopGradient",
     .sig = "input: T -> output: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .flags = MR_NO_GRADIENT},
    {.name = "NoGrad", .sig = "input: T -> output: T", .attrs = "T: type", .shape = mr_shape_same},
    BINARY(Add, .grad = add_grad, "T"),
    BINARY(AddV2, .grad = add_grad, "T"),
    BINARY(Sub, .grad = sub_grad, "T"),
    BINARY(Mul, .grad = mul_grad, "T"),
    BINARY(Less, .flags = MR_NO_GRADIENT, "bool"),
    BINARY(GreaterEqual, .flags = MR_NO_GRADIENT, "bool"),
    BINARY(Greater, .flags = MR_NO_GRADIENT, "bool"),
    BINARY(Equal, .flags = MR_NO_GRADIENT, "bool"),
    {.name = "Neg",
     .sig = "x: T -> y: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .grad = neg_grad},
    {.name = "Tanh",
     .sig = "x: T -> y: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .grad = tanh_grad},
    {.name = "Both",
     .sig = "x: T -> y: T, z: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .grad = both_grad},
    {.name = "AddN",
     .sig = "inputs: N * T -> sum: T",
     .attrs = "N: int >= 1; T: type",
     .shape = mr_shape_merge_all,
     .grad = addn_grad},
    {.name = "ZerosLike",
     .sig = "x: T -> y: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .flags = MR_NO_GRADIENT},
    {.name = "OnesLike",
     .sig = "x: T -> y: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .flags = MR_NO_GRADIENT},
    {.name = "Fill",
     .sig = "dims: int32, value: T -> output: T",
     .attrs = "T: type",
     .shape = mr_shape_from_input0,
     .flags = MR_NO_GRADIENT},
    {.name = "Shape",
     .sig = "input: T -> output: out_type",
     .attrs = "T: type; out_type: {int32, int64} = DT_INT32",
     .shape = shape_shape,
     .flags = MR_NO_GRADIENT},
    {.name = "Rank",
     .sig = "input: T -> output: int32",
     .attrs = "T: type",
     .shape = mr_shape_scalar,
     .flags = MR_NO_GRADIENT},
    {.name = "Size",
     .sig = "input: T -> output: int32",
     .attrs = "T: type",
     .shape = mr_shape_scalar,
     .flags = MR_NO_GRADIENT},
    {.name = "Cast",
     .sig = "x: SrcT -> y: DstT",
     .attrs = "SrcT: type; DstT: type",
     .shape = mr_shape_same,
     .flags = MR_NO_GRADIENT},
    {.name = "Sum",
     .sig = "input: T, reduction_indices: int32 -> output: T",
     .attrs = "keep_dims: bool = false; T: type",
     .shape = mr_shape_reduction,
     .grad = sum_grad},
    {.name = "Reshape",
     .sig = "tensor: T, shape: int32 -> output: T",
     .attrs = "T: type",
     .shape = reshape_shape,
     .grad = mr_grad_zero},
    {.name = "MatMul",
     .sig = "a: T, b: T -> product: T",
     .attrs = "T: type",
     .shape = matmul_shape},
    {.name = "Pack",
     .sig = "values: N * T -> output: T",
     .attrs = "N: int >= 1; T: type; axis: int = 0",
     .shape = pack_shape},
    {.name = "StridedSlice",
     .sig = "input: T, begin: int32, end: int32, strides: int32 -> output: T",
     .attrs = "T: type; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "
              "new_axis_mask: int = 0; "
              "shrink_axis_mask: int = 0"},
    {.name = "BroadcastGradientArgs",
     .sig = "s0: int32, s1: int32 -> r0: int32, r1: int32",
     .flags = MR_NO_GRADIENT},
    {.name = "ConcatV2",
     .sig = "values: N * T, axis: int32 -> output: T",
     .attrs = "N: int >= 2; T: type"},
    {.name = "UnsortedSegmentSum",
     .sig = "data: T, segment_ids: Tindices, num_segments: int32 -> output: T",
     .attrs = "T: type; Tindices: type"},
    {.name = "Gather",
     .sig = "params: T, indices: Tindices -> output: T",
     .attrs = "T: type; Tindices: type",
     .grad = gather_grad},
    {.name = "Append", .sig = "x: T, y: T -> z: T", .attrs = "T: type", .grad = append_grad},
    {.name = "Part", .sig = "x: T, begin: int32, size: int32 -> y: T", .attrs = "T: type"},
    {.name = "Switch",
     .sig = "data: T, pred: bool -> output_false: T, output_true: T",
     .attrs = "T: type",
     .shape = mr_shape_same,
     .flags = FLOW},
    {.name = "_SwitchN",
     .sig = "data: T, output_index: int32 -> outputs: num_outs * T",
     .attrs = "num_outs: int >= 1; T: type",
     .shape = mr_shape_same,
     .flags = FLOW},
    {.name = "Merge",
     .sig = "inputs: N * T -> output: T, value_index: int32",
     .attrs = "N: int >= 1; T: type",
     .shape = merge_shape,
     .flags = FLOW},
    {.name = "Enter",
     .sig = "data: T -> output: T",
     .attrs =
         "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
     .shape = enter_shape,
     .flags = FLOW},
    {.name = "Exit", .sig = "data: T -> output: T", .attrs = "T: type", .flags = FLOW},
    {.name = "NextIteration", .sig = "data: T -> output: T", .attrs = "T: type", .flags = FLOW},
    {.name = "LoopCond",
     .sig = "input: bool -> output: bool",
     .flags = FLOW | MR_NO_GRADIENT,
     .shape = mr_shape_scalar},
    {.name = "ControlTrigger", .sig = "->", .flags = FLOW},
    {.name = "NoOp", .sig = "->"},
    {.name = "StackV2",
     .sig = "max_size: int32 -> handle: resource",
     .attrs = "elem_type: type; stack_name: string = ''",
     .flags = MR_STATEFUL | MR_NO_GRADIENT,
     .shape = mr_shape_scalar},
    {.name = "StackPushV2",
     .sig = "handle: resource, elem: T -> output: T",
     .attrs = "T: type; swap_memory: bool = false",
     .flags = MR_STATEFUL},
    {.name = "StackPopV2",
     .sig = "handle: resource -> elem: elem_type",
     .attrs = "elem_type: type",
     .flags = MR_STATEFUL | MR_NO_GRADIENT},
    {.name = "VarHandleOp",
     .sig = "-> resource: resource",
     .attrs = "dtype: type; shape: shape",
     .flags = MR_STATEFUL | MR_NO_GRADIENT,
     .shape = handle_shape},
    {.name = "ReadVariableOp",
     .sig = "resource: resource -> value: dtype",
     .attrs = "dtype: type",
     .flags = MR_STATEFUL,
     .shape = read_shape,
     .grad = read_grad},
    {.name = "VariableShape",
     .sig = "input: resource -> output: int32",
     .flags = MR_STATEFUL | MR_NO_GRADIENT},
    {.name = "_Arg",
     .sig = "-> output: T",
     .attrs = "T: type; index: int >= 0",
     .flags = MR_STATEFUL},
    {.name = "_Retval",
     .sig = "input: T ->",
     .attrs = "T: type; index: int >= 0",
     .flags = MR_STATEFUL},
    {.name = "If",
     .sig = "cond: Tcond, input: Tin -> output: Tout",
     .attrs = "Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; "
              "else_branch: func"},
    {.name = "PartitionedCall",
     .sig = "args: Tin -> output: Tout",
     .attrs = "Tin: list(type) >= 0; Tout: list(type) >= 0; f: func"},
};

void mr_mini_register(void)
{
    static bool done;
    for (int i = 0; i < MR_COUNT(ops) && !done; i++)
        MR_CHECK_OK(mr_op_register(&ops[i]));
    done = true;
}
