/* passes/effort.h -- what a node does, estimated from its op and shapes alone.
 *
 * Good enough to tell a convolution from an addition before anything has run; measured times (passes/costs.h) take over
 * afterwards.  Sizes that the graph leaves open, as a rule the batch, count as what the caller says. */
#ifndef MR_PASSES_EFFORT_H
#define MR_PASSES_EFFORT_H

#include "graph/graph.h"

enum { MR_USUAL_DIM = 32 }; /* for a size that is not known */

typedef struct mr_effort {
    double flops; /* arithmetic, exp and its kind as several */
    double bytes; /* of memory read and written; 0 with 0 flops: nothing happens */
} mr_effort;

mr_effort mr_effort_of(const mr_node *n, int unknown);
/* The same with shapes as they were when the node ran: by input and by output, NULL where the graph's counts. */
mr_effort mr_effort_seen(const mr_node *n, const mr_pshape *const *in, const mr_pshape *const *out, int unknown);
/* Of a tensor; of the value that a reference or resource leads to: of the handle. */
double mr_effort_out_bytes(mr_out o, int unknown);

#endif
