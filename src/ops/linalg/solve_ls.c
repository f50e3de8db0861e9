/* ops/linalg/solve_ls.c -- MatrixSolveLs: finds X that minimises |A X - B|^2 + l |X|^2; and its old name.
 *
 * fast: by the normal equations, A^H A + l or A A^H + l, and Cholesky. Otherwise by singular values, which gives
 * the smallest X even if A has low rank; l is ignored then, as in TensorFlow. */
#include <float.h>

#include "base/memory.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/emit.h"
#include "ops/linalg/gemm.h"
#include "run/scratch.h"

typedef struct state {
    bool fast;
} state;

static mr_status *init_solve_ls(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "fast", &((state *)s)->fast);
}

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *a, *b;
    mr_tensor *x;
    int64_t m, n, k;
    double l2;
    bool fast;
    mr_dtype full;
} job;

/* c (rows x cols) = op(a) op(b), where op is the adjoint if requested. */
static mr_status *multiply_matrices(const job *j, int64_t rows, int64_t cols, int64_t inner, bool adj_a,
                                    const void *a, bool adj_b, const void *b, void *c)
{
    bool complex_ = j->full == MR_COMPLEX128;
    mr_gemm g = {.type = j->full, .m = rows, .n = cols, .k = inner, .ta = adj_a, .tb = adj_b,
                 .conj_a = adj_a && complex_, .conj_b = adj_b && complex_};
    return mr_gemm_run(j->base.r, &(mr_gemm_batch){.one = g,
                                                   .n_batch = 1,
                                                   .a = a,
                                                   .b = b,
                                                   .a_n = rows * inner,
                                                   .b_n = cols * inner,
                                                   .c = c});
}

static void add_diagonal(mr_dtype full, int64_t n, double v, void *a)
{
    for (int64_t i = 0; i < n; i++)
        if (full == MR_COMPLEX128)
            ((mr_c128 *)a)[i * n + i] += v;
        else
            ((double *)a)[i * n + i] += v;
}

/* x = gram^-1 x for the p x p Gram matrix, which is overwritten by its factor. */
static mr_status *solve_gram(const job *j, int64_t p, void *gram, void *x)
{
    const mr_dense *dense = mr_dense_of(j->full);
    bool ok = true;
    add_diagonal(j->full, p, j->l2, gram);
    MR_TRY(dense->cholesky(j->base.r, p, gram, &ok));
    if (!ok)
        return mr_invalid(
            "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or "
            "provide a larger l2_regularizer > 0.");
    MR_TRY(dense->solve(j->base.r, (mr_triangle){.lower = true}, p, j->k, gram, x));
    return dense->solve(j->base.r, (mr_triangle){.lower = true, .adjoint = true}, p, j->k, gram, x);
}

static mr_status *solve_fast(const job *j, const void *a, void *b, void *x)
{
    mr_status *st = NULL;
    void *gram = NULL;
    int64_t p = MR_MIN(j->m, j->n);
    MR_GO(mr_matrix_room(j->base.r, j->full, p, p, &gram));
    if (j->m >= j->n) { /* (A^H A + l)^-1 A^H B */
        MR_GO(multiply_matrices(j, p, p, j->m, true, a, false, a, gram));
        MR_GO(multiply_matrices(j, j->n, j->k, j->m, true, a, false, b, x));
        MR_GO(solve_gram(j, p, gram, x));
    } else { /* A^H (A A^H + l)^-1 B */
        MR_GO(multiply_matrices(j, p, p, j->n, false, a, true, a, gram));
        MR_GO(solve_gram(j, p, gram, b));
        MR_GO(multiply_matrices(j, j->n, j->k, j->m, true, a, false, b, x));
    }
out:
    mr_scratch_free(gram);
    return st;
}

/* V diag(1/s) U^H B, without those s that are only rounding errors. */
static mr_status *solve_by_values(const job *j, void *a, const void *b, void *x)
{
    mr_status *st = NULL;
    void *s = NULL, *u = NULL, *v = NULL, *t = NULL;
    int64_t p = MR_MIN(j->m, j->n);
    bool ok;
    MR_GO(mr_matrix_room(j->base.r, MR_DOUBLE, p, 1, &s));
    MR_GO(mr_matrix_room(j->base.r, j->full, j->m, p, &u));
    MR_GO(mr_matrix_room(j->base.r, j->full, j->n, p, &v));
    MR_GO(mr_matrix_room(j->base.r, j->full, p, j->k, &t));
    MR_GO(mr_decompose_of(j->full)->svd(j->base.r, j->m, j->n, a, s, p, u, p, v, &ok));
    MR_GO(multiply_matrices(j, p, j->k, j->m, true, u, false, b, t));
    const double *values = s;
    double own = j->a->dtype == MR_FLOAT || j->a->dtype == MR_COMPLEX64 ? FLT_EPSILON
                 : j->a->dtype == MR_HALF ? 0x1p-10 : DBL_EPSILON;
    double least = values[0] * own * (double)p;
    for (int64_t i = 0; i < p; i++) {
        double f = values[i] <= least ? 0 : 1 / values[i];
        for (int64_t c = 0; c < j->k; c++)
            if (j->full == MR_COMPLEX128)
                ((mr_c128 *)t)[i * j->k + c] *= f;
            else
                ((double *)t)[i * j->k + c] *= f;
    }
    MR_GO(multiply_matrices(j, j->n, j->k, p, false, v, false, t, x));
out:
    mr_scratch_free(s);
    mr_scratch_free(u);
    mr_scratch_free(v);
    mr_scratch_free(t);
    return st;
}

