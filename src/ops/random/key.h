/* ops/random/key.h -- where the streams of stateless ops and of generators in variables begin.
 *
 * A seed of two integers is scrambled into a key and a counter by one round of Philox, as in
 * TensorFlow, so that similar seeds give unrelated streams.  The V2 ops take key, counter and algorithm
 * instead.  A generator in a variable is a vector of int64: two for the counter, one for the key. */
#ifndef MR_OPS_RANDOM_KEY_H
#define MR_OPS_RANDOM_KEY_H

#include "graph/infer.h"
#include "ops/random/philox.h"

enum { MR_ALG_PHILOX = 1, MR_ALG_THREEFRY = 2, MR_ALG_AUTO = 3 };

/* The stream of the seed in input i; INVALID_ARGUMENT unless its shape is [2]. */
mr_status *mr_seed_stream(const mr_run *r, int i, mr_philox *out);
mr_status *mr_seed_infer(mr_infer *c, int i);
/* For shape functions: input 0 is the output's shape, input 1 is a seed. */
mr_status *mr_seed_shape(mr_infer *c);

/* The stream of inputs i, i + 1, i + 2: key [1], counter [2] and algorithm. */
mr_status *mr_key_stream(const mr_run *r, int i, mr_philox *out);
mr_status *mr_key_infer(mr_infer *c, int i);

/* The stream of the generator in the variable of input 0, which this advances by n outputs of 256 blocks
 * each.  first: where the state begins in the vector.  If old is not NULL, it gets the three numbers of the
 * state before the change. */
mr_status *mr_generator_take(mr_run *r, int64_t alg, int first, uint64_t n, mr_philox *out,
                             int64_t *old);
/* Reads the algorithm, a scalar, from input i. */
mr_status *mr_in_algorithm(const mr_run *r, int i, int64_t *out);

#endif
