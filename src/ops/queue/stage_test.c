/* ops/queue/stage_test.c -- which operations wait on a staging area, and what ends the wait. */
#include "ops/queue/calls_fixture.h"

typedef struct rig {
    mr_calls calls;
    mr_callee put, take, size, clear, map_put, map_take;
} rig;

static void begin(rig *g, int64_t capacity, int64_t memory_limit)
{
    static const int types[] = {MR_FLOAT};
    mr_attr list = {.kind = MR_ATTR_TYPE, .is_list = true, .n = 1, .types = types};
    mr_named_attr a[] = {{"capacity", mr_a_int(capacity)}, {"memory_limit", mr_a_int(memory_limit)},
                         {"shared_name", mr_a_str("s")},   {"dtypes", list},
                         {"fake_dtypes", list}};
    mr_calls *c = &g->calls;
    mr_calls_init(c);
    g->put = mr_callee_make(c, "Stage", a, 4, MR_NO_OUT, MR_TYPES(MR_FLOAT));
    g->take = mr_callee_make(c, "Unstage", a, 4, MR_NO_OUT, 0, NULL);
    g->size = mr_callee_make(c, "StageSize", a, 4, MR_NO_OUT, 0, NULL);
    g->clear = mr_callee_make(c, "StageClear", a, 4, MR_NO_OUT, 0, NULL);
    g->map_put = mr_callee_make(c, "OrderedMapStage", a, 5, MR_NO_OUT,
                                MR_TYPES(MR_INT64, MR_INT32, MR_FLOAT));
    g->map_take = mr_callee_make(c, "OrderedMapUnstage", a, 4, MR_NO_OUT,
                                 MR_TYPES(MR_INT64, MR_INT32));
}

static void end(rig *g)
{
    mr_callee *all[] = {&g->put, &g->take, &g->size, &g->clear, &g->map_put, &g->map_take};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_callee_deinit(all[i]);
    mr_calls_deinit(&g->calls);
}

static mr_call *start(rig *g, const mr_callee *k, int n, const mr_value *in)
{
    mr_call *c = mr_call_new(&g->calls, k, n, in);
    mr_call_begin(c);
    return c;
}

static mr_call *put(rig *g, float v)
{
    return start(g, &g->put, MR_VALUES(mr_live(mr_tensor_scalar_f32(v))));
}

static mr_call *take(rig *g) { return start(g, &g->take, 0, NULL); }

static void check_got(mr_call *c, float v)
{
    mr_tensor *t;
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_call_end(c, &t));
    MR_CHECK(*MR_DATA(float, t) == v);
    mr_tensor_unref(t);
}

static int size(rig *g)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_call_end(start(g, &g->size, 0, NULL), &t));
    int n = *MR_DATA(int32_t, t);
    mr_tensor_unref(t);
    return n;
}

MR_TEST(stage_gives_to_those_who_wait_in_their_order)
{
    rig g;
    begin(&g, 0, 0);
    mr_call *a = take(&g), *b = take(&g);
    MR_CHECK(!mr_call_ended(a));
    MR_CHECK_OK(mr_call_end(put(&g, 1), NULL));
    check_got(a, 1);
    MR_CHECK(!mr_call_ended(b));
    MR_CHECK_OK(mr_call_end(put(&g, 2), NULL));
    check_got(b, 2);
    end(&g);
}

MR_TEST(stage_of_capacity_one_lets_the_second_wait)
{
    rig g;
    begin(&g, 1, 0);
    MR_CHECK_OK(mr_call_end(put(&g, 1), NULL));
    mr_call *second = put(&g, 2);
    MR_CHECK(!mr_call_ended(second));
    check_got(take(&g), 1);
    MR_CHECK(mr_call_ended(second));
    MR_CHECK_OK(mr_call_end(second, NULL));
    MR_CHECK_INT(size(&g), 1);
    end(&g);
}

MR_TEST(stage_with_a_memory_limit_lets_go_when_cleared)
{
    rig g;
    begin(&g, 0, 6);
    MR_CHECK_OK(mr_call_end(put(&g, 1), NULL));
    mr_call *second = put(&g, 2);
    MR_CHECK(!mr_call_ended(second));
    MR_CHECK_OK(mr_call_end(start(&g, &g.clear, 0, NULL), NULL));
    MR_CHECK_OK(mr_call_end(second, NULL));
    check_got(take(&g), 2);
    end(&g);
}

MR_TEST(stage_wait_ends_when_cancelled)
{
    rig g;
    begin(&g, 1, 0);
    mr_call *a = take(&g);
    mr_call_cancel(a);
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_CANCELLED, "Operation was cancelled");
    MR_CHECK_OK(mr_call_end(put(&g, 1), NULL));
    mr_call *b = put(&g, 2);
    mr_call_cancel(b);
    MR_CHECK_TEXT(mr_call_end(b, NULL), MR_CANCELLED, "Operation was cancelled");
    MR_CHECK_INT(size(&g), 1);
    end(&g);
}

MR_TEST(map_stage_waits_for_its_own_key)
{
    rig g;
    begin(&g, 0, 0);
    const int32_t zero = 0;
    mr_call *want = start(&g, &g.map_take, MR_VALUES(mr_live(mr_tensor_scalar_i64(5)),
                                                     mr_live(mr_tensor_vector_i32(1, &zero))));
    for (int key = 4; key <= 5; key++) {
        MR_CHECK(!mr_call_ended(want));
        MR_CHECK_OK(mr_call_end(start(&g, &g.map_put,
                                      MR_VALUES(mr_live(mr_tensor_scalar_i64(key)),
                                                mr_live(mr_tensor_vector_i32(1, &zero)),
                                                mr_live(mr_tensor_scalar_f32((float)key)))),
                                NULL));
    }
    check_got(want, 5);
    end(&g);
}
