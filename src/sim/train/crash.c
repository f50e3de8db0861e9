/* sim/train/crash.c -- crashes of tasks, their detection, recovery, and checkpoints.
 *
 * A worker that dies loses only its current step. A parameter server that dies loses its variables: every session that
 * uses it ends, and when the server is back, the chief restores all variables from the newest complete checkpoint. The
 * decisions are made by dist/: membership decides when a silent task is lost, recovery what a worker does next,
 * election who is the chief. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/engine.h"

enum { LOOKS = 4, TRIES = 4 }; /* reads of the chief's record: during each chief_s, and in a row */

static const mr_membership_times heartbeats = {INT64_C(700000000), INT64_C(3000000000), INT64_C(7000000000)}; /* as server/watch.c */

static int64_t now_ns(const mr_jobsim *s) { return mr_jobsim_ns(s->now_s); }

static bool all_up(const mr_jobsim *s)
{
    for (int i = 0; i < s->n_ps; i++)
        if (!s->ps[i].up)
            return false;
    return true;
}

static bool all_ready(const mr_jobsim *s)
{
    for (int i = 0; i < s->n_ps; i++)
        if (!s->ps[i].up || !s->ps[i].ready)
            return false;
    return true;
}

/* Whether a session of the worker works: all parameter servers are up, and it is not cut off from those it needs. */
static bool can_reach_all(const mr_jobsim *s, int worker)
{
    return all_up(s) && !mr_jobsim_is_cut(s, worker, MR_JOBSIM_ALL_PS);
}

static void spoil_save(mr_jobsim *s)
{
    s->save_epoch++;
    s->is_saving = false;
}

/* ---- the chief ---- */

/* What the former chief was saving is lost. */
void mr_jobsim_set_chief(mr_jobsim *s, int worker)
{
    if (s->chief != worker)
        spoil_save(s);
    s->chief = worker;
}

/* The chief's record is stored at parameter server 0. */
static void look_at_record(mr_jobsim *s, int worker)
{
    mr_election *e = &s->workers[worker].election;
    bool again = true;
    for (int i = 0; i < TRIES && again; i++) {
        mr_chief_record expect, want;
        if (mr_election_next(e, &expect, &want) && expect.worker == s->record.worker && expect.count == s->record.count)
            s->record = want;
        again = mr_election_saw(e, s->record, now_ns(s));
    }
    if (!e->chief || s->chief == worker)
        return;
    mr_jobsim_set_chief(s, worker);
    if (s->job->mode == MR_SIMTRAIN_SYNC && s->workers[worker].phase != MR_JOBSIM_AWAY)
        mr_jobsim_lead(s);
}

static void look_again(mr_jobsim *s, int none, int worker)
{
    (void)none;
    if (s->workers[worker].phase != MR_JOBSIM_AWAY && s->ps[0].up && !mr_jobsim_is_cut(s, worker, 0))
        look_at_record(s, worker);
    mr_jobsim_after(s, -1, s->job->chief_s / LOOKS, look_again, worker);
}

/* ---- recovery ---- */

static void drive_recovery(mr_jobsim *s, int worker, mr_recovery_do what);

static mr_status *unavailable_error(void) { return mr_error(MR_UNAVAILABLE, "A parameter server is unavailable"); }

static void session_opened(mr_jobsim *s, int worker, int arg)
{
    (void)arg;
    drive_recovery(s, worker,
                   mr_recovery_opened(&s->workers[worker].recovery, can_reach_all(s, worker) ? NULL : unavailable_error(), now_ns(s)));
}

static void state_checked(mr_jobsim *s, int worker, int arg)
{
    (void)arg;
    mr_recovery *r = &s->workers[worker].recovery;
    if (s->n_ps > 0 && s->ps[0].up && !mr_jobsim_is_cut(s, worker, 0))
        look_at_record(s, worker);
    r->chief = s->chief == worker;
    drive_recovery(s, worker, mr_recovery_checked(r, can_reach_all(s, worker) ? NULL : unavailable_error(), all_ready(s), now_ns(s)));
}

double mr_jobsim_steps(const mr_jobsim *s, int64_t done)
{
    return mr_jobsim_is_sync(s->job) ? (double)done : (double)done / s->job->n_workers;
}

