/* exec/functional_list_gradients_test.c -- gradients through lists and maps of tensors, and lists that travel. */
#include "base/memory.h"
#include "exec/functional_fixture.h"
#include "tensor/variant.h"

static const int32_t no_dims[1] = {0};

static mr_out scalar_shape(function_fixture *b) { return mr_const_vec_i32(&b->s, 0, no_dims); }

static mr_out any_shape(function_fixture *b) { return mr_const_i32(&b->s, -1); }

static mr_out empty_list(function_fixture *b)
{
    return mr_emit_with(&b->s, "EmptyTensorList", MR_ATTRS({"element_dtype", mr_a_type(MR_FLOAT)}), scalar_shape(b),
                        mr_const_i32(&b->s, -1));
}

#define OF_FLOATS MR_ATTRS({"element_dtype", mr_a_type(MR_FLOAT)})

/* [x, 3x] as a vector. */
static mr_out vector(function_fixture *b)
{
    return mr_emit_n(&b->s, "Pack", MR_ATTRS({"N", mr_a_int(2)}), MR_OUTS(b->x, mr_emit(&b->s, "Mul", b->x, mr_const_f32(&b->s, 3))));
}

static mr_out sum_of(function_fixture *b, mr_out v)
{
    static const int32_t axis[] = {0};
    return mr_emit(&b->s, "Sum", v, mr_const_vec_i32(&b->s, 1, axis));
}

MR_TEST(list_gradient_through_push_and_pop)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out l = mr_emit(&b.s, "TensorListPushBack", empty_list(&b), mr_emit(&b.s, "Mul", b.x, b.x));
    l = mr_emit(&b.s, "TensorListPushBack", l, b.x);
    mr_out p = mr_emit_with(&b.s, "TensorListPopBack", OF_FLOATS, l, scalar_shape(&b));
    mr_out q = mr_emit_with(&b.s, "TensorListPopBack", OF_FLOATS, p, scalar_shape(&b));
    mr_out y = mr_emit(&b.s, "Mul", mr_nth(p, 1), mr_nth(q, 1)); /* x^3 */
    MR_CHECK_NEAR(function_fixture_value(&b, 2, y), 8, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, y)), 12, 1e-5);
    function_fixture_deinit(&b);
}

MR_TEST(list_gradient_through_items)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out l = mr_emit_with(&b.s, "TensorListReserve", OF_FLOATS, scalar_shape(&b), mr_const_i32(&b.s, 3));
    l = mr_emit(&b.s, "TensorListSetItem", l, mr_const_i32(&b.s, 1), mr_emit(&b.s, "Mul", b.x, b.x));
    mr_out a = mr_emit_with(&b.s, "TensorListGetItem", OF_FLOATS, l, mr_const_i32(&b.s, 1), scalar_shape(&b)),
           z = mr_emit_with(&b.s, "TensorListGetItem", OF_FLOATS, l, mr_const_i32(&b.s, 2), scalar_shape(&b));
    mr_out y = mr_emit(&b.s, "AddV2", mr_emit(&b.s, "Mul", a, b.x), z); /* x^3 */
    MR_CHECK_NEAR(function_fixture_value(&b, 3, function_fixture_gradient(&b, y)), 27, 1e-5);
    function_fixture_deinit(&b);
}

MR_TEST(list_gradient_through_rows_stacked_again)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out l = mr_emit(&b.s, "TensorListFromTensor", vector(&b), scalar_shape(&b));
    mr_out r = mr_emit(&b.s, "TensorListResize", l, mr_const_i32(&b.s, 2));
    mr_out v = mr_emit_with(&b.s, "TensorListStack", OF_FLOATS, r, scalar_shape(&b));
    mr_out y = sum_of(&b, mr_emit(&b.s, "Mul", v, v)); /* 10 x^2 */
    MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, y)), 40, 1e-4);
    function_fixture_deinit(&b);
}

