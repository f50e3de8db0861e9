/* graph/gradient_while.c -- the gradient of a functional While is a While with as many iterations.
 *
 * The body is differentiated once. Forward values that its gradient uses must be available again, iteration by
 * iteration, the last one first. So the forward loop gets more variables: a counter, and for each such value a list
 * that the body appends to; the backward loop counts down and takes values from the ends of the lists. A value that
 * never changes is passed to the backward loop directly.
 *
 *     forward:    vars..., count, lists...                    -> more inputs and outputs at the end of the node
 *     backward:   count, d vars..., d resources..., lists..., constants...
 *
 * The forward node is extended in place, as TensorFlow's while_v2 does: running the loop a second time would repeat its
 * effects and draw other random numbers. Its existing outputs stay the same, so no other node sees a difference.
 *
 * A gradient flows through a variable (`flows`) if its value after the loop has a gradient, or if it contributes to a
 * variable that does. */
#include "base/memory.h"
#include "graph/backward.h"
#include "graph/draft.h"
#include "graph/library.h"

/* Recursion would never end: the body of a loop must not contain a loop with the same body. */
enum { MAX_NESTED = 32 };
static _Thread_local int nested;

typedef MR_VEC(mr_node *) node_vec;
typedef MR_VEC(mr_out) out_vec;

typedef struct loop {
    mr_grad *g;
    mr_node *node;
    mr_library *l;
    mr_arena arena;
    mr_scope s; /* of the body's graph */
    mr_body body;
    int n;            /* variables */
    bool *flows;      /* by variable */
    mr_out *dys;      /* arguments of the gradient; node NULL if no gradient flows */
    mr_gradient *dxs; /* by variable */
    bool *forward;    /* by id of the body's nodes: part of the forward body */
    uint8_t *mine;    /* the same: part of the backward body; */
    int n_split;      /* number of nodes when this was computed */
    out_vec kept;     /* forward values that are kept on lists */
    out_vec stand_in; /* their replacements in the backward body */
    int *captured;    /* by variable: 1 + its place among the constants; 0: not used */
    int n_captured;
    mr_out *captures; /* the arguments for constants */
} loop;

bool mr_backward_is_while(const mr_node *n)
{
    return mr_node_is(n, "While") || mr_node_is(n, "StatelessWhile") || mr_node_is(n, "_While");
}

static bool may_flow(int type) { return mr_dtype_is_trainable(mr_dtype_base(type)); }

static int type_of(mr_out o) { return (int)mr_dtype_base(mr_out_type(o)); }

static mr_out arg_of(loop *w, int type, int index)
{
    return mr_emit0_with(&w->s, "_Arg", MR_ATTRS({"T", mr_a_type(type)}, {"index", mr_a_int(index)}));
}

static mr_status *instantiate_attr(const loop *w, const char *attr, mr_body *out)
{
    const mr_func_ref *f;
    MR_TRY(mr_node_get_func(w->node, attr, &f));
    const mr_function *def = mr_library_find(w->l, mr_sv_of(f->name));
    if (!def)
        return mr_error(MR_NOT_FOUND, "Function '%s' is not in the graph's library", f->name);
    return mr_function_instantiate(w->l, def, f->attrs, f->n_attrs, out);
}

/* ---- which variables have gradients ---- */

/* Marks all nodes that o depends on. */
static void mark_back(mr_out o, bool *seen, node_vec *todo)
{
    mr_vec_push(todo, o.node);
    while (todo->n) {
        mr_node *n = mr_vec_pop(todo);
        if (seen[n->id])
            continue;
        seen[n->id] = true;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i].node)
                mr_vec_push(todo, n->in[i].node);
    }
}

static void find_flows(loop *w)
{
    const mr_body *b = &w->body;
    node_vec todo = {0};
    bool *seen = mr_arena_array(&w->arena, bool, b->graph->nodes.n + 1), changed = true;
    w->flows = mr_arena_array(&w->arena, bool, w->n + 1);
    for (int i = 0; i < w->n; i++)
        w->flows[i] = mr_has_dy(w->g, i);
    while (changed) {
        changed = false;
        for (int i = 0; i < w->n; i++)
            if (w->flows[i])
                mark_back(b->rets[i]->in[0], seen, &todo);
        for (int i = 0; i < w->n; i++)
            if (!w->flows[i] && seen[b->args[i]->id])
                w->flows[i] = changed = true;
    }
    for (int i = 0; i < w->n; i++)
        w->flows[i] = w->flows[i] && may_flow(b->args[i]->out_types[0]);
    mr_vec_deinit(&todo);
}

