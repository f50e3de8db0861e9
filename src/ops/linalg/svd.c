/* ops/linalg/svd.c -- Svd: singular values and vectors, and its old name. */
#include "base/memory.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/emit.h"
#include "run/scratch.h"

typedef struct state {
    bool vectors, full;
} state;

static mr_status *init_svd(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(mr_node_get_bool(m->node, "compute_uv", &s->vectors));
    return mr_node_get_bool(m->node, "full_matrices", &s->full);
}

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *a;
    mr_tensor *s, *u, *v;
    int64_t m, n, p, ku, kv;
    bool vectors;
} job;

static mr_status *svd_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    void *a = NULL, *s = NULL, *u = NULL, *v = NULL;
    const mr_decompose *d = mr_decompose_for(MR_DECOMPOSE_SVD, j->a, i * j->m * j->n, j->m, j->n);
    mr_dtype full = d->type;
    bool ok;
    MR_GO(mr_unpack_as(j->base.r, j->a, i * j->m * j->n, j->m * j->n, full, &a));
    MR_GO(mr_matrix_room(j->base.r, MR_DOUBLE, j->p, 1, &s));
    if (j->vectors) {
        MR_GO(mr_matrix_room(j->base.r, full, j->m, j->ku, &u));
        MR_GO(mr_matrix_room(j->base.r, full, j->n, j->kv, &v));
    }
    MR_GO(d->svd(j->base.r, j->m, j->n, a, s, j->ku, u, j->kv, v, &ok));
    if (!ok)
        MR_GO(mr_invalid("the singular values of a matrix of %lld x %lld do not converge",
                         (long long)j->m, (long long)j->n));
    mr_repack(s, MR_DOUBLE, j->p, j->s, i * j->p);
    if (j->vectors) {
        mr_repack(u, full, j->m * j->ku, j->u, i * j->m * j->ku);
        mr_repack(v, full, j->n * j->kv, j->v, i * j->n * j->kv);
    }
out:
    mr_scratch_free(a);
    mr_scratch_free(s);
    mr_scratch_free(u);
    mr_scratch_free(v);
    return st;
}

/* u and v: [..., rows, cols], or empty vectors. */
static mr_status *vectors_out(mr_run *r, int i, bool wanted, int64_t rows, int64_t cols,
                              mr_tensor **out)
{
    const mr_tensor *a = mr_in(r, 0);
    mr_shape shape;
    if (!wanted)
        return mr_run_output(r, i, 1, (int64_t[]){0}, out);
    mr_shape_set(&shape, a->rank, a->dims);
    shape.dims[a->rank - 2] = rows;
    shape.dims[a->rank - 1] = cols;
    return mr_run_output(r, i, shape.rank, shape.dims, out);
}

static mr_status *run_svd(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0);
    const state *s = r->state;
    mr_shape shape;
    MR_TRY(mr_in_matrices(r, 0));
    job j = {.a = a, .m = mr_rows(a), .n = mr_cols(a), .vectors = s->vectors};
    j.p = MR_MIN(j.m, j.n);
    j.ku = s->full ? j.m : j.p;
    j.kv = s->full ? j.n : j.p;
    mr_shape_set(&shape, a->rank - 1, a->dims);
    shape.dims[a->rank - 2] = j.p;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &j.s));
    MR_TRY(vectors_out(r, 1, j.vectors, j.m, j.ku, &j.u));
    MR_TRY(vectors_out(r, 2, j.vectors, j.n, j.kv, &j.v));
    if (j.s->n == 0 && j.u->n == 0 && j.v->n == 0)
        return NULL;
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = svd_one};
    return mr_matrix_job_run(&j.base, mr_matrix_count(a),
                             40.0 * (double)j.m * (double)j.n * (double)j.p);
}

static mr_status *infer_svd(mr_infer *c)
{
    const mr_pshape *a;
    bool vectors, full;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &a));
    MR_TRY(mr_node_get_bool(c->node, "compute_uv", &vectors));
    MR_TRY(mr_node_get_bool(c->node, "full_matrices", &full));
    if (!vectors) {
        mr_infer_out_vector(c, 1, 0);
        mr_infer_out_vector(c, 2, 0);
    }
    if (a->rank < 0)
        return NULL;
    int64_t m = mr_infer_dim(a, -2), n = mr_infer_dim(a, -1),
            p = m < 0 || n < 0 ? -1 : MR_MIN(m, n);
    const mr_pshape *front = mr_infer_sub(c, a, 0, -2);
    c->out[0] = mr_infer_concat(c, front, mr_pshape_vector(c->arena, p));
    if (vectors) {
        c->out[1] = mr_infer_concat(c, front, mr_pshape_matrix(c->arena, m, full ? m : p));
        c->out[2] = mr_infer_concat(c, front, mr_pshape_matrix(c->arena, n, full ? n : p));
    }
    return NULL;
}

