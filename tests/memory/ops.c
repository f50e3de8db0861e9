/* tests/memory/ops.c -- a scenario for each op: its first example that succeeds, run with the kernel's memory refused;
 * and for ops that move elements one with strings, each of which has memory of its own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/absent.h"
#include "ops/table.h"
#include "ops/example_fixture.h"
#include "run/run.h"
#include "tests/harness/test.h"
#include "tests/memory/memory.h"

typedef struct op_case {
    const mr_op_def *def;
    const mr_example *example;
    mr_dtype key;
} op_case;

/* Only the kernel of the last step counts: what an example is made of may end the process for want of memory. */
static mr_status *run_last(void *ctx, mr_trial_step *step)
{
    const mr_trial *t = ctx;
    memory_begin();
    mr_status *st = mr_eval_node(step->node, t->device, step->in, step->out);
    memory_end();
    return st;
}

/* The example as it is. */
static void same_inputs(void *ctx, const mr_arg_def *arg, mr_trial_inputs *in, int start) { (void)ctx, (void)arg, (void)in, (void)start; }
static void same_attrs(void *ctx, const mr_op_def *d, mr_node_builder *b) { (void)ctx, (void)d, (void)b; }
static const mr_pshape *unknown(void *ctx, const mr_tensor *t)
{
    (void)ctx, (void)t;
    return &mr_pshape_unknown;
}

static mr_status *run(void *arg)
{
    const op_case *c = arg;
    mr_trial t;
    mr_trial_init(&t, c->def, c->example, c->key, MR_TRIAL_UNKNOWN);
    mr_trial_hooks hooks = {same_inputs, same_attrs, unknown, run_last, &t};
    t.hooks = &hooks;
    mr_status *st = mr_trial_steps(&t);
    mr_trial_deinit(&t);
    return st;
}

static mr_arena arena;

static mr_dtype key_of(const mr_op_def *d)
{
    mr_dtype types[64];
    int n = mr_trial_types(d, types, MR_COUNT(types));
    for (int i = 0; i < n; i++)
        if (types[i] == MR_FLOAT)
            return MR_FLOAT;
    return n ? types[0] : MR_INVALID;
}

/* An example that succeeds in this type, now. */
static bool works(const op_case *c)
{
    mr_status *st = run((void *)(uintptr_t)c);
    mr_status_free(st);
    return !st;
}

static bool find_example(op_case *c)
{
    for (const char *const *text = c->def->op->examples; text && *text; text++) {
        mr_example *e;
        mr_status *st = mr_example_parse(&arena, *text, &e);
        mr_status_free(st);
        c->example = e;
        if (!st && !e->fails && works(c))
            return true;
    }
    return false;
}

/* Too long to lie inside of an element. */
#define S1 "\"the first string, longer than what fits inside of an element\""
#define S2 "\"another string, longer than what fits inside of an element\""

