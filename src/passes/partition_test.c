/* passes/partition_test.c -- graphs cut over the devices of two tasks: what is sent, and when it is asked for. */
#include "base/memory.h"
#include "graph/scope.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

#define PS "/job:ps/replica:0/task:0/device:CPU:0"
#define WORKER "/job:worker/replica:0/task:0/device:CPU:0"
#define SECOND "/job:worker/replica:0/task:0/device:CPU:1"

enum { N_DEVICES = 3 };

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_device *devices[N_DEVICES]; /* the worker's is the client's */
    mr_graph *parts[N_DEVICES];
    mr_prepare_options o;
} bench;

static void begin(bench *b)
{
    static const char *const names[] = {WORKER, SECOND, PS};
    *b = (bench){.g = mr_graph_new()};
    mr_ops_register();
    mr_scope_init(&b->s, b->g, "");
    for (int i = 0; i < N_DEVICES; i++)
        MR_CHECK_OK(mr_device_new_cpu(names[i], NULL, &b->devices[i]));
    b->o = (mr_prepare_options){.devices = b->devices, .n_devices = N_DEVICES, .no_fold = true, .no_cse = true};
}

static mr_scope *on(bench *b, const char *device)
{
    b->s.device = device;
    return &b->s;
}

/* Something made on a device. */
static mr_out value_on(bench *b, const char *device)
{
    on(b, device);
    mr_out v = mr_const_f32(&b->s, 1);
    return mr_emit(&b->s, "Identity", v);
}

static mr_out matrix_on(bench *b, const char *device, int64_t rows, int64_t cols)
{
    const mr_pshape *shape = mr_pshape_of(&b->g->arena, 2, (int64_t[]){rows, cols});
    on(b, device);
    mr_out v = mr_emit0_with(&b->s, "VariableV2", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(shape)}));
    return mr_emit(&b->s, "Identity", v);
}

static void drop_parts(bench *b)
{
    for (int i = 0; i < N_DEVICES; i++) {
        mr_graph_unref(b->parts[i]);
        b->parts[i] = NULL;
    }
}

static void cut(bench *b, const mr_out *fetches, int n)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    drop_parts(b);
    MR_CHECK_OK(mr_prepare(b->g, &(mr_run_signature){.fetches = fetches, .n_fetches = n}, &b->o, b->parts));
}

