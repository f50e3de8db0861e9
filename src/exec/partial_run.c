/* exec/partial_run.c -- a step that is fed and fetched piece by piece.
 *
 * Setup starts the whole step. Its feeds are Recvs and its fetches Sends through the step's rendezvous. Each
 * call then sends some feeds and receives some fetches. No thread waits for the step between the calls: its
 * work is done by the pool, or by the thread whose feed makes nodes ready.
 *
 * Lifetime: the session's table holds one reference to a partial run, each call in progress another. The
 * handle is removed when the last feed and fetch are used, when a call fails, or when the session closes.
 *
 * Locks: `calls` (one call at a time) comes before mr_direct.mu and mu. `mu` guards what the step's callbacks
 * change. Invariant: n_waiting is the number of fetches requested from the rendezvous whose callback has not
 * run. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/direct_session.h"
#include "exec/partial_use.h"

struct mr_partial_run {
    mr_direct *session;
    const mr_entry *entry;
    mr_flow *flow;
    mr_mutex calls;                /* one call at a time; locked before mu */
    mr_partial_use use;            /* guarded by calls */
    mr_rendezvous_key *feed_keys, *fetch_keys;
    mr_mutex mu;
    mr_cond changed;
    bool over MR_GUARDED_BY(mu);   /* the step has ended */
    int n_waiting MR_GUARDED_BY(mu); /* fetches that have not arrived */
    bool dead;                     /* the handle is gone; guarded by calls */
    mr_refs refs;                  /* one for the table, one for each call in progress */
};

/* One value on its way to the client. fetch_came fills in the result, on any thread; the caller reads it only when
 * n_waiting is 0. */
typedef struct fetch {
    mr_recv w;
    mr_partial_run *run;
    mr_status *st;
    mr_tensor *t;
    bool is_dead;
} fetch;

/* ---- making and ending ---- */

/* The keys of feeds or fetches, from the client's device to itself. *out is to be freed also on failure. */
static mr_status *make_keys(const mr_direct *s, const mr_out *o, int n, mr_rendezvous_key **out)
{
    const mr_device *client = s->env.devices[0];
    mr_rendezvous_key *k = *out = mr_new_array(mr_rendezvous_key, n + 1);
    mr_status *st = NULL;
    for (int i = 0; !st && i < n; i++) {
        char *name = mr_printf("%s:%d", o[i].node->name, o[i].index);
        st = mr_rendezvous_key_make(mr_sv_of(client->name), client->incarnation,
                                    mr_sv_of(client->name), mr_sv_of(name), &k[i]);
        mr_free(name);
    }
    return st;
}

/* k may be NULL or filled in part: the missing keys are zero. */
static void free_keys(mr_rendezvous_key *k, int n)
{
    for (int i = 0; k && i < n; i++)
        mr_rendezvous_key_deinit(&k[i]);
    mr_free(k);
}

/* The last reference gives the flow back; by then the step is over. */
static void partial_unref(mr_partial_run *p)
{
    if (!mr_refs_drop(&p->refs))
        return;
    MR_ASSERT(!p->flow || p->over);
    if (p->flow)
        mr_program_give(p->flow);
    free_keys(p->feed_keys, p->entry->sig.n_feeds);
    free_keys(p->fetch_keys, p->entry->sig.n_fetches);
    mr_partial_use_deinit(&p->use);
    mr_cond_deinit(&p->changed);
    mr_mutex_deinit(&p->mu);
    mr_mutex_deinit(&p->calls);
    mr_free(p);
}

/* One reference, which the table takes over. The keys and the flow are still missing. */
static mr_partial_run *partial_new(mr_direct *s, const mr_entry *e)
{
    mr_partial_run *p = mr_new(mr_partial_run);
    mr_refs_init(&p->refs);
    mr_mutex_init(&p->calls);
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->changed);
    p->session = s;
    p->entry = e;
    mr_partial_use_init(&p->use, &e->sig);
    return p;
}

/* The `done` of the flow. p cannot be freed meanwhile: end_run waits for `over` before it drops the table's
 * reference. */
