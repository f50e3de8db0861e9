/* sim/training.h -- simulates many workers that train with a plan's step. */
#ifndef MR_SIM_TRAINING_H
#define MR_SIM_TRAINING_H

#include "exec/timeline.h"
#include "sim/sweep.h"

typedef struct mr_sim_training {
    mr_simtrain_job job; /* the plan's, with the layers of its step */
    mr_simtrain_chunk *chunks;
    mr_simtrain_result result;
} mr_sim_training;

/* The plan must have a cluster. RESOURCE_EXHAUSTED if it would take too long. */
mr_status *mr_sim_training_run(const mr_sim_plan *p, mr_sim_step *s, mr_sim_training *out);
void mr_sim_training_deinit(mr_sim_training *t);
void mr_sim_show_training(const mr_sim_training *t, const mr_terminal *to, mr_str *out);
/* The first steps: one lane for each worker and parameter server. */
void mr_sim_training_timeline(const mr_sim_training *t, mr_timeline *out);
void mr_sim_training_json(const mr_sim_training *t, mr_str *out); /* members of an object, preceded by a comma */

/* Whether a sweep over `what` varies the training: workers, ps, backup or delay. */
bool mr_sim_training_sweeps(mr_sv what);
mr_status *mr_sim_training_sweep(const mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, const mr_terminal *to, mr_str *out);
/* The same as a JSON object: {"what": .., "points": [{"value": .., "examples_per_s": .., ..}], "knee": .., "best": ..}. */
mr_status *mr_sim_training_sweep_json(const mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out);

#endif
