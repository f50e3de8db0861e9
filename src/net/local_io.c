/* net/local_io.c -- the thread of the local transport.
 *
 * It sleeps in epoll_wait. Waking a sleeper costs about 30 us, a round trip over a socket 5 us, so
 * after an event the thread spins for a few microseconds before it sleeps. It spins only where that is
 * likely to succeed: if the last sleep was short, as long as spinning finds something, and while no
 * other thread wants the core.
 *
 * Other threads reach it by orders, which run in the order of posting, and by timers. mr_local_mu
 * guards both. A thread that adds one wakes this one if it is asleep (`asleep`), so at most one wake is
 * written per sleep. Everything else in `io` belongs to this thread.
 *
 * Invariants: a timer with place p > 0 is heap.p[p - 1]; has_orders is true whenever `orders` is not
 * empty and the lock is free; timers are cleared only in this thread, so a cleared timer's callback
 * does not run. */
#include "net/local_io.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"

#define SPIN_NS 50000    /* the longest it spins */
#define SOON_NS 150000   /* a short sleep: both sides are woken, with a little work in between */
#define CROWDED_NS 20000 /* a yield that took this long gave the core to another thread */
#define GIVE_UP_NS INT64_C(100000000)
#define MOST_CROWDED_NS INT64_C(5000000000)
/* What spinning is worth: a hit adds one, a miss subtracts; at 0 spinning stops for GIVE_UP_NS. */
enum { MAX_EVENTS = 64, FIRST_WORTH = 8, MOST_WORTH = 32, MISS = 2 };

mr_mutex mr_local_mu = {PTHREAD_MUTEX_INITIALIZER};
mr_cond mr_local_changed;

static pthread_mutex_t life_mu = PTHREAD_MUTEX_INITIALIZER; /* of the thread; above all others */
static int n_users;                                         /* guarded by life_mu */

static struct {
    int epoll_fd, wake_fd;
    mr_thread thread;
    bool may_spin;
    /* guarded by mr_local_mu */
    mr_order *orders, **orders_end;
    MR_VEC(mr_local_timer *) heap;
    bool asleep; /* or about to be: an event for it must be written to wake_fd */
    int64_t asleep_until_ns;
    bool ending;
    /* the thread's */
    mr_order *later;
    bool spinning; /* spinning may pay */
    int worth;     /* of spinning */
    int64_t no_spin_until_ns;
    int64_t crowded_ns, crowded_pause_ns; /* when the core was last lost, and how long spinning stopped then */
    _Atomic bool has_orders; /* to be read without the lock */
} io;

static _Thread_local bool here __attribute__((tls_model("initial-exec")));

bool mr_local_io_here(void) { return here; }

/* Wakes the thread if it sleeps, once. */
static void wake_locked(void)
{
    if (!io.asleep)
        return;
    io.asleep = false;
    uint64_t one = 1;
    ssize_t rc = write(io.wake_fd, &one, sizeof(one));
    (void)rc; /* a full counter wakes as well */
}

/* ---- orders ---- */

/* The list is intrusive, so posting never allocates. An order must not be posted again before its function has
 * been called. */
void mr_local_post_locked(mr_order *o)
{
    MR_ASSERT(o->fn);
    o->next = NULL;
    *io.orders_end = o;
    io.orders_end = &o->next;
    atomic_store_explicit(&io.has_orders, true, memory_order_release);
    wake_locked();
}

void mr_local_post(mr_order *o)
{
    mr_lock(&mr_local_mu);
    mr_local_post_locked(o);
    mr_unlock(&mr_local_mu);
}

static bool has_orders(void) { return atomic_load_explicit(&io.has_orders, memory_order_acquire); }

/* Runs all orders that are posted. An order's function may free it, so the next one is read first. Orders that are
 * posted meanwhile run in the next round. */
static void run_orders(void)
{
    if (!has_orders())
        return;
    mr_lock(&mr_local_mu);
    mr_order *o = io.orders;
    io.orders = NULL;
    io.orders_end = &io.orders;
    atomic_store(&io.has_orders, false);
    mr_unlock(&mr_local_mu);
    while (o) {
        mr_order *next = o->next;
        o->fn(o);
        o = next;
    }
}

