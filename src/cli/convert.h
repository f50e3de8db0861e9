/* cli/convert.h -- the rewrites of `millrace convert`: strip, freeze and quantize a graph.
 *
 * All functions work on serialized GraphDefs, so a graph with unknown ops can still be stripped. Nodes that a rewrite
 * does not concern are kept unchanged. */
#ifndef MR_CLI_CONVERT_H
#define MR_CLI_CONVERT_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "tensor/tensor.h"

typedef MR_VEC(char *) mr_names; /* owned */
void mr_names_split(const char *list, mr_names *out); /* splits at commas; list may be NULL */
void mr_names_deinit(mr_names *n);

/* Keeps the nodes that the outputs need. Nodes named in `inputs` become placeholders; assertions and prints are
 * removed. */
mr_status *mr_strip_graph(mr_sv graph_def, const mr_names *inputs, const mr_names *outputs, mr_str *out);
/* Renames function calls that are outputs, and adds Identity nodes with the old name for their results (X, X_1, ...).
 * So the names of the outputs remain when the calls are inlined. */
mr_status *mr_name_results(mr_sv graph_def, const mr_names *outputs, mr_str *out);
/* Replaces every variable by a constant. `values` maps the name of each variable to its mr_tensor. INVALID_ARGUMENT if
 * a variable has no value, or if a node of the graph may change it. */
mr_status *mr_freeze_graph(mr_sv graph_def, const mr_map *values, mr_str *out);
/* Replaces float constants of at least `least` elements by 8-bit constants followed by a Dequantize node. */
mr_status *mr_quantize_graph(mr_sv graph_def, int64_t least, mr_str *out, int *n_changed);
/* Puts the elements of large constants at multiples of 64, counted from the beginning of the output. */
mr_status *mr_align_graph(mr_sv graph_def, mr_str *out);

#endif
