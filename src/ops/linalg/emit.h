/* ops/linalg/emit.h -- emits nodes for the gradients of ops on matrices.
 *
 * Matrices are the last two dimensions; H means conjugated and transposed. */
#ifndef MR_OPS_LINALG_EMIT_H
#define MR_OPS_LINALG_EMIT_H

#include "graph/grad.h"

mr_out mr_mat_mul(mr_grad *g, mr_out a, mr_out b);    /* A B */
mr_out mr_mat_mul_h(mr_grad *g, mr_out a, mr_out b);  /* A B^H */
mr_out mr_mat_h_mul(mr_grad *g, mr_out a, mr_out b);  /* A^H B */
mr_out mr_mat_turn(mr_grad *g, mr_out a);             /* the transpose */
mr_out mr_mat_adjoint(mr_grad *g, mr_out a);          /* A^H */
mr_out mr_mat_band(mr_grad *g, mr_out a, int lower, int upper); /* MatrixBandPart */
/* A R^-H for an upper triangle R. */
mr_out mr_mat_over_upper_h(mr_grad *g, mr_out a, mr_out r);
/* A[..., from:to]; to < 0: to the end. */
mr_out mr_mat_columns(mr_grad *g, mr_out a, int64_t from, int64_t to);
/* x / (x^2 + tiny): 1 / x, and 0 at 0. */
mr_out mr_safe_reciprocal(mr_grad *g, mr_out x);
/* 1 / (e_j - e_i) off the diagonal, 0 on it. */
mr_out mr_mat_gaps(mr_grad *g, mr_out e);
/* Re x as a number of x's type. */
mr_out mr_real_part(mr_grad *g, mr_out x);
static inline mr_out mr_add(mr_grad *g, mr_out a, mr_out b) { return mr_emit(g->s, "AddV2", a, b); }
static inline mr_out mr_sub(mr_grad *g, mr_out a, mr_out b) { return mr_emit(g->s, "Sub", a, b); }
static inline mr_out mr_mul(mr_grad *g, mr_out a, mr_out b) { return mr_emit(g->s, "Mul", a, b); }

#endif
