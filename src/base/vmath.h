/* base/vmath.h -- exp, log, tanh and similar functions on floats, at the speed of vector registers.
 *
 * Two forms.  mr_expf and so on compute one element without a branch: a loop that calls them is
 * vectorised by the compiler, so element-wise kernels inline them into their own loops (under
 * MR_CLONES, see base/simd.h).  mr_vexp_f and so on are such loops over arrays, compiled for each
 * generation of CPUs; x and y may be the same array but not overlap otherwise.
 *
 * Every result is within 4 ulp of the true value (most within 1.5; the table in vmath_test.c),
 * denormal results and arguments included unless the thread flushes them.  NaN gives NaN;
 * infinities, zeros and their signs come out as C's functions give them.  No fused multiply-add is
 * used, so all CPUs agree bit by bit.
 *
 * How: an argument is reduced to a small interval, where a minimax polynomial (found with Remez'
 * algorithm for the weight named beside it) is good to a fraction of an ulp.  Rounding to an
 * integer is done by adding 1.5 * 2^23, which leaves the integer in the low bits of the sum: it
 * needs no instruction that the baseline lacks. */
#ifndef MR_BASE_VMATH_H
#define MR_BASE_VMATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/simd.h"

/* ---- arrays ---- */

void mr_vexp_f(int64_t n, const float *x, float *y);
void mr_vexpm1_f(int64_t n, const float *x, float *y);
void mr_vlog_f(int64_t n, const float *x, float *y);
void mr_vlog1p_f(int64_t n, const float *x, float *y);
void mr_vtanh_f(int64_t n, const float *x, float *y);
void mr_vsigmoid_f(int64_t n, const float *x, float *y);
void mr_vsoftplus_f(int64_t n, const float *x, float *y); /* log(1 + exp(x)) */
void mr_verf_f(int64_t n, const float *x, float *y);
void mr_vsin_f(int64_t n, const float *x, float *y);
void mr_vcos_f(int64_t n, const float *x, float *y);
void mr_vpow_f(int64_t n, const float *x, const float *y, float *z); /* x to the power y */
void mr_vatan_f(int64_t n, const float *x, float *y);
void mr_vatan2_f(int64_t n, const float *y, const float *x, float *z); /* the angle of the point (x, y) */
void mr_vlgamma_f(int64_t n, const float *x, float *y);                /* log |Gamma(x)| */
/* Remainders of x / y, exact: fmod has the sign of x; floor_mod is fmod, plus y where the signs differ. */
void mr_vfmod_f(int64_t n, const float *x, const float *y, float *z);
void mr_vfmod_d(int64_t n, const double *x, const double *y, double *z);
void mr_vfloor_mod_f(int64_t n, const float *x, const float *y, float *z);
void mr_vfloor_mod_d(int64_t n, const double *x, const double *y, double *z);

/* ---- one element ---- */

MR_INLINE uint32_t mr_float_bits(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, 4);
    return u;
}

MR_INLINE float mr_float_of_bits(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, 4);
    return x;
}

/* Arguments from which functions are 0, 1 or infinity. They are variables in another file, so that
 * the compiler does not see constants: with a constant it handles that value as a separate case,
 * and one minimum becomes half a dozen compares and blends. */
extern const struct mr_vmath_limits {
    float exp_low, exp_high, expm1_low, tanh_high, erf_high;
    float one;
} mr_vmath_limits;

/* x as the processor reads it: where the thread flushes denormals, a denormal becomes 0.  For the
 * arguments of libm's log and pow: those scale a denormal up by a product, which is 0 then, and
 * answer as if x were the least denormal.  The compiler would drop a plain product with 1. */
#define MR_AS_READ(x) ((x) * mr_vmath_limits.one)

/* Both keep a NaN. */
MR_INLINE float mr_at_most(float x, float top) { return x > top ? top : x; }
MR_INLINE float mr_at_least(float x, float bottom) { return x < bottom ? bottom : x; }

