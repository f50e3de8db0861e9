/* net/local_out.c -- connections of the local transport: what they write.
 *
 * Frames wait in a queue; a frame owns its body until its last byte is sent. The thread that has
 * queued a frame writes as many frames as the socket takes, many with one call. What remains is written when
 * the socket has room again. A frame with a descriptor starts a new call to sendmsg: descriptors
 * travel with the first byte.
 *
 * Large pieces are copied into a segment of shared memory when the frame is made, without a lock. A
 * segment is announced to the receiver in the queue, right before the first frame that uses it.
 *
 * Invariants, under the connection's lock:
 *     only the first frame of the queue can be partly sent (`begun`);
 *     queued_bytes is the number of bytes in the queue that are not sent;
 *     *withdraw of a frame is the frame itself while none of its bytes is sent, and NULL afterwards;
 *     the socket is watched for writability while the queue is not empty, once a flush has found it full.
 *
 * When frames are written:
 *     mr_conn_flush                 at once; in the transport's thread, after the events of this round
 *     mr_net_hold, mr_net_release     at the release, all frames to a peer together
 *     mr_conn_flush_lazily_locked   within LAZY_NS, or with the next flush */
#include "net/local_out.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_IOV = 64 };
#define LAZY_NS INT64_C(5000000)          /* the longest a lazy frame waits */
#define TRIM_NS (5 * INT64_C(1000000000)) /* shared memory that is unused for this long is freed */

/* A frame to be sent, with its head in the same memory. In the queue it belongs to its connection. */
struct mr_out_frame {
    mr_out_frame *next, **withdraw;
    int fd; /* travels with the first byte; -1: none */
    uint32_t segment;
    bool begun;    /* its first byte is sent */
    mr_bytes body; /* what goes into the stream */
    int piece;     /* the piece of it to be sent next, and the position in it */
    size_t piece_at;
    size_t head_bytes, head_at; /* head, text and parts */
    uint8_t head[];
};

/* ---- making frames ---- */

/* Allocates a frame; the caller writes its head (head, text and parts). */
static mr_out_frame *frame_new(const mr_frame_head *h, size_t head_bytes)
{
    mr_out_frame *f = mr_alloc(sizeof(*f) + head_bytes);
    *f = (mr_out_frame){.fd = -1, .segment = h->segment, .head_bytes = head_bytes};
    return f;
}

/* Not with a lock held: dropping the pieces of the body may call anything. */
void mr_out_frame_free(mr_out_frame *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    mr_bytes_deinit(&f->body);
    mr_free(f);
}

void mr_out_frames_free(mr_out_frame *list)
{
    for (mr_out_frame *f = list, *next; f; f = next) {
        next = f->next;
        mr_out_frame_free(f);
    }
}

/* Pieces in a segment start at multiples of MR_SEGMENT_ALIGN, as tensors need. */
static size_t align_size(size_t n)
{
    return (n + MR_SEGMENT_ALIGN - 1) & ~(size_t)(MR_SEGMENT_ALIGN - 1);
}

/* The bytes of shared memory that the body's large pieces need; 0: it has none. */
static size_t shared_bytes(const mr_conn *c, const mr_bytes *body)
{
    size_t n = 0;
    if (c->tcp || !body || body->pieces.n > MR_FRAME_MAX_PARTS)
        return 0;
    for (int i = 0; i < body->pieces.n; i++)
        if (body->pieces.p[i].n >= MR_CONN_SHARE_BYTES &&
            !mr_size_add(n, align_size(body->pieces.p[i].n), &n))
            return 0;
    return n;
}

/* A segment to be filled; NULL: there is none, and the message goes through the socket. If memory is
 * short, the connection's unused segments, which have the wrong size, are freed first. Segments are
 * made without the lock, since that takes long. */
static mr_segment *get_segment(mr_conn *c, size_t n)
{
    mr_lock(&c->mu);
    mr_segment *s = mr_conn_is_open_locked(c) ? mr_segment_take(&c->pool, n) : NULL;
    mr_unlock(&c->mu);
    if (!s || s->data || mr_segment_make(&c->pool, s))
        return s;
    /* The budget or the system has no memory: what this connection does not use may be enough. */
    mr_lock(&c->mu);
    mr_segment_trim(&c->pool, INT64_MAX);
    mr_unlock(&c->mu);
    if (mr_segment_make(&c->pool, s))
        return s;
    mr_lock(&c->mu);
    mr_segment_discard(&c->pool, s);
    mr_unlock(&c->mu);
    return NULL;
}

