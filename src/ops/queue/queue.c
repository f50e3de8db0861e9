/* ops/queue/queue.c -- a queue and the attempts that wait on it.
 *
 * After each change, the putters advance as far as possible, then the takers, and so on until nothing
 * moves.  This is TensorFlow's order, and it is visible in a random queue with a seed.  An attempt moves
 * element by element: elements that a cancelled DequeueMany had taken are lost, and elements that a
 * cancelled EnqueueMany had put stay.  If a DequeueMany cannot complete because the queue is closed, the
 * elements that it had taken are returned to their places.
 *
 * Invariants: only the first taker has taken anything.  The ring keeps room for the elements that it has
 * taken, so that returning them needs no memory.  When the queue is closed and the putters have
 * advanced, no putter is left. */
#include "ops/queue/queue.h"

#include "base/memory.h"
#include "ops/queue/waiting.h"

enum attempt_kind { ENQUEUE, CLOSE, DEQUEUE, DEQUEUE_MANY, DEQUEUE_UP_TO };

typedef struct attempt {
    mr_waiter w;
    enum attempt_kind kind;
    bool many;         /* ENQUEUE: each row is an element */
    int64_t n, done;   /* elements in total, and put or taken so far */
    mr_tensor **taken; /* `done` tuples; a few fit into `few` */
    int64_t room;      /* capacity of taken, in tuples */
    mr_tensor *few[8];
} attempt;

struct mr_queue {
    mr_waited on;
    const mr_queue_kind *kind;
    char *name;
    mr_arena arena;
    mr_queue_spec spec; /* in the arena */
    bool closed MR_GUARDED_BY(on.mu);
    mr_elements elements MR_GUARDED_BY(on.mu);
    mr_waiters putters, takers MR_GUARDED_BY(on.mu);
};

typedef enum progress { STUCK, MOVED, DONE } progress;

const mr_queue_kind mr_queue_fifo = {
    .name = "FIFOQueue",
    .needs = "DequeueMany and DequeueUpTo require",
    .put = mr_elements_put,
    .take = mr_elements_take_first,
    .take_back = mr_elements_return_first,
};
const mr_queue_kind mr_queue_padding = {
    .name = "PaddingFIFOQueue",
    .needs = "DequeueMany and DequeueUpTo require",
    .put = mr_elements_put,
    .take = mr_elements_take_first,
    .take_back = mr_elements_return_first,
    .pads = true,
};
const mr_queue_kind mr_queue_random = {
    .name = "RandomShuffleQueue",
    .needs = "DequeueMany and DequeueUpTo require",
    .put = mr_elements_put,
    .take = mr_elements_take_random,
    .take_back = mr_elements_return_last,
};
const mr_queue_kind mr_queue_priority = {
    .name = "PriorityQueue",
    .needs = "DequeueMany requires",
    .put = mr_elements_put_by_priority,
    .take = mr_elements_take_smallest,
    .take_back = mr_elements_return_by_priority,
    .by_priority = true,
};

/* ---- new and free ---- */

static void advance_lines(mr_waited *on, mr_waiters *gone);
static mr_status *give_taken(mr_waiter *w);
static void release_attempt(mr_waiter *w);

static const mr_waited_kind waiting = {sizeof(attempt), advance_lines, give_taken, release_attempt};

static void queue_free(mr_object *o)
{
    mr_queue *q = (mr_queue *)o;
    MR_ASSERT(!q->putters.first && !q->takers.first); /* each waiter holds a reference */
    mr_elements_deinit(&q->elements);
    mr_arena_deinit(&q->arena);
    mr_waited_deinit(&q->on);
    mr_free(q->name);
    mr_free(q);
}

const mr_object_type mr_queue_type = {"tensorflow::QueueInterface", queue_free};

mr_queue *mr_queue_new(const mr_queue_spec *s)
{
    mr_queue *q = mr_new(mr_queue);
    mr_waited_init(&q->on, &mr_queue_type, &waiting);
    mr_arena_init(&q->arena, 0);
    q->kind = s->kind;
    q->name = mr_strdup(s->name);
    q->spec = *s;
    q->spec.name = q->name;
    q->spec.tuple = mr_tuple_type_copy(&q->arena, &s->tuple);
    mr_elements_init(&q->elements, s->tuple.n);
    q->elements.random = s->random;
    return q;
}

