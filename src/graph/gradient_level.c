/* graph/gradient_level.c -- values and nodes at the right level of a backward walk.
 *
 * An op's gradient is written as if forward values were available. At the base level they are. A backward loop runs
 * after the forward loop has ended, so each forward value used by the nodes that an op's gradient emitted is replaced
 * by its value at that level:
 *
 *     a constant                 the same constant
 *     an invariant of the loop   the real value of what was invariant, by a constant Enter
 *     anything else              kept on a stack by the forward loop (gradient_stack.c)
 *
 * Shapes are needed often and are small: the Shape of a forward value is computed in the forward loop, and only its
 * result is kept. */
#include "graph/backward.h"
#include "graph/infer.h"

enum { MAX_CONST_BYTES = 1024 }; /* larger constants are not duplicated in the graph */

/* ---- where nodes belong ---- */
/* The level of a node; NULL: not assigned. Forward nodes, old and new, are at &w->forward. */
static const mr_level *level_of(const mr_backward *w, const mr_node *n)
{
    int i = n->id - w->n_old;
    if (i < 0)
        return &w->forward;
    return i < w->node_level.n ? w->node_level.p[i] : NULL;
}

void mr_backward_claim(mr_backward *w, mr_level *l, const mr_node *n)
{
    if (!n)
        return;
    while (w->node_level.n <= n->id - w->n_old)
        mr_vec_push(&w->node_level, NULL);
    w->node_level.p[n->id - w->n_old] = l;
}

bool mr_backward_is_claimed(const mr_backward *w, const mr_node *n)
{
    return level_of(w, n) != NULL;
}

void mr_backward_claim_forward(mr_backward *w, const mr_node *n, mr_loop_frame *frame,
                               const mr_guard *guard)
{
    if (!n)
        return;
    mr_backward_claim(w, &w->forward, n);
    mr_cflow_set(&w->flow, n, frame, guard);
}

bool mr_backward_needs_anchor(mr_backward *w, const mr_level *l, const mr_guard *guard)
{
    return w->flow.any && (l->outer || l->frame != mr_cflow_root(&w->flow) || guard->n != 0);
}

mr_node *mr_backward_node(mr_backward *w, mr_spec spec)
{
    mr_node *n = NULL;
    if (!mr_scope_ok(&w->s))
        return NULL;
    char *base = mr_printf("%s/%s", w->s.prefix, spec.op[0] == '_' ? spec.op + 1 : spec.op);
    mr_node_builder *b = mr_node_begin(w->graph, spec.op, mr_graph_unique_name(w->graph, base));
    mr_free(base);
    for (int i = 0; i < MR_COUNT(spec.in) && spec.in[i].node; i++) {
        if (spec.later) /* of a Merge's list */
            mr_nb_input_list(b, &spec.in[i], 1);
        else
            mr_nb_input(b, spec.in[i]);
    }
    if (spec.later)
        mr_nb_input_later(b, spec.later);
    for (int i = 0; i < MR_COUNT(spec.attrs) && spec.attrs[i].name; i++)
        mr_nb_attr(b, spec.attrs[i].name, spec.attrs[i].v);
    if (spec.after)
        mr_nb_control(b, spec.after);
    if (w->s.device && w->s.device[0])
        mr_nb_device(b, w->s.device);
    if (spec.colocate)
        mr_nb_colocate(b, spec.colocate);
    if (spec.op[0] == '_')
        mr_nb_internal(b);
    mr_scope_fail(&w->s, mr_node_finish(b, &n));
    return mr_scope_ok(&w->s) ? n : NULL;
}

/* ---- real values ---- */
/* The base level may be inside of a loop (gradients requested in a loop's body). Values from outside enter it like the
 * loop's other invariants. */
