/* ops/data/turn.h -- one iteration over a dataset, from which ops of many steps request elements.
 *
 * A turn has a thread that does the iterators' work; the ops that wait are in a line (ops/queue/waiting.h) and
 * block no thread. A cancelled op leaves the line, and the element computed for it goes to the next one. A turn
 * ends when its owner closes it, or with the session. */
#ifndef MR_OPS_DATA_TURN_H
#define MR_OPS_DATA_TURN_H

#include "ops/data/dataset.h"
#include "ops/data/seeds.h"
#include "ops/queue/waiting.h"

typedef struct mr_turn mr_turn;

/* Starts a new iteration over d; takes a reference to l. Elements go to n_shards shards in turn, and at most
 * `ahead` are ready for each. */
mr_status *mr_turn_new(mr_dataset *d, mr_later *l, int n_shards, int64_t ahead, mr_turn **out);
mr_turn *mr_turn_ref(mr_turn *t);
void mr_turn_unref(mr_turn *t); /* NULL is fine */
/* No more requests follow: cancels the thread. Then unref it. */
void mr_turn_close(mr_turn *t);
const mr_dataset *mr_turn_dataset(const mr_turn *t);
/* The number of elements given so far, not counting the end. */
int64_t mr_turn_count(mr_turn *t);

/* The states that the seed sources of its dataset had when it started, in the order of mr_turn_return's. */
const mr_seed_place *mr_turn_seeds(const mr_turn *t, int *n);
/* Restores the states of the seed sources of a dataset; if the numbers differ, the rest is left unchanged. */
void mr_turn_return(const mr_dataset *d, const mr_seed_place *p, int n);

/* Ends the asynchronous run r with the next element: give sets the outputs from it (the turn keeps its tensors;
 * element NULL: the end was reached). Holds a reference to keep until then; keep may be NULL. */
typedef mr_status *(*mr_turn_give)(mr_run *r, const mr_dataset *d, mr_tensor *const *element);
void mr_turn_ask(mr_turn *t, int shard, mr_run *r, mr_turn_give give, mr_object *keep);
int mr_turn_shards(const mr_turn *t);
/* Skips n elements before the first request, in a thread that may block; stops when c is started. */
mr_status *mr_turn_skip(mr_turn *t, int64_t n, const mr_cancel *c);

#endif
