/* graph/gradient_loops.c -- the gradient of a while loop is a loop that runs backwards.
 *
 * Forward, a loop computes its variables s(i+1) from s(i) until its condition is false, after N iterations:
 *
 *     Enter -> Merge -> Switch -(go on)-> body -> NextIteration -> Merge
 *                         `-(done)-> Exit
 *
 * The backward loop has a variable d for each variable s that a gradient flows through. It starts with the gradient of
 * the Exit, or zeros, and goes N times from d(i+1) to d(i): the gradient of the body, by the ordinary walk at a
 * separate level, from the inputs of NextIteration to the outputs of Merge. Its result is the gradient of the Enter. A
 * loop invariant is used by every iteration, so its gradient is the sum over all: a variable that starts with zeros.
 *
 *     forward                          backward
 *     Exit                 ->          Enter -> Merge -> Switch -> gradient of the body
 *     NextIteration, Merge ->            NextIteration -> Merge
 *     Enter                ->            Exit
 *
 * N is counted by a variable added to the forward loop.  Nothing else is added there but pushes
 * (gradient_stack.c), and no existing node is changed. */
#include "graph/backward.h"
#include "graph/draft.h"

/* ---- building blocks of the backward loop ---- */
static mr_node *add_enter(mr_backward *w, const mr_loop_frame *f, const char *name, mr_out v, bool constant)
{
    return mr_backward_node(
        w, (mr_spec){"Enter", .in = {v},
                     .attrs = {{"frame_name", mr_a_str(name)},
                               {"is_constant", mr_a_bool(constant)},
                               {"parallel_iterations", mr_a_int(f->parallel_iterations)}}});
}

mr_out mr_backward_enter(mr_backward *w, mr_level *l, mr_out v, bool constant)
{
    mr_node *n = mr_scope_ok(&w->s) ? add_enter(w, l->frame, l->name, v, constant) : NULL;
    mr_backward_claim(w, l, n);
    return n ? (mr_out){n, 0} : MR_NO_OUT;
}

/* Nodes are not checked individually: after an error no node is created, and all are NULL. */
static mr_out output_of(mr_node *n, int i) { return (mr_out){n, i}; }

static mr_node *add_unary(mr_backward *w, const char *op, mr_out x)
{
    return mr_backward_node(w, (mr_spec){op, .in = {x}});
}

static mr_node *add_binary(mr_backward *w, const char *op, mr_out x, mr_out y)
{
    return mr_backward_node(w, (mr_spec){op, .in = {x, y}});
}

/* Merge(v, <set later>). */
static mr_node *open_merge(mr_backward *w, mr_out v)
{
    if (!mr_scope_ok(&w->s))
        return NULL;
    int type = mr_dtype_base(mr_out_type(v));
    mr_node *n = mr_backward_node(w, (mr_spec){"Merge", .in = {v}, .later = type,
                                               .attrs = {{"N", mr_a_int(2)}, {"T", mr_a_type(type)}}});
    if (n)
        mr_vec_push(&w->merges, n);
    return n;
}

/* The nodes stay, because a client's callback may use them. But a graph with an unconnected input could not be
 * exported. */
void mr_backward_close_loops(mr_backward *w)
{
    for (int i = 0; i < w->merges.n; i++)
        if (!w->merges.p[i]->in[1].node)
            mr_node_link(w->merges.p[i], 1, w->merges.p[i]->in[0]);
}

typedef struct back_var { /* a variable of the backward loop */
    mr_node *merge, *split;
    mr_out value; /* in the body */
} back_var;

static back_var open_var(mr_backward *w, mr_level *l, mr_out init)
{
    back_var v = {0};
    v.merge = open_merge(w, mr_backward_enter(w, l, init, false));
    v.split = add_binary(w, "Switch", output_of(v.merge, 0), output_of(l->cond, 0));
    /* other nodes attach control edges to it */
    v.value = output_of(add_unary(w, "Identity", output_of(v.split, 1)), 0);
    mr_backward_claim(w, l, v.merge);
    mr_backward_claim(w, l, v.split);
    mr_backward_claim(w, l, v.value.node);
    return v;
}

