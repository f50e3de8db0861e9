/* base/vmath.c -- the loops over arrays, and the functions that need double or rare exceptions.
 *
 * sin, cos and pow are computed in blocks: all elements in one vectorised pass that also counts the
 * arguments it is not made for (huge angles, infinities), then those few once more by the C library. */
#include "base/vmath.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

#define UNARY(name, one)                                     \
    MR_CLONES void name(int64_t n, const float *x, float *y) \
    {                                                        \
        MR_IVDEP                                             \
        for (int64_t i = 0; i < n; i++)                      \
            y[i] = one(x[i]);                                \
    }

UNARY(mr_vexp_f, mr_expf)
UNARY(mr_vexpm1_f, mr_expm1f)
UNARY(mr_vlog_f, mr_logf)
UNARY(mr_vlog1p_f, mr_log1pf)
UNARY(mr_vtanh_f, mr_tanhf)
UNARY(mr_vsigmoid_f, mr_sigmoidf)
UNARY(mr_vsoftplus_f, mr_softplusf)
UNARY(mr_verf_f, mr_erff)

#define BLOCK 256

MR_INLINE uint64_t double_bits(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, 8);
    return u;
}

MR_INLINE double double_of_bits(uint64_t u)
{
    double x;
    __builtin_memcpy(&x, &u, 8);
    return x;
}

#define ROUNDER_D 6755399441055744.0 /* 1.5 * 2^52 */

/* ---- sin, cos ---- */

/* Up to here the quarter turns fit 20 bits, so that their product with the 33 bits of PI_2_HIGH is
 * exact: about 2^-66 is lost, while no float lies nearer than 2^-32 to a multiple of pi / 2. */
#define ANGLE_MAX 1e6f
#define PI_2_HIGH 1.5707963267341256142
#define PI_2_LOW 6.0771005065061922493e-11

/* sin(x + quarter turns), |x| <= ANGLE_MAX. */
MR_INLINE float sin_turned(float x, uint32_t turns)
{
    double t = (double)x * 0.63661977236758138243 + ROUNDER_D;
    double n = t - ROUNDER_D;
    uint32_t quadrant = (uint32_t)double_bits(t) + turns;
    float r = (float)((double)x - n * PI_2_HIGH - n * PI_2_LOW); /* |r| <= pi / 4 */
    float z = r * r;
    float s = -1.95172641e-4f; /* (sin(r) / r - 1) / r^2, weight r^2 */
    s = s * z + 8.33217796e-3f;
    s = s * z - 1.66666549e-1f;
    s = copysignf(r + r * z * s, r); /* -0 + 0 would lose the sign */
    float c = 2.44384811e-5f; /* (cos(r) - 1 + r^2 / 2) / r^4, weight r^4 */
    c = c * z - 1.38873679e-3f;
    c = c * z + 4.16666469e-2f;
    c = 1.0f - (0.5f * z - z * z * c);
    float y = quadrant & 1 ? c : s;
    return mr_float_of_bits(mr_float_bits(y) ^ (quadrant & 2) << 30);
}

/* The block's values; returns how many arguments were too large, infinite or NaN. */
MR_CLONES static int sin_block(int n, const float *x, float *y, uint32_t turns)
{
    int n_rare = 0;
    for (int i = 0; i < n; i++) {
        y[i] = sin_turned(x[i], turns);
        n_rare += !(fabsf(x[i]) <= ANGLE_MAX);
    }
    return n_rare;
}

static void sin_all(int64_t n, const float *x, float *y, uint32_t turns)
{
    float out[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int m = (int)MR_MIN(n - at, BLOCK);
        if (sin_block(m, x + at, out, turns))
            for (int i = 0; i < m; i++)
                if (!(fabsf(x[at + i]) <= ANGLE_MAX))
                    out[i] = turns ? cosf(x[at + i]) : sinf(x[at + i]);
        memcpy(y + at, out, (size_t)m * sizeof(float));
    }
}

void mr_vsin_f(int64_t n, const float *x, float *y) { sin_all(n, x, y, 0); }

void mr_vcos_f(int64_t n, const float *x, float *y) { sin_all(n, x, y, 1); }

/* ---- pow ---- */

/* log2 of a positive normal double, to 2^-45. */
MR_INLINE double log2_double(double x)
{
    uint64_t off = double_bits(x) - 0x3fe6a09e667f3bcdu; /* the bits of sqrt(1/2) */
    double m = double_of_bits(double_bits(x) - (off & 0xfff0000000000000u));
    /* The exponent, biased to be positive, becomes a double by way of its bits. */
    uint64_t k = (off + 0x4000000000000000u) >> 52;
    double kf = double_of_bits(k | 0x4330000000000000u) - (0x1p52 + 0x400);
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 0.28294538079511666; /* log2(m) / s over s^2, weight 1 */
    p = p * z + 0.31990269801195959;
    p = p * z + 0.41220932113617453;
    p = p * z + 0.57707794173125782;
    p = p * z + 0.96179669411534541;
    p = p * z + 2.8853900817778491;
    return kf + s * p;
}