static mr_out real_at_base(mr_backward *w, mr_loop_frame *frame, mr_out v)
{
    mr_loop_frame *from = mr_cflow_value_frame(&w->flow, v);
    if (from == frame || from->depth >= frame->depth)
        return v;
    mr_out in = real_at_base(w, frame->parent, v);
    mr_node *enter = mr_backward_node(
        w, (mr_spec){"Enter", .in = {in},
                     .attrs = {{"frame_name", mr_a_str(frame->name)},
                               {"is_constant", mr_a_bool(true)},
                               {"parallel_iterations", mr_a_int(frame->parallel_iterations)}}});
    mr_backward_claim_forward(w, enter, frame, mr_cflow_value_guard(&w->flow, in));
    return enter ? (mr_out){enter, 0} : MR_NO_OUT;
}

/* Skips nodes that only pass a value on: Identity and the loop's Switch. */
static mr_out loop_origin(const mr_backward *w, mr_out v)
{
    for (;;) {
        if (mr_node_is(v.node, "Identity"))
            v = v.node->in[0];
        else if (v.index == 1 && mr_cflow_is_loop_switch(&w->flow, v.node))
            v = v.node->in[0];
        else
            return v;
    }
}

/* The Enter through which a value entered the loop unchanged; NULL if it may have changed. */
static const mr_node *invariant_enter(const mr_backward *w, mr_out v)
{
    const mr_node *n = v.node;
    if (mr_node_is_enter(n)) {
        const mr_attr *a = mr_node_attr(n, "is_constant");
        return a && a->kind == MR_ATTR_BOOL && a->b ? n : NULL;
    }
    if (!mr_node_is_merge(n) || v.index != 0 || !mr_cflow_back_edge(n))
        return NULL;
    const mr_loop_frame *f = mr_cflow_frame(&w->flow, n);
    for (int i = 0; i < f->vars.n; i++) {
        const mr_loop_var *var = &f->vars.p[i];
        if (var->merge == n && var->enter && mr_out_eq(loop_origin(w, var->next->in[0]), v))
            return var->enter;
    }
    return NULL;
}

bool mr_backward_is_invariant(const mr_backward *w, mr_out v)
{
    return invariant_enter(w, v) != NULL;
}

/* A small value known without running anything, as a constant of the level. */
static mr_out known_value(mr_backward *w, mr_level *l, mr_out v)
{
    mr_tensor *t = NULL;
    if (mr_dtype_is_ref(mr_out_type(v)))
        return MR_NO_OUT;
    mr_scope_fail(&w->s, mr_out_value(v, &t));
    if (!t || mr_tensor_bytes(t) > MAX_CONST_BYTES) {
        mr_tensor_unref(t);
        return MR_NO_OUT;
    }
    mr_out o = mr_const(&w->s, t);
    mr_backward_claim(w, l, o.node);
    if (o.node)
        mr_backward_tie(w, l, mr_cflow_value_guard(&w->flow, v), o.node);
    return o;
}

static mr_out find_real(mr_backward *w, mr_level *l, mr_out v)
{
    const mr_node *enter = invariant_enter(w, v);
    if (enter)
        return mr_backward_enter(w, l, mr_backward_real(w, l->outer, enter->in[0]), true);
    mr_out o = known_value(w, l, v);
    return o.node ? o : mr_backward_stash(w, l, v);
}

mr_out mr_backward_real(mr_backward *w, mr_level *l, mr_out v)
{
    if (!mr_scope_ok(&w->s))
        return MR_NO_OUT;
    if (!w->flow.any || level_of(w, v.node) == l)
        return v;
    if (!l->outer)
        return real_at_base(w, l->frame, v);
    v = loop_origin(w, v);
    mr_out *hit = mr_imap_get(&l->real, mr_out_key(v));
    if (hit)
        return *hit;
    mr_out o = find_real(w, l, v);
    if (!mr_scope_ok(&w->s))
        return MR_NO_OUT;
    hit = mr_arena_new(&w->arena, mr_out);
    *hit = o;
    mr_imap_put(&l->real, mr_out_key(v), hit);
    return o;
}

