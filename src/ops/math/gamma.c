/* ops/math/gamma.c -- the gamma function's logarithm and derivatives, the incomplete gamma and beta
 * functions: Lgamma, Digamma, Polygamma, Zeta, Igamma, Igammac, IgammaGradA, Betainc.
 *
 * All types are computed in double (base/special.h; Lgamma of floats base/vmath.h). Arguments for which TensorFlow has no derivative (Polygamma's
 * order, Zeta's exponent, Betainc's parameters) get no gradient. */
#include "base/special.h"
#include "ops/elementwise.h"
#include "run/run.h"

MR_UNARY_ARRAY(lgamma, mr_vlgamma_f)
MR_UNARY_SLOW(lgamma, MR_TYPE_DOUBLE, mr_lgamma(x))
MR_UNARY_SLOW(digamma, MR_FLOATS, mr_digamma(x))
MR_BINARY_SLOW(polygamma, MR_FLOATS32, mr_polygamma(x, y))
MR_BINARY_SLOW(zeta, MR_FLOATS32, mr_zeta(x, y))
MR_BINARY_SLOW(igamma, MR_FLOATS, mr_igamma(x, y))
MR_BINARY_SLOW(igammac, MR_FLOATS, mr_igammac(x, y))
MR_BINARY_SLOW(igamma_grad_a, MR_FLOATS32, mr_igamma_grad_a(x, y))
MR_EACH(3, SAME, SLOW, betainc, MR_FLOATS32, (mr_betainc(x, y, z)))

static mr_out add_number(mr_grad *g, mr_out x, double v)
{
    return mr_emit(g->s, "AddV2", x, mr_scalar_like(g, v, x));
}

static mr_out emit_product(mr_grad *g, mr_out x, mr_out y) { return mr_emit(g->s, "Mul", x, y); }

/* ---- gradients ---- */

static void lgamma_backward(mr_grad *g)
{
    mr_dxi(g, 0, emit_product(g, mr_dyi(g, 0), mr_emit(g->s, "Digamma", mr_xi(g, 0))));
}

/* Polygamma does not support 16-bit types, so they are cast to float. */
static void digamma_backward(mr_grad *g)
{
    mr_out x = mr_xi(g, 0);
    mr_dtype type = mr_dtype_base(mr_out_type(x));
    bool narrow = type == MR_HALF || type == MR_BFLOAT16;
    if (narrow)
        x = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), x);
    mr_out slope = mr_emit(g->s, "Polygamma", mr_scalar_like(g, 1, x), x);
    if (narrow)
        slope = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}), slope);
    mr_dxi(g, 0, emit_product(g, mr_dyi(g, 0), slope));
}

static void polygamma_backward(mr_grad *g)
{
    mr_out slope = mr_emit(g->s, "Polygamma", add_number(g, mr_xi(g, 0), 1), mr_xi(g, 1));
    mr_dx_broadcast(g, MR_NO_OUT, emit_product(g, mr_dyi(g, 0), slope));
}

static void zeta_backward(mr_grad *g)
{
    mr_out s = mr_xi(g, 0), sum = mr_emit(g->s, "Zeta", add_number(g, s, 1), mr_xi(g, 1));
    mr_out slope = emit_product(g, mr_emit(g->s, "Neg", s), sum);
    mr_dx_broadcast(g, MR_NO_OUT, emit_product(g, mr_dyi(g, 0), slope));
}

/* exp(-x + (a - 1) log x - lgamma a): the density. */
static mr_out gamma_density(mr_grad *g, mr_out a, mr_out x)
{
    mr_out power = emit_product(g, add_number(g, a, -1), mr_emit(g->s, "Log", x));
    power = mr_emit(g->s, "Sub", power, mr_emit(g->s, "AddV2", x, mr_emit(g->s, "Lgamma", a)));
    return mr_emit(g->s, "Exp", power);
}

/* IgammaGradA does not support 16-bit types. */
static mr_out by_a(mr_grad *g, mr_out a, mr_out x)
{
    mr_dtype type = mr_dtype_base(mr_out_type(x));
    if (type != MR_HALF && type != MR_BFLOAT16)
        return mr_emit(g->s, "IgammaGradA", a, x);
    a = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), a);
    x = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), x);
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}),
                        mr_emit(g->s, "IgammaGradA", a, x));
}

static void igamma_backward(mr_grad *g)
{
    mr_out a = mr_xi(g, 0), x = mr_xi(g, 1), dz = mr_dyi(g, 0);
    mr_dx_broadcast(g, emit_product(g, dz, by_a(g, a, x)), emit_product(g, dz, gamma_density(g, a, x)));
}

