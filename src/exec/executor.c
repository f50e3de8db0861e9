/* exec/executor.c -- runs the nodes of a plan as their inputs arrive.
 *
 * A worker runs ready nodes on its thread until it has none left. The nodes that a node makes ready go onto
 * the worker's own stacks, without locks. The worker hands a node to another thread, in a new worker, only if
 * it holds more than one heavy node and a thread is idle. An asynchronous node is started and left alone;
 * when its kernel ends, the end is posted to the runner and continues in a new worker.
 *
 * A node whose kernel may block (MR_PN_BLOCKS) runs on a thread of base/blocking.c and is then treated like
 * an asynchronous one, so it never occupies a thread that others need for computing. There is one exception:
 * the caller of a step runs such a node itself if nothing else of the step is running or ready. Nobody can
 * need that thread before the kernel ends, and a single py_func costs no hand-over. With runner->caller_only
 * the caller runs all of them, one after the other.
 *
 * Errors: the first error stops the flow. Nodes that are ready by then are not started. Their inputs stay in
 * their slots and are dropped when every worker has left.
 *
 * Invariants:
 * - `active` of an exec counts its workers and its running asynchronous nodes. It is at least 1 while any of
 * them can touch the exec. The last one to decrement it ends the exec.
 * - An idle worker has empty stacks, an empty trash list and only absent values in `out`.
 * - Entries of `heavy` and `fresh` before heavy_from and fresh_from are gone; an empty stack has its index at
 * 0. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/deliver.h"
#include "exec/trace.h"
#include "run/blocking_work.h"

#define PATIENCE 1024 /* nodes between two looks at the clock */
#define MAX_MESSAGE 4096

/* ---- workers ---- */

/* The worker owns its stacks and its output array. `out` has room for the outputs of any node of the plan, so
 * that running a node never allocates. */
static mr_exec_worker *worker_new(mr_exec *x)
{
    mr_exec_worker *w = mr_new(mr_exec_worker);
    w->x = x;
    w->plan = x->plan;
    w->out = mr_new_array(mr_value, x->plan->max_out + 1);
    w->run.step = &x->step;
    w->run.out = w->out;
    w->work.heavy = true;
    return w;
}

/* The worker must be idle, so its lists hold no values. */
static void worker_free(mr_exec_worker *w)
{
    MR_ASSERT(w->trash.n == 0);
    mr_vec_deinit(&w->cheap);
    mr_vec_deinit(&w->heavy);
    mr_vec_deinit(&w->fresh);
    mr_vec_deinit(&w->blocking);
    mr_vec_deinit(&w->trash);
    mr_free(w->out);
    mr_free(w);
}

static void run_worker(mr_work *job);

/* Returns an idle worker of the exec, or a new one. The caller must already have counted it in x->active. */
static mr_exec_worker *take_worker(mr_exec *x)
{
    mr_lock(&x->mu);
    mr_exec_worker *w = x->idle;
    if (w)
        x->idle = w->next;
    mr_unlock(&x->mu);
    if (!w)
        w = worker_new(x);
    MR_ASSERT(w->cheap.n == 0 && w->heavy.n == 0 && w->fresh.n == 0 && w->blocking.n == 0);
    w->work.fn = run_worker;
    w->patience = PATIENCE;
    w->watched = x->flow->measured || x->flow->trace;
    return w;
}

/* Returns a worker to the idle list. Nodes left on its stacks are forgotten: the flow has stopped, and
 * mr_frames_clear drops their inputs. */
static void give_back_worker(mr_exec_worker *w)
{
    mr_exec *x = w->x;
    MR_ASSERT(w->trash.n == 0 && !w->no_memory && !w->exits_twice);
    w->cheap.n = w->heavy.n = w->fresh.n = w->blocking.n = 0;
    w->heavy_from = w->fresh_from = 0;
    mr_lock(&x->mu);
    w->next = x->idle;
    x->idle = w;
    mr_unlock(&x->mu);
}

