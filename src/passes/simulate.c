/* passes/simulate.c -- a step in simulated time, for a given choice of devices.
 *
 * A device runs one node at a time, in the order in which they became ready, as the executor does. A node is ready
 * when its last input has arrived; a node that takes no time ends at once, even if the device is busy. Inputs from
 * another device are sent over a link, one after the other, each tensor once per device. There are two kinds of events,
 * handled in order of time: a node ends, a node is ready.
 *
 * Ties are broken by number, so that the same workload always gives the same times. Of the nodes that an end makes
 * ready the last goes first, and nodes that are ready from the start go in order, as in the executor.
 *
 * Invariants: a device's queue is empty while the device is idle (running < 0); a node has at most one event at a
 * time. */
#include "passes/simulate.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { EACH_SENT = 1000 }; /* bytes that every transfer counts in addition to its own */

/* ---- tables that do not change between two plays ---- */

/* Makes the tables and the list of uses, by a counting sort of the inputs. Their sizes come from the graph. */
mr_status *mr_play_init(mr_play *s, const mr_workload *w)
{
    int n = w->n_nodes, n_edges = w->first_input[n];
    size_t arrivals;
    *s = (mr_play){.w = w};
    if (mr_size_mul((size_t)w->n_tensors + 1, (size_t)w->n_devices, &arrivals))
        s->arrival = mr_try_calloc(arrivals, sizeof *s->arrival);
    if (!s->arrival)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot plan %d tensors on %d devices", w->n_tensors,
                        w->n_devices);
    s->first_use = mr_new_array(int, n + 2);
    s->uses = mr_new_array(mr_play_use, n_edges + 1);
    s->pending = mr_new_array(int, n + 1);
    s->next = mr_new_array(int, n + 1);
    s->ready_at = mr_new_array(double, n + 1);
    s->start = mr_new_array(double, n + 1);
    s->finish = mr_new_array(double, n + 1);
    s->link_free = mr_new_array(double, w->n_devices * w->n_devices);
    s->queues = mr_new_array(mr_play_queue, w->n_devices);
    s->held = mr_new_array(int64_t, w->n_devices);
    /* first_use is shifted by one while the uses are filled in: each entry then ends where the next one begins. */
    for (int i = 0; i < n_edges; i++)
        s->first_use[w->inputs[i].from + 2]++;
    for (int i = 0; i <= n; i++)
        s->first_use[i + 1] += s->first_use[i];
    for (int v = 0; v < n; v++)
        for (int e = w->first_input[v]; e < w->first_input[v + 1]; e++)
            s->uses[s->first_use[w->inputs[e].from + 1]++] = (mr_play_use){v, w->inputs[e].tensor, w->inputs[e].bytes};
    return NULL;
}

/* Accepts a play that is all zeros. */
void mr_play_deinit(mr_play *s)
{
    mr_free(s->first_use);
    mr_free(s->uses);
    mr_free(s->pending);
    mr_free(s->next);
    mr_free(s->ready_at);
    mr_free(s->start);
    mr_free(s->finish);
    mr_free(s->arrival);
    mr_free(s->link_free);
    mr_free(s->queues);
    mr_free(s->held);
    mr_vec_deinit(&s->events);
    mr_vec_deinit(&s->sends);
}

/* ---- events, a heap by time ---- */

/* By time. At equal times ends come first, since they make room for nodes that are ready. */
static bool event_before(const mr_play_event *a, const mr_play_event *b)
{
    if (a->at != b->at)
        return a->at < b->at;
    if (a->ends != b->ends)
        return a->ends;
    return !a->ends && a->at > 0 ? a->node > b->node : a->node < b->node;
}

/* A binary heap: the earliest event is first. */
static void push_event(mr_play *s, mr_play_event e)
{
    mr_vec_push(&s->events, e);
    int i = s->events.n - 1;
    for (int up; i > 0 && event_before(&e, &s->events.p[up = (i - 1) / 2]); i = up)
        s->events.p[i] = s->events.p[up];
    s->events.p[i] = e;
}

/* The heap must not be empty. */
static mr_play_event pop_event(mr_play *s)
{
    MR_ASSERT(s->events.n > 0);
    mr_play_event *p = s->events.p, first = p[0], last = mr_vec_pop(&s->events);
    int n = s->events.n, i = 0;
    for (int down; (down = 2 * i + 1) < n; i = down) {
        if (down + 1 < n && event_before(&p[down + 1], &p[down]))
            down++;
        if (!event_before(&p[down], &last))
            break;
        p[i] = p[down];
    }
    if (n)
        p[i] = last;
    return first;
}

/* ---- playing ---- */

static int device_of_node(const mr_play *s, int v) { return s->device_of[s->w->group[v]]; }

static double node_seconds(const mr_play *s, int v, int d)
{
    return s->w->seconds[(size_t)v * (size_t)s->w->n_devices + (size_t)d];
}

/* The device must be idle. */
static void start_node(mr_play *s, int v, int d, double now)
{
    MR_ASSERT(s->queues[d].running < 0);
    s->queues[d].running = v;
    s->start[v] = now;
    s->finish[v] = now + node_seconds(s, v, d);
    push_event(s, (mr_play_event){s->finish[v], v, true});
}

/* Returns when a tensor that is made on `from` now arrives on `to`. It is sent to a device once; later consumers
 * wait for the same transfer. */
