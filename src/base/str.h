/* base/str.h -- a string that grows, and a view of bytes owned elsewhere.
 *
 * mr_str is always NUL-terminated and may hold NULs inside.  Appending never fails (small use);
 * payloads sized by input use mr_str_try_append. */
#ifndef MR_BASE_STR_H
#define MR_BASE_STR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

typedef struct mr_sv {
    const char *p; /* not NUL-terminated */
    size_t n;
} mr_sv;

#define MR_SV(literal) ((mr_sv){literal, sizeof(literal) - 1})
#define MR_SV_ARG(v) (int)(v).n, (v).p /* for "%.*s" */
static inline mr_sv mr_sv_of(const char *s) { return (mr_sv){s, s ? strlen(s) : 0}; }
static inline bool mr_sv_eq(mr_sv a, mr_sv b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static inline bool mr_sv_is(mr_sv a, const char *s) { return mr_sv_eq(a, mr_sv_of(s)); }
bool mr_sv_starts(mr_sv a, const char *prefix);
bool mr_sv_to_i64(mr_sv a, int64_t *out); /* whole view is a decimal number, optional sign */
mr_sv mr_sv_trim(mr_sv a);
/* Cuts the part before the first `sep` off *rest; false when *rest is used up (p == NULL). */
bool mr_sv_cut(mr_sv *rest, char sep, mr_sv *part);

typedef struct mr_str {
    char *p; /* NULL while empty */
    size_t n, cap;
} mr_str;

void mr_str_deinit(mr_str *s);
void mr_str_clear(mr_str *s);
void mr_str_append(mr_str *s, const void *p, size_t n);
void mr_str_appendz(mr_str *s, const char *z);
void mr_str_appendc(mr_str *s, char c);
void mr_str_printf(mr_str *s, const char *fmt, ...) MR_PRINTF(2, 3);
void mr_str_vprintf(mr_str *s, const char *fmt, va_list ap);
bool mr_str_try_append(mr_str *s, const void *p, size_t n); /* false: out of memory, s unchanged */
/* Makes room for n more bytes (and the NUL) to be written at s->p + s->n; false: out of memory. */
bool mr_str_try_reserve(mr_str *s, size_t n);
const char *mr_str_z(const mr_str *s);                      /* "" while empty */
static inline mr_sv mr_str_view(const mr_str *s) { return (mr_sv){s->p ? s->p : "", s->n}; }
/* Hands the buffer (free with mr_free) to the caller and empties s. */
char *mr_str_take(mr_str *s);

char *mr_printf(const char *fmt, ...) MR_PRINTF(1, 2); /* free with mr_free */

/* MurmurHash64A, the Hash64 of TensorFlow's names and frame ids (seed 0xDECAFCAFFE). */
uint64_t mr_hash64(const void *p, size_t n);

#endif
