/* server/task_peers.c -- the tasks of a cluster as one of them sees it: peers, and the routes to them.
 *
 * A route to a task is made at the first request. If a naming service says that the task has moved,
 * the route is taken out under the lock, together with the old address, and closed later. Closing a
 * route waits for the requests that use it, so it is done by a thread that may wait: the host's pool
 * when a session's cluster is dropped or a task has moved, or the thread that ends the host.
 *
 * When a task has moved (mr_task_peers_found):
 *
 *     under the lock   the new address is noted, and the route to the old one is taken out
 *     mr_watch_named   the incarnation at the old address has ended
 *     on the pool      incarnation_changed ends what relied on it; then the old route is closed
 *     then             requests that waited for an address are started on a new route
 *
 * A request is pending (pending.c) from mr_task_peers_ask until its `done`. If the task's address is
 * unknown, it also waits in unresolved.c.
 *
 * Locks: the host's lock comes before a cluster's `mu`. Requests are started, ended and cancelled without
 * `mu`. The host's `connect` and the naming service's `watch` are called with it held; both return at
 * once. */
#include "server/task_peers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/host.h"
#include "server/unresolved.h"
#include "server/pending.h"
#include "server/watch.h"

/* ---- making and closing ---- */

/* Closes a route that nobody can find any more. A thread that found it before is about to start a
 * request (`starting`), which takes only a moment. */
static void route_free(mr_route *w)
{
    if (!w)
        return;
    while (atomic_load_explicit(&w->starting, memory_order_acquire) > 0)
        mr_sleep_ns(20000);
    w->net->disconnect(w->peer);
    mr_free(w);
}

/* The watch is stopped first, since it sends requests. From `closed` on no route is made, so each route that is taken
 * out here is the last one to its task. Closing a route ends its requests. Waits for all of that; a second call finds
 * nothing to do. */
void mr_task_peers_close(mr_task_peers *p)
{
    mr_watch_stop(p->watch);
    mr_lock(&p->mu);
    p->closed = true;
    mr_unlock(&p->mu);
    mr_pending_stop(p);
    mr_unresolved_close(p); /* requests without a route */
    for (int i = 0; i < p->cluster.tasks.n; i++) {
        mr_lock(&p->mu);
        mr_route *route = p->routes[i];
        p->routes[i] = NULL;
        mr_unlock(&p->mu);
        route_free(route);
    }
}

/* Frees everything. No request is under way once the routes are closed. */
static void take_apart(mr_task_peers *p)
{
    mr_task_peers_close(p);
    mr_watch_free(p->watch);
    mr_cluster_deinit(&p->cluster);
    MR_ASSERT(!p->unresolved && !p->pending && p->closed);
    mr_book_deinit(&p->book);
    mr_cond_deinit(&p->started);
    mr_mutex_deinit(&p->mu);
    mr_free(p->unreachable);
    mr_free(p->watched);
    mr_free(p->routes);
    mr_free(p);
}

static void run_parting(mr_task *t) { take_apart((mr_task_peers *)((char *)t - offsetof(mr_task_peers, parting))); }

/* The cluster is added to the host even if copying it failed, so that mr_task_peers_unref can release it. */
mr_status *mr_task_peers_new(mr_host *h, const mr_cluster *c, int self, bool brought, mr_task_peers **out)
{
    mr_task_peers *p = mr_new(mr_task_peers);
    mr_refs_init(&p->refs);
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->started);
    p->host = h;
    p->parting.fn = run_parting;
    p->self = self;
    p->brought = brought;
    mr_status *st = mr_cluster_copy(c, &p->cluster);
    p->routes = mr_new_array(mr_route *, p->cluster.tasks.n + 1);
    p->watched = mr_new_array(bool, p->cluster.tasks.n + 1);
    mr_book_init(&p->book, p->cluster.tasks.n);
    p->watch = mr_watch_new(p);
    mr_host_add_peers(h, p);
    mr_pending_watch(p);
    *out = p;
    if (st) {
        mr_task_peers_unref(p);
        *out = NULL;
    }
    return st;
}

mr_task_peers *mr_task_peers_ref(mr_task_peers *p)
{
    mr_refs_take(&p->refs);
    return p;
}

