/* net/local_client.c -- the client side of the local transport, and of that over TCP.
 *
 * A request is in one of three places, guarded by mr_local_mu: STARTING, while the thread that called
 * start still works on it; PENDING in its peer's list, until there is a connection; OPEN among a
 * connection's calls. All requests end in the transport's thread, so they cannot end twice. A request
 * that shall end while it is STARTING is marked (`early`), and ends when that is over.
 *
 *     mr_local_start:  STARTING --send_request--> OPEN -----------------+
 *                         |                        ^                    |
 *                    put_pending             start_pending        take_reply, conn_lost,
 *                         v                        |              deadline, cancel
 *                      PENDING --------------------+                    |
 *                         +---not_connected, deadline, cancel---> finish_request
 *
 * A call's id is its index in the connection's table. The entry is `reserved` while the frame is made,
 * then the request itself. If a request ends early, its entry stays taken (by `zombie`) until the
 * server's reply has arrived, because until then the server knows the id. So an id is in exactly one
 * of two places: in free_ids (its entry is NULL), or taken by an entry that is not NULL.
 *
 * A peer has at most one connection, made by the transport's thread when a request needs it. If that
 * fails, requests that do not wait for the peer fail at once; for the others it is tried again, with
 * growing pauses. */
#include "net/local.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/message.h"

#define FIRST_BACKOFF_NS INT64_C(1000000)
#define LAST_BACKOFF_NS INT64_C(100000000)
#define OWNER(T, member, p) ((T *)((char *)(p)-offsetof(T, member)))

enum { STARTING, PENDING, OPEN };

/* What the transport keeps of a request. It is freed by finish_request, or by the order `cancel` if that is still
 * posted. */
typedef struct request {
    mr_net_request *r;
    mr_net_peer *peer;
    int place;                   /* mr_local_mu guards this and all up to `ended` */
    int early;                   /* the code to end with when STARTING is over; 0: none */
    struct request *next, *prev; /* PENDING */
    mr_conn *conn;               /* OPEN */
    mr_local_timer deadline;
    mr_order cancel, lost;
    bool cancelling, ended; /* the order `cancel` is posted; if the request ends first, the order frees it */
    uint64_t id;            /* the connection's lock guards this and the next */
    mr_out_frame *frame;    /* while not a byte of it is sent */
} request;

/* The route to one address; freed by mr_local_disconnect when nothing refers to it any more. */
struct mr_net_peer {
    char *address;
    size_t max_message;
    mr_link link;
    mr_dialing dialing; /* changed NULL: connections are made when requests need them */
    struct sockaddr_storage to; /* over TCP; not changed while there is a connection or a try to make one */
    /* mr_local_mu */
    mr_conn *conn;         /* the open one */
    request *first, *last; /* PENDING */
    int n_requests;        /* that have not ended */
    bool connecting;       /* the transport's thread is at it */
    bool ordered;          /* connect is posted: to connect, or to start what is pending */
    bool closing;          /* whatever is started now ends at once */
    /* the transport's thread */
    mr_order connect;
    mr_conn *half; /* a connection in its handshake */
    mr_local_timer retry;
    int64_t backoff_ns;
};

static request reserved, zombie;

/* ---- ending ---- */

/* Ends a request that is in no list and no table any more, in the transport's thread. Takes st and the body.
 * `done` may free the mr_net_request, so it is not touched afterwards; the peer lives until its count
 * of requests is lowered. */
static void finish_request(request *q, mr_status *st, mr_bytes *body)
{
    MR_ASSERT(mr_local_io_here());
    mr_net_request *r = q->r;
    mr_net_peer *p = q->peer;
    mr_bytes none = {0};
    mr_lock(&mr_local_mu);
    MR_ASSERT(!q->ended);
    mr_local_timer_clear_locked(&q->deadline);
    r->impl = NULL;
    q->ended = true;
    bool keep = q->cancelling;
    mr_unlock(&mr_local_mu);
    if (!keep)
        mr_free(q);
    mr_bytes_deinit(&r->body); /* if it was never sent */
    r->done(r, st, body ? body : &none);
    mr_bytes_deinit(body ? body : &none);
    mr_lock(&mr_local_mu);
    MR_ASSERT(p->n_requests > 0);
    p->n_requests--;
    if (p->closing)
        mr_cond_broadcast(&mr_local_changed);
    mr_unlock(&mr_local_mu);
}

