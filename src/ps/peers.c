/* ps/peers.c -- calls from and to a thread that does one thing after the other.
 *
 * A held call may be cancelled (from the transport's thread) while it is being answered (from ours).  Whoever comes second
 * frees it: the callback says that its note is under way before it puts it in, and a reply does not return while a callback
 * runs, so after a reply it is known whether a note will come. */
#include "ps/peers.h"

#include "base/clock.h"
#include "server/server.h"
#include "server/ways.h"

#define STOP_GRACE_NS (2 * INT64_C(1000000000))

/* ---- inside this process ---- */

static mr_net *_Atomic inside_by;

void mr_ps_inside_by(mr_net *net) { atomic_store(&inside_by, net); }

static mr_net *inside_net(void)
{
    mr_net *n = atomic_load(&inside_by);
    return n ? n : mr_net_loop();
}

/* ---- ways ---- */

static bool is_inside(const char *address)
{
    return strncmp(address, MR_PS_INSIDE, sizeof MR_PS_INSIDE - 1) == 0;
}

static mr_status *open_way(const char *address, mr_net **net, mr_net_peer **peer)
{
    if (!is_inside(address))
        return mr_way_to(address, NULL, NULL, net, peer);
    *net = inside_net();
    return (*net)->connect(*net, address, NULL, NULL, peer);
}

static mr_status *find_way(mr_ps_ways *w, uint64_t to, const char *address, mr_ps_way **out)
{
    for (int i = 0; i < w->to.n; i++)
        if (w->to.p[i].id == to) {
            *out = &w->to.p[i];
            return NULL;
        }
    mr_ps_way way = {.id = to};
    if (!address || !address[0])
        return mr_error(MR_UNAVAILABLE, "It is not known where server %016llx is", (unsigned long long)to);
    MR_TRY(open_way(address, &way.net, &way.peer));
    way.address = mr_strdup(address);
    mr_vec_push(&w->to, way);
    *out = &mr_vec_last(&w->to);
    return NULL;
}

static void way_close(mr_ps_way *way)
{
    way->net->disconnect(way->peer);
    mr_free(way->address);
}

void mr_ps_ways_drop(mr_ps_ways *w, uint64_t to)
{
    for (int i = 0; i < w->to.n; i++)
        if (w->to.p[i].id == to) {
            mr_ps_way gone = w->to.p[i];
            mr_vec_remove_swap(&w->to, i);
            way_close(&gone);
            return;
        }
}

void mr_ps_ways_close(mr_ps_ways *w)
{
    w->closed = true;
    for (int i = 0; i < w->to.n; i++)
        way_close(&w->to.p[i]);
    mr_vec_deinit(&w->to);
}

/* ---- requests ---- */

static void on_answer(void *owner, mr_ps_note *n)
{
    mr_ps_ask *a = (mr_ps_ask *)((char *)n - offsetof(mr_ps_ask, note));
    a->ways->bytes_received += (int64_t)a->reply.n;
    a->answered(owner, a);
}

static void on_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_ps_ask *a = (mr_ps_ask *)r;
    a->st = st;
    a->reply = *reply;
    *reply = (mr_bytes){0};
    mr_ps_inbox_put(a->ways->inbox, &a->note, on_answer);
}

void mr_ps_ask_start(mr_ps_ways *w, mr_ps_ask *a, uint64_t to, const char *address, const char *method,
                     mr_bytes *body, int64_t deadline_ns)
{
    mr_ps_way *way = NULL;
    mr_status *st = w->closed ? mr_error(MR_CANCELLED, "It is being closed") : find_way(w, to, address, &way);
    a->ways = w;
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
    way->net->start(way->peer, &a->r);
}

void mr_ps_ask_deinit(mr_ps_ask *a)
{
    mr_status_free(a->st);
    mr_bytes_deinit(&a->reply);
}

/* ---- listening ---- */

struct mr_ps_doors {
    char *address;
    mr_doors doors;
    mr_net_server *inside;
    mr_server *task;
    const char *service;
};

static mr_status *open_doors(mr_ps_doors *d, const char *address, void (*handle)(void *arg, mr_net_call *c),
                             void *arg)
{
    int port = 0;
    if (is_inside(address)) {
        mr_net_listen o = {.address = address, .handle = handle, .arg = arg};
        d->address = mr_strdup(address);
        return inside_net()->listen(inside_net(), &o, &d->inside, &port);
    }
    MR_TRY(mr_doors_open(address, NULL, handle, arg, &d->doors, &port));
    const char *colon = strrchr(address, ':');
    d->address = colon ? mr_printf("%.*s:%d", (int)(colon - address), address, port) : mr_strdup(address);
    return NULL;
}

mr_status *mr_ps_doors_open(const char *address, mr_server *task, const char *service,
                            void (*handle)(void *arg, mr_net_call *c), void *arg, mr_ps_doors **out)
{
    mr_status *st;
    mr_ps_doors *d = mr_new(mr_ps_doors);
    d->service = service;
    if (task) {
        const char *target = mr_server_target(task);
        d->address = mr_strdup(strncmp(target, "grpc://", 7) == 0 ? target + 7 : target);
        st = mr_server_mount(task, service, handle, arg);
        d->task = st ? NULL : task;
    } else {
        st = open_doors(d, address, handle, arg);
    }
    if (st) {
        mr_ps_doors_close(d);
        d = NULL;
    }
    *out = d;
    return st;
}

const char *mr_ps_doors_address(const mr_ps_doors *d) { return d->address; }

void mr_ps_doors_close(mr_ps_doors *d)
{
    if (!d)
        return;
    if (d->task)
        mr_server_unmount(d->task, d->service);
    if (d->inside)
        inside_net()->stop(d->inside, STOP_GRACE_NS);
    mr_doors_close(&d->doors, STOP_GRACE_NS);
    mr_free(d->address);
    mr_free(d);
}

/* ---- calls ---- */

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

static void on_gone(void *owner, mr_ps_note *n)
{
    mr_ps_held *h = (mr_ps_held *)n;
    if (h->call)
        h->gone(owner, h);
    mr_free(h);
}

static void cancelled(void *arg, mr_net_call *c)
{
    mr_ps_held *h = arg;
    (void)c;
    atomic_store(&h->noted, true);
    mr_ps_inbox_put(h->inbox, &h->note, on_gone);
}

void mr_ps_hold(mr_ps_held *h, mr_ps_inbox *b, mr_net_call *c, void (*gone)(void *owner, mr_ps_held *h))
{
    h->inbox = b;
    h->call = c;
    h->gone = gone;
    if (!c->net->on_cancel(c, cancelled, h))
        cancelled(h, c);
}

void mr_ps_held_reply(mr_ps_held *h, mr_status *st, mr_bytes *body)
{
    mr_net_call *c = h->call;
    h->call = NULL;
    mr_ps_reply(c, st, body);
    if (!atomic_load(&h->noted))
        mr_free(h);
}
