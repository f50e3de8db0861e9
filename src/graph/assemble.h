/* graph/assemble.h -- turns nodes that refer to each other by name, in any order, into nodes of a graph; private to
 * graph/.
 *
 * Both a GraphDef and the body of a function are such a set. Their readers create a part for each node, with a
 * completed draft, and resolve names to edges; assembling orders the parts, creates the nodes and closes the loops. */
#ifndef MR_GRAPH_ASSEMBLE_H
#define MR_GRAPH_ASSEMBLE_H

#include "graph/draft.h"

typedef struct mr_part_edge {
    int part;  /* the producer, or -1: it is `node`, already in the graph */
    int index; /* its output; -1 for control edges */
    mr_node *node;
} mr_part_edge;

typedef struct mr_part {
    mr_draft d;     /* attrs and types are complete */
    int first_edge; /* d.n_in data edges, then n_ctrl control edges without duplicates */
    int n_ctrl;
    bool is_next, is_merge; /* an edge from a NextIteration to a Merge closes a loop */
    mr_node *node;          /* NULL until it is created */
} mr_part;

typedef struct mr_assembly {
    mr_graph *graph;
    mr_part *parts;
    int n_parts;
    const mr_part_edge *edges;
    /* Control inputs for nodes that have no input from other parts. */
    mr_node *const *controls;
    int n_controls;
    /* Import checks _output_shapes and removes the attr, as TensorFlow's importer does; in the body of a function it is
     * a hint, which is ignored if it contradicts the inferred shape. */
    bool importing;
} mr_assembly;

/* On error some of the nodes may be in the graph: the caller truncates it. */
mr_status *mr_assemble(mr_assembly *a);

#endif
