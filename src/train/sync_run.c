/* train/sync_run.c -- runs the nodes of sync.c: the steps of a worker, and the chief's loop.
 *
 * A worker keeps the stamp of its last token; stamp 0 means that it must join. The chief feeds the
 * messages of the workers to dist/sync.c and carries out its actions. The chief's state lives in one
 * call of mr_nn_sync_lead; only `knew_left` and the figures survive it. Stamps of a new chief are
 * wall-clock times, so they exceed those of earlier chiefs, and gradients for an earlier chief are
 * stale. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/report.h"
#include "train/sync_internal.h"

enum { MAX_FEEDS = 8 };

/* A run with a few scalar feeds, which it owns. */
typedef struct small_run {
    mr_out feeds[MAX_FEEDS];
    mr_tensor *values[MAX_FEEDS];
    int n;
} small_run;

/* Takes over v; run_within releases it. */
static void add_feed(small_run *r, mr_out o, mr_tensor *v)
{
    MR_ASSERT(r->n < MAX_FEEDS);
    r->feeds[r->n] = o;
    r->values[r->n++] = v;
}

/* Runs the session with the feeds of r, and releases them. timeout_ms 0: no timeout; trace NULL: no
 * trace. */
static mr_status *run_within(small_run *r, mr_session *s, mr_node *target, const mr_out *fetches, mr_tensor **fetched, int n_fetches,
                             int64_t timeout_ms, mr_str *trace)
{
    mr_run_options o = {.timeout_ms = timeout_ms, .trace_level = trace ? MR_FULL_TRACE : 0};
    mr_run_args a = {.feeds = r->feeds, .feed_values = r->values, .n_feeds = r->n, .fetches = fetches, .fetched = fetched,
                     .n_fetches = n_fetches, .targets = &target, .n_targets = target != NULL};
    mr_status *st = mr_session_run(s, &a, timeout_ms > 0 || trace ? &o : NULL, trace);
    for (int i = 0; i < r->n; i++)
        mr_tensor_unref(r->values[i]);
    return st;
}

static mr_status *run_small(small_run *r, mr_session *s, mr_node *target, const mr_out *fetches, mr_tensor **fetched,
                            int n_fetches)
{
    return run_within(r, s, target, fetches, fetched, n_fetches, 0, NULL);
}

static void unref_all(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(t[i]);
}

/* ---- workers ---- */

/* Puts a message into the queue of the chief. Joining and leaving also change the flag beside the queue. */
static mr_status *send_message(mr_nn_sync *y, mr_session *s, int worker, mr_sync_message message, int64_t stamp)
{
    small_run r = {.n = 0};
    add_feed(&r, y->message[0], mr_tensor_scalar_i64(worker));
    add_feed(&r, y->message[1], mr_tensor_scalar_i64(message));
    add_feed(&r, y->message[2], mr_tensor_scalar_i64(stamp));
    mr_node *how = message == MR_SYNC_LEAVE ? y->say_leave : message == MR_SYNC_JOIN ? y->say_join : y->say;
    return run_small(&r, s, how, NULL, NULL, 0);
}

mr_status *mr_nn_sync_say(mr_nn_sync *y, mr_session *s, int worker, mr_sync_message message)
{
    return send_message(y, s, worker, message, 0);
}

/* Reads stamp and step of a token, which comes from another process and is checked. */
static mr_status *take_token(mr_tensor *const t[2], mr_sync_worker *w)
{
    int64_t stamp = 0, step = 0;
    MR_TRY(mr_fetched_i64(t[0], &stamp));
    MR_TRY(mr_fetched_i64(t[1], &step));
    if (stamp > w->stamp) { /* else the token is a repetition */
        w->stamp = stamp;
        w->step = step;
    }
    return NULL;
}

/* Waits for a token above `above`: the stamp this worker sent gradients for, or 0. If the same token
 * arrives again, the chief may have lost our message "arrived", so it is sent again. */
