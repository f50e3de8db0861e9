/* passes/schedule.c -- Recvs start as late as is useful.
 *
 * A Recv has no inputs, so by itself it starts with the step: all that a task will ever receive is asked for at once and
 * lies in its memory until it is used.  Here some wait, by a control edge, for a node X of their own device, chosen so
 * that the value still comes in time (white paper of 2015, 5.2).
 *
 * When is "in time"?  Every node gets the earliest time it can start and the latest one that does not prolong the step,
 * on any number of threads.  A value is needed by the latest start of its first consumer.  Seen backwards from the end, the
 * values that come to a task follow each other on its one line: each arrives when it is needed or when the line is
 * wanted for the next, whichever is earlier.  Of the nodes that end before its transfer must begin, X is the last.
 * Times are estimated (passes/cost.c), so that in doubt a Recv is early.
 *
 * Why nothing can lock up, whatever blocks in queues, on other tasks or for a client's next feed: X is something that all
 * consumers of the value wait for anyhow, and does not itself wait for the value.  So no node but the Recv comes
 * to wait for anything new, and no circle is closed; not even by several such edges, as each of them can be replaced
 * by a way that was there before.  What a Merge waits for is only what all of its inputs wait for.
 *
 * The edge leads through a ControlTrigger: a Recv is not dead because X is.  Loops are left alone: their
 * Recvs start with the iteration. */
#include <stdlib.h>

#include "base/memory.h"
#include "passes/passes.h"

enum {
    GROUP = 64,       /* Recvs looked at in one walk over the graph, a bit each */
    LONGEST_WAY = 4096, /* steps back from a consumer in search of X */
    TRIES = 4,        /* candidates for X, where there are several consumers */
    SMALL = 4096,     /* bytes that are not worth a node */
};

typedef struct job { /* one Recv */
    const mr_cut_edge *t;
    int64_t latest_ns; /* its start */
    const mr_node *at; /* on the way back from the first consumer: X, when it is one */
    int n_steps;
    bool settled;
} job;

typedef struct scheduler {
    mr_graph *g;
    const mr_cut_edge *transfers;
    int n_transfers;
    bool all; /* every Recv, as late as can be */
    mr_frames frames;
    mr_node **order; /* producers first, Sends before their Recvs */
    int n;
    /* by id */
    int64_t *early_ns, *cost_ns, *late_ns; /* start, length, latest start */
    uint64_t *after, *before;              /* masks of a group: behind the Recv; waiting for X */
    mr_node **triggers;                    /* of an X */
    MR_VEC(job) jobs;
} scheduler;

/* ---- edges ---- */

static bool is_back_edge(const mr_node *src, const mr_node *dst) { return mr_node_is_next(src) && mr_node_is_merge(dst); }

static int n_inputs(const mr_node *n) { return n->n_in + n->n_ctrl; }

static mr_node *input(const mr_node *n, int i) { return i < n->n_in ? n->in[i].node : n->ctrl[i - n->n_in]; }

/* While we are at work a Recv has a control edge from its Send: to the end of the world they are one graph. */
static void join(scheduler *s)
{
    for (int i = 0; i < s->n_transfers; i++)
        mr_node_add_control(s->transfers[i].recv, s->transfers[i].send);
}

static void part(scheduler *s)
{
    for (int i = 0; i < s->n_transfers; i++)
        mr_node_remove_control(s->transfers[i].recv, s->transfers[i].send);
}

/* ---- times ---- */

static int64_t end_ns(const scheduler *s, const mr_node *n) { return s->early_ns[n->id] + s->cost_ns[n->id]; }

static void measure(scheduler *s)
{
    for (int i = 0; i < s->n; i++)
        s->cost_ns[s->order[i]->id] = mr_cost_node_ns(s->order[i]);
    for (int i = 0; i < s->n_transfers; i++) {
        const mr_cut_edge *t = &s->transfers[i];
        s->cost_ns[t->recv->id] = t->remote ? mr_cost_transfer_ns(t->send->in[0]) : 0;
    }
}

static int64_t find_earliest(scheduler *s)
{
    int64_t end = 0;
    for (int i = 0; i < s->n; i++) {
        const mr_node *n = s->order[i];
        int64_t start = 0;
        for (int k = 0; k < n_inputs(n); k++)
            if (!is_back_edge(input(n, k), n))
                start = MR_MAX(start, end_ns(s, input(n, k)));
        s->early_ns[n->id] = start;
        end = MR_MAX(end, end_ns(s, n));
    }
    return end;
}

static void find_latest(scheduler *s, int64_t end)
{
    for (int i = s->n - 1; i >= 0; i--) {
        const mr_node *n = s->order[i];
        int64_t by = end;
        for (int k = 0; k < n->uses.n; k++)
            if (!is_back_edge(n, n->uses.p[k].node))
                by = MR_MIN(by, s->late_ns[n->uses.p[k].node->id]);
        s->late_ns[n->id] = by - s->cost_ns[n->id];
    }
}

