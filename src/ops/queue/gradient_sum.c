/* ops/queue/gradient_sum.c -- see gradient_sum.h.
 *
 * The first gradient is kept, not copied; a sum that has other references is copied before it is
 * written to.  Integer additions wrap. */
#include "ops/queue/gradient_sum.h"

#include "base/memory.h"
#include "ops/maths.h"
#include "ops/state/update.h"

void mr_gradient_sum_deinit(mr_gradient_sum *s)
{
    mr_tensor_unref(s->values);
    mr_tensor_unref(s->indices);
    mr_tensor_unref(s->touched);
    *s = (mr_gradient_sum){0};
}

/* ---- element loops ---- */

typedef void divide_loop(void *x, int64_t by, int64_t n);

#define DIVIDE(E, name, number, S, C, W)                    \
    static void divide_##name(void *p, int64_t by, int64_t n) \
    {                                                       \
        S *x = p;                                           \
        for (int64_t i = 0; i < n; i++)                     \
            MR_ST(x + i, (C)(MR_LD(x + i) / (W)by));        \
    }
MR_FLOATS16(DIVIDE, float)
MR_TYPE_FLOAT(DIVIDE, float)
MR_TYPE_DOUBLE(DIVIDE, double)
MR_TYPE_COMPLEX64(DIVIDE, float)
MR_TYPE_COMPLEX128(DIVIDE, double)
MR_SIGNED(DIVIDE, int64_t)
MR_UNSIGNED(DIVIDE, uint64_t)

static divide_loop *divide_find(mr_dtype t)
{
#define ROW(E, name, number, S, C, ...) [MR_##E] = divide_##name,
    static divide_loop *const loops[MR_UINT64 + 1] = {MR_NUMBERS(ROW, ) MR_CODES(ROW, )};
    MR_ASSERT(t <= MR_UINT64 && loops[t]);
    return loops[t];
}

static mr_update_loop *add_find(mr_dtype t)
{
    mr_update_loop *add = mr_update_find(MR_UPDATE_ADD, t);
    MR_ASSERT(add);
    return add;
}

static char *element_at(const mr_tensor *t, int64_t i)
{
    return (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype);
}

/* Replaces *t by a copy if it has other references, so that it can be written to. */
static mr_status *make_sole_owner(mr_tensor **t, mr_run *r)
{
    mr_tensor *copy;
    if (mr_tensor_sole(*t))
        return NULL;
    MR_TRY(mr_tensor_copy(mr_run_allocator(r), *t, &copy));
    mr_tensor_unref(*t);
    *t = copy;
    return NULL;
}

/* ---- dense ---- */

typedef struct job {
    mr_tensor *to;
    const mr_tensor *from;
    int64_t by;
} job;

enum { COST_NS = 1 }; /* per element, roughly */

static void add_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    add_find((mr_dtype)j->to->dtype)(element_at(j->to, begin), element_at(j->from, begin), end - begin);
}

static mr_status *add_dense(mr_gradient_sum *s, mr_run *r, mr_tensor *values)
{
    MR_ASSERT(mr_tensor_same_shape(s->values, values));
    MR_TRY(make_sole_owner(&s->values, r));
    job j = {s->values, values, 0};
    if (values->n > 0)
        mr_run_for(r, values->n, COST_NS, add_part, &j);
    return NULL;
}

/* ---- sparse ---- */

static int64_t index_at(const mr_tensor *t, int64_t i) { return MR_DATA(int64_t, t)[i]; }

/* A merge of two sorted lists: the next index is in a, in b, or (both true) in both. */
typedef struct merge {
    const mr_tensor *a, *b; /* indices */
    int64_t i, k;
    bool in_a, in_b;
} merge;

static bool merge_next(merge *m)
{
    bool more_a = m->i < m->a->n, more_b = m->k < m->b->n;
    if (!more_a && !more_b)
        return false;
    m->in_a = more_a && (!more_b || index_at(m->a, m->i) <= index_at(m->b, m->k));
    m->in_b = more_b && (!more_a || index_at(m->a, m->i) >= index_at(m->b, m->k));
    return true;
}

