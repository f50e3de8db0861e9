/* base/str.c -- growing strings, views, and the hash of TensorFlow's names. */
#include "base/str.h"

#include "base/hash.h"

#include <endian.h>
#include <stdio.h>

#include "base/memory.h"

/* ---- views ---- */

bool mr_sv_starts(mr_sv a, const char *prefix)
{
    size_t n = strlen(prefix);
    return a.n >= n && (n == 0 || memcmp(a.p, prefix, n) == 0);
}

bool mr_sv_to_i64(mr_sv a, int64_t *out)
{
    size_t i = a.n > 0 && (a.p[0] == '-' || a.p[0] == '+');
    bool negative = i == 1 && a.p[0] == '-';
    if (i == a.n)
        return false;
    int64_t value = 0; /* built towards its sign: INT64_MIN has no positive twin */
    for (; i < a.n; i++) {
        int digit = a.p[i] - '0';
        if (digit < 0 || digit > 9 || !mr_i64_mul(value, 10, &value) ||
            !mr_i64_add(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

/* White space must not depend on the locale. */
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

mr_sv mr_sv_trim(mr_sv a)
{
    while (a.n && is_space(a.p[0]))
        a.p++, a.n--;
    while (a.n && is_space(a.p[a.n - 1]))
        a.n--;
    return a;
}

bool mr_sv_cut(mr_sv *rest, char sep, mr_sv *part)
{
    if (!rest->p)
        return false;
    const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
    if (!at) {
        *part = *rest;
        *rest = (mr_sv){NULL, 0};
        return true;
    }
    *part = (mr_sv){rest->p, (size_t)(at - rest->p)};
    *rest = (mr_sv){at + 1, rest->n - part->n - 1};
    return true;
}

/* ---- strings ---- */

void mr_str_deinit(mr_str *s)
{
    mr_free(s->p);
    *s = (mr_str){0};
}

void mr_str_clear(mr_str *s)
{
    s->n = 0;
    if (s->p)
        s->p[0] = '\0';
}

/* Makes room for n more bytes and a NUL; false when memory is out. */
bool mr_str_try_reserve(mr_str *s, size_t n)
{
    size_t want;
    if (!mr_size_add(s->n, n, &want) || !mr_size_add(want, 1, &want))
        return false;
    if (want <= s->cap)
        return true;
    size_t cap = MR_MAX(want, MR_MAX(s->cap > SIZE_MAX / 2 ? want : s->cap * 2, (size_t)32));
    char *p = mr_try_realloc(s->p, cap);
    if (!p && cap > want) /* doubling a large string may fail where a tight fit does not */
        p = mr_try_realloc(s->p, cap = want);
    if (!p)
        return false;
    s->p = p;
    s->cap = cap;
    return true;
}

static void reserve_room(mr_str *s, size_t n)
{
    if (MR_LIKELY(mr_str_try_reserve(s, n)))
        return;
    size_t want = SIZE_MAX;
    if (mr_size_add(s->n, n, &want))
        (void)mr_size_add(want, 1, &want);
    s->p = mr_realloc(s->p, want); /* ends the process, unless the failure was a test's */
    s->cap = want;
}

/* p may point into s itself, whose buffer then moves before it is read. */
static bool append_bytes(mr_str *s, const void *p, size_t n, bool must)
{
    uintptr_t at = (uintptr_t)p - (uintptr_t)s->p;
    bool own = s->p && at <= s->n;
    if (must)
        reserve_room(s, n);
    else if (!mr_str_try_reserve(s, n))
        return false;
    if (n)
        memmove(s->p + s->n, own ? s->p + at : p, n);
    s->n += n;
    MR_ASSERT(s->n < s->cap);
    s->p[s->n] = '\0';
    return true;
}

void mr_str_append(mr_str *s, const void *p, size_t n) { (void)append_bytes(s, p, n, true); }

bool mr_str_try_append(mr_str *s, const void *p, size_t n) { return append_bytes(s, p, n, false); }

void mr_str_appendz(mr_str *s, const char *z) { mr_str_append(s, z, strlen(z)); }

void mr_str_appendc(mr_str *s, char c) { mr_str_append(s, &c, 1); }

void mr_str_vprintf(mr_str *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) /* a wide character the locale refuses: nothing to append */
        return;
    reserve_room(s, (size_t)n);
    vsnprintf(s->p + s->n, (size_t)n + 1, fmt, ap);
    s->n += (size_t)n;
}

void mr_str_printf(mr_str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    mr_str_vprintf(s, fmt, ap);
    va_end(ap);
}

const char *mr_str_z(const mr_str *s) { return s->p ? s->p : ""; }

char *mr_str_take(mr_str *s)
{
    char *p = s->p ? s->p : mr_strdup("");
    *s = (mr_str){0};
    return p;
}

char *mr_printf(const char *fmt, ...)
{
    mr_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    mr_str_vprintf(&s, fmt, ap);
    va_end(ap);
    return mr_str_take(&s);
}

/* ---- hash ---- */

static uint64_t load_le64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return le64toh(v);
}

/* MurmurHash64A by Austin Appleby (public domain algorithm). */
uint64_t mr_hash64_from(const void *data, size_t n, uint64_t seed)
{
    const uint64_t m = 0xc6a4a7935bd1e995u;
    const unsigned char *p = data;
    uint64_t h = seed ^ (n * m);
    size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++, p += 8) {
        uint64_t k = load_le64(p) * m;
        k ^= k >> 47;
        h = (h ^ (k * m)) * m;
    }
    if (n & 7) {
        uint64_t tail = 0;
        for (size_t i = 0; i < (n & 7); i++)
            tail |= (uint64_t)p[i] << (8 * i);
        h = (h ^ tail) * m;
    }
    h = (h ^ (h >> 47)) * m;
    return h ^ (h >> 47);
}

uint64_t mr_hash64(const void *data, size_t n) { return mr_hash64_from(data, n, MR_HASH64_SEED); }
