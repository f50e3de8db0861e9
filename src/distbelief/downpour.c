/* distbelief/downpour.c -- a Downpour replica: carries out dist/downpour.c.
 *
 * Everything but the transfers happens on the caller's thread. A fetch is a group of pulls and a push
 * a group of pushes (the vector, tables of rows, the job's count of steps). A thread of the parameter
 * server's client reports the end of each task, and the caller collects groups that have ended between
 * its steps.
 *
 * mu guards the counts of tasks and `cancelled`. An error of the servers ends training until it is
 * started again, because gradients may be lost; a cancelled wait does not. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "distbelief/downpour_internal.h"
#include "run/cancel.h"

/* ---- groups of tasks ---- */

/* Called once per task by a thread of the parameter server's client. After the lock is released the group may be
 * collected. */
static void task_ended(void *arg, mr_ps_task t, const mr_status *st)
{
    (void)t, (void)st; /* collect asks for its error */
    mr_downpour_replica_group *g = ((void **)arg)[0];
    mr_downpour_replica *p = ((void **)arg)[1];
    MR_ASSERT(g && p);
    mr_lock(&p->mu);
    MR_ASSERT(g->left > 0);
    if (--g->left == 0)
        mr_cond_signal(&p->changed);
    mr_unlock(&p->mu);
    mr_free(arg);
}

/* Changes the number of tasks of a group that have not ended. A group holds one while it is being
 * begun, so it cannot end too early. */
static void count_task(mr_downpour_replica *p, mr_downpour_replica_group *g, int by)
{
    mr_lock(&p->mu);
    g->left += by;
    MR_ASSERT(g->left >= 0);
    if (g->left == 0)
        mr_cond_signal(&p->changed);
    mr_unlock(&p->mu);
}

/* Starts a task of a group. task_ended frees arg, unless the task could not be started. */
static mr_status *begin_task(mr_downpour_replica *p, mr_downpour_replica_group *g, mr_ps_job j)
{
    void **arg = mr_new_array(void *, 2);
    mr_ps_task task;
    arg[0] = g;
    arg[1] = p;
    j.done = task_ended;
    j.arg = arg;
    count_task(p, g, 1);
    mr_status *st = mr_ps_begin(p->ps, &j, &task);
    if (st) {
        mr_free(arg);
        count_task(p, g, -1);
        return st;
    }
    mr_vec_push(&g->tasks, task);
    return NULL;
}

/* True if the group is in progress and all its tasks have ended: collect will not wait. */
static bool has_ended(mr_downpour_replica *p, mr_downpour_replica_group *g)
{
    mr_lock(&p->mu);
    bool ended = g->under_way && g->left == 0;
    mr_unlock(&p->mu);
    return ended;
}

/* Ends all tasks of the group, waiting for them if necessary, and returns the first error. */
static mr_status *collect_group(mr_downpour_replica *p, mr_downpour_replica_group *g)
{
    mr_status *st = NULL;
    MR_ASSERT(g->under_way);
    for (int i = 0; i < g->tasks.n; i++)
        mr_status_update(&st, mr_ps_end(p->ps, g->tasks.p[i]));
    g->tasks.n = 0;
    g->under_way = false;
    return st;
}

/* ---- actions ---- */

/* Begins to fetch all parameters into `fetched`. */
static mr_status *begin_fetch(mr_downpour_replica *p)
{
    mr_status *st = NULL;
    MR_ASSERT(!p->fetch.under_way);
    p->fetch.under_way = true;
    p->stats.fetches++;
    count_task(p, &p->fetch, 1);
    if (p->vector >= 0)
        st = begin_task(p, &p->fetch, (mr_ps_job){.pull = true, .table = p->vector, .keys = {NULL, 0, (size_t)p->m.keys},
                                                  .out = p->fetched.vector});
    for (int i = 0; i < p->m.parts.n && !st; i++)
        if (p->m.parts.p[i].rows)
            st = begin_task(p, &p->fetch, (mr_ps_job){.pull = true, .table = p->tables[i],
                                                      .keys = {NULL, 0, (size_t)p->m.parts.p[i].dims[0]},
                                                      .out = p->fetched.tables[i]});
    count_task(p, &p->fetch, -1);
    return st;
}

