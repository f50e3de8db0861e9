/* ops/data/channel.h -- elements made ahead by a thread, for one who takes them in order.
 *
 * The thread goes over the iterator and waits when `ahead` elements lie ready.  It and the taker share
 * the channel by count: closing it cancels the thread and does not wait; the last of both closes the
 * iterator. */
#ifndef MR_OPS_DATA_CHANNEL_H
#define MR_OPS_DATA_CHANNEL_H

#include "ops/data/dataset.h"

typedef struct mr_channel mr_channel;

/* For it, a channel over what open makes in an environment of its own, which is a child of it's. */
mr_channel *mr_channel_new(mr_data_env *env, int64_t ahead);
mr_data_env *mr_channel_env(mr_channel *c);
/* The iterator to go over, taken over; its environment must be the channel's.  Once. */
void mr_channel_set(mr_channel *c, mr_iterator *it);
/* As mr_iterator_next; starts the thread at the first call. */
mr_status *mr_channel_next(mr_channel *c, mr_tensor **out, bool *end);
/* Starts the thread before anybody asks. */
mr_status *mr_channel_begin(mr_channel *c);
void mr_channel_close(mr_channel *c); /* NULL is fine */

#endif