/* Closes the loop of a variable; the result is at the outer level. */
static mr_out close_var(mr_backward *w, mr_level *l, back_var *v, mr_out next_value,
                        const mr_pshape *shape)
{
    mr_node *next = add_unary(w, "NextIteration", next_value), *out = add_unary(w, "Exit", output_of(v->split, 0));
    if (!mr_scope_ok(&w->s))
        return MR_NO_OUT;
    mr_backward_claim(w, l, next);
    mr_backward_claim(w, l->outer, out);
    mr_scope_fail(&w->s, mr_node_set_input(v->merge, 1, output_of(next, 0)));
    if (shape && mr_scope_ok(&w->s))
        mr_scope_fail(&w->s, mr_out_refine_shape(output_of(out, 0), shape));
    return output_of(out, 0);
}

static mr_out int_const(mr_backward *w, int32_t v, mr_node *after)
{
    mr_out o = mr_const_i32(&w->s, v);
    if (o.node && after)
        mr_node_add_control(o.node, after);
    return o;
}

/* ---- counting ---- */
/* Sets l->gate: a node in the frame around the loop that is live if the loop runs. Needed only if the loop does not
 * always run: constants that we add there must not run in another frame, or if nobody waits for them. */
static void make_gate(mr_backward *w, mr_level *l)
{
    mr_loop_frame *f = l->frame;
    mr_out from = MR_NO_OUT;
    for (int i = 0; i < f->vars.n && !from.node; i++)
        if (f->vars.p[i].enter)
            from = f->vars.p[i].enter->in[0];
    if (!from.node ||
        (f->parent == mr_cflow_root(&w->flow) && mr_cflow_value_guard(&w->flow, from)->n == 0))
        return;
    l->gate = mr_backward_node(w, (mr_spec){"Identity", .in = {from}, .colocate = from.node});
    mr_backward_claim_forward(w, l->gate, f->parent, mr_cflow_value_guard(&w->flow, from));
}

/* The guard of values that leave the loop. */
static const mr_guard *guard_outside(mr_backward *w, const mr_level *l)
{
    return mr_guard_outside(&w->flow, mr_cflow_guard(&w->flow, l->frame->cond), l->frame);
}

/* A variable of the forward loop that counts its iterations. */
static void count_forward(mr_backward *w, mr_level *l)
{
    mr_loop_frame *f = l->frame;
    mr_out zero = int_const(w, 0, l->gate);
    mr_node *in = add_enter(w, f, f->name, zero, false), *merge = open_merge(w, output_of(in, 0));
    mr_node *split = add_binary(w, "Switch", output_of(merge, 0), output_of(f->cond, 0));
    mr_out one = int_const(w, 1, merge);
    mr_node *tick = add_binary(w, "Add", output_of(split, 1), one);
    mr_node *pushed = mr_backward_node(w, (mr_spec){"ControlTrigger", .after = tick});
    mr_node *next =
        mr_backward_node(w, (mr_spec){"NextIteration", .in = {output_of(tick, 0)}, .after = pushed});
    mr_node *out = add_unary(w, "Exit", output_of(split, 0));
    if (!mr_scope_ok(&w->s))
        return;
    mr_scope_fail(&w->s, mr_node_set_input(merge, 1, output_of(next, 0)));
    mr_backward_claim_forward(w, zero.node, f->parent,
                              l->gate ? mr_cflow_guard(&w->flow, l->gate) : w->flow.always);
    mr_node *inside[] = {in, merge, split, one.node, tick, pushed, next};
    for (int i = 0; i < MR_COUNT(inside); i++)
        mr_backward_claim_forward(w, inside[i], f, mr_cflow_guard(&w->flow, f->cond));
    mr_backward_claim_forward(w, out, f, guard_outside(w, l));
    l->tick = tick;
    l->pushed = pushed;
    l->count = output_of(out, 0);
}

