/* capi/pipeline_test.c -- pipelines: the step of the whole batch, in less simulated time. */
#include "train/pipeline.h"

#include <stdio.h>

#include "base/memory.h"
#include "exec/device_sim.h"
#include "exec/session.h"
#include "millrace/cluster.h"
#include "ops/table.h"
#include "passes/assign.h"
#include "tests/harness/test.h"

enum { WIDTH = 12, BATCH = 48, MOST = 4 };

static const char *const devices[MOST] = {"/device:SIM:0", "/device:SIM:1", "/device:SIM:2", "/device:SIM:3"};

typedef struct bench {
    mr_graph *graph;
    mr_nn *net;
    mr_out x, y, loss;
    mr_node *train;
    mr_session *s;
    int n_stages;
    bool rows; /* the first stage looks up rows */
} bench;

/* A layer a stage; the last has the loss. */
static mr_out stage(void *arg, int i, mr_out x, const mr_out *parts)
{
    bench *b = arg;
    char name[16];
    snprintf(name, sizeof name, "stage%d", i);
    if (i == 0 && b->rows)
        x = mr_nn_embedding(
            b->net, "rows",
            mr_emit_with(&b->net->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}),
                         mr_emit(&b->net->s, "Slice", x, mr_const_vec_i32(&b->net->s, 2, (int32_t[]){0, 0}),
                                 mr_const_vec_i32(&b->net->s, 2, (int32_t[]){-1, 1}))),
            64, WIDTH);
    if (i == 0 && b->rows)
        x = mr_emit(&b->net->s, "Reshape", x, mr_const_vec_i32(&b->net->s, 2, (int32_t[]){-1, WIDTH}));
    mr_out h = mr_nn_dense(b->net, name, x, WIDTH, MR_NN_TANH);
    return i == b->n_stages - 1 ? mr_nn_squared_loss(b->net, h, parts[1]) : h;
}

static void begin(bench *b, int n_stages)
{
    mr_ops_register();
    b->n_stages = n_stages;
    b->graph = mr_graph_new();
    b->net = mr_nn_new(b->graph);
    b->x = mr_nn_input(b->net, "x", MR_FLOAT, 2, (int64_t[]){-1, WIDTH});
    b->y = mr_nn_input(b->net, "y", MR_FLOAT, 2, (int64_t[]){-1, WIDTH});
}

/* n_micro 0: without a pipeline. */
static void build(bench *b, int n_micro, mr_pipeline_order order, mr_nn_optimizer_kind kind)
{
    mr_nn_optimizer o = {kind, 0.1f, MR_NO_OUT, 0.9f, 0.99f, 1e-3f, 0};
    mr_out inputs[] = {b->x, b->y};
    if (n_micro) {
        mr_nn_pipeline p = {b->n_stages, n_micro, devices, order, stage, b};
        b->train = mr_nn_pipeline_minimize(b->net, &p, inputs, 2, &o, &b->loss);
    } else {
        mr_out h = b->x;
        for (int i = 0; i < b->n_stages; i++)
            h = stage(b, i, h, inputs);
        b->loss = h;
        b->train = mr_nn_minimize(b->net, h, &o);
    }
    MR_CHECK_OK(mr_scope_status(&b->net->s));
}

static void open_session(bench *b)
{
    mr_device_sims sims = {0};
    mr_node *init = mr_nn_initializer(b->net);
    MR_CHECK_OK(mr_device_sims_parse(&sims, MR_SV("SIM:0=op=1us;SIM:1=op=1us;SIM:2=op=1us;SIM:3=op=1us")));
    MR_CHECK_OK(mr_direct_session_new(b->graph, NULL, &(mr_session_config){.simulated = &sims}, &b->s));
    mr_device_sims_deinit(&sims);
    MR_CHECK_OK(mr_session_run(b->s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
}

static mr_status *step(bench *b, int batch, int seed, float *loss)
{
    mr_tensor *v[2], *out = NULL;
    for (int k = 0; k < 2; k++) {
        MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){batch, WIDTH}, &v[k]));
        for (int i = 0; i < batch * WIDTH; i++)
            MR_DATA(float, v[k])[i] = (float)((i * 37 + seed * 11 + k * 5) % 64) / (k || !b->rows ? 64.0f : 1.0f);
    }
    mr_out feeds[] = {b->x, b->y};
    mr_status *st = mr_session_run(b->s,
                                   &(mr_run_args){.feeds = feeds,
                                                  .feed_values = v,
                                                  .n_feeds = 2,
                                                  .fetches = &b->loss,
                                                  .fetched = &out,
                                                  .n_fetches = 1,
                                                  .targets = &b->train,
                                                  .n_targets = 1},
                                   NULL, NULL);
    if (!st)
        *loss = *MR_DATA(float, out);
    mr_tensor_unref(out);
    mr_tensor_unref(v[0]);
    mr_tensor_unref(v[1]);
    return st;
}

