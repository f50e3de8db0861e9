/* ops/linalg/solve.c -- MatrixSolve and MatrixInverse, by LU factorization, and
 * MatrixTriangularSolve. */
#include "graph/grad.h"
#include "ops/broadcast.h"
#include "ops/linalg/matrices.h"
#include "run/scratch.h"

typedef struct state { /* attrs of a kernel */
    bool adjoint, lower;
} state;

static mr_status *init_solve(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "adjoint", &((state *)s)->adjoint);
}

static mr_status *init_triangle(mr_make *m, void *s)
{
    MR_TRY(init_solve(m, s));
    return mr_node_get_bool(m->node, "lower", &((state *)s)->lower);
}

/* ---- by LU ---- */

typedef struct job {
    mr_matrix_job base;
    mr_tensor *lu;   /* the matrices, factored in place */
    int64_t *pivots; /* of all matrices */
    int64_t n, k;
    mr_tensor *out; /* right-hand sides, solved in place */
    bool adjoint, identity;
    const char *singular; /* the error for a singular matrix */
} job;

static void set_identity(mr_dtype type, int64_t n, void *a)
{
    size_t size = mr_dtype_size(type);
    double one = 1;
    memset(a, 0, (size_t)(n * n) * size);
    for (int64_t i = 0; i < n; i++)
        mr_dtype_convert(MR_DOUBLE, &one, type, (char *)a + (size_t)(i * n + i) * size, 1, false);
}

static mr_status *solve_one(mr_matrix_job *base, int64_t i)
{
    job *j = (job *)base;
    void *lu = mr_matrix_at(j->lu, i), *b = mr_matrix_at(j->out, i);
    int64_t *pivots = j->pivots + i * j->n;
    MR_TRY(base->dense->lu(base->r, j->n, lu, pivots));
    if (base->dense->has_zero_pivot(j->n, lu))
        return mr_invalid("%s", j->singular);
    if (j->identity)
        set_identity((mr_dtype)j->out->dtype, j->n, b);
    return base->dense->lu_solve(base->r, j->adjoint, j->n, j->k, lu, pivots, b);
}

/* Factors the matrices of input 0 and solves for the right-hand sides in j->out. */
static mr_status *run_lu(mr_run *r, job *j)
{
    mr_status *st = NULL;
    const mr_tensor *x = mr_in(r, 0);
    int64_t count = mr_matrix_count(x);
    double n = (double)j->n;
    if (j->out->n == 0)
        return NULL;
    j->base = (mr_matrix_job){.r = r, .dense = mr_dense_of((mr_dtype)j->out->dtype),
                              .one = solve_one};
    j->adjoint = ((state *)r->state)->adjoint;
    MR_GO(mr_run_temp(r, (mr_dtype)j->out->dtype, x->rank, x->dims, &j->lu));
    mr_matrices_copy(r, x, j->lu);
    j->pivots = mr_scratch(r, sizeof(int64_t) * (size_t)(count * j->n));
    if (!j->pivots)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pivots of %s",
                       MR_TENSOR_SHAPE(x)));
    MR_GO(mr_matrix_job_run(&j->base, count, n * n * (n / 3 + (double)j->k)));
out:
    mr_scratch_free(j->pivots);
    mr_tensor_unref(j->lu);
    return st;
}

static mr_status *run_inverse(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *x = mr_in(r, 0);
    mr_wide y = {0};
    MR_TRY(mr_in_square_matrices(r, 0));
    MR_GO(mr_wide_out(r, -1, 0, x->rank, x->dims, &y));
    MR_GO(run_lu(r, &(job){.n = mr_cols(x), .k = mr_cols(x), .out = y.t, .identity = true,
                           .singular = "Input is not invertible."}));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&y);
    return st;
}

