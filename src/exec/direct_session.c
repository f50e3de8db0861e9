/* exec/direct_session.c -- the session that runs in this process.
 *
 * A run finds the program of its signature, or makes it (passes/, plan.c). It takes one of the program's
 * flows, puts the feeds into the flow's arguments, runs it, mostly on the calling thread, and hands out its
 * results.
 *
 * Programs are copies of parts of the client's graph, so the client may add nodes meanwhile. They are kept
 * until the session ends, also those of earlier placements: runs may still be inside them.
 *
 * Locks, outermost first: making, graph_mu, mu. Of these a warm run takes only mu, three times: to count
 * itself, to look its entry up, and to uncount itself.
 *
 * Invariant: n_running counts the calls between mr_direct_enter and mr_direct_leave; direct_free waits until
 * it is 0. */
#include "exec/direct_session.h"

#include "base/clock.h"
#include "base/memory.h"
#include "exec/trace.h"
#include "run/executor_type.h"

/* ---- programs ---- */

/* Guards the client's graph, if other threads may change it. */
static void lock_graph(mr_direct *s) MR_NO_TSA
{
    if (s->graph_mu)
        mr_lock(s->graph_mu);
}

static void unlock_graph(mr_direct *s) MR_NO_TSA
{
    if (s->graph_mu)
        mr_unlock(s->graph_mu);
}

/* Makes the program of a sorted signature. Needs s->making. A program of a partial run has no arguments and
 * results: its feeds and fetches go through the rendezvous. */
static mr_status *make_program(mr_direct *s, const mr_run_signature *sig, bool partial,
                               mr_program **out)
{
    MR_TRY(mr_executor_type_check(mr_sv_of(s->env.config.executor_type)));
    mr_status *st = NULL;
    mr_graph **parts = mr_new_array(mr_graph *, s->env.n_devices);
    mr_prepare_options o = mr_env_prepare_options(&s->env);
    o.placements = &s->placements;
    o.rendezvous = partial;
    lock_graph(s);
    st = s->placing ? mr_placing_prepare(s->placing, s->graph, sig, &o, parts) : mr_prepare(s->graph, sig, &o, parts);
    if (!st && s->env.config.log_placement)
        mr_placing_log(s->graph, &s->placements, &s->told);
    unlock_graph(s);
    if (!st)
        st = mr_program_new(parts, s->env.devices, s->env.n_devices, partial ? 0 : sig->n_feeds,
                            partial ? 0 : sig->n_fetches, s->env.kernels,
                            mr_functions_caller(s->env.functions), out);
    mr_free(parts);
    return st;
}

/* Borrowed: entries live as long as the session. */
static mr_entry *look_up(mr_direct *s, const mr_run_signatures *in, const mr_run_signature *sig,
                         bool partial, uint64_t hash)
{
    mr_lock(&s->mu);
    mr_entry *e = mr_run_signatures_find(in, sig, partial, hash);
    mr_unlock(&s->mu);
    return e;
}

/* Returns the program of a sorted signature, and makes it if it is new. Needs s->making. */
static mr_status *find_sorted(mr_direct *s, const mr_run_signature *sorted, bool partial,
                              mr_program **out)
{
    uint64_t hash = mr_run_signature_hash(sorted, partial);
    mr_entry *e = look_up(s, &s->sorted, sorted, partial, hash);
    if (!e) {
        MR_TRY(make_program(s, sorted, partial, out));
        mr_lock(&s->mu);
        mr_vec_push(&s->programs, *out);
        e = mr_run_signatures_add(&s->sorted, sorted, partial, hash, sorted, *out);
        mr_unlock(&s->mu);
    }
    *out = e->program;
    return NULL;
}

/* The exact order of feeds, fetches and targets is looked up first. A new order of a known signature only gets
 * another entry for the same program. The second lookup under s->making finds what another thread has made
 * meanwhile. */
mr_status *mr_direct_find(mr_direct *s, const mr_run_signature *sig, bool partial, mr_entry **out)
{
    uint64_t hash = mr_run_signature_hash(sig, partial);
    if (MR_LIKELY((*out = look_up(s, &s->exact, sig, partial, hash)) != NULL))
        return NULL;
    mr_status *st = NULL;
    mr_program *p = NULL;
    mr_run_signature sorted;
    mr_run_signature_sort(sig, &sorted);
    mr_lock(&s->making);
    if (!(*out = look_up(s, &s->exact, sig, partial, hash)) &&
        !(st = find_sorted(s, &sorted, partial, &p))) {
        mr_lock(&s->mu);
        *out = mr_run_signatures_add(&s->exact, sig, partial, hash, &sorted, p);
        mr_unlock(&s->mu);
    }
    mr_unlock(&s->making);
    mr_run_signature_deinit(&sorted);
    return st;
}

