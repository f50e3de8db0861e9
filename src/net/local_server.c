/* net/local_server.c -- the server side of the local transport, and of that over TCP.
 *
 * A call belongs to its handler until reply; the connection's table finds it by its id for a cancel.
 * Whether it is cancelled is guarded by mr_local_mu: once it is `replied`, no callback begins, and
 * reply waits for one that runs. A call may outlive its connection and its server; then its reply is
 * dropped.
 *
 *     take_request: claim_id, handler ---> mr_local_reply: send_reply, and the id is free again
 *                                     \--> cancel_call: the callback; the handler still has to reply
 *
 * Connections, the list of them and `stopping` belong to the transport's thread. A handler runs in that
 * thread too, so it must not block; it may reply from any thread. */
#include "net/local.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/message.h"

#define OWNER(T, member, p) ((T *)((char *)(p)-offsetof(T, member)))
#define ACCEPT_PAUSE_NS INT64_C(100000000) /* after the system refused a descriptor */
enum {
    BACKLOG = 256,
    MAX_CONNECTIONS = 4096,
    ACCEPT_ROUNDS = 64, /* connections accepted before others get their turn */
};

struct mr_net_server {
    mr_local_watch watch;
    mr_refs refs; /* one for the user, one for each call */
    mr_net_listen o;
    const mr_net *net;
    size_t max_message;
    char *path; /* over TCP the address */
    mr_link link;
    dev_t dev; /* of the socket's file, so that no other one is removed */
    ino_t ino;
    int fd;
    mr_local_timer accept_again;
    /* the transport's thread */
    mr_conn *conns;
    int n_conns;
    bool stopping;
    /* mr_local_mu */
    int n_calls; /* not answered yet */
    int n_busy;  /* connections with answers that are not sent yet */
};

/* A call that is being answered. The handler knows it as its first member. */
typedef struct call {
    mr_net_call pub;
    mr_refs refs; /* one for its handler, one for a cancel under way */
    mr_conn *conn;
    mr_net_server *server;
    uint64_t id;
    /* mr_local_mu */
    bool cancelled, replied, running;
    char method[];
} call;

/* The user's reference ends with stop; calls that are not answered then keep the server's memory. */
static void server_unref(mr_net_server *s)
{
    const mr_tls_library *lib;
    if (!mr_refs_drop(&s->refs))
        return;
    if (s->link.tls && !mr_net_tls(&lib))
        lib->context_free(s->link.tls);
    mr_free(s->path);
    mr_free(s);
}

/* ---- calls ---- */

/* The last reference drops a body that the handler did not take. */
static void call_unref(call *k)
{
    if (!mr_refs_drop(&k->refs))
        return;
    mr_bytes_deinit(&k->pub.body);
    mr_conn_unref(k->conn);
    server_unref(k->server);
    mr_free(k);
}

/* Sends the reply to a call, if its connection is still open. Takes st and the body. */
static void send_reply(mr_conn *c, uint64_t id, mr_status *st, mr_bytes *body)
{
    mr_str memory = {0};
    mr_frame_head h = {.kind = MR_FRAME_REPLY, .id = id, .value = mr_status_code(st)};
    mr_out_frame *f = mr_conn_compose(c, h, mr_net_message(st, &memory), st ? NULL : body);
    mr_lock(&c->mu);
    MR_ASSERT(id < (uint64_t)c->calls.n);
    bool open = mr_conn_is_open_locked(c);
    c->calls.p[id] = NULL; /* also if the connection is lost: conn_closed still looks for calls to cancel */
    if (open)
        mr_conn_queue_locked(c, f, NULL);
    mr_unlock(&c->mu);
    if (open)
        mr_conn_flush(c);
    else
        mr_out_frame_free(f);
    mr_str_deinit(&memory);
    mr_status_free(st);
    if (body)
        mr_bytes_deinit(body);
}

/* A callback that runs in another thread is waited for; if it is the callback itself that replies,
 * there is nothing to wait for. A cancelled call is answered with CANCELLED, since nobody wants the
 * reply. */
void mr_local_reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    call *k = (call *)c;
    mr_net_server *s = k->server;
    mr_lock(&mr_local_mu);
    MR_ASSERT(!k->replied);
    while (k->running && !mr_local_io_here()) /* in that thread, it is the callback that replies */
        mr_cond_wait(&mr_local_changed, &mr_local_mu);
    k->replied = true;
    bool cancelled = k->cancelled;
    mr_unlock(&mr_local_mu);
    if (cancelled && !st)
        st = mr_error(MR_CANCELLED, "%s was cancelled by its caller", c->method);
    send_reply(k->conn, k->id, st, body);
    mr_lock(&mr_local_mu);
    MR_ASSERT(s->n_calls > 0);
    s->n_calls--;
    mr_cond_broadcast(&mr_local_changed);
    mr_unlock(&mr_local_mu);
    call_unref(k);
}

