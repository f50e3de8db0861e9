/* ops/queue/barrier.c -- see barrier.h.
 *
 * A key gets a number with its first component, counted from the smallest int64; the new keys of one insertion
 * share a number.  While components are missing, its tuple is in `incomplete`; then in `ready`, sorted by number.
 * Only takes wait: the first in line waits until there are enough tuples, or until no more can become ready.  A
 * take with allow_small that begins after the close takes the tuples that are ready and never waits. */
#include "ops/queue/barrier.h"

#include "base/map.h"
#include "base/memory.h"
#include "ops/queue/waiting.h"

typedef struct element {
    int64_t index;
    mr_sv key; /* owned */
    int n_set;
    mr_tensor **t; /* NULL: missing */
} element;

struct mr_tuple_barrier {
    mr_waited on;
    char *name;
    mr_arena arena;
    mr_tuple_type tuple; /* in the arena */
    int64_t next_index MR_GUARDED_BY(on.mu);
    mr_map incomplete MR_GUARDED_BY(on.mu); /* by key */
    MR_VEC(element *) ready MR_GUARDED_BY(on.mu);
    bool closed MR_GUARDED_BY(on.mu), cancelled MR_GUARDED_BY(on.mu);
    mr_waiters taking MR_GUARDED_BY(on.mu);
};

typedef struct taker {
    mr_waiter w;
    int64_t n;
    bool allow_small, late; /* late: the barrier was already closed when the take began */
    int n_got;
    element **got;
} taker;

/* ---- elements ---- */

static void free_element(element *e, int n)
{
    if (!e)
        return;
    for (int i = 0; i < n; i++)
        mr_tensor_unref(e->t[i]);
    mr_free((void *)(uintptr_t)e->key.p);
    mr_free(e->t);
    mr_free(e);
}

static element *new_element(mr_tuple_barrier *b, mr_sv key) MR_REQUIRES(b->on.mu)
{
    element *e = mr_new(element);
    e->key = (mr_sv){mr_strndup(key.p, key.n), key.n};
    e->t = mr_new_array(mr_tensor *, b->tuple.n);
    e->index = b->next_index;
    return e;
}

static void make_ready(mr_tuple_barrier *b, element *e) MR_REQUIRES(b->on.mu)
{
    mr_vec_push(&b->ready, e);
    for (int i = b->ready.n - 1; i > 0 && b->ready.p[i - 1]->index > e->index; i--) {
        b->ready.p[i] = b->ready.p[i - 1];
        b->ready.p[i - 1] = e;
    }
}

/* No more tuples can become ready. */
static bool is_final(const mr_tuple_barrier *b) { return b->closed && b->incomplete.n == 0; }

/* ---- inserting ---- */

static mr_status *check_rows(const mr_tuple_barrier *b, const mr_tensor *keys, const mr_tensor *values,
                             int64_t c)
{
    if (c < 0 || c >= b->tuple.n)
        return mr_invalid("The component ID is out of range %lld > num_components (= %d)", (long long)c,
                          b->tuple.n);
    if (keys->rank != 1 || values->rank < 1 || values->dims[0] != keys->n)
        return mr_invalid("keys must be a vector and values have a row for each of them, got shapes %s "
                          "and %s", MR_TENSOR_SHAPE(keys), MR_TENSOR_SHAPE(values));
    if (values->dtype != mr_dtype_base(b->tuple.types[c]))
        return mr_invalid("Component %lld of barrier '%s' is of type %s, but values are of type %s",
                          (long long)c, b->name, mr_dtype_name(b->tuple.types[c]),
                          mr_dtype_name(values->dtype));
    if (keys->n > 0 && values->n == 0)
        return mr_invalid("Tensors with no elements are not supported %s: received shape %s", b->name,
                          MR_TENSOR_SHAPE(values));
    if (b->tuple.n_shapes == 0 || b->tuple.shapes[c]->rank < 0)
        return NULL;
    const mr_pshape *want = b->tuple.shapes[c];
    if (!mr_shape_eq(want->rank, want->dims, values->rank - 1, values->dims + 1))
        return mr_invalid("Shape mismatch in tuple component %lld. Expected %s, got %s", (long long)c,
                          MR_PSHAPE_TEXT(want), MR_SHAPE_TEXT(values->rank - 1, values->dims + 1));
    return NULL;
}