/* Pushes the rows touched since the last push, packed together, and sets their sums to zero. */
static mr_status *push_rows(mr_downpour_replica *p, int part)
{
    const mr_mirror_part *m = &p->m.parts.p[part];
    size_t columns = (size_t)m->columns, n = 0;
    uint8_t *touched = p->touched[part];
    float *sums = p->accrued.tables[part];
    for (int64_t r = 0; r < m->dims[0]; r++)
        n += touched[r];
    uint64_t *keys = mr_try_alloc(n * sizeof *keys);
    float *values = mr_try_alloc(n * columns * sizeof *values); /* at most the size of the table */
    mr_status *st = keys && values ? NULL
                                   : mr_error(MR_RESOURCE_EXHAUSTED, "'%s': out of memory: cannot push %zu rows",
                                              m->name, n);
    for (int64_t r = 0, i = 0; r < m->dims[0] && !st; r++)
        if (touched[r]) {
            keys[i] = (uint64_t)r;
            memcpy(values + (size_t)i++ * columns, sums + r * m->columns, columns * sizeof *values);
            memset(sums + r * m->columns, 0, columns * sizeof *sums);
            touched[r] = 0;
        }
    if (!st && n)
        st = begin_task(p, &p->push, (mr_ps_job){.table = p->tables[part], .keys = {keys, 0, n}, .floats = values});
    mr_free(keys);
    mr_free(values);
    return st;
}

/* Begins to push all sums and the count of steps. The client copies what it pushes, so the sums are
 * cleared at once. */
static mr_status *begin_push(mr_downpour_replica *p, int64_t steps)
{
    mr_status *st = NULL;
    MR_ASSERT(!p->push.under_way && steps >= 0);
    float rise[2];
    p->push.under_way = true;
    p->stats.pushes++;
    count_task(p, &p->push, 1);
    if (p->vector >= 0) {
        st = begin_task(p, &p->push, (mr_ps_job){.table = p->vector, .keys = {NULL, 0, (size_t)p->m.keys},
                                                 .floats = p->accrued.vector});
        memset(p->accrued.vector, 0, (size_t)p->m.n * sizeof(float));
    }
    for (int i = 0; i < p->m.parts.n && !st; i++)
        if (p->m.parts.p[i].rows)
            st = push_rows(p, i);
    mr_downpour_replica_count_steps(p, steps, rise);
    if (!st)
        st = begin_task(p, &p->push, (mr_ps_job){.table = p->job, .keys = {NULL, KEY_STEPS, 2}, .floats = rise});
    count_task(p, &p->push, -1);
    return st;
}

/* Installs what was fetched. With a local rate, the replica's gradients that are not pushed yet stay applied. */
static mr_status *install_fetched(mr_downpour_replica *p)
{
    float by = p->o.local_rate;
    if (by > 0)
        for (int i = 0; i < p->m.parts.n; i++) {
            float *to = mr_mirror_at(&p->m, &p->fetched, i);
            const float *from = mr_mirror_at(&p->m, &p->accrued, i);
            for (int64_t k = 0; k < p->m.parts.p[i].n; k++)
                to[k] -= by * from[k];
        }
    return mr_mirror_install(&p->m, p->s, &p->fetched);
}

/* Carries out one action of the plan. Steps and reads of the job's progress are only noted: they belong to the
 * caller's loop. */
