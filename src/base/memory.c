/* base/memory.c -- malloc with a rule for failure, and failures on order for tests. */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts down to the mr_try_* call that fails; 0: off. Thread-local, so that a test of one error
 * path does not disturb other threads. */
static _Thread_local int64_t fail_in __attribute__((tls_model("initial-exec")));

void mr_memory_fail_after(int64_t n) { fail_in = n; }

bool mr_memory_refuses(void) { return MR_UNLIKELY(fail_in > 0) && --fail_in == 0; }

/* The only place where the library may end the process: a small allocation of a fixed size failed,
 * so there is no memory left to report the error in another way. */
void mr_out_of_memory(size_t bytes)
{
    fprintf(stderr, "millrace: out of memory (%zu bytes)\n", bytes);
    abort();
}

static void *check_allocated(void *p, size_t bytes)
{
    if (MR_UNLIKELY(p == NULL))
        mr_out_of_memory(bytes);
    return p;
}

/* malloc(0) may return NULL; ours never returns NULL for 0 bytes. */
static size_t at_least_1(size_t bytes) { return bytes ? bytes : 1; }

void *mr_alloc(size_t bytes) { return check_allocated(malloc(at_least_1(bytes)), bytes); }

void *mr_calloc(size_t n, size_t bytes)
{
    void *p = calloc(at_least_1(n), at_least_1(bytes));
    size_t total = SIZE_MAX;
    (void)mr_size_mul(n, bytes, &total);
    return check_allocated(p, total);
}

void *mr_realloc(void *p, size_t bytes) { return check_allocated(realloc(p, at_least_1(bytes)), bytes); }

void mr_free(void *p) { free(p); }

char *mr_strdup(const char *s) { return mr_strndup(s, strlen(s)); }

char *mr_strndup(const char *s, size_t n)
{
    size_t bytes = SIZE_MAX; /* n + 1 overflows: the allocation will fail */
    (void)mr_size_add(n, 1, &bytes);
    char *copy = mr_alloc(bytes);
    if (n)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

void *mr_try_alloc(size_t bytes) { return mr_memory_refuses() ? NULL : malloc(at_least_1(bytes)); }

void *mr_try_calloc(size_t n, size_t bytes)
{
    return mr_memory_refuses() ? NULL : calloc(at_least_1(n), at_least_1(bytes));
}

void *mr_try_realloc(void *p, size_t bytes)
{
    return mr_memory_refuses() ? NULL : realloc(p, at_least_1(bytes));
}
