/* tests/fuzz/scenes.c -- small graphs around ops that cannot be run alone. */
#include "tests/fuzz/scenes.h"

#include <fnmatch.h>

#include "base/memory.h"
#include "graph/library.h"
#include "proto/graph.pb-c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"

/* ---- written by hand ---- */

#define ARRAY "a = TensorArrayV3 dtype=$T element_shape=? dynamic_size=true: 2; "
#define WRITTEN                                           \
    ARRAY "w = TensorArrayWriteV3: a, 0, [1, 2], a:1; " \
          "x = TensorArrayWriteV3: a, 1, [3, 4], w; "
#define STACK "s = StackV2 elem_type=$T: 4; "
#define WIRE                                                               \
    "tensor_name=\"x\" send_device=\"/device:CPU:0\" send_device_incarnation=1 " \
    "recv_device=\"/device:CPU:0\""
#define REF "v = VariableV2 dtype=$T shape=[2]; r = Assign: v, [1, 2]; "
#define RANGE "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 1, 1; "
#define ELEMENT "output_types=[int64] output_shapes=[[]]"
#define LOOP                                                                                  \
    "e = Enter frame_name=\"f\": int32[0]; k = Enter frame_name=\"f\" is_constant=true: int32[2]; " \
    "o = Enter frame_name=\"f\" is_constant=true: int32[1]; m = Merge: (e, n); "              \
    "c = Less: m, k; z = Enter frame_name=\"f\" is_constant=true: int32[0]; "                \
    "b = All: c, z; l = LoopCond: b; s = Switch: m, l; p = Add: s:1, o; "                     \
    "n = NextIteration: p; : s -> ?"

