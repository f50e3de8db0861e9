/* tensorflow/c/tf_tstring.h -- strings, the elements of TF_STRING tensors.
 *
 * These exported functions do the same as the inline functions TF_TString_* of ctstring.h, for languages that cannot
 * use inline functions. */
#ifndef TENSORFLOW_C_TF_TSTRING_H_
#define TENSORFLOW_C_TF_TSTRING_H_

#include <stddef.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/core/platform/ctstring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes t an empty string. Its former contents are ignored. */
TF_CAPI_EXPORT extern void TF_StringInit(TF_TString *t);

/* Sets dst to a copy of size bytes; src may be part of dst. dst becomes empty if there is no memory. */
TF_CAPI_EXPORT extern void TF_StringCopy(TF_TString *dst, const char *src, size_t size);

/* Makes dst point to bytes that the caller keeps alive. */
TF_CAPI_EXPORT extern void TF_StringAssignView(TF_TString *dst, const char *src, size_t size);

/* Returns the bytes, which are followed by a NUL except in a view. They are valid until the string is changed. */
TF_CAPI_EXPORT extern const char *TF_StringGetDataPointer(const TF_TString *tstr);

/* Returns how the string stores its text. */
TF_CAPI_EXPORT extern TF_TString_Type TF_StringGetType(const TF_TString *str);
/* Returns the number of bytes. */
TF_CAPI_EXPORT extern size_t TF_StringGetSize(const TF_TString *tstr);

/* Returns the number of bytes that fit without allocating; 0 for a view. */
TF_CAPI_EXPORT extern size_t TF_StringGetCapacity(const TF_TString *str);

/* Frees the text and makes the string empty. */
TF_CAPI_EXPORT extern void TF_StringDealloc(TF_TString *tstr);

/* ---- the encoding of strings in TensorFlow up to 2.3: a varint length, then the bytes ---- */

/* Encodes src into dst and returns the number of bytes written. Fails with TF_INVALID_ARGUMENT if dst is too short. */
TF_CAPI_EXPORT extern size_t TF_StringEncode(const char *src, size_t src_len, char *dst, size_t dst_len,
                                             TF_Status *status);

/* Decodes a string: makes *dst point into src, and returns the number of bytes read. Fails with TF_INVALID_ARGUMENT if
 * src is truncated. */
TF_CAPI_EXPORT extern size_t TF_StringDecode(const char *src, size_t src_len, const char **dst, size_t *dst_len,
                                             TF_Status *status);

/* Returns the encoded size of a string of len bytes. */
TF_CAPI_EXPORT extern size_t TF_StringEncodedSize(size_t len);

#ifdef __cplusplus
}
#endif

#endif
