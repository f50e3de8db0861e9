/* ops/random/bounded_normal.c -- normal numbers with any mean and deviation between any bounds:
 * ParameterizedTruncatedNormal and StatelessParameterizedTruncatedNormal.
 *
 * There are three rejection samplers; the bounds (in deviations from the mean) determine which is used:
 * normal numbers until one is inside, uniform numbers between the bounds accepted by their density, or
 * exponential numbers above the lower bound (Robert 1995).  Each gives up after MAX_TRIES tries. */
#include <math.h>
#include <stdatomic.h>

#include "graph/grad.h"
#include "ops/broadcast.h"
#include "ops/random/key.h"
#include "ops/random/samples.h"

enum { MAX_TRIES = 1000, N_PARAMS = 4 };

/* A distribution, with bounds in deviations.  It is mirrored if necessary, so that the lower bound is finite
 * and not below the mean if both are on one side of it. */
typedef struct bounded {
    double mean, deviation, lo, hi;
} bounded;

static bool bounded_init(bounded *b, const double v[N_PARAMS])
{
    double min = v[2], max = v[3];
    if (!(v[1] > 0) || !(min < max) || !(isfinite(min) || isfinite(max)))
        return false;
    *b = (bounded){.mean = v[0], .deviation = v[1]};
    bool turned = (isinf(min) && min < 0) || max < v[0];
    if (turned)
        b->deviation = -b->deviation;
    b->lo = ((turned ? max : min) - b->mean) / b->deviation;
    b->hi = ((turned ? min : max) - b->mean) / b->deviation;
    return true;
}

/* Each draws *z once and returns whether it is accepted. */
static bool try_normal(mr_pairs *p, const bounded *b, double *z)
{
    *z = mr_pairs_normal(p);
    return *z >= b->lo && *z <= b->hi;
}

static bool try_uniform(mr_pairs *p, const bounded *b, double *z)
{
    double top = b->lo < 0 ? 0 : b->lo * b->lo;
    *z = mr_pairs_uniform(p) * (b->hi - b->lo) + b->lo;
    return mr_pairs_uniform(p) <= exp((top - *z * *z) / 2);
}

static bool try_exponential(mr_pairs *p, const bounded *b, double *z)
{
    double alpha = (b->lo + sqrt(b->lo * b->lo + 4)) / 2;
    *z = -log(mr_pairs_uniform(p)) / alpha + b->lo;
    double x = b->lo < alpha ? alpha - *z : b->lo - alpha;
    return mr_pairs_uniform(p) <= exp(-x * x / 2) && *z < b->hi;
}

static bool bounded_draw(mr_pairs *p, const bounded *b, double *out)
{
    double root = sqrt(b->lo * b->lo + 4);
    double cutoff = 2 * exp(0.5 + b->lo * (b->lo - root) / 4) / (b->lo + root);
    bool (*try)(mr_pairs *, const bounded *, double *) =
        (b->lo < -1.3 && b->hi >= 0) || (b->hi > 1.3 && b->lo <= 0) ? try_normal
        : b->hi - b->lo < cutoff                                    ? try_uniform
                                                                    : try_exponential;
    for (int i = 0; i < MAX_TRIES; i++)
        if (try(p, b, out)) {
            *out = *out * b->deviation + b->mean;
            return true;
        }
    return false;
}

/* ---- kernels ---- */

typedef struct job {
    const mr_tensor *params[N_PARAMS];
    mr_broadcast *a,
        *b; /* only in the stateless op: a for params 0, 1 and b for params 2, 3, each with the whole shape */
    int64_t per_row;     /* only in the other op: outputs with the same parameters */
    atomic_int trouble;  /* 1: invalid parameters, 2: no number was accepted */
} job;

static double draw_bounded(const mr_samples *s, int64_t k, const double v[N_PARAMS])
{
    job *j = (job *)(uintptr_t)s->ctx;
    mr_pairs p = mr_pairs_at(s->start, (uint64_t)k * MAX_TRIES * 2);
    bounded b;
    double out = NAN;
    if (!bounded_init(&b, v))
        j->trouble = 1;
    else if (!bounded_draw(&p, &b, &out))
        j->trouble = 2;
    return out;
}

static double draw_row(const mr_samples *s, int64_t k, int64_t param)
{
    const job *j = s->ctx;
    double v[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++)
        v[i] = mr_number_at(j->params[i], j->params[i]->n == 1 ? 0 : param / j->per_row);
    return draw_bounded(s, k, v);
}

static double draw_broadcast(const mr_samples *s, int64_t k, int64_t param)
{
    const job *j = s->ctx;
    double v[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++)
        v[i] = mr_number_at(j->params[i], mr_broadcast_offset(i < 2 ? j->a : j->b, i % 2, param));
    return draw_bounded(s, k, v);
}

