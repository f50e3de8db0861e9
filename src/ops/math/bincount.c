/* ops/math/bincount.c -- counts of numbers: Bincount, DenseBincount, HistogramFixedWidth, Bucketize. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "ops/maths.h"
#include "run/run.h"

/* ---- Bincount and DenseBincount ---- */

typedef struct counting {
    const mr_tensor *x, *weights; /* weights NULL: ones */
    mr_tensor *out;
    int64_t rows, n, size; /* x is [rows, n], out [rows, size] */
    bool binary;
} counting;

/* Numbers beyond the last bin are ignored; there are no negative ones. What the loops read is in local variables, which
 * the bins cannot alias. */
#define EACH_BIN(I, ...)                                                                     \
    {                                                                                        \
        const I *x = MR_DATA(I, c->x) + row * c->n;                                          \
        for (int64_t i = 0; i < n; i++) {                                                    \
            int64_t bin = (int64_t)x[i];                                                     \
            if (bin < size)                                                                  \
                out[bin] = __VA_ARGS__;                                                      \
        }                                                                                    \
    }
#define ADD_BINS_OF(S, add, I)                                                               \
    {                                                                                        \
        const S *weights = c->weights ? MR_DATA(S, c->weights) + row * c->n : NULL;          \
        if (c->binary)                                                                       \
            EACH_BIN(I, 1)                                                                   \
        else if (weights)                                                                    \
            EACH_BIN(I, (S)add(out[bin], weights[i]))                                        \
        else                                                                                 \
            EACH_BIN(I, (S)add(out[bin], 1))                                                 \
    }
#define ADD_BINS(E, name, number, S, C, ...)                                                 \
    static void add_bins_##name(const counting *c, int64_t row)                              \
    {                                                                                        \
        int64_t n = c->n, size = c->size;                                                    \
        S *out = MR_DATA(S, c->out) + row * size;                                            \
        if (c->x->dtype == MR_INT32)                                                         \
            ADD_BINS_OF(S, ADD_##E, int32_t)                                                 \
        else                                                                                 \
            ADD_BINS_OF(S, ADD_##E, int64_t)                                                 \
    }
#define ADD_FLOAT(a, b) ((a) + (b))
#define ADD_DOUBLE ADD_FLOAT
#define ADD_INT32(a, b) ((uint64_t)(a) + (uint64_t)(b)) /* wraps */
#define ADD_INT64 ADD_INT32
MR_FLOATS32(ADD_BINS, )
MR_INDEXES(ADD_BINS, )
#define BIN_TYPES(M, ...) MR_INDEXES(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)

static void add_bins(const counting *c, int64_t row)
{
    switch (c->out->dtype) {
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: add_bins_##name(c, row); break;
        BIN_TYPES(CASE, )
#undef CASE
    default: break;
    }
}

static void count_rows(void *ctx, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        add_bins(ctx, row);
}

static mr_status *check_bins(const mr_tensor *x)
{
    uint32_t any32 = 0; /* the sign bits of all */
    uint64_t any64 = 0;
    for (int64_t i = 0; x->dtype == MR_INT32 && i < x->n; i++)
        any32 |= MR_DATA(uint32_t, x)[i];
    for (int64_t i = 0; x->dtype == MR_INT64 && i < x->n; i++)
        any64 |= MR_DATA(uint64_t, x)[i];
    return any32 >> 31 || any64 >> 63 ? mr_invalid("Input arr must be non-negative!") : NULL;
}

static mr_status *count_values(mr_run *r, bool binary, bool by_rows)
{
    const mr_tensor *x = mr_in(r, 0), *w = mr_in(r, 2);
    counting c = {.x = x, .weights = w->n > 0 ? w : NULL, .binary = binary, .rows = 1, .n = x->n};
    MR_TRY(mr_in_scalar_int(r, 1, "size", &c.size));
    if (c.size < 0)
        return mr_invalid("size (%lld) must be non-negative", (long long)c.size);
    if (c.weights && !mr_tensor_same_shape(x, w))
        return mr_invalid("`weights` must be the same shape as `arr` or a length-0 `Tensor`, in "
                          "which case it acts as all weights equal to 1. Received %s",
                          MR_TENSOR_SHAPE(w));
    MR_TRY(check_bins(x));
    if (x->rank == 2 && by_rows) {
        c.rows = x->dims[0];
        c.n = x->dims[1];
        MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){c.rows, c.size}, &c.out));
    } else {
        MR_TRY(mr_run_output(r, 0, 1, &c.size, &c.out));
    }
    mr_tensor_zero(c.out);
    mr_run_for(r, c.rows, 2.0 * (double)c.n, count_rows, &c);
    return NULL;
}

