/* ops/linalg/decompose_lapack.c -- decompositions by LAPACK (lapack.h), where that is better than decompose.c.
 *
 * LAPACK computes in the type of the tensor; decompose.c, in double, is faster for small matrices, and what it does with
 * NaN and infinities is known. So LAPACK gets only matrices that are large enough and finite. */
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/lapack.h"

/* LAPACK's integers have 32 bits, which must hold the size of its workspace: up to 4 squares of the shorter side. */
enum { LARGEST = 1 << 24, LARGEST_SQUARE = 16000 };

/* The least size of complex matrices whose eigenvalues LAPACK computes faster than schur.c. */
enum { LEAST_EIG_COMPLEX64 = 150, LEAST_EIG_COMPLEX128 = 250 };

/* The least size of the shorter side, and of the matrix, for which LAPACK is faster. */
static const struct {
    int64_t side, elements;
} least_size[] = {[MR_DECOMPOSE_QR] = {8, 2048}, [MR_DECOMPOSE_EIGH] = {80, 0}, [MR_DECOMPOSE_SVD] = {12, 0},
                  [MR_DECOMPOSE_EIG] = {12, 0}};

static void product(const mr_product *p, void *room)
{
    mr_product with_way = *p;
    with_way.way = mr_product_choose(p);
    mr_product_run(&with_way, room);
}

static bool is_cancelled(const void *run)
{
    const mr_run *r = run;
    return r->step && r->step->cancel && mr_cancel_started(r->step->cancel);
}

static mr_status *make_call(const mr_run *r, mr_dtype type, size_t bytes, mr_lapack_call *c)
{
    *c = (mr_lapack_call){type, product, is_cancelled, r, mr_scratch(r, bytes)};
    return c->memory ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a decomposition by LAPACK");
}

/* Ends a call. */
static mr_status *finish(mr_lapack_call *c, mr_lapack_result result, bool *ok)
{
    mr_scratch_free(c->memory);
    *ok = result == MR_LAPACK_OK;
    if (result == MR_LAPACK_CANCELLED)
        return mr_matrix_cancelled(c->ctx);
    MR_ENSURE(result != MR_LAPACK_REFUSED);
    return NULL;
}

static mr_status *run_qr(const mr_run *r, mr_dtype type, int64_t m, int64_t n, int64_t k, void *a, void *q)
{
    const mr_lapack *l = mr_lapack_here();
    mr_lapack_call c;
    bool ok;
    MR_TRY(make_call(r, type, l->qr_room(type, m, n, k), &c));
    return finish(&c, l->qr(&c, m, n, k, a, q), &ok);
}

static mr_status *run_eigh(const mr_run *r, mr_dtype type, int64_t n, void *a, double *e, void *v, bool *ok)
{
    const mr_lapack *l = mr_lapack_here();
    mr_lapack_call c;
    MR_TRY(make_call(r, type, l->eigh_room(type, n, v), &c));
    return finish(&c, l->eigh(&c, n, a, e, v), ok);
}

static mr_status *run_svd(const mr_run *r, mr_dtype type, int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u,
                          int64_t kv, void *v, bool *ok)
{
    const mr_lapack *l = mr_lapack_here();
    mr_lapack_call c;
    MR_TRY(make_call(r, type, l->svd_room(type, m, n, ku, kv, v), &c));
    return finish(&c, l->svd(&c, m, n, a, s, ku, u, kv, v), ok);
}

mr_status *mr_eig_by_lapack(const mr_run *r, mr_dtype type, int64_t n, void *a, void *e, void *v, bool *ok)
{
    const mr_lapack *l = mr_lapack_here();
    mr_lapack_call c;
    MR_TRY(make_call(r, type, l->eig_room(type, n, v), &c));
    return finish(&c, l->eig(&c, n, a, e, v), ok);
}

