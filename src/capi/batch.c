/* capi/batch.c -- millrace/batch.h on the client's types; the work is done in distbelief/batch_driver.c. */
#include "millrace/batch.h"

#include <math.h>

#include "capi/model.h"
#include "distbelief/batch_driver.h"

struct mr_batch_job {
    TF_Graph *graph;
    mr_mirror mirror;
    mr_out *inputs;
    int n_inputs;
    mr_batch_driver *driver; /* NULL: it does not drive */
};

static mr_status *no_job(void) { return mr_invalid("The batch job is NULL"); }

/* Adds the gradient nodes that driver and workers share. After an error returns NULL; the error is kept in the model.
 * */
mr_batch_job *mr_batch_job_new(mr_model *m, TF_Output loss, const TF_Output *inputs, int ninputs)
{
    if (!m)
        return NULL;
    mr_batch_job *j = mr_new(mr_batch_job);
    mr_lock(&m->graph->mu);
    mr_scope *s = &m->net->s;
    mr_model_arg(m, loss);
    if (ninputs < 0 || (ninputs && !inputs))
        mr_scope_fail(s,
                      mr_invalid("The list of inputs of a batch job is NULL, or its length %d is negative", ninputs));
    for (int i = 0; i < ninputs && mr_scope_ok(s); i++)
        mr_model_arg(m, inputs[i]);
    if (mr_scope_ok(s)) {
        *j = (mr_batch_job){.graph = m->graph, .inputs = mr_new_array(mr_out, ninputs + 1), .n_inputs = ninputs};
        for (int i = 0; i < ninputs; i++)
            j->inputs[i] = mr_capi_out(inputs[i]);
        mr_mirror_build(m->net, mr_capi_out(loss), false, 0, &j->mirror);
    }
    bool ok = mr_scope_ok(s);
    mr_unlock(&m->graph->mu);
    if (ok)
        return j;
    mr_batch_job_free(j);
    return NULL;
}

void mr_batch_job_free(mr_batch_job *j)
{
    if (!j)
        return;
    mr_batch_driver_free(j->driver);
    mr_mirror_deinit(&j->mirror);
    mr_free(j->inputs);
    mr_free(j);
}

static mr_status *check_session(const mr_batch_job *j, const TF_Session *session)
{
    if (!session)
        return mr_invalid("A batch job needs a session");
    return session->graph == j->graph ? NULL
                                      : mr_invalid("The session and the model of the batch job have different graphs");
}

/* ---- the driver ---- */

/* Starts the driver with the current values of the variables in the session. */
static mr_status *start_driver(mr_batch_job *j, TF_Session *session, const mr_batch_job_options *o)
{
    mr_mirror_values v = {0};
    MR_TRY(check_session(j, session));
    if (j->driver)
        return mr_error(MR_FAILED_PRECONDITION, "The batch job already has a driver, at %s",
                        mr_batch_driver_address(j->driver));
    mr_status *st = mr_mirror_values_init(&j->mirror, &v);
    if (!st)
        st = mr_mirror_read(&j->mirror, session->session, &v);
    if (!st)
        st = mr_batch_driver_new(&(mr_batch_driver_options){o->address, o->partitions ? o->partitions : 8, o->rate, o->deadline_ms},
                                 v.vector, j->mirror.n, &j->driver);
    mr_mirror_values_deinit(&j->mirror, &v);
    return st;
}

void mr_batch_job_drive(mr_batch_job *j, TF_Session *session, const mr_batch_job_options *options, TF_Status *status)
{
    mr_batch_job_options o;
    mr_capi_init();
    mr_status *st = j ? mr_capi_take_options(options, &o, sizeof o) : no_job();
    mr_capi_set_status(status, st ? st : start_driver(j, session, &o));
}

const char *mr_batch_job_address(const mr_batch_job *j) { return j && j->driver ? mr_batch_driver_address(j->driver) : ""; }

static mr_status *check_driver(const mr_batch_job *j)
{
    return !j          ? no_job()
           : j->driver ? NULL
                       : mr_error(MR_FAILED_PRECONDITION, "The batch job has no driver; call mr_batch_job_drive first");
}

double mr_batch_job_step(mr_batch_job *j, TF_Status *status)
{
    double loss = NAN;
    mr_status *st = check_driver(j);
    if (!st)
        st = mr_batch_driver_step(j->driver, &loss);
    double out = st ? NAN : loss;
    mr_capi_set_status(status, st);
    return out;
}

static mr_status *install_parameters(mr_batch_job *j, TF_Session *session)
{
    mr_mirror_values v = {0};
    MR_TRY(check_session(j, session));
    mr_status *st = mr_mirror_values_init(&j->mirror, &v);
    if (!st) {
        memcpy(v.vector, mr_batch_driver_parameters(j->driver), (size_t)j->mirror.n * sizeof(float));
        st = mr_mirror_install(&j->mirror, session->session, &v);
    }
    mr_mirror_values_deinit(&j->mirror, &v);
    return st;
}

void mr_batch_job_fetch(mr_batch_job *j, TF_Session *session, TF_Status *status)
{
    mr_status *st = check_driver(j);
    mr_capi_set_status(status, st ? st : install_parameters(j, session));
}

void mr_batch_job_get_stats(mr_batch_job *j, mr_batch_job_stats *out)
{
    mr_batch_driver_stats s = {0};
    size_t size = out ? out->struct_size : 0;
    if (size < sizeof size || size > (1 << 16))
        return;
    if (j && j->driver)
        mr_batch_driver_count(j->driver, &s);
    mr_batch_job_stats ours = {size, s.iterations, s.sent, s.received, s.lost};
    memset(out, 0, size);
    memcpy(out, &ours, MR_MIN(size, sizeof ours));
}

/* ---- a worker ---- */

typedef struct source { /* of partitions, as the client has it */
    const mr_batch_work *work;
    int n_inputs;
} source;

/* A partition in the client's tensors; ours are theirs. */
static mr_status *take_partition(void *arg, int64_t iteration, int64_t partition, int64_t partitions, mr_tensor **values)
{
    const source *from = arg;
    TF_Tensor **in = mr_new_array(TF_Tensor *, from->n_inputs + 1);
    TF_Status *s = TF_NewStatus();
    from->work->partition(from->work->arg, iteration, partition, partitions, in, s);
    mr_status *st = mr_capi_status_copy(s);
    for (int i = 0; i < from->n_inputs; i++) {
        if (!st && !in[i])
            st = mr_invalid("Input %d of partition %lld has no value", i, (long long)partition);
        values[i] = NULL;
        if (!st)
            st = mr_capi_tensor_value(in[i], &values[i]);
        TF_DeleteTensor(in[i]);
    }
    for (int i = 0; st && i < from->n_inputs; i++) { /* they are not needed any more */
        mr_tensor_unref(values[i]);
        values[i] = NULL;
    }
    TF_DeleteStatus(s);
    mr_free(in);
    return st;
}

void mr_batch_job_work(mr_batch_job *j, TF_Session *session, const mr_batch_work *work, TF_Status *status)
{
    mr_batch_work w;
    mr_capi_init();
    mr_status *st = j ? mr_capi_take_options(work, &w, sizeof w) : no_job();
    if (!st)
        st = check_session(j, session);
    if (!st && (!w.driver || !w.partition))
        st = mr_invalid("A worker of a batch job needs the address of a driver and a function that loads partitions");
    if (!st)
        st = mr_batch_worker_run(&(mr_batch_worker){&j->mirror, session->session, w.driver, j->inputs, j->n_inputs, take_partition,
                                                    &(source){&w, j->n_inputs}});
    mr_capi_set_status(status, st);
}