/* Goes back to the newest checkpoint, or to the start, and accounts for the steps that this loses. */
static void go_back(mr_jobsim *s, mr_simtrain_loss *l)
{
    l->lost_steps = mr_jobsim_steps(s, s->done - s->checkpoint.done);
    l->lost_s = l->lost_steps > 0 ? l->at_s - s->checkpoint.taken_s : 0;
    l->checkpoint_at_s = s->checkpoint.at_s;
    l->checkpoint_taken_s = isnan(s->checkpoint.at_s) ? NAN : s->checkpoint.taken_s;
    l->saved_steps = mr_jobsim_steps(s, s->checkpoint.done);
    s->examples -= l->lost_steps * s->job->n_workers * s->job->batch; /* they count when they are repeated */
    mr_jobsim_progress(s);
    s->done = s->checkpoint.done; /* if two servers are lost together, the second one loses no more steps */
    mr_jobsim_progress(s);
}

void mr_jobsim_restored_ring(mr_jobsim *s, int loss)
{
    if (!isnan(s->checkpoint.at_s))
        mr_jobsim_span(s, MR_SIMTRAIN_CHIEF, s->chief, MR_SIMTRAIN_RESTORE, -1, 0, s->now_s - s->job->restore_s, s->now_s);
    if (loss >= 0)
        go_back(s, &s->result->losses.p[loss]);
}

static void ps_restored(mr_jobsim *s, int ps)
{
    mr_simtrain_loss *l = s->ps_loss[ps] >= 0 ? &s->result->losses.p[s->ps_loss[ps]] : NULL;
    s->ps[ps].ready = true;
    if (!l)
        return;
    s->ps_loss[ps] = -1;
    l->back_s = s->now_s;
    mr_jobsim_span(s, MR_SIMTRAIN_PS, ps, MR_SIMTRAIN_DOWN, -1, 0, l->at_s, s->now_s);
    go_back(s, l);
}

static void state_prepared(mr_jobsim *s, int worker, int arg)
{
    (void)arg;
    bool up = can_reach_all(s, worker);
    if (!isnan(s->checkpoint.at_s))
        mr_jobsim_span(s, MR_SIMTRAIN_CHIEF, worker, MR_SIMTRAIN_RESTORE, -1, 0, s->now_s - s->job->restore_s, s->now_s);
    for (int i = 0; i < s->n_ps && up; i++)
        if (!s->ps[i].ready)
            ps_restored(s, i);
    drive_recovery(s, worker,
                   mr_recovery_prepared(&s->workers[worker].recovery, up ? NULL : unavailable_error(), now_ns(s)));
}

static void pause_over(mr_jobsim *s, int worker, int arg)
{
    (void)arg;
    drive_recovery(s, worker, mr_recovery_paused(&s->workers[worker].recovery));
}

static void work_again(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    mr_jobsim_count_idle(s, worker);
    if (w->loss >= 0) {
        mr_simtrain_loss *l = &s->result->losses.p[w->loss];
        l->back_s = s->now_s;
        w->loss = -1;
        mr_jobsim_span(s, MR_SIMTRAIN_WORKER, worker, MR_SIMTRAIN_DOWN, -1, 0, l->at_s, s->now_s);
    }
    s->noticed[worker] = false;
    mr_jobsim_go(s, worker);
}

/* The chief has found all parameter servers up and begins to restore those that lack their variables. */
static void note_reached(mr_jobsim *s)
{
    for (int i = 0; i < s->n_ps; i++)
        if (s->ps_loss[i] >= 0 && s->ps[i].up)
            s->result->losses.p[s->ps_loss[i]].reached_s = s->now_s;
}

static void drive_recovery(mr_jobsim *s, int worker, mr_recovery_do what)
{
    mr_recovery *r = &s->workers[worker].recovery;
    switch (what) {
    case MR_RECOVER_OPEN: mr_jobsim_after(s, worker, s->job->open_s, session_opened, 0); break;
    case MR_RECOVER_CHECK: mr_jobsim_after(s, worker, s->job->rpc_s, state_checked, 0); break;
    case MR_RECOVER_PREPARE:
        note_reached(s);
        mr_jobsim_after(s, worker, isnan(s->checkpoint.at_s) ? 0 : s->job->restore_s, state_prepared, 0);
        break;
    case MR_RECOVER_PAUSE: mr_jobsim_after(s, worker, (double)r->pause_ns / 1e9, pause_over, 0); break;
    case MR_RECOVER_WORK: work_again(s, worker); break;
    case MR_RECOVER_FAIL: mr_jobsim_fail(s, mr_status_copy(r->why)); break;
    }
}

