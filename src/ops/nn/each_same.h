/* ops/nn/each_same.h -- element-wise ops with two inputs that do not broadcast: the gradients of
 * activations. */
#ifndef MR_OPS_NN_EACH_SAME_H
#define MR_OPS_NN_EACH_SAME_H

#include "ops/elementwise.h"

/* Checks that inputs 0 and 1 have the same shape; otherwise returns TensorFlow's INVALID_ARGUMENT. */
mr_status *mr_check_same_shape(const mr_run *r);
/* mr_each_run after that check. */
mr_status *mr_each_same_run(mr_run *r);
mr_status *mr_each_same_run_accel(mr_run *r);

/* mr_each_run over inputs 0 and 1, which must have the same number of elements; the result has the shape of input 0. */
mr_status *mr_each_flat_run(mr_run *r);
mr_status *mr_each_flat_run_accel(mr_run *r);

/* For their gradients: v in the shape of `like`, which has the same number of elements; v itself if both are known to
 * have the same shape. */
struct mr_grad;
mr_out mr_grad_shaped(struct mr_grad *g, mr_out v, mr_out like);

/* Rows for MR_KERNELS. */
#define MR_GPU_EACH_FLAT(fn) MR_GPU_EACH_BY(fn, mr_each_flat_run_accel)
#define MR_CPU_EACH_FLAT(fn, TYPES) MR_CPU_EACH_FORM(fn, TYPES, mr_each_flat_run, MR_FORM_FLAT)
#define MR_GPU_EACH_SAME(fn) MR_GPU_EACH_BY(fn, mr_each_same_run_accel)
#define MR_CPU_EACH_SAME(fn, TYPES) MR_CPU_EACH_FORM(fn, TYPES, mr_each_same_run, MR_FORM_SAME)

#endif