/* The error of a request that ends before its reply. */
static mr_status *early_error(const request *q, int code)
{
    const char *why = code == MR_DEADLINE_EXCEEDED  ? "no answer before the deadline"
                      : code == MR_CANCELLED        ? "cancelled"
                      : code == MR_INVALID_ARGUMENT ? "the method's name is too long"
                                                    : "connection lost";
    return mr_error((mr_code)code, "%s to %s: %s", q->r->method, q->peer->address, why);
}

/* Takes the request out of its peer's list; its place stays PENDING until the caller moves or ends it. */
static void unlink_pending_locked(request *q) MR_REQUIRES(mr_local_mu)
{
    mr_net_peer *p = q->peer;
    MR_ASSERT(q->place == PENDING && (q->prev ? q->prev->next : p->first) == q);
    *(q->prev ? &q->prev->next : &p->first) = q->next;
    *(q->next ? &q->next->prev : &p->last) = q->prev;
}

/* The id may be used again. */
static void free_id_locked(mr_conn *c, uint64_t id) MR_REQUIRES(c->mu)
{
    MR_ASSERT(id < (uint64_t)c->calls.n && c->calls.p[id]);
    c->calls.p[id] = NULL;
    mr_vec_push(&c->free_ids, (uint32_t)id);
}

/* Takes an open request out of its connection before its reply has arrived. If its frame is still
 * unsent, it is withdrawn; otherwise the server is told, and the id stays taken until it has answered. */
static void abandon_request(request *q)
{
    mr_conn *c = q->conn;
    MR_ASSERT(q->place == OPEN && c);
    mr_frame_head h = {.kind = MR_FRAME_CANCEL, .id = q->id};
    mr_out_frame *cancel = mr_conn_compose(c, h, (mr_sv){"", 0}, NULL);
    mr_lock(&c->mu);
    mr_out_frame *unsent = q->frame;
    if (unsent) {
        mr_conn_withdraw_locked(c, unsent);
        free_id_locked(c, q->id);
    } else {
        mr_conn_queue_locked(c, cancel, NULL);
        c->calls.p[q->id] = &zombie;
    }
    mr_unlock(&c->mu);
    if (unsent)
        mr_out_frame_free(cancel);
    mr_out_frame_free(unsent);
    mr_conn_flush(c);
}

/* Ends the request now, wherever it is; one that is STARTING ends as soon as that is over. In the
 * transport's thread. */
static void end_early(request *q, int code)
{
    MR_ASSERT(mr_local_io_here());
    mr_lock(&mr_local_mu);
    int place = q->place;
    if (place == STARTING)
        q->early = code;
    if (place == PENDING)
        unlink_pending_locked(q);
    mr_unlock(&mr_local_mu);
    if (place == STARTING)
        return;
    if (place == OPEN)
        abandon_request(q);
    finish_request(q, early_error(q, code), NULL);
}

static void run_deadline(mr_local_timer *t)
{
    end_early(OWNER(request, deadline, t), MR_DEADLINE_EXCEEDED);
}

/* The order that mr_local_cancel posted. If the request has ended meanwhile, only its record is left,
 * and is freed here. */
static void run_cancel(mr_order *o)
{
    request *q = OWNER(request, cancel, o);
    mr_lock(&mr_local_mu);
    q->cancelling = false;
    bool ended = q->ended;
    mr_unlock(&mr_local_mu);
    if (ended)
        mr_free(q);
    else
        end_early(q, MR_CANCELLED);
}

/* Posts an order, at most one at a time: requests end only in the transport's thread. r->impl is NULL once the
 * request has ended, so a cancel that comes late does nothing. */
void mr_local_cancel(mr_net_request *r)
{
    mr_lock(&mr_local_mu);
    request *q = r->impl;
    if (q && !q->cancelling) {
        q->cancelling = true;
        mr_local_post_locked(&q->cancel);
    }
    mr_unlock(&mr_local_mu);
}

/* The request was to end, or its connection was lost, while it was STARTING. */
static void run_lost(mr_order *o)
{
    request *q = OWNER(request, lost, o);
    finish_request(q, early_error(q, q->early ? q->early : MR_UNAVAILABLE), NULL);
}

/* ---- starting ---- */

/* Wakes the transport's thread for this peer, once. */
static void order_locked(mr_net_peer *p) MR_REQUIRES(mr_local_mu)
{
    if (p->ordered)
        return;
    p->ordered = true;
    mr_local_post_locked(&p->connect);
}

/* The transport's thread makes a connection as soon as it can, without the pause between two tries. */
static void connect_soon_locked(mr_net_peer *p) MR_REQUIRES(mr_local_mu)
{
    p->connecting = true;
    order_locked(p);
}

