/* ops/nn/batch_norm.h -- state, checks and shape functions that FusedBatchNorm and its gradient share. */
#ifndef MR_OPS_NN_BATCH_NORM_H
#define MR_OPS_NN_BATCH_NORM_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/nn/channels.h"
#include "ops/nn/wide.h"

/* State of a kernel. */
typedef struct mr_norm {
    mr_layout layout;
    float epsilon, factor; /* factor: weight of the batch's mean and variance in the running ones */
    bool training;
} mr_norm;
mr_status *mr_norm_init(mr_make *m, void *state);

mr_status *mr_norm_check_image(const mr_tensor *x, const char *what);
mr_status *mr_norm_check_vector(const mr_run *r, int i, const char *what, int64_t channels);
/* x has rank 4 or 5; its channels are as many as the vectors first..last of the inputs have
 * elements. */
mr_status *mr_norm_infer(mr_infer *c, const mr_pshape *x, int first, int last,
                         const mr_pshape **image, const mr_pshape **vector);

/* The gradient of the gradient ops. */
void mr_norm_grad_backward(mr_grad *g);

/* Pieces of the definitions. */
#define MR_NORM_EPSILON "epsilon: float = 0.0001; "
#define MR_NORM_FACTOR MR_NORM_EPSILON "exponential_avg_factor: float = 1; "
#define MR_NORM_TRAINING "; is_training: bool = true"
#define MR_NORM_FORMATS "data_format: {'NHWC', 'NCHW'} = 'NHWC'" MR_NORM_TRAINING
#define MR_NORM_FORMATS_3D \
    "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'" MR_NORM_TRAINING
#define MR_NORM_NARROW "T: {half, bfloat16, float}; U: {float}; "
#define MR_NORM_TYPES(M, ...) MR_FLOATS16(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

#endif
