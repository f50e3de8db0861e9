/* ops/nn/block_lstm.c -- BlockLSTM: a whole sequence through an LSTM cell in one op.
 *
 * Columns of w and b: input gate, candidate, forget gate, output gate.  Time steps from seq_len_max on are zeros.
 * All arithmetic is in float; half goes through it. */
#include "graph/infer.h"
#include "ops/linalg/gemm.h"
#include "ops/maths.h"
#include "run/run.h"

enum { SEQ, X, CS_PREV, H_PREV, W, WCI, WCF, WCO, B, N_IN };
enum { O_I, O_CS, O_F, O_O, O_CI, O_CO, O_H, N_OUT };

typedef struct lstm {
    mr_run *r;
    int64_t steps, batch, in, cell, seq;
    float forget_bias, clip;
    bool peephole;
    mr_tensor *x[N_IN];    /* inputs as float */
    mr_tensor *y[N_OUT];   /* outputs as float */
    mr_tensor *xh, *gates; /* [batch, in + cell], [batch, 4 cell] */
} lstm;

static mr_status *check_dims(const mr_tensor *t, const char *what, int rank, int64_t d0, int64_t d1)
{
    bool fits = t->rank == rank && (rank < 1 || t->dims[0] == d0) && (rank < 2 || t->dims[1] == d1);
    return fits ? NULL
                : mr_invalid("%s must have shape %s, got %s", what, MR_SHAPE_TEXT(rank, ((int64_t[]){d0, d1})), MR_TENSOR_SHAPE(t));
}

static mr_status *read_shapes(lstm *l)
{
    const mr_tensor *x = mr_in(l->r, X), *cs = mr_in(l->r, CS_PREV);
    if (x->rank != 3 || cs->rank != 2)
        return mr_invalid("x must have 3 dimensions and cs_prev 2, got %s and %s", MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(cs));
    l->steps = x->dims[0];
    l->batch = x->dims[1];
    l->in = x->dims[2];
    l->cell = cs->dims[1];
    int64_t rows, columns;
    if (!mr_i64_add(l->in, l->cell, &rows) || !mr_i64_mul(l->cell, 4, &columns))
        return mr_invalid("a cell of %lld units", (long long)l->cell);
    MR_TRY(check_dims(cs, "cs_prev", 2, l->batch, l->cell));
    MR_TRY(check_dims(mr_in(l->r, H_PREV), "h_prev", 2, l->batch, l->cell));
    MR_TRY(check_dims(mr_in(l->r, W), "w", 2, rows, columns));
    MR_TRY(check_dims(mr_in(l->r, B), "b", 1, columns, 0));
    for (int i = WCI; i <= WCO && l->peephole; i++)
        MR_TRY(check_dims(mr_in(l->r, i), "a peephole", 1, l->cell, 0));
    if (l->seq < 0 || l->seq > l->steps)
        return mr_invalid("seq_len_max is %lld, x has %lld time steps", (long long)l->seq, (long long)l->steps);
    return NULL;
}

static mr_status *to_float(mr_run *r, mr_tensor *t, mr_tensor **out)
{
    if (t->dtype == MR_FLOAT) {
        *out = mr_tensor_ref(t);
        return NULL;
    }
    MR_TRY(mr_run_temp(r, MR_FLOAT, t->rank, t->dims, out));
    mr_dtype_convert((mr_dtype)t->dtype, t->data, MR_FLOAT, (*out)->data, t->n, false);
    return NULL;
}

static mr_status *open_tensors(lstm *l)
{
    int64_t out[3] = {l->steps, l->batch, l->cell};
    for (int i = X; i < N_IN; i++)
        MR_TRY(to_float(l->r, mr_in(l->r, i), &l->x[i]));
    for (int i = 0; i < N_OUT; i++)
        MR_TRY(mr_tensor_zeros(mr_run_allocator(l->r), MR_FLOAT, 3, out, &l->y[i]));
    MR_TRY(mr_run_temp(l->r, MR_FLOAT, 2, (int64_t[]){l->batch, l->in + l->cell}, &l->xh));
    return mr_run_temp(l->r, MR_FLOAT, 2, (int64_t[]){l->batch, 4 * l->cell}, &l->gates);
}

/* One row of a batch at one time: g the gates' sums, cs0 the state before, y the outputs at their place. */
static void cell_row(const lstm *l, const float *g, const float *cs0, float *const y[N_OUT])
{
    int64_t n = l->cell;
    const float *b = MR_DATA(float, l->x[B]), *wci = MR_DATA(float, l->x[WCI]), *wcf = MR_DATA(float, l->x[WCF]),
                *wco = MR_DATA(float, l->x[WCO]);
    for (int64_t k = 0; k < n; k++) {
        float gi = g[k] + b[k], gf = g[2 * n + k] + b[2 * n + k] + l->forget_bias, go = g[3 * n + k] + b[3 * n + k];
        float i = mr_sigmoidf(gi + (l->peephole ? wci[k] * cs0[k] : 0));
        float f = mr_sigmoidf(gf + (l->peephole ? wcf[k] * cs0[k] : 0));
        float ci = mr_tanhf(g[n + k] + b[n + k]);
        float cs = ci * i + cs0[k] * f;
        if (l->clip > 0)
            cs = cs > l->clip ? l->clip : cs < -l->clip ? -l->clip : cs;
        float o = mr_sigmoidf(go + (l->peephole ? wco[k] * cs : 0)), co = mr_tanhf(cs);
        y[O_I][k] = i, y[O_CS][k] = cs, y[O_F][k] = f, y[O_O][k] = o, y[O_CI][k] = ci, y[O_CO][k] = co, y[O_H][k] = o * co;
    }
}

