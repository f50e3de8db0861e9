/* ops/sparse/csr_test.c -- compares sparse matrices with dense ones: values, and gradients through variants. */
#include <complex.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "ops/table.h"
#include "ops/values_fixture.h"
#include "tests/harness/test.h"

typedef struct rig {
    mr_graph *g;
    mr_scope s;
    mr_device *device;
    mr_values v;
    bool evaluating;
} rig;

static void rig_init(rig *t)
{
    mr_ops_register();
    *t = (rig){.g = mr_graph_new()};
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &t->device));
    mr_scope_init(&t->s, t->g, "");
}

static void rig_deinit(rig *t)
{
    mr_values_deinit(&t->v);
    mr_scope_deinit(&t->s);
    mr_graph_unref(t->g);
    mr_device_free(t->device);
}

static const mr_tensor *value(rig *t, mr_out o)
{
    mr_tensor *out;
    MR_CHECK_OK(mr_scope_status(&t->s));
    if (!t->evaluating)
        mr_values_init(&t->v, t->g, t->device);
    t->evaluating = true;
    MR_CHECK_OK(mr_values_get(&t->v, o, &out));
    return out;
}

static void check_close(const mr_tensor *a, const mr_tensor *b)
{
    MR_CHECK(a->dtype == MR_COMPLEX128 && b->dtype == MR_COMPLEX128 && mr_tensor_same_shape(a, b));
    for (int64_t i = 0; i < a->n; i++)
        MR_CHECK(cabs(MR_DATA(mr_c128, a)[i] - MR_DATA(mr_c128, b)[i]) < 1e-9);
}

enum { N = 4 };

/* About every third entry is present. */
static mr_out matrix(rig *t, int seed, mr_out *indices)
{
    int64_t at[2 * N * N];
    mr_c128 values[N * N];
    int n = 0;
    for (int i = 0; i < N * N; i++)
        if ((i * 7 + seed) % 5 < 2) {
            at[2 * n] = i / N;
            at[2 * n + 1] = i % N;
            values[n++] = (i + seed) * 0.5 - 2 + (i % 3) * I;
        }
    *indices = mr_const(&t->s, mr_tensor_of(MR_INT64, 2, (int64_t[]){n, 2}, at));
    return mr_const(&t->s, mr_tensor_of(MR_COMPLEX128, 1, (int64_t[]){n}, values));
}

static mr_out csr_of(rig *t, mr_out indices, mr_out values)
{
    mr_out shape = mr_const(&t->s, mr_tensor_vector_i64(2, (int64_t[]){N, N}));
    return mr_emit(&t->s, "SparseTensorToCSRSparseMatrix", indices, values, shape);
}

static mr_out dense_of(rig *t, mr_out m)
{
    return mr_emit_with(&t->s, "CSRSparseMatrixToDense",
                        MR_ATTRS({"type", mr_a_type(MR_COMPLEX128)}), m);
}

static mr_out scattered(rig *t, mr_out indices, mr_out values)
{
    return mr_emit(&t->s, "ScatterNd", indices, values,
                   mr_const(&t->s, mr_tensor_vector_i64(2, (int64_t[]){N, N})));
}

static mr_out weights(rig *t)
{
    mr_c128 w[N * N];
    for (int i = 0; i < N * N; i++)
        w[i] = i % 7 - 3 + (i % 4) * I;
    return mr_const(&t->s, mr_tensor_of(MR_COMPLEX128, 2, (int64_t[]){N, N}, w));
}

/* d(weights . y)/dx for both, which must agree, as must y itself. */
static void check_same(rig *t, mr_out y, mr_out y_dense, const mr_out *xs, int n)
{
    mr_gradient dy = MR_NO_GRAD, a[4], b[4];
    dy.dense = weights(t);
    MR_CHECK_OK(mr_scope_status(&t->s));
    MR_CHECK_OK(mr_graph_gradients(t->g, &y, 1, xs, n, &(mr_gradient_options){.grad_ys = &dy}, a));
    MR_CHECK_OK(
        mr_graph_gradients(t->g, &y_dense, 1, xs, n, &(mr_gradient_options){.grad_ys = &dy}, b));
    check_close(value(t, y), value(t, y_dense));
    for (int i = 0; i < n; i++)
        check_close(value(t, a[i].dense), value(t, b[i].dense));
}

