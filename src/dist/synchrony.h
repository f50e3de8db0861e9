/* dist/synchrony.h -- how workers keep together, as one word: for flags, options and the environment.
 *
 *     async         nobody waits for anybody
 *     sync          one update from the gradients of all workers
 *     backup        the same without the slowest, as many as it pays to drop (dist/backups.h)
 *     backup:K      the same without the K slowest
 *     bounded       each updates by itself, not too far ahead of the slowest: as far as it pays (dist/delay.h)
 *     bounded:T     at most T iterations ahead
 *     all_reduce    every worker has all variables, and all make the same update (train/all_reduce.h) */
#ifndef MR_DIST_SYNCHRONY_H
#define MR_DIST_SYNCHRONY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef struct mr_synchrony {
    bool together; /* one update from many gradients */
    bool adaptive; /* how many are dropped, or how far ahead one may be, is chosen */
    bool bounded;
    bool all_reduce; /* and no parameter servers */
    int64_t n;     /* K or T, when it is not */
} mr_synchrony;

/* INVALID_ARGUMENT tells what it could be. */
mr_status *mr_synchrony_parse(mr_sv text, mr_synchrony *out);

#endif
