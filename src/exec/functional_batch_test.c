/* exec/functional_batch_test.c -- Batch and Unbatch: runs that go through a part of a graph as one. */
#include <pthread.h>
#include <unistd.h>

#include "base/memory.h"
#include "exec/functional_fixture.h"

enum { FAR_US = 2000 * 1000000 }; /* half an hour and more: far away */

typedef struct rows { /* what Batch gives */
    mr_out all, index, id;
} rows;

static rows batch(function_fixture *b, mr_out in, int64_t max, int64_t timeout_us)
{
    static const int t[] = {MR_FLOAT};
    mr_named_attr attrs[] = {{"num_batch_threads", mr_a_int(1)},         {"max_batch_size", mr_a_int(max)},
                             {"batch_timeout_micros", mr_a_int(timeout_us)}, {"grad_timeout_micros", mr_a_int(FAR_US)},
                             {"T", mr_a_types(1, t)}};
    mr_emit_arg args[] = {{1, &in}};
    mr_out all = mr_emit_lists(&b->s, "Batch", attrs, MR_COUNT(attrs), args, 1);
    return (rows){all, {all.node, 1}, {all.node, 2}};
}

static mr_out unbatch(function_fixture *b, rows x, mr_out y, int64_t timeout_us)
{
    return mr_emit_with(&b->s, "Unbatch", MR_ATTRS({"timeout_micros", mr_a_int(timeout_us)}), y, x.index, x.id);
}

static mr_out one_row(function_fixture *b) { return mr_emit(&b->s, "ExpandDims", b->x, mr_const_i32(&b->s, 0)); }

static mr_out sum_of(function_fixture *b, mr_out v)
{
    static const int32_t axis[] = {0};
    return mr_emit(&b->s, "Sum", v, mr_const_vec_i32(&b->s, 1, axis));
}

/* v * (number of rows): what it gives tells how many there were together. */
static mr_out times_rows(function_fixture *b, mr_out v)
{
    return mr_emit(&b->s, "Mul", v, mr_emit_with(&b->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_emit(&b->s, "Size", v)));
}

static void open_session(function_fixture *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &b->config, &b->session));
}

typedef struct client {
    function_fixture *b;
    mr_out y;
    float x, got;
    mr_code code;
    pthread_t t;
} client;

static void *ask(void *arg)
{
    client *c = arg;
    mr_tensor *v = mr_tensor_scalar_f32(c->x), *got = NULL;
    mr_run_args args = {.feeds = &c->b->x, .feed_values = &v, .n_feeds = 1, .fetches = &c->y, .fetched = &got, .n_fetches = 1};
    mr_status *st = mr_session_run(c->b->session, &args, NULL, NULL);
    c->code = mr_status_code(st);
    if (!st)
        c->got = *MR_DATA(float, got);
    mr_status_free(st);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return NULL;
}

static void start(client *c) { MR_CHECK_INT(pthread_create(&c->t, NULL, ask, c), 0); }

/* Four at a time; expected[i] of the one with x = i. */
static void check_four(function_fixture *b, mr_out y, const float *expected)
{
    open_session(b);
    for (int turn = 0; turn < 20; turn++) {
        client c[4];
        for (int i = 0; i < 4; i++) {
            c[i] = (client){.b = b, .y = y, .x = (float)i};
            start(&c[i]);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(c[i].t, NULL);
            MR_CHECK_INT(c[i].code, MR_OK);
            MR_CHECK_NEAR(c[i].got, expected[i], 0);
        }
    }
}

/* The timeouts are far away: that they end shows that they were one batch. */
MR_TEST(batch_joins_runs_and_unbatch_parts_them)
{
    function_fixture b;
    function_fixture_init(&b);
    rows x = batch(&b, one_row(&b), 4, FAR_US);
    check_four(&b, sum_of(&b, unbatch(&b, x, times_rows(&b, x.all), FAR_US)), (const float[]){0, 4, 8, 12});
    function_fixture_deinit(&b);
}

/* d sum(all^2) / dx = 2x, through UnbatchGrad and the Unbatch that is Batch's gradient. */
MR_TEST(batch_gradients_go_back_to_the_runs_they_came_from)
{
    function_fixture b;
    function_fixture_init(&b);
    rows x = batch(&b, one_row(&b), 4, FAR_US);
    mr_out y = sum_of(&b, unbatch(&b, x, mr_emit(&b.s, "Square", x.all), FAR_US));
    check_four(&b, function_fixture_gradient(&b, y), (const float[]){0, 2, 4, 6});
    function_fixture_deinit(&b);
}

MR_TEST(batch_is_closed_when_its_time_is_over)
{
    function_fixture b;
    function_fixture_init(&b);
    rows x = batch(&b, one_row(&b), 8, 1000);
    mr_out y = sum_of(&b, unbatch(&b, x, times_rows(&b, x.all), FAR_US));
    for (int i = 0; i < 5; i++)
        MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 5, 0);
    function_fixture_deinit(&b);
}

