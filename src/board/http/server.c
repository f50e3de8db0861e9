/* board/http/server.c -- moves requests and replies between libmicrohttpd and the board.
 *
 * Each listening socket has an event loop of libmicrohttpd on one thread, which must not wait. So a request that may
 * take long (every POST) is suspended and put into a queue; a few threads of ours answer the requests of the queue and
 * resume them.
 *
 *   on_target      the request line has arrived: makes the request, with its address as it was sent
 *   on_request     first call: the head is complete; is it admitted? Then once for each part of the body. Last call:
 * the request is complete. After a resume it is called once more, and the reply exists. on_completed   the reply was
 * sent, or the connection broke: frees the request
 *
 * A suspended request belongs to the queue and then to one of our threads, until it is resumed. libmicrohttpd does not
 * touch it meanwhile. */
#include <microhttpd.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "board/http/internal.h"
#include "board/listen.h"

enum {
    N_WORKERS = 4,
    MOST_QUEUED = 256,
    MOST_DISCARDED = 1 << 20, /* bytes of a refused body that are read, so that the client sees the reply */
    HEAD_BYTES = 32 << 10,    /* memory of a connection: the head of a request must fit */
    IDLE_SECONDS = 60,
    MOST_CONNECTIONS = 4096,
    SPARE_FILES = 64, /* descriptors for everything else */
};
#define MOST_BUFFERED ((size_t)512 << 20) /* bytes of all bodies that are in memory */

typedef struct http_request {
    mr_board_http_server *server;
    struct MHD_Connection *c;
    mr_board_connection *connection;
    char *target;
    mr_board_request r; /* its texts belong to libmicrohttpd, except the target and the body */
    mr_str body;
    size_t most_bytes, discarded;
    bool begun, answered, posts, twice;
    mr_board_reply reply;
    struct http_request *next; /* in the queue */
} http_request;

struct mr_board_http_server {
    mr_board_http_options o;
    struct MHD_Daemon *daemons[MR_BOARD_MAX_SOCKETS];
    int n_daemons;
    mr_board_connections connections;
    _Atomic size_t buffered;
    mr_mutex mu;
    mr_cond queued;
    http_request *first, **last MR_GUARDED_BY(mu);
    int n_queued MR_GUARDED_BY(mu);
    bool stopping MR_GUARDED_BY(mu);
    mr_thread workers[N_WORKERS];
    int n_workers;
};

/* ---- requests ---- */

static void answer_with(http_request *q, int code, mr_code status, const char *message)
{
    q->server->o.reply_deinit(&q->reply);
    q->server->o.refuse(code, status, message, &q->reply);
    q->answered = true;
}

static void drop_body(http_request *q)
{
    atomic_fetch_sub(&q->server->buffered, q->body.n);
    mr_str_deinit(&q->body);
}

/* Frees the request of a connection, if there is one. On the thread of its event loop; the request is not suspended. */
static void end_request(mr_board_http_server *s, mr_board_connection *c)
{
    http_request *q = c->request;
    c->request = NULL;
    if (!q)
        return;
    drop_body(q);
    s->o.reply_deinit(&q->reply);
    mr_free(q->target);
    mr_free(q);
}

static mr_board_connection *connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? i->socket_context : NULL;
}

/* The request belongs to its connection. libmicrohttpd forgets to call on_completed for some malformed requests; then
 * the request is freed when the next one comes or the connection ends. */
static void *on_target(void *server, const char *target, struct MHD_Connection *c)
{
    mr_board_http_server *s = server;
    mr_board_connection *connection = connection_of(c);
    if (!connection)
        return NULL;
    end_request(s, connection);
    http_request *q = mr_new(http_request);
    *q = (http_request){.server = s, .c = c, .connection = connection, .target = mr_strdup(target ? target : "")};
    q->r.target = mr_sv_of(q->target);
    connection->request = q;
    mr_board_connections_set(&s->connections, connection, MR_BOARD_READS, 0);
    return q;
}

static void on_completed(void *server, struct MHD_Connection *c, void **request, enum MHD_RequestTerminationCode why)
{
    (void)why;
    mr_board_http_server *s = server;
    mr_board_connection *connection = connection_of(c);
    *request = NULL;
    if (!connection)
        return;
    end_request(s, connection);
    mr_board_connections_set(&s->connections, connection, MR_BOARD_WAITS, 0);
}

/* Keeps the headers that the board looks at. One that comes twice is refused later: two readers of the request could
 * choose differently. */
static enum MHD_Result on_header(void *request, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    http_request *q = request;
    const struct {
        const char *name;
        mr_sv *value;
    } wanted[] = {
        {"Host", &q->r.host},
        {"Origin", &q->r.origin},
        {"Sec-Fetch-Site", &q->r.fetch_site},
        {"Sec-Fetch-Mode", &q->r.fetch_mode},
        {"Sec-Fetch-Dest", &q->r.fetch_dest},
        {"X-Millrace-Token", &q->r.token},
        {"Content-Type", &q->r.content_type},
        {"If-None-Match", &q->r.if_none_match},
    };
    for (int i = 0; i < MR_COUNT(wanted); i++)
        if (strcasecmp(name, wanted[i].name) == 0) {
            q->twice |= wanted[i].value->p != NULL;
            *wanted[i].value = mr_sv_of(value ? value : "");
        }
    return MHD_YES;
}

