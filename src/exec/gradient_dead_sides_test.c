/* exec/gradient_dead_sides_test.c -- what stands on the side of a conditional that is not taken does
 * nothing: queues, variables, arrays and stacks are as they were, also on another device. */
#include "exec/gradient_fixture.h"

/* x[0] < 0.5 takes the side with the effect. */
static const double taken = 0.3, untaken = 0.9;

typedef struct bench {
    mr_gradient_fixture r;
    mr_out state; /* of variable or queue */
} bench;

typedef mr_out effect(bench *b);

static void begin(bench *b, int n_cpus)
{
    *b = (bench){0};
    mr_gradient_fixture_init(&b->r);
    b->r.config.n_cpus = n_cpus;
    b->r.config.timeout_ms = 10000; /* a queue that is waited for */
    mr_gradient_fixture_input(&b->r, 0, (const int64_t[]){0}, true);
    b->r.b.s.device = n_cpus > 1 ? "/device:CPU:1" : "";
}

static void end(bench *b)
{
    b->r.b.s.device = "";
    mr_gradient_fixture_deinit(&b->r);
}

/* 1 after the effect, or 0 without it. */
static mr_out only_if_taken(bench *b, effect *e)
{
    mr_fb *f = &b->r.b;
    const char *device = f->s.device;
    mr_out y;
    f->s.device = ""; /* the conditional on the first device, what it decides about on the other */
    mr_fb_cond(f, mr_fb2(f, "Less", b->r.x[0], mr_gradient_fixture_num(&b->r, 0.5)));
    f->s.device = device;
    mr_node *done = e(b).node;
    f->s.device = "";
    mr_out one = mr_gradient_fixture_num(&b->r, 1);
    mr_node_add_control(one.node, done);
    mr_fb_cond_else(f, &one, 1);
    mr_out zero = mr_gradient_fixture_num(&b->r, 0);
    mr_fb_cond_end(f, &zero, &y);
    f->s.device = device;
    return y;
}

static double number(bench *b, double x, mr_out y)
{
    mr_tensor *t;
    *MR_DATA(double, b->r.feed[0]) = x;
    MR_CHECK_OK(mr_gradient_fixture_run(&b->r, &y, 1, &t));
    double v = t->dtype == MR_INT32 ? *MR_DATA(int32_t, t) : *MR_DATA(double, t);
    mr_tensor_unref(t);
    return v;
}

/* The effect changes what is seen from `before` to `after`, and only when it is taken. */
static void check(bench *b, effect *e, mr_out seen, double before, double after)
{
    mr_out y = only_if_taken(b, e);
    MR_CHECK_NEAR(number(b, untaken, y), 0, 0);
    MR_CHECK_NEAR(number(b, untaken, seen), before, 0);
    MR_CHECK_NEAR(number(b, taken, y), 1, 0);
    MR_CHECK_NEAR(number(b, taken, seen), after, 0);
    MR_CHECK_NEAR(number(b, untaken, y), 0, 0);
    MR_CHECK_NEAR(number(b, untaken, seen), after, 0);
}

/* ---- variables ---- */
static mr_out assign(bench *b)
{
    return mr_fb2(&b->r.b, "AssignAdd", b->state, mr_gradient_fixture_num(&b->r, 5));
}

static mr_out assign_resource(bench *b)
{
    mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
    return mr_fb_emit(&b->r.b, "AssignAddVariableOp", &dtype, 1,
                      (mr_out[]){b->state, mr_gradient_fixture_num(&b->r, 5)}, 2);
}

static mr_out variable(bench *b, const char *op)
{
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)},
                             {"shape", mr_a_shape(&mr_pshape_scalar)}};
    return b->state = mr_emit_n(&b->r.b.s, op, attrs, 2, NULL, 0);
}

MR_TEST(dead_sides_leave_variables_alone)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        mr_out v = variable(&b, "VariableV2");
        MR_CHECK_OK(
            mr_gradient_fixture_target(&b.r, mr_fb2(&b.r.b, "Assign", v, mr_gradient_fixture_num(&b.r, 2)).node));
        check(&b, assign, mr_fb1(&b.r.b, "Identity", v), 2, 7);
        end(&b);
    }
}

MR_TEST(dead_sides_leave_resource_variables_alone)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        mr_out v = variable(&b, "VarHandleOp");
        mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
        mr_out set = mr_fb2(&b.r.b, "AssignVariableOp", v, mr_gradient_fixture_num(&b.r, 2));
        MR_CHECK_OK(mr_gradient_fixture_target(&b.r, set.node));
        check(&b, assign_resource, mr_fb_emit(&b.r.b, "ReadVariableOp", &dtype, 1, &v, 1), 2, 7);
        end(&b);
    }
}

