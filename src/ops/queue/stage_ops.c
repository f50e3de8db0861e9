/* ops/queue/stage_ops.c -- the ops on staging areas: Stage, MapStage, OrderedMapStage and their variants.
 *
 * There is no handle: ops with the same shared_name use the same area. */
#include "graph/infer.h"
#include "ops/queue/stage.h"

static mr_status *init_stage(mr_make *m, void *p) { return mr_stage_init(m, p, &mr_stage_type); }
static mr_status *init_map(mr_make *m, void *p) { return mr_stage_init(m, p, &mr_map_stage_type); }
static mr_status *init_ordered(mr_make *m, void *p)
{
    return mr_stage_init(m, p, &mr_ordered_stage_type);
}

/* The area of an asynchronous op, owned by the caller; NULL if this ended the run with an error. */
static mr_stage *open_stage(mr_run *r)
{
    mr_stage *s = NULL;
    mr_status *st = mr_stage_of(r, &s);
    if (st)
        mr_run_done(r, st);
    return st ? NULL : s;
}

static bool read_key(mr_run *r, int64_t *key)
{
    mr_status *st = mr_in_scalar_int(r, 0, "key", key);
    if (st)
        mr_run_done(r, st);
    return !st;
}

/* ---- kernels ---- */

static void run_put(mr_run *r)
{
    mr_stage *s = open_stage(r);
    if (s)
        mr_stage_put(s, r, 0);
}

static void run_take(mr_run *r)
{
    mr_stage *s = open_stage(r);
    if (s)
        mr_stage_take(s, r);
}

static void run_peek(mr_run *r)
{
    int64_t index;
    mr_stage *s = read_key(r, &index) ? open_stage(r) : NULL;
    if (s)
        mr_stage_peek(s, r, index);
}

static void run_put_parts(mr_run *r)
{
    int64_t key;
    mr_stage *s = read_key(r, &key) ? open_stage(r) : NULL;
    if (s)
        mr_stage_put_parts(s, r, key, mr_in(r, 1), 2, ((mr_stage_state *)r->state)->n_types);
}

static void run_take_parts(mr_run *r)
{
    int64_t key;
    mr_stage *s = read_key(r, &key) ? open_stage(r) : NULL;
    if (s)
        mr_stage_take_parts(s, r, key, mr_in(r, 1));
}

static void run_peek_parts(mr_run *r)
{
    int64_t key;
    mr_stage *s = read_key(r, &key) ? open_stage(r) : NULL;
    if (s)
        mr_stage_peek_parts(s, r, key, mr_in(r, 1));
}

static void run_take_first(mr_run *r)
{
    mr_stage *s = open_stage(r);
    if (s)
        mr_stage_take_first_parts(s, r, mr_in(r, 0));
}

static mr_status *give_number(mr_run *r, int64_t (*number)(mr_stage *s))
{
    mr_stage *s;
    mr_tensor *out;
    MR_TRY(mr_stage_of(r, &s));
    mr_status *st = mr_run_output(r, 0, 0, NULL, &out);
    if (!st)
        *MR_DATA(int32_t, out) = (int32_t)number(s);
    mr_object_unref((mr_object *)s);
    return st;
}

static mr_status *run_size(mr_run *r) { return give_number(r, mr_stage_size); }
static mr_status *run_incomplete(mr_run *r) { return give_number(r, mr_stage_incomplete); }

static mr_status *run_clear(mr_run *r)
{
    mr_stage *s;
    MR_TRY(mr_stage_of(r, &s));
    mr_stage_clear(s);
    mr_object_unref((mr_object *)s);
    return NULL;
}

/* ---- the ops ---- */

#define LIMITS "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; "
#define NAMES "; container: string = ''; shared_name: string = ''"
#define SOME LIMITS "dtypes: list(type) >= 1" NAMES
#define ANY LIMITS "dtypes: list(type)" NAMES
#define FAKE LIMITS "dtypes: list(type); fake_dtypes: list(type) >= 1" NAMES
#define COMMON(make)                                                              \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .state_bytes = sizeof(mr_stage_state),    \
    .init = make, .deinit = mr_stage_deinit
#define ASYNC(sig_, attrs_, kernel) \
    .sig = sig_, .attrs = attrs_, .shape = mr_shape_unknown, .kernels = MR_KERNELS(MR_CPU_ASYNC(kernel))
#define SYNC(sig_, shape_, kernel) \
    .sig = sig_, .attrs = ANY, .shape = shape_, .kernels = MR_KERNELS(MR_CPU_ANY(kernel))
#define SIZE(kernel) SYNC("-> size: int32", mr_shape_scalar, kernel)
#define CLEAR SYNC("->", mr_shape_none, run_clear)

