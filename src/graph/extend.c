/* graph/extend.c -- adds inputs and outputs to a node. */
#include "graph/draft.h"

static void *extend_array(mr_arena *a, const void *p, int n, int more, size_t size)
{
    char *out = mr_arena_alloc(a, (size_t)(n + more) * size);
    if (n > 0)
        memcpy(out, p, (size_t)n * size);
    memset(out + (size_t)n * size, 0, (size_t)more * size);
    return out;
}

void mr_node_extend(mr_node *n, const mr_out *in, const int *types, int count)
{
    mr_arena *a = &n->graph->arena;
    int *in_types = extend_array(a, n->in_types, n->n_in, count, sizeof(int)),
        *out_types = extend_array(a, n->out_types, n->n_out, count, sizeof(int));
    n->in = extend_array(a, n->in, n->n_in, count, sizeof(mr_out));
    n->out_shapes = extend_array(a, n->out_shapes, n->n_out, count, sizeof(mr_pshape *));
    if (n->out_handles)
        n->out_handles = extend_array(a, n->out_handles, n->n_out, count, sizeof(mr_handle_info *));
    for (int i = 0; i < count; i++) {
        in_types[n->n_in + i] = out_types[n->n_out + i] = types[i];
        n->out_shapes[n->n_out + i] = &mr_pshape_unknown;
    }
    n->in_types = in_types;
    n->out_types = out_types;
    int first = n->n_in;
    n->n_in += count;
    n->n_out += count;
    for (int i = 0; i < count; i++)
        mr_node_link(n, first + i, in[i]);
}
