/* ops/queue/accumulator.c -- a sum of gradients and the runs that wait for it.
 *
 * Gradients are added under the lock.  A taker gets ownership of the whole sum, so that the division
 * happens outside of the lock.  Only the first taker in line may take.  The error messages are
 * TensorFlow's. */
#include "ops/queue/accumulator.h"

#include <stdlib.h>

#include "base/deterministic.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/queue/gradient_sum.h"
#include "ops/queue/waiting.h"

/* A gradient that is kept until the sum is taken.  The parts are then added in an order that depends only on
 * their content. */
typedef struct part {
    mr_tensor *values, *indices;
} part;
typedef MR_VEC(part) part_list;

struct mr_accumulator {
    mr_waited on;
    mr_accumulator_spec spec;
    mr_arena arena; /* holds the spec */
    int64_t step MR_GUARDED_BY(on.mu);
    mr_gradient_sum sum MR_GUARDED_BY(on.mu);
    part_list parts MR_GUARDED_BY(on.mu); /* instead of the sum, if the result must not depend on arrival order */
    mr_waiters takers MR_GUARDED_BY(on.mu);
};

typedef struct taker {
    mr_waiter w;
    int64_t required;
    mr_gradient_sum sum; /* the sum that it took */
    part_list parts;     /* or the parts that it took */
} taker;

/* ---- new and free ---- */

static void advance_takers(mr_waited *on, mr_waiters *gone);
static mr_status *give_sum(mr_waiter *w);
static void release_taker(mr_waiter *w);

static const mr_waited_kind waiting = {sizeof(taker), advance_takers, give_sum, release_taker};

static void parts_deinit(part_list *l)
{
    for (int i = 0; i < l->n; i++) {
        mr_tensor_unref(l->p[i].values);
        mr_tensor_unref(l->p[i].indices);
    }
    mr_vec_deinit(l);
}

/* A tensor whose shape the next gradient must match; NULL if there is none yet. */
static const mr_tensor *present_locked(const mr_accumulator *a) { return a->parts.n ? a->parts.p[0].values : a->sum.values; }
static int64_t count_locked(const mr_accumulator *a) { return a->sum.count + a->parts.n; }

static void accumulator_free(mr_object *o)
{
    mr_accumulator *a = (mr_accumulator *)o;
    MR_ASSERT(!a->takers.first); /* each taker holds a reference */
    mr_gradient_sum_deinit(&a->sum);
    parts_deinit(&a->parts);
    mr_arena_deinit(&a->arena);
    mr_waited_deinit(&a->on);
    mr_free(a);
}

const mr_object_type mr_accumulator_type = {"tensorflow::ConditionalAccumulatorBase",
                                            accumulator_free};

mr_accumulator *mr_accumulator_new(const mr_accumulator_spec *spec)
{
    mr_accumulator *a = mr_new(mr_accumulator);
    mr_waited_init(&a->on, &mr_accumulator_type, &waiting);
    mr_arena_init(&a->arena, 0);
    a->spec = *spec;
    a->spec.name = mr_arena_strdup(&a->arena, spec->name);
    a->spec.shape = spec->shape->rank < 0
                        ? &mr_pshape_unknown
                        : mr_pshape_of(&a->arena, spec->shape->rank, spec->shape->dims);
    return a;
}

mr_dtype mr_accumulator_dtype(const mr_accumulator *a) { return a->spec.dtype; }
bool mr_accumulator_is_sparse(const mr_accumulator *a) { return a->spec.sparse; }

/* ---- checks ---- */

static mr_status *check_dense_locked(const mr_accumulator *a, const mr_tensor *g)
{
    const mr_pshape *s = a->spec.shape;
    const mr_tensor *present = present_locked(a);
    if (count_locked(a) > 0 && !mr_tensor_same_shape(present, g))
        return mr_invalid("Shape mismatch: expected %s, got %s", MR_TENSOR_SHAPE(present),
                          MR_TENSOR_SHAPE(g));
    bool fits = s->rank < 0 || s->rank == g->rank;
    for (int d = 0; fits && d < s->rank; d++)
        fits = s->dims[d] < 0 || s->dims[d] == g->dims[d];
    return fits ? NULL
                : mr_invalid("Shape mismatch: expected %s, got %s", MR_PSHAPE_TEXT(s),
                             MR_TENSOR_SHAPE(g));
}

