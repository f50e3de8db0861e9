/* base/pool_test.c */
#include "base/pool.h"

#include <float.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/simd.h"
#include "base/thread.h"
#include "tests/harness/test.h"

static mr_pool *pool_of(int n)
{
    mr_pool *p;
    MR_CHECK_OK(mr_pool_new("test", n, &p));
    return p;
}

/* ---- tasks ---- */

typedef struct counter_task {
    mr_task task;
    _Atomic int *count;
} counter_task;

static void count_one(mr_task *t) { atomic_fetch_add(((counter_task *)t)->count, 1); }

static void submit_counters(mr_pool *p, counter_task *tasks, int n, _Atomic int *count)
{
    for (int i = 0; i < n; i++) {
        tasks[i] = (counter_task){{count_one, NULL}, count};
        mr_pool_submit(p, &tasks[i].task);
    }
}

MR_TEST(pool_refuses_no_threads_and_too_many)
{
    mr_pool *p;
    MR_CHECK_ERR(mr_pool_new("t", 0, &p), MR_INVALID_ARGUMENT, "0 threads");
    MR_CHECK_ERR(mr_pool_new("t", MR_POOL_MAX_THREADS + 1, &p), MR_INVALID_ARGUMENT,
                 "4097 threads");
}

MR_TEST(pool_free_runs_what_is_queued)
{
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        counter_task tasks[1000];
        _Atomic int count = 0;
        mr_pool *p = pool_of(n_threads);
        MR_CHECK_INT(mr_pool_threads(p), n_threads);
        submit_counters(p, tasks, 1000, &count);
        mr_pool_free(p);
        MR_CHECK_INT(count, 1000);
    }
    mr_pool_free(NULL);
}

MR_TEST(pool_of_one_runs_a_task_before_submit_returns)
{
    mr_pool *p = pool_of(1);
    counter_task t;
    _Atomic int count = 0;
    submit_counters(p, &t, 1, &count);
    MR_CHECK_INT(count, 1);
    MR_CHECK(!mr_pool_help(p));
    mr_pool_free(p);
}

/* Each task submits the next one and notes how deep the stack is. */
typedef struct chain_task {
    mr_task task;
    mr_pool *pool;
    int left;
    char *base;
    ptrdiff_t deepest;
    _Atomic bool done;
} chain_task;

static void chain_step(mr_task *t)
{
    chain_task *c = (chain_task *)t;
    if (c->base)
        c->deepest = MR_MAX(c->deepest, c->base - (char *)__builtin_frame_address(0));
    if (--c->left > 0)
        mr_pool_submit(c->pool, t);
    else
        atomic_store(&c->done, true);
}

MR_TEST(pool_of_one_runs_chains_in_flat_stack)
{
    mr_pool *p = pool_of(1);
    chain_task c = {{chain_step, NULL}, p, 100000, __builtin_frame_address(0), 0, false};
    mr_pool_submit(p, &c.task);
    MR_CHECK(c.done);
    MR_CHECK(c.deepest < 16384);
    mr_pool_free(p);
}

MR_TEST(pool_runs_a_task_that_submits_itself)
{
    mr_pool *p = pool_of(3);
    chain_task c = {{chain_step, NULL}, p, 20000, NULL, 0, false};
    mr_pool_submit(p, &c.task);
    while (!atomic_load(&c.done))
        mr_pool_help(p);
    mr_pool_free(p);
    MR_CHECK_INT(c.left, 0);
}

/* Lets workers fall asleep between submissions: a lost wake-up would hang the test. */
MR_TEST(pool_wakes_sleeping_workers)
{
    mr_pool *p = pool_of(3);
    _Atomic int count = 0;
    for (int i = 0; i < 300; i++) {
        counter_task t[2];
        submit_counters(p, t, 2, &count);
        while (atomic_load(&count) != 2 * (i + 1))
            mr_sleep_ns(1000);
        mr_sleep_ns((int64_t)(mr_test_random() % 100000)); /* about the time they spin */
    }
    mr_pool_free(p);
}

typedef struct flood {
    mr_pool *pool;
    _Atomic int *count;
    counter_task tasks[2000];
} flood;

static void flood_main(void *arg)
{
    flood *f = arg;
    submit_counters(f->pool, f->tasks, MR_COUNT(f->tasks), f->count);
}

