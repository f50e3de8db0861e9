/* dist/session.h -- how a session over several tasks is created, as its master sees it, and what its tasks know about
 * it.
 *
 * Pure: events in, actions out.  A master asks all members for their devices, creates a session at each, then answers
 * the client.  The first error stops that, and so does the loss of the client: open calls are cancelled, and every task
 * that may have made a session is told to delete it, even if its answer never came. */
#ifndef MR_DIST_SESSION_H
#define MR_DIST_SESSION_H

#include "base/vec.h"
#include "dist/recent.h"

/* ---- creation, at the master ---- */

typedef enum mr_create_do {
    MR_CREATE_ASK,    /* send GetStatus to the task; answered by mr_creation_came */
    MR_CREATE_GATHER, /* all devices are known (task -1): check them, then call mr_creation_gathered */
    MR_CREATE_MAKE,   /* send CreateWorkerSession; answered by mr_creation_came */
    MR_CREATE_CANCEL, /* cancel that call; it is still answered */
    MR_CREATE_DELETE, /* send DeleteWorkerSession; its answer is ignored */
    MR_CREATE_REPLY,  /* answer the client (task -1); the last action */
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
/* The client has gone, or the server stops; takes why. */
void mr_creation_stop(mr_creation *c, mr_status *why, mr_create_actions *out);
/* After MR_CREATE_REPLY: the client's result; the caller owns it. */
mr_status *mr_creation_result(mr_creation *c);

/* ---- requests whose answer is ignored, but that should arrive: CleanupGraph, DeleteWorkerSession ---- */

/* After `tries` attempts, the last of which ended with this code: how long until the next one; -1: no more.  All
 * attempts together take about ten minutes. */
int64_t mr_tell_again_ns(int tries, mr_code code);

/* ---- sessions and graphs, at a worker ---- */

typedef struct mr_worker_session {
    char *handle, *master; /* master "": its master gives no name */
    uint64_t incarnation;  /* of its master */
    void *host;            /* belongs to the caller */
} mr_worker_session;

typedef struct mr_worker_sessions {
    mr_map by_handle;
    mr_recent over; /* hashes of handles that were deleted */
} mr_worker_sessions;

void mr_worker_sessions_deinit(mr_worker_sessions *t); /* the caller has ended all sessions */
/* ALREADY_EXISTS if the session exists; ABORTED if it was deleted before: then the request is late. */
mr_status *mr_worker_sessions_add(mr_worker_sessions *t, mr_sv handle, mr_sv master, uint64_t incarnation,
                                  mr_worker_session **out);
mr_worker_session *mr_worker_sessions_find(const mr_worker_sessions *t, mr_sv handle); /* NULL: unknown */
/* Removes it and remembers the handle; the caller gets its host (NULL: there is no such session). */
void *mr_worker_sessions_end(mr_worker_sessions *t, mr_sv handle);
/* Any session of another incarnation of this master (incarnation 0: of any incarnation), which must be ended because
 * its maker is gone.  master NULL: any session.  NULL: there is none. */
mr_worker_session *mr_worker_sessions_left_by(const mr_worker_sessions *t, const mr_sv *master, uint64_t incarnation);

#endif
