#include "base/memory.h"
#include "exec/executor_fixture.h"
#include "tensor/allocator.h"

#define CTRL(o) ((mr_out){(o).node, -1})

/* A loop variable: Enter -> Merge -> Switch; the rest is added by the test. */
typedef struct var {
    mr_out merge, out, in; /* in the condition; leaving; in the body */
    mr_out sw;
} var;

static var var_begin(fixture *r, mr_out start, const char *frame, int parallel)
{
    var v = {.merge = fixture_loop_merge(r, fixture_enter(r, start, frame, false, parallel))};
    return v;
}

static void var_switch(fixture *r, var *v, mr_out loop_cond)
{
    v->sw = fixture_op(r, "Switch", v->merge, loop_cond);
    v->out = fixture_op(r, "Exit", v->sw);
    v->in = mr_nth(v->sw, 1);
}

static void var_next(fixture *r, var *v, mr_out value)
{
    fixture_close(v->merge, fixture_op(r, "NextIteration", value));
}

/* i from start below limit by step: gives the i that ends it; *body is i inside. */
static mr_out count(fixture *r, const char *frame, int parallel, mr_out start, mr_out limit,
                    mr_out step)
{
    mr_out lim = fixture_enter(r, limit, frame, true, parallel),
           inc = fixture_enter(r, step, frame, true, parallel);
    var i = var_begin(r, start, frame, parallel);
    var_switch(r, &i, fixture_op(r, "LoopCond", fixture_op(r, "TestLess", i.merge, lim)));
    var_next(r, &i, fixture_op(r, "TestAdd", i.in, inc));
    return i.out;
}

static void check_count(int parallel, int n_threads)
{
    fixture r;
    fixture_init(&r, n_threads);
    fixture_ret(&r, 0, count(&r, "w", parallel, fixture_const(&r, 0), fixture_arg(&r, 0), fixture_const(&r, 3)));
    int limits[] = {0, 1, 3, 10, 1000, -5};
    for (int i = 0; i < MR_COUNT(limits); i++)
        MR_CHECK_INT(fixture_run1(&r, limits[i]), limits[i] <= 0 ? 0 : (limits[i] + 2) / 3 * 3);
    fixture_deinit(&r);
}

MR_TEST(frames_count_with_one_iteration_at_a_time) { check_count(1, 0); }
MR_TEST(frames_count_with_two_iterations_at_a_time) { check_count(2, 0); }
MR_TEST(frames_count_with_many_iterations_at_a_time) { check_count(32, 0); }
MR_TEST(frames_count_with_threads) { check_count(10, 3); }

/* sum of i * weight over the iterations, with a body that is slow in places, so that iterations
 * overlap. */
MR_TEST(frames_overlap_iterations_without_mixing_them)
{
    for (int parallel = 1; parallel <= 8; parallel *= 2) {
        fixture r;
        fixture_init(&r, 4);
        mr_out lim = fixture_enter(&r, fixture_arg(&r, 0), "w", true, parallel);
        mr_out one = fixture_enter(&r, fixture_const(&r, 1), "w", true, parallel);
        var i = var_begin(&r, fixture_const(&r, 0), "w", parallel),
            sum = var_begin(&r, fixture_const(&r, 0), "w", parallel);
        mr_out cond = fixture_op(&r, "LoopCond", fixture_op(&r, "TestLess", i.merge, lim));
        var_switch(&r, &i, cond);
        var_switch(&r, &sum, cond);
        var_next(&r, &i, fixture_op(&r, "TestAdd", i.in, one));
        mr_out slow = fixture_op(&r, "TestSpin", i.in);
        var_next(&r, &sum, fixture_op(&r, "TestAdd", sum.in, fixture_op(&r, "TestNow", slow)));
        fixture_ret(&r, 0, sum.out);
        fixture_ret(&r, 1, i.out);
        int rets[2], arg = 50;
        for (int k = 0; k < 3; k++) {
            MR_CHECK_OK(fixture_run(&r, &arg, rets));
            MR_CHECK_INT(rets[0], 49 * 50 / 2);
            MR_CHECK_INT(rets[1], 50);
        }
        fixture_deinit(&r);
    }
}

