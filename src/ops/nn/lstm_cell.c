/* ops/nn/lstm_cell.c -- LSTMBlockCell: one step of a long short-term memory, and its gradient. */
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/nn/lstm.h"

/* Inputs of both ops, in order; then the inputs that only the gradient has. */
enum {
    X, CS_PREV, H_PREV, W, WCI, WCF, WCO, B,
    S_I, S_CS, S_F, S_O, S_CI, S_CO, CS_GRAD, H_GRAD, N_IN
};
enum { OUT_I, OUT_CS, OUT_F, OUT_O, OUT_CI, OUT_CO, OUT_H, N_OUT };
enum { D_CS_PREV, D_Z, D_WCI, D_WCF, D_WCO, N_GRADS };

typedef struct cell {
    mr_lstm_weights k;
    mr_wide in[N_IN], out[N_OUT];
    mr_tensor *z, *zeros;
} cell;

static const float *input_data(const cell *q, int i) { return q->in[i].t->data; }
static float *output_data(const cell *q, int i) { return q->out[i].t->data; }

static void cell_close(cell *q)
{
    for (int i = 0; i < N_IN; i++)
        mr_wide_deinit(&q->in[i]);
    for (int i = 0; i < N_OUT; i++)
        mr_wide_deinit(&q->out[i]);
    mr_tensor_unref(q->z);
    mr_tensor_unref(q->zeros);
}

static mr_status *check_shape(const mr_run *r, int i, int rank, const int64_t *dims)
{
    const mr_tensor *t = mr_in(r, i);
    if (mr_shape_eq(t->rank, t->dims, rank, dims))
        return NULL;
    return mr_invalid("%s: input %d must have shape %s, got %s", r->node->def->name, i,
                      MR_SHAPE_TEXT(rank, dims), MR_TENSOR_SHAPE(t));
}

static mr_status *cell_open(mr_run *r, cell *q)
{
    const mr_tensor *x = mr_in(r, X), *cs = mr_in(r, CS_PREV);
    const mr_lstm *s = r->state;
    if (x->rank != 2)
        return mr_invalid("x must be 2D: %s", MR_TENSOR_SHAPE(x));
    if (cs->rank != 2)
        return mr_invalid("cs_prev must be 2D: %s", MR_TENSOR_SHAPE(cs));
    q->k = (mr_lstm_weights){.batch = x->dims[0], .inputs = x->dims[1], .cells = cs->dims[1]};
    int64_t most = INT64_C(1) << 40; /* so that sums and multiples of sizes fit */
    if (q->k.inputs > most || q->k.cells > most)
        return mr_invalid("x and cs_prev are too wide: %s and %s", MR_TENSOR_SHAPE(mr_in(r, X)),
                          MR_TENSOR_SHAPE(mr_in(r, CS_PREV)));
    const int64_t state[2] = {q->k.batch, q->k.cells};
    const int64_t w[2] = {q->k.inputs + q->k.cells, 4 * q->k.cells};
    MR_TRY(check_shape(r, CS_PREV, 2, state));
    MR_TRY(check_shape(r, H_PREV, 2, state));
    MR_TRY(check_shape(r, W, 2, w));
    MR_TRY(check_shape(r, B, 1, &w[1]));
    for (int i = WCI; i <= WCO && s->peephole; i++)
        MR_TRY(check_shape(r, i, 1, &q->k.cells));
    for (int i = S_I; i < r->n_in; i++)
        MR_TRY(check_shape(r, i, 2, state));
    for (int i = 0; i < r->n_in; i++)
        MR_TRY(mr_wide_in(r, i, &q->in[i]));
    q->k.w = input_data(q, W);
    q->k.b = input_data(q, B);
    q->k.wci = input_data(q, WCI);
    q->k.wcf = input_data(q, WCF);
    q->k.wco = input_data(q, WCO);
    return NULL;
}

