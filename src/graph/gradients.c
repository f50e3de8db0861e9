/* graph/gradients.c -- the walk back from ys to xs.
 *
 * First all nodes on a differentiable path from an x to a y are marked; only those are visited later. Marking goes back
 * from the ys, and then from the xs along the edges it found, so the cost of a walk does not depend on nodes that no y
 * depends on, even if they use an x. Nodes are sorted, consumers first, with each inner loop counting as one node; a node's gradient is computed after
 * all gradients of its outputs have arrived.
 *
 * A node is differentiated by the caller's override, else, for control flow and function calls, by gradient_loops.c,
 * gradient_cond.c and gradient_call.c, else by the op's own .grad. */
#include "graph/backward.h"
#include "graph/draft.h"

/* FROM_X: depends on an x through nodes that lead to a y; OF_X: depends on an x in any way. */
enum { FROM_X = 1, TO_Y = 2, REACHED = 4, OPEN = 8, ORDERED = 16, OF_X = 32 };

/* ---- marking ---- */
typedef MR_VEC(mr_node *) node_vec;

/* TensorFlow's C API differentiates integers too; its Python front end does not. */
bool mr_backward_carries(const mr_backward *w, int type)
{
    mr_dtype t = mr_dtype_base(type);
    return mr_dtype_is_trainable(t) || (w->opt->tf_semantics && mr_dtype_is_integer(t));
}

/* Whether the walk may pass through this node.  An override may know more gradients than we do. */
static bool conducts_gradient(const mr_backward *w, const mr_node *n)
{
    return w->opt->override || !(n->def->flags & MR_NO_GRADIENT);
}

static bool is_stop(const mr_backward *w, mr_out o)
{
    return mr_imap_get(&w->stops, mr_out_key(o)) != NULL;
}

static int marks_of(const mr_backward *w, const mr_node *n)
{
    return (int)(uintptr_t)mr_imap_get(&w->marks, (uint64_t)n->id);
}

static void set_marks(mr_backward *w, const mr_node *n, int flags)
{
    mr_imap_put(&w->marks, (uint64_t)n->id, (void *)(uintptr_t)flags);
}

/* False if it already has the flag, or did not exist before the walk. */
static bool mark_node(mr_backward *w, const mr_node *n, int flag)
{
    int flags = n->id < w->n_old ? marks_of(w, n) : flag;
    if (flags & flag)
        return false;
    set_marks(w, n, flags | flag);
    return true;
}

/* Marks the consumers of one output, or of all outputs (-1) that gradients flow through. Gradients reach an x even if
 * they stop there. */
static void mark_consumers(mr_backward *w, mr_node *n, int output, int flag, node_vec *todo)
{
    w->n_edges += n->uses.n;
    for (int i = 0; i < n->uses.n; i++) {
        mr_use u = n->uses.p[i];
        bool flows = output < 0 ? !is_stop(w, (mr_out){n, u.output}) : u.output == output;
        if (u.input < 0 || !flows || !mr_backward_carries(w, n->out_types[u.output]))
            continue;
        if (mark_node(w, u.node, flag))
            mr_vec_push(todo, u.node);
    }
}

/* Everything that depends on an x, through nodes that gradients may pass. */
static void mark_dependents(mr_backward *w, const mr_out *xs, int n_x, int flag)
{
    node_vec todo = {0};
    for (int i = 0; i < n_x; i++)
        mark_consumers(w, xs[i].node, xs[i].index, flag, &todo);
    while (todo.n) {
        mr_node *n = mr_vec_pop(&todo);
        if (conducts_gradient(w, n))
            mark_consumers(w, n, -1, flag, &todo);
    }
    mr_vec_deinit(&todo);
}

/* Back from ys along every data edge: TF_AddGradients' idea of reachable. */
static void mark_reachable(mr_backward *w, const mr_out *ys, int n_y, int flag)
{
    node_vec todo = {0};
    for (int i = 0; i < n_y; i++)
        if (mark_node(w, ys[i].node, flag))
            mr_vec_push(&todo, ys[i].node);
    while (todo.n) {
        mr_node *n = mr_vec_pop(&todo);
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i].node && mark_node(w, n->in[i].node, flag))
                mr_vec_push(&todo, n->in[i].node);
    }
    mr_vec_deinit(&todo);
}

