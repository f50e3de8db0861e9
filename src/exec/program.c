/* exec/program.c -- programs and their flows.
 *
 * Cancellation: while it runs, a flow is registered with the cancellation manager of its session or of the
 * calling step, which starts the flow's own. When that starts, the flow stops and its rendezvous is aborted,
 * which ends waiting Recvs. Kernels that wait for something else have registered themselves.
 *
 * A manager that has started may still be inside the loop that calls its entries, on another thread, when the
 * flow is over. Such a flow is put to rest. mr_cancel_reset waits for that loop, and only then is the flow
 * used again. This never happens from inside a callback, which would wait for itself.
 *
 * Invariants: a flow is in exactly one place: running, in `spare` or in `resting`. Outside of a run its
 * arguments and results are absent, and a spare flow is registered with its own cancellation (`listens`). */
#include "exec/program.h"

#include "base/clock.h"
#include "base/memory.h"

#define LIGHT_NS 50000   /* what a light program takes at most */
#define LIGHT_NODES 256
#define MEASURE_EVERY 64 /* steps */

/* ---- flows ---- */

/* The flow's own cancellation has started. The status is derived, so a root error replaces it. */
static void flow_cancelled(mr_cancel_entry *e)
{
    mr_flow *f = (mr_flow *)((char *)e - offsetof(mr_flow, on_cancel));
    mr_status *why = mr_status_mark_derived(mr_error(MR_CANCELLED, "Run call was cancelled"));
    mr_status *keep = mr_status_copy(why);
    mr_lock(&f->mu);
    mr_status_update(&f->st, keep);
    mr_unlock(&f->mu);
    atomic_store_explicit(&f->stop, true, memory_order_relaxed);
    mr_rendezvous_abort(f->rendezvous, why);
    mr_status_free(why);
}

/* Runs inside a callback of the parent, so mr_cancel_start only schedules the flow's own entries here. */
static void parent_cancelled(mr_cancel_entry *e)
{
    mr_flow *f = (mr_flow *)((char *)e - offsetof(mr_flow, in_parent));
    mr_cancel_start(f->cancel);
}

/* Only the first failure aborts the rendezvous and starts the cancellation; later ones can only improve the
 * status. */
void mr_flow_fail(mr_flow *f, mr_status *st)
{
    mr_status *why = mr_status_copy(st);
    mr_lock(&f->mu);
    mr_status_update(&f->st, st);
    mr_unlock(&f->mu);
    if (!atomic_exchange_explicit(&f->stop, true, memory_order_acq_rel)) {
        mr_rendezvous_abort(f->rendezvous, why);
        mr_cancel_start(f->cancel);
    }
    mr_status_free(why);
}

/* The flow keeps nothing: the next run starts with an empty status. */
mr_status *mr_flow_take_status(mr_flow *f)
{
    mr_lock(&f->mu);
    mr_status *st = f->st;
    f->st = NULL;
    mr_unlock(&f->mu);
    return st;
}

/* The parent's entry is unregistered before done is called: afterwards the parent may be gone. */
void mr_flow_part_done(mr_flow *f)
{
    MR_ASSERT(f->parts_left > 0);
    if (atomic_fetch_sub_explicit(&f->parts_left, 1, memory_order_acq_rel) != 1)
        return;
    if (f->parent)
        mr_cancel_unregister(f->parent, &f->in_parent);
    f->done(f);
}

static void flow_free(mr_flow *f);

/* Returns NULL if memory is out: the size of an exec depends on the graph. */
static mr_flow *flow_new(mr_program *p)
{
    mr_flow *f = mr_new(mr_flow);
    f->program = p;
    f->cancel = mr_cancel_new(NULL);
    f->on_cancel.fn = flow_cancelled;
    f->in_parent.fn = parent_cancelled;
    f->listens = mr_cancel_register(f->cancel, &f->on_cancel);
    f->rendezvous = f->own_rendezvous = mr_rendezvous_new();
    mr_mutex_init(&f->mu);
    mr_runner_init(&f->own_runner);
    f->args = mr_new_array(mr_value, p->n_args + 1);
    f->rets = mr_new_array(mr_value, p->n_rets + 1);
    f->execs = mr_new_array(mr_exec *, p->n_plans + 1);
    for (int i = 0; i < p->n_plans; i++) {
        if (!(f->execs[i] = mr_exec_new(p->plans[i], f))) {
            flow_free(f);
            return NULL;
        }
        /* The rest of the step (id, rendezvous, root) differs from run to run: mr_flow_start sets it. */
        mr_step *s = &f->execs[i]->step;
        s->cancel = f->cancel;
        s->caller = p->caller;
        s->n_args = p->n_args;
        s->n_rets = p->n_rets;
        s->args = f->args;
        s->rets = f->rets;
    }
    return f;
}