static mr_status *carry_out_action(mr_downpour_replica *p, const mr_downpour_action *a)
{
    switch (a->what) {
    case MR_DOWNPOUR_WATCH: p->watch_due = true; return NULL;
    case MR_DOWNPOUR_FETCH: return begin_fetch(p);
    case MR_DOWNPOUR_INSTALL: return install_fetched(p);
    case MR_DOWNPOUR_STEP: p->step_due = true; return NULL;
    case MR_DOWNPOUR_PUSH: return begin_push(p, a->steps);
    case MR_DOWNPOUR_END: p->ended = true; return NULL;
    }
    return NULL;
}

/* Feeds an event to the plan and carries out its actions. */
static mr_status *step_plan(mr_downpour_replica *p, mr_downpour_event e, int64_t value)
{
    mr_status *st = NULL;
    MR_ASSERT(p->todo.n == 0);
    mr_downpour_step(&p->plan, e, value, mr_now_ns(), &p->todo);
    for (int i = 0; i < p->todo.n && !st; i++)
        st = carry_out_action(p, &p->todo.p[i]);
    p->todo.n = 0;
    return st;
}

/* ---- the loop ---- */

/* Handles the groups that have ended; *moved tells whether there were any. */
static mr_status *handle_ended_groups(mr_downpour_replica *p, bool *moved)
{
    *moved = false;
    if (has_ended(p, &p->push)) {
        *moved = true;
        MR_TRY(collect_group(p, &p->push));
        MR_TRY(step_plan(p, MR_DOWNPOUR_PUSHED, 0));
    }
    if (has_ended(p, &p->fetch)) {
        *moved = true;
        MR_TRY(collect_group(p, &p->fetch));
        MR_TRY(step_plan(p, MR_DOWNPOUR_FETCHED, 0));
    }
    return NULL;
}

/* For loops that wait by polling. */
mr_status *mr_downpour_replica_check(mr_downpour_replica *p)
{
    mr_lock(&p->mu);
    bool cancelled = p->cancelled;
    mr_unlock(&p->mu);
    return cancelled ? mr_error(MR_CANCELLED, "'%s': replica %d was cancelled", p->o.name, p->o.replica) : NULL;
}

/* Reads the job's progress, after a short pause; for replicas that wait for replica 0 to train alone
 * first. */
static mr_status *watch_job(mr_downpour_replica *p)
{
    int64_t steps;
    MR_TRY(mr_downpour_replica_check(p));
    p->watch_due = false;
    mr_sleep_ns(WATCH_MS * 1000000);
    MR_TRY(mr_downpour_replica_read_job(p, &steps));
    return step_plan(p, MR_DOWNPOUR_PROGRESS, steps);
}

/* The condition of wait. */
static bool any_ended_locked(const mr_downpour_replica *p) MR_REQUIRES(p->mu)
{
    return (p->push.under_way && !p->push.left) || (p->fetch.under_way && !p->fetch.left);
}

/* Waits before the first parameters have arrived are not counted: they belong to the start. */
static void count_wait(mr_downpour_replica *p, int64_t begin_ns)
{
    double waited = (double)(mr_now_ns() - begin_ns) * 1e-9;
    if (!p->plan.ready)
        return;
    p->stats.waited_s += waited;
    p->stats.longest_wait_s = MR_MAX(p->stats.longest_wait_s, waited);
}

/* Waits for the end of a group. The deadline is checked last: if both happened during a sleep, the
 * group counts. */
static mr_status *wait_for_group(mr_downpour_replica *p, int64_t deadline_ns)
{
    mr_status *st = NULL;
    int64_t begin = mr_now_ns();
    bool in_time = true;
    mr_long_wait long_wait;
    mr_long_wait_begin(&long_wait, begin);
    mr_lock(&p->mu);
    while (!any_ended_locked(p) && !p->cancelled && in_time)
        in_time = mr_long_wait_cond(&long_wait, &p->changed, &p->mu, deadline_ns,
                                    "the parameter servers of '%s': they have not %s", p->o.name,
                                    p->push.left ? "acknowledged a push" : "answered a fetch");
    if (p->cancelled)
        st = mr_error(MR_CANCELLED, "'%s': replica %d was cancelled while it waited for the parameter servers", p->o.name,
                      p->o.replica);
    else if (!any_ended_locked(p))
        st = mr_error(MR_DEADLINE_EXCEEDED, "'%s': replica %d has waited %lld ms for the parameter servers, which have not %s",
                      p->o.name, p->o.replica, (long long)p->o.deadline_ms,
                      p->push.left ? "acknowledged its push" : "answered its fetch");
    mr_unlock(&p->mu);
    count_wait(p, begin);
    return st;
}

