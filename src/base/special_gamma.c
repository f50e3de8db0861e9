/* base/special_gamma.c -- digamma, polygamma and Hurwitz's zeta function.
 *
 * Far from 0 asymptotic series serve; recurrences lead there.  Negative arguments are reflected.
 * Tables are Bernoulli numbers and Taylor coefficients, computed to 60 digits. */
#include "base/special.h"

#include <math.h>
#include <stdbool.h>

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

double mr_lgamma(double x)
{
    int sign; /* lgamma itself writes a global */
    return lgamma_r(x, &sign);
}

/* c[0] + c[1] x + .. */
static double eval_polynomial(const double *c, int n, double x)
{
    double sum = 0;
    for (int i = n - 1; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* ---- digamma ---- */

/* The positive zero, as a sum of two numbers, and the Taylor series around it. */
#define ROOT 1.4616321449683622
#define ROOT_REST 9.549995429965697e-17
static const double digamma_at_root[] = {
    0.9676722454476212, -0.4427631689835921, 0.258499760955651, -0.16394270544240652,
    0.10782405069126237, -0.07219956125645471, 0.04880428816414311, -0.03316112647484736,
    0.022597648232218104, -0.01542476590494896, 0.010538791616612175, -0.007204534386356869,
    0.004926781395729853, -0.003369801655439328, 0.002305126326734928, -0.0015769367714301972,
    0.0010788252019162967, -0.0007380709389960052, 0.000504953265834602, -0.0003454680251063077,
    0.00023635601564027053, -0.00016170622091974803, 0.0001106337276874741,
    -7.569179582195066e-05,
};
/* B_2k / 2k */
static const double digamma_tail[] = {
    0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667,
    0.007575757575757576, -0.021092796092796094, 0.08333333333333333, -0.4432598039215686,
};

/* x > 0 */
static double digamma_positive(double x)
{
    double t = x - ROOT - ROOT_REST, sum = 0;
    if (fabs(t) < 0.3)
        return t * eval_polynomial(digamma_at_root, COUNT(digamma_at_root), t);
    for (; x < 10; x++)
        sum -= 1 / x;
    double square = 1 / (x * x);
    return sum + log(x) - 0.5 / x -
           square * eval_polynomial(digamma_tail, COUNT(digamma_tail), square);
}

double mr_digamma(double x)
{
    if (x > 0)
        return digamma_positive(x);
    double part = x - rint(x); /* exact */
    if (part == 0 || !isfinite(x))
        return NAN;
    double cot = fabs(part) == 0.5 ? 0 : 1 / tan(M_PI * part);
    return digamma_positive(1 - x) - M_PI * cot;
}

/* ---- zeta ---- */

/* B_2k / (2k)! */
static const double bernoulli_over_factorial[] = {
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11,
    -3.3896802963225827e-13, 8.586062056277845e-15, -2.174868698558062e-16,
    5.5090028283602295e-18, -1.3954464685812522e-19,
};

/* By the first terms and Euler and Maclaurin's formula for the others; q > 0, s > 1. */
static double zeta_positive(double s, double q)
{
    double sum = 0, at = q;
    if (q > 1e8) /* three terms of the formula are all there is */
        return (1 / (s - 1) + 0.5 / q + s / (12 * q * q)) * pow(q, 1 - s);
    for (int i = 0; i < 12 || at < 10; i++, at++) {
        double term = pow(at, -s);
        sum += term;
        if (term <= 1e-17 * sum || isinf(sum)) /* NaN is returned at the end */
            return sum;
    }
    double power = pow(at, -s), factor = s, correction = 0;
    for (int k = 0; k < COUNT(bernoulli_over_factorial); k++) {
        correction += bernoulli_over_factorial[k] * factor / at;
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (at * at);
    }
    return sum + power * (at / (s - 1) + 0.5 + correction);
}

/* The terms below 0, n of them, are such a sum in themselves: that from f on, the distance of the
 * last of them from 0, less that from f + n on. */
static double zeta_negative(double s, double q)
{
    double above = q - floor(q), below = 1 - above;
    double odd = fmod(s, 2) != 0 ? -1 : 1;
    return zeta_positive(s, above) + odd * (zeta_positive(s, below) - zeta_positive(s, 1 - q));
}

double mr_zeta(double s, double q)
{
    if (isnan(s) || isnan(q) || s < 1)
        return NAN;
    if (s == 1)
        return INFINITY;
    if (isinf(q))
        return q > 0 ? 0 : NAN;
    if (q > 0)
        return isinf(s) ? (q > 1 ? 0 : q < 1 ? INFINITY : 1) : zeta_positive(s, q);
    if (q == floor(q))
        return INFINITY;
    return s == floor(s) && isfinite(s) ? zeta_negative(s, q) : NAN;
}

double mr_polygamma(double n, double x)
{
    if (n == 0)
        return mr_digamma(x);
    if (!(n > 0) || n != floor(n))
        return NAN;
    double sign = fmod(n, 2) != 0 ? 1 : -1, z = mr_zeta(n + 1, x);
    if (n <= 170)
        return sign * tgamma(n + 1) * z;
    /* the factorial alone is infinite */
    return sign * copysign(exp(mr_lgamma(n + 1) + log(fabs(z))), z);
}
