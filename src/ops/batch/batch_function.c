/* ops/batch/batch_function.c -- one call of a function for what many steps ask of it at the same time.
 *
 * Each run brings rows.  They join an open batch, which is closed when it is full or its time is over, then waits for one of
 * num_batch_threads turns, and is run: one call of f on all its rows.  The results are cut up again and each run gets its
 * own rows.  No thread waits meanwhile: a batch is a record that passes from its timer to a pool to the call's end.
 *
 *     run --piece--> open batch --full, or timer--> closed batches --turn--> call of f --> results, runs end
 *
 * With enable_large_batch_splitting a run's rows may be spread over several batches; then it ends with the last of them.
 *
 * Locks: the batcher's; calls start and runs end without it.  A batch holds a reference to its batcher. */
#include <pthread.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/timers.h"
#include "graph/infer.h"
#include "ops/queue/named.h"
#include "run/later.h"

typedef struct batcher batcher;
typedef struct batch batch;

typedef struct request { /* a run */
    mr_run *r;
    int64_t rows;
    int n_pieces, n_left;
    mr_status *st;
    struct piece *pieces;
} request;

typedef struct piece { /* rows of a run that go into one batch */
    request *q;
    int64_t start, rows;
    mr_tensor **outs; /* of the run: its rows of each result */
    struct piece *next; /* in the batch */
} piece;

struct batch {
    batcher *b;
    piece *first, *last;
    int64_t rows, padded;
    int n_args, n_rets;
    mr_tensor **args, **rets;
    mr_later *later;
    mr_func_ref f;
    batch *next;
};

typedef struct options {
    int64_t max_rows, max_waiting, n_turns, timeout_ns;
    bool split;
    int n_allowed;
    int64_t *allowed;
} options;

struct batcher {
    mr_object base;
    mr_timers *timers;  /* the process's */
    mr_mutex timer_mu;  /* around setting the timer; before mu */
    mr_timer timer;     /* of the open batch, or one before it */
    mr_pool *pool;
    mr_task kick;       /* runs batches once the timer has closed one */
    mr_mutex mu;
    bool kicked MR_GUARDED_BY(mu); /* it is on its way */
    batch *open MR_GUARDED_BY(mu);
    batch *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu); /* closed */
    int64_t n_closed MR_GUARDED_BY(mu), n_running MR_GUARDED_BY(mu);
    int64_t n_turns; /* of the kernel that made it */
};

typedef struct state {
    mr_named named;
    options o;
} state;

/* ---- life ---- */

static void batcher_free(mr_object *o)
{
    batcher *b = (batcher *)o;
    MR_ASSERT(!b->open && !b->head); /* batches hold references */
    mr_timers_clear(b->timers, &b->timer);
    mr_mutex_deinit(&b->timer_mu);
    mr_mutex_deinit(&b->mu);
    mr_free(b);
}

/* One thread serves all, for the rest of the process: a batcher may end on any thread, that of its timer too. */
static mr_timers *the_timers;
static void make_timers(void) { mr_status_free(mr_timers_new(&the_timers)); }

static mr_status *find_timers(mr_timers **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_timers);
    *out = the_timers;
    return the_timers ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "No thread for the timers of batches");
}

static const mr_object_type batcher_type = {"millrace::Batcher", batcher_free};

static mr_status *make_batcher(void *ctx, mr_object **out)
{
    const state *s = ctx;
    mr_timers *timers;
    MR_TRY(find_timers(&timers));
    batcher *b = mr_new(batcher);
    mr_object_init(&b->base, &batcher_type);
    mr_mutex_init(&b->timer_mu);
    mr_mutex_init(&b->mu);
    b->timers = timers;
    b->timer.place = -1;
    b->pool = s->named.device->pool;
    b->n_turns = s->o.n_turns;
    *out = &b->base;
    return NULL;
}

