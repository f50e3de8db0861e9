/* ops/queue/barrier.h -- a barrier: tuples are inserted component by component, under a key, and taken when
 * they are complete. */
#ifndef MR_OPS_QUEUE_BARRIER_H
#define MR_OPS_QUEUE_BARRIER_H

#include "ops/queue/tuple.h"

typedef struct mr_tuple_barrier mr_tuple_barrier;

extern const mr_object_type mr_tuple_barrier_type;

mr_tuple_barrier *mr_tuple_barrier_new(const char *name, const mr_tuple_type *t);
/* INVALID_ARGUMENT if the barrier was created for a different tuple type. */
mr_status *mr_tuple_barrier_matches(const mr_tuple_barrier *b, const mr_tuple_type *t);
const mr_tuple_type *mr_tuple_barrier_tuple(const mr_tuple_barrier *b);

/* Inserts row i of `values` as component `component` of the tuple of keys[i]. */
mr_status *mr_tuple_barrier_insert(mr_tuple_barrier *b, const mr_tensor *keys, const mr_tensor *values,
                             int64_t component);
/* Takes over a reference to b.  Ends the asynchronous run r with indices, keys and values of n complete tuples, in
 * the order in which their keys were first inserted. */
void mr_tuple_barrier_take(mr_tuple_barrier *b, mr_run *r, int64_t n, bool allow_small);
/* Refuses new keys from now on; with cancel, also components of existing keys. */
mr_status *mr_tuple_barrier_close(mr_tuple_barrier *b, bool cancel);
int64_t mr_tuple_barrier_ready(mr_tuple_barrier *b);
int64_t mr_tuple_barrier_incomplete(mr_tuple_barrier *b);

#endif
