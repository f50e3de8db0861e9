/* millrace/sketch.h -- about how often each of very many keys has come, in little memory.
 *
 * A count-min sketch: counts are never too small, and too large by at most e / width of all inserts, except with probability
 * exp(-depth).  Training drops rare features by it: one pass over the examples inserts their keys, the second asks.  Workers
 * who have counted a share each bring their counters together by adding them up; a parameter server's table can do that
 * (MR_PS_ADD, a key a counter). */
#ifndef MILLRACE_SKETCH_H
#define MILLRACE_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "millrace/millrace.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_sketch mr_sketch;

/* `depth` (1 to 8) rows of `width` counters, rounded up to a power of two.  NULL after an error. */
MR_EXPORT extern mr_sketch *mr_sketch_new(uint64_t width, int depth, uint64_t seed, TF_Status *status);
MR_EXPORT extern void mr_sketch_free(mr_sketch *s);
/* Each key once more.  From one thread at a time. */
MR_EXPORT extern void mr_sketch_insert(mr_sketch *s, const uint64_t *keys, size_t n);
/* At least how often each has come. */
MR_EXPORT extern void mr_sketch_counts(const mr_sketch *s, const uint64_t *keys, size_t n, uint32_t *counts);

/* The counters, width * depth of them, as floats (exact up to 2^24), and the other way: what was there is replaced.  Sums of
 * the counters of sketches of one width, depth and seed are those of all their keys. */
MR_EXPORT extern size_t mr_sketch_size(const mr_sketch *s);
MR_EXPORT extern void mr_sketch_get(const mr_sketch *s, float *counters);
MR_EXPORT extern void mr_sketch_set(mr_sketch *s, const float *counters);

#ifdef __cplusplus
}
#endif

#endif