/* for i in 0..n: for j in 0..m: sum += 1 */
static mr_out nested(fixture *r, mr_out n, mr_out m, int outer_parallel, int inner_parallel)
{
    mr_out n_in = fixture_enter(r, n, "outer", true, outer_parallel),
           m_in = fixture_enter(r, m, "outer", true, outer_parallel);
    mr_out one = fixture_enter(r, fixture_const(r, 1), "outer", true, outer_parallel);
    mr_out zero = fixture_enter(r, fixture_const(r, 0), "outer", true, outer_parallel);
    var i = var_begin(r, fixture_const(r, 0), "outer", outer_parallel);
    var sum = var_begin(r, fixture_const(r, 0), "outer", outer_parallel);
    mr_out cond = fixture_op(r, "LoopCond", fixture_op(r, "TestLess", i.merge, n_in));
    var_switch(r, &i, cond);
    var_switch(r, &sum, cond);
    var_next(r, &i, fixture_op(r, "TestAdd", i.in, one));

    mr_out m_inner = fixture_enter(r, m_in, "inner", true, inner_parallel);
    mr_out one_inner = fixture_enter(r, one, "inner", true, inner_parallel);
    mr_out start = fixture_node(r, "TestAdd", NULL, NULL, 0,
                            MR_OUTS(zero, zero, CTRL(i.in))); /* only when it goes on */
    mr_node_add_control(start.node, fixture_op(r, "TestNow", i.in).node);
    var j = var_begin(r, start, "inner", inner_parallel),
        s2 = var_begin(r, sum.in, "inner", inner_parallel);
    mr_out cond2 = fixture_op(r, "LoopCond", fixture_op(r, "TestLess", j.merge, m_inner));
    var_switch(r, &j, cond2);
    var_switch(r, &s2, cond2);
    var_next(r, &j, fixture_op(r, "TestAdd", j.in, one_inner));
    var_next(r, &s2, fixture_op(r, "TestAdd", s2.in, one_inner));
    var_next(r, &sum, s2.out);
    return sum.out;
}

static void check_nested(int outer_parallel, int inner_parallel, int n_threads)
{
    fixture r;
    fixture_init(&r, n_threads);
    fixture_ret(&r, 0, nested(&r, fixture_arg(&r, 0), fixture_arg(&r, 1), outer_parallel, inner_parallel));
    int sizes[][2] = {{0, 5}, {1, 0}, {1, 1}, {4, 0}, {5, 7}, {20, 20}};
    for (int k = 0; k < MR_COUNT(sizes); k++) {
        int ret;
        MR_CHECK_OK(fixture_run(&r, sizes[k], &ret));
        MR_CHECK_INT(ret, sizes[k][0] * sizes[k][1]);
    }
    fixture_deinit(&r);
}

MR_TEST(frames_nest_one_by_one) { check_nested(1, 1, 0); }
MR_TEST(frames_nest_in_parallel) { check_nested(10, 32, 0); }
MR_TEST(frames_nest_in_parallel_with_threads) { check_nested(4, 2, 3); }

/* A loop on one side of a conditional. */
static void loop_in_cond(fixture *r, int parallel)
{
    mr_out x = fixture_arg(r, 0), pred = fixture_op(r, "TestLess", x, fixture_const(r, 10));
    mr_out sw = fixture_op(r, "Switch", x, pred),
           lim = mr_nth(fixture_op(r, "Switch", fixture_const(r, 10), pred), 1);
    mr_out step = mr_nth(fixture_op(r, "Switch", fixture_const(r, 1), pred), 1);
    mr_out looped = count(r, "w", parallel, mr_nth(sw, 1), lim, step);
    fixture_ret(r, 0, fixture_merge(r, fixture_op(r, "TestAdd", sw, fixture_const(r, 100)), looped));
}

