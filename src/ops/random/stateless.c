/* ops/random/stateless.c -- random numbers that depend only on their arguments: a seed, or (V2) key,
 * counter and algorithm; and ops that convert a seed to these. */
#include "ops/random/fill.h"
#include "ops/random/key.h"

static bool is_empty(const mr_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] == 0)
            return true;
    return false;
}

/* Fills output 0 in both forms; the bounds of integers follow the inputs that define the stream. */
static mr_status *fill_output(mr_run *r, mr_draw_kind kind, bool by_key)
{
    mr_shape shape;
    mr_philox start;
    mr_tensor *out;
    mr_draw d = {kind};
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    MR_TRY(by_key ? mr_key_stream(r, 1, &start) : mr_seed_stream(r, 1, &start));
    if (kind == MR_INTEGER)
        MR_TRY(mr_draw_integers(r, by_key ? 4 : 2, is_empty(&shape), &d));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    mr_random_fill(r, &d, start, out);
    return NULL;
}

static mr_status *stateless_uniform(mr_run *r) { return fill_output(r, MR_UNIFORM, false); }
static mr_status *stateless_normal(mr_run *r) { return fill_output(r, MR_NORMAL, false); }
static mr_status *stateless_truncated(mr_run *r) { return fill_output(r, MR_TRUNCATED, false); }
static mr_status *stateless_int(mr_run *r) { return fill_output(r, MR_INTEGER, false); }
static mr_status *stateless_full_int(mr_run *r) { return fill_output(r, MR_FULL_INTEGER, false); }
static mr_status *uniform_v2(mr_run *r) { return fill_output(r, MR_UNIFORM, true); }
static mr_status *normal_v2(mr_run *r) { return fill_output(r, MR_NORMAL, true); }
static mr_status *truncated_v2(mr_run *r) { return fill_output(r, MR_TRUNCATED, true); }
static mr_status *integer_v2(mr_run *r) { return fill_output(r, MR_INTEGER, true); }
static mr_status *full_v2(mr_run *r) { return fill_output(r, MR_FULL_INTEGER, true); }

static mr_status *infer_bounds(mr_infer *c, int i)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    return mr_infer_rank(c, c->in[i + 1], 0, &ignored);
}

static mr_status *integer_shape(mr_infer *c)
{
    MR_TRY(infer_bounds(c, 2));
    return mr_seed_shape(c);
}

static mr_status *key_shape(mr_infer *c)
{
    MR_TRY(mr_key_infer(c, 1));
    return mr_shape_from_input0(c);
}

static mr_status *integer_key_shape(mr_infer *c)
{
    MR_TRY(infer_bounds(c, 4));
    return key_shape(c);
}

/* ---- by a seed ---- */

#define INTEGERS(M, ...)                                                \
    MR_TYPE_INT32(M, __VA_ARGS__) MR_TYPE_INT64(M, __VA_ARGS__)         \
    MR_TYPE_UINT32(M, __VA_ARGS__) MR_TYPE_UINT64(M, __VA_ARGS__)
#define SEEDED(fn)                                                                          \
    .sig = "shape: T, seed: Tseed -> output: dtype",                                        \
    .attrs = "dtype: {half, bfloat16, float, double} = DT_FLOAT; T: {int32, int64} = DT_INT32; " \
             "Tseed: {int32, int64} = DT_INT64",                                            \
    .flags = MR_NO_GRADIENT, .key = "dtype", .shape = mr_seed_shape,                        \
    .kernels = MR_KERNELS(MR_CPU_ONE(fn, MR_FLOATS))

