/* ops/queue/barrier_ops.c -- Barrier and the ops on it; FakeQueue. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/queue/barrier.h"
#include "ops/queue/named.h"

/* ---- creation ---- */

typedef struct maker {
    mr_named named;
    mr_tuple_type tuple; /* points into the node's attrs, which outlive the kernel */
} maker;

static mr_status *init_maker(mr_make *m, void *p)
{
    maker *k = p;
    const mr_attr *types = mr_node_attr(m->node, "component_types");
    const mr_attr *shapes = mr_node_attr(m->node, "shapes");
    k->tuple = (mr_tuple_type){types->n, types->types, shapes ? shapes->n : 0,
                               shapes && shapes->n ? shapes->shapes : NULL};
    if (k->tuple.n_shapes && k->tuple.n_shapes != k->tuple.n)
        return mr_invalid("All of the components must have a specified shape: %d types but %d shapes",
                          k->tuple.n, k->tuple.n_shapes);
    for (int i = 0; i < k->tuple.n_shapes; i++) /* an unknown rank allows any shape */
        if (k->tuple.shapes[i]->rank >= 0 && !mr_pshape_full(k->tuple.shapes[i]))
            return mr_invalid("Barrier component %d has shape %s, which is not fully defined", i,
                              MR_PSHAPE_TEXT(k->tuple.shapes[i]));
    return mr_named_init(&k->named, m, &mr_tuple_barrier_type);
}

static void deinit_maker(void *p)
{
    maker *k = p;
    if (k->named.device)
        mr_named_deinit(&k->named);
}

static mr_status *make_barrier(void *ctx, mr_object **out)
{
    const maker *k = ctx;
    *out = (mr_object *)mr_tuple_barrier_new(k->named.name, &k->tuple);
    return NULL;
}

static mr_status *run_barrier(mr_run *r)
{
    maker *k = r->state;
    mr_object *b;
    MR_TRY(mr_named_open(&k->named, make_barrier, k, &b));
    mr_status *st = mr_tuple_barrier_matches((mr_tuple_barrier *)b, &k->tuple);
    mr_object_unref(b);
    if (!st)
        mr_named_give(&k->named, r);
    return st;
}

static mr_status *handle_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

#define B "b = Barrier component_types=[float, string] shapes=[[], []] shared_name=\"b\"; "
MR_OP(Barrier,
    .doc      = "keeps tuples, by key, until all of their components have been inserted",
    .sig      = "-> handle: Ref(string)",
    .attrs    = "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; "
                "container: string = ''; shared_name: string = ''",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = handle_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_barrier)),
    .state_bytes = sizeof(maker), .init = init_maker, .deinit = deinit_maker,
    .examples = MR_EXAMPLES(
        "component_types=[float]: -> shape(2)", "component_types=[float, string] shapes=[[], [2]]: -> shape(2)",
        B "shared_name=\"b\" component_types=[float]: -> !INVALID_ARGUMENT Shared barrier 'b' has "
          "component types",
        B "shared_name=\"b\" component_types=[float, string] shapes=[[], [2]]: -> !INVALID_ARGUMENT Shared barrier 'b' has "
          "component shapes [[], []] but requested component shapes were [[], [2]]",
        "component_types=[float, string] shapes=[[]]: -> !INVALID_ARGUMENT 2 types but 1 shapes"));

/* ---- operations ---- */

static mr_status *find_barrier(mr_run *r, mr_tuple_barrier **out)
{
    return mr_named_find(r, &mr_tuple_barrier_type, (mr_object **)out);
}

static mr_status *init_insert(mr_make *m, void *p)
{
    return mr_node_get_int(m->node, "component_index", p);
}

static mr_status *run_insert(mr_run *r)
{
    mr_tuple_barrier *b;
    MR_TRY(find_barrier(r, &b));
    mr_status *st = mr_tuple_barrier_insert(b, mr_in(r, 1), mr_in(r, 2), *(int64_t *)r->state);
    mr_object_unref((mr_object *)b);
    return st;
}

static mr_status *insert_shape(mr_infer *c)
{
    const mr_pshape *keys, *values;
    int64_t rows;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &keys));
    MR_TRY(mr_infer_rank_at_least(c, c->in[2], 1, &values));
    return mr_infer_merge_dim(mr_infer_dim(keys, 0), mr_infer_dim(values, 0), &rows);
}

