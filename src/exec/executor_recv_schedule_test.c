/* exec/executor_recv_schedule_test.c -- Recvs that start late: what it saves, and that nothing waits for ever.
 *
 * The rest of the proof is in executor_random_programs_test.c, where programs over three devices run with every Recv as late as
 * can be, and in passes/partition_test.c. */
#include "base/memory.h"
#include "exec/program.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

#define PS "/job:ps/replica:0/task:0/device:CPU:0"
#define WORKER "/job:worker/replica:0/task:0/device:CPU:0"

enum { LAYERS = 16, ROWS = 2048, SIZE = 512, LAYER_BYTES = SIZE * SIZE * 4 };

/* ---- memory: a worker whose matrices come from elsewhere, as fast as it asks ---- */

typedef struct line {
    mr_allocator *memory; /* what has come and is not used up */
    int n_asked;
} line;

static bool answer(void *arg, mr_recv *w)
{
    line *l = arg;
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(l->memory, MR_FLOAT, 2, (int64_t[]){SIZE, SIZE}, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(float, t)[i] = i % (SIZE + 1) == 0;
    l->n_asked++;
    w->fn(w, NULL, t, false);
    return true;
}

static void aborted(void *arg, const mr_status *why)
{
    (void)arg;
    (void)why;
}

static void finished(mr_flow *f) { mr_runner_finish(f->runner); }

/* Runs the worker's part; its result is that of x times as many unit matrices: 3. */
static void run_part(mr_graph **parts, mr_device *const *devices, line *l)
{
    mr_program *p;
    mr_flow *f;
    mr_rendezvous *meet = mr_rendezvous_new();
    mr_rendezvous_set_remote(meet, (mr_rendezvous_remote){answer, aborted, l});
    MR_CHECK_OK(mr_program_new(parts, devices, 1, 0, 1, NULL, NULL, &p));
    MR_CHECK_OK(mr_program_take(p, &f));
    mr_runner_reset(&f->own_runner, NULL, NULL, true);
    mr_flow_start(f, &(mr_flow_start_args){.runner = &f->own_runner, .done = finished, .rendezvous = meet, .step_id = 1});
    MR_CHECK(mr_runner_wait(&f->own_runner, 0));
    MR_CHECK_OK(mr_flow_take_status(f));
    MR_CHECK(f->rets[0].kind == MR_LIVE && MR_DATA(float, f->rets[0].t)[SIZE] == 3);
    mr_program_give(f);
    mr_program_free(p);
    mr_rendezvous_unref(meet);
}

static mr_graph *layers(mr_out *y)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    s.device = WORKER;
    mr_out dims = mr_const(&s, mr_tensor_vector_i32(2, (const int32_t[]){ROWS, SIZE})), three = mr_const_f32(&s, 3);
    *y = mr_emit(&s, "Fill", dims, three);
    const mr_pshape *shape = mr_pshape_of(&g->arena, 2, (int64_t[]){SIZE, SIZE});
    for (int i = 0; i < LAYERS; i++) {
        s.device = PS;
        mr_out v = mr_emit0_with(&s, "VariableV2", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(shape)}));
        mr_out w = mr_emit(&s, "Identity", v);
        s.device = WORKER;
        *y = mr_emit(&s, "MatMul", *y, w);
    }
    MR_CHECK_OK(mr_scope_status(&s));
    mr_scope_deinit(&s);
    return g;
}

/* The most that lay on the worker at a time, of what it received. */
static int64_t peak(mr_schedule schedule)
{
    mr_out y;
    mr_graph *g = layers(&y), *parts[2];
    mr_device *devices[2];
    line l = {mr_budget_new(NULL, "received", 0), 0};
    mr_allocator_stats stats;
    MR_CHECK_OK(mr_device_new_cpu(WORKER, NULL, &devices[0]));
    MR_CHECK_OK(mr_device_new_cpu(PS, NULL, &devices[1]));
    mr_prepare_options o = {.devices = devices, .n_devices = 2, .schedule = schedule};
    MR_CHECK_OK(mr_prepare(g, &(mr_run_signature){.fetches = &y, .n_fetches = 1}, &o, parts));
    mr_graph_unref(parts[1]); /* we are the parameter server */
    run_part(parts, devices, &l);
    MR_CHECK_INT(l.n_asked, LAYERS);
    mr_allocator_get_stats(l.memory, &stats);
    mr_budget_free(l.memory);
    mr_device_free(devices[0]);
    mr_device_free(devices[1]);
    mr_graph_unref(g);
    return stats.peak;
}

/* 16 matrices of 1 MiB lie there when all are asked for at once, 2 when each is asked for in time. */
MR_TEST(recv_schedule_saves_memory)
{
    mr_ops_register();
    MR_CHECK_INT(peak(MR_SCHEDULE_NONE), (int64_t)LAYERS * LAYER_BYTES);
    MR_CHECK_INT(peak(MR_SCHEDULE_REMOTE), (int64_t)2 * LAYER_BYTES);
}

/* ---- waiting ---- */

static mr_status *run_two(mr_graph *g, mr_out fetch, mr_node *target, float *out)
{
    mr_session *s;
    mr_session_config c = {.n_cpus = 2, .inter_threads = -1, .schedule = MR_SCHEDULE_ALL, .timeout_ms = 20000};
    mr_tensor *got = NULL;
    MR_CHECK_OK(mr_direct_session_new(g, NULL, &c, &s));
    mr_run_args a = {.fetches = &fetch, .n_fetches = 1, .fetched = &got, .targets = &target, .n_targets = 1};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (!st)
        *out = *MR_DATA(float, got);
    mr_tensor_unref(got);
    mr_session_free(s);
    return st;
}

/* The value that comes over is put into a queue, and what waits for that queue is used with it: were it held back until
 * then, the step would never end. */
MR_TEST(recv_schedule_does_not_hold_back_what_a_queue_waits_for)
{
    const int types[] = {MR_FLOAT};
    float v = 0;
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    s.device = "/device:CPU:1";
    mr_out one = mr_const_f32(&s, 1), x = mr_emit(&s, "Exp", one);
    s.device = "/device:CPU:0";
    mr_out q = mr_emit0_with(&s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}));
    mr_out put = mr_emit_with(&s, "QueueEnqueueV2", MR_ATTRS({"Tcomponents", mr_a_types(1, types)}), q, x);
    mr_out got = mr_emit_with(&s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    mr_out y = mr_emit(&s, "Sub", got, x);
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(run_two(g, y, put.node, &v));
    MR_CHECK_NEAR(v, 0, 0);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}
