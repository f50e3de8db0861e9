/* ops/math/cumsum.c -- Cumsum, Cumprod and CumulativeLogsumexp.
 *
 * The tensor is viewed as [outer, n, inner]. A tile of the inner columns keeps its running results over the n rows,
 * forwards or backwards. Along the last axis (inner is 1) ROWS rows are computed side by side: a sum waits for the one
 * before it, but not for those of other rows. 16-bit floats are computed in float. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/maths.h"
#include "run/run.h"

enum { TILE = 128, ROWS = 4 };
#define UNROLLED _Pragma("GCC unroll 4")

/* n rows, `step` elements apart (negative: backwards), of w columns. */
typedef void scan_columns_fn(const void *x, void *y, int64_t n, int64_t step, int64_t w, bool exclusive);
/* `rows` packed rows of n, each from its end if `reverse`. */
typedef void scan_rows_fn(const void *x, void *y, int64_t rows, int64_t n, bool reverse, bool exclusive);
typedef struct scanner {
    scan_columns_fn *columns;
    scan_rows_fn *rows;
} scanner;

#define SCAN_ROW(S, C, rows, exclusive, empty, ...)                                         \
    {                                                                                       \
        C acc[rows];                                                                        \
        for (int r = 0; r < rows; r++)                                                      \
            acc[r] = empty;                                                                 \
        for (int64_t i = 0; i < n; i++, at += step)                                         \
            UNROLLED                                                                        \
            for (int r = 0; r < rows; r++) {                                                \
                const C a = acc[r], x = MR_LD(p + at + r * n);                              \
                const C next = (C)(__VA_ARGS__);                                            \
                MR_ST(q + at + r * n, exclusive ? a : next);                                \
                acc[r] = next;                                                              \
            }                                                                               \
    }

#define SCAN(E, name, number, S, C, fn, empty, ...)                                         \
    static void fn##_##name(const void *from, void *to, int64_t n, int64_t step, int64_t w, \
                            bool exclusive)                                                 \
    {                                                                                       \
        const S *p = from;                                                                  \
        S *q = to;                                                                          \
        C acc[TILE];                                                                        \
        for (int64_t j = 0; j < w; j++)                                                     \
            acc[j] = empty;                                                                 \
        for (int64_t i = 0; i < n; i++, p += step, q += step)                               \
            for (int64_t j = 0; j < w; j++) {                                               \
                const C a = acc[j], x = MR_LD(p + j);                                       \
                const C next = (C)(__VA_ARGS__);                                            \
                MR_ST(q + j, exclusive ? a : next);                                         \
                acc[j] = next;                                                              \
            }                                                                               \
    }                                                                                       \
    static void fn##_##name##_rows(const void *from, void *to, int64_t rows, int64_t n,     \
                                   bool reverse, bool exclusive)                            \
    {                                                                                       \
        const S *p = from;                                                                  \
        S *q = to;                                                                          \
        int64_t step = reverse ? -1 : 1, first = reverse ? n - 1 : 0;                       \
        for (; rows > 0; rows -= ROWS, p += ROWS * n, q += ROWS * n) {                      \
            int64_t at = first;                                                             \
            if (rows >= ROWS && exclusive)                                                  \
                SCAN_ROW(S, C, ROWS, true, empty, __VA_ARGS__)                              \
            else if (rows >= ROWS)                                                          \
                SCAN_ROW(S, C, ROWS, false, empty, __VA_ARGS__)                             \
            else                                                                            \
                for (int64_t k = 0; k < rows; k++, at = first + k * n)                      \
                    SCAN_ROW(S, C, 1, exclusive, empty, __VA_ARGS__)                        \
        }                                                                                   \
    }                                                                                       \
    static const scanner fn##_of_##name = {fn##_##name, fn##_##name##_rows};
MR_FLOATS(SCAN, sums, 0, a + x)
MR_COMPLEXES(SCAN, sums, 0, a + x)
MR_INTS(SCAN, sums, 0, (uint64_t)a + (uint64_t)x)
MR_FLOATS(SCAN, products, 1, a * x)
MR_COMPLEXES(SCAN, products, 1, a * x)
MR_INTS(SCAN, products, 1, (uint64_t)a * (uint64_t)x)

/* log(e^a + e^x). The empty sum is the lowest number rather than -inf, so that differences stay finite. */
static inline double add_logs(double a, double x)
{
    double top = a > x || a != a ? a : x, low = a > x ? x : a;
    return isinf(top) || top != top ? top : top + log1p(exp(low - top));
}
#define LOG_TYPES(M, ...)                                                               \
    MR_TYPE_HALF(M, sum_logs, -65504.0f, __VA_ARGS__)                                   \
    MR_TYPE_FLOAT(M, sum_logs, -FLT_MAX, __VA_ARGS__)                                   \
    MR_TYPE_DOUBLE(M, sum_logs, -DBL_MAX, __VA_ARGS__)
LOG_TYPES(SCAN, add_logs(a, x))