static mr_status *check_open(const mr_tuple_barrier *b, int64_t n)
{
    if (!b->closed || (!b->cancelled && (n == 0 || b->incomplete.n > 0)))
        return NULL;
    return mr_error(MR_CANCELLED, "Barrier %s is closed.  Pending enqueues cancelled: %d.  Number of new "
                                  "insertions: %lld.  Number of incomplete keys: %u.", b->name,
                    b->cancelled, (long long)n, b->incomplete.n);
}

/* Finds or creates the tuple of a key, which is row i of an insertion. */
static mr_status *element_of(mr_tuple_barrier *b, mr_sv key, int64_t i, element **out) MR_REQUIRES(b->on.mu)
{
    *out = mr_map_get(&b->incomplete, key);
    if (*out)
        return NULL;
    if (b->closed)
        return mr_error(MR_CANCELLED, "Barrier %s is closed, but attempted to insert a brand new key: "
                                      "%.*s.  Pending enqueues cancelled: %d.  Insertion index: %lld.  "
                                      "Number of incomplete keys: %u.", b->name, MR_SV_ARG(key),
                        b->cancelled, (long long)i, b->incomplete.n);
    *out = new_element(b, key);
    mr_map_put(&b->incomplete, key, *out);
    return NULL;
}

/* Copies a row into a separate tensor, so that one row does not keep the whole batch in memory. */
static mr_status *copy_row(const mr_tensor *values, int64_t i, mr_tensor **out)
{
    int64_t width = values->n / values->dims[0];
    MR_TRY(mr_tensor_new(NULL, values->dtype, values->rank - 1, values->dims + 1, out));
    mr_status *st = mr_tensor_try_copy_elements(*out, 0, values, i * width, width);
    if (st)
        mr_tensor_unref(*out);
    return st;
}

static mr_status *insert_one(mr_tuple_barrier *b, mr_sv key, const mr_tensor *values, int64_t i, int64_t c,
                             bool *any_new) MR_REQUIRES(b->on.mu)
{
    element *e;
    mr_tensor *row;
    MR_TRY(element_of(b, key, i, &e));
    if (e->t[c])
        return mr_invalid("Key %.*s already has a value for component %lld in barrier %s",
                          MR_SV_ARG(key), (long long)c, b->name);
    *any_new |= e->n_set == 0;
    MR_TRY(copy_row(values, i, &row));
    e->t[c] = row;
    if (++e->n_set < b->tuple.n)
        return NULL;
    mr_map_remove(&b->incomplete, key);
    make_ready(b, e);
    return NULL;
}

mr_status *mr_tuple_barrier_insert(mr_tuple_barrier *b, const mr_tensor *keys, const mr_tensor *values,
                             int64_t component)
{
    MR_TRY(check_rows(b, keys, values, component));
    mr_lock(&b->on.mu);
    mr_status *st = check_open(b, keys->n);
    bool any_new = false;
    for (int64_t i = 0; i < keys->n && !st; i++)
        st = insert_one(b, mr_tensor_str_at(keys, i), values, i, component, &any_new);
    if (!st && any_new && b->next_index < INT64_MAX)
        b->next_index++;
    mr_waited_unlock(&b->on, NULL);
    return st;
}

/* ---- taking ---- */

static mr_status *too_few(const mr_tuple_barrier *b, int64_t wanted, int64_t there)
{
    return mr_error(MR_OUT_OF_RANGE, "Barrier '%s' is closed and has insufficient elements (requested "
                                     "%lld, total size %lld)", b->name, (long long)wanted,
                    (long long)there);
}

/* How many tuples the first in line gets now; -1 if it must wait. */
static int64_t how_many(const mr_tuple_barrier *b, const taker *t, mr_status **st)
{
    int64_t there = b->ready.n;
    bool takes_what_is = t->allow_small && b->closed && (t->late || is_final(b));
    int64_t wanted = takes_what_is ? MR_MIN(t->n, there) : t->n;
    int64_t coming = takes_what_is ? there : there + b->incomplete.n;
    if (b->closed && coming < MR_MAX(wanted, 1) && (!t->allow_small || takes_what_is)) {
        *st = too_few(b, wanted, coming);
        return 0;
    }
    return there >= wanted ? wanted : -1;
}

