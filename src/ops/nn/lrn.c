/* ops/nn/lrn.c -- local response normalisation and its gradient.
 *
 * Each value is divided by a power of a sum over its neighbours along the channels: with
 * N_c = bias + alpha sum over |k - c| <= radius of x_k^2, y_c = x_c N_c^-beta.  alpha is not
 * divided by the size of the window.
 *
 * The gradient sums over the windows that contain a value, which are centred on its neighbours:
 * dx_k = g_k N_k^-beta - 2 alpha beta x_k sum over |j - k| <= radius of g_j y_j / N_j. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/maths.h"
#include "ops/nn/wide.h"

#include "base/memory.h"
#include "base/simd.h"

enum {
    BLOCK = 256,     /* channels at a time */
    MAX_RADIUS = 16, /* larger windows use a running sum instead of adding each window up */
};
#define CHANNEL_NS 6.0

typedef struct lrn {
    int64_t radius;
    float bias, alpha, beta;
} lrn;

static mr_status *init_lrn(mr_make *m, void *state)
{
    lrn *s = state;
    MR_TRY(mr_node_get_int(m->node, "depth_radius", &s->radius));
    MR_TRY(mr_node_get_float(m->node, "bias", &s->bias));
    MR_TRY(mr_node_get_float(m->node, "alpha", &s->alpha));
    MR_TRY(mr_node_get_float(m->node, "beta", &s->beta));
    if (s->radius < 0 || s->radius > INT32_MAX)
        return mr_invalid("depth_radius = %lld is negative or larger than int max",
                          (long long)s->radius);
    return NULL;
}

/* ---- sums over windows ---- */

/* sums[i] = v[c + i - r] + .. + v[c + i + r], squared or not, for i < n <= BLOCK. */
MR_INLINE void window_short(const float *v, int64_t width, int64_t r, int64_t c, int64_t n,
                            bool squared, float *sums)
{
    float near[BLOCK + 2 * MAX_RADIUS] = {0};
    int64_t first = MR_MAX(0, c - r), last = MR_MIN(width, c + n + r);
    float *at = near + (first - (c - r)); /* elements outside of the row stay 0 */
    for (int64_t i = first; i < last; i++)
        at[i - first] = squared ? v[i] * v[i] : v[i];
    for (int64_t i = 0; i < n; i++)
        sums[i] = near[i];
    for (int64_t k = 1; k <= 2 * r; k++)
        for (int64_t i = 0; i < n; i++)
            sums[i] += near[i + k];
}

/* The same for long windows: a running sum in double, to which the entering element is added and from which
 * the leaving one is subtracted. */
static void window_long(const float *v, int64_t width, int64_t r, int64_t c, int64_t n,
                        bool squared, float *sums)
{
    double s = 0;
    for (int64_t i = MR_MAX(0, c - r); i < MR_MIN(width, c + r); i++)
        s += squared ? (double)v[i] * v[i] : (double)v[i];
    for (int64_t i = c; i < c + n; i++) {
        if (i + r < width)
            s += squared ? (double)v[i + r] * v[i + r] : (double)v[i + r];
        sums[i - c] = (float)s;
        if (i - r >= 0)
            s -= squared ? (double)v[i - r] * v[i - r] : (double)v[i - r];
    }
}

MR_INLINE void window_sums(const float *v, int64_t width, int64_t r, int64_t c, int64_t n,
                           bool squared, float *sums)
{
    r = MR_MIN(r, width);
    if (r <= MAX_RADIUS)
        window_short(v, width, r, c, n, squared, sums);
    else
        window_long(v, width, r, c, n, squared, sums);
}

/* ---- loops over pixels ---- */

typedef struct job {
    const lrn *s;
    const float *x, *y, *g;
    float *out, *shares; /* shares: g y / N */
    int64_t width;
} job;

/* N^-beta */
MR_INLINE float power(float n, float beta)
{
    return beta == 0.5f ? 1 / sqrtf(n) : mr_expf(-beta * mr_logf(n));
}

MR_CLONES static void lrn_forward(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const lrn s = *j->s;
    float sums[BLOCK];
    for (int64_t p = begin; p < end; p++) {
        const float *x = j->x + p * j->width;
        float *y = j->out + p * j->width;
        for (int64_t c = 0; c < j->width; c += BLOCK) {
            int64_t n = MR_MIN(BLOCK, j->width - c);
            window_sums(x, j->width, s.radius, c, n, true, sums);
            for (int64_t i = 0; i < n; i++)
                y[c + i] = x[c + i] * power(s.bias + s.alpha * sums[i], s.beta);
        }
    }
}

MR_CLONES static void backward_pixels(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const lrn s = *j->s;
    float sums[BLOCK];
    for (int64_t p = begin; p < end; p++) {
        int64_t at = p * j->width;
        const float *x = j->x + at, *y = j->y + at, *g = j->g + at;
        float *dx = j->out + at, *shares = j->shares + at;
        for (int64_t c = 0; c < j->width; c += BLOCK) {
            int64_t n = MR_MIN(BLOCK, j->width - c);
            window_sums(x, j->width, s.radius, c, n, true, sums);
            for (int64_t i = 0; i < n; i++) {
                float norm = s.bias + s.alpha * sums[i];
                dx[c + i] = g[c + i] * power(norm, s.beta);
                shares[c + i] = g[c + i] * y[c + i] / norm;
            }
        }
        for (int64_t c = 0; c < j->width; c += BLOCK) {
            int64_t n = MR_MIN(BLOCK, j->width - c);
            window_sums(shares, j->width, s.radius, c, n, false, sums);
            for (int64_t i = 0; i < n; i++)
                dx[c + i] -= 2 * s.alpha * s.beta * x[c + i] * sums[i];
        }
    }
}

