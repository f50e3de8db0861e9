/* ops/ragged/ragged_variant_test.c -- gradients through ragged tensors that are stored as variants. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/table.h"
#include "ops/values_fixture.h"
#include "tests/harness/test.h"

/* The gradient of weights * from_variant(to_variant(x)) by x is the weights. */
static void check(bool batched)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_device *device;
    mr_values v;
    mr_tensor *got;
    mr_gradient dy = MR_NO_GRAD, dx;
    static const float weights[] = {3, 5, 7};
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &device));
    mr_scope_init(&s, g, "");
    mr_out splits = mr_const(&s, mr_tensor_vector_i64(4, (int64_t[]){0, 2, 2, 3}));
    mr_out x = mr_const(&s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){3}, (float[]){1, 2, 3}));
    mr_out variant = mr_emit_with(&s, "RaggedTensorToVariant",
                                  MR_ATTRS({"batched_input", mr_a_bool(batched)}), splits, x);
    mr_out back = mr_emit_with(&s, "RaggedTensorFromVariant",
                               MR_ATTRS({"input_ragged_rank", mr_a_int(batched ? 0 : 1)},
                                        {"output_ragged_rank", mr_a_int(1)},
                                        {"Tvalues", mr_a_type(MR_FLOAT)}),
                               variant);
    dy.dense = mr_const(&s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){3}, weights));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_out y = mr_nth(back, 1);
    MR_CHECK_OK(mr_graph_gradients(g, &y, 1, &x, 1, &(mr_gradient_options){.grad_ys = &dy}, &dx));
    mr_values_init(&v, g, device);
    MR_CHECK_OK(mr_values_get(&v, dx.dense, &got));
    MR_CHECK_INT(got->n, 3);
    for (int i = 0; i < 3; i++)
        MR_CHECK(MR_DATA(float, got)[i] == weights[i]);
    mr_values_deinit(&v);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_device_free(device);
}

MR_TEST(ragged_variant_gradient_of_a_whole_tensor) { check(false); }
MR_TEST(ragged_variant_gradient_of_rows) { check(true); }
