/* ops/math/range.c -- Range and LinSpace. */
#include "graph/infer.h"
#include "ops/maths.h"
#include "run/run.h"

#define RANGE_INTS(M, ...) \
    MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT16(M, __VA_ARGS__) MR_TYPE_UINT32(M, __VA_ARGS__)
#define RANGE_TYPES(M, ...) MR_FLOATS(M, __VA_ARGS__) RANGE_INTS(M, __VA_ARGS__)

/* ---- the length ---- */

static mr_status *check_direction(bool zero, bool up, bool down)
{
    if (zero)
        return mr_invalid("Requires delta != 0");
    if (up)
        return mr_invalid("Requires start <= limit when delta > 0");
    if (down)
        return mr_invalid("Requires start >= limit when delta < 0");
    return NULL;
}

/* Exact: differences of int64 fit uint64. */
static mr_status *int_length(int64_t start, int64_t limit, int64_t delta, int64_t *out)
{
    MR_TRY(check_direction(delta == 0, delta > 0 && start > limit, delta < 0 && start < limit));
    uint64_t way =
        delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    uint64_t n = way / step + (way % step != 0);
    if (n > INT64_MAX)
        return mr_invalid("Requires ((limit - start) / delta) <= %lld", (long long)INT64_MAX);
    *out = (int64_t)n;
    return NULL;
}

static mr_status *float_length(double start, double limit, double delta, int64_t *out)
{
    MR_TRY(check_direction(delta == 0, delta > 0 && start > limit, delta < 0 && start < limit));
    double n = ceil(fabs((limit - start) / delta));
    if (!(n < 0x1p63)) /* NaN too */
        return mr_invalid("Requires ((limit - start) / delta) <= %lld", (long long)INT64_MAX);
    *out = (int64_t)n;
    return NULL;
}

/* The length for three tensors of one element each. */
static mr_status *range_length(const mr_tensor *start, const mr_tensor *limit,
                               const mr_tensor *delta, int64_t *out)
{
    mr_dtype type = (mr_dtype)start->dtype;
    const mr_tensor *in[3] = {start, limit, delta};
    double f[3] = {0};
    int64_t i[3] = {0};
    for (int k = 0; k < 3; k++) {
        mr_dtype_convert(type, in[k]->data, MR_DOUBLE, &f[k], 1, false);
        mr_dtype_convert(type, in[k]->data, MR_INT64, &i[k], 1, false);
    }
    return mr_dtype_is_floating(type) ? float_length(f[0], f[1], f[2], out)
                                      : int_length(i[0], i[1], i[2], out);
}

/* ---- values ---- */

/* By repeated addition in the stored type, as in TensorFlow. */
#define FILL(E, name, number, S, C, ...)                                              \
    static void fill_##name(void *out, int64_t n, const void *start, const void *delta) \
    {                                                                                 \
        S v = *(const S *)start;                                                      \
        C d = MR_LD((const S *)delta);                                                \
        for (int64_t i = 0; i < n; i++) {                                             \
            ((S *)out)[i] = v;                                                        \
            MR_ST(&v, (C)PLUS_##E(MR_LD(&v), d));                                     \
        }                                                                             \
    }
#define PLUS_HALF(a, b) (a) + (b)
#define PLUS_BFLOAT16(a, b) (a) + (b)
#define PLUS_FLOAT(a, b) (a) + (b)
#define PLUS_DOUBLE(a, b) (a) + (b)
#define WRAP(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define PLUS_INT8 WRAP
#define PLUS_INT16 WRAP
#define PLUS_INT32 WRAP
#define PLUS_INT64 WRAP
#define PLUS_UINT16 WRAP
#define PLUS_UINT32 WRAP
RANGE_TYPES(FILL, )

typedef void fill_fn(void *out, int64_t n, const void *start, const void *delta);

static mr_status *run_range(mr_run *r)
{
    static const char *const names[] = {"start", "limit", "delta"};
    for (int k = 0; k < 3; k++) /* [1] is accepted as a scalar too, for compatibility */
        if (mr_in(r, k)->n != 1 || mr_in(r, k)->rank > 1)
            return mr_invalid("%s must be a scalar, not shape %s", names[k],
                              MR_TENSOR_SHAPE(mr_in(r, k)));
    int64_t n;
    mr_tensor *y;
    MR_TRY(range_length(mr_in(r, 0), mr_in(r, 1), mr_in(r, 2), &n));
    MR_TRY(mr_run_output(r, 0, 1, &n, &y));
    ((fill_fn *)r->kernel->user)(y->data, n, mr_in(r, 0)->data, mr_in(r, 2)->data);
    return NULL;
}

static mr_status *check_scalar(mr_infer *c, int i)
{
    const mr_pshape *ignored;
    mr_status *st = mr_infer_rank(c, c->in[i], 0, &ignored);
    return st ? mr_status_append(st, "\n\t for '%s'", c->node->def->in[i].name) : NULL;
}

static mr_status *range_shape(mr_infer *c)
{
    const mr_tensor *in[3];
    for (int k = 0; k < 3; k++) {
        MR_TRY(check_scalar(c, k));
        in[k] = mr_infer_const(c, k);
    }
    int64_t n = -1;
    if (in[0] && in[1] && in[2] && in[0]->n == 1 && in[1]->n == 1 && in[2]->n == 1)
        MR_TRY(range_length(in[0], in[1], in[2], &n));
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

/* ---- LinSpace ---- */

#define SPACE(E, name, number, S, C, ...)                                             \
    static void space_##name(void *out, int64_t n, const void *start, const void *stop) \
    {                                                                                 \
        C from = MR_LD((const S *)start), to = MR_LD((const S *)stop);                \
        C step = n > 1 ? (to - from) / (C)(n - 1) : 0;                                \
        for (int64_t i = 0; i < n; i++)                                               \
            MR_ST((S *)out + i, from + step * (C)i);                                  \
        if (n > 1)                                                                    \
            ((S *)out)[n - 1] = *(const S *)stop;                                     \
    }
MR_FLOATS(SPACE, )

static mr_status *lin_space(mr_run *r)
{
    static const char *const names[] = {"start", "stop", "num"};
    for (int k = 0; k < 3; k++)
        if (mr_in(r, k)->rank != 0)
            return mr_invalid("%s must be a scalar, not shape %s", names[k],
                              MR_TENSOR_SHAPE(mr_in(r, k)));
    int64_t n = mr_tensor_int_at(mr_in(r, 2), 0);
    if (n <= 0)
        return mr_invalid("Requires num > 0: %lld", (long long)n);
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, 1, &n, &y));
    ((fill_fn *)r->kernel->user)(y->data, n, mr_in(r, 0)->data, mr_in(r, 1)->data);
    return NULL;
}

