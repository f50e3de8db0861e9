/* dist/pipeline.h -- in which order the stages of a pipeline do their work, and what that costs.
 *
 * A network is cut into stages, a batch into micro-batches.  Stage s does the forward part of each micro-batch after
 * stage s - 1, and the backward part after stage s + 1.  The order within a stage is free:
 *
 *     fill-drain   all forward, then all backward: activations of all micro-batches are kept at the same time
 *     1F1B         forward only as far ahead as needed to fill the stages behind, then one backward for each
 *                  forward: the same time, and stage s keeps at most (stages - s) micro-batches
 *
 * Pure: no clock; the caller gives the times. */
#ifndef MR_DIST_PIPELINE_H
#define MR_DIST_PIPELINE_H

#include <stdbool.h>

#include "base/status.h"

typedef enum mr_pipeline_order {
    MR_ORDER_FILL_DRAIN,
    MR_ORDER_1F1B,
} mr_pipeline_order;

typedef struct mr_pipeline_task {
    int micro;
    bool backward;
} mr_pipeline_task;

enum { MR_PIPELINE_MAX = 4096 }; /* stages, and micro-batches */

/* What a stage does: 2 * n_micro tasks. */
void mr_pipeline_tasks(mr_pipeline_order order, int n_stages, int n_micro, int stage, mr_pipeline_task *out);

typedef struct mr_pipeline_cost {
    double step_s;  /* from the first forward to the last backward */
    double alone_s; /* the same work, one stage at a time */
    double bubble;  /* mean share of the time in which a stage is idle */
    int most_kept;  /* micro-batches whose forward part is done and backward part is not: the most in any stage */
} mr_pipeline_cost;

/* forward_s and backward_s: of one micro-batch, by stage.  transfer_s: between two stages.  INVALID_ARGUMENT for
 * impossible counts or times. */
mr_status *mr_pipeline_simulate(mr_pipeline_order order, int n_stages, int n_micro, const double *forward_s,
                                const double *backward_s, double transfer_s, mr_pipeline_cost *out);

#endif
