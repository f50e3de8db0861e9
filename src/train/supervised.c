/* train/supervised.c -- one session at a time, and the threads that use it.
 *
 * A session belongs to an era. A thread that wants to run takes the session of the present era (use_session)
 * and gives it back (unuse). The first thread that sees the loss of a task ends the era: it closes the
 * session, which cancels all its runs. When no thread uses the session any more, the client's thread
 * opens the next one (recover_session). Which worker is the chief does not change within an era: if it must
 * change, the era ends. So the other threads only ever wait for an era to begin.
 *
 * The threads (supervised_threads.c has all but the first):
 *
 *     the client's    opens sessions, trains, finishes; the only one that begins eras
 *     mr_lead         leads the barrier of synchronous training, in eras in which this worker is the chief
 *     mr_save         saves every save_ms, in eras in which this worker is the chief
 *     mr_alive        votes, and sends heartbeats to the barrier
 *
 * Locks: mu guards the era and the flags; nothing runs while it is held. A checkpoint is made under
 * `saving`, a vote under `voting`; both are taken before mu. The loss of the session ends the runs
 * made under them, so they are never held for ever.
 *
 * Invariants: at most one of session and old is the present session; n_users counts the threads that
 * use session, old or opening, and none of these is freed while it is above 0. */
#include "train/supervised.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/report.h"
#include "dist/recovery.h"
#include "train/supervised_internal.h"

#define START_DEADLINE_MS (600 * 1000)
#define TELL_NS INT64_C(1000000000) /* between two reports of figures to the launcher */

/* ---- adding nodes ---- */

/* Whether a variable before this one is on the same device. */
static bool seen_device(const mr_nn *n, int upto)
{
    for (int i = 0; i < upto; i++)
        if (strcmp(n->vars.p[i].device, n->vars.p[upto].device) == 0)
            return true;
    return false;
}

/* Adds a flag to each device that has variables, and set_flags, which sets them all. A flag is not a
 * variable of the network, so it is not saved: a task that restarts comes back without it, which is
 * how mr_supervised_check notices the restart. */
static void add_flags(mr_supervised *s, mr_nn *n)
{
    MR_VEC(mr_node *) set = {0};
    const char *before = n->s.device;
    for (int i = 0; i < n->vars.n && mr_scope_ok(&n->s); i++) {
        if (seen_device(n, i))
            continue;
        mr_nn_at(n, n->vars.p[i].device);
        const char *name = mr_arena_printf(&n->s.graph->arena, "ready_%d", s->flags.n);
        mr_out h = mr_emit0_with(mr_as(&n->s, name), "VarHandleOp",
                                 MR_ATTRS({"dtype", mr_a_type(MR_INT64)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                          {"shared_name", mr_a_str(name)}));
        mr_vec_push(&s->flags, mr_emit(&n->s, "VarIsInitializedOp", h));
        mr_vec_push(&set, mr_emit(&n->s, "AssignVariableOp", h, mr_const_i64(&n->s, 1)).node);
    }
    mr_nn_at(n, before);
    for (int i = 0; i < set.n && mr_scope_ok(&n->s); i++)
        mr_vec_push(&n->s.controls, set.p[i]);
    s->set_flags = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, "set_ready"), "NoOp").node : NULL;
    n->s.controls.n = 0;
    mr_vec_deinit(&set);
}

/* Adds a read of the global step that runs after a training step. */
static void add_step(mr_supervised *s, mr_nn *n)
{
    s->step = mr_nn_global_step(n);
    const mr_nn_var *v = mr_nn_find(n, s->step);
    if (!s->o.train || !v)
        return;
    const char *before = mr_nn_at(n, v->device);
    mr_vec_push(&n->s.controls, s->o.train);
    s->step_after = mr_nn_read(n, v);
    n->s.controls.n = 0;
    mr_nn_at(n, before);
}

/* The folder as an absolute path, because other tasks of this host may have another working directory.
 * URLs stay as they are. */
static char *absolute_path(const char *folder)
{
    char *here = folder[0] == '/' || strstr(folder, "://") ? NULL : getcwd(NULL, 0);
    char *path = here ? mr_printf("%s/%s", here, folder) : mr_strdup(folder);
    free(here);
    return path;
}

/* Adds the nodes and prepares the state; nothing runs yet. With all-reduce each worker saves and
 * prepares its own variables, so there is no election. */
