/* ops/nn/gru_cell.c -- GRUBlockCell: one step of a gated recurrent unit, and its gradient.
 *
 *     [r, u] = sigmoid([x, h_prev] w_ru + b_ru)     c = tanh([x, r h_prev] w_c + b_c)
 *     h = u h_prev + (1 - u) c
 */
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/linalg/gemm.h"
#include "ops/maths.h"
#include "run/run.h"

enum { X, H_PREV, W_RU, W_C, B_RU, B_C, S_R, S_U, S_C, D_H, N_IN };
enum { OUT_R, OUT_U, OUT_C, OUT_H, N_OUT };
enum { D_X, D_H_PREV, D_C_BAR, D_RU_BAR, N_GRADS };

typedef struct sizes {
    int64_t batch, inputs, cells;
} sizes;

static mr_status *check_shape(const mr_run *r, int i, int rank, const int64_t *dims)
{
    const mr_tensor *t = mr_in(r, i);
    if (mr_shape_eq(t->rank, t->dims, rank, dims))
        return NULL;
    return mr_invalid("%s: input %d must have shape %s, got %s", r->node->def->name, i,
                      MR_SHAPE_TEXT(rank, dims), MR_TENSOR_SHAPE(t));
}

static mr_status *check_sizes(const mr_run *r, sizes *s)
{
    const mr_tensor *x = mr_in(r, X), *h = mr_in(r, H_PREV);
    int64_t most = INT64_C(1) << 40; /* so that sums and multiples of sizes fit */
    if (x->rank != 2 || h->rank != 2)
        return mr_invalid("x and h_prev must be 2D: %s and %s", MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(h));
    *s = (sizes){x->dims[0], x->dims[1], h->dims[1]};
    if (s->inputs > most || s->cells > most)
        return mr_invalid("x and h_prev are too wide: %s and %s", MR_TENSOR_SHAPE(mr_in(r, X)),
                          MR_TENSOR_SHAPE(mr_in(r, H_PREV)));
    const int64_t state[2] = {s->batch, s->cells}, rows = s->inputs + s->cells;
    const int64_t w_ru[2] = {rows, 2 * s->cells}, w_c[2] = {rows, s->cells};
    MR_TRY(check_shape(r, H_PREV, 2, state));
    MR_TRY(check_shape(r, W_RU, 2, w_ru));
    MR_TRY(check_shape(r, W_C, 2, w_c));
    MR_TRY(check_shape(r, B_RU, 1, &w_ru[1]));
    MR_TRY(check_shape(r, B_C, 1, &w_c[1]));
    for (int i = S_R; i < r->n_in; i++)
        MR_TRY(check_shape(r, i, 2, state));
    return NULL;
}

static const float *input_data(const mr_run *r, int i) { return mr_in(r, i)->data; }

/* c = a b, or a b^T if `turned`; if `plus`, the product is added to c. */
static mr_status *multiply_matrices(mr_run *r, int64_t m, int64_t n, int64_t k, const float *a,
                                    const float *b, bool turned, bool plus, float *c)
{
    mr_gemm g = {MR_FLOAT, m, n, k, .tb = turned, .plus = plus};
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g, .n_batch = 1, .a = a, .b = b, .c = c});
}

/* to = [x, h] w + b: x and h are multiplied with their own rows of w. */
static mr_status *compute_gates(mr_run *r, const sizes *s, const float *h, int w, int b, int64_t n,
                                float *to)
{
    for (int64_t row = 0; row < s->batch; row++)
        memcpy(to + row * n, input_data(r, b), sizeof(float) * (size_t)n);
    MR_TRY(multiply_matrices(r, s->batch, n, s->inputs, input_data(r, X), input_data(r, w), false, true, to));
    return multiply_matrices(r, s->batch, n, s->cells, h, input_data(r, w) + s->inputs * n, false, true, to);
}

/* ---- forward ---- */

static void split_gates(const sizes *s, const float *ru, const float *h, float *r_, float *u,
                        float *rh)
{
    for (int64_t i = 0; i < s->batch * s->cells; i++) {
        int64_t at = i / s->cells * 2 * s->cells + i % s->cells;
        r_[i] = mr_sigmoidf(ru[at]);
        u[i] = mr_sigmoidf(ru[at + s->cells]);
        rh[i] = r_[i] * h[i];
    }
}

