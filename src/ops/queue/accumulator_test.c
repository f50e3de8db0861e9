/* ops/queue/accumulator_test.c -- which takes wait, which gradients count, and what a take returns. */
#include "base/deterministic.h"
#include "base/memory.h"
#include "ops/queue/calls_fixture.h"

/* An accumulator of float vectors "a", by resource. */
typedef struct rig {
    mr_calls calls;
    mr_callee make, apply, take, set_step, count;
    mr_tensor *handle;
} rig;

static mr_call *on(rig *g, const mr_callee *k, mr_tensor *a, mr_tensor *b)
{
    mr_value in[3] = {mr_live(mr_tensor_ref(g->handle)), mr_live(a), mr_live(b)};
    mr_call *c = mr_call_new(&g->calls, k, b ? 3 : a ? 2 : 1, in);
    mr_call_begin(c);
    return c;
}

static void begin(rig *g, const char *reduction)
{
    mr_calls_init(&g->calls);
    const mr_named_attr attrs[] = {{"shared_name", mr_a_str("a")},
                                   {"reduction_type", mr_a_str(reduction)},
                                   {"dtype", mr_a_type(MR_FLOAT)},
                                   {"shape", mr_a_shape(&mr_pshape_unknown)}};
    const mr_named_attr dtype = {"dtype", mr_a_type(MR_FLOAT)};
    g->make = mr_callee_make(&g->calls, "ResourceConditionalAccumulator", attrs, 4, MR_NO_OUT, 0,
                             NULL);
    mr_out h = {g->make.node, 0};
    g->apply = mr_callee_make(&g->calls, "ResourceAccumulatorApplyGradient", NULL, 0, h,
                              MR_TYPES(MR_INT64, MR_FLOAT));
    g->take = mr_callee_make(&g->calls, "ResourceAccumulatorTakeGradient", &dtype, 1, h,
                             MR_TYPES(MR_INT32));
    g->set_step = mr_callee_make(&g->calls, "ResourceAccumulatorSetGlobalStep", NULL, 0, h,
                                 MR_TYPES(MR_INT64));
    g->count =
        mr_callee_make(&g->calls, "ResourceAccumulatorNumAccumulated", NULL, 0, h, 0, NULL);
    mr_call *c = mr_call_new(&g->calls, &g->make, 0, NULL);
    mr_call_begin(c);
    MR_CHECK_OK(mr_call_end(c, &g->handle));
}

static void end(rig *g)
{
    mr_callee *all[] = {&g->make, &g->apply, &g->take, &g->set_step, &g->count};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_callee_deinit(all[i]);
    mr_tensor_unref(g->handle);
    mr_calls_deinit(&g->calls);
}

static void apply(rig *g, int64_t step, float v)
{
    MR_CHECK_OK(mr_call_end(on(g, &g->apply, mr_tensor_scalar_i64(step), mr_tensor_scalar_f32(v)),
                            NULL));
}

static mr_call *take(rig *g, int required)
{
    return on(g, &g->take, mr_tensor_scalar_i32(required), NULL);
}

static void check_gave(mr_call *c, float v)
{
    mr_tensor *t;
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_call_end(c, &t));
    MR_CHECK_NEAR(*MR_DATA(float, t), v, 0);
    mr_tensor_unref(t);
}

static void check_count(rig *g, int n)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_call_end(on(g, &g->count, NULL, NULL), &t));
    MR_CHECK_INT(*MR_DATA(int32_t, t), n);
    mr_tensor_unref(t);
}

static void set_step(rig *g, int64_t step)
{
    MR_CHECK_OK(mr_call_end(on(g, &g->set_step, mr_tensor_scalar_i64(step), NULL), NULL));
}

/* ---- tests ---- */

MR_TEST(accumulator_take_waits_for_enough)
{
    rig g;
    begin(&g, "MEAN");
    mr_call *c = take(&g, 2);
    apply(&g, 0, 1);
    MR_CHECK(!mr_call_ended(c));
    apply(&g, 0, 5);
    check_gave(c, 3);
    check_count(&g, 0);
    end(&g);
}

MR_TEST(accumulator_divides_by_what_there_is_not_by_what_was_required)
{
    rig g;
    begin(&g, "MEAN");
    for (int i = 0; i < 4; i++)
        apply(&g, 0, (float)i);
    check_count(&g, 4);
    check_gave(take(&g, 2), 1.5f);
    end(&g);
}

MR_TEST(accumulator_may_give_the_sum)
{
    rig g;
    begin(&g, "SUM");
    apply(&g, 0, 1);
    apply(&g, 0, 5);
    check_gave(take(&g, 2), 6);
    end(&g);
}

MR_TEST(accumulator_takers_stand_in_line)
{
    rig g;
    begin(&g, "SUM");
    mr_call *large = take(&g, 2), *small = take(&g, 1);
    apply(&g, 0, 1);
    MR_CHECK(!mr_call_ended(small));
    apply(&g, 0, 2);
    check_gave(large, 3);
    MR_CHECK(!mr_call_ended(small));
    apply(&g, 1, 4);
    check_gave(small, 4);
    end(&g);
}