/* The backward loop's own variable: iterations still to do. */
static void count_backward(mr_backward *w, mr_level *l)
{
    mr_node *merge = open_merge(w, mr_backward_enter(w, l, l->start, false));
    mr_out one = int_const(w, 1, merge);
    mr_node *more = add_binary(w, "GreaterEqual", output_of(merge, 0), one);
    mr_node *cond = add_unary(w, "LoopCond", output_of(more, 0));
    mr_node *split = add_binary(w, "Switch", output_of(merge, 0), output_of(cond, 0));
    mr_node *pivot = add_unary(w, "Identity", output_of(split, 1)),
            *less = add_binary(w, "Sub", output_of(pivot, 0), one);
    mr_node *popped = mr_backward_node(w, (mr_spec){"ControlTrigger", .after = pivot});
    mr_node *next =
        mr_backward_node(w, (mr_spec){"NextIteration", .in = {output_of(less, 0)}, .after = popped});
    if (!mr_scope_ok(&w->s))
        return;
    mr_scope_fail(&w->s, mr_node_set_input(merge, 1, output_of(next, 0)));
    mr_node *inside[] = {merge, one.node, more, cond, split, pivot, less, popped, next};
    for (int i = 0; i < MR_COUNT(inside); i++)
        mr_backward_claim(w, l, inside[i]);
    l->cond = cond;
    l->pivot = pivot;
    l->popped = popped;
}

static mr_level *open_level(mr_backward *w, mr_loop_frame *f)
{
    mr_level *l = mr_backward_level(w, w->level, f);
    l->name = mr_arena_printf(&w->graph->arena, "%s/frame_%d", w->prefix, f->id);
    make_gate(w, l);
    count_forward(w, l);
    if (mr_scope_ok(&w->s))
        l->start = mr_backward_real(w, l->outer, l->count);
    if (mr_scope_ok(&w->s))
        count_backward(w, l);
    return l;
}

/* ---- loop variables ---- */
typedef struct state { /* a forward loop variable during the backward walk */
    const mr_loop_var *var;
    mr_node *exit;    /* an Exit with its last value; NULL if nobody uses it */
    mr_gradient last; /* gradient of that */
    bool flows, invariant;
    back_var back;
} state;

static state *find_state(state *states, int n, const mr_node *merge)
{
    for (int i = 0; i < n; i++)
        if (states[i].var->merge == merge)
            return &states[i];
    return NULL;
}

/* The variable whose last value is the output of an Exit: Exit(Switch(Merge, LoopCond):0). */
static state *exit_state(mr_backward *w, state *states, int n, const mr_node *exit)
{
    mr_out v = exit->in[0];
    if (v.node && v.index == 0 && mr_cflow_is_loop_switch(&w->flow, v.node))
        return find_state(states, n, mr_cflow_origin(v.node->in[0]).node);
    return NULL;
}

static void collect_exits(mr_backward *w, mr_loop_frame *f, state *states, int n)
{
    for (int i = 0; i < f->exits.n && mr_scope_ok(&w->s); i++) {
        mr_node *exit = f->exits.p[i];
        mr_gradient g;
        state *s = exit_state(w, states, n, exit);
        bool arrived = mr_backward_total(w, w->level, (mr_out){exit, 0}, &g);
        if (!s && arrived)
            mr_scope_fail(&w->s,
                          mr_error(MR_UNIMPLEMENTED,
                                   "Cannot differentiate while loop '%s': Exit '%s' does not "
                                   "give the last value of a loop variable.",
                                   f->name, exit->name));
        if (!s)
            continue;
        if (arrived && mr_is_grad(&s->last)) /* two Exits of one variable */
            g = mr_dense_grad(
                mr_emit(&w->s, "AddN", mr_backward_dense(w, &s->last), mr_backward_dense(w, &g)));
        if (arrived) {
            mr_backward_claim(w, w->level,
                              g.dense.node && g.dense.node->id >= w->n_old ? g.dense.node : NULL);
            s->last = g;
        }
        s->exit = arrived || !s->exit ? exit : s->exit;
    }
}