#define S "shared_name=\"s\" "
#define ONE "Stage dtypes=[float] " S ": (float 1); "
#define TWO ONE "Stage dtypes=[float] " S ": (float[2, 3]); "
MR_OP(Stage, .doc = "appends a tuple to a staging area, waiting for room",
    ASYNC("values: dtypes ->", SOME, run_put), COMMON(init_stage),
    .examples = MR_EXAMPLES(
        S "dtypes=[float, int32]: (float 1, int32[2]) ->", ONE S "dtypes=[float] capacity=2: (float 1) ->",
        S "dtypes=[float] memory_limit=4: (float[1, 2]) -> !RESOURCE_EXHAUSTED Attempted to insert "
          "tensors with combined size of '8' bytes into Staging Area with a memory limit of '4'."));
MR_OP(Unstage, .doc = "takes the first tuple out of a staging area, waiting for it",
    ASYNC("-> values: dtypes", SOME, run_take), COMMON(init_stage),
    .examples = MR_EXAMPLES(
        TWO S "dtypes=[float]: -> float 1", TWO "Unstage dtypes=[float] " S ": ; " S "dtypes=[float]: -> "
        "float[2, 3]",
        ONE S "dtypes=[float, float]: -> !INVALID_ARGUMENT Mismatch stage/unstage: 1 vs. 2",
        "Stage dtypes=[int32] " S ": (int32 1); " S "dtypes=[float]: -> !INVALID_ARGUMENT Mismatch"));
MR_OP(StagePeek, .doc = "tuple number `index` of a staging area, waiting for it",
    ASYNC("index: int32 -> values: dtypes", SOME, run_peek), COMMON(init_stage),
    .examples = MR_EXAMPLES(
        TWO S "dtypes=[float]: 1 -> float[2, 3]", TWO S "dtypes=[float]: 0 -> float 1",
        S "dtypes=[float]: -1 -> !INVALID_ARGUMENT must not be negative"));
MR_OP(StageSize, .doc = "how many tuples a staging area has", SIZE(run_size), COMMON(init_stage),
    .examples = MR_EXAMPLES(S "dtypes=[float]: -> 0", TWO S "dtypes=[float]: -> 2"));
MR_OP(StageClear, .doc = "empties a staging area", CLEAR, COMMON(init_stage),
    .examples = MR_EXAMPLES(TWO S "dtypes=[float]: ->"));

/* Two ops of each kind, for unordered and for ordered keys. */
#define PUT(op) op " dtypes=[float, float] fake_dtypes=[float, float] " S
#define HALF(op) op " dtypes=[float, float] fake_dtypes=[float] " S
#define FULL(op) PUT(op) ": 7, [0, 1], (float 1, float 2); " PUT(op) ": 3, [0, 1], (float 3, float 4); "
#define STAGE_EXAMPLES(op)                                                                     \
    MR_EXAMPLES(                                                                               \
        S "dtypes=[float, float] fake_dtypes=[float, float]: 7, [0, 1], (float 1, float[2]) ->", \
        S "dtypes=[float, float] fake_dtypes=[float]: 7, [1], (float 1) ->",                     \
        HALF(op) ": 7, [1], (float 1); " S "dtypes=[float, float] fake_dtypes=[float]: 7, [1], "   \
        "(float 1) -> !INVALID_ARGUMENT The tensor for index '1' for key '7' was already",       \
        S "dtypes=[float] fake_dtypes=[float]: 7, [1], (float 1) -> !INVALID_ARGUMENT Index '1'", \
        S "dtypes=[float, float] fake_dtypes=[float, float]: 7, [1, 0], (float 1, float 2) -> "   \
        "!INVALID_ARGUMENT Indices are not strictly ordered",                                    \
        S "dtypes=[float] fake_dtypes=[float] memory_limit=3: 7, [0], (float 1) -> "             \
        "!RESOURCE_EXHAUSTED with a memory limit of '3'")
#define TAKE_EXAMPLES(op, gone)                                                                \
    MR_EXAMPLES(                                                                               \
        FULL(op) S "dtypes=[float, float]: 7, [0, 1] -> float 1, float 2",                       \
        FULL(op) S "dtypes=[float]: 3, [1] -> float 4",                                          \
        HALF(op) ": 5, [1], (float 6); " HALF(op) ": 5, [0], (float 5); " S                        \
        "dtypes=[float, float]: 5, [0, 1] -> float 5, float 6",                                  \
        FULL(op) S "dtypes=[float]: 3, [2] -> !INVALID_ARGUMENT Index '2' for key '3'",          \
        FULL(op) S "dtypes=[float]: 3, [0, 1] -> !INVALID_ARGUMENT output/indices size mismatch: " \
        "1 vs. 2" gone)

