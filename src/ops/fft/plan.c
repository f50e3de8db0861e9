/* ops/fft/plan.c -- mixed radix transforms, and Bluestein's for lengths with a large prime factor.
 *
 * Stockham's algorithm: each factor p of n is one pass from one array to another, so no reordering is needed at the
 * end. With s the product of the factors already done, a pass transforms n / s numbers that are s apart, for s
 * neighbours at once, which is the vectorised loop:
 *
 *     t_k = x[q + s (i + m k)], k < p;   y[q + s (p i + j)] = w^(i j s) DFT_p(t)_j,   m = n / (s p)
 *
 * where w = exp(-2 pi i / n).  A prime factor beyond LARGEST costs its square; such lengths become
 * a convolution, by j k = (j^2 + k^2 - (j - k)^2) / 2, of a length that has small factors only. */
#include "ops/fft/plan.h"

#include <math.h>

#include "base/memory.h"
#include "base/simd.h"

enum { MAX_FACTORS = 64, LARGEST = 61 };

typedef struct cx {
    double re, im;
} cx;

struct mr_fft {
    mr_refs refs;
    int64_t n;
    cx *roots; /* w^k, k < n; with Bluestein: exp(-pi i k^2 / n) */
    int n_factors;
    int factors[MAX_FACTORS];
    struct mr_fft *inner; /* Bluestein's convolution, of a length >= 2n - 1; or NULL */
    cx *filter;           /* the transform of the convolution's filter */
};

