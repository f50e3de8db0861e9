/* board/http/connections.c -- how long a connection may take: see internal.h.
 *
 * A connection is ended by shutdown(2), which the event loop of libmicrohttpd sees as its end; it then closes the
 * descriptor. libmicrohttpd reports that before it closes it, and the lock is held for shutdown, so a descriptor that
 * has been reused by then is never hit. */
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "board/http/internal.h"

#define SECOND ((int64_t)1000000000)
#define WORK_LOOK_NS (SECOND / 50) /* while a client may hang up, so that its simulation ends soon */

static mr_board_deadlines with_defaults(mr_board_deadlines d)
{
    return (mr_board_deadlines){
        .wait_ns = d.wait_ns ? d.wait_ns : 60 * SECOND,
        .grace_ns = d.grace_ns ? d.grace_ns : 30 * SECOND,
        .bytes_per_s = d.bytes_per_s ? d.bytes_per_s : 32768,
        .look_ns = d.look_ns ? d.look_ns : SECOND,
        .now_ns = d.now_ns ? d.now_ns : mr_now_ns,
    };
}

static void unlink_locked(mr_board_connections *t, mr_board_connection *c) MR_REQUIRES(t->mu)
{
    *(c->prev ? &c->prev->next : &t->first) = c->next;
    *(c->next ? &c->next->prev : &t->last) = c->prev;
    c->prev = c->next = NULL;
}

static void append_locked(mr_board_connections *t, mr_board_connection *c) MR_REQUIRES(t->mu)
{
    c->prev = t->last;
    *(t->last ? &t->last->next : &t->first) = c;
    t->last = c;
}

static int64_t allowed_ns(const mr_board_deadlines *d, const mr_board_connection *c)
{
    switch (c->doing) {
    case MR_BOARD_WAITS: return d->wait_ns;
    case MR_BOARD_WORKS: return INT64_MAX;
    default: return d->grace_ns + (int64_t)(c->bytes / (size_t)d->bytes_per_s) * SECOND;
    }
}

static void end_locked(mr_board_connections *t, mr_board_connection *c) MR_REQUIRES(t->mu)
{
    shutdown(c->fd, SHUT_RDWR);
    c->closing = true;
    t->n_closing++;
}

/* Whether the client has closed its end. One that only will not send more is not told apart: browsers do not do that. */
static bool has_hung_up(const mr_board_connection *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Looks at all connections once. */
static void look_locked(mr_board_connections *t) MR_REQUIRES(t->mu)
{
    int64_t now = t->deadlines.now_ns();
    int too_many = t->n - t->n_closing - t->most;
    for (mr_board_connection *c = t->first; c; c = c->next) {
        if (c->doing == MR_BOARD_WORKS && !c->gone && has_hung_up(c))
            c->gone = true;
        if (c->closing)
            continue;
        bool waits = c->doing == MR_BOARD_WAITS && too_many > 0;
        if (!waits && now - c->since_ns <= allowed_ns(&t->deadlines, c))
            continue;
        end_locked(t, c);
        too_many--;
    }
}

/* Looks regularly, more often while connections work, and when there are too many. */
static void watch_connections(void *arg)
{
    mr_board_connections *t = arg;
    mr_lock(&t->mu);
    while (!t->stopping) {
        look_locked(t);
        int64_t pause_ns = t->n_working ? MR_MIN(WORK_LOOK_NS, t->deadlines.look_ns) : t->deadlines.look_ns;
        mr_cond_wait_until(&t->wake, &t->mu, mr_now_ns() + pause_ns);
    }
    mr_unlock(&t->mu);
}

mr_status *mr_board_connections_start(mr_board_connections *t, int most, mr_board_deadlines d)
{
    *t = (mr_board_connections){.most = most, .deadlines = with_defaults(d)};
    mr_mutex_init(&t->mu);
    mr_cond_init(&t->wake);
    int err = mr_thread_start(&t->watch, "board-watch", watch_connections, t);
    if (!err)
        return NULL;
    mr_cond_deinit(&t->wake);
    mr_mutex_deinit(&t->mu);
    return mr_error(MR_RESOURCE_EXHAUSTED, "cannot start a thread: %s", strerror(err));
}

void mr_board_connections_stop(mr_board_connections *t)
{
    mr_lock(&t->mu);
    t->stopping = true;
    mr_cond_signal(&t->wake);
    mr_unlock(&t->mu);
    mr_thread_join(&t->watch);
    MR_ASSERT(!t->first);
    mr_cond_deinit(&t->wake);
    mr_mutex_deinit(&t->mu);
}

mr_board_connection *mr_board_connections_add(mr_board_connections *t, int fd)
{
    mr_board_connection *c = mr_new(mr_board_connection);
    MR_ASSERT(fd >= 0);
    *c = (mr_board_connection){.fd = fd, .since_ns = t->deadlines.now_ns()};
    mr_lock(&t->mu);
    append_locked(t, c);
    if (++t->n - t->n_closing > t->most)
        mr_cond_signal(&t->wake);
    mr_unlock(&t->mu);
    return c;
}

void mr_board_connections_remove(mr_board_connections *t, mr_board_connection *c)
{
    mr_lock(&t->mu);
    MR_ASSERT(!c->request && t->n > 0 && t->n_closing >= c->closing);
    t->n_working -= c->doing == MR_BOARD_WORKS;
    unlink_locked(t, c);
    t->n--;
    t->n_closing -= c->closing;
    mr_unlock(&t->mu);
    mr_free(c);
}

void mr_board_connections_set(mr_board_connections *t, mr_board_connection *c, mr_board_doing doing, size_t bytes)
{
    mr_lock(&t->mu);
    c->bytes = bytes;
    if (c->doing != doing) {
        t->n_working -= c->doing == MR_BOARD_WORKS;
        c->doing = doing;
        c->since_ns = t->deadlines.now_ns();
        unlink_locked(t, c);
        append_locked(t, c);
        if (doing == MR_BOARD_WORKS) {
            c->gone = false;
            if (t->n_working++ == 0)
                mr_cond_signal(&t->wake);
        }
    }
    mr_unlock(&t->mu);
}

void mr_board_connections_cancel(mr_board_connections *t)
{
    mr_lock(&t->mu);
    for (mr_board_connection *c = t->first; c; c = c->next)
        if (c->doing == MR_BOARD_WORKS)
            c->gone = true;
    mr_unlock(&t->mu);
}
