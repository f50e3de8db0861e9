/* Functions called outside of a step, and what becomes of them when their session ends. */
#include "run/later.h"

#include "base/blocking.h"
#include "base/clock.h"
#include "base/memory.h"
#include "exec/session.h"
#include "graph/library.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

static mr_later *kept;

static mr_status *keep(mr_run *r)
{
    mr_later_unref(kept);
    kept = mr_later_new(r);
    mr_run_pass(r, 0, 0);
    return NULL;
}

static const mr_kernel keep_kernels[] = {{"CPU", 0, keep}, {0}};
static const mr_op keep_op = {.name = "TestKeepLater",
                              .sig = "a: float -> o: float",
                              .flags = MR_STATEFUL,
                              .kernels = keep_kernels};

enum { MOST_NOTED = 16 };
static pthread_t noted[MOST_NOTED]; /* the threads that TestNoteThread ran in */
static _Atomic int n_noted;

static mr_status *note_thread(mr_run *r)
{
    noted[atomic_fetch_add(&n_noted, 1)] = pthread_self();
    mr_run_pass(r, 0, 0);
    return NULL;
}

static const mr_kernel note_kernels[] = {{"CPU", 0, note_thread}, {0}};
static const mr_op note_op = {.name = "TestNoteThread",
                              .sig = "a: float -> o: float",
                              .flags = MR_STATEFUL | MR_BLOCKS,
                              .kernels = note_kernels};

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
} bench;

typedef struct body {
    mr_graph *g;
    mr_scope s;
    mr_out a;
} body;

static body body_begin(void)
{
    body f = {.g = mr_graph_new()};
    mr_scope_init(&f.s, f.g, "");
    f.a = mr_placeholder(&f.s, MR_FLOAT, "a", NULL);
    return f;
}

static void body_end(body *f, bench *b, const char *name, mr_out result)
{
    mr_function *made;
    MR_CHECK_OK(mr_scope_status(&f->s));
    mr_function_spec spec = {.name = name, .n_nodes = -1, .n_inputs = 1, .inputs = &f->a,
                             .n_outputs = 1, .outputs = &result};
    MR_CHECK_OK(mr_function_from_graph(f->g, &spec, &made));
    MR_CHECK_OK(mr_library_add(b->g->library, made));
    mr_function_unref(made);
    mr_scope_deinit(&f->s);
    mr_graph_unref(f->g);
}

static void add_functions(bench *b)
{
    static const int types[] = {MR_FLOAT};
    body f = body_begin();
    body_end(&f, b, "Twice", mr_emit(&f.s, "AddV2", f.a, f.a));
    f = body_begin(); /* waits for a queue that stays empty */
    mr_out q = mr_emit0_with(&f.s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}));
    mr_out v = mr_emit_with(&f.s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    body_end(&f, b, "Waits", mr_emit(&f.s, "AddV2", f.a, v));
    f = body_begin();
    mr_out log = mr_emit(&f.s, "Log", f.a);
    body_end(&f, b, "Fails", mr_emit_with(mr_as(&f.s, "check"), "CheckNumerics", MR_ATTRS({"message", mr_a_str("bad")}), log));
    f = body_begin();
    mr_out sum = f.a;
    for (int i = 0; i < MOST_NOTED; i++)
        sum = mr_emit(&f.s, "AddV2", sum, mr_emit(&f.s, "TestNoteThread", f.a));
    body_end(&f, b, "NotesThreads", sum);
    f = body_begin(); /* one node that may wait, before and beside others */
    mr_out noted_in = mr_emit(&f.s, "TestNoteThread", mr_emit(&f.s, "AddV2", f.a, f.a));
    body_end(&f, b, "NotesThread", mr_emit(&f.s, "Sub", mr_emit(&f.s, "Mul", f.a, f.a), noted_in));
}

