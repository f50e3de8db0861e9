/* ops/linalg/tridiagonal.c -- matrices given by their three diagonals: TridiagonalMatMul, TridiagonalSolve; or by a
 * band next to the diagonal: BandedTriangularSolve.
 *
 * Everything is computed in complex128, because memory access dominates the time. The last element of the upper
 * diagonal and the first of the lower one are not read. */
#include <complex.h>
#include <math.h>

#include "ops/broadcast.h"
#include "ops/linalg/decompose.h"
#include "ops/linalg/emit.h"
#include "run/scratch.h"

typedef mr_c128 cx;

/* Converts n elements of a tensor of any type from `at` on to complex numbers in new memory. */
static mr_status *load_numbers(const mr_run *r, const mr_tensor *t, int64_t at, int64_t n, cx **out)
{
    void *p;
    MR_TRY(mr_matrix_room(r, MR_COMPLEX128, n, 1, &p));
    size_t size = mr_dtype_size((mr_dtype)t->dtype);
    mr_dtype_convert((mr_dtype)t->dtype, (char *)t->data + (size_t)at * size, MR_COMPLEX128, p, n,
                     false);
    *out = p;
    return NULL;
}

static void store_numbers(const cx *from, int64_t n, mr_tensor *t, int64_t at)
{
    size_t size = mr_dtype_size((mr_dtype)t->dtype);
    mr_dtype_convert(MR_COMPLEX128, from, (mr_dtype)t->dtype, (char *)t->data + (size_t)at * size,
                     n, false);
}

/* ---- TridiagonalMatMul ---- */

typedef struct job {
    mr_matrix_job base;
    const mr_tensor *diagonals[3]; /* upper, main, lower; or one with all three */
    const mr_tensor *rhs;
    mr_tensor *out;
    int64_t m, k;
    bool pivots, perturb;
} job;

static void add_row(cx f, const cx *x, cx *y, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        y[i] += f * x[i];
}

static mr_status *multiply_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    int64_t m = j->m, k = j->k;
    cx *d[3] = {NULL}, *x = NULL, *y = NULL;
    for (int n = 0; n < 3; n++)
        MR_GO(load_numbers(base->r, j->diagonals[n], i * m, m, &d[n]));
    MR_GO(load_numbers(base->r, j->rhs, i * m * k, m * k, &x));
    y = mr_scratch_zeroed(base->r, (size_t)(m * k), sizeof(cx));
    if (!y)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld x %lld numbers", (long long)m,
                       (long long)k));
    for (int64_t row = 0; row < m; row++) {
        add_row(d[1][row], x + row * k, y + row * k, k);
        if (row + 1 < m)
            add_row(d[0][row], x + (row + 1) * k, y + row * k, k);
        if (row > 0)
            add_row(d[2][row], x + (row - 1) * k, y + row * k, k);
    }
    store_numbers(y, m * k, j->out, i * m * k);
out:
    for (int n = 0; n < 3; n++)
        mr_scratch_free(d[n]);
    mr_scratch_free(x);
    mr_scratch_free(y);
    return st;
}

/* Checks that diagonal i is [..., 1, m] where rhs is [..., m, k]. */
static mr_status *check_diagonal(const mr_run *r, int i, const char *name)
{
    const mr_tensor *d = mr_in(r, i), *rhs = mr_in(r, 3);
    MR_TRY(mr_in_matrices(r, i));
    if (mr_rows(d) != 1 || mr_cols(d) != mr_rows(rhs) ||
        !mr_shape_eq(d->rank - 2, d->dims, rhs->rank - 2, rhs->dims))
        return mr_invalid(
            "%s must have one row of as many elements as rhs has rows, and the same outer "
            "dimensions: %s, %s",
            name, MR_TENSOR_SHAPE(d), MR_TENSOR_SHAPE(rhs));
    return NULL;
}

