/* ops/ps/parameters.c -- MillracePsPull and MillracePsPush: read and update rows of a parameter table (millrace/ps.h)
 * in a graph.
 *
 * Keys may be in any order and may repeat: a pull returns a row for each, a push adds up the rows of equal keys.
 * Stores require distinct keys in increasing order, so the keys are sorted and deduplicated first.
 *
 * Each call has two references to its work: the call's, which on_done drops, and that of the thread that starts it. */
#include <stdlib.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "run/parameter_store.h"
#include "run/run.h"

typedef struct state {
    mr_sv store, table;
    int64_t width;
} state;

static mr_status *init_parameters(mr_make *m, void *p)
{
    state *s = p;
    MR_TRY(mr_node_get_str(m->node, "store", &s->store));
    MR_TRY(mr_node_get_str(m->node, "table", &s->table));
    return mr_node_get_int(m->node, "width", &s->width);
}

/* ---- keys in order ---- */

typedef struct place { /* a key and its position in the input */
    uint64_t key;
    size_t at;
} place;

static int by_key(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->at < y->at ? -1 : x->at > y->at);
}

typedef struct work { /* one call */
    mr_run *r;
    mr_parameter_store *store;
    mr_cancel_entry entry;
    mr_mutex mu;
    int refs MR_GUARDED_BY(mu);      /* one for the call, one for the thread that starts it */
    int64_t call MR_GUARDED_BY(mu);  /* for cancel; 0: not known yet */
    bool cancelled MR_GUARDED_BY(mu);
    bool pull;
    size_t n, n_keys; /* keys in the input; distinct keys */
    size_t width;
    uint64_t *keys;
    size_t *row_of; /* for each key of the input: its row among the distinct keys */
    float *rows;
} work;

static void work_unref(work *w)
{
    mr_lock(&w->mu);
    bool last = --w->refs == 0;
    mr_unlock(&w->mu);
    if (!last)
        return;
    mr_mutex_deinit(&w->mu);
    mr_free(w->keys);
    mr_free(w->row_of);
    mr_free(w->rows);
    mr_free(w);
}

static mr_status *sort_keys(work *w, const int64_t *keys)
{
    size_t bytes;
    bool fits = mr_size_mul(w->n + 1, sizeof(place), &bytes);
    place *p = fits ? mr_try_alloc(bytes) : NULL;
    w->keys = fits ? mr_try_alloc((w->n + 1) * sizeof *w->keys) : NULL;
    w->row_of = fits ? mr_try_alloc((w->n + 1) * sizeof *w->row_of) : NULL;
    mr_status *st = p && w->keys && w->row_of ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %zu keys", w->n);
    for (size_t i = 0; !st && i < w->n; i++) {
        if (keys[i] < 0)
            st = mr_invalid("keys[%zu] is %lld; keys must not be negative", i, (long long)keys[i]);
        p[i] = (place){(uint64_t)keys[i], i};
    }
    if (!st)
        qsort(p, w->n, sizeof *p, by_key);
    for (size_t i = 0; !st && i < w->n; i++) {
        if (i == 0 || p[i].key != p[i - 1].key)
            w->keys[w->n_keys++] = p[i].key;
        w->row_of[p[i].at] = w->n_keys - 1;
    }
    mr_free(p);
    return st;
}