/* The edges that gradients may flow along, found on the way back from the ys. The way forward from the xs uses them
 * instead of the uses of nodes: a variable or a placeholder may have thousands of consumers that no y depends on. */
typedef struct flow_edge {
    mr_node *to;
    int output; /* of the producer */
    int next;   /* the next edge of the same producer, counted from 1; 0: the last */
} flow_edge;

typedef struct flow_edges {
    MR_VEC(flow_edge) all;
    mr_imap first; /* id of a producer -> its first edge, counted from 1 */
} flow_edges;

static int first_edge(const flow_edges *e, const mr_node *from)
{
    return (int)(intptr_t)mr_imap_get(&e->first, (uint64_t)from->id);
}

static void add_edge(flow_edges *e, mr_out from, mr_node *to)
{
    mr_vec_push(&e->all, ((flow_edge){to, from.index, first_edge(e, from.node)}));
    mr_imap_put(&e->first, (uint64_t)from.node->id, (void *)(intptr_t)e->all.n);
}

/* Back from ys, where gradients flow. An edge from an output to stop at is kept: it may be an x. */
static void mark_to_ys(mr_backward *w, const mr_out *ys, int n_y, flow_edges *edges)
{
    node_vec todo = {0};
    for (int i = 0; i < n_y; i++)
        if (!is_stop(w, ys[i]) && mark_node(w, ys[i].node, TO_Y))
            mr_vec_push(&todo, ys[i].node);
    while (todo.n) {
        mr_node *n = mr_vec_pop(&todo);
        bool conducts = conducts_gradient(w, n);
        w->n_edges += n->n_in;
        for (int i = 0; i < n->n_in; i++) {
            mr_out o = n->in[i];
            if (!o.node || !mr_backward_carries(w, mr_out_type(o)))
                continue;
            add_edge(edges, o, n);
            if (conducts && !is_stop(w, o) && mark_node(w, o.node, TO_Y))
                mr_vec_push(&todo, o.node);
        }
    }
    mr_vec_deinit(&todo);
}

/* Forward along the edges of one output, or of all outputs (-1) that gradients flow through. */
static void mark_along(mr_backward *w, const flow_edges *edges, mr_node *n, int output, node_vec *todo)
{
    for (int i = first_edge(edges, n); i; i = edges->all.p[i - 1].next) {
        const flow_edge *e = &edges->all.p[i - 1];
        bool flows = output < 0 ? !is_stop(w, (mr_out){n, e->output}) : e->output == output;
        if (flows && mark_node(w, e->to, FROM_X))
            mr_vec_push(todo, e->to);
    }
}

static void mark_from_xs(mr_backward *w, const mr_out *xs, int n_x, const flow_edges *edges)
{
    node_vec todo = {0};
    for (int i = 0; i < n_x; i++)
        mark_along(w, edges, xs[i].node, xs[i].index, &todo);
    while (todo.n) {
        mr_node *n = mr_vec_pop(&todo);
        if (conducts_gradient(w, n))
            mark_along(w, edges, n, -1, &todo);
    }
    mr_vec_deinit(&todo);
}

/* Marks what lies between xs and ys. */
static void mark_between(mr_backward *w, const mr_out *ys, int n_y, const mr_out *xs, int n_x)
{
    flow_edges edges = {0};
    mark_to_ys(w, ys, n_y, &edges);
    mark_from_xs(w, xs, n_x, &edges);
    mr_vec_deinit(&edges.all);
    mr_imap_deinit(&edges.first);
}

bool mr_backward_between(const mr_backward *w, const mr_node *n)
{
    return n->id < w->n_old && (marks_of(w, n) & (FROM_X | TO_Y)) == (FROM_X | TO_Y);
}

/* A marked node of one of two ops. */
static const mr_node *find_marked(const mr_backward *w, int flag, const char *op, const char *or_op)
{
    uint32_t pos = 0;
    uint64_t id;
    void *flags;
    while (mr_imap_next(&w->marks, &pos, &id, &flags)) {
        const mr_node *n = w->graph->nodes.p[id];
        if (((int)(uintptr_t)flags & flag) && (mr_node_is(n, op) || mr_node_is(n, or_op)))
            return n;
    }
    return NULL;
}

/* A backward loop takes its values from stacks, and no gradient passes through a stack. So values that were pushed must
 * not depend on an x, or a part of the derivative would be missing silently. A push is not on the way to a y, so
 * everything that depends on an x is searched, but only if something pops. */