static mr_status *mat_mul(mr_run *r)
{
    static const char *const names[] = {"superdiag", "maindiag", "subdiag"};
    const mr_tensor *rhs = mr_in(r, 3);
    MR_TRY(mr_in_matrices(r, 3));
    job j = {.rhs = rhs, .m = mr_rows(rhs), .k = mr_cols(rhs)};
    for (int i = 0; i < 3; i++) {
        MR_TRY(check_diagonal(r, i, names[i]));
        j.diagonals[i] = mr_in(r, i);
    }
    MR_TRY(mr_run_output(r, 0, rhs->rank, rhs->dims, &j.out));
    if (rhs->n == 0)
        return NULL;
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = multiply_one};
    return mr_matrix_job_run(&j.base, mr_matrix_count(rhs), 10.0 * (double)j.m * (double)j.k);
}

static mr_status *mat_mul_shape(mr_infer *c)
{
    for (int i = 0; i < 3; i++) {
        const mr_pshape *d;
        MR_TRY(mr_infer_rank_at_least(c, c->in[i], 2, &d));
        MR_TRY(mr_infer_dim_is(mr_infer_dim(d, -2), 1));
    }
    return mr_infer_rank_at_least(c, c->in[3], 2, &c->out[0]);
}

/* Shifts the columns to the left (or to the right) by one, and fills with zeros. */
static mr_out shift_columns(mr_grad *g, mr_out a, bool left)
{
    mr_out part = left ? mr_mat_columns(g, a, 1, -1) : mr_mat_columns(g, a, 0, -1);
    if (!left) { /* all but the last */
        const int32_t begin[] = {0, 0}, end[] = {0, -1}, step[] = {1, 1};
        part = mr_emit_with(g->s, "StridedSlice", MR_ATTRS({"ellipsis_mask", mr_a_int(1)}), a,
                            mr_const_vec_i32(g->s, 2, begin), mr_const_vec_i32(g->s, 2, end),
                            mr_const_vec_i32(g->s, 2, step));
    }
    mr_out zero = mr_zeros_like(g, mr_mat_columns(g, a, 0, 1)), axis = mr_const_i32(g->s, -1);
    return left ? mr_emit(g->s, "ConcatV2", part, zero, axis)
                : mr_emit(g->s, "ConcatV2", zero, part, axis);
}

/* The sum over rows of x o y, as one row. */
static mr_out row_sum(mr_grad *g, mr_out x, mr_out y)
{
    return mr_emit_with(g->s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), mr_mul(g, x, y),
                        mr_const_i32(g->s, -2));
}

static void mat_mul_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), x = mr_mat_adjoint(g, mr_xi(g, 3)), turned = mr_mat_turn(g, dy);
    mr_dxi(g, 0, row_sum(g, shift_columns(g, x, true), turned));
    mr_dxi(g, 1, row_sum(g, x, turned));
    mr_dxi(g, 2, row_sum(g, shift_columns(g, x, false), turned));
    mr_out upper = shift_columns(g, mr_conj(g, mr_xi(g, 2)), true),
           lower = shift_columns(g, mr_conj(g, mr_xi(g, 0)), false);
    mr_dxi(g, 3, mr_emit(g->s, "TridiagonalMatMul", upper, mr_conj(g, mr_xi(g, 1)), lower, dy));
}

#define TYPES(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define ATTR_T "T: {double, float, complex64, complex128}"

