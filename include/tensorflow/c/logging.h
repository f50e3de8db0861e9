/* tensorflow/c/logging.h -- writing to the library's log.
 *
 * The log is silent until a listener is there (TF_RegisterLogListener in c_api.h). */
#ifndef TENSORFLOW_C_LOGGING_H_
#define TENSORFLOW_C_LOGGING_H_

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TF_FATAL is logged as an error: the library never ends the process of its host. */
typedef enum TF_LogLevel {
    TF_INFO = 0,
    TF_WARNING = 1,
    TF_ERROR = 2,
    TF_FATAL = 3,
} TF_LogLevel;

/* Logs one line, formatted as by printf. */
TF_CAPI_EXPORT extern void TF_Log(TF_LogLevel level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Logs only when level is at most TF_CPP_MAX_VLOG_LEVEL of the environment (0 when unset). */
TF_CAPI_EXPORT extern void TF_VLog(int level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same in debug builds of the library, nothing in others. */
TF_CAPI_EXPORT extern void TF_DVLog(int level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
