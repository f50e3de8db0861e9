/* ops/array/tile_test.c -- TileGrad, which only very old graphs may contain. */
#include "base/memory.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "ops/values_fixture.h"
#include "tests/harness/test.h"

MR_TEST(tile_grad_adds_the_copies)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_values v;
    mr_device *device;
    mr_tensor *sum;
    g->versions.producer = 2; /* it was removed in 3 */
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &device));
    mr_scope_init(&s, g, "");
    mr_out x = mr_const(&s, mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 4}, (float[]){1, 2, 3, 4, 5, 6, 7, 8}));
    mr_out y = mr_emit(&s, "TileGrad", x, mr_const_vec_i32(&s, 2, (int32_t[]){2, 2}));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_values_init(&v, g, device);
    MR_CHECK_OK(mr_values_get(&v, y, &sum));
    MR_CHECK_INT(sum->rank, 2);
    MR_CHECK_INT(sum->dims[0], 1);
    MR_CHECK_INT(sum->dims[1], 2);
    MR_CHECK(MR_DATA(float, sum)[0] == 16 && MR_DATA(float, sum)[1] == 20);
    mr_values_deinit(&v);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_device_free(device);
}
