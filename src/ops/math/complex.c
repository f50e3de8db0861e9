/* ops/math/complex.c -- Complex, Real, Imag, Conj and ComplexAbs.
 *
 * Two type attrs give a complex type and that of its parts. If they do not match, the parts are converted. */
#include "ops/elementwise.h"

/* P: parts of the complex type C, R: the real type; all as stored. Numbers are read before the result is written,
 * because it may share memory with an input. */
#define PARTS(name, P, R, C)                                                     \
    static void real_##name##_loop(void *const *p, int64_t n)                    \
    {                                                                            \
        R *o = p[0];                                                             \
        for (int64_t i = 0; i < n; i++)                                          \
            o[i] = (R)((const P *)p[1])[2 * i];                                  \
    }                                                                            \
    static void imag_##name##_loop(void *const *p, int64_t n)                    \
    {                                                                            \
        R *o = p[0];                                                             \
        for (int64_t i = 0; i < n; i++)                                          \
            o[i] = (R)((const P *)p[1])[2 * i + 1];                              \
    }                                                                            \
    static void complex_##name##_loop(void *const *p, int64_t n)                 \
    {                                                                            \
        P *o = p[0];                                                             \
        for (int64_t i = 0; i < n; i++) {                                        \
            R re = ((const R *)p[1])[i], im = ((const R *)p[2])[i];              \
            o[2 * i] = (P)re;                                                    \
            o[2 * i + 1] = (P)im;                                                \
        }                                                                        \
    }                                                                            \
    static void complex_abs_##name##_loop(void *const *p, int64_t n)             \
    {                                                                            \
        R *o = p[0];                                                             \
        for (int64_t i = 0; i < n; i++)                                          \
            o[i] = (R)fabs(((const C *)p[1])[i]);                                \
    }                                                                            \
    static const mr_each real_##name = {real_##name##_loop, false, 0.5f};        \
    static const mr_each imag_##name = {imag_##name##_loop, false, 0.5f};        \
    static const mr_each complex_##name = {complex_##name##_loop, false, 0.5f};  \
    static const mr_each complex_abs_##name = {complex_abs_##name##_loop, false, 5.0f};

PARTS(c64_float, float, float, mr_c64)
PARTS(c128_double, double, double, mr_c128)
PARTS(c64_double, float, double, mr_c64)
PARTS(c128_float, double, float, mr_c128)

MR_UNARY(conj, MR_COMPLEXES, conj(x))

/* A kernel row for type attr T = in and Tout = out. */
#define PAIR(each, in, out)                                                                     \
    {.device = "CPU", .type = in, .run = mr_each_run, .user = (void *)(uintptr_t)&each, .form = MR_FORM_BROADCAST, \
     .constraints = (const mr_named_attr[]){{"Tout", {.kind = MR_ATTR_TYPE, .type = out}}, {0}}},
#define FROM_COMPLEX(fn)                                       \
    MR_KERNELS(PAIR(fn##_c64_float, MR_COMPLEX64, MR_FLOAT)    \
               PAIR(fn##_c128_double, MR_COMPLEX128, MR_DOUBLE) \
               PAIR(fn##_c64_double, MR_COMPLEX64, MR_DOUBLE)  \
               PAIR(fn##_c128_float, MR_COMPLEX128, MR_FLOAT))

static void complex_backward(mr_grad *g)
{
    mr_dtype part = mr_dtype_base(mr_out_type(mr_xi(g, 0)));
    mr_out dz = mr_dyi(g, 0);
    mr_out dx = mr_emit_with(g->s, "Real", MR_ATTRS({"Tout", mr_a_type(part)}), dz);
    mr_dx_broadcast(g, dx, mr_emit_with(g->s, "Imag", MR_ATTRS({"Tout", mr_a_type(part)}), dz));
}

static mr_out make_complex(mr_grad *g, mr_out re, mr_out im)
{
    mr_dtype whole = mr_dtype_base(mr_out_type(mr_xi(g, 0)));
    return mr_emit_with(g->s, "Complex", MR_ATTRS({"Tout", mr_a_type(whole)}), re, im);
}

static void real_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, make_complex(g, dy, mr_scalar_like(g, 0, dy)));
}

static void imag_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, make_complex(g, mr_scalar_like(g, 0, dy), dy));
}

static void conj_backward(mr_grad *g) { mr_dxi(g, 0, mr_conj(g, mr_dyi(g, 0))); }

static void complex_abs_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), wide = make_complex(g, dy, mr_scalar_like(g, 0, dy));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", wide, mr_emit(g->s, "Sign", mr_xi(g, 0))));
}

