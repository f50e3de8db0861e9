/* sim/show.h -- a simulated step as text and as JSON. */
#ifndef MR_SIM_SHOW_H
#define MR_SIM_SHOW_H

#include "base/terminal.h"
#include "exec/timeline.h"
#include "sim/step.h"

/* Sizes in readable units: "12.3 GFLOP", "401 kB". */
void mr_sim_put_size(mr_str *out, double n, const char *unit);

/* The step time of each device alone (mr_sim_step_alone); INFINITY if the step does not fit. Free it with mr_free. */
double *mr_sim_single_steps(const mr_sim_step *s);

/* What is shown fits the width of the terminal `to` and has its colors. */

/* A line in bold, after the text `before`. */
void mr_sim_put_heading(const mr_terminal *to, const char *before, const char *text, mr_str *out);
void mr_sim_put_timeline(const mr_timeline *t, const mr_terminal *to, mr_timeline_text_options o, mr_str *out);

/* Graph, devices, step time; single: the result of mr_sim_single_steps. */
void mr_sim_show_summary(const mr_sim_step *s, const double *single, const mr_terminal *to, mr_str *out);
/* Where each layer is placed, and why the heaviest nodes are. */
mr_status *mr_sim_show_placement(const mr_sim_step *s, const mr_terminal *to, mr_str *out);
/* The reasons for the placement of all nodes, or of those whose names begin with `node`. */
mr_status *mr_sim_show_reasons(const mr_sim_step *s, const char *node, const mr_terminal *to, mr_str *out);

/* One lane for each device and each link. */
void mr_sim_step_timeline(const mr_sim_step *s, mr_timeline *out);
void mr_sim_show_timeline(const mr_sim_step *s, const mr_terminal *to, mr_str *out);

/* The flow, event by event; tell gets the text of each, which may have several lines, and returns false to stop. */
void mr_sim_show_flow(const mr_sim_step *s, const mr_terminal *to, bool (*tell)(void *arg, const char *text), void *arg);

/* The nodes of the step: what each produces and reads. */
void mr_sim_show_graph(const mr_sim_step *s, const mr_terminal *to, mr_str *out);

/* Everything, as members of a JSON object. */
void mr_sim_show_json(const mr_sim_step *s, const double *single, mr_str *out);
/* mr_sim_show_reasons as the member `reasons` of a JSON object: for each node the devices that could run it, its own
 * first. After an error `out` is incomplete. */
mr_status *mr_sim_reasons_json(const mr_sim_step *s, const char *node, mr_str *out);

#endif
