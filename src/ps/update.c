/* ps/update.c -- see update.h.
 *
 * A formula is written once, for one element: w is the value, p, q and s are the other planes, g is
 * what was pushed. RULE makes two loops of it. One runs over neighbouring elements, a whole range or
 * one wide row, and is vectorised; the other runs over scattered rows of one float. With
 * -ffp-contract=off both give the same bits on every CPU. */
#include "ps/update.h"

#include <math.h>

#include "base/memory.h"
#include "base/simd.h"

#define SIGN(x) ((x) > 0 ? 1.0f : (x) < 0 ? -1.0f : 0.0f)
#define LARGER(x, y) ((x) > (y) ? (x) : (y))
/* The effect of the penalties after a step of size eta: towards zero by eta l1, but not past it. */
#define PULLED(x, eta) \
    ((l1 > 0 ? SIGN(x) * LARGER(fabsf(x) - (eta) * l1, 0) : (x)) / (1 + (eta) * l2))

typedef void rule_loop(const mr_ps_rule *r, float *w, size_t stride, const uint32_t *rows, size_t n,
                       const float *pushed);

/* The names that a formula may use. */
#define HYPER                                                              \
    const float rate = r->rate, a = r->a, b = r->b, epsilon = r->epsilon;  \
    const float l1 = r->l1, l2 = r->l2;                                    \
    (void)rate, (void)a, (void)b, (void)epsilon, (void)l1, (void)l2;

#define LOAD_1(i)
#define LOAD_2(i) float p = w_[(i) + stride];
#define LOAD_3(i) LOAD_2(i) float q = w_[(i) + 2 * stride];
#define LOAD_4(i) LOAD_3(i) float s = w_[(i) + 3 * stride];
#define STORE_1(i)
#define STORE_2(i) w_[(i) + stride] = p;
#define STORE_3(i) STORE_2(i) w_[(i) + 2 * stride] = q;
#define STORE_4(i) STORE_3(i) w_[(i) + 3 * stride] = s;

#define ELEMENT(planes, i, ...) \
    {                           \
        float w = w_[i];        \
        LOAD_##planes(i)        \
        __VA_ARGS__;            \
        w_[i] = w;              \
        STORE_##planes(i)       \
    }

/* stride: floats from one plane to the next. rows NULL: elements 0 .. n - 1; scattered rows have
 * width 1. */
#define RULE(fn, planes, ...)                                                                     \
    MR_CLONES static void fn##_near(const mr_ps_rule *r, float *w_, size_t stride,                \
                                    const float *pushed, size_t n)                                \
    {                                                                                             \
        HYPER(void) stride;                                                                       \
        MR_IVDEP                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                          \
            const float g = pushed[i];                                                            \
            ELEMENT(planes, i, __VA_ARGS__)                                                       \
        }                                                                                         \
    }                                                                                             \
    static void fn##_apart(const mr_ps_rule *r, float *w_, size_t stride, const uint32_t *rows,   \
                           const float *pushed, size_t n)                                         \
    {                                                                                             \
        HYPER(void) stride;                                                                       \
        for (size_t k = 0; k < n; k++) {                                                          \
            const float g = pushed[k];                                                            \
            const size_t i = rows[k];                                                             \
            ELEMENT(planes, i, __VA_ARGS__)                                                       \
        }                                                                                         \
    }                                                                                             \
    static void fn(const mr_ps_rule *r, float *w_, size_t stride, const uint32_t *rows, size_t n, \
                   const float *pushed)                                                           \
    {                                                                                             \
        const size_t width = (size_t)r->width;                                                    \
        if (!rows)                                                                                \
            fn##_near(r, w_, stride, pushed, n * width);                                          \
        else if (width == 1)                                                                      \
            fn##_apart(r, w_, stride, rows, pushed, n);                                           \
        else                                                                                      \
            for (size_t k = 0; k < n; k++)                                                        \
                fn##_near(r, w_ + rows[k] * width, stride, pushed + k * width, width);            \
    }

RULE(assign, 1, w = g)
RULE(add, 1, w += g)
RULE(sgd, 1, w -= rate * g)
RULE(sgd_proximal, 1, w -= rate * g; w = PULLED(w, rate))
RULE(momentum, 2, p = p * a + g; w -= rate * p)
RULE(nesterov, 2, p = p * a + g; w -= g * rate + p * a * rate)
RULE(adagrad, 2, p += g * g; w -= g * rate / sqrtf(p))
RULE(adagrad_proximal, 2, p += g * g; w -= g * rate / sqrtf(p); w = PULLED(w, rate / sqrtf(p)))
RULE(rmsprop, 3, p += (g * g - p) * (1 - a); q = q * b + g * rate / sqrtf(p + epsilon); w -= q)
RULE(ftrl, 3,
     const float sum = p + g * g, moved = (sqrtf(sum) - sqrtf(p)) * w;
     q += g - moved / rate;
     w = fabsf(q) > l1 ? (SIGN(q) * l1 - q) / (sqrtf(sum) / rate + 2 * l2) : 0;
     p = sum)
