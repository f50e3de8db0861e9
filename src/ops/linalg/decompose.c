/* ops/linalg/decompose.c -- by Householder's reflections, implicit QL and Jacobi's rotations.
 *
 * A reflection is I - tau v v^H with v[0] = 1, chosen so that its adjoint maps a given vector onto a real multiple
 * of the first unit vector.  Eigenvalues: the matrix is reduced to a real tridiagonal one, which QL iterations with
 * shifts make diagonal. Singular values: rotations of pairs of rows (one-sided Jacobi) make the rows of the
 * triangle of a QR factorization orthogonal, which keeps small singular values accurate. */
#ifndef T /* ---- read once ---- */
#include "ops/linalg/decompose.h"

#include <complex.h>
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/complex_mul.h"

enum { MAX_QL = 60, MAX_SWEEPS = 60 };
/* Rows shorter than this, relative to the longest, have no meaningful direction. */
#define NOISE(n) (DBL_EPSILON * sqrt((double)(n)))

/* The sum of x[i] y[i], and for complex rows (pairs) of x[re] y[im] - x[im] y[re]. Several sums are computed at a
 * time, because each addition would otherwise wait for the previous one. */
enum { LANES = 8 };

MR_CLONES static double dot_rows(const double *x, const double *y, int64_t n)
{
    double sums[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            sums[l] += x[i + l] * y[i + l];
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (int l = 0; l < LANES; l++)
        sum += sums[l];
    return sum;
}

MR_CLONES static double cross_rows(const double *x, const double *y, int64_t pairs)
{
    double sums[4] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 4 <= pairs; i += 4)
        for (int l = 0; l < 4; l++)
            sums[l] += x[2 * (i + l)] * y[2 * (i + l) + 1] - x[2 * (i + l) + 1] * y[2 * (i + l)];
    for (; i < pairs; i++)
        sum += x[2 * i] * y[2 * i + 1] - x[2 * i + 1] * y[2 * i];
    return sum + sums[0] + sums[1] + sums[2] + sums[3];
}

/* x^H y */
static double dot_double(const double *x, const double *y, int64_t n) { return dot_rows(x, y, n); }
static mr_c128 dot_complex128(const mr_c128 *x, const mr_c128 *y, int64_t n)
{
    return __builtin_complex(dot_rows((const double *)x, (const double *)y, 2 * n),
                             cross_rows((const double *)x, (const double *)y, n));
}

/* The length of (x, y): much faster than hypot, which is called where squares could overflow or vanish. */
static double length_of(double x, double y)
{
    double square = x * x + y * y;
    return square > 1e-280 && square < 1e280 ? sqrt(square) : hypot(x, y);
}

mr_dtype mr_full_type(mr_dtype t) { return mr_dtype_is_complex(t) ? MR_COMPLEX128 : MR_DOUBLE; }