/* ---- gradient ---- */

/* Without vectors: U diag(ds) V^H, for which they are computed now. */
static void values_backward(mr_grad *g)
{
    mr_out all = mr_emit(g->s, "Svd", mr_xi(g, 0));
    mr_out ds = mr_emit(g->s, "MatrixDiag", mr_real_part(g, mr_dyi(g, 0)));
    mr_dxi(g, 0, mr_mat_mul(g, mr_nth(all, 1), mr_mat_mul_h(g, ds, mr_nth(all, 2))));
}

typedef struct parts { /* of A, or of its adjoint if that is wider: m <= n */
    mr_out s, u, v, ds, du, dv;
    int64_t m, n;
    bool full;
} parts;

/* X + X^H */
static mr_out add_adjoint(mr_grad *g, mr_out x) { return mr_add(g, x, mr_mat_adjoint(g, x)); }

/* The part of V's gradient outside the space of its first m columns. */
static mr_out outside_part(mr_grad *g, const parts *p, mr_out v1, mr_out dv1)
{
    mr_out dv1h = mr_mat_adjoint(g, dv1);
    mr_out rest = mr_sub(g, dv1h, mr_mat_mul_h(g, mr_mat_mul(g, dv1h, v1), v1));
    if (p->full) {
        mr_out v2 = mr_mat_columns(g, p->v, p->m, -1), dv2 = mr_mat_columns(g, p->dv, p->m, -1);
        rest = mr_sub(g, rest, mr_mat_mul_h(g, mr_mat_h_mul(g, v1, dv2), v2));
    }
    mr_out inverse = mr_emit(g->s, "MatrixDiag", mr_safe_reciprocal(g, p->s));
    return mr_mat_mul(g, mr_mat_mul(g, p->u, inverse), rest);
}

/* Giles' formula: U (ds + (F o U^H dU + ..) S + S (F o V^H dV + ..)) V^H, F the inverse gaps of
 * s^2. */
static mr_out wide_backward(mr_grad *g, const parts *p)
{
    mr_out v1 = p->v, dv1 = p->dv;
    if (p->full && p->n > p->m) {
        v1 = mr_mat_columns(g, p->v, 0, p->m);
        dv1 = mr_mat_columns(g, p->dv, 0, p->m);
    }
    mr_out f = mr_mat_gaps(g, mr_mul(g, p->s, p->s)), s = mr_emit(g->s, "MatrixDiag", p->s);
    mr_out vdv = mr_mat_h_mul(g, v1, dv1);
    mr_out by_u = add_adjoint(g, mr_mul(g, f, mr_mat_h_mul(g, p->u, p->du)));
    mr_out by_v = add_adjoint(g, mr_mul(g, f, vdv));
    mr_out inner = mr_emit(g->s, "MatrixDiag", p->ds);
    inner = mr_add(g, inner, mr_add(g, mr_mat_mul(g, by_u, s), mr_mat_mul(g, s, by_v)));
    if (mr_scope_ok(g->s) && mr_dtype_is_complex(mr_dtype_base(mr_out_type(p->u)))) {
        /* u and v share their phases */
        mr_out d = mr_emit(g->s, "MatrixDiagPart", vdv);
        mr_out turn = mr_mul(g, mr_safe_reciprocal(g, p->s), mr_sub(g, mr_conj(g, d), d));
        inner = mr_add(g, inner,
                       mr_emit(g->s, "MatrixDiag", mr_mul(g, turn, mr_scalar_like(g, 0.5, d))));
    }
    mr_out da = mr_mat_mul(g, p->u, mr_mat_mul_h(g, inner, v1));
    return p->n > p->m ? mr_add(g, da, outside_part(g, p, v1, dv1)) : da;
}