static mr_status *refuse_second_derivative(mr_backward *w, const mr_out *xs, int n_x)
{
    const mr_node *pop = w->graph->n_control_flow ? find_marked(w, TO_Y, "StackPopV2", "StackPop") : NULL;
    if (!pop)
        return NULL;
    mark_dependents(w, xs, n_x, OF_X);
    const mr_node *push = find_marked(w, OF_X, "StackPushV2", "StackPush");
    if (!push)
        return NULL;
    return mr_error(
        MR_UNIMPLEMENTED,
        "Second-order gradient for while loops not supported: '%s' reads values that '%s' saved.",
        pop->name, push->name);
}

/* ---- order ---- */
typedef struct unit { /* one step of the walk */
    mr_node *node;
    mr_loop_frame *loop; /* instead: all of this inner loop */
    int next;       /* next input to visit, while ordering */
} unit;
typedef MR_VEC(unit) unit_vec;

static mr_status *through_loop_state(const mr_node *n)
{
    return mr_invalid("Cannot compute gradient inside while loop with respect to op '%s'. We do "
                      "not support taking "
                      "the gradient wrt or through the initial value of a loop variable.",
                      n->name);
}

/* The unit that produces a value at a level; false if it comes from outside of the level's loop. */
static bool unit_of(mr_backward *w, const mr_level *l, mr_out o, unit *out)
{
    mr_node *n = o.node;
    if (!n || !mr_backward_between(w, n) || is_stop(w, o))
        return false;
    *out = (unit){.node = n};
    if (!w->flow.any)
        return true;
    mr_loop_frame *frame = mr_cflow_frame(&w->flow, n);
    bool state = mr_node_is_merge(n) && mr_cflow_back_edge(n);
    if (mr_node_is_exit(n)) {
        if (frame->parent != l->frame)
            mr_scope_fail(&w->s, mr_error(MR_UNIMPLEMENTED,
                                          "The gradient of loop '%s' is requested from inside of "
                                          "another loop ('%s').",
                                          frame->name, l->frame->name));
        *out = (unit){.loop = frame};
    } else if (l->outer) {
        return !state && !mr_node_is_enter(n); /* both are at the beginning of the level's own loop */
    } else if (state || (mr_node_is_enter(n) && frame->depth > 0 &&
                         mr_node_attr(n, "is_constant") && !mr_node_attr(n, "is_constant")->b)) {
        mr_scope_fail(&w->s, through_loop_state(n));
    }
    return mr_scope_ok(&w->s);
}

static int state_of(const mr_backward *w, const unit *u) { return u->loop ? u->loop->mark : marks_of(w, u->node); }

static void set_state(mr_backward *w, const unit *u, int state)
{
    if (u->loop)
        u->loop->mark = (uint8_t)state;
    else
        set_marks(w, u->node, state);
}

static bool next_input(const mr_backward *w, unit *u, mr_out *out)
{
    if (u->node) {
        if (u->next >= u->node->n_in)
            return false;
        *out = u->node->in[u->next++];
        if (out->node && !mr_backward_carries(w, mr_out_type(*out)))
            *out = MR_NO_OUT;
        return true;
    }
    if (u->next >= u->loop->enters.n)
        return false;
    const mr_node *enter = u->loop->enters.p[u->next++];
    *out = mr_backward_between(w, enter) ? enter->in[0] : MR_NO_OUT;
    return true;
}

/* Depth first from one output; `order` gets producers before consumers. */
static void order_from(mr_backward *w, const mr_level *l, mr_out from, unit_vec *order)
{
    unit_vec stack = {0};
    unit u;
    mr_out in;
    if (unit_of(w, l, from, &u) && !(state_of(w, &u) & (OPEN | ORDERED))) {
        set_state(w, &u, state_of(w, &u) | OPEN);
        mr_vec_push(&stack, u);
    }
    while (stack.n && mr_scope_ok(&w->s)) {
        if (!next_input(w, &mr_vec_last(&stack), &in)) {
            u = mr_vec_pop(&stack);
            set_state(w, &u, (state_of(w, &u) & ~OPEN) | ORDERED);
            mr_vec_push(order, u);
        } else if (unit_of(w, l, in, &u)) {
            int state = state_of(w, &u);
            if (state & OPEN)
                mr_scope_fail(&w->s, mr_invalid("Graph is invalid, contains a cycle through '%s'",
                                                in.node->name));
            else if (!(state & ORDERED)) {
                set_state(w, &u, state | OPEN);
                mr_vec_push(&stack, u);
            }
        }
    }
    mr_vec_deinit(&stack);
}

