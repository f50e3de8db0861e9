/* ps/count_min.h -- a count-min sketch: estimates how often each of very many keys has occurred.
 *
 * Counts are never too small. They are too large by at most e / width of all inserts, except with
 * probability exp(-depth). Insertion is conservative: only those counters rise that would otherwise
 * be below the key's new count, which makes rare keys far more exact. It serves to drop rare
 * features before training: the first pass inserts, the second asks. */
#ifndef MR_PS_COUNT_MIN_H
#define MR_PS_COUNT_MIN_H

#include "base/str.h"

typedef struct mr_count_min mr_count_min;

enum { MR_COUNT_MIN_MAX_DEPTH = 8 };

/* width is rounded up to a power of two; sketches of the same size and seed can be merged. */
mr_status *mr_count_min_new(uint64_t width, int depth, uint64_t seed, mr_count_min **out);
void mr_count_min_free(mr_count_min *s);
void mr_count_min_insert(mr_count_min *s, const uint64_t *keys, size_t n); /* adds 1 to the count of each key */
/* At least the true count, at most that plus the error; saturates at UINT32_MAX. */
uint32_t mr_count_min_get(const mr_count_min *s, uint64_t key);
void mr_count_min_get_many(const mr_count_min *s, const uint64_t *keys, size_t n, uint32_t *counts);
uint64_t mr_count_min_total(const mr_count_min *s);
/* All counters, row by row; the caller may change them. */
size_t mr_count_min_size(const mr_count_min *s);
uint32_t *mr_count_min_counters(const mr_count_min *s);

/* Adds the counts of another worker; INVALID_ARGUMENT unless shape and seed are the same. */
mr_status *mr_count_min_merge(mr_count_min *into, const mr_count_min *from);
/* A sketch as bytes, and back from an untrusted peer. A few bytes may describe a huge sketch of zeros, so one of more
 * than most_bytes is refused. */
mr_status *mr_count_min_pack(const mr_count_min *s, mr_str *out);
mr_status *mr_count_min_unpack(mr_sv in, size_t most_bytes, mr_count_min **out);

#endif
