/* ops/queue/queue_crowd_test.c -- 64 threads use one queue: no element is lost or taken twice.
 *
 * Half of them enqueue distinct numbers, one or several at a time; half dequeue them.  Calls are
 * cancelled at random, and at the end one thread closes the queue, which stops all others.  A number
 * whose enqueue was cancelled may be in the queue or not (of a batch, the first ones may be); a number
 * that was enqueued must be dequeued exactly once.  Only a cancelled batch of dequeues may lose the
 * elements that it had taken. */
#include <stdio.h>

#include "base/memory.h"
#include "ops/queue/crowd_fixture.h"
#include "ops/queue/queue_fixture.h"

enum { EACH = 1000, MAX_BATCH = 6, N = MR_CROWD * EACH, ENOUGH = N / 2 * 3 / 4 };
enum fate { NOT_IN, IN, UNSURE };

typedef struct crowd {
    mr_queue_fixture g;
    char closed[64];        /* the error text of a closed queue */
    bool in_order, sorted;  /* properties that a batch must have */
    bool cancel_batches;    /* cancel dequeues of batches, which may lose elements */
    bool close_cancels;
    _Atomic int64_t n_put;  /* tried */
    _Atomic int64_t n_lost; /* an upper bound */
    uint8_t fate[N];        /* written by the thread that enqueues the number */
    uint8_t first[N];       /* whether the number is the first of a batch */
    _Atomic uint8_t taken[N];
} crowd;

static bool is(mr_status *st, mr_code code, const char *text)
{
    return st && mr_status_code(st) == code && strcmp(mr_status_message(st), text) == 0;
}

/* ---- putting in ---- */

static mr_call *new_put(crowd *c, mr_crowd_member *m, int64_t from, int n)
{
    int64_t v[MAX_BATCH];
    for (int i = 0; i < n; i++)
        v[i] = from + i;
    return n == 1 && mr_crowd_member_random(m, 2) ? mr_queue_fixture_new_enqueue(&c->g, from)
                                            : mr_queue_fixture_new_enqueue_many(&c->g, n, v);
}

/* Returns false if the queue is closed. */
static bool put(crowd *c, mr_crowd_member *m, int64_t from, int n)
{
    mr_call *call = mr_crowd_member_call(m, new_put(c, m, from, n), true);
    mr_status *st = mr_call_end(call, NULL);
    bool cancelled = is(st, MR_CANCELLED, "Enqueue operation was cancelled");
    bool is_closed = is(st, MR_CANCELLED, c->closed);
    MR_CHECK(!st || cancelled || is_closed);
    c->first[from] = true;
    for (int i = 0; i < n; i++)
        c->fate[from + i] = !st ? IN : cancelled ? UNSURE : NOT_IN;
    mr_status_free(st);
    return !is_closed;
}

static void close_queue(crowd *c, mr_crowd_member *m)
{
    mr_status *st =
        mr_call_end(mr_crowd_member_call(m, mr_queue_fixture_new_close(&c->g, c->close_cancels), true), NULL);
    MR_CHECK(!st || is(st, MR_CANCELLED, "Queue 'q' is already closed.") ||
             (c->close_cancels && is(st, MR_CANCELLED, "Enqueue operation was cancelled")));
    mr_status_free(st);
}

/* Enqueues numbers until enough were tried; every producer that notices this closes the queue. */
static void producer(mr_crowd_member *m)
{
    crowd *c = m->ctx;
    int64_t from = (int64_t)m->id * EACH, end = from + EACH;
    while (from < end && atomic_load(&c->n_put) < ENOUGH) {
        int n = 1 + (int)mr_crowd_member_random(m, MAX_BATCH);
        n = (int)MR_MIN(n, end - from);
        if (!put(c, m, from, n))
            return;
        atomic_fetch_add(&c->n_put, n);
        from += n;
    }
    if (atomic_load(&c->n_put) >= ENOUGH)
        close_queue(c, m);
}

/* ---- taking out ---- */