static bool is_resource(const loop *w, int i) { return (int)mr_dtype_base(w->body.args[i]->out_types[0]) == MR_RESOURCE; }

static bool is_constant(const loop *w, int i)
{
    return mr_out_eq(w->body.rets[i]->in[0], (mr_out){w->body.args[i], 0});
}

/* ---- the body's gradient ---- */

static mr_out zeros_for(loop *w, mr_out arg)
{
    if (type_of(arg) == MR_VARIANT)
        return mr_emit(&w->s, "ZerosLike", arg);
    return mr_emit(&w->s, "Fill", mr_emit(&w->s, "Shape", arg), mr_const_num(&w->s, (mr_dtype)type_of(arg), 0));
}

static mr_status *differentiate_body(loop *w)
{
    mr_body *b = &w->body;
    mr_out *ys = mr_arena_array(&w->arena, mr_out, w->n + 1), *xs = mr_arena_array(&w->arena, mr_out, w->n + 1);
    mr_gradient *gys = mr_arena_array(&w->arena, mr_gradient, w->n + 1), *gxs = mr_arena_array(&w->arena, mr_gradient, w->n + 1);
    int n_y = 0, n_x = 0;
    w->dys = mr_arena_array(&w->arena, mr_out, w->n + 1);
    w->dxs = mr_arena_array(&w->arena, mr_gradient, w->n + 1);
    for (int i = 0; i < w->n; i++) {
        if (!w->flows[i])
            continue;
        if (is_resource(w, i) && !is_constant(w, i))
            return mr_error(MR_UNIMPLEMENTED, "The gradient of '%s': variable %d of the loop is a resource that changes",
                            w->node->name, i);
        xs[n_x++] = (mr_out){b->args[i], 0};
        if (is_resource(w, i))
            continue;
        w->dys[i] = arg_of(w, type_of((mr_out){b->args[i], 0}), w->n + i);
        ys[n_y] = b->rets[i]->in[0];
        gys[n_y++] = mr_dense_grad(w->dys[i]);
    }
    MR_TRY(mr_scope_status(&w->s));
    mr_gradient_options options = {.grad_ys = gys};
    if (n_y)
        MR_TRY(mr_graph_gradients(b->graph, ys, n_y, xs, n_x, &options, gxs));
    for (int i = 0, k = 0; i < w->n; i++) {
        w->dxs[i] = w->flows[i] ? gxs[k++] : MR_NO_GRAD;
        if (w->flows[i] && !is_resource(w, i) && !w->dxs[i].dense.node)
            w->dxs[i] = mr_dense_grad(zeros_for(w, (mr_out){b->args[i], 0}));
    }
    return mr_scope_status(&w->s);
}

/* ---- splitting forward and backward nodes ---- */

/* The forward body: all nodes that existed before, and their current inputs. */
static void mark_forward(loop *w, int n_before)
{
    const mr_graph *g = w->body.graph;
    node_vec todo = {0};
    w->forward = mr_arena_array(&w->arena, bool, g->nodes.n + 1);
    for (int i = 0; i < n_before; i++)
        if (g->nodes.p[i])
            mark_back((mr_out){g->nodes.p[i], 0}, w->forward, &todo);
    for (int i = 0; i < n_before; i++)
        if (g->nodes.p[i])
            for (int k = 0; k < g->nodes.p[i]->n_ctrl; k++)
                mark_back((mr_out){g->nodes.p[i]->ctrl[k], 0}, w->forward, &todo);
    mr_vec_deinit(&todo);
}

static bool is_shape_op(const mr_node *n)
{
    return mr_node_is(n, "Shape") || mr_node_is(n, "Size") || mr_node_is(n, "Rank") || mr_node_is(n, "ShapeN");
}

