/* ops/linalg/dense.c -- LU, Cholesky and triangular solves, by recursive halving.
 *
 * A factorization of [A11 A12; A21 A22] factors the left half, solves for A12, subtracts a product from A22 and
 * factors the result: a few lines each, independent of cache sizes, because the products do the blocking. Below
 * LEAF columns plain loops are faster than products of such sizes.
 *
 * In all functions of this file rows are `ld` elements apart. */
#ifndef T /* ---- read once ---- */
#include "ops/linalg/dense.h"

#include <complex.h>
#include <math.h>

#include "base/simd.h"
#include "ops/linalg/complex_mul.h"
#include "ops/linalg/gemm.h"

enum { LEAF = 16, TOGETHER = 16 };

/* Where to split n: at a multiple of LEAF, so that the blocks are whole. */
static int64_t half_size(int64_t n) { return (n / 2 + LEAF - 1) / LEAF * LEAF; }

#define MR_TYPED_FILE "ops/linalg/dense.c"
#include "ops/linalg/each_field.h"

const mr_dense *mr_dense_of(mr_dtype type)
{
    switch (type) {
    case MR_FLOAT: return &dense_float;
    case MR_DOUBLE: return &dense_double;
    case MR_COMPLEX64: return &dense_complex64;
    case MR_COMPLEX128: return &dense_complex128;
    default: return NULL;
    }
}

#else /* ---- read once a type ---- */

/* C -= op(A) op(B), where op is the adjoint or the identity; C is m x n, op(A) m x k. */
static mr_status *FN(subtract)(mr_run *r, int64_t m, int64_t n, int64_t k, bool adj_a, const T *a,
                               bool adj_b, const T *b, T *c, int64_t lda, int64_t ldb, int64_t ldc)
{
    bool complex_ = mr_dtype_is_complex(TYPE);
    mr_gemm g = {TYPE, m, n, k, adj_a, adj_b, adj_a && complex_, adj_b && complex_, true,
                 lda, ldb, ldc};
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g, .n_batch = 1, .a = a, .b = b, .c = c});
}

/* ---- triangular solves ---- */

/* Entry (i, j) of op(A). */
MR_INLINE T FN(entry)(mr_triangle t, const T *a, int64_t ld, int64_t i, int64_t j)
{
    return t.adjoint ? CONJ(a[j * ld + i]) : a[i * ld + j];
}

/* y -= f x */
MR_INLINE void FN(subtract_row)(T f, const T *x, T *y, int64_t n)
{
    MR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] -= MUL(f, x[i]);
}

MR_INLINE void FN(divide_row)(T d, T *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] /= d;
}

MR_CLONES static void FN(solve_leaf)(mr_triangle t, int64_t n, int64_t k, const T *a, int64_t lda,
                                     T *b, int64_t ldb)
{
    bool forward = t.lower != t.adjoint;
    for (int64_t step = 0; step < n; step++) {
        int64_t i = forward ? step : n - 1 - step;
        for (int64_t before = 0; before < step; before++) {
            int64_t j = forward ? before : n - 1 - before;
            FN(subtract_row)(FN(entry)(t, a, lda, i, j), b + j * ldb, b + i * ldb, k);
        }
        if (!t.unit)
            FN(divide_row)(FN(entry)(t, a, lda, i, i), b + i * ldb, k);
    }
}

static mr_status *FN(solve_part)(mr_run *r, mr_triangle t, int64_t n, int64_t k, const T *a,
                                 int64_t lda, T *b, int64_t ldb)
{
    if (n <= LEAF) {
        FN(solve_leaf)(t, n, k, a, lda, b, ldb);
        return NULL;
    }
    int64_t n1 = half_size(n), n2 = n - n1;
    const T *a22 = a + n1 * lda + n1, *off = t.lower ? a + n1 * lda : a + n1;
    T *b2 = b + n1 * ldb;
    if (t.lower != t.adjoint) { /* op(A) is lower: from the top down */
        MR_TRY(FN(solve_part)(r, t, n1, k, a, lda, b, ldb));
        MR_TRY(FN(subtract)(r, n2, k, n1, t.adjoint, off, false, b, b2, lda, ldb, ldb));
        return FN(solve_part)(r, t, n2, k, a22, lda, b2, ldb);
    }
    MR_TRY(FN(solve_part)(r, t, n2, k, a22, lda, b2, ldb));
    MR_TRY(FN(subtract)(r, n1, k, n2, t.adjoint, off, false, b2, b, lda, ldb, ldb));
    return FN(solve_part)(r, t, n1, k, a, lda, b, ldb);
}

