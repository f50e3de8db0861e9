#include "base/memory.h"
#include "exec/executor_fixture.h"
#include "exec/session.h"
#include "graph/library.h"

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_session_config config;
    mr_out x;
} bench;

static void begin(bench *b)
{
    fixture r; /* registers the test ops */
    fixture_init(&r, 0);
    fixture_deinit(&r);
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    b->x = mr_placeholder(&b->s, MR_FLOAT, "x", NULL);
}

static void end(bench *b)
{
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static mr_status *run(bench *b, float x, mr_out y, float *out)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    if (!b->session)
        MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &b->config, &b->session));
    mr_tensor *v = mr_tensor_scalar_f32(x), *got = NULL;
    mr_status *st = mr_session_run(b->session,
                                   &(mr_run_args){.feeds = &b->x,
                                                  .feed_values = &v,
                                                  .n_feeds = 1,
                                                  .fetches = &y,
                                                  .fetched = &got,
                                                  .n_fetches = 1},
                                   NULL, NULL);
    if (!st)
        *out = got->dtype == MR_FLOAT ? *MR_DATA(float, got) : (float)*MR_DATA(int32_t, got);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return st;
}

static float value(bench *b, float x, mr_out y)
{
    float v;
    MR_CHECK_OK(run(b, x, y, &v));
    return v;
}

/* A body under construction; its first argument is a. */
typedef struct body {
    mr_graph *g;
    mr_scope s;
    mr_out a;
} body;

static void body_begin(body *f)
{
    f->g = mr_graph_new();
    mr_scope_init(&f->s, f->g, "");
    f->a = mr_placeholder(&f->s, MR_FLOAT, "a", NULL);
}

/* The function name(a) = result joins the library of b. */
static void body_end(body *f, bench *b, const char *name, mr_out result)
{
    mr_function *made;
    MR_CHECK_OK(mr_scope_status(&f->s));
    mr_function_spec spec = {.name = name,
                             .n_nodes = -1,
                             .n_inputs = 1,
                             .inputs = &f->a,
                             .n_outputs = 1,
                             .outputs = &result};
    MR_CHECK_OK(mr_function_from_graph(f->g, &spec, &made));
    MR_CHECK_OK(mr_library_add(b->g->library, made));
    mr_function_unref(made);
    mr_scope_deinit(&f->s);
    mr_graph_unref(f->g);
}

static mr_out call(mr_scope *s, const char *function, mr_out x)
{
    static const int type[] = {MR_FLOAT};
    mr_func_ref f = {function, 0, NULL};
    return mr_emit_with(s, "PartitionedCall",
                        MR_ATTRS({"Tin", mr_a_types(1, type)}, {"Tout", mr_a_types(1, type)},
                                 {"f", {MR_ATTR_FUNC, .func = &f}}), x);
}

static void add_twice(bench *b)
{
    body f;
    body_begin(&f);
    body_end(&f, b, "Twice", mr_emit(&f.s, "AddV2", f.a, f.a));
}

MR_TEST(function_is_called_by_attribute)
{
    bench b;
    begin(&b);
    add_twice(&b);
    mr_out y = mr_emit(&b.s, "AddV2", call(&b.s, "Twice", b.x), call(&b.s, "Twice", b.x));
    for (int i = 0; i < 4; i++)
        MR_CHECK_NEAR(value(&b, (float)i, y), 4 * i, 0);
    end(&b);
}

MR_TEST(function_is_called_as_an_op)
{
    bench b;
    begin(&b);
    add_twice(&b);
    MR_CHECK_NEAR(value(&b, 3, mr_emit(&b.s, "Twice", mr_emit(&b.s, "Twice", b.x))), 12, 0);
    end(&b);
}

MR_TEST(function_calls_functions)
{
    bench b;
    begin(&b);
    add_twice(&b);
    body f;
    body_begin(&f);
    MR_CHECK_OK(mr_library_copy(b.g->library, f.g->library));
    body_end(&f, &b, "Eight",
             call(&f.s, "Twice", call(&f.s, "Twice", mr_emit(&f.s, "Twice", f.a))));
    MR_CHECK_NEAR(value(&b, 3, call(&b.s, "Eight", b.x)), 24, 0);
    end(&b);
}

