/* group/shm_pipe.c -- the layout of pipes in a segment, and their counts.
 *
 * The other end's count is written by another process, so it is believed only within limits: it never falls, a
 * head is never more than the pipe's size ahead of a tail, and both are multiples of a line, so a line can always
 * be read and written in one piece. `mine` and `seen` are private copies, so each count is read from shared memory
 * only once per use. */
#include "group/shm_pipe.h"

/* Small enough that the pipes of a few members stay in a second-level cache, large enough that waking a sleeper pays.
 */
size_t mr_pipe_bytes(int size)
{
    size_t bytes = (size_t)512 << 10;
    while (bytes > (size_t)16 << 10 && bytes * (size_t)size > (size_t)2 << 20)
        bytes /= 2;
    return bytes;
}

/* The bytes of all counts of a segment, in whole pages. */
static size_t counts_bytes(int size)
{
    size_t one = sizeof(mr_pipe_count) * (1 + (size_t)size);
    return (one * (size_t)size + MR_SHM_PAGE - 1) / MR_SHM_PAGE * MR_SHM_PAGE;
}

size_t mr_shm_file_bytes(int size)
{
    return MR_SHM_PAGE + counts_bytes(size) + mr_pipe_bytes(size) * (size_t)size;
}

/* Pipe i of a segment leads to member i; the one with the owner's own number is the common pipe. */
void mr_pipe_init(mr_pipe *p, char *segment, int size, int writer, int reader, int self)
{
    size_t place = (size_t)(reader < 0 ? writer : reader);
    mr_pipe_count *counts = (mr_pipe_count *)(segment + MR_SHM_PAGE) + place * (1 + (size_t)size);
    MR_ASSERT(reader != writer);
    *p = (mr_pipe){.head = counts, .tails = counts + 1, .reader = reader, .writer = writer, .size = size};
    p->bytes = mr_pipe_bytes(size);
    MR_ASSERT((p->bytes & (p->bytes - 1)) == 0);
    p->data = segment + MR_SHM_PAGE + counts_bytes(size) + place * p->bytes;
    MR_ASSERT(self == writer || self == reader || reader < 0);
    (void)self;
}

/* How far the slowest reader is. */
static uint64_t slowest_tail(const mr_pipe *p)
{
    uint64_t least = UINT64_MAX;
    if (p->reader >= 0)
        return atomic_load_explicit(&p->tails[p->reader].n, memory_order_acquire);
    for (int i = 0; i < p->size; i++) {
        uint64_t n = i == p->writer ? UINT64_MAX : atomic_load_explicit(&p->tails[i].n, memory_order_acquire);
        least = MR_MIN(least, n);
    }
    return least;
}

/* The other end's count is read again only when the known room is too small, to spare its cache line. */
size_t mr_pipe_room(mr_pipe *p, size_t want, char **at)
{
    size_t place = p->mine & (p->bytes - 1), whole = p->bytes - place;
    want = MR_MIN(want, whole);
    if (p->bytes - (p->mine - p->seen) < want) {
        uint64_t seen = slowest_tail(p);
        if (seen > p->mine || seen < p->seen || seen % MR_PIPE_LINE)
            return MR_PIPE_BROKEN;
        p->seen = seen;
    }
    *at = p->data + place;
    return MR_MIN(want, p->bytes - (size_t)(p->mine - p->seen));
}

/* Publishes n bytes that were written at mr_pipe_room's place: the release makes them visible with the count. */
void mr_pipe_put(mr_pipe *p, size_t n)
{
    MR_ASSERT(n <= p->bytes - (p->mine - p->seen) && n % MR_PIPE_LINE == 0);
    p->mine += n;
    atomic_store_explicit(&p->head->n, p->mine, memory_order_release);
}

/* The writer's head is read again only when the known bytes are too few. */
size_t mr_pipe_ready(mr_pipe *p, size_t want, const char **at)
{
    size_t place = p->mine & (p->bytes - 1), whole = p->bytes - place;
    want = MR_MIN(want, whole);
    if (p->seen - p->mine < want) {
        uint64_t seen = atomic_load_explicit(&p->head->n, memory_order_acquire);
        if (seen < p->seen || seen - p->mine > p->bytes || seen % MR_PIPE_LINE)
            return MR_PIPE_BROKEN;
        p->seen = seen;
    }
    *at = p->data + place;
    return MR_MIN(want, (size_t)(p->seen - p->mine));
}

/* Returns n bytes to the writer, which may overwrite them at once. */
void mr_pipe_take(mr_pipe *p, size_t n, int self)
{
    MR_ASSERT(n <= p->seen - p->mine && n % MR_PIPE_LINE == 0);
    p->mine += n;
    atomic_store_explicit(&p->tails[self].n, p->mine, memory_order_release);
}