/* Puts a request that could not be sent into the peer's list, and sees that the transport's thread
 * connects or looks at the list. A request that was marked meanwhile ends instead. */
static void put_pending(mr_net_peer *p, request *q)
{
    mr_lock(&mr_local_mu);
    MR_ASSERT(q->place == STARTING);
    if (p->closing && !q->early)
        q->early = MR_CANCELLED;
    if (q->early) {
        mr_local_post_locked(&q->lost);
    } else {
        q->place = PENDING;
        q->next = NULL;
        q->prev = p->last;
        *(p->last ? &p->last->next : &p->first) = q;
        p->last = q;
        if (p->conn) /* it was opened, or got room, since we looked; nobody else may notice the request */
            order_locked(p);
        else if (!p->connecting || (p->retry.place && !q->r->wait_for_ready))
            connect_soon_locked(p);
    }
    mr_unlock(&mr_local_mu);
}

/* Reserves an id on an open connection; false: it is not open, or has too many calls. */
static bool reserve_id(mr_conn *c, request *q)
{
    mr_lock(&c->mu);
    bool ok = mr_conn_is_open_locked(c) && (c->free_ids.n || c->calls.n < MR_CONN_MAX_CALLS);
    if (ok) {
        q->id = c->free_ids.n ? mr_vec_pop(&c->free_ids) : (uint32_t)c->calls.n;
        if (q->id == (uint64_t)c->calls.n)
            mr_vec_push(&c->calls, NULL);
        MR_ASSERT(!c->calls.p[q->id]);
        c->calls.p[q->id] = &reserved;
    }
    mr_unlock(&c->mu);
    return ok;
}

/* Called with the connection's lock held. From here on the request ends like any open one; false: it was
 * marked to end. */
static bool become_open(mr_conn *c, request *q)
{
    mr_lock(&mr_local_mu);
    bool ok = !q->early;
    if (ok) {
        q->place = OPEN;
        q->conn = c;
    }
    mr_unlock(&mr_local_mu);
    return ok;
}

/* Composes and queues the frame of a request that has an id. The frame is composed without a lock,
 * since that copies large pieces; the connection may be lost, or the request marked, meanwhile. */
static void send_request(mr_conn *c, request *q)
{
    mr_net_request *r = q->r;
    int64_t left_ns = r->deadline_ns ? MR_MAX(r->deadline_ns - mr_now_ns(), 1) : 0;
    mr_frame_head h = {.kind = MR_FRAME_REQUEST, .id = q->id, .value = left_ns};
    mr_out_frame *f = mr_conn_compose(c, h, mr_sv_of(r->method), &r->body);
    bool lazy = r->lazy; /* the request may end once it is queued */
    mr_lock(&c->mu);
    bool alive = mr_conn_is_open_locked(c), ok = alive && become_open(c, q);
    if (ok) {
        c->calls.p[q->id] = q;
        mr_conn_queue_locked(c, f, &q->frame);
        if (lazy)
            mr_conn_flush_lazily_locked(c);
    } else if (alive) {
        mr_conn_discard_locked(c, f);
        free_id_locked(c, q->id);
    }
    mr_unlock(&c->mu);
    if (ok && !lazy) {
        mr_conn_flush(c);
    } else if (!ok) {
        mr_out_frame_free(f);
        mr_local_post(&q->lost);
    }
}

static request *request_new(mr_net_peer *p, mr_net_request *r)
{
    request *q = mr_new(request);
    q->r = r;
    q->peer = p;
    q->deadline.fn = run_deadline;
    q->cancel.fn = run_cancel;
    q->lost.fn = run_lost;
    return q;
}

/* An id is reserved first, so that nothing has to be undone if there is none. */
bool mr_local_start_open(mr_net_peer *p, mr_net_request *r)
{
    if (strlen(r->method) > MR_FRAME_MAX_TEXT)
        return false;
    mr_lock(&mr_local_mu);
    mr_conn *c = p->conn;
    if (c)
        mr_conn_ref(c); /* it may be lost as soon as the lock is free */
    mr_unlock(&mr_local_mu);
    if (!c)
        return false;
    request *q = request_new(p, r);
    bool ok = reserve_id(c, q);
    if (ok) {
        mr_lock(&mr_local_mu);
        r->impl = q;
        p->n_requests++;
        if (r->deadline_ns)
            mr_local_timer_set_locked(&q->deadline, r->deadline_ns);
        mr_unlock(&mr_local_mu);
        send_request(c, q);
    } else {
        mr_free(q);
    }
    mr_conn_unref(c);
    return ok;
}