#define TABLE(name, TYPE)                                                                                           \
    static mr_status *name##_qr(const mr_run *r, int64_t m, int64_t n, int64_t k, void *a, void *q)                 \
    {                                                                                                               \
        return run_qr(r, TYPE, m, n, k, a, q);                                                                      \
    }                                                                                                               \
    static mr_status *name##_eigh(const mr_run *r, int64_t n, void *a, double *e, void *v, bool *ok)                \
    {                                                                                                               \
        return run_eigh(r, TYPE, n, a, e, v, ok);                                                                   \
    }                                                                                                               \
    static mr_status *name##_svd(const mr_run *r, int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u,    \
                                 int64_t kv, void *v, bool *ok)                                                     \
    {                                                                                                               \
        return run_svd(r, TYPE, m, n, a, s, ku, u, kv, v, ok);                                                      \
    }                                                                                                               \
    static const mr_decompose name##_table = {TYPE, name##_qr, name##_eigh, name##_svd};

TABLE(float, MR_FLOAT)
TABLE(double, MR_DOUBLE)
TABLE(complex64, MR_COMPLEX64)
TABLE(complex128, MR_COMPLEX128)

/* 0 times a finite number is 0, and NaN otherwise. Several sums, because each addition would wait for the previous. */
#define DEFINE_FINITE(name, R)                       \
    MR_CLONES static bool name(const R *x, int64_t n) \
    {                                                \
        R sums[16] = {0}, sum = 0;                   \
        int64_t i = 0;                               \
        for (; i + 16 <= n; i += 16)                 \
            for (int l = 0; l < 16; l++)             \
                sums[l] += 0 * x[i + l];             \
        for (; i < n; i++)                           \
            sum += 0 * x[i];                         \
        for (int l = 0; l < 16; l++)                 \
            sum += sums[l];                          \
        return sum == 0;                             \
    }
DEFINE_FINITE(floats_are_finite, float)
DEFINE_FINITE(doubles_are_finite, double)

/* True if n elements of t from `at` on are finite. */
static bool are_finite(const mr_tensor *t, int64_t at, int64_t n)
{
    const char *x = (const char *)t->data + (size_t)at * mr_dtype_size((mr_dtype)t->dtype);
    int64_t parts = mr_dtype_is_complex((mr_dtype)t->dtype) ? 2 : 1;
    if (t->dtype == MR_FLOAT || t->dtype == MR_COMPLEX64)
        return floats_are_finite((const float *)x, parts * n);
    if (t->dtype == MR_DOUBLE || t->dtype == MR_COMPLEX128)
        return doubles_are_finite((const double *)x, parts * n);
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        float v;
        mr_dtype_convert((mr_dtype)t->dtype, x + (size_t)i * mr_dtype_size((mr_dtype)t->dtype), MR_FLOAT, &v, 1, false);
        finite &= isfinite(v) != 0;
    }
    return finite;
}

bool mr_lapack_suits(mr_decompose_kind kind, const mr_tensor *t, int64_t at, int64_t m, int64_t n)
{
    int64_t p = MR_MIN(m, n);
    bool fits = p >= least_size[kind].side && m * n >= least_size[kind].elements && p <= LARGEST_SQUARE &&
                MR_MAX(m, n) < LARGEST;
    if (kind == MR_DECOMPOSE_EIG && mr_dtype_is_complex((mr_dtype)t->dtype))
        fits &= p >= (t->dtype == MR_COMPLEX64 ? LEAST_EIG_COMPLEX64 : LEAST_EIG_COMPLEX128);
    return fits && mr_lapack_here() && are_finite(t, at, m * n);
}

const mr_decompose *mr_decompose_for(mr_decompose_kind kind, const mr_tensor *t, int64_t at, int64_t m, int64_t n)
{
    if (!mr_lapack_suits(kind, t, at, m, n))
        return mr_decompose_of(mr_full_type((mr_dtype)t->dtype));
    switch (t->dtype) {
    case MR_DOUBLE: return &double_table;
    case MR_COMPLEX64: return &complex64_table;
    case MR_COMPLEX128: return &complex128_table;
    default: return &float_table;
    }
}