/* Works until a step is due or, with finish, everything has ended. The deadline is extended whenever
 * something moves. */
static mr_status *run_loop(mr_downpour_replica *p, bool finish)
{
    int64_t deadline = mr_now_ns() + p->o.deadline_ms * 1000000;
    double seconds;
    mr_long_wait warm_up;
    mr_long_wait_begin(&warm_up, mr_now_ns());
    for (;;) {
        bool moved;
        MR_TRY(handle_ended_groups(p, &moved));
        if (finish ? p->ended : p->step_due)
            return NULL;
        /* Before its turn a replica only polls the job's progress; that has no deadline. */
        if (p->watch_due) {
            MR_TRY(watch_job(p));
            if (p->watch_due && mr_long_wait_due(&warm_up, mr_now_ns(), &seconds))
                mr_info("Still waiting for replica 0 of '%s': it has made %lld of the %lld steps that it makes alone "
                        "(%.0f s)",
                        p->o.name, (long long)p->plan.progress, (long long)p->plan.o.warm_steps, seconds);
            deadline = mr_now_ns() + p->o.deadline_ms * 1000000;
        } else if (moved) {
            deadline = mr_now_ns() + p->o.deadline_ms * 1000000;
        } else {
            MR_TRY(wait_for_group(p, deadline));
        }
    }
}

/* Keeps an error of the servers: gradients may be lost, so training must be started again. */
static mr_status *keep_failure(mr_downpour_replica *p, mr_status *st)
{
    if (st && !p->failed)
        p->failed = mr_status_copy(st);
    return st;
}

/* Waits for everything in progress and ignores its errors. */
static void drain_tasks(mr_downpour_replica *p)
{
    if (p->fetch.under_way)
        mr_status_free(collect_group(p, &p->fetch));
    if (p->push.under_way)
        mr_status_free(collect_group(p, &p->push));
}

typedef struct listener { /* cancels a wait; the entry is first, because wait_cancelled casts back */
    mr_cancel_entry entry;
    mr_downpour_replica *replica;
} listener;

/* Wakes a wait. Only the thread of the present call clears the flag. */
static void set_cancelled(mr_downpour_replica *p, bool cancelled)
{
    mr_lock(&p->mu);
    p->cancelled = cancelled;
    mr_cond_signal(&p->changed);
    mr_unlock(&p->mu);
}

static void wait_cancelled(mr_cancel_entry *e) { set_cancelled(((listener *)e)->replica, true); }

/* Runs fn, a call other than a step, which p->under may cancel. */
static mr_status *run_cancellable(mr_downpour_replica *p, mr_status *(*fn)(mr_downpour_replica *p))
{
    listener l = {.entry.fn = wait_cancelled, .replica = p};
    mr_cancel *under = p->under;
    if (under && !mr_cancel_register(under, &l.entry))
        return mr_error(MR_CANCELLED, "'%s': replica %d was cancelled", p->o.name, p->o.replica);
    mr_status *st = fn(p);
    if (under && !mr_cancel_unregister(under, &l.entry))
        set_cancelled(p, false);
    return st;
}

void mr_downpour_replica_under(mr_downpour_replica *p, mr_cancel *cancel) { p->under = cancel; }