static mr_status *check_form(const mr_accumulator_gradient *g)
{
    if (g->indices->rank != 1)
        return mr_invalid("Input indices should be vector but received shape: %s",
                          MR_TENSOR_SHAPE(g->indices));
    if (g->values->rank == 0)
        return mr_invalid("Values cannot be 0-dimensional.");
    if (g->values->dims[0] != g->indices->n)
        return mr_invalid("Expected %lld non-empty input values, got %lld",
                          (long long)g->indices->n, (long long)g->values->dims[0]);
    return NULL;
}

/* Checks the shape that a sparse gradient states. */
static mr_status *check_stated(const mr_pshape *s, const mr_tensor *shape)
{
    if (s->rank > shape->n)
        return mr_invalid("Shape mismatch: expected shape rank at least %d, got %lld", s->rank,
                          (long long)shape->n);
    for (int d = 0; d < s->rank; d++)
        if (s->dims[d] >= 0 && s->dims[d] != mr_tensor_int_at(shape, d))
            return mr_invalid("Shape mismatch: expected shape dim %d to be %lld, got %lld", d,
                              (long long)s->dims[d], (long long)mr_tensor_int_at(shape, d));
    return NULL;
}

static mr_status *check_indices(const mr_pshape *s, const mr_tensor *indices)
{
    if (s->rank < 1 || s->dims[0] < 0)
        return NULL;
    for (int64_t i = 0; i < indices->n; i++)
        if (mr_tensor_int_at(indices, i) >= s->dims[0])
            return mr_invalid("Shape mismatch: index of slice %lld exceeded limits of shape; index "
                              "is %lld exceeded %lld",
                              (long long)i, (long long)mr_tensor_int_at(indices, i),
                              (long long)s->dims[0]);
    return NULL;
}

static mr_status *check_row(int rank, const int64_t *dims, const mr_tensor *values)
{
    for (int d = 1; d < rank; d++)
        if (dims[d] >= 0 && dims[d] != values->dims[d])
            return mr_invalid("Shape mismatch: expected values dim %d to be %lld, got %lld", d,
                              (long long)dims[d], (long long)values->dims[d]);
    return NULL;
}

static mr_status *check_sparse_locked(const mr_accumulator *a, const mr_accumulator_gradient *g)
{
    const mr_pshape *s = a->spec.shape;
    const mr_tensor *sum = present_locked(a), *v = g->values;
    MR_TRY(check_form(g));
    if (g->shape)
        MR_TRY(check_stated(s, g->shape));
    MR_TRY(check_indices(s, g->indices));
    if (sum) {
        if (sum->rank != v->rank)
            return mr_invalid("Shape mismatch: expected values rank %d, got %d", sum->rank,
                              v->rank);
        return check_row(sum->rank, sum->dims, v);
    }
    if (s->rank > v->rank)
        return mr_invalid("Shape mismatch: expected values rank at least %d, got %d", s->rank,
                          v->rank);
    return check_row(s->rank, s->dims, v);
}

/* ---- adding ---- */

static mr_status *apply_locked(mr_accumulator *a, mr_run *r, const mr_accumulator_gradient *g)
{
    MR_ASSERT(a->spec.sparse == (g->indices != NULL));
    MR_TRY(g->indices ? check_sparse_locked(a, g) : check_dense_locked(a, g->values));
    if (!mr_deterministic())
        return mr_gradient_sum_add(&a->sum, r, g->values, g->indices);
    part p = {mr_tensor_ref(g->values), g->indices ? mr_tensor_ref(g->indices) : NULL};
    mr_vec_push(&a->parts, p);
    return NULL;
}

mr_status *mr_accumulator_apply(mr_accumulator *a, mr_run *r, int64_t local_step,
                                const mr_accumulator_gradient *g)
{
    mr_status *st = NULL;
    mr_lock(&a->on.mu);
    if (local_step >= a->step)
        st = apply_locked(a, r, g);
    mr_waited_unlock(&a->on, NULL);
    return st;
}

