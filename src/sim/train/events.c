/* sim/train/events.c -- virtual time: events in a heap, and random numbers from seeds.
 *
 * The heap is a hand-written growing array because its size depends on the job: if memory runs out, the run fails with
 * an error. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/engine.h"

void mr_jobsim_fail(mr_jobsim *s, mr_status *st)
{
    if (!s->st)
        s->st = st;
    else
        mr_status_free(st);
    s->ended = true;
}

static bool event_before(const mr_jobsim_event *a, const mr_jobsim_event *b)
{
    return a->at_s != b->at_s ? a->at_s < b->at_s : a->seq < b->seq;
}

static bool grow_heap(mr_jobsim *s)
{
    size_t cap = s->cap_heap ? s->cap_heap * 2 : 1024;
    mr_jobsim_event *p = mr_try_realloc(s->heap, cap * sizeof *p);
    if (!p) {
        mr_jobsim_fail(s, mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %zu simulated events", cap));
        return false;
    }
    s->heap = p;
    s->cap_heap = cap;
    return true;
}

void mr_jobsim_after(mr_jobsim *s, int task, double s_later, mr_jobsim_fn *fn, int arg)
{
    if (s->n_heap == s->cap_heap && !grow_heap(s))
        return;
    mr_jobsim_event e = {s->now_s + MR_MAX(s_later, 0), s->seq++, fn, task, arg, task >= 0 ? s->generations[task] : 0};
    size_t i = s->n_heap++;
    for (; i > 0 && event_before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static void sift_down(mr_jobsim *s, mr_jobsim_event e)
{
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < s->n_heap; i = k) {
        if (k + 1 < s->n_heap && event_before(&s->heap[k + 1], &s->heap[k]))
            k++;
        if (!event_before(&s->heap[k], &e))
            break;
        s->heap[i] = s->heap[k];
    }
    s->heap[i] = e;
}

/* A job that makes no progress, because crashes come faster than it works, ends when its budget of events is used
 * up. A cancelled job ends before its next event. */
static bool may_go_on(mr_jobsim *s)
{
    if (mr_cancel_flag_is_set(s->job->cancelled)) {
        mr_jobsim_fail(s, mr_cancel_flag_check(s->job->cancelled));
        return false;
    }
    if (s->budget-- > 0)
        return true;
    mr_jobsim_fail(s, mr_error(MR_FAILED_PRECONDITION,
                               "The job makes no progress: after %.6g s it has done %lld of %lld steps", s->now_s,
                               (long long)s->done, (long long)s->want));
    return false;
}

bool mr_jobsim_next(mr_jobsim *s)
{
    if (s->ended || s->n_heap == 0 || !may_go_on(s))
        return false;
    mr_jobsim_event e = s->heap[0], last = s->heap[--s->n_heap];
    if (s->n_heap > 0)
        sift_down(s, last);
    MR_ASSERT(e.at_s >= s->now_s);
    s->now_s = e.at_s;
    s->result->events++;
    if (e.task < 0 || s->generations[e.task] == e.generation)
        e.fn(s, e.task, e.arg);
    return true;
}

/* ---- random numbers ---- */

uint64_t mr_jobsim_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double mr_jobsim_uniform(uint64_t *state) { return (double)((mr_jobsim_random(state) >> 11) + 1) * 0x1p-53; }

double mr_jobsim_exponential(uint64_t *state, double mean) { return mean > 0 ? -mean * log(mr_jobsim_uniform(state)) : 0; }

/* Inverts its distribution (1 - e^-x)^n, which needs one random number instead of n. */
double mr_jobsim_longest(uint64_t *state, double mean, int n)
{
    if (!(mean > 0) || n < 1)
        return 0;
    double u = MR_MIN(mr_jobsim_uniform(state), 1 - 0x1p-53);
    return -mean * log(-expm1(log(u) / n));
}

double mr_jobsim_normal(uint64_t *state)
{
    double r = sqrt(-2 * log(mr_jobsim_uniform(state)));
    return r * cos(6.283185307179586 * mr_jobsim_uniform(state));
}
