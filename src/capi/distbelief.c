/* capi/distbelief.c -- millrace/distbelief.h on the client's types; the work is done in src/distbelief. */
#include "millrace/distbelief.h"

#include <math.h>

#include "capi/model.h"
#include "distbelief/blaster.h"
#include "distbelief/coordinator.h"
#include "distbelief/downpour.h"

/* ---- runs ---- */

typedef struct client_run { /* a client's arrays as ours */
    mr_run_args a;
    mr_tensor **in, **out;
    int n_in; /* of `in` that are set */
} client_run;

/* Checks the tensors of a step and takes references to the input values. drop_run releases them, also after an error.
 * */
static mr_status *take_run(client_run *r, const TF_Graph *g, const TF_Output *inputs, TF_Tensor *const *values, int n_in,
                           const TF_Output *outputs, int n_out)
{
    if (n_in < 0 || n_out < 0 || (n_in && (!inputs || !values)) || (n_out && !outputs))
        return mr_invalid(
            "The inputs, their values or the outputs of a step are NULL, or their counts %d and %d are negative", n_in,
            n_out);
    r->in = mr_new_array(mr_tensor *, n_in + 1);
    r->out = mr_new_array(mr_tensor *, n_out + 1);
    for (int i = 0; i < n_in; i++) {
        MR_TRY(mr_capi_check_output(g, inputs[i]));
        if (!values[i])
            return mr_invalid("Input %d has no value", i);
        MR_TRY(mr_capi_tensor_value(values[i], &r->in[i]));
        r->n_in = i + 1;
    }
    for (int i = 0; i < n_out; i++)
        MR_TRY(mr_capi_check_output(g, outputs[i]));
    r->a = (mr_run_args){.feeds = mr_capi_outs(inputs), .fetches = mr_capi_outs(outputs), .feed_values = r->in,
                         .fetched = r->out, .n_feeds = n_in, .n_fetches = n_out};
    return NULL;
}

static mr_status *give_outputs(client_run *r, TF_Tensor **out)
{
    mr_status *st = NULL;
    for (int i = 0; i < r->a.n_fetches && !st; i++) {
        st = mr_capi_tensor_own(r->out[i], &out[i]);
        r->out[i] = NULL;
    }
    return st;
}

static void drop_run(client_run *r)
{
    for (int i = 0; r->out && i < r->a.n_fetches; i++)
        mr_tensor_unref(r->out[i]);
    for (int i = 0; i < r->n_in; i++)
        mr_tensor_unref(r->in[i]);
    mr_free(r->in);
    mr_free(r->out);
}

/* ---- Downpour ---- */

struct mr_downpour {
    mr_downpour_replica *replica;
    TF_Graph *graph;
};

static mr_status *no_downpour(void) { return mr_invalid("The Downpour replica is NULL"); }

/* After an error returns NULL; the error is kept in the model. */
mr_downpour *mr_downpour_new(mr_model *m, TF_Output loss, const mr_downpour_options *options)
{
    mr_downpour_options o;
    mr_downpour *d = NULL;
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    mr_model_arg(m, loss);
    mr_scope_fail(&m->net->s, mr_capi_take_options(options, &o, sizeof o));
    mr_downpour_replica *p = mr_scope_ok(&m->net->s) ? mr_downpour_replica_new(m->net, mr_capi_out(loss), &o) : NULL;
    if (p) {
        d = mr_new(mr_downpour);
        *d = (mr_downpour){p, m->graph};
    }
    mr_unlock(&m->graph->mu);
    return d;
}

void mr_downpour_free(mr_downpour *d)
{
    if (!d)
        return;
    mr_downpour_replica_free(d->replica);
    mr_free(d);
}

void mr_downpour_start(mr_downpour *d, TF_Session *session, mr_ps *ps, TF_Status *status)
{
    mr_status *st = d ? NULL : no_downpour();
    if (!st && (!session || !ps))
        st = mr_invalid("A replica needs a session and a parameter server client");
    if (!st && session->graph != d->graph)
        st = mr_invalid("The session and the model of the replica have different graphs");
    if (!st) {
        mr_downpour_replica_under(d->replica, mr_capi_run_cancel());
        st = mr_downpour_replica_start(d->replica, session->session, ps);
        mr_downpour_replica_under(d->replica, NULL);
    }
    mr_capi_set_status(status, st);
}

