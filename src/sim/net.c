/* sim/net.c -- the network: calls as a transport over TCP presents them.
 *
 * A call has two halves that know little of each other. The caller's half is open until the call is answered,
 * cancelled, times out or ends UNAVAILABLE; the server's half is open from the arrival of the request until its answer,
 * or until the server learns that the caller has gone. A lost packet is retransmitted, which takes time; messages are
 * really lost only when a connection breaks: requests and answers in flight may or may not arrive, and each side
 * notices independently. So a caller that gets UNAVAILABLE does not know what the server did. */
#include "sim/world.h"

#define KEEP_ALIVE_NS (8 * MR_SIM_S)

const char *mr_sim_kind_name(mr_sim_kind k)
{
    static const char *const names[] = {"GetStatus",    "CreateWorkerSession", "DeleteWorkerSession", "RegisterGraph",
                                        "RunGraph",     "CleanupGraph",        "RecvTensor",          "Heartbeat",
                                        "CreateSession", "RunStep",            "CloseSession"};
    return names[k];
}

/* ---- open calls ---- */

static void link_call(mr_sim *s, mr_sim_call *c)
{
    c->next = s->calls;
    c->link = &s->calls;
    if (c->next)
        c->next->link = &c->next;
    s->calls = c;
    c->linked = true;
}

static void unlink_when_over(mr_sim_call *c)
{
    if (!c->linked || c->caller_open || c->served || !(c->arrived || c->dropped))
        return;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->linked = false;
}

/* ---- latency ---- */

/* A random latency, with the delays and retransmissions of the active faults. May also break the connection. */
static int64_t draw_latency(mr_sim *s, int from, int to)
{
    if (from == to)
        return MR_SIM_US;
    int64_t ns = mr_sim_between(s, 50 * MR_SIM_US, 500 * MR_SIM_US) * s->nodes[from].slow * s->nodes[to].slow;
    ns = MR_MIN(ns, 4 * MR_SIM_S);
    if (s->now_ns < s->faults_end_ns) {
        if ((s->faults & MR_SIM_DELAY) && mr_sim_chance(s, 1000))
            ns += mr_sim_chance(s, 1000) ? mr_sim_between(s, 0, 3 * MR_SIM_S) : mr_sim_between(s, 0, 100 * MR_SIM_MS);
        if ((s->faults & MR_SIM_LOSS) && mr_sim_chance(s, 300)) {
            ns += mr_sim_between(s, 200 * MR_SIM_MS, 800 * MR_SIM_MS);
            if (mr_sim_chance(s, 1000))
                mr_sim_reset(s, from, to);
        }
    }
    return ns;
}

/* Across a partition a packet is retransmitted with growing pauses. */
static bool waits_for_cut(mr_sim *s, mr_sim_call *c, int from, int to, mr_sim_fn *again)
{
    if (!s->cut[from][to])
        return false;
    mr_sim_after(s, -1, 200 * MR_SIM_MS << MR_MIN(c->tries++, 4), again, c);
    return true;
}

/* ---- the caller's half ---- */

static void caller_ends(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    if (!c->caller_open || s->nodes[c->from].generation != c->from_generation) {
        mr_status_free(st);
        return;
    }
    c->caller_open = false;
    unlink_when_over(c);
    c->done(s, c, st);
}

/* ---- the server's half ---- */

static void server_gone(mr_sim *s, mr_sim_call *c)
{
    if (!c->served)
        return;
    c->served = false;
    unlink_when_over(c);
    if (s->nodes[c->to].generation == c->to_generation && c->gone)
        c->gone(s, c);
}

/* The notice that the caller has left; it follows the request. */
static void notice_arrives(mr_sim *s, void *arg)
{
    mr_sim_call *c = arg;
    if (waits_for_cut(s, c, c->from, c->to, notice_arrives))
        return;
    if (!c->arrived)
        c->dropped = true;
    unlink_when_over(c);
    server_gone(s, c);
}

static void send_notice(mr_sim *s, mr_sim_call *c)
{
    int64_t at_ns = MR_MAX(s->now_ns + draw_latency(s, c->from, c->to), c->request_at_ns + 1);
    mr_sim_after(s, -1, at_ns - s->now_ns, notice_arrives, c);
    if (c->twin)
        mr_sim_after(s, -1, MR_MAX(at_ns, c->twin->request_at_ns + 1) - s->now_ns, notice_arrives, c->twin);
}

static void leave_call(mr_sim *s, mr_sim_call *c, mr_code code, const char *why)
{
    if (!c->caller_open)
        return;
    send_notice(s, c);
    caller_ends(s, c, mr_error(code, "%s", why));
}

