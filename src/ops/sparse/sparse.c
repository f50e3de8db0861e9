/* ops/sparse/sparse.c -- sparse tensors as inputs and outputs of ops: reading, checking, sorting, writing. */
#include "ops/sparse/sparse.h"

#include "base/memory.h"
#include "ops/array/index.h"
#include "run/scratch.h"

mr_status *mr_sparse_of(const mr_tensor *indices, const mr_tensor *values, const mr_tensor *shape,
                        const char *what, mr_sparse *out)
{
    *out = (mr_sparse){indices, values, shape, 0, 0, indices->data, shape->data};
    if (indices->rank != 2)
        return mr_invalid("Input %sindices should be a matrix but received shape %s", what,
                          MR_TENSOR_SHAPE(indices));
    if (values && values->rank != 1)
        return mr_invalid("Input %svalues should be a vector but received shape %s", what,
                          MR_TENSOR_SHAPE(values));
    if (shape->rank != 1)
        return mr_invalid("Input %sshape should be a vector but received shape %s", what,
                          MR_TENSOR_SHAPE(shape));
    out->n = indices->dims[0];
    out->rank = shape->n;
    if (values && values->n != out->n)
        return mr_invalid("Number of %svalues must match first dimension of %sindices. Got %lld "
                          "values, indices shape: %s",
                          what, what, (long long)values->n, MR_TENSOR_SHAPE(indices));
    if (indices->dims[1] != out->rank)
        return mr_invalid("Number of dimensions must match second dimension of %sindices. Got %lld "
                          "dimensions, indices shape: %s",
                          what, (long long)out->rank, MR_TENSOR_SHAPE(indices));
    for (int64_t d = 0; d < out->rank; d++)
        if (out->dims[d] < 0)
            return mr_invalid("Dimension %lld of the %sshape must be >= 0, got %lld", (long long)d,
                              what, (long long)out->dims[d]);
    return NULL;
}

mr_status *mr_sparse_read(const mr_run *r, int first, const char *what, mr_sparse *out)
{
    return mr_sparse_of(mr_in(r, first), mr_in(r, first + 1), mr_in(r, first + 2), what, out);
}

/* ---- checks ---- */

/* An index as text, "[1,2]"; long ones are truncated. */
#define ROW_TEXT(p, rank) MR_SHAPE_TEXT((int)MR_MIN(rank, MR_MAX_RANK), p)

static bool in_bounds(const mr_sparse *s, const int64_t *at)
{
    bool in = true;
    for (int64_t d = 0; d < s->rank; d++)
        in = in && at[d] >= 0 && at[d] < s->dims[d];
    return in;
}

static mr_status *check_row(const mr_sparse *s, int64_t i)
{
    const int64_t *at = mr_sparse_at(s, i);
    return in_bounds(s, at)
               ? NULL
               : mr_invalid("indices[%lld] = %s is out of bounds: need 0 <= index < %s",
                            (long long)i, ROW_TEXT(at, s->rank), ROW_TEXT(s->dims, s->rank));
}

mr_status *mr_sparse_check_bounds(const mr_sparse *s)
{
    for (int64_t i = 0; i < s->n; i++)
        MR_TRY(check_row(s, i));
    return NULL;
}

mr_status *mr_sparse_check_order(const mr_sparse *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t *at = mr_sparse_at(s, i);
        MR_TRY(check_row(s, i));
        int c = i > 0 ? mr_sparse_compare(at - s->rank, at, s->rank) : -1;
        if (c == 0)
            return mr_invalid("indices[%lld] = %s is repeated", (long long)i,
                              ROW_TEXT(at, s->rank));
        if (c > 0)
            return mr_invalid(
                "indices[%lld] = %s is out of order. Many sparse ops require sorted indices.\n"
                "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n",
                (long long)i, ROW_TEXT(at, s->rank));
    }
    return NULL;
}

mr_status *mr_sparse_elements(const mr_sparse *s, int64_t *n)
{
    if (s->rank > MR_MAX_RANK)
        return mr_invalid("the dense shape has %lld dimensions, the maximum is %d",
                          (long long)s->rank, MR_MAX_RANK);
    return mr_shape_elements((int)s->rank, s->dims, n);
}

