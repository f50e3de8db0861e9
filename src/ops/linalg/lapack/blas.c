/* ops/linalg/lapack/blas.c -- the part of BLAS that LAPACK's routines need, on this library's products.
 *
 * Matrices are stored by columns, as Fortran's. Only what these routines use is supported; all arguments come from
 * LAPACK, which checks its own. Loops over columns take four at a time, so that vectors are read and written once for
 * four columns. */
#ifndef T /* ---- read once ---- */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/complex_mul.h"
#include "ops/linalg/lapack/context.h"

_Thread_local mr_lapack_context mr_lapack_now;

typedef int32_t fint; /* Fortran's INTEGER */

static bool is(const char *option, char want) { return (*option | 32) == (want | 32); }

void mr_lapack_leave(mr_lapack_result why) { longjmp(mr_lapack_now.back, (int)why); }

void mr_lapack_poll(void)
{
    const mr_lapack_call *c = mr_lapack_now.call;
    if (c->cancelled && c->cancelled(c->ctx))
        mr_lapack_leave(MR_LAPACK_CANCELLED);
}

/* LAPACK's own prints a message and ends the process. */
void xerbla_(const char *name, const fint *info, size_t length) __attribute__((noreturn));
void xerbla_(const char *name, const fint *info, size_t length)
{
    (void)name, (void)info, (void)length;
    mr_lapack_leave(MR_LAPACK_REFUSED);
}

/* What LAPACK needs of Fortran's run-time library: these two. */
void _gfortran_concat_string(size_t to_length, char *to, size_t a_length, const char *a, size_t b_length, const char *b);
void _gfortran_concat_string(size_t to_length, char *to, size_t a_length, const char *a, size_t b_length, const char *b)
{
    for (size_t i = 0; i < to_length; i++)
        to[i] = i < a_length ? a[i] : i - a_length < b_length ? b[i - a_length] : ' ';
}

size_t _gfortran_string_len_trim(size_t length, const char *s);
size_t _gfortran_string_len_trim(size_t length, const char *s)
{
    while (length > 0 && s[length - 1] == ' ')
        length--;
    return length;
}

/* Four distances of a vector: element i is at[i * step]; a negative step starts at the end. */
#define START(x, n, step) ((step) < 0 ? (x) - (int64_t)((n)-1) * (step) : (x))

#define T float
#define R float
#define TYPE MR_FLOAT
#define COMPLEX 0
#define F(name) s##name##_
#define OF_REAL(name) s##name##_
#define IAMAX isamax_
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) 0.0f
#define MUL(x, y) ((x) * (y))
#include "ops/linalg/lapack/blas.c"

#define T double
#define R double
#define TYPE MR_DOUBLE
#define COMPLEX 0
#define F(name) d##name##_
#define OF_REAL(name) d##name##_
#define IAMAX idamax_
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) 0.0
#define MUL(x, y) ((x) * (y))
#include "ops/linalg/lapack/blas.c"

#define T mr_c64
#define R float
#define TYPE MR_COMPLEX64
#define COMPLEX 1
#define F(name) c##name##_
#define OF_REAL(name) sc##name##_
#define IAMAX icamax_
#define ROT csrot_
#define SCALE_REAL csscal_
#define CONJ(x) conjf(x)
#define RE(x) crealf(x)
#define IM(x) cimagf(x)
#define MUL(x, y) mr_mul_c64(x, y)
#include "ops/linalg/lapack/blas.c"

#define T mr_c128
#define R double
#define TYPE MR_COMPLEX128
#define COMPLEX 1
#define F(name) z##name##_
#define OF_REAL(name) dz##name##_
#define IAMAX izamax_
#define ROT zdrot_
#define SCALE_REAL zdscal_
#define CONJ(x) conj(x)
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define MUL(x, y) mr_mul_c128(x, y)
#include "ops/linalg/lapack/blas.c"

#else /* ---- read once a type ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* Fortran declares them */

/* ---- vectors ---- */

MR_CLONES static void F(axpy_run)(int64_t n, T f, const T *x, T *y)
{
    MR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] += MUL(f, x[i]);
}