static mr_status *draw_samples(mr_run *r, mr_samples *s)
{
    job *j = (job *)(uintptr_t)s->ctx;
    mr_samples_run(r, s, 300);
    if (j->trouble == 1)
        return mr_invalid("Invalid parameters");
    if (j->trouble == 2)
        return mr_error(MR_INTERNAL,
                        "TruncatedNormal rejection sampler failed to accept a sample.");
    return NULL;
}

static mr_status *run_parameterized(mr_run *r)
{
    static const char *const names[] = {"means", "stddevs", "minvals", "maxvals"};
    mr_shape shape;
    job j = {0};
    mr_samples s = {.draw = draw_row, .ctx = &j, .n_samples = 1};
    if (mr_in(r, 0)->rank != 1 || mr_in(r, 0)->n == 0)
        return mr_invalid("Input shape should be a non-empty vector, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    for (int i = 0; i < N_PARAMS; i++) {
        const mr_tensor *t = j.params[i] = mr_in(r, 1 + i);
        if (t->rank > 1)
            return mr_invalid("Input %s should be a scalar or vector, got shape: %s", names[i],
                              MR_TENSOR_SHAPE(t));
        if (t->n != 1 && t->n != shape.dims[0])
            return mr_invalid("Input %s should have length 1 or shape[0], got shape: %s", names[i],
                              MR_TENSOR_SHAPE(t));
    }
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &s.out));
    s.n_params = s.out->n;
    j.per_row = shape.dims[0] > 0 ? s.out->n / shape.dims[0] : 1;
    s.start = mr_random_reserve(r->state, (uint64_t)s.out->n * MAX_TRIES * 2);
    return draw_samples(r, &s);
}

/* Initializes two walks over the shape that all four parameters broadcast to. */
static mr_status *init_walks(const job *j, mr_broadcast *a, mr_broadcast *b)
{
    mr_shape shape = {0};
    for (int i = 0; i < N_PARAMS; i++) {
        mr_shape wider;
        MR_TRY(mr_shape_broadcast(shape.rank, shape.dims, j->params[i]->rank, j->params[i]->dims,
                                  &wider));
        mr_shape_set(&shape, wider.rank, wider.dims);
    }
    for (int i = 0; i < 2; i++) {
        mr_broadcast *w = i ? b : a;
        mr_broadcast_init(w);
        MR_TRY(mr_broadcast_add(w, j->params[2 * i]->rank, j->params[2 * i]->dims));
        MR_TRY(mr_broadcast_add(w, j->params[2 * i + 1]->rank, j->params[2 * i + 1]->dims));
        MR_TRY(mr_broadcast_add(w, shape.rank, shape.dims));
        MR_TRY(mr_broadcast_collapse(w));
    }
    return NULL;
}

static mr_status *run_stateless(mr_run *r)
{
    mr_broadcast a, b;
    job j = {.a = &a, .b = &b};
    mr_samples s = {.draw = draw_broadcast, .ctx = &j};
    for (int i = 0; i < N_PARAMS; i++)
        j.params[i] = mr_in(r, 2 + i);
    MR_TRY(init_walks(&j, &a, &b));
    MR_TRY(mr_seed_stream(r, 1, &s.start));
    MR_TRY(mr_samples_ending(r, 0, a.shape.rank, a.shape.dims, &s));
    return draw_samples(r, &s);
}

static mr_status *infer_parameterized(mr_infer *c)
{
    const mr_pshape *ignored;
    for (int i = 1; i <= N_PARAMS; i++)
        MR_TRY(mr_infer_rank_at_most(c, c->in[i], 1, &ignored));
    return mr_shape_from_input0(c);
}

/* ---- gradient ----
 *
 * The value of the distribution function at the sample stays fixed.  So the sample moves with the mean,
 * scales with the deviation, and follows each bound the more, the nearer it is. */

static mr_out emit_ndtr(mr_grad *g, mr_out x)
{
    mr_scope *s = g->s;
    mr_out t = mr_emit(s, "Erf", mr_emit(s, "Mul", x, mr_scalar_like(g, sqrt(0.5), x)));
    mr_out half = mr_scalar_like(g, 0.5, x);
    return mr_emit(s, "AddV2", mr_emit(s, "Mul", t, half), half);
}

/* exp((sample^2 - bound^2) / 2 + log_share) */
static mr_out bound_slope(mr_grad *g, mr_out sample, mr_out bound, mr_out log_share)
{
    mr_scope *s = g->s;
    mr_out d = mr_emit(s, "Sub", mr_emit(s, "Square", sample), mr_emit(s, "Square", bound));
    mr_out half = mr_emit(s, "Mul", d, mr_scalar_like(g, 0.5, d));
    return mr_emit(s, "Exp", mr_emit(s, "AddV2", half, log_share));
}

