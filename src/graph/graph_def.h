/* graph/graph_def.h -- import and export of GraphDefs as bytes and text. */
#ifndef MR_GRAPH_GRAPH_DEF_H
#define MR_GRAPH_GRAPH_DEF_H

#include "graph/library.h"

#define MR_TF_VERSION "2.9.1" /* the version of TensorFlow whose formats and C API these are */

typedef struct mr_import_map {
    const char *name; /* in the imported graph */
    int index;        /* -1: a control dependency */
    mr_out to;        /* in the existing graph; index -1 with control dependencies */
} mr_import_map;

typedef struct mr_import_options {
    const char *prefix, *default_device; /* NULL or "" */
    bool uniquify_names, uniquify_prefix;
    bool no_validate_colocation;
    bool extends;     /* inputs may refer to nodes that are already in the graph */
    bool internal_ok; /* accept '_' names (runtime-made graphs) */
    int n_maps, n_controls, n_returns, n_return_nodes;
    const mr_import_map *maps;
    mr_node *const *controls;
    const mr_import_map *returns;       /* name and index; `to` unused */
    const char *const *return_nodes;
    const mr_tensor *source; /* has the bytes of the graph, which never change (see mr_attr_room); may be NULL */
} mr_import_options;

typedef struct mr_import_results { /* arrays freed by mr_import_results_deinit */
    int n_returns, n_return_nodes, n_unused;
    mr_out *returns;
    mr_node **return_nodes;
    int *unused; /* indexes of options.maps that matched nothing */
} mr_import_results;
void mr_import_results_deinit(mr_import_results *r);

/* All or nothing: on error the graph is as before.  options and results may be NULL. */
mr_status *mr_graph_import(mr_graph *g, mr_sv graph_def, const mr_import_options *options,
                           mr_import_results *results);
mr_status *mr_graph_import_text(mr_graph *g, mr_sv pbtxt, const mr_import_options *options);

mr_status *mr_graph_export(const mr_graph *g, mr_str *out);
mr_status *mr_graph_export_text(const mr_graph *g, mr_str *out);
/* Nodes from id `first` on, with the library: the extension of a session. */
mr_status *mr_graph_export_since(const mr_graph *g, int first, mr_str *out);
mr_status *mr_node_encode(const mr_node *n, mr_str *out); /* NodeDef */
/* The same, but inputs in `full` (by mr_input_key; NULL: none) have their output number written even if it is 0: "x:0"
 * instead of "x". */
static inline uint64_t mr_input_key(const mr_node *n, int i) { return (uint64_t)(uint32_t)n->id << 32 | (uint32_t)i; }
mr_status *mr_node_encode_full(const mr_node *n, const mr_imap *full, mr_str *out);
void mr_versions_encode(const mr_versions *v, mr_str *out);

#endif