MR_OP(StatelessRandomUniform,
    .doc = "uniform numbers in [0, 1) that depend on the seed alone",
    SEEDED(stateless_uniform),
    .examples = MR_EXAMPLES(
        "dtype=float: [4], [1, 2] -> shape(4)",
        "[0, 3], [1, 2] -> shape(0,3)",
        "shape(0), int32[1, -2] -> shape()",
        "[4], [1, 2, 3] -> !INVALID_ARGUMENT",
        "[-4], [1, 2] -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomNormal,
    .doc = "normal numbers of mean 0 and deviation 1 that depend on the seed alone",
    SEEDED(stateless_normal),
    .examples = MR_EXAMPLES(
        "dtype=float: [3], int32[1105988140, 1738052849] -> [-0.59835213, -0.9578608, 0.9002807]",
        "int64[2, 3], int32[1, 2] -> shape(2,3)",
        "[4], [[1, 2]] -> !INVALID_ARGUMENT"));

MR_OP(StatelessTruncatedNormal,
    .doc = "normal numbers within two deviations that depend on the seed alone",
    SEEDED(stateless_truncated),
    .examples = MR_EXAMPLES(
        "dtype=float: [4], [1, 2] -> shape(4)",
        "int64[2, 3], int32[1, 2] -> shape(2,3)",
        "[4], 1 -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomUniformInt,
    .doc      = "integers from minval to maxval - 1 that depend only on the seed",
    .sig      = "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> output: dtype",
    .attrs    = "dtype: {int32, int64}; T: {int32, int64}; Tseed: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = integer_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(stateless_int, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "int32[3], [1, 2], 7, 8 -> [7, 7, 7]",
        "dtype=int32: int32[4], [1, 2], -2147483648, 2147483647 -> shape(4)",
        "int32[0], [1, 2], 8, 7 -> shape(0)",
        "int32[3], [1, 2], 8, 8 -> !INVALID_ARGUMENT Need minval < maxval, got 8 >= 8",
        "int32[3], [1, 2], [8], 9 -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomUniformFullInt,
    .doc      = "integers of all bits that depend on the seed alone",
    .sig      = "shape: T, seed: Tseed -> output: dtype",
    .attrs    = "dtype: {int32, int64, uint32, uint64} = DT_UINT64; "
                "T: {int32, int64} = DT_INT32; Tseed: {int32, int64, uint32, uint64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = mr_seed_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(stateless_full_int, INTEGERS)),
    .examples = MR_EXAMPLES(
        "dtype=int32: [3, 2], int32[1, 2] -> [[1105988140, 1738052849], [-335576002, 370444179], "
        "[10670227, -246211131]]",
        "[4], [1, 2] -> shape(4)", "[2, 2], uint64[18446744073709551615, 0] -> shape(2,2)",
        "[2], uint32[1, 2] -> shape(2)", "[2], int32[1, 2] -> shape(2)",
        "[4], [1] -> !INVALID_ARGUMENT"));

/* ---- by key, counter and algorithm ---- */

#define KEYED(fn)                                                                           \
    .sig = "shape: Tshape, key: uint64, counter: uint64, alg: int32 -> output: dtype",      \
    .attrs = "dtype: {half, bfloat16, float, double} = DT_FLOAT; "                          \
             "Tshape: {int32, int64} = DT_INT32",                                           \
    .flags = MR_NO_GRADIENT, .key = "dtype", .shape = key_shape,                            \
    .kernels = MR_KERNELS(MR_CPU_ONE(fn, MR_FLOATS))

/* The stream of the seeds 87654321 and 1 is that of the key 87654321 and the counter [0, 1]: so the
 * numbers are those of the stateful ops. */
MR_OP(StatelessRandomUniformV2,
    .doc = "uniform numbers in [0, 1) of a key and a counter",
    KEYED(uniform_v2),
    .examples = MR_EXAMPLES(
        "dtype=float: [4], [87654321], [0, 1], 1 -> [0.2390374, 0.92039955, 0.05051243, "
        "0.49574447]",
        "dtype=double: [5], [87654321], [0, 1], 3 -> [0.9122999234504989, 0.4040997484619626, "
        "0.6841790844248057, 0.704905089841523, 0.15071409333057018]",
        "dtype=bfloat16: int64[5], [87654321], [0, 1, 7], 1 -> "
        "[0.5546875, 0.3046875, 0.3828125, 0.109375, 0.7890625]",
        "[0, 3], [1], [0, 2], 1 -> shape(0,3)",
        "[2], [1], [0, 2], 2 -> !INVALID_ARGUMENT Unsupported algorithm id: 2",
        "[2], [1, 2], [0, 2], 1 -> !INVALID_ARGUMENT",
        "[2], [1], [0], 1 -> !INVALID_ARGUMENT counter must be a vector with length at least 2",
        "[2], [1], [0, 2], [1] -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomNormalV2,
    .doc = "normal numbers of a key and a counter",
    KEYED(normal_v2),
    .examples = MR_EXAMPLES(
        "dtype=float: [4], [87654321], [0, 1], 1 -> [-0.8113182, 1.4845988, 0.06532937, "
        "-2.4427042]",
        "dtype=double: [3], [87654321], [0, 1], 3 -> "
        "[0.24282754598505307, -0.35299821810996557, -0.8365077914900015]",
        "int64[2], [1], [0, 2], 1 -> shape(2)"));

MR_OP(StatelessTruncatedNormalV2,
    .doc = "normal numbers within two deviations, of a key and a counter",
    KEYED(truncated_v2),
    .examples = MR_EXAMPLES(
        "dtype=float: [2, 2], [87654321], [0, 1], 1 -> "
        "[[-0.8113182, 1.4845988], [0.06532937, 0.0992484]]",
        "int64[2], [1], [0, 2], 3 -> shape(2)"));

MR_OP(StatelessRandomUniformIntV2,
    .doc      = "integers from minval to maxval - 1, from a key and a counter",
    .sig      = "shape: Tshape, key: uint64, counter: uint64, alg: int32, minval: dtype, "
                "maxval: dtype -> output: dtype",
    .attrs    = "dtype: {int32, int64, uint32, uint64}; Tshape: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = integer_key_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(integer_v2, INTEGERS)),
    .examples = MR_EXAMPLES(
        "dtype=int32: [4], [87654321], [0, 1], 1, 0, 10 -> [7, 9, 3, 2]",
        "dtype=int64: [4], [87654321], [0, 1], 1, -5, 999999999995 -> "
        "[466106734786, 227701593900, 925956313696, 874686990149]",
        "int64[2], [1], [0, 2], 3, 5, 6 -> [5, 5]",
        "dtype=uint64: [2], [1], [0, 2], 3, 18446744073709551614, 18446744073709551615 -> "
        "[18446744073709551614, 18446744073709551614]",
        "dtype=uint64: [2], [1], [0, 2], 3, 18446744073709551615, 1 -> !INVALID_ARGUMENT "
        "Need minval < maxval, got 18446744073709551615 >= 1",
        "[0], [1], [0, 2], 3, 6, 6 -> shape(0)"));

MR_OP(StatelessRandomUniformFullIntV2,
    .doc      = "integers of all bits, of a key and a counter",
    .sig      = "shape: Tshape, key: uint64, counter: uint64, alg: int32 -> output: dtype",
    .attrs    = "dtype: {int32, int64, uint32, uint64} = DT_UINT64; "
                "Tshape: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = key_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(full_v2, INTEGERS)),
    .examples = MR_EXAMPLES(
        "dtype=uint32: [4], [0], [0, 0], 1 -> [1713891541, 3781805453, 3159862348, 2600524760]",
        "int64[3], [1], [0, 2], 1 -> shape(3)", "[3], [1], [0, 2], 0 -> !INVALID_ARGUMENT"));

/* ---- seeds to keys ---- */

static mr_status *key_counter(mr_run *r)
{
    mr_philox p;
    mr_tensor *key, *counter, *alg;
    MR_TRY(mr_seed_stream(r, 0, &p));
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){1}, &key));
    MR_TRY(mr_run_output(r, 1, 1, (int64_t[]){2}, &counter));
    MR_DATA(uint64_t, key)[0] = (uint64_t)p.key[1] << 32 | p.key[0];
    MR_DATA(uint64_t, counter)[0] = (uint64_t)p.counter[1] << 32 | p.counter[0];
    MR_DATA(uint64_t, counter)[1] = (uint64_t)p.counter[3] << 32 | p.counter[2];
    if (r->n_out < 3)
        return NULL;
    MR_TRY(mr_run_output(r, 2, 0, NULL, &alg));
    MR_DATA(int32_t, alg)[0] = MR_ALG_PHILOX;
    return NULL;
}

