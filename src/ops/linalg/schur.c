/* ops/linalg/schur.c -- the QR algorithm on complex matrices, and functions of matrices.
 *
 * Reflections reduce A to Hessenberg form, then rotations with single shifts (Wilkinson's) deflate one eigenvalue
 * after the other. Roots of triangles are computed row by row (Bjorck and Hammarling); logarithms by taking
 * roots until the triangle is near the identity, and then a Gauss-Legendre rule, which is a Pade approximation;
 * exponentials by the Pade approximation of order 13. */
#include "ops/linalg/schur.h"

#include <complex.h>
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/complex_mul.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/product.h"
#include "run/scratch.h"

typedef mr_c128 cx;

enum { MAX_ROUNDS = 60, MAX_ROOTS = 100, LANES = 8 };

/* |Re| + |Im| */
MR_INLINE double size1(cx x) { return fabs(creal(x)) + fabs(cimag(x)); }

static mr_status *make_room(const mr_run *r, int64_t n, cx **out)
{
    size_t bytes;
    *out = NULL;
    if (!mr_size_mul((size_t)n, sizeof(cx), &bytes) || !(*out = mr_scratch(r, bytes)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld complex numbers", (long long)n);
    return NULL;
}

static void set_identity(int64_t n, cx *a)
{
    memset(a, 0, sizeof(cx) * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++)
        a[i * n + i] = 1;
}

/* c = a b */
MR_CLONES static void multiply_matrices(int64_t n, const cx *a, const cx *b, cx *c)
{
    for (int64_t i = 0; i < n; i++) {
        cx *row = c + i * n;
        memset(row, 0, sizeof(cx) * (size_t)n);
        for (int64_t k = 0; k < n; k++) {
            const cx f = a[i * n + k];
            MR_IVDEP
            for (int64_t j = 0; j < n; j++)
                row[j] += mr_mul_c128(f, b[k * n + j]);
        }
    }
}

/* ---- Hessenberg ---- */

/* v and tau with (1 - conj(tau) v v^H) x = beta e_1 for the m numbers of x, n apart. */
static cx make_reflection(const cx *x, int64_t m, int64_t n, cx *v, double *beta)
{
    double rest = 0, top = 0;
    for (int64_t i = 0; i < m; i++)
        top = fmax(top, size1(x[i * n]));
    for (int64_t i = 1; i < m && top > 0; i++) {
        cx y = x[i * n] / top;
        rest += creal(y) * creal(y) + cimag(y) * cimag(y);
    }
    v[0] = 1;
    *beta = creal(x[0]);
    if (rest == 0)
        return 0;
    double length = hypot(cabs(x[0]), top * sqrt(rest));
    *beta = -copysign(length, creal(x[0]));
    for (int64_t i = 1; i < m; i++)
        v[i] = x[i * n] / (x[0] - *beta);
    return (*beta - x[0]) / *beta;
}

/* to += f from, for n numbers */
MR_CLONES static void add_row(int64_t n, cx f, const cx *from, cx *to)
{
    const double re = creal(f), im = cimag(f), *x = (const double *)from;
    double *y = (double *)to;
    MR_IVDEP
    for (int64_t j = 0; j < n; j++) {
        y[2 * j] += re * x[2 * j] - im * x[2 * j + 1];
        y[2 * j + 1] += re * x[2 * j + 1] + im * x[2 * j];
    }
}

/* Rows of a (m of them, n apart): a -= f v (v^H a), on `cols` columns. */
static void reflect_rows(int64_t m, int64_t cols, cx f, const cx *v, cx *a, int64_t n, cx *w)
{
    memset(w, 0, sizeof(cx) * (size_t)cols);
    for (int64_t i = 0; i < m; i++)
        add_row(cols, conj(v[i]), a + i * n, w);
    for (int64_t i = 0; i < m; i++)
        add_row(cols, -mr_mul_c128(f, v[i]), w, a + i * n);
}

/* The sum of x[j] y[j]. Several sums are computed at a time, because each addition would otherwise wait for the
 * previous one. */
MR_CLONES static cx sum_products(int64_t n, const cx *x, const cx *y)
{
    double re[LANES] = {0}, im[LANES] = {0};
    const double *p = (const double *)x, *q = (const double *)y;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES, p += 2 * LANES, q += 2 * LANES)
        for (int l = 0; l < LANES; l++) {
            re[l] += p[2 * l] * q[2 * l] - p[2 * l + 1] * q[2 * l + 1];
            im[l] += p[2 * l] * q[2 * l + 1] + p[2 * l + 1] * q[2 * l];
        }
    cx sum = 0;
    for (; j < n; j++)
        sum += mr_mul_c128(x[j], y[j]);
    for (int l = 0; l < LANES; l++)
        sum += __builtin_complex(re[l], im[l]);
    return sum;
}

/* Columns of a (m of them): a -= f (a v) v^H, on `rows` rows; `turned` is conj(v). */
static void reflect_columns(int64_t rows, int64_t m, cx f, const cx *v, const cx *turned, cx *a, int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        add_row(m, -mr_mul_c128(f, sum_products(m, a + i * n, v)), turned, a + i * n);
}

static mr_status *reduce_to_hessenberg(const mr_run *r, int64_t n, cx *a, cx *z, cx *v, cx *w)
{
    for (int64_t k = 0; k + 2 < n; k++) {
        double beta;
        int64_t m = n - k - 1;
        MR_TRY(mr_matrix_cancelled(r));
        cx *below = a + (k + 1) * n + k, tau = make_reflection(below, m, n, v, &beta);
        if (tau == 0)
            continue;
        reflect_rows(m, n - k - 1, conj(tau), v, below + 1, n, w);
        for (int64_t i = 0; i < m; i++)
            w[i] = conj(v[i]);
        reflect_columns(n, m, tau, v, w, a + k + 1, n);
        if (z)
            reflect_columns(n, m, tau, v, w, z + k + 1, n);
        for (int64_t i = 0; i < m; i++)
            below[i * n] = i == 0 ? beta : 0;
    }
    return NULL;
}

/* ---- the QR algorithm ---- */

/* The eigenvalue of the last two rows and columns of the active part that is nearer to the corner. */
static cx corner_shift(const cx *a, int64_t n, int64_t last)
{
    cx p = a[(last - 1) * n + last - 1], q = a[(last - 1) * n + last], r = a[last * n + last - 1],
       s = a[last * n + last];
    cx half = (p - s) / 2, root = csqrt(mr_mul_c128(half, half) + mr_mul_c128(q, r));
    cx plus = half + root, minus = half - root;
    return s + (size1(plus) < size1(minus) ? plus : minus);
}

/* c and s with c real that turn (x, y) to (r, 0): r = c x + s y. */
static cx make_rotation(cx x, cx y, double *c, cx *s)
{
    double a = cabs(x), b = cabs(y), length = hypot(a, b);
    if (b == 0) {
        *c = 1;
        *s = 0;
        return x;
    }
    if (a == 0) {
        *c = 0;
        *s = conj(y) / b;
        return b;
    }
    *c = a / length;
    *s = mr_mul_c128(x / a, conj(y)) / length;
    return x / a * length;
}

typedef struct turns { /* the rotations of one step: of k and k + 1 */
    double *c;
    cx *s;
    double *room; /* scratch space for LANES rows of n numbers */
} turns;

/* x = c x + s y, y = c y - conj(s) x, for n numbers of two rows */
MR_CLONES static void turn_rows(int64_t n, double c, cx s, cx *row, cx *next)
{
    const double re = creal(s), im = cimag(s);
    double *x = (double *)row, *y = (double *)next;
    MR_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const double a = x[2 * j], b = x[2 * j + 1], p = y[2 * j], q = y[2 * j + 1];
        x[2 * j] = c * a + (re * p - im * q);
        x[2 * j + 1] = c * b + (re * q + im * p);
        y[2 * j] = c * p - (re * a + im * b);
        y[2 * j + 1] = c * q - (re * b - im * a);
    }
}

