/* ops/batch/unbatch.c -- Unbatch: returns the results of a batch to the runs whose rows it contained.
 *
 * One run of each batch brings all rows and the table of their owners (batch.c); the others bring nothing and wait.
 * Rows whose run has not arrived yet are kept for it. Both have the same timeout: after it, a waiting run ends with
 * DEADLINE_EXCEEDED, and kept rows are dropped.
 *
 * `runs` maps ids to waiting runs. A run that leaves the line without its rows (cancelled or timed out) is removed
 * from the map slightly later, in forget_asker; in between it counts as gone. */
#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/batch/batcher.h"
#include "ops/queue/waiting.h"

typedef struct ready { /* rows that are kept for their run */
    int64_t id, deadline_ns;
    mr_tensor *t;
    struct ready *next, *prev; /* oldest first */
} ready;

typedef struct unbatcher {
    mr_waited on;
    mr_alarm alarm;
    int64_t timeout_ns;
    bool late; /* the next advance ends runs whose deadline has passed */
    mr_waiters line;
    mr_map runs, tensors; /* by the 8 bytes of an id: asker, ready */
    ready *first, *last;
} unbatcher;

typedef struct asker { /* one run */
    mr_waiter w;
    bool fresh; /* has just arrived */
    int64_t id, deadline_ns;
    mr_later *later;
    mr_tensor *got;
    int64_t n; /* the rows it brings, for n runs */
    const int64_t *table; /* in its input batch_index */
    mr_tensor **parts;
} asker;

static mr_sv key_of(const int64_t *id) { return (mr_sv){(const char *)id, sizeof *id}; }

/* ---- rows that are kept ---- */

static void drop_ready(unbatcher *u, ready *p)
{
    *(p->prev ? &p->prev->next : &u->first) = p->next;
    *(p->next ? &p->next->prev : &u->last) = p->prev;
    mr_map_remove(&u->tensors, key_of(&p->id));
    mr_tensor_unref(p->t);
    mr_free(p);
}

static void keep_ready(unbatcher *u, int64_t id, mr_tensor *t, int64_t deadline_ns)
{
    ready *p = mr_new(ready);
    *p = (ready){.id = id, .deadline_ns = deadline_ns, .t = mr_tensor_ref(t), .prev = u->last};
    *(u->last ? &u->last->next : &u->first) = p;
    u->last = p;
    mr_map_put(&u->tensors, key_of(&p->id), p);
}

/* ---- timeouts ---- */

static asker *oldest_asker(const unbatcher *u) { return (asker *)u->line.first; }

static void set_alarm(unbatcher *u)
{
    int64_t at = INT64_MAX;
    if (u->first)
        at = u->first->deadline_ns;
    if (u->line.first)
        at = MR_MIN(at, oldest_asker(u)->deadline_ns);
    if (at != INT64_MAX)
        mr_alarm_set_locked(&u->alarm, at);
}

static mr_later *check_deadlines(mr_object *owner, int64_t now_ns)
{
    unbatcher *u = (unbatcher *)owner;
    while (u->first && u->first->deadline_ns <= now_ns)
        drop_ready(u, u->first);
    if (u->line.first && oldest_asker(u)->deadline_ns <= now_ns)
        return oldest_asker(u)->later;
    set_alarm(u);
    return NULL;
}

static void ring_unbatcher(mr_object *owner)
{
    unbatcher *u = (unbatcher *)owner;
    mr_lock(&u->on.mu);
    u->late = true;
    mr_waited_unlock(&u->on, NULL);
}

static const mr_alarm_kind unbatcher_alarm = {check_deadlines, ring_unbatcher};

static void end_late(unbatcher *u, mr_waiters *gone)
{
    int64_t now_ns = mr_now_ns();
    u->late = false;
    while (u->line.first && oldest_asker(u)->deadline_ns <= now_ns)
        mr_waiter_let_go(u->line.first, mr_error(MR_DEADLINE_EXCEEDED, "Batched data did not arrive within timeout window."), gone);
    set_alarm(u);
}