static mr_status *run_bincount(mr_run *r) { return count_values(r, false, false); }

typedef struct binary_state {
    bool binary;
} binary_state;

static mr_status *init_binary(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "binary_output", &((binary_state *)s)->binary);
}

static mr_status *dense_bincount(mr_run *r)
{
    if (mr_in(r, 0)->rank > 2)
        return mr_invalid("Shape must be at most rank 2 but is rank %d", mr_in(r, 0)->rank);
    return count_values(r, ((binary_state *)r->state)->binary, true);
}

/* The size, if it is known. */
static mr_status *size_value(mr_infer *c, int64_t *out)
{
    const mr_pshape *ignored;
    *out = -1;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    if (mr_infer_int(c, 1, out) && *out < 0)
        return mr_invalid("size (%lld) must be non-negative", (long long)*out);
    return NULL;
}

static mr_status *bincount_shape(mr_infer *c)
{
    int64_t size;
    MR_TRY(size_value(c, &size));
    mr_infer_out_vector(c, 0, size);
    return NULL;
}

static mr_status *dense_bincount_shape(mr_infer *c)
{
    const mr_pshape *x;
    int64_t size;
    MR_TRY(mr_infer_rank_at_most(c, c->in[0], 2, &x));
    MR_TRY(size_value(c, &size));
    if (x->rank == 2)
        c->out[0] = mr_pshape_matrix(c->arena, x->dims[0], size);
    else if (x->rank >= 0)
        mr_infer_out_vector(c, 0, size);
    return NULL;
}

MR_OP(Bincount,
    .doc      = "how often each of 0 .. size - 1 occurs, or the sum of the weights where it does",
    .sig      = "arr: int32, size: int32, weights: T -> bins: T",
    .attrs    = "T: {int32, int64, float, double}",
    .shape    = bincount_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_bincount, BIN_TYPES)),
    .examples = MR_EXAMPLES(
        "[1, 1, 2, 5, 1], 4, shape(0) -> [0, 3, 1, 0]",
        "[[1, 2], [2, 0]], 3, [[1, 2], [3, 4]] -> [4, 1, 5]",
        "int32 shape(0), 2, shape(0) -> [0, 0]",
        "[1], 0, shape(0) -> shape(0)", "T=int32: [0, 0], 1, [2147483647, 1] -> [-2147483648]",
        "[1, -1], 4, shape(0) -> !INVALID_ARGUMENT Input arr must be non-negative!",
        "[1, 1], 4, [1] -> !INVALID_ARGUMENT `weights` must be the same shape as `arr`",
        "[1], -1, shape(0) -> !INVALID_ARGUMENT size (-1) must be non-negative",
        "[1], [1], shape(0) -> !INVALID_ARGUMENT"));

MR_OP(DenseBincount,
    .doc      = "how often each of 0 .. size - 1 occurs, in all or in each row; or the sum of the "
                "weights there; or with binary_output whether it does",
    .sig      = "input: Tidx, size: Tidx, weights: T -> output: T",
    .attrs    = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = "
                "false",
    .key      = "T",
    .shape    = dense_bincount_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(dense_bincount, BIN_TYPES)),
    .state_bytes = sizeof(binary_state), .init = init_binary,
    .examples = MR_EXAMPLES(
        "Tidx=int32: [1, 1, 2, 5, 1], 4, shape(0) -> [0, 3, 1, 0]",
        "Tidx=int64: [[1, 1], [0, 2]], 3, shape(0) -> [[0, 2, 0], [1, 0, 1]]",
        "Tidx=int32 binary_output=true: [[1, 1], [0, 2]], 3, shape(0) -> [[0, 1, 0], [1, 0, 1]]",
        "Tidx=int32: [[1, 1], [0, 2]], 3, [[1, 2], [3, 4]] -> [[0, 3, 0], [3, 0, 4]]",
        "Tidx=int32: 1, 2, shape(0) -> [0, 1]", "Tidx=int32: shape(0,3), 2, shape(0) -> shape(0,2)",
        "Tidx=int32: [-1], 2, shape(0) -> !INVALID_ARGUMENT non-negative",
        "Tidx=int32: [1], -2, shape(0) -> !INVALID_ARGUMENT non-negative",
        "Tidx=int32: [[[1]]], 2, shape(0) -> !INVALID_ARGUMENT at most rank 2"));

