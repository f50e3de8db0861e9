/* group/shm.c -- waiting for members of this host, and messages between them.
 *
 * Who has nothing to do looks a little longer, if that has paid lately, then sleeps on its bell.  Whoever puts something into a
 * pipe, or takes something out, looks whether the other end sleeps and rings; between the two stands a full barrier on each
 * side, so either the sleeper sees the change or the other sees that it sleeps.
 *
 * Waking is not for every few bytes: on a machine with fewer cores than members the woken one would push the waker aside.  What
 * was not told is told when it is half a pipe, and by who is about to sleep. */
#include "group/shm.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "group/shm_internal.h"
#include "net/segment.h"

#define SPIN_NS 40000
#define NO_SPIN_NS INT64_C(50000000)
/* What looking is worth: a hit adds one, a miss takes some; at 0 it is given up for a while. */
enum { FIRST_WORTH = 8, MOST_WORTH = 32, MISS = 2, RELAX = 16 };
enum { SPINNING, ARMED };

/* ---- waking ---- */

static void relax(void)
{
    for (int i = 0; i < RELAX; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

static void ring(mr_shm_bell *b)
{
    atomic_fetch_add(&b->rings, 1);
    syscall(SYS_futex, &b->rings, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void tell(mr_shm *s, int rank)
{
    mr_shm_bell *b = mr_shm_bell_of(s, rank);
    s->owed[rank] = 0;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&b->asleep, memory_order_relaxed))
        ring(b);
}

void mr_shm_moved(mr_shm *s, int rank, size_t n)
{
    s->owed[rank] += n;
    if (s->owed[rank] >= s->to[rank].bytes / 2)
        tell(s, rank);
}

void mr_shm_tell(mr_shm *s)
{
    for (int i = 0; i < s->t.size; i++)
        if (s->owed[i])
            tell(s, i);
}

/* ---- sleeping ---- */

mr_status *mr_shm_broken(const mr_shm *s, int rank)
{
    return mr_error(MR_DATA_LOSS, "group: what member %d of %d left in shared memory makes no sense", rank, s->t.size);
}

static mr_status *failure(mr_shm *s)
{
    if (!atomic_load_explicit(&s->has_failed, memory_order_acquire))
        return NULL;
    mr_lock(&s->mu);
    mr_status *st = mr_status_copy(s->failed);
    mr_unlock(&s->mu);
    return st;
}

/* Not beyond the time at which a long wait is to be logged, which is in s->wait until something was found. */
static mr_status *sleep_on(mr_shm *s, uint32_t rings, int64_t deadline_ns)
{
    mr_shm_bell *b = mr_shm_bell_of(s, s->t.rank);
    int64_t now_ns = mr_now_ns();
    double seconds;
    if (!s->wait.begun_ns)
        mr_long_wait_begin(&s->wait, now_ns);
    if (mr_long_wait_due(&s->wait, now_ns, &seconds))
        mr_info("Still waiting for member %d of %d of the group on this host: it has neither sent nor taken data "
                "(%.0f s)",
                s->waits_for, s->t.size, seconds);
    int64_t left = (deadline_ns ? MR_MIN(deadline_ns, s->wait.next_ns) : s->wait.next_ns) - now_ns;
    if (deadline_ns && deadline_ns <= now_ns)
        left = 0;
    if (left <= 0)
        return mr_error(MR_DEADLINE_EXCEEDED, "group: member %d of %d was waited for until the deadline", s->waits_for,
                        s->t.size);
    struct timespec ts = {left / 1000000000, left % 1000000000};
    syscall(SYS_futex, &b->rings, FUTEX_WAIT, rings, &ts, NULL, 0);
    return NULL;
}

static bool keep_spinning(mr_shm *s, mr_shm_wait *w)
{
    int64_t now = mr_now_ns();
    if (!w->began_ns) {
        w->began_ns = now;
        return now >= s->no_spin_until_ns;
    }
    if (now - w->began_ns < SPIN_NS)
        return true;
    s->worth -= MISS;
    if (s->worth <= 0) {
        s->worth = FIRST_WORTH;
        s->no_spin_until_ns = now + NO_SPIN_NS;
    }
    return false;
}

mr_status *mr_shm_idle(mr_shm *s, mr_shm_wait *w, int64_t deadline_ns)
{
    mr_shm_bell *b = mr_shm_bell_of(s, s->t.rank);
    MR_TRY(failure(s));
    if (w->phase == ARMED) {
        mr_status *st = sleep_on(s, w->rings, deadline_ns);
        atomic_store(&b->asleep, 0);
        *w = (mr_shm_wait){.phase = SPINNING, .began_ns = 1}; /* looks once, does not spin again at once */
        return st;
    }
    if (w->rounds == 0 && !w->began_ns) /* the first since something was found, or since the operation began */
        s->wait.begun_ns = 0;
    if (w->rounds++ == 0)
        mr_shm_tell(s);
    if (w->began_ns != 1 && s->may_spin && keep_spinning(s, w)) {
        relax();
        return NULL;
    }
    w->phase = ARMED;
    w->rings = atomic_load(&b->rings);
    atomic_store(&b->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return NULL;
}

void mr_shm_busy(mr_shm *s, mr_shm_wait *w)
{
    if (w->phase == ARMED)
        atomic_store(&mr_shm_bell_of(s, s->t.rank)->asleep, 0);
    else if (w->began_ns > 1)
        s->worth = MR_MIN(s->worth + 1, (int)MOST_WORTH);
    *w = (mr_shm_wait){0};
}

/* ---- messages ---- */

static void start(mr_transport *t, mr_transfer *x)
{
    mr_shm *s = (mr_shm *)t;
    mr_transfer **end = &s->transfers;
    while (*end)
        end = &(*end)->next;
    x->next = NULL;
    x->done = 0;
    x->number = 0; /* 1: the head has passed */
    *end = x;
}

static mr_status *send_some(mr_shm *s, mr_transfer *x, bool *moved)
{
    mr_pipe *p = &s->to[x->peer];
    char *at;
    size_t want = x->number ? mr_shm_pad(x->n - x->done) : MR_PIPE_LINE, room = mr_pipe_room(p, want, &at);
    if (room == MR_PIPE_BROKEN)
        return mr_shm_broken(s, x->peer);
    if (room == 0)
        return NULL;
    if (!x->number) {
        *(mr_shm_head *)at = (mr_shm_head){.magic = MR_SHM_MAGIC, .kind = MR_SHM_MESSAGE, .count = (int64_t)x->n};
        x->number = 1;
    } else {
        size_t n = MR_MIN(room, x->n - x->done);
        memcpy(at, (char *)x->data + x->done, n);
        x->done += n;
    }
    mr_pipe_put(p, room);
    mr_shm_moved(s, x->peer, room);
    *moved = true;
    return NULL;
}

static mr_status *check_message(const mr_shm *s, const mr_transfer *x, const mr_shm_head *h)
{
    if (h->magic != MR_SHM_MAGIC)
        return mr_shm_broken(s, x->peer);
    if (h->kind != MR_SHM_MESSAGE || h->count < 0 || (uint64_t)h->count != x->n)
        return mr_invalid("group: member %d does something else: %lld bytes came from it, expected %zu", x->peer,
                          h->kind == MR_SHM_MESSAGE ? (long long)h->count : 0LL, x->n);
    return NULL;
}

static mr_status *receive_some(mr_shm *s, mr_transfer *x, bool *moved)
{
    mr_pipe *p = &s->from[x->peer];
    const char *at;
    size_t want = x->number ? mr_shm_pad(x->n - x->done) : MR_PIPE_LINE, ready = mr_pipe_ready(p, want, &at);
    if (ready == MR_PIPE_BROKEN)
        return mr_shm_broken(s, x->peer);
    if (ready == 0)
        return NULL;
    if (!x->number) {
        mr_shm_head h;
        memcpy(&h, at, sizeof(h)); /* then looked at: the other could still write it */
        MR_TRY(check_message(s, x, &h));
        x->number = 1;
    } else {
        size_t n = MR_MIN(ready, x->n - x->done);
        memcpy((char *)x->data + x->done, at, n);
        x->done += n;
    }
    mr_pipe_take(p, ready, s->t.rank);
    mr_shm_moved(s, x->peer, ready);
    *moved = true;
    return NULL;
}

static bool is_done(const mr_transfer *x) { return x->number && x->done == x->n; }

/* Only the first of those to or from a member moves. */
static bool is_first(const mr_shm *s, const mr_transfer *x)
{
    for (const mr_transfer *y = s->transfers; y != x; y = y->next)
        if (y->peer == x->peer && y->sending == x->sending && !is_done(y))
            return false;
    return true;
}

static mr_status *move_all(mr_shm *s, bool *moved)
{
    for (mr_transfer *x = s->transfers; x; x = x->next) {
        if (is_done(x) || !is_first(s, x))
            continue;
        MR_TRY(x->sending ? send_some(s, x, moved) : receive_some(s, x, moved));
    }
    return NULL;
}

static void forget(mr_shm *s, mr_transfer *x)
{
    mr_transfer **link = &s->transfers;
    while (*link && *link != x)
        link = &(*link)->next;
    if (*link)
        *link = x->next;
}

static mr_status *finish(mr_transport *t, mr_transfer *x, int64_t deadline_ns)
{
    mr_shm *s = (mr_shm *)t;
    mr_status *st = NULL;
    mr_shm_wait w = {0};
    while (!is_done(x)) {
        bool moved = false;
        MR_GO(move_all(s, &moved));
        s->waits_for = x->peer;
        if (moved)
            mr_shm_busy(s, &w);
        else
            MR_GO(mr_shm_idle(s, &w, deadline_ns));
    }
out:
    mr_shm_tell(s);
    mr_shm_busy(s, &w);
    forget(s, x);
    return st;
}

/* ---- its life ---- */

static void fail(mr_transport *t, const mr_status *st)
{
    mr_shm *s = (mr_shm *)t;
    mr_lock(&s->mu);
    if (!s->failed)
        s->failed = mr_status_copy(st);
    mr_unlock(&s->mu);
    atomic_store(&s->has_failed, true);
    ring(mr_shm_bell_of(s, t->rank));
}

static void shm_free(mr_transport *t)
{
    mr_shm *s = (mr_shm *)t;
    for (int i = 0; i < t->size; i++)
        if (s->segments[i])
            munmap(s->segments[i], s->bytes);
    mr_status_free(s->failed);
    mr_mutex_deinit(&s->mu);
    mr_free(s->segments);
    mr_free(s->to);
    mr_free(s->from);
    mr_free(s->commons);
    mr_free(s->owed);
    mr_free(s->lanes);
    mr_free(s);
}

static const mr_transport_class shm_class = {"shm", start, finish, mr_shm_run, fail, shm_free};

int mr_shm_file_new(int size) { return mr_segment_file_new(mr_shm_file_bytes(size)); }

static mr_status *map(mr_shm *s, int rank, int fd)
{
    mr_status *st = mr_segment_file_check(fd, (int64_t)s->bytes);
    if (st)
        return mr_status_prepend(st, "group: member %d gave ", rank);
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: cannot map %zu bytes of member %d", s->bytes, rank);
    s->segments[rank] = p;
    return NULL;
}

static void lay_pipes(mr_shm *s)
{
    int self = s->t.rank, size = s->t.size;
    for (int i = 0; i < size; i++) {
        if (i != self) {
            mr_pipe_init(&s->to[i], s->segments[self], size, self, i, self);
            mr_pipe_init(&s->from[i], s->segments[i], size, i, self, self);
        }
        mr_pipe_init(&s->commons[i], s->segments[i], size, i, -1, self);
    }
    s->to[self] = s->commons[self];
}

mr_status *mr_shm_new(int rank, int size, const int *fds, const mr_shm_memory *memory, mr_transport **out)
{
    mr_status *st = NULL;
    mr_shm *s = mr_new(mr_shm);
    MR_ASSERT(size >= 1 && size <= MR_SHM_MOST && rank >= 0 && rank < size);
    s->t = (mr_transport){&shm_class, rank, size};
    s->bytes = mr_shm_file_bytes(size);
    s->segments = mr_new_array(char *, size);
    s->to = mr_new_array(mr_pipe, size);
    s->from = mr_new_array(mr_pipe, size);
    s->commons = mr_new_array(mr_pipe, size);
    s->owed = mr_new_array(size_t, size);
    s->lanes = mr_new_array(mr_shm_lane, size);
    s->worth = FIRST_WORTH;
    s->may_spin = mr_cpu_count() >= size;
    mr_mutex_init(&s->mu);
    if (memory)
        s->memory = *memory;
    for (int i = 0; i < size && !st; i++)
        st = map(s, i, fds[i]);
    for (int i = 0; i < size; i++)
        close(fds[i]);
    if (st) {
        shm_free(&s->t);
        return st;
    }
    lay_pipes(s);
    *out = &s->t;
    return NULL;
}
