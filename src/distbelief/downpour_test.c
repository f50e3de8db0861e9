/* distbelief/downpour_test.c -- replicas against the parameter server, within one process. */
#include "base/thread.h"
#include "distbelief/downpour_internal.h"
#include "distbelief/small_problem_fixture.h"
#include "millrace/front_end.h"
#include "ps/client_internal.h"
#include "ps/cluster_fixture.h"
#include "ps/server_internal.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

#define CHECK_STATUS(s) \
    (TF_GetCode(s) == TF_OK ? (void)0 : mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(s)))
#define CHECK_ERROR(s, code, text)                                                                         \
    (TF_GetCode(s) == (code) && strstr(TF_Message(s), text) ? (void)0                                      \
         : mr_test_fail(__FILE__, __LINE__, "%d: %s", (int)TF_GetCode(s), TF_Message(s)))

typedef struct replica {
    small_model r;
    mr_downpour *d;
    mr_thread thread;
    int steps, first;
    mr_ps *ps; /* of start_and_train */
} replica;

static void make(replica *x, int hidden, mr_downpour_options o)
{
    x->r = small_build(hidden);
    o.struct_size = sizeof o;
    x->d = mr_downpour_new(x->r.m, x->r.loss, &o);
    small_open(&x->r, NULL);
    x->first = o.replica % 1000 * 131;
}

static void drop(replica *x)
{
    mr_downpour_free(x->d);
    small_close(&x->r);
}

static int64_t train(replica *x, int64_t at)
{
    TF_Tensor *in[2];
    small_batch(x->first + at * 10, 10, in);
    int64_t step = mr_downpour_train(x->d, x->r.in, in, 2, NULL, NULL, 0, x->r.status);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    return step;
}

static void train_all(void *arg)
{
    replica *x = arg;
    for (int i = 0; i < x->steps; i++) {
        train(x, i);
        CHECK_STATUS(x->r.status);
    }
    mr_downpour_finish(x->d, x->r.status);
    CHECK_STATUS(x->r.status);
}

static mr_ps *connect_ps(TF_Status *s)
{
    mr_ps *ps = mr_ps_connect(NULL, s);
    CHECK_STATUS(s);
    return ps;
}

