/* sim/step.h -- one step of a plan's graph on a plan's devices, in simulated time.
 *
 * The graph is prepared as in a real session: it is placed by cost (passes/place_cost.c), pruned, folded, and equal
 * nodes of a device are merged. Only time is simulated, once (passes/planned_step.h): the total, the timeline and the
 * reasons all come from that simulation. */
#ifndef MR_SIM_STEP_H
#define MR_SIM_STEP_H

#include "passes/planned_step.h"
#include "sim/plan.h"

typedef struct mr_sim_step {
    const mr_sim_plan *plan;
    mr_sim_graph_def def;
    int n_devices;
    mr_device **devices; /* for planning only: nothing runs on them */
    mr_workload_link *links;
    int64_t *memory;
    mr_costs *costs; /* measured; NULL: none */
    mr_place_costs place;
    mr_prepare_options options;
    bool *needed; /* by node id of the graph */
    int n_needed;
    mr_placements placed;
    mr_planned_step planned; /* the nodes that run: graph, workload, play (start, finish, ready_at, sends) */
    int n_nodes;
    mr_node **nodes; /* by number in the workload; borrowed from planned */
    int *number;     /* by id in planned.g */
    int *device;     /* by number */
    double step_s;
    double *busy_s; /* by device */
} mr_sim_step;

/* costs: NULL, or measured costs (then the plan must not name a file of costs); borrowed until the step is freed. */
mr_status *mr_sim_step_new(const mr_sim_plan *p, mr_costs *costs, mr_sim_step **out);
void mr_sim_step_free(mr_sim_step *s); /* accepts NULL */

/* The step time with everything on one device that the plan does not pin elsewhere; INFINITY if the memory is too
 * small. */
mr_status *mr_sim_step_alone(const mr_sim_step *s, int device, double *seconds);
/* mr_place_reasons of the step. RESOURCE_EXHAUSTED if it would take long. */
mr_status *mr_sim_step_reasons(const mr_sim_step *s, const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r), void *arg);
/* The same for all nodes whose names begin with `node` (NULL: for all nodes). INVALID_ARGUMENT if the step runs none. */
mr_status *mr_sim_step_explain(const mr_sim_step *s, const char *node, void (*tell)(void *arg, const mr_place_reason *r), void *arg);

/* The name of a node for people: its name in the graph, or that of the fed or fetched node. */
void mr_sim_step_label(const mr_sim_step *s, int v, mr_str *out);
/* The name of a transfer: the tensor; "end of NAME" if it only signals the end of a node. */
void mr_sim_step_send_label(const mr_sim_step *s, const mr_play_send *x, mr_str *out);
/* Forward, backward or update, by its name. */
typedef enum mr_sim_phase { MR_SIM_FORWARD, MR_SIM_BACKWARD, MR_SIM_UPDATE } mr_sim_phase;
mr_sim_phase mr_sim_step_phase(const mr_sim_step *s, int v);
/* The layer of a node: its name without the prefix that gradients add, up to the scope of the last variable. */
mr_sv mr_sim_step_layer(const mr_sim_step *s, int v);

/* The layers with their times and parameters, as chunks of a simulated training; free with mr_free. Names are borrowed
 * from the graph's arena. */
mr_simtrain_chunk *mr_sim_step_chunks(mr_sim_step *s, int *n);

/* ---- internal ---- */
mr_status *mr_sim_graph_open(const mr_sim_plan *p, mr_sim_graph_def *out);
mr_status *mr_sim_graph_file_open(const mr_sim_plan *p, mr_sim_graph_def *out); /* graph_file.c */

#endif