/* Shapes are smaller than values, so they are computed in the forward body. */
static bool moves_forward(const loop *w, const mr_node *n)
{
    bool all = is_shape_op(n);
    for (int i = 0; all && i < n->n_in; i++)
        all = n->in[i].node && w->forward[n->in[i].node->id];
    return all;
}

static bool is_plain_constant(const mr_node *n) { return mr_node_is(n, "Const") && n->n_ctrl == 0; }

static bool is_kept(const loop *w, mr_out o)
{
    for (int i = 0; i < w->kept.n; i++)
        if (mr_out_eq(w->kept.p[i], o))
            return true;
    return false;
}

/* A forward value that the backward body uses. */
static void keep_value(loop *w, mr_out o)
{
    for (int i = 0; i < w->n; i++)
        if (o.node == w->body.args[i] && is_constant(w, i)) {
            if (!w->captured[i])
                w->captured[i] = ++w->n_captured;
            return;
        }
    if (!is_kept(w, o))
        mr_vec_push(&w->kept, o);
}

static bool is_own_arg(const loop *w, const mr_node *n)
{
    for (int i = 0; i < w->n; i++)
        if (w->dys[i].node == n)
            return true;
    return false;
}

/* Collects the backward nodes from a value of the gradient back to forward nodes. */
static void gather_backward(loop *w, mr_out from, out_vec *todo)
{
    mr_vec_push(todo, from);
    while (todo->n) {
        mr_out o = mr_vec_pop(todo);
        mr_node *n = o.node;
        if (is_own_arg(w, n))
            continue;
        if (!w->forward[n->id] && moves_forward(w, n))
            w->forward[n->id] = true;
        if (w->forward[n->id] && !is_plain_constant(n)) {
            keep_value(w, o);
            continue;
        }
        if (w->mine[n->id])
            continue;
        w->mine[n->id] = 1;
        for (int i = 0; i < n->n_in; i++)
            mr_vec_push(todo, n->in[i]);
        for (int i = n->n_ctrl - 1; i >= 0; i--) { /* forward nodes have already run */
            mr_node *c = n->ctrl[i];
            if (w->forward[c->id])
                mr_node_remove_control(n, c);
            else
                mr_vec_push(todo, (mr_out){c, 0});
        }
    }
}

static void split_body(loop *w)
{
    out_vec todo = {0};
    w->n_split = w->body.graph->nodes.n;
    w->mine = mr_arena_array(&w->arena, uint8_t, w->n_split + 1);
    w->captured = mr_arena_array(&w->arena, int, w->n + 1);
    for (int i = 0; i < w->n; i++)
        if (w->flows[i] && w->dxs[i].dense.node)
            gather_backward(w, w->dxs[i].dense, &todo);
    mr_vec_deinit(&todo);
}

/* ---- functions ---- */

static char *free_name(const mr_library *l, const char *base, const char *what)
{
    for (int i = 0;; i++) {
        char *name = mr_printf("%s_%s_%d", base, what, i);
        if (!mr_library_op(l, mr_sv_of(name)))
            return name;
        mr_free(name);
    }
}

typedef struct made { /* a function's inputs and outputs while it is being built */
    out_vec in, out;
    node_vec nodes;
} made;

static void made_deinit(made *m)
{
    mr_vec_deinit(&m->in);
    mr_vec_deinit(&m->out);
    mr_vec_deinit(&m->nodes);
}

static mr_status *add_function(loop *w, const mr_graph *g, const made *m, const mr_body *keep, const char *base, const char *what,
                               const char **name)
{
    mr_function *f = NULL;
    char *text = free_name(w->l, base, what);
    mr_function_spec spec = {.name = text, .n_nodes = m->nodes.n, .nodes = m->nodes.p, .n_inputs = m->in.n, .inputs = m->in.p,
                             .n_outputs = m->out.n, .outputs = m->out.p};
    const char **names = mr_arena_array(&w->arena, const char *, (keep ? keep->n_keep : 0) + 1);
    for (int i = 0; keep && i < keep->n_keep; i++)
        names[i] = keep->keep[i]->name;
    if (keep && keep->n_keep) {
        spec.n_controls = keep->n_keep;
        spec.controls = keep->keep;
        spec.control_names = names;
    }
    mr_status *st = mr_function_from_graph(g, &spec, &f);
    if (!st && g->library != w->l) /* gradients of what the body calls */
        st = mr_library_copy(g->library, w->l);
    if (!st)
        st = mr_library_add(w->l, f);
    *name = mr_arena_strdup(&w->arena, text);
    mr_function_unref(f);
    mr_free(text);
    return st;
}

