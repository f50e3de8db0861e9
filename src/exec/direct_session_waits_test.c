/* exec/direct_session_waits_test.c -- steps that wait on queues, accumulators and mutexes, as sessions
 * run them: many at once, cut short by a deadline, by an error of another op, by the session's end.
 */
#include <sched.h>

#include "base/memory.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_out queue, value, size; /* a queue of int64 scalars, what is fed to it, its size */
    mr_node *put;
    mr_out got;
} bench;

static mr_out dequeue(bench *b)
{
    static const int types[] = {MR_INT64};
    return mr_emit_with(&b->s, "QueueDequeueV2",
                        MR_ATTRS({"component_types", mr_a_types(1, types)}), b->queue);
}

static void begin(bench *b, int64_t capacity)
{
    static const int types[] = {MR_INT64};
    mr_ops_register();
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    b->queue = mr_emit0_with(mr_as(&b->s, "q"), "FIFOQueueV2",
                             MR_ATTRS({"component_types", mr_a_types(1, types)},
                                      {"capacity", mr_a_int(capacity)},
                                      {"shared_name", mr_a_str("q")}));
    b->value = mr_placeholder(&b->s, MR_INT64, "v", NULL);
    b->put = mr_emit(mr_as(&b->s, "put"), "QueueEnqueueV2", b->queue, b->value).node;
    mr_as(&b->s, "got");
    b->got = dequeue(b);
    b->size = mr_emit(&b->s, "QueueSizeV2", b->queue);
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &(mr_session_config){0}, &b->session));
}

static void end(bench *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static mr_status *put(bench *b, int64_t v)
{
    mr_tensor *t = mr_tensor_scalar_i64(v);
    mr_status *st = mr_session_run(b->session,
                                   &(mr_run_args){.feeds = &b->value,
                                                  .feed_values = &t,
                                                  .n_feeds = 1,
                                                  .targets = &b->put,
                                                  .n_targets = 1},
                                   NULL, NULL);
    mr_tensor_unref(t);
    return st;
}

static mr_status *fetch(bench *b, mr_out o, int64_t *out)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_session_run(
        b->session, &(mr_run_args){.fetches = &o, .n_fetches = 1, .fetched = &t}, NULL, NULL);
    if (!st)
        *out = mr_tensor_int_at(t, 0);
    mr_tensor_unref(t);
    return st;
}

static mr_status *target(bench *b, mr_node *n, const mr_run_options *o)
{
    return mr_session_run(b->session, &(mr_run_args){.targets = &n, .n_targets = 1}, o, NULL);
}

static bool says(mr_status *st, mr_code code, const char *text)
{
    return mr_status_code(st) == code && strcmp(mr_status_message(st), text) == 0;
}

/* ---- a step cut short ---- */

MR_TEST(session_deadline_ends_a_waiting_dequeue)
{
    bench b;
    begin(&b, -1);
    MR_CHECK_ERR(target(&b, b.got.node, &(mr_run_options){.timeout_ms = 20}),
                 MR_DEADLINE_EXCEEDED, "");
    int64_t v = 0;
    MR_CHECK_OK(put(&b, 7)); /* nobody is left who would take it */
    MR_CHECK_OK(fetch(&b, b.got, &v));
    MR_CHECK_INT(v, 7);
    end(&b);
}

MR_TEST(session_error_of_another_op_ends_a_waiting_dequeue)
{
    bench b;
    begin(&b, -1);
    mr_node *both[] = {
        b.got.node, mr_emit0_with(mr_as(&b.s, "stop"), "Abort",
                                  MR_ATTRS({"error_msg", mr_a_str("enough")})).node};
    mr_status *st =
        mr_session_run(b.session, &(mr_run_args){.targets = both, .n_targets = 2}, NULL, NULL);
    MR_CHECK(says(st, MR_ABORTED,
                  "Abort_op intentional failure; enough\n\t [[{{node stop}}]]"));
    mr_status_free(st);
    end(&b);
}

/* ---- references ---- */

