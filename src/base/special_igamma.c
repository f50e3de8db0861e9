/* base/special_igamma.c -- the incomplete gamma functions.
 *
 * For a < LARGE: the power series of P where x is small beside a, the continued fraction of Q
 * elsewhere; both take some sqrt(a) steps at most.  From there on Temme's uniform expansion around
 * x = a (DLMF 8.12), whose coefficients were computed to 60 digits, and where x is far from a the
 * former two again, which converge quickly there. */
#include "base/special.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])
enum { LARGE = 200, STEPS = 4000 };

static double eval_polynomial(const double *c, int n, double x)
{
    double sum = 0;
    for (int i = n - 1; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

static double eval_derivative(const double *c, int n, double x)
{
    double sum = 0;
    for (int i = n - 1; i >= 1; i--)
        sum = sum * x + i * c[i];
    return sum;
}

/* ---- parts ---- */

/* With r = x / (2 + x), log(1 + x) = 2 (r + r^3 / 3 + ..) and 2 r - x = -x r. */
double mr_log1pmx(double x)
{
    if (!(fabs(x) < 0.4))
        return log1p(x) - x;
    double r = x / (2 + x), square = r * r, sum = 0;
    for (int k = 25; k >= 3; k -= 2)
        sum = sum * square + 1.0 / k;
    return -x * r + 2 * r * square * sum;
}

/* B_2k / (2k (2k - 1)) */
static const double stirling[] = {
    0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953,
    0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641,
};

double mr_stirling_rest(double a)
{
    return eval_polynomial(stirling, COUNT(stirling), 1 / (a * a)) / a;
}

/* x^a e^-x / Gamma(a + 1) */
static double gamma_density(double a, double x)
{
    if (a < 10)
        return pow(x, a) * exp(-x) / tgamma(a + 1);
    double away = (x - a) / a;
    double power = x < 0.3 * a ? a * (log(x / a) + (a - x) / a) : a * mr_log1pmx(away);
    return exp(power - mr_stirling_rest(a)) / sqrt(2 * M_PI * a);
}

/* zeta(k) - 1 for k = 2, 3 .. */
static const double zeta_less_one[] = {
    0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993,
    0.01734306198444914, 0.008349277381922827, 0.00407735619794434, 0.0020083928260822143,
    0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915,
    6.124813505870483e-05, 3.058823630702049e-05, 1.528225940865187e-05, 7.637197637899763e-06,
    3.81729326499984e-06, 1.908212716553939e-06, 9.539620338727962e-07, 4.769329867878064e-07,
    2.38450502727733e-07, 1.1921992596531106e-07, 5.960818905125948e-08, 2.980350351465228e-08,
    1.4901554828365043e-08, 7.45071178983543e-09, 3.725334024788457e-09, 1.862659723513049e-09,
    9.313274324196682e-10,
};

/* log Gamma(1 + a), with all its digits for small a. */
static double lgamma1p(double a)
{
    if (a > 0.5)
        return mr_lgamma(1 + a);
    double sum = 0;
    for (int k = COUNT(zeta_less_one) + 1; k >= 2; k--)
        sum = zeta_less_one[k - 2] / k - a * sum;
    return a * a * sum + a * 0.42278433509846713939 - log1p(a); /* 1 less Euler's constant */
}

/* ---- the two classical ways ---- */

/* P by its power series.  *by_a gets the derivative of the series' logarithm. */
static double power_series(double a, double x, double *by_a)
{
    double sum = 1, term = 1, harmonic = 0, derivative = 0;
    for (int n = 1; n < STEPS; n++) {
        term *= x / (a + n);
        harmonic += 1 / (a + n);
        sum += term;
        derivative -= term * harmonic;
        if (term * harmonic <= DBL_EPSILON / 8 * -derivative && term <= DBL_EPSILON / 8 * sum)
            break;
    }
    *by_a = derivative / sum;
    return sum;
}

/* How many steps of the fraction below are needed, found with Lentz's method. If a is an integer,
 * the fraction itself ends early, but its derivative does not; so the steps are counted for the
 * middle between two integers. */
static int fraction_steps(double a, double x)
{
    double tiny = 1e-300, c, d = 0;
    int n = 1;
    a = floor(a) + 0.5;
    c = fmax(tiny, fabs(x + 1 - a));
    for (; n < STEPS; n++) {
        double an = n * (a - n), bn = x + 2 * n + 1 - a;
        d = bn + an * d;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = bn + an / c;
        c = fabs(c) < tiny ? tiny : c;
        if (fabs(c * d - 1) <= DBL_EPSILON / 2)
            break;
    }
    return n;
}

/* Q / (a density): 1 / (b_0 + a_1 / (b_1 + ..)), b_n = x + 2n + 1 - a, a_n = n (a - n), from the
 * back, which is stable for the logarithm's derivative by a too. */
static double continued_fraction(double a, double x, double *by_a)
{
    int n = fraction_steps(a, x);
    double t = x + 2 * n + 1 - a, dt = -1;
    for (; n >= 1; n--) {
        double an = n * (a - n);
        dt = -1 + n / t - an * dt / (t * t);
        t = x + 2 * n - 1 - a + an / t;
    }
    *by_a = -dt / t; /* of log(1 / t) */
    return 1 / t;
}

/* Q for small x without 1 - P: 1 - x^a / Gamma(1 + a) and the rest of the alternating series. */
static double small_q(double a, double x)
{
    double sum = 0, term = 1;
    for (int n = 1; n < STEPS; n++) {
        term *= -x / n;
        sum += term / (a + n);
        if (fabs(term) <= DBL_EPSILON / 8 * fabs(sum))
            break;
    }
    double power = a * log(x) - lgamma1p(a);
    return -expm1(power) - a * exp(power) * sum;
}

/* ---- Temme's expansion ---- */

/* The functions c_k as series in eta. */
static const double temme_0[] = {
    -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
    0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
    -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
    -2.5514193994946248e-11, -5.830772132550426e-11, 2.4361948020667415e-11,
    -5.0276692801141755e-12, 1.1004392031956135e-13, 3.371763262400985e-13,
    -1.392388722418162e-13,
};
static const double temme_1[] = {
    -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
    0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05,
    7.64916091608111e-06, -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07,
    -5.752545603517705e-08, 1.1951628599778148e-08, -1.7543241719747647e-11,
    -1.0091543710600413e-09, 4.162792991842583e-10, -8.56390702649298e-11, 6.067215101604758e-14,
    7.1624989648114856e-12, -2.933186643771437e-12,
};
static const double temme_2[] = {
    0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
    -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05,
    3.423578734096138e-08, 1.3721957309062934e-06, -6.298992138380055e-07,
    1.4280614206064242e-07, -2.0477098421990866e-10, -1.409252991086752e-08,
    6.228974084922022e-09, -1.3670488396617114e-09, 9.428356159014678e-13,
    1.2872252400089318e-10, -5.5645956134363323e-11,
};
static const double temme_3[] = {
    0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
    0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
    1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06,
    -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
    -1.9111168485973655e-08, 2.3928620439808118e-12, 2.0620131815488797e-09,
    -9.460496661855133e-10,
};
static const double temme_4[] = {
    -0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
    -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
    1.1375726970678419e-05, 2.507497226237533e-10, -1.6954149536558305e-06,
    8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11, 2.8865829742708783e-08,
    -1.4189739437803219e-08,
};
static const double temme_5[] = {
    -0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
    -0.00019932570516188847, 6.797780477937208e-05, 1.419062920643967e-07,
    -1.3594048189768693e-05, 8.018470256334202e-06, -2.291481176508095e-06,
    -3.252473551298454e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
};
static const struct {
    const double *c;
    int n;
} temme[] = {{temme_0, COUNT(temme_0)}, {temme_1, COUNT(temme_1)}, {temme_2, COUNT(temme_2)},
             {temme_3, COUNT(temme_3)}, {temme_4, COUNT(temme_4)}, {temme_5, COUNT(temme_5)}};

static bool is_uniform(double a, double x) { return a >= LARGE && fabs(x - a) < 0.45 * a; }

/* eta^2 / 2 = mu - log(1 + mu), mu = x / a - 1, and of the sign of mu. */
static double eta_of(double mu) { return copysign(sqrt(-2 * mr_log1pmx(mu)), mu); }

/* Sum of c_k a^-k. */
static double temme_sum(double a, double eta)
{
    double sum = 0;
    for (int k = COUNT(temme) - 1; k >= 0; k--)
        sum = sum / a + eval_polynomial(temme[k].c, temme[k].n, eta);
    return sum;
}

static double bell_curve(double a, double eta)
{
    return exp(-0.5 * a * eta * eta) / sqrt(2 * M_PI * a);
}

/* P, or Q when `upper`. */
static double uniform_expansion(double a, double x, bool upper)
{
    double eta = eta_of((x - a) / a), rest = bell_curve(a, eta) * temme_sum(a, eta);
    double side = upper ? 1 : -1;
    return 0.5 * erfc(side * eta * sqrt(a / 2)) + side * rest;
}

/* The derivative of the above, by eta' = -mu / (a eta) and bell' = bell (log(1 + mu) - 1 / 2a). */
static double uniform_grad(double a, double x)
{
    double mu = (x - a) / a, eta = eta_of(mu), ratio = mu == 0 ? 1 : mu / eta;
    double by_eta = 0, by_a = 0, power = 1;
    for (int k = 0; k < COUNT(temme); k++, power /= a) {
        by_eta += power * eval_derivative(temme[k].c, temme[k].n, eta);
        by_a -= power * k / a * eval_polynomial(temme[k].c, temme[k].n, eta);
    }
    double sum = temme_sum(a, eta);
    return bell_curve(a, eta) *
           (eta / 2 - ratio - sum * (log1p(mu) - 0.5 / a) + by_eta * ratio / a - by_a);
}

/* ---- the functions ---- */

/* True, with the value, for arguments that need no computation. */
static bool is_simple(double a, double x, double *p)
{
    if (isnan(a) || isnan(x) || x < 0 || !(a > 0))
        *p = x == 0 && !isnan(a) ? 0 : NAN;
    else if (x == 0 || isinf(a))
        *p = isinf(x) ? NAN : 0;
    else if (isinf(x))
        *p = 1;
    else
        return false;
    return true;
}

static double upper_fraction(double a, double x)
{
    double ignored;
    return gamma_density(a, x) * a * continued_fraction(a, x, &ignored);
}

double mr_igamma(double a, double x)
{
    double p, ignored;
    if (is_simple(a, x, &p))
        return p;
    if (is_uniform(a, x))
        return uniform_expansion(a, x, false);
    if (x > 1 && x > a)
        return 1 - upper_fraction(a, x);
    return fmin(1, gamma_density(a, x) * power_series(a, x, &ignored));
}

double mr_igammac(double a, double x)
{
    double p, ignored;
    if (is_simple(a, x, &p))
        return x == 0 && !(a > 0) ? NAN : 1 - p;
    if (is_uniform(a, x))
        return uniform_expansion(a, x, true);
    if (x <= 1.1 && a < 1.1)
        return small_q(a, x);
    if (x > a)
        return upper_fraction(a, x);
    return fmax(0, 1 - gamma_density(a, x) * power_series(a, x, &ignored));
}

double mr_igamma_grad_a(double a, double x)
{
    double p, by_a;
    if (is_simple(a, x, &p))
        return isnan(p) || (x == 0 && !(a > 0)) ? NAN : 0;
    if (is_uniform(a, x))
        return uniform_grad(a, x);
    if (x > 1 && x > a) {
        double q = gamma_density(a, x) * a * continued_fraction(a, x, &by_a);
        return q == 0 ? 0 : -q * (log(x) - mr_digamma(a) + by_a);
    }
    p = gamma_density(a, x) * power_series(a, x, &by_a);
    return p == 0 ? 0 : p * (log(x) - mr_digamma(a + 1) + by_a);
}
