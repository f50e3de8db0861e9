/* capi/interrupter_test.c -- runs that are ended from outside, here and on a cluster.
 *
 * What waits is a DequeueMany of more than ever comes: it takes what is put into its queue, so that the size of the
 * queue tells whether it has begun to wait, and afterwards whether it is gone. */
#include <stdio.h>

#include "base/clock.h"
#include "capi/training_fixture.h"
#include "capi/internal.h"
#include "capi/graph_fixture.h"
#include "millrace/front_end.h"

static const TF_Output none = {NULL, -1};

/* ---- a queue and what is done with it ---- */

typedef struct queue {
    TF_Output handle;
    TF_Operation *put; /* a 7 */
    TF_Output size, one, many;
} queue;

static TF_OperationDescription *begin_op(kit *k, const char *op, const char *of, const char *device)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", of, op);
    TF_OperationDescription *d = TF_NewOperation(k->g, op, name);
    TF_SetDevice(d, device);
    return d;
}

/* n NULL: one. */
static TF_Output dequeue(kit *k, const char *name, const char *device, TF_Output q, const TF_Output *n)
{
    static const TF_DataType type = TF_FLOAT;
    TF_OperationDescription *d = begin_op(k, n ? "QueueDequeueManyV2" : "QueueDequeueV2", name, device);
    TF_AddInput(d, q);
    if (n)
        TF_AddInput(d, *n);
    TF_SetAttrTypeList(d, "component_types", &type, 1);
    return kit_out(kit_finish(k, d), 0);
}

static queue queue_on(kit *k, const char *name, const char *device)
{
    static const TF_DataType type = TF_FLOAT;
    static const int64_t *const scalar[1];
    static const int rank = 0;
    queue q;
    TF_OperationDescription *d = begin_op(k, "FIFOQueueV2", name, device);
    TF_SetAttrTypeList(d, "component_types", &type, 1);
    TF_SetAttrShapeList(d, "shapes", (const int64_t *const *)scalar, &rank, 1);
    TF_SetAttrString(d, "shared_name", name, strlen(name));
    q.handle = kit_out(kit_finish(k, d), 0);
    d = begin_op(k, "Const", name, device);
    TF_Tensor *seven = kit_float(7);
    TF_SetAttrTensor(d, "value", seven, k->s);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_DeleteTensor(seven);
    TF_Output value = kit_out(kit_finish(k, d), 0);
    d = begin_op(k, "QueueEnqueueV2", name, device);
    TF_AddInput(d, q.handle);
    TF_AddInputList(d, &value, 1);
    q.put = kit_finish(k, d);
    d = begin_op(k, "QueueSizeV2", name, device);
    TF_AddInput(d, q.handle);
    q.size = kit_out(kit_finish(k, d), 0);
    q.one = dequeue(k, name, device, q.handle, NULL);
    char n_name[64];
    snprintf(n_name, sizeof n_name, "%s_n", name);
    TF_Output n = kit_const(k, n_name, kit_int(1000000));
    q.many = dequeue(k, name, device, q.handle, &n);
    return q;
}

static void put(TF_Session *s, const queue *q, TF_Status *st)
{
    const TF_Operation *op = q->put;
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &op, 1, NULL, st);
}

static int size(kit *k, TF_Session *s, const queue *q)
{
    TF_Tensor *t = kit_run(k, s, none, NULL, q->size);
    CHECK_OK(k->s);
    return kit_take_int(t);
}

/* Until somebody waits for what is put in. */
static void wait_until_eaten(kit *k, TF_Session *s, const queue *q)
{
    put(s, q, k->s);
    CHECK_OK(k->s);
    while (size(k, s, q) > 0)
        mr_sleep_ns(1000000);
}

/* Until nobody does: what runs elsewhere ends a little later. */
static void wait_until_left(kit *k, TF_Session *s, const queue *q)
{
    do {
        put(s, q, k->s);
        CHECK_OK(k->s);
        mr_sleep_ns(1000000);
    } while (size(k, s, q) == 0);
}

static float take(kit *k, TF_Session *s, const queue *q)
{
    TF_Tensor *t = kit_run(k, s, none, NULL, q->one);
    CHECK_OK(k->s);
    return kit_take_float(t);
}

/* ---- a run in a thread of its own ---- */

typedef struct partial { /* a run in pieces: n is fed, y is twice that, many waits for n values */
    TF_Output n, y, many;
    const char *handle;
} partial;

static void call_partial(TF_Session *s, const partial *p, int n, const TF_Output *fetch, TF_Tensor **out, TF_Status *st)
{
    TF_Tensor *t = kit_int(n);
    TF_SessionPRun(s, p->handle, &p->n, &t, 1, fetch, out, 1, NULL, 0, st);
    TF_DeleteTensor(t);
}

