/* tensorflow/c/logging.h -- writing to the log of the library.
 *
 * Nothing is printed unless a listener is registered (TF_RegisterLogListener in c_api.h). */
#ifndef TENSORFLOW_C_LOGGING_H_
#define TENSORFLOW_C_LOGGING_H_

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The level of a log line. TF_FATAL is logged as an error: the library never ends the process. */
typedef enum TF_LogLevel {
    TF_INFO = 0,
    TF_WARNING = 1,
    TF_ERROR = 2,
    TF_FATAL = 3,
} TF_LogLevel;

/* Logs one line, formatted as by printf. */
TF_CAPI_EXPORT extern void TF_Log(TF_LogLevel level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Logs a line if level is at most the environment variable TF_CPP_MAX_VLOG_LEVEL, which is 0 if unset. */
TF_CAPI_EXPORT extern void TF_VLog(int level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same in debug builds of the library. Does nothing in other builds. */
TF_CAPI_EXPORT extern void TF_DVLog(int level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