/* ---- which Recvs, and when ---- */

static mr_node *first_consumer(const scheduler *s, const mr_cut_edge *t)
{
    mr_node *first = NULL;
    for (int i = 0; i < t->value->uses.n; i++) {
        mr_node *n = t->value->uses.p[i].node;
        if (!first || s->late_ns[n->id] < s->late_ns[first->id])
            first = n;
    }
    return first;
}

static void list_jobs(scheduler *s)
{
    for (int i = 0; i < s->n_transfers; i++) {
        const mr_cut_edge *t = &s->transfers[i];
        const mr_node *first = first_consumer(s, t);
        if (first && (t->remote || s->all) && s->frames.of_node[t->recv->id] == 0)
            mr_vec_push(&s->jobs, (job){.t = t, .latest_ns = s->late_ns[first->id], .at = first});
    }
}

static int by_need(const void *a, const void *b)
{
    const job *x = a, *y = b;
    int64_t left = x->latest_ns, right = y->latest_ns;
    return left != right ? (left < right ? 1 : -1) : x->t->recv->id - y->t->recv->id;
}

/* The last first: each has the line of its task to itself for as long as it takes.  latest_ns was its arrival, and becomes
 * its start. */
static mr_status *share_lines(scheduler *s)
{
    int n_lines = 0;
    for (int i = 0; i < s->n_transfers; i++)
        n_lines = MR_MAX(n_lines, s->transfers[i].line + 1);
    int64_t *free_until = mr_try_calloc((size_t)n_lines, sizeof *free_until);
    if (!free_until)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to schedule %d lines", n_lines);
    for (int i = 0; i < n_lines; i++)
        free_until[i] = INT64_MAX;
    if (s->jobs.n > 0)
        qsort(s->jobs.p, (size_t)s->jobs.n, sizeof(job), by_need);
    for (int i = 0; i < s->jobs.n; i++) {
        job *j = &s->jobs.p[i];
        int64_t *line = &free_until[j->t->line];
        *line = MR_MIN(j->latest_ns, *line) - s->cost_ns[j->t->recv->id];
        j->latest_ns = *line;
    }
    mr_free(free_until);
    return NULL;
}

/* What would not be asked for later than it can be had, or is hardly anything, is left as it is. */
static void drop_useless(scheduler *s)
{
    int n = 0;
    for (int i = 0; i < s->jobs.n; i++) {
        const job *j = &s->jobs.p[i];
        int64_t bytes = mr_cost_bytes(j->t->send->in[0]);
        bool useful = j->latest_ns > s->early_ns[j->t->recv->id] && (bytes < 0 || bytes > SMALL);
        if (s->all || useful)
            s->jobs.p[n++] = *j;
    }
    s->jobs.n = n;
}

/* ---- X ---- */

static bool can_hold(const scheduler *s, const job *j, const mr_node *n)
{
    return n != j->t->recv && strcmp(n->placed, j->t->recv->placed) == 0 && mr_frames_out(&s->frames, n) == 0 &&
           !mr_node_is(n, "_Recv") && !mr_node_is(n, "_Send") && (s->all || end_ns(s, n) <= j->latest_ns);
}

/* Something n waits for in any case; the one that ends last, and not because of the Recv (bit of its group). */
static const mr_node *step_back(const scheduler *s, const mr_node *n, uint64_t bit)
{
    const mr_node *last = NULL;
    bool loop = mr_node_is_merge(n) && n->n_in == 2 && is_back_edge(n->in[1].node, n);
    for (int i = mr_node_is_merge(n) && !loop ? n->n_in : 0; i < n_inputs(n); i++) {
        const mr_node *src = input(n, i);
        if (!is_back_edge(src, n) && !(s->after[src->id] & bit) && (!last || end_ns(s, src) > end_ns(s, last)))
            last = src;
    }
    return last;
}

/* The next candidate; none (settled) when what comes further back is too early to be of use. */
static void seek(const scheduler *s, job *j, uint64_t bit)
{
    while ((j->at = step_back(s, j->at, bit)) && ++j->n_steps < LONGEST_WAY) {
        if (!s->all && end_ns(s, j->at) <= s->early_ns[j->t->recv->id])
            break;
        if (can_hold(s, j, j->at))
            return;
    }
    j->at = NULL;
    j->settled = true;
}

static void mark_after(scheduler *s, const job *jobs, int n_jobs)
{
    memset(s->after, 0, sizeof *s->after * (size_t)s->g->nodes.n);
    for (int i = 0; i < n_jobs; i++)
        s->after[jobs[i].t->recv->id] |= (uint64_t)1 << i;
    for (int i = 0; i < s->n; i++) {
        const mr_node *n = s->order[i];
        for (int k = 0; k < n_inputs(n); k++)
            if (!is_back_edge(input(n, k), n))
                s->after[n->id] |= s->after[input(n, k)->id];
    }
}

