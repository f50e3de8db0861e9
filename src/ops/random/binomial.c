/* ops/random/binomial.c -- samples binomial distributions: StatelessRandomBinomial, and
 * StatefulRandomBinomial with a generator in a variable.
 *
 * If few successes are expected, they are counted by the geometric waiting times between them; otherwise
 * Hoermann's transformed rejection with squeeze (BTRS) is used.  For a probability above one half,
 * failures are counted instead. */
#include <math.h>

#include "ops/broadcast.h"
#include "ops/random/key.h"
#include "ops/random/samples.h"

static double by_waiting(mr_pairs *p, double count, double prob)
{
    double sum = 0, n = 0;
    for (;; n++) {
        sum += ceil(log(mr_pairs_uniform(p)) / log1p(-prob));
        if (sum > count)
            return n;
    }
}

/* log(k!) minus Stirling's formula at k + 1. */
static double stirling_rest(double k)
{
    static const double small[] = {
        0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
        0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
        0.00925546218271273, 0.00833056343336287};
    if (k <= 9)
        return small[k < 0 ? 0 : (int)k];
    double sq = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / sq) / sq) / (k + 1);
}

/* The log of the ratio of probabilities of k and of the mode m. */
static double log_ratio(double n, double r, double m, double k)
{
    return (m + 0.5) * log((m + 1) / (r * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1)) +
           (k + 0.5) * log(r * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) -
           stirling_rest(k) - stirling_rest(n - k);
}

static double by_rejection(mr_pairs *p, double n, double prob)
{
    double deviation = sqrt(n * prob * (1 - prob)), b = 1.15 + 2.53 * deviation;
    double a = -0.0873 + 0.0248 * b + 0.01 * prob, c = n * prob + 0.5, squeeze = 0.92 - 4.2 / b;
    double alpha = (2.83 + 5.1 / b) * deviation, m = floor((n + 1) * prob);
    for (;;) {
        double u = mr_pairs_uniform(p) - 0.5, v = mr_pairs_uniform(p), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= squeeze)
            return k;
        if (k < 0 || k > n)
            continue;
        if (log(v * alpha / (a / (us * us) + b)) <= log_ratio(n, prob / (1 - prob), m, k))
            return k;
    }
}

typedef struct params {
    const mr_tensor *counts, *probs;
    mr_broadcast *shapes;
} params;

static double draw_binomial(const mr_samples *s, int64_t k, int64_t param)
{
    const params *q = s->ctx;
    double n = mr_number_at(q->counts, mr_broadcast_offset(q->shapes, 0, param));
    double prob = mr_number_at(q->probs, mr_broadcast_offset(q->shapes, 1, param));
    if (n <= 0 || prob <= 0)
        return 0;
    if (prob >= 1)
        return n;
    if (isnan(n) || isinf(n) || isnan(prob)) /* no sample would ever be accepted */
        return NAN;
    double less = prob <= 0.5 ? prob : 1 - prob;
    bool many = n * less >= 10;
    mr_pairs p = mr_pairs_at(s->start, (uint64_t)k * (many ? 256 : 42));
    double drawn = many ? by_rejection(&p, n, less) : by_waiting(&p, n, less);
    return prob <= 0.5 ? drawn : n - drawn;
}

/* Counts and probs are inputs i and i + 1.  The samples use the stream *start or, if start is NULL, that of
 * the generator in input 0. */
static mr_status *run_binomial(mr_run *r, int shape, int i, const mr_philox *start)
{
    mr_broadcast b;
    params q = {mr_in(r, i), mr_in(r, i + 1), &b};
    mr_samples s = {.draw = draw_binomial, .ctx = &q};
    int64_t alg;
    mr_broadcast_init(&b);
    MR_TRY(mr_broadcast_add(&b, q.counts->rank, q.counts->dims));
    MR_TRY(mr_broadcast_add(&b, q.probs->rank, q.probs->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    MR_TRY(mr_samples_ending(r, shape, b.shape.rank, b.shape.dims, &s));
    if (start) {
        s.start = *start;
    } else { /* advances the generator as far as TensorFlow does */
        MR_TRY(mr_in_algorithm(r, 1, &alg));
        uint64_t n = (uint64_t)s.n_params * 2 * 100 * ((uint64_t)s.n_samples + 3) / 4;
        MR_TRY(mr_generator_take(r, alg, 0, n, &s.start, NULL));
    }
    mr_samples_run(r, &s, 400);
    return NULL;
}

static mr_status *run_stateless(mr_run *r)
{
    mr_philox start;
    MR_TRY(mr_seed_stream(r, 1, &start));
    return run_binomial(r, 0, 2, &start);
}

static mr_status *run_stateful(mr_run *r) { return run_binomial(r, 2, 3, NULL); }

static mr_status *stateful_shape(mr_infer *c) { return mr_infer_shape_value(c, 2, &c->out[0]); }

#define NUMBERS "{half, float, double, int32, int64}"

MR_OP(StatelessRandomBinomial,
    .doc      = "the number of successes in counts trials with probability probs each, by the seed only",
    .sig      = "shape: S, seed: Tseed, counts: T, probs: T -> output: dtype",
    .attrs    = "S: {int32, int64}; Tseed: {int32, int64} = DT_INT64; T: " NUMBERS " = DT_DOUBLE; "
                "dtype: " NUMBERS " = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = mr_seed_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stateless)),
    .examples = MR_EXAMPLES(
        "int32[2, 3], [1, 2], [10, 20, 0], 1 -> [[10, 20, 0], [10, 20, 0]]",
        "int32[2, 2], int32[1, 2], [[10], [20]], [0, 1] -> [[0, 10], [0, 20]]",
        "int32[4], [1, 2], 100, 0.7 -> shape(4)", "int64[4], [1, 2], float[7], 0.3 -> "
        "!INVALID_ARGUMENT", "int64[4, 1], [1, 2], half[7], half[0.3] -> shape(4,1)",
        "int64[4, 1], [1, 2], int32[7], int32[1] -> [[7], [7], [7], [7]]",
        "int64[2], [1, 2], int64[7], int64[1] -> !INVALID_ARGUMENT Shape passed in must end",
        "dtype=float: int32[2], [1, 2], [nan, 5], [0.5, nan] -> [nan, nan]",
        "dtype=float: int32[2], [1, 2], [inf, 5e18], 0.5 -> [nan, ?]",
        "int32[3], [1, 2], [1, 2, 3], [1, 1] -> !INVALID_ARGUMENT"));

#define RNG "h = VarHandleOp dtype=int64 shape=[3]; AssignVariableOp: h, int64[0, 1, 7]; "

MR_OP(StatefulRandomBinomial,
    .doc      = "the number of successes in counts trials with probability probs each",
    .sig      = "resource: resource, algorithm: int64, shape: S, counts: T, probs: T -> "
                "output: dtype",
    .attrs    = "S: {int32, int64}; T: " NUMBERS " = DT_DOUBLE; dtype: " NUMBERS " = DT_INT64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = stateful_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stateful)),
    .examples = MR_EXAMPLES(
        RNG "S=int32: h, 1, [2, 2], [5, 6], [0, 1] -> [[0, 6], [0, 6]]",
        RNG "S=int32: h, 2, [2], [5, 6], [0, 1] -> !INVALID_ARGUMENT Unsupported algorithm id: 2"));
