/* ops/parse/features.h -- code that the ops that parse examples share: it reads the attrs that say which
 * features are wanted, and assigns the results to outputs.
 *
 * A group is the features of an Example, or of the context or the lists of a SequenceExample.  The order
 * of its features is sparse, dense, ragged. */
#ifndef MR_OPS_PARSE_FEATURES_H
#define MR_OPS_PARSE_FEATURES_H

#include "graph/infer.h"
#include "run/run.h"
#include "store/example.h"

typedef struct mr_feature_group {
    int n_sparse, n_dense, n_ragged;
    const mr_attr *sparse_types, *dense_types, *dense_shapes, *ragged_types, *split_types;
    bool of_lists; /* a dense result has an unknown dimension of rows before its shape */
} mr_feature_group;

typedef struct mr_feature_attrs { /* names of attrs; NULL: the op has none */
    const char *sparse_types, *dense_types, *dense_shapes, *ragged_types, *split_types;
} mr_feature_attrs;

/* Reads and checks the attrs. */
mr_status *mr_feature_group_init(mr_feature_group *g, const mr_node *n, const mr_feature_attrs *a,
                                 bool of_lists);
static inline int mr_feature_group_size(const mr_feature_group *g)
{
    return g->n_sparse + g->n_dense + g->n_ragged;
}

/* Sets the types and shapes of all features in out, which is zeroed; the caller sets keys and defaults. */
void mr_feature_group_list(const mr_feature_group *g, mr_feature *out);
/* Reads the keys from input `in`, a vector that must have n strings. */
mr_status *mr_feature_keys_vector(const mr_run *r, int in, const char *what, int n, mr_feature *out);
/* Reads the keys from the n inputs from `first` on, one string each. */
mr_status *mr_feature_keys_scalars(const mr_run *r, int first, const char *what, int n,
                                   mr_feature *out);
void mr_feature_keys_attr(const mr_attr *keys, mr_feature *out);
/* Reads the defaults of the dense features from the inputs from `first` on; INVALID_ARGUMENT if a type or
 * shape is wrong. */
mr_status *mr_feature_defaults(const mr_run *r, int first, const mr_feature_group *g,
                               mr_feature *dense);
/* Reads input `in`: the names of the examples, or none. */
mr_status *mr_example_names(const mr_run *r, int in, const mr_tensor *serialized,
                            const mr_tensor **out);

/* Sets the outputs from *out on: indices, values and shapes of sparse features, then dense ones, then ragged
 * ones.  Moves the tensors out of the results.  If `lengths`, the lengths of dense lists follow them. */
void mr_feature_group_give(mr_run *r, const mr_feature_group *g, mr_feature_result *results,
                           bool lengths, int *out);
/* The same for a shape function; rank: that of serialized, -1 if unknown. */
mr_status *mr_feature_group_shape(mr_infer *c, const mr_feature_group *g, int rank, int64_t batch,
                                  bool lengths, int *out);

#endif
