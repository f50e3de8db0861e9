/* net/local_conn.c -- connections of the local transport, and of that over TCP: their lifetime, and what they read.
 *
 * States: over TCP first CONNECTING (a client), then SECURING (with TLS). HELLO until both sides have proved that they know the token, OPEN, DEAD. The descriptor is
 * closed under the lock when the state becomes DEAD, so a thread that holds the lock and sees another
 * state may write to it. The memory is freed with the last reference: the transport's thread has one while
 * the connection is not dead, and each call being answered and each loan of shared memory has another.
 *
 *     timer         set                                      when it fires
 *     hello_timer   by mr_conn_new                           closes: the handshake takes too long
 *     slow_timer    while a part of a frame has arrived      closes if hardly anything has arrived since
 *     trim_timer    while the pool has segments              frees segments that are not used
 *     lazy_timer    by mr_conn_flush_lazily_locked           writes the queue
 *
 * Only the transport's thread reads, and only it closes. Any malformed or unexpected frame closes the
 * connection. Only that thread writes `state`, so it may read `state` without the lock. */
#include "net/local_conn.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/local_out.h"

enum { READ_ROUNDS = 16 }; /* reads per connection before others get their turn */

/* ---- the handshake ---- */

/* Sends a message of the handshake. A fresh socket has room for these few bytes. */
static mr_status *send_all(mr_conn *c, const void *p, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};
    if (mr_conn_send(c, &iov, 1, -1) != (ssize_t)n)
        return mr_error(MR_UNAVAILABLE, "the peer closed the connection");
    return NULL;
}

/* Refuses a process of another user. The token protects too, but the kernel's answer needs no secret. */
static mr_status *check_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        return mr_errno_status(errno, "read the user id of", "the other end of a socket");
    if (peer.uid != geteuid())
        return mr_error(MR_PERMISSION_DENIED, "the peer runs as user %u, this process as user %u",
                        peer.uid, geteuid());
    return NULL;
}

/* The size of the handshake's next message. */
static size_t hello_bytes(const mr_conn *c)
{
    if (!c->end->accepts)
        return MR_HELLO_SERVER;
    return c->state == CONN_GREETED ? MR_HELLO_PROOF : MR_HELLO_CLIENT;
}

/* The handshake is complete. From here on other threads may queue frames. */
static void open_up(mr_conn *c)
{
    MR_ASSERT(c->state == CONN_HELLO || c->state == CONN_GREETED);
    mr_local_timer_clear(&c->hello_timer);
    mr_lock(&c->mu);
    c->state = CONN_OPEN;
    mr_unlock(&c->mu);
    c->end->open(c);
}

/* A whole message of the handshake has arrived: answers it, or opens the connection. */
static mr_status *hello_step(mr_conn *c)
{
    uint8_t out[MR_HELLO_SERVER];
    MR_ASSERT(mr_local_io_here() && c->hello_got == hello_bytes(c));
    c->hello_got = 0;
    if (!c->end->accepts) {
        MR_TRY(mr_hello_finish(&c->hello, c->hello_in, out));
        MR_TRY(send_all(c, out, MR_HELLO_PROOF));
        open_up(c);
    } else if (c->state == CONN_GREETED) {
        MR_TRY(mr_hello_check(&c->hello, c->hello_in));
        open_up(c);
    } else {
        MR_TRY(mr_hello_answer(&c->hello, c->token, c->hello_in, out));
        MR_TRY(send_all(c, out, MR_HELLO_SERVER));
        c->state = CONN_GREETED;
    }
    return NULL;
}

/* A client's end sends the first message; a server's waits for it. */
static mr_status *begin_hello(mr_conn *c)
{
    uint8_t first[MR_HELLO_CLIENT];
    c->state = CONN_HELLO;
    if (c->end->accepts)
        return NULL;
    MR_TRY(mr_hello_begin(&c->hello, c->token, first));
    return send_all(c, first, sizeof(first));
}

/* Goes on with the handshake of TLS. *more: it is over, and what follows it may have been read already. */
static mr_status *secure(mr_conn *c, bool *more)
{
    *more = false;
    MR_TRY(c->tls_lib->handshake(c->tls, more));
    if (!*more)
        return NULL;
    c->peer_name = mr_strdup(c->tls_lib->peer_name(c->tls));
    return begin_hello(c);
}

