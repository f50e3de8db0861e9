/* ops/random/gamma.c -- samples gamma distributions: RandomGamma and the stateless ops, and their
 * derivative by the shape parameter.
 *
 * This is the method of Marsaglia and Tsang: a normal number, shifted and cubed, is accepted or rejected
 * by a uniform one; at least 95 of 100 tries are accepted.  Below alpha = 1, a sample of alpha + 1 is
 * multiplied by a power of another uniform number; at 1 the distribution is the exponential one. */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/random/key.h"
#include "ops/random/samples.h"

enum { BLOCKS = 256 }; /* blocks of the stream per sample */

static double draw_gamma(const mr_samples *s, int64_t k, int64_t param)
{
    double alpha = mr_number_at(s->ctx, param);
    mr_pairs p = mr_pairs_at(s->start, (uint64_t)k * BLOCKS);
    if (alpha == 1)
        return -log1p(-mr_pairs_uniform(&p));
    if (!(alpha > 0) || isinf(alpha)) /* not a valid shape: no try would ever be accepted */
        return alpha == 0 ? 0 : isinf(alpha) && alpha > 0 ? INFINITY : NAN;
    bool below = alpha < 1;
    double d = alpha + (below ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
    for (;;) {
        double x = mr_pairs_normal(&p), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = mr_pairs_uniform(&p);
        if (u < 1 - 0.0331 * (x * x) * (x * x) || log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return below ? d * v * pow(mr_pairs_uniform(&p), 1 / alpha) : d * v;
    }
}

static mr_status *random_gamma(mr_run *r)
{
    mr_samples s = {.draw = draw_gamma, .ctx = mr_in(r, 1)};
    MR_TRY(mr_samples_before(r, 1, &s));
    if (s.out->n == 0)
        return NULL;
    s.start = mr_random_reserve(r->state, (uint64_t)s.out->n * BLOCKS);
    mr_samples_run(r, &s, 150);
    return NULL;
}

static mr_status *stateless_gamma(mr_run *r, bool by_key, int alpha)
{
    const mr_tensor *a = mr_in(r, alpha);
    mr_samples s = {.draw = draw_gamma, .ctx = a};
    MR_TRY(by_key ? mr_key_stream(r, 1, &s.start) : mr_seed_stream(r, 1, &s.start));
    MR_TRY(mr_samples_ending(r, 0, a->rank, a->dims, &s));
    mr_samples_run(r, &s, 150);
    return NULL;
}

static mr_status *gamma_v2(mr_run *r) { return stateless_gamma(r, false, 2); }
static mr_status *gamma_v3(mr_run *r) { return stateless_gamma(r, true, 4); }

static mr_status *gamma_shape(mr_infer *c) { return mr_samples_before_infer(c, 1); }

static mr_status *gamma_v3_shape(mr_infer *c)
{
    MR_TRY(mr_key_infer(c, 1));
    return mr_shape_from_input0(c);
}

/* ---- gradients ---- */

static mr_out range_to(mr_grad *g, mr_out n)
{
    return mr_emit(g->s, "Range", mr_const_i32(g->s, 0), n, mr_const_i32(g->s, 1));
}

/* Sums over the samples, whose dimensions precede those of alpha. */
static void backward_to_alpha(mr_grad *g, int alpha, mr_out n_sample_dims)
{
    mr_out slope = mr_emit(g->s, "RandomGammaGrad", mr_xi(g, alpha), mr_yi(g, 0));
    mr_out product = mr_emit(g->s, "Mul", mr_dyi(g, 0), slope);
    mr_dxi(g, alpha, mr_emit(g->s, "Sum", product, range_to(g, n_sample_dims)));
}

static void gamma_backward(mr_grad *g)
{
    backward_to_alpha(g, 1, mr_emit(g->s, "Size", mr_xi(g, 0)));
}

static void ending_backward(mr_grad *g, int alpha)
{
    mr_out all = mr_emit(g->s, "Rank", mr_yi(g, 0)), own = mr_emit(g->s, "Rank", mr_xi(g, alpha));
    backward_to_alpha(g, alpha, mr_emit(g->s, "Sub", all, own));
}

static void gamma_v2_backward(mr_grad *g) { ending_backward(g, 2); }
static void gamma_v3_backward(mr_grad *g) { ending_backward(g, 4); }

#define TYPES(M, ...)                                             \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)    \
    MR_TYPE_DOUBLE(M, __VA_ARGS__)

MR_OP(RandomGamma,
    .doc      = "samples of gamma distributions of rate 1, for each shape parameter alpha",
    .sig      = "shape: S, alpha: T -> output: T",
    .attrs    = "seed: int = 0; seed2: int = 0; S: {int32, int64}; T: {half, float, double}",
    .flags    = MR_STATEFUL,
    .key      = "T",
    .shape    = gamma_shape,
    .grad     = gamma_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(random_gamma, TYPES)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples = MR_EXAMPLES(
        "nograd: int32[2], [0.5, 1, 30] -> shape(2,3)",
        "nograd: int64[2, 2], 3 -> shape(2,2)",
        "T=float nograd: int32 shape(0), [0, nan, -1, inf] -> [0, nan, nan, inf]",
        "int32[0], [1, 2] -> shape(0,2)",
        "int32[2], shape(0) -> shape(2,0)",
        "int32[-2], 1 -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomGammaV2,
    .doc      = "samples of gamma distributions that depend on the seed alone",
    .sig      = "shape: T, seed: Tseed, alpha: dtype -> output: dtype",
    .attrs    = "dtype: {half, float, double}; T: {int32, int64}; Tseed: {int32, int64} = DT_INT64",
    .key      = "dtype",
    .shape    = mr_seed_shape,
    .grad     = gamma_v2_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(gamma_v2, TYPES)),
    .examples = MR_EXAMPLES(
        "nograd: int32[2, 3], [1, 2], [0.5, 1, 30] -> shape(2,3)",
        "nograd: int64[4], int32[1, 2], 3 -> shape(4)",
        "int32[0, 2], [1, 2], [1, 2] -> shape(0,2)",
        "int32[2, 3], [1, 2], [1, 2] -> !INVALID_ARGUMENT Shape passed in must end with",
        "int32[3], [1], 1 -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomGammaV3,
    .doc      = "samples of gamma distributions of a key and a counter",
    .sig      = "shape: shape_dtype, key: uint64, counter: uint64, alg: int32, alpha: dtype -> "
                "output: dtype",
    .attrs    = "dtype: {half, float, double}; shape_dtype: {int32, int64} = DT_INT32",
    .key      = "dtype",
    .shape    = gamma_v3_shape,
    .grad     = gamma_v3_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(gamma_v3, TYPES)),
    .examples = MR_EXAMPLES(
        "nograd: [2, 3], [1], [0, 2], 1, [0.5, 1, 30] -> shape(2,3)",
        "nograd: int64[4], [1], [0, 2], 3, 3 -> shape(4)",
        "[0, 2], [1], [0, 2], 3, [1, 2] -> shape(0,2)",
        "[2], [1], [0, 2], 2, 3 -> !INVALID_ARGUMENT Unsupported algorithm id: 2"));

/* ---- RandomGammaGrad ----
 *
 * At a sample x, the distribution function P(alpha, x) has a fixed value, so the derivative of x is
 * -(dP/dalpha) / (dP/dx).  P is computed as a power series for small x, and its complement as a
 * continued fraction for large x, each together with its derivative by alpha. */

static double digamma(double x)
{
    double sum = 0;
    if (x <= 0 && floor(x) == x)
        return NAN;
    for (; x < 6; x++)
        sum -= 1 / x;
    double y = 1 / (x * x);
    double tail = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
    return sum + log(x) - 0.5 / x - tail;
}

enum { MAX_TERMS = 2000 };

static double by_series(double a, double x)
{
    double c = 1, sum = 1, dc = 0, dsum = 0, r = a, slope = log(x) - digamma(a + 1);
    for (int i = 0; i < MAX_TERMS; i++) {
        r++;
        double term = x / r;
        dc = term * dc - x / (r * r) * c;
        dsum += dc;
        c *= term;
        sum += c;
        if (fabs(dc) <= 1e-16 * fabs(dsum))
            break;
    }
    return -(dsum + sum * slope) * x / a;
}

/* p[k] / q[k] are the convergents; dp and dq the derivatives. */
typedef struct fraction {
    double p2, q2, p1, q1, dp2, dq2, dp1, dq1;
} fraction;

static void fraction_step(fraction *f, double a, double x, int i)
{
    double y = i + 2 - a, z = x + 2 * i + 4 - a, yc = y * (i + 1); /* dy/da = dz/da = -1 */
    double p = f->p1 * z - f->p2 * yc, q = f->q1 * z - f->q2 * yc;
    double dp = f->dp1 * z - f->p1 - f->dp2 * yc + f->p2 * (i + 1);
    double dq = f->dq1 * z - f->q1 - f->dq2 * yc + f->q2 * (i + 1);
    *f = (fraction){f->p1, f->q1, p, q, f->dp1, f->dq1, dp, dq};
    if (fabs(p) > 0x1p52) { /* rescale: only quotients matter */
        double *all = &f->p2;
        for (int k = 0; k < 8; k++)
            all[k] *= 0x1p-52;
    }
}

static double by_fraction(double a, double x)
{
    double z = x + 2 - a;
    fraction f = {1, x, x + 1, z * x, 0, 0, 0, -x}; /* begins with 1 / x and (x + 1) / (z x) */
    double value = f.p1 / f.q1, dvalue = (f.dp1 - value * f.dq1) / f.q1;
    for (int i = 0; i < MAX_TERMS; i++) {
        fraction_step(&f, a, x, i);
        if (f.q1 == 0)
            continue;
        double before = dvalue;
        value = f.p1 / f.q1;
        dvalue = (f.dp1 - value * f.dq1) / f.q1;
        if (fabs(before - dvalue) <= 1e-16)
            break;
    }
    return (dvalue + value * (log(x) - digamma(a))) * x;
}

static double sample_slope(double a, double x)
{
    if (x == 0)
        return 0;
    if (!(x > 0) || !(a > 0) || isinf(x) || isinf(a))
        return NAN;
    return x > 1 && x > a ? by_fraction(a, x) : by_series(a, x);
}

MR_BINARY_SLOW(gamma_grad, MR_FLOATS32, sample_slope(x, y))

MR_OP(RandomGammaGrad,
    .doc      = "derivative of samples of gamma distributions by alpha",
    .sig      = "alpha: T, sample: T -> output: T",
    .attrs    = "T: {float, double}",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(gamma_grad, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "[0.5, 3, 10, 2], [2, 5, 12, 0.5] -> [2.511889, 1.349881, 1.112329, 0.498027]",
        "[[1], [2]], [1, 0] -> [[1.173563, 0], [0.750779, 0]]",
        "[nan, 1, 0], [1, nan, 1] -> [nan, nan, nan]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT"));