static const fuzz_scene scenes[] = {
    {"TensorArrayCloseV3", NULL, "a = TensorArrayV3 dtype=float: 2; : a -> "},
    {"TensorArrayConcatV3", NULL, WRITTEN ": a, x -> ?, ?"},
    {"TensorArrayGatherV3", NULL, WRITTEN ": a, [0, 1], x -> ?"},
    {"TensorArrayGradV3", NULL,
     "a = TensorArrayV3 dtype=float: 2; source=\"g\": a, a:1 -> ?, ?"},
    {"TensorArrayReadV3", NULL, WRITTEN ": a, 1, x -> ?"},
    {"TensorArrayScatterV3", NULL, ARRAY ": a, [0, 1], [[1, 2], [3, 4]], a:1 -> ?"},
    {"TensorArraySizeV3", NULL, "a = TensorArrayV3 dtype=float: 2; : a, a:1 -> ?"},
    {"TensorArraySplitV3", NULL, ARRAY ": a, [1, 2, 3], [1, 2], a:1 -> ?"},
    {"TensorArrayWriteV3", NULL, ARRAY ": a, 0, [1, 2], a:1 -> ?"},
    {"TensorArrayWriteV3", "TensorArrayReadV3", WRITTEN ": a, 0, x -> ?"},
    {"StackCloseV2", NULL, "s = StackV2 elem_type=float: 4; : s -> "},
    {"StackPopV2", NULL, STACK "StackPushV2: s, [1, 2]; : s -> ?"},
    {"StackPushV2", NULL, STACK ": s, [1, 2] -> ?"},
    {"StackPushV2", "StackPopV2", STACK "StackPushV2: s, [1, 2]; : s -> ?"},
    {"Variable", "Assign", "v = Variable dtype=$T shape=[2]; : v, [1, 2] -> ?"},
    {"VariableV2", "Assign", "v = VariableV2 dtype=$T shape=[2]; : v, [1, 2] -> ?"},
    {"Variable", NULL, "shape=[2]: -> ?"},
    {"VariableV2", NULL, "shape=[2]: -> ?"},
    {"DestroyTemporaryVariable", NULL,
     "t = TemporaryVariable dtype=$T shape=[2] var_name=\"t\"; a = Assign: t, [1, 2]; "
     "var_name=\"t\": a -> ?"},
    {"TemporaryVariable", "DestroyTemporaryVariable",
     "t = TemporaryVariable dtype=$T shape=[2] var_name=\"t\"; a = Assign: t, [1, 2]; "
     "var_name=\"t\": a -> ?"},
    {"ConsumeMutexLock", NULL, "m = MutexV2; l = MutexLock: m; : l -> "},
    {"Enter", "Exit", "e = Enter frame_name=\"f\": [1, 2]; : e -> ?"},
    {"Exit", NULL, "e = Enter frame_name=\"f\": [1, 2]; : e -> ?"},
    {"Enter", "Exit", LOOP},
    {"Exit", NULL, LOOP},
    {"NextIteration", "Exit", LOOP},
    {"NextIteration", "Exit",
     "e = Enter frame_name=\"f\": [1, 2]; n = NextIteration: e; : n -> ?"},
    {"RefEnter", "RefExit", REF "e = RefEnter frame_name=\"f\": r; : e -> ?"},
    {"RefExit", NULL, REF "e = RefEnter frame_name=\"f\": r; : e -> ?"},
    {"RefNextIteration", "RefExit",
     REF "e = RefEnter frame_name=\"f\": r; n = RefNextIteration: e; : n -> ?"},
    {"RefMerge", NULL, REF "s = RefSwitch: r, true; : (s, s:1) -> ?, ?"},
    {"RefSelect", NULL, REF ": 1, (r, [3, 4]) -> ?"},
    {"RefSwitch", NULL, REF ": r, true -> ?, ?"},
    {"RefSwitch", "RefMerge", REF "s = RefSwitch: r, false; : (s, s:1) -> ?, ?"},
    {"MapDataset", "DatasetToSingleElement",
     RANGE "d = MapDataset output_types=[int64] output_shapes=[[]]: r, (); " ELEMENT ": d -> ?"},
    {"FilterDataset", "DatasetToSingleElement",
     RANGE "d = FilterDataset output_types=[int64] output_shapes=[[]]: r, (); " ELEMENT ": d -> ?"},
    {"TakeWhileDataset", "DatasetToSingleElement",
     RANGE "d = TakeWhileDataset output_types=[int64] output_shapes=[[]]: r, (); " ELEMENT ": d -> ?"},
    {"FlatMapDataset", "DatasetToSingleElement",
     RANGE "d = FlatMapDataset output_types=[int64] output_shapes=[[]]: r, (); " ELEMENT ": d -> ?"},
    {"InterleaveDataset", "DatasetToSingleElement",
     RANGE "d = InterleaveDataset output_types=[int64] output_shapes=[[]]: r, (), 2, 1; " ELEMENT ": d -> ?"},
    {"ParallelMapDataset", "DatasetToSingleElement",
     RANGE "d = ParallelMapDataset output_types=[int64] output_shapes=[[]]: r, (), 2; " ELEMENT ": d -> ?"},
    {"ParallelMapDatasetV2", "DatasetToSingleElement",
     RANGE "d = ParallelMapDatasetV2 output_types=[int64] output_shapes=[[]]: r, (), 2; " ELEMENT ": d -> ?"},
    {"ParallelFilterDataset", "DatasetToSingleElement",
     RANGE "d = ParallelFilterDataset output_types=[int64] output_shapes=[[]]: r, (), 2; " ELEMENT ": d -> ?"},
    {"ParallelInterleaveDataset", "DatasetToSingleElement",
     RANGE "d = ParallelInterleaveDataset output_types=[int64] output_shapes=[[]]: r, (), 2, 1, false, 1, 1; " ELEMENT ": d -> ?"},
    {"ParallelInterleaveDatasetV2", "DatasetToSingleElement",
     RANGE "d = ParallelInterleaveDatasetV2 output_types=[int64] output_shapes=[[]]: r, (), 2, 1, 2; " ELEMENT ": d -> ?"},
    {"ParallelInterleaveDatasetV3", "DatasetToSingleElement",
     RANGE "d = ParallelInterleaveDatasetV3 output_types=[int64] output_shapes=[[]]: r, (), 2, 1, 2; " ELEMENT ": d -> ?"},
    {"ParallelInterleaveDatasetV4", "DatasetToSingleElement",
     RANGE "d = ParallelInterleaveDatasetV4 output_types=[int64] output_shapes=[[]]: r, (), 2, 1, 1, 1, 2; " ELEMENT ": d -> ?"},
    {"MapAndBatchDataset", "DatasetToSingleElement",
     RANGE "d = MapAndBatchDataset output_types=[int64] output_shapes=[[]]: r, (), 1, 1, false; " ELEMENT ": d -> ?"},
    {"ScanDataset", "DatasetToSingleElement",
     RANGE "d = ScanDataset output_types=[int64] output_shapes=[[]]: r, (int64[1]), (); " ELEMENT ": d -> ?"},
    {"GroupByWindowDataset", "DatasetToSingleElement",
     RANGE "d = GroupByWindowDataset output_types=[int64] output_shapes=[[]]: r, (), (), (); " ELEMENT ": d -> ?"},
    {"GroupByReducerDataset", "DatasetToSingleElement",
     RANGE "d = GroupByReducerDataset output_types=[int64] output_shapes=[[]]: r, (), (), (), (); " ELEMENT ": d -> ?"},
    {"SaveDataset", NULL, RANGE ": r, \"s\", () -> "},
    {"SaveDatasetV2", "DatasetToSingleElement",
     RANGE "d = SaveDatasetV2 output_types=[int64] output_shapes=[[]]: r, \"s\", (); " ELEMENT ": d -> ?"},
    {"LoadDataset", "DatasetToSingleElement", /* saved by an earlier run */
     "d = LoadDataset output_types=[int64] output_shapes=[[]]: \"s\", (); " ELEMENT ": d -> ?"},
    {"ReduceDataset", NULL, RANGE "output_types=[int64] output_shapes=[[]]: r, (int64[1]), () -> ?"},
    {"PartitionedCall", NULL, "Tout=[float]: (float[1, 2], float[3, 4]) -> ?"},
    {"PartitionedCall", NULL, "Tout=[int32]: (int32[1, 2]) -> ?"},
    {"StatefulPartitionedCall", NULL, "Tout=[float]: (float[1, 2], float[3, 4]) -> ?"},
    {"StatefulPartitionedCall", NULL, "Tout=[string]: (string[\"a\"]) -> ?"},
    {"SymbolicGradient", NULL,
     "Tout=[float, float]: (float[1, 2], float[3, 4], float[1, 1]) -> ?, ?"},
    {"_Arg", NULL, "Identity: [1, 2]; index=0: -> ?"},
    {"_DeviceArg", NULL, "Identity: [1, 2]; index=0: -> ?"},
    {"_Retval", NULL, "i = Identity: [1, 2]; index=0: i -> "},
    {"_DeviceRetval", NULL, "i = Identity: [1, 2]; index=0: i -> "},
    /* A result is given once, so beside a session's own these fail; this one is its own. */
    {"_Retval", "Identity", ": [1, 2] -> ?"},
    {"_Send", NULL, WIRE ": [1, 2] -> "},
    {"_Send", "_Recv", "_Send " WIRE ": [1, 2]; " WIRE ": -> ?"},
    {"_HostSend", "_HostRecv", "_HostSend " WIRE ": [1, 2]; " WIRE ": -> ?"},
    {"_Recv", NULL, "_Send " WIRE ": [1, 2]; " WIRE ": -> ?"},
    {"_HostRecv", NULL, "_HostSend " WIRE ": [1, 2]; " WIRE ": -> ?"},
};

