/* passes/dims.h -- which values of a graph have equal shapes in each run, also where sizes are known only then.
 *
 * A dimension is a size, or a symbol for a number that is known only when the graph runs. Two dimensions with the same symbol
 * are equal whenever both exist: in loops, in the same iteration, and in the iteration of the backward loop that belongs to
 * it. Nothing is said about a step that fails anyway. Static shapes of values that depend on feeds are not used, because a
 * fed value may have another one. */
#ifndef MR_PASSES_DIMS_H
#define MR_PASSES_DIMS_H

#include "passes/passes.h"

typedef struct mr_dims { /* of a shape, or the numbers in a vector or scalar */
    int n;               /* -1: unknown */
    int64_t d[];         /* -1, only among numbers: what Reshape finds out. Less: a symbol */
} mr_dims;

typedef struct mr_dims_table {
    mr_arena arena;
    int n_ids;
    const mr_dims ***shapes, ***values; /* by node id and output; NULL where nothing is known */
    mr_node **pushed;                   /* by id of a StackPop: the only push to its stack; NULL: none is known */
} mr_dims_table;

/* order: all nodes, producers first. */
mr_status *mr_dims_find(const mr_graph *g, mr_node *const *order, int n, mr_dims_table *out);
void mr_dims_deinit(mr_dims_table *t);

/* True if the shape of o is known to be the one that the vector `shape` contains. */
bool mr_dims_has_shape(const mr_dims_table *t, mr_out o, mr_out shape);
/* True if a Reshape of o to `shape`, which may contain one -1, is known to change nothing. */
bool mr_dims_reshape_keeps(const mr_dims_table *t, mr_out o, mr_out shape);
/* Where a value comes from, through Identity, Enter, and the stacks of a loop. */
mr_out mr_dims_origin(const mr_dims_table *t, mr_out o);

#endif