/* An order whose poster waits for it; on the poster's stack. */
typedef struct posted_call {
    mr_order order;
    void (*fn)(void *arg);
    void *arg;
    bool done;
} posted_call;

/* Once `done` is set and the lock is free, the poster may return, and the call, which is on its stack, is gone. */
static void run_posted_call(mr_order *o)
{
    posted_call *e = (posted_call *)o;
    e->fn(e->arg);
    mr_lock(&mr_local_mu);
    e->done = true;
    mr_cond_broadcast(&mr_local_changed);
    mr_unlock(&mr_local_mu);
}

/* Blocks the caller until fn has run. Orders before it run first, so it also waits for those. */
void mr_local_do(void (*fn)(void *arg), void *arg)
{
    MR_ASSERT(!here);
    posted_call e = {{run_posted_call, NULL}, fn, arg, false};
    mr_lock(&mr_local_mu);
    mr_local_post_locked(&e.order);
    while (!e.done)
        mr_cond_wait(&mr_local_changed, &mr_local_mu);
    mr_unlock(&mr_local_mu);
}

/* Only in the transport's thread, so the list needs no lock. */
void mr_local_later(mr_order *o)
{
    MR_ASSERT(here);
    o->next = io.later;
    io.later = o;
}

/* Runs what mr_local_later has put aside; each may put aside more. */
static void run_later(void)
{
    while (io.later) {
        mr_order *o = io.later;
        io.later = o->next;
        o->fn(o);
    }
}

/* ---- timers: a binary heap, the earliest first; a timer knows its place, counted from 1 ---- */

/* Writes a timer into a place of the heap; keeps the invariant that a timer knows its place. */
static void put_timer(int place, mr_local_timer *t) MR_REQUIRES(mr_local_mu)
{
    MR_ASSERT(place >= 1 && place <= io.heap.n);
    io.heap.p[place - 1] = t;
    t->place = place;
}

static mr_local_timer *timer_at(int place) { return io.heap.p[place - 1]; }

/* Moves a timer up to its place. */
static void sift_up(int place) MR_REQUIRES(mr_local_mu)
{
    mr_local_timer *t = timer_at(place);
    for (; place > 1 && timer_at(place / 2)->at_ns > t->at_ns; place /= 2)
        put_timer(place, timer_at(place / 2));
    put_timer(place, t);
}

/* Moves a timer down to its place. */
static void sift_down(int place) MR_REQUIRES(mr_local_mu)
{
    mr_local_timer *t = timer_at(place);
    for (int child; (child = 2 * place) <= io.heap.n; place = child) {
        if (child < io.heap.n && timer_at(child + 1)->at_ns < timer_at(child)->at_ns)
            child++;
        if (timer_at(child)->at_ns >= t->at_ns)
            break;
        put_timer(place, timer_at(child));
    }
    put_timer(place, t);
}

/* The thread is woken only if it would sleep longer than that. */
void mr_local_timer_set_locked(mr_local_timer *t, int64_t at_ns)
{
    MR_ASSERT(t->place == 0 && t->fn);
    t->at_ns = at_ns;
    mr_vec_push(&io.heap, t);
    t->place = io.heap.n;
    sift_up(io.heap.n);
    if (at_ns < io.asleep_until_ns)
        wake_locked();
}

/* The last timer of the heap takes the place of the cleared one, and moves up or down from there. */
void mr_local_timer_clear_locked(mr_local_timer *t)
{
    MR_ASSERT(here);
    int place = t->place;
    if (!place)
        return;
    MR_ASSERT(timer_at(place) == t);
    mr_local_timer *last = mr_vec_pop(&io.heap);
    t->place = 0;
    if (last == t)
        return;
    put_timer(place, last);
    sift_down(place);
    sift_up(last->place);
}

void mr_local_timer_set(mr_local_timer *t, int64_t at_ns)
{
    mr_lock(&mr_local_mu);
    mr_local_timer_set_locked(t, at_ns);
    mr_unlock(&mr_local_mu);
}

void mr_local_timer_clear(mr_local_timer *t)
{
    mr_lock(&mr_local_mu);
    mr_local_timer_clear_locked(t);
    mr_unlock(&mr_local_mu);
}

