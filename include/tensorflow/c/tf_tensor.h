/* tensorflow/c/tf_tensor.h -- a tensor: element type, shape and a block of memory.
 *
 * Elements are stored in row-major order. Elements of TF_STRING are TF_TString (tf_tstring.h), 24 bytes each. The
 * memory of a TF_Tensor may be shared with the runtime and outlive the TF_Tensor. Its deallocator runs when the last
 * user is done, possibly on another thread. */
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

/* A tensor. It belongs to one thread at a time. */
typedef struct TF_Tensor TF_Tensor;

/* Where a kernel wants temporary memory. */
typedef struct TF_AllocatorAttributes {
    size_t struct_size; /* TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE */
    TF_Bool on_host;    /* 1: host memory, even on another device */
} TF_AllocatorAttributes;

/* The value for struct_size. */
#define TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE TF_OFFSET_OF_END(TF_AllocatorAttributes, on_host)

/* Creates a tensor from memory of the caller. The library takes ownership of data and releases it with
 * deallocator(data, len, deallocator_arg). Memory that is not aligned (TF_TensorDefaultAlignment) is copied if the type
 * allows it, and released at once. Returns NULL if len is too small for the shape; data is released then, too. */
TF_CAPI_EXPORT extern TF_Tensor * TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data,
                                               size_t len, void (*deallocator)(void *data, size_t len, void *arg),
                                               void *deallocator_arg);

/* Creates a tensor with len bytes of new, aligned memory. Strings are empty; other elements are undefined. Returns NULL
 * if there is no memory or len does not match the shape. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims, int num_dims, size_t len);

/* Returns tensor if it is the only owner of its memory, otherwise NULL. For callers that want to write into a tensor
 * they received. */
TF_CAPI_EXPORT extern TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor);

/* Deletes the tensor. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteTensor(TF_Tensor *tensor);

/* Returns the element type. */
TF_CAPI_EXPORT extern TF_DataType TF_TensorType(const TF_Tensor *tensor);

/* Changes the shape. The number of elements must stay the same, otherwise the call has no effect. */
TF_CAPI_EXPORT extern void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims);

/* Returns the rank, 0 for a scalar. */
TF_CAPI_EXPORT extern int TF_NumDims(const TF_Tensor *tensor);

/* Returns the size of a dimension, 0 <= dim_index < TF_NumDims. */
TF_CAPI_EXPORT extern int64_t TF_Dim(const TF_Tensor *tensor, int dim_index);

/* Returns the size of the memory in bytes. For strings, this is the size of the TF_TString array, without the text. */
TF_CAPI_EXPORT extern size_t TF_TensorByteSize(const TF_Tensor *tensor);

/* Returns the memory, which the tensor owns. */
TF_CAPI_EXPORT extern void *TF_TensorData(const TF_Tensor *tensor);

/* Returns the number of elements, 1 for a scalar. */
TF_CAPI_EXPORT extern int64_t TF_TensorElementCount(const TF_Tensor *tensor);

/* Makes `to`, an existing tensor, share the memory of `from` with another type and shape of the same size in bytes.
 * `to` releases its former value. */
TF_CAPI_EXPORT extern void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
                                                const int64_t *new_dims, int num_new_dims, TF_Status *status);

/* Returns whether the memory has the alignment TF_TensorDefaultAlignment. */
TF_CAPI_EXPORT extern bool TF_TensorIsAligned(const TF_Tensor *tensor);

/* Returns 64, the alignment of memory that the library allocates. */
TF_CAPI_EXPORT extern size_t TF_TensorDefaultAlignment(void);

#ifdef __cplusplus
}
#endif

#endif
