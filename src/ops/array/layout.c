/* ops/array/layout.c -- positions of elements, and tensors that share a part of another's buffer. */
#include "ops/array/layout.h"

#include "ops/array/blit.h"

#define SHARE_BYTES 512

/* A view of elements start..start+n of the flat tensor, with another shape. */
static mr_status *share_elements(const mr_tensor *t, int64_t start, int64_t n, int rank, const int64_t *dims,
                                 mr_tensor **out)
{
    mr_status *st = NULL;
    mr_tensor *flat = NULL, *part = NULL;
    MR_GO(mr_tensor_view(t, t->dtype, 1, &t->n, &flat));
    MR_GO(mr_tensor_rows(flat, start, n, &part));
    MR_GO(mr_tensor_view(part, t->dtype, rank, dims, out));
out:
    mr_tensor_unref(flat);
    mr_tensor_unref(part);
    return st;
}

mr_status *mr_share(mr_run *r, int in, int i, int64_t start, int rank, const int64_t *dims)
{
    const mr_tensor *t = mr_in(r, in);
    mr_tensor *out;
    int64_t n;
    MR_TRY(mr_shape_elements(rank, dims, &n));
    MR_ASSERT(start >= 0 && start <= t->n && n <= t->n - start);
    if (n == t->n)
        return mr_run_reshape(r, in, i, rank, dims);
    if (n == 0 || (size_t)n * mr_dtype_size(t->dtype) < SHARE_BYTES) {
        MR_TRY(mr_run_output(r, i, rank, dims, &out));
        return n > 0 ? mr_tensor_try_copy_elements(out, 0, t, start, n) : NULL;
    }
    MR_TRY(share_elements(t, start, n, rank, dims, &out));
    mr_run_set(r, i, out);
    return NULL;
}

bool mr_is_contiguous(int rank, const int64_t *dims, const int64_t *sizes)
{
    int i = 0;
    while (i < rank && sizes[i] == 1)
        i++;
    for (i++; i < rank; i++)
        if (sizes[i] != dims[i])
            return false;
    return true;
}

mr_pshape *mr_pshape_with(mr_arena *a, const mr_pshape *s, int at, int64_t n)
{
    mr_pshape *out = mr_pshape_new(a, s->rank);
    memcpy(out->dims, s->dims, (size_t)s->rank * sizeof(int64_t));
    out->dims[at] = n;
    return out;
}

static mr_status *bad_axis(int64_t axis, int rank)
{
    return mr_invalid("Expected axis in the range [%d, %d), but got %lld", -rank, rank,
                      (long long)axis);
}

static mr_status *resolve_axis(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return bad_axis(axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NULL;
}

mr_status *mr_infer_position(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank) {
        int64_t too_small = axis < 0 ? -(axis + 1) : axis; /* the required rank minus 1: it may be 2^63 */
        return mr_invalid("Shape must be at least rank %llu but is rank %d", (unsigned long long)too_small + 1, rank);
    }
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NULL;
}

mr_status *mr_in_axis(const mr_run *r, int input, int rank, int *axis)
{
    const mr_tensor *t = mr_in(r, input);
    if (t->rank > 1 || t->n != 1)
        return mr_invalid("axis must be a scalar, but has shape %s", MR_TENSOR_SHAPE(t));
    return resolve_axis(mr_tensor_int_at(t, 0), rank, axis);
}

mr_status *mr_take_over(mr_run *r, int in, int i, mr_tensor **out)
{
    const mr_tensor *x = mr_in(r, in);
    MR_TRY(mr_run_forward(r, in, i, x->rank, x->dims, out));
    return *out == x || (*out)->data == x->data ? NULL : mr_tensor_try_copy_elements(*out, 0, x, 0, x->n);
}
