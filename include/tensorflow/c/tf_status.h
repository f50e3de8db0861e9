/* tensorflow/c/tf_status.h -- how a call reports success or failure.
 *
 * The caller creates a TF_Status and passes it to one call after the other. It must not be NULL, and belongs to one
 * thread at a time. */
#ifndef TENSORFLOW_C_TF_STATUS_H_
#define TENSORFLOW_C_TF_STATUS_H_

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a call: a code, a message and payloads. */
typedef struct TF_Status TF_Status;

/* The error codes, which are those of gRPC. */
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

/* Creates a status with TF_OK. The caller deletes it. */
TF_CAPI_EXPORT extern TF_Status *TF_NewStatus(void);

/* Deletes the status. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteStatus(TF_Status *s);

/* Sets the code and the message, which is copied, and removes all payloads. With TF_OK the message is ignored. */
TF_CAPI_EXPORT extern void TF_SetStatus(TF_Status *s, TF_Code code, const char *msg);

/* Attaches a value to an error, and replaces a former value with the same key. Both strings are copied. Does nothing if
 * the status is TF_OK. */
TF_CAPI_EXPORT extern void TF_SetPayload(TF_Status *s, const char *key, const char *value);

/* A function that receives a payload. The strings are valid during the call. */
typedef void (*TF_PayloadVisitor)(const char *key, const char *value, void *capture);

/* Calls visitor(key, value, capture) for each payload, in the order in which they were first set. The visitor must not
 * change s. */
TF_CAPI_EXPORT extern void TF_ForEachPayload(const TF_Status *s, TF_PayloadVisitor visitor, void *capture);

/* Sets the code that corresponds to an errno value, and the message "context; text of the errno". */
TF_CAPI_EXPORT extern void TF_SetStatusFromIOError(TF_Status *s, int error_code, const char *context);

/* Returns the code. */
TF_CAPI_EXPORT extern TF_Code TF_GetCode(const TF_Status *s);

/* Returns the message, "" for TF_OK. The status owns it; it is valid until the status is changed or deleted. */
TF_CAPI_EXPORT extern const char *TF_Message(const TF_Status *s);

#ifdef __cplusplus
}
#endif

#endif