mr_status *mr_matrix_room(const mr_run *r, mr_dtype full, int64_t rows, int64_t cols, void **out)
{
    size_t n, bytes;
    *out = NULL;
    if (!mr_size_mul((size_t)rows, (size_t)cols, &n) ||
        !mr_size_mul(n, mr_dtype_size(full), &bytes) || !(*out = mr_scratch(r, bytes)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a matrix of %lld x %lld",
                        (long long)rows, (long long)cols);
    return NULL;
}

mr_status *mr_unpack(const mr_run *r, const mr_tensor *t, int64_t at, int64_t n, void **out)
{
    return mr_unpack_as(r, t, at, n, mr_full_type((mr_dtype)t->dtype), out);
}

mr_status *mr_unpack_as(const mr_run *r, const mr_tensor *t, int64_t at, int64_t n, mr_dtype full, void **out)
{
    mr_dtype type = (mr_dtype)t->dtype;
    MR_TRY(mr_matrix_room(r, full, n, 1, out));
    if (n > 0)
        mr_dtype_convert(type, (char *)t->data + (size_t)at * mr_dtype_size(type), full, *out, n,
                         false);
    return NULL;
}

void mr_repack(const void *from, mr_dtype full, int64_t n, mr_tensor *t, int64_t at)
{
    mr_dtype type = (mr_dtype)t->dtype;
    if (n > 0)
        mr_dtype_convert(full, from, type, (char *)t->data + (size_t)at * mr_dtype_size(type), n,
                         false);
}

/* ---- the eigenvalues of a real tridiagonal matrix ---- */

/* Rotates two rows of the matrix of vectors: x = c x - s y, y = s x + c y. */
typedef void rotate_fn(void *rows, int64_t n, int64_t i, int64_t j, double c, double s);

/* One implicit QL step with Wilkinson's shift on d[l .. m], e[l .. m-1]. */
static void ql_step(double *d, double *e, int64_t l, int64_t m, int64_t n, void *rows,
                    rotate_fn *rotate)
{
    double g = (d[l + 1] - d[l]) / (2 * e[l]), r = length_of(g, 1);
    double s = 1, c = 1, p = 0;
    int64_t i = m - 1;
    g = d[m] - d[l] + e[l] / (g + copysign(r, g));
    for (; i >= l; i--) {
        double f = s * e[i], b = c * e[i];
        e[i + 1] = r = length_of(f, g);
        if (r == 0) { /* deflated early */
            d[i + 1] -= p;
            e[m] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        if (rows)
            rotate(rows, n, i, i + 1, c, s);
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
}

/* d: the diagonal; e: the n - 1 entries next to it, and space for one more. */
static mr_status *ql_iterate(const mr_run *run, double *d, double *e, int64_t n, void *rows, rotate_fn *rotate,
                             bool *ok)
{
    e[n - 1] = 0;
    *ok = true;
    for (int64_t l = 0; l < n; l++)
        for (int round = 0;; round++) {
            int64_t m = l;
            while (m < n - 1 && !(fabs(e[m]) <= DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1]))) &&
                   e[m] != 0)
                m++;
            if (m == l)
                break;
            *ok = round < MAX_QL;
            if (!*ok)
                return NULL;
            MR_TRY(mr_matrix_cancelled(run));
            ql_step(d, e, l, m, n, rows, rotate);
        }
    return NULL;
}

#define T double
#define TYPE MR_DOUBLE
#define FN(f) f##_double
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) 0.0
#define MUL(x, y) ((x) * (y))
#include "ops/linalg/decompose.c"
#include "run/scratch.h"
#undef T
#undef TYPE
#undef FN
#undef CONJ
#undef RE
#undef IM
#undef MUL

#define T mr_c128
#define TYPE MR_COMPLEX128
#define FN(f) f##_complex128
#define CONJ(x) conj(x)
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define MUL(x, y) mr_mul_c128(x, y)
#include "ops/linalg/decompose.c"

const mr_decompose *mr_decompose_of(mr_dtype type)
{
    return type == MR_COMPLEX128 ? &decompose_complex128 : &decompose_double;
}

#else /* ---- read once a type ---- */

MR_INLINE double FN(square)(T x) { return RE(x) * RE(x) + IM(x) * IM(x); }

/* The norm of n numbers `step` apart, scaled so that squares neither overflow nor vanish. */
static double FN(norm)(const T *x, int64_t n, int64_t step)
{
    double top = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double size = fmax(fabs(RE(x[i * step])), fabs(IM(x[i * step])));
        top = size > top || size != size ? size : top;
        if (top != top)
            return top;
    }
    if (top == 0 || isinf(top))
        return top;
    for (int64_t i = 0; i < n; i++)
        sum += FN(square)(x[i * step] / top);
    return top * sqrt(sum);
}

