/* ops/collective/collective_ops.c -- the collective ops.
 *
 * Three generations of ops define the members of a group in different ways: by attrs, by inputs, and by a
 * communicator with an assignment of its members to parts. All of them become a call of run/collective.h. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/collective.h"

typedef struct state {
    mr_collective_call call; /* the fields that attrs define */
    bool by_attrs;           /* the group is defined by attrs, else by inputs from `first` on */
    int first;
    const mr_pshape *shape;  /* shape of the result as declared by attrs; NULL: not declared */
} state;

/* ---- attrs ---- */

static mr_status *read_merge(const mr_node *n, const char *attr, mr_collective_call *c)
{
    static const char *const names[] = {"Add", "Mul", "Max", "Min"};
    mr_sv v;
    if (!mr_node_attr(n, attr))
        return NULL;
    MR_TRY(mr_node_get_str(n, attr, &v));
    for (int i = 0; i < MR_COUNT(names); i++)
        if (mr_sv_is(v, names[i]))
            c->merge = (mr_merge)i;
    return NULL;
}

static mr_status *init_common(mr_make *m, state *s, mr_collective_kind kind)
{
    const mr_node *n = m->node;
    const mr_attr *final = mr_node_attr(n, "final_op");
    mr_sv hint;
    float timeout = 0;
    s->call.kind = kind;
    s->call.rank = -1;
    MR_TRY(mr_node_get_type(n, "T", &s->call.type));
    MR_TRY(mr_node_get_float(n, "timeout_seconds", &timeout));
    s->call.timeout_s = timeout;
    MR_TRY(read_merge(n, "merge_op", &s->call));
    MR_TRY(read_merge(n, "reduction", &s->call));
    s->call.mean = final && mr_sv_is(final->s, "Div");
    MR_TRY(mr_node_get_str(n, "communication_hint", &hint));
    s->call.ring = mr_sv_is(hint, "ring");
    s->by_attrs = mr_node_attr(n, "group_size") != NULL;
    if (!s->by_attrs)
        return NULL;
    if (mr_node_attr(n, "shape"))
        MR_TRY(mr_node_get_shape(n, "shape", &s->shape));
    MR_TRY(mr_node_get_int(n, "group_size", &s->call.group_size));
    MR_TRY(mr_node_get_int(n, "group_key", &s->call.group_key));
    MR_TRY(mr_node_get_int(n, "instance_key", &s->call.instance_key));
    if (s->call.group_size <= 0)
        return mr_invalid("group_size must be positive integer but got %lld",
                          (long long)s->call.group_size);
    return NULL;
}

/* The inputs that define the group follow the tensor, if there is one. */
#define INIT(name, kind, first_)                                        \
    static mr_status *init_##name(mr_make *m, void *p)                  \
    {                                                                   \
        ((state *)p)->first = first_;                                   \
        return init_common(m, p, kind);                                 \
    }
INIT(reduce, MR_ALL_REDUCE, 1)
INIT(scatter, MR_REDUCE_SCATTER, 1)
INIT(gather, MR_GATHER, 1)
INIT(send, MR_BROADCAST, 1)
INIT(all_to_all, MR_ALL_TO_ALL, 1)
INIT(receive_v2, MR_BROADCAST, 0)

static mr_status *init_receive(mr_make *m, void *p)
{
    return init_common(m, p, MR_BROADCAST);
}

/* ---- calls ---- */

static mr_status *group_of(const mr_run *r, mr_collective_call *c)
{
    const state *s = r->state;
    *c = s->call;
    if (s->by_attrs)
        return NULL;
    MR_TRY(mr_in_scalar_int(r, s->first, "group_size", &c->group_size));
    MR_TRY(mr_in_scalar_int(r, s->first + 1, "group_key", &c->group_key));
    return mr_in_scalar_int(r, s->first + 2, "instance_key", &c->instance_key);
}

static void start_call(mr_run *r, mr_collective_call *c, mr_status *st)
{
    if (st) {
        mr_run_done(r, st);
        return;
    }
    mr_collective *how = mr_collective_of(r);
    how->start(how, r, c);
}

/* The declared shape of the node is that of the result, except for CollectiveGather: TensorFlow's front end
 * declares [0] there, and its kernel ignores it. */
static mr_status *check_declared(const mr_run *r, const mr_collective_call *c)
{
    const mr_pshape *want = c->kind == MR_GATHER ? NULL : ((state *)r->state)->shape;
    const mr_tensor *t = c->in;
    bool same = !want || want->rank < 0 || want->rank == t->rank;
    for (int d = 0; same && want && d < want->rank; d++)
        same = want->dims[d] < 0 || want->dims[d] == t->dims[d];
    return same ? NULL
                : mr_invalid("Declared shape of op %s does not match shape of input: %s and %s",
                             r->node->name, MR_PSHAPE_TEXT(want), MR_TENSOR_SHAPE(t));
}

