/* ops/data/turn.c -- see turn.h.
 *
 * Usually there is one shard. A request that finds nobody else in the line first attempts to compute its element on its
 * own thread (mr_attempt in dataset.h). If that would wait or take long, the request goes into the line, and the thread
 * continues. The thread computes the next element when an op waits for which none is ready, and there is room in the
 * shard to which it belongs; otherwise it sleeps. The first request in the line starts the thread, which holds a
 * reference and ends once the turn is over. The lock of `on` guards everything below it, except the iterator, which
 * belongs to the thread that has set `busy`. */
#include "ops/data/turn.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"

typedef struct item { /* an element, or the reason why there is none */
    mr_tensor **element;
    mr_status *st;
    struct item *next;
} item;

typedef struct shard {
    mr_waiters line;
    item *head, *tail; /* ready items */
    int64_t n;
} shard;

struct mr_turn {
    mr_waited on;
    mr_cond demand; /* the thread has something to do, or must end */
    int n_shards;
    shard *shards;
    int64_t ahead;
    bool threaded, over, end; /* end: there are no more elements than those that are ready */
    bool busy; /* some thread uses the iterator */
    int pause, next_pause; /* requests until the next attempt; the pause after it if it gives up */
    mr_tensor **attempted; /* room for the element of an attempt */
    int64_t made, count;      /* elements computed, and given */
    MR_VEC(mr_seed_place) seeds;
    mr_dataset *dataset;
    mr_data_env *env;
    mr_iterator *it;
    mr_cancel_entry on_cancel; /* of env's cancellation */
    bool registered;
};

typedef struct asker { /* a waiting op */
    mr_waiter w;
    mr_turn_give give;
    mr_object *keep;
    bool end;
    mr_tensor **element; /* its element, once it is let go */
} asker;

/* ---- the line ---- */

static void take_item(mr_turn *t, shard *s, asker *a, mr_status **st)
{
    item *i = s->head;
    if (!(s->head = i->next))
        s->tail = NULL;
    s->n--;
    a->element = i->element;
    *st = i->st;
    t->count += i->st == NULL;
    mr_free(i);
}

static void advance_shard(mr_turn *t, shard *s, mr_waiters *gone)
{
    while (s->line.first && (s->head || t->end || t->over)) {
        asker *a = (asker *)s->line.first;
        mr_status *st = NULL;
        if (s->head)
            take_item(t, s, a, &st);
        else if (t->end)
            a->end = true;
        else
            st = mr_error(MR_CANCELLED, "Iterator was cancelled");
        mr_waiter_let_go(&a->w, st, gone);
    }
}

static bool wanted_locked(const mr_turn *t)
{
    bool wanted = false;
    for (int i = 0; i < t->n_shards; i++)
        wanted |= t->shards[i].line.first != NULL; /* an op that waits has no element ready */
    return wanted && !t->end && !t->busy && t->shards[t->made % t->n_shards].n < t->ahead;
}

static void advance_turn(mr_waited *on, mr_waiters *gone)
{
    mr_turn *t = (mr_turn *)on;
    for (int i = 0; i < t->n_shards; i++)
        advance_shard(t, &t->shards[i], gone);
    if (t->threaded && (wanted_locked(t) || t->over || t->end))
        mr_cond_signal(&t->demand);
}

static mr_status *give_element(mr_waiter *w)
{
    asker *a = (asker *)w;
    return a->give(w->r, ((mr_turn *)w->on)->dataset, a->end ? NULL : a->element);
}

static void forget_asker(mr_waiter *w)
{
    asker *a = (asker *)w;
    if (a->element)
        mr_element_drop(a->element, ((mr_turn *)w->on)->dataset->n);
    mr_free(a->element);
    mr_object_unref(a->keep);
}

static const mr_waited_kind waiting = {sizeof(asker), advance_turn, give_element, forget_asker};

/* ---- the thread ---- */

static void push_item(mr_turn *t, item *i)
{
    shard *s = &t->shards[t->made++ % t->n_shards];
    if (s->tail)
        s->tail->next = i;
    else
        s->head = i;
    s->tail = i;
    s->n++;
}

static void make_one(mr_turn *t) MR_REQUIRES(t->on.mu)
{
    t->busy = true;
    mr_unlock(&t->on.mu);
    bool end = false;
    item *i = mr_new(item);
    i->element = mr_element_new(t->dataset->n);
    i->st = mr_iterator_next(t->it, i->element, &end);
    mr_lock(&t->on.mu);
    t->busy = false;
    if (end) {
        t->end = true;
        mr_free(i->element);
        mr_free(i);
    } else {
        push_item(t, i);
    }
    mr_waited_unlock(&t->on, NULL);
    mr_lock(&t->on.mu);
}