/* ---- taking ---- */

static void advance_takers(mr_waited *on, mr_waiters *gone)
{
    mr_accumulator *a = (mr_accumulator *)on;
    taker *t;
    while ((t = (taker *)a->takers.first) && count_locked(a) >= t->required) {
        t->sum = a->sum;
        t->parts = a->parts;
        a->sum = (mr_gradient_sum){0};
        a->parts = (part_list){0};
        a->step = (int64_t)((uint64_t)a->step + 1); /* wraps: a client may set any step */
        mr_waiter_let_go(&t->w, NULL, gone);
    }
}

/* The rows of a sparse sum determine all of its shape except the first size. */
static mr_status *give_shape(const mr_accumulator *a, mr_run *r, const mr_tensor *values)
{
    const mr_pshape *s = a->spec.shape;
    mr_tensor *out;
    int64_t rank = values->rank;
    MR_TRY(mr_run_output(r, 2, 1, &rank, &out));
    for (int d = 0; d < rank; d++)
        MR_DATA(int64_t, out)[d] = d > 0 ? values->dims[d] : s->rank > 0 ? s->dims[0] : -1;
    return NULL;
}

/* Orders gradients by their bytes, so that the order does not depend on who sent them first. */
static int by_content(const void *a, const void *b)
{
    const part *x = a, *y = b;
    if (x->values->n != y->values->n)
        return x->values->n < y->values->n ? -1 : 1;
    if (x->values->n == 0)
        return 0;
    int order = x->indices ? memcmp(x->indices->data, y->indices->data, mr_tensor_bytes(x->indices)) : 0;
    return order ? order : memcmp(x->values->data, y->values->data, mr_tensor_bytes(x->values));
}

static mr_status *add_up(taker *t, mr_run *r)
{
    if (t->parts.n > 1)
        qsort(t->parts.p, (size_t)t->parts.n, sizeof *t->parts.p, by_content);
    for (int i = 0; i < t->parts.n; i++)
        MR_TRY(mr_gradient_sum_add(&t->sum, r, t->parts.p[i].values, t->parts.p[i].indices));
    return NULL;
}

static mr_status *give_sum(mr_waiter *w)
{
    const mr_accumulator *a = (const mr_accumulator *)w->on;
    mr_gradient_sum *sum = &((taker *)w)->sum;
    MR_TRY(add_up((taker *)w, w->r));
    if (a->spec.mean)
        MR_TRY(mr_gradient_sum_average(sum, w->r));
    mr_run_set(w->r, a->spec.sparse ? 1 : 0, mr_tensor_ref(sum->values));
    if (!a->spec.sparse)
        return NULL;
    mr_run_set(w->r, 0, mr_tensor_ref(sum->indices));
    return give_shape(a, w->r, sum->values);
}

static void release_taker(mr_waiter *w)
{
    mr_gradient_sum_deinit(&((taker *)w)->sum);
    parts_deinit(&((taker *)w)->parts);
}

void mr_accumulator_take(mr_accumulator *a, mr_run *r, int64_t required)
{
    if (required <= 0) {
        mr_object_unref(&a->on.base);
        mr_run_done(r, mr_invalid("Argument num_required must be positive, but was %lld",
                                  (long long)required));
        return;
    }
    taker *t = mr_waiter_new(&a->on, r, "TakeGrad operation was cancelled");
    t->required = required;
    mr_wait(&t->w, &a->takers);
}

/* ---- step and count ---- */

void mr_accumulator_set_step(mr_accumulator *a, int64_t step)
{
    mr_lock(&a->on.mu);
    int64_t old = a->step;
    a->step = step;
    mr_unlock(&a->on.mu);
    if (step < old)
        mr_warn("accumulator '%s': the step goes back from %lld to %lld", a->spec.name,
                (long long)old, (long long)step);
}

int64_t mr_accumulator_count(mr_accumulator *a)
{
    mr_lock(&a->on.mu);
    int64_t n = count_locked(a);
    mr_unlock(&a->on.mu);
    return n;
}