/* The socket is connected: what follows depends on the link. */
static mr_status *begin_link(mr_conn *c)
{
    bool more;
    if (!c->tls)
        return begin_hello(c);
    c->state = CONN_SECURING;
    return c->end->accepts ? NULL : secure(c, &more);
}

/* The system has connected a client's socket, or could not. */
static mr_status *end_connect(mr_conn *c)
{
    int err = 0;
    socklen_t n = sizeof(err);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &n) != 0)
        err = errno;
    if (err)
        return mr_error(MR_UNAVAILABLE, "cannot connect (%s)", strerror(err));
    mr_lock(&c->mu);
    mr_local_watch_change(&c->watch, c->fd, c->events = EPOLLIN);
    mr_unlock(&c->mu);
    return begin_link(c);
}

/* hello_timer: a peer that connects and then says nothing must not hold a connection for ever. */
static void hello_late(mr_local_timer *t)
{
    mr_conn *c = (mr_conn *)((char *)t - offsetof(mr_conn, hello_timer));
    mr_status *why = mr_error(MR_UNAVAILABLE, "the handshake took too long");
    mr_conn_close(c, why);
    mr_status_free(why);
}

/* ---- reading ---- */

/* Keeps descriptors that arrived until the frame arrives that says what they are. All others are
 * closed, and are an error. */
static mr_status *keep_fds(mr_conn *c, struct msghdr *m)
{
    mr_status *st = NULL;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        int n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + (size_t)i * sizeof(int), sizeof(int));
            if (c->n_fds < MR_CONN_MAX_FDS && c->state == CONN_OPEN) {
                c->fds[c->n_fds++] = fd;
                continue;
            }
            close(fd);
            if (!st)
                st = mr_invalid("the peer sent unexpected file descriptors");
        }
    }
    if (!st && (m->msg_flags & MSG_CTRUNC))
        st = mr_invalid("the peer sent too many file descriptors");
    return st;
}

static size_t room_of(const struct iovec *space, int n_space)
{
    size_t n = 0;
    for (int i = 0; i < n_space; i++)
        n += space[i].iov_len;
    return n;
}

/* Reads what has arrived, up to the space given, without blocking; *n 0: nothing yet. *more: there may be more.
 * Descriptors that came with the bytes are kept in c->fds. */
static mr_status *receive_bytes(mr_conn *c, struct iovec *space, int n_space, size_t *n, bool *more)
{
    bool drained;
    if (c->tls) {
        MR_TRY(c->tls_lib->receive(c->tls, space, n_space, n, &drained));
        *more = !drained;
        return NULL;
    }
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MR_CONN_MAX_FDS * sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = space,
                       .msg_iovlen = (size_t)n_space,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do
        got = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *n = got > 0 ? (size_t)got : 0;
    *more = *n == room_of(space, n_space);
    if (got < 0)
        return errno == EAGAIN ? NULL : mr_error(MR_UNAVAILABLE, "%s", strerror(errno));
    mr_status *st = keep_fds(c, &m);
    if (!st && got == 0)
        st = mr_error(MR_UNAVAILABLE, "the peer closed the connection");
    return st;
}

/* Reads at most the rest of the current message, so that frames behind the handshake stay in the socket for
 * read_frames. */
static mr_status *read_hello(mr_conn *c, bool *more)
{
    MR_ASSERT(c->hello_got < hello_bytes(c) && hello_bytes(c) <= sizeof(c->hello_in));
    struct iovec space = {c->hello_in + c->hello_got, hello_bytes(c) - c->hello_got};
    size_t n;
    MR_TRY(receive_bytes(c, &space, 1, &n, more));
    c->hello_got += n;
    return c->hello_got == hello_bytes(c) ? hello_step(c) : NULL;
}

/* The peer announces a segment; its descriptor has arrived before the frame. mr_segment_map takes the
 * descriptor. */
static mr_status *take_segment(mr_conn *c, const mr_frame_head *h)
{
    if (c->n_fds == 0)
        return mr_invalid("the peer announced a segment without its file descriptor");
    MR_ASSERT(c->n_fds <= MR_CONN_MAX_FDS);
    int fd = c->fds[0];
    memmove(c->fds, c->fds + 1, (size_t)--c->n_fds * sizeof(int));
    return mr_segment_map(&c->table, h->id, h->value, fd);
}

