/* sim/layers.c -- assigns the nodes of a step to layers, which become the chunks of a simulated training.
 *
 * A layer is an outermost scope that has variables. Nodes are assigned by their names: gradients/layer1/MatMul_grad/..
 * belongs to the backward phase of layer1; an update belongs to the layer of its variable. Nodes without a layer (the
 * loss) count towards the last layer. */
#include <limits.h>

#include "base/memory.h"
#include "sim/step.h"

static bool is_variable(const mr_node *n)
{
    return mr_node_is(n, "VarHandleOp") || mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable");
}

/* The variable that a node updates; NULL if it updates none. */
static const mr_node *updated_variable(const mr_node *n)
{
    if (n->n_in == 0 || !n->in[0].node || !is_variable(n->in[0].node) || mr_node_is(n, "ReadVariableOp") || mr_node_is(n, "Identity") ||
        mr_node_is(n, "ResourceGather"))
        return NULL;
    return n->in[0].node;
}

mr_sim_phase mr_sim_step_phase(const mr_sim_step *s, int v)
{
    const mr_node *n = s->nodes[v];
    if (updated_variable(n))
        return MR_SIM_UPDATE;
    for (int i = 0; i < n->n_ctrl; i++) /* nodes that wait for an update belong to it */
        if (updated_variable(n->ctrl[i]))
            return MR_SIM_UPDATE;
    return mr_sv_starts(mr_sv_of(n->name), "gradients") ? MR_SIM_BACKWARD : MR_SIM_FORWARD;
}

/* Constant folding names its nodes NAME/_0__cf__; people know NAME. */
static mr_sv known_name(const char *name)
{
    const char *at = strstr(name, "/_");
    for (; at; at = strstr(at + 1, "/_")) {
        size_t digits = strspn(at + 2, "0123456789");
        if (digits && strcmp(at + 2 + digits, "__cf__") == 0)
            return (mr_sv){name, (size_t)(at - name)};
    }
    return mr_sv_of(name);
}

/* The node whose value the client feeds or fetches through n; NULL if n is neither _Arg nor _Retval. */
static const mr_node *client_end(const mr_sim_step *s, const mr_node *n)
{
    const mr_attr *index = mr_node_attr(n, "index");
    bool fed = mr_node_is(n, "_Arg");
    if ((!fed && !mr_node_is(n, "_Retval")) || !index || index->kind != MR_ATTR_INT)
        return NULL;
    int64_t i = index->i, most = fed ? s->def.feeds.n : s->def.fetches.n;
    return i < 0 || i >= most ? NULL : fed ? s->def.feeds.p[i].node : s->def.fetches.p[i].node;
}

void mr_sim_step_label(const mr_sim_step *s, int v, mr_str *out)
{
    const mr_node *n = s->nodes[v], *client = client_end(s, n);
    mr_str_printf(out, "%.*s", MR_SV_ARG(known_name(client ? client->name : n->name)));
}

void mr_sim_step_send_label(const mr_sim_step *s, const mr_play_send *x, mr_str *out)
{
    if (x->tensor == s->planned.first_tensor[x->node + 1] - 1)
        mr_str_appendz(out, "end of ");
    mr_sim_step_label(s, x->node, out);
}

static mr_sv scope_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (mr_sv){name, (size_t)(slash - name)} : mr_sv_of(name);
}

/* Removes a leading "gradients/" or "gradients_1/". */
static mr_sv plain_name(const char *name)
{
    const char *slash = strchr(name, '/');
    return strncmp(name, "gradients", 9) == 0 && slash ? mr_sv_of(slash + 1) : mr_sv_of(name);
}

mr_sv mr_sim_step_layer(const mr_sim_step *s, int v)
{
    const mr_node *n = s->nodes[v], *variable = updated_variable(n);
    return variable ? scope_of(variable->name) : plain_name(n->name);
}

/* ---- layers ---- */

typedef struct layer {
    mr_sv name;
    double forward_s, backward_s, bytes;
    int first; /* node id of its first variable in the graph as it was built */
} layer;

typedef struct layers {
    mr_sim_step *s;
    MR_VEC(layer) all;
} layers;