/* Drops gradients that were not pushed: after an error it is not known which of them the servers have. */
static void forget_accrued(mr_downpour_replica *p)
{
    memset(p->accrued.vector, 0, (size_t)p->m.n * sizeof(float));
    for (int i = 0; i < p->m.parts.n; i++)
        if (p->m.parts.p[i].rows) {
            memset(p->accrued.tables[i], 0, (size_t)p->m.parts.p[i].n * sizeof(float));
            memset(p->touched[i], 0, (size_t)p->m.parts.p[i].dims[0]);
        }
}

/* Makes the tables, waits for initial values, and fetches the first parameters. */
static mr_status *start_training(mr_downpour_replica *p)
{
    MR_TRY(mr_downpour_replica_make_tables(p));
    MR_TRY(mr_downpour_replica_see_values(p));
    mr_downpour_init(&p->plan, &(mr_downpour_rules){p->o.n_fetch, p->o.n_push, p->o.most_behind, p->o.replica, p->o.warm_steps,
                                                    p->o.patience_ms * 1000000});
    p->step_due = p->watch_due = p->ended = false;
    p->last_step_ns = 0;
    MR_TRY(step_plan(p, MR_DOWNPOUR_BEGIN, 0));
    MR_TRY(step_plan(p, MR_DOWNPOUR_WANT, 0));
    return run_loop(p, false);
}

/* After an error nothing is in progress, and the session is forgotten: tables may be unknown, so
 * fetching is not possible either. */
mr_status *mr_downpour_replica_start(mr_downpour_replica *p, mr_session *s, mr_ps *ps)
{
    if (p->started)
        return mr_error(MR_FAILED_PRECONDITION, "'%s': replica %d is training already", p->o.name, p->o.replica);
    mr_status_free(p->failed);
    p->failed = NULL;
    p->s = s;
    p->ps = ps;
    p->counted = 0;
    forget_accrued(p);
    mr_status *st = run_cancellable(p, start_training);
    p->started = !st;
    if (st) {
        drain_tasks(p);
        p->s = NULL;
    }
    return st;
}

/* The longest time from the end of one step to the end of the next. */
static void time_step(mr_downpour_replica *p)
{
    int64_t now = mr_now_ns();
    if (p->last_step_ns)
        p->stats.longest_step_s = MR_MAX(p->stats.longest_step_s, (double)(now - p->last_step_ns) * 1e-9);
    p->last_step_ns = now;
}

/* A failed replica reports the error that ended training. */
static mr_status *check_running(const mr_downpour_replica *p)
{
    if (p->failed)
        return mr_status_copy(p->failed);
    if (!p->started)
        return mr_error(MR_FAILED_PRECONDITION, "'%s': replica %d has not been started", p->o.name, p->o.replica);
    return NULL;
}

/* Waits until a step is due. A cancelled wait does no harm: the next call continues it. */
static mr_status *await_turn(mr_downpour_replica *p, mr_cancel *cancel)
{
    listener l = {.entry.fn = wait_cancelled, .replica = p};
    if (p->step_due)
        return keep_failure(p, run_loop(p, false));
    if (cancel && !mr_cancel_register(cancel, &l.entry))
        return mr_error(MR_CANCELLED, "'%s': replica %d was cancelled", p->o.name, p->o.replica);
    mr_status *st = step_plan(p, MR_DOWNPOUR_WANT, 0);
    if (!st)
        st = run_loop(p, false);
    bool cancelled = cancel && !mr_cancel_unregister(cancel, &l.entry);
    if (cancelled)
        set_cancelled(p, false);
    return cancelled && mr_status_code(st) == MR_CANCELLED ? st : keep_failure(p, st);
}

/* One step: waits for its turn, runs, adds the gradients to the sums. If the run fails, the plan takes
 * the step back. */
