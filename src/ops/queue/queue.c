/* ops/queue/queue.c -- a queue and the attempts that wait on it.
 *
 * The life of an attempt: made, registered with the step's cancellation, put at the end of its list, moved on by
 * advance_locked, finished.  Finishing happens once, under the lock; the run is ended after the lock is released,
 * because that starts the next ops.  A cancelled attempt is taken out of its list by the callback: what a
 * DequeueMany had taken is lost, what an EnqueueMany had put in stays. */
#include "ops/queue/queue.h"

enum attempt_kind { ENQUEUE, CLOSE, DEQUEUE, DEQUEUE_MANY, DEQUEUE_UP_TO };

typedef struct attempt {
    mr_cancel_entry entry;
    mr_queue *q;
    mr_run *r;
    enum attempt_kind kind;
    int first;        /* ENQUEUE: input of component 0 */
    bool many;        /* ENQUEUE: rows one by one */
    int64_t n, done;  /* elements wanted, and put in or taken so far */
    mr_tensor **taken; /* done * q->n of them */
    mr_status *st;
    bool finished;    /* guarded by the queue's lock */
    bool registered, in_callback;
    struct attempt *next;
} attempt;

typedef struct attempt_list {
    attempt *head, **tail;
} attempt_list;

struct mr_queue {
    mr_object base;
    const mr_queue_kind *kind;
    char *name;
    int n;
    int *types;
    int n_shapes;
    const mr_pshape **shapes;
    mr_arena arena; /* of the shapes */
    int64_t capacity;
    mr_mutex mu;
    bool closed MR_GUARDED_BY(mu);
    mr_tensor **ring MR_GUARDED_BY(mu); /* tuples, n tensors each */
    int64_t head, count, room MR_GUARDED_BY(mu);
    attempt_list putters, takers MR_GUARDED_BY(mu);
};

const mr_queue_kind mr_queue_fifo = {"FIFOQueue"};

/* ---- the ring of tuples ---- */

static mr_tensor **tuple_at(mr_queue *q, int64_t i) { return q->ring + (q->head + i) % q->room * q->n; }

static void grow_locked(mr_queue *q)
{
    int64_t room = MR_MAX(16, 2 * q->room);
    mr_tensor **ring = mr_new_array(mr_tensor *, room * q->n);
    for (int64_t i = 0; i < q->count; i++)
        memcpy(ring + i * q->n, tuple_at(q, i), sizeof *ring * (size_t)q->n);
    mr_free(q->ring);
    q->ring = ring;
    q->room = room;
    q->head = 0;
}

/* Takes the references over. */
static void put_back_locked(mr_queue *q, mr_tensor *const *tuple)
{
    if (q->count == q->room)
        grow_locked(q);
    q->count++;
    memcpy(tuple_at(q, q->count - 1), tuple, sizeof *tuple * (size_t)q->n);
}

static void put_front_locked(mr_queue *q, mr_tensor *const *tuple)
{
    if (q->count == q->room)
        grow_locked(q);
    q->head = (q->head + q->room - 1) % q->room;
    q->count++;
    memcpy(tuple_at(q, 0), tuple, sizeof *tuple * (size_t)q->n);
}

static void take_front_locked(mr_queue *q, mr_tensor **out)
{
    memcpy(out, tuple_at(q, 0), sizeof *out * (size_t)q->n);
    q->head = (q->head + 1) % q->room;
    q->count--;
}

/* ---- making and freeing ---- */

static void queue_free(mr_object *o)
{
    mr_queue *q = (mr_queue *)o;
    for (int64_t i = 0; i < q->count; i++)
        for (int c = 0; c < q->n; c++)
            mr_tensor_unref(tuple_at(q, i)[c]);
    mr_free(q->ring);
    mr_free(q->types);
    mr_free(q->shapes);
    mr_arena_deinit(&q->arena);
    mr_mutex_deinit(&q->mu);
    mr_free(q->name);
    mr_free(q);
}

const mr_object_type mr_queue_type = {"tensorflow::QueueInterface", queue_free};

static void list_init(attempt_list *l) { *l = (attempt_list){NULL, &l->head}; }