/* The reflection for n numbers of x, `step` apart: v, tau, and the new value of x[0]. */
static T FN(reflection)(const T *x, int64_t n, int64_t step, T *v, double *becomes)
{
    T alpha = x[0];
    double rest = FN(norm)(x + step, n - 1, step);
    *becomes = RE(alpha);
    v[0] = 1;
    for (int64_t i = 1; i < n; i++)
        v[i] = 0;
    if (rest == 0 && IM(alpha) == 0)
        return 0;
    double size = length_of(length_of(RE(alpha), IM(alpha)), rest);
    /* avoids cancellation in alpha - beta; a single number keeps its sign as a real one does */
    double beta = rest == 0 ? copysign(size, RE(alpha)) : -copysign(size, RE(alpha));
    for (int64_t i = 1; i < n && rest > 0; i++)
        v[i] = x[i * step] / (alpha - beta);
    *becomes = beta;
    return (beta - alpha) / beta;
}

/* A -= tau v (v^H A), where A has n rows, `ld` apart, of `cols` columns; w is scratch space for a row. */
MR_CLONES static void FN(reflect)(int64_t n, int64_t cols, T tau, const T *v, T *a, int64_t ld,
                                  T *w)
{
    if (tau == 0)
        return;
    for (int64_t j = 0; j < cols; j++)
        w[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        const T f = CONJ(v[i]);
        const T *row = a + i * ld;
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            w[j] += MUL(f, row[j]);
    }
    for (int64_t i = 0; i < n; i++) {
        const T f = MUL(tau, v[i]);
        T *row = a + i * ld;
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            row[j] -= MUL(f, w[j]);
    }
}

static void FN(identity)(int64_t rows, int64_t cols, T *a)
{
    memset(a, 0, sizeof(T) * (size_t)(rows * cols));
    for (int64_t i = 0; i < MR_MIN(rows, cols); i++)
        a[i * cols + i] = 1;
}

static void FN(transpose)(int64_t n, T *a)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            T w = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = w;
        }
}

/* ---- QR ---- */

static mr_status *FN(qr)(const mr_run *run, int64_t m, int64_t n, int64_t k, void *matrix, void *orthogonal)
{
    mr_status *st = NULL;
    T *a = matrix, *q = orthogonal, *room;
    int64_t p = MR_MIN(m, n);
    /* the vectors, one per row, their factors, and a scratch row */
    MR_TRY(mr_matrix_room(run, TYPE, p + 2, MR_MAX(MR_MAX(m, n), 1), (void **)&room));
    int64_t wide = MR_MAX(MR_MAX(m, n), 1);
    T *tau = room + p * wide, *w = tau + wide;
    for (int64_t i = 0; i < p; i++) {
        T *v = room + i * wide, *column = a + i * n + i;
        double becomes;
        MR_GO(mr_matrix_cancelled(run));
        tau[i] = FN(reflection)(column, m - i, n, v, &becomes);
        FN(reflect)(m - i, n - i - 1, CONJ(tau[i]), v, column + 1, n, w);
        for (int64_t r = 0; r < m - i; r++)
            column[r * n] = r == 0 ? becomes : 0;
    }
    if (q && m > 0)
        FN(identity)(m, k, q);
    for (int64_t i = p - 1; q && i >= 0; i--)
        FN(reflect)(m - i, k - i, tau[i], room + i * wide, q + i * k + i, k, w);
out:
    mr_scratch_free(room);
    return st;
}

/* ---- Hermitian eigenvalues ---- */

MR_CLONES static void FN(rotate)(void *matrix, int64_t n, int64_t i, int64_t j, double c, double s)
{
    T *x = (T *)matrix + i * n, *y = (T *)matrix + j * n;
    MR_IVDEP
    for (int64_t k = 0; k < n; k++) {
        const T a = x[k], b = y[k];
        x[k] = c * a - s * b;
        y[k] = s * a + c * b;
    }
}

