/* exec/frames.c -- loops: frames, their iterations, and the values that pass between them.
 *
 * An Enter finds the frame of its loop below its own iteration, or makes it. A frame holds the iterations
 * that are not done, oldest to newest. `busy` of an iteration counts its nodes that are ready or running.
 *
 * Invariants:
 * - `busy` is raised by nodes of the same iteration, by Exits of child frames (which are counted too), and
 * otherwise under the frame's lock. It falls to 0 only under that lock.
 * - So a thread that holds the lock may end an iteration if nothing is busy, no child frame is left and, for
 * the first iteration, all Enters have arrived.
 * - n_iters is the length of the list from `oldest` to `newest`; both are NULL together.
 * - The root iteration is never ended and counts nothing: the exec's own count shows when a step is over.
 * - A spare iteration has only absent slots.
 *
 * Locks: a parent frame's comes before its child's. Values are dropped with no lock held (mr_exec_worker.trash),
 * because dropping one may run the destructor of a resource. */
#include "base/memory.h"
#include "exec/deliver.h"

/* ---- iterations ---- */

/* One allocation for the iteration and its arrays. Its size depends on the graph, so the caller handles
 * failure. */
mr_iter *mr_iter_new(const mr_plan *p, int frame)
{
    const mr_plan_frame *f = &p->frames[frame];
    size_t slots = (sizeof(mr_iter) + 15) / 16 * 16;
    size_t children = slots + f->n_slots * sizeof(mr_value);
    size_t words = children + (size_t)f->n_children * sizeof(mr_exec_frame *);
    char *block = mr_try_calloc(1, words + f->n_words * sizeof(uint32_t));
    mr_iter *it = (mr_iter *)block;
    if (!it)
        return NULL;
    it->slots = (mr_value *)(block + slots);
    it->children = (mr_exec_frame **)(block + children);
    it->words = (_Atomic uint32_t *)(block + words);
    return it;
}

void mr_iter_free(mr_iter *it) { mr_free(it); }

/* Appends the next iteration to a frame, with fresh counters. Needs the frame's lock, unless nobody else
 * knows the frame yet. Returns NULL if memory is out. */
static mr_iter *take_iter(mr_exec *x, mr_exec_frame *f)
{
    const mr_plan *p = x->plan;
    MR_ASSERT(!f->oldest == !f->newest && (!f->newest || !f->newest->next));
    mr_lock(&x->mu);
    mr_iter *it = x->spare_iters[f->index];
    if (it)
        x->spare_iters[f->index] = it->next;
    mr_unlock(&x->mu);
    if (!it && !(it = mr_iter_new(p, f->index)))
        return NULL;
    memcpy((void *)it->words, p->words + f->plan->first_word, f->plan->n_words * sizeof(uint32_t));
    it->frame = f;
    it->frame_id = f->id;
    it->number = f->n_started++;
    it->next = NULL;
    it->n_child_frames = 0;
    atomic_store_explicit(&it->busy, 0, memory_order_relaxed);
    *(f->newest ? &f->newest->next : &f->oldest) = it;
    f->newest = it;
    f->n_iters++;
    return it;
}

/* Makes an iteration spare. Values left in its slots belong to nodes that never became ready; they go to the
 * trash. */
static void give_iter(mr_exec_worker *w, mr_iter *it)
{
    mr_exec *x = w->x;
    const mr_exec_frame *f = it->frame;
    MR_ASSERT(f && it->n_child_frames == 0);
    for (uint32_t i = 0; i < f->plan->n_slots; i++)
        if (it->slots[i].kind != MR_ABSENT) {
            mr_vec_push(&w->trash, it->slots[i]);
            it->slots[i].kind = MR_ABSENT;
        }
    mr_lock(&x->mu);
    it->next = x->spare_iters[f->index];
    x->spare_iters[f->index] = it;
    mr_unlock(&x->mu);
}

/* ---- frames ---- */

/* The hash combination of TensorFlow's executor; changing it would break transfers to other implementations. */
static uint64_t combine_ids(uint64_t a, uint64_t b)
{
    return a ^ (b + 0x9e3779b97f4a7800u + (a << 10) + (a >> 4));
}

/* Returns a spare or new frame without iterations. Its id is computed as in TensorFlow, because ids are part
 * of the keys of values sent between tasks. */
