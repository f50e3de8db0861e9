/* ops/broadcast.h -- reading operands of different shapes as if they had one.
 *
 * NumPy's rule: shapes are aligned at the right, a missing dimension is 1, and a dimension of 1 is
 * repeated to match.  A mr_broadcast walks the result in row-major order with one stride per
 * operand and dimension, 0 where the operand repeats.  Dimensions that all operands step through
 * alike are collapsed into one, so [8,1,28,28] + [8,16,28,28] is a walk of rank 3, and operands of
 * equal shape a walk of rank 1.
 *
 *     mr_broadcast b;
 *     mr_broadcast_init(&b);
 *     MR_TRY(mr_broadcast_add(&b, x->rank, x->dims));
 *     MR_TRY(mr_broadcast_add(&b, y->rank, y->dims));
 *     MR_TRY(mr_broadcast_collapse(&b));
 *     ... b.shape, b.n, mr_broadcast_offset(&b, 1, i)
 *
 * An mr_broadcast takes about 12 KB: put it on the stack of a kernel, not into a struct that is kept. */
#ifndef MR_OPS_BROADCAST_H
#define MR_OPS_BROADCAST_H

#include "tensor/shape.h"

#define MR_BROADCAST_OPERANDS 3

typedef struct mr_broadcast {
    int n_operands;
    int64_t n;      /* elements of the result */
    mr_shape shape; /* of the result */
    int rank;       /* of the collapsed walk; 0 when the result has one element */
    int64_t dims[MR_MAX_RANK];
    int64_t strides[MR_BROADCAST_OPERANDS][MR_MAX_RANK]; /* in elements */
    int ranks[MR_BROADCAST_OPERANDS];
    const int64_t *operands[MR_BROADCAST_OPERANDS]; /* borrowed shapes */
} mr_broadcast;

void mr_broadcast_init(mr_broadcast *b);
/* INVALID_ARGUMENT "Incompatible shapes: [2] vs. [3]".  dims are borrowed. */
mr_status *mr_broadcast_add(mr_broadcast *b, int rank, const int64_t *dims);
/* Prepares the walk; INVALID_ARGUMENT when the result has too many elements to count. */
mr_status *mr_broadcast_collapse(mr_broadcast *b);

/* True if the operand's elements correspond one to one to those of the result, so that they can be read in place. */
bool mr_broadcast_direct(const mr_broadcast *b, int operand);
/* The position of a walk at the start of a row (a run along the innermost dimension): the offset of each operand.
 * Moving to the next row is cheaper than computing the offsets again. */
typedef struct mr_broadcast_row {
    int64_t offsets[MR_BROADCAST_OPERANDS];
    int64_t index[MR_MAX_RANK];
} mr_broadcast_row;
void mr_broadcast_row_init(const mr_broadcast *b, int64_t row,
                           mr_broadcast_row *out); /* rank > 0 */
void mr_broadcast_row_next(const mr_broadcast *b, mr_broadcast_row *row);

/* The index of the operand's element that is used for element i of the result. */
int64_t mr_broadcast_offset(const mr_broadcast *b, int operand, int64_t i);
/* The same for n consecutive elements of the result. */
void mr_broadcast_offsets(const mr_broadcast *b, int operand, int64_t first, int64_t n,
                          int64_t *out);
/* The number of elements of the result after which the operand repeats; n if it never does. */
int64_t mr_broadcast_period(const mr_broadcast *b, int operand);
/* Copies the operand's values behind n consecutive elements of the result, starting with `first`,
 * from src (the operand) to dst (packed).  Elements have 1, 2, 4, 8 or 16 plain bytes. */
void mr_broadcast_gather(const mr_broadcast *b, int operand, size_t elem_bytes, const void *src,
                         int64_t first, int64_t n, void *dst);

/* n copies of one plain element. */
void mr_splat(void *dst, const void *value, size_t elem_bytes, int64_t n);

#endif
