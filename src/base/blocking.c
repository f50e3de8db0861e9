/* base/blocking.c -- one queue for the process, and threads that are started and ended on demand.
 *
 * A thread is started whenever a task is submitted and the queue already holds a task for each idle
 * thread.  So no task waits for a thread while fewer than MR_BLOCKING_MAX exist.  n_idle counts the
 * threads that wait for a task, including those that were signalled and have not run yet; each of them
 * takes one task off the queue.  Threads are detached: the owner of a task waits for the task.
 *
 * A child of fork has none of the threads, so it begins with none and with an empty queue. */
#include "base/blocking.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/simd.h"
#include "base/thread.h"

#define PATIENCE_NS 5000000000 /* an idle thread ends after this */

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_cond work;
static mr_task *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu);
static mr_blocking_state now MR_GUARDED_BY(mu);
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The lock is held during fork, so that its state is consistent in the child. */
static void before_fork(void) MR_NO_TSA { mr_lock(&mu); }
static void after_fork(void) MR_NO_TSA { mr_unlock(&mu); }

static void begin_child(void) MR_NO_TSA
{
    mr_cond_init(&work);
    head = tail = NULL;
    now = (mr_blocking_state){0};
    mr_unlock(&mu);
}

static void begin_process(void)
{
    mr_cond_init(&work);
    pthread_atfork(before_fork, after_fork, begin_child);
}

/* The next task; NULL if none came for a while. Then this thread is no longer counted. */
static mr_task *next_task(void)
{
    mr_lock(&mu);
    int64_t until = mr_now_ns() + PATIENCE_NS;
    now.n_idle++;
    for (bool in_time = true; !head && in_time;)
        in_time = mr_cond_wait_until(&work, &mu, until);
    now.n_idle--;
    mr_task *t = head;
    if (t) {
        if (!(head = t->next))
            tail = NULL;
        now.n_queued--;
    } else {
        now.n_threads--;
    }
    mr_unlock(&mu);
    return t;
}

static void thread_main(void *unused)
{
    (void)unused;
    mr_denormals_flush();
    for (mr_task *t; (t = next_task());)
        t->fn(t); /* t may be freed or submitted again by its own function */
}

/* False if the system cannot start a thread. */
static bool start_thread_locked(void)
{
    mr_thread t;
    if (mr_thread_start(&t, "blocking", thread_main, NULL) != 0)
        return false;
    pthread_detach(t.t);
    now.n_threads++;
    return true;
}

/* Appends the task and makes sure that a thread will take it; false if it was withdrawn or no thread can be started. */
static bool submit_locked(mr_task *t)
{
    MR_ASSERT(t->fn && t != tail); /* a task is in the queue once at most */
    bool withdrawn = t->next == t;
    t->next = NULL;
    if (withdrawn)
        return false;
    bool needs_one = now.n_queued >= now.n_idle && now.n_threads < MR_BLOCKING_MAX;
    if (needs_one && !start_thread_locked() && now.n_threads == 0)
        return false;
    if (tail)
        tail->next = t;
    else
        head = t;
    tail = t;
    now.n_queued++;
    if (now.n_idle > 0)
        mr_cond_signal(&work);
    return true;
}

bool mr_blocking_submit(mr_task *t)
{
    pthread_once(&once, begin_process);
    mr_lock(&mu);
    bool submitted = submit_locked(t);
    mr_unlock(&mu);
    return submitted;
}

/* A task that is not queued is marked: if it has not been submitted yet, mr_blocking_submit will refuse it. */
bool mr_blocking_withdraw(mr_task *t)
{
    mr_task *before = NULL;
    mr_lock(&mu);
    mr_task *at = head;
    for (; at && at != t; at = at->next)
        before = at;
    if (at) {
        if (before)
            before->next = t->next;
        else
            head = t->next;
        if (tail == t)
            tail = before;
        now.n_queued--;
    }
    t->next = at ? NULL : t;
    mr_unlock(&mu);
    return at != NULL;
}

mr_blocking_state mr_blocking_look(void)
{
    mr_lock(&mu);
    mr_blocking_state s = now;
    mr_unlock(&mu);
    return s;
}