mr_queue *mr_queue_new(const mr_queue_spec *s)
{
    mr_queue *q = mr_new(mr_queue);
    mr_object_init(&q->base, &mr_queue_type);
    mr_mutex_init(&q->mu);
    mr_arena_init(&q->arena, 0);
    q->kind = s->kind;
    q->name = mr_strdup(s->name);
    q->n = s->n;
    q->types = mr_new_array(int, s->n);
    memcpy(q->types, s->types, sizeof(int) * (size_t)s->n);
    q->n_shapes = s->n_shapes;
    q->shapes = mr_new_array(const mr_pshape *, s->n_shapes + 1);
    for (int i = 0; i < s->n_shapes; i++)
        q->shapes[i] = s->shapes[i]->rank < 0 ? &mr_pshape_unknown
                                              : mr_pshape_of(&q->arena, s->shapes[i]->rank, s->shapes[i]->dims);
    q->capacity = s->capacity < 0 ? INT64_MAX : s->capacity;
    list_init(&q->putters);
    list_init(&q->takers);
    return q;
}

mr_status *mr_queue_matches(const mr_queue *q, const mr_queue_spec *s)
{
    int64_t capacity = s->capacity < 0 ? INT64_MAX : s->capacity;
    if (q->kind != s->kind)
        return mr_invalid("Shared queue '%s' has type '%s' that does not match requested type '%s'", q->name, q->kind->name,
                          s->kind->name);
    if (q->capacity != capacity)
        return mr_invalid("Shared queue '%s' has capacity %lld but requested capacity was %lld", q->name,
                          (long long)q->capacity, (long long)capacity);
    if (q->n != s->n || memcmp(q->types, s->types, sizeof(int) * (size_t)q->n) != 0)
        return mr_invalid("Shared queue '%s' has component types that do not match the requested ones", q->name);
    bool same = q->n_shapes == s->n_shapes;
    for (int i = 0; same && i < q->n_shapes; i++)
        same = mr_pshape_eq(q->shapes[i], s->shapes[i]);
    return same ? NULL : mr_invalid("Shared queue '%s' has component shapes that do not match the requested ones", q->name);
}

/* ---- lists of attempts ---- */

static void append(attempt_list *l, attempt *a)
{
    a->next = NULL;
    *l->tail = a;
    l->tail = &a->next;
}

static void take_out(attempt_list *l, attempt *a)
{
    for (attempt **p = &l->head; *p; p = &(*p)->next)
        if (*p == a) {
            *p = a->next;
            if (l->tail == &a->next)
                l->tail = p;
            return;
        }
}

/* Moves the first attempt of a list to the list of finished ones. */
static void finish_head_locked(attempt_list *l, attempt_list *finished, mr_status *st)
{
    attempt *a = l->head;
    take_out(l, a);
    a->finished = true;
    a->st = st;
    append(finished, a);
}

/* ---- errors ---- */

static mr_status *closed_error(const mr_queue *q)
{
    return mr_error(MR_CANCELLED, "%s '%s' is closed.", q->kind->name, q->name);
}

static mr_status *insufficient(const mr_queue *q, int64_t wanted, int64_t have)
{
    return mr_error(MR_OUT_OF_RANGE, "%s '%s' is closed and has insufficient elements (requested %lld, current size %lld)",
                    q->kind->name, q->name, (long long)wanted, (long long)have);
}

/* ---- putting in ---- */

/* The tuple of an ENQUEUE: its components, or row `row` of each. */
static mr_status *make_tuple(const attempt *a, int64_t row, mr_tensor **out)
{
    for (int c = 0; c < a->q->n; c++) {
        const mr_tensor *in = mr_in(a->r, a->first + c);
        mr_status *st = NULL;
        if (!a->many) {
            out[c] = mr_tensor_ref(in);
            continue;
        }
        int64_t each = in->n / in->dims[0];
        st = mr_tensor_new(mr_run_allocator(a->r), (mr_dtype)in->dtype, in->rank - 1, in->dims + 1, &out[c]);
        if (st) {
            while (c-- > 0)
                mr_tensor_unref(out[c]);
            return st;
        }
        mr_tensor_copy_elements(out[c], 0, in, row * each, each);
    }
    return NULL;
}

static mr_status *put_one_locked(attempt *a)
{
    mr_tensor *small[8], **tuple = a->q->n <= 8 ? small : mr_new_array(mr_tensor *, a->q->n);
    mr_status *st = make_tuple(a, a->done, tuple);
    if (!st) {
        put_back_locked(a->q, tuple);
        a->done++;
    }
    if (tuple != small)
        mr_free(tuple);
    return st;
}

