/* ops/data/channel.h -- elements made ahead by a thread, for one who takes them in order.
 *
 * The thread goes over the iterator and waits when `ahead` elements lie ready.  It and the taker share
 * the channel by count: closing it cancels the thread and does not wait; the last of both closes the
 * iterator. */
#ifndef MR_OPS_DATA_CHANNEL_H
#define MR_OPS_DATA_CHANNEL_H

#include "ops/data/dataset.h"

typedef struct mr_channel mr_channel;
typedef struct mr_channel_set mr_channel_set; /* of one taker, who takes from whichever has something; see below */

/* A channel with its own environment, a child of env, for the iterator to go over.  set: the set that it belongs to,
 * which is referenced; NULL: none. */
mr_channel *mr_channel_new(mr_data_env *env, int64_t ahead, mr_channel_set *set);
mr_data_env *mr_channel_env(mr_channel *c);
/* The iterator to go over, taken over; its environment must be the channel's.  Once. */
void mr_channel_over(mr_channel *c, mr_iterator *it);
/* As mr_iterator_next; starts the thread at the first call. */
mr_status *mr_channel_next(mr_channel *c, mr_tensor **out, bool *end);
/* Starts the thread before anybody asks. */
mr_status *mr_channel_begin(mr_channel *c);
void mr_channel_close(mr_channel *c); /* NULL is fine */
/* mr_channel_next would not wait: there is an element, an error, the end, or the channel was cancelled. */
bool mr_channel_ready(mr_channel *c);

/* At most `most` threads of these channels make an element at the same time. */
mr_channel_set *mr_channel_set_new(int64_t most);
void mr_channel_set_unref(mr_channel_set *s); /* NULL is fine */
/* How often one of them has changed.  To wait for any of them: read this, find that none is ready, then wait until it
 * is no longer what was read. */
uint64_t mr_channel_set_news(mr_channel_set *s);
void mr_channel_set_wait(mr_channel_set *s, uint64_t seen);

#endif
