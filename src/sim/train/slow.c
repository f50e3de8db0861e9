/* sim/train/slow.c -- how slow a task is at a time.
 *
 * Workers that are slow all the time have a constant factor. Everything else is a step function of time for each task,
 * stored as one array ordered by task and time: the time of a message is booked before its service begins, so the factor
 * at a later time must be known. */
#include <stdlib.h>

#include "base/memory.h"
#include "sim/train/engine.h"

static int task_of(const mr_jobsim *s, const mr_simtrain_slow *x)
{
    return x->kind == MR_SIMTRAIN_PS ? s->n_workers + x->index : x->index;
}

static bool is_constant(const mr_simtrain_slow *x)
{
    return x->kind == MR_SIMTRAIN_WORKER && x->at_s == 0 && x->for_s == 0;
}

static bool holds_at(const mr_simtrain_slow *x, double at_s)
{
    return x->at_s <= at_s && (x->for_s == 0 || at_s < x->at_s + x->for_s);
}

static int by_task_and_time(const void *a, const void *b)
{
    const mr_jobsim_pace *x = a, *y = b;
    return x->task != y->task ? (x->task > y->task) - (x->task < y->task) : (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

/* The factor changes where an interval begins or ends. At each such time it is the product of the intervals that hold
 * then, in the order of the job, so it is 1 again after the last one. */
bool mr_jobsim_slow_init(mr_jobsim *s)
{
    const mr_simtrain_job *j = s->job;
    s->paces = mr_try_calloc(2 * (size_t)j->n_slow + 1, sizeof *s->paces);
    if (!s->paces)
        return false;
    for (int i = 0; i < j->n_slow; i++) {
        const mr_simtrain_slow *x = &j->slow[i];
        if (is_constant(x)) {
            s->workers[x->index].factor *= x->factor;
            continue;
        }
        s->paces[s->n_paces++] = (mr_jobsim_pace){task_of(s, x), x->at_s, 1};
        if (x->for_s > 0)
            s->paces[s->n_paces++] = (mr_jobsim_pace){task_of(s, x), x->at_s + x->for_s, 1};
    }
    for (int i = 0; i < s->n_paces; i++)
        for (int k = 0; k < j->n_slow; k++)
            if (!is_constant(&j->slow[k]) && task_of(s, &j->slow[k]) == s->paces[i].task && holds_at(&j->slow[k], s->paces[i].at_s))
                s->paces[i].factor *= j->slow[k].factor;
    if (s->n_paces)
        qsort(s->paces, (size_t)s->n_paces, sizeof *s->paces, by_task_and_time);
    return true;
}

/* Binary search for the last entry of the task that is not later than at_s. */
double mr_jobsim_pace_of(const mr_jobsim *s, int task, double at_s)
{
    int low = 0, high = s->n_paces; /* entries before `low` are not later, those from `high` on are */
    while (low < high) {
        int mid = low + (high - low) / 2;
        const mr_jobsim_pace *x = &s->paces[mid];
        if (x->task < task || (x->task == task && x->at_s <= at_s))
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 && s->paces[low - 1].task == task ? s->paces[low - 1].factor : 1;
}