/* If the host has no pool any more, nothing is under way, and the caller's thread frees it. */
void mr_task_peers_unref(mr_task_peers *p)
{
    if (p && mr_host_drop_peers(p->host, p))
        take_apart(p);
}

/* ---- asking ---- */

/* This task's own address is that of the cluster's spec: it is not looked up. */
const char *mr_task_peers_address_locked(const mr_task_peers *p, int task)
{
    const char *told = p->named && task != p->self ? mr_book_address(&p->book, task) : NULL;
    return told ? told : mr_task_peers_task(p, task)->address;
}

/* Asks the naming service for a task, once. The service reports what it knows soon, and again with
 * every change. */
static void ask_for_locked(mr_task_peers *p, int task) MR_REQUIRES(p->mu);
static void ask_for_locked(mr_task_peers *p, int task)
{
    if (p->watched[task] || !p->naming)
        return;
    p->watched[task] = true;
    char *name = mr_printf("%s/%d", mr_task_peers_task(p, task)->job, mr_task_peers_task(p, task)->number);
    p->naming->watch(p->naming, name, task);
    mr_free(name);
}

/* Makes the route to a task. */
static mr_status *make_route_locked(mr_task_peers *p, int task) MR_REQUIRES(p->mu);
static mr_status *make_route_locked(mr_task_peers *p, int task)
{
    MR_ASSERT(!p->routes[task]);
    mr_route w = {0};
    MR_TRY(p->host->connect(p, task, &w.net, &w.peer));
    p->routes[task] = mr_new(mr_route);
    p->routes[task]->net = w.net;
    p->routes[task]->peer = w.peer;
    return NULL;
}

/* Finds or makes the route. `starting` is raised under the lock, so the route is not closed before
 * mr_task_peers_go. */
mr_status *mr_task_peers_route_locked(mr_task_peers *p, int task, mr_net_request *r, mr_route **out)
{
    MR_ASSERT(task >= 0 && task < p->cluster.tasks.n);
    *out = NULL;
    if (p->closed)
        return mr_error(MR_CANCELLED, "%s was stopped", mr_task_peers_name(p));
    if (p->named && task != p->self) {
        ask_for_locked(p, task);
        if (!mr_book_address(&p->book, task))
            return NULL;
    }
    if (!p->routes[task])
        MR_TRY(make_route_locked(p, task));
    *out = p->routes[task];
    r->net = (*out)->net;
    atomic_fetch_add_explicit(&(*out)->starting, 1, memory_order_relaxed);
    return NULL;
}

/* Starts the request on a route that mr_task_peers_route_locked has returned, and lets the route be closed again. */
void mr_task_peers_go(mr_route *w, mr_net_request *r)
{
    MR_ASSERT(atomic_load_explicit(&w->starting, memory_order_relaxed) > 0);
    w->net->start(w->peer, r);
    atomic_fetch_sub_explicit(&w->starting, 1, memory_order_release);
}

/* The request may end before this returns, and `done` may free it, so it is not touched after it is
 * started. */
void mr_task_peers_ask(mr_task_peers *p, int task, mr_net_request *r)
{
    mr_route *route;
    mr_bytes none = {0};
    /* Pending first: an error below ends the request like any other, through pending.c. */
    mr_lock(&p->mu);
    mr_pending_add_locked(p, task, r);
    mr_status *st = mr_task_peers_route_locked(p, task, r, &route);
    if (!st && !route) /* its address is not known */
        st = mr_unresolved_add_locked(p, task, r);
    mr_unlock(&p->mu);
    if (st) {
        mr_bytes_deinit(&r->body);
        r->done(r, st, &none);
    } else if (route) {
        mr_task_peers_go(route, r);
    }
}

/* A request whose address is not known has no transport yet; mr_unresolved_cancel ends it. */
void mr_task_peers_cancel(mr_task_peers *p, int task, mr_net_request *r)
{
    (void)task;
    if (mr_unresolved_cancel(p, r))
        return;
    mr_lock(&p->mu);
    mr_net *net = r->net;
    mr_unlock(&p->mu);
    if (net)
        net->cancel(r);
}

/* ---- naming ---- */

/* The address may change at any time, so it is copied. */
bool mr_task_peers_where(mr_task_peers *p, int task, mr_str *out)
{
    mr_lock(&p->mu);
    bool named = p->named;
    mr_str_appendz(out, mr_task_peers_address_locked(p, task));
    mr_unlock(&p->mu);
    return named;
}

