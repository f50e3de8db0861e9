/* sim/answer.h -- what a plan gives, as JSON: `millrace sim --json` prints it and `millrace board` sends it.
 *
 * Each function appends one object and a line feed. After an error `out` is as it was. */
#ifndef MR_SIM_ANSWER_H
#define MR_SIM_ANSWER_H

#include "sim/training.h"

/* costs: NULL, or measured costs, as for mr_sim_step_new. */

/* The step, and the training if the plan has a cluster. */
mr_status *mr_sim_answer_step(const mr_sim_plan *p, mr_costs *costs, mr_str *out);
/* The object of a step that was simulated already. t: its training, or NULL. */
void mr_sim_answer_simulated(const mr_sim_step *s, const mr_sim_training *t, mr_str *out);
/* Why the nodes whose names begin with `node` are where they are (NULL: all nodes). */
mr_status *mr_sim_answer_reasons(const mr_sim_plan *p, mr_costs *costs, const char *node, mr_str *out);
/* The step or the training for each value of a range; the plan keeps the last value. */
mr_status *mr_sim_answer_sweep(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out);
/* The built-in networks with their parameters, as a list. */
void mr_sim_answer_models(mr_str *out);

#endif