static void call_refused(mr_sim *s, void *arg)
{
    mr_sim_call *c = arg;
    caller_ends(s, c, mr_error(MR_UNAVAILABLE, "failed to connect to %s", s->nodes[c->to].name));
}

/* Delivers a request, retries it across a partition or while the server is down, or refuses it. */
static void request_arrives(mr_sim *s, void *arg)
{
    mr_sim_call *c = arg;
    if (c->dropped || waits_for_cut(s, c, c->from, c->to, request_arrives))
        return;
    if (!s->nodes[c->to].up) {
        if (c->wait_for_ready && c->caller_open) {
            mr_sim_after(s, -1, 500 * MR_SIM_MS, request_arrives, c);
            return;
        }
        c->dropped = true;
        mr_sim_after(s, -1, draw_latency(s, c->to, c->from), call_refused, c->origin ? c->origin : c);
        unlink_when_over(c);
        return;
    }
    c->arrived = c->served = true;
    c->to_generation = s->nodes[c->to].generation;
    c->tries = 0;
    mr_sim_serve(s, c);
}

/* Delivers an answer to the caller, or to the original call if this one is a duplicate. A reply that was lost with its
 * connection is dropped here. */
static void reply_arrives(mr_sim *s, void *arg)
{
    mr_sim_call *c = arg, *to = c->origin ? c->origin : c;
    if (!c->reply_dropped && waits_for_cut(s, c, c->to, c->from, reply_arrives))
        return;
    mr_status *st = c->reply_st;
    c->reply_st = NULL;
    if (c->reply_dropped) {
        mr_status_free(st);
        return;
    }
    if (to != c)
        to->reply = c->reply;
    caller_ends(s, to, st);
}

void mr_sim_reply(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    if (!c->served) { /* the caller has gone */
        mr_status_free(st);
        return;
    }
    c->served = false;
    unlink_when_over(c);
    c->reply_st = st;
    c->tries = 0;
    mr_sim_after(s, -1, draw_latency(s, c->to, c->from), reply_arrives, c);
}

/* ---- starting calls ---- */

static void out_of_time(mr_sim *s, void *arg) { leave_call(s, arg, MR_DEADLINE_EXCEEDED, "Deadline Exceeded"); }
static void call_cancelled(mr_sim *s, void *arg) { leave_call(s, arg, MR_CANCELLED, "CANCELLED"); }

void mr_sim_cancel(mr_sim *s, mr_sim_call *c) { mr_sim_after(s, c->from, 0, call_cancelled, c); }

static mr_sim_call *new_call(mr_sim *s, int from, int to, const mr_sim_message *q, int64_t late_ns)
{
    mr_sim_call *c = mr_arena_new(&s->arena, mr_sim_call);
    c->number = s->n_calls++;
    c->from = from;
    c->to = to;
    c->from_generation = s->nodes[from].generation;
    c->start_ns = s->now_ns;
    c->q = *q;
    int64_t ns = draw_latency(s, from, to) + late_ns;
    c->request_at_ns = s->now_ns + ns;
    mr_sim_after(s, -1, ns, request_arrives, c);
    link_call(s, c);
    return c;
}

/* Sends the request a second time, close behind the first or much later; the copy may also arrive first. */
static void duplicate_call(mr_sim *s, mr_sim_call *c)
{
    s->result->n_faults++;
    c->twin = new_call(s, c->from, c->to, &c->q, mr_sim_chance(s, 3000) ? mr_sim_between(s, 0, 2 * MR_SIM_S) : 0);
    c->twin->origin = c;
}

/* With the fault of duplication, the request may be sent twice. */
mr_sim_call *mr_sim_start(mr_sim *s, int from, int to, const mr_sim_message *q, int64_t deadline_ns,
                          bool wait_for_ready, void (*done)(mr_sim *, mr_sim_call *, mr_status *), void *ctx)
{
    mr_sim_call *c = new_call(s, from, to, q, 0);
    c->caller_open = true;
    c->wait_for_ready = wait_for_ready;
    c->done = done;
    c->ctx = ctx;
    if (deadline_ns)
        mr_sim_after(s, from, deadline_ns, out_of_time, c);
    bool faulty = from != to && (s->faults & MR_SIM_DUPLICATION) && s->now_ns < s->faults_end_ns;
    if (faulty && q->kind != MR_SIM_HEARTBEAT && mr_sim_chance(s, 300))
        duplicate_call(s, c);
    return c;
}

/* ---- connections that break ---- */

typedef struct breakage {
    int side, other;
    uint64_t before; /* only calls with lower numbers are affected */
} breakage;