static void batch_free(batch *x)
{
    for (int i = 0; i < x->n_args; i++)
        mr_tensor_unref(x->args[i]);
    for (int i = 0; i < x->n_rets; i++)
        mr_tensor_unref(x->rets[i]);
    mr_free(x->args);
    mr_free(x->rets);
    mr_later_unref(x->later);
    mr_free(x);
}

/* ---- ends of runs ---- */

/* One piece, as it is; several joined by rows. */
static mr_status *give_output(request *q, int i)
{
    const piece *p = q->pieces;
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
            return mr_invalid("Batches gave output %d in shapes that differ: %s and %s", i, MR_TENSOR_SHAPE(p->outs[i]),
                              MR_TENSOR_SHAPE(p[k].outs[i]));
    MR_TRY(mr_run_output(q->r, i, shape.rank, shape.dims, &y));
    for (int k = 0; k < q->n_pieces; at += p[k++].outs[i]->n)
        MR_TRY(mr_tensor_try_copy_elements(y, at, p[k].outs[i], 0, p[k].outs[i]->n));
    return NULL;
}

static void end_request(request *q)
{
    mr_run *r = q->r;
    mr_status *st = q->st;
    for (int i = 0; i < r->n_out && !st; i++)
        st = give_output(q, i);
    for (int k = 0; k < q->n_pieces; k++)
        for (int i = 0; i < r->n_out; i++)
            mr_tensor_unref(q->pieces[k].outs[i]);
    mr_free(q->pieces->outs);
    mr_free(q->pieces);
    mr_free(q);
    mr_run_done(r, st);
}