/* s counts the pushes of the element, so that rare rows are corrected by their own powers. It is at
 * most n_adam - 1. A snapshot may hold anything, hence both ends are checked. */
RULE(adam, 4,
     const float *rates = r->adam; const float last = (float)(r->n_adam - 1);
     s = s + 1 > 1 ? s + 1 : 1; s = s < last ? s : last;
     p += (g - p) * (1 - a);
     q += (g * g - q) * (1 - b);
     w -= p * rates[(int32_t)s] / (sqrtf(q) + epsilon))

/* g and u are side by side in a pushed row; h is u / rate. */
MR_INLINE float proximal_one(float w, float g, float h, float l1, float l2)
{
    float x = h * w - g;
    float y = SIGN(x) * LARGER(fabsf(x) - l1, 0) / (h + l2);
    return h > 0 ? y : w;
}

/* See update.h. Not made by RULE, because a pushed row has two floats per element. */
MR_CLONES static void proximal(const mr_ps_rule *r, float *w, size_t stride, const uint32_t *rows,
                               size_t n, const float *pushed)
{
    const size_t width = (size_t)r->width;
    const float scale = 1 / r->rate, l1 = r->l1, l2 = r->l2;
    (void)stride;
    for (size_t k = 0; k < n; k++) {
        float *row = w + (rows ? rows[k] : k) * width;
        const float *g = pushed + k * 2 * width, *u = g + width;
        MR_IVDEP
        for (size_t j = 0; j < width; j++)
            row[j] = proximal_one(row[j], g[j], u[j] * scale, l1, l2);
    }
}

typedef struct rule_facts {
    const char *name;
    int planes;
    rule_loop *plain, *with_penalty; /* with_penalty NULL: l1 and l2 must be 0 */
} rule_facts;
static const rule_facts facts[MR_RULE_KINDS] = {
    [MR_RULE_ASSIGN] = {"assign", 1, assign, NULL},
    [MR_RULE_ADD] = {"add", 1, add, NULL},
    [MR_RULE_SGD] = {"sgd", 1, sgd, sgd_proximal},
    [MR_RULE_MOMENTUM] = {"momentum", 2, momentum, NULL},
    [MR_RULE_ADAGRAD] = {"adagrad", 2, adagrad, adagrad_proximal},
    [MR_RULE_RMSPROP] = {"rmsprop", 3, rmsprop, NULL},
    [MR_RULE_ADAM] = {"adam", 4, adam, NULL},
    [MR_RULE_FTRL] = {"ftrl", 3, ftrl, ftrl},
    [MR_RULE_PROXIMAL] = {"proximal", 1, proximal, proximal},
};

/* The loop of a rule with its options. mr_ps_rule_init has refused penalties where there is no such
 * loop. */
static rule_loop *loop_of(const mr_ps_rule *r)
{
    MR_ASSERT((unsigned)r->kind < MR_RULE_KINDS);
    if (r->kind == MR_RULE_MOMENTUM && r->b != 0)
        return nesterov;
    return r->l1 > 0 || r->l2 > 0 ? facts[r->kind].with_penalty : facts[r->kind].plain;
}

/* ---- making one ---- */

static void set_default(float *x, float value)
{
    if (*x == 0)
        *x = value;
}

/* 0 means "the default" for every option, so momentum 0 cannot be asked for; use SGD. */
static void set_defaults(mr_ps_rule *r)
{
    set_default(&r->rate, r->kind == MR_RULE_PROXIMAL ? 1 : 0.01f);
    switch (r->kind) {
    case MR_RULE_MOMENTUM: set_default(&r->a, 0.9f); break;
    case MR_RULE_ADAGRAD:
    case MR_RULE_FTRL: set_default(&r->a, 0.1f); break;
    case MR_RULE_RMSPROP: set_default(&r->a, 0.9f), set_default(&r->epsilon, 1e-10f); break;
    case MR_RULE_ADAM:
        set_default(&r->a, 0.9f), set_default(&r->b, 0.999f), set_default(&r->epsilon, 1e-8f);
        break;
    default: break;
    }
}

