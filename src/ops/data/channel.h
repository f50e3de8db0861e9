/* ops/data/channel.h -- a thread computes elements ahead, and one consumer takes them in order.
 *
 * The thread reads the iterator and sleeps when `ahead` elements are ready that the consumer has not asked for. The thread and the consumer each hold a
 * reference to the channel: closing it cancels the thread and does not wait; the last one to release it closes the
 * iterator. */
#ifndef MR_OPS_DATA_CHANNEL_H
#define MR_OPS_DATA_CHANNEL_H

#include "ops/data/dataset.h"

typedef struct mr_channel mr_channel;
typedef struct mr_channel_set mr_channel_set; /* the channels of one consumer, which takes from any that has an
                                               * element; see below */

/* Creates a channel with its own environment, a child of env, for the iterator to use. set: the set that it belongs
 * to, to which it takes a reference; NULL: none. */
mr_channel *mr_channel_new(mr_data_env *env, int64_t ahead, mr_channel_set *set);
mr_data_env *mr_channel_env(mr_channel *c);
/* Sets the iterator to read and takes ownership of it; its environment must be the channel's. Call this once. */
void mr_channel_over(mr_channel *c, mr_iterator *it);
/* As mr_iterator_next and mr_iterator_next_block; they start the thread at the first call. */
mr_status *mr_channel_next(mr_channel *c, mr_tensor **out, bool *end);
mr_status *mr_channel_next_block(mr_channel *c, int64_t most, mr_tensor **out, int64_t *n, bool *end);
/* Starts the thread before the first request. */
mr_status *mr_channel_begin(mr_channel *c);
void mr_channel_close(mr_channel *c); /* NULL is fine */
/* True if mr_channel_next would not wait: there is an element, an error, the end, or the channel was cancelled. */
bool mr_channel_ready(mr_channel *c);

/* At most `most` threads of these channels compute an element at the same time. */
mr_channel_set *mr_channel_set_new(int64_t most);
void mr_channel_set_unref(mr_channel_set *s); /* NULL is fine */
/* The number of changes of all channels. To wait for any of them: read this, find that no channel is ready, then
 * wait until the number has changed. */
uint64_t mr_channel_set_news(mr_channel_set *s);
void mr_channel_set_wait(mr_channel_set *s, uint64_t seen);

#endif
