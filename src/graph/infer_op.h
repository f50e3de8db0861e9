/* graph/infer_op.h -- what shapes an op would give, before there is a node of it. */
#ifndef MR_GRAPH_INFER_OP_H
#define MR_GRAPH_INFER_OP_H

#include "graph/graph.h"

/* Makes the node that the builder was told of in another, empty graph, with inputs of these shapes; values[i] (or values) may be
 * NULL, or is known.  The builder stays as it is; its own inputs do not matter.  INVALID_ARGUMENT also for an op without a
 * shape function. */
mr_status *mr_nb_infer(mr_node_builder *b, mr_graph *scratch, int n_in, const mr_pshape *const *shapes,
                       mr_tensor *const *values, mr_node **out);

#endif
