/* ops/random/stateful.c -- random numbers of a generator that is stored in a variable; skipping numbers of
 * it; and non-deterministic integers of the system. */
#include "base/clock.h"
#include "ops/random/fill.h"
#include "ops/random/key.h"

/* Fills output 0, whose shape is input `shape_at`.  The algorithm is input 1 or, if first > 0, the first
 * number of the state. */
static mr_status *fill_output(mr_run *r, const mr_draw *draw, int shape_at, int first)
{
    mr_shape shape;
    mr_tensor *out;
    mr_philox start;
    int64_t alg = 0;
    if (first == 0)
        MR_TRY(mr_in_algorithm(r, 1, &alg));
    MR_TRY(mr_in_shape(r, shape_at, "shape", 0, &shape));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    MR_TRY(mr_generator_take(r, alg, first, (uint64_t)out->n, &start, NULL));
    mr_random_fill(r, draw, start, out);
    return NULL;
}

static mr_status *normal_v1(mr_run *r) { return fill_output(r, &(mr_draw){MR_NORMAL}, 1, 1); }
static mr_status *stateful_normal(mr_run *r) { return fill_output(r, &(mr_draw){MR_NORMAL}, 2, 0); }
static mr_status *stateful_truncated(mr_run *r) { return fill_output(r, &(mr_draw){MR_TRUNCATED}, 2, 0); }
static mr_status *stateful_uniform(mr_run *r) { return fill_output(r, &(mr_draw){MR_UNIFORM}, 2, 0); }
static mr_status *stateful_full_int(mr_run *r) { return fill_output(r, &(mr_draw){MR_FULL_INTEGER}, 2, 0); }

static mr_status *stateful_int(mr_run *r)
{
    mr_draw draw;
    MR_TRY(mr_draw_integers(r, 3, false, &draw));
    return fill_output(r, &draw, 2, 0);
}

static mr_status *shape_at_1(mr_infer *c) { return mr_infer_shape_value(c, 1, &c->out[0]); }
static mr_status *shape_at_2(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    return mr_infer_shape_value(c, 2, &c->out[0]);
}

/* The signatures allow a shape of any type, but there are kernels only for integers. */
static const mr_named_attr index_shape[] = {
    {"shape_dtype", {MR_ATTR_TYPE, true, 2, .types = (const int[]){MR_INT32, MR_INT64}}}, {0}};
#define INTEGERS(M, ...)                                                \
    MR_TYPE_INT32(M, __VA_ARGS__) MR_TYPE_INT64(M, __VA_ARGS__)         \
    MR_TYPE_UINT32(M, __VA_ARGS__) MR_TYPE_UINT64(M, __VA_ARGS__)
