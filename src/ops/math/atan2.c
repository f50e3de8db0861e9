/* ops/math/atan2.c -- angles: Atan2 and Angle. */
#include "ops/elementwise.h"

static void atan2_float_loop(void *const *p, int64_t n) { mr_vatan2_f(n, p[1], p[2], p[0]); }
MR_FLOAT_FAMILY(MR_EACH_CONST_ROW, ARRAY, atan2)
MR_BINARY_SLOW(atan2, MR_TYPE_DOUBLE, atan2(x, y)) /* the op's inputs are (y, x) */

/* dy = dz x / (x^2 + y^2), dx = -dz y / (x^2 + y^2) */
static void atan2_backward(mr_grad *g)
{
    mr_out y = mr_xi(g, 0), x = mr_xi(g, 1);
    mr_out square = mr_emit(g->s, "AddV2", mr_emit(g->s, "Square", x), mr_emit(g->s, "Square", y));
    mr_out share = mr_emit(g->s, "RealDiv", mr_dyi(g, 0), square);
    mr_out dx = mr_emit(g->s, "Mul", x, share);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Mul", mr_emit(g->s, "Neg", y), share));
}

MR_OP(Atan2,
    .doc      = "the direction of the point (x, y) as seen from (0, 0), between -pi and pi",
    .sig      = "y: T, x: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double}",
    .shape    = mr_shape_broadcast2,
    .grad     = atan2_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(atan2, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[1, 2, -3], [1, -2, -3] -> [0.785398163397, 2.356194490192, -2.356194490192]",
        "[[1], [-1]], [2, 4] -> [[0.463647609001, 0.244978663127], [-0.463647609001, "
        "-0.244978663127]]",
        "nograd: [0.0, -0.0, 0.0, 1], [-1, -1, 0, 0] -> [3.14159265, -3.14159265, 0, 1.57079633]",
        "T=float nograd: [inf, nan, 1], [inf, 1, nan] -> [0.78539816, nan, nan]",
        "shape(0), 1 -> shape(0)", "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

/* ---- Angle ---- */

/* P: parts of the complex type, R: the real type, W: the wider of the two. */
#define ANGLE(name, P, R, W)                                               \
    static void angle_##name##_loop(void *const *p, int64_t n)             \
    {                                                                      \
        R *o = p[0];                                                       \
        const P *x = p[1];                                                 \
        for (int64_t i = 0; i < n; i++)                                    \
            o[i] = (R)atan2((W)x[2 * i + 1], (W)x[2 * i]);                 \
    }                                                                      \
    static const mr_each angle_##name = {angle_##name##_loop, false, 15.0f};
ANGLE(c64_float, float, float, float)
ANGLE(c128_double, double, double, double)
ANGLE(c64_double, float, double, double)
ANGLE(c128_float, double, float, double)

/* A kernel row for type attrs T = in and Tout = out. */
#define PAIR(each, in, out)                                                                     \
    {.device = "CPU", .type = in, .run = mr_each_run, .user = (void *)(uintptr_t)&each, .form = MR_FORM_BROADCAST, \
     .constraints = (const mr_named_attr[]){{"Tout", {.kind = MR_ATTR_TYPE, .type = out}}, {0}}},

/* With x = a + ib: dx = dy (-b + ia) / |x|^2, which is -dy / (b + ia). */
static void angle_backward(mr_grad *g)
{
    mr_out x = mr_xi(g, 0), dy = mr_dyi(g, 0);
    mr_dtype part = mr_dtype_base(mr_out_type(dy)), whole = mr_dtype_base(mr_out_type(x));
    mr_out re = mr_emit_with(g->s, "Real", MR_ATTRS({"Tout", mr_a_type(part)}), x),
           im = mr_emit_with(g->s, "Imag", MR_ATTRS({"Tout", mr_a_type(part)}), x);
    mr_out turned = mr_emit_with(g->s, "Complex", MR_ATTRS({"Tout", mr_a_type(whole)}), im, re);
    mr_out wide = mr_emit_with(g->s, "Complex", MR_ATTRS({"Tout", mr_a_type(whole)}), dy,
                               mr_scalar_like(g, 0, dy));
    mr_dxi(g, 0, mr_emit(g->s, "Neg", mr_emit(g->s, "RealDiv", wide, turned)));
}

MR_OP(Angle,
    .doc      = "the direction of complex numbers, between -pi and pi",
    .sig      = "input: T -> output: Tout",
    .attrs    = "T: {complex64, complex128} = DT_COMPLEX64; Tout: {float, double} = DT_FLOAT",
    .shape    = mr_shape_same,
    .grad     = angle_backward,
    .kernels  = MR_KERNELS(PAIR(angle_c64_float, MR_COMPLEX64, MR_FLOAT)
                           PAIR(angle_c128_double, MR_COMPLEX128, MR_DOUBLE)
                           PAIR(angle_c64_double, MR_COMPLEX64, MR_DOUBLE)
                           PAIR(angle_c128_float, MR_COMPLEX128, MR_FLOAT)),
    .examples = MR_EXAMPLES(
        "T=complex64: [1i, 1, 1-1i] -> [1.57079633, 0, -0.78539816]",
        "T=complex128 Tout=double: [-2.25+4.75i, 3.25+5.75i] -> [2.0132, 1.056345]",
        "T=complex64 Tout=double nograd: [0, -1] -> [0, 3.141592653590]",
        "T=complex128 nograd: [1i] -> [1.57079633]"));
