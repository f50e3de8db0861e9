/* ops/data/channel.c -- see channel.h.
 *
 * A set has its own lock, which is taken while no channel's lock is held. A channel increments `news` after it has
 * changed, and the consumer reads `news` before it checks the channels, so it never misses a change. */
#include "ops/data/channel.h"

#include "base/memory.h"
#include "ops/data/stack.h"

typedef struct item {
    mr_tensor **t;
    mr_status *st; /* instead of an element */
    bool end;
    struct item *next;
} item;

struct mr_channel_set {
    mr_refs refs; /* references of the consumer and the channels */
    int64_t most;
    mr_mutex mu;
    mr_cond changed;
    uint64_t news MR_GUARDED_BY(mu);
    int64_t n_making MR_GUARDED_BY(mu); /* threads that are computing an element */
};

struct mr_channel {
    mr_refs refs;
    mr_data_env *env;
    mr_channel_set *set; /* referenced; NULL: none */
    mr_iterator *it; /* used by the thread only, once it has begun */
    int64_t ahead;
    mr_cancel_entry on_cancel;
    bool registered;
    mr_mutex mu;
    mr_cond changed;
    item *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu);
    int64_t n MR_GUARDED_BY(mu);
    bool begun, over, ended MR_GUARDED_BY(mu); /* ended: the consumer has seen the end */
};

/* ---- sets ---- */

mr_channel_set *mr_channel_set_new(int64_t most)
{
    mr_channel_set *s = mr_new(mr_channel_set);
    mr_refs_init(&s->refs);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
    s->most = MR_MAX(most, 1);
    return s;
}

void mr_channel_set_unref(mr_channel_set *s)
{
    if (!s || !mr_refs_drop(&s->refs))
        return;
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

uint64_t mr_channel_set_news(mr_channel_set *s)
{
    mr_lock(&s->mu);
    uint64_t news = s->news;
    mr_unlock(&s->mu);
    return news;
}

void mr_channel_set_wait(mr_channel_set *s, uint64_t seen)
{
    mr_lock(&s->mu);
    while (s->news == seen)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
}

/* Reports that a channel of the set has changed; it may have been cancelled. */
static void tell_set(mr_channel_set *s)
{
    if (!s)
        return;
    mr_lock(&s->mu);
    s->news++;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* Waits until the thread of a channel may compute an element. A cancelled one need not wait, because its iterator
 * returns CANCELLED at once. */
static void begin_making(mr_channel_set *s, const mr_cancel *cancel)
{
    if (!s)
        return;
    mr_lock(&s->mu);
    while (s->n_making >= s->most && !mr_cancel_started(cancel))
        mr_cond_wait(&s->changed, &s->mu);
    s->n_making++;
    mr_unlock(&s->mu);
}

static void end_making(mr_channel_set *s)
{
    if (!s)
        return;
    mr_lock(&s->mu);
    s->n_making--;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* ---- creating and closing ---- */

static void cancel_channel(mr_cancel_entry *e)
{
    mr_channel *c = (mr_channel *)((char *)e - offsetof(mr_channel, on_cancel));
    mr_lock(&c->mu);
    c->over = true;
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
    tell_set(c->set);
}

mr_channel *mr_channel_new(mr_data_env *env, int64_t ahead, mr_channel_set *set)
{
    mr_channel *c = mr_new(mr_channel);
    mr_refs_init(&c->refs);
    c->set = set;
    if (set)
        mr_refs_take(&set->refs);
    c->env = mr_data_env_child(env);
    c->ahead = MR_MAX(ahead, 1);
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->changed);
    c->on_cancel.fn = cancel_channel;
    c->registered = mr_cancel_register(c->env->cancel, &c->on_cancel);
    c->over = !c->registered;
    return c;
}

mr_data_env *mr_channel_env(mr_channel *c) { return c->env; }
void mr_channel_over(mr_channel *c, mr_iterator *it) { c->it = it; }

static void item_free(item *i, int n)
{
    if (i->t)
        mr_element_drop(i->t, n);
    mr_free(i->t);
    mr_status_free(i->st);
    mr_free(i);
}

static void unref_channel(mr_channel *c)
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
    mr_channel_set_unref(c->set);
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
    unref_channel(c);
}

/* ---- the thread ---- */

static item *make_one(mr_channel *c)
{
    item *i = mr_new(item);
    i->t = mr_element_new(c->it->dataset->n);
    begin_making(c->set, c->env->cancel);
    i->st = mr_iterator_next(c->it, i->t, &i->end);
    end_making(c->set);
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
        if (c->set) {
            mr_unlock(&c->mu);
            tell_set(c->set);
            mr_lock(&c->mu);
        }
    }
    mr_unlock(&c->mu);
    unref_channel(c);
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
        unref_channel(c); /* not the last reference */
    }
    return st;
}

/* ---- the consumer ---- */

static item *pop_locked(mr_channel *c)
{
    item *i = c->head;
    if (!(c->head = i->next))
        c->tail = NULL;
    c->n--;
    mr_cond_broadcast(&c->changed);
    return i;
}

bool mr_channel_ready(mr_channel *c)
{
    mr_lock(&c->mu);
    bool ready = c->head || c->ended || c->over;
    mr_unlock(&c->mu);
    return ready;
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