void mr_sparse_strides(const mr_sparse *s, int64_t *out)
{
    int64_t step = 1;
    for (int64_t d = s->rank - 1; d >= 0; d--) {
        out[d] = step;
        step *= s->dims[d];
    }
}

/* ---- sorting ---- */

mr_status *mr_new_i64(const mr_run *r, int64_t n, int64_t **out)
{
    size_t bytes;
    *out = mr_size_mul((size_t)n + 1, sizeof(int64_t), &bytes) ? mr_scratch(r, bytes) : NULL;
    return *out ? NULL
                : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld indices", (long long)n);
}

/* Merges runs of `width` of from into `to`; equal rows keep their order. */
static void merge_runs(const mr_sparse *s, const int64_t *from, int64_t *to, int64_t begin,
                       int64_t middle, int64_t end)
{
    int64_t a = begin, b = middle;
    for (int64_t k = begin; k < end; k++) {
        bool left =
            b >= end || (a < middle && mr_sparse_compare(mr_sparse_at(s, from[a]),
                                                         mr_sparse_at(s, from[b]), s->rank) <= 0);
        to[k] = left ? from[a++] : from[b++];
    }
}

static bool is_sorted(const mr_sparse *s)
{
    for (int64_t i = 1; i < s->n; i++)
        if (mr_sparse_compare(mr_sparse_at(s, i - 1), mr_sparse_at(s, i), s->rank) > 0)
            return false;
    return true;
}

mr_status *mr_sparse_sort(const mr_run *r, const mr_sparse *s, int64_t **order)
{
    int64_t *other;
    MR_TRY(mr_new_i64(r, s->n, order));
    for (int64_t i = 0; i < s->n; i++)
        (*order)[i] = i;
    if (is_sorted(s))
        return NULL;
    mr_status *st = mr_new_i64(r, s->n, &other);
    if (st) {
        mr_scratch_free(*order);
        *order = NULL;
        return st;
    }
    for (int64_t width = 1; width < s->n; width *= 2) {
        for (int64_t i = 0; i < s->n; i += 2 * width)
            merge_runs(s, *order, other, i, MR_MIN(i + width, s->n), MR_MIN(i + 2 * width, s->n));
        int64_t *sorted = other;
        other = *order;
        *order = sorted;
    }
    mr_scratch_free(other);
    return NULL;
}

/* ---- results ---- */

mr_status *mr_sparse_output(mr_run *r, int i, int64_t n, int64_t rank, mr_tensor **indices,
                            mr_tensor **values)
{
    MR_TRY(mr_run_output(r, i, 2, (int64_t[]){n, rank}, indices));
    return mr_run_output(r, i + 1, 1, &n, values);
}

mr_status *mr_give_vector(mr_run *r, int i, int64_t n, const int64_t *v)
{
    mr_tensor *out;
    MR_TRY(mr_run_output(r, i, 1, &n, &out));
    if (n > 0)
        memcpy(out->data, v, (size_t)n * sizeof *v);
    return NULL;
}

mr_status *mr_sparse_pick(mr_run *r, mr_tensor *values, const mr_tensor *from, const int64_t *rows)
{
    return values->n > 0 ? mr_gather_rows(r, &(mr_gather){values, from, 1, values->n, rows}, 1, 0, 1) : NULL;
}

/* ---- shapes ---- */

mr_status *mr_infer_sparse(mr_infer *c, int first, int64_t *n, int64_t *rank)
{
    const mr_pshape *indices = NULL, *values = NULL, *shape = NULL;
    MR_TRY(mr_infer_rank(c, c->in[first], 2, &indices));
    MR_TRY(mr_infer_rank(c, c->in[first + 1], 1, &values));
    MR_TRY(mr_infer_rank(c, c->in[first + 2], 1, &shape));
    MR_TRY(mr_infer_merge_dim(indices->dims[0], values->dims[0], n));
    return mr_infer_merge_dim(indices->dims[1], shape->dims[0], rank);
}

void mr_infer_out_sparse(mr_infer *c, int i, int64_t n, int64_t rank, bool with_shape)
{
    c->out[i] = mr_pshape_matrix(c->arena, n, rank);
    mr_infer_out_vector(c, i + 1, n);
    if (with_shape)
        mr_infer_out_vector(c, i + 2, rank);
}