static mr_status *check_var(const mr_loop_frame *f, const mr_loop_var *v)
{
    if (v->enter && v->next && v->next->in[0].node)
        return NULL;
    return mr_invalid("Loop variable '%s' of while loop '%s' has no %s", v->merge->name, f->name,
                      v->enter ? "NextIteration" : "Enter");
}

static state *make_states(mr_backward *w, mr_loop_frame *f)
{
    state *states = mr_arena_array(&w->arena, state, f->vars.n + 1);
    for (int i = 0; i < f->vars.n && mr_scope_ok(&w->s); i++) {
        state *s = &states[i];
        mr_out v = {f->vars.p[i].merge, 0};
        s->var = &f->vars.p[i];
        s->last = MR_NO_GRAD;
        s->flows =
            mr_backward_between(w, v.node) && mr_dtype_is_trainable(mr_dtype_base(mr_out_type(v)));
        if (s->flows)
            mr_scope_fail(&w->s, check_var(f, s->var));
        s->invariant = s->flows && mr_scope_ok(&w->s) && mr_backward_is_invariant(w, v);
    }
    return states;
}

/* The last value of a variable that has no Exit yet. */
static mr_out last_value(mr_backward *w, mr_level *l, state *s)
{
    mr_loop_frame *f = l->frame;
    if (!s->exit) {
        mr_out v = {s->var->merge, 0};
        const mr_guard *g = mr_guard_union(&w->flow, mr_cflow_value_guard(&w->flow, v),
                                           mr_cflow_guard(&w->flow, f->cond));
        mr_node *split =
            mr_backward_node(w, (mr_spec){"Switch", .in = {v, {f->cond, 0}}, .colocate = v.node});
        mr_backward_claim_forward(w, split, f, g);
        s->exit =
            split ? mr_backward_node(w, (mr_spec){"Exit", .in = {{split, 0}}, .colocate = v.node})
                  : NULL;
        mr_backward_claim_forward(w, s->exit, f, guard_outside(w, l));
    }
    return s->exit ? (mr_out){s->exit, 0} : MR_NO_OUT;
}

/* Delivers the gradient of s(i+1) to where the body's gradient starts. */
static void open_state(mr_backward *w, mr_level *l, state *s)
{
    mr_out v = {s->var->merge, 0}, init;
    if (mr_is_grad(&s->last)) {
        init = mr_backward_dense(w, &s->last);
    } else {
        mr_out last = last_value(w, l, s);
        init = mr_scope_ok(&w->s)
                   ? mr_backward_zeros(w, l->outer, last, mr_dtype_base(mr_out_type(v)))
                   : MR_NO_OUT;
    }
    if (!mr_scope_ok(&w->s))
        return;
    s->back = open_var(w, l, init);
    if (mr_scope_ok(&w->s))
        mr_backward_add(w, l, s->var->next->in[0], mr_dense_grad(s->back.value));
}

/* Adds a gradient that leaves the backward loop to a value outside of it. */
static void add_gradient(mr_backward *w, mr_level *l, mr_out to, mr_gradient g)
{
    mr_level *level = w->level;
    w->level = l->outer;
    mr_backward_add(w, l->outer, to, mr_backward_lift(w, l->outer, g, guard_outside(w, l), to));
    w->level = level;
}

