/* dist/delay.c -- the clocks of workers, and the bound on how far they may be apart.
 *
 * The states of a worker, and the messages that change them:
 *
 *     GONE    -> RESTING    JOIN
 *     RESTING -> WAITING    ASK, if the bound does not allow the iteration yet
 *     RESTING -> WORKING    ASK, if it does
 *     WAITING -> WORKING    the slowest has moved on
 *     WORKING -> RESTING    FINISH, or an ASK for the next iteration
 *     any     -> GONE       LEAVE, LOST
 *
 * Invariants between events: `slowest` is the lowest clock of the workers that are present; a
 * waiting worker is more than `bound` ahead of it (else it would have begun); workers are sorted by
 * id, each once.
 *
 * The lowest clock is searched again only when no worker is at it any more: n workers cost n for
 * each of its steps, not for each of theirs. */
#include "dist/delay.h"

#include "base/status.h"

enum { MAX_PAUSE = 64 };
#define GAIN 0.03
#define WORTH_A_TRIAL 0.05 /* share of their time that workers wait */

/* An adaptive bound begins at its lower limit: it widens only when that has been seen to pay. */
void mr_delay_init(mr_delay *d, const mr_delay_options *o, int64_t now_ns)
{
    *d = (mr_delay){.o = *o, .bound = o->bound, .slowest = MR_MAX(0, o->start), .last_ns = now_ns};
    d->o.lo = MR_MAX(0, o->lo);
    d->o.hi = MR_MAX(d->o.lo, o->hi > 0 ? o->hi : MR_DELAY_HI);
    if (o->bound < MR_DELAY_EVENTUAL)
        d->bound = d->o.lo;
    d->trial = (mr_delay_trial){.from_clock = d->slowest, .from_ns = now_ns, .way = 1, .pause = 1};
}

void mr_delay_deinit(mr_delay *d)
{
    mr_vec_deinit(&d->workers);
    *d = (mr_delay){0};
}

/* ---- workers ---- */

