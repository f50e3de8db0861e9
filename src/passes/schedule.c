/* passes/schedule.c -- Recvs start as late as is useful.
 *
 * A Recv has no inputs, so by itself it starts with the step: everything that a task will ever receive is requested
 * at once and stays in its memory until it is used. Here some Recvs wait, by a control edge, for a node X of their
 * own device, chosen so that the value still arrives in time (white paper of 2015, 5.2).
 *
 * "In time": every node gets the earliest time it can start and the latest that does not prolong the step, on any
 * number of threads. A value is needed by the latest start of its first consumer. Going backwards from the end, the
 * values for a task follow each other on its one line: each arrives when it is needed or when the line is needed for
 * the next, whichever is earlier. Of the nodes that end before its transfer must begin, X is the last. The estimates
 * of passes/cost.c are biased so that a Recv is rather too early than too late.
 *
 * Why nothing can deadlock, whatever blocks in queues, on other tasks or for a client's next feed: all consumers of
 * the value wait for X anyway, and X does not wait for the value. So no node except the Recv waits for anything new,
 * and no cycle is closed; not even by several such edges, as each of them can be replaced by a path that existed
 * before. A Merge waits only for what all of its inputs wait for.
 *
 * The edge leads through a ControlTrigger: a Recv is not dead because X is. Loops are left alone: their Recvs start
 * with the iteration. */
#include <stdlib.h>

#include "base/memory.h"
#include "passes/passes.h"

enum {
    GROUP = 64,         /* Recvs looked at in one walk over the graph, a bit each */
    LONGEST_WAY = 4096, /* steps back from a consumer in search of X */
    TRIES = 4,          /* candidates for X, where there are several consumers */
    SMALL = 4096,       /* bytes that are not worth a node */
    NOWHERE = -1,
};

/* Nodes are identified by their position in an order in which producers come first, and Sends before their Recvs. */
typedef struct spot {
    mr_node *node;
    int first, n_data, n_in;           /* inputs: data edges, then control edges; without back edges */
    bool merge, loop;                  /* a Merge; one that begins the iterations of a loop */
    int64_t early_ns, cost_ns, late_ns; /* earliest start, length, latest start */
    uint64_t after, before;            /* one bit per Recv of a group: depends on the Recv; waits for X */
    mr_node *trigger;                  /* of an X */
} spot;

typedef struct job { /* one Recv */
    const mr_cut_edge *t;
    int recv;
    int64_t latest_ns; /* its start */
    int at;            /* the current node of the search from the first consumer back to X; NOWHERE: none */
    int n_steps;
    bool settled;
} job;

typedef struct scheduler {
    mr_graph *g;
    const mr_cut_edge *edges;
    int n_edges;
    bool all; /* delay every Recv as long as possible */
    mr_frames frames;
    spot *spots;
    int n;
    int *place_of; /* by id */
    MR_VEC(int) inputs;
    MR_VEC(job) jobs;
} scheduler;

/* ---- the graph ---- */

static bool is_back_edge(const mr_node *src, const mr_node *dst) { return mr_node_is_next(src) && mr_node_is_merge(dst); }

/* While the pass works, each Recv has a control edge from its Send, so all devices are one graph. part_devices
 * removes these edges. */
static void join_devices(scheduler *s)
{
    for (int i = 0; i < s->n_edges; i++)
        mr_node_add_control(s->edges[i].recv, s->edges[i].send);
}

static void part_devices(scheduler *s)
{
    for (int i = 0; i < s->n_edges; i++)
        mr_node_remove_control(s->edges[i].recv, s->edges[i].send);
}

static int position_of(const scheduler *s, const mr_node *n) { return s->place_of[n->id]; }

/* Fills the spot of a node. Back edges of loops are left out. All producers have their positions already. */
static void fill_spot(scheduler *s, int at, mr_node *n)
{
    spot *p = &s->spots[at];
    *p = (spot){.node = n, .first = s->inputs.n, .merge = mr_node_is_merge(n), .cost_ns = mr_cost_node_ns(n)};
    for (int i = 0; i < n->n_in + n->n_ctrl; i++) {
        const mr_node *src = i < n->n_in ? n->in[i].node : n->ctrl[i - n->n_in];
        if (p->merge && is_back_edge(src, n)) {
            p->loop = true;
            continue;
        }
        mr_vec_push(&s->inputs, position_of(s, src));
        MR_ASSERT(position_of(s, src) < at);
        p->n_data += i < n->n_in;
        p->n_in++;
    }
}

