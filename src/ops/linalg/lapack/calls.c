/* ops/linalg/lapack/calls.c -- decompositions by LAPACK.
 *
 * LAPACK stores matrices by columns, so it sees the transpose M = A^T of ours. M = conj(V) S U^T, and if A is Hermitian,
 * M is its conjugate. Where vectors would not be contiguous in M, A is transposed before.
 *
 * Memory is cut from one block of the caller's. LAPACK is asked for the size of its own part with the same arguments. */
#ifndef T /* ---- read once ---- */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "ops/linalg/lapack/context.h"

typedef int32_t fint; /* Fortran's INTEGER */

const mr_lapack *mr_lapack_get(int abi) __attribute__((visibility("default")));

/* ---- memory ---- */

/* Cuts pieces from a block, or only counts their bytes if there is none. */
typedef struct pieces {
    char *next;
    size_t bytes;
} pieces;

static void *cut(pieces *p, int64_t n, size_t size)
{
    size_t bytes = ((size_t)n * size + 63) / 64 * 64;
    void *at = p->next;
    p->next += p->next ? bytes : 0;
    p->bytes += bytes;
    return at;
}

/* What BLAS needs for matrices with dimensions up to `longest`. */
static void cut_context(pieces *p, size_t size, int64_t longest, mr_lapack_context *c)
{
    c->room = cut(p, (int64_t)mr_product_most_room(size, longest), 1);
    c->temp = cut(p, MR_LAPACK_TEMP_COLUMNS * longest, size);
    c->x = cut(p, longest, size);
    c->y = cut(p, longest, size);
}

/* A workspace size that LAPACK returned as a number of type float or double. */
static fint size_from(double v) { return (fint)MR_MIN(nextafter((float)v, INFINITY), 2e9) + 1; }

#define T float
#define R float
#define COMPLEX 0
#define FN(name) name##_s
#define GEQRF sgeqrf_
#define ORGQR sorgqr_
#define HEEVD ssyevd_
#define GESDD sgesdd_
#define GEEV sgeev_
#define C mr_c64
#define RE(x) (x)
#define IM(x) 0.0f
#define CONJ(x) (x)
#include "ops/linalg/lapack/calls.c"

#define T double
#define R double
#define COMPLEX 0
#define FN(name) name##_d
#define GEQRF dgeqrf_
#define ORGQR dorgqr_
#define HEEVD dsyevd_
#define GESDD dgesdd_
#define GEEV dgeev_
#define C mr_c128
#define RE(x) (x)
#define IM(x) 0.0
#define CONJ(x) (x)
#include "ops/linalg/lapack/calls.c"

#define T mr_c64
#define R float
#define COMPLEX 1
#define FN(name) name##_c
#define GEQRF cgeqrf_
#define ORGQR cungqr_
#define HEEVD cheevd_
#define GESDD cgesdd_
#define GEEV cgeev_
#define C mr_c64
#define RE(x) crealf(x)
#define IM(x) cimagf(x)
#define CONJ(x) conjf(x)
#include "ops/linalg/lapack/calls.c"

#define T mr_c128
#define R double
#define COMPLEX 1
#define FN(name) name##_z
#define GEQRF zgeqrf_
#define ORGQR zungqr_
#define HEEVD zheevd_
#define GESDD zgesdd_
#define GEEV zgeev_
#define C mr_c128
#define RE(x) creal(x)
#define IM(x) cimag(x)
#define CONJ(x) conj(x)
#include "ops/linalg/lapack/calls.c"

/* ---- the table ---- */

#define OF_TYPE(call_type, fn, ...)                        \
    switch (call_type) {                                   \
    case MR_FLOAT: return fn##_s(__VA_ARGS__);             \
    case MR_DOUBLE: return fn##_d(__VA_ARGS__);            \
    case MR_COMPLEX64: return fn##_c(__VA_ARGS__);         \
    default: return fn##_z(__VA_ARGS__);                   \
    }

static size_t qr_room(mr_dtype type, int64_t m, int64_t n, int64_t k) { OF_TYPE(type, qr_room, m, n, k) }
static size_t eigh_room(mr_dtype type, int64_t n, bool vectors) { OF_TYPE(type, eigh_room, n, vectors) }

static size_t svd_room(mr_dtype type, int64_t m, int64_t n, int64_t ku, int64_t kv, bool vectors)
{
    OF_TYPE(type, svd_room, m, n, ku, kv, vectors)
}

static size_t eig_room(mr_dtype type, int64_t n, bool vectors) { OF_TYPE(type, eig_room, n, vectors) }

