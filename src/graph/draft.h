/* graph/draft.h -- a node that is not in a graph yet; private to graph/.
 *
 * Every way to add a node goes through a draft: the builder, the import of a GraphDef, the body of a function. They
 * fill in a draft, have its attrs completed and checked and its types computed, create the node, link its inputs and
 * infer its shapes. Everything a draft points to is in the graph's arena. */
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
    bool placeholders; /* attrs may be placeholders: the node becomes part of a function, and only runs as part of it */
} mr_draft;

/* The maximum number of outputs of a node. The number comes from an attr, so without a bound a few bytes could request
 * gigabytes. */
#define MR_MAX_OUTPUTS (1 << 20)

/* The op or function for a new node: NOT_FOUND, or UNIMPLEMENTED if it is deprecated for this producer. `more` (may be
 * NULL) is a library to search after the graph's. */
mr_status *mr_draft_def(const mr_graph *g, const struct mr_library *more, mr_sv op, int producer, const mr_op_def **out);

/* Adds defaults for missing attrs and checks all values against the definition. With drop_unknown, unknown attrs are
 * dropped if they have a neutral value (false, 0, "", []): a newer producer wrote them for an attr that was added
 * later. */
mr_status *mr_draft_attrs(mr_arena *a, mr_draft *d, bool drop_unknown);

/* Computes the types; n_in is the actual number of inputs. */
mr_status *mr_draft_types(mr_arena *a, mr_draft *d, int n_in);

/* The number of inputs or outputs of an argument, according to the draft's attrs. */
mr_status *mr_arg_count(const mr_arg_def *arg, const mr_named_attr *attrs, int n_attrs,
                        int64_t *out);

/* Creates a node without edges at the end of the graph; the name must be free. */
mr_status *mr_draft_make(mr_graph *g, const mr_draft *d, mr_node **out);

/* A copy of a node under another name and without its edges; nothing is checked or inferred again. The graph must own
 * the node's definition. */
mr_status *mr_node_copy(mr_graph *g, const mr_node *n, const char *name, const char *device, mr_node **out);

/* Whether an attr gets its value only when the enclosing function is called. */
static inline bool mr_node_has_placeholder(const mr_node *n)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].v.kind == MR_ATTR_PLACEHOLDER)
            return true;
    return false;
}

/* ---- edges, unchecked ---- */
void mr_node_link(mr_node *n, int input, mr_out src);
void mr_node_push_control(mr_node *n, mr_node *src); /* must not exist yet */
/* Whether a value of type `actual` may be the input of an argument of type `expected`. */
bool mr_types_fit(int expected, int actual);

/* Whether an edge between these nodes closes a loop. */
static inline bool mr_is_back_edge(const mr_node *src, const mr_node *dst)
{
    return mr_node_is_next(src) && mr_node_is_merge(dst);
}

#endif
