/* capi/cluster_test.c -- millrace/cluster.h as a client sees it. */
#include "millrace/cluster.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "tests/harness/test.h"

#define OK(st)                                                          \
    do {                                                                \
        if (TF_GetCode(st) != TF_OK)                                    \
            mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(st));     \
    } while (0)
#define FAILS(st, code) MR_CHECK_INT(TF_GetCode(st), code)

typedef struct line {
    TF_Graph *graph;
    mr_model *m;
    TF_Output x, y, loss;
} line;

/* y = 2x + 1, of points from -1 to 1 */
static TF_Output part_of(line *l)
{
    return mr_squared_loss(l->m, mr_dense(l->m, "fc", l->x, 1, MR_LINEAR), l->y);
}

static void begin(line *l)
{
    l->graph = TF_NewGraph();
    l->m = mr_model_new(l->graph);
    l->x = mr_input(l->m, "x", TF_FLOAT, 2, (int64_t[]){-1, 1});
    l->y = mr_input(l->m, "y", TF_FLOAT, 2, (int64_t[]){-1, 1});
}

static void end(line *l)
{
    mr_model_free(l->m);
    TF_DeleteGraph(l->graph);
}

static void batch(TF_Tensor *v[2])
{
    for (int k = 0; k < 2; k++)
        v[k] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){16, 1}, 2, 16 * sizeof(float));
    for (int i = 0; i < 16; i++) {
        ((float *)TF_TensorData(v[0]))[i] = (float)i / 8 - 1;
        ((float *)TF_TensorData(v[1]))[i] = (float)i / 4 - 1;
    }
}

/* A supervisor needs no cluster: here it trains in this process, and a second one goes on where the first ended. */
static int64_t train_until(int64_t total, const char *folder, int sync, float *loss)
{
    line l;
    TF_Status *st = TF_NewStatus();
    TF_Tensor *in[2], *out;
    mr_barrier *b = NULL;
    TF_Operation *train = NULL;
    begin(&l);
    l.loss = part_of(&l);
    mr_barrier_options one = {sizeof one, .num_workers = 1};
    if (sync)
        b = mr_minimize_sync(l.m, l.loss, mr_sgd(0.2f), &one);
    else
        train = mr_minimize(l.m, l.loss, mr_sgd(0.2f));
    mr_supervisor_options o = {sizeof o, .chief = 1, .train = train, .barrier = b, .checkpoints = folder};
    mr_supervisor *s = mr_supervisor_new(l.m, &o, st);
    OK(st);
    mr_supervisor_start(s, st);
    OK(st);
    int64_t first = mr_supervisor_step(s, st);
    OK(st);
    batch(in);
    for (int64_t step = first; step < total;) {
        step = mr_supervisor_train(s, (TF_Output[]){l.x, l.y}, in, 2, &l.loss, &out, 1, st);
        OK(st);
        *loss = *(float *)TF_TensorData(out);
        TF_DeleteTensor(out);
    }
    MR_CHECK_INT(mr_supervisor_finish(s, st), total);
    OK(st);
    MR_CHECK_INT(mr_supervisor_losses(s), 0);
    mr_supervisor_free(s);
    mr_barrier_free(b);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    TF_DeleteStatus(st);
    end(&l);
    return first;
}

MR_TEST(cluster_supervisor_goes_on_from_its_checkpoint)
{
    float first, second;
    MR_CHECK_INT(train_until(20, mr_test_dir(), 0, &first), 0);
    MR_CHECK_INT(train_until(60, mr_test_dir(), 0, &second), 20);
    MR_CHECK(second < first);
    MR_CHECK(second < 0.001f);
}

MR_TEST(cluster_supervisor_trains_with_a_barrier_of_one)
{
    float loss;
    MR_CHECK_INT(train_until(60, NULL, 1, &loss), 0);
    MR_CHECK(loss < 0.001f);
}

