/* ops/nn/block_lstm.c -- BlockLSTM: a whole sequence through one cell, and its gradient.
 *
 * Inputs and outputs are [time, batch, ..].  Steps from seq_len_max on are not computed: cs and h
 * are zero there, and so is the gradient of x.  The gradient ignores the clipping of cs, as in
 * TensorFlow.
 *
 * z, the input of the gates, is kept for all steps.  So only the products with h are computed step by
 * step; the products with x, and those for the gradients of the weights, are one product each for the
 * whole sequence. */
#include "base/memory.h"
#include "base/simd.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/linalg/gemm.h"
#include "ops/nn/lstm.h"

/* Inputs of both ops, in order; then the inputs that only the gradient has. */
enum {
    LENGTH, X, CS_PREV, H_PREV, W, WCI, WCF, WCO, B,
    S_I, S_CS, S_F, S_O, S_CI, S_CO, S_H, CS_GRAD, H_GRAD, N_IN
};
enum { OUT_I, OUT_CS, OUT_F, OUT_O, OUT_CI, OUT_CO, OUT_H, N_OUT };
enum { D_X, D_CS_PREV, D_H_PREV, D_W, D_WCI, D_WCF, D_WCO, D_B, N_GRADS };

typedef struct sequence {
    mr_lstm_weights k;
    int64_t time, length; /* length: steps to compute */
    mr_wide in[N_IN], out[N_GRADS];
    mr_tensor *z;  /* [length, batch, 4 cells]; in the gradient op, dz */
    mr_tensor *xh; /* only in the gradient op: [length, batch, inputs + cells] */
} sequence;

static void sequence_deinit(sequence *q)
{
    for (int i = 0; i < N_IN; i++)
        mr_wide_deinit(&q->in[i]);
    for (int i = 0; i < N_GRADS; i++)
        mr_wide_deinit(&q->out[i]);
    mr_tensor *temps[] = {q->z, q->xh, q->k.packed_wh};
    for (int i = 0; i < MR_COUNT(temps); i++)
        mr_tensor_unref(temps[i]);
}

static const float *input_data(const sequence *q, int i) { return q->in[i].t->data; }
static float *output_data(const sequence *q, int i) { return q->out[i].t->data; }

static mr_status *check_shape(const mr_run *r, int i, int rank, const int64_t *dims)
{
    const mr_tensor *t = mr_in(r, i);
    if (mr_shape_eq(t->rank, t->dims, rank, dims))
        return NULL;
    return mr_invalid("%s: input %d must have shape %s, got %s", r->node->def->name, i,
                      MR_SHAPE_TEXT(rank, dims), MR_TENSOR_SHAPE(t));
}

static mr_status *check_weights(const mr_run *r, const mr_lstm_weights *k)
{
    const int64_t state[2] = {k->batch, k->cells}, w[2] = {k->inputs + k->cells, 4 * k->cells};
    MR_TRY(check_shape(r, CS_PREV, 2, state));
    MR_TRY(check_shape(r, H_PREV, 2, state));
    MR_TRY(check_shape(r, W, 2, w));
    MR_TRY(check_shape(r, B, 1, &w[1]));
    if (!((const mr_lstm *)r->state)->peephole)
        return NULL; /* the others are not read */
    for (int i = WCI; i <= WCO; i++)
        MR_TRY(check_shape(r, i, 1, &k->cells));
    return NULL;
}

