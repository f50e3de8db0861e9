/* sim/show.h -- a simulated step for people, and for programs. */
#ifndef MR_SIM_SHOW_H
#define MR_SIM_SHOW_H

#include "exec/timeline.h"
#include "sim/step.h"

/* Sizes as a person likes to read them: "12.3 GFLOP", "401 kB". */
void mr_sim_put_size(mr_str *out, double n, const char *unit);

/* The step of each device alone (mr_sim_step_alone); INFINITY where it does not fit.  mr_free. */
double *mr_sim_single_steps(const mr_sim_step *s);

/* Graph, devices, step time; single: as of mr_sim_single_steps. */
void mr_sim_show_summary(const mr_sim_step *s, const double *single, mr_str *out);
/* Which layer stands where, and why the heaviest nodes do. */
mr_status *mr_sim_show_placement(const mr_sim_step *s, mr_str *out);
/* Why nodes stand where they stand: all of the step, or those named so (a name or the beginning of one). */
mr_status *mr_sim_show_reasons(const mr_sim_step *s, const char *node, mr_str *out);

/* Lanes: a device each, a link each. */
void mr_sim_step_timeline(const mr_sim_step *s, mr_timeline *out);
void mr_sim_show_timeline(const mr_sim_step *s, int width, mr_str *out);

/* The flow, event by event; tell gets a line each and returns false to stop. */
void mr_sim_show_flow(const mr_sim_step *s, bool (*tell)(void *arg, const char *line), void *arg);

/* The nodes of the step: what each makes and reads. */
void mr_sim_show_graph(const mr_sim_step *s, mr_str *out);

/* All of it as members of a JSON object. */
void mr_sim_show_json(const mr_sim_step *s, const double *single, mr_str *out);

#endif
