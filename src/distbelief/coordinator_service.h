/* distbelief/coordinator_service.h -- work sessions: workers ask a coordinator what to do next.
 *
 * A worker keeps one call (Stay) open, which is answered only when the coordinator closes; if the worker dies, the call
 * ends and the coordinator knows at once.  With another call (Ask) it sends the result of its last order and gets the
 * next one, when there is one.  The contents of hellos, reports and orders belong to the user of this file.
 *
 *     /millrace.Coordinator/Stay   1: number of the worker, which it has chosen at random   2: hello
 *     /millrace.Coordinator/Ask    1: number of the worker   2: report   (answered by the order; empty: ask again)
 *
 * A lost worker is refused under its number; it may come back under another. */
#ifndef MR_DISTBELIEF_COORDINATOR_SERVICE_H
#define MR_DISTBELIEF_COORDINATOR_SERVICE_H

#include "base/bytes.h"

/* ---- the coordinator ---- */

typedef struct mr_coordinator_service mr_coordinator_service;

typedef struct mr_coordinator_service_rules {
    const char *address; /* "host:port", port 0: any */
    void *arg;
    /* Called on threads of the session, one at a time; they must not block.  A worker is idle after it has joined and
     * after each report: then it can be given an order. */
    mr_status *(*joined)(void *arg, int64_t worker, mr_sv hello); /* an error refuses it */
    void (*said)(void *arg, int64_t worker, mr_sv report);
    void (*lost)(void *arg, int64_t worker);
    void (*tick)(void *arg); /* several times a second; may be NULL */
} mr_coordinator_service_rules;

/* *out is set before the first callback. */
mr_status *mr_coordinator_service_open(const mr_coordinator_service_rules *o, mr_coordinator_service **out);
/* Ends the sessions of all workers.  Not from a callback.  Accepts NULL. */
void mr_coordinator_service_close(mr_coordinator_service *d);
const char *mr_coordinator_service_address(const mr_coordinator_service *d);
/* Runs fn(arg) like a callback: no callback runs at the same time. */
void mr_coordinator_service_turn(mr_coordinator_service *d, void (*fn)(void *arg), void *arg);
/* Gives an idle worker its next order, which must not be empty and is taken over. Within a turn. Does nothing for a
 * worker that is lost. */
void mr_coordinator_service_order(mr_coordinator_service *d, int64_t worker, mr_bytes *order);
/* Bytes of message bodies so far. */
void mr_coordinator_service_count(const mr_coordinator_service *d, int64_t *sent, int64_t *received);

/* ---- a worker ---- */

typedef struct mr_coordinator_client mr_coordinator_client;

typedef struct mr_coordinator_client_rules {
    const char *address;
    mr_sv hello;
    int64_t deadline_ms; /* how long to wait for the coordinator to answer at all; 0: 60000 */
} mr_coordinator_client_rules;

mr_status *mr_coordinator_client_join(const mr_coordinator_client_rules *o, mr_coordinator_client **out);
void mr_coordinator_client_leave(mr_coordinator_client *h); /* NULL is fine */
/* Sends the report on the last order (empty at first; taken over) and waits for the next order. UNAVAILABLE if the
 * coordinator has closed or is lost. */
mr_status *mr_coordinator_client_ask(mr_coordinator_client *h, mr_bytes *report, mr_bytes *order);
/* From another thread: mr_coordinator_client_ask ends with CANCELLED, also the next one. */
void mr_coordinator_client_cancel(mr_coordinator_client *h);

#endif