MR_OP(TridiagonalMatMul,
    .doc      = "products of matrices, of which three diagonals are given, and others",
    .sig      = "superdiag: T, maindiag: T, subdiag: T, rhs: T -> output: T",
    .attrs    = ATTR_T,
    .shape    = mat_mul_shape,
    .grad     = mat_mul_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(mat_mul, TYPES)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 9]], [[3, 4, 5]], [[9, 6, 7]], [[1], [2], [3]] -> [[5], [20], [29]]",
        "[[9]], [[3]], [[9]], [[2, 4]] -> [[6, 12]]",
        "[[1i, 9]], [[1, 2]], [[9, 3]], [[1], [1i]] -> [[0], [3+2i]]",
        "[[[1, 9]], [[0, 9]]], [[[1, 1]], [[2, 2]]], [[[9, 1]], [[9, 0]]], [[[1], [2]], [[3], "
        "[4]]] -> [[[3], [3]], [[6], [8]]]",
        "shape(1,0), shape(1,0), shape(1,0), shape(0,2) -> shape(0,2)",
        "[[1, 2]], [[1]], [[1]], [[1]] -> !INVALID_ARGUMENT superdiag must have one row",
        "[1], [[1]], [[1]], [[1]] -> !INVALID_ARGUMENT at least rank 2"));

/* ---- TridiagonalSolve ---- */

typedef struct state {
    bool pivots, perturb;
} state;

static mr_status *init_solve(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(mr_node_get_bool(m->node, "partial_pivoting", &s->pivots));
    MR_TRY(mr_node_get_bool(m->node, "perturb_singular", &s->perturb));
    if (s->perturb && !s->pivots)
        return mr_invalid("perturb_singular requires partial_pivoting.");
    return NULL;
}

static double one_norm(cx x) { return fabs(creal(x)) + fabs(cimag(x)); }

/* Replaces a pivot of 0 by a number that is small compared with the matrix, if that is allowed. */
static mr_status *check_pivot(const job *j, cx *pivot, double least)
{
    if (*pivot != 0)
        return NULL;
    if (!j->perturb)
        return mr_invalid("%s", j->pivots
                                    ? "The matrix is not invertible."
                                    : "The Thomas algorithm failed: a pivot is zero. Try setting "
                                      "partial_pivoting=True.");
    *pivot = least;
    return NULL;
}

static void swap_rows(cx *x, cx *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        cx t = x[i];
        x[i] = y[i];
        y[i] = t;
    }
}

/* Eliminates row by row: u[3 i ..] become the diagonal and two entries to its right; b is transformed along. */
static mr_status *eliminate_rows(const job *j, const cx *d, cx *u, cx *b)
{
    int64_t m = j->m, k = j->k;
    const cx *upper = d, *main_ = d + m, *lower = d + 2 * m;
    double top = 0;
    for (int64_t i = 0; i < 3 * m; i++)
        top = fmax(top, one_norm(d[i]));
    double least = top > 0 ? top * 0x1p-52 : 0x1p-52;
    u[0] = main_[0];
    u[1] = m > 1 ? upper[0] : 0;
    u[2] = 0;
    for (int64_t i = 0; i + 1 < m; i++) {
        cx *row = u + 3 * i, *next = row + 3;
        cx below[3] = {lower[i + 1], main_[i + 1], i + 2 < m ? upper[i + 1] : 0};
        if (j->pivots && one_norm(below[0]) > one_norm(row[0])) {
            swap_rows(row, below, 3);
            swap_rows(b + i * k, b + (i + 1) * k, k);
        }
        MR_TRY(check_pivot(j, &row[0], least));
        cx f = below[0] / row[0];
        next[0] = below[1] - f * row[1];
        next[1] = below[2] - f * row[2];
        next[2] = 0;
        add_row(-f, b + i * k, b + (i + 1) * k, k);
    }
    return check_pivot(j, &u[3 * (m - 1)], least);
}

static void substitute_back(const job *j, const cx *u, cx *b)
{
    int64_t m = j->m, k = j->k;
    for (int64_t i = m - 1; i >= 0; i--) {
        if (i + 1 < m)
            add_row(-u[3 * i + 1], b + (i + 1) * k, b + i * k, k);
        if (i + 2 < m)
            add_row(-u[3 * i + 2], b + (i + 2) * k, b + i * k, k);
        for (int64_t c = 0; c < k; c++)
            b[i * k + c] /= u[3 * i];
    }
}

