/* graph/int_ops.h -- rules for propagating known integers through ops (graph/known_value.h). */
#ifndef MR_GRAPH_INT_OPS_H
#define MR_GRAPH_INT_OPS_H

#include "graph/known_value.h"

/* int32 and int64: what shapes and axes are made of. */
static inline bool mr_ints_type(int type) { return type == MR_INT32 || type == MR_INT64; }
/* NULL if there is no rule for the op, or nothing is known. */
const mr_ints *mr_ints_compute(mr_known *k, mr_out o);

/* An output's value by the evaluator or from a Const; of known_value.c. */
mr_tensor *mr_known_whole(mr_known *k, mr_out o);

#endif
