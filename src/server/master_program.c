/* server/master_program.c -- from the names of a request to graphs for the tasks that take part.
 *
 * A program is made once per signature: the names of its feeds, fetches, targets and connections, in
 * order, joined into a key. The graph is pruned, placed and cut by the same passes as in one process,
 * with the devices of all tasks; the parts of one task form one GraphDef. A program lives as long as
 * its session, so steps may point to it without a reference.
 *
 *     names --mr_mnamed_find--> nodes --cut_graph--> one graph per device --add_part--> one GraphDef per task
 *
 * Feeds enter and fetches leave at one part, the client's (client_part): that of the task with the session's
 * first device. They travel through the step's rendezvous like values of another task.
 *
 * Locks: `making` is held while a program is made, so the graph does not change and each program is
 * made once; `mu` guards the table and is taken inside of it. */
#include "base/memory.h"
#include "exec/placing.h"
#include "graph/graph_def.h"
#include "server/master_internal.h"
#include "server/wire.h"

/* ---- RunStepRequest ---- */

/* Only the lists: the strings are views. */
void mr_mrequest_deinit(mr_mrequest *q)
{
    mr_vec_deinit(&q->feeds);
    mr_vec_deinit(&q->values);
    mr_vec_deinit(&q->fetches);
    mr_vec_deinit(&q->targets);
    mr_vec_deinit(&q->connections);
}

/* A feed is a name and a TensorProto; both lists always have the same length. */
static void parse_feed(mr_pb_reader *r, mr_mrequest *q)
{
    mr_pb_reader named;
    uint32_t field, wire;
    mr_sv name = MR_SV(""), value = MR_SV("");
    if (!mr_pb_message(r, &named))
        return;
    while (mr_pb_next(&named, &field, &wire))
        if (field == 1)
            name = mr_pb_bytes(&named);
        else if (field == 2)
            value = mr_pb_bytes(&named);
        else
            mr_pb_skip(&named);
    mr_vec_push(&q->feeds, name);
    mr_vec_push(&q->values, value);
}

/* Parses a RunStepRequest. The strings are views into the body, which must outlive q. */
mr_status *mr_mrequest_parse(mr_sv body, mr_mrequest *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *q = (mr_mrequest){0};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (wire == MR_WIRE_BYTES && (field == 1 || (field >= 3 && field <= 6)))
            v = mr_pb_bytes(&r);
        switch (field) {
        case 1: q->session = v; break;
        case 2: parse_feed(&r, q); break;
        case 3: mr_vec_push(&q->fetches, v); break;
        case 4: mr_vec_push(&q->targets, v); break;
        case 5: MR_TRY(mr_run_options_parse(v, &q->options)); break;
        case 6: q->partial_run = v; break;
        case 7: q->errors_in_body = mr_pb_bool(&r); break;
        case 8: q->request = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    MR_ASSERT(q->feeds.n == q->values.n);
    return mr_pb_reader_status(&r, "RunStepRequest");
}

/* ---- names ---- */

/* Finds the output that "node" or "node:2" names. */
static mr_status *find_out(const mr_graph *g, mr_sv name, mr_out *out)
{
    mr_sv node = name;
    int64_t index = 0;
    for (size_t i = name.n; i > 0; i--)
        if (name.p[i - 1] == ':') {
            if (!mr_sv_to_i64((mr_sv){name.p + i, name.n - i}, &index))
                return mr_invalid("'%.*s' is not the name of a tensor", MR_SV_ARG(name));
            node.n = i - 1;
            break;
        }
    out->node = mr_graph_find(g, node);
    out->index = (int)MR_MIN(index, INT32_MAX);
    if (!out->node)
        return mr_error(MR_NOT_FOUND, "'%.*s' is neither an operation nor a tensor of the graph", MR_SV_ARG(name));
    if (index < 0 || index >= out->node->n_out)
        return mr_invalid("%.*s: operation '%s' has %d outputs", MR_SV_ARG(name), out->node->name, out->node->n_out);
    return NULL;
}

/* The nodes and outputs themselves belong to the graph. */
void mr_mnamed_deinit(mr_mnamed *n)
{
    mr_free(n->outs);
    mr_free(n->nodes);
}

/* Feeds and fetches share one array: the feeds come first. */
mr_status *mr_mnamed_find(const mr_graph *g, const mr_mrequest *q, mr_mnamed *n)
{
    int f = q->feeds.n, k = q->fetches.n, t = q->targets.n;
    n->outs = mr_new_array(mr_out, f + k + 1);
    n->nodes = mr_new_array(mr_node *, t + 1);
    n->sig = (mr_run_signature){n->outs, n->outs + f, n->nodes, f, k, t};
    for (int i = 0; i < f; i++)
        MR_TRY(find_out(g, q->feeds.p[i], &n->outs[i]));
    for (int i = 0; i < k; i++)
        MR_TRY(find_out(g, q->fetches.p[i], &n->outs[f + i]));
    for (int i = 0; i < t; i++)
        if (!(n->nodes[i] = mr_graph_find(g, q->targets.p[i])))
            return mr_error(MR_NOT_FOUND, "Target '%.*s' is not an operation of the graph", MR_SV_ARG(q->targets.p[i]));
    return NULL;
}

/* ---- connections ---- */

/* Makes every consumer of the connection's `to` tensor take its `from` tensor instead. */
static mr_status *connect_one(mr_graph *g, const mr_mrequest *q, mr_sv connection)
{
    mr_out from, to, fed;
    MR_TRY(find_out(g, mr_wire_field(connection, 1), &from));
    MR_TRY(find_out(g, mr_wire_field(connection, 2), &to));
    for (int i = 0; i < q->feeds.n; i++) {
        MR_TRY(find_out(g, q->feeds.p[i], &fed));
        if (mr_out_eq(fed, to))
            return mr_invalid("Tensor %s:%d is both fed and connected", to.node->name, to.index);
    }
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *n = g->nodes.p[i];
        for (int k = 0; n && k < n->n_in; k++)
            if (mr_out_eq(n->in[k], to))
                MR_TRY(mr_node_set_input(n, k, from));
    }
    return NULL;
}