static void merge_step(merge *m)
{
    m->i += m->in_a;
    m->k += m->in_b;
}

static int64_t merged_rows(const mr_tensor *a, const mr_tensor *b)
{
    int64_t n = 0;
    for (merge m = {a, b}; merge_next(&m); merge_step(&m))
        n++;
    return n;
}

static mr_status *make_sum(const mr_gradient_sum *s, mr_run *r, int64_t rows, mr_gradient_sum *out)
{
    mr_allocator *a = mr_run_allocator(r);
    mr_shape shape;
    mr_shape_set(&shape, s->values->rank, s->values->dims);
    shape.dims[0] = rows;
    MR_TRY(mr_tensor_new(a, MR_INT64, 1, &rows, &out->indices));
    MR_TRY(mr_tensor_new(a, MR_INT64, 1, &rows, &out->touched));
    return mr_tensor_new(a, (mr_dtype)s->values->dtype, shape.rank, shape.dims, &out->values);
}

/* Elements of a row. */
static int64_t row_size(const mr_tensor *values)
{
    int64_t n = 1;
    for (int d = 1; d < values->rank; d++)
        n *= values->dims[d];
    return n;
}

static void merge_row(const mr_gradient_sum *s, const mr_tensor *values, const merge *m,
                      int64_t row, mr_gradient_sum *out)
{
    int64_t each = row_size(values);
    const mr_tensor *from = m->in_a ? s->values : values;
    int64_t where = m->in_a ? m->i : m->k;
    MR_DATA(int64_t, out->indices)[row] = index_at(m->in_a ? m->a : m->b, where);
    MR_DATA(int64_t, out->touched)[row] =
        (m->in_a ? s->touched ? index_at(s->touched, m->i) : 1 : 0) + m->in_b;
    if (each == 0)
        return;
    memcpy(element_at(out->values, row * each), element_at(from, where * each),
           (size_t)each * mr_dtype_size((mr_dtype)values->dtype));
    if (m->in_a && m->in_b)
        add_find((mr_dtype)values->dtype)(element_at(out->values, row * each), element_at(values, m->k * each),
                                          each);
}

static mr_status *add_sparse(mr_gradient_sum *s, mr_run *r, mr_tensor *values, mr_tensor *indices)
{
    mr_gradient_sum out = {.count = s->count};
    mr_status *st = make_sum(s, r, merged_rows(s->indices, indices), &out);
    if (st) {
        mr_gradient_sum_deinit(&out);
        return st;
    }
    int64_t row = 0;
    for (merge m = {s->indices, indices}; merge_next(&m); merge_step(&m))
        merge_row(s, values, &m, row++, &out);
    mr_gradient_sum_deinit(s);
    *s = out;
    return NULL;
}

/* ---- both ---- */

mr_status *mr_gradient_sum_add(mr_gradient_sum *s, mr_run *r, mr_tensor *values,
                               mr_tensor *indices)
{
    if (s->count == 0) {
        s->values = mr_tensor_ref(values);
        s->indices = mr_tensor_ref(indices);
    } else if (indices) {
        MR_TRY(add_sparse(s, r, values, indices));
    } else {
        MR_TRY(add_dense(s, r, values));
    }
    s->count++;
    return NULL;
}

static void divide_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    divide_find((mr_dtype)j->to->dtype)(element_at(j->to, begin), j->by, end - begin);
}

mr_status *mr_gradient_sum_average(mr_gradient_sum *s, mr_run *r)
{
    if (s->count == 1 || (s->indices && !s->touched))
        return NULL;
    MR_TRY(make_sole_owner(&s->values, r));
    if (!s->indices) {
        job j = {.to = s->values, .by = s->count};
        if (s->values->n > 0)
            mr_run_for(r, s->values->n, COST_NS, divide_part, &j);
        return NULL;
    }
    int64_t each = row_size(s->values);
    divide_loop *divide = divide_find((mr_dtype)s->values->dtype);
    for (int64_t row = 0; each > 0 && row < s->touched->n; row++)
        divide(element_at(s->values, row * each), index_at(s->touched, row), each);
    return NULL;
}
