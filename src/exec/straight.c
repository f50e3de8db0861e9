/* exec/straight.c -- see straight.h.
 *
 * The flow is kept for the life of an mr_straight, registered with the cancellation of its parent, so that a run
 * registers nothing. Values move through the slots of the flow's root iteration as in the executor (deliver.h), but
 * nothing is counted: the order of the nodes respects all edges.
 *
 * Invariants: between runs all slots, outputs and results are absent. `run` and `out` are used by one thread at a
 * time. A run of a flow that has stopped fails at once. */
#include "exec/straight.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/simd.h"
#include "exec/deliver.h"

enum { FIRST_MEASURED = 8, MEASURE_EVERY = 64 }; /* runs */

struct mr_straight {
    mr_flow *flow;
    const mr_plan *plan;
    uint32_t *order; /* indexes of nodes */
    bool waits;
    int n_heavy;
    int64_t cost_ns;
    uint32_t n_runs;
    mr_run run;
    mr_value *out; /* plan->max_out */
    /* the end of the node that waits: */
    mr_mutex mu;
    mr_cond ended;
    bool has_ended MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
};

/* ---- which programs are straight ---- */

/* A kernel that is asynchronous but does not block ends from another place, for example a queue, or calls functions:
 * the executor runs such programs. */
static bool node_fits(const mr_plan_node *n)
{
    uint32_t control = MR_PN_MERGE | MR_PN_FRAMED | MR_PN_TRANSFER | MR_PN_MAY_SKIP | MR_PN_REFS;
    if (n->flags & control)
        return false;
    return !(n->flags & MR_PN_ASYNC) || ((n->flags & MR_PN_BLOCKS) && n->run_async == n->kernel->kernel->run_async);
}

/* Returns the index of the node that may wait, -1 if there is none, -2 if the plan does not fit. */
static int64_t find_waiting(const mr_plan *p)
{
    int64_t waiting = -1;
    if (p->n_frames > 1)
        return -2;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const mr_plan_node *n = &p->nodes[i];
        if (!node_fits(n) || ((n->flags & MR_PN_BLOCKS) && waiting >= 0))
            return -2;
        if (n->flags & MR_PN_BLOCKS)
            waiting = i;
    }
    return waiting;
}

/* Puts the nodes that do not depend on the waiting one first, then that one and what depends on it. Within both groups
 * they stay in the order of the plan, which has producers first. */
static void order_nodes(mr_straight *s, int64_t waiting)
{
    const mr_plan *p = s->plan;
    bool *after = mr_new_array(bool, (int)p->n_nodes + 1);
    uint32_t n = 0;
    if (waiting >= 0)
        after[waiting] = true;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t e = 0; after[i] && e < p->nodes[i].n_edges; e++)
            after[p->edges[p->nodes[i].edge + e].dst] = true;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->n_nodes; i++)
            if (after[i] == (pass == 1))
                s->order[n++] = i;
    MR_ASSERT(n == p->n_nodes);
    mr_free(after);
}

/* ---- costs ---- */

/* Reads the costs that the plan has learnt; other runs of the program may change them at any time. */
static void sum_costs(mr_straight *s)
{
    s->n_heavy = 0;
    s->cost_ns = 0;
    for (uint32_t i = 0; i < s->plan->n_nodes; i++) {
        s->n_heavy += atomic_load_explicit(&s->plan->heavy[i], memory_order_relaxed) != 0;
        s->cost_ns += atomic_load_explicit(&s->plan->cost_ns[i], memory_order_relaxed);
    }
}

bool mr_straight_waits(const mr_straight *s) { return s->waits; }
int mr_straight_heavy(const mr_straight *s) { return s->n_heavy; }

int64_t mr_straight_cost_ns(mr_straight *s)
{
    sum_costs(s);
    return s->cost_ns;
}

/* ---- making and freeing ---- */

mr_status *mr_straight_new(mr_program *p, mr_straight **out)
{
    *out = NULL;
    int64_t waiting = p->n_plans == 1 ? find_waiting(p->plans[0]) : -2;
    if (waiting == -2)
        return NULL;
    mr_flow *f;
    MR_TRY(mr_program_take(p, &f));
    mr_straight *s = mr_new(mr_straight);
    s->flow = f;
    s->plan = p->plans[0];
    s->waits = waiting >= 0;
    s->order = mr_new_array(uint32_t, (int)s->plan->n_nodes + 1);
    s->out = mr_new_array(mr_value, (int)s->plan->max_out + 1);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->ended);
    order_nodes(s, waiting);
    sum_costs(s);
    *out = s;
    return NULL;
}

mr_flow *mr_straight_flow(mr_straight *s) { return s->flow; }

void mr_straight_begin(mr_straight *s, mr_cancel *parent)
{
    mr_flow *f = s->flow;
    f->deadline_ns = 0;
    f->trace = NULL;
    f->parent = parent;
    f->execs[0]->step.rendezvous = f->rendezvous;
    f->execs[0]->step.root = NULL;
    atomic_store_explicit(&f->stop, false, memory_order_relaxed);
    if (!mr_cancel_register(parent, &f->in_parent))
        mr_cancel_start(f->cancel);
}

void mr_straight_free(mr_straight *s)
{
    if (!s)
        return;
    if (s->flow->parent)
        mr_cancel_unregister(s->flow->parent, &s->flow->in_parent);
    mr_status_free(mr_flow_take_status(s->flow));
    mr_program_give(s->flow);
    mr_cond_deinit(&s->ended);
    mr_mutex_deinit(&s->mu);
    mr_free(s->order);
    mr_free(s->out);
    mr_free(s);
}