/* Gives up one count of x->active; the last one ends the exec. Afterwards x may be in use by another step, or
 * freed. */
static void leave_exec(mr_exec *x)
{
    MR_ASSERT(x->active > 0);
    if (atomic_fetch_sub_explicit(&x->active, 1, memory_order_acq_rel) != 1)
        return;
    if (x->plan->n_frames > 1 || atomic_load_explicit(&x->flow->stop, memory_order_relaxed))
        mr_frames_clear(x);
    mr_flow_part_done(x->flow); /* x may be gone */
}

/* ---- what is next ---- */

/* Hands heavy nodes to idle threads, oldest first, and keeps at least one for this worker. */
static void share_heavy(mr_exec_worker *w)
{
    mr_exec *x = w->x;
    MR_ASSERT(w->heavy_from < w->heavy.n);
    mr_runner_share(x->flow->runner);
    int spare = w->heavy.n - w->heavy_from - 1;
    int idle = spare > 0 ? mr_runner_idle(x->flow->runner) : 0;
    for (; spare > 0 && idle > 0; spare--, idle--) {
        mr_exec_worker *other = take_worker(x);
        mr_vec_push(&other->heavy, w->heavy.p[w->heavy_from++]);
        atomic_fetch_add_explicit(&x->active, 1, memory_order_relaxed);
        mr_runner_hand_over(x->flow->runner, &other->work);
    }
}

/* mr_flow_fail may be called any number of times, so several workers may notice the deadline. */
static void check_deadline(mr_flow *f)
{
    if (f->deadline_ns && mr_now_ns() > f->deadline_ns)
        mr_flow_fail(f, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
}

/* Every PATIENCE nodes, and before a heavy node: fails the flow if its deadline has passed. Otherwise a step
 * that never waits would never notice. */
static void check_time(mr_exec_worker *w)
{
    w->patience = PATIENCE;
    check_deadline(w->x->flow);
}

/* Called by a kernel that waits for another process. It checks the deadline itself, because it may be holding
 * the very thread that would otherwise do so. */
static bool flow_is_over(const void *arg)
{
    mr_flow *f = (mr_flow *)(uintptr_t)arg;
    if (!mr_cancel_started(f->cancel))
        check_deadline(f);
    return mr_cancel_started(f->cancel);
}

/* Removes the entries before *from once they are many: a list that never becomes empty must not grow for
 * ever. */
static void compact_ready(mr_ready_vec *v, int *from)
{
    MR_ASSERT(*from >= 0 && *from <= v->n);
    if (*from < v->n && (*from < 256 || *from * 2 < v->n))
        return;
    v->n -= *from;
    memmove(v->p, v->p + *from, (size_t)v->n * sizeof(mr_ready));
    *from = 0;
}

/* Takes the newest heavy node, after sharing the older ones. The clock is read before each heavy node if the
 * step has a deadline; compared with the node's own work that costs nothing. */
static bool next_heavy(mr_exec_worker *w, mr_ready *out)
{
    if (w->x->flow->deadline_ns)
        check_time(w);
    share_heavy(w);
    *out = mr_vec_pop(&w->heavy);
    compact_ready(&w->heavy, &w->heavy_from);
    return true;
}

/* Takes the oldest first node of a new iteration. */
static bool next_fresh(mr_exec_worker *w, mr_ready *out)
{
    MR_ASSERT(w->fresh_from < w->fresh.n);
    *out = w->fresh.p[w->fresh_from++];
    compact_ready(&w->fresh, &w->fresh_from);
    return true;
}

/* Order: cheap nodes first (they may make more ready), then nodes that may block, then heavy ones, newest
 * first, and last the first nodes of new iterations, so that a loop does not starve the rest of the step. */
static inline bool next_ready(mr_exec_worker *w, mr_ready *out)
{
    if (MR_LIKELY(w->cheap.n > 0)) {
        *out = mr_vec_pop(&w->cheap);
        return true;
    }
    if (w->blocking.n > 0) {
        *out = mr_vec_pop(&w->blocking);
        return true;
    }
    if (w->heavy.n > 0)
        return next_heavy(w, out);
    return w->fresh.n > 0 && next_fresh(w, out);
}

/* ---- inputs ---- */

/* Names the input as the NodeDef does: "v", or "v:1" for a later output. The text is TensorFlow's. */
static mr_status *uninitialized_error(const mr_node *n, uint32_t i)
{
    mr_out src = n->in[i];
    const char *text = "Attempting to use uninitialized value";
    if (src.index == 0)
        return mr_error(MR_FAILED_PRECONDITION, "%s %s", text, src.node->name);
    return mr_error(MR_FAILED_PRECONDITION, "%s %s:%d", text, src.node->name, src.index);
}

/* Replaces references by the current values of their variables, except where the op declares a reference
 * input. Every reference must be initialized unless the op accepts uninitialized variables (MR_PN_UNINIT_OK). */
static mr_status *read_refs(const mr_plan_node *n, mr_value *in, mr_allocator *a)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (in[i].kind != MR_REF)
            continue;
        bool want_ref = mr_dtype_is_ref(n->node->in_types[i]);
        if (want_ref && (n->flags & MR_PN_UNINIT_OK))
            continue;
        mr_variable *v = in[i].ref;
        mr_tensor *t = NULL;
        MR_TRY(mr_variable_read(v, a, &t));
        if (!t)
            return uninitialized_error(n->node, i);
        if (want_ref) {
            mr_tensor_unref(t);
            continue;
        }
        in[i] = (mr_value){.t = t, .kind = MR_LIVE};
        mr_variable_unref(v);
    }
    return NULL;
}

