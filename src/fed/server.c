/* fed/server.c -- the server for clients in other processes.
 *
 * A seat is a connected client: its name, its Stay call, and at most one pending Work call. The thread
 * that removes a call from its seat under the lock answers it, without the lock: replying may wait for
 * a callback that takes the lock. A timer answers calls that have been pending for HOLD_NS.
 *
 * Lock order: mu before the coordinator's, which never calls back while holding its own. */
#include "fed/server.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/timers.h"
#include "server/routes.h"

#define MS INT64_C(1000000)
#define HOLD_NS (2000 * MS)
#define TICK_NS (250 * MS)
#define GRACE_NS (500 * MS)

/* A connected client. A call in `stay` or `waiting` has not been answered. */
typedef struct seat {
    mr_fed_server *server;
    int number; /* of the coordinator */
    mr_net_call *stay, *waiting;
    int64_t since_ns; /* since when it is pending */
    char name[MR_FED_NAME];
    size_t name_n;
} seat;

struct mr_fed_server {
    mr_fed_coordinator *coordinator;
    mr_mutex mu;
    mr_map by_name MR_GUARDED_BY(mu);
    seat **seats MR_GUARDED_BY(mu); /* by number */
    int n_seats;
    bool closing MR_GUARDED_BY(mu);
    mr_listeners listeners;
    mr_timers *timers;
    mr_timer tick;
    char *address;
};

mr_fed_coordinator *mr_fed_server_coordinator(mr_fed_server *s) { return s->coordinator; }
const char *mr_fed_server_address(const mr_fed_server *s) { return s->address; }

/* ---- answering ---- */

/* Takes st. */
static void reply_error(mr_net_call *c, mr_status *st)
{
    mr_bytes none = {0};
    c->net->reply(c, st, &none);
}

/* Takes over the task. The weights are sent without a copy. */
static void reply_task(mr_net_call *c, mr_fed_task *t)
{
    mr_bytes body = {0};
    mr_status *st = mr_fed_task_encode(t, &body);
    mr_fed_task_deinit(t);
    c->net->reply(c, st, &body);
    mr_bytes_deinit(&body);
}

static void reply_kind(mr_net_call *c, mr_fed_kind kind) { reply_task(c, &(mr_fed_task){.kind = kind}); }

/* Answers the pending Work call of a client with its task, if there are both. */
static void client_asked(void *arg, int number)
{
    mr_fed_server *s = arg;
    mr_fed_task t;
    mr_net_call *call = NULL;
    mr_lock(&s->mu);
    seat *e = number < s->n_seats ? s->seats[number] : NULL;
    if (e && e->waiting && mr_fed_coordinator_task(s->coordinator, number, &t)) {
        call = e->waiting;
        e->waiting = NULL;
    }
    mr_unlock(&s->mu);
    if (call)
        reply_task(call, &t);
}

/* ---- joining and leaving ---- */

static seat *find_locked(mr_fed_server *s, mr_sv name) MR_REQUIRES(s->mu) { return mr_map_get(&s->by_name, name); }

/* Removes a seat; the caller answers its calls. */
static void remove_locked(mr_fed_server *s, seat *e) MR_REQUIRES(s->mu)
{
    MR_ASSERT(s->seats[e->number] == e);
    mr_map_remove(&s->by_name, (mr_sv){e->name, e->name_n});
    s->seats[e->number] = NULL;
}

/* The Stay call was cancelled: the client's process is gone, or it left. If no seat has the call,
 * another thread answers it. */
static void client_left(void *arg, mr_net_call *c)
{
    mr_fed_server *s = arg;
    seat *e = NULL;
    mr_lock(&s->mu);
    for (int i = 0; i < s->n_seats && !e; i++)
        if (s->seats[i] && s->seats[i]->stay == c)
            e = s->seats[i];
    if (e)
        remove_locked(s, e);
    mr_unlock(&s->mu);
    if (!e)
        return;
    mr_fed_coordinator_gone(s->coordinator, e->number);
    if (e->waiting)
        reply_error(e->waiting, mr_error(MR_CANCELLED, "federated: the client has left"));
    reply_error(c, mr_error(MR_CANCELLED, "federated: the client has left"));
    mr_free(e);
}

