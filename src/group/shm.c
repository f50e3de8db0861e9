/* group/shm.c -- waiting for members on this host, and messages between them.
 *
 * A waiter spins for a few microseconds if spinning has recently succeeded, then sleeps on the futex in its bell.
 * A member that puts bytes into a pipe or takes some out checks whether the other end sleeps, and rings if so.
 * Both sides have a full barrier between their two accesses, so either the sleeper sees the change or the other
 * side sees that it sleeps: no wake-up is lost.
 *
 * A wake-up does not happen for every few bytes: with fewer cores than members, the woken member would displace
 * the one that woke it. The bytes not yet reported to a member are counted in `owed`; it is woken when they are
 * half a pipe, and before this member sleeps.
 *
 * One thread uses a transport at a time, except for `fail`, which only touches the fields under mu and the bell. */
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
/* The credit of spinning: a success adds one, a miss subtracts MISS; at 0 there is no spinning for NO_SPIN_NS. */
enum { FIRST_WORTH = 8, MOST_WORTH = 32, MISS = 2, RELAX = 16 };
enum { SPINNING, ARMED };

/* ---- waking ---- */

/* Tells the CPU that this is a spin loop, which saves power and leaves the core to its other hardware thread. */
static void relax_cpu(void)
{
    for (int i = 0; i < RELAX; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* The count changes before the wake-up, so a member that is about to sleep on the old count does not sleep. */
static void ring_bell(mr_shm_bell *b)
{
    atomic_fetch_add(&b->rings, 1);
    syscall(SYS_futex, &b->rings, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Wakes a member if it sleeps. The fence pairs with the one in mr_shm_idle. */
static void wake_member(mr_shm *s, int rank)
{
    MR_ASSERT(rank != s->t.rank);
    mr_shm_bell *b = mr_shm_bell_of(s, rank);
    s->owed[rank] = 0;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&b->asleep, memory_order_relaxed))
        ring_bell(b);
}

void mr_shm_moved(mr_shm *s, int rank, size_t n)
{
    s->owed[rank] += n;
    if (s->owed[rank] >= s->to[rank].bytes / 2)
        wake_member(s, rank);
}

void mr_shm_tell(mr_shm *s)
{
    for (int i = 0; i < s->t.size; i++)
        if (s->owed[i])
            wake_member(s, i);
}

/* ---- sleeping ---- */

mr_status *mr_shm_broken(const mr_shm *s, int rank)
{
    return mr_error(MR_DATA_LOSS, "group: member %d of %d wrote invalid data into shared memory", rank, s->t.size);
}

/* The error of `fail`, as a copy; NULL: the transport has not failed. Takes the lock only after a failure. */
static mr_status *copy_failure(mr_shm *s)
{
    if (!atomic_load_explicit(&s->has_failed, memory_order_acquire))
        return NULL;
    mr_lock(&s->mu);
    mr_status *st = mr_status_copy(s->failed);
    mr_unlock(&s->mu);
    return st;
}

/* Sleeps until the bell rings, the deadline passes, or a long wait is due to be logged. The wait that is logged
 * goes on in s->wait until something is found. */
static mr_status *sleep_on_bell(mr_shm *s, uint32_t rings, int64_t deadline_ns)
{
    mr_shm_bell *b = mr_shm_bell_of(s, s->t.rank);
    int64_t now_ns = mr_now_ns();
    double seconds;
    if (!s->wait.begun_ns)
        mr_long_wait_begin(&s->wait, now_ns);
    if (mr_long_wait_due(&s->wait, now_ns, &seconds))
        mr_info("Still waiting for member %d of %d of the group on this host: it has neither sent nor received data "
                "(%.0f s)",
                s->waits_for, s->t.size, seconds);
    int64_t left = (deadline_ns ? MR_MIN(deadline_ns, s->wait.next_ns) : s->wait.next_ns) - now_ns;
    if (deadline_ns && deadline_ns <= now_ns)
        left = 0;
    if (left <= 0)
        return mr_error(MR_DEADLINE_EXCEEDED, "group: waited for member %d of %d until the deadline", s->waits_for,
                        s->t.size);
    struct timespec ts = {left / 1000000000, left % 1000000000};
    syscall(SYS_futex, &b->rings, FUTEX_WAIT, rings, &ts, NULL, 0);
    return NULL;
}

/* Whether to spin once more in this wait. Spinning that did not help costs credit. */
static bool keep_spinning(mr_shm *s, mr_shm_wait *w)
{
    int64_t now = mr_now_ns();
    MR_ASSERT(s->may_spin && s->worth > 0 && s->worth <= MOST_WORTH);
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

/* Called when there was nothing to do. It spins, then announces that it sleeps (ARMED) and returns so that the
 * caller looks once more, and sleeps only at the next call: otherwise a change between the look and the
 * announcement would be missed. */
mr_status *mr_shm_idle(mr_shm *s, mr_shm_wait *w, int64_t deadline_ns)
{
    mr_shm_bell *b = mr_shm_bell_of(s, s->t.rank);
    MR_TRY(copy_failure(s));
    if (w->phase == ARMED) {
        mr_status *st = sleep_on_bell(s, w->rings, deadline_ns);
        atomic_store(&b->asleep, 0);
        *w = (mr_shm_wait){.phase = SPINNING,
                           .began_ns = 1}; /* the caller looks again; no spinning right after a sleep */
        return st;
    }
    if (w->rounds == 0 && !w->began_ns) /* the first call since something was found, or since the operation began */
        s->wait.begun_ns = 0;
    if (w->rounds++ == 0)
        mr_shm_tell(s);
    if (w->began_ns != 1 && s->may_spin && keep_spinning(s, w)) {
        relax_cpu();
        return NULL;
    }
    w->phase = ARMED;
    w->rings = atomic_load(&b->rings);
    atomic_store(&b->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return NULL;
}

/* Ends a wait. If spinning found something before the wait slept, that adds credit. */
void mr_shm_busy(mr_shm *s, mr_shm_wait *w)
{
    if (w->phase == ARMED)
        atomic_store(&mr_shm_bell_of(s, s->t.rank)->asleep, 0);
    else if (w->began_ns > 1)
        s->worth = MR_MIN(s->worth + 1, (int)MOST_WORTH);
    *w = (mr_shm_wait){0};
}

/* ---- messages ---- */

/* Appends a transfer to the list; finish moves its bytes. Order matters: pipes carry messages in the order of
 * starts. */
static void start_transfer(mr_transport *t, mr_transfer *x)
{
    MR_ASSERT(x->peer >= 0 && x->peer < t->size && x->peer != t->rank);
    mr_shm *s = (mr_shm *)t;
    mr_transfer **end = &s->transfers;
    while (*end)
        end = &(*end)->next;
    x->next = NULL;
    x->done = 0;
    x->number = 0; /* 1: the head has been sent or received */
    *end = x;
}

/* Puts the head, or as many bytes as fit in one piece, into the pipe. Bytes go in whole lines; the padding is
 * skipped by the reader. */
static mr_status *send_some(mr_shm *s, mr_transfer *x, bool *moved)
{
    MR_ASSERT(x->sending && x->done <= x->n);
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

/* Checks the head of a message against what the receiver expects. A head of an operation means that the sender runs
 * an operation where this member waits for a message. */
static mr_status *check_message(const mr_shm *s, const mr_transfer *x, const mr_shm_head *h)
{
    if (h->magic != MR_SHM_MAGIC)
        return mr_shm_broken(s, x->peer);
    if (h->kind != MR_SHM_MESSAGE || h->count < 0 || (uint64_t)h->count != x->n)
        return mr_invalid("group: member %d runs a different operation: it sent %lld bytes, expected %zu", x->peer,
                          h->kind == MR_SHM_MESSAGE ? (long long)h->count : 0LL, x->n);
    return NULL;
}

/* Takes the head, or as many bytes as are ready in one piece. The head is copied before it is checked, because its
 * writer could still change it. */
static mr_status *receive_some(mr_shm *s, mr_transfer *x, bool *moved)
{
    MR_ASSERT(!x->sending && x->done <= x->n);
    mr_pipe *p = &s->from[x->peer];
    const char *at;
    size_t want = x->number ? mr_shm_pad(x->n - x->done) : MR_PIPE_LINE, ready = mr_pipe_ready(p, want, &at);
    if (ready == MR_PIPE_BROKEN)
        return mr_shm_broken(s, x->peer);
    if (ready == 0)
        return NULL;
    if (!x->number) {
        mr_shm_head h;
        memcpy(&h, at, sizeof(h));
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

/* Whether this is the first unfinished transfer in its direction with its peer: only that one may use the pipe. */
static bool is_first(const mr_shm *s, const mr_transfer *x)
{
    for (const mr_transfer *y = s->transfers; y != x; y = y->next)
        if (y->peer == x->peer && y->sending == x->sending && !is_done(y))
            return false;
    return true;
}

/* Moves bytes of every transfer that can move, so that waiting for one does not block the others. */
static mr_status *move_all(mr_shm *s, bool *moved)
{
    for (mr_transfer *x = s->transfers; x; x = x->next) {
        if (is_done(x) || !is_first(s, x))
            continue;
        MR_TRY(x->sending ? send_some(s, x, moved) : receive_some(s, x, moved));
    }
    return NULL;
}

/* Takes a transfer out of the list, wherever it is: finish may be called in any order. */
static void remove_transfer(mr_shm *s, mr_transfer *x)
{
    mr_transfer **link = &s->transfers;
    while (*link && *link != x)
        link = &(*link)->next;
    if (*link)
        *link = x->next;
}

/* Moves bytes until x is done. On every return, x is out of the list and the other members have been told of what
 * moved. */
static mr_status *finish_transfer(mr_transport *t, mr_transfer *x, int64_t deadline_ns)
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
    remove_transfer(s, x);
    return st;
}

/* ---- creating and freeing ---- */

/* From any thread: records the error and wakes this member's own bell, so that a wait ends. */
static void fail_transport(mr_transport *t, const mr_status *st)
{
    mr_shm *s = (mr_shm *)t;
    mr_lock(&s->mu);
    if (!s->failed)
        s->failed = mr_status_copy(st);
    mr_unlock(&s->mu);
    atomic_store(&s->has_failed, true);
    ring_bell(mr_shm_bell_of(s, t->rank));
}

/* Also frees a transport that mr_shm_new could not complete, so segments may be missing. */
static void shm_free(mr_transport *t)
{
    mr_shm *s = (mr_shm *)t;
    MR_ASSERT(!s->transfers); /* every transfer that was started has been finished */
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

static const mr_transport_class shm_class = {"shm",      start_transfer, finish_transfer,
                                             mr_shm_run, fail_transport, shm_free};

int mr_shm_file_new(int size) { return mr_segment_file_new(mr_shm_file_bytes(size)); }

/* Maps a member's segment. Its size and seals are checked first, so that no access can fault later. */
static mr_status *map_segment(mr_shm *s, int rank, int fd)
{
    MR_ASSERT(!s->segments[rank]);
    mr_status *st = mr_segment_file_check(fd, (int64_t)s->bytes);
    if (st)
        return mr_status_prepend(st, "group: the shared memory of member %d: ", rank);
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: cannot map %zu bytes of shared memory of member %d", s->bytes,
                        rank);
    s->segments[rank] = p;
    return NULL;
}

/* Sets up this member's ends of all pipes: in its own segment it writes, in the segments of others it reads. */
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

/* Maps the segments of all members. Spinning is allowed only if each member can have a core. */
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
        st = map_segment(s, i, fds[i]);
    /* The mappings keep the memory alive. */
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
