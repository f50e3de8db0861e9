/* ops/data/turn.h -- one way over a dataset that ops ask for elements, from many steps.
 *
 * A turn has a thread that does what iterators need time for; the ops that wait stand in a line
 * (ops/queue/waiting.h) and hold no thread.  An op that is cancelled leaves the line, and the element
 * made for it goes to the next one.  A turn ends when whoever holds it closes it, or with the session. */
#ifndef MR_OPS_DATA_TURN_H
#define MR_OPS_DATA_TURN_H

#include "ops/data/dataset.h"
#include "ops/data/seeds.h"
#include "ops/queue/waiting.h"

typedef struct mr_turn mr_turn;

/* A new way over d; l is referenced.  Elements go to n_shards shards in turn, and at most `ahead` lie ready for each. */
mr_status *mr_turn_new(mr_dataset *d, mr_later *l, int n_shards, int64_t ahead, mr_turn **out);
mr_turn *mr_turn_ref(mr_turn *t);
void mr_turn_unref(mr_turn *t); /* NULL is fine */
/* Nobody asks any more: the thread is cancelled.  Then unref it. */
void mr_turn_close(mr_turn *t);
const mr_dataset *mr_turn_dataset(const mr_turn *t);
/* Elements given so far, the end not counted. */
int64_t mr_turn_count(mr_turn *t);

/* Where the sources of seeds of its dataset were when it began, in the order of mr_turn_return's. */
const mr_seed_place *mr_turn_seeds(const mr_turn *t, int *n);
/* Brings the sources of seeds of a dataset there; those that are more on either side are left alone. */
void mr_turn_return(const mr_dataset *d, const mr_seed_place *p, int n);

/* Ends the asynchronous run r with the next element: give sets the outputs from it (its tensors stay
 * the turn's; element NULL: the end was reached).  keep is referenced until then; may be NULL. */
typedef mr_status *(*mr_turn_give)(mr_run *r, const mr_dataset *d, mr_tensor *const *element);
void mr_turn_ask(mr_turn *t, int shard, mr_run *r, mr_turn_give give, mr_object *keep);
int mr_turn_shards(const mr_turn *t);
/* Goes on by n elements that nobody sees, before the first who asks, in a thread that may wait; stops when c is
 * started. */
mr_status *mr_turn_skip(mr_turn *t, int64_t n, const mr_cancel *c);

#endif