/* ---- a run arrives ---- */

static asker *waiting_for(const unbatcher *u, const int64_t *id)
{
    asker *a = mr_map_get(&u->runs, key_of(id));
    return a && a->w.line ? a : NULL;
}

/* Delivers the rows that a brings, perhaps to itself. */
static mr_status *hand_on(unbatcher *u, asker *a, mr_waiters *gone)
{
    for (int64_t i = 0; i < a->n; i++) {
        int64_t id = a->table[3 * i];
        asker *to = waiting_for(u, &id);
        if (to) {
            to->got = mr_tensor_ref(a->parts[i]);
            mr_waiter_let_go(&to->w, NULL, gone);
        } else if (mr_map_get(&u->tensors, key_of(&id))) {
            return mr_error(MR_ALREADY_EXISTS, "Multiple tensors returned for same batch key.");
        } else {
            keep_ready(u, id, a->parts[i], a->deadline_ns);
        }
    }
    return NULL;
}

/* Its own rows may already be here; then the rows it brings are ignored, as in TensorFlow. */
static mr_status *admit_asker(unbatcher *u, asker *a, mr_waiters *gone)
{
    ready *p = mr_map_get(&u->tensors, key_of(&a->id));
    if (p) {
        a->got = mr_tensor_ref(p->t);
        drop_ready(u, p);
        mr_waiter_let_go(&a->w, NULL, gone);
        return NULL;
    }
    if (waiting_for(u, &a->id))
        return mr_error(MR_ALREADY_EXISTS, "Multiple session runs with the same batch key.");
    a->deadline_ns = mr_now_ns() + u->timeout_ns;
    mr_map_put(&u->runs, key_of(&a->id), a);
    MR_TRY(hand_on(u, a, gone));
    if (a->w.line)
        a->later = mr_later_new(a->w.r); /* it must wait */
    return NULL;
}

/* A run that has just arrived is the last in line: see mr_wait. */
static void advance_unbatcher(mr_waited *on, mr_waiters *gone)
{
    unbatcher *u = (unbatcher *)on;
    asker *a = (asker *)u->line.last;
    if (a && a->fresh) {
        a->fresh = false;
        mr_status *st = admit_asker(u, a, gone);
        if (st && a->w.line)
            mr_waiter_let_go(&a->w, st, gone);
        else
            mr_status_free(st); /* its own rows were delivered before the error */
        set_alarm(u);
    }
    if (u->late)
        end_late(u, gone);
}

static mr_status *give_rows(mr_waiter *w)
{
    const asker *a = (asker *)w;
    MR_TRY(mr_batch_check_output(w->r, (mr_dtype)a->got->dtype, a->got->rank, a->got->dims));
    mr_run_set(w->r, 0, mr_tensor_ref(a->got));
    return NULL;
}

static void forget_asker(mr_waiter *w)
{
    asker *a = (asker *)w;
    unbatcher *u = (unbatcher *)w->on;
    mr_lock(&u->on.mu);
    if (mr_map_get(&u->runs, key_of(&a->id)) == a)
        mr_map_remove(&u->runs, key_of(&a->id));
    mr_unlock(&u->on.mu);
    for (int64_t i = 0; i < a->n; i++)
        mr_tensor_unref(a->parts[i]);
    mr_free(a->parts);
    mr_tensor_unref(a->got);
    mr_later_unref(a->later);
}

static const mr_waited_kind unbatcher_kind = {sizeof(asker), advance_unbatcher, give_rows, forget_asker};

/* ---- the kernel ---- */

typedef struct state {
    mr_named named;
    int64_t timeout_ns;
} state;

static void unbatcher_free(mr_object *o)
{
    unbatcher *u = (unbatcher *)o;
    mr_alarm_deinit(&u->alarm);
    while (u->first)
        drop_ready(u, u->first);
    mr_map_deinit(&u->runs);
    mr_map_deinit(&u->tensors);
    mr_waited_deinit(&u->on);
    mr_free(u);
}