static void igammac_backward(mr_grad *g)
{
    mr_out a = mr_xi(g, 0), x = mr_xi(g, 1), dz = mr_emit(g->s, "Neg", mr_dyi(g, 0));
    mr_dx_broadcast(g, emit_product(g, dz, by_a(g, a, x)), emit_product(g, dz, gamma_density(g, a, x)));
}

/* ---- Betainc ---- */

/* The arguments must have one shape, or be scalars. */
static mr_status *betainc_run(mr_run *r)
{
    static const char *const names = "abx";
    int shaped = -1;
    for (int i = 0; i < 3; i++) {
        if (mr_in(r, i)->rank == 0)
            continue;
        if (shaped >= 0 && !mr_tensor_same_shape(mr_in(r, shaped), mr_in(r, i)))
            return mr_invalid("Shapes of %c and %c are inconsistent: %s vs. %s", names[shaped],
                              names[i], MR_TENSOR_SHAPE(mr_in(r, shaped)),
                              MR_TENSOR_SHAPE(mr_in(r, i)));
        shaped = i;
    }
    return mr_each_apply(r, r->kernel->user);
}

static mr_status *betainc_shape(mr_infer *c)
{
    const mr_pshape *shaped = NULL;
    bool open = false;
    for (int i = 0; i < 3; i++) {
        open |= c->in[i]->rank < 0;
        if (c->in[i]->rank > 0)
            MR_TRY(shaped ? mr_infer_merge(c, shaped, c->in[i], &shaped)
                          : mr_infer_rank_at_least(c, c->in[i], 1, &shaped));
    }
    if (shaped)
        c->out[0] = shaped;
    else if (!open)
        mr_infer_out_scalar(c, 0);
    return NULL;
}

