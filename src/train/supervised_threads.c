/* train/supervised_threads.c -- the threads beside training: the chief leads the barrier and saves, every synchronous
 * worker reports that it is alive.
 *
 * Each thread works era by era: it takes the session, works until something fails, reports a loss, and
 * waits for the next era. Nothing here opens sessions. Errors that a new session cannot repair go to
 * s->fatal, which the client's next run returns. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/report.h"
#include "store/bundle.h"
#include "store/checkpoint_state.h"
#include "train/supervised_internal.h"

/* Sleeps; false when the supervised session ends. */
static bool sleep_for(mr_supervised *s, int64_t ms)
{
    int64_t until = mr_now_ns() + ms * 1000000;
    mr_lock(&s->mu);
    while (!s->ending && mr_cond_wait_until(&s->changed, &s->mu, until))
        ;
    bool on = !s->ending;
    mr_unlock(&s->mu);
    return on;
}

/* ---- leading ---- */

/* Ends training with an error that a new session cannot repair; the client's next run returns it. */
static void set_fatal(mr_supervised *s, const mr_status *st)
{
    mr_lock(&s->mu);
    if (!s->fatal)
        s->fatal = mr_status_copy(st);
    mr_unlock(&s->mu);
}

/* All workers have left: waits until this worker trains again. false: this worker itself has not left. */
static bool wait_for_return(mr_supervised *s)
{
    mr_lock(&s->mu);
    bool left = s->left;
    s->led = left;
    mr_cond_broadcast(&s->changed);
    while (s->led && !s->ending)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
    return left;
}

/* The thread that leads the barrier, in eras in which this worker is the chief. If the barrier ends
 * although this worker has not left, a message from before it came back was read; it has to join
 * again, so the era ends. */
