/* sim/train/result.c -- the counts of a running job, and the result at its end. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "sim/train/engine.h"

enum { MAX_SAMPLES = 1 << 20, PROGRESS_POINTS = 200, MAX_PROGRESS = 4 * PROGRESS_POINTS };

/* ---- samples ---- */

/* If there are very many samples, only one of every few is kept. */
mr_status *mr_jobsim_samples_init(mr_jobsim_samples *a, int64_t expected)
{
    a->every = expected / MAX_SAMPLES + 1;
    a->cap = expected / a->every + 1;
    a->p = mr_try_alloc((size_t)a->cap * sizeof *a->p);
    return a->p ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %lld samples", (long long)a->cap);
}

/* Steps repeated after a crash may exceed the expected number: then the last ones are left out. */
void mr_jobsim_sample(mr_jobsim_samples *a, double v)
{
    if (++a->skipped < a->every || a->n == a->cap)
        return;
    a->skipped = 0;
    a->p[a->n++] = v;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest sample that is at least as large as a share q of all: a time that some step really took. */
static double sample_quantile(const mr_jobsim_samples *a, double q)
{
    int64_t rank = (int64_t)ceil(q * (double)a->n - 1e-9);
    return a->p[MR_MAX(rank, 1) - 1];
}

static mr_simtrain_dist describe_samples(mr_jobsim_samples *a)
{
    mr_simtrain_dist d = {.n = a->n};
    if (a->n == 0)
        return d;
    qsort(a->p, (size_t)a->n, sizeof *a->p, compare_doubles);
    for (int64_t i = 0; i < a->n; i++)
        d.mean += a->p[i] / (double)a->n;
    d.min = a->p[0];
    d.max = a->p[a->n - 1];
    d.p10 = sample_quantile(a, 0.1);
    d.median = sample_quantile(a, 0.5);
    d.p90 = sample_quantile(a, 0.9);
    d.p99 = sample_quantile(a, 0.99);
    return d;
}

/* ---- shares of time ---- */

/* The time of a parameter server is booked when a message arrives, so booked time after now must be subtracted. On a
 * shared host it is booked when the message is done, so the current message must be added. */
static double ps_busy_s(const mr_jobsim *s, int ps)
{
    const mr_jobsim_ps *p = &s->ps[ps];
    double ahead_s = MR_MAX(0, p->free_s[0] - s->now_s) + MR_MAX(0, p->free_s[1] - s->now_s);
    return p->busy_s - ahead_s + (p->serving ? s->now_s - p->free_s[0] : 0);
}

static double nic_s(const mr_jobsim *s)
{
    double sum = 0;
    for (int i = 0; i < s->n_workers; i++)
        sum += s->workers[i].nic_s;
    return sum;
}

/* Points are evenly spaced in steps, and there are further ones around each crash. If crashes make too many of them,
 * every second one is dropped, and later ones are twice as far apart. */
void mr_jobsim_progress(mr_jobsim *s)
{
    mr_simtrain_result *r = s->result;
    if (s->progress_every == 0)
        s->progress_every = (double)s->want / PROGRESS_POINTS;
    if (r->progress.n == MAX_PROGRESS) {
        for (int i = 1; i < MAX_PROGRESS / 2; i++)
            r->progress.p[i] = r->progress.p[2 * i];
        r->progress.n = MAX_PROGRESS / 2;
        s->progress_every *= 2;
    }
    mr_vec_push(&r->progress, ((mr_simtrain_progress){s->now_s, mr_jobsim_steps(s, s->done)}));
    s->progress_next = (double)s->done + s->progress_every;
}

void mr_jobsim_warm(mr_jobsim *s)
{
    s->warm = true;
    s->warm_s = s->update_s = s->now_s;
    s->warm_examples = s->examples;
    s->warm_done = s->done;
    for (int i = 0; i < s->n_workers; i++) {
        mr_simtrain_worker *sum = &s->workers[i].sum; /* only times begin at the end of the warm-up */
        *sum = (mr_simtrain_worker){.steps = sum->steps, .dropped = sum->dropped, .last = sum->last};
    }
    for (int i = 0; i < s->n_ps; i++)
        s->at_warm.by_ps[i] = ps_busy_s(s, i);
    s->at_warm.nic = nic_s(s);
    s->at_warm.chief = s->chief_s;
    s->at_warm.core = mr_jobsim_core_seconds(s);
}

static void share_servers(mr_jobsim *s, double took_s)
{
    mr_simtrain_result *r = s->result;
    int lanes = s->job->duplex ? 2 : 1;
    for (int i = 0; i < s->n_ps; i++) {
        double share = (ps_busy_s(s, i) - s->at_warm.by_ps[i]) / took_s / lanes;
        r->ps_busy += share / s->n_ps;
        r->ps_busiest = MR_MAX(r->ps_busiest, share);
    }
}

static void share_time(mr_jobsim *s, double took_s)
{
    mr_simtrain_result *r = s->result;
    const mr_simtrain_job *j = s->job;
    r->examples_per_s = MR_MAX(0, s->examples - s->warm_examples) / took_s;
    r->steps_per_s = (double)MR_MAX(0, s->done - s->warm_done) / took_s;
    share_servers(s, took_s);
    for (int i = 0; i < s->n_workers; i++)
        r->worker_busy += s->workers[i].sum.busy_s / took_s / s->n_workers;
    r->worker_nic_busy = (nic_s(s) - s->at_warm.nic) / took_s / s->n_workers / 2;
    r->chief_busy = (s->chief_s - s->at_warm.chief) / took_s;
    if (j->n_hosts > 0)
        r->core_busy = (mr_jobsim_core_seconds(s) - s->at_warm.core) / took_s / (j->cores * j->n_hosts);
}

void mr_jobsim_count_idle(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    double *sum = w->loss >= 0 ? &w->sum.down_s : &w->sum.wait_s;
    *sum += MR_MAX(0, s->now_s - MR_MAX(w->free_s, s->warm_s));
}

void mr_jobsim_conclude(mr_jobsim *s)
{
    mr_simtrain_result *r = s->result;
    double took_s = s->now_s - s->warm_s;
    mr_jobsim_end_cuts(s);
    r->total_s = s->now_s;
    r->step = describe_samples(&s->steps);
    r->staleness = describe_samples(&s->staleness);
    if (took_s > 0)
        share_time(s, took_s);
    for (int i = 0; i < s->n_workers; i++) {
        if (s->workers[i].phase != MR_JOBSIM_STEP)
            mr_jobsim_count_idle(s, i); /* it is down or waits at the end */
        r->workers[i] = s->workers[i].sum;
    }
}