void F(axpy)(const fint *n, const T *alpha, const T *x, const fint *incx, T *y, const fint *incy)
{
    if (*n <= 0 || *alpha == 0)
        return;
    if (*incx == 1 && *incy == 1) {
        F(axpy_run)(*n, *alpha, x, y);
        return;
    }
    x = START(x, *n, *incx);
    y = START(y, *n, *incy);
    for (int64_t i = 0; i < *n; i++)
        y[i * *incy] += MUL(*alpha, x[i * *incx]);
}

void F(copy)(const fint *n, const T *x, const fint *incx, T *y, const fint *incy)
{
    if (*n <= 0)
        return;
    if (*incx == 1 && *incy == 1) {
        memcpy(y, x, sizeof(T) * (size_t)*n);
        return;
    }
    x = START(x, *n, *incx);
    y = START(y, *n, *incy);
    for (int64_t i = 0; i < *n; i++)
        y[i * *incy] = x[i * *incx];
}

void F(swap)(const fint *n, T *x, const fint *incx, T *y, const fint *incy)
{
    x = START(x, *n, *incx);
    y = START(y, *n, *incy);
    for (int64_t i = 0; i < *n; i++) {
        T v = x[i * *incx];
        x[i * *incx] = y[i * *incy];
        y[i * *incy] = v;
    }
}

MR_CLONES static void F(scal_run)(int64_t n, T f, T *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = MUL(f, x[i]);
}

void F(scal)(const fint *n, const T *alpha, T *x, const fint *incx)
{
    if (*incx == 1) {
        F(scal_run)(*n, *alpha, x);
        return;
    }
    for (int64_t i = 0; i < *n; i++)
        x[i * *incx] = MUL(*alpha, x[i * *incx]);
}

#if COMPLEX
void SCALE_REAL(const fint *n, const R *alpha, T *x, const fint *incx)
{
    for (int64_t i = 0; i < *n; i++)
        x[i * *incx] *= *alpha;
}
#else
#define ROT F(rot)
#endif

MR_CLONES static void F(rot_run)(int64_t n, T *x, T *y, R c, R s)
{
    MR_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const T a = x[i], b = y[i];
        x[i] = c * a + s * b;
        y[i] = c * b - s * a;
    }
}

void ROT(const fint *n, T *x, const fint *incx, T *y, const fint *incy, const R *c, const R *s)
{
    if (*incx == 1 && *incy == 1) {
        F(rot_run)(*n, x, y, *c, *s);
        return;
    }
    x = START(x, *n, *incx);
    y = START(y, *n, *incy);
    for (int64_t i = 0; i < *n; i++) {
        const T a = x[i * *incx], b = y[i * *incy];
        x[i * *incx] = *c * a + *s * b;
        y[i * *incy] = *c * b - *s * a;
    }
}

R OF_REAL(asum)(const fint *n, const T *x, const fint *incx)
{
    R sum = 0;
    for (int64_t i = 0; i < *n; i++)
        sum += (R)(fabs(RE(x[i * *incx])) + fabs(IM(x[i * *incx])));
    return sum;
}

