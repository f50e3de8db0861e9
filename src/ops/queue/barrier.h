/* ops/queue/barrier.h -- a barrier: tuples that are brought component by component, under a key, and taken
 * when they are whole. */
#ifndef MR_OPS_QUEUE_BARRIER_H
#define MR_OPS_QUEUE_BARRIER_H

#include "ops/queue/tuple.h"

typedef struct mr_tuple_barrier mr_tuple_barrier;

extern const mr_object_type mr_tuple_barrier_type;

mr_tuple_barrier *mr_tuple_barrier_new(const char *name, const mr_tuple_type *t);
/* INVALID_ARGUMENT when a barrier of this name was made for other tuples. */
mr_status *mr_tuple_barrier_matches(const mr_tuple_barrier *b, const mr_tuple_type *t);
const mr_tuple_type *mr_tuple_barrier_tuple(const mr_tuple_barrier *b);

/* Rows of `values` are component `component` of the tuples of `keys`. */
mr_status *mr_tuple_barrier_insert(mr_tuple_barrier *b, const mr_tensor *keys, const mr_tensor *values,
                             int64_t component);
/* Takes a reference to b over and ends the asynchronous run r: indices, keys and values of n whole tuples, those
 * first whose keys came first. */
void mr_tuple_barrier_take(mr_tuple_barrier *b, mr_run *r, int64_t n, bool allow_small);
/* No new keys from now on; with cancel, no components either. */
mr_status *mr_tuple_barrier_close(mr_tuple_barrier *b, bool cancel);
int64_t mr_tuple_barrier_ready(mr_tuple_barrier *b);
int64_t mr_tuple_barrier_incomplete(mr_tuple_barrier *b);

#endif