static bool is_end(const mr_node *n) { return mr_node_is(n, "_Arg") || mr_node_is(n, "_Retval"); }

/* All nodes from `start` on that are neither inputs nor outputs. */
static void take_new_nodes(const mr_graph *g, int start, made *m)
{
    for (int i = start; i < g->nodes.n; i++)
        if (g->nodes.p[i] && !is_end(g->nodes.p[i]))
            mr_vec_push(&m->nodes, g->nodes.p[i]);
}

/* The forward body with a counter and lists. */
static mr_status *forward_body(loop *w, const char **name)
{
    mr_graph *g = w->body.graph;
    made m = {0};
    const mr_func_ref *f;
    MR_TRY(mr_node_get_func(w->node, "body", &f));
    for (int i = 0; i < w->n_split; i++)
        if (g->nodes.p[i] && w->forward[i] && !is_end(g->nodes.p[i]))
            mr_vec_push(&m.nodes, g->nodes.p[i]);
    for (int i = 0; i < w->n; i++) {
        mr_vec_push(&m.in, (mr_out){w->body.args[i], 0});
        mr_vec_push(&m.out, w->body.rets[i]->in[0]);
    }
    int start = g->nodes.n;
    mr_out count = arg_of(w, MR_INT32, w->n);
    mr_vec_push(&m.in, count);
    mr_vec_push(&m.out, mr_emit(&w->s, "AddV2", count, mr_const_i32(&w->s, 1)));
    for (int k = 0; k < w->kept.n; k++) {
        mr_out list = arg_of(w, MR_VARIANT, w->n + 1 + k);
        mr_vec_push(&m.in, list);
        mr_vec_push(&m.out, mr_emit(&w->s, "TensorListPushBack", list, w->kept.p[k]));
    }
    take_new_nodes(g, start, &m);
    mr_status *st = mr_scope_status(&w->s);
    if (!st)
        st = add_function(w, g, &m, &w->body, f->name, "forward", name);
    made_deinit(&m);
    return st;
}

/* The forward condition, which ignores the additional variables. */
static mr_status *forward_cond(loop *w, const char **name)
{
    mr_body cond = {0};
    made m = {0};
    mr_scope s;
    const mr_func_ref *f;
    MR_TRY(mr_node_get_func(w->node, "cond", &f));
    MR_TRY(instantiate_attr(w, "cond", &cond));
    mr_scope_init(&s, cond.graph, "more");
    take_new_nodes(cond.graph, 0, &m);
    for (int i = 0; i < cond.n_args; i++)
        mr_vec_push(&m.in, (mr_out){cond.args[i], 0});
    for (int i = 0; i <= w->kept.n; i++)
        mr_vec_push(&m.in, mr_emit0_with(&s, "_Arg", MR_ATTRS({"T", mr_a_type(i ? MR_VARIANT : MR_INT32)},
                                                              {"index", mr_a_int(cond.n_args + i)})));
    for (int i = 0; i < cond.n_rets; i++)
        mr_vec_push(&m.out, cond.rets[i]->in[0]);
    mr_status *st = mr_scope_status(&s);
    mr_scope_deinit(&s);
    if (!st)
        st = cond.n_args == w->n ? add_function(w, cond.graph, &m, &cond, f->name, "forward", name)
                                 : mr_invalid("Function '%s' does not take the %d variables of '%s'", f->name, w->n, w->node->name);
    made_deinit(&m);
    mr_body_deinit(&cond);
    return st;
}

/* Makes the backward nodes read the replacements of forward values. */
static mr_status *rewire_body(loop *w)
{
    mr_graph *g = w->body.graph;
    for (int i = 0; i < w->n_split; i++) {
        mr_node *n = g->nodes.p[i];
        if (!n || !w->mine[i])
            continue;
        for (int k = 0; k < n->n_in; k++) {
            for (int j = 0; j < w->kept.n; j++)
                if (mr_out_eq(n->in[k], w->kept.p[j]))
                    MR_TRY(mr_node_set_input(n, k, w->stand_in.p[j]));
            for (int j = 0; j < w->n; j++)
                if (w->captured[j] && n->in[k].node == w->body.args[j])
                    MR_TRY(mr_node_set_input(n, k, w->captures[w->captured[j] - 1]));
        }
    }
    return NULL;
}

