/* base/busy_threads_fixture.c */
#include "base/busy_threads_fixture.h"

#include "base/blocking.h"
#include "base/memory.h"
#include "base/thread.h"
#include "tests/harness/test.h"

typedef struct busy_task {
    mr_task task; /* first */
    mr_busy_threads *all;
} busy_task;

struct mr_busy_threads {
    mr_mutex mu;
    mr_cond changed;
    int inside MR_GUARDED_BY(mu);
    bool open MR_GUARDED_BY(mu);
    busy_task tasks[MR_BLOCKING_MAX];
};

static void keep_thread(mr_task *t)
{
    mr_busy_threads *b = ((busy_task *)t)->all;
    mr_lock(&b->mu);
    b->inside++;
    mr_cond_broadcast(&b->changed);
    while (!b->open)
        mr_cond_wait(&b->changed, &b->mu);
    b->inside--;
    mr_cond_broadcast(&b->changed);
    mr_unlock(&b->mu);
}

mr_busy_threads *mr_busy_threads_new(void)
{
    mr_busy_threads *b = mr_new(mr_busy_threads);
    mr_mutex_init(&b->mu);
    mr_cond_init(&b->changed);
    for (int i = 0; i < MR_BLOCKING_MAX; i++) {
        b->tasks[i] = (busy_task){{keep_thread, NULL}, b};
        MR_CHECK(mr_blocking_submit(&b->tasks[i].task));
    }
    mr_lock(&b->mu);
    while (b->inside < MR_BLOCKING_MAX)
        mr_cond_wait(&b->changed, &b->mu);
    mr_unlock(&b->mu);
    return b;
}

void mr_busy_threads_free(mr_busy_threads *b)
{
    mr_lock(&b->mu);
    b->open = true;
    mr_cond_broadcast(&b->changed);
    while (b->inside > 0)
        mr_cond_wait(&b->changed, &b->mu);
    mr_unlock(&b->mu);
    mr_cond_deinit(&b->changed);
    mr_mutex_deinit(&b->mu);
    mr_free(b);
}
