/* base/timers_test.c */
#include "base/timers.h"

#include "base/clock.h"
#include "base/thread.h"
#include "tests/harness/test.h"

enum { N = 200 };

typedef struct entry {
    mr_timer t; /* first */
    int number;
} entry;

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static int order[N], n_called;

static void called(mr_timer *t)
{
    mr_lock(&mu);
    order[n_called++] = ((entry *)t)->number;
    mr_unlock(&mu);
}

static int count(void)
{
    mr_lock(&mu);
    int n = n_called;
    mr_unlock(&mu);
    return n;
}

/* Set in any order, all due before the thread looks (it is held by the first): called by time. */
static mr_mutex gate = {PTHREAD_MUTEX_INITIALIZER};

static void hold(mr_timer *t)
{
    (void)t;
    mr_lock(&gate);
    mr_unlock(&gate);
}

MR_TEST(timers_call_in_order_of_time)
{
    mr_timers *t;
    static entry e[N];
    mr_timer first;
    n_called = 0;
    MR_CHECK_OK(mr_timers_new(&t));
    mr_lock(&gate);
    mr_timers_set(t, &first, 1, hold);
    for (int i = 0; i < N; i++) {
        e[i].number = i * 77 % N;
        mr_timers_set(t, &e[i].t, 2 + e[i].number, called);
    }
    for (int i = 0; i < N; i += 2) /* every other one is taken out again */
        MR_CHECK(mr_timers_clear(t, &e[i].t));
    mr_unlock(&gate);
    while (count() < N / 2)
        mr_sleep_ns(1000000);
    for (int i = 1; i < N / 2; i++)
        MR_CHECK(order[i - 1] < order[i]);
    MR_CHECK(!mr_timers_clear(t, &e[1].t));
    mr_timers_free(t);
}

MR_TEST(timers_wait_for_their_time)
{
    mr_timers *t;
    entry soon = {.number = 0}, never = {.number = 1};
    n_called = 0;
    MR_CHECK_OK(mr_timers_new(&t));
    int64_t at = mr_now_ns() + 20000000;
    mr_timers_set(t, &never.t, mr_now_ns() + 3600 * INT64_C(1000000000), called);
    mr_timers_set(t, &soon.t, at, called);
    while (count() < 1)
        mr_sleep_ns(1000000);
    MR_CHECK(mr_now_ns() >= at);
    MR_CHECK(mr_timers_clear(t, &never.t));
    mr_timers_free(t);
}