#define USE .flags = MR_NO_FOLD | MR_NO_GRADIENT
#define PUT0 "BarrierInsertMany component_index=0: b, string[\"x\", \"y\"], float[1, 2]; "
#define PUT1 "BarrierInsertMany component_index=1: b, string[\"y\", \"x\"], string[\"b\", \"a\"]; "
MR_OP(BarrierInsertMany,
    .doc      = "inserts one component of the tuples of these keys",
    .sig      = "handle: Ref(string), keys: string, values: T ->",
    .attrs    = "T: type; component_index: int",
    USE, .shape = insert_shape, .kernels = MR_KERNELS(MR_CPU_ANY(run_insert)),
    .state_bytes = sizeof(int64_t), .init = init_insert,
    .examples = MR_EXAMPLES(
        B "T=float component_index=0: b, [\"x\", \"y\"], float[1, 2] ->",
        B "T=float component_index=2: b, [\"x\"], float[1] -> !INVALID_ARGUMENT The component ID is out of "
          "range 2 > num_components (= 2)",
        "b = Barrier component_types=[float] shapes=[?] shared_name=\"u\"; T=float component_index=0: b, [\"x\"], float[[1, 2]] ->",
        "b = Barrier component_types=[float] shapes=[?] shared_name=\"u\"; T=float component_index=0: b, [\"x\", \"y\"], "
        "float shape(2,0) -> !INVALID_ARGUMENT Tensors with no elements are not supported u: received shape [2,0]",
        B PUT0 "T=float component_index=0: b, [\"y\"], float[2] -> !INVALID_ARGUMENT Key y already has a "
               "value for component 0 in barrier b",
        B "T=float component_index=0: b, [\"x\"], float[[1]] -> !INVALID_ARGUMENT Shape mismatch in tuple "
          "component 0. Expected [], got [1]",
        B "T=float component_index=1: b, [\"x\"], float[1] -> !INVALID_ARGUMENT is of type string",
        B "T=float component_index=0: b, [\"x\"], float[1, 2] -> !INVALID_ARGUMENT must be equal",
        B PUT0 "BarrierClose: b; T=float component_index=0: b, [\"z\"], float[1] -> !CANCELLED Barrier b is "
               "closed, but attempted to insert a brand new key: z.",
        B "BarrierClose: b; T=float component_index=0: b, [\"z\"], float[1] -> !CANCELLED Barrier b is "
          "closed.  Pending enqueues cancelled: 0.  Number of new insertions: 1.",
        "b = Barrier component_types=[$T] shared_name=\"c\"; component_index=0: b, [\"x\"], fill(1, 1) ->"));

typedef struct taking {
    bool allow_small;
} taking;

static mr_status *init_take(mr_make *m, void *p)
{
    int64_t ms;
    MR_TRY(mr_node_get_int(m->node, "timeout_ms", &ms));
    if (ms != -1)
        return mr_invalid("Timeout not supported yet.");
    return mr_node_get_bool(m->node, "allow_small_batch", &((taking *)p)->allow_small);
}

static mr_status *check_take(mr_run *r, const mr_tuple_barrier *b, int64_t *n)
{
    const mr_tuple_type *t = mr_tuple_barrier_tuple(b);
    bool same = t->n == r->n_out - 2;
    for (int i = 0; same && i < t->n; i++)
        same = mr_out_dtype(r, 2 + i) == mr_dtype_base(t->types[i]);
    if (!same)
        return mr_signature_mismatch(r, r->n_in, r->node->in_types, t->n, t->types);
    MR_TRY(mr_in_scalar_int(r, 1, "num_elements", n));
    return *n >= 0 ? NULL
                   : mr_invalid("num_elements must not be negative, but is %lld", (long long)*n);
}

static void run_take(mr_run *r)
{
    mr_tuple_barrier *b = NULL;
    int64_t n = 0;
    mr_status *st = find_barrier(r, &b);
    if (!st)
        st = check_take(r, b, &n);
    if (!st) {
        mr_tuple_barrier_take(b, r, n, ((taking *)r->state)->allow_small);
        return;
    }
    mr_object_unref((mr_object *)b);
    mr_run_done(r, st);
}

static mr_status *take_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, -1);
    mr_infer_out_vector(c, 1, -1);
    return NULL;
}