/* ---- queues ---- */
static mr_out queue(bench *b)
{
    mr_named_attr types = {"component_types", mr_a_types(1, (const int[]){MR_DOUBLE})};
    return b->state = mr_emit_n(&b->r.b.s, "FIFOQueueV2", &types, 1, NULL, 0);
}

static mr_out enqueue(bench *b)
{
    return mr_fb2(&b->r.b, "QueueEnqueueV2", b->state, mr_gradient_fixture_num(&b->r, 5));
}

static mr_out dequeue(bench *b)
{
    mr_named_attr types = {"component_types", mr_a_types(1, (const int[]){MR_DOUBLE})};
    return mr_fb_emit(&b->r.b, "QueueDequeueV2", &types, 1, &b->state, 1);
}

MR_TEST(dead_sides_enqueue_nothing)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        check(&b, enqueue, mr_fb1(&b.r.b, "QueueSizeV2", queue(&b)), 0, 1);
        end(&b);
    }
}

/* Nor wait for an empty queue: after the only element is taken, only the dead side is run. */
MR_TEST(dead_sides_dequeue_nothing)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        mr_out size = mr_fb1(&b.r.b, "QueueSizeV2", queue(&b));
        MR_CHECK_OK(mr_gradient_fixture_target(&b.r, enqueue(&b).node));
        check(&b, dequeue, size, 1, 0);
        end(&b);
    }
}

/* ---- arrays and stacks ---- */
/* An array written on one side: read afterwards, it has what was written, or it was never written.
 */
MR_TEST(dead_sides_write_no_array)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        mr_fb *f = &b.r.b;
        mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
        mr_out size = mr_gradient_fixture_i32(&b.r, 1),
               array = mr_fb_emit(f, "TensorArrayV3", &dtype, 1, &size, 1);
        mr_out zero = mr_gradient_fixture_i32(&b.r, 0), flow = mr_nth(array, 1);
        mr_fb_cond(f, mr_fb2(f, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5)));
        mr_out write[] = {array, zero, mr_gradient_fixture_num(&b.r, 5), flow},
               wrote = mr_fb_emit(f, "TensorArrayWriteV3", NULL, 0, write, 4);
        mr_fb_cond_else(f, &wrote, 1);
        mr_fb_cond_end(f, &flow, &wrote);
        mr_out read[] = {array, zero, wrote},
               y = mr_fb_emit(f, "TensorArrayReadV3", &dtype, 1, read, 3);
        mr_tensor *t = NULL;
        MR_CHECK_NEAR(number(&b, taken, y), 5, 0);
        *MR_DATA(double, b.r.feed[0]) = untaken;
        MR_CHECK_ERR(mr_gradient_fixture_run(&b.r, &y, 1, &t), MR_INVALID_ARGUMENT,
                     "Could not read from TensorArray index 0");
        end(&b);
    }
}

/* A stack filled with 1, and with 2 on one side; what is popped afterwards tells. */
MR_TEST(dead_sides_push_nothing)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        mr_fb *f = &b.r.b;
        mr_named_attr type = {"elem_type", mr_a_type(MR_DOUBLE)};
        mr_out size = mr_gradient_fixture_i32(&b.r, -1), stack = mr_fb_emit(f, "StackV2", &type, 1, &size, 1);
        mr_out first = mr_fb2(f, "StackPushV2", stack, mr_gradient_fixture_num(&b.r, 1)), joined;
        mr_fb_cond(f, mr_fb2(f, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5)));
        mr_out second = mr_fb2(f, "StackPushV2", stack, mr_fb2(f, "Add", first, first));
        mr_fb_cond_else(f, &second, 1);
        mr_fb_cond_end(f, &first, &joined);
        mr_out top = mr_fb_emit(f, "StackPopV2", &type, 1, &stack, 1);
        mr_node_add_control(top.node, joined.node);
        MR_CHECK_NEAR(number(&b, taken, top), 2, 0);
        MR_CHECK_NEAR(number(&b, untaken, top), 1, 0);
        end(&b);
    }
}

