/* ops/linalg/eigh.c -- SelfAdjointEigV2 and its older versions: eigenvalues of Hermitian matrices, whose lower
 * triangle is read. */
#include "ops/linalg/decompose.h"
#include "ops/linalg/emit.h"
#include "run/scratch.h"

typedef struct state {
    bool vectors;
} state;

static mr_status *init_eigh(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "compute_v", &((state *)s)->vectors);
}

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *a;
    mr_tensor *e, *v; /* in the oldest version v is NULL, and e has both, in n + 1 rows */
    int64_t n;
    bool vectors, stacked;
} job;

static mr_status *eigh_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    int64_t n = j->n;
    void *a = NULL, *e = NULL, *v = NULL;
    const mr_decompose *d = mr_decompose_for(MR_DECOMPOSE_EIGH, j->a, i * n * n, n, n);
    mr_dtype full = d->type;
    bool ok;
    MR_GO(mr_unpack_as(j->base.r, j->a, i * n * n, n * n, full, &a));
    MR_GO(mr_matrix_room(j->base.r, MR_DOUBLE, n, 1, &e));
    if (j->vectors)
        MR_GO(mr_matrix_room(j->base.r, full, n, n, &v));
    MR_GO(d->eigh(j->base.r, n, a, e, v, &ok));
    if (!ok)
        MR_GO(mr_invalid("Self-adjoint eigen decomposition was not successful. The input might not "
                         "be valid."));
    int64_t at = j->stacked ? i * (n + 1) * n : i * n;
    mr_repack(e, MR_DOUBLE, n, j->e, at);
    if (j->vectors)
        mr_repack(v, full, n * n, j->stacked ? j->e : j->v, j->stacked ? at + n : i * n * n);
out:
    mr_scratch_free(a);
    mr_scratch_free(e);
    mr_scratch_free(v);
    return st;
}

static mr_status *decompose_all(mr_run *r, job *j)
{
    const mr_tensor *a = mr_in(r, 0);
    double n = (double)j->n;
    if (a->n == 0)
        return NULL;
    j->a = a;
    j->base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = eigh_one};
    return mr_matrix_job_run(&j->base, mr_matrix_count(a), 9 * n * n * n);
}

static mr_status *eigh_v2(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0);
    MR_TRY(mr_in_square_matrices(r, 0));
    job j = {.n = mr_cols(a), .vectors = ((state *)r->state)->vectors};
    MR_TRY(mr_run_output(r, 0, a->rank - 1, a->dims, &j.e));
    MR_TRY(j.vectors ? mr_run_output(r, 1, a->rank, a->dims, &j.v)
                     : mr_run_output(r, 1, 1, (int64_t[]){0}, &j.v));
    return decompose_all(r, &j);
}

static mr_status *eigh_v1(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0);
    mr_shape shape;
    MR_TRY(mr_in_square_matrices(r, 0));
    job j = {.n = mr_cols(a), .vectors = true, .stacked = true};
    mr_shape_set(&shape, a->rank, a->dims);
    shape.dims[a->rank - 2]++;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &j.e));
    return decompose_all(r, &j);
}

static mr_status *shape_v2(mr_infer *c)
{
    const mr_pshape *a;
    bool vectors;
    MR_TRY(mr_infer_square(c, 0, &a));
    MR_TRY(mr_node_get_bool(c->node, "compute_v", &vectors));
    if (!vectors)
        mr_infer_out_vector(c, 1, 0);
    if (a->rank < 0)
        return NULL;
    c->out[0] = mr_infer_sub(c, a, 0, -1);
    if (vectors)
        c->out[1] = a;
    return NULL;
}

static mr_status *shape_v1(mr_infer *c)
{
    const mr_pshape *a;
    MR_TRY(mr_infer_square(c, 0, &a));
    if (a->rank < 0)
        return NULL;
    int64_t n = mr_infer_dim(a, -1);
    c->out[0] = mr_infer_concat(c, mr_infer_sub(c, a, 0, -2),
                                mr_pshape_matrix(c->arena, n < 0 ? -1 : n + 1, n));
    return NULL;
}

/* ---- gradients ---- */

/* Only the lower triangle of A is read, so it gets the gradient of both triangles. */
static mr_out to_lower(mr_grad *g, mr_out da)
{
    da = mr_mat_band(g, mr_add(g, da, mr_mat_adjoint(g, da)), -1, 0);
    mr_out d = mr_emit(g->s, "MatrixDiagPart", da);
    return mr_emit(g->s, "MatrixSetDiag", da, mr_mul(g, d, mr_scalar_like(g, 0.5, d)));
}