static mr_status *lin_space_shape(mr_infer *c)
{
    int64_t n = -1;
    for (int k = 0; k < 3; k++)
        MR_TRY(check_scalar(c, k));
    if (mr_infer_int(c, 2, &n) && n <= 0)
        return mr_invalid("Requires num > 0: %lld", (long long)n);
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

#define RANGE_ROW(E, name, number, S, C, ...) \
    {.device = "CPU", .type = MR_##E, .run = run_range, .user = (void *)(uintptr_t)fill_##name},
#define SPACE_ROW(E, name, number, S, C, ...) \
    {.device = "CPU", .type = MR_##E, .run = lin_space, .user = (void *)(uintptr_t)space_##name},

MR_OP(Range,
    .doc      = "start, start + delta, ... up to but not including limit",
    .sig      = "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx",
    .attrs    = "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32} "
                "= DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = range_shape,
    .kernels  = MR_KERNELS(RANGE_TYPES(RANGE_ROW, )),
    .examples = MR_EXAMPLES(
        "3, 18, 3 -> [3, 6, 9, 12, 15]",
        "3, 1, -0.5 -> [3, 2.5, 2, 1.5]",
        "5, 0, -2 -> [5, 3, 1]", "0, [5], 1 -> !INVALID_ARGUMENT Shape must be rank 0 but is rank 1\n\t for 'limit'",
        "4, 4, 1 -> shape(0)",
        "Tidx=float: 0, 1, 0.3 -> [0, 0.3, 0.6, 0.9]",
        "Tidx=int64: -9223372036854775808, 9223372036854775807, 9223372036854775807 "
        "-> [-9223372036854775808, -1, 9223372036854775806]",
        "0, 1, 0 -> !INVALID_ARGUMENT Requires delta != 0",
        "1, 0, 1 -> !INVALID_ARGUMENT Requires start <= limit when delta > 0",
        "Tidx=float: 0, nan, 1 -> !INVALID_ARGUMENT",
        "[0, 1], 1, 1 -> !INVALID_ARGUMENT"));

MR_OP(LinSpace,
    .doc      = "num values at equal distances from start to stop",
    .sig      = "start: T, stop: T, num: Tidx -> output: T",
    .attrs    = "T: {bfloat16, half, float, double}; Tidx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = lin_space_shape,
    .kernels  = MR_KERNELS(MR_FLOATS(SPACE_ROW, )),
    .examples = MR_EXAMPLES(
        "0, 1, 4 -> [0, 0.333333333333, 0.666666666667, 1]",
        "10, 12, int64 3 -> [10, 11, 12]",
        "5, 7, 1 -> [5]",
        "0, 1, 0 -> !INVALID_ARGUMENT Requires num > 0"));
