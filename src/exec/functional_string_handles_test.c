/* exec/functional_string_handles_test.c -- TensorArrays and stacks whose handles are strings, as older graphs have them. */
#include "base/memory.h"
#include "exec/functional_fixture.h"

static const char *op(const char *name, const char *suffix)
{
    static char text[64];
    size_t n = strlen(name);
    memcpy(text, name, n);
    memcpy(text + n, suffix, strlen(suffix) + 1);
    return text;
}

#define FLOATS MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)})

/* x and 3x go into an array and come out in every way there is: 2 * (x + 3x) + x * 3x. */
static mr_out through_array(function_fixture *b, const char *v)
{
    mr_scope *s = &b->s;
    b->g->versions.producer = 15;
    mr_out flow = mr_const_f32(s, 0), zero = mr_const_i32(s, 0), one = mr_const_i32(s, 1);
    mr_out h = mr_emit_with(s, op("TensorArray", v), MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"clear_after_read", mr_a_bool(false)}),
                            mr_const_i32(s, 2));
    flow = mr_emit(s, op("TensorArrayWrite", v), h, zero, b->x, flow);
    flow = mr_emit(s, op("TensorArrayWrite", v), h, one, mr_emit(s, "Mul", b->x, mr_const_f32(s, 3)), flow);
    mr_out first = mr_emit_with(s, op("TensorArrayRead", v), FLOATS, h, zero, flow),
           second = mr_emit_with(s, op("TensorArrayRead", v), FLOATS, h, one, flow);
    static const int32_t both[] = {0, 1}, axis[] = {0};
    mr_out all = mr_emit_with(s, op("TensorArrayGather", v), FLOATS, h, mr_const_vec_i32(s, 2, both), flow);
    mr_out sum = mr_emit(s, "Sum", all, mr_const_vec_i32(s, 1, axis));
    return mr_emit(s, "Add", mr_emit(s, "Mul", first, second), mr_emit(s, "Mul", sum, mr_const_f32(s, 2)));
}

MR_TEST(old_arrays_keep_what_is_written)
{
    for (int i = 0; i < 2; i++) {
        function_fixture b;
        function_fixture_init(&b);
        mr_out y = through_array(&b, i ? "V2" : "");
        MR_CHECK_NEAR(function_fixture_value(&b, 2, y), 28, 1e-5); /* 3 * 4 + 2 * 8 */
        function_fixture_deinit(&b);
    }
}

MR_TEST(old_arrays_have_gradients)
{
    for (int i = 0; i < 2; i++) {
        function_fixture b;
        function_fixture_init(&b);
        mr_out y = through_array(&b, i ? "V2" : "");
        MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, y)), 20, 1e-4); /* 6x + 8 */
        function_fixture_deinit(&b);
    }
}

/* [x, x + 1, x + 2] split into parts and joined, scattered and gathered. */
MR_TEST(old_arrays_pass_gradients_through_parts_and_rows)
{
    static const int64_t lengths[] = {1, 2};
    static const int32_t rows[] = {2, 0, 1}, axis[] = {0};
    for (int i = 0; i < 2; i++) {
        function_fixture b;
        function_fixture_init(&b);
        b.g->versions.producer = 15;
        mr_scope *s = &b.s;
        const char *v = i ? "V2" : "";
        mr_out in[] = {b.x, mr_emit(s, "Add", b.x, mr_const_f32(s, 1)), mr_emit(s, "Add", b.x, mr_const_f32(s, 2))};
        mr_out vector = mr_emit_n(s, "Pack", MR_ATTRS({"N", mr_a_int(3)}), in, 3), flow = mr_const_f32(s, 0);
        mr_out h = mr_emit_with(s, op("TensorArray", v), FLOATS, mr_const_i32(s, 2));
        mr_out f = mr_emit(s, op("TensorArraySplit", v), h, vector, mr_const(s, mr_tensor_vector_i64(2, lengths)), flow);
        mr_out joined = mr_emit_with(s, op("TensorArrayConcat", v), FLOATS, h, f);
        mr_out k = mr_emit_with(s, op("TensorArray", v), FLOATS, mr_const_i32(s, 3));
        mr_out at = mr_const_vec_i32(s, 3, rows);
        mr_out fk = mr_emit(s, op("TensorArrayScatter", v), k, at, joined, flow);
        mr_out got = mr_emit_with(s, op("TensorArrayGather", v), FLOATS, k, at, fk);
        mr_out y = mr_emit(s, "Sum", mr_emit(s, "Mul", got, got), mr_const_vec_i32(s, 1, axis));
        MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, y)), 18, 1e-4); /* 2 (2 + 3 + 4) */
        function_fixture_deinit(&b);
    }
}