mr_supervised *mr_supervised_new(mr_nn *n, const mr_supervised_options *o)
{
    mr_supervised *s = mr_new(mr_supervised);
    s->o = *o;
    s->known_step = -1;
    s->folder = o->folder ? absolute_path(o->folder) : NULL;
    s->prefix = s->folder ? mr_printf("%s/model.ckpt", s->folder) : NULL;
    mr_mutex_init(&s->saving);
    mr_mutex_init(&s->voting);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
    s->cancel = mr_cancel_new(NULL);
    if (o->reduce) {
        s->o.train = o->reduce->train;
        s->o.chief_ms = 0;
        s->o.chief_saves = true;
    }
    s->deadline_ms = o->deadline_ms > 0 ? o->deadline_ms : START_DEADLINE_MS;
    mr_recovery_init(&s->recovery, o->chief || o->reduce, s->deadline_ms * 1000000);
    o = &s->o;
    if (!o->open || !o->train == !o->sync)
        mr_scope_fail(
            &n->s,
            mr_invalid(
                "a supervised session needs a function to open sessions, and exactly one of train, sync and reduce"));
    mr_status *st = mr_tracer_init(&s->tracer, o->trace, o->trace_steps, MR_MAX(0, o->worker));
    if (st)
        mr_scope_fail(&n->s, st);
    if (o->sync)
        o->sync->tracer = &s->tracer;
    mr_election_init(&s->election, MR_MAX(0, o->worker), MR_MAX(1, o->chief_ms) * 1000000, mr_now_ns());
    if (o->chief_ms > 0)
        mr_nn_vote_init(&s->vote, n);
    /* The order matters: each of these includes the variables that exist when it is added. */
    add_step(s, n);
    if (o->reduce && mr_scope_ok(&n->s))
        mr_nn_reduce_complete(o->reduce, n);
    s->init = mr_nn_initializer(n);
    s->saver = o->chief_saves ? mr_nn_saver_new(n, o->max_to_keep) : mr_nn_saver_new_sharded(n, o->max_to_keep);
    add_flags(s, n);
    if (mr_scope_ok(&n->s))
        return s;
    mr_supervised_free(s);
    return NULL;
}

/* ---- eras ---- */

/* Takes the session of the present era, waiting until there is one (with as_chief: one in which this
 * worker is the chief). NULL when the supervised session ends. Every result but NULL must be given
 * back with mr_supervised_unuse. */
static mr_session *use_session(mr_supervised *s, bool as_chief, int *era)
{
    mr_lock(&s->mu);
    while (!(s->session && (s->chief || !as_chief)) && !s->ending)
        mr_cond_wait(&s->changed, &s->mu);
    mr_session *session = s->ending ? NULL : s->session;
    MR_ASSERT(!s->session || !s->old); /* recover_session frees the old one before the next era begins */
    s->n_users += session != NULL;
    *era = s->era;
    mr_unlock(&s->mu);
    return session;
}

mr_session *mr_supervised_use(mr_supervised *s, int *era) { return use_session(s, false, era); }
mr_session *mr_supervised_use_as_chief(mr_supervised *s, int *era) { return use_session(s, true, era); }

bool mr_supervised_is_chief(mr_supervised *s)
{
    mr_lock(&s->mu);
    bool chief = s->chief;
    mr_unlock(&s->mu);
    return chief;
}

