/* graph/graph.h -- nodes joined by edges.
 *
 * A graph owns its nodes; everything they consist of is in the graph's arena and is freed with it. An edge is stored at
 * its consumer (in, ctrl) and mirrored at its producer (uses). Nodes are added through a mr_node_builder, which checks
 * the node against its op's definition, infers attrs from inputs, fills defaults and runs shape inference, so every
 * node in a graph is well-formed. Passes work on copies (mr_graph_copy) and may rewire and remove nodes; a client's
 * graph only grows.
 *
 * Not locked: the C API holds its graph's lock, passes own their copy. */
#ifndef MR_GRAPH_GRAPH_H
#define MR_GRAPH_GRAPH_H

#include "base/map.h"
#include "base/vec.h"
#include "graph/op.h"

#define MR_GRAPH_PRODUCER 1087 /* GraphDef version of TensorFlow 2.9 */

typedef struct mr_out { /* an output of a node; node NULL: none */
    mr_node *node;
    int index;
} mr_out;
#define MR_NO_OUT ((mr_out){NULL, -1})
static inline bool mr_out_eq(mr_out a, mr_out b) { return a.node == b.node && a.index == b.index; }

typedef struct mr_use { /* a consumer of some output of a node */
    mr_node *node;
    int input;  /* index among its inputs; -1: control edge */
    int output; /* of the producer; -1: control edge */
} mr_use;

/* What a resource output refers to (dtype and shape of a variable), for shape inference. */
typedef struct mr_handle_info {
    int n;
    const struct mr_handle_part *parts;
} mr_handle_info;

struct mr_node {
    int id; /* position in graph->nodes while alive */
    mr_graph *graph;
    const char *name;
    const mr_op_def *def;
    const char *device; /* as requested; "" for none */
    int n_in, n_ctrl, n_out, n_attrs;
    mr_out *in;     /* data inputs in order; node NULL: a back edge that is not set yet */
    mr_node **ctrl; /* control inputs, no duplicates, in no particular order */
    const int *in_types, *out_types; /* mr_dtype; + MR_REF_OFFSET for references */
    const mr_pshape **out_shapes;
    const mr_handle_info **out_handles; /* per output, NULL entries allowed; NULL when none */
    mr_named_attr *attrs;               /* sorted by name; defaults filled in */
    MR_VEC(mr_use) uses;
    mr_sv extra;        /* serialized NodeDef fields we do not interpret, kept for export */
    const char *placed; /* full name of the device chosen by a pass; NULL before */
    int mark;           /* free for passes */
    void *tag;          /* free for passes and wrappers */
};

typedef struct mr_versions {
    int producer, min_consumer;
    int n_bad;
    const int *bad_consumers;
} mr_versions;

struct mr_graph {
    mr_arena arena;
    mr_tensor_vec held;      /* tensors referenced from attrs in the arena */
    MR_VEC(mr_node *) nodes; /* in order of creation; NULL where a node was removed (passes only) */
    mr_map by_name;          /* borrowed keys */
    mr_map name_hints;       /* next number to try for a unique name */
    mr_map prefixes;         /* "a", "a/b" of nodes named a/b/c, for the first n_prefixed nodes */
    int n_prefixed;
    int n_control_flow; /* nodes of the primitive control flow ops */
    struct mr_library *library;
    mr_versions versions;
    void *tag; /* free for wrappers */
    mr_refs refs;
};

mr_graph *mr_graph_new(void);
mr_graph *mr_graph_ref(mr_graph *g);
void mr_graph_unref(mr_graph *g); /* accepts NULL */
mr_node *mr_graph_find(const mr_graph *g, mr_sv name);
/* A free name: base, base_1, base_2 ...; it is in the graph's arena. */
const char *mr_graph_unique_name(mr_graph *g, const char *base);
/* A node has this name, or a name that begins with it and a slash. */
bool mr_graph_name_used(mr_graph *g, mr_sv name);
/* The same for a prefix: neither the name of a node nor a scope of one. */
const char *mr_graph_unique_prefix(mr_graph *g, const char *base);

/* Copies all nodes, or those with keep[id], unchanged (nothing is checked or inferred again) with the library and
 * versions. An input from a node that is not kept is left empty (node NULL) for the caller to set with
 * mr_node_set_input; such control inputs are dropped. *map (optional, g->nodes.n entries, mr_free) gives each old
 * node's copy, NULL where it was not kept. */
mr_status *mr_graph_copy(const mr_graph *g, const bool *keep, mr_graph **out, mr_node ***map);

/* Attrs of ours that passes give to fused nodes: a bias that broadcasts as an addition does; explicit paddings of a
 * depthwise convolution. */
#define MR_FUSED_BROADCASTS "_bias_broadcasts"
#define MR_FUSED_PADDINGS "_explicit_paddings"

/* ---- looking at a node ---- */
const mr_attr *mr_node_attr(const mr_node *n, const char *name); /* NULL when absent */
/* INVALID_ARGUMENT / NOT_FOUND naming node and attr when absent or of another kind. */
mr_status *mr_node_get_int(const mr_node *n, const char *name, int64_t *out);
mr_status *mr_node_get_float(const mr_node *n, const char *name, float *out);
mr_status *mr_node_get_bool(const mr_node *n, const char *name, bool *out);
mr_status *mr_node_get_type(const mr_node *n, const char *name, mr_dtype *out);
mr_status *mr_node_get_str(const mr_node *n, const char *name, mr_sv *out);
mr_status *mr_node_get_shape(const mr_node *n, const char *name, const mr_pshape **out);
mr_status *mr_node_get_func(const mr_node *n, const char *name, const mr_func_ref **out);
mr_status *mr_node_get_list(const mr_node *n, const char *name, mr_attr_kind kind,
                            const mr_attr **out);
