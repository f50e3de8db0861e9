/* sim/train/modes.c -- decides when a worker may begin its next step.
 *
 * Asynchronous workers begin at once; with a bound on the delay, when dist/delay.c lets them; synchronous ones when the
 * chief's barrier (dist/sync.c) gives them a token; workers in a ring when all have reduced (ring.c). Messages to the chief and tokens from it take time; the chief gives
 * out all tokens of an update in one run, whose time grows with their number. */
#include "base/memory.h"
#include "sim/train/engine.h"

enum { MESSAGES_A_LEASE = 4 };

/* ---- updates ---- */

void mr_jobsim_count_updates(mr_jobsim *s, int n_gradients, int64_t n_done)
{
    s->version++;
    if (s->n_open > 0 || s->is_level) /* nothing was applied since the crash or cut, so the line is level until now */
        mr_jobsim_progress(s);
    s->is_level = false;
    s->done += n_done;
    s->result->applied += n_gradients;
    s->examples += n_gradients * s->job->batch;
    mr_jobsim_updated(s);
    int64_t warm = mr_jobsim_is_sync(s->job) ? s->job->warmup : (int64_t)s->job->warmup * s->job->n_workers;
    if (!s->warm && s->done >= warm)
        mr_jobsim_warm(s);
    s->ended |= s->done >= s->want;
    if ((double)s->done >= s->progress_next || s->ended)
        mr_jobsim_progress(s);
    s->update_s = s->now_s;
}

static void update_alone(mr_jobsim *s, int worker)
{
    if (s->warm)
        mr_jobsim_sample(&s->staleness, (double)(s->version - s->workers[worker].version));
    mr_jobsim_count_updates(s, 1, 1);
}

/* ---- the slowest worker ---- */

static bool is_there(const mr_jobsim *s, int worker)
{
    return s->workers[worker].phase != MR_JOBSIM_AWAY || !s->noticed[worker];
}

static void look_for_slowest(mr_jobsim *s)
{
    int64_t slowest = INT64_MAX;
    s->n_slowest = 0;
    for (int i = 0; i < s->n_workers; i++) {
        int64_t clock = s->workers[i].clock;
        if (!is_there(s, i) || clock > slowest)
            continue;
        s->n_slowest = clock < slowest ? 1 : s->n_slowest + 1;
        slowest = clock;
    }
    if (s->n_slowest)
        s->slowest = slowest;
}

static void pass_slowest(mr_jobsim *s, int worker)
{
    int64_t clock = s->workers[worker].clock;
    if (clock - 1 == s->slowest && --s->n_slowest <= 0)
        look_for_slowest(s);
}

/* Passes an event to dist/delay.c and carries out its actions. It may let a worker begin that is still recovering: that
 * worker will ask again. */
static void step_delay(mr_jobsim *s, int worker, mr_delay_message message)
{
    mr_delay_actions todo = {0};
    mr_delay_event e = {worker, message, s->workers[worker].clock - (message == MR_DELAY_FINISH)};
    mr_delay_step(&s->delay, &e, mr_jobsim_ns(s->now_s), &todo);
    for (int i = 0; i < todo.n && !s->ended; i++) {
        mr_jobsim_worker *w = &s->workers[todo.p[i].worker];
        if (todo.p[i].what == MR_DELAY_JOINED)
            w->clock = todo.p[i].iteration;
        else if (todo.p[i].what == MR_DELAY_BEGIN && w->phase == MR_JOBSIM_IDLE)
            mr_jobsim_begin(s, (int)todo.p[i].worker, 0);
    }
    mr_vec_deinit(&todo);
}

static void finished_alone(mr_jobsim *s, int worker)
{
    update_alone(s, worker);
    pass_slowest(s, worker);
    if (s->job->mode != MR_SIMTRAIN_BOUNDED) {
        mr_jobsim_begin(s, worker, 0);
        return;
    }
    step_delay(s, worker, MR_DELAY_FINISH);
    step_delay(s, worker, MR_DELAY_ASK);
}