/* Gives every node its spot, producers first. A Recv takes as long as its transfer. */
static mr_status *lay_out(scheduler *s)
{
    mr_node **order = NULL;
    MR_TRY(mr_graph_topological(s->g, &order, &s->n));
    s->spots = mr_try_calloc((size_t)s->n, sizeof *s->spots);
    s->place_of = mr_try_calloc((size_t)s->g->nodes.n, sizeof *s->place_of);
    bool room = s->spots && s->place_of;
    for (int i = 0; room && i < s->n; i++)
        s->place_of[order[i]->id] = i;
    for (int i = 0; room && i < s->n; i++)
        fill_spot(s, i, order[i]);
    mr_free(order);
    for (int i = 0; room && i < s->n_edges; i++) {
        const mr_cut_edge *e = &s->edges[i];
        s->spots[position_of(s, e->recv)].cost_ns = e->remote ? mr_cost_transfer_ns(e->send->in[0]) : 0;
    }
    return room ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot schedule %d nodes", s->n);
}

/* ---- times ---- */

static int64_t end_ns(const spot *p) { return p->early_ns + p->cost_ns; }

/* Earliest starts, with any number of threads; returns the length of the step. */
static int64_t find_earliest(scheduler *s)
{
    int64_t end = 0;
    for (spot *p = s->spots; p < s->spots + s->n; p++) {
        for (int k = 0; k < p->n_in; k++)
            p->early_ns = MR_MAX(p->early_ns, end_ns(&s->spots[s->inputs.p[p->first + k]]));
        end = MR_MAX(end, end_ns(p));
    }
    return end;
}

/* Latest starts that do not prolong the step. Until all consumers of a node have been seen, late_ns is when it must
 * be done; then it becomes its start. */
static void find_latest(scheduler *s, int64_t end)
{
    for (int i = 0; i < s->n; i++)
        s->spots[i].late_ns = end;
    for (spot *p = s->spots + s->n; p-- > s->spots;) {
        p->late_ns -= p->cost_ns;
        for (int k = 0; k < p->n_in; k++) {
            spot *src = &s->spots[s->inputs.p[p->first + k]];
            src->late_ns = MR_MIN(src->late_ns, p->late_ns);
        }
    }
}

/* ---- which Recvs, and when ---- */

/* The consumer that must start first; NOWHERE if there is none. */
static int first_consumer(const scheduler *s, const mr_cut_edge *e)
{
    int first = NOWHERE;
    for (int i = 0; i < e->value->uses.n; i++) {
        int p = position_of(s, e->value->uses.p[i].node);
        if (first < 0 || s->spots[p].late_ns < s->spots[first].late_ns)
            first = p;
    }
    return first;
}

/* Lists the Recvs that may be delayed: those with a consumer, between tasks, outside of loops. */
static void list_jobs(scheduler *s)
{
    for (int i = 0; i < s->n_edges; i++) {
        const mr_cut_edge *e = &s->edges[i];
        int first = first_consumer(s, e);
        if (first >= 0 && (e->remote || s->all) && s->frames.of_node[e->recv->id] == 0)
            mr_vec_push(&s->jobs, (job){e, position_of(s, e->recv), s->spots[first].late_ns, first, 0, false});
    }
}

/* For qsort: the last one needed first, because share_lines works backwards. */
static int by_need(const void *a, const void *b)
{
    const job *x = a, *y = b;
    return x->latest_ns != y->latest_ns ? (x->latest_ns < y->latest_ns ? 1 : -1) : x->recv - y->recv;
}

/* From the last to the first, each transfer has the line of its task to itself. latest_ns was its arrival and becomes
 * its start. */
