/* ops/linalg/eig.c -- Eig: eigenvalues and eigenvectors of any square matrices, as complex numbers. */
#include "ops/linalg/decompose.h"
#include "ops/linalg/emit.h"
#include "ops/linalg/schur.h"
#include "run/scratch.h"

typedef struct state {
    bool vectors;
} state;

static mr_status *init_eig(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "compute_v", &((state *)s)->vectors);
}

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *a;
    mr_tensor *e, *v;
    int64_t n;
    bool vectors;
} job;

/* Matrix i, by LAPACK in the type of the tensor or by schur.c in complex128. */
static mr_status *eig_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    const mr_run *r = j->base.r;
    int64_t n = j->n;
    bool lapack = mr_lapack_suits(MR_DECOMPOSE_EIG, j->a, i * n * n, n, n), ok;
    mr_dtype type = lapack ? (mr_dtype)j->a->dtype : MR_COMPLEX128;
    mr_dtype full = type == MR_FLOAT || type == MR_COMPLEX64 ? MR_COMPLEX64 : MR_COMPLEX128;
    void *a = NULL, *e = NULL, *v = NULL;
    MR_GO(mr_unpack_as(r, j->a, i * n * n, n * n, type, &a));
    MR_GO(mr_matrix_room(r, full, n, 1, &e));
    if (j->vectors)
        MR_GO(mr_matrix_room(r, full, n, n, &v));
    MR_GO(lapack ? mr_eig_by_lapack(r, type, n, a, e, v, &ok) : mr_eig(r, n, a, e, v, &ok));
    if (!ok)
        MR_GO(mr_invalid("Eigen decomposition was not successful. The input might not be valid."));
    mr_repack(e, full, n, j->e, i * n);
    if (j->vectors)
        mr_repack(v, full, n * n, j->v, i * n * n);
out:
    mr_scratch_free(a);
    mr_scratch_free(e);
    mr_scratch_free(v);
    return st;
}

static mr_status *run_eig(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0);
    MR_TRY(mr_in_square_matrices(r, 0));
    job j = {.a = a, .n = mr_cols(a), .vectors = ((state *)r->state)->vectors};
    MR_TRY(mr_run_output(r, 0, a->rank - 1, a->dims, &j.e));
    MR_TRY(j.vectors ? mr_run_output(r, 1, a->rank, a->dims, &j.v)
                     : mr_run_output(r, 1, 1, (int64_t[]){0}, &j.v));
    if (a->n == 0)
        return NULL;
    double n = (double)j.n;
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = eig_one};
    return mr_matrix_job_run(&j.base, mr_matrix_count(a), 60 * n * n * n);
}

static mr_status *infer_eig(mr_infer *c)
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

/* V^-H M V^H, in the type of A. */
static void set_gradient(mr_grad *g, mr_out v, mr_out m)
{
    mr_out vh = mr_mat_adjoint(g, v);
    mr_out da = mr_emit(g->s, "MatrixSolve", vh, mr_mat_mul(g, m, vh));
    if (!mr_scope_ok(g->s))
        return;
    mr_dtype type = mr_dtype_base(mr_out_type(mr_xi(g, 0)));
    if (type != mr_dtype_base(mr_out_type(da)))
        da = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}), da);
    mr_dxi(g, 0, da);
}

/* M = de + conj(F) o (V^H dV - V^H V Re diag(V^H dV)): vectors keep their length of 1. */
static void eig_backward(mr_grad *g)
{
    bool vectors = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "compute_v", &vectors));
    mr_out de = mr_emit(g->s, "MatrixDiag", mr_dyi(g, 0));
    if (!vectors) {
        mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(mr_yi(g, 0))));
        mr_out all = mr_emit_with(g->s, "Eig", MR_ATTRS({"Tout", type}), mr_xi(g, 0));
        set_gradient(g, mr_nth(all, 1), de);
        return;
    }
    mr_out v = mr_yi(g, 1), vdv = mr_mat_h_mul(g, v, mr_dyi(g, 1));
    mr_out lengths =
        mr_emit(g->s, "MatrixDiag", mr_real_part(g, mr_emit(g->s, "MatrixDiagPart", vdv)));
    mr_out free = mr_sub(g, vdv, mr_mat_mul(g, mr_mat_h_mul(g, v, v), lengths));
    mr_out gaps = mr_conj(g, mr_mat_gaps(g, mr_yi(g, 0)));
    set_gradient(g, v, mr_add(g, de, mr_mul(g, gaps, free)));
}

#define TYPES(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)

MR_OP(Eig,
    .doc      = "eigenvalues and eigenvectors, as columns of length 1, of square matrices",
    .sig      = "input: T -> e: Tout, v: Tout",
    .attrs    = "compute_v: bool = true; T: {float, double, complex64, complex128}; "
                "Tout: {complex64, complex128}",
    .key      = "T",
    .shape    = infer_eig,
    .grad     = eig_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_eig, TYPES)),
    .state_bytes = sizeof(state), .init = init_eig,
    .examples = MR_EXAMPLES(
        "Tout=complex64 nograd: [[2, 0], [0, 3]] -> [2, 3], [[1, 0], [0, 1]]",
        "Tout=complex128 nograd compute_v=false: [[0, -1], [1, 0]] -> [?, ?], shape(0)",
        "T=complex128 Tout=complex128 compute_v=false: [[1, 2], [0, 3i]] -> [1, 3i], shape(0)",
        "T=double Tout=complex128 compute_v=false: [[1, 2], [0, 4]] -> [1, 4], shape(0)",
        "T=float Tout=complex64 nograd: [[[5]]] -> [[5]], [[[1]]]",
        "Tout=complex64 nograd: shape(0,0) -> shape(0), shape(0,0)",
        "Tout=complex64: shape(0,2,2) -> shape(0,2), shape(0,2,2)",
        "T=float Tout=complex64 nograd: [[nan]] -> !INVALID_ARGUMENT Eigen decomposition was not "
        "successful",
        "Tout=complex64: [[1, 2]] -> !INVALID_ARGUMENT must be equal"));
