/* tensor/central.c -- the free blocks of each size class that no thread holds.
 *
 * Blocks up to 32 KiB are cut out of spans of pages.  A class keeps whole batches, found by their
 * first block, so that a batch changes hands in a few instructions under the lock; loose blocks,
 * left by threads that ended; and the part of its newest span that was not cut yet.  Blocks above
 * 32 KiB are single runs of pages: they go straight through, and the pages join them with their
 * neighbours.
 *
 * Which span a block belongs to is only asked when trimming, so nothing is kept for it but the list
 * of spans.  Locks: one a class; that of the pages comes after. */
#include "tensor/central.h"

#include <stdlib.h>

#include "base/status.h"
#include "base/thread.h"
#include "base/vec.h"
#include "tensor/pages.h"

enum {
    MAX_CARVED = 32 << 10, /* the largest class whose blocks are cut out of spans */
    SPAN_BYTES = 64 << 10, /* at least; and at least eight blocks */
};

/* Long enough that the lock of the pages is rarely taken, short enough that a class that is rarely
 * used holds little memory. */
static size_t span_bytes(int c)
{
    size_t bytes = MR_MAX(8 * mr_class_bytes(c), (size_t)SPAN_BYTES);
    return (bytes + MR_PAGE_BYTES - 1) & ~(MR_PAGE_BYTES - 1);
}

/* On separate cache lines, so that threads that use different classes do not contend. */
typedef struct central {
    mr_mutex mu;
    mr_block *batches MR_GUARDED_BY(mu); /* whole ones */
    mr_block *loose MR_GUARDED_BY(mu);   /* a chain of any length */
    char *fresh, *fresh_end MR_GUARDED_BY(mu); /* the rest of the newest span */
    MR_VEC(char *) spans MR_GUARDED_BY(mu);    /* all of them, for trimming */
} __attribute__((aligned(MR_CACHE_LINE))) central;

static central centrals[MR_N_CLASSES] = {
    [0 ... MR_N_CLASSES - 1] = {.mu = {PTHREAD_MUTEX_INITIALIZER}}};

/* One block from the loose ones, from a broken batch or fresh; NULL: no memory. */
static mr_block *take_one_locked(central *c, int class) MR_REQUIRES(c->mu)
{
    size_t bytes = mr_class_bytes(class);
    MR_ASSERT(bytes <= MAX_CARVED);
    if (!c->loose && c->batches) {
        c->loose = c->batches;
        c->batches = c->batches->next_batch;
    }
    if (c->loose) {
        mr_block *b = c->loose;
        c->loose = b->next;
        return b;
    }
    if ((size_t)(c->fresh_end - c->fresh) < bytes) {
        char *span = mr_pages_alloc(span_bytes(class) / MR_PAGE_BYTES);
        if (!span)
            return NULL;
        mr_vec_push(&c->spans, span);
        c->fresh = span;
        c->fresh_end = span + span_bytes(class);
    }
    mr_block *b = (mr_block *)c->fresh;
    c->fresh += bytes;
    return b;
}

/* Takes a whole batch if there is one and a batch is wanted; otherwise single blocks, cutting a new span if needed. May
 * return fewer than `want` if memory runs out. */
mr_block *mr_central_take(int class, uint32_t want, uint32_t *got)
{
    *got = 0;
    MR_ASSERT(want > 0 && want <= mr_batch_of(class));
    if (mr_class_bytes(class) > MAX_CARVED) { /* a run of pages; a batch of these is one */
        mr_block *b = mr_pages_alloc(mr_class_bytes(class) / MR_PAGE_BYTES);
        if (b)
            b->next = NULL, *got = 1;
        return b;
    }
    central *c = &centrals[class];
    mr_block *chain = NULL, *b;
    mr_lock(&c->mu);
    if (c->batches && want == mr_batch_of(class)) {
        chain = c->batches;
        c->batches = chain->next_batch;
        *got = want;
    } else {
        while (*got < want && (b = take_one_locked(c, class))) {
            b->next = chain;
            chain = b;
            ++*got;
        }
    }
    mr_unlock(&c->mu);
    return chain;
}

