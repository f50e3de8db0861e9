/* ops/linalg/qr.c -- Qr: factors matrices into an orthogonal one and an upper triangle. */
#include "base/memory.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/emit.h"
#include "run/scratch.h"

typedef struct state {
    bool full;
} state;

static mr_status *init_qr(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "full_matrices", &((state *)s)->full);
}

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *a;
    mr_tensor *q, *r;
    int64_t m, n, k; /* A is m x n, Q m x k, R k x n */
} job;

static mr_status *qr_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    void *a = NULL, *q = NULL;
    const mr_decompose *d = mr_decompose_for(MR_DECOMPOSE_QR, j->a, i * j->m * j->n, j->m, j->n);
    mr_dtype full = d->type;
    MR_GO(mr_unpack_as(j->base.r, j->a, i * j->m * j->n, j->m * j->n, full, &a));
    MR_GO(mr_matrix_room(j->base.r, full, j->m, j->k, &q));
    MR_GO(d->qr(j->base.r, j->m, j->n, j->k, a, q));
    mr_repack(q, full, j->m * j->k, j->q, i * j->m * j->k);
    mr_repack(a, full, j->k * j->n, j->r, i * j->k * j->n);
out:
    mr_scratch_free(a);
    mr_scratch_free(q);
    return st;
}

static mr_status *run_qr(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0);
    mr_shape shape;
    MR_TRY(mr_in_matrices(r, 0));
    job j = {.a = a, .m = mr_rows(a), .n = mr_cols(a)};
    j.k = ((state *)r->state)->full ? j.m : MR_MIN(j.m, j.n);
    mr_shape_set(&shape, a->rank, a->dims);
    shape.dims[a->rank - 1] = j.k;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &j.q));
    shape.dims[a->rank - 2] = j.k;
    shape.dims[a->rank - 1] = j.n;
    MR_TRY(mr_run_output(r, 1, shape.rank, shape.dims, &j.r));
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = qr_one};
    if (j.q->n == 0 && j.r->n == 0)
        return NULL;
    return mr_matrix_job_run(&j.base, mr_matrix_count(a),
                             4.0 * (double)j.m * (double)j.n * (double)j.k);
}

static mr_status *infer_qr(mr_infer *c)
{
    const mr_pshape *a;
    bool full;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &a));
    MR_TRY(mr_node_get_bool(c->node, "full_matrices", &full));
    if (a->rank < 0)
        return NULL;
    int64_t m = mr_infer_dim(a, -2), n = mr_infer_dim(a, -1);
    int64_t k = full ? m : m < 0 || n < 0 ? -1 : MR_MIN(m, n);
    const mr_pshape *front = mr_infer_sub(c, a, 0, -2);
    c->out[0] = mr_infer_concat(c, front, mr_pshape_matrix(c->arena, m, k));
    c->out[1] = mr_infer_concat(c, front, mr_pshape_matrix(c->arena, k, n));
    return NULL;
}

/* ---- gradient ---- */

/* For Q as wide as R: dA = Q (dR + tril(X) R^-H) + (dQ - Q Q^H dQ) R^-H, where X is Q^H dQ + R dR^H minus its
 * adjoint. For complex numbers the diagonal of R is real, which adds a term. */
static mr_out square_backward(mr_grad *g, mr_out q, mr_out r, mr_out dq, mr_out dr)
{
    mr_out qdq = mr_mat_h_mul(g, q, dq), rdr = mr_mat_mul_h(g, r, dr);
    mr_out x =
        mr_add(g, mr_sub(g, qdq, mr_mat_adjoint(g, qdq)), mr_sub(g, rdr, mr_mat_adjoint(g, rdr)));
    mr_out lower = mr_mat_over_upper_h(g, mr_mat_band(g, x, -1, 0), r);
    mr_out da = mr_mat_mul(g, q, mr_add(g, dr, lower));
    da = mr_add(g, da, mr_mat_over_upper_h(g, mr_sub(g, dq, mr_mat_mul(g, q, qdq)), r));
    if (!mr_scope_ok(g->s) || !mr_dtype_is_complex(mr_dtype_base(mr_out_type(q))))
        return da;
    mr_out diagonal = mr_emit(g->s, "MatrixDiagPart", mr_sub(g, rdr, mr_mat_adjoint(g, qdq)));
    mr_out turn = mr_emit(g->s, "MatrixDiag", mr_sub(g, diagonal, mr_real_part(g, diagonal)));
    return mr_add(g, da, mr_mat_over_upper_h(g, mr_mat_mul_h(g, q, turn), r));
}

