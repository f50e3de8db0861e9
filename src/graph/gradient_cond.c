/* graph/gradient_cond.c -- the gradient of a conditional: Switch and Merge change places.
 *
 * Forward, Switch sends a value to one side and Merge takes the value of the side that was taken. Backward, a Switch
 * sends the gradient of a Merge to the side that was taken, and a Merge passes the gradient of that side to the
 * Switch's input. If no gradient flows through a side, it must still produce zeros if it was taken.
 *
 * A value may also be used on one side directly, without a Switch. Its gradient is live only if that side was taken, so
 * it is merged with zeros of the other sides (mr_backward_lift).
 *
 * The Switch needs to know which side was taken: from the predicate of the conditional if all its sides meet in the
 * Merge, otherwise from the Merge's second output, the number of the input. */
#include "graph/backward.h"

/* ---- values used on one side without a Switch ---- */
static bool names_side(const mr_guard *g, const mr_side *s)
{
    for (int i = 0; i < g->n; i++)
        if (memcmp(&g->sides[i], s, sizeof(*s)) == 0)
            return true;
    return false;
}

/* The innermost of the sides that `from` needs and `to` does not: the one nested most deeply. */
static const mr_side *innermost_side(mr_backward *w, const mr_guard *from, const mr_guard *to)
{
    const mr_side *found = NULL;
    int depth = -1;
    for (int i = 0; i < from->n; i++) {
        const mr_side *s = &from->sides[i];
        mr_out sel = {w->graph->nodes.p[s->node], MR_MAX(s->index, 0)};
        int under = mr_cflow_value_guard(&w->flow, sel)->n;
        if (!names_side(to, s) && under > depth) {
            found = s;
            depth = under;
        }
    }
    return found;
}

/* Zeros like v that are live if side `other` of a selector was taken. */
static mr_out zeros_on(mr_backward *w, mr_level *l, mr_out v, mr_dtype type, const mr_guard *guard,
                       const mr_side *other)
{
    mr_out o = mr_emit(&w->s, "Identity", mr_backward_zeros(w, l, v, type));
    mr_backward_claim(w, l, o.node);
    if (o.node)
        mr_backward_tie(w, l, mr_guard_add(&w->flow, guard, *other), o.node);
    return o;
}

mr_gradient mr_backward_lift(mr_backward *w, mr_level *l, mr_gradient g, const mr_guard *guard,
                             mr_out v)
{
    if (!w->flow.any || !mr_scope_ok(&w->s))
        return g;
    const mr_guard *from = mr_guard_within(&w->flow, guard, l->frame);
    const mr_guard *to = mr_guard_within(&w->flow, mr_cflow_value_guard(&w->flow, v), l->frame);
    const mr_side *s;
    while (from->n > 0 && to->n >= 0 && mr_scope_ok(&w->s) && (s = innermost_side(w, from, to))) {
        mr_out *in = mr_arena_array(&w->arena, mr_out, s->n_sides), d = mr_backward_dense(w, &g);
        from = mr_guard_remove(&w->flow, from, *s);
        for (int i = 0; i < s->n_sides && mr_scope_ok(&w->s); i++) {
            mr_side other = {s->node, s->index, i, s->n_sides};
            in[i] =
                i == s->side ? d : zeros_on(w, l, v, mr_dtype_base(mr_out_type(d)), from, &other);
        }
        if (!mr_scope_ok(&w->s))
            break;
        g = mr_dense_grad(mr_emit_n(&w->s, "Merge", NULL, 0, in, s->n_sides));
        mr_backward_claim(w, l, g.dense.node);
    }
    return g;
}

/* ---- Switch ---- */
static mr_out merge_sides(mr_grad *g, const mr_out *in, int n)
{
    mr_out o = mr_emit_n(g->s, "Merge", NULL, 0, in, n);
    mr_backward_claim(g->walk, g->walk->level, o.node);
    return o;
}

static mr_gradient merge_rows(mr_grad *g, int n)
{
    mr_out *in = mr_arena_array(&g->walk->arena, mr_out, n);
    mr_gradient out = MR_NO_GRAD;
    for (int i = 0; i < n; i++)
        in[i] = g->dy[i].values;
    out.values = merge_sides(g, in, n);
    for (int i = 0; i < n; i++)
        in[i] = g->dy[i].indices;
    out.indices = merge_sides(g, in, n);
    for (int i = 0; i < n; i++)
        in[i] = g->dy[i].dense_shape;
    out.dense_shape = merge_sides(g, in, n);
    return out;
}

