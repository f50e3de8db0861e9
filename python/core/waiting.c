/* waiting.c -- calls that wait in a thread of their own, while the caller's looks for signals. */
#include "waiting.h"

#include <time.h>

static void *wait_thread(void *arg)
{
    py_waiting *w = arg;
    w->fn(w);
    pthread_mutex_lock(&w->mu);
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

bool py_wait_a_little(pthread_mutex_t *mu, pthread_cond_t *changed, const bool *done)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(mu);
    if (!*done)
        pthread_cond_timedwait(changed, mu, &until);
    bool is_done = *done;
    pthread_mutex_unlock(mu);
    return is_done;
}

bool py_wait_for(py_waiting *w)
{
    pthread_t thread;
    bool raised = false;
    w->st = py_status_new();
    if (!w->st)
        return false;
    pthread_mutex_init(&w->mu, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (pthread_create(&thread, NULL, wait_thread, w) != 0) {
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->mu);
        TF_DeleteStatus(w->st);
        PyErr_NoMemory();
        return false;
    }
    for (bool done = false; !done;) {
        Py_BEGIN_ALLOW_THREADS
        done = py_wait_a_little(&w->mu, &w->changed, &w->done);
        Py_END_ALLOW_THREADS
        if (!raised && PyErr_CheckSignals() < 0) {
            raised = true;
            w->stop(w);
        }
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mu);
    if (raised) {
        TF_DeleteStatus(w->st);
        return false;
    }
    return py_status_ok(w->st);
}