static mr_status *wait_token(mr_nn_sync *y, mr_session *s, int64_t above, mr_sync_worker *w)
{
    MR_ASSERT(above >= 0);
    while (w->stamp <= above) {
        small_run r = {.n = 0};
        mr_tensor *t[2];
        if (above > 0)
            MR_TRY(send_message(y, s, y->o.worker, MR_SYNC_ARRIVED, above));
        MR_TRY(run_small(&r, s, NULL, y->wait, t, 2));
        mr_status *st = take_token(t, w);
        unref_all(t, 2);
        if (st)
            return st;
    }
    return NULL;
}

mr_status *mr_nn_sync_join(mr_nn_sync *y, mr_session *s, mr_sync_worker *w)
{
    if (w->stamp > 0)
        return NULL;
    MR_TRY(send_message(y, s, y->o.worker, MR_SYNC_JOIN, 0));
    return wait_token(y, s, 0, w);
}

/* One run with the client's feeds and fetches, followed by the stamp and the token. */
static mr_status *run_with(mr_nn_sync *y, mr_session *s, const mr_run_args *a, mr_sync_worker *w)
{
    int n = a->n_feeds, k = a->n_fetches;
    mr_out *feeds = mr_new_array(mr_out, n + 1), *fetches = mr_new_array(mr_out, k + 2);
    mr_tensor **values = mr_new_array(mr_tensor *, n + 1), **fetched = mr_new_array(mr_tensor *, k + 2);
    for (int i = 0; i < n; i++) {
        feeds[i] = a->feeds[i];
        values[i] = a->feed_values[i];
    }
    for (int i = 0; i < k; i++)
        fetches[i] = a->fetches[i];
    feeds[n] = y->local;
    values[n] = mr_tensor_scalar_i64(w->stamp);
    fetches[k] = y->token[0];
    fetches[k + 1] = y->token[1];
    mr_run_args both = *a;
    both.feeds = feeds;
    both.feed_values = values;
    both.n_feeds = n + 1;
    both.fetches = fetches;
    both.fetched = fetched;
    both.n_fetches = k + 2;
    mr_status *st = mr_session_run(s, &both, w->trace ? &(mr_run_options){.trace_level = MR_FULL_TRACE} : NULL, w->trace);
    for (int i = 0; i < k; i++)
        a->fetched[i] = fetched[i];
    if (!st) {
        st = take_token(fetched + k, w);
        unref_all(fetched + k, 2);
    }
    mr_tensor_unref(values[n]);
    mr_free(feeds);
    mr_free(fetches);
    mr_free(values);
    mr_free(fetched);
    return st;
}

/* On an error nothing stays fetched, and the next step joins again. */
mr_status *mr_nn_sync_run(mr_nn_sync *y, mr_session *s, const mr_run_args *a, mr_sync_worker *w)
{
    for (int i = 0; i < a->n_fetches; i++)
        a->fetched[i] = NULL;
    mr_status *st = mr_nn_sync_join(y, s, w);
    int64_t gave = w->stamp;
    mr_report_blocked(y->o.bounded ? "the slowest worker" : "the gradients of all workers");
    if (!st)
        st = run_with(y, s, a, w);
    if (!st)
        st = wait_token(y, s, gave, w);
    if (!st)
        return NULL;
    w->stamp = 0;
    unref_all(a->fetched, a->n_fetches);
    for (int i = 0; i < a->n_fetches; i++)
        a->fetched[i] = NULL;
    return st;
}

/* ---- the chief ---- */

typedef struct chief {
    mr_nn_sync *y;
    mr_session *s;
    mr_sync sync;
    int64_t step; /* the global one, as last read: for traces, and to tell a first start */
    int64_t told_ns; /* when figures were last reported */
    mr_long_wait wait; /* for logging: since the last gradient arrived or a worker began to wait */
    int64_t n_gave;    /* number of gradients then */
    bool ended;
    bool knows_left; /* find_left has succeeded */
} chief;

/* Moves all accumulators to a stamp: gradients with an older one are dropped from now on. */
static mr_status *set_stamp(chief *c, int64_t stamp)
{
    small_run r = {.n = 0};
    add_feed(&r, c->y->stamp, mr_tensor_scalar_i64(stamp));
    return run_small(&r, c->s, c->y->set_stamp, NULL, NULL, 0);
}