static mr_status *FN(solve)(mr_run *r, mr_triangle t, int64_t n, int64_t k, const void *a, void *b)
{
    return FN(solve_part)(r, t, n, k, a, n, b, k);
}

/* ---- LU ---- */

MR_INLINE void FN(swap)(T *x, T *y, int64_t n)
{
    for (int64_t i = 0; x != y && i < n; i++) {
        T v = x[i];
        x[i] = y[i];
        y[i] = v;
    }
}

/* Applies the swaps of rows [from, to) to `cols` columns. */
static void FN(swap_rows)(const int64_t *pivots, int64_t from, int64_t to, T *a, int64_t ld,
                          int64_t cols)
{
    for (int64_t i = from; i < to; i++)
        FN(swap)(a + i * ld, a + pivots[i] * ld, cols);
}

MR_CLONES static void FN(lu_leaf)(int64_t m, int64_t n, T *a, int64_t ld, int64_t *pivots)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        R largest = SIZE(a[j * ld + j]);
        for (int64_t i = j + 1; i < m; i++)
            if (SIZE(a[i * ld + j]) > largest) {
                best = i;
                largest = SIZE(a[i * ld + j]);
            }
        pivots[j] = best;
        FN(swap)(a + j * ld, a + best * ld, n);
        const T pivot = a[j * ld + j];
        for (int64_t i = j + 1; i < m && pivot != 0; i++) {
            a[i * ld + j] /= pivot;
            FN(subtract_row)(a[i * ld + j], a + j * ld + j + 1, a + i * ld + j + 1, n - j - 1);
        }
    }
}

/* Factors the m x n matrix A, m >= n. */
static mr_status *FN(lu_part)(mr_run *r, int64_t m, int64_t n, T *a, int64_t ld, int64_t *pivots)
{
    if (n <= LEAF) {
        FN(lu_leaf)(m, n, a, ld, pivots);
        return NULL;
    }
    int64_t n1 = half_size(n), n2 = n - n1;
    T *a12 = a + n1, *a21 = a + n1 * ld, *a22 = a21 + n1;
    MR_TRY(FN(lu_part)(r, m, n1, a, ld, pivots));
    FN(swap_rows)(pivots, 0, n1, a12, ld, n2);
    MR_TRY(FN(solve_part)(r, (mr_triangle){.lower = true, .unit = true}, n1, n2, a, ld, a12, ld));
    MR_TRY(FN(subtract)(r, m - n1, n2, n1, false, a21, false, a12, a22, ld, ld, ld));
    MR_TRY(FN(lu_part)(r, m - n1, n2, a22, ld, pivots + n1));
    for (int64_t i = n1; i < n; i++)
        pivots[i] += n1;
    FN(swap_rows)(pivots, n1, n, a, ld, n1);
    return NULL;
}

static mr_status *FN(lu)(mr_run *r, int64_t n, void *a, int64_t *pivots)
{
    return FN(lu_part)(r, n, n, a, n, pivots);
}

static bool FN(has_zero_pivot)(int64_t n, const void *lu)
{
    const T *a = lu;
    for (int64_t i = 0; i < n; i++)
        if (a[i * n + i] == 0)
            return true;
    return false;
}

