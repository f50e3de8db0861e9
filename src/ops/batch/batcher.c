/* ops/batch/batcher.c -- see batcher.h.
 *
 * Locks: the batcher's mutex; processing starts and runs end without it. A batch holds a reference to its batcher,
 * and so does a request, because its cancellation may arrive at any moment until it is unregistered. */
#include "ops/batch/batcher.h"

#include "base/clock.h"
#include "base/memory.h"

struct mr_batcher {
    mr_object base;
    mr_mutex mu;
    mr_alarm alarm;
    mr_batch *open MR_GUARDED_BY(mu);
    mr_batch *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu); /* closed */
    int64_t n_closed MR_GUARDED_BY(mu), n_running MR_GUARDED_BY(mu);
    int64_t n_turns, timeout_ns; /* of the kernel that created it */
    mr_batch_process process;
};

/* ---- creation and destruction ---- */

void mr_batcher_free(mr_object *o)
{
    mr_batcher *b = (mr_batcher *)o;
    MR_ASSERT(!b->open && !b->head); /* batches hold references */
    mr_alarm_deinit(&b->alarm);
    mr_mutex_deinit(&b->mu);
    mr_free(b);
}

static const mr_alarm_kind batcher_alarm;

static mr_status *make_batcher(void *ctx, mr_object **out)
{
    const mr_batching *s = ctx;
    mr_batcher *b = mr_new(mr_batcher);
    mr_object_init(&b->base, s->named.type);
    mr_mutex_init(&b->mu);
    b->n_turns = s->o.n_turns;
    b->timeout_ns = s->o.timeout_ns;
    b->process = s->process;
    mr_status *st = mr_alarm_init(&b->alarm, &batcher_alarm, &b->base, &b->mu, s->named.device->pool);
    if (st)
        mr_object_unref(&b->base);
    else
        *out = &b->base;
    return st;
}

static void batch_free(mr_batch *x)
{
    mr_batcher *b = x->b;
    mr_later_unref(x->later);
    mr_free(x);
    mr_object_unref(&b->base);
}

/* ---- ending runs ---- */

/* Passes a single piece as it is, and joins several pieces by rows. */
static mr_status *give_output(mr_batch_request *q, int i)
{
    const mr_batch_piece *p = q->pieces;
    if (q->n_pieces == 1) {
        mr_run_set(q->r, i, mr_tensor_ref(p->outs[i]));
        return NULL;
    }
    mr_shape shape;
    mr_tensor *y;
    int64_t at = 0;
    mr_shape_set(&shape, p->outs[i]->rank, p->outs[i]->dims);
    shape.dims[0] = q->rows;
    for (int k = 1; k < q->n_pieces; k++)
        if (p[k].outs[i]->rank != shape.rank || !mr_shape_eq(shape.rank - 1, shape.dims + 1, shape.rank - 1, p[k].outs[i]->dims + 1))
            return mr_invalid("Output %d has different shapes in two batches of one run: %s and %s", i,
                              MR_TENSOR_SHAPE(p->outs[i]), MR_TENSOR_SHAPE(p[k].outs[i]));
    MR_TRY(mr_run_output(q->r, i, shape.rank, shape.dims, &y));
    for (int k = 0; k < q->n_pieces; at += p[k++].outs[i]->n)
        MR_TRY(mr_tensor_try_copy_elements(y, at, p[k].outs[i], 0, p[k].outs[i]->n));
    return NULL;
}

static void request_free(mr_batch_request *q)
{
    mr_object_unref((mr_object *)q->b);
    mr_free(q->pieces->outs);
    mr_free(q->pieces);
    mr_free(q);
}

/* A cancellation that arrives too late only takes the lock and finds nothing to remove; unregistering waits for it. */
static void end_request(mr_batch_request *q)
{
    mr_run *r = q->r;
    mr_status *st = q->st;
    mr_cancel_unregister(r->step->cancel, &q->entry);
    for (int i = 0; i < r->n_out && !st; i++)
        st = give_output(q, i);
    for (int k = 0; k < q->n_pieces; k++)
        for (int i = 0; i < r->n_out; i++)
            mr_tensor_unref(q->pieces[k].outs[i]);
    request_free(q);
    mr_run_done(r, st);
}