/* Applies the rotations from `first` to `last` in order, to columns of LANES rows: number k of row l has its real
 * part in x[l], its imaginary part in x[LANES + l], and number k + 1 follows. */
MR_INLINE void turn_lanes(int64_t first, int64_t last, const turns *t, double *x)
{
    for (int64_t k = first; k < last; k++, x += 2 * LANES) {
        const double c = t->c[k], re = creal(t->s[k]), im = cimag(t->s[k]);
        MR_IVDEP
        for (int l = 0; l < LANES; l++) {
            const double a = x[l], b = x[LANES + l], p = x[2 * LANES + l], q = x[3 * LANES + l];
            x[l] = c * a + (re * p + im * q);
            x[LANES + l] = c * b + (re * q - im * p);
            x[2 * LANES + l] = c * p - (re * a - im * b);
            x[3 * LANES + l] = c * q - (re * b + im * a);
        }
    }
}

/* Multiplies rows begin .. end of an upper triangle by the adjoints of the rotations. Within one row each rotation
 * depends on the previous one, so LANES rows are processed side by side. Left of a row's diagonal there are zeros,
 * which need no rotation. */
MR_CLONES static void turn_columns(int64_t n, int64_t begin, int64_t end, int64_t first, int64_t last, const turns *t,
                                   cx *a)
{
    for (int64_t i = begin; i < end; i += LANES) {
        int64_t from = MR_MAX(first, i - 1), rows = MR_MIN(LANES, end - i);
        double *x = t->room, *row = (double *)(a + i * n);
        for (int64_t k = from; k <= last; k++, x += 2 * LANES)
            for (int64_t l = 0; l < LANES; l++) { /* missing rows repeat the last one */
                x[l] = row[2 * (MR_MIN(l, rows - 1) * n + k)];
                x[LANES + l] = row[2 * (MR_MIN(l, rows - 1) * n + k) + 1];
            }
        turn_lanes(from, last, t, t->room);
        x = t->room;
        for (int64_t k = from; k <= last; k++, x += 2 * LANES)
            for (int64_t l = 0; l < rows; l++) {
                row[2 * (l * n + k)] = x[l];
                row[2 * (l * n + k) + 1] = x[LANES + l];
            }
    }
}