static mr_lapack_result qr_call(int64_t m, int64_t n, int64_t k, void *a, void *q)
{
    OF_TYPE(mr_lapack_now.call->type, qr, m, n, k, a, q)
}

static mr_lapack_result eigh_call(int64_t n, void *a, double *e, void *v)
{
    OF_TYPE(mr_lapack_now.call->type, eigh, n, a, e, v)
}

static mr_lapack_result svd_call(int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u, int64_t kv, void *v)
{
    OF_TYPE(mr_lapack_now.call->type, svd, m, n, a, s, ku, u, kv, v)
}

static mr_lapack_result eig_call(int64_t n, void *a, void *e, void *v)
{
    OF_TYPE(mr_lapack_now.call->type, eig, n, a, e, v)
}

/* Runs a call; BLAS may leave it early, with the reason. */
#define GUARDED(c, call_)                                  \
    mr_lapack_now.call = (c);                              \
    int left = setjmp(mr_lapack_now.back);                 \
    return left ? (mr_lapack_result)left : (call_)

static mr_lapack_result qr(const mr_lapack_call *c, int64_t m, int64_t n, int64_t k, void *a, void *q)
{
    GUARDED(c, qr_call(m, n, k, a, q));
}

static mr_lapack_result eigh(const mr_lapack_call *c, int64_t n, void *a, double *e, void *v)
{
    GUARDED(c, eigh_call(n, a, e, v));
}

static mr_lapack_result svd(const mr_lapack_call *c, int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u,
                            int64_t kv, void *v)
{
    GUARDED(c, svd_call(m, n, a, s, ku, u, kv, v));
}

static mr_lapack_result eig(const mr_lapack_call *c, int64_t n, void *a, void *e, void *v)
{
    GUARDED(c, eig_call(n, a, e, v));
}

const mr_lapack *mr_lapack_get(int abi)
{
    static const mr_lapack table = {MR_LAPACK_ABI, qr_room, qr, eigh_room, eigh, svd_room, svd, eig_room, eig};
    return abi == MR_LAPACK_ABI ? &table : NULL;
}

#else /* ---- read once a type ---- */

void GEQRF(const fint *m, const fint *n, T *a, const fint *lda, T *tau, T *work, const fint *lwork, fint *info);
void ORGQR(const fint *m, const fint *n, const fint *k, T *a, const fint *lda, const T *tau, T *work,
           const fint *lwork, fint *info);
#if COMPLEX
#define REAL_WORK(...) __VA_ARGS__,
#else
#define REAL_WORK(...)
#endif
void HEEVD(const char *jobz, const char *uplo, const fint *n, T *a, const fint *lda, R *w, T *work,
           const fint *lwork, REAL_WORK(R *rwork, const fint *lrwork) fint *iwork, const fint *liwork, fint *info,
           size_t l1, size_t l2);
void GESDD(const char *jobz, const fint *m, const fint *n, T *a, const fint *lda, R *s, T *u, const fint *ldu, T *vt,
           const fint *ldvt, T *work, const fint *lwork, REAL_WORK(R *rwork) fint *iwork, fint *info, size_t l1);
void GEEV(const char *jobvl, const char *jobvr, const fint *n, T *a, const fint *lda,
#if COMPLEX
          T *w,
#else
          T *wr, T *wi,
#endif
          T *vl, const fint *ldvl, T *vr, const fint *ldvr, T *work, const fint *lwork, REAL_WORK(R *rwork) fint *info,
          size_t l1, size_t l2);

/* to (rows x cols) = the transpose of `from` (cols x rows, `ld` apart), in squares that stay in the cache. */
static void FN(transpose)(int64_t rows, int64_t cols, const T *from, int64_t ld, T *to)
{
    for (int64_t i0 = 0; i0 < rows; i0 += 16)
        for (int64_t j0 = 0; j0 < cols; j0 += 16)
            if (i0 + 16 <= rows && j0 + 16 <= cols)
                for (int64_t i = 0; i < 16; i++)
#pragma GCC unroll 16
                    for (int64_t j = 0; j < 16; j++)
                        to[(i0 + i) * cols + j0 + j] = from[(j0 + j) * ld + i0 + i];
            else
                for (int64_t i = i0; i < MR_MIN(rows, i0 + 16); i++)
                    for (int64_t j = j0; j < MR_MIN(cols, j0 + 16); j++)
                        to[i * cols + j] = from[j * ld + i];
}

static void FN(conjugate)(int64_t n, T *x)
{
    for (int64_t i = 0; COMPLEX && i < n; i++)
        x[i] = CONJ(x[i]);
}

