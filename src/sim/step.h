/* sim/step.h -- one step of a plan's graph on a plan's devices, in simulated time.
 *
 * The graph goes the way of a real session: it is placed by cost (passes/place_cost.c), pruned, folded, and equal nodes of a device
 * are merged.  Only time is simulated, once (passes/planned_step.h): the total, the timeline and the reasons are all drawn
 * from that simulation. */
#ifndef MR_SIM_STEP_H
#define MR_SIM_STEP_H

#include "passes/planned_step.h"
#include "sim/plan.h"

typedef struct mr_sim_step {
    const mr_sim_plan *plan;
    mr_sim_graph_def def;
    int n_devices;
    mr_device **devices; /* for planning only: they run nothing */
    mr_workload_link *links;
    int64_t *memory;
    mr_costs *costs; /* measured; NULL: none */
    mr_place_costs place;
    mr_prepare_options options;
    bool *needed; /* by node id of the graph */
    int n_needed;
    mr_placements placed;
    mr_planned_step planned; /* what runs: graph, workload, play (start, finish, ready_at, sends) */
    int n_nodes;
    mr_node **nodes; /* by number in the workload; borrowed from planned */
    int *number;     /* by id in planned.g */
    int *device;     /* by number */
    double step_s;
    double *busy_s; /* by device */
} mr_sim_step;

/* costs: NULL, or measured ones (the plan then must not name any); borrowed until the step is freed. */
mr_status *mr_sim_step_new(const mr_sim_plan *p, mr_costs *costs, mr_sim_step **out);
void mr_sim_step_free(mr_sim_step *s); /* NULL is fine */

/* What it takes with everything on one device that the plan does not pin elsewhere; INFINITY: there is no memory. */
mr_status *mr_sim_step_alone(const mr_sim_step *s, int device, double *seconds);
/* mr_place_reasons of the step. */
mr_status *mr_sim_step_reasons(const mr_sim_step *s, const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r), void *arg);

/* What a node is to people: its name in the graph, or what is fed or fetched. */
void mr_sim_step_label(const mr_sim_step *s, int v, mr_str *out);
/* Of a transfer: what is sent; "end of NAME" when only the end is signalled to another device. */
void mr_sim_step_send_label(const mr_sim_step *s, const mr_play_send *x, mr_str *out);
/* Forward, backward or update, by its name. */
typedef enum mr_sim_phase { MR_SIM_FORWARD, MR_SIM_BACKWARD, MR_SIM_UPDATE } mr_sim_phase;
mr_sim_phase mr_sim_step_phase(const mr_sim_step *s, int v);
/* The layer a node belongs to: its name without what gradients add in front, up to the last variable's scope. */
mr_sv mr_sim_step_layer(const mr_sim_step *s, int v);

/* The layers with their times and parameters, as a training simulates them; mr_free.  Names are borrowed from the graph's arena. */
mr_simtrain_chunk *mr_sim_step_chunks(mr_sim_step *s, int *n);

/* ---- for its own files ---- */
mr_status *mr_sim_graph_open(const mr_sim_plan *p, mr_sim_graph_def *out);
mr_status *mr_sim_graph_file_open(const mr_sim_plan *p, mr_sim_graph_def *out); /* graph_file.c */

#endif