static void run_with_input(mr_run *r)
{
    mr_collective_call c;
    mr_status *st = group_of(r, &c);
    c.in = mr_in(r, 0);
    if (!st)
        st = check_declared(r, &c);
    start_call(r, &c, st);
}

static void run_receive(mr_run *r)
{
    mr_collective_call c;
    mr_status *st = group_of(r, &c);
    c.in = NULL;
    start_call(r, &c, st);
}

/* ---- shapes ---- */

/* Checks three scalars from input `first` on. */
static mr_status *check_scalars(mr_infer *c, int first)
{
    const mr_pshape *ignored;
    for (int i = first; i < first + 3; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    return NULL;
}

static mr_status *same_v2(mr_infer *c)
{
    MR_TRY(check_scalars(c, 1));
    c->out[0] = c->in[0];
    return NULL;
}

/* The first dimension is multiplied or divided. */
static mr_status *unknown_rows(mr_infer *c)
{
    const mr_pshape *in;
    MR_TRY(check_scalars(c, 1));
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &in));
    if (in->rank >= 1)
        c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, -1),
                                    mr_infer_sub(c, in, 1, MR_MAX_RANK));
    return NULL;
}

/* The rows of all members; the declared shape is ignored. */
static mr_status *gather_shape(mr_infer *c)
{
    const mr_pshape *in;
    int64_t members, rows;
    MR_TRY(mr_node_get_int(c->node, "group_size", &members));
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &in));
    if (in->rank < 0)
        return NULL;
    if (in->dims[0] < 0 || members <= 0 || !mr_i64_mul(in->dims[0], members, &rows)) /* the kernel refuses it */
        rows = -1;
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, rows), mr_infer_sub(c, in, 1, MR_MAX_RANK));
    return NULL;
}

/* The result has the sender's shape, regardless of the declaration. */
static mr_status *receive_v2_shape(mr_infer *c) { return check_scalars(c, 0); }

/* ---- the ops ---- */

#define COMMON(kernel, make)                                                            \
    .flags = MR_STATEFUL | MR_DISTCOMM | MR_NO_GRADIENT, .key = "T",                      \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(kernel)), .state_bytes = sizeof(state), .init = make
#define NUMBERS "{bfloat16, float, half, double, int32, int64}"
#define OLD_NUMBERS "{float, half, double, int32, int64}"
#define MOVED "{bool, float, half, double, int32, int64}"
#define GROUP "group_size: int; group_key: int; instance_key: int; "
#define MERGES "merge_op: {'Min', 'Max', 'Mul', 'Add'}; final_op: {'Id', 'Div'}; "
#define HINT "communication_hint: string = 'auto'; timeout_seconds: float = 0"
#define TOKENS "Nordering_token: int >= 0 = 0"
#define IN_V2 "group_size: int32, group_key: int32, instance_key: int32"
#define ORDER ", ordering_token: Nordering_token * resource"
#define ONE "group_size=1 group_key=7 instance_key=1 "
#define ADD "merge_op=\"Add\" final_op=\"Id\" "
#define MEAN "merge_op=\"Add\" final_op=\"Div\" "

MR_OP(CollectiveReduce,
    .doc      = "the tensors of all members of a group merged into one, for each of them",
    .sig      = "input: T -> data: T",
    .attrs    = "T: " NUMBERS "; " GROUP MERGES "subdiv_offsets: list(int); wait_for: list(int) = []; " HINT,
    .shape    = mr_shape_same, COMMON(run_with_input, init_reduce),
    .examples = MR_EXAMPLES(
        ONE ADD "subdiv_offsets=[]: [1, 2] -> [1, 2]", ONE MEAN "subdiv_offsets=[]: [[3]] -> [[3]]",
        "group_size=0 group_key=7 instance_key=1 " ADD "subdiv_offsets=[]: [1] -> !INVALID_ARGUMENT "
        "group_size must be positive integer but got 0"));
MR_OP(CollectiveReduceV2,
    .doc      = "CollectiveReduce in a group that inputs tell",
    .sig      = "input: T, " IN_V2 ORDER " -> data: T",
    .attrs    = "T: " NUMBERS "; " MERGES HINT "; " TOKENS "; max_subdivs_per_device: int = -1",
    .shape    = same_v2, COMMON(run_with_input, init_reduce),
    .examples = MR_EXAMPLES(ADD "Nordering_token=0: [1, 2], 1, 7, 2, () -> [1, 2]",
                            MEAN "Nordering_token=0: shape(0), 1, 7, 3, () -> shape(0)",
                            ADD "Nordering_token=0: [1], -1, 7, 2, () -> !INVALID_ARGUMENT must be positive",
                            ADD "Nordering_token=0: [1], [1], 7, 2, () -> !INVALID_ARGUMENT must be rank 0"));