/* false: the call is cancelled already, and fn will not be called. Under the lock, so a cancel comes either before
 * this and is reported here, or after it and calls fn. */
bool mr_local_on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg)
{
    call *k = (call *)c;
    mr_lock(&mr_local_mu);
    bool ok = !k->cancelled;
    if (ok) {
        c->cancelled = fn;
        c->cancelled_arg = arg;
    }
    mr_unlock(&mr_local_mu);
    return ok;
}

/* Marks a call as cancelled and calls back, unless it is replied. In the transport's thread; takes the
 * reference. */
static void cancel_call(call *k)
{
    MR_ASSERT(mr_local_io_here());
    mr_lock(&mr_local_mu);
    bool first = !k->cancelled && !k->replied;
    k->cancelled = true;
    void (*fn)(void *, mr_net_call *) = first ? k->pub.cancelled : NULL;
    k->running = fn != NULL;
    mr_unlock(&mr_local_mu);
    if (fn) {
        fn(k->pub.cancelled_arg, &k->pub);
        mr_lock(&mr_local_mu);
        k->running = false;
        mr_cond_broadcast(&mr_local_changed);
        mr_unlock(&mr_local_mu);
    }
    call_unref(k);
}

/* The call with this id, with a reference; NULL: it was answered. */
static call *find_call(mr_conn *c, uint64_t id)
{
    mr_lock(&c->mu);
    call *k = id < (uint64_t)c->calls.n ? c->calls.p[id] : NULL;
    if (k)
        mr_refs_take(&k->refs);
    mr_unlock(&c->mu);
    return k;
}

/* Cancels all calls of a connection. */
static void cancel_all(mr_conn *c)
{
    for (int i = 0; i < c->calls.n; i++) { /* only this thread makes the table grow */
        call *k = find_call(c, (uint64_t)i);
        if (k)
            cancel_call(k);
    }
}

/* Makes the call of a request frame; takes the frame's body. */
static call *call_new(mr_conn *c, mr_net_frame *f)
{
    mr_net_server *s = c->owner;
    call *k = mr_calloc(1, sizeof(*k) + f->text.n + 1);
    memcpy(k->method, f->text.p, f->text.n);
    mr_refs_init(&k->refs);
    k->pub.net = s->net;
    k->pub.method = k->method;
    k->pub.peer_name = c->peer_name ? c->peer_name : ""; /* the call keeps the connection */
    k->pub.deadline_ns = f->head.value ? mr_now_ns() + MR_MIN(f->head.value, INT64_MAX / 4) : 0;
    k->pub.body = f->body;
    f->body = (mr_bytes){0};
    k->id = f->head.id;
    mr_conn_ref(k->conn = c);
    mr_refs_take(&s->refs);
    k->server = s;
    return k;
}

/* Puts the call into the connection's table, where a cancel finds it. A client may not use an id again
 * before it was answered. */
static mr_status *claim_id(mr_conn *c, uint64_t id, void *k)
{
    if (id >= MR_CONN_MAX_CALLS)
        return mr_invalid("the client used call id %llu, which is too large", (unsigned long long)id);
    mr_lock(&c->mu);
    while ((uint64_t)c->calls.n <= id)
        mr_vec_push(&c->calls, NULL);
    bool taken = c->calls.p[id] != NULL;
    if (!taken)
        c->calls.p[id] = k;
    mr_unlock(&c->mu);
    return taken
               ? mr_invalid("the client used call id %llu again before it was answered", (unsigned long long)id)
               : NULL;
}

/* A request has arrived: hands it to the handler, or refuses it if the server stops or the message was
 * too large to keep. */
static mr_status *take_request(mr_conn *c, mr_net_frame *f)
{
    mr_net_server *s = c->owner;
    if (s->stopping || f->too_large) {
        /* The id is checked, but not taken: the reply is queued at once. */
        MR_TRY(claim_id(c, f->head.id, NULL));
        send_reply(c, f->head.id,
                   s->stopping
                       ? mr_error(MR_UNAVAILABLE, "the server is shutting down")
                       : mr_error(MR_RESOURCE_EXHAUSTED, "%.*s: the request is too large (%llu bytes)",
                                  MR_SV_ARG(f->text), (unsigned long long)f->head.stream_bytes),
                   NULL);
        return NULL;
    }
    /* In the table before the handler runs, so that a cancel that follows finds the call. */
    call *k = call_new(c, f);
    mr_status *st = claim_id(c, f->head.id, k);
    if (st) {
        call_unref(k);
        return st;
    }
    mr_lock(&mr_local_mu);
    s->n_calls++;
    mr_unlock(&mr_local_mu);
    s->o.handle(s->o.arg, &k->pub);
    return NULL;
}

