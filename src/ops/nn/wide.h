/* ops/nn/wide.h -- 16-bit floats as floats, for kernels that are written for float and double only.
 *
 *     mr_wide x = {0}, y = {0};
 *     MR_GO(mr_wide_in(r, 0, &x));
 *     MR_GO(mr_wide_out(r, 0, 0, x.t->rank, x.t->dims, &y));
 *     ... x.t and y.t are float or double ...
 *     mr_wide_store(r, 0, &y);
 * out:
 *     mr_wide_deinit(&x), mr_wide_deinit(&y);
 *
 * What is float or double already is used as it is and costs nothing. */
#ifndef MR_OPS_NN_WIDE_H
#define MR_OPS_NN_WIDE_H

#include "run/run.h"

typedef struct mr_wide {
    mr_tensor *t; /* the tensor itself, or a float copy of it */
    bool copy;    /* then t is owned */
} mr_wide;

/* float for half and bfloat16, else the type itself. */
static inline mr_dtype mr_wide_type(mr_dtype t)
{
    return t == MR_HALF || t == MR_BFLOAT16 ? MR_FLOAT : t;
}

mr_status *mr_wide_in(mr_run *r, int i, mr_wide *out);
/* Room for output i, over input `in` (-1: none) where that may be overwritten. */
mr_status *mr_wide_out(mr_run *r, int in, int i, int rank, const int64_t *dims, mr_wide *out);
/* Brings output i into its own type once it is computed. */
void mr_wide_store(mr_run *r, int i, const mr_wide *y);
void mr_wide_deinit(mr_wide *w);

/* Replaces [batch, rows, cols] by [batch, cols, rows] (see ops/nn/layout.h). */
mr_status *mr_wide_turn(mr_run *r, mr_wide *w, int64_t batch, int64_t rows, int64_t cols);

/* mr_dtype_convert of whole tensors, split over threads. */
void mr_run_convert(mr_run *r, const mr_tensor *from, mr_tensor *to);

#endif