MR_TEST(accumulator_drops_gradients_of_earlier_steps)
{
    rig g;
    begin(&g, "SUM");
    apply(&g, 0, 1);
    check_gave(take(&g, 1), 1); /* now at step 1 */
    apply(&g, 0, 2);
    check_count(&g, 0);
    apply(&g, 1, 3);
    apply(&g, 7, 4);
    check_count(&g, 2);
    set_step(&g, 9);
    apply(&g, 8, 5);
    check_gave(take(&g, 1), 7);
    set_step(&g, 2); /* back again */
    apply(&g, 2, 6);
    check_gave(take(&g, 1), 6);
    end(&g);
}

MR_TEST(accumulator_step_does_not_overflow)
{
    rig g;
    begin(&g, "SUM");
    set_step(&g, INT64_MAX);
    apply(&g, INT64_MAX, 1);
    check_gave(take(&g, 1), 1);
    end(&g);
}

MR_TEST(accumulator_cancelled_take_says_so_and_takes_nothing)
{
    rig g;
    begin(&g, "SUM");
    mr_call *large = take(&g, 3), *small = take(&g, 1);
    apply(&g, 0, 1);
    mr_call_cancel(large);
    MR_CHECK_TEXT(mr_call_end(large, NULL), MR_CANCELLED, "TakeGrad operation was cancelled");
    check_gave(small, 1); /* the cancelled take was before it in line */
    mr_call *last = take(&g, 1);
    mr_cancel_start(g.calls.session);
    MR_CHECK_TEXT(mr_call_end(last, NULL), MR_CANCELLED, "TakeGrad operation was cancelled");
    end(&g);
}

MR_TEST(accumulator_step_cancelled_before_takes_nothing)
{
    rig g;
    begin(&g, "SUM");
    apply(&g, 0, 1);
    mr_call *c = mr_call_new(&g.calls, &g.take,
                             MR_VALUES(mr_live(mr_tensor_ref(g.handle)),
                                       mr_live(mr_tensor_scalar_i32(1))));
    mr_call_cancel(c);
    mr_call_begin(c);
    MR_CHECK_TEXT(mr_call_end(c, NULL), MR_CANCELLED, "TakeGrad operation was cancelled");
    check_count(&g, 1);
    end(&g);
}

/* The first gradient is kept without a copy; its owner must not see it change. */
MR_TEST(accumulator_writes_to_no_gradient)
{
    rig g;
    begin(&g, "MEAN");
    mr_tensor *first = mr_tensor_scalar_f32(1), *second = mr_tensor_scalar_f32(5);
    mr_tensor *both[] = {first, second};
    for (int round = 0; round < 2; round++) { /* the second round averages a single gradient */
        for (int i = 0; i < 2 - round; i++)
            MR_CHECK_OK(mr_call_end(
                on(&g, &g.apply, mr_tensor_scalar_i64(9), mr_tensor_ref(both[i])), NULL));
        check_gave(take(&g, 1), round ? 1 : 3);
        MR_CHECK_NEAR(*MR_DATA(float, first), 1, 0);
        MR_CHECK_NEAR(*MR_DATA(float, second), 5, 0);
    }
    mr_tensor_unref(first);
    mr_tensor_unref(second);
    end(&g);
}

MR_TEST(accumulator_outlives_its_name_while_somebody_waits)
{
    rig g;
    begin(&g, "MEAN");
    mr_call *c = take(&g, 1);
    mr_resources_clear(g.calls.device->resources, MR_SV(""));
    mr_call_cancel(c);
    mr_status_free(mr_call_end(c, NULL));
    end(&g);
}

MR_TEST(accumulator_bears_refused_memory)
{
    for (int64_t n = 1; n < 20; n++) {
        rig g;
        begin(&g, "MEAN");
        mr_tensor *kept = mr_tensor_scalar_f32(1);
        apply(&g, 0, 2);
        mr_call *c = mr_call_new(&g.calls, &g.apply,
                                 MR_VALUES(mr_live(mr_tensor_ref(g.handle)),
                                           mr_live(mr_tensor_scalar_i64(0)),
                                           mr_live(mr_tensor_ref(kept))));
        mr_memory_fail_after(n);
        mr_call_begin(c);
        mr_memory_fail_after(0);
        mr_status *st = mr_call_end(c, NULL);
        MR_CHECK(!st || mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
        check_count(&g, st ? 1 : 2);
        check_gave(take(&g, 1), st ? 2 : 1.5f);
        mr_status_free(st);
        mr_tensor_unref(kept);
        end(&g);
    }
}

/* Adding 1 to 1e8 in float loses the 1 in some orders of addition: all six orders of three numbers must give the same
 * sum. */
MR_TEST(deterministic_accumulators_do_not_see_who_comes_first)
{
    const float v[] = {1e8f, 1, -1e8f};
    const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    float first = 0;
    mr_deterministic_set(true);
    for (int i = 0; i < MR_COUNT(orders); i++) {
        rig g;
        mr_tensor *t;
        begin(&g, "MEAN");
        mr_call *c = take(&g, 3);
        for (int k = 0; k < 3; k++) {
            check_count(&g, k);
            apply(&g, 0, v[orders[i][k]]);
        }
        MR_CHECK_OK(mr_call_end(c, &t));
        if (i == 0)
            first = *MR_DATA(float, t);
        MR_CHECK(*MR_DATA(float, t) == first);
        mr_tensor_unref(t);
        check_count(&g, 0);
        apply(&g, 1, 7); /* never taken */
        end(&g);
    }
}
