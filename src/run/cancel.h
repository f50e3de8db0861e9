/* run/cancel.h -- cancellation: callbacks that end waits.
 *
 * Code that is about to wait registers a callback that ends the wait. Cancelling runs all callbacks once. A manager may
 * have a parent (a step's manager is a child of its session's): cancelling the parent cancels the child too. Callbacks
 * run with no lock of the manager held. */
#ifndef MR_RUN_CANCEL_H
#define MR_RUN_CANCEL_H

#include <stdbool.h>

#include "base/file.h"

typedef struct mr_cancel mr_cancel;

typedef struct mr_cancel_entry { /* embedded in the object that waits */
    void (*fn)(struct mr_cancel_entry *e);
    struct mr_cancel_entry *next, *prev; /* the manager's */
    int state;                           /* the manager's */
} mr_cancel_entry;

mr_cancel *mr_cancel_new(mr_cancel *parent); /* parent may be NULL and must outlive it */
void mr_cancel_free(mr_cancel *c);           /* no entries left; NULL is fine */
/* false if the manager is cancelled already: the callback will not run, and the caller must not wait. */
bool mr_cancel_register(mr_cancel *c, mr_cancel_entry *e);
/* true: the entry is removed; the callback did not and will not run. false: the callback has returned (this call waits
 * for that, unless it is called from inside that callback). The entry may be freed in both cases. */
bool mr_cancel_unregister(mr_cancel *c, mr_cancel_entry *e);
/* Calls all entries. From inside a callback, it only schedules them: they are called after that callback returns. */
void mr_cancel_start(mr_cancel *c);
bool mr_cancel_started(const mr_cancel *c);
/* This thread is inside a callback of some manager. */
bool mr_cancel_in_callback(void);
/* Forgets an earlier start, so that the next step can use the manager again. Nothing may be registered. Waits for the
 * callbacks of that start, so it must not be called from inside one. false if the parent is cancelled: then this
 * manager stays cancelled. */
bool mr_cancel_reset(mr_cancel *c);
/* For mr_stop_swap: a thread's waits for pipes and terminals end when c is started. */
mr_stop mr_cancel_stop(const mr_cancel *c);

#endif