MR_OP(MapStage, .doc = "puts a tuple, or parts of one, under a key, waiting for room",
    ASYNC("key: int64, indices: int32, values: fake_dtypes ->", FAKE, run_put_parts),
    COMMON(init_map), .examples = STAGE_EXAMPLES("MapStage"));
MR_OP(OrderedMapStage, .doc = "MapStage where the smallest key is the first",
    ASYNC("key: int64, indices: int32, values: fake_dtypes ->", FAKE, run_put_parts),
    COMMON(init_ordered), .examples = STAGE_EXAMPLES("OrderedMapStage"));
#define GONE(op, take)                                                                         \
    , FULL(op) take " dtypes=[float] " S ": 3, [1]; " S "dtypes=[float]: 3, [1] -> "               \
    "!INVALID_ARGUMENT Tensor at index '1' for key '3' has already been removed."
MR_OP(MapUnstage, .doc = "takes tensors of a key, waiting for it",
    ASYNC("key: int64, indices: int32 -> values: dtypes", SOME, run_take_parts), COMMON(init_map),
    .examples = TAKE_EXAMPLES("MapStage", GONE("MapStage", "MapUnstage")));
MR_OP(OrderedMapUnstage, .doc = "takes tensors of a key, waiting for it",
    ASYNC("key: int64, indices: int32 -> values: dtypes", SOME, run_take_parts),
    COMMON(init_ordered),
    .examples = TAKE_EXAMPLES("OrderedMapStage", GONE("OrderedMapStage", "OrderedMapUnstage")));
MR_OP(MapPeek, .doc = "tensors of a key, which stay in the staging area",
    ASYNC("key: int64, indices: int32 -> values: dtypes", SOME, run_peek_parts), COMMON(init_map),
    .examples = TAKE_EXAMPLES("MapStage", ));
MR_OP(OrderedMapPeek, .doc = "tensors of a key, which stay in the staging area",
    ASYNC("key: int64, indices: int32 -> values: dtypes", SOME, run_peek_parts),
    COMMON(init_ordered), .examples = TAKE_EXAMPLES("OrderedMapStage", ));
MR_OP(MapUnstageNoKey, .doc = "takes tensors of any key, waiting for one",
    ASYNC("indices: int32 -> key: int64, values: dtypes", SOME, run_take_first), COMMON(init_map),
    .examples = MR_EXAMPLES(FULL("MapStage") S "dtypes=[float, float]: [0, 1] -> ?, float ?, float ?",
        PUT("MapStage") ": 9, [0, 1], (float 1, float 2); " S "dtypes=[float, float]: [0, 1] -> 9, "
        "float 1, float 2"));
MR_OP(OrderedMapUnstageNoKey, .doc = "takes tensors of the smallest key, waiting for one",
    ASYNC("indices: int32 -> key: int64, values: dtypes", SOME, run_take_first),
    COMMON(init_ordered),
    .examples = MR_EXAMPLES(FULL("OrderedMapStage") S "dtypes=[float, float]: [0, 1] -> 3, float 3, "
                                                      "float 4"));
MR_OP(MapSize, .doc = "how many complete tuples a staging area has", SIZE(run_size), COMMON(init_map),
    .examples = MR_EXAMPLES(S "dtypes=[]: -> 0", FULL("MapStage") S "dtypes=[]: -> 2"));
MR_OP(OrderedMapSize, .doc = "how many complete tuples a staging area has", SIZE(run_size), COMMON(init_ordered),
    .examples = MR_EXAMPLES(S "dtypes=[]: -> 0", FULL("OrderedMapStage") S "dtypes=[]: -> 2"));
MR_OP(MapIncompleteSize, .doc = "how many tuples have parts missing", SIZE(run_incomplete),
    COMMON(init_map),
    .examples = MR_EXAMPLES(FULL("MapStage") S "dtypes=[]: -> 0",
                            HALF("MapStage") ": 7, [1], (float 1); " S "dtypes=[]: -> 1"));
MR_OP(OrderedMapIncompleteSize, .doc = "how many tuples have parts missing", SIZE(run_incomplete),
    COMMON(init_ordered),
    .examples = MR_EXAMPLES(HALF("OrderedMapStage") ": 7, [1], (float 1); " S "dtypes=[]: -> 1"));
MR_OP(MapClear, .doc = "empties a staging area", CLEAR, COMMON(init_map),
    .examples = MR_EXAMPLES(FULL("MapStage") S "dtypes=[]: ->"));
MR_OP(OrderedMapClear, .doc = "empties a staging area", CLEAR, COMMON(init_ordered),
    .examples = MR_EXAMPLES(FULL("OrderedMapStage") S "dtypes=[]: ->"));