/* A frame of a client: a request, or a cancel. A cancel may cross the reply on its way, so an id that is not in
 * use is not an error. */
static mr_status *take_frame(mr_conn *c, mr_net_frame *f)
{
    if (f->head.kind == MR_FRAME_REQUEST)
        return take_request(c, f);
    if (f->head.kind != MR_FRAME_CANCEL)
        return mr_invalid("the client sent a frame of kind %d; a client may only send requests, cancels and frames "
                          "about segments",
                          f->head.kind);
    call *k = find_call(c, f->head.id);
    if (k)
        cancel_call(k);
    return NULL;
}

/* ---- connections ---- */

/* Nothing to do: a server sends only replies. */
static void conn_opened(mr_conn *c) { (void)c; }

/* The connection has ended: its calls are cancelled. Only what is not an ordinary end is logged. */
static void conn_closed(mr_conn *c, const mr_status *why)
{
    mr_net_server *s = c->owner;
    MR_ASSERT(s->n_conns > 0);
    if (mr_status_code(why) != MR_UNAVAILABLE)
        mr_warn("%s: a connection was closed: %s", s->path, mr_status_message(why));
    *(c->prev ? &c->prev->next : &s->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->n_conns--;
    cancel_all(c);
}

static const mr_conn_end server_end = {
    .accepts = true, .open = conn_opened, .frame = take_frame, .closed = conn_closed};

/* Makes a connection of an accepted socket. */
static void add_conn(mr_net_server *s, int fd)
{
    mr_conn *c;
    if (s->n_conns >= MAX_CONNECTIONS) {
        close(fd);
        return;
    }
    if (s->link.tcp)
        mr_tcp_set_options(fd);
    mr_status *st = mr_conn_new(&server_end, s, fd, s->max_message, s->link.tcp ? &s->link : NULL, &c);
    if (st) {
        mr_warn("%s: a connection was refused: %s", s->path, mr_status_message(st));
        mr_status_free(st);
        return;
    }
    MR_ASSERT(!s->stopping);
    c->busy = &s->n_busy;
    c->next = s->conns;
    if (c->next)
        c->next->prev = c;
    s->conns = c;
    s->n_conns++;
}

/* Without free descriptors accept would fail again at once, so the socket is not watched for a while. */
static void pause_accepting(mr_net_server *s)
{
    mr_local_watch_change(&s->watch, s->fd, 0);
    mr_local_timer_set(&s->accept_again, mr_now_ns() + ACCEPT_PAUSE_NS);
}

/* The pause is over: watches the listening socket again. */
static void accept_again(mr_local_timer *t)
{
    mr_net_server *s = OWNER(mr_net_server, accept_again, t);
    mr_local_watch_change(&s->watch, s->fd, EPOLLIN);
}

/* The listening socket is readable. Accepts a limited number of connections, so that others get their turn;
 * epoll reports the rest again. */
static void accept_some(mr_local_watch *w, uint32_t events)
{
    mr_net_server *s = (mr_net_server *)w;
    (void)events;
    for (int i = 0; i < ACCEPT_ROUNDS && !s->stopping; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            add_conn(s, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN && !s->accept_again.place)
                pause_accepting(s);
            return;
        }
    }
}

/* ---- listening ---- */

/* Whether a server listens at the path; a dead one leaves only the file. */
static bool is_in_use(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool used = connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN;
    close(fd);
    return used;
}

/* Binds under a temporary name and renames it when the socket listens, so a client that finds the
 * path is answered. If the path is too long for that, it is bound directly, which is less safe against two
 * servers that start at once. */
static mr_status *bind_and_listen(mr_net_server *s, const struct sockaddr_un *a)
{
    struct sockaddr_un aside = *a;
    struct stat st;
    /* A random name, so that two servers that start at once do not use the same one. */
    char *temp = mr_printf("%s.%llx", s->path, (unsigned long long)(mr_random64() & 0xffffff));
    mr_status *bad = mr_local_address(temp, &aside);
    if (bad)
        aside = *a, unlink(a->sun_path), mr_status_free(bad), bad = NULL;
    mr_free(temp);
    if (bind(s->fd, (struct sockaddr *)&aside, sizeof(aside)) != 0)
        return mr_errno_status(errno, "listen at", s->path);
    if (chmod(aside.sun_path, 0600) != 0 || listen(s->fd, BACKLOG) != 0 ||
        stat(aside.sun_path, &st) != 0 || rename(aside.sun_path, a->sun_path) != 0) {
        bad = mr_errno_status(errno, "listen at", s->path);
        unlink(aside.sun_path);
        return bad;
    }
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return NULL;
}