/* Count(a) = a > 0 ? Count(a - 1) + 1 : a */
static void add_count(bench *b)
{
    body f;
    body_begin(&f);
    mr_out pred = mr_emit(&f.s, "Greater", f.a, mr_const_f32(&f.s, 0)),
           sw = mr_emit(&f.s, "Switch", f.a, pred);
    mr_out less = mr_emit(&f.s, "Sub", mr_nth(sw, 1), mr_const_f32(&f.s, 1));
    mr_out more = mr_emit(&f.s, "AddV2", call(&f.s, "Count", less), mr_const_f32(&f.s, 1));
    body_end(&f, b, "Count", mr_emit(&f.s, "Merge", sw, more));
}

MR_TEST(function_recurses)
{
    bench b;
    begin(&b);
    add_count(&b);
    mr_out y = call(&b.s, "Count", b.x);
    MR_CHECK_NEAR(value(&b, 0, y), 0, 0);
    MR_CHECK_NEAR(value(&b, 5, y), 5, 0);
    MR_CHECK_NEAR(value(&b, 5000, y), 5000, 0); /* deeper than any stack */
    end(&b);
}

/* Fib(a) = a > 1 ? Fib(a - 1) + Fib(a - 2) : a: calls open at a time must not grow as the tree
 * does. */
MR_TEST(function_recurses_into_a_tree)
{
    bench b;
    begin(&b);
    body f;
    body_begin(&f);
    mr_out one = mr_const_f32(&f.s, 1),
           sw = mr_emit(&f.s, "Switch", f.a, mr_emit(&f.s, "Greater", f.a, one));
    mr_out left = mr_emit(&f.s, "Sub", mr_nth(sw, 1), one), right = mr_emit(&f.s, "Sub", left, one);
    mr_out sum = mr_emit(&f.s, "AddV2", call(&f.s, "Fib", left), call(&f.s, "Fib", right));
    body_end(&f, &b, "Fib", mr_emit(&f.s, "Merge", sw, sum));
    mr_out y = call(&b.s, "Fib", b.x);
    MR_CHECK_NEAR(value(&b, 10, y), 55, 0);
    MR_CHECK_NEAR(value(&b, 18, y), 2584, 0);
    end(&b);
}

MR_TEST(function_recursion_without_end_is_an_error)
{
    bench b;
    begin(&b);
    add_count(&b);
    float v;
    for (int i = 0; i < 2; i++)
        MR_CHECK_ERR(run(&b, 1e9f, call(&b.s, "Count", b.x), &v), MR_RESOURCE_EXHAUSTED,
                     "nested deeper");
    MR_CHECK_NEAR(value(&b, 7, call(&b.s, "Count", b.x)), 7, 0);
    end(&b);
}

MR_TEST(function_recursion_is_ended_by_the_deadline)
{
    bench b;
    begin(&b);
    b.config.timeout_ms = 1;
    add_count(&b);
    float v;
    mr_status *st = run(&b, 9000, call(&b.s, "Count", b.x), &v);
    if (st) /* a quick machine may be done in time */
        MR_CHECK_ERR(st, MR_DEADLINE_EXCEEDED, "Timed out");
    end(&b);
}

MR_TEST(function_errors_name_the_nodes)
{
    bench b;
    begin(&b);
    body f;
    body_begin(&f);
    mr_out i = mr_emit_with(&f.s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), f.a);
    mr_out bad = mr_emit(mr_as(&f.s, "inner"), "TestFail", i);
    body_end(&f, &b, "Bad",
             mr_emit_with(&f.s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), bad));
    mr_out y = mr_emit(mr_as(&b.s, "outer"), "Bad", b.x);
    float v;
    MR_CHECK_ERR(run(&b, 1, y, &v), MR_OUT_OF_RANGE,
                 "test failure\n\t [[{{node inner}}]]\n\t [[{{node outer}}]]");
    end(&b);
}

MR_TEST(function_must_exist)
{
    bench b;
    begin(&b);
    float v;
    MR_CHECK_ERR(run(&b, 1, call(&b.s, "Nowhere", b.x), &v), MR_NOT_FOUND,
                 "Function Nowhere is not defined.");
    end(&b);
}

MR_TEST(function_takes_what_it_declares)
{
    bench b;
    begin(&b);
    add_twice(&b);
    static const int types[] = {MR_FLOAT, MR_FLOAT};
    mr_func_ref f = {"Twice", 0, NULL};
    mr_out two[] = {b.x, b.x};
    mr_out y = mr_emit_n(&b.s, "PartitionedCall",
                         MR_ATTRS({"Tin", mr_a_types(2, types)}, {"Tout", mr_a_types(1, types)},
                                  {"f", {MR_ATTR_FUNC, .func = &f}}),
                         two, 2);
    float v;
    MR_CHECK_ERR(run(&b, 1, y, &v), MR_INVALID_ARGUMENT, "takes 1 arguments, got 2");
    end(&b);
}