/* Ends the requests whose last piece this batch was; st (owned) is the status of the batch. */
static void end_pieces(mr_batch *x, mr_status *st)
{
    for (mr_batch_piece *p = x->first, *next; p; p = next) {
        next = p->next;
        mr_lock(&x->b->mu);
        if (st)
            mr_status_update(&p->q->st, mr_status_copy(st));
        bool last = --p->q->n_left == 0;
        mr_unlock(&x->b->mu);
        if (last)
            end_request(p->q);
    }
    mr_status_free(st);
}

/* ---- processing a batch ---- */

mr_status *mr_batch_check(const mr_batch *x)
{
    const mr_batch_request *first = x->first->q;
    for (const mr_batch_piece *p = x->first->next; p; p = p->next)
        if (p->q->n_in != first->n_in || p->q->r->n_out != first->r->n_out)
            return mr_invalid("Batching inputs must have equal number of edges: %d to %d and %d to %d", first->n_in, first->r->n_out,
                              p->q->n_in, p->q->r->n_out);
    return NULL;
}

mr_status *mr_batch_join(const mr_batch *x, int i, mr_tensor **out)
{
    const mr_tensor *first = mr_in(x->first->q->r, i);
    mr_shape shape;
    mr_shape_set(&shape, first->rank, first->dims);
    shape.dims[0] = x->padded;
    for (const mr_batch_piece *p = x->first; p; p = p->next) {
        const mr_tensor *t = mr_in(p->q->r, i);
        if (t->dtype != first->dtype || t->rank != first->rank ||
            !mr_shape_eq(t->rank - 1, t->dims + 1, first->rank - 1, first->dims + 1))
            return mr_invalid("Cannot batch inputs %d of shapes %s and %s: they may differ in dimension 0 only", i,
                              MR_TENSOR_SHAPE(first), MR_TENSOR_SHAPE(t));
    }
    MR_TRY(mr_tensor_new(NULL, first->dtype, shape.rank, shape.dims, out));
    int64_t at = 0, each = x->padded ? (*out)->n / x->padded : 0;
    for (const mr_batch_piece *p = x->first; p; at += p->rows * each, p = p->next)
        MR_TRY(mr_tensor_try_copy_elements(*out, at, mr_in(p->q->r, i), p->start * each, p->rows * each));
    for (int64_t k = x->rows; k < x->padded; k++)
        MR_TRY(mr_tensor_try_copy_elements(*out, k * each, *out, 0, each));
    return NULL;
}

static mr_batch *begin_next_locked(mr_batcher *b) MR_REQUIRES(b->mu)
{
    mr_batch *x = b->n_running < b->n_turns ? b->head : NULL;
    if (!x)
        return NULL;
    b->head = x->next;
    if (!b->head)
        b->tail = NULL;
    b->n_closed--;
    b->n_running++;
    for (mr_batch_piece *p = x->first; p; p = p->next)
        p->in = NULL;
    return x;
}

/* Starts closed batches while turns are free. */
static void run_batches(mr_batcher *b)
{
    for (;;) {
        mr_lock(&b->mu);
        mr_batch *x = begin_next_locked(b);
        mr_unlock(&b->mu);
        if (!x)
            return;
        b->process(x);
    }
}

void mr_batch_end(mr_batch *x, mr_status *st)
{
    mr_batcher *b = (mr_batcher *)mr_object_ref(&x->b->base);
    mr_lock(&b->mu);
    b->n_running--;
    mr_unlock(&b->mu);
    end_pieces(x, st);
    batch_free(x);
    run_batches(b);
    mr_object_unref(&b->base);
}

/* ---- the open batch ---- */