MR_TEST(downpour_four_replicas_train_one_model)
{
    enum { N = 4 };
    replica x[N] = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    for (int i = 0; i < N; i++) {
        make(&x[i], 8, (mr_downpour_options){.replica = i, .rate = 0.2f});
        x[i].steps = 500;
        mr_downpour_start(x[i].d, x[i].r.session, ps, x[i].r.status);
        CHECK_STATUS(x[i].r.status);
    }
    double before = small_loss(&x[0].r);
    for (int i = 0; i < N; i++)
        MR_CHECK_INT(mr_thread_start(&x[i].thread, "replica", train_all, &x[i]), 0);
    for (int i = 0; i < N; i++)
        mr_thread_join(&x[i].thread);
    mr_downpour_stats stats = {sizeof stats};
    for (int i = 0; i < N; i++) {
        mr_downpour_fetch(x[i].d, s);
        CHECK_STATUS(s);
        mr_downpour_get_stats(x[i].d, &stats);
        MR_CHECK_INT(stats.steps, 500);
        MR_CHECK_INT(stats.gave_values, i == 0);
    }
    double after = small_loss(&x[0].r);
    MR_CHECK(after < 0.5 * before);
    MR_CHECK_NEAR(small_loss(&x[3].r), after, 0); /* all have the servers' parameters */
    for (int i = 0; i < N; i++)
        drop(&x[i]);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

/* With one replica and every answer waited for, Downpour is SGD: the same bits as mr_minimize. */
MR_TEST(downpour_of_one_replica_is_sgd)
{
    replica x = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    make(&x, 4, (mr_downpour_options){.update = MR_PS_SGD, .rate = 0.5f});
    mr_downpour_start(x.d, x.r.session, ps, s);
    CHECK_STATUS(s);
    for (int i = 0; i < 20; i++) {
        train(&x, i);
        CHECK_STATUS(x.r.status);
        mr_downpour_finish(x.d, s);
        CHECK_STATUS(s);
        mr_downpour_start(x.d, x.r.session, ps, s);
        CHECK_STATUS(s);
    }
    small_model alone = small_build(4);
    const TF_Operation *op = mr_minimize(alone.m, alone.loss, mr_sgd(0.5f));
    small_open(&alone, NULL);
    for (int i = 0; i < 20; i++) {
        TF_Tensor *in[2];
        small_batch(i * 10, 10, in);
        TF_SessionRun(alone.session, NULL, alone.in, in, 2, NULL, NULL, 0, &op, 1, NULL, alone.status);
        CHECK_STATUS(alone.status);
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
    }
    MR_CHECK_NEAR(small_loss(&x.r), small_loss(&alone), 1e-7);
    small_close(&alone);
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(downpour_pushes_sums_of_several_steps)
{
    replica x = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    make(&x, 0, (mr_downpour_options){.n_push = 5, .n_fetch = 3, .local_rate = 0.01f});
    mr_downpour_start(x.d, x.r.session, ps, s);
    CHECK_STATUS(s);
    for (int i = 0; i < 23; i++) {
        MR_CHECK_INT(train(&x, i), i + 1);
        CHECK_STATUS(x.r.status);
    }
    mr_downpour_finish(x.d, s);
    CHECK_STATUS(s);
    mr_downpour_stats stats = {sizeof stats};
    mr_downpour_get_stats(x.d, &stats);
    MR_CHECK(stats.pushes >= 2 && stats.pushes <= 5); /* 5 + 5 + 5 + 5 + 3, or more at a time while one is under way */
    MR_CHECK(stats.fetches >= 2 && stats.fetches <= 9);
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

/* An embedding's rows are keys: what one replica does to row 1 leaves row 2 alone. */
MR_TEST(downpour_pushes_rows_of_an_embedding)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    TF_Graph *g = TF_NewGraph();
    mr_model *m = mr_model_new(g);
    TF_Output ids = mr_input(m, "ids", TF_INT32, 1, (int64_t[]){-1});
    TF_Output rows = mr_embedding(m, "words", ids, 50, 4);
    TF_Output bias = mr_parameter(m, "bias", TF_FLOAT, 1, (int64_t[]){4}, (mr_init){MR_INIT_CONSTANT, 1, 0});
    TF_Output loss = mr_squared_loss(m, rows, bias);
    mr_downpour *d = mr_downpour_new(m, loss, &(mr_downpour_options){sizeof(mr_downpour_options), .rate = 1});
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, s);
    CHECK_STATUS(s);
    TF_SessionOptions *so = TF_NewSessionOptions();
    TF_Session *session = TF_NewSession(g, so, s);
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, s);
    CHECK_STATUS(s);
    mr_downpour_start(d, session, ps, s);
    CHECK_STATUS(s);
    float before[50][4], after[50][4];
    mr_ps_table_options o = {
        .struct_size = sizeof o, .num_keys = 50, .width = 4, .update = MR_PS_ADAGRAD, .rate = 1, .a = 0.1f};
    int table = mr_ps_table(ps, "downpour/words/table", &o, s);
    CHECK_STATUS(s);
    mr_ps_wait(ps, mr_ps_pull_range(ps, table, 0, 50, before[0], NULL, s), s);
    TF_Tensor *in = TF_AllocateTensor(TF_INT32, (int64_t[]){3}, 1, 12);
    memcpy(TF_TensorData(in), (int32_t[]){7, 1, 7}, 12);
    mr_downpour_train(d, &ids, &in, 1, NULL, NULL, 0, s);
    CHECK_STATUS(s);
    mr_downpour_finish(d, s);
    CHECK_STATUS(s);
    mr_ps_wait(ps, mr_ps_pull_range(ps, table, 0, 50, after[0], NULL, s), s);
    CHECK_STATUS(s);
    for (int i = 0; i < 50; i++)
        if ((memcmp(before[i], after[i], sizeof before[i]) != 0) != (i == 1 || i == 7))
            mr_test_fail(__FILE__, __LINE__, "row %d: %g became %g", i, (double)before[i][0], (double)after[i][0]);
    TF_DeleteTensor(in);
    mr_downpour_free(d);
    TF_DeleteSession(session, s);
    TF_DeleteSessionOptions(so);
    mr_model_free(m);
    TF_DeleteGraph(g);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(downpour_replica_may_lie_on_two_devices)
{
    replica x = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    x.r = (small_model){.graph = TF_NewGraph(), .status = TF_NewStatus()};
    mr_model *m = x.r.m = mr_model_new(x.r.graph);
    mr_model_device(m, "/device:CPU:0");
    x.r.in[0] = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, SMALL_FEATURES});
    x.r.in[1] = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_dense(m, "hidden", x.r.in[0], 8, MR_TANH);
    mr_model_device(m, "/device:CPU:1");
    x.r.loss = mr_softmax_loss(m, mr_dense(m, "out", h, SMALL_CLASSES, MR_LINEAR), x.r.in[1]);
    x.d = mr_downpour_new(m, x.r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .rate = 0.2f});
    small_open(&x.r, NULL);
    double before = small_loss(&x.r);
    mr_downpour_start(x.d, x.r.session, ps, s);
    CHECK_STATUS(s);
    x.steps = 100;
    train_all(&x);
    mr_downpour_fetch(x.d, s);
    CHECK_STATUS(s);
    MR_CHECK(small_loss(&x.r) < 0.7 * before);
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(downpour_a_step_that_fails_can_be_made_again)
{
    replica x = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    make(&x, 0, (mr_downpour_options){0});
    TF_Tensor *in[2];
    small_batch(0, 4, in);
    mr_downpour_train(x.d, x.r.in, in, 2, NULL, NULL, 0, s);
    CHECK_ERROR(s, TF_FAILED_PRECONDITION, "has not been started");
    mr_downpour_start(x.d, x.r.session, ps, s);
    CHECK_STATUS(s);
    MR_CHECK_INT(mr_downpour_train(x.d, x.r.in, in, 1, NULL, NULL, 0, s), -1); /* y is not fed */
    CHECK_ERROR(s, TF_INVALID_ARGUMENT, "y");
    MR_CHECK_INT(mr_downpour_train(x.d, x.r.in, in, 2, NULL, NULL, 0, s), 1);
    CHECK_STATUS(s);
    mr_downpour_finish(x.d, s);
    CHECK_STATUS(s);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

/* The first replica never comes: the second gives the servers its values, and warms up. */
MR_TEST(downpour_second_replica_takes_over_when_the_first_is_missing)
{
    replica x = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    make(&x, 0, (mr_downpour_options){.replica = 1, .patience_ms = 50, .warm_steps = 1000});
    mr_downpour_start(x.d, x.r.session, ps, s);
    CHECK_STATUS(s);
    x.steps = 20;
    train_all(&x);
    mr_downpour_stats stats = {sizeof stats};
    mr_downpour_get_stats(x.d, &stats);
    MR_CHECK_INT(stats.gave_values, 1);
    MR_CHECK_INT(stats.steps, 20);
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(downpour_refuses_options_that_make_no_sense)
{
    small_model r = small_build(0);
    MR_CHECK(!mr_downpour_new(r.m, r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .n_push = -1}));
    mr_model_status(r.m, r.status);
    CHECK_ERROR(r.status, TF_INVALID_ARGUMENT, "n_push -1");
    small_close(&r);
    r = small_build(0);
    MR_CHECK(!mr_downpour_new(r.m, r.loss, &(mr_downpour_options){sizeof(mr_downpour_options), .n_push = INT64_MAX}));
    mr_model_status(r.m, r.status);
    CHECK_ERROR(r.status, TF_INVALID_ARGUMENT, "at most");
    small_close(&r);
}

/* The last replica of very many, with much patience: its turn is far away, but it is not long ago. */
MR_TEST(downpour_patience_of_many_replicas_does_not_overflow)
{
    enum { N = 2 };
    replica x[N] = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    make(&x[0], 0, (mr_downpour_options){0});
    make(&x[1], 0, (mr_downpour_options){.replica = INT32_MAX, .patience_ms = INT32_MAX});
    for (int i = 0; i < N; i++) {
        mr_downpour_stats stats = {sizeof stats};
        mr_downpour_start(x[i].d, x[i].r.session, ps, s);
        CHECK_STATUS(s);
        mr_downpour_get_stats(x[i].d, &stats);
        MR_CHECK_INT(stats.gave_values, i == 0);
    }
    for (int i = 0; i < N; i++)
        drop(&x[i]);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

/* Floats that are added up on servers count by ones to 2^24; jobs make more steps than that. */
MR_TEST(downpour_counts_the_steps_of_long_jobs)
{
    mr_downpour_replica p[2] = {0};
    float sum[2] = {0};
    int64_t total = 0;
    for (int i = 0; i < 60000; i++) {
        float rise[2];
        int64_t steps = i % 3 ? 1 : 3000 + i % 7;
        mr_downpour_replica_count_steps(&p[i % 2], steps, rise);
        total += steps;
        for (int k = 0; k < 2; k++)
            sum[k] += rise[k];
        MR_CHECK_INT((int64_t)sum[KEY_BLOCKS] * STEPS_A_BLOCK + (int64_t)sum[KEY_STEPS], total);
    }
    MR_CHECK(total > 3 << 24);
}

static void fire(void *arg) { mr_interrupter_fire(arg); }

MR_TEST(downpour_that_waits_to_begin_ends_when_its_thread_is_interrupted)
{
    replica x = {0};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    mr_interrupter *i = mr_interrupter_new();
    mr_thread thread;
    make(&x, 0, (mr_downpour_options){.replica = 1, .patience_ms = 1000000}); /* the first never comes */
    mr_run_under(i);
    MR_CHECK_INT(mr_thread_start(&thread, "fire", fire, i), 0);
    mr_downpour_start(x.d, x.r.session, ps, s);
    MR_CHECK_INT(TF_GetCode(s), TF_CANCELLED);
    mr_thread_join(&thread);
    mr_run_under(NULL);
    mr_interrupter_free(i);
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

/* ---- the log of a long wait ---- */

#define PERIOD_NS INT64_C(5000000)

static void finish_it(void *arg)
{
    replica *x = arg;
    mr_downpour_finish(x->d, x->r.status);
    CHECK_STATUS(x->r.status);
}

/* With hold_step the server stands still before the first step, which needs a fetch; else before the last push. */
static void wait_for_servers(bool hold_step, const char *why)
{
    replica x = {.steps = 5};
    ps_halt h;
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    make(&x, 4, (mr_downpour_options){.name = "job", .rate = 0.1f, .n_push = 100, .most_behind = 1});
    mr_downpour_start(x.d, x.r.session, ps, s);
    CHECK_STATUS(s);
    if (!hold_step)
        train(&x, 0);
    ps_halt_begin(&h, &ps->own_server->inbox);
    mr_test_log_begin(PERIOD_NS);
    MR_CHECK_INT(mr_thread_start(&x.thread, "replica", hold_step ? train_all : finish_it, &x), 0);
    mr_test_log_wait(why, 2);
    ps_halt_end(&h);
    mr_thread_join(&x.thread);
    mr_test_log_end();
    drop(&x);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(downpour_logs_a_long_wait_for_a_fetch)
{
    wait_for_servers(true, "Still waiting for the parameter servers of 'job': they have not answered a fetch (");
}

MR_TEST(downpour_logs_a_long_wait_for_a_push)
{
    wait_for_servers(false, "Still waiting for the parameter servers of 'job': they have not acknowledged a push (");
}

static void start_and_train(void *arg)
{
    replica *x = arg;
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = x->ps;
    mr_downpour_start(x->d, x->r.session, ps, s);
    CHECK_STATUS(s);
    TF_DeleteStatus(s);
    train_all(x);
}

/* Replica 1 waits first for the initial values of replica 0, then for the steps that it makes alone. */
MR_TEST(downpour_logs_a_long_wait_for_the_first_replica)
{
    replica x[2] = {{.steps = 3}, {.steps = 1}};
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = connect_ps(s);
    for (int i = 0; i < 2; i++) {
        mr_downpour_options o = {.name = "job", .replica = i, .rate = 0.1f, .warm_steps = 3, .patience_ms = 60000};
        make(&x[i], 4, o);
        x[i].ps = ps;
    }
    mr_test_log_begin(PERIOD_NS);
    MR_CHECK_INT(mr_thread_start(&x[1].thread, "replica", start_and_train, &x[1]), 0);
    mr_test_log_wait("Still waiting for replica 0 of 'job': it has not pushed all initial values to the "
                     "parameter servers (", 2);
    mr_downpour_start(x[0].d, x[0].r.session, ps, s);
    CHECK_STATUS(s);
    mr_test_log_wait("Still waiting for replica 0 of 'job': it has made 0 of the 3 steps that it makes alone (", 2);
    train_all(&x[0]);
    mr_thread_join(&x[1].thread);
    mr_test_log_end();
    drop(&x[0]);
    drop(&x[1]);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}