/* The sum of squares in double, several at a time. */
MR_CLONES static double F(squares)(int64_t n, const R *x)
{
    double sums[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++)
            sums[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (int l = 0; l < 8; l++)
        sum += sums[l];
    return sum;
}

/* For doubles so large or small that squares overflow or vanish, they are scaled. */
R OF_REAL(nrm2)(const fint *n, const T *x, const fint *incx)
{
    double sum = 0, top = 0;
    if (*incx == 1)
        sum = F(squares)((COMPLEX + 1) * (int64_t)*n, (const R *)x);
    else
        for (int64_t i = 0; i < *n; i++)
            sum += F(squares)(COMPLEX + 1, (const R *)(x + i * *incx));
    if ((sum > 1e-280 && sum < 1e280) || *n == 0 || isnan(sum))
        return (R)sqrt(sum);
    for (int64_t i = 0; i < *n; i++)
        top = fmax(top, fmax(fabs(RE(x[i * *incx])), fabs(IM(x[i * *incx]))));
    if (top == 0 || isinf(top))
        return (R)top;
    sum = 0;
    for (int64_t i = 0; i < *n; i++) {
        double re = RE(x[i * *incx]) / top, im = IM(x[i * *incx]) / top;
        sum += re * re + im * im;
    }
    return (R)(top * sqrt(sum));
}

fint IAMAX(const fint *n, const T *x, const fint *incx)
{
    fint best = *n > 0;
    R most = -1;
    for (int64_t i = 0; i < *n; i++) {
        R size = (R)(fabs(RE(x[i * *incx])) + fabs(IM(x[i * *incx])));
        if (size > most) {
            most = size;
            best = (fint)i + 1;
        }
    }
    return best;
}

/* sum of x y, or of conj(x) y; several sums at a time, because each addition would wait for the previous one. */
MR_INLINE T F(dot_part)(int64_t n, const T *x, const T *y, bool conj_x)
{
    T sums[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++)
            sums[l] += MUL(conj_x ? CONJ(x[i + l]) : x[i + l], y[i + l]);
    for (; i < n; i++)
        sum += MUL(conj_x ? CONJ(x[i]) : x[i], y[i]);
    for (int l = 0; l < 8; l++)
        sum += sums[l];
    return sum;
}

MR_CLONES static T F(dot_plain)(int64_t n, const T *x, const T *y) { return F(dot_part)(n, x, y, false); }
MR_CLONES static T F(dot_conj)(int64_t n, const T *x, const T *y) { return F(dot_part)(n, x, y, true); }

static T F(dot_any)(int64_t n, const T *x, int64_t incx, const T *y, int64_t incy, bool conj_x)
{
    T sum = 0;
    if (incx == 1 && incy == 1)
        return conj_x ? F(dot_conj)(n, x, y) : F(dot_plain)(n, x, y);
    x = START(x, n, incx);
    y = START(y, n, incy);
    for (int64_t i = 0; i < n; i++)
        sum += MUL(conj_x ? CONJ(x[i * incx]) : x[i * incx], y[i * incy]);
    return sum;
}

#if COMPLEX
T F(dotc)(const fint *n, const T *x, const fint *incx, const T *y, const fint *incy)
{
    return F(dot_any)(*n, x, *incx, y, *incy, true);
}

T F(dotu)(const fint *n, const T *x, const fint *incx, const T *y, const fint *incy)
{
    return F(dot_any)(*n, x, *incx, y, *incy, false);
}
#else
T F(dot)(const fint *n, const T *x, const fint *incx, const T *y, const fint *incy)
{
    return F(dot_any)(*n, x, *incx, y, *incy, false);
}
#endif

/* ---- matrices and vectors ---- */

/* y += A x */
MR_CLONES static void F(columns)(int64_t m, int64_t n, const T *a, int64_t lda, const T *x, T *y)
{
    int64_t j = 0;
    for (; j + 4 <= n; j += 4, a += 4 * lda) {
        const T f = x[j], g = x[j + 1], h = x[j + 2], k = x[j + 3];
        const T *b = a + lda, *c = b + lda, *d = c + lda;
        MR_IVDEP
        for (int64_t i = 0; i < m; i++) {
            T v = y[i] + MUL(f, a[i]);
            v += MUL(g, b[i]);
            v += MUL(h, c[i]);
            y[i] = v + MUL(k, d[i]);
        }
    }
    for (; j < n; j++, a += lda) {
        const T f = x[j];
        MR_IVDEP
        for (int64_t i = 0; i < m; i++)
            y[i] += MUL(f, a[i]);
    }
}

/* y = A^T x or A^H x: four columns at once, each with eight sums. */
MR_INLINE void F(rows_part)(int64_t m, int64_t n, const T *a, int64_t lda, const T *x, T *y, bool conj_a)
{
    int64_t j = 0;
    for (; j + 4 <= n; j += 4, a += 4 * lda) {
        T sums[4][8] = {{0}};
        int64_t i = 0;
        for (; i + 8 <= m; i += 8)
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                for (int l = 0; l < 8; l++)
                    sums[c][l] += MUL(conj_a ? CONJ(a[c * lda + i + l]) : a[c * lda + i + l], x[i + l]);
        for (int c = 0; c < 4; c++) {
            T sum = 0;
            for (int64_t k = i; k < m; k++)
                sum += MUL(conj_a ? CONJ(a[c * lda + k]) : a[c * lda + k], x[k]);
            for (int l = 0; l < 8; l++)
                sum += sums[c][l];
            y[j + c] = sum;
        }
    }
    for (; j < n; j++, a += lda)
        y[j] = F(dot_part)(m, a, x, conj_a);
}

MR_CLONES static void F(rows)(int64_t m, int64_t n, const T *a, int64_t lda, const T *x, T *y, bool conj_a)
{
    if (COMPLEX && conj_a)
        F(rows_part)(m, n, a, lda, x, y, true);
    else
        F(rows_part)(m, n, a, lda, x, y, false);
}

/* f x as a contiguous vector, in `room` unless it is x itself. */
static const T *F(gather)(int64_t n, T f, const T *x, int64_t inc, void *room)
{
    T *out = room;
    if (f == 1 && inc == 1)
        return x;
    x = START(x, n, inc);
    for (int64_t i = 0; i < n; i++)
        out[i] = MUL(f, x[i * inc]);
    return out;
}

static void F(scale_vector)(int64_t n, T beta, T *y, int64_t inc)
{
    y = START(y, n, inc);
    for (int64_t i = 0; i < n && beta != 1; i++)
        y[i * inc] = beta == 0 ? 0 : MUL(beta, y[i * inc]);
}

void F(gemv)(const char *trans, const fint *m, const fint *n, const T *alpha, const T *a, const fint *lda, const T *x,
             const fint *incx, const T *beta, T *y, const fint *incy, size_t l1)
{
    (void)l1;
    bool plain = is(trans, 'N');
    int64_t ny = plain ? *m : *n, nx = plain ? *n : *m;
    mr_lapack_poll();
    F(scale_vector)(ny, *beta, y, *incy);
    if (*alpha == 0 || *m == 0 || *n == 0)
        return;
    const T *from = F(gather)(nx, *alpha, x, *incx, mr_lapack_now.x);
    T *to = mr_lapack_now.y;
    if (plain && *incy == 1) {
        F(columns)(*m, *n, a, *lda, from, y);
        return;
    }
    if (plain) {
        memset(to, 0, sizeof(T) * (size_t)ny);
        F(columns)(*m, *n, a, *lda, from, to);
    } else {
        F(rows)(*m, *n, a, *lda, from, to, is(trans, 'C'));
    }
    y = START(y, ny, *incy);
    for (int64_t i = 0; i < ny; i++)
        y[i * *incy] += to[i];
}

/* A += x y^T, or with y conjugated; x and y are contiguous. */
MR_CLONES static void F(outer)(int64_t m, int64_t n, const T *x, const T *y, T *a, int64_t lda)
{
    for (int64_t j = 0; j < n; j++, a += lda) {
        const T f = CONJ(y[j]);
        MR_IVDEP
        for (int64_t i = 0; i < m; i++)
            a[i] += MUL(f, x[i]);
    }
}

/* A += alpha x y^T, with y conjugated for complex numbers. */
#if COMPLEX
void F(gerc)
#else
void F(ger)
#endif
(const fint *m, const fint *n, const T *alpha, const T *x, const fint *incx, const T *y, const fint *incy, T *a,
 const fint *lda)
{
    if (*m == 0 || *n == 0 || *alpha == 0)
        return;
    mr_lapack_poll();
    const T *from = F(gather)(*m, *alpha, x, *incx, mr_lapack_now.x);
    F(outer)(*m, *n, from, F(gather)(*n, 1, y, *incy, mr_lapack_now.y), a, *lda);
}

/* Rows [i0, i1) of four columns of a Hermitian matrix, of which one triangle is stored: y += A x there, and sums = A^H x
 * for the other triangle. */
MR_INLINE void F(four_columns)(int64_t i0, int64_t i1, const T *a, int64_t lda, const T *f, const T *x, T *y, T *out)
{
    T sums[4][8] = {{0}};
    int64_t i = i0;
    for (; i + 8 <= i1; i += 8) {
        T v[8];
        for (int l = 0; l < 8; l++)
            v[l] = y[i + l];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            for (int l = 0; l < 8; l++) {
                v[l] += MUL(f[c], a[c * lda + i + l]);
                sums[c][l] += MUL(CONJ(a[c * lda + i + l]), x[i + l]);
            }
        for (int l = 0; l < 8; l++)
            y[i + l] = v[l];
    }
    for (; i < i1; i++)
        for (int c = 0; c < 4; c++) {
            y[i] += MUL(f[c], a[c * lda + i]);
            sums[c][0] += MUL(CONJ(a[c * lda + i]), x[i]);
        }
    for (int c = 0; c < 4; c++) {
        out[c] = 0;
        for (int l = 0; l < 8; l++)
            out[c] += sums[c][l];
    }
}

/* y += A x for a Hermitian matrix; x is already multiplied by alpha. */
MR_CLONES static void F(hermitian)(bool upper, int64_t n, const T *a, int64_t lda, const T *x, T *y)
{
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
        T sums[4];
        int64_t i0 = upper ? 0 : j + 4, i1 = upper ? j : n;
        F(four_columns)(i0, i1, a + j * lda, lda, x + j, x, y, sums);
        for (int c = 0; c < 4; c++) { /* the square on the diagonal */
            y[j + c] += sums[c] + RE(a[(j + c) * lda + j + c]) * x[j + c];
            for (int r = 0; r < 4; r++)
                if (upper ? r < c : r > c) {
                    const T v = a[(j + c) * lda + j + r];
                    y[j + r] += MUL(v, x[j + c]);
                    y[j + c] += MUL(CONJ(v), x[j + r]);
                }
        }
    }
    for (; j < n; j++) {
        const T *column = a + j * lda;
        y[j] += RE(column[j]) * x[j];
        for (int64_t i = upper ? 0 : j + 1; i < (upper ? j : n); i++) {
            y[i] += MUL(column[i], x[j]);
            y[j] += MUL(CONJ(column[i]), x[i]);
        }
    }
}

