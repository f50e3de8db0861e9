/* ops/math/arg_max.c -- ArgMax and ArgMin: the position of the largest (smallest) element along an axis.
 *
 * The tensor is viewed as [outer, n, inner]; a tile of the inner columns keeps its best values and their positions
 * over the n rows, so the loop over a row vectorises. Along the last axis (inner is 1) the best value of a packed row is
 * found first, lane by lane, then where it is. The first of equal values wins; NaN never wins unless all are NaN, which
 * gives 0. */
#include <stdio.h>

#include "graph/infer.h"
#include "ops/maths.h"
#include "run/run.h"
#include "run/accel.h"

enum { TILE = 128 };

/* Column tile of w: rows are `stride` elements apart; best[] and place[] have room for w. */
typedef void search_fn(const void *x, int64_t n, int64_t stride, int64_t w, void *best,
                       int64_t *place);

#define SEARCH(fn, name, S, better)                                                             \
    static void fn##_##name(const void *data, int64_t n, int64_t stride, int64_t w, void *room, \
                            int64_t *place)                                                     \
    {                                                                                           \
        const S *p = data;                                                                      \
        S *best = room;                                                                         \
        for (int64_t j = 0; j < w; j++) {                                                       \
            best[j] = p[j];                                                                     \
            place[j] = 0;                                                                       \
        }                                                                                       \
        for (int64_t i = 1; i < n; i++) {                                                       \
            p += stride;                                                                        \
            for (int64_t j = 0; j < w; j++) {                                                   \
                S x = p[j], b = best[j];                                                        \
                bool wins = better;                                                             \
                best[j] = wins ? x : b;                                                         \
                place[j] = wins ? i : place[j];                                                 \
            }                                                                                   \
        }                                                                                       \
    }
/* A number beats a NaN that came first. */
#define SEARCH_FLOAT(E, name, number, S, C, fn, cmp) \
    SEARCH(fn, name, S, (x cmp b) | ((b != b) & (x == x)))
#define SEARCH_INT(E, name, number, S, C, fn, cmp) SEARCH(fn, name, S, x cmp b)

/* ---- packed rows ---- */

enum { SHORT_ROW = 32, ROW_LANES = 32, ROW_BLOCK = 64 };

/* The positions in `rows` packed rows of n. `worst` loses against every other value; where nothing equals the best value,
 * all are NaN. */
typedef void search_rows_fn(const void *x, int64_t rows, int64_t n, int64_t *place);

#define SEARCH_ROWS(fn, name, S, cmp, worst)                                                     \
    MR_INLINE int64_t fn##_##name##_short(const S *p, int64_t n)                                 \
    {                                                                                            \
        S best = worst;                                                                          \
        uint32_t equal = 0;                                                                      \
        for (int64_t i = 0; i < n; i++)                                                          \
            best = p[i] cmp best ? p[i] : best;                                                  \
        for (int64_t i = 0; i < n; i++)                                                          \
            equal |= (uint32_t)(p[i] == best) << i;                                              \
        return equal ? __builtin_ctz(equal) : 0;                                                 \
    }                                                                                            \
    MR_INLINE int64_t fn##_##name##_long(const S *p, int64_t n)                                  \
    {                                                                                            \
        S lane[ROW_LANES], best = worst;                                                         \
        int64_t i = 0;                                                                           \
        for (int k = 0; k < ROW_LANES; k++)                                                      \
            lane[k] = worst;                                                                     \
        for (; i + ROW_LANES <= n; i += ROW_LANES)                                               \
            for (int k = 0; k < ROW_LANES; k++)                                                  \
                lane[k] = p[i + k] cmp lane[k] ? p[i + k] : lane[k];                             \
        for (; i < n; i++)                                                                       \
            best = p[i] cmp best ? p[i] : best;                                                  \
        for (int k = 0; k < ROW_LANES; k++)                                                      \
            best = lane[k] cmp best ? lane[k] : best;                                            \
        for (i = 0; i + ROW_BLOCK <= n; i += ROW_BLOCK) {                                        \
            int n_equal = 0;                                                                     \
            for (int k = 0; k < ROW_BLOCK; k++)                                                  \
                n_equal += p[i + k] == best;                                                     \
            if (n_equal)                                                                         \
                break;                                                                           \
        }                                                                                        \
        for (; i < n; i++)                                                                       \
            if (p[i] == best)                                                                    \
                return i;                                                                        \
        return 0;                                                                                \
    }                                                                                            \
    MR_CLONES static void fn##_##name##_rows(const void *data, int64_t rows, int64_t n, int64_t *place) \
    {                                                                                            \
        const S *p = data;                                                                       \
        for (int64_t r = 0; r < rows; r++, p += n)                                               \
            place[r] = n < SHORT_ROW ? fn##_##name##_short(p, n) : fn##_##name##_long(p, n);     \
    }
