/* ops/queue/gradient_sum.h -- adds gradients: whole tensors, or rows by index.
 *
 * Sparse gradients are merged like sorted lists: the indices of each must be ascending and distinct, as
 * TensorFlow assumes, and then those of the sum are, too.  Each row counts how many gradients touched
 * it. */
#ifndef MR_OPS_QUEUE_GRADIENT_SUM_H
#define MR_OPS_QUEUE_GRADIENT_SUM_H

#include "run/run.h"

typedef struct mr_gradient_sum { /* all zeros: nothing added yet */
    int64_t count;      /* gradients added */
    mr_tensor *values;  /* their sum */
    mr_tensor *indices; /* int64 vector, one per row of values; NULL: dense */
    mr_tensor *touched; /* int64 vector, gradients per row; NULL: 1 each */
} mr_gradient_sum;

void mr_gradient_sum_deinit(mr_gradient_sum *s); /* leaves zeros */
/* Adds a gradient, which is sparse if indices is not NULL.  Shapes must match, types must be numeric.  On
 * error the sum is unchanged. */
mr_status *mr_gradient_sum_add(mr_gradient_sum *s, mr_run *r, mr_tensor *values,
                               mr_tensor *indices);
/* Divides by the count; in a sparse sum, each row by the number of gradients that touched it. */
mr_status *mr_gradient_sum_average(mr_gradient_sum *s, mr_run *r);

#endif
