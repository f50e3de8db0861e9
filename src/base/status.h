/* base/status.h -- how a function reports an error.
 *
 * A function that can fail returns mr_status *: NULL is success, anything else is one error that the
 * caller now owns: a gRPC code, a message for people, and the source line it was made at.  Errors are
 * objects, not codes with a thread-local text, because they cross threads and machines. */
#ifndef MR_BASE_STATUS_H
#define MR_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* The codes of gRPC, which are those of TF_Code and of tensorflow.error.Code. */
typedef enum mr_code {
    MR_OK = 0,
    MR_CANCELLED = 1,
    MR_UNKNOWN = 2,
    MR_INVALID_ARGUMENT = 3,
    MR_DEADLINE_EXCEEDED = 4,
    MR_NOT_FOUND = 5,
    MR_ALREADY_EXISTS = 6,
    MR_PERMISSION_DENIED = 7,
    MR_RESOURCE_EXHAUSTED = 8,
    MR_FAILED_PRECONDITION = 9,
    MR_ABORTED = 10,
    MR_OUT_OF_RANGE = 11,
    MR_UNIMPLEMENTED = 12,
    MR_INTERNAL = 13,
    MR_UNAVAILABLE = 14,
    MR_DATA_LOSS = 15,
    MR_UNAUTHENTICATED = 16,
} mr_code;

typedef struct mr_status mr_status;

#define MR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* Makes an error; code MR_OK is a mistake and becomes MR_INTERNAL. */
mr_status *mr_error_at(const char *file, int line, mr_code code, const char *fmt, ...) MR_PRINTF(4, 5);
mr_status *mr_errorv_at(const char *file, int line, mr_code code, const char *fmt, va_list ap);
#define mr_error(code, ...) mr_error_at(__FILE__, __LINE__, code, __VA_ARGS__)

/* For the most frequent code. */
#define mr_invalid(...) mr_error(MR_INVALID_ARGUMENT, __VA_ARGS__)

mr_code mr_status_code(const mr_status *s);        /* MR_OK for NULL */
const char *mr_status_message(const mr_status *s); /* "" for NULL; valid as long as s */
mr_status *mr_status_copy(const mr_status *s);     /* NULL for NULL */
void mr_status_free(mr_status *s);                 /* NULL is fine */

/* Appends to the message of s (which may be NULL: then nothing happens) and returns s. */
mr_status *mr_status_append(mr_status *s, const char *fmt, ...) MR_PRINTF(2, 3);
/* The same in front of the message. */
mr_status *mr_status_prepend(mr_status *s, const char *fmt, ...) MR_PRINTF(2, 3);

/* A derived error is the consequence of another one (a wait that was cancelled because the step
 * failed elsewhere) and never replaces a root error. */
mr_status *mr_status_mark_derived(mr_status *s); /* returns s */
bool mr_status_is_derived(const mr_status *s);

/* For callers that must tell two errors of one code apart: they never look at the text. A copy has the reason too. */
typedef enum mr_reason {
    MR_REASON_NONE,
    MR_REASON_NODE_NAMED, /* the message ends with the node that failed, which is not the one that ran */
    MR_REASON_HUNG_UP, /* a peer closed the connection during its set-up: it may require keys, or other keys */
} mr_reason;
mr_status *mr_status_set_reason(mr_status *s, mr_reason reason); /* returns s */
mr_reason mr_status_reason(const mr_status *s);                  /* MR_REASON_NONE for NULL */

/* Keeps the more informative of two errors in *kept and frees the other; either may be NULL. The first root error wins,
 * a root error replaces a derived one. */
void mr_status_update(mr_status **kept, mr_status *s);

const char *mr_code_name(mr_code code); /* "INVALID_ARGUMENT" */

#define MR_TRY(call)                          \
    do {                                      \
        mr_status *st_ = (call);              \
        if (__builtin_expect(st_ != NULL, 0)) \
            return st_;                       \
    } while (0)

/* For functions with a local `mr_status *st` and one label `out` that releases everything. */
#define MR_GO(call)                                  \
    do {                                             \
        if (__builtin_expect((st = (call)) != NULL, 0)) \
            goto out;                                \
    } while (0)

/* For bugs of ours. MR_ASSERT ends the process in debug and sanitizer builds and costs nothing
 * otherwise; use MR_ENSURE where outside input might reach an invalid state. */
void mr_assert_failed(const char *file, int line, const char *what) __attribute__((noreturn, cold));
#ifdef MR_DEBUG
#define MR_ASSERT(cond) ((cond) ? (void)0 : mr_assert_failed(__FILE__, __LINE__, #cond))
#else
#define MR_ASSERT(cond) ((void)sizeof((cond) ? 1 : 0))
#endif
#define MR_ENSURE(cond)                                                               \
    do {                                                                              \
        if (__builtin_expect(!(cond), 0))                                             \
            return mr_error(MR_INTERNAL, "%s:%d: expected %s", __FILE__, __LINE__, #cond); \
    } while (0)

#endif