static int64_t padded_rows(const mr_batch_options *o, int64_t rows)
{
    for (int i = 0; i < o->n_allowed && rows > 0; i++)
        if (o->allowed[i] >= rows)
            return o->allowed[i];
    return rows;
}

static void close_locked(mr_batcher *b) MR_REQUIRES(b->mu)
{
    mr_batch *x = b->open;
    b->open = NULL;
    x->next = NULL;
    if (b->tail)
        b->tail->next = x;
    else
        b->head = x;
    b->tail = x;
    b->n_closed++;
}

static mr_later *check_deadline(mr_object *owner, int64_t now_ns) MR_NO_TSA
{
    mr_batcher *b = (mr_batcher *)owner;
    mr_batch *x = b->open;
    if (!x)
        return NULL;
    if (x->deadline_ns > now_ns) { /* the alarm was set for an earlier batch */
        mr_alarm_set_locked(&b->alarm, x->deadline_ns);
        return NULL;
    }
    close_locked(b);
    return x->later;
}

static void ring_batcher(mr_object *owner) { run_batches((mr_batcher *)owner); }

static const mr_alarm_kind batcher_alarm = {check_deadline, ring_batcher};

static mr_batch *open_batch_locked(mr_batcher *b, mr_run *r) MR_REQUIRES(b->mu)
{
    if (!b->open) {
        b->open = mr_new(mr_batch);
        b->open->later = mr_later_new(r);
        b->open->b = (mr_batcher *)mr_object_ref(&b->base);
        b->open->deadline_ns = mr_now_ns() + b->timeout_ns;
    }
    return b->open;
}

static void add_piece_locked(mr_batcher *b, const mr_batch_options *o, mr_batch_piece *p) MR_REQUIRES(b->mu)
{
    mr_batch *x = open_batch_locked(b, p->q->r);
    if (x->last)
        x->last->next = p;
    else
        x->first = p;
    x->last = p;
    p->in = x;
    x->rows += p->rows;
    x->padded = padded_rows(o, x->rows);
    if (x->rows >= o->max_rows)
        close_locked(b);
}

/* Adds all pieces of a run to batches. */
static void join_locked(mr_batcher *b, const mr_batch_options *o, mr_batch_request *q) MR_REQUIRES(b->mu)
{
    int64_t at = 0;
    for (int k = 0; k < q->n_pieces; k++) {
        mr_batch_piece *p = &q->pieces[k];
        if (b->open && b->open->rows + p->rows > o->max_rows)
            close_locked(b);
        p->start = at;
        at += p->rows;
        add_piece_locked(b, o, p);
    }
    if (b->open)
        mr_alarm_set_locked(&b->alarm, b->open->deadline_ns);
}

/* ---- cancellation ---- */

/* The batch keeps the size it was padded to, which is still an allowed one, as long as it has a row to pad with. */
static void take_out_locked(mr_batch *x, mr_batch_piece *p)
{
    mr_batch_piece **at = &x->first, *before = NULL;
    for (; *at != p; at = &before->next)
        before = *at;
    *at = p->next;
    if (x->last == p)
        x->last = before;
    x->rows -= p->rows;
    if (x->rows == 0)
        x->padded = 0;
    p->in = NULL;
}

/* Removes a batch that has no pieces left. */
static void drop_batch_locked(mr_batcher *b, mr_batch *x) MR_REQUIRES(b->mu)
{
    if (b->open == x) {
        b->open = NULL;
        return;
    }
    mr_batch **at = &b->head, *before = NULL;
    for (; *at != x; at = &before->next)
        before = *at;
    *at = x->next;
    if (b->tail == x)
        b->tail = before;
    b->n_closed--;
}