/* ---- comparing specs ---- */

static mr_status *mismatch_error(const mr_queue *q, const char *what,
                                 void (*print)(mr_str *, const mr_tuple_type *), const mr_queue_spec *s)
{
    mr_str have = {0}, want = {0};
    print(&have, &q->spec.tuple);
    print(&want, &s->tuple);
    mr_status *st = mr_invalid("Shared queue '%s' has %s %s but requested %s were %s", q->name,
                               what, mr_str_z(&have), what, mr_str_z(&want));
    mr_str_deinit(&have);
    mr_str_deinit(&want);
    return st;
}

static mr_status *match_random(const mr_queue *q, const mr_queue_spec *s)
{
    const mr_queue_spec *m = &q->spec;
    if (m->min_after_dequeue != s->min_after_dequeue)
        return mr_invalid("Shared queue '%s' has min_after_dequeue %lld but requested "
                          "min_after_dequeue was %lld.",
                          q->name, (long long)m->min_after_dequeue,
                          (long long)s->min_after_dequeue);
    if ((s->seed || s->seed2) && (s->seed != m->seed || s->seed2 != m->seed2))
        return mr_invalid("Shared queue '%s' has random seeds (%lld, %lld) but requested seeds are "
                          "(%lld, %lld).",
                          q->name, (long long)m->seed, (long long)m->seed2, (long long)s->seed,
                          (long long)s->seed2);
    return NULL;
}

mr_status *mr_queue_matches(const mr_queue *q, const mr_queue_spec *s)
{
    const mr_tuple_type *a = &q->spec.tuple, *b = &s->tuple;
    if (q->kind != s->kind)
        return mr_invalid("Expected %s, found %s", q->kind->name, s->op);
    if (q->spec.capacity != s->capacity)
        return mr_invalid("Shared queue '%s' has capacity %lld but requested capacity was %lld",
                          q->name, (long long)q->spec.capacity, (long long)s->capacity);
    MR_TRY(match_random(q, s));
    if (a->n != b->n || memcmp(a->types, b->types, sizeof(int) * (size_t)a->n) != 0)
        return mismatch_error(q, "component types", mr_tuple_print_types, s);
    bool same = a->n_shapes == b->n_shapes;
    for (int i = 0; same && i < a->n_shapes; i++)
        same = q->kind->pads ? mr_pshape_compatible(a->shapes[i], b->shapes[i])
                             : mr_pshape_eq(a->shapes[i], b->shapes[i]);
    return same ? NULL : mismatch_error(q, "component shapes", mr_tuple_print_shapes, s);
}

/* ---- putting in ---- */

static mr_status *closed_error(const mr_queue *q)
{
    return mr_error(MR_CANCELLED, "%s '%s' is closed.", q->kind->name, q->name);
}

static mr_status *put_one_locked(mr_queue *q, attempt *a)
{
    const attempt *taker = (const attempt *)q->takers.first;
    int64_t out = taker ? taker->done : 0;
    MR_TRY(mr_elements_reserve(&q->elements, q->elements.count + 1 + out));
    MR_TRY(mr_tuple_read(&q->spec.tuple, a->w.r, a->many, a->done,
                         mr_elements_next(&q->elements)));
    q->kind->put(&q->elements);
    a->done++;
    return NULL;
}

static mr_status *close_locked(mr_queue *q)
{
    if (q->closed)
        return mr_error(MR_CANCELLED, "Queue '%s' is already closed.", q->name);
    q->closed = true;
    return NULL;
}

/* A batch of empty rows needs no memory, so it may be extremely long: the loop checks for cancellation now and
 * then. */
static bool is_cancelled(const attempt *a)
{
    const mr_cancel *c = a->w.r->step->cancel;
    return c && a->done % 1024 == 1023 && mr_cancel_started(c);
}

static progress put_locked(mr_queue *q, attempt *a, mr_status **st)
{
    int64_t before = a->done;
    if (a->kind == CLOSE || q->closed) {
        *st = a->kind == CLOSE ? close_locked(q) : closed_error(q);
        return DONE;
    }
    while (a->done < a->n && q->elements.count < q->spec.capacity) {
        *st = is_cancelled(a) ? mr_error(MR_CANCELLED, "%s", a->w.cancelled) : put_one_locked(q, a);
        if (*st)
            return DONE;
    }
    return a->done == a->n ? DONE : a->done > before ? MOVED : STUCK;
}