static void step_over(mr_flow *f)
{
    mr_partial_run *p = f->ctx;
    MR_ASSERT(!p->over);
    mr_lock(&p->mu);
    p->over = true;
    mr_cond_broadcast(&p->changed);
    mr_unlock(&p->mu);
}

/* Starts the whole step. It has no deadline: a time limit applies to each call, not to all of them together. */
static mr_status *start_step(mr_partial_run *p)
{
    MR_TRY(mr_program_take(p->entry->program, &p->flow));
    mr_flow *f = p->flow;
    f->deadline_ns = 0;
    mr_runner_reset(&f->own_runner, p->session->env.inter, NULL, false);
    mr_flow_start(
        f, &(mr_flow_start_args){&f->own_runner, p->session->env.cancel, NULL, step_over, p});
    return NULL;
}

/* Makes the partial run, starts it and enters it into the table, which takes over the reference. */
static mr_status *setup_entered(mr_direct *s, const mr_run_args *a, char **handle)
{
    mr_run_signature sig = {a->feeds, a->fetches, a->targets, a->n_feeds, a->n_fetches, a->n_targets};
    mr_entry *e = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_direct_find(s, &sig, true, &e));
    mr_partial_run *p = partial_new(s, e);
    MR_GO(make_keys(s, e->sig.feeds, e->sig.n_feeds, &p->feed_keys));
    MR_GO(make_keys(s, e->sig.fetches, e->sig.n_fetches, &p->fetch_keys));
    MR_GO(start_step(p));
    mr_lock(&s->mu);
    *handle = mr_printf("%lld", (long long)s->next_handle++);
    mr_map_putz(&s->partial_runs, *handle, p);
    mr_unlock(&s->mu);
    p = NULL;
out:
    if (p)
        partial_unref(p);
    return st;
}

/* The handle is a number as text; clients treat it as opaque. */
mr_status *mr_partial_setup(mr_session *base, const mr_run_args *a, char **handle)
{
    mr_direct *s = (mr_direct *)base;
    *handle = NULL;
    MR_TRY(mr_direct_enter(s));
    mr_status *st = setup_entered(s, a, handle);
    mr_direct_leave(s);
    return st;
}

/* Takes a reference; NULL if the handle is unknown or used up. */
static mr_partial_run *find_run(mr_direct *s, const char *handle)
{
    mr_lock(&s->mu);
    mr_partial_run *p = mr_map_getz(&s->partial_runs, handle);
    if (p)
        mr_refs_take(&p->refs);
    mr_unlock(&s->mu);
    return p;
}

/* Removes the handle and waits until the step is over. At the deadline (0: none) the step is stopped. Drops
 * the table's reference, unless another thread has removed the handle already. */
