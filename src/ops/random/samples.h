/* ops/random/samples.h -- several samples for each parameter, from one stream.
 *
 * The output is [samples.., parameters..].  Samples are numbered with all of parameter 0 first, then
 * those of parameter 1.  Sample k draws from a fixed place of the stream that depends only on k, so any
 * thread can compute it, and is stored at [sample, parameter]. */
#ifndef MR_OPS_RANDOM_SAMPLES_H
#define MR_OPS_RANDOM_SAMPLES_H

#include "graph/infer.h"
#include "ops/random/philox.h"

typedef struct mr_samples {
    mr_philox start;
    int64_t n_params, n_samples;
    mr_tensor *out;
    /* Draws sample k (numbered as above) of parameter `param`; it decides how far to skip in the stream. */
    double (*draw)(const struct mr_samples *s, int64_t k, int64_t param);
    const void *ctx;
} mr_samples;

void mr_samples_run(mr_run *r, mr_samples *s, double cost_ns);

/* Allocates output 0 of shape [input 0, shape of input `params`]; input 0 gives the number of samples. */
mr_status *mr_samples_before(mr_run *r, int params, mr_samples *out);
mr_status *mr_samples_before_infer(mr_infer *c, int params);
/* Allocates output 0, whose shape is input i and must end with the given one. */
mr_status *mr_samples_ending(mr_run *r, int i, int rank, const int64_t *dims, mr_samples *out);

/* The doubles of a stream, one by one: they are generated in pairs, of which TensorFlow uses the second first. */
typedef struct mr_pairs {
    mr_philox p;
    double uniform[2], normal[2];
    int uniforms, normals; /* how many of the pair are left */
} mr_pairs;

static inline mr_pairs mr_pairs_at(mr_philox p, uint64_t block)
{
    mr_pairs s = {.p = p};
    mr_philox_skip(&s.p, block);
    return s;
}
double mr_pairs_uniform(mr_pairs *s); /* in [0, 1) */
double mr_pairs_normal(mr_pairs *s);

/* Element i of a tensor of numbers. */
double mr_number_at(const mr_tensor *t, int64_t i);

#endif