/* op: 0 unchanged, 1 transposed, 2 adjoint. */
static mr_out with_op(rig *t, mr_out v, int op)
{
    mr_out perm = mr_const_vec_i32(&t->s, 2, (int32_t[]){1, 0});
    v = op == 2 ? mr_emit(&t->s, "Conj", v) : v;
    return op ? mr_emit(&t->s, "Transpose", v, perm) : v;
}

static void check_products(int a, int b)
{
    rig t;
    mr_out ia, ib;
    rig_init(&t);
    mr_out xs[] = {matrix(&t, 1, &ia), matrix(&t, 2, &ib)};
    mr_named_attr attrs[] = {{"transpose_a", mr_a_bool(a == 1)},
                             {"transpose_b", mr_a_bool(b == 1)},
                             {"adjoint_a", mr_a_bool(a == 2)},
                             {"adjoint_b", mr_a_bool(b == 2)},
                             {"type", mr_a_type(MR_COMPLEX128)}};
    mr_out dense_a = scattered(&t, ia, xs[0]), dense_b = scattered(&t, ib, xs[1]);
    mr_out sparse = mr_emit_n(&t.s, "SparseMatrixSparseMatMul", attrs, 5,
                              MR_OUTS(csr_of(&t, ia, xs[0]), csr_of(&t, ib, xs[1])));
    mr_out mixed =
        mr_emit_n(&t.s, "SparseMatrixMatMul", attrs, 4, MR_OUTS(csr_of(&t, ia, xs[0]), dense_b));
    mr_out dense = mr_emit(&t.s, "MatMul", with_op(&t, dense_a, a), with_op(&t, dense_b, b));
    mr_out y = mr_emit(&t.s, "AddV2", dense_of(&t, sparse), mixed),
           twice = mr_emit(&t.s, "AddV2", dense, dense);
    check_same(&t, y, twice, xs, 2);
    rig_deinit(&t);
}

MR_TEST(csr_products_and_their_gradients_are_those_of_dense_matrices)
{
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            check_products(a, b);
}

MR_TEST(csr_product_with_a_transposed_and_conjugated_result)
{
    rig t;
    mr_out ia, ib;
    rig_init(&t);
    mr_out xs[] = {matrix(&t, 3, &ia), matrix(&t, 4, &ib)};
    mr_out dense_a = scattered(&t, ia, xs[0]), dense_b = scattered(&t, ib, xs[1]);
    mr_out y = mr_emit_with(
        &t.s, "SparseMatrixMatMul",
        MR_ATTRS({"transpose_output", mr_a_bool(true)}, {"conjugate_output", mr_a_bool(true)}),
        csr_of(&t, ia, xs[0]), dense_b);
    check_same(&t, y, with_op(&t, mr_emit(&t.s, "MatMul", dense_a, dense_b), 2), xs, 2);
    rig_deinit(&t);
}

MR_TEST(csr_sums_and_transposes_and_their_gradients)
{
    rig t;
    mr_out ia, ib;
    rig_init(&t);
    mr_out xs[] = {matrix(&t, 1, &ia), matrix(&t, 4, &ib)};
    mr_out alpha = mr_const(&t.s, mr_tensor_of(MR_COMPLEX128, 0, NULL, (mr_c128[]){2 + I}));
    mr_out beta = mr_const(&t.s, mr_tensor_of(MR_COMPLEX128, 0, NULL, (mr_c128[]){-3}));
    mr_out sum =
        mr_emit(&t.s, "SparseMatrixAdd", csr_of(&t, ia, xs[0]), csr_of(&t, ib, xs[1]), alpha, beta);
    mr_out y = dense_of(&t, mr_emit_with(&t.s, "SparseMatrixTranspose",
                                         MR_ATTRS({"conjugate", mr_a_bool(true)},
                                                  {"type", mr_a_type(MR_COMPLEX128)}),
                                         sum));
    mr_out dense = mr_emit(&t.s, "AddV2", mr_emit(&t.s, "Mul", alpha, scattered(&t, ia, xs[0])),
                           mr_emit(&t.s, "Mul", beta, scattered(&t, ib, xs[1])));
    check_same(&t, y, with_op(&t, dense, 2), xs, 2);
    rig_deinit(&t);
}