/* One worker by each word; it never waits, and nothing it does is late. */
static void train_as(const char *synchrony)
{
    line l;
    TF_Status *st = TF_NewStatus();
    TF_Tensor *in[2];
    mr_worker_figures f = {.struct_size = sizeof f}, other = f;
    begin(&l);
    l.loss = part_of(&l);
    mr_barrier *b = mr_minimize_sync(l.m, l.loss, mr_sgd(0.2f),
                                     &(mr_barrier_options){sizeof(mr_barrier_options), .num_workers = 1, .synchrony = synchrony});
    mr_model_status(l.m, st);
    OK(st);
    mr_supervisor *s = mr_supervisor_new(l.m, &(mr_supervisor_options){sizeof(mr_supervisor_options), .chief = 1, .barrier = b}, st);
    OK(st);
    MR_CHECK(!mr_supervisor_figures(s, 0, &f)); /* nothing yet */
    mr_supervisor_start(s, st);
    OK(st);
    batch(in);
    for (int i = 0; i < 12; i++) {
        MR_CHECK_INT(mr_supervisor_train(s, (TF_Output[]){l.x, l.y}, in, 2, NULL, NULL, 0, st), i + 1);
        OK(st);
    }
    MR_CHECK_INT(mr_supervisor_finish(s, st), 12);
    OK(st);
    bool reduces = mr_barrier_all_reduce(b) != NULL; /* nobody has measured waits for an exchange */
    MR_CHECK_INT(mr_supervisor_figures(s, 0, &f), !reduces);
    MR_CHECK_INT(f.iterations, reduces ? 0 : 12);
    MR_CHECK_INT(mr_all_reduce_size(mr_barrier_all_reduce(b)), reduces);
    MR_CHECK_INT(f.late, 0);
    MR_CHECK_INT(f.staleness_max, 0);
    MR_CHECK(!mr_supervisor_figures(s, 1, &other) && !mr_supervisor_figures(s, -1, &other) && !mr_supervisor_figures(s, 0, NULL));
    mr_supervisor_free(s);
    mr_barrier_free(b);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    TF_DeleteStatus(st);
    end(&l);
}

