/* ops/nn/gelu.c -- x times a smooth step, in the spellings that people write, and its gradient.
 *
 * passes/fuse_gelu.c makes these nodes from the single ones. Each expression has the order of operations of the usual
 * spelling, so that infinities and NaN come out alike:
 *     tanh     x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
 *     erf      x (1 + erf(x / sqrt(2))) / 2
 *     sigmoid  x sigmoid(1.702 x)
 *     swish    x sigmoid(x) */
#include "ops/nn/gelu.h"

#include "ops/elementwise.h"

#define ROOT_2_PI 0.7978845608028654f
#define CUBE 0.044715f
#define ROOT_HALF 0.7071067811865476f
#define TWO_ROOT_PI 1.1283791670955126f
#define QUICK 1.702f

MR_INLINE float tanh_part(float x) { return mr_tanhf(ROOT_2_PI * (x + CUBE * (x * x * x))); }
MR_INLINE float erf_part(float x) { return mr_erff(x * ROOT_HALF); }

/* The gradients by the argument of the tanh, the erf and the sigmoid; d: the gradient of the result. */
MR_INLINE float by_tanh(float x, float d, float t) { return ROOT_2_PI * (0.5f * (x * d) * (1 - t * t)); }
MR_INLINE float by_erf(float x, float d)
{
    float z = x * ROOT_HALF;
    return 0.5f * (x * d) * (TWO_ROOT_PI * mr_expf(-(z * z)));
}
MR_INLINE float by_sigmoid(float x, float d, float s) { return x * d * s * (1 - s); }

/* The gradient of the square, with a product that is 0 where one factor is 0, as that of Pow has it. */
MR_INLINE float guarded(float square, float d) { return d == 0 ? 0 : square * d; }

MR_INLINE float tanh_slope(float x, float d)
{
    float t = tanh_part(x), u = by_tanh(x, d, t);
    return d * (0.5f * (1 + t)) + u + 3 * (x * x) * (CUBE * u);
}
MR_INLINE float tanh_slope_guarded(float x, float d)
{
    float t = tanh_part(x), u = by_tanh(x, d, t);
    return d * (0.5f * (1 + t)) + u + guarded(3 * (x * x), CUBE * u);
}
MR_INLINE float erf_slope(float x, float d)
{
    return d * (0.5f * (1 + erf_part(x))) + by_erf(x, d) * ROOT_HALF;
}
MR_INLINE float sigmoid_slope(float x, float d, float factor)
{
    float s = mr_sigmoidf(factor * x);
    return d * s + by_sigmoid(x, d, s) * factor;
}

MR_UNARY(gelu_tanh, MR_TYPE_FLOAT, (x * (0.5f * (1 + tanh_part(x)))))
MR_UNARY(gelu_erf, MR_TYPE_FLOAT, (x * (0.5f * (1 + erf_part(x)))))
MR_UNARY(gelu_sigmoid, MR_TYPE_FLOAT, (x * mr_sigmoidf(QUICK * x)))
MR_UNARY(swish, MR_TYPE_FLOAT, (x * mr_sigmoidf(x)))
MR_BINARY(gelu_tanh_grad, MR_TYPE_FLOAT, tanh_slope(y, x)) /* x: the gradient, y: the features */
MR_BINARY(gelu_tanh_guarded_grad, MR_TYPE_FLOAT, tanh_slope_guarded(y, x))
MR_BINARY(gelu_erf_grad, MR_TYPE_FLOAT, erf_slope(y, x))
MR_BINARY(gelu_sigmoid_grad, MR_TYPE_FLOAT, sigmoid_slope(y, x, QUICK))
MR_BINARY(swish_grad, MR_TYPE_FLOAT, sigmoid_slope(y, x, 1))

#define OVER_ARRAY(fn)                                  \
    void mr_##fn##_f(int64_t n, const float *x, float *y) \
    {                                                   \
        void *p[] = {y, (void *)(uintptr_t)x};          \
        fn##_float_loop(p, n);                          \
    }
OVER_ARRAY(gelu_tanh)
OVER_ARRAY(gelu_erf)
OVER_ARRAY(gelu_sigmoid)
OVER_ARRAY(swish)

#define SHARED(what)                                             \
    .doc   = what "; made by the runtime from single nodes",      \
    .attrs = "T: {float}",                                       \
    .flags = MR_NO_GRADIENT

MR_OP(_GeluTanh,
    SHARED("x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"),
    .sig      = "features: T -> activations: T",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_tanh, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[0, 1, -2] -> [0, 0.841192, -0.0454023]", "[inf, -inf, nan, 1e30] -> [inf, nan, nan, 1e30]"));

MR_OP(_GeluTanhGrad,
    SHARED("gradients times the derivative of _GeluTanh"),
    .sig      = "gradients: T, features: T -> backprops: T",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_tanh_grad, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[1, 2, 1], [0, 1, -2] -> [0.5, 2.16592815, -0.0860992]", "[1], [1e20] -> [nan]"));

MR_OP(_GeluTanhGuardedGrad,
    SHARED("_GeluTanhGrad of a cube by Pow, whose gradient is 0 where that of its result is"),
    .sig      = "gradients: T, features: T -> backprops: T",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_tanh_guarded_grad, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[1, 2, 1], [0, 1, -2] -> [0.5, 2.16592815, -0.0860992]", "[1], [1e20] -> [1]"));

MR_OP(_GeluErf,
    SHARED("x (1 + erf(x / sqrt(2))) / 2"),
    .sig      = "features: T -> activations: T",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_erf, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[0, 1, -2] -> [0, 0.8413447, -0.0455003]", "[inf, -inf, nan] -> [inf, nan, nan]"));

MR_OP(_GeluErfGrad,
    SHARED("gradients times the derivative of _GeluErf"),
    .sig      = "gradients: T, features: T -> backprops: T",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_erf_grad, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[1, 2, 1], [0, 1, -2] -> [0.5, 2.1666308, -0.0852319]"));

MR_OP(_GeluSigmoid,
    SHARED("x sigmoid(1.702 x)"),
    .sig      = "features: T -> activations: T",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_sigmoid, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[0, 1, -2] -> [0, 0.8457958, -0.0643414]", "[inf, -inf, nan] -> [inf, nan, nan]"));

MR_OP(_GeluSigmoidGrad,
    SHARED("gradients times the derivative of _GeluSigmoid"),
    .sig      = "gradients: T, features: T -> backprops: T",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gelu_sigmoid_grad, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[1, 2], [0, 1] -> [0.5, 2.1355592]"));

MR_OP(_Swish,
    SHARED("x sigmoid(x)"),
    .sig      = "features: T -> activations: T",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(swish, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[0, 1, -2] -> [0, 0.7310586, -0.2384058]", "[inf, -inf, nan] -> [inf, nan, nan]"));

MR_OP(_SwishGrad,
    SHARED("gradients times the derivative of _Swish"),
    .sig      = "gradients: T, features: T -> backprops: T",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(swish_grad, MR_TYPE_FLOAT)),
    .examples = MR_EXAMPLES("[1, 2], [0, 1] -> [0.5, 1.8553410]"));
