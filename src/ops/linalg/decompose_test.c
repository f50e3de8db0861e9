/* ops/linalg/decompose_test.c -- decompositions of random sizes, checked by multiplying the factors; and their
 * cancellation. */
#include <complex.h>
#include <math.h>

#include "ops/kernel_fixture.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/schur.h"
#include "tests/harness/test.h"

/* Sizes around the limits of the unrolled loops. */
static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 70};
static const mr_dtype types[] = {MR_DOUBLE, MR_COMPLEX128};

typedef double complex number;

static number at(const mr_tensor *t, int64_t i)
{
    return t->dtype == MR_DOUBLE ? MR_DATA(double, t)[i] : MR_DATA(mr_c128, t)[i];
}

static double random_number(void) { return (double)(mr_test_random() % 2001) / 1000 - 1; }

static mr_tensor *random_matrix(mr_dtype type, int64_t rows, int64_t cols)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 2, (int64_t[]){rows, cols}, &t));
    for (int64_t i = 0; i < t->n; i++)
        if (type == MR_DOUBLE)
            MR_DATA(double, t)[i] = random_number();
        else
            MR_DATA(mr_c128, t)[i] = __builtin_complex(random_number(), random_number());
    return t;
}

/* Runs the op on a; out has room for three results, and the caller releases as many as there are. */
static void decompose(const char *op, const mr_named_attr *attrs, int n_attrs, mr_tensor *a, mr_tensor **out)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, op, attrs, n_attrs, 1, (mr_dtype[]){(mr_dtype)a->dtype});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(a)}, out));
    mr_kernel_fixture_deinit(&b);
}

/* Entry (i, j) of x diag(d) y^H. */
static number product(const mr_tensor *x, const mr_tensor *d, const mr_tensor *y, int64_t i, int64_t j)
{
    number sum = 0;
    for (int64_t k = 0; k < x->dims[1]; k++)
        sum += at(x, i * x->dims[1] + k) * at(d, k) * conj(at(y, j * y->dims[1] + k));
    return sum;
}

/* Checks that the columns of v have length 1 and, if requested, are orthogonal. */
static void check_columns(const mr_tensor *v, bool orthogonal)
{
    int64_t m = v->dims[0], n = v->dims[1];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            number sum = 0;
            for (int64_t k = 0; k < m; k++)
                sum += conj(at(v, k * n + i)) * at(v, k * n + j);
            MR_CHECK(i == j ? cabs(sum - 1) < 1e-12 : !orthogonal || cabs(sum) < 1e-12);
        }
}

/* Checks A V = V diag(e); if `hermitian`, only the lower triangle of A is read. */
static void check_vectors(const mr_tensor *a, const mr_tensor *e, const mr_tensor *v, bool hermitian)
{
    int64_t n = a->dims[0];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            number sum = 0;
            for (int64_t k = 0; k < n; k++) {
                number x = hermitian && k > i ? conj(at(a, k * n + i)) : at(a, i * n + k);
                sum += (hermitian && k == i ? creal(x) : x) * at(v, k * n + j);
            }
            MR_CHECK(cabs(sum - at(v, i * n + j) * at(e, j)) < 1e-10);
        }
}

MR_TEST(eig_vectors_are_only_stretched_by_the_matrix)
{
    for (int k = 0; k < MR_COUNT(sizes) * MR_COUNT(types); k++) {
        mr_tensor *a = random_matrix(types[k % 2], sizes[k / 2], sizes[k / 2]), *out[3];
        decompose("Eig", MR_ATTRS({"Tout", mr_a_type(MR_COMPLEX128)}), a, out);
        check_vectors(a, out[0], out[1], false);
        check_columns(out[1], false);
        mr_tensor_unref(out[0]);
        mr_tensor_unref(out[1]);
        mr_tensor_unref(a);
    }
}

