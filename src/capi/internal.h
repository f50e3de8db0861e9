/* capi/internal.h -- what the files of the C API share: its handles opened, and the way from our
 * statuses and strings to the client's. */
#ifndef MR_CAPI_INTERNAL_H
#define MR_CAPI_INTERNAL_H

#include "base/str.h"
#include "base/vec.h"
#include "tensorflow/c/c_api.h"

/* ---- status ---- */

typedef struct mr_capi_payload {
    char *key, *value;
} mr_capi_payload;

/* Keeps our own object as it came, so that passing an error on copies nothing. */
struct TF_Status {
    mr_status *error;                 /* NULL: OK */
    MR_VEC(mr_capi_payload) payloads; /* only with an error, keys differ */
};

/* Puts s, which may be NULL for OK, into out and drops what out held.  Consumes s. */
void mr_capi_set_status(TF_Status *out, mr_status *s);
/* The error in s as a new status, NULL when OK: for callbacks of clients that fill a TF_Status. */
mr_status *mr_capi_status_copy(const TF_Status *s);

/* ---- buffer ---- */

/* Moves the bytes of s into out and leaves s empty; false when out already holds data. */
bool mr_capi_buffer_from_str(TF_Buffer *out, mr_str *s);
/* The same with the answer for the client: INVALID_ARGUMENT.  s is empty afterwards in any case. */
mr_status *mr_capi_buffer_fill(TF_Buffer *out, mr_str *s);
/* A new buffer with the bytes of s, which is empty afterwards. */
TF_Buffer *mr_capi_buffer_new(mr_str *s);
/* The bytes of a buffer that a client passed in; "" for NULL and for an empty one. */
mr_sv mr_capi_buffer_view(const TF_Buffer *b);

#endif