/* Makes the graph of a callable with tensor_connection. The rewired graph is exported and imported
 * again, because that checks it: a connection may close a cycle. */
static mr_status *connect_graph(const mr_graph *g, const mr_mrequest *q, mr_graph **out)
{
    mr_status *st = NULL;
    mr_str def = {0};
    mr_graph *rewired = mr_graph_new();
    *out = mr_graph_new();
    MR_GO(mr_graph_export(g, &def));
    MR_GO(mr_graph_import(rewired, mr_str_view(&def), NULL, NULL));
    for (int i = 0; i < q->connections.n; i++)
        MR_GO(connect_one(rewired, q, q->connections.p[i]));
    mr_str_clear(&def);
    MR_GO(mr_graph_export(rewired, &def));
    MR_GO(mr_graph_import(*out, mr_str_view(&def), NULL, NULL));
out:
    mr_graph_unref(rewired);
    mr_str_deinit(&def);
    return st;
}

/* ---- making ---- */

/* Nobody may be registering it, nor waiting for that. */
void mr_mprogram_free(mr_mprogram *p)
{
    if (!p)
        return;
    MR_ASSERT(p->n_registering == 0 && p->waiting.n == 0);
    for (int i = 0; p->feed_keys && i < p->n_feeds; i++)
        mr_free(p->feed_keys[i]);
    for (int i = 0; p->fetch_keys && i < p->n_fetches; i++)
        mr_free(p->fetch_keys[i]);
    for (int i = 0; i < p->n_parts; i++) {
        mr_str_deinit(&p->parts[i].graph_def);
        mr_free(p->parts[i].handle);
    }
    mr_free(p->feed_keys);
    mr_free(p->fetch_keys);
    mr_free(p->parts);
    mr_free(p->calls);
    mr_status_free(p->failed);
    mr_vec_deinit(&p->waiting);
    mr_free(p);
}

/* Makes the rendezvous keys of feeds or fetches. Both ends are the client's device: values are sent to
 * and received from the client part by the master. */
static mr_status *make_keys(const mr_msession *s, const mr_out *o, int n, char ***out)
{
    const mr_device *client = s->devices[0];
    char **keys = *out = mr_new_array(char *, n + 1);
    for (int i = 0; i < n; i++) {
        mr_rendezvous_key k;
        char *name = mr_printf("%s:%d", o[i].node->name, o[i].index);
        mr_status *st = mr_rendezvous_key_make(mr_sv_of(client->name), client->incarnation, mr_sv_of(client->name),
                                               mr_sv_of(name), &k);
        mr_free(name);
        if (st)
            return st;
        keys[i] = mr_printf("%s;0:0", k.text);
        mr_rendezvous_key_deinit(&k);
    }
    return NULL;
}

/* Adds the graph of one device to the part of its task. Nodes name their devices, so the graphs of one
 * task can follow each other in one GraphDef. */
static mr_status *add_part(mr_mprogram *p, int task, mr_graph *g)
{
    int at = 0;
    while (at < p->n_parts && p->parts[at].task != task)
        at++;
    if (at == p->n_parts)
        p->parts[p->n_parts++].task = task;
    MR_ASSERT(at < p->n_parts);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i])
            g->nodes.p[i]->device = g->nodes.p[i]->placed;
    return mr_graph_export(g, &p->parts[at].graph_def);
}

/* Prunes, places and cuts the graph, and exports the parts. Placements are kept with the session's own
 * graph, so a node has the same device in all programs; the graph of a callable with connections is
 * placed on its own. */
