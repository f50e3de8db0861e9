/* ops/array/pad.h -- the paddings argument [rank, 2], which several ops have. */
#ifndef MR_OPS_ARRAY_PAD_H
#define MR_OPS_ARRAY_PAD_H

#include "ops/array/layout.h"

typedef struct mr_pads {
    int64_t before[MR_MAX_RANK], after[MR_MAX_RANK];
    int64_t dims[MR_MAX_RANK]; /* sizes of the padded tensor; their product is not checked yet */
} mr_pads;

/* INVALID_ARGUMENT when the paddings do not fit x, or one is negative. */
mr_status *mr_pads_read(const mr_tensor *x, const mr_tensor *paddings, mr_pads *out);
/* The shape function: input 0 with the paddings of input 1 added (sign 1) or removed (sign -1). */
mr_status *mr_pads_shape(mr_infer *c, int sign);

#endif
