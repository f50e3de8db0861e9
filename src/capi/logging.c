/* capi/logging.c -- the log for clients: registers listeners, and logs lines of plugins.
 *
 * base/log has one listener for the process; ours passes each line on to all that clients have
 * registered.  Their list only grows, so that it is read without a lock: a listener may register
 * another one from inside a call. */
#include "tensorflow/c/logging.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "capi/internal.h"
#include "millrace/millrace.h"

typedef struct listener {
    void (*fn)(const char *);                   /* or: */
    void (*leveled)(int level, const char *text);
    _Atomic(struct listener *) next;
} listener;

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* held to add; never while listeners run */
static _Atomic(listener *) first;

static void tell_all(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg, (void)file, (void)line;
    for (listener *l = atomic_load(&first); l; l = atomic_load(&l->next))
        l->leveled ? l->leveled((int)level, text) : l->fn(text);
}

/* Never freed, because there is no way to remove it. */
static void add_listener(listener with)
{
    listener *l = mr_new(listener);
    l->fn = with.fn;
    l->leveled = with.leveled;
    mr_lock(&mu);
    _Atomic(listener *) *end = &first;
    for (listener *at; (at = atomic_load(end)); end = &at->next) {
    }
    atomic_store(end, l);
    mr_unlock(&mu);
    mr_log_listen(tell_all, NULL);
}

void TF_RegisterLogListener(void (*fn)(const char *))
{
    if (fn)
        add_listener((listener){.fn = fn});
}

void mr_register_log_listener(void (*fn)(int level, const char *text))
{
    if (fn)
        add_listener((listener){.leveled = fn});
}

void TF_Log(TF_LogLevel level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    mr_logv_at(level <= TF_INFO      ? MR_LOG_INFO
               : level == TF_WARNING ? MR_LOG_WARNING
                                     : MR_LOG_ERROR,
               __FILE__, __LINE__, fmt, ap);
    va_end(ap);
}

/* The variable that TensorFlow uses. */
static int max_vlog_level(void)
{
    const char *z = getenv("TF_CPP_MAX_VLOG_LEVEL");
    return z ? atoi(z) : 0;
}

void TF_VLog(int level, const char *fmt, ...)
{
    if (level > max_vlog_level())
        return;
    va_list ap;
    va_start(ap, fmt);
    mr_logv_at(MR_LOG_INFO, __FILE__, __LINE__, fmt, ap);
    va_end(ap);
}

void TF_DVLog(int level, const char *fmt, ...)
{
#ifdef MR_DEBUG
    if (level > max_vlog_level())
        return;
    va_list ap;
    va_start(ap, fmt);
    mr_logv_at(MR_LOG_INFO, __FILE__, __LINE__, fmt, ap);
    va_end(ap);
#else
    (void)level, (void)fmt;
#endif
}
