/* dist/ps_clock.h -- range vector clocks: which push of each client was applied last, range by range.
 *
 * A client numbers its pushes. One push touches many ranges, usually all or a span of them, so
 * neighbours have the same number. Therefore a client's clock is a list of spans of ranges with one
 * number each: a push to part of a span splits it, and spans that become equal merge. A range in
 * no span is at 0.
 *
 * Every part of a push names its own number and that of the client's previous push to the same
 * range. From these the server sees whether the part is the next one, one that it already has, or
 * whether one is missing in between. So each counts once, whatever is lost, repeated or overtaken. */
#ifndef MR_DIST_PS_CLOCK_H
#define MR_DIST_PS_CLOCK_H

#include "base/map.h"
#include "base/vec.h"

typedef struct mr_ps_clock_span {
    int first, end; /* ranges; end is not in it */
    uint64_t ts;    /* > 0 */
} mr_ps_clock_span;

typedef struct mr_ps_stamp { /* one client at one range */
    uint64_t client, ts;
} mr_ps_stamp;
typedef MR_VEC(mr_ps_stamp) mr_ps_stamps;

typedef struct mr_ps_client_clock {
    uint64_t client;
    MR_VEC(mr_ps_clock_span) spans; /* rising, apart, neighbours differ */
} mr_ps_client_clock;

typedef struct mr_ps_clock {
    int num_ranges, max_clients;
    mr_imap clients; /* by mixed id -> mr_ps_client_clock */
} mr_ps_clock;

typedef enum mr_ps_turn {
    MR_PS_NEXT,      /* apply it */
    MR_PS_DUPLICATE, /* applied before: acknowledge it again */
    MR_PS_GAP,       /* a push before it is missing: the client resends in order */
    MR_PS_BAD,       /* invalid: ts is not above prev, or no such client or range */
} mr_ps_turn;

void mr_ps_clock_init(mr_ps_clock *c, int num_ranges, int max_clients); /* max_clients 0: a million */
void mr_ps_clock_deinit(mr_ps_clock *c);

uint64_t mr_ps_clock_get(const mr_ps_clock *c, uint64_t client, int range);
/* Whether this client is known, or there is room for one more. Only a head asks; members follow what the head took. */
bool mr_ps_clock_room(const mr_ps_clock *c, uint64_t client);
/* Sets the ranges [first, end); ts 0 removes them. INVALID_ARGUMENT: no such ranges or client. */
mr_status *mr_ps_clock_set(mr_ps_clock *c, uint64_t client, int first, int end, uint64_t ts);
mr_ps_turn mr_ps_clock_turn(const mr_ps_clock *c, uint64_t client, int range, uint64_t ts, uint64_t prev);
/* The same, if `at` is known to be the client's last number there. */
mr_ps_turn mr_ps_turn_at(uint64_t at, uint64_t ts, uint64_t prev);

/* The clocks of all clients at one range, by rising client, as they travel with a copy of the range; and back. */
void mr_ps_clock_export(const mr_ps_clock *c, int range, mr_ps_stamps *out);
mr_status *mr_ps_clock_import(mr_ps_clock *c, int range, const mr_ps_stamp *stamps,
                              int n); /* replaces what was there */
void mr_ps_clock_drop_range(mr_ps_clock *c, int range);
/* The client has left for good. */
void mr_ps_clock_forget(mr_ps_clock *c, uint64_t client);
/* A client's spans; NULL: none. Borrowed until the clock changes. */
const mr_ps_client_clock *mr_ps_clock_of(const mr_ps_clock *c, uint64_t client);

#endif
