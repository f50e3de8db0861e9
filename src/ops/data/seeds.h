/* ops/data/seeds.h -- where datasets take their random seeds from.
 *
 * Two seeds of 0 mean that nothing is to repeat: both are drawn.  A dataset that is shuffled anew in
 * each iteration takes a new pair from its generator for each; the generator begins anew with the
 * dataset or, where it is a resource, lives on. */
#ifndef MR_OPS_DATA_SEEDS_H
#define MR_OPS_DATA_SEEDS_H

#include "ops/random/philox.h"

typedef struct mr_seeds {
    int64_t seed, seed2;
} mr_seeds;

/* Inputs i and i + 1, both 0 replaced. */
mr_status *mr_seeds_read(mr_run *r, int i, mr_seeds *out);
/* TensorFlow's stream for a pair of seeds, and 32-bit words of it one after another. */
mr_words mr_seeds_stream(mr_seeds s);

/* A generator of seeds, as a resource; counted. */
typedef struct mr_seed_source {
    mr_object base;
    mr_mutex mu;
    mr_seeds seeds;
    bool reshuffle; /* false: always the seeds it was made with */
    mr_words words MR_GUARDED_BY(mu);
    int64_t given MR_GUARDED_BY(mu); /* pairs */
} mr_seed_source;
extern const mr_object_type mr_seed_source_type;
mr_seed_source *mr_seed_source_new(mr_seeds s, bool reshuffle);
mr_seeds mr_seed_source_next(mr_seed_source *s);
/* Where it is: its seeds and how many pairs it gave; and back there. */
typedef struct mr_seed_place {
    mr_seeds seeds;
    int64_t given;
} mr_seed_place;
mr_seed_place mr_seed_source_place(mr_seed_source *s);
void mr_seed_source_return(mr_seed_source *s, const mr_seed_place *p);
/* The source behind input i; a handle that leads to none (or to "", as DummySeedGenerator gives) gives NULL. */
mr_status *mr_seed_source_in(mr_run *r, int i, mr_seed_source **out);

#endif
