/* ops/fft/passes.h -- transforms of several lines at once, one in each lane of a vector; included for float and double.
 *
 * The including file defines R, LANES (numbers in 32 bytes), FN(name), and TURN(from, to), which transposes LANES
 * vectors. A cv holds the same complex number of LANES lines, so no pass has to exchange lanes. Compilers split the
 * vectors if the CPU's are shorter.
 *
 * Stockham's algorithm: each factor p of n is one pass from one array to another, so no reordering is needed at the
 * end. With s the product of the factors already done and m = n / (s p), a pass computes for i < m and q < s
 *
 *     t_k = x[q + s (i + m k)], k < p;   y[q + s (p i + j)] = w^(i j s) DFT_p(t)_j
 *
 * where w = exp(-2 pi i / n). The factors w^(i j s) are stored in this order, for i > 0 and j > 0. */

typedef R FN(vec) __attribute__((vector_size(32)));
typedef R FN(loose) __attribute__((vector_size(32), aligned(sizeof(R)), may_alias));
typedef struct FN(cv) {
    FN(vec) re, im;
} FN(cv);
#define V FN(vec)
#define CV FN(cv)

#define SUM(r, a, b) const CV r = {(a).re + (b).re, (a).im + (b).im}
#define DIFFERENCE(r, a, b) const CV r = {(a).re - (b).re, (a).im - (b).im}
/* -i (a - b) */
#define TURNED_DIFFERENCE(r, a, b) const CV r = {(a).im - (b).im, (b).re - (a).re}
/* y[j] = the value times the j-th factor; without factors they are all 1. */
#define PUT(j, re_, im_)                                        \
    do {                                                        \
        const V a_ = (re_), b_ = (im_);                         \
        CV *to_ = y + q + (j) * s;                              \
        if ((j) == 0 || !w) {                                   \
            to_->re = a_;                                       \
            to_->im = b_;                                       \
        } else {                                                \
            const R c_ = w[2 * (j) - 2], d_ = w[2 * (j) - 1];   \
            to_->re = a_ * c_ - b_ * d_;                        \
            to_->im = a_ * d_ + b_ * c_;                        \
        }                                                       \
    } while (0)
#define PUT_SUM(j, a, b) PUT(j, (a).re + (b).re, (a).im + (b).im)
#define PUT_DIFFERENCE(j, a, b) PUT(j, (a).re - (b).re, (a).im - (b).im)

/* One i of a pass: s neighbours with the factors w, or NULL; `far` is s m. */
MR_INLINE void FN(radix2)(int64_t s, int64_t far, const R *w, const CV *x, CV *y)
{
    for (int64_t q = 0; q < s; q++) {
        const CV a = x[q], b = x[q + far];
        PUT_SUM(0, a, b);
        PUT_DIFFERENCE(1, a, b);
    }
}

MR_INLINE void FN(radix4)(int64_t s, int64_t far, const R *w, const CV *x, CV *y)
{
    for (int64_t q = 0; q < s; q++) {
        const CV a = x[q], b = x[q + far], c = x[q + 2 * far], d = x[q + 3 * far];
        SUM(ac, a, c);
        SUM(bd, b, d);
        DIFFERENCE(a_c, a, c);
        TURNED_DIFFERENCE(b_d, b, d);
        PUT_SUM(0, ac, bd);
        PUT_SUM(1, a_c, b_d);
        PUT_DIFFERENCE(2, ac, bd);
        PUT_DIFFERENCE(3, a_c, b_d);
    }
}