static mr_status *gru_forward(mr_run *r)
{
    mr_status *st = NULL;
    sizes s;
    mr_tensor *out[N_OUT], *ru = NULL, *rh = NULL;
    MR_TRY(check_sizes(r, &s));
    const int64_t dims[2] = {s.batch, s.cells};
    for (int i = 0; i < N_OUT; i++)
        MR_TRY(mr_run_output(r, i, 2, dims, &out[i]));
    if (out[0]->n == 0)
        return NULL;
    MR_GO(mr_run_temp(r, MR_FLOAT, 2, (int64_t[]){s.batch, 2 * s.cells}, &ru));
    MR_GO(mr_run_temp(r, MR_FLOAT, 2, dims, &rh));
    const float *h_prev = input_data(r, H_PREV);
    float *u = out[OUT_U]->data, *c = out[OUT_C]->data, *h = out[OUT_H]->data;
    MR_GO(compute_gates(r, &s, h_prev, W_RU, B_RU, 2 * s.cells, ru->data));
    split_gates(&s, ru->data, h_prev, out[OUT_R]->data, u, rh->data);
    MR_GO(compute_gates(r, &s, rh->data, W_C, B_C, s.cells, c));
    for (int64_t i = 0; i < s.batch * s.cells; i++) {
        c[i] = mr_tanhf(c[i]);
        h[i] = u[i] * h_prev[i] + (1 - u[i]) * c[i];
    }
out:
    mr_tensor_unref(ru);
    mr_tensor_unref(rh);
    return st;
}

/* ---- backward ---- */

static mr_status *make_outputs(mr_run *r, const sizes *s, float **out)
{
    const int64_t widths[N_GRADS] = {s->inputs, s->cells, s->cells, 2 * s->cells};
    for (int i = 0; i < N_GRADS; i++) {
        mr_tensor *t;
        MR_TRY(mr_run_output(r, i, 2, (int64_t[]){s->batch, widths[i]}, &t));
        out[i] = t->data;
        mr_tensor_zero(t);
    }
    return NULL;
}

/* The parts of the gates' gradients that depend only on the gradient of h. */
static void open_gates(const mr_run *r, const sizes *s, float *dc, float *dru)
{
    const float *u = input_data(r, S_U), *c = input_data(r, S_C), *h = input_data(r, H_PREV), *dh = input_data(r, D_H);
    for (int64_t i = 0; i < s->batch * s->cells; i++) {
        dc[i] = dh[i] * (1 - u[i]) * (1 - c[i] * c[i]);
        dru[i / s->cells * 2 * s->cells + s->cells + i % s->cells] =
            dh[i] * (h[i] - c[i]) * u[i] * (1 - u[i]);
    }
}

/* Distributes drh, the gradient of r h_prev, to r and h_prev. */
static void close_gates(const mr_run *r, const sizes *s, const float *drh, float *dru,
                        float *dh_prev)
{
    const float *gate = input_data(r, S_R), *u = input_data(r, S_U), *h = input_data(r, H_PREV),
                *dh = input_data(r, D_H);
    for (int64_t i = 0; i < s->batch * s->cells; i++) {
        dru[i / s->cells * 2 * s->cells + i % s->cells] =
            drh[i] * h[i] * gate[i] * (1 - gate[i]);
        dh_prev[i] = drh[i] * gate[i] + dh[i] * u[i];
    }
}

static mr_status *gru_backward(mr_run *r)
{
    mr_status *st = NULL;
    sizes s;
    float *d[N_GRADS];
    mr_tensor *drh = NULL;
    MR_TRY(check_sizes(r, &s));
    MR_TRY(make_outputs(r, &s, d));
    if (s.batch == 0 || s.cells == 0)
        return NULL;
    MR_GO(mr_run_temp(r, MR_FLOAT, 2, (int64_t[]){s.batch, s.cells}, &drh));
    const float *wc = input_data(r, W_C), *wru = input_data(r, W_RU);
    int64_t n = s.cells, two = 2 * s.cells;
    open_gates(r, &s, d[D_C_BAR], d[D_RU_BAR]);
    MR_GO(multiply_matrices(r, s.batch, n, n, d[D_C_BAR], wc + s.inputs * n, true, false, drh->data));
    close_gates(r, &s, drh->data, d[D_RU_BAR], d[D_H_PREV]);
    MR_GO(multiply_matrices(r, s.batch, n, two, d[D_RU_BAR], wru + s.inputs * two, true, true, d[D_H_PREV]));
    if (s.inputs > 0) {
        MR_GO(multiply_matrices(r, s.batch, s.inputs, n, d[D_C_BAR], wc, true, false, d[D_X]));
        MR_GO(multiply_matrices(r, s.batch, s.inputs, two, d[D_RU_BAR], wru, true, true, d[D_X]));
    }
out:
    mr_tensor_unref(drh);
    return st;
}

/* ---- shapes and gradient ---- */

static mr_status *infer_gru_cell(mr_infer *c)
{
    const mr_pshape *x, *h;
    MR_TRY(mr_infer_rank(c, c->in[X], 2, &x));
    MR_TRY(mr_infer_rank(c, c->in[H_PREV], 2, &h));
    for (int i = 0; i < N_OUT; i++)
        c->out[i] = mr_pshape_matrix(c->arena, mr_infer_dim(x, 0), mr_infer_dim(h, 1));
    return NULL;
}

static mr_status *infer_grad(mr_infer *c)
{
    const mr_pshape *x, *h, *w;
    MR_TRY(mr_infer_rank(c, c->in[X], 2, &x));
    MR_TRY(mr_infer_rank(c, c->in[H_PREV], 2, &h));
    MR_TRY(mr_infer_rank(c, c->in[W_RU], 2, &w));
    int64_t batch = mr_infer_dim(x, 0);
    c->out[D_X] = x;
    c->out[D_H_PREV] = c->out[D_C_BAR] = mr_pshape_matrix(c->arena, batch, mr_infer_dim(h, 1));
    c->out[D_RU_BAR] = mr_pshape_matrix(c->arena, batch, mr_infer_dim(w, 1));
    return NULL;
}

