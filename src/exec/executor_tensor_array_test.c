/* exec/executor_tensor_array_test.c -- arrays of a step that are used for what they are not. */
#include "exec/gradient_fixture.h"

/* The array; output 1 is its flow. */
static mr_out new_array(mr_gradient_fixture *r, mr_dtype type)
{
    return mr_emit_with(&r->b.s, "TensorArrayV3", MR_ATTRS({"dtype", mr_a_type(type)}),
                        mr_gradient_fixture_i32(r, 1));
}

static void check_refused(mr_gradient_fixture *r, mr_out y, const char *text)
{
    mr_tensor *out = NULL;
    MR_CHECK_OK(mr_scope_status(&r->b.s));
    MR_CHECK_ERR(mr_gradient_fixture_run(r, &y, 1, &out), MR_INVALID_ARGUMENT, text);
    mr_gradient_fixture_deinit(r);
}

static mr_out written(mr_gradient_fixture *r, mr_out ta)
{
    mr_out rows = mr_const_vec_i32(&r->b.s, 2, (int32_t[]){1, 2});
    return mr_emit(&r->b.s, "TensorArrayWriteV3", ta, mr_gradient_fixture_i32(r, 0), rows, mr_nth(ta, 1));
}

MR_TEST(tensor_array_is_not_joined_as_another_type)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    mr_out ta = new_array(&r, MR_INT32), flow = written(&r, ta);
    check_refused(&r,
                  mr_emit_with(&r.b.s, "TensorArrayConcatV3",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), ta, flow),
                  "dtype is int32 but Op requested dtype float");
}

MR_TEST(tensor_array_is_not_stacked_as_another_type)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    mr_out ta = new_array(&r, MR_INT32), flow = written(&r, ta);
    check_refused(&r,
                  mr_emit_with(&r.b.s, "TensorArrayGatherV3",
                               MR_ATTRS({"dtype", mr_a_type(MR_STRING)}), ta,
                               mr_const_vec_i32(&r.b.s, 1, (int32_t[]){0}), flow),
                  "dtype is int32 but Op requested dtype string");
}

MR_TEST(tensor_array_passes_only_a_scalar_flow_on)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    mr_out ta = new_array(&r, MR_INT32);
    mr_out flow = mr_const(&r.b.s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){2}, (float[]){0, 0}));
    check_refused(&r,
                  mr_emit(&r.b.s, "TensorArrayWriteV3", ta, mr_gradient_fixture_i32(&r, 0),
                          mr_gradient_fixture_i32(&r, 5), flow),
                  "flow_in must be a scalar, not of shape [2]");
}

/* The gradient of a split has as many parts as it made, though the array has grown since. */
MR_TEST(tensor_array_gradient_of_a_split_leaves_later_elements_out)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    mr_scope *s = &r.b.s;
    mr_attr type = mr_a_type(MR_INT32);
    mr_out ta = mr_emit_with(s, "TensorArrayV3", MR_ATTRS({"dtype", type}, {"dynamic_size", mr_a_bool(true)}), mr_gradient_fixture_i32(&r, 2));
    mr_out lengths = mr_const(s, mr_tensor_vector_i64(2, (int64_t[]){1, 2}));
    mr_out flow = mr_emit(s, "TensorArraySplitV3", ta, mr_const_vec_i32(s, 3, (int32_t[]){1, 2, 3}), lengths, mr_nth(ta, 1));
    flow = mr_emit(s, "TensorArrayWriteV3", ta, mr_gradient_fixture_i32(&r, 2), mr_const_vec_i32(s, 1, (int32_t[]){9}),
                   flow);
    mr_out g = mr_emit_with(s, "TensorArrayGradV3", MR_ATTRS({"source", mr_a_str("g")}), ta, flow);
    flow = mr_emit(s, "TensorArrayWriteV3", g, mr_gradient_fixture_i32(&r, 0), mr_const_vec_i32(s, 1, (int32_t[]){5}), mr_nth(g, 1));
    mr_out all = mr_emit_with(s, "TensorArrayConcatV3", MR_ATTRS({"dtype", type}), g, flow);
    mr_tensor *out[2];
    MR_CHECK_OK(mr_scope_status(s));
    MR_CHECK_OK(mr_gradient_fixture_run(&r, (mr_out[]){all, mr_nth(all, 1)}, 2, out));
    MR_CHECK_INT(out[0]->n, 3);
    MR_CHECK_INT(MR_DATA(int32_t, out[0])[0], 5);
    MR_CHECK_INT(out[1]->n, 2);
    mr_tensor_unref(out[0]);
    mr_tensor_unref(out[1]);
    mr_gradient_fixture_deinit(&r);
}