/* Outputs are NULL after an error. Returns the number of steps so far, or -1. */
int64_t mr_downpour_train(mr_downpour *d, const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs,
                          const TF_Output *outputs, TF_Tensor **output_values, int noutputs, TF_Status *status)
{
    client_run r = {0};
    for (int i = 0; output_values && i < noutputs; i++)
        output_values[i] = NULL;
    mr_status *st = d ? NULL : no_downpour();
    if (!st && noutputs > 0 && !output_values)
        st = mr_invalid("output_values is NULL although there are %d outputs", noutputs);
    if (!st)
        st = take_run(&r, d->graph, inputs, input_values, ninputs, outputs, noutputs);
    if (!st)
        st = mr_downpour_replica_train(d->replica, &r.a, mr_capi_run_cancel());
    if (!st)
        st = give_outputs(&r, output_values);
    drop_run(&r);
    mr_downpour_stats stats = {0};
    if (!st)
        mr_downpour_replica_count(d->replica, &stats);
    int64_t steps = st ? -1 : stats.steps;
    mr_capi_set_status(status, st);
    return steps;
}

/* A wait that ends when the interrupter of the caller's thread is fired. */
static mr_status *under_this_thread(mr_downpour *d, mr_status *(*fn)(mr_downpour_replica *p))
{
    mr_downpour_replica_under(d->replica, mr_capi_run_cancel());
    mr_status *st = fn(d->replica);
    mr_downpour_replica_under(d->replica, NULL);
    return st;
}

void mr_downpour_finish(mr_downpour *d, TF_Status *status)
{
    mr_capi_set_status(status, d ? under_this_thread(d, mr_downpour_replica_finish) : no_downpour());
}

void mr_downpour_fetch(mr_downpour *d, TF_Status *status)
{
    mr_capi_set_status(status, d ? under_this_thread(d, mr_downpour_replica_fetch) : no_downpour());
}

/* Fills as much as the client's struct has room for. */
static void fill_stats(void *out, const void *from, size_t ours)
{
    size_t size;
    memcpy(&size, out, sizeof size);
    if (size < sizeof size || size > (1 << 16))
        return;
    memset(out, 0, size);
    memcpy(out, from, MR_MIN(size, ours));
    memcpy(out, &size, sizeof size);
}

void mr_downpour_get_stats(const mr_downpour *d, mr_downpour_stats *out)
{
    mr_downpour_stats s = {0};
    if (!out)
        return;
    if (d)
        mr_downpour_replica_count(d->replica, &s);
    fill_stats(out, &s, sizeof s);
}

/* ---- Sandblaster: the coordinator ---- */

struct mr_sandblaster {
    mr_blast_coordinator *c;
};

static mr_status *no_sandblaster(void) { return mr_invalid("The Sandblaster coordinator is NULL"); }

mr_sandblaster *mr_sandblaster_start(const mr_sandblaster_options *options, mr_ps *ps, TF_Status *status)
{
    mr_sandblaster_options o;
    mr_blast_coordinator *c = NULL;
    mr_sandblaster *s = NULL;
    mr_capi_init();
    mr_status *st =
        ps ? mr_capi_take_options(options, &o, sizeof o) : mr_invalid("The parameter server client is NULL");
    if (!st)
        st = mr_blast_coordinator_new(&o, ps, &c);
    if (!st) {
        s = mr_new(mr_sandblaster);
        s->c = c;
    }
    mr_capi_set_status(status, st);
    return s;
}

const char *mr_sandblaster_address(const mr_sandblaster *s) { return s ? mr_blast_coordinator_address(s->c) : ""; }

double mr_sandblaster_minimize(mr_sandblaster *s, TF_Status *status)
{
    double loss = NAN;
    mr_status *st = s ? mr_blast_coordinator_minimize(s->c, &loss) : no_sandblaster();
    if (st)
        loss = NAN;
    mr_capi_set_status(status, st);
    return loss;
}

void mr_sandblaster_cancel(mr_sandblaster *s)
{
    if (s)
        mr_blast_coordinator_cancel(s->c);
}

void mr_sandblaster_get_stats(mr_sandblaster *s, mr_sandblaster_stats *out)
{
    mr_sandblaster_stats stats = {0};
    if (!out)
        return;
    if (s)
        mr_blast_coordinator_count(s->c, &stats);
    fill_stats(out, &stats, sizeof stats);
}

void mr_sandblaster_free(mr_sandblaster *s)
{
    if (!s)
        return;
    mr_blast_coordinator_free(s->c);
    mr_free(s);
}

/* ---- Sandblaster: a replica ---- */

