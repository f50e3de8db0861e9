/* ops/state/tensor_array.h -- shape functions of the TensorArray ops (tensor_array_shape.c), and kernels that their
 * older forms (tensor_array_old.c) share: those differ only in the handle. */
#ifndef MR_OPS_STATE_TENSOR_ARRAY_H
#define MR_OPS_STATE_TENSOR_ARRAY_H

#include "graph/infer.h"
#include "run/run.h"

mr_status *mr_array_shape_new(mr_infer *c);
mr_status *mr_array_shape_gradient(mr_infer *c);
mr_status *mr_array_shape_gradient_with(mr_infer *c);
mr_status *mr_array_shape_pair(mr_infer *c); /* output 0 is a handle of two strings */
mr_status *mr_array_shape_pack(mr_infer *c);
mr_status *mr_array_shape_unpack(mr_infer *c);
mr_status *mr_array_shape_write(mr_infer *c);
mr_status *mr_array_shape_read(mr_infer *c);
mr_status *mr_array_shape_gather(mr_infer *c);
mr_status *mr_array_shape_scatter(mr_infer *c);
mr_status *mr_array_shape_concat(mr_infer *c);
mr_status *mr_array_shape_split(mr_infer *c);

mr_status *mr_array_run_new(mr_run *r);
mr_status *mr_array_run_write(mr_run *r);
mr_status *mr_array_run_read(mr_run *r);
mr_status *mr_array_run_gather(mr_run *r);
mr_status *mr_array_run_scatter(mr_run *r);
mr_status *mr_array_run_concat(mr_run *r);
mr_status *mr_array_run_split(mr_run *r);
mr_status *mr_array_run_size(mr_run *r);
mr_status *mr_array_run_close(mr_run *r);
mr_status *mr_array_run_gradient(mr_run *r);
mr_status *mr_array_run_pack(mr_run *r);
mr_status *mr_array_run_unpack(mr_run *r);

#endif
