/* distbelief/coordinator_service.c -- the coordinator's end of a work session.
 *
 * Locks: `turn` is held while callbacks run; `mu` guards the list of workers and is taken inside it.
 * Calls are answered without `mu`, because an answer waits for a running cancellation of that call,
 * which takes `mu`. A Stay call is answered without `turn` too, because its cancellation takes that.
 *
 * A call enters the list and gets its cancellation callback in one turn, and leaves the list for good
 * in another (an order, a loss, the closing). So no thread answers, and thereby frees, a call that is
 * still being accepted.
 *
 * A lost worker's number goes to `gone`, so that late calls under it are refused. */
#include "distbelief/coordinator_service.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/timers.h"
#include "server/routes.h"
#include "wire/pb.h"

enum { TICK_MS = 50, ASK_AGAIN_MS = 2000, MOST_GONE = 4096 };

/* A worker that has called. It is `joined` once its Stay was accepted; before that it may have an Ask. */
typedef struct worker {
    int64_t id;
    bool joined;
    mr_net_call *stay, *ask; /* pending calls; NULL: none */
    int64_t asked_ns;
    mr_bytes order; /* waits for the next Ask; empty: none */
} worker;

struct mr_coordinator_service {
    mr_coordinator_service_rules o;
    char *address;
    mr_listeners listeners;
    mr_timers *timers;
    mr_timer tick;
    mr_mutex turn;
    mr_mutex mu;
    MR_VEC(worker) workers MR_GUARDED_BY(mu);
    MR_VEC(int64_t) gone MR_GUARDED_BY(mu); /* numbers of lost workers, the newest MOST_GONE */
    int next_gone MR_GUARDED_BY(mu);
    bool closing MR_GUARDED_BY(mu);
    _Atomic int64_t sent, received;
};

/* ---- workers ---- */

/* NULL if no worker has this number. The pointer is valid until the list changes. */
static worker *find_locked(mr_coordinator_service *d, int64_t id) MR_REQUIRES(d->mu)
{
    for (int i = 0; i < d->workers.n; i++)
        if (d->workers.p[i].id == id)
            return &d->workers.p[i];
    return NULL;
}

/* An Ask may arrive before the Stay of its worker, so both add the worker. */
static worker *find_or_add_locked(mr_coordinator_service *d, int64_t id) MR_REQUIRES(d->mu)
{
    worker *w = find_locked(d, id);
    if (!w) {
        mr_vec_push(&d->workers, (worker){.id = id});
        w = &mr_vec_last(&d->workers);
    }
    return w;
}

/* True if the number belongs to a worker that was lost. */
static bool is_gone_locked(const mr_coordinator_service *d, int64_t id) MR_REQUIRES(d->mu)
{
    for (int i = 0; i < d->gone.n; i++)
        if (d->gone.p[i] == id)
            return true;
    return false;
}

/* Removes a worker for good: its number is refused from now on. The caller answers its calls. */
static void forget_locked(mr_coordinator_service *d, worker *w) MR_REQUIRES(d->mu)
{
    MR_ASSERT(w >= d->workers.p && w < d->workers.p + d->workers.n);
    if (d->gone.n < MOST_GONE)
        mr_vec_push(&d->gone, w->id);
    else
        d->gone.p[d->next_gone++ % MOST_GONE] = w->id;
    mr_bytes_deinit(&w->order);
    mr_vec_remove_swap(&d->workers, w - d->workers.p);
}

/* Answers a call and counts its bytes. Needs mu to be free. */
static void reply_call(mr_coordinator_service *d, mr_net_call *c, mr_status *st, mr_bytes *body)
{
    if (body)
        d->sent += (int64_t)body->n;
    c->net->reply(c, st, body);
}

/* A worker takes this as the normal end of its work. */
static mr_status *finished_error(void) { return mr_error(MR_UNAVAILABLE, "The coordinator has finished"); }

/* ---- cancelled calls ---- */

/* An Ask call was cancelled. A worker that never joined is forgotten with it. */
static void ask_cancelled(void *arg, mr_net_call *c)
{
    mr_coordinator_service *d = arg;
    bool ours = false;
    mr_lock(&d->mu);
    for (int i = 0; i < d->workers.n && !ours; i++) {
        worker *w = &d->workers.p[i];
        if ((ours = w->ask == c)) {
            w->ask = NULL;
            if (!w->joined)
                forget_locked(d, w);
        }
    }
    mr_unlock(&d->mu);
    if (ours)
        reply_call(d, c, mr_error(MR_CANCELLED, "cancelled"), NULL);
}

