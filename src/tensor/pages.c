/* tensor/pages.c -- regions from mmap, cut into runs of pages.
 *
 * A region is an array of pages with one record a page beside it.  A run, free or used, is
 * described by the records of its first and its last page, so the neighbours of a run that is being
 * freed are found by looking one record to either side; records in between are stale.  A used
 * record stands before and after the array, which saves the tests for its ends.
 *
 * Free runs hang in bins by size, eight bins a doubling.  A run is taken from its own bin when one
 * is long enough, else from the next bin that has any: there, all are.  The rest of the run goes
 * back.  Two free runs never touch: freeing joins them.
 *
 * Why mmap and not malloc: a page fault costs about two microseconds for 4 KiB, more than the work
 * on them; huge pages make it four times cheaper a byte, and retaining makes it once.
 *
 * One mutex guards all; the thread caches above keep it off the fast path. */
#include "tensor/pages.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/vec.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define REGION_MIN ((size_t)64 << 20)
#define REGION_MAX ((size_t)1 << 30) /* of what is mapped in advance; a single run may need more */

typedef struct region region;

typedef struct page { /* valid at the first and the last page of a run */
    struct page *next, *prev; /* in its bin; first page of a free run only */
    region *region;           /* first page of a free run only */
    uint32_t n;               /* pages of the run */
    bool free;
} page;

struct region {
    char *base;
    size_t n_pages;
    size_t meta_bytes; /* of the mapping that holds this struct and the records */
    page pages[];      /* n_pages + 2: pages[i + 1] is page i */
};

enum { SUB_BINS = 8, N_BINS = 8 + (32 - 3) * SUB_BINS };

/* Last in the lock order but for the log's: held for the allocator's own work only. */
static struct {
    mr_mutex mu;
    page *bins[N_BINS] MR_GUARDED_BY(mu);
    uint64_t bin_bits[(N_BINS + 63) / 64] MR_GUARDED_BY(mu); /* which bins are not empty */
    MR_VEC(region *) regions MR_GUARDED_BY(mu);              /* by address */
    size_t mapped MR_GUARDED_BY(mu);
} heap = {.mu = {PTHREAD_MUTEX_INITIALIZER}};

/* ---- bins ------------------------------------------------------------------------------------ */

/* Runs in a bin differ by at most an eighth; up to 15 pages every size has its own. */
static int bin_of(size_t n)
{
    if (n < 8)
        return (int)n;
    int log = 63 - __builtin_clzll(n);
    return 8 + (log - 3) * SUB_BINS + (int)(n >> (log - 3) & 7);
}

/* Makes a free run of it: last in, first out, as its pages are likely still in some cache. */
static void push_run_locked(region *r, page *first, size_t n) MR_REQUIRES(heap.mu)
{
    int b = bin_of(n);
    MR_ASSERT(n > 0 && n <= r->n_pages && b < N_BINS);
    page *head = heap.bins[b];
    *first = (page){.next = head, .region = r, .n = (uint32_t)n, .free = true};
    first[n - 1].n = (uint32_t)n; /* n == 1: the same record, so only these two are written */
    first[n - 1].free = true;
    if (head)
        head->prev = first;
    heap.bins[b] = first;
    heap.bin_bits[b / 64] |= (uint64_t)1 << (b % 64);
}

/* Takes a free run out of its bin. Its records still say free; the caller overwrites them. */
static void pull_run_locked(page *first) MR_REQUIRES(heap.mu)
{
    int b = bin_of(first->n);
    MR_ASSERT(first->free && first[first->n - 1].n == first->n);
    if (first->next)
        first->next->prev = first->prev;
    if (first->prev)
        first->prev->next = first->next;
    else if (!(heap.bins[b] = first->next))
        heap.bin_bits[b / 64] &= ~((uint64_t)1 << (b % 64));
}

static void mark_used_locked(page *first, size_t n) MR_REQUIRES(heap.mu)
{
    first->n = first[n - 1].n = (uint32_t)n;
    first->free = first[n - 1].free = false;
}

