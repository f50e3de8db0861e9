/* sim/train/sweep.c -- varies one number of a job, and finds where more of it stops helping.
 *
 * Every value is a separate job with the same seed. If the number of parameter servers changes, chunks that belong to a
 * single server are assigned again, the largest first to the server that holds least, as train/replicas.c does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "sim/train/train.h"

enum { MAX_LISTED = 32, LEAST_STEPS = 24, LEAST_WARMUP = 4 };
#define BEARABLE_WORK 1e6 /* workers x steps x chunks for one value: a few seconds */
#define PAYS 0.05
#define ENOUGH 0.99 /* of the maximum; the rest is noise */

typedef enum what { WORKERS, PS, BACKUP, DELAY, N_WHATS } what;
static const char *const names[] = {"workers", "ps", "backup", "delay"};

/* A job that owns its lists. */
typedef struct variant {
    mr_simtrain_job job;
    mr_simtrain_chunk *chunks;
    mr_simtrain_slow *slow;
    mr_simtrain_crash *crashes;
    mr_simtrain_cut *cuts;
} variant;

static void variant_deinit(variant *v)
{
    mr_free(v->chunks);
    mr_free(v->slow);
    mr_free(v->crashes);
    mr_free(v->cuts);
}

/* Keeps the crashes, the cuts and the slowness of tasks that exist in this variant. */
static void keep_who_is_there(variant *v, const mr_simtrain_job *from)
{
    mr_simtrain_job *j = &v->job;
    int n = j->n_workers + j->backup;
    v->slow = mr_new_array(mr_simtrain_slow, from->n_slow + 1);
    v->crashes = mr_new_array(mr_simtrain_crash, from->n_crashes + 1);
    v->cuts = mr_new_array(mr_simtrain_cut, from->n_cuts + 1);
    j->n_slow = j->n_crashes = j->n_cuts = 0;
    for (int i = 0; i < from->n_slow; i++)
        if (from->slow[i].index < (from->slow[i].kind == MR_SIMTRAIN_PS ? j->n_ps : n))
            v->slow[j->n_slow++] = from->slow[i];
    for (int i = 0; i < from->n_crashes; i++) {
        const mr_simtrain_crash *c = &from->crashes[i];
        if (c->kind == MR_SIMTRAIN_CHIEF || c->index < (c->kind == MR_SIMTRAIN_PS ? j->n_ps : n))
            v->crashes[j->n_crashes++] = *c;
    }
    for (int i = 0; i < from->n_cuts; i++)
        if (from->cuts[i].worker < n && (from->cuts[i].ps < 0 || from->cuts[i].ps < j->n_ps))
            v->cuts[j->n_cuts++] = from->cuts[i];
    j->slow = v->slow;
    j->crashes = v->crashes;
    j->cuts = v->cuts;
}

static int larger_first(const void *a, const void *b)
{
    const mr_simtrain_chunk *x = *(mr_simtrain_chunk *const *)a, *y = *(mr_simtrain_chunk *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x > y) - (x < y);
}

/* Assigns chunks to parameter servers; chunks that are spread over all servers stay spread. */
static void deal_out(variant *v)
{
    int n = v->job.n_chunks, n_ps = v->job.n_ps;
    mr_simtrain_chunk **order = mr_new_array(mr_simtrain_chunk *, n + 1);
    double *held = mr_new_array(double, n_ps);
    for (int i = 0; i < n; i++)
        order[i] = &v->chunks[i];
    qsort(order, (size_t)n, sizeof *order, larger_first);
    for (int i = 0; i < n; i++) {
        int least = 0;
        for (int k = 1; k < n_ps; k++)
            if (held[k] < held[least])
                least = k;
        if (order[i]->ps < 0)
            continue;
        order[i]->ps = least;
        held[least] += order[i]->bytes;
    }
    mr_free(order);
    mr_free(held);
}

/* Copies the job with one number changed, and reduces its steps if it would take too long. */
static void set_variant(variant *v, const mr_simtrain_job *from, what w, int value)
{
    mr_simtrain_job *j = &v->job;
    *v = (variant){.job = *from};
    int *const members[] = {&j->n_workers, &j->n_ps, &j->backup, &j->delay_bound};
    *members[w] = value;
    double most = BEARABLE_WORK / ((double)(j->n_workers + j->backup) * (j->n_chunks + 1) * (j->n_hosts > 0 ? MR_MAX(j->n_ps, 1) : 1));
    j->steps = (int)MR_MIN(j->steps, MR_MAX(most, LEAST_STEPS));
    j->warmup = MR_MIN(j->warmup, MR_MAX(j->steps / 4, MR_MIN(LEAST_WARMUP, j->steps - 1)));
    j->span_steps = 0;
    v->chunks = mr_new_array(mr_simtrain_chunk, j->n_chunks + 1);
    for (int i = 0; i < j->n_chunks; i++)
        v->chunks[i] = from->chunks[i];
    j->chunks = v->chunks;
    if (w == PS && value != from->n_ps)
        deal_out(v);
    keep_who_is_there(v, from);
}