static mr_exec_frame *take_frame(mr_exec *x, mr_iter *parent, int index)
{
    mr_lock(&x->mu);
    mr_exec_frame *f = x->spare_frames[index];
    if (f)
        x->spare_frames[index] = f->next;
    mr_unlock(&x->mu);
    if (!f) {
        f = mr_new(mr_exec_frame);
        mr_mutex_init(&f->mu);
        f->index = index;
        f->plan = &x->plan->frames[index];
        f->exited = mr_new_array(bool, f->plan->n_exits + 1);
    }
    memset(f->exited, 0, sizeof *f->exited * (size_t)f->plan->n_exits);
    f->parent = parent;
    f->id = combine_ids(parent->frame_id, combine_ids((uint64_t)parent->number, f->plan->name_hash));
    f->n_enters_left = f->plan->n_enters;
    f->n_iters = 0;
    f->n_started = 0;
    f->oldest = f->newest = NULL;
    return f;
}

/* Moves values that will not be delivered to the trash. */
static void drop_pending(mr_exec_worker *w, mr_pending_value *p, int n)
{
    for (int i = 0; i < n; i++)
        mr_vec_push(&w->trash, p[i].value);
}

/* Makes a frame spare, with its lists empty. Nobody else may know it any more. */
static void give_frame(mr_exec_worker *w, mr_exec_frame *f)
{
    mr_exec *x = w->x;
    drop_pending(w, f->invariants.p, f->invariants.n);
    drop_pending(w, f->pending.p, f->pending.n);
    f->invariants.n = f->pending.n = f->dead_exits.n = 0;
    mr_lock(&x->mu);
    f->next = x->spare_frames[f->index];
    x->spare_frames[f->index] = f;
    mr_unlock(&x->mu);
}

/* The lock that guards the children of an iteration. */
static mr_mutex *lock_of(mr_exec *x, mr_iter *it) { return it->frame ? &it->frame->mu : &x->mu; }

/* Returns the child frame that an Enter in `it` leads to, or NULL if memory is out. The frame cannot end
 * before this Enter is counted.
 *
 * A new frame is prepared without the lock; if another Enter was faster, it is made spare again. */
static mr_exec_frame *find_child(mr_exec *x, mr_iter *it, uint32_t child) MR_NO_TSA
{
    const mr_plan *p = x->plan;
    const mr_plan_frame *own = it->frame ? it->frame->plan : &p->frames[0];
    MR_ASSERT(child < (uint32_t)own->n_children);
    mr_mutex *mu = lock_of(x, it);
    mr_lock(mu);
    mr_exec_frame *f = it->children[child];
    mr_unlock(mu);
    if (f)
        return f;
    mr_exec_frame *made = take_frame(x, it, p->children[own->first_child + child]);
    bool ok = take_iter(x, made) != NULL;
    mr_lock(mu);
    if (!(f = it->children[child]) && ok) {
        f = it->children[child] = made;
        it->n_child_frames++;
        made = NULL;
    }
    mr_unlock(mu);
    if (made) {
        mr_exec_worker unused = {.x = x};
        if (ok)
            give_iter(&unused, made->oldest);
        give_frame(&unused, made);
    }
    return f;
}

/* ---- delivering into an iteration ---- */

/* As mr_deliver, and counts the nodes that became ready as busy. Needs the lock of the iteration's frame, or
 * a count in `it` that keeps it from ending. */
static void deliver_counted(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out,
                            bool dead, bool fresh)
{
    int n_ready = mr_deliver(w, it, n, out, dead, fresh);
    if (it->frame && n_ready)
        atomic_fetch_add_explicit(&it->busy, n_ready, memory_order_relaxed);
}

/* Gives one iteration its share of a loop invariant. The frame keeps the original for the iterations to come. */
static void deliver_invariant(mr_exec_worker *w, mr_iter *it, const mr_pending_value *v, bool fresh)
{
    bool dead = !mr_value_is_there(&v->value);
    mr_value own = dead ? v->value : mr_value_share(&v->value);
    deliver_counted(w, it, v->node, &own, dead, fresh);
    if (own.kind != MR_ABSENT) /* no data edge took it */
        mr_vec_push(&w->trash, own);
}

/* Starts the next iteration and delivers the pending values, then the invariants. Returns NULL if memory is
 * out; then the values stay pending. */
static mr_iter *start_iter_locked(mr_exec_worker *w, mr_exec_frame *f)
{
    mr_iter *it = take_iter(w->x, f);
    if (!it)
        return NULL;
    f->dead_exits.n = 0;
    for (int i = 0; i < f->pending.n; i++) {
        deliver_counted(w, it, f->pending.p[i].node, &f->pending.p[i].value, false, true);
        if (f->pending.p[i].value.kind != MR_ABSENT)
            mr_vec_push(&w->trash, f->pending.p[i].value);
    }
    f->pending.n = 0;
    for (int i = 0; i < f->invariants.n; i++)
        deliver_invariant(w, it, &f->invariants.p[i], true);
    return it;
}