static mr_status *solve_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    void *a = NULL, *b = NULL, *x = NULL;
    MR_GO(mr_unpack(j->base.r, j->a, i * j->m * j->n, j->m * j->n, &a));
    MR_GO(mr_unpack(j->base.r, j->b, i * j->m * j->k, j->m * j->k, &b));
    MR_GO(mr_matrix_room(j->base.r, j->full, j->n, j->k, &x));
    MR_GO(j->fast ? solve_fast(j, a, b, x) : solve_by_values(j, a, b, x));
    mr_repack(x, j->full, j->n * j->k, j->x, i * j->n * j->k);
out:
    mr_scratch_free(a);
    mr_scratch_free(b);
    mr_scratch_free(x);
    return st;
}

static mr_status *check_inputs(const mr_run *r, job *j)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1), *l2 = mr_in(r, 2);
    MR_TRY(mr_in_matrices(r, 0));
    MR_TRY(mr_in_matrices(r, 1));
    if (!mr_shape_eq(a->rank - 2, a->dims, b->rank - 2, b->dims))
        return mr_invalid("All input tensors must have the same outer dimensions: %s, %s",
                          MR_TENSOR_SHAPE(a), MR_TENSOR_SHAPE(b));
    if (mr_rows(a) != mr_rows(b))
        return mr_invalid("Input matrix and rhs are incompatible: %s, %s", MR_TENSOR_SHAPE(a),
                          MR_TENSOR_SHAPE(b));
    if (l2->rank != 0)
        return mr_invalid("l2_regularizer must be scalar, not %s", MR_TENSOR_SHAPE(l2));
    j->l2 = MR_DATA(double, l2)[0];
    if (!(j->l2 >= 0))
        return mr_invalid("l2_regularizer must be >= 0.");
    return NULL;
}

static mr_status *solve_ls(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_shape shape_;
    job j = {.a = a, .b = b, .fast = ((state *)r->state)->fast};
    MR_TRY(check_inputs(r, &j));
    j.m = mr_rows(a);
    j.n = mr_cols(a);
    j.k = mr_cols(b);
    j.full = mr_full_type((mr_dtype)a->dtype);
    mr_shape_set(&shape_, b->rank, b->dims);
    shape_.dims[b->rank - 2] = j.n;
    MR_TRY(mr_run_output(r, 0, shape_.rank, shape_.dims, &j.x));
    if (a->n == 0 || j.x->n == 0) { /* nothing to fit: the smallest X is 0 */
        mr_tensor_zero(j.x);
        return NULL;
    }
    double p = (double)MR_MIN(j.m, j.n);
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(j.full), .one = solve_one};
    return mr_matrix_job_run(&j.base, mr_matrix_count(a),
                             p * (double)j.m * (double)j.n * (j.fast ? 1 : 40));
}

static mr_status *infer_solve_ls(mr_infer *c)
{
    const mr_pshape *a, *b, *front, *l2;
    int64_t m;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &l2));
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &a));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(a, -2), mr_infer_dim(b, -2), &m));
    MR_TRY(mr_infer_merge(c, mr_infer_sub(c, a, 0, -2), mr_infer_sub(c, b, 0, -2), &front));
    c->out[0] = mr_infer_concat(
        c, front, mr_pshape_matrix(c->arena, mr_infer_dim(a, -1), mr_infer_dim(b, -1)));
    return NULL;
}

/* ---- gradient ---- */

static mr_out regularized_gram(mr_grad *g, mr_out gram)
{
    mr_out d = mr_emit(g->s, "MatrixDiagPart", gram), l2 = mr_xi(g, 2);
    if (!mr_scope_ok(g->s))
        return gram;
    mr_dtype type = mr_dtype_base(mr_out_type(gram));
    if (type != MR_DOUBLE)
        l2 = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}), l2);
    return mr_emit(g->s, "MatrixSetDiag", gram, mr_add(g, d, l2));
}

