/* tests/fuzz/graphs.c -- GraphDefs to start from. */
#include "tests/fuzz/graphs.h"

#include "base/memory.h"
#include "graph/grad.h"
#include "graph/graph_def.h"
#include "graph/random_program_fixture.h"
#include "ops/table.h"
#include "ops/example_fixture.h"
#include "proto/graph.pb-c.h"
#include "proto/saved_model.pb-c.h"
#include "tests/fuzz/pb_tree.h"
#include "train/nn.h"
#include "wire/message.h"

enum { MOST_BYTES = 24 << 10, PROGRAMS = 6 };

static fuzz_files all;
static int n_programs; /* the first ones */

static void add(const char *name, mr_str bytes)
{
    all.names = mr_realloc(all.names, (size_t)(all.n + 1) * sizeof(*all.names));
    all.bytes = mr_realloc(all.bytes, (size_t)(all.n + 1) * sizeof(*all.bytes));
    all.names[all.n] = mr_strdup(name);
    all.bytes[all.n++] = bytes;
}

/* A graph that does not survive a round trip would be a poor start. */
static void add_graph(const char *name, const mr_graph *g)
{
    mr_str bytes = {0};
    mr_graph *back = mr_graph_new();
    fuzz_must(mr_graph_export(g, &bytes), name);
    fuzz_must(mr_graph_import(back, mr_str_view(&bytes), NULL, NULL), name);
    mr_graph_unref(back);
    add(name, bytes);
}

/* ---- programs ---- */

static void arithmetic(mr_scope *s)
{
    mr_out x = mr_placeholder(s, MR_FLOAT, "x", mr_pshape_matrix(&s->graph->arena, -1, 3));
    mr_out shape = mr_emit(s, "Shape", x);
    mr_out rows =
        mr_emit_with(s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}), shape,
                     mr_const_vec_i32(s, 1, (int32_t[]){0}), mr_const_vec_i32(s, 1, (int32_t[]){1}),
                     mr_const_vec_i32(s, 1, (int32_t[]){1}));
    mr_out flat = mr_emit(s, "Reshape", x, mr_emit(s, "Pack", rows, mr_const_i32(s, -1)));
    mr_out sum =
        mr_emit_with(s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), flat, mr_const_i32(s, 1));
    mr_out both = mr_emit(s, "ConcatV2", flat, sum, mr_const_i32(s, 1));
    mr_emit(mr_as(s, "y"), "Transpose", mr_emit(s, "Mul", both, mr_const_f32(s, 2)),
            mr_const_vec_i32(s, 2, (int32_t[]){1, 0}));
    mr_emit(s, "GatherV2", both, mr_const_vec_i32(s, 2, (int32_t[]){0, 0}), mr_const_i32(s, 0));
    mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}),
                 mr_emit(s, "Greater", x, mr_const_f32(s, 0)));
}

/* Training: variables, a loss, gradients, an optimizer. */
static void training(mr_scope *s)
{
    mr_nn *n = mr_nn_new(s->graph);
    mr_out x = mr_nn_input(n, "x", MR_FLOAT, 2, (int64_t[]){-1, 3});
    mr_out y = mr_nn_input(n, "y", MR_INT32, 1, (int64_t[]){-1});
    mr_out h = mr_nn_dense(n, "h", x, 4, MR_NN_RELU);
    mr_out loss = mr_nn_softmax_loss(n, mr_nn_dense(n, "out", h, 2, MR_NN_LINEAR), y);
    mr_nn_minimize(n, loss, &(mr_nn_optimizer){.kind = MR_NN_SGD, .rate = 0.1f});
    mr_nn_initializer(n);
    mr_scope_fail(s, mr_scope_status(&n->s));
    mr_nn_free(n);
}

static void convolution(mr_scope *s)
{
    mr_out x = mr_placeholder(s, MR_FLOAT, "x",
                              mr_pshape_of(&s->graph->arena, 4, (int64_t[]){-1, 5, 5, 2}));
    mr_tensor *w = mr_tensor_of(MR_FLOAT, 4, (int64_t[]){3, 3, 2, 2}, (float[36]){1, 0, 2});
    static const int64_t ones[] = {1, 1, 1, 1}, twos[] = {1, 2, 2, 1};
    mr_out y = mr_emit_with(
        s, "Conv2D", MR_ATTRS({"strides", mr_a_ints(4, ones)}, {"padding", mr_a_str("SAME")}), x,
        mr_const(s, w));
    y = mr_emit(s, "Relu",
                mr_emit(s, "BiasAdd", y,
                        mr_const(s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){2}, (float[]){1, -1}))));
    mr_emit_with(s, "MaxPool",
                 MR_ATTRS({"ksize", mr_a_ints(4, twos)}, {"strides", mr_a_ints(4, twos)},
                          {"padding", mr_a_str("VALID")}),
                 y);
}