MR_TEST(batch_lets_go_of_a_run_that_is_cancelled)
{
    function_fixture b;
    function_fixture_init(&b);
    rows x = batch(&b, one_row(&b), 2, FAR_US);
    mr_out y = sum_of(&b, unbatch(&b, x, times_rows(&b, x.all), FAR_US));
    float v;
    b.timeout_ms = 20;
    MR_CHECK_ERR(function_fixture_run(&b, 5, y, &v), MR_DEADLINE_EXCEEDED, "");
    /* Its row is gone: two others are a batch of two. */
    client c = {.b = &b, .y = y, .x = 3};
    start(&c);
    b.timeout_ms = 0;
    MR_CHECK_NEAR(function_fixture_value(&b, 4, y), 8, 0);
    pthread_join(c.t, NULL);
    MR_CHECK_NEAR(c.got, 6, 0);
    function_fixture_deinit(&b);
}

MR_TEST(batch_ends_its_runs_with_their_session)
{
    function_fixture b;
    function_fixture_init(&b);
    rows x = batch(&b, one_row(&b), 2, FAR_US);
    client c = {.b = &b, .y = sum_of(&b, x.all), .x = 3};
    open_session(&b);
    start(&c);
    usleep(20000);
    MR_CHECK_OK(mr_session_close(b.session));
    pthread_join(c.t, NULL);
    MR_CHECK_INT(c.code, MR_CANCELLED);
    function_fixture_deinit(&b);
}

/* An id that nobody brings rows for. */
static mr_out unbatch_nothing(function_fixture *b, mr_out like, int64_t timeout_us)
{
    mr_out none = mr_emit(&b->s, "Fill", mr_const_vec_i32(&b->s, 2, (const int32_t[]){0, 3}), mr_const_i64(&b->s, 0));
    mr_out data = mr_emit(&b->s, "Fill", mr_const_vec_i32(&b->s, 1, (const int32_t[]){0}), like);
    return sum_of(b, mr_emit_with(&b->s, "Unbatch", MR_ATTRS({"timeout_micros", mr_a_int(timeout_us)}, {"shared_name", mr_a_str("u")}),
                                  data, none, mr_const_i64(&b->s, 7)));
}

MR_TEST(unbatch_gives_up_after_its_timeout)
{
    function_fixture b;
    function_fixture_init(&b);
    float v;
    mr_out y = unbatch_nothing(&b, b.x, 1000);
    for (int i = 0; i < 5; i++)
        MR_CHECK_ERR(function_fixture_run(&b, 5, y, &v), MR_DEADLINE_EXCEEDED, "did not arrive within timeout window");
    function_fixture_deinit(&b);
}

MR_TEST(unbatch_ends_when_its_step_is_cancelled)
{
    function_fixture b;
    function_fixture_init(&b);
    float v;
    mr_out y = unbatch_nothing(&b, b.x, FAR_US);
    b.timeout_ms = 20;
    for (int i = 0; i < 3; i++) /* and leaves nothing that would be in the way of the next */
        MR_CHECK_ERR(function_fixture_run(&b, 5, y, &v), MR_DEADLINE_EXCEEDED, "");
    function_fixture_deinit(&b);
}

MR_TEST(unbatch_refuses_a_second_run_of_one_id)
{
    function_fixture b;
    function_fixture_init(&b);
    float v;
    mr_out y = unbatch_nothing(&b, b.x, FAR_US), z = unbatch_nothing(&b, mr_emit(&b.s, "Neg", b.x), FAR_US);
    MR_CHECK_ERR(function_fixture_run(&b, 5, mr_emit(&b.s, "AddV2", y, z), &v), MR_ALREADY_EXISTS, "same batch key");
    function_fixture_deinit(&b);
}

MR_TEST(unbatch_grad_ends_when_its_step_is_cancelled)
{
    function_fixture b;
    function_fixture_init(&b);
    float v;
    mr_out table = mr_const(&b.s, mr_tensor_vector_i64(6, (const int64_t[]){1, 0, 1, 2, 1, 2}));
    mr_out index = mr_emit(&b.s, "Reshape", table, mr_const_vec_i32(&b.s, 2, (const int32_t[]){2, 3}));
    mr_out row = one_row(&b);
    mr_out y = sum_of(&b, mr_emit(&b.s, "UnbatchGrad", row, index, row, mr_const_i64(&b.s, 1)));
    b.timeout_ms = 20;
    for (int i = 0; i < 3; i++) /* its own gradient went with it, so the next may leave one */
        MR_CHECK_ERR(function_fixture_run(&b, 5, y, &v), MR_DEADLINE_EXCEEDED, "");
    function_fixture_deinit(&b);
}