/* A = [X Y], R = [U V] with U square: Y contributes through Q V = Y. */
static void qr_backward(mr_grad *g)
{
    mr_out q = mr_yi(g, 0), r = mr_yi(g, 1), dq = mr_dyi(g, 0), dr = mr_dyi(g, 1);
    const mr_pshape *a = mr_out_shape(mr_xi(g, 0));
    bool full = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "full_matrices", &full));
    if (a->rank < 2 || mr_infer_dim(a, -2) < 0 || mr_infer_dim(a, -1) < 0) {
        mr_grad_fail(g, MR_UNIMPLEMENTED, "QrGrad not implemented with dynamic shapes.");
        return;
    }
    int64_t m = mr_infer_dim(a, -2), n = mr_infer_dim(a, -1);
    if (m > n && full) {
        mr_grad_fail(g, MR_UNIMPLEMENTED,
                     "QrGrad not implemented when nrows > ncols and full_matrices is true.");
        return;
    }
    if (m >= n) {
        mr_dxi(g, 0, square_backward(g, q, r, dq, dr));
        return;
    }
    mr_out y = mr_mat_columns(g, mr_xi(g, 0), m, -1), dv = mr_mat_columns(g, dr, m, -1);
    mr_out dx = square_backward(g, q, mr_mat_columns(g, r, 0, m),
                                mr_add(g, dq, mr_mat_mul_h(g, y, dv)), mr_mat_columns(g, dr, 0, m));
    mr_dxi(g, 0, mr_emit(g->s, "ConcatV2", dx, mr_mat_mul(g, q, dv), mr_const_i32(g->s, -1)));
}

MR_OP(Qr,
    .doc      = "Q and R with A = Q R, Q^H Q = 1 and R an upper triangle; with full_matrices Q is "
                "square",
    .sig      = "input: T -> q: T, r: T",
    .attrs    = "full_matrices: bool = false; T: {double, float, half, complex64, complex128}",
    .key      = "T",
    .shape    = infer_qr,
    .grad     = qr_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_qr, MR_FIELDS)),
    .state_bytes = sizeof(state), .init = init_qr,
    .examples = MR_EXAMPLES(
        "[[3, 1], [4, 2]] -> [[-0.6, -0.8], [-0.8, 0.6]], [[-5, -2.2], [0, 0.4]]",
        "[[3], [4]] -> [[-0.6], [-0.8]], [[-5]]",
        "nograd full_matrices=true: [[3], [4]] -> [[-0.6, -0.8], [-0.8, 0.6]], [[-5], [0]]",
        "[[3, 1, 5], [4, 2, 5]] -> [[-0.6, -0.8], [-0.8, 0.6]], [[-5, -2.2, -7], [0, 0.4, -1]]",
        "nograd: [[3i], [4]] -> shape(2,1), shape(1,1)",
        "nograd: [[0, 0], [0, 0]] -> shape(2,2), [[0, 0], [0, 0]]",
        "T=double: [[[1, 2], [3, 4], [5, 7]], [[1, 0], [2, 1], [0, 1]]] -> shape(2,3,2), "
        "shape(2,2,2)",
        "shape(0,2,3) -> shape(0,2,2), shape(0,2,3)", "shape(0,3) -> shape(0,0), shape(0,3)",
        "shape(3,0) -> shape(3,0), shape(0,0)",
        "full_matrices=true nograd: shape(2,0) -> [[1, 0], [0, 1]], shape(2,0)",
        "[1] -> !INVALID_ARGUMENT at least rank 2"));
