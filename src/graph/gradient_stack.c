/* graph/gradient_stack.c -- forward values of a loop, kept for its backward loop.
 *
 * A value that changes from iteration to iteration is pushed on a stack by the forward loop and
 * popped by the backward one.  The last one pushed is the first one needed, so all that matters is
 * order:
 *
 *     forward:   tick(i) -> pushes of iteration i -> pushed(i) -> tick(i+1)      (control edges)
 *     backward:  pivot(j) -> pops of iteration j -> popped(j) -> pivot(j+1)
 *
 * whatever parallel_iterations is; it does not delay the loops' real work. `pushed` and `popped` are ControlTriggers:
 * they run even if a push or pop was dead, on an untaken side of a conditional.
 *
 * A push is live exactly when its value is. So its pop must be live in exactly those iterations: it depends on nodes
 * that are live if the same sides were taken. These nodes are built from the predicates, which are themselves popped
 * from stacks if they are not invariant.
 *
 * The stack is created in the frame around the loop, once for each run of the loop. If that frame is a loop too, the
 * handle is a value like any other and is kept on a stack of the outer loop. */
#include "graph/backward.h"

/* ---- sides of conditionals ---- */
typedef struct selector { /* of conditionals in a loop's body, as seen in the backward loop */
    mr_node *split;       /* the selector switched by itself */
    mr_node **pivots;     /* by side: live if it was taken */
} selector;

static selector *find_selector(mr_backward *w, mr_level *l, mr_out sel, int n_sides)
{
    selector *found = mr_imap_get(&l->sides, mr_out_key(sel));
    if (found)
        return found;
    mr_out v = mr_backward_real(w, l, sel);
    if (!mr_scope_ok(&w->s))
        return NULL;
    bool binary = mr_dtype_base(mr_out_type(v)) == MR_BOOL;
    /* An invariant selector also exists in the last iteration, which is not completed. */
    mr_spec spec = {binary ? "Switch" : "_SwitchN", .in = {v, v}, .after = l->pivot};
    if (!binary)
        spec.attrs[0] = (mr_named_attr){"num_outs", mr_a_int(n_sides)};
    found = mr_arena_new(&w->arena, selector);
    found->split = mr_backward_node(w, spec);
    found->pivots = mr_arena_array(&w->arena, mr_node *, n_sides);
    mr_backward_claim(w, l, found->split);
    mr_imap_put(&l->sides, mr_out_key(sel), found);
    return found;
}

static mr_node *side_pivot(mr_backward *w, mr_level *l, const mr_side *side)
{
    mr_node *node = w->graph->nodes.p[side->node];
    if (side->index < 0) {
        mr_scope_fail(&w->s, mr_error(MR_UNIMPLEMENTED,
                                      "Cannot tell when Merge '%s' in while loop '%s' is live: its "
                                      "inputs are not the sides of one conditional.",
                                      node->name, l->frame->name));
        return NULL;
    }
    selector *sel = find_selector(w, l, (mr_out){node, side->index}, side->n_sides);
    if (!sel || !sel->split || side->side >= side->n_sides || side->side >= sel->split->n_out)
        return NULL;
    if (!sel->pivots[side->side]) {
        sel->pivots[side->side] =
            mr_backward_node(w, (mr_spec){"Identity", .in = {{sel->split, side->side}}});
        mr_backward_claim(w, l, sel->pivots[side->side]);
    }
    return sel->pivots[side->side];
}

void mr_backward_tie(mr_backward *w, mr_level *l, const mr_guard *guard, mr_node *n)
{
    if (!mr_scope_ok(&w->s) || !w->flow.any)
        return;
    if (guard->n < 0) {
        mr_scope_fail(&w->s, mr_error(MR_UNIMPLEMENTED,
                                      "Loops and conditionals around '%s' are nested too deeply to be "
                                      "differentiated.",
                                      n->name));
        return;
    }
    const mr_guard *inner = mr_guard_within(&w->flow, guard, l->frame);
    if (l->pivot && inner->n == 0)
        mr_node_add_control(n, l->pivot);
    for (int i = 0; i < inner->n && mr_scope_ok(&w->s); i++) {
        mr_node *p = side_pivot(w, l, &inner->sides[i]);
        if (p)
            mr_node_add_control(n, p);
    }
}

/* ---- stacks ---- */
static bool goes_on(const mr_guard *g, const mr_node *cond)
{
    for (int i = 0; i < g->n; i++)
        if (g->sides[i].node == cond->id && g->sides[i].side == 1)
            return true;
    return false;
}

mr_node *mr_backward_body_pivot(mr_backward *w, mr_level *l, mr_out y)
{
    mr_node *cond = l->frame->cond;
    if (!cond || !goes_on(mr_cflow_value_guard(&w->flow, y), cond))
        return cond;
    mr_node *split = mr_backward_node(w, (mr_spec){"Switch", .in = {{cond, 0}, {cond, 0}}});
    mr_node *pivot = split ? mr_backward_node(w, (mr_spec){"Identity", .in = {{split, 1}}}) : NULL;
    mr_backward_claim(w, l, split);
    mr_backward_claim(w, l, pivot);
    return pivot;
}

