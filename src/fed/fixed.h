/* fed/fixed.h -- updates as numbers modulo 2^32, so that masked ones can be added up.
 *
 * A client's word i is its difference times its share of `most` examples, in units of 1/scale; the last word is its number of
 * examples.  The scale is a power of two so small that n clients cannot overflow: the sum of words is exact, and what is lost
 * is half a unit for each client. */
#ifndef MR_FED_FIXED_H
#define MR_FED_FIXED_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_fixed {
    double scale;
    float clip;   /* differences beyond are cut off */
    int64_t most; /* examples; a client with more counts as having so many */
} mr_fixed;

/* INVALID_ARGUMENT when nothing would be left of a number. */
mr_status *mr_fixed_init(mr_fixed *f, int64_t n_clients, float clip, int64_t most);
/* n differences to n + 1 words.  INVALID_ARGUMENT for what is not finite. */
mr_status *mr_fixed_encode(const mr_fixed *f, const float *differences, size_t n, int64_t examples, uint32_t *words);
/* The weighted mean of n differences from the sum of n + 1 words; *examples of all clients.  DATA_LOSS for none. */
mr_status *mr_fixed_decode(const mr_fixed *f, const uint32_t *sum, size_t n, float *mean, int64_t *examples);

#endif