#if COMPLEX
void F(hemv)
#else
void F(symv)
#endif
(const char *uplo, const fint *n, const T *alpha, const T *a, const fint *lda, const T *x, const fint *incx,
 const T *beta, T *y, const fint *incy, size_t l1)
{
    (void)l1;
    mr_lapack_poll();
    F(scale_vector)(*n, *beta, y, *incy);
    if (*alpha == 0 || *n == 0)
        return;
    const T *from = F(gather)(*n, *alpha, x, *incx, mr_lapack_now.x);
    T *to = mr_lapack_now.y;
    memset(to, 0, sizeof(T) * (size_t)*n);
    F(hermitian)(is(uplo, 'U'), *n, a, *lda, from, to);
    y = START(y, *n, *incy);
    for (int64_t i = 0; i < *n; i++)
        y[i * *incy] += to[i];
}

/* One triangle of A += alpha x y^H + conj(alpha) y x^H. */
#if COMPLEX
void F(her2)
#else
void F(syr2)
#endif
(const char *uplo, const fint *n, const T *alpha, const T *x_, const fint *incx, const T *y_, const fint *incy, T *a,
 const fint *lda, size_t l1)
{
    (void)l1;
    if (*n == 0 || *alpha == 0)
        return;
    const T *x = F(gather)(*n, *alpha, x_, *incx, mr_lapack_now.x), *y = F(gather)(*n, 1, y_, *incy, mr_lapack_now.y);
    for (int64_t j = 0; j < *n; j++) {
        int64_t i0 = is(uplo, 'U') ? 0 : j, count = is(uplo, 'U') ? j + 1 : *n - j;
        T *column = a + j * *lda + i0;
        F(axpy_run)(count, CONJ(y[j]), x + i0, column);
        F(axpy_run)(count, CONJ(x[j]), y + i0, column);
        a[j * *lda + j] = RE(a[j * *lda + j]);
    }
}