/* True when anything changed. */
static bool advance_putters_locked(mr_queue *q, attempt_list *finished)
{
    attempt *a = q->putters.head;
    bool changed = false;
    if (!a)
        return false;
    if (a->kind == CLOSE) {
        bool again = q->closed;
        q->closed = true;
        finish_head_locked(&q->putters, finished,
                           again ? mr_error(MR_CANCELLED, "Queue '%s' is already closed.", q->name) : NULL);
        return true;
    }
    if (q->closed) {
        finish_head_locked(&q->putters, finished, closed_error(q));
        return true;
    }
    mr_status *st = NULL;
    while (!st && a->done < a->n && q->count < q->capacity) {
        st = put_one_locked(a);
        changed = true;
    }
    if (st || a->done == a->n) {
        finish_head_locked(&q->putters, finished, st);
        changed = true;
    }
    return changed;
}

/* ---- taking out ---- */

static void give_back_locked(attempt *a)
{
    while (a->done > 0)
        put_front_locked(a->q, a->taken + --a->done * a->q->n);
}

/* A closed queue from which no more can come. */
static bool starved_locked(const mr_queue *q) { return q->closed && q->count == 0 && !q->putters.head; }

static void starve_locked(mr_queue *q, attempt_list *finished)
{
    attempt *a = q->takers.head;
    if (a->kind == DEQUEUE_UP_TO && a->done > 0) {
        finish_head_locked(&q->takers, finished, NULL);
        return;
    }
    mr_status *st = insufficient(q, a->n, a->done);
    give_back_locked(a);
    finish_head_locked(&q->takers, finished, st);
}

static bool advance_takers_locked(mr_queue *q, attempt_list *finished)
{
    attempt *a = q->takers.head;
    bool changed = false;
    if (!a)
        return false;
    while (a->done < a->n && q->count > 0) {
        take_front_locked(q, a->taken + a->done * q->n);
        a->done++;
        changed = true;
    }
    if (a->done == a->n) {
        finish_head_locked(&q->takers, finished, NULL);
        return true;
    }
    if (starved_locked(q)) {
        /* What one attempt gives back may be enough for the next. */
        starve_locked(q, finished);
        return true;
    }
    return changed;
}

static void advance_locked(mr_queue *q, attempt_list *finished)
{
    bool changed;
    do {
        changed = advance_putters_locked(q, finished);
        changed |= advance_takers_locked(q, finished);
    } while (changed);
}

/* ---- ending runs, without the lock ---- */

static mr_status *give_single(attempt *a)
{
    for (int c = 0; c < a->q->n; c++) {
        mr_run_set(a->r, c, a->taken[c]);
        a->taken[c] = NULL;
    }
    return NULL;
}

/* Elements of a component, stacked along a new first dimension. */
static mr_status *give_stacked(attempt *a, int c)
{
    mr_queue *q = a->q;
    mr_tensor *out;
    mr_shape shape = {.rank = 1, .dims = {a->done}};
    const mr_tensor *first = a->done > 0 ? a->taken[c] : NULL;
    int rank = first ? first->rank : q->shapes[c]->rank;
    for (int i = 0; i < rank; i++)
        MR_TRY(mr_shape_push(&shape, first ? first->dims[i] : MR_MAX(0, q->shapes[c]->dims[i])));
    MR_TRY(mr_run_output(a->r, c, shape.rank, shape.dims, &out));
    for (int64_t i = 0; i < a->done; i++) {
        const mr_tensor *t = a->taken[i * q->n + c];
        if (!mr_tensor_same_shape(t, first))
            return mr_invalid("elements of component %d have different shapes: %s and %s", c, MR_TENSOR_SHAPE(first),
                              MR_TENSOR_SHAPE(t));
        mr_tensor_copy_elements(out, i * t->n, t, 0, t->n);
    }
    return NULL;
}

static mr_status *give(attempt *a)
{
    if (a->kind == DEQUEUE)
        return give_single(a);
    for (int c = 0; a->kind != DEQUEUE && c < a->q->n; c++)
        MR_TRY(give_stacked(a, c));
    return NULL;
}