static void begin(bench *b, int threads)
{
    mr_ops_register();
    MR_CHECK_OK(mr_op_register(&keep_op));
    MR_CHECK_OK(mr_op_register(&note_op));
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    add_functions(b);
    mr_out y = mr_emit(&b->s, "TestKeepLater", mr_const_f32(&b->s, 1));
    mr_tensor *got = NULL;
    mr_session_config c = {.inter_threads = threads, .intra_threads = 1, .per_session_threads = true};
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &c, &b->session));
    MR_CHECK_OK(mr_session_run(b->session, &(mr_run_args){.fetches = &y, .fetched = &got, .n_fetches = 1},
                               NULL, NULL));
    mr_tensor_unref(got);
}

static void end_session(bench *b)
{
    mr_session_free(b->session);
    b->session = NULL;
}

static void end(bench *b)
{
    end_session(b);
    mr_later_unref(kept);
    kept = NULL;
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static mr_status *call(const char *name, float x, mr_cancel *c, float *out)
{
    mr_func_ref f = {name, 0, NULL};
    mr_tensor *arg = mr_tensor_scalar_f32(x), *ret = NULL;
    mr_status *st = mr_later_run(kept, &(mr_later_call){.f = &f, .args = &arg, .n_args = 1,
                                                        .rets = &ret, .n_rets = 1, .cancel = c});
    if (!st)
        *out = *MR_DATA(float, ret);
    mr_tensor_unref(ret);
    mr_tensor_unref(arg);
    return st;
}

static void call_twice(int threads)
{
    bench b;
    float y = 0;
    begin(&b, threads);
    MR_CHECK_OK(call("Twice", 21, NULL, &y));
    MR_CHECK_NEAR(y, 42, 0);
    MR_CHECK_ERR(call("Nobody", 1, NULL, &y), MR_NOT_FOUND, "Function Nobody is not defined");
    end(&b);
}

MR_TEST(later_a_function_is_called_after_its_step) { call_twice(2); }
MR_TEST(later_a_function_is_called_without_other_threads) { call_twice(-1); }
MR_TEST(later_a_function_is_called_with_one_thread) { call_twice(1); }

MR_TEST(later_an_error_names_the_node)
{
    bench b;
    float y;
    begin(&b, 1);
    MR_CHECK_ERR(call("Fails", -1, NULL, &y), MR_INVALID_ARGUMENT, "{{node check");
    end(&b);
}

static int n_other_threads(pthread_t t)
{
    int n = 0;
    for (int i = 0; i < atomic_load(&n_noted); i++)
        n += !pthread_equal(noted[i], t);
    return n;
}

/* Also those that may wait, which have threads of their own otherwise. */
static void kernels_in_the_caller(int threads)
{
    bench b;
    begin(&b, threads);
    atomic_store(&n_noted, 0);
    mr_func_ref f = {"NotesThreads", 0, NULL};
    mr_tensor *arg = mr_tensor_scalar_f32(1), *ret = NULL;
    MR_CHECK_OK(mr_later_run(kept, &(mr_later_call){.f = &f, .args = &arg, .n_args = 1, .rets = &ret, .n_rets = 1,
                                                    .one_thread = true}));
    MR_CHECK_NEAR(*MR_DATA(float, ret), 1 + MOST_NOTED, 0);
    MR_CHECK_INT(atomic_load(&n_noted), MOST_NOTED);
    MR_CHECK_INT(n_other_threads(pthread_self()), 0);
    mr_tensor_unref(ret);
    mr_tensor_unref(arg);
    end(&b);
}

MR_TEST(later_a_call_of_one_thread_runs_kernels_that_wait_in_the_caller) { kernels_in_the_caller(3); }
MR_TEST(later_a_call_of_one_thread_needs_no_pool) { kernels_in_the_caller(-1); }

typedef struct async {
    _Atomic int left;
    _Atomic int wrong;
} async;

typedef struct one {
    async *a;
    mr_tensor *arg, *ret;
    float want;
} one;

static void async_done(void *ctx, mr_status *st)
{
    one *o = ctx;
    if (st || *MR_DATA(float, o->ret) != o->want)
        atomic_fetch_add(&o->a->wrong, 1);
    mr_status_free(st);
    atomic_fetch_sub(&o->a->left, 1);
}

MR_TEST(later_many_calls_are_under_way_at_once)
{
    enum { N = 200 };
    bench b;
    begin(&b, 3);
    async a = {N};
    one all[N];
    mr_func_ref f = {"Twice", 0, NULL};
    for (int i = 0; i < N; i++) {
        all[i] = (one){&a, mr_tensor_scalar_f32((float)i), NULL, 2 * (float)i};
        mr_later_start(kept, &(mr_later_call){.f = &f, .args = &all[i].arg, .n_args = 1,
                                              .rets = &all[i].ret, .n_rets = 1}, async_done, &all[i]);
    }
    end_session(&b); /* waits for those that are under way */
    MR_CHECK_INT(atomic_load(&a.left), 0);
    for (int i = 0; i < N; i++) {
        mr_tensor_unref(all[i].arg);
        mr_tensor_unref(all[i].ret);
    }
    end(&b);
}

MR_TEST(later_a_call_of_one_thread_that_is_not_waited_for_stays_in_one)
{
    bench b;
    begin(&b, 3);
    atomic_store(&n_noted, 0);
    async a = {1};
    one o = {&a, mr_tensor_scalar_f32(1), NULL, 1 + MOST_NOTED};
    mr_func_ref f = {"NotesThreads", 0, NULL};
    mr_later_start(kept, &(mr_later_call){.f = &f, .args = &o.arg, .n_args = 1, .rets = &o.ret, .n_rets = 1,
                                          .one_thread = true}, async_done, &o);
    while (atomic_load(&a.left) > 0) /* the end of the session would cancel it */
        ;
    MR_CHECK_INT(atomic_load(&a.wrong), 0);
    MR_CHECK_INT(atomic_load(&n_noted), MOST_NOTED);
    MR_CHECK_INT(n_other_threads(noted[0]), 0);
    mr_tensor_unref(o.arg);
    mr_tensor_unref(o.ret);
    end(&b);
}

static void must_be_cancelled(void *ctx, mr_status *st)
{
    async *a = ctx;
    if (mr_status_code(st) != MR_CANCELLED)
        atomic_fetch_add(&a->wrong, 1);
    mr_status_free(st);
    atomic_fetch_sub(&a->left, 1);
}

/* More calls than base/blocking.c has threads: some are under way, some have no thread yet, and one comes too late. */
MR_TEST(later_calls_of_one_thread_are_cancelled)
{
    enum { N = MR_BLOCKING_MAX + 20 };
    bench b;
    begin(&b, 1);
    async a = {N};
    mr_func_ref f = {"Waits", 0, NULL};
    mr_tensor *arg = mr_tensor_scalar_f32(1), *rets[N] = {0};
    mr_cancel *c = mr_cancel_new(mr_later_cancel(kept));
    for (int i = 0; i < N; i++) {
        if (i == N - 1)
            mr_cancel_start(c);
        mr_later_start(kept, &(mr_later_call){.f = &f, .args = &arg, .n_args = 1, .rets = &rets[i], .n_rets = 1,
                                              .cancel = c, .one_thread = true}, must_be_cancelled, &a);
    }
    end_session(&b);
    MR_CHECK_INT(atomic_load(&a.left), 0);
    MR_CHECK_INT(atomic_load(&a.wrong), 0);
    mr_cancel_free(c);
    mr_tensor_unref(arg);
    end(&b);
}

MR_TEST(later_calls_end_with_the_session)
{
    bench b;
    float y;
    begin(&b, 2);
    end_session(&b);
    MR_CHECK_ERR(call("Twice", 1, NULL, &y), MR_CANCELLED, "Session has been closed");
    MR_CHECK_ERR(mr_later_thread(kept, "t", NULL, NULL), MR_CANCELLED, "Session has been closed");
    MR_CHECK(mr_later_over(kept));
    end(&b);
}

static _Atomic int n_ended;
static _Atomic int n_begun;

static void wait_in_thread(void *arg)
{
    float y;
    mr_cancel *c = arg;
    atomic_fetch_add(&n_begun, 1);
    mr_status *st = call("Waits", 1, c, &y);
    MR_CHECK(mr_status_code(st) == MR_CANCELLED);
    mr_status_free(st);
    atomic_fetch_add(&n_ended, 1);
}

MR_TEST(later_freeing_the_session_cancels_calls_and_waits_for_threads)
{
    bench b;
    begin(&b, 2);
    for (int i = 0; i < 5; i++)
        MR_CHECK_OK(mr_later_thread(kept, "waits", wait_in_thread, NULL));
    while (atomic_load(&n_begun) < 5)
        ;
    end_session(&b);
    MR_CHECK_INT(atomic_load(&n_ended), 5);
    end(&b);
}

MR_TEST(later_a_call_is_cancelled_by_its_own_cancellation)
{
    bench b;
    begin(&b, 1);
    mr_cancel *c = mr_cancel_new(mr_later_cancel(kept));
    MR_CHECK_OK(mr_later_thread(kept, "waits", wait_in_thread, c));
    while (atomic_load(&n_begun) < 1)
        ;
    mr_cancel_start(c);
    while (atomic_load(&n_ended) < 1)
        ;
    mr_cancel_free(c);
    float y = 0;
    MR_CHECK_OK(call("Twice", 2, NULL, &y)); /* the session goes on */
    MR_CHECK_NEAR(y, 4, 0);
    end(&b);
}

MR_TEST(later_may_outlive_its_session_and_its_graph)
{
    bench b;
    begin(&b, 1);
    mr_later *l = mr_later_ref(kept), *other = mr_later_new_in(kept, b.g);
    end(&b);
    MR_CHECK(mr_later_over(l) && mr_later_over(other));
    MR_CHECK(mr_cancel_started(mr_later_cancel(other)));
    mr_later_unref(l);
    mr_later_unref(other);
}

/* ---- functions that are opened once ---- */

static mr_later_fn *open_one(const mr_func_ref *f, mr_cancel *c)
{
    mr_later_fn *made;
    MR_CHECK_OK(mr_later_fn_open(kept, &(mr_later_call){.f = f, .n_rets = 1, .cancel = c}, 1, &made));
    return made;
}

static mr_status *call_opened(mr_later_fn *f, float x, float *out)
{
    mr_tensor *arg = mr_tensor_scalar_f32(x), *ret = NULL;
    mr_status *st = mr_later_fn_run(f, &arg, &ret);
    if (!st)
        *out = *MR_DATA(float, ret);
    mr_tensor_unref(ret);
    mr_tensor_unref(arg);
    return st;
}

static void open_and_call(int threads)
{
    bench b;
    float y = 0;
    begin(&b, threads);
    mr_func_ref twice = {"Twice", 0, NULL}, nobody = {"Nobody", 0, NULL};
    mr_later_fn *f = open_one(&twice, NULL), *g = open_one(&twice, NULL), *none;
    for (int i = 0; i < 200; i++) {
        MR_CHECK_OK(call_opened(i % 3 ? f : g, (float)i, &y));
        MR_CHECK_NEAR(y, 2.0 * i, 0);
    }
    MR_CHECK(mr_later_fn_cost_ns(f) < MR_LATER_FN_UNKNOWN);
    MR_CHECK_ERR(mr_later_fn_open(kept, &(mr_later_call){.f = &nobody, .n_rets = 1}, 1, &none), MR_NOT_FOUND,
                 "Function Nobody is not defined");
    MR_CHECK_ERR(mr_later_fn_open(kept, &(mr_later_call){.f = &twice, .n_rets = 1}, 2, &none), MR_INVALID_ARGUMENT,
                 "takes 1 arguments, got 2");
    mr_later_fn_close(f);
    mr_later_fn_close(g);
    end(&b);
}

MR_TEST(later_an_open_function_is_called_many_times) { open_and_call(2); }
MR_TEST(later_an_open_function_needs_no_other_threads) { open_and_call(-1); }

MR_TEST(later_an_open_function_goes_on_after_an_error)
{
    bench b;
    float y = -1;
    begin(&b, 1);
    mr_func_ref fails = {"Fails", 0, NULL};
    mr_later_fn *f = open_one(&fails, NULL);
    for (int i = 0; i < 3; i++) {
        MR_CHECK_ERR(call_opened(f, -1, &y), MR_INVALID_ARGUMENT, "{{node check");
        MR_CHECK_OK(call_opened(f, 1, &y));
        MR_CHECK_NEAR(y, 0, 0);
    }
    mr_later_fn_close(f);
    end(&b);
}

/* The node that may wait comes last of those it does not need. Its cost says nothing about the next call. */
MR_TEST(later_an_open_function_runs_a_kernel_that_waits_in_the_caller)
{
    bench b;
    float y;
    begin(&b, 1);
    atomic_store(&n_noted, 0);
    mr_func_ref notes = {"NotesThread", 0, NULL};
    mr_later_fn *f = open_one(&notes, NULL);
    for (int i = 0; i < 5; i++) {
        MR_CHECK_OK(call_opened(f, 3, &y));
        MR_CHECK_NEAR(y, 3, 0);
    }
    MR_CHECK_INT(atomic_load(&n_noted), 5);
    MR_CHECK_INT(n_other_threads(pthread_self()), 0);
    MR_CHECK(mr_later_fn_cost_ns(f) == MR_LATER_FN_UNKNOWN);
    mr_later_fn_close(f);
    end(&b);
}

MR_TEST(later_an_open_function_fails_after_its_session)
{
    bench b;
    float y;
    begin(&b, 2);
    mr_func_ref twice = {"Twice", 0, NULL};
    mr_later_fn *f = open_one(&twice, NULL), *g = open_one(&twice, NULL);
    MR_CHECK_OK(call_opened(f, 1, &y));
    end_session(&b);
    MR_CHECK_ERR(call_opened(f, 1, &y), MR_CANCELLED, "Session has been closed");
    MR_CHECK_ERR(call_opened(g, 1, &y), MR_CANCELLED, "Session has been closed");
    MR_CHECK(mr_later_fn_cost_ns(f) == MR_LATER_FN_UNKNOWN);
    mr_later_fn_close(f);
    end(&b);
    mr_later_fn_close(g);
}

MR_TEST(later_an_open_function_is_cancelled_before_and_between_calls)
{
    bench b;
    float y;
    begin(&b, 2);
    mr_func_ref twice = {"Twice", 0, NULL};
    mr_cancel *c = mr_cancel_new(mr_later_cancel(kept));
    mr_later_fn *f = open_one(&twice, c);
    MR_CHECK_OK(call_opened(f, 1, &y));
    mr_cancel_start(c);
    for (int i = 0; i < 2; i++)
        MR_CHECK_ERR(call_opened(f, 1, &y), MR_CANCELLED, "");
    mr_later_fn *late = open_one(&twice, c);
    MR_CHECK_ERR(call_opened(late, 1, &y), MR_CANCELLED, "");
    mr_later_fn_close(f);
    mr_later_fn_close(late);
    mr_cancel_free(c);
    end(&b);
}

static void call_opened_in_thread(void *arg)
{
    float y;
    atomic_fetch_add(&n_begun, 1);
    mr_status *st = call_opened(arg, 1, &y);
    MR_CHECK(mr_status_code(st) == MR_CANCELLED);
    mr_status_free(st);
    atomic_fetch_add(&n_ended, 1);
    mr_later_fn_close(arg);
}

MR_TEST(later_freeing_the_session_waits_for_calls_of_open_functions)
{
    bench b;
    begin(&b, 2);
    mr_func_ref waits = {"Waits", 0, NULL};
    for (int i = 0; i < 5; i++)
        MR_CHECK_OK(mr_later_thread(kept, "waits", call_opened_in_thread, open_one(&waits, NULL)));
    while (atomic_load(&n_begun) < 5)
        ;
    end_session(&b);
    MR_CHECK_INT(atomic_load(&n_ended), 5);
    end(&b);
}