/* A Stay call was cancelled, so its worker is lost: reports that to the owner and ends the worker's
 * Ask too. If no worker has this call, it was answered already. */
static void stay_ended(void *arg, mr_net_call *c)
{
    mr_coordinator_service *d = arg;
    int64_t id = 0;
    mr_net_call *ask = NULL;
    bool ours = false;
    mr_lock(&d->turn);
    mr_lock(&d->mu);
    for (int i = 0; i < d->workers.n && !ours; i++) {
        worker *w = &d->workers.p[i];
        if ((ours = w->stay == c)) {
            id = w->id;
            ask = w->ask;
            forget_locked(d, w);
        }
    }
    mr_unlock(&d->mu);
    /* The owner hears of the loss in the same turn in which the worker left the list, so no order can come between. */
    if (ours)
        d->o.lost(d->o.arg, id);
    mr_unlock(&d->turn);
    if (ask)
        reply_call(d, ask, mr_error(MR_ABORTED, "The connection of this worker was lost"), NULL);
    if (ours)
        reply_call(d, c, mr_error(MR_CANCELLED, "cancelled"), NULL);
}

/* ---- calls of workers ---- */

typedef struct message {
    int64_t id;
    mr_sv text;
} message;

/* The text is a view into the bytes. Numbers come from other processes; 0 would be the absent field. */
static mr_status *read_message(mr_sv bytes, message *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (message){0, MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: out->id = mr_pb_int64(&r); break;
        case 2: out->text = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "message of a worker"));
    return out->id > 0 ? NULL : mr_invalid("The number of a worker must be positive, not %lld", (long long)out->id);
}

/* Adds a worker with its Stay call. false: the coordinator closes, the worker was lost before, or it
 * joined already. */
static bool add_worker(mr_coordinator_service *d, mr_net_call *c, int64_t id)
{
    mr_lock(&d->mu);
    worker *w = find_locked(d, id);
    bool ok = !d->closing && !is_gone_locked(d, id) && !(w && w->joined);
    if (ok) {
        w = find_or_add_locked(d, id);
        w->joined = true;
        w->stay = c;
    }
    mr_unlock(&d->mu);
    return ok;
}

/* Forgets a worker that was refused. Returns its Ask call, if any, which the caller must answer. */
static mr_net_call *send_away(mr_coordinator_service *d, int64_t id)
{
    mr_net_call *ask = NULL;
    mr_lock(&d->mu);
    worker *w = find_locked(d, id);
    if (w) {
        ask = w->ask;
        forget_locked(d, w);
    }
    mr_unlock(&d->mu);
    return ask;
}

/* Adds the worker before the owner's callback runs, because the owner may give it an order at once. */
static mr_status *admit_worker(mr_coordinator_service *d, mr_net_call *c, const message *w, mr_net_call **ask)
{
    if (!add_worker(d, c, w->id))
        return mr_error(MR_FAILED_PRECONDITION, "The coordinator does not accept this worker: it is closing, or this "
                                                "worker was lost or has joined already");
    mr_status *st = d->o.joined(d->o.arg, w->id, w->text);
    if (st)
        *ask = send_away(d, w->id);
    return st;
}

/* Handles a Stay call: it is answered at once only if the worker is refused. A call that was cancelled before it
 * could be watched is treated as a loss. */
static void take_stay(mr_coordinator_service *d, mr_net_call *c, const message *w)
{
    mr_net_call *ask = NULL;
    mr_lock(&d->turn);
    mr_status *st = admit_worker(d, c, w, &ask);
    bool left = !st && !c->net->on_cancel(c, stay_ended, d);
    mr_unlock(&d->turn);
    if (ask)
        reply_call(d, ask, mr_status_copy(st), NULL);
    if (st)
        reply_call(d, c, st, NULL);
    else if (left)
        stay_ended(d, c);
}

/* Makes an Ask call pending, unless an order waits for it: then *order has the order, and the caller
 * answers at once. *older is a previous Ask of the same worker, also for the caller to answer. */