MR_INLINE void FN(radix8)(int64_t s, int64_t far, const R *w, const CV *x, CV *y)
{
    const R half_root = (R)0.70710678118654752440; /* sqrt(1 / 2) */
    for (int64_t q = 0; q < s; q++) {
        const CV *x_ = x + q;
        SUM(a, x_[0], x_[4 * far]);
        DIFFERENCE(b, x_[0], x_[4 * far]);
        SUM(c, x_[2 * far], x_[6 * far]);
        TURNED_DIFFERENCE(d, x_[2 * far], x_[6 * far]);
        SUM(e0, a, c);
        SUM(e1, b, d);
        DIFFERENCE(e2, a, c);
        DIFFERENCE(e3, b, d);
        SUM(f, x_[far], x_[5 * far]);
        DIFFERENCE(g, x_[far], x_[5 * far]);
        SUM(h, x_[3 * far], x_[7 * far]);
        TURNED_DIFFERENCE(k, x_[3 * far], x_[7 * far]);
        SUM(o0, f, h);
        SUM(g1, g, k);
        TURNED_DIFFERENCE(o2, f, h);
        DIFFERENCE(g3, g, k);
        const CV o1 = {(g1.re + g1.im) * half_root, (g1.im - g1.re) * half_root};
        const CV o3 = {(g3.im - g3.re) * half_root, (g3.re + g3.im) * -half_root};
        PUT_SUM(0, e0, o0);
        PUT_SUM(1, e1, o1);
        PUT_SUM(2, e2, o2);
        PUT_SUM(3, e3, o3);
        PUT_DIFFERENCE(4, e0, o0);
        PUT_DIFFERENCE(5, e1, o1);
        PUT_DIFFERENCE(6, e2, o2);
        PUT_DIFFERENCE(7, e3, o3);
    }
}

/* Any odd factor: x[k] and x[p - k] are multiplied by conjugated roots, so their sum meets the cosines and their
 * difference the sines. `circle` has the cosines and then the sines of k / p turns, k < p. */
MR_INLINE void FN(radix_odd)(int p, int64_t s, int64_t far, const R *circle, const R *w, const CV *x, CV *y)
{
    for (int64_t q = 0; q < s; q++) {
        CV sums[LARGEST / 2], differences[LARGEST / 2], first = x[q], all = first;
        for (int k = 1; k <= p / 2; k++) {
            SUM(a, x[q + k * far], x[q + (p - k) * far]);
            DIFFERENCE(b, x[q + k * far], x[q + (p - k) * far]);
            sums[k - 1] = a;
            differences[k - 1] = b;
            all.re += a.re;
            all.im += a.im;
        }
        PUT(0, all.re, all.im);
        for (int j = 1; j <= p / 2; j++) {
            CV a = first, b = {{0}, {0}};
            for (int k = 1, at = j; k <= p / 2; k++, at += at + j >= p ? j - p : j) {
                const R c = circle[at], t = circle[p + at];
                a.re += sums[k - 1].re * c;
                a.im += sums[k - 1].im * c;
                b.re += differences[k - 1].re * t;
                b.im += differences[k - 1].im * t;
            }
            PUT(j, a.re + b.im, a.im - b.re);
            PUT(p - j, a.re - b.im, a.im + b.re);
        }
    }
}

/* ---- passes ---- */

#define EACH_I(call_with, call_without)                                            \
    for (int64_t i = 0; i < m; i++, x += s, y += p * s) {                          \
        if (i == 0) {                                                              \
            call_without;                                                          \
            continue;                                                              \
        }                                                                          \
        call_with;                                                                 \
        w += 2 * (p - 1);                                                          \
    }