/* Takes back a chain of blocks. whole: the chain is exactly one batch and can be given out again as such. */
void mr_central_give(int class, mr_block *chain, bool whole)
{
    central *c = &centrals[class];
    MR_ASSERT(chain != NULL);
    if (mr_class_bytes(class) > MAX_CARVED) {
        for (mr_block *next; chain; chain = next) {
            next = chain->next;
            mr_pages_free(chain, mr_class_bytes(class) / MR_PAGE_BYTES);
        }
        return;
    }
    mr_lock(&c->mu);
    if (whole) {
        chain->next_batch = c->batches;
        c->batches = chain;
    } else {
        for (mr_block *next; chain; chain = next) {
            next = chain->next;
            chain->next = c->loose;
            c->loose = chain;
        }
    }
    mr_unlock(&c->mu);
}

/* ---- trimming -------------------------------------------------------------------------------- */

static int compare_spans(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return (x > y) - (x < y);
}

/* The span that holds p; spans are sorted. */
static int span_of_locked(const central *c, int class, const char *p) MR_REQUIRES(c->mu)
{
    int lo = 0, hi = c->spans.n - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (c->spans.p[mid] <= p)
            lo = mid;
        else
            hi = mid - 1;
    }
    MR_ASSERT(p >= c->spans.p[lo] && p < c->spans.p[lo] + span_bytes(class));
    (void)class;
    return lo;
}

/* Puts all free blocks into the one loose chain. */
static void break_batches_locked(central *c) MR_REQUIRES(c->mu)
{
    while (c->batches) {
        mr_block *batch = c->batches, *last = batch;
        c->batches = batch->next_batch;
        while (last->next)
            last = last->next;
        last->next = c->loose;
        c->loose = batch;
    }
}

/* Takes the blocks of spans marked free out of the loose chain. */
static void drop_blocks_locked(central *c, int class, const uint32_t *n_free, uint32_t whole)
    MR_REQUIRES(c->mu)
{
    mr_block **link = &c->loose;
    while (*link) {
        if (n_free[span_of_locked(c, class, (char *)*link)] == whole)
            *link = (*link)->next;
        else
            link = &(*link)->next;
    }
}

/* Spans all of whose blocks are here go back to the pages.  The part of the newest span that was
 * not carved yet counts as free. */
static void trim_class_locked(central *c, int class) MR_REQUIRES(c->mu)
{
    uint32_t whole = (uint32_t)(span_bytes(class) / mr_class_bytes(class));
    uint32_t *n_free = mr_try_calloc((size_t)c->spans.n, sizeof(*n_free)); /* blocks here a span */
    if (!n_free || c->spans.n == 0) { /* trimming is a courtesy, it may be left undone */
        mr_free(n_free);
        return;
    }
    qsort(c->spans.p, (size_t)c->spans.n, sizeof(char *), compare_spans);
    break_batches_locked(c);
    for (mr_block *b = c->loose; b; b = b->next)
        n_free[span_of_locked(c, class, (char *)b)]++;
    int newest = c->fresh < c->fresh_end ? span_of_locked(c, class, c->fresh) : -1;
    if (newest >= 0)
        n_free[newest] += (uint32_t)((size_t)(c->fresh_end - c->fresh) / mr_class_bytes(class));
    drop_blocks_locked(c, class, n_free, whole);
    int kept = 0;
    for (int i = 0; i < c->spans.n; i++) {
        MR_ASSERT(n_free[i] <= whole);
        if (n_free[i] < whole) {
            c->spans.p[kept++] = c->spans.p[i];
            continue;
        }
        if (i == newest)
            c->fresh = c->fresh_end = NULL;
        mr_pages_free(c->spans.p[i], span_bytes(class) / MR_PAGE_BYTES);
    }
    c->spans.n = kept;
    mr_free(n_free);
}

void mr_central_trim(void)
{
    for (int i = 0; i < MR_N_CLASSES; i++) {
        mr_lock(&centrals[i].mu);
        trim_class_locked(&centrals[i], i);
        mr_unlock(&centrals[i].mu);
    }
}
