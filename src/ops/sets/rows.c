/* ops/sets/rows.c -- see rows.h. */
#include "ops/sets/rows.h"

#include <stdlib.h>

#include "base/memory.h"

mr_status *mr_groups_of(int rank, const int64_t *dims, int64_t *out)
{
    MR_ASSERT(rank >= 1);
    return mr_shape_elements(rank - 1, dims, out);
}

static mr_status *new_rows(const mr_tensor *values, mr_rows *out)
{
    *out = (mr_rows){values, values->n, mr_try_calloc((size_t)values->n + 1, sizeof *out->e)};
    return out->e ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld elements of sets",
                                    (long long)values->n);
}

void mr_rows_deinit(mr_rows *r)
{
    mr_free(r->e);
    *r = (mr_rows){0};
}

mr_status *mr_rows_of_dense(const mr_tensor *t, mr_rows *out)
{
    int64_t width = t->dims[t->rank - 1];
    MR_TRY(new_rows(t, out));
    for (int64_t i = 0; i < t->n; i++)
        out->e[i] = (mr_row_element){i / width, i};
    return NULL;
}

mr_status *mr_rows_of_sparse(const mr_tensor *indices, const mr_tensor *values, int rank,
                             const int64_t *dims, const int64_t *groups, mr_rows *out)
{
    MR_TRY(new_rows(values, out));
    for (int64_t i = 0; i < values->n; i++) {
        const int64_t *x = MR_DATA(int64_t, indices) + i * rank;
        int64_t group = 0;
        for (int d = 0; d < rank; d++) {
            if (x[d] < 0 || x[d] >= dims[d]) {
                mr_rows_deinit(out);
                return mr_invalid("indices[%lld] = %s is out of bounds: need 0 <= index < %s",
                                  (long long)i, MR_SHAPE_TEXT(rank, x), MR_SHAPE_TEXT(rank, dims));
            }
            group = d < rank - 1 ? group * groups[d] + x[d] : group;
        }
        out->e[i] = (mr_row_element){group, i};
    }
    return NULL;
}

/* ---- order ---- */

static int compare_numbers(double a, double b) { return (a > b) - (a < b); }

static int compare_strings(mr_sv a, mr_sv b)
{
    int c = memcmp(a.p, b.p, MR_MIN(a.n, b.n));
    return c ? (c > 0) - (c < 0) : (a.n > b.n) - (a.n < b.n);
}

/* A NaN differs from everything, as in a comparison. */
static int compare_floats(double a, double b) { return a == b ? 0 : a < b ? -1 : 1; }

int mr_element_compare(const mr_tensor *a, int64_t i, const mr_tensor *b, int64_t k)
{
#define EACH(T) ((MR_DATA(T, a)[i] > MR_DATA(T, b)[k]) - (MR_DATA(T, a)[i] < MR_DATA(T, b)[k]))
    switch ((mr_dtype)a->dtype) {
    case MR_STRING: return compare_strings(mr_tensor_str_at(a, i), mr_tensor_str_at(b, k));
    case MR_INT8:
    case MR_QINT8: return EACH(int8_t);
    case MR_INT16:
    case MR_QINT16: return EACH(int16_t);
    case MR_INT32:
    case MR_QINT32: return EACH(int32_t);
    case MR_INT64: return EACH(int64_t);
    case MR_UINT8:
    case MR_QUINT8: return EACH(uint8_t);
    case MR_UINT16:
    case MR_QUINT16: return EACH(uint16_t);
    case MR_UINT32: return EACH(uint32_t);
    case MR_UINT64: return EACH(uint64_t);
    case MR_BOOL: return compare_numbers(MR_DATA(bool, a)[i], MR_DATA(bool, b)[k]);
    case MR_HALF:
        return compare_floats(mr_half_to_float(MR_DATA(mr_half, a)[i]),
                              mr_half_to_float(MR_DATA(mr_half, b)[k]));
    case MR_BFLOAT16:
        return compare_floats(mr_bf16_to_float(MR_DATA(mr_bf16, a)[i]),
                              mr_bf16_to_float(MR_DATA(mr_bf16, b)[k]));
    case MR_FLOAT: return compare_floats(MR_DATA(float, a)[i], MR_DATA(float, b)[k]);
    case MR_DOUBLE: return compare_floats(MR_DATA(double, a)[i], MR_DATA(double, b)[k]);
    case MR_COMPLEX64: return MR_DATA(mr_c64, a)[i] != MR_DATA(mr_c64, b)[k];
    case MR_COMPLEX128: return MR_DATA(mr_c128, a)[i] != MR_DATA(mr_c128, b)[k];
    default: return 1;
    }
#undef EACH
}

static int by_group(const void *x, const void *y)
{
    const mr_row_element *a = x, *b = y;
    if (a->group != b->group)
        return a->group > b->group ? 1 : -1;
    return (a->at > b->at) - (a->at < b->at);
}

static int by_value(const void *x, const void *y, void *ctx)
{
    const mr_row_element *a = x, *b = y;
    const mr_tensor *t = ctx;
    if (a->group != b->group)
        return a->group > b->group ? 1 : -1;
    int c = mr_element_compare(t, a->at, t, b->at);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

void mr_rows_sort(mr_rows *r, bool value)
{
    if (value)
        qsort_r(r->e, (size_t)r->n, sizeof *r->e, by_value, (void *)(uintptr_t)r->values);
    else
        qsort(r->e, (size_t)r->n, sizeof *r->e, by_group);
}

/* ---- sparse tensors ---- */

mr_status *mr_sparse_check(const char *what, const mr_tensor *indices, const mr_tensor *values,
                           const mr_tensor *shape)
{
    if (indices->rank != 2)
        return mr_invalid("%s_indices should be a matrix, but got shape: %s", what,
                          MR_TENSOR_SHAPE(indices));
    if (values->rank != 1)
        return mr_invalid("%s_values should be a vector, but got shape: %s", what,
                          MR_TENSOR_SHAPE(values));
    if (shape->rank != 1)
        return mr_invalid("%s_shape should be a vector, but got shape: %s", what,
                          MR_TENSOR_SHAPE(shape));
    if (indices->dims[0] != values->n || indices->dims[1] != shape->n)
        return mr_invalid("%s_indices of shape %s do not match %lld values of rank %lld", what,
                          MR_TENSOR_SHAPE(indices), (long long)values->n, (long long)shape->n);
    if (shape->n > MR_MAX_RANK)
        return mr_invalid("%s_shape has %lld dimensions", what, (long long)shape->n);
    int64_t ignored;
    return mr_shape_elements((int)shape->n, MR_DATA(int64_t, shape), &ignored);
}
