/* group/shared.c -- shared buffers: own ones are offered under their number, those of others are mapped when first
 * named.
 *
 * The page after the values of a buffer says whether its owner has released it. On release the owner gives the
 * memory back at once, even while others have it mapped; they drop their mapping when the owner next names a buffer.
 * Each lane has separate mappings, so it is known which are in use: for each member, the buffer that was asked for
 * last.
 *
 * Invariants: a buffer has whole pages, its data is mapped as long as it is in a list, and ids of a process are never
 * used twice. mu guards the own buffers; a lane's mappings belong to the one thread that uses the lane. */
#include "group/shared.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/member.h"
#include "net/segment.h"

#define PAGE ((size_t)4096)
#define BUFFERS (UINT64_C(1) << 63) /* set in the numbers of buffers, clear in those of segments */
#define PATIENCE_NS INT64_C(5000000000)

typedef struct buffer {
    uint64_t id;
    int rank; /* the owner; -1: this process */
    char *data;
    size_t bytes; /* without the last page */
} buffer;

typedef struct lane { /* used by one thread at a time */
    struct mr_shared *s;
    MR_VEC(buffer) others;
} lane;

struct mr_shared {
    mr_meeting *m;
    mr_mutex mu;
    uint64_t last MR_GUARDED_BY(mu);
    MR_VEC(buffer) own MR_GUARDED_BY(mu);
    lane lanes[MR_LANES];
};

mr_shared *mr_shared_new(mr_meeting *m)
{
    mr_shared *s = mr_new(mr_shared);
    s->m = m;
    mr_mutex_init(&s->mu);
    for (int i = 0; i < MR_LANES; i++)
        s->lanes[i].s = s;
    return s;
}

/* The flag in the last page; only the owner sets it, any process may read it. */
static _Atomic uint32_t *released(const buffer *b) { return (_Atomic uint32_t *)(b->data + b->bytes); }

static void unmap_buffer(const buffer *b) { munmap(b->data, b->bytes + PAGE); }

/* Own buffers stay: their numbers do not depend on the generation. */
void mr_shared_forget(mr_shared *s)
{
    for (int k = 0; k < MR_LANES; k++) {
        lane *l = &s->lanes[k];
        for (int i = 0; i < l->others.n; i++)
            unmap_buffer(&l->others.p[i]);
        l->others.n = 0;
    }
}

/* Buffers that the user has not released are unmapped too; the descriptors are closed with the server that offers
 * them. */
void mr_shared_free(mr_shared *s)
{
    if (!s)
        return;
    mr_shared_forget(s);
    for (int i = 0; i < s->own.n; i++)
        unmap_buffer(&s->own.p[i]);
    mr_vec_deinit(&s->own);
    for (int i = 0; i < MR_LANES; i++)
        mr_vec_deinit(&s->lanes[i].others);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

/* Rounds up to whole pages plus the page with the flag, and offers the file to the other members. */
void *mr_shared_alloc(mr_shared *s, size_t bytes)
{
    size_t whole;
    if (!mr_size_add(bytes ? bytes : 1, 2 * PAGE - 1, &whole))
        return NULL;
    whole -= whole % PAGE;
    MR_ASSERT(whole >= 2 * PAGE);
    int fd = mr_segment_file_new(whole);
    if (fd < 0)
        return NULL;
    void *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    mr_lock(&s->mu);
    uint64_t id = ++s->last;
    mr_vec_push(&s->own, (buffer){id, -1, p, whole - PAGE});
    mr_unlock(&s->mu);
    mr_fd_server_offer(mr_meeting_fd_server(s->m), BUFFERS | id, fd, whole);
    return p;
}

/* Releases a buffer of this process; false: p is not one. */
bool mr_shared_release(mr_shared *s, void *p)
{
    buffer b = {0};
    mr_lock(&s->mu);
    for (int i = 0; i < s->own.n; i++)
        if (s->own.p[i].data == p) {
            b = s->own.p[i];
            mr_vec_remove_swap(&s->own, i);
            break;
        }
    mr_unlock(&s->mu);
    if (!b.data)
        return false;
    mr_fd_server_take_back(mr_meeting_fd_server(s->m), BUFFERS | b.id);
    atomic_store(released(&b), 1);
    madvise(b.data, b.bytes, MADV_REMOVE); /* if that fails, the memory is freed with the last mapping */
    unmap_buffer(&b);
    return true;
}

/* ---- for the transports ---- */

/* The mr_shm_own_fn: finds the own buffer that holds the bytes at p. */
static bool find_own_buffer(void *arg, const void *p, size_t n, uint64_t *id, size_t *at)
{
    mr_shared *s = ((lane *)arg)->s;
    uintptr_t x = (uintptr_t)p;
    bool found = false;
    mr_lock(&s->mu);
    for (int i = 0; i < s->own.n && !found; i++) {
        uintptr_t begin = (uintptr_t)s->own.p[i].data;
        found = x >= begin && x - begin <= s->own.p[i].bytes && n <= s->own.p[i].bytes - (x - begin);
        if (found) {
            *id = s->own.p[i].id;
            *at = x - begin;
        }
    }
    mr_unlock(&s->mu);
    return found;
}

/* Asks a member for its buffer and maps it. The size and the seals of the file are checked, because the other
 * process chose them. */
static bool map_buffer(mr_shared *s, buffer *b)
{
    int fd;
    size_t bytes;
    mr_status *st = mr_fd_fetch(mr_meeting_address(s->m, b->rank), BUFFERS | b->id, mr_now_ns() + PATIENCE_NS, NULL, &fd, &bytes);
    void *p = MAP_FAILED;
    if (!st) {
        bool fits = bytes > PAGE && bytes <= INT64_MAX && bytes % PAGE == 0;
        st = fits ? mr_segment_file_check(fd, (int64_t)bytes) : mr_invalid("not a shared buffer");
        if (!st)
            p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    mr_status_free(st);
    if (p == MAP_FAILED)
        return false;
    b->data = p;
    b->bytes = bytes - PAGE;
    return true;
}

/* Unmaps the buffers that a member has released, except the one it names now. */
static void unmap_released(lane *l, int rank, uint64_t id)
{
    MR_ASSERT(rank >= 0);
    for (int i = 0; i < l->others.n;) {
        const buffer *b = &l->others.p[i];
        if (b->rank == rank && b->id != id && atomic_load(released(b))) {
            unmap_buffer(b);
            mr_vec_remove_swap(&l->others, i);
        } else {
            i++;
        }
    }
}

/* The mr_shm_find_fn: the mapping of a member's buffer, made if necessary; NULL: it cannot be mapped. */
static char *find_buffer(void *arg, int rank, uint64_t id, size_t *bytes)
{
    lane *l = arg;
    buffer b = {.id = id, .rank = rank};
    unmap_released(l, rank, id);
    for (int i = 0; i < l->others.n && !b.data; i++)
        if (l->others.p[i].rank == rank && l->others.p[i].id == id)
            b = l->others.p[i];
    if (!b.data) {
        if (!map_buffer(l->s, &b))
            return NULL;
        mr_vec_push(&l->others, b);
    }
    MR_ASSERT(b.bytes % PAGE == 0);
    *bytes = b.bytes;
    return b.data;
}

mr_shm_memory mr_shared_memory(mr_shared *s, int number)
{
    MR_ASSERT(number >= 0 && number < MR_LANES);
    return (mr_shm_memory){find_buffer, find_own_buffer, &s->lanes[number]};
}
