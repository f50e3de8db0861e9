/* ops/linalg/decompose_lapack_test.c -- LAPACK's decompositions and our own of the same matrices, of all types. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "ops/kernel_fixture.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/lapack.h"
#include "tests/harness/test.h"

static const mr_dtype types[] = {MR_FLOAT, MR_DOUBLE, MR_COMPLEX64, MR_COMPLEX128};

typedef double complex number;

static double rounding_of(mr_dtype type) { return type == MR_FLOAT || type == MR_COMPLEX64 ? 1.2e-7 : 2.3e-16; }

static number at(const mr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MR_FLOAT: return MR_DATA(float, t)[i];
    case MR_DOUBLE: return MR_DATA(double, t)[i];
    case MR_COMPLEX64: return MR_DATA(mr_c64, t)[i];
    default: return MR_DATA(mr_c128, t)[i];
    }
}

/* With independent random entries; or Hermitian. */
static mr_tensor *random_matrix(mr_dtype type, int64_t rows, int64_t cols, bool hermitian)
{
    mr_tensor *t;
    size_t size = mr_dtype_size(type);
    MR_CHECK_OK(mr_tensor_new(NULL, type, 2, (int64_t[]){rows, cols}, &t));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            number v = __builtin_complex((double)(mr_test_random() % 2001) / 1000 - 1,
                                         (double)(mr_test_random() % 2001) / 1000 - 1);
            if (hermitian && j < i)
                v = conj(at(t, j * cols + i));
            if (hermitian && j == i)
                v = creal(v);
            mr_dtype_convert(MR_COMPLEX128, &v, type, (char *)t->data + (size_t)(i * cols + j) * size, 1, false);
        }
    return t;
}

static mr_status *try_op(const char *op, bool lapack, bool full, mr_tensor *a, mr_tensor **out)
{
    mr_kernel_fixture b;
    bool eigh = strcmp(op, "SelfAdjointEigV2") == 0;
    mr_lapack_use(lapack);
    mr_kernel_fixture_init(&b, 1, op, MR_ATTRS({eigh ? "compute_v" : "full_matrices", mr_a_bool(eigh || full)}), 1,
                           (mr_dtype[]){(mr_dtype)a->dtype});
    mr_status *st = mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(a)}, out);
    mr_kernel_fixture_deinit(&b);
    mr_lapack_use(true);
    return st;
}

/* The largest entry of x diag(d) y - a, or with y's adjoint; d may be NULL. */
static double worst_product(const mr_tensor *x, const mr_tensor *d, const mr_tensor *y, bool adjoint, const mr_tensor *a)
{
    double worst = 0;
    int64_t m = a->dims[0], n = a->dims[1], p = MR_MIN(x->dims[1], adjoint ? y->dims[1] : y->dims[0]);
    p = d ? MR_MIN(p, d->n) : p;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            number sum = 0;
            for (int64_t k = 0; k < p; k++)
                sum += at(x, i * x->dims[1] + k) * (d ? at(d, k) : 1) *
                       (adjoint ? conj(at(y, j * y->dims[1] + k)) : at(y, k * y->dims[1] + j));
            worst = fmax(worst, cabs(sum - at(a, i * n + j)));
        }
    return worst;
}

/* The largest entry of v^H v - 1. */
static double worst_angle(const mr_tensor *v)
{
    double worst = 0;
    int64_t m = v->dims[0], n = v->dims[1];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            number sum = i == j ? -1 : 0;
            for (int64_t k = 0; k < m; k++)
                sum += conj(at(v, k * n + i)) * at(v, k * n + j);
            worst = fmax(worst, cabs(sum));
        }
    return worst;
}

static double worst_difference(const mr_tensor *x, const mr_tensor *y)
{
    double worst = 0;
    MR_CHECK_INT(x->n, y->n);
    for (int64_t i = 0; i < x->n; i++)
        worst = fmax(worst, cabs(at(x, i) - at(y, i)));
    return worst;
}

static void release(mr_tensor **out, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(out[i]);
}

static void need_lapack(void)
{
    if (!mr_lapack_here())
        mr_test_skip("libmillrace-lapack.so was not built");
}

static const int64_t shapes[][2] = {{60, 60}, {70, 40}, {40, 70}, {12, 180}, {180, 12}};