#define SEARCH_ROWS_FLOAT(E, name, number, S, C, fn, cmp, worst) SEARCH_ROWS(fn, name, S, cmp, worst)
#define LOWEST_UNSIGNED(S) 0
#define HIGHEST_UNSIGNED(S) (S) ~(S)0
#define LOWEST_SIGNED(S) (S)((uint64_t)1 << (8 * sizeof(S) - 1))
#define HIGHEST_SIGNED(S) (S)(((uint64_t)1 << (8 * sizeof(S) - 1)) - 1)
#define SEARCH_ROWS_INT(E, name, number, S, C, fn, cmp, worst) SEARCH_ROWS(fn, name, S, cmp, worst(S))
MR_FLOATS32(SEARCH_ROWS_FLOAT, largest, >, -INFINITY)
MR_FLOATS32(SEARCH_ROWS_FLOAT, smallest, <, INFINITY)
MR_SIGNED(SEARCH_ROWS_INT, largest, >, LOWEST_SIGNED)
MR_SIGNED(SEARCH_ROWS_INT, smallest, <, HIGHEST_SIGNED)
MR_UNSIGNED(SEARCH_ROWS_INT, largest, >, LOWEST_UNSIGNED)
MR_UNSIGNED(SEARCH_ROWS_INT, smallest, <, HIGHEST_UNSIGNED)

/* ---- jobs ---- */

typedef struct searcher {
    search_fn *columns;
    search_rows_fn *rows;
} searcher;
#define SEARCHER(E, name, number, S, C, fn) \
    static const searcher fn##_of_##name = {fn##_##name, fn##_##name##_rows};
#define SEARCHERS(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_INTS(M, __VA_ARGS__)

MR_FLOATS32(SEARCH_FLOAT, largest, >)
MR_FLOATS32(SEARCH_FLOAT, smallest, <)
MR_INTS(SEARCH_INT, largest, >)
MR_INTS(SEARCH_INT, smallest, <)
SEARCHERS(SEARCHER, largest)
SEARCHERS(SEARCHER, smallest)

typedef struct job {
    const searcher *search;
    const mr_tensor *x;
    mr_tensor *y;
    int64_t n, inner, tiles;
    float *wide; /* 16-bit floats as floats; NULL: not needed */
} job;

static void store_places(mr_tensor *y, int64_t at, const int64_t *place, int64_t w)
{
    mr_dtype_convert(MR_INT64, place, (mr_dtype)y->dtype,
                     (char *)y->data + (size_t)at * mr_dtype_size((mr_dtype)y->dtype), w, false);
}

static void search_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    _Alignas(64) char best[TILE * 8];
    int64_t place[TILE];
    size_t bytes = j->wide ? sizeof(float) : mr_dtype_size((mr_dtype)j->x->dtype);
    const char *data = j->wide ? (const char *)j->wide : j->x->data;
    for (int64_t u = begin; u < end; u++) {
        int64_t outer = u / j->tiles, col = u % j->tiles * TILE, w = MR_MIN(TILE, j->inner - col);
        j->search->columns(data + (size_t)(outer * j->n * j->inner + col) * bytes, j->n, j->inner, w, best,
                  place);
        store_places(j->y, outer * j->inner + col, place, w);
    }
}

static void search_rows_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t place[TILE];
    size_t bytes = j->wide ? sizeof(float) : mr_dtype_size((mr_dtype)j->x->dtype);
    const char *data = j->wide ? (const char *)j->wide : j->x->data;
    for (int64_t at = begin; at < end; at += TILE) {
        int64_t rows = MR_MIN(TILE, end - at);
        j->search->rows(data + (size_t)(at * j->n) * bytes, rows, j->n, place);
        store_places(j->y, at, place, rows);
    }
}