static void end(bench *b)
{
    mr_session_free(b->s);
    mr_nn_free(b->net);
    mr_graph_unref(b->graph);
}

static void check_equal(int n_stages, int n_micro, mr_pipeline_order order, mr_nn_optimizer_kind kind, bool rows)
{
    bench whole = {.rows = rows}, piped = {.rows = rows};
    begin(&whole, n_stages);
    begin(&piped, n_stages);
    build(&whole, 0, order, kind);
    build(&piped, n_micro, order, kind);
    open_session(&whole);
    open_session(&piped);
    MR_CHECK_INT(whole.net->vars.n, piped.net->vars.n);
    for (int i = 0; i < 10; i++) {
        float a, b;
        MR_CHECK_OK(step(&whole, BATCH, i, &a));
        MR_CHECK_OK(step(&piped, BATCH, i, &b));
        MR_CHECK_NEAR(a, b, 2e-6 * (1 + fabsf(a)));
    }
    end(&whole);
    end(&piped);
}

MR_TEST(pipeline_step_is_that_of_the_whole_batch)
{
    check_equal(2, 4, MR_ORDER_FILL_DRAIN, MR_NN_SGD, false);
    check_equal(3, 3, MR_ORDER_1F1B, MR_NN_MOMENTUM, false);
    check_equal(4, 8, MR_ORDER_FILL_DRAIN, MR_NN_ADAM, false);
    check_equal(4, 8, MR_ORDER_1F1B, MR_NN_ADAM, false);
    check_equal(1, 6, MR_ORDER_1F1B, MR_NN_SGD, false);
    check_equal(4, 1, MR_ORDER_1F1B, MR_NN_SGD, false);
}

MR_TEST(pipeline_step_with_rows_is_that_of_the_whole_batch)
{
    check_equal(3, 4, MR_ORDER_1F1B, MR_NN_SGD, true);
    check_equal(2, 4, MR_ORDER_FILL_DRAIN, MR_NN_ADAGRAD, true);
}

MR_TEST(pipeline_refuses_batches_that_cannot_be_cut)
{
    bench b = {0};
    float loss;
    begin(&b, 2);
    build(&b, 5, MR_ORDER_1F1B, MR_NN_SGD);
    open_session(&b);
    MR_CHECK_ERR(step(&b, BATCH, 0, &loss), MR_INVALID_ARGUMENT, "");
    MR_CHECK_OK(step(&b, 50, 0, &loss));
    end(&b);
}

/* ---- values that stages must not share ---- */

typedef enum shortcut { RESULT, VARIABLE, EARLIER_VARIABLE, EARLIER_RESULT, STOPPED } shortcut;

typedef struct leap {
    bench b;
    shortcut how;
    mr_out first, before; /* the result of stage 0; a variable that was there before */
} leap;

/* Three stages; the last also uses what is not its own. */
static mr_out leaping_stage(void *arg, int i, mr_out x, const mr_out *parts)
{
    leap *l = arg;
    mr_nn *n = l->b.net;
    mr_out h = stage(&l->b, i, x, parts);
    if (i == 0)
        l->first = h;
    if (i < 2)
        return h;
    n->reuse |= l->how == VARIABLE;
    mr_out more = l->how == VARIABLE ? mr_nn_dense(n, "stage0", parts[0], WIDTH, MR_NN_TANH)
                  : l->how == STOPPED ? mr_emit(&n->s, "StopGradient", l->first)
                  : l->how == RESULT ? l->first : l->before;
    return mr_emit(&n->s, "AddV2", h, mr_nn_squared_loss(n, more, parts[1]));
}

static mr_status *leap_by(shortcut how)
{
    leap l = {.how = how};
    mr_out loss;
    begin(&l.b, 3);
    mr_nn *n = l.b.net;
    l.before = mr_nn_variable(n, "before", MR_FLOAT, 1, (int64_t[]){WIDTH}, (mr_nn_init){MR_NN_CONSTANT, 1, 0}, true);
    mr_out x = how == EARLIER_RESULT ? mr_emit(&n->s, "Mul", l.b.x, l.before) : l.b.x;
    mr_nn_pipeline p = {3,
                        2,
                        devices,
                        MR_ORDER_1F1B,
                        how == EARLIER_RESULT ? stage : leaping_stage,
                        how == EARLIER_RESULT ? (void *)&l.b : &l};
    mr_node *train = mr_nn_pipeline_minimize(n, &p, (mr_out[]){x, l.b.y}, 2,
                                             &(mr_nn_optimizer){MR_NN_SGD, 0.1f, MR_NO_OUT, 0, 0, 0, 0}, &loss);
    mr_status *st = mr_status_copy(n->s.st);
    MR_CHECK(!st == !!train);
    end(&l.b);
    return st;
}