static mr_status *sequence_open(mr_run *r, sequence *q)
{
    const mr_tensor *x = mr_in(r, X), *cs = mr_in(r, CS_PREV);
    if (x->rank != 3)
        return mr_invalid("x must be 3D: %s", MR_TENSOR_SHAPE(x));
    if (cs->rank != 2)
        return mr_invalid("cs_prev must be 2D: %s", MR_TENSOR_SHAPE(cs));
    q->time = x->dims[0];
    q->k = (mr_lstm_weights){.batch = x->dims[1], .inputs = x->dims[2], .cells = cs->dims[1]};
    int64_t most = INT64_C(1) << 40; /* so that sums and multiples of sizes fit */
    if (q->k.inputs > most || q->k.cells > most)
        return mr_invalid("x and cs_prev are too wide: %s and %s", MR_TENSOR_SHAPE(mr_in(r, X)),
                          MR_TENSOR_SHAPE(mr_in(r, CS_PREV)));
    MR_TRY(check_weights(r, &q->k));
    MR_TRY(mr_in_scalar_int(r, LENGTH, "seq_len_max", &q->length));
    if (q->length < 0 || q->length > q->time)
        return mr_invalid("seq_len_max must be between 0 and %lld, got %lld", (long long)q->time,
                          (long long)q->length);
    for (int i = X; i < r->n_in; i++)
        MR_TRY(mr_wide_in(r, i, &q->in[i]));
    q->k.w = input_data(q, W);
    q->k.b = input_data(q, B);
    q->k.wci = input_data(q, WCI);
    q->k.wcf = input_data(q, WCF);
    q->k.wco = input_data(q, WCO);
    return mr_run_temp(r, MR_FLOAT, 3, (int64_t[]){q->length, q->k.batch, 4 * q->k.cells}, &q->z);
}

static float *z_at(const sequence *q, int64_t t)
{
    return (float *)q->z->data + t * q->k.batch * 4 * q->k.cells;
}

static mr_status *multiply_matrices(mr_run *r, mr_gemm g, const float *a, const float *b, float *c)
{
    g.type = MR_FLOAT;
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g, .n_batch = 1, .a = a, .b = b, .c = c});
}

/* ---- forward ---- */

static mr_lstm_step step_at(const sequence *q, int64_t t)
{
    int64_t at = t * q->k.batch * q->k.cells, before = at - q->k.batch * q->k.cells;
    return (mr_lstm_step){
        .cs_prev = t > 0 ? output_data(q, OUT_CS) + before : input_data(q, CS_PREV),
        .h_prev = t > 0 ? output_data(q, OUT_H) + before : input_data(q, H_PREV),
        .i = output_data(q, OUT_I) + at,   .cs = output_data(q, OUT_CS) + at, .f = output_data(q, OUT_F) + at,
        .o = output_data(q, OUT_O) + at,   .ci = output_data(q, OUT_CI) + at, .co = output_data(q, OUT_CO) + at,
        .h = output_data(q, OUT_H) + at,
    };
}

/* The work that is done once for all steps. */
static mr_status *begin_forward(mr_run *r, sequence *q)
{
    mr_gemm h_wh = mr_lstm_h_wh(&q->k);
    mr_gemm x_wx = {.m = q->length * q->k.batch, .n = 4 * q->k.cells, .k = q->k.inputs};
    MR_TRY(mr_gemm_pack_b(r, &h_wh, mr_lstm_wh(&q->k), &q->k.packed_wh));
    return multiply_matrices(r, x_wx, input_data(q, X), q->k.w, q->z->data);
}

static mr_status *block_lstm(mr_run *r)
{
    mr_status *st = NULL;
    sequence q = {0};
    MR_GO(sequence_open(r, &q));
    const int64_t dims[3] = {q.time, q.k.batch, q.k.cells};
    for (int i = 0; i < N_OUT; i++)
        MR_GO(mr_wide_out(r, -1, i, 3, dims, &q.out[i]));
    bool empty = q.out[0].t->n == 0;
    if (!empty)
        MR_GO(begin_forward(r, &q));
    for (int64_t t = 0; t < q.length && !empty; t++) {
        mr_lstm_step step = step_at(&q, t);
        MR_GO(mr_lstm_forward(r, r->state, &q.k, &step, z_at(&q, t)));
    }
    int64_t done = q.length * q.k.batch * q.k.cells;
    for (int i = 0; i < N_OUT && !empty; i++)
        memset(output_data(&q, i) + done, 0, (size_t)(q.out[i].t->n - done) * sizeof(float));
    for (int i = 0; i < N_OUT; i++)
        mr_wide_store(r, i, &q.out[i]);
out:
    sequence_deinit(&q);
    return st;
}

