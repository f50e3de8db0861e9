/* group/fd_passing.c -- a small server that passes file descriptors, on the local transport's thread.
 *
 * A client sends 8 bytes, the number of a file. The answer is 16 bytes, whether there is such a file (1) and its
 * size, with the descriptor attached. Each connection is for one question. An idle client costs a descriptor, so
 * at most MOST_WAITING connections wait; one of the others is closed for each connection beyond that.
 *
 * `guests` belongs to the transport's thread; `offers` is guarded by mu, since any thread may offer. A connection is
 * in `guests` from accept_client to close_client. */
#include "group/fd_passing.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/vec.h"
#include "net/local.h"
#include "net/local_io.h"

#define AGAIN_NS 1000000
enum { MOST_WAITING = 256, BACKLOG = 256 };

typedef struct offered_fd {
    uint64_t number;
    int fd;
    size_t bytes;
} offered_fd;

typedef struct guest { /* a connection that has not sent its question yet */
    mr_local_watch watch;
    int fd;
    mr_fd_server *server;
    mr_order bury;
} guest;

struct mr_fd_server {
    mr_local_watch watch;
    int fd;
    char *path;
    MR_VEC(guest *) guests; /* only the transport's thread uses it */
    mr_mutex mu;
    MR_VEC(offered_fd) offers MR_GUARDED_BY(mu);
};

typedef struct reply {
    uint64_t there, bytes;
} reply;

/* ---- answering ---- */

static bool is_same_user(int fd)
{
    struct ucred c;
    socklen_t n = sizeof(c);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.uid == getuid();
}

/* Sends the reply, which is small and goes into an empty socket, so it does not block. The lock is held while
 * sending, so that the descriptor is not closed meanwhile. */
static void send_reply(mr_fd_server *g, int to, uint64_t number)
{
    reply r = {0};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&r, sizeof(r)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    mr_lock(&g->mu);
    for (int i = 0; i < g->offers.n; i++)
        if (g->offers.p[i].number == number) {
            r = (reply){1, g->offers.p[i].bytes};
            m.msg_control = control;
            m.msg_controllen = sizeof(control);
            struct cmsghdr *c = CMSG_FIRSTHDR(&m);
            *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
            memcpy(CMSG_DATA(c), &g->offers.p[i].fd, sizeof(int));
        }
    ssize_t rc = sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)rc; /* a client without an answer asks again */
    mr_unlock(&g->mu);
}

static void bury(mr_order *o) { mr_free((char *)o - offsetof(guest, bury)); }

/* Ends a connection. The guest is freed later, because epoll may already have returned another event for it. */
static void close_client(guest *v)
{
    mr_fd_server *g = v->server;
    for (int i = 0; i < g->guests.n; i++)
        if (g->guests.p[i] == v) {
            mr_vec_remove_swap(&g->guests, i);
            break;
        }
    mr_local_watch_remove(v->fd);
    close(v->fd);
    v->bury.fn = bury;
    mr_local_later(&v->bury);
}

/* A client has sent its question, or closed the connection. A partial question is not possible in practice: 8
 * bytes sent at once arrive at once. */
static void read_question(mr_local_watch *w, uint32_t events)
{
    guest *v = (guest *)w;
    uint64_t number;
    (void)events;
    ssize_t n = recv(v->fd, &number, sizeof(number), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof(number))
        send_reply(v->server, v->fd, number);
    close_client(v);
}

/* Accepts a connection, from processes of the same user only. */
static void accept_client(mr_local_watch *w, uint32_t events)
{
    mr_fd_server *g = (mr_fd_server *)w;
    int fd = accept4(g->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (fd < 0)
        return;
    guest *v = mr_new(guest);
    *v = (guest){.watch = {read_question}, .fd = fd, .server = g};
    if (!is_same_user(fd) || !mr_local_watch_add(&v->watch, fd, EPOLLIN)) {
        close(fd);
        mr_free(v);
        return;
    }
    mr_vec_push(&g->guests, v);
    if (g->guests.n > MOST_WAITING)
        close_client(g->guests.p[0]);
}

/* ---- creating and freeing ---- */

/* Listens at a temporary name and then renames the socket, so a process that finds the path can connect to it. */
static mr_status *listen_at(mr_fd_server *g)
{
    struct sockaddr_un a;
    MR_TRY(mr_local_address(g->path, &a));
    char *aside = mr_printf("%s-", g->path);
    mr_status *st = mr_local_address(aside, &a);
    g->fd = st ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!st &&
        (g->fd < 0 || bind(g->fd, (struct sockaddr *)&a, sizeof(a)) != 0 || chmod(aside, 0600) != 0 ||
         listen(g->fd, BACKLOG) != 0 || rename(aside, g->path) != 0 || !mr_local_watch_add(&g->watch, g->fd, EPOLLIN)))
        st = mr_errno_status(errno, "listen at", g->path);
    if (st)
        unlink(aside);
    mr_free(aside);
    return st;
}

/* The socket exists and is watched when this returns. After an error nothing is left behind: no descriptor, and no
 * use of the local transport's thread. */