/* A^-1 = U^-1 L^-1 P, A^-H = P^T L^-H U^-H. */
static mr_status *FN(lu_solve)(mr_run *r, bool adjoint, int64_t n, int64_t k, const void *lu,
                               const int64_t *pivots, void *b)
{
    const mr_triangle l = {.lower = true, .adjoint = adjoint, .unit = true};
    const mr_triangle u = {.adjoint = adjoint};
    if (!adjoint)
        FN(swap_rows)(pivots, 0, n, b, k, k);
    MR_TRY(FN(solve)(r, adjoint ? u : l, n, k, lu, b));
    MR_TRY(FN(solve)(r, adjoint ? l : u, n, k, lu, b));
    for (int64_t i = n - 1; adjoint && i >= 0; i--)
        FN(swap)((T *)b + i * k, (T *)b + pivots[i] * k, k);
    return NULL;
}

static void FN(lu_determinant)(int64_t n, const void *lu, const int64_t *pivots, mr_c128 *fraction,
                               int64_t *exponent)
{
    const T *a = lu;
    mr_c128 product = 1;
    *exponent = 0;
    for (int64_t i = 0; i < n; i++) {
        product = mr_mul_c128(product, pivots[i] == i ? a[i * n + i] : -a[i * n + i]);
        int e = 0;
        double size = fmax(fabs(creal(product)), fabs(cimag(product)));
        if (size > 0 && isfinite(size))
            frexp(size, &e);
        product = __builtin_complex(ldexp(creal(product), -e), ldexp(cimag(product), -e));
        *exponent += e;
    }
    *fraction = product;
}

/* ---- Cholesky ---- */

/* TOGETHER rows are solved at once, as the vectors of a transposed copy: with the same operations on each element. */
MR_CLONES static void FN(solve_right_leaf)(int64_t m, int64_t n, const T *l, T *b, int64_t ld)
{
    int64_t i = 0;
    for (; i + TOGETHER <= m; i += TOGETHER, b += TOGETHER * ld) {
        T x[LEAF][TOGETHER];
        for (int64_t j = 0; j < n; j++)
            for (int r = 0; r < TOGETHER; r++)
                x[j][r] = b[r * ld + j];
        for (int64_t j = 0; j < n; j++) {
            for (int64_t k = 0; k < j; k++) {
                const T f = CONJ(l[j * ld + k]);
                for (int r = 0; r < TOGETHER; r++)
                    x[j][r] -= MUL(x[k][r], f);
            }
            const R d = RE(l[j * ld + j]);
            for (int r = 0; r < TOGETHER; r++)
                x[j][r] /= d;
        }
        for (int r = 0; r < TOGETHER; r++)
            for (int64_t j = 0; j < n; j++)
                b[r * ld + j] = x[j][r];
    }
    for (; i < m; i++, b += ld)
        for (int64_t j = 0; j < n; j++) {
            T sum = b[j];
            for (int64_t k = 0; k < j; k++)
                sum -= MUL(b[k], CONJ(l[j * ld + k]));
            b[j] = sum / RE(l[j * ld + j]);
        }
}

/* B = B L^-H, where B is m x n and L, a lower triangle, n x n. */
static mr_status *FN(solve_right)(mr_run *r, int64_t m, int64_t n, const T *l, T *b, int64_t ld)
{
    if (n <= LEAF) {
        FN(solve_right_leaf)(m, n, l, b, ld);
        return NULL;
    }
    int64_t n1 = half_size(n), n2 = n - n1;
    const T *l21 = l + n1 * ld;
    MR_TRY(FN(solve_right)(r, m, n1, l, b, ld));
    MR_TRY(FN(subtract)(r, m, n2, n1, false, b, true, l21, b + n1, ld, ld, ld));
    return FN(solve_right)(r, m, n2, l21 + n1, b + n1, ld);
}

/* The lower triangle of C -= A A^H, where C is n x n and A n x k. The upper triangle is not changed, except in
 * blocks on the diagonal. */
static mr_status *FN(subtract_square)(mr_run *r, int64_t n, int64_t k, const T *a, T *c, int64_t ld)
{
    if (n <= 4 * LEAF)
        return FN(subtract)(r, n, n, k, false, a, true, a, c, ld, ld, ld);
    int64_t n1 = half_size(n), n2 = n - n1;
    const T *a2 = a + n1 * ld;
    MR_TRY(FN(subtract_square)(r, n1, k, a, c, ld));
    MR_TRY(FN(subtract)(r, n2, n1, k, false, a2, true, a, c + n1 * ld, ld, ld, ld));
    return FN(subtract_square)(r, n2, k, a2, c + n1 * ld + n1, ld);
}

