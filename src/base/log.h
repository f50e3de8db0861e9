/* base/log.h -- the log of the library goes to a listener; without one, nothing is logged. */
#ifndef MR_BASE_LOG_H
#define MR_BASE_LOG_H

#include "base/status.h"

typedef enum mr_log_level { MR_LOG_INFO, MR_LOG_WARNING, MR_LOG_ERROR } mr_log_level;
typedef void (*mr_log_fn)(void *arg, mr_log_level level, const char *file, int line, const char *text);

void mr_log_listen(mr_log_fn fn, void *arg); /* NULL: silence */
/* The same, unless there is a listener already. */
void mr_log_listen_if_silent(mr_log_fn fn, void *arg);
void mr_log_at(mr_log_level level, const char *file, int line, const char *fmt, ...) MR_PRINTF(4, 5);
void mr_logv_at(mr_log_level level, const char *file, int line, const char *fmt, va_list ap);
#define mr_info(...) mr_log_at(MR_LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define mr_warn(...) mr_log_at(MR_LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)

#endif
