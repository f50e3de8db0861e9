/* graph/inline.c -- copies a body into another graph.
 *
 * Names get a prefix, and so do references to names: `_class` attrs of other nodes of the body, and the frames of its
 * loops, which would otherwise be the same as those of a second copy. */
#include "graph/inline.h"

#include "base/memory.h"
#include "graph/draft.h"

typedef struct inliner {
    mr_graph *g;
    const mr_body *b;
    const mr_inline *spec;
    mr_node **copies; /* by id of the body's nodes */
} inliner;

static bool is_end(const mr_node *n) { return mr_node_is(n, "_Arg") || mr_node_is(n, "_Retval"); }

static bool has_effects(const mr_node *n) { return (n->def->flags & MR_STATEFUL) && !is_end(n); }

bool mr_body_can_inline(const mr_body *b)
{
    bool flow = false, effects = b->n_keep > 0;
    for (int i = 0; i < b->graph->nodes.n; i++) {
        const mr_node *n = b->graph->nodes.p[i];
        if (!n)
            continue;
        flow |= mr_node_is_control_flow(n);
        effects |= has_effects(n);
    }
    return !flow || !effects;
}

/* ---- names ---- */

static const char *renamed_frame(inliner *w, mr_sv name)
{
    return mr_arena_printf(&w->g->arena, "%s/%.*s", w->spec->prefix, MR_SV_ARG(name));
}

/* loc:@x becomes loc:@PREFIX/x where x is in the body. */
static void rename_class(inliner *w, mr_node *n, const mr_attr *c)
{
    mr_sv *names = mr_arena_array(&w->g->arena, mr_sv, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        names[i] = c->ss[i];
        mr_sv rest = mr_sv_starts(c->ss[i], "loc:@") ? (mr_sv){c->ss[i].p + 5, c->ss[i].n - 5} : MR_SV("");
        mr_node *with = rest.n ? mr_graph_find(w->b->graph, rest) : NULL;
        if (with && w->copies[with->id])
            names[i] = mr_sv_of(mr_arena_printf(&w->g->arena, "loc:@%s", w->copies[with->id]->name));
    }
    mr_node_set_attr(n, "_class", mr_a_strs(c->n, names));
}

static void rename_refs(inliner *w, mr_node *n)
{
    const mr_attr *frame = mr_node_attr(n, "frame_name"), *c = mr_node_attr(n, "_class");
    if (mr_node_is_enter(n) && frame && frame->kind == MR_ATTR_STRING)
        mr_node_set_attr(n, "frame_name", mr_a_str(renamed_frame(w, frame->s)));
    if (c && c->is_list && c->kind == MR_ATTR_STRING)
        rename_class(w, n, c);
}

/* ---- nodes and edges ---- */

static mr_status *copy_nodes(inliner *w)
{
    const mr_graph *from = w->b->graph;
    for (int i = 0; i < from->nodes.n; i++) {
        const mr_node *n = from->nodes.p[i];
        if (!n || is_end(n))
            continue;
        char *wanted = mr_printf("%s/%s", w->spec->prefix, n->name);
        const char *name = mr_graph_unique_name(w->g, wanted);
        mr_free(wanted);
        MR_TRY(mr_node_copy(w->g, n, name, n->device[0] ? n->device : w->spec->device, &w->copies[i]));
    }
    for (int i = 0; i < from->nodes.n; i++)
        if (w->copies[i])
            rename_refs(w, w->copies[i]);
    return NULL;
}

static mr_status *find_out(const inliner *w, mr_out o, mr_out *out)
{
    if (!o.node)
        return mr_error(MR_INTERNAL, "an input inside the function's body is not connected");
    if (!mr_node_is(o.node, "_Arg")) {
        *out = (mr_out){w->copies[o.node->id], o.index};
        return NULL;
    }
    for (int i = 0; i < w->b->n_args; i++)
        if (w->b->args[i] == o.node) {
            *out = w->spec->args[i];
            return NULL;
        }
    return mr_error(MR_INTERNAL, "a node refers to an argument that the function does not have");
}

/* A control edge from an argument becomes one from the argument's source. */
static mr_status *copy_controls(inliner *w, const mr_node *n, mr_node *copy)
{
    bool tied = n->n_in > 0;
    for (int i = 0; i < n->n_ctrl; i++) {
        mr_out src;
        if (w->copies[n->ctrl[i]->id]) {
            mr_node_add_control(copy, w->copies[n->ctrl[i]->id]);
            tied = true;
        } else if (mr_node_is(n->ctrl[i], "_Arg")) {
            MR_TRY(find_out(w, (mr_out){n->ctrl[i], 0}, &src));
            mr_node_add_control(copy, src.node);
        }
    }
    if (!tied && w->spec->pivot)
        mr_node_add_control(copy, w->spec->pivot);
    return NULL;
}

static mr_status *copy_edges(inliner *w)
{
    for (int i = 0; i < w->b->graph->nodes.n; i++) {
        const mr_node *n = w->b->graph->nodes.p[i];
        if (!n || !w->copies[i])
            continue;
        for (int k = 0; k < n->n_in; k++) {
            mr_out src;
            MR_TRY(find_out(w, n->in[k], &src));
            MR_TRY(mr_node_set_input(w->copies[i], k, src));
        }
        MR_TRY(copy_controls(w, n, w->copies[i]));
    }
    return NULL;
}

static void list_effects(const inliner *w, mr_node_list *effects)
{
    for (int i = 0; i < w->b->graph->nodes.n; i++)
        if (w->copies[i] && has_effects(w->copies[i]))
            mr_vec_push(effects, w->copies[i]);
    for (int i = 0; i < w->b->n_keep; i++) {
        mr_node *n = w->copies[w->b->keep[i]->id];
        if (n && !has_effects(n))
            mr_vec_push(effects, n);
    }
}

mr_status *mr_graph_inline(mr_graph *g, const mr_body *b, const mr_inline *spec, mr_out *rets, mr_node_list *effects)
{
    mr_status *st = NULL;
    inliner w = {g, b, spec, mr_new_array(mr_node *, b->graph->nodes.n + 1)};
    MR_GO(copy_nodes(&w));
    MR_GO(copy_edges(&w));
    for (int i = 0; i < b->n_rets; i++)
        MR_GO(find_out(&w, b->rets[i]->in[0], &rets[i]));
    list_effects(&w, effects);
out:
    mr_free(w.copies);
    return st;
}