MR_TEST(frames_pass_deadness_out_of_an_untaken_loop)
{
    for (int parallel = 1; parallel <= 10; parallel += 9) {
        fixture r;
        fixture_init(&r, 2);
        loop_in_cond(&r, parallel);
        MR_CHECK_INT(fixture_run1(&r, 3), 10);
        MR_CHECK_INT(fixture_run1(&r, 20),
                     120); /* the loop's Exit must come out dead, or the Merge waits */
        MR_CHECK_INT(fixture_run1(&r, 4), 10);
        fixture_deinit(&r);
    }
}

/* A dead Exit reaches ordinary consumers when its frame is over. */
MR_TEST(frames_forward_dead_exits_at_their_end)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 10)));
    mr_out looped = count(&r, "w", 10, mr_nth(sw, 1), fixture_const(&r, 10), fixture_const(&r, 1));
    mr_out after = fixture_op(&r, "TestAdd", looped, fixture_const(&r, 1));
    mr_out trigger = fixture_op(&r, "ControlTrigger", CTRL(after));
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, x, CTRL(trigger)));
    MR_CHECK_INT(fixture_run1(&r, 20), 40);
    MR_CHECK_INT(fixture_run1(&r, 2), 4);
    fixture_deinit(&r);
}

/* A conditional inside a loop: i += i < 5 ? 1 : 10. */
MR_TEST(frames_hold_conditionals)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out lim = fixture_enter(&r, fixture_arg(&r, 0), "w", true, 4),
           five = fixture_enter(&r, fixture_const(&r, 5), "w", true, 4);
    mr_out one = fixture_enter(&r, fixture_const(&r, 1), "w", true, 4),
           ten = fixture_enter(&r, fixture_const(&r, 10), "w", true, 4);
    var i = var_begin(&r, fixture_const(&r, 0), "w", 4);
    var_switch(&r, &i, fixture_op(&r, "LoopCond", fixture_op(&r, "TestLess", i.merge, lim)));
    mr_out sw = fixture_op(&r, "Switch", i.in, fixture_op(&r, "TestLess", i.in, five));
    var_next(
        &r, &i,
        fixture_merge(&r, fixture_op(&r, "TestAdd", sw, ten), fixture_op(&r, "TestAdd", mr_nth(sw, 1), one)));
    fixture_ret(&r, 0, i.out);
    MR_CHECK_INT(fixture_run1(&r, 4), 4);
    MR_CHECK_INT(fixture_run1(&r, 6), 15);
    MR_CHECK_INT(fixture_run1(&r, 50), 55);
    fixture_deinit(&r);
}

/* Iterations are used again: memory does not grow with their number. */
MR_TEST(frames_reuse_iterations)
{
    fixture r;
    fixture_init(&r, 0);
    fixture_ret(&r, 0, count(&r, "w", 10, fixture_const(&r, 0), fixture_arg(&r, 0), fixture_const(&r, 1)));
    MR_CHECK_INT(fixture_run1(&r, 100000), 100000);
    mr_flow *f;
    MR_CHECK_OK(mr_program_take(r.program, &f));
    mr_exec *x = f->execs[0];
    int spare = 0;
    for (mr_iter *it = x->spare_iters[1]; it; it = it->next)
        spare++;
    MR_CHECK(spare >= 1 && spare <= 12);
    mr_program_give(x->flow);
    fixture_deinit(&r);
}

/* Refused memory costs parallel iterations or ends the step, nothing else. */
MR_TEST(frames_survive_refused_memory)
{
    int n_ok = 0, n_refused = 0;
    for (int k = 1; k < 40; k++) {
        fixture r;
        fixture_init(&r, 0);
        fixture_ret(&r, 0, nested(&r, fixture_arg(&r, 0), fixture_arg(&r, 1), 4, 3));
        int args[] = {6, 7}, ret = 0;
        r.refused = k;
        mr_status *st = fixture_run(&r, args, &ret);
        r.refused = 0;
        if (st)
            MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "");
        else
            MR_CHECK_INT(ret, 42);
        *(st ? &n_refused : &n_ok) += 1;
        MR_CHECK_OK(fixture_run(&r, args, &ret));
        MR_CHECK_INT(ret, 42);
        fixture_deinit(&r);
    }
    MR_CHECK(n_ok > 0 && n_refused > 0);
}