static mr_status *solve_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    job *j = (job *)base;
    cx *d = NULL, *b = NULL;
    void *u = NULL;
    MR_GO(load_numbers(base->r, j->diagonals[0], i * 3 * j->m, 3 * j->m, &d));
    MR_GO(load_numbers(base->r, j->rhs, i * j->m * j->k, j->m * j->k, &b));
    MR_GO(mr_matrix_room(base->r, MR_COMPLEX128, j->m, 3, &u));
    d[j->m - 1] = d[2 * j->m] = 0; /* not part of the matrix */
    MR_GO(eliminate_rows(j, d, u, b));
    substitute_back(j, u, b);
    store_numbers(b, j->m * j->k, j->out, i * j->m * j->k);
out:
    mr_scratch_free(d);
    mr_scratch_free(b);
    mr_scratch_free(u);
    return st;
}

static mr_status *run_solve(mr_run *r)
{
    const mr_tensor *d = mr_in(r, 0), *rhs = mr_in(r, 1);
    const state *s = r->state;
    MR_TRY(mr_in_matrices(r, 0));
    MR_TRY(mr_in_matrices(r, 1));
    if (mr_rows(d) != 3)
        return mr_invalid("Expected diagonals to have 3 rows, got shape %s", MR_TENSOR_SHAPE(d));
    if (mr_cols(d) != mr_rows(rhs) || !mr_shape_eq(d->rank - 2, d->dims, rhs->rank - 2, rhs->dims))
        return mr_invalid(
            "The length of diagonals must be equal to the rows of rhs, and the outer dimensions "
            "must be the same: %s, %s",
            MR_TENSOR_SHAPE(d), MR_TENSOR_SHAPE(rhs));
    job j = {.diagonals = {d},
             .rhs = rhs,
             .m = mr_rows(rhs),
             .k = mr_cols(rhs),
             .pivots = s->pivots,
             .perturb = s->perturb};
    MR_TRY(mr_run_output(r, 0, rhs->rank, rhs->dims, &j.out));
    if (rhs->n == 0)
        return NULL;
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = solve_one};
    return mr_matrix_job_run(&j.base, mr_matrix_count(rhs), 20.0 * (double)j.m * (double)j.k);
}

static mr_status *solve_shape(mr_infer *c)
{
    const mr_pshape *d, *rhs, *front;
    int64_t m;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &d));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &rhs));
    MR_TRY(mr_infer_merge(c, mr_infer_sub(c, d, 0, -2), mr_infer_sub(c, rhs, 0, -2), &front));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(d, -2), 3));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(d, -1), mr_infer_dim(rhs, -2), &m));
    c->out[0] = mr_infer_concat(c, front, mr_pshape_matrix(c->arena, m, mr_infer_dim(rhs, -1)));
    return NULL;
}

/* Row i of the diagonals. */
static mr_out diagonal_row(mr_grad *g, mr_out d, int i)
{
    const int32_t begin[] = {0, i, 0}, end[] = {0, i + 1, 0}, step[] = {1, 1, 1};
    return mr_emit_with(g->s, "StridedSlice",
                        MR_ATTRS({"ellipsis_mask", mr_a_int(1)}, {"begin_mask", mr_a_int(4)},
                                 {"end_mask", mr_a_int(4)}),
                        d, mr_const_vec_i32(g->s, 3, begin), mr_const_vec_i32(g->s, 3, end),
                        mr_const_vec_i32(g->s, 3, step));
}