/* Copies the large pieces into the segment and drops them; the others stay in the body. `parts` lists
 * where each piece is, for the receiver. */
static void share_pieces(mr_bytes *body, mr_segment *s, uint8_t *parts)
{
    mr_bytes rest = {0};
    size_t at = 0;
    for (int i = 0; i < body->pieces.n; i++, parts += MR_FRAME_PART) {
        mr_piece p = body->pieces.p[i];
        bool large = p.n >= MR_CONN_SHARE_BYTES;
        mr_frame_part_write((mr_frame_part){large ? at : MR_FRAME_IN_STREAM, p.n}, parts);
        if (!large) {
            mr_bytes_add(&rest, p);
            continue;
        }
        MR_ASSERT(at <= s->bytes && p.n <= s->bytes - at);
        memcpy(s->data + at, p.data, p.n);
        at += align_size(p.n);
        mr_piece_drop(p);
    }
    mr_vec_deinit(&body->pieces);
    *body = rest;
}

/* Cuts a body that goes through the stream: each piece of at least MR_CONN_CUT_BYTES, and what is between them. Writes
 * the parts if `parts` is not NULL; returns their number, 0: the body need not be cut, or would have too many. */
static int cut_stream(const mr_bytes *body, uint8_t *parts)
{
    int n = 0;
    size_t small = 0; /* bytes since the last large piece */
    if (!body || body->pieces.n < 2)
        return 0;
    for (int i = 0; i <= body->pieces.n; i++) {
        size_t bytes = i < body->pieces.n ? body->pieces.p[i].n : 0;
        bool large = bytes >= MR_CONN_CUT_BYTES;
        if (small && (large || i == body->pieces.n)) {
            if (parts)
                mr_frame_part_write((mr_frame_part){MR_FRAME_IN_STREAM, small}, parts + n * MR_FRAME_PART);
            n++;
            small = 0;
        }
        if (large) {
            if (parts)
                mr_frame_part_write((mr_frame_part){MR_FRAME_IN_STREAM, bytes}, parts + n * MR_FRAME_PART);
            n++;
        } else {
            small += bytes;
        }
    }
    return n < 2 || n > MR_FRAME_MAX_PARTS ? 0 : n;
}

/* Without a lock, because it copies large pieces and may make a segment. Without a segment the whole body goes
 * into the stream. A frame that is composed but never queued must be given to mr_conn_discard_locked, which
 * takes its segment back, unless the connection is dead. */
mr_out_frame *mr_conn_compose(mr_conn *c, mr_frame_head h, mr_sv text, mr_bytes *body)
{
    MR_ASSERT(text.n <= MR_FRAME_MAX_TEXT);
    size_t shared = shared_bytes(c, body);
    mr_segment *s = shared ? get_segment(c, shared) : NULL;
    h.text_bytes = (uint32_t)text.n;
    h.segment = s ? s->id : 0;
    h.n_parts = (uint16_t)(s ? body->pieces.n : cut_stream(body, NULL));
    mr_out_frame *f = frame_new(&h, MR_FRAME_HEAD + text.n + (size_t)h.n_parts * MR_FRAME_PART);
    if (text.n)
        memcpy(f->head + MR_FRAME_HEAD, text.p, text.n);
    if (s)
        share_pieces(body, s, f->head + MR_FRAME_HEAD + text.n);
    else if (h.n_parts)
        cut_stream(body, f->head + MR_FRAME_HEAD + text.n);
    if (body) {
        f->body = *body;
        *body = (mr_bytes){0};
    }
    MR_ASSERT(!s || s->lent);
    h.stream_bytes = f->body.n;
    mr_frame_head_write(&h, f->head);
    return f;
}

/* ---- the queue ---- */

static size_t bytes_left(const mr_out_frame *f) { return f->head_bytes + f->body.n; }

/* Puts a frame at the end of the queue, which owns it from now on. */
static void append_locked(mr_conn *c, mr_out_frame *f) MR_REQUIRES(c->mu)
{
    f->next = NULL;
    *c->queue_end = f;
    c->queue_end = &f->next;
    c->queued_bytes += bytes_left(f);
}