/* ---- HistogramFixedWidth ---- */

/* The distance of a value from the low end: exact for integers, which may be 64 bits apart. */
#define ABOVE_FLOATING(v, low) ((double)(v) - (double)(low))
#define ABOVE_INTEGER(v, low) ((double)((uint64_t)(v) - (uint64_t)(low)))
#define BIN_OF(E, name, number, S, C, ABOVE)                                                  \
    static bool bins_##name(const mr_tensor *x, const mr_tensor *range, int64_t nbins,        \
                            mr_tensor *out)                                                   \
    {                                                                                         \
        S low = MR_DATA(S, range)[0], high = MR_DATA(S, range)[1];                            \
        double step = ABOVE(high, low) / (double)nbins;                                       \
        for (int64_t i = 0; i < x->n; i++) {                                                  \
            S v = MR_DATA(S, x)[i];                                                           \
            if (v != v)                                                                       \
                return false;                                                                 \
            double at = v > low ? ABOVE(v, low) / step : 0;                                   \
            int64_t bin = at < (double)(nbins - 1) ? (int64_t)at : nbins - 1;                 \
            if (out->dtype == MR_INT64)                                                       \
                MR_DATA(int64_t, out)[bin]++;                                                 \
            else                                                                              \
                MR_DATA(uint32_t, out)[bin]++;                                                \
        }                                                                                     \
        return true;                                                                          \
    }                                                                                         \
    static bool in_order_##name(const mr_tensor *range)                                       \
    {                                                                                         \
        return MR_DATA(S, range)[0] < MR_DATA(S, range)[1];                                   \
    }
MR_FLOATS32(BIN_OF, ABOVE_FLOATING)
MR_INDEXES(BIN_OF, ABOVE_INTEGER)

typedef struct histogram {
    bool (*bins)(const mr_tensor *x, const mr_tensor *range, int64_t nbins, mr_tensor *out);
    bool (*in_order)(const mr_tensor *range);
} histogram;
#define HISTOGRAM(E, name, number, S, C, ...) \
    static const histogram histogram_##name = {bins_##name, in_order_##name};
BIN_TYPES(HISTOGRAM, )

static mr_status *histogram_run(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *range = mr_in(r, 1);
    const histogram *h = r->kernel->user;
    mr_tensor *out;
    int64_t nbins;
    if (range->rank != 1 || range->n != 2)
        return mr_invalid("value_range should be a vector of 2 elements, but got shape %s",
                          MR_TENSOR_SHAPE(range));
    MR_TRY(mr_in_scalar_int(r, 2, "nbins", &nbins));
    if (!h->in_order(range))
        return mr_invalid("value_range should satisfy value_range[0] < value_range[1]");
    if (nbins <= 0)
        return mr_invalid("nbins should be a positive number, but got '%lld'", (long long)nbins);
    MR_TRY(mr_run_output(r, 0, 1, &nbins, &out));
    mr_tensor_zero(out);
    if (!h->bins(x, range, nbins, out))
        return mr_invalid("the values of a histogram must not contain NaN");
    return NULL;
}

static mr_status *histogram_shape(mr_infer *c)
{
    const mr_pshape *range, *ignored;
    int64_t nbins = -1;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &range));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(range, 0), 2));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    if (mr_infer_int(c, 2, &nbins) && nbins <= 0)
        return mr_invalid("Requires nbins > 0: nbins should be a positive number, but got '%lld'",
                          (long long)nbins);
    mr_infer_out_vector(c, 0, nbins);
    return NULL;
}