MR_OP(Complex,
    .doc      = "the complex number of a real and an imaginary part",
    .sig      = "real: T, imag: T -> out: Tout",
    .attrs    = "T: {float, double} = DT_FLOAT; Tout: {complex64, complex128} = DT_COMPLEX64",
    .shape    = mr_shape_broadcast2,
    .grad     = complex_backward,
    .kernels  = MR_KERNELS(PAIR(complex_c64_float, MR_FLOAT, MR_COMPLEX64)
                           PAIR(complex_c128_double, MR_DOUBLE, MR_COMPLEX128)
                           PAIR(complex_c128_float, MR_FLOAT, MR_COMPLEX128)
                           PAIR(complex_c64_double, MR_DOUBLE, MR_COMPLEX64)),
    .examples = MR_EXAMPLES(
        "T=float: [1, 2], [3, -4] -> [1+3i, 2-4i]",
        "T=double Tout=complex128: [1, 2], 0.5 -> [1+0.5i, 2+0.5i]",
        "T=double Tout=complex64: [1, 2], 0.5 -> [1+0.5i, 2+0.5i]",
        "T=float Tout=complex128: [1, 2], 0.5 -> [1+0.5i, 2+0.5i]"));

MR_OP(Real,
    .doc      = "real parts",
    .sig      = "input: T -> output: Tout",
    .attrs    = "T: {complex64, complex128} = DT_COMPLEX64; Tout: {float, double} = DT_FLOAT",
    .shape    = mr_shape_same,
    .grad     = real_backward,
    .kernels  = FROM_COMPLEX(real),
    .examples = MR_EXAMPLES(
        "T=complex64: [1+3i, 2-4i] -> [1, 2]",
        "T=complex128 Tout=double: [1+3i, 2-4i] -> [1, 2]",
        "T=complex64 Tout=double: [1+3i, 2-4i] -> [1, 2]",
        "T=complex128: [1+3i, 2-4i] -> [1, 2]"));

MR_OP(Imag,
    .doc      = "imaginary parts",
    .sig      = "input: T -> output: Tout",
    .attrs    = "T: {complex64, complex128} = DT_COMPLEX64; Tout: {float, double} = DT_FLOAT",
    .shape    = mr_shape_same,
    .grad     = imag_backward,
    .kernels  = FROM_COMPLEX(imag),
    .examples = MR_EXAMPLES(
        "T=complex64: [1+3i, 2-4i] -> [3, -4]",
        "T=complex128 Tout=double: [1+3i, 2-4i] -> [3, -4]",
        "T=complex64 Tout=double: [1+3i, 2-4i] -> [3, -4]",
        "T=complex128: [1+3i, 2-4i] -> [3, -4]"));

MR_OP(Conj,
    .doc      = "complex conjugates",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {complex64, complex128, variant} = DT_COMPLEX64",
    .shape    = mr_shape_same,
    .grad     = conj_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(conj, MR_COMPLEXES)),
    .examples = MR_EXAMPLES("[1+3i, 2-4i] -> [1-3i, 2+4i]"));

MR_OP(ComplexAbs,
    .doc      = "|x| of complex numbers",
    .sig      = "x: T -> y: Tout",
    .attrs    = "T: {complex64, complex128} = DT_COMPLEX64; Tout: {float, double} = DT_FLOAT",
    .shape    = mr_shape_same,
    .grad     = complex_abs_backward,
    .kernels  = FROM_COMPLEX(complex_abs),
    .examples = MR_EXAMPLES(
        "T=complex64: [3+4i, -5] -> [5, 5]",
        "T=complex128 Tout=double: [3+4i, -5] -> [5, 5]",
        "T=complex64 Tout=double: [3+4i, -5] -> [5, 5]",
        "T=complex128: [3+4i, -5] -> [5, 5]"));