static void lead_barrier(void *arg)
{
    mr_supervised *s = arg;
    mr_session *session;
    int era;
    MR_ASSERT(s->o.sync);
    while ((session = mr_supervised_use_as_chief(s, &era))) {
        mr_status *st = mr_nn_sync_lead(s->o.sync, session);
        mr_supervised_unuse(s);
        if (!st && wait_for_return(s))
            continue;
        if (!st)
            st = mr_error(MR_ABORTED, "The barrier ended without its chief");
        if (!mr_recovery_mends(st))
            set_fatal(s, st);
        mr_supervised_lost(s, era, st);
    }
    mr_lock(&s->mu);
    s->led = true;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* ---- saving ---- */

/* Reads every tensor of a checkpoint, which verifies its checksums. */
static mr_status *read_all(const char *path)
{
    mr_bundle *b;
    MR_TRY(mr_bundle_open(path, &b));
    mr_status *st = NULL;
    for (int i = 0; i < mr_bundle_count(b) && !st; i++) {
        mr_tensor *t = NULL;
        st = mr_bundle_read(b, mr_bundle_name(b, i), mr_cpu_allocator(), &t);
        mr_tensor_unref(t);
    }
    mr_bundle_close(b);
    return st;
}

/* Whether the newest checkpoint is of this step and loads. Then it is left alone: while its files were
 * being overwritten, there would be no valid one. */
static bool is_newest(const mr_supervised *s, int64_t step)
{
    mr_checkpoint_state state;
    MR_ASSERT(s->folder && s->prefix);
    char *path = mr_printf("%s-%lld", s->prefix, (long long)step);
    mr_status *st = mr_checkpoint_state_read(s->folder, &state);
    bool same = !st && state.paths.n && mr_sv_is(mr_path_basename(path), state.paths.p[state.paths.n - 1]);
    if (same)
        st = read_all(path);
    same &= !st;
    mr_status_free(st);
    mr_checkpoint_state_deinit(&state);
    mr_free(path);
    return same;
}

/* Saves a checkpoint of the present step, unless there is one. The caller holds `saving`. */
static mr_status *save_now(mr_supervised *s, mr_session *session, int64_t *step)
{
    mr_tensor *t;
    MR_TRY(mr_session_run(session, &(mr_run_args){.fetches = &s->step, .fetched = &t, .n_fetches = 1}, NULL, NULL));
    mr_status *st = mr_fetched_i64(t, step);
    mr_tensor_unref(t);
    return st || is_newest(s, *step) ? st : mr_nn_save(s->saver, session, s->prefix, *step);
}

mr_status *mr_supervised_save(mr_supervised *s, mr_session *session, int64_t *step)
{
    mr_lock(&s->saving);
    mr_status *st = save_now(s, session, step);
    mr_unlock(&s->saving);
    return st;
}

/* The thread that saves every save_ms. A failed save that is not a loss, such as a full disk, is only
 * logged: the next one may succeed. */
static void save_periodically(void *arg)
{
    mr_supervised *s = arg;
    mr_session *session;
    int64_t step;
    int era;
    while (sleep_for(s, s->o.save_ms) && (session = mr_supervised_use_as_chief(s, &era))) {
        mr_status *st = mr_supervised_save(s, session, &step);
        mr_supervised_unuse(s);
        if (mr_recovery_mends(st)) {
            mr_supervised_lost(s, era, st);
        } else if (st) {
            mr_warn("Could not save a checkpoint, training continues: %s", mr_status_message(st));
            mr_status_free(st);
        }
    }
}

/* ---- heartbeats ---- */

/* One heartbeat: confirms who is the chief and reports that this worker is alive. A chief that has
 * left the barrier reports as worker -1, which only advances the leader's clock. The chief also checks
 * all tasks: a thread that waits for a token or a message would not notice the loss of a task without
 * queues. */
static mr_status *send_heartbeat(mr_supervised *s, mr_session *session)
{
    bool ready = true;
    mr_lock(&s->mu);
    bool left = s->left, chief = s->chief;
    mr_unlock(&s->mu);
    MR_TRY(mr_supervised_confirm(s, session));
    if (!s->o.sync)
        return NULL;
    MR_TRY(mr_nn_sync_say(s->o.sync, session, left ? -1 : s->o.sync->o.worker, MR_SYNC_ALIVE));
    if (chief)
        MR_TRY(mr_supervised_check(s, session, &ready));
    return ready ? NULL : mr_error(MR_ABORTED, "A task of the cluster has restarted");
}

/* The interval of heartbeats: several in each lease, and several in the time after which a silent
 * chief is replaced. 0: there is nothing to report. */
static int64_t heartbeat_ms(const mr_supervised *s)
{
    int64_t lease_ms = s->o.sync ? s->o.sync->o.lease_ms / 6 : 0, chief_ms = s->o.chief_ms / 8;
    return lease_ms && chief_ms ? MR_MIN(lease_ms, chief_ms) : MR_MAX(lease_ms, chief_ms);
}

/* The thread that sends heartbeats. An error that is not a loss is dropped: the client's runs meet it too. */
static void send_heartbeats(void *arg)
{
    mr_supervised *s = arg;
    mr_session *session;
    int era;
    while (sleep_for(s, MR_MAX(1, heartbeat_ms(s))) && (session = mr_supervised_use(s, &era))) {
        mr_report_beat();
        mr_status *st = send_heartbeat(s, session);
        mr_supervised_unuse(s);
        if (mr_recovery_mends(st))
            mr_supervised_lost(s, era, st);
        else
            mr_status_free(st);
    }
}

/* Threads that were started before an error stay; mr_supervised_free joins them. */
static mr_status *start_thread(mr_supervised *s, const char *name, void (*fn)(void *))
{
    MR_ASSERT(s->n_threads < MR_SUPERVISED_THREADS);
    int e = mr_thread_start(&s->threads[s->n_threads], name, fn, s);
    if (e)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Cannot start the thread '%s' beside training: %s", name, strerror(e));
    s->n_threads++;
    return NULL;
}

/* Starts only the threads that this worker can need. A worker that may be elected leads and saves in the eras in which
 * it is the chief; until then these threads wait. */
mr_status *mr_supervised_start_threads(mr_supervised *s)
{
    bool may_lead = s->o.chief || s->o.chief_ms > 0 || s->o.reduce;
    if (s->o.sync && may_lead)
        MR_TRY(start_thread(s, "mr_lead", lead_barrier));
    if ((s->o.sync && s->o.sync->o.lease_ms > 0) || s->o.chief_ms > 0)
        MR_TRY(start_thread(s, "mr_alive", send_heartbeats));
    if (may_lead && s->folder && s->o.save_ms > 0)
        MR_TRY(start_thread(s, "mr_save", save_periodically));
    return NULL;
}

/* `ending` is set and the session is closed, so every thread returns soon. */
void mr_supervised_join_threads(mr_supervised *s)
{
    for (int i = 0; i < s->n_threads; i++)
        mr_thread_join(&s->threads[i]);
    s->n_threads = 0;
}
