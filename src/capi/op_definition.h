/* capi/op_definition.h -- shared by the files that implement tensorflow/c/ops.h. */
#ifndef MR_CAPI_OP_DEFINITION_H
#define MR_CAPI_OP_DEFINITION_H

#include "capi/internal.h"
#include "tensorflow/c/ops.h"

typedef void mr_capi_shape_fn(TF_ShapeInferenceContext *ctx, TF_Status *status);

/* Runs a client's shape function. */
mr_status *mr_capi_infer(mr_infer *c, mr_capi_shape_fn *fn);

/* Adds the op to the list of the library that this thread is loading, if any. */
void mr_capi_note_op(const char *name);

#endif