/* ---- backward ---- */

static mr_status *check_states(const mr_run *r, const sequence *q)
{
    const int64_t dims[3] = {q->time, q->k.batch, q->k.cells};
    for (int i = S_I; i < N_IN; i++)
        MR_TRY(check_shape(r, i, 3, dims));
    return NULL;
}

static mr_status *grads_open(mr_run *r, sequence *q)
{
    static const int like[N_GRADS] = {X, CS_PREV, H_PREV, W, WCI, WCF, WCO, B};
    for (int i = 0; i < N_GRADS; i++) {
        const mr_tensor *t = mr_in(r, like[i]);
        MR_TRY(mr_wide_out(r, -1, i, t->rank, t->dims, &q->out[i]));
        mr_tensor_zero(q->out[i].t);
    }
    return mr_run_temp(r, MR_FLOAT, 3,
                       (int64_t[]){q->length, q->k.batch, q->k.inputs + q->k.cells}, &q->xh);
}

static mr_lstm_step step_back(const sequence *q, int64_t t)
{
    int64_t at = t * q->k.batch * q->k.cells, before = at - q->k.batch * q->k.cells;
#define PLACE(i) (float *)(uintptr_t)(input_data(q, i) + at) /* only read here */
    return (mr_lstm_step){
        .cs_prev = t > 0 ? input_data(q, S_CS) + before : input_data(q, CS_PREV),
        .h_prev = t > 0 ? input_data(q, S_H) + before : input_data(q, H_PREV),
        .i = PLACE(S_I), .cs = PLACE(S_CS), .f = PLACE(S_F), .o = PLACE(S_O),
        .ci = PLACE(S_CI), .co = PLACE(S_CO), .h = PLACE(S_H),
    };
#undef PLACE
}

MR_CLONES static void add_rows(float *restrict to, const float *restrict from, int64_t rows,
                               int64_t n)
{
    for (int64_t row = 0; row < rows; row++, from += n)
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
}

/* One step back.  D_CS_PREV and D_H_PREV hold the gradients from step t + 1 on entry, and those for
 * step t - 1 on return. */
static mr_status *back_step(mr_run *r, sequence *q, int64_t t)
{
    const mr_lstm_weights *k = &q->k;
    int64_t n = k->batch * k->cells;
    mr_lstm_step step = step_back(q, t);
    mr_lstm_back g = {.cs_grad = input_data(q, CS_GRAD) + t * n, .h_grad = input_data(q, H_GRAD) + t * n,
                      .h_back = output_data(q, D_H_PREV), .cs_back = output_data(q, D_CS_PREV), .dz = z_at(q, t),
                      .wci_grad = output_data(q, D_WCI), .wcf_grad = output_data(q, D_WCF),
                      .wco_grad = output_data(q, D_WCO)};
    mr_lstm_backward(r, r->state, k, &step, &g);
    mr_gemm dz_wh = mr_lstm_dz_wh(k);
    dz_wh.packed_b = k->packed_wh;
    return multiply_matrices(r, dz_wh, z_at(q, t), mr_lstm_wh(k), output_data(q, D_H_PREV));
}

/* Fills xh with [x, h_prev] of all steps. */
static void join_x_and_h(const sequence *q)
{
    const mr_lstm_weights *k = &q->k;
    float *to = q->xh->data;
    for (int64_t row = 0; row < q->length * k->batch; row++) {
        int64_t before = row - k->batch;
        const float *h = before < 0 ? input_data(q, H_PREV) + row * k->cells : input_data(q, S_H) + before * k->cells;
        memcpy(to, input_data(q, X) + row * k->inputs, (size_t)k->inputs * sizeof(float));
        memcpy(to + k->inputs, h, (size_t)k->cells * sizeof(float));
        to += k->inputs + k->cells;
    }
}

