/* dist/synchrony.h -- how workers are synchronized, as a text for flags, options and the environment.
 *
 *     async         no worker waits for another
 *     sync          one update from the gradients of all workers
 *     backup        the same without the slowest workers; their number is chosen (dist/backups.h)
 *     backup:K      the same without the K slowest
 *     bounded       each worker updates by itself, not too far ahead of the slowest; the bound is chosen (dist/delay.h)
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
    bool adaptive; /* K or T is chosen while training runs */
    bool bounded;
    bool all_reduce; /* without parameter servers */
    int64_t n;     /* K or T, unless adaptive */
} mr_synchrony;

/* INVALID_ARGUMENT lists the possible texts. */
mr_status *mr_synchrony_parse(mr_sv text, mr_synchrony *out);

#endif