static void queue(mr_scope *s)
{
    static const int types[] = {MR_FLOAT};
    mr_out q = mr_emit0_with(
        s, "FIFOQueueV2",
        MR_ATTRS({"component_types", mr_a_types(1, types)}, {"capacity", mr_a_int(3)}));
    mr_out x = mr_placeholder(s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out put = mr_emit(mr_as(s, "put"), "QueueEnqueueV2", q, x);
    mr_out many = mr_emit(s, "QueueEnqueueManyV2", q,
                          mr_const(s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){2}, (float[]){1, 2})));
    mr_vec_push(&s->controls, put.node);
    mr_out got =
        mr_emit_with(s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    mr_vec_push(&s->controls, many.node);
    mr_emit_with(s, "QueueDequeueManyV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q,
                 mr_const_i32(s, 1));
    mr_emit(s, "QueueSizeV2", q);
    mr_emit(s, "QueueCloseV2", q);
    mr_emit(mr_as(s, "y"), "Neg", got);
}

static void variables(mr_scope *s)
{
    const mr_pshape *two = mr_pshape_vector(&s->graph->arena, 2);
    mr_out value = mr_const(s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){2}, (float[]){1, 2}));
    mr_out h = mr_emit0_with(s, "VarHandleOp",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(two)}));
    mr_out v = mr_emit0_with(s, "VariableV2",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(two)}));
    mr_out a = mr_emit(s, "AssignVariableOp", h, value), b = mr_emit(s, "Assign", v, value);
    mr_vec_push(&s->controls, a.node);
    mr_vec_push(&s->controls, b.node);
    mr_emit(s, "AssignAddVariableOp", h, value);
    mr_out read = mr_emit_with(s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), h);
    mr_emit(mr_as(s, "y"), "Add", read, mr_emit(s, "AssignSub", v, value));
    mr_emit(s, "ScatterUpdate", v, mr_const_vec_i32(s, 1, (int32_t[]){1}),
            mr_const(s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){1}, (float[]){5})));
}

static void tensor_array(mr_scope *s)
{
    mr_out ta = mr_emit_with(s, "TensorArrayV3", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}),
                             mr_const_i32(s, 2));
    mr_out x = mr_placeholder(s, MR_FLOAT, "x", NULL), flow = mr_nth(ta, 1);
    for (int i = 0; i < 2; i++)
        flow = mr_emit(s, "TensorArrayWriteV3", ta, mr_const_i32(s, i), x, flow);
    mr_emit_with(s, "TensorArrayReadV3", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), ta,
                 mr_const_i32(s, 1), flow);
    mr_emit_with(mr_as(s, "y"), "TensorArrayGatherV3", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), ta,
                 mr_const_vec_i32(s, 2, (int32_t[]){0, 1}), flow);
    mr_out stack = mr_emit_with(s, "StackV2", MR_ATTRS({"elem_type", mr_a_type(MR_FLOAT)}),
                                mr_const_i32(s, 3));
    mr_out pushed = mr_emit(s, "StackPushV2", stack, x);
    mr_vec_push(&s->controls, pushed.node);
    mr_emit_with(s, "StackPopV2", MR_ATTRS({"elem_type", mr_a_type(MR_FLOAT)}), stack);
}

/* A random program with loops and conditionals, and on every second one its gradient. */
static void program(mr_scope *s, uint64_t seed)
{
    mr_fb b;
    mr_gradient dx[MR_RANDOM_PROGRAM_INPUTS];
    mr_out x[MR_RANDOM_PROGRAM_INPUTS];
    mr_fb_init(&b, s->graph);
    for (int i = 0; i < MR_RANDOM_PROGRAM_INPUTS; i++) {
        x[i] = mr_placeholder(&b.s, MR_DOUBLE, "x", seed % 3 ? &mr_pshape_scalar : NULL);
        mr_fb_adopt(&b, x[i]);
    }
    mr_out y = mr_random_program(&b, x, seed, seed % 3 == 0, true);
    if (seed % 2)
        mr_scope_fail(s,
                      mr_graph_gradients(s->graph, &y, 1, x, MR_RANDOM_PROGRAM_INPUTS, NULL, dx));
    mr_fb_deinit(&b);
}