static void order_level(mr_backward *w, mr_level *l, unit_vec *order)
{
    uint32_t pos = 0;
    uint64_t key;
    void *value;
    MR_VEC(uint64_t) seeds = {0};
    while (mr_imap_next(&l->sums, &pos, &key, &value))
        mr_vec_push(&seeds, key);
    for (int i = 0; i < seeds.n && mr_scope_ok(&w->s); i++) {
        mr_out o = {w->graph->nodes.p[seeds.p[i] >> 32], (int)(uint32_t)seeds.p[i]};
        order_from(w, l, o, order);
    }
    mr_vec_deinit(&seeds);
}

/* ---- gradients that were registered ---- */
typedef struct registered {
    mr_gradient_fn *fn;
    void *ctx;
} registered;

static mr_mutex registered_mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_map all_registered MR_GUARDED_BY(registered_mu); /* op -> registered; both live as long as the process */

static const registered *find_registered(const char *op)
{
    mr_lock(&registered_mu);
    const registered *r = mr_map_getz(&all_registered, op);
    mr_unlock(&registered_mu);
    return r;
}

mr_status *mr_gradient_register(const char *op, mr_gradient_fn *fn, void *ctx)
{
    mr_status *st = NULL;
    const mr_op_def *def = mr_op_find(mr_sv_of(op));
    if (def && ((def->op && def->op->grad) || (def->flags & MR_NO_GRADIENT)))
        return mr_error(MR_ALREADY_EXISTS, "Op %s has a built-in gradient", op);
    mr_lock(&registered_mu);
    if (mr_map_getz(&all_registered, op)) {
        st = mr_error(MR_ALREADY_EXISTS, "Registering two gradient with name '%s'!", op);
    } else {
        registered *r = mr_new(registered);
        *r = (registered){fn, ctx};
        mr_map_putz(&all_registered, op, r);
    }
    mr_unlock(&registered_mu);
    return st;
}

/* ---- one node ---- */
/* Emits the gradient of a node; the new nodes begin at *start. False if a client's callback created it: the client may
 * keep the nodes, and some of them may belong to other threads, because the graph is unlocked while a callback runs. If
 * a callback declined, nodes that were added while it ran are before *start. */
static bool differentiate_node(mr_grad *g, int *start)
{
    mr_backward *w = g->walk;
    const mr_node *n = g->node;
    const registered *r;
    *start = w->graph->nodes.n;
    if (w->opt->override && w->opt->override(w->opt->ctx, g))
        return false;
    *start = w->graph->nodes.n;
    if (mr_node_has_placeholder(n))
        mr_grad_fail(g, MR_INVALID_ARGUMENT, "An attr of node '%s' is a placeholder: it has no gradient", n->name);
    else if (mr_node_is_switch(n))
        mr_backward_switch(g);
    else if (mr_node_is_merge(n))
        mr_backward_merge(g);
    else if (mr_node_is_enter(n)) /* a loop invariant, seen from inside of its loop */
        mr_grad_identity(g);
    else if (mr_backward_is_call(n))
        mr_backward_call(g);
    else if (mr_backward_is_while(n))
        mr_backward_while(g);
    else if (n->def->op && n->def->op->grad)
        n->def->op->grad(g);
    else if ((r = find_registered(n->def->name))) {
        /* it chooses its own names */
        w->s.prefix = mr_arena_printf(&w->graph->arena, "%s/%s_grad", w->prefix, n->name);
        if (r->fn)
            r->fn(r->ctx, g);
        return false;
    } else if (!(n->def->flags & MR_NO_GRADIENT))
        mr_grad_fail(g, MR_NOT_FOUND,
                     w->opt->tf_semantics
                         ? "No gradient defined for op: %s. Please see "
                           "https://www.tensorflow.org/code/tensorflow/cc/gradients/README.md"
                           " for instructions on how to add C++ gradients."
                         : "No gradient defined for op: %s. Node '%s' is between the ys and the xs.",
                     n->def->name, n->name);
    return true;
}

