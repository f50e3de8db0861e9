/* base/special_betainc.c -- the incomplete beta function.
 *
 * A continued fraction serves up to some thousands; it takes sqrt(a + b) steps.  Beyond, the
 * integral itself, over the logarithm of t / (1 - t), by a rule whose points crowd towards the end
 * doubly exponentially. */
#include "base/special.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

enum { LARGE = 5000, STEPS = 4000 };

/* log B(a, b) for a <= b. */
static double log_beta(double a, double b)
{
    if (b < 10)
        return mr_lgamma(a) + mr_lgamma(b) - mr_lgamma(a + b);
    double rest = mr_stirling_rest(b) - mr_stirling_rest(a + b);
    return mr_lgamma(a) - (b - 0.5) * log1p(a / b) - a * log(a + b) + a + rest;
}

/* x^a (1 - x)^b / B(a, b), where y = 1 - x. */
static double beta_density(double a, double b, double x, double y)
{
    if (a < 10 || b < 10)
        return exp(a * log(x) + b * (x < 0.5 ? log1p(-x) : log(y)) -
                   (a < b ? log_beta(a, b) : log_beta(b, a)));
    double n = a + b, away = (x - a / n);
    if (x > 0.5) /* the difference is exact to more digits on the small side */
        away = b / n - y;
    double up = away * n / a, down = -away * n / b;
    double power = a * (up > -0.7 ? mr_log1pmx(up) : log(x * n / a) - up) +
                   b * (down > -0.7 ? mr_log1pmx(down) : log(y * n / b) - down);
    double rest = mr_stirling_rest(n) - mr_stirling_rest(a) - mr_stirling_rest(b);
    return exp(power + rest) * sqrt(a / n * b / (2 * M_PI));
}

/* Lentz's way, for x below the mean. */
static double continued_fraction(double a, double b, double x)
{
    double tiny = 1e-300, c = 1, d = 1 - (a + b) * x / (a + 1), f;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    f = d;
    for (int m = 1; m < STEPS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double before = f;
        for (int half = 0; half < 2; half++) {
            double t = half ? odd : even;
            d = 1 + t * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + t / c;
            c = fabs(c) < tiny ? tiny : c;
            f *= c * d;
        }
        if (fabs(f - before) <= DBL_EPSILON / 2 * fabs(f))
            break;
    }
    return f;
}

/* With u = log(t / (1 - t)) the integrand falls off from u = log(x / y) downwards, relative to its
 * value there as exp(-a s - (a + b) log(1 + x (e^-s - 1))) at the distance s. s = w exp(v - e^-v).
 * */
static double integrate_density(double a, double b, double x)
{
    double fall = a - (a + b) * x; /* slope of the exponent at 0, at least 0 below the mean */
    double bend = (a + b) * x * (1 - x);
    double w = 2 / (fall + sqrt(fall * fall + bend)), sum = 0;
    const double h = 1.0 / 16;
    for (int i = -64; i <= 96; i++) {
        double v = i * h, near = exp(-v), s = w * exp(v - near);
        double power = -a * s - (a + b) * log1p(x * expm1(-s));
        double term = exp(power) * s * (1 + near);
        if (isfinite(term))
            sum += term;
    }
    return sum * h;
}

/* I_x(a, b) for x below the mean. */
static double lower_integral(double a, double b, double x, double y)
{
    double scale = beta_density(a, b, x, y);
    if (scale == 0)
        return 0;
    if (a + b > LARGE && a > 1 && b > 1)
        return fmin(1, scale * integrate_density(a, b, x));
    return fmin(1, scale * continued_fraction(a, b, x) / a);
}

double mr_betainc(double a, double b, double x)
{
    if (isnan(a) || isnan(b) || isnan(x) || !(a > 0) || !(b > 0) || x < 0 || x > 1)
        return NAN;
    if (x == 0 || x == 1)
        return x;
    if (isinf(a) || isinf(b))
        return isinf(a) && isinf(b) ? NAN : isinf(a) ? 0 : 1;
    if (x <= a / (a + b) || (a + b <= LARGE && x < (a + 1) / (a + b + 2)))
        return lower_integral(a, b, x, 1 - x);
    return 1 - lower_integral(b, a, 1 - x, x);
}
