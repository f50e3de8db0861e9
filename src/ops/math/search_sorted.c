/* ops/math/search_sorted.c -- positions in sorted rows: LowerBound and UpperBound. */
#include "graph/infer.h"
#include "ops/array/order.h"
#include "run/run.h"

typedef struct search search;
/* The places of values begin..end of one row of the sorted input, from out[0] on. */
typedef void search_row_fn(const search *s, const void *row, int64_t begin, int64_t end, int64_t *out);

struct search {
    const mr_tensor *sorted, *values;
    mr_tensor *out;
    search_row_fn *find;
    mr_order_fn *keys; /* of 16-bit floats */
    bool upper;
};

enum { BATCH = 64 };

/* A search by halves without branches, of which the CPU runs several at once: `before` tells of an element whether the
 * place is behind it. */
#define PLACE(S, before)                                                          \
    {                                                                             \
        const S *base = sorted;                                                   \
        for (int64_t left = n; left > 0;) {                                       \
            int64_t half = (left + 1) / 2;                                        \
            const S there = base[half - 1];                                       \
            base += half & -(int64_t)(before);                                    \
            left -= half;                                                         \
        }                                                                         \
        *out++ = base - sorted;                                                   \
    }
/* NaN is above all numbers and equal to itself. */
#define SEARCH(E, name, number, S, C, ...)                                        \
    static void find_##name(const search *s, const void *row, int64_t begin, int64_t end, int64_t *out) \
    {                                                                             \
        const S *sorted = row, *values = s->values->data;                         \
        int64_t n = s->sorted->dims[1];                                           \
        for (int64_t i = begin; i < end; i++) {                                   \
            const S v = values[i];                                                \
            if (v != v && s->upper)                                               \
                *out++ = n;                                                       \
            else if (v != v)                                                      \
                PLACE(S, there == there)                                          \
            else if (s->upper)                                                    \
                PLACE(S, there <= v)                                              \
            else                                                                  \
                PLACE(S, there < v)                                               \
        }                                                                         \
    }
MR_FLOATS32(SEARCH, )
MR_INTS(SEARCH, )

/* By the keys of the type: the first position whose element is not below the key; for the upper bound, the first that
 * is above it. */
static void find_by_keys(const search *s, const void *row, int64_t begin, int64_t end, int64_t *out)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t low = 0, high = s->sorted->dims[1];
        uint64_t key, there;
        s->keys(s->values->data, i, 1, &key);
        while (low < high) {
            int64_t mid = low + (high - low) / 2;
            s->keys(row, mid, 1, &there);
            if (there < key || (s->upper && there == key))
                low = mid + 1;
            else
                high = mid;
        }
        *out++ = low;
    }
}

static void search_part(void *ctx, int64_t begin, int64_t end)
{
    const search *s = ctx;
    int64_t n = s->sorted->dims[1], m = s->values->dims[1], places[BATCH];
    size_t elem = mr_dtype_size((mr_dtype)s->sorted->dtype), place_bytes = mr_dtype_size((mr_dtype)s->out->dtype);
    for (int64_t at = begin; at < end;) {
        int64_t row = at / m, to = MR_MIN(MR_MIN(at + BATCH, end), (row + 1) * m);
        s->find(s, (const char *)s->sorted->data + (size_t)(row * n) * elem, at, to, places);
        mr_dtype_convert(MR_INT64, places, (mr_dtype)s->out->dtype, (char *)s->out->data + (size_t)at * place_bytes, to - at,
                         false);
        at = to;
    }
}

static search_row_fn *find_of(mr_dtype t)
{
    switch (t) {
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return find_##name;
        MR_FLOATS32(CASE, ) MR_INTS(CASE, )
#undef CASE
    default: return find_by_keys;
    }
}

/* bool and quantized types are ordered like the integers they are stored as. */
static mr_dtype stored_as(mr_dtype t)
{
    switch (t) {
    case MR_BOOL: case MR_QUINT8: return MR_UINT8;
    case MR_QINT8: return MR_INT8;
    case MR_QINT16: return MR_INT16;
    case MR_QUINT16: return MR_UINT16;
    case MR_QINT32: return MR_INT32;
    default: return t;
    }
}

