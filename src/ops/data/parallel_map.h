/* ops/data/parallel_map.h -- a function called for many elements at once, its results taken one by one.
 *
 * A thread reads the input and starts calls, at most `most` of which are under way or waiting to be
 * taken.  Results come in the order of the input or, where that does not matter, as they are ready. */
#ifndef MR_OPS_DATA_PARALLEL_MAP_H
#define MR_OPS_DATA_PARALLEL_MAP_H

#include "ops/data/dataset.h"

typedef struct mr_parallel_map mr_parallel_map;

typedef struct mr_parallel_map_spec {
    mr_dataset *dataset;  /* whose function it is; referenced */
    const mr_data_fn *fn; /* the dataset's */
    int input;            /* which of its inputs is read */
    int n_rets;           /* results of fn */
    int64_t most;
    bool in_order;
    bool keeps_args; /* what is taken is the element, then the results */
    bool keeps_count;
} mr_parallel_map_spec;

mr_status *mr_parallel_map_new(mr_iterator *it, const mr_parallel_map_spec *s, mr_parallel_map **out);
/* Starts at the first call.  out: n_rets tensors, with keeps_args those of the element before them. */
mr_status *mr_parallel_map_next(mr_parallel_map *m, mr_tensor **out, bool *end);
void mr_parallel_map_close(mr_parallel_map *m); /* cancels and does not wait; NULL is fine */
/* The value of num_parallel_calls: -1 is one a core; INVALID_ARGUMENT below 1. */
mr_status *mr_parallel_calls(int64_t n, int64_t *out);

#endif