/* ---- what comes of them ---- */
MR_TEST(dead_sides_cannot_be_fetched)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, n_cpus);
        mr_fb *f = &b.r.b;
        mr_out less = mr_fb2(f, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5)), x = b.r.x[0];
        mr_out split = mr_fb2(f, "Switch", x, less), yes = mr_nth(split, 1);
        /* Two inputs, both of the same side. */
        mr_out merge = mr_fb2(f, "Merge", mr_fb1(f, "Neg", yes), mr_fb1(f, "Square", yes));
        mr_tensor *t = NULL, *two[2];
        *MR_DATA(double, b.r.feed[0]) = untaken;
        MR_CHECK_ERR(mr_gradient_fixture_run(&b.r, &merge, 1, &t), MR_INVALID_ARGUMENT,
                     "Retval[0] does not have value");
        MR_CHECK_ERR(mr_gradient_fixture_run(&b.r, &yes, 1, &t), MR_INVALID_ARGUMENT,
                     "Retval[0] does not have value");
        mr_out index = mr_nth(merge, 1), fetches[] = {split, index};
        MR_CHECK_ERR(mr_gradient_fixture_run(&b.r, fetches, 2, two), MR_INVALID_ARGUMENT,
                     "Retval[1] does not have value");
        MR_CHECK_NEAR(number(&b, taken, yes), taken, 0);
        end(&b);
    }
}

/* A target on the dead side is simply not run. */
MR_TEST(dead_sides_may_be_targets)
{
    bench b;
    begin(&b, 1);
    mr_out size = mr_fb1(&b.r.b, "QueueSizeV2", queue(&b));
    mr_fb_cond(&b.r.b,
               mr_fb2(&b.r.b, "Less", mr_gradient_fixture_num(&b.r, untaken), mr_gradient_fixture_num(&b.r, 0.5)));
    mr_node *n = enqueue(&b).node;
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, n));
    MR_CHECK_NEAR(number(&b, taken, size), 0, 0);
    end(&b);
}

/* One value is fetched, so the inside of a loop can be only if it runs once. */
MR_TEST(insides_of_loops_are_fetched_once)
{
    bench b;
    begin(&b, 1);
    mr_named_attr dtype = {"dtype", mr_a_type(MR_INT32)};
    mr_out n = mr_emit_n(&b.r.b.s, "Placeholder", &dtype, 1, NULL, 0), v[2] = {{0}, b.r.x[0]};
    mr_fb_for(&b.r.b, n, 10, v + 1, 1);
    mr_out inside = v[1] = mr_fb1(&b.r.b, "Neg", v[1]);
    mr_fb_end_for(&b.r.b, v + 1, 1);
    static const char *const errors[] = {"Retval[0] does not have value", NULL,
                                         "Retval[0] has already been set."};
    for (int times = 0; times <= 2; times++) {
        mr_tensor *t = NULL, *limit = mr_tensor_scalar_i32(times);
        mr_out feeds[] = {b.r.x[0], n};
        mr_tensor *values[] = {b.r.feed[0], limit};
        mr_run_args a = {.feeds = feeds,
                         .feed_values = values,
                         .n_feeds = 2,
                         .fetches = &inside,
                         .fetched = &t,
                         .n_fetches = 1};
        if (!b.r.session)
            MR_CHECK_OK(mr_direct_session_new(b.r.g, NULL, &b.r.config, &b.r.session));
        mr_status *st = mr_session_run(b.r.session, &a, NULL, NULL);
        if (errors[times])
            MR_CHECK_ERR(st, times ? MR_INTERNAL : MR_INVALID_ARGUMENT, errors[times]);
        else
            MR_CHECK_OK(st);
        mr_tensor_unref(t);
        mr_tensor_unref(limit);
    }
    end(&b);
}

/* ---- references into and out of loops ---- */
static mr_out ref_enter(bench *b, mr_out v)
{
    mr_named_attr attrs[] = {{"frame_name", mr_a_str("w")}};
    return mr_emit_n(&b->r.b.s, "RefEnter", attrs, 1, &v, 1);
}

/* while (v < 10) v += x, where v goes round as a reference: the variable itself is 10.2 at the end.
 */
MR_TEST(references_go_round_in_a_loop)
{
    bench b;
    begin(&b, 1);
    mr_scope *s = &b.r.b.s;
    mr_out v = variable(&b, "VariableV2");
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, mr_emit(s, "Assign", v, mr_gradient_fixture_num(&b.r, 0)).node));
    mr_named_attr in[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(true)}};
    mr_out ten = mr_gradient_fixture_num(&b.r, 10), limit = mr_emit_n(s, "Enter", in, 2, &ten, 1),
           step = mr_emit_n(s, "Enter", in, 2, &b.r.x[0], 1), start = ref_enter(&b, v);
    mr_out merge = mr_emit(s, "RefMerge", start, start),
           cond = mr_emit(s, "LoopCond", mr_emit(s, "Less", merge, limit)),
           split = mr_emit(s, "RefSwitch", merge, cond),
           sum = mr_emit(s, "AssignAdd", mr_nth(split, 1), step);
    MR_CHECK_OK(mr_node_set_input(merge.node, 1, mr_emit(s, "RefNextIteration", sum)));
    mr_out last = mr_emit(s, "RefExit", split);
    double expected = 0;
    while (expected < 10)
        expected += taken;
    MR_CHECK_NEAR(number(&b, taken, mr_emit(s, "Identity", last)), expected, 0);
    MR_CHECK_NEAR(number(&b, taken, mr_emit(s, "Identity", v)), expected, 0);
    /* What comes out is the variable. */
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, mr_emit(s, "Assign", v, mr_gradient_fixture_num(&b.r, 1)).node));
    mr_out twice = mr_emit(s, "AssignAdd", last, last);
    for (expected = 1; expected < 10;)
        expected += untaken;
    MR_CHECK_NEAR(number(&b, untaken, mr_emit(s, "Identity", twice)), 2 * expected, 0);
    MR_CHECK_NEAR(number(&b, untaken, mr_emit(s, "Identity", v)), 2 * expected, 0);
    end(&b);
}

