/* graph/library.h -- functions: graphs with arguments, called like ops.
 *
 * A function is stored like its FunctionDef: a signature, nodes that refer to each other by name, and results. With
 * values for its attrs, it is instantiated as an ordinary graph with _Arg and _Retval nodes. */
#ifndef MR_GRAPH_LIBRARY_H
#define MR_GRAPH_LIBRARY_H

#include "graph/graph.h"

typedef struct mr_fn_node { /* a NodeDef of the body */
    const char *name, *op, *device;
    int n_inputs, n_attrs;
    const char *const *inputs; /* "arg", "node:out_arg:0", "^node" */
    const mr_named_attr *attrs;
    mr_sv extra;
} mr_fn_node;

typedef struct mr_fn_pair {
    const char *name, *value;
} mr_fn_pair;

struct mr_function {
    mr_refs refs;
    mr_arena arena;
    mr_tensor_vec held;
    mr_op_def def; /* its signature; def.function points back here */
    int n_nodes, n_attrs, n_ret, n_control_ret;
    const mr_fn_node *nodes;
    const mr_named_attr *attrs;
    const mr_fn_pair *ret;              /* output arg -> "node:out_arg:0"; sorted by name */
    const mr_fn_pair *control_ret;      /* control output -> node */
    const char *const *control_outputs; /* names in the signature's order, n_control_ret of them */
    mr_sv extra;                        /* arg_attr and other fields kept for export */
};

mr_function *mr_function_new(void); /* empty, to be filled in */
mr_function *mr_function_ref(const mr_function *f);
void mr_function_unref(mr_function *f);
mr_status *mr_function_decode(mr_sv function_def, mr_function **out);
mr_status *mr_function_encode(const mr_function *f, mr_str *out);
bool mr_function_eq(const mr_function *a, const mr_function *b);
/* In ret or control_ret, which are sorted by name; NULL when absent. */
const char *mr_fn_pairs_find(const mr_fn_pair *p, int n, const char *name);

typedef struct mr_library mr_library;
mr_library *mr_library_new(void);
void mr_library_free(mr_library *l);
int mr_library_count(const mr_library *l);
const mr_function *mr_library_at(const mr_library *l, int i); /* in order of addition */
const mr_function *mr_library_find(const mr_library *l, mr_sv name);
/* Adding the same definition again is allowed; a different one with the same name is INVALID_ARGUMENT. */
mr_status *mr_library_add(mr_library *l, mr_function *f); /* referenced */
mr_status *mr_library_remove(mr_library *l, mr_sv name);
/* The gradient function of a function ("" removes); NULL when there is none. */
mr_status *mr_library_set_gradient(mr_library *l, const char *function, const char *gradient);
const char *mr_library_gradient(const mr_library *l, const char *function);
mr_status *mr_library_copy(const mr_library *from, mr_library *to);
/* The op or function of that name: the registry first, then the library. */
const mr_op_def *mr_library_op(const mr_library *l, mr_sv name);
/* FunctionDefLibrary. */
mr_status *mr_library_decode(mr_sv bytes, mr_library *into);
mr_status *mr_library_encode(const mr_library *l, mr_str *out);

/* The body as a graph with _Arg nodes for the arguments and _Retval nodes for the results, in order
 * (attr index); control outputs are kept alive by being listed in *keep (mr_free). */
typedef struct mr_body {
    mr_graph *graph;
    int n_args, n_rets, n_keep;
    mr_node **args, **rets, **keep; /* in the graph's arena */
} mr_body;
mr_status *mr_function_instantiate(const mr_library *l, const mr_function *f,
                                   const mr_named_attr *attrs, int n_attrs, mr_body *out);
void mr_body_deinit(mr_body *b);

/* The reverse: turns nodes of a graph into a function (TF_GraphToFunction). */
typedef struct mr_function_spec {
    const char *name;
    bool append_hash;
    int n_nodes; /* -1: all but the producers of the inputs */
    mr_node *const *nodes;
    int n_inputs, n_outputs, n_controls;
    const mr_out *inputs, *outputs;
    const char *const *output_names; /* NULL, or entries may be NULL */
    mr_node *const *controls;
    const char *const *control_names;
    const char *description;
} mr_function_spec;
mr_status *mr_function_from_graph(const mr_graph *g, const mr_function_spec *spec,
                                  mr_function **out);

#endif