/* Z = (A^H A + l)^-1 dX: dA = B Z^H - A (X Z^H + Z X^H), dB = A Z. */
static void tall_backward(mr_grad *g)
{
    mr_out a = mr_xi(g, 0), b = mr_xi(g, 1), x = mr_yi(g, 0);
    mr_out z = mr_emit(g->s, "MatrixSolve", regularized_gram(g, mr_mat_h_mul(g, a, a)), mr_dyi(g, 0));
    mr_out both = mr_add(g, mr_mat_mul_h(g, x, z), mr_mat_mul_h(g, z, x));
    mr_dxi(g, 0, mr_sub(g, mr_mat_mul_h(g, b, z), mr_mat_mul(g, a, both)));
    mr_dxi(g, 1, mr_mat_mul(g, a, z));
}

/* With G = A A^H + l and W = G^-1 B: dB = G^-1 A dX, dA = W (dX - A^H dB)^H - dB W^H A. */
static void wide_backward(mr_grad *g)
{
    mr_out a = mr_xi(g, 0), dx = mr_dyi(g, 0), gram = regularized_gram(g, mr_mat_mul_h(g, a, a));
    mr_out db = mr_emit(g->s, "MatrixSolve", gram, mr_mat_mul(g, a, dx));
    mr_out w = mr_emit(g->s, "MatrixSolve", gram, mr_xi(g, 1));
    mr_out rest = mr_sub(g, dx, mr_mat_h_mul(g, a, db));
    mr_dxi(g, 0, mr_sub(g, mr_mat_mul_h(g, w, rest), mr_mat_mul(g, db, mr_mat_h_mul(g, w, a))));
    mr_dxi(g, 1, db);
}

static void solve_ls_backward(mr_grad *g)
{
    bool fast = true;
    const mr_pshape *a = mr_out_shape(mr_xi(g, 0));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "fast", &fast));
    if (!fast)
        mr_grad_fail(g, MR_UNIMPLEMENTED, "Gradient not defined for fast=False");
    else if (a->rank < 2 || mr_infer_dim(a, -2) < 0 || mr_infer_dim(a, -1) < 0)
        mr_grad_fail(g, MR_UNIMPLEMENTED,
                     "the gradient of MatrixSolveLs needs matrices of known shape");
    else if (mr_infer_dim(a, -2) >= mr_infer_dim(a, -1))
        tall_backward(g);
    else
        wide_backward(g);
}

MR_OP(MatrixSolveLs,
    .doc      = "X that makes |A X - B|^2 + l2_regularizer |X|^2 least",
    .sig      = "matrix: T, rhs: T, l2_regularizer: double -> output: T",
    .attrs    = "T: {double, float, half, complex64, complex128}; fast: bool = true",
    .shape    = infer_solve_ls,
    .grad     = solve_ls_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(solve_ls, MR_FIELDS)),
    .state_bytes = sizeof(state), .init = init_solve_ls,
    .examples = MR_EXAMPLES(
        "[[1, 0], [0, 2], [0, 0]], [[1], [4], [9]], 0.0 -> [[1], [2]]",
        "[[2, 0, 0], [0, 1, 0]], [[2], [3]], 0.0 -> [[1], [3], [0]]",
        "[[1, 0], [0, 2]], [[2], [10]], 1.0 -> [[1], [4]]",
        "[[1i], [1]], [[1i], [1]], 0.0 -> [[1]]",
        "T=double: [[1, 2], [3, 4], [5, 7]], [[1, 2], [3, 4], [5, 5]], 0.5 -> shape(2,2)",
        "T=complex128: [[1, 2i, 1], [3, 4, 1i]], [[1], [3i]], 0.5 -> shape(3,1)",
        "nograd fast=false: [[1, 1], [1, 1]], [[2], [2]], 0.0 -> [[1], [1]]",
        "nograd fast=false: [[1, 0], [0, 2], [0, 0]], [[1], [4], [9]], 0.0 -> [[1], [2]]",
        "nograd: shape(0,2), shape(0,1), 0.0 -> [[0], [0]]",
        "shape(2,3), shape(2,0), 0.0 -> shape(3,0)",
        "[[1, 0], [1, 0]], [[2], [2]], 0.0 -> !INVALID_ARGUMENT rank deficient",
        "[[1]], [[1]], -1.0 -> !INVALID_ARGUMENT l2_regularizer must be >= 0.",
        "[[1]], [[1]], [1] -> !INVALID_ARGUMENT",
        "[[1, 2]], [[1], [2]], 0.0 -> !INVALID_ARGUMENT must be equal"));

MR_OP(BatchMatrixSolveLs,
    .doc      = "MatrixSolveLs, by its old name",
    .sig      = "matrix: T, rhs: T, l2_regularizer: double -> output: T",
    .attrs    = "T: {double, float}; fast: bool = true",
    .deprecated = 13, .deprecation = "Use MatrixSolveLs instead",
    .shape    = infer_solve_ls,
    .kernels  = MR_KERNELS(MR_CPU_ONE(solve_ls, MR_FLOATS32)),
    .state_bytes = sizeof(state), .init = init_solve_ls,
    .examples = MR_EXAMPLES("[[[1, 0], [0, 2]]], [[[2], [10]]], 1.0 -> [[[1], [4]]]"));