static mr_out stand_in_for(const loop *w, mr_out o)
{
    for (int j = 0; j < w->kept.n; j++)
        if (mr_out_eq(o, w->kept.p[j]))
            return w->stand_in.p[j];
    for (int j = 0; j < w->n; j++)
        if (w->captured[j] && o.node == w->body.args[j])
            return w->captures[w->captured[j] - 1];
    return o;
}

/* Arguments and results of the backward body, in the order given at the head of this file. */
static mr_status *backward_ends(loop *w, made *m)
{
    mr_scope *s = &w->s;
    out_vec lists = {0}, tails = {0};
    int at = 0;
    mr_out count = arg_of(w, MR_INT32, at++);
    mr_vec_push(&m->in, count);
    for (int i = 0; i < w->n; i++)
        if (w->flows[i] && !is_resource(w, i))
            mr_vec_push(&m->in, w->dys[i]);
    for (int k = 0; k < w->kept.n; k++) {
        mr_vec_push(&lists, arg_of(w, MR_VARIANT, at++));
        mr_out p = mr_emit_with(s, "TensorListPopBack", MR_ATTRS({"element_dtype", mr_a_type(type_of(w->kept.p[k]))}),
                                mr_vec_last(&lists), mr_const_i32(s, -1));
        mr_vec_push(&tails, p);
        mr_vec_push(&w->stand_in, mr_nth(p, 1));
    }
    w->captures = mr_arena_array(&w->arena, mr_out, w->n_captured + 1);
    for (int i = 0; i < w->n; i++)
        if (w->captured[i])
            w->captures[w->captured[i] - 1] = arg_of(w, type_of((mr_out){w->body.args[i], 0}), at++);
    mr_vec_push(&m->out, mr_emit(s, "Sub", count, mr_const_i32(s, 1)));
    mr_status *st = mr_scope_status(s);
    for (int i = 0; i < w->n && !st; i++)
        if (w->flows[i] && !is_resource(w, i))
            mr_vec_push(&m->out, stand_in_for(w, w->dxs[i].dense));
    for (int i = 0; i < w->n && !st; i++)
        if (w->flows[i] && is_resource(w, i) && w->dxs[i].dense.node) { /* a sum over all iterations */
            mr_out sum = arg_of(w, type_of(w->dxs[i].dense), at++);
            mr_vec_push(&m->in, sum);
            mr_vec_push(&m->out, mr_emit(s, "AddV2", sum, stand_in_for(w, w->dxs[i].dense)));
        }
    for (int k = 0; k < w->kept.n && !st; k++) {
        mr_vec_push(&m->in, lists.p[k]);
        mr_vec_push(&m->out, tails.p[k]);
    }
    for (int k = 0; k < w->n_captured && !st; k++) {
        mr_vec_push(&m->in, w->captures[k]);
        mr_vec_push(&m->out, w->captures[k]);
    }
    mr_vec_deinit(&lists);
    mr_vec_deinit(&tails);
    return st ? st : mr_scope_status(s);
}

static mr_status *backward_body(loop *w, const char **name, out_vec *in)
{
    mr_graph *g = w->body.graph;
    made m = {0};
    const mr_func_ref *f;
    mr_status *st = NULL;
    int start = g->nodes.n;
    MR_GO(mr_node_get_func(w->node, "body", &f));
    for (int i = 0; i < w->n_split; i++)
        if (g->nodes.p[i] && w->mine[i] && !is_end(g->nodes.p[i]))
            mr_vec_push(&m.nodes, g->nodes.p[i]);
    MR_GO(backward_ends(w, &m));
    MR_GO(rewire_body(w));
    take_new_nodes(g, start, &m);
    MR_GO(add_function(w, g, &m, NULL, f->name, "backward", name));
    for (int i = 0; i < m.in.n; i++)
        mr_vec_push(in, m.in.p[i]);
out:
    made_deinit(&m);
    return st;
}