static void on_cancel(mr_cancel_entry *e)
{
    mr_batch_request *q = (mr_batch_request *)e;
    mr_batcher *b = q->b;
    mr_batch *empty = NULL;
    int n_out = 0;
    mr_lock(&b->mu);
    for (int k = 0; k < q->n_pieces; k++) {
        mr_batch *x = q->pieces[k].in;
        if (!x)
            continue;
        take_out_locked(x, &q->pieces[k]);
        n_out++;
        if (!x->first) {
            drop_batch_locked(b, x);
            x->next = empty;
            empty = x;
        }
    }
    q->n_left -= n_out;
    if (n_out > 0)
        mr_status_update(&q->st, mr_error(MR_CANCELLED, "A run was cancelled while it waited for a batch"));
    bool last = n_out > 0 && q->n_left == 0; /* otherwise the batch with the last piece ends it */
    mr_unlock(&b->mu);
    for (mr_batch *next; empty; empty = next) { /* q still has a reference to b */
        next = empty->next;
        batch_free(empty);
    }
    if (last)
        end_request(q);
}

/* ---- a run ---- */

static mr_status *count_rows(mr_run *r, int *n_in, int64_t *rows)
{
    int start;
    MR_TRY(mr_node_in_range(r->node, "in_tensors", &start, n_in));
    for (int i = 0; i < *n_in; i++) {
        const mr_tensor *t = mr_in(r, start + i);
        if (t->rank == 0)
            return mr_invalid("Batching input tensors must have at least one dimension");
        if (i > 0 && t->dims[0] != *rows)
            return mr_invalid("Batching input tensors supplied in a given op invocation must have equal 0th-dimension size");
        *rows = t->dims[0];
    }
    return NULL;
}

static mr_status *count_pieces(const mr_batch_options *o, int64_t rows, int64_t *n)
{
    *n = o->split && rows > o->max_rows ? (rows + o->max_rows - 1) / o->max_rows : 1;
    if (rows > o->max_rows && !o->split)
        return mr_invalid("Task size %lld is larger than maximum input batch size %lld", (long long)rows, (long long)o->max_rows);
    if (*n > o->max_waiting + 1)
        return mr_error(MR_UNAVAILABLE, "%lld rows need %lld batches, but at most %lld batches may wait",
                        (long long)rows, (long long)*n, (long long)o->max_waiting);
    return NULL;
}

static mr_status *request_new(mr_run *r, mr_batcher *b, mr_batch_request **out)
{
    const mr_batch_options *o = &((const mr_batching *)r->state)->o;
    int64_t n, rows = 0;
    int n_in = 0;
    MR_TRY(count_rows(r, &n_in, &rows));
    MR_TRY(count_pieces(o, rows, &n));
    mr_batch_piece *pieces = mr_try_calloc((size_t)n, sizeof *pieces);
    mr_tensor **outs = mr_try_calloc((size_t)n * (size_t)r->n_out + 1, sizeof *outs);
    if (!pieces || !outs) {
        mr_free(pieces);
        mr_free(outs);
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %lld batches", (long long)n);
    }
    mr_batch_request *q = mr_new(mr_batch_request);
    *q = (mr_batch_request){.entry = {.fn = on_cancel}, .b = (mr_batcher *)mr_object_ref(&b->base), .r = r, .n_in = n_in,
                            .rows = rows, .n_pieces = (int)n, .n_left = (int)n, .pieces = pieces};
    for (int64_t k = 0; k < n; k++)
        pieces[k] = (mr_batch_piece){.q = q, .rows = MR_MIN(rows - k * o->max_rows, o->max_rows), .outs = outs + k * r->n_out};
    *out = q;
    return NULL;
}

/* Registers the cancellation under the lock: a callback that fires at once waits for the lock, and then finds the
 * pieces in their batches. */
static mr_status *enter_locked(mr_batcher *b, const mr_batch_options *o, mr_batch_request *q) MR_REQUIRES(b->mu)
{
    if (b->n_closed >= o->max_waiting)
        return mr_error(MR_UNAVAILABLE, "The batch scheduling queue to which this task was submitted is full; currently %lld batches wait",
                        (long long)o->max_waiting);
    if (!mr_cancel_register(q->r->step->cancel, &q->entry))
        return mr_error(MR_CANCELLED, "Run call was cancelled");
    join_locked(b, o, q);
    return NULL;
}