/* dB = A^-H dX, dA = -dB X^H, of which the three diagonals are taken. */
static void solve_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out d = mr_conj(g, mr_xi(g, 0)), axis = mr_const_i32(s, -2);
    mr_out turned = mr_emit(s, "ConcatV2", shift_columns(g, diagonal_row(g, d, 2), true), diagonal_row(g, d, 1),
                            shift_columns(g, diagonal_row(g, d, 0), false), axis);
    const mr_out in[] = {turned, mr_dyi(g, 0)};
    mr_out db = mr_emit_like(g, "TridiagonalSolve", "partial_pivoting perturb_singular", in, 2);
    mr_out x = mr_mat_adjoint(g, mr_yi(g, 0)), rows = mr_mat_turn(g, db);
    mr_out da = mr_emit(s, "ConcatV2", row_sum(g, shift_columns(g, x, true), rows), row_sum(g, x, rows),
                        row_sum(g, shift_columns(g, x, false), rows), axis);
    mr_dxi(g, 0, mr_emit(s, "Neg", da));
    mr_dxi(g, 1, db);
}

MR_OP(TridiagonalSolve,
    .doc      = "X with A X = B for matrices A of which three diagonals are given: above, main, "
                "below",
    .sig      = "diagonals: T, rhs: T -> output: T",
    .attrs    = "partial_pivoting: bool = true; perturb_singular: bool = false; " ATTR_T,
    .key      = "T",
    .shape    = solve_shape,
    .grad     = solve_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_solve, TYPES)),
    .state_bytes = sizeof(state), .init = init_solve,
    .examples = MR_EXAMPLES(
        "[[1, 2, 9], [3, 4, 5], [9, 6, 7]], [[5], [20], [29]] -> [[1], [2], [3]]",
        "partial_pivoting=false: [[1, 2, 9], [3, 4, 5], [9, 6, 7]], [[5], [20], [29]] -> [[1], "
        "[2], [3]]",
        "[[1, 9], [0, 0], [9, 2]], [[3, 1], [4, 2]] -> [[2, 1], [3, 1]]",
        "[[9], [4], [9]], [[8, 4]] -> [[2, 1]]",
        "[[1i, 9], [1, 2], [9, 3]], [[0], [3+2i]] -> [[1], [1i]]",
        "[[[9]  , [4], [9]], [[9], [2], [9]]], [[[8]], [[8]]] -> [[[2]], [[4]]]",
        "shape(3,0), shape(0,2) -> shape(0,2)",
        "[[0, 0], [0, 1], [0, 0]], [[1], [1]] -> !INVALID_ARGUMENT The matrix is not invertible.",
        "partial_pivoting=false: [[1, 0], [0, 1], [0, 1]], [[1], [1]] -> !INVALID_ARGUMENT "
        "partial_pivoting",
        "nograd perturb_singular=true: [[0, 0], [0, 1], [0, 0]], [[0], [1]] -> [[0], [1]]",
        "perturb_singular=true partial_pivoting=false: [[9], [4], [9]], [[8]] -> "
        "!INVALID_ARGUMENT perturb_singular requires",
        "[[1], [1]], [[1]] -> !INVALID_ARGUMENT Dimension must be 3 but is 2"));

/* ---- BandedTriangularSolve ---- */

typedef struct triangle_state {
    bool lower, adjoint;
} triangle_state;

static mr_status *init_triangle(mr_make *m, void *state_)
{
    triangle_state *s = state_;
    MR_TRY(mr_node_get_bool(m->node, "lower", &s->lower));
    return mr_node_get_bool(m->node, "adjoint", &s->adjoint);
}

typedef struct banded_job {
    mr_matrix_job base;
    const mr_tensor *a, *b;
    mr_tensor *out;
    mr_broadcast walk;
    int64_t bands, m, k;
    triangle_state s;
} banded_job;

/* Entry (row, col) of A: bands are stored by row; the main one is the first of a lower triangle and the last of an
 * upper one. */
static cx banded_entry(const banded_job *j, const cx *a, int64_t row, int64_t col)
{
    int64_t band = j->s.lower ? row - col : j->bands - 1 - (col - row);
    return a[band * j->m + row];
}