MR_TEST(synchrony_of_a_barrier_is_one_word)
{
    const char *const all[] = {"async", "sync", "backup", "bounded", "bounded:0", "bounded:3", "all_reduce"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        train_as(all[i]);
}

/* The update of the second half is the client's: here nothing but the step changes. */
static void train_in_halves(const char *synchrony)
{
    line l;
    TF_Status *st = TF_NewStatus();
    TF_Tensor *in[2];
    mr_barrier_gradient g[2] = {0};
    mr_barrier_options o = {sizeof o, .num_workers = 1, .synchrony = synchrony};
    mr_supervisor_options with = {sizeof with, .chief = 1};
    begin(&l);
    l.loss = part_of(&l);
    TF_Output step = mr_parameter_handle(l.m, mr_global_step(l.m));
    with.barrier = mr_barrier_begin(l.m, l.loss, &o, g, 2);
    mr_model_status(l.m, st);
    OK(st);
    MR_CHECK(g[0].gradient.oper && g[1].gradient.oper && !g[0].indices.oper);
    MR_CHECK(mr_supervisor_new(l.m, &with, st) == NULL); /* it is not complete */
    FAILS(st, TF_INVALID_ARGUMENT);
    TF_OperationDescription *one = TF_NewOperation(l.graph, "Const", "one");
    TF_SetAttrType(one, "dtype", TF_INT64);
    TF_Tensor *value = TF_AllocateTensor(TF_INT64, NULL, 0, 8);
    *(int64_t *)TF_TensorData(value) = 1;
    TF_SetAttrTensor(one, "value", value, st);
    TF_OperationDescription *add = TF_NewOperation(l.graph, "AssignAddVariableOp", "add");
    TF_AddInput(add, step);
    TF_AddInput(add, (TF_Output){TF_FinishOperation(one, st), 0});
    for (int i = 0; i < 2; i++)
        TF_AddControlInput(add, g[i].gradient.oper);
    TF_Operation *update = TF_FinishOperation(add, st);
    OK(st);
    mr_barrier_complete(with.barrier, l.m, update);
    mr_supervisor *s = mr_supervisor_new(l.m, &with, st);
    OK(st);
    mr_supervisor_start(s, st);
    OK(st);
    batch(in);
    for (int i = 0; i < 5; i++)
        MR_CHECK_INT(mr_supervisor_train(s, (TF_Output[]){l.x, l.y}, in, 2, NULL, NULL, 0, st), i + 1);
    OK(st);
    MR_CHECK_INT(mr_supervisor_finish(s, st), 5);
    mr_supervisor_free(s);
    mr_barrier_complete(with.barrier, l.m, update);
    mr_model_status(l.m, st);
    FAILS(st, TF_INVALID_ARGUMENT);
    mr_barrier_free(with.barrier);
    TF_DeleteTensor(value);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    TF_DeleteStatus(st);
    end(&l);
}

MR_TEST(synchrony_of_updates_of_ones_own)
{
    const char *const all[] = {"async", "sync", "backup", "bounded", "all_reduce"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        train_in_halves(all[i]);
}

MR_TEST(synchrony_wants_room_for_all_gradients)
{
    line l;
    TF_Status *st = TF_NewStatus();
    mr_barrier_gradient g[3];
    begin(&l);
    l.loss = part_of(&l);
    MR_CHECK(mr_barrier_begin(l.m, l.loss, &(mr_barrier_options){sizeof(mr_barrier_options), .num_workers = 1}, g, 3) == NULL);
    mr_model_status(l.m, st);
    FAILS(st, TF_INVALID_ARGUMENT);
    MR_CHECK(mr_barrier_begin(NULL, l.loss, NULL, g, 3) == NULL);
    mr_barrier_complete(NULL, NULL, NULL);
    TF_DeleteStatus(st);
    end(&l);
}

static void refuse_synchrony(const mr_barrier_options *o, const char *text)
{
    line l;
    TF_Status *st = TF_NewStatus();
    begin(&l);
    l.loss = part_of(&l);
    MR_CHECK(mr_minimize_sync(l.m, l.loss, mr_sgd(0.2f), o) == NULL);
    mr_model_status(l.m, st);
    FAILS(st, TF_INVALID_ARGUMENT);
    MR_CHECK(strstr(TF_Message(st), text));
    TF_DeleteStatus(st);
    end(&l);
}

MR_TEST(synchrony_that_cannot_be_is_refused)
{
    mr_barrier_options o = {sizeof o, .num_workers = 2, .synchrony = "syncc"};
    refuse_synchrony(&o, "none of async, sync");
    o.synchrony = "backup:2";
    refuse_synchrony(&o, "needs more than 2 workers");
    o.synchrony = "backup:1";
    o.aggregate = 1;
    refuse_synchrony(&o, "not both");
    o = (mr_barrier_options){sizeof o, .num_workers = 2, .aggregate = -1};
    refuse_synchrony(&o, "aggregate -1 is negative");
    o = (mr_barrier_options){sizeof o, .num_workers = 2, .lease_ms = INT64_MAX};
    refuse_synchrony(&o, "must be at most");
    o = (mr_barrier_options){sizeof o, .num_workers = 2, .join_ms = INT64_MAX / 1000000};
    refuse_synchrony(&o, "must be at most");
    mr_all_reduce_options a = {sizeof a, .settle_ms = INT64_MAX};
    o = (mr_barrier_options){sizeof o, .num_workers = 2, .all_reduce = &a, .synchrony = "all_reduce"};
    refuse_synchrony(&o, "times of an all-reduce must be at most");
    a.settle_ms = -1;
    refuse_synchrony(&o, "all-reduce: worker 0 of 2");
    a.settle_ms = 5;
    o.synchrony = "bounded";
    refuse_synchrony(&o, "got 'bounded'");
    o.synchrony = NULL;
    refuse_synchrony(&o, "got 'sync'");
}

typedef struct canceller {
    mr_supervisor *s;
    mr_thread thread;
} canceller;

static void cancel(void *arg)
{
    canceller *c = arg;
    mr_sleep_ns(50000000); /* by now it waits, as a rule; it must not matter */
    mr_supervisor_cancel(c->s);
}

/* One worker of two waits for the other, which never comes. */
MR_TEST(cluster_supervisor_can_be_cancelled_while_it_waits)
{
    const char *const how[] = {"sync", "bounded:0"};
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        line l;
        TF_Status *st = TF_NewStatus();
        TF_Tensor *in[2];
        begin(&l);
        l.loss = part_of(&l);
        mr_barrier *b = mr_minimize_sync(l.m, l.loss, mr_sgd(0.2f), &(mr_barrier_options){sizeof(mr_barrier_options), .num_workers = 2,
                                                                                          .synchrony = how[i], .join_ms = 3600000});
        canceller c = {mr_supervisor_new(l.m, &(mr_supervisor_options){sizeof(mr_supervisor_options), .chief = 1, .barrier = b}, st)};
        OK(st);
        mr_supervisor_start(c.s, st);
        OK(st);
        batch(in);
        mr_thread_start(&c.thread, "cancel", cancel, &c);
        while (TF_GetCode(st) == TF_OK)
            mr_supervisor_train(c.s, (TF_Output[]){l.x, l.y}, in, 2, NULL, NULL, 0, st);
        MR_CHECK_INT(TF_GetCode(st), TF_CANCELLED);
        mr_thread_join(&c.thread);
        MR_CHECK_INT(mr_supervisor_step(c.s, st), -1);
        MR_CHECK_INT(TF_GetCode(st), TF_CANCELLED);
        MR_CHECK_INT(mr_supervisor_finish(c.s, st), -1);
        MR_CHECK_INT(TF_GetCode(st), TF_CANCELLED);
        mr_supervisor_free(c.s);
        mr_barrier_free(b);
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        TF_DeleteStatus(st);
        end(&l);
    }
}

/* As nanoseconds they would not fit. */
MR_TEST(cluster_supervisor_refuses_times_without_end)
{
    const mr_supervisor_options bad[] = {{.save_ms = INT64_MAX}, {.deadline_ms = INT64_MAX / 1000}, {.chief_ms = INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        line l;
        TF_Status *st = TF_NewStatus();
        mr_supervisor_options o = bad[i];
        begin(&l);
        o.struct_size = sizeof o;
        o.train = mr_minimize(l.m, part_of(&l), mr_sgd(0.2f));
        MR_CHECK(mr_supervisor_new(l.m, &o, st) == NULL);
        FAILS(st, TF_INVALID_ARGUMENT);
        MR_CHECK(strstr(TF_Message(st), "must be at most"));
        TF_DeleteStatus(st);
        end(&l);
    }
}

/* Towers on two devices do what one batch does on one. */
static float train_towers(int n)
{
    line l;
    TF_Status *st = TF_NewStatus();
    TF_Tensor *in[2], *out = NULL;
    TF_Output losses[2];
    const unsigned char config[] = {0x0a, 7, 0x0a, 3, 'C', 'P', 'U', 0x10, 2}; /* device_count { CPU: 2 } */
    begin(&l);
    for (int i = 0; i < n; i++) {
        mr_model_device(l.m, i ? "/cpu:1" : "/cpu:0");
        losses[i] = part_of(&l);
        mr_model_reuse(l.m, 1);
    }
    mr_model_device(l.m, NULL);
    const TF_Operation *train[] = {mr_minimize_towers(l.m, losses, n, mr_momentum(0.05f, 0.9f))}, *init[] = {mr_initializer(l.m)};
    mr_model_status(l.m, st);
    OK(st);
    MR_CHECK_INT(mr_parameter_count(l.m), 2);
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, st);
    TF_Session *s = TF_NewSession(l.graph, o, st);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 1, NULL, st);
    OK(st);
    batch(in);
    float loss = 0;
    for (int i = 0; i < 20; i++) {
        TF_SessionRun(s, NULL, (TF_Output[]){l.x, l.y}, in, 2, losses, &out, 1, train, 1, NULL, st);
        OK(st);
        loss = *(float *)TF_TensorData(out);
        TF_DeleteTensor(out);
    }
    TF_DeleteSession(s, st);
    TF_DeleteSessionOptions(o);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    TF_DeleteStatus(st);
    end(&l);
    return loss;
}