void mr_supervised_unuse(mr_supervised *s)
{
    mr_lock(&s->mu);
    MR_ASSERT(s->n_users > 0);
    if (--s->n_users == 0)
        mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* Ends the era, unless it has ended already. The session is removed from sight first, so it is closed
 * once. Closing counts as a use, so the session is not freed meanwhile. */
void mr_supervised_lost(mr_supervised *s, int era, mr_status *st)
{
    mr_lock(&s->mu);
    mr_session *closing = era == s->era ? s->session : NULL;
    if (closing) {
        s->session = NULL;
        MR_ASSERT(!s->old && !s->why);
        s->old = closing;
        s->n_users++;
        s->why = st;
        st = NULL;
        mr_cond_broadcast(&s->changed);
    }
    mr_unlock(&s->mu);
    mr_status_free(st);
    if (closing) {
        mr_status_free(mr_session_close(closing));
        mr_supervised_unuse(s);
    }
}

/* Sets `fatal`, so no further era begins, and ends the present era. A session that is still being
 * prepared is closed too, because its runs may wait for a task that does not answer. */
void mr_supervised_cancel(mr_supervised *s)
{
    mr_lock(&s->mu);
    if (!s->fatal)
        s->fatal = mr_error(MR_CANCELLED, "Training was cancelled");
    mr_session *opening = s->opening;
    int era = s->era;
    s->n_users += opening != NULL;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
    mr_cancel_start(s->cancel);
    if (opening) {
        mr_status_free(mr_session_close(opening));
        mr_supervised_unuse(s);
    }
    mr_supervised_lost(s, era, mr_error(MR_CANCELLED, "Training was cancelled"));
}

/* A copy of the error that no new session can repair, or NULL. */
static mr_status *fatal_of(mr_supervised *s)
{
    mr_lock(&s->mu);
    mr_status *st = mr_status_copy(s->fatal);
    mr_unlock(&s->mu);
    return st;
}

/* ---- opening the session of an era ---- */

/* Reads the ready flags of all tasks. *ready is false if a task has restarted since its variables were
 * prepared. */
mr_status *mr_supervised_check(mr_supervised *s, mr_session *session, bool *ready)
{
    int n = s->flags.n;
    MR_ASSERT(n > 0); /* there is at least the device of the global step */
    mr_tensor **got = mr_new_array(mr_tensor *, n + 1);
    mr_run_args a = {.fetches = s->flags.p, .fetched = got, .n_fetches = n};
    mr_status *st = mr_session_run(session, &a, NULL, NULL);
    *ready = true;
    for (int i = 0; i < n; i++) {
        *ready &= !st && got[i]->dtype == MR_BOOL && got[i]->n == 1 && *MR_DATA(bool, got[i]);
        mr_tensor_unref(got[i]);
    }
    mr_free(got);
    return st;
}

static mr_status *run_node(mr_session *session, mr_node *target)
{
    return mr_session_run(session, &(mr_run_args){.targets = &target, .n_targets = 1}, NULL, NULL);
}

/* Gives the variables their values, from the newest checkpoint or from their initial values, then sets
 * the flags. In that order: a loss in between leaves the flags unset. */
static mr_status *prepare_variables(mr_supervised *s, mr_session *session)
{
    bool found = false;
    if (s->folder)
        MR_TRY(mr_nn_restore_latest(s->saver, session, s->folder, &found));
    if (!found)
        MR_TRY(run_node(session, s->init));
    return run_node(session, s->set_flags);
}

/* `voting` is held during the run, so two threads of this worker do not vote against each other. */
mr_status *mr_supervised_vote(mr_supervised *s, mr_session *session, bool *chief)
{
    MR_ASSERT(s->vote.done);
    mr_lock(&s->voting);
    mr_status *st = mr_nn_vote_run(&s->vote, session, &s->election);
    *chief = s->election.chief;
    mr_unlock(&s->voting);
    return st;
}

/* Votes, and returns ABORTED if the outcome is not what this worker is in the present era; that ends
 * the era. */
mr_status *mr_supervised_confirm(mr_supervised *s, mr_session *session)
{
    bool was = mr_supervised_is_chief(s), is;
    if (s->o.chief_ms <= 0)
        return NULL;
    MR_TRY(mr_supervised_vote(s, session, &is));
    return is == was
               ? NULL
               : mr_error(MR_ABORTED, is ? "This worker has become the chief" : "Another worker has become the chief");
}

/* Whether the variables are ready, and by the vote whether this worker must prepare them. */
static mr_status *check_readiness(mr_supervised *s, mr_session *session, bool *ready)
{
    *ready = false;
    if (s->o.chief_ms > 0)
        MR_TRY(mr_supervised_vote(s, session, &s->recovery.chief));
    return mr_supervised_check(s, session, ready);
}

/* Waits, but returns at once when the supervised session ends. */
static void pause_for(mr_supervised *s, int64_t ns)
{
    int64_t until = mr_now_ns() + ns;
    mr_lock(&s->mu);
    while (!s->ending && !s->fatal && mr_cond_wait_until(&s->changed, &s->mu, until))
        ;
    mr_unlock(&s->mu);
}

/* Publishes the session of the next era, so that mr_supervised_cancel can close it. With NULL it waits
 * until no thread is closing it any more; then the caller may free it. */
static void set_opening(mr_supervised *s, mr_session *session)
{
    mr_lock(&s->mu);
    s->opening = session;
    while (!session && s->n_users > 0)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
}

/* Reports what the client waits for to the launcher (base/report.h) and, every ten seconds, to the
 * log. Only pauses are logged here: a session logs itself which tasks it waits for while it is
 * created, and so do its steps. */
static void tell_wait(mr_supervised *s, mr_recovery_do what)
{
    double seconds;
    const char *text = what == MR_RECOVER_PREPARE ? "variables to be restored or initialised" : "the cluster";
    const char *why = what == MR_RECOVER_PAUSE && s->recovery.why ? mr_status_message(s->recovery.why) : NULL;
    if (what == MR_RECOVER_PAUSE && !why)
        text = "the chief to make variables ready";
    mr_report_waiting(why ? why : text);
    if (what == MR_RECOVER_PAUSE && mr_long_wait_due(&s->way_back, mr_now_ns(), &seconds))
        mr_info("Still waiting for %s%s%s (%.0f s)", text, why ? ": " : "", why ? why : "", seconds);
}

/* Carries out one action of dist/recovery.c and reports the outcome to it. Returns the next action. */
static mr_recovery_do carry_out(mr_supervised *s, mr_recovery_do what, mr_session **session)
{
    mr_status *st;
    bool ready;
    tell_wait(s, what);
    switch (what) {
    case MR_RECOVER_OPEN:
        set_opening(s, NULL);
        mr_session_free(*session);
        *session = NULL;
        st = s->o.open(s->o.arg, s->cancel, session);
        set_opening(s, *session);
        return mr_recovery_opened(&s->recovery, st, mr_now_ns());
    case MR_RECOVER_CHECK:
        st = check_readiness(s, *session, &ready);
        return mr_recovery_checked(&s->recovery, st, ready, mr_now_ns());
    case MR_RECOVER_PREPARE:
        st = prepare_variables(s, *session);
        return mr_recovery_prepared(&s->recovery, st, mr_now_ns());
    default:
        pause_for(s, s->recovery.pause_ns);
        return mr_recovery_paused(&s->recovery);
    }
}

/* The variables are ready here. With all-reduce, joins the next generation of workers; if that fails,
 * a new session is opened. */
static mr_recovery_do join_generation(mr_supervised *s, mr_session *session)
{
    if (!s->o.reduce)
        return MR_RECOVER_WORK;
    mr_status *st = mr_nn_reduce_join(s->o.reduce, session, s->deadline_ms, s->cancel);
    return st ? mr_recovery_opened(&s->recovery, st, mr_now_ns()) : MR_RECOVER_WORK;
}

/* Begins the next era, unless a fatal error was set meanwhile. Takes over the session. */
static mr_status *begin_era(mr_supervised *s, mr_session *session, bool chief)
{
    mr_lock(&s->mu);
    mr_status *st = mr_status_copy(s->fatal);
    MR_ASSERT(!s->session && !s->old && s->n_users == 0);
    if (!st) {
        s->session = session;
        s->chief = chief;
        s->era++;
        mr_cond_broadcast(&s->changed);
    }
    mr_unlock(&s->mu);
    if (st)
        mr_session_free(session);
    return st;
}

/* Follows dist/recovery.c until a session is ready, or until it gives up. The new chief removes, once,
 * what killed saves left behind. */
static mr_status *follow_recovery(mr_supervised *s, mr_recovery_do what)
{
    mr_session *session = NULL;
    mr_status *fatal = NULL;
    mr_long_wait_begin(&s->way_back, mr_now_ns());
    do {
        while (what != MR_RECOVER_WORK && what != MR_RECOVER_FAIL && !(fatal = fatal_of(s)))
            what = carry_out(s, what, &session);
        if (what == MR_RECOVER_WORK)
            what = join_generation(s, session);
    } while (what != MR_RECOVER_WORK && what != MR_RECOVER_FAIL && !fatal);
    set_opening(s, NULL);
    if (what == MR_RECOVER_FAIL || fatal) {
        mr_session_free(session);
        return fatal ? fatal : mr_status_copy(s->recovery.why);
    }
    bool chief = s->o.reduce ? s->o.reduce->group.rank == 0 : s->recovery.chief;
    if (chief && s->folder && !s->cleaned) {
        mr_status_free(mr_nn_saver_clean(s->prefix));
        s->cleaned = true;
    }
    mr_report_waiting("");
    return begin_era(s, session, chief);
}

/* The client's thread only. The era has ended: frees the old session when no thread uses it any more, and
 * opens the next one. */
static mr_status *recover_session(mr_supervised *s)
{
    mr_lock(&s->mu);
    while (s->n_users > 0)
        mr_cond_wait(&s->changed, &s->mu);
    MR_ASSERT(!s->session); /* only this thread begins eras */
    mr_session *old = s->old;
    mr_status *why = s->why, *fatal = mr_status_copy(s->fatal);
    s->old = NULL;
    s->why = NULL;
    mr_unlock(&s->mu);
    mr_session_free(old);
    s->worker.stamp = 0;
    s->known_step = -1;
    if (fatal) {
        mr_status_free(why);
        return fatal;
    }
    s->n_losses++;
    mr_info("Lost the session, opening a new one: %s", mr_status_message(why));
    return follow_recovery(s, mr_recovery_lost(&s->recovery, why, mr_now_ns()));
}

/* A failed start leaves no session and no threads, so it can be repeated. */
mr_status *mr_supervised_start(mr_supervised *s)
{
    if (s->started)
        return mr_error(MR_FAILED_PRECONDITION, "The supervised session was started already");
    MR_TRY(follow_recovery(s, mr_recovery_begin(&s->recovery, mr_now_ns())));
    s->started = true;
    MR_ASSERT(s->n_threads == 0);
    return mr_supervised_start_threads(s);
}

/* ---- runs ---- */

/* Something to run in a session. It may be called again in the next session after a loss. */
typedef mr_status *(*use_fn)(mr_supervised *s, mr_session *session, void *arg);

/* Runs fn in the present session, and again in the next one after each loss. The client's thread only. */
static mr_status *with_session(mr_supervised *s, use_fn fn, void *arg)
{
    if (!s->started)
        return mr_error(MR_FAILED_PRECONDITION, "The supervised session was not started");
    for (;;) {
        mr_lock(&s->mu);
        mr_session *session = s->session;
        int era = s->era;
        s->n_users += session != NULL;
        mr_unlock(&s->mu);
        if (!session) {
            MR_TRY(recover_session(s));
            continue;
        }
        mr_status *st = fn(s, session, arg);
        mr_supervised_unuse(s);
        if (!st || !mr_recovery_mends(st))
            return st;
        mr_supervised_lost(s, era, st);
    }
}

typedef struct train_arg {
    const mr_run_args *a;
    mr_str *trace; /* of its metadata; or NULL */
    int64_t step;
} train_arg;

static mr_status *run_once(mr_supervised *s, mr_session *session, void *arg)
{
    (void)s;
    return mr_session_run(session, arg, NULL, NULL);
}

mr_status *mr_supervised_run(mr_supervised *s, const mr_run_args *a)
{
    return with_session(s, run_once, (void *)(uintptr_t)a);
}

/* One step of synchronous training. The step is that of the token, which all workers get alike. */
static mr_status *train_sync(mr_supervised *s, mr_session *session, train_arg *t)
{
    s->worker.trace = t->trace;
    MR_TRY(mr_nn_sync_run(s->o.sync, session, t->a, &s->worker));
    t->step = s->worker.step;
    return NULL;
}

/* Runs a training step. With all-reduce the client's feeds are followed by those that name the
 * generation. */
static mr_status *run_train(mr_supervised *s, mr_session *session, mr_run_args *a, mr_str *trace)
{
    mr_run_options o = {.trace_level = MR_FULL_TRACE};
    int n = a->n_feeds;
    if (!s->o.reduce)
        return mr_session_run(session, a, trace ? &o : NULL, trace);
    mr_out *feeds = mr_new_array(mr_out, n + 2);
    mr_tensor **values = mr_new_array(mr_tensor *, n + 2);
    for (int i = 0; i < n; i++) {
        feeds[i] = a->feeds[i];
        values[i] = a->feed_values[i];
    }
    mr_nn_reduce_feeds(s->o.reduce, feeds + n, values + n);
    a->feeds = feeds;
    a->feed_values = values;
    a->n_feeds = n + 2;
    mr_report_blocked("the gradients of all workers");
    mr_status *st = mr_session_run(session, a, trace ? &o : NULL, trace);
    mr_tensor_unref(values[n]);
    mr_tensor_unref(values[n + 1]);
    mr_free(feeds);
    mr_free(values);
    return st;
}

/* Runs one training step: the client's fetches followed by the global step. On an error nothing stays
 * fetched. */
static mr_status *train_once(mr_supervised *s, mr_session *session, void *arg)
{
    train_arg *t = arg;
    if (t->trace) /* filled by an earlier attempt */
        mr_str_clear(t->trace);
    if (s->o.sync)
        return train_sync(s, session, t);
    int k = t->a->n_fetches;
    MR_ASSERT(s->step_after.node);
    mr_out *fetches = mr_new_array(mr_out, k + 1);
    mr_tensor **fetched = mr_new_array(mr_tensor *, k + 1);
    for (int i = 0; i < k; i++)
        fetches[i] = t->a->fetches[i];
    fetches[k] = s->step_after;
    mr_run_args both = *t->a;
    both.fetches = fetches;
    both.fetched = fetched;
    both.n_fetches = k + 1;
    mr_status *st = run_train(s, session, &both, t->trace);
    for (int i = 0; i < k; i++)
        t->a->fetched[i] = fetched[i];
    if (!st && (st = mr_fetched_i64(fetched[k], &t->step)))
        for (int i = 0; i < k; i++) {
            mr_tensor_unref(t->a->fetched[i]);
            t->a->fetched[i] = NULL;
        }
    mr_tensor_unref(fetched[k]);
    mr_free(fetches);
    mr_free(fetched);
    return st;
}

/* A worker that trains takes part in the barrier again, even if it had left it. */
static void rejoin_barrier(mr_supervised *s)
{
    mr_lock(&s->mu);
    if (s->left) {
        s->left = s->led = false;
        s->worker.stamp = 0;
        mr_cond_broadcast(&s->changed);
    }
    mr_unlock(&s->mu);
}

/* Measures staleness: the steps between two of this worker's own updates are updates of others. */
static void note_own(mr_supervised *s, int64_t step)
{
    int64_t stale = s->known_step >= 0 ? step - s->known_step - 1 : 0;
    s->known_step = step;
    if (s->o.sync)
        return;
    mr_lock(&s->mu);
    s->own.iterations++;
    s->stale_sum += MR_MAX(0, stale);
    s->own.staleness = (double)s->stale_sum / (double)s->own.iterations;
    s->own.staleness_max = MR_MAX(s->own.staleness_max, stale);
    mr_unlock(&s->mu);
}

bool mr_supervised_figures(mr_supervised *s, int worker, mr_sync_figures *out)
{
    if (s->o.sync)
        return mr_nn_sync_figures(s->o.sync, worker, out);
    mr_lock(&s->mu);
    *out = s->own;
    mr_unlock(&s->mu);
    return worker == s->o.worker && out->iterations > 0 && !s->o.reduce; /* with all-reduce there are no such figures */
}

/* Reports this worker's figures to the launcher. */
static void tell_own(mr_supervised *s)
{
    mr_sync_figures f;
    s->told_ns = mr_now_ns();
    if (!s->o.sync && mr_supervised_figures(s, s->o.worker, &f))
        mr_report_tell_figures(&(mr_report_figures){s->o.worker, f.iterations, 0, 0, f.staleness, f.staleness_max});
}

/* Runs one step, repeated after each loss, and records its trace and figures. */
mr_status *mr_supervised_train(mr_supervised *s, const mr_run_args *a, int64_t *step)
{
    train_arg t = {.a = a, .trace = mr_tracer_begin(&s->tracer, s->last_step)};
    rejoin_barrier(s);
    mr_status *st = with_session(s, train_once, &t);
    mr_tracer_end(&s->tracer, !st, t.step);
    if (st)
        return st;
    note_own(s, t.step);
    if (mr_now_ns() - s->told_ns >= TELL_NS)
        tell_own(s);
    mr_report_step(t.step);
    *step = s->last_step = t.step;
    return NULL;
}

/* Reads the global step. A synchronous worker joins for it, because only its token has the step that
 * counts. */
static mr_status *step_once(mr_supervised *s, mr_session *session, void *arg)
{
    int64_t *step = arg;
    mr_tensor *t;
    if (s->o.sync) {
        mr_status *st = mr_nn_sync_join(s->o.sync, session, &s->worker);
        *step = s->worker.step;
        return st;
    }
    MR_TRY(mr_session_run(session, &(mr_run_args){.fetches = &s->step, .fetched = &t, .n_fetches = 1}, NULL, NULL));
    mr_status *st = mr_fetched_i64(t, step);
    mr_tensor_unref(t);
    return st;
}

mr_status *mr_supervised_step(mr_supervised *s, int64_t *step)
{
    MR_TRY(with_session(s, step_once, step));
    s->last_step = *step;
    return NULL;
}

/* ---- finishing ---- */

/* A use_fn: ABORTED, a loss, begins an era with the right chief. */
static mr_status *confirm_chief(mr_supervised *s, mr_session *session, void *arg)
{
    (void)arg;
    return mr_supervised_confirm(s, session);
}

/* A use_fn: tells the chief that this worker is done. */
static mr_status *leave_barrier(mr_supervised *s, mr_session *session, void *arg)
{
    (void)arg;
    MR_ASSERT(s->o.sync);
    return mr_nn_sync_say(s->o.sync, session, s->o.sync->o.worker, MR_SYNC_LEAVE);
}

/* Logs which workers have not finished yet. */
static void tell_unfinished(mr_supervised *s, mr_long_wait *wait)
{
    double seconds;
    mr_str who = {0};
    mr_nn_sync_list_present(s->o.sync, &who);
    if (mr_long_wait_due(wait, mr_now_ns(), &seconds))
        mr_info("Still waiting for worker %s: it has not finished (%.0f s)", who.n ? mr_str_z(&who) : "(unknown)",
                seconds);
    mr_str_deinit(&who);
}

/* Waits until all workers have left the barrier, which the chief's thread leads meanwhile. A loss is
 * repaired here, and then this worker leaves again, because the new leader does not know of it. If
 * another worker becomes the chief, that one waits. */
static mr_status *wait_for_all(mr_supervised *s)
{
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    for (;;) {
        mr_lock(&s->mu);
        while (!s->led && s->session && s->chief)
            if (!mr_cond_wait_until(&s->changed, &s->mu, wait.next_ns)) {
                mr_unlock(&s->mu);
                tell_unfinished(s, &wait);
                mr_lock(&s->mu);
            }
        bool over = s->led || (s->session && !s->chief);
        mr_unlock(&s->mu);
        if (over)
            return NULL;
        MR_TRY(recover_session(s));
        MR_TRY(with_session(s, leave_barrier, NULL));
    }
}

static mr_status *save_once(mr_supervised *s, mr_session *session, void *arg) { return mr_supervised_save(s, session, arg); }

/* Confirms first who is the chief: a worker that has just come back may not know yet that it is. */
mr_status *mr_supervised_finish(mr_supervised *s, int64_t *step)
{
    *step = s->last_step;
    tell_own(s);
    MR_TRY(with_session(s, confirm_chief, NULL));
    if (s->o.sync) {
        mr_lock(&s->mu);
        s->left = true;
        mr_unlock(&s->mu);
        MR_TRY(with_session(s, leave_barrier, NULL));
        if (mr_supervised_is_chief(s))
            MR_TRY(wait_for_all(s));
    }
    return mr_supervised_is_chief(s) && s->folder ? with_session(s, save_once, step) : NULL;
}

/* Closing the session ends the runs of the other threads, so they can be joined. */
void mr_supervised_free(mr_supervised *s)
{
    if (!s)
        return;
    mr_lock(&s->mu);
    s->ending = true;
    mr_session *session = s->session ? s->session : s->old;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
    if (session)
        mr_status_free(mr_session_close(session));
    mr_supervised_join_threads(s);
    MR_ASSERT(s->n_users == 0);
    mr_session_free(session);
    mr_recovery_deinit(&s->recovery);
    mr_status_free(s->why);
    mr_status_free(s->fatal);
    mr_nn_saver_free(s->saver);
    if (s->o.sync)
        s->o.sync->tracer = NULL;
    mr_tracer_deinit(&s->tracer);
    mr_vec_deinit(&s->flags);
    mr_cancel_free(s->cancel);
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
    mr_mutex_deinit(&s->saving);
    mr_mutex_deinit(&s->voting);
    mr_free(s->prefix);
    mr_free(s->folder);
    mr_free(s);
}

int mr_supervised_losses(const mr_supervised *s) { return s->n_losses; }
