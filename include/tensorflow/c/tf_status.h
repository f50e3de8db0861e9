/* tensorflow/c/tf_status.h -- how a call reports success or failure.
 *
 * The caller makes one TF_Status and lends it to call after call; it must not be NULL.  A TF_Status
 * belongs to one thread at a time. */
#ifndef TENSORFLOW_C_TF_STATUS_H_
#define TENSORFLOW_C_TF_STATUS_H_

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_Status TF_Status;

/* The codes of gRPC. */
typedef enum TF_Code {
    TF_OK = 0,
    TF_CANCELLED = 1,
    TF_UNKNOWN = 2,
    TF_INVALID_ARGUMENT = 3,
    TF_DEADLINE_EXCEEDED = 4,
    TF_NOT_FOUND = 5,
    TF_ALREADY_EXISTS = 6,
    TF_PERMISSION_DENIED = 7,
    TF_RESOURCE_EXHAUSTED = 8,
    TF_FAILED_PRECONDITION = 9,
    TF_ABORTED = 10,
    TF_OUT_OF_RANGE = 11,
    TF_UNIMPLEMENTED = 12,
    TF_INTERNAL = 13,
    TF_UNAVAILABLE = 14,
    TF_DATA_LOSS = 15,
    TF_UNAUTHENTICATED = 16,
} TF_Code;

/* A new status, OK.  The caller deletes it. */
TF_CAPI_EXPORT extern TF_Status *TF_NewStatus(void);

/* NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteStatus(TF_Status *s);

/* Sets code and message (copied) and drops the payloads.  With TF_OK the message is dropped too. */
TF_CAPI_EXPORT extern void TF_SetStatus(TF_Status *s, TF_Code code, const char *msg);

/* Attaches value under key to an error, replacing what was there; both are copied.  An OK status
 * carries no payloads: nothing happens. */
TF_CAPI_EXPORT extern void TF_SetPayload(TF_Status *s, const char *key, const char *value);

/* Called once a payload; key and value live for the call only. */
typedef void (*TF_PayloadVisitor)(const char *key, const char *value, void *capture);

/* Calls visitor(key, value, capture) for each payload, in the order they were first set.  The
 * visitor must not change s. */
TF_CAPI_EXPORT extern void TF_ForEachPayload(const TF_Status *s, TF_PayloadVisitor visitor,
                                             void *capture);

/* Sets the status that fits an errno value, with the message "context; text of the errno". */
TF_CAPI_EXPORT extern void TF_SetStatusFromIOError(TF_Status *s, int error_code,
                                                   const char *context);

TF_CAPI_EXPORT extern TF_Code TF_GetCode(const TF_Status *s);

/* "" when OK.  Owned by s; valid until s is changed or deleted. */
TF_CAPI_EXPORT extern const char *TF_Message(const TF_Status *s);

#ifdef __cplusplus
}
#endif

#endif