/* Checks that input 1 has as many rows as the matrices of input 0. */
static mr_status *check_rows(const mr_run *r)
{
    if (mr_rows(mr_in(r, 1)) != mr_rows(mr_in(r, 0)))
        return mr_invalid("Input matrix and rhs are incompatible: %s, %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)), MR_TENSOR_SHAPE(mr_in(r, 1)));
    return NULL;
}

static mr_status *run_solve(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_wide y = {0};
    MR_TRY(mr_in_square_matrices(r, 0));
    MR_TRY(mr_in_matrices(r, 1));
    MR_TRY(check_rows(r));
    if (!mr_shape_eq(a->rank - 2, a->dims, b->rank - 2, b->dims))
        return mr_invalid("All input tensors must have the same outer dimensions: %s, %s",
                          MR_TENSOR_SHAPE(a), MR_TENSOR_SHAPE(b));
    MR_GO(mr_wide_out(r, 1, 0, b->rank, b->dims, &y));
    mr_matrices_copy(r, b, y.t);
    MR_GO(run_lu(r, &(job){.n = mr_cols(a), .k = mr_cols(b), .out = y.t,
                           .singular = "Input matrix is not invertible."}));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&y);
    return st;
}

static mr_status *solve_shape(mr_infer *c)
{
    const mr_pshape *a, *b, *front;
    int64_t n;
    MR_TRY(mr_infer_square(c, 0, &a));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(a, -1), mr_infer_dim(b, -2), &n));
    MR_TRY(mr_infer_merge(c, mr_infer_sub(c, a, 0, -2), mr_infer_sub(c, b, 0, -2), &front));
    c->out[0] =
        mr_infer_concat(c, front, mr_pshape_matrix(c->arena, n, mr_infer_dim(b, -1)));
    return NULL;
}

/* ---- gradients ---- */

static bool flag_of(mr_grad *g, const char *name)
{
    bool v = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, name, &v));
    return v;
}

static mr_out emit_product(mr_grad *g, mr_out a, bool adj_a, mr_out b, bool adj_b)
{
    return mr_emit_with(g->s, "BatchMatMulV2",
                        MR_ATTRS({"adj_x", mr_a_bool(adj_a)}, {"adj_y", mr_a_bool(adj_b)}), a, b);
}

/* With Y = A^-1: -Y^H g Y^H; with Y = A^-H: -Y g^H Y. */
static void inverse_backward(mr_grad *g)
{
    bool adjoint = flag_of(g, "adjoint");
    mr_out y = mr_yi(g, 0), dy = mr_dyi(g, 0);
    mr_out inner = emit_product(g, dy, adjoint, y, !adjoint);
    mr_dxi(g, 0, mr_emit(g->s, "Neg", emit_product(g, y, !adjoint, inner, false)));
}

/* dA where op(A) X = B and dB is known; broadcast dimensions are not summed here. */
static mr_out matrix_gradient(mr_grad *g, mr_out x, mr_out db, bool adjoint)
{
    return mr_emit(g->s, "Neg", adjoint ? emit_product(g, x, false, db, true)
                                        : emit_product(g, db, false, x, true));
}

static void solve_backward(mr_grad *g)
{
    bool adjoint = flag_of(g, "adjoint");
    mr_out db = mr_emit_with(g->s, "MatrixSolve", MR_ATTRS({"adjoint", mr_a_bool(!adjoint)}),
                             mr_xi(g, 0), mr_dyi(g, 0));
    mr_dxi(g, 0, matrix_gradient(g, mr_yi(g, 0), db, adjoint));
    mr_dxi(g, 1, db);
}

/* ---- triangles ---- */

typedef struct triangle_job {
    mr_matrix_job base;
    mr_triangle t;
    const mr_tensor *a;
    mr_tensor *out;
    mr_broadcast walk; /* over the batch dimensions */
    const char *from;  /* right-hand sides, unless they are already in out */
    size_t rhs_bytes;  /* of one */
} triangle_job;

