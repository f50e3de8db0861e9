/* passes/prune.c -- copies the smallest part of a graph that a signature needs.
 *
 * The walk goes back from fetches and targets over data and control edges. A fed output stops the walk: its
 * consumers read a feed node instead. A control edge from a fed Placeholder moves to the feed node too, because
 * running a Placeholder would fail; a control edge from any other fed node still makes that node needed.
 *
 * mr_needed and mr_prune use the same walk, so the nodes that are placed because they are needed are exactly the
 * nodes that are copied. */
#include "passes/passes.h"

#include "base/map.h"

typedef struct feeds_map {
    mr_imap map; /* (node id, output) -> feed index + 1 */
} feeds_map;

/* A key for the map of feeds: node and output. */
static uint64_t out_key(mr_out o) { return (uint64_t)(uint32_t)o.node->id << 32 | (uint32_t)o.index; }

/* The index of the feed that replaces an output; -1: it is not fed. */
static int feed_of(const feeds_map *f, mr_out o)
{
    return (int)(intptr_t)mr_imap_get(&f->map, out_key(o)) - 1;
}

/* The client may pass any output, also one of another graph. */
static mr_status *check_endpoint(const mr_graph *g, mr_out o, const char *what)
{
    if (!o.node || o.node->graph != g)
        return mr_invalid("%s is not an output of this graph", what);
    if (o.index < 0 || o.index >= o.node->n_out)
        return mr_invalid("%s %s:%d does not exist: the operation has %d outputs", what, o.node->name, o.index,
                          o.node->n_out);
    return NULL;
}

/* Fills the map; an output that is fed twice is an error. */
static mr_status *map_feeds(const mr_graph *g, const mr_run_signature *sig, feeds_map *f)
{
    for (int i = 0; i < sig->n_feeds; i++) {
        mr_out o = sig->feeds[i];
        MR_TRY(check_endpoint(g, o, "Feed"));
        if (mr_imap_put(&f->map, out_key(o), (void *)(intptr_t)(i + 1)))
            return mr_invalid("Endpoint \"%s:%d\" fed more than once.", o.node->name, o.index);
    }
    return NULL;
}

static bool is_placeholder(const mr_node *n) { return mr_node_is(n, "Placeholder") || mr_node_is(n, "PlaceholderV2"); }

/* The feed that replaces a control edge from n, or -1. */
static int control_feed(const feeds_map *f, mr_node *n)
{
    return is_placeholder(n) ? feed_of(f, (mr_out){n, 0}) : -1;
}

typedef MR_VEC(mr_node *) node_vec;

/* Marks a node once and queues it for the walk. */
static void reach_node(bool *needed, node_vec *todo, mr_node *n)
{
    if (!needed[n->id]) {
        needed[n->id] = true;
        mr_vec_push(todo, n);
    }
}

/* Marks everything that the fetches and targets need. An input that is not connected belongs to a loop that was never
 * closed, for example by gradients that could not be made. */
static mr_status *walk_back(const mr_graph *g, const mr_run_signature *sig, const feeds_map *f, bool *needed)
{
    node_vec todo = {0};
    mr_status *st = NULL;
    if (sig->n_fetches + sig->n_targets == 0)
        MR_GO(mr_invalid("Must specify at least one target to fetch or execute."));
    for (int i = 0; i < sig->n_fetches; i++) {
        mr_out o = sig->fetches[i];
        MR_GO(check_endpoint(g, o, "Fetch"));
        if (feed_of(f, o) >= 0)
            MR_GO(mr_invalid("%s:%d is both fed and fetched.", o.node->name, o.index));
        reach_node(needed, &todo, o.node);
    }
    /* A target that is a fed placeholder need not run. */
    for (int i = 0; i < sig->n_targets; i++) {
        if (!sig->targets[i] || sig->targets[i]->graph != g)
            MR_GO(mr_invalid("target %d is not an operation of this graph", i));
        if (control_feed(f, sig->targets[i]) < 0)
            reach_node(needed, &todo, sig->targets[i]);
    }
    while (todo.n > 0) {
        mr_node *n = mr_vec_pop(&todo);
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i].node)
                MR_GO(mr_invalid("{{node %s}}: input %d is not connected", n->name, i));
            if (feed_of(f, n->in[i]) < 0)
                reach_node(needed, &todo, n->in[i].node);
        }
        for (int i = 0; i < n->n_ctrl; i++)
            if (control_feed(f, n->ctrl[i]) < 0)
                reach_node(needed, &todo, n->ctrl[i]);
    }