/* Computes the gradients of the weights and of x from dz of all steps. */
static mr_status *spread_gradients(mr_run *r, sequence *q)
{
    const mr_lstm_weights *k = &q->k;
    int64_t steps = q->length * k->batch, gates = 4 * k->cells;
    mr_gemm dx = {.m = steps, .n = k->inputs, .k = gates, .tb = true};
    mr_gemm dw = {.m = k->inputs + k->cells, .n = gates, .k = steps, .ta = true};
    if (mr_run_wants(r, D_X))
        MR_TRY(multiply_matrices(r, dx, q->z->data, k->w, output_data(q, D_X)));
    join_x_and_h(q);
    MR_TRY(multiply_matrices(r, dw, q->xh->data, q->z->data, output_data(q, D_W)));
    add_rows(output_data(q, D_B), q->z->data, steps, gates);
    return NULL;
}

static mr_status *block_lstm_grad(mr_run *r)
{
    mr_status *st = NULL;
    sequence q = {0};
    MR_GO(sequence_open(r, &q));
    MR_GO(check_states(r, &q));
    MR_GO(grads_open(r, &q));
    bool empty = q.k.batch == 0 || q.k.cells == 0 || q.length == 0;
    mr_gemm dz_wh = mr_lstm_dz_wh(&q.k);
    if (!empty)
        MR_GO(mr_gemm_pack_b(r, &dz_wh, mr_lstm_wh(&q.k), &q.k.packed_wh));
    for (int64_t t = q.length - 1; t >= 0 && !empty; t--)
        MR_GO(back_step(r, &q, t));
    if (!empty)
        MR_GO(spread_gradients(r, &q));
    for (int i = 0; i < N_GRADS; i++)
        mr_wide_store(r, i, &q.out[i]);
out:
    sequence_deinit(&q);
    return st;
}

/* ---- shapes and gradients ---- */

static mr_status *infer_block_lstm(mr_infer *c)
{
    const mr_pshape *x, *b;
    MR_TRY(mr_infer_rank(c, c->in[X], 3, &x));
    MR_TRY(mr_infer_rank(c, c->in[B], 1, &b));
    int64_t gates = mr_infer_dim(b, 0);
    mr_pshape *y = mr_pshape_new(c->arena, 3);
    y->dims[0] = x->dims[0];
    y->dims[1] = x->dims[1];
    y->dims[2] = gates < 0 ? -1 : gates / 4;
    for (int i = 0; i < N_OUT; i++)
        c->out[i] = y;
    return NULL;
}

static mr_status *infer_grad(mr_infer *c)
{
    for (int i = 0; i < N_GRADS; i++)
        c->out[i] = c->in[X + i];
    return NULL;
}

/* Only cs and h have gradients; the other outputs are inputs of the gradient op. */
static void block_lstm_backward(mr_grad *g, const char *op)
{
    mr_out args[N_IN];
    for (int i = 0; i <= B; i++)
        args[i] = mr_xi(g, i);
    for (int i = 0; i < N_OUT; i++)
        args[S_I + i] = mr_yi(g, i);
    args[CS_GRAD] = mr_dyi(g, OUT_CS);
    args[H_GRAD] = mr_dyi(g, OUT_H);
    mr_out d = mr_emit_like(g, op, "use_peephole", args, N_IN);
    for (int i = 0; i < N_GRADS; i++)
        mr_dxi(g, X + i, mr_nth(d, i));
}

static void backward_v1(mr_grad *g) { block_lstm_backward(g, "BlockLSTMGrad"); }
static void backward_v2(mr_grad *g) { block_lstm_backward(g, "BlockLSTMGradV2"); }

/* ---- ops ---- */

#define WEIGHTS \
    "seq_len_max: int64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