/* ---- fitting emitted nodes in ---- */
/* Whether an op is worth computing in the forward loop, if its inputs are available there: its result is small. */
static bool tells_of_shapes(const mr_node *n)
{
    static const char *const ops[] = {"Shape", "ShapeN",        "Size",
                                      "Rank",  "VariableShape", "BroadcastGradientArgs"};
    for (int i = 0; i < MR_COUNT(ops); i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}

/* Moves such a node to the forward loop. Another Shape of the same value is shared. */
static bool hoist_node(mr_backward *w, mr_level *l, mr_node *n)
{
    const mr_guard *guard = w->flow.always;
    if (!l->outer || n->n_in == 0 || n->n_ctrl > 0 || !tells_of_shapes(n))
        return false;
    bool changes = false; /* the shape of an invariant can be computed here as well */
    for (int i = 0; i < n->n_in; i++) {
        if (level_of(w, n->in[i].node) == l)
            return false;
        changes = changes || !mr_backward_is_invariant(w, loop_origin(w, n->in[i]));
        guard = mr_guard_union(&w->flow, guard, mr_cflow_value_guard(&w->flow, n->in[i]));
    }
    if (!changes)
        return false;
    mr_backward_claim_forward(w, n, l->frame, guard);
    if (!mr_node_is(n, "Shape") || n->out_types[0] != MR_INT32)
        return true;
    mr_node *same = mr_imap_get(&l->shapes, mr_out_key(n->in[0]));
    if (!same)
        mr_imap_put(&l->shapes, mr_out_key(n->in[0]), n);
    else if (same != n) {
        mr_out *alias = mr_arena_new(&w->arena, mr_out);
        *alias = mr_backward_real(w, l, (mr_out){same, 0});
        if (alias->node)
            mr_imap_put(&l->real, mr_out_key((mr_out){n, 0}), alias);
    }
    return true;
}

/* Control edges of a Switch are live on both sides, so it cannot be an anchor itself. */
static mr_node *anchor_node(mr_backward *w, mr_out o)
{
    if (!mr_node_is_switch(o.node))
        return o.node;
    mr_node *n = mr_backward_node(w, (mr_spec){"Identity", .in = {o}});
    mr_backward_claim(w, w->level, n);
    return n;
}

static void fit_node(mr_backward *w, mr_node *n)
{
    for (int i = 0; i < n->n_in && mr_scope_ok(&w->s); i++) {
        mr_out real = mr_backward_real(w, w->level, n->in[i]);
        if (mr_scope_ok(&w->s) && !mr_out_eq(real, n->in[i]))
            mr_scope_fail(&w->s, mr_node_set_input(n, i, real));
    }
}

void mr_backward_settle(mr_backward *w, int start, const bool *made, mr_out anchor)
{
    int end = w->graph->nodes.n;
    mr_node *tie = NULL;
    if (!w->flow.any)
        return;
    MR_VEC(mr_node *) todo = {0}; /* nodes that were built by hand already have a level */
    for (int i = start; i < end; i++)
        if ((!made || made[i - start]) && !level_of(w, w->graph->nodes.p[i]))
            mr_vec_push(&todo, w->graph->nodes.p[i]);
    for (int i = 0; i < todo.n; i++)
        mr_backward_claim(w, w->level, todo.p[i]);
    for (int i = 0; i < todo.n && mr_scope_ok(&w->s); i++) {
        mr_node *n = todo.p[i];
        if (hoist_node(w, w->level, n))
            continue;
        fit_node(w, n);
        if (n->n_in > 0 || n->n_ctrl > 0 || !anchor.node)
            continue;
        tie = tie ? tie : anchor_node(w, anchor);
        if (tie)
            mr_node_add_control(n, tie);
    }
    mr_vec_deinit(&todo);
}

/* ---- shapes and zeros ---- */
/* The shape of a value, or of the variable that a handle refers to. */
static const mr_pshape *static_shape(mr_out v)
{
    if (mr_dtype_base(mr_out_type(v)) != MR_RESOURCE)
        return mr_out_shape(v);
    const mr_handle_info *h = v.node->out_handles ? v.node->out_handles[v.index] : NULL;
    return h && h->n == 1 ? h->parts[0].shape : &mr_pshape_unknown;
}

static bool int32_dims(const mr_pshape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] > INT32_MAX)
            return false;
    return mr_pshape_full(s);
}