static mr_status *triangle_one(mr_matrix_job *base, int64_t i)
{
    triangle_job *j = (triangle_job *)base;
    char *b = mr_matrix_at(j->out, i);
    if (j->from)
        memcpy(b, j->from + (size_t)mr_broadcast_offset(&j->walk, 1, i) * j->rhs_bytes,
               j->rhs_bytes);
    const void *a = mr_matrix_at(j->a, mr_broadcast_offset(&j->walk, 0, i));
    return base->dense->solve(base->r, j->t, mr_cols(j->a), mr_cols(j->out), a, b);
}

static mr_status *triangle_outputs(mr_run *r, triangle_job *j, mr_wide *y)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_shape shape;
    mr_broadcast_init(&j->walk);
    MR_TRY(mr_broadcast_add(&j->walk, a->rank - 2, a->dims));
    MR_TRY(mr_broadcast_add(&j->walk, b->rank - 2, b->dims));
    MR_TRY(mr_broadcast_collapse(&j->walk));
    mr_shape_set(&shape, j->walk.shape.rank, j->walk.shape.dims);
    MR_TRY(mr_shape_push(&shape, mr_rows(b)));
    MR_TRY(mr_shape_push(&shape, mr_cols(b)));
    return mr_wide_out(r, 1, 0, shape.rank, shape.dims, y);
}

static mr_status *triangular_solve(mr_run *r)
{
    mr_status *st = NULL;
    const state *s = r->state;
    mr_wide a = {0}, b = {0}, y = {0};
    triangle_job j = {.t = {.lower = s->lower, .adjoint = s->adjoint}};
    MR_TRY(mr_in_square_matrices(r, 0));
    MR_TRY(mr_in_matrices(r, 1));
    MR_TRY(check_rows(r));
    MR_GO(triangle_outputs(r, &j, &y));
    MR_GO(mr_wide_in(r, 0, &a));
    MR_GO(mr_wide_in(r, 1, &b));
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of((mr_dtype)y.t->dtype),
                             .one = triangle_one};
    j.a = a.t;
    j.out = y.t;
    j.from = b.t->data != y.t->data ? b.t->data : NULL;
    double n = (double)mr_rows(b.t), k = (double)mr_cols(b.t);
    j.rhs_bytes = (size_t)n * (size_t)k * mr_dtype_size((mr_dtype)b.t->dtype);
    if (y.t->n > 0)
        MR_GO(mr_matrix_job_run(&j.base, j.walk.n, n * n * k));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&a);
    mr_wide_deinit(&b);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *triangular_solve_shape(mr_infer *c)
{
    const mr_pshape *a, *b, *front;
    int64_t n;
    MR_TRY(mr_infer_square(c, 0, &a));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(a, -1), mr_infer_dim(b, -2), &n));
    MR_TRY(mr_infer_broadcast(c, mr_infer_sub(c, a, 0, -2), mr_infer_sub(c, b, 0, -2), &front));
    c->out[0] =
        mr_infer_concat(c, front, mr_pshape_matrix(c->arena, n, mr_infer_dim(b, -1)));
    return NULL;
}

/* shape[:-2] */
static mr_out batch_dims(mr_grad *g, mr_out shape)
{
    mr_scope *s = g->s;
    mr_out begin = mr_const_vec_i32(s, 1, (int32_t[]){0}),
           end = mr_const_vec_i32(s, 1, (int32_t[]){-2});
    return mr_emit(s, "StridedSlice", shape, begin, end, mr_const_vec_i32(s, 1, (int32_t[]){1}));
}

/* Sums d, which has the size of the result, over the dimensions along which an input of this shape was broadcast. */
static mr_out sum_broadcast(mr_grad *g, mr_out d, mr_out axes, mr_out shape)
{
    return mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", d, axes), shape);
}

