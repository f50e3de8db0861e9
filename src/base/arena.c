/* base/arena.c -- a list of blocks, and a pointer that moves through the first.
 *
 * Blocks grow by doubling up to MAX_BLOCK.  A request that does not fit takes the smallest spare
 * block that holds it, or a new one; whichever of the new and the current block then has more room
 * left becomes the current one, so one large request does not waste the rest of a small block.
 * Smallest-fit also means that a step which asks for the same sizes as the last one gets the same
 * blocks again, and a warm arena never allocates. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifdef ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#define GAP 16 /* poisoned bytes after every allocation */
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define GAP 0
#endif

#define ALIGN ((size_t)16)
#define MIN_BLOCK ((size_t)256)
#define DEFAULT_BLOCK ((size_t)4096)
#define MAX_BLOCK ((size_t)1 << 20)

typedef struct mr_arena_block {
    struct mr_arena_block *next;
    size_t bytes; /* of data */
    _Alignas(16) char data[];
} block;

void mr_arena_init(mr_arena *a, size_t block_bytes)
{
    *a = (mr_arena){.block_bytes = block_bytes ? MR_MAX(block_bytes, MIN_BLOCK) : DEFAULT_BLOCK};
}

static void free_blocks(block *b)
{
    while (b) {
        block *next = b->next;
        UNPOISON(b->data, b->bytes);
        mr_free(b);
        b = next;
    }
}

void mr_arena_deinit(mr_arena *a)
{
    free_blocks(a->head);
    free_blocks(a->spare);
    mr_arena_init(a, a->block_bytes);
}

void mr_arena_reset(mr_arena *a)
{
    while (a->head) {
        block *b = a->head;
        a->head = b->next;
        POISON(b->data, b->bytes);
        b->next = a->spare;
        a->spare = b;
    }
    a->at = a->end = NULL;
}

/* Unlinks the smallest spare block of at least this size; NULL if there is none. */
static block *take_spare(mr_arena *a, size_t bytes)
{
    block **best = NULL;
    for (block **b = &a->spare; *b; b = &(*b)->next)
        if ((*b)->bytes >= bytes && (!best || (*b)->bytes < (*best)->bytes))
            best = b;
    if (!best)
        return NULL;
    block *taken = *best;
    *best = taken->next;
    return taken;
}

/* Blocks double in size up to MAX_BLOCK, so that a large arena has few of them. */
static block *new_block(mr_arena *a, size_t bytes)
{
    if (a->block_bytes == 0) /* a zeroed arena */
        a->block_bytes = DEFAULT_BLOCK;
    size_t want = MR_MAX(bytes, a->block_bytes), total;
    if (!mr_size_add(want, sizeof(block), &total))
        return NULL;
    block *b = mr_try_alloc(total);
    if (!b)
        return NULL;
    b->bytes = want;
    POISON(b->data, b->bytes);
    if (a->block_bytes < MAX_BLOCK)
        a->block_bytes *= 2;
    return b;
}

/* The current block is full: serves `bytes` from another one. */
static char *alloc_slow(mr_arena *a, size_t bytes)
{
    block *b = take_spare(a, bytes);
    if (!b)
        b = new_block(a, bytes);
    if (!b)
        return NULL;
    MR_ASSERT(b->bytes >= bytes && (uintptr_t)b->data % ALIGN == 0);
    if (!a->head || b->bytes - bytes >= (size_t)(a->end - a->at)) {
        b->next = a->head;
        a->head = b;
        a->at = b->data + bytes;
        a->end = b->data + b->bytes;
    } else { /* full with this one request: the current block stays in front */
        b->next = a->head->next;
        a->head->next = b;
    }
    return b->data;
}

/* The fast path: moves a pointer. Sizes are rounded up to ALIGN, and at least one unit is taken, so that pointers
 * differ. */
void *mr_arena_try_alloc(mr_arena *a, size_t bytes)
{
    size_t padded;
    if (!mr_size_add(bytes, ALIGN - 1 + GAP, &padded))
        return NULL;
    padded = MR_MAX(padded & ~(ALIGN - 1), ALIGN);
    MR_ASSERT(a->at <= a->end);
    char *p = a->at;
    if (MR_LIKELY(padded <= (size_t)(a->end - a->at)))
        a->at += padded;
    else if (!(p = alloc_slow(a, padded)))
        return NULL;
    UNPOISON(p, bytes);
    return p;
}

void *mr_arena_try_calloc(mr_arena *a, size_t n, size_t bytes)
{
    size_t total;
    void *p = mr_size_mul(n, bytes, &total) ? mr_arena_try_alloc(a, total) : NULL;
    return p ? memset(p, 0, total) : NULL;
}

void *mr_arena_alloc(mr_arena *a, size_t bytes)
{
    void *p = mr_arena_try_alloc(a, bytes);
    if (MR_LIKELY(p != NULL))
        return p;
    /* Tries again with mr_alloc, which ends the process if there is no memory. The second try
     * succeeds if memory was freed in between, or if the first failure was injected by a test. */
    mr_free(mr_alloc(bytes));
    return mr_arena_alloc(a, bytes);
}

void *mr_arena_calloc(mr_arena *a, size_t n, size_t bytes)
{
    size_t total = SIZE_MAX; /* too large to count: cannot succeed either */
    (void)mr_size_mul(n, bytes, &total);
    return memset(mr_arena_alloc(a, total), 0, total);
}

char *mr_arena_strdup(mr_arena *a, const char *s) { return mr_arena_strndup(a, s, strlen(s)); }

char *mr_arena_strndup(mr_arena *a, const char *s, size_t n)
{
    size_t bytes = SIZE_MAX;
    (void)mr_size_add(n, 1, &bytes);
    char *copy = mr_arena_alloc(a, bytes);
    if (n)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *mr_arena_printf(mr_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    size_t bytes = n < 0 ? 1 : (size_t)n + 1; /* a format that the locale rejects gives "" */
    char *text = mr_arena_alloc(a, bytes);
    text[0] = '\0';
    if (n >= 0)
        vsnprintf(text, bytes, fmt, ap);
    va_end(ap);
    return text;
}

void *mr_arena_memdup(mr_arena *a, const void *p, size_t bytes)
{
    void *copy = mr_arena_alloc(a, bytes);
    return bytes ? memcpy(copy, p, bytes) : copy;
}