static void take_ready(mr_tuple_barrier *b, taker *t, int64_t n) MR_REQUIRES(b->on.mu)
{
    t->got = mr_new_array(element *, n + 1);
    t->n_got = (int)n;
    memcpy(t->got, b->ready.p, (size_t)n * sizeof *t->got);
    b->ready.n -= (int)n;
    memmove(b->ready.p, b->ready.p + n, (size_t)b->ready.n * sizeof *b->ready.p);
}

static void advance_takers(mr_waited *on, mr_waiters *gone) MR_NO_TSA
{
    mr_tuple_barrier *b = (mr_tuple_barrier *)on;
    while (b->taking.first) {
        taker *t = (taker *)b->taking.first;
        mr_status *st = NULL;
        int64_t n = how_many(b, t, &st);
        if (n < 0)
            return;
        if (!st && n > 0)
            take_ready(b, t, n);
        mr_waiter_let_go(&t->w, st, gone);
    }
}

/* Stacks component c of all tuples as the rows of an output. */
static mr_status *stack_component(const taker *t, const mr_tuple_barrier *b, int c)
{
    mr_run *r = t->w.r;
    mr_shape shape;
    mr_tensor *out;
    const mr_tensor *like = t->n_got ? t->got[0]->t[c] : NULL;
    shape.rank = 0;
    MR_TRY(mr_shape_push(&shape, t->n_got));
    const mr_pshape *known = b->tuple.n_shapes ? b->tuple.shapes[c] : NULL;
    int rank = like ? like->rank : known ? known->rank : 0;
    for (int d = 0; d < rank; d++)
        MR_TRY(mr_shape_push(&shape, like ? like->dims[d] : known->dims[d]));
    MR_TRY(mr_run_output(r, 2 + c, shape.rank, shape.dims, &out));
    for (int i = 0; i < t->n_got; i++) {
        const mr_tensor *row = t->got[i]->t[c];
        if (!mr_tensor_same_shape(row, like))
            return mr_invalid("component %d of barrier '%s' has shapes %s and %s, which cannot be "
                              "stacked", c, b->name, MR_TENSOR_SHAPE(like), MR_TENSOR_SHAPE(row));
        MR_TRY(mr_tensor_try_copy_elements(out, i * row->n, row, 0, row->n));
    }
    return NULL;
}

static mr_status *give_tuples(mr_waiter *w)
{
    taker *t = (taker *)w;
    const mr_tuple_barrier *b = (mr_tuple_barrier *)w->on;
    mr_tensor *indices, *keys;
    MR_TRY(mr_run_output(w->r, 0, 1, (int64_t[]){t->n_got}, &indices));
    MR_TRY(mr_run_output(w->r, 1, 1, (int64_t[]){t->n_got}, &keys));
    for (int i = 0; i < t->n_got; i++) {
        MR_DATA(int64_t, indices)[i] = t->got[i]->index;
        MR_TRY(mr_tensor_set_str(keys, i, t->got[i]->key));
    }
    for (int c = 0; c < b->tuple.n; c++)
        MR_TRY(stack_component(t, b, c));
    return NULL;
}

static void release_taker(mr_waiter *w)
{
    taker *t = (taker *)w;
    for (int i = 0; i < t->n_got; i++)
        free_element(t->got[i], ((mr_tuple_barrier *)w->on)->tuple.n);
    mr_free(t->got);
}

static const mr_waited_kind waiting = {sizeof(taker), advance_takers, give_tuples, release_taker};

void mr_tuple_barrier_take(mr_tuple_barrier *b, mr_run *r, int64_t n, bool allow_small)
{
    taker *t = mr_waiter_new(&b->on, r, "Dequeue operation was cancelled");
    t->n = n;
    t->allow_small = allow_small;
    mr_lock(&b->on.mu);
    t->late = b->closed;
    mr_unlock(&b->on.mu);
    mr_wait(&t->w, &b->taking);
}

