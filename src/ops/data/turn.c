/* ops/data/turn.c -- see turn.h.
 *
 * At most one element lies ready.  The thread makes the next one when somebody stands in line and
 * none is ready; it sleeps otherwise.  It is started by the first who asks, holds a reference, and
 * ends once the turn is over.  Everything below `on` is guarded by its lock, except the iterator,
 * which belongs to the thread. */
#include "ops/data/turn.h"

#include "base/memory.h"

struct mr_turn {
    mr_waited on;
    mr_cond demand; /* the thread has something to do, or is to end */
    mr_waiters line;
    bool threaded, over, ready, end;
    mr_tensor **element;
    mr_status *st; /* instead of the element */
    int64_t count;
    mr_dataset *dataset;
    mr_data_env *env;
    mr_iterator *it;
    mr_cancel_entry on_cancel; /* of env's cancellation */
    bool registered;
};

typedef struct asker { /* one who waits */
    mr_waiter w;
    mr_turn_give give;
    mr_object *keep;
    bool end;
    mr_tensor **element; /* his, once he is let go */
} asker;

/* ---- the line ---- */

static void advance(mr_waited *on, mr_waiters *gone)
{
    mr_turn *t = (mr_turn *)on;
    while (t->line.first && (t->ready || t->over)) {
        asker *a = (asker *)t->line.first;
        mr_status *st = t->ready ? t->st : mr_error(MR_CANCELLED, "Iterator was cancelled");
        if (t->ready) {
            a->end = t->end;
            a->element = t->element;
            t->count += !st && !t->end;
        }
        t->ready = false;
        t->st = NULL;
        t->element = NULL;
        mr_waiter_let_go(&a->w, st, gone);
    }
    if (t->line.first)
        mr_cond_signal(&t->demand);
}

static mr_status *give(mr_waiter *w)
{
    asker *a = (asker *)w;
    return a->give(w->r, ((mr_turn *)w->on)->dataset, a->end ? NULL : a->element);
}

static void forget(mr_waiter *w)
{
    asker *a = (asker *)w;
    if (a->element)
        mr_element_drop(a->element, ((mr_turn *)w->on)->dataset->n);
    mr_free(a->element);
    mr_object_unref(a->keep);
}

static const mr_waited_kind waiting = {sizeof(asker), advance, give, forget};

/* ---- the thread ---- */

static void make_one(mr_turn *t) MR_REQUIRES(t->on.mu)
{
    mr_unlock(&t->on.mu);
    bool end = false;
    mr_tensor **element = mr_element_new(t->dataset->n);
    mr_status *st = mr_iterator_next(t->it, element, &end);
    mr_lock(&t->on.mu);
    t->element = element;
    t->st = st;
    t->end = end;
    t->ready = true;
    mr_waited_unlock(&t->on, NULL);
    mr_lock(&t->on.mu);
}

static void run_thread(void *arg)
{
    mr_turn *t = arg;
    mr_lock(&t->on.mu);
    while (!t->over) {
        if (t->line.first && !t->ready)
            make_one(t);
        else
            mr_cond_wait(&t->demand, &t->on.mu);
    }
    mr_waited_unlock(&t->on, NULL); /* who came too late is told so */
    mr_turn_unref(t);
}

static mr_status *start_thread_locked(mr_turn *t)
{
    if (t->threaded || t->over)
        return NULL;
    t->threaded = true;
    mr_status *st = mr_later_thread(t->env->later, "iterator", run_thread, mr_turn_ref(t));
    if (st) {
        t->threaded = false;
        mr_refs_drop(&t->on.base.refs); /* not the last one: the caller has it too */
    }
    return st;
}

void mr_turn_ask(mr_turn *t, mr_run *r, mr_turn_give fn, mr_object *keep)
{
    mr_lock(&t->on.mu);
    mr_status *st = start_thread_locked(t);
    mr_unlock(&t->on.mu);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    asker *a = mr_waiter_new(&mr_turn_ref(t)->on, r, "Iterator was cancelled");
    a->give = fn;
    a->keep = keep ? mr_object_ref(keep) : NULL;
    mr_wait(&a->w, &t->line);
}

/* ---- life ---- */

static void turn_free(mr_object *o)
{
    mr_turn *t = (mr_turn *)o;
    if (t->registered)
        mr_cancel_unregister(t->env->cancel, &t->on_cancel);
    mr_iterator_close(t->it);
    if (t->element)
        mr_element_drop(t->element, t->dataset->n);
    mr_free(t->element);
    mr_status_free(t->st);
    mr_data_env_unref(t->env);
    mr_object_unref(&t->dataset->base);
    mr_cond_deinit(&t->demand);
    mr_waited_deinit(&t->on);
    mr_free(t);
}

static const mr_object_type turn_type = {.name = "iteration", .free = turn_free};

static void cancelled(mr_cancel_entry *e)
{
    mr_turn *t = (mr_turn *)((char *)e - offsetof(mr_turn, on_cancel));
    mr_lock(&t->on.mu);
    t->over = true;
    mr_cond_signal(&t->demand);
    mr_unlock(&t->on.mu);
}

mr_status *mr_turn_new(mr_dataset *d, mr_later *l, mr_turn **out)
{
    mr_turn *t = mr_new(mr_turn);
    mr_waited_init(&t->on, &turn_type, &waiting);
    mr_cond_init(&t->demand);
    t->dataset = (mr_dataset *)mr_object_ref(&d->base);
    t->env = mr_data_env_new(l);
    t->on_cancel.fn = cancelled;
    t->registered = mr_cancel_register(t->env->cancel, &t->on_cancel);
    t->over = !t->registered;
    mr_status *st = mr_iterator_open(d, t->env, NULL, &t->it);
    if (st) {
        mr_turn_unref(t);
        t = NULL;
    }
    *out = t;
    return st;
}

mr_turn *mr_turn_ref(mr_turn *t) { return (mr_turn *)mr_object_ref(&t->on.base); }

void mr_turn_unref(mr_turn *t)
{
    if (t)
        mr_object_unref(&t->on.base);
}

void mr_turn_close(mr_turn *t) { mr_cancel_start(t->env->cancel); }

const mr_dataset *mr_turn_dataset(const mr_turn *t) { return t->dataset; }

int64_t mr_turn_count(mr_turn *t)
{
    mr_lock(&t->on.mu);
    int64_t n = t->count;
    mr_unlock(&t->on.mu);
    return n;
}

/* Before the thread is started, so the iterator is this caller's. */
mr_status *mr_turn_skip(mr_turn *t, int64_t n)
{
    mr_status *st = NULL;
    bool end = false;
    mr_tensor **element = mr_element_new(t->dataset->n);
    MR_ASSERT(!t->threaded);
    while (!st && !end && t->count < n) {
        st = mr_iterator_next(t->it, element, &end);
        if (!st && !end) {
            mr_element_drop(element, t->dataset->n);
            t->count++;
        }
    }
    mr_free(element);
    return st;
}