/* Sends the request at once if there is a connection with room, in the caller's thread; otherwise it
 * is pending. */
void mr_local_start(mr_net_peer *p, mr_net_request *r)
{
    MR_ASSERT(!p->dialing.changed);
    request *q = request_new(p, r);
    mr_lock(&mr_local_mu);
    r->impl = q;
    p->n_requests++;
    if (strlen(r->method) > MR_FRAME_MAX_TEXT)
        q->early = MR_INVALID_ARGUMENT;
    if (r->deadline_ns)
        mr_local_timer_set_locked(&q->deadline, r->deadline_ns);
    mr_conn *c = p->conn;
    if (c)
        mr_conn_ref(c); /* it may be lost as soon as the lock is free */
    bool refused = q->early != 0; /* a deadline that passes from here on is found under the lock again */
    mr_unlock(&mr_local_mu);
    if (c && !refused && reserve_id(c, q))
        send_request(c, q);
    else
        put_pending(p, q);
    if (c)
        mr_conn_unref(c);
}

/* Sends as many pending requests as the connection takes, in the order of their arrival. In the
 * transport's thread. */
static void start_pending(mr_net_peer *p, mr_conn *c)
{
    MR_ASSERT(mr_local_io_here());
    for (;;) {
        mr_lock(&mr_local_mu);
        request *q = p->first;
        mr_unlock(&mr_local_mu);
        if (!q || !reserve_id(c, q))
            return;
        mr_lock(&mr_local_mu);
        unlink_pending_locked(q);
        mr_unlock(&mr_local_mu);
        send_request(c, q);
    }
}

/* ---- the connection ---- */

/* Ends the pending requests, all or only those that do not wait for the peer. They are collected
 * first, because ending one calls back. */
static void fail_pending(mr_net_peer *p, const mr_status *why, bool all)
{
    request *list = NULL, **end = &list;
    mr_lock(&mr_local_mu);
    for (request *q = p->first, *next; q; q = next) {
        next = q->next;
        if (!all && q->r->wait_for_ready)
            continue;
        unlink_pending_locked(q);
        *end = q;
        end = &q->next;
        q->next = NULL;
    }
    mr_unlock(&mr_local_mu);
    for (request *q = list, *next; q; q = next) {
        next = q->next;
        finish_request(q, mr_status_prepend(mr_status_copy(why), "%s to %s: ", q->r->method, p->address),
                       NULL);
    }
}

/* With no lock held. Not while the peer is being closed: whoever closes it does not want to hear of it. */
static void tell_dialer(mr_net_peer *p, bool open)
{
    if (p->dialing.changed && !p->closing)
        p->dialing.changed(p->dialing.arg, open);
}

/* There is no connection. Requests that wait for the peer are tried again later, the others end now.
 * Errors that do not pass, such as a wrong token, end all. */
static void not_connected(mr_net_peer *p, const mr_status *why)
{
    mr_code code = mr_status_code(why);
    bool for_good = code == MR_UNAUTHENTICATED || code == MR_PERMISSION_DENIED || p->closing;
    fail_pending(p, why, for_good);
    p->backoff_ns = MR_MIN(p->backoff_ns ? 2 * p->backoff_ns : FIRST_BACKOFF_NS, LAST_BACKOFF_NS);
    /* Another try is made if requests are left: at once for one that does not wait, otherwise after a pause. */
    mr_lock(&mr_local_mu);
    bool impatient = false; /* a request that does not wait arrived while the others were ended */
    for (request *q = p->first; q; q = q->next)
        impatient |= !q->r->wait_for_ready;
    p->connecting = p->first != NULL && !p->closing;
    if (p->connecting && impatient)
        connect_soon_locked(p);
    else if (p->connecting)
        mr_local_timer_set_locked(&p->retry, mr_now_ns() + p->backoff_ns);
    mr_unlock(&mr_local_mu);
    tell_dialer(p, false);
}

/* The handshake is done: the connection becomes the peer's. */
static void conn_opened(mr_conn *c)
{
    mr_net_peer *p = c->owner;
    MR_ASSERT(p->half == c && !p->conn);
    p->half = NULL;
    p->backoff_ns = 0;
    mr_lock(&mr_local_mu);
    p->conn = c;
    p->connecting = false;
    mr_unlock(&mr_local_mu);
    start_pending(p, c);
    tell_dialer(p, true);
}