static bool is_inside(mr_sv name, mr_sv scope)
{
    return name.n >= scope.n && memcmp(name.p, scope.p, scope.n) == 0 && (name.n == scope.n || name.p[scope.n] == '/');
}

static layer *find_layer(layers *l, mr_sv name)
{
    for (int i = 0; i < l->all.n; i++)
        if (is_inside(name, l->all.p[i].name))
            return &l->all.p[i];
    return NULL;
}

static double variable_bytes(const mr_node *n)
{
    const mr_attr *shape = mr_node_attr(n, "shape"), *type = mr_node_attr(n, "dtype");
    if (!shape || shape->kind != MR_ATTR_SHAPE || !type || type->kind != MR_ATTR_TYPE || !mr_pshape_full(shape->shape))
        return 0;
    double bytes = (double)mr_dtype_size((mr_dtype)type->type);
    for (int i = 0; i < shape->shape->rank; i++)
        bytes *= (double)shape->shape->dims[i];
    return bytes;
}

/* Finds the outermost scopes that have variables. */
static void find_layers(layers *l)
{
    for (int v = 0; v < l->s->n_nodes; v++) {
        mr_sv name = scope_of(l->s->nodes[v]->name);
        double bytes = is_variable(l->s->nodes[v]) ? variable_bytes(l->s->nodes[v]) : 0;
        if (bytes <= 8) /* a counter is not a layer */
            continue;
        bool known = false;
        for (int i = 0; i < l->all.n && !known; i++)
            known = is_inside(name, l->all.p[i].name);
        if (known)
            continue;
        for (int i = l->all.n - 1; i >= 0; i--) /* scopes inside of it are not outermost */
            if (is_inside(l->all.p[i].name, name))
                mr_vec_remove_swap(&l->all, i);
        mr_vec_push(&l->all, (layer){.name = name, .first = INT_MAX});
    }
}

/* Adds a node's time and parameters to its layer, or to `rest` if it has none. */
static void add_node(layers *l, int v, layer *rest)
{
    const mr_sim_step *s = l->s;
    layer *to = find_layer(l, mr_sim_step_layer(s, v));
    double seconds = s->planned.play.finish[v] - s->planned.play.start[v];
    mr_sim_phase phase = mr_sim_step_phase(s, v);
    if (!to)
        to = rest;
    if (is_variable(s->nodes[v])) {
        const mr_node *built = mr_graph_find(s->def.g, mr_sv_of(s->nodes[v]->name));
        to->bytes += variable_bytes(s->nodes[v]);
        to->first = built ? MR_MIN(to->first, built->id) : to->first;
    }
    if (phase == MR_SIM_FORWARD)
        to->forward_s += seconds;
    else if (phase == MR_SIM_BACKWARD) /* updates are done by parameter servers */
        to->backward_s += seconds;
}

static int by_first(const void *a, const void *b)
{
    const layer *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* The times of the layers are scaled so that they add up to the time of the whole step. */
mr_simtrain_chunk *mr_sim_step_chunks(mr_sim_step *s, int *n)
{
    layers l = {.s = s};
    layer rest = {0};
    double sum = 0;
    find_layers(&l);
    for (int v = 0; v < s->n_nodes; v++)
        add_node(&l, v, &rest);
    if (l.all.n)
        qsort(l.all.p, (size_t)l.all.n, sizeof *l.all.p, by_first);
    else
        mr_vec_push(&l.all, (layer){.name = MR_SV("all")});
    layer *last = &mr_vec_last(&l.all);
    last->forward_s += rest.forward_s;
    last->backward_s += rest.backward_s;
    for (int i = 0; i < l.all.n; i++)
        sum += l.all.p[i].forward_s + l.all.p[i].backward_s;
    double scale = sum > 0 ? s->step_s / sum : 1; /* devices run in parallel, and wait for each other */
    mr_simtrain_chunk *chunks = mr_new_array(mr_simtrain_chunk, l.all.n);
    for (int i = 0; i < l.all.n; i++) {
        const layer *from = &l.all.p[i];
        chunks[i] = (mr_simtrain_chunk){mr_arena_strndup(&s->def.g->arena, from->name.p, from->name.n), from->forward_s * scale,
                                        from->backward_s * scale, from->bytes, -1};
    }
    *n = l.all.n;
    mr_vec_deinit(&l.all);
    return chunks;
}
