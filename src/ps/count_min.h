/* ps/count_min.h -- a count-min sketch: about how often each of very many keys has come.
 *
 * Counts are never too small; they are too large by at most e / width of all inserts, except with
 * probability exp(-depth).  Insertion is conservative: only those counters rise that would otherwise
 * be below the key's new count, which makes rare keys far more exact.  Rare features are dropped
 * before training by it: one pass inserts, the second asks. */
#ifndef MR_PS_COUNT_MIN_H
#define MR_PS_COUNT_MIN_H

#include "base/str.h"

typedef struct mr_count_min mr_count_min;

enum { MR_COUNT_MIN_MAX_DEPTH = 8 };

/* width is rounded up to a power of two; sketches of the same size and seed can be merged. */
mr_status *mr_count_min_new(uint64_t width, int depth, uint64_t seed, mr_count_min **out);
void mr_count_min_free(mr_count_min *s);
void mr_count_min_insert(mr_count_min *s, const uint64_t *keys, size_t n); /* each key once more */
/* At most the true count plus the error; saturates at UINT32_MAX. */
uint32_t mr_count_min_get(const mr_count_min *s, uint64_t key);
void mr_count_min_get_many(const mr_count_min *s, const uint64_t *keys, size_t n, uint32_t *counts);
uint64_t mr_count_min_total(const mr_count_min *s);
/* All counters, row by row: who changes them says what the sketch holds. */
size_t mr_count_min_size(const mr_count_min *s);
uint32_t *mr_count_min_counters(const mr_count_min *s);

/* Adds what another worker has counted: INVALID_ARGUMENT unless of the same shape and seed. */
mr_status *mr_count_min_merge(mr_count_min *into, const mr_count_min *from);
/* Bytes for a message, and back from a stranger's: few bytes may name a huge sketch of zeros, so one of more
 * than most_bytes is refused. */
mr_status *mr_count_min_pack(const mr_count_min *s, mr_str *out);
mr_status *mr_count_min_unpack(mr_sv in, size_t most_bytes, mr_count_min **out);

#endif
