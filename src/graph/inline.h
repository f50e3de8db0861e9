/* graph/inline.h -- the body of a function put in the place of its call. */
#ifndef MR_GRAPH_INLINE_H
#define MR_GRAPH_INLINE_H

#include "graph/library.h"

typedef MR_VEC(mr_node *) mr_node_list;

typedef struct mr_inline {
    const char *prefix; /* of the names of nodes and of the frames of loops */
    const char *device; /* for nodes that ask for none; "" for none */
    const mr_out *args; /* what the body's arguments are */
    mr_node *pivot;     /* what has no inputs runs when this did, and is dead when it is; NULL: whenever */
} mr_inline;

/* Copies the body's nodes into g, which has its library.  rets[i] is what result i is; *effects gets the copies of nodes
 * that a call waits for besides its results: those with effects of their own and the control outputs. */
mr_status *mr_graph_inline(mr_graph *g, const mr_body *b, const mr_inline *spec, mr_out *rets, mr_node_list *effects);
/* A body whose effects stand on the sides of conditionals or in loops cannot be waited for by control edges. */
bool mr_body_can_inline(const mr_body *b);

#endif