/* Forgets the devices of nodes without state: the next run of each signature makes its program again. */
static void place_anew(mr_direct *s)
{
    mr_lock(&s->making);
    lock_graph(s);
    mr_placing_forget(s->graph, &s->placements);
    unlock_graph(s);
    mr_lock(&s->mu);
    mr_vec_push(&s->former, s->exact);
    mr_vec_push(&s->former, s->sorted);
    s->exact = s->sorted = (mr_run_signatures){0};
    mr_unlock(&s->mu);
    mr_unlock(&s->making);
}

/* ---- a run ---- */

/* Counts the call before it checks `closed`: direct_free sets `closed` first and then waits for the count, so no
 * call gets past both. */
mr_status *mr_direct_enter(mr_direct *s)
{
    mr_lock(&s->mu);
    s->n_running++;
    mr_unlock(&s->mu);
    if (MR_LIKELY(!atomic_load_explicit(&s->closed, memory_order_acquire)))
        return NULL;
    mr_direct_leave(s);
    return mr_error(MR_CANCELLED, "Session has been closed.");
}

/* The session may be freed as soon as the lock is released. */
void mr_direct_leave(mr_direct *s)
{
    mr_lock(&s->mu);
    MR_ASSERT(s->n_running > 0);
    if (--s->n_running == 0)
        mr_cond_broadcast(&s->idle);
    mr_unlock(&s->mu);
}

/* The last text is TensorFlow's. */
mr_status *mr_direct_check_feed(const mr_direct *s, const mr_run_args *a, int i)
{
    const mr_tensor *t = a->feed_values[i];
    mr_out o = a->feeds[i];
    if (!t)
        return mr_invalid("Feed %s:%d has no value", o.node->name, o.index);
    if (t->dtype == MR_RESOURCE && !s->env.config.feeds_handles)
        return mr_invalid("%s:%d cannot be fed: a session does not accept resource handles as feeds",
                          o.node->name, o.index);
    if (MR_LIKELY(t->dtype == mr_dtype_base(mr_out_type(o))))
        return NULL;
    return mr_invalid("Expects arg[%d] to be %s but %s is provided", i,
                      mr_dtype_name(mr_dtype_base(mr_out_type(o))), mr_dtype_name(t->dtype));
}

/* The feeds stay borrowed: mr_program_give clears the arguments without dropping them. */
static mr_status *fill_args(const mr_direct *s, mr_flow *f, const mr_entry *e, const mr_run_args *a)
{
    for (int i = 0; i < a->n_feeds; i++) {
        MR_TRY(mr_direct_check_feed(s, a, i));
        MR_ASSERT(e->feed_at[i] >= 0 && e->feed_at[i] < f->program->n_args);
        f->args[e->feed_at[i]] = (mr_value){.t = a->feed_values[i], .kind = MR_LIVE};
    }
    return NULL;
}

/* Takes a reference to each result: two fetches of one order may name the same result of the program. */
static mr_status *take_results(mr_flow *f, const mr_entry *e, const mr_run_args *a)
{
    MR_ASSERT(f->parts_left == 0);
    /* Checks all of them first, so that on failure nothing has been handed out. */
    for (int i = 0; i < a->n_fetches; i++)
        if (f->rets[e->fetch_at[i]].kind != MR_LIVE)
            return mr_invalid("Retval[%d] does not have value", i);
    for (int i = 0; i < a->n_fetches; i++)
        a->fetched[i] = mr_tensor_ref(f->rets[e->fetch_at[i]].t);
    return NULL;
}

/* After the deadline it waits again, without a limit: a flow that has failed ends soon, and its memory must not be
 * given back before. */
