/* distbelief/coordinator_client.c -- the worker's end of a work session: one call that stays open, one that asks.
 *
 * One thread asks; mr_coordinator_client_cancel may come from any thread. The calls are embedded, so they must have
 * ended before the session is freed; mr_coordinator_client_leave waits for that. */
#include "base/clock.h"
#include "base/long_wait.h"
#include "base/thread.h"
#include "distbelief/coordinator_service.h"
#include "server/routes.h"
#include "wire/pb.h"

typedef struct call { /* the request is first, because `done` casts back */
    mr_net_request r;
    mr_coordinator_client *client;
    bool open MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
    mr_bytes reply MR_GUARDED_BY(mu);
} call;

struct mr_coordinator_client {
    int64_t id;
    int64_t deadline_ms;
    char *address; /* of the coordinator */
    mr_net *net;
    mr_net_peer *peer;
    mr_mutex mu;
    mr_cond changed; /* a call has ended */
    call stay, ask;
    bool cancelled MR_GUARDED_BY(mu);
};

/* The end of a call, on a thread of the transport. The call must not be touched after the lock is released. */
static void call_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    call *c = (call *)r;
    mr_coordinator_client *h = c->client;
    mr_lock(&h->mu);
    c->st = st;
    if (!st && reply)
        mr_bytes_append(&c->reply, reply);
    c->open = false;
    mr_cond_broadcast(&h->changed);
    mr_unlock(&h->mu);
}

/* Starts a call with this worker's number and the text, which is taken over. The call is written under
 * mu, because mr_coordinator_client_cancel reads it. */
static mr_status *start_call(mr_coordinator_client *h, call *c, const char *method, mr_bytes *text, int64_t deadline_ns)
{
    mr_str head = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &head);
    mr_pb_put_varint(&w, 1, (uint64_t)h->id);
    if (text->n)
        mr_pb_put_header(&w, 2, text->n);
    mr_status *st = mr_pb_writer_status(&w, "message of a worker");
    if (st) {
        mr_str_deinit(&head);
        mr_bytes_deinit(text);
        return st;
    }
    mr_lock(&h->mu);
    MR_ASSERT(!c->open);
    *c = (call){.client = h, .open = true,
                .r = {.method = method, .deadline_ns = deadline_ns, .wait_for_ready = true, .done = call_done}};
    mr_bytes_add_str(&c->r.body, &head);
    mr_bytes_append(&c->r.body, text);
    mr_unlock(&h->mu);
    h->net->start(h->peer, &c->r);
    return NULL;
}

/* Waits until the call has ended; returns its error, and its reply in *out. Every request ends, at the
 * latest by its deadline. */
static mr_status *wait_for(mr_coordinator_client *h, call *c, mr_bytes *out)
{
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&h->mu);
    while (c->open)
        mr_long_wait_cond(&wait, &h->changed, &h->mu, 0, "the coordinator at %s: it has not answered %s", h->address,
                          c->r.method);
    mr_status *st = c->st;
    c->st = NULL;
    mr_bytes_append(out, &c->reply);
    mr_unlock(&h->mu);
    return st;
}

/* True once mr_coordinator_client_cancel was called. */
static bool stop_asked(mr_coordinator_client *h)
{
    mr_lock(&h->mu);
    bool stop = h->cancelled;
    mr_unlock(&h->mu);
    return stop;
}

/* Sends the report and waits for an order; an empty answer means to ask again. It looks for a
 * cancellation twice, because mr_coordinator_client_cancel cannot cancel a call that has not started. */
mr_status *mr_coordinator_client_ask(mr_coordinator_client *h, mr_bytes *report, mr_bytes *order)
{
    MR_ASSERT(order->n == 0);
    for (;;) {
        if (stop_asked(h)) {
            mr_bytes_deinit(report);
            return mr_error(MR_CANCELLED, "The work was cancelled");
        }
        MR_TRY(start_call(h, &h->ask, "/millrace.Coordinator/Ask", report, mr_now_ns() + h->deadline_ms * 1000000));
        if (stop_asked(h))
            h->net->cancel(&h->ask.r);
        MR_TRY(wait_for(h, &h->ask, order));
        if (order->n)
            return NULL;
    }
}

/* From any thread. A call that starts afterwards is cancelled by mr_coordinator_client_ask. */
void mr_coordinator_client_cancel(mr_coordinator_client *h)
{
    mr_lock(&h->mu);
    h->cancelled = true;
    bool open = h->ask.open;
    mr_unlock(&h->mu);
    if (open)
        h->net->cancel(&h->ask.r);
}

/* Connects and starts the call that stays open. The coordinator may refuse later: then the next Ask
 * fails. */
mr_status *mr_coordinator_client_join(const mr_coordinator_client_rules *o, mr_coordinator_client **out)
{
    mr_coordinator_client *h = mr_new(mr_coordinator_client);
    mr_bytes hello = {0};
    h->id = (int64_t)(mr_random64() >> 2) | 1;
    MR_ASSERT(h->id > 0);
    h->deadline_ms = o->deadline_ms > 0 ? o->deadline_ms : 60000;
    h->address = mr_strdup(o->address);
    mr_mutex_init(&h->mu);
    mr_cond_init(&h->changed);
    mr_status *st = mr_route_to(o->address, NULL, NULL, &h->net, &h->peer);
    if (!st && !mr_bytes_add_copy(&hello, o->hello.p, o->hello.n))
        st = mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot copy a hello of %zu bytes", o->hello.n);
    if (!st)
        st = start_call(h, &h->stay, "/millrace.Coordinator/Stay", &hello, 0);
    if (st)
        mr_coordinator_client_leave(h);
    else
        *out = h;
    return st;
}

/* Ends the call that stays open and waits for it, because it is part of h. Also frees a client that was made in
 * part. */
void mr_coordinator_client_leave(mr_coordinator_client *h)
{
    if (!h)
        return;
    mr_bytes none = {0};
    MR_ASSERT(!h->ask.open);
    if (h->stay.client) {
        h->net->cancel(&h->stay.r);
        mr_status_free(wait_for(h, &h->stay, &none));
    }
    mr_bytes_deinit(&none);
    if (h->peer)
        h->net->disconnect(h->peer);
    mr_cond_deinit(&h->changed);
    mr_mutex_deinit(&h->mu);
    mr_free(h->address);
    mr_free(h);
}