/* A frame from the server. It must be the reply to a request that was sent, or the connection ends. A
 * request that ended early only frees its id. */
static mr_status *take_reply(mr_conn *c, mr_net_frame *f)
{
    request *q = NULL;
    if (f->head.kind != MR_FRAME_REPLY)
        return mr_invalid("the server sent a frame of kind %d; a server may only send replies and frames about "
                          "segments",
                          f->head.kind);
    /* The id comes from the peer: it must be that of a request of which at least one byte was sent. */
    mr_lock(&c->mu);
    if (f->head.id < (uint64_t)c->calls.n)
        q = c->calls.p[f->head.id];
    if (q == &reserved || (q && q->frame)) /* not a byte of the request is sent yet */
        q = NULL;
    if (q)
        free_id_locked(c, f->head.id);
    mr_unlock(&c->mu);
    if (!q)
        return mr_invalid("the server answered call %llu, which does not exist or was not sent",
                          (unsigned long long)f->head.id);
    if (q != &zombie)
        finish_request(q,
                       f->too_large ? mr_error(MR_RESOURCE_EXHAUSTED, "%s: the reply from %s is too large",
                                               q->r->method, q->peer->address)
                                    : mr_net_status(f->head.value, f->text),
                       &f->body);
    start_pending(c->owner, c); /* an id is free again */
    return NULL;
}

/* Ends all open requests of a lost connection. Those that are being started see for themselves that
 * the connection is closed. */
static void fail_open(mr_conn *c, const mr_status *why, mr_code code)
{
    mr_net_peer *p = c->owner;
    for (int i = 0;; i++) {
        mr_lock(&c->mu);
        bool more = i < c->calls.n;
        request *q = more ? c->calls.p[i] : NULL;
        if (q == &reserved || q == &zombie)
            q = NULL;
        if (q)
            c->calls.p[i] = NULL;
        mr_unlock(&c->mu);
        if (!more)
            return;
        if (q)
            finish_request(q,
                           mr_error(code, "%s to %s: connection lost: %s", q->r->method, p->address,
                                    mr_status_message(why)),
                           NULL);
    }
}

/* The connection has ended, in its handshake or later. If requests are pending, a new one is made. */
static void conn_lost(mr_conn *c, const mr_status *why)
{
    mr_net_peer *p = c->owner;
    if (c == p->half) {
        p->half = NULL;
        not_connected(p, why);
        return;
    }
    mr_lock(&mr_local_mu);
    p->conn = NULL;
    if (p->first && !p->connecting && !p->closing)
        connect_soon_locked(p);
    mr_unlock(&mr_local_mu);
    fail_open(c, why, p->closing ? MR_CANCELLED : MR_UNAVAILABLE);
    tell_dialer(p, false);
}

static const mr_conn_end client_end = {.open = conn_opened, .frame = take_reply, .closed = conn_lost};

/* A socket that is being connected, which takes a round trip. */
static mr_status *open_tcp(const struct sockaddr_storage *to, int *fd)
{
    socklen_t n = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int s = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0)
        return mr_errno_status(errno, "open", "a socket");
    mr_tcp_set_options(s);
    if (connect(s, (const struct sockaddr *)to, n) != 0 && errno != EINPROGRESS) {
        int err = errno;
        close(s);
        return mr_error(MR_UNAVAILABLE, "cannot connect (%s)", strerror(err));
    }
    *fd = s;
    return NULL;
}

/* A connected socket, which does not block. *fd -1 without an error: the server's queue is full just now, so try
 * again. */
static mr_status *open_socket(const char *path, int *fd)
{
    struct sockaddr_un a;
    *fd = -1;
    MR_TRY(mr_local_address(path, &a));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0)
        return mr_errno_status(errno, "open", "a socket");
    if (connect(s, (struct sockaddr *)&a, sizeof(a)) == 0) {
        *fd = s;
        return NULL;
    }
    int err = errno;
    close(s);
    return err == EAGAIN ? NULL : mr_error(MR_UNAVAILABLE, "cannot connect (%s)", strerror(err));
}

/* Begins a connection; its handshake follows in the transport's thread. */
static void try_connect(mr_net_peer *p)
{
    MR_ASSERT(!p->half);
    int fd = -1;
    mr_status *st = p->link.tcp ? open_tcp(&p->to, &fd) : open_socket(p->address, &fd);
    if (!st && fd < 0) {
        mr_local_timer_set(&p->retry, mr_now_ns() + FIRST_BACKOFF_NS);
        return;
    }
    if (!st)
        st = mr_conn_new(&client_end, p, fd, p->max_message, p->link.tcp ? &p->link : NULL, &p->half);
    if (st)
        not_connected(p, st);
    mr_status_free(st);
}

