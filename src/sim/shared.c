/* sim/shared.c -- simulates a step on devices that share one machine.
 *
 * In passes/simulate.c every node has a fixed time; here a node has work, which progresses more slowly while another
 * device works too. Otherwise the rules are the same: a device runs one node at a time, in the order in which they
 * became ready. */
#include <math.h>

#include "base/memory.h"
#include "sim/measure.h"

typedef struct machine {
    const mr_sim_step *s;
    const mr_workload *w;
    double together, now;
    int *pending;     /* by node */
    double *ready_at; /* by node; INFINITY: not all inputs have arrived */
    double *left;     /* by node: the remaining work; before a node is ready, the latest arrival of its inputs */
    bool *begun;
    int *running;     /* by device; -1: idle */
    int n_left;
} machine;

static double node_seconds(const machine *m, int v)
{
    return m->w->seconds[(size_t)v * (size_t)m->w->n_devices + (size_t)m->s->device[v]];
}

static double arrival_time(const machine *m, const mr_play_use *u, int from, int to)
{
    const mr_workload_link *l = &m->w->links[from * m->w->n_devices + to];
    return m->now + (from == to ? 0 : l->latency_s + (double)u->bytes / l->bytes_per_s);
}

static void end_node(machine *m, int v)
{
    const mr_play *p = &m->s->planned.play;
    m->n_left--;
    for (int i = p->first_use[v]; i < p->first_use[v + 1]; i++) {
        int to = p->uses[i].node;
        double at = arrival_time(m, &p->uses[i], m->s->device[v], m->s->device[to]);
        m->left[to] = MR_MAX(m->left[to], at); /* before it is ready: arrival of its last input */
        if (--m->pending[to] == 0) {
            m->ready_at[to] = m->left[to];
            m->left[to] = node_seconds(m, to);
        }
    }
}

/* The node of a device that has been ready longest; -1 if none is. */
static int next_node(const machine *m, int d)
{
    int best = -1;
    for (int v = 0; v < m->w->n_nodes; v++)
        if (m->s->device[v] == d && !m->begun[v] && m->ready_at[v] <= m->now && (best < 0 || m->ready_at[v] < m->ready_at[best]))
            best = v;
    return best;
}

/* Finishes nodes that take no time, and starts others on idle devices. */
static void begin_nodes(machine *m)
{
    bool more = true;
    while (more) {
        more = false;
        for (int v = 0; v < m->w->n_nodes; v++)
            if (!m->begun[v] && m->ready_at[v] <= m->now && m->left[v] <= 0) {
                m->begun[v] = more = true;
                end_node(m, v);
            }
    }
    for (int d = 0; d < m->w->n_devices; d++) {
        if (m->running[d] >= 0 || (m->running[d] = next_node(m, d)) < 0)
            continue;
        m->begun[m->running[d]] = true;
    }
}

/* The time of the next event. */
static double next_time(const machine *m, double pace)
{
    double at = INFINITY;
    for (int v = 0; v < m->w->n_nodes; v++)
        if (!m->begun[v] && m->ready_at[v] > m->now)
            at = MR_MIN(at, m->ready_at[v]);
    for (int d = 0; d < m->w->n_devices; d++)
        if (m->running[d] >= 0)
            at = MR_MIN(at, m->now + m->left[m->running[d]] * pace);
    return at;
}

/* Advances to the next event, and finishes the nodes whose work is done. */
static void pass_time(machine *m)
{
    int busy = 0;
    for (int d = 0; d < m->w->n_devices; d++)
        busy += m->running[d] >= 0;
    double pace = busy > 1 ? m->together : 1, at = next_time(m, pace);
    double done = (at - m->now) / pace;
    m->now = at;
    for (int d = 0; d < m->w->n_devices; d++) {
        int v = m->running[d];
        if (v < 0 || (m->left[v] -= done) > 1e-12)
            continue;
        m->running[d] = -1;
        end_node(m, v);
    }
}

/* An event-driven simulation; between two events all running nodes progress at the same pace. */
double mr_sim_step_shared(const mr_sim_step *s, double together)
{
    int n = s->planned.w.n_nodes;
    machine m = {.s = s, .w = &s->planned.w, .together = together, .n_left = n};
    m.pending = mr_new_array(int, n + 1);
    m.ready_at = mr_new_array(double, n + 1);
    m.left = mr_new_array(double, n + 1);
    m.begun = mr_new_array(bool, n + 1);
    m.running = mr_new_array(int, s->n_devices);
    for (int v = 0; v < n; v++) {
        m.pending[v] = m.w->first_input[v + 1] - m.w->first_input[v];
        m.ready_at[v] = m.pending[v] ? INFINITY : 0;
        m.left[v] = m.pending[v] ? 0 : node_seconds(&m, v);
    }
    for (int d = 0; d < s->n_devices; d++)
        m.running[d] = -1;
    for (begin_nodes(&m); m.n_left > 0 && isfinite(m.now); begin_nodes(&m))
        pass_time(&m);
    mr_free(m.pending);
    mr_free(m.ready_at);
    mr_free(m.left);
    mr_free(m.begun);
    mr_free(m.running);
    return m.now;
}
