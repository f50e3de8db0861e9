/* millrace/sketch.h -- approximate counts of very many keys in little memory: a count-min sketch.
 *
 * A count is never too small. Except with probability exp(-depth), it is too large by at most e / width times the
 * number of all inserts. Training can use it to drop rare features: a first pass over the examples inserts their keys,
 * a second pass looks up the counts.
 *
 * Workers that have each counted a part of the data combine their sketches by adding the counters. A table of a
 * parameter server can do this: MR_PS_ADD, with one key per counter (millrace/ps.h). */
#ifndef MILLRACE_SKETCH_H
#define MILLRACE_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "millrace/millrace.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A count-min sketch. One thread at a time may change it; several may read it. */
typedef struct mr_sketch mr_sketch;

/* Creates an empty sketch with `depth` rows (1 to 8) of `width` counters; width is rounded up to a power of two.
 * Returns NULL after an error. */
MR_EXPORT extern mr_sketch *mr_sketch_new(uint64_t width, int depth, uint64_t seed, TF_Status *status);
/* Frees the sketch. NULL is allowed. */
MR_EXPORT extern void mr_sketch_free(mr_sketch *s);
/* Counts each of the n keys once more. */
MR_EXPORT extern void mr_sketch_insert(mr_sketch *s, const uint64_t *keys, size_t n);
/* Stores in counts[i] how often keys[i] has been inserted, or more. */
MR_EXPORT extern void mr_sketch_counts(const mr_sketch *s, const uint64_t *keys, size_t n, uint32_t *counts);

/* Returns the number of counters, width * depth. */
MR_EXPORT extern size_t mr_sketch_size(const mr_sketch *s);
/* Copies all counters to `counters` as floats, which are exact up to 2^24. The sum of the counters of several sketches
 * of the same width, depth and seed is a sketch of all their keys. */
MR_EXPORT extern void mr_sketch_get(const mr_sketch *s, float *counters);
/* Replaces all counters, usually by such a sum. */
MR_EXPORT extern void mr_sketch_set(mr_sketch *s, const float *counters);

#ifdef __cplusplus
}
#endif

#endif