/* The peer's order: sends what is pending, or connects. A pause between two tries ends, because a
 * request has arrived that does not wait. */
static void run_connect(mr_order *o)
{
    mr_net_peer *p = OWNER(mr_net_peer, connect, o);
    mr_lock(&mr_local_mu);
    p->ordered = false;
    bool closing = p->closing, connecting = p->connecting;
    mr_conn *c = p->conn;
    mr_local_timer_clear_locked(&p->retry);
    mr_cond_broadcast(&mr_local_changed);
    mr_unlock(&mr_local_mu);
    if (closing)
        return;
    if (c)
        start_pending(p, c);
    else if (connecting && !p->half) /* the retry may just have started one */
        try_connect(p);
}

static void run_retry(mr_local_timer *t) { try_connect(OWNER(mr_net_peer, retry, t)); }

/* ---- peers ---- */

static void free_link(mr_link *link)
{
    const mr_tls_library *lib;
    if (link->tls && !mr_net_tls(&lib))
        lib->context_free(link->tls);
}

static mr_net_peer *peer_new(mr_net *n, const char *address)
{
    mr_net_peer *p = mr_new(mr_net_peer);
    p->address = mr_strdup(address);
    p->max_message = n->max_message ? n->max_message : SIZE_MAX;
    p->connect.fn = run_connect;
    p->retry.fn = run_retry;
    return p;
}

/* Only checks the address and starts the transport's thread; the first request makes the connection. Keys and name
 * are not used: the peer proves with the token that it belongs to the cluster. */
mr_status *mr_local_connect(mr_net *n, const char *address, const mr_net_keys *keys,
                            const char *name, mr_net_peer **out)
{
    struct sockaddr_un a;
    (void)keys, (void)name;
    MR_TRY(mr_local_address(address, &a));
    MR_TRY(mr_local_io_start());
    *out = peer_new(n, address);
    return NULL;
}

mr_status *mr_local_connect_tcp(mr_net *n, const char *address, const struct sockaddr_storage *to, const mr_link *link,
                                const mr_dialing *dialing, mr_net_peer **out)
{
    mr_link own = *link;
    mr_status *st = mr_local_io_start();
    if (st) {
        free_link(&own);
        return st;
    }
    mr_net_peer *p = peer_new(n, address);
    p->link = own;
    p->link.tcp = p->link.connecting = true;
    if (to)
        p->to = *to;
    if (dialing)
        p->dialing = *dialing;
    *out = p;
    return NULL;
}

/* The transport's thread reads the address only after the order that is posted here. */
void mr_local_dial(mr_net_peer *p, const struct sockaddr_storage *to, const uint8_t token[MR_HELLO_TOKEN])
{
    mr_lock(&mr_local_mu);
    MR_ASSERT(p->dialing.changed && !p->conn && !p->connecting);
    if (!p->closing) {
        p->to = *to;
        memcpy(p->link.token, token, MR_HELLO_TOKEN);
        connect_soon_locked(p);
    }
    mr_unlock(&mr_local_mu);
}

/* In the transport's thread: no request is accepted any more, and all end. */
static void close_peer(void *arg)
{
    mr_net_peer *p = arg;
    mr_status *why = mr_error(MR_CANCELLED, "disconnected");
    mr_lock(&mr_local_mu);
    MR_ASSERT(!p->closing);
    p->closing = true;
    mr_conn *c = p->conn;
    mr_local_timer_clear_locked(&p->retry);
    mr_unlock(&mr_local_mu);
    if (c)
        mr_conn_close(c, why);
    if (p->half)
        mr_conn_close(p->half, why);
    fail_pending(p, why, true);
    mr_status_free(why);
}

/* Waits until all requests have ended and the peer's order has run, so nothing refers to the peer when
 * it is freed. */
void mr_local_disconnect(mr_net_peer *p)
{
    if (!p)
        return;
    mr_local_do(close_peer, p);
    mr_lock(&mr_local_mu);
    while (p->n_requests || p->ordered)
        mr_cond_wait(&mr_local_changed, &mr_local_mu);
    mr_unlock(&mr_local_mu);
    MR_ASSERT(!p->conn && !p->half && !p->first);
    mr_local_io_stop();
    free_link(&p->link);
    mr_free(p->address);
    mr_free(p);
}