#define ROW(E, name, number, S, C, fn) \
    {.device = "CPU", .type = MR_##E, .run = fn, .constraints = index_shape},
#define GENERATOR(fn, TYPES)                                                                \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .key = "dtype", .shape = shape_at_2,             \
    .kernels = MR_KERNELS(TYPES(ROW, fn))
#define SIG "resource: resource, algorithm: int64, shape: shape_dtype"
#define RNG "h = VarHandleOp dtype=int64 shape=[3]; AssignVariableOp: h, int64[0, 1, 87654321]; "

MR_OP(StatefulStandardNormal,
    .doc      = "normal numbers; the algorithm is the first number of the state",
    .sig      = "resource: resource, shape: shape_dtype -> output: dtype",
    .attrs    = "dtype: type = DT_FLOAT; shape_dtype: type = DT_INT64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .deprecated = 29, .deprecation = "Use StatefulStandardNormalV2 instead",
    .key      = "dtype",
    .shape    = shape_at_1,
    .kernels  = MR_KERNELS(MR_FLOATS(ROW, normal_v1)),
    .examples = MR_EXAMPLES(
        "h = VarHandleOp dtype=int64 shape=[4]; AssignVariableOp: h, int64[1, 0, 1, 87654321]; "
        "dtype=float: h, [4] -> [-0.8113182, 1.4845988, 0.06532937, -2.4427042]",
        "h = VarHandleOp dtype=int64 shape=[4]; AssignVariableOp: h, int64[1, 0, 1, 5]; h, [2] -> "
        "shape(2)",
        "h = VarHandleOp dtype=int64 shape=[4]; AssignVariableOp: h, int64[1, 0, 1, 5]; "
        "h, int32[2] -> shape(2)",
        "h = VarHandleOp dtype=int64 shape=[0]; AssignVariableOp: h, int64 shape(0); h, [2] -> "
        "!INVALID_ARGUMENT Size of tensor must be at least 1"));

MR_OP(StatefulStandardNormalV2,
    .doc      = "normal numbers of the generator in a variable",
    .sig      = SIG " -> output: dtype",
    .attrs    = "dtype: type = DT_FLOAT; shape_dtype: type = DT_INT64",
    GENERATOR(stateful_normal, MR_FLOATS),
    .examples = MR_EXAMPLES(
        RNG "dtype=float: h, 1, [4] -> [-0.8113182, 1.4845988, 0.06532937, -2.4427042]",
        RNG "h, 1, int32[0, 3] -> shape(0,3)", RNG "h, 1, [2] -> shape(2)",
        RNG "h, 2, [4] -> !INVALID_ARGUMENT Unsupported algorithm id: 2",
        "h = VarHandleOp dtype=int64 shape=[2]; AssignVariableOp: h, int64[0, 1]; h, 1, [4] -> "
        "!INVALID_ARGUMENT the size of state must be at least 3; got 2",
        "h = VarHandleOp dtype=int32 shape=[3]; AssignVariableOp: h, int32[0, 1, 2]; h, 1, [4] -> "
        "!INVALID_ARGUMENT dtype of RNG state variable must be int64, not int32",
        "h = VarHandleOp dtype=int64 shape=[]; AssignVariableOp: h, int64 7; h, 1, [4] -> "
        "!INVALID_ARGUMENT RNG state must have one and only one dimension, not 0"));

MR_OP(StatefulTruncatedNormal,
    .doc      = "normal numbers within two deviations of the generator in a variable",
    .sig      = SIG " -> output: dtype",
    .attrs    = "dtype: type = DT_FLOAT; shape_dtype: type = DT_INT64",
    GENERATOR(stateful_truncated, MR_FLOATS),
    .examples = MR_EXAMPLES(
        RNG "dtype=float: h, 1, [4] -> [-0.8113182, 1.4845988, 0.06532937, 0.0992484]",
        RNG "h, 1, int32[2] -> shape(2)", RNG "h, 1, [2] -> shape(2)"));

MR_OP(StatefulUniform,
    .doc      = "uniform numbers in [0, 1) of the generator in a variable",
    .sig      = SIG " -> output: dtype",
    .attrs    = "dtype: type = DT_FLOAT; shape_dtype: type = DT_INT64",
    GENERATOR(stateful_uniform, MR_FLOATS),
    .examples = MR_EXAMPLES(
        RNG "dtype=float: h, 1, [4] -> [0.2390374, 0.92039955, 0.05051243, 0.49574447]",
        RNG "StatefulUniform: h, 1, [1]; dtype=double: h, 1, [1] -> shape(1)",
        RNG "h, 1, int32[2] -> shape(2)", RNG "h, 1, [2] -> shape(2)",
        RNG "h, 1, [-2] -> !INVALID_ARGUMENT"));

MR_OP(StatefulUniformFullInt,
    .doc      = "integers of all bits of the generator in a variable",
    .sig      = SIG " -> output: dtype",
    .attrs    = "dtype: type = DT_UINT64; shape_dtype: type = DT_INT64",
    GENERATOR(stateful_full_int, INTEGERS),
    .examples = MR_EXAMPLES(RNG "h, 1, int32[2] -> shape(2)", RNG "h, 1, [2] -> shape(2)"));

static mr_status *integer_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[3], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[4], 0, &ignored));
    return shape_at_2(c);
}

