/* capi/while.c -- TF_NewWhile, TF_FinishWhile, TF_AbortWhile: loops built from two small graphs.
 *
 * The client builds the condition and the body in separate graphs, each with a placeholder for
 * every loop variable. Finishing copies both into the parent, with the placeholders replaced,
 * between the nodes that make a loop:
 *
 *     input -> Enter -> Merge -> Switch --false--> Exit -> output
 *                         ^ \       |true
 *                         |  cond   +-> Identity -> body --+
 *                         +------------- NextIteration <---+
 *
 * Nodes of the condition (the body) that depend on no loop variable, constants above all, get a
 * control input from the first Merge (Identity), so that they run in the loop's frame once an
 * iteration; those of the body not in the round that ends the loop. */
#include "capi/internal.h"

#include <stdio.h>

#include "graph/graph_def.h"
#include "graph/scope.h"
#include "wire/pb.h"

/* ---- beginning ---- */

static mr_status *add_placeholder(TF_Graph *g, const char *what, int i, int type, TF_Output *out)
{
    mr_node *n;
    char name[32];
    snprintf(name, sizeof name, "%s%d", what, i);
    mr_node_builder *b = mr_node_begin(g->graph, "Placeholder", name);
    mr_nb_attr(b, "dtype", mr_a_type(mr_dtype_base(type)));
    MR_TRY(mr_node_finish(b, &n));
    *out = (TF_Output){mr_capi_op(n), 0};
    return NULL;
}

static TF_Graph *new_part(TF_Graph *parent, const TF_Output *inputs)
{
    TF_Graph *g = TF_NewGraph();
    g->parent = parent;
    g->parent_inputs = inputs;
    return g;
}

static mr_status *add_placeholders(const TF_WhileParams *p)
{
    const TF_Graph *parent = p->cond_graph->parent;
    TF_Output *cond = (TF_Output *)(uintptr_t)p->cond_inputs;
    TF_Output *body = (TF_Output *)(uintptr_t)p->body_inputs;
    for (int i = 0; i < p->ninputs; i++) {
        TF_Output in = p->cond_graph->parent_inputs[i];
        MR_TRY(mr_capi_check_output(parent, in));
        int type = mr_out_type(mr_capi_out(in));
        MR_TRY(add_placeholder(p->cond_graph, "cond_input", i, type, &cond[i]));
        MR_TRY(add_placeholder(p->body_graph, "body_input", i, type, &body[i]));
        p->body_outputs[i] = (TF_Output){NULL, -1};
    }
    return NULL;
}

static void free_params(const TF_WhileParams *p)
{
    TF_DeleteGraph(p->cond_graph);
    TF_DeleteGraph(p->body_graph);
    mr_free((void *)(uintptr_t)p->cond_inputs);
    mr_free((void *)(uintptr_t)p->body_inputs);
    mr_free(p->body_outputs);
}

TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs, TF_Status *status)
{
    if (!g || !inputs || ninputs <= 0) {
        mr_capi_set_status(status, mr_invalid("TF_NewWhile() must be passed at least one input"));
        return (TF_WhileParams){0};
    }
    TF_WhileParams p = {
        .ninputs = ninputs,
        .cond_graph = new_part(g, inputs),
        .cond_inputs = mr_new_array(TF_Output, ninputs),
        .cond_output = {NULL, -1},
        .body_graph = new_part(g, inputs),
        .body_inputs = mr_new_array(TF_Output, ninputs),
        .body_outputs = mr_new_array(TF_Output, ninputs),
    };
    mr_status *st = add_placeholders(&p);
    mr_capi_set_status(status, st);
    if (!st)
        return p;
    free_params(&p);
    return (TF_WhileParams){0};
}

/* Whether they are what TF_NewWhile returned; if not, nothing in them can be trusted. */
static bool is_ours(const TF_WhileParams *p)
{
    return p && p->cond_graph && p->body_graph && p->cond_graph->parent &&
           p->cond_graph->parent == p->body_graph->parent &&
           p->cond_graph->parent_inputs == p->body_graph->parent_inputs && p->ninputs > 0 &&
           p->cond_inputs && p->body_inputs && p->body_outputs;
}

void TF_AbortWhile(const TF_WhileParams *params)
{
    if (is_ours(params))
        free_params(params);
}

/* ---- copying the condition and the body ---- */

/* The nodes of a part but for its placeholders, as a GraphDef. */
static mr_status *encode_part(const TF_Graph *part, const TF_Output *inputs, int n_in, mr_str *out)
{
    mr_str piece = {0};
    mr_pb_writer w;
    mr_status *st = NULL;
    const mr_graph *g = part->graph;
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < g->nodes.n; i++) {
        /* The placeholders are the first nodes, in order. */
        if (!g->nodes.p[i] || (i < n_in && mr_capi_node(inputs[i].oper) == g->nodes.p[i]))
            continue;
        mr_str_clear(&piece);
        MR_GO(mr_node_encode(g->nodes.p[i], &piece));
        mr_pb_put_bytes(&w, 1, mr_str_view(&piece));
    }
    mr_str_clear(&piece);
    MR_GO(mr_library_encode(g->library, &piece));
    mr_pb_opt_bytes(&w, 2, mr_str_view(&piece));
    mr_str_clear(&piece);
    mr_versions_encode(&g->versions, &piece);
    mr_pb_put_bytes(&w, 4, mr_str_view(&piece));
    MR_GO(mr_pb_writer_status(&w, "GraphDef"));
