/* net/loop.c -- calls inside this process: a task that calls itself, and the clusters of tests.
 *
 * An address is any text. A request goes to the handler of the server that listens there, in the
 * caller's thread; the reply calls `done` in the replier's thread. Bodies change hands without a copy.
 * Deadlines are not kept: a call inside one process is answered or cancelled.
 *
 *     loop_start -> open_call -> handle_call: the handler, in the caller's thread
 *     loop_reply -> end_request -> the request's `done`, in the replier's thread
 *
 * A call belongs to its handler until the reply. Its server's lock decides whether the reply or a
 * cancellation takes the request (`request` becomes NULL); the one that does calls `done`. Locks:
 * all_mu, then a server's. */
#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/thread.h"
#include "net/net.h"

/* A call that is being answered; freed by its reply. */
typedef struct loop_call {
    mr_net_call base; /* first */
    mr_net_server *server;
    mr_net_request *request; /* NULL once a thread ends it; under the server's lock */
    char *method;
    bool in_callback;       /* base.cancelled runs, in this thread: */
    pthread_t callback_thread;
    bool cancelled;
    struct loop_call *next, **link; /* of the server's open calls */
} loop_call;

struct mr_net_server {
    char *address;
    void (*handle)(void *arg, mr_net_call *c);
    void *arg;
    mr_mutex mu;
    mr_cond changed; /* a call ended, or a callback */
    loop_call *calls MR_GUARDED_BY(mu);
    bool stopping MR_GUARDED_BY(mu);
    int n_handling MR_GUARDED_BY(mu); /* handlers that have not returned, whether they have answered or not */
    mr_refs refs; /* its owner's, and of calls */
};

/* The requests of a peer that have not ended, for loop_disconnect. */
struct mr_net_peer {
    char *address;
    MR_VEC(mr_net_request *) open; /* under all_mu */
    int n_ending;                  /* no longer open, but `done` has not returned yet; under all_mu */
    mr_cond empty;
};

static mr_mutex all_mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_map listeners MR_GUARDED_BY(all_mu); /* address -> mr_net_server */

/* ---- servers ---- */

/* Each call and each request that was handed to the server has a reference, and the user has one until stop. */
static void server_unref(mr_net_server *s)
{
    if (!mr_refs_drop(&s->refs))
        return;
    MR_ASSERT(!s->calls && s->n_handling == 0);
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
    mr_free(s->address);
    mr_free(s);
}

/* The address is claimed under all_mu, so of two servers that start at once one gets ALREADY_EXISTS. */
static mr_status *loop_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    (void)n;
    mr_net_server *s = mr_new(mr_net_server);
    mr_refs_init(&s->refs);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
    s->address = mr_strdup(o->address);
    s->handle = o->handle;
    s->arg = o->arg;
    mr_lock(&all_mu);
    bool taken = mr_map_getz(&listeners, o->address) != NULL;
    if (!taken)
        mr_map_putz(&listeners, o->address, s);
    mr_unlock(&all_mu);
    *out = taken ? NULL : s;
    *port = 0;
    if (!taken)
        return NULL;
    server_unref(s);
    return mr_error(MR_ALREADY_EXISTS, "Another server already listens at %s", o->address);
}

/* ---- the end of a request ---- */

/* What a request keeps with the transport. */
typedef struct loop_request {
    mr_net_peer *peer;
    mr_net_server *server; /* NULL: nobody listened */
} loop_request;

/* The request is no longer open, but `done` has still to be called (n_ending). */
static void close_request(mr_net_peer *p, const mr_net_request *r)
{
    mr_lock(&all_mu);
    for (int i = 0; i < p->open.n; i++)
        if (p->open.p[i] == r) {
            p->open.p[i] = p->open.p[--p->open.n];
            break;
        }
    p->n_ending++;
    mr_unlock(&all_mu);
}

/* `done` has returned: the peer may be freed. */
static void request_ended(mr_net_peer *p)
{
    mr_lock(&all_mu);
    MR_ASSERT(p->n_ending > 0);
    if (--p->n_ending == 0)
        mr_cond_broadcast(&p->empty);
    mr_unlock(&all_mu);
}

/* Ends a request that the caller has taken from its call. Takes st; the body stays the caller's unless
 * `done` takes it. */
static void end_request(mr_net_request *r, mr_status *st, mr_bytes *body)
{
    mr_bytes none = {0};
    loop_request *q = r->impl;
    MR_ASSERT(q);
    mr_net_peer *p = q->peer;
    close_request(p, r);
    if (q->server)
        server_unref(q->server);
    mr_free(q);
    r->impl = NULL;
    r->done(r, st, body ? body : &none);
    request_ended(p);
    mr_bytes_deinit(&none);
}