#define STATES "i: T, cs: T, f: T, o: T, ci: T, co: T, h: T"
#define GRADS                                                                                     \
    "x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: " \
    "T, b_grad: T"
#define TYPES(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

MR_OP(BlockLSTM,
    .doc         = "a sequence [time, batch, inputs] through a long short-term memory",
    .sig         = WEIGHTS " -> " STATES,
    .attrs       = "forget_bias: float = 1; cell_clip: float = 3; use_peephole: bool = false; T: "
                   "{half, float}",
    .shape       = infer_block_lstm,
    .grad        = backward_v1,
    .kernels     = MR_KERNELS(MR_CPU_ONE(block_lstm, TYPES)),
    .state_bytes = sizeof(mr_lstm),
    .init        = mr_lstm_init,
    .examples    = MR_EXAMPLES(
        "use_peephole=true: 2, [[[0.125]], [[0.375]]], [[-0.375]], [[0.25]], [[0.75, 0.75, -0.75, "
        "-0.625], [-0.875, -0.125, -1, -0.125]], [0.5], [-0.25], [0.75], [0.25, -0.5, 0.375, "
        "0.125] -> "
        "shape(2,1,1), shape(2,1,1), shape(2,1,1), shape(2,1,1), shape(2,1,1), shape(2,1,1), "
        "shape(2,1,1)",
        "2, [[[0.125]], [[0.375]]], [[-0.375]], [[0]], [[0.75, 0.75, -0.75, -0.625], "
        "[-0.875, -0.125, -1, -0.125]], shape(0), shape(0), shape(0), [0.25, -0.5, 0.375, 0.125] "
        "-> [[[0.5851012]], [[0.6780382]]], [[[-0.5189285]], [[-0.5372076]]], [[[0.7826625]], "
        "[[0.7921236]]], [[[0.5117166]], [[0.4802922]]], [[[-0.385284]], [[-0.1860545]]], "
        "[[[-0.4768726]], [[-0.4908713]]], [[[-0.2440236]], [[-0.2357617]]]",
        "T=float nograd forget_bias=0.5 cell_clip=0.25 use_peephole=true: 1, [[[-0.375], "
        "[0.375]], [[-0.125], [-0.625]]], [[0.125], [0.5]], [[-0.375], [-0.5]], [[-0.25, 0.875, "
        "1, 0.375], [0.75, 0.75, -0.25, -0.875]], [-0.125], [0], [-0.5], [0.25, 0.125, -0.25, "
        "-0.5] -> [[[0.5117166], [0.4301473]], [[0], [0]]], [[[-0.1686162], [0.25]], [[0], [0]]], "
        "[[[0.4921881], [0.6791787]], [[0], [0]]], [[[0.4431983], [0.4882834]], [[0], [0]]], "
        "[[[-0.4497406], [0.07796644]], [[0], [0]]], [[[-0.1670362], [0.2449187]], [[0], [0]]], "
        "[[[-0.07403014], [0.1195897]], [[0], [0]]]",
        "0, shape(0,2,1), fill(1, 2,1), fill(1, 2,1), fill(1, 2,4), shape(0), shape(0), "
        "shape(0), fill(1, 4) -> shape(0,2,1), shape(0,2,1), shape(0,2,1), shape(0,2,1), "
        "shape(0,2,1), shape(0,2,1), shape(0,2,1)",
        "2, fill(1, 1,1,1), [[1]], [[1]], fill(1, 2,4), shape(0), shape(0), shape(0), "
        "fill(1, 4) -> !INVALID_ARGUMENT seq_len_max",
        "1, fill(1, 1,1,1), [[1]], [[1]], fill(1, 3,4), shape(0), shape(0), shape(0), "
        "fill(1, 4) -> !INVALID_ARGUMENT",
        "use_peephole=true: 1, fill(1, 1,1,1), [[1]], [[1]], fill(1, 2,4), shape(0), shape(0), "
        "shape(0), fill(1, 4) -> !INVALID_ARGUMENT"));

