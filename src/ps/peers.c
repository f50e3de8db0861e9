/* ps/peers.c -- calls to and from the thread of an inbox.
 *
 * A held call may be cancelled (on the transport's thread) while it is being answered (on ours).
 * The second of the two frees it. This is safe because the cancel callback sets `noted` before it
 * puts its note in, and the transport's reply does not return while a cancel callback runs. So
 * after the reply `noted` is final: it says whether a note will come.
 *
 *     reply, no cancel       mr_ps_held_reply frees it
 *     cancel, then reply     on_gone calls `gone`, which replies; on_gone frees it
 *     reply, then the note   mr_ps_held_reply leaves it; on_gone finds it answered and frees it */
#include "ps/peers.h"

#include "base/clock.h"
#include "server/server.h"
#include "server/routes.h"

#define STOP_GRACE_NS (2 * INT64_C(1000000000))

/* ---- inside this process ---- */

static mr_net *_Atomic inside_by;

void mr_ps_inside_by(mr_net *net) { atomic_store(&inside_by, net); }

/* The transport of addresses inside this process. */
static mr_net *inside_net(void)
{
    mr_net *n = atomic_load(&inside_by);
    return n ? n : mr_net_loop();
}

/* ---- routes ---- */

static bool is_inside(const char *address)
{
    return strncmp(address, MR_PS_INSIDE, sizeof MR_PS_INSIDE - 1) == 0;
}

/* Opens a connection by the transport that fits the address. No bytes are sent yet. */
static mr_status *open_route(const char *address, mr_net **net, mr_net_peer **peer)
{
    if (!is_inside(address))
        return mr_route_to(address, NULL, NULL, net, peer);
    *net = inside_net();
    return (*net)->connect(*net, address, NULL, NULL, peer);
}

/* The open route to a peer, or a new one. The pointer is valid until the next route is opened or
 * dropped. */
static mr_status *find_route(mr_ps_routes *w, uint64_t to, const char *address, mr_ps_route **out)
{
    for (int i = 0; i < w->to.n; i++)
        if (w->to.p[i].id == to) {
            *out = &w->to.p[i];
            return NULL;
        }
    mr_ps_route route = {.id = to};
    if (!address || !address[0])
        return mr_error(MR_UNAVAILABLE, "The address of parameter server %016llx is unknown", (unsigned long long)to);
    MR_TRY(open_route(address, &route.net, &route.peer));
    route.address = mr_strdup(address);
    mr_vec_push(&w->to, route);
    *out = &mr_vec_last(&w->to);
    return NULL;
}

static void route_close(mr_ps_route *route)
{
    route->net->disconnect(route->peer);
    mr_free(route->address);
}

/* The route is taken out first: disconnecting ends its requests, whose callbacks may look for
 * routes. */
void mr_ps_routes_drop(mr_ps_routes *w, uint64_t to)
{
    for (int i = 0; i < w->to.n; i++)
        if (w->to.p[i].id == to) {
            mr_ps_route gone = w->to.p[i];
            mr_vec_remove_swap(&w->to, i);
            route_close(&gone);
            return;
        }
}

/* Idempotent. */
void mr_ps_routes_close(mr_ps_routes *w)
{
    w->closed = true;
    for (int i = 0; i < w->to.n; i++)
        route_close(&w->to.p[i]);
    mr_vec_deinit(&w->to);
}

/* ---- requests ---- */

/* The end of a request, now on the inbox's thread. */
static void on_answer(void *owner, mr_ps_note *n)
{
    mr_ps_ask *a = (mr_ps_ask *)((char *)n - offsetof(mr_ps_ask, note));
    a->routes->bytes_received += (int64_t)a->reply.n;
    a->answered(owner, a);
}

/* On any thread. The request's result moves into the ask, which travels to the inbox. */
static void on_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_ps_ask *a = (mr_ps_ask *)r;
    MR_ASSERT(!a->st && a->reply.n == 0);
    a->st = st;
    a->reply = *reply;
    *reply = (mr_bytes){0};
    mr_ps_inbox_put(a->routes->inbox, &a->note, on_answer);
}

/* A request that cannot be started ends like any other, through its note. */
void mr_ps_ask_start(mr_ps_routes *w, mr_ps_ask *a, uint64_t to, const char *address, const char *method,
                     mr_bytes *body, int64_t deadline_ns)
{
    mr_ps_route *route = NULL;
    MR_ASSERT(a->answered && !a->st);
    mr_status *st = w->closed ? mr_error(MR_CANCELLED, "The connections of this client or server are being closed")
                              : find_route(w, to, address, &route);
    a->routes = w;
    a->to = to;
    a->r = (mr_net_request){.method = method, .body = *body, .deadline_ns = deadline_ns, .done = on_done};
    *body = (mr_bytes){0};
    if (st) {
        mr_bytes none = {0};
        mr_bytes_deinit(&a->r.body);
        on_done(&a->r, st, &none);
        return;
    }
    w->bytes_sent += (int64_t)a->r.body.n;
    route->net->start(route->peer, &a->r);
}

