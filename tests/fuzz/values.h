/* tests/fuzz/values.h -- random element types, shapes, tensors and attrs.
 *
 * Uniformly random values find little: most tensors created here are small, have similar shapes, and hold either small
 * numbers or limits of their type, because that is where kernels fail. */
#ifndef MR_TESTS_FUZZ_VALUES_H
#define MR_TESTS_FUZZ_VALUES_H

#include "graph/graph.h"
#include "tests/fuzz/random.h"

mr_dtype fuzz_dtype(fuzz_rng *r); /* any valid one */
int64_t fuzz_dim(fuzz_rng *r);    /* small, often 0 or 1 */
void fuzz_shape(fuzz_rng *r, mr_shape *out);
/* At most this many elements, by making dims smaller. */
void fuzz_shape_limit(mr_shape *s, int64_t most);

/* A tensor with random values; owned. */
mr_tensor *fuzz_tensor(fuzz_rng *r, mr_dtype t, int rank, const int64_t *dims);
mr_tensor *fuzz_any_tensor(fuzz_rng *r, mr_dtype t); /* of random shape */
/* Something like t: other values here and there, another shape, another type, part of a larger one.
 */
mr_tensor *fuzz_tensor_like(fuzz_rng *r, const mr_tensor *t);
void fuzz_string(fuzz_rng *r, mr_str *out);

/* A partial shape that a client may know: all of it, a part, only the rank, nothing. */
const mr_pshape *fuzz_pshape_of(fuzz_rng *r, mr_arena *a, int rank, const int64_t *dims);
const mr_pshape *fuzz_pshape(fuzz_rng *r, mr_arena *a);

/* A value for an attr: mostly one its definition allows.  Tensors in it are appended to held. */
mr_attr fuzz_attr(fuzz_rng *r, mr_arena *a, const mr_attr_def *d, mr_tensor_vec *held);

#endif
