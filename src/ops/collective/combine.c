/* ops/collective/combine.c -- see combine.h. */
#include "ops/collective/combine.h"

#include "base/memory.h"
#include "base/simd.h"

/* ---- merging two tensors ---- */

/* `to` may be one of the two. */
#define MERGE(name, op, S, expression)                                                         \
    MR_CLONES static void op##_##name(void *to, const void *a, const void *b, int64_t n)       \
    {                                                                                          \
        S *o = to;                                                                             \
        const S *p = a, *q = b;                                                                \
        for (int64_t i = 0; i < n; i++)                                                        \
            o[i] = expression;                                                                 \
    }
#define DIVIDE(name, S, expression)                                                            \
    static void divide_##name(void *to, int64_t n, int64_t by)                                 \
    {                                                                                          \
        S *o = to;                                                                             \
        for (int64_t i = 0; i < n; i++)                                                        \
            o[i] = expression;                                                                 \
    }
#define MERGES(name, S, type, load, store)                                                     \
    MERGE(name, add, S, store((type)(load(p[i]) + load(q[i]))))                                \
    MERGE(name, mul, S, store((type)(load(p[i]) * load(q[i]))))                                \
    MERGE(name, max, S, load(p[i]) < load(q[i]) ? q[i] : p[i])                                 \
    MERGE(name, min, S, load(q[i]) < load(p[i]) ? q[i] : p[i])                                 \
    DIVIDE(name, S, store((type)(load(o[i]) / (type)by)))
#define AS_IS(x) (x)
MERGES(float, float, float, AS_IS, AS_IS)
MERGES(double, double, double, AS_IS, AS_IS)
MERGES(half, mr_half, float, mr_half_to_float, mr_float_to_half)
MERGES(bfloat16, mr_bf16, float, mr_bf16_to_float, mr_float_to_bf16)

/* Integer sums wrap around, as everywhere. */
#define MERGES_INT(name, S, U)                                                                 \
    MERGE(name, add, S, (S)((U)p[i] + (U)q[i]))                                                \
    MERGE(name, mul, S, (S)((U)p[i] * (U)q[i]))                                                \
    MERGE(name, max, S, MR_MAX(p[i], q[i]))                                                    \
    MERGE(name, min, S, MR_MIN(p[i], q[i]))                                                    \
    DIVIDE(name, S, (S)(o[i] / by))
MERGES_INT(int32, int32_t, uint32_t)
MERGES_INT(int64, int64_t, uint64_t)

#define ROW(E, name) {E, {add_##name, mul_##name, max_##name, min_##name}, divide_##name}
static const mr_arithmetic arithmetic[] = {
    ROW(MR_FLOAT, float), ROW(MR_DOUBLE, double), ROW(MR_HALF, half),
    ROW(MR_BFLOAT16, bfloat16), ROW(MR_INT32, int32), ROW(MR_INT64, int64),
};

mr_status *mr_arithmetic_of(mr_dtype type, const mr_arithmetic **out)
{
    for (int i = 0; i < MR_COUNT(arithmetic); i++)
        if (arithmetic[i].type == type) {
            *out = &arithmetic[i];
            return NULL;
        }
    return mr_error(MR_UNIMPLEMENTED, "a collective cannot reduce elements of type %s", mr_dtype_name(type));
}

static mr_status *same_shapes(int64_t n, const mr_tensor *const *in)
{
    for (int64_t k = 1; k < n; k++)
        if (!mr_tensor_same_shape(in[0], in[k]))
            return mr_invalid("Shape mismatch in the collective instance: members have shapes %s and %s",
                              MR_TENSOR_SHAPE(in[0]), MR_TENSOR_SHAPE(in[k]));
    return NULL;
}

/* Merges members in the order of their ranks, so that results are reproducible. */
static mr_status *reduce_members(const mr_collective_call *call, int64_t n, const mr_tensor *const *in,
                                 mr_tensor **out)
{
    const mr_arithmetic *how = NULL;
    MR_TRY(same_shapes(n, in));
    MR_TRY(mr_arithmetic_of(in[0]->dtype, &how));
    MR_TRY(mr_tensor_copy(NULL, in[0], out));
    for (int64_t k = 1; k < n; k++)
        how->merge[call->merge]((*out)->data, (*out)->data, in[k]->data, in[k]->n);
    if (call->mean)
        how->divide((*out)->data, (*out)->n, n);
    return NULL;
}

