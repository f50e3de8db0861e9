/* ops/data/stack.c -- see stack.h. */
#include "ops/data/stack.h"

#include "base/memory.h"

enum { MOST_AT_ONCE = 1024 }; /* rows of a block that is asked for, however large the batch */

void mr_gathered_drop(mr_gathered *e, int64_t n)
{
    size_t row = sizeof *e->p * (size_t)e->width;
    for (int64_t i = 0; i < n; i++)
        mr_element_drop(mr_gathered_at(e, i), e->width);
    if (e->n > n)
        memmove(e->p, mr_gathered_at(e, n), row * (size_t)(e->n - n));
    e->n -= n;
}

void mr_gathered_deinit(mr_gathered *e)
{
    if (e->n > 0)
        mr_gathered_drop(e, e->n);
    mr_free(e->p);
    *e = (mr_gathered){0};
}

mr_status *mr_gathered_reserve(mr_gathered *e, int64_t rows)
{
    MR_ASSERT(rows >= 0 && e->n <= e->cap);
    if (rows <= e->cap - e->n)
        return NULL;
    int64_t cap = MR_MAX(MR_MAX(e->cap, 8) * 2, e->n + rows);
    size_t bytes, row = sizeof *e->p * (size_t)e->width;
    void *p = mr_size_mul((size_t)cap, row, &bytes) ? mr_try_realloc(e->p, bytes) : NULL;
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld elements", (long long)cap);
    e->p = p;
    e->cap = cap;
    return NULL;
}

mr_status *mr_gathered_push(mr_gathered *e, mr_tensor *const *t)
{
    mr_status *st = mr_gathered_reserve(e, 1);
    for (int i = 0; st && i < e->width; i++)
        mr_tensor_unref(t[i]);
    if (st)
        return st;
    memcpy(mr_gathered_at(e, e->n), t, sizeof *t * (size_t)e->width);
    e->n++;
    return NULL;
}

/* The elements arrive in their places. */
mr_status *mr_gathered_fill(mr_gathered *e, mr_iterator *from, int64_t most, bool *end)
{
    e->width = from->dataset->n;
    *end = false;
    while (!*end && e->n < most) {
        int64_t n, wanted = MR_MIN(most - e->n, MR_MAX(MOST_AT_ONCE, e->n));
        MR_TRY(mr_gathered_reserve(e, wanted));
        mr_status *st = mr_iterator_next_block(from, wanted, mr_gathered_at(e, e->n), &n, end);
        e->n += n;
        MR_TRY(st);
    }
    return NULL;
}

/* ---- stacking ---- */

static mr_status *new_batch(const mr_tensor *like, int64_t n, mr_tensor **out)
{
    mr_shape s = {.rank = 0};
    MR_TRY(mr_shape_push(&s, n));
    for (int i = 0; i < like->rank; i++)
        MR_TRY(mr_shape_push(&s, like->dims[i]));
    return mr_tensor_new(NULL, (mr_dtype)like->dtype, s.rank, s.dims, out);
}

/* True if the strings of a tensor may be moved out of it bit by bit. */
static bool may_move(const mr_tensor *t)
{
    if (t->dtype != MR_STRING || !mr_tensor_sole(t))
        return false;
    for (int64_t i = 0; i < t->n; i++) {
        TF_TString_Type type = TF_TString_GetType(&MR_DATA(TF_TString, t)[i]);
        if (type != TF_TSTR_SMALL && type != TF_TSTR_LARGE)
            return false;
    }
    return true;
}

static void move_strings(TF_TString *to, mr_tensor *from)
{
    memcpy(to, from->data, sizeof *to * (size_t)from->n);
    memset(from->data, 0, sizeof *to * (size_t)from->n); /* empty */
}

/* The n tensors at p, p + step .. as one. */
static mr_status *stack(mr_tensor *const *p, int64_t n, int64_t step, int component, bool take, mr_tensor **out)
{
    const mr_tensor *one = p[0];
    for (int64_t k = 1; k < n; k++) {
        const mr_tensor *t = p[k * step];
        if (!mr_tensor_same_shape(one, t))
            return mr_invalid("Cannot batch tensors with different shapes in component %d. First element had shape %s and "
                              "element %lld had shape %s.", component, MR_TENSOR_SHAPE(one), (long long)k, MR_TENSOR_SHAPE(t));
    }
    MR_TRY(new_batch(one, n, out));
    mr_status *st = NULL;
    for (int64_t k = 0; !st && k < n; k++)
        if (take && may_move(p[k * step]))
            move_strings(MR_DATA(TF_TString, *out) + k * one->n, p[k * step]);
        else
            st = mr_tensor_try_copy_elements(*out, k * one->n, p[k * step], 0, one->n);
    if (st) {
        mr_tensor_unref(*out);
        *out = NULL;
    }
    return st;
}