static void transpose_matrix(int64_t n, cx *a)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            cx t = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = t;
        }
}

/* One step on rows and columns first .. last; z is transposed, so its columns are stored as rows. Without z only
 * the eigenvalues are needed, and entries outside these rows and columns are not changed. */
static void qr_step(int64_t n, cx *a, cx *z, int64_t first, int64_t last, cx by, const turns *t)
{
    int64_t cols = z ? n : last + 1;
    for (int64_t i = first; i <= last; i++)
        a[i * n + i] -= by;
    for (int64_t k = first; k < last; k++) {
        cx *x = a + k * n, *y = x + n;
        x[k] = make_rotation(x[k], y[k], &t->c[k], &t->s[k]);
        y[k] = 0;
        turn_rows(cols - k - 1, t->c[k], t->s[k], x + k + 1, y + k + 1);
    }
    turn_columns(n, z ? 0 : first, last + 1, first, last, t, a);
    for (int64_t k = first; z && k < last; k++)
        turn_rows(n, t->c[k], conj(t->s[k]), z + k * n, z + (k + 1) * n);
    for (int64_t i = first; i <= last; i++)
        a[i * n + i] += by;
}

static mr_status *qr_iterate(const mr_run *r, int64_t n, cx *a, cx *z, const turns *t, bool *ok)
{
    int round = 0;
    *ok = true;
    for (int64_t last = n - 1; last > 0;) {
        int64_t first = last;
        for (; first > 0; first--) {
            double near = size1(a[first * n + first]) + size1(a[(first - 1) * n + first - 1]);
            cx *beside = &a[first * n + first - 1];
            if (size1(*beside) <= DBL_EPSILON * near || size1(*beside) < DBL_MIN) {
                *beside = 0;
                break;
            }
        }
        if (first == last) {
            last--;
            round = 0;
            continue;
        }
        *ok = round++ < MAX_ROUNDS && !isnan(creal(a[last * n + last]));
        if (!*ok)
            return NULL;
        MR_TRY(mr_matrix_cancelled(r));
        cx by = corner_shift(a, n, last);
        if (round % 11 == 10) /* an exceptional shift, in case of a cycle */
            by += size1(a[last * n + last - 1]);
        qr_step(n, a, z, first, last, by, t);
    }
    return NULL;
}