/* The first bin at or above b that has a run; -1: none. */
static int next_bin_locked(int b) MR_REQUIRES(heap.mu)
{
    for (int w = b / 64; w < MR_COUNT(heap.bin_bits); w++) {
        uint64_t bits = heap.bin_bits[w];
        if (w == b / 64)
            bits &= ~(uint64_t)0 << (b % 64);
        if (bits)
            return w * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

/* The shortest of the first few runs in the bin that are long enough. */
static page *best_in_bin_locked(int b, size_t n) MR_REQUIRES(heap.mu)
{
    page *best = NULL;
    int left = 16;
    for (page *p = heap.bins[b]; p && left-- > 0; p = p->next) {
        if (p->n >= n && (!best || p->n < best->n))
            best = p;
        if (best && best->n == n)
            break;
    }
    return best;
}

/* In the own bin some runs may be too short, and only a few are looked at: a longer one from the
 * next bin costs less than a long search. */
static page *find_run_locked(size_t n) MR_REQUIRES(heap.mu)
{
    int b = bin_of(n);
    if (b >= N_BINS)
        return NULL;
    page *p = best_in_bin_locked(b, n);
    if (!p && (b = next_bin_locked(b + 1)) >= 0)
        p = best_in_bin_locked(b, n);
    return p;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* The first number of a file, or SIZE_MAX when there is none ("max", no such file). */
static size_t number_in(const char *path)
{
    char text[32] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0 || text[0] < '0' || text[0] > '9')
        return SIZE_MAX;
    return (size_t)strtoull(text, NULL, 10);
}

/* Beyond this the system would not refuse but kill: it overcommits, or a container has a limit. */
static size_t find_limit(void)
{
    struct sysinfo info;
    size_t limit = SIZE_MAX / 2;
    size_t v2 = number_in("/sys/fs/cgroup/memory.max");
    size_t v1 = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    if (sysinfo(&info) == 0)
        limit = ((size_t)info.totalram + info.totalswap) * info.mem_unit;
    return MR_MIN(limit, MR_MIN(v1, v2));
}

size_t mr_pages_limit(void)
{
    static _Atomic size_t known;
    size_t limit = atomic_load_explicit(&known, memory_order_relaxed);
    if (!limit)
        atomic_store_explicit(&known, limit = find_limit(), memory_order_relaxed);
    return limit;
}

static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A mapping that starts at a huge page: a longer one is mapped, and its ends are unmapped. */
static char *map_huge(size_t bytes)
{
    char *p = map_pages(bytes + HUGE_BYTES);
    if (!p)
        return NULL;
    size_t before = -(uintptr_t)p & (HUGE_BYTES - 1), after = HUGE_BYTES - before;
    if (before)
        munmap(p, before);
    if (after)
        munmap(p + before + bytes, after);
    madvise(p + before, bytes, MADV_HUGEPAGE); /* a wish: a kernel without them serves small ones */
    return p + before;
}

/* The place of a region that starts at base in the sorted list, or where it would be inserted. */
static int region_position_locked(const char *base) MR_REQUIRES(heap.mu)
{
    int lo = 0, hi = heap.regions.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (heap.regions.p[mid]->base < base)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static region *region_of_locked(const char *p) MR_REQUIRES(heap.mu)
{
    int i = region_position_locked(p + 1) - 1; /* the last that starts at or before p */
    MR_ASSERT(i >= 0);
    MR_ASSERT(p < heap.regions.p[i]->base + heap.regions.p[i]->n_pages * MR_PAGE_BYTES);
    return heap.regions.p[i];
}

/* There are few regions, as each is large: moving the later ones up is cheap. */
static void insert_region_locked(region *r) MR_REQUIRES(heap.mu)
{
    int at = region_position_locked(r->base);
    mr_vec_push(&heap.regions, r);
    for (int i = heap.regions.n - 1; i > at; i--)
        heap.regions.p[i] = heap.regions.p[i - 1];
    heap.regions.p[at] = r;
    heap.mapped += r->n_pages * MR_PAGE_BYTES;
}

/* False when the system or the limit does not allow it. The records are a separate mapping: most of
 * them are never touched, so they take no memory. */
static bool add_region_locked(size_t bytes) MR_REQUIRES(heap.mu)
{
    MR_ASSERT(bytes > 0 && bytes % HUGE_BYTES == 0);
    size_t n = bytes / MR_PAGE_BYTES;
    size_t meta = sizeof(region) + (n + 2) * sizeof(page);
    if (n > UINT32_MAX || bytes > mr_pages_limit() || heap.mapped > mr_pages_limit() - bytes)
        return false;
    region *r = map_pages(meta); /* zeroed, so the records at both ends say used */
    char *base = r ? map_huge(bytes) : NULL;
    if (!base) {
        if (r)
            munmap(r, meta);
        return false;
    }
    r->base = base;
    r->n_pages = n;
    r->meta_bytes = meta;
    insert_region_locked(r);
    push_run_locked(r, &r->pages[1], n);
    return true;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static void trim_regions_locked(void) MR_REQUIRES(heap.mu);

/* Makes sure that there is a run of n pages. Regions without a used page are all too short and are
 * unmapped first; otherwise requests that grow slowly would leave many of them behind. Then more is
 * mapped than requested, in proportion to what is mapped already, so that growing ends soon. If the
 * system refuses that much, only what is needed is mapped. */
static bool grow_locked(size_t n) MR_REQUIRES(heap.mu)
{
    if (n > SIZE_MAX / 4 / MR_PAGE_BYTES)
        return false;
    size_t need = round_up(n * MR_PAGE_BYTES, HUGE_BYTES);
    size_t ahead = MR_MIN(MR_MAX(heap.mapped / 4, REGION_MIN), REGION_MAX);
    if (need > mr_pages_limit())
        return false;
    trim_regions_locked();
    return add_region_locked(round_up(MR_MAX(need + need / 4, ahead), HUGE_BYTES)) ||
           add_region_locked(need);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Of a free run, or one that was until now: only these know their region. */
static void *address_of(const page *first)
{
    const region *r = first->region;
    MR_ASSERT(first > r->pages && first <= r->pages + r->n_pages);
    return r->base + (size_t)(first - &r->pages[1]) * MR_PAGE_BYTES;
}

/* Takes the front of the run, so that pages at its end that are never needed stay untouched. */
static page *take_run_locked(size_t n) MR_REQUIRES(heap.mu)
{
    page *p = find_run_locked(n);
    if (!p && grow_locked(n))
        p = find_run_locked(n);
    if (!p)
        return NULL;
    size_t rest = p->n - n;
    pull_run_locked(p);
    mark_used_locked(p, n);
    if (rest)
        push_run_locked(p->region, p + n, rest);
    return p;
}

void *mr_pages_alloc(size_t n)
{
    MR_ASSERT(n > 0);
    mr_lock(&heap.mu);
    page *p = take_run_locked(n);
    void *address = p ? address_of(p) : NULL;
    mr_unlock(&heap.mu);
    return address;
}

void mr_pages_free(void *address, size_t n)
{
    MR_ASSERT(address && n > 0 && (uintptr_t)address % MR_PAGE_BYTES == 0);
    mr_lock(&heap.mu);
    region *r = region_of_locked(address);
    page *p = &r->pages[1 + (size_t)((char *)address - r->base) / MR_PAGE_BYTES];
    MR_ASSERT(!p->free && p->n == n && !p[n - 1].free && p[n - 1].n == n);
    page *after = p + n;
    if (after->free) {
        pull_run_locked(after);
        n += after->n;
    }
    if (p[-1].free) {
        page *before = p - p[-1].n;
        pull_run_locked(before);
        n += before->n;
        p = before;
    }
    push_run_locked(r, p, n);
    mr_unlock(&heap.mu);
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* Unmaps the regions that are one free run. */
static void trim_regions_locked(void)
{
    int kept = 0;
    for (int i = 0; i < heap.regions.n; i++) {
        region *r = heap.regions.p[i];
        page *first = &r->pages[1];
        if (!first->free || first->n != r->n_pages) {
            heap.regions.p[kept++] = r;
            continue;
        }
        pull_run_locked(first);
        heap.mapped -= r->n_pages * MR_PAGE_BYTES;
        munmap(r->base, r->n_pages * MR_PAGE_BYTES);
        munmap(r, r->meta_bytes);
    }
    heap.regions.n = kept;
}

void mr_pages_trim(void)
{
    mr_lock(&heap.mu);
    trim_regions_locked();
    /* The rest stays mapped without memory; the next use of these pages faults it in again. */
    for (int b = 0; b < N_BINS; b++)
        for (page *p = heap.bins[b]; p; p = p->next)
            madvise(address_of(p), p->n * MR_PAGE_BYTES, MADV_DONTNEED);
    mr_unlock(&heap.mu);
}

size_t mr_pages_mapped(void)
{
    mr_lock(&heap.mu);
    size_t mapped = heap.mapped;
    mr_unlock(&heap.mu);
    return mapped;
}
