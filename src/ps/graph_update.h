/* ps/graph_update.h -- an update function that is a user's graph. */
#ifndef MR_PS_GRAPH_UPDATE_H
#define MR_PS_GRAPH_UPDATE_H

#include "ps/table.h"

typedef struct mr_ps_graph_update mr_ps_graph_update;
/* INVALID_ARGUMENT: the graph lacks a placeholder or an operation. */
mr_status *mr_ps_graph_update_new(const mr_ps_table_spec *t, mr_ps_graph_update **out);
void mr_ps_graph_update_free(mr_ps_graph_update *g); /* NULL is fine */
/* rows: n whole rows, values and what is beside them; becomes what the graph makes of it and the gradients (width floats a row). */
mr_status *mr_ps_graph_update_run(mr_ps_graph_update *g, float *rows, const float *gradients, size_t n);

#endif
