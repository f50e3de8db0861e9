/* base/special_integrals.c -- Dawson's, the exponential and Fresnel's integrals, and the
 * dilogarithm.
 *
 * Power series near 0 and asymptotic ones far away.  Between them Dawson's and Fresnel's integrals
 * are sums over equidistant points: for what falls off like exp(-t^2) the error of such a sum is
 * smaller than any power of the distance. */
#include "base/special.h"

#include <float.h>
#include <math.h>

/* ---- Dawson ---- */

/* 1 / 2x (1 + 1 / 2x^2 + 1 3 / (2x^2)^2 + ..) */
static double dawsn_far(double x)
{
    double square = 1 / (2 * x * x), term = 1, sum = 1;
    for (int k = 1; k < 40 && term > DBL_EPSILON / 8; k++) {
        term *= (2 * k - 1) * square;
        sum += term;
    }
    return sum / (2 * x);
}

/* 1 / sqrt(pi) times the sum of exp(-(x - n h)^2) / n over odd n; n and -n are taken together, so
 * that nothing cancels near 0. */
static double dawsn_sum(double x)
{
    const double h = 0.25;
    double sum = 0;
    for (int n = 1; n * h < x + 7; n += 2) {
        double away = x - n * h;
        double pair = x < 1 ? 2 * exp(-x * x - n * h * n * h) * sinh(2 * x * n * h)
                            : exp(-away * away) - exp(-(x + n * h) * (x + n * h));
        sum += pair / n;
    }
    return sum / sqrt(M_PI);
}

double mr_dawsn(double x)
{
    double size = fabs(x);
    if (isnan(x) || size < 1e-9)
        return x;
    return copysign(isinf(x) ? 0 : size > 10 ? dawsn_far(size) : dawsn_sum(size), x);
}

/* ---- exponential integral ---- */

#define EULER 0.57721566490153286061

/* gamma + log|x| + sum of x^k / (k k!) */
static double expint_near(double x)
{
    double term = 1, sum = 0;
    for (int k = 1; k < 200; k++) {
        term *= x / k;
        sum += term / k;
        if (fabs(term) <= DBL_EPSILON / 8 * fabs(sum) * k)
            break;
    }
    return EULER + log(fabs(x)) + sum;
}

/* e^x / x times the sum of k! / x^k, as far as it falls. */
static double expint_far(double x)
{
    double term = 1, sum = 1, half = exp(x / 2);
    for (int k = 1; k < x && term > DBL_EPSILON / 8; k++) {
        term *= k / x;
        sum += term;
    }
    return half * (sum / x) * half;
}

/* E_1(z) for z > 1, by its continued fraction 1 / (z + 1 - 1 / (z + 3 - 4 / (z + 5 ..))). */
static double e1(double z)
{
    double b = z + 1, c = 1e300, d = 1 / b, f = d;
    for (int k = 1; k < 500; k++) {
        double a = -(double)k * k, step;
        b += 2;
        d = 1 / (a * d + b);
        c = b + a / c;
        f *= step = c * d;
        if (fabs(step - 1) <= DBL_EPSILON)
            break;
    }
    return f * exp(-z);
}

double mr_expint(double x)
{
    if (isnan(x) || x == INFINITY)
        return x;
    if (x == 0)
        return -INFINITY;
    if (x < -1)
        return isinf(x) ? -0.0 : -e1(-x);
    return x > 40 ? expint_far(x) : expint_near(x);
}

/* ---- Fresnel ---- */

/* The sum of (-1)^n (pi/2)^m x^(2m+1) / (m! (2m+1)), m = 2n + odd: sin for odd = 1, cos for 0. */
static double fresnel_near(double x, int odd)
{
    double t = M_PI_2 * x * x, term = odd ? t : 1, sum = term / (2 * odd + 1);
    for (int m = odd + 2; m < 100; m += 2) {
        term *= -t * t / ((double)m * (m - 1));
        sum += term / (2 * m + 1);
        if (fabs(term) <= DBL_EPSILON / 16 * fabs(sum))
            break;
    }
    return sum * x;
}

/* The slowly varying f and g: S = 1/2 - f cos t - g sin t and C = 1/2 + f sin t - g cos t, t = pi
 * x^2 / 2.  f is sqrt(2)/pi times the integral of exp(-t u^2) / (1 + u^4), g has another u^2. */
static void fresnel_parts(double x, double *f, double *g)
{
    double t = M_PI_2 * x * x, w = 1 / (2 * t * 2 * t), h = fmin(0.11, 0.5 / sqrt(t));
    *f = *g = 0;
    if (t > 40) { /* 1 - 1 3 w + 1 3 5 7 w^2 .. over pi x, and 1 - 3 5 w .. over pi x 2t */
        double a = 1, b = 1;
        for (int k = 0; k < 10; k++) {
            *f += a;
            *g += b;
            a *= -(4 * k + 1) * (4 * k + 3) * w;
            b *= -(4 * k + 3) * (4 * k + 5) * w;
        }
        *f /= M_PI * x;
        *g /= M_PI * x * 2 * t;
        return;
    }
    for (int i = 0; i < 200; i++) {
        double u = i * h, square = u * u;
        double value = (i ? 1 : 0.5) * exp(-t * square) / (1 + square * square);
        *f += value;
        *g += value * square;
        if (value < 1e-19)
            break;
    }
    *f *= h * M_SQRT2 / M_PI;
    *g *= h * M_SQRT2 / M_PI;
}

static double fresnel_integral(double x, int odd)
{
    double size = fabs(x), f, g;
    if (isnan(x))
        return x;
    if (size < 1.5)
        return fresnel_near(x, odd);
    if (size > 1e150)
        return copysign(0.5, x); /* the waves are below a rounding */
    /* x^2 in quarter turns, of which four are one: with the digits that the product lost. */
    double square = size * size, turns = fmod(square, 4) + fma(size, size, -square);
    double s = sin(M_PI_2 * turns), c = cos(M_PI_2 * turns);
    fresnel_parts(size, &f, &g);
    return copysign(odd ? 0.5 - f * c - g * s : 0.5 + f * s - g * c, x);
}

double mr_fresnel_cos(double x) { return fresnel_integral(x, 0); }
double mr_fresnel_sin(double x) { return fresnel_integral(x, 1); }

/* ---- dilogarithm ---- */

/* B_2k / (2k + 1)! */
static const double dilog[] = {
    0.027777777777777776, -0.0002777777777777778, 4.72411186696901e-06, -9.185773074661964e-08,
    1.8978869988971e-09, -4.0647616451442256e-11, 8.921691020456452e-13, -1.9939295860721074e-14,
    4.518980029619918e-16,
};

/* Li_2(1 - x) for 1/2 <= x <= 2, as a series in u = -log x. */
static double spence_near(double x)
{
    double u = -log(x), square = u * u, sum = 0;
    for (int k = (int)(sizeof dilog / sizeof dilog[0]) - 1; k >= 0; k--)
        sum = (sum + dilog[k]) * square;
    return u * (1 + sum) - square / 4;
}

double mr_spence(double x)
{
    if (!(x >= 0))
        return NAN;
    if (x == 0 || x == 1)
        return x == 1 ? 0 : M_PI * M_PI / 6;
    if (x < 0.5)
        return M_PI * M_PI / 6 - log(x) * log1p(-x) - spence_near(1 - x);
    if (x <= 2)
        return spence_near(x);
    double l = log(x);
    return isinf(x) ? -x : -0.5 * l * l - mr_spence(1 / x);
}