/* Marks the nodes from `start` on that a value depends on. */
static void mark_needed(mr_out o, int start, bool *needed, node_vec *todo)
{
    if (o.node)
        mr_vec_push(todo, o.node);
    while (todo->n) {
        mr_node *n = mr_vec_pop(todo);
        if (n->id < start || needed[n->id - start])
            continue;
        needed[n->id - start] = true;
        for (int i = 0; i < n->n_in; i++)
            mr_vec_push(todo, n->in[i].node);
        for (int i = 0; i < n->n_ctrl; i++)
            mr_vec_push(todo, n->ctrl[i]);
    }
}

/* Marks the nodes from `start` on that the gradients of the inputs depend on. */
static void mark_needed_by_dx(const mr_grad *g, int start, bool *needed)
{
    node_vec todo = {0};
    for (int i = 0; i < g->n_in; i++) {
        const mr_out parts[] = {g->dx[i].dense, g->dx[i].values, g->dx[i].indices, g->dx[i].dense_shape};
        for (int j = 0; j < MR_COUNT(parts); j++)
            mark_needed(parts[j], start, needed, &todo);
    }
    mr_vec_deinit(&todo);
}

static bool is_made_by_walk(const mr_backward *w, const mr_node *n, int start, const bool *made)
{
    return n->id >= start ? made[n->id - start] : n->id >= w->n_old && mr_backward_is_claimed(w, n);
}

/* Which of the nodes from `start` on, added while a client's callback ran, belong to its gradient:
 * those that its results depend on, and those that use nodes of this walk, which no other thread
 * knows. */
static const bool *made_by_callback(const mr_grad *g, int start)
{
    mr_backward *w = g->walk;
    int n = w->graph->nodes.n - start;
    bool *made = mr_arena_array(&w->arena, bool, n + 1);
    mark_needed_by_dx(g, start, made);
    for (int i = 0; i < n; i++) {
        const mr_node *node = w->graph->nodes.p[start + i];
        for (int j = 0; j < node->n_in && !made[i]; j++)
            made[i] = node->in[j].node && is_made_by_walk(w, node->in[j].node, start, made);
        for (int j = 0; j < node->n_ctrl && !made[i]; j++)
            made[i] = is_made_by_walk(w, node->ctrl[j], start, made);
    }
    return made;
}

/* An op emits the gradients of all its inputs, needed or not. Unneeded nodes are removed, as nobody has seen them yet:
 * in a loop they would cause forward values to be kept for nothing. */
static void drop_unneeded(mr_grad *g, int start)
{
    mr_backward *w = g->walk;
    mr_graph *graph = w->graph;
    int n = graph->nodes.n - start, kept = 0, n_gone = 0;
    bool *needed = mr_arena_array(&w->arena, bool, n + 1);
    for (int i = 0; i < g->n_in; i++)
        if (!mr_needs_dx(g, i)) /* otherwise it would be delivered from a removed node */
            g->dx[i] = MR_NO_GRAD;
    mark_needed_by_dx(g, start, needed);
    mr_node **gone = mr_arena_array(&w->arena, mr_node *, n + 1);
    for (int i = 0; i < n; i++) {
        mr_node *node = graph->nodes.p[start + i];
        if (!needed[i] && !mr_backward_is_claimed(w, node)) {
            gone[n_gone++] = node;
            continue;
        }
        if (n_gone && mr_backward_is_claimed(w, node)) { /* its id is stored elsewhere */
            n_gone = 0;
            break;
        }
        kept++;
    }
    if (!n_gone)
        return;
    for (int i = 0, at = start; i < n; i++) {
        mr_node *node = graph->nodes.p[start + i];
        if (needed[i] || mr_backward_is_claimed(w, node)) {
            graph->nodes.p[at] = node;
            node->id = at++;
        }
    }
    for (int i = 0; i < n_gone; i++) {
        graph->nodes.p[start + kept + i] = gone[i];
        gone[i]->id = start + kept + i;
    }
    mr_graph_truncate(graph, start + kept, graph->held.n);
}

