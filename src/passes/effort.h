/* passes/effort.h -- the work of a node, estimated from its op and shapes alone.
 *
 * Good enough to distinguish a convolution from an addition before anything has run; measured times (passes/costs.h)
 * replace it afterwards. The caller says what an unknown dimension, usually the batch, counts as. */
#ifndef MR_PASSES_EFFORT_H
#define MR_PASSES_EFFORT_H

#include "graph/graph.h"

enum { MR_USUAL_DIM = 32 }; /* assumed for an unknown dimension */

typedef struct mr_effort {
    double flops; /* arithmetic operations; exp and similar functions count as several */
    double bytes; /* memory read and written; both 0: the node moves no data */
} mr_effort;

mr_effort mr_effort_of(const mr_node *n, int unknown);
/* The same with the shapes seen when the node ran, by input and by output; a NULL entry means the static shape. */
mr_effort mr_effort_seen(const mr_node *n, const mr_pshape *const *in, const mr_pshape *const *out, int unknown);
/* The size of a tensor; of a reference or resource, the size of the handle. */
double mr_effort_out_bytes(mr_out o, int unknown);

#endif
