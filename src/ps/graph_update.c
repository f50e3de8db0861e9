/* ps/graph_update.c -- the update rule of a table as a graph of the user, run by the head of a
 * chain.
 *
 * The graph has placeholders value [n, width] and gradient [n, width], and slot [n, graph_slots] if
 * the table has slots; its results are new_value and new_slot. Only ops without state or effects
 * are allowed: the result of a push may depend only on the rows. */
#include "ps/graph_update.h"

#include "exec/session.h"
#include "graph/graph_def.h"
#include "ops/table.h"

#define RUN_MS 10000 /* a slower graph would hold up all pushes of the server */

enum { VALUE, SLOT, GRADIENT, N_FEEDS };

struct mr_ps_graph_update {
    mr_graph *graph;
    mr_session *session;
    int width, slots;
    mr_out feeds[N_FEEDS], fetches[2];
};

void mr_ps_graph_update_free(mr_ps_graph_update *g)
{
    if (!g)
        return;
    mr_session_free(g->session);
    mr_graph_unref(g->graph);
    mr_free(g);
}

/* Output 0 of the operation with this name, which must be of type float. */
static mr_status *find_output(const mr_ps_graph_update *g, const char *name, mr_out *out)
{
    mr_node *n = mr_graph_find(g->graph, mr_sv_of(name));
    *out = (mr_out){n, 0};
    if (!n || n->n_out < 1)
        return mr_invalid("The update graph has no operation '%s'", name);
    if (mr_out_type(*out) != MR_FLOAT)
        return mr_invalid("'%s' of the update graph has type %s, expected float", name,
                          mr_dtype_name(mr_out_type(*out)));
    return NULL;
}

/* Refuses ops with state: their result would depend on the order of pushes, or on the server that runs them. */
static mr_status *check_ops(const mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i] && (g->nodes.p[i]->def->flags & MR_STATEFUL))
            return mr_invalid("The update graph has '%s' (%s): operations with state or side effects are not allowed",
                              g->nodes.p[i]->name, g->nodes.p[i]->def->name);
    return NULL;
}

/* Imports the graph and opens a session that runs on the calling thread. The caller frees g after
 * an error. */
static mr_status *make_session(mr_ps_graph_update *g, const mr_ps_table_spec *t)
{
    mr_session_config c = {.n_cpus = 1,
                           .intra_threads = 1,
                           .inter_threads = -1,
                           .soft_placement = true,
                           .per_session_threads = true};
    mr_ops_register();
    g->width = t->o.width;
    g->slots = t->o.graph_slots;
    g->graph = mr_graph_new();
    MR_TRY(mr_graph_import(g->graph, mr_str_view(&t->graph), NULL, NULL));
    MR_TRY(check_ops(g->graph));
    MR_TRY(find_output(g, "value", &g->feeds[VALUE]));
    MR_TRY(find_output(g, "gradient", &g->feeds[GRADIENT]));
    MR_TRY(find_output(g, "new_value", &g->fetches[0]));
    if (g->slots > 0) {
        MR_TRY(find_output(g, "slot", &g->feeds[SLOT]));
        MR_TRY(find_output(g, "new_slot", &g->fetches[1]));
    }
    return mr_direct_session_new(g->graph, NULL, &c, &g->session);
}

/* After an error *out is NULL. */
mr_status *mr_ps_graph_update_new(const mr_ps_table_spec *t, mr_ps_graph_update **out)
{
    mr_ps_graph_update *g = mr_new(mr_ps_graph_update);
    mr_status *st = make_session(g, t);
    if (st) {
        mr_ps_graph_update_free(g);
        g = NULL;
    }
    *out = g;
    return st;
}

/* Copies `width` columns of rows into a new matrix; row: floats from one row to the next. */
static mr_status *take_columns(const float *from, size_t n, size_t row, int width, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_FLOAT, 2, (const int64_t[]){(int64_t)n, width}, out));
    for (size_t i = 0; i < n; i++)
        memcpy(MR_DATA(float, *out) + i * (size_t)width, from + i * row, (size_t)width * sizeof(float));
    return NULL;
}

/* The reverse of take_columns. The graph decides the shape of its result, so it is checked. */
static mr_status *put_columns(float *to, size_t n, size_t row, int width, const mr_tensor *t,
                              const char *name)
{
    if (t->dtype != MR_FLOAT || t->rank != 2 || t->dims[0] != (int64_t)n || t->dims[1] != width)
        return mr_invalid("'%s' of the update graph has shape %s, expected [%zu,%d]", name, MR_TENSOR_SHAPE(t), n,
                          width);
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * row, MR_DATA(float, t) + i * (size_t)width, (size_t)width * sizeof(float));
    return NULL;
}

/* The server's thread waits for the graph, at most RUN_MS. */
mr_status *mr_ps_graph_update_run(mr_ps_graph_update *g, float *rows, const float *gradients, size_t n)
{
    size_t row = (size_t)g->width + (size_t)g->slots;
    mr_tensor *fed[N_FEEDS] = {NULL}, *got[2] = {NULL};
    mr_out feeds[N_FEEDS] = {g->feeds[VALUE], g->feeds[GRADIENT], g->feeds[SLOT]};
    mr_status *st = NULL;
    MR_ASSERT(n > 0);
    MR_GO(take_columns(rows, n, row, g->width, &fed[0]));
    MR_GO(take_columns(gradients, n, (size_t)g->width, g->width, &fed[1]));
    if (g->slots > 0)
        MR_GO(take_columns(rows + g->width, n, row, g->slots, &fed[2]));
    mr_run_args a = {.feeds = feeds,
                     .feed_values = fed,
                     .n_feeds = 2 + (g->slots > 0),
                     .fetches = g->fetches,
                     .fetched = got,
                     .n_fetches = 1 + (g->slots > 0)};
    MR_GO(mr_session_run(g->session, &a, &(mr_run_options){.timeout_ms = RUN_MS}, NULL));
    MR_GO(put_columns(rows, n, row, g->width, got[0], "new_value"));
    if (g->slots > 0)
        MR_GO(put_columns(rows + g->width, n, row, g->slots, got[1], "new_slot"));
out:
    for (int i = 0; i < N_FEEDS; i++)
        mr_tensor_unref(fed[i]);
    mr_tensor_unref(got[0]);
    mr_tensor_unref(got[1]);
    return st;
}