void mr_jobsim_given_up(mr_jobsim *s, int worker)
{
    if (s->job->mode == MR_SIMTRAIN_ALLREDUCE) {
        mr_jobsim_ring_given_up(s, worker);
        return;
    }
    look_for_slowest(s);
    if (s->job->mode == MR_SIMTRAIN_BOUNDED && s->workers[worker].phase == MR_JOBSIM_AWAY)
        step_delay(s, worker, MR_DELAY_LOST);
}

/* ---- the barrier ---- */

static void take_token(mr_jobsim *s, int worker, int stamp);

static void give_tokens(mr_jobsim *s, const mr_sync_action *a, int n)
{
    s->chief_free_s = MR_MAX(s->chief_free_s, s->now_s) + n * s->job->token_s;
    s->chief_s += n * s->job->token_s;
    for (int i = 0; i < n; i++) {
        double later_s = s->chief_free_s - s->now_s + s->job->latency_s;
        if (s->cuts) {
            double leaves_s = mr_jobsim_pass(s, s->chief, 0, s->chief_free_s, 0);
            later_s = mr_jobsim_pass(s, a[i].worker, 0, leaves_s, s->job->latency_s) - s->now_s;
        }
        mr_jobsim_after(s, a[i].worker, later_s, take_token, (int)a[i].stamp);
    }
}

static void apply_update(mr_jobsim *s, const mr_sync_action *a)
{
    if (s->warm)
        mr_jobsim_sample(&s->steps, s->now_s - s->update_s);
    s->top_stamp = a->stamp;
    mr_jobsim_count_updates(s, a->count, 1);
}

static void carry_out(mr_jobsim *s, const mr_sync_actions *todo)
{
    for (int i = 0, n; i < todo->n && !s->ended; i += n) {
        for (n = 1; todo->p[i].what == MR_SYNC_TOKEN && i + n < todo->n && todo->p[i + n].what == MR_SYNC_TOKEN;)
            n++;
        if (todo->p[i].what == MR_SYNC_APPLY)
            apply_update(s, &todo->p[i]);
        else if (todo->p[i].what == MR_SYNC_TOKEN)
            give_tokens(s, &todo->p[i], n);
        else
            s->leads = false; /* no worker was left; the next message opens another barrier */
    }
}

/* Counts a late gradient once for each stamp, because messages are repeated. */
static void count_dropped(mr_jobsim *s, int worker, int64_t stamp)
{
    mr_jobsim_worker *w = &s->workers[worker];
    if (stamp <= w->judged)
        return;
    w->judged = stamp;
    if (stamp < s->sync.stamp) {
        s->result->dropped++;
        w->sum.dropped++;
        if (w->push_span >= 0)
            s->result->spans.p[w->push_span].dropped = true;
    }
}

/* arg: the message, plus four times the stamp. */
static void receive_message(mr_jobsim *s, int worker, int arg)
{
    mr_sync_event e = {worker, arg % 4, arg / 4};
    mr_sync_actions todo = {0};
    if (!s->leads && (s->chief < 0 || s->workers[s->chief].phase == MR_JOBSIM_AWAY))
        return;
    if (s->cuts && s->chief >= 0 && mr_jobsim_is_cut(s, s->chief, 0)) { /* the chief, perhaps another one, gets it later */
        if (e.message != MR_SYNC_ALIVE)
            mr_jobsim_after(s, worker, mr_jobsim_pass(s, s->chief, 0, s->now_s, 0) - s->now_s, receive_message, arg);
        return;
    }
    if (!s->leads)
        mr_jobsim_lead(s);
    if (e.message == MR_SYNC_ARRIVED)
        count_dropped(s, worker, e.stamp);
    mr_sync_step(&s->sync, &e, mr_jobsim_ns(s->now_s), &todo);
    for (int i = 0; i < todo.n && e.message == MR_SYNC_ARRIVED; i++)
        s->workers[worker].sum.last += todo.p[i].what == MR_SYNC_APPLY;
    carry_out(s, &todo);
    mr_vec_deinit(&todo);
}

