/* tests/fuzz/tap.h -- a transport on which somebody sits: it hears all calls, and changes some.
 *
 * Calls go on to the in-process transport (net/loop.c).  On their way, there and back, messages may
 * be mutated, doubled, held back, answered by somebody else, or cut off in the middle; one thread
 * (the cutter) ends what has been under way for too long, as a network does at last.  Tasks and
 * clients on it must end all they began, whatever comes. */
#ifndef MR_TESTS_FUZZ_TAP_H
#define MR_TESTS_FUZZ_TAP_H

#include "net/net.h"
#include "tests/fuzz/messages.h"

/* What became of messages. */
enum {
    TAP_SENT,      /* as they were */
    TAP_REQUESTS,  /* mutated */
    TAP_RESPONSES, /* mutated */
    TAP_PARSED,    /* mutated requests not refused as malformed */
    TAP_ACCEPTED,  /* mutated requests that ended well */
    TAP_CUT,       /* calls cut off in the middle */
    TAP_METHODS,   /* from here on: mutated requests, those parsed and those accepted, by method */
    TAP_N_COUNTS = TAP_METHODS + 3 * FUZZ_N_METHODS
};

/* For one run.  Counts are the run's. */
mr_net *tap_open(fuzz_run *r, fuzz_lexicon *l);
/* Once in so many messages; 0: none. */
void tap_tamper(int requests, int answers);
void tap_cut_after(int64_t ns); /* calls under way for longer end; 0: never */
int64_t tap_mutated(void);      /* messages since tap_open */

/* A call nobody waits for, to a peer of the tap, of `method` with a message mutated by so many
 * changes. */
void tap_inject(mr_net_peer *p, int method, int changes);
/* Cuts a call of those under way, if there is one. */
void tap_cut_any(void);
/* Cuts all, and waits for their ends. */
void tap_close(void);

#endif