/* A frame without text and body. */
static mr_out_frame *small_frame(uint8_t kind, uint64_t id, int64_t value)
{
    mr_frame_head h = {.kind = kind, .id = id, .value = value};
    mr_out_frame *f = frame_new(&h, MR_FRAME_HEAD);
    mr_frame_head_write(&h, f->head);
    return f;
}

/* Sets the timer for mr_conn_trim, unless it is set. */
static void trim_later(mr_conn *c)
{
    mr_lock(&mr_local_mu);
    if (!c->trim_timer.place)
        mr_local_timer_set_locked(&c->trim_timer, mr_now_ns() + TRIM_NS);
    mr_unlock(&mr_local_mu);
}

/* Queues what the receiver must know about our segments before the next frame: which were freed, and
 * the new one, with its descriptor. */
static void announce_locked(mr_conn *c, mr_segment *s) MR_REQUIRES(c->mu)
{
    for (int i = 0; i < c->pool.gone.n; i++)
        append_locked(c, small_frame(MR_FRAME_FORGET, c->pool.gone.p[i], 0));
    c->pool.gone.n = 0;
    if (!s || s->fd < 0)
        return;
    mr_out_frame *f = small_frame(MR_FRAME_SEGMENT, s->id, (int64_t)s->bytes);
    f->fd = s->fd;
    s->fd = -1;
    append_locked(c, f);
    trim_later(c);
}

/* Counts the connection as busy while it has unsent frames, for a server that waits until all is sent. */
static void count_busy_locked(mr_conn *c) MR_REQUIRES(c->mu)
{
    bool busy = c->queue != NULL || c->unsent;
    if (!c->busy || c->counted_busy == busy)
        return;
    c->counted_busy = busy;
    mr_lock(&mr_local_mu);
    *c->busy += c->counted_busy ? 1 : -1;
    if (!c->counted_busy)
        mr_cond_broadcast(&mr_local_changed);
    mr_unlock(&mr_local_mu);
}

/* The segment is announced by the first frame that is queued with it, not by the thread that made it: frames may be
 * queued in another order than they were composed. */
void mr_conn_queue_locked(mr_conn *c, mr_out_frame *f, mr_out_frame **withdraw)
{
    MR_ASSERT(mr_conn_is_open_locked(c));
    announce_locked(c, f->segment ? c->pool.segments[f->segment - 1] : NULL);
    append_locked(c, f);
    f->withdraw = withdraw;
    if (withdraw)
        *withdraw = f;
    count_busy_locked(c);
}

/* Searches the queue from its start: withdrawals are rare. */
void mr_conn_withdraw_locked(mr_conn *c, mr_out_frame *f)
{
    MR_ASSERT(!f->begun && f->withdraw);
    mr_out_frame **at = &c->queue;
    while (*at != f) {
        MR_ASSERT(*at); /* a frame that can be withdrawn is in the queue */
        at = &(*at)->next;
    }
    *at = f->next;
    if (c->queue_end == &f->next)
        c->queue_end = at;
    c->queued_bytes -= bytes_left(f);
    *f->withdraw = NULL;
    mr_conn_discard_locked(c, f);
}

/* A segment that was not announced is freed, because the receiver does not know it; another one can be used for the
 * next message. */
void mr_conn_discard_locked(mr_conn *c, mr_out_frame *f)
{
    MR_ASSERT(!f->begun);
    mr_segment *s = f->segment ? c->pool.segments[f->segment - 1] : NULL;
    if (s && s->fd >= 0) /* it was not announced either */
        mr_segment_discard(&c->pool, s);
    else if (s)
        mr_segment_return(&c->pool, s->id, mr_now_ns());
}

/* Takes the whole queue, for the caller to free without the lock. */
mr_out_frame *mr_conn_empty_queue_locked(mr_conn *c)
{
    mr_out_frame *all = c->queue;
    for (mr_out_frame *f = all; f; f = f->next)
        if (f->withdraw)
            *f->withdraw = NULL;
    c->queue = NULL;
    c->queue_end = &c->queue;
    c->queued_bytes = 0;
    c->unsent = false;
    count_busy_locked(c);
    return all;
}

/* ---- writing ---- */

