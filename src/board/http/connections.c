/* board/http/connections.c -- how long a connection may take: see internal.h.
 *
 * A connection is ended by shutdown(2), which the event loop of libmicrohttpd sees as its end; it then closes the
 * descriptor. libmicrohttpd reports that before it closes it, and the lock is held for shutdown, so a descriptor that
 * has been reused by then is never hit. */
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "board/http/internal.h"

#define SECOND ((int64_t)1000000000)
#define WAIT_NS (60 * SECOND)         /* for a request to come; its head included */
#define GRACE_NS (30 * SECOND)        /* for a body or a reply, and at least */
enum { SLOWEST_BYTES_PER_S = 32768 }; /* for the rest of it */

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

static int64_t allowed_ns(const mr_board_connection *c)
{
    switch (c->doing) {
    case MR_BOARD_WAITS: return WAIT_NS;
    case MR_BOARD_WORKS: return INT64_MAX;
    default: return GRACE_NS + (int64_t)(c->bytes / SLOWEST_BYTES_PER_S) * SECOND;
    }
}

static void end_locked(mr_board_connections *t, mr_board_connection *c) MR_REQUIRES(t->mu)
{
    shutdown(c->fd, SHUT_RDWR);
    c->closing = true;
    t->n_closing++;
}

/* Once a second, and when there are too many. */
static void watch_connections(void *arg)
{
    mr_board_connections *t = arg;
    mr_lock(&t->mu);
    while (!t->stopping) {
        int64_t now = mr_now_ns();
        int too_many = t->n - t->n_closing - t->most;
        for (mr_board_connection *c = t->first; c; c = c->next) {
            if (c->closing)
                continue;
            bool waits = c->doing == MR_BOARD_WAITS && too_many > 0;
            if (!waits && now - c->since_ns <= allowed_ns(c))
                continue;
            end_locked(t, c);
            too_many--;
        }
        mr_cond_wait_until(&t->wake, &t->mu, now + SECOND);
    }
    mr_unlock(&t->mu);
}

mr_status *mr_board_connections_start(mr_board_connections *t, int most)
{
    *t = (mr_board_connections){.most = most};
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
    *c = (mr_board_connection){.fd = fd, .since_ns = mr_now_ns()};
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
        c->doing = doing;
        c->since_ns = mr_now_ns();
        unlink_locked(t, c);
        append_locked(t, c);
    }
    mr_unlock(&t->mu);
}