/* Takes a timer that is due out of the heap; NULL: there is none. */
static mr_local_timer *take_due(int64_t now)
{
    mr_lock(&mr_local_mu);
    mr_local_timer *t = io.heap.n && timer_at(1)->at_ns <= now ? timer_at(1) : NULL;
    if (t)
        mr_local_timer_clear_locked(t);
    mr_unlock(&mr_local_mu);
    return t;
}

/* `now` is read once: a timer that is set meanwhile for a later time runs in the next round, so the loop ends. */
static void run_timers(void)
{
    MR_ASSERT(here);
    int64_t now = mr_now_ns();
    for (mr_local_timer *t; (t = take_due(now));)
        t->fn(t);
}

/* ---- sockets ---- */

static int control_epoll(int op, mr_local_watch *w, int fd, uint32_t events)
{
    return epoll_ctl(io.epoll_fd, op, fd, &(struct epoll_event){events, {.ptr = w}});
}

bool mr_local_watch_add(mr_local_watch *w, int fd, uint32_t events)
{
    return control_epoll(EPOLL_CTL_ADD, w, fd, events) == 0;
}

/* The descriptor must be watched already. */
void mr_local_watch_change(mr_local_watch *w, int fd, uint32_t events)
{
    int rc = control_epoll(EPOLL_CTL_MOD, w, fd, events);
    MR_ASSERT(rc == 0);
    (void)rc;
}

void mr_local_watch_remove(int fd) { control_epoll(EPOLL_CTL_DEL, NULL, fd, 0); }

/* Resets the counter of wake_fd, so that epoll sleeps again. */
static void drain_wakes(mr_local_watch *w, uint32_t events)
{
    uint64_t n;
    ssize_t rc = read(io.wake_fd, &n, sizeof(n));
    (void)rc, (void)w, (void)events;
}

static mr_local_watch wake_watch = {drain_wakes};

/* ---- waiting ---- */

/* A yield has lost the core, perhaps for a tick of the system's clock (10 ms), in which a MiB per millisecond could
 * have been moved. While that happens again and again, spinning stops for longer and longer. */
static void stop_spinning(int64_t now)
{
    bool again = io.crowded_pause_ns && now - io.crowded_ns < 4 * io.crowded_pause_ns;
    io.crowded_pause_ns = again ? MR_MIN(2 * io.crowded_pause_ns, MOST_CROWDED_NS) : GIVE_UP_NS;
    io.crowded_ns = now;
    io.spinning = false;
    io.no_spin_until_ns = now + io.crowded_pause_ns;
}

/* Spins for events and orders. It yields to other threads that want the core. If there are many, a
 * thread that yields has to queue up where one that is woken goes first, so sleeping is better
 * then. `worth` measures success: at 0 the thread does not spin for GIVE_UP_NS. */
static int spin_for_events(struct epoll_event *events)
{
    int64_t now = mr_now_ns(), until = now + SPIN_NS, before;
    bool crowded = false;
    /* `asleep` is false meanwhile, so threads that post orders do not write to wake_fd. */
    do {
        int n = epoll_wait(io.epoll_fd, events, MAX_EVENTS, 0);
        if (n != 0 || has_orders()) {
            io.worth = MR_MIN(io.worth + 1, (int)MOST_WORTH);
            if (crowded) /* they may have come long ago */
                stop_spinning(now);
            return n;
        }
        if (crowded)
            break;
        sched_yield();
        before = now;
        now = mr_now_ns();
        crowded = now - before > CROWDED_NS;
    } while (now < until || crowded);
    if (crowded) {
        stop_spinning(now);
        return 0;
    }
    io.worth -= MISS;
    if (io.worth <= 0) {
        io.worth = FIRST_WORTH;
        io.no_spin_until_ns = now + GIVE_UP_NS;
    }
    return 0;
}

/* How long to sleep: milliseconds until the next timer, rounded up so that it is due then; -1: no
 * timer; 0: there are orders. Sets `asleep`, so from now on a thread that posts an order wakes this one. The
 * check for orders and `asleep` are under one lock, so no order is missed. */
