/* tensorflow/c/tf_buffer.h -- a block of bytes, mostly a serialized protocol buffer. */
#ifndef TENSORFLOW_C_TF_BUFFER_H_
#define TENSORFLOW_C_TF_BUFFER_H_

#include <stddef.h>

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* data_deallocator, when not NULL, is what TF_DeleteBuffer releases the data with. */
typedef struct TF_Buffer {
    const void *data;
    size_t length;
    void (*data_deallocator)(void *data, size_t length);
} TF_Buffer;

/* A new buffer holding a copy of the bytes; NULL when there is no memory for it.  The caller
 * deletes it. */
TF_CAPI_EXPORT extern TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len);

/* A new empty buffer, as functions with an output buffer want it.  The caller deletes it. */
TF_CAPI_EXPORT extern TF_Buffer *TF_NewBuffer(void);

/* Releases the data through its deallocator, then the buffer.  NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteBuffer(TF_Buffer *buffer);

/* The fields by value, for languages that cannot see into the struct.  The data stay owned by
 * the buffer. */
TF_CAPI_EXPORT extern TF_Buffer TF_GetBuffer(TF_Buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
