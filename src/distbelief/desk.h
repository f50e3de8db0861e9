/* distbelief/desk.h -- where workers ask what to do next.
 *
 * A coordinator opens a desk.  A worker stays at it with one call that is answered only when the desk closes, so that its
 * end (a closed connection, when the worker dies) tells at once that the worker is lost; and it asks with another: what has
 * become of its last order goes there, the next order comes back, when there is one.  What hellos, reports and orders say
 * is the business of who uses this.
 *
 *     /millrace.Desk/Stay   1: number of the worker, drawn by itself   2: hello
 *     /millrace.Desk/Ask    1: number of the worker                    2: report    (answered by the order; empty: ask again)
 *
 * A worker that was lost is not heard again under its number; it may come back under another. */
#ifndef MR_DISTBELIEF_DESK_H
#define MR_DISTBELIEF_DESK_H

#include "base/bytes.h"

/* ---- the desk ---- */

typedef struct mr_desk mr_desk;

typedef struct mr_desk_rules {
    const char *address; /* "host:port", port 0: any */
    void *arg;
    /* From threads of the desk, one at a time; they must not block.  A worker is idle when it has joined, and when it has
     * said something: then it can be given an order. */
    mr_status *(*joined)(void *arg, int64_t worker, mr_sv hello); /* an error sends it away */
    void (*said)(void *arg, int64_t worker, mr_sv report);
    void (*lost)(void *arg, int64_t worker);
    void (*tick)(void *arg); /* some times a second; may be NULL */
} mr_desk_rules;

/* *out is set before the first callback. */
mr_status *mr_desk_open(const mr_desk_rules *o, mr_desk **out);
/* Sends all workers away.  Not from a callback.  NULL is fine. */
void mr_desk_close(mr_desk *d);
const char *mr_desk_address(const mr_desk *d);
/* Runs fn(arg) as the callbacks are run: none of them at the same time. */
void mr_desk_turn(mr_desk *d, void (*fn)(void *arg), void *arg);
/* The next order of a worker that is idle; not empty, and taken over.  Within a turn.  For one that is gone: nothing. */
void mr_desk_order(mr_desk *d, int64_t worker, mr_bytes *order);
/* Bodies of messages so far. */
void mr_desk_count(const mr_desk *d, int64_t *sent, int64_t *received);

/* ---- a worker at it ---- */

typedef struct mr_hand mr_hand;

typedef struct mr_hand_rules {
    const char *address;
    mr_sv hello;
    int64_t deadline_ms; /* for the desk to be there, or to say anything at all; 0: 60000 */
} mr_hand_rules;

mr_status *mr_hand_join(const mr_hand_rules *o, mr_hand **out);
void mr_hand_leave(mr_hand *h); /* NULL is fine */
/* Says what became of the last order (empty at first; taken over) and waits for the next.  UNAVAILABLE when the desk has
 * closed or is lost. */
mr_status *mr_hand_ask(mr_hand *h, mr_bytes *report, mr_bytes *order);
/* From another thread: mr_hand_ask ends with CANCELLED, also the next one. */
void mr_hand_cancel(mr_hand *h);

#endif
