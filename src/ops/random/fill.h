/* ops/random/fill.h -- fills tensors with random numbers of a stream, as TensorFlow does: the stateful
 * ops, those with a generator in a variable and the stateless ones differ only in where the stream
 * begins. */
#ifndef MR_OPS_RANDOM_FILL_H
#define MR_OPS_RANDOM_FILL_H

#include "ops/random/philox.h"

typedef enum mr_draw_kind {
    MR_UNIFORM,      /* [0, 1) */
    MR_NORMAL,
    MR_TRUNCATED,    /* normal, within two deviations */
    MR_INTEGER,      /* lo and the range - 1 numbers after it */
    MR_FULL_INTEGER, /* all values of the type */
} mr_draw_kind;

typedef struct mr_draw {
    mr_draw_kind kind;
    int64_t lo; /* lower bound of integers; for uint64, its bits */
    uint64_t range;
} mr_draw;

/* Fills a tensor of a floating type, or of integers of 32 or 64 bits. */
void mr_random_fill(mr_run *r, const mr_draw *draw, mr_philox start, mr_tensor *out);
/* Makes an MR_INTEGER of the scalar inputs i (minval) and i + 1 (maxval).  maxval must be larger, unless
 * `empty` says that there is nothing to draw. */
mr_status *mr_draw_integers(const mr_run *r, int i, bool empty, mr_draw *out);

#endif
