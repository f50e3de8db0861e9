/* base/log.c -- one listener for the process.
 *
 * The listener is called with the lock held: lines arrive one at a time, and when mr_log_listen
 * returns, the old listener is no longer running. A listener may itself log or replace itself: each
 * thread knows when it is inside a call, drops what is logged there, and does not take the lock
 * again. */
#include "base/log.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/thread.h"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* last in the lock order */
static mr_log_fn listener MR_GUARDED_BY(mu);
static void *listener_arg MR_GUARDED_BY(mu);
static _Atomic bool has_listener; /* lets a silent process skip the lock and the formatting */
static _Thread_local bool inside;

static void set_listener_locked(mr_log_fn fn, void *arg)
{
    listener = fn;
    listener_arg = arg;
    atomic_store(&has_listener, fn != NULL);
}

void mr_log_listen(mr_log_fn fn, void *arg)
{
    if (inside) {
        set_listener_locked(fn, arg);
        return;
    }
    mr_lock(&mu);
    set_listener_locked(fn, arg);
    mr_unlock(&mu);
}

void mr_log_listen_if_silent(mr_log_fn fn, void *arg)
{
    if (inside)
        return; /* there is a listener: it is being called */
    mr_lock(&mu);
    if (!listener)
        set_listener_locked(fn, arg);
    mr_unlock(&mu);
}

static void call_listener(mr_log_level level, const char *file, int line, const char *text)
{
    mr_lock(&mu);
    inside = true;
    if (listener)
        listener(listener_arg, level, file, line, text);
    inside = false;
    mr_unlock(&mu);
}

void mr_logv_at(mr_log_level level, const char *file, int line, const char *fmt, va_list ap)
{
    if (!atomic_load(&has_listener) || inside)
        return;
    char fixed[512], *text = fixed;
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(fixed, sizeof(fixed), fmt, ap);
    if (n >= (int)sizeof(fixed) && (text = mr_try_alloc((size_t)n + 1)))
        vsnprintf(text, (size_t)n + 1, fmt, again);
    call_listener(level, file, line, n < 0 ? fmt : text ? text : fixed); /* without memory: cut short */
    if (text != fixed)
        mr_free(text);
    va_end(again);
}

void mr_log_at(mr_log_level level, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    mr_logv_at(level, file, line, fmt, ap);
    va_end(ap);
}