static mr_status *check_dx(const mr_backward *w, const mr_node *n, int i, mr_out dx, int first_new)
{
    mr_out x = n->in[i];
    mr_dtype t = mr_dtype_base(mr_out_type(x));
    (void)w;
    if (t == MR_RESOURCE || t == MR_VARIANT) /* the gradient of a variable arrives at its handle */
        return NULL;
    if (mr_dtype_base(mr_out_type(dx)) != t)
        return mr_error(MR_INTERNAL,
                        "The gradient of input %d of %s '%s' has type %s instead of %s", i,
                        n->def->name, n->name, mr_dtype_name(mr_out_type(dx)), mr_dtype_name(t));
    if (!mr_pshape_compatible(mr_out_shape(x), mr_out_shape(dx)))
        return mr_invalid(
            "Incompatible shapes between op input and calculated input gradient. Forward "
            "operation: %s. "
            "Input index: %d. Original input shape: %s. Calculated input gradient shape: %s",
            n->name, i, MR_PSHAPE_TEXT(mr_out_shape(x)), MR_PSHAPE_TEXT(mr_out_shape(dx)));
    /* The known shape of x also holds for its gradient and helps inference. */
    return dx.node->id >= first_new ? mr_out_refine_shape(dx, mr_out_shape(x)) : NULL;
}

static void deliver_gradients(mr_grad *g, int first_new)
{
    mr_backward *w = g->walk;
    mr_node *n = (mr_node *)(uintptr_t)g->node;
    for (int i = 0; i < g->n_in && mr_scope_ok(&w->s); i++) {
        mr_gradient *dx = &g->dx[i];
        if (!mr_is_grad(dx) || !mr_backward_carries(w, mr_out_type(n->in[i])) || !mr_needs_dx(g, i))
            continue; /* unneeded gradients may have been removed already */
        mr_out *parts[] = {&dx->dense, &dx->values, &dx->indices, &dx->dense_shape};
        for (int j = 0; j < MR_COUNT(parts); j++)
            if (parts[j]->node) /* a gradient may be a forward value itself */
                *parts[j] = mr_backward_real(w, w->level, *parts[j]);
        if (dx->dense.node && mr_scope_ok(&w->s))
            mr_scope_fail(&w->s, check_dx(w, n, i, dx->dense, first_new));
        *dx = mr_backward_lift(w, w->level, *dx, mr_cflow_guard(&w->flow, n), n->in[i]);
        mr_backward_add(w, w->level, n->in[i], *dx);
    }
}

static void visit_node(mr_backward *w, mr_node *n)
{
    mr_grad g = {.s = &w->s, .node = n, .n_in = n->n_in, .walk = w};
    mr_out anchor = MR_NO_OUT;
    bool any = false;
    g.dy = mr_arena_array(&w->arena, mr_gradient, n->n_out + 1);
    g.dx = mr_arena_array(&w->arena, mr_gradient, n->n_in + 1);
    for (int i = 0; i < n->n_out; i++) {
        if (!mr_backward_total(w, w->level, (mr_out){n, i}, &g.dy[i]))
            continue;
        if (!any)
            anchor = g.dy[i].dense.node ? g.dy[i].dense : g.dy[i].values;
        any = true;
    }
    for (int i = 0; i < n->n_in; i++)
        g.dx[i] = MR_NO_GRAD;
    if (!any || !mr_scope_ok(&w->s))
        return;
    if (!mr_backward_needs_anchor(w, w->level, mr_cflow_guard(&w->flow, n)))
        anchor = MR_NO_OUT;
    /* TF_AddGradients puts all its nodes into one scope; tf.gradients has one for each op. */
    if (!w->opt->tf_semantics)
        w->s.prefix = mr_arena_printf(&w->graph->arena, "%s/%s_grad", w->prefix, n->name);
    w->s.colocate = w->opt->colocate ? n : NULL;
    int start;
    bool ours = differentiate_node(&g, &start);
    if (ours && mr_scope_ok(&w->s))
        drop_unneeded(&g, start);
    if (mr_scope_ok(&w->s))
        mr_backward_settle(w, start, ours ? NULL : made_by_callback(&g, start), anchor);
    if (mr_scope_ok(&w->s))
        deliver_gradients(&g, w->n_old);
    w->s.prefix = w->prefix;
    w->s.colocate = NULL;
}

void mr_backward_walk(mr_backward *w, mr_level *l)
{
    unit_vec order = {0};
    mr_level *before = w->level;
    w->level = l;
    order_level(w, l, &order);
    for (int i = order.n - 1; i >= 0 && mr_scope_ok(&w->s); i--)
        if (order.p[i].loop)
            mr_backward_loop(w, order.p[i].loop);
        else
            visit_node(w, order.p[i].node);
    w->level = before;
    mr_vec_deinit(&order);
}

