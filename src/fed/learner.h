/* fed/learner.h -- the work of a client: some epochs on its own examples, starting from the server's weights.
 *
 * Clients of one process share sessions: the weights of a client are assigned to the variables, the state of the
 * optimizer is reset, steps are run, and the weights are read again. All weights together are one vector of floats, in
 * the order of the parameters. */
#ifndef MR_FED_LEARNER_H
#define MR_FED_LEARNER_H

#include "exec/session.h"

typedef struct mr_learner_parameter {
    mr_out value; /* fetched */
    mr_out feed;  /* a placeholder of known shape */
    mr_node *assign; /* assigns the fed value to the variable */
} mr_learner_parameter;

typedef struct mr_learner { /* one per thread */
    mr_session *session;
    const mr_learner_parameter *parameters;
    int n_parameters;
    mr_node *reset;       /* runs before a client trains; NULL: none */
    mr_node *train;       /* one step */
    const mr_out *inputs; /* fed with rows of the examples */
    int n_inputs;
    mr_out loss; /* float scalar; node NULL: none */
    mr_out rate; /* float scalar, fed; node NULL: none */
} mr_learner;

typedef struct mr_learner_examples {
    mr_tensor *const *values; /* one per input; dimension 0 counts examples */
    const int64_t *rows;      /* the rows to use; NULL: the first n */
    int64_t n;
} mr_learner_examples;

typedef struct mr_learner_config {
    int64_t epochs, batch; /* batch 0: all examples at once */
    float rate;
    uint64_t seed; /* of the order of examples */
} mr_learner_config;

typedef struct mr_learner_result {
    double loss; /* mean over all steps; 0 without one */
    int64_t steps;
} mr_learner_result;

/* The number of floats of all parameters. INVALID_ARGUMENT if a parameter is not a float of known shape. */
mr_status *mr_learner_size(const mr_learner_parameter *p, int n_parameters, size_t *out);
/* INVALID_ARGUMENT if the examples do not fit the inputs, or a row does not exist. */
mr_status *mr_learner_check_examples(const mr_learner *l, const mr_learner_examples *e);

/* n is the result of mr_learner_size. */
mr_status *mr_learner_load(mr_learner *l, const float *weights, size_t n);
mr_status *mr_learner_read(mr_learner *l, float *weights, size_t n);

typedef struct mr_learner_stop { /* asked between steps: true ends training with CANCELLED */
    bool (*fn)(void *arg); /* NULL: training is never stopped */
    void *arg;
} mr_learner_stop;
/* Trains from `weights` and writes the change of each weight to `difference`. */
mr_status *mr_learner_train(mr_learner *l, const mr_learner_config *c, const mr_learner_examples *e, const float *weights, size_t n,
                            float *difference, mr_learner_stop stop, mr_learner_result *out);

#endif