/* dy slope, summed to the shape of input i. */
static void share_out(mr_grad *g, int i, mr_out slope)
{
    mr_scope *s = g->s;
    mr_out d = mr_emit(s, "Mul", mr_dyi(g, 0), slope), own = mr_shape_of(g, mr_xi(g, i));
    mr_out axes = mr_emit(s, "BroadcastGradientArgs", mr_shape_of(g, mr_yi(g, 0)), own);
    mr_dxi(g, i, mr_emit(s, "Reshape", mr_emit(s, "Sum", d, mr_nth(axes, 1)), own));
}

static void bounded_normal_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out mean = mr_xi(g, 2), deviation = mr_xi(g, 3), y = mr_yi(g, 0), at[3];
    const mr_out from[3] = {mr_xi(g, 4), mr_xi(g, 5), y};
    for (int i = 0; i < 3; i++)
        at[i] = mr_emit(s, "RealDiv", mr_emit(s, "Sub", from[i], mean), deviation);
    mr_out low = emit_ndtr(g, at[0]), whole = mr_emit(s, "Sub", emit_ndtr(g, at[1]), low);
    mr_out cdf = mr_emit(s, "RealDiv", mr_emit(s, "Sub", emit_ndtr(g, at[2]), low), whole);
    double tiny = 1e-37, most = 1 - 1e-7;
    cdf = mr_emit(s, "Maximum", cdf, mr_scalar_like(g, tiny, cdf));
    cdf = mr_emit(s, "Minimum", cdf, mr_scalar_like(g, most, cdf));
    share_out(g, 2, mr_ones_like(g, y));
    share_out(g, 3, at[2]);
    share_out(g, 4, bound_slope(g, at[2], at[0], mr_emit(s, "Log1p", mr_emit(s, "Neg", cdf))));
    share_out(g, 5, bound_slope(g, at[2], at[1], mr_emit(s, "Log", cdf)));
}

MR_OP(ParameterizedTruncatedNormal,
    .doc      = "normal numbers between bounds; the parameters are scalars or for each row",
    .sig      = "shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype -> "
                "output: dtype",
    .attrs    = "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; "
                "T: {int32, int64}",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = infer_parameterized,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_parameterized, MR_FLOATS)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples = MR_EXAMPLES(
        "int32[2, 3], 0, 1, -1, 1 -> shape(2,3)", "int64[2, 3], [0, 5], [1, 2], [-1, 8], 9 -> "
        "shape(2,3)", "int32[0], 0, 1, -1, 1 -> shape(0)",
        "dtype=float: int32[2], 0, 1, 5, inf -> shape(2)",
        "dtype=float: int32[2], 0, 1, -inf, -5 -> shape(2)",
        "int32[2], 0, 0, -1, 1 -> !INVALID_ARGUMENT Invalid parameters",
        "int32[2], 0, 1, 1, 1 -> !INVALID_ARGUMENT Invalid parameters",
        "int32[2], [0, 1, 2], 1, 1, 1 -> !INVALID_ARGUMENT Input means should have length 1",
        "int32[2], [[0]], 1, 1, 1 -> !INVALID_ARGUMENT",
        "int32 shape(0), 0, 1, -1, 1 -> !INVALID_ARGUMENT"));

MR_OP(StatelessParameterizedTruncatedNormal,
    .doc      = "normal numbers between bounds, for parameters that broadcast, by the seed alone",
    .sig      = "shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, "
                "maxvals: dtype -> output: dtype",
    .attrs    = "S: {int32, int64}; Tseed: {int32, int64} = DT_INT64; "
                "dtype: {half, float, double}",
    .key      = "dtype",
    .shape    = mr_seed_shape,
    .grad     = bounded_normal_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stateless)),
    .examples = MR_EXAMPLES(
        "nograd: int32[2, 3], [1, 2], 0, 1, [-1, 0, 1], [[2], [3]] -> shape(2,3)",
        "nograd: int64[4, 1], int32[1, 2], [0], 1, -1, 1 -> shape(4,1)",
        "int32[0, 1], [1, 2], [0], [1], [-1], [1] -> shape(0,1)",
        "int32[2], [1, 2], 0, -1, -1, 1 -> !INVALID_ARGUMENT Invalid parameters",
        "int32[2], [1, 2], [1, 2, 3], 1, -1, 1 -> !INVALID_ARGUMENT Shape passed in must end with",
        "int32[2], [1], 0, 1, -1, 1 -> !INVALID_ARGUMENT"));