static void close_state(mr_backward *w, mr_level *l, state *s)
{
    mr_out v = {s->var->merge, 0}, from = s->var->enter->in[0];
    mr_gradient g;
    mr_out d = mr_backward_total(w, l, v, &g)
                   ? mr_backward_dense(w, &g)
                   : mr_backward_zeros(w, l, v, mr_dtype_base(mr_out_type(v)));
    if (!mr_scope_ok(&w->s))
        return;
    mr_out out = close_var(w, l, &s->back, d, mr_out_shape(from));
    if (out.node)
        add_gradient(w, l, from, mr_dense_grad(out));
}

/* ---- invariants: sums over all iterations ---- */
static mr_out add_values(mr_backward *w, mr_level *l, mr_out a, mr_out b)
{
    mr_out o = mr_emit(&w->s, "AddN", a, b);
    mr_backward_claim(w, l, o.node);
    return o;
}

static void sum_dense(mr_backward *w, mr_level *l, mr_out from, const mr_gradient *g,
                      const mr_gradient *start)
{
    mr_out d = mr_backward_dense(w, g);
    if (!mr_scope_ok(&w->s))
        return;
    w->level = l->outer;
    mr_out init = mr_is_grad(start)
                      ? mr_backward_dense(w, start)
                      : mr_backward_zeros(w, l->outer, from, mr_dtype_base(mr_out_type(d)));
    w->level = l;
    if (!mr_scope_ok(&w->s))
        return;
    back_var v = open_var(w, l, init);
    mr_out next = mr_scope_ok(&w->s) ? add_values(w, l, v.value, d) : MR_NO_OUT;
    bool handle = mr_dtype_base(mr_out_type(from)) == MR_RESOURCE;
    mr_out out =
        next.node ? close_var(w, l, &v, next, handle ? NULL : mr_out_shape(from)) : MR_NO_OUT;
    if (out.node)
        add_gradient(w, l, from, mr_dense_grad(out));
}

/* An empty tensor of rows: the shape of x with a leading 0. */
static mr_out no_rows(mr_backward *w, mr_out shape, mr_dtype type)
{
    mr_scope *s = &w->s;
    mr_out zero = mr_const_vec_i32(s, 1, (const int32_t[]){0}),
           one = mr_const_vec_i32(s, 1, (const int32_t[]){1});
    mr_out rest =
        mr_emit_with(s, "StridedSlice", MR_ATTRS({"end_mask", mr_a_int(1)}), shape, one, zero, one);
    mr_out axis = mr_const_i32(s, 0), parts[] = {zero, rest};
    mr_emit_arg args[] = {{2, parts}, {-1, &axis}};
    mr_out empty = mr_emit_lists(s, "ConcatV2", NULL, 0, args, 2);
    return mr_emit(s, "Fill", empty, mr_const_num(s, type, 0));
}

/* Concatenates the rows of all iterations. */
static mr_out gather_rows(mr_backward *w, mr_level *l, mr_out init, mr_out rows)
{
    back_var v = open_var(w, l, init);
    if (!mr_scope_ok(&w->s))
        return MR_NO_OUT;
    mr_out axis = int_const(w, 0, l->pivot), parts[] = {v.value, rows};
    mr_emit_arg args[] = {{2, parts}, {-1, &axis}};
    mr_out next = mr_emit_lists(&w->s, "ConcatV2", NULL, 0, args, 2);
    mr_backward_claim(w, l, axis.node);
    mr_backward_claim(w, l, next.node);
    return next.node ? close_var(w, l, &v, next, NULL) : MR_NO_OUT;
}

