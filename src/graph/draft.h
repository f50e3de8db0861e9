/* graph/draft.h -- a node before it is one; inside graph/ only.
 *
 * All ways into a graph meet here: the builder, the import of a GraphDef, the body of a function.
 * They fill in a draft, have its attrs completed and checked and its types worked out, make the
 * node, link its inputs and infer its shapes.  Whatever a draft points to lies in the graph's
 * arena. */
#ifndef MR_GRAPH_DRAFT_H
#define MR_GRAPH_DRAFT_H

#include "graph/graph.h"

typedef struct mr_draft {
    const char *name, *device;
    const mr_op_def *def;
    mr_named_attr *attrs; /* sorted; completed by mr_draft_attrs */
    int n_attrs;
    int n_in, n_out;
    int *in_types, *out_types; /* by mr_draft_types */
    mr_sv extra;
    bool placeholders; /* attrs may be placeholders: the node becomes part of a function, and does not run before */
} mr_draft;

/* Most outputs a node may have.  Their number comes from an attr, so without a bound a few bytes
 * could ask for gigabytes. */
#define MR_MAX_OUTPUTS (1 << 20)

/* The op or function for a new node: NOT_FOUND, UNIMPLEMENTED when it is deprecated for this
 * producer.  `more` (may be NULL) is
 * a library to look at after the graph's. */
mr_status *mr_draft_def(const mr_graph *g, const struct mr_library *more, mr_sv op, int producer, const mr_op_def **out);

/* Adds defaults for what is missing and checks all values against the definition.  With
 * drop_unknown, attrs the definition does not know are dropped when they say nothing (false, 0, "",
 * []): a newer producer wrote them for an attr that came later. */
mr_status *mr_draft_attrs(mr_arena *a, mr_draft *d, bool drop_unknown);

/* Works out the types; n_in is how many inputs there really are. */
mr_status *mr_draft_types(mr_arena *a, mr_draft *d, int n_in);

/* How many inputs or outputs an argument stands for, by the draft's attrs. */
mr_status *mr_arg_count(const mr_arg_def *arg, const mr_named_attr *attrs, int n_attrs,
                        int64_t *out);

/* A node without edges, the last of the graph; the name must be free. */
mr_status *mr_draft_make(mr_graph *g, const mr_draft *d, mr_node **out);

/* A node like another one, under another name and without its edges; nothing is checked or inferred again.  The graph
 * must have what the node's definition lies in. */
mr_status *mr_node_copy(mr_graph *g, const mr_node *n, const char *name, const char *device, mr_node **out);

/* A value that is given only when the function is called that the node is part of. */
static inline bool mr_node_has_placeholder(const mr_node *n)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].v.kind == MR_ATTR_PLACEHOLDER)
            return true;
    return false;
}

/* ---- edges, unchecked ---- */
void mr_node_link(mr_node *n, int input, mr_out src);
void mr_node_push_control(mr_node *n, mr_node *src); /* not there yet */
/* Whether a value of this type may flow into an input that wants `expected`. */
bool mr_types_fit(int expected, int actual);

/* true for the ops whose inputs close loops. */
static inline bool mr_is_back_edge(const mr_node *src, const mr_node *dst)
{
    return mr_node_is_next(src) && mr_node_is_merge(dst);
}

#endif