typedef struct job {
    const scanner *scan;
    const char *x;
    char *y;
    size_t bytes;
    int64_t n, inner, tiles;
    bool exclusive, reverse;
} job;

static void scan_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t u = begin; u < end; u++) {
        int64_t outer = u / j->tiles, col = u % j->tiles * TILE, w = MR_MIN(TILE, j->inner - col);
        int64_t first = outer * j->n + (j->reverse ? j->n - 1 : 0);
        size_t at = (size_t)(first * j->inner + col) * j->bytes;
        j->scan->columns(j->x + at, j->y + at, j->n, j->reverse ? -j->inner : j->inner, w, j->exclusive);
    }
}

static void scan_rows_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t at = (size_t)(begin * j->n) * j->bytes;
    j->scan->rows(j->x + at, j->y + at, end - begin, j->n, j->reverse, j->exclusive);
}

static mr_status *scan_run(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *axis_in = mr_in(r, 1);
    if (axis_in->rank != 0)
        return mr_invalid("ScanOp: axis must be a scalar, not %s", MR_TENSOR_SHAPE(axis_in));
    int64_t axis = mr_tensor_int_at(axis_in, 0);
    if (axis < -x->rank || axis >= x->rank)
        return mr_invalid("ScanOp: Expected scan axis in the range [%d, %d), but got %lld",
                          -x->rank, x->rank, (long long)axis);
    axis += axis < 0 ? x->rank : 0;
    job j = {
        .scan = r->kernel->user, .bytes = mr_dtype_size((mr_dtype)x->dtype), .inner = 1};
    MR_TRY(mr_node_get_bool(r->node, "exclusive", &j.exclusive));
    MR_TRY(mr_node_get_bool(r->node, "reverse", &j.reverse));
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &y));
    if (x->n == 0)
        return NULL;
    j.x = x->data;
    j.y = y->data;
    j.n = x->dims[axis];
    for (int d = (int)axis + 1; d < x->rank; d++)
        j.inner *= x->dims[d];
    if (j.inner == 1) {
        mr_run_for(r, x->n / j.n, (double)j.n, scan_rows_part, &j);
        return NULL;
    }
    j.tiles = (j.inner + TILE - 1) / TILE;
    mr_run_for(r, x->n / (j.n * j.inner) * j.tiles, (double)j.n * (double)MR_MIN(j.inner, TILE),
               scan_part, &j);
    return NULL;
}

static mr_status *scan_shape(mr_infer *c)
{
    const mr_pshape *axis;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &axis));
    c->out[0] = c->in[0];
    return NULL;
}

static mr_out scan_like(mr_grad *g, const char *op, mr_out x, bool flip)
{
    bool exclusive = false, reverse = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "exclusive", &exclusive));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "reverse", &reverse));
    return mr_emit_with(
        g->s, op,
        MR_ATTRS({"exclusive", mr_a_bool(exclusive)}, {"reverse", mr_a_bool(reverse != flip)}), x,
        mr_xi(g, 1));
}

static void cumsum_backward(mr_grad *g)
{
    mr_dxi(g, 0, scan_like(g, "Cumsum", mr_dyi(g, 0), true));
}

/* An element is a factor of every product from its position on: dx = sum of dy y over those, divided by x. As in
 * TensorFlow it is wrong where x is 0: it gives 0 there, so that no NaN spreads. */
static void cumprod_backward(mr_grad *g)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), y = mr_conj(g, mr_yi(g, 0));
    mr_out sums = scan_like(g, "Cumsum", mr_emit(g->s, "Mul", mr_dyi(g, 0), y), true);
    mr_dxi(g, 0, mr_emit(g->s, "DivNoNan", sums, x));
}

/* dx = e^x times the sum of dy e^-y over the sums that contain x; computed with logarithms, so dy is split into its
 * positive and its negative part. */
static mr_out log_part(mr_grad *g, mr_out size, const char *test, mr_out zero, mr_out lowest)
{
    mr_out there = mr_emit(g->s, test, mr_dyi(g, 0), zero);
    mr_out logs = mr_emit(g->s, "SelectV2", there, mr_emit(g->s, "Log", size), lowest);
    mr_out sums = scan_like(g, "CumulativeLogsumexp", mr_emit(g->s, "Sub", logs, mr_yi(g, 0)), true);
    return mr_emit(g->s, "Exp", mr_emit(g->s, "AddV2", sums, mr_xi(g, 0)));
}

static void logsumexp_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), zero = mr_scalar_like(g, 0, dy);
    mr_dtype type = mr_dtype_base(mr_out_type(dy));
    double low = type == MR_HALF ? -65504.0 : type == MR_FLOAT ? -FLT_MAX : -DBL_MAX;
    mr_out lowest = mr_scalar_like(g, low, dy);
    mr_out up = log_part(g, dy, "Greater", zero, lowest);
    mr_out down = log_part(g, mr_emit(g->s, "Neg", dy), "Less", zero, lowest);
    mr_dxi(g, 0, mr_emit(g->s, "Sub", up, down));
}

