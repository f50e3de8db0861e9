/* ops/values_fixture.h -- what nodes of a graph give, computed as it is asked for.  For tests only.
 *
 * Enough of an executor for gradients of single ops: no loops, no dead values, each node once. */
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

/* For a graph that is complete: nodes made later have no room. */
void mr_values_init(mr_values *v, mr_graph *g, mr_device *device);
void mr_values_deinit(mr_values *v);
/* A node gives these (references are taken): a placeholder, or one that has run before. */
void mr_values_set(mr_values *v, const mr_node *n, mr_tensor *const *outs, int n_outs);
/* Output o, borrowed, with all that it needs. */
mr_status *mr_values_get(mr_values *v, mr_out o, mr_tensor **out);

#endif
