/* sim/step.h -- one step of a plan's graph on a plan's devices, in simulated time.
 *
 * The way is that of a real session: the graph is placed by cost (passes/place_cost.c), pruned, folded, cut into one graph
 * a device with _Send and _Recv (passes/partition.c).  Only then time is simulated: all nodes of all parts are played
 * (passes/simulate.h), a _Recv waits for what its _Send puts on the link. */
#ifndef MR_SIM_STEP_H
#define MR_SIM_STEP_H

#include "passes/passes.h"
#include "passes/simulate.h"
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
    mr_graph **parts; /* by device */

    /* What runs: nodes of all parts. */
    int n_nodes, n_sends;
    mr_node **nodes;
    int *device; /* by node */
    int *group;  /* the identity of devices, for the workload */
    int *first_input;
    double *seconds;
    MR_VEC(mr_workload_input) inputs;
    int *sender; /* by node: of a _Recv the number of its _Send; -1 */
    mr_workload work;
    mr_play play; /* start, finish, ready_at, sends */
    double step_s;
    double *busy_s; /* by device */
} mr_sim_step;

/* costs: NULL, or measured ones (the plan then must not name any); borrowed until the step is freed.  only: not below 0:
 * everything stands on this device, whatever the plan's pins say. */
mr_status *mr_sim_step_new(const mr_sim_plan *p, mr_costs *costs, int only, mr_sim_step **out);
void mr_sim_step_free(mr_sim_step *s); /* NULL is fine */

/* What a node of the parts is to people: its name in the graph; what is fed or fetched; "end of NAME" for what tells
 * another device of it.  Of transfers: what is sent. */
void mr_sim_step_label(const mr_sim_step *s, int v, mr_str *out);
/* Forward, backward or update, by its name. */
typedef enum mr_sim_phase { MR_SIM_FORWARD, MR_SIM_BACKWARD, MR_SIM_UPDATE, MR_SIM_TRANSFER } mr_sim_phase;
mr_sim_phase mr_sim_step_phase(const mr_sim_step *s, int v);
/* The layer a node belongs to: its name without what gradients add in front, up to the last variable's scope. */
mr_sv mr_sim_step_layer(const mr_sim_step *s, int v);

/* The layers with their times and parameters, as a training simulates them; mr_free.  Names are borrowed from the graph's arena. */
mr_simtrain_chunk *mr_sim_step_chunks(mr_sim_step *s, int *n);

/* ---- for its own files ---- */
mr_status *mr_sim_graph_open(const mr_sim_plan *p, mr_sim_graph_def *out);

#endif