MR_TEST(cluster_towers_share_their_variables) { MR_CHECK_NEAR(train_towers(2), train_towers(1), 1e-6); }

MR_TEST(cluster_reuse_wants_the_same_shape)
{
    line l;
    TF_Status *st = TF_NewStatus();
    begin(&l);
    mr_dense(l.m, "fc", l.x, 2, MR_LINEAR);
    mr_model_reuse(l.m, 1);
    mr_dense(l.m, "fc", l.x, 3, MR_LINEAR);
    mr_model_status(l.m, st);
    FAILS(st, TF_INVALID_ARGUMENT);
    MR_CHECK(strstr(TF_Message(st), "fc/kernel") != NULL);
    TF_DeleteStatus(st);
    end(&l);
}

MR_TEST(cluster_task_refuses_what_is_none)
{
    TF_Status *st = TF_NewStatus();
    unsetenv("TF_CONFIG");
    MR_CHECK(!mr_cluster_task_new(NULL, st));
    FAILS(st, TF_INVALID_ARGUMENT);
    mr_cluster_options o = {sizeof o, "127.0.0.1:1", "127.0.0.1:2", "ps", 3};
    MR_CHECK(!mr_cluster_task_new(&o, st));
    FAILS(st, TF_INVALID_ARGUMENT);
    MR_CHECK(strstr(TF_Message(st), "task 3 of job 'ps'") != NULL);
    o.struct_size = 0;
    MR_CHECK(!mr_cluster_task_new(&o, st));
    FAILS(st, TF_INVALID_ARGUMENT);
    TF_DeleteStatus(st);
}