/* A = H^H A H on n rows and columns: A -= v u^H + u v^H, u = tau A v - |tau|^2 (v^H A v) / 2 v. */
MR_CLONES static void FN(reflect_both)(int64_t n, T tau, const T *v, T *a, int64_t ld, T *u,
                                       T *turned)
{
    T middle = 0;
    for (int64_t i = 0; i < n; i++)
        turned[i] = CONJ(v[i]);
    for (int64_t i = 0; i < n; i++) {
        T sum = CONJ(FN(dot)(a + i * ld, turned, n));
        middle += MUL(CONJ(v[i]), sum);
        u[i] = MUL(tau, sum);
    }
    const double half = 0.5 * FN(square)(tau) * RE(middle);
    for (int64_t i = 0; i < n; i++)
        u[i] -= half * v[i];
    for (int64_t i = 0; i < n; i++) {
        const T x = v[i], y = u[i];
        T *row = a + i * ld;
        MR_IVDEP
        for (int64_t j = 0; j < n; j++)
            row[j] -= MUL(x, CONJ(u[j])) + MUL(y, turned[j]);
    }
}

/* Q H, where the rows of z are n columns of Q: column j is reduced by tau conj(v_j) (Q v). u is scratch space for n
 * numbers. */
MR_CLONES static void FN(reflect_columns)(int64_t n, int64_t m, T tau, const T *v, T *z, T *u)
{
    for (int64_t i = 0; i < n; i++)
        u[i] = 0;
    for (int64_t j = 0; j < m; j++) {
        const T f = v[j], *row = z + j * n;
        MR_IVDEP
        for (int64_t i = 0; i < n; i++)
            u[i] += MUL(f, row[i]);
    }
    for (int64_t j = 0; j < m; j++) {
        const T f = MUL(tau, CONJ(v[j]));
        T *row = z + j * n;
        MR_IVDEP
        for (int64_t i = 0; i < n; i++)
            row[i] -= MUL(f, u[i]);
    }
}

/* Makes A tridiagonal: d and e. Row j of z becomes column j of the product of the reflections. */
static mr_status *FN(tridiagonal)(const mr_run *run, int64_t n, T *a, double *d, double *e, T *z, T *v, T *u, T *w)
{
    for (int64_t k = 0; k < n - 1; k++) {
        T *below = a + (k + 1) * n + k;
        MR_TRY(mr_matrix_cancelled(run));
        T tau = FN(reflection)(below, n - k - 1, n, v, &e[k]);
        d[k] = RE(a[k * n + k]);
        if (tau == 0)
            continue;
        FN(reflect_both)(n - k - 1, tau, v, below + 1, n, u, w);
        if (z)
            FN(reflect_columns)(n, n - k - 1, tau, v, z + (k + 1) * n, u);
    }
    d[n - 1] = RE(a[n * n - 1]);
    return NULL;
}

/* Fills both triangles from the lower one, scaled so that squares are safe. */
static double FN(make_hermitian)(int64_t n, T *a)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) {
        a[i * n + i] = RE(a[i * n + i]);
        for (int64_t j = 0; j <= i; j++) {
            a[j * n + i] = CONJ(a[i * n + j]);
            top = fmax(top, fmax(fabs(RE(a[i * n + j])), fabs(IM(a[i * n + j]))));
        }
    }
    int power = 0;
    if (top > 0 && isfinite(top))
        frexp(top, &power);
    for (int64_t i = 0; i < n * n; i++)
        a[i] *= ldexp(1, -MR_MIN(power, 1000));
    return ldexp(1, MR_MIN(power, 1000));
}

/* Sorts e and the rows of z in ascending order. */
static void FN(sort_values)(int64_t n, double *e, T *z)
{
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++)
            if (e[j] < e[least])
                least = j;
        if (least == i)
            continue;
        double t = e[i];
        e[i] = e[least];
        e[least] = t;
        for (int64_t k = 0; z && k < n; k++) {
            T w = z[i * n + k];
            z[i * n + k] = z[least * n + k];
            z[least * n + k] = w;
        }
    }
}