int fuzz_scenes_of(const char *op, const fuzz_scene **out, int max)
{
    int n = 0;
    for (int i = 0; i < MR_COUNT(scenes) && n < max; i++)
        if (strcmp(scenes[i].op, op) == 0)
            out[n++] = &scenes[i];
    return n;
}

/* ---- guessed ---- */

static bool told_by_input(const mr_op_def *d, const char *attr)
{
    for (int i = 0; i < d->n_in; i++) {
        const mr_arg_def *a = &d->in[i];
        const char *by[] = {a->type_attr, a->number_attr, a->type_list_attr};
        for (int k = 0; k < MR_COUNT(by); k++)
            if (by[k] && strcmp(by[k], attr) == 0)
                return true;
    }
    return false;
}

static const char *guessed_word(const mr_attr_def *a)
{
    switch (a->kind) {
    case MR_ATTR_INT: return "1";
    case MR_ATTR_FLOAT: return "1";
    case MR_ATTR_BOOL: return "false";
    case MR_ATTR_SHAPE: return "[2]";
    case MR_ATTR_TENSOR: return "float[1, 2]";
    case MR_ATTR_TYPE: return a->n_allowed ? mr_dtype_name(a->types[0]) : "float";
    default: return NULL;
    }
}

/* The code that runs the scene sets the attrs of functions. */
static void guess_attr(const mr_op_def *d, const mr_attr_def *a, mr_str *out)
{
    const char *word = guessed_word(a);
    if (a->has_default || told_by_input(d, a->name) || a == d->key || a->kind == MR_ATTR_FUNC)
        return;
    mr_str_printf(out, "%s=%s", a->name, a->is_list ? "[" : "");
    if (a->kind == MR_ATTR_STRING)
        mr_str_printf(out, "\"%.*s\"", a->n_allowed ? (int)a->names[0].n : 1,
                      a->n_allowed ? a->names[0].p : "a");
    else
        mr_str_printf(out, "%s", word ? word : "1");
    mr_str_printf(out, "%s ", a->is_list ? "]" : "");
}

