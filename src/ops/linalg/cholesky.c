/* ops/linalg/cholesky.c -- Cholesky and CholeskyGrad.
 *
 * The op is differentiated as a function of Hermitian matrices: the gradient is Hermitian, although only one
 * triangle of the input is read. */
#include "graph/grad.h"
#include "ops/linalg/gemm.h"
#include "ops/linalg/matrices.h"

typedef struct job {
    mr_matrix_job base;
    mr_tensor *out;
} job;

static mr_status *factor_one(mr_matrix_job *base, int64_t i)
{
    job *j = (job *)base;
    bool ok = true;
    MR_TRY(base->dense->cholesky(base->r, mr_cols(j->out), mr_matrix_at(j->out, i), &ok));
    return ok ? NULL
              : mr_invalid("Cholesky decomposition was not successful. The input might not be "
                           "valid.");
}

static mr_status *run_cholesky(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *x = mr_in(r, 0);
    mr_wide y = {0};
    MR_TRY(mr_in_square_matrices(r, 0));
    MR_GO(mr_wide_out(r, 0, 0, x->rank, x->dims, &y));
    mr_matrices_copy(r, x, y.t);
    job j = {{.r = r, .dense = mr_dense_of((mr_dtype)y.t->dtype), .one = factor_one}, y.t};
    double n = (double)mr_cols(x);
    if (x->n > 0)
        MR_GO(mr_matrix_job_run(&j.base, mr_matrix_count(x), n * n * n / 6));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&y);
    return st;
}

/* ---- CholeskyGrad ---- */

typedef struct grad_job {
    mr_matrix_job base;
    const mr_tensor *l;
    mr_tensor *out; /* the gradients, which are overwritten */
} grad_job;

static mr_status *grad_one(mr_matrix_job *base, int64_t i)
{
    grad_job *j = (grad_job *)base;
    return base->dense->cholesky_grad(base->r, mr_cols(j->out), mr_matrix_at(j->l, i),
                                      mr_matrix_at(j->out, i));
}

static mr_status *cholesky_grad(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *l = mr_in(r, 0), *g = mr_in(r, 1);
    mr_wide wide = {0}, y = {0};
    MR_TRY(mr_in_square_matrices(r, 0));
    if (!mr_tensor_same_shape(l, g))
        return mr_invalid("Inputs must have the same shape: %s, %s", MR_TENSOR_SHAPE(l),
                          MR_TENSOR_SHAPE(g));
    MR_GO(mr_wide_in(r, 0, &wide));
    MR_GO(mr_wide_out(r, 1, 0, g->rank, g->dims, &y));
    mr_matrices_copy(r, g, y.t);
    grad_job j = {{.r = r, .dense = mr_dense_of((mr_dtype)y.t->dtype), .one = grad_one}, wide.t,
                  y.t};
    double n = (double)mr_cols(l);
    if (g->n > 0)
        MR_GO(mr_matrix_job_run(&j.base, mr_matrix_count(l), n * n * n * 1.2));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&wide);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *cholesky_grad_shape(mr_infer *c)
{
    const mr_pshape *l;
    MR_TRY(mr_infer_square(c, 0, &l));
    return mr_infer_merge(c, l, c->in[1], &c->out[0]);
}

/* ---- gradients ---- */

static mr_out emit_product(mr_grad *g, mr_out a, bool adj_a, mr_out b, bool adj_b)
{
    return mr_emit_with(g->s, "BatchMatMulV2",
                        MR_ATTRS({"adj_x", mr_a_bool(adj_a)}, {"adj_y", mr_a_bool(adj_b)}), a, b);
}

static mr_out lower_part(mr_grad *g, mr_out a)
{
    return mr_emit(g->s, "MatrixBandPart", a, mr_const_i64(g->s, -1), mr_const_i64(g->s, 0));
}

/* The lower part with its diagonal halved. */
static mr_out half_lower(mr_grad *g, mr_out a)
{
    mr_out diagonal = mr_emit(g->s, "MatrixDiagPart", a);
    diagonal = mr_emit(g->s, "Mul", diagonal, mr_scalar_like(g, 0.5, diagonal));
    return lower_part(g, mr_emit(g->s, "MatrixSetDiag", a, diagonal));
}

static mr_out halve_matrix(mr_grad *g, mr_out a)
{
    return mr_emit(g->s, "Mul", a, mr_scalar_like(g, 0.5, a));
}

static mr_out inverse_of_lower(mr_grad *g, mr_out l)
{
    mr_out ones = mr_ones_like(g, mr_emit(g->s, "MatrixDiagPart", l));
    return mr_emit(g->s, "MatrixTriangularSolve", l, mr_emit(g->s, "MatrixDiag", ones));
}

/* Computes the result of CholeskyGrad from ops that have gradients themselves and support complex numbers: S + S^H
 * where S = 1/2 L^-H P L^-1. */