MR_TEST(decompose_lapack_gives_the_same_qr_as_our_own)
{
    need_lapack();
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 2 * MR_COUNT(shapes); s++) {
            const int64_t *shape = shapes[s / 2];
            mr_tensor *a = random_matrix(types[t], shape[0], shape[1], false), *x[3], *y[3];
            double limit = 100 * rounding_of(types[t]);
            MR_CHECK_OK(try_op("Qr", true, s & 1, a, x));
            MR_CHECK_OK(try_op("Qr", false, s & 1, a, y));
            MR_CHECK(worst_product(x[0], NULL, x[1], false, a) < limit);
            MR_CHECK(worst_angle(x[0]) < limit);
            for (int64_t i = 0; i < x[1]->dims[0]; i++)
                for (int64_t j = 0; j < MR_MIN(i, x[1]->dims[1]); j++)
                    MR_CHECK(at(x[1], i * x[1]->dims[1] + j) == 0);
            if (!mr_dtype_is_complex(types[t])) /* else the last phase of a square matrix differs */
                MR_CHECK(worst_difference(x[1], y[1]) < 1000 * limit);
            release(x, 2);
            release(y, 2);
            mr_tensor_unref(a);
        }
}

MR_TEST(decompose_lapack_gives_the_same_singular_values_and_vectors_as_our_own)
{
    need_lapack();
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 2 * MR_COUNT(shapes); s++) {
            const int64_t *shape = shapes[s / 2];
            mr_tensor *a = random_matrix(types[t], shape[0], shape[1], false), *x[3], *y[3];
            MR_CHECK_OK(try_op("Svd", true, s & 1, a, x));
            double limit = 50 * rounding_of(types[t]) * creal(at(x[0], 0));
            MR_CHECK_OK(try_op("Svd", false, s & 1, a, y));
            MR_CHECK(worst_difference(x[0], y[0]) < limit);
            MR_CHECK(worst_product(x[1], x[0], x[2], true, a) < limit);
            MR_CHECK(worst_angle(x[1]) < limit && worst_angle(x[2]) < limit);
            if (!(s & 1) && !mr_dtype_is_complex(types[t])) /* signs too: values of random matrices differ enough */
                MR_CHECK(worst_difference(x[2], y[2]) < 1000 * limit);
            release(x, 3);
            release(y, 3);
            mr_tensor_unref(a);
        }
}

MR_TEST(decompose_lapack_gives_the_same_eigenvalues_as_our_own)
{
    need_lapack();
    for (int t = 0; t < 4; t++)
        for (int64_t n = 80; n <= 150; n += 35) {
            mr_tensor *a = random_matrix(types[t], n, n, true), *x[3], *y[3];
            MR_CHECK_OK(try_op("SelfAdjointEigV2", true, false, a, x));
            double limit = 50 * rounding_of(types[t]) * creal(at(x[0], n - 1));
            MR_CHECK_OK(try_op("SelfAdjointEigV2", false, false, a, y));
            MR_CHECK(worst_difference(x[0], y[0]) < limit);
            MR_CHECK(worst_product(x[1], x[0], x[1], true, a) < limit);
            MR_CHECK(worst_angle(x[1]) < limit);
            release(x, 2);
            release(y, 2);
            mr_tensor_unref(a);
        }
}

static mr_status *try_eig(bool lapack, mr_tensor *a, mr_tensor **out)
{
    mr_kernel_fixture b;
    mr_dtype type = (mr_dtype)a->dtype, full = type == MR_FLOAT || type == MR_COMPLEX64 ? MR_COMPLEX64 : MR_COMPLEX128;
    mr_lapack_use(lapack);
    mr_kernel_fixture_init(&b, 1, "Eig", MR_ATTRS({"Tout", mr_a_type(full)}), 1, &type);
    mr_status *st = mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(a)}, out);
    mr_kernel_fixture_deinit(&b);
    mr_lapack_use(true);
    return st;
}

/* The largest distance of an entry of x to the nearest one of y. */
static double farthest(const mr_tensor *x, const mr_tensor *y)
{
    double worst = 0;
    for (int64_t i = 0; i < x->n; i++) {
        double nearest = INFINITY;
        for (int64_t j = 0; j < y->n; j++)
            nearest = fmin(nearest, cabs(at(x, i) - at(y, j)));
        worst = fmax(worst, nearest);
    }
    return worst;
}

/* The largest entry of A V - V diag(e), and of the lengths of V's columns minus 1. */
static double worst_eigenvector(const mr_tensor *a, const mr_tensor *e, const mr_tensor *v)
{
    double worst = 0;
    int64_t n = e->n;
    for (int64_t j = 0; j < n; j++) {
        double squares = 0;
        for (int64_t i = 0; i < n; i++) {
            number sum = -at(v, i * n + j) * at(e, j);
            for (int64_t k = 0; k < n; k++)
                sum += at(a, i * n + k) * at(v, k * n + j);
            worst = fmax(worst, cabs(sum));
            squares += creal(at(v, i * n + j) * conj(at(v, i * n + j)));
        }
        worst = fmax(worst, fabs(sqrt(squares) - 1));
    }
    return worst;
}

