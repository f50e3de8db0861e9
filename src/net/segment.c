/* net/segment.c -- memory that two processes share.
 *
 * Invariants: segments[i] has the id i + 1; a segment that is lent is never unmapped or filled; the
 * budget counts exactly the bytes of all segments of all pools.
 *
 *     sender's state   data   fd    lent
 *     new              NULL   -1    yes    has a number; being made without the lock
 *     made             set    >= 0  yes    being filled, then queued
 *     announced        set    -1    yes    the receiver has it
 *     free             set    -1    no     returned: filled again, or freed after a while
 *
 * The receiver has a mapping per announced segment and a loan while a message in it is used. The mapping
 * outlives a FORGET of the sender as long as a loan uses it.
 *
 * The pages of a new segment are allocated by fallocate and not by touching them, so that a system
 * without memory refuses instead of killing the writer. */
#include "net/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* ---- sending ---- */

/* Rounds a size up in steps of an eighth, so that messages whose size varies a little fit into the
 * same segment. */
static bool round_up(size_t n, size_t *out)
{
    size_t step = 64 << 10;
    while (step < n / 8)
        step *= 2;
    return mr_size_add(n, step - 1, out) && (*out -= *out % step, true);
}

/* The seals keep the file's size fixed, so a reader cannot run into a page that was cut off (SIGBUS). A
 * signal can interrupt fallocate, so that call is repeated. */
