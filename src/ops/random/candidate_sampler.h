/* ops/random/candidate_sampler.h -- draws classes for sampled losses: code that all distributions
 * share. */
#ifndef MR_OPS_RANDOM_CANDIDATE_SAMPLER_H
#define MR_OPS_RANDOM_CANDIDATE_SAMPLER_H

#include "graph/infer.h"
#include "ops/random/philox.h"

/* A distribution over 0..range-1; ctx holds the probabilities, if the distribution needs them. */
typedef struct mr_sampler {
    int64_t (*draw)(const void *ctx, mr_words *w, int64_t range);
    float (*probability)(const void *ctx, int64_t range, int64_t class_);
} mr_sampler;

/* The state of a kernel, or the first member of it. */
typedef struct mr_sampler_state {
    mr_random_state random; /* must be first: mr_random_init expects it at the start of the state */
    int64_t num_true, num_sampled, range;
    bool unique;
} mr_sampler_state;

mr_status *mr_sampler_init(mr_make *m, void *state);
mr_status *mr_sampler_run(mr_run *r, const mr_sampler *d, const void *ctx);
mr_status *mr_sampler_shape(mr_infer *c);

#define MR_SAMPLER_SIG                                                                           \
    "true_classes: int64 -> sampled_candidates: int64, true_expected_count: float, "             \
    "sampled_expected_count: float"

#endif