/* v or w is assigned to, whichever a Switch of references leads to. */
MR_TEST(references_are_chosen_by_a_switch)
{
    bench b;
    begin(&b, 1);
    mr_scope *s = &b.r.b.s;
    mr_out v = variable(&b, "VariableV2"), w = variable(&b, "VariableV2");
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, mr_emit(s, "Assign", v, mr_gradient_fixture_num(&b.r, 1)).node));
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, mr_emit(s, "Assign", w, mr_gradient_fixture_num(&b.r, 2)).node));
    mr_out less = mr_emit(s, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5));
    mr_out chosen = mr_emit(s, "RefMerge", mr_nth(mr_emit(s, "RefSwitch", v, less), 1),
                            mr_emit(s, "RefSwitch", w, less));
    mr_node *add = mr_emit(s, "AssignAdd", chosen, mr_gradient_fixture_num(&b.r, 10)).node;
    mr_out y = mr_emit(s, "Identity", (mr_out){add, 0});
    MR_CHECK_NEAR(number(&b, taken, y), 11, 0);
    MR_CHECK_NEAR(number(&b, untaken, y), 12, 0);
    MR_CHECK_NEAR(number(&b, untaken, mr_emit(s, "Identity", v)), 11, 0);
    MR_CHECK_NEAR(number(&b, untaken, mr_emit(s, "Identity", w)), 12, 0);
    end(&b);
}

/* One side gives a variable of another device as it is, the other a value: either is taken. */
MR_TEST(references_of_another_device_are_merged)
{
    bench b;
    begin(&b, 2);
    mr_scope *s = &b.r.b.s;
    mr_out v = variable(&b, "VariableV2");
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, mr_emit(s, "Assign", v, mr_gradient_fixture_num(&b.r, 7)).node));
    mr_out less = mr_emit(s, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5)),
           there = mr_nth(mr_emit(s, "RefSwitch", v, less), 1);
    s->device = "/device:CPU:0";
    mr_out here = mr_emit(s, "Neg", mr_emit(s, "Switch", b.r.x[0], less));
    mr_named_attr type = {"T", mr_a_type(MR_DOUBLE)};
    mr_out y = mr_emit_n(s, "Merge", &type, 1, (mr_out[]){here, there}, 2);
    MR_CHECK_NEAR(number(&b, taken, y), 7, 0);
    MR_CHECK_NEAR(number(&b, untaken, y), -untaken, 0);
    end(&b);
}

MR_TEST(dead_sides_cannot_be_fetched_in_a_partial_run)
{
    bench b;
    begin(&b, 1);
    mr_fb *f = &b.r.b;
    mr_out x = b.r.x[0], less = mr_fb2(f, "Less", x, mr_gradient_fixture_num(&b.r, 0.5)),
           yes = mr_fb1(f, "Neg", mr_nth(mr_fb2(f, "Switch", x, less), 1));
    mr_tensor *t = NULL;
    mr_run_args a = {.feeds = &x,
                     .feed_values = b.r.feed,
                     .n_feeds = 1,
                     .fetches = &yes,
                     .fetched = &t,
                     .n_fetches = 1};
    MR_CHECK_OK(mr_direct_session_new(b.r.g, NULL, &b.r.config, &b.r.session));
    for (int i = 0; i < 2; i++) {
        char *handle;
        *MR_DATA(double, b.r.feed[0]) = i ? taken : untaken;
        MR_CHECK_OK(b.r.session->ops->partial_setup(b.r.session, &a, &handle));
        mr_status *st = b.r.session->ops->partial_run(b.r.session, handle, &a, NULL);
        if (i)
            MR_CHECK_OK(st);
        else
            MR_CHECK_ERR(st, MR_INVALID_ARGUMENT, "The tensor returned for Neg:0 was not valid.");
        mr_free(handle);
    }
    MR_CHECK_NEAR(*MR_DATA(double, t), -taken, 0);
    mr_tensor_unref(t);
    end(&b);
}