#define MR_ROUNDER 12582912.0f /* 1.5 * 2^23 */
#define MR_LOG2_E 1.44269504f
#define MR_LN2 0.693147181f
#define MR_LN2_HIGH 0.693359375f   /* 10 bits: times an exponent it is exact */
#define MR_LN2_LOW -2.12194440e-4f /* ln 2 - MR_LN2_HIGH */

/* Polynomials by Estrin's scheme, given x and x^2: Horner's chain would leave the CPU waiting. */
#define MR_POLY4(x, xx, c0, c1, c2, c3) (((c0) + (c1) * (x)) + ((c2) + (c3) * (x)) * (xx))
#define MR_POLY5(x, xx, c0, c1, c2, c3, c4) \
    (((c0) + (c1) * (x)) + (((c2) + (c3) * (x)) + (c4) * (xx)) * (xx))
#define MR_POLY7(x, xx, c0, c1, c2, c3, c4, c5, c6) \
    (MR_POLY4(x, xx, c0, c1, c2, c3) + (((c4) + (c5) * (x)) + (c6) * (xx)) * ((xx) * (xx)))
#define MR_POLY8(x, xx, c0, c1, c2, c3, c4, c5, c6, c7) \
    (MR_POLY4(x, xx, c0, c1, c2, c3) + MR_POLY4(x, xx, c4, c5, c6, c7) * ((xx) * (xx)))

/* 2^n for -126 <= n <= 127; n in two's complement. */
MR_INLINE float mr_exp2_int(uint32_t n) { return mr_float_of_bits((n + 127) << 23); }

/* expm1(r) for |r| <= ln 2 / 2. */
MR_INLINE float mr_expm1_near_0(float r)
{
    float rr = r * r;
    /* (expm1(r) - r) / r^2, weight |r| */
    float p = MR_POLY5(r, rr, 5.00000006e-1f, 1.66665418e-1f, 4.16662785e-2f, 8.36674301e-3f,
                       1.39467243e-3f);
    return r + rr * p;
}

/* exp(x) = 2^n (1 + q): returns q and sets n.  |x| up to a few hundred. */
MR_INLINE float mr_exp_parts(float x, uint32_t *n)
{
    float t = x * MR_LOG2_E + MR_ROUNDER, nf = t - MR_ROUNDER;
    *n = mr_float_bits(t) - mr_float_bits(MR_ROUNDER);
    return mr_expm1_near_0(x - nf * MR_LN2_HIGH - nf * MR_LN2_LOW);
}

/* exp within the limits, where it is neither 0 nor infinite for sure. */
MR_INLINE float mr_exp_inner(float x)
{
    uint32_t n;
    float q = mr_exp_parts(x, &n);
    /* 2^n alone may be denormal or too large; in two steps only the last one rounds. */
    uint32_t half = (uint32_t)((int32_t)n >> 1);
    return (1.0f + q) * mr_exp2_int(half) * mr_exp2_int(n - half);
}

MR_INLINE float mr_expf(float x)
{
    x = mr_at_least(x, mr_vmath_limits.exp_low);
    return mr_exp_inner(mr_at_most(x, mr_vmath_limits.exp_high));
}

/* exp(-|x|), which cannot overflow. */
MR_INLINE float mr_exp_minus_abs(float x)
{
    return mr_exp_inner(mr_at_least(-fabsf(x), mr_vmath_limits.exp_low));
}

MR_INLINE float mr_expm1f(float x)
{
    uint32_t n;
    float a = mr_at_most(mr_at_least(x, mr_vmath_limits.expm1_low), mr_vmath_limits.exp_high);
    float q = mr_exp_parts(a, &n);
    float s = mr_exp2_int(n - 1); /* half of 2^n, which is out of range for the largest x */
    float y = (s * q + (s - 0.5f)) * 2.0f;
    return fabsf(x) < 0x1p-25f ? x : y; /* keeps the sign of zero and the last bit of denormals */
}