MR_TEST(frames_are_left_clean_by_a_failure)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out lim = fixture_enter(&r, fixture_arg(&r, 0), "w", true, 3),
           one = fixture_enter(&r, fixture_const(&r, 1), "w", true, 3);
    var i = var_begin(&r, fixture_const(&r, 0), "w", 3);
    var_switch(&r, &i, fixture_op(&r, "LoopCond", fixture_op(&r, "TestLess", i.merge, lim)));
    mr_out sw =
        fixture_op(&r, "Switch", i.in,
               fixture_op(&r, "TestLess", i.in, fixture_enter(&r, fixture_const(&r, 20), "w", true, 3)));
    mr_out bad = fixture_node(&r, "TestFail", "bad", NULL, 0, &sw, 1);
    var_next(&r, &i, fixture_op(&r, "TestAdd", fixture_merge(&r, bad, mr_nth(sw, 1)), one));
    fixture_ret(&r, 0, i.out);
    int ret, arg = 100;
    for (int k = 0; k < 3; k++) {
        MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_OUT_OF_RANGE, "{{node bad}}");
        MR_CHECK_INT(fixture_run1(&r, 20), 20);
    }
    fixture_deinit(&r);
}

/* while true: only the deadline ends it. */
static void endless(int n_threads)
{
    fixture r;
    fixture_init(&r, n_threads);
    r.timeout_ms = 50;
    mr_out x = fixture_arg(&r, 0);
    fixture_ret(&r, 0, count(&r, "w", 10, fixture_const(&r, 0), x, fixture_const(&r, 0)));
    mr_out held = fixture_op(&r, "TestCount", x); /* not starved by the loop */
    fixture_ret(&r, 1, held);
    int rets[2], arg = 1;
    MR_CHECK_ERR(fixture_run(&r, &arg, rets), MR_DEADLINE_EXCEEDED, "");
    MR_CHECK_INT(fixture_counter, 1);
    fixture_deinit(&r);
}

MR_TEST(frames_endless_loop_ends_at_the_deadline) { endless(0); }
MR_TEST(frames_endless_loop_ends_at_the_deadline_with_threads) { endless(3); }

/* The Recv of every iteration finds the Send of the same one. */
MR_TEST(frames_tell_transfers_of_iterations_apart)
{
    fixture r;
    fixture_init(&r, 2);
    const char *cpu = "/job:localhost/replica:0/task:0/device:CPU:0";
    mr_named_attr attrs[] = {{"tensor_name", mr_a_str("edge_1_x")},
                             {"send_device", mr_a_str(cpu)},
                             {"recv_device", mr_a_str(cpu)},
                             {"send_device_incarnation", mr_a_int(1)},
                             {"tensor_type", mr_a_type(MR_INT32)}};
    mr_out lim = fixture_enter(&r, fixture_arg(&r, 0), "w", true, 8);
    var i = var_begin(&r, fixture_const(&r, 0), "w", 8);
    var_switch(&r, &i, fixture_op(&r, "LoopCond", fixture_op(&r, "TestLess", i.merge, lim)));
    mr_out next = fixture_op(&r, "TestAdd", i.in, fixture_enter(&r, fixture_const(&r, 1), "w", true, 8));
    fixture_node(&r, "_Send", "s", attrs, 4, &next, 1);
    mr_out after = CTRL(fixture_op(&r, "TestNow", i.in));
    mr_out got = fixture_node(&r, "_Recv", "r", attrs, 5, &after, 1);
    var_next(&r, &i, got);
    fixture_ret(&r, 0, i.out);
    MR_CHECK_INT(fixture_run1(&r, 500), 500);
    fixture_deinit(&r);
}

/* ---- graphs that are no loops ---- */

static mr_status *plan_of(fixture *r)
{
    mr_plan *p;
    mr_status *st = mr_plan_new(r->g, r->device, NULL, &p);
    mr_plan_free(p);
    return st;
}