static void sum_rows(mr_backward *w, mr_level *l, mr_out from, const mr_gradient *g)
{
    mr_level *outer = l->outer;
    const mr_guard *guard = guard_outside(w, l);
    w->level = outer;
    mr_out shape = mr_backward_shape(w, outer, from);
    int start = w->graph->nodes.n;
    mr_out rows = no_rows(w, shape, mr_dtype_base(mr_out_type(g->values)));
    mr_out none = mr_const_vec_i32(&w->s, 0, NULL);
    if (mr_scope_ok(&w->s) && mr_out_type(g->indices) != MR_INT32)
        none = mr_emit_with(&w->s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_out_type(g->indices))}),
                            none);
    if (mr_scope_ok(&w->s))
        mr_backward_settle(w, start, NULL,
                           mr_backward_needs_anchor(w, outer, guard) ? l->start : MR_NO_OUT);
    w->level = l;
    if (!mr_scope_ok(&w->s))
        return;
    mr_gradient sum = MR_NO_GRAD;
    sum.values = gather_rows(w, l, rows, g->values);
    sum.indices = mr_scope_ok(&w->s) ? gather_rows(w, l, none, g->indices) : MR_NO_OUT;
    sum.dense_shape = shape;
    if (mr_scope_ok(&w->s))
        add_gradient(w, l, from, sum);
}

/* `start`: the gradient from outside, for a variable that the loop does not change. */
static void close_invariant(mr_backward *w, mr_level *l, mr_out inside, mr_out from,
                            const mr_gradient *start)
{
    mr_gradient g;
    if (!mr_scope_ok(&w->s))
        return;
    if (!mr_backward_total(w, l, inside, &g)) {
        if (mr_is_grad(start))
            add_gradient(w, l, from, *start);
    } else if (mr_is_sparse(&g) && !mr_is_grad(start)) {
        sum_rows(w, l, from, &g);
    } else {
        sum_dense(w, l, from, &g, start);
    }
}

/* ---- the whole loop ---- */
static void close_invariants(mr_backward *w, mr_level *l, state *states)
{
    const mr_gradient none = MR_NO_GRAD;
    mr_loop_frame *f = l->frame;
    for (int i = 0; i < f->vars.n; i++)
        if (states[i].invariant)
            close_invariant(w, l, (mr_out){states[i].var->merge, 0}, states[i].var->enter->in[0],
                            &states[i].last);
    for (int i = 0; i < f->enters.n; i++) {
        mr_node *e = f->enters.p[i];
        if (mr_backward_between(w, e) && mr_backward_is_invariant(w, (mr_out){e, 0}))
            close_invariant(w, l, (mr_out){e, 0}, e->in[0], &none);
    }
}

static void differentiate_loop(mr_backward *w, mr_loop_frame *f, state *states)
{
    mr_level *outer = w->level, *l = open_level(w, f);
    for (int i = 0; i < f->vars.n && mr_scope_ok(&w->s); i++)
        if (states[i].flows && !states[i].invariant)
            open_state(w, l, &states[i]);
    if (!mr_scope_ok(&w->s))
        return;
    const char *prefix = w->s.prefix, *device = w->s.device;
    w->s.device = ""; /* only the loop itself is placed with the forward loop's condition */
    mr_backward_walk(w, l);
    w->s.prefix = prefix;
    w->s.device = device;
    w->level = l;
    for (int i = 0; i < f->vars.n && mr_scope_ok(&w->s); i++)
        if (states[i].flows && !states[i].invariant)
            close_state(w, l, &states[i]);
    close_invariants(w, l, states);
    w->level = outer;
}

void mr_backward_loop(mr_backward *w, mr_loop_frame *f)
{
    bool any = false;
    if (!f->cond) {
        mr_scope_fail(&w->s, mr_invalid("Cannot differentiate while loop '%s': it has no LoopCond.",
                                        f->name));
        return;
    }
    const char *device = w->s.device;
    w->s.prefix = mr_arena_printf(&w->graph->arena, "%s/%s_grad", w->prefix, f->cond->name);
    w->s.device = f->cond->device ? f->cond->device : "";
    state *states = make_states(w, f);
    collect_exits(w, f, states, f->vars.n);
    for (int i = 0; i < f->vars.n; i++)
        any = any || mr_is_grad(&states[i].last);
    if (any && mr_scope_ok(&w->s))
        differentiate_loop(w, f, states);
    w->s.prefix = w->prefix;
    w->s.device = device;
}
