/* ops/data/seeds.h -- the source of random seeds for datasets.
 *
 * Two seeds of 0 request different results in each run: both are drawn at random. A dataset that is reshuffled in
 * each iteration takes a new pair from its generator for each; the generator starts again with the dataset or, if
 * it is a resource, continues. */
#ifndef MR_OPS_DATA_SEEDS_H
#define MR_OPS_DATA_SEEDS_H

#include "ops/random/philox.h"

typedef struct mr_seeds {
    int64_t seed, seed2;
} mr_seeds;

/* Reads inputs i and i + 1; two zeros are replaced by random seeds. */
mr_status *mr_seeds_read(mr_run *r, int i, mr_seeds *out);
/* TensorFlow's random stream for a pair of seeds; it gives 32-bit words one after another. */
mr_words mr_seeds_stream(mr_seeds s);

/* A generator of seeds, as a resource; reference-counted. */
typedef struct mr_seed_source {
    mr_object base;
    mr_mutex mu;
    mr_seeds seeds;
    bool reshuffle; /* false: always gives the seeds it was created with */
    mr_words words MR_GUARDED_BY(mu);
    int64_t given MR_GUARDED_BY(mu); /* number of pairs given */
} mr_seed_source;
extern const mr_object_type mr_seed_source_type;
mr_seed_source *mr_seed_source_new(mr_seeds s, bool reshuffle);
mr_seeds mr_seed_source_next(mr_seed_source *s);
/* The state of a generator: its seeds and the number of pairs it gave. One function reads the state, the other
 * restores it. */
typedef struct mr_seed_place {
    mr_seeds seeds;
    int64_t given;
} mr_seed_place;
mr_seed_place mr_seed_source_place(mr_seed_source *s);
void mr_seed_source_return(mr_seed_source *s, const mr_seed_place *p);
/* The source that input i refers to; NULL for a handle that refers to none (or to "", the result of
 * DummySeedGenerator). */
mr_status *mr_seed_source_in(mr_run *r, int i, mr_seed_source **out);

#endif