MR_CLONES static bool FN(cholesky_leaf)(int64_t n, T *a, int64_t ld)
{
    for (int64_t j = 0; j < n; j++) {
        R square = RE(a[j * ld + j]);
        for (int64_t k = 0; k < j; k++)
            square -= RE(MUL(a[j * ld + k], CONJ(a[j * ld + k])));
        if (square <= 0) /* false for NaN, which propagates */
            return false;
        const R root = (R)sqrt(square);
        a[j * ld + j] = root;
        for (int64_t i = j + 1; i < n; i++) {
            T sum = a[i * ld + j];
            for (int64_t k = 0; k < j; k++)
                sum -= MUL(a[i * ld + k], CONJ(a[j * ld + k]));
            a[i * ld + j] = sum / root;
        }
    }
    return true;
}

static mr_status *FN(cholesky_part)(mr_run *r, int64_t n, T *a, int64_t ld, bool *ok)
{
    if (n <= LEAF) {
        *ok = FN(cholesky_leaf)(n, a, ld);
        return NULL;
    }
    int64_t n1 = half_size(n), n2 = n - n1;
    T *a21 = a + n1 * ld, *a22 = a21 + n1;
    MR_TRY(FN(cholesky_part)(r, n1, a, ld, ok));
    if (!*ok)
        return NULL;
    MR_TRY(FN(solve_right)(r, n2, n1, a, a21, ld));
    MR_TRY(FN(subtract_square)(r, n2, n1, a21, a22, ld));
    return FN(cholesky_part)(r, n2, a22, ld, ok);
}

static mr_status *FN(cholesky)(mr_run *r, int64_t n, void *a, bool *ok)
{
    MR_TRY(FN(cholesky_part)(r, n, a, n, ok));
    for (int64_t i = 0; i < n; i++)
        memset((T *)a + i * n + i + 1, 0, sizeof(T) * (size_t)(n - i - 1));
    return NULL;
}

/* The lower triangle of G = L^H G: row i needs the rows from i on, so it can be computed in place. */
static void FN(multiply_lower)(int64_t n, const T *l, T *g)
{
    for (int64_t i = 0; i < n; i++) {
        T *row = g + i * n;
        for (int64_t j = 0; j <= i; j++)
            row[j] = MUL(CONJ(l[i * n + i]), row[j]);
        for (int64_t k = i + 1; k < n; k++)
            FN(subtract_row)(-CONJ(l[k * n + i]), g + k * n, row, i + 1);
    }
}

static void FN(adjoint)(int64_t n, T *a)
{
    for (int64_t i = 0; i < n; i++) {
        a[i * n + i] = CONJ(a[i * n + i]);
        for (int64_t j = 0; j < i; j++) {
            T v = CONJ(a[i * n + j]);
            a[i * n + j] = CONJ(a[j * n + i]);
            a[j * n + i] = v;
        }
    }
}

static mr_status *FN(cholesky_grad)(mr_run *r, int64_t n, const void *l, void *grad)
{
    const mr_triangle back = {.lower = true, .adjoint = true};
    T *g = grad;
    FN(multiply_lower)(n, l, g);
    for (int64_t i = 0; i < n; i++) { /* (P + P^H) / 2 */
        g[i * n + i] = RE(g[i * n + i]) * (R)0.5;
        for (int64_t j = 0; j < i; j++)
            g[j * n + i] = CONJ(g[i * n + j] *= (R)0.5);
    }
    MR_TRY(FN(solve)(r, back, n, n, l, g));
    FN(adjoint)(n, g); /* multiplying from the right is multiplying the adjoint from the left; the result is
                        * Hermitian */
    return FN(solve)(r, back, n, n, l, g);
}

static const mr_dense FN(dense) = {FN(lu),    FN(has_zero_pivot), FN(lu_solve),
                                   FN(lu_determinant), FN(solve), FN(cholesky),
                                   FN(cholesky_grad)};
#endif