static uint64_t waits_for(const scheduler *s, const mr_node *n)
{
    uint64_t any = 0, every = 0;
    bool merge = mr_node_is_merge(n), first = true;
    for (int i = 0; i < n_inputs(n); i++) {
        if (is_back_edge(input(n, i), n))
            continue;
        uint64_t mask = s->before[input(n, i)->id];
        if (merge && i < n->n_in) {
            every = first ? mask : every & mask;
            first = false;
        } else {
            any |= mask;
        }
    }
    return any | every;
}

static void mark_before(scheduler *s, const job *jobs, int n_jobs)
{
    memset(s->before, 0, sizeof *s->before * (size_t)s->g->nodes.n);
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].at)
            s->before[jobs[i].at->id] |= (uint64_t)1 << i;
    for (int i = 0; i < s->n; i++)
        s->before[s->order[i]->id] |= waits_for(s, s->order[i]);
}

static bool all_wait(const scheduler *s, const job *j, uint64_t bit)
{
    for (int i = 0; i < j->t->value->uses.n; i++)
        if (!(s->before[j->t->value->uses.p[i].node->id] & bit))
            return false;
    return true;
}

/* One try for all that have no X yet; false when none is left. */
static bool try_group(scheduler *s, job *jobs, int n_jobs)
{
    bool open = false;
    for (int i = 0; i < n_jobs; i++)
        if (!jobs[i].settled)
            seek(s, &jobs[i], (uint64_t)1 << i);
    mark_before(s, jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        jobs[i].settled |= all_wait(s, &jobs[i], (uint64_t)1 << i);
        open |= !jobs[i].settled;
    }
    return open;
}

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

static mr_status *trigger_of(scheduler *s, const mr_node *x, const char *placed, mr_node **out)
{
    if ((*out = s->triggers[x->id]))
        return NULL;
    char *name = mr_printf("%s/_recv_now", x->name);
    mr_node_builder *b = mr_node_begin(s->g, "ControlTrigger", mr_graph_unique_name(s->g, name));
    mr_free(name);
    mr_nb_internal(b);
    mr_nb_control(b, s->g->nodes.p[x->id]);
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = placed;
    s->triggers[x->id] = *out;
    return NULL;
}

static mr_status *hold(scheduler *s)
{
    for (int i = 0; i < s->jobs.n; i++) {
        const job *j = &s->jobs.p[i];
        mr_node *trigger;
        if (!j->settled || !j->at)
            continue;
        MR_TRY(trigger_of(s, j->at, j->t->recv->placed, &trigger));
        mr_node_add_control(j->t->recv, trigger);
    }
    return NULL;
}

/* ---- all of it ---- */

static mr_status *begin(scheduler *s)
{
    size_t n = (size_t)s->g->nodes.n;
    MR_TRY(mr_frames_find(s->g, &s->frames));
    MR_TRY(mr_graph_topological(s->g, &s->order, &s->n));
    s->early_ns = mr_try_calloc(n, sizeof *s->early_ns);
    s->cost_ns = mr_try_calloc(n, sizeof *s->cost_ns);
    s->late_ns = mr_try_calloc(n, sizeof *s->late_ns);
    s->after = mr_try_calloc(n, sizeof *s->after);
    s->before = mr_try_calloc(n, sizeof *s->before);
    s->triggers = mr_try_calloc(n, sizeof(*s->triggers));
    if (!s->early_ns || !s->cost_ns || !s->late_ns || !s->after || !s->before || !s->triggers)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to schedule %d nodes", s->g->nodes.n);
    return NULL;
}

static void end(scheduler *s)
{
    mr_frames_deinit(&s->frames);
    mr_free(s->order);
    mr_free(s->early_ns);
    mr_free(s->cost_ns);
    mr_free(s->late_ns);
    mr_free(s->after);
    mr_free(s->before);
    mr_free(s->triggers);
    mr_vec_deinit(&s->jobs);
}

mr_status *mr_schedule_recvs(mr_graph *g, const mr_cut_edge *transfers, int n, mr_schedule how)
{
    mr_status *st = NULL;
    scheduler s = {.g = g, .transfers = transfers, .n_transfers = n, .all = how == MR_SCHEDULE_ALL};
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= transfers[i].remote || s.all;
    if (!any || how == MR_SCHEDULE_NONE)
        return NULL;
    join(&s);
    MR_GO(begin(&s));
    measure(&s);
    find_latest(&s, find_earliest(&s));
    list_jobs(&s);
    MR_GO(share_lines(&s));
    drop_useless(&s);
    find_holders(&s);
    MR_GO(hold(&s));
out:
    part(&s);
    end(&s);
    return st;
}
