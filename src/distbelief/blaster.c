/* distbelief/blaster.c -- a Sandblaster replica.
 *
 * It carries out one order at a time. The gradient it computed last is held until the next order says
 * whether it counts. Gradients that count are in `sum`, which belongs to one evaluation, and a flush
 * overwrites the replica's lane with it.
 *
 * Invariants: `held` has tensors exactly while `holds` is set; x and sum belong to `evaluation`. */
#include "distbelief/blaster.h"

#include "base/clock.h"
#include "distbelief/sandblaster_messages.h"
#include "distbelief/coordinator_service.h"
#include "distbelief/mirror.h"
#include "ps/client.h"

struct mr_blaster {
    mr_mirror m;
    mr_out *inputs;
    int n_inputs;
    mr_mirror_values x, sum;
    mr_tensor **held; /* gradients of the portion computed last, not yet in the sum */
    bool holds;
    float held_weight;
    int64_t evaluation; /* that x and sum belong to; 0: none */
    const mr_blaster_work *w; /* while mr_blaster_run is running */
    int64_t heard_ns;         /* when the last order arrived */
    mr_mutex mu;
    mr_coordinator_client *client MR_GUARDED_BY(mu);
    mr_cancel *cancel; /* cancels runs */
    bool cancelled MR_GUARDED_BY(mu);
};

/* Finds or makes the table of a vector of this job. */
static mr_status *find_table(mr_blaster *b, const mr_blaster_work *w, const char *vector, int number, int *out)
{
    return mr_blast_table(w->ps, mr_sv_of(w->name), vector, number, b->m.keys, b->m.width, out);
}

/* Pulls a whole vector from a table, or pushes it, and waits. */
static mr_status *move_vector(mr_blaster *b, const mr_blaster_work *w, int table, bool pull, float *vector)
{
    mr_ps_task task;
    mr_ps_job j = {.pull = pull, .table = table, .keys = {NULL, 0, (size_t)b->m.keys}, .floats = vector, .out = vector};
    MR_TRY(mr_ps_begin(w->ps, &j, &task));
    return mr_ps_end(w->ps, task);
}

/* ---- orders ---- */

/* Adds the held gradient to the sum if the order says so, otherwise drops it. A gradient of another
 * evaluation never counts. */
static mr_status *settle_held(mr_blaster *b, const mr_blast_order *o)
{
    mr_status *st = NULL;
    if (b->holds && o->keep && o->evaluation == b->evaluation)
        st = mr_mirror_add(&b->m, b->held, b->held_weight, &b->sum, NULL);
    if (b->holds)
        mr_mirror_drop(&b->m, b->held);
    b->holds = false;
    return st;
}

/* Fetches X, installs it, and clears the sum. */
static mr_status *begin_evaluation(mr_blaster *b, int64_t evaluation)
{
    MR_ASSERT(!b->holds && b->w);
    int x;
    MR_TRY(find_table(b, b->w, "x", -1, &x));
    MR_TRY(move_vector(b, b->w, x, true, b->x.vector));
    MR_TRY(mr_mirror_install(&b->m, b->w->session, &b->x));
    memset(b->sum.vector, 0, (size_t)b->m.n * sizeof(float));
    b->evaluation = evaluation;
    return NULL;
}

/* Computes one portion; its gradient is held, and its loss is weighted. */
static mr_status *compute_portion(mr_blaster *b, const mr_blast_order *o, double *loss)
{
    float value = 0;
    double weight = 1 / (double)o->portions;
    MR_ASSERT(!b->holds);
    mr_tensor **in = mr_new_array(mr_tensor *, b->n_inputs + 1);
    mr_status *st = o->evaluation == b->evaluation ? NULL : begin_evaluation(b, o->evaluation);
    if (!st)
        st = b->w->portion(b->w->arg, o->portion, o->portions, in, &weight);
    for (int i = 0; i < b->n_inputs && !st; i++)
        if (!in[i])
            st = mr_invalid("The portion function returned no value for input %d of portion %lld", i,
                            (long long)o->portion);
    if (!st)
        st = mr_mirror_run(&b->m, b->w->session,
                           &(mr_run_args){.feeds = b->inputs, .feed_values = in, .n_feeds = b->n_inputs}, b->cancel, b->held,
                           &value);
    /* Whether the gradient counts is known only with the next order (settle_held). */
    b->holds = !st;
    b->held_weight = (float)weight;
    *loss = (double)value * weight;
    for (int i = 0; i < b->n_inputs; i++)
        mr_tensor_unref(in[i]);
    mr_free(in);
    return st;
}

