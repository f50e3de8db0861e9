/* ops/state/mutex_test.c -- which waiter gets the lock, and when it is released. */
#include "base/memory.h"
#include "ops/queue/crowd_fixture.h"

typedef struct rig {
    mr_calls calls;
    mr_callee make, lock, consume;
    mr_tensor *handle;
} rig;

static void begin(rig *g)
{
    mr_calls_init(&g->calls);
    g->make = mr_callee_make(&g->calls, "MutexV2", NULL, 0, MR_NO_OUT, 0, NULL);
    g->lock = mr_callee_make(&g->calls, "MutexLock", NULL, 0, (mr_out){g->make.node, 0}, 0, NULL);
    g->consume = mr_callee_make(&g->calls, "ConsumeMutexLock", NULL, 0,
                                (mr_out){g->lock.node, 0}, 0, NULL);
    mr_call *c = mr_call_new(&g->calls, &g->make, 0, NULL);
    mr_call_begin(c);
    MR_CHECK_OK(mr_call_end(c, &g->handle));
}

static void end(rig *g)
{
    mr_callee_deinit(&g->make);
    mr_callee_deinit(&g->lock);
    mr_callee_deinit(&g->consume);
    mr_tensor_unref(g->handle);
    mr_calls_deinit(&g->calls);
}

static mr_call *lock(rig *g)
{
    mr_call *c = mr_call_new(&g->calls, &g->lock, MR_VALUES(mr_live(mr_tensor_ref(g->handle))));
    mr_call_begin(c);
    return c;
}

static mr_tensor *locked(mr_call *c)
{
    mr_tensor *t;
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_call_end(c, &t));
    return t;
}

/* Takes over the reference. */
static mr_status *consume(rig *g, mr_tensor *t)
{
    mr_call *c = mr_call_new(&g->calls, &g->consume, MR_VALUES(mr_live(t)));
    mr_call_begin(c);
    return mr_call_end(c, NULL);
}

MR_TEST(mutex_is_held_by_one_at_a_time_in_the_order_they_came)
{
    rig g;
    begin(&g);
    mr_call *a = lock(&g), *b = lock(&g), *c = lock(&g);
    mr_tensor *t = locked(a);
    MR_CHECK(!mr_call_ended(b));
    MR_CHECK_OK(consume(&g, t));
    t = locked(b);
    MR_CHECK(!mr_call_ended(c));
    MR_CHECK_OK(consume(&g, t));
    mr_tensor_unref(locked(c));
    end(&g);
}

MR_TEST(mutex_is_released_when_the_last_copy_goes)
{
    rig g;
    begin(&g);
    mr_tensor *t = locked(lock(&g)), *copy = mr_tensor_ref(t);
    mr_call *next = lock(&g);
    mr_tensor_unref(t);
    MR_CHECK(!mr_call_ended(next));
    mr_tensor_unref(copy);
    mr_tensor_unref(locked(next));
    end(&g);
}

MR_TEST(mutex_consume_wants_the_sole_copy)
{
    rig g;
    begin(&g);
    mr_tensor *t = locked(lock(&g)), *copy = mr_tensor_ref(t);
    MR_CHECK_ERR(consume(&g, t), MR_INVALID_ARGUMENT, "Expected use count of lock to be 1");
    MR_CHECK_OK(consume(&g, copy));
    mr_tensor_unref(locked(lock(&g)));
    end(&g);
}

MR_TEST(mutex_consume_refuses_what_is_no_lock)
{
    rig g;
    begin(&g);
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_VARIANT, 0, NULL, &t));
    MR_CHECK_ERR(consume(&g, t), MR_INVALID_ARGUMENT,
                 "Expected input to contain a SharedLockReleaser object");
    end(&g);
}

MR_TEST(mutex_cancelled_wait_says_so_and_lets_the_others_go)
{
    rig g;
    begin(&g);
    mr_tensor *t = locked(lock(&g));
    mr_call *a = lock(&g), *b = lock(&g);
    mr_call_cancel(a);
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_CANCELLED, "Lock acquisition cancelled.");
    MR_CHECK_OK(consume(&g, t));
    mr_tensor_unref(locked(b));
    end(&g);
}

MR_TEST(mutex_step_cancelled_before_locks_nothing)
{
    rig g;
    begin(&g);
    mr_call *c = mr_call_new(&g.calls, &g.lock, MR_VALUES(mr_live(mr_tensor_ref(g.handle))));
    mr_call_cancel(c);
    mr_call_begin(c);
    MR_CHECK_TEXT(mr_call_end(c, NULL), MR_CANCELLED, "Lock acquisition cancelled.");
    mr_tensor_unref(locked(lock(&g)));
    end(&g);
}

MR_TEST(mutex_closing_the_session_ends_every_wait)
{
    rig g;
    begin(&g);
    mr_tensor *t = locked(lock(&g));
    mr_call *a = lock(&g), *b = lock(&g);
    mr_cancel_start(g.calls.session);
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_CANCELLED, "Lock acquisition cancelled.");
    MR_CHECK_TEXT(mr_call_end(b, NULL), MR_CANCELLED, "Lock acquisition cancelled.");
    mr_tensor_unref(t);
    end(&g);
}

/* ---- 64 threads that compete for the lock ---- */

enum { TURNS = 60 };

typedef struct crowd {
    rig g;
    int64_t n_inside; /* written only with the lock held: the thread sanitizer would report a race */
    _Atomic int64_t n_locked;
} crowd;

static void one_turn(mr_crowd_member *m)
{
    crowd *c = m->ctx;
    mr_call *call = mr_call_new(&c->g.calls, &c->g.lock,
                                MR_VALUES(mr_live(mr_tensor_ref(c->g.handle))));
    mr_tensor *t;
    mr_status *st = mr_call_end(mr_crowd_member_call(m, call, true), &t);
    if (st) {
        MR_CHECK_TEXT(st, MR_CANCELLED, "Lock acquisition cancelled.");
        return;
    }
    c->n_inside++;
    atomic_fetch_add(&c->n_locked, 1);
    if (mr_crowd_member_random(m, 2))
        MR_CHECK_OK(consume(&c->g, t));
    else
        mr_tensor_unref(t);
}

static void turns(mr_crowd_member *m)
{
    for (int i = 0; i < TURNS; i++)
        one_turn(m);
}

MR_TEST(mutex_crowd_is_inside_one_by_one)
{
    crowd *c = mr_new(crowd);
    mr_test_deadline(120);
    begin(&c->g);
    mr_crowd_run(turns, c);
    MR_CHECK_INT(c->n_inside, atomic_load(&c->n_locked));
    MR_CHECK(c->n_inside > 0);
    mr_tensor_unref(locked(lock(&c->g))); /* the lock is free at the end */
    end(&c->g);
    mr_free(c);
}