static mr_status *run_bound(mr_run *r, bool upper)
{
    search s = {.sorted = mr_in(r, 0), .values = mr_in(r, 1), .upper = upper};
    if (s.sorted->rank != 2)
        return mr_invalid("sorted input argument must be a matrix, not %s",
                          MR_TENSOR_SHAPE(s.sorted));
    if (s.values->rank != 2)
        return mr_invalid("values argument must be a matrix, not %s", MR_TENSOR_SHAPE(s.values));
    if (s.sorted->dims[0] != s.values->dims[0])
        return mr_invalid("Leading dim_size of both tensors must match: %s and %s",
                          MR_TENSOR_SHAPE(s.sorted), MR_TENSOR_SHAPE(s.values));
    MR_TRY(mr_run_output(r, 0, 2, s.values->dims, &s.out));
    if (s.out->dtype == MR_INT32 && s.sorted->dims[1] > INT32_MAX)
        return mr_invalid("positions in sorted rows of %lld elements do not fit into int32",
                          (long long)s.sorted->dims[1]);
    s.find = find_of(stored_as((mr_dtype)s.sorted->dtype));
    s.keys = mr_order_of(stored_as((mr_dtype)s.sorted->dtype));
    MR_ENSURE(s.keys);
    mr_run_for(r, s.values->n, 60, search_part, &s);
    return NULL;
}

static mr_status *lower_bound(mr_run *r) { return run_bound(r, false); }
static mr_status *upper_bound(mr_run *r) { return run_bound(r, true); }

static mr_status *infer_bound(mr_infer *c)
{
    const mr_pshape *sorted;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &sorted));
    return mr_infer_rank(c, c->in[1], 2, &c->out[0]);
}

#define TYPES(M, ...) \
    MR_REALS(M, __VA_ARGS__) MR_TYPE_BOOL(M, __VA_ARGS__) MR_QUANTIZED(M, __VA_ARGS__)
#define BOUND(fn)                                                                          \
    .sig = "sorted_inputs: T, values: T -> output: out_type",                              \
    .attrs = "T: type; out_type: {int32, int64} = DT_INT32", .shape = infer_bound,         \
    .kernels = MR_KERNELS(MR_CPU_ONE(fn, TYPES))

MR_OP(LowerBound,
    .doc      = "where in a sorted row each value could be put in, before what equals it",
    BOUND(lower_bound),
    .examples = MR_EXAMPLES(
        "[[1, 3, 3, 5], [0, 2, 4, 6]], [[3, 0, 9], [4, 7, 5]] -> [[1, 0, 4], [2, 4, 3]]",
        "out_type=int64: [[1, 2]], [[2]] -> [[1]]", "[[false, true]], [[true]] -> [[1]]",
        "shape(2,0), [[1], [0]] -> [[0], [0]]", "shape(0,3), shape(0,2) -> shape(0,2)",
        "T=float: [[-inf, 0, inf]], [[-0.0, nan]] -> [[1, 3]]",
        "T=double: [[-inf, -0.0, 0, nan, nan]], [[0, nan, inf, -inf, 5]] -> [[1, 3, 3, 0, 3]]",
        "T=half: [[-inf, 0, nan]], [[-0.0, nan, inf]] -> [[1, 2, 2]]",
        "[1], [[1]] -> !INVALID_ARGUMENT rank 2",
        "[[1]], [[1], [1]] -> !INVALID_ARGUMENT Leading dim_size of both tensors must match"));

MR_OP(UpperBound,
    .doc      = "where in a sorted row each value could be put in, behind what equals it",
    BOUND(upper_bound),
    .examples = MR_EXAMPLES(
        "[[1, 3, 3, 5], [0, 2, 4, 6]], [[3, 0, 9], [4, 7, 5]] -> [[3, 0, 4], [3, 4, 3]]",
        "out_type=int64: [[1, 2]], [[2]] -> [[2]]",
        "T=double: [[-inf, -0.0, 0, nan, nan]], [[0, nan, inf, -inf, 5]] -> [[3, 5, 3, 1, 3]]",
        "T=uint64: [[1, 9223372036854775808]], [[9223372036854775808, 2]] -> [[2, 1]]", "[[false, true]], [[true]] -> [[2]]",
        "shape(2,0), [[1], [0]] -> [[0], [0]]",
        "[[1]], [[1], [1]] -> !INVALID_ARGUMENT Leading dim_size of both tensors must match"));
