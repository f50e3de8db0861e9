/* exec/placing_loops_test.c -- loops and conditionals whose nodes stand on several devices. */
#include "exec/session.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

#define CPU(i) "/device:CPU:" #i

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_run_options options;
} bench;

static void begin(bench *b)
{
    mr_ops_register();
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
}

static void end(bench *b)
{
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

/* A scope for nodes on a device: mr_emit(on(&b, CPU(1)), ...). */
static mr_scope *on(bench *b, const char *device)
{
    b->s.device = device;
    return &b->s;
}

static mr_out enter(mr_scope *s, const char *frame, bool constant, mr_out v)
{
    return mr_emit_with(
        s, "Enter", MR_ATTRS({"frame_name", mr_a_str(frame)}, {"is_constant", mr_a_bool(constant)}),
        v);
}

static mr_status *run(bench *b, mr_out x, float value, mr_out y, float *out)
{
    mr_session_config c = {.n_cpus = 3, .inter_threads = 2, .timeout_ms = 15000};
    if (!b->session) { /* later there may be several threads here */
        MR_TRY(mr_scope_status(&b->s));
        MR_TRY(mr_direct_session_new(b->g, NULL, &c, &b->session));
    }
    mr_tensor *v = mr_tensor_scalar_f32(value), *got = NULL;
    mr_run_args a = {.feeds = &x,
                     .feed_values = &v,
                     .n_feeds = 1,
                     .fetches = &y,
                     .fetched = &got,
                     .n_fetches = 1};
    mr_str trace = {0};
    mr_status *st =
        mr_session_run(b->session, &a, &b->options, b->options.trace_level ? &trace : NULL);
    MR_CHECK(st || !b->options.trace_level || trace.n > 0);
    mr_str_deinit(&trace);
    if (!st)
        *out = *MR_DATA(float, got);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return st;
}

static void check_counts(bench *b, mr_out x, mr_out y)
{
    static const int limits[] = {0, 1, 2, 30};
    for (int i = 0; i < MR_COUNT(limits); i++) {
        float v;
        MR_CHECK_OK(run(b, x, (float)limits[i], y, &v));
        MR_CHECK_NEAR(v, limits[i], 0);
    }
}

/* Every node of the loop on another device than its neighbours: i from 0 to x. */
static mr_out scattered_count(bench *b, mr_out x)
{
    mr_out first = enter(on(b, CPU(0)), "w", false, mr_const_f32(&b->s, 0)),
           limit = enter(on(b, CPU(2)), "w", true, x),
           one = enter(on(b, CPU(2)), "w", true, mr_const_f32(&b->s, 1));
    mr_out merge = mr_emit(on(b, CPU(1)), "Merge", first, first),
           less = mr_emit(on(b, CPU(0)), "Less", merge, limit),
           cond = mr_emit(on(b, CPU(2)), "LoopCond", less),
           split = mr_emit(on(b, CPU(0)), "Switch", merge, cond),
           sum = mr_emit(on(b, CPU(1)), "AddV2", mr_nth(split, 1), one),
           next = mr_emit(on(b, CPU(2)), "NextIteration", sum),
           out = mr_emit(on(b, CPU(1)), "Exit", split);
    MR_CHECK_OK(mr_node_set_input(merge.node, 1, next));
    return mr_emit(on(b, CPU(0)), "Identity", out);
}

MR_TEST(device_loops_need_no_two_nodes_together)
{
    bench b;
    begin(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", NULL);
    check_counts(&b, x, scattered_count(&b, x));
    end(&b);
}

/* ---- several steps at once ---- */
typedef struct client {
    bench *b;
    mr_out x, y;
    mr_thread t;
} client;

static void count_often(void *arg)
{
    client *c = arg;
    for (int i = 0; i < 10; i++)
        check_counts(c->b, c->x, c->y);
}

MR_TEST(device_loops_of_several_steps_do_not_meet)
{
    bench b;
    client c[3];
    mr_test_deadline(60);
    begin(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", NULL), y = scattered_count(&b, x);
    check_counts(&b, x, y);
    for (int i = 0; i < 3; i++) {
        c[i] = (client){&b, x, y, {0}};
        MR_CHECK_INT(mr_thread_start(&c[i].t, "client", count_often, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        mr_thread_join(&c[i].t);
    end(&b);
}

MR_TEST(device_loops_are_traced)
{
    bench b;
    begin(&b);
    b.options.trace_level = 3;
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", NULL);
    check_counts(&b, x, scattered_count(&b, x));
    end(&b);
}

/* Of the loop, the second device has what depends on invariants only, and must do it in every
 * round. */
MR_TEST(device_loops_repeat_what_is_sent_only)
{
    bench b;
    begin(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", NULL);
    mr_out first = enter(on(&b, CPU(0)), "w", false, mr_const_f32(&b.s, 0)),
           limit = enter(&b.s, "w", true, x);
    mr_out half = enter(on(&b, CPU(1)), "w", true, mr_const_f32(&b.s, 0.5f)),
           one = mr_emit(&b.s, "AddV2", half, half);
    mr_out merge = mr_emit(on(&b, CPU(0)), "Merge", first, first),
           cond = mr_emit(&b.s, "LoopCond", mr_emit(&b.s, "Less", merge, limit)),
           split = mr_emit(&b.s, "Switch", merge, cond),
           sum = mr_emit(&b.s, "AddV2", mr_nth(split, 1), one);
    MR_CHECK_OK(mr_node_set_input(merge.node, 1, mr_emit(&b.s, "NextIteration", sum)));
    check_counts(&b, x, mr_emit(&b.s, "Exit", split));
    end(&b);
}

/* An Enter and a NextIteration used on two devices each: two variables start with one Enter's
 * value. */
MR_TEST(device_loops_share_an_enter)
{
    bench b;
    begin(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", NULL);
    mr_out first = enter(on(&b, CPU(2)), "w", false, mr_const_f32(&b.s, 0)),
           limit = enter(&b.s, "w", true, x), one = enter(&b.s, "w", true, mr_const_f32(&b.s, 1));
    mr_out i = mr_emit(on(&b, CPU(0)), "Merge", first, first),
           j = mr_emit(on(&b, CPU(1)), "Merge", first, first);
    mr_out cond = mr_emit(on(&b, CPU(0)), "LoopCond", mr_emit(&b.s, "Less", i, limit)),
           split = mr_emit(&b.s, "Switch", i, cond),
           other = mr_emit(on(&b, CPU(1)), "Switch", j, cond);
    mr_out next =
        mr_emit(on(&b, CPU(2)), "NextIteration", mr_emit(&b.s, "AddV2", mr_nth(split, 1), one));
    mr_node_add_control(next.node, mr_emit(on(&b, CPU(1)), "Identity", mr_nth(other, 1)).node);
    MR_CHECK_OK(mr_node_set_input(i.node, 1, next));
    MR_CHECK_OK(mr_node_set_input(j.node, 1, next));
    check_counts(&b, x, mr_emit(&b.s, "Exit", other));
    end(&b);
}

/* A variable is where a loop on another device starts; its reference stays, its value goes. */
MR_TEST(device_loops_start_with_a_reference)
{
    bench b;
    begin(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", NULL);
    mr_out v = mr_emit0_with(
        on(&b, CPU(2)), "VariableV2",
        MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out first = mr_emit_with(&b.s, "RefEnter", MR_ATTRS({"frame_name", mr_a_str("w")}),
                                mr_emit(&b.s, "Assign", v, mr_const_f32(&b.s, 0))),
           limit = enter(on(&b, CPU(1)), "w", true, x),
           one = enter(&b.s, "w", true, mr_const_f32(&b.s, 1));
    mr_out merge = mr_emit_with(&b.s, "Merge", MR_ATTRS({"T", mr_a_type(MR_FLOAT)}), first, one),
           cond = mr_emit(&b.s, "LoopCond", mr_emit(&b.s, "Less", merge, limit)),
           split = mr_emit(&b.s, "Switch", merge, cond),
           sum = mr_emit(&b.s, "AddV2", mr_nth(split, 1), one);
    MR_CHECK_OK(mr_node_set_input(merge.node, 1, mr_emit(&b.s, "NextIteration", sum)));
    check_counts(&b, x, mr_emit(&b.s, "Exit", split));
    end(&b);
}
