/* tests/fuzz/tap.h -- a transport with a man in the middle: it records all calls, and changes some.
 *
 * Calls are forwarded to the in-process transport (net/loop.c). In both directions, messages may be mutated,
 * duplicated, delayed, answered by the tap, or cut off in the middle; one thread (the cutter) ends calls that have been
 * in progress for too long, as a network eventually does. Tasks and clients must end everything they began, whatever
 * happens. */
#ifndef MR_TESTS_FUZZ_TAP_H
#define MR_TESTS_FUZZ_TAP_H

#include "net/net.h"
#include "tests/fuzz/messages.h"

/* Counts of messages by their fate. */
enum {
    TAP_SENT,      /* unchanged */
    TAP_REQUESTS,  /* mutated */
    TAP_RESPONSES, /* mutated */
    TAP_PARSED,    /* mutated requests not refused as malformed */
    TAP_ACCEPTED,  /* mutated requests that succeeded */
    TAP_CUT,       /* calls cut off in the middle */
    TAP_METHODS,   /* from here on: mutated requests, those parsed and those accepted, by method */
    TAP_N_COUNTS = TAP_METHODS + 3 * FUZZ_N_METHODS
};

/* For one run.  Counts are the run's. */
mr_net *tap_open(fuzz_run *r, fuzz_lexicon *l);
/* One in this many messages; 0: none. */
void tap_tamper(int requests, int answers);
void tap_cut_after(int64_t ns); /* calls in progress for longer are ended; 0: never */
int64_t tap_mutated(void);      /* messages since tap_open */

/* Starts a call that nobody waits for, to a peer of the tap, of `method`, with a message that has that many changes. */
void tap_inject(mr_net_peer *p, int method, int changes);
/* Cuts one of the calls in progress, if there is one. */
void tap_cut_any(void);
/* Cuts all, and waits for their ends. */
void tap_close(void);

#endif