/* dx = dz x^(a-1) (1-x)^(b-1) / B(a, b), where 0 log 0 is 0. */
static void betainc_backward(mr_grad *g)
{
    mr_out a = mr_xi(g, 0), b = mr_xi(g, 1), x = mr_xi(g, 2);
    mr_out log_beta = mr_emit(
        g->s, "Sub",
        mr_emit(g->s, "AddV2", mr_emit(g->s, "Lgamma", a), mr_emit(g->s, "Lgamma", b)),
        mr_emit(g->s, "Lgamma", mr_emit(g->s, "AddV2", a, b)));
    mr_out power = mr_emit(
        g->s, "AddV2", mr_emit(g->s, "Xlog1py", add_number(g, b, -1), mr_emit(g->s, "Neg", x)),
        mr_emit(g->s, "Xlogy", add_number(g, a, -1), x));
    mr_out slope = mr_emit(g->s, "Exp", mr_emit(g->s, "Sub", power, log_beta));
    mr_out dx = emit_product(g, mr_dyi(g, 0), slope), shape = mr_shape_of(g, x);
    mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", mr_shape_of(g, mr_yi(g, 0)), shape);
    mr_dxi(g, 2, mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", dx, mr_nth(axes, 1)), shape));
}

#define FLOATS "T: {bfloat16, half, float, double}"

MR_OP(Lgamma,
    .doc      = "log |Gamma(x)| of each element",
    .sig      = "x: T -> y: T",
    .attrs    = FLOATS,
    .shape    = mr_shape_same,
    .grad     = lgamma_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(lgamma, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[1, 2, 0.5, 4.5, -1.5] -> [0, 0, 0.572364942925, 2.453736570842, 0.860047015376]",
        "T=float nograd: [0, -1, -inf, inf, nan] -> [inf, inf, inf, inf, nan]",
        "T=double nograd: [1e-10] -> [23.0258509298827]", "shape(0) -> shape(0)"));

MR_OP(Digamma,
    .doc      = "the derivative of log Gamma(x) of each element",
    .sig      = "x: T -> y: T",
    .attrs    = FLOATS,
    .shape    = mr_shape_same,
    .grad     = digamma_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(digamma, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[1, 2.5, 10, -1.5] -> [-0.577215664902, 0.703156640645, 2.251752589067, 0.703156640645]",
        "T=double nograd: [1.4616321449683622] -> [-9.2412655e-17]",
        "T=float nograd: [0, -1, inf, -inf, nan] -> [nan, nan, inf, nan, nan]"));

MR_OP(Polygamma,
    .doc      = "the derivative of order a of the digamma function, a = 0, 1, 2 ..",
    .sig      = "a: T, x: T -> z: T",
    .attrs    = "T: {float, double}",
    .shape    = mr_shape_broadcast2,
    .grad     = polygamma_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(polygamma, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "T=double: [0, 1, 2, 3], 2.5 -> [0.703156640645, 0.490357756100, -0.236204051642, "
        "0.223905848817]",
        "1, [[-0.5], [1]] -> [[8.934802200545], [1.644934066848]]",
        "nograd: [-1, 0.5, nan, 1], [1, 1, 1, nan] -> [nan, nan, nan, nan]",
        "nograd: 1, [0, -1] -> [inf, inf]", "shape(0), 1 -> shape(0)"));

MR_OP(Zeta,
    .doc      = "the sum of (q + k)^-x over k = 0, 1, 2 .. (Hurwitz's zeta function)",
    .sig      = "x: T, q: T -> z: T",
    .attrs    = "T: {float, double}",
    .shape    = mr_shape_broadcast2,
    .grad     = zeta_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(zeta, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "[2, 3, 1.5], 1 -> [1.644934066848, 1.202056903160, 2.612375348685]",
        "2, [[0.25], [-1.5]] -> [[17.197329154507], [9.379246644989]]",
        "nograd: [1, 0.5, 2, 2.5, nan], [1, 1, -1, -1.5, 1] -> [inf, nan, inf, nan, nan]",
        "nograd: [2, 2], [inf, 1e20] -> [0, 1e-20]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(Igamma,
    .doc      = "the lower regularized incomplete gamma function P(a, x)",
    .sig      = "a: T, x: T -> z: T",
    .attrs    = FLOATS,
    .shape    = mr_shape_broadcast2,
    .grad     = igamma_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(igamma, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 3], [1, 2, 1.5] -> [0.842700792950, 0.864664716763, 0.191153169462]",
        "[[2]], [1, 4] -> [[0.264241117657, 0.908421805556]]",
        "T=double nograd: [100, 1000000], [110, 1001000] -> [0.841721329940, 0.841344786368]",
        "T=float nograd: [1, -1, 0, 1, 1, nan], [0, 1, 1, -1, inf, 1] -> [0, nan, nan, nan, 1, "
        "nan]"));

MR_OP(Igammac,
    .doc      = "the upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x)",
    .sig      = "a: T, x: T -> z: T",
    .attrs    = FLOATS,
    .shape    = mr_shape_broadcast2,
    .grad     = igammac_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(igammac, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 3], [1, 2, 1.5] -> [0.157299207050, 0.135335283237, 0.808846830538]",
        "T=double nograd: [2], [40] -> [1.74182524e-16]",
        "T=float nograd: [1, -1, 0, 1, 1, nan], [0, 1, 1, -1, inf, 1] -> [1, nan, nan, nan, 0, "
        "nan]"));

MR_OP(IgammaGradA,
    .doc      = "the derivative of Igamma by a",
    .sig      = "a: T, x: T -> z: T",
    .attrs    = "T: {float, double}",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(igamma_grad_a, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "nograd: [0.5, 1, 3], [1, 2, 1.5] -> [-0.389837, -0.220825, -0.183630]",
        "nograd: [1, -1, nan], [0, 1, 1] -> [0, nan, nan]"));

MR_OP(Betainc,
    .doc      = "the regularized incomplete beta function I_x(a, b); scalars serve all elements",
    .sig      = "a: T, b: T, x: T -> z: T",
    .attrs    = "T: {float, double}",
    .shape    = betainc_shape,
    .grad     = betainc_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_BY(betainc, MR_FLOATS32, betainc_run)),
    .examples = MR_EXAMPLES(
        "[1, 2, 0.5], [1, 3, 0.5], [0.25, 0.5, 0.5] -> [0.25, 0.6875, 0.5]",
        "2, 3, [[0.1], [0.9]] -> [[0.0523], [0.9963]]",
        "[1, 2], 2, 0.5 -> [0.75, 0.5]",
        "nograd: 2, 2, [0, 1, -1, 2, nan] -> [0, 1, nan, nan, nan]",
        "nograd: [0, -1, 1], [1, 1, nan], 0.5 -> [nan, nan, nan]", "shape(0), 1, 0.5 -> shape(0)",
        "[1, 2], [1, 2, 3], 0.5 -> !INVALID_ARGUMENT",
        "b = PlaceholderWithDefault dtype=$T shape=?: [1, 2, 3]; : [1, 2], b, 0.5 -> "
        "!INVALID_ARGUMENT Shapes of a and b are inconsistent"));