static bool is_handle(const mr_arg_def *a)
{
    return a->type == MR_RESOURCE || a->type == MR_VARIANT;
}

static const char *guessed_value(const mr_arg_def *a)
{
    if (is_handle(a))
        return "h";
    if (mr_dtype_base(a->type) == MR_STRING)
        return "[\"a\", \"b\"]";
    return mr_dtype_base(a->type) == MR_BOOL ? "true" : "[1, 1]";
}

void fuzz_scene_guess(const mr_op_def *d, mr_str *out)
{
    bool handles = false;
    for (int i = 0; i < d->n_in; i++)
        handles |= is_handle(&d->in[i]);
    if (handles) /* a handle, but of the wrong kind */
        mr_str_printf(out, "h = VarHandleOp dtype=float shape=[2]; ");
    for (int i = 0; i < d->n_attrs; i++)
        guess_attr(d, &d->attrs[i], out);
    mr_str_printf(out, ": ");
    for (int i = 0; i < d->n_in; i++) {
        const char *v = guessed_value(&d->in[i]);
        bool list = d->in[i].number_attr || d->in[i].type_list_attr;
        mr_str_printf(out, "%s", i ? ", " : "");
        mr_str_printf(out, list ? "(%s, %s)" : "%s", v, v);
    }
    mr_str_printf(out, " -> ");
}

/* ---- functions ---- */

#define FUNCTION(name, args, results, body)                                                    \
    "function { signature { name: '" name "' " args results                                    \
    " attr { name: 'T' type: 'type' } } " body " } "
#define A(n) "input_arg { name: '" n "' type_attr: 'T' } "
#define Z(n) "output_arg { name: '" n "' type_attr: 'T' } "
#define T_ATTR "attr { key: 'T' value { placeholder: 'T' } } "
#define INT64_NODE(name, v)                                                                    \
    "node_def { name: '" name "' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } "  \
    "attr { key: 'value' value { tensor { dtype: DT_INT64 tensor_shape { } int64_val: " v " } } } } "