/* ---- calls ---- */

/* Takes the call out of its server's list, with the server's lock held. */
static void unlink_locked(loop_call *c)
{
    MR_ASSERT(*c->link == c);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
}

/* Waits for a cancellation callback that runs in another thread. If the request was cancelled, the
 * reply is dropped. */
static void loop_reply(mr_net_call *base, mr_status *st, mr_bytes *body)
{
    loop_call *c = (loop_call *)base;
    mr_net_server *s = c->server;
    mr_lock(&s->mu);
    while (c->in_callback && !pthread_equal(c->callback_thread, pthread_self()))
        mr_cond_wait(&s->changed, &s->mu);
    mr_net_request *r = c->request;
    c->request = NULL;
    unlink_locked(c);
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
    if (r)
        end_request(r, st, st ? NULL : body);
    else
        mr_status_free(st);
    if (body)
        mr_bytes_deinit(body);
    mr_bytes_deinit(&c->base.body);
    mr_free(c->method);
    mr_free(c);
    server_unref(s);
}

/* false: the call is cancelled already, and fn will not be called. */
static bool loop_on_cancel(mr_net_call *base, void (*fn)(void *arg, mr_net_call *c), void *arg)
{
    loop_call *c = (loop_call *)base;
    mr_lock(&c->server->mu);
    bool ok = !c->cancelled;
    if (ok) {
        base->cancelled = fn;
        base->cancelled_arg = arg;
    }
    mr_unlock(&c->server->mu);
    return ok;
}

/* Takes the request of a call, for the caller to end, and calls the handler's callback, once. The
 * server's lock is held, and released while the callback runs; the call may be gone then, so it is
 * looked for before it is touched. */
static mr_net_request *cancel_locked(mr_net_server *s, loop_call *c) MR_NO_TSA
{
    mr_net_request *r = c->request;
    c->request = NULL;
    if (c->cancelled)
        return r;
    c->cancelled = true;
    if (c->base.cancelled) {
        c->in_callback = true;
        c->callback_thread = pthread_self();
        s->n_handling++; /* the callback counts as a handler */
        mr_unlock(&s->mu);
        c->base.cancelled(c->base.cancelled_arg, &c->base);
        mr_lock(&s->mu);
        s->n_handling--;
        for (loop_call *x = s->calls; x; x = x->next) /* it is gone if the callback replied */
            if (x == c)
                c->in_callback = false;
        mr_cond_broadcast(&s->changed);
    }
    return r;
}

/* The open call of a request; NULL: it was taken by a reply or a cancellation, or is of another server. */
static loop_call *find_call_locked(mr_net_server *s, const mr_net_request *r)
{
    loop_call *c = s->calls;
    while (c && c->request != r)
        c = c->next;
    return c;
}

/* Cancels a request. It may have ended, and its record with it, so its server is looked for among all
 * that listen. */
static void loop_cancel(mr_net_request *r)
{
    mr_net_server *found = NULL;
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_lock(&all_mu);
    while (!found && mr_map_next(&listeners, &pos, &key, &v)) {
        mr_net_server *s = v;
        mr_lock(&s->mu);
        if (find_call_locked(s, r)) {
            mr_refs_take(&s->refs);
            found = s;
        }
        mr_unlock(&s->mu);
    }
    mr_unlock(&all_mu);
    if (!found)
        return;
    /* The call may have been answered meanwhile, so it is looked for again. */
    mr_lock(&found->mu);
    loop_call *c = find_call_locked(found, r);
    mr_net_request *ended = c ? cancel_locked(found, c) : NULL;
    mr_unlock(&found->mu);
    if (ended)
        end_request(ended, mr_error(MR_CANCELLED, "%s was cancelled by its caller", r->method), NULL);
    server_unref(found);
}

/* Cancels the open calls and waits until they are answered, at most grace_ns, and until all handlers
 * have returned, however long that takes: what they use is freed afterwards. */
