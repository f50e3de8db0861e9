/* ops/collective/communicator.c -- groups as objects: a communicator has a rank and counts its exchanges, and each
 * exchange takes place among parts of the group. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/collective.h"

typedef struct communicator {
    mr_object base;
    int64_t group_key, rank, group_size;
    bool ring; /* requested by its hint */
    _Atomic int64_t n_exchanges;
} communicator;

static void free_communicator(mr_object *o) { mr_free(o); }

static const mr_object_type communicator_type = {"tensorflow::CollectiveCommunicator",
                                                 free_communicator};

/* ---- CollectiveAssignGroupV2 ---- */

static mr_status *check_matrix(const mr_tensor *t)
{
    return t->rank == 2 ? NULL
                        : mr_invalid("group_assignment must be a 2-d Tensor, but has shape %s",
                                     MR_TENSOR_SHAPE(t));
}

/* The part to which a member belongs, and its place there; false: none. */
static bool find_member(const mr_tensor *assignment, int64_t member, int64_t *part, int64_t *place)
{
    int64_t width = assignment->dims[1];
    for (int64_t i = 0; i < assignment->n; i++)
        if (MR_DATA(int32_t, assignment)[i] == member) {
            *part = i / width;
            *place = i % width;
            return true;
        }
    return false;
}

static mr_status *run_assign(mr_run *r)
{
    const mr_tensor *assignment = mr_in(r, 0);
    int64_t device, base, part, place;
    mr_tensor *size, *key;
    MR_TRY(check_matrix(assignment));
    MR_TRY(mr_in_scalar_int(r, 1, "device_index", &device));
    MR_TRY(mr_in_scalar_int(r, 2, "base_key", &base));
    if (!find_member(assignment, device, &part, &place))
        return mr_invalid("device_index %lld is not found in group_assignment", (long long)device);
    if (base + part > INT32_MAX)
        return mr_invalid("base_key %lld is too large: the key of part %lld does not fit", (long long)base,
                          (long long)part);
    MR_TRY(mr_run_output(r, 0, 0, NULL, &size));
    MR_TRY(mr_run_output(r, 1, 0, NULL, &key));
    *MR_DATA(int32_t, size) = (int32_t)assignment->dims[1];
    *MR_DATA(int32_t, key) = (int32_t)(base + part);
    return NULL;
}

#define DISTRIBUTED .flags = MR_STATEFUL | MR_DISTCOMM | MR_NO_GRADIENT
MR_OP(CollectiveAssignGroupV2,
    .doc      = "size and key of the part of a group that a device belongs to",
    .sig      = "group_assignment: int32, device_index: int32, base_key: int32 -> group_size: int32, "
                "group_key: int32",
    DISTRIBUTED, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(run_assign)),
    .examples = MR_EXAMPLES(
        "[[0, 1], [2, 3]], 2, 100 -> 2, 101", "[[5]], 5, 1 -> 1, 1",
        "[[0, 1]], 2, 1 -> !INVALID_ARGUMENT device_index 2 is not found in group_assignment",
        "[0], 0, 1 -> !INVALID_ARGUMENT must be a 2-d Tensor"));

/* ---- CollectiveInitializeCommunicator ---- */

static mr_status *run_initialize(mr_run *r)
{
    int64_t key, rank, size;
    mr_tensor *handle;
    mr_sv hint;
    MR_TRY(mr_node_get_str(r->node, "communication_hint", &hint));
    MR_TRY(mr_in_scalar_int(r, 0, "group_key", &key));
    MR_TRY(mr_in_scalar_int(r, 1, "rank", &rank));
    MR_TRY(mr_in_scalar_int(r, 2, "group_size", &size));
    if (size <= 0)
        return mr_invalid("group_size must be positive integer but got %lld", (long long)size);
    if (rank < 0 || rank >= size)
        return mr_invalid("rank must be in [0, %lld), but is %lld", (long long)size, (long long)rank);
    communicator *c = mr_new(communicator);
    mr_object_init(&c->base, &communicator_type);
    c->group_key = key;
    c->rank = rank;
    c->group_size = size;
    c->ring = mr_sv_is(hint, "ring");
    MR_TRY(mr_anonymous_handle(r, &c->base, &handle));
    mr_run_set(r, 0, handle);
    return NULL;
}

#define HINT "communication_hint: string = 'auto'; timeout_seconds: float = 0"
MR_OP(CollectiveInitializeCommunicator,
    .doc      = "a member's way to its group",
    .sig      = "group_key: int32, rank: int32, group_size: int32 -> communicator: resource",
    .attrs    = HINT,
    DISTRIBUTED, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(run_initialize)),
    .examples = MR_EXAMPLES("1, 0, 2 -> shape()",
                            "1, 2, 2 -> !INVALID_ARGUMENT rank must be in [0, 2), but is 2",
                            "1, 0, 0 -> !INVALID_ARGUMENT group_size must be positive"));

/* ---- ops on a communicator ---- */