static const char functions[] =
    FUNCTION("F0", "", "", "node_def { name: 'n' op: 'NoOp' }")
    FUNCTION("F1", A("a"), Z("z"),
             "node_def { name: 'n' op: 'Identity' input: 'a' " T_ATTR "} "
             "ret { key: 'z' value: 'n:output:0' }")
    FUNCTION("F2", A("a") A("b"), Z("z"),
             "node_def { name: 'm' op: 'Mul' input: 'a' input: 'b' " T_ATTR "} "
             "ret { key: 'z' value: 'm:z:0' }")
    FUNCTION("G2", A("a") A("b"), Z("y") Z("z"),
             "node_def { name: 'm' op: 'Add' input: 'a' input: 'b' " T_ATTR "} "
             "ret { key: 'y' value: 'm:z:0' } ret { key: 'z' value: 'b' }")
    FUNCTION("C1", A("a"), "output_arg { name: 'z' type: DT_BOOL } ",
             "node_def { name: 'n' op: 'Const' attr { key: 'dtype' value { type: DT_BOOL } } "
             "attr { key: 'value' value { tensor { dtype: DT_BOOL tensor_shape { } bool_val: "
             "false } } } } ret { key: 'z' value: 'n:output:0' }")
    FUNCTION("D1", A("a"), "output_arg { name: 'z' type: DT_VARIANT } ",
             INT64_NODE("zero", "0") INT64_NODE("one", "1")
             "node_def { name: 'd' op: 'RangeDataset' input: 'zero:output:0' input: 'a' input: 'one:output:0' "
             "attr { key: 'output_types' value { list { type: DT_INT64 } } } attr { key: 'output_shapes' value { list { shape { } } } } } "
             "ret { key: 'z' value: 'd:handle:0' }")
    FUNCTION("L1", "input_arg { name: 'a' type: DT_VARIANT } ", "output_arg { name: 'z' type: DT_VARIANT } ",
             "node_def { name: 'd' op: 'FlatMapDataset' input: 'a' attr { key: 'Targuments' value { list { } } } "
             "attr { key: 'f' value { func { name: 'F1' attr { key: 'T' value { type: DT_VARIANT } } } } } "
             "attr { key: 'output_types' value { list { type: DT_INT64 } } } attr { key: 'output_shapes' value { list { shape { } } } } } "
             "ret { key: 'z' value: 'd:handle:0' }")
    FUNCTION("W2", A("a") "input_arg { name: 'b' type: DT_VARIANT } ", "output_arg { name: 'z' type: DT_VARIANT } ",
             "ret { key: 'z' value: 'b' }");

void fuzz_add_functions(mr_graph *g)
{
    static mr_str bytes; /* packed once */
    if (bytes.n == 0)
        fuzz_pack_text(&tensorflow__function_def_library__descriptor, functions, &bytes);
    fuzz_must(mr_library_decode(mr_str_view(&bytes), g->library), "the functions of scenes");
}

/* The argument and result types of the functions of datasets. */
static const char *dataset_function(const char *op, const char *attr)
{
    static const struct {
        const char *op, *attr, *f;
    } rows[] = {
        {"*Dataset*", "*predicate", "C1"},           {"FlatMapDataset", "f", "D1"},  {"*InterleaveDataset*", "f", "D1"},
        {"ScanDataset", "f", "G2"},                  {"ReduceDataset", "f", "F2"},   {"GroupByWindowDataset", "reduce_func", "W2"},
        {"GroupByReducerDataset", "reduce_func", "F2"}, {"LoadDataset", "reader_func", "L1"}, {"*Dataset*", "*", "F1"},
    };
    for (int i = 0; i < MR_COUNT(rows); i++)
        if (fnmatch(rows[i].op, op, 0) == 0 && fnmatch(rows[i].attr, attr, 0) == 0)
            return rows[i].f;
    return NULL;
}

const char *fuzz_function_for(const mr_op_def *op, const mr_attr_def *attr, int n_args)
{
    static const char *const by_args[] = {"F0", "F1", "F2", "F2"};
    const char *of_dataset = dataset_function(op->name, attr->name);
    if (of_dataset)
        return of_dataset;
    if (strcmp(attr->name, "cond") == 0)
        return "C1";
    return by_args[MR_MIN(n_args, MR_COUNT(by_args) - 1)];
}