/* Opens the socket. A path at which a server listens, or which is not a socket, is left alone. */
static mr_status *open_socket(mr_net_server *s)
{
    struct sockaddr_un a;
    struct stat st;
    MR_TRY(mr_local_address(s->path, &a));
    if (lstat(s->path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return mr_error(MR_ALREADY_EXISTS, "cannot listen at %s: the file exists and is not a socket", s->path);
    if (is_in_use(&a))
        return mr_error(MR_ALREADY_EXISTS, "cannot listen at %s: another process listens there", s->path);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return mr_errno_status(errno, "open", "a socket");
    MR_TRY(bind_and_listen(s, &a));
    if (!mr_local_watch_add(&s->watch, s->fd, EPOLLIN))
        return mr_errno_status(errno, "watch", s->path);
    return NULL;
}

/* Removes the socket's file, unless another server has replaced it. */
static void remove_path(mr_net_server *s)
{
    struct stat st;
    if (s->ino && lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
        unlink(s->path);
}

/* The options are copied; only o->arg must live until stop. */
static mr_net_server *server_new(mr_net *n, const mr_net_listen *o)
{
    mr_net_server *s = mr_new(mr_net_server);
    mr_refs_init(&s->refs);
    s->watch.ready = accept_some;
    s->accept_again.fn = accept_again;
    s->o = *o;
    s->o.keys = NULL;
    s->o.address = s->path = mr_strdup(o->address);
    s->net = n;
    s->max_message = n->max_message ? n->max_message : SIZE_MAX;
    s->fd = -1;
    return s;
}

/* On an error the socket is closed, too. */
mr_status *mr_local_serve(mr_net *n, const mr_net_listen *o, int fd, const mr_link *link, mr_net_server **out)
{
    mr_net_server *s = server_new(n, o);
    s->link = *link;
    s->link.tcp = true;
    s->fd = fd;
    mr_status *st = mr_local_io_start();
    if (!st && !mr_local_watch_add(&s->watch, fd, EPOLLIN)) {
        st = mr_errno_status(errno, "watch", s->path);
        mr_local_io_stop();
    }
    if (st) {
        close(fd);
        server_unref(s);
        return st;
    }
    *out = s;
    return NULL;
}

/* Any error leaves nothing behind: no file, no descriptor, no user of the transport's thread. */
mr_status *mr_local_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    mr_net_server *s = server_new(n, o);
    /* The thread first: open_socket lets it watch the socket. */
    mr_status *st = mr_local_io_start();
    if (!st) {
        st = open_socket(s);
        if (st) {
            remove_path(s);
            if (s->fd >= 0)
                close(s->fd);
            mr_local_io_stop();
        }
    }
    if (st) {
        server_unref(s);
        return st;
    }
    *out = s;
    *port = 0;
    return NULL;
}

/* ---- stopping ---- */

/* In the transport's thread: accepts nothing any more and cancels the calls that run. */
static void begin_stop(void *arg)
{
    mr_net_server *s = arg;
    MR_ASSERT(!s->stopping);
    s->stopping = true;
    mr_local_timer_clear(&s->accept_again);
    mr_local_watch_remove(s->fd);
    close(s->fd);
    remove_path(s);
    for (mr_conn *c = s->conns; c; c = c->next)
        cancel_all(c);
}

/* In the transport's thread: closes the connections. Calls that are not answered yet lose theirs. */
static void end_stop(void *arg)
{
    mr_net_server *s = arg;
    mr_status *why = mr_error(MR_UNAVAILABLE, "the server was stopped");
    while (s->conns)
        mr_conn_close(s->conns, why);
    MR_ASSERT(s->n_conns == 0);
    mr_status_free(why);
}

/* Calls get until grace_ns to be answered and their replies to be sent. A call that is still open
 * keeps the server's memory. */
void mr_local_stop(mr_net_server *s, int64_t grace_ns)
{
    if (!s)
        return;
    int64_t until;
    if (!mr_i64_add(mr_now_ns(), grace_ns, &until))
        until = INT64_MAX;
    mr_local_do(begin_stop, s);
    mr_lock(&mr_local_mu);
    while ((s->n_calls || s->n_busy) && mr_cond_wait_until(&mr_local_changed, &mr_local_mu, until))
        ;
    mr_unlock(&mr_local_mu);
    mr_local_do(end_stop, s);
    mr_local_io_stop();
    server_unref(s);
}