/* Drops what the kernel has not moved on to an output. */
static inline void drop_inputs(mr_value *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (in[i].kind != MR_ABSENT)
            mr_value_drop(&in[i]);
}

/* ---- outputs ---- */

/* Also used by straight.c; see deliver.h. */
mr_status *mr_check_output(const mr_plan_node *n, uint32_t i, const mr_value *v)
{
    int declared = n->node->out_types[i];
    if (!mr_value_is_there(v)) {
        if (v->kind == MR_DEAD || (n->flags & MR_PN_MAY_SKIP))
            return NULL;
        return mr_error(MR_INTERNAL, "Missing %u-th output from {{node %s}}", i, n->node->name);
    }
    int type = v->kind == MR_REF ? mr_dtype_ref(v->ref->dtype) : v->t->dtype;
    if (type == declared)
        return NULL;
    return mr_error(MR_INTERNAL,
                    "Output %u of type %s does not match declared output type %s for node %s", i,
                    mr_dtype_name(type), mr_dtype_name(declared), n->node->name);
}

/* Reports what frames.c found while it held a lock: no error may be raised there, because raising one runs
 * callbacks. */
static void fail_loop(mr_exec_worker *w)
{
    const mr_plan_node *n = w->exits_twice;
    MR_ASSERT(n || w->no_memory);
    mr_flow_fail(w->x->flow,
                 n ? mr_invalid("{{node %s}} left its loop more than once: connect the Exit to the false output of "
                                "the loop's Switch",
                                n->node->name)
                   : mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot start an iteration of a loop"));
    w->no_memory = false;
    w->exits_twice = NULL;
}

/* Delivers the outputs to their consumers, drops those nobody took, and empties the trash. No lock is held
 * here. */
static inline void propagate_outputs(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out,
                             bool dead)
{
    if (MR_UNLIKELY(it->frame || (n->flags & MR_PN_FRAMED)))
        mr_frames_propagate(w, it, n, out, dead);
    else
        mr_deliver(w, it, n, out, dead, false);
    mr_drop_outputs(out, n->n_out);
    mr_empty_trash(w);
    if (MR_UNLIKELY(w->no_memory || w->exits_twice))
        fail_loop(w);
}

/* Stops the flow with an error that names the node, unless a fused kernel has named the node of the client's graph.
 * An error that comes up through thousands of calls names only the innermost ones: the message stops growing at
 * MAX_MESSAGE. */
static void fail_at(mr_exec *x, const mr_plan_node *n, mr_status *st)
{
    if (mr_status_reason(st) == MR_REASON_NODE_NAMED)
        mr_status_set_reason(st, MR_REASON_NONE); /* callers of this function add their nodes */
    else if (strlen(mr_status_message(st)) < MAX_MESSAGE)
        mr_status_append(st, "\n\t [[{{node %s}}]]", n->node->name);
    mr_flow_fail(x->flow, st);
}

/* Runs after the kernel: drops the inputs and either delivers the outputs or stops the flow. Takes st. */
MR_PER_NODE static inline void conclude_node(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out,
                                             bool dead, mr_status *st)
{
    drop_inputs(it->slots + n->slot, n->n_in);
    if (!st)
        st = mr_check_outputs(n, out);
    if (MR_LIKELY(!st)) {
        propagate_outputs(w, it, n, out, dead);
    } else {
        mr_drop_outputs(out, n->n_out);
        fail_at(w->x, n, st);
    }
}

/* ---- asynchronous kernels ---- */

typedef struct async_run {
    mr_run run;
    mr_work work; /* goes on after the end */
    mr_blocking_work blocking; /* of a kernel that may wait: runs it */
    mr_exec *x;
    mr_iter *it;
    const mr_plan_node *node;
    mr_status *st;
    int64_t started_ns;
    mr_value out[];
} async_run;

static size_t async_bytes(const mr_plan_node *n)
{
    return sizeof(async_run) + n->n_out * sizeof(mr_value);
}

/* The asynchronous kernel that this thread is starting right now. async_done clears it, so that the starter knows that
 * the kernel ended before it returned. */
static _Thread_local async_run *starting;

/* Continues after an asynchronous kernel, on a thread of the runner. The count in x->active that belonged to
 * the asynchronous node passes to the new worker. */
static void continue_async(mr_work *job)
{
    async_run *a = (async_run *)((char *)job - offsetof(async_run, work));
    mr_exec *x = a->x;
    MR_ASSERT(x->active > 0);
    mr_exec_worker *w = take_worker(x);
    conclude_node(w, a->it, a->node, a->out, a->run.dead, a->st);
    mr_small_free(a, async_bytes(a->node));
    run_worker(&w->work);
}

/* Posts the continuation of a kernel that has ended. The end counts as heavy: its consumers may be. */
static void post_end(async_run *a)
{
    a->work.fn = continue_async;
    a->work.heavy = true;
    mr_runner_post(a->x->flow->runner, &a->work);
}

/* The `done` of every asynchronous run; called from any thread. If the kernel is still inside its start on
 * this thread, start_async continues without posting anything. */
static void async_done(mr_run *r, mr_status *st)
{
    async_run *a = (async_run *)r;
    a->st = st;
    if (a->started_ns) {
        int64_t end = r->ended_ns ? r->ended_ns : mr_now_ns();
        mr_trace_times when = {r->began_ns ? r->began_ns : a->started_ns, end, end};
        mr_trace_node(a->x->flow->trace, a->x->plan, a->node, &when, a->out);
    }
    if (starting == a) {
        starting = NULL;
        return;
    }
    post_end(a);
}

/* Prepares an asynchronous run and counts it in x->active. The caller starts it; the thread that ends it
 * frees it. */
static async_run *async_new(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, bool dead)
{
    mr_exec *x = w->x;
    MR_ASSERT(x->active > 0); /* the worker's own count */
    async_run *a = mr_small_alloc(async_bytes(n));
    memset(a, 0, async_bytes(n));
    a->x = x;
    a->it = it;
    a->node = n;
    a->started_ns = x->flow->trace ? mr_now_ns() : 0;
    a->run = (mr_run){n->node,
                      n->kernel->kernel,
                      n->kernel->state,
                      (int)n->n_in,
                      (int)n->n_out,
                      it->slots + n->slot,
                      a->out,
                      &x->step,
                      it->frame_id,
                      it->number,
                      dead,
                      async_done,
                      0,
                      0};
    atomic_fetch_add_explicit(&x->active, 1, memory_order_relaxed);
    return a;
}

/* Returns true if the kernel ended before it returned. Otherwise the thread that ends it owns `a`, which may
 * be gone. */
static bool call_async(async_run *a)
{
    MR_ASSERT(a->node->run_async);
    async_run *outer = starting;
    starting = a;
    a->node->run_async(&a->run);
    bool ended = starting == NULL;
    starting = outer;
    return ended;
}

/* A kernel that ends at once is concluded here, without going through the runner. */
static void start_async(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, bool dead)
{
    mr_exec *x = w->x;
    async_run *a = async_new(w, it, n, dead);
    if (!call_async(a))
        return;
    MR_ASSERT(x->active > 1); /* the worker keeps it above 0 */
    atomic_fetch_sub_explicit(&x->active, 1, memory_order_relaxed);
    conclude_node(w, it, n, a->out, dead, a->st);
    mr_small_free(a, async_bytes(n));
}

/* ---- kernels that may wait ---- */

/* True if a kernel may block this thread: either no other thread may run it (caller_only), or this is the
 * caller's thread and nothing else of the step is running or ready. */
static bool may_wait_here(const mr_exec_worker *w)
{
    mr_flow *f = w->x->flow;
    if (f->runner->caller_only)
        return true;
    return f->runner == &f->own_runner && atomic_load_explicit(&f->parts_left, memory_order_relaxed) == 1 &&
           atomic_load_explicit(&w->x->active, memory_order_relaxed) == 1 && w->cheap.n == 0 &&
           w->heavy.n == 0 && w->fresh.n == 0 && w->blocking.n == 0 && mr_runner_is_caller_alone(f->runner);
}

/* The status of a kernel that was not started because its step had stopped. It is derived, so it never hides
 * the error that stopped the step. */
static mr_status *never_started(void)
{
    return mr_status_mark_derived(mr_error(MR_CANCELLED, "Run call was cancelled"));
}

/* Runs the kernel on a thread that may block. If the step has stopped in the meantime, the kernel is not
 * started.
 *
 * mr_stop ends a wait for a pipe together with the step. It is restored before the end is posted: after that
 * the step may be gone, and this thread may be running the done callback of a client. */
static void run_blocking(mr_blocking_work *b, bool cancelled)
{
    async_run *a = (async_run *)((char *)b - offsetof(async_run, blocking));
    if (a->started_ns)
        a->run.began_ns = mr_now_ns();
    bool stopped = cancelled || atomic_load_explicit(&a->x->flow->stop, memory_order_relaxed);
    bool is_async = !stopped && !a->node->run;
    mr_stop outer = mr_stop_swap(a->x->step.stop);
    mr_status *st = stopped ? never_started() : is_async ? NULL : a->node->run(&a->run);
    bool ended = !is_async || call_async(a);
    mr_stop_swap(outer);
    if (is_async && ended)
        post_end(a); /* async_done was called already */
    else if (ended)
        async_done(&a->run, st);
}

/* Counts the node like an asynchronous one and lets a blocking thread run it. A cancelled step withdraws it from
 * the queue. */
static void start_blocking(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, bool dead)
{
    async_run *a = async_new(w, it, n, dead);
    a->blocking.fn = run_blocking;
    mr_blocking_work_start(&a->blocking, w->x->step.cancel);
}

/* ---- running a node ---- */

/* Runs a kernel that is measured or traced. */
static mr_status *run_watched(mr_exec_worker *w, const mr_plan_node *n, mr_run *r)
{
    size_t i = (size_t)(n - w->plan->nodes);
    int64_t start = mr_now_ns();
    r->began_ns = start;
    r->ended_ns = 0;
    mr_status *st = n->run(r);
    int64_t end = mr_now_ns(), made = r->ended_ns ? r->ended_ns : end;
    r->began_ns = r->ended_ns = 0;
    mr_plan_note_cost(w->plan, (uint32_t)i, end - start);
    if (w->x->flow->trace)
        mr_trace_node(w->x->flow->trace, w->plan, n, &(mr_trace_times){start, made, end}, r->out);
    return st;
}

/* Handles references, asynchronous kernels and kernels that may block. Returns true if the caller must still
 * call the kernel, false if the node is started, postponed or failed.
 *
 * A kernel that may block waits until the cheap nodes are done: perhaps nothing else is left then, and it can
 * run on this thread. */
static bool begin_special(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, bool dead)
{
    mr_value *in = it->slots + n->slot;
    mr_status *st = NULL;
    if ((n->flags & MR_PN_BLOCKS) && w->cheap.n > 0) {
        mr_ready r = {it, (uint32_t)(n - w->plan->nodes)};
        mr_vec_push(&w->blocking, r);
        return false;
    }
    if ((n->flags & MR_PN_REFS) && !dead)
        st = read_refs(n, in, w->plan->device->alloc);
    if (MR_UNLIKELY(st != NULL)) {
        drop_inputs(in, n->n_in);
        fail_at(w->x, n, st);
        return false;
    }
    /* From here on the inputs are values. A kernel may be both blocking and asynchronous. */
    if ((n->flags & MR_PN_BLOCKS) && !may_wait_here(w))
        start_blocking(w, it, n, dead);
    else if (n->flags & MR_PN_ASYNC)
        start_async(w, it, n, dead);
    else
        return true;
    return false;
}

/* Calls the kernel of a live node. The mr_run of the worker is used again for each node: only the fields that
 * differ are set. */
static inline void run_kernel(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, bool dead)
{
    if (MR_UNLIKELY(n->flags & (MR_PN_REFS | MR_PN_ASYNC | MR_PN_BLOCKS)) && !begin_special(w, it, n, dead))
        return;
    MR_ASSERT(n->run);
    mr_run *r = &w->run;
    r->node = n->node;
    r->kernel = n->kernel->kernel;
    r->state = n->kernel->state;
    r->n_in = (int)n->n_in;
    r->n_out = (int)n->n_out;
    r->in = it->slots + n->slot;
    r->frame = it->frame_id;
    r->iteration = it->number;
    r->dead = dead;
    mr_status *st = MR_UNLIKELY(w->watched) ? run_watched(w, n, r) : n->run(r);
    conclude_node(w, it, n, w->out, dead, st);
}

/* Runs one ready node. A dead node only passes its deadness on, unless it is a Send or Recv, which must tell
 * the other side. A NoOp has no kernel call. */
static inline void run_node(mr_exec_worker *w, mr_ready r)
{
    MR_ASSERT(r.node < w->plan->n_nodes);
    const mr_plan_node *n = &w->plan->nodes[r.node];
    bool dead = atomic_load_explicit(&r.it->words[n->word], memory_order_relaxed) & MR_WORD_DEAD;
    if (MR_UNLIKELY(dead && !(n->flags & MR_PN_TRANSFER))) {
        drop_inputs(r.it->slots + n->slot, n->n_in);
        propagate_outputs(w, r.it, n, w->out, true); /* all of w->out is absent */
    } else if ((n->flags & MR_PN_NOTHING) && !w->watched) {
        propagate_outputs(w, r.it, n, w->out, false);
    } else {
        run_kernel(w, r.it, n, dead);
    }
}

/* The body of a worker: runs ready nodes until none is left or the flow stops, then gives up the worker's
 * count.
 *
 * Between iterations of a loop the worker yields to other work of this thread. It does so only after running
 * at least one node: two workers that yield to each other at once would never make progress. */
static void run_worker(mr_work *job)
{
    mr_exec_worker *w = (mr_exec_worker *)job;
    mr_exec *x = w->x;
    mr_flow *f = x->flow;
    mr_ready r;
    bool moved = false;
    mr_stop outer = mr_stop_swap(x->step.stop);
    while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
        /* Only first nodes of new iterations are left: a good moment to let other work run. */
        bool at_boundary = w->cheap.n == 0 && w->heavy.n == 0 && w->fresh.n > 0;
        if (MR_UNLIKELY(at_boundary && moved) && mr_runner_crowded(f->runner)) {
            mr_stop_swap(outer);
            mr_runner_yield(f->runner, &w->work);
            return;
        }
        if (!next_ready(w, &r))
            break;
        run_node(w, r);
        moved = true;
        if (MR_UNLIKELY(--w->patience == 0))
            check_time(w);
    }
    mr_stop_swap(outer);
    give_back_worker(w);
    leave_exec(x);
}