/* ---- QR ---- */

typedef struct FN(qr_memory) {
    T *tau, *work, *a, *q;
    fint lwork;
} FN(qr_memory);

static void FN(qr_memory_cut)(pieces *p, int64_t m_, int64_t n_, int64_t k_, FN(qr_memory) *w)
{
    fint m = (fint)m_, n = (fint)n_, k = (fint)k_, least = MR_MIN(m, n), query = -1, info;
    T size = 0, other = 0, none = 0;
    GEQRF(&m, &n, &none, &m, &none, &size, &query, &info);
    ORGQR(&m, &k, &least, &none, &m, &none, &other, &query, &info);
    w->lwork = MR_MAX(size_from((double)size), size_from((double)other));
    w->tau = cut(p, least, sizeof(T));
    w->work = cut(p, w->lwork, sizeof(T));
    w->a = cut(p, m_ * n_, sizeof(T));
    w->q = cut(p, m_ * k_, sizeof(T));
    cut_context(p, sizeof(T), MR_MAX(m_, n_), &mr_lapack_now);
}

static size_t FN(qr_room)(int64_t m, int64_t n, int64_t k)
{
    pieces p = {0};
    FN(qr_memory) w;
    FN(qr_memory_cut)(&p, m, n, k, &w);
    return p.bytes;
}

/* Works on a copy by columns: then reflections read and write contiguous memory. */
static mr_lapack_result FN(qr)(int64_t m_, int64_t n_, int64_t k_, void *a_, void *q)
{
    T *a = a_;
    fint m = (fint)m_, n = (fint)n_, k = (fint)k_, least = MR_MIN(m, n), info;
    FN(qr_memory) w;
    FN(qr_memory_cut)(&(pieces){mr_lapack_now.call->memory, 0}, m_, n_, k_, &w);
    FN(transpose)(n, m, a, n, w.a);
    GEQRF(&m, &n, w.a, &m, w.tau, w.work, &w.lwork, &info);
    FN(transpose)(m, n, w.a, m, a);
    for (int64_t i = 1; i < m; i++) /* the reflections are below the diagonal */
        memset(a + i * n_, 0, sizeof(T) * (size_t)MR_MIN(i, n));
    if (info == 0 && q) {
        memcpy(w.q, w.a, sizeof(T) * (size_t)(m_ * least));
        ORGQR(&m, &k, &least, w.q, &m, w.tau, w.work, &w.lwork, &info);
        FN(transpose)(m, k, w.q, m, q);
    }
    return info == 0 ? MR_LAPACK_OK : MR_LAPACK_REFUSED;
}

/* ---- Hermitian eigenvalues ---- */

typedef struct FN(eigh_memory) {
    R *values, *rwork;
    T *work;
    fint *iwork, lwork, lrwork, liwork;
} FN(eigh_memory);

static void FN(eigh_memory_cut)(pieces *p, int64_t n_, bool vectors, FN(eigh_memory) *w)
{
    fint n = (fint)n_, query = -1, isize = 0, info;
    T size = 0, none = 0;
    R rsize = 0, value;
    HEEVD(vectors ? "V" : "N", "U", &n, &none, &n, &value, &size, &query, REAL_WORK(&rsize, &query) &isize, &query,
          &info, 1, 1);
    w->lwork = size_from((double)size);
    w->lrwork = size_from((double)rsize);
    w->liwork = isize;
    w->values = cut(p, n, sizeof(R));
    w->work = cut(p, w->lwork, sizeof(T));
    w->rwork = cut(p, w->lrwork, sizeof(R));
    w->iwork = cut(p, w->liwork, sizeof(fint));
    cut_context(p, sizeof(T), n_, &mr_lapack_now);
}

static size_t FN(eigh_room)(int64_t n, bool vectors)
{
    pieces p = {0};
    FN(eigh_memory) w;
    FN(eigh_memory_cut)(&p, n, vectors, &w);
    return p.bytes;
}

/* Our lower triangle is the upper one of M, whose vectors are conjugated. */
static mr_lapack_result FN(eigh)(int64_t n_, void *a_, double *e, void *v_)
{
    T *a = a_, *v = v_;
    fint n = (fint)n_, info;
    FN(eigh_memory) w;
    FN(eigh_memory_cut)(&(pieces){mr_lapack_now.call->memory, 0}, n_, v, &w);
    HEEVD(v ? "V" : "N", "U", &n, a, &n, w.values, w.work, &w.lwork, REAL_WORK(w.rwork, &w.lrwork) w.iwork, &w.liwork,
          &info, 1, 1);
    for (int64_t i = 0; i < n; i++)
        e[i] = w.values[i];
    if (v) {
        FN(transpose)(n, n, a, n, v);
        FN(conjugate)(n_ * n_, v);
    }
    return info == 0 ? MR_LAPACK_OK : info > 0 ? MR_LAPACK_DIVERGED : MR_LAPACK_REFUSED;
}