static const char function_call[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } "
    "  attr { key: 'shape' value { shape { unknown_rank: true } } } } "
    "node { name: 'f' op: 'F' input: 'x' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } } "
    "node { name: 'call' op: 'PartitionedCall' input: 'f' input: 'x' "
    "  attr { key: 'Tin' value { list { type: DT_FLOAT type: DT_FLOAT } } } "
    "  attr { key: 'Tout' value { list { type: DT_FLOAT } } } attr { key: 'f' value { func { name: "
    "'F' "
    "    attr { key: 'T' value { type: DT_FLOAT } } } } } } "
    "node { name: 'grad' op: 'SymbolicGradient' input: 'x' input: 'x' input: 'f' "
    "  attr { key: 'Tin' value { list { type: DT_FLOAT type: DT_FLOAT type: DT_FLOAT } } } "
    "  attr { key: 'Tout' value { list { type: DT_FLOAT type: DT_FLOAT } } } "
    "  attr { key: 'f' value { func { name: 'F' attr { key: 'T' value { type: DT_FLOAT } } } } } } "
    "library { function { signature { name: 'F' input_arg { name: 'a' type_attr: 'T' } "
    "  input_arg { name: 'b' type_attr: 'T' } output_arg { name: 'z' type_attr: 'T' } "
    "  attr { name: 'T' type: 'type' allowed_values { list { type: DT_FLOAT type: DT_DOUBLE } } } "
    "} "
    "node_def { name: 'm' op: 'Mul' input: 'a' input: 'b' attr { key: 'T' value { placeholder: 'T' "
    "} } } "
    "node_def { name: 'n' op: 'Tanh' input: 'm:z:0' attr { key: 'T' value { placeholder: 'T' } } } "
    "ret { key: 'z' value: 'n:y:0' } } } versions { producer: 1087 }";

/* ---- all of them ---- */

static void add_built(const char *name, void (*build)(mr_scope *s), uint64_t seed)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    if (build)
        build(&s);
    else
        program(&s, seed);
    fuzz_must(mr_scope_status(&s), name);
    add_graph(name, g);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

static void add_programs(void)
{
    mr_str bytes = {0};
    add_built("arithmetic", arithmetic, 0);
    add_built("training", training, 0);
    add_built("convolution", convolution, 0);
    add_built("queue", queue, 0);
    add_built("variables", variables, 0);
    add_built("tensor array", tensor_array, 0);
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
        add_built("program", NULL, seed);
    fuzz_pack_text(&tensorflow__graph_def__descriptor, function_call, &bytes);
    add("function call", bytes);
}

/* The graph of the first example that works. */
static void add_op(const mr_op_def *d)
{
    mr_arena a;
    mr_dtype types[64] = {MR_INVALID};
    int n_types = mr_trial_types(d, types, MR_COUNT(types));
    bool found = false;
    mr_arena_init(&a, 0);
    for (int i = 0; !found && d->op->examples && d->op->examples[i]; i++) {
        mr_trial t;
        mr_example *e;
        fuzz_must(mr_example_parse(&a, d->op->examples[i], &e), d->name);
        mr_trial_init(&t, d, e,
                      types[n_types ? (int)(mr_hash64(d->name, 3) % (uint64_t)n_types) : 0],
                      MR_TRIAL_CONST);
        mr_status *st = e->fails ? NULL : mr_trial_steps(&t);
        found = !e->fails && !st && !t.skipped;
        if (found)
            add_graph(d->name, t.graph);
        mr_status_free(st);
        mr_trial_deinit(&t);
    }
    mr_arena_deinit(&a);
}

static void add_ops(void)
{
    int n;
    const mr_op_def **ops = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        if (!mr_trial_excuse(ops[i]->name) && ops[i]->name[0] != '_')
            add_op(ops[i]);
    mr_free(ops);
}

static void add_golden(void)
{
    char *graphs = fuzz_golden("graphs"), *text = fuzz_golden("pbtxt");
    fuzz_files pbtxt = {0};
    fuzz_files_add(&all, graphs, "_net.pb", MOST_BYTES);
    fuzz_files_add(&pbtxt, text, ".pbtxt", MOST_BYTES);
    for (int i = 0; i < pbtxt.n; i++) {
        mr_str bytes = {0};
        fuzz_pack_text(&tensorflow__graph_def__descriptor, mr_str_z(&pbtxt.bytes[i]), &bytes);
        add(pbtxt.names[i], bytes);
        mr_str_deinit(&pbtxt.bytes[i]);
        mr_free(pbtxt.names[i]);
    }
    mr_free(pbtxt.names);
    mr_free(pbtxt.bytes);
    mr_free(graphs);
    mr_free(text);
}

const fuzz_files *fuzz_graphs(void)
{
    if (all.n)
        return &all;
    mr_ops_register();
    fuzz_must(mr_op_check_all(), "the table of ops");
    add_programs();
    n_programs = all.n;
    add_ops();
    add_golden();
    fuzz_files_add(&all, "tests/fuzz/seeds/graph", "", MOST_BYTES);
    return &all;
}

const mr_str *fuzz_pick_graph(fuzz_rng *r)
{
    const mr_str *a = &all.bytes[fuzz_below(r, (uint64_t)all.n)];
    const mr_str *b = &all.bytes[fuzz_below(r, (uint64_t)all.n)];
    if (fuzz_once_in(r, 4)) /* the programs written here, which combine several features */
        return &all.bytes[fuzz_below(r, (uint64_t)n_programs)];
    return a->n <= b->n || fuzz_once_in(r, 8) ? a : b;
}