out:
    mr_str_deinit(&piece);
    return st;
}

typedef struct part { /* the condition or the body, and where to copy it */
    TF_Graph *graph;
    const TF_Output *inputs, *outputs; /* inside */
    int n_in, n_out;
    const char *prefix;
    const mr_out *values; /* for the inputs, in the parent */
    mr_node *pivot;       /* what nodes without inputs wait for */
} part;

/* Maps for the placeholders: their values, and for control edges the nodes of those. */
static void fill_maps(const part *p, mr_import_map *maps)
{
    for (int i = 0; i < p->n_in; i++) {
        const char *name = mr_capi_node(p->inputs[i].oper)->name;
        maps[2 * i] = (mr_import_map){name, 0, p->values[i]};
        maps[2 * i + 1] = (mr_import_map){name, -1, {p->values[i].node, -1}};
    }
}

/* Copies the condition or the body into the parent graph. The placeholders are mapped to values of the loop, the copies
 * run after the pivot, and out[] are the copies of the outputs. The lock of the parent is held by the caller. */
static mr_status *copy_part(const part *p, mr_out *out)
{
    mr_str bytes = {0};
    mr_import_results r = {0};
    mr_status *st = NULL;
    mr_import_map *maps = mr_new_array(mr_import_map, 2 * p->n_in + p->n_out);
    mr_import_map *returns = maps + 2 * p->n_in;
    fill_maps(p, maps);
    for (int i = 0; i < p->n_out; i++)
        returns[i] =
            (mr_import_map){mr_capi_node(p->outputs[i].oper)->name, p->outputs[i].index, MR_NO_OUT};
    mr_import_options o = {.prefix = p->prefix,
                           .internal_ok = true,
                           .n_maps = 2 * p->n_in,
                           .maps = maps,
                           .n_controls = 1,
                           .controls = &p->pivot,
                           .n_returns = p->n_out,
                           .returns = returns};
    mr_lock(&p->graph->mu);
    st = encode_part(p->graph, p->inputs, p->n_in, &bytes);
    mr_unlock(&p->graph->mu);
    if (!st)
        st = mr_graph_import(p->graph->parent->graph, mr_str_view(&bytes), &o, &r);
    for (int i = 0; !st && i < p->n_out; i++)
        out[i] = r.returns[i];
    mr_import_results_deinit(&r);
    mr_str_deinit(&bytes);
    mr_free(maps);
    return st;
}

/* ---- the loop around them ---- */

typedef struct loop {
    const TF_WhileParams *p;
    mr_scope s;
    int n;
    /* One per variable: the output of Merge, the input of the body, the output of the body, and
     * Switch, later Exit. */
    mr_out *merge, *pass, *body, *exits;
} loop;

/* A Merge of the initial value and of the value of the next iteration, which is connected later. */
static mr_status *add_merge(loop *l, mr_out enter, mr_out *out)
{
    mr_node *n;
    char *name = mr_printf("%s/Merge", l->s.prefix);
    mr_node_builder *b = mr_node_begin(l->s.graph, "Merge", mr_graph_unique_name(l->s.graph, name));
    mr_free(name);
    mr_nb_input_list(b, &enter, 1);
    mr_nb_input_later(b, mr_dtype_base(mr_out_type(enter)));
    MR_TRY(mr_node_finish(b, &n));
    *out = (mr_out){n, 0};
    return NULL;
}

static mr_status *add_entries(loop *l)
{
    for (int i = 0; i < l->n; i++) {
        mr_out in = mr_capi_out(l->p->cond_graph->parent_inputs[i]);
        mr_out enter =
            mr_emit_with(&l->s, "Enter", MR_ATTRS({"frame_name", mr_a_str(l->s.prefix)}), in);
        MR_TRY(mr_scope_status(&l->s));
        MR_TRY(add_merge(l, enter, &l->merge[i]));
    }
    return NULL;
}

static mr_status *check_cond(mr_out o)
{
    const mr_pshape *s = mr_out_shape(o);
    if (mr_dtype_base(mr_out_type(o)) != MR_BOOL)
        return mr_invalid("BuildWhileLoop: 'cond' argument must return a boolean output, got %s",
                          mr_dtype_name(mr_out_type(o)));
    if (s->rank > 0)
        return mr_invalid("BuildWhileLoop: 'cond' argument must return a scalar output, got shape "
                          "%s",
                          MR_PSHAPE_TEXT(s));
    return NULL;
}