static void free_attempt(attempt *a)
{
    for (int64_t i = 0; a->taken && i < a->done * a->q->n; i++)
        mr_tensor_unref(a->taken[i]);
    mr_free(a->taken);
    mr_object_unref(&a->q->base);
    mr_free(a);
}

static void end_run(attempt *a)
{
    mr_run *r = a->r;
    mr_status *st = a->st;
    if (a->registered && !a->in_callback)
        mr_cancel_unregister(r->step->cancel, &a->entry); /* waits for a callback that came too late */
    if (!st && a->kind >= DEQUEUE)
        st = give(a);
    free_attempt(a);
    mr_run_done(r, st);
}

static void end_runs(attempt_list *finished)
{
    for (attempt *a = finished->head, *next; a; a = next) {
        next = a->next;
        end_run(a);
    }
}

/* ---- coming and being cancelled ---- */

static void on_cancel(mr_cancel_entry *e)
{
    attempt *a = (attempt *)e;
    mr_queue *q = a->q;
    attempt_list finished;
    list_init(&finished);
    mr_lock(&q->mu);
    if (a->finished) {
        mr_unlock(&q->mu);
        return;
    }
    mr_object_ref(&q->base);
    take_out(a->kind <= CLOSE ? &q->putters : &q->takers, a);
    a->finished = a->in_callback = true;
    a->st = mr_error(MR_CANCELLED, "%s operation was cancelled", a->kind <= CLOSE ? "Enqueue" : "Dequeue");
    append(&finished, a);
    advance_locked(q, &finished); /* it may have stood in the way of others */
    mr_unlock(&q->mu);
    end_runs(&finished);
    mr_object_unref(&q->base);
}

static attempt *attempt_new(mr_queue *q, mr_run *r, enum attempt_kind kind)
{
    attempt *a = mr_new(attempt);
    a->entry.fn = on_cancel;
    a->q = (mr_queue *)mr_object_ref(&q->base);
    a->r = r;
    a->kind = kind;
    return a;
}

static void start(attempt *a)
{
    mr_queue *q = a->q;
    attempt_list finished;
    list_init(&finished);
    /* Registered under the queue's lock: a callback that fires at once waits for it and finds the attempt listed.
     * A Close is not cancelled with its step. */
    mr_object_ref(&q->base);
    mr_lock(&q->mu);
    a->registered = a->kind != CLOSE && a->r->step->cancel && mr_cancel_register(a->r->step->cancel, &a->entry);
    if (a->kind != CLOSE && a->r->step->cancel && !a->registered) {
        a->finished = true;
        a->st = mr_error(MR_CANCELLED, "%s operation was cancelled", a->kind < CLOSE ? "Enqueue" : "Dequeue");
        append(&finished, a);
    } else {
        append(a->kind <= CLOSE ? &q->putters : &q->takers, a);
        advance_locked(q, &finished);
    }
    mr_unlock(&q->mu);
    end_runs(&finished);
    mr_object_unref(&q->base);
}

/* ---- the operations ---- */

static mr_status *check_component(const mr_queue *q, int c, const mr_tensor *t, bool many)
{
    if (t->dtype != mr_dtype_base(q->types[c]))
        return mr_invalid("Type mismatch in tuple component %d. Expected %s, got %s", c, mr_dtype_name(q->types[c]),
                          mr_dtype_name(t->dtype));
    if (many && t->rank < 1)
        return mr_invalid("tuple component %d of EnqueueMany must have at least one dimension", c);
    if (q->n_shapes == 0)
        return NULL;
    const mr_pshape *s = q->shapes[c];
    int skip = many ? 1 : 0;
    bool fits = s->rank < 0 || s->rank == t->rank - skip;
    for (int i = 0; fits && i < s->rank; i++)
        fits = s->dims[i] < 0 || s->dims[i] == t->dims[i + skip];
    return fits ? NULL
                : mr_invalid("Shape mismatch in tuple component %d. Expected %s, got %s", c, MR_PSHAPE_TEXT(s),
                             MR_SHAPE_TEXT(t->rank - skip, t->dims + skip));
}

