/* ops/linalg/matrix_functions.c -- MatrixSquareRoot, MatrixLogarithm and MatrixExponential. */
#include <complex.h>
#include <math.h>

#include "ops/linalg/emit.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/schur.h"
#include "run/scratch.h"

typedef mr_status *function(const mr_run *r, int64_t n, mr_c128 *a, bool *ok);

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *a;
    mr_tensor *out;
    int64_t n;
    function *f;
} job;

/* If the result for a real matrix is not real, it cannot be represented in its type. */
static void only_real(mr_c128 *a, int64_t n)
{
    double re = 0, im = 0;
    for (int64_t i = 0; i < n; i++) {
        re = fmax(re, fabs(creal(a[i])));
        im = fmax(im, fabs(cimag(a[i])));
    }
    for (int64_t i = 0; i < n && im > 1e-6 * re; i++)
        a[i] = NAN;
}

static mr_status *apply_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    int64_t n = j->n * j->n;
    mr_dtype type = (mr_dtype)j->a->dtype;
    bool ok = true;
    mr_c128 *a = mr_scratch_zeroed(j->base.r, (size_t)n, sizeof(mr_c128));
    if (!a)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a matrix of %lld x %lld",
                        (long long)j->n, (long long)j->n);
    mr_dtype_convert(type, mr_matrix_at(j->a, i), MR_COMPLEX128, a, n, false);
    MR_GO(j->f(base->r, j->n, a, &ok));
    if (ok && !mr_dtype_is_complex(type))
        only_real(a, n);
    for (int64_t k = 0; k < n && !ok; k++)
        a[k] = NAN;
    mr_dtype_convert(MR_COMPLEX128, a, type, mr_matrix_at(j->out, i), n, false);
out:
    mr_scratch_free(a);
    return st;
}

static mr_status *apply_function(mr_run *r, function *f)
{
    const mr_tensor *a = mr_in(r, 0);
    MR_TRY(mr_in_square_matrices(r, 0));
    job j = {.a = a, .n = mr_cols(a), .f = f};
    MR_TRY(mr_run_output(r, 0, a->rank, a->dims, &j.out));
    if (a->n == 0)
        return NULL;
    double n = (double)j.n;
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = apply_one};
    return mr_matrix_job_run(&j.base, mr_matrix_count(a), 60 * n * n * n);
}

static mr_status *exp_of(const mr_run *r, int64_t n, mr_c128 *a, bool *ok)
{
    *ok = true;
    return mr_matrix_exp(r, n, a);
}

static mr_status *square_root(mr_run *r) { return apply_function(r, mr_matrix_sqrt); }
static mr_status *run_logarithm(mr_run *r) { return apply_function(r, mr_matrix_log); }
static mr_status *run_exponential(mr_run *r) { return apply_function(r, exp_of); }

/* ---- gradient ---- */

static mr_out kronecker_product(mr_grad *g, const char *equation, mr_out a, mr_out b)
{
    const mr_out in[] = {a, b};
    return mr_emit_n(g->s, "Einsum", (mr_named_attr[]){{"equation", mr_a_str(equation)}}, 1, in, 2);
}

/* Finds X with S^H X + X S^H = dy: a system of n^2 equations, with the rows of X one after the other. */
static void square_root_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out y = mr_yi(g, 0), shape = mr_shape_of(g, y),
           one_ = mr_const_vec_i32(s, 1, (int32_t[]){1});
    mr_out last = mr_emit_with(s, "StridedSlice", MR_ATTRS({"end_mask", mr_a_int(1)}), shape,
                               mr_const_vec_i32(s, 1, (int32_t[]){-1}),
                               mr_const_vec_i32(s, 1, (int32_t[]){0}), one_);
    mr_out front = mr_emit_with(s, "StridedSlice", MR_ATTRS({"begin_mask", mr_a_int(1)}), shape,
                                mr_const_vec_i32(s, 1, (int32_t[]){0}),
                                mr_const_vec_i32(s, 1, (int32_t[]){-2}), one_);
    mr_out unit = mr_emit(s, "MatrixDiag", mr_emit(s, "Fill", last, mr_scalar_like(g, 1, y)));
    mr_out sum = mr_add(g, kronecker_product(g, "...ab,cd->...acbd", mr_mat_adjoint(g, y), unit),
                        kronecker_product(g, "ab,...cd->...acbd", unit, mr_conj(g, y)));
    mr_out square = mr_mul(g, last, last), axis = mr_const_i32(s, 0);
    mr_out system = mr_emit(s, "Reshape", sum, mr_emit(s, "ConcatV2", front, square, square, axis));
    mr_out right =
        mr_emit(s, "Reshape", mr_dyi(g, 0), mr_emit(s, "ConcatV2", front, square, one_, axis));
    mr_dxi(g, 0, mr_emit(s, "Reshape", mr_emit(s, "MatrixSolve", system, right), shape));
}

MR_OP(MatrixSquareRoot,
    .doc      = "square roots of square matrices, in the sense of products; NaN where there is "
                "none in "
                "the type",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {double, float, half, complex64, complex128}",
    .shape    = mr_shape_square,
    .grad     = square_root_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(square_root, MR_FIELDS)),
    .examples = MR_EXAMPLES(
        "nograd: [[4, 0], [0, 9]] -> [[2, 0], [0, 3]]",
        "T=double: [[7, 10], [15, 22]] -> [[1.56669890, 1.74077656], "
        "[2.61116484, 4.17786374]]",
        "nograd: [[-4]] -> shape(1,1)", "[[3+4i]] -> [[2+1i]]",
        "T=complex128: [[4, 1i], [0, 9]] -> [[2, 0.2i], [0, 3]]",
        "T=float nograd: [[-4]] -> [[nan]]", "T=float nograd: [[nan]] -> [[nan]]",
        "shape(0,0) -> shape(0,0)",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal"));

MR_OP(MatrixLogarithm,
    .doc      = "logarithms of square matrices: what MatrixExponential makes them of",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {complex64, complex128}",
    .shape    = mr_shape_square,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_logarithm, MR_COMPLEXES)),
    .examples = MR_EXAMPLES(
        "[[1, 0], [0, 1]] -> [[0, 0], [0, 0]]", "[[1, 1], [0, 1]] -> [[0, 1], [0, 0]]",
        "T=complex128: [[2, 1], [1, 3]] -> [[0.589514, 0.430409], [0.430409, 1.019923]]",
        "[[-1]] -> [[3.14159265i]]",
        "T=complex64: [[nan]] -> shape(1,1)", "shape(0,2,2) -> shape(0,2,2)",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal"));

MR_OP(MatrixExponential,
    .doc      = "exponentials of square matrices",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {double, float, half, complex64, complex128}",
    .deprecated = 27, .deprecation = "Use Python implementation tf.linalg.matrix_exponential instead",
    .shape    = mr_shape_square,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_exponential, MR_FIELDS)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 0]] -> [[1, 0], [0, 1]]", "[[0, 1], [0, 0]] -> [[1, 1], [0, 1]]",
        "T=double: [[1, 2], [3, 4]] -> [[51.968956198705, 74.736564567003], [112.104846850504, "
        "164.073803049210]]",
        "T=double: [[0, -20], [20, 0]] -> [[0.408082061813, -0.912945250728], [0.912945250728, "
        "0.408082061813]]",
        "T=float: [[nan]] -> [[nan]]", "shape(2,0,0) -> shape(2,0,0)",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal"));