MR_TEST(session_ref_identity_passes_a_variable_without_a_value)
{
    bench b;
    begin(&b, -1);
    mr_out v = mr_emit0_with(mr_as(&b.s, "var"), "VariableV2",
                             MR_ATTRS({"dtype", mr_a_type(MR_INT64)},
                                      {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out same = mr_emit(mr_as(&b.s, "same"), "RefIdentity", v);
    mr_out has = mr_emit(&b.s, "IsVariableInitialized", same);
    mr_out read = mr_emit(mr_as(&b.s, "read"), "Identity", same);
    mr_out set = mr_emit(&b.s, "Assign", same, mr_const_i64(&b.s, 5));
    MR_CHECK_OK(target(&b, has.node, NULL));
    int64_t x = 0;
    mr_status *st = fetch(&b, read, &x);
    MR_CHECK(says(st, MR_FAILED_PRECONDITION,
                  "Attempting to use uninitialized value same\n\t [[{{node read}}]]"));
    mr_status_free(st);
    MR_CHECK_OK(target(&b, set.node, NULL));
    MR_CHECK_OK(fetch(&b, v, &x));
    MR_CHECK_INT(x, 5);
    end(&b);
}

/* ---- many steps at once ---- */

enum { THREADS = 16, EACH = 300 };

typedef struct worker {
    bench *b;
    mr_thread thread;
    _Atomic int64_t *sum; /* of what was put, or taken */
    mr_status *st;        /* that ended it */
} worker;

static void putter(void *arg)
{
    worker *w = arg;
    for (int64_t i = 0; !w->st && i < EACH; i++) {
        w->st = put(w->b, i + 1);
        if (!w->st)
            atomic_fetch_add(w->sum, i + 1);
    }
}

static void taker(void *arg)
{
    worker *w = arg;
    while (!w->st) {
        int64_t v = 0;
        w->st = fetch(w->b, w->b->got, &v);
        if (!w->st)
            atomic_fetch_add(w->sum, v);
    }
}

typedef struct gang {
    worker w[THREADS];
    _Atomic int64_t put, taken;
} gang;

static void gang_start(gang *g, bench *b)
{
    *g = (gang){0};
    for (int i = 0; i < THREADS; i++) {
        worker *w = &g->w[i];
        *w = (worker){.b = b, .sum = i % 2 ? &g->put : &g->taken};
        MR_CHECK_INT(mr_thread_start(&w->thread, "worker", i % 2 ? putter : taker, w), 0);
    }
}

static void gang_join(gang *g)
{
    for (int i = 0; i < THREADS; i++)
        mr_thread_join(&g->w[i].thread);
}

MR_TEST(session_closing_the_queue_ends_all_and_loses_nothing)
{
    bench b;
    gang g;
    mr_test_deadline(120);
    begin(&b, 3);
    mr_node *close = mr_emit(&b.s, "QueueCloseV2", b.queue).node;
    gang_start(&g, &b);
    for (int i = 1; i < THREADS; i += 2)
        mr_thread_join(&g.w[i].thread);
    MR_CHECK_OK(target(&b, close, NULL));
    for (int i = 0; i < THREADS; i += 2)
        mr_thread_join(&g.w[i].thread);
    for (int i = 0; i < THREADS; i += 2) {
        MR_CHECK(says(g.w[i].st, MR_OUT_OF_RANGE,
                      "FIFOQueue 'q' is closed and has insufficient elements (requested 1, current "
                      "size 0)\n\t [[{{node got}}]]"));
        mr_status_free(g.w[i].st);
        MR_CHECK(!g.w[i + 1].st);
    }
    MR_CHECK_INT(atomic_load(&g.put), (int64_t)THREADS / 2 * EACH * (EACH + 1) / 2);
    MR_CHECK_INT(atomic_load(&g.taken), atomic_load(&g.put));
    end(&b);
}

/* Each is in the middle of a step, or comes too late. */
MR_TEST(session_close_ends_all_who_wait)
{
    bench b;
    gang g;
    mr_test_deadline(120);
    begin(&b, 3);
    gang_start(&g, &b);
    while (atomic_load(&g.put) == 0) /* until somebody is at work */
        sched_yield();
    MR_CHECK_OK(mr_session_close(b.session));
    gang_join(&g);
    for (int i = 0; i < THREADS; i++) {
        mr_status *st = g.w[i].st;
        MR_CHECK(!st || mr_status_code(st) == MR_CANCELLED);
        MR_CHECK(st || i % 2); /* only who puts in may have got through */
        mr_status_free(st);
    }
    end(&b);
}

/* ---- a mutex inside steps ---- */

typedef struct adder {
    bench *b;
    mr_node *step;
    mr_thread thread;
} adder;

static void add_many(void *arg)
{
    adder *a = arg;
    for (int i = 0; i < EACH; i++)
        MR_CHECK_OK(target(a->b, a->step, NULL));
}

/* read, then write, with nothing but the mutex to keep others out in between. */
MR_TEST(session_mutex_keeps_steps_apart)
{
    bench b;
    adder a[THREADS];
    mr_test_deadline(120);
    begin(&b, -1);
    mr_scope *s = &b.s;
    mr_out var = mr_emit0_with(
        s, "VarHandleOp",
        MR_ATTRS({"dtype", mr_a_type(MR_INT64)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_node *init = mr_emit(s, "AssignVariableOp", var, mr_const_i64(s, 0)).node;
    mr_out mutex = mr_emit0(s, "MutexV2"), lock = mr_emit(s, "MutexLock", mutex);
    mr_vec_push(&s->controls, lock.node);
    mr_out old = mr_emit_with(s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}), var);
    mr_out sum = mr_emit(s, "AddV2", old, mr_const_i64(s, 1));
    mr_node *write = mr_emit(s, "AssignVariableOp", var, sum).node;
    mr_vec_push(&s->controls, write);
    mr_node *release = mr_emit(s, "ConsumeMutexLock", lock).node;
    s->controls.n = 0;
    mr_out read = mr_emit_with(s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_INT64)}), var);
    MR_CHECK_OK(mr_scope_status(s));
    MR_CHECK_OK(target(&b, init, NULL));
    for (int i = 0; i < THREADS; i++) {
        a[i] = (adder){.b = &b, .step = release};
        MR_CHECK_INT(mr_thread_start(&a[i].thread, "adder", add_many, &a[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        mr_thread_join(&a[i].thread);
    int64_t v = 0;
    MR_CHECK_OK(fetch(&b, read, &v));
    MR_CHECK_INT(v, THREADS * EACH);
    end(&b);
}
