/* base/thread.c -- mutexes, condition variables and threads over pthread. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"

/* pthread calls on well-formed objects fail only through a mistake of ours. */
static void check_success(int err)
{
    MR_ASSERT(err == 0);
    (void)err;
}

void mr_mutex_init(mr_mutex *mu) { check_success(pthread_mutex_init(&mu->m, NULL)); }

void mr_mutex_deinit(mr_mutex *mu) { check_success(pthread_mutex_destroy(&mu->m)); }

void mr_cond_init(mr_cond *c)
{
    pthread_condattr_t attr;
    check_success(pthread_condattr_init(&attr));
    check_success(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC)); /* deadlines survive a set clock */
    check_success(pthread_cond_init(&c->c, &attr));
    check_success(pthread_condattr_destroy(&attr));
}

void mr_cond_deinit(mr_cond *c) { check_success(pthread_cond_destroy(&c->c)); }

void mr_cond_wait(mr_cond *c, mr_mutex *mu) { check_success(pthread_cond_wait(&c->c, &mu->m)); }

bool mr_cond_wait_until(mr_cond *c, mr_mutex *mu, int64_t deadline_ns)
{
    int64_t at = MR_MAX(deadline_ns, 0);
    struct timespec t = {at / 1000000000, at % 1000000000};
    int err = pthread_cond_timedwait(&c->c, &mu->m, &t);
    check_success(err == ETIMEDOUT ? 0 : err);
    return err != ETIMEDOUT;
}

void mr_cond_signal(mr_cond *c) { check_success(pthread_cond_signal(&c->c)); }

void mr_cond_broadcast(mr_cond *c) { check_success(pthread_cond_broadcast(&c->c)); }

/* The arguments of a new thread; it frees them. */
typedef struct start_info {
    char name[16];
    void (*fn)(void *);
    void *arg;
} start_info;

static void *thread_main(void *p)
{
    start_info info = *(start_info *)p;
    mr_free(p);
    if (info.name[0])
        pthread_setname_np(pthread_self(), info.name);
    info.fn(info.arg);
    return NULL;
}

int mr_thread_start(mr_thread *t, const char *name, void (*fn)(void *), void *arg)
{
    MR_ASSERT(fn);
    start_info *info = mr_new(start_info);
    info->fn = fn;
    info->arg = arg;
    snprintf(info->name, sizeof(info->name), "%s", name ? name : "");
    /* The host's signal handlers run on the host's threads, never on ours. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&t->t, NULL, thread_main, info);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        mr_free(info);
    return err;
}

void mr_thread_join(mr_thread *t) { check_success(pthread_join(t->t, NULL)); }
