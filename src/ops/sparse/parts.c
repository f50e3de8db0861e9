/* ops/sparse/parts.c -- splits sparse tensors along their first dimension, and stacks them along a new one. */
#include "ops/sparse/parts.h"

#include "base/memory.h"

void mr_sparse_part_deinit(mr_sparse_part *p)
{
    mr_tensor_unref(p->indices);
    mr_tensor_unref(p->values);
    mr_tensor_unref(p->shape);
    *p = (mr_sparse_part){0};
}

mr_status *mr_sparse_part_check(const mr_sparse_part *p, mr_dtype type, int64_t i)
{
    if (p->indices->dtype != MR_INT64 || p->indices->rank != 2)
        return mr_invalid("Expected serialized_sparse[%lld, 0] to represent an index matrix but "
                          "received %s of shape %s",
                          (long long)i, mr_dtype_name(p->indices->dtype),
                          MR_TENSOR_SHAPE(p->indices));
    if (p->values->rank != 1)
        return mr_invalid("Expected serialized_sparse[%lld, 1] to represent a values vector but "
                          "received shape %s",
                          (long long)i, MR_TENSOR_SHAPE(p->values));
    if (p->shape->dtype != MR_INT64 || p->shape->rank != 1)
        return mr_invalid("Expected serialized_sparse[%lld, 2] to represent a shape vector but "
                          "received %s of shape %s",
                          (long long)i, mr_dtype_name(p->shape->dtype), MR_TENSOR_SHAPE(p->shape));
    if (p->values->dtype != type)
        return mr_invalid(
            "Requested SparseTensor of type %s but SparseTensor[%lld].values.dtype() == %s",
            mr_dtype_name(type), (long long)i, mr_dtype_name(p->values->dtype));
    mr_sparse s;
    return mr_sparse_of(p->indices, p->values, p->shape, "", &s);
}

/* ---- splitting ---- */

static mr_status *cut_one(mr_run *r, const mr_sparse *s, int64_t begin, int64_t n,
                          mr_sparse_part *out)
{
    int64_t rank = s->rank - 1;
    MR_TRY(mr_run_temp(r, MR_INT64, 2, (int64_t[]){n, rank}, &out->indices));
    MR_TRY(mr_run_temp(r, (mr_dtype)s->values->dtype, 1, &n, &out->values));
    MR_TRY(mr_run_temp(r, MR_INT64, 1, &rank, &out->shape));
    for (int64_t i = 0; i < n; i++)
        memcpy(MR_DATA(int64_t, out->indices) + i * rank, mr_sparse_at(s, begin + i) + 1,
               (size_t)rank * sizeof(int64_t));
    memcpy(out->shape->data, s->dims + 1, (size_t)rank * sizeof(int64_t));
    return mr_tensor_try_copy_elements(out->values, 0, s->values, begin, n);
}

mr_status *mr_sparse_cut(mr_run *r, const mr_sparse *s,
                         mr_status *(*give)(void *ctx, int64_t i, mr_sparse_part *p), void *ctx)
{
    if (s->rank < 2)
        return mr_invalid("Rank of input SparseTensor should be > 1, but saw rank: %lld",
                          (long long)s->rank);
    MR_TRY(mr_sparse_check_bounds(s));
    for (int64_t i = 1; i < s->n; i++)
        if (mr_sparse_at(s, i)[0] < mr_sparse_at(s, i - 1)[0])
            return mr_invalid("indices[%lld] is out of order: its first number is smaller than the one before",
                              (long long)i);
    for (int64_t row = 0, at = 0; row < s->dims[0]; row++) {
        int64_t end = at;
        mr_sparse_part p = {0};
        while (end < s->n && mr_sparse_at(s, end)[0] == row)
            end++;
        mr_status *st = cut_one(r, s, at, end - at, &p);
        if (!st)
            st = give(ctx, row, &p);
        else
            mr_sparse_part_deinit(&p);
        MR_TRY(st);
        at = end;
    }
    return NULL;
}

/* ---- stacking ---- */

static mr_status *stacked_shape(const mr_sparse_part *parts, int64_t n, int lead_rank,
                                const int64_t *lead, mr_shape *out)
{
    int64_t rank = n > 0 ? parts[0].shape->n : 0;
    mr_shape_set(out, lead_rank, lead);
    for (int64_t d = 0; d < rank; d++)
        MR_TRY(mr_shape_push(out, 0));
    for (int64_t i = 0; i < n; i++) {
        if (parts[i].shape->n != rank)
            return mr_invalid("Inconsistent shape across SparseTensors: rank prior to "
                              "SparseTensor[%lld] was: %lld but rank of "
                              "SparseTensor[%lld] is: %lld",
                              (long long)i, (long long)rank, (long long)i,
                              (long long)parts[i].shape->n);
        for (int64_t d = 0; d < rank; d++)
            out->dims[lead_rank + d] =
                MR_MAX(out->dims[lead_rank + d], MR_DATA(const int64_t, parts[i].shape)[d]);
    }
    return NULL;
}

static mr_status *write_part(const mr_sparse_part *p, int64_t number, int lead_rank,
                             const int64_t *lead, int64_t *out, mr_tensor *values, int64_t at)
{
    int64_t prefix[MR_MAX_RANK], rank = p->shape->n;
    for (int d = lead_rank - 1; d >= 0; d--) {
        prefix[d] = number % lead[d];
        number /= lead[d];
    }
    for (int64_t i = 0; i < p->values->n; i++, out += lead_rank + rank) {
        memcpy(out, prefix, (size_t)lead_rank * sizeof *out);
        memcpy(out + lead_rank, MR_DATA(const int64_t, p->indices) + i * rank,
               (size_t)rank * sizeof *out);
    }
    return mr_tensor_try_copy_elements(values, at, p->values, 0, p->values->n);
}

mr_status *mr_sparse_stack(mr_run *r, const mr_sparse_part *parts, int64_t n, int lead_rank,
                           const int64_t *lead)
{
    mr_shape shape;
    mr_tensor *indices, *values;
    int64_t total = 0, at = 0;
    MR_TRY(stacked_shape(parts, n, lead_rank, lead, &shape));
    for (int64_t i = 0; i < n; i++)
        if (!mr_i64_add(total, parts[i].values->n, &total))
            return mr_error(MR_RESOURCE_EXHAUSTED, "too many elements to concatenate");
    MR_TRY(mr_sparse_output(r, 0, total, shape.rank, &indices, &values));
    for (int64_t i = 0; i < n; at += parts[i++].values->n)
        MR_TRY(write_part(&parts[i], i, lead_rank, lead,
                          MR_DATA(int64_t, indices) + at * shape.rank, values, at));
    return mr_give_vector(r, 2, shape.rank, shape.dims);
}