/* Checks that L L^H is the matrix with rows and columns in the given order; NULL: the minimum degree order. */
static void check_cholesky(const int32_t *given)
{
    rig t;
    mr_attr type = mr_a_type(MR_COMPLEX128);
    mr_c128 m[N * N] = {9, 0, 2 - I, 0, 0, 8, 0, 1, 2 + I, 0, 7, 0, 0, 1, 0, 6};
    int64_t all[2 * N * N];
    rig_init(&t);
    for (int i = 0; i < N * N; i++) {
        all[2 * i] = i / N;
        all[2 * i + 1] = i % N;
    }
    mr_out dense = mr_const(&t.s, mr_tensor_of(MR_COMPLEX128, 2, (int64_t[]){N, N}, m));
    mr_out indices = mr_const(&t.s, mr_tensor_of(MR_INT64, 2, (int64_t[]){N * N, 2}, all));
    mr_out csr = mr_emit(&t.s, "DenseToCSRSparseMatrix", dense, indices);
    mr_out order =
        given ? mr_const_vec_i32(&t.s, N, given) : mr_emit(&t.s, "SparseMatrixOrderingAMD", csr);
    mr_out l = dense_of(
        &t, mr_emit_with(&t.s, "SparseMatrixSparseCholesky", MR_ATTRS({"type", type}), csr, order));
    mr_out rows = mr_emit(&t.s, "GatherV2", dense, order, mr_const_i32(&t.s, 0));
    mr_out want = mr_emit(&t.s, "GatherV2", rows, order, mr_const_i32(&t.s, 1));
    mr_out got = mr_emit(&t.s, "MatMul", l, with_op(&t, l, 2));
    check_close(value(&t, got), value(&t, want));
    rig_deinit(&t);
}

MR_TEST(csr_cholesky_gives_back_the_permuted_matrix)
{
    check_cholesky((int32_t[]){0, 1, 2, 3});
    check_cholesky((int32_t[]){2, 0, 3, 1});
    check_cholesky(NULL);
}

/* A star: the middle has the highest degree, so it comes only when one other node is left; every node comes
 * once. */
MR_TEST(csr_ordering_takes_leaves_before_the_middle_of_a_star)
{
    enum { LEAVES = 50 };
    rig t;
    int64_t at[4 * LEAVES];
    float ones[2 * LEAVES];
    bool seen[LEAVES + 1] = {0};
    rig_init(&t);
    for (int i = 0; i < LEAVES; i++) { /* node 0 is the middle */
        at[2 * i] = 0;
        at[2 * i + 1] = i + 1;
        at[2 * (LEAVES + i)] = i + 1;
        at[2 * (LEAVES + i) + 1] = 0;
        ones[i] = ones[LEAVES + i] = 1;
    }
    mr_out csr =
        mr_emit(&t.s, "SparseTensorToCSRSparseMatrix",
                mr_const(&t.s, mr_tensor_of(MR_INT64, 2, (int64_t[]){2 * LEAVES, 2}, at)),
                mr_const(&t.s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){2 * LEAVES}, ones)),
                mr_const(&t.s, mr_tensor_vector_i64(2, (int64_t[]){LEAVES + 1, LEAVES + 1})));
    const mr_tensor *order = value(&t, mr_emit(&t.s, "SparseMatrixOrderingAMD", csr));
    for (int i = 0; i <= LEAVES; i++) {
        int32_t p = MR_DATA(int32_t, order)[i];
        MR_CHECK(p >= 0 && p <= LEAVES && !seen[p]);
        seen[p] = true;
        MR_CHECK(p != 0 || i >= LEAVES - 1);
    }
    rig_deinit(&t);
}