#define PASS(name, p_)                                                                                \
    MR_CLONES static void FN(name##_pass)(int64_t s, int64_t m, const R *w, const CV *x, CV *y)       \
    {                                                                                                 \
        const int64_t p = p_;                                                                         \
        EACH_I(FN(name)(s, s * m, w, x, y), FN(name)(s, s * m, NULL, x, y))                           \
    }
#define ODD_PASS(name, p_)                                                                            \
    MR_CLONES static void FN(name)(int64_t s, int64_t m, const R *circle, const R *w, const CV *x, CV *y) \
    {                                                                                                 \
        const int p = p_;                                                                             \
        EACH_I(FN(radix_odd)(p, s, s * m, circle, w, x, y), FN(radix_odd)(p, s, s * m, circle, NULL, x, y)) \
    }

PASS(radix2, 2)
PASS(radix4, 4)
PASS(radix8, 8)
ODD_PASS(radix3_pass, 3)
ODD_PASS(radix5_pass, 5)
ODD_PASS(radix7_pass, 7)

MR_CLONES static void FN(any_pass)(int p, int64_t s, int64_t m, const R *circle, const R *w, const CV *x, CV *y)
{
    EACH_I(FN(radix_odd)(p, s, s * m, circle, w, x, y), FN(radix_odd)(p, s, s * m, circle, NULL, x, y))
}

/* Transforms the lines of x; returns x or room, whichever has the result. */
static CV *FN(run_factors)(const mr_fft *f, CV *x, CV *room)
{
    int64_t s = 1, n = f->n;
    const R *w = f->factors_of_passes, *circle = f->circles;
    for (int i = 0; i < f->n_factors; i++) {
        int p = f->factors[i];
        int64_t m = n / (s * p);
        switch (p) {
        case 2: FN(radix2_pass)(s, m, w, x, room); break;
        case 4: FN(radix4_pass)(s, m, w, x, room); break;
        case 8: FN(radix8_pass)(s, m, w, x, room); break;
        case 3: FN(radix3_pass)(s, m, circle, w, x, room); break;
        case 5: FN(radix5_pass)(s, m, circle, w, x, room); break;
        case 7: FN(radix7_pass)(s, m, circle, w, x, room); break;
        default: FN(any_pass)(p, s, m, circle, w, x, room);
        }
        w += 2 * (m - 1) * (p - 1);
        circle += p & 1 ? 2 * p : 0;
        s *= p;
        CV *t = x;
        x = room;
        room = t;
    }
    return x;
}

/* ---- Bluestein's convolution ---- */

/* to[k] = x[k] chirp[k] */
MR_CLONES static void FN(chirp)(int64_t n, const R *w, const CV *x, CV *to, R scale)
{
    for (int64_t k = 0; k < n; k++) {
        const R c = w[2 * k] * scale, d = w[2 * k + 1] * scale;
        const V a = x[k].re, b = x[k].im;
        to[k].re = a * c - b * d;
        to[k].im = a * d + b * c;
    }
}

/* The same with real and imaginary parts exchanged, which makes the second transform an inverse one. */
MR_CLONES static void FN(chirp_exchanged)(int64_t n, const R *w, CV *x)
{
    for (int64_t k = 0; k < n; k++) {
        const R c = w[2 * k], d = w[2 * k + 1];
        const V a = x[k].re, b = x[k].im;
        x[k].im = a * c - b * d;
        x[k].re = a * d + b * c;
    }
}

MR_CLONES static void FN(exchange)(int64_t n, CV *x)
{
    for (int64_t k = 0; k < n; k++) {
        const V a = x[k].re;
        x[k].re = x[k].im;
        x[k].im = a;
    }
}

/* x has room for n numbers, `room` for twice the length of the convolution. */
static CV *FN(run_convolution)(const mr_fft *f, CV *x, CV *room)
{
    int64_t n = f->n, m = f->inner->n;
    CV *other = room + m;
    FN(chirp)(n, f->chirp, x, room, 1);
    memset(room + n, 0, sizeof(CV) * (size_t)(m - n));
    CV *a = FN(run_factors)(f->inner, room, other);
    FN(chirp_exchanged)(m, f->filter, a);
    a = FN(run_factors)(f->inner, a, a == room ? other : room);
    FN(exchange)(n, a);
    FN(chirp)(n, f->chirp, a, x, (R)(1 / (double)m));
    return x;
}

static CV *FN(run_lanes)(const mr_fft *f, CV *x, CV *room)
{
    return f->inner ? FN(run_convolution)(f, x, room) : FN(run_factors)(f, x, room);
}

/* ---- between memory and lanes ---- */

/* Lanes are neighbours in memory, `step` complex numbers apart along the line; `exchange` swaps the parts. */
MR_CLONES static void FN(load_across)(int64_t n, const void *from_, int64_t step, bool exchange, void *to_)
{
    const R *from = from_;
    CV *to = to_;
    for (int64_t j = 0; j < n; j++, from += 2 * step) {
        const V a = *(const FN(loose) *)from, b = *(const FN(loose) *)(from + LANES);
        const V re = __builtin_shufflevector(a, b, EVENS), im = __builtin_shufflevector(a, b, ODDS);
        to[j].re = exchange ? im : re;
        to[j].im = exchange ? re : im;
    }
}

MR_CLONES static void FN(store_across)(int64_t n, const void *from_, bool exchange, double scale, void *to_,
                                       int64_t step)
{
    const CV *from = from_;
    const R f = (R)scale;
    R *to = to_;
    for (int64_t j = 0; j < n; j++, to += 2 * step) {
        const V re = (exchange ? from[j].im : from[j].re) * f, im = (exchange ? from[j].re : from[j].im) * f;
        *(FN(loose) *)to = __builtin_shufflevector(re, im, LOW_PAIRS);
        *(FN(loose) *)(to + LANES) = __builtin_shufflevector(re, im, HIGH_PAIRS);
    }
}

/* Each line is contiguous: `parts` real numbers, which become every `step`-th vector of `to`; `exchange` (with a
 * step of 1) swaps each pair of them. */
MR_INLINE void FN(load_steps)(int64_t parts, const void *const *from, int step, bool exchange, void *to_)
{
    const R *lines[LANES];
    V *to = to_;
    int64_t j = 0;
    for (int l = 0; l < LANES; l++)
        lines[l] = from[l];
    for (; j + LANES <= parts; j += LANES) {
        V row[LANES], turned[LANES];
#pragma GCC unroll 8
        for (int l = 0; l < LANES; l++)
            row[l] = *(const FN(loose) *)(lines[l] + j);
        TURN(row, turned);
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++)
            to[(step * (j + i)) ^ exchange] = turned[i];
    }
    for (; j < parts; j++)
        for (int l = 0; l < LANES; l++)
            to[(step * j) ^ exchange][l] = lines[l][j];
}