mr_status *mr_node_get_tensor(const mr_node *n, const char *name, mr_tensor **out); /* owned */
/* The flat range of inputs (outputs) that an argument covers. */
mr_status *mr_node_in_range(const mr_node *n, const char *arg, int *start, int *count);
mr_status *mr_node_out_range(const mr_node *n, const char *arg, int *start, int *count);
bool mr_node_is(const mr_node *n, const char *op_name);
bool mr_node_is_switch(const mr_node *n); /* Switch, RefSwitch, _SwitchN */
bool mr_node_is_merge(const mr_node *n);  /* Merge, RefMerge; not _XlaMerge */
bool mr_node_is_enter(const mr_node *n);  /* and so on, each with its Ref form */
bool mr_node_is_exit(const mr_node *n);
bool mr_node_is_next(const mr_node *n); /* NextIteration */
bool mr_node_is_control_flow(const mr_node *n);
static inline int mr_out_type(mr_out o) { return o.node->out_types[o.index]; }
static inline const mr_pshape *mr_out_shape(mr_out o) { return o.node->out_shapes[o.index]; }

/* ---- adding a node ---- */
typedef struct mr_node_builder mr_node_builder;
mr_node_builder *mr_node_begin(mr_graph *g, const char *op, const char *name); /* copies both */
void mr_nb_device(mr_node_builder *b, const char *device);
void mr_nb_input(mr_node_builder *b, mr_out o);
void mr_nb_input_list(mr_node_builder *b, const mr_out *o, int n);
void mr_nb_control(mr_node_builder *b, mr_node *n);
void mr_nb_attr(mr_node_builder *b, const char *name, mr_attr v);           /* copied */
void mr_nb_attr_tensor(mr_node_builder *b, const char *name, mr_tensor *t); /* referenced */
void mr_nb_colocate(mr_node_builder *b, const mr_node *with); /* adds loc:@name to _class */
void mr_nb_extra(mr_node_builder *b, mr_sv node_def_fields);
/* A back edge of a loop: an input that is set later by mr_node_set_input; its type must be
 * declared.  After an mr_nb_input_list it is one more of that list, as Merge needs it. */
void mr_nb_input_later(mr_node_builder *b, int type);
/* Names starting with '_' are rejected unless this was called (nodes created by the runtime). */
void mr_nb_internal(mr_node_builder *b);
/* Accepts any name that mr_name_valid_client accepts. */
void mr_nb_client(mr_node_builder *b);
/* Always frees the builder.  On error the graph is as before. */
mr_status *mr_node_finish(mr_node_builder *b, mr_node **out);
void mr_nb_abandon(mr_node_builder *b);

/* ---- rewiring (passes; and loop back edges, TF_UpdateEdge) ---- */
mr_status *mr_node_set_input(mr_node *n, int index, mr_out src); /* type-checked */
void mr_node_add_control(mr_node *n, mr_node *src);              /* does nothing if it exists */
void mr_node_remove_control(mr_node *n, mr_node *src);
void mr_node_set_attr(mr_node *n, const char *name, mr_attr v);
void mr_node_clear_attr(mr_node *n, const char *name);
void mr_node_set_device(mr_node *n, const char *device);
/* The name must be free; it is borrowed, and must live as long as the graph. */
void mr_node_rename(mr_node *n, const char *name);
/* Appends inputs and as many outputs of these types; the caller updates the attrs. For ops whose last arguments are
 * lists that may grow. */
void mr_node_extend(mr_node *n, const mr_out *in, const int *types, int count);
/* All consumers of `from` (data) except the node of `to` read `to` instead. */
mr_status *mr_graph_replace_uses(mr_out from, mr_out to);
/* The node must have no uses left. */
void mr_graph_remove(mr_graph *g, mr_node *n);
/* Removes all nodes with gone[id], which no other node may use, in time linear in the graph: mr_graph_remove searches
 * the uses of each input. */
void mr_graph_remove_all(mr_graph *g, const bool *gone);
/* Removes the nodes from n_nodes on and the tensors from n_held on, as if they had never been added: for operations
 * that add several nodes, or none. */
void mr_graph_truncate(mr_graph *g, int n_nodes, int n_held);
/* Runs shape inference for a node again (an input's shape has been refined). */
mr_status *mr_node_infer(mr_node *n);
/* Refines an output's shape (TF_GraphSetTensorShape). */
mr_status *mr_out_refine_shape(mr_out o, const mr_pshape *s);

/* Nodes in an order in which producers come first; edges NextIteration -> Merge do not count.
 * *order has *n entries, mr_free.  INVALID_ARGUMENT "Graph is invalid, contains a cycle with ..
 * nodes, including: .." */
mr_status *mr_graph_topological(const mr_graph *g, mr_node ***order, int *n);

/* ---- names ---- */
bool mr_name_valid_node(mr_sv name);     /* [A-Za-z0-9.][A-Za-z0-9_.\\-/>]* */
bool mr_name_valid_internal(mr_sv name); /* may start with '_' */
/* The names that TensorFlow's C API accepts, though no GraphDef with them can be imported: "const [1 2]". Not names
 * that would be mistaken for a tensor, a control input or a part of a rendezvous key. */
bool mr_name_valid_client(mr_sv name);
/* "^n", "n", "n:3" */
typedef struct mr_tensor_name {
    mr_sv node;
    int index; /* -1: control */
} mr_tensor_name;
bool mr_tensor_name_parse(mr_sv text, mr_tensor_name *out);

#endif