/* Which requests have got all their pieces; st (owned) is what the batch ended with. */
static void end_pieces(batch *x, mr_status *st)
{
    for (piece *p = x->first, *next; p; p = next) {
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

/* ---- a batch's call ---- */

static mr_status *cut_results(batch *x)
{
    for (int i = 0; i < x->n_rets; i++) {
        const mr_tensor *t = x->rets[i];
        int64_t at = 0;
        if (t->rank < 1 || t->dims[0] != x->padded)
            return mr_error(MR_FAILED_PRECONDITION, "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension "
                                                    "sizes of the input tensors: output %d has shape %s, %lld rows went in",
                            i, MR_TENSOR_SHAPE(t), (long long)x->padded);
        for (piece *p = x->first; p; at += p->rows, p = p->next) {
            if (t->dtype != mr_out_dtype(p->q->r, i))
                return mr_invalid("Expected type %s for return value %d, got %s", mr_dtype_name(mr_out_dtype(p->q->r, i)), i,
                                  mr_dtype_name(t->dtype));
            MR_TRY(mr_tensor_rows(t, at, p->rows, &p->outs[i]));
        }
    }
    return NULL;
}

static void run_batches(batcher *b);

static void call_done(void *ctx, mr_status *st)
{
    batch *x = ctx;
    batcher *b = x->b;
    if (!st)
        st = cut_results(x);
    mr_lock(&b->mu);
    b->n_running--;
    mr_unlock(&b->mu);
    end_pieces(x, st);
    batch_free(x);
    run_batches(b);
    mr_object_unref(&b->base);
}

/* The rows of input i of all pieces, and the first row again and again as padding. */
static mr_status *join_rows(batch *x, int i)
{
    const mr_tensor *first = mr_in(x->first->q->r, i);
    mr_shape shape;
    mr_tensor *y;
    mr_shape_set(&shape, first->rank, first->dims);
    shape.dims[0] = x->padded;
    for (const piece *p = x->first; p; p = p->next) {
        const mr_tensor *t = mr_in(p->q->r, i);
        if (t->dtype != first->dtype || t->rank != first->rank ||
            !mr_shape_eq(t->rank - 1, t->dims + 1, first->rank - 1, first->dims + 1))
            return mr_invalid("Batching inputs %d of shapes %s and %s: they may differ in dimension 0 only", i,
                              MR_TENSOR_SHAPE(first), MR_TENSOR_SHAPE(t));
    }
    MR_TRY(mr_tensor_new(NULL, first->dtype, shape.rank, shape.dims, &y));
    x->args[i] = y;
    int64_t at = 0, each = x->padded ? y->n / x->padded : 0;
    for (const piece *p = x->first; p; at += p->rows * each, p = p->next)
        MR_TRY(mr_tensor_try_copy_elements(y, at, mr_in(p->q->r, i), p->start * each, p->rows * each));
    for (int64_t k = x->rows; k < x->padded; k++)
        MR_TRY(mr_tensor_try_copy_elements(y, k * each, y, 0, each));
    return NULL;
}

static mr_status *make_args(batch *x)
{
    mr_run *r = x->first->q->r;
    int start, n_batched;
    MR_TRY(mr_node_in_range(r->node, "in_tensors", &start, &n_batched));
    x->args = mr_new_array(mr_tensor *, r->n_in + 1);
    x->rets = mr_new_array(mr_tensor *, r->n_out + 1);
    x->n_args = r->n_in;
    for (int i = 0; i < n_batched; i++)
        MR_TRY(join_rows(x, i));
    for (int i = n_batched; i < r->n_in; i++) /* captured: those of the first */
        x->args[i] = mr_tensor_ref(mr_in(r, i));
    return NULL;
}

static void start_call(batch *x)
{
    mr_run *r = x->first->q->r;
    const mr_func_ref *f = NULL;
    mr_status *st = mr_node_get_func(r->node, "f", &f);
    if (!st)
        st = make_args(x);
    if (st) {
        call_done(x, st);
        return;
    }
    x->n_rets = r->n_out;
    x->f = *f;
    mr_later_call call = {.f = &x->f, .args = x->args, .rets = x->rets, .n_args = x->n_args, .n_rets = x->n_rets};
    mr_later_start(x->later, &call, call_done, x);
}

/* Starts closed batches while there are turns. */
static void run_batches(batcher *b)
{
    for (;;) {
        mr_lock(&b->mu);
        batch *x = b->n_running < b->n_turns ? b->head : NULL;
        if (x) {
            b->head = x->next;
            if (!b->head)
                b->tail = NULL;
            b->n_closed--;
            b->n_running++;
        }
        mr_unlock(&b->mu);
        if (!x)
            return;
        start_call(x);
    }
}

/* ---- the open batch ---- */

static int64_t padded_rows(const options *o, int64_t rows)
{
    for (int i = 0; i < o->n_allowed && rows > 0; i++)
        if (o->allowed[i] >= rows)
            return o->allowed[i];
    return rows;
}

static void close_locked(batcher *b) MR_REQUIRES(b->mu)
{
    batch *x = b->open;
    b->open = NULL;
    x->next = NULL;
    if (b->tail)
        b->tail->next = x;
    else
        b->head = x;
    b->tail = x;
    b->n_closed++;
}

static void run_from_pool(mr_task *t)
{
    batcher *b = (batcher *)((char *)t - offsetof(batcher, kick));
    mr_lock(&b->mu);
    b->kicked = false;
    mr_unlock(&b->mu);
    run_batches(b);
    mr_object_unref(&b->base);
}

/* While the timers' thread hands a batch on, the session whose threads it uses must not end: as during a call. */
static mr_later *hold(mr_later *l)
{
    mr_later_ref(l);
    mr_lock(&l->mu);
    l->busy++;
    mr_unlock(&l->mu);
    return l;
}

static void let_go(mr_later *l)
{
    mr_lock(&l->mu);
    if (--l->busy == 0)
        mr_cond_broadcast(&l->idle);
    mr_unlock(&l->mu);
    mr_later_unref(l);
}

/* On the timers' thread, which must not wait: the batch goes on elsewhere. */
static void time_is_over(mr_timer *t)
{
    batcher *b = (batcher *)((char *)t - offsetof(batcher, timer));
    mr_later *l = NULL;
    bool kick = false;
    mr_lock(&b->mu);
    if (b->open) { /* which holds a reference, so there is one to be had; its runs keep their session */
        l = hold(b->open->later);
        close_locked(b);
        kick = !b->kicked;
        b->kicked = true;
        if (kick)
            mr_object_ref(&b->base);
    }
    mr_unlock(&b->mu);
    if (kick) {
        b->kick.fn = run_from_pool;
        mr_pool_submit(b->pool, &b->kick);
    }
    if (l)
        let_go(l);
}

static void set_timer(batcher *b, int64_t timeout_ns)
{
    mr_lock(&b->timer_mu);
    mr_timers_clear(b->timers, &b->timer); /* of an earlier batch: this one has all its time */
    mr_timers_set(b->timers, &b->timer, mr_now_ns() + timeout_ns, time_is_over);
    mr_unlock(&b->timer_mu);
}

static batch *open_batch_locked(batcher *b, mr_run *r, bool *fresh) MR_REQUIRES(b->mu)
{
    if (!b->open) {
        b->open = mr_new(batch);
        b->open->later = mr_later_new(r);
        b->open->b = (batcher *)mr_object_ref(&b->base);
        *fresh = true;
    }
    return b->open;
}

static void add_piece_locked(batcher *b, const options *o, piece *p, bool *fresh) MR_REQUIRES(b->mu)
{
    batch *x = open_batch_locked(b, p->q->r, fresh);
    if (x->last)
        x->last->next = p;
    else
        x->first = p;
    x->last = p;
    x->rows += p->rows;
    x->padded = padded_rows(o, x->rows);
    if (x->rows >= o->max_rows) {
        close_locked(b);
        *fresh = false;
    }
}

/* All pieces of a run join batches. */
static void join_locked(batcher *b, const options *o, request *q, bool *fresh) MR_REQUIRES(b->mu)
{
    int64_t at = 0;
    for (int k = 0; k < q->n_pieces; k++) {
        piece *p = &q->pieces[k];
        if (b->open && b->open->rows + p->rows > o->max_rows)
            close_locked(b);
        p->start = at;
        at += p->rows;
        add_piece_locked(b, o, p, fresh);
    }
}

/* ---- a run ---- */

static mr_status *count_rows(mr_run *r, int64_t *rows)
{
    int start, n;
    MR_TRY(mr_node_in_range(r->node, "in_tensors", &start, &n));
    for (int i = 0; i < n; i++) {
        const mr_tensor *t = mr_in(r, start + i);
        if (t->rank == 0)
            return mr_invalid("Batching input tensors must have at least one dimension");
        if (i > 0 && t->dims[0] != *rows)
            return mr_invalid("Batching input tensors supplied in a given op invocation must have equal 0th-dimension size");
        *rows = t->dims[0];
    }
    return NULL;
}

static mr_status *request_new(mr_run *r, const options *o, int64_t rows, request **out)
{
    int64_t n = o->split && rows > o->max_rows ? (rows + o->max_rows - 1) / o->max_rows : 1;
    if (rows > o->max_rows && !o->split)
        return mr_invalid("Task size %lld is larger than maximum input batch size %lld", (long long)rows, (long long)o->max_rows);
    if (n > o->max_waiting + 1)
        return mr_error(MR_UNAVAILABLE, "%lld rows would be %lld batches, but at most %lld may wait", (long long)rows, (long long)n,
                        (long long)o->max_waiting);
    request *q = mr_new(request);
    q->pieces = mr_try_calloc((size_t)n, sizeof(piece));
    mr_tensor **outs = mr_try_calloc((size_t)n * (size_t)r->n_out + 1, sizeof *outs);
    if (!q->pieces || !outs) {
        mr_free(q->pieces);
        mr_free(outs);
        mr_free(q);
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %lld batches", (long long)n);
    }
    q->r = r;
    q->rows = rows;
    q->n_pieces = q->n_left = (int)n;
    for (int64_t k = 0; k < n; k++)
        q->pieces[k] = (piece){.q = q, .rows = MR_MIN(rows - k * o->max_rows, o->max_rows), .outs = outs + k * r->n_out};
    *out = q;
    return NULL;
}

static mr_status *enqueue(mr_run *r, batcher *b)
{
    const state *s = r->state;
    int64_t rows = 0, max_waiting = s->o.max_waiting;
    request *q = NULL;
    bool fresh = false;
    MR_TRY(count_rows(r, &rows));
    MR_TRY(request_new(r, &s->o, rows, &q));
    mr_lock(&b->mu);
    bool full = b->n_closed >= max_waiting;
    if (!full)
        join_locked(b, &s->o, q, &fresh);
    mr_unlock(&b->mu);
    if (full) {
        mr_free(q->pieces->outs);
        mr_free(q->pieces);
        mr_free(q);
        return mr_error(MR_UNAVAILABLE, "The batch scheduling queue to which this task was submitted is full; currently %lld batches wait",
                        (long long)max_waiting);
    }
    if (fresh)
        set_timer(b, s->o.timeout_ns);
    return NULL;
}

static void batch_function(mr_run *r)
{
    state *s = r->state;
    batcher *b = NULL;
    mr_status *st = r->step->caller ? NULL : mr_error(MR_FAILED_PRECONDITION, "Functions cannot be called here");
    if (!st)
        st = mr_named_open(&s->named, make_batcher, s, (mr_object **)&b);
    if (!st)
        st = enqueue(r, b);
    if (st)
        mr_run_done(r, st);
    else
        run_batches(b); /* r may be over by now */
    if (b)
        mr_object_unref(&b->base);
}

/* ---- made ---- */

static mr_status *read_allowed(const mr_node *n, options *o)
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

static mr_status *init(mr_make *m, void *p)
{
    state *s = p;
    options *o = &s->o;
    int64_t timeout_us;
    MR_TRY(mr_named_init(&s->named, m, &batcher_type));
    MR_TRY(mr_node_get_int(m->node, "num_batch_threads", &o->n_turns));
    MR_TRY(mr_node_get_int(m->node, "max_batch_size", &o->max_rows));
    MR_TRY(mr_node_get_int(m->node, "batch_timeout_micros", &timeout_us));
    MR_TRY(mr_node_get_int(m->node, "max_enqueued_batches", &o->max_waiting));
    MR_TRY(mr_node_get_bool(m->node, "enable_large_batch_splitting", &o->split));
    if (o->max_rows < 1 || timeout_us < 0)
        return mr_invalid("BatchFunction: max_batch_size %lld and batch_timeout_micros %lld", (long long)o->max_rows, (long long)timeout_us);
    o->timeout_ns = MR_MIN(timeout_us, INT64_MAX / 4000) * 1000;
    o->n_turns = MR_MAX(o->n_turns, 1);
    o->max_waiting = MR_MIN(MR_MAX(o->max_waiting, 1), 1 << 20);
    return read_allowed(m->node, o);
}

static void deinit(void *p)
{
    state *s = p;
    mr_named_deinit(&s->named);
    mr_free(s->o.allowed);
}

MR_OP(BatchFunction,
    .doc     = "f(in_tensors, captured_tensors), called once for the rows of several concurrent runs",
    .sig     = "in_tensors: Tin, captured_tensors: Tcaptured -> out_tensors: Tout",
    .attrs   = "f: func; num_batch_threads: int; max_batch_size: int; batch_timeout_micros: int; max_enqueued_batches: int = 10; "
               "allowed_batch_sizes: list(int) = []; container: string = ''; shared_name: string = ''; batching_queue: string = ''; "
               "Tin: list(type) >= 1; Tcaptured: list(type) >= 0; Tout: list(type) >= 1; enable_large_batch_splitting: bool = false",
    .flags   = MR_DISTCOMM | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(batch_function)),
    .state_bytes = sizeof(state), .init = init, .deinit = deinit);
