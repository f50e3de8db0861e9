/* ops/array/blit.h -- moves a block of elements from one layout to another.
 *
 * Most ops of this folder only move elements: a block of the input, walked with some strides, is copied to a block
 * of the output, walked with others. Transpose changes the order of dimensions, Slice and Concat select a part of a
 * tensor, Tile uses a stride of 0 for repeated elements, Reverse walks backwards. An op declares the dimensions;
 * this file finds a fast way to walk them:
 *
 *     mr_blit b;
 *     mr_blit_init(&b);
 *     mr_blit_dim(&b, rows, 1, rows_of_output_stride);     in any order
 *     mr_blit_dim(&b, cols, rows, 1);
 *     mr_blit_copy(r, &b, output, 0, input, 0);
 *
 * The type does not matter: plain elements are moved by size, strings and handles by
 * mr_tensor_try_copy_elements. */
#ifndef MR_OPS_ARRAY_BLIT_H
#define MR_OPS_ARRAY_BLIT_H

#include "run/run.h"

/* Dimensions of size 1 are dropped, and no block with more than 62 others fits into 2^63 elements. */
#define MR_BLIT_RANK 64

typedef struct mr_blit {
    int rank;
    bool empty; /* some dimension has size 0 */
    int64_t dims[MR_BLIT_RANK];
    int64_t from[MR_BLIT_RANK],
        to[MR_BLIT_RANK]; /* strides in elements; may be negative, `from` also 0 */
} mr_blit;

static inline void mr_blit_init(mr_blit *b)
{
    b->rank = 0;
    b->empty = false;
}
void mr_blit_dim(mr_blit *b, int64_t size, int64_t from, int64_t to);

/* Moves the block; its first element is copied from element `from` of src to element `at` of dst. Each element of
 * dst may be written only once, and dst and src must not share memory. Large blocks are split over the device's
 * threads, unless r is NULL. On an accelerator a kernel does it (UNIMPLEMENTED beyond 8 dimensions); in host memory
 * only strings can fail: RESOURCE_EXHAUSTED. */
mr_status *mr_blit_copy(mr_run *r, const mr_blit *b, mr_tensor *dst, int64_t at, const mr_tensor *src,
                  int64_t from);
/* The same with one value of a plain type as the source; the strides `from` must be 0. */
mr_status *mr_blit_fill(mr_run *r, const mr_blit *b, mr_tensor *dst, int64_t at, const void *value);

/* Copies n consecutive elements. */
mr_status *mr_move(mr_run *r, mr_tensor *dst, int64_t at, const mr_tensor *src, int64_t from, int64_t n);
/* Writes one value of a plain type n times. */
mr_status *mr_move_fill(mr_run *r, mr_tensor *dst, int64_t at, const void *value, int64_t n);

#endif