mr_status *mr_schur(const mr_run *r, int64_t n, mr_c128 *a, mr_c128 *z, bool *ok)
{
    mr_status *st = NULL;
    cx *v = NULL;
    *ok = true;
    if (n == 0)
        return NULL;
    MR_GO(make_room(r, (3 + LANES) * n, &v));
    if (z)
        set_identity(n, z);
    for (int64_t i = 0; i < n * n && *ok; i++)
        *ok = isfinite(creal(a[i])) && isfinite(cimag(a[i]));
    if (!*ok)
        goto out;
    MR_GO(reduce_to_hessenberg(r, n, a, z, v, v + n));
    if (z)
        transpose_matrix(n, z);
    st = qr_iterate(r, n, a, z, &(turns){(double *)v, v + n, (double *)(v + 2 * n)}, ok);
    if (z)
        transpose_matrix(n, z);
out:
    mr_scratch_free(v);
    return st;
}

/* ---- eigenvectors ---- */

/* Computes column k of the triangle's eigenvectors into x, by back substitution with divisors that are kept away
 * from 0. */
static void triangle_vector(int64_t n, const cx *t, int64_t k, double least, cx *x)
{
    for (int64_t i = n - 1; i >= 0; i--)
        x[i] = i == k ? 1 : 0;
    for (int64_t i = k - 1; i >= 0; i--) {
        cx sum = sum_products(k - i, t + i * n + i + 1, x + i + 1), gap = t[i * n + i] - t[k * n + k];
        if (size1(gap) < least)
            gap = least;
        x[i] = -sum / gap;
        double top = size1(x[i]);
        for (int64_t j = i; j <= k && top > 1e100; j++) /* close eigenvalues make it grow without bound */
            x[j] /= top;
    }
}

/* Column k of v = z x, normalised to length 1; scaled first so that squares are safe. */
static void set_column(int64_t n, const cx *z, cx *x, int64_t k, cx *v)
{
    double top = 0, squares = 0;
    for (int64_t i = 0; i <= k; i++)
        top = fmax(top, size1(x[i]));
    for (int64_t i = 0; i <= k; i++)
        x[i] /= top; /* x[k] was 1 or a fraction of the largest */
    for (int64_t i = 0; i < n; i++) {
        cx sum = sum_products(k + 1, z + i * n, x);
        v[i * n + k] = sum;
        squares += creal(sum) * creal(sum) + cimag(sum) * cimag(sum);
    }
    for (int64_t i = 0; i < n && squares > 0; i++)
        v[i * n + k] /= sqrt(squares);
}

mr_status *mr_eig(const mr_run *r, int64_t n, mr_c128 *a, mr_c128 *e, mr_c128 *v, bool *ok)
{
    mr_status *st = NULL;
    cx *z = NULL, *x = NULL;
    if (v) {
        MR_GO(make_room(r, n * n, &z));
        MR_GO(make_room(r, n, &x));
    }
    MR_GO(mr_schur(r, n, a, z, ok));
    double top = 0;
    for (int64_t i = 0; i < n; i++) {
        e[i] = a[i * n + i];
        for (int64_t j = i; j < n; j++)
            top = fmax(top, size1(a[i * n + j]));
    }
    for (int64_t k = 0; v && *ok && k < n; k++) {
        triangle_vector(n, a, k, fmax(DBL_EPSILON * top, DBL_MIN), x);
        set_column(n, z, x, k, v);
    }
out:
    mr_scratch_free(z);
    mr_scratch_free(x);
    return st;
}

/* ---- functions ---- */

/* Replaces a triangle by its square root, row by row from the last one. An entry of a row is complete when the entries
 * before it have been multiplied by their rows of the root. */
static void triangle_sqrt(int64_t n, cx *t)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        cx *row = t + i * n;
        row[i] = csqrt(row[i]);
        for (int64_t k = i + 1; k < n; k++) {
            const cx *done = t + k * n;
            row[k] = row[k] == 0 ? 0 : row[k] / (row[i] + done[k]);
            add_row(n - k - 1, -row[k], done + k + 1, row + k + 1);
        }
    }
}

