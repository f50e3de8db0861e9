/* ops/queue/stage.c -- see stage.h.
 *
 * Complete and incomplete tuples are in two lists sorted by key; a tuple moves to the first list with its
 * last part.  Waiting attempts are in two lines, one to put and one to take.  After each change all of them
 * are retried, because a tuple may exceed the memory limit while a smaller one after it fits. */
#include "ops/queue/stage.h"

#include "base/memory.h"
#include "ops/queue/waiting.h"

typedef struct tuple { /* in the area */
    int64_t key;
    int n;
    mr_tensor **t; /* NULL: not put yet, or already taken */
} tuple;

typedef struct tuples { /* sorted by key */
    tuple **p;
    size_t from, n, cap; /* tuples are at from..n: taking from the front does not move the rest */
} tuples;

struct mr_stage {
    mr_waited on;
    int64_t capacity, memory_limit;
    int64_t next_key MR_GUARDED_BY(on.mu);
    int64_t bytes MR_GUARDED_BY(on.mu);
    tuples complete MR_GUARDED_BY(on.mu), incomplete MR_GUARDED_BY(on.mu);
    mr_waiters putting MR_GUARDED_BY(on.mu), taking MR_GUARDED_BY(on.mu);
};

typedef enum wish { PUT, PUT_PARTS, TAKE, TAKE_PARTS, TAKE_FIRST_PARTS, PEEK, PEEK_PARTS } wish;

typedef struct attempt {
    mr_waiter w;
    wish what;
    int64_t key;              /* or index */
    const mr_tensor *indices; /* an input of the run; NULL: all */
    int n;                    /* number of tensors put or taken */
    mr_tensor **t;
    int n_types;              /* number of tensors of a complete tuple */
    int64_t bytes;
} attempt;

/* ---- lists ---- */

static void free_tuple(tuple *t)
{
    for (int i = 0; t && i < t->n; i++)
        mr_tensor_unref(t->t[i]);
    if (t)
        mr_free(t->t);
    mr_free(t);
}

static void clear_tuples(tuples *l)
{
    for (size_t i = l->from; i < l->n; i++)
        free_tuple(l->p[i]);
    mr_free(l->p);
    *l = (tuples){0};
}

static int64_t count_tuples(const tuples *l) { return (int64_t)(l->n - l->from); }

