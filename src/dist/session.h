/* dist/session.h -- how a session over several tasks comes to be, as its master sees it, and what its tasks know of it.
 *
 * Pure: events in, actions out.  A master asks all members for their devices, then gives each a session, then answers
 * the client.  The first error (or the client's leaving) stops that: calls under way are cancelled, and every task that
 * may have made a session is told to delete it, also one whose answer never came. */
#ifndef MR_DIST_SESSION_H
#define MR_DIST_SESSION_H

#include "base/vec.h"
#include "dist/recent.h"

/* ---- creation, at the master ---- */

typedef enum mr_create_do {
    MR_CREATE_ASK,    /* send GetStatus to the task; answered by mr_creation_came */
    MR_CREATE_GATHER, /* all devices are there (task -1): look at them, then mr_creation_gathered */
    MR_CREATE_MAKE,   /* send CreateWorkerSession; answered by mr_creation_came */
    MR_CREATE_CANCEL, /* cancel that call; it is still answered */
    MR_CREATE_DELETE, /* send DeleteWorkerSession; nobody waits for the answer */
    MR_CREATE_REPLY,  /* tell the client (task -1); the last action of all */
} mr_create_do;

typedef struct mr_create_action {
    mr_create_do what;
    int task;
} mr_create_action;
typedef MR_VEC(mr_create_action) mr_create_actions;

typedef struct mr_creation {
    int n;
    bool *member, *waiting, *asked_to_make; /* by task */
    int n_waiting;
    bool making, stopping;
    mr_status *st;
} mr_creation;

void mr_creation_init(mr_creation *c, int n_tasks, const bool *member);
void mr_creation_deinit(mr_creation *c);
void mr_creation_begin(mr_creation *c, mr_create_actions *out);
/* A task has answered; takes st.  A second answer is ignored. */
void mr_creation_came(mr_creation *c, int task, mr_status *st, mr_create_actions *out);
/* After MR_CREATE_GATHER; takes st. */
void mr_creation_gathered(mr_creation *c, mr_status *st, mr_create_actions *out);
/* The client went away, the server stops: takes why. */
void mr_creation_stop(mr_creation *c, mr_status *why, mr_create_actions *out);
/* After MR_CREATE_REPLY: what to tell the client; the caller owns it. */
mr_status *mr_creation_result(mr_creation *c);

/* ---- requests that nobody waits for, but that should arrive: CleanupGraph, DeleteWorkerSession ---- */

/* After `tries` that ended with this code: how long until the next one; -1: no more.  Over about ten minutes. */
int64_t mr_tell_again_ns(int tries, mr_code code);

/* ---- sessions and graphs, at a worker ---- */

typedef struct mr_worker_session {
    char *handle, *master; /* master "": of a master that does not say who it is */
    uint64_t incarnation;  /* of the master's life */
    void *host;            /* the caller's */
} mr_worker_session;

typedef struct mr_worker_sessions {
    mr_map by_handle;
    mr_recent over; /* hashes of handles that were deleted */
} mr_worker_sessions;

void mr_worker_sessions_deinit(mr_worker_sessions *t); /* none is left */
/* ALREADY_EXISTS when it is there, ABORTED when it was deleted before: then the request comes late. */
mr_status *mr_worker_sessions_add(mr_worker_sessions *t, mr_sv handle, mr_sv master, uint64_t incarnation,
                                  mr_worker_session **out);
mr_worker_session *mr_worker_sessions_find(const mr_worker_sessions *t, mr_sv handle); /* or NULL */
/* Takes it out and remembers the handle; its host is handed to the caller (NULL when there is none). */
void *mr_worker_sessions_end(mr_worker_sessions *t, mr_sv handle);
/* Any session of this master's other lives (incarnation 0: of all), to be ended: who made it is gone.  master NULL: any
 * session at all.  NULL when there is none. */
mr_worker_session *mr_worker_sessions_left_by(const mr_worker_sessions *t, const mr_sv *master, uint64_t incarnation);

#endif