/* ---- a node that may wait ---- */

/* The `done` of an asynchronous kernel; from any thread. */
static void kernel_ended(mr_run *r, mr_status *st)
{
    mr_straight *s = (mr_straight *)((char *)r - offsetof(mr_straight, run));
    mr_lock(&s->mu);
    s->st = st;
    s->has_ended = true;
    mr_cond_signal(&s->ended);
    mr_unlock(&s->mu);
}

/* Waits for the end of the kernel. A cancelled one ends by itself: it has registered with the step's cancellation. */
static mr_status *run_and_wait(mr_straight *s, const mr_plan_node *n)
{
    s->has_ended = false;
    n->run_async(&s->run);
    mr_lock(&s->mu);
    while (!s->has_ended)
        mr_cond_wait(&s->ended, &s->mu);
    mr_status *st = s->st;
    s->st = NULL;
    mr_unlock(&s->mu);
    return st;
}

/* ---- a run ---- */

static mr_status *call_kernel(mr_straight *s, const mr_plan_node *n)
{
    return n->flags & MR_PN_ASYNC ? run_and_wait(s, n) : n->run(&s->run);
}

static mr_status *call_measured(mr_straight *s, const mr_plan_node *n)
{
    int64_t start = mr_now_ns();
    mr_status *st = call_kernel(s, n);
    mr_plan_note_cost(s->plan, (uint32_t)(n - s->plan->nodes), mr_now_ns() - start);
    return st;
}

static inline void drop_values(mr_value *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].kind != MR_ABSENT)
            mr_value_drop(&v[i]);
}

/* Puts the outputs into the slots of their consumers, and drops those nobody reads. */
static inline void deliver_values(mr_straight *s, const mr_plan_node *n, mr_value *slots)
{
    const mr_plan_edge *e = s->plan->edges + n->edge, *end = e + n->n_edges;
    for (; e < end && !(e->what & MR_PE_CONTROL); e++) /* control edges come last */
        mr_put_slot(slots + e->slot, &s->out[e->what >> MR_PE_BITS], e->what);
    drop_values(s->out, n->n_out);
}

static mr_status *run_node(mr_straight *s, const mr_plan_node *n, mr_value *slots, bool measured)
{
    mr_run *r = &s->run;
    r->node = n->node;
    r->kernel = n->kernel->kernel;
    r->state = n->kernel->state;
    r->n_in = (int)n->n_in;
    r->n_out = (int)n->n_out;
    r->in = slots + n->slot;
    mr_status *st = MR_UNLIKELY(measured) ? call_measured(s, n) : call_kernel(s, n);
    drop_values(slots + n->slot, n->n_in);
    if (!st)
        st = mr_check_outputs(n, s->out);
    for (uint32_t i = 0; !st && i < n->n_out; i++)
        if (MR_UNLIKELY(s->out[i].kind != MR_LIVE)) /* nothing here would pass deadness on */
            st = mr_error(MR_INTERNAL, "Output %u of %s is dead outside of a conditional", i, n->node->name);
    if (MR_LIKELY(!st)) {
        deliver_values(s, n, slots);
        return NULL;
    }
    drop_values(s->out, n->n_out);
    return mr_status_append(st, "\n\t [[{{node %s}}]]", n->node->name);
}

/* After an error, or if the flow was stopped: empties everything. An error of a kernel replaces the cancellation that
 * it may be the consequence of, unless it is derived. */
static mr_status *give_up(mr_straight *s, mr_status *st)
{
    mr_flow *f = s->flow;
    mr_status *why = mr_flow_take_status(f);
    drop_values(f->execs[0]->root->slots, s->plan->frames[0].n_slots);
    drop_values(f->rets, (uint32_t)f->program->n_rets);
    mr_status_update(&why, st);
    return why ? why : mr_status_mark_derived(mr_error(MR_CANCELLED, "Run call was cancelled"));
}

static mr_status *check_results(mr_straight *s)
{
    const mr_flow *f = s->flow;
    for (int i = 0; i < f->program->n_rets; i++)
        if (f->rets[i].kind != MR_LIVE)
            return mr_invalid("Retval[%d] does not have value", i);
    return NULL;
}

/* Denormals are flushed to zero meanwhile, as in a step. A step id is unique, because objects of the step are named by
 * it. */
static mr_status *run_all(mr_straight *s, bool measured)
{
    mr_flow *f = s->flow;
    mr_value *slots = f->execs[0]->root->slots;
    s->run.step = &f->execs[0]->step;
    s->run.out = s->out;
    s->run.done = kernel_ended;
    s->run.step->id = mr_flow_next_id();
    for (uint32_t i = 0; i < s->plan->n_nodes; i++) {
        const mr_plan_node *n = &s->plan->nodes[s->order[i]];
        if (MR_UNLIKELY(atomic_load_explicit(&f->stop, memory_order_relaxed)))
            return give_up(s, NULL);
        mr_status *st = n->flags & MR_PN_NOTHING ? NULL : run_node(s, n, slots, measured);
        if (MR_UNLIKELY(st != NULL))
            return give_up(s, st);
    }
    return check_results(s);
}

mr_status *mr_straight_run(mr_straight *s)
{
    bool measured = s->n_runs < FIRST_MEASURED || s->n_runs % MEASURE_EVERY == 0;
    MR_ASSERT(s->flow->parts_left == 0);
    s->n_runs++;
    mr_fp_mode mode = mr_denormals_flush();
    mr_status *st = run_all(s, measured);
    mr_denormals_restore(mode);
    mr_flow_end_step(s->flow);
    if (measured)
        sum_costs(s);
    return st;
}
