/* base/status.c -- errors as objects.
 *
 * Making an error must not fail, yet errors are often made because memory is out. So everything here uses mr_try_alloc;
 * if that fails too, the static object below is returned instead. It has no owner: freeing it, appending to it or
 * marking it does nothing. It is recognized by its mark and not by its address, because libmillrace-net.so has a
 * separate one. */
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct mr_status {
    mr_code code;
    mr_reason reason;
    bool derived;
    bool fixed; /* the static one */
    const char *file; /* where it was made: for debuggers, not part of the message */
    int line;
    char *message;
};

static mr_status out_of_memory = {
    .code = MR_RESOURCE_EXHAUSTED,
    .fixed = true,
    .file = __FILE__,
    .line = __LINE__,
    .message = "out of memory (no room even for the error message)",
};

/* The formatted text, or NULL when memory is out or the format does not suit the locale. */
static char *try_format(const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = n < 0 ? NULL : mr_try_alloc((size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, fmt, ap);
    return text;
}

/* Takes over `message`, which may be NULL after a failed allocation. */
static mr_status *make_status(const char *file, int line, mr_code code, char *message)
{
    mr_status *s = message ? mr_try_alloc(sizeof(*s)) : NULL;
    if (!s) {
        mr_free(message);
        return &out_of_memory;
    }
    if (code == MR_OK)
        code = MR_INTERNAL;
    *s = (mr_status){.code = code, .file = file, .line = line, .message = message};
    return s;
}

mr_status *mr_errorv_at(const char *file, int line, mr_code code, const char *fmt, va_list ap)
{
    return make_status(file, line, code, try_format(fmt, ap));
}

mr_status *mr_error_at(const char *file, int line, mr_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    mr_status *s = mr_errorv_at(file, line, code, fmt, ap);
    va_end(ap);
    return s;
}

mr_code mr_status_code(const mr_status *s) { return s ? s->code : MR_OK; }

const char *mr_status_message(const mr_status *s) { return s ? s->message : ""; }

mr_status *mr_status_copy(const mr_status *s)
{
    if (!s || s->fixed)
        return s ? &out_of_memory : NULL;
    size_t bytes = strlen(s->message) + 1;
    char *message = mr_try_alloc(bytes);
    if (message)
        memcpy(message, s->message, bytes);
    mr_status *copy = make_status(s->file, s->line, s->code, message);
    if (!copy->fixed) {
        copy->derived = s->derived;
        copy->reason = s->reason;
    }
    return copy;
}

void mr_status_free(mr_status *s)
{
    if (!s || s->fixed)
        return;
    mr_free(s->message);
    mr_free(s);
}

/* Puts the text after (or before) the message; the message is unchanged if there is no memory. */
static void join_message(mr_status *s, const char *fmt, va_list ap, bool in_front)
{
    char *text = try_format(fmt, ap);
    if (!text)
        return;
    size_t text_n = strlen(text), old_n = strlen(s->message);
    char *joined = mr_try_alloc(text_n + old_n + 1);
    if (joined) {
        memcpy(joined + (in_front ? text_n : 0), s->message, old_n);
        memcpy(joined + (in_front ? 0 : old_n), text, text_n);
        joined[text_n + old_n] = '\0';
        mr_free(s->message);
        s->message = joined;
    }
    mr_free(text);
}

mr_status *mr_status_append(mr_status *s, const char *fmt, ...)
{
    if (!s || s->fixed)
        return s;
    va_list ap;
    va_start(ap, fmt);
    join_message(s, fmt, ap, false);
    va_end(ap);
    return s;
}

mr_status *mr_status_prepend(mr_status *s, const char *fmt, ...)
{
    if (!s || s->fixed)
        return s;
    va_list ap;
    va_start(ap, fmt);
    join_message(s, fmt, ap, true);
    va_end(ap);
    return s;
}

mr_status *mr_status_mark_derived(mr_status *s)
{
    if (s && !s->fixed)
        s->derived = true;
    return s;
}

bool mr_status_is_derived(const mr_status *s) { return s && s->derived; }

mr_status *mr_status_set_reason(mr_status *s, mr_reason reason)
{
    if (s && !s->fixed)
        s->reason = reason;
    return s;
}

mr_reason mr_status_reason(const mr_status *s) { return s ? s->reason : MR_REASON_NONE; }

void mr_status_update(mr_status **kept, mr_status *s)
{
    bool better = s && (!*kept || (mr_status_is_derived(*kept) && !mr_status_is_derived(s)));
    if (!better) {
        mr_status_free(s);
        return;
    }
    mr_status_free(*kept);
    *kept = s;
}

const char *mr_code_name(mr_code code)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    /* A peer may send any number as a code. */
    return (unsigned)code < (unsigned)MR_COUNT(names) ? names[code] : "UNKNOWN";
}

void mr_assert_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
