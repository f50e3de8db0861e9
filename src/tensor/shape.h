/* tensor/shape.h -- sizes of dimensions, known and partly known.
 *
 * Known shapes travel as (rank, dims).  mr_shape is room for one on the stack; do not assign it (it
 * is 2 KB), copy with mr_shape_set.  mr_pshape is a partly known shape as shape inference uses it:
 * a rank of -1 is unknown, so is a dimension of -1; it is immutable and lives in an arena. */
#ifndef MR_TENSOR_SHAPE_H
#define MR_TENSOR_SHAPE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define MR_MAX_RANK 254

typedef struct mr_shape {
    int rank;
    int64_t dims[MR_MAX_RANK];
} mr_shape;

void mr_shape_set(mr_shape *s, int rank, const int64_t *dims);
/* Appends a dimension; RESOURCE_EXHAUSTED-free: INVALID_ARGUMENT when the rank gets too large. */
mr_status *mr_shape_push(mr_shape *s, int64_t dim);
bool mr_shape_eq(int rank_a, const int64_t *a, int rank_b, const int64_t *b);
/* Product of dims; INVALID_ARGUMENT when one is negative, the rank is too large or it overflows.
 * Dims of 0 do not save the others: [0, 2^62, 4] is refused, so the product of any part of a shape
 * fits. */
mr_status *mr_shape_elements(int rank, const int64_t *dims, int64_t *out);
/* "[2,3]", "[]". */
void mr_shape_print(mr_str *out, int rank, const int64_t *dims);
/* The same into a caller's buffer, cut with ".." when too long; returns buf. */
const char *mr_shape_text(char *buf, size_t n, int rank, const int64_t *dims);
#define MR_SHAPE_TEXT(rank, dims) mr_shape_text((char[200]){0}, 200, rank, dims)

/* NumPy's rule; INVALID_ARGUMENT "Incompatible shapes: [2] vs. [3]". */
mr_status *mr_shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b,
                              mr_shape *out);
/* Axis in [-rank, rank) to [0, rank). */
mr_status *mr_axis_resolve(int64_t axis, int rank, int *out);

/* ---- partly known ---- */
typedef struct mr_pshape {
    int rank; /* -1: unknown */
    int64_t dims[];
} mr_pshape;

extern const mr_pshape mr_pshape_unknown; /* rank -1 */
extern const mr_pshape mr_pshape_scalar;  /* rank 0 */

mr_pshape *mr_pshape_new(mr_arena *a, int rank); /* dims set to -1 */
const mr_pshape *mr_pshape_of(mr_arena *a, int rank, const int64_t *dims);
const mr_pshape *mr_pshape_vector(mr_arena *a, int64_t n);
const mr_pshape *mr_pshape_matrix(mr_arena *a, int64_t rows, int64_t cols);
bool mr_pshape_full(const mr_pshape *s); /* rank and all dims known */
bool mr_pshape_eq(const mr_pshape *a, const mr_pshape *b);
/* Could both describe one shape? */
bool mr_pshape_compatible(const mr_pshape *a, const mr_pshape *b);
/* The knowledge of both; INVALID_ARGUMENT when they contradict. */
mr_status *mr_pshape_merge(mr_arena *a, const mr_pshape *x, const mr_pshape *y,
                           const mr_pshape **out);
/* What holds for both (for Merge nodes and loop variables). */
const mr_pshape *mr_pshape_relax(mr_arena *a, const mr_pshape *x, const mr_pshape *y);
void mr_pshape_print(mr_str *out, const mr_pshape *s); /* "[?,3]", "<unknown>" */
const char *mr_pshape_text(char *buf, size_t n, const mr_pshape *s);
#define MR_PSHAPE_TEXT(s) mr_pshape_text((char[200]){0}, 200, s)

/* TensorShapeProto both ways.  mr_shape_decode takes known shapes only: an unknown rank or a
 * negative size is INVALID_ARGUMENT. */
mr_status *mr_pshape_decode(mr_arena *a, mr_sv bytes, const mr_pshape **out);
void mr_pshape_encode(const mr_pshape *s, mr_str *out);
mr_status *mr_shape_decode(mr_sv bytes, mr_shape *out);
void mr_shape_encode(int rank, const int64_t *dims, mr_str *out);

#endif
