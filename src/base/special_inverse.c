/* base/special_inverse.c -- inverses of the error function.
 *
 * A closed formula that is right to a few thousandths, then Halley's iteration on erfc, which
 * triples the digits: three rounds are enough, tails included. */
#include "base/special.h"

#include <float.h>
#include <math.h>

/* y > 0 with erfc(y) = q, 0 < q <= 1. */
static double erfc_inverse(double q)
{
    double l = log(q * (2 - q)), k = 2 / (M_PI * 0.147) + l / 2;
    double y = sqrt(fmax(0, sqrt(k * k - l / 0.147) - k));
    for (int i = 0; i < 6; i++) {
        /* Near 0 erfc has fewer digits of y than erf. */
        double miss = q > 0.5 ? (1 - q) - erf(y) : erfc(y) - q;
        double u = -miss / (M_2_SQRTPI * exp(-y * y));
        double step = u / (1 + y * u);
        if (!isfinite(step))
            break;
        y -= step;
        if (fabs(step) <= 1e-12 * y) /* the digits were tripled since */
            break;
    }
    return y;
}

/* x > 0 */
static double erf_inverse(double x)
{
    if (x > 0.4)
        return erfc_inverse(1 - x);
    double y = x / M_2_SQRTPI * (1 + M_PI / 12 * x * x);
    for (int i = 0; i < 4; i++) {
        double u = (erf(y) - x) / (M_2_SQRTPI * exp(-y * y));
        y -= u / (1 + y * u);
    }
    return y;
}

double mr_erfinv(double x)
{
    double size = fabs(x);
    if (!(size <= 1))
        return NAN;
    if (size == 0 || size == 1)
        return size == 0 ? x : copysign(INFINITY, x);
    return copysign(erf_inverse(size), x);
}

double mr_ndtri(double p)
{
    if (!(p >= 0 && p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? -INFINITY : INFINITY;
    if (fabs(p - 0.5) < 0.2)
        return M_SQRT2 * mr_erfinv(2 * (p - 0.5));
    return p < 0.5 ? -M_SQRT2 * erfc_inverse(2 * p) : M_SQRT2 * erfc_inverse(2 * (1 - p));
}