static void substitute_banded(const banded_job *j, const cx *a, cx *x)
{
    bool forward = j->s.lower != j->s.adjoint;
    for (int64_t step = 0; step < j->m; step++) {
        int64_t i = forward ? step : j->m - 1 - step;
        for (int64_t d = 1; d < j->bands && d <= step; d++) {
            int64_t o = forward ? i - d : i + d;
            cx f = j->s.adjoint ? conj(banded_entry(j, a, o, i)) : banded_entry(j, a, i, o);
            add_row(-f, x + o * j->k, x + i * j->k, j->k);
        }
        cx pivot = j->s.adjoint ? conj(banded_entry(j, a, i, i)) : banded_entry(j, a, i, i);
        for (int64_t c = 0; c < j->k; c++)
            x[i * j->k + c] /= pivot;
    }
}

static mr_status *banded_one(mr_matrix_job *base, int64_t i)
{
    mr_status *st = NULL;
    banded_job *j = (banded_job *)base;
    cx *a = NULL, *x = NULL;
    int64_t size = j->bands * j->m, right = j->m * j->k;
    MR_GO(load_numbers(base->r, j->a, mr_broadcast_offset(&j->walk, 0, i) * size, size, &a));
    MR_GO(load_numbers(base->r, j->b, mr_broadcast_offset(&j->walk, 1, i) * right, right, &x));
    substitute_banded(j, a, x);
    store_numbers(x, right, j->out, i * right);
out:
    mr_scratch_free(a);
    mr_scratch_free(x);
    return st;
}

static mr_status *run_banded(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_shape shape;
    MR_TRY(mr_in_matrices(r, 0));
    MR_TRY(mr_in_matrices(r, 1));
    banded_job j = {.a = a, .b = b, .bands = mr_rows(a), .m = mr_cols(a), .k = mr_cols(b),
                    .s = *(triangle_state *)r->state};
    if (mr_rows(b) != j.m)
        return mr_invalid("Input matrix and rhs are incompatible: %s, %s", MR_TENSOR_SHAPE(a),
                          MR_TENSOR_SHAPE(b));
    if (j.bands < 1)
        return mr_invalid("the matrix must have at least one band, not %s", MR_TENSOR_SHAPE(a));
    mr_broadcast_init(&j.walk);
    MR_TRY(mr_broadcast_add(&j.walk, a->rank - 2, a->dims));
    MR_TRY(mr_broadcast_add(&j.walk, b->rank - 2, b->dims));
    MR_TRY(mr_broadcast_collapse(&j.walk));
    mr_shape_set(&shape, j.walk.shape.rank, j.walk.shape.dims);
    MR_TRY(mr_shape_push(&shape, j.m));
    MR_TRY(mr_shape_push(&shape, j.k));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &j.out));
    if (j.out->n == 0)
        return NULL;
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of(MR_DOUBLE), .one = banded_one};
    return mr_matrix_job_run(&j.base, j.walk.n, 4.0 * (double)j.m * (double)j.k * (double)j.bands);
}

static mr_status *banded_shape(mr_infer *c)
{
    const mr_pshape *a, *b, *front;
    int64_t m;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &a));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(a, -1), mr_infer_dim(b, -2), &m));
    MR_TRY(mr_infer_broadcast(c, mr_infer_sub(c, a, 0, -2), mr_infer_sub(c, b, 0, -2), &front));
    c->out[0] = mr_infer_concat(c, front, mr_pshape_matrix(c->arena, m, mr_infer_dim(b, -1)));
    return NULL;
}

/* shape[:-2] */
static mr_out batch_dims(mr_grad *g, mr_out shape)
{
    mr_scope *s = g->s;
    return mr_emit(s, "StridedSlice", shape, mr_const_vec_i32(s, 1, (int32_t[]){0}),
                   mr_const_vec_i32(s, 1, (int32_t[]){-2}), mr_const_vec_i32(s, 1, (int32_t[]){1}));
}