static void end(bench *b)
{
    drop_parts(b);
    for (int i = 0; i < N_DEVICES; i++)
        mr_device_free(b->devices[i]);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static int count(const bench *b, int device, const char *op)
{
    int n = 0;
    const mr_graph *g = b->parts[device];
    for (int i = 0; g && i < g->nodes.n; i++)
        n += mr_node_is(g->nodes.p[i], op);
    return n;
}

static int count_all(const bench *b, const char *op) { return count(b, 0, op) + count(b, 1, op) + count(b, 2, op); }

/* ---- what is sent ---- */

MR_TEST(partition_sends_a_tensor_once_to_a_device)
{
    bench b;
    begin(&b);
    mr_out x = value_on(&b, PS);
    mr_out y[] = {mr_emit(on(&b, WORKER), "Neg", x), mr_emit(&b.s, "Square", x), mr_emit(&b.s, "AddV2", x, x),
                  mr_emit(on(&b, SECOND), "Exp", x), mr_emit(&b.s, "Abs", x)};
    cut(&b, y, 3);
    MR_CHECK(count(&b, 2, "_Send") == 1 && count(&b, 0, "_Recv") == 1);
    cut(&b, y, 5); /* to the second device too, whose results are fetched by the first */
    MR_CHECK(count(&b, 2, "_Send") == 2 && count(&b, 0, "_Recv") == 3 && count(&b, 1, "_Recv") == 1);
    MR_CHECK_INT(count(&b, 1, "_Send"), 2);
    end(&b);
}

MR_TEST(partition_sends_control_edges_as_empty_tensors_once)
{
    bench b;
    begin(&b);
    mr_out x = value_on(&b, PS);
    mr_out y[2];
    for (int i = 0; i < 2; i++) {
        y[i] = value_on(&b, WORKER);
        mr_node_add_control(y[i].node, x.node);
    }
    cut(&b, y, 2);
    MR_CHECK(count(&b, 2, "_Send") == 1 && count(&b, 0, "_Recv") == 1);
    for (int i = 0; i < b.parts[2]->nodes.n; i++) {
        const mr_node *send = b.parts[2]->nodes.p[i];
        mr_tensor *token;
        if (!mr_node_is(send, "_Send"))
            continue;
        MR_CHECK(mr_node_is(send->in[0].node, "Const"));
        MR_CHECK_OK(mr_node_get_tensor(send->in[0].node, "value", &token));
        MR_CHECK_INT(token->n, 0);
        mr_tensor_unref(token);
    }
    end(&b);
}

/* Each reader sees the variable at its own time. */
MR_TEST(partition_does_not_share_reads_of_references)
{
    bench b;
    begin(&b);
    mr_out v = matrix_on(&b, PS, 1, 1).node->in[0];
    mr_out y[] = {mr_emit(on(&b, WORKER), "Neg", v), mr_emit(&b.s, "Square", v)};
    cut(&b, y, 2);
    MR_CHECK_INT(count(&b, 2, "_Send"), 2);
    end(&b);
}

/* ---- lossy edges ---- */

MR_TEST(partition_casts_floats_between_tasks_when_asked)
{
    bench b;
    begin(&b);
    mr_out x = value_on(&b, PS);
    mr_out y[] = {mr_emit(on(&b, WORKER), "Neg", x), mr_emit(&b.s, "Square", x)};
    mr_node_add_control(y[1].node, mr_emit(on(&b, PS), "Exp", x).node); /* nothing to be lost in an empty tensor */
    cut(&b, y, 2);
    MR_CHECK_INT(count_all(&b, "Cast"), 0);
    b.o.lossy = true;
    cut(&b, y, 2);
    MR_CHECK(count(&b, 2, "Cast") == 2 && count(&b, 0, "Cast") == 2);
    end(&b);
}

MR_TEST(partition_casts_neither_inside_a_task_nor_other_types)
{
    bench b;
    begin(&b);
    mr_out x = value_on(&b, SECOND);
    mr_out z = mr_emit_with(on(&b, PS), "Cast", MR_ATTRS({"DstT", mr_a_type(MR_DOUBLE)}), value_on(&b, PS));
    mr_out y[] = {mr_emit(on(&b, WORKER), "Neg", x), mr_emit(&b.s, "Neg", z)};
    b.o.lossy = true;
    cut(&b, y, 2);
    MR_CHECK(count_all(&b, "Cast") == 1 && count_all(&b, "_Send") == 2); /* the one is ours */
    end(&b);
}

MR_TEST(partition_asks_the_node_first_whether_it_is_lossy)
{
    bench b;
    begin(&b);
    mr_out x = value_on(&b, PS);
    mr_out y = mr_emit(on(&b, WORKER), "Neg", x);
    mr_node_set_attr(x.node, MR_LOSSY_ATTR, mr_a_bool(true));
    cut(&b, &y, 1);
    MR_CHECK_INT(count_all(&b, "Cast"), 2);
    mr_node_set_attr(x.node, MR_LOSSY_ATTR, mr_a_bool(false));
    b.o.lossy = true;
    cut(&b, &y, 1);
    MR_CHECK_INT(count_all(&b, "Cast"), 0);
    end(&b);
}

/* ---- when it is asked for ---- */

enum { LAYERS = 12, SIZE = 1024 };

/* x W0 W1 ..., the matrices on the parameter server. */
static mr_out chain(bench *b, mr_out *w)
{
    mr_out y = matrix_on(b, WORKER, SIZE, SIZE);
    for (int i = 0; i < LAYERS; i++) {
        w[i] = matrix_on(b, PS, SIZE, SIZE);
        y = mr_emit(on(b, WORKER), "MatMul", y, w[i]);
    }
    return y;
}

/* The Recv of a node's value on the worker; NULL: none. */
static const mr_node *recv_of(const bench *b, mr_out o)
{
    const mr_graph *g = b->parts[0];
    size_t n = strlen(o.node->name);
    for (int i = 0; i < g->nodes.n; i++)
        if (mr_node_is(g->nodes.p[i], "_Recv") && strncmp(g->nodes.p[i]->name, o.node->name, n) == 0 &&
            g->nodes.p[i]->name[n] == '/')
            return g->nodes.p[i];
    return NULL;
}

static int n_held(const bench *b, const mr_out *w)
{
    int n = 0;
    for (int i = 0; i < LAYERS; i++) {
        const mr_node *r = recv_of(b, w[i]);
        MR_CHECK(r && r->n_ctrl <= 1);
        if (r->n_ctrl)
            MR_CHECK(mr_node_is(r->ctrl[0], "ControlTrigger"));
        n += r->n_ctrl;
    }
    return n;
}

MR_TEST(schedule_holds_back_what_is_needed_late)
{
    bench b;
    mr_out w[LAYERS];
    begin(&b);
    mr_out y = chain(&b, w);
    cut(&b, &y, 1);
    MR_CHECK(n_held(&b, w) >= LAYERS - 4);
    MR_CHECK_INT(recv_of(&b, w[0])->n_ctrl, 0); /* what is needed first is asked for at once */
    b.o.lossy = true; /* the Cast behind the Recv does not hide who needs it */
    cut(&b, &y, 1);
    MR_CHECK(n_held(&b, w) >= LAYERS - 4);
    b.o.schedule = MR_SCHEDULE_NONE;
    cut(&b, &y, 1);
    MR_CHECK_INT(n_held(&b, w), 0);
    end(&b);
}

/* Where the line is the bottleneck, every wait would make the step longer. */
MR_TEST(schedule_lets_a_busy_line_run)
{
    bench b;
    begin(&b);
    mr_out y = matrix_on(&b, WORKER, 1, SIZE);
    for (int i = 0; i < LAYERS; i++) {
        mr_out w = matrix_on(&b, PS, SIZE, SIZE);
        y = mr_emit(on(&b, WORKER), "MatMul", y, w);
    }
    cut(&b, &y, 1);
    MR_CHECK_INT(count(&b, 0, "ControlTrigger"), 0);
    end(&b);
}

/* One consumer waits for the chain, the other for nothing: held back, the value would keep it waiting for what has nothing
 * to do with it. */
MR_TEST(schedule_makes_nobody_wait_for_more_than_before)
{
    bench b;
    mr_out w[LAYERS], y[2];
    begin(&b);
    y[0] = chain(&b, w);
    y[1] = mr_emit(on(&b, WORKER), "Neg", w[LAYERS - 1]);
    b.o.schedule = MR_SCHEDULE_ALL;
    cut(&b, y, 2);
    MR_CHECK_INT(recv_of(&b, w[LAYERS - 1])->n_ctrl, 0);
    MR_CHECK_INT(recv_of(&b, w[LAYERS - 2])->n_ctrl, 1);
    end(&b);
}

/* A Merge may go on with its first input, and so must the Recv behind it. */
MR_TEST(schedule_knows_that_a_merge_does_not_wait_for_all)
{
    bench b;
    mr_out w[LAYERS];
    begin(&b);
    mr_out late = chain(&b, w);
    mr_out p = mr_placeholder(on(&b, WORKER), MR_BOOL, "p", &mr_pshape_scalar);
    mr_out sides = mr_emit(&b.s, "Switch", late, p);
    mr_out early = mr_emit(&b.s, "Switch", matrix_on(&b, WORKER, SIZE, SIZE), p);
    mr_out both = mr_emit(&b.s, "Merge", sides, mr_nth(early, 1));
    mr_out v = matrix_on(&b, PS, SIZE, SIZE);
    mr_out y = mr_emit(on(&b, WORKER), "AddV2", both, v);
    b.o.schedule = MR_SCHEDULE_ALL;
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_prepare(b.g, &(mr_run_signature){.feeds = &p, .n_feeds = 1, .fetches = &y, .n_fetches = 1}, &b.o, b.parts));
    const mr_node *r = recv_of(&b, v);
    MR_CHECK(r && r->n_ctrl == 1);
    MR_CHECK(mr_node_is(r->ctrl[0]->ctrl[0], "Merge")); /* itself, and nothing before it */
    end(&b);
}