static void run_thread(void *arg)
{
    mr_turn *t = arg;
    mr_lock(&t->on.mu);
    while (!t->over && !t->end) {
        if (wanted_locked(t))
            make_one(t);
        else
            mr_cond_wait(&t->demand, &t->on.mu);
    }
    mr_waited_unlock(&t->on, NULL); /* ops that came too late get an error */
    mr_turn_unref(t);
}

static mr_status *start_thread_locked(mr_turn *t)
{
    if (t->threaded || t->over || t->end)
        return NULL;
    t->threaded = true;
    mr_status *st = mr_later_thread(t->env->later, "iterator", run_thread, mr_turn_ref(t));
    if (st) {
        t->threaded = false;
        mr_refs_drop(&t->on.base.refs); /* not the last reference: the caller has one too */
    }
    return st;
}

/* ---- attempts ---- */

enum { LONGEST_PAUSE = 63 };

/* Only if nobody waits and nothing is ready: the order of the requests is kept. */
static bool may_attempt_locked(mr_turn *t)
{
    const shard *s = &t->shards[0];
    if (t->n_shards > 1 || t->busy || t->over || t->end || s->line.first || s->head)
        return false;
    if (t->pause == 0)
        return true;
    t->pause--;
    return false;
}

/* After an attempt: counts what it gave, or makes the pause until the next one longer. */
static void note_attempt_locked(mr_turn *t, const mr_attempt *a, mr_status *st, bool end)
{
    t->busy = false;
    t->end = end;
    t->made += !a->gave_up && !end;
    t->count += !st && !end;
    t->next_pause = a->gave_up ? MR_MIN(2 * t->next_pause + 1, LONGEST_PAUSE) : 0;
    t->pause = t->next_pause;
}

/* The step was cancelled while its element was made: the element is for the next request. */
static void keep_attempted_locked(mr_turn *t)
{
    item *i = mr_new(item);
    i->element = mr_element_new(t->dataset->n);
    memcpy(i->element, t->attempted, sizeof *i->element * (size_t)t->dataset->n);
    memset(t->attempted, 0, sizeof *i->element * (size_t)t->dataset->n);
    t->made--;
    t->count--;
    push_item(t, i);
}

/* Tries to make the element here. Returns true if it has ended the run. false: the run must wait in the line. */
static bool ask_at_once(mr_turn *t, mr_run *r, mr_turn_give fn)
{
    mr_attempt a = {.run = r->step->cancel, .until_ns = mr_now_ns() + MR_ATTEMPT_NS, .patience = 16};
    bool end = false;
    t->env->attempt = &a;
    mr_status *st = mr_iterator_next(t->it, t->attempted, &end);
    t->env->attempt = NULL;
    bool unwanted = !st && !end && mr_cancel_started(a.run);
    mr_status *given = st || unwanted ? NULL : fn(r, t->dataset, end ? NULL : t->attempted);
    mr_lock(&t->on.mu);
    note_attempt_locked(t, &a, st, end);
    if (unwanted)
        keep_attempted_locked(t);
    mr_element_drop(t->attempted, t->dataset->n);
    mr_waited_unlock(&t->on, NULL); /* others may be in the line by now */
    if (a.gave_up) {
        mr_status_free(st);
        return false;
    }
    if (!unwanted)
        mr_run_done(r, st ? st : given);
    return !unwanted;
}

void mr_turn_ask(mr_turn *t, int which, mr_run *r, mr_turn_give fn, mr_object *keep)
{
    mr_lock(&t->on.mu);
    if (may_attempt_locked(t)) {
        t->busy = true;
        mr_unlock(&t->on.mu);
        if (ask_at_once(t, r, fn))
            return;
        mr_lock(&t->on.mu);
    }
    mr_status *st = start_thread_locked(t);
    mr_unlock(&t->on.mu);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    asker *a = mr_waiter_new(&mr_turn_ref(t)->on, r, "Iterator was cancelled");
    a->give = fn;
    a->keep = keep ? mr_object_ref(keep) : NULL;
    mr_wait(&a->w, &t->shards[which].line);
}

/* ---- creating and closing ---- */

