/* store/example_table.h -- where the features of many examples are; private to example*.c.
 *
 * Parsing goes over each example twice. First its features are found and their values counted: a cell for each example
 * and requested feature records where. Then all sizes are known, the results are allocated once, and each value is
 * decoded to where it belongs. Both passes are split over threads by example. */
#ifndef MR_STORE_EXAMPLE_TABLE_H
#define MR_STORE_EXAMPLE_TABLE_H

#include "base/map.h"
#include "base/thread.h"
#include "store/example.h"
#include "wire/pb.h"

typedef struct mr_feature_cell {
    mr_sv bytes;         /* the Feature or FeatureList; for an Example, its list once the values are counted */
    int64_t n, at;       /* number of values, and of values before them in a sparse or ragged result */
    int64_t rows, row_at; /* of lists */
    bool present;
} mr_feature_cell;

typedef struct mr_feature_table {
    const mr_examples *x;
    const mr_feature *features;
    int n;
    int64_t n_examples;
    bool batch;     /* false: a single example */
    bool sequences; /* of SequenceExamples: an empty feature counts as present */
    mr_map keys;    /* to the feature's number + 1 */
    mr_feature_cell *cells; /* [example][feature] */
} mr_feature_table;

mr_status *mr_feature_table_init(mr_feature_table *t, const mr_examples *x,
                                 const mr_feature *features, int n, bool sequences);
void mr_feature_table_deinit(mr_feature_table *t);
static inline mr_feature_cell *mr_feature_row(const mr_feature_table *t, int64_t example)
{
    return t->cells + example * t->n;
}

/* Fills the cells of an example: field k + 1 of the message belongs to tables[k]. false: the message is malformed. */
bool mr_features_find(mr_feature_table *const *tables, int n_tables, int64_t example);

/* ---- one Feature ---- */
/* Which list it holds (MR_INVALID: none), and the bytes of that list; false if it has another field. */
bool mr_feature_open(mr_sv feature, mr_dtype *kind, mr_sv *list);
/* The number of values; -1 if the list is malformed. Some malformed lists are only detected by mr_feature_decode. */
int64_t mr_feature_count(mr_dtype kind, mr_sv list);
/* Decodes exactly n values to position `at`; false if the list does not hold n values. *st is set if memory runs
 * out. */
bool mr_feature_decode(mr_dtype kind, mr_sv list, mr_tensor *to, int64_t at, int64_t n,
                       mr_status **st);

/* ---- the rest ---- */
mr_sv mr_example_name(const mr_examples *x, int64_t example); /* "<unknown>" if it has no name */
/* The number of elements of a dense feature's shape, without an open first dimension; 1 for other forms. */
int64_t mr_feature_stride(const mr_feature *f, bool *open);
mr_status *mr_feature_missing(const mr_feature *f); /* "Feature: .. is required but .." */

/* Calls fn for each example, on several threads. If several fail, returns the error of the first example. */
typedef mr_status *(*mr_example_fn)(void *ctx, int64_t example);
mr_status *mr_examples_each(const mr_examples *x, mr_example_fn fn, void *ctx);

/* Allocates values, indices [n, rank] and shape [rank] of a sparse result. */
mr_status *mr_feature_new_sparse(const mr_examples *x, mr_dtype dtype, int64_t n, int rank,
                                 mr_feature_result *out);
mr_status *mr_feature_new_splits(const mr_examples *x, mr_dtype type, int64_t n, mr_tensor **out);
/* INVALID_ARGUMENT if v does not fit. */
mr_status *mr_feature_set_split(mr_tensor *splits, int64_t i, int64_t v);

#endif