/* 2^t to 2^-34, for a float. */
MR_INLINE double exp2_double(double t)
{
    t = t > 200.0 ? 200.0 : t;
    t = t < -200.0 ? -200.0 : t;
    double shifted = t + ROUNDER_D;
    double r = t - (shifted - ROUNDER_D);
    double p = 1.5201901100173488e-05; /* 2^r on [-1/2, 1/2], weight 2^-r */
    p = p * r + 0.000154693173625892;
    p = p * r + 0.0013333922855274696;
    p = p * r + 0.0096180271725443394;
    p = p * r + 0.055504103528334708;
    p = p * r + 0.24022651198757111;
    p = p * r + 0.69314718072871528;
    p = p * r + 0.99999999996162081;
    return p * double_of_bits((double_bits(shifted) + 1023) << 52);
}

/* Infinities and NaN: few, and with many rules of their own. */
MR_INLINE bool pow_is_rare(float x, float y)
{
    return !(fabsf(x) <= FLT_MAX) | !(fabsf(y) <= FLT_MAX);
}

/* x to the power y for finite numbers: |x|^y, with the sign and the exceptions that y decides. A float of 2^50 or more is
 * an even integer, as are all from 2^24 on. All in double: lanes of one width vectorise. */
MR_INLINE float pow_finite(float x, float y)
{
    double signed_base = (double)x, power = (double)y, a = fabs(signed_base), b = fabs(power);
    b = b < 0x1p50 ? b : 0x1p50;
    double rounded = b + ROUNDER_D, whole = rounded - ROUNDER_D;
    uint64_t odd = double_bits(rounded) & (whole == b ? 1 : 0);
    double z = exp2_double(power * log2_double(a));
    double of_zero = power < 0.0 ? (double)INFINITY : power == 0.0 ? 1.0 : 0.0;
    double of_negative = whole == b ? z : (double)NAN;
    z = signed_base < 0.0 ? of_negative : z;
    z = a == 0.0 ? of_zero : z;
    return (float)double_of_bits(double_bits(z) ^ (double_bits(signed_base) & odd << 63));
}

MR_CLONES static int pow_block(int n, const float *x, const float *y, float *z)
{
    int n_rare = 0;
    for (int i = 0; i < n; i++) {
        z[i] = pow_finite(x[i], y[i]);
        n_rare += pow_is_rare(x[i], y[i]);
    }
    return n_rare;
}

void mr_vpow_f(int64_t n, const float *x, const float *y, float *z)
{
    float out[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int m = (int)MR_MIN(n - at, BLOCK);
        if (pow_block(m, x + at, y + at, out))
            for (int i = 0; i < m; i++)
                if (pow_is_rare(x[at + i], y[at + i]))
                    out[i] = powf(MR_AS_READ(x[at + i]), MR_AS_READ(y[at + i]));
        memcpy(z + at, out, (size_t)m * sizeof(float));
    }
}

/* ---- remainders ---- */

/* The quotient is rounded to an integer by the adding of ROUNDER_D, so that the remainder is between -|y| / 2 and |y| / 2
 * and exact; where its sign is not that of x, |y| is added, which is exact too. Right for quotients below 2^28, whose
 * product with y fits a double. */
MR_INLINE float fmod_near(float x, float y)
{
    double a = (double)x, b = (double)y, q = a / b + ROUNDER_D - ROUNDER_D, r = a - q * b;
    double other = r + copysign(b, a);
    r = (r < 0.0) != (a < 0.0) && r != 0.0 ? other : r;
    return copysignf((float)r, x);
}

MR_INLINE bool fmod_is_rare(float x, float y)
{
    return !(fabs((double)x / (double)y) < 0x1p28) | !(fabsf(y) <= FLT_MAX);
}

/* The same for doubles: the product is computed in two parts (Dekker), whose sum is exact for quotients below 2^50 and
 * numbers far from overflow and underflow. */
MR_INLINE double fmod_near_d(double x, double y)
{
    double q = x / y + ROUNDER_D - ROUNDER_D, p = q * y;
    double qt = q * 134217729.0, q_high = qt - (qt - q), q_low = q - q_high;
    double yt = y * 134217729.0, y_high = yt - (yt - y), y_low = y - y_high;
    double rest = ((q_high * y_high - p) + q_high * y_low + q_low * y_high) + q_low * y_low;
    double r = (x - p) - rest, other = r + copysign(y, x);
    r = (r < 0.0) != (x < 0.0) && r != 0.0 ? other : r;
    return copysign(r, x);
}

