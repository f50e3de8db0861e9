/* ops/state/tensor_array.h -- shape functions of the TensorArray ops (tensor_array_shape.c). */
#ifndef MR_OPS_STATE_TENSOR_ARRAY_H
#define MR_OPS_STATE_TENSOR_ARRAY_H

#include "graph/infer.h"

mr_status *mr_array_shape_new(mr_infer *c);
mr_status *mr_array_shape_gradient(mr_infer *c);
mr_status *mr_array_shape_write(mr_infer *c);
mr_status *mr_array_shape_read(mr_infer *c);
mr_status *mr_array_shape_gather(mr_infer *c);
mr_status *mr_array_shape_scatter(mr_infer *c);
mr_status *mr_array_shape_concat(mr_infer *c);
mr_status *mr_array_shape_split(mr_infer *c);

#endif
