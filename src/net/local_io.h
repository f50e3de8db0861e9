/* net/local_io.h -- the one thread of the local transport: waits for sockets, times and orders.
 *
 * All callbacks below run in that thread, with no lock held.  It runs while there are users. */
#ifndef MR_NET_LOCAL_IO_H
#define MR_NET_LOCAL_IO_H

#include <stdint.h>

#include "base/status.h"
#include "base/thread.h"

/* Guards the orders and timers of this file, and the states of requests, peers and servers.  Last in the
 * order of this folder's locks, and held for a few instructions only. */
extern mr_mutex mr_local_mu;
extern mr_cond mr_local_changed; /* stop, disconnect and reply wait for it */

mr_status *mr_local_io_start(void); /* one more user; the first one starts the thread */
void mr_local_io_stop(void);        /* one user less; the last one waits until the thread has ended */
bool mr_local_io_here(void);        /* whether the caller is that thread */

/* ---- sockets: embedded in what owns the descriptor ---- */
typedef struct mr_local_watch {
    void (*ready)(struct mr_local_watch *w, uint32_t events);
} mr_local_watch;
bool mr_local_watch_add(mr_local_watch *w, int fd, uint32_t events); /* false: the system refuses (errno) */
void mr_local_watch_change(mr_local_watch *w, int fd, uint32_t events);
void mr_local_watch_remove(int fd);

/* ---- orders ---- */
typedef struct mr_order {
    void (*fn)(struct mr_order *o); /* may free it */
    struct mr_order *next;
} mr_order;
/* Runs o->fn soon; any thread.  Orders run in the order of posting. */
void mr_local_post(mr_order *o);
void mr_local_post_locked(mr_order *o) MR_REQUIRES(mr_local_mu);
/* Runs fn(arg) there and waits for it; not from that thread. */
void mr_local_do(void (*fn)(void *arg), void *arg);
/* Runs o->fn after all events of this round: for freeing what one of them may still refer to. */
void mr_local_later(mr_order *o);

/* ---- times ---- */
typedef struct mr_local_timer {
    void (*fn)(struct mr_local_timer *t);
    int64_t at_ns;
    int place; /* in the heap, from 1; 0: not set */
} mr_local_timer;
/* Sets an unset timer; any thread. */
void mr_local_timer_set_locked(mr_local_timer *t, int64_t at_ns) MR_REQUIRES(mr_local_mu);
void mr_local_timer_set(mr_local_timer *t, int64_t at_ns);
/* Only in the transport's thread, so its callback cannot be running. */
void mr_local_timer_clear_locked(mr_local_timer *t) MR_REQUIRES(mr_local_mu);
void mr_local_timer_clear(mr_local_timer *t);

#endif