/* A worker that is cut off sends no keep-alive messages, because nobody would need them later. */
static void send_message(mr_jobsim *s, int worker, mr_sync_message message, int64_t stamp)
{
    double later_s = s->job->latency_s;
    if (s->workers[worker].n_cuts > 0) {
        if (message == MR_SYNC_ALIVE && mr_jobsim_is_cut(s, worker, 0))
            return;
        later_s = mr_jobsim_pass(s, worker, 0, s->now_s, later_s) - s->now_s;
    }
    mr_jobsim_after(s, worker, later_s, receive_message, (int)(stamp * 4 + message));
}

static void begin_for_token(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    w->stamp = w->token;
    mr_jobsim_begin(s, worker, 0);
}

/* A token for a gradient that was already pushed: the message about it may have been lost, so it is repeated. */
static void take_token(mr_jobsim *s, int worker, int stamp)
{
    mr_jobsim_worker *w = &s->workers[worker];
    w->token = MR_MAX(w->token, stamp);
    if (w->phase != MR_JOBSIM_IDLE)
        return;
    if (w->token > w->gave)
        begin_for_token(s, worker);
    else
        send_message(s, worker, MR_SYNC_ARRIVED, w->gave);
}

static void finished_together(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    w->gave = w->stamp;
    send_message(s, worker, MR_SYNC_ARRIVED, w->gave);
    if (w->token > w->gave)
        begin_for_token(s, worker);
}

/* Stamps increase across all chiefs. */
void mr_jobsim_lead(mr_jobsim *s)
{
    const mr_simtrain_job *j = s->job;
    int64_t lease_ns = s->may_fail ? mr_jobsim_ns(j->lease_s) : 0;
    int aggregate = j->adaptive ? MR_SYNC_ADAPTIVE : j->backup > 0 ? j->n_workers : 0;
    mr_sync_options o = {s->n_workers, aggregate, lease_ns, s->top_stamp > 0 ? lease_ns : 0};
    mr_sync_deinit(&s->sync);
    mr_sync_init(&s->sync, &o, ++s->top_stamp, mr_jobsim_ns(s->now_s));
    s->leads = true;
}

/* Keep-alive messages are only needed with leases: without them no worker is ever given up. */
static void say_alive(mr_jobsim *s, int none, int worker)
{
    (void)none;
    if (s->workers[worker].phase != MR_JOBSIM_AWAY)
        send_message(s, worker, MR_SYNC_ALIVE, 0);
    mr_jobsim_after(s, -1, s->job->lease_s / MESSAGES_A_LEASE, say_alive, worker);
}

void mr_jobsim_start_alive(mr_jobsim *s)
{
    for (int i = 0; i < s->n_workers && s->job->mode == MR_SIMTRAIN_SYNC; i++)
        mr_jobsim_after(s, -1, s->job->lease_s / MESSAGES_A_LEASE, say_alive, i);
}

/* ---- all modes ---- */

/* Called at the start and after every recovery. Without a barrier, a returning worker continues at least at the clock
 * of the slowest. */
void mr_jobsim_go(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    MR_ASSERT(w->phase == MR_JOBSIM_AWAY);
    w->phase = MR_JOBSIM_IDLE;
    w->free_s = s->now_s;
    if (s->job->mode == MR_SIMTRAIN_ALLREDUCE) {
        mr_jobsim_ring_join(s, worker);
        return;
    }
    if (s->job->mode == MR_SIMTRAIN_SYNC) {
        if (worker == s->chief)
            mr_jobsim_lead(s);
        send_message(s, worker, MR_SYNC_JOIN, 0);
        return;
    }
    w->clock = MR_MAX(w->clock, s->slowest); /* it continues where the others are */
    if (s->job->mode == MR_SIMTRAIN_BOUNDED)
        step_delay(s, worker, MR_DELAY_JOIN);
    look_for_slowest(s);
    if (s->job->mode == MR_SIMTRAIN_BOUNDED)
        step_delay(s, worker, MR_DELAY_ASK);
    else
        mr_jobsim_begin(s, worker, 0);
}

void mr_jobsim_finished(mr_jobsim *s, int worker)
{
    if (s->job->mode == MR_SIMTRAIN_SYNC)
        finished_together(s, worker);
    else
        finished_alone(s, worker);
}
