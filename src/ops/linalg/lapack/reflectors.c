/* ops/linalg/lapack/reflectors.c -- LAPACK's products of reflections, and its norms, on this library's products.
 *
 * These replace LAPACK's own routines of the same names, which take C apart and put it together element by element, or
 * ask a function about each element. Here the vectors are copied, with the ones and zeros that LAPACK leaves out, and
 * everything else is products of whole matrices. */
#ifndef T /* ---- read once ---- */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/complex_mul.h"
#include "ops/linalg/lapack/context.h"

typedef int32_t fint; /* Fortran's INTEGER */

enum { MOST_REFLECTIONS = MR_LAPACK_TEMP_COLUMNS / 2 }; /* LAPACK's blocks have 32 */

static bool is(const char *option, char want) { return (*option | 32) == (want | 32); }

#define T float
#define R float
#define COMPLEX 0
#define F(name) s##name##_
#define HERMITIAN_NORM slansy_
#define CONJ(x) (x)
#define SIZE(x) fabsf(x)
#define MUL(x, y) ((x) * (y))
#include "ops/linalg/lapack/reflectors.c"

#define T double
#define R double
#define COMPLEX 0
#define F(name) d##name##_
#define HERMITIAN_NORM dlansy_
#define CONJ(x) (x)
#define SIZE(x) fabs(x)
#define MUL(x, y) ((x) * (y))
#include "ops/linalg/lapack/reflectors.c"

#define T mr_c64
#define R float
#define COMPLEX 1
#define F(name) c##name##_
#define HERMITIAN_NORM clanhe_
#define CONJ(x) conjf(x)
#define SIZE(x) cabsf(x)
#define MUL(x, y) mr_mul_c64(x, y)
#include "ops/linalg/lapack/reflectors.c"

#define T mr_c128
#define R double
#define COMPLEX 1
#define F(name) z##name##_
#define HERMITIAN_NORM zlanhe_
#define CONJ(x) conj(x)
#define SIZE(x) cabs(x)
#define MUL(x, y) mr_mul_c128(x, y)
#include "ops/linalg/lapack/reflectors.c"

#else /* ---- read once a type ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* Fortran declares them */

void F(gemm)(const char *ta, const char *tb, const fint *m, const fint *n, const fint *k, const T *alpha, const T *a,
             const fint *lda, const T *b, const fint *ldb, const T *beta, T *c, const fint *ldc, size_t l1, size_t l2);

/* C = op(A) op(B), or the product is subtracted from C. */
static void F(product)(char ta, char tb, fint m, fint n, fint k, const T *a, fint lda, const T *b, fint ldb,
                       bool subtract, T *c, fint ldc)
{
    const T alpha = subtract ? -1 : 1, beta = subtract ? 1 : 0;
    F(gemm)(&ta, &tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
}

/* Copies k vectors of n numbers, stored as columns or rows. Vector j has a one at j and zeros before it; if they are
 * stored backward, it has a one at n - k + j and zeros after it. */
static void F(copy_vectors)(bool backward, bool rows, fint n, fint k, const T *v, fint ldv, T *to)
{
    int64_t first = backward ? n - k : 0; /* of the triangle */
    if (rows)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * k, v + i * ldv, sizeof(T) * (size_t)k);
    else
        for (int64_t j = 0; j < k; j++)
            memcpy(to + j * n, v + j * ldv, sizeof(T) * (size_t)n);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < k; i++)
            if (backward ? i >= j : i <= j)
                to[rows ? (first + i) * k + j : j * n + first + i] = i == j;
}

/* C = op(H) C or C op(H), where H = I - V T V^H is a product of k reflections. C is m x n. */
void F(larfb)(const char *side, const char *trans, const char *direct, const char *storev, const fint *m_,
              const fint *n_, const fint *k_, const T *v, const fint *ldv, const T *t, const fint *ldt, T *c,
              const fint *ldc, T *work, const fint *ldwork, size_t l1, size_t l2, size_t l3, size_t l4)
{
    (void)ldwork, (void)l1, (void)l2, (void)l3, (void)l4;
    fint m = *m_, n = *n_, k = *k_;
    bool left = is(side, 'L'), backward = is(direct, 'B'), rows = is(storev, 'R');
    fint length = left ? m : n, other = left ? n : m;
    T full[MOST_REFLECTIONS * MOST_REFLECTIONS];
    if (m <= 0 || n <= 0 || k <= 0)
        return;
    if (k > MOST_REFLECTIONS)
        mr_lapack_leave(MR_LAPACK_REFUSED);
    T *vectors = mr_lapack_now.temp, *turned = vectors + (int64_t)length * k;
    F(copy_vectors)(backward, rows, length, k, v, *ldv, vectors);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < k; i++)
            full[j * k + i] = (backward ? i >= j : i <= j) ? t[j * *ldt + i] : 0;
    char t_as = is(trans, 'N') ? 'N' : 'C', plain = rows ? 'C' : 'N', adjoint = rows ? 'N' : 'C';
    fint step = rows ? k : length;
    if (left) {
        F(product)(adjoint, 'N', k, other, length, vectors, step, c, *ldc, false, work, k);
        F(product)(t_as, 'N', k, other, k, full, k, work, k, false, turned, k);
        F(product)(plain, 'N', length, other, k, vectors, step, turned, k, true, c, *ldc);
    } else {
        F(product)('N', plain, other, k, length, c, *ldc, vectors, step, false, work, other);
        F(product)('N', t_as, other, k, k, work, other, full, k, false, turned, other);
        F(product)('N', adjoint, other, length, k, turned, other, vectors, step, true, c, *ldc);
    }
}