static mr_status *run_at(const mr_simtrain_job *job, what w, int value, mr_simtrain_sweep *out)
{
    variant v;
    mr_simtrain_result r;
    set_variant(&v, job, w, value);
    mr_status *st = mr_simtrain_run(&v.job, &r);
    variant_deinit(&v);
    if (st)
        return mr_status_prepend(st, "%s = %d: ", out->what, value);
    mr_simtrain_point p = {value, r.examples_per_s, r.step.median, r.step.p99, r.ps_busiest, r.steps_per_s};
    mr_vec_push(&out->points, p);
    mr_simtrain_result_deinit(&r);
    return NULL;
}

/* The relative gain of doubling, interpolated if the next point is not exactly twice as far. */
static double doubling_gain(const mr_simtrain_point *a, const mr_simtrain_point *b)
{
    return pow(b->examples_per_s / a->examples_per_s, 1 / log2(b->value / a->value)) - 1;
}

/* The conclusions hold for every row of the table: a flat part before rows that rise again is a dip, not a knee. */
void mr_simtrain_sweep_conclude(mr_simtrain_sweep *s)
{
    const mr_simtrain_point *p = s->points.p;
    double most = 0;
    int best = 0;
    s->knee = s->dip = NAN;
    for (int i = 0; i < s->points.n; i++)
        most = MR_MAX(most, p[i].examples_per_s);
    while (p[best].examples_per_s < ENOUGH * most)
        best++;
    bool flat = true; /* from this row to the end of the table */
    for (int i = s->points.n - 2; i >= 0 && s->doubles; i--) {
        bool pays = !(doubling_gain(&p[i], &p[i + 1]) < PAYS);
        flat &= !pays;
        if (flat)
            s->knee = p[i].value;
        if (!flat && !pays)
            s->dip = p[i].value;
    }
    if (!isnan(s->knee))
        s->dip = NAN;
    s->best = p[best].value;
}

static mr_status *find_what(const mr_simtrain_job *job, const char *name, what *out)
{
    for (*out = 0; *out < N_WHATS; (*out)++)
        if (strcmp(names[*out], name) == 0)
            break;
    if (*out == N_WHATS)
        return mr_invalid("Cannot sweep over '%s', expected workers, ps, backup or delay", name);
    if (*out == PS && job->mode == MR_SIMTRAIN_ALLREDUCE)
        return mr_invalid("The mode allreduce has no parameter servers to sweep over");
    if (*out == BACKUP && job->mode != MR_SIMTRAIN_SYNC)
        return mr_invalid("Backup workers need the mode sync, not %s", mr_simtrain_mode_name(job->mode));
    if (*out == DELAY && job->mode != MR_SIMTRAIN_BOUNDED)
        return mr_invalid("A sweep over the delay needs the mode bounded, not %s", mr_simtrain_mode_name(job->mode));
    return NULL;
}

mr_status *mr_simtrain_sweep_run(const mr_simtrain_job *job, const char *name, double from, double to, mr_simtrain_sweep *out)
{
    what w;
    *out = (mr_simtrain_sweep){.knee = NAN, .dip = NAN};
    MR_TRY(mr_simtrain_check(job));
    MR_TRY(find_what(job, name, &w));
    bool doubles = w == WORKERS || w == PS;
    if (!(from >= doubles && to >= from && to <= MR_SIMTRAIN_MAX_TASKS && from == floor(from) && to == floor(to)))
        return mr_invalid(
            "A sweep over %s from %g to %g is invalid: expected integers from %d to %d, the lower one first", name,
            from, to, doubles, MR_SIMTRAIN_MAX_TASKS);
    out->doubles = doubles;
    snprintf(out->what, sizeof out->what, "%s", name);
    int stride = (int)(to - from) / MAX_LISTED + 1;
    mr_status *st = NULL;
    for (int v = (int)from; !st; v = MR_MIN(doubles ? 2 * v : v + stride, (int)to)) {
        st = run_at(job, w, v, out);
        if (v == (int)to)
            break;
    }
    if (st)
        mr_simtrain_sweep_deinit(out);
    else
        mr_simtrain_sweep_conclude(out);
    return st;
}

void mr_simtrain_sweep_deinit(mr_simtrain_sweep *s)
{
    mr_vec_deinit(&s->points);
    *s = (mr_simtrain_sweep){.knee = NAN, .dip = NAN};
}