MR_CLONES static void FN(load_along)(int64_t parts, const void *const *from, int step, bool exchange, void *to)
{
    if (step == 2)
        FN(load_steps)(parts, from, 2, false, to);
    else if (exchange)
        FN(load_steps)(parts, from, 1, true, to);
    else
        FN(load_steps)(parts, from, 1, false, to);
}

MR_INLINE void FN(store_steps)(int64_t parts, const void *from_, int step, bool exchange, double scale,
                               void *const *to, int count)
{
    const V *from = from_;
    const R f = (R)scale;
    int64_t j = 0;
    for (; j + LANES <= parts; j += LANES) {
        V row[LANES], turned[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++)
            row[i] = from[(step * (j + i)) ^ exchange] * f;
        TURN(row, turned);
#pragma GCC unroll 8
        for (int l = 0; l < LANES; l++)
            if (l < count)
                *(FN(loose) *)((R *)to[l] + j) = turned[l];
    }
    for (; j < parts; j++)
        for (int l = 0; l < count; l++)
            ((R *)to[l])[j] = from[(step * j) ^ exchange][l] * f;
}

MR_CLONES static void FN(store_along)(int64_t parts, const void *from, int step, bool exchange, double scale,
                                      void *const *to, int count)
{
    if (step == 2)
        FN(store_steps)(parts, from, 2, false, scale, to, count);
    else if (exchange)
        FN(store_steps)(parts, from, 1, true, scale, to, count);
    else if (count == LANES)
        FN(store_steps)(parts, from, 1, false, scale, to, LANES);
    else
        FN(store_steps)(parts, from, 1, false, scale, to, count);
}