/* A negative rate is allowed where it only reverses the direction of a step. */
static mr_status *check_rule(const mr_ps_rule *r)
{
    const char *name = facts[r->kind].name;
    if (r->width < 1 || r->width > INT32_MAX / 2)
        return mr_invalid("update %s: width is %d, expected 1 or more", name, r->width);
    if (!(isfinite(r->rate) && isfinite(r->a) && isfinite(r->b) && isfinite(r->epsilon)))
        return mr_invalid("update %s: rate %g, a %g, b %g or epsilon %g is not finite", name,
                          (double)r->rate, (double)r->a, (double)r->b, (double)r->epsilon);
    if (!(r->l1 >= 0 && r->l2 >= 0 && isfinite(r->l1) && isfinite(r->l2)))
        return mr_invalid("update %s: penalties l1 %g and l2 %g must not be negative", name,
                          (double)r->l1, (double)r->l2);
    if ((r->l1 > 0 || r->l2 > 0) && !facts[r->kind].with_penalty)
        return mr_invalid("update %s: penalties are not supported, but l1 is %g and l2 is %g", name,
                          (double)r->l1, (double)r->l2);
    if (r->rate < 0 && (r->l1 > 0 || r->l2 > 0 || r->kind >= MR_RULE_FTRL))
        return mr_invalid("update %s: rate %g is negative", name, (double)r->rate);
    if ((r->kind == MR_RULE_ADAGRAD || r->kind == MR_RULE_FTRL) && r->a < 0)
        return mr_invalid("update %s: a, the initial sum, is %g, expected 0 or more", name, (double)r->a);
    if (r->kind == MR_RULE_ADAM && !(r->a > 0 && r->a < 1 && r->b > 0 && r->b < 1))
        return mr_invalid("update adam: beta1 is %g and beta2 is %g, expected values between 0 and 1",
                          (double)r->a, (double)r->b);
    return NULL;
}

/* The powers are multiplied in float, as the graphs of ApplyAdam do, so that results agree to the
 * bit. */
static mr_status *fill_adam(mr_ps_rule *r)
{
    enum { LONGEST = 1 << 20 }; /* exact for beta2 up to 0.99998; counts up to it are exact in float */
    int n = 1;
    for (float p = 1, q = 1; n < LONGEST && (p > 0x1p-26f || q > 0x1p-26f); n++)
        p *= r->a, q *= r->b;
    r->adam = mr_try_alloc((size_t)n * sizeof(float));
    if (!r->adam)
        return mr_error(MR_RESOURCE_EXHAUSTED, "update adam: no memory for %d rates", n);
    r->n_adam = n;
    r->adam[0] = 0;
    float p = 1, q = 1;
    for (int t = 1; t < n; t++) {
        p *= r->a, q *= r->b;
        r->adam[t] = r->rate * sqrtf(1 - q) / (1 - p);
    }
    return NULL;
}

/* Defaults come before the checks, so that the checks see what will be used. */
mr_status *mr_ps_rule_init(mr_ps_rule *r)
{
    r->adam = NULL;
    r->n_adam = 0;
    if ((unsigned)r->kind >= MR_RULE_KINDS)
        return mr_invalid("update: unknown kind %d", (int)r->kind);
    set_defaults(r);
    MR_TRY(check_rule(r));
    return r->kind == MR_RULE_ADAM ? fill_adam(r) : NULL;
}

void mr_ps_rule_deinit(mr_ps_rule *r)
{
    mr_free(r->adam);
    r->adam = NULL;
}

int mr_ps_rule_planes(const mr_ps_rule *r) { return facts[r->kind].planes; }

int mr_ps_rule_push_width(const mr_ps_rule *r)
{
    return r->kind == MR_RULE_PROXIMAL ? 2 * r->width : r->width;
}

/* ---- rows ---- */

/* Adagrad and FTRL start their sums at a, RMSProp its mean square at 1, as TensorFlow's slots do. */
void mr_ps_rule_start(const mr_ps_rule *r, float *planes, size_t n_rows)
{
    size_t plane = n_rows * (size_t)r->width;
    MR_ASSERT((unsigned)r->kind < MR_RULE_KINDS && r->width >= 1);
    float first = r->kind == MR_RULE_RMSPROP                                    ? 1
                  : r->kind == MR_RULE_ADAGRAD || r->kind == MR_RULE_FTRL ? r->a
                                                                                : 0;
    for (int k = 1; k < facts[r->kind].planes; k++)
        for (size_t i = 0; i < plane; i++)
            planes[(size_t)k * plane + i] = k == 1 ? first : 0;
}

/* The mixing function of splitmix64. */
static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Counter-based: every float follows from seed, key and column alone, in any order and at any server. */
void mr_ps_rule_fill(float *values, uint64_t first, size_t n_rows, int width, float start,
                     float spread, uint64_t seed)
{
    size_t n = n_rows * (size_t)width;
    uint64_t at = first * (uint64_t)width, key = mix_bits(seed + 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < n; i++) {
        int64_t bits = (int64_t)mix_bits(key + (at + i) * 0x9e3779b97f4a7c15u) >> 39; /* 25 bits with sign */
        values[i] = spread == 0 ? start : start + spread * ((float)bits * 0x1p-24f);
    }
}

void mr_ps_rule_apply(const mr_ps_rule *r, float *planes, size_t n_rows, const uint32_t *rows,
                      size_t n, const float *pushed)
{
    MR_ASSERT(rows || n <= n_rows);
    MR_ASSERT(loop_of(r));
    loop_of(r)(r, planes, n_rows * (size_t)r->width, rows, n, pushed);
}