#define HISTOGRAM_ROW(E, name, number, S, C, ...) \
    {.device = "CPU",                             \
     .type = MR_##E,                              \
     .run = histogram_run,                        \
     .user = (void *)(uintptr_t)&histogram_##name},

MR_OP(HistogramFixedWidth,
    .doc      = "how many values lie in each of nbins equal parts of a range; those outside count "
                "in "
                "the first or the last",
    .sig      = "values: T, value_range: T, nbins: int32 -> out: dtype",
    .attrs    = "T: {int32, int64, float, double}; dtype: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = histogram_shape,
    .kernels  = MR_KERNELS(BIN_TYPES(HISTOGRAM_ROW, )),
    .examples = MR_EXAMPLES(
        "[-1, 0, 2, 2, 5, 15], [0, 5], 5 -> [2, 0, 2, 0, 2]",
        "dtype=int64: [[-1], [9]], [0, 10], 2 -> [1, 1]",
        "T=float: [0.5, 1.5, inf, -inf], [0, 2], 2 -> [2, 2]",
        "shape(0), [0, 5], 3 -> [0, 0, 0]",
        "T=int64: [-9223372036854775808, 9223372036854775807], [-9223372036854775808, "
        "9223372036854775807], 4 -> [1, 0, 0, 1]",
        "T=float: [nan], [0, 5], 3 -> !INVALID_ARGUMENT NaN",
        "[1], [5, 5], 3 -> !INVALID_ARGUMENT value_range[0] < value_range[1]",
        "[1], [0, 5], 0 -> !INVALID_ARGUMENT nbins should be a positive number, but got '0'",
        "[1], [0, 5, 6], 1 -> !INVALID_ARGUMENT"));

/* ---- Bucketize ---- */

typedef struct bounds {
    int n;
    double *at; /* floats are exact in double, and so is every compared value except large int64 */
} bounds;

static mr_status *init_bounds(mr_make *m, void *state)
{
    bounds *b = state;
    const mr_attr *list;
    MR_TRY(mr_node_get_list(m->node, "boundaries", MR_ATTR_FLOAT, &list));
    b->n = list->n;
    b->at = mr_try_calloc((size_t)b->n + 1, sizeof(double));
    if (!b->at)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d boundaries", b->n);
    for (int i = 0; i < b->n; i++) {
        b->at[i] = list->fs[i];
        if (i > 0 && b->at[i] < b->at[i - 1])
            return mr_invalid("Expected sorted boundaries");
    }
    return NULL;
}

static void deinit_bounds(void *state) { mr_free(((bounds *)state)->at); }

/* The number of boundaries that are not above v; NaN is above all. */
static int32_t bucket_of(const bounds *b, double v)
{
    int low = 0, high = b->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (v < b->at[mid])
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

#define BUCKETS(E, name, number, S, C, ...)                                          \
    static void buckets_##name(const bounds *b, const mr_tensor *x, int32_t *out)    \
    {                                                                                \
        for (int64_t i = 0; i < x->n; i++)                                           \
            out[i] = bucket_of(b, (double)MR_DATA(S, x)[i]);                         \
    }
BIN_TYPES(BUCKETS, )
typedef void buckets_fn(const bounds *b, const mr_tensor *x, int32_t *out);

static mr_status *run_bucketize(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &out));
    ((buckets_fn *)r->kernel->user)(r->state, x, out->data);
    return NULL;
}

#define BUCKETS_ROW(E, name, number, S, C, ...) \
    {.device = "CPU", .type = MR_##E, .run = run_bucketize, .user = (void *)(uintptr_t)buckets_##name},

MR_OP(Bucketize,
    .doc      = "which of the intervals between boundaries each element is in",
    .sig      = "input: T -> output: int32",
    .attrs    = "T: {int32, int64, float, double}; boundaries: list(float)",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(BIN_TYPES(BUCKETS_ROW, )),
    .state_bytes = sizeof(bounds), .init = init_bounds, .deinit = deinit_bounds,
    .examples = MR_EXAMPLES(
        "boundaries=[0, 10, 100]: [[-5, 10000], [150, 10], [5, 100]] -> [[0, 3], [3, 2], [1, 3]]",
        "boundaries=[]: [1, 2] -> [0, 0]", "boundaries=[0.5]: shape(0) -> shape(0)",
        "T=float boundaries=[0, 1]: [nan, inf, -inf, 0] -> [2, 2, 0, 1]",
        "boundaries=[1, 0]: [1] -> !INVALID_ARGUMENT Expected sorted boundaries"));