static int prepare_sleep(void)
{
    mr_lock(&mr_local_mu);
    int64_t until = io.heap.n ? timer_at(1)->at_ns : INT64_MAX;
    /* With orders, or if it shall end, the thread only polls and is not asleep. */
    io.asleep = !io.orders && !io.ending;
    io.asleep_until_ns = until;
    int64_t ms = until == INT64_MAX ? -1 : (MR_MAX(until - mr_now_ns(), 0) + 999999) / 1000000;
    if (!io.asleep)
        ms = 0;
    mr_unlock(&mr_local_mu);
    return (int)MR_MIN(ms, 60 * 1000);
}

/* Sleeps, and decides by the time it took whether to spin next time. */
static int sleep_for_events(struct epoll_event *events)
{
    int ms = prepare_sleep();
    int64_t began = mr_now_ns();
    int n = epoll_wait(io.epoll_fd, events, MAX_EVENTS, ms);
    /* After a short sleep the next event is probably near, too. */
    int64_t now = mr_now_ns();
    io.spinning = io.may_spin && now - began < SOON_NS && now >= io.no_spin_until_ns;
    mr_lock(&mr_local_mu);
    io.asleep = false;
    mr_unlock(&mr_local_mu);
    return n;
}

/* Returns the number of events. It may be 0, or -1 after a signal: then only orders and timers are looked at. */
static int wait_for_events(struct epoll_event *events)
{
    int n = io.spinning ? spin_for_events(events) : 0;
    return n != 0 || has_orders() ? n : sleep_for_events(events);
}

/* The thread: orders, timers, then events, until it shall end and no order is left. Each round ends with the
 * orders of mr_local_later, because an event of this round may refer to what they free. */
static void run_thread(void *arg)
{
    struct epoll_event events[MAX_EVENTS];
    (void)arg;
    here = true;
    for (bool ending = false; !ending;) {
        run_orders();
        run_timers();
        run_later(); /* what orders and timers have left, before the thread sleeps */
        int n = wait_for_events(events);
        for (int i = 0; i < n; i++) {
            mr_local_watch *w = events[i].data.ptr;
            w->ready(w, events[i].events);
        }
        run_later();
        mr_lock(&mr_local_mu);
        ending = io.ending && !io.orders;
        mr_unlock(&mr_local_mu);
    }
    here = false;
}

/* ---- starting and stopping the thread ---- */

static void init_once(void) { mr_cond_init(&mr_local_changed); }

/* Of a thread that has ended or was not started. */
static void close_fds(void)
{
    if (io.epoll_fd >= 0)
        close(io.epoll_fd);
    if (io.wake_fd >= 0)
        close(io.wake_fd);
}

/* Starts the thread; life_mu is held. */
static mr_status *start_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
    io.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    io.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    io.orders_end = &io.orders;
    io.ending = false;
    io.asleep = false;
    io.spinning = false;
    io.worth = FIRST_WORTH;
    io.no_spin_until_ns = 0;
    io.crowded_pause_ns = 0;
    io.may_spin = mr_cpu_count() > 1;
    int err = 0;
    if (io.epoll_fd < 0 || io.wake_fd < 0 || !mr_local_watch_add(&wake_watch, io.wake_fd, EPOLLIN))
        err = errno;
    else
        err = mr_thread_start(&io.thread, "mr-local", run_thread, NULL);
    if (err) {
        close_fds();
        return mr_errno_status(err, "start", "the local transport");
    }
    return NULL;
}

/* The first user starts the thread. After a failure there is no user, and the next call tries again. */
mr_status *mr_local_io_start(void)
{
    pthread_mutex_lock(&life_mu);
    mr_status *st = n_users == 0 ? start_thread() : NULL;
    n_users += st == NULL;
    pthread_mutex_unlock(&life_mu);
    return st;
}

/* The last user ends the thread and waits for it. All users have cleared their timers and waited for their
 * orders before, so none is left. */
void mr_local_io_stop(void)
{
    MR_ASSERT(!here);
    pthread_mutex_lock(&life_mu);
    MR_ASSERT(n_users > 0);
    if (--n_users == 0) {
        mr_lock(&mr_local_mu);
        io.ending = true;
        wake_locked();
        mr_unlock(&mr_local_mu);
        mr_thread_join(&io.thread);
        close_fds();
        MR_ASSERT(io.heap.n == 0 && !io.orders);
        mr_vec_deinit(&io.heap);
    }
    pthread_mutex_unlock(&life_mu);
}