/* c = a b, or a b^H */
static mr_status *multiply(const mr_run *r, int64_t n, const cx *a, const cx *b, bool adjoint, cx *c)
{
    mr_product p = {.type = MR_COMPLEX128, .tb = adjoint, .conj_b = adjoint, .how = MR_C_WRITE, .m = n, .n = n, .k = n,
                    .a = a, .b = b, .c = c, .lda = n, .ldb = n, .ldc = n};
    p.way = mr_product_choose(&p);
    void *room = mr_scratch(r, mr_product_room(&p));
    if (!room)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to multiply matrices of %lld x %lld", (long long)n,
                        (long long)n);
    mr_product_run(&p, room);
    mr_scratch_free(room);
    return NULL;
}

/* a = z t z^H */
static mr_status *put_together(const mr_run *r, int64_t n, const cx *z, const cx *t, cx *a, cx *w)
{
    if (n == 0)
        return NULL;
    MR_TRY(multiply(r, n, z, t, false, w));
    return multiply(r, n, w, z, true, a);
}

mr_status *mr_matrix_sqrt(const mr_run *r, int64_t n, mr_c128 *a, bool *ok)
{
    mr_status *st = NULL;
    cx *z = NULL, *w = NULL, *t = NULL;
    MR_GO(make_room(r, n * n, &z));
    MR_GO(make_room(r, n * n, &w));
    MR_GO(make_room(r, n * n, &t));
    memcpy(t, a, sizeof(cx) * (size_t)(n * n));
    MR_GO(mr_schur(r, n, t, z, ok));
    if (*ok) {
        triangle_sqrt(n, t);
        MR_GO(put_together(r, n, z, t, a, w));
    }
out:
    mr_scratch_free(z);
    mr_scratch_free(w);
    mr_scratch_free(t);
    return st;
}

/* Points and weights of the Gauss-Legendre rule on 0 .. 1. */
static const double points[] = {
    0.019855071751231884, 0.10166676129318663, 0.2372337950418355, 0.4082826787521751,
    0.5917173212478249,   0.7627662049581645,  0.8983332387068134, 0.9801449282487681};
static const double weights[] = {
    0.05061426814518813, 0.11119051722668724, 0.15685332293894363, 0.18134189168918100,
    0.18134189168918100, 0.15685332293894363, 0.11119051722668724, 0.05061426814518813};

/* x = (1 + p y)^-1 y for a triangle y, row by row from the last one. */
static void triangle_quotient(int64_t n, const cx *y, double p, cx *x)
{
    memcpy(x, y, sizeof(cx) * (size_t)(n * n));
    for (int64_t i = n - 1; i >= 0; i--) {
        cx *row = x + i * n;
        for (int64_t k = i + 1; k < n; k++)
            add_row(n - k, -p * y[i * n + k], x + k * n + k, row + k);
        for (int64_t j = i; j < n; j++)
            row[j] /= 1 + p * y[i * n + i];
    }
}

static double distance_from_one(int64_t n, const cx *t)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = i; j < n; j++)
            sum += size1(t[i * n + j] - (i == j));
        most = fmax(most, sum);
    }
    return most;
}

/* log t = 2^s log(t^(2^-s)); the diagonal is computed directly, because roots lose digits of it. */
static void triangle_log(int64_t n, cx *t, cx *x, cx *sum, cx *diagonal)
{
    int roots = 0;
    for (int64_t i = 0; i < n; i++)
        diagonal[i] = clog(t[i * n + i]);
    while (distance_from_one(n, t) > 0.1 && roots < MAX_ROOTS) {
        triangle_sqrt(n, t);
        roots++;
    }
    for (int64_t i = 0; i < n; i++)
        t[i * n + i] -= 1;
    memset(sum, 0, sizeof(cx) * (size_t)(n * n));
    for (int p = 0; p < 8; p++) {
        triangle_quotient(n, t, points[p], x);
        for (int64_t i = 0; i < n * n; i++)
            sum[i] += weights[p] * x[i];
    }
    for (int64_t i = 0; i < n * n; i++)
        t[i] = ldexp(1, roots) * sum[i];
    for (int64_t i = 0; i < n; i++)
        t[i * n + i] = diagonal[i];
}

