/* ops/nn/avg_pool.h -- the mean of each window, in two and three dimensions.  Padding does not
 * count. */
#ifndef MR_OPS_NN_AVG_POOL_H
#define MR_OPS_NN_AVG_POOL_H

#include "ops/nn/pool.h"

mr_status *mr_avg_pool_kernel(mr_run *r);
mr_status *mr_avg_pool_grad_kernel(mr_run *r); /* the image's dims as a vector, gradient */
/* mr_pool2d_init and mr_pool3d_init, which also reject windows along channels. */
mr_status *mr_avg_pool2d_init(mr_make *m, void *state);
mr_status *mr_avg_pool3d_init(mr_make *m, void *state);
/* The output's shape is the value of input 0. */
mr_status *mr_avg_pool_grad_infer(mr_infer *c, int spatial);

#endif