/* The peer has read a message in our shared memory: the segment can be filled again. */
static mr_status *segment_came_back(mr_conn *c, uint64_t id)
{
    mr_lock(&c->mu);
    bool ours = mr_segment_return(&c->pool, id, mr_now_ns());
    mr_unlock(&c->mu);
    return ours ? NULL
                : mr_invalid("the peer returned segment %llu, which it does not have",
                             (unsigned long long)id);
}

/* Frames about segments are handled here, all others by the client's or the server's side. */
static mr_status *take_frame(mr_conn *c, mr_net_frame *f)
{
    if (c->tcp)
        return c->end->frame(c, f); /* which refuses all that is not about calls */
    switch (f->head.kind) {
    case MR_FRAME_SEGMENT: return take_segment(c, &f->head);
    case MR_FRAME_FORGET: return mr_segment_forget(&c->table, f->head.id);
    case MR_FRAME_RETURN: return segment_came_back(c, f->head.id);
    default: return c->end->frame(c, f);
    }
}

/* ---- slow peers ---- */

/* Sets the timer that checks a peer's pace while a frame is arriving. */
static void watch_pace(mr_conn *c)
{
    if (c->closed || !mr_frame_reader_is_inside(&c->reader))
        return;
    mr_lock(&mr_local_mu); /* other threads move our timer's place in the heap */
    bool is_set = c->slow_timer.place != 0;
    mr_unlock(&mr_local_mu);
    if (is_set)
        return;
    c->frames_then = c->n_frames;
    c->bytes_then = c->n_bytes;
    mr_local_timer_set(&c->slow_timer, mr_now_ns() + mr_local_settings_get()->frame_ns);
}

/* The timer: closes the connection if the same frame is still arriving and has hardly grown, so that
 * its memory is not held for ever. If we do not read ourselves, the peer is not to blame. */
static void look_at_pace(mr_local_timer *t)
{
    mr_conn *c = (mr_conn *)((char *)t - offsetof(mr_conn, slow_timer));
    /* settle_locked stops reading from a client that leaves too many replies unread. */
    mr_lock(&c->mu);
    bool reading = c->events & EPOLLIN;
    mr_unlock(&c->mu);
    if (!reading || !mr_frame_reader_is_inside(&c->reader) || c->n_frames != c->frames_then ||
        c->n_bytes - c->bytes_then >= MR_CONN_SLOWEST) {
        watch_pace(c);
        return;
    }
    mr_status *why = mr_error(MR_DEADLINE_EXCEEDED, "the peer sends too slowly");
    mr_conn_close(c, why);
    mr_status_free(why);
}

/* Reads once and handles all frames that are complete. *more: there may be more to read. A frame's
 * handler may close the connection. */
static mr_status *read_frames(mr_conn *c, bool *more)
{
    struct iovec space[2];
    mr_net_frame f;
    size_t n;
    int n_space = mr_frame_reader_space(&c->reader, space);
    if (space[0].iov_len > MR_CONN_AT_ONCE) {
        space[0].iov_len = MR_CONN_AT_ONCE;
        n_space = 1;
    }
    MR_TRY(receive_bytes(c, space, n_space, &n, more));
    mr_frame_reader_came(&c->reader, n);
    c->n_bytes += n;
    /* The reader must give out all complete frames before it is asked for space again. */
    for (bool got = true; got && !c->closed; c->n_frames++) {
        MR_TRY(mr_frame_reader_next(&c->reader, &f, &got));
        if (!got)
            break;
        mr_status *st = take_frame(c, &f);
        mr_bytes_deinit(&f.body);
        MR_TRY(st);
    }
    watch_pace(c);
    return NULL;
}

/* Reads once, whatever the connection waits for. */
static mr_status *read_once(mr_conn *c, bool *more)
{
    switch (c->state) {
    case CONN_OPEN: return read_frames(c, more);
    case CONN_SECURING: return secure(c, more);
    default: return read_hello(c, more);
    }
}