void mr_direct_wait(mr_flow *f, int64_t deadline_ns)
{
    if (mr_runner_wait(&f->own_runner, deadline_ns))
        return;
    mr_flow_fail(f, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
    mr_runner_wait(&f->own_runner, 0);
}

/* May run on any thread, but not after mr_direct_guard_end. */
static void guard_fired(mr_cancel_entry *e)
{
    mr_direct_guard *g = (mr_direct_guard *)e;
    mr_flow_fail(g->flow, mr_run_interrupted());
}

/* The flow must have been started: failing it needs its runner and its rendezvous. */
void mr_direct_guard_begin(mr_direct_guard *g, mr_flow *f, const mr_run_options *o)
{
    g->cancel = o ? o->cancel : NULL;
    if (MR_LIKELY(!g->cancel))
        return;
    g->entry.fn = guard_fired;
    g->flow = f;
    if (!mr_cancel_register(g->cancel, &g->entry))
        guard_fired(&g->entry);
}

void mr_direct_guard_end(mr_direct_guard *g)
{
    if (g->cancel)
        mr_cancel_unregister(g->cancel, &g->entry);
}

static void flow_done(mr_flow *f) { mr_runner_finish(&f->own_runner); }

/* Starts the flow and waits for it. The deadline of the run's options takes precedence over the session's. */
static mr_status *run_flow(mr_direct *s, mr_flow *f, const mr_run_options *o)
{
    mr_direct_guard g;
    int64_t timeout_ms = o && o->timeout_ms > 0 ? o->timeout_ms : s->env.config.timeout_ms;
    f->deadline_ns =
        timeout_ms > 0 ? mr_now_ns() + MR_MIN(timeout_ms, INT64_MAX / 4000000) * 1000000 : 0;
    mr_runner_reset(&f->own_runner, o && o->inter_op_in_caller ? NULL : s->env.inter, s->env.devices[0]->pool, true);
    mr_flow_start(f, &(mr_flow_start_args){&f->own_runner, s->env.cancel, NULL, flow_done, NULL});
    mr_direct_guard_begin(&g, f, o);
    mr_direct_wait(f, f->deadline_ns);
    mr_direct_guard_end(&g);
    return mr_flow_take_status(f);
}

/* Runs a flow and appends its RunMetadata: step_stats, partition graphs and the cost graph, as far as they
 * were asked for. The metadata is also written if the step failed. */
static mr_status *run_traced(mr_direct *s, mr_flow *f, const mr_run_options *o, bool costs, mr_str *metadata)
{
    mr_trace *t = costs || o->trace_level >= MR_FULL_TRACE ? mr_trace_new() : NULL;
    f->trace = t;
    mr_status *st = run_flow(s, f, o);
    f->trace = NULL;
    mr_program *p = f->program;
    mr_status *encoded =
        mr_trace_encode(t, p->plans, o && o->output_partition_graphs ? p->n_plans : 0, metadata);
    if (costs && !st)
        mr_trace_put_cost_graph(t, p->plans, p->n_plans, metadata);
    mr_status_update(&st, encoded);
    mr_trace_free(t);
    return st;
}

/* Runs a flow with a trace that only placement by cost sees. */
static mr_status *run_measured(mr_direct *s, mr_flow *f, const mr_run_options *o)
{
    mr_trace *t = mr_trace_new();
    f->trace = t;
    mr_status *st = run_flow(s, f, o);
    f->trace = NULL;
    if (!st)
        mr_placing_learn(s->placing, t);
    mr_trace_free(t);
    return st;
}

/* One run between mr_direct_enter and mr_direct_leave. The flow is given back in any case. */
static mr_status *run_entered(mr_direct *s, const mr_run_args *a, const mr_run_options *o,
                              mr_str *metadata)
{
    mr_run_signature sig = {a->feeds, a->fetches, a->targets, a->n_feeds, a->n_fetches, a->n_targets};
    mr_entry *e = NULL;
    mr_placing_turn turn = s->placing ? mr_placing_next(s->placing) : MR_PLACING_RUN;
    if (turn == MR_PLACING_ANEW)
        place_anew(s);
    MR_TRY(mr_direct_find(s, &sig, false, &e));
    mr_flow *f = NULL;
    MR_TRY(mr_program_take(e->program, &f));
    MR_ASSERT(f->program == e->program);
    mr_status *st = fill_args(s, f, e, a);
    /* A trace that the client wants takes precedence over a measurement for placement. */
    bool costs = mr_session_config_wants_costs(&s->env.config, &e->program->n_counted);
    if (!st && metadata && (costs || (o && (o->trace_level >= MR_FULL_TRACE || o->output_partition_graphs))))
        st = run_traced(s, f, o, costs, metadata);
    else if (!st && turn == MR_PLACING_MEASURE)
        st = run_measured(s, f, o);
    else if (!st)
        st = run_flow(s, f, o);
    if (!st)
        st = take_results(f, e, a);
    mr_program_give(f);
    return st;
}

/* All results are NULL on failure, because take_results sets all or none. */
static mr_status *direct_run(mr_session *base, const mr_run_args *a, const mr_run_options *o,
                             mr_str *metadata)
{
    mr_direct *s = (mr_direct *)base;
    for (int i = 0; i < a->n_fetches; i++)
        a->fetched[i] = NULL;
    MR_TRY(mr_run_options_check(o));
    MR_TRY(mr_direct_enter(s));
    mr_status *st = run_entered(s, a, o, metadata);
    mr_direct_leave(s);
    return st;
}

/* ---- the rest of the interface ---- */

/* Steps that are running end with CANCELLED. May be called several times. */
static mr_status *direct_close(mr_session *base)
{
    mr_direct *s = (mr_direct *)base;
    atomic_store_explicit(&s->closed, true, memory_order_release);
    mr_cancel_start(s->env.cancel);
    return NULL;
}

/* The caller owns the array and its texts (mr_device_infos_free). */
static mr_status *direct_list_devices(mr_session *base, mr_device_info **out, int *n)
{
    const mr_direct *s = (mr_direct *)base;
    *n = s->env.n_devices;
    *out = mr_new_array(mr_device_info, *n);
    for (int i = 0; i < *n; i++) {
        const mr_device *d = s->env.devices[i];
        (*out)[i] = (mr_device_info){mr_strdup(d->name), mr_strdup(d->type->name), d->memory_limit,
                                     d->incarnation};
    }
    return NULL;
}

/* ---- making and freeing ---- */

static mr_mutex all_mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_direct *all MR_GUARDED_BY(all_mu);

/* Frees the session with the last reference. Programs go first: their kernels use the devices in env. */
static void direct_unref(mr_direct *s)
{
    if (!mr_refs_drop(&s->refs))
        return;
    MR_ASSERT(s->n_running == 0);
    for (int i = 0; i < s->programs.n; i++)
        mr_program_free(s->programs.p[i]);
    mr_vec_deinit(&s->programs);
    mr_run_signatures_deinit(&s->exact);
    mr_run_signatures_deinit(&s->sorted);
    for (int i = 0; i < s->former.n; i++)
        mr_run_signatures_deinit(&s->former.p[i]);
    mr_vec_deinit(&s->former);
    mr_direct_placing_free(s);
    mr_map_deinit(&s->partial_runs);
    mr_env_deinit(&s->env);
    mr_placements_deinit(&s->placements);
    mr_placements_deinit(&s->told);
    mr_graph_unref(s->graph);
    mr_cond_deinit(&s->idle);
    mr_mutex_deinit(&s->mu);
    mr_mutex_deinit(&s->making);
    mr_free(s);
}

/* Does nothing if the session never joined the list. */
static void unlink_session(mr_direct *s)
{
    mr_lock(&all_mu);
    for (mr_direct **at = &all; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    mr_unlock(&all_mu);
}

/* Cancels the steps that run, waits for them, and drops the owner's reference. */
static void direct_free(mr_session *base)
{
    mr_direct *s = (mr_direct *)base;
    unlink_session(s);
    direct_close(base);
    mr_lock(&s->mu);
    while (s->n_running > 0)
        mr_cond_wait(&s->idle, &s->mu);
    mr_unlock(&s->mu);
    mr_partial_runs_end(s);
    direct_unref(s);
}

static const mr_session_ops direct_ops = {direct_run,        mr_partial_setup,    mr_partial_run_step,
                                          direct_close,      direct_list_devices, direct_free,
                                          mr_direct_explain, mr_direct_costs,     mr_direct_slow};

/* The session joins the list of all sessions only when it is complete, so TF_Reset never sees half of one. */
mr_status *mr_direct_session_new(mr_graph *g, mr_mutex *graph_mu, const mr_session_config *c,
                                 mr_session **out)
{
    mr_direct *s = mr_new(mr_direct);
    s->base.ops = &direct_ops;
    mr_refs_init(&s->refs);
    s->graph = mr_graph_ref(g);
    s->graph_mu = graph_mu;
    mr_mutex_init(&s->making);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->idle);
    mr_status *st = mr_env_init(&s->env, c, NULL);
    if (!st && c->placement_period > 0)
        st = mr_direct_placing_new(s);
    if (st) {
        direct_unref(s);
        return st;
    }
    mr_lock(&all_mu);
    s->next = all;
    all = s;
    mr_unlock(&all_mu);
    *out = &s->base;
    return NULL;
}

/* ---- TF_Reset ---- */

typedef MR_VEC(mr_direct *) direct_vec;

/* Clears the containers on all devices; without names, the default container. */
static void clear_containers(mr_direct *s, const char *const *containers, int n)
{
    for (int d = 0; d < s->env.n_devices; d++) {
        for (int i = 0; i < n; i++)
            mr_resources_clear(s->env.devices[d]->resources, mr_sv_of(containers[i]));
        if (n == 0)
            mr_resources_clear(s->env.devices[d]->resources, mr_sv_of(""));
    }
}

/* Takes a reference to each session first and works without the list's lock: closing a session calls into its
 * kernels. */
void mr_direct_sessions_reset(const char *const *containers, int n)
{
    direct_vec live = {0};
    mr_lock(&all_mu);
    for (mr_direct *s = all; s; s = s->next) {
        mr_refs_take(&s->refs);
        mr_vec_push(&live, s);
    }
    mr_unlock(&all_mu);
    for (int i = 0; i < live.n; i++) {
        clear_containers(live.p[i], containers, n);
        direct_close(&live.p[i]->base);
        direct_unref(live.p[i]);
    }
    mr_vec_deinit(&live);
}