MR_OP(BlockLSTMV2,
    .doc         = "BlockLSTM with the gates in the order i, f, ci, o and no forget bias",
    .sig         = WEIGHTS " -> " STATES,
    .attrs       = "cell_clip: float = 0; use_peephole: bool = false; T: {half, float}",
    .shape       = infer_block_lstm,
    .grad        = backward_v2,
    .kernels     = MR_KERNELS(MR_CPU_ONE(block_lstm, TYPES)),
    .state_bytes = sizeof(mr_lstm),
    .init        = mr_lstm_init,
    .examples    = MR_EXAMPLES(
        "T=float: 2, [[[-0.625]], [[0]]], [[-0.875, 0]], [[-0.25, 0.375]], [[0.5, 0.375, "
        "0.375, -0.25, 0.375, -0.375, 0.125, -0.375], [-0.125, -0.875, -0.5, 1, -0.5, 0.375, "
        "0.25, 0.5], [0, 0.25, -0.875, -0.875, -0.625, -0.75, -0.75, -0.75]], shape(0), shape(0), "
        "shape(0), [0.125, -0.625, 0.875, 0.375, 0.125, 0.375, -0.5, 0.875] -> [[[0.4610168, "
        "0.3665897]], [[0.5361555, 0.3841905]]], [[[-0.6309743, 0.08438005]], [[-0.3593506, "
        "0.1481048]]], [[[0.6076632, 0.4882834]], [[0.7120233, 0.5415869]]], [[[0.284576, "
        "0.6688803]], [[0.3584772, 0.6798909]]], [[[-0.2153263, 0.2301757]], [[0.1677085, "
        "0.2665492]]], [[[-0.5587228, 0.08418036]], [[-0.3446419, 0.1470313]]], [[[-0.1589991, "
        "0.05630658]], [[-0.1235463, 0.09996526]]]",
        "T=float use_peephole=true: 2, [[[-0.25]], [[0.125]]], [[-0.625]], [[-0.625]], "
        "[[0.5, 0.625, 1, 0.75], [0.125, -0.875, 0, 0.875]], [-0.625], [-0.875], [0.75], [0.625, "
        "0, -0.125, -0.625] -> [[[0.692642]], [[0.752759]]], [[[-0.6973349]], [[-0.4748232]]], "
        "[[[0.7185944]], [[0.6809113]]], [[[0.1321162]], [[0.2774717]]], [[[-0.3583574]], [[0]]], "
        "[[[-0.6026734]], [[-0.4420881]]], [[[-0.07962291]], [[-0.122667]]]",
        "0, shape(0,2,1), fill(1, 2,1), fill(1, 2,1), fill(1, 2,4), shape(0), shape(0), "
        "shape(0), fill(1, 4) -> shape(0,2,1), shape(0,2,1), shape(0,2,1), shape(0,2,1), "
        "shape(0,2,1), shape(0,2,1), shape(0,2,1)"));