static void turn_free(mr_object *o)
{
    mr_turn *t = (mr_turn *)o;
    if (t->registered)
        mr_cancel_unregister(t->env->cancel, &t->on_cancel);
    mr_iterator_close(t->it);
    for (int i = 0; i < t->n_shards; i++)
        for (item *p = t->shards[i].head, *next; p; p = next) {
            next = p->next;
            mr_element_drop(p->element, t->dataset->n);
            mr_free(p->element);
            mr_status_free(p->st);
            mr_free(p);
        }
    mr_free(t->shards);
    mr_free(t->attempted);
    mr_vec_deinit(&t->seeds);
    mr_data_env_unref(t->env);
    mr_object_unref(&t->dataset->base);
    mr_cond_deinit(&t->demand);
    mr_waited_deinit(&t->on);
    mr_free(t);
}

static const mr_object_type turn_type = {.name = "iteration", .free = turn_free};

static void cancel_turn(mr_cancel_entry *e)
{
    mr_turn *t = (mr_turn *)((char *)e - offsetof(mr_turn, on_cancel));
    mr_lock(&t->on.mu);
    t->over = true;
    mr_cond_signal(&t->demand);
    mr_unlock(&t->on.mu);
}

/* ---- seeds ---- */

/* Collects all sources of a dataset and of those it is derived from, each once, in an order that depends only on
 * these. */
typedef struct sources {
    mr_imap seen;
    MR_VEC(mr_seed_source *) all;
} sources;

static void gather_sources(const mr_dataset *d, sources *s)
{
    if (mr_imap_put(&s->seen, (uint64_t)(uintptr_t)d, s))
        return;
    if (d->seeds)
        mr_vec_push(&s->all, d->seeds);
    for (int i = 0; i < d->n_inputs; i++)
        gather_sources(d->inputs[i], s);
}

static void remember_seeds(mr_turn *t)
{
    sources s = {0};
    gather_sources(t->dataset, &s);
    for (int i = 0; i < s.all.n; i++)
        mr_vec_push(&t->seeds, mr_seed_source_place(s.all.p[i]));
    mr_imap_deinit(&s.seen);
    mr_vec_deinit(&s.all);
}

const mr_seed_place *mr_turn_seeds(const mr_turn *t, int *n)
{
    *n = t->seeds.n;
    return t->seeds.p;
}

void mr_turn_return(const mr_dataset *d, const mr_seed_place *p, int n)
{
    sources s = {0};
    gather_sources(d, &s);
    for (int i = 0; i < MR_MIN(n, s.all.n); i++)
        mr_seed_source_return(s.all.p[i], &p[i]);
    mr_imap_deinit(&s.seen);
    mr_vec_deinit(&s.all);
}

mr_status *mr_turn_new(mr_dataset *d, mr_later *l, int n_shards, int64_t ahead, mr_turn **out)
{
    mr_turn *t = mr_new(mr_turn);
    mr_waited_init(&t->on, &turn_type, &waiting);
    mr_cond_init(&t->demand);
    t->n_shards = n_shards;
    t->shards = mr_new_array(shard, n_shards);
    t->ahead = MR_MAX(ahead, 1);
    t->dataset = (mr_dataset *)mr_object_ref(&d->base);
    t->env = mr_data_env_new(l);
    t->attempted = mr_element_new(d->n);
    t->on_cancel.fn = cancel_turn;
    t->registered = mr_cancel_register(t->env->cancel, &t->on_cancel);
    t->over = !t->registered;
    remember_seeds(t);
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

int mr_turn_shards(const mr_turn *t) { return t->n_shards; }

const mr_dataset *mr_turn_dataset(const mr_turn *t) { return t->dataset; }

int64_t mr_turn_count(mr_turn *t)
{
    mr_lock(&t->on.mu);
    int64_t n = t->count;
    mr_unlock(&t->on.mu);
    return n;
}

/* Called before the thread is started, so the iterator belongs to this caller. */
mr_status *mr_turn_skip(mr_turn *t, int64_t n, const mr_cancel *c)
{
    mr_status *st = NULL;
    bool end = false;
    mr_tensor **element = mr_element_new(t->dataset->n);
    MR_ASSERT(!t->threaded);
    while (!st && !end && t->count < n) {
        st = mr_cancel_started(c) ? mr_error(MR_CANCELLED, "Iterator was cancelled") : mr_iterator_next(t->it, element, &end);
        if (!st && !end) {
            mr_element_drop(element, t->dataset->n);
            t->count++;
        }
    }
    t->end = !st && end;
    mr_free(element);
    return st;
}
