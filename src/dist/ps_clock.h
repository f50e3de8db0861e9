/* dist/ps_clock.h -- range vector clocks: which push of each client was the last one applied, slot by slot.
 *
 * A client numbers its pushes; one push touches many slots, usually all or a range of them, so that neighbours have
 * the same number.  Therefore a client's clock is a list of ranges of slots that have one number each: a push to part
 * of a range splits it, ranges that become equal merge.  A slot that is in no range stands at 0.
 *
 * Every part of a push names its own number and that of the client's previous push to the same slot.  From these the
 * server sees whether it is the next one, one that it has already, or whether one is missing in between: so each
 * counts once, whatever is lost, repeated or overtakes. */
#ifndef MR_DIST_PS_CLOCK_H
#define MR_DIST_PS_CLOCK_H

#include "base/map.h"
#include "base/vec.h"

typedef struct mr_ps_range {
    int first, end; /* slots; end is not in it */
    uint64_t ts;    /* > 0 */
} mr_ps_range;

typedef struct mr_ps_stamp { /* one client at one slot */
    uint64_t client, ts;
} mr_ps_stamp;
typedef MR_VEC(mr_ps_stamp) mr_ps_stamps;

typedef struct mr_ps_client_clock {
    uint64_t client;
    MR_VEC(mr_ps_range) ranges; /* rising, apart, neighbours differ */
} mr_ps_client_clock;

typedef struct mr_ps_clock {
    int num_slots, max_clients;
    mr_imap clients; /* by mixed id -> mr_ps_client_clock */
} mr_ps_clock;

typedef enum mr_ps_turn {
    MR_PS_NEXT,      /* apply it */
    MR_PS_DUPLICATE, /* applied before: acknowledge again */
    MR_PS_GAP,       /* one before it is missing: the client resends in order */
    MR_PS_BAD,       /* no such push can be: ts not above prev, no client, no slot */
} mr_ps_turn;

void mr_ps_clock_init(mr_ps_clock *c, int num_slots, int max_clients); /* max_clients 0: a million */
void mr_ps_clock_deinit(mr_ps_clock *c);

uint64_t mr_ps_clock_get(const mr_ps_clock *c, uint64_t client, int slot);
/* Whether this client is known, or one more may be: a head asks before it takes a push; what others took is followed.
 */
bool mr_ps_clock_room(const mr_ps_clock *c, uint64_t client);
/* For the slots [first, end); ts 0 takes them out.  INVALID_ARGUMENT: no such slots or client. */
mr_status *mr_ps_clock_set(mr_ps_clock *c, uint64_t client, int first, int end, uint64_t ts);
mr_ps_turn mr_ps_clock_turn(const mr_ps_clock *c, uint64_t client, int slot, uint64_t ts, uint64_t prev);
/* The same, when `at` is known to be the client's last number there. */
mr_ps_turn mr_ps_turn_at(uint64_t at, uint64_t ts, uint64_t prev);

/* One slot of all clients, by rising client: what travels with a copy of the slot; and back. */
void mr_ps_clock_export(const mr_ps_clock *c, int slot, mr_ps_stamps *out);
mr_status *mr_ps_clock_import(mr_ps_clock *c, int slot, const mr_ps_stamp *stamps, int n); /* replaces what was there */
void mr_ps_clock_drop_slot(mr_ps_clock *c, int slot);
/* The client has left for good. */
void mr_ps_clock_forget(mr_ps_clock *c, uint64_t client);
/* A client's ranges, to be encoded or shown; NULL: it has none.  Lives until the clock changes. */
const mr_ps_client_clock *mr_ps_clock_of(const mr_ps_clock *c, uint64_t client);

#endif