/* The position of a key, or where to insert it. */
static size_t place_of(const tuples *l, int64_t key)
{
    size_t lo = l->from, hi = l->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (l->p[mid]->key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static tuple *find_tuple(const tuples *l, int64_t key)
{
    size_t at = place_of(l, key);
    return at < l->n && l->p[at]->key == key ? l->p[at] : NULL;
}

static mr_status *insert_tuple(tuples *l, tuple *t)
{
    if (l->from > 64 && l->from > l->n / 2) { /* compact: more than half of the array is unused */
        memmove(l->p, l->p + l->from, (l->n - l->from) * sizeof *l->p);
        l->n -= l->from;
        l->from = 0;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 16;
        tuple **p = mr_try_realloc(l->p, cap * sizeof *p);
        if (!p)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a staging area");
        l->p = p;
        l->cap = cap;
    }
    size_t at = place_of(l, t->key);
    memmove(l->p + at + 1, l->p + at, (l->n - at) * sizeof *l->p);
    l->p[at] = t;
    l->n++;
    return NULL;
}

static void take_out(tuples *l, const tuple *t)
{
    size_t at = place_of(l, t->key);
    MR_ASSERT(at < l->n && l->p[at] == t);
    if (at == l->from) {
        l->from++;
        return;
    }
    memmove(l->p + at, l->p + at + 1, (l->n - at - 1) * sizeof *l->p);
    l->n--;
}

/* ---- putting ---- */

static int64_t bytes_of(int n, mr_tensor *const *t)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += t[i] ? (int64_t)mr_tensor_bytes(t[i]) : 0;
    return sum;
}

static bool has_room(const mr_stage *s, const attempt *a)
{
    if (s->memory_limit > 0 && a->bytes > s->memory_limit - s->bytes)
        return false;
    return s->capacity <= 0 || count_tuples(&s->complete) < s->capacity;
}

/* A new tuple of n empty places. */
static tuple *new_tuple(int64_t key, int n)
{
    tuple *t = mr_new(tuple);
    t->key = key;
    t->n = n;
    t->t = mr_new_array(mr_tensor *, n + 1);
    return t;
}

static mr_status *fill_part(tuple *t, int64_t index, mr_tensor **v)
{
    if (index < 0 || index >= t->n)
        return mr_invalid("Index '%lld' for key '%lld' is outside of the %d tensors of a tuple",
                          (long long)index, (long long)t->key, t->n);
    if (t->t[index])
        return mr_invalid("The tensor for index '%lld' for key '%lld' was already initialized '%d'.",
                          (long long)index, (long long)t->key, t->n);
    t->t[index] = *v;
    *v = NULL;
    return NULL;
}

static bool is_whole(const tuple *t)
{
    for (int i = 0; i < t->n; i++)
        if (!t->t[i])
            return false;
    return true;
}

/* Adds a complete tuple, which this takes over.  Its key is in use until all of its tensors are taken. */
static mr_status *add_complete(mr_stage *s, tuple *t)
{
    if (find_tuple(&s->complete, t->key)) {
        mr_status *st = mr_invalid("key '%lld' is in the staging area already", (long long)t->key);
        s->bytes -= bytes_of(t->n, t->t);
        free_tuple(t);
        return st;
    }
    mr_status *st = insert_tuple(&s->complete, t);
    if (st) {
        s->bytes -= bytes_of(t->n, t->t);
        free_tuple(t);
    }
    return st;
}

static mr_status *put_parts(mr_stage *s, attempt *a)
{
    tuple *t = find_tuple(&s->incomplete, a->key);
    if (!t) {
        t = new_tuple(a->key, a->n_types);
        mr_status *st = insert_tuple(&s->incomplete, t);
        if (st) {
            free_tuple(t);
            return st;
        }
    }
    for (int i = 0; i < a->n; i++) {
        int64_t bytes = (int64_t)mr_tensor_bytes(a->t[i]);
        MR_TRY(fill_part(t, a->indices ? mr_tensor_int_at(a->indices, i) : i, &a->t[i]));
        s->bytes += bytes;
    }
    if (!is_whole(t))
        return NULL;
    take_out(&s->incomplete, t);
    return add_complete(s, t);
}

static mr_status *put_tuple(mr_stage *s, attempt *a)
{
    if (a->what == PUT_PARTS)
        return put_parts(s, a);
    tuple *t = new_tuple(s->next_key++, a->n);
    for (int i = 0; i < a->n; i++) {
        t->t[i] = a->t[i];
        a->t[i] = NULL;
    }
    s->bytes += a->bytes;
    return add_complete(s, t);
}

/* ---- taking ---- */

/* The tuple that an attempt wants; NULL if it is not in the area yet. */
static tuple *find_wanted(const mr_stage *s, const attempt *a)
{
    const tuples *l = &s->complete;
    switch (a->what) {
    case TAKE:
    case TAKE_FIRST_PARTS: return count_tuples(l) > 0 ? l->p[l->from] : NULL;
    case PEEK: return a->key < count_tuples(l) ? l->p[l->from + (size_t)a->key] : NULL;
    default: return find_tuple(l, a->key);
    }
}

static mr_status *check_part(const tuple *t, int64_t index)
{
    if (index < 0 || index >= t->n)
        return mr_invalid("Index '%lld' for key '%lld' is outside of the %d tensors of a tuple",
                          (long long)index, (long long)t->key, t->n);
    if (!t->t[index])
        return mr_invalid("Tensor at index '%lld' for key '%lld' has already been removed.",
                          (long long)index, (long long)t->key);
    return NULL;
}

static bool is_empty(const tuple *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->t[i])
            return false;
    return true;
}

static mr_status *take_tensors(mr_stage *s, attempt *a, tuple *t)
{
    bool keep = a->what == PEEK || a->what == PEEK_PARTS;
    a->n = a->indices ? (int)a->indices->n : t->n;
    for (int i = 0; a->indices && i < a->n; i++)
        MR_TRY(check_part(t, mr_tensor_int_at(a->indices, i)));
    a->t = mr_new_array(mr_tensor *, a->n + 1);
    a->key = t->key;
    for (int i = 0; i < a->n; i++) {
        mr_tensor **from = &t->t[a->indices ? mr_tensor_int_at(a->indices, i) : i];
        a->t[i] = keep ? mr_tensor_ref(*from) : *from;
        if (!keep)
            *from = NULL;
    }
    if (keep)
        return NULL;
    s->bytes -= bytes_of(a->n, a->t);
    if (is_empty(t)) {
        take_out(&s->complete, t);
        free_tuple(t);
    }
    return NULL;
}

/* ---- waiting ---- */

static bool try_put(mr_stage *s, mr_waiters *gone)
{
    bool any = false;
    for (mr_waiter *w = s->putting.first, *next; w; w = next) {
        next = w->next;
        if (!has_room(s, (attempt *)w))
            continue;
        mr_waiter_let_go(w, put_tuple(s, (attempt *)w), gone);
        any = true;
    }
    return any;
}

