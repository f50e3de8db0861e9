/* ops/random/random.c -- tensors of random numbers: uniform, normal, truncated normal, integers.
 *
 * The numbers of a run are cut into groups of four (two for 64-bit types); group j is made from
 * block j of the stream, whatever thread makes it. */
#include "graph/infer.h"
#include "ops/random/philox.h"

typedef struct job {
    mr_philox start;
    mr_tensor *out;
    void (*group)(mr_philox *p, const struct job *j, int64_t n, void *out); /* n elements at out */
    int per_group;
    uint64_t stride; /* blocks from one group to the next */
    int64_t lo;      /* of integers */
    uint64_t range;
} job;

static void make_groups(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t size = mr_dtype_size((mr_dtype)j->out->dtype);
    for (int64_t g = begin; g < end; g++) {
        mr_philox p = j->start;
        int64_t at = g * j->per_group, n = MR_MIN(j->per_group, j->out->n - at);
        mr_philox_skip(&p, (uint64_t)g * j->stride);
        j->group(&p, j, n, (char *)j->out->data + (size_t)at * size);
    }
}

/* The values of up to four elements, stored in the output's type. */
static void store(const job *j, const float *v, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++)
        if (j->out->dtype == MR_FLOAT)
            ((float *)out)[i] = v[i];
        else if (j->out->dtype == MR_HALF)
            ((mr_half *)out)[i] = mr_float_to_half(v[i]);
        else
            ((mr_bf16 *)out)[i] = mr_float_to_bf16(v[i]);
}

static void uniform_float(mr_philox *p, const job *j, int64_t n, void *out)
{
    uint32_t w[4];
    float v[4];
    /* Fewer mantissa bits for the narrow types: all numbers of [0, 1) that they can step by. */
    uint32_t mask = j->out->dtype == MR_HALF       ? 0x3ff
                    : j->out->dtype == MR_BFLOAT16 ? 0x7f
                                                   : 0x7fffff;
    float scale = 1 / (float)(mask + 1);
    mr_philox_next(p, w);
    for (int i = 0; i < 4; i++)
        v[i] = (float)(w[i] & mask) * scale;
    store(j, v, n, out);
}

static void uniform_double(mr_philox *p, const job *j, int64_t n, void *out)
{
    uint32_t w[4];
    (void)j;
    mr_philox_next(p, w);
    for (int64_t i = 0; i < n; i++)
        ((double *)out)[i] = mr_philox_double(w[2 * i], w[2 * i + 1]);
}

static void normal_float(mr_philox *p, const job *j, int64_t n, void *out)
{
    uint32_t w[4];
    float v[4];
    mr_philox_next(p, w);
    mr_philox_normal(w[0], w[1], v);
    mr_philox_normal(w[2], w[3], v + 2);
    store(j, v, n, out);
}

static void normal_double(mr_philox *p, const job *j, int64_t n, void *out)
{
    uint32_t w[4];
    double v[2];
    (void)j;
    mr_philox_next(p, w);
    mr_philox_normal_double(w, v);
    memcpy(out, v, sizeof(double) * (size_t)n);
}

/* Numbers beyond two deviations are dropped; a group has 256 blocks to draw from. */
static void truncated_float(mr_philox *p, const job *j, int64_t n, void *out)
{
    float v[4], two[2];
    uint32_t w[4];
    for (int have = 0, pair = 2; have < 4; pair++) {
        if (pair == 2) {
            mr_philox_next(p, w);
            pair = 0;
        }
        mr_philox_normal(w[2 * pair], w[2 * pair + 1], two);
        for (int i = 0; i < 2 && have < 4; i++)
            if (fabsf(two[i]) < 2)
                v[have++] = two[i];
    }
    store(j, v, n, out);
}

static void truncated_double(mr_philox *p, const job *j, int64_t n, void *out)
{
    double v[2], two[2];
    (void)j;
    for (int have = 0; have < 2;) {
        uint32_t w[4];
        mr_philox_next(p, w);
        mr_philox_normal_double(w, two);
        for (int i = 0; i < 2 && have < 2; i++)
            if (fabs(two[i]) < 2)
                v[have++] = two[i];
    }
    memcpy(out, v, sizeof(double) * (size_t)n);
}

