/* ops/ragged/ragged_range.c -- RaggedRange: rows that count from a start to a limit. */
#include "base/memory.h"
#include "ops/maths.h"
#include "ops/ragged/ragged.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

typedef struct ranges {
    const mr_tensor *starts, *limits, *deltas;
    int64_t n;
} ranges;

static mr_status *read_ranges(const mr_run *r, ranges *g)
{
    const mr_tensor *t[] = {mr_in(r, 0), mr_in(r, 1), mr_in(r, 2)};
    static const char *const names[] = {"starts", "limits", "deltas"};
    *g = (ranges){t[0], t[1], t[2], 1};
    const mr_tensor *vector = NULL;
    for (int i = 0; i < 3; i++) {
        if (t[i]->rank > 1)
            return mr_invalid("%s must be a scalar or vector", names[i]);
        if (t[i]->rank == 1 && vector && vector->n != t[i]->n)
            return mr_invalid("starts, limits, and deltas must have the same shape");
        if (t[i]->rank == 1)
            vector = t[i];
    }
    g->n = vector ? vector->n : 1;
    return NULL;
}

/* How many numbers a row has; -1: more than can be counted, -2: delta is 0. */
#define SIZE_INT(E, name, number, S, C, ...)                                                                    \
    static int64_t size_##name(const void *a, const void *b, const void *c)                                     \
    {                                                                                                           \
        S start = *(const S *)a, limit = *(const S *)b, delta = *(const S *)c;                                  \
        if (delta == 0)                                                                                         \
            return -2;                                                                                          \
        if (delta > 0 ? limit <= start : limit >= start)                                                        \
            return 0;                                                                                           \
        uint64_t gap = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;       \
        uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta, n = (gap - 1) / step + 1;            \
        return n > INT64_MAX ? -1 : (int64_t)n;                                                                 \
    }
#define SIZE_FLOAT(E, name, number, S, C, ...)                                                                  \
    static int64_t size_##name(const void *a, const void *b, const void *c)                                     \
    {                                                                                                           \
        double start = MR_LD((const S *)a), limit = MR_LD((const S *)b), delta = MR_LD((const S *)c);           \
        if (delta == 0)                                                                                         \
            return -2;                                                                                          \
        if (!(delta > 0 ? limit > start : limit < start))                                                       \
            return 0;                                                                                           \
        double n = ceil(fabs((limit - start) / delta));                                                         \
        return n < 0x1p62 ? (int64_t)n : -1;                                                                    \
    }
#define WRITE(E, name, number, S, C, ADD)                                                                       \
    static void write_##name(void *out, const void *a, const void *c, int64_t n)                                \
    {                                                                                                           \
        S value = *(const S *)a;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                       \
            ((S *)out)[i] = value;                                                                              \
            MR_ST(&value, (C)ADD(MR_LD(&value), MR_LD((const S *)c)));                                          \
        }                                                                                                       \
    }
#define ADD_FLOAT(x, y) ((x) + (y))
#define ADD_INT(x, y) ((uint64_t)(x) + (uint64_t)(y))
#define RANGE_FLOATS(M, ...) MR_TYPE_BFLOAT16(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)
MR_INDEXES(SIZE_INT, )
RANGE_FLOATS(SIZE_FLOAT, )
MR_INDEXES(WRITE, ADD_INT)
RANGE_FLOATS(WRITE, ADD_FLOAT)

typedef struct range_type {
    int64_t (*size)(const void *start, const void *limit, const void *delta);
    void (*write)(void *out, const void *start, const void *delta, int64_t n);
} range_type;

static range_type type_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return (range_type){size_##name, write_##name};
    switch (t) {
        MR_INDEXES(CASE, ) RANGE_FLOATS(CASE, ) default : MR_ASSERT(false);
        return (range_type){NULL, NULL};
    }
}

static const void *element_at(const mr_tensor *t, int64_t i)
{
    return (const char *)t->data + (t->rank ? (size_t)i * mr_dtype_size((mr_dtype)t->dtype) : 0);
}

static mr_status *count_rows(const ranges *g, range_type t, int64_t *splits)
{
    splits[0] = 0;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t n = t.size(element_at(g->starts, i), element_at(g->limits, i), element_at(g->deltas, i));
        if (n == -2)
            return mr_invalid("Requires delta != 0");
        if (n < 0 || !mr_i64_add(splits[i], n, &splits[i + 1]))
            return mr_invalid(
                "Row %lld has too many elements",
                (long long)i);
    }
    return NULL;
}

static mr_status *run_range(mr_run *r)
{
    ranges g;
    int64_t *splits;
    mr_tensor *values = NULL;
    MR_TRY(read_ranges(r, &g));
    range_type t = type_of((mr_dtype)g.starts->dtype);
    MR_TRY(mr_new_i64(r, g.n + 1, &splits));
    mr_status *st = count_rows(&g, t, splits);
    if (!st)
        st = mr_give_splits(r, 0, g.n + 1, splits);
    if (!st)
        st = mr_run_output(r, 1, 1, &splits[g.n], &values);
    for (int64_t i = 0; i < g.n && !st; i++)
        t.write((char *)values->data + (size_t)splits[i] * mr_dtype_size((mr_dtype)values->dtype),
                element_at(g.starts, i), element_at(g.deltas, i), splits[i + 1] - splits[i]);
    mr_scratch_free(splits);
    return st;
}

static mr_status *range_shape(mr_infer *c)
{
    int64_t n = -1;
    bool scalars = true;
    for (int i = 0; i < 3; i++) {
        const mr_pshape *s = NULL;
        MR_TRY(mr_infer_rank_at_most(c, c->in[i], 1, &s));
        if (s->rank == 1)
            MR_TRY(mr_infer_merge_dim(n, s->dims[0], &n));
        scalars = scalars && s->rank == 0;
    }
    mr_infer_out_vector(c, 0, scalars ? 2 : n < 0 ? -1 : n + 1);
    mr_infer_out_vector(c, 1, -1);
    return NULL;
}

MR_OP(RaggedRange,
    .doc      = "rows that count from starts to limits, without the limits",
    .sig      = "starts: T, limits: T, deltas: T -> rt_nested_splits: Tsplits, rt_dense_values: T",
    .attrs    = "T: {bfloat16, float, double, int32, int64} = DT_INT32; Tsplits: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .shape    = range_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_range)),
    .examples = MR_EXAMPLES(
        "T=int32: [0, 5, 8], [3, 5, 12], 1 -> [0, 3, 3, 7], [0, 1, 2, 8, 9, 10, 11]", "T=float: [0, 5], [3, 0], [1, -2] -> [0, 3, 6], [0, 1, 2, 5, 3, 1]",
        "Tsplits=int32 T=int64: 0, 7, 3 -> [0, 3], [0, 3, 6]", "T=double: 0, 1, 0.25 -> [0, 4], [0, 0.25, 0.5, 0.75]",
        "T=bfloat16: 0, 2, 1 -> [0, 2], [0, 1]", "T=int32: shape(0), shape(0), 1 -> [0], shape(0)",
        "T=int32: 0, 1, 0 -> !INVALID_ARGUMENT Requires delta != 0", "T=int32: [0, 1], [1, 2, 3], 1 -> !INVALID_ARGUMENT",
        "T=float: nan, 1, 1 -> [0, 0], shape(0)", "T=float: 0, inf, 1 -> !INVALID_ARGUMENT too many elements"));