typedef struct later {
    TF_Session *s;
    mr_interrupter *i;      /* or NULL */
    const partial *partial; /* or NULL: a run */
    const TF_Output *fetches;
    int n_fetches;
    TF_Tensor *out[2];
    TF_Status *st;
    mr_thread thread;
} later;

static void run_it(void *arg)
{
    later *l = arg;
    mr_run_under(l->i);
    if (l->partial)
        call_partial(l->s, l->partial, 1000000, l->fetches, l->out, l->st);
    else
        TF_SessionRun(l->s, NULL, NULL, NULL, 0, l->fetches, l->out, l->n_fetches, NULL, 0, NULL, l->st);
}

static void start(later *l)
{
    l->st = TF_NewStatus();
    MR_CHECK_INT(mr_thread_start(&l->thread, "later", run_it, l), 0);
}

static void ends_interrupted(later *l)
{
    mr_thread_join(&l->thread);
    CHECK_CODE(l->st, TF_CANCELLED, "The run was interrupted");
    for (int i = 0; i < l->n_fetches; i++)
        MR_CHECK(!l->out[i]);
    TF_DeleteStatus(l->st);
}

/* ---- in this process ---- */

typedef struct fixture {
    kit k;
    queue q;
    TF_Session *s;
    mr_interrupter *i;
} fixture;

static fixture fixture_new(void)
{
    fixture r = {.k = kit_new(), .i = mr_interrupter_new()};
    r.q = queue_on(&r.k, "q", "");
    r.s = kit_session(&r.k);
    return r;
}

static void fixture_free(fixture *r)
{
    kit_close(&r->k, r->s);
    kit_free(&r->k);
    mr_interrupter_free(r->i);
}

static later waits(const fixture *r) { return (later){.s = r->s, .i = r->i, .fetches = &r->q.many, .n_fetches = 1}; }

MR_TEST(interrupter_ends_a_run_that_waits_and_the_session_goes_on)
{
    fixture r = fixture_new();
    later l = waits(&r);
    for (int n = 0; n < 3; n++) {
        start(&l);
        wait_until_eaten(&r.k, r.s, &r.q);
        mr_interrupter_fire(r.i);
        ends_interrupted(&l);
        mr_interrupter_reset(r.i);
        mr_run_under(r.i);
        put(r.s, &r.q, r.k.s);
        CHECK_OK(r.k.s);
        MR_CHECK_INT(size(&r.k, r.s, &r.q), 1); /* nobody is left who would take it */
        MR_CHECK(take(&r.k, r.s, &r.q) == 7);
        mr_run_under(NULL);
    }
    fixture_free(&r);
}

MR_TEST(interrupter_fired_before_a_run_lets_nothing_begin)
{
    fixture r = fixture_new();
    mr_interrupter_fire(r.i);
    mr_interrupter_fire(r.i);
    mr_run_under(r.i);
    put(r.s, &r.q, r.k.s);
    CHECK_CODE(r.k.s, TF_CANCELLED, "The run was interrupted");
    mr_run_under(NULL);
    MR_CHECK_INT(size(&r.k, r.s, &r.q), 0); /* under none, and so not ended */
    mr_run_under(r.i);
    mr_interrupter_reset(r.i);
    put(r.s, &r.q, r.k.s);
    CHECK_OK(r.k.s);
    MR_CHECK_INT(size(&r.k, r.s, &r.q), 1);
    fixture_free(&r); /* also takes this thread out of it */
    MR_CHECK(!mr_capi_run_cancel());
    mr_interrupter_free(NULL);
}

MR_TEST(interrupter_ends_the_runs_of_all_its_sessions_and_no_others)
{
    fixture r = fixture_new(), other = fixture_new(), free = fixture_new();
    later a = waits(&r), b = waits(&other), c = waits(&free);
    b.i = r.i;
    c.i = NULL;
    c.fetches = &free.q.one;
    start(&a);
    start(&b);
    start(&c);
    wait_until_eaten(&r.k, r.s, &r.q);
    wait_until_eaten(&other.k, other.s, &other.q);
    mr_interrupter_fire(r.i);
    ends_interrupted(&a);
    ends_interrupted(&b);
    put(free.s, &free.q, free.k.s);
    mr_thread_join(&c.thread);
    CHECK_OK(c.st);
    MR_CHECK(kit_take_float(c.out[0]) == 7);
    TF_DeleteStatus(c.st);
    fixture_free(&r);
    fixture_free(&other);
    fixture_free(&free);
}