/* The first index whose id is not below. */
static int place_of(const mr_delay *d, int64_t worker)
{
    int from = 0, to = d->workers.n;
    while (from < to) {
        int mid = from + (to - from) / 2;
        if (d->workers.p[mid].id < worker)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static mr_delay_worker *find_worker(const mr_delay *d, int64_t worker)
{
    int at = place_of(d, worker);
    return at < d->workers.n && d->workers.p[at].id == worker ? &d->workers.p[at] : NULL;
}

const mr_delay_worker *mr_delay_find(const mr_delay *d, int64_t worker) { return find_worker(d, worker); }

/* Inserts a worker by its id, which must be new. Moves other workers, so pointers to them become invalid. */
static mr_delay_worker *add_worker(mr_delay *d, int64_t worker)
{
    MR_ASSERT(!find_worker(d, worker));
    int at = place_of(d, worker);
    mr_delay_worker w = {.id = worker};
    mr_vec_push(&d->workers, w);
    for (int i = d->workers.n - 1; i > at; i--)
        d->workers.p[i] = d->workers.p[i - 1];
    d->workers.p[at] = w;
    return &d->workers.p[at];
}

int64_t mr_delay_waited_ns(const mr_delay_worker *w, int64_t now_ns)
{
    return w->waited_ns + (w->state == MR_DELAY_WAITING ? MR_MAX(0, now_ns - w->since_ns) : 0);
}

double mr_delay_mean_staleness(const mr_delay_worker *w)
{
    return w->iterations ? (double)w->staleness_sum / (double)w->iterations : 0;
}

bool mr_delay_is_waited_for(const mr_delay *d, const mr_delay_worker *w)
{
    return d->n_waiting > 0 && w->state != MR_DELAY_GONE && w->state != MR_DELAY_WAITING && w->clock == d->slowest;
}

/* Changes a worker's state. The time in the old state is added to the statistics. */
static void set_state(mr_delay *d, mr_delay_worker *w, mr_delay_state state)
{
    int64_t spent_ns = d->last_ns - w->since_ns;
    if (w->state == MR_DELAY_WAITING) {
        w->waited_ns += spent_ns;
        d->trial.waited_ns += spent_ns;
        d->n_waiting--;
    } else if (w->state == MR_DELAY_WORKING) {
        w->worked_ns += spent_ns;
        d->trial.worked_ns += spent_ns;
    }
    d->n_there += (state != MR_DELAY_GONE) - (w->state != MR_DELAY_GONE);
    d->n_waiting += state == MR_DELAY_WAITING;
    w->state = state;
    w->since_ns = d->last_ns;
    MR_ASSERT(d->n_there >= d->n_waiting && d->n_waiting >= 0);
}

/* Time never goes back: an earlier now_ns counts as the last one. */
static void pass_time(mr_delay *d, int64_t now_ns)
{
    int64_t gap_ns = MR_MAX(0, now_ns - d->last_ns);
    d->last_ns += gap_ns;
    d->waits_ns += d->n_waiting > 0 ? gap_ns : 0;
}

/* ---- the slowest workers ---- */

static bool is_slowest(const mr_delay *d, const mr_delay_worker *w)
{
    return w->state != MR_DELAY_GONE && w->clock == d->slowest;
}

/* The time during which others waited while this worker was among the slowest. */
int64_t mr_delay_blamed_ns(const mr_delay *d, const mr_delay_worker *w)
{
    return w->blamed_ns + (is_slowest(d, w) ? d->waits_ns - w->blamed_from : 0);
}

/* To be called when a worker has become one of the slowest. */
static void begin_blame(mr_delay *d, mr_delay_worker *w)
{
    MR_ASSERT(is_slowest(d, w));
    w->blamed_from = d->waits_ns;
    d->n_slowest++;
}

/* To be called before the worker's clock or state changes. */
static void end_blame(mr_delay *d, mr_delay_worker *w)
{
    w->blamed_ns = mr_delay_blamed_ns(d, w);
    d->n_slowest -= is_slowest(d, w);
    MR_ASSERT(d->n_slowest >= 0);
}

/* ---- beginning an iteration ---- */

static void add_action(mr_delay_actions *out, mr_delay_do what, int64_t worker, int64_t iteration)
{
    mr_delay_action a = {what, worker, iteration};
    mr_vec_push(out, a);
}

static bool may_begin(const mr_delay *d, const mr_delay_worker *w)
{
    return d->bound == MR_DELAY_EVENTUAL || w->clock - d->slowest <= d->bound;
}

/* Lets a worker begin the iteration of its clock. */
static void begin_iteration(mr_delay *d, mr_delay_worker *w, mr_delay_actions *out)
{
    MR_ASSERT(may_begin(d, w) && w->state == MR_DELAY_WAITING);
    int64_t lead = w->clock - d->slowest;
    set_state(d, w, MR_DELAY_WORKING);
    w->begun = d->finished - w->iterations;
    w->lead_max = MR_MAX(w->lead_max, lead);
    d->trial.lead = MR_MAX(d->trial.lead, lead);
    add_action(out, MR_DELAY_BEGIN, w->id, w->clock);
}

/* Lets all waiting workers begin that may, after the lowest clock or the bound has changed. */
static void begin_allowed(mr_delay *d, mr_delay_actions *out)
{
    for (int i = 0; d->n_waiting > 0 && i < d->workers.n; i++)
        if (d->workers.p[i].state == MR_DELAY_WAITING && may_begin(d, &d->workers.p[i]))
            begin_iteration(d, &d->workers.p[i], out);
}

/* Finds the lowest clock again. true: it has risen. */
static bool look_for_slowest(mr_delay *d)
{
    int64_t slowest = INT64_MAX;
    for (int i = 0; i < d->workers.n; i++)
        if (d->workers.p[i].state != MR_DELAY_GONE)
            slowest = MR_MIN(slowest, d->workers.p[i].clock);
    if (slowest == INT64_MAX || slowest == d->slowest)
        return false;
    MR_ASSERT(slowest > d->slowest);
    d->slowest = slowest;
    d->n_slowest = 0;
    for (int i = 0; i < d->workers.n; i++)
        if (is_slowest(d, &d->workers.p[i]))
            begin_blame(d, &d->workers.p[i]);
    return true;
}

/* ---- the adaptive bound ---- */

/* Starts the measurements of a window at the present clock and time. */
static void begin_window(mr_delay *d)
{
    mr_delay_trial *t = &d->trial;
    t->from_clock = d->slowest;
    t->from_ns = d->last_ns;
    t->waited_ns = t->worked_ns = t->lead = 0;
}

/* The next bound to try in a direction; steps grow with the bound. */
static int64_t neighbour(const mr_delay *d, int way)
{
    int64_t to = d->bound + way * (1 + d->bound / 8);
    return MR_MAX(d->o.lo, MR_MIN(d->o.hi, to));
}

/* Keeps the new bound if it paid. Otherwise returns to the old one, and tries the other direction
 * after a longer pause. A smaller bound pays already if it costs almost nothing. */
static void end_trial(mr_delay *d, double rate)
{
    mr_delay_trial *t = &d->trial;
    bool good = t->way > 0 ? rate >= t->rate * (1 + GAIN) : rate >= t->rate * (1 - GAIN);
    t->on = false;
    t->rested = 0;
    if (good) {
        t->pause = 1;
        return;
    }
    d->bound = t->before;
    t->way = -t->way;
    t->pause = MR_MIN(2 * t->pause, MAX_PAUSE);
}

/* Tries the next bound in the present direction, or in the other one at the end of the range. */
static void begin_trial(mr_delay *d, double rate)
{
    mr_delay_trial *t = &d->trial;
    int64_t to = neighbour(d, t->way);
    if (to == d->bound)
        to = neighbour(d, t->way = -t->way);
    if (to == d->bound)
        return;
    t->on = true;
    t->rate = rate;
    t->before = d->bound;
    d->bound = to;
}

/* At the end of each window of iterations: judges a trial, lowers a bound that no worker used, or
 * begins a trial if workers wait much. */
static void adapt_bound(mr_delay *d)
{
    mr_delay_trial *t = &d->trial;
    if (d->o.bound >= MR_DELAY_EVENTUAL || d->slowest - t->from_clock < MR_DELAY_WINDOW || d->last_ns <= t->from_ns)
        return;
    double rate = (double)(d->slowest - t->from_clock) / (double)(d->last_ns - t->from_ns);
    double spent_ns = (double)t->waited_ns + (double)t->worked_ns;
    if (t->on)
        end_trial(d, rate);
    else if (t->lead < d->bound)
        d->bound = MR_MAX(d->o.lo, t->lead);
    else if (++t->rested >= t->pause && (double)t->waited_ns > WORTH_A_TRIAL * spent_ns)
        begin_trial(d, rate);
    begin_window(d);
}

/* A clock has risen, or a worker is gone: if that raises the lowest clock, waiting workers may
 * begin. */
static void clock_moved(mr_delay *d, mr_delay_actions *out)
{
    if (d->n_slowest > 0 || !look_for_slowest(d))
        return;
    adapt_bound(d);
    begin_allowed(d, out);
}

/* ---- events ---- */

/* A worker that was away continues at its own clock, but not behind the slowest. One that is
 * present already keeps its place: the message was repeated, or its process restarted. */
static void worker_joins(mr_delay *d, mr_delay_worker *w, int64_t worker, mr_delay_actions *out)
{
    if (!w)
        w = add_worker(d, worker);
    if (w->state == MR_DELAY_GONE) {
        w->since_ns = d->last_ns;
        w->clock = MR_MAX(w->clock, d->slowest);
        set_state(d, w, MR_DELAY_RESTING);
        if (is_slowest(d, w))
            begin_blame(d, w);
        clock_moved(d, out); /* it may be the only one, and come back */
    }
    add_action(out, MR_DELAY_JOINED, worker, w->clock);
}

/* Staleness: updates of others while this worker computed. */
static void finish_iteration(mr_delay *d, mr_delay_worker *w, mr_delay_actions *out)
{
    MR_ASSERT(w->state == MR_DELAY_WORKING);
    int64_t stale = d->finished - w->iterations - w->begun;
    w->staleness_sum += stale;
    w->staleness_max = MR_MAX(w->staleness_max, stale);
    w->iterations++;
    d->finished++;
    end_blame(d, w);
    set_state(d, w, MR_DELAY_RESTING);
    w->clock++;
    clock_moved(d, out);
}

/* The answer to an earlier ASK may have been lost, and so may the message that the iteration before
 * was finished; hence a repeated ASK is answered again, and an ASK for the next iteration finishes
 * the present. */
static void ask_iteration(mr_delay *d, mr_delay_worker *w, int64_t iteration, mr_delay_actions *out)
{
    bool working = w->state == MR_DELAY_WORKING;
    if (iteration < w->clock) /* a late message */
        return;
    if (iteration > w->clock + working) {
        add_action(out, MR_DELAY_STRANGER, w->id, iteration);
        return;
    }
    if (working && iteration == w->clock) {
        add_action(out, MR_DELAY_BEGIN, w->id, iteration);
        return;
    }
    if (working)
        finish_iteration(d, w, out);
    if (w->state == MR_DELAY_RESTING)
        set_state(d, w, MR_DELAY_WAITING);
    if (may_begin(d, w))
        begin_iteration(d, w, out);
}

/* The worker is no longer waited for. */
static void worker_goes(mr_delay *d, mr_delay_worker *w, mr_delay_actions *out)
{
    end_blame(d, w);
    set_state(d, w, MR_DELAY_GONE);
    clock_moved(d, out);
}

/* Unknown messages only let time pass. A worker that is not present is told so (STRANGER), and
 * joins. */
void mr_delay_step(mr_delay *d, const mr_delay_event *e, int64_t now_ns, mr_delay_actions *out)
{
    pass_time(d, now_ns);
    if (e->message < MR_DELAY_JOIN || e->message > MR_DELAY_LOST)
        return;
    mr_delay_worker *w = find_worker(d, e->worker);
    bool there = w && w->state != MR_DELAY_GONE;
    if (e->message == MR_DELAY_JOIN)
        worker_joins(d, w, e->worker, out);
    else if (e->message == MR_DELAY_LEAVE || e->message == MR_DELAY_LOST) {
        if (there)
            worker_goes(d, w, out);
    } else if (!there) {
        add_action(out, MR_DELAY_STRANGER, e->worker, e->iteration);
    } else if (e->message == MR_DELAY_FINISH && w->state == MR_DELAY_WORKING && e->iteration == w->clock) {
        finish_iteration(d, w, out);
    } else if (e->message == MR_DELAY_ASK) {
        ask_iteration(d, w, e->iteration, out);
    }
}
