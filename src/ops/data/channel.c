/* ops/data/channel.c -- see channel.h.
 *
 * Hand-overs: waking a thread costs more than making a cheap element, so it is done for as many elements as possible.
 * The thread wakes the consumer when all elements that it needs are ready, or an error or the end comes before them. The
 * consumer wakes the thread at once if its elements are expensive, otherwise when there is room for enough of them. For
 * the elements that the consumer needs there is room in addition to `ahead`.
 *
 * A set has its own lock, which is taken while no channel's lock is held. A channel increments `news` after it has
 * changed, and the consumer reads `news` before it checks the channels, so it never misses a change. */
#include "ops/data/channel.h"

#include "base/clock.h"
#include "base/memory.h"
#include "ops/data/stack.h"

typedef struct place { /* an element, an error, or the end */
    mr_status *st;
    bool end;
} place;

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
    mr_cond ready; /* the consumer waits */
    mr_cond room;  /* the thread waits */
    /* A ring of what is ready: places, and the tensors of each. */
    place *places MR_GUARDED_BY(mu);
    mr_tensor **tensors MR_GUARDED_BY(mu);
    int64_t cap, first, n MR_GUARDED_BY(mu);
    int64_t needed MR_GUARDED_BY(mu);  /* elements that the consumer waits for; 0: it does not wait */
    int64_t cost_ns MR_GUARDED_BY(mu); /* moving average of what an element takes */
    bool sleeps MR_GUARDED_BY(mu);     /* the thread does, because the ring is full */
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
    mr_cond_signal(&c->ready);
    mr_cond_signal(&c->room);
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
    mr_cond_init(&c->ready);
    mr_cond_init(&c->room);
    c->on_cancel.fn = cancel_channel;
    c->registered = mr_cancel_register(c->env->cancel, &c->on_cancel);
    c->over = !c->registered;
    return c;
}

mr_data_env *mr_channel_env(mr_channel *c) { return c->env; }
void mr_channel_over(mr_channel *c, mr_iterator *it) { c->it = it; }

/* ---- the ring ---- */

static int width_of(const mr_channel *c) { return c->it->dataset->n; }
static int64_t position(const mr_channel *c, int64_t i) { return (c->first + i) % c->cap; }
static mr_tensor **tensors_at(const mr_channel *c, int64_t pos) { return c->tensors + pos * width_of(c); }

static int64_t most_ready_locked(const mr_channel *c)
{
    return c->ahead < INT64_MAX - c->needed ? c->ahead + c->needed : INT64_MAX;
}

/* Makes room for one more; false if there is no memory. */
static bool grow_ring_locked(mr_channel *c)
{
    int64_t cap = c->cap ? c->cap * 2 : 4;
    size_t width = (size_t)width_of(c), bytes;
    if (c->n < c->cap)
        return true;
    bool fits = mr_size_mul((size_t)cap, sizeof *c->tensors * (width + 1), &bytes);
    place *places = fits ? mr_try_calloc((size_t)cap, sizeof *places) : NULL;
    mr_tensor **tensors = places ? mr_try_calloc((size_t)cap * width + 1, sizeof *tensors) : NULL;
    if (!tensors) {
        mr_free(places);
        return false;
    }
    for (int64_t i = 0; i < c->n; i++) {
        places[i] = c->places[position(c, i)];
        memcpy(tensors + (size_t)i * width, tensors_at(c, position(c, i)), sizeof *tensors * width);
    }
    mr_free(c->places);
    mr_free(c->tensors);
    c->places = places;
    c->tensors = tensors;
    c->cap = cap;
    c->first = 0;
    return true;
}

/* Takes the tensors and the status. There must be room. */
static void push_locked(mr_channel *c, mr_tensor **t, place p)
{
    MR_ASSERT(c->n < c->cap);
    int64_t pos = position(c, c->n++);
    c->places[pos] = p;
    memcpy(tensors_at(c, pos), t, sizeof *t * (size_t)width_of(c));
    memset(t, 0, sizeof *t * (size_t)width_of(c));
}

/* Moves the first of the ring to out. */
static place pop_locked(mr_channel *c, mr_tensor **out)
{
    MR_ASSERT(c->n > 0);
    place p = c->places[c->first];
    mr_tensor **t = tensors_at(c, c->first);
    memcpy(out, t, sizeof *t * (size_t)width_of(c));
    memset(t, 0, sizeof *t * (size_t)width_of(c));
    c->first = (c->first + 1) % c->cap;
    c->n--;
    return p;
}