static void triangular_solve_backward(mr_grad *g)
{
    bool adjoint = flag_of(g, "adjoint"), lower = flag_of(g, "lower");
    mr_out db = mr_emit_with(
        g->s, "MatrixTriangularSolve",
        MR_ATTRS({"lower", mr_a_bool(lower)}, {"adjoint", mr_a_bool(!adjoint)}), mr_xi(g, 0),
        mr_dyi(g, 0));
    mr_out da = matrix_gradient(g, mr_yi(g, 0), db, adjoint);
    da = mr_emit(g->s, "MatrixBandPart", da, mr_const_i64(g->s, lower ? -1 : 0),
                 mr_const_i64(g->s, lower ? 0 : -1));
    mr_out a = mr_shape_of(g, mr_xi(g, 0)), b = mr_shape_of(g, mr_xi(g, 1));
    mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", batch_dims(g, a), batch_dims(g, b));
    mr_dxi(g, 0, sum_broadcast(g, da, mr_nth(axes, 0), a));
    mr_dxi(g, 1, sum_broadcast(g, db, mr_nth(axes, 1), b));
}

#define TRIANGLE_TYPES(M, ...) MR_FIELDS(M, __VA_ARGS__) MR_TYPE_BFLOAT16(M, __VA_ARGS__)

MR_OP(MatrixInverse,
    .doc      = "the inverses of the matrices in the last two dimensions, or of their adjoints",
    .sig      = "input: T -> output: T",
    .attrs    = "adjoint: bool = false; T: {double, float, half, complex64, complex128}",
    .shape    = mr_shape_square,
    .grad     = inverse_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_inverse, MR_FIELDS)),
    .state_bytes = sizeof(state), .init = init_solve,
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [[-2, 1], [1.5, -0.5]]",
        "adjoint=true: [[1, 2], [3, 4]] -> [[-2, 1.5], [1, -0.5]]",
        "[[[0, 1], [1, 0]], [[2, 0], [0, 4]]] -> [[[0, 1], [1, 0]], [[0.5, 0], [0, 0.25]]]",
        "[[0, 0, 2], [1, 0, 0], [0, 4, 0]] -> [[0, 1, 0], [0, 0, 0.25], [0.5, 0, 0]]",
        "[[1i, 1], [0, 2]] -> [[-1i, 0.5i], [0, 0.5]]",
        "adjoint=true: [[1i, 1], [0, 2]] -> [[1i, 0], [-0.5i, 0.5]]",
        "shape(0,0) -> shape(0,0)", "shape(0,2,2) -> shape(0,2,2)", "shape(2,0,0) -> shape(2,0,0)",
        "[[1, 2], [2, 4]] -> !INVALID_ARGUMENT Input is not invertible.",
        "[[0]] -> !INVALID_ARGUMENT Input is not invertible.",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal", "[1] -> !INVALID_ARGUMENT"));

MR_OP(MatrixSolve,
    .doc      = "X with A X = B, or A^H X = B, for square matrices A in the last two dimensions",
    .sig      = "matrix: T, rhs: T -> output: T",
    .attrs    = "adjoint: bool = false; T: {double, float, half, complex64, complex128}",
    .shape    = solve_shape,
    .grad     = solve_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_solve, MR_FIELDS)),
    .state_bytes = sizeof(state), .init = init_solve,
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [[5], [11]] -> [[1], [2]]",
        "adjoint=true: [[1, 3], [2, 4]], [[5], [11]] -> [[1], [2]]",
        "[[0, 2], [4, 0]], [[2, 4, 6], [8, 4, 0]] -> [[2, 1, 0], [1, 2, 3]]",
        "[[[1]], [[2]]], [[[1, 2]], [[4, 6]]] -> [[[1, 2]], [[2, 3]]]",
        "[[1i, 1], [0, 2]], [[1], [2]] -> [[0], [1]]",
        "adjoint=true: [[0, 1i], [2, 1]], [[2], [1+1i]] -> [[-1], [1]]",
        "shape(0,0), shape(0,3) -> shape(0,3)", "shape(2,2), shape(2,0) -> shape(2,0)",
        "shape(0,2,2), shape(0,2,1) -> shape(0,2,1)",
        "[[1, 2], [2, 4]], [[1], [1]] -> !INVALID_ARGUMENT Input matrix is not invertible.",
        "[[1, 2], [2, 1]], [[1]] -> !INVALID_ARGUMENT must be equal",
        "[[[1]]], [[1]] -> !INVALID_ARGUMENT"));