static void told_of_break(mr_sim *s, void *arg)
{
    mr_sim_call *c = arg;
    if (c->caller_open && !waits_for_cut(s, c, c->to, c->from, told_of_break))
        caller_ends(s, c, mr_error(MR_UNAVAILABLE, "Connection reset by peer"));
}

/* Requests that arrive later over the closed connection are refused, and the other side is notified. */
static void server_breaks(mr_sim *s, mr_sim_call *c)
{
    c->dropped |= !c->arrived;
    server_gone(s, c);
    unlink_when_over(c);
    mr_sim_after(s, -1, draw_latency(s, c->to, c->from), told_of_break, c);
}

static void caller_breaks(mr_sim *s, mr_sim_call *c)
{
    if (c->origin || (c->wait_for_ready && !c->arrived))
        return;
    if (!c->arrived && mr_sim_chance(s, 5000))
        c->dropped = true;
    leave_call(s, c, MR_UNAVAILABLE, "Socket closed");
    unlink_when_over(c);
}

/* One side notices: its own calls end, and so do the calls it serves. */
static void side_breaks(mr_sim *s, int side, int other, uint64_t before, int64_t started_before_ns)
{
    MR_VEC(mr_sim_call *) hit = {0};
    for (mr_sim_call *c = s->calls; c; c = c->next) {
        bool between = (c->from == side && c->to == other) || (c->from == other && c->to == side);
        if (between && c->number < before && c->start_ns <= started_before_ns)
            mr_vec_push(&hit, c);
    }
    for (int i = hit.n; i-- > 0;) {
        if (hit.p[i]->to == side)
            server_breaks(s, hit.p[i]);
        else
            caller_breaks(s, hit.p[i]);
    }
    mr_vec_deinit(&hit);
}

static void break_connection(mr_sim *s, void *arg)
{
    breakage *b = arg;
    side_breaks(s, b->side, b->other, b->before, INT64_MAX);
}

/* Answers in flight may be lost with the connection; the caller then learns of it from the break. */
static void lose_replies(mr_sim *s, int a, int b)
{
    for (mr_sim_call *c = s->calls; c; c = c->next)
        if (((c->from == a && c->to == b) || (c->from == b && c->to == a)) && c->caller_open && c->arrived && !c->served)
            c->reply_dropped |= mr_sim_chance(s, 5000);
}

static void plan_break(mr_sim *s, int side, int other, int64_t ns)
{
    breakage *b = mr_arena_new(&s->arena, breakage);
    *b = (breakage){side, other, s->n_calls};
    mr_sim_after(s, side, ns, break_connection, b);
}

void mr_sim_reset(mr_sim *s, int a, int b)
{
    s->result->n_faults++;
    mr_sim_say(s, a, "connection with %s breaks", s->nodes[b].name);
    lose_replies(s, a, b);
    plan_break(s, a, b, mr_sim_between(s, 0, 5 * MR_SIM_MS));
    plan_break(s, b, a, mr_sim_between(s, 0, 5 * MR_SIM_MS));
}

/* Ends all calls of a dead node. seen: peers notice quickly because connections close; otherwise only keep-alive
 * detects it. */
void mr_sim_silence(mr_sim *s, int node, bool seen)
{
    for (mr_sim_call *c = s->calls, *next; c; c = next) {
        next = c->next;
        if (c->from == node)
            c->caller_open = false;
        if (c->to == node)
            c->served = false;
        unlink_when_over(c);
    }
    for (int i = 0; i < s->n_nodes; i++) {
        if (i == node)
            continue;
        lose_replies(s, node, i);
        plan_break(s, i, node, seen ? mr_sim_between(s, 0, 20 * MR_SIM_MS) : KEEP_ALIVE_NS + mr_sim_between(s, 0, 2 * MR_SIM_S));
    }
}

static void keep_alive(mr_sim *s, void *arg)
{
    (void)arg;
    for (int a = 0; a < s->n_nodes; a++)
        for (int b = 0; b < s->n_nodes; b++)
            if (a != b && (s->cut[a][b] || s->cut[b][a]))
                side_breaks(s, a, b, UINT64_MAX, s->now_ns - KEEP_ALIVE_NS);
    mr_sim_after(s, -1, mr_sim_between(s, MR_SIM_S, 2 * MR_SIM_S), keep_alive, NULL);
}

void mr_sim_keep_alive(mr_sim *s) { mr_sim_after(s, -1, MR_SIM_S, keep_alive, NULL); }

/* Answers still in flight own errors. */
void mr_sim_net_deinit(mr_sim *s)
{
    for (int i = 0; i < s->heap.n; i++)
        if (s->heap.p[i].fn == reply_arrives) {
            mr_sim_call *c = s->heap.p[i].arg;
            mr_status_free(c->reply_st);
            c->reply_st = NULL;
        }
}