/* Writes the sum to the lane, which the coordinator adds to the gradient. */
static mr_status *flush_sum(mr_blaster *b, const mr_blast_order *o)
{
    int lane;
    MR_TRY(find_table(b, b->w, "lane", o->lane, &lane));
    return move_vector(b, b->w, lane, false, b->sum.vector);
}

/* Pushes the initial values of the variables to the lane. */
static mr_status *give_values(mr_blaster *b, const mr_blast_order *o)
{
    int lane;
    MR_TRY(mr_mirror_read(&b->m, b->w->session, &b->x));
    MR_TRY(find_table(b, b->w, "lane", o->lane, &lane));
    return move_vector(b, b->w, lane, false, b->x.vector);
}

/* Carries out an order and writes the report; *end: there is nothing more to do. */
static mr_status *carry_out_order(mr_blaster *b, const mr_blast_order *o, mr_blast_report *out, bool *end)
{
    *out = (mr_blast_report){.evaluation = o->evaluation, .portion = o->portion, .message = MR_SV("")};
    MR_TRY(settle_held(b, o));
    switch (o->kind) {
    case MR_WISH_START: out->kind = MR_TOLD_STARTED; return give_values(b, o);
    case MR_WISH_COMPUTE: out->kind = MR_TOLD_DONE; return compute_portion(b, o, &out->loss);
    case MR_WISH_FLUSH: out->kind = MR_TOLD_FLUSHED; return flush_sum(b, o);
    case MR_WISH_END: *end = true; return NULL;
    case MR_WISH_NOTHING: break;
    }
    return NULL;
}

/* ---- work ---- */

/* Sends the report, which is taken over, and waits for the next order. */
static mr_status *take_order(mr_coordinator_client *h, mr_bytes *report, mr_blast_order *out)
{
    mr_bytes bytes = {0};
    mr_sv flat;
    mr_status *st = mr_coordinator_client_ask(h, report, &bytes);
    if (!st)
        st = mr_bytes_flat(&bytes, &flat);
    if (!st)
        st = mr_blast_get_order(flat, out);
    mr_bytes_deinit(&bytes);
    return st;
}

/* Reports to the coordinator why this replica leaves, and waits for its answer. */
static void tell_failure(mr_coordinator_client *h, const mr_status *why)
{
    mr_bytes report = {0}, none = {0};
    mr_blast_report r = {.kind = MR_TOLD_FAILED, .code = (int)mr_status_code(why), .message = mr_sv_of(mr_status_message(why))};
    mr_status *st = mr_blast_put_report(&r, &report);
    if (!st)
        st = mr_coordinator_client_ask(h, &report, &none);
    mr_status_free(st);
    mr_bytes_deinit(&none);
}

/* Asks for orders and carries them out until the end, or an error. Errors other than a cancellation
 * are reported to the coordinator. */
static mr_status *work_at(mr_blaster *b, mr_coordinator_client *h)
{
    mr_bytes report = {0};
    mr_blast_order o;
    mr_blast_report r;
    for (bool end = false;;) {
        MR_TRY(take_order(h, &report, &o));
        b->heard_ns = mr_now_ns();
        mr_status *st = carry_out_order(b, &o, &r, &end);
        if (end || st) {
            if (st && mr_status_code(st) != MR_CANCELLED)
                tell_failure(h, st);
            return st;
        }
        MR_TRY(mr_blast_put_report(&r, &report));
    }
}

/* Makes the connection visible to mr_blaster_cancel. CANCELLED if that was called before. */
static mr_status *set_client(mr_blaster *b, mr_coordinator_client *h)
{
    mr_lock(&b->mu);
    b->client = h;
    bool cancelled = b->cancelled;
    mr_unlock(&b->mu);
    return h && cancelled ? mr_error(MR_CANCELLED, "The work was cancelled") : NULL;
}

