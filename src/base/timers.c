/* base/timers.c -- calling back at a time: a binary heap and one thread. */
#include "base/timers.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/vec.h"

struct mr_timers {
    mr_mutex mu;
    mr_cond changed;
    MR_VEC(mr_timer *) heap MR_GUARDED_BY(mu); /* the earliest first */
    mr_timer *running MR_GUARDED_BY(mu);
    bool stop MR_GUARDED_BY(mu);
    mr_thread thread;
};

static void put_timer(mr_timers *t, int place, mr_timer *e)
{
    t->heap.p[place] = e;
    e->place = place;
}

static void sift_up(mr_timers *t, int i)
{
    mr_timer *e = t->heap.p[i];
    for (; i > 0 && t->heap.p[(i - 1) / 2]->at_ns > e->at_ns; i = (i - 1) / 2)
        put_timer(t, i, t->heap.p[(i - 1) / 2]);
    put_timer(t, i, e);
}

static void sift_down(mr_timers *t, int i)
{
    mr_timer *e = t->heap.p[i];
    for (int child; (child = 2 * i + 1) < t->heap.n; i = child) {
        if (child + 1 < t->heap.n && t->heap.p[child + 1]->at_ns < t->heap.p[child]->at_ns)
            child++;
        if (t->heap.p[child]->at_ns >= e->at_ns)
            break;
        put_timer(t, i, t->heap.p[child]);
    }
    put_timer(t, i, e);
}

static void take_out(mr_timers *t, mr_timer *e)
{
    int i = e->place;
    mr_timer *last = t->heap.p[--t->heap.n];
    e->place = -1;
    if (last == e)
        return;
    put_timer(t, i, last);
    sift_down(t, i);
    sift_up(t, last->place);
}

/* The thread of the timers. Callbacks run without the lock, so they may set and clear timers. */
static void run_timers(void *arg)
{
    mr_timers *t = arg;
    mr_lock(&t->mu);
    while (!t->stop) {
        mr_timer *e = t->heap.n ? t->heap.p[0] : NULL;
        if (!e) {
            mr_cond_wait(&t->changed, &t->mu);
        } else if (e->at_ns > mr_now_ns()) {
            mr_cond_wait_until(&t->changed, &t->mu, e->at_ns);
        } else {
            take_out(t, e);
            t->running = e;
            void (*fn)(mr_timer *) = e->fn;
            mr_unlock(&t->mu);
            fn(e); /* the timer may be freed by it */
            mr_lock(&t->mu);
            t->running = NULL;
            mr_cond_broadcast(&t->changed);
        }
    }
    mr_unlock(&t->mu);
}

mr_status *mr_timers_new(mr_timers **out)
{
    mr_timers *t = mr_new(mr_timers);
    mr_mutex_init(&t->mu);
    mr_cond_init(&t->changed);
    if (mr_thread_start(&t->thread, "millrace-timer", run_timers, t) == 0) {
        *out = t;
        return NULL;
    }
    mr_cond_deinit(&t->changed);
    mr_mutex_deinit(&t->mu);
    mr_free(t);
    *out = NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "Cannot start the thread for timers");
}

void mr_timers_free(mr_timers *t)
{
    if (!t)
        return;
    mr_lock(&t->mu);
    t->stop = true;
    mr_cond_broadcast(&t->changed);
    mr_unlock(&t->mu);
    mr_thread_join(&t->thread);
    mr_vec_deinit(&t->heap);
    mr_cond_deinit(&t->changed);
    mr_mutex_deinit(&t->mu);
    mr_free(t);
}

void mr_timers_set(mr_timers *t, mr_timer *e, int64_t at_ns, void (*fn)(mr_timer *))
{
    mr_lock(&t->mu);
    *e = (mr_timer){.fn = fn, .at_ns = at_ns}; /* under the lock: another thread may be clearing it */
    mr_vec_push(&t->heap, e);
    put_timer(t, t->heap.n - 1, e);
    sift_up(t, t->heap.n - 1);
    if (t->heap.p[0] == e)
        mr_cond_broadcast(&t->changed);
    mr_unlock(&t->mu);
}

bool mr_timers_clear(mr_timers *t, mr_timer *e)
{
    mr_lock(&t->mu);
    bool there = e->fn && e->place >= 0 && e->place < t->heap.n && t->heap.p[e->place] == e;
    if (there)
        take_out(t, e);
    while (!there && t->running == e && !pthread_equal(t->thread.t, pthread_self()))
        mr_cond_wait(&t->changed, &t->mu);
    mr_unlock(&t->mu);
    return there;
}
