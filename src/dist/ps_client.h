/* dist/ps_client.h -- a client of the parameter server: splits pushes by range, and sends each until
 * it counts.
 *
 * Pure: events in, actions out. A push is a task with a part for each range that it touches. When it
 * begins it gets a timestamp, which all its parts share; each part also names the client's previous
 * timestamp at its range (dist/ps_clock.h). Parts of a range are kept until they are acknowledged.
 * They are sent in order, several at a time. After a new view, a broken connection or an answer
 * that asks for it they are sent again, from the first that was not acknowledged. Ranges do not wait
 * for each other: the failure of a server stops only pushes to its ranges. Pulls may be repeated
 * freely.
 *
 * A task ends once, with the first real error or none. A part that fails, and the rest of a push
 * that ended by its deadline or was cancelled, is sent on without its payload: such a part changes
 * nothing but closes the sequence of numbers. If the real part had counted already, it is a
 * duplicate. So nothing counts twice, and no gap holds up later pushes.
 *
 * A task begins when all tasks that it comes after have ended, with or without error. The bytes of
 * pushes that have not ended are bounded: a caller asks for room before it pushes. */
#ifndef MR_DIST_PS_CLIENT_H
#define MR_DIST_PS_CLIENT_H

#include "dist/ps_view.h"

typedef struct mr_psc_options {
    int window;           /* parts of one range under way at a time; 0: 8 */
    size_t max_bytes;     /* of pushes that have not ended; 0: 256 MiB */
    int64_t retry_ns;     /* pause before a part is sent again; grows to 16 times that; a new view ends it; 0: 10 ms */
    int64_t answer_ns;    /* a part without an answer is sent again after this time; 0: 2 s */
} mr_psc_options;

typedef struct mr_psc_piece { /* a task's part for one range */
    int range;
    size_t bytes; /* of its payload */
} mr_psc_piece;

typedef enum mr_psc_do {
    MR_PSC_PUSH,     /* send part `piece` of `task` to `to`, with ts, prev, epoch, generation; answer with `try` */
    MR_PSC_PULL,     /* the same for a pull, with epoch */
    MR_PSC_DONE,     /* the task ended with `code` (range: where it failed, or -1); its payload is no longer needed */
    MR_PSC_ASK_VIEW, /* ask the manager for a newer view */
} mr_psc_do;

typedef struct mr_psc_action {
    mr_psc_do what;
    mr_code code;
    bool empty; /* PUSH: send it without payload, which may be gone */
    int range, piece, try;
    int64_t task;
    uint64_t to, ts, prev, epoch, generation;
} mr_psc_action;
typedef MR_VEC(mr_psc_action) mr_psc_actions;

typedef struct mr_psc mr_psc;

mr_psc *mr_psc_new(uint64_t client, const mr_psc_options *o); /* o NULL: all defaults */
void mr_psc_free(mr_psc *c);

/* Whether there is room for a push of so many bytes. One larger than max_bytes has room when no other is open. */
bool mr_psc_room(const mr_psc *c, size_t bytes);
/* Begins a task, now or when the tasks of `after` have ended. Pieces: by rising range, each range at most once; a task
 * without pieces ends at once. deadline_ns: by the caller's clock; INT64_MAX: none. Task numbers are > 0 and rise.
 * INVALID_ARGUMENT: pieces or tasks are not valid; RESOURCE_EXHAUSTED: no room; UNAVAILABLE: no view yet. */
mr_status *mr_psc_begin(mr_psc *c, bool push, const mr_psc_piece *pieces, int n, const int64_t *after, int n_after,
                        int64_t deadline_ns, int64_t now_ns, int64_t *task, mr_psc_actions *out);
void mr_psc_cancel(mr_psc *c, int64_t task, int64_t now_ns, mr_psc_actions *out);
/* A view came. One that is not newer than the present one changes nothing. */
mr_status *mr_psc_view(mr_psc *c, const mr_ps_view *v, int64_t now_ns, mr_psc_actions *out);
/* The answer to PUSH or PULL: code and epoch as in MR_PSR_ANSWER of dist/ps_replica.h (ABORTED: last is the client's
 * last ts there). Also UNAVAILABLE if the server cannot be reached. */
void mr_psc_answer(mr_psc *c, uint64_t from, int64_t task, int piece, int try, mr_code code, uint64_t epoch,
                   uint64_t last, int64_t now_ns, mr_psc_actions *out);
/* The connection to that server broke: parts under way may or may not have arrived. */
void mr_psc_broken(mr_psc *c, uint64_t server, int64_t now_ns, mr_psc_actions *out);
/* Time passes. Returns when to tick next (INT64_MAX: not before the next event). */
int64_t mr_psc_tick(mr_psc *c, int64_t now_ns, mr_psc_actions *out);

bool mr_psc_ended(const mr_psc *c, int64_t task);
int mr_psc_open(const mr_psc *c);           /* tasks that have not ended */
bool mr_psc_settled(const mr_psc *c);       /* no task is open and no part under way: the client may leave */
uint64_t mr_psc_epoch(const mr_psc *c);     /* of its view */
const mr_ps_range *mr_psc_range(const mr_psc *c, int range); /* in its view; borrowed; NULL: no view yet */
int64_t mr_psc_resent(const mr_psc *c);
/* A server that has not answered a part of that task, or of any other open task; 0: none is known. */
uint64_t mr_psc_waits_for(const mr_psc *c, int64_t task);

#endif
