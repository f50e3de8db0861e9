/* net/grpc/client.c -- the gRPC transport's client side.
 *
 * A request is one call and one batch of six operations (send metadata, message and close; receive
 * metadata, message and status); request_finished runs in the clients' thread when all of them are over,
 * however the call ends. Until then the request is in its peer's list.
 *
 * One lock guards all of it, and is held for a few instructions per request. gRPC is never called with it
 * held, because gRPC may drop pieces of a body, and that may call anything. */
#include "net/grpc/grpc.h"

#include <grpc/support/alloc.h>

#include "base/clock.h"
#include "net/message.h"
#include "net/task_name.h"

/* A request under way. Owned by itself: request_finished frees it. gRPC writes to reply, head, trail, code and details
 * until then. */
typedef struct request {
    mr_tag tag; /* first */
    mr_net_request *r;
    mr_net_peer *peer;
    grpc_call *call;
    struct request *next, *prev; /* the peer's list */
    grpc_byte_buffer *body, *reply;
    grpc_metadata_array head, trail;
    grpc_metadata token;
    grpc_status_code code;
    grpc_slice details;
} request;

/* A peer has one channel; gRPC connects and reconnects by itself. */
struct mr_net_peer {
    char *address;
    grpc_channel *channel;
    grpc_completion_queue *cq;
    const char *token; /* sent with every call; NULL: none */
    request *open; /* mu */
    bool closing;  /* mu */
};

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_cond changed = {PTHREAD_COND_INITIALIZER}; /* a request of a closing peer has ended */

/* ---- ending ---- */

/* What gRPC's text about a failed connection means for the user; NULL: it is not about
 * keys. */
static const char *about_keys(const char *text)
{
    if (strstr(text, "certificate verify failed"))
        return "its certificate is not of our CA, or has expired";
    if (strstr(text, "is not in peer certificate"))
        return "its certificate is of another task";
    if (strstr(text, "wrong version number"))
        return "it speaks plain text, and this side has keys";
    return strstr(text, "handshake failed") ? "its keys do not match ours" : NULL;
}

/* Turns a connection that failed because of keys into UNAUTHENTICATED, because waiting does not help
 * there. A peer that refuses our certificate, or wants one when we have none, just closes the
 * connection, which may have other reasons, so that stays UNAVAILABLE, with MR_REASON_HUNG_UP;
 * server/remote_session.c counts these. gRPC gives its reasons only as text. Takes st. */
static mr_status *explain_failure(mr_status *st)
{
    const char *text = mr_status_message(st);
    if (!strstr(text, "failed to connect"))
        return st;
    const char *why = about_keys(text);
    if (!why && strstr(text, "Socket closed"))
        return mr_status_set_reason(
            mr_status_append(st, " (it closed the connection: it requires keys, or other keys than ours)"),
            MR_REASON_HUNG_UP);
    if (!why)
        return st;
    mr_status *told = mr_error(MR_UNAUTHENTICATED, "%s (%s)", text, why);
    mr_status_free(st);
    return told;
}

/* The request's status, and its reply if there is one. gRPC's own errors do not name the peer, so that
 * is added. */
static mr_status *request_result(request *q, bool closing, mr_bytes *reply)
{
    if (q->code == GRPC_STATUS_OK && q->reply) {
        grpc_byte_buffer *g = q->reply;
        q->reply = NULL;
        return mr_body_from_grpc(g, reply);
    }
    if (q->code == GRPC_STATUS_OK)
        return mr_error(MR_INTERNAL, "%s to %s ended without a reply", q->r->method,
                        q->peer->address);
    if (closing)
        return mr_error(MR_CANCELLED, "%s to %s: disconnected", q->r->method, q->peer->address);
    mr_status *st = mr_net_status(q->code, mr_slice_view(&q->details));
    if (q->code == GRPC_STATUS_UNAVAILABLE ||
        q->code == GRPC_STATUS_DEADLINE_EXCEEDED)
        st = mr_status_prepend(st, "%s to %s: ", q->r->method, q->peer->address);
    return q->code == GRPC_STATUS_UNAVAILABLE ? explain_failure(st) : st;
}