/* Reads how many gradients each accumulator holds. */
static mr_status *count_gradients(chief *c, int32_t *out)
{
    int n = c->y->accumulators.n;
    mr_out *counts = mr_new_array(mr_out, n);
    mr_tensor **got = mr_new_array(mr_tensor *, n);
    small_run none = {.n = 0};
    for (int i = 0; i < n; i++)
        counts[i] = c->y->accumulators.p[i].count;
    mr_status *st = run_small(&none, c->s, NULL, counts, got, n);
    for (int i = 0; i < n && !st; i++)
        if (got[i]->dtype != MR_INT32 || got[i]->n != 1)
            st = mr_error(MR_INTERNAL, "The count of an accumulator is not an int32");
        else
            out[i] = *MR_DATA(int32_t, got[i]);
    unref_all(got, n);
    mr_free(counts);
    mr_free(got);
    return st;
}

enum { DRAIN_MS = 500 };

/* Removes the gradients that were sent for an earlier chief. That chief's last update may take them
 * after they were counted here; then there is nothing left to take, and after DRAIN_MS they are counted
 * again. Older gradients are dropped by now, so the counts only fall. */
static mr_status *drain_accumulators(chief *c)
{
    int n = c->y->accumulators.n;
    small_run none = {.n = 0};
    int32_t *counts = mr_new_array(int32_t, n + 1);
    mr_status *st = n > 0 ? count_gradients(c, counts) : NULL;
    for (int i = 0; i < n && !st;) {
        if (counts[i] > 0)
            st = run_within(&none, c->s, c->y->accumulators.p[i].drain, NULL, NULL, 0, DRAIN_MS, NULL);
        if (mr_status_code(st) == MR_DEADLINE_EXCEEDED) {
            mr_status_free(st);
            st = count_gradients(c, counts);
        } else
            i++;
    }
    mr_free(counts);
    return st;
}

/* Tells the barrier which workers have left: this process knows it from the last time it led, or it is
 * recorded at the parameter server; either may have been lost. This process's own worker is left out,
 * because it sends that message each time. */
static mr_status *find_left(chief *c)
{
    small_run none = {.n = 0};
    mr_tensor *t;
    int n = c->y->o.n_workers;
    MR_TRY(run_small(&none, c->s, NULL, &c->y->left, &t, 1));
    mr_status *st = t->dtype == MR_BOOL && t->n == n
                        ? NULL
                        : mr_error(MR_INTERNAL, "The list of workers that have left has a wrong type or size");
    for (int i = 0; i < n && !st; i++)
        if (i != c->y->o.worker && (c->y->knew_left[i] || MR_DATA(bool, t)[i]))
            mr_sync_remember_left(&c->sync, i);
    mr_tensor_unref(t);
    c->knows_left = !st;
    return st;
}

/* Remembers who has left, for the next time; unless find_left has not run yet. */
static void remember_left(chief *c)
{
    for (int i = 0; c->knows_left && i < c->y->o.n_workers; i++)
        c->y->knew_left[i] = c->sync.members[i].state == MR_SYNC_LEFT;
}

/* Prepares a new barrier. After the first set_stamp older gradients are dropped, so none arrives after
 * the draining. Draining itself moves the steps of the accumulators apart, hence the second set_stamp. */
static mr_status *begin_barrier(chief *c)
{
    int64_t stamp = mr_wall_us();
    small_run none = {.n = 0};
    mr_tensor *step;
    MR_TRY(set_stamp(c, stamp));
    MR_TRY(drain_accumulators(c));
    MR_TRY(set_stamp(c, stamp + 1));
    MR_TRY(run_small(&none, c->s, NULL, &c->y->step, &step, 1));
    mr_status *st = mr_fetched_i64(step, &c->step);
    mr_tensor_unref(step);
    if (st)
        return st;
    const mr_nn_sync_options *o = &c->y->o;
    int64_t join_ms =
        c->step > 0 && o->lease_ms > 0 ? o->lease_ms : o->join_ms; /* not the first start: some may have left already */
    mr_sync_options with = {o->n_workers, o->aggregate, o->lease_ms * 1000000, join_ms * 1000000, o->bounded, o->delay};
    mr_sync_init(&c->sync, &with, stamp + 1, mr_now_ns());
    return find_left(c);
}