/* ---- ends ---- */

/* True if the iteration can be ended: see the invariants at the head of this file. */
static bool iter_done_locked(const mr_exec_frame *f, mr_iter *it)
{
    return it == f->oldest && atomic_load_explicit(&it->busy, memory_order_acquire) == 0 &&
           it->n_child_frames == 0 && (it->number > 0 || f->n_enters_left == 0);
}

/* Ends the oldest iterations that are done, and starts one that was waiting for room. Returns true if the
 * frame is done. If memory is out, that is an error only if no iteration is left that could try again later. */
static bool end_iters_locked(mr_exec_worker *w, mr_exec_frame *f)
{
    while (f->oldest && iter_done_locked(f, f->oldest)) {
        mr_iter *it = f->oldest;
        MR_ASSERT(f->n_iters > 0);
        f->n_iters--;
        if (!(f->oldest = it->next))
            f->newest = NULL;
        give_iter(w, it);
        if (f->pending.n > 0 && !start_iter_locked(w, f) && !f->oldest)
            w->no_memory = true;
    }
    return f->n_iters == 0 && f->n_enters_left == 0;
}

/* Ends a frame that is done: delivers its dead Exits to the parent iteration. That may end the parent's frame
 * in turn, and so on upwards; a loop instead of a recursion, since nesting comes from the graph. */
static void end_frame(mr_exec_worker *w, mr_exec_frame *f) MR_NO_TSA
{
    for (bool done = true; done;) {
        MR_ASSERT(!f->oldest && f->n_iters == 0 && f->n_enters_left == 0);
        mr_iter *parent = f->parent;
        mr_exec_frame *up = parent->frame; /* the parent may be given back below */
        for (int i = 0; i < f->dead_exits.n; i++)
            if (!f->exited[f->dead_exits.p[i]->extra])
                deliver_counted(w, parent, f->dead_exits.p[i], NULL, true, false);
        mr_mutex *mu = lock_of(w->x, parent);
        mr_lock(mu);
        MR_ASSERT(parent->children[f->plan->child] == f && parent->n_child_frames > 0);
        parent->children[f->plan->child] = NULL;
        parent->n_child_frames--;
        done = up && end_iters_locked(w, up);
        mr_unlock(mu);
        give_frame(w, f);
        f = up;
    }
}

/* Adds n to the busy count: nodes that became ready minus nodes that finished. Takes the lock only if the
 * count may fall to 0; then it ends what is done. The iteration and its frame may be gone afterwards. */