/* Frees everything gRPC has given to the request. */
static void free_request(request *q)
{
    if (q->reply)
        grpc_byte_buffer_destroy(q->reply);
    grpc_byte_buffer_destroy(q->body);
    grpc_metadata_array_destroy(&q->head);
    grpc_metadata_array_destroy(&q->trail);
    grpc_slice_unref(q->details);
    grpc_call_unref(q->call);
    mr_free(q);
}

static void tell_address(request *q)
{
    char *address = grpc_call_get_peer(q->call);
    q->r->answered_by(q->r, address);
    gpr_free(address);
}

/* All operations are over. `done` may free the mr_net_request; the peer stays until the request is out
 * of its list. */
static void request_finished(mr_tag *t, bool ok)
{
    request *q = (request *)t;
    mr_net_request *r = q->r;
    mr_net_peer *p = q->peer;
    mr_bytes reply = {0};
    (void)ok; /* a batch with a status always succeeds */
    mr_lock(&mu);
    MR_ASSERT(r->impl == q);
    r->impl = NULL; /* a cancel from now on does nothing */
    bool closing = p->closing;
    mr_unlock(&mu);
    mr_status *st = request_result(q, closing, &reply);
    if (st)
        mr_bytes_deinit(&reply);
    else if (r->answered_by)
        tell_address(q);
    r->done(r, st, &reply);
    mr_bytes_deinit(&reply);
    mr_lock(&mu);
    MR_ASSERT(q->prev ? q->prev->next == q : p->open == q);
    *(q->prev ? &q->prev->next : &p->open) = q->next;
    if (q->next)
        q->next->prev = q->prev;
    if (p->closing)
        pthread_cond_broadcast(&changed.c);
    mr_unlock(&mu);
    free_request(q);
}

/* ---- starting ---- */