int mr_task_peers_moves(mr_task_peers *p, int task)
{
    MR_ASSERT(task >= 0 && task < p->cluster.tasks.n);
    mr_lock(&p->mu);
    int moves = p->book.tasks[task].moves;
    mr_unlock(&p->mu);
    return moves;
}

/* The addresses of the cluster's spec are used until the service reports others. Once a service was set, the cluster
 * stays `named`, also after the service is closed. */
void mr_task_peers_name_by(mr_task_peers *p, mr_naming *n)
{
    mr_lock(&p->mu);
    p->naming = n;
    p->named |= n != NULL;
    for (int i = 0; n && i < p->cluster.tasks.n; i++)
        mr_book_expect(&p->book, i, mr_task_peers_task(p, i)->address);
    mr_unlock(&p->mu);
}

/* The route to a task's former address, until it is closed. */
typedef struct retirement {
    mr_task task; /* first */
    mr_task_peers *peers;
    int of;
    mr_route *route;
} retirement;

/* Runs on the pool. Those who relied on the task learn why it is lost before the route is closed; the
 * requests would only report that they were cancelled. */
static void run_retirement(mr_task *t)
{
    retirement r = *(retirement *)t;
    mr_free(t);
    r.peers->host->incarnation_changed(r.peers->host->arg, r.peers, r.of);
    route_free(r.route);
    mr_task_peers_unref(r.peers);
}

/* Closes the route on the pool, because closing waits. former may be NULL: then only the change is reported. The pool
 * exists as long as a naming service calls. */
static void retire_later(mr_task_peers *p, int task, mr_route *former)
{
    retirement *r = mr_new(retirement);
    *r = (retirement){{.fn = run_retirement}, mr_task_peers_ref(p), task, former};
    mr_pool_submit(p->host->pool, &r->task);
}

/* Called by the naming service. The route is taken out together with the address: a request that starts from now on
 * makes a new route, and is not cut off with the old one. The watch learns about the end of the incarnation before
 * the requests end, so a caller that asks why its request ended gets the reason. */
void mr_task_peers_found(void *peers, int task, mr_sv value)
{
    mr_task_peers *p = peers;
    mr_route *former = NULL;
    mr_lock(&p->mu);
    mr_book_news news = p->closed ? MR_BOOK_NOTHING : mr_book_found(&p->book, task, value);
    mr_naming_entry now = p->book.tasks[task].entry;
    if (news == MR_BOOK_MOVED) {
        former = p->routes[task];
        p->routes[task] = NULL;
    }
    mr_unlock(&p->mu);
    if (news == MR_BOOK_FOUND || news == MR_BOOK_MOVED)
        mr_watch_named(p->watch, task, now.incarnation);
    else if (news == MR_BOOK_LEFT)
        mr_watch_doubt(p->watch, task);
    else if (news == MR_BOOK_BAD)
        mr_warn("the naming service's entry for %s is not an address; it is ignored",
                mr_task_peers_task(p, task)->name);
    if (news == MR_BOOK_MOVED)
        retire_later(p, task, former);
    mr_unresolved_retry(p, task);
}

/* Requests that wait for an address are looked at again: with a reason (why) they fail. */
void mr_task_peers_unreachable(void *peers, const char *why)
{
    mr_task_peers *p = peers;
    mr_lock(&p->mu);
    mr_free(p->unreachable);
    p->unreachable = why ? mr_strdup(why) : NULL;
    mr_unlock(&p->mu);
    for (int i = 0; why && i < p->cluster.tasks.n; i++)
        mr_unresolved_retry(p, i);
}

/* The filter's device type and number are ignored: a task passes if any device of it could match. */
mr_status *mr_task_peers_filter(const mr_task_peers *p, mr_sv filter, bool *marked)
{
    mr_device_name f, task;
    if (!mr_device_name_parse(filter, &f))
        return mr_invalid("'%.*s' is not a device filter", MR_SV_ARG(filter));
    f.has_type = false;
    f.id = -1;
    for (int i = 0; i < p->cluster.tasks.n; i++) {
        mr_device_name_parse(mr_sv_of(mr_task_peers_task(p, i)->name), &task);
        marked[i] |= mr_device_name_matches(&f, &task);
    }
    return NULL;
}