static mr_status *init_v3(mr_make *m, mr_collective_call *c, mr_collective_kind kind)
{
    float timeout;
    mr_sv merge = MR_SV("Add");
    c->kind = kind;
    MR_TRY(mr_node_get_type(m->node, "T", &c->type));
    MR_TRY(mr_node_get_float(m->node, "timeout_seconds", &timeout));
    c->timeout_s = timeout;
    if (kind == MR_ALL_REDUCE)
        MR_TRY(mr_node_get_str(m->node, "reduction", &merge));
    c->merge = mr_sv_is(merge, "Mul")   ? MR_MERGE_MUL
               : mr_sv_is(merge, "Max") ? MR_MERGE_MAX
               : mr_sv_is(merge, "Min") ? MR_MERGE_MIN
                                        : MR_MERGE_ADD;
    return NULL;
}

static mr_status *init_reduce(mr_make *m, void *p) { return init_v3(m, p, MR_ALL_REDUCE); }
static mr_status *init_all_to_all(mr_make *m, void *p) { return init_v3(m, p, MR_ALL_TO_ALL); }

/* All communicators of a group count in the same way, so equal numbers denote the same exchange. */
static mr_status *fill_call(mr_run *r, mr_collective_call *c)
{
    communicator *g;
    *c = *(mr_collective_call *)r->state;
    MR_TRY(check_matrix(mr_in(r, 2)));
    MR_TRY(mr_run_resource(r, 1, &communicator_type, (mr_object **)&g));
    bool found = find_member(mr_in(r, 2), g->rank, &c->subgroup, &c->rank);
    if (found) {
        c->group_key = g->group_key;
        c->group_size = mr_in(r, 2)->dims[1];
        c->instance_key = g->n_exchanges++;
        c->subgroup++; /* 0 means the whole group */
        c->ring = g->ring;
        c->in = mr_in(r, 0);
    }
    int64_t rank = g->rank;
    mr_object_unref(&g->base);
    return found ? NULL : mr_invalid("rank %lld is not found in group_assignment", (long long)rank);
}

static void run_v3(mr_run *r)
{
    mr_collective_call c;
    mr_status *st = fill_call(r, &c);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    mr_collective *how = mr_collective_of(r);
    how->start(how, r, &c);
}

#define NUMBERS "T: {bfloat16, float, half, double, int32, int64}"
#define V3(make)                                                                     \
    DISTRIBUTED, .key = "T", .shape = mr_shape_same,                                   \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_v3)), .state_bytes = sizeof(mr_collective_call), \
    .init = make
#define C "c = CollectiveInitializeCommunicator: 20, 0, 1; "
MR_OP(CollectiveReduceV3,
    .doc      = "the tensors of the members of each part of a group merged",
    .sig      = "input: T, communicator: resource, group_assignment: int32 -> data: T",
    .attrs    = NUMBERS "; reduction: {'Min', 'Max', 'Mul', 'Add'}; timeout_seconds: float = 0",
    V3(init_reduce),
    .examples = MR_EXAMPLES(C "reduction=\"Add\": [1, 2], c, [[0]] -> [1, 2]",
                            C "reduction=\"Max\": 3, c, [[1], [0]] -> 3",
                            C "T=float reduction=\"Add\": 1, c, [[1]] -> !INVALID_ARGUMENT rank 0 is not found"));
MR_OP(CollectiveAllToAllV3,
    .doc      = "row i of member k becomes row k of member i, in each part of a group",
    .sig      = "input: T, communicator: resource, group_assignment: int32 -> data: T",
    .attrs    = NUMBERS "; timeout_seconds: float = 0",
    V3(init_all_to_all),
    .examples = MR_EXAMPLES(C "[[1, 2]], c, [[0]] -> [[1, 2]]",
                            C "T=float: [1, 2], c, [[0]] -> !INVALID_ARGUMENT dimension 0"));

/* ---- CollectivePermute ---- */

/* The op names no group, so there is only replica 0. A replica that is nobody's target gets zeros. */
static mr_status *run_permute(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0), *pairs = mr_in(r, 1);
    mr_tensor *out;
    if (pairs->rank != 2 || pairs->dims[1] != 2)
        return mr_invalid("source_target_pairs must be of shape [num_pairs, 2], but is %s",
                          MR_TENSOR_SHAPE(pairs));
    for (int64_t i = 0; i < pairs->n; i++)
        if (MR_DATA(int32_t, pairs)[i] != 0)
            return mr_error(MR_UNIMPLEMENTED, "CollectivePermute names replica %d, but only replica 0 exists",
                            MR_DATA(int32_t, pairs)[i]);
    if (pairs->n > 0) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    mr_tensor_zero(out);
    return NULL;
}

MR_OP(CollectivePermute,
    .doc      = "tensors moved between replicas by pairs of source and target",
    .sig      = "input: T, source_target_pairs: int32 -> output: T",
    .attrs    = "T: numbertype",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_permute)),
    .examples = MR_EXAMPLES("[1, 2], [[0, 0]] -> [1, 2]", "[1, 2], shape(0,2) -> [0, 0]",
                            "T=float: 1, [[0, 1]] -> !UNIMPLEMENTED replica 1",
                            "T=float: 1, [0, 0] -> !INVALID_ARGUMENT must be of shape"));