static bool try_take(mr_stage *s, mr_waiters *gone)
{
    bool any = false;
    for (mr_waiter *w = s->taking.first, *next; w; w = next) {
        next = w->next;
        tuple *t = find_wanted(s, (attempt *)w);
        if (!t)
            continue;
        mr_waiter_let_go(w, take_tensors(s, (attempt *)w, t), gone);
        any = true;
    }
    return any;
}

static void advance_attempts(mr_waited *on, mr_waiters *gone)
{
    mr_stage *s = (mr_stage *)on;
    bool put_one, took_one;
    do { /* each take makes room for a put, and each put may allow a take */
        put_one = try_put(s, gone);
        took_one = try_take(s, gone);
    } while (put_one || took_one);
}

static mr_status *give_tensors(mr_waiter *w)
{
    attempt *a = (attempt *)w;
    mr_run *r = w->r;
    int first = a->what == TAKE_FIRST_PARTS;
    if (a->what == PUT || a->what == PUT_PARTS)
        return NULL;
    if (a->n != r->n_out - first)
        return mr_invalid("Mismatch stage/unstage: %d vs. %d", a->n, r->n_out - first);
    for (int i = 0; i < a->n; i++)
        if (a->t[i]->dtype != mr_out_dtype(r, first + i))
            return mr_invalid("Mismatch stage/unstage: tensor %d is of type %s, expected %s", i,
                              mr_dtype_name(a->t[i]->dtype),
                              mr_dtype_name(mr_out_dtype(r, first + i)));
    if (first) {
        mr_tensor *key;
        MR_TRY(mr_run_output(r, 0, 0, NULL, &key));
        *MR_DATA(int64_t, key) = a->key;
    }
    for (int i = 0; i < a->n; i++) {
        mr_run_set(r, first + i, a->t[i]);
        a->t[i] = NULL;
    }
    return NULL;
}

static void release_attempt(mr_waiter *w)
{
    attempt *a = (attempt *)w;
    for (int i = 0; a->t && i < a->n; i++)
        mr_tensor_unref(a->t[i]);
    mr_free(a->t);
}

static const mr_waited_kind waiting = {sizeof(attempt), advance_attempts, give_tensors, release_attempt};

/* ---- creation ---- */

static void free_stage(mr_object *o)
{
    mr_stage *s = (mr_stage *)o;
    clear_tuples(&s->complete);
    clear_tuples(&s->incomplete);
    mr_waited_deinit(&s->on);
    mr_free(s);
}

const mr_object_type mr_stage_type = {"tensorflow::Buffer", free_stage};
const mr_object_type mr_map_stage_type = {"tensorflow::StagingMap<false>", free_stage};
const mr_object_type mr_ordered_stage_type = {"tensorflow::StagingMap<true>", free_stage};

mr_status *mr_stage_init(mr_make *m, mr_stage_state *s, const mr_object_type *type)
{
    mr_sv container, shared;
    const mr_attr *types = mr_node_attr(m->node, "dtypes");
    s->type = type;
    s->n_types = types ? types->n : 0;
    MR_TRY(mr_node_get_int(m->node, "capacity", &s->capacity));
    MR_TRY(mr_node_get_int(m->node, "memory_limit", &s->memory_limit));
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    s->container = mr_strndup(container.p, container.n);
    s->name = shared.n ? mr_strndup(shared.p, shared.n) : mr_strdup(m->node->name);
    return NULL;
}

void mr_stage_deinit(void *state)
{
    mr_stage_state *s = state;
    mr_free(s->container);
    mr_free(s->name);
}

static mr_status *make_stage(void *ctx, mr_object **out)
{
    const mr_stage_state *state = ctx;
    mr_stage *s = mr_new(mr_stage);
    mr_waited_init(&s->on, state->type, &waiting);
    s->capacity = state->capacity;
    s->memory_limit = state->memory_limit;
    *out = &s->on.base;
    return NULL;
}

mr_status *mr_stage_of(mr_run *r, mr_stage **out)
{
    const mr_stage_state *s = r->state;
    return mr_resources_find_or_make(r->step->device->resources, mr_sv_of(s->container),
                                     mr_sv_of(s->name), s->type, make_stage,
                                     (void *)(uintptr_t)s, (mr_object **)out);
}

/* ---- the interface ---- */

static attempt *new_attempt(mr_stage *s, mr_run *r, wish what)
{
    attempt *a = mr_waiter_new(&s->on, r, "Operation was cancelled");
    a->what = what;
    return a;
}

/* Ends a run that did not have to wait, and drops the reference to the area. */
static void end_run(mr_stage *s, mr_run *r, mr_status *st)
{
    mr_object_unref(&s->on.base);
    mr_run_done(r, st);
}