void mr_ps_ask_deinit(mr_ps_ask *a)
{
    mr_status_free(a->st);
    mr_bytes_deinit(&a->reply);
}

/* ---- listening ---- */

struct mr_ps_listeners {
    char *address;
    mr_listeners listeners;
    mr_net_server *inside;
    mr_server *task;
    const char *service;
};

/* Listens at a separate address, not at that of a task. d->address gets the port that the system chose. */
static mr_status *open_listeners(mr_ps_listeners *d, const char *address, void (*handle)(void *arg, mr_net_call *c),
                             void *arg)
{
    int port = 0;
    if (is_inside(address)) {
        mr_net_listen o = {.address = address, .handle = handle, .arg = arg};
        d->address = mr_strdup(address);
        return inside_net()->listen(inside_net(), &o, &d->inside, &port);
    }
    MR_TRY(mr_listeners_open(address, NULL, handle, arg, &d->listeners, &port));
    const char *colon = strrchr(address, ':');
    d->address = colon ? mr_printf("%.*s:%d", (int)(colon - address), address, port) : mr_strdup(address);
    return NULL;
}

/* With a task, the methods become a part of the task's server and share its address. */
mr_status *mr_ps_listeners_open(const char *address, mr_server *task, const char *service,
                            void (*handle)(void *arg, mr_net_call *c), void *arg, mr_ps_listeners **out)
{
    mr_status *st;
    mr_ps_listeners *d = mr_new(mr_ps_listeners);
    d->service = service;
    if (task) {
        const char *target = mr_server_target(task);
        d->address = mr_strdup(strncmp(target, "grpc://", 7) == 0 ? target + 7 : target);
        st = mr_server_mount(task, service, handle, arg);
        d->task = st ? NULL : task;
    } else {
        st = open_listeners(d, address, handle, arg);
    }
    if (st) {
        mr_ps_listeners_close(d);
        d = NULL;
    }
    *out = d;
    return st;
}

const char *mr_ps_listeners_address(const mr_ps_listeners *d) { return d->address; }

/* Waits up to STOP_GRACE_NS for calls that are being answered. The thread must still run. */
void mr_ps_listeners_close(mr_ps_listeners *d)
{
    if (!d)
        return;
    if (d->task)
        mr_server_unmount(d->task, d->service);
    if (d->inside)
        inside_net()->stop(d->inside, STOP_GRACE_NS);
    mr_listeners_close(&d->listeners, STOP_GRACE_NS);
    mr_free(d->address);
    mr_free(d);
}

/* ---- calls ---- */

/* Answers a call. Takes over st and body; a body beside an error is dropped. */
void mr_ps_reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    mr_bytes none = {0};
    c->net->reply(c, st, st ? NULL : body ? body : &none);
    if (st && body)
        mr_bytes_deinit(body);
}

void mr_ps_calls_take(mr_ps_inbox *b, mr_net_call *c, void (*fn)(void *owner, mr_ps_note *n))
{
    mr_ps_call_note *n = mr_new(mr_ps_call_note);
    n->call = c;
    mr_ps_inbox_put(b, &n->note, fn);
}

/* The note of a cancelled call. If it was answered meanwhile, only the memory is left. */
static void on_gone(void *owner, mr_ps_note *n)
{
    mr_ps_held *h = (mr_ps_held *)n;
    if (h->call)
        h->gone(owner, h);
    mr_free(h);
}

/* On the transport's thread, or on ours if the call was cancelled before mr_ps_hold. */
static void on_cancelled(void *arg, mr_net_call *c)
{
    mr_ps_held *h = arg;
    (void)c;
    atomic_store(&h->noted, true);
    mr_ps_inbox_put(h->inbox, &h->note, on_gone);
}

/* From now on either the reply or the cancellation comes first; see the head of this file. */
void mr_ps_hold(mr_ps_held *h, mr_ps_inbox *b, mr_net_call *c, void (*gone)(void *owner, mr_ps_held *h))
{
    MR_ASSERT(!h->call && !atomic_load(&h->noted));
    h->inbox = b;
    h->call = c;
    h->gone = gone;
    if (!c->net->on_cancel(c, on_cancelled, h))
        on_cancelled(h, c);
}

/* Answers once. h is freed here, or by the note that is under way. */
void mr_ps_held_reply(mr_ps_held *h, mr_status *st, mr_bytes *body)
{
    mr_net_call *c = h->call;
    MR_ASSERT(c);
    h->call = NULL;
    mr_ps_reply(c, st, body);
    if (!atomic_load(&h->noted))
        mr_free(h);
}