/* Starts the call's only batch. The token's text lives as long as the process, so it is not copied. */
static void start_batch(request *q)
{
    uint32_t wait = q->r->wait_for_ready ? GRPC_INITIAL_METADATA_WAIT_FOR_READY : 0;
    if (q->peer->token)
        q->token = (grpc_metadata){.key = grpc_slice_from_static_string(MR_GRPC_TOKEN),
                                   .value = grpc_slice_from_static_string(q->peer->token)};
    grpc_op ops[] = {{.op = GRPC_OP_SEND_INITIAL_METADATA,
                      .flags = wait | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET,
                      .data.send_initial_metadata = {.count = q->peer->token ? 1 : 0, .metadata = &q->token}},
                     {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = q->body},
                     {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
                     {.op = GRPC_OP_RECV_INITIAL_METADATA,
                      .data.recv_initial_metadata.recv_initial_metadata = &q->head},
                     {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &q->reply},
                     {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                      .data.recv_status_on_client = {.trailing_metadata = &q->trail,
                                                     .status = &q->code,
                                                     .status_details = &q->details}}};
    MR_GIVE(&q->tag);
    grpc_call_error e = grpc_call_start_batch(q->call, ops, MR_COUNT(ops), &q->tag, NULL);
    MR_ASSERT(e == GRPC_CALL_OK);
    (void)e;
}

/* A request of a peer that is closing is started and cancelled, so that it ends like any other. */
void mr_grpc_start(mr_net_peer *p, mr_net_request *r)
{
    request *q = mr_new(request);
    q->tag.fn = request_finished;
    q->r = r;
    q->peer = p;
    q->body = mr_body_to_grpc(&r->body);
    q->details = grpc_empty_slice();
    grpc_metadata_array_init(&q->head);
    grpc_metadata_array_init(&q->trail);
    grpc_slice method = grpc_slice_from_copied_string(r->method);
    q->call = grpc_channel_create_call(p->channel, NULL, GRPC_PROPAGATE_DEFAULTS, p->cq, method,
                                       NULL, mr_grpc_time(r->deadline_ns), NULL);
    grpc_slice_unref(method);
    mr_lock(&mu);
    MR_ASSERT(!q->prev && (!p->open || !p->open->prev)); /* the list starts at its newest request */
    r->impl = q;
    q->next = p->open;
    if (q->next)
        q->next->prev = q;
    p->open = q;
    bool closing = p->closing;
    mr_unlock(&mu);
    if (closing)
        grpc_call_cancel(q->call, NULL);
    start_batch(q);
}

/* Called without the lock, with a reference to the call. */
static void cancel_and_unref(grpc_call *call)
{
    grpc_call_cancel(call, NULL);
    grpc_call_unref(call);
}

/* A request that has ended has no impl, and nothing happens. The call is cancelled without the lock. */
void mr_grpc_cancel(mr_net_request *r)
{
    mr_lock(&mu);
    request *q = r->impl;
    grpc_call *call = q ? q->call : NULL;
    if (call)
        grpc_call_ref(call);
    mr_unlock(&mu);
    if (call)
        cancel_and_unref(call);
}

/* ---- peers ---- */

/* The host name that the peer's certificate must contain. */
static mr_status *host_of(const char *name, mr_str *out)
{
    if (!name)
        mr_str_appendz(out, MR_TASK_ANY);
    else if (!mr_task_name_encode(name, out))
        return mr_invalid("'%s' is not the name of a task, such as ps/0", name);
    return NULL;
}

/* Makes the channel. gRPC connects with the first call. */
static mr_status *make_channel(mr_net *n, const char *address, const mr_net_keys *keys,
                               const char *name, grpc_channel **out)
{
    mr_grpc_args args;
    grpc_channel_credentials *creds;
    mr_str host = {0};
    mr_status *st = host_of(name, &host);
    if (!st)
        st = mr_grpc_client_credentials(keys, &creds);
    if (!st) {
        mr_grpc_client_args(&args, n->max_message, keys != NULL, mr_str_z(&host));
        *out = grpc_channel_create(address, creds, &args.list);
        grpc_channel_credentials_release(creds);
        if (!*out)
            st = mr_invalid("'%s' is not an address", address);
    }
    mr_str_deinit(&host);
    return st;
}

/* Makes the channel; gRPC connects with the first request. On failure everything is released. The token is sent only
 * where there are no keys, since certificates prove the same. */
mr_status *mr_grpc_connect(mr_net *n, const char *address, const mr_net_keys *keys,
                           const char *name, mr_net_peer **out)
{
    mr_status *st = NULL;
    mr_net_peer *p = mr_new(mr_net_peer);
    mr_grpc_use();
    MR_GO(make_channel(n, address, keys, name, &p->channel));
    MR_GO(mr_grpc_queue_clients_get(&p->cq));
    p->address = mr_strdup(address);
    p->token = !keys && n->token[0] ? n->token : NULL;
    *out = p;
    return NULL;
out:
    if (p->channel)
        grpc_channel_destroy(p->channel);
    mr_free(p);
    mr_grpc_unuse();
    return st;
}

/* Cancels the open requests and waits until they have ended. The calls are cancelled outside the lock, each with a
 * separate reference, because a request may end meanwhile. */
void mr_grpc_disconnect(mr_net_peer *p)
{
    if (!p)
        return;
    MR_VEC(grpc_call *) open = {0};
    mr_lock(&mu);
    p->closing = true; /* requests that are started from now on are cancelled at once */
    for (request *q = p->open; q; q = q->next) {
        grpc_call_ref(q->call);
        mr_vec_push(&open, q->call);
    }
    mr_unlock(&mu);
    for (int i = 0; i < open.n; i++)
        cancel_and_unref(open.p[i]);
    mr_vec_deinit(&open);
    mr_lock(&mu);
    while (p->open)
        mr_cond_wait(&changed, &mu);
    mr_unlock(&mu);
    grpc_channel_destroy(p->channel);
    mr_grpc_queue_clients_put();
    mr_grpc_unuse();
    mr_free(p->address);
    mr_free(p);
}