MR_TEST(list_gradient_through_parts_joined_again)
{
    static const int64_t lengths[] = {0, 2};
    function_fixture b;
    function_fixture_init(&b);
    static const int32_t any[] = {-1};
    mr_out l = mr_emit(&b.s, "TensorListSplit", vector(&b), mr_const_vec_i32(&b.s, 1, any),
                       mr_const(&b.s, mr_tensor_vector_i64(2, lengths)));
    mr_out v = mr_emit_with(&b.s, "TensorListConcat", OF_FLOATS, l);
    mr_out w = mr_emit_with(&b.s, "TensorListConcatV2", OF_FLOATS, l, any_shape(&b), mr_const(&b.s, mr_tensor_vector_i64(0, NULL)));
    mr_out y = sum_of(&b, mr_emit(&b.s, "Mul", v, w));
    MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, y)), 40, 1e-4);
    function_fixture_deinit(&b);
}

MR_TEST(list_gradient_through_scattered_and_gathered_rows)
{
    static const int32_t at[] = {2, 0}, twice[] = {0, 2, 2};
    function_fixture b;
    function_fixture_init(&b);
    mr_out to = mr_const_vec_i32(&b.s, 2, at);
    mr_out l = mr_emit(&b.s, "TensorListScatter", vector(&b), to, scalar_shape(&b));
    mr_out m = mr_emit(&b.s, "TensorListScatterV2", vector(&b), to, scalar_shape(&b), mr_const_i32(&b.s, 5));
    m = mr_emit(&b.s, "TensorListScatterIntoExistingList", m, vector(&b), to);
    mr_out from = mr_const_vec_i32(&b.s, 3, twice);
    mr_out v = mr_emit_with(&b.s, "TensorListGather", OF_FLOATS, l, from, scalar_shape(&b)),
           w = mr_emit_with(&b.s, "TensorListGather", OF_FLOATS, m, from, scalar_shape(&b));
    mr_out y = sum_of(&b, mr_emit(&b.s, "Mul", v, w)); /* 9 + 1 + 1 times x^2; a scatter sets the last of equal indices */
    MR_CHECK_NEAR(function_fixture_value(&b, 2, y), 44, 1e-4);
    function_fixture_deinit(&b);
}

MR_TEST(map_gradient_goes_to_what_was_inserted)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out e = mr_emit0(&b.s, "EmptyTensorMap"), key = mr_const_str(&b.s, "a"), other = mr_const_str(&b.s, "b");
    mr_out m = mr_emit(&b.s, "TensorMapInsert", e, key, mr_emit(&b.s, "Mul", b.x, b.x));
    m = mr_emit(&b.s, "TensorMapInsert", m, other, b.x);
    mr_out y = mr_emit_with(&b.s, "TensorMapLookup", MR_ATTRS({"value_dtype", mr_a_type(MR_FLOAT)}), m, key);
    MR_CHECK_NEAR(function_fixture_value(&b, 3, function_fixture_gradient(&b, y)), 6, 1e-5);
    function_fixture_deinit(&b);
}

MR_TEST(composite_gradient_goes_through_its_components)
{
    function_fixture b;
    function_fixture_init(&b);
    static const int types[] = {MR_FLOAT, MR_INT32};
    mr_named_attr attrs[] = {{"metadata", mr_a_str("")}, {"Tcomponents", mr_a_types(2, types)}};
    mr_out in[] = {mr_emit(&b.s, "Mul", b.x, b.x), mr_const_i32(&b.s, 3)};
    mr_out v = mr_emit_n(&b.s, "CompositeTensorVariantFromComponents", attrs, 2, in, 2);
    mr_out y = mr_emit_n(&b.s, "CompositeTensorVariantToComponents", attrs, 2, &v, 1);
    MR_CHECK_NEAR(function_fixture_value(&b, 3, mr_nth(y, 1)), 3, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 3, function_fixture_gradient(&b, y)), 6, 1e-5);
    function_fixture_deinit(&b);
}

/* ---- lists that travel ---- */