static mr_out join_columns(mr_grad *g, mr_out a, mr_out b)
{
    return mr_emit_lists(g->s, "ConcatV2", NULL, 0,
                         (mr_emit_arg[]){{2, (mr_out[]){a, b}},
                                         {-1, (mr_out[]){mr_const_i32(g->s, 1)}}}, 2);
}

static void gru_cell_grad(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out args[N_IN];
    for (int i = X; i <= B_C; i++)
        args[i] = mr_xi(g, i);
    for (int i = OUT_R; i <= OUT_C; i++)
        args[S_R + i] = mr_yi(g, i);
    args[D_H] = mr_dyi(g, OUT_H);
    mr_out d = mr_emit_n(s, "GRUBlockCellGrad", NULL, 0, args, N_IN);
    mr_out dc = mr_nth(d, D_C_BAR), dru = mr_nth(d, D_RU_BAR);
    mr_out rh = mr_emit(s, "Mul", args[H_PREV], args[S_R]);
    mr_dxi(g, X, mr_nth(d, D_X));
    mr_dxi(g, H_PREV, mr_nth(d, D_H_PREV));
    mr_dxi(g, W_RU, mr_emit_with(s, "MatMul", MR_ATTRS({"transpose_a", mr_a_bool(true)}),
                                 join_columns(g, args[X], args[H_PREV]), dru));
    mr_dxi(g, W_C, mr_emit_with(s, "MatMul", MR_ATTRS({"transpose_a", mr_a_bool(true)}),
                                join_columns(g, args[X], rh), dc));
    mr_dxi(g, B_RU, mr_emit(s, "BiasAddGrad", dru));
    mr_dxi(g, B_C, mr_emit(s, "BiasAddGrad", dc));
}

#define WEIGHTS "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T"
#define TYPES(M, ...) MR_TYPE_FLOAT(M, __VA_ARGS__)

MR_OP(GRUBlockCell,
    .doc      = "one step [batch, inputs] of a gated recurrent unit",
    .sig      = WEIGHTS " -> r: T, u: T, c: T, h: T",
    .attrs    = "T: {float}",
    .shape    = infer_gru_cell,
    .grad     = gru_cell_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(gru_forward, TYPES)),
    .examples = MR_EXAMPLES(
        "nograd: [[0]], [[2]], fill(0, 2,2), fill(0, 2,1), [0, 0], [0] -> [[0.5]], [[0.5]], [[0]], "
        "[[1]]",
        "nograd: [[1]], [[2]], [[1, 0], [0, 0]], [[0], [1]], [0, 0], [0] -> [[0.7310586]], "
        "[[0.5]], [[0.898063]], [[1.449032]]",
        "[[1, 0.5]], [[0.5]], [[0.1, 0.2], [0.3, -0.4], [0.2, 0.3]], [[0.5], [-0.2], [0.7]], "
        "[0.1, -0.1], [0.2] -> shape(1,1), shape(1,1), shape(1,1), shape(1,1)",
        "shape(0,1), shape(0,1), fill(0, 2,2), fill(0, 2,1), [0, 0], [0] -> shape(0,1), "
        "shape(0,1), shape(0,1), shape(0,1)",
        "[[0]], [[2]], fill(0, 3,2), fill(0, 2,1), [0, 0], [0] -> !INVALID_ARGUMENT",
        "[[0]], [[2], [3]], fill(0, 2,2), fill(0, 2,1), [0, 0], [0] -> !INVALID_ARGUMENT"));

MR_OP(GRUBlockCellGrad,
    .doc      = "gradient of GRUBlockCell by x, the state and the inputs of the gates",
    .sig      = WEIGHTS ", r: T, u: T, c: T, d_h: T -> d_x: T, d_h_prev: T, d_c_bar: T, "
                "d_r_bar_u_bar: T",
    .attrs    = "T: {float}",
    .shape    = infer_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(gru_backward, TYPES)),
    .examples = MR_EXAMPLES(
        "[[0]], [[2]], fill(0, 2,2), fill(0, 2,1), [0, 0], [0], [[0.5]], [[0.5]], [[0]], [[1]] -> "
        "[[0]], [[0.5]], [[0.5]], [[0, 0.5]]",
        "[[0]], [[2]], fill(1, 2,2), fill(1, 2,1), [0, 0], [0], [[0.5]], [[0.5]], [[0]], [[1]] -> "
        "[[1.25]], [[1.5]], [[0.5]], [[0.25, 0.5]]",
        "[[0]], [[2]], fill(0, 2,2), fill(0, 2,1), [0, 0], [0], [[0.5]], [[0.5]], [[0]], [[1], "
        "[2]] -> !INVALID_ARGUMENT"));