#define TAKE "component_types=[float, string]"
MR_OP(BarrierTakeMany,
    .doc      = "takes complete tuples, waiting for them",
    .sig      = "handle: Ref(string), num_elements: int32 -> indices: int64, keys: string, "
                "values: component_types",
    .attrs    = "component_types: list(type) >= 1; allow_small_batch: bool = false; "
                "wait_for_incomplete: bool = false; timeout_ms: int = -1",
    USE, .shape = take_shape, .kernels = MR_KERNELS(MR_CPU_ASYNC(run_take)),
    .state_bytes = sizeof(taking), .init = init_take,
    .examples = MR_EXAMPLES(
        B PUT0 PUT1 TAKE ": b, 2 -> int64[-9223372036854775808, -9223372036854775808], [\"y\", \"x\"], "
                         "float[2, 1], string[\"b\", \"a\"]",
        B "BarrierInsertMany component_index=0: b, string[\"y\"], float[2]; "
          "BarrierInsertMany component_index=0: b, string[\"x\"], float[1]; "
          "BarrierInsertMany component_index=1: b, string[\"x\"], string[\"a\"]; "
          "BarrierInsertMany component_index=1: b, string[\"y\"], string[\"b\"]; " TAKE
          ": b, 2 -> int64[-9223372036854775808, -9223372036854775807], [\"y\", \"x\"], float[2, 1], string[\"b\", \"a\"]",
        B PUT1 PUT0 TAKE ": b, 1 -> int64[-9223372036854775808], [\"x\"], float[1], string[\"a\"]",
        B PUT0 PUT1 "BarrierClose: b; allow_small_batch=true " TAKE ": b, 5 -> int64[?, ?], [\"y\", \"x\"], "
                    "float[2, 1], string[\"b\", \"a\"]",
        B PUT0 "BarrierInsertMany component_index=1: b, string[\"y\"], string[\"b\"]; BarrierClose: b; allow_small_batch=true " TAKE
          ": b, 2 -> int64[?], [\"y\"], float[2], string[\"b\"]",
        B PUT0 "BarrierClose: b; allow_small_batch=true " TAKE ": b, 2 -> !OUT_OF_RANGE Barrier 'b' is closed and has "
               "insufficient elements (requested 0, total size 0)",
        B PUT0 "BarrierClose: b; " TAKE ": b, 3 -> !OUT_OF_RANGE (requested 3, total size 2)",
        B PUT0 PUT1 "BarrierClose: b; " TAKE ": b, 5 -> !OUT_OF_RANGE Barrier 'b' is closed and has "
                    "insufficient elements (requested 5, total size 2)",
        B "BarrierClose: b; " TAKE " allow_small_batch=true: b, 5 -> !OUT_OF_RANGE is closed and has "
          "insufficient elements (requested 0, total size 0)",
        B TAKE ": b, 0 -> int64 shape(0), shape(0), float shape(0), string shape(0)",
        B TAKE ": b, -1 -> !INVALID_ARGUMENT must not be negative",
        B "component_types=[float]: b, 1 -> !INVALID_ARGUMENT Signature mismatch",
        B TAKE " timeout_ms=3: b, 1 -> !INVALID_ARGUMENT Timeout not supported yet."));

static mr_status *init_close(mr_make *m, void *p)
{
    return mr_node_get_bool(m->node, "cancel_pending_enqueues", p);
}

static mr_status *run_close(mr_run *r)
{
    mr_tuple_barrier *b;
    MR_TRY(find_barrier(r, &b));
    mr_status *st = mr_tuple_barrier_close(b, *(bool *)r->state);
    mr_object_unref((mr_object *)b);
    return st;
}

MR_OP(BarrierClose,
    .doc      = "refuses new keys from now on",
    .sig      = "handle: Ref(string) ->",
    .attrs    = "cancel_pending_enqueues: bool = false",
    USE, .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ANY(run_close)),
    .state_bytes = sizeof(bool), .init = init_close,
    .examples = MR_EXAMPLES(
        B ": b ->", B "BarrierClose: b; cancel_pending_enqueues=true: b ->",
        B "BarrierClose: b; : b -> !CANCELLED Barrier 'b' is already closed.",
        "[\"localhost\", \"none\"] -> !NOT_FOUND does not exist"));

static mr_status *give_number(mr_run *r, int64_t (*number)(mr_tuple_barrier *b))
{
    mr_tuple_barrier *b;
    mr_tensor *out;
    MR_TRY(find_barrier(r, &b));
    mr_status *st = mr_run_output(r, 0, 0, NULL, &out);
    if (!st)
        *MR_DATA(int32_t, out) = (int32_t)number(b);
    mr_object_unref((mr_object *)b);
    return st;
}

static mr_status *run_ready(mr_run *r) { return give_number(r, mr_tuple_barrier_ready); }
static mr_status *run_incomplete(mr_run *r) { return give_number(r, mr_tuple_barrier_incomplete); }

MR_OP(BarrierReadySize, .doc = "how many complete tuples a barrier has",
    .sig = "handle: Ref(string) -> size: int32", USE, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_ready)),
    .examples = MR_EXAMPLES(B ": b -> 0", B PUT0 ": b -> 0", B PUT0 PUT1 ": b -> 2"));
MR_OP(BarrierIncompleteSize, .doc = "how many tuples of a barrier lack a component",
    .sig = "handle: Ref(string) -> size: int32", USE, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_incomplete)),
    .examples = MR_EXAMPLES(B PUT0 ": b -> 2", B PUT0 PUT1 ": b -> 0",
                            B PUT0 "BarrierClose cancel_pending_enqueues=true: b; : b -> 0"));

/* ---- FakeQueue ---- */

/* Converts a resource handle to the older form: the two strings container and name. */
static mr_status *run_fake(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    const mr_handle *h = t->n == 1 ? *MR_DATA(mr_handle *, t) : NULL;
    if (!h)
        return mr_invalid("FakeQueue needs one handle, got shape %s", MR_TENSOR_SHAPE(t));
    mr_variable *v = mr_variable_new(true, MR_STRING, h->name);
    v->t = mr_tensor_vector_str(2, (const char *[]){h->container, h->name});
    mr_run_set_ref(r, 0, v);
    return NULL;
}

MR_OP(FakeQueue,
    .doc      = "the older form of a resource's handle",
    .sig      = "resource: resource -> handle: Ref(string)",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = handle_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_fake)),
    .examples = MR_EXAMPLES("h = FIFOQueueV2 component_types=[float] shared_name=\"q\"; : h -> "
                            "[\"localhost\", \"q\"]"));
