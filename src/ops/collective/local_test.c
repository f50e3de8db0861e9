/* ops/collective/local_test.c -- members that meet, and members that fail to. */
#include "ops/queue/calls_fixture.h"

typedef struct rig {
    mr_calls calls;
    mr_callee reduce, gather, send, receive, exchange;
} rig;

static void begin(rig *g, float timeout)
{
    mr_named_attr reduce[] = {{"merge_op", mr_a_str("Add")},
                              {"final_op", mr_a_str("Div")},
                              {"timeout_seconds", {.kind = MR_ATTR_FLOAT, .f = timeout}},
                              {"Nordering_token", mr_a_int(0)}};
    mr_named_attr type[] = {{"T", mr_a_type(MR_FLOAT)}};
    mr_calls *c = &g->calls;
    mr_calls_init(c);
#define IN_V2 MR_TYPES(MR_FLOAT, MR_INT32, MR_INT32, MR_INT32)
    g->reduce = mr_callee_make(c, "CollectiveReduceV2", reduce, 4, MR_NO_OUT, IN_V2);
    g->gather = mr_callee_make(c, "CollectiveGatherV2", reduce + 3, 1, MR_NO_OUT, IN_V2);
    g->exchange = mr_callee_make(c, "CollectiveAllToAllV2", reduce + 3, 1, MR_NO_OUT, IN_V2);
    g->send = mr_callee_make(c, "CollectiveBcastSendV2", NULL, 0, MR_NO_OUT, IN_V2);
    g->receive = mr_callee_make(c, "CollectiveBcastRecvV2", type, 1, MR_NO_OUT,
                                MR_TYPES(MR_INT32, MR_INT32, MR_INT32, MR_INT32));
}

static void end(rig *g)
{
    mr_callee *all[] = {&g->reduce, &g->gather, &g->send, &g->receive, &g->exchange};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_callee_deinit(all[i]);
    mr_calls_deinit(&g->calls);
}

/* A member with the tensor [a, b] of a group of `size`. */
static mr_call *join(rig *g, const mr_callee *k, int size, float a, float b)
{
    float v[] = {a, b};
    mr_call *c = mr_call_new(&g->calls, k,
                             MR_VALUES(mr_live(mr_tensor_of(MR_FLOAT, 1, (int64_t[]){2}, v)),
                                       mr_live(mr_tensor_scalar_i32(size)),
                                       mr_live(mr_tensor_scalar_i32(1)),
                                       mr_live(mr_tensor_scalar_i32(2))));
    mr_call_begin(c);
    return c;
}

static void check_got(mr_call *c, int n, const float *v)
{
    mr_tensor *t;
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_call_end(c, &t));
    MR_CHECK_INT(t->n, n);
    for (int i = 0; i < n; i++)
        MR_CHECK(MR_DATA(float, t)[i] == v[i]);
    mr_tensor_unref(t);
}
#define CHECK_GOT(c, ...) \
    check_got(c, MR_COUNT(((const float[]){__VA_ARGS__})), (const float[]){__VA_ARGS__})

MR_TEST(collective_members_get_the_mean_when_the_last_has_come)
{
    rig g;
    begin(&g, 0);
    for (int round = 0; round < 3; round++) {
        mr_call *a = join(&g, &g.reduce, 2, 1, 2);
        MR_CHECK(!mr_call_ended(a));
        mr_call *b = join(&g, &g.reduce, 2, 3, 5);
        CHECK_GOT(a, 2, 3.5f);
        CHECK_GOT(b, 2, 3.5f);
    }
    end(&g);
}

MR_TEST(collective_gather_and_all_to_all_keep_the_order_of_members)
{
    rig g;
    begin(&g, 0);
    mr_call *a = join(&g, &g.gather, 2, 1, 2), *b = join(&g, &g.gather, 2, 3, 4);
    CHECK_GOT(a, 1, 2, 3, 4);
    CHECK_GOT(b, 1, 2, 3, 4);
    a = join(&g, &g.exchange, 2, 1, 2);
    b = join(&g, &g.exchange, 2, 3, 4);
    CHECK_GOT(a, 1, 3);
    CHECK_GOT(b, 2, 4);
    end(&g);
}

MR_TEST(collective_broadcast_reaches_those_who_wait)
{
    rig g;
    begin(&g, 0);
    const int32_t shape = 2;
    mr_call *a = mr_call_new(&g.calls, &g.receive,
                             MR_VALUES(mr_live(mr_tensor_scalar_i32(2)), mr_live(mr_tensor_scalar_i32(1)),
                                       mr_live(mr_tensor_scalar_i32(2)),
                                       mr_live(mr_tensor_vector_i32(1, &shape))));
    mr_call_begin(a);
    MR_CHECK(!mr_call_ended(a));
    mr_call *b = join(&g, &g.send, 2, 6, 7);
    CHECK_GOT(a, 6, 7);
    CHECK_GOT(b, 6, 7);
    end(&g);
}

MR_TEST(collective_member_that_is_cancelled_ends_the_others)
{
    rig g;
    begin(&g, 0);
    mr_call *a = join(&g, &g.reduce, 3, 1, 2), *b = join(&g, &g.reduce, 3, 1, 2);
    mr_call_cancel(a);
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_CANCELLED, "Collective op was cancelled");
    MR_CHECK(mr_call_ended(b));
    mr_status *st = mr_call_end(b, NULL);
    MR_CHECK_INT(mr_status_code(st), MR_ABORTED);
    mr_status_free(st);
    a = join(&g, &g.reduce, 1, 1, 2); /* the keys can be used again */
    CHECK_GOT(a, 1, 2);
    end(&g);
}

MR_TEST(collective_wait_ends_when_its_time_is_up)
{
    rig g;
    begin(&g, 0.01f);
    mr_call *a = join(&g, &g.reduce, 2, 1, 2);
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_DEADLINE_EXCEEDED,
                  "Collective has timed out during execution.");
    end(&g);
}

MR_TEST(collective_members_that_disagree_are_told)
{
    rig g;
    begin(&g, 0);
    mr_call *a = join(&g, &g.reduce, 2, 1, 2), *b = join(&g, &g.reduce, 3, 1, 2);
    mr_status *st = mr_call_end(b, NULL);
    MR_CHECK_INT(mr_status_code(st), MR_INVALID_ARGUMENT);
    mr_status_free(st);
    mr_call_cancel(a);
    mr_status_free(mr_call_end(a, NULL));
    end(&g);
}
