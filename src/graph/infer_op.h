/* graph/infer_op.h -- infers the shapes of an op without adding a node. */
#ifndef MR_GRAPH_INFER_OP_H
#define MR_GRAPH_INFER_OP_H

#include "graph/graph.h"

/* Creates the builder's node in another, empty graph, with inputs of these shapes; values[i] (or values) may be NULL or
 * a known value. The builder does not change; its own inputs are ignored. INVALID_ARGUMENT also for an op without a
 * shape function. */
mr_status *mr_nb_infer(mr_node_builder *b, mr_graph *scratch, int n_in, const mr_pshape *const *shapes,
                       mr_tensor *const *values, mr_node **out);

#endif