static mr_status *add_pending_locked(mr_coordinator_service *d, mr_net_call *c, const message *w, mr_bytes *order,
                                     mr_net_call **older) MR_REQUIRES(d->mu)
{
    if (d->closing)
        return finished_error();
    if (is_gone_locked(d, w->id))
        return mr_error(MR_ABORTED, "The connection of this worker was lost");
    worker *k = find_or_add_locked(d, w->id);
    MR_ASSERT(!k->ask || k->ask != c);
    if (!k->joined && w->text.n)
        return mr_error(MR_FAILED_PRECONDITION, "Worker %lld sent a report before it joined", (long long)w->id);
    *older = k->ask;
    k->ask = NULL;
    mr_bytes_append(order, &k->order);
    if (!order->n) {
        k->ask = c;
        k->asked_ns = mr_now_ns();
    }
    return NULL;
}

/* Handles an Ask call: it becomes pending, then the owner hears the report and may give an order at
 * once. Answers are sent without `turn`. */
static void take_ask(mr_coordinator_service *d, mr_net_call *c, const message *w)
{
    mr_bytes order = {0};
    mr_net_call *older = NULL;
    mr_lock(&d->turn);
    mr_lock(&d->mu);
    mr_status *st = add_pending_locked(d, c, w, &order, &older);
    mr_unlock(&d->mu);
    bool pending = !st && !order.n;
    if (pending && !c->net->on_cancel(c, ask_cancelled, d))
        ask_cancelled(d, c);
    if (!st && w->text.n)
        d->o.said(d->o.arg, w->id, w->text);
    mr_unlock(&d->turn);
    if (older)
        reply_call(d, older, NULL, &(mr_bytes){0});
    if (!pending)
        reply_call(d, c, st, &order);
}

/* The handler of all calls. The body is moved out of the call, because the call may be answered and freed while
 * its text is in use. */
static void handle_call(void *arg, mr_net_call *c)
{
    mr_coordinator_service *d = arg;
    mr_sv bytes = MR_SV("");
    message w;
    mr_bytes body = c->body;
    c->body = (mr_bytes){0};
    d->received += (int64_t)body.n;
    mr_status *st = mr_bytes_flat(&body, &bytes);
    if (!st)
        st = read_message(bytes, &w);
    if (st)
        reply_call(d, c, st, NULL);
    else if (strcmp(c->method, "/millrace.Coordinator/Stay") == 0)
        take_stay(d, c, &w);
    else if (strcmp(c->method, "/millrace.Coordinator/Ask") == 0)
        take_ask(d, c, &w);
    else
        reply_call(d, c, mr_error(MR_UNIMPLEMENTED, "Unknown method of a coordinator: %s", c->method), NULL);
    mr_bytes_deinit(&body);
}

/* Sends the order with the pending Ask, or keeps it for the next one. An order for a worker that is
 * gone is dropped. */
void mr_coordinator_service_order(mr_coordinator_service *d, int64_t id, mr_bytes *order)
{
    mr_net_call *c = NULL;
    MR_ASSERT(order->n > 0); /* an empty one would mean "ask again" */
    mr_lock(&d->mu);
    worker *w = find_locked(d, id);
    if (w && w->ask) {
        c = w->ask;
        w->ask = NULL;
    } else if (w) {
        MR_ASSERT(!w->order.n);
        mr_bytes_append(&w->order, order);
    }
    mr_unlock(&d->mu);
    if (c)
        reply_call(d, c, NULL, order);
    mr_bytes_deinit(order);
}

/* ---- time ---- */

/* Takes an Ask that has been pending since before before_ns. A worker that asks without joining is
 * forgotten with it, or strangers could fill the list. */
static mr_net_call *take_patient(mr_coordinator_service *d, int64_t before_ns)
{
    mr_net_call *c = NULL;
    mr_lock(&d->mu);
    for (int i = 0; i < d->workers.n && !c; i++) {
        worker *w = &d->workers.p[i];
        if (!w->ask || w->asked_ns >= before_ns)
            continue;
        c = w->ask;
        w->ask = NULL;
        if (!w->joined)
            mr_vec_remove_swap(&d->workers, i);
    }
    mr_unlock(&d->mu);
    return c;
}

/* Runs the owner's tick, then ends Ask calls that have been pending for ASK_AGAIN_MS with an empty
 * order, which shows the worker that the coordinator is alive. */