MR_OP(StatefulUniformInt,
    .doc      = "integers from minval to maxval - 1, from the generator in a variable",
    .sig      = SIG ", minval: dtype, maxval: dtype -> output: dtype",
    .attrs    = "dtype: type = DT_INT64; shape_dtype: type = DT_INT64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = integer_shape,
    .kernels  = MR_KERNELS(INTEGERS(ROW, stateful_int)),
    .examples = MR_EXAMPLES(
        RNG "dtype=int32: h, 1, [4], 0, 10 -> [7, 9, 3, 2]",
        RNG "h, 1, int32[2], 3, 4 -> [3, 3]", RNG "h, 1, [2], 3, 4 -> [3, 3]",
        RNG "h, 1, [2], 4, 4 -> !INVALID_ARGUMENT Need minval < maxval, got 4 >= 4"));

/* ---- skipping ---- */

static mr_status *skip_numbers(mr_run *r)
{
    mr_philox ignored;
    int64_t alg, delta;
    MR_TRY(mr_in_algorithm(r, 1, &alg));
    MR_TRY(mr_in_algorithm(r, 2, &delta)); /* any scalar integer */
    return mr_generator_take(r, alg, 0, (uint64_t)delta, &ignored, NULL);
}

static mr_status *read_and_skip(mr_run *r)
{
    mr_philox ignored;
    mr_tensor *out;
    int64_t alg, old[3];
    MR_TRY(mr_in_algorithm(r, 1, &alg));
    if (mr_in(r, 2)->rank != 0)
        return mr_invalid("input 2 (0-based) must have shape [], not %s",
                          MR_TENSOR_SHAPE(mr_in(r, 2)));
    MR_TRY(mr_generator_take(r, alg, 0, MR_DATA(uint64_t, mr_in(r, 2))[0], &ignored, old));
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){3}, &out));
    memcpy(out->data, old, sizeof old);
    return NULL;
}

static mr_status *skip_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    if (c->n_out > 0)
        mr_infer_out_vector(c, 0, 3);
    return NULL;
}

MR_OP(RngSkip,
    .doc      = "advances the generator in a variable by delta numbers",
    .sig      = "resource: resource, algorithm: int64, delta: int64 ->",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = skip_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(skip_numbers)),
    .examples = MR_EXAMPLES(
        RNG "h, 1, 5 ->", RNG "h, 2, 5 -> !INVALID_ARGUMENT Unsupported algorithm id: 2",
        RNG "h, 1, [5] -> !INVALID_ARGUMENT"));

MR_OP(RngReadAndSkip,
    .doc      = "the state of the generator in a variable, which is then advanced by delta numbers",
    .sig      = "resource: resource, alg: int32, delta: uint64 -> value: int64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = skip_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(read_and_skip)),
    .examples = MR_EXAMPLES(
        RNG "h, 1, 5 -> [0, 1, 87654321]",
        RNG "RngSkip: h, 1, 5; h, 3, 1 -> [1280, 1, 87654321]",
        RNG "RngReadAndSkip: h, 1, 72057594037927935; RngSkip: h, 1, 1; h, 1, 0 -> "
        "[0, 2, 87654321]",
        RNG "h, 7, 5 -> !INVALID_ARGUMENT Unsupported algorithm id: 7"));

/* ---- without a generator ---- */

static mr_status *nondeterministic_ints(mr_run *r)
{
    mr_shape shape;
    mr_tensor *out;
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    for (int64_t i = 0; i < out->n; i++) {
        uint64_t bits = mr_random64();
        if (mr_dtype_size((mr_dtype)out->dtype) == 8)
            MR_DATA(uint64_t, out)[i] = bits;
        else
            MR_DATA(uint32_t, out)[i] = (uint32_t)bits;
    }
    return NULL;
}

MR_OP(NonDeterministicInts,
    .doc      = "integers of all bits, of the system's random numbers",
    .sig      = "shape: shape_dtype -> output: dtype",
    .attrs    = "dtype: type = DT_INT64; shape_dtype: type = DT_INT64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = mr_shape_from_input0,
    .kernels  = MR_KERNELS(INTEGERS(ROW, nondeterministic_ints)),
    .examples = MR_EXAMPLES("[2, 3] -> shape(2,3)", "int32[0] -> shape(0)",
                            "[-2] -> !INVALID_ARGUMENT"));
