/* sim/train/hosts.c -- tasks that share the cores of a host.
 *
 * All work of a host progresses at one rate: 1 while there are enough cores, otherwise the share that each gets. The
 * host's own time advances at that rate, so a piece of work ends at a fixed point of host time, however the rate
 * changes in between. The work is in a heap ordered by that point; only the next end is planned as an event. In the
 * event queue a host is one more task, whose generation changes whenever its work changes, which drops the end that was
 * planned before. */
#include "base/memory.h"
#include "sim/train/engine.h"

static int task_of(const mr_jobsim *s, int host) { return s->n_workers + s->n_ps + host; }

/* Parameter servers are assigned first, because they are started first. */
static int host_of(const mr_jobsim *s, int task)
{
    int place = task < s->n_workers ? s->n_ps + task : task - s->n_workers;
    return place % s->job->n_hosts;
}

static double host_rate(const mr_jobsim *s, const mr_jobsim_host *h)
{
    return h->wanted > s->job->cores ? s->job->cores / h->wanted : 1;
}

static void advance_host(mr_jobsim *s, mr_jobsim_host *h)
{
    double passed_s = s->now_s - h->looked_s;
    h->time += passed_s * host_rate(s, h);
    h->used_s += passed_s * MR_MIN(h->wanted, s->job->cores);
    h->looked_s = s->now_s;
}

static bool work_before(const mr_jobsim_work *a, const mr_jobsim_work *b)
{
    return a->end != b->end ? a->end < b->end : a->seq < b->seq;
}

static void sift_up(mr_jobsim_host *h, int i)
{
    mr_jobsim_work w = h->works.p[i];
    for (; i > 0 && work_before(&w, &h->works.p[(i - 1) / 2]); i = (i - 1) / 2)
        h->works.p[i] = h->works.p[(i - 1) / 2];
    h->works.p[i] = w;
}

static void sift_down(mr_jobsim_host *h, int i)
{
    mr_jobsim_work w = h->works.p[i];
    for (int k; (k = 2 * i + 1) < h->works.n; i = k) {
        if (k + 1 < h->works.n && work_before(&h->works.p[k + 1], &h->works.p[k]))
            k++;
        if (!work_before(&h->works.p[k], &w))
            break;
        h->works.p[i] = h->works.p[k];
    }
    h->works.p[i] = w;
}

static void plan_next_end(mr_jobsim *s, int host);

/* The first piece of work ends; any remainder is a rounding error. */
static void end_first(mr_jobsim *s, int task, int host)
{
    (void)task;
    mr_jobsim_host *h = &s->hosts[host];
    advance_host(s, h);
    mr_jobsim_work w = h->works.p[0], last = mr_vec_pop(&h->works);
    if (h->works.n) {
        h->works.p[0] = last;
        sift_down(h, 0);
    }
    h->wanted = h->works.n ? h->wanted - w.cores : 0;
    plan_next_end(s, host);
    if (s->generations[w.task] == w.generation)
        w.fn(s, w.task, w.arg);
}

static void plan_next_end(mr_jobsim *s, int host)
{
    mr_jobsim_host *h = &s->hosts[host];
    s->generations[task_of(s, host)]++;
    if (h->works.n)
        mr_jobsim_after(s, task_of(s, host), (h->works.p[0].end - h->time) / host_rate(s, h), end_first, host);
}

/* On a shared host, adding work may slow down the other work, so the next end is planned again. */
void mr_jobsim_compute(mr_jobsim *s, int task, double cores, double work_s, mr_jobsim_fn *fn, int arg)
{
    if (s->job->n_hosts == 0) {
        mr_jobsim_after(s, task, work_s, fn, arg);
        return;
    }
    int host = host_of(s, task);
    mr_jobsim_host *h = &s->hosts[host];
    advance_host(s, h);
    mr_jobsim_work w = {h->time + work_s, s->seq++, cores, fn, task, arg, s->generations[task]};
    mr_vec_push(&h->works, w);
    sift_up(h, h->works.n - 1);
    h->wanted += cores;
    plan_next_end(s, host);
}

/* Generations rarely end, so the heap is simply rebuilt. */
void mr_jobsim_forget_work(mr_jobsim *s, int task)
{
    if (s->job->n_hosts == 0)
        return;
    mr_jobsim_host *h = &s->hosts[host_of(s, task)];
    int n = h->works.n;
    advance_host(s, h);
    h->works.n = 0;
    h->wanted = 0;
    for (int i = 0; i < n; i++) {
        mr_jobsim_work w = h->works.p[i];
        if (w.task == task)
            continue;
        h->works.p[h->works.n++] = w;
        sift_up(h, h->works.n - 1);
        h->wanted += w.cores;
    }
    plan_next_end(s, host_of(s, task));
}

double mr_jobsim_core_seconds(const mr_jobsim *s)
{
    double sum = 0;
    for (int i = 0; i < s->job->n_hosts; i++) {
        const mr_jobsim_host *h = &s->hosts[i];
        sum += h->used_s + (s->now_s - h->looked_s) * MR_MIN(h->wanted, s->job->cores);
    }
    return sum;
}
