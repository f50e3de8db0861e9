/* ops/nn/gelu.h -- GELU in three spellings, and swish, over arrays; x and y may be the same. */
#ifndef MR_OPS_NN_GELU_H
#define MR_OPS_NN_GELU_H

#include <stdint.h>

void mr_gelu_tanh_f(int64_t n, const float *x, float *y);
void mr_gelu_erf_f(int64_t n, const float *x, float *y);
void mr_gelu_sigmoid_f(int64_t n, const float *x, float *y);
void mr_swish_f(int64_t n, const float *x, float *y);

#endif