static mr_dtype arrived_type(mr_grad *g)
{
    for (int i = 0; i < g->node->n_out; i++)
        if (mr_is_grad(&g->dy[i]))
            return mr_dtype_base(
                mr_out_type(g->dy[i].dense.node ? g->dy[i].dense : g->dy[i].values));
    return MR_INVALID;
}

static bool all_rows(const mr_grad *g, int n)
{
    for (int i = 0; i < n; i++)
        if (!mr_is_sparse(&g->dy[i]) ||
            mr_out_type(g->dy[i].indices) != mr_out_type(g->dy[0].indices))
            return false;
    return true;
}

void mr_backward_switch(mr_grad *g)
{
    mr_backward *w = g->walk;
    mr_node *n = (mr_node *)(uintptr_t)g->node;
    if (mr_cflow_is_loop_switch(&w->flow, n)) { /* inside an iteration, the loop always continues */
        g->dx[0] = g->dy[1];
        return;
    }
    if (all_rows(g, n->n_out)) {
        g->dx[0] = merge_rows(g, n->n_out);
        return;
    }
    mr_out *in = mr_arena_array(&w->arena, mr_out, n->n_out);
    for (int i = 0; i < n->n_out && mr_scope_ok(g->s); i++)
        in[i] = mr_is_grad(&g->dy[i])
                    ? mr_backward_dense(w, &g->dy[i])
                    : mr_backward_zeros(w, w->level, (mr_out){n, i}, arrived_type(g));
    if (mr_scope_ok(g->s))
        g->dx[0] = mr_dense_grad(merge_sides(g, in, n->n_out));
}

/* ---- Merge ---- */
typedef struct chooser { /* how to send a value to the input of a Merge that was taken */
    mr_out sel;          /* at the current level */
    const int *sides;    /* by input; NULL: sel is the number of the input */
    int n;
} chooser;

/* Sends v to one of n places. */
static mr_out send_to(mr_grad *g, const chooser *c, mr_out v, int input)
{
    mr_backward *w = g->walk;
    if (c->sides && mr_dtype_base(mr_out_type(c->sel)) == MR_BOOL)
        return mr_nth(mr_emit(g->s, "Switch", v, c->sel), c->sides[input]);
    if (c->sides) {
        mr_node *n = mr_backward_node(
            w, (mr_spec){"_SwitchN", .in = {v, c->sel}, .attrs = {{"num_outs", mr_a_int(c->n)}}});
        return n ? (mr_out){n, c->sides[input]} : MR_NO_OUT;
    }
    mr_out taken = mr_emit(g->s, "Equal", c->sel, mr_const_i32(g->s, input));
    return mr_nth(mr_emit(g->s, "Switch", v, taken), 1);
}

static mr_gradient send_gradient(mr_grad *g, const chooser *c, int input)
{
    const mr_gradient *dy = &g->dy[0];
    if (!mr_is_sparse(dy))
        return mr_dense_grad(send_to(g, c, dy->dense, input));
    return (mr_gradient){MR_NO_OUT, send_to(g, c, dy->values, input),
                         send_to(g, c, dy->indices, input), send_to(g, c, dy->dense_shape, input)};
}

void mr_backward_merge(mr_grad *g)
{
    mr_backward *w = g->walk;
    mr_node *n = (mr_node *)(uintptr_t)g->node;
    int *sides = mr_arena_array(&w->arena, int, n->n_in);
    chooser c = {.n = n->n_in, .sides = sides};
    if (!mr_cflow_merge_selector(&w->flow, n, &c.sel, sides)) {
        c.sel = (mr_out){n, 1};
        c.sides = NULL;
    }
    c.sel = mr_backward_real(w, w->level, c.sel);
    bool binary = c.sides && mr_scope_ok(g->s) && mr_dtype_base(mr_out_type(c.sel)) == MR_BOOL;
    mr_gradient both = binary ? send_gradient(g, &c, 0) : MR_NO_GRAD;
    for (int i = 0; i < n->n_in && mr_scope_ok(g->s); i++) {
        if (!mr_needs_dx(g, i))
            continue;
        g->dx[i] = binary ? both : send_gradient(g, &c, i);
        if (!binary)
            continue;
        mr_out *parts[] = {&g->dx[i].dense, &g->dx[i].values, &g->dx[i].indices,
                           &g->dx[i].dense_shape};
        for (int j = 0; j < MR_COUNT(parts); j++) /* the one Switch serves both inputs */
            *parts[j] = mr_nth(*parts[j], sides[i]);
    }
}
