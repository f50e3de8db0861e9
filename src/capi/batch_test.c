/* capi/batch_test.c -- millrace/batch.h as a client has it. */
#include "millrace/batch.h"

#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "tests/harness/test.h"

enum { WORKERS = 2, PARTITIONS = 4, POINTS = 8 };

typedef struct member { /* a line y = 2x + 1 to be learnt */
    TF_Graph *graph;
    mr_model *m;
    TF_Output in[2], w, b;
    mr_batch_job *job;
    TF_Session *session;
    TF_Status *status;
    const char *driver;
    mr_thread thread;
    int gives_nothing;
    _Atomic bool ended;
} member;

static void check_ok(const member *w) { MR_CHECK_STR(TF_Message(w->status), ""); }

static void build(member *w)
{
    w->status = TF_NewStatus();
    w->m = mr_model_new(w->graph = TF_NewGraph());
    w->in[0] = mr_input(w->m, "x", TF_FLOAT, 2, (int64_t[]){-1, 1});
    w->in[1] = mr_input(w->m, "y", TF_FLOAT, 2, (int64_t[]){-1, 1});
    TF_Output loss = mr_squared_loss(w->m, mr_dense(w->m, "line", w->in[0], 1, MR_LINEAR), w->in[1]);
    w->job = mr_batch_job_new(w->m, loss, w->in, 2);
    const TF_Operation *init = mr_initializer(w->m);
    mr_model_status(w->m, w->status);
    check_ok(w);
    TF_SessionOptions *o = TF_NewSessionOptions();
    w->session = TF_NewSession(w->graph, o, w->status);
    TF_DeleteSessionOptions(o);
    check_ok(w);
    TF_SessionRun(w->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, w->status);
    check_ok(w);
}

static void drop(member *w)
{
    mr_batch_job_free(w->job);
    TF_DeleteSession(w->session, w->status);
    mr_model_free(w->m);
    TF_DeleteGraph(w->graph);
    TF_DeleteStatus(w->status);
}

static void partition(void *arg, int64_t iteration, int64_t part, int64_t parts, TF_Tensor **values, TF_Status *status)
{
    const member *w = arg;
    (void)status;
    MR_CHECK(iteration >= 1 && part >= 0 && part < parts && parts == PARTITIONS);
    for (int k = 0; k < (w->gives_nothing ? 1 : 2); k++)
        values[k] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){POINTS, 1}, 2, POINTS * sizeof(float));
    for (int i = 0; i < POINTS && !w->gives_nothing; i++) {
        float x = (float)(i * parts + part) / (POINTS * PARTITIONS / 2) - 1;
        ((float *)TF_TensorData(values[0]))[i] = x;
        ((float *)TF_TensorData(values[1]))[i] = 2 * x + 1;
    }
}

static void work(void *arg)
{
    member *w = arg;
    mr_batch_job_work(w->job, w->session, &(mr_batch_work){sizeof(mr_batch_work), .driver = w->driver, .partition = partition, .arg = w},
                      w->status);
    w->ended = true;
}

static void start(member *w, const member *driver)
{
    build(w);
    w->driver = mr_batch_job_address(driver->job);
    MR_CHECK_INT(mr_thread_start(&w->thread, "worker", work, w), 0);
}

/* The loss of the session's own variables, on one partition. */
static float own_loss(member *d)
{
    TF_Tensor *v[2], *out = NULL;
    TF_Output loss = {TF_GraphOperationByName(d->graph, "line/BiasAdd"), 0};
    float most = 0;
    partition(d, 1, 1, PARTITIONS, v, d->status);
    TF_SessionRun(d->session, NULL, d->in, v, 2, &loss, &out, 1, NULL, 0, NULL, d->status);
    check_ok(d);
    for (int i = 0; i < POINTS; i++)
        most = fmaxf(most, fabsf(((float *)TF_TensorData(out))[i] - ((float *)TF_TensorData(v[1]))[i]));
    TF_DeleteTensor(v[0]);
    TF_DeleteTensor(v[1]);
    TF_DeleteTensor(out);
    return most;
}

MR_TEST(batch_capi_learns_a_line)
{
    member d = {0}, w[WORKERS] = {{0}};
    double loss = 1;
    build(&d);
    mr_batch_job_drive(d.job, d.session, &(mr_batch_job_options){sizeof(mr_batch_job_options), .partitions = PARTITIONS, .rate = 0.3f},
                       d.status);
    check_ok(&d);
    for (int i = 0; i < WORKERS; i++)
        start(&w[i], &d);
    for (int i = 0; i < 80; i++) {
        loss = mr_batch_job_step(d.job, d.status);
        check_ok(&d);
    }
    MR_CHECK(loss < 1e-4);
    MR_CHECK(own_loss(&d) > 0.1); /* it has not fetched yet */
    mr_batch_job_fetch(d.job, d.session, d.status);
    check_ok(&d);
    MR_CHECK(own_loss(&d) < 0.05);
    mr_batch_job_stats s = {.struct_size = sizeof s};
    mr_batch_job_get_stats(d.job, &s);
    MR_CHECK_INT(s.iterations, 80);
    MR_CHECK(s.bytes_sent >= 80 * PARTITIONS * 8 && s.bytes_received >= 80 * PARTITIONS * 8);
    mr_batch_job_drive(d.job, d.session, NULL, d.status);
    MR_CHECK_INT(TF_GetCode(d.status), TF_FAILED_PRECONDITION);
    drop(&d);
    for (int i = 0; i < WORKERS; i++) {
        mr_thread_join(&w[i].thread);
        check_ok(&w[i]); /* they end well */
        drop(&w[i]);
    }
}

MR_TEST(batch_capi_refuses_what_cannot_be)
{
    member d = {0}, w = {.gives_nothing = 1}, other = {0};
    build(&d);
    build(&other);
    MR_CHECK(isnan(mr_batch_job_step(d.job, d.status)));
    MR_CHECK_INT(TF_GetCode(d.status), TF_FAILED_PRECONDITION);
    mr_batch_job_drive(d.job, other.session, NULL, d.status);
    MR_CHECK_INT(TF_GetCode(d.status), TF_INVALID_ARGUMENT);
    mr_batch_job_drive(d.job, d.session, &(mr_batch_job_options){sizeof(mr_batch_job_options), .partitions = -1}, d.status);
    MR_CHECK_INT(TF_GetCode(d.status), TF_INVALID_ARGUMENT);
    mr_batch_job_drive(NULL, d.session, NULL, d.status);
    MR_CHECK_INT(TF_GetCode(d.status), TF_INVALID_ARGUMENT);
    mr_batch_job_work(d.job, d.session, NULL, d.status);
    MR_CHECK_INT(TF_GetCode(d.status), TF_INVALID_ARGUMENT);
    MR_CHECK_STR(mr_batch_job_address(d.job), "");
    mr_batch_job_drive(d.job, d.session, &(mr_batch_job_options){sizeof(mr_batch_job_options), .partitions = PARTITIONS, .deadline_ms = 200},
                       d.status);
    check_ok(&d);
    start(&w, &d);
    while (!w.ended) { /* it may not have come yet when a step is over */
        mr_batch_job_step(d.job, d.status);
        MR_CHECK_INT(TF_GetCode(d.status), TF_DEADLINE_EXCEEDED);
    }
    mr_thread_join(&w.thread);
    MR_CHECK_INT(TF_GetCode(w.status), TF_INVALID_ARGUMENT); /* a partition without labels is an end with a reason */
    drop(&d);
    drop(&w);
    drop(&other);
    mr_batch_job_free(NULL);
}
