/* ops/math/clip.c -- ClipByValue. */
#include "ops/elementwise.h"

/* x, y, z: value, lower and upper bound. The lower one wins; a NaN passes both tests and is kept. */
MR_TERNARY(clip, MR_REALS, (x > z ? z : x) < y ? y : (x > z ? z : x))

static mr_status *clip_run(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    for (int i = 1; i <= 2; i++)
        if (mr_in(r, i)->rank != 0 && !mr_tensor_same_shape(t, mr_in(r, i)))
            return mr_invalid("%s must be either of the same shape as input, or a scalar. input "
                              "shape: %s, got %s",
                              i == 1 ? "clip_value_min" : "clip_value_max", MR_TENSOR_SHAPE(t),
                              MR_TENSOR_SHAPE(mr_in(r, i)));
    return mr_on_accel(r) ? mr_each_run_accel(r) : mr_each_apply(r, r->kernel->user);
}

/* The part of dy that belongs to a bound: dy where the bound was used, summed if it is a scalar. */
static mr_out to_bound(mr_grad *g, mr_out used, mr_out zero, int input)
{
    mr_out part = mr_emit(g->s, "Select", used, mr_dyi(g, 0), zero),
           shape = mr_shape_of(g, mr_xi(g, input));
    mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", shape, mr_shape_of(g, mr_xi(g, 0)));
    return mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", part, axes), shape);
}

static void clip_backward(mr_grad *g)
{
    mr_out t = mr_xi(g, 0), dy = mr_dyi(g, 0), zero = mr_zeros_like(g, dy);
    mr_out below = mr_emit(g->s, "Less", t, mr_xi(g, 1)),
           above = mr_emit(g->s, "Greater", t, mr_xi(g, 2));
    mr_dxi(g, 0, mr_emit(g->s, "Select", mr_emit(g->s, "LogicalOr", below, above), zero, dy));
    mr_dxi(g, 1, to_bound(g, below, zero, 1));
    mr_dxi(g, 2, to_bound(g, above, zero, 2));
}

MR_OP(ClipByValue,
    .doc      = "each element made at most the upper, then at least the lower bound",
    .sig      = "t: T, clip_value_min: T, clip_value_max: T -> output: T",
    .attrs    = "T: numbertype",
    .shape    = mr_shape_same,
    .grad     = clip_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FORM(clip, MR_REALS, clip_run, MR_FORM_SCALARS) MR_GPU_EACH_BY(clip, clip_run)
                           MR_CPU_EACH_FORM(clip, MR_CODES, clip_run, MR_FORM_SCALARS)),
    .examples = MR_EXAMPLES(
        "[1, 5, 9], 2, 7 -> [2, 5, 7]",
        "[[1, 5], [9, 4]], [[0, 6], [0, 1]], [[3, 7], [8, 2]] -> [[1, 6], [8, 2]]",
        "T=qint8: [-100, 5, 100], -7, 7 -> [-7, 5, 7]",
        "nograd: [-inf, nan, inf], -1, 1 -> [-1, nan, 1]",
        "nograd: [1, 5], 4, 2 -> [4, 4]",
        "T=float: [1, 2], [1, 2, 3], 4 -> !INVALID_ARGUMENT"));
