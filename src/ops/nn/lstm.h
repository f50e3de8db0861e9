/* ops/nn/lstm.h -- the cell of a long short-term memory, which all LSTM ops use.
 *
 * With z = [x, h_prev] w + b, which has four parts, and peepholes wci, wcf, wco (zero if not used):
 *     i  = sigmoid(z_i + wci cs_prev)                 ci = tanh(z_ci)
 *     f  = sigmoid(z_f + wcf cs_prev + forget_bias)
 *     cs = clip(i ci + f cs_prev)                     o  = sigmoid(z_o + wco cs)
 *     co = tanh(cs)                                   h  = o co
 * The order of the parts of z is i, ci, f, o; in the V2 ops it is i, f, ci, o. */
#ifndef MR_OPS_NN_LSTM_H
#define MR_OPS_NN_LSTM_H

#include "ops/linalg/gemm.h"
#include "ops/nn/wide.h"

typedef struct mr_lstm {
    float forget_bias, clip; /* clip: limit of |cs|; 0: none */
    bool peephole;
    int ci, f; /* places of these parts in z; i is 0 and o is 3 */
} mr_lstm;
/* Reads the node's attrs; the name of the op determines the order (V2 or not). */
mr_status *mr_lstm_init(mr_make *m, void *state);

/* Sizes of a cell, and its weights: [inputs + cells, 4 cells], [4 cells], and three of [cells]. */
typedef struct mr_lstm_weights {
    int64_t batch, inputs, cells;
    const float *w, *b, *wci, *wcf, *wco;
    mr_tensor *packed_wh; /* the rows of w that multiply h, packed for products; or NULL */
} mr_lstm_weights;
/* The rows of w that multiply h; the rows before them multiply x. */
static inline const float *mr_lstm_wh(const mr_lstm_weights *k)
{
    return k->w + k->inputs * 4 * k->cells;
}
/* The product of h_prev with these rows (forward step), and of dz with their transpose (backward step). */
static inline mr_gemm mr_lstm_h_wh(const mr_lstm_weights *k)
{
    return (mr_gemm){MR_FLOAT, k->batch, 4 * k->cells, k->cells, .plus = true};
}
static inline mr_gemm mr_lstm_dz_wh(const mr_lstm_weights *k)
{
    return (mr_gemm){MR_FLOAT, k->batch, k->cells, 4 * k->cells, .tb = true};
}

/* The arrays of one step, all [batch, cells]. */
typedef struct mr_lstm_step {
    const float *cs_prev, *h_prev;
    float *i, *cs, *f, *o, *ci, *co, *h;
} mr_lstm_step;
/* Runs one step.  z, [batch, 4 cells], holds x wx on entry and [x, h_prev] w on return. */
mr_status *mr_lstm_forward(mr_run *r, const mr_lstm *s, const mr_lstm_weights *k,
                           const mr_lstm_step *t, float *z);

/* The gradients of a step by z and cs_prev, from the gradients of cs and h and those that flow back from
 * the next step; the gradients of the peepholes are added up. */
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
