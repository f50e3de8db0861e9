/* ops/nn/inside.h -- ops that are composed of others: a small graph inside a kernel.
 *
 * A function defines the op: it emits the nodes between the op's inputs and outputs.  The kernel runs
 * the kernels of those nodes one after another in the calling thread, and the shape function runs
 * their shape functions.  This is for ops that passes or old programs create, and that are not worth
 * separate loops. */
#ifndef MR_OPS_NN_INSIDE_H
#define MR_OPS_NN_INSIDE_H

#include "graph/infer.h"
#include "graph/scope.h"
#include "run/run.h"

/* Emits the nodes for node n: `in` has its inputs, `out` room for its outputs.  Errors in its attrs are
 * reported with mr_scope_fail. */
typedef void mr_inside_fn(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out);

typedef struct mr_inside { /* state of a kernel */
    mr_graph *graph;
    mr_node **results; /* one per output */
    mr_instance **kernels; /* by node id; NULL for inputs */
    int n_inputs, n_results;
} mr_inside;

mr_status *mr_inside_init(mr_make *m, void *state, mr_inside_fn *fn);
void mr_inside_deinit(void *state);
mr_status *mr_inside_run(mr_run *r);
mr_status *mr_inside_infer(mr_infer *c, mr_inside_fn *fn);

/* Emits `op` with the attrs of node n that attr_names lists, separated by spaces. */
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
