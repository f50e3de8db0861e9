/* base/memory.h -- allocation, and arithmetic on sizes that cannot overflow unseen.
 *
 * Two families. mr_alloc and similar functions are for small objects of a fixed size: if they fail,
 * the process ends, as documented. mr_try_alloc is for sizes that depend on input: it may return
 * NULL, and the caller returns MR_RESOURCE_EXHAUSTED. Tensor data does not come from here but from
 * tensor/allocator.h. */
#ifndef MR_BASE_MEMORY_H
#define MR_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mr_alloc(size_t bytes) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *mr_calloc(size_t n, size_t bytes) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
void *mr_realloc(void *p, size_t bytes) __attribute__((alloc_size(2), returns_nonnull));
void mr_free(void *p);
char *mr_strdup(const char *s);
char *mr_strndup(const char *s, size_t n); /* exactly n bytes, NULs inside too, and a NUL added */

/* May return NULL.  Zero bytes give a valid pointer. */
void *mr_try_alloc(size_t bytes) __attribute__((malloc, alloc_size(1)));
void *mr_try_calloc(size_t n, size_t bytes) __attribute__((malloc, alloc_size(1, 2)));
void *mr_try_realloc(void *p, size_t bytes) __attribute__((alloc_size(2)));

/* Zeroed object of a type. */
#define mr_new(T) ((T *)mr_calloc(1, sizeof(T)))
#define mr_new_array(T, n) ((T *)mr_calloc((size_t)(n), sizeof(T)))

/* Tests make the n-th mr_try_* from now fail (0: off); only in this thread. */
void mr_memory_fail_after(int64_t n);
/* For allocators of other layers: true if the current call is the one that must fail. */
bool mr_memory_refuses(void);
/* The end of the process, as when mr_alloc fails. */
void mr_out_of_memory(size_t bytes) __attribute__((noreturn, cold));

/* true when the sum or product fits; *out is set only then (the builtins always write). */
static inline bool mr_size_add(size_t a, size_t b, size_t *out)
{
    size_t r;
    return !__builtin_add_overflow(a, b, &r) && (*out = r, true);
}
static inline bool mr_size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    return !__builtin_mul_overflow(a, b, &r) && (*out = r, true);
}
static inline bool mr_i64_add(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    return !__builtin_add_overflow(a, b, &r) && (*out = r, true);
}
static inline bool mr_i64_mul(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    return !__builtin_mul_overflow(a, b, &r) && (*out = r, true);
}

#define MR_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define MR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MR_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MR_UNUSED __attribute__((unused))
#define MR_LIKELY(x) __builtin_expect(!!(x), 1)
#define MR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MR_CACHE_LINE 64

#endif