static void svd_backward(mr_grad *g)
{
    bool vectors = false, full = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "compute_uv", &vectors));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "full_matrices", &full));
    if (!vectors) {
        values_backward(g);
        return;
    }
    const mr_pshape *a = mr_out_shape(mr_xi(g, 0));
    int64_t m = a->rank < 2 ? -1 : mr_infer_dim(a, -2), n = a->rank < 2 ? -1 : mr_infer_dim(a, -1);
    if (m < 0 || n < 0) {
        mr_grad_fail(g, MR_UNIMPLEMENTED, "SVD gradient has not been implemented for input with "
                                          "unknown inner matrix shape.");
        return;
    }
    if (full && (m - n > 1 || n - m > 1)) {
        mr_grad_fail(g, MR_UNIMPLEMENTED, "svd gradient is not implemented for abs(m - n) > 1 when "
                                          "full_matrices is True");
        return;
    }
    parts p = {mr_yi(g, 0), mr_yi(g, 1), mr_yi(g, 2), mr_real_part(g, mr_dyi(g, 0)), mr_dyi(g, 1),
               mr_dyi(g, 2), m, n, full};
    if (m > n)
        p = (parts){p.s, p.v, p.u, p.ds, p.dv, p.du, n, m, full};
    mr_out da = wide_backward(g, &p);
    mr_dxi(g, 0, m > n ? mr_mat_adjoint(g, da) : da);
}

MR_OP(Svd,
    .doc      = "A = U diag(s) V^H with s descending; with full_matrices U and V are square, "
                "without "
                "compute_uv they are empty",
    .sig      = "input: T -> s: T, u: T, v: T",
    .attrs    = "compute_uv: bool = true; full_matrices: bool = false; "
                "T: {double, float, half, complex64, complex128}",
    .key      = "T",
    .shape    = infer_svd,
    .grad     = svd_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_svd, MR_FIELDS)),
    .state_bytes = sizeof(state), .init = init_svd,
    .examples = MR_EXAMPLES(
        "compute_uv=false: [[3, 0], [0, 4]] -> [4, 3], shape(0), shape(0)",
        "nograd compute_uv=false: [[3i, 0], [0, -4]] -> [4, 3], shape(0), shape(0)",
        "compute_uv=false: [[1, 2], [3, 4], [5, 6]] -> [9.52551809, 0.51430058], shape(0), "
        "shape(0)",
        "T=double: [[1, 2], [3, 4]] -> [5.464985704219, 0.365966190626], shape(2,2), shape(2,2)",
        "T=double: [[1, 2], [3, 4], [5, 7]] -> shape(2), shape(3,2), shape(2,2)",
        "T=double: [[1, 2, 5], [3, 4, 1]] -> shape(2), shape(2,2), shape(3,2)",
        "T=double full_matrices=true nograd: [[1, 2], [3, 4], [5, 6]] -> shape(2), shape(3,3), "
        "shape(2,2)",
        "nograd: [[1, 2], [3, 4]] -> shape(2), shape(2,2), shape(2,2)",
        "nograd: [[0, 0], [0, 0]] -> [0, 0], shape(2,2), shape(2,2)",
        "nograd: [[[2]], [[5]]] -> [[2], [5]], shape(2,1,1), shape(2,1,1)",
        "shape(0,2,3) -> shape(0,2), shape(0,2,2), shape(0,3,2)",
        "shape(3,0) -> shape(0), shape(3,0), shape(0,0)",
        "full_matrices=true nograd: shape(2,0) -> shape(0), [[1, 0], [0, 1]], shape(0,0)",
        "T=double nograd compute_uv=false: [[1e200, 0], [0, 1e-200]] -> [1e200, 1e-200], "
        "shape(0), shape(0)",
        "T=float nograd compute_uv=false: [[nan, 0], [0, 1]] -> shape(2), shape(0), shape(0)",
        "[1] -> !INVALID_ARGUMENT at least rank 2"));

#define BATCH_TYPES(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
MR_OP(BatchSvd,
    .doc      = "Svd, by its old name",
    .sig      = "input: T -> s: T, u: T, v: T",
    .attrs    = "compute_uv: bool = true; full_matrices: bool = false; "
                "T: {double, float, complex64, complex128}",
    .key      = "T",
    .deprecated = 13, .deprecation = "Use Svd instead",
    .shape    = infer_svd,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_svd, BATCH_TYPES)),
    .state_bytes = sizeof(state), .init = init_svd,
    .examples = MR_EXAMPLES("compute_uv=false: [[3, 0], [0, 4]] -> [4, 3], shape(0), shape(0)"));
