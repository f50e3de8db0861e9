/* ops/parse/features.h -- what the ops that parse examples have in common: reading the attrs that say
 * which features are wanted, and laying the results out as outputs.
 *
 * A group is the features of an Example, or of the context or the lists of a SequenceExample.  Its
 * features stand in the order sparse, dense, ragged. */
#ifndef MR_OPS_PARSE_FEATURES_H
#define MR_OPS_PARSE_FEATURES_H

#include "graph/infer.h"
#include "run/run.h"
#include "store/example.h"

typedef struct mr_feature_group {
    int n_sparse, n_dense, n_ragged;
    const mr_attr *sparse_types, *dense_types, *dense_shapes, *ragged_types, *split_types;
    bool of_lists; /* a dense result has an open dimension of rows in front of its shape */
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

/* Types and shapes of all features into out, zeroed; keys and defaults are the caller's to set. */
void mr_feature_group_list(const mr_feature_group *g, mr_feature *out);
/* The strings of input `in`, which must be n, as keys. */
mr_status *mr_feature_keys_vector(const mr_run *r, int in, const char *what, int n, mr_feature *out);
/* One string each of inputs first.. */
mr_status *mr_feature_keys_scalars(const mr_run *r, int first, const char *what, int n,
                                   mr_feature *out);
void mr_feature_keys_attr(const mr_attr *keys, mr_feature *out);
/* Inputs first.. are the defaults of the dense features; INVALID_ARGUMENT when they do not fit. */
mr_status *mr_feature_defaults(const mr_run *r, int first, const mr_feature_group *g,
                               mr_feature *dense);
/* The second input: names of the examples, or none. */
mr_status *mr_example_names(const mr_run *r, int in, const mr_tensor *serialized,
                            const mr_tensor **out);

/* Outputs from *out on: indices, values, shapes of sparse ones, then dense ones, ragged ones; the results
 * give them away.  `lengths`: those of dense lists follow them. */
void mr_feature_group_give(mr_run *r, const mr_feature_group *g, mr_feature_result *results,
                           bool lengths, int *out);
/* The same for a shape function; `rank` of serialized, -1: not known. */
mr_status *mr_feature_group_shape(mr_infer *c, const mr_feature_group *g, int rank, int64_t batch,
                                  bool lengths, int *out);

#endif
