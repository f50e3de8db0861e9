/* ops/queue/waiting.h -- runs that wait for something shared: a queue, an accumulator, a mutex.
 *
 * What is waited on has a lock and one or more lines of waiters.  Whoever changes it lets those go
 * who need not wait any longer, and ends their runs once the lock is released, because that starts
 * the next ops.  A waiter holds no thread.  It is let go once: by a change, or because its step is
 * cancelled, whichever comes first. */
#ifndef MR_OPS_QUEUE_WAITING_H
#define MR_OPS_QUEUE_WAITING_H

#include "run/run.h"

typedef struct mr_waiter mr_waiter;
typedef struct mr_waited mr_waited;

typedef struct mr_waiters { /* a line; all zeros is an empty one */
    mr_waiter *first, *last;
} mr_waiters;

struct mr_waiter { /* first member of what a waiting op has to remember */
    mr_cancel_entry entry;
    mr_waited *on;         /* holds a reference */
    mr_run *r;
    const char *cancelled; /* what a cancelled one is told; NULL: it is not cancelled */
    /* the rest belongs to waiting.c */
    mr_waiters *line; /* where it stands; NULL: it has been let go */
    mr_waiter *next, *prev;
    mr_status *st;
    bool registered, in_callback;
};

typedef struct mr_waited_kind {
    size_t waiter_bytes; /* of what a waiting op has to remember */
    /* With the lock held: lets everybody go who can, by mr_waiter_let_go. */
    void (*advance)(mr_waited *on, mr_waiters *gone);
    /* Without it: sets the outputs of one who was let go without an error. */
    mr_status *(*give)(mr_waiter *w);
    /* Frees what the waiter remembers, not the waiter; may be NULL. */
    void (*forget)(mr_waiter *w);
} mr_waited_kind;

struct mr_waited { /* first member of what is waited on */
    mr_object base;
    const mr_waited_kind *kind;
    mr_mutex mu;
};

void mr_waited_init(mr_waited *on, const mr_object_type *type, const mr_waited_kind *kind);
void mr_waited_deinit(mr_waited *on);

/* A waiter, else zeroed; takes a reference to `on` over.  cancelled: see above. */
void *mr_waiter_new(mr_waited *on, mr_run *r, const char *cancelled);
/* Puts w at the end of a line and lets go who can, perhaps w itself.  Takes w over: its run ends now
 * or later. */
void mr_wait(mr_waiter *w, mr_waiters *line);
/* With the lock held: w leaves its line for `gone`, with an error (taken over) or NULL. */
void mr_waiter_let_go(mr_waiter *w, mr_status *st, mr_waiters *gone);
/* After a change: lets go who can, unlocks, and ends the runs of all in `gone` (NULL: none yet).
 * The caller holds a reference. */
void mr_waited_unlock(mr_waited *on, mr_waiters *gone) MR_RELEASE(on->mu);

#endif