mr_status *mr_matrix_log(const mr_run *r, int64_t n, mr_c128 *a, bool *ok)
{
    mr_status *st = NULL;
    cx *z = NULL, *w = NULL, *t = NULL, *d = NULL;
    MR_GO(make_room(r, n * n, &z));
    MR_GO(make_room(r, n * n, &w));
    MR_GO(make_room(r, n * n, &t));
    MR_GO(make_room(r, n, &d));
    memcpy(t, a, sizeof(cx) * (size_t)(n * n));
    MR_GO(mr_schur(r, n, t, z, ok));
    if (*ok) {
        for (int64_t i = 0; i < n; i++) /* rotations leave rounding errors below the diagonal */
            memset(t + i * n, 0, sizeof(cx) * (size_t)i);
        triangle_log(n, t, w, a, d);
        MR_GO(put_together(r, n, z, t, a, w));
    }
out:
    mr_scratch_free(z);
    mr_scratch_free(w);
    mr_scratch_free(t);
    mr_scratch_free(d);
    return st;
}

/* ---- exponential ---- */

/* b = a^-1 b by elimination with pivoting; both are overwritten. */
static void solve_matrix(int64_t n, cx *a, cx *b)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (size1(a[i * n + k]) > size1(a[best * n + k]))
                best = i;
        for (int64_t j = 0; best != k && j < n; j++) {
            cx x = a[k * n + j], y = b[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = x;
            b[k * n + j] = b[best * n + j];
            b[best * n + j] = y;
        }
        for (int64_t i = k + 1; i < n; i++) {
            cx f = a[i * n + k] / a[k * n + k];
            for (int64_t j = k + 1; j < n; j++)
                a[i * n + j] -= mr_mul_c128(f, a[k * n + j]);
            for (int64_t j = 0; j < n; j++)
                b[i * n + j] -= mr_mul_c128(f, b[k * n + j]);
        }
    }
    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t j = 0; j < n; j++) {
            cx sum = b[i * n + j];
            for (int64_t k = i + 1; k < n; k++)
                sum -= mr_mul_c128(a[i * n + k], b[k * n + j]);
            b[i * n + j] = sum / a[i * n + i];
        }
}

static double one_norm(int64_t n, const cx *a)
{
    double most = 0;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += cabs(a[i * n + j]);
        most = sum > most || sum != sum ? sum : most;
    }
    return most;
}

/* Coefficients of the Pade approximation of order 13: (26 - k)! 13! / (26! k! (13 - k)!). */
static void pade_coefficients(double *c)
{
    c[0] = 1;
    for (int k = 1; k <= 13; k++)
        c[k] = c[k - 1] * (14 - k) / ((27 - k) * (double)k);
}

/* to += f from */
static void add_to(int64_t n, cx *to, double f, const cx *from)
{
    for (int64_t i = 0; i < n * n; i++)
        to[i] += f * from[i];
}

mr_status *mr_matrix_exp(const mr_run *r, int64_t n, mr_c128 *a)
{
    mr_status *st = NULL;
    cx *w = NULL;
    double c[14], size = one_norm(n, a);
    int halvings = size > 5 && isfinite(size) ? ilogb(size / 5) + 1 : 0;
    MR_GO(make_room(r, 5 * n * n, &w));
    cx *square = w, *power = w + n * n, *next = power + n * n, *even = next + n * n,
       *odd = even + n * n;
    pade_coefficients(c);
    for (int64_t i = 0; i < n * n; i++)
        a[i] *= ldexp(1, -halvings);
    multiply_matrices(n, a, a, square);
    set_identity(n, power);
    memset(even, 0, sizeof(cx) * (size_t)(n * n));
    memset(odd, 0, sizeof(cx) * (size_t)(n * n));
    for (int k = 0; k < 14; k += 2) { /* by powers of the square */
        add_to(n, even, c[k], power);
        add_to(n, odd, c[k + 1], power);
        multiply_matrices(n, power, square, next);
        cx *t = power;
        power = next;
        next = t;
    }
    multiply_matrices(n, a, odd, next); /* the odd powers */
    for (int64_t i = 0; i < n * n; i++) {
        square[i] = even[i] - next[i];
        a[i] = even[i] + next[i];
    }
    solve_matrix(n, square, a);
    for (; halvings > 0; halvings--) {
        multiply_matrices(n, a, a, next);
        memcpy(a, next, sizeof(cx) * (size_t)(n * n));
    }
out:
    mr_scratch_free(w);
    return st;
}
