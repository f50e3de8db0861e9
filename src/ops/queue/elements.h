/* ops/queue/elements.h -- the tuples a queue holds, and the ways to choose the next one.
 *
 * Tuples lie in a ring, n tensors each, in the order they came or as the way of taking leaves them;
 * a queue takes always in the same way.  Nothing here locks. */
#ifndef MR_OPS_QUEUE_ELEMENTS_H
#define MR_OPS_QUEUE_ELEMENTS_H

#include "ops/random/philox.h"
#include "tensor/tensor.h"

typedef struct mr_elements {
    int n; /* tensors in a tuple */
    int64_t head, count, room;
    mr_tensor **ring;
    /* for taking at random: words of a block, used one by one */
    mr_philox random;
    uint32_t words[4];
    int n_words; /* left in words */
} mr_elements;

void mr_elements_init(mr_elements *e, int n_tensors); /* at least 1 */
void mr_elements_deinit(mr_elements *e);

/* Room for so many tuples in all; RESOURCE_EXHAUSTED.  Putting needs it. */
mr_status *mr_elements_reserve(mr_elements *e, int64_t count);
/* Where the next tuple is to be written; references written there are the ring's after the put. */
mr_tensor **mr_elements_next(mr_elements *e);
void mr_elements_put(mr_elements *e);          /* what was written is the last one */
void mr_elements_put_by_priority(mr_elements *e); /* the ring is a heap by tensor 0, an int64 */

/* Gives a tuple back that was taken: as the first, as the last, into the heap. */
void mr_elements_return_first(mr_elements *e, mr_tensor *const *tuple);
void mr_elements_return_last(mr_elements *e, mr_tensor *const *tuple);
void mr_elements_return_by_priority(mr_elements *e, mr_tensor *const *tuple);

/* Each hands over the references of one tuple; there must be one. */
void mr_elements_take_first(mr_elements *e, mr_tensor **out);
void mr_elements_take_random(mr_elements *e, mr_tensor **out);
void mr_elements_take_smallest(mr_elements *e, mr_tensor **out); /* of the heap */

#endif