static const mr_object_type unbatcher_type = {"millrace::Unbatcher", unbatcher_free};

static mr_status *make_unbatcher(void *ctx, mr_object **out)
{
    const state *s = ctx;
    unbatcher *u = mr_new(unbatcher);
    mr_waited_init(&u->on, &unbatcher_type, &unbatcher_kind);
    u->timeout_ns = s->timeout_ns;
    mr_status *st = mr_alarm_init(&u->alarm, &unbatcher_alarm, &u->on.base, &u->on.mu, s->named.device->pool);
    if (st)
        mr_object_unref(&u->on.base);
    else
        *out = &u->on.base;
    return st;
}

static mr_status *check_inputs(const mr_tensor *data, const mr_tensor *index, const mr_tensor *id)
{
    if (data->rank < 1)
        return mr_invalid("Input batched_tensor must have at least one dimension");
    if (index->rank != 2)
        return mr_invalid("Wrong shape for index tensor. Expected rank 2; Got: %s.", MR_TENSOR_SHAPE(index));
    if (index->dims[0] > data->dims[0])
        return mr_invalid("Wrong shape for index tensor. Expected 0th dimension size to be no greater than %lld; Got: %lld.",
                          (long long)data->dims[0], (long long)index->dims[0]);
    if (index->dims[1] != 3)
        return mr_invalid("Wrong shape for index tensor. Expected 1st dimension size to be 3 ; Got: %lld.", (long long)index->dims[1]);
    if (id->rank != 0)
        return mr_invalid("Input id should be scalar; Got: %s.", MR_TENSOR_SHAPE(id));
    return NULL;
}

/* Splits the rows among the runs, consecutively, as many as the table says. */
static mr_status *cut_rows(asker *a, const mr_tensor *data, const mr_tensor *index)
{
    int64_t n = index->dims[0], at = 0, rows;
    a->table = MR_DATA(int64_t, index);
    a->parts = mr_try_calloc((size_t)n + 1, sizeof *a->parts);
    if (!a->parts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for the rows of %lld runs", (long long)n);
    for (; a->n < n; a->n++, at += rows) {
        const int64_t *t = a->table + 3 * a->n;
        if (__builtin_sub_overflow(t[2], t[1], &rows) || rows < 0)
            return mr_invalid("Invalid rows %lld to %lld of a run in the index tensor", (long long)t[1],
                              (long long)t[2]);
        if (rows > data->dims[0] - at)
            return mr_invalid("Sum of split sizes must not exceed dim0-size of input tensor");
        MR_TRY(mr_tensor_rows(data, at, rows, &a->parts[a->n]));
    }
    return NULL;
}

static void start_unbatch(mr_run *r)
{
    state *s = r->state;
    mr_object *u = NULL;
    mr_status *st = check_inputs(mr_in(r, 0), mr_in(r, 1), mr_in(r, 2));
    if (!st)
        st = mr_named_open(&s->named, make_unbatcher, s, &u);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    asker *a = mr_waiter_new((mr_waited *)u, r, "Unbatch was cancelled");
    a->fresh = true;
    a->id = *MR_DATA(int64_t, mr_in(r, 2));
    if ((st = cut_rows(a, mr_in(r, 0), mr_in(r, 1)))) { /* it never joined the line */
        forget_asker(&a->w);
        mr_small_free(a, sizeof *a);
        mr_object_unref(u);
        mr_run_done(r, st);
        return;
    }
    mr_wait(&a->w, &((unbatcher *)u)->line);
}

static mr_status *init_unbatch(mr_make *m, void *p)
{
    state *s = p;
    int64_t timeout_us;
    MR_TRY(mr_named_init(&s->named, m, &unbatcher_type));
    MR_TRY(mr_node_get_int(m->node, "timeout_micros", &timeout_us));
    s->timeout_ns = MR_MIN(MR_MAX(timeout_us, 0), INT64_MAX / 4000) * 1000;
    return NULL;
}

static void deinit_unbatch(void *p) { mr_named_deinit(&((state *)p)->named); }

static mr_status *unbatch_shape(mr_infer *c) { return mr_batch_any_rows(c, 0, &c->out[0]); }

static void unbatch_backward(mr_grad *g)
{
    char *name = mr_printf("unbatch_gradient_%s", g->node->name);
    mr_dxi(g, 0, mr_emit_with(g->s, "UnbatchGrad", MR_ATTRS({"shared_name", mr_a_str(name)}), mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0),
                              mr_xi(g, 2)));
    mr_free(name);
}