MR_OP(MatrixTriangularSolve,
    .doc      = "X with A X = B, or A^H X = B, for lower or upper triangles A in the last two "
                "dimensions; the dimensions before broadcast",
    .sig      = "matrix: T, rhs: T -> output: T",
    .attrs    = "lower: bool = true; adjoint: bool = false; "
                "T: {bfloat16, double, float, half, complex64, complex128}",
    .shape    = triangular_solve_shape,
    .grad     = triangular_solve_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(triangular_solve, TRIANGLE_TYPES)),
    .state_bytes = sizeof(state), .init = init_triangle,
    .examples = MR_EXAMPLES(
        "[[2, 7], [1, 4]], [[2], [9]] -> [[1], [2]]",
        "lower=false: [[2, 1], [7, 4]], [[4], [8]] -> [[1], [2]]",
        "adjoint=true: [[2, 7], [1, 4]], [[4], [8]] -> [[1], [2]]",
        "lower=false adjoint=true: [[2, 1], [7, 4]], [[2], [9]] -> [[1], [2]]",
        "[[[1]], [[2]]], [[4, 6]] -> [[[4, 6]], [[2, 3]]]",
        "[[2]], [[[4]], [[6]]] -> [[[2]], [[3]]]",
        "[[1i, 0], [1, 2]], [[1], [1-1i]] -> [[-1i], [0.5]]",
        "adjoint=true: [[1i, 0], [1, 2]], [[1], [2]] -> [[0], [1]]",
        "T=float nograd: [[0]], [[1]] -> [[inf]]",
        "shape(0,0), shape(0,3) -> shape(0,3)", "shape(0,2,2), shape(2,1) -> shape(0,2,1)",
        "[[1, 2], [2, 1]], [[1]] -> !INVALID_ARGUMENT must be equal",
        "[[[1]], [[1]]], [[[1]], [[1]], [[1]]] -> !INVALID_ARGUMENT"));

/* ---- old names ---- */

MR_OP(BatchMatrixInverse,
    .doc      = "MatrixInverse, by its old name",
    .sig      = "input: T -> output: T",
    .attrs    = "adjoint: bool = false; T: {double, float}",
    .deprecated = 13, .deprecation = "Use MatrixInverse instead",
    .shape    = mr_shape_square,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_inverse, MR_FLOATS32)),
    .state_bytes = sizeof(state), .init = init_solve,
    .examples = MR_EXAMPLES("[[[1, 2], [3, 4]]] -> [[[-2, 1], [1.5, -0.5]]]",
                            "[[0]] -> !INVALID_ARGUMENT Input is not invertible."));

MR_OP(BatchMatrixSolve,
    .doc      = "MatrixSolve, by its old name",
    .sig      = "matrix: T, rhs: T -> output: T",
    .attrs    = "adjoint: bool = false; T: {double, float}",
    .deprecated = 13, .deprecation = "Use MatrixSolve instead",
    .shape    = solve_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_solve, MR_FLOATS32)),
    .state_bytes = sizeof(state), .init = init_solve,
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [[5], [11]] -> [[1], [2]]",
                            "adjoint=true: [[1, 3], [2, 4]], [[5], [11]] -> [[1], [2]]"));

MR_OP(BatchMatrixTriangularSolve,
    .doc      = "MatrixTriangularSolve, by its old name",
    .sig      = "matrix: T, rhs: T -> output: T",
    .attrs    = "lower: bool = true; adjoint: bool = false; T: {double, float}",
    .deprecated = 13, .deprecation = "Use MatrixTriangularSolve instead",
    .shape    = triangular_solve_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(triangular_solve, MR_FLOATS32)),
    .state_bytes = sizeof(state), .init = init_triangle,
    .examples = MR_EXAMPLES("[[2, 7], [1, 4]], [[2], [9]] -> [[1], [2]]",
                            "lower=false: [[2, 1], [7, 4]], [[4], [8]] -> [[1], [2]]"));
