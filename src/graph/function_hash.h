/* graph/function_hash.h -- the hash of a function that TensorFlow's C API appends to names. */
#ifndef MR_GRAPH_FUNCTION_HASH_H
#define MR_GRAPH_FUNCTION_HASH_H

#include "base/str.h"

/* Hashes a FunctionDef before it has a name. The order of nodes, attrs and control inputs does not matter, nor do attrs
 * that begin with '_'. */
mr_status *mr_function_hash(mr_sv function_def, uint64_t *out);

#endif