static mr_status *lstm_cell_forward(mr_run *r)
{
    mr_status *st = NULL;
    cell q = {0};
    MR_GO(cell_open(r, &q));
    const int64_t dims[2] = {q.k.batch, q.k.cells};
    for (int i = 0; i < N_OUT; i++)
        MR_GO(mr_wide_out(r, -1, i, 2, dims, &q.out[i]));
    if (q.out[0].t->n > 0) {
        MR_GO(mr_run_temp(r, MR_FLOAT, 2, (int64_t[]){q.k.batch, 4 * q.k.cells}, &q.z));
        mr_gemm x_wx = {MR_FLOAT, q.k.batch, 4 * q.k.cells, q.k.inputs};
        MR_GO(mr_gemm_run(r, &(mr_gemm_batch){.one = x_wx, .n_batch = 1, .a = input_data(&q, X),
                                              .b = q.k.w, .c = q.z->data}));
        mr_lstm_step step = {.cs_prev = input_data(&q, CS_PREV), .h_prev = input_data(&q, H_PREV),
                             .i = output_data(&q, OUT_I), .cs = output_data(&q, OUT_CS), .f = output_data(&q, OUT_F),
                             .o = output_data(&q, OUT_O), .ci = output_data(&q, OUT_CI), .co = output_data(&q, OUT_CO),
                             .h = output_data(&q, OUT_H)};
        MR_GO(mr_lstm_forward(r, r->state, &q.k, &step, q.z->data));
    }
    for (int i = 0; i < N_OUT; i++)
        mr_wide_store(r, i, &q.out[i]);
out:
    cell_close(&q);
    return st;
}

static mr_status *grads_open(mr_run *r, cell *q)
{
    const int64_t z[2] = {q->k.batch, 4 * q->k.cells}, n = q->k.batch * q->k.cells;
    const int64_t state[2] = {q->k.batch, q->k.cells};
    MR_TRY(mr_wide_out(r, -1, D_CS_PREV, 2, state, &q->out[D_CS_PREV]));
    MR_TRY(mr_wide_out(r, -1, D_Z, 2, z, &q->out[D_Z]));
    for (int i = 0; i < 3; i++) {
        const mr_tensor *like = mr_in(r, WCI + i);
        MR_TRY(mr_wide_out(r, -1, D_WCI + i, like->rank, like->dims, &q->out[D_WCI + i]));
        mr_tensor_zero(q->out[D_WCI + i].t);
    }
    mr_tensor_zero(q->out[D_CS_PREV].t); /* nothing flows back from a next step */
    MR_TRY(mr_run_temp(r, MR_FLOAT, 1, &n, &q->zeros));
    mr_tensor_zero(q->zeros);
    return NULL;
}

static mr_status *lstm_cell_backward(mr_run *r)
{
    mr_status *st = NULL;
    cell q = {0};
    MR_GO(cell_open(r, &q));
    MR_GO(grads_open(r, &q));
#define PLACE(i) (float *)(uintptr_t)input_data(&q, i) /* only read here */
    mr_lstm_step step = {.cs_prev = input_data(&q, CS_PREV), .h_prev = input_data(&q, H_PREV), .i = PLACE(S_I),
                         .cs = PLACE(S_CS), .f = PLACE(S_F), .o = PLACE(S_O), .ci = PLACE(S_CI),
                         .co = PLACE(S_CO)};
#undef PLACE
    mr_lstm_back g = {.cs_grad = input_data(&q, CS_GRAD), .h_grad = input_data(&q, H_GRAD),
                      .h_back = q.zeros->data, .cs_back = output_data(&q, D_CS_PREV), .dz = output_data(&q, D_Z),
                      .wci_grad = output_data(&q, D_WCI), .wcf_grad = output_data(&q, D_WCF),
                      .wco_grad = output_data(&q, D_WCO)};
    if (q.zeros->n > 0)
        mr_lstm_backward(r, r->state, &q.k, &step, &g);
    for (int i = 0; i < N_GRADS; i++)
        mr_wide_store(r, i, &q.out[i]);
out:
    cell_close(&q);
    return st;
}