/* ---- taking out ---- */

static void take_back_locked(mr_queue *q, attempt *a)
{
    while (a->done > 0)
        q->kind->take_back(&q->elements, a->taken + --a->done * q->elements.n);
}

static mr_status *reserve_taken(const mr_queue *q, attempt *a)
{
    if (a->done < a->room)
        return NULL;
    if (a->room == 0 && a->n <= MR_COUNT(a->few) / q->elements.n) {
        a->taken = a->few;
        a->room = a->n;
        return NULL;
    }
    int64_t room = MR_MIN(a->n, MR_MAX(8, 2 * a->room));
    size_t slots, bytes;
    mr_tensor **taken = NULL;
    if (mr_size_mul((size_t)room, (size_t)q->elements.n, &slots) &&
        mr_size_mul(slots, sizeof *taken, &bytes))
        taken = mr_try_realloc(a->taken, bytes);
    if (!taken)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to dequeue %lld elements",
                        (long long)a->n);
    a->taken = taken;
    a->room = room;
    return NULL;
}

static mr_status *take_one_locked(mr_queue *q, attempt *a)
{
    MR_TRY(reserve_taken(q, a));
    q->kind->take(&q->elements, a->taken + a->done * q->elements.n);
    a->done++;
    return NULL;
}

/* The queue is closed and has too few elements.  A DequeueUpTo takes what is left; otherwise this is an error,
 * in whose text TensorFlow counts only the elements that were still missing. */
static mr_status *starve_locked(mr_queue *q, attempt *a)
{
    int64_t wanted = a->n - a->done, have = q->elements.count;
    MR_ASSERT(!q->putters.first);
    take_back_locked(q, a);
    if (a->kind == DEQUEUE_UP_TO && q->elements.count > 0) {
        a->n = q->elements.count;
        return NULL;
    }
    return mr_error(MR_OUT_OF_RANGE,
                    "%s '%s' is closed and has insufficient elements (requested %lld, current "
                    "size %lld)",
                    q->kind->name, q->name, (long long)wanted, (long long)have);
}

static progress take_locked(mr_queue *q, attempt *a, mr_status **st)
{
    int64_t before = a->done;
    if (q->closed && q->elements.count < a->n - a->done && (*st = starve_locked(q, a)))
        return DONE;
    int64_t stay = q->closed ? 0 : q->spec.min_after_dequeue;
    if (q->kind->by_priority && q->elements.count < a->n - a->done)
        return STUCK;
    while (a->done < a->n && q->elements.count > stay)
        if ((*st = take_one_locked(q, a))) {
            take_back_locked(q, a);
            return DONE;
        }
    return a->done == a->n ? DONE : a->done > before ? MOVED : STUCK;
}

/* ---- advancing ---- */

/* Advances the first of a line, and the next one each time the first is done. */
static bool advance_line(mr_queue *q, mr_waiters *line,
                         progress (*step)(mr_queue *, attempt *, mr_status **), mr_waiters *gone)
{
    bool changed = false;
    while (line->first) {
        mr_status *st = NULL;
        progress p = step(q, (attempt *)line->first, &st);
        changed |= p != STUCK;
        if (p != DONE)
            break;
        mr_waiter_let_go(line->first, st, gone);
    }
    return changed;
}

static void advance_lines(mr_waited *on, mr_waiters *gone)
{
    mr_queue *q = (mr_queue *)on;
    bool changed;
    do {
        changed = advance_line(q, &q->putters, put_locked, gone);
        changed |= advance_line(q, &q->takers, take_locked, gone);
    } while (changed);
}

/* ---- ending ---- */

static mr_status *give_taken(mr_waiter *w)
{
    attempt *a = (attempt *)w;
    mr_queue *q = (mr_queue *)w->on;
    if (a->kind == DEQUEUE_MANY || a->kind == DEQUEUE_UP_TO)
        return mr_tuple_stack(&q->spec.tuple, w->r, a->taken, a->done);
    if (a->kind == DEQUEUE) {
        for (int c = 0; c < q->elements.n; c++)
            mr_run_set(w->r, c, a->taken[c]);
        a->done = 0;
    }
    return NULL;
}