/* ---- singular values ---- */

typedef struct FN(svd_memory) {
    R *values, *rwork;
    T *work, *side, *copy, *tops;
    fint *iwork, lwork;
} FN(svd_memory);

static const char *FN(svd_job)(int64_t m, int64_t n, int64_t ku, int64_t kv, bool vectors)
{
    return !vectors ? "N" : ku == m && kv == n ? "A" : "S";
}

/* LAPACK decomposes rows x cols numbers stored by columns: A itself if it is tall, after a transpose, or else M. */
static void FN(svd_memory_cut)(pieces *p, int64_t m, int64_t n, int64_t ku, int64_t kv, bool vectors,
                               FN(svd_memory) *w)
{
    bool tall = m > n;
    fint rows = (fint)(tall ? m : n), cols = (fint)(tall ? n : m), ldvt = (fint)MR_MAX(1, tall ? kv : ku);
    fint query = -1, integer, info;
    int64_t least = cols, most = rows;
    T size = 0, none = 0;
    R value;
    (void)value;
    GESDD(FN(svd_job)(m, n, ku, kv, vectors), &rows, &cols, &none, &rows, &value, &none, &rows, &none, &ldvt, &size,
          &query, REAL_WORK(&value) &integer, &info, 1);
    w->lwork = size_from((double)size);
    w->values = cut(p, least, sizeof(R));
    w->work = cut(p, w->lwork, sizeof(T));
    w->rwork = cut(p, COMPLEX ? MR_MAX(5 * least * least + 7 * least, 2 * most * least + 2 * least * least + least) : 0,
                   sizeof(R));
    w->iwork = cut(p, 8 * least, sizeof(fint));
    w->side = cut(p, vectors ? rows * (tall ? ku : kv) : 0, sizeof(T));
    w->copy = cut(p, tall ? m * n : 0, sizeof(T));
    w->tops = cut(p, least, sizeof(T));
    cut_context(p, sizeof(T), most, &mr_lapack_now);
}

static size_t FN(svd_room)(int64_t m, int64_t n, int64_t ku, int64_t kv, bool vectors)
{
    pieces p = {0};
    FN(svd_memory) w;
    FN(svd_memory_cut)(&p, m, n, ku, kv, vectors, &w);
    return p.bytes;
}

static void FN(turn_columns)(int64_t rows, int64_t p, int64_t ld, T *x, const T *turns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < p; j++)
            x[i * ld + j] *= turns[j];
}

/* Signs and phases are arbitrary; making the largest entry of each vector of the shorter side, x, positive makes them
 * reproducible, as in decompose.c. The vectors y of the other side are turned with them. */
static void FN(settle_signs)(int64_t p, int64_t n, int64_t kx, T *x, int64_t m, int64_t ky, T *y, T *tops)
{
    for (int64_t j = 0; j < p; j++)
        tops[j] = x[j];
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < p; j++) {
            const T v = x[i * kx + j], top = tops[j];
            const R size = RE(v) * RE(v) + IM(v) * IM(v), most = RE(top) * RE(top) + IM(top) * IM(top);
            tops[j] = size > most ? v : top;
        }
    for (int64_t j = 0; j < p; j++) {
        const R size = (R)hypot((double)RE(tops[j]), (double)IM(tops[j]));
        tops[j] = size > 0 ? CONJ(tops[j]) / size : 1;
    }
    FN(turn_columns)(n, p, kx, x, tops);
    FN(turn_columns)(m, p, ky, y, tops);
}