/* Each would have a gradient that is not whole, and nobody would see it. */
MR_TEST(pipeline_refuses_gradients_that_would_not_be_whole)
{
    MR_CHECK_ERR(leap_by(RESULT), MR_INVALID_ARGUMENT, "stage 2 of the pipeline uses");
    MR_CHECK_ERR(leap_by(VARIABLE), MR_INVALID_ARGUMENT, "stage 2 of the pipeline uses 'stage0/");
    MR_CHECK_ERR(leap_by(EARLIER_VARIABLE), MR_INVALID_ARGUMENT, "stage 2 of the pipeline uses 'before/Read'");
    MR_CHECK_ERR(leap_by(EARLIER_RESULT), MR_INVALID_ARGUMENT, "stage 0 of the pipeline uses");
    MR_CHECK_OK(leap_by(STOPPED));
}

/* ---- simulated time ---- */

typedef struct work {
    mr_workload w;
    int n, n_inputs;
    int *number; /* by node id; -1: no step needs it */
    int *group, *first, *device_of;
    double *seconds;
    mr_workload_input *inputs;
    mr_workload_link links[(MOST + 1) * (MOST + 1)];
} work;

/* MOST: of no stage. */
static int device_number(const mr_node *n)
{
    const mr_attr *with = mr_node_attr(n, "_class");
    if (!n->device[0] && with && with->n == 1 && with->ss[0].n > 5) {
        mr_sv name = {with->ss[0].p + 5, with->ss[0].n - 5}; /* behind "loc:@" */
        const mr_node *to = mr_graph_find(n->graph, name);
        return to && to != n ? device_number(to) : MOST;
    }
    for (int i = 0; i < MOST; i++)
        if (strcmp(n->device, devices[i]) == 0)
            return i;
    return MOST;
}

/* Producers first. */
static void visit(work *w, mr_node *n)
{
    if (w->number[n->id] != -1)
        return;
    w->number[n->id] = -2;
    for (int i = 0; i < n->n_in; i++)
        visit(w, n->in[i].node);
    for (int i = 0; i < n->n_ctrl; i++)
        visit(w, n->ctrl[i]);
    int at = w->n++, on = device_number(n);
    bool free = mr_node_is(n, "Const") || mr_node_is(n, "VarHandleOp") || mr_node_is(n, "ReadVariableOp") ||
                mr_node_is(n, "NoOp");
    w->number[n->id] = at;
    w->group[at] = at;
    w->device_of[at] = on;
    for (int d = 0; d <= MOST; d++)
        w->seconds[at * (MOST + 1) + d] = free || on == MOST ? 0 : mr_node_is(n, "MatMul") ? 1 : 0.01;
    w->first[at] = w->n_inputs;
    for (int i = 0; i < n->n_in + n->n_ctrl; i++) {
        const mr_node *from = i < n->n_in ? n->in[i].node : n->ctrl[i - n->n_in];
        w->inputs[w->n_inputs] = (mr_workload_input){w->number[from->id], w->n_inputs, 0};
        w->n_inputs++;
    }
    w->first[at + 1] = w->n_inputs;
}

/* A product takes 1 and anything else of a stage little, as with large layers; what they take together, and in this
 * graph. */
static void simulate(const bench *b, double *alone, double *together)
{
    work w = {0};
    int n = b->graph->nodes.n, n_edges = 1;
    for (int i = 0; i < n; i++)
        n_edges += b->graph->nodes.p[i]->n_in + b->graph->nodes.p[i]->n_ctrl;
    w.number = mr_new_array(int, n);
    w.group = mr_new_array(int, n);
    w.first = mr_new_array(int, n + 1);
    w.device_of = mr_new_array(int, n);
    w.seconds = mr_new_array(double, n * (MOST + 1));
    w.inputs = mr_new_array(mr_workload_input, n_edges);
    for (int i = 0; i < n; i++)
        w.number[i] = -1;
    for (int i = 0; i < MR_COUNT(w.links); i++)
        w.links[i] = (mr_workload_link){0, 1e9};
    visit(&w, b->train);
    w.w = (mr_workload){.n_nodes = w.n,
                        .n_groups = w.n,
                        .n_devices = MOST + 1,
                        .n_tensors = w.n_inputs,
                        .group = w.group,
                        .seconds = w.seconds,
                        .first_input = w.first,
                        .inputs = w.inputs,
                        .links = w.links};
    *alone = 0;
    for (int i = 0; i < w.n; i++)
        *alone += w.seconds[i * (MOST + 1)];
    MR_CHECK_OK(mr_assign_simulate(&w.w, w.device_of, NULL, NULL, together));
    void *const memory[] = {w.number, w.group, w.first, w.device_of, w.seconds, w.inputs};
    for (int i = 0; i < MR_COUNT(memory); i++)
        mr_free(memory[i]);
}

