/* ops/linalg/determinant.c -- MatrixDeterminant and LogMatrixDeterminant: the product of the pivots
 * of an LU factorization. */
#include <math.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "ops/linalg/matrices.h"
#include "run/scratch.h"

typedef struct job {
    mr_matrix_job base;
    mr_tensor *lu;   /* the matrices, factored in place */
    int64_t *pivots; /* of all matrices */
    int64_t n;
    mr_wide out[2]; /* the determinant; or its sign and logarithm */
    bool log;
} job;

static void put_value(const mr_wide *out, int64_t i, mr_c128 v)
{
    size_t size = mr_dtype_size((mr_dtype)out->t->dtype);
    mr_dtype_convert(MR_COMPLEX128, &v, (mr_dtype)out->t->dtype,
                     (char *)out->t->data + (size_t)i * size, 1, false);
}

static void put_determinant(const job *j, int64_t i, mr_c128 fraction, int64_t exponent)
{
    /* ldexp takes ints; beyond these limits the result is 0 or infinity anyway. */
    int e = (int)MR_MAX(-100000, MR_MIN(100000, exponent));
    put_value(&j->out[0], i, __builtin_complex(ldexp(creal(fraction), e), ldexp(cimag(fraction), e)));
}

/* A determinant of 0 has the sign 0 and the logarithm -inf. */
static void put_logarithm(const job *j, int64_t i, mr_c128 fraction, int64_t exponent)
{
    double size = cabs(fraction);
    put_value(&j->out[0], i, size == 0 ? 0 : fraction / size);
    put_value(&j->out[1], i, log(size) + (double)exponent * M_LN2);
}

static mr_status *determinant_one(mr_matrix_job *base, int64_t i)
{
    job *j = (job *)base;
    void *lu = mr_matrix_at(j->lu, i);
    int64_t *pivots = j->pivots + i * j->n, exponent;
    mr_c128 fraction;
    MR_TRY(base->dense->lu(base->r, j->n, lu, pivots));
    base->dense->lu_determinant(j->n, lu, pivots, &fraction, &exponent);
    (j->log ? put_logarithm : put_determinant)(j, i, fraction, exponent);
    return NULL;
}

static mr_status *run_determinants(mr_run *r, bool log)
{
    mr_status *st = NULL;
    const mr_tensor *x = mr_in(r, 0);
    job j = {.base = {.r = r, .one = determinant_one}, .log = log};
    MR_TRY(mr_in_square_matrices(r, 0));
    j.n = mr_cols(x);
    mr_dtype type = mr_wide_type((mr_dtype)x->dtype);
    j.base.dense = mr_dense_of(type);
    for (int i = 0; i <= log; i++)
        MR_GO(mr_wide_out(r, -1, i, x->rank - 2, x->dims, &j.out[i]));
    int64_t count = mr_matrix_count(x);
    MR_GO(mr_run_temp(r, type, x->rank, x->dims, &j.lu));
    mr_matrices_copy(r, x, j.lu);
    j.pivots = mr_scratch(r, sizeof(int64_t) * (size_t)(count * j.n + 1));
    if (!j.pivots)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pivots of %s",
                       MR_TENSOR_SHAPE(x)));
    MR_GO(mr_matrix_job_run(&j.base, count, (double)j.n * (double)j.n * (double)j.n / 3));
    for (int i = 0; i <= log; i++)
        mr_wide_store(r, i, &j.out[i]);
out:
    mr_scratch_free(j.pivots);
    mr_tensor_unref(j.lu);
    mr_wide_deinit(&j.out[0]);
    mr_wide_deinit(&j.out[1]);
    return st;
}

static mr_status *run_determinant(mr_run *r) { return run_determinants(r, false); }
static mr_status *log_determinant(mr_run *r) { return run_determinants(r, true); }

static mr_status *infer_determinant(mr_infer *c)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_square(c, 0, &s));
    for (int i = 0; i < c->n_out && s->rank >= 0; i++)
        c->out[i] = mr_infer_sub(c, s, 0, -2);
    return NULL;
}

/* v [..] as [.., 1, 1], to be multiplied with matrices. */
static mr_out as_matrices(mr_grad *g, mr_out v)
{
    return mr_emit(g->s, "ExpandDims", mr_emit(g->s, "ExpandDims", v, mr_const_i32(g->s, -1)),
                   mr_const_i32(g->s, -1));
}

static mr_out adjoint_inverse(mr_grad *g, mr_out x)
{
    return mr_emit_with(g->s, "MatrixInverse", MR_ATTRS({"adjoint", mr_a_bool(true)}), x);
}

/* g conj(det) A^-H */
static void determinant_backward(mr_grad *g)
{
    mr_out scale = mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_conj(g, mr_yi(g, 0)));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", as_matrices(g, scale), adjoint_inverse(g, mr_xi(g, 0))));
}

/* g A^-H for the logarithm. The sign is a step function without a gradient; TensorFlow treats it so for complex
 * numbers too. */
static void log_determinant_backward(mr_grad *g)
{
    mr_dxi(g, 0,
           mr_emit(g->s, "Mul", as_matrices(g, mr_dyi(g, 1)), adjoint_inverse(g, mr_xi(g, 0))));
}

MR_OP(MatrixDeterminant,
    .doc      = "the determinants of the matrices in the last two dimensions",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {half, float, double, complex64, complex128}",
    .shape    = infer_determinant,
    .grad     = determinant_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_determinant, MR_FIELDS)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> -2", "[[[2]], [[-3]]] -> [2, -3]",
        "[[0, 1, 0], [0, 0, 1], [2, 1, 1]] -> 2", "nograd: [[1, 2], [2, 4]] -> 0",
        "[[1+1i, 2], [0, 2i]] -> -2+2i", "[[1i, 2], [3, 4-1i]] -> -5+4i",
        "T=float nograd: [[1e30, 0, 0], [0, 1e30, 0], [0, 0, 1e-30]] -> 1e30",
        "T=float nograd: [[1e30, 0], [0, 1e30]] -> inf",
        "T=double nograd: [[nan, 1], [1, 1]] -> nan",
        "shape(0,0) -> 1", "shape(2,0,0) -> [1, 1]", "shape(0,3,3) -> shape(0)",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal", "[1] -> !INVALID_ARGUMENT"));

MR_OP(LogMatrixDeterminant,
    .doc      = "the signs of determinants, and the logarithms of their absolute values",
    .sig      = "input: T -> sign: T, log_abs_determinant: T",
    .attrs    = "T: {half, float, double, complex64, complex128}",
    .shape    = infer_determinant,
    .grad     = log_determinant_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(log_determinant, MR_FIELDS)),
    .examples = MR_EXAMPLES(
        "T=double: [[1, 2], [3, 4]] -> -1, 0.69314718056",
        "nograd: [[1, 2], [3, 4]] -> -1, 0.69314718056",
        "nograd: [[2i, 0], [0, 1]] -> 1i, 0.69314718056",
        "nograd: [[1, 2], [2, 4]] -> 0, -inf",
        "T=float nograd: [[1e30, 0], [0, 1e30]] -> 1, 138.15511",
        "shape(2,0,0) -> [1, 1], [0, 0]", "[[1, 2]] -> !INVALID_ARGUMENT must be equal"));

#define BATCH_TYPES(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
MR_OP(BatchMatrixDeterminant,
    .doc      = "MatrixDeterminant, by its old name",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {float, double, complex64, complex128}",
    .deprecated = 13, .deprecation = "Use MatrixDeterminant instead",
    .shape    = infer_determinant,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_determinant, BATCH_TYPES)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]] -> -2", "shape(2,0,0) -> [1, 1]"));
