/* run/blocking_work_test.c -- work that gets a thread, and work that is cancelled before. */
#include "run/blocking_work.h"

#include <pthread.h>

#include "base/blocking.h"
#include "base/busy_threads_fixture.h"
#include "base/thread.h"
#include "tests/harness/test.h"

typedef struct noted {
    mr_blocking_work work; /* first */
    mr_mutex mu;
    mr_cond changed;
    int n_calls MR_GUARDED_BY(mu);
    bool cancelled MR_GUARDED_BY(mu);
    pthread_t thread MR_GUARDED_BY(mu);
} noted;

static void note_call(mr_blocking_work *w, bool cancelled)
{
    noted *x = (noted *)w;
    mr_lock(&x->mu);
    x->n_calls++;
    x->cancelled = cancelled;
    x->thread = pthread_self();
    mr_cond_broadcast(&x->changed);
    mr_unlock(&x->mu);
}

static void noted_init(noted *x)
{
    *x = (noted){.work.fn = note_call};
    mr_mutex_init(&x->mu);
    mr_cond_init(&x->changed);
}

static void noted_deinit(noted *x)
{
    mr_cond_deinit(&x->changed);
    mr_mutex_deinit(&x->mu);
}

static void check_called(noted *x, int n, bool cancelled, bool here)
{
    mr_lock(&x->mu);
    while (x->n_calls < n)
        mr_cond_wait(&x->changed, &x->mu);
    MR_CHECK_INT(x->n_calls, n);
    MR_CHECK(x->cancelled == cancelled);
    MR_CHECK((pthread_equal(x->thread, pthread_self()) != 0) == here);
    mr_unlock(&x->mu);
}

MR_TEST(blocking_work_runs_in_another_thread_and_can_be_started_again)
{
    noted x;
    mr_cancel *c = mr_cancel_new(NULL);
    noted_init(&x);
    for (int i = 1; i <= 3; i++) {
        mr_blocking_work_start(&x.work, c);
        check_called(&x, i, false, false);
    }
    mr_cancel_start(c); /* it is over: nothing is called */
    check_called(&x, 3, false, false);
    mr_blocking_work_start(&x.work, c);
    check_called(&x, 4, true, true);
    mr_cancel_free(c);
    noted_deinit(&x);
}

MR_TEST(blocking_work_that_waits_for_a_thread_ends_when_it_is_cancelled)
{
    noted x, other;
    mr_cancel *c = mr_cancel_new(NULL), *others = mr_cancel_new(NULL);
    noted_init(&x);
    noted_init(&other);
    mr_busy_threads *busy = mr_busy_threads_new();
    mr_blocking_work_start(&x.work, c);
    mr_blocking_work_start(&other.work, others);
    MR_CHECK_INT(mr_blocking_look().n_queued, 2);
    mr_cancel_start(c);
    check_called(&x, 1, true, true);
    MR_CHECK_INT(mr_blocking_look().n_queued, 1);
    mr_busy_threads_free(busy);
    check_called(&other, 1, false, false);
    mr_cancel_free(c);
    mr_cancel_free(others);
    noted_deinit(&x);
    noted_deinit(&other);
}

/* Whichever comes first, the work is told once. */
MR_TEST(blocking_work_that_is_cancelled_as_it_starts_is_called_once)
{
    for (int i = 0; i < 200; i++) {
        noted x[8];
        mr_cancel *c = mr_cancel_new(NULL);
        for (int k = 0; k < 8; k++) {
            noted_init(&x[k]);
            mr_blocking_work_start(&x[k].work, c);
        }
        mr_cancel_start(c);
        for (int k = 0; k < 8; k++) {
            mr_lock(&x[k].mu);
            while (x[k].n_calls == 0)
                mr_cond_wait(&x[k].changed, &x[k].mu);
            MR_CHECK_INT(x[k].n_calls, 1);
            mr_unlock(&x[k].mu);
            noted_deinit(&x[k]);
        }
        mr_cancel_free(c);
    }
}