/* The bands of the whole gradient; their number is computed in the graph. */
static mr_out bands_of(mr_grad *g, mr_out da, mr_out shape, bool lower)
{
    mr_scope *s = g->s;
    mr_out at = mr_const_vec_i32(s, 1, (int32_t[]){-2}),
           end = mr_const_vec_i32(s, 1, (int32_t[]){-1});
    mr_out count = mr_emit_with(s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}),
                                shape, at, end, mr_const_vec_i32(s, 1, (int32_t[]){1}));
    mr_out zero = mr_const_i32(s, 0), one = mr_const_i32(s, 1);
    mr_out k = lower ? mr_emit(s, "Pack", mr_sub(g, one, count), zero)
                     : mr_emit(s, "Pack", zero, mr_sub(g, count, one));
    return mr_emit_with(s, "MatrixDiagPartV3", MR_ATTRS({"align", mr_a_str("LEFT_RIGHT")}), da, k,
                        mr_scalar_like(g, 0, da));
}

static void banded_backward(mr_grad *g)
{
    bool lower = true, adjoint = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "lower", &lower));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "adjoint", &adjoint));
    mr_out db =
        mr_emit_with(g->s, "BandedTriangularSolve",
                     MR_ATTRS({"lower", mr_a_bool(lower)}, {"adjoint", mr_a_bool(!adjoint)}),
                     mr_xi(g, 0), mr_dyi(g, 0));
    mr_out x = mr_yi(g, 0), a = mr_shape_of(g, mr_xi(g, 0)), b = mr_shape_of(g, mr_xi(g, 1));
    mr_out da = mr_emit(g->s, "Neg", adjoint ? mr_mat_mul_h(g, x, db) : mr_mat_mul_h(g, db, x));
    da = bands_of(g, da, a, lower);
    /* a single band has lost its dimension: the shape restores it */
    mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", batch_dims(g, a), batch_dims(g, b));
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", da, mr_nth(axes, 0)), a));
    mr_dxi(g, 1, mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", db, mr_nth(axes, 1)), b));
}

MR_OP(BandedTriangularSolve,
    .doc      = "X with A X = B, or A^H X = B, for triangles A given by their bands, one a row; "
                "the dimensions "
                "before broadcast",
    .sig      = "matrix: T, rhs: T -> output: T",
    .attrs    = "lower: bool = true; adjoint: bool = false; T: {double, float, half, complex64, "
                "complex128}",
    .key      = "T",
    .shape    = banded_shape,
    .grad     = banded_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_banded, MR_FIELDS)),
    .state_bytes = sizeof(triangle_state), .init = init_triangle,
    .examples = MR_EXAMPLES(
        "[[2, 4, 5], [9, 1, 3]], [[2], [9], [16]] -> [[1], [2], [2]]",
        "lower=false: [[1, 3, 9], [2, 4, 5]], [[4], [14], [10]] -> [[1], [2], [2]]",
        "adjoint=true: [[2, 4, 5], [9, 1, 3]], [[4], [14], [10]] -> [[1], [2], [2]]",
        "lower=false adjoint=true: [[1, 3, 9], [2, 4, 5]], [[2], [9], [16]] -> [[1], [2], [2]]",
        "[[2, 4]], [[2, 4], [8, 4]] -> [[1, 2], [2, 1]]", "[[[2]], [[4]]], [[8]] -> [[[4]], [[2]]]",
        "[[1i, 2], [9, 1]], [[1], [1-1i]] -> [[-1i], [0.5]]",
        "T=float nograd: [[0]], [[1]] -> shape(1,1)",
        "nograd: shape(2,0), shape(0,3) -> shape(0,3)",
        "[[1, 2]], [[1]] -> !INVALID_ARGUMENT must be equal",
        "shape(0,2), [[1], [2]] -> !INVALID_ARGUMENT at least one band",
        "[1], [[1]] -> !INVALID_ARGUMENT at least rank 2"));
