/* dist/pipeline.c -- the order of tasks in a pipeline, and when each ends.
 *
 * A stage does its tasks in a fixed order; a task starts when its stage is free and its input has
 * arrived. The simulation goes over the stages until nothing changes. Both orders are free of
 * deadlocks, so every task is done at the end. */
#include "dist/pipeline.h"

#include <math.h>

#include "base/memory.h"

/* 1F1B runs as many forward tasks ahead as there are stages behind; the other order runs all
 * forward tasks first. out has 2 * n_micro entries. */
void mr_pipeline_tasks(mr_pipeline_order order, int n_stages, int n_micro, int stage, mr_pipeline_task *out)
{
    MR_ASSERT(stage >= 0 && stage < n_stages);
    int ahead = order == MR_ORDER_1F1B ? MR_MIN(n_micro, n_stages - stage - 1) : n_micro;
    int n = 0, forward = 0, backward = 0;
    while (forward < ahead)
        out[n++] = (mr_pipeline_task){forward++, false};
    while (forward < n_micro) {
        out[n++] = (mr_pipeline_task){forward++, false};
        out[n++] = (mr_pipeline_task){backward++, true};
    }
    while (backward < n_micro)
        out[n++] = (mr_pipeline_task){backward++, true};
    MR_ASSERT(n == 2 * n_micro);
}

/* ---- cost ---- */

typedef struct play {
    int n_stages, n_micro;
    const double *takes[2]; /* forward, backward */
    double transfer_s;
    mr_pipeline_task *tasks; /* by stage */
    double *ends[2];         /* by stage and micro-batch; below 0: not done */
    double *free_s;          /* by stage */
    int *at;                 /* by stage: its next task */
} play;

/* When the input of a task exists; below 0: it has not been computed yet. */
static double input_ready(const play *p, int stage, mr_pipeline_task t)
{
    if (!t.backward)
        return stage == 0 ? 0 : p->ends[0][(stage - 1) * p->n_micro + t.micro];
    int from = stage == p->n_stages - 1 ? stage : stage + 1;
    return p->ends[stage != from][from * p->n_micro + t.micro];
}

/* Does what the stage can do by now; returns the number of tasks done. */
static int advance_stage(play *p, int stage)
{
    int done = 0;
    while (p->at[stage] < 2 * p->n_micro) {
        mr_pipeline_task t = p->tasks[2 * p->n_micro * stage + p->at[stage]];
        double since = input_ready(p, stage, t);
        bool own = (stage == 0 && !t.backward) || (stage == p->n_stages - 1 && t.backward);
        if (since < 0)
            break;
        double start = MR_MAX(p->free_s[stage], since + (own ? 0 : p->transfer_s));
        p->free_s[stage] = start + p->takes[t.backward][stage];
        p->ends[t.backward][stage * p->n_micro + t.micro] = p->free_s[stage];
        p->at[stage]++;
        done++;
    }
    return done;
}

/* The largest number of micro-batches whose activations one stage holds at a time. */
static int most_kept(const play *p)
{
    int most = 0;
    for (int s = 0; s < p->n_stages; s++)
        for (int i = 0, kept = 0; i < 2 * p->n_micro; i++) {
            kept += p->tasks[2 * p->n_micro * s + i].backward ? -1 : 1;
            most = MR_MAX(most, kept);
        }
    return most;
}

/* The bubble is the share of time in which stages are idle. */
static void sum_up_cost(const play *p, mr_pipeline_cost *out)
{
    double busy = 0;
    *out = (mr_pipeline_cost){.most_kept = most_kept(p)};
    for (int s = 0; s < p->n_stages; s++) {
        out->step_s = MR_MAX(out->step_s, p->free_s[s]);
        MR_ASSERT(p->at[s] == 2 * p->n_micro);
        busy += p->n_micro * (p->takes[0][s] + p->takes[1][s]);
    }
    out->alone_s = busy + 2 * p->transfer_s * (p->n_stages - 1) * p->n_micro;
    out->bubble = out->step_s > 0 ? 1 - busy / (out->step_s * p->n_stages) : 0;
}

static mr_status *check_pipeline(int n_stages, int n_micro, const double *forward_s, const double *backward_s,
                                 double transfer_s)
{
    if (n_stages < 1 || n_micro < 1 || n_stages > MR_PIPELINE_MAX || n_micro > MR_PIPELINE_MAX)
        return mr_invalid("A pipeline of %d stages and %d micro-batches, expected 1 to %d", n_stages, n_micro,
                          MR_PIPELINE_MAX);
    for (int i = 0; i < n_stages; i++)
        if (!(forward_s[i] >= 0) || !(backward_s[i] >= 0) || !isfinite(forward_s[i] + backward_s[i]))
            return mr_invalid("Stage %d of a pipeline takes %g s forward and %g s backward, expected 0 or more", i,
                              forward_s[i], backward_s[i]);
    if (!(transfer_s >= 0) || !isfinite(transfer_s))
        return mr_invalid("A transfer of a pipeline takes %g s, expected 0 or more", transfer_s);
    return NULL;
}

/* Goes over the stages forth and back, because forward tasks become possible in one direction and backward tasks in the
 * other, until no stage can do more. */
mr_status *mr_pipeline_simulate(mr_pipeline_order order, int n_stages, int n_micro, const double *forward_s,
                                const double *backward_s, double transfer_s, mr_pipeline_cost *out)
{
    MR_TRY(check_pipeline(n_stages, n_micro, forward_s, backward_s, transfer_s));
    size_t n = (size_t)n_stages * (size_t)n_micro;
    play p = {n_stages, n_micro, {forward_s, backward_s}, transfer_s, mr_try_calloc(2 * n, sizeof *p.tasks),
              {mr_try_calloc(n, sizeof(double)), mr_try_calloc(n, sizeof(double))}, mr_new_array(double, n_stages),
              mr_new_array(int, n_stages)};
    mr_status *st =
        p.tasks && p.ends[0] && p.ends[1] ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a pipeline");
    /* Below 0: not done yet (input_ready). */
    for (size_t i = 0; i < n && !st; i++)
        p.ends[0][i] = p.ends[1][i] = -1;
    for (int s = 0; s < n_stages && !st; s++)
        mr_pipeline_tasks(order, n_stages, n_micro, s, p.tasks + 2 * (size_t)n_micro * (size_t)s);
    for (int done = 1; done && !st;) { /* forth and back, until nothing is left */
        done = 0;
        for (int s = 0; s < n_stages; s++)
            done += advance_stage(&p, s);
        for (int s = n_stages - 1; s >= 0; s--)
            done += advance_stage(&p, s);
    }
    if (!st)
        sum_up_cost(&p, out);
    mr_free(p.tasks);
    mr_free(p.ends[0]);
    mr_free(p.ends[1]);
    mr_free(p.free_s);
    mr_free(p.at);
    return st;
}