MR_TEST(function_is_not_called_by_an_unknown_executor)
{
    static const char *const names[] = {"UNKNOWN", "SINGLE_THREADED_EXECUTOR"};
    static const int type[] = {MR_FLOAT};
    for (int i = 0; i < 2; i++) {
        bench b;
        float v = 0;
        begin(&b);
        add_twice(&b);
        mr_func_ref f = {"Twice", 0, NULL};
        mr_out y = mr_emit_with(&b.s, "PartitionedCall",
                                MR_ATTRS({"Tin", mr_a_types(1, type)}, {"Tout", mr_a_types(1, type)},
                                         {"f", {MR_ATTR_FUNC, .func = &f}}, {"executor_type", mr_a_str(names[i])}), b.x);
        mr_status *st = run(&b, 1, y, &v);
        if (i == 0)
            MR_CHECK_ERR(st, MR_NOT_FOUND, "No executor factory registered for the given executor type: UNKNOWN");
        else
            MR_CHECK_OK(st);
        end(&b);
    }
}

MR_TEST(function_keeps_its_stateful_kernels)
{
    bench b;
    begin(&b);
    body f;
    body_begin(&f);
    mr_out n = mr_emit_with(&f.s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}),
                            mr_emit0(&f.s, "TestStateful"));
    body_end(&f, &b, "Next", mr_emit(&f.s, "AddV2", n, f.a));
    mr_out y = mr_emit(&b.s, "Next", b.x);
    for (int i = 0; i < 3; i++)
        MR_CHECK_NEAR(value(&b, 10, y), 10 + i, 0);
    end(&b);
}

MR_TEST(function_runs_effects_nobody_fetches)
{
    bench b;
    begin(&b);
    body f;
    body_begin(&f);
    mr_emit(&f.s, "TestCount", mr_emit0(&f.s, "TestStateful")); /* not stateful itself: dropped */
    mr_emit(&f.s, "Print", f.a, f.a);
    body_end(&f, &b, "F", mr_emit(&f.s, "Neg", f.a));
    MR_CHECK_NEAR(value(&b, 1, mr_emit(&b.s, "F", b.x)), -1, 0);
    MR_CHECK_INT(fixture_counter, 0);
    end(&b);
}

MR_TEST(function_spans_devices)
{
    bench b;
    begin(&b);
    b.config.n_cpus = 2;
    body f;
    body_begin(&f);
    f.s.device = "/device:CPU:1";
    mr_out there = mr_emit(&f.s, "AddV2", f.a, f.a);
    f.s.device = "/device:CPU:0";
    body_end(&f, &b, "F", mr_emit(&f.s, "Mul", there, f.a));
    mr_out y = mr_emit(&b.s, "AddV2", mr_emit(&b.s, "F", b.x),
                       mr_emit(&b.s, "F", mr_emit(&b.s, "Neg", b.x)));
    for (int i = 0; i < 4; i++)
        MR_CHECK_NEAR(value(&b, (float)i, y), 4 * i * i, 0);
    end(&b);
}

MR_TEST(function_has_a_symbolic_gradient)
{
    bench b;
    begin(&b);
    body f;
    body_begin(&f);
    body_end(&f, &b, "Cube", mr_emit(&f.s, "Mul", f.a, mr_emit(&f.s, "Mul", f.a, f.a)));
    static const int types[] = {MR_FLOAT, MR_FLOAT};
    mr_func_ref ref = {"Cube", 0, NULL};
    mr_out in[] = {b.x, mr_const_f32(&b.s, 10)};
    mr_out dx = mr_emit_n(&b.s, "SymbolicGradient",
                          MR_ATTRS({"Tin", mr_a_types(2, types)}, {"Tout", mr_a_types(1, types)},
                                   {"f", {MR_ATTR_FUNC, .func = &ref}}),
                          in, 2);
    MR_CHECK_NEAR(value(&b, 2, dx), 120, 1e-4);
    end(&b);
}

/* Not of functions, but with the same test ops: the state of a node is the same in every plan of a
 * session. */
MR_TEST(session_shares_stateful_kernels_between_signatures)
{
    bench b;
    begin(&b);
    mr_out n = mr_emit0(&b.s, "TestStateful"), also = mr_emit(&b.s, "TestAdd", n, n);
    MR_CHECK_NEAR(value(&b, 0, n), 0, 0);
    MR_CHECK_NEAR(value(&b, 0, also), 2, 0);
    MR_CHECK_NEAR(value(&b, 0, n), 2, 0);
    end(&b);
}