/* ---- shapes and gradient ---- */

static mr_status *infer_lstm_cell(mr_infer *c)
{
    const mr_pshape *x, *cs;
    MR_TRY(mr_infer_rank(c, c->in[X], 2, &x));
    MR_TRY(mr_infer_rank(c, c->in[CS_PREV], 2, &cs));
    for (int i = 0; i < N_OUT; i++)
        c->out[i] = mr_pshape_matrix(c->arena, mr_infer_dim(x, 0), mr_infer_dim(cs, 1));
    return NULL;
}

static mr_status *infer_grad(mr_infer *c)
{
    const mr_pshape *x, *cs;
    MR_TRY(mr_infer_rank(c, c->in[X], 2, &x));
    MR_TRY(mr_infer_rank(c, c->in[CS_PREV], 2, &cs));
    int64_t batch = mr_infer_dim(x, 0), cells = mr_infer_dim(cs, 1);
    if (cells > INT64_MAX / 4)
        return mr_invalid("cs_prev is too wide");
    c->out[D_CS_PREV] = mr_pshape_matrix(c->arena, batch, cells);
    c->out[D_Z] = mr_pshape_matrix(c->arena, batch, cells < 0 ? -1 : 4 * cells);
    for (int i = 0; i < 3; i++)
        c->out[D_WCI + i] = c->in[WCI + i];
    return NULL;
}

/* The gradients of the weights, x and h all follow from the gradient of z. */
static void lstm_cell_grad(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out args[N_IN];
    for (int i = 0; i <= B; i++)
        args[i] = mr_xi(g, i);
    for (int i = OUT_I; i <= OUT_CO; i++)
        args[S_I + i] = mr_yi(g, i);
    args[CS_GRAD] = mr_dyi(g, OUT_CS);
    args[H_GRAD] = mr_dyi(g, OUT_H);
    mr_out d = mr_emit_like(g, "LSTMBlockCellGrad", "use_peephole", args, N_IN);
    mr_out dz = mr_nth(d, D_Z);
    mr_out xh = mr_emit_lists(s, "ConcatV2", NULL, 0,
                              (mr_emit_arg[]){{2, (mr_out[]){args[X], args[H_PREV]}},
                                              {-1, (mr_out[]){mr_const_i32(s, 1)}}}, 2);
    mr_out dxh = mr_emit_with(s, "MatMul", MR_ATTRS({"transpose_b", mr_a_bool(true)}), dz, args[W]);
    mr_out offsets = mr_emit_n(s, "ConcatOffset", NULL, 0,
                               MR_OUTS(mr_const_i32(s, 1), mr_shape_of(g, args[X]),
                                       mr_shape_of(g, args[H_PREV])));
    mr_dxi(g, X, mr_emit(s, "Slice", dxh, offsets, mr_shape_of(g, args[X])));
    mr_dxi(g, H_PREV, mr_emit(s, "Slice", dxh, mr_nth(offsets, 1), mr_shape_of(g, args[H_PREV])));
    mr_dxi(g, W, mr_emit_with(s, "MatMul", MR_ATTRS({"transpose_a", mr_a_bool(true)}), xh, dz));
    mr_dxi(g, B, mr_emit(s, "BiasAddGrad", dz));
    mr_dxi(g, CS_PREV, mr_nth(d, D_CS_PREV));
    for (int i = 0; i < 3; i++)
        mr_dxi(g, WCI + i, mr_nth(d, D_WCI + i));
}

/* ---- ops ---- */

#define WEIGHTS "x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
#define TYPES(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)
#define STATE .state_bytes = sizeof(mr_lstm), .init = mr_lstm_init