out:
    mr_vec_deinit(&todo);
    return st;
}

/* Without the placements, so that mr_prepare can place the needed nodes before it prunes. */
mr_status *mr_needed(const mr_graph *g, const mr_run_signature *sig, bool *needed)
{
    feeds_map f = {0};
    mr_status *st = NULL;
    memset(needed, 0, (size_t)g->nodes.n);
    MR_GO(map_feeds(g, sig, &f));
    MR_GO(walk_back(g, sig, &f, needed));
out:
    mr_imap_deinit(&f.map);
    return st;
}

/* ---- the copy and its ends ---- */

/* The copy in progress: `from` is the client's graph, `to` the pruned one. */
typedef struct pruner {
    const mr_run_signature *sig;
    const mr_prepare_options *o;
    const mr_graph *from;
    mr_graph *to;
    mr_node **copy_of;  /* by id in `from` */
    mr_node **feed_node; /* by feed index; NULL until used */
    feeds_map feeds;
} pruner;

/* The attrs that a _Send and a _Recv between the client and the graph have in common. */
static void client_transfer_attrs(pruner *p, mr_node_builder *b, mr_out o)
{
    const mr_device *d = p->o->devices[0];
    char *name = mr_printf("%s:%d", o.node->name, o.index);
    mr_nb_attr(b, "tensor_name", mr_a_str(name));
    mr_nb_attr(b, "send_device", mr_a_str(d->name));
    mr_nb_attr(b, "send_device_incarnation", mr_a_int((int64_t)d->incarnation));
    mr_nb_attr(b, "recv_device", mr_a_str(d->name));
    mr_nb_attr(b, "client_terminated", mr_a_bool(true));
    mr_free(name);
}

/* Feeds and fetches run on the client's device. */
static mr_status *finish_end(pruner *p, mr_node_builder *b, mr_node **out)
{
    mr_nb_internal(b);
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = p->o->devices[0]->name;
    return NULL;
}

/* As many dimensions as the fed output has in the client's graph, of any size: what is fed may have other sizes. */
static const mr_pshape *any_size(pruner *p, const mr_pshape *s)
{
    if (s->rank < 0)
        return &mr_pshape_unknown;
    mr_pshape *out = mr_arena_alloc(&p->to->arena, sizeof *out + sizeof *out->dims * (size_t)s->rank);
    out->rank = s->rank;
    for (int i = 0; i < s->rank; i++)
        out->dims[i] = -1;
    return out;
}

/* Returns the node of the i-th feed, made on first use: a feed that nobody reads gets none. */
static mr_status *make_feed(pruner *p, int i, mr_node **out)
{
    MR_ASSERT(i >= 0 && i < p->sig->n_feeds);
    if (!p->feed_node[i]) {
        mr_out o = p->sig->feeds[i];
        char *name = p->o->rendezvous ? mr_printf("_recv_%s_%d", o.node->name, o.index)
                                      : mr_printf("_arg_%s_%d_%d", o.node->name, o.index, i);
        mr_node_builder *b = mr_node_begin(p->to, p->o->rendezvous ? "_Recv" : "_Arg", name);
        mr_free(name);
        mr_nb_attr(b, p->o->rendezvous ? "tensor_type" : "T", mr_a_type(mr_dtype_base(mr_out_type(o))));
        if (p->o->rendezvous)
            client_transfer_attrs(p, b, o);
        else
            mr_nb_attr(b, "index", mr_a_int(i));
        MR_TRY(finish_end(p, b, &p->feed_node[i]));
        p->feed_node[i]->out_shapes[0] = any_size(p, mr_out_shape(o));
    }
    *out = p->feed_node[i];
    return NULL;
}