/* Returns to the flow's own rendezvous. Only once no callback can use the other one any more. */
static void drop_foreign_rendezvous(mr_flow *f)
{
    if (f->rendezvous == f->own_rendezvous)
        return;
    mr_rendezvous_unref(f->rendezvous);
    f->rendezvous = f->own_rendezvous;
}

/* Also frees a flow that was made in part: missing execs are NULL. */
static void flow_free(mr_flow *f)
{
    if (f->listens)
        mr_cancel_unregister(f->cancel, &f->on_cancel);
    mr_cancel_free(f->cancel);
    drop_foreign_rendezvous(f);
    for (int i = 0; i < f->program->n_plans; i++)
        mr_exec_free(f->execs[i]);
    mr_status_free(f->st);
    mr_rendezvous_unref(f->own_rendezvous);
    mr_runner_deinit(&f->own_runner);
    mr_mutex_deinit(&f->mu);
    mr_free(f->args);
    mr_free(f->rets);
    mr_free(f->execs);
    mr_free(f);
}

/* Frees the objects of the step (stacks, tensor arrays). They belong to the first exec, whose step is the
 * root of the others. */
static void drop_step_resources(mr_flow *f)
{
    mr_step *s = f->program->n_plans ? &f->execs[0]->step : NULL;
    if (s && s->resources) {
        mr_resources_free(s->resources);
        s->resources = NULL;
    }
}

void mr_flow_end_step(mr_flow *f) { drop_step_resources(f); }

/* Results that nobody has taken. */
static void clear_rets(mr_flow *f)
{
    for (int i = 0; i < f->program->n_rets; i++)
        mr_value_drop(&f->rets[i]);
}

/* Makes a flow that was cancelled usable again. Waits for the thread that may still be inside its
 * cancellation. */
static void wake_flow(mr_flow *f)
{
    MR_ASSERT(!f->parts_left);
    mr_cancel_reset(f->cancel);
    drop_foreign_rendezvous(f);
    mr_rendezvous_reset(f->own_rendezvous);
    mr_status_free(mr_flow_take_status(f));
    f->listens = mr_cancel_register(f->cancel, &f->on_cancel);
}

/* Takes a spare flow, else a resting one, else makes a new one. Inside a cancellation callback no resting
 * flow is woken, because that could wait for the callback itself. */
mr_status *mr_program_take(mr_program *p, mr_flow **out)
{
    mr_flow *f;
    mr_lock(&p->mu);
    if ((f = p->spare))
        p->spare = f->next;
    mr_flow *rested = NULL;
    if (!f && !mr_cancel_in_callback() && (rested = p->resting))
        p->resting = rested->next;
    mr_unlock(&p->mu);
    if (rested)
        wake_flow(f = rested);
    MR_ASSERT(!f || (f->program == p && f->parts_left == 0));
    *out = f ? f : flow_new(p);
    return *out ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot start a step");
}

/* A flow whose cancellation has started goes to rest, with the rendezvous it has: a callback may still use
 * it. */
void mr_program_give(mr_flow *f)
{
    mr_program *p = f->program;
    MR_ASSERT(f->parts_left == 0);
    clear_rets(f);
    drop_step_resources(f);
    for (int i = 0; i < p->n_args; i++)
        f->args[i].kind = MR_ABSENT; /* they were borrowed */
    bool cancelled_once = mr_cancel_started(f->cancel);
    if (!cancelled_once)
        drop_foreign_rendezvous(f);
    mr_rendezvous_reset(f->own_rendezvous);
    mr_lock(&p->mu);
    mr_flow **list = cancelled_once ? &p->resting : &p->spare;
    f->next = *list;
    *list = f;
    mr_unlock(&p->mu);
}

/* Unique in the process; steps of a cluster get their ids from the master. */
int64_t mr_flow_next_id(void)
{
    static _Atomic int64_t counter = 1;
    return atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
}

/* parts_left counts this call too, so the flow cannot end before all execs have been started. A parent that
 * was cancelled already cancels the flow at once, which then ends with CANCELLED.
 *
 * The first two runs and every 64th after that are measured: see MR_HEAVY_NS. */
void mr_flow_start(mr_flow *f, const mr_flow_start_args *a)
{
    mr_program *p = f->program;
    MR_ASSERT(f->parts_left == 0 && a->done && a->runner);
    uint32_t run = atomic_fetch_add_explicit(&p->n_runs, 1, memory_order_relaxed);
    int64_t id = a->root ? a->root->id : a->step_id ? a->step_id : mr_flow_next_id();
    /* Everything that the execs and callbacks read is set before the first exec starts. */
    if (a->rendezvous)
        f->rendezvous = mr_rendezvous_ref(a->rendezvous);
    f->runner = a->runner;
    f->done = a->done;
    f->ctx = a->ctx;
    f->measured = run < 2 || run % MEASURE_EVERY == 0;
    f->parent = a->parent;
    atomic_store_explicit(&f->stop, false, memory_order_relaxed);
    atomic_store_explicit(&f->parts_left, p->n_plans + 1, memory_order_relaxed);
    if (f->parent && !mr_cancel_register(f->parent, &f->in_parent))
        mr_cancel_start(f->cancel);
    for (int i = 0; i < p->n_plans; i++) {
        f->execs[i]->step.id = id;
        f->execs[i]->step.rendezvous = f->rendezvous;
        f->execs[i]->step.root = a->root ? a->root : i ? &f->execs[0]->step : NULL;
        mr_exec_start(f->execs[i]);
    }
    mr_flow_part_done(f);
}