mr_status *mr_downpour_replica_train(mr_downpour_replica *p, const mr_run_args *client, mr_cancel *cancel)
{
    MR_TRY(check_running(p));
    int64_t begin = mr_now_ns();
    MR_TRY(await_turn(p, cancel));
    p->step_due = false;
    mr_status *st = mr_mirror_run(&p->m, p->s, client, cancel, p->gradients, NULL);
    if (!st) {
        st = mr_mirror_add(&p->m, p->gradients, 1, &p->accrued, p->touched);
        mr_mirror_drop(&p->m, p->gradients);
    }
    if (st) {
        mr_status_update(&st, keep_failure(p, step_plan(p, MR_DOWNPOUR_UNDONE, 0)));
        return st;
    }
    /* The first step counts from the call, later ones from the end of the step before. */
    p->stats.steps++;
    if (!p->last_step_ns)
        p->last_step_ns = begin;
    time_step(p);
    bool moved;
    st = step_plan(p, MR_DOWNPOUR_STEPPED, 0);
    if (!st)
        st = handle_ended_groups(p, &moved);
    return keep_failure(p, st);
}

static mr_status *pump_out(mr_downpour_replica *p) { return run_loop(p, true); }

/* Takes back a step that is due, pushes the rest, and waits for everything in progress. */
mr_status *mr_downpour_replica_finish(mr_downpour_replica *p)
{
    if (!p->started)
        return p->failed ? mr_status_copy(p->failed) : NULL;
    p->started = false;
    mr_status *st = p->failed ? mr_status_copy(p->failed) : NULL;
    if (!st && p->step_due)
        st = step_plan(p, MR_DOWNPOUR_UNDONE, 0);
    if (!st)
        st = step_plan(p, MR_DOWNPOUR_FINISH, 0);
    if (!st)
        st = run_cancellable(p, pump_out);
    drain_tasks(p);
    return st;
}

/* A fetch outside the plan. The plan may be fetching into `fetched` too, so that fetch ends first. */
static mr_status *fetch_values(mr_downpour_replica *p)
{
    bool moved;
    while (p->fetch.under_way) {
        MR_TRY(keep_failure(p, handle_ended_groups(p, &moved)));
        if (moved)
            continue;
        mr_status *st = wait_for_group(p, mr_now_ns() + p->o.deadline_ms * 1000000);
        if (st)
            return mr_status_code(st) == MR_CANCELLED ? st : keep_failure(p, st);
    }
    mr_status *st = begin_fetch(p);
    mr_status_update(&st, collect_group(p, &p->fetch));
    return st ? st : mr_mirror_install(&p->m, p->s, &p->fetched);
}

/* May be called during training and after it, as long as the session of the last start exists. */
mr_status *mr_downpour_replica_fetch(mr_downpour_replica *p)
{
    if (!p->s)
        return mr_error(MR_FAILED_PRECONDITION, "'%s': replica %d has not been started", p->o.name, p->o.replica);
    return run_cancellable(p, fetch_values);
}

/* Between two calls of the replica: nothing changes the counts then. */
void mr_downpour_replica_count(const mr_downpour_replica *p, mr_downpour_stats *out)
{
    *out = p->stats;
    out->struct_size = sizeof *out;
}

/* ---- creating and freeing ---- */

/* Small enough that sums and products of steps do not overflow. */
static const int64_t most_steps = INT64_C(1) << 40;