mr_status *mr_fd_server_new(const char *path, mr_fd_server **out)
{
    MR_TRY(mr_local_io_start());
    mr_fd_server *g = mr_new(mr_fd_server);
    g->watch.ready = accept_client;
    g->path = mr_strdup(path);
    g->fd = -1;
    mr_mutex_init(&g->mu);
    mr_status *st = listen_at(g);
    if (st) {
        if (g->fd >= 0)
            close(g->fd);
        mr_local_io_stop();
        mr_mutex_deinit(&g->mu);
        mr_free(g->path);
        mr_free(g);
        return st;
    }
    *out = g;
    return NULL;
}

/* Runs on the transport's thread, the only one that may use `guests`. */
static void stop_listening(void *arg)
{
    mr_fd_server *g = arg;
    mr_local_watch_remove(g->fd);
    close(g->fd);
    while (g->guests.n)
        close_client(g->guests.p[0]);
}

/* Removes the path first, so that no new client connects, then closes the connections on the transport's thread and
 * waits for that. Closes the descriptors that are still offered. */
void mr_fd_server_free(mr_fd_server *g)
{
    if (!g)
        return;
    unlink(g->path);
    mr_local_do(stop_listening, g);
    MR_ASSERT(g->guests.n == 0);
    mr_local_io_stop();
    for (int i = 0; i < g->offers.n; i++)
        close(g->offers.p[i].fd);
    mr_vec_deinit(&g->offers);
    mr_vec_deinit(&g->guests);
    mr_mutex_deinit(&g->mu);
    mr_free(g->path);
    mr_free(g);
}

void mr_fd_server_offer(mr_fd_server *g, uint64_t number, int fd, size_t bytes)
{
    MR_ASSERT(fd >= 0 && bytes > 0);
    mr_lock(&g->mu);
    mr_vec_push(&g->offers, (offered_fd){number, fd, bytes});
    mr_unlock(&g->mu);
}

/* A number that is not offered is ignored: the caller takes back all lanes, also those it never made. */
void mr_fd_server_take_back(mr_fd_server *g, uint64_t number)
{
    mr_lock(&g->mu);
    for (int i = 0; i < g->offers.n; i++)
        if (g->offers.p[i].number == number) {
            close(g->offers.p[i].fd);
            mr_vec_remove_swap(&g->offers, i);
            break;
        }
    mr_unlock(&g->mu);
}

/* ---- asking ---- */

/* Waits for the reply and the descriptor that comes with it (-1: none). The caller owns the descriptor. */
static mr_status *receive_reply(int from, int64_t deadline_ns, reply *r, int *fd)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {r, sizeof(*r)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct pollfd p = {.fd = from, .events = POLLIN};
    int ready;
    *fd = -1;
    do { /* again after a signal */
        int64_t ms = MR_MAX(0, deadline_ns - mr_now_ns()) / 1000000 + 1;
        ready = poll(&p, 1, (int)MR_MIN(ms, 60000));
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return mr_error(MR_DEADLINE_EXCEEDED, "group: a member did not pass its shared memory before the deadline");
    ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(c), sizeof(int));
    if (n == sizeof(*r))
        return NULL;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return mr_error(MR_UNAVAILABLE, "group: a member closed the connection instead of passing its shared memory");
}

/* Asks one question on a new connection. Both sides check that the other is the same user. */
static mr_status *ask_once(const char *path, uint64_t number, int64_t deadline_ns, reply *r, int *fd)
{
    struct sockaddr_un a;
    MR_TRY(mr_local_address(path, &a));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return mr_errno_status(errno, "open", "a socket");
    mr_status *st = NULL;
    struct timeval patience = {.tv_sec = 5}; /* connecting blocks while the backlog is full */
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(s, (struct sockaddr *)&a, sizeof(a)) != 0)
        st = mr_error(MR_UNAVAILABLE, "group: cannot connect to a member at %s: %s", path, strerror(errno));
    else if (!is_same_user(s))
        st = mr_error(MR_PERMISSION_DENIED, "group: %s belongs to another user", path);
    else if (send(s, &number, sizeof(number), MSG_NOSIGNAL) != sizeof(number))
        st = mr_error(MR_UNAVAILABLE, "group: %s: %s", path, strerror(errno));
    else
        st = receive_reply(s, deadline_ns, r, fd);
    close(s);
    return st;
}

/* Asks until the file is offered: members of a generation do not begin at the same time. */
mr_status *mr_fd_fetch(const char *path, uint64_t number, int64_t deadline_ns, const _Atomic bool *stop, int *fd, size_t *bytes)
{
    for (;;) {
        reply r = {0};
        MR_TRY(ask_once(path, number, deadline_ns, &r, fd));
        if (r.there == 1 && *fd >= 0) {
            *bytes = (size_t)r.bytes;
            return NULL;
        }
        if (*fd >= 0)
            close(*fd);
        if (stop && atomic_load(stop))
            return mr_error(MR_ABORTED, "group: the generation ended before the member at %s passed its shared memory",
                            path);
        if (mr_now_ns() > deadline_ns)
            return mr_error(MR_DEADLINE_EXCEEDED,
                            "group: the member at %s did not pass its shared memory before the deadline", path);
        mr_sleep_ns(AGAIN_NS);
    }
}