/* The value in completed iterations only. The part of a loop before its Switches runs once more than the body; the
 * backward loop must not see that last value. */
static mr_out in_body(mr_backward *w, mr_level *l, mr_out v)
{
    mr_node *cond = l->frame->cond;
    const mr_guard *guard = mr_cflow_value_guard(&w->flow, v);
    if (goes_on(guard, cond))
        return v;
    for (int i = 0; i < v.node->uses.n; i++) {
        mr_use u = v.node->uses.p[i];
        if (u.input == 0 && u.output == v.index && mr_cflow_is_loop_switch(&w->flow, u.node))
            return (mr_out){u.node, 1};
    }
    mr_node *n = mr_backward_node(w, (mr_spec){"Switch", .in = {v, {cond, 0}}, .colocate = v.node});
    mr_backward_claim_forward(w, n, l->frame,
                              mr_guard_union(&w->flow, guard, mr_cflow_guard(&w->flow, cond)));
    return n ? (mr_out){n, 1} : MR_NO_OUT;
}

/* In the frame around the forward loop. */
static mr_node *new_stack(mr_backward *w, mr_level *l, mr_dtype type, const mr_node *colocate)
{
    mr_loop_frame *frame = l->frame->parent;
    const mr_guard *guard = l->gate ? mr_cflow_guard(&w->flow, l->gate) : w->flow.always;
    mr_out any_size = mr_const_i32(&w->s, -1);
    if (!any_size.node)
        return NULL;
    if (l->gate)
        mr_node_add_control(any_size.node, l->gate);
    mr_backward_claim_forward(w, any_size.node, frame, guard);
    mr_node *n = mr_backward_node(w, (mr_spec){"StackV2", .in = {any_size}, .colocate = colocate,
                                               .attrs = {{"elem_type", mr_a_type(type)}}});
    mr_backward_claim_forward(w, n, frame, guard);
    return n;
}

static mr_out enter_forward(mr_backward *w, mr_level *l, mr_node *stack)
{
    mr_node *n = mr_backward_node(
        w, (mr_spec){"Enter", .in = {{stack, 0}}, .colocate = stack,
                     .attrs = {{"frame_name", mr_a_str(l->frame->name)},
                               {"is_constant", mr_a_bool(true)},
                               {"parallel_iterations", mr_a_int(l->frame->parallel_iterations)}}});
    mr_backward_claim_forward(w, n, l->frame, mr_cflow_guard(&w->flow, stack));
    return n ? (mr_out){n, 0} : MR_NO_OUT;
}

static void push_value(mr_backward *w, mr_level *l, mr_node *stack, mr_out v)
{
    mr_node *n = mr_backward_node(w, (mr_spec){"StackPushV2", .in = {enter_forward(w, l, stack), v},
                                               .after = l->tick, .colocate = stack});
    mr_backward_claim_forward(w, n, l->frame, mr_cflow_value_guard(&w->flow, v));
    if (n)
        mr_node_add_control(l->pushed, n);
}

static mr_out pop_value(mr_backward *w, mr_level *l, mr_node *stack, mr_out v)
{
    mr_out handle =
        mr_backward_enter(w, l, mr_backward_real(w, l->outer, (mr_out){stack, 0}), true);
    mr_node *n = mr_backward_node(
        w, (mr_spec){"StackPopV2", .in = {handle}, .colocate = stack,
                     .attrs = {{"elem_type", mr_a_type(mr_dtype_base(mr_out_type(v)))}}});
    mr_backward_claim(w, l, n);
    if (!n)
        return MR_NO_OUT;
    mr_backward_tie(w, l, mr_cflow_value_guard(&w->flow, v), n);
    mr_node_add_control(l->popped, n);
    mr_scope_fail(&w->s, mr_out_refine_shape((mr_out){n, 0}, mr_out_shape(v)));
    return (mr_out){n, 0};
}

mr_out mr_backward_stash(mr_backward *w, mr_level *l, mr_out v)
{
    const char *prefix = w->s.prefix;
    w->s.prefix = mr_arena_printf(&w->graph->arena, "%s/%s", w->prefix, "kept");
    mr_out in = in_body(w, l, v);
    mr_node *stack = in.node ? new_stack(w, l, mr_dtype_base(mr_out_type(v)), v.node) : NULL;
    mr_out o = MR_NO_OUT;
    if (stack) {
        push_value(w, l, stack, in);
        o = mr_scope_ok(&w->s) ? pop_value(w, l, stack, in) : MR_NO_OUT;
    }
    w->s.prefix = prefix;
    return o;
}
