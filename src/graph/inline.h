/* graph/inline.h -- replaces a function call by the function's body. */
#ifndef MR_GRAPH_INLINE_H
#define MR_GRAPH_INLINE_H

#include "graph/library.h"

typedef MR_VEC(mr_node *) mr_node_list;

typedef struct mr_inline {
    const char *prefix; /* of the names of nodes and of the frames of loops */
    const char *device; /* for nodes that request no device; "" for none */
    const mr_out *args; /* the values of the body's arguments */
    mr_node *pivot;     /* nodes without inputs run after this node, and are dead if it is; NULL: they always run */
} mr_inline;

/* Copies the body's nodes into g, which has its library. rets[i] is the value of result i; *effects gets the copies of
 * nodes that a call waits for besides its results: nodes with side effects and the control outputs. */
mr_status *mr_graph_inline(mr_graph *g, const mr_body *b, const mr_inline *spec, mr_out *rets, mr_node_list *effects);
/* False for a body whose side effects are inside conditionals or loops: control edges cannot wait for those. */
bool mr_body_can_inline(const mr_body *b);

#endif