MR_INLINE bool fmod_is_rare_d(double x, double y)
{
    return !(fabs(x / y) < 0x1p50) | !(fabs(y) < 0x1p900) | !(fabs(y) > 0x1p-900);
}

/* FloorMod's remainder from C's: with the sign of y. */
#define WITH_SIGN_OF(y, m) ((m) != 0 && ((m) < 0) != ((y) < 0) ? (m) + (y) : (m))

/* Defines the loop over arrays: blocks, in which the rare elements are computed once more by `exact`. */
#define REMAINDERS(name, T, near, is_rare, exact)                                     \
    MR_CLONES static int name##_block(int n, const T *x, const T *y, T *z)            \
    {                                                                                 \
        int n_rare = 0;                                                               \
        for (int i = 0; i < n; i++) {                                                 \
            z[i] = near(x[i], y[i]);                                                  \
            n_rare += is_rare(x[i], y[i]);                                            \
        }                                                                             \
        return n_rare;                                                                \
    }                                                                                 \
    void name(int64_t n, const T *x, const T *y, T *z)                                \
    {                                                                                 \
        T out[BLOCK];                                                                 \
        for (int64_t at = 0; at < n; at += BLOCK) {                                   \
            int m = (int)MR_MIN(n - at, BLOCK);                                       \
            if (name##_block(m, x + at, y + at, out))                                 \
                for (int i = 0; i < m; i++)                                           \
                    if (is_rare(x[at + i], y[at + i]))                                \
                        out[i] = exact(x[at + i], y[at + i]);                         \
            memcpy(z + at, out, (size_t)m * sizeof(T));                               \
        }                                                                             \
    }

MR_INLINE float floor_mod_near(float x, float y)
{
    float m = fmod_near(x, y);
    return WITH_SIGN_OF(y, m);
}
MR_INLINE double floor_mod_near_d(double x, double y)
{
    double m = fmod_near_d(x, y);
    return WITH_SIGN_OF(y, m);
}
static float floor_mod_exact(float x, float y)
{
    float m = fmodf(x, y);
    return WITH_SIGN_OF(y, m);
}
static double floor_mod_exact_d(double x, double y)
{
    double m = fmod(x, y);
    return WITH_SIGN_OF(y, m);
}

REMAINDERS(mr_vfmod_f, float, fmod_near, fmod_is_rare, fmodf)
REMAINDERS(mr_vfmod_d, double, fmod_near_d, fmod_is_rare_d, fmod)
REMAINDERS(mr_vfloor_mod_f, float, floor_mod_near, fmod_is_rare, floor_mod_exact)
REMAINDERS(mr_vfloor_mod_d, double, floor_mod_near_d, fmod_is_rare_d, floor_mod_exact_d)

/* ---- angles ---- */

/* The angle of the point (x, y), in double. Infinities become large numbers first, so that two of them have a quotient. */
MR_INLINE float angle_of(float y, float x)
{
    double a = fabs((double)y), b = fabs((double)x);
    a = a > 0x1p400 ? 0x1p400 : a;
    b = b > 0x1p400 ? 0x1p400 : b;
    double low = a > b ? b : a, high = a > b ? a : b;
    double t = low / (high == 0.0 ? 1.0 : high), z = t * t;
    double p = 0.000605766248911311; /* (atan(t) / t - 1) / t^2 for t <= 1, to 2^-32 */
    p = p * z - 0.0042915469434986085;
    p = p * z + 0.014238533311945559;
    p = p * z - 0.030134516372032655;
    p = p * z + 0.04747812135257944;
    p = p * z - 0.06256025127145043;
    p = p * z + 0.07589931833418137;
    p = p * z - 0.09074234105542511;
    p = p * z + 0.1110947245486438;
    p = p * z - 0.14285629367823932;
    p = p * z + 0.19999998222329604;
    p = p * z - 0.3333333332622699;
    double r = t + t * z * p;
    r = a > b ? 1.5707963267948966 - r : r;
    r = copysign(1.0, (double)x) < 0.0 ? 3.141592653589793 - r : r;
    return (float)copysign(r, (double)y);
}

MR_CLONES void mr_vatan2_f(int64_t n, const float *y, const float *x, float *z)
{
    MR_IVDEP
    for (int64_t i = 0; i < n; i++)
        z[i] = angle_of(y[i], x[i]);
}

MR_CLONES void mr_vatan_f(int64_t n, const float *x, float *y)
{
    MR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = angle_of(x[i], 1.0f);
}

/* ---- log |Gamma| ---- */

#define LN2_D 0.69314718055994531

/* x > 0. Below 8 x is brought to t between 1 and 2, where log Gamma(t) / ((t - 1) (t - 2)) is a polynomial: a product
 * that keeps the zeros at 1 and 2 exact. The logarithm of the factors on the way is added. From 8 on, Stirling's series. */
MR_INLINE double lgamma_positive(double x)
{
    double t = x, product = 1.0;
    _Pragma("GCC unroll 6")
    for (int k = 0; k < 6; k++) { /* a factor of 1 where t stays */
        double less = t - 1.0, factor = t > 2.0 ? less : 1.0;
        t = t > 2.0 ? less : t;
        product *= factor;
    }
    double factors = x < 1.0 ? x : product;
    double l = log2_double(x >= 8.0 ? x : factors) * LN2_D;
    t = x < 1.0 ? x + 1.0 : t;
    double u = t - 1.5, p = 0.00013292760478493404; /* to 2^-35 */
    p = p * u - 0.00024417413457308233;
    p = p * u + 0.00026920499996197585;
    p = p * u - 0.00040889780757126667;
    p = p * u + 0.0007098723070792289;
    p = p * u - 0.0011699260796916822;
    p = p * u + 0.0019233630483159291;
    p = p * u - 0.0032115241821725686;
    p = p * u + 0.005446412982768883;
    p = p * u - 0.009425650340938604;
    p = p * u + 0.016797100551594273;
    p = p * u - 0.03130848688144202;
    p = p * u + 0.06291140104547732;
    p = p * u - 0.14595989591826564;
    p = p * u + 0.48312895054105004;
    double near = (t - 1.0) * (t - 2.0) * p + (x < 1.0 ? -l : l);
    double inverse = 1.0 / x, w = inverse * inverse;
    double far = (x - 0.5) * l - x + 0.91893853320467274 +
                 inverse * (0.083333333333333333 - w * (0.0027777777777777778 - w * 0.00079365079365079365));
    return x >= 8.0 ? far : near;
}

MR_INLINE bool lgamma_is_rare(float x) { return !(fabsf(x) <= FLT_MAX); }

/* The values of |x|; counts infinities and NaN, and tells whether x may be negative. */
MR_CLONES static int lgamma_block(int n, const float *x, double *y, int *negative)
{
    int n_rare = 0, n_negative = 0;
    for (int i = 0; i < n; i++) {
        double a = fabs((double)x[i]);
        double r = lgamma_positive(a);
        y[i] = a == 0.0 ? (double)INFINITY : r;
        n_rare += lgamma_is_rare(x[i]);
        n_negative += x[i] < 0.0f;
    }
    *negative = n_negative;
    return n_rare;
}

/* log |Gamma(-a)| = log pi - log(a |sin(pi a)|) - log Gamma(a). Near its zeros the terms cancel: those are counted. */
MR_CLONES static int lgamma_reflect(int n, const float *x, double *y)
{
    int n_rare = 0;
    MR_IVDEP
    for (int i = 0; i < n; i++) {
        double signed_x = (double)x[i], positive = y[i], a = fabs(signed_x), part = a - (a + ROUNDER_D - ROUNDER_D), z = part * part;
        double s = 0.0004474948874409007; /* sin(pi part) / part, to 2^-43 */
        s = s * z - 0.007364007616384091;
        s = s * z + 0.08214479528688155;
        s = s * z - 0.5992644340174308;
        s = s * z + 2.5501640359116093;
        s = s * z - 5.16771277998806;
        s = s * z + 3.1415926535896346;
        double r = 1.1447298858494002 - log2_double(a * fabs(part * s)) * LN2_D - positive;
        r = part == 0.0 ? (double)INFINITY : r;
        y[i] = signed_x < 0.0 ? r : positive;
        n_rare += (signed_x < 0.0) & (fabs(r) < 1e-3);
    }
    return n_rare;
}

void mr_vlgamma_f(int64_t n, const float *x, float *y)
{
    double out[BLOCK];
    int sign; /* lgamma itself writes a global */
    for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK) {
        int m = (int)MR_MIN(n - at, BLOCK), negative;
        int n_rare = lgamma_block(m, x, out, &negative);
        if (negative)
            n_rare += lgamma_reflect(m, x, out);
        for (int i = 0; n_rare > 0 && i < m; i++)
            if (lgamma_is_rare(x[i]) || (x[i] < 0.0f && fabs(out[i]) < 1e-3))
                out[i] = lgamma_r((double)x[i], &sign);
        for (int i = 0; i < m; i++)
            y[i] = (float)out[i];
    }
}
