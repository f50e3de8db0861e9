/* ps/inbox.h -- a thread that does one thing after the other.
 *
 * A server, a manager and a client of parameters each keep all their state to one thread.  Whatever comes from elsewhere (a
 * call, the end of a request, a new view, a client's push) is a note put into its inbox; notes are carried out in the order
 * they came.  So that state needs no lock, and messages of one sender keep their order. */
#ifndef MR_PS_INBOX_H
#define MR_PS_INBOX_H

#include "base/status.h"
#include "base/thread.h"

typedef struct mr_ps_note { /* embedded in what is to be done */
    void (*fn)(void *owner, struct mr_ps_note *n); /* may free the note, and put it in again */
    struct mr_ps_note *next;
} mr_ps_note;

typedef struct mr_ps_inbox {
    void *owner;
    void (*turn)(void *owner);                      /* after some notes, before the thread sleeps; may be NULL */
    int64_t (*tick)(void *owner, int64_t now_ns);   /* returns when it wants to be called next */
    mr_thread thread;
    bool running;
    mr_mutex mu;
    mr_cond wake;
    mr_ps_note *first MR_GUARDED_BY(mu), **last MR_GUARDED_BY(mu);
    bool closing MR_GUARDED_BY(mu);
} mr_ps_inbox;

/* owner, turn and tick are set before. */
mr_status *mr_ps_inbox_start(mr_ps_inbox *b, const char *name);
/* From any thread.  After mr_ps_inbox_stop has returned nothing may be put. */
void mr_ps_inbox_put(mr_ps_inbox *b, mr_ps_note *n, void (*fn)(void *owner, mr_ps_note *n));
/* Carries out what is in it, and what that puts in, and ends the thread.  Not from the thread itself. */
void mr_ps_inbox_stop(mr_ps_inbox *b);

/* Runs fn(owner, arg) on the thread and waits until it has returned; where there is no thread, here. */
void mr_ps_inbox_ask(mr_ps_inbox *b, void (*fn)(void *owner, void *arg), void *arg);

#endif