static double send_tensor(mr_play *s, int v, const mr_play_use *u, int from, int to, double now)
{
    const mr_workload *w = s->w;
    if (from == to)
        return now;
    double *arrival = &s->arrival[(size_t)u->tensor * (size_t)w->n_devices + (size_t)to];
    if (*arrival >= 0)
        return *arrival;
    const mr_workload_link *l = &w->links[from * w->n_devices + to];
    double *link_free = &s->link_free[from * w->n_devices + to];
    double start = MR_MAX(now, *link_free), gone = start;
    if (u->bytes) {
        gone += (double)u->bytes / l->bytes_per_s;
        *link_free = gone;
    }
    *arrival = gone + l->latency_s;
    s->sent += (double)u->bytes + EACH_SENT;
    if (s->keep_sends)
        mr_vec_push(&s->sends, (mr_play_send){from, to, v, u->tensor, u->bytes, start, *arrival});
    return *arrival;
}

/* Sends the outputs of a node to its consumers; those that have all inputs are ready when the last one arrives. */
static void deliver_outputs(mr_play *s, int v, int d, double now)
{
    for (int i = s->first_use[v]; i < s->first_use[v + 1]; i++) {
        const mr_play_use *u = &s->uses[i];
        MR_ASSERT(s->pending[u->node] > 0);
        double at = send_tensor(s, v, u, d, device_of_node(s, u->node), now);
        s->ready_at[u->node] = MR_MAX(s->ready_at[u->node], at);
        if (--s->pending[u->node] == 0)
            push_event(s, (mr_play_event){s->ready_at[u->node], u->node, false});
    }
}

/* Starts a node or queues it on its device. A node that takes no time waits for no device. */
static void node_ready(mr_play *s, int v, double now)
{
    int d = device_of_node(s, v);
    mr_play_queue *q = &s->queues[d];
    MR_ASSERT(s->pending[v] == 0 && (q->running >= 0 || q->first < 0));
    if (node_seconds(s, v, d) == 0) {
        s->start[v] = s->finish[v] = now;
        deliver_outputs(s, v, d, now);
        return;
    }
    if (q->running < 0) {
        start_node(s, v, d, now);
        return;
    }
    s->next[v] = -1;
    *(q->last < 0 ? &q->first : &s->next[q->last]) = v;
    q->last = v;
}

/* Delivers the outputs, then starts the next node of the device. */
static void node_ends(mr_play *s, int v, double now)
{
    int d = device_of_node(s, v);
    mr_play_queue *q = &s->queues[d];
    MR_ASSERT(q->running == v);
    deliver_outputs(s, v, d, now);
    int next = q->first;
    q->running = -1;
    if (next < 0)
        return;
    q->first = s->next[next];
    if (q->first < 0)
        q->last = -1;
    start_node(s, next, d, now);
}

/* False if a node cannot run on its device, or a device has too little memory. */
static bool choice_fits(mr_play *s)
{
    const mr_workload *w = s->w;
    memset(s->held, 0, sizeof *s->held * (size_t)w->n_devices);
    for (int v = 0; v < w->n_nodes; v++) {
        int d = device_of_node(s, v);
        if (isinf(node_seconds(s, v, d)))
            return false;
        s->held[d] += w->bytes ? w->bytes[v] : 0;
        if (w->memory && s->held[d] > w->memory[d])
            return false;
    }
    return true;
}

/* Starts a new simulation: nothing has arrived, all devices are idle, and nodes without inputs are ready at time
 * 0. */
static void reset_play(mr_play *s)
{
    const mr_workload *w = s->w;
    for (size_t i = 0; i < (size_t)w->n_tensors * (size_t)w->n_devices; i++)
        s->arrival[i] = -1;
    memset(s->link_free, 0, sizeof *s->link_free * (size_t)(w->n_devices * w->n_devices));
    memset(s->ready_at, 0, sizeof *s->ready_at * (size_t)w->n_nodes);
    for (int d = 0; d < w->n_devices; d++)
        s->queues[d] = (mr_play_queue){-1, -1, -1};
    s->events.n = s->sends.n = 0;
    s->sent = 0;
    for (int v = 0; v < w->n_nodes; v++) {
        s->pending[v] = w->first_input[v + 1] - w->first_input[v];
        if (!s->pending[v])
            push_event(s, (mr_play_event){0, v, false});
    }
}

/* Handles the events in order of time; the last one is the end of the step. INFINITY, without simulating, if the
 * choice does not fit. device_of must live until the next call. */
double mr_play_step(mr_play *s, const int *device_of)
{
    double end = 0;
    s->device_of = device_of;
    if (!choice_fits(s))
        return INFINITY;
    reset_play(s);
    while (s->events.n) {
        mr_play_event e = pop_event(s);
        MR_ASSERT(e.at >= end);
        end = e.at;
        if (e.ends)
            node_ends(s, e.node, e.at);
        else
            node_ready(s, e.node, e.at);
    }
    return end;
}

/* For callers that simulate once; a search keeps its mr_play. */
mr_status *mr_assign_simulate(const mr_workload *w, const int *device_of, double *start, double *finish, double *makespan)
{
    mr_play s;
    MR_TRY(mr_play_init(&s, w));
    *makespan = mr_play_step(&s, device_of);
    if (start)
        memcpy(start, s.start, sizeof *start * (size_t)w->n_nodes);
    if (finish)
        memcpy(finish, s.finish, sizeof *finish * (size_t)w->n_nodes);
    mr_play_deinit(&s);
    return NULL;
}