static void end_run(mr_direct *s, const char *handle, mr_partial_run *p, int64_t deadline_ns)
{
    bool in_time = true;
    p->dead = true;
    mr_lock(&s->mu);
    bool was_there = mr_map_remove(&s->partial_runs, mr_sv_of(handle)) != NULL;
    mr_unlock(&s->mu);
    mr_lock(&p->mu);
    while (!p->over && in_time)
        if (deadline_ns)
            in_time = mr_cond_wait_until(&p->changed, &p->mu, deadline_ns);
        else
            mr_cond_wait(&p->changed, &p->mu);
    mr_unlock(&p->mu);
    /* A flow that has failed ends soon, so the second wait has no limit. */
    if (!in_time) {
        mr_flow_fail(p->flow, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
        mr_lock(&p->mu);
        while (!p->over)
            mr_cond_wait(&p->changed, &p->mu);
        mr_unlock(&p->mu);
    }
    if (was_there)
        partial_unref(p);
}

/* The session is closed and no call is in progress, so nobody adds or removes entries meanwhile. */
void mr_partial_runs_end(mr_direct *s)
{
    for (;;) {
        uint32_t pos = 0;
        mr_sv key;
        void *p = NULL;
        mr_lock(&s->mu);
        char *handle =
            mr_map_next(&s->partial_runs, &pos, &key, &p) ? mr_strndup(key.p, key.n) : NULL;
        mr_unlock(&s->mu);
        if (!handle)
            return;
        end_run(s, handle, p, 0);
        mr_free(handle);
    }
}

/* ---- checks ---- */

/* Guards the client's graph, if other threads may change it. */
static void lock_graph(const mr_direct *s) MR_NO_TSA
{
    if (s->graph_mu)
        mr_lock(s->graph_mu);
}

static void unlock_graph(const mr_direct *s) MR_NO_TSA
{
    if (s->graph_mu)
        mr_unlock(s->graph_mu);
}

static mr_partial_call call_of(const mr_run_args *a)
{
    return (mr_partial_call){a->feeds, a->fetches, a->n_feeds, a->n_fetches};
}

/* The client's graph is locked while the dependencies of the fetches are followed. */
static mr_status *check_call(const mr_partial_run *p, const mr_run_args *a)
{
    mr_partial_call c = call_of(a);
    MR_TRY(mr_partial_use_check(&p->use, &c));
    for (int i = 0; i < a->n_feeds; i++)
        MR_TRY(mr_direct_check_feed(p->session, a, i));
    lock_graph(p->session);
    mr_status *st = mr_partial_use_follow(&p->use, p->session->graph, &c);
    unlock_graph(p->session);
    return st;
}

/* ---- a call ---- */

/* Called by the rendezvous, from any thread. The fetch may be freed as soon as n_waiting is 0. */
static void fetch_came(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    fetch *f = (fetch *)w;
    mr_partial_run *p = f->run;
    f->st = st;
    f->t = t;
    f->is_dead = dead;
    mr_lock(&p->mu);
    MR_ASSERT(p->n_waiting > 0);
    if (--p->n_waiting == 0)
        mr_cond_broadcast(&p->changed);
    mr_unlock(&p->mu);
}

/* Each value goes to the Recv of its feed; the rendezvous takes a reference. */
static mr_status *send_feeds(mr_partial_run *p, const mr_run_args *a)
{
    const mr_run_signature *sig = &p->entry->sig;
    for (int i = 0; i < a->n_feeds; i++) {
        int at = mr_outs_find(sig->feeds, sig->n_feeds, a->feeds[i]);
        MR_ASSERT(at >= 0); /* check_call has found it */
        MR_TRY(mr_rendezvous_send(p->flow->rendezvous, &p->feed_keys[at], 0, 0,
                                  mr_tensor_ref(a->feed_values[i]), false));
    }
    return NULL;
}

/* Requests each fetch once; take_fetches returns one that is listed twice to both places. */
static void ask_for_fetches(mr_partial_run *p, const mr_run_args *a, fetch *f)
{
    const mr_run_signature *sig = &p->entry->sig;
    for (int i = 0; i < a->n_fetches; i++) {
        int at = mr_outs_find(sig->fetches, sig->n_fetches, a->fetches[i]);
        if (mr_outs_find(a->fetches, i, a->fetches[i]) >= 0)
            continue;
        f[i] = (fetch){{fetch_came, &p->fetch_keys[at], 0, 0, NULL}, p, NULL, NULL, false};
        mr_lock(&p->mu);
        p->n_waiting++;
        mr_unlock(&p->mu);
        mr_rendezvous_recv(p->flow->rendezvous, &f[i].w);
    }
}

/* At the deadline the flow fails, which aborts its rendezvous and so ends the remaining fetches. */
static void wait_for_fetches(mr_partial_run *p, int64_t deadline_ns)
{
    bool in_time = true;
    mr_lock(&p->mu);
    while (p->n_waiting > 0 && in_time)
        if (deadline_ns)
            in_time = mr_cond_wait_until(&p->changed, &p->mu, deadline_ns);
        else
            mr_cond_wait(&p->changed, &p->mu);
    mr_unlock(&p->mu);
    if (in_time)
        return;
    mr_flow_fail(p->flow, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
    wait_for_fetches(p, 0);
}

/* A call that fails hands out no values. */
static void drop_fetched(const mr_run_args *a)
{
    for (int i = 0; i < a->n_fetches; i++) {
        mr_tensor_unref(a->fetched[i]);
        a->fetched[i] = NULL;
    }
}

/* Moves the fetched values to the caller; on error nothing is handed out. */
static mr_status *take_fetches(const mr_run_args *a, fetch *f)
{
    mr_status *st = NULL;
    for (int i = 0; i < a->n_fetches; i++) {
        int first = mr_outs_find(a->fetches, i, a->fetches[i]);
        a->fetched[i] = mr_tensor_ref(f[first < 0 ? i : first].t);
        mr_status_update(&st, f[i].st);
        if (f[i].is_dead)
            mr_status_update(&st, mr_invalid("The tensor returned for %s:%d was not valid.",
                                             a->fetches[i].node->name, a->fetches[i].index));
    }
    for (int i = 0; i < a->n_fetches; i++)
        mr_tensor_unref(f[i].t);
    if (st)
        drop_fetched(a);
    return st;
}

/* Sends the feeds of a call and waits for its fetches. Feeds and fetches count as used even if this fails, because
 * the partial run ends then. */
static mr_status *exchange_values(mr_partial_run *p, const mr_run_args *a, int64_t deadline_ns)
{
    mr_partial_call c = call_of(a);
    fetch *f = mr_new_array(fetch, a->n_fetches + 1);
    MR_ASSERT(p->n_waiting == 0);
    mr_partial_use_mark(&p->use, &c);
    mr_status *st = send_feeds(p, a);
    if (!st) {
        ask_for_fetches(p, a, f);
        wait_for_fetches(p, deadline_ns);
        st = take_fetches(a, f);
    }
    mr_free(f);
    return st;
}

/* One call, under p->calls. An error ends the partial run: it stops what still waits for feeds, and the flow
 * may by then know the root cause better. Errors after the last fetch are not reported, unless the caller has
 * cancelled the run. */
static mr_status *call_locked(mr_direct *s, const char *handle, mr_partial_run *p,
                              const mr_run_args *a, const mr_run_options *o)
{
    int64_t timeout_ms = s->env.config.timeout_ms;
    int64_t deadline_ns = timeout_ms > 0 ? mr_now_ns() + timeout_ms * 1000000 : 0;
    if (p->dead)
        return mr_invalid("Must run 'setup' before performing partial runs!");
    MR_TRY(check_call(p, a));
    mr_status *st = exchange_values(p, a, deadline_ns);
    if (st)
        mr_flow_fail(p->flow, mr_status_copy(st));
    if (st || mr_partial_use_all(&p->use)) {
        end_run(s, handle, p, deadline_ns);
        bool cut = o && o->cancel && mr_cancel_started(o->cancel);
        if (st || cut)
            mr_status_update(&st, mr_flow_take_status(p->flow));
        if (st)
            drop_fetched(a);
    }
    return st;
}

/* The guard is set before p->calls is locked: another call may keep this one waiting, and a cancellation must
 * end that. */
mr_status *mr_partial_run_step(mr_session *base, const char *handle, const mr_run_args *a, const mr_run_options *o)
{
    mr_direct *s = (mr_direct *)base;
    for (int i = 0; i < a->n_fetches; i++)
        a->fetched[i] = NULL;
    MR_TRY(mr_run_options_check(o));
    MR_TRY(mr_direct_enter(s));
    mr_status *st = NULL;
    mr_direct_guard g;
    mr_partial_run *p = find_run(s, handle);
    if (p) {
        mr_direct_guard_begin(&g, p->flow, o);
        mr_lock(&p->calls);
        st = call_locked(s, handle, p, a, o);
        mr_unlock(&p->calls);
        mr_direct_guard_end(&g);
        partial_unref(p);
    } else {
        st = mr_invalid("Must run 'setup' before performing partial runs!");
    }
    mr_direct_leave(s);
    return st;
}
