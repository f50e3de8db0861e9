/* tensorflow/c/tf_shape.h -- a shape that may be partially known. */
#ifndef TENSORFLOW_C_TF_SHAPE_H_
#define TENSORFLOW_C_TF_SHAPE_H_

#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A shape. */
typedef struct TF_Shape TF_Shape;

/* Creates a shape of unknown rank. The caller deletes it. */
TF_CAPI_EXPORT extern TF_Shape *TF_NewShape(void);

/* Returns the rank, -1 if it is unknown. */
TF_CAPI_EXPORT extern int TF_ShapeDims(const TF_Shape *shape);

/* Returns the size of dimension d, -1 if it is unknown or does not exist. */
TF_CAPI_EXPORT extern int64_t TF_ShapeDimSize(const TF_Shape *shape, int d);

/* Deletes the shape. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteShape(TF_Shape *shape);

#ifdef __cplusplus
}
#endif

#endif
