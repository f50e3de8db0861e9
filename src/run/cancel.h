/* run/cancel.h -- stopping what waits.
 *
 * Whoever is about to wait registers a callback that ends the wait; cancelling runs all callbacks
 * once.  A manager may have a parent (a step's is a child of its session's): cancelling the parent
 * cancels it too.  Callbacks run with no lock of the manager held. */
#ifndef MR_RUN_CANCEL_H
#define MR_RUN_CANCEL_H

#include <stdbool.h>

#include "base/file.h"

typedef struct mr_cancel mr_cancel;

typedef struct mr_cancel_entry { /* embedded in what waits */
    void (*fn)(struct mr_cancel_entry *e);
    struct mr_cancel_entry *next, *prev; /* the manager's */
    int state;                           /* the manager's */
} mr_cancel_entry;

mr_cancel *mr_cancel_new(mr_cancel *parent); /* parent may be NULL and must outlive it */
void mr_cancel_free(mr_cancel *c);           /* no entries left; NULL is fine */
/* false when already cancelled: the callback will not run, do not wait. */
bool mr_cancel_register(mr_cancel *c, mr_cancel_entry *e);
/* true: removed, the callback did not and will not run.  false: it has run to its end (this call
 * waits for that, unless it is called from inside that very callback), so the entry may be freed in
 * both cases. */
bool mr_cancel_unregister(mr_cancel *c, mr_cancel_entry *e);
/* Calls all entries; when called from inside a callback, they are called after that one returned.
 */
void mr_cancel_start(mr_cancel *c);
bool mr_cancel_started(const mr_cancel *c);
/* This thread is inside a callback of some manager. */
bool mr_cancel_in_callback(void);
/* Forgets an earlier start, so that the next step can use the manager again; nothing may be
 * registered.  Waits for the callbacks of that start, so never from inside one.  false when the
 * parent was cancelled: then it stays so. */
bool mr_cancel_reset(mr_cancel *c);
/* For mr_stop_swap: a thread's waits for pipes and terminals end when c is started. */
mr_stop mr_cancel_stop(const mr_cancel *c);

#endif