/* ---- kernels ---- */

static mr_status *check_rank(const mr_tensor *x, const char *what)
{
    return x->rank == 4 ? NULL
                        : mr_invalid("%s must be 4-dimensional: %s", what, MR_TENSOR_SHAPE(x));
}

static void run_pixels(mr_run *r, const mr_tensor *x, void (*fn)(void *, int64_t, int64_t), job *j)
{
    j->s = r->state;
    j->width = x->dims[3];
    if (x->n > 0)
        mr_run_for(r, x->n / j->width, CHANNEL_NS * (double)j->width, fn, j);
}

static mr_status *lrn_run(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    MR_GO(check_rank(mr_in(r, 0), "in"));
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, -1, 0, 4, x.t->dims, &y));
    run_pixels(r, x.t, lrn_forward, &(job){.x = x.t->data, .out = y.t->data});
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *lrn_grad_run(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide g = {0}, x = {0}, y = {0}, dx = {0};
    mr_tensor *shares = NULL;
    MR_GO(check_rank(mr_in(r, 0), "in_grads"));
    for (int i = 1; i < 3; i++)
        if (!mr_tensor_same_shape(mr_in(r, i), mr_in(r, 0)))
            MR_GO(mr_invalid("input_grads, input_image, and out_image should have the same shape, "
                             "got %s and %s", MR_TENSOR_SHAPE(mr_in(r, 0)),
                             MR_TENSOR_SHAPE(mr_in(r, i))));
    MR_GO(mr_wide_in(r, 0, &g));
    MR_GO(mr_wide_in(r, 1, &x));
    MR_GO(mr_wide_in(r, 2, &y));
    MR_GO(mr_wide_out(r, -1, 0, 4, x.t->dims, &dx));
    MR_GO(mr_run_temp(r, MR_FLOAT, 4, x.t->dims, &shares));
    run_pixels(r, x.t, backward_pixels, &(job){.x = x.t->data, .y = y.t->data, .g = g.t->data,
                                               .out = dx.t->data, .shares = shares->data});
    mr_wide_store(r, 0, &dx);
out:
    mr_wide_deinit(&g);
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    mr_wide_deinit(&dx);
    mr_tensor_unref(shares);
    return st;
}

static mr_status *infer_lrn(mr_infer *c) { return mr_infer_rank(c, c->in[0], 4, &c->out[0]); }

static mr_status *infer_grad(mr_infer *c)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &s));
    MR_TRY(mr_infer_merge(c, s, c->in[1], &s));
    return mr_infer_merge(c, s, c->in[2], &c->out[0]);
}

static void lrn_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "LRNGrad", "depth_radius bias alpha beta",
                              MR_OUTS(mr_dyi(g, 0), mr_xi(g, 0), mr_yi(g, 0))));
}

#define ATTRS                                                                               \
    "depth_radius: int = 5; bias: float = 1; alpha: float = 1; beta: float = 0.5; "         \
    "T: {half, bfloat16, float} = DT_FLOAT"
#define TYPES(M, ...) MR_FLOATS16(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

MR_OP(LRN,
    .doc         = "each value divided by a power of the sum of squares of its neighbouring "
                   "channels",
    .sig         = "input: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_lrn,
    .grad        = lrn_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(lrn_run, TYPES)),
    .state_bytes = sizeof(lrn),
    .init        = init_lrn,
    .examples    = MR_EXAMPLES(
        "depth_radius=1 alpha=0.5 beta=0.75: [[[[1, 2, 3]]]] -> [[[[0.39079497, 0.42044821, "
        "0.66195018]]]]",
        "depth_radius=1 alpha=0.5 beta=0.75: [[[[1, 2, 3]], [[0.5, -1, 0.25]]]] -> "
        "[[[[0.39079497, 0.42044821, 0.66195018]], [[0.34740013, -0.68494481, 0.18161655]]]]",
        "[[[[3, 4]]]] -> [[[[0.58834841, 0.78446454]]]]",
        "depth_radius=0: [[[[2, 0]]]] -> [[[[0.89442719, 0]]]]",
        "nograd depth_radius=20: fill(1, 1,1,1,600) -> shape(1,1,1,600)",
        "depth_radius=100 alpha=0.04: fill(1, 1,1,2,25) -> fill(0.70710678, 1,1,2,25)",
        "shape(0,1,1,3) -> shape(0,1,1,3)",
        "shape(1,1,1,0) -> shape(1,1,1,0)",
        "depth_radius=-1: [[[[1]]]] -> !INVALID_ARGUMENT",
        "[[[1]]] -> !INVALID_ARGUMENT"));

MR_OP(LRNGrad,
    .doc         = "gradient of LRN, from its gradient, input and output",
    .sig         = "input_grads: T, input_image: T, output_image: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_grad,
    .kernels     = MR_KERNELS(MR_CPU_ONE(lrn_grad_run, TYPES)),
    .state_bytes = sizeof(lrn),
    .init        = init_lrn,
    .examples    = MR_EXAMPLES(
        "T=float depth_radius=1 alpha=0.5 beta=0.75: [[[[1, 0, -1]]]], [[[[1, 2, 3]]]], "
        "[[[[0.39079497, 0.42044821, 0.66195018]]]] -> [[[[0.30705319, -0.03509352, "
        "-0.02206501]]]]",
        "depth_radius=0 alpha=3 beta=0.5: [[[[2]]]], [[[[1]]]], [[[[0.5]]]] -> [[[[0.25]]]]",
        "shape(0,1,1,3), shape(0,1,1,3), shape(0,1,1,3) -> shape(0,1,1,3)",
        "[[[[1]]]], [[[[1, 2]]]], [[[[1, 2]]]] -> !INVALID_ARGUMENT"));