MR_INLINE cx mul(cx a, cx b) { return (cx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
MR_INLINE cx add(cx a, cx b) { return (cx){a.re + b.re, a.im + b.im}; }
MR_INLINE cx sub(cx a, cx b) { return (cx){a.re - b.re, a.im - b.im}; }
MR_INLINE cx scale(cx a, double f) { return (cx){a.re * f, a.im * f}; }
MR_INLINE cx minus_i(cx a) { return (cx){a.im, -a.re}; } /* -i a */

/* ---- making ---- */

/* Factors of four come first, because they are the cheapest; false when a factor is too large. */
static bool factorize_length(int64_t n, mr_fft *f)
{
    static const int first[] = {4, 2, 3, 5};
    f->n_factors = 0;
    for (int i = 0; i < 4; i++)
        for (; n % first[i] == 0; n /= first[i])
            f->factors[f->n_factors++] = first[i];
    for (int p = 7; p <= LARGEST && n > 1; p += 2)
        for (; n % p == 0; n /= p)
            f->factors[f->n_factors++] = p;
    return n == 1;
}

static mr_status *no_memory(int64_t n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a Fourier transform of length %lld",
                    (long long)n);
}

/* exp(-2 pi i k / n), computed relative to the nearest quarter turn so that quarters are exact. */
static cx unit_root(int64_t k, int64_t n)
{
    int64_t quarter = (int64_t)rint(4 * ((double)k / (double)n));
    /* the angle of k - quarter n / 4; the difference is exact */
    double rest = (double)(4 * (__int128)k - (__int128)quarter * n) / (double)n * M_PI_2;
    double c = cos(rest), s = sin(rest);
    switch (quarter & 3) {
    case 0: return (cx){c, -s};
    case 1: return (cx){-s, -c};
    case 2: return (cx){-c, s};
    default: return (cx){s, c};
    }
}

static mr_status *make_factors(mr_fft *f)
{
    for (int64_t k = 0; k < f->n; k++)
        f->roots[k] = unit_root(k, f->n);
    return NULL;
}

static int64_t convolution_length(int64_t n)
{
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

/* The filter exp(pi i k^2 / n) for |k| < n, in cyclic order. */
static mr_status *make_filter(mr_fft *f)
{
    mr_status *st = NULL;
    int64_t n = f->n, m = convolution_length(n);
    MR_TRY(mr_fft_new(m, &f->inner));
    f->filter = mr_try_calloc((size_t)m, sizeof(cx));
    cx *room = mr_try_alloc(sizeof(cx) * (size_t)m);
    if (!f->filter || !room)
        MR_GO(no_memory(n));
    for (int64_t k = 0; k < n; k++) {
        int64_t square = (int64_t)((unsigned __int128)k * (unsigned __int128)k % (uint64_t)(2 * n));
        cx r = f->roots[k] = unit_root(square, 2 * n);
        f->filter[k] = (cx){r.re, -r.im};
        if (k > 0)
            f->filter[m - k] = f->filter[k];
    }
    mr_fft_run(f->inner, (mr_c128 *)f->filter, (mr_c128 *)room);
out:
    mr_free(room);
    return st;
}

mr_status *mr_fft_new(int64_t n, mr_fft **out)
{
    mr_status *st = NULL;
    MR_ENSURE(n > 0);
    if (n > INT64_MAX / (8 * (int64_t)sizeof(cx)))
        return no_memory(n);
    mr_fft *f = mr_new(mr_fft);
    mr_refs_init(&f->refs);
    f->n = n;
    f->roots = mr_try_alloc(sizeof(cx) * (size_t)n);
    if (!f->roots)
        MR_GO(no_memory(n));
    MR_GO(factorize_length(n, f) ? make_factors(f) : make_filter(f));
    *out = f;
    f = NULL;
out:
    mr_fft_unref(f);
    return st;
}

mr_fft *mr_fft_ref(mr_fft *f)
{
    mr_refs_take(&f->refs);
    return f;
}

void mr_fft_unref(mr_fft *f)
{
    if (!f || !mr_refs_drop(&f->refs))
        return;
    mr_fft_unref(f->inner);
    mr_free(f->roots);
    mr_free(f->filter);
    mr_free(f);
}

int64_t mr_fft_room(const mr_fft *f) { return f->inner ? 2 * f->inner->n : f->n; }

/* ---- passes: s neighbours with the p factors w[0 .. p-1]; `far` is s m ---- */

#define EACH_NEIGHBOUR MR_IVDEP for (int64_t q = 0; q < s; q++)

MR_CLONES static void radix2_pass(int64_t s, int64_t far, const cx *w, const cx *x, cx *y)
{
    EACH_NEIGHBOUR
    {
        cx a = x[q], b = x[q + far];
        y[q] = add(a, b);
        y[q + s] = mul(sub(a, b), w[1]);
    }
}

MR_CLONES static void radix3_pass(int64_t s, int64_t far, const cx *w, const cx *x, cx *y)
{
    const double half_root = 0.86602540378443864676; /* sqrt(3) / 2 */
    EACH_NEIGHBOUR
    {
        cx a = x[q], sum = add(x[q + far], x[q + 2 * far]);
        cx turn = scale(minus_i(sub(x[q + far], x[q + 2 * far])), half_root);
        cx mid = sub(a, scale(sum, 0.5));
        y[q] = add(a, sum);
        y[q + s] = mul(add(mid, turn), w[1]);
        y[q + 2 * s] = mul(sub(mid, turn), w[2]);
    }
}

MR_CLONES static void radix4_pass(int64_t s, int64_t far, const cx *w, const cx *x, cx *y)
{
    EACH_NEIGHBOUR
    {
        cx a = x[q], b = x[q + far], c = x[q + 2 * far], d = x[q + 3 * far];
        cx ac = add(a, c), bd = add(b, d), a_c = sub(a, c), b_d = minus_i(sub(b, d));
        y[q] = add(ac, bd);
        y[q + s] = mul(add(a_c, b_d), w[1]);
        y[q + 2 * s] = mul(sub(ac, bd), w[2]);
        y[q + 3 * s] = mul(sub(a_c, b_d), w[3]);
    }
}

MR_CLONES static void radix5_pass(int64_t s, int64_t far, const cx *w, const cx *x, cx *y)
{
    /* cosines and sines of a fifth and two fifths of a turn */
    const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
    const double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    EACH_NEIGHBOUR
    {
        cx a = x[q], b = x[q + far], c = x[q + 2 * far], d = x[q + 3 * far], e = x[q + 4 * far];
        cx be = add(b, e), cd = add(c, d), b_e = minus_i(sub(b, e)), c_d = minus_i(sub(c, d));
        cx m1 = add(a, add(scale(be, c1), scale(cd, c2)));
        cx m2 = add(a, add(scale(be, c2), scale(cd, c1)));
        cx t1 = add(scale(b_e, s1), scale(c_d, s2)), t2 = sub(scale(b_e, s2), scale(c_d, s1));
        y[q] = add(a, add(be, cd));
        y[q + s] = mul(add(m1, t1), w[1]);
        y[q + 2 * s] = mul(add(m2, t2), w[2]);
        y[q + 3 * s] = mul(sub(m2, t2), w[3]);
        y[q + 4 * s] = mul(sub(m1, t1), w[4]);
    }
}

/* Any factor, by the definition; `one` holds the p-th roots, `step` apart among n. */
static void pass_any(int p, int64_t s, int64_t far, const cx *w, const cx *one, int64_t step,
                     const cx *x, cx *y)
{
    EACH_NEIGHBOUR
    for (int j = 0; j < p; j++) {
        cx sum = x[q];
        for (int k = 1; k < p; k++)
            sum = add(sum, mul(x[q + k * far], one[(int64_t)(j * k % p) * step]));
        y[q + j * s] = mul(sum, w[j]);
    }
}

static void run_pass(const mr_fft *f, int p, int64_t s, const cx *x, cx *y)
{
    int64_t m = f->n / (s * p), far = s * m;
    cx w[LARGEST + 1];
    for (int64_t i = 0; i < m; i++, x += s, y += p * s) {
        for (int j = 0; j < p; j++)
            w[j] = f->roots[i * j * s];
        switch (p) {
        case 2: radix2_pass(s, far, w, x, y); break;
        case 3: radix3_pass(s, far, w, x, y); break;
        case 4: radix4_pass(s, far, w, x, y); break;
        case 5: radix5_pass(s, far, w, x, y); break;
        default: pass_any(p, s, far, w, f->roots, f->n / p, x, y);
        }
    }
}

static void run_factors(const mr_fft *f, cx *x, cx *room)
{
    cx *from = x, *to = room;
    int64_t s = 1;
    for (int i = 0; i < f->n_factors; s *= f->factors[i], i++) {
        run_pass(f, f->factors[i], s, from, to);
        cx *t = from;
        from = to;
        to = t;
    }
    if (from != x)
        memcpy(x, from, sizeof(cx) * (size_t)f->n);
}

/* Two forward transforms: the second one, of conjugates, acts as the inverse. */
static void run_convolution(const mr_fft *f, cx *x, cx *room)
{
    int64_t n = f->n, m = f->inner->n;
    cx *line = room, *more = room + m;
    for (int64_t k = 0; k < n; k++)
        line[k] = mul(x[k], f->roots[k]);
    memset(line + n, 0, sizeof(cx) * (size_t)(m - n));
    run_factors(f->inner, line, more);
    for (int64_t k = 0; k < m; k++) {
        cx v = mul(line[k], f->filter[k]);
        line[k] = (cx){v.re, -v.im};
    }
    run_factors(f->inner, line, more);
    for (int64_t k = 0; k < n; k++)
        x[k] = mul(scale((cx){line[k].re, -line[k].im}, 1 / (double)m), f->roots[k]);
}

void mr_fft_run(const mr_fft *f, mr_c128 *x, mr_c128 *room)
{
    if (f->inner)
        run_convolution(f, (cx *)x, (cx *)room);
    else
        run_factors(f, (cx *)x, (cx *)room);
}

/* ---- the cache ---- */

void mr_fft_cache_init(mr_fft_cache *c) { mr_mutex_init(&c->mu); }

void mr_fft_cache_deinit(mr_fft_cache *c)
{
    for (int i = 0; i < MR_FFT_KEPT; i++)
        mr_fft_unref(c->kept[i].plan);
    mr_mutex_deinit(&c->mu);
}

static mr_fft *find_locked(mr_fft_cache *c, int64_t n) MR_REQUIRES(c->mu)
{
    for (int i = 0; i < MR_FFT_KEPT; i++)
        if (c->kept[i].plan && c->kept[i].plan->n == n) {
            c->kept[i].used = ++c->clock;
            return mr_fft_ref(c->kept[i].plan);
        }
    return NULL;
}

/* Replaces the least recently used plan and returns it. */
static mr_fft *keep_locked(mr_fft_cache *c, mr_fft *f) MR_REQUIRES(c->mu)
{
    int oldest = 0;
    for (int i = 1; i < MR_FFT_KEPT; i++)
        if (c->kept[i].used < c->kept[oldest].used)
            oldest = i;
    mr_fft *old = c->kept[oldest].plan;
    c->kept[oldest].plan = mr_fft_ref(f);
    c->kept[oldest].used = ++c->clock;
    return old;
}

/* Creates plans without the lock; two threads may create the same one at the same time. */
mr_status *mr_fft_cache_get(mr_fft_cache *c, int64_t n, mr_fft **out)
{
    mr_lock(&c->mu);
    *out = find_locked(c, n);
    mr_unlock(&c->mu);
    if (*out)
        return NULL;
    MR_TRY(mr_fft_new(n, out));
    mr_lock(&c->mu);
    mr_fft *old = keep_locked(c, *out);
    mr_unlock(&c->mu);
    mr_fft_unref(old);
    return NULL;
}