/* Options of the client's come along: the time limit is far away. */
MR_TEST(interrupter_ends_a_run_with_options)
{
    fixture r = fixture_new();
    TF_Tensor *out = NULL;
    TF_Buffer *o = TF_NewBufferFromString("\x10\xc0\x84\x3d", 4); /* timeout_in_ms: 1000000 */
    mr_interrupter_fire(r.i);
    mr_run_under(r.i);
    TF_SessionRun(r.s, o, NULL, NULL, 0, &r.q.many, &out, 1, NULL, 0, NULL, r.k.s);
    CHECK_CODE(r.k.s, TF_CANCELLED, "The run was interrupted");
    TF_DeleteBuffer(o);
    fixture_free(&r);
}

/* Fired at any moment of them, runs end. */
MR_TEST(interrupter_meets_runs_at_any_moment)
{
    enum { N = 3, ROUNDS = 60 };
    fixture r = fixture_new();
    for (int n = 0; n < ROUNDS; n++) {
        later l[N];
        for (int i = 0; i < N; i++) {
            l[i] = waits(&r);
            start(&l[i]);
        }
        for (int i = 0; i < n % 7; i++)
            put(r.s, &r.q, r.k.s);
        mr_interrupter_fire(r.i);
        for (int i = 0; i < N; i++)
            ends_interrupted(&l[i]);
        mr_interrupter_reset(r.i);
    }
    fixture_free(&r);
}

/* ---- partial runs ---- */

/* What waits begins to when n is fed, so when it waits the call has begun. */
static void make_partial(kit *k, const queue *q, const char *device, partial *p)
{
    p->n = kit_placeholder(k, "n", TF_INT32);
    p->y = kit_binary(k, "Add", "y", p->n, p->n);
    p->many = dequeue(k, "partial", device, q->handle, &p->n);
}

static void set_up(kit *k, TF_Session *s, partial *p, const TF_Output *fetches, int n, const TF_Operation *target)
{
    TF_SessionPRunSetup(s, &p->n, 1, fetches, n, &target, target != NULL, &p->handle, k->s);
    CHECK_OK(k->s);
}

static void ends_a_partial_run(kit *k, TF_Session *s, const queue *q, const char *device, mr_interrupter *i)
{
    partial p;
    TF_Tensor *out = NULL;
    make_partial(k, q, device, &p);
    set_up(k, s, &p, (TF_Output[]){p.many, p.y}, 2, NULL);
    later l = {.s = s, .i = i, .partial = &p, .fetches = &p.many, .n_fetches = 1};
    start(&l);
    wait_until_eaten(k, s, q);
    mr_interrupter_fire(i);
    ends_interrupted(&l);
    wait_until_left(k, s, q);
    mr_interrupter_reset(i);
    TF_SessionPRun(s, p.handle, NULL, NULL, 0, &p.y, &out, 1, NULL, 0, k->s);
    CHECK_CODE(k->s, TF_INVALID_ARGUMENT, "Must run 'setup' before performing partial runs!");
    TF_DeletePRunHandle(p.handle);
}

MR_TEST(interrupter_ends_a_partial_run)
{
    fixture r = fixture_new();
    ends_a_partial_run(&r.k, r.s, &r.q, "", r.i);
    fixture_free(&r);
}

/* All is fed and fetched, but a target is not over: the last call waits for it. */
MR_TEST(interrupter_ends_a_partial_run_that_waits_for_a_target)
{
    fixture r = fixture_new();
    partial p;
    make_partial(&r.k, &r.q, "", &p);
    set_up(&r.k, r.s, &p, &p.y, 1, p.many.oper);
    later l = {.s = r.s, .i = r.i, .partial = &p, .fetches = &p.y, .n_fetches = 1};
    start(&l);
    wait_until_eaten(&r.k, r.s, &r.q);
    mr_interrupter_fire(r.i);
    ends_interrupted(&l);
    put(r.s, &r.q, r.k.s);
    MR_CHECK_INT(size(&r.k, r.s, &r.q), 1);
    TF_DeletePRunHandle(p.handle);
    fixture_free(&r);
}

static void refuses_a_partial_run(kit *k, TF_Session *s, const queue *q, const char *device, mr_interrupter *i)
{
    partial p;
    TF_Tensor *out = NULL;
    make_partial(k, q, device, &p);
    set_up(k, s, &p, &p.y, 1, NULL);
    mr_interrupter_fire(i);
    mr_run_under(i);
    call_partial(s, &p, 4, &p.y, &out, k->s);
    CHECK_CODE(k->s, TF_CANCELLED, "The run was interrupted");
    MR_CHECK(!out);
    mr_interrupter_reset(i);
    call_partial(s, &p, 4, &p.y, &out, k->s);
    CHECK_OK(k->s);
    MR_CHECK_INT(kit_take_int(out), 8);
    mr_run_under(NULL);
    TF_DeletePRunHandle(p.handle);
}