static mr_status *FN(eigh)(const mr_run *run, int64_t n, void *matrix, double *e, void *vectors,
                          bool *ok)
{
    mr_status *st = NULL;
    T *a = matrix, *z = vectors, *room;
    *ok = true;
    if (n == 0)
        return NULL;
    MR_TRY(mr_matrix_room(run, TYPE, 4, n, (void **)&room));
    double scale = FN(make_hermitian)(n, a), *beside = (double *)(room + 3 * n);
    if (z)
        FN(identity)(n, n, z);
    MR_GO(FN(tridiagonal)(run, n, a, e, beside, z, room, room + n, room + 2 * n));
    MR_GO(ql_iterate(run, e, beside, n, z, FN(rotate), ok));
    FN(sort_values)(n, e, z);
    for (int64_t i = 0; i < n; i++) {
        *ok &= !isnan(e[i]);
        e[i] *= scale;
    }
    if (z)
        FN(transpose)(n, z); /* vectors as columns */
out:
    mr_scratch_free(room);
    return st;
}

/* ---- singular values ---- */

/* x = c x - s turn y, y = s x + c turn y */
MR_CLONES static void FN(turn_rows)(int64_t n, T *x, T *y, double c, double s, T turn)
{
    MR_IVDEP
    for (int64_t k = 0; k < n; k++) {
        const T f = x[k], g = MUL(y[k], turn);
        x[k] = c * f - s * g;
        y[k] = s * f + c * g;
    }
}

/* The rotation that makes rows p and q of W (n rows of n) orthogonal; the same is applied to those of V, and the
 * squares of their lengths are updated. False when they are already orthogonal, or when one of them is only
 * rounding errors. */
static bool FN(jacobi_pair)(int64_t n, T *w, T *v, double *squares, double noise, int64_t p,
                            int64_t q)
{
    double a = squares[p], b = squares[q];
    if (a <= noise || b <= noise)
        return false;
    T dot = FN(dot)(w + p * n, w + q * n, n);
    double size = length_of(RE(dot), IM(dot));
    /* a sum of n products is not more accurate than this */
    double least = DBL_EPSILON * sqrt((double)MR_MAX(n, 16));
    if (!(size > least * sqrt(a) * sqrt(b)) || size < DBL_MIN)
        return false;
    const T turn = CONJ(dot) / size; /* y times this has a real product with x */
    double zeta = (b - a) / (2 * size);
    double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    double c = 1 / sqrt(1 + t * t), s = c * t;
    FN(turn_rows)(n, w + p * n, w + q * n, c, s, turn);
    if (v)
        FN(turn_rows)(n, v + p * n, v + q * n, c, s, turn);
    squares[p] = a - t * size;
    squares[q] = b + t * size;
    if (squares[p] < 0.1 * a) /* the small difference has lost its digits */
        squares[p] = RE(FN(dot)(w + p * n, w + p * n, n));
    if (squares[q] < 0.1 * b)
        squares[q] = RE(FN(dot)(w + q * n, w + q * n, n));
    return true;
}

static mr_status *FN(jacobi)(const mr_run *run, int64_t n, T *w, T *v, bool *ok)
{
    double *squares = mr_scratch_zeroed(run, (size_t)n, sizeof(double));
    if (!squares)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld singular values", (long long)n);
    mr_status *st = NULL;
    *ok = false;
    for (int sweep = 0; sweep < MAX_SWEEPS && !*ok && !st; sweep++) {
        double top = 0;
        *ok = true;
        for (int64_t i = 0; i < n; i++) { /* recomputed, because differences lose digits */
            squares[i] = RE(FN(dot)(w + i * n, w + i * n, n));
            top = fmax(top, squares[i]);
        }
        for (int64_t p = 0; p + 1 < n && !(st = mr_matrix_cancelled(run)); p++)
            for (int64_t q = p + 1; q < n; q++)
                if (FN(jacobi_pair)(n, w, v, squares, NOISE(n) * NOISE(n) * top, p, q))
                    *ok = false;
    }
    mr_scratch_free(squares);
    return st;
}