MR_TEST(pool_takes_tasks_from_many_threads)
{
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        mr_pool *p = pool_of(n_threads);
        flood *f = mr_new_array(flood, 4);
        mr_thread threads[4];
        _Atomic int count = 0;
        for (int i = 0; i < 4; i++) {
            f[i].pool = p;
            f[i].count = &count;
            MR_CHECK_INT(mr_thread_start(&threads[i], "flood", flood_main, &f[i]), 0);
        }
        for (int i = 0; i < 4; i++)
            mr_thread_join(&threads[i]);
        mr_pool_free(p);
        MR_CHECK_INT(count, 4 * 2000);
        mr_free(f);
    }
}

/* Another thread frees the pool as soon as the task has run, while its submitter may still be inside mr_pool_submit. */
typedef struct handed_pool {
    mr_pool *pool;
    _Atomic int count;
} handed_pool;

static void free_when_counted(void *arg)
{
    handed_pool *h = arg;
    while (atomic_load(&h->count) == 0)
        ;
    mr_pool_free(h->pool);
}

MR_TEST(pool_may_be_freed_as_soon_as_its_tasks_have_run)
{
    for (int i = 0; i < 200; i++) {
        handed_pool h = {pool_of(1 + i % 2), 0};
        counter_task t;
        mr_thread freer;
        MR_CHECK_INT(mr_thread_start(&freer, "freer", free_when_counted, &h), 0);
        submit_counters(h.pool, &t, 1, &h.count);
        mr_thread_join(&freer);
    }
}

/* ---- loops ---- */

#define LOOP_N 10007

typedef struct loop_ctx {
    mr_pool *pool;
    _Atomic int n_calls;
    _Atomic uint8_t seen[LOOP_N];
} loop_ctx;

static void mark(void *arg, int64_t begin, int64_t end)
{
    loop_ctx *c = arg;
    MR_CHECK(0 <= begin && begin < end && end <= LOOP_N);
    atomic_fetch_add(&c->n_calls, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&c->seen[i], 1);
}

static void check_covered(const loop_ctx *c, int times)
{
    for (int i = 0; i < LOOP_N; i++)
        if (c->seen[i] != times)
            mr_test_fail(__FILE__, __LINE__, "element %d was done %d times", i, c->seen[i]);
}

MR_TEST(pool_for_covers_each_element_once)
{
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        mr_pool *p = pool_of(n_threads);
        for (int i = 0; i < 100; i++) {
            loop_ctx *c = mr_new(loop_ctx);
            mr_pool_for(p, LOOP_N, 1000, mark, c);
            check_covered(c, 1);
            mr_free(c);
        }
        mr_pool_free(p);
    }
}

MR_TEST(pool_for_does_nothing_for_no_elements)
{
    mr_pool_for(NULL, 0, 1, NULL, NULL);
    mr_pool_for(NULL, -5, 1, NULL, NULL);
}

MR_TEST(pool_for_does_not_split_cheap_loops)
{
    mr_pool *p = pool_of(3);
    loop_ctx *c = mr_new(loop_ctx);
    mr_pool_for(p, LOOP_N, 0.1, mark, c);
    mr_pool_for(p, LOOP_N, NAN, mark, c);
    mr_pool_for(NULL, LOOP_N, 1e9, mark, c);
    MR_CHECK_INT(c->n_calls, 3);
    check_covered(c, 3);
    mr_free(c);
    mr_pool_free(p);
}

MR_TEST(pool_for_splits_the_same_way_each_time)
{
    mr_pool *p = pool_of(3);
    for (int i = 0; i < 50; i++) {
        loop_ctx *c = mr_new(loop_ctx);
        mr_pool_for(p, LOOP_N, INFINITY, mark, c);
        MR_CHECK_INT(c->n_calls, 12);
        mr_free(c);
    }
    mr_pool_free(p);
}

static void mark_nested(void *arg, int64_t begin, int64_t end)
{
    loop_ctx *c = arg;
    for (int64_t i = begin; i < end; i++)
        mr_pool_for(c->pool, LOOP_N, 100, mark, c);
}

MR_TEST(pool_for_nests)
{
    mr_pool *p = pool_of(4);
    loop_ctx *c = mr_new(loop_ctx);
    c->pool = p;
    mr_pool_for(p, 100, 1e9, mark_nested, c);
    check_covered(c, 100);
    mr_free(c);
    mr_pool_free(p);
}

typedef struct loop_task {
    mr_task task;
    loop_ctx *ctx;
} loop_task;