#define ROW(E, name, number, S, C, fn) \
    {.device = "CPU", .type = MR_##E, .run = scan_run, .user = (void *)(uintptr_t)&fn##_of_##name},
#define ATTRS                                                                                \
    "exclusive: bool = false; reverse: bool = false; T: numbertype; Tidx: {int32, int64} = " \
    "DT_INT32"

MR_OP(Cumsum,
    .doc      = "running sums along an axis",
    .sig      = "x: T, axis: Tidx -> out: T",
    .attrs    = ATTRS,
    .key      = "T",
    .shape    = scan_shape,
    .grad     = cumsum_backward,
    .kernels  = MR_KERNELS(MR_NUMBERS(ROW, sums) MR_CODES(ROW, sums)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], 0 -> [1, 3, 6]",
        "exclusive=true: [1, 2, 3], 0 -> [0, 1, 3]",
        "reverse=true: [1, 2, 3], 0 -> [6, 5, 3]",
        "exclusive=true reverse=true: [1, 2, 3], int64 0 -> [5, 3, 0]",
        "[[1, 2], [3, 4]], 0 -> [[1, 2], [4, 6]]",
        "[[1, 2], [3, 4]], -1 -> [[1, 3], [3, 7]]",
        "reverse=true: [[1, 2], [3, 4], [5, 6], [7, 8], [9, 1]], 1 -> [[3, 2], [7, 4], [11, 6], [15, 8], [10, 1]]",
        "exclusive=true: [[1, 2], [3, 4], [5, 6], [7, 8], [9, 1]], 1 -> [[0, 1], [0, 3], [0, 5], [0, 7], [0, 9]]",
        "[1+1i, 2-1i], 0 -> [1+1i, 3]",
        "shape(2,0), 1 -> shape(2,0)",
        "T=int8: [100, 100], 0 -> [100, -56]",
        "T=quint8: [100, 100], 0 -> [100, 200]",
        "T=float: [1, 2], 1 -> !INVALID_ARGUMENT",
        "T=float: [1, 2], [0] -> !INVALID_ARGUMENT"));

MR_OP(Cumprod,
    .doc      = "running products along an axis",
    .sig      = "x: T, axis: Tidx -> out: T",
    .attrs    = ATTRS,
    .key      = "T",
    .shape    = scan_shape,
    .grad     = cumprod_backward,
    .kernels  = MR_KERNELS(MR_NUMBERS(ROW, products) MR_CODES(ROW, products)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], 0 -> [1, 2, 6]",
        "exclusive=true: [1, 2, 3], 0 -> [1, 1, 2]",
        "exclusive=true: [2, 0], 0 -> [1, 2]", /* nothing depends on the 0: its gradient is 0 */
        "reverse=true: [1, 2, 3], 0 -> [6, 6, 3]",
        "exclusive=true reverse=true: [2, 2, 3], 0 -> [6, 3, 1]",
        "[[1, 2], [3, 4]], 0 -> [[1, 2], [3, 8]]",
        "[1+1i, 2-1i], 0 -> [1+1i, 3+1i]"));

#define LOG_ROW(E, name, number, S, C, ...) ROW(E, name, number, S, C, sum_logs)
MR_OP(CumulativeLogsumexp,
    .doc      = "running sums of exponentials along an axis, as logarithms",
    .sig      = "x: T, axis: Tidx -> out: T",
    .attrs    = "exclusive: bool = false; reverse: bool = false; T: {half, float, double}; "
                "Tidx: {int32, int64} = DT_INT32",
    .key      = "T",
    .shape    = scan_shape,
    .grad     = logsumexp_backward,
    .kernels  = MR_KERNELS(LOG_TYPES(LOG_ROW, )),
    .examples = MR_EXAMPLES(
        "[0, 0, 0], 0 -> [0, 0.693147180560, 1.098612288668]",
        "reverse=true: [1, 2, 3], int64 0 -> [3.407605964444, 3.313261687518, 3]",
        "[[1, 2], [3, 4]], 0 -> [[1, 2], [3.126928011043, 4.126928011043]]",
        "[[1, 2], [3, 4]], -1 -> [[1, 2.313261687518], [3, 4.313261687518]]",
        "T=float exclusive=true nograd: [1, 2], 0 -> [-3.4028234e38, 1]",
        "T=double exclusive=true reverse=true nograd: [1, 2], 0 -> [2, ?]",
        "nograd: [-inf, inf, 1], 0 -> [?, inf, inf]", "nograd: [1, nan, 2], 0 -> [1, nan, nan]",
        "nograd: [1000, 1000], 0 -> [1000, 1000.693147180560]", "shape(2,0), 1 -> shape(2,0)",
        "T=float: [1, 2], 1 -> !INVALID_ARGUMENT", "T=float: [1, 2], [0] -> !INVALID_ARGUMENT"));