static mr_status *check_order(const mr_tensor *indices)
{
    if (indices->rank != 1)
        return mr_invalid("indices must be a vector, got shape %s", MR_TENSOR_SHAPE(indices));
    if (indices->n == 0)
        return mr_invalid("indices must not be empty");
    for (int64_t i = 1; i < indices->n; i++)
        if (mr_tensor_int_at(indices, i) <= mr_tensor_int_at(indices, i - 1))
            return mr_invalid("Indices are not strictly ordered");
    return NULL;
}

/* Starts a put: the attempt gets references to the inputs and waits for room. */
static void start_put(mr_stage *s, mr_run *r, attempt *a, int first_in)
{
    a->n = r->n_in - first_in;
    a->t = mr_new_array(mr_tensor *, a->n + 1);
    for (int i = 0; i < a->n; i++)
        a->t[i] = mr_tensor_ref(mr_in(r, first_in + i));
    a->bytes = bytes_of(a->n, a->t);
    mr_wait(&a->w, &s->putting);
}

static mr_status *check_size(const mr_stage *s, const mr_run *r, int first_in)
{
    int64_t bytes = 0;
    for (int i = first_in; i < r->n_in; i++)
        bytes += (int64_t)mr_tensor_bytes(mr_in(r, i));
    if (s->memory_limit <= 0 || bytes <= s->memory_limit)
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED,
                    "Attempted to insert tensors with combined size of '%lld' bytes into Staging Area "
                    "with a memory limit of '%lld'.", (long long)bytes, (long long)s->memory_limit);
}

void mr_stage_put(mr_stage *s, mr_run *r, int first_in)
{
    mr_status *st = check_size(s, r, first_in);
    if (st)
        end_run(s, r, st);
    else
        start_put(s, r, new_attempt(s, r, PUT), first_in);
}

void mr_stage_put_parts(mr_stage *s, mr_run *r, int64_t key, const mr_tensor *indices, int first_in,
                        int n_types)
{
    mr_status *st = check_order(indices);
    if (!st && indices->n != r->n_in - first_in)
        st = mr_invalid("got %lld indices for %d tensors", (long long)indices->n, r->n_in - first_in);
    if (!st)
        st = check_size(s, r, first_in);
    if (st) {
        end_run(s, r, st);
        return;
    }
    attempt *a = new_attempt(s, r, PUT_PARTS);
    a->key = key;
    a->indices = indices;
    a->n_types = n_types;
    start_put(s, r, a, first_in);
}

static void start_take(mr_stage *s, mr_run *r, wish what, int64_t key, const mr_tensor *indices)
{
    mr_status *st = indices ? check_order(indices) : NULL;
    int n_out = r->n_out - (what == TAKE_FIRST_PARTS);
    if (!st && indices && indices->n != n_out)
        st = mr_invalid("output/indices size mismatch: %d vs. %lld", n_out, (long long)indices->n);
    if (!st && what == PEEK && key < 0)
        st = mr_invalid("index must not be negative, but is %lld", (long long)key);
    if (st) {
        end_run(s, r, st);
        return;
    }
    attempt *a = new_attempt(s, r, what);
    a->key = key;
    a->indices = indices;
    mr_wait(&a->w, &s->taking);
}

void mr_stage_take(mr_stage *s, mr_run *r) { start_take(s, r, TAKE, 0, NULL); }

void mr_stage_take_parts(mr_stage *s, mr_run *r, int64_t key, const mr_tensor *indices)
{
    start_take(s, r, TAKE_PARTS, key, indices);
}

void mr_stage_take_first_parts(mr_stage *s, mr_run *r, const mr_tensor *indices)
{
    start_take(s, r, TAKE_FIRST_PARTS, 0, indices);
}

void mr_stage_peek(mr_stage *s, mr_run *r, int64_t index) { start_take(s, r, PEEK, index, NULL); }

void mr_stage_peek_parts(mr_stage *s, mr_run *r, int64_t key, const mr_tensor *indices)
{
    start_take(s, r, PEEK_PARTS, key, indices);
}

int64_t mr_stage_size(mr_stage *s)
{
    mr_lock(&s->on.mu);
    int64_t n = count_tuples(&s->complete);
    mr_unlock(&s->on.mu);
    return n;
}

int64_t mr_stage_incomplete(mr_stage *s)
{
    mr_lock(&s->on.mu);
    int64_t n = count_tuples(&s->incomplete);
    mr_unlock(&s->on.mu);
    return n;
}

void mr_stage_clear(mr_stage *s)
{
    mr_lock(&s->on.mu);
    clear_tuples(&s->complete);
    clear_tuples(&s->incomplete);
    s->bytes = 0;
    mr_waited_unlock(&s->on, NULL);
}