/* count > 0 */
static mr_status *backward_cond(loop *w, const out_vec *in, const char **name)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    made m = {0};
    const mr_func_ref *f;
    mr_scope_init(&s, g, "");
    mr_status *st = mr_node_get_func(w->node, "cond", &f);
    for (int i = 0; i < in->n; i++)
        mr_vec_push(&m.in, mr_emit0_with(&s, "_Arg", MR_ATTRS({"T", mr_a_type(type_of(in->p[i]))}, {"index", mr_a_int(i)})));
    mr_vec_push(&m.out, mr_emit(&s, "Greater", m.in.p[0], mr_const_i32(&s, 0)));
    take_new_nodes(g, 0, &m);
    if (!st)
        st = mr_scope_status(&s);
    if (!st)
        st = add_function(w, g, &m, NULL, f->name, "backward", name);
    mr_scope_deinit(&s);
    made_deinit(&m);
    mr_graph_unref(g);
    return st;
}

/* ---- the nodes ---- */

/* Puts a new node into the loop and on the side of conditionals of the forward node. */
static mr_out output_beside(loop *w, mr_out o)
{
    mr_backward *walk = w->g->walk;
    if (o.node) {
        if (walk->flow.any)
            mr_node_add_control(o.node, w->node->in[0].node);
        mr_backward_claim_forward(walk, o.node, mr_cflow_frame(&walk->flow, w->node), mr_cflow_guard(&walk->flow, w->node));
    }
    return o;
}

static void set_types(mr_node *n, const char *body, const char *cond)
{
    mr_func_ref f = {.name = body}, c = {.name = cond};
    mr_node_set_attr(n, "T", mr_a_types(n->n_out, n->out_types));
    mr_node_set_attr(n, "body", (mr_attr){MR_ATTR_FUNC, .func = &f});
    mr_node_set_attr(n, "cond", (mr_attr){MR_ATTR_FUNC, .func = &c});
    const mr_attr *shapes = mr_node_attr(n, "output_shapes");
    if (!shapes || shapes->n == 0)
        return;
    const mr_pshape **all = mr_arena_array(&n->graph->arena, const mr_pshape *, n->n_out);
    for (int i = 0; i < n->n_out; i++)
        all[i] = i < shapes->n ? shapes->shapes[i] : &mr_pshape_scalar;
    mr_node_set_attr(n, "output_shapes", mr_a_shapes(n->n_out, all));
}

static void extend_forward(loop *w, const char *body, const char *cond)
{
    mr_scope *s = w->g->s;
    mr_node *n = w->node;
    int more = 1 + w->kept.n;
    mr_out *in = mr_arena_array(&w->arena, mr_out, more);
    in[0] = output_beside(w, mr_const_i32(s, 0));
    for (int k = 0; k < w->kept.n; k++) {
        mr_out any = output_beside(w, mr_const_i32(s, -1));
        in[1 + k] =
            output_beside(w, mr_emit_with(s, "EmptyTensorList",
                                          MR_ATTRS({"element_dtype", mr_a_type(type_of(w->kept.p[k]))}), any, any));
    }
    if (!mr_scope_ok(s))
        return;
    int *types = mr_arena_array(&w->arena, int, more);
    for (int k = 0; k < more; k++)
        types[k] = k ? MR_VARIANT : MR_INT32;
    mr_node_extend(n, in, types, more);
    set_types(n, body, cond);
}

static mr_out zeros_of_variable(mr_grad *g, mr_out handle, int type)
{
    return mr_emit(g->s, "Fill", mr_emit(g->s, "VariableShape", handle), mr_const_num(g->s, (mr_dtype)type, 0));
}