MR_TEST(old_arrays_pack_and_unpack)
{
    static const int32_t axis[] = {0};
    function_fixture b;
    function_fixture_init(&b);
    b.g->versions.producer = 15;
    mr_scope *s = &b.s;
    mr_out in[] = {b.x, mr_const_f32(s, 5)};
    mr_out vector = mr_emit_n(s, "Pack", MR_ATTRS({"N", mr_a_int(2)}), in, 2);
    mr_out h = mr_emit_with(s, "TensorArray", FLOATS, mr_const_i32(s, 2));
    mr_out flow = mr_emit(s, "TensorArrayUnpack", h, vector, mr_const_f32(s, 0));
    mr_out y = mr_emit_with(s, "TensorArrayPack", FLOATS, h, flow);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, mr_emit(s, "Sum", y, mr_const_vec_i32(s, 1, axis))), 7, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, mr_emit(s, "TensorArraySize", h, flow)), 2, 0);
    function_fixture_deinit(&b);
}

MR_TEST(old_stacks_give_back_the_newest_first)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_scope *s = &b.s;
    mr_named_attr type[] = {{"elem_type", mr_a_type(MR_FLOAT)}};
    mr_out h = mr_emit_n(s, "Stack", type, 1, NULL, 0);
    mr_out one = mr_emit(s, "StackPush", h, b.x);
    mr_out two = mr_emit(s, "StackPush", h, mr_emit(s, "Mul", one, mr_const_f32(s, 10)));
    mr_out p = mr_emit_with(s, "StackPop", MR_ATTRS({"elem_type", mr_a_type(MR_FLOAT)}), h);
    mr_node_add_control(p.node, two.node);
    mr_out q = mr_emit_with(s, "StackPop", MR_ATTRS({"elem_type", mr_a_type(MR_FLOAT)}), h);
    mr_node_add_control(q.node, p.node);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, mr_emit(s, "Sub", p, q)), 18, 0);
    function_fixture_deinit(&b);
}

/* ---- what is kept between steps, and functions elsewhere ---- */

MR_TEST(session_tensor_outlives_its_step)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_scope *s = &b.s;
    mr_out h = mr_emit(s, "GetSessionHandle", b.x), text = mr_placeholder(s, MR_STRING, "handle", NULL);
    mr_out y = mr_emit_with(s, "GetSessionTensor", FLOATS, text), gone = mr_emit(s, "DeleteSessionTensor", text);
    MR_CHECK_OK(mr_scope_status(s));
    MR_CHECK_OK(mr_direct_session_new(b.g, NULL, &b.config, &b.session));
    mr_tensor *v = mr_tensor_scalar_f32(5), *handle = NULL, *got = NULL;
    MR_CHECK_OK(mr_session_run(b.session, &(mr_run_args){.feeds = &b.x, .feed_values = &v, .n_feeds = 1, .fetches = &h,
                                                         .fetched = &handle, .n_fetches = 1}, NULL, NULL));
    mr_run_args read = {.feeds = &text, .feed_values = &handle, .n_feeds = 1, .fetches = &y, .fetched = &got, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(b.session, &read, NULL, NULL));
    MR_CHECK_NEAR(*MR_DATA(float, got), 5, 0);
    mr_run_args forget = {.feeds = &text, .feed_values = &handle, .n_feeds = 1, .targets = &gone.node, .n_targets = 1};
    MR_CHECK_OK(mr_session_run(b.session, &forget, NULL, NULL));
    mr_tensor_unref(got);
    got = NULL;
    MR_CHECK_ERR(mr_session_run(b.session, &read, NULL, NULL), MR_INVALID_ARGUMENT, "not in the session store");
    mr_tensor_unref(handle);
    mr_tensor_unref(v);
    function_fixture_deinit(&b);
}

static mr_out remote(function_fixture *b, const char *device)
{
    static const int t[] = {MR_FLOAT};
    mr_func_ref f = {.name = "Index"};
    return mr_emit_with(&b->s, "RemoteCall", MR_ATTRS({"Tin", mr_a_types(1, t)}, {"Tout", mr_a_types(1, t)},
                                                      {"f", {MR_ATTR_FUNC, .func = &f}}), mr_const_str(&b->s, device), b->x);
}

MR_TEST(remote_call_runs_on_its_device)
{
    function_fixture b;
    function_fixture_init(&b);
    b.config.n_cpus = 2;
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Index", mr_emit(&b.f, "AddV2", a, mr_const_f32(&b.f, 1)));
    MR_CHECK_NEAR(function_fixture_value(&b, 1, remote(&b, "/device:CPU:1")), 2, 0);
    float v;
    MR_CHECK_ERR(function_fixture_run(&b, 1, remote(&b, "/device:CPU:7"), &v), MR_INVALID_ARGUMENT, "CPU:7");
    MR_CHECK_ERR(function_fixture_run(&b, 1, remote(&b, "/job:worker/task:1/device:CPU:0"), &v), MR_UNIMPLEMENTED,
                 "another task");
    function_fixture_deinit(&b);
}
