/* capi/federated.c -- millrace/federated.h: fed/ on the client's types. */
#include "millrace/federated.h"

#include "capi/federated_work.h"
#include "fed/client.h"
#include "fed/server.h"
#include "fed/simulated.h"

#define MS INT64_C(1000000)
#define MOST_MS (INT64_MAX / MS / 2) /* it is added to a clock */
enum { TEN_MINUTES_MS = 600000, TRIES = 10, MOST_CLIENTS = 10000, MOST_EXAMPLES = 100000, MOST_THREADS = 1024 };

struct mr_federated {
    mr_capi_work work;
    mr_capi_examples *clients;   /* simulated */
    mr_learner_examples *plain;  /* the same as fed/ sees them */
    int n_clients;
    mr_fed_simulated *simulated;
    mr_fed_server *server; /* one of the two */
};

static mr_fed_coordinator *coordinator_of(mr_federated *f)
{
    return f->simulated ? mr_fed_simulated_coordinator(f->simulated) : mr_fed_server_coordinator(f->server);
}

/* ---- options ---- */

static mr_status *check_options(const mr_federated_options *o)
{
    if (!o->work)
        return mr_invalid("federated: work is NULL");
    if ((o->clients != NULL) == (o->address != NULL))
        return mr_invalid("federated: set either clients or address");
    if (o->clients && (o->num_clients < 1 || o->threads < 0 || o->threads > MOST_THREADS))
        return mr_invalid("federated: num_clients %d or threads %d is out of range", o->num_clients, o->threads);
    if (o->epochs < 0 || o->batch < 0 || o->deadline_ms < 0 || o->wait_ms < 0 || o->most_tries < 0 || o->most_clients < 0 ||
        o->most_examples < 0 || o->deadline_ms > MOST_MS || o->wait_ms > MOST_MS)
        return mr_invalid("federated: a count or a time in the options is negative or too large");
    if (!(o->clip >= 0) || !(o->rate - o->rate == 0))
        return mr_invalid("federated: clip %g must not be negative, and rate %g must be finite", (double)o->clip,
                          (double)o->rate);
    return NULL;
}

/* Converts a float such as 0.1f, which is slightly larger than 0.1, to the double with the same decimal digits. */
static double as_written(float v)
{
    double d = (double)v;
    if (!(d > -1e9 && d < 1e9))
        return d;
    double tidy = (double)(int64_t)(d * 1e6 + (d < 0 ? -0.5 : 0.5)) / 1e6;
    return (float)tidy == v ? tidy : d;
}

/* Fills in the defaults: a fraction of 0.1, one epoch, a clip of 4, and ten minutes for deadlines and waits. */
static mr_fed_coordinator_options coordinator_options(const mr_federated_options *o)
{
    int64_t deadline = o->deadline_ms ? o->deadline_ms : TEN_MINUTES_MS, wait = o->wait_ms ? o->wait_ms : TEN_MINUTES_MS;
    mr_fed_coordinator_options c = {
        .rounds = {.n_clients = o->clients ? o->num_clients : o->most_clients ? o->most_clients : MOST_CLIENTS,
                   .fraction = o->fraction > 0 || o->fraction < 0 ? as_written(o->fraction) : 0.1,
                   .at_least = o->at_least,
                   .over = as_written(o->over),
                   .suffice = as_written(o->suffice),
                   .wait_for = o->clients ? 0 : o->wait_for,
                   .secure = o->secure != 0,
                   .threshold = as_written(o->threshold),
                   .stage_ns = deadline * MS,
                   .pause_ns = o->clients ? 0 : 200 * MS,
                   .most_tries = o->most_tries ? o->most_tries : TRIES,
                   .seed = o->seed},
        .config = {.learn = {.epochs = o->epochs ? o->epochs : 1, .batch = o->batch, .rate = o->rate},
                   .clip = o->clip > 0 ? o->clip : 4,
                   .most_examples = o->most_examples ? o->most_examples : MOST_EXAMPLES},
        .server_rate = as_written(o->server_rate),
        .server_momentum = as_written(o->server_momentum),
        .wait_ns = wait * MS};
    return c;
}

/* ---- making ---- */

/* The last session has the averaged model: in the others, clients that a round did not wait for may still train. */
static mr_learner *averaged_learner(mr_federated *f) { return &f->work.learners[f->work.n_learners - 1]; }

static mr_status *initial_weights(mr_federated *f, mr_fed_weights **out)
{
    mr_fed_weights *w = mr_fed_weights_new(f->work.n_weights);
    if (!w)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: no memory for %zu weights", f->work.n_weights);
    mr_status *st = mr_learner_read(averaged_learner(f), w->v, w->n);
    if (st)
        mr_fed_weights_unref(w);
    else
        *out = w;
    return st;
}

static mr_status *take_clients(mr_federated *f, const mr_federated_options *o)
{
    int n_inputs = f->work.learners[0].n_inputs;
    f->clients = mr_try_calloc((size_t)o->num_clients, sizeof *f->clients);
    f->plain = mr_try_calloc((size_t)o->num_clients, sizeof *f->plain);
    if (!f->clients || !f->plain)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: no memory for %d clients", o->num_clients);
    for (; f->n_clients < o->num_clients; f->n_clients++) {
        int i = f->n_clients;
        MR_TRY(mr_capi_examples_take(&o->clients[i], n_inputs, &f->clients[i]));
        f->plain[i] = f->clients[i].e;
    }
    return NULL;
}