static mr_status *search_by_device(mr_run *r, const mr_tensor *x, int axis)
{
    int64_t dims[MR_MAX_RANK], inner = 1, width = x->dims[axis];
    char name[64];
    mr_tensor *y;
    for (int d = 0, k = 0; d < x->rank; d++) {
        if (d != axis)
            dims[k++] = x->dims[d];
        if (d > axis)
            inner *= x->dims[d];
    }
    if (width == 0)
        return mr_invalid("Reduction axis %d is empty in shape %s", axis, MR_TENSOR_SHAPE(x));
    MR_TRY(mr_run_output(r, 0, x->rank - 1, dims, &y));
    snprintf(name, sizeof name, "%s_%s", (const char *)r->kernel->user, mr_dtype_name(y->dtype));
    return mr_accel_launch(r, name, y->n, MR_ACCEL(MR_AI(y->n), MR_AT(y), MR_AT(x), MR_AI(width), MR_AI(inner)));
}

static mr_status *search_axis(mr_run *r, const mr_tensor *x, int axis, job *j)
{
    int64_t outer = 1, dims[MR_MAX_RANK];
    j->inner = 1;
    for (int d = 0, k = 0; d < x->rank; d++) {
        if (d != axis)
            dims[k++] = x->dims[d];
        if (d < axis)
            outer *= x->dims[d];
        if (d > axis)
            j->inner *= x->dims[d];
    }
    j->x = x;
    j->n = x->dims[axis];
    if (j->n == 0)
        return mr_invalid("Reduction axis %d is empty in shape %s", axis, MR_TENSOR_SHAPE(x));
    MR_TRY(mr_run_output(r, 0, x->rank - 1, dims, &j->y));
    if (j->y->n == 0)
        return NULL;
    if (j->inner == 1) {
        mr_run_for(r, outer, 0.2 * (double)j->n + 5, search_rows_part, j);
        return NULL;
    }
    j->tiles = (j->inner + TILE - 1) / TILE;
    mr_run_for(r, outer * j->tiles, (double)j->n * (double)MR_MIN(j->inner, TILE), search_part, j);
    return NULL;
}

static mr_status *arg_run(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *dim = mr_in(r, 1);
    if (dim->rank != 0)
        return mr_invalid("dim must be a scalar, but received tensor of shape: %s",
                          MR_TENSOR_SHAPE(dim));
    int64_t axis = 0;
    mr_dtype_convert((mr_dtype)dim->dtype, dim->data, MR_INT64, &axis, 1, false);
    if (axis < -x->rank || axis >= x->rank)
        return mr_invalid("Expected dimension in the range [%d, %d), but got %lld", -x->rank,
                          x->rank, (long long)axis);
    if (mr_on_accel(r))
        return search_by_device(r, x, (int)(axis < 0 ? axis + x->rank : axis));
    job j = {.search = r->kernel->user};
    mr_tensor *wide = NULL;
    if (x->dtype == MR_HALF || x->dtype == MR_BFLOAT16) {
        MR_TRY(mr_run_temp(r, MR_FLOAT, x->rank, x->dims, &wide));
        mr_dtype_convert((mr_dtype)x->dtype, x->data, MR_FLOAT, wide->data, x->n, false);
        j.wide = wide->data;
    }
    mr_status *st = search_axis(r, x, (int)(axis < 0 ? axis + x->rank : axis), &j);
    mr_tensor_unref(wide);
    return st;
}

static mr_status *arg_shape(mr_infer *c)
{
    const mr_pshape *dim, *x = c->in[0];
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &dim));
    if (x->rank <= 0) { /* the position in a scalar is a scalar; the kernel refuses it */
        c->out[0] = x;
        return NULL;
    }
    mr_pshape *out = mr_pshape_new(c->arena, x->rank - 1);
    int64_t axis;
    int at;
    if (mr_infer_int(c, 1, &axis)) {
        if (axis < -x->rank || axis >= x->rank)
            return mr_invalid("Dimension (%lld) must be in the range [%d, %d), where %d is the number of dimensions "
                              "in the input.",
                              (long long)axis, -x->rank, x->rank, x->rank);
        at = (int)(axis < 0 ? axis + x->rank : axis);
        for (int d = 0; d < out->rank; d++)
            out->dims[d] = x->dims[d + (d >= at)];
    }
    c->out[0] = out;
    return NULL;
}