/* Reads for a while; an error closes the connection. What is left in a TLS session is read in the next round, after
 * other connections had their turn: the socket does not report it. */
static void read_some(mr_conn *c)
{
    bool more = true;
    for (int i = 0; i < READ_ROUNDS && more && !c->closed; i++) {
        mr_status *st = read_once(c, &more);
        if (st)
            mr_conn_close(c, st);
        mr_status_free(st);
    }
    if (c->closed || !c->tls || !more)
        return;
    mr_lock(&c->mu);
    mr_conn_reread_locked(c);
    mr_unlock(&c->mu);
}

void mr_conn_reread_locked(mr_conn *c)
{
    if (c->rereading)
        return;
    c->rereading = true;
    mr_conn_ref(c);
    mr_local_post(&c->reread);
}

/* The order. While reading is paused (settle_locked) nothing happens; the end of the pause posts the order again. */
static void run_reread(mr_order *o)
{
    mr_conn *c = (mr_conn *)((char *)o - offsetof(mr_conn, reread));
    mr_lock(&c->mu);
    c->rereading = false;
    bool reading = c->events & EPOLLIN;
    mr_unlock(&c->mu);
    if (!c->closed && reading)
        read_some(c);
    mr_conn_unref(c);
}

/* The socket is readable or writable. An error or a hang-up counts as readable: reading finds the cause and
 * closes the connection. */
static void socket_ready(mr_local_watch *w, uint32_t events)
{
    mr_conn *c = (mr_conn *)w;
    if (!c->closed && c->state == CONN_CONNECTING) {
        mr_status *st = end_connect(c);
        if (st)
            mr_conn_close(c, st);
        mr_status_free(st);
        return;
    }
    if (!c->closed && (events & ~(uint32_t)EPOLLOUT))
        read_some(c);
    if (!c->closed && (events & EPOLLOUT))
        mr_conn_flush(c);
}

/* ---- creating and closing ---- */

/* keep of the segment table: each loan holds a reference, which loan_returned drops. */
static void keep_conn(void *owner) { mr_conn_ref(owner); }

/* A message in the peer's shared memory was dropped: its segment goes back. Called by any thread, with
 * no lock held; drops the loan's reference. */
static void loan_returned(void *owner, uint32_t id)
{
    mr_conn *c = owner;
    mr_frame_head h = {.kind = MR_FRAME_RETURN, .id = id};
    mr_out_frame *f = mr_conn_compose(c, h, (mr_sv){"", 0}, NULL);
    mr_lock(&c->mu);
    bool open = mr_conn_is_open_locked(c);
    if (open)
        mr_conn_queue_locked(c, f, NULL);
    mr_unlock(&c->mu);
    if (open)
        mr_conn_flush(c);
    else
        mr_out_frame_free(f);
    mr_conn_unref(c);
}

/* The order that mr_conn_flush leaves in the transport's thread; drops the reference that was taken for it. */
static void run_flush(mr_order *o)
{
    mr_conn *c = (mr_conn *)((char *)o - offsetof(mr_conn, flush));
    c->flush_soon = false;
    mr_conn_flush_now(c);
    mr_conn_unref(c);
}

/* The order that mr_conn_close leaves: drops the transport thread's reference. */
static void run_bury(mr_order *o)
{
    mr_conn_unref((mr_conn *)((char *)o - offsetof(mr_conn, bury)));
}

/* Makes a connection with its timers and callbacks. It has one reference, for the transport's thread, and its
 * state is CONN_HELLO. */
static mr_conn *alloc_conn(const mr_conn_end *end, void *owner, int fd, size_t max_message, const mr_link *link)
{
    mr_local_settings *s = mr_local_settings_get();
    mr_conn *c = mr_new(mr_conn);
    mr_refs_init(&c->refs);
    mr_mutex_init(&c->mu);
    c->watch.ready = socket_ready;
    c->end = end;
    c->owner = owner;
    c->fd = fd;
    c->events = EPOLLIN;
    c->peer_name = NULL;
    c->tcp = c->hello.direct = link && link->tcp;
    memcpy(c->token, link ? link->token : s->token, MR_HELLO_TOKEN);
    c->state = CONN_HELLO;
    c->queue_end = &c->queue;
    c->hello_timer.fn = hello_late;
    c->slow_timer.fn = look_at_pace;
    c->trim_timer.fn = mr_conn_trim;
    c->lazy_timer.fn = mr_conn_flush_late;
    c->flush.fn = run_flush;
    c->bury.fn = run_bury;
    c->reread.fn = run_reread;
    c->pool.budget = &s->segments;
    c->table =
        (mr_segment_table){.limit = s->most_mapped, .owner = c, .keep = keep_conn, .returned = loan_returned};
    mr_frame_reader_init(&c->reader, &c->table, &s->received, max_message);
    return c;
}