/* One session with the coordinator. Afterwards nothing is held. */
static mr_status *work_once(mr_blaster *b)
{
    mr_bytes hello = {0};
    mr_sv flat;
    mr_coordinator_client *h = NULL;
    mr_status *st = mr_blast_put_hello(&(mr_blast_hello){mr_sv_of(b->w->name), b->m.keys, b->m.width}, &hello);
    if (!st)
        st = mr_bytes_flat(&hello, &flat);
    if (!st)
        st = mr_coordinator_client_join(&(mr_coordinator_client_rules){b->w->coordinator, flat, b->w->deadline_ms}, &h);
    if (!st)
        st = set_client(b, h);
    if (!st)
        st = work_at(b, h);
    mr_status_free(set_client(b, NULL));
    mr_coordinator_client_leave(h);
    mr_bytes_deinit(&hello);
    if (b->holds)
        mr_mirror_drop(&b->m, b->held);
    b->holds = false;
    b->evaluation = 0;
    return st;
}

/* If the connection breaks and the coordinator still answers, the replica joins again under another
 * number, however long it has worked. */
mr_status *mr_blaster_run(mr_blaster *b, const mr_blaster_work *w)
{
    b->w = w;
    b->heard_ns = mr_now_ns();
    mr_status *st = work_once(b);
    while (mr_status_code(st) == MR_ABORTED && mr_now_ns() < b->heard_ns + w->deadline_ms * 1000000) {
        mr_status_free(st);
        mr_sleep_ns(20 * 1000000);
        st = work_once(b);
    }
    b->w = NULL;
    return st ? mr_status_prepend(st, "Sandblaster '%s' at %s: ", w->name, w->coordinator) : NULL;
}

/* From any thread, also before or after a run. */
void mr_blaster_cancel(mr_blaster *b)
{
    mr_lock(&b->mu);
    b->cancelled = true;
    if (b->client)
        mr_coordinator_client_cancel(b->client);
    mr_unlock(&b->mu);
    mr_cancel_start(b->cancel);
}

/* Installs the present X in the session, without working for the coordinator. */
mr_status *mr_blaster_fetch(mr_blaster *b, mr_session *s, mr_ps *ps, const char *name)
{
    int x;
    mr_blaster_work w = {.ps = ps, .name = name};
    MR_TRY(find_table(b, &w, "x", -1, &x));
    MR_TRY(move_vector(b, &w, x, true, b->x.vector));
    return mr_mirror_install(&b->m, s, &b->x);
}

/* ---- creating and freeing ---- */

/* The graph is built first, since the sizes of the vectors follow from it. Errors are kept in the network's scope. */
mr_blaster *mr_blaster_new(mr_nn *n, mr_out loss, const mr_out *inputs, int n_inputs)
{
    mr_blaster *b = mr_new(mr_blaster);
    b->n_inputs = n_inputs;
    b->inputs = mr_new_array(mr_out, n_inputs + 1);
    if (n_inputs)
        memcpy(b->inputs, inputs, (size_t)n_inputs * sizeof *inputs);
    b->cancel = mr_cancel_new(NULL);
    mr_mutex_init(&b->mu);
    mr_mirror_build(n, loss, false, 0, &b->m);
    b->held = mr_new_array(mr_tensor *, 2 * b->m.parts.n + 1);
    if (mr_scope_ok(&n->s))
        mr_scope_fail(&n->s, mr_mirror_values_init(&b->m, &b->x));
    if (mr_scope_ok(&n->s))
        mr_scope_fail(&n->s, mr_mirror_values_init(&b->m, &b->sum));
    if (mr_scope_ok(&n->s))
        return b;
    mr_blaster_free(b);
    return NULL;
}

/* Nothing may be running. Also frees a replica that was made in part. */
void mr_blaster_free(mr_blaster *b)
{
    if (!b)
        return;
    MR_ASSERT(!b->w && !b->holds);
    mr_mirror_values_deinit(&b->m, &b->x);
    mr_mirror_values_deinit(&b->m, &b->sum);
    mr_mirror_deinit(&b->m);
    mr_cancel_free(b->cancel);
    mr_mutex_deinit(&b->mu);
    mr_free(b->held);
    mr_free(b->inputs);
    mr_free(b);
}
