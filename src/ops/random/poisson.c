/* ops/random/poisson.c -- samples Poisson distributions: RandomPoisson, RandomPoissonV2 and
 * StatelessRandomPoisson.
 *
 * Rates below 10 use Knuth's method, which multiplies uniform numbers until the product falls below
 * exp(-rate); larger rates use Hoermann's transformed rejection, which takes about 1.15 tries. */
#include <math.h>

#include "ops/random/key.h"
#include "ops/random/samples.h"

enum { BLOCKS = 256 }; /* blocks of the stream per sample */

static double draw_knuth(mr_pairs *p, double rate)
{
    double limit = exp(-rate), product = 1, k = 0;
    for (;; k++) {
        product *= mr_pairs_uniform(p);
        if (product <= limit)
            return k;
    }
}

static double draw_hoermann(mr_pairs *p, double rate)
{
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
    for (;;) {
        double u = mr_pairs_uniform(p) - 0.5, v = mr_pairs_uniform(p);
        double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) /* accept quickly: well inside */
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        double s = log(v * inv_alpha / (a / (us * us) + b));
        if (s <= -rate + k * log(rate) - lgamma(k + 1))
            return k;
    }
}

/* An invalid rate is handled first: no try would ever be accepted. */
static double draw_poisson(const mr_samples *s, int64_t k, int64_t param)
{
    double rate = mr_number_at(s->ctx, param);
    mr_pairs p = mr_pairs_at(s->start, (uint64_t)k * BLOCKS);
    if (isnan(rate) || (isinf(rate) && rate > 0))
        return rate;
    return rate < 10 ? draw_knuth(&p, rate) : draw_hoermann(&p, rate);
}

static mr_status *random_poisson(mr_run *r)
{
    mr_samples s = {.draw = draw_poisson, .ctx = mr_in(r, 1)};
    MR_TRY(mr_samples_before(r, 1, &s));
    if (s.n_samples == 0)
        return NULL;
    if (s.n_params == 0)
        return mr_invalid("Input rate should have non-zero element count, got: 0");
    s.start = mr_random_reserve(r->state, (uint64_t)s.out->n * BLOCKS);
    mr_samples_run(r, &s, 200);
    return NULL;
}

static mr_status *run_stateless(mr_run *r)
{
    const mr_tensor *rate = mr_in(r, 2);
    mr_samples s = {.draw = draw_poisson, .ctx = rate};
    MR_TRY(mr_seed_stream(r, 1, &s.start));
    MR_TRY(mr_samples_ending(r, 0, rate->rank, rate->dims, &s));
    mr_samples_run(r, &s, 200);
    return NULL;
}

static mr_status *infer_poisson(mr_infer *c) { return mr_samples_before_infer(c, 1); }

#define STATE \
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit
#define NUMBERS "{half, float, double, int32, int64}"

MR_OP(RandomPoisson,
    .doc      = "samples of Poisson distributions, for each rate",
    .sig      = "shape: S, rate: dtype -> output: dtype",
    .attrs    = "seed: int = 0; seed2: int = 0; S: {int32, int64}; dtype: {half, float, double}",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .deprecated = 25, .deprecation = "Replaced by RandomPoissonV2",
    .key      = "dtype",
    .shape    = infer_poisson,
    .kernels  = MR_KERNELS(MR_CPU_ANY(random_poisson)), STATE,
    .examples = MR_EXAMPLES(
        "int32[2], [0, 0] -> [[0, 0], [0, 0]]", "int64[3], [1, 20] -> shape(3,2)",
        "int32[0], [1] -> shape(0,1)",
        "int32[2], shape(0) -> !INVALID_ARGUMENT Input rate should have non-zero element count"));

MR_OP(RandomPoissonV2,
    .doc      = "samples of Poisson distributions, for each rate",
    .sig      = "shape: S, rate: R -> output: dtype",
    .attrs    = "seed: int = 0; seed2: int = 0; S: {int32, int64}; R: " NUMBERS " = DT_DOUBLE; "
                "dtype: " NUMBERS " = DT_INT64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = infer_poisson,
    .kernels  = MR_KERNELS(MR_CPU_ANY(random_poisson)), STATE,
    .examples = MR_EXAMPLES(
        "int32[2], int32[0, 0] -> [[0, 0], [0, 0]]", "int64[3], [1, 20] -> shape(3,2)",
        "int32[2], float[0, -1] -> [[0, 0], [0, 0]]", "int32[2], half[0, 1] -> shape(2,2)",
        "int32[2], int64[1000000000000] -> shape(2,1)",
        "dtype=float: int32 shape(0), [nan, inf] -> [nan, inf]",
        "int32[0], [1] -> shape(0,1)",
        "int32[2], shape(0) -> !INVALID_ARGUMENT Input rate should have non-zero element count",
        "int32[-2], [1] -> !INVALID_ARGUMENT"));

MR_OP(StatelessRandomPoisson,
    .doc      = "samples of Poisson distributions that depend on the seed alone",
    .sig      = "shape: T, seed: Tseed, lam: Rtype -> output: dtype",
    .attrs    = "Rtype: " NUMBERS "; dtype: " NUMBERS "; T: {int32, int64}; "
                "Tseed: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = mr_seed_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stateless)),
    .examples = MR_EXAMPLES(
        "Rtype=float dtype=int32: int32[2, 2], [1, 2], [0, 0] -> [[0, 0], [0, 0]]",
        "Rtype=double: int32[3, 2], [1, 2], [1, 20] -> shape(3,2)",
        "Rtype=int32: int64[2], int32[1, 2], 5 -> shape(2)",
        "Rtype=float: int32[2, 3], [1, 2], [1, 2] -> !INVALID_ARGUMENT Shape passed in must end",
        "Rtype=float: int32[2], [1, 2, 3], [1, 2] -> !INVALID_ARGUMENT"));