static void loop_stop(mr_net_server *s, int64_t grace_ns)
{
    int64_t until = mr_now_ns() + grace_ns;
    bool in_time = true;
    mr_lock(&all_mu);
    mr_map_remove(&listeners, mr_sv_of(s->address));
    mr_unlock(&all_mu);
    mr_lock(&s->mu);
    s->stopping = true;
    /* Takes the request of each call and ends it; then waits for the handlers to reply to the calls. */
    while (s->calls && in_time) {
        loop_call *c = s->calls;
        while (c && !c->request)
            c = c->next;
        if (!c) {
            in_time = mr_cond_wait_until(&s->changed, &s->mu, until);
            continue;
        }
        mr_net_request *r = cancel_locked(s, c);
        mr_unlock(&s->mu);
        end_request(r, mr_error(MR_UNAVAILABLE, "%s has stopped", s->address), NULL);
        mr_lock(&s->mu);
    }
    while (s->n_handling > 0)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
    server_unref(s);
}

/* ---- peers ---- */

/* Does not look for the server: it may start to listen later. */
static mr_status *loop_connect(mr_net *n, const char *address, const mr_net_keys *keys, const char *name,
                               mr_net_peer **out)
{
    (void)n, (void)keys, (void)name;
    *out = mr_new(mr_net_peer);
    (*out)->address = mr_strdup(address);
    mr_cond_init(&(*out)->empty);
    return NULL;
}

/* Cancels the open requests and waits until `done` of each has returned. A request that another thread
 * is ending is only waited for. */
static void loop_disconnect(mr_net_peer *p)
{
    mr_lock(&all_mu);
    while (p->open.n > 0 || p->n_ending > 0) {
        mr_net_request *r = p->open.n > 0 ? p->open.p[0] : NULL;
        mr_unlock(&all_mu);
        if (r)
            loop_cancel(r);
        mr_lock(&all_mu);
        if (p->n_ending > 0 || (p->open.n > 0 && p->open.p[0] == r))
            mr_cond_wait_until(&p->empty, &all_mu, mr_now_ns() + 1000000);
    }
    mr_unlock(&all_mu);
    mr_cond_deinit(&p->empty);
    mr_vec_deinit(&p->open);
    mr_free(p->address);
    mr_free(p);
}

/* The method is copied, because the request may end before the call is answered. */
static loop_call *call_new(mr_net *net, mr_net_server *s, mr_net_request *r)
{
    loop_call *c = mr_new(loop_call);
    c->method = mr_strdup(r->method);
    c->base = (mr_net_call){.net = net, .method = c->method, .body = r->body, .peer_name = ""};
    c->server = s;
    c->request = r;
    return c;
}

static mr_net net_loop;

/* Makes the call and takes the request's body; NULL: the server is being stopped, so its handler may
 * be gone. */
static loop_call *open_call(mr_net_server *s, mr_net_request *r)
{
    mr_lock(&s->mu);
    loop_call *c = s->stopping ? NULL : call_new(&net_loop, s, r);
    if (c) {
        c->next = s->calls;
        c->link = &s->calls;
        if (s->calls)
            s->calls->link = &c->next;
        s->calls = c;
        s->n_handling++;
        mr_refs_take(&s->refs); /* for the handler */
        r->body = (mr_bytes){0};
    }
    mr_unlock(&s->mu);
    return c;
}

/* Runs the handler in this thread. The call may be answered and freed in it. */
static void handle_call(mr_net_server *s, loop_call *c)
{
    s->handle(s->arg, &c->base);
    mr_lock(&s->mu);
    MR_ASSERT(s->n_handling > 0);
    s->n_handling--;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
    server_unref(s);
}

/* Handles the request in the caller's thread. `done` may be called before this returns. If no server listens at the
 * address, or it is stopping, the request ends with UNAVAILABLE at once, even with wait_for_ready. */
static void loop_start(mr_net_peer *p, mr_net_request *r)
{
    loop_request *q = mr_new(loop_request);
    q->peer = p;
    r->impl = q;
    mr_lock(&all_mu);
    mr_vec_push(&p->open, r);
    mr_net_server *s = mr_map_getz(&listeners, p->address);
    if (s) {
        mr_refs_take(&s->refs); /* for the request */
        mr_refs_take(&s->refs); /* for the call */
        q->server = s;
    }
    mr_unlock(&all_mu);
    loop_call *c = s ? open_call(s, r) : NULL;
    if (c) {
        handle_call(s, c);
        return;
    }
    if (s)
        server_unref(s); /* the call's */
    mr_bytes_deinit(&r->body);
    end_request(r, mr_error(MR_UNAVAILABLE, "No server of this process listens at %s", p->address), NULL);
}

static mr_net net_loop = {"loop",       loop_listen,     loop_stop,  loop_reply, loop_on_cancel,
                          loop_connect, loop_disconnect, loop_start, loop_cancel};

mr_net *mr_net_loop(void) { return &net_loop; }