MR_TEST(list_passes_through_a_function)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin_types(&b, 1, (const int[]){MR_VARIANT});
    function_fixture_end(&b, "Push", mr_emit(&b.f, "TensorListPushBack", a, mr_const_f32(&b.f, 7)));
    static const int t[] = {MR_VARIANT};
    mr_func_ref f = {.name = "Push"};
    mr_out l = mr_emit_with(&b.s, "PartitionedCall", MR_ATTRS({"Tin", mr_a_types(1, t)}, {"Tout", mr_a_types(1, t)},
                                                              {"f", {MR_ATTR_FUNC, .func = &f}}), empty_list(&b));
    mr_out y = mr_emit_with(&b.s, "TensorListGetItem", OF_FLOATS, l, mr_const_i32(&b.s, 0), scalar_shape(&b));
    MR_CHECK_NEAR(function_fixture_value(&b, 0, y), 7, 0);
    function_fixture_deinit(&b);
}

MR_TEST(list_goes_to_another_device)
{
    function_fixture b;
    function_fixture_init(&b);
    b.config.n_cpus = 2;
    mr_out l = mr_emit(&b.s, "TensorListPushBack", empty_list(&b), b.x);
    mr_node_set_device(l.node, "/device:CPU:1");
    mr_out y = mr_emit_with(&b.s, "TensorListPopBack", OF_FLOATS, l, scalar_shape(&b));
    MR_CHECK_NEAR(function_fixture_value(&b, 4, mr_nth(y, 1)), 4, 0);
    function_fixture_deinit(&b);
}

MR_TEST(list_comes_back_from_its_bytes)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out l = mr_emit_with(&b.s, "TensorListReserve", OF_FLOATS, scalar_shape(&b), mr_const_i32(&b.s, 3));
    l = mr_emit(&b.s, "TensorListSetItem", l, mr_const_i32(&b.s, 1), b.x);
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_direct_session_new(b.g, NULL, &b.config, &b.session));
    mr_tensor *v = mr_tensor_scalar_f32(5), *got = NULL, *again = NULL;
    mr_run_args args = {.feeds = &b.x, .feed_values = &v, .n_feeds = 1, .fetches = &l, .fetched = &got, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(b.session, &args, NULL, NULL));
    mr_str bytes = {0};
    MR_CHECK_OK(mr_tensor_encode(got, &bytes));
    MR_CHECK_OK(mr_tensor_decode(NULL, mr_str_view(&bytes), &again));
    mr_str twice = {0};
    MR_CHECK_OK(mr_tensor_encode(again, &twice));
    MR_CHECK(mr_sv_eq(mr_str_view(&bytes), mr_str_view(&twice)));
    mr_str_deinit(&bytes);
    mr_str_deinit(&twice);
    mr_tensor_unref(again);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    function_fixture_deinit(&b);
}

/* A loop that puts a list into itself: freeing it must not need a stack as deep. */
MR_TEST(list_nested_deeply_is_freed)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin_types(&b, 2, (const int[]){MR_FLOAT, MR_VARIANT});
    function_fixture_end(&b, "More", mr_emit(&b.f, "Less", a, mr_const_f32(&b.f, 100000)));
    a = function_fixture_begin_types(&b, 2, (const int[]){MR_FLOAT, MR_VARIANT});
    mr_out e = mr_emit_with(&b.f, "EmptyTensorList", MR_ATTRS({"element_dtype", mr_a_type(MR_VARIANT)}), mr_const_i32(&b.f, -1),
                            mr_const_i32(&b.f, -1));
    function_fixture_end2(&b, "Wrap", mr_emit(&b.f, "AddV2", a, mr_const_f32(&b.f, 1)), mr_emit(&b.f, "TensorListPushBack", e, b.args[1]));
    mr_out w = function_fixture_while(&b.s, "While", "More", "Wrap", b.x, empty_list(&b));
    MR_CHECK_NEAR(function_fixture_value(&b, 0, mr_emit(&b.s, "TensorListLength", mr_nth(w, 1))), 1, 0);
    function_fixture_deinit(&b);
}