static void adjust_busy(mr_exec_worker *w, mr_iter *it, int n)
{
    mr_exec_frame *f = it->frame;
    if (!f || n == 0)
        return;
    int busy = atomic_load_explicit(&it->busy, memory_order_relaxed);
    while (busy + n > 0)
        if (atomic_compare_exchange_weak_explicit(&it->busy, &busy, busy + n, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return;
    mr_lock(&f->mu);
    MR_ASSERT(it->busy + n >= 0);
    bool done = atomic_fetch_add_explicit(&it->busy, n, memory_order_acq_rel) + n == 0 &&
                end_iters_locked(w, f);
    mr_unlock(&f->mu);
    if (done)
        end_frame(w, f);
}

/* ---- Enter, Exit, NextIteration ---- */

/* An Enter has run: its value goes into iteration 0, or, if it is constant, into all iterations that exist
 * and that will exist. Iteration 0 cannot end before all Enters have arrived. */
static void enter_frame(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out, bool dead)
{
    mr_exec_frame *f = find_child(w->x, it, n->extra);
    if (!f) {
        w->no_memory = true;
        return;
    }
    mr_lock(&f->mu);
    MR_ASSERT(f->n_enters_left > 0 && f->oldest);
    if (n->flags & MR_PN_CONSTANT) {
        mr_pending_value v = {n, dead ? (mr_value){.kind = MR_DEAD} : out[0]};
        out[0].kind = MR_ABSENT;
        mr_vec_push(&f->invariants, v);
        for (mr_iter *i = f->oldest; i; i = i->next)
            deliver_invariant(w, i, &v, false);
    } else {
        deliver_counted(w, f->oldest, n, out, dead, false);
    }
    /* The last Enter may have been all that kept iteration 0 from ending. */
    f->n_enters_left--;
    bool done = end_iters_locked(w, f);
    mr_unlock(&f->mu);
    if (done)
        end_frame(w, f);
    adjust_busy(w, it, -1);
}

/* An Exit has run. A live value leaves the loop at once. A dead Exit counts only in the last iteration, so
 * those of the newest iteration are kept until the frame ends.
 *
 * In a well-formed loop only the last iteration has live Exits. In other graphs an Exit could be live more
 * than once; the parent's nodes would then be counted, and their inputs written, twice. That is reported as
 * an error instead. */
static void exit_frame(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out, bool dead)
{
    mr_exec_frame *f = it->frame;
    MR_ASSERT(f && n->extra < (uint32_t)f->plan->n_exits);
    mr_lock(&f->mu);
    if (dead && it == f->newest)
        mr_vec_push(&f->dead_exits, n);
    bool first = !dead && !f->exited[n->extra];
    if (first)
        f->exited[n->extra] = true;
    mr_unlock(&f->mu);
    if (first)
        deliver_counted(w, f->parent, n, out, false, false);
    else if (!dead)
        w->exits_twice = n;
    adjust_busy(w, it, -1);
}

/* A NextIteration has run: its value goes to the next iteration. If that would exceed parallel_iterations, or
 * if memory is out, the value stays pending until an older iteration ends. A dead value goes nowhere: the
 * loop ends. */
static void next_iteration(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out,
                           bool dead)
{
    mr_exec_frame *f = it->frame;
    MR_ASSERT(f);
    if (!dead) {
        mr_lock(&f->mu);
        mr_iter *to = it->next;
        if (!to && f->n_iters < f->plan->parallel)
            to = start_iter_locked(w, f);
        if (to) {
            deliver_counted(w, to, n, out, false, true);
        } else {
            mr_vec_push(&f->pending, (mr_pending_value){n, out[0]});
            out[0].kind = MR_ABSENT;
        }
        mr_unlock(&f->mu);
    }
    adjust_busy(w, it, -1);
}

/* For nodes inside of loops and for Enter, Exit and NextIteration. n counts as finished in its iteration only
 * after its outputs are delivered, so the iteration cannot end in between. */
void mr_frames_propagate(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out, bool dead)
{
    if (n->flags & MR_PN_ENTER)
        enter_frame(w, it, n, out, dead);
    else if (n->flags & MR_PN_EXIT)
        exit_frame(w, it, n, out, dead);
    else if (n->flags & MR_PN_NEXT)
        next_iteration(w, it, n, out, dead);
    else
        adjust_busy(w, it, mr_deliver(w, it, n, out, dead, false) - 1);
}

/* ---- the end of a step ---- */

static void clear_frame(mr_exec_worker *w, mr_exec_frame *f);

/* Gives back all frames below an iteration. */
static void clear_children(mr_exec_worker *w, mr_iter *it, const mr_plan_frame *plan)
{
    for (int i = 0; it->n_child_frames > 0 && i < plan->n_children; i++)
        if (it->children[i]) {
            clear_frame(w, it->children[i]);
            it->children[i] = NULL;
            it->n_child_frames--;
        }
}

/* Gives back a frame of a step that failed, with all its iterations and what is below them. Recursive: plan.c
 * limits the nesting of loops. */
static void clear_frame(mr_exec_worker *w, mr_exec_frame *f)
{
    for (mr_iter *it = f->oldest, *next; it; it = next) {
        next = it->next;
        clear_children(w, it, f->plan);
        give_iter(w, it);
    }
    f->oldest = f->newest = NULL;
    give_frame(w, f);
}

/* Only one thread is left in the step, so no lock is needed; the worker on the stack serves for its trash. */
void mr_frames_clear(mr_exec *x)
{
    mr_exec_worker w = {.x = x};
    const mr_plan_frame *root = &x->plan->frames[0];
    clear_children(&w, x->root, root);
    MR_ASSERT(x->root->n_child_frames == 0);
    for (uint32_t i = 0; i < root->n_slots; i++)
        if (x->root->slots[i].kind != MR_ABSENT)
            mr_value_drop(&x->root->slots[i]);
    mr_empty_trash(&w);
    mr_vec_deinit(&w.trash);
}

/* Frees the iterations and frames of earlier steps. The lists of a spare frame are empty (give_frame); only their
 * memory is left. */
void mr_frames_free_spare(mr_exec *x)
{
    for (int i = 0; i < x->plan->n_frames; i++) {
        for (mr_iter *it = x->spare_iters[i], *next; it; it = next) {
            next = it->next;
            mr_iter_free(it);
        }
        for (mr_exec_frame *f = x->spare_frames[i], *next; f; f = next) {
            next = f->next;
            MR_ASSERT(f->invariants.n == 0 && f->pending.n == 0 && f->dead_exits.n == 0);
            mr_vec_deinit(&f->invariants);
            mr_vec_deinit(&f->pending);
            mr_vec_deinit(&f->dead_exits);
            mr_free(f->exited);
            mr_mutex_deinit(&f->mu);
            mr_free(f);
        }
    }
}