static mr_status *share_lines(scheduler *s)
{
    int n_lines = 0;
    for (int i = 0; i < s->n_edges; i++)
        n_lines = MR_MAX(n_lines, s->edges[i].line + 1);
    int64_t *free_until = mr_try_calloc((size_t)n_lines, sizeof *free_until);
    if (!free_until)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot schedule the transfers of %d tasks", n_lines);
    for (int i = 0; i < n_lines; i++)
        free_until[i] = INT64_MAX;
    if (s->jobs.n > 0)
        qsort(s->jobs.p, (size_t)s->jobs.n, sizeof(job), by_need);
    /* Backwards in time: the line is free until the start of the transfer that was scheduled before. */
    for (job *j = s->jobs.p; j < s->jobs.p + s->jobs.n; j++) {
        int64_t *line = &free_until[j->t->line];
        *line = MR_MIN(j->latest_ns, *line) - s->spots[j->recv].cost_ns;
        j->latest_ns = *line;
    }
    mr_free(free_until);
    return NULL;
}

/* Drops Recvs that would not start later than their value is available anyway, and those of small values. */
static void drop_useless(scheduler *s)
{
    int n = 0;
    for (int i = 0; i < s->jobs.n; i++) {
        const job *j = &s->jobs.p[i];
        int64_t bytes = mr_cost_bytes(j->t->send->in[0]);
        bool useful = j->latest_ns > s->spots[j->recv].early_ns && (bytes < 0 || bytes > SMALL);
        if (s->all || useful)
            s->jobs.p[n++] = *j;
    }
    s->jobs.n = n;
}

/* ---- X ---- */

/* True if the Recv may wait for this node: it ends early enough, on the same device, outside of loops. */
static bool can_hold(const scheduler *s, const job *j, const spot *p)
{
    return (s->all || end_ns(p) <= j->latest_ns) && strcmp(p->node->placed, j->t->recv->placed) == 0 &&
           mr_frames_out(&s->frames, p->node) == 0 && !mr_node_is(p->node, "_Recv") && !mr_node_is(p->node, "_Send");
}

/* Of the nodes that p waits for in any case, but not because of the Recv (its bit in the group), the one that ends
 * last. NOWHERE: none. */
static int step_back(const scheduler *s, const spot *p, uint64_t bit)
{
    int last = NOWHERE;
    for (int i = p->merge && !p->loop ? p->n_data : 0; i < p->n_in; i++) {
        int src = s->inputs.p[p->first + i];
        if (!(s->spots[src].after & bit) && (last < 0 || end_ns(&s->spots[src]) > end_ns(&s->spots[last])))
            last = src;
    }
    return last;
}

/* Moves the job to its next candidate. If everything further back is too early to be useful, the job is settled
 * without one. */
static void seek_candidate(const scheduler *s, job *j, uint64_t bit)
{
    MR_ASSERT(!j->settled && j->at >= 0);
    while ((j->at = step_back(s, &s->spots[j->at], bit)) >= 0 && ++j->n_steps < LONGEST_WAY) {
        const spot *p = &s->spots[j->at];
        if (!s->all && end_ns(p) <= s->spots[j->recv].early_ns)
            break;
        if (can_hold(s, j, p))
            return;
    }
    j->at = NOWHERE;
    j->settled = true;
}

/* Marks, for each job of the group, every node that depends on its Recv. */
static void mark_after(scheduler *s, const job *jobs, int n_jobs)
{
    MR_ASSERT(n_jobs <= GROUP);
    for (int i = 0; i < s->n; i++)
        s->spots[i].after = 0;
    for (int i = 0; i < n_jobs; i++)
        s->spots[jobs[i].recv].after |= (uint64_t)1 << i;
    for (spot *p = s->spots; p < s->spots + s->n; p++)
        for (int k = 0; k < p->n_in; k++)
            p->after |= s->spots[s->inputs.p[p->first + k]].after;
}

/* The candidates that p certainly waits for: all of any input, but of a Merge only those of every data input. */
static uint64_t waits_for(const scheduler *s, const spot *p)
{
    uint64_t any = 0, every = p->merge && p->n_data > 0 ? ~(uint64_t)0 : 0;
    for (int i = 0; i < p->n_in; i++) {
        uint64_t mask = s->spots[s->inputs.p[p->first + i]].before;
        if (p->merge && i < p->n_data)
            every &= mask;
        else
            any |= mask;
    }
    return any | every;
}