/* ---- close, sizes, new and free ---- */

static void drop_incomplete(mr_tuple_barrier *b) MR_REQUIRES(b->on.mu)
{
    uint32_t pos = 0;
    mr_sv key;
    void *e;
    while (mr_map_next(&b->incomplete, &pos, &key, &e))
        free_element(e, b->tuple.n);
    mr_map_deinit(&b->incomplete);
    b->incomplete = (mr_map){0};
}

mr_status *mr_tuple_barrier_close(mr_tuple_barrier *b, bool cancel)
{
    mr_status *st = NULL;
    mr_lock(&b->on.mu);
    if (b->closed && (b->cancelled || !cancel))
        st = mr_error(MR_CANCELLED, "Barrier '%s' is already closed.", b->name);
    b->closed = true;
    b->cancelled |= cancel;
    if (b->cancelled)
        drop_incomplete(b);
    mr_waited_unlock(&b->on, NULL);
    return st;
}

int64_t mr_tuple_barrier_ready(mr_tuple_barrier *b)
{
    mr_lock(&b->on.mu);
    int64_t n = b->ready.n;
    mr_unlock(&b->on.mu);
    return n;
}

int64_t mr_tuple_barrier_incomplete(mr_tuple_barrier *b)
{
    mr_lock(&b->on.mu);
    int64_t n = b->incomplete.n;
    mr_unlock(&b->on.mu);
    return n;
}

static void free_barrier(mr_object *o) MR_NO_TSA
{
    mr_tuple_barrier *b = (mr_tuple_barrier *)o;
    drop_incomplete(b);
    for (int i = 0; i < b->ready.n; i++)
        free_element(b->ready.p[i], b->tuple.n);
    mr_vec_deinit(&b->ready);
    mr_free(b->name);
    mr_arena_deinit(&b->arena);
    mr_waited_deinit(&b->on);
    mr_free(b);
}

const mr_object_type mr_tuple_barrier_type = {"tensorflow::barrier::Barrier", free_barrier};

mr_tuple_barrier *mr_tuple_barrier_new(const char *name, const mr_tuple_type *t)
{
    mr_tuple_barrier *b = mr_new(mr_tuple_barrier);
    mr_waited_init(&b->on, &mr_tuple_barrier_type, &waiting);
    mr_arena_init(&b->arena, 0);
    b->tuple = mr_tuple_type_copy(&b->arena, t);
    b->name = mr_strdup(name);
    b->next_index = INT64_MIN;
    return b;
}

const mr_tuple_type *mr_tuple_barrier_tuple(const mr_tuple_barrier *b) { return &b->tuple; }

static void print_shapes(mr_str *out, const mr_tuple_type *t)
{
    for (int i = 0; i < t->n_shapes; i++) {
        mr_str_appendz(out, i ? ", " : "[");
        mr_pshape_print(out, t->shapes[i]);
    }
    mr_str_appendz(out, t->n_shapes ? "]" : "[]");
}

mr_status *mr_tuple_barrier_matches(const mr_tuple_barrier *b, const mr_tuple_type *t)
{
    mr_str ours = {0}, theirs = {0};
    mr_tuple_print_types(&ours, &b->tuple);
    mr_tuple_print_types(&theirs, t);
    mr_status *st = mr_sv_eq(mr_str_view(&ours), mr_str_view(&theirs))
                        ? NULL
                        : mr_invalid("Shared barrier '%s' has component types %s but requested component "
                                     "types were %s", b->name, mr_str_z(&ours), mr_str_z(&theirs));
    mr_str_clear(&ours);
    mr_str_clear(&theirs);
    print_shapes(&ours, &b->tuple);
    print_shapes(&theirs, t);
    if (!st && !mr_sv_eq(mr_str_view(&ours), mr_str_view(&theirs)))
        st = mr_invalid("Shared barrier '%s' has component shapes %s but requested component shapes were %s", b->name,
                        mr_str_z(&ours), mr_str_z(&theirs));
    mr_str_deinit(&ours);
    mr_str_deinit(&theirs);
    return st;
}