/* Adds a client. Its cancellation is registered under the lock, so no thread answers the call before
 * it is watched. */
static mr_status *take_seat(mr_fed_server *s, mr_sv name, mr_net_call *c)
{
    int number = mr_fed_coordinator_join(s->coordinator);
    if (number < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED,
                        "federated: %d clients are connected already, and the server allows no more", s->n_seats);
    seat *e = mr_new(seat);
    *e = (seat){.server = s, .number = number, .stay = c, .name_n = name.n};
    MR_ASSERT(number < s->n_seats && name.n <= sizeof e->name);
    memcpy(e->name, name.p, name.n);
    mr_status *st = NULL;
    mr_lock(&s->mu);
    if (s->closing)
        st = mr_error(MR_UNAVAILABLE, "federated: the server is closing");
    else if (find_locked(s, name))
        st = mr_error(MR_ALREADY_EXISTS, "federated: a client with this name is connected already");
    else if (!c->net->on_cancel(c, client_left, s)) 
        st = mr_error(MR_CANCELLED, "federated: the client has left");
    if (!st) {
        s->seats[number] = e;
        mr_map_put(&s->by_name, (mr_sv){e->name, e->name_n}, e);
    }
    mr_unlock(&s->mu);
    if (st) {
        mr_fed_coordinator_gone(s->coordinator, number);
        mr_free(e);
    }
    return st;
}

/* The call stays open; it is answered when the client leaves or the server closes. */
static void handle_stay(mr_fed_server *s, mr_net_call *c, mr_sv name, mr_fed_answer *a)
{
    mr_fed_answer_deinit(a);
    mr_status *st = take_seat(s, name, c);
    if (st)
        reply_error(c, st);
}

/* ---- work ---- */

/* Makes a Work call pending, or answers it at once if there is a task. An older pending call of the
 * same client is answered too. Without a seat the client is told to ask again: its Stay may still be
 * on the way. */
static void wait_for_work(mr_fed_server *s, mr_net_call *c, mr_sv name)
{
    mr_fed_task t;
    mr_net_call *former = NULL;
    bool has = false, over = false;
    mr_lock(&s->mu);
    seat *e = find_locked(s, name);
    MR_ASSERT(!e || e->waiting != c);
    if (e && !(over = s->closing) && !(has = mr_fed_coordinator_task(s->coordinator, e->number, &t))) {
        former = e->waiting; /* at most one is pending */
        e->waiting = c;
        e->since_ns = mr_now_ns();
    }
    mr_unlock(&s->mu);
    if (former)
        reply_kind(former, MR_FED_WAIT);
    if (!e)
        reply_kind(c, MR_FED_WAIT);
    else if (over)
        reply_kind(c, MR_FED_END);
    else if (has)
        reply_task(c, &t);
}

/* Passes the answer of the client's last task to the coordinator, then waits for the next task. An answer without
 * a seat is dropped: its client has left. */
static void handle_work(mr_fed_server *s, mr_net_call *c, mr_sv name, mr_fed_answer *a)
{
    mr_status *st = NULL;
    mr_lock(&s->mu);
    seat *e = find_locked(s, name);
    int number = e ? e->number : -1;
    mr_unlock(&s->mu);
    if (a->stage != MR_FED_REST && number >= 0)
        st = mr_fed_coordinator_answer(s->coordinator, number, a);
    else
        mr_fed_answer_deinit(a);
    if (st)
        reply_error(c, st);
    else
        wait_for_work(s, c, name);
}

/* The handler of all calls. Names come from other processes, so their size is checked by mr_fed_answer_decode. */
static void handle_call(void *arg, mr_net_call *c)
{
    mr_fed_server *s = arg;
    mr_sv body, name;
    mr_fed_answer a;
    bool stay = strcmp(c->method, MR_FED_STAY) == 0;
    mr_status *st = NULL;
    if (!stay && strcmp(c->method, MR_FED_WORK_METHOD) != 0)
        st = mr_error(MR_UNIMPLEMENTED, "federated: unknown method %s", c->method);
    if (!st)
        st = mr_bytes_flat(&c->body, &body);
    if (!st)
        st = mr_fed_answer_decode(body, &name, &a);
    if (st) {
        reply_error(c, st);
        return;
    }
    char kept[MR_FED_NAME]; /* the body is freed with the call */
    MR_ASSERT(name.n > 0 && name.n <= sizeof kept);
    memcpy(kept, name.p, name.n);
    (stay ? handle_stay : handle_work)(s, c, (mr_sv){kept, name.n}, &a);
}