/* Element (i, j) of op(A) for a triangle A. */
MR_INLINE T F(element)(const T *a, int64_t lda, bool trans, bool conj_, bool unit, int64_t i, int64_t j)
{
    const T v = unit && i == j ? 1 : trans ? a[i * lda + j] : a[j * lda + i];
    return conj_ && !(unit && i == j) ? CONJ(v) : v;
}

void F(trmv)(const char *uplo, const char *trans, const char *diag, const fint *n, const T *a, const fint *lda, T *x,
             const fint *incx, size_t l1, size_t l2, size_t l3)
{
    (void)l1, (void)l2, (void)l3;
    bool turned = !is(trans, 'N'), upper = is(uplo, 'U') != turned, unit = is(diag, 'U'), conj_ = is(trans, 'C');
    T *from = mr_lapack_now.x; /* a copy, because x is overwritten */
    x = START(x, *n, *incx);
    for (int64_t i = 0; i < *n; i++)
        from[i] = x[i * *incx];
    for (int64_t i = 0; i < *n; i++) {
        T sum = 0;
        for (int64_t j = upper ? i : 0; j < (upper ? *n : i + 1); j++)
            sum += MUL(F(element)(a, *lda, turned, conj_, unit, i, j), from[j]);
        x[i * *incx] = sum;
    }
}

