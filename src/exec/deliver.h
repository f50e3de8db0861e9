/* exec/deliver.h -- delivers a value along the out-edges of its node; nodes whose inputs are complete become
 * ready.
 *
 * This is the hottest code of the executor, so it is inlined where it is used: in the plain path (executor.c)
 * and in the path of loops (frames.c). */
#ifndef MR_EXEC_DELIVER_H
#define MR_EXEC_DELIVER_H

#include "exec/executor_state.h"

/* Puts a ready node onto the stack of the worker that fits it. `heavy` is read without ordering: it is a
 * hint. */
static inline void mr_push_ready(mr_exec_worker *w, mr_iter *it, const mr_plan_edge *e, bool fresh)
{
    mr_ready r = {it, e->dst};
    if (fresh)
        mr_vec_push(&w->fresh, r);
    else if ((e->what & MR_PE_CHEAP) ||
             !atomic_load_explicit(&w->plan->heavy[e->dst], memory_order_relaxed))
        mr_vec_push(&w->cheap, r);
    else
        mr_vec_push(&w->heavy, r);
}

static inline bool mr_value_is_there(const mr_value *v)
{
    return v->kind & 1; /* MR_LIVE or MR_REF */
}
_Static_assert((MR_LIVE & 1) && (MR_REF & 1) && !(MR_ABSENT & 1) && !(MR_DEAD & 1), "see above");

/* Returns a new reference to a live tensor or to a variable. */
static inline mr_value mr_value_share(const mr_value *v)
{
    if (v->kind == MR_LIVE)
        mr_refs_take(&v->t->refs);
    else
        mr_variable_ref(v->ref);
    return *v;
}

/* Fills an input slot. The last use of an output moves the value, all others share it. */
static inline void mr_put_slot(mr_value *slot, mr_value *v, uint32_t what)
{
    if (what & MR_PE_LAST) {
        *slot = *v;
        v->kind = MR_ABSENT;
    } else {
        *slot = mr_value_share(v);
    }
}

/* One in-edge of an ordinary node has arrived. Returns true if it was the last one. The decrement releases
 * the value that was just written, and the last one acquires all others. */
static inline bool mr_count_down(_Atomic uint32_t *word, uint32_t what, bool dead)
{
    dead = dead && !(what & MR_PE_BLIND);
    if (what & MR_PE_SOLE) {
        if (dead)
            atomic_store_explicit(word, MR_WORD_DEAD, memory_order_relaxed);
        return true;
    }
    if (dead)
        atomic_fetch_or_explicit(word, MR_WORD_DEAD, memory_order_relaxed);
    uint32_t before = atomic_fetch_sub_explicit(word, 1, memory_order_acq_rel);
    return (before & ~MR_WORD_DEAD) == 1;
}

/* Delivers along a data edge into a Merge; returns true if the Merge became ready. The first live value is
 * chosen, later ones are dropped. If all values are dead, the Merge is dead. So it is if an Enter is dead and
 * nothing else can come first: that is a loop on the untaken side. */
static inline bool mr_deliver_to_merge(mr_exec_worker *w, mr_iter *it, const mr_plan_edge *e,
                                       mr_value *v, bool dead, bool from_enter)
{
    _Atomic uint32_t *word = it->words + e->word, *data = it->words + w->plan->nodes[e->dst].extra;
    if (dead) {
        uint32_t before = atomic_fetch_sub_explicit(data, 1, memory_order_acq_rel);
        if (before & MR_WORD_CHOSEN)
            return false;
        bool all_dead = before == 1;
        bool cut_off = from_enter && atomic_load_explicit(word, memory_order_acquire) == 1;
        if (!all_dead && !cut_off)
            return false;
        if (atomic_fetch_or_explicit(data, MR_WORD_CHOSEN, memory_order_acq_rel) & MR_WORD_CHOSEN)
            return false;
        atomic_fetch_or_explicit(word, MR_WORD_DEAD, memory_order_relaxed);
    } else {
        if (atomic_fetch_or_explicit(data, MR_WORD_CHOSEN, memory_order_acq_rel) & MR_WORD_CHOSEN) {
            mr_value late;
            mr_put_slot(&late, v, e->what);
            mr_vec_push(&w->trash, late);
            return false;
        }
        mr_put_slot(it->slots + e->slot, v, e->what);
    }
    return (atomic_fetch_sub_explicit(word, 1, memory_order_acq_rel) & ~MR_WORD_DEAD) == 1;
}

/* Delivers to the consumers in iteration `it` and returns how many became ready. out may be NULL if dead.
 * fresh: the consumers are the first nodes of a new iteration. */
static inline int mr_deliver(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out,
                             bool dead, bool fresh)
{
    const mr_plan_edge *e = w->plan->edges + n->edge, *end = e + n->n_edges;
    int n_ready = 0;
    for (; e < end; e++) {
        bool ready, edge_dead = dead;
        mr_value *v = NULL;
        if (!(e->what & MR_PE_CONTROL) && !dead) {
            v = &out[e->what >> MR_PE_BITS];
            edge_dead = !mr_value_is_there(v);
        }
        if (MR_UNLIKELY(e->what & MR_PE_MERGE)) {
            ready = mr_deliver_to_merge(w, it, e, v, edge_dead, n->flags & MR_PN_ENTER);
        } else {
            MR_ASSERT(!v || it->slots[e->slot].kind == MR_ABSENT);
            if (v && !edge_dead)
                mr_put_slot(it->slots + e->slot, v, e->what);
            ready = mr_count_down(it->words + e->word, e->what, edge_dead);
        }
        if (ready) {
            mr_push_ready(w, it, e, fresh);
            n_ready++;
        }
    }
    return n_ready;
}

/* The slow path of mr_check_outputs: decides whether a value that is missing, dead, a reference or of another type is
 * allowed there. */
mr_status *mr_check_output(const mr_plan_node *n, uint32_t i, const mr_value *v);

/* Every output must be live and of its declared type; mr_check_output decides about the exceptions. */
static inline mr_status *mr_check_outputs(const mr_plan_node *n, const mr_value *out)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (MR_UNLIKELY(out[i].kind != MR_LIVE || out[i].t->dtype != n->node->out_types[i]))
            MR_TRY(mr_check_output(n, i, &out[i]));
    return NULL;
}

/* Drops the outputs that no edge has taken. */
static inline void mr_drop_outputs(mr_value *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (out[i].kind != MR_ABSENT)
            mr_value_drop(&out[i]);
}

/* Must be called with no lock held: dropping a value may run the destructor of a resource. */
static inline void mr_empty_trash(mr_exec_worker *w)
{
    while (MR_UNLIKELY(w->trash.n > 0)) {
        mr_value v = mr_vec_pop(&w->trash);
        mr_value_drop(&v);
    }
}

#endif
