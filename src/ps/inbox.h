/* ps/inbox.h -- a thread that handles one event after the other.
 *
 * A parameter server, its manager and a client each keep all their state to one thread. Everything
 * that comes from another thread (a call, the end of a request, a new view, a client's push) is a
 * note put into its inbox. Notes are handled in the order in which they came. So the state needs no
 * lock, and messages of one sender keep their order. */
#ifndef MR_PS_INBOX_H
#define MR_PS_INBOX_H

#include "base/status.h"
#include "base/thread.h"

typedef struct mr_ps_note { /* embedded in the event; in at most one inbox, once, at a time */
    void (*fn)(void *owner, struct mr_ps_note *n); /* may free the note, or put it in again */
    struct mr_ps_note *next;
} mr_ps_note;

typedef struct mr_ps_inbox {
    void *owner;
    void (*turn)(void *owner);                      /* runs after each batch of notes and each tick; may be NULL */
    int64_t (*tick)(void *owner, int64_t now_ns);   /* returns the time of its next call */
    mr_thread thread;
    bool running;
    mr_mutex mu;
    mr_cond wake;
    mr_ps_note *first MR_GUARDED_BY(mu), **last MR_GUARDED_BY(mu);
    bool closing MR_GUARDED_BY(mu);
} mr_ps_inbox;

/* The caller has set owner, turn and tick. */
mr_status *mr_ps_inbox_start(mr_ps_inbox *b, const char *name);
/* From any thread. Not allowed after mr_ps_inbox_stop has returned. */
void mr_ps_inbox_put(mr_ps_inbox *b, mr_ps_note *n, void (*fn)(void *owner, mr_ps_note *n));
/* Handles all notes, also those that notes put in, and ends the thread. Not from the thread itself. */
void mr_ps_inbox_stop(mr_ps_inbox *b);

/* Runs fn(owner, arg) on the thread and waits for its end. If the thread does not run, calls fn directly. */
void mr_ps_inbox_ask(mr_ps_inbox *b, void (*fn)(void *owner, void *arg), void *arg);

#endif