void F(trsv)(const char *uplo, const char *trans, const char *diag, const fint *n, const T *a, const fint *lda, T *x,
             const fint *incx, size_t l1, size_t l2, size_t l3)
{
    (void)l1, (void)l2, (void)l3;
    bool turned = !is(trans, 'N'), upper = is(uplo, 'U') != turned, unit = is(diag, 'U'), conj_ = is(trans, 'C');
    x = START(x, *n, *incx);
    for (int64_t step = 0; step < *n; step++) {
        int64_t i = upper ? *n - 1 - step : step;
        T sum = x[i * *incx];
        for (int64_t j = upper ? i + 1 : 0; j < (upper ? *n : i); j++)
            sum -= MUL(F(element)(a, *lda, turned, conj_, unit, i, j), x[j * *incx]);
        x[i * *incx] = unit ? sum : sum / F(element)(a, *lda, turned, conj_, false, i, i);
    }
}

/* ---- matrices ---- */

/* C = op(A) op(B), or the product is added or subtracted. Stored by columns, a matrix is the transpose of the same
 * memory stored by rows: so the operands change places. */
static void F(multiply)(char ta, char tb, int64_t m, int64_t n, int64_t k, const T *a, int64_t lda, const T *b,
                        int64_t ldb, mr_to_c how, T *c, int64_t ldc)
{
    mr_product p = {.type = TYPE, .ta = !is(&tb, 'N'), .tb = !is(&ta, 'N'), .conj_a = COMPLEX && is(&tb, 'C'),
                    .conj_b = COMPLEX && is(&ta, 'C'), .how = how, .m = n, .n = m, .k = k, .a = b, .b = a, .c = c,
                    .lda = ldb, .ldb = lda, .ldc = ldc};
    if (m > 0 && n > 0 && k > 0)
        mr_lapack_now.call->product(&p, mr_lapack_now.room);
}

