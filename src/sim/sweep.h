/* sim/sweep.h -- varies one number of a plan and simulates the step, or the training, for each value. */
#ifndef MR_SIM_SWEEP_H
#define MR_SIM_SWEEP_H

#include "base/terminal.h"
#include "sim/step.h"

typedef struct mr_sim_range {
    mr_sv what; /* borrowed from the text */
    double from, to;
} mr_sim_range;
/* "device:gpu0.speedup=1..16" */
mr_status *mr_sim_range_parse(const char *text, mr_sim_range *out);

/* Simulates the step for 1, 2, 4, .. times `from`, up to `to`, and prints a table for the terminal; the plan keeps the
 * last value. */
mr_status *mr_sim_sweep(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, const mr_terminal *to, mr_str *out);
/* The same as members of a JSON object. After an error `out` is incomplete. */
mr_status *mr_sim_sweep_json(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out);

#endif