MR_TEST(decompose_lapack_gives_the_same_eigenvalues_of_any_matrix_as_our_own)
{
    static const int64_t sizes[] = {12, 37, 150, 250};
    need_lapack();
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < (types[t] == MR_COMPLEX128 ? 4 : 3); s++) {
            mr_tensor *a = random_matrix(types[t], sizes[s], sizes[s], false), *x[2], *y[2];
            double limit = 2000 * rounding_of(types[t]);
            if (!mr_lapack_suits(MR_DECOMPOSE_EIG, a, 0, sizes[s], sizes[s])) {
                MR_CHECK(mr_dtype_is_complex(types[t]) && s < 3);
                mr_tensor_unref(a);
                continue;
            }
            MR_CHECK_OK(try_eig(true, a, x));
            MR_CHECK_OK(try_eig(false, a, y));
            MR_CHECK(worst_eigenvector(a, x[0], x[1]) < limit);
            MR_CHECK(farthest(x[0], y[0]) < 10 * limit && farthest(y[0], x[0]) < 10 * limit);
            release(x, 2);
            release(y, 2);
            mr_tensor_unref(a);
        }
}

/* A rotation has the eigenvalues i and -i. */
MR_TEST(decompose_lapack_conjugates_the_second_of_two_eigenvectors)
{
    enum { N = 16 };
    need_lapack();
    mr_tensor *a = random_matrix(MR_DOUBLE, N, N, false), *x[2];
    memset(a->data, 0, sizeof(double) * N * N);
    for (int64_t i = 0; i < N; i += 2) {
        MR_DATA(double, a)[i * N + i + 1] = (double)-(1 + i);
        MR_DATA(double, a)[(i + 1) * N + i] = (double)(1 + i);
    }
    MR_CHECK_OK(try_eig(true, a, x));
    MR_CHECK(worst_eigenvector(a, x[0], x[1]) < 1e-13);
    for (int64_t i = 0; i < N; i += 2) {
        MR_CHECK(creal(at(x[0], i)) == 0 && cimag(at(x[0], i)) > 0);
        MR_CHECK(at(x[0], i + 1) == conj(at(x[0], i)));
    }
    release(x, 2);
    mr_tensor_unref(a);
}

/* LAPACK reflects more than 128 columns in blocks of 32. */
MR_TEST(decompose_lapack_takes_large_matrices)
{
    static const int64_t large[][2] = {{150, 150}, {200, 140}, {140, 200}};
    need_lapack();
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 2 * MR_COUNT(large); s++) {
            mr_tensor *a = random_matrix(types[t], large[s / 2][0], large[s / 2][1], false), *x[3], *q[2];
            MR_CHECK_OK(try_op("Qr", true, s & 1, a, q));
            MR_CHECK_OK(try_op("Svd", true, s & 1, a, x));
            double limit = 100 * rounding_of(types[t]);
            MR_CHECK(worst_product(q[0], NULL, q[1], false, a) < limit);
            MR_CHECK(worst_angle(q[0]) < limit);
            MR_CHECK(worst_product(x[1], x[0], x[2], true, a) < limit);
            MR_CHECK(worst_angle(x[1]) < limit && worst_angle(x[2]) < limit);
            release(x, 3);
            release(q, 2);
            mr_tensor_unref(a);
        }
}

/* Zeros, one direction only, and numbers whose squares overflow or vanish in the matrix's type. */
MR_TEST(decompose_lapack_takes_singular_huge_and_tiny_matrices)
{
    enum { N = 90 };
    static const float scales[] = {0, 1, 1e30f, 1e-30f};
    need_lapack();
    for (int s = 0; s < MR_COUNT(scales); s++) {
        mr_tensor *a = random_matrix(MR_FLOAT, N, N, false), *x[3], *e[2], *q[2];
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++)
                MR_DATA(float, a)[i * N + j] = scales[s] * (s == 1 ? 1 : (float)(1 + (i * j) % 7));
        MR_CHECK_OK(try_op("Svd", true, false, a, x));
        MR_CHECK_OK(try_op("SelfAdjointEigV2", true, false, a, e));
        MR_CHECK_OK(try_op("Qr", true, false, a, q));
        double limit = 1e-4 * fmax(scales[s], 1e-37) * N;
        MR_CHECK(worst_product(x[1], x[0], x[2], true, a) < limit);
        MR_CHECK(worst_product(e[1], e[0], e[1], true, a) < limit);
        MR_CHECK(worst_product(q[0], NULL, q[1], false, a) < limit);
        MR_CHECK(worst_angle(x[1]) < 1e-4 && worst_angle(e[1]) < 1e-4 && worst_angle(q[0]) < 1e-4);
        release(x, 3);
        release(e, 2);
        release(q, 2);
        mr_tensor_unref(a);
    }
}