void F(gemm)(const char *ta, const char *tb, const fint *m, const fint *n, const fint *k, const T *alpha, const T *a,
             const fint *lda, const T *b, const fint *ldb, const T *beta, T *c, const fint *ldc, size_t l1, size_t l2)
{
    (void)l1, (void)l2;
    mr_lapack_poll();
    bool empty = *k == 0 || *alpha == 0;
    if (!empty && ((*alpha == 1 && (*beta == 0 || *beta == 1)) || (*alpha == -1 && *beta == 1))) {
        mr_to_c how = *alpha == -1 ? MR_C_SUBTRACT : *beta == 0 ? MR_C_WRITE : MR_C_ADD;
        F(multiply)(*ta, *tb, *m, *n, *k, a, *lda, b, *ldb, how, c, *ldc);
        return;
    }
    T *product = mr_lapack_now.temp;
    for (int64_t j = 0; j < *n; j += MR_LAPACK_TEMP_COLUMNS) {
        int64_t cols = MR_MIN(MR_LAPACK_TEMP_COLUMNS, *n - j);
        const T *part = b + (is(tb, 'N') ? j * *ldb : j);
        if (!empty)
            F(multiply)(*ta, *tb, *m, cols, *k, a, *lda, part, *ldb, MR_C_WRITE, product, *m);
        for (int64_t l = 0; l < cols; l++) {
            F(scale_vector)(*m, *beta, c + (j + l) * *ldc, 1);
            if (!empty)
                F(axpy_run)(*m, *alpha, product + l * *m, c + (j + l) * *ldc);
        }
    }
}

/* One triangle of C = alpha A B^H + conj(alpha) B A^H + beta C, where A and B are n x k. Blocks beside the diagonal are
 * plain products; those on it are computed as a whole, and half of them is used. */
#if COMPLEX
void F(her2k)
#else
void F(syr2k)
#endif
(const char *uplo, const char *trans, const fint *n, const fint *k, const T *alpha, const T *a, const fint *lda,
 const T *b, const fint *ldb, const R *beta, T *c, const fint *ldc, size_t l1, size_t l2)
{
    (void)l1, (void)l2;
    bool upper = is(uplo, 'U'), turned = !is(trans, 'N');
    char first = turned ? 'C' : 'N', second = turned ? 'N' : 'C';
    const T one = 1, zero = 0, beta_ = *beta, conj_alpha = CONJ(*alpha);
    T *square = (T *)mr_lapack_now.temp; /* gemm uses the rest of it only for other factors than these */
    for (int64_t j = 0; j < *n; j += MR_LAPACK_TEMP_COLUMNS / 2) {
        fint cols = (fint)MR_MIN(MR_LAPACK_TEMP_COLUMNS / 2, *n - j);
        int64_t i0 = upper ? 0 : j + cols;
        fint rows = (fint)(upper ? j : *n - i0);
        const T *aj = a + (turned ? j * *lda : j), *bj = b + (turned ? j * *ldb : j);
        const T *ai = a + (turned ? i0 * *lda : i0), *bi = b + (turned ? i0 * *ldb : i0);
        T *off = c + j * *ldc + i0, *on = c + j * *ldc + j;
        F(gemm)(&first, &second, &rows, &cols, k, alpha, ai, lda, bj, ldb, &beta_, off, ldc, 1, 1);
        F(gemm)(&first, &second, &rows, &cols, k, &conj_alpha, bi, ldb, aj, lda, &one, off, ldc, 1, 1);
        F(multiply)(first, second, cols, cols, *k, aj, *lda, bj, *ldb, MR_C_WRITE, square, cols);
        for (int64_t q = 0; q < cols; q++)
            for (int64_t p = upper ? 0 : q; p < (upper ? q + 1 : cols); p++) {
                T sum = MUL(*alpha, square[q * cols + p]) + CONJ(MUL(*alpha, square[p * cols + q]));
                T old = *beta == 0 ? zero : *beta * on[q * *ldc + p];
                on[q * *ldc + p] = p == q ? RE(old) + RE(sum) : old + sum;
            }
    }
}

