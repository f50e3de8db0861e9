/* fed/fixed.h -- updates as numbers modulo 2^32, so that masked ones can be added up.
 *
 * Word i of a client is its difference times its share of `most` examples, in units of 1/scale; the last word is its
 * number of examples. The scale is the largest power of two for which the sum of n clients cannot overflow. So the sum
 * of words is exact; rounding costs at most half a unit per client. */
#ifndef MR_FED_FIXED_H
#define MR_FED_FIXED_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_fixed {
    double scale;
    float clip;   /* larger differences are clipped to it */
    int64_t most; /* examples that count for one client at most */
} mr_fixed;

/* INVALID_ARGUMENT if fewer than 8 bits would be left for a number. */
mr_status *mr_fixed_init(mr_fixed *f, int64_t n_clients, float clip, int64_t most);
/* Converts n differences to n + 1 words. INVALID_ARGUMENT if a value is not finite. */
mr_status *mr_fixed_encode(const mr_fixed *f, const float *differences, size_t n, int64_t examples, uint32_t *words);
/* The weighted mean of n differences from the sum of n + 1 words, and the examples of all clients. DATA_LOSS if the sum
 * contains no example. */
mr_status *mr_fixed_decode(const mr_fixed *f, const uint32_t *sum, size_t n, float *mean, int64_t *examples);

#endif