/* The triangle T of a product of k reflections of n numbers: column i is -tau_i T (V^H v_i), with tau_i on the
 * diagonal. */
void F(larft)(const char *direct, const char *storev, const fint *n_, const fint *k_, const T *v, const fint *ldv,
              const T *tau, T *t, const fint *ldt, size_t l1, size_t l2)
{
    (void)l1, (void)l2;
    fint n = *n_, k = *k_;
    bool backward = is(direct, 'B'), rows = is(storev, 'R');
    T *vectors = mr_lapack_now.temp, dots[MOST_REFLECTIONS * MOST_REFLECTIONS];
    if (n <= 0 || k <= 0)
        return;
    if (k > MOST_REFLECTIONS)
        mr_lapack_leave(MR_LAPACK_REFUSED);
    fint step = rows ? k : n; /* between columns of `vectors` */
    F(copy_vectors)(backward, rows, n, k, v, *ldv, vectors);
    F(product)(rows ? 'N' : 'C', rows ? 'C' : 'N', k, k, n, vectors, step, vectors, step, false, dots, k);
    for (int64_t done = 0; done < k; done++) {
        int64_t i = backward ? k - 1 - done : done, first = backward ? i + 1 : 0, last = backward ? k : i;
        T *column = t + i * *ldt;
        for (int64_t p = first; p < last; p++)
            column[p] = 0;
        for (int64_t q = first; q < last; q++) {
            const T f = -MUL(tau[i], dots[i * k + q]), *from = t + q * *ldt;
            for (int64_t p = backward ? q : 0; p < (backward ? k : q + 1); p++)
                column[p] += MUL(f, from[p]);
        }
        column[i] = tau[i];
    }
}

/* The largest absolute value of n numbers and `top`; NaN if there is one. */
MR_CLONES static R F(largest)(int64_t n, const T *x, R top)
{
    R tops[16] = {0};
    bool bad = top != top;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) {
            const R v = SIZE(x[i + l]);
            tops[l] = v > tops[l] ? v : tops[l];
            bad |= v != v;
        }
    for (; i < n; i++) {
        const R v = SIZE(x[i]);
        tops[0] = v > tops[0] ? v : tops[0];
        bad |= v != v;
    }
    for (int l = 0; l < 16; l++)
        top = tops[l] > top ? tops[l] : top;
    return bad ? (R)NAN : top;
}

/* The routines of this library ask for no other norm than this. */
static void F(need_largest)(const char *norm)
{
    if (!is(norm, 'M'))
        mr_lapack_leave(MR_LAPACK_REFUSED);
}

R F(lange)(const char *norm, const fint *m, const fint *n, const T *a, const fint *lda, R *work, size_t l1)
{
    (void)work, (void)l1;
    R top = 0;
    F(need_largest)(norm);
    for (int64_t j = 0; j < *n; j++)
        top = F(largest)(*m, a + j * *lda, top);
    return top;
}

/* Of a Hermitian matrix; the imaginary parts on the diagonal do not count. */
R HERMITIAN_NORM(const char *norm, const char *uplo, const fint *n, const T *a, const fint *lda, R *work, size_t l1,
                 size_t l2)
{
    (void)work, (void)l1, (void)l2;
    R top = 0;
    F(need_largest)(norm);
    for (int64_t j = 0; j < *n; j++) {
        const T *column = a + j * *lda, diagonal = (R)column[j];
        top = is(uplo, 'U') ? F(largest)(j, column, top) : F(largest)(*n - j - 1, column + j + 1, top);
        top = F(largest)(1, &diagonal, top);
    }
    return top;
}

#pragma GCC diagnostic pop
#undef T
#undef R
#undef COMPLEX
#undef F
#undef HERMITIAN_NORM
#undef CONJ
#undef SIZE
#undef MUL
#endif
