/* graph/graph_copy.c -- copies a graph, in whole or in part, for a pass to work on.
 *
 * The copy shares functions and large constants with its source by reference and nothing else, so either may be freed
 * first. */
#include "base/memory.h"
#include "graph/draft.h"
#include "graph/library.h"

static const mr_pshape *copy_shape(mr_arena *a, const mr_pshape *s)
{
    if (s->rank < 0)
        return &mr_pshape_unknown;
    return s->rank == 0 ? &mr_pshape_scalar : mr_pshape_of(a, s->rank, s->dims);
}

static const mr_handle_info *copy_handle(mr_arena *a, const mr_handle_info *h)
{
    mr_handle_info *copy = mr_arena_new(a, mr_handle_info);
    struct mr_handle_part *parts = mr_arena_array(a, struct mr_handle_part, h->n);
    for (int i = 0; i < h->n; i++) {
        parts[i] = h->parts[i];
        parts[i].shape = h->parts[i].shape ? copy_shape(a, h->parts[i].shape) : NULL;
    }
    *copy = (mr_handle_info){h->n, parts};
    return copy;
}

static mr_sv copy_sv(mr_arena *a, mr_sv v) { return (mr_sv){mr_arena_memdup(a, v.p, v.n), v.n}; }

/* The attr's name: that of the definition when it has one, which outlives every graph. */
static const char *copy_name(mr_arena *a, const mr_op_def *def, const char *name)
{
    const mr_attr_def *d = mr_op_def_attr(def, name);
    return d ? d->name : mr_arena_strdup(a, name);
}

mr_status *mr_node_copy(mr_graph *g, const mr_node *n, const char *name, const char *device, mr_node **out)
{
    mr_arena *a = &g->arena;
    mr_draft d = {.name = mr_arena_strdup(a, name),
                  .device = mr_arena_strdup(a, device),
                  .def = n->def,
                  .n_attrs = n->n_attrs,
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .extra = copy_sv(a, n->extra)};
    d.in_types = mr_arena_memdup(a, n->in_types, (size_t)n->n_in * sizeof(int));
    d.out_types = mr_arena_memdup(a, n->out_types, (size_t)n->n_out * sizeof(int));
    d.attrs = mr_arena_array(a, mr_named_attr, n->n_attrs);
    for (int i = 0; i < n->n_attrs; i++)
        d.attrs[i] = (mr_named_attr){copy_name(a, n->def, n->attrs[i].name),
                                     mr_attr_copy(a, &g->held, &n->attrs[i].v)};
    mr_node *copy;
    MR_TRY(mr_draft_make(g, &d, &copy));
    copy->placed = n->placed ? mr_arena_strdup(a, n->placed) : NULL;
    for (int i = 0; i < n->n_out; i++)
        copy->out_shapes[i] = copy_shape(a, n->out_shapes[i]);
    if (n->out_handles) {
        copy->out_handles = mr_arena_array(a, const mr_handle_info *, n->n_out);
        for (int i = 0; i < n->n_out; i++)
            copy->out_handles[i] = n->out_handles[i] ? copy_handle(a, n->out_handles[i]) : NULL;
    }
    *out = copy;
    return NULL;
}

static void copy_edges(const mr_node *n, mr_node *copy, mr_node *const *map)
{
    for (int i = 0; i < n->n_in; i++) {
        mr_node *src = n->in[i].node ? map[n->in[i].node->id] : NULL;
        if (src)
            mr_node_link(copy, i, (mr_out){src, n->in[i].index});
    }
    for (int i = 0; i < n->n_ctrl; i++)
        if (map[n->ctrl[i]->id])
            mr_node_push_control(copy, map[n->ctrl[i]->id]);
}

static void copy_versions(mr_graph *g, const mr_versions *v)
{
    g->versions = *v;
    g->versions.bad_consumers =
        mr_arena_memdup(&g->arena, v->bad_consumers, (size_t)v->n_bad * sizeof(int));
}

/* Nodes are copied before edges, because back edges refer to later nodes. */
mr_status *mr_graph_copy(const mr_graph *g, const bool *keep, mr_graph **out, mr_node ***map)
{
    mr_status *st = NULL;
    mr_graph *copy = mr_graph_new();
    mr_node **nodes = mr_try_calloc((size_t)g->nodes.n, sizeof(*nodes));
    if (!nodes)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory to copy a graph of %d nodes", g->nodes.n));
    copy_versions(copy, &g->versions);
    MR_GO(mr_library_copy(g->library, copy->library));
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i] && (!keep || keep[i]))
            MR_GO(mr_node_copy(copy, g->nodes.p[i], g->nodes.p[i]->name, g->nodes.p[i]->device, &nodes[i]));
    for (int i = 0; i < g->nodes.n; i++)
        if (nodes[i])
            copy_edges(g->nodes.p[i], nodes[i], nodes);
    *out = copy;
    copy = NULL;
    if (map) {
        *map = nodes;
        nodes = NULL;
    }
out:
    mr_graph_unref(copy);
    mr_free(nodes);
    return st;
}
