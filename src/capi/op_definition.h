/* capi/op_definition.h -- what the files of tensorflow/c/ops.h share. */
#ifndef MR_CAPI_OP_DEFINITION_H
#define MR_CAPI_OP_DEFINITION_H

#include "capi/internal.h"
#include "tensorflow/c/ops.h"

typedef void mr_capi_shape_fn(TF_ShapeInferenceContext *ctx, TF_Status *status);

/* Runs a client's shape function. */
mr_status *mr_capi_infer(mr_infer *c, mr_capi_shape_fn *fn);

/* Tells the library that is being loaded in this thread, if any, that it registered this op. */
void mr_capi_note_op(const char *name);

#endif