/* ---- the kinds of collectives ---- */

static mr_status *all_reduce(const mr_collective_call *call, int64_t n, const mr_tensor *const *in,
                             mr_tensor **out)
{
    MR_TRY(reduce_members(call, n, in, &out[0]));
    for (int64_t k = 1; k < n; k++)
        out[k] = mr_tensor_ref(out[0]);
    return NULL;
}

static mr_status *check_rows(const mr_tensor *t, int64_t n, bool exactly)
{
    if (t->rank >= 1 && (exactly ? t->dims[0] == n : t->dims[0] % n == 0))
        return NULL;
    return mr_invalid("dimension 0 of the input must be %s the size of the group, %lld, but its shape is "
                      "%s", exactly ? "" : "a multiple of", (long long)n, MR_TENSOR_SHAPE(t));
}

static mr_status *reduce_scatter(const mr_collective_call *call, int64_t n,
                                 const mr_tensor *const *in, mr_tensor **out)
{
    mr_tensor *all;
    mr_status *st = NULL;
    MR_TRY(check_rows(in[0], n, false));
    MR_TRY(reduce_members(call, n, in, &all));
    int64_t rows = all->dims[0] / n;
    for (int64_t k = 0; k < n && !st; k++)
        st = mr_tensor_rows(all, k * rows, rows, &out[k]);
    mr_tensor_unref(all);
    return st;
}

static mr_status *gather_members(int64_t n, const mr_tensor *const *in, mr_tensor **out)
{
    mr_shape shape;
    int64_t at = 0;
    MR_TRY(same_shapes(n, in));
    if (in[0]->rank < 1)
        return mr_invalid("input must have at least one dimension to be gathered");
    mr_shape_set(&shape, in[0]->rank, in[0]->dims);
    if (!mr_i64_mul(shape.dims[0], n, &shape.dims[0]))
        return mr_invalid("the gathered tensor is too large");
    MR_TRY(mr_tensor_new(NULL, in[0]->dtype, shape.rank, shape.dims, &out[0]));
    for (int64_t k = 0; k < n; at += in[k]->n, k++)
        MR_TRY(mr_tensor_try_copy_elements(out[0], at, in[k], 0, in[k]->n));
    for (int64_t k = 1; k < n; k++)
        out[k] = mr_tensor_ref(out[0]);
    return NULL;
}

static mr_status *broadcast_source(int64_t n, const mr_tensor *const *in, mr_tensor **out)
{
    const mr_tensor *source = NULL;
    for (int64_t k = 0; k < n; k++) {
        if (in[k] && source)
            return mr_error(MR_INTERNAL, "a broadcast has two sources");
        source = in[k] ? in[k] : source;
    }
    if (!source)
        return mr_error(MR_INTERNAL, "a broadcast has no source: all members receive");
    for (int64_t k = 0; k < n; k++)
        out[k] = mr_tensor_ref(source);
    return NULL;
}

static mr_status *all_to_all(int64_t n, const mr_tensor *const *in, mr_tensor **out)
{
    MR_TRY(same_shapes(n, in));
    MR_TRY(check_rows(in[0], n, true));
    int64_t row = in[0]->n / n;
    for (int64_t i = 0; i < n; i++) {
        MR_TRY(mr_tensor_new(NULL, in[0]->dtype, in[0]->rank, in[0]->dims, &out[i]));
        for (int64_t k = 0; k < n; k++)
            MR_TRY(mr_tensor_try_copy_elements(out[i], k * row, in[k], i * row, row));
    }
    return NULL;
}

mr_status *mr_collective_combine(const mr_collective_call *call, int64_t n,
                                 const mr_tensor *const *in, mr_tensor **out)
{
    switch (call->kind) {
    case MR_ALL_REDUCE: return all_reduce(call, n, in, out);
    case MR_REDUCE_SCATTER: return reduce_scatter(call, n, in, out);
    case MR_GATHER: return gather_members(n, in, out);
    case MR_BROADCAST: return broadcast_source(n, in, out);
    case MR_ALL_TO_ALL: return all_to_all(n, in, out);
    }
    return mr_error(MR_INTERNAL, "unknown kind of collective: %d", (int)call->kind);
}