static void loop_in_task(mr_task *t)
{
    loop_ctx *c = ((loop_task *)t)->ctx;
    mr_pool_for(c->pool, LOOP_N, 100, mark, c);
}

MR_TEST(pool_for_runs_inside_tasks_on_all_workers_at_once)
{
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        mr_pool *p = pool_of(n_threads);
        loop_ctx *c = mr_new(loop_ctx);
        c->pool = p;
        loop_task tasks[100];
        for (int i = 0; i < 100; i++) {
            tasks[i] = (loop_task){{loop_in_task, NULL}, c};
            mr_pool_submit(p, &tasks[i].task);
        }
        mr_pool_free(p);
        check_covered(c, 100);
        mr_free(c);
    }
}

/* ---- guests ---- */

#define PATIENCE_NS 10000000000 /* what does not come in this time never comes */

/* A place where n threads meet: each waits for the others. */
typedef struct meeting {
    mr_mutex mu;
    mr_cond more;
    int n, present;
} meeting;

static void meeting_init(meeting *m, int n)
{
    *m = (meeting){.n = n};
    mr_mutex_init(&m->mu);
    mr_cond_init(&m->more);
}

static void meeting_deinit(meeting *m)
{
    mr_cond_deinit(&m->more);
    mr_mutex_deinit(&m->mu);
}

static bool meet(meeting *m)
{
    int64_t until = mr_now_ns() + PATIENCE_NS;
    mr_lock(&m->mu);
    m->present++;
    mr_cond_broadcast(&m->more);
    bool in_time = true;
    while (m->present < m->n && in_time)
        in_time = mr_cond_wait_until(&m->more, &m->mu, until);
    bool met = m->present >= m->n;
    mr_unlock(&m->mu);
    return met;
}

typedef struct shared_loop {
    mr_task task;
    mr_pool *pool;
    mr_guest *guest;
    meeting *meeting;
    _Atomic bool met;
} shared_loop;

static void meet_in_part(void *arg, int64_t begin, int64_t end)
{
    shared_loop *s = arg;
    (void)begin, (void)end;
    if (!meet(s->meeting))
        atomic_store(&s->met, false);
}

static void open_shared_loop(mr_task *t)
{
    shared_loop *s = (shared_loop *)t;
    mr_pool_for(s->pool, 8, 1e9, meet_in_part, s);
    mr_pool_recall(s->pool, s->guest);
}

/* The one worker opens a loop whose parts wait for each other: it needs the thread that waits for the task. */
MR_TEST(pool_guest_joins_the_loop_of_a_worker)
{
    mr_pool *p = pool_of(2);
    mr_guest g; /* of all rounds: a recall may still look at it when the stay has ended */
    mr_guest_init(&g);
    for (int i = 0; i < 20; i++) {
        meeting m;
        meeting_init(&m, 2);
        shared_loop s = {{open_shared_loop, NULL}, p, &g, &m, true};
        atomic_store(&g.recalled, false);
        mr_pool_submit(p, &s.task);
        MR_CHECK(mr_pool_stay(p, &g, 0));
        MR_CHECK(s.met);
        meeting_deinit(&m);
    }
    mr_pool_free(p); /* the last recall has returned */
    mr_guest_deinit(&g);
}

static void recall_later(mr_task *t)
{
    shared_loop *s = (shared_loop *)t;
    mr_sleep_ns((int64_t)(mr_test_random() % 100000)); /* about the time a guest spins */
    mr_pool_recall(s->pool, s->guest);
}

/* A recall that got lost would hang the test. */
MR_TEST(pool_guest_is_recalled_while_it_spins_and_while_it_sleeps)
{
    mr_pool *p = pool_of(2);
    mr_guest g;
    mr_guest_init(&g);
    for (int i = 0; i < 500; i++) {
        shared_loop s = {.task = {recall_later, NULL}, .pool = p, .guest = &g};
        atomic_store(&g.recalled, false);
        mr_pool_submit(p, &s.task);
        MR_CHECK(mr_pool_stay(p, &g, 0));
    }
    mr_pool_free(p); /* the last recall has returned */
    mr_guest_deinit(&g);
}

MR_TEST(pool_guest_leaves_at_its_deadline)
{
    mr_pool *p = pool_of(2);
    mr_guest g;
    mr_guest_init(&g);
    MR_CHECK(!mr_pool_stay(p, &g, mr_now_ns() + 1000000));
    mr_guest_deinit(&g);
    mr_pool_free(p);
}