static void emit_backward(loop *w, const char *body, const char *cond)
{
    mr_grad *g = w->g;
    mr_node *n = w->node;
    out_vec in = {0};
    mr_vec_push(&in, (mr_out){n, w->n});
    for (int i = 0; i < w->n; i++)
        if (w->flows[i] && !is_resource(w, i))
            mr_vec_push(&in, mr_dyi(g, i));
    for (int i = 0; i < w->n; i++)
        if (w->flows[i] && is_resource(w, i) && w->dxs[i].dense.node)
            mr_vec_push(&in, zeros_of_variable(g, n->in[i], type_of(w->dxs[i].dense)));
    for (int k = 0; k < w->kept.n; k++)
        mr_vec_push(&in, (mr_out){n, w->n + 1 + k});
    for (int c = 1; c <= w->n_captured; c++)
        for (int i = 0; i < w->n; i++)
            if (w->captured[i] == c)
                mr_vec_push(&in, n->in[i]);
    int *types = mr_arena_array(&w->arena, int, in.n);
    for (int i = 0; i < in.n && mr_scope_ok(g->s); i++)
        types[i] = type_of(in.p[i]);
    mr_func_ref f = {.name = body}, c = {.name = cond};
    const mr_attr *lower = mr_node_attr(n, "_lower_using_switch_merge"), *parallel = mr_node_attr(n, "parallel_iterations");
    mr_named_attr attrs[5] = {{"T", mr_a_types(in.n, types)}, {"body", {MR_ATTR_FUNC, .func = &f}}, {"cond", {MR_ATTR_FUNC, .func = &c}}};
    int n_attrs = 3;
    if (lower)
        attrs[n_attrs++] = (mr_named_attr){"_lower_using_switch_merge", *lower};
    if (parallel)
        attrs[n_attrs++] = (mr_named_attr){"parallel_iterations", *parallel};
    mr_out o = mr_emit_n(g->s, n->def->name, attrs, n_attrs, in.p, in.n);
    int at = 1;
    for (int i = 0; i < w->n && o.node; i++)
        if (w->flows[i] && !is_resource(w, i))
            mr_dxi(g, i, mr_nth(o, at++));
    for (int i = 0; i < w->n && o.node; i++)
        if (w->flows[i] && is_resource(w, i) && w->dxs[i].dense.node)
            mr_dxi(g, i, mr_nth(o, at++));
    mr_vec_deinit(&in);
}

/* ---- the whole ---- */

static mr_status *check_body(const loop *w)
{
    const mr_body *b = &w->body;
    bool fits = b->n_args == w->n && b->n_rets == w->n;
    for (int i = 0; fits && i < w->n; i++)
        fits = b->args[i]->out_types[0] == (int)mr_dtype_base(w->node->in_types[i]) &&
               mr_dtype_base(b->rets[i]->in_types[0]) == mr_dtype_base(w->node->in_types[i]);
    return fits ? NULL : mr_invalid("The body of '%s' does not take and give the %d variables of the loop", w->node->name, w->n);
}

static mr_status *differentiate_while(loop *w)
{
    const char *names[4];
    out_vec in = {0};
    mr_status *st = NULL;
    MR_GO(instantiate_attr(w, "body", &w->body));
    MR_GO(check_body(w));
    int n_before = w->body.graph->nodes.n;
    mr_scope_init(&w->s, w->body.graph, "back");
    find_flows(w);
    MR_GO(differentiate_body(w));
    mark_forward(w, n_before);
    split_body(w);
    MR_GO(forward_body(w, &names[0]));
    MR_GO(forward_cond(w, &names[1]));
    MR_GO(backward_body(w, &names[2], &in));
    MR_GO(backward_cond(w, &in, &names[3]));
    extend_forward(w, names[0], names[1]);
    if (mr_scope_ok(w->g->s))
        emit_backward(w, names[2], names[3]);
out:
    mr_vec_deinit(&in);
    return st;
}

void mr_backward_while(mr_grad *g)
{
    loop w = {.g = g, .node = (mr_node *)(uintptr_t)g->node, .l = g->node->graph->library, .n = g->node->n_in};
    if (nested >= MAX_NESTED) {
        mr_grad_fail(g, MR_UNIMPLEMENTED, "Cannot differentiate '%s': loops are nested more than %d deep.", g->node->name, MAX_NESTED);
        return;
    }
    nested++;
    mr_arena_init(&w.arena, 0);
    mr_scope_fail(g->s, differentiate_while(&w));
    nested--;
    if (w.s.graph)
        mr_scope_deinit(&w.s);
    mr_body_deinit(&w.body);
    mr_vec_deinit(&w.kept);
    mr_vec_deinit(&w.stand_in);
    mr_arena_deinit(&w.arena);
}