/* Makes row j of W a unit vector orthogonal to all rows that are done: the coordinate axis that they cover least,
 * minus its projections. */
static void FN(fill_row)(int64_t n, T *w, int64_t j, const bool *done)
{
    int64_t best = 0;
    double most = -1;
    for (int64_t k = 0; k < n; k++) {
        double left = 1;
        for (int64_t i = 0; i < n; i++)
            left -= done[i] ? FN(square)(w[i * n + k]) : 0;
        if (left > most) {
            most = left;
            best = k;
        }
    }
    T *x = w + j * n;
    memset(x, 0, sizeof(T) * (size_t)n);
    x[best] = 1;
    for (int twice = 0; twice < 2; twice++) {
        for (int64_t i = 0; i < n; i++) {
            T dot = 0;
            for (int64_t k = 0; done[i] && k < n; k++)
                dot += MUL(CONJ(w[i * n + k]), x[k]);
            for (int64_t k = 0; done[i] && k < n; k++)
                x[k] -= MUL(dot, w[i * n + k]);
        }
        double size = FN(norm)(x, n, 1);
        for (int64_t k = 0; k < n && size > 0; k++)
            x[k] /= size;
    }
}

/* Normalises the rows, and sorts them by their lengths in descending order together with those of V. */
static mr_status *FN(finish_rows)(const mr_run *run, int64_t n, T *w, T *v, double *s)
{
    bool *done = mr_scratch_zeroed(run, (size_t)n, sizeof(bool));
    if (!done)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld singular values", (long long)n);
    for (int64_t i = 0; i < n; i++)
        s[i] = FN(norm)(w + i * n, n, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t top = i;
        for (int64_t j = i + 1; j < n; j++)
            if (s[j] > s[top])
                top = j;
        double t = s[i];
        s[i] = s[top];
        s[top] = t;
        for (int64_t k = 0; k < n && top != i; k++) {
            T x = w[i * n + k];
            w[i * n + k] = w[top * n + k];
            w[top * n + k] = x;
            if (!v)
                continue;
            x = v[i * n + k];
            v[i * n + k] = v[top * n + k];
            v[top * n + k] = x;
        }
        done[i] = s[i] > NOISE(n) * s[0] && s[i] > DBL_MIN;
        for (int64_t k = 0; k < n && done[i]; k++)
            w[i * n + k] /= s[i];
    }
    for (int64_t i = 0; v && i < n; i++)
        if (!done[i] && s[i] == s[i]) {
            FN(fill_row)(n, w, i, done);
            done[i] = true;
        }
    mr_scratch_free(done);
    return NULL;
}

/* to (cols x rows) = the conjugated transpose of from (rows x cols, `ld` apart) */
static void FN(adjoint_of)(int64_t rows, int64_t cols, const T *from, int64_t ld, T *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[j * rows + i] = CONJ(from[i * ld + j]);
}

/* to (m x k) = q (m x k) times the n x n matrix w, for the first n columns; the others are those of q. */
MR_CLONES static void FN(times)(int64_t m, int64_t k, int64_t n, const T *q, const T *w, T *to)
{
    for (int64_t i = 0; i < m; i++) {
        T *row = to + i * k;
        for (int64_t j = 0; j < k; j++)
            row[j] = j < n ? 0 : q[i * k + j];
        for (int64_t l = 0; l < n; l++) {
            const T f = q[i * k + l], *x = w + l * n;
            MR_IVDEP
            for (int64_t j = 0; j < n; j++)
                row[j] += MUL(f, x[j]);
        }
    }
}