/* B = op(A) B or B op(A) for a small triangle, which is written as a full matrix; B is m x n. */
static void F(triangle)(bool left, char uplo, char trans, char diag, int64_t m, int64_t n, const T *a, int64_t lda,
                        T *b, int64_t ldb)
{
    int64_t size = left ? m : n, step = 4 * MR_LAPACK_TEMP_COLUMNS;
    T full[MR_LAPACK_TEMP_COLUMNS / 2 * MR_LAPACK_TEMP_COLUMNS / 2], *copy = mr_lapack_now.temp;
    for (int64_t j = 0; j < size; j++)
        for (int64_t i = 0; i < size; i++) {
            bool inside = is(&uplo, 'U') ? i <= j : i >= j;
            full[j * size + i] = i == j && is(&diag, 'U') ? 1 : inside ? a[j * lda + i] : 0;
        }
    if (left) {
        for (int64_t j = 0; j < n; j += MR_LAPACK_TEMP_COLUMNS) {
            int64_t cols = MR_MIN(MR_LAPACK_TEMP_COLUMNS, n - j);
            for (int64_t l = 0; l < cols; l++)
                memcpy(copy + l * m, b + (j + l) * ldb, sizeof(T) * (size_t)m);
            F(multiply)(trans, 'N', m, cols, m, full, m, copy, m, MR_C_WRITE, b + j * ldb, ldb);
        }
        return;
    }
    for (int64_t i = 0; i < m; i += step) {
        int64_t rows = MR_MIN(step, m - i);
        for (int64_t j = 0; j < n; j++)
            memcpy(copy + j * rows, b + j * ldb + i, sizeof(T) * (size_t)rows);
        F(multiply)('N', trans, rows, n, n, copy, rows, full, n, MR_C_WRITE, b + i, ldb);
    }
}

/* By halves: the triangle is [A11 A12; 0 A22], or with A21 below. */
static void F(trmm_part)(bool left, char uplo, char trans, char diag, int64_t m, int64_t n, const T *a, int64_t lda,
                         T *b, int64_t ldb)
{
    int64_t size = left ? m : n, h = size / 2;
    if (size <= MR_LAPACK_TEMP_COLUMNS / 2) {
        F(triangle)(left, uplo, trans, diag, m, n, a, lda, b, ldb);
        return;
    }
    bool stored_upper = is(&uplo, 'U'), upper = stored_upper == is(&trans, 'N'); /* of op(A) */
    const T *a22 = a + h * lda + h, *off = stored_upper ? a + h * lda : a + h;
    T *b2 = left ? b + h : b + h * ldb;
    int64_t m1 = left ? h : m, n1 = left ? n : h, m2 = left ? m - h : m, n2 = left ? n : n - h;
    bool first_half_first = left == upper; /* its result does not need the old other half, or gives to it */
    for (int turn = 0; turn < 2; turn++) {
        bool first = (turn == 0) == first_half_first;
        if (first) {
            F(trmm_part)(left, uplo, trans, diag, m1, n1, a, lda, b, ldb);
            if (turn == 0 && left)
                F(multiply)(trans, 'N', m1, n1, m2, off, lda, b2, ldb, MR_C_ADD, b, ldb);
            else if (turn == 0)
                F(multiply)('N', trans, m1, n1, n2, b2, ldb, off, lda, MR_C_ADD, b, ldb);
        } else {
            F(trmm_part)(left, uplo, trans, diag, m2, n2, a22, lda, b2, ldb);
            if (turn == 0 && left)
                F(multiply)(trans, 'N', m2, n2, m1, off, lda, b, ldb, MR_C_ADD, b2, ldb);
            else if (turn == 0)
                F(multiply)('N', trans, m2, n2, n1, b, ldb, off, lda, MR_C_ADD, b2, ldb);
        }
    }
}

void F(trmm)(const char *side, const char *uplo, const char *trans, const char *diag, const fint *m, const fint *n,
             const T *alpha, const T *a, const fint *lda, T *b, const fint *ldb, size_t l1, size_t l2, size_t l3,
             size_t l4)
{
    (void)l1, (void)l2, (void)l3, (void)l4;
    mr_lapack_poll();
    for (int64_t j = 0; j < *n; j++)
        F(scale_vector)(*m, *alpha, b + j * *ldb, 1);
    if (*m > 0 && *n > 0 && *alpha != 0)
        F(trmm_part)(is(side, 'L'), *uplo, *trans, *diag, *m, *n, a, *lda, b, *ldb);
}

#pragma GCC diagnostic pop
#undef T
#undef R
#undef TYPE
#undef COMPLEX
#undef F
#undef OF_REAL
#undef IAMAX
#undef ROT
#undef SCALE_REAL
#undef CONJ
#undef RE
#undef IM
#undef MUL
#endif