static mr_status *enqueue_request(mr_run *r, mr_batcher *b)
{
    mr_batch_request *q = NULL;
    MR_TRY(request_new(r, b, &q));
    mr_lock(&b->mu);
    mr_status *st = enter_locked(b, &((const mr_batching *)r->state)->o, q);
    mr_unlock(&b->mu);
    if (st)
        request_free(q);
    return st;
}

void mr_batching_run(mr_run *r)
{
    mr_batching *s = r->state;
    mr_batcher *b = NULL;
    mr_status *st = mr_named_open(&s->named, make_batcher, s, (mr_object **)&b);
    if (!st)
        st = enqueue_request(r, b);
    if (st)
        mr_run_done(r, st);
    else
        run_batches(b); /* r may have ended by now */
    if (b)
        mr_object_unref(&b->base);
}

/* ---- the state of a kernel ---- */

static mr_status *read_allowed(const mr_node *n, mr_batch_options *o)
{
    const mr_attr *sizes;
    MR_TRY(mr_node_get_list(n, "allowed_batch_sizes", MR_ATTR_INT, &sizes));
    o->allowed = mr_new_array(int64_t, sizes->n + 1);
    o->n_allowed = sizes->n;
    for (int i = 0; i < sizes->n; i++) {
        o->allowed[i] = sizes->is[i];
        if (i > 0 && sizes->is[i] <= sizes->is[i - 1])
            return mr_invalid("allowed_batch_sizes entries must be monotonically increasing");
    }
    if (sizes->n > 0 && (o->split ? o->allowed[sizes->n - 1] > o->max_rows : o->allowed[sizes->n - 1] != o->max_rows))
        return mr_invalid("final entry in allowed_batch_sizes must equal max_batch_size when enable_large_batch_splitting is False");
    return NULL;
}

/* Queues of one batcher never mix: here each queue is a separate batcher. */
static mr_status *read_queue(mr_batching *s, const mr_node *n)
{
    mr_sv queue;
    MR_TRY(mr_node_get_str(n, "batching_queue", &queue));
    if (s->named.is_private || queue.n == 0)
        return NULL;
    if (memchr(queue.p, '\0', queue.n))
        return mr_invalid("batching_queue contains a NUL byte");
    char *name = mr_printf("%s//%.*s", s->named.name, MR_SV_ARG(queue));
    mr_free(s->named.name);
    s->named.name = name;
    return NULL;
}

mr_status *mr_batching_init(mr_batching *s, mr_make *m, const mr_object_type *type, bool split, mr_batch_process process)
{
    mr_batch_options *o = &s->o;
    int64_t timeout_us;
    s->process = process;
    o->split = split;
    MR_TRY(mr_named_init(&s->named, m, type));
    MR_TRY(read_queue(s, m->node));
    MR_TRY(mr_node_get_int(m->node, "num_batch_threads", &o->n_turns));
    MR_TRY(mr_node_get_int(m->node, "max_batch_size", &o->max_rows));
    MR_TRY(mr_node_get_int(m->node, "batch_timeout_micros", &timeout_us));
    MR_TRY(mr_node_get_int(m->node, "max_enqueued_batches", &o->max_waiting));
    if (o->max_rows < 1 || timeout_us < 0)
        return mr_invalid(
            "%s: max_batch_size must be positive (got %lld) and batch_timeout_micros not negative (got %lld)",
            m->node->def->name, (long long)o->max_rows, (long long)timeout_us);
    o->timeout_ns = MR_MIN(timeout_us, INT64_MAX / 4000) * 1000;
    o->n_turns = MR_MAX(o->n_turns, 1);
    o->max_waiting = MR_MIN(MR_MAX(o->max_waiting, 1), 1 << 20);
    return read_allowed(m->node, o);
}

void mr_batching_deinit(void *state)
{
    mr_batching *s = state;
    mr_named_deinit(&s->named);
    mr_free(s->o.allowed);
}