/* ---- making, freeing and starting ---- */

/* Everything that a step needs and that does not depend on its inputs is made here, once; the program sets the
 * rest of x->step when a step starts. Returns NULL if the root iteration, whose size comes from the graph, cannot
 * be allocated. */
mr_exec *mr_exec_new(const mr_plan *p, mr_flow *f)
{
    mr_exec *x = mr_new(mr_exec);
    x->plan = p;
    x->flow = f;
    mr_mutex_init(&x->mu);
    if (!(x->root = mr_iter_new(p, 0))) {
        mr_mutex_deinit(&x->mu);
        mr_free(x);
        return NULL;
    }
    x->spare_frames = mr_new_array(mr_exec_frame *, p->n_frames);
    x->spare_iters = mr_new_array(mr_iter *, p->n_frames);
    x->step.device = p->device;
    x->step.owner = x;
    x->step.stop = (mr_stop){flow_is_over, f};
    x->step.mu = &f->mu;
    x->step.library = p->graph->library;
    return x;
}

/* Nothing of the exec may be running. All its workers, iterations and frames are idle or spare by then. */
void mr_exec_free(mr_exec *x)
{
    if (!x)
        return;
    MR_ASSERT(x->active == 0);
    for (mr_exec_worker *w = x->idle, *next; w; w = next) {
        next = w->next;
        worker_free(w);
    }
    mr_frames_free_spare(x);
    mr_free(x->spare_frames);
    mr_free(x->spare_iters);
    mr_iter_free(x->root);
    mr_mutex_deinit(&x->mu);
    mr_free(x);
}

/* Resets the counters of the root with one memcpy. Roots are pushed last to first, because the stack runs the
 * newest first. */
void mr_exec_start(mr_exec *x)
{
    const mr_plan *p = x->plan;
    MR_ASSERT(x->active == 0 && x->root->n_child_frames == 0);
    memcpy((void *)x->root->words, p->words, p->frames[0].n_words * sizeof(uint32_t));
    atomic_store_explicit(&x->active, 1, memory_order_relaxed);
    mr_exec_worker *w = take_worker(x);
    MR_ASSERT(w->plan == p);
    for (uint32_t i = p->n_roots; i-- > 0;) {
        mr_ready r = {x->root, p->roots[i]};
        if (atomic_load_explicit(&p->heavy[r.node], memory_order_relaxed))
            mr_vec_push(&w->heavy, r);
        else
            mr_vec_push(&w->cheap, r);
    }
    mr_runner_post(x->flow->runner, &w->work);
}
