/* ops/random/fill.h -- tensors filled with random numbers of a stream, as TensorFlow fills them:
 * the stateful ops, those over generators in variables and the stateless ones differ only in
 * where the stream begins. */
#ifndef MR_OPS_RANDOM_FILL_H
#define MR_OPS_RANDOM_FILL_H

#include "ops/random/philox.h"

typedef enum mr_draw_kind {
    MR_UNIFORM,      /* [0, 1) */
    MR_NORMAL,
    MR_TRUNCATED,    /* normal, at most two deviations away */
    MR_INTEGER,      /* of lo and the range - 1 numbers behind it */
    MR_FULL_INTEGER, /* any */
} mr_draw_kind;

typedef struct mr_draw {
    mr_draw_kind kind;
    int64_t lo; /* of integers; of uint64 its bits */
    uint64_t range;
} mr_draw;

/* Fills a tensor of a floating type, or of integers of 32 or 64 bits. */
void mr_random_fill(mr_run *r, const mr_draw *draw, mr_philox start, mr_tensor *out);
/* MR_INTEGER by the scalar inputs i, minval, and i + 1, maxval, which must be larger unless there
 * is nothing to draw. */
mr_status *mr_draw_integers(const mr_run *r, int i, bool empty, mr_draw *out);

#endif