/* The worker is kept busy, and another thread opens a loop whose parts last longer than the guest may stay. */
typedef struct long_loop {
    mr_task task;
    mr_pool *pool;
    pthread_t guest;
    _Atomic bool over;
    _Atomic int n_parts_of_guest;
} long_loop;

static void wait_until_over(mr_task *t)
{
    while (!atomic_load(&((long_loop *)t)->over))
        mr_sleep_ns(100000);
}

static void sleep_in_part(void *arg, int64_t begin, int64_t end)
{
    long_loop *l = arg;
    (void)begin, (void)end;
    if (pthread_equal(l->guest, pthread_self()))
        atomic_fetch_add(&l->n_parts_of_guest, 1);
    mr_sleep_ns(30000000);
}

static void open_long_loop(void *arg) { mr_pool_for(((long_loop *)arg)->pool, 8, 1e9, sleep_in_part, arg); }

MR_TEST(pool_guest_leaves_a_loop_at_its_deadline)
{
    long_loop l = {.task = {wait_until_over, NULL}, .pool = pool_of(2), .guest = pthread_self()};
    mr_thread t;
    mr_guest g;
    mr_guest_init(&g);
    mr_pool_submit(l.pool, &l.task);
    MR_CHECK_INT(mr_thread_start(&t, "opener", open_long_loop, &l), 0);
    MR_CHECK(!mr_pool_stay(l.pool, &g, mr_now_ns() + 20000000));
    MR_CHECK(atomic_load(&l.n_parts_of_guest) <= 1);
    mr_thread_join(&t);
    atomic_store(&l.over, true);
    mr_guest_deinit(&g);
    mr_pool_free(l.pool);
}

/* ---- how many compute ---- */

typedef struct meeting_task {
    mr_task task;
    meeting *meeting;
    _Atomic bool met;
} meeting_task;

static void meet_in_task(mr_task *t)
{
    meeting_task *m = (meeting_task *)t;
    atomic_store(&m->met, meet(m->meeting));
}

static void check_tasks_meet(mr_pool *p, int n)
{
    meeting m;
    meeting_task tasks[8];
    meeting_init(&m, n);
    for (int i = 0; i < n; i++) {
        tasks[i] = (meeting_task){{meet_in_task, NULL}, &m, false};
        mr_pool_submit(p, &tasks[i].task);
    }
    mr_pool_free(p); /* when all are done */
    for (int i = 0; i < n; i++)
        MR_CHECK(tasks[i].met);
    meeting_deinit(&m);
}

MR_TEST(pool_of_a_server_computes_with_all_its_threads)
{
    for (int n = 1; n <= 4; n++) {
        mr_pool *p;
        MR_CHECK_OK(mr_pool_new_served("test", n, &p));
        MR_CHECK_INT(mr_pool_threads(p), n);
        MR_CHECK_INT(mr_pool_workers(p), n);
        check_tasks_meet(p, n);
    }
}

static void check_no_spare(int n_callers)
{
    mr_pool *p = pool_of(2);
    _Atomic int count = 0;
    counter_task tasks[100];
    for (int i = 0; i < n_callers; i++)
        mr_pool_caller_begins(p);
    submit_counters(p, tasks, 100, &count);
    while (atomic_load(&count) < 100)
        mr_sleep_ns(1000);
    for (int i = 0; i < n_callers; i++)
        mr_pool_caller_ends(p);
    mr_pool_free(p);
}

MR_TEST(pool_computes_with_all_its_threads_while_no_caller_does)
{
    for (int n = 2; n <= 4; n++)
        check_tasks_meet(pool_of(n), n);
    check_no_spare(0);
    check_no_spare(1);
}

/* ---- denormals ---- */

static volatile float smallest = FLT_MIN;

static void halve(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        ((float *)arg)[i] = smallest / 2;
}

MR_TEST(pool_flushes_denormals_and_restores_the_caller)
{
    if (!MR_FP_FLUSH)
        mr_test_skip("no such setting on this CPU");
    mr_pool *p = pool_of(2);
    float out[64];
    memset(out, 0xff, sizeof(out));
    mr_pool_for(p, 64, 1e6, halve, out);
    for (int i = 0; i < 64; i++)
        MR_CHECK(out[i] == 0);
    MR_CHECK(smallest / 2 > 0);
    mr_pool_free(p);
}
