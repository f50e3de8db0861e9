/* ops/state/resource_more_test.c -- reads many variables at once. */
#include "base/memory.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "ops/values_fixture.h"
#include "tests/harness/test.h"

/* A handle to a variable, and the node that gives it this value. */
static mr_out variable(mr_scope *s, const char *name, mr_tensor *value, mr_out *assign)
{
    mr_dtype t = (mr_dtype)value->dtype;
    mr_attr shape = mr_a_shape(mr_pshape_of(&s->graph->arena, value->rank, value->dims));
    mr_out h = mr_emit0_with(s, "VarHandleOp",
                             MR_ATTRS({"dtype", mr_a_type(t)}, {"shape", shape}, {"shared_name", mr_a_str(name)}));
    *assign = mr_emit(s, "AssignVariableOp", h, mr_const(s, value));
    return h;
}

MR_TEST(read_variables_gives_each_in_its_type)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_values v;
    mr_device *device;
    mr_tensor *first, *second;
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &device));
    mr_scope_init(&s, g, "");
    mr_out set[2];
    mr_out a = variable(&s, "a", mr_tensor_scalar_f32(2.5f), &set[0]);
    mr_out b = variable(&s, "b", mr_tensor_scalar_i64(7), &set[1]);
    const int types[] = {MR_FLOAT, MR_INT64};
    mr_out y = mr_emit_with(&s, "_ReadVariablesOp", MR_ATTRS({"dtypes", mr_a_types(2, types)}), a, b);
    MR_CHECK_OK(mr_scope_status(&s));
    mr_values_init(&v, g, device);
    for (int i = 0; i < 2; i++)
        MR_CHECK_OK(mr_values_get(&v, set[i], &first));
    MR_CHECK_OK(mr_values_get(&v, y, &first));
    MR_CHECK_OK(mr_values_get(&v, mr_nth(y, 1), &second));
    MR_CHECK(*MR_DATA(float, first) == 2.5f);
    MR_CHECK_INT(*MR_DATA(int64_t, second), 7);
    mr_values_deinit(&v);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_device_free(device);
}