/* TLS over the socket, if the link has it. */
static mr_status *open_tls(mr_conn *c, const mr_link *link)
{
    if (!link || !link->tls)
        return NULL;
    MR_TRY(mr_net_tls(&c->tls_lib));
    return c->tls_lib->open(link->tls, c->fd, &c->tls);
}

/* A client's end sends the first message of the handshake here, if the socket is connected; the rest happens as bytes
 * arrive. On failure fd is closed, and end->closed is not called. */
mr_status *mr_conn_new(const mr_conn_end *end, void *owner, int fd, size_t max_message, const mr_link *link,
                       mr_conn **out)
{
    MR_ASSERT(mr_local_io_here());
    mr_status *st = NULL;
    bool connecting = link && link->connecting;
    mr_conn *c = alloc_conn(end, owner, fd, max_message, link);
    if (!c->tcp)
        MR_GO(check_user(fd));
    MR_GO(open_tls(c, link));
    if (connecting) {
        c->state = CONN_CONNECTING;
        c->events = EPOLLOUT;
    } else {
        MR_GO(begin_link(c));
    }
    if (!mr_local_watch_add(&c->watch, fd, c->events))
        MR_GO(mr_errno_status(errno, "watch", "a socket"));
    mr_local_timer_set(&c->hello_timer, mr_now_ns() + mr_local_settings_get()->hello_ns);
    *out = c;
    return NULL;
out:
    close(fd);
    c->state = CONN_DEAD;
    mr_conn_unref(c);
    return st;
}

void mr_conn_ref(mr_conn *c) { mr_refs_take(&c->refs); }

/* Frees the connection with the last reference. That may be in any thread: loans and calls hold references. */
void mr_conn_unref(mr_conn *c)
{
    if (!mr_refs_drop(&c->refs))
        return;
    MR_ASSERT(c->state == CONN_DEAD && !c->queue && c->n_fds == 0);
    mr_frame_reader_deinit(&c->reader);
    mr_segment_table_deinit(&c->table);
    mr_segment_pool_deinit(&c->pool);
    mr_vec_deinit(&c->calls);
    mr_vec_deinit(&c->free_ids);
    if (c->tls)
        c->tls_lib->close(c->tls);
    mr_free(c->peer_name);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}

bool mr_conn_is_open_locked(const mr_conn *c) { return c->state == CONN_OPEN; }

/* The timers are cleared in the transport's thread, so none of them runs afterwards. The last
 * reference of that thread is dropped only after the events at hand (`bury`), because one of them may
 * be for this connection. */
void mr_conn_close(mr_conn *c, const mr_status *why)
{
    MR_ASSERT(mr_local_io_here());
    if (c->closed)
        return;
    c->closed = true;
    /* Under the lock, so that no thread writes to a descriptor that is closed, or that was opened again since. */
    mr_lock(&c->mu);
    MR_ASSERT(c->state != CONN_DEAD);
    mr_local_watch_remove(c->fd);
    close(c->fd);
    c->state = CONN_DEAD;
    mr_out_frame *unsent = mr_conn_empty_queue_locked(c);
    mr_unlock(&c->mu);
    mr_local_timer_clear(&c->hello_timer);
    mr_local_timer_clear(&c->slow_timer);
    mr_local_timer_clear(&c->trim_timer);
    mr_local_timer_clear(&c->lazy_timer);
    mr_out_frames_free(unsent);
    for (int i = 0; i < c->n_fds; i++)
        close(c->fds[i]);
    c->n_fds = 0;
    c->end->closed(c, why);
    mr_segment_table_deinit(&c->table); /* mappings that are lent stay until their loans end */
    mr_local_later(&c->bury);
}