static void integer_32(mr_philox *p, const job *j, int64_t n, void *out)
{
    uint32_t w[4];
    mr_philox_next(p, w);
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)out)[i] = (int32_t)((uint32_t)j->lo + w[i] % (uint32_t)j->range);
}

static void integer_64(mr_philox *p, const job *j, int64_t n, void *out)
{
    uint32_t w[4];
    mr_philox_next(p, w);
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = (uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32;
        ((int64_t *)out)[i] = (int64_t)((uint64_t)j->lo + word % j->range);
    }
}

static mr_status *fill(mr_run *r, job *j, double cost_ns)
{
    mr_shape shape;
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &j->out));
    j->per_group = mr_dtype_size((mr_dtype)j->out->dtype) == 8 ? 2 : 4;
    j->start = mr_random_reserve(r->state, (uint64_t)j->out->n * 256);
    mr_run_for(r, (j->out->n + j->per_group - 1) / j->per_group, cost_ns, make_groups, j);
    return NULL;
}

static mr_status *uniform(mr_run *r)
{
    bool wide = mr_out_dtype(r, 0) == MR_DOUBLE;
    job j = {.group = wide ? uniform_double : uniform_float, .stride = 1};
    return fill(r, &j, 15);
}

static mr_status *normal(mr_run *r)
{
    job j = {.group = mr_out_dtype(r, 0) == MR_DOUBLE ? normal_double : normal_float, .stride = 1};
    return fill(r, &j, 80);
}

static mr_status *truncated(mr_run *r)
{
    bool wide = mr_out_dtype(r, 0) == MR_DOUBLE;
    job j = {.group = wide ? truncated_double : truncated_float, .stride = wide ? 128 : 256};
    return fill(r, &j, 100);
}

static mr_status *uniform_int(mr_run *r)
{
    int64_t lo, hi;
    MR_TRY(mr_in_scalar_int(r, 1, "minval", &lo));
    MR_TRY(mr_in_scalar_int(r, 2, "maxval", &hi));
    bool empty = false;
    for (int64_t i = 0; i < mr_in(r, 0)->n; i++)
        empty |= mr_tensor_int_at(mr_in(r, 0), i) == 0;
    if (lo >= hi && !empty)
        return mr_invalid("Need minval < maxval, got %lld >= %lld", (long long)lo, (long long)hi);
    job j = {.group = mr_out_dtype(r, 0) == MR_INT64 ? integer_64 : integer_32,
             .stride = 1,
             .lo = lo,
             .range = lo < hi ? (uint64_t)hi - (uint64_t)lo : 1};
    return fill(r, &j, 20);
}

#define RANDOM_OP(fn)                                                                       \
    .sig = "shape: T -> output: dtype",                                                     \
    .attrs = "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; "      \
             "T: {int32, int64}",                                                           \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .key = "dtype", .shape = mr_shape_from_input0,   \
    .kernels = MR_KERNELS(MR_CPU_ONE(fn, MR_FLOATS)), .state_bytes = sizeof(mr_random_state), \
    .init = mr_random_init, .deinit = mr_random_deinit

MR_OP(RandomUniform,
    .doc = "uniform numbers in [0, 1)",
    RANDOM_OP(uniform),
    .examples = MR_EXAMPLES(
        "dtype=float seed=87654321 seed2=1: int32[4] -> "
        "[0.2390374, 0.92039955, 0.05051243, 0.49574447]",
        "dtype=double seed=87654321 seed2=1: int32[5] -> [0.9122999234504989, "
        "0.4040997484619626, 0.6841790844248057, 0.704905089841523, 0.15071409333057018]",
        "dtype=half seed=87654321 seed2=1: int32[2, 3] -> "
        "[[0.1943359375, 0.9130859375, 0.7978515625], [0.138671875, 0.5986328125, 0.845703125]]",
        "dtype=bfloat16 seed=87654321 seed2=1: int64[5] -> "
        "[0.5546875, 0.3046875, 0.3828125, 0.109375, 0.7890625]",
        "T=int32: int32[2, 3] -> shape(2,3)",
        "dtype=float: int32[-1] -> !INVALID_ARGUMENT"));