MR_TEST(pipeline_of_4_stages_and_8_micro_batches_is_2_5_times_as_fast)
{
    for (int order = MR_ORDER_FILL_DRAIN; order <= MR_ORDER_1F1B; order++) {
        bench b = {0};
        double alone, together;
        begin(&b, 4);
        build(&b, 8, (mr_pipeline_order)order, MR_NN_SGD);
        simulate(&b, &alone, &together);
        if (alone / together < 2.5)
            mr_test_fail(__FILE__, __LINE__, "%g against %g: %.2f times", alone, together, alone / together);
        end(&b);
    }
}

/* ---- as a client sees it ---- */

static TF_Output client_stage(void *arg, mr_model *m, int i, TF_Output x, const TF_Output *inputs)
{
    ++*(int *)arg;
    TF_Output h = mr_dense(m, i ? "second" : "first", x, 4, MR_TANH);
    return i ? mr_squared_loss(m, h, inputs[1]) : h;
}

MR_TEST(pipeline_is_built_by_the_client)
{
    TF_Status *st = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    mr_model *m = mr_model_new(g);
    int calls = 0;
    TF_Output loss,
        in[] = {mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 4}), mr_input(m, "y", TF_FLOAT, 2, (int64_t[]){-1, 4})};
    mr_pipeline_options o = {sizeof o,     2,     (const char *const[]){"/cpu:0", "/cpu:0"}, 3, MR_PIPELINE_1F1B,
                             client_stage, &calls};
    MR_CHECK(mr_pipeline_minimize(m, in, 2, mr_sgd(0.1f), &o, &loss) != NULL);
    mr_model_status(m, st);
    MR_CHECK_INT(TF_GetCode(st), TF_OK);
    MR_CHECK_INT(calls, 6);
    MR_CHECK_INT(mr_parameter_count(m), 2 * (4 * 4 + 4));
    mr_pipeline_figures f = {.struct_size = sizeof f};
    mr_pipeline_predict(&o, (double[]){1, 1}, (double[]){2, 2}, 0, &f, st);
    MR_CHECK_INT(TF_GetCode(st), TF_OK);
    MR_CHECK_NEAR(f.bubble, 0.25, 1e-9); /* (2 - 1) / (3 + 2 - 1) */
    mr_model_free(m);
    TF_DeleteGraph(g);
    TF_DeleteStatus(st);
}

static TF_Output no_stage(void *arg, mr_model *m, int i, TF_Output x, const TF_Output *inputs)
{
    (void)arg, (void)m, (void)i, (void)x, (void)inputs;
    return (TF_Output){NULL, -1};
}

static void refuse(mr_pipeline_options o, const char *text)
{
    TF_Status *st = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    mr_model *m = mr_model_new(g);
    TF_Output in = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 4});
    MR_CHECK(mr_pipeline_minimize(m, &in, 1, mr_sgd(0.1f), &o, NULL) == NULL);
    mr_model_status(m, st);
    MR_CHECK_INT(TF_GetCode(st), TF_INVALID_ARGUMENT);
    if (!strstr(TF_Message(st), text))
        mr_test_fail(__FILE__, __LINE__, "'%s' does not have '%s'", TF_Message(st), text);
    mr_model_free(m);
    TF_DeleteGraph(g);
    TF_DeleteStatus(st);
}

MR_TEST(pipeline_that_cannot_be_is_refused)
{
    const char *const here[] = {"/cpu:0"};
    int calls = 0;
    refuse((mr_pipeline_options){sizeof(mr_pipeline_options), 1, here, 2, MR_PIPELINE_1F1B, NULL, NULL}, "function");
    refuse((mr_pipeline_options){sizeof(mr_pipeline_options), 0, here, 2, MR_PIPELINE_1F1B, client_stage, &calls},
           "num_stages 0");
    refuse((mr_pipeline_options){sizeof(mr_pipeline_options), 1, here, 0, MR_PIPELINE_1F1B, client_stage, &calls},
           "0 micro-batches");
    refuse((mr_pipeline_options){sizeof(mr_pipeline_options), 1, here, 2, (mr_pipeline_kind)9, client_stage, &calls},
           "order");
    refuse((mr_pipeline_options){sizeof(mr_pipeline_options), 1, here, 2, MR_PIPELINE_1F1B, no_stage, NULL}, "");
}