/* Adds what is left of a frame. */
static int add_iov(const mr_out_frame *f, struct iovec *iov, int n)
{
    if (f->head_at < f->head_bytes)
        iov[n++] =
            (struct iovec){(void *)(uintptr_t)(f->head + f->head_at), f->head_bytes - f->head_at};
    size_t skip = f->piece_at;
    for (int i = f->piece; i < f->body.pieces.n && n < MAX_IOV; i++, skip = 0) {
        const mr_piece *p = &f->body.pieces.p[i];
        iov[n++] = (struct iovec){(char *)(uintptr_t)p->data + skip, p->n - skip};
    }
    return n;
}

/* Collects as many frames as one call takes. A descriptor must be passed with the first byte of a
 * call, so a frame with one ends the collection. */
static int gather_locked(mr_conn *c, struct iovec *iov, int *fd) MR_REQUIRES(c->mu)
{
    int n = 0;
    *fd = c->queue ? c->queue->fd : -1;
    for (mr_out_frame *f = c->queue; f && n < MAX_IOV; f = f->next) {
        if (f != c->queue && f->fd >= 0)
            break;
        n = add_iov(f, iov, n);
    }
    /* At most MR_CONN_AT_ONCE bytes. */
    size_t left = MR_CONN_AT_ONCE;
    for (int i = 0; i < n; i++) {
        iov[i].iov_len = MR_MIN(iov[i].iov_len, left);
        left -= iov[i].iov_len;
        if (!left)
            n = i + 1;
    }
    return n;
}

/* Sends with one call, and fd with it (-1: none). */
static ssize_t send_some(int socket, struct iovec *iov, int n, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)n};
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &fd, sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

/* Errors of TLS need no text here: reading finds the cause, and closes the connection. */
ssize_t mr_conn_send(mr_conn *c, struct iovec *iov, int n, int fd)
{
    size_t taken;
    if (!c->tls)
        return send_some(c->fd, iov, n, fd);
    mr_status *st = c->tls_lib->send(c->tls, iov, n, &taken);
    if (st) {
        mr_status_free(st);
        errno = EPIPE;
        return -1;
    }
    return (ssize_t)taken;
}

/* n bytes, at least one, of this frame are sent. Returns how many of them were of the frames after it.
 * Once its first byte is sent, a frame cannot be withdrawn, and the receiver has its descriptor. */
static size_t advance_frame(mr_out_frame *f, size_t n)
{
    MR_ASSERT(n > 0);
    f->begun = true;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    if (f->withdraw)
        *f->withdraw = NULL;
    f->withdraw = NULL;
    size_t part = MR_MIN(n, f->head_bytes - f->head_at);
    f->head_at += part;
    n -= part;
    while (n && f->piece < f->body.pieces.n) {
        part = MR_MIN(n, f->body.pieces.p[f->piece].n - f->piece_at);
        f->piece_at += part;
        n -= part;
        if (f->piece_at == f->body.pieces.p[f->piece].n)
            f->piece++, f->piece_at = 0;
    }
    return n;
}

/* Both the head and all pieces of the body are sent. */
static bool is_sent(const mr_out_frame *f)
{
    return f->head_at == f->head_bytes && f->piece == f->body.pieces.n;
}

/* n bytes of the queue are sent. Finished frames move to `sent`, to be freed without the lock. */
static void advance_queue_locked(mr_conn *c, size_t n, mr_out_frame ***sent) MR_REQUIRES(c->mu)
{
    MR_ASSERT(n <= c->queued_bytes);
    c->queued_bytes -= n;
    while (n) {
        mr_out_frame *f = c->queue;
        MR_ASSERT(f);
        n = advance_frame(f, n);
        if (!is_sent(f))
            break;
        c->queue = f->next;
        if (!c->queue)
            c->queue_end = &c->queue;
        **sent = f;
        *sent = &f->next;
        f->next = NULL;
    }
}

/* Watches for writability while something waits. A client that does not read its replies is not read
 * from either. */
static void settle_locked(mr_conn *c) MR_REQUIRES(c->mu)
{
    /* Only a server pauses: if both ends did, neither would read what the other waits to write. */
    bool pause = c->end->accepts && c->queued_bytes > MR_CONN_MAX_QUEUED;
    uint32_t events = (pause ? 0u : (uint32_t)EPOLLIN) | (c->queue || c->unsent ? (uint32_t)EPOLLOUT : 0u);
    if (c->tls && (events & ~c->events & EPOLLIN)) /* the TLS session may have bytes that the socket does not report */
        mr_conn_reread_locked(c);
    if (events != c->events)
        mr_local_watch_change(&c->watch, c->fd, c->events = events);
    count_busy_locked(c);
}