static mr_status *cut_graph(mr_msession *s, mr_graph *g, const mr_mnamed *n, mr_mprogram *p)
{
    mr_status *st = NULL;
    mr_placements local = {0}, told = {0};
    bool own = g == s->graph;
    mr_graph **parts = mr_new_array(mr_graph *, s->n_devices + 1);
    mr_prepare_options o = {.devices = s->devices,
                            .n_devices = s->n_devices,
                            .soft_placement = s->config.soft_placement,
                            .place_all = own && !s->config.place_pruned,
                            .no_fold = s->config.no_fold,
                            .no_simplify = s->config.no_simplify,
                            .no_cse = s->config.no_cse,
                            .no_fuse = s->config.no_fuse,
                            .schedule = (mr_schedule)s->config.schedule,
                            .lossy = s->config.lossy_sends,
                            .order_collectives = s->config.order_collectives,
                            .max_folded_bytes = s->config.max_folded_bytes,
                            .rendezvous = true,
                            .exported = true,
                            .placements = own ? &s->placements : &local};
    MR_GO(own && s->placing ? mr_placing_prepare(s->placing, g, &n->sig, &o, parts)
                            : mr_prepare(g, &n->sig, &o, parts));
    if (s->config.log_placement)
        mr_placing_log(g, o.placements, own ? &s->told : &told);
    /* Devices without nodes have no graph; a task without any has no part, and gets no message. */
    p->parts = mr_new_array(mr_mpart, s->n_devices + 1);
    for (int i = 0; i < s->n_devices; i++)
        if (parts[i])
            MR_GO(add_part(p, s->task_of[i], parts[i]));
    p->client_part = -1;
    for (int i = 0; i < p->n_parts; i++)
        if (p->parts[i].task == s->task_of[0])
            p->client_part = i;
out:
    for (int i = 0; i < s->n_devices; i++)
        mr_graph_unref(parts[i]);
    mr_free(parts);
    mr_placements_deinit(&local);
    mr_placements_deinit(&told);
    return st;
}

/* Makes the program of a request. The lock `making` is held. */
static mr_status *make_program(mr_msession *s, const mr_mrequest *q, bool partial, mr_mprogram **out)
{
    mr_status *st = NULL;
    mr_mnamed n = {0};
    mr_graph *g = s->graph, *own = NULL;
    mr_mprogram *p = mr_new(mr_mprogram);
    p->session = s;
    p->partial = partial;
    p->n_feeds = q->feeds.n;
    p->n_fetches = q->fetches.n;
    /* A callable with connections has a separate graph, which is only needed until it is cut. */
    if (q->connections.n) {
        MR_GO(connect_graph(s->graph, q, &own));
        g = own;
    }
    MR_GO(mr_mnamed_find(g, q, &n));
    MR_GO(make_keys(s, n.sig.feeds, p->n_feeds, &p->feed_keys));
    MR_GO(make_keys(s, n.sig.fetches, p->n_fetches, &p->fetch_keys));
    MR_GO(cut_graph(s, g, &n, p));
    *out = p;
    p = NULL;
out:
    mr_mprogram_free(p);
    mr_mnamed_deinit(&n);
    mr_graph_unref(own);
    return st;
}

/* Writes the names with \1 behind each and \2 behind the list. */
static void add_names(mr_str *s, const mr_sv *v, int n)
{
    for (int i = 0; i < n; i++) {
        mr_str_append(s, v[i].p, v[i].n);
        mr_str_appendc(s, '\1');
    }
    mr_str_appendc(s, '\2');
}

/* The text that identifies a signature. Names in a graph have no control characters, so the signatures of two
 * programs never share a text. */
static void make_key(const mr_mrequest *q, bool partial, mr_str *key)
{
    mr_str_appendc(key, partial ? 'p' : 'r');
    add_names(key, q->feeds.p, q->feeds.n);
    add_names(key, q->fetches.p, q->fetches.n);
    add_names(key, q->targets.p, q->targets.n);
    add_names(key, q->connections.p, q->connections.n);
}

/* Without `making`, so it does not wait for a program that is being made; NULL then. */
mr_mprogram *mr_mprogram_find(mr_msession *s, const mr_mrequest *q)
{
    mr_str key = {0};
    make_key(q, false, &key);
    mr_lock(&s->mu);
    mr_mprogram *p = mr_map_get(&s->programs, mr_str_view(&key));
    mr_unlock(&s->mu);
    mr_str_deinit(&key);
    return p;
}

/* Looks the program up, and makes it under `making` if it is missing. It is looked up again there,
 * because another thread may have made it meanwhile. */
mr_status *mr_mprogram_get(mr_msession *s, const mr_mrequest *q, bool partial, mr_mprogram **out)
{
    mr_status *st = NULL;
    mr_str key = {0};
    make_key(q, partial, &key);
    mr_lock(&s->mu);
    mr_mprogram *p = mr_map_get(&s->programs, mr_str_view(&key));
    mr_unlock(&s->mu);
    if (!p) {
        mr_lock(&s->making);
        mr_lock(&s->mu);
        p = mr_map_get(&s->programs, mr_str_view(&key));
        mr_unlock(&s->mu);
        if (!p && !(st = make_program(s, q, partial, &p))) {
            mr_lock(&s->mu);
            mr_map_put(&s->programs, mr_str_view(&key), p);
            mr_unlock(&s->mu);
        }
        mr_unlock(&s->making);
    }
    mr_str_deinit(&key);
    *out = p;
    return st;
}
