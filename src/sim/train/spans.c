/* sim/train/spans.c -- records what tasks do in their first steps, and all checkpoints and failures.
 *
 * A large cluster does more in one step than anybody can look at. So a few tasks are watched, and their spans have
 * limits of their own, which the spans of all others cannot use up; neither can those of parameter servers, which
 * handle messages of all workers, use up those of workers. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/engine.h"

/* How many of n tasks are watched. */
static void count_watched(const mr_simtrain_job *j, int *n_workers, int *n_ps)
{
    int workers = j->n_workers + j->backup, ps = j->mode == MR_SIMTRAIN_ALLREDUCE ? 0 : j->n_ps;
    *n_ps = MR_MIN(ps, MR_MAX(MR_SIMTRAIN_WATCHED_PS, MR_SIMTRAIN_WATCHED - workers));
    *n_workers = MR_MIN(workers, MR_SIMTRAIN_WATCHED - *n_ps);
}

/* Marks a task as long as tasks of its kind are left to watch. */
static void watch(uint8_t *watched, int task, int *left)
{
    if (*left > 0 && !watched[task]) {
        watched[task] = true;
        --*left;
    }
}

/* First the tasks with which something happens, since they are what people look for, then those with low numbers. */
void mr_simtrain_watch(const mr_simtrain_job *j, uint8_t *watched)
{
    int n = j->n_workers + j->backup, n_ps = j->mode == MR_SIMTRAIN_ALLREDUCE ? 0 : j->n_ps, left[2];
    count_watched(j, &left[0], &left[1]);
    for (int i = 0; i < j->n_slow; i++)
        if (j->slow[i].kind == MR_SIMTRAIN_PS)
            watch(watched, n + j->slow[i].index, &left[1]);
        else
            watch(watched, j->slow[i].index, &left[0]);
    for (int i = 0; i < j->n_crashes; i++)
        if (j->crashes[i].kind == MR_SIMTRAIN_PS)
            watch(watched, n + j->crashes[i].index, &left[1]);
        else if (j->crashes[i].kind == MR_SIMTRAIN_WORKER)
            watch(watched, j->crashes[i].index, &left[0]);
    for (int i = 0; i < j->n_cuts; i++)
        watch(watched, j->cuts[i].worker, &left[0]);
    for (int i = 0; i < n; i++)
        watch(watched, i, &left[0]);
    for (int i = 0; i < n_ps; i++)
        watch(watched, n + i, &left[1]);
}

/* False, and the time is noted, if as many spans as possible have been recorded. */
static bool has_room(mr_jobsim *s, mr_simtrain_kind kind, int index, double start_s)
{
    static const int most[] = {MR_SIMTRAIN_MAX_SPANS / 4, MR_SIMTRAIN_MAX_SPANS / 4, MR_SIMTRAIN_MAX_SPANS / 2};
    bool watched = s->watched[kind == MR_SIMTRAIN_PS ? s->n_workers + index : index];
    int list = !watched ? 2 : kind == MR_SIMTRAIN_PS;
    if (s->n_spans[list] < most[list]) {
        s->n_spans[list]++;
        return true;
    }
    if (watched)
        s->result->spans_until_s = MR_MIN(s->result->spans_until_s, start_s);
    return false;
}

void mr_jobsim_span(mr_jobsim *s, mr_simtrain_kind kind, int index, mr_simtrain_doing doing, int chunk, int step, double start_s,
                    double end_s)
{
    if (step >= s->job->span_steps || !(end_s > start_s))
        return;
    if (mr_simtrain_is_incident(doing)) {
        if (s->n_incidents == MR_SIMTRAIN_MAX_INCIDENTS)
            return;
        s->n_incidents++;
    } else if (!has_room(s, kind, index, start_s)) {
        return;
    }
    mr_simtrain_span v = {kind, index, doing, chunk, step, start_s, end_s, false};
    mr_vec_push(&s->result->spans, v);
}
