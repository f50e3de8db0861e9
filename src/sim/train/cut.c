/* sim/train/cut.c -- workers that are cut off from parameter servers for some time.
 *
 * All cuts are known from the start, so the arrival of a message follows when it is sent. Each worker has a list of its
 * cuts, ordered by their begin; a cut is removed when it ends, so the list stays short while messages pass. */
#include <stdlib.h>

#include "base/memory.h"
#include "sim/train/engine.h"

static int by_worker_and_time(const void *a, const void *b)
{
    const mr_jobsim_cut *x = a, *y = b;
    if (x->worker != y->worker)
        return (x->worker > y->worker) - (x->worker < y->worker);
    if (x->from_s != y->from_s)
        return (x->from_s > y->from_s) - (x->from_s < y->from_s);
    return x->to_s != y->to_s ? (x->to_s > y->to_s) - (x->to_s < y->to_s) : (x->ps > y->ps) - (x->ps < y->ps);
}

static bool is_needed(const mr_simtrain_job *j, int ps)
{
    if (j->mode == MR_SIMTRAIN_ALLREDUCE)
        return true;
    for (int i = 0; i < j->n_chunks; i++)
        if (j->chunks[i].bytes > 0 && (ps < 0 || j->chunks[i].ps < 0 || j->chunks[i].ps == ps))
            return true;
    return false;
}

bool mr_jobsim_cuts_init(mr_jobsim *s)
{
    const mr_simtrain_job *j = s->job;
    if (j->n_cuts == 0)
        return true;
    s->cuts = mr_try_calloc((size_t)j->n_cuts, sizeof *s->cuts);
    if (!s->cuts)
        return false;
    for (int i = 0; i < j->n_cuts; i++) {
        const mr_simtrain_cut *c = &j->cuts[i];
        s->cuts[i] = (mr_jobsim_cut){c->worker, c->ps, is_needed(j, c->ps), c->at_s, c->at_s + c->for_s};
    }
    qsort(s->cuts, (size_t)j->n_cuts, sizeof *s->cuts, by_worker_and_time);
    for (int i = j->n_cuts - 1; i >= 0; i--) {
        mr_jobsim_worker *w = &s->workers[s->cuts[i].worker];
        w->cuts = &s->cuts[i];
        w->n_cuts++;
        w->is_split = true;
    }
    return true;
}

static bool concerns(const mr_jobsim_cut *c, int ps)
{
    return ps == MR_JOBSIM_ALL_PS ? c->matters : c->ps < 0 || c->ps == ps;
}

/* Later cuts in the list begin later, so one pass over it finds all that the message waits for. */
double mr_jobsim_leaves(const mr_jobsim *s, int worker, int ps, double leaves_s, double takes_s)
{
    const mr_jobsim_worker *w = &s->workers[worker];
    for (int i = 0; i < w->n_cuts && w->cuts[i].from_s <= leaves_s + takes_s; i++)
        if (leaves_s < w->cuts[i].to_s && concerns(&w->cuts[i], ps))
            leaves_s = w->cuts[i].to_s;
    return leaves_s;
}

double mr_jobsim_pass(const mr_jobsim *s, int worker, int ps, double leaves_s, double takes_s)
{
    return mr_jobsim_leaves(s, worker, ps, leaves_s, takes_s) + takes_s;
}

bool mr_jobsim_is_cut(const mr_jobsim *s, int worker, int ps)
{
    return mr_jobsim_pass(s, worker, ps, s->now_s, 0) > s->now_s;
}

static void lease_over(mr_jobsim *s, int none, int worker)
{
    (void)none;
    mr_jobsim_ring_given_up(s, worker);
}

/* The leases of a barrier are those of dist/sync.c; a ring gives up a worker by itself. */
static void begin_cut(mr_jobsim *s, int none, int cut)
{
    (void)none;
    const mr_simtrain_cut *c = &s->job->cuts[cut];
    mr_jobsim_progress(s);
    s->is_level = true;
    if (s->job->mode == MR_SIMTRAIN_ALLREDUCE && c->for_s > s->job->lease_s)
        mr_jobsim_after(s, -1, s->job->lease_s, lease_over, c->worker);
}

static void add_cut_span(mr_jobsim *s, int worker, double from_s, double to_s)
{
    mr_jobsim_span(s, MR_SIMTRAIN_WORKER, worker, MR_SIMTRAIN_CUT, -1, 0, from_s, to_s);
}

static void end_cut(mr_jobsim *s, int none, int cut)
{
    (void)none;
    const mr_simtrain_cut *c = &s->job->cuts[cut];
    mr_jobsim_worker *w = &s->workers[c->worker];
    int n = 0;
    add_cut_span(s, c->worker, c->at_s, s->now_s);
    for (int i = 0; i < w->n_cuts; i++)
        if (w->cuts[i].to_s > s->now_s)
            w->cuts[n++] = w->cuts[i];
    w->n_cuts = n;
}

void mr_jobsim_start_cuts(mr_jobsim *s)
{
    for (int i = 0; i < s->job->n_cuts; i++) {
        const mr_simtrain_cut *c = &s->job->cuts[i];
        mr_jobsim_after(s, -1, c->at_s, begin_cut, i);
        mr_jobsim_after(s, -1, c->at_s + c->for_s, end_cut, i);
    }
}

void mr_jobsim_end_cuts(mr_jobsim *s)
{
    for (int i = 0; i < s->n_workers; i++)
        for (int k = 0; k < s->workers[i].n_cuts; k++)
            add_cut_span(s, i, s->workers[i].cuts[k].from_s, s->now_s);
}