/* Adds the node of the i-th fetch. In a partial run an output that is fetched twice is sent only once. */
static mr_status *make_fetch(pruner *p, int i)
{
    mr_out o = p->sig->fetches[i], src = {p->copy_of[o.node->id], o.index};
    MR_ASSERT(src.node);
    for (int j = 0; p->o->rendezvous && j < i; j++)
        if (mr_out_eq(p->sig->fetches[j], o))
            return NULL;
    char *name = p->o->rendezvous ? mr_printf("_send_%s_%d", o.node->name, o.index)
                                  : mr_printf("_retval_%s_%d_%d", o.node->name, o.index, i);
    mr_node_builder *b = mr_node_begin(p->to, p->o->rendezvous ? "_Send" : "_Retval", name);
    mr_free(name);
    mr_nb_input(b, src);
    mr_nb_attr(b, "T", mr_a_type(mr_dtype_base(mr_out_type(o))));
    if (p->o->rendezvous)
        client_transfer_attrs(p, b, o);
    else
        mr_nb_attr(b, "index", mr_a_int(i));
    mr_node *n;
    return finish_end(p, b, &n);
}

/* Points the fed inputs of a copied node to their feed nodes. */
static mr_status *rewire_feeds(pruner *p, const mr_node *old)
{
    mr_node *n = p->copy_of[old->id], *feed;
    MR_ASSERT(n && n->n_in == old->n_in);
    for (int i = 0; i < old->n_in; i++) {
        int f = feed_of(&p->feeds, old->in[i]);
        if (f >= 0) {
            MR_TRY(make_feed(p, f, &feed));
            MR_TRY(mr_node_set_input(n, i, (mr_out){feed, 0}));
        }
    }
    for (int i = 0; i < old->n_ctrl; i++) {
        int f = control_feed(&p->feeds, old->ctrl[i]);
        if (f >= 0) {
            MR_TRY(make_feed(p, f, &feed));
            mr_node_add_control(n, feed);
        }
    }
    return NULL;
}

/* Without a placement (a step graph for planning), nodes count as placed on the client's device. */
static const char *placed_on(const mr_prepare_options *o, int id)
{
    const mr_placements *p = o->placements;
    return p && id < p->n && p->device[id] ? p->device[id] : o->devices[0]->name;
}

/* A node of a function in the making (TF_SetAttrPlaceholder) lacks values of attrs: no kernel may see it. The text is
 * TensorFlow's. */
static mr_status *check_complete(const mr_graph *g, const bool *needed)
{
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; needed[i] && k < g->nodes.p[i]->n_attrs; k++)
            if (g->nodes.p[i]->attrs[k].v.kind == MR_ATTR_PLACEHOLDER)
                return mr_invalid("AttrValue had value with unexpected type 'placeholder'\n\t for attr '%s'\n\t; NodeDef: "
                                  "{{node %s}}", g->nodes.p[i]->attrs[k].name, g->nodes.p[i]->name);
    return NULL;
}

/* Nodes keep their names, so that stateful kernels are found again. *out is set only on success. */
mr_status *mr_prune(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **out)
{
    mr_status *st = NULL;
    pruner p = {.sig = sig, .o = o, .from = g};
    bool *needed = mr_new_array(bool, g->nodes.n + 1);
    p.feed_node = mr_new_array(mr_node *, sig->n_feeds + 1);
    MR_GO(map_feeds(g, sig, &p.feeds));
    MR_GO(walk_back(g, sig, &p.feeds, needed));
    MR_GO(check_complete(g, needed));
    MR_GO(mr_graph_copy(g, needed, &p.to, &p.copy_of));
    for (int i = 0; i < g->nodes.n; i++) {
        if (!needed[i])
            continue;
        p.copy_of[i]->placed = placed_on(o, i);
        MR_ASSERT(p.copy_of[i]->placed);
        MR_GO(rewire_feeds(&p, g->nodes.p[i]));
    }
    for (int i = 0; i < sig->n_fetches; i++)
        MR_GO(make_fetch(&p, i));
    *out = p.to;
    p.to = NULL;
out:
    mr_graph_unref(p.to);
    mr_free(p.copy_of);
    mr_free(p.feed_node);
    mr_free(needed);
    mr_imap_deinit(&p.feeds.map);
    return st;
}
