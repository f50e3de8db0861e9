/* base/vmath_test.c -- every function against the C library in double, over all of float's range.
 *
 * Every 997th bit pattern is tried: denormals, infinities and NaNs among them.  MILLRACE_STRIDE=1
 * tries all four thousand million (some minutes a function). */
#include "base/vmath.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

#define CHUNK 4096

/* The distance of two neighbouring floats near t. */
static double ulp_at(double t)
{
    int e;
    if (fabs(t) < (double)FLT_MIN)
        return 0x1p-149;
    frexp(t, &e);
    return ldexp(1, e - 24);
}

/* How far y is from the exact t, in ulp; infinite when one of NaN, infinity or the sign of 0 is
 * wrong. */
static double error_of(float y, double t)
{
    float nearest = (float)t;
    if (isnan(nearest) || isnan(y))
        return isnan(nearest) && isnan(y) ? 0 : INFINITY;
    if (isinf(nearest) && !isinf(y)) /* the last float before infinity is one ulp away */
        return fabsf(y) == FLT_MAX && signbit(y) == signbit(nearest) ? 1 : INFINITY;
    if (isinf(y))
        return y == nearest ? 0 : INFINITY;
    if (nearest == 0 && y == 0 && signbit(nearest) != signbit(y))
        return INFINITY;
    return fabs((double)y - t) / ulp_at(t);
}

typedef void array_fn(int64_t n, const float *x, float *y);

static uint32_t stride(void)
{
    const char *s = getenv("MILLRACE_STRIDE");
    return s ? (uint32_t)MR_MAX(strtoul(s, NULL, 10), 1) : 997;
}

/* Fills x with the next bit patterns; 0 when all have been. */
static int next_chunk(uint64_t *bits, uint32_t step, float *x)
{
    int n = 0;
    for (; n < CHUNK && *bits <= UINT32_MAX; *bits += step)
        x[n++] = mr_float_of_bits((uint32_t)*bits);
    return n;
}

static void check_chunk(int n, const float *x, array_fn *fn, double (*exact)(double),
                        double most_ulp)
{
    static float y[CHUNK];
    fn(n, x, y);
    for (int i = 0; i < n; i++) {
        double e = error_of(y[i], exact((double)x[i]));
        if (!(e <= most_ulp))
            mr_test_fail(__FILE__, __LINE__, "at %a: %a, expected %a (%g ulp)", (double)x[i],
                         (double)y[i], exact((double)x[i]), e);
    }
}

static void check(array_fn *fn, double (*exact)(double), double most_ulp)
{
    static const float special[] = {0,        -0.0f,   1e-45f,   -1e-45f,   FLT_MIN,
                                    -FLT_MIN, FLT_MAX, -FLT_MAX, 1,         -1,
                                    2,        -2,      INFINITY, -INFINITY, NAN};
    static float x[CHUNK];
    uint64_t bits = 0;
    mr_test_deadline(stride() < 997 ? 3600 : 60);
    check_chunk(MR_COUNT(special), special, fn, exact, most_ulp);
    for (int n; (n = next_chunk(&bits, stride(), x));)
        check_chunk(n, x, fn, exact, most_ulp);
}

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double softplus(double x) { return x < 0 ? log1p(exp(x)) : x + log1p(exp(-x)); }

/* The worst over all floats, rounded up. */
MR_TEST(vmath_exp_is_within_1_1_ulp) { check(mr_vexp_f, exp, 1.1); }
MR_TEST(vmath_expm1_is_within_1_9_ulp) { check(mr_vexpm1_f, expm1, 1.9); }
MR_TEST(vmath_log_is_within_0_9_ulp) { check(mr_vlog_f, log, 0.9); }
MR_TEST(vmath_log1p_is_within_0_9_ulp) { check(mr_vlog1p_f, log1p, 0.9); }
MR_TEST(vmath_tanh_is_within_2_6_ulp) { check(mr_vtanh_f, tanh, 2.6); }
MR_TEST(vmath_sigmoid_is_within_2_5_ulp) { check(mr_vsigmoid_f, sigmoid, 2.5); }
MR_TEST(vmath_softplus_is_within_1_8_ulp) { check(mr_vsoftplus_f, softplus, 1.8); }
MR_TEST(vmath_erf_is_within_1_4_ulp) { check(mr_verf_f, erf, 1.4); }
MR_TEST(vmath_sin_is_within_1_6_ulp) { check(mr_vsin_f, sin, 1.6); }
MR_TEST(vmath_cos_is_within_1_6_ulp) { check(mr_vcos_f, cos, 1.6); }