/* V (de + F o V^H dV) V^H, F the inverse gaps of e. */
static mr_out whole_backward(mr_grad *g, mr_out e, mr_out v, mr_out de, mr_out dv)
{
    mr_out inner = mr_add(g, mr_emit(g->s, "MatrixDiag", de),
                          mr_mul(g, mr_mat_gaps(g, e), mr_mat_h_mul(g, v, dv)));
    return to_lower(g, mr_mat_mul(g, v, mr_mat_mul_h(g, inner, v)));
}

static void eigh_v2_backward(mr_grad *g)
{
    bool vectors = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "compute_v", &vectors));
    if (vectors) {
        mr_dxi(g, 0, whole_backward(g, mr_yi(g, 0), mr_yi(g, 1), mr_dyi(g, 0), mr_dyi(g, 1)));
        return;
    }
    mr_out v = mr_nth(mr_emit(g->s, "SelfAdjointEigV2", mr_xi(g, 0)), 1);
    mr_out de = mr_emit(g->s, "MatrixDiag", mr_dyi(g, 0));
    mr_dxi(g, 0, to_lower(g, mr_mat_mul(g, v, mr_mat_mul_h(g, de, v))));
}

#define REALS_V1(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)

MR_OP(SelfAdjointEigV2,
    .doc      = "eigenvalues, ascending, and eigenvectors, as columns, of Hermitian matrices; "
                "their "
                "lower triangle is read",
    .sig      = "input: T -> e: T, v: T",
    .attrs    = "compute_v: bool = true; T: {double, float, half, complex64, complex128}",
    .key      = "T",
    .shape    = shape_v2,
    .grad     = eigh_v2_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(eigh_v2, MR_FIELDS)),
    .state_bytes = sizeof(state), .init = init_eigh,
    .examples = MR_EXAMPLES(
        "nograd compute_v=false: [[2, 9], [1, 2]] -> [1, 3], shape(0)",
        "nograd: [[2, 9], [1, 2]] -> [1, 3], shape(2,2)",
        "T=double: [[2, 0], [1, 4]] -> [1.585786437627, 4.414213562373], shape(2,2)",
        "T=double compute_v=false: [[2, 0, 0], [1, 4, 0], [3, 1, 5]] -> [0.116590, 3.471666, "
        "7.411743], shape(0)",
        "nograd: [[2, 0], [1i, 2]] -> [1, 3], shape(2,2)",
        "nograd: [[3, 0], [0, 1]] -> [1, 3], [[0, 1], [1, 0]]",
        "nograd: [[[5]], [[-2]]] -> [[5], [-2]], [[[1]], [[1]]]",
        "nograd: [[0, 0], [0, 0]] -> [0, 0], [[1, 0], [0, 1]]",
        "shape(0,0) -> shape(0), shape(0,0)", "shape(2,0,0) -> shape(2,0), shape(2,0,0)",
        "shape(0,2,2) -> shape(0,2), shape(0,2,2)",
        "T=float nograd: [[nan, 0], [0, 1]] -> !INVALID_ARGUMENT Self-adjoint eigen decomposition "
        "was not successful",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal", "[1] -> !INVALID_ARGUMENT at least rank 2"));

MR_OP(BatchSelfAdjointEigV2,
    .doc      = "SelfAdjointEigV2, by its old name",
    .sig      = "input: T -> e: T, v: T",
    .attrs    = "compute_v: bool = true; T: {double, float}",
    .key      = "T",
    .deprecated = 13, .deprecation = "Use SelfAdjointEigV2 instead",
    .shape    = shape_v2,
    .kernels  = MR_KERNELS(MR_CPU_ONE(eigh_v2, MR_FLOATS32)),
    .state_bytes = sizeof(state), .init = init_eigh,
    .examples = MR_EXAMPLES("[[3, 0], [0, 1]] -> [1, 3], [[0, 1], [1, 0]]"));

MR_OP(SelfAdjointEig,
    .doc      = "eigenvalues, ascending, as the first row, and eigenvectors, as columns of the "
                "rows "
                "below, of symmetric matrices",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {double, float, half}",
    .deprecated = 11, .deprecation = "Use SelfAdjointEigV2 instead",
    .shape    = shape_v1,
    .kernels  = MR_KERNELS(MR_CPU_ONE(eigh_v1, REALS_V1)),
    .examples = MR_EXAMPLES(
        "[[3, 0], [0, 1]] -> [[1, 3], [0, 1], [1, 0]]", "shape(0,0) -> shape(1,0)",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal"));

MR_OP(BatchSelfAdjointEig,
    .doc      = "SelfAdjointEig of several matrices",
    .sig      = "input: T -> output: T",
    .attrs    = "T: {double, float}",
    .deprecated = 11, .deprecation = "Use SelfAdjointEigV2 instead",
    .shape    = shape_v1,
    .kernels  = MR_KERNELS(MR_CPU_ONE(eigh_v1, MR_FLOATS32)),
    .examples = MR_EXAMPLES("[[[3, 0], [0, 1]]] -> [[[1, 3], [0, 1], [1, 0]]]"));
