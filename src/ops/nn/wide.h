/* ops/nn/wide.h -- converts 16-bit floats to float, for kernels that support only float and double.
 *
 *     mr_wide x = {0}, y = {0};
 *     MR_GO(mr_wide_in(r, 0, &x));
 *     MR_GO(mr_wide_out(r, 0, 0, x.t->rank, x.t->dims, &y));
 *     ... x.t and y.t are float or double ...
 *     mr_wide_store(r, 0, &y);
 * out:
 *     mr_wide_deinit(&x), mr_wide_deinit(&y);
 *
 * Tensors of float or double are used directly and cost nothing. */
#ifndef MR_OPS_NN_WIDE_H
#define MR_OPS_NN_WIDE_H

#include "run/run.h"

typedef struct mr_wide {
    mr_tensor *t; /* the tensor itself, or a float copy of it */
    bool copy;    /* t is a copy, which this owns */
} mr_wide;

/* float for half and bfloat16, else the type itself. */
static inline mr_dtype mr_wide_type(mr_dtype t)
{
    return t == MR_HALF || t == MR_BFLOAT16 ? MR_FLOAT : t;
}

mr_status *mr_wide_in(mr_run *r, int i, mr_wide *out);
/* Allocates output i, in the memory of input `in` (-1: none) if that may be overwritten. */
mr_status *mr_wide_out(mr_run *r, int in, int i, int rank, const int64_t *dims, mr_wide *out);
/* Converts output i to its type after it is computed. */
void mr_wide_store(mr_run *r, int i, const mr_wide *y);
void mr_wide_deinit(mr_wide *w);

/* Replaces [batch, rows, cols] by [batch, cols, rows] (see ops/nn/layout.h). */
mr_status *mr_wide_turn(mr_run *r, mr_wide *w, int64_t batch, int64_t rows, int64_t cols);

/* mr_dtype_convert for whole tensors, split over threads. */
void mr_run_convert(mr_run *r, const mr_tensor *from, mr_tensor *to);

#endif
