/* tensorflow/c/tf_buffer.h -- a block of bytes, usually a serialized protocol buffer. */
#ifndef TENSORFLOW_C_TF_BUFFER_H_
#define TENSORFLOW_C_TF_BUFFER_H_

#include <stddef.h>

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A block of bytes. TF_DeleteBuffer releases the data with data_deallocator, unless that is NULL. */
typedef struct TF_Buffer {
    const void *data;
    size_t length;
    void (*data_deallocator)(void *data, size_t length);
} TF_Buffer;

/* Creates a buffer with a copy of the bytes. The caller deletes it. NULL if there is no memory. */
TF_CAPI_EXPORT extern TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len);

/* Creates an empty buffer, as functions with an output buffer need it. The caller deletes it. */
TF_CAPI_EXPORT extern TF_Buffer *TF_NewBuffer(void);

/* Releases the data and deletes the buffer. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteBuffer(TF_Buffer *buffer);

/* Returns the fields by value, for languages that cannot access the struct. The buffer still owns the data. */
TF_CAPI_EXPORT extern TF_Buffer TF_GetBuffer(TF_Buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
