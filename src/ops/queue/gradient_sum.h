/* ops/queue/gradient_sum.h -- gradients added up: whole tensors, or rows by index.
 *
 * Sparse gradients are merged like sorted lists: indices are taken to be ascending and without
 * repetition, as TensorFlow takes them, and then the sum's are so too.  Each row counts how many
 * gradients touched it. */
#ifndef MR_OPS_QUEUE_GRADIENT_SUM_H
#define MR_OPS_QUEUE_GRADIENT_SUM_H

#include "run/run.h"

typedef struct mr_gradient_sum { /* all zeros: nothing added yet */
    int64_t count;      /* gradients added */
    mr_tensor *values;  /* their sum */
    mr_tensor *indices; /* int64 vector, one a row of values; NULL: dense */
    mr_tensor *touched; /* int64 vector, likewise: gradients a row; NULL: 1 each */
} mr_gradient_sum;

void mr_gradient_sum_deinit(mr_gradient_sum *s); /* leaves zeros */
/* Adds a gradient, sparse when there are indices.  Shapes must fit, types must be numbers.  On
 * error the sum is as before. */
mr_status *mr_gradient_sum_add(mr_gradient_sum *s, mr_run *r, mr_tensor *values,
                               mr_tensor *indices);
/* Divides by the count, a sparse sum row by row by how many touched it. */
mr_status *mr_gradient_sum_average(mr_gradient_sum *s, mr_run *r);

#endif
