/* ps/graph_update.h -- the update rule of a table as a graph of the user. */
#ifndef MR_PS_GRAPH_UPDATE_H
#define MR_PS_GRAPH_UPDATE_H

#include "ps/table.h"

typedef struct mr_ps_graph_update mr_ps_graph_update;
/* INVALID_ARGUMENT: the graph lacks one of its placeholders or results, or has ops with state. */
mr_status *mr_ps_graph_update_new(const mr_ps_table_spec *t, mr_ps_graph_update **out);
void mr_ps_graph_update_free(mr_ps_graph_update *g); /* NULL is fine */
/* Replaces n whole rows (values, then slots) by what the graph computes from them and the gradients (width floats per
 * row). After an error rows may be partly changed. */
mr_status *mr_ps_graph_update_run(mr_ps_graph_update *g, float *rows, const float *gradients, size_t n);

#endif
