/* base/special.h -- special functions of double numbers.
 *
 * Each has a relative error of about 1e-14 (near a zero, relative to the values around it), and takes a time that does
 * not grow with its arguments. NaN gives NaN; poles and the ends of the domain are stated with each function. Names and
 * meanings are those of scipy.special. */
#ifndef MR_BASE_SPECIAL_H
#define MR_BASE_SPECIAL_H

/* ---- gamma and related functions (special_gamma.c) ---- */
double mr_lgamma(double x);  /* log |Gamma(x)|; +inf at 0, -1, -2 .. */
double mr_digamma(double x); /* NaN at 0, -1, -2 .. */
/* Hurwitz's sum of (q + k)^-s, k = 0, 1 ..; +inf for s = 1, NaN below; +inf where q is 0, -1 .., and
 * NaN for other negative q unless s is an integer. */
double mr_zeta(double s, double q);
double mr_polygamma(double n, double x); /* NaN unless n is 0, 1, 2 .. */

/* ---- incomplete gamma and beta (special_igamma.c, special_betainc.c) ---- */
double mr_igamma(double a, double x);  /* P(a, x); NaN unless a > 0 and x >= 0; 0 at x = 0 */
double mr_igammac(double a, double x); /* 1 - P, without cancellation */
double mr_igamma_grad_a(double a, double x); /* dP/da */
double mr_betainc(double a, double b, double x); /* I_x(a, b); NaN unless a, b > 0, 0 <= x <= 1 */
/* log(1 + x) - x, accurate near 0. */
double mr_log1pmx(double x);
/* log Gamma(a) = (a - 1/2) log a - a + log(2 pi) / 2 + this, for a >= 10. */
double mr_stirling_rest(double a);

/* ---- inverses (special_inverse.c) ---- */
double mr_erfinv(double x); /* +-inf at +-1, NaN beyond */
double mr_ndtri(double p);  /* quantiles of the normal distribution; +-inf at 0 and 1, NaN beyond */

/* ---- modified Bessel functions (special_bessel.c); a trailing e: times exp(-|x|) or exp(x) ---- */
double mr_bessel_i0(double x);
double mr_bessel_i0e(double x);
double mr_bessel_i1(double x);
double mr_bessel_i1e(double x);
double mr_bessel_k0(double x); /* +inf at 0, NaN below */
double mr_bessel_k0e(double x);
double mr_bessel_k1(double x);
double mr_bessel_k1e(double x);

/* ---- integrals (special_integrals.c) ---- */
double mr_dawsn(double x);  /* exp(-x^2) times the integral of exp(t^2) from 0 to x */
double mr_expint(double x); /* Ei; -inf at 0 */
double mr_fresnel_cos(double x); /* of cos(pi t^2 / 2) from 0 to x */
double mr_fresnel_sin(double x);
double mr_spence(double x); /* of log(t) / (1 - t) from 1 to x; NaN below 0 */

#endif