#define EARLIER "a = Unbatch T=$T shared_name=\"u\" timeout_micros=60000000: [1, 2, 3], [[8, 0, 1], [7, 1, 3]], int64 8; shared_name=\"u\" "
MR_OP(Unbatch,
    .doc     = "the rows of one run of what was computed of a batch",
    .sig     = "batched_tensor: T, batch_index: int64, id: int64 -> unbatched_tensor: T",
    .attrs   = "timeout_micros: int; container: string = ''; shared_name: string = ''; T: type",
    .flags   = MR_NO_FOLD,
    .shape   = unbatch_shape,
    .grad    = unbatch_backward,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(start_unbatch)),
    .examples = MR_EXAMPLES(
        "timeout_micros=1000000: [1, 2, 3], [[7, 0, 3]], 7 -> [1, 2, 3]",
        "nograd timeout_micros=1000000: [[1], [2], [3]], [[8, 0, 1], [7, 1, 3]], 7 -> [[2], [3]]",
        "timeout_micros=1000000: [1, 2, 3], [[7, 0, 2]], 7 -> [1, 2]",
        EARLIER "nograd timeout_micros=60000000: shape(0), shape(0,3), 7 -> [2, 3]",
        EARLIER "nograd timeout_micros=60000000: [1], [[7, 0, 1]], 9 -> !ALREADY_EXISTS Multiple tensors returned for same batch key.",
        EARLIER "timeout_micros=60000000: shape(0,2), shape(0,3), 7 -> !INVALID_ARGUMENT of shape [2], expected",
        "a = Unbatch T=string shared_name=\"u\" timeout_micros=60000000: [\"x\", \"y\"], [[8, 0, 1], [7, 1, 2]], int64 8; shared_name=\"u\" "
        "timeout_micros=60000000 T=float: shape(0), shape(0,3), 7 -> !INVALID_ARGUMENT gave string of shape [1], expected float",
        "timeout_micros=1000: shape(0,2), shape(0,3), 7 -> !DEADLINE_EXCEEDED did not arrive within timeout window",
        "timeout_micros=0: [1], [[7, 0, 1]], 8 -> !DEADLINE_EXCEEDED did not arrive within timeout window",
        "timeout_micros=1000: [1], [[1, 0, 1], [2, 1, 1]], 1 -> !INVALID_ARGUMENT no greater than 1; Got: 2",
        "timeout_micros=1000: [1], [[1, 0]], 1 -> !INVALID_ARGUMENT Expected 1st dimension size to be 3",
        "timeout_micros=1000: [1], [1], 1 -> !INVALID_ARGUMENT Expected rank 2",
        "timeout_micros=1000: [1], [[1, 0, 1]], [1] -> !INVALID_ARGUMENT id should be scalar",
        "timeout_micros=1000: 1, [[1, 0, 1]], 1 -> !INVALID_ARGUMENT at least rank 1",
        "timeout_micros=1000: [1], [[1, 0, 2]], 1 -> !INVALID_ARGUMENT Sum of split sizes",
        "timeout_micros=1000: [1], [[1, 2, 1]], 1 -> !INVALID_ARGUMENT rows 2 to 1"),
    .state_bytes = sizeof(state), .init = init_unbatch, .deinit = deinit_unbatch);
