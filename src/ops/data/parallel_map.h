/* ops/data/parallel_map.h -- calls a function for many elements at once; a consumer takes the results one by one.
 *
 * Elements that take long: a thread reads the input and starts calls, at most `most` of which are running or waiting to
 * be taken. Cheap elements are made when the consumer asks for them, by the consumer itself and, if it asks for many, by
 * up to most - 1 threads beside it, each with a run of consecutive elements. Which of the two is measured as they are
 * made. Results are in the order of the input or, if the order does not matter, in the order of completion. */
#ifndef MR_OPS_DATA_PARALLEL_MAP_H
#define MR_OPS_DATA_PARALLEL_MAP_H

#include "ops/data/dataset.h"

typedef struct mr_parallel_map mr_parallel_map;

typedef struct mr_parallel_map_spec {
    mr_dataset *dataset;  /* the dataset of the function; referenced */
    const mr_data_fn *fn; /* the dataset's */
    int input;            /* index of the input that is read */
    int n_rets;           /* results of fn */
    int64_t most;
    bool in_order;
    bool keeps_args; /* the result is the element, followed by the results of fn */
    bool keeps_count;
} mr_parallel_map_spec;

mr_status *mr_parallel_map_new(mr_iterator *it, const mr_parallel_map_spec *s, mr_parallel_map **out);
/* Starts the thread at the first call. out: n_rets tensors; with keeps_args those of the element come first. a: NULL,
 * or the attempt that this is part of. */
mr_status *mr_parallel_map_next(mr_parallel_map *m, mr_attempt *a, mr_tensor **out, bool *end);
/* As mr_iterator_next_block. */
mr_status *mr_parallel_map_next_block(mr_parallel_map *m, int64_t most, mr_tensor **out, int64_t *n, bool *end);
void mr_parallel_map_close(mr_parallel_map *m); /* cancels and does not wait; NULL is fine */
/* Interprets num_parallel_calls: -1 means one per core; INVALID_ARGUMENT below 1. */
mr_status *mr_parallel_calls(int64_t n, int64_t *out);

#endif