static void receive(crowd *c, const mr_tensor *t)
{
    const int64_t *v = t->data;
    for (int64_t i = 0; i < t->n; i++) {
        MR_CHECK(v[i] >= 0 && v[i] < N);
        MR_CHECK_INT(atomic_fetch_add(&c->taken[v[i]], 1), 0);
        for (int64_t k = 0; c->in_order && k < i; k++)
            MR_CHECK(v[k] / EACH != v[i] / EACH || v[k] < v[i]);
        MR_CHECK(!c->sorted || i == 0 || v[i - 1] < v[i]);
    }
}

static mr_call *new_take(crowd *c, int kind, int n)
{
    return kind == 0 ? mr_queue_fixture_new_dequeue(&c->g) : mr_queue_fixture_new_dequeue_many(&c->g, n, kind == 2);
}

/* Returns false if the queue is closed and empty. */
static bool take(crowd *c, mr_crowd_member *m)
{
    int kind = (int)mr_crowd_member_random(m, 3), n = 1 + (int)mr_crowd_member_random(m, MAX_BATCH);
    mr_call *call = mr_crowd_member_call(m, new_take(c, kind, n), kind == 0 || c->cancel_batches);
    mr_tensor *t;
    mr_status *st = mr_queue_fixture_end(&c->g, call, &t);
    bool cancelled = is(st, MR_CANCELLED, "Dequeue operation was cancelled");
    MR_CHECK(!st || cancelled || mr_status_code(st) == MR_OUT_OF_RANGE);
    if (cancelled && kind != 0)
        atomic_fetch_add(&c->n_lost, n - 1);
    if (!st)
        receive(c, t);
    bool over = st && !cancelled && kind != 1; /* a DequeueMany leaves the rest to others */
    mr_tensor_unref(t);
    mr_status_free(st);
    return !over;
}

static void work(mr_crowd_member *m)
{
    if (m->id % 2) {
        producer(m);
        return;
    }
    while (take(m->ctx, m))
        ;
}

/* ---- balance ---- */

static void check_account(crowd *c)
{
    int64_t missing = 0;
    MR_CHECK_INT(mr_queue_fixture_size(&c->g), 0);
    for (int64_t i = 0; i < N; i++) {
        int n = atomic_load(&c->taken[i]);
        MR_CHECK(c->fate[i] != NOT_IN || n == 0);
        missing += c->fate[i] == IN && n == 0;
        bool same_batch = i > 0 && !c->first[i] && c->fate[i] == UNSURE;
        MR_CHECK(!same_batch || c->cancel_batches || atomic_load(&c->taken[i - 1]) >= n);
    }
    MR_CHECK(missing <= (c->cancel_batches ? atomic_load(&c->n_lost) : 0));
}

static void meet(const char *kind, int64_t capacity, int64_t min_after, bool cancel_batches)
{
    crowd *c = mr_new(crowd);
    mr_test_deadline(120);
    mr_queue_fixture_init(&c->g, kind, capacity, min_after);
    snprintf(c->closed, sizeof c->closed, "%.*s 'q' is closed.", (int)strlen(kind) - 2, kind);
    c->sorted = strcmp(kind, "PriorityQueueV2") == 0;
    c->in_order = strstr(kind, "FIFO") != NULL;
    c->cancel_batches = c->close_cancels = cancel_batches;
    mr_crowd_run(work, c);
    check_account(c);
    mr_queue_fixture_deinit(&c->g);
    mr_free(c);
}

MR_TEST(queue_crowd_loses_nothing_in_order) { meet("FIFOQueueV2", 7, 0, false); }
MR_TEST(queue_crowd_loses_nothing_with_padding) { meet("PaddingFIFOQueueV2", 1, 0, false); }
MR_TEST(queue_crowd_loses_nothing_at_random) { meet("RandomShuffleQueueV2", 9, 3, false); }
MR_TEST(queue_crowd_loses_nothing_by_priority) { meet("PriorityQueueV2", 8, 0, false); }
MR_TEST(queue_crowd_all_cancelled_in_order) { meet("FIFOQueueV2", 7, 0, true); }
MR_TEST(queue_crowd_all_cancelled_at_random) { meet("RandomShuffleQueueV2", 9, 3, true); }
MR_TEST(queue_crowd_all_cancelled_by_priority) { meet("PriorityQueueV2", -1, 0, true); }
