/* ops/random/random.c -- tensors of random numbers: uniform, normal, truncated normal, integers. */
#include "graph/infer.h"
#include "ops/random/fill.h"

/* Fills output 0, whose shape is input 0, from the kernel's stream. */
static mr_status *fill_output(mr_run *r, mr_draw draw)
{
    mr_shape shape;
    mr_tensor *out;
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    mr_random_fill(r, &draw, mr_random_reserve(r->state, (uint64_t)out->n * 256), out);
    return NULL;
}

static mr_status *random_uniform(mr_run *r) { return fill_output(r, (mr_draw){MR_UNIFORM}); }
static mr_status *random_normal(mr_run *r) { return fill_output(r, (mr_draw){MR_NORMAL}); }
static mr_status *truncated_normal(mr_run *r) { return fill_output(r, (mr_draw){MR_TRUNCATED}); }

static mr_status *uniform_int(mr_run *r)
{
    mr_draw draw;
    bool empty = false;
    for (int64_t i = 0; i < mr_in(r, 0)->n; i++)
        empty |= mr_tensor_int_at(mr_in(r, 0), i) == 0;
    MR_TRY(mr_draw_integers(r, 1, empty, &draw));
    return fill_output(r, draw);
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
    RANDOM_OP(random_uniform),
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
    RANDOM_OP(random_normal),
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
    RANDOM_OP(truncated_normal),
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
    .doc      = "integers from minval to maxval - 1",
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
