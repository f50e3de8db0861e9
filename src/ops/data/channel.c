/* ops/data/channel.c -- see channel.h. */
#include "ops/data/channel.h"

#include "base/memory.h"
#include "ops/data/stack.h"

typedef struct item {
    mr_tensor **t;
    mr_status *st; /* instead */
    bool end;
    struct item *next;
} item;

struct mr_channel {
    mr_refs refs;
    mr_data_env *env;
    mr_iterator *it; /* the thread's, once it has begun */
    int64_t ahead;
    mr_cancel_entry on_cancel;
    bool registered;
    mr_mutex mu;
    mr_cond changed;
    item *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu);
    int64_t n MR_GUARDED_BY(mu);
    bool begun, over, ended MR_GUARDED_BY(mu); /* ended: the taker has seen the end */
};

static void cancelled(mr_cancel_entry *e)
{
    mr_channel *c = (mr_channel *)((char *)e - offsetof(mr_channel, on_cancel));
    mr_lock(&c->mu);
    c->over = true;
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

mr_channel *mr_channel_new(mr_data_env *env, int64_t ahead)
{
    mr_channel *c = mr_new(mr_channel);
    mr_refs_init(&c->refs);
    c->env = mr_data_env_child(env);
    c->ahead = MR_MAX(ahead, 1);
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->changed);
    c->on_cancel.fn = cancelled;
    c->registered = mr_cancel_register(c->env->cancel, &c->on_cancel);
    c->over = !c->registered;
    return c;
}

mr_data_env *mr_channel_env(mr_channel *c) { return c->env; }
void mr_channel_set(mr_channel *c, mr_iterator *it) { c->it = it; }

static void item_free(item *i, int n)
{
    if (i->t)
        mr_element_drop(i->t, n);
    mr_free(i->t);
    mr_status_free(i->st);
    mr_free(i);
}

static void unref(mr_channel *c)
{
    if (!mr_refs_drop(&c->refs))
        return;
    if (c->registered)
        mr_cancel_unregister(c->env->cancel, &c->on_cancel);
    for (item *i = c->head, *next; i; i = next) {
        next = i->next;
        item_free(i, c->it->dataset->n);
    }
    mr_iterator_close(c->it);
    mr_data_env_unref(c->env);
    mr_cond_deinit(&c->changed);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}

void mr_channel_close(mr_channel *c)
{
    if (!c)
        return;
    mr_cancel_start(c->env->cancel);
    unref(c);
}

/* ---- the thread ---- */

static item *make_one(mr_channel *c)
{
    item *i = mr_new(item);
    i->t = mr_element_new(c->it->dataset->n);
    i->st = mr_iterator_next(c->it, i->t, &i->end);
    return i;
}

static void push_locked(mr_channel *c, item *i)
{
    if (c->tail)
        c->tail->next = i;
    else
        c->head = i;
    c->tail = i;
    c->n++;
    mr_cond_broadcast(&c->changed);
}

static void run_thread(void *arg)
{
    mr_channel *c = arg;
    bool end = false;
    mr_lock(&c->mu);
    while (!c->over && !end) {
        if (c->n >= c->ahead) {
            mr_cond_wait(&c->changed, &c->mu);
            continue;
        }
        mr_unlock(&c->mu);
        item *i = make_one(c);
        end = i->end;
        mr_lock(&c->mu);
        push_locked(c, i);
    }
    mr_unlock(&c->mu);
    unref(c);
}

mr_status *mr_channel_begin(mr_channel *c)
{
    mr_lock(&c->mu);
    bool first = !c->begun;
    c->begun = true;
    mr_unlock(&c->mu);
    if (!first)
        return NULL;
    mr_refs_take(&c->refs);
    mr_status *st = mr_later_thread(c->env->later, "prefetch", run_thread, c);
    if (st) {
        mr_lock(&c->mu);
        c->begun = false;
        mr_unlock(&c->mu);
        unref(c); /* not the last */
    }
    return st;
}

/* ---- the taker ---- */

static item *pop_locked(mr_channel *c)
{
    item *i = c->head;
    if (!(c->head = i->next))
        c->tail = NULL;
    c->n--;
    mr_cond_broadcast(&c->changed);
    return i;
}

mr_status *mr_channel_next(mr_channel *c, mr_tensor **out, bool *end)
{
    MR_TRY(mr_channel_begin(c));
    mr_lock(&c->mu);
    while (!c->head && !c->ended && !c->over)
        mr_cond_wait(&c->changed, &c->mu);
    item *i = c->head ? pop_locked(c) : NULL;
    *end = c->ended |= i && i->end;
    mr_unlock(&c->mu);
    if (!i)
        return *end ? NULL : mr_error(MR_CANCELLED, "Iterator was cancelled");
    mr_status *st = i->st;
    i->st = NULL;
    for (int k = 0; !st && !*end && k < c->it->dataset->n; k++) {
        out[k] = i->t[k];
        i->t[k] = NULL;
    }
    item_free(i, c->it->dataset->n);
    return st;
}
