/* ops/fft/plan.c -- makes the tables of Fourier transforms.
 *
 * Lengths with small prime factors are transformed factor by factor (passes.h). A prime factor beyond MR_FFT_LARGEST
 * would cost its square; such lengths become a convolution, by j k = (j^2 + k^2 - (j - k)^2) / 2, of a length that
 * has small factors only. Roots are computed in double for both types. */
#include "ops/fft/plan.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

enum {
    SHORTEST = 64, /* shorter lines are not worth cutting in columns and rows */
    SIDE = 4,      /* the least number of columns and rows */
};

typedef struct cx {
    double re, im;
} cx;

static mr_status *new_plan(int64_t n, mr_dtype type, bool halves, bool always_lanes, mr_fft **out);

static mr_status *no_memory(int64_t n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a Fourier transform of length %lld",
                    (long long)n);
}

/* Memory for n real numbers of the plan's type. */
static mr_status *new_table(const mr_fft *f, int64_t n, void **out)
{
    *out = mr_try_alloc(MR_MAX(1, (size_t)n) * mr_dtype_size(f->type));
    return *out ? NULL : no_memory(f->n);
}

static void put_real(const mr_fft *f, void *table, int64_t i, double v)
{
    if (f->type == MR_FLOAT)
        ((float *)table)[i] = (float)v;
    else
        ((double *)table)[i] = v;
}

