/* dist/downpour.c -- one replica of Downpour SGD.
 *
 * Every event changes a few flags; list_actions() then lists all that these flags allow.  Invariants:
 *   - steps = pushed and acknowledged + on_way + accrued: no gradient is forgotten or counted twice;
 *   - INSTALL is never listed while a step computes, since the step reads the parameters;
 *   - a fetch is begun at most once before each step, so `steps - asked_at` is how stale its answer will be. */
#include "dist/downpour.h"

#include "base/status.h"

/* Numbers below their minimum are raised to it, so the step function need not check them. */
void mr_downpour_init(mr_downpour_plan *d, const mr_downpour_rules *o)
{
    *d = (mr_downpour_plan){.o = *o, .asked_at = -1};
    d->o.n_fetch = MR_MAX(o->n_fetch, 1);
    d->o.n_push = MR_MAX(o->n_push, 1);
    d->o.most_behind = MR_MAX(o->most_behind, 0);
    d->warm = o->replica <= 0 || o->warm_steps <= 0;
}

static void add_action(mr_downpour_actions *out, mr_downpour_do what, int64_t steps)
{
    mr_vec_push(out, (mr_downpour_action){what, steps});
}

/* Whether the replica is too far ahead of the servers: of the fetch under way, or of the push. */
static bool too_far(const mr_downpour_plan *d)
{
    bool stale = d->fetching && d->steps - d->asked_at > d->o.most_behind;
    return stale || (d->pushing && d->on_way + d->accrued >= d->o.most_behind + d->o.n_push);
}

bool mr_downpour_waits(const mr_downpour_plan *d)
{
    return d->ready && d->wanted && !d->computing && !d->finishing && too_far(d);
}

/* A fetch is due before the first step, and n_fetch steps after the last one was asked for. */
static bool fetch_due(const mr_downpour_plan *d)
{
    if (d->fetching || d->finishing)
        return false;
    return d->asked_at < 0 || d->steps - d->asked_at >= d->o.n_fetch;
}

/* Pushes what has accrued, if it is enough or the last, and no push is under way. */
static void decide_push(mr_downpour_plan *d, mr_downpour_actions *out)
{
    bool enough = d->accrued >= d->o.n_push || (d->finishing && !d->computing && d->accrued > 0);
    if (d->pushing || !enough)
        return;
    d->pushing = true;
    d->on_way = d->accrued;
    d->accrued = 0;
    add_action(out, MR_DOWNPOUR_PUSH, d->on_way);
}

/* Only between two steps, because a step reads the parameters that INSTALL changes. */
static void decide_fetch(mr_downpour_plan *d, mr_downpour_actions *out)
{
    if (d->computing)
        return;
    if (d->arrived) {
        d->arrived = false;
        d->ready = true;
        add_action(out, MR_DOWNPOUR_INSTALL, 0);
    }
    if (!fetch_due(d))
        return;
    d->fetching = true;
    d->asked_at = d->steps;
    add_action(out, MR_DOWNPOUR_FETCH, 0);
}

/* Lists all actions that the flags allow now. The push comes first, so that a fetch that begins now
 * follows it. */
static void list_actions(mr_downpour_plan *d, mr_downpour_actions *out)
{
    if (!d->warm && !d->finishing)
        return;
    decide_push(d, out);
    decide_fetch(d, out);
    if (d->ready && d->wanted && !d->computing && !d->finishing && !too_far(d)) {
        d->computing = true;
        d->wanted = false;
        add_action(out, MR_DOWNPOUR_STEP, 0);
    }
    bool busy = d->computing || d->pushing || d->fetching || d->accrued > 0;
    if (d->finishing && !busy && !d->ended) {
        d->ended = true;
        add_action(out, MR_DOWNPOUR_END, 0);
    }
}

/* Waits as long as the job makes progress. If it stops, replicas begin, the lowest first. */
static void take_progress(mr_downpour_plan *d, int64_t total, int64_t now_ns, mr_downpour_actions *out)
{
    if (d->warm)
        return;
    MR_ASSERT(d->o.replica > 0); /* the first replica is always warm */
    if (total > d->progress || d->progress_ns == 0) {
        d->progress = MR_MAX(total, d->progress);
        d->progress_ns = now_ns;
    }
    d->warm = d->progress >= d->o.warm_steps || (now_ns - d->progress_ns) / d->o.replica >= d->o.patience_ns;
    if (!d->warm && !d->finishing)
        add_action(out, MR_DOWNPOUR_WATCH, 0);
}

/* Each event only changes flags; list_actions decides. An end that was not begun (FETCHED, STEPPED, PUSHED) is a bug of
 * the caller. */
void mr_downpour_step(mr_downpour_plan *d, mr_downpour_event e, int64_t value, int64_t now_ns, mr_downpour_actions *out)
{
    switch (e) {
    case MR_DOWNPOUR_BEGIN:
        if (!d->warm)
            add_action(out, MR_DOWNPOUR_WATCH, 0);
        break;
    case MR_DOWNPOUR_PROGRESS: take_progress(d, value, now_ns, out); break;
    case MR_DOWNPOUR_WANT: d->wanted = true; break;
    case MR_DOWNPOUR_FETCHED:
        MR_ASSERT(d->fetching);
        d->fetching = false;
        d->arrived = true;
        break;
    case MR_DOWNPOUR_STEPPED:
        MR_ASSERT(d->computing);
        d->computing = false;
        d->steps++;
        d->accrued++;
        break;
    case MR_DOWNPOUR_PUSHED:
        MR_ASSERT(d->pushing);
        d->pushing = false;
        d->on_way = 0;
        break;
    case MR_DOWNPOUR_FINISH: d->finishing = true; break;
    case MR_DOWNPOUR_UNDONE:
        MR_ASSERT(d->computing);
        d->computing = false;
        break;
    }
    list_actions(d, out);
}
