/* ops/values_fixture.h -- computes the outputs of a graph's nodes on demand. For tests only.
 *
 * Enough of an executor for gradients of single ops: no loops, no dead values, each node runs once. */
#ifndef MR_OPS_VALUES_FIXTURE_H
#define MR_OPS_VALUES_FIXTURE_H

#include "graph/graph.h"
#include "run/device.h"

typedef struct mr_values {
    mr_graph *graph;
    mr_device *device;
    int n_nodes;
    mr_tensor ***of; /* by node id: its outputs, NULL until computed */
} mr_values;

/* The graph must be complete: nodes created later have no slot. */
void mr_values_init(mr_values *v, mr_graph *g, mr_device *device);
void mr_values_deinit(mr_values *v);
/* Sets a node's outputs (references are taken): for a placeholder, or a node that has already run. */
void mr_values_set(mr_values *v, const mr_node *n, mr_tensor *const *outs, int n_outs);
/* Output o, borrowed; computes it and the outputs it depends on if needed. */
mr_status *mr_values_get(mr_values *v, mr_out o, mr_tensor **out);

#endif