/* The head is complete. */
static void begin_request(http_request *q, const char *method)
{
    q->begun = true;
    q->r.method = mr_sv_of(method);
    q->posts = mr_sv_is(q->r.method, "POST");
    MHD_get_connection_values(q->c, MHD_HEADER_KIND, on_header, q);
    if (q->twice)
        answer_with(q, 400, MR_INVALID_ARGUMENT, "a header is given twice");
    else
        q->answered = !q->server->o.admits(q->server->o.board, &q->r, &q->most_bytes, &q->reply);
}

static uint64_t declared_bytes(http_request *q)
{
    const char *text = MHD_lookup_connection_value(q->c, MHD_HEADER_KIND, "Content-Length");
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Keeps a part of the body. False: the client sends more than a refused request may. */
static bool take_body(http_request *q, const char *p, size_t n)
{
    mr_board_http_server *s = q->server;
    if (!q->answered && n > q->most_bytes - q->body.n) {
        answer_with(q, 413, MR_INVALID_ARGUMENT, "the body is too long");
    } else if (!q->answered) {
        if (atomic_fetch_add(&s->buffered, n) + n > MOST_BUFFERED || !mr_str_try_append(&q->body, p, n)) {
            atomic_fetch_sub(&s->buffered, n);
            answer_with(q, 503, MR_RESOURCE_EXHAUSTED, "the board has no memory for this request now");
        }
    }
    if (q->answered) {
        drop_body(q);
        q->discarded += n;
    } else {
        mr_board_connections_set(&s->connections, q->connection, MR_BOARD_READS, q->body.n);
    }
    return q->discarded <= MOST_DISCARDED;
}

/* The reply is sent from the memory of the request, which lives until on_completed. */
static enum MHD_Result send_reply(http_request *q)
{
    mr_board_reply *r = &q->reply;
    MR_ASSERT(q->answered && r->code >= 200);
    drop_body(q);
    struct MHD_Response *m =
        MHD_create_response_from_buffer(r->body.n, (void *)(uintptr_t)r->body.p, MHD_RESPMEM_PERSISTENT);
    if (!m)
        return MHD_NO;
    for (int i = 0; i < r->n_headers; i++)
        MHD_add_response_header(m, r->headers[i].name, r->headers[i].value);
    mr_board_connections_set(&q->server->connections, q->connection, MR_BOARD_WRITES, r->body.n);
    enum MHD_Result ok = MHD_queue_response(q->c, (unsigned)r->code, m);
    MHD_destroy_response(m);
    return ok;
}

/* ---- the queue ---- */

/* False: the queue is full, and the request is answered. */
static bool enqueue(mr_board_http_server *s, http_request *q)
{
    mr_lock(&s->mu);
    bool takes = !s->stopping && s->n_queued < MOST_QUEUED;
    if (takes) {
        MHD_suspend_connection(q->c); /* before it can be resumed */
        q->next = NULL;
        *s->last = q;
        s->last = &q->next;
        s->n_queued++;
        mr_cond_signal(&s->queued);
    }
    mr_unlock(&s->mu);
    if (!takes)
        answer_with(q, 503, MR_UNAVAILABLE, "too many requests are waiting");
    return takes;
}

/* A thread that answers the requests of the queue. When the server stops, it refuses those that are left, because
 * libmicrohttpd cannot end while a request is suspended. */
static void work(void *server)
{
    mr_board_http_server *s = server;
    mr_lock(&s->mu);
    for (;;) {
        while (!s->first && !s->stopping)
            mr_cond_wait(&s->queued, &s->mu);
        http_request *q = s->first;
        if (!q)
            break;
        s->first = q->next;
        if (!s->first)
            s->last = &s->first;
        s->n_queued--;
        MR_ASSERT(s->n_queued >= 0 && !q->answered);
        bool stopping = s->stopping;
        mr_unlock(&s->mu);
        if (stopping) {
            answer_with(q, 503, MR_UNAVAILABLE, "the board is being stopped");
        } else if (mr_cancel_flag_is_set(q->r.cancelled)) { /* while it waited */
            answer_with(q, 503, MR_CANCELLED, "the client closed the connection");
        } else {
            s->o.handle(s->o.board, &q->r, &q->reply);
            q->answered = true;
        }
        MHD_resume_connection(q->c); /* q is no longer ours */
        mr_lock(&s->mu);
    }
    mr_unlock(&s->mu);
}

/* ---- calls of libmicrohttpd ---- */

/* See the head of this file. MHD_NO closes the connection. */
static enum MHD_Result on_request(void *server, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **request)
{
    (void)c, (void)url, (void)version;
    mr_board_http_server *s = server;
    http_request *q = *request;
    if (!q)
        return MHD_NO;
    if (!q->begun) {
        begin_request(q, method);
        uint64_t bytes = declared_bytes(q);
        if (!q->answered && bytes > q->most_bytes)
            answer_with(q, 413, MR_INVALID_ARGUMENT, "the body is too long");
        return q->answered && bytes > MOST_DISCARDED ? send_reply(q) : MHD_YES;
    }
    if (*n) {
        bool goes_on = take_body(q, data, *n);
        *n = 0;
        return goes_on ? MHD_YES : MHD_NO;
    }
    if (q->answered)
        return send_reply(q);
    q->r.body = mr_str_view(&q->body);
    if (q->posts) {
        mr_board_connections_set(&s->connections, q->connection, MR_BOARD_WORKS, 0);
        q->r.cancelled = &q->connection->gone;
        return enqueue(s, q) ? MHD_YES : send_reply(q);
    }
    s->o.handle(s->o.board, &q->r, &q->reply);
    q->answered = true;
    return send_reply(q);
}

static void on_connection(void *server, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    mr_board_http_server *s = server;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = i ? mr_board_connections_add(&s->connections, i->connect_fd) : NULL;
    } else if (*context) {
        end_request(s, *context);
        mr_board_connections_remove(&s->connections, *context);
        *context = NULL;
    }
}