/* Carries out the actions from `from` on that fit into one run: an update and the tokens after it, or
 * tokens alone. Returns their number. The run has a timeout, because the last run of a replaced chief
 * may have taken some of the gradients. */
static int carry_out_some(chief *c, const mr_sync_actions *todo, int from, mr_status **st)
{
    MR_ASSERT(from >= 0 && from < todo->n);
    const mr_sync_action *a = &todo->p[from];
    bool apply = a->what == MR_SYNC_APPLY;
    int n = apply, n_workers = c->y->o.n_workers;
    if (a->what == MR_SYNC_END) {
        c->ended = true;
        return 1;
    }
    mr_tensor *to = NULL;
    *st = mr_tensor_new(mr_cpu_allocator(), MR_INT32, 1, (int64_t[]){n_workers}, &to);
    if (*st)
        return 1;
    /* to[i] is 1 for each worker that gets a token of this stamp. */
    memset(MR_DATA(int32_t, to), 0, sizeof(int32_t) * (size_t)n_workers);
    for (; from + n < todo->n; n++) {
        const mr_sync_action *token = &todo->p[from + n];
        if (token->what != MR_SYNC_TOKEN || (!apply && token->stamp != a->stamp))
            break;
        MR_ASSERT(token->worker >= 0 && token->worker < n_workers);
        MR_DATA(int32_t, to)[token->worker] = 1;
    }
    MR_ASSERT(n > 0);
    small_run r = {.n = 0};
    add_feed(&r, c->y->to, to);
    add_feed(&r, c->y->give, mr_tensor_scalar_i64(a->stamp));
    if (apply)
        add_feed(&r, c->y->required, mr_tensor_scalar_i32(a->count));
    mr_str trace = {0};
    bool traced = apply && mr_tracer_wants_update(c->y->tracer, c->step + 1);
    mr_tensor *step = NULL;
    *st = run_within(&r, c->s, apply ? c->y->apply : c->y->tell, &c->y->step_after, &step, apply,
                     apply ? 3 * c->y->o.lease_ms : 0, traced ? &trace : NULL);
    if (apply && !*st)
        *st = mr_fetched_i64(step, &c->step);
    mr_tensor_unref(step);
    if (traced && !*st)
        mr_tracer_update(c->y->tracer, c->step, &trace);
    mr_str_deinit(&trace);
    return n;
}

/* Feeds one event to dist/sync.c and carries out its actions, up to the first error. */
static mr_status *handle_event(chief *c, const mr_sync_event *e)
{
    mr_sync_actions todo = {0};
    mr_status *st = NULL;
    mr_sync_step(&c->sync, e, mr_now_ns(), &todo);
    for (int i = 0; i < todo.n && !st;)
        i += carry_out_some(c, &todo, i, &st);
    mr_vec_deinit(&todo);
    return st;
}

/* Takes all messages in the queue, at least one, and handles them. They come from other processes, so
 * they are checked. */
static mr_status *handle_messages(chief *c)
{
    small_run none = {.n = 0};
    mr_tensor *t[3];
    MR_TRY(run_small(&none, c->s, NULL, c->y->events, t, 3));
    mr_status *st = NULL;
    int64_t unused;
    for (int i = 0; i < 3 && !st; i++)
        st = t[i]->n == t[0]->n ? mr_fetched_i64(t[i], &unused)
                                : mr_error(MR_INTERNAL, "The columns of the messages differ in length");
    for (int64_t i = 0; i < t[0]->n && !st && !c->ended; i++)
        st = handle_event(
            c, &(mr_sync_event){MR_DATA(int64_t, t[0])[i], MR_DATA(int64_t, t[1])[i], MR_DATA(int64_t, t[2])[i]});
    unref_all(t, 3);
    return st;
}

#define TELL_NS INT64_C(1000000000)

