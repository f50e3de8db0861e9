/* ops/nn/inside.h -- ops that are made of others: a small graph inside of a kernel.
 *
 * What an op means is told by a function that emits nodes, from its inputs to its outputs.  The
 * kernel is those nodes' kernels, run one after another in the calling thread; the shape
 * function is theirs, too.  For ops that passes or old programs put together, where no loop of
 * their own is worth it. */
#ifndef MR_OPS_NN_INSIDE_H
#define MR_OPS_NN_INSIDE_H

#include "graph/infer.h"
#include "graph/scope.h"
#include "run/run.h"

/* Emits what node n does: in has its inputs, out room for its outputs.  What is wrong with its
 * attrs is said by mr_scope_fail. */
typedef void mr_inside_fn(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out);

typedef struct mr_inside { /* state of a kernel */
    mr_graph *graph;
    mr_node **results; /* one an output */
    mr_instance **kernels; /* by id of the node; NULL for inputs */
    int n_inputs, n_results;
} mr_inside;

mr_status *mr_inside_init(mr_make *m, void *state, mr_inside_fn *fn);
void mr_inside_deinit(void *state);
mr_status *mr_inside_run(mr_run *r);
mr_status *mr_inside_infer(mr_infer *c, mr_inside_fn *fn);

/* The attrs of node n by name, space-separated, for a node inside: `op` with them. */
mr_out mr_inside_emit(mr_scope *s, const mr_node *n, const char *op, const char *attr_names,
                      const mr_out *in, int n_in);

/* Pieces of an op's definition: its functions around fn. */
#define MR_INSIDE(name, fn)                                                                     \
    static mr_status *name##_init(mr_make *m, void *s) { return mr_inside_init(m, s, fn); }     \
    static mr_status *name##_shape(mr_infer *c) { return mr_inside_infer(c, fn); }
#define MR_INSIDE_OP(name)                                                                      \
    .shape = name##_shape, .state_bytes = sizeof(mr_inside), .init = name##_init,               \
    .deinit = mr_inside_deinit

#endif
