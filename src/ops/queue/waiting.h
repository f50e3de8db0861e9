/* ops/queue/waiting.h -- runs that wait for a shared object: a queue, an accumulator, a mutex.
 *
 * The object has a lock and one or more lines of waiters.  A thread that changes it releases the waiters
 * that need not wait any longer, and ends their runs after it has unlocked, because that starts the next
 * ops.  A waiter does not block a thread.  It is released exactly once: by a change, or because its step
 * is cancelled, whichever comes first. */
#ifndef MR_OPS_QUEUE_WAITING_H
#define MR_OPS_QUEUE_WAITING_H

#include "run/run.h"

typedef struct mr_waiter mr_waiter;
typedef struct mr_waited mr_waited;

typedef struct mr_waiters { /* a line; all zeros is an empty one */
    mr_waiter *first, *last;
} mr_waiters;

struct mr_waiter { /* first member of the state of a waiting op */
    mr_cancel_entry entry;
    mr_waited *on;         /* holds a reference */
    mr_run *r;
    const char *cancelled; /* error text if it is cancelled; NULL: it cannot be cancelled */
    /* the rest belongs to waiting.c */
    mr_waiters *line; /* the line it is in; NULL: it has been released */
    mr_waiter *next, *prev;
    mr_status *st;
    bool registered, in_callback;
};

typedef struct mr_waited_kind {
    size_t waiter_bytes; /* size of the state of a waiting op */
    /* With the lock held: calls mr_waiter_let_go for every waiter that need not wait any longer. */
    void (*advance)(mr_waited *on, mr_waiters *gone);
    /* Without the lock: sets the outputs of a waiter that was released without an error. */
    mr_status *(*give)(mr_waiter *w);
    /* Frees the state of the waiter, but not the waiter itself; may be NULL. */
    void (*forget)(mr_waiter *w);
} mr_waited_kind;

struct mr_waited { /* first member of an object that runs wait for */
    mr_object base;
    const mr_waited_kind *kind;
    mr_mutex mu;
};

void mr_waited_init(mr_waited *on, const mr_object_type *type, const mr_waited_kind *kind);
void mr_waited_deinit(mr_waited *on);

/* Creates a waiter, with the rest of its state zeroed; takes over a reference to `on`.  cancelled: see above. */
void *mr_waiter_new(mr_waited *on, mr_run *r, const char *cancelled);
/* Appends w to a line and releases all waiters that can go on, perhaps w itself.  Takes over w: its run ends
 * now or later. */
void mr_wait(mr_waiter *w, mr_waiters *line);
/* With the lock held: moves w from its line to `gone`, with an error (which this takes over) or NULL. */
void mr_waiter_let_go(mr_waiter *w, mr_status *st, mr_waiters *gone);
/* After a change: releases all waiters that can go on, unlocks, and ends the runs of these and of those in
 * `gone` (may be NULL).  The caller holds a reference to `on`. */
void mr_waited_unlock(mr_waited *on, mr_waiters *gone) MR_RELEASE(on->mu);

#endif