/* ---- detection ---- */

static void lose_session(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    mr_jobsim_stop(s, worker);
    if (worker == s->chief) {
        s->leads = false;
        spoil_save(s);
    }
    drive_recovery(s, worker, mr_recovery_lost(&w->recovery, unavailable_error(), now_ns(s)));
}

/* A lost worker only leaves the barrier; a lost parameter server ends the session of every worker. */
static void notice_loss(mr_jobsim *s, int task)
{
    int loss = task < s->n_workers ? s->workers[task].loss : s->ps_loss[task - s->n_workers];
    if (s->noticed[task])
        return;
    s->noticed[task] = true;
    if (loss >= 0)
        s->result->losses.p[loss].noticed_s = s->now_s;
    if (task < s->n_workers) {
        mr_jobsim_given_up(s, task);
        return;
    }
    for (int i = 0; i < s->n_workers; i++)
        if (s->workers[i].phase != MR_JOBSIM_AWAY)
            lose_session(s, i);
}

static void handle_member_events(mr_jobsim *s, const mr_member_events *events)
{
    for (int i = 0; i < events->n; i++)
        if (events->p[i].what == MR_MEMBER_LEFT || events->p[i].what == MR_MEMBER_RESTARTED)
            notice_loss(s, events->p[i].task);
}

static bool is_up(const mr_jobsim *s, int task)
{
    return task < s->n_workers ? s->workers[task].up : s->ps[task - s->n_workers].up;
}

static void hear_asked(mr_jobsim *s, const mr_member_tasks *asked, mr_member_events *events)
{
    for (int i = 0; i < asked->n; i++)
        if (is_up(s, asked->p[i]))
            mr_membership_heard(&s->members, asked->p[i], s->incarnations[asked->p[i]], now_ns(s), now_ns(s), events);
}

static void tick_membership(mr_jobsim *s, int none, int arg)
{
    (void)none;
    mr_member_events events = {0};
    mr_member_tasks asked = {0};
    mr_membership_tick(&s->members, now_ns(s), &events, &asked);
    hear_asked(s, &asked, &events);
    handle_member_events(s, &events);
    mr_vec_deinit(&events);
    mr_vec_deinit(&asked);
    mr_jobsim_after(s, -1, (double)heartbeats.ask_ns / 1e9, tick_membership, arg);
}

/* Connections to a crashed process are refused. */
static void connection_refused(mr_jobsim *s, int none, int task)
{
    (void)none;
    mr_member_events events = {0};
    if (!is_up(s, task))
        mr_membership_gone(&s->members, task, s->incarnations[task], now_ns(s), &events);
    handle_member_events(s, &events);
    mr_vec_deinit(&events);
}

/* ---- crashes ---- */

static void plan_next(mr_jobsim *s, int task);

static void note_restart(mr_jobsim *s, int task)
{
    bool is_ps = task >= s->n_workers;
    int loss = is_ps ? s->ps_loss[task - s->n_workers] : s->workers[task].loss;
    if (loss < 0)
        return;
    mr_simtrain_loss *l = &s->result->losses.p[loss];
    l->restarted_s = s->now_s;
    if (!is_ps)
        l->reached_s = s->now_s;
}

/* A parameter server comes back without its variables; a worker opens a session and recovers. */
static void restart_task(mr_jobsim *s, int none, int task)
{
    (void)none;
    s->incarnations[task]++;
    note_restart(s, task);
    if (task >= s->n_workers) {
        s->ps[task - s->n_workers].up = true;
    } else {
        mr_jobsim_worker *w = &s->workers[task];
        w->up = true;
        mr_recovery_deinit(&w->recovery);
        mr_recovery_init(&w->recovery, false, 0);
        mr_election_init(&w->election, task, mr_jobsim_ns(s->job->chief_s), now_ns(s));
        drive_recovery(s, task, mr_recovery_begin(&w->recovery, now_ns(s)));
    }
    plan_next(s, task);
}

