/* tensorflow/c/tf_tstring.h -- strings as elements of TF_STRING tensors.
 *
 * The exported functions do what the inline TF_TString_* of ctstring.h do, for languages that
 * cannot use inline functions. */
#ifndef TENSORFLOW_C_TF_TSTRING_H_
#define TENSORFLOW_C_TF_TSTRING_H_

#include <stddef.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/core/platform/ctstring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes t the empty string; what was there before is not looked at. */
TF_CAPI_EXPORT extern void TF_StringInit(TF_TString *t);

/* Sets dst to a copy of size bytes; src may be part of dst.  Empty when there is no memory. */
TF_CAPI_EXPORT extern void TF_StringCopy(TF_TString *dst, const char *src, size_t size);

/* Lets dst point at bytes that the caller keeps alive. */
TF_CAPI_EXPORT extern void TF_StringAssignView(TF_TString *dst, const char *src, size_t size);

/* The bytes; NUL follows them except in a view.  Valid until the string is changed. */
TF_CAPI_EXPORT extern const char *TF_StringGetDataPointer(const TF_TString *tstr);

TF_CAPI_EXPORT extern TF_TString_Type TF_StringGetType(const TF_TString *str);
TF_CAPI_EXPORT extern size_t TF_StringGetSize(const TF_TString *tstr);

/* Bytes that fit without allocating; 0 for a view. */
TF_CAPI_EXPORT extern size_t TF_StringGetCapacity(const TF_TString *str);

/* Frees what the string owns and makes it empty. */
TF_CAPI_EXPORT extern void TF_StringDealloc(TF_TString *tstr);

/* ---- string tensors of TensorFlow up to 2.3: a varint length, then the bytes ---- */

/* Writes src to dst and returns the bytes written.  INVALID_ARGUMENT when dst is too short. */
TF_CAPI_EXPORT extern size_t TF_StringEncode(const char *src, size_t src_len, char *dst,
                                             size_t dst_len, TF_Status *status);

/* Points *dst into src and returns the bytes read.  INVALID_ARGUMENT when src is cut short. */
TF_CAPI_EXPORT extern size_t TF_StringDecode(const char *src, size_t src_len, const char **dst,
                                             size_t *dst_len, TF_Status *status);

/* Bytes that a string of len bytes takes once encoded. */
TF_CAPI_EXPORT extern size_t TF_StringEncodedSize(size_t len);

#ifdef __cplusplus
}
#endif

#endif