/* Reports the figures of all workers, once a second and at the end. */
static void tell_figures(chief *c)
{
    int64_t now = mr_now_ns();
    if (now - c->told_ns < TELL_NS && !c->ended)
        return;
    c->told_ns = now;
    for (int i = 0; i < c->y->o.n_workers; i++) {
        mr_sync_figures f = mr_sync_figures_of(&c->sync, i);
        mr_report_tell_figures(&(mr_report_figures){i, f.iterations, f.late, f.waited_ns / 1000000, f.staleness, f.staleness_max});
    }
}

/* Publishes the figures and the present workers, for other threads. */
static void note_figures(chief *c)
{
    int n = c->y->o.n_workers;
    mr_lock(&c->y->mu);
    MR_ASSERT(!c->y->figures == !c->y->present);
    if (!c->y->figures) {
        c->y->figures = mr_new_array(mr_sync_figures, n);
        c->y->present = mr_new_array(bool, n);
    }
    for (int i = 0; i < n; i++) {
        c->y->figures[i] = mr_sync_figures_of(&c->sync, i);
        c->y->present[i] = c->sync.members[i].state != MR_SYNC_LEFT;
    }
    mr_unlock(&c->y->mu);
}

enum { MAX_LISTED = 10 }; /* workers in a line of the log */

/* Appends a worker as the n-th of a list, which ends with "..." after MAX_LISTED. */
static void list_worker(mr_str *out, int n, int worker)
{
    if (n <= MAX_LISTED)
        mr_str_printf(out, n == 1 ? "%d" : ", %d", worker);
    else if (n == MAX_LISTED + 1)
        mr_str_appendz(out, ", ...");
}

void mr_nn_sync_list_present(mr_nn_sync *y, mr_str *out)
{
    int n = 0;
    mr_lock(&y->mu);
    for (int i = 0; y->present && i < y->o.n_workers; i++)
        if (y->present[i] && i != y->o.worker)
            list_worker(out, ++n, i);
    mr_unlock(&y->mu);
}

/* Logs which workers the others wait for, when no gradient has arrived for long: those that have not
 * joined since the chief started, or those whose gradients are missing. Heartbeats call this often. */
static void tell_waits(chief *c)
{
    int64_t n_gave = 0, now_ns = mr_now_ns();
    int n = 0;
    double seconds;
    mr_str who = {0};
    bool joining = !c->y->o.bounded && mr_sync_required(&c->sync) == 0;
    for (int i = 0; i < c->y->o.n_workers; i++) {
        mr_sync_figures f = mr_sync_figures_of(&c->sync, i);
        n_gave += f.iterations;
        if (joining ? c->sync.members[i].state == MR_SYNC_UNHEARD : f.waited_for)
            list_worker(&who, ++n, i);
    }
    if (!n || n_gave != c->n_gave || !c->wait.begun_ns)
        mr_long_wait_begin(&c->wait, now_ns);
    c->n_gave = n_gave;
    if (mr_long_wait_due(&c->wait, now_ns, &seconds))
        mr_info("Still waiting for worker %s: %s (%.0f s)", mr_str_z(&who),
                joining ? "it has not joined" : "it has not sent its gradient, and others wait", seconds);
    mr_str_deinit(&who);
}

/* From any thread: note_figures publishes them under the same lock. */
bool mr_nn_sync_figures(mr_nn_sync *y, int worker, mr_sync_figures *out)
{
    mr_lock(&y->mu);
    bool known = y->figures && worker >= 0 && worker < y->o.n_workers;
    *out = known ? y->figures[worker] : (mr_sync_figures){0};
    mr_unlock(&y->mu);
    return known;
}

/* Handles messages until all workers have left or a run fails. What survives this call is knew_left, the figures and
 * the list of present workers. */
mr_status *mr_nn_sync_lead(mr_nn_sync *y, mr_session *s)
{
    MR_ASSERT(y->tell && (y->apply || y->o.bounded));
    chief c = {.y = y, .s = s};
    mr_status *st = begin_barrier(&c);
    while (!st && !c.ended) {
        st = handle_messages(&c);
        note_figures(&c);
        tell_figures(&c);
        tell_waits(&c);
    }
    remember_left(&c);
    mr_sync_deinit(&c.sync);
    return st;
}