static double lgamma_exact(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

MR_TEST(vmath_atan_is_within_0_51_ulp) { check(mr_vatan_f, atan, 0.51); }
MR_TEST(vmath_lgamma_is_within_0_6_ulp) { check(mr_vlgamma_f, lgamma_exact, 0.6); }

/* Where lgamma has its zeros, and between the poles. */
MR_TEST(vmath_lgamma_is_accurate_at_its_zeros)
{
    static const float zeros[] = {1, 2, -2.4570247f, -2.7476826f, -3.1435808f, -3.955294f, -4.0393615f, -5.0082182f};
    for (int i = 0; i < MR_COUNT(zeros); i++)
        for (int k = -2000; k <= 2000; k++) {
            float x = mr_float_of_bits(mr_float_bits(zeros[i]) + (uint32_t)k);
            check_chunk(1, &x, mr_vlgamma_f, lgamma_exact, 0.6);
        }
    for (int i = 1; i < 1000000; i++) {
        float x = (float)i * -0x1p-15f;
        check_chunk(1, &x, mr_vlgamma_f, lgamma_exact, 0.6);
    }
}

static void check_atan2(float y, float x)
{
    float z;
    mr_vatan2_f(1, &y, &x, &z);
    double t = atan2((double)y, (double)x), e = error_of(z, t);
    if (!(e <= 0.51))
        mr_test_fail(__FILE__, __LINE__, "atan2(%a, %a) is %a, expected %a (%g ulp)", (double)y, (double)x, (double)z, t, e);
}

MR_TEST(vmath_atan2_is_within_0_51_ulp)
{
    static const float special[] = {0, -0.0f, 1, -1, 1e-45f, -1e-45f, FLT_MIN, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < MR_COUNT(special); i++)
        for (int k = 0; k < MR_COUNT(special); k++)
            check_atan2(special[i], special[k]);
    for (int i = 0; i < 1000000; i++) {
        float y = mr_float_of_bits((uint32_t)mr_test_random()), ratio = (float)(mr_test_random() >> 40) * 0x1p-20f;
        check_atan2(y, i % 2 ? mr_float_of_bits((uint32_t)mr_test_random()) : y * (i % 4 ? ratio : -ratio));
    }
}

/* ---- pow ---- */

static void check_pow(float x, float y)
{
    float z;
    mr_vpow_f(1, &x, &y, &z);
    double t = pow((double)x, (double)y), e = error_of(z, t);
    if (!(e <= 0.51))
        mr_test_fail(__FILE__, __LINE__, "pow(%a, %a) is %a, expected %a (%g ulp)", (double)x,
                     (double)y, (double)z, t, e);
}

MR_TEST(vmath_pow_is_within_0_51_ulp)
{
    for (int i = 0; i < 1000000; i++) { /* any x; y such that most results are finite */
        float x = mr_float_of_bits((uint32_t)mr_test_random());
        float t = (float)((double)(int64_t)mr_test_random() * 0x1p-63) * 160;
        check_pow(x, fabsf(x) > 0 && fabsf(x) < INFINITY && x != 1 ? t / log2f(fabsf(x)) : t);
    }
}

MR_TEST(vmath_pow_of_special_values_is_that_of_c)
{
    /* clang-format off */
    static const float values[] = {
        0, -0.0f, 1, -1, 2, -2, 3, -3, 0.5f, -0.5f, 2.5f, FLT_MIN, FLT_MAX, 1e-40f, -1e-40f,
        INFINITY, -INFINITY, NAN, 0x1p24f, -0x1p24f, 0x1.fp127f, 0x1.fffffep-1f, 0x1.000002p0f};
    /* clang-format on */
    for (int i = 0; i < MR_COUNT(values); i++)
        for (int j = 0; j < MR_COUNT(values); j++)
            check_pow(values[i], values[j]);
}

MR_TEST(vmath_pow_mixes_rare_and_plain_elements)
{
    float x[1000], y[1000];
    for (int i = 0; i < 1000; i++) {
        x[i] = i % 7 ? (float)i : (float)-i;
        y[i] = (float)(i % 5);
    }
    mr_vpow_f(1000, x, y, x); /* in place */
    for (int i = 0; i < 1000; i++)
        MR_CHECK(error_of(x[i], pow(i % 7 ? i : -i, i % 5)) <= 0.51);
}

MR_TEST(vmath_pow_of_negative_numbers_has_the_sign_of_c)
{
    for (int i = 0; i < 200000; i++) {
        float x = -(float)(mr_test_random() >> 40) * 0x1p-20f, y = (float)(int)(mr_test_random() % 61) - 30;
        check_pow(x, i % 5 ? y : y * 0.5f);
    }
}

/* ---- remainders ---- */

static float floor_mod_f(float x, float y)
{
    float m = fmodf(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

static double floor_mod_d(double x, double y)
{
    double m = fmod(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void check_remainders(float x, float y)
{
    float m, f;
    mr_vfmod_f(1, &x, &y, &m);
    mr_vfloor_mod_f(1, &x, &y, &f);
    if (!same_bits((double)m, (double)fmodf(x, y)) || !same_bits((double)f, (double)floor_mod_f(x, y)))
        mr_test_fail(__FILE__, __LINE__, "%a mod %a: %a and %a", (double)x, (double)y, (double)m, (double)f);
}

static void check_remainders_d(double x, double y)
{
    double m, f;
    mr_vfmod_d(1, &x, &y, &m);
    mr_vfloor_mod_d(1, &x, &y, &f);
    if (!same_bits(m, fmod(x, y)) || !same_bits(f, floor_mod_d(x, y)))
        mr_test_fail(__FILE__, __LINE__, "%a mod %a: %a and %a", x, y, m, f);
}

static double any_double(void)
{
    uint64_t bits = mr_test_random();
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

MR_TEST(vmath_remainders_are_exact)
{
    static const float special[] = {0, -0.0f, 1, -1, 3, -3, 0.7f, 1e-45f, -1e-45f, FLT_MIN, FLT_MAX, -FLT_MAX,
                                    0x1p28f, 0x1p27f, 0x1.fffffep27f, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < MR_COUNT(special); i++)
        for (int k = 0; k < MR_COUNT(special); k++) {
            check_remainders(special[i], special[k]);
            check_remainders_d((double)special[i], (double)special[k]);
        }
    check_remainders_d(DBL_MAX, 0x1p-1074);
    check_remainders_d(0x1p1000, 0x1.8p960);
    check_remainders_d(-0x1.fffffffffffffp49, 1);
    for (int i = 0; i < 300000; i++) {
        float x = mr_float_of_bits((uint32_t)mr_test_random());
        int scale = (int)(mr_test_random() % 32) - 2;
        float y = x * (1 + (float)(mr_test_random() >> 41) * 0x1p-23f) * ldexpf(1, -scale);
        check_remainders(x, i % 2 ? y : -y);
        check_remainders(x * 3, x); /* a whole quotient, or nearly */
        double a = any_double(), b = a * (1 + (double)(mr_test_random() >> 12) * 0x1p-52) * ldexp(1, -2 * scale);
        check_remainders_d(a, i % 2 ? b : -b);
        check_remainders_d(a * 3, a);
    }
}

/* ---- denormal arguments where the thread flushes them ---- */

MR_TEST(vmath_pow_reads_a_denormal_as_0_where_denormals_are_flushed)
{
    float x[] = {1e-39f, 1e-39f, -1e-39f}, y[] = {-0.05f, 0.05f, 1e-39f}, z[3];
    mr_fp_mode mode = mr_denormals_flush();
    bool flushes = MR_AS_READ(x[0]) == 0; /* not on every processor */
    mr_vpow_f(3, x, y, z);
    mr_denormals_restore(mode);
    MR_CHECK(!flushes || (z[0] == INFINITY && z[1] == 0 && z[2] == 1));
}

MR_TEST(vmath_log_of_a_denormal_as_read_is_that_of_0)
{
    volatile double x = 2e-310;
    mr_fp_mode mode = mr_denormals_flush();
    bool flushes = x * mr_vmath_limits.one == 0;
    double y = log(MR_AS_READ(x));
    mr_denormals_restore(mode);
    MR_CHECK(!flushes || y == -INFINITY);
}

/* ---- the CPU's variants ---- */

/* The same inline functions in loops compiled for the baseline, as this file is. */
static void base_exp(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_expf(x[i]);
}

static void base_log1p(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_log1pf(x[i]);
}

static void base_tanh(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_tanhf(x[i]);
}

static void base_erf(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_erff(x[i]);
}

static void check_same(array_fn *a, array_fn *b)
{
    static float x[CHUNK], ya[CHUNK], yb[CHUNK];
    uint64_t bits = 0;
    for (int n; (n = next_chunk(&bits, stride(), x));) {
        a(n, x, ya);
        b(n, x, yb);
        for (int i = 0; i < n; i++)
            if (mr_float_bits(ya[i]) != mr_float_bits(yb[i]) && !(isnan(ya[i]) && isnan(yb[i])))
                mr_test_fail(__FILE__, __LINE__, "at %a: %a and %a", (double)x[i], (double)ya[i],
                             (double)yb[i]);
    }
}

MR_TEST(vmath_gives_the_same_bits_on_every_cpu)
{
    check_same(mr_vexp_f, base_exp);
    check_same(mr_vlog1p_f, base_log1p);
    check_same(mr_vtanh_f, base_tanh);
    check_same(mr_verf_f, base_erf);
}

MR_TEST(vmath_works_in_place_and_for_every_length)
{
    float x[70], y[71];
    for (int i = 0; i < 70; i++)
        x[i] = (float)i * 0.1f;
    for (int n = 0; n <= 70; n++) {
        memcpy(y, x, sizeof(x));
        y[n] = 77;
        mr_vtanh_f(n, y, y);
        for (int i = 0; i < n; i++)
            MR_CHECK(y[i] == mr_tanhf(x[i]));
        MR_CHECK(y[n] == 77);
    }
}