/* With clients, they are simulated in this process by one session per thread; with an address, a server waits for them.
 * The last session holds the averaged model. */
static mr_status *make_federated(mr_federated *f, const mr_federated_options *o)
{
    mr_fed_weights *weights = NULL;
    MR_TRY(check_options(o));
    int threads = o->address ? 0 : o->threads ? o->threads : mr_cpu_count();
    MR_TRY(mr_capi_work_open(o->work, threads + 1, &f->work));
    mr_fed_coordinator_options c = coordinator_options(o);
    if (o->clients)
        MR_TRY(take_clients(f, o));
    MR_TRY(initial_weights(f, &weights));
    if (o->address)
        return mr_fed_server_new(&c, o->address, weights, &f->server);
    mr_fed_simulated_options s = {c, f->plain, f->n_clients, f->work.learners, threads, as_written(o->lose)};
    return mr_fed_simulated_new(&s, weights, &f->simulated);
}

mr_federated *mr_federated_new(const mr_federated_options *options, TF_Status *status)
{
    mr_federated_options o;
    mr_federated *f = mr_new(mr_federated);
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = make_federated(f, &o);
    mr_capi_set_status(status, st);
    if (!st)
        return f;
    mr_federated_free(f);
    return NULL;
}

void mr_federated_free(mr_federated *f)
{
    if (!f)
        return;
    mr_fed_simulated_free(f->simulated);
    mr_fed_server_free(f->server);
    for (int i = 0; i < f->n_clients; i++)
        mr_capi_examples_drop(&f->clients[i]);
    mr_free(f->clients);
    mr_free(f->plain);
    mr_capi_work_close(&f->work);
    mr_free(f);
}

/* ---- rounds ---- */

static mr_status *no_federated(void) { return mr_invalid("The federated averaging is NULL"); }

static mr_status *show_weights(mr_federated *f)
{
    mr_fed_weights *w = mr_fed_coordinator_weights(coordinator_of(f));
    mr_status *st = mr_learner_load(averaged_learner(f), w->v, w->n);
    mr_fed_weights_unref(w);
    return st;
}

static void put_report(const mr_fed_coordinator_report *r, mr_federated_report *out)
{
    size_t size = out->struct_size;
    mr_federated_report full = {.struct_size = size,
                                .round = r->round,
                                .tries = r->tries,
                                .asked = r->asked,
                                .updates = r->updates,
                                .there = r->there,
                                .examples = r->examples,
                                .loss = r->loss,
                                .seconds = r->seconds};
    memcpy(out, &full, MR_MIN(size, sizeof full)); /* an older client has a shorter one */
}

void mr_federated_round(mr_federated *f, mr_federated_report *report, TF_Status *status)
{
    mr_fed_coordinator_report r;
    mr_status *st = f ? NULL : no_federated();
    if (!st && report && report->struct_size < sizeof(size_t))
        st = mr_invalid("The struct_size %zu of an mr_federated_report is invalid", report->struct_size);
    if (!st)
        st = mr_fed_coordinator_round(coordinator_of(f), &r);
    if (!st)
        st = show_weights(f);
    if (!st && report)
        put_report(&r, report);
    mr_capi_set_status(status, st);
}

void mr_federated_stop(mr_federated *f)
{
    if (f)
        mr_fed_coordinator_stop(coordinator_of(f));
}

void mr_federated_set_rate(mr_federated *f, float rate)
{
    if (f && rate - rate == 0)
        mr_fed_coordinator_rate(coordinator_of(f), rate);
}

TF_Session *mr_federated_session(mr_federated *f) { return f ? f->work.sessions[f->work.n_learners - 1] : NULL; }
const char *mr_federated_address(const mr_federated *f) { return f && f->server ? mr_fed_server_address(f->server) : ""; }

/* ---- a client ---- */

static mr_status *run_client(const mr_federated_client_options *o, int64_t *updates)
{
    mr_capi_work work;
    mr_capi_examples examples = {0};
    mr_status *st = NULL;
    if (!o->work || !o->examples || !o->address || o->deadline_ms < 0 || o->deadline_ms > MOST_MS)
        return mr_invalid("federated: a client needs work, examples, an address and a valid deadline_ms");
    MR_TRY(mr_capi_work_open(o->work, 1, &work));
    MR_GO(mr_capi_examples_take(o->examples, work.learners[0].n_inputs, &examples));
    MR_GO(mr_learner_check_examples(&work.learners[0], &examples.e));
    mr_fed_client_options with = {o->address, &work.learners[0], examples.e, (o->deadline_ms ? o->deadline_ms : 60000) * MS,
                                  o->secure != 0, o->stop};
    MR_GO(mr_fed_client_run(&with, updates));
out:
    mr_capi_examples_drop(&examples);
    mr_capi_work_close(&work);
    return st;
}

int64_t mr_federated_client(const mr_federated_client_options *options, TF_Status *status)
{
    mr_federated_client_options o;
    int64_t updates = -1;
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = run_client(&o, &updates);
    bool ok = !st;
    mr_capi_set_status(status, st);
    return ok ? updates : -1;
}