MR_TEST(frames_refuse_inputs_of_different_frames)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, fixture_enter(&r, x, "w", false, 10)));
    MR_CHECK_ERR(plan_of(&r), MR_INVALID_ARGUMENT, "has inputs from different frames");
    fixture_deinit(&r);
}

MR_TEST(frames_refuse_loop_ops_outside_of_loops)
{
    fixture r;
    fixture_init(&r, 0);
    fixture_op(&r, "NextIteration", fixture_arg(&r, 0));
    MR_CHECK_ERR(plan_of(&r), MR_INVALID_ARGUMENT, "outside of any loop");
    fixture_deinit(&r);
    fixture_init(&r, 0);
    fixture_op(&r, "Exit", fixture_arg(&r, 0));
    MR_CHECK_ERR(plan_of(&r), MR_INVALID_ARGUMENT, "outside of any loop");
    fixture_deinit(&r);
}

MR_TEST(frames_refuse_absurd_nesting)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0);
    for (int i = 0; i < 1100; i++)
        x = fixture_enter(&r, x, "w", false, 1);
    MR_CHECK_ERR(plan_of(&r), MR_INVALID_ARGUMENT, "nested deeper");
    fixture_deinit(&r);
}

/* Values that leave through an Exit while the loop goes on; the loop's other results come later. */
MR_TEST(frames_let_an_exit_fire_early)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out lim = fixture_enter(&r, fixture_arg(&r, 0), "w", true, 3),
           one = fixture_enter(&r, fixture_const(&r, 1), "w", true, 3);
    var i = var_begin(&r, fixture_const(&r, 0), "w", 3);
    var_switch(&r, &i, fixture_op(&r, "LoopCond", fixture_op(&r, "TestLess", i.merge, lim)));
    mr_out entered = fixture_enter(&r, fixture_const(&r, 7), "w", false, 3); /* in iteration 0 only */
    fixture_ret(&r, 1, fixture_op(&r, "Exit", entered));
    var_next(&r, &i, fixture_op(&r, "TestAdd", i.in, one));
    fixture_ret(&r, 0, i.out);
    int rets[2], arg = 10;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 10);
    MR_CHECK_INT(rets[1], 7);
    fixture_deinit(&r);
}

/* Ids of frames travel in rendezvous keys and must be those of TensorFlow 2.9. */
static uint64_t combine(uint64_t a, uint64_t b)
{
    return a ^ (b + 0x9E3779B97F4A7800u + (a << 10) + (a >> 4));
}

/* An Exit that takes every iteration's value: its consumer's input must not be written again. */
MR_TEST(frames_refuse_an_exit_that_is_live_twice)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out lim = fixture_enter(&r, fixture_arg(&r, 0), "w", true, 1);
    var i = var_begin(&r, fixture_const(&r, 0), "w", 1);
    var_switch(&r, &i, fixture_op(&r, "LoopCond", fixture_op(&r, "TestLess", i.merge, lim)));
    mr_out next = fixture_op(&r, "TestAdd", i.in, fixture_enter(&r, fixture_const(&r, 1), "w", true, 1));
    var_next(&r, &i, next);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", i.out, fixture_op(&r, "Exit", i.in)));
    int got;
    MR_CHECK_OK(fixture_run(&r, (int[]){1}, &got)); /* one iteration: once */
    MR_CHECK_INT(got, 1);
    MR_CHECK_ERR(fixture_run(&r, (int[]){5}, &got), MR_INVALID_ARGUMENT, "left its loop more than once");
    fixture_deinit(&r);
}

MR_TEST(frames_have_the_ids_of_tensorflow)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out outer = fixture_enter(&r, fixture_arg(&r, 0), "a", false, 10),
           inner = fixture_enter(&r, outer, "b/c", false, 10);
    mr_out seen = fixture_op(&r, "TestFrame", inner);
    fixture_ret(&r, 0, fixture_op(&r, "Exit", fixture_op(&r, "Exit", seen)));
    fixture_run1(&r, 0);
    uint64_t a = combine(0, combine(0, mr_hash64("a", 1)));
    MR_CHECK(fixture_frame == combine(a, combine(0, mr_hash64("b/c", 3))));
    fixture_deinit(&r);
}