static void cholesky_backward(mr_grad *g)
{
    mr_out l = mr_yi(g, 0), inverse = inverse_of_lower(g, l);
    mr_out p = half_lower(g, emit_product(g, l, true, mr_dyi(g, 0), false));
    mr_out right = emit_product(g, p, false, inverse, false);
    mr_dxi(g, 0, halve_matrix(g, mr_emit(g->s, "Add", emit_product(g, inverse, true, right, false),
                                         emit_product(g, right, true, inverse, false))));
}

/* With y = 1/2 L^-T (P + P^T) L^-1, P the halved lower part of L^T G, and Q that of the symmetric
 * part of L^-1 dy L^-T: dG = lower(L Q), dL = lower(G Q^T - y (dy + dy^T) L^-T). */
static void cholesky_grad_backward(mr_grad *g)
{
    mr_out l = mr_xi(g, 0), y = mr_yi(g, 0), dy = mr_dyi(g, 0);
    mr_out lower = lower_part(g, l), inverse = inverse_of_lower(g, l);
    mr_out both = mr_emit(g->s, "Add", emit_product(g, inverse, false, dy, false),
                          emit_product(g, inverse, false, dy, true)); /* L^-1 (dy + dy^T) */
    mr_out q = half_lower(g, halve_matrix(g, emit_product(g, both, false, inverse, true)));
    mr_dxi(g, 1, lower_part(g, emit_product(g, lower, false, q, false)));
    mr_out through_p = emit_product(g, lower_part(g, mr_xi(g, 1)), false, q, true);
    mr_out through_inverse = emit_product(g, y, false, both, true); /* both^T = (dy + dy^T) L^-T */
    mr_dxi(g, 0, lower_part(g, mr_emit(g->s, "Sub", through_p, through_inverse)));
}

#define REAL_FIELDS(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)

MR_OP(Cholesky,
    .doc      = "lower triangles L with A = L L^H, for positive definite matrices A in the last "
                "two dimensions; the part above their diagonal is not read",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {double, float, half, complex64, complex128}",
    .shape    = mr_shape_square,
    .grad     = cholesky_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_cholesky, MR_FIELDS)),
    .examples = MR_EXAMPLES(
        "nograd: [[4, 9], [2, 5]] -> [[2, 0], [1, 2]]", "[[[4]], [[9]]] -> [[[2]], [[3]]]",
        "nograd: [[4, 0, 0], [2, 5, 0], [2, 5, 9]] -> [[2, 0, 0], [1, 2, 0], [1, 2, 2]]",
        "nograd: [[4, 0], [2i, 2]] -> [[2, 0], [1i, 1]]",
        "T=float nograd: [[nan, 0], [0, 1]] -> [[nan, 0], [nan, nan]]",
        "shape(0,0) -> shape(0,0)", "shape(0,2,2) -> shape(0,2,2)", "shape(2,0,0) -> shape(2,0,0)",
        "[[1, 2], [2, 1]] -> !INVALID_ARGUMENT Cholesky decomposition was not successful. The "
        "input might not be valid.",
        "[[[1]], [[0]]] -> !INVALID_ARGUMENT Cholesky decomposition was not successful",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal", "[1] -> !INVALID_ARGUMENT"));

MR_OP(CholeskyGrad,
    .doc      = "the gradient of A from its Cholesky factor L and the gradient of that",
    .sig      = "l: T, grad: T -> output: T",
    .attrs    = "T: {half, float, double}",
    .shape    = cholesky_grad_shape,
    .grad     = cholesky_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(cholesky_grad, REAL_FIELDS)),
    .examples = MR_EXAMPLES(
        "[[2]], [[8]] -> [[2]]", "[[[2]], [[4]]], [[[8]], [[8]]] -> [[[2]], [[1]]]",
        "[[2, 7], [1, 2]], [[8, 7], [4, 2]] -> [[1.625, 0.75], [0.75, 0.5]]",
        "nograd: [[1, 0], [0, 1]], [[2, 9], [4, 6]] -> [[1, 2], [2, 3]]",
        "shape(0,0), shape(0,0) -> shape(0,0)", "shape(2,0,0), shape(2,0,0) -> shape(2,0,0)",
        "[[1, 2], [2, 1]], [[1]] -> !INVALID_ARGUMENT"));

/* ---- old names ---- */

MR_OP(BatchCholesky,
    .doc      = "Cholesky, by its old name",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {double, float}",
    .deprecated = 13, .deprecation = "Use Cholesky instead",
    .shape    = mr_shape_square,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_cholesky, MR_FLOATS32)),
    .examples = MR_EXAMPLES("[[[4, 9], [2, 5]]] -> [[[2, 0], [1, 2]]]"));

MR_OP(BatchCholeskyGrad,
    .doc      = "CholeskyGrad, by its old name",
    .sig      = "l: T, grad: T -> output: T",
    .attrs    = "T: {float, double}",
    .deprecated = 13, .deprecation = "Use CholeskyGrad instead",
    .shape    = cholesky_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(cholesky_grad, MR_FLOATS32)),
    .examples = MR_EXAMPLES("[[2]], [[8]] -> [[2]]"));