static const struct {
    const char *op, *example;
} with_strings[] = {
    {"Transpose", "[[" S1 ", " S2 "], [" S2 ", " S1 "]], [1, 0] -> shape(2,2)"},
    {"ConcatV2", "([[" S1 "]], [[" S2 "]]), 1 -> shape(1,2)"},
    {"Pack", "axis=1: ([" S1 ", " S2 "], [" S1 ", " S2 "]) -> shape(2,2)"},
    {"Unpack", "num=2 axis=1: [[" S1 ", " S2 "], [" S1 ", " S2 "]] -> shape(2), shape(2)"},
    {"SplitV", "num_split=2: [[" S1 ", " S2 "], [" S1 ", " S2 "]], [1, 1], 1 -> shape(2,1), shape(2,1)"},
    {"StridedSlice", "[" S1 ", " S2 ", " S1 "], int32[2], int32[0], int32[-1] -> shape(2)"},
    {"Tile", "[" S1 ", " S2 "], [3] -> shape(6)"},
    {"BroadcastTo", "[" S1 ", " S2 "], int32[2, 2] -> shape(2,2)"},
    {"Fill", "[3], " S1 " -> shape(3)"},
    {"ReverseV2", "[" S1 ", " S2 "], [0] -> shape(2)"},
    {"PadV2", "[" S1 "], [[1, 1]], " S2 " -> shape(3)"},
    {"MirrorPad", "mode=\"SYMMETRIC\": [" S1 ", " S2 "], [[1, 1]] -> shape(4)"},
    {"SpaceToBatchND", "[[" S1 ", " S2 "]], [2], [[1, 1]] -> shape(2,2)"},
    {"BatchToSpaceND", "[[" S1 "], [" S2 "]], [2], [[0, 0]] -> shape(1,2)"},
    {"MatrixDiag", "[" S1 ", " S2 "] -> shape(2,2)"},
    {"MatrixDiagPart", "[[" S1 ", " S2 "], [" S1 ", " S2 "]] -> shape(2)"},
    {"MatrixSetDiag", "[[" S1 ", " S2 "], [" S1 ", " S2 "]], [" S2 ", " S2 "] -> shape(2,2)"},
    {"OneHot", "[0, 1], 2, " S1 ", " S2 " -> shape(2,2)"},
    {"GatherV2", "[" S1 ", " S2 "], int32[1, 0, 1], int32 0 -> shape(3)"},
    {"GatherNd", "[" S1 ", " S2 "], int32[[1], [0]] -> shape(2)"},
    {"DynamicPartition", "num_partitions=2: [" S1 ", " S2 "], [1, 0] -> shape(1), shape(1)"},
    {"DynamicStitch", "([1, 0], [1]), ([" S1 ", " S2 "], [" S1 "]) -> shape(2)"},
    {"UniqueV2", "[[" S1 ", " S2 "], [" S1 ", " S2 "]], [1] -> shape(2,2), shape(2)"},
    {"ListDiff", "[" S1 ", " S2 "], [" S1 "] -> shape(1), shape(1)"},
    {"Select", "[true, false], [[" S1 "], [" S2 "]], [[" S2 "], [" S1 "]] -> shape(2,1)"},
    {"SelectV2", "[true, false], " S1 ", [" S2 ", " S1 "] -> shape(2)"},
    {"SparseReorder", "[[1], [0]], [" S1 ", " S2 "], [2] -> shape(2,1), shape(2)"},
    {"SparseSlice", "[[0], [1]], [" S1 ", " S2 "], [2], [1], [1] -> shape(1,1), shape(1), shape(1)"},
    {"ScatterUpdate", "[" S1 ", " S2 "], int32[1, 0], [" S1 ", " S2 "] -> shape(2)"},
    {"ResourceGather", "v = VarHandleOp dtype=string shape=[2]; AssignVariableOp: v, string[" S1 ", " S2 "]; "
                       ": v, int32[1, 0] -> shape(2)"},
    {"ResourceScatterUpdate", "v = VarHandleOp dtype=string shape=[2]; AssignVariableOp: v, string[" S1 ", " S2 "]; "
                              ": v, int32[1], [" S1 "] ->"},
};

static memory_scenario scenario_of(op_case c, const char *what)
{
    op_case *kept = mr_arena_array(&arena, op_case, 1);
    mr_str name = {0};
    *kept = c;
    mr_str_printf(&name, "%s %s", what, c.def->name);
    memory_scenario s = {.name = mr_arena_strdup(&arena, mr_str_z(&name)), .arg = kept, .run = run};
    mr_str_deinit(&name);
    return s;
}

static memory_scenario scenario_with_strings(const char *op, const char *text)
{
    mr_example *e;
    op_case c = {.def = mr_op_find(mr_sv_of(op)), .key = MR_STRING};
    mr_status *st = mr_example_parse(&arena, text, &e);
    if (!st) {
        c.example = e;
        st = run(&c);
    }
    if (st)
        mr_test_fail(__FILE__, __LINE__, "%s with strings: %s", op, mr_status_message(st));
    return scenario_of(c, "strings in op");
}

const memory_scenario *memory_op_scenarios(int *n)
{
    mr_ops_register();
    mr_arena_init(&arena, 0);
    int n_ops, k = 0;
    const mr_op_def **all = mr_op_all(&n_ops);
    memory_scenario *out = mr_arena_array(&arena, memory_scenario, n_ops + MR_COUNT(with_strings));
    for (int i = 0; i < n_ops; i++) {
        op_case c = {.def = all[i], .key = key_of(all[i])};
        if (all[i]->op && !mr_op_absent(all[i]) && find_example(&c))
            out[k++] = scenario_of(c, "op");
    }
    for (int i = 0; i < MR_COUNT(with_strings); i++)
        out[k++] = scenario_with_strings(with_strings[i].op, with_strings[i].example);
    mr_free(all);
    *n = k;
    return out;
}

/* Of tests/harness, which trials call when an example is wrong in itself. */
void mr_test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    abort();
}
