/* ops/nn/lanes.h -- unaligned vectors of floats and doubles, and the types of comparisons of two of
 * them. */
#ifndef MR_OPS_NN_LANES_H
#define MR_OPS_NN_LANES_H

#include <math.h>
#include <stdint.h>

typedef float mr_v8f __attribute__((vector_size(32), aligned(4), may_alias));
typedef double mr_v4d __attribute__((vector_size(32), aligned(8), may_alias));
typedef int32_t mr_v8i __attribute__((vector_size(32), aligned(4), may_alias));
typedef int64_t mr_v4i __attribute__((vector_size(32), aligned(8), may_alias));

#endif