/* Answers the calls that have been pending for HOLD_NS. */
static void answer_overdue_calls(mr_timer *t)
{
    mr_fed_server *s = (mr_fed_server *)((char *)t - offsetof(mr_fed_server, tick));
    MR_VEC(mr_net_call *) due = {0};
    int64_t now = mr_now_ns();
    mr_lock(&s->mu);
    for (int i = 0; i < s->n_seats; i++)
        if (s->seats[i] && s->seats[i]->waiting && now - s->seats[i]->since_ns >= HOLD_NS) {
            mr_vec_push(&due, s->seats[i]->waiting);
            s->seats[i]->waiting = NULL;
        }
    bool closing = s->closing;
    mr_unlock(&s->mu);
    for (int i = 0; i < due.n; i++)
        reply_kind(due.p[i], MR_FED_WAIT);
    mr_vec_deinit(&due);
    if (!closing)
        mr_timers_set(s->timers, t, now + TICK_NS, answer_overdue_calls);
}

/* ---- beginning and ending ---- */

/* The address with the port that the system chose. */
static char *with_port(const char *address, int port)
{
    size_t n = strlen(address);
    while (n && address[n - 1] != ':')
        n--;
    return mr_printf("%.*s%d", (int)n, address, port);
}

/* Takes over the weights, also on failure. The listener is opened last, when everything that a call needs exists. */
mr_status *mr_fed_server_new(const mr_fed_coordinator_options *options, const char *address, mr_fed_weights *weights, mr_fed_server **out)
{
    mr_status *st = NULL;
    mr_fed_server *s = mr_new(mr_fed_server);
    mr_fed_coordinator_options o = *options;
    int port = 0;
    o.asked = client_asked;
    o.arg = s;
    mr_mutex_init(&s->mu);
    MR_GO(mr_fed_coordinator_new(&o, weights, &s->coordinator));
    s->n_seats = o.rounds.n_clients;
    s->seats = mr_new_array(seat *, s->n_seats);
    MR_GO(mr_timers_new(&s->timers));
    mr_timers_set(s->timers, &s->tick, mr_now_ns() + TICK_NS, answer_overdue_calls);
    MR_GO(mr_listeners_open(address, NULL, handle_call, s, &s->listeners, &port));
    s->address = with_port(address, port);
    *out = s;
    s = NULL;
out:
    mr_fed_server_free(s);
    return st;
}

/* Tells all clients that it is over, with each pending call. */
static void dismiss_clients(mr_fed_server *s)
{
    mr_lock(&s->mu);
    s->closing = true;
    mr_unlock(&s->mu);
    for (int i = 0; i < s->n_seats; i++) {
        mr_lock(&s->mu);
        seat *e = s->seats[i];
        if (e)
            remove_locked(s, e);
        mr_unlock(&s->mu);
        if (!e)
            continue;
        if (e->waiting)
            reply_kind(e->waiting, MR_FED_END);
        reply_kind(e->stay, MR_FED_END);
        mr_free(e);
    }
}

/* Also frees a server that was made in part. Rounds are stopped and clients are told before the listener closes. */
void mr_fed_server_free(mr_fed_server *s)
{
    if (!s)
        return;
    if (s->coordinator)
        mr_fed_coordinator_stop(s->coordinator);
    if (s->seats)
        dismiss_clients(s);
    /* `closing` is set, so the timer does not set itself again after this. */
    if (s->timers && !mr_timers_clear(s->timers, &s->tick))
        mr_timers_clear(s->timers, &s->tick); /* it was running, and may have set itself again */
    mr_listeners_close(&s->listeners, GRACE_NS);
    mr_timers_free(s->timers);
    mr_map_deinit(&s->by_name);
    mr_free(s->seats);
    mr_fed_coordinator_free(s->coordinator);
    mr_mutex_deinit(&s->mu);
    mr_free(s->address);
    mr_free(s);
}