/* Marks, for each job of the group, everything that waits for its candidate. */
static void mark_before(scheduler *s, const job *jobs, int n_jobs)
{
    for (int i = 0; i < s->n; i++)
        s->spots[i].before = 0;
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].at >= 0)
            s->spots[jobs[i].at].before |= (uint64_t)1 << i;
    for (spot *p = s->spots; p < s->spots + s->n; p++)
        p->before |= waits_for(s, p);
}

/* True if all consumers of the value wait for the candidate. */
static bool all_wait(const scheduler *s, const job *j, uint64_t bit)
{
    const mr_node *value = j->t->value;
    for (int i = 0; i < value->uses.n; i++)
        if (!(s->spots[position_of(s, value->uses.p[i].node)].before & bit))
            return false;
    return true;
}

/* One try for all jobs that have no X yet; false if none is left. */
static bool try_group(scheduler *s, job *jobs, int n_jobs)
{
    bool open = false;
    for (int i = 0; i < n_jobs; i++)
        if (!jobs[i].settled)
            seek_candidate(s, &jobs[i], (uint64_t)1 << i);
    mark_before(s, jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        jobs[i].settled |= all_wait(s, &jobs[i], (uint64_t)1 << i);
        open |= !jobs[i].settled;
    }
    return open;
}

/* Works on GROUP jobs at a time, one bit each, so that a walk over the graph serves all of them. */
static void find_holders(scheduler *s)
{
    for (int from = 0; from < s->jobs.n; from += GROUP) {
        job *jobs = s->jobs.p + from;
        int n_jobs = MR_MIN(GROUP, s->jobs.n - from);
        mark_after(s, jobs, n_jobs);
        for (int i = 0; i < TRIES && try_group(s, jobs, n_jobs); i++)
            ;
    }
}

/* ---- edges that hold ---- */

/* One ControlTrigger per X, shared by all Recvs that wait for it. */
static mr_status *make_trigger(scheduler *s, spot *x)
{
    char *name = mr_printf("%s/_recv_now", x->node->name);
    mr_node_builder *b = mr_node_begin(s->g, "ControlTrigger", mr_graph_unique_name(s->g, name));
    mr_free(name);
    mr_nb_internal(b);
    mr_nb_control(b, x->node);
    MR_TRY(mr_node_finish(b, &x->trigger));
    x->trigger->placed = x->node->placed;
    return NULL;
}

/* Adds the control edges that were found. */
static mr_status *hold_recvs(scheduler *s)
{
    for (int i = 0; i < s->jobs.n; i++) {
        const job *j = &s->jobs.p[i];
        if (!j->settled || j->at < 0)
            continue;
        spot *x = &s->spots[j->at];
        MR_ASSERT(strcmp(x->node->placed, j->t->recv->placed) == 0);
        if (!x->trigger)
            MR_TRY(make_trigger(s, x));
        mr_node_add_control(j->t->recv, x->trigger);
    }
    return NULL;
}

/* ---- all of it ---- */

/* Runs the steps of the pass on the joined graph. */
static mr_status *schedule_graph(scheduler *s)
{
    MR_TRY(mr_frames_find(s->g, &s->frames));
    MR_TRY(lay_out(s));
    find_latest(s, find_earliest(s));
    list_jobs(s);
    MR_TRY(share_lines(s));
    drop_useless(s);
    find_holders(s);
    return hold_recvs(s);
}

/* Nothing to do without transfers between tasks. The temporary edges from Sends to Recvs are removed on failure too. */
mr_status *mr_schedule_recvs(mr_graph *g, const mr_cut_edge *edges, int n, mr_schedule how)
{
    scheduler s = {.g = g, .edges = edges, .n_edges = n, .all = how == MR_SCHEDULE_ALL};
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= edges[i].remote || s.all;
    if (!any || how == MR_SCHEDULE_NONE)
        return NULL;
    join_devices(&s);
    mr_status *st = schedule_graph(&s);
    part_devices(&s);
    mr_frames_deinit(&s.frames);
    mr_free(s.spots);
    mr_free(s.place_of);
    mr_vec_deinit(&s.inputs);
    mr_vec_deinit(&s.jobs);
    return st;
}