MR_OP(BlockLSTMGrad,
    .doc         = "gradient of BlockLSTM",
    .sig         = WEIGHTS ", " STATES ", cs_grad: T, h_grad: T -> " GRADS,
    .attrs       = "use_peephole: bool; T: {half, float}",
    .shape       = infer_grad,
    .kernels     = MR_KERNELS(MR_CPU_ONE(block_lstm_grad, TYPES)),
    .state_bytes = sizeof(mr_lstm),
    .init        = mr_lstm_init,
    .examples    = MR_EXAMPLES(
        "T=float use_peephole=false: 2, [[[0.125]], [[0.375]]], [[-0.375]], [[0]], [[0.75, 0.75, "
        "-0.75, -0.625], [-0.875, -0.125, -1, -0.125]], shape(0), shape(0), shape(0), [0.25, "
        "-0.5, 0.375, 0.125], [[[0.585101]], [[0.678038]]], [[[-0.518929]], [[-0.537208]]], "
        "[[[0.782662]], [[0.792124]]], [[[0.511717]], [[0.480292]]], [[[-0.385284]], "
        "[[-0.186054]]], [[[-0.476873]], [[-0.490871]]], [[[-0.244024]], [[-0.235762]]], [[[-1]], "
        "[[0.125]]], [[[-0.5]], [[-0.125]]] -> [[[-0.4357083]], [[0.03209232]]], [[-0.8877603]], "
        "[[-0.1019682]], [[0.01205149, -0.05114708, 0.00649907, 0.01317269], [0.0007872494, "
        "-0.01268729, 0.001656228, -0.003737444]], shape(0), shape(0), shape(0), [0.1028642, "
        "-0.5131605, 0.06556687, 0.07474971]",
        "T=float use_peephole=true: 1, [[[-0.375], [0.375]], [[-0.125], [-0.625]]], [[0.125], "
        "[0.5]], [[-0.375], [-0.5]], [[-0.25, 0.875, 1, 0.375], [0.75, 0.75, -0.25, -0.875]], "
        "[-0.125], [0], [-0.5], [0.25, 0.125, -0.25, -0.5], [[[0.511717], [0.430147]], [[0], "
        "[0]]], [[[-0.168616], [0.25]], [[0], [0]]], [[[0.492188], [0.679179]], [[0], [0]]], "
        "[[[0.443198], [0.488283]], [[0], [0]]], [[[-0.449741], [0.077966]], [[0], [0]]], "
        "[[[-0.167036], [0.244919]], [[0], [0]]], [[[-0.07403], [0.11959]], [[0], [0]]], "
        "[[[-0.375], [-0.125]], [[0.75], [0.125]]], [[[-0.375], [-0.5]], [[-0.125], [-0.625]]] -> "
        "[[[-0.2209129], [-0.173699]], [[0], [0]]], [[-0.2755389], [-0.2295656]], [[-0.1300414], "
        "[-0.07761327]], [[-0.02536736, 0.02893838, -0.007481163, -0.01727085], [-0.01969524, "
        "0.155829, 0.02485421, 0.00950246]], [0.00440427], [-0.02060297], [-0.0102559], "
        "[0.05468145, -0.3672048, -0.05395965, -0.01514054]",
        "use_peephole=false: 0, shape(0,1,1), [[1]], [[1]], fill(1, 2,4), shape(0), shape(0), "
        "shape(0), fill(1, 4), shape(0,1,1), shape(0,1,1), shape(0,1,1), shape(0,1,1), "
        "shape(0,1,1), shape(0,1,1), shape(0,1,1), shape(0,1,1), shape(0,1,1) -> shape(0,1,1), "
        "[[0]], [[0]], fill(0, 2,4), shape(0), shape(0), shape(0), fill(0, 4)",
        "use_peephole=false: 1, fill(1, 1,1,1), [[1]], [[1]], fill(1, 2,4), shape(0), shape(0), "
        "shape(0), fill(1, 4), fill(1, 1,1,1), fill(1, 1,1,1), fill(1, 1,1,1), fill(1, 1,1,1), "
        "fill(1, 1,1,1), fill(1, 1,1,1), fill(1, 1,1,1), fill(1, 1,1,1), fill(1, 2,1,1) -> "
        "!INVALID_ARGUMENT"));