static mr_status *check_tuple(const mr_queue *q, const mr_run *r, int first, bool many)
{
    if (r->n_in - first != q->n)
        return mr_invalid("Wrong number of components in tuple. Expected %d, got %d", q->n, r->n_in - first);
    for (int c = 0; c < q->n; c++) {
        MR_TRY(check_component(q, c, mr_in(r, first + c), many));
        if (many && mr_in(r, first + c)->dims[0] != mr_in(r, first)->dims[0])
            return mr_invalid("All input tensors must have the same size in the 0th dimension. Component %d has %lld, and "
                              "should have %lld",
                              c, (long long)mr_in(r, first + c)->dims[0], (long long)mr_in(r, first)->dims[0]);
    }
    return NULL;
}

void mr_queue_enqueue(mr_queue *q, mr_run *r, int first, bool many)
{
    mr_status *st = check_tuple(q, r, first, many);
    if (st || (many && mr_in(r, first)->dims[0] == 0)) {
        mr_run_done(r, st);
        return;
    }
    attempt *a = attempt_new(q, r, ENQUEUE);
    a->first = first;
    a->many = many;
    a->n = many ? mr_in(r, first)->dims[0] : 1;
    start(a);
}

static mr_status *check_outputs(const mr_queue *q, const mr_run *r)
{
    if (r->n_out != q->n)
        return mr_invalid("%s '%s' has %d components, the op %d", q->kind->name, q->name, q->n, r->n_out);
    for (int c = 0; c < q->n; c++)
        if (mr_out_dtype(r, c) != (mr_dtype)q->types[c])
            return mr_invalid("component %d of %s '%s' is of type %s, not %s", c, q->kind->name, q->name,
                              mr_dtype_name(q->types[c]), mr_dtype_name(mr_out_dtype(r, c)));
    return NULL;
}

static mr_status *start_taking(mr_queue *q, mr_run *r, enum attempt_kind kind, int64_t n)
{
    size_t slots, bytes;
    MR_TRY(check_outputs(q, r));
    if (!mr_size_mul((size_t)n, (size_t)q->n, &slots) || !mr_size_mul(slots, sizeof(mr_tensor *), &bytes))
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot dequeue %lld elements at once", (long long)n);
    mr_tensor **taken = mr_try_alloc(bytes);
    if (!taken)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to dequeue %lld elements", (long long)n);
    attempt *a = attempt_new(q, r, kind);
    a->n = n;
    a->taken = taken;
    start(a);
    return NULL;
}

void mr_queue_dequeue(mr_queue *q, mr_run *r)
{
    mr_status *st = start_taking(q, r, DEQUEUE, 1);
    if (st)
        mr_run_done(r, st);
}

static mr_status *check_many(const mr_queue *q, int64_t n)
{
    if (n < 0)
        return mr_invalid("DequeueManyOp requested %lld < 0 elements", (long long)n);
    bool full = q->n_shapes == q->n;
    for (int i = 0; full && i < q->n; i++)
        full = mr_pshape_full(q->shapes[i]);
    return full ? NULL
                : mr_invalid("%s's DequeueMany and DequeueUpTo require the components to have specified shapes.",
                             q->kind->name);
}

void mr_queue_dequeue_many(mr_queue *q, mr_run *r, int64_t n, bool up_to)
{
    mr_status *st = check_many(q, n);
    if (!st)
        st = start_taking(q, r, up_to ? DEQUEUE_UP_TO : DEQUEUE_MANY, n);
    if (st)
        mr_run_done(r, st);
}

/* Closing with cancel: at once, and all that waits to put in is sent away. */
static void close_now(mr_queue *q, mr_run *r)
{
    attempt_list finished;
    list_init(&finished);
    mr_lock(&q->mu);
    q->closed = true;
    while (q->putters.head)
        finish_head_locked(&q->putters, &finished, closed_error(q));
    advance_locked(q, &finished);
    mr_unlock(&q->mu);
    end_runs(&finished);
    mr_run_done(r, NULL);
}

void mr_queue_close(mr_queue *q, mr_run *r, bool cancel_pending)
{
    if (cancel_pending)
        close_now(q, r);
    else
        start(attempt_new(q, r, CLOSE));
}

int64_t mr_queue_size(mr_queue *q)
{
    mr_lock(&q->mu);
    int64_t n = q->count;
    mr_unlock(&q->mu);
    return n;
}

bool mr_queue_is_closed(mr_queue *q)
{
    mr_lock(&q->mu);
    bool closed = q->closed;
    mr_unlock(&q->mu);
    return closed;
}
