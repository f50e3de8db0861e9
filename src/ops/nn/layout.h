/* ops/nn/layout.h -- where the channels of an image are: last (NHWC) or right after the batch (NCHW).
 *
 * Kernels are written for channels last, where one vector register holds neighbouring channels of
 * one pixel.  Images in the other layout are transposed before and after. */
#ifndef MR_OPS_NN_LAYOUT_H
#define MR_OPS_NN_LAYOUT_H

#include "run/run.h"

typedef enum mr_layout { MR_CHANNELS_LAST, MR_CHANNELS_FIRST } mr_layout;

/* Reads the attr data_format; NHWC if the node has none.  NCHW_VECT_C is UNIMPLEMENTED. */
mr_status *mr_layout_get(const mr_node *n, mr_layout *out);
/* The index of the channels, and of spatial dimension i, in an image of `rank` dimensions. */
static inline int mr_layout_channel(mr_layout l, int rank)
{
    return l == MR_CHANNELS_LAST ? rank - 1 : 1;
}
static inline int mr_layout_spatial(mr_layout l, int i)
{
    return l == MR_CHANNELS_LAST ? 1 + i : 2 + i;
}

/* Transposes [batch, rows, cols], with elements of 1, 2, 4, 8 or 16 bytes, to [batch, cols, rows].  With
 * pixels and channels as rows and cols this converts one layout to the other. */
void mr_run_turn(mr_run *r, const void *from, void *to, size_t bytes, int64_t batch, int64_t rows,
                 int64_t cols);

#endif