/* Signs and phases are arbitrary; making the largest entry of each row of V positive makes them reproducible. */
static void FN(settle_signs)(int64_t n, T *w, T *v)
{
    for (int64_t i = 0; i < n; i++) {
        T *x = v + i * n, top = 0;
        for (int64_t k = 0; k < n; k++)
            if (FN(square)(x[k]) > FN(square)(top))
                top = x[k];
        double size = length_of(RE(top), IM(top));
        if (!(size > 0) || top == size)
            continue;
        const T turn = CONJ(top) / size;
        for (int64_t k = 0; k < n; k++) {
            x[k] = MUL(x[k], turn);
            w[i * n + k] = MUL(w[i * n + k], turn);
        }
    }
}

/* For m >= n. A = Q R, and the columns of R^H are made orthogonal, which takes fewer sweeps than those of R: R^H Z
 * = W, so A = Q Z diag(s) (W / s)^H. Columns are stored as rows. */
static mr_status *FN(svd_tall)(const mr_run *run, int64_t m, int64_t n, T *a, double *s,
                               int64_t ku, T *u, T *v, bool *ok)
{
    mr_status *st = NULL;
    T *q = NULL, *w = NULL, *z = NULL;
    MR_GO(mr_matrix_room(run, TYPE, n, n, (void **)&w));
    if (u) {
        MR_GO(mr_matrix_room(run, TYPE, m, ku, (void **)&q));
        MR_GO(mr_matrix_room(run, TYPE, n, n, (void **)&z));
        FN(identity)(n, n, z);
    }
    MR_GO(FN(qr)(run, m, n, ku, a, q));
    for (int64_t i = 0; i < n * n; i++)
        w[i] = CONJ(a[i]); /* the columns of R^H */
    MR_GO(FN(jacobi)(run, n, w, z, ok));
    MR_GO(FN(finish_rows)(run, n, w, z, s));
    if (u) {
        FN(settle_signs)(n, z, w);
        FN(transpose)(n, z);
        FN(times)(m, ku, n, q, z, u);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                v[j * n + i] = w[i * n + j];
    }
out:
    mr_scratch_free(q);
    mr_scratch_free(w);
    mr_scratch_free(z);
    return st;
}

/* A scale that makes the squares of elements safe. */
static double FN(rescale)(int64_t n, T *a)
{
    double top = 0;
    int power = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fmax(fabs(RE(a[i])), fabs(IM(a[i]))));
    if (top > 0 && isfinite(top))
        frexp(top, &power);
    power = MR_MIN(power, 1000);
    for (int64_t i = 0; i < n; i++)
        a[i] *= ldexp(1, -power);
    return ldexp(1, power);
}

static mr_status *FN(svd)(const mr_run *run, int64_t m, int64_t n, void *matrix, double *s,
                          int64_t ku, void *u, int64_t kv, void *v, bool *ok)
{
    mr_status *st = NULL;
    T *a = matrix, *turned = NULL;
    int64_t p = MR_MIN(m, n);
    *ok = true;
    if (p == 0) {
        if (u && m > 0)
            FN(identity)(m, ku, u);
        if (v && n > 0)
            FN(identity)(n, kv, v);
        return NULL;
    }
    double scale = FN(rescale)(m * n, a);
    if (m >= n) {
        MR_GO(FN(svd_tall)(run, m, n, a, s, ku, u, v, ok));
    } else { /* A^H = V diag(s) U^H */
        MR_GO(mr_matrix_room(run, TYPE, n, m, (void **)&turned));
        FN(adjoint_of)(m, n, a, n, turned);
        MR_GO(FN(svd_tall)(run, n, m, turned, s, kv, v, u, ok));
    }
    for (int64_t i = 0; i < p; i++)
        s[i] *= scale;
out:
    mr_scratch_free(turned);
    return st;
}

static const mr_decompose FN(decompose) = {TYPE, FN(qr), FN(eigh), FN(svd)};
#endif