static mr_status *make_rows(work *w)
{
    size_t bytes;
    if (!mr_size_mul(w->n_keys + 1, w->width * sizeof(float), &bytes) || !(w->rows = mr_try_calloc(1, bytes)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %zu rows", w->n_keys);
    return NULL;
}

/* ---- calls ---- */

static mr_status *give_rows(work *w)
{
    mr_tensor *out;
    const mr_tensor *keys = mr_in(w->r, 0);
    mr_shape shape;
    mr_shape_set(&shape, keys->rank, keys->dims);
    MR_TRY(mr_shape_push(&shape, (int64_t)w->width));
    MR_TRY(mr_run_output(w->r, 0, shape.rank, shape.dims, &out));
    for (size_t i = 0; i < w->n; i++)
        memcpy(MR_DATA(float, out) + i * w->width, w->rows + w->row_of[i] * w->width, w->width * sizeof(float));
    return NULL;
}

static void on_cancel(mr_cancel_entry *e)
{
    work *w = (work *)((char *)e - offsetof(work, entry));
    mr_lock(&w->mu);
    w->cancelled = true;
    int64_t call = w->call;
    mr_unlock(&w->mu);
    mr_parameter_store *s;
    if (call && !mr_parameter_store_take(((const state *)w->r->state)->store, &s)) {
        s->cancel(s, call);
        mr_parameter_store_give(s);
    }
}

static void on_done(void *arg, mr_status *st)
{
    work *w = arg;
    mr_run *r = w->r;
    mr_cancel_unregister(r->step->cancel, &w->entry);
    if (!st && w->pull)
        st = give_rows(w);
    work_unref(w);
    mr_run_done(r, st);
}

/* Starts the call.  If the step is cancelled before the store returned the call's id, the call is cancelled
 * afterwards, here. */
static void start_call(work *w, mr_parameter_store *s, int table)
{
    mr_parameter_call c = {.push = !w->pull, .table = table, .keys = w->keys, .n = w->n_keys, .done = on_done, .arg = w};
    *(w->pull ? &c.out : (float **)&c.values) = w->rows;
    w->refs = 2;
    if (!mr_cancel_register(w->r->step->cancel, &w->entry)) {
        w->refs = 1;
        mr_run *r = w->r;
        work_unref(w);
        mr_run_done(r, mr_error(MR_CANCELLED, "The step was cancelled"));
        return;
    }
    int64_t call = s->start(s, &c);
    mr_lock(&w->mu);
    w->call = call;
    bool late = w->cancelled;
    mr_unlock(&w->mu);
    if (late && call)
        s->cancel(s, call);
    work_unref(w);
}

static mr_status *prepare_call(work *w, mr_parameter_store *s, int *table)
{
    const state *a = w->r->state;
    const mr_tensor *keys = mr_in(w->r, 0);
    int width, push_width;
    MR_TRY(s->find(s, a->table, table, &width, &push_width));
    w->width = (size_t)(w->pull ? width : push_width);
    if (a->width != (int64_t)w->width)
        return mr_invalid("table '%.*s' has %zu floats per key, but attr width is %lld", MR_SV_ARG(a->table), w->width,
                          (long long)a->width);
    w->n = (size_t)keys->n;
    if (!w->pull && mr_in(w->r, 1)->n != (int64_t)(w->n * w->width))
        return mr_invalid("%zu keys with values of shape %s, expected %zu floats per key", w->n,
                          MR_TENSOR_SHAPE(mr_in(w->r, 1)), w->width);
    MR_TRY(sort_keys(w, MR_DATA(int64_t, keys)));
    MR_TRY(make_rows(w));
    for (size_t i = 0; !w->pull && i < w->n; i++)
        for (size_t j = 0; j < w->width; j++)
            w->rows[w->row_of[i] * w->width + j] += MR_DATA(float, mr_in(w->r, 1))[i * w->width + j];
    return NULL;
}

static void run_call(mr_run *r, bool pull)
{
    mr_parameter_store *s;
    int table;
    mr_status *st = mr_parameter_store_take(((const state *)r->state)->store, &s);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    work *w = mr_new(work);
    mr_mutex_init(&w->mu);
    w->r = r;
    w->pull = pull;
    w->refs = 1;
    w->entry.fn = on_cancel;
    st = prepare_call(w, s, &table);
    if (st) {
        work_unref(w);
        mr_run_done(r, st);
    } else {
        start_call(w, s, table);
    }
    mr_parameter_store_give(s);
}

static void run_pull(mr_run *r) { run_call(r, true); }
static void run_push(mr_run *r) { run_call(r, false); }

/* ---- shapes ---- */

static mr_status *pull_shape(mr_infer *c)
{
    int64_t width;
    MR_TRY(mr_node_get_int(c->node, "width", &width));
    c->out[0] = mr_infer_concat(c, c->in[0], mr_pshape_vector(c->arena, width));
    return NULL;
}

static mr_status *push_shape(mr_infer *c)
{
    (void)c;
    return NULL;
}

#define ATTRS "table: string; width: int >= 1 = 1; store: string = ''"

MR_OP(MillracePsPull,
    .doc      = "rows of a parameter table, one for each key",
    .sig      = "keys: int64 -> values: float",
    .attrs    = ATTRS,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = pull_shape,
    .kernels  = MR_KERNELS(MR_CPU_ASYNC(run_pull)),
    .state_bytes = sizeof(state), .init = init_parameters,
    .examples = MR_EXAMPLES("table=\"t\" store=\"none\": int64[1, 2] -> !NOT_FOUND No parameter store 'none'"));

MR_OP(MillracePsPush,
    .doc      = "pushes rows to a parameter table; rows with the same key are added up",
    .sig      = "keys: int64, values: float ->",
    .attrs    = ATTRS,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = push_shape,
    .kernels  = MR_KERNELS(MR_CPU_ASYNC(run_push)),
    .state_bytes = sizeof(state), .init = init_parameters,
    .examples = MR_EXAMPLES("table=\"t\" store=\"none\": int64[1], float[2] -> !NOT_FOUND No parameter store 'none'"));
