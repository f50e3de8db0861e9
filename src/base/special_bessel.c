/* base/special_bessel.c -- the modified Bessel functions of orders 0 and 1.
 *
 * I: the power series, all of whose terms are positive, up to 30; then the asymptotic one, whose
 * least term is far below a rounding there.  K: the power series with its logarithm up to 1; then
 * the integral of exp(-x (cosh t - 1)) cosh(n t) by the trapezoidal rule, which for such a function
 * converges faster than any power of its step. */
#include "base/special.h"

#include <float.h>
#include <math.h>

enum { FAR = 30 };

/* Sum of (x^2/4)^k / (k! (k + order)!). */
static double power_sum(int order, double x)
{
    double square = x * x / 4, term = 1, sum = 1;
    for (int k = 1; k < 200 && term > DBL_EPSILON / 8 * sum; k++) {
        term *= square / ((double)k * (k + order));
        sum += term;
    }
    return sum;
}

/* exp(-x) I(x) for large x. */
static double far_sum(int order, double x)
{
    double term = 1, sum = 1, mu = 4.0 * order * order;
    for (int k = 1; k < 60 && fabs(term) > DBL_EPSILON / 8; k++) {
        double odd = 2 * k - 1;
        term *= -(mu - odd * odd) / (8 * k * x);
        sum += term;
    }
    return sum / sqrt(2 * M_PI * x);
}

double mr_bessel_i0e(double x)
{
    x = fabs(x);
    return x < FAR ? exp(-x) * power_sum(0, x) : isinf(x) ? 0 : far_sum(0, x);
}

double mr_bessel_i1e(double x)
{
    double size = fabs(x);
    double y = size < FAR ? exp(-size) * size / 2 * power_sum(1, size)
               : isinf(size) ? 0 : far_sum(1, size);
    return copysign(y, x);
}

/* Half the power twice: exp(x) alone is infinite a little before the product is. */
static double scale_up(double x, double scaled)
{
    double half = exp(fabs(x) / 2);
    return isinf(x) ? copysign(INFINITY, scaled) : half * scaled * half;
}

double mr_bessel_i0(double x)
{
    return fabs(x) < FAR ? power_sum(0, x) : scale_up(x, mr_bessel_i0e(x));
}

double mr_bessel_i1(double x)
{
    return fabs(x) < FAR ? x / 2 * power_sum(1, x) : isnan(x) ? x : scale_up(x, mr_bessel_i1e(x));
}

/* ---- K ---- */

#define EULER 0.57721566490153286061

/* K_0 for 0 < x <= 1: -(log(x/2) + gamma) I_0 + sum of H_k (x^2/4)^k / k!^2 */
static double k0_near(double x)
{
    double square = x * x / 4, term = 1, sum = 0, harmonic = 0;
    for (int k = 1; k < 20; k++) {
        term *= square / ((double)k * k);
        harmonic += 1.0 / k;
        sum += harmonic * term;
    }
    return sum - (log(x / 2) + EULER) * power_sum(0, x);
}

/* K_1: 1/x + log(x/2) I_1 - x/4 sum of (psi(k+1) + psi(k+2)) (x^2/4)^k / (k! (k+1)!) */
static double k1_near(double x)
{
    double square = x * x / 4, term = 1, psi = 1 - 2 * EULER, sum = psi;
    for (int k = 1; k < 20; k++) {
        term *= square / ((double)k * (k + 1));
        psi += 1.0 / k + 1.0 / (k + 1);
        sum += psi * term;
    }
    return 1 / x + log(x / 2) * x / 2 * power_sum(1, x) - x / 4 * sum;
}

/* exp(x) K(x) for x > 1. */
static double k_integral(int order, double x)
{
    double h = fmin(0.18, 0.6 / sqrt(x)), sum = 0.5;
    for (int i = 1; i < 200; i++) {
        double s = sinh(i * h / 2), term = exp(-2 * x * s * s); /* cosh t - 1 = 2 sinh^2(t/2) */
        term *= order ? 1 + 2 * s * s : 1;
        sum += term;
        if (term < DBL_EPSILON / 16 * sum)
            break;
    }
    return sum * h;
}

static double k_of(int order, double x, int scaled)
{
    if (!(x >= 0))
        return NAN;
    if (x == 0)
        return INFINITY;
    if (isinf(x))
        return 0;
    if (x > 1)
        return k_integral(order, x) * (scaled ? 1 : exp(-x));
    return (order ? k1_near(x) : k0_near(x)) * (scaled ? exp(x) : 1);
}

double mr_bessel_k0(double x) { return k_of(0, x, 0); }
double mr_bessel_k0e(double x) { return k_of(0, x, 1); }
double mr_bessel_k1(double x) { return k_of(1, x, 0); }
double mr_bessel_k1e(double x) { return k_of(1, x, 1); }