MR_OP(BlockLSTMGradV2,
    .doc         = "gradient of BlockLSTMV2",
    .sig         = WEIGHTS ", " STATES ", cs_grad: T, h_grad: T -> " GRADS,
    .attrs       = "use_peephole: bool; T: {half, float}",
    .shape       = infer_grad,
    .kernels     = MR_KERNELS(MR_CPU_ONE(block_lstm_grad, TYPES)),
    .state_bytes = sizeof(mr_lstm),
    .init        = mr_lstm_init,
    .examples    = MR_EXAMPLES(
        "T=float use_peephole=false: 2, [[[-0.625]], [[0]]], [[-0.875, 0]], [[-0.25, 0.375]], "
        "[[0.5, 0.375, 0.375, -0.25, 0.375, -0.375, 0.125, -0.375], [-0.125, -0.875, -0.5, 1, "
        "-0.5, 0.375, 0.25, 0.5], [0, 0.25, -0.875, -0.875, -0.625, -0.75, -0.75, -0.75]], "
        "shape(0), shape(0), shape(0), [0.125, -0.625, 0.875, 0.375, 0.125, 0.375, -0.5, 0.875], "
        "[[[0.461017, 0.36659]], [[0.536156, 0.38419]]], [[[-0.630974, 0.08438]], [[-0.359351, "
        "0.148105]]], [[[0.607663, 0.488283]], [[0.712023, 0.541587]]], [[[0.284576, 0.66888]], "
        "[[0.358477, 0.679891]]], [[[-0.215326, 0.230176]], [[0.167709, 0.266549]]], "
        "[[[-0.558723, 0.08418]], [[-0.344642, 0.147031]]], [[[-0.158999, 0.056307]], "
        "[[-0.123546, 0.099965]]], [[[0.625, 0.5]], [[0, 0.625]]], [[[0.5, 0.375]], [[0.875, "
        "0.25]]] -> [[[-0.06623171]], [[-0.05663848]]], [[0.5600338, 0.5015386]], [[-0.02772952, "
        "-0.2973079]], [[0.0308191, -0.03431139, 0.1201604, 0, -0.2532389, -0.2228702, "
        "0.03625155, -0.001729809], [0.01049461, -0.02165878, 0.05375025, -0.00263572, "
        "-0.1241963, -0.1340509, 0.02552728, -0.001963904], [-0.01784232, 0.02339662, -0.0741099, "
        "0.0009333989, 0.1600533, 0.1496238, -0.02565585, 0.001488337]], shape(0), shape(0), "
        "shape(0), [-0.03778202, 0.1047993, -0.2280184, 0.01657696, 0.5492131, 0.6390019, "
        "-0.127353, 0.01076762]",
        "T=float use_peephole=true: 2, [[[-0.25]], [[0.125]]], [[-0.625]], [[-0.625]], [[0.5, "
        "0.625, 1, 0.75], [0.125, -0.875, 0, 0.875]], [-0.625], [-0.875], [0.75], [0.625, 0, "
        "-0.125, -0.625], [[[0.692642]], [[0.752759]]], [[[-0.697335]], [[-0.474823]]], "
        "[[[0.718594]], [[0.680911]]], [[[0.132116]], [[0.277472]]], [[[-0.358357]], [[0]]], "
        "[[[-0.602673]], [[-0.442088]]], [[[-0.079623]], [[-0.122667]]], [[[0.25]], [[-0.75]]], "
        "[[[-0.125]], [[-0.875]]] -> [[[-0.2231986]], [[-0.5256538]]], [[-0.4185664]], "
        "[[-0.03766948]], [[-0.009104205, 0.001719671, -0.01143593, 0.006674881], [-0.02276051, "
        "-0.04840857, 0.2332808, -0.01372256]], [-0.02276051], [-0.1314392], [-0.04524447], "
        "[0.03641682, 0.1947459, -0.9559979, 0.08962784]",
        "use_peephole=false: 0, shape(0,1,1), [[1]], [[1]], fill(1, 2,4), shape(0), shape(0), "
        "shape(0), fill(1, 4), shape(0,1,1), shape(0,1,1), shape(0,1,1), shape(0,1,1), "
        "shape(0,1,1), shape(0,1,1), shape(0,1,1), shape(0,1,1), shape(0,1,1) -> shape(0,1,1), "
        "[[0]], [[0]], fill(0, 2,4), shape(0), shape(0), shape(0), fill(0, 4)"));
