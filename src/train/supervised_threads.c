/* train/supervised_threads.c -- what goes on beside training: the chief leads the barrier and saves, every synchronous
 * worker says that it lives.
 *
 * Each thread works era by era: it takes the session, works until something fails, tells of a loss, and waits for the next
 * era.  Nothing here opens sessions. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/report.h"
#include "store/bundle.h"
#include "store/checkpoint_state.h"
#include "train/supervised_internal.h"

/* Time passes; false when all ends. */
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

/* What a new session does not mend ends training: the client's next run tells. */
static void fail(mr_supervised *s, const mr_status *st)
{
    mr_lock(&s->mu);
    if (!s->fatal)
        s->fatal = mr_status_copy(st);
    mr_unlock(&s->mu);
}

/* All have left: until this worker comes back.  False: it has not even left. */
static bool rest(mr_supervised *s)
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

static void lead(void *arg)
{
    mr_supervised *s = arg;
    mr_session *session;
    int era;
    while ((session = mr_supervised_use_as_chief(s, &era))) {
        mr_status *st = mr_net_sync_lead(s->o.sync, session);
        mr_supervised_unuse(s);
        if (!st && rest(s))
            continue;
        if (!st) /* by a word from before it came back; it has to join again */
            st = mr_error(MR_ABORTED, "The barrier ended without its chief");
        if (!mr_recovery_mends(st))
            fail(s, st);
        mr_supervised_lost(s, era, st);
    }
    mr_lock(&s->mu);
    s->led = true;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* ---- saving ---- */

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

/* Whether the newest checkpoint is of this step, and loads.  It is left alone: while files are written over, there is
 * none. */
static bool is_newest(const mr_supervised *s, int64_t step)
{
    mr_checkpoint_state state;
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

static mr_status *save_now(mr_supervised *s, mr_session *session, int64_t *step)
{
    mr_tensor *t;
    MR_TRY(mr_session_run(session, &(mr_run_args){.fetches = &s->step, .fetched = &t, .n_fetches = 1}, NULL, NULL));
    mr_status *st = mr_fetched_i64(t, step);
    mr_tensor_unref(t);
    return st || is_newest(s, *step) ? st : mr_net_save(s->saver, session, s->prefix, *step);
}

mr_status *mr_supervised_save(mr_supervised *s, mr_session *session, int64_t *step)
{
    mr_lock(&s->saving);
    mr_status *st = save_now(s, session, step);
    mr_unlock(&s->saving);
    return st;
}

static void save_now_and_then(void *arg)
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
        } else if (st) { /* a full disk: the next one may do, training goes on */
            mr_warn("no checkpoint was made: %s", mr_status_message(st));
            mr_status_free(st);
        }
    }
}

/* ---- living ---- */

/* A chief that has left keeps the leader's clock going.  It also looks after all tasks: who waits for a token or a
 * word would not see that a task without queues was lost. */
static mr_status *live(mr_supervised *s, mr_session *session)
{
    bool ready = true;
    mr_lock(&s->mu);
    bool left = s->left, chief = s->chief;
    mr_unlock(&s->mu);
    MR_TRY(mr_supervised_confirm(s, session)); /* keeps its place, or sees that it is another's */
    if (!s->o.sync)
        return NULL;
    MR_TRY(mr_net_sync_say(s->o.sync, session, left ? -1 : s->o.sync->o.worker, MR_SYNC_ALIVE));
    if (chief)
        MR_TRY(mr_supervised_check(s, session, &ready));
    return ready ? NULL : mr_error(MR_ABORTED, "A task has restarted");
}

/* Several words in each lease, several counts in each patience; 0: there is nothing to say. */
static int64_t word_ms(const mr_supervised *s)
{
    int64_t lease_ms = s->o.sync ? s->o.sync->o.lease_ms / 6 : 0, chief_ms = s->o.chief_ms / 8;
    return lease_ms && chief_ms ? MR_MIN(lease_ms, chief_ms) : MR_MAX(lease_ms, chief_ms);
}

static void say_alive(void *arg)
{
    mr_supervised *s = arg;
    mr_session *session;
    int era;
    while (sleep_for(s, MR_MAX(1, word_ms(s))) && (session = mr_supervised_use(s, &era))) {
        mr_report_beat();
        mr_status *st = live(s, session);
        mr_supervised_unuse(s);
        if (mr_recovery_mends(st))
            mr_supervised_lost(s, era, st);
        else
            mr_status_free(st);
    }
}

static mr_status *start(mr_supervised *s, const char *name, void (*fn)(void *))
{
    int e = mr_thread_start(&s->threads[s->n_threads], name, fn, s);
    if (e)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No thread could be started: error %d", e);
    s->n_threads++;
    return NULL;
}

mr_status *mr_supervised_start_threads(mr_supervised *s)
{
    bool may_lead = s->o.chief || s->o.chief_ms > 0 || s->o.reduce;
    if (s->o.sync && may_lead)
        MR_TRY(start(s, "mr_lead", lead));
    if ((s->o.sync && s->o.sync->o.lease_ms > 0) || s->o.chief_ms > 0)
        MR_TRY(start(s, "mr_alive", say_alive));
    if (may_lead && s->folder && s->o.save_ms > 0)
        MR_TRY(start(s, "mr_save", save_now_and_then));
    return NULL;
}

void mr_supervised_join_threads(mr_supervised *s)
{
    for (int i = 0; i < s->n_threads; i++)
        mr_thread_join(&s->threads[i]);
    s->n_threads = 0;
}