/* ---- the whole call ---- */
static mr_status *check_frames(mr_backward *w, const mr_out *ys, int n_y, const mr_out *xs, int n_x,
                               mr_loop_frame **base)
{
    *base = mr_cflow_value_frame(&w->flow, ys[0]);
    for (int i = 1; i < n_y; i++)
        if (mr_cflow_value_frame(&w->flow, ys[i]) != *base)
            return mr_invalid("Cannot compute gradients of '%s' and '%s' together: they are in "
                              "different while loops.",
                              ys[0].node->name, ys[i].node->name);
    for (int i = 0; i < n_x; i++) {
        mr_loop_frame *f = mr_cflow_value_frame(&w->flow, xs[i]), *b = *base;
        while (b && b != f)
            b = b->parent;
        if (!b)
            return mr_invalid("Cannot compute the gradient with respect to '%s', which is inside "
                              "of while loop '%s', "
                              "from outside of it.",
                              xs[i].node->name, f->name);
    }
    return NULL;
}

static mr_status *check_outs(const mr_graph *g, const mr_out *o, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (!o[i].node || o[i].node->graph != g || o[i].index < 0 || o[i].index >= o[i].node->n_out)
            return mr_invalid("%s[%d] is not an output of a node in this graph", what, i);
    return NULL;
}

static mr_status *check_prefix(mr_graph *g, const char *prefix)
{
    if (!mr_graph_name_used(g, mr_sv_of(prefix)))
        return NULL;
    size_t len = strlen(prefix);
    for (int i = 0; i < g->nodes.n; i++) { /* for the message only */
        const mr_node *n = g->nodes.p[i];
        if (n && strncmp(n->name, prefix, len) == 0 && (n->name[len] == 0 || n->name[len] == '/'))
            return mr_invalid("prefix [%s] conflicts with existing node in the graph named [%s]", prefix, n->name);
    }
    return NULL;
}

static mr_out ones_like(mr_backward *w, mr_out y)
{
    const mr_pshape *s = mr_out_shape(y);
    bool plain = !mr_backward_needs_anchor(w, w->base, mr_cflow_value_guard(&w->flow, y));
    mr_dtype t = mr_dtype_base(mr_out_type(y));
    if (w->opt->tf_semantics || !plain || !mr_pshape_full(s) || t == MR_VARIANT) {
        mr_out o = mr_emit(&w->s, "OnesLike", y);
        mr_backward_claim(w, w->base, o.node);
        return o;
    }
    mr_out one = mr_const_num(&w->s, t, 1);
    return s->rank == 0 ? one : mr_emit(&w->s, "Fill", mr_backward_shape(w, w->base, y), one);
}

static void seed_outputs(mr_backward *w, const mr_out *ys, int n_y)
{
    w->level = w->base;
    for (int i = 0; i < n_y && mr_scope_ok(&w->s); i++) {
        mr_dtype t = mr_dtype_base(mr_out_type(ys[i]));
        const mr_gradient *given = w->opt->grad_ys ? &w->opt->grad_ys[i] : NULL;
        bool useful = mr_imap_get(&w->xs, mr_out_key(ys[i])) || mr_backward_between(w, ys[i].node);
        if (!mr_backward_carries(w, t) || !useful)
            continue;
        if (given && given->dense.node && t != MR_RESOURCE &&
            mr_dtype_base(mr_out_type(given->dense)) != t)
            mr_scope_fail(&w->s,
                          mr_invalid("Gradient type %s given for '%s' does not match its type %s",
                                     mr_dtype_name(mr_out_type(given->dense)), ys[i].node->name,
                                     mr_dtype_name(t)));
        else if (given && mr_is_grad(given))
            mr_backward_add(w, w->base, ys[i], *given);
        else
            mr_backward_add(w, w->base, ys[i], mr_dense_grad(ones_like(w, ys[i])));
    }
}