static void put(const mr_fft *f, void *table, int64_t i, cx v)
{
    put_real(f, table, 2 * i, v.re);
    put_real(f, table, 2 * i + 1, v.im);
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

/* ---- lengths with small factors ---- */

/* Powers of two as factors of 8 and at most one of 4 or 2; false when a factor is too large. Large factors come
 * first, because they are the ones that are not repeated in the innermost loop. */
static bool factorize_length(int64_t n, mr_fft *f)
{
    int twos = 0;
    f->n_factors = 0;
    for (; n % 2 == 0; n /= 2)
        twos++;
    for (; twos >= 5 || twos == 3; twos -= 3)
        f->factors[f->n_factors++] = 8;
    for (; twos >= 2; twos -= 2)
        f->factors[f->n_factors++] = 4;
    if (twos)
        f->factors[f->n_factors++] = 2;
    for (int p = 3; p <= MR_FFT_LARGEST && n > 1; p += 2)
        for (; n % p == 0; n /= p)
            f->factors[f->n_factors++] = p;
    return n == 1;
}

/* The tables of passes.h. */
static mr_status *make_passes(mr_fft *f)
{
    int64_t n_roots = 0, n_circle = 0, s = 1, at = 0;
    for (int i = 0; i < f->n_factors; s *= f->factors[i], i++) {
        n_roots += (f->n / (s * f->factors[i]) - 1) * (f->factors[i] - 1);
        n_circle += f->factors[i] & 1 ? f->factors[i] : 0;
    }
    MR_TRY(new_table(f, 2 * n_roots, &f->factors_of_passes));
    MR_TRY(new_table(f, 2 * n_circle, &f->circles));
    s = 1;
    for (int l = 0; l < f->n_factors; s *= f->factors[l], l++) {
        int p = f->factors[l];
        for (int64_t i = 1; i < f->n / (s * p); i++)
            for (int j = 1; j < p; j++)
                put(f, f->factors_of_passes, at++, unit_root(i * j, f->n / s));
    }
    at = 0;
    for (int l = 0; l < f->n_factors; l++)
        if (f->factors[l] & 1) {
            for (int k = 0; k < f->factors[l]; k++) {
                cx w = unit_root(k, f->factors[l]);
                put_real(f, f->circles, at + k, w.re);
                put_real(f, f->circles, at + f->factors[l] + k, -w.im);
            }
            at += 2 * f->factors[l];
        }
    return NULL;
}

/* The divisor below the root of n that makes the best matrix of columns and rows: next to the root, and if possible
 * with multiples of LANES on both sides. */
static int64_t middle_divisor(int64_t n)
{
    int64_t best = 1, best_even = 1;
    for (int64_t d = 1; d <= n / d; d++) {
        if (n % d != 0)
            continue;
        best = d;
        if (d % MR_FFT_LANES == 0 && n / d % MR_FFT_LANES == 0)
            best_even = d;
    }
    return 3 * best_even > best ? best_even : best;
}

/* The tables of long lines, if the length has two factors of useful size. */
static mr_status *make_long(mr_fft *f)
{
    int64_t n1 = middle_divisor(f->n), n2 = f->n / n1;
    int lanes = f->loops->lanes;
    if (n1 < SIDE)
        return NULL;
    MR_TRY(new_plan(n2, f->type, false, true, &f->rows));
    MR_TRY(new_table(f, 2 * n1 * lanes, &f->fine));
    for (int64_t k = 0; k < n1; k++)
        for (int l = 0; l < lanes; l++) {
            cx w = unit_root(k * l, f->n);
            put_real(f, f->fine, 2 * k * lanes + l, w.re);
            put_real(f, f->fine, (2 * k + 1) * lanes + l, w.im);
        }
    while (((int64_t)1 << 2 * f->coarse_bits) < f->n)
        f->coarse_bits++;
    int64_t low = (int64_t)1 << f->coarse_bits, high = f->n / low + 1;
    f->coarse = mr_try_alloc(sizeof(cx) * (size_t)high);
    f->coarse_low = mr_try_alloc(sizeof(cx) * (size_t)low);
    if (!f->coarse || !f->coarse_low)
        return no_memory(f->n);
    for (int64_t k = 0; k < high; k++)
        ((cx *)f->coarse)[k] = unit_root(k * low % f->n, f->n);
    for (int64_t k = 0; k < low; k++)
        ((cx *)f->coarse_low)[k] = unit_root(k % f->n, f->n);
    return new_plan(n1, f->type, false, true, &f->columns);
}

/* ---- other lengths ---- */

/* About the time of a transform of this length; infinite if it has factors beyond 7. */
static double cost_of_length(int64_t n)
{
    static const struct {
        int factor;
        double cost;
    } factors[] = {{8, 1.6}, {4, 1.1}, {2, 0.8}, {3, 1.2}, {5, 2}, {7, 3}};
    double sum = 1;
    int64_t rest = n;
    for (int i = 0; i < MR_COUNT(factors); i++)
        for (; rest % factors[i].factor == 0; rest /= factors[i].factor)
            sum += factors[i].cost;
    return rest == 1 ? sum * (double)n : INFINITY;
}

/* The cheapest length from n on; long ones are multiples of 64, so that they can be cut without a remainder. */
static int64_t convolution_length(int64_t n)
{
    int64_t step = n > 1024 ? 64 : 1, best = 0;
    double least = INFINITY;
    for (int64_t m = (n + step - 1) / step * step; m <= 2 * n + 64; m += step)
        if (cost_of_length(m) < least) {
            least = cost_of_length(m);
            best = m;
        }
    return best;
}

/* The filter exp(pi i k^2 / n) for |k| < n, in cyclic order, transformed in double. */
static mr_status *transform_filter(mr_fft *f, const cx *chirp)
{
    mr_status *st = NULL;
    int64_t m = f->inner->n;
    mr_fft *plan = NULL;
    cx *line = mr_try_calloc((size_t)m, sizeof(cx));
    char *room = NULL;
    MR_GO(new_plan(m, MR_DOUBLE, false, true, &plan));
    const mr_fft_loops *loops = plan->loops;
    room = mr_try_alloc((2 * (size_t)m + 1) * MR_FFT_LANES_BYTES);
    if (!line || !room)
        MR_GO(no_memory(f->n));
    for (int64_t k = 0; k < f->n; k++) {
        line[k] = (cx){chirp[k].re, -chirp[k].im};
        if (k > 0)
            line[m - k] = line[k];
    }
    const void *lines[MR_FFT_LANES];
    for (int l = 0; l < MR_FFT_LANES; l++)
        lines[l] = line;
    char *x = room + (-(uintptr_t)room & (MR_FFT_LANES_BYTES - 1)); /* aligned */
    loops->load_along(2 * m, lines, 1, false, x);
    void *y = loops->run(plan, x, x + (size_t)m * MR_FFT_LANES_BYTES);
    for (int64_t k = 0; k < m; k++)
        put(f, f->filter, k, (cx){loops->get(y, k, 0, 0), loops->get(y, k, 1, 0)});
out:
    mr_free(line);
    mr_free(room);
    mr_fft_unref(plan);
    return st;
}

static mr_status *make_convolution(mr_fft *f)
{
    int64_t n = f->n;
    MR_TRY(new_plan(convolution_length(2 * n - 1), f->type, false, false, &f->inner));
    MR_TRY(new_table(f, 2 * n, &f->chirp));
    MR_TRY(new_table(f, 2 * f->inner->n, &f->filter));
    cx *chirp = mr_try_alloc(sizeof(cx) * (size_t)n);
    if (!chirp)
        return no_memory(n);
    for (int64_t k = 0; k < n; k++) {
        int64_t square = (int64_t)((unsigned __int128)k * (unsigned __int128)k % (uint64_t)(2 * n));
        chirp[k] = unit_root(square, 2 * n);
        put(f, f->chirp, k, chirp[k]);
    }
    mr_status *st = transform_filter(f, chirp);
    mr_free(chirp);
    return st;
}

/* ---- */

static mr_status *make_turns(mr_fft *f)
{
    MR_TRY(new_table(f, f->n + 2, &f->turns));
    for (int64_t k = 0; k <= f->n / 2; k++)
        put(f, f->turns, k, unit_root(k, 2 * f->n));
    return NULL;
}

/* always_lanes: also if the line is long. */
static mr_status *new_plan(int64_t n, mr_dtype type, bool halves, bool always_lanes, mr_fft **out)
{
    mr_status *st = NULL;
    MR_ENSURE(n > 0);
    if (n > INT64_MAX / (32 * MR_FFT_LANES_BYTES))
        return no_memory(n);
    mr_fft *f = mr_new(mr_fft);
    mr_refs_init(&f->refs);
    f->n = n;
    f->type = type;
    f->loops = mr_fft_loops_of(type);
    if (!factorize_length(n, f)) {
        MR_GO(make_convolution(f));
    } else {
        if (n >= SHORTEST && !(always_lanes && n <= MR_FFT_MOST_IN_LANES))
            MR_GO(make_long(f));
        bool pairs = n % 2 == 1 && n <= MR_FFT_MOST_IN_PAIRS;
        if (always_lanes || pairs || n <= MR_FFT_MOST_IN_LANES || !f->columns)
            MR_GO(make_passes(f));
    }
    if (halves)
        MR_GO(make_turns(f));
    *out = f;
    f = NULL;
out:
    mr_fft_unref(f);
    return st;
}

mr_status *mr_fft_new(int64_t n, mr_dtype type, bool halves, mr_fft **out)
{
    return new_plan(n, type, halves, false, out);
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
    mr_fft_unref(f->columns);
    mr_fft_unref(f->rows);
    void *tables[] = {f->factors_of_passes, f->circles, f->turns, f->chirp, f->filter, f->fine};
    for (int i = 0; i < MR_COUNT(tables); i++)
        mr_free(tables[i]);
    mr_free(f->coarse);
    mr_free(f->coarse_low);
    mr_free(f);
}

bool mr_fft_has_lanes(const mr_fft *f) 
{
    return f->inner ? mr_fft_has_lanes(f->inner) : f->factors_of_passes != NULL;
}
bool mr_fft_has_long(const mr_fft *f) { return (f->inner ? f->inner : f)->columns != NULL; }

size_t mr_fft_lanes_room(const mr_fft *f)
{
    return (size_t)(f->inner ? 2 * f->inner->n : f->n) * MR_FFT_LANES_BYTES;
}

/* As run_long divides it: arrays of one line, and two of the longer side in lanes. */
size_t mr_fft_long_room(const mr_fft *f)
{
    const mr_fft *g = f->inner ? f->inner : f;
    size_t line = ((size_t)(2 * g->n) + 15) / 16 * 16 * mr_dtype_size(f->type);
    size_t lanes = 2 * (size_t)MR_MAX(g->columns->n, g->rows->n) * MR_FFT_LANES_BYTES;
    return (f->inner ? 2 : 1) * line + lanes;
}

/* ---- the cache ---- */

void mr_fft_cache_init(mr_fft_cache *c) { mr_mutex_init(&c->mu); }

void mr_fft_cache_deinit(mr_fft_cache *c)
{
    for (int i = 0; i < MR_FFT_KEPT; i++)
        mr_fft_unref(c->kept[i].plan);
    mr_mutex_deinit(&c->mu);
}

static mr_fft *find_locked(mr_fft_cache *c, int64_t n, mr_dtype type, bool halves) MR_REQUIRES(c->mu)
{
    for (int i = 0; i < MR_FFT_KEPT; i++) {
        mr_fft *f = c->kept[i].plan;
        if (f && f->n == n && f->type == type && (f->turns || !halves)) {
            c->kept[i].used = ++c->clock;
            return mr_fft_ref(f);
        }
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
mr_status *mr_fft_cache_get(mr_fft_cache *c, int64_t n, mr_dtype type, bool halves, mr_fft **out)
{
    mr_lock(&c->mu);
    *out = find_locked(c, n, type, halves);
    mr_unlock(&c->mu);
    if (*out)
        return NULL;
    MR_TRY(mr_fft_new(n, type, halves, out));
    mr_lock(&c->mu);
    mr_fft *old = keep_locked(c, *out);
    mr_unlock(&c->mu);
    mr_fft_unref(old);
    return NULL;
}