static void release_attempt(mr_waiter *w)
{
    attempt *a = (attempt *)w;
    for (int64_t i = 0; a->taken && i < a->done * ((mr_queue *)w->on)->spec.tuple.n; i++)
        mr_tensor_unref(a->taken[i]);
    if (a->taken != a->few)
        mr_free(a->taken);
}

/* ---- the operations ---- */

/* Ends the run at once. */
static void end_now(mr_queue *q, mr_run *r, mr_status *st)
{
    mr_object_unref(&q->on.base);
    mr_run_done(r, st);
}

static void start_attempt(mr_queue *q, mr_run *r, enum attempt_kind kind, bool many, int64_t n)
{
    /* A Close is not cancelled with its step. */
    const char *cancelled = kind == ENQUEUE ? "Enqueue operation was cancelled"
                            : kind != CLOSE ? "Dequeue operation was cancelled"
                                            : NULL;
    attempt *a = mr_waiter_new(&q->on, r, cancelled);
    a->kind = kind;
    a->many = many;
    a->n = n;
    mr_wait(&a->w, kind <= CLOSE ? &q->putters : &q->takers);
}

static mr_status *check_priority(const mr_run *r, bool many)
{
    const mr_tensor *t = mr_in(r, 1);
    int skip = many ? 1 : 0;
    return t->rank == skip ? NULL
                           : mr_invalid("Expected the priority element to be a scalar, but "
                                        "received shape: %s",
                                        MR_SHAPE_TEXT(t->rank - skip, t->dims + skip));
}

void mr_queue_enqueue(mr_queue *q, mr_run *r, bool many)
{
    mr_status *st = mr_tuple_check_inputs(&q->spec.tuple, r, many);
    if (!st && q->kind->by_priority)
        st = check_priority(r, many);
    int64_t n = !st && many ? mr_in(r, 1)->dims[0] : 1;
    if (st || n == 0)
        end_now(q, r, st);
    else
        start_attempt(q, r, ENQUEUE, many, n);
}

void mr_queue_dequeue(mr_queue *q, mr_run *r)
{
    mr_status *st = mr_tuple_check_outputs(&q->spec.tuple, r);
    if (st)
        end_now(q, r, st);
    else
        start_attempt(q, r, DEQUEUE, false, 1);
}

static mr_status *check_many(const mr_queue *q, const mr_run *r, int64_t n, bool up_to)
{
    if (n < 0)
        return mr_invalid("%s requested %lld < 0 elements",
                          up_to ? "DequeueUpToOp" : "DequeueManyOp", (long long)n);
    MR_TRY(mr_tuple_check_outputs(&q->spec.tuple, r));
    if (q->spec.tuple.n_shapes == 0)
        return mr_invalid("%s's %s the components to have specified shapes.", q->kind->name,
                          q->kind->needs);
    return NULL;
}

void mr_queue_dequeue_many(mr_queue *q, mr_run *r, int64_t n, bool up_to)
{
    mr_status *st = check_many(q, r, n, up_to);
    if (!st && n == 0)
        st = mr_tuple_stack(&q->spec.tuple, r, NULL, 0);
    if (st || n == 0)
        end_now(q, r, st);
    else
        start_attempt(q, r, up_to ? DEQUEUE_UP_TO : DEQUEUE_MANY, false, n);
}

/* Closes the queue at once and cancels all waiting putters. */
static void close_now(mr_queue *q)
{
    mr_waiters gone = {0};
    mr_lock(&q->on.mu);
    q->closed = true;
    while (q->putters.first)
        mr_waiter_let_go(q->putters.first,
                         mr_error(MR_CANCELLED, "Enqueue operation was cancelled"), &gone);
    mr_waited_unlock(&q->on, &gone);
}

void mr_queue_close(mr_queue *q, mr_run *r, bool cancel_pending)
{
    if (!cancel_pending) {
        start_attempt(q, r, CLOSE, false, 0);
        return;
    }
    close_now(q);
    end_now(q, r, NULL);
}

int64_t mr_queue_size(mr_queue *q)
{
    mr_lock(&q->on.mu);
    int64_t n = q->elements.count;
    mr_unlock(&q->on.mu);
    return n;
}

bool mr_queue_is_closed(mr_queue *q)
{
    mr_lock(&q->on.mu);
    bool closed = q->closed;
    mr_unlock(&q->on.mu);
    return closed;
}
