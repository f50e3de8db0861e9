/* group/shared.c -- own buffers are offered as gifts under their number; those of others are mapped when they are first named. */
#include "group/shared.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "net/segment.h"

#define PAGE ((size_t)4096)
#define BUFFERS (UINT64_C(1) << 63) /* numbers of gifts that are buffers have this bit */
#define PATIENCE_NS INT64_C(5000000000)

typedef struct buffer {
    uint64_t id;
    int rank; /* of others */
    char *data;
    size_t bytes;
} buffer;

struct mr_shared {
    mr_meeting *m;
    mr_mutex mu;
    uint64_t last MR_GUARDED_BY(mu);
    MR_VEC(buffer) own MR_GUARDED_BY(mu);
    MR_VEC(buffer) others MR_GUARDED_BY(mu);
};

mr_shared *mr_shared_new(mr_meeting *m)
{
    mr_shared *s = mr_new(mr_shared);
    s->m = m;
    mr_mutex_init(&s->mu);
    return s;
}

void mr_shared_forget(mr_shared *s)
{
    mr_lock(&s->mu);
    for (int i = 0; i < s->others.n; i++)
        munmap(s->others.p[i].data, s->others.p[i].bytes);
    s->others.n = 0;
    mr_unlock(&s->mu);
}

void mr_shared_free(mr_shared *s)
{
    if (!s)
        return;
    mr_shared_forget(s);
    for (int i = 0; i < s->own.n; i++)
        munmap(s->own.p[i].data, s->own.p[i].bytes);
    mr_vec_deinit(&s->own);
    mr_vec_deinit(&s->others);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

void *mr_shared_alloc(mr_shared *s, size_t bytes)
{
    size_t whole;
    if (!mr_size_add(bytes ? bytes : 1, PAGE - 1, &whole))
        return NULL;
    whole -= whole % PAGE;
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
    mr_vec_push(&s->own, (buffer){id, -1, p, whole});
    mr_unlock(&s->mu);
    mr_gifts_offer(mr_meeting_gifts(s->m), BUFFERS | id, fd, whole);
    return p;
}

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
    mr_gifts_take_back(mr_meeting_gifts(s->m), BUFFERS | b.id);
    munmap(b.data, b.bytes);
    return true;
}

/* ---- for transports ---- */

static bool own(void *arg, const void *p, size_t n, uint64_t *id, size_t *at)
{
    mr_shared *s = arg;
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

static char *map(mr_shared *s, int rank, uint64_t id, size_t *bytes)
{
    int fd;
    mr_status *st = mr_gift_ask(mr_meeting_address(s->m, rank), BUFFERS | id, mr_now_ns() + PATIENCE_NS, NULL, &fd, bytes);
    void *p = MAP_FAILED;
    if (!st) {
        st = *bytes > INT64_MAX ? mr_invalid("too large") : mr_segment_file_check(fd, (int64_t)*bytes);
        if (!st)
            p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    mr_status_free(st);
    return p == MAP_FAILED ? NULL : p;
}

static char *find(void *arg, int rank, uint64_t id, size_t *bytes)
{
    mr_shared *s = arg;
    char *p = NULL;
    mr_lock(&s->mu);
    for (int i = 0; i < s->others.n && !p; i++)
        if (s->others.p[i].rank == rank && s->others.p[i].id == id) {
            p = s->others.p[i].data;
            *bytes = s->others.p[i].bytes;
        }
    mr_unlock(&s->mu);
    if (p || !(p = map(s, rank, id, bytes)))
        return p;
    mr_lock(&s->mu);
    mr_vec_push(&s->others, (buffer){id, rank, p, *bytes});
    mr_unlock(&s->mu);
    return p;
}

mr_shm_memory mr_shared_memory(mr_shared *s) { return (mr_shm_memory){find, own, s}; }
