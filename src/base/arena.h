/* base/arena.h -- memory for objects that are freed together.
 *
 * Allocation moves a pointer; mr_arena_reset forgets everything at once and keeps the blocks for the
 * next use, so a warm step allocates nothing.  Under AddressSanitizer the gaps and the reset blocks
 * are poisoned.  An arena belongs to one thread at a time. */
#ifndef MR_BASE_ARENA_H
#define MR_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/status.h"

typedef struct mr_arena {
    struct mr_arena_block *head;  /* all blocks, the one in use first */
    struct mr_arena_block *spare; /* kept by reset */
    char *at, *end;
    size_t block_bytes; /* size of the next block */
} mr_arena;

void mr_arena_init(mr_arena *a, size_t block_bytes); /* 0: 4096; nothing is allocated yet */
void mr_arena_deinit(mr_arena *a);
void mr_arena_reset(mr_arena *a);

/* 16-byte aligned, not zeroed; small fixed-size use: ends the process when memory is out. */
void *mr_arena_alloc(mr_arena *a, size_t bytes);
void *mr_arena_calloc(mr_arena *a, size_t n, size_t bytes);
/* For sizes that come from input: NULL if there is no memory. */
void *mr_arena_try_alloc(mr_arena *a, size_t bytes);
void *mr_arena_try_calloc(mr_arena *a, size_t n, size_t bytes);
char *mr_arena_strdup(mr_arena *a, const char *s);
char *mr_arena_strndup(mr_arena *a, const char *s, size_t n); /* exactly n bytes, and a NUL */
char *mr_arena_printf(mr_arena *a, const char *fmt, ...) MR_PRINTF(2, 3);
void *mr_arena_memdup(mr_arena *a, const void *p, size_t bytes);

#define mr_arena_new(a, T) ((T *)mr_arena_calloc(a, 1, sizeof(T)))
#define mr_arena_array(a, T, n) ((T *)mr_arena_calloc(a, (size_t)(n), sizeof(T)))
#define mr_arena_try_array(a, T, n) ((T *)mr_arena_try_calloc(a, (size_t)(n), sizeof(T)))

#endif