static void take_ps_down(mr_jobsim *s, int ps, int loss)
{
    s->ps[ps].up = s->ps[ps].ready = false;
    if (s->ps_loss[ps] < 0)
        s->n_open++, s->n_unsettled++;
    s->ps_loss[ps] = loss;
    mr_jobsim_ps_forget(s, ps);
    spoil_save(s);
    if (ps == 0)
        s->record = (mr_chief_record){-1, 0};
}

static void take_worker_down(mr_jobsim *s, int worker, int loss)
{
    mr_jobsim_worker *w = &s->workers[worker];
    if (w->phase == MR_JOBSIM_AWAY) /* killed during its recovery */
        mr_jobsim_count_idle(s, worker);
    w->up = false;
    w->loss = loss;
    s->n_open++;
    s->n_unsettled++;
    mr_jobsim_stop(s, worker);
    if (worker == s->chief) {
        s->leads = false;
        spoil_save(s);
    }
    if (s->job->mode == MR_SIMTRAIN_ALLREDUCE)
        mr_jobsim_ring_crashed(s, worker, loss);
}

/* A member of a ring is missed when its connections are refused, or after the lease. */
static void miss_member(mr_jobsim *s, int none, int worker)
{
    (void)none;
    if (!s->workers[worker].up)
        notice_loss(s, worker);
}

/* Takes a task down and plans its restart. silent: only membership notices it; otherwise connections are refused at
 * once. */
static void crash_task(mr_jobsim *s, int task, bool silent)
{
    mr_simtrain_result *r = s->result;
    bool is_ps = task >= s->n_workers;
    bool given_up = !is_ps && s->workers[task].phase == MR_JOBSIM_AWAY && s->noticed[task]; /* during its recovery */
    if (!is_up(s, task))
        return;
    if (r->losses.n == MR_SIMTRAIN_MAX_CRASHES) {
        mr_jobsim_fail(
            s, mr_error(MR_FAILED_PRECONDITION, "More than %d crashes: the job makes no progress", r->losses.n));
        return;
    }
    mr_simtrain_loss l = {is_ps ? MR_SIMTRAIN_PS : task == s->chief ? MR_SIMTRAIN_CHIEF : MR_SIMTRAIN_WORKER,
                          is_ps ? task - s->n_workers : task, silent, .at_s = s->now_s, .noticed_s = NAN, .back_s = NAN,
                          .restarted_s = NAN, .reached_s = NAN, .stopped_s = NAN, .checkpoint_at_s = NAN,
                          .checkpoint_taken_s = NAN};
    mr_vec_push(&r->losses, l);
    mr_jobsim_progress(s);
    if (is_ps)
        take_ps_down(s, task - s->n_workers, r->losses.n - 1);
    else
        take_worker_down(s, task, r->losses.n - 1);
    s->noticed[task] = given_up;
    if (s->job->mode == MR_SIMTRAIN_ALLREDUCE)
        mr_jobsim_after(s, -1, silent ? s->job->lease_s : s->job->rpc_s, miss_member, task);
    else if (!silent)
        mr_jobsim_after(s, -1, s->job->rpc_s, connection_refused, task);
    mr_jobsim_after(s, -1, s->job->restart_s, restart_task, task);
}

static void crash_given(mr_jobsim *s, int none, int index)
{
    (void)none;
    const mr_simtrain_crash *c = &s->job->crashes[index];
    int task = c->kind == MR_SIMTRAIN_PS ? s->n_workers + c->index : c->kind == MR_SIMTRAIN_CHIEF ? s->chief : c->index;
    crash_task(s, task, c->silent);
}

static void crash_by_chance(mr_jobsim *s, int none, int task)
{
    (void)none;
    crash_task(s, task, mr_jobsim_uniform(&s->random) <= s->job->mtbf_silent);
}

static void plan_next(mr_jobsim *s, int task)
{
    double mtbf_s = task < s->n_workers ? s->job->worker_mtbf_s : s->job->ps_mtbf_s;
    if (mtbf_s > 0)
        mr_jobsim_after(s, -1, mr_jobsim_exponential(&s->random, mtbf_s), crash_by_chance, task);
}

/* ---- checkpoints ---- */

static void end_save(mr_jobsim *s, int none, int epoch)
{
    (void)none;
    if (epoch != s->save_epoch || !s->is_saving)
        return;
    s->checkpoint = s->saving;
    s->is_saving = false;
    s->result->n_checkpoints++;
}