static mr_status *get_alg(mr_run *r)
{
    mr_tensor *alg;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &alg));
    MR_DATA(int32_t, alg)[0] = MR_ALG_PHILOX;
    return NULL;
}

static mr_status *key_counter_shape(mr_infer *c)
{
    MR_TRY(mr_seed_infer(c, 0));
    mr_infer_out_vector(c, 0, 1);
    mr_infer_out_vector(c, 1, 2);
    if (c->n_out > 2)
        mr_infer_out_scalar(c, 2);
    return NULL;
}

MR_OP(StatelessRandomGetKeyCounter,
    .doc      = "the key and the counter of a seed",
    .sig      = "seed: Tseed -> key: uint64, counter: uint64",
    .attrs    = "Tseed: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .shape    = key_counter_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(key_counter)),
    .examples = MR_EXAMPLES("[1, 2] -> shape(1), shape(2)",
                            "[1] -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomGetKeyCounterAlg,
    .doc      = "the key and the counter of a seed, and the algorithm of this device",
    .sig      = "seed: Tseed -> key: uint64, counter: uint64, alg: int32",
    .attrs    = "Tseed: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .shape    = key_counter_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(key_counter)),
    .examples = MR_EXAMPLES("[1, 2] -> shape(1), shape(2), 1", "[[1]] -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomGetAlg,
    .doc      = "the algorithm of this device for random numbers",
    .sig      = "-> alg: int32",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(get_alg)),
    .examples = MR_EXAMPLES("-> 1"));