struct mr_sandblaster_replica {
    mr_blaster *b;
    TF_Graph *graph;
    int n_inputs;
    const mr_sandblaster_work *work; /* while it works */
};

static mr_status *no_replica(void) { return mr_invalid("The Sandblaster replica is NULL"); }

/* After an error returns NULL; the error is kept in the model. */
mr_sandblaster_replica *mr_sandblaster_replica_new(mr_model *m, TF_Output loss, const TF_Output *inputs, int ninputs)
{
    mr_sandblaster_replica *r = NULL;
    mr_blaster *b = NULL;
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    mr_model_arg(m, loss);
    if (ninputs < 0 || (ninputs && !inputs))
        mr_scope_fail(&m->net->s,
                      mr_invalid("The list of inputs of a replica is NULL, or its length %d is negative", ninputs));
    for (int i = 0; i < ninputs && mr_scope_ok(&m->net->s); i++)
        mr_model_arg(m, inputs[i]);
    if (mr_scope_ok(&m->net->s))
        b = mr_blaster_new(m->net, mr_capi_out(loss), mr_capi_outs(inputs), ninputs);
    if (b) {
        r = mr_new(mr_sandblaster_replica);
        *r = (mr_sandblaster_replica){.b = b, .graph = m->graph, .n_inputs = ninputs};
    }
    mr_unlock(&m->graph->mu);
    return r;
}

void mr_sandblaster_replica_free(mr_sandblaster_replica *r)
{
    if (!r)
        return;
    mr_blaster_free(r->b);
    mr_free(r);
}

/* A portion in the client's tensors; ours are theirs. */
static mr_status *take_portion(void *arg, int64_t portion, int64_t portions, mr_tensor **values, double *weight)
{
    const mr_sandblaster_replica *r = arg;
    TF_Tensor **in = mr_new_array(TF_Tensor *, r->n_inputs + 1);
    TF_Status *s = TF_NewStatus();
    r->work->portion(r->work->arg, portion, portions, in, weight, s);
    mr_status *st = mr_capi_status_copy(s);
    for (int i = 0; i < r->n_inputs; i++) {
        values[i] = NULL;
        if (in[i])
            mr_status_update(&st, mr_capi_tensor_value(in[i], &values[i]));
        TF_DeleteTensor(in[i]);
    }
    TF_DeleteStatus(s);
    mr_free(in);
    return st;
}

static mr_status *check_work(const mr_sandblaster_replica *r, const TF_Session *session, const mr_ps *ps,
                             const mr_sandblaster_work *w)
{
    if (!session || !ps || !w->coordinator || !w->portion)
        return mr_invalid(
            "A replica needs a session, a parameter server client, a coordinator and a function that loads portions");
    if (session->graph != r->graph)
        return mr_invalid("The session and the model of the replica have different graphs");
    if (w->deadline_ms < 0 || w->deadline_ms > INT32_MAX)
        return mr_invalid("deadline_ms is %lld; it is out of range", (long long)w->deadline_ms);
    return NULL;
}

void mr_sandblaster_replica_work(mr_sandblaster_replica *r, TF_Session *session, mr_ps *ps, const mr_sandblaster_work *work,
                                 TF_Status *status)
{
    mr_sandblaster_work w;
    mr_status *st = r ? mr_capi_take_options(work, &w, sizeof w) : no_replica();
    if (!st)
        st = check_work(r, session, ps, &w);
    if (!st) {
        r->work = &w;
        st = mr_blaster_run(r->b, &(mr_blaster_work){session->session, ps, w.coordinator,
                                                     w.name && w.name[0] ? w.name : "sandblaster",
                                                     w.deadline_ms ? w.deadline_ms : 60000, take_portion, r});
        r->work = NULL;
    }
    mr_capi_set_status(status, st);
}

void mr_sandblaster_replica_cancel(mr_sandblaster_replica *r)
{
    if (r)
        mr_blaster_cancel(r->b);
}

void mr_sandblaster_replica_fetch(mr_sandblaster_replica *r, TF_Session *session, mr_ps *ps, const char *name,
                                  TF_Status *status)
{
    mr_status *st = r ? NULL : no_replica();
    if (!st && (!session || !ps || session->graph != r->graph))
        st = mr_invalid("A replica needs a session with the graph of its model, and a parameter server client");
    mr_capi_set_status(status, st ? st : mr_blaster_fetch(r->b, session->session, ps, name && name[0] ? name : "sandblaster"));
}