int mr_segment_file_new(size_t bytes)
{
    int fd = memfd_create("millrace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    int rc;
    do
        rc = posix_fallocate(fd, 0, (off_t)bytes);
    while (rc == EINTR);
    if (rc != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Takes the bytes from the budget before it allocates, so that connections cannot exceed the budget together;
 * returns them if the system refuses. MAP_POPULATE maps all pages here and not one by one during the copy that
 * follows. Without the pool's lock: the segment is lent, so nobody else uses it. */
bool mr_segment_make(mr_segment_pool *p, mr_segment *s)
{
    MR_ASSERT(s->lent && !s->data);
    if (!mr_net_budget_take(p->budget, s->bytes))
        return false;
    int fd = mr_segment_file_new(s->bytes);
    void *data = MAP_FAILED;
    if (fd >= 0)
        data = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        mr_net_budget_give(p->budget, s->bytes);
        return false;
    }
    s->data = data;
    s->fd = fd;
    return true;
}

/* Unmaps and frees a segment. The receiver may still have it mapped; the pages are freed when it unmaps too. */
void mr_segment_discard(mr_segment_pool *p, mr_segment *s)
{
    MR_ASSERT(p->segments[s->id - 1] == s);
    p->segments[s->id - 1] = NULL;
    if (s->data) {
        munmap(s->data, s->bytes);
        mr_net_budget_give(p->budget, s->bytes);
    }
    if (s->fd >= 0)
        close(s->fd);
    mr_free(s);
}

/* The smallest free segment that is large enough, but at most four times as large as needed. */
static mr_segment *find_free(mr_segment_pool *p, size_t n)
{
    mr_segment *best = NULL;
    for (int i = 0; i < MR_SEGMENTS; i++) {
        mr_segment *s = p->segments[i];
        if (s && !s->lent && s->bytes >= n && s->bytes / 4 <= n &&
            (!best || s->bytes < best->bytes))
            best = s;
    }
    return best;
}

/* A free index for a new segment; -1: the pool has MR_SEGMENTS segments already. */
static int find_slot(const mr_segment_pool *p)
{
    for (int i = 0; i < MR_SEGMENTS; i++)
        if (!p->segments[i])
            return i;
    return -1;
}

/* A new segment has a number but no memory yet; mr_segment_make maps it, without the lock. */
mr_segment *mr_segment_take(mr_segment_pool *p, size_t n)
{
    size_t bytes;
    mr_segment *s = find_free(p, n);
    int slot = s ? 0 : find_slot(p);
    if (slot < 0 || !round_up(n, &bytes) || bytes > INT64_MAX)
        return NULL;
    if (!s) {
        s = p->segments[slot] = mr_new(mr_segment);
        *s = (mr_segment){.id = (uint32_t)slot + 1, .bytes = bytes, .fd = -1};
    }
    MR_ASSERT(!s->lent && s->bytes >= n);
    s->lent = true;
    return s;
}

/* The id comes from the peer, so every case is checked: no such segment, not lent, not made, or not announced. */
bool mr_segment_return(mr_segment_pool *p, uint64_t id, int64_t now_ns)
{
    mr_segment *s = id >= 1 && id <= MR_SEGMENTS ? p->segments[id - 1] : NULL;
    if (!s || !s->lent || !s->data || s->fd >= 0) /* fd: it has not been announced yet */
        return false;
    s->lent = false;
    s->returned_ns = now_ns;
    return true;
}

/* The numbers of freed segments go into `gone`. The receiver must forget a number before a new segment may use it. */
void mr_segment_trim(mr_segment_pool *p, int64_t before_ns)
{
    for (int i = 0; i < MR_SEGMENTS; i++) {
        mr_segment *s = p->segments[i];
        if (!s || s->lent || s->returned_ns >= before_ns)
            continue;
        MR_ASSERT(s->fd < 0); /* it was lent before, so the receiver knows it */
        mr_vec_push(&p->gone, s->id);
        mr_segment_discard(p, s);
    }
}

/* Also frees segments that are lent: the connection is closed, and the receiver has its own mapping. */
void mr_segment_pool_deinit(mr_segment_pool *p)
{
    for (int i = 0; i < MR_SEGMENTS; i++)
        if (p->segments[i])
            mr_segment_discard(p, p->segments[i]);
    mr_vec_deinit(&p->gone);
}

/* ---- receiving ---- */

/* A peer's segment, mapped here. */
struct mr_mapping {
    mr_refs refs; /* one for the table, one for a loan */
    uint32_t id;
    size_t bytes;
    char *data;
    _Atomic bool lent;
};

/* The use of a segment by one message; returned when all of its pieces are dropped. */
struct mr_loan {
    mr_refs refs;
    mr_mapping *mapping;
    void *owner;
    void (*returned)(void *owner, uint32_t id);
};

/* The last reference unmaps the memory: the table's, or that of a loan that outlives the table. */
static void mapping_unref(mr_mapping *m)
{
    if (!mr_refs_drop(&m->refs))
        return;
    munmap(m->data, m->bytes);
    mr_free(m);
}

/* Checks a peer's file. One that is sealed against shrinking has all its bytes for good. A file of
 * another kind (huge pages, a file on disk) could still fail to deliver them, and one with holes would
 * take our memory instead of the sender's. */
mr_status *mr_segment_file_check(int fd, int64_t bytes)
{
    struct stat st;
    struct statfs fs;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return mr_invalid("the segment's file is not sealed");
    if (fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return mr_invalid("the segment's file is not in memory (tmpfs)");
    if (st.st_size != bytes || (uint64_t)st.st_blocks < (uint64_t)bytes / 512)
        return mr_invalid("the segment should have %lld bytes, but has %lld", (long long)bytes,
                          (long long)st.st_size);
    return NULL;
}

/* Checks the id and the size that a peer announces; the size counts against the limit of mapped bytes. */
static mr_status *check_new(const mr_segment_table *t, uint64_t id, int64_t bytes)
{
    if (id < 1 || id > MR_SEGMENTS || t->mappings[id - 1])
        return mr_invalid("segment id %llu is in use or out of range", (unsigned long long)id);
    if (bytes < 1 || (uint64_t)bytes > t->limit - t->bytes)
        return mr_invalid("a segment of %lld bytes exceeds the limit", (long long)bytes);
    return NULL;
}

/* Maps the file for reading and writing: an op that holds the last reference to a tensor may compute in its
 * buffer. */
static mr_status *map_file(mr_segment_table *t, uint64_t id, size_t bytes, int fd)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot map a segment of %zu bytes", bytes);
    mr_mapping *m = mr_new(mr_mapping);
    mr_refs_init(&m->refs);
    m->id = (uint32_t)id;
    m->bytes = bytes;
    m->data = data;
    MR_ASSERT(!t->mappings[id - 1]);
    t->mappings[id - 1] = m;
    t->bytes += bytes;
    return NULL;
}

/* The descriptor is closed in every case, since a mapping does not need it. */
mr_status *mr_segment_map(mr_segment_table *t, uint64_t id, int64_t bytes, int fd)
{
    MR_ASSERT(t->bytes <= t->limit);
    mr_status *st = check_new(t, id, bytes);
    if (!st)
        st = mr_segment_file_check(fd, bytes);
    if (!st)
        st = map_file(t, id, (size_t)bytes, fd);
    close(fd);
    return st;
}

static mr_mapping *find_mapping(const mr_segment_table *t, uint64_t id)
{
    return id >= 1 && id <= MR_SEGMENTS ? t->mappings[id - 1] : NULL;
}

/* The sender has freed a segment. It may reuse the number, so the table must not find the mapping any more. */
mr_status *mr_segment_forget(mr_segment_table *t, uint64_t id)
{
    mr_mapping *m = find_mapping(t, id);
    if (!m)
        return mr_invalid("the peer freed segment %llu, which does not exist", (unsigned long long)id);
    MR_ASSERT(m->id == id && t->bytes >= m->bytes);
    t->mappings[id - 1] = NULL;
    t->bytes -= m->bytes;
    mapping_unref(m); /* a loan may keep the memory mapped a little longer, which is harmless */
    return NULL;
}

/* Lends a segment to one message. The peer may not use it for another message before it is returned; `lent` is
 * atomic, because the loan can end in any thread. The loan holds a reference to the mapping and keeps the table's
 * owner (keep) until `returned` is called. */
mr_status *mr_loan_begin(mr_segment_table *t, uint64_t id, mr_loan **out)
{
    mr_mapping *m = find_mapping(t, id);
    if (!m)
        return mr_invalid("the peer used segment %llu, which does not exist", (unsigned long long)id);
    if (atomic_exchange(&m->lent, true))
        return mr_invalid("the peer used segment %llu again before it was returned",
                          (unsigned long long)id);
    mr_loan *l = mr_new(mr_loan);
    mr_refs_init(&l->refs);
    mr_refs_take(&m->refs);
    l->mapping = m;
    l->owner = t->owner;
    l->returned = t->returned;
    t->keep(t->owner);
    *out = l;
    return NULL;
}

/* Offset and length come from the peer. Each piece holds a reference to the loan. */
mr_status *mr_loan_piece(mr_loan *l, uint64_t offset, uint64_t n, mr_piece *out)
{
    size_t bytes = l->mapping->bytes;
    if (offset > bytes || n > bytes - offset)
        return mr_invalid("offset %llu and length %llu exceed a segment of %zu bytes", (unsigned long long)offset,
                          (unsigned long long)n, bytes);
    mr_refs_take(&l->refs);
    *out = (mr_piece){l->mapping->data + offset, (size_t)n, mr_loan_drop, l, .shared = true};
    return NULL;
}

/* A piece was dropped; the last one returns the segment. `lent` is cleared first, because the sender
 * may use the segment again as soon as it learns of the return. `returned` drops the owner's reference, so it
 * is called last. */
void mr_loan_drop(void *loan)
{
    mr_loan *l = loan;
    if (!mr_refs_drop(&l->refs))
        return;
    uint32_t id = l->mapping->id;
    MR_ASSERT(atomic_load(&l->mapping->lent));
    atomic_store(&l->mapping->lent, false);
    mapping_unref(l->mapping);
    l->returned(l->owner, id);
    mr_free(l);
}

/* Loans keep their mappings; they end after the table, but before its owner is freed. */
void mr_segment_table_deinit(mr_segment_table *t)
{
    for (int i = 0; i < MR_SEGMENTS; i++)
        if (t->mappings[i])
            mapping_unref(t->mappings[i]);
    memset(t->mappings, 0, sizeof(t->mappings));
    t->bytes = 0;
}