static mr_status *time_step(lstm *l, int64_t t)
{
    const float *x = MR_DATA(float, l->x[X]) + t * l->batch * l->in;
    const float *h = t ? MR_DATA(float, l->y[O_H]) + (t - 1) * l->batch * l->cell : MR_DATA(float, l->x[H_PREV]);
    const float *cs = t ? MR_DATA(float, l->y[O_CS]) + (t - 1) * l->batch * l->cell : MR_DATA(float, l->x[CS_PREV]);
    int64_t rows = l->in + l->cell;
    for (int64_t i = 0; i < l->batch; i++) {
        float *row = MR_DATA(float, l->xh) + i * rows;
        memcpy(row, x + i * l->in, sizeof(float) * (size_t)l->in);
        memcpy(row + l->in, h + i * l->cell, sizeof(float) * (size_t)l->cell);
    }
    mr_gemm_batch g = {.one = {.type = MR_FLOAT, .m = l->batch, .n = 4 * l->cell, .k = rows}, .n_batch = 1,
                       .a = l->xh->data, .b = l->x[W]->data, .a_n = l->xh->n, .b_n = l->x[W]->n, .c = l->gates->data};
    MR_TRY(mr_gemm_run(l->r, &g));
    for (int64_t i = 0; i < l->batch; i++) {
        float *y[N_OUT];
        for (int k = 0; k < N_OUT; k++)
            y[k] = MR_DATA(float, l->y[k]) + (t * l->batch + i) * l->cell;
        cell_row(l, MR_DATA(float, l->gates) + i * 4 * l->cell, cs + i * l->cell, y);
    }
    return NULL;
}

/* The results in the output's type. */
static mr_status *give(lstm *l)
{
    for (int i = 0; i < N_OUT; i++) {
        mr_tensor *out;
        if (mr_out_dtype(l->r, i) == MR_FLOAT) {
            mr_run_set(l->r, i, l->y[i]);
            l->y[i] = NULL;
            continue;
        }
        MR_TRY(mr_run_output(l->r, i, l->y[i]->rank, l->y[i]->dims, &out));
        mr_dtype_convert(MR_FLOAT, l->y[i]->data, (mr_dtype)out->dtype, out->data, out->n, false);
    }
    return NULL;
}

static mr_status *block_lstm(mr_run *r)
{
    lstm l = {.r = r};
    mr_status *st = NULL;
    MR_TRY(mr_node_get_float(r->node, "forget_bias", &l.forget_bias));
    MR_TRY(mr_node_get_float(r->node, "cell_clip", &l.clip));
    MR_TRY(mr_node_get_bool(r->node, "use_peephole", &l.peephole));
    MR_TRY(mr_in_scalar_int(r, SEQ, "seq_len_max", &l.seq));
    MR_TRY(read_shapes(&l));
    MR_GO(open_tensors(&l));
    for (int64_t t = 0; t < l.seq && l.batch * l.cell > 0; t++)
        MR_GO(time_step(&l, t));
    MR_GO(give(&l));
out:
    for (int i = 0; i < N_IN; i++)
        mr_tensor_unref(l.x[i]);
    for (int i = 0; i < N_OUT; i++)
        mr_tensor_unref(l.y[i]);
    mr_tensor_unref(l.xh);
    mr_tensor_unref(l.gates);
    return st;
}

static mr_status *block_lstm_shape(mr_infer *c)
{
    const mr_pshape *x, *b;
    MR_TRY(mr_infer_rank(c, c->in[X], 3, &x));
    MR_TRY(mr_infer_rank(c, c->in[B], 1, &b));
    int64_t four = mr_infer_dim(b, 0);
    if (four >= 0 && four % 4 != 0)
        return mr_invalid("the bias of %lld elements is not that of four gates", (long long)four);
    mr_pshape *out = mr_pshape_new(c->arena, 3);
    out->dims[0] = mr_infer_dim(x, 0);
    out->dims[1] = mr_infer_dim(x, 1);
    out->dims[2] = four < 0 ? -1 : four / 4;
    for (int i = 0; i < N_OUT; i++)
        c->out[i] = out;
    return NULL;
}

#define BLOCK_LSTM_TYPES(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

MR_OP(BlockLSTM,
    .doc      = "an LSTM cell over all time steps of x [time, batch, inputs]",
    .sig      = "seq_len_max: int64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T -> "
                "i: T, cs: T, f: T, o: T, ci: T, co: T, h: T",
    .attrs    = "forget_bias: float = 1; cell_clip: float = 3; use_peephole: bool = false; T: {half, float}",
    .shape    = block_lstm_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(block_lstm, BLOCK_LSTM_TYPES)),
    .examples = MR_EXAMPLES(
        /* all weights 0: gates 0.5 but for the forget gate's bias; the state fades */
        "int64 2, fill(1, 2,1,1), [[1]], [[0]], fill(0, 2,4), [0], [0], [0], [0, 0, 0, 0] -> "
        "[[[0.5]], [[0.5]]], [[[0.731]], [[0.534]]], [[[0.731]], [[0.731]]], [[[0.5]], [[0.5]]], [[[0]], [[0]]], "
        "[[[0.624]], [[0.489]]], [[[0.312]], [[0.244]]]",
        "int64 0, fill(1, 1,1,1), [[1]], [[0]], fill(0, 2,4), [0], [0], [0], [0, 0, 0, 0] -> "
        "[[[0]]], [[[0]]], [[[0]]], [[[0]]], [[[0]]], [[[0]]], [[[0]]]",
        "int64 3, fill(1, 2,1,1), [[1]], [[0]], fill(0, 2,4), [0], [0], [0], [0, 0, 0, 0] -> "
        "!INVALID_ARGUMENT seq_len_max is 3, x has 2 time steps"));
