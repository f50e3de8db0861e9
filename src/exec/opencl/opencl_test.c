/* exec/opencl/opencl_test.c -- sessions with an OpenCL device.
 *
 * On a machine without one, pocl's will do: it computes on the CPU, but has memory and a queue like any other. */
#include <stdlib.h>

#include "exec/opencl/rig_opencl_test.h"

MR_TEST(opencl_device_is_listed_as_a_gpu)
{
    gpu_rig r;
    mr_device_info *d = NULL;
    int n = 0;
    gpu_begin(&r);
    MR_CHECK_OK(gpu_session(&r)->ops->list_devices(r.session, &d, &n));
    MR_CHECK_INT(n, 2);
    MR_CHECK_STR(d[1].name, "/job:localhost/replica:0/task:0/device:GPU:0");
    MR_CHECK_STR(d[1].type, "GPU");
    MR_CHECK(d[1].memory_limit > 1 << 20);
    mr_device_infos_free(d, n);
    gpu_end(&r);
}

MR_TEST(opencl_product_and_sum_of_fed_matrices)
{
    gpu_rig r;
    gpu_begin(&r);
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL);
    mr_out w = mr_const(&r.s, mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}));
    mr_out b = mr_const(&r.s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){3}, (float[]){10, 20, 30}));
    mr_out y = mr_emit(mr_as(&r.s, "y"), "AddV2", mr_emit(mr_as(&r.s, "xw"), "MatMul", x, w), b);
    mr_tensor *in = mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 2}, (float[]){1, 0, 1, 1}), *out;
    MR_CHECK_OK(gpu_run1(&r, x, in, y, &out));
    static const float want[] = {11, 22, 33, 15, 27, 39};
    MR_CHECK_INT(out->n, 6);
    for (int i = 0; i < 6; i++)
        MR_CHECK_NEAR(MR_DATA(float, out)[i], want[i], 0);
    MR_CHECK_STR(gpu_place_of(&r, "xw"), "GPU");
    MR_CHECK_STR(gpu_place_of(&r, "y"), "GPU");
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    gpu_end(&r);
}