/* Fills in defaults, then checks. */
static mr_status *check_options(mr_downpour_options *o)
{
    o->n_fetch = o->n_fetch ? o->n_fetch : 1;
    o->n_push = o->n_push ? o->n_push : 1;
    if (o->n_fetch > most_steps || o->n_push > most_steps || o->most_behind > most_steps)
        return mr_invalid("Downpour: n_fetch %lld, n_push %lld and most_behind %lld must be at most %lld",
                          (long long)o->n_fetch, (long long)o->n_push, (long long)o->most_behind,
                          (long long)most_steps);
    /* The default depends on the two numbers above, which were limited first so that it cannot overflow. */
    o->most_behind = o->most_behind ? o->most_behind : 4 * MR_MAX(o->n_fetch, o->n_push);
    o->patience_ms = o->patience_ms ? o->patience_ms : 1000;
    o->deadline_ms = o->deadline_ms ? o->deadline_ms : 60000;
    o->update = o->update ? o->update : MR_PS_ADAGRAD;
    o->rate = o->rate != 0 ? o->rate : 0.05f;
    if (o->update == MR_PS_ADAGRAD && o->a == 0)
        o->a = 0.1f;
    if (o->n_fetch < 1 || o->n_push < 1 || o->most_behind < 0 || o->warm_steps < 0 || o->replica < 0)
        return mr_invalid("Downpour: n_fetch %lld, n_push %lld, most_behind %lld, warm_steps %lld, replica %d: "
                          "none may be negative",
                          (long long)o->n_fetch, (long long)o->n_push, (long long)o->most_behind,
                          (long long)o->warm_steps, o->replica);
    if (o->patience_ms < 0 || o->deadline_ms < 0 || o->patience_ms > INT32_MAX || o->deadline_ms > INT32_MAX)
        return mr_invalid("Downpour: patience_ms and deadline_ms must not be negative or more than 24 days");
    if (o->update == MR_PS_PROXIMAL || (int)o->update < 0 || o->update > MR_PS_FTRL)
        return mr_invalid("Downpour: update %d does not accept gradients", (int)o->update);
    if (!(o->local_rate >= 0))
        return mr_invalid("Downpour: local_rate must not be negative, but it is %g", (double)o->local_rate);
    return NULL;
}

/* Allocates all buffers once: a step allocates nothing of the size of the model. */
static mr_status *make_room(mr_downpour_replica *p)
{
    int n = p->m.parts.n;
    p->tables = mr_new_array(int, n + 1);
    p->touched = mr_new_array(uint8_t *, n + 1);
    p->gradients = mr_new_array(mr_tensor *, 2 * n + 1);
    MR_TRY(mr_mirror_values_init(&p->m, &p->fetched));
    MR_TRY(mr_mirror_values_init(&p->m, &p->accrued));
    for (int i = 0; i < n; i++)
        if (p->m.parts.p[i].rows && !(p->touched[i] = mr_try_calloc((size_t)p->m.parts.p[i].dims[0], 1)))
            return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot mark the rows of '%s'", p->m.parts.p[i].name);
    return NULL;
}

/* Errors are kept in the network's scope; a replica is returned only if the scope has none. */
mr_downpour_replica *mr_downpour_replica_new(mr_nn *n, mr_out loss, const mr_downpour_options *o)
{
    mr_downpour_replica *p = mr_new(mr_downpour_replica);
    p->o = *o;
    p->o.name = mr_strdup(o->name && o->name[0] ? o->name : "downpour");
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->changed);
    mr_scope_fail(&n->s, check_options(&p->o));
    if (mr_scope_ok(&n->s))
        mr_mirror_build(n, loss, true, p->o.local_rate, &p->m);
    if (mr_scope_ok(&n->s))
        mr_scope_fail(&n->s, make_room(p));
    if (mr_scope_ok(&n->s))
        return p;
    mr_downpour_replica_free(p);
    return NULL;
}

/* Waits for the tasks in progress first, because they write to the buffers. Also frees a replica that was made in
 * part. */
void mr_downpour_replica_free(mr_downpour_replica *p)
{
    if (!p)
        return;
    drain_tasks(p);
    mr_mirror_values_deinit(&p->m, &p->fetched);
    mr_mirror_values_deinit(&p->m, &p->accrued);
    for (int i = 0; p->touched && i < p->m.parts.n; i++)
        mr_free(p->touched[i]);
    mr_free(p->touched);
    mr_free(p->tables);
    mr_free(p->gradients);
    mr_mirror_deinit(&p->m);
    mr_vec_deinit(&p->todo);
    mr_vec_deinit(&p->fetch.tasks);
    mr_vec_deinit(&p->push.tasks);
    mr_status_free(p->failed);
    mr_cond_deinit(&p->changed);
    mr_mutex_deinit(&p->mu);
    mr_free((char *)(uintptr_t)p->o.name);
    mr_free(p);
}
