/* exec/functional_batch_function_test.c -- runs that share one call of a function. */
#include <pthread.h>

#include "base/memory.h"
#include "exec/functional_fixture.h"

typedef struct batching {
    int64_t max, timeout_us;
    bool split;
    int n_allowed;
    int64_t allowed[2];
} batching;

/* Rows(v) = v * (number of rows) */
static mr_out batched(function_fixture *b, mr_out in, batching o)
{
    mr_out v = function_fixture_begin(b, 1);
    mr_out n = mr_emit_with(&b->f, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_emit(&b->f, "Size", v));
    function_fixture_end(b, "Rows", mr_emit(&b->f, "Mul", v, n));
    static const int t[] = {MR_FLOAT};
    mr_func_ref f = {.name = "Rows"};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                             {"num_batch_threads", mr_a_int(1)},
                             {"max_batch_size", mr_a_int(o.max)},
                             {"batch_timeout_micros", mr_a_int(o.timeout_us)},
                             {"allowed_batch_sizes", mr_a_ints(o.n_allowed, o.allowed)},
                             {"enable_large_batch_splitting", mr_a_bool(o.split)},
                             {"Tin", mr_a_types(1, t)},
                             {"Tcaptured", mr_a_types(0, t)},
                             {"Tout", mr_a_types(1, t)}};
    mr_emit_arg args[] = {{1, &in}, {0, NULL}};
    return mr_emit_lists(&b->s, "BatchFunction", attrs, MR_COUNT(attrs), args, 2);
}

static mr_out one_row(function_fixture *b) { return mr_emit(&b->s, "ExpandDims", b->x, mr_const_i32(&b->s, 0)); }

static mr_out sum_of(function_fixture *b, mr_out v)
{
    static const int32_t axis[] = {0};
    return mr_emit(&b->s, "Sum", v, mr_const_vec_i32(&b->s, 1, axis));
}

MR_TEST(batch_function_runs_when_its_time_is_over)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out y = sum_of(&b, batched(&b, one_row(&b), (batching){.max = 8, .timeout_us = 1000}));
    for (int i = 0; i < 3; i++)
        MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 5, 0);
    function_fixture_deinit(&b);
}

MR_TEST(batch_function_pads_to_an_allowed_size)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out y = sum_of(&b, batched(&b, one_row(&b), (batching){.max = 8, .timeout_us = 1000, .n_allowed = 2, .allowed = {4, 8}}));
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 20, 0); /* four rows went in */
    function_fixture_deinit(&b);
}

MR_TEST(batch_function_splits_what_is_too_large)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out rows = mr_emit(&b.s, "Range", mr_const_f32(&b.s, 0), b.x, mr_const_f32(&b.s, 1));
    mr_out y = sum_of(&b, batched(&b, rows, (batching){.max = 4, .timeout_us = 1000, .split = true}));
    MR_CHECK_NEAR(function_fixture_value(&b, 10, y), 4 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) + 2 * (8 + 9), 0);
    function_fixture_deinit(&b);
}

MR_TEST(batch_function_refuses_what_is_too_large)
{
    function_fixture b;
    function_fixture_init(&b);
    float v;
    mr_out rows = mr_emit(&b.s, "Range", mr_const_f32(&b.s, 0), b.x, mr_const_f32(&b.s, 1));
    mr_out y = sum_of(&b, batched(&b, rows, (batching){.max = 4, .timeout_us = 1000}));
    MR_CHECK_ERR(function_fixture_run(&b, 10, y, &v), MR_INVALID_ARGUMENT, "larger than maximum");
    function_fixture_deinit(&b);
}

typedef struct client {
    function_fixture *b;
    mr_out y;
    float x, got;
} client;

static void *ask(void *arg)
{
    client *c = arg;
    mr_tensor *v = mr_tensor_scalar_f32(c->x), *got = NULL;
    mr_run_args args = {.feeds = &c->b->x, .feed_values = &v, .n_feeds = 1, .fetches = &c->y, .fetched = &got, .n_fetches = 1};
    mr_status *st = mr_session_run(c->b->session, &args, NULL, NULL);
    c->got = st ? -1 : *MR_DATA(float, got);
    mr_status_free(st);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return NULL;
}

/* The timeout is far away: that they end shows that they were one batch. */
MR_TEST(batch_function_joins_runs_of_several_threads)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out y = sum_of(&b, batched(&b, one_row(&b), (batching){.max = 4, .timeout_us = 3600000000}));
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_direct_session_new(b.g, NULL, &b.config, &b.session));
    for (int turn = 0; turn < 20; turn++) {
        client c[4];
        pthread_t t[4];
        for (int i = 0; i < 4; i++) {
            c[i] = (client){&b, y, (float)(i + turn), 0};
            MR_CHECK_INT(pthread_create(&t[i], NULL, ask, &c[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(t[i], NULL);
            MR_CHECK_NEAR(c[i].got, 4 * (i + turn), 0);
        }
    }
    function_fixture_deinit(&b);
}