MR_TEST(interrupter_fired_before_a_call_leaves_its_partial_run_as_it_is)
{
    fixture r = fixture_new();
    refuses_a_partial_run(&r.k, r.s, &r.q, "", r.i);
    fixture_free(&r);
}

/* ---- on a cluster ---- */

typedef struct remote {
    training_fixture cluster;
    kit k;
    queue here, there; /* on the master's own task and on another */
    TF_Session s;      /* by hand: calls stay inside this process */
    mr_interrupter *i;
} remote;

static void remote_begin(remote *r)
{
    *r = (remote){.k = kit_new(), .i = mr_interrupter_new()};
    training_fixture_begin(&r->cluster, 1, 1);
    r->here = queue_on(&r->k, "here", "/job:worker/task:0");
    r->there = queue_on(&r->k, "there", "/job:ps/task:0");
    r->s.graph = r->k.g;
    MR_CHECK_OK(training_fixture_open(&r->cluster, 0, r->k.g->graph, &r->s.session));
}

static void remote_end(remote *r)
{
    mr_session_free(r->s.session);
    training_fixture_end(&r->cluster);
    kit_free(&r->k);
    mr_interrupter_free(r->i);
}

MR_TEST(interrupter_ends_a_step_on_all_tasks)
{
    remote r;
    remote_begin(&r);
    TF_Output both[2] = {r.here.many, r.there.many};
    later l = {.s = &r.s, .i = r.i, .fetches = both, .n_fetches = 2};
    for (int n = 0; n < 3; n++) {
        start(&l);
        wait_until_eaten(&r.k, &r.s, &r.here);
        wait_until_eaten(&r.k, &r.s, &r.there);
        mr_interrupter_fire(r.i);
        ends_interrupted(&l);
        mr_interrupter_reset(r.i);
        wait_until_left(&r.k, &r.s, &r.here);
        wait_until_left(&r.k, &r.s, &r.there);
        mr_run_under(r.i);
        while (size(&r.k, &r.s, &r.here) > 0)
            MR_CHECK(take(&r.k, &r.s, &r.here) == 7);
        while (size(&r.k, &r.s, &r.there) > 0)
            MR_CHECK(take(&r.k, &r.s, &r.there) == 7);
        mr_run_under(NULL);
    }
    remote_end(&r);
}

MR_TEST(interrupter_fired_before_a_step_lets_nothing_begin)
{
    remote r;
    remote_begin(&r);
    mr_interrupter_fire(r.i);
    mr_run_under(r.i);
    put(&r.s, &r.there, r.k.s);
    CHECK_CODE(r.k.s, TF_CANCELLED, "The run was interrupted");
    mr_interrupter_reset(r.i);
    MR_CHECK_INT(size(&r.k, &r.s, &r.there), 0);
    remote_end(&r);
}

MR_TEST(interrupter_ends_a_partial_run_of_a_cluster)
{
    remote r;
    remote_begin(&r);
    ends_a_partial_run(&r.k, &r.s, &r.there, "/job:ps/task:0", r.i);
    remote_end(&r);
}

MR_TEST(interrupter_fired_before_a_call_leaves_the_partial_run_of_a_cluster_as_it_is)
{
    remote r;
    remote_begin(&r);
    refuses_a_partial_run(&r.k, &r.s, &r.there, "/job:ps/task:0", r.i);
    remote_end(&r);
}

MR_TEST(interrupter_meets_steps_at_any_moment)
{
    enum { N = 3, ROUNDS = 20 };
    remote r;
    remote_begin(&r);
    TF_Output both[2] = {r.here.many, r.there.many};
    for (int n = 0; n < ROUNDS; n++) {
        later l[N];
        for (int i = 0; i < N; i++) {
            l[i] = (later){.s = &r.s, .i = r.i, .fetches = both, .n_fetches = 2};
            start(&l[i]);
        }
        for (int i = 0; i < n % 4; i++)
            put(&r.s, &r.there, r.k.s);
        mr_interrupter_fire(r.i);
        for (int i = 0; i < N; i++)
            ends_interrupted(&l[i]);
        mr_interrupter_reset(r.i);
    }
    wait_until_left(&r.k, &r.s, &r.here);
    wait_until_left(&r.k, &r.s, &r.there);
    remote_end(&r);
}