MR_OP(CollectiveReduceScatterV2,
    .doc      = "each member's part of what CollectiveReduceV2 gives",
    .sig      = "input: T, " IN_V2 ORDER " -> data: T",
    .attrs    = "T: " NUMBERS "; " MERGES HINT "; is_stateless: bool = false; " TOKENS
                "; max_subdivs_per_device: int = -1",
    .shape    = unknown_rows, COMMON(run_with_input, init_scatter),
    .examples = MR_EXAMPLES(ADD "Nordering_token=0: [1, 2], 1, 8, 2, () -> [1, 2]",
                            ADD "T=float Nordering_token=0: 1, 1, 8, 2, () -> !INVALID_ARGUMENT at least rank 1"));
MR_OP(CollectiveGather,
    .doc      = "the tensors of all members of a group, one behind the other",
    .sig      = "input: T -> data: T",
    .attrs    = "T: " OLD_NUMBERS "; " GROUP "shape: shape; " HINT,
    .shape    = gather_shape, COMMON(run_with_input, init_gather),
    .examples = MR_EXAMPLES(ONE "shape=[2]: [1, 2] -> [1, 2]", ONE "T=float shape=[0]: [1, 2] -> [1, 2]",
                            "T=float shape=[2] group_size=-1 group_key=7 instance_key=1: [1, 2] -> !INVALID_ARGUMENT "
                            "group_size must be positive",
                            ONE "T=float shape=?: 1 -> !INVALID_ARGUMENT at least rank 1"));
MR_OP(CollectiveGatherV2,
    .doc      = "CollectiveGather in a group that inputs tell",
    .sig      = "input: T, " IN_V2 ORDER " -> data: T",
    .attrs    = "T: " OLD_NUMBERS "; " HINT "; " TOKENS,
    .shape    = unknown_rows, COMMON(run_with_input, init_gather),
    .examples = MR_EXAMPLES("Nordering_token=0: [[1, 2]], 1, 9, 2, () -> [[1, 2]]"));
MR_OP(CollectiveBcastSend,
    .doc      = "gives a tensor to all members of a group",
    .sig      = "input: T -> data: T",
    .attrs    = "T: " MOVED "; " GROUP "shape: shape; " HINT,
    .shape    = mr_shape_from_attr, COMMON(run_with_input, init_send),
    .examples = MR_EXAMPLES(ONE "shape=[2]: [1, 1] -> [1, 1]"));
MR_OP(CollectiveBcastSendV2,
    .doc      = "CollectiveBcastSend in a group that inputs tell",
    .sig      = "input: T, " IN_V2 " -> data: T",
    .attrs    = "T: " MOVED "; " HINT,
    .shape    = same_v2, COMMON(run_with_input, init_send),
    .examples = MR_EXAMPLES("[1, 0], 1, 10, 2 -> [1, 0]"));
/* A receiver needs a sender, which an example cannot have. */
#define ALONE(type) ONE "T=" type " shape=[2]: -> !INTERNAL a broadcast has no source"
#define ALONE_V2(type) "T=" type ": 1, 11, 2, [2] -> !INTERNAL a broadcast has no source"
MR_OP(CollectiveBcastRecv,
    .doc      = "the tensor that another member of a group gives to all",
    .sig      = "-> data: T",
    .attrs    = "T: " MOVED "; " GROUP "shape: shape; " HINT,
    .shape    = mr_shape_unknown, COMMON(run_receive, init_receive),
    .examples = MR_EXAMPLES(ALONE("bool"), ALONE("float"), ALONE("half"), ALONE("double"),
                            ALONE("int32"), ALONE("int64")));
MR_OP(CollectiveBcastRecvV2,
    .doc      = "CollectiveBcastRecv in a group that inputs tell",
    .sig      = IN_V2 ", shape: Tshape -> data: T",
    .attrs    = "T: " MOVED "; Tshape: {int32, int64} = DT_INT32; " HINT,
    .shape    = receive_v2_shape, COMMON(run_receive, init_receive_v2),
    .examples = MR_EXAMPLES(ALONE_V2("bool"), ALONE_V2("float"), ALONE_V2("half"), ALONE_V2("double"),
                            ALONE_V2("int32"), ALONE_V2("int64")));
MR_OP(CollectiveAllToAllV2,
    .doc      = "row i of member k becomes row k of member i",
    .sig      = "input: T, " IN_V2 ORDER " -> data: T",
    .attrs    = "T: " NUMBERS "; " HINT "; is_stateless: bool = false; " TOKENS,
    .shape    = same_v2, COMMON(run_with_input, init_all_to_all),
    .examples = MR_EXAMPLES("Nordering_token=0: [[1, 2]], 1, 12, 2, () -> [[1, 2]]",
                            "T=float Nordering_token=0: [1, 2], 1, 12, 2, () -> !INVALID_ARGUMENT dimension 0"));
