/* base/blocking_test.c */
#include "base/blocking.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "tests/harness/test.h"

/* Tasks that wait until all of them are there, or the gate is opened. */
typedef struct gate {
    mr_mutex mu;
    mr_cond changed;
    int inside, done, opens_at;
} gate;

typedef struct gate_task {
    mr_task task;
    gate *gate;
} gate_task;

static void gate_init(gate *g, int opens_at)
{
    *g = (gate){.opens_at = opens_at};
    mr_mutex_init(&g->mu);
    mr_cond_init(&g->changed);
}

static void gate_deinit(gate *g)
{
    mr_cond_deinit(&g->changed);
    mr_mutex_deinit(&g->mu);
}

static void pass_gate(mr_task *t)
{
    gate *g = ((gate_task *)t)->gate;
    mr_lock(&g->mu);
    g->inside++;
    mr_cond_broadcast(&g->changed);
    while (g->inside < g->opens_at)
        mr_cond_wait(&g->changed, &g->mu);
    g->done++;
    mr_cond_broadcast(&g->changed);
    mr_unlock(&g->mu);
}

static void wait_for_done(gate *g, int n)
{
    mr_lock(&g->mu);
    while (g->done < n)
        mr_cond_wait(&g->changed, &g->mu);
    mr_unlock(&g->mu);
}

static gate_task *submit_all(gate *g, int n)
{
    gate_task *tasks = mr_new_array(gate_task, n);
    for (int i = 0; i < n; i++) {
        tasks[i] = (gate_task){{pass_gate, NULL}, g};
        MR_CHECK(mr_blocking_submit(&tasks[i].task));
    }
    return tasks;
}

MR_TEST(blocking_tasks_that_wait_for_each_other_all_run)
{
    for (int round = 0; round < 3; round++) {
        gate g;
        gate_init(&g, 50);
        gate_task *tasks = submit_all(&g, 50);
        wait_for_done(&g, 50);
        MR_CHECK(!mr_blocking_withdraw(&tasks[0].task));
        mr_free(tasks);
        gate_deinit(&g);
    }
}

/* All threads are kept by a gate that never opens by itself; what comes later waits for one, and may be taken back. */
MR_TEST(blocking_threads_are_bounded_and_what_waits_can_be_withdrawn)
{
    enum { EXTRA = 4 };
    gate g;
    gate_init(&g, 2 * MR_BLOCKING_MAX);
    gate_task *tasks = submit_all(&g, MR_BLOCKING_MAX);
    mr_lock(&g.mu);
    while (g.inside < MR_BLOCKING_MAX)
        mr_cond_wait(&g.changed, &g.mu);
    mr_unlock(&g.mu);
    gate_task *more = submit_all(&g, EXTRA), early = {{pass_gate, NULL}, &g};
    MR_CHECK(!mr_blocking_withdraw(&early.task)); /* a cancellation that comes before the task */
    MR_CHECK(!mr_blocking_submit(&early.task));
    mr_blocking_state s = mr_blocking_look();
    MR_CHECK_INT(s.n_threads, MR_BLOCKING_MAX);
    MR_CHECK_INT(s.n_queued, EXTRA);
    MR_CHECK(mr_blocking_withdraw(&more[1].task));
    MR_CHECK(!mr_blocking_withdraw(&more[1].task));
    MR_CHECK(mr_blocking_withdraw(&more[EXTRA - 1].task)); /* the last one */
    MR_CHECK(!mr_blocking_withdraw(&tasks[0].task));
    mr_lock(&g.mu);
    g.opens_at = 0;
    mr_cond_broadcast(&g.changed);
    mr_unlock(&g.mu);
    wait_for_done(&g, MR_BLOCKING_MAX + EXTRA - 2);
    mr_free(tasks);
    mr_free(more);
    gate_deinit(&g);
}