static void serve(void *arg)
{
    TF_Status *st = TF_NewStatus();
    mr_cluster_task_serve(arg, st);
    OK(st);
    TF_DeleteStatus(st);
}

/* Whether somebody serves by now or not yet. */
MR_TEST(cluster_task_that_is_stopped_serves_no_longer)
{
    TF_Status *st = TF_NewStatus();
    mr_thread thread;
    mr_cluster_task *t = mr_cluster_task_new(&(mr_cluster_options){sizeof(mr_cluster_options), "127.0.0.1:0", "127.0.0.1:0", "ps", 0}, st);
    OK(st);
    MR_CHECK_INT(mr_thread_start(&thread, "serve", serve, t), 0);
    mr_cluster_task_stop(t);
    mr_thread_join(&thread);
    serve(t);
    mr_cluster_task_stop(t);
    mr_cluster_task_free(t);
    mr_cluster_task_stop(NULL);
    TF_DeleteStatus(st);
}

MR_TEST(cluster_calls_without_objects_say_so)
{
    TF_Status *st = TF_NewStatus();
    MR_CHECK(!mr_supervisor_new(NULL, NULL, st));
    FAILS(st, TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_supervisor_train(NULL, NULL, NULL, 0, NULL, NULL, 0, st), -1);
    FAILS(st, TF_INVALID_ARGUMENT);
    mr_supervisor_free(NULL);
    mr_barrier_free(NULL);
    mr_cluster_task_free(NULL);
    mr_replicate(NULL, NULL, MR_BY_TURNS);
    MR_CHECK_INT(mr_cluster_task_worker(NULL), -1);
    line l;
    begin(&l);
    mr_replicate(l.m, NULL, MR_BY_SIZE);
    mr_model_status(l.m, st);
    FAILS(st, TF_INVALID_ARGUMENT);
    MR_CHECK(!mr_minimize_sync(l.m, l.x, mr_sgd(1), NULL));
    MR_CHECK(!mr_minimize_towers(l.m, NULL, 0, mr_sgd(1)));
    TF_DeleteStatus(st);
    end(&l);
}