MR_TEST(eig_values_are_the_same_without_vectors)
{
    for (int k = 0; k < MR_COUNT(sizes) * MR_COUNT(types); k++) {
        mr_tensor *a = random_matrix(types[k % 2], sizes[k / 2], sizes[k / 2]), *out[3], *alone[3];
        decompose("Eig", MR_ATTRS({"Tout", mr_a_type(MR_COMPLEX128)}), a, out);
        decompose("Eig", MR_ATTRS({"Tout", mr_a_type(MR_COMPLEX128)}, {"compute_v", mr_a_bool(false)}), a, alone);
        for (int64_t i = 0; i < out[0]->n; i++)
            MR_CHECK(cabs(at(out[0], i) - at(alone[0], i)) < 1e-10);
        for (int i = 0; i < 2; i++) {
            mr_tensor_unref(out[i]);
            mr_tensor_unref(alone[i]);
        }
        mr_tensor_unref(a);
    }
}

MR_TEST(eigh_vectors_are_orthogonal_and_only_stretched)
{
    for (int k = 0; k < MR_COUNT(sizes) * MR_COUNT(types); k++) {
        mr_tensor *a = random_matrix(types[k % 2], sizes[k / 2], sizes[k / 2]), *out[3];
        decompose("SelfAdjointEigV2", NULL, 0, a, out);
        check_vectors(a, out[0], out[1], true);
        check_columns(out[1], true);
        mr_tensor_unref(out[0]);
        mr_tensor_unref(out[1]);
        mr_tensor_unref(a);
    }
}

/* Sizes alternate between tall, square and wide. */
MR_TEST(svd_gives_orthogonal_parts_of_the_matrix)
{
    for (int k = 0; k < MR_COUNT(sizes) * MR_COUNT(types) * 6; k++) {
        int64_t n = sizes[k / 12], m = k / 2 % 3 == 0 ? n : k / 2 % 3 == 1 ? n + 5 : (n + 1) / 2;
        mr_tensor *a = random_matrix(types[k % 2], m, n), *out[3];
        decompose("Svd", MR_ATTRS({"full_matrices", mr_a_bool(k / 6 % 2)}), a, out);
        check_columns(out[1], true);
        check_columns(out[2], true);
        for (int64_t i = 0; i < m * n && !(k / 6 % 2); i++)
            MR_CHECK(cabs(product(out[1], out[0], out[2], i / n, i % n) - at(a, i)) < 1e-11);
        for (int i = 0; i < 3; i++)
            mr_tensor_unref(out[i]);
        mr_tensor_unref(a);
    }
}

MR_TEST(decompositions_end_when_their_step_is_cancelled)
{
    enum { N = 12 };
    mr_kernel_fixture b;
    bool ok;
    double values[N], u[N * N], v[N * N];
    mr_c128 e[N], z[N * N];
    mr_tensor *a = random_matrix(MR_DOUBLE, N, N), *c = random_matrix(MR_COMPLEX128, N, N);
    mr_kernel_fixture_init(&b, 1, "Svd", NULL, 0, 1, (mr_dtype[]){MR_DOUBLE});
    mr_cancel *cancel = mr_cancel_new(NULL);
    mr_step step = {.device = b.device, .cancel = cancel};
    const mr_run r = {.node = b.node, .kernel = b.kernel->kernel, .step = &step};
    const mr_decompose *d = mr_decompose_of(MR_DOUBLE);
    MR_CHECK_OK(d->svd(&r, N, N, a->data, values, N, u, N, v, &ok));
    mr_cancel_start(cancel);
    MR_CHECK_ERR(d->svd(&r, N, N, a->data, values, N, u, N, v, &ok), MR_CANCELLED, "Svd was cancelled");
    MR_CHECK_ERR(d->qr(&r, N, N, N, a->data, u), MR_CANCELLED, "cancelled");
    MR_CHECK_ERR(d->eigh(&r, N, a->data, values, v, &ok), MR_CANCELLED, "cancelled");
    MR_CHECK_ERR(mr_eig(&r, N, c->data, e, z, &ok), MR_CANCELLED, "cancelled");
    mr_cancel_free(cancel);
    mr_kernel_fixture_deinit(&b);
    mr_tensor_unref(a);
    mr_tensor_unref(c);
}