/* The board itself decodes what it needs. */
static size_t keep_escapes(void *server, struct MHD_Connection *c, char *text)
{
    (void)server, (void)c;
    return strlen(text);
}

/* ---- the server ---- */

/* As many connections as there may be open files, up to MOST_CONNECTIONS. */
static int most_connections(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return 512;
    rlim_t want = MOST_CONNECTIONS + SPARE_FILES;
    if (l.rlim_cur < want && l.rlim_max > l.rlim_cur) {
        struct rlimit more = {MR_MIN(want, l.rlim_max), l.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            l = more;
    }
    return (int)MR_MIN(l.rlim_cur, want) - SPARE_FILES;
}

static struct MHD_Daemon *start_daemon(mr_board_http_server *s, int socket, unsigned most)
{
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, s,
                            MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT, most,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK,
                            on_target, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, s, MHD_OPTION_NOTIFY_COMPLETED,
                            on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
}

/* Ends the threads. Requests in the queue are answered with an error, and so are those that are being simulated: their
 * simulations are cancelled. */
static void stop_workers(mr_board_http_server *s)
{
    mr_lock(&s->mu);
    s->stopping = true;
    mr_cond_broadcast(&s->queued);
    mr_unlock(&s->mu);
    mr_board_connections_cancel(&s->connections); /* none begins to work after `stopping` is set */
    for (int i = 0; i < s->n_workers; i++)
        mr_thread_join(&s->workers[i]);
}

/* The event loops end last, because they must still see what our threads resume. */
static void stop_server(mr_board_http_server *s)
{
    if (!s)
        return;
    stop_workers(s);
    for (int i = 0; i < s->n_daemons; i++)
        MHD_stop_daemon(s->daemons[i]);
    mr_board_connections_stop(&s->connections);
    for (int i = s->n_daemons; i < s->o.n_sockets; i++)
        close(s->o.sockets[i]);
    MR_ASSERT(s->buffered == 0);
    mr_cond_deinit(&s->queued);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

/* Takes the sockets, also if it fails. */
static mr_status *start_server(const mr_board_http_options *o, mr_board_http_server **out)
{
    mr_status *st = NULL;
    *out = NULL;
    MR_ENSURE(o->n_sockets > 0 && o->n_sockets <= MR_BOARD_MAX_SOCKETS);
    mr_board_http_server *s = mr_new(mr_board_http_server);
    s->o = *o;
    s->last = &s->first;
    int most = most_connections() / o->n_sockets;
    st = most < 8 ? mr_error(MR_RESOURCE_EXHAUSTED, "this process may open too few files: raise the limit (ulimit -n)")
                  : mr_board_connections_start(&s->connections, most * 3 / 4, o->deadlines);
    if (st) {
        for (int i = 0; i < o->n_sockets; i++)
            close(o->sockets[i]);
        mr_free(s);
        return st;
    }
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->queued);
    for (; s->n_workers < N_WORKERS && !st; s->n_workers += !st)
        if (mr_thread_start(&s->workers[s->n_workers], "board-work", work, s))
            st = mr_error(MR_RESOURCE_EXHAUSTED, "cannot start a thread");
    for (; s->n_daemons < o->n_sockets && !st; s->n_daemons += !st) {
        s->daemons[s->n_daemons] = start_daemon(s, o->sockets[s->n_daemons], (unsigned)most);
        if (!s->daemons[s->n_daemons])
            st = mr_error(MR_UNAVAILABLE, "libmicrohttpd could not start");
    }
    if (st)
        stop_server(s);
    else
        *out = s;
    return st;
}

const mr_board_http *mr_board_http_get(int abi)
{
    static mr_board_http table = {MR_BOARD_HTTP_ABI, mr_board_assets, 0, start_server, stop_server};
    table.n_assets = mr_board_n_assets;
    return abi == MR_BOARD_HTTP_ABI ? &table : NULL;
}
