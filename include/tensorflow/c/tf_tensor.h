/* tensorflow/c/tf_tensor.h -- a tensor: element type, shape and a block of memory.
 *
 * Elements lie in row-major order; those of TF_STRING are TF_TString (tf_tstring.h), 24 bytes each.
 * The memory of a TF_Tensor may be shared with the runtime and outlive the TF_Tensor itself; its
 * deallocator then runs when the last user is done, possibly on another thread. */
#ifndef TENSORFLOW_C_TF_TENSOR_H_
#define TENSORFLOW_C_TF_TENSOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_Tensor TF_Tensor;

/* Where a kernel wants temporary memory.  struct_size is TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE. */
typedef struct TF_AllocatorAttributes {
    size_t struct_size;
    TF_Bool on_host; /* 1: host memory even on a device */
} TF_AllocatorAttributes;

#define TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE TF_OFFSET_OF_END(TF_AllocatorAttributes, on_host)

/* Wraps memory of the caller; the library now owns data and ends with deallocator(data, len,
 * deallocator_arg).  Memory that is not aligned (TF_TensorDefaultAlignment) is copied, where the
 * type allows it, and released at once.  Returns NULL, data released, when len is too small for
 * the shape. */
TF_CAPI_EXPORT extern TF_Tensor *
TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data, size_t len,
             void (*deallocator)(void *data, size_t len, void *arg), void *deallocator_arg);

/* A tensor with len bytes of fresh, aligned memory; strings start empty, other types undefined.
 * NULL when there is no memory or len does not fit the shape. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims,
                                                   int num_dims, size_t len);

/* tensor itself when it is the only owner of its memory, else NULL.  For callers that want to
 * write into what they were given. */
TF_CAPI_EXPORT extern TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor);

/* NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteTensor(TF_Tensor *tensor);

TF_CAPI_EXPORT extern TF_DataType TF_TensorType(const TF_Tensor *tensor);

/* Gives the tensor another shape over the same memory.  The number of elements must stay the
 * same, or the call has no effect. */
TF_CAPI_EXPORT extern void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims);

/* 0 for a scalar. */
TF_CAPI_EXPORT extern int TF_NumDims(const TF_Tensor *tensor);

/* Size of one dimension; 0 <= dim_index < TF_NumDims. */
TF_CAPI_EXPORT extern int64_t TF_Dim(const TF_Tensor *tensor, int dim_index);

/* Bytes of the memory; for strings that of the TF_TString array, not of the text. */
TF_CAPI_EXPORT extern size_t TF_TensorByteSize(const TF_Tensor *tensor);

/* The memory, owned by the tensor. */
TF_CAPI_EXPORT extern void *TF_TensorData(const TF_Tensor *tensor);

/* The product of all dimensions; 1 for a scalar. */
TF_CAPI_EXPORT extern int64_t TF_TensorElementCount(const TF_Tensor *tensor);

/* Makes `to` share the memory of `from` under another type and shape of the same byte size.  `to`
 * is an existing tensor and lets go of what it held. */
TF_CAPI_EXPORT extern void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type,
                                                TF_Tensor *to, const int64_t *new_dims,
                                                int num_new_dims, TF_Status *status);

/* Whether the memory starts where TF_TensorDefaultAlignment asks. */
TF_CAPI_EXPORT extern bool TF_TensorIsAligned(const TF_Tensor *tensor);

/* 64: the alignment of memory the library allocates. */
TF_CAPI_EXPORT extern size_t TF_TensorDefaultAlignment(void);

#ifdef __cplusplus
}
#endif

#endif