static void run_tick(mr_timer *t)
{
    mr_coordinator_service *d = (mr_coordinator_service *)((char *)t - offsetof(mr_coordinator_service, tick));
    int64_t now = mr_now_ns();
    mr_net_call *c;
    if (d->o.tick) {
        mr_lock(&d->turn);
        d->o.tick(d->o.arg);
        mr_unlock(&d->turn);
    }
    while ((c = take_patient(d, now - ASK_AGAIN_MS * 1000000ll)))
        reply_call(d, c, NULL, &(mr_bytes){0});
    mr_lock(&d->mu);
    bool again = !d->closing;
    mr_unlock(&d->mu);
    if (again)
        mr_timers_set(d->timers, t, now + TICK_MS * 1000000, run_tick);
}

/* Not from a callback, which holds `turn` already. */
void mr_coordinator_service_turn(mr_coordinator_service *d, void (*fn)(void *arg), void *arg)
{
    mr_lock(&d->turn);
    fn(arg);
    mr_unlock(&d->turn);
}

/* ---- opening and closing ---- */

/* The timer is set last. On failure the caller closes what was opened. */
static mr_status *open_listeners(mr_coordinator_service *d)
{
    int port = 0;
    MR_TRY(mr_timers_new(&d->timers));
    MR_TRY(mr_listeners_open(d->o.address, NULL, handle_call, d, &d->listeners, &port));
    mr_sv a = mr_sv_of(d->o.address);
    while (a.n && a.p[a.n - 1] != ':')
        a.n--;
    d->address = mr_printf("%.*s%d", MR_SV_ARG(a), port);
    mr_timers_set(d->timers, &d->tick, mr_now_ns() + TICK_MS * 1000000, run_tick);
    return NULL;
}

/* Holds `turn` while it opens, because workers may call at once, and callbacks must find *out set. */
mr_status *mr_coordinator_service_open(const mr_coordinator_service_rules *o, mr_coordinator_service **out)
{
    mr_coordinator_service *d = mr_new(mr_coordinator_service);
    d->o = *o;
    d->o.address = mr_strdup(o->address ? o->address : "127.0.0.1:0");
    d->tick.place = -1;
    mr_mutex_init(&d->turn);
    mr_mutex_init(&d->mu);
    mr_lock(&d->turn);
    mr_status *st = open_listeners(d);
    if (!st)
        *out = d;
    mr_unlock(&d->turn);
    if (st)
        mr_coordinator_service_close(d);
    return st;
}

/* Takes one pending call of any worker; NULL: none is left. */
static mr_net_call *take_any(mr_coordinator_service *d)
{
    mr_net_call *c = NULL;
    mr_lock(&d->turn);
    mr_lock(&d->mu);
    for (int i = 0; i < d->workers.n && !c; i++) {
        worker *w = &d->workers.p[i];
        mr_net_call **open = w->ask ? &w->ask : &w->stay;
        c = *open;
        *open = NULL;
    }
    mr_unlock(&d->mu);
    mr_unlock(&d->turn);
    return c;
}

/* Answers all pending calls, then closes the listeners. The timer is cleared twice, because a tick
 * that was running may have set it again. */
void mr_coordinator_service_close(mr_coordinator_service *d)
{
    mr_net_call *c;
    if (!d)
        return;
    mr_lock(&d->mu);
    d->closing = true;
    mr_unlock(&d->mu);
    if (d->timers)
        mr_timers_clear(d->timers, &d->tick);
    /* `closing` refuses new calls, so this ends. */
    while ((c = take_any(d)))
        reply_call(d, c, finished_error(), NULL);
    mr_listeners_close(&d->listeners, 1000000000);
    if (d->timers)
        mr_timers_clear(d->timers, &d->tick);
    mr_timers_free(d->timers);
    for (int i = 0; i < d->workers.n; i++)
        mr_bytes_deinit(&d->workers.p[i].order);
    mr_vec_deinit(&d->workers);
    mr_vec_deinit(&d->gone);
    mr_mutex_deinit(&d->mu);
    mr_mutex_deinit(&d->turn);
    mr_free((char *)(uintptr_t)d->o.address);
    mr_free(d->address);
    mr_free(d);
}

const char *mr_coordinator_service_address(const mr_coordinator_service *d) { return d->address; }

void mr_coordinator_service_count(const mr_coordinator_service *d, int64_t *sent, int64_t *received)
{
    *sent = d->sent;
    *received = d->received;
}
