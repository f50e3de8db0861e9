/* ops/linalg/dense_test.c -- factorizations and solves of random sizes, checked by multiplying the factors. */
#include <complex.h>
#include <math.h>

#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* Sizes around the limits of leaves, halves and large products. */
static const int64_t sizes[] = {1, 2, 5, 15, 16, 17, 31, 33, 48, 65, 100, 130};
static const mr_dtype types[] = {MR_FLOAT, MR_DOUBLE, MR_COMPLEX64, MR_COMPLEX128};

static double complex at(const mr_tensor *t, int64_t i)
{
    double complex v = 0;
    mr_dtype_convert((mr_dtype)t->dtype,
                     (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype), MR_COMPLEX128,
                     &v, 1, false);
    return v;
}

static void set(mr_tensor *t, int64_t i, double complex v)
{
    mr_dtype_convert(MR_COMPLEX128, &v, (mr_dtype)t->dtype,
                     (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype), 1, false);
}

static double number(void) { return (double)(mr_test_random() % 2001) / 1000 - 1; }

/* Numbers in [-1, 1], with imaginary parts if the type has them. */
static mr_tensor *random_matrices(mr_dtype type, int64_t batch, int64_t rows, int64_t cols)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 3, (int64_t[]){batch, rows, cols}, &t));
    for (int64_t i = 0; i < t->n; i++) {
        double re = number(), im = number();
        set(t, i, re + im * I);
    }
    return t;
}

/* Adds v to all diagonals. */
static void shift(mr_tensor *t, double v)
{
    int64_t n = t->dims[1];
    for (int64_t b = 0; b < t->dims[0]; b++)
        for (int64_t i = 0; i < n; i++)
            set(t, b * n * n + i * n + i, at(t, b * n * n + i * n + i) + v);
}

static double tolerance(mr_dtype type)
{
    return type == MR_FLOAT || type == MR_COMPLEX64 ? 2e-4 : 1e-11;
}

/* Entry (i, j) of matrix b of t, or of its adjoint; 0 outside the requested triangle. */
typedef struct view {
    const mr_tensor *t;
    bool adjoint, lower_only, upper_only;
} view;

static double complex entry(view v, int64_t b, int64_t i, int64_t j)
{
    int64_t row = v.adjoint ? j : i, col = v.adjoint ? i : j, n = v.t->dims[2];
    if ((v.lower_only && col > row) || (v.upper_only && col < row))
        return 0;
    double complex x = at(v.t, (b * v.t->dims[1] + row) * n + col);
    return v.adjoint ? conj(x) : x;
}

/* Checks op(A) op(B) = C in all entries. */
static void check_product(view a, view b, const mr_tensor *c)
{
    int64_t m = c->dims[1], n = c->dims[2], k = a.t->dims[a.adjoint ? 1 : 2];
    for (int64_t i = 0; i < c->n; i++) {
        int64_t batch = i / (m * n), row = i / n % m, col = i % n;
        double complex sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += entry(a, batch, row, l) * entry(b, batch, l, col);
        MR_CHECK_NEAR(cabs(sum - at(c, i)), 0, tolerance((mr_dtype)c->dtype) * (1 + cabs(sum)));
    }
}

/* Runs the op on threads; takes the references of in. */
static mr_tensor *run(const char *op, bool lower, bool adjoint, mr_tensor *a, mr_tensor *b)
{
    mr_kernel_fixture bench;
    mr_tensor *out, *in[] = {mr_tensor_ref(a), mr_tensor_ref(b)};
    mr_dtype both[] = {(mr_dtype)a->dtype, (mr_dtype)a->dtype};
    const mr_named_attr attrs[] = {{"adjoint", mr_a_bool(adjoint)}, {"lower", mr_a_bool(lower)}};
    int n_attrs = strcmp(op, "MatrixTriangularSolve") == 0                            ? 2
                  : strcmp(op, "Cholesky") == 0 || strcmp(op, "MatrixDeterminant") == 0 ? 0
                                                                                        : 1;
    mr_kernel_fixture_init(&bench, 3, op, attrs, n_attrs, b ? 2 : 1, both);
    MR_CHECK_OK(mr_kernel_fixture_run(&bench, in, &out));
    mr_kernel_fixture_deinit(&bench);
    return out;
}

static void each_size(void (*fn)(mr_dtype type, int64_t batch, int64_t n))
{
    for (int t = 0; t < MR_COUNT(types); t++)
        for (int i = 0; i < MR_COUNT(sizes); i++)
            fn(types[t], sizes[i] < 20 ? 5 : 2, sizes[i]);
}

static void check_solve(mr_dtype type, int64_t batch, int64_t n)
{
    for (int adjoint = 0; adjoint < 2; adjoint++) {
        mr_tensor *a = random_matrices(type, batch, n, n);
        mr_tensor *b = random_matrices(type, batch, n, 1 + n % 7);
        shift(a, 2);
        mr_tensor *x = run("MatrixSolve", false, adjoint, a, b);
        check_product((view){a, .adjoint = adjoint}, (view){x}, b);
        mr_tensor_unref(a);
        mr_tensor_unref(b);
        mr_tensor_unref(x);
    }
}