/* A checkpoint is left out if there is no chief, a server is down or cut off, or one is being written already. */
static void begin_save(mr_jobsim *s, int none, int arg)
{
    (void)none;
    (void)arg;
    bool can = s->chief >= 0 && s->workers[s->chief].phase != MR_JOBSIM_AWAY && all_ready(s) && !s->is_saving &&
               s->workers[s->chief].held >= 0 && !mr_jobsim_is_cut(s, s->chief, MR_JOBSIM_ALL_PS);
    if (can) {
        double end_s = mr_jobsim_pass(s, s->chief, MR_JOBSIM_ALL_PS, s->now_s, s->job->save_s);
        s->saving = (mr_jobsim_checkpoint){end_s, s->done, s->now_s};
        s->is_saving = true;
        mr_jobsim_span(s, MR_SIMTRAIN_CHIEF, s->chief, MR_SIMTRAIN_SAVE, -1, 0, s->now_s, s->saving.at_s);
        double takes_s = s->workers[s->chief].is_split ? end_s - s->now_s : s->job->save_s; /* without a rounding error */
        mr_jobsim_after(s, -1, takes_s, end_save, ++s->save_epoch);
    }
}

static void save_regularly(mr_jobsim *s, int none, int arg)
{
    begin_save(s, none, arg);
    mr_jobsim_after(s, -1, s->job->checkpoint_s, save_regularly, arg);
}

/* ---- the start, and every update ---- */

/* Without any failure in the job, heartbeats, elections and recoveries are not simulated at all. */
void mr_jobsim_start_failures(mr_jobsim *s)
{
    const mr_simtrain_job *j = s->job;
    int n = s->n_workers + s->n_ps;
    if (j->checkpoint_s > 0)
        mr_jobsim_after(s, -1, j->checkpoint_s, save_regularly, 0);
    for (int i = 0; i < j->n_checkpoints; i++)
        mr_jobsim_after(s, -1, j->checkpoints[i], begin_save, 0);
    if (!s->may_fail)
        return;
    if (j->mode != MR_SIMTRAIN_ALLREDUCE) { /* a ring has no parameter server whose loss is to be noticed */
        mr_membership_init(&s->members, n, -1, &heartbeats, 0);
        tick_membership(s, -1, 0);
    }
    mr_jobsim_start_alive(s);
    for (int i = 0; i < s->n_workers && j->mode != MR_SIMTRAIN_ALLREDUCE; i++) {
        mr_election_init(&s->workers[i].election, i, mr_jobsim_ns(j->chief_s), 0);
        mr_recovery_init(&s->workers[i].recovery, i == 0, 0);
        look_again(s, -1, i);
    }
    for (int i = 0; i < n; i++)
        plan_next(s, i);
    for (int i = 0; i < j->n_crashes; i++)
        mr_jobsim_after(s, -1, j->crashes[i].at_s, crash_given, i);
}

/* Measures how long there was no progress before this update, for every loss that is not settled.
 *
 * Variables of a lost parameter server get no updates; updates that were in flight do not count. The first update after
 * the loss of a worker may be a step for which it had already sent its gradient, so later pauses count too, until the
 * worker is back or has crashed again. Pauses as long as those without a failure are not its effect. */
void mr_jobsim_updated(mr_jobsim *s)
{
    double pause_s = s->now_s - s->update_s;
    if (s->n_unsettled == 0)
        s->usual_pause_s = MR_MAX(s->usual_pause_s, pause_s);
    for (int i = s->result->losses.n - 1, left = s->n_unsettled; i >= 0 && left > 0; i--) {
        mr_simtrain_loss *l = &s->result->losses.p[i];
        bool is_ps = l->kind == MR_SIMTRAIN_PS;
        if (l->settled || (is_ps && isnan(l->back_s)))
            continue;
        left--;
        if (isnan(l->stopped_s)) {
            l->stopped_s = s->now_s - l->at_s;
            s->n_open--;
        } else if (pause_s > 1.01 * s->usual_pause_s) {
            l->stopped_s = MR_MAX(l->stopped_s, pause_s);
        }
        l->settled = is_ps || s->workers[l->index].loss != i;
        s->n_unsettled -= l->settled;
    }
    MR_ASSERT(s->n_open >= 0 && s->n_unsettled >= s->n_open);
}
