/* dist/ps_client.h -- a client of the parameter server: splits its pushes by slot, sends them until each counts.
 *
 * Pure: events in, actions out.  A push is a task with a part for each slot that it touches.  When it begins it gets a
 * timestamp, for all its parts; each names the previous one of this client at its slot too (dist/ps_clock.h).  Parts
 * of a slot are kept until they are acknowledged and are sent in their order, several under way at once; after a new
 * view, a broken connection or an answer that asks for it they are sent again, from the first that was not
 * acknowledged.  Slots do not wait for each other: the failure of a server stops pushes to its slots only.  Pulls are
 * sent again freely.
 *
 * A task ends once, with the first real error or none.  A part that fails, and whatever is left of a push that ended
 * by its deadline or was cancelled, is sent on without its payload: a part that says nothing but closes the row of
 * numbers.  If the real part had counted already it is a duplicate.  So nothing counts twice, and later pushes are not
 * held up by a gap.
 *
 * A task begins when all that it comes after have ended, well or not.  Bytes of pushes that have not ended are
 * bounded: who wants to push asks for room first. */
#ifndef MR_DIST_PS_CLIENT_H
#define MR_DIST_PS_CLIENT_H

#include "dist/ps_view.h"

typedef struct mr_psc_options {
    int window;           /* parts of one slot under way; 0: 8 */
    size_t max_bytes;     /* of pushes that have not ended; 0: 256 MiB */
    int64_t retry_ns;     /* the pause before a part is sent again; grows to 16 times that; a new view ends it; 0: 10 ms */
    int64_t answer_ns;    /* a part without an answer is sent again after that; 0: 2 s */
} mr_psc_options;

typedef struct mr_psc_piece { /* what a task has for one slot */
    int slot;
    size_t bytes; /* of its payload */
} mr_psc_piece;

typedef enum mr_psc_do {
    MR_PSC_PUSH,     /* to server `to`: part `piece` of task `task`; ts, prev, epoch, generation as given.  Answer with `try` */
    MR_PSC_PULL,     /* to server `to`: the same for a pull: epoch goes along */
    MR_PSC_DONE,     /* task ended with `code` (slot: where, -1: nowhere); its payload is not needed any more */
    MR_PSC_ASK_VIEW, /* of the manager */
} mr_psc_do;

typedef struct mr_psc_action {
    mr_psc_do what;
    mr_code code;
    bool empty; /* PUSH: without payload (it may be gone) */
    int slot, piece, try;
    int64_t task;
    uint64_t to, ts, prev, epoch, generation;
} mr_psc_action;
typedef MR_VEC(mr_psc_action) mr_psc_actions;

typedef struct mr_psc mr_psc;

mr_psc *mr_psc_new(uint64_t client, const mr_psc_options *o); /* o NULL: all defaults */
void mr_psc_free(mr_psc *c);

/* Room for a push of so many bytes; one that is larger than all room has it when nothing else is there. */
bool mr_psc_room(const mr_psc *c, size_t bytes);
/* Begins a task, now or when those of `after` have ended.  Pieces: by rising slot, each slot once; none: ends at once.
 * deadline_ns: by the caller's clock; INT64_MAX: none.  The task's number is > 0 and rising.  INVALID_ARGUMENT for
 * pieces or tasks that cannot be; RESOURCE_EXHAUSTED without room; UNAVAILABLE before the first view. */
mr_status *mr_psc_begin(mr_psc *c, bool push, const mr_psc_piece *pieces, int n, const int64_t *after, int n_after,
                        int64_t deadline_ns, int64_t now_ns, int64_t *task, mr_psc_actions *out);
void mr_psc_cancel(mr_psc *c, int64_t task, int64_t now_ns, mr_psc_actions *out);
/* A newer view; what is older than the present one changes nothing. */
mr_status *mr_psc_view(mr_psc *c, const mr_ps_view *v, int64_t now_ns, mr_psc_actions *out);
/* The answer to PUSH or PULL: code and epoch of the slot at the server as ANSWER of dist/ps_replica.h has them
 * (ABORTED: with the client's last ts there).  UNAVAILABLE too when a server is not reached. */
void mr_psc_answer(mr_psc *c, uint64_t from, int64_t task, int piece, int try, mr_code code, uint64_t epoch, uint64_t last,
                   int64_t now_ns, mr_psc_actions *out);
/* The connection to that server broke: what was under way may have arrived or not. */
void mr_psc_broken(mr_psc *c, uint64_t server, int64_t now_ns, mr_psc_actions *out);
/* Time passes.  Returns when to tick next (INT64_MAX: when something happens). */
int64_t mr_psc_tick(mr_psc *c, int64_t now_ns, mr_psc_actions *out);

bool mr_psc_ended(const mr_psc *c, int64_t task);
int mr_psc_open(const mr_psc *c);           /* tasks that have not ended */
bool mr_psc_settled(const mr_psc *c);       /* and no part is under way either: the client may leave */
uint64_t mr_psc_epoch(const mr_psc *c);     /* of its view */
const mr_ps_slot *mr_psc_slot(const mr_psc *c, int slot); /* as its view has it; NULL: no view yet */
int64_t mr_psc_resent(const mr_psc *c);
/* A server that has not answered a part of that task, or of an earlier one that it comes after; 0: none is known. */
uint64_t mr_psc_waits_for(const mr_psc *c, int64_t task);

#endif
