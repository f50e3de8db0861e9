/* tensorflow/c/tf_shape.h -- a shape that may be known in part. */
#ifndef TENSORFLOW_C_TF_SHAPE_H_
#define TENSORFLOW_C_TF_SHAPE_H_

#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_Shape TF_Shape;

/* A new shape of unknown rank.  The caller deletes it. */
TF_CAPI_EXPORT extern TF_Shape *TF_NewShape(void);

/* The rank, -1 when unknown. */
TF_CAPI_EXPORT extern int TF_ShapeDims(const TF_Shape *shape);

/* Size of dimension d, -1 when unknown or when there is no such dimension. */
TF_CAPI_EXPORT extern int64_t TF_ShapeDimSize(const TF_Shape *shape, int d);

/* NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteShape(TF_Shape *shape);

#ifdef __cplusplus
}
#endif

#endif