/* ---- programs ---- */

/* About the memory of one run of a plan without loops; it limits recursion. */
static size_t plan_flow_bytes(const mr_plan *p)
{
    const mr_plan_frame *root = &p->frames[0];
    return sizeof(mr_exec) + sizeof(mr_exec_worker) + sizeof(mr_iter) + p->max_out * sizeof(mr_value) +
           root->n_slots * sizeof(mr_value) + root->n_words * sizeof(uint32_t);
}

/* ---- light programs ---- */

/* True for the stateful ops that never wait. All others may: for a file, a producer of data, a user. */
static bool only_changes_variables(const mr_node *n)
{
    static const char *const beginnings[] = {"Var", "ReadVariableOp", "Assign", "Resource", "_", NULL};
    for (int i = 0; beginnings[i]; i++)
        if (strncmp(n->def->name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* True if no node of the plan can wait or run for ever. Decided once, from the ops alone. */
static bool may_be_light(const mr_plan *p)
{
    if (p->n_frames > 1 || p->n_nodes > LIGHT_NODES)
        return false;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const mr_plan_node *n = &p->nodes[i];
        if ((n->flags & MR_PN_BLOCKS) || ((n->flags & MR_PN_ASYNC) && !(n->flags & MR_PN_TRANSFER)))
            return false;
        if ((n->node->def->flags & MR_STATEFUL) && !only_changes_variables(n->node))
            return false;
    }
    return true;
}

/* Adds up the measured costs. A node that was not run yet counts as heavy. */
static bool is_light(const mr_plan *p, uint64_t *ns)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        if (atomic_load_explicit(&p->heavy[i], memory_order_relaxed))
            return false;
        *ns += atomic_load_explicit(&p->cost_ns[i], memory_order_relaxed);
    }
    return true;
}

/* The costs are measured while the program runs, so the answer may change from run to run. */
bool mr_program_is_light(const mr_program *p)
{
    uint64_t ns = 0;
    for (int i = 0; p->may_be_light && i < p->n_plans; i++)
        if (!is_light(p->plans[i], &ns))
            return false;
    return p->may_be_light && ns <= LIGHT_NS;
}

/* ---- making them ---- */

/* Drops the reference to every part, also on failure. A device without a part gets no plan. */
mr_status *mr_program_new(mr_graph **parts, mr_device *const *devices, int n_devices, int n_args,
                          int n_rets, mr_kernel_cache *kernels, mr_caller *caller, mr_program **out)
{
    mr_status *st = NULL;
    mr_program *p = mr_new(mr_program);
    mr_mutex_init(&p->mu);
    p->n_args = n_args;
    p->n_rets = n_rets;
    p->caller = caller;
    p->plans = mr_new_array(mr_plan *, n_devices + 1);
    MR_ASSERT(n_args >= 0 && n_rets >= 0);
    /* After an error the loop goes on, to release the remaining parts. */
    for (int i = 0; i < n_devices; i++) {
        if (parts[i] && !st &&
            !(st = mr_plan_new(parts[i], devices[i], kernels, &p->plans[p->n_plans])))
            p->n_plans++;
        mr_graph_unref(parts[i]);
        parts[i] = NULL;
    }
    p->flow_bytes = sizeof(mr_flow) + 2048; /* its rendezvous and cancellation */
    p->may_be_light = true;
    for (int i = 0; i < p->n_plans; i++) {
        p->flow_bytes += plan_flow_bytes(p->plans[i]);
        p->may_be_light &= may_be_light(p->plans[i]);
    }
    if (st) {
        mr_program_free(p);
        p = NULL;
    }
    *out = p;
    return st;
}

/* Frees a list of flows that are not running. */
static void free_flows(mr_flow *f)
{
    for (mr_flow *next; f; f = next) {
        next = f->next;
        flow_free(f);
    }
}

/* No flow is running, so all of them are in one of the two lists. */
void mr_program_free(mr_program *p)
{
    if (!p)
        return;
    free_flows(p->spare);
    free_flows(p->resting);
    for (int i = 0; i < p->n_plans; i++)
        mr_plan_free(p->plans[i]);
    mr_free(p->plans);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}