static mr_out const_shape(mr_backward *w, mr_level *l, const mr_pshape *s)
{
    int32_t dims[MR_MAX_RANK];
    for (int i = 0; i < s->rank; i++)
        dims[i] = (int32_t)s->dims[i];
    mr_out o = mr_const_vec_i32(&w->s, s->rank, dims);
    mr_backward_claim(w, l, o.node);
    return o;
}

static const char *shape_op(mr_out v)
{
    return mr_dtype_base(mr_out_type(v)) == MR_RESOURCE ? "VariableShape" : "Shape";
}

/* A Shape node in the frame of a forward value. */
static mr_out forward_shape(mr_backward *w, mr_level *l, mr_out v)
{
    bool handle = mr_dtype_base(mr_out_type(v)) == MR_RESOURCE;
    mr_node *n = handle ? NULL : mr_imap_get(&l->shapes, mr_out_key(v));
    if (n)
        return (mr_out){n, 0};
    n = mr_backward_node(w, (mr_spec){shape_op(v), .in = {v}, .colocate = v.node});
    mr_backward_claim_forward(w, n, mr_cflow_value_frame(&w->flow, v),
                              mr_cflow_value_guard(&w->flow, v));
    if (n && !handle)
        mr_imap_put(&l->shapes, mr_out_key(v), n);
    return n ? (mr_out){n, 0} : MR_NO_OUT;
}

static mr_out shape_at(mr_backward *w, mr_level *l, mr_out v, const mr_guard *guard)
{
    const mr_pshape *s = static_shape(v);
    mr_out o;
    if (!int32_dims(s) && l->outer && mr_backward_is_invariant(w, loop_origin(w, v))) {
        o = mr_emit(&w->s, shape_op(v), mr_backward_real(w, l, v));
        mr_backward_claim(w, l, o.node);
        return o;
    }
    if (!int32_dims(s)) {
        o = forward_shape(w, l, v);
        return o.node ? mr_backward_real(w, l, o) : o;
    }
    o = const_shape(w, l, s);
    if (o.node && mr_backward_needs_anchor(w, l, guard))
        mr_backward_tie(w, l, guard, o.node);
    return o;
}

mr_out mr_backward_shape(mr_backward *w, mr_level *l, mr_out v)
{
    return mr_scope_ok(&w->s) ? shape_at(w, l, v, mr_cflow_value_guard(&w->flow, v)) : MR_NO_OUT;
}

mr_out mr_backward_zeros(mr_backward *w, mr_level *l, mr_out v, mr_dtype type)
{
    const mr_guard *guard = mr_cflow_value_guard(&w->flow, v);
    bool tied = mr_backward_needs_anchor(w, l, guard), same = mr_dtype_base(mr_out_type(v)) == type;
    if (!mr_scope_ok(&w->s))
        return MR_NO_OUT;
    if (same && (type == MR_VARIANT || (!l->outer && (tied || !int32_dims(mr_out_shape(v)))))) {
        mr_out o = mr_emit(&w->s, "ZerosLike", mr_backward_real(w, l, v));
        mr_backward_claim(w, l, o.node);
        return o;
    }
    /* The shape on one side of a Switch is that of its data, which is live in any case. */
    mr_out from = mr_node_is_switch(v.node) ? v.node->in[0] : v;
    mr_out shape = shape_at(w, l, from, guard), zero = mr_const_num(&w->s, type, 0);
    mr_out o = mr_emit(&w->s, "Fill", shape, zero);
    mr_backward_claim(w, l, zero.node);
    mr_backward_claim(w, l, o.node);
    if (o.node && tied) {
        mr_backward_tie(w, l, guard, zero.node);
        if (!mr_out_eq(from, v))
            mr_backward_tie(w, l, guard, o.node);
    }
    return o;
}