MR_OP(RandomStandardNormal,
    .doc = "normal numbers of mean 0 and deviation 1",
    RANDOM_OP(normal),
    .examples = MR_EXAMPLES(
        "dtype=float seed=87654321 seed2=1: int32[4] -> "
        "[-0.8113182, 1.4845988, 0.06532937, -2.4427042]",
        "dtype=float seed=5 seed2=1: int32[4] -> [-1.3768897, -0.01258316, -0.169515, 1.0824056]",
        "dtype=double seed=87654321 seed2=1: int32[3] -> "
        "[0.24282754598505307, -0.35299821810996557, -0.8365077914900015]",
        "dtype=half seed=87654321 seed2=1: int32[4] -> [-0.8115, 1.484, 0.0653, -2.443]",
        "T=int32: int32[0, 3] -> shape(0,3)"));

MR_OP(TruncatedNormal,
    .doc = "normal numbers, those beyond two deviations drawn again",
    RANDOM_OP(truncated),
    .examples = MR_EXAMPLES(
        "dtype=float seed=87654321 seed2=1: int32[2, 5] -> "
        "[[-0.8113182, 1.4845988, 0.06532937, 0.0992484, 0.6396971], "
        "[1.6108712, 0.16353562, -1.5157056, 1.3587774, 0.5417414]]",
        "dtype=double seed=87654321 seed2=1: int32[5] -> [0.24282754598505307, "
        "-0.35299821810996557, -0.16554790468414687, 0.34224683233230957, -0.012115088506327797]",
        "T=int32: int32[5] -> shape(5)"));

static mr_status *uniform_int_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    return mr_shape_from_input0(c);
}

MR_OP(RandomUniformInt,
    .doc      = "integers from minval up to maxval, which is not drawn",
    .sig      = "shape: T, minval: Tout, maxval: Tout -> output: Tout",
    .attrs    = "seed: int = 0; seed2: int = 0; Tout: {int32, int64}; T: {int32, int64}",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "Tout",
    .shape    = uniform_int_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(uniform_int, MR_INDEXES)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples = MR_EXAMPLES(
        "Tout=int32 seed=87654321 seed2=1: int32[4], 0, 10 -> [7, 9, 3, 2]",
        "Tout=int32 seed=87654321 seed2=1: int32[4], -2147483648, 2147483647 -> "
        "[723425479, 1307955111, 1904637745, -868256626]",
        "Tout=int64 seed=87654321 seed2=1: int32[4], -5, 999999999995 -> "
        "[466106734786, 227701593900, 925956313696, 874686990149]",
        "int32[0], 3, 3 -> shape(0)",
        "int32[4], 3, 4 -> [3, 3, 3, 3]",
        "int32[4], 3, 3 -> !INVALID_ARGUMENT Need minval < maxval"));

/* ---- permuting ---- */

static mr_status *shuffle(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t n = x->rank > 0 ? x->dims[0] : 1, row = n > 0 ? x->n / n : 0;
    mr_tensor *y;
    if (n <= 1 || x->n <= 1) { /* draws nothing */
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    int64_t *order = mr_try_alloc(sizeof(int64_t) * (size_t)n);
    if (!order)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a permutation of %lld", (long long)n);
    mr_philox p = mr_random_reserve(r->state, (uint64_t)(n - 1 + 3) / 4);
    uint32_t w[4] = {0};
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        if (i % 4 == 0)
            mr_philox_next(&p, w);
        int64_t k = i + (int64_t)(w[i % 4] % (uint64_t)(n - i)), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    mr_status *st = mr_run_output(r, 0, x->rank, x->dims, &y);
    for (int64_t i = 0; !st && i < n; i++)
        mr_tensor_copy_elements(y, i * row, x, order[i] * row, row);
    mr_free(order);
    return st;
}

MR_OP(RandomShuffle,
    .doc      = "the rows in a random order",
    .sig      = "value: T -> output: T",
    .attrs    = "seed: int = 0; seed2: int = 0; T: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(shuffle)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples = MR_EXAMPLES(
        "T=int32 seed=87654321 seed2=1: [0, 1, 2, 3, 4, 5, 6, 7] -> [7, 4, 5, 2, 3, 0, 6, 1]",
        "T=float seed=87654321 seed2=1: iota(10,1) -> "
        "[[7], [9], [3], [6], [5], [1], [8], [4], [0], [2]]",
        "T=float: 7 -> 7",
        "T=string: [\"a\", \"a\"] -> [\"a\", \"a\"]"));
