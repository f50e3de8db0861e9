/* store/example.h -- Example and SequenceExample messages, many at a time, as columns.
 *
 * A caller names the features it wants and their forms; each becomes tensors over all examples.
 *
 *     dense    values of one shape for each example; an open first dimension is padded to the longest
 *     sparse   indices, values and shape of a sparse tensor [example, position]
 *     ragged   all values in a row, and where the values of each example begin
 *
 * A feature of a SequenceExample's lists has one more dimension, its rows.  Given one example (a scalar)
 * instead of a batch, the results have no dimension of examples.  Error texts are TensorFlow's. */
#ifndef MR_STORE_EXAMPLE_H
#define MR_STORE_EXAMPLE_H

#include "base/pool.h"
#include "tensor/tensor.h"

typedef enum mr_feature_form {
    MR_FEATURE_DENSE,
    MR_FEATURE_SPARSE,
    MR_FEATURE_RAGGED,
} mr_feature_form;

typedef struct mr_feature { /* a requested feature */
    mr_sv key;
    mr_feature_form form;
    mr_dtype dtype;  /* MR_FLOAT, MR_INT64 or MR_STRING */
    mr_dtype splits; /* ragged: MR_INT32 or MR_INT64 */
    /* dense: the shape of one example, or of one row of a list; only the first dimension of an Example's feature may be
     * open */
    const mr_pshape *shape;
    /* dense: the value of a missing feature, with as many elements; with an open dimension, the one element to pad
     * with. NULL or empty: the feature is required. */
    const mr_tensor *fallback;
    bool missing_is_empty; /* dense, of a list: otherwise the feature is required */
} mr_feature;

typedef struct mr_feature_result { /* owned; NULL where the form has none */
    mr_tensor *values;
    mr_tensor *indices, *shape;       /* sparse */
    mr_tensor *splits, *outer_splits; /* ragged; outer: of lists */
    mr_tensor *lengths;               /* dense, of lists: rows of each example */
} mr_feature_result;

void mr_feature_results_free(mr_feature_result *r, int n); /* the tensors, not r */

typedef struct mr_examples {
    const mr_tensor *serialized; /* strings: a vector, or a scalar */
    const mr_tensor *names;      /* as many strings, for error messages; NULL or empty: no names */
    mr_allocator *alloc;         /* NULL: the CPU's */
    mr_pool *pool;               /* NULL: the calling thread does all work */
} mr_examples;

/* Fills out[0..n), which must be zeroed; it stays zeroed on an error. */
mr_status *mr_examples_parse(const mr_examples *x, const mr_feature *features, int n,
                             mr_feature_result *out);
/* The same for SequenceExamples: their context and their lists. */
mr_status *mr_sequences_parse(const mr_examples *x, const mr_feature *context, int n_context,
                              const mr_feature *lists, int n_lists, mr_feature_result *out_context,
                              mr_feature_result *out_lists);

#endif
