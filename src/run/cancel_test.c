#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "run/cancel.h"
#include "tests/harness/test.h"

typedef struct probe {
    mr_cancel_entry e;
    _Atomic int calls;
    _Atomic bool hold; /* the callback does not return before this is false */
} probe;

static void on_cancel(mr_cancel_entry *e)
{
    probe *p = (probe *)e;
    atomic_fetch_add(&p->calls, 1);
    while (atomic_load(&p->hold))
        mr_sleep_ns(100000);
}

MR_TEST(cancel_calls_each_registered_once)
{
    mr_cancel *c = mr_cancel_new(NULL);
    probe a = {{on_cancel}}, b = {{on_cancel}};
    MR_CHECK(mr_cancel_register(c, &a.e));
    MR_CHECK(mr_cancel_register(c, &b.e));
    MR_CHECK(!mr_cancel_started(c));
    mr_cancel_start(c);
    mr_cancel_start(c);
    MR_CHECK(mr_cancel_started(c));
    MR_CHECK_INT(a.calls, 1);
    MR_CHECK_INT(b.calls, 1);
    MR_CHECK(!mr_cancel_unregister(c, &a.e));
    mr_cancel_free(c);
}

MR_TEST(cancel_forgets_what_was_unregistered)
{
    mr_cancel *c = mr_cancel_new(NULL);
    probe a = {{on_cancel}};
    MR_CHECK(mr_cancel_register(c, &a.e));
    MR_CHECK(mr_cancel_unregister(c, &a.e));
    mr_cancel_start(c);
    MR_CHECK_INT(a.calls, 0);
    mr_cancel_free(c);
}

MR_TEST(cancel_refuses_registration_afterwards)
{
    mr_cancel *c = mr_cancel_new(NULL);
    probe a = {{on_cancel}};
    mr_cancel_start(c);
    MR_CHECK(!mr_cancel_register(c, &a.e));
    MR_CHECK_INT(a.calls, 0);
    mr_cancel_free(c);
}

MR_TEST(cancel_reaches_children)
{
    mr_cancel *parent = mr_cancel_new(NULL), *child = mr_cancel_new(parent);
    probe a = {{on_cancel}};
    MR_CHECK(mr_cancel_register(child, &a.e));
    mr_cancel_start(parent);
    MR_CHECK(mr_cancel_started(child));
    MR_CHECK_INT(a.calls, 1);
    mr_cancel *late = mr_cancel_new(parent);
    MR_CHECK(mr_cancel_started(late));
    mr_cancel_free(late);
    mr_cancel_free(child);
    mr_cancel_free(parent);
}

MR_TEST(cancel_of_a_child_leaves_the_parent)
{
    mr_cancel *parent = mr_cancel_new(NULL), *child = mr_cancel_new(parent);
    mr_cancel_start(child);
    MR_CHECK(!mr_cancel_started(parent));
    MR_CHECK(mr_cancel_reset(child));
    MR_CHECK(!mr_cancel_started(child));
    mr_cancel_start(parent);
    MR_CHECK(mr_cancel_started(child));
    MR_CHECK(!mr_cancel_reset(child));
    mr_cancel_free(child);
    mr_cancel_free(parent);
}

static void freeing_callback(mr_cancel_entry *e) { mr_free(e); }

MR_TEST(cancel_callback_may_free_its_entry)
{
    mr_cancel *c = mr_cancel_new(NULL);
    mr_cancel_entry *e = mr_new(mr_cancel_entry);
    e->fn = freeing_callback;
    MR_CHECK(mr_cancel_register(c, e));
    mr_cancel_start(c);
    mr_cancel_free(c);
}

static void start_in_thread(void *c) { mr_cancel_start(c); }

MR_TEST(cancel_unregister_waits_for_a_running_callback)
{
    mr_cancel *c = mr_cancel_new(NULL);
    probe a = {{on_cancel}, 0, true};
    MR_CHECK(mr_cancel_register(c, &a.e));
    mr_thread t;
    MR_CHECK_INT(mr_thread_start(&t, "canceller", start_in_thread, c), 0);
    while (!atomic_load(&a.calls))
        mr_sleep_ns(100000);
    atomic_store(&a.hold, false);
    MR_CHECK(!mr_cancel_unregister(c, &a.e)); /* from here on `a` may go */
    mr_thread_join(&t);
    mr_cancel_free(c);
}

MR_TEST(cancel_goes_down_a_long_chain)
{
    enum { N = 200000 }; /* one call inside the other would need a stack of tens of MB */
    mr_cancel **c = mr_new_array(mr_cancel *, N);
    for (int i = 0; i < N; i++)
        c[i] = mr_cancel_new(i ? c[i - 1] : NULL);
    probe a = {{on_cancel}};
    MR_CHECK(mr_cancel_register(c[N - 1], &a.e));
    mr_cancel_start(c[0]);
    MR_CHECK_INT(a.calls, 1);
    for (int i = N - 1; i >= 0; i--)
        mr_cancel_free(c[i]);
    mr_free(c);
}

typedef struct nested {
    mr_cancel_entry entry;
    mr_cancel *inner;
} nested;

static void start_and_free(mr_cancel_entry *e)
{
    nested *n = (nested *)e;
    mr_cancel_start(n->inner); /* its turn comes when this one has returned */
    mr_cancel_free(n->inner);
}

MR_TEST(cancel_a_started_manager_may_be_freed_inside_a_callback)
{
    mr_cancel *outer = mr_cancel_new(NULL);
    nested n = {{.fn = start_and_free}, mr_cancel_new(NULL)};
    MR_CHECK(mr_cancel_register(outer, &n.entry));
    mr_cancel_start(outer);
    mr_cancel_free(outer);
}