/* One part of one lane, for what has no faster way. */
static void FN(set)(void *x, int64_t j, int part, int lane, double value)
{
    (part ? &((CV *)x)[j].im : &((CV *)x)[j].re)[0][lane] = (R)value;
}

static double FN(get)(const void *x, int64_t j, int part, int lane)
{
    return (part ? &((const CV *)x)[j].im : &((const CV *)x)[j].re)[0][lane];
}

/* ---- real numbers: a line of n = 2 h of them is transformed as h complex numbers ---- */

/* separate: the first h + 1 numbers of the transform of the real line from that of the complex one, in place. For the
 * transform E of the even entries and O of the odd ones: X[k] = E[k] + w^k O[k], X[h - k] = conj(E[k] - w^k O[k]).
 *
 * combine: the reverse, times two. In lanes it exchanges the parts, as the inverse transform needs it. The imaginary
 * parts of the first and the last number are not read. */
#define SEPARATE(name, C, S, RE, IM)                                                                 \
    MR_CLONES static void FN(separate##name)(int64_t h, const void *roots, void *line)       \
    {                                                                                        \
        const R *w = roots;                                                                  \
        C *x = line;                                                                         \
        const C first = x[0];                                                                \
        x[0].re = first.re + first.im;                                                       \
        x[h].re = first.re - first.im;                                                       \
        x[0].im = x[h].im = (S){0};                                                          \
        for (int64_t k = 1; k <= h / 2; k++) {                                               \
            const C a = x[k], b = x[h - k];                                                  \
            const S er = (a.re + b.re) * (R)0.5, ei = (a.im - b.im) * (R)0.5;                \
            const S or = (a.im + b.im) * (R)0.5, oi = (b.re - a.re) * (R)0.5;                \
            const R c = w[2 * k], d = w[2 * k + 1];                                          \
            const S tr = or * c - oi * d, ti = or * d + oi * c;                              \
            x[h - k].re = er - tr;                                                           \
            x[h - k].im = ti - ei;                                                           \
            x[k].re = er + tr;                                                               \
            x[k].im = ei + ti;                                                               \
        }                                                                                    \
    }                                                                                        \
    MR_CLONES static void FN(combine##name)(int64_t h, const void *roots, void *line)        \
    {                                                                                        \
        const R *w = roots;                                                                  \
        C *x = line;                                                                         \
        const S first = x[0].re, last = x[h].re;                                             \
        x[0].RE = first + last;                                                              \
        x[0].IM = first - last;                                                              \
        for (int64_t k = 1; k <= h / 2; k++) {                                               \
            const C a = x[k], b = x[h - k];                                                  \
            const S er = a.re + b.re, ei = a.im - b.im, tr = a.re - b.re, ti = a.im + b.im;  \
            const R c = w[2 * k], d = -w[2 * k + 1];                                         \
            const S or = tr * c - ti * d, oi = tr * d + ti * c;                              \
            x[h - k].RE = er + oi;                                                           \
            x[h - k].IM = or - ei;                                                           \
            x[k].RE = er - oi;                                                               \
            x[k].IM = ei + or;                                                               \
        }                                                                                    \
    }
/* Pairs of real lines of odd length n = 2 h + 1, one being the real part and the other the imaginary part of a complex
 * line. From their transform x, the first h + 1 numbers of the transform of each, one after the other; and back. */
MR_CLONES static void FN(separate_pairs)(int64_t n, const void *from, void *to)
{
    const CV *x = from;
    CV *a = to, *b = a + n / 2 + 1;
    a[0].re = x[0].re;
    b[0].re = x[0].im;
    a[0].im = b[0].im = (V){0};
    for (int64_t k = 1; k <= n / 2; k++) {
        const CV u = x[k], v = x[n - k];
        a[k].re = (u.re + v.re) * (R)0.5;
        a[k].im = (u.im - v.im) * (R)0.5;
        b[k].re = (u.im + v.im) * (R)0.5;
        b[k].im = (v.re - u.re) * (R)0.5;
    }
}

/* With exchanged parts, as the inverse transform needs it. */
MR_CLONES static void FN(combine_pairs)(int64_t n, const void *from, void *to)
{
    const CV *a = from, *b = a + n / 2 + 1;
    CV *x = to;
    x[0].im = a[0].re;
    x[0].re = b[0].re;
    for (int64_t k = 1; k <= n / 2; k++) {
        x[k].im = a[k].re - b[k].im;
        x[k].re = a[k].im + b[k].re;
        x[n - k].im = a[k].re + b[k].im;
        x[n - k].re = b[k].re - a[k].im;
    }
}

typedef struct FN(cx) {
    R re, im;
} FN(cx);
SEPARATE(_lanes, CV, V, im, re)
SEPARATE(_line, FN(cx), R, re, im)

/* ---- long lines ---- */

/* x[k1] times w^(k1 (j + l)) in lane l. The power of j is computed in double from two tables. */
MR_CLONES static void FN(twist)(const mr_fft *f, int64_t j, CV *x)
{
    const FN(loose) *fine = f->fine;
    for (int64_t k = 1; k < f->columns->n; k++) {
        const int64_t power = k * j, high = power >> f->coarse_bits, low = power & (((int64_t)1 << f->coarse_bits) - 1);
        const double *a = f->coarse + 2 * high, *b = f->coarse_low + 2 * low;
        const R c = (R)(a[0] * b[0] - a[1] * b[1]), d = (R)(a[0] * b[1] + a[1] * b[0]);
        const FN(loose) *t = fine + 2 * k;
        const V wr = t[0] * c - t[1] * d, wi = t[0] * d + t[1] * c;
        const V re = x[k].re, im = x[k].im;
        x[k].re = re * wr - im * wi;
        x[k].im = re * wi + im * wr;
    }
}

/* The last group of lanes is not full: the others repeat the last one, and are not stored. */
static void FN(load_few)(int64_t n, const R *from, int64_t step, int count, bool exchange, CV *to)
{
    for (int64_t j = 0; j < n; j++, from += 2 * step)
        for (int l = 0; l < LANES; l++) {
            const R *v = from + 2 * MR_MIN(l, count - 1);
            to[j].re[l] = v[exchange];
            to[j].im[l] = v[!exchange];
        }
}

static void FN(store_few)(int64_t n, const CV *from, bool exchange, R scale, R *to, int64_t step, int count)
{
    for (int64_t j = 0; j < n; j++, to += 2 * step)
        for (int l = 0; l < count; l++) {
            to[2 * l + exchange] = from[j].re[l] * scale;
            to[2 * l + !exchange] = from[j].im[l] * scale;
        }
}

/* n = n1 n2: the line is a matrix of n1 x n2. Its columns are transformed, then multiplied by powers of w, then the
 * rows are transformed; the result is the transpose. So all vectors are full, and all the data of a group of lanes is
 * in the caches. `middle` has space for n numbers; from and to may be the same. */
static void FN(run_long_factors)(const mr_fft *f, const R *from, bool exchange, double scale, R *to, R *middle, CV *x)
{
    int64_t n1 = f->columns->n, n2 = f->rows->n;
    CV *room = x + MR_MAX(n1, n2);
    for (int64_t j = 0; j < n2; j += LANES) {
        int count = (int)MR_MIN(LANES, n2 - j);
        if (count == LANES)
            FN(load_across)(n1, from + 2 * j, n2, exchange, x);
        else
            FN(load_few)(n1, from + 2 * j, n2, count, exchange, x);
        CV *y = FN(run_factors)(f->columns, x, room);
        FN(twist)(f, j, y);
        if (count == LANES)
            FN(store_across)(n1, y, false, 1, middle + 2 * j, n2);
        else
            FN(store_few)(n1, y, false, 1, middle + 2 * j, n2, count);
    }
    for (int64_t k = 0; k < n1; k += LANES) {
        int count = (int)MR_MIN(LANES, n1 - k);
        const void *lines[LANES];
        for (int l = 0; l < LANES; l++)
            lines[l] = middle + 2 * n2 * (k + MR_MIN(l, count - 1));
        FN(load_along)(2 * n2, lines, 1, false, x);
        CV *y = FN(run_factors)(f->rows, x, room);
        if (count == LANES)
            FN(store_across)(n2, y, exchange, scale, to + 2 * k, n1);
        else
            FN(store_few)(n2, y, exchange, (R)scale, to + 2 * k, n1, count);
    }
}

/* to = x w f, number by number; the parts of x, or of the result, are exchanged. to may be x. */
MR_INLINE void FN(multiply_numbers)(int64_t n, const FN(cx) *x, const bool exchange_x, const FN(cx) *w, R f,
                                    const bool exchange, FN(cx) *to)
{
    MR_IVDEP for (int64_t k = 0; k < n; k++) {
        const R a = exchange_x ? x[k].im : x[k].re, b = exchange_x ? x[k].re : x[k].im;
        const R re = (a * w[k].re - b * w[k].im) * f, im = (a * w[k].im + b * w[k].re) * f;
        to[k].re = exchange ? im : re;
        to[k].im = exchange ? re : im;
    }
}

/* A loop for each case that occurs, without tests inside. */
MR_CLONES static void FN(multiply_line)(int64_t n, const FN(cx) *x, bool exchange_x, const FN(cx) *w, double scale,
                                        bool exchange, FN(cx) *to)
{
    MR_ASSERT(!exchange_x || !exchange);
    if (exchange_x)
        FN(multiply_numbers)(n, x, true, w, (R)scale, false, to);
    else if (exchange)
        FN(multiply_numbers)(n, x, false, w, (R)scale, true, to);
    else
        FN(multiply_numbers)(n, x, false, w, (R)scale, false, to);
}

/* As run_convolution, for one line. */
static void FN(run_long)(const mr_fft *f, const void *from, bool exchange, double scale, void *to, void *room)
{
    if (f->columns) {
        FN(run_long_factors)(f, from, exchange, scale, to, room, (CV *)((R *)room + round_up(2 * f->n)));
        return;
    }
    int64_t m = f->inner->n;
    R *line = room, *middle = line + round_up(2 * m);
    CV *x = (CV *)(middle + round_up(2 * m));
    FN(multiply_line)(f->n, from, exchange, f->chirp, 1, false, (FN(cx) *)line);
    memset(line + 2 * f->n, 0, sizeof(R) * 2 * (size_t)(m - f->n));
    FN(run_long_factors)(f->inner, line, false, 1, line, middle, x);
    FN(multiply_line)(m, (FN(cx) *)line, false, f->filter, 1, false, (FN(cx) *)line);
    FN(run_long_factors)(f->inner, line, true, 1 / (double)m, line, middle, x);
    FN(multiply_line)(f->n, (FN(cx) *)line, false, f->chirp, scale, exchange, to);
}

static void *FN(run_any)(const mr_fft *f, void *x, void *room) { return FN(run_lanes)(f, x, room); }

static const mr_fft_loops FN(loops) = {
    .lanes = LANES,
    .run = FN(run_any),
    .load_across = FN(load_across),
    .store_across = FN(store_across),
    .load_along = FN(load_along),
    .store_along = FN(store_along),
    .set = FN(set),
    .get = FN(get),
    .separate_lanes = FN(separate_lanes),
    .combine_lanes = FN(combine_lanes),
    .separate_pairs = FN(separate_pairs),
    .combine_pairs = FN(combine_pairs),
    .separate_line = FN(separate_line),
    .combine_line = FN(combine_line),
    .run_long = FN(run_long),
};

#undef V
#undef CV
#undef SUM
#undef DIFFERENCE
#undef TURNED_DIFFERENCE
#undef PUT
#undef PUT_SUM
#undef PUT_DIFFERENCE
#undef EACH_I
#undef PASS
#undef ODD_PASS
#undef SEPARATE
