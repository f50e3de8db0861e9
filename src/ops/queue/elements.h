/* ops/queue/elements.h -- the tuples that a queue holds, and the ways to choose the next one.
 *
 * Tuples are in a ring, n tensors each: in the order of arrival, or as a heap, or in any order for
 * random takes.  A queue always takes in the same way.  Nothing here locks. */
#ifndef MR_OPS_QUEUE_ELEMENTS_H
#define MR_OPS_QUEUE_ELEMENTS_H

#include "ops/random/philox.h"
#include "tensor/tensor.h"

typedef struct mr_elements {
    int n; /* tensors in a tuple */
    int64_t head, count, room;
    mr_tensor **ring;
    /* for random takes: the words of a block, used one by one */
    mr_philox random;
    uint32_t words[4];
    int n_words; /* left in words */
} mr_elements;

void mr_elements_init(mr_elements *e, int n_tensors); /* at least 1 */
void mr_elements_deinit(mr_elements *e);

/* Reserves room for `count` tuples in total, which is required before a put; RESOURCE_EXHAUSTED. */
mr_status *mr_elements_reserve(mr_elements *e, int64_t count);
/* Where to write the next tuple; the put moves the references written there to the ring. */
mr_tensor **mr_elements_next(mr_elements *e);
void mr_elements_put(mr_elements *e);          /* appends the tuple that was written */
void mr_elements_put_by_priority(mr_elements *e); /* the ring is a heap by tensor 0, an int64 */

/* Returns a tuple that was taken: as the first, as the last, or into the heap. */
void mr_elements_return_first(mr_elements *e, mr_tensor *const *tuple);
void mr_elements_return_last(mr_elements *e, mr_tensor *const *tuple);
void mr_elements_return_by_priority(mr_elements *e, mr_tensor *const *tuple);

/* Each moves the references of one tuple to out; there must be one. */
void mr_elements_take_first(mr_elements *e, mr_tensor **out);
void mr_elements_take_random(mr_elements *e, mr_tensor **out);
void mr_elements_take_smallest(mr_elements *e, mr_tensor **out); /* of the heap */

#endif