MR_OP(LSTMBlockCell,
    .doc      = "one step [batch, inputs] of a long short-term memory",
    .sig      = WEIGHTS " -> i: T, cs: T, f: T, o: T, ci: T, co: T, h: T",
    .attrs    = "forget_bias: float = 1; cell_clip: float = 3; use_peephole: bool = false; "
                "T: {half, float}",
    .shape    = infer_lstm_cell,
    .grad     = lstm_cell_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(lstm_cell_forward, TYPES)),
    STATE,
    .examples = MR_EXAMPLES(
        "nograd: [[0]], [[2]], [[0]], fill(1, 2,4), [0], [0], [0], [0, 0, 0, 0] -> [[0.5]], "
        "[[1.4621172]], [[0.7310586]], [[0.5]], [[0]], [[0.898063]], [[0.449032]]",
        "nograd forget_bias=0 cell_clip=1: [[0]], [[4]], [[0]], fill(1, 2,4), [0], [0], [0], "
        "[0, 0, 0, 0] -> [[0.5]], [[1]], [[0.5]], [[0.5]], [[0]], [[0.7615942]], [[0.3807971]]",
        "cell_clip=0: [[1, 0.5]], [[0.5]], [[-0.5]], [[0.1, 0.2, 0.3, 0.4], [0.5, -0.1, 0.2, 0.1], "
        "[-0.3, 0.2, 0.1, 0.5]], [0], [0], [0], [0.1, 0, -0.1, 0.2] -> [[0.6456563]], shape(1,1), "
        "shape(1,1), shape(1,1), shape(1,1), shape(1,1), shape(1,1)",
        "use_peephole=true cell_clip=0: [[1, 0.5]], [[0.5]], [[-0.5]], [[0.1, 0.2, 0.3, 0.4], "
        "[0.5, -0.1, 0.2, 0.1], [-0.3, 0.2, 0.1, 0.5]], [0.3], [-0.2], [0.1], [0.1, 0, -0.1, 0.2] "
        "-> shape(1,1), shape(1,1), shape(1,1), shape(1,1), shape(1,1), shape(1,1), shape(1,1)",
        "shape(0,1), shape(0,1), shape(0,1), fill(1, 2,4), [0], [0], [0], [0, 0, 0, 0] -> "
        "shape(0,1), shape(0,1), shape(0,1), shape(0,1), shape(0,1), shape(0,1), shape(0,1)",
        "[[0]], [[2]], [[0]], fill(1, 3,4), [0], [0], [0], [0, 0, 0, 0] -> !INVALID_ARGUMENT",
        "[0], [[2]], [[0]], fill(1, 2,4), [0], [0], [0], [0, 0, 0, 0] -> !INVALID_ARGUMENT"));

MR_OP(LSTMBlockCellGrad,
    .doc      = "gradient of LSTMBlockCell by the inputs of the gates, the state and the peepholes",
    .sig      = WEIGHTS ", i: T, cs: T, f: T, o: T, ci: T, co: T, cs_grad: T, h_grad: T -> "
                "cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T",
    .attrs    = "use_peephole: bool; T: {half, float}",
    .shape    = infer_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(lstm_cell_backward, TYPES)),
    STATE,
    .examples = MR_EXAMPLES(
        "use_peephole=false: [[0]], [[2]], [[0]], fill(1, 2,4), [0], [0], [0], [0, 0, 0, 0], "
        "[[0.5]], [[1]], [[0.5]], [[0.5]], [[0]], [[0.5]], [[1]], [[0]] -> [[0.5]], "
        "[[0, 0.5, 0.5, 0]], [0], [0], [0]",
        "use_peephole=true: [[0]], [[2]], [[0]], fill(1, 2,4), [1], [1], [0], [0, 0, 0, 0], "
        "[[0.5]], [[1]], [[0.5]], [[0.5]], [[0]], [[0.5]], [[1]], [[1]] -> [[1.375]], "
        "[[0, 0.6875, 0.6875, 0.125]], [0], [1.375], [0.125]",
        "use_peephole=false: [[0]], [[2]], [[0]], fill(1, 2,4), [0], [0], [0], [0, 0, 0, 0], "
        "[[0.5, 1]], [[1]], [[0.5]], [[0.5]], [[0]], [[0.5]], [[1]], [[0]] -> !INVALID_ARGUMENT"));
