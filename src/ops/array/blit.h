/* ops/array/blit.h -- moves a block of elements from one layout to another.
 *
 * Most ops of this folder only move elements: a block of the input, walked with some strides, lands
 * in a block of the output, walked with others.  Transpose gives the dimensions another order,
 * Slice and Concat name a part of a tensor, Tile steps by 0 through what it repeats, Reverse steps
 * backwards. An op says which dimensions there are; how to walk them fast is found out here, once:
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

/* Dimensions of size 1 are not kept, and no block of more than 62 others fits in 2^63 elements. */
#define MR_BLIT_RANK 64

typedef struct mr_blit {
    int rank;
    bool empty; /* some dimension is 0 */
    int64_t dims[MR_BLIT_RANK];
    int64_t from[MR_BLIT_RANK],
        to[MR_BLIT_RANK]; /* strides in elements; may be negative, from also 0 */
} mr_blit;

static inline void mr_blit_init(mr_blit *b)
{
    b->rank = 0;
    b->empty = false;
}
void mr_blit_dim(mr_blit *b, int64_t size, int64_t from, int64_t to);

/* Moves the block; `at` and `from` are where its first element goes to and comes from.  Every
 * element of dst may be named only once, dst and src must not share memory.  Large blocks are split
 * over the device's threads; r may be NULL: then they are not.  In memory of a device it is a kernel's work
 * (UNIMPLEMENTED beyond 8 dimensions); in host memory only strings can fail: RESOURCE_EXHAUSTED. */
mr_status *mr_blit_copy(mr_run *r, const mr_blit *b, mr_tensor *dst, int64_t at, const mr_tensor *src,
                  int64_t from);
/* The same from one value of a plain type; the strides `from` must be 0. */
mr_status *mr_blit_fill(mr_run *r, const mr_blit *b, mr_tensor *dst, int64_t at, const void *value);

/* n elements in a row. */
mr_status *mr_move(mr_run *r, mr_tensor *dst, int64_t at, const mr_tensor *src, int64_t from, int64_t n);
/* n times one value of a plain type. */
mr_status *mr_move_fill(mr_run *r, mr_tensor *dst, int64_t at, const void *value, int64_t n);

#endif