MR_TEST(decompose_lapack_leaves_nan_and_infinities_to_our_own)
{
    enum { N = 90 };
    need_lapack();
    mr_tensor *a = random_matrix(MR_FLOAT, N, N, false);
    MR_CHECK(mr_decompose_for(MR_DECOMPOSE_EIGH, a, 0, N, N)->type == MR_FLOAT);
    MR_DATA(float, a)[N * N - 1] = NAN;
    MR_CHECK(mr_decompose_for(MR_DECOMPOSE_EIGH, a, 0, N, N) == mr_decompose_of(MR_DOUBLE));
    MR_DATA(float, a)[N * N - 1] = -INFINITY;
    MR_CHECK(mr_decompose_for(MR_DECOMPOSE_SVD, a, 0, N, N) == mr_decompose_of(MR_DOUBLE));
    mr_tensor *out[3];
    MR_CHECK_ERR(try_op("SelfAdjointEigV2", true, false, a, out), MR_INVALID_ARGUMENT, "not successful");
    mr_tensor_unref(a);
}

MR_TEST(decompose_lapack_is_not_needed)
{
    mr_tensor *a = random_matrix(MR_FLOAT, 64, 64, false);
    setenv("MILLRACE_LAPACK_LIB", "/nowhere/libmillrace-lapack.so", 1);
    MR_CHECK(!mr_lapack_here());
    MR_CHECK(mr_decompose_for(MR_DECOMPOSE_QR, a, 0, 64, 64) == mr_decompose_of(MR_DOUBLE));
    mr_tensor_unref(a);
}

MR_TEST(decompose_lapack_gives_the_same_bits_twice)
{
    need_lapack();
    mr_tensor *a = random_matrix(MR_FLOAT, 90, 90, false), *x[3], *y[3];
    MR_CHECK_OK(try_op("Svd", true, false, a, x));
    MR_CHECK_OK(try_op("Svd", true, false, a, y));
    for (int i = 0; i < 3; i++)
        MR_CHECK(memcmp(x[i]->data, y[i]->data, (size_t)x[i]->n * sizeof(float)) == 0);
    release(x, 3);
    release(y, 3);
    mr_tensor_unref(a);
}

MR_TEST(decompose_lapack_ends_when_its_step_is_cancelled)
{
    enum { N = 64 };
    need_lapack();
    mr_kernel_fixture b;
    bool ok;
    static double values[N], u[N * N], v[N * N];
    mr_tensor *a = random_matrix(MR_DOUBLE, N, N, false);
    mr_kernel_fixture_init(&b, 1, "Svd", NULL, 0, 1, (mr_dtype[]){MR_DOUBLE});
    mr_cancel *cancel = mr_cancel_new(NULL);
    mr_step step = {.device = b.device, .cancel = cancel};
    const mr_run r = {.node = b.node, .kernel = b.kernel->kernel, .step = &step};
    const mr_decompose *d = mr_decompose_for(MR_DECOMPOSE_SVD, a, 0, N, N);
    MR_CHECK(d != mr_decompose_of(MR_DOUBLE));
    MR_CHECK_OK(d->svd(&r, N, N, a->data, values, N, u, N, v, &ok));
    MR_CHECK(ok);
    static mr_c128 e[N];
    MR_CHECK_OK(mr_eig_by_lapack(&r, MR_DOUBLE, N, u, e, NULL, &ok));
    MR_CHECK(ok);
    mr_cancel_start(cancel);
    MR_CHECK_ERR(mr_eig_by_lapack(&r, MR_DOUBLE, N, a->data, e, NULL, &ok), MR_CANCELLED, "Svd was cancelled");
    MR_CHECK_ERR(d->svd(&r, N, N, a->data, values, N, u, N, v, &ok), MR_CANCELLED, "Svd was cancelled");
    MR_CHECK_ERR(d->qr(&r, N, N, N, a->data, u), MR_CANCELLED, "cancelled");
    MR_CHECK_ERR(d->eigh(&r, N, a->data, values, v, &ok), MR_CANCELLED, "cancelled");
    mr_cancel_free(cancel);
    mr_kernel_fixture_deinit(&b);
    mr_tensor_unref(a);
}