static mr_lapack_result FN(svd)(int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u, int64_t kv, void *v)
{
    bool tall = m > n;
    fint rows = (fint)(tall ? m : n), cols = (fint)(tall ? n : m), ldvt = (fint)MR_MAX(1, tall ? kv : ku), info;
    FN(svd_memory) w;
    FN(svd_memory_cut)(&(pieces){mr_lapack_now.call->memory, 0}, m, n, ku, kv, v, &w);
    if (tall)
        FN(transpose)(n, m, a, n, w.copy);
    GESDD(FN(svd_job)(m, n, ku, kv, v), &rows, &cols, tall ? w.copy : a, &rows, w.values, w.side, &rows, tall ? v : u,
          &ldvt, w.work, &w.lwork, REAL_WORK(w.rwork) w.iwork, &info, 1);
    for (int64_t i = 0; i < cols; i++)
        s[i] = w.values[i];
    if (v) {
        if (tall)
            FN(transpose)(m, ku, w.side, m, u);
        else
            FN(transpose)(n, kv, w.side, n, v);
        FN(conjugate)(n * kv, v); /* in both cases it is the conjugate */
        if (m < n)
            FN(settle_signs)(cols, m, ku, u, n, kv, v, w.tops);
        else
            FN(settle_signs)(cols, n, kv, v, m, ku, u, w.tops);
    }
    return info == 0 ? MR_LAPACK_OK : info > 0 ? MR_LAPACK_DIVERGED : MR_LAPACK_REFUSED;
}

/* ---- eigenvalues of any matrix ---- */

typedef struct FN(eig_memory) {
    T *copy, *values, *vectors, *work; /* values: of real matrices the real parts, then the imaginary ones */
    R *rwork;
    fint lwork;
} FN(eig_memory);

/* Calls LAPACK; lwork may be -1 for a query. */
static fint FN(geev)(fint n, bool vectors, const FN(eig_memory) *w, T *work, fint lwork)
{
    fint info, one = 1;
    GEEV("N", vectors ? "V" : "N", &n, w->copy, &n,
#if COMPLEX
         w->values,
#else
         w->values, w->values + n,
#endif
         NULL, &one, w->vectors, &n, work, &lwork, REAL_WORK(w->rwork) &info, 1, 1);
    return info;
}

static void FN(eig_memory_cut)(pieces *p, int64_t n, bool vectors, FN(eig_memory) *w)
{
    T size = 0;
    R rsize = 0;
    *w = (FN(eig_memory)){.rwork = &rsize}; /* also written by a query */
    FN(geev)((fint)n, vectors, w, &size, -1);
    w->lwork = size_from((double)size);
    w->copy = cut(p, n * n, sizeof(T));
    w->values = cut(p, 2 * n, sizeof(T));
    w->vectors = cut(p, vectors ? n * n : 0, sizeof(T));
    w->work = cut(p, w->lwork, sizeof(T));
    w->rwork = cut(p, 2 * n, sizeof(R));
    cut_context(p, sizeof(T), n, &mr_lapack_now);
}

static size_t FN(eig_room)(int64_t n, bool vectors)
{
    pieces p = {0};
    FN(eig_memory) w;
    FN(eig_memory_cut)(&p, n, vectors, &w);
    return p.bytes;
}

#if COMPLEX
static void FN(eig_results)(int64_t n, const FN(eig_memory) *w, C *e, C *v)
{
    memcpy(e, w->values, sizeof(C) * (size_t)n);
    if (v)
        FN(transpose)(n, n, w->vectors, n, v);
}
#else
/* Of two conjugated eigenvalues, the one with the positive imaginary part comes first, and the real and imaginary parts
 * of its vector are two columns. */
static void FN(eig_results)(int64_t n, const FN(eig_memory) *w, C *e, C *v)
{
    for (int64_t j = 0; j < n; j++) {
        const R im = w->values[n + j];
        e[j] = __builtin_complex(w->values[j], im);
        const T *column = w->vectors + (im < 0 ? j - 1 : j) * n;
        for (int64_t i = 0; v && i < n; i++)
            v[i * n + j] = __builtin_complex(column[i], im > 0 ? column[n + i] : im < 0 ? -column[n + i] : 0);
    }
}
#endif

static mr_lapack_result FN(eig)(int64_t n, void *a, void *e, void *v)
{
    FN(eig_memory) w;
    FN(eig_memory_cut)(&(pieces){mr_lapack_now.call->memory, 0}, n, v, &w);
    FN(transpose)(n, n, a, n, w.copy);
    fint info = FN(geev)((fint)n, v, &w, w.work, w.lwork);
    if (info == 0)
        FN(eig_results)(n, &w, e, v);
    return info == 0 ? MR_LAPACK_OK : info > 0 ? MR_LAPACK_DIVERGED : MR_LAPACK_REFUSED;
}

#undef REAL_WORK
#undef T
#undef R
#undef COMPLEX
#undef FN
#undef GEQRF
#undef ORGQR
#undef HEEVD
#undef GESDD
#undef GEEV
#undef C
#undef CONJ
#undef RE
#undef IM
#endif