#define ROW(E, fn) {.device = "CPU", .type = MR_##E, .run = arg_run, .user = (void *)(uintptr_t)&fn},
#define TYPE_ROW(E, name, number, S, C, fn) ROW(E, fn##_of_##name)
/* Positions as int32 or int64, for floats; the axis is in host memory. */
static const mr_named_attr accel_types[] = {
    {"output_type", {.kind = MR_ATTR_TYPE, .is_list = true, .n = 2, .types = (int[]){MR_INT32, MR_INT64}}}, {0}};
#define ACCEL_ROW(kernel)                                                                             \
    {.device = MR_ACCEL_KERNELS, .type = MR_FLOAT, .run = arg_run, .host_in = 2, .user = kernel,      \
     .constraints = accel_types},
#define ALL_ROWS(fn)                                \
    MR_FLOATS32(TYPE_ROW, fn) MR_INTS(TYPE_ROW, fn) MR_CODES(TYPE_ROW, fn) \
    ROW(HALF, fn##_of_float) ROW(BFLOAT16, fn##_of_float) ROW(BOOL, fn##_of_uint8)

#define NUMBERS                                                                               \
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, " \
    "bfloat16, uint16, complex128, half, uint32, uint64, bool}; "

MR_OP(ArgMax,
    .doc      = "index of the largest element along an axis; the first of equals",
    .sig      = "input: T, dimension: Tidx -> output: output_type",
    .attrs    = NUMBERS "Tidx: {int16, int32, int64} = DT_INT32; "
                "output_type: {int16, uint16, int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .shape    = arg_shape,
    .kernels  = MR_KERNELS(ALL_ROWS(largest) ACCEL_ROW("arg_largest")),
    .examples = MR_EXAMPLES(
        "[[1, 5, 3], [4, 2, 6]], 0 -> [1, 0, 1]",
        "[[1, 5, 3], [4, 2, 6]], -1 -> [1, 2]",
        "output_type=int32: [1, 5, 5], int64 0 -> 1",
        "output_type=uint16: [1, 5, 5], int16 0 -> 1",
        "[[[1, 2], [3, 0]], [[0, 1], [1, 0]]], 1 -> [[1, 0], [1, 0]]",
        "[nan, 1, 3, nan], 0 -> 2",
        "[nan, nan], 0 -> 0",
        "[false, true, true], 0 -> 1",
        "T=qint8: [-1, -100, 3], 0 -> 2",
        "[nan, -inf], 0 -> 1", "[[-inf, -inf], [-inf, 0]], 1 -> [0, 1]", "[-0.0, 0], 0 -> 0",
        "shape(0,2), 1 -> shape(0)",
        "T=float: shape(2,0), 1 -> !INVALID_ARGUMENT Reduction axis 1 is empty in shape [2,0]",
        "T=float: [1, 2], 1 -> !INVALID_ARGUMENT"));

MR_OP(ArgMin,
    .doc      = "index of the smallest element along an axis; the first of equals",
    .sig      = "input: T, dimension: Tidx -> output: output_type",
    .attrs    = NUMBERS "Tidx: {int32, int64} = DT_INT32; output_type: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .shape    = arg_shape,
    .kernels  = MR_KERNELS(ALL_ROWS(smallest) ACCEL_ROW("arg_smallest")),
    .examples = MR_EXAMPLES(
        "[[1, 5, 3], [4, 2, 6]], 0 -> [0, 1, 0]",
        "[[1, 5, 3], [4, 2, 6]], 1 -> [0, 1]",
        "output_type=int32: [2, 1, 1], 0 -> 1",
        "[nan, 3, 1, nan], 0 -> 2",
        "[true, false, false], 0 -> 1",
        "T=qint8: [-1, -100, 3], 0 -> 1"));
