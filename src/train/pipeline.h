/* train/pipeline.h -- one network in stages on several devices, with micro-batches in flight.
 *
 * The batch is cut into equal micro-batches, which pass the stages one after the other, forward and then backward, in
 * the order of dist/pipeline.h; their gradients are added up, and one update follows.  So a step equals that of the
 * whole batch, up to rounding.  It is one graph and one run: control edges within each stage make the order. */
#ifndef MR_TRAIN_PIPELINE_H
#define MR_TRAIN_PIPELINE_H

#include "dist/pipeline.h"
#include "train/nn.h"

typedef struct mr_nn_pipeline {
    int n_stages, n_micro;
    const char *const *devices; /* by stage: its operations and variables */
    mr_pipeline_order order;
    /* Builds a stage: x is the result of the one before (for stage 0 the first input), parts are all inputs, each its
     * share of the batch.  The last stage returns the loss, a scalar.  Called for each micro-batch, with the same
     * variables.  A stage may use values that depend on trainable variables of other stages only through x: else
     * INVALID_ARGUMENT. */
    mr_out (*build)(void *arg, int stage, mr_out x, const mr_out *parts);
    void *arg;
} mr_nn_pipeline;

/* One step.  inputs have the batch as their first dimension, which must be a multiple of n_micro; *loss is the mean.
 * NULL after an error, which is in the scope. */
mr_node *mr_nn_pipeline_minimize(mr_nn *n, const mr_nn_pipeline *p, const mr_out *inputs, int n_inputs,
                                  const mr_nn_optimizer *o, mr_out *loss);

#endif