mr_status *mr_gathered_stack(const mr_gathered *e, int i, int64_t first, int64_t n, int64_t step, mr_tensor **out)
{
    return stack(mr_gathered_at(e, first) + i, n, step * e->width, i, false, out);
}

mr_status *mr_gathered_stack_last(const mr_gathered *e, int i, mr_tensor **out)
{
    return stack(e->p + i, e->n, e->width, i, true, out);
}

/* ---- padding ---- */

static mr_status *padded_dims(const mr_gathered *e, int i, const mr_pshape *shape, mr_shape *out)
{
    MR_TRY(mr_shape_push(out, e->n));
    for (int k = 0; k < shape->rank; k++)
        MR_TRY(mr_shape_push(out, MR_MAX(shape->dims[k], 0)));
    for (int64_t j = 0; j < e->n; j++) {
        const mr_tensor *t = mr_gathered_at(e, j)[i];
        if (t->rank != shape->rank)
            return mr_invalid("All elements in a batch must have the same rank as the padded shape for component%d: expected "
                              "rank %d got element with rank %d", i, shape->rank, t->rank);
        for (int k = 0; k < t->rank; k++) {
            if (shape->dims[k] >= 0 && t->dims[k] > shape->dims[k])
                return mr_error(MR_DATA_LOSS, "Attempted to pad to a smaller size than the input element.");
            if (shape->dims[k] < 0)
                out->dims[k + 1] = MR_MAX(out->dims[k + 1], t->dims[k]);
        }
    }
    return NULL;
}

static mr_status *fill_tensor(mr_tensor *t, const mr_tensor *value)
{
    size_t size = mr_dtype_size(t->dtype), done = size, all = mr_tensor_bytes(t);
    if (t->dtype == MR_STRING || t->dtype == MR_VARIANT || t->dtype == MR_RESOURCE) {
        for (int64_t i = 0; i < t->n; i++)
            MR_TRY(mr_tensor_try_copy_elements(t, i, value, 0, 1));
        return NULL;
    }
    if (t->n == 0)
        return NULL;
    memcpy(t->data, value->data, size);
    for (; done < all; done += MR_MIN(done, all - done))
        memcpy((char *)t->data + done, t->data, MR_MIN(done, all - done));
    return NULL;
}

/* Copies t into the corner of row j of out, one run of the innermost dimension at a time. */
static mr_status *copy_corner(mr_tensor *out, int64_t j, const mr_tensor *t)
{
    int64_t index[MR_MAX_RANK] = {0}, inner = t->rank ? t->dims[t->rank - 1] : 1;
    if (t->n == 0)
        return NULL;
    for (int64_t from = 0; from < t->n; from += inner) {
        int64_t at = j;
        for (int k = 0; k < t->rank; k++)
            at = at * out->dims[k + 1] + index[k];
        MR_TRY(mr_tensor_try_copy_elements(out, at, t, from, inner));
        for (int k = t->rank - 2; k >= 0 && ++index[k] == t->dims[k]; k--)
            index[k] = 0;
    }
    return NULL;
}

mr_status *mr_gathered_stack_padded(const mr_gathered *e, int i, const mr_pshape *shape, const mr_tensor *padding,
                                    mr_tensor **out)
{
    mr_shape dims = {.rank = 0};
    mr_status *st = NULL;
    MR_TRY(padded_dims(e, i, shape, &dims));
    MR_TRY(mr_tensor_new(NULL, (mr_dtype)padding->dtype, dims.rank, dims.dims, out));
    MR_GO(fill_tensor(*out, padding));
    for (int64_t j = 0; j < e->n; j++)
        MR_GO(copy_corner(*out, j, mr_gathered_at(e, j)[i]));
out:
    if (st) {
        mr_tensor_unref(*out);
        *out = NULL;
    }
    return st;
}

const mr_pshape *const *mr_batch_shapes(mr_arena *a, const mr_dataset *d, int64_t n)
{
    const mr_pshape **shapes = mr_arena_array(a, const mr_pshape *, d->n + 1);
    for (int i = 0; i < d->n; i++) {
        const mr_pshape *s = d->shapes[i];
        shapes[i] = &mr_pshape_unknown;
        if (s->rank < 0 || s->rank >= MR_MAX_RANK)
            continue;
        mr_pshape *b = mr_pshape_new(a, s->rank + 1);
        b->dims[0] = n;
        memcpy(b->dims + 1, s->dims, sizeof(int64_t) * (size_t)s->rank);
        shapes[i] = b;
    }
    return shapes;
}