/* 1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)). */
MR_INLINE float mr_sigmoidf(float x)
{
    float e = mr_exp_minus_abs(x);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* t / (t + 2) with t = expm1(2 |x|), which loses nothing near 0.  The larger t, the less its error
 * counts, so ln 2 in one float is good enough here. */
MR_INLINE float mr_tanhf(float x)
{
    float b = 2.0f * mr_at_most(fabsf(x), mr_vmath_limits.tanh_high);
    float r = b * MR_LOG2_E + MR_ROUNDER;
    float s = mr_exp2_int(mr_float_bits(r) - mr_float_bits(MR_ROUNDER));
    float q = mr_expm1_near_0(b - (r - MR_ROUNDER) * MR_LN2);
    float t = s * q + (s - 1.0f);
    return copysignf(t / (t + 2.0f), x);
}

/* log(m 2^k) + c for the float with these bits, normal and positive; c is a small correction. */
MR_INLINE float mr_log_bits(uint32_t bits, float k_bias, float c)
{
    uint32_t off = bits - 0x3f2aaaab; /* those of 2/3: m is in [2/3, 4/3), and log 1 has k = 0 */
    float k = (float)((int32_t)off >> 23) + k_bias;
    float f = mr_float_of_bits(bits - (off & 0xff800000)) - 1.0f;
    float ff = f * f;
    /* (log1p(f) - f + f^2 / 2) / f^3, weight f^2 */
    float p = MR_POLY8(f, ff, 3.33332290e-1f, -2.49996951e-1f, 2.00098043e-1f, -1.66852422e-1f,
                       1.40142611e-1f, -1.21176501e-1f, 1.39480370e-1f, -1.31824757e-1f);
    float low = f * ff * p + (k * MR_LN2_LOW + c);
    return k * MR_LN2_HIGH + (f - (0.5f * ff - low));
}

MR_INLINE float mr_logf(float x)
{
    float scaled = x < FLT_MIN ? x * 0x1p23f : x;
    float y = mr_log_bits(mr_float_bits(scaled), x < FLT_MIN ? -23.0f : 0.0f, 0.0f);
    float special = x == 0.0f ? -INFINITY : x < 0.0f ? NAN : x;
    return x > 0.0f && x <= FLT_MAX ? y : special;
}

/* log1p for -1 < x < infinity: a correction restores what 1 + x rounds away. */
MR_INLINE float mr_log1p_inner(float x)
{
    float u = 1.0f + x;
    return mr_log_bits(mr_float_bits(u), 0.0f, (x - (u - 1.0f)) / u);
}

MR_INLINE float mr_log1pf(float x)
{
    float y = mr_log1p_inner(x);
    y = fabsf(x) < 0x1p-25f ? x : y; /* keeps the sign of zero */
    float special = x == -1.0f ? -INFINITY : x < -1.0f ? NAN : x;
    return x > -1.0f && x <= FLT_MAX ? y : special;
}

MR_INLINE float mr_softplusf(float x)
{
    return mr_at_least(x, 0.0f) + mr_log1p_inner(mr_exp_minus_abs(x));
}

/* A polynomial in x^2 up to 1, then 1 - erfc, whose logarithm is smooth. */
MR_INLINE float mr_erff(float x)
{
    float a = mr_at_most(fabsf(x), mr_vmath_limits.erf_high);
    float z = x * x, zz = z * z, aa = a * a;
    /* erf(x) / x - 1 over x^2, weight x / erf(x) */
    float p = MR_POLY7(z, zz, 1.28379166e-1f, -3.76126258e-1f, 1.12835851e-1f, -2.68538119e-2f,
                       5.18832770e-3f, -8.01019376e-4f, 7.85386176e-5f);
    /* -log(erfc(a)) / a, weight a erfc(a) / erf(a) */
    float g = MR_POLY7(a, aa, 1.12869433f, 6.34969540e-1f, 1.06530851e-1f, -2.40100559e-2f,
                       3.75747075e-3f, -3.50590524e-4f, 1.39622910e-5f);
    float far = copysignf(1.0f - mr_exp_inner(-a * g), x);
    return a < 1.0f ? x + x * p : far;
}

#endif