/* Writes until the queue is empty or the socket is full; a long body over TCP only for a while, since this holds the
 * lock: the transport's thread goes on with it. After an error the socket is shut down, and that thread closes the
 * connection when it reads. */
static void write_queue_locked(mr_conn *c, mr_out_frame ***sent) MR_REQUIRES(c->mu)
{
    struct iovec iov[MAX_IOV];
    size_t total = 0;
    while ((c->queue || c->unsent) && total < MR_CONN_AT_ONCE) {
        int fd, n = gather_locked(c, iov, &fd);
        ssize_t done = mr_conn_send(c, iov, n, fd);
        if (done < 0 && errno != EAGAIN)
            shutdown(c->fd, SHUT_RDWR);
        if (done > 0) {
            advance_queue_locked(c, (size_t)done, sent);
            total += (size_t)done;
        }
        c->unsent = c->tls && done >= 0 && c->tls_lib->has_unsent(c->tls);
        if (done <= 0)
            break;
    }
}

/* Frames that are sent are freed after the lock is released, because dropping their pieces may call back into
 * this connection. */
void mr_conn_flush_now(mr_conn *c)
{
    mr_out_frame *sent = NULL, **sent_end = &sent;
    mr_lock(&c->mu);
    if (mr_conn_is_open_locked(c)) {
        write_queue_locked(c, &sent_end);
        settle_locked(c);
    }
    mr_unlock(&c->mu);
    mr_out_frames_free(sent);
}

/* The connections that this thread will write to at mr_net_release, with references. If there are
 * more, they are written to at once. */
static _Thread_local struct {
    int depth, n;
    mr_conn *conns[32];
} held;

/* Remembers the connection for mr_net_release; false: write now. */
static bool hold_conn(mr_conn *c)
{
    for (int i = 0; i < held.n; i++)
        if (held.conns[i] == c)
            return true;
    if (held.depth == 0 || held.n == (int)MR_COUNT(held.conns))
        return false;
    mr_conn_ref(c);
    held.conns[held.n++] = c;
    return true;
}

void mr_net_hold(void) { held.depth++; }

/* Sending may drop pieces, whose owners may send more on the same connection, so each is taken out of
 * the list before it is written to. */
void mr_net_release(void)
{
    MR_ASSERT(held.depth > 0);
    if (held.depth == 1)
        for (int i = 0; i < held.n; i++) {
            mr_conn *c = held.conns[i];
            held.conns[i] = NULL;
            mr_conn_flush_now(c);
            mr_conn_unref(c);
        }
    if (--held.depth == 0)
        held.n = 0;
}

/* In another thread: writes now, or at mr_net_release if the thread holds its writes. In the transport's thread:
 * everything that is queued while it handles its events is written afterwards, with one call. */
void mr_conn_flush(mr_conn *c)
{
    if (!mr_local_io_here()) {
        if (!hold_conn(c))
            mr_conn_flush_now(c);
    } else if (!c->flush_soon) {
        c->flush_soon = true;
        mr_conn_ref(c);
        mr_local_later(&c->flush);
    }
}

/* Sets the timer, unless it is set; an ordinary flush before that takes the frame along. */
void mr_conn_flush_lazily_locked(mr_conn *c)
{
    mr_lock(&mr_local_mu);
    if (!c->lazy_timer.place)
        mr_local_timer_set_locked(&c->lazy_timer, mr_now_ns() + LAZY_NS);
    mr_unlock(&mr_local_mu);
}

void mr_conn_flush_late(mr_local_timer *t)
{
    mr_conn_flush((mr_conn *)((char *)t - offsetof(mr_conn, lazy_timer)));
}

/* The timer: frees segments that were not used for a while, and tells the receiver. */
void mr_conn_trim(mr_local_timer *t)
{
    mr_conn *c = (mr_conn *)((char *)t - offsetof(mr_conn, trim_timer));
    bool any = false;
    mr_lock(&c->mu);
    mr_segment_trim(&c->pool, mr_now_ns() - TRIM_NS);
    announce_locked(c, NULL);
    for (int i = 0; i < MR_SEGMENTS; i++)
        any |= c->pool.segments[i] != NULL;
    mr_unlock(&c->mu);
    if (any)
        trim_later(c);
    mr_conn_flush(c);
}