MR_TEST(linalg_solutions_fulfil_their_equations) { each_size(check_solve); }

static void check_inverse(mr_dtype type, int64_t batch, int64_t n)
{
    mr_tensor *a = random_matrices(type, batch, n, n);
    shift(a, 2);
    mr_tensor *inverse = run("MatrixInverse", false, false, a, NULL);
    mr_tensor *again = run("MatrixInverse", false, true, inverse, NULL);
    for (int64_t i = 0; i < a->n; i++) {
        int64_t b = i / (n * n), row = i / n % n, col = i % n;
        double complex want = entry((view){a, .adjoint = true}, b, row, col);
        MR_CHECK_NEAR(cabs(at(again, i) - want), 0, 50 * tolerance(type));
    }
    mr_tensor_unref(a);
    mr_tensor_unref(inverse);
    mr_tensor_unref(again);
}

MR_TEST(linalg_inverse_of_the_inverse_is_the_matrix) { each_size(check_inverse); }

static void check_triangles(mr_dtype type, int64_t batch, int64_t n)
{
    for (int flags = 0; flags < 4; flags++) {
        bool lower = flags & 1, adjoint = flags & 2;
        mr_tensor *a = random_matrices(type, batch, n, n);
        mr_tensor *b = random_matrices(type, batch, n, 1 + n % 20);
        shift(a, 1 + (double)n); /* the inverse of a random triangle is huge */
        mr_tensor *x = run("MatrixTriangularSolve", lower, adjoint, a, b);
        check_product((view){a, adjoint, .lower_only = lower, .upper_only = !lower}, (view){x}, b);
        mr_tensor_unref(a);
        mr_tensor_unref(b);
        mr_tensor_unref(x);
    }
}

MR_TEST(linalg_triangular_solves_read_one_triangle) { each_size(check_triangles); }

/* B B^H + I, which is positive definite. */
static mr_tensor *positive_matrices(mr_dtype type, int64_t batch, int64_t n)
{
    mr_tensor *b = random_matrices(type, batch, n, n), *a = random_matrices(type, batch, n, n);
    for (int64_t i = 0; i < a->n; i++) {
        double complex sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += entry((view){b}, i / (n * n), i / n % n, k) *
                   entry((view){b, .adjoint = true}, i / (n * n), k, i % n);
        set(a, i, sum);
    }
    shift(a, 1);
    mr_tensor_unref(b);
    return a;
}

static void check_cholesky(mr_dtype type, int64_t batch, int64_t n)
{
    mr_tensor *a = positive_matrices(type, batch, n);
    mr_tensor *l = run("Cholesky", false, false, a, NULL);
    check_product((view){l}, (view){l, .adjoint = true}, a);
    for (int64_t i = 0; i < l->n; i++)
        if (i % n > i / n % n)
            MR_CHECK(at(l, i) == 0);
    mr_tensor_unref(a);
    mr_tensor_unref(l);
}

MR_TEST(linalg_cholesky_factors_give_the_matrix) { each_size(check_cholesky); }

MR_TEST(linalg_cholesky_finds_a_late_negative_pivot)
{
    mr_kernel_fixture bench;
    mr_tensor *a = positive_matrices(MR_DOUBLE, 2, 70), *out = NULL;
    set(a, a->n - 1, -1);
    mr_kernel_fixture_init(&bench, 3, "Cholesky", NULL, 0, 1, (mr_dtype[]){MR_DOUBLE});
    MR_CHECK_ERR(mr_kernel_fixture_run(&bench, &a, &out), MR_INVALID_ARGUMENT, "not successful");
    mr_kernel_fixture_deinit(&bench);
}

MR_TEST(linalg_determinant_of_a_product_is_the_product)
{
    const int64_t n = 40;
    mr_tensor *m[3], *det[3];
    for (int i = 0; i < 3; i++)
        m[i] = random_matrices(MR_COMPLEX128, 2, n, n);
    for (int64_t i = 0; i < m[2]->n; i++) {
        double complex sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += entry((view){m[0]}, i / (n * n), i / n % n, k) *
                   entry((view){m[1]}, i / (n * n), k, i % n);
        set(m[2], i, sum);
    }
    for (int i = 0; i < 3; i++) {
        det[i] = run("MatrixDeterminant", false, false, m[i], NULL);
        mr_tensor_unref(m[i]);
    }
    for (int64_t i = 0; i < 2; i++)
        MR_CHECK_NEAR(cabs(at(det[0], i) * at(det[1], i) / at(det[2], i) - 1), 0, 1e-9);
    for (int i = 0; i < 3; i++)
        mr_tensor_unref(det[i]);
}
