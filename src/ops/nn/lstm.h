/* ops/nn/lstm.h -- the cell of a long short-term memory, of which the LSTM ops are made.
 *
 * With z = [x, h_prev] w + b, of four parts, and peepholes wci, wcf, wco (zero when not used):
 *     i  = sigmoid(z_i + wci cs_prev)                 ci = tanh(z_ci)
 *     f  = sigmoid(z_f + wcf cs_prev + forget_bias)
 *     cs = clip(i ci + f cs_prev)                     o  = sigmoid(z_o + wco cs)
 *     co = tanh(cs)                                   h  = o co
 * The parts of z stand in the order i, ci, f, o, in the V2 ops i, f, ci, o. */
#ifndef MR_OPS_NN_LSTM_H
#define MR_OPS_NN_LSTM_H

#include "ops/linalg/gemm.h"
#include "ops/nn/wide.h"

typedef struct mr_lstm {
    float forget_bias, clip; /* clip: of |cs|; 0: none */
    bool peephole;
    int ci, f; /* places of these parts in z; i is 0 and o is 3 */
} mr_lstm;
/* From the node's attrs; a name that ends in V2 tells the order. */
mr_status *mr_lstm_init(mr_make *m, void *state);

/* Sizes of a cell, and its weights: [inputs + cells, 4 cells], [4 cells], and three of [cells]. */
typedef struct mr_lstm_weights {
    int64_t batch, inputs, cells;
    const float *w, *b, *wci, *wcf, *wco;
    mr_tensor *packed_wh; /* the rows of w that h meets, packed for products; or NULL */
} mr_lstm_weights;
/* The rows of w that h meets; x meets those in front. */
static inline const float *mr_lstm_wh(const mr_lstm_weights *k)
{
    return k->w + k->inputs * 4 * k->cells;
}
/* The product of a step forward, h_prev with these rows, and of a step back. */
static inline mr_gemm mr_lstm_h_wh(const mr_lstm_weights *k)
{
    return (mr_gemm){MR_FLOAT, k->batch, 4 * k->cells, k->cells, .plus = true};
}
static inline mr_gemm mr_lstm_dz_wh(const mr_lstm_weights *k)
{
    return (mr_gemm){MR_FLOAT, k->batch, k->cells, 4 * k->cells, .tb = true};
}

/* Of one step, all [batch, cells]. */
typedef struct mr_lstm_step {
    const float *cs_prev, *h_prev;
    float *i, *cs, *f, *o, *ci, *co, *h;
} mr_lstm_step;
/* z, [batch, 4 cells], is x wx and becomes [x, h_prev] w. */
mr_status *mr_lstm_forward(mr_run *r, const mr_lstm *s, const mr_lstm_weights *k,
                           const mr_lstm_step *t, float *z);

/* The gradient of a step by z and cs_prev, from those of cs and h and what flows back from the next
 * step; adds those of the peepholes. */
typedef struct mr_lstm_back {
    const float *cs_grad, *h_grad; /* [batch, cells] */
    const float *h_back;
    float *cs_back;                        /* replaced by the gradient of cs_prev */
    float *dz;                             /* [batch, 4 cells] */
    float *wci_grad, *wcf_grad, *wco_grad; /* added to */
} mr_lstm_back;
void mr_lstm_backward(mr_run *r, const mr_lstm *s, const mr_lstm_weights *k, const mr_lstm_step *t,
                      const mr_lstm_back *g);

#endif
