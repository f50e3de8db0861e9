/* ops/math/sin.c -- Sin, Cos, Tan and Atan. */
#include "ops/elementwise.h"

MR_UNARY_ARRAY(sin, mr_vsin_f)
MR_UNARY_SLOW(sin, MR_DOUBLE_COMPLEX, sin(x))
MR_UNARY_ARRAY(cos, mr_vcos_f)
MR_UNARY_SLOW(cos, MR_DOUBLE_COMPLEX, cos(x))
MR_UNARY_SLOW(tan, MR_FLOATS_COMPLEX, tan(x))
MR_UNARY_ARRAY(atan, mr_vatan_f)
MR_UNARY_SLOW(atan, MR_DOUBLE_COMPLEX, atan(x))

/* For integers: converts the result as Cast does. */
static int64_t double_to_i64(double v) { return fabs(v) < 0x1p63 ? (int64_t)v : INT64_MIN; }
MR_UNARY_SLOW(tan, MR_SIGNED, double_to_i64(tan((double)x)))
MR_UNARY_SLOW(atan, MR_SIGNED, double_to_i64(atan((double)x)))

static mr_out emit_unary(mr_grad *g, const char *op, mr_out x) { return mr_emit(g->s, op, x); }

static void sin_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), emit_unary(g, "Cos", mr_conj(g, mr_xi(g, 0)))));
}

static void cos_backward(mr_grad *g)
{
    mr_out slope = emit_unary(g, "Neg", emit_unary(g, "Sin", mr_conj(g, mr_xi(g, 0))));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), slope));
}

static void tan_backward(mr_grad *g)
{
    mr_out square = emit_unary(g, "Square", emit_unary(g, "Cos", mr_conj(g, mr_xi(g, 0))));
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), square));
}

static void atan_backward(mr_grad *g)
{
    mr_out square = emit_unary(g, "Square", mr_conj(g, mr_xi(g, 0)));
    mr_out more = mr_emit(g->s, "AddV2", square, mr_scalar_like(g, 1, square));
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), more));
}

#define WIDE "T: {bfloat16, half, float, double, complex64, complex128}"
#define WIDER "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"

MR_OP(Sin,
    .doc      = "sine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = sin_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(sin, MR_FLOATS_COMPLEX) MR_GPU_EACH(sin)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0, 0.841470984808, -0.909297426826]",
        "[1+1i] -> [1.298457581416+0.634963914785i]",
        "T=float: [1e10, inf, nan] -> [-0.48750602, nan, nan]"));

MR_OP(Cos,
    .doc      = "cosine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = cos_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(cos, MR_FLOATS_COMPLEX) MR_GPU_EACH(cos)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [1, 0.540302305868, -0.416146836547]",
        "[1+1i] -> [0.833730025131-0.988897705763i]",
        "T=float: [1e10, inf, nan] -> [0.87311962, nan, nan]"));

MR_OP(Tan,
    .doc      = "tangent of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDER,
    .shape    = mr_shape_same,
    .grad     = tan_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(tan, MR_FLOATS_COMPLEX) MR_CPU_EACH(tan, MR_SIGNED)),
    .examples = MR_EXAMPLES(
        "[0, 1, -0.5] -> [0, 1.557407724655, -0.546302489844]",
        "[1+1i] -> [0.271752585320+1.083923327339i]",
        "0 -> 0",
        "T=int16: [1, 11, -11] -> [1, -225, 225]"));

MR_OP(Atan,
    .doc      = "inverse tangent of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDER,
    .shape    = mr_shape_same,
    .grad     = atan_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(atan, MR_FLOATS_COMPLEX) MR_CPU_EACH(atan, MR_SIGNED)),
    .examples = MR_EXAMPLES(
        "[0, 1, -0.5] -> [0, 0.785398163397, -0.463647609001]",
        "[1+1i] -> [1.017221967898+0.402359478109i]",
        "0 -> 0",
        "T=int16: [1, 2, -9] -> [0, 1, -1]",
        "T=float: [inf, -inf, nan] -> [1.57079633, -1.57079633, nan]"));