static void unref_channel(mr_channel *c)
{
    if (!mr_refs_drop(&c->refs))
        return;
    if (c->registered)
        mr_cancel_unregister(c->env->cancel, &c->on_cancel);
    for (int64_t i = 0; i < c->n; i++) {
        mr_status_free(c->places[position(c, i)].st);
        mr_element_drop(tensors_at(c, position(c, i)), width_of(c));
    }
    mr_free(c->places);
    mr_free(c->tensors);
    mr_iterator_close(c->it);
    mr_channel_set_unref(c->set);
    mr_data_env_unref(c->env);
    mr_cond_deinit(&c->ready);
    mr_cond_deinit(&c->room);
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

enum { MEASURE_EVERY = 16 }; /* elements */
#define EXPENSIVE_NS 20000   /* an element that takes longer is worth waking a thread */

static place make_one(mr_channel *c, mr_tensor **t)
{
    place p = {0};
    begin_making(c->set, c->env->cancel);
    p.st = mr_iterator_next(c->it, t, &p.end);
    end_making(c->set);
    return p;
}

static void note_cost_locked(mr_channel *c, int64_t ns) { c->cost_ns = c->cost_ns ? (c->cost_ns * 3 + ns) / 4 : ns; }

/* The consumer can go on: it has all it needs, or what is last ends its block. */
static bool has_enough_locked(const mr_channel *c)
{
    const place *last = c->n > 0 ? &c->places[position(c, c->n - 1)] : NULL;
    return c->needed > 0 && last && (c->n >= c->needed || last->st || last->end);
}

/* Without memory for a larger ring, the consumer gets what there is before it has all it needs. */
static void wait_for_room_locked(mr_channel *c) MR_REQUIRES(c->mu)
{
    if (c->needed > 0)
        mr_cond_signal(&c->ready);
    c->sleeps = true;
    mr_cond_wait(&c->room, &c->mu);
    c->sleeps = false;
}

static void run_thread(void *arg)
{
    mr_channel *c = arg;
    mr_tensor **t = mr_element_new(width_of(c) + 1);
    bool end = false;
    mr_lock(&c->mu);
    for (unsigned k = 0; !c->over && !end; k++) {
        if (c->n >= most_ready_locked(c) || !grow_ring_locked(c)) {
            wait_for_room_locked(c);
            continue;
        }
        mr_unlock(&c->mu);
        int64_t start = k % MEASURE_EVERY < 2 ? mr_now_ns() : 0;
        place p = make_one(c, t);
        int64_t took = start ? mr_now_ns() - start : 0;
        end = p.end;
        mr_lock(&c->mu);
        push_locked(c, t, p);
        if (took)
            note_cost_locked(c, took);
        if (has_enough_locked(c) || c->over)
            mr_cond_signal(&c->ready);
        if (c->set) {
            mr_unlock(&c->mu);
            tell_set(c->set);
            mr_lock(&c->mu);
        }
    }
    mr_unlock(&c->mu);
    mr_free(t);
    unref_channel(c);
}

mr_status *mr_channel_begin(mr_channel *c)
{
    mr_lock(&c->mu);
    bool first = !c->begun;
    c->begun = !first || grow_ring_locked(c);
    bool no_memory = !c->begun;
    mr_unlock(&c->mu);
    if (no_memory)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for elements made ahead");
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

bool mr_channel_ready(mr_channel *c)
{
    mr_lock(&c->mu);
    bool ready = c->n > 0 || c->ended || c->over;
    mr_unlock(&c->mu);
    return ready;
}

/* Wakes the thread if there is room for enough elements. */
static void wake_thread_locked(mr_channel *c)
{
    int64_t left = most_ready_locked(c) - c->n;
    if (!c->sleeps || left <= 0)
        return;
    bool expensive = c->cost_ns >= EXPENSIVE_NS || left >= 2 * EXPENSIVE_NS / MR_MAX(c->cost_ns, 1);
    if (expensive || c->n <= c->ahead / 2)
        mr_cond_signal(&c->room);
}

/* Moves what is ready to out, up to an error or the end. */
static mr_status *take_ready_locked(mr_channel *c, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    while (*n < most && c->n > 0) {
        place p = pop_locked(c, out + *n * width_of(c));
        if (p.st || p.end) {
            *end = !p.st;
            c->ended |= p.end;
            return p.st;
        }
        ++*n;
    }
    return NULL;
}

mr_status *mr_channel_next_block(mr_channel *c, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    *n = 0;
    *end = false;
    MR_TRY(mr_channel_begin(c));
    mr_lock(&c->mu);
    mr_status *st = take_ready_locked(c, most, out, n, end);
    while (!st && !*end && *n < most) {
        if ((*end = c->ended))
            break;
        if (c->over) {
            st = mr_error(MR_CANCELLED, "Iterator was cancelled");
            break;
        }
        c->needed = most - *n;
        wake_thread_locked(c);
        mr_cond_wait(&c->ready, &c->mu);
        c->needed = 0;
        st = take_ready_locked(c, most, out, n, end);
    }
    wake_thread_locked(c);
    mr_unlock(&c->mu);
    return st;
}

mr_status *mr_channel_next(mr_channel *c, mr_tensor **out, bool *end)
{
    int64_t n;
    return mr_channel_next_block(c, 1, out, &n, end);
}
