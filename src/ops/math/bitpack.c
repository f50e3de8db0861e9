/* ops/math/bitpack.c -- CompareAndBitpack: packs eight comparisons into a byte. */
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "run/run.h"

/* Bytes begin .. end of the result; the first of eight elements is the highest bit. */
#define PACK(E, name, number, S, C, TEST)                                                    \
    static void pack_##name(const void *from, const void *with, uint8_t *out, int64_t begin, \
                            int64_t end)                                                     \
    {                                                                                        \
        const S *x = from;                                                                   \
        const C limit = MR_LD((const S *)with);                                              \
        for (int64_t i = begin; i < end; i++) {                                              \
            unsigned byte = 0;                                                               \
            for (int k = 0; k < 8; k++)                                                      \
                byte = byte << 1 | TEST(MR_LD(x + 8 * i + k), limit);                        \
            out[i] = (uint8_t)byte;                                                          \
        }                                                                                    \
    }
#define ABOVE(x, limit) ((x) > (limit))
#define ITSELF(x, limit) ((void)(limit), (x) ? 1u : 0u) /* bools are not compared */
#define NUMBER_TYPES(M, ...) \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__)
NUMBER_TYPES(PACK, ABOVE)
MR_TYPE_BOOL(PACK, ITSELF)

typedef void pack_fn(const void *x, const void *limit, uint8_t *out, int64_t begin, int64_t end);
typedef struct job {
    pack_fn *pack;
    const void *x, *limit;
    uint8_t *out;
} job;

static void pack_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    j->pack(j->x, j->limit, j->out, begin, end);
}

static mr_status *run_pack(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *limit = mr_in(r, 1);
    mr_shape shape;
    mr_tensor *out;
    if (limit->rank != 0)
        return mr_invalid("Compare must be a scalar, but saw shape: %s", MR_TENSOR_SHAPE(limit));
    if (x->rank < 1)
        return mr_invalid("Input should be at least a vector, but saw a scalar.");
    if (x->dims[x->rank - 1] % 8)
        return mr_invalid(
            "Inner dimension of input should be divisible by 8, but input shape was: %s",
            MR_TENSOR_SHAPE(x));
    mr_shape_set(&shape, x->rank, x->dims);
    shape.dims[x->rank - 1] /= 8;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    job j = {(pack_fn *)r->kernel->user, x->data, limit->data, out->data};
    mr_run_for(r, out->n, 5, pack_part, &j);
    return NULL;
}

static mr_status *shape_of(mr_infer *c)
{
    const mr_pshape *x, *limit;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &limit));
    if (x->rank < 0)
        return NULL;
    int64_t n = mr_infer_dim(x, -1);
    if (n >= 0 && n % 8)
        return mr_invalid("Inner dimension of input should be divisible by 8, but is %lld",
                          (long long)n);
    c->out[0] = mr_pshape_with(c->arena, x, x->rank - 1, n < 0 ? -1 : n / 8);
    return NULL;
}

#define ROW(E, name, number, S, C, ...) \
    {.device = "CPU", .type = MR_##E, .run = run_pack, .user = (void *)(uintptr_t)pack_##name},

MR_OP(CompareAndBitpack,
    .doc      = "whether each element is above the threshold, eight answers in a byte; truths are "
                "packed as they are",
    .sig      = "input: T, threshold: T -> output: uint8",
    .attrs    = "T: {bool, half, float, double, int8, int16, int32, int64}",
    .shape    = shape_of,
    .kernels  = MR_KERNELS(NUMBER_TYPES(ROW, ) MR_TYPE_BOOL(ROW, )),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4, 5, 6, 7, 8], 4 -> [15]",
        "[[9, 0, 9, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 9]], 1 -> [[170, 1]]",
        "T=bool: [true, false, false, false, false, false, false, true], true -> [129]",
        "T=float: [nan, inf, -inf, 0, 1, 0, 0, 0], 0 -> [72]", "shape(0), 1 -> shape(0)",
        "shape(0,8), 1 -> shape(0,1)", "[1, 2], 1 -> !INVALID_ARGUMENT divisible by 8",
        "1, 1 -> !INVALID_ARGUMENT", "[1, 2, 3, 4, 5, 6, 7, 8], [1] -> !INVALID_ARGUMENT"));
