/* cli/convert.h -- graphs rewritten as files: the parts of `millrace convert`.
 *
 * All work on GraphDef bytes, so that a graph with ops that are not known here can still be stripped, and what is not
 * understood is kept as it is. */
#ifndef MR_CLI_CONVERT_H
#define MR_CLI_CONVERT_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "tensor/tensor.h"

typedef MR_VEC(char *) mr_names; /* owned */
void mr_names_split(const char *list, mr_names *out); /* at commas; NULL: none */
void mr_names_deinit(mr_names *n);

/* Leaves what the outputs need; `inputs` (names of nodes) become placeholders, and what only checks or prints goes. */
mr_status *mr_strip_graph(mr_sv graph_def, const mr_names *inputs, const mr_names *outputs, mr_str *out);
/* Calls among the outputs get another name, and Identities with theirs in front of them (X, X_1, ...), so that the names stay when
 * the calls go. */
mr_status *mr_name_results(mr_sv graph_def, const mr_names *outputs, mr_str *out);
/* Every variable becomes a constant: `values` has the tensor (mr_tensor *) of each by its name.  INVALID_ARGUMENT for one that has
 * none, or is changed by what is left of the graph. */
mr_status *mr_freeze_graph(mr_sv graph_def, const mr_map *values, mr_str *out);
/* Float constants of at least `least` elements become 8-bit ones behind a Dequantize. */
mr_status *mr_quantize_graph(mr_sv graph_def, int64_t least, mr_str *out, int *n_changed);

#endif