static mr_status *check_reachable(mr_backward *w, const mr_out *ys, int n_y, const mr_out *xs,
                                  int n_x)
{
    mark_reachable(w, ys, n_y, REACHED);
    for (int i = 0; i < n_x; i++)
        if (!(marks_of(w, xs[i].node) & REACHED))
            return mr_invalid(
                "Cannot compute the partial derivative for node '%s' as it's unreachable from the "
                "output node(s).",
                xs[i].node->name);
    return NULL;
}

static void collect_results(mr_backward *w, const mr_out *xs, int n_x, mr_gradient *out)
{
    w->level = w->base;
    for (int i = 0; i < n_x && mr_scope_ok(&w->s); i++) {
        if (!mr_backward_total(w, w->base, xs[i], &out[i]))
            out[i] = MR_NO_GRAD;
        if (mr_is_sparse(&out[i]) && !w->opt->sparse)
            out[i] = mr_dense_grad(mr_backward_dense(w, &out[i]));
    }
}

static mr_status *walk_all(mr_backward *w, const mr_out *ys, int n_y, const mr_out *xs, int n_x,
                           mr_gradient *out)
{
    mr_loop_frame *frame;
    for (int i = 0; i < n_x; i++)
        mr_imap_put(&w->xs, mr_out_key(xs[i]), w);
    for (int i = 0; i < w->opt->n_stop; i++)
        mr_imap_put(&w->stops, mr_out_key(w->opt->stop[i]), w);
    if (w->opt->tf_semantics)
        MR_TRY(check_reachable(w, ys, n_y, xs, n_x));
    mark_between(w, ys, n_y, xs, n_x);
    MR_TRY(refuse_second_derivative(w, xs, n_x));
    for (int i = 0; i < n_y; i++)
        MR_TRY(mr_cflow_visit(&w->flow, ys[i].node));
    MR_TRY(check_frames(w, ys, n_y, xs, n_x, &frame));
    w->base = mr_backward_level(w, NULL, frame);
    w->level = w->base;
    w->base->pivot = mr_backward_body_pivot(w, w->base, ys[0]);
    seed_outputs(w, ys, n_y);
    if (mr_scope_ok(&w->s))
        mr_backward_walk(w, w->base);
    collect_results(w, xs, n_x, out);
    mr_scope_fail(&w->s, mr_status_copy(w->flow.st));
    return mr_scope_status(&w->s);
}

static mr_status *prepare_walk(mr_backward *w, mr_graph *g, const mr_gradient_options *options)
{
    const char *prefix = options->prefix ? options->prefix : "gradients";
    if (options->tf_semantics && options->prefix)
        MR_TRY(check_prefix(g, prefix));
    w->n_old = g->nodes.n;
    mr_scope_init(&w->s, g, prefix);
    w->prefix = w->s.prefix;
    return NULL;
}

/* On an error, nodes that were already added stay in the graph; incomplete loops are made valid first, so that the
 * graph can still be exported. */
mr_status *mr_graph_gradients(mr_graph *g, const mr_out *ys, int n_y, const mr_out *xs, int n_x,
                              const mr_gradient_options *options, mr_gradient *out)
{
    static const mr_gradient_options none;
    mr_backward w = {.graph = g, .opt = options ? options : &none};
    mr_status *st = NULL;
    for (int i = 0; i < n_x; i++)
        out[i] = MR_NO_GRAD;
    MR_TRY(check_outs(g, ys, n_y, "ys"));
    MR_TRY(check_outs(g, xs, n_x, "xs"));
    MR_TRY(check_outs(g, w.opt->stop, w.opt->n_stop, "stop_gradients"));
    if (n_y == 0 || n_x == 0)
        return NULL;
    mr_arena_init(&w.arena, 0);
    mr_cflow_init(&w.flow, g);
    MR_GO(prepare_walk(&w, g, w.opt));
    MR_GO(walk_all(&w, ys, n_y, xs, n_x, out));
out:
    if (st)
        mr_backward_close_loops(&w);
    mr_vec_deinit(&w.merges);
    mr_backward_free_levels(&w);
    mr_imap_deinit(&w.xs);
    mr_imap_deinit(&w.stops);
    mr_scope_deinit(&w.s);
    if (w.opt->n_looked_at)
        *w.opt->n_looked_at = (int)MR_MAX(w.n_edges, (int)MR_MAX(w.marks.n, w.flow.places.n));
    mr_imap_deinit(&w.marks);
    mr_cflow_deinit(&w.flow);
    mr_arena_deinit(&w.arena);
    return st;
}