/* The condition, and the switches it works. */
static mr_status *add_cond(loop *l)
{
    mr_out raw;
    const TF_WhileParams *p = l->p;
    char *prefix = mr_printf("%s/cond", l->s.prefix);
    part cond = {p->cond_graph, p->cond_inputs, &p->cond_output, l->n, 1,
                 prefix,        l->merge,       l->merge[0].node};
    mr_status *st = copy_part(&cond, &raw);
    mr_free(prefix);
    MR_TRY(st);
    MR_TRY(check_cond(raw));
    mr_out pred = mr_emit(&l->s, "LoopCond", raw);
    for (int i = 0; i < l->n; i++)
        l->exits[i] = mr_emit(&l->s, "Switch", l->merge[i], pred);
    for (int i = 0; i < l->n; i++)
        l->pass[i] = mr_emit(&l->s, "Identity", mr_nth(l->exits[i], 1));
    return mr_scope_status(&l->s);
}

/* The body, and the way back. */
static mr_status *add_body(loop *l)
{
    const TF_WhileParams *p = l->p;
    char *prefix = mr_printf("%s/body", l->s.prefix);
    part body = {p->body_graph, p->body_inputs, p->body_outputs, l->n,
                 l->n,          prefix,         l->pass,         l->pass[0].node};
    mr_status *st = copy_part(&body, l->body);
    mr_free(prefix);
    MR_TRY(st);
    for (int i = 0; i < l->n; i++) {
        mr_out next = mr_emit(&l->s, "NextIteration", l->body[i]);
        MR_TRY(mr_scope_status(&l->s));
        MR_TRY(mr_node_set_input(l->merge[i].node, 1, next));
    }
    for (int i = 0; i < l->n; i++)
        l->exits[i] = mr_emit(&l->s, "Exit", l->exits[i]);
    return mr_scope_status(&l->s);
}

static mr_status *build_loop(loop *l)
{
    MR_TRY(add_entries(l));
    MR_TRY(add_cond(l));
    return add_body(l);
}

/* The messages are those of TensorFlow's import, which it uses to copy the graphs. */
static mr_status *check_result(const TF_Graph *g, TF_Output o)
{
    const mr_node *n = mr_capi_node(o.oper);
    if (n->graph != g->graph)
        return mr_invalid("Requested return tensor '%s:%d' not found in graph def", n->name, o.index);
    if (o.index < 0 || o.index >= n->n_out)
        return mr_invalid("Invalid return output %d of node '%s', which has %d output(s)", o.index, n->name, n->n_out);
    return NULL;
}

static mr_status *check_params(const TF_WhileParams *p)
{
    if (!p->cond_output.oper)
        return mr_invalid("TF_WhileParams `cond_output` field isn't set");
    MR_TRY(check_result(p->cond_graph, p->cond_output));
    for (int i = 0; i < p->ninputs; i++) {
        if (!p->body_outputs[i].oper)
            return mr_invalid("TF_WhileParams `body_outputs[%d]` field isn't set", i);
        MR_TRY(check_result(p->body_graph, p->body_outputs[i]));
    }
    if (!p->name)
        return mr_invalid("TF_WhileParams `name` field is null");
    return NULL;
}

/* Builds the loop under the lock of the parent graph. After an error, all nodes that were added are removed again. */
static mr_status *finish_loop(const TF_WhileParams *p, TF_Output *outputs)
{
    TF_Graph *g = p->cond_graph->parent;
    mr_out *room = mr_new_array(mr_out, 4 * (size_t)p->ninputs);
    loop l = {.p = p,
              .n = p->ninputs,
              .merge = room,
              .pass = room + p->ninputs,
              .body = room + 2 * p->ninputs,
              .exits = room + 3 * p->ninputs};
    mr_lock(&g->mu);
    int n_nodes = g->graph->nodes.n, n_held = g->graph->held.n;
    mr_scope_init(&l.s, g->graph, p->name[0] ? p->name : "while");
    mr_status *st = build_loop(&l);
    if (st)
        mr_graph_truncate(g->graph, n_nodes, n_held);
    for (int i = 0; !st && i < p->ninputs; i++)
        outputs[i] = mr_capi_output(l.exits[i]);
    mr_scope_deinit(&l.s);
    mr_unlock(&g->mu);
    mr_free(room);
    return st;
}

void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status, TF_Output *outputs)
{
    if (!is_ours(params)) {
        mr_capi_set_status(
            status, mr_invalid("TF_WhileParams must be created by successful TF_NewWhile() call"));
        return;
    }
    mr_status *st = check_params(params);
    if (!st && !outputs)
        st = mr_invalid("TF_FinishWhile() must be passed room for the outputs");
    if (!st)
        st = finish_loop(params, outputs);
    mr_capi_set_status(status, st);
    free_params(params);
}
