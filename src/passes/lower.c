/* passes/lower.c -- rewrites functional control flow as a dataflow graph.
 *
 * A node with the attr _lower_using_switch_merge (or, for a call, _lower_as_multi_device_function) is replaced by the
 * bodies of its functions, so that the executor runs them as part of the step: iterations in parallel, on any device,
 * and nothing that nobody reads. If and Case become Switch and Merge; While becomes Enter, Merge, Switch,
 * NextIteration and Exit.
 *
 * The guarantees of a call must still hold:
 * - Nothing of it runs before the node's control inputs: the nodes that everything else depends on wait for them.
 * - A node that reads a result or waits for the lowered node finds all side effects done: results pass through an
 *   Identity after a NoOp that waits for the effects.
 * - A node without inputs in a body is dead with its branch, and runs once per iteration: it waits for a pivot.
 *
 * A node that cannot be rewritten stays: its kernel calls the functions. So do calls that are nested too deep or would
 * grow the graph too far, as recursive functions do.
 *
 * Errors: the first error of an emitted node is kept in lowerer.st, and nothing is emitted after it. */
#include <stdio.h>

#include "base/memory.h"
#include "graph/inline.h"
#include "passes/passes.h"

enum { MAX_DEPTH = 12, MAX_NODES = 200000, MAX_BRANCHES = 256 };

typedef struct lowerer {
    mr_graph *g;
    int n_old;    /* number of nodes before this pass */
    mr_imap depth; /* node id -> how many bodies it is in */
    mr_status *st; /* first error of an emitted node */
} lowerer;

/* ---- small nodes ---- */

typedef struct site { /* where a node is lowered */
    lowerer *w;
    const mr_node *n;
    int depth;
} site;

/* Adds a node next to the one that is lowered, on its device. Returns NULL after an error. later: the type of a
 * second input of a Merge that is connected later (the back edge of a loop); 0: none. */
static mr_node *emit_node(site *s, const char *op, const char *name, const mr_named_attr *attrs, int n_attrs,
                          const mr_out *in, int n_in, int later)
{
    MR_ASSERT(!later || strcmp(op, "Merge") == 0);
    mr_node *out = NULL;
    if (s->w->st)
        return NULL;
    char *full = mr_printf("%s/%s", s->n->name, name);
    mr_node_builder *b = mr_node_begin(s->w->g, op, mr_graph_unique_name(s->w->g, full));
    mr_free(full);
    mr_nb_internal(b);
    mr_nb_device(b, s->n->device);
    for (int i = 0; i < n_attrs; i++)
        mr_nb_attr(b, attrs[i].name, attrs[i].v);
    /* The inputs of a Merge are one list argument; those of the other ops are single. */
    if (strcmp(op, "Merge") == 0) {
        mr_nb_input_list(b, in, n_in);
        if (later)
            mr_nb_input_later(b, later);
    } else {
        for (int i = 0; i < n_in; i++)
            mr_nb_input(b, in[i]);
    }
    s->w->st = mr_node_finish(b, &out);
    return out;
}

/* A node with one input; MR_NO_OUT after an error. */
static mr_out emit_unary(site *s, const char *op, const char *name, mr_out a)
{
    mr_node *n = emit_node(s, op, name, NULL, 0, &a, 1, 0);
    return n ? (mr_out){n, 0} : MR_NO_OUT;
}

static mr_out emit_binary(site *s, const char *op, const char *name, mr_out a, mr_out b)
{
    mr_node *n = emit_node(s, op, name, NULL, 0, (const mr_out[]){a, b}, 2, 0);
    return n ? (mr_out){n, 0} : MR_NO_OUT;
}

static mr_node *no_op(site *s, const char *name) { return emit_node(s, "NoOp", name, NULL, 0, NULL, 0, 0); }

/* Makes n wait for `first`; NULL on either side (after an error, or without a pivot) does nothing. */
static void add_after(mr_node *n, mr_node *first)
{
    if (n && first)
        mr_node_add_control(n, first);
}

/* Makes n wait for the control inputs of the node that is lowered, so that nothing of it runs too early. */
static void after_controls(site *s, mr_node *n)
{
    for (int i = 0; i < s->n->n_ctrl; i++)
        add_after(n, s->n->ctrl[i]);
}

/* A scalar bool for the decision of an If or While. Values of other types or shapes are converted by ToBool, as
 * the kernels do. */
static mr_out make_predicate(site *s, mr_out v)
{
    if (mr_dtype_base(mr_out_type(v)) == MR_BOOL && mr_out_shape(v)->rank == 0)
        return emit_unary(s, "Identity", "pred", v);
    return emit_unary(s, "ToBool", "pred", v);
}

/* ---- bodies ---- */

/* The body of a function of the graph's library; the caller owns *out. */
static mr_status *instantiate_function(const site *s, const mr_func_ref *f, mr_body *out)
{
    const mr_function *def = mr_library_find(s->w->g->library, mr_sv_of(f->name));
    if (!def)
        return mr_error(MR_NOT_FOUND, "Function %s is not defined.", f->name);
    return mr_function_instantiate(s->w->g->library, def, f->attrs, f->n_attrs, out);
}

/* True if the body can be inlined, takes the node's inputs from `first` on, and returns n_rets values. n_rets < 0:
 * it returns as many values as the node has outputs, with the same types. */
static bool body_fits(const site *s, const mr_body *b, int first, int n_rets)
{
    const mr_node *n = s->n;
    if (b->n_args != n->n_in - first || b->n_rets != (n_rets < 0 ? n->n_out : n_rets) || !mr_body_can_inline(b))
        return false;
    for (int i = 0; i < b->n_args; i++)
        if (mr_dtype_base(b->args[i]->out_types[0]) != mr_dtype_base(n->in_types[first + i]))
            return false;
    for (int i = 0; n_rets < 0 && i < b->n_rets; i++)
        if (mr_dtype_base(b->rets[i]->in_types[0]) != mr_dtype_base(n->out_types[i]))
            return false;
    return true;
}

typedef struct placed_body { /* a body once it is in the graph */
    mr_out *rets;
    mr_node *done; /* waits for its effects; NULL: there are none */
} placed_body;

/* Makes the results wait for the side effects of the body, through the NoOp out->done. */
static void tie_results(site *s, int n_rets, mr_node_list *effects, mr_node *pivot, placed_body *out)
{
    if (effects->n == 0)
        return;
    out->done = no_op(s, "done");
    add_after(out->done, pivot);
    for (int i = 0; i < effects->n; i++)
        add_after(out->done, effects->p[i]);
    for (int i = 0; i < n_rets; i++) {
        out->rets[i] = emit_unary(s, "Identity", "ret", out->rets[i]);
        add_after(out->rets[i].node, out->done);
    }
}

/* Inlines a body with these arguments. New nodes are one level deeper than the call, which limits recursion.
 * out->rets is in the graph's arena. */
static void place_body(site *s, const mr_body *b, const char *name, const mr_out *args, mr_node *pivot, placed_body *out)
{
    lowerer *w = s->w;
    mr_node_list effects = {0};
    *out = (placed_body){.rets = mr_arena_array(&w->g->arena, mr_out, b->n_rets + 1)};
    if (w->st)
        return;
    int start = w->g->nodes.n;
    MR_ASSERT(s->depth < MAX_DEPTH);
    char *prefix = mr_printf("%s/%s", s->n->name, name);
    mr_inline spec = {prefix, s->n->device, args, pivot};
    w->st = mr_graph_inline(w->g, b, &spec, out->rets, &effects);
    mr_free(prefix);
    for (int i = start; i < w->g->nodes.n; i++)
        mr_imap_put(&w->depth, (uint64_t)i, (void *)(intptr_t)(s->depth + 1));
    if (!w->st)
        tie_results(s, b->n_rets, &effects, pivot, out);
    mr_vec_deinit(&effects);
}

/* ---- in the node's place ---- */

/* True if some node reads this output. Control edges have output -1. */
static bool is_used(const mr_node *n, int output)
{
    for (int i = 0; i < n->uses.n; i++)
        if (n->uses.p[i].output == output)
            return true;
    return false;
}

/* Readers of output i read v from now on. */
static void replace_output(site *s, int i, mr_out v)
{
    if (!s->w->st)
        s->w->st = mr_graph_replace_uses((mr_out){(mr_node *)(uintptr_t)s->n, i}, v);
}

/* Nodes that waited for the lowered node wait for `executed`. The loop runs backwards, because each change removes a
 * use. */
static void replace_controls(site *s, mr_node *executed)
{
    mr_node *n = (mr_node *)(uintptr_t)s->n;
    for (int i = n->uses.n - 1; i >= 0 && !s->w->st; i--) {
        if (i >= n->uses.n || n->uses.p[i].input >= 0)
            continue;
        mr_node *user = n->uses.p[i].node;
        mr_node_remove_control(user, n);
        mr_node_add_control(user, executed);
    }
}

/* ---- If and Case ---- */

/* The branches of an If (0: else, 1: then) or of a Case. */
typedef struct branches {
    int n;
    mr_body body[MAX_BRANCHES];
    placed_body placed[MAX_BRANCHES];
    mr_node *pivot[MAX_BRANCHES];
    mr_out index; /* bool, or int32 of a Case */
} branches;

/* Routes v to one output per branch: Switch for a bool, _SwitchN for the index of a Case. */
static mr_out switch_of(site *s, const branches *b, mr_out v)
{
    if (mr_dtype_base(mr_out_type(b->index)) == MR_BOOL)
        return emit_binary(s, "Switch", "switch", v, b->index);
    mr_named_attr attr = {"num_outs", mr_a_int(b->n)};
    mr_node *n = emit_node(s, "_SwitchN", "switch", &attr, 1, (const mr_out[]){v, b->index}, 2, 0);
    return n ? (mr_out){n, 0} : MR_NO_OUT;
}

/* Switches every argument by the condition and inlines the branches after it. Each branch has a pivot that is live
 * exactly if the branch is taken. */
static void place_branches(site *s, branches *b)
{
    mr_arena *a = &s->w->g->arena;
    int n_args = s->n->n_in - 1;
    MR_ASSERT(n_args >= 0 && b->n >= 1);
    mr_out *ways = mr_arena_array(a, mr_out, n_args + 1), *args = mr_arena_array(a, mr_out, n_args + 1);
    mr_out way = switch_of(s, b, b->index);
    for (int i = 0; i < n_args && !s->w->st; i++)
        ways[i] = switch_of(s, b, s->n->in[1 + i]);
    for (int k = 0; k < b->n && !s->w->st; k++) {
        char name[32];
        snprintf(name, sizeof name, "branch_%d", k);
        b->pivot[k] = emit_unary(s, "Identity", "pivot", (mr_out){way.node, k}).node;
        for (int i = 0; i < n_args; i++)
            args[i] = (mr_out){ways[i].node, k};
        place_body(s, &b->body[k], name, args, b->pivot[k], &b->placed[k]);
    }
}

static mr_out merge_of(site *s, const mr_out *in, int n)
{
    mr_node *m = emit_node(s, "Merge", "merge", NULL, 0, in, n, 0);
    return m ? (mr_out){m, 0} : MR_NO_OUT;
}

/* Merges the results of the branches, and their ends for nodes that wait for the lowered node. */
static void join_branches(site *s, branches *b)
{
    mr_out in[MAX_BRANCHES];
    for (int i = 0; i < s->n->n_out && !s->w->st; i++) {
        if (!is_used(s->n, i))
            continue;
        for (int k = 0; k < b->n; k++)
            in[k] = b->placed[k].rets[i];
        replace_output(s, i, merge_of(s, in, b->n));
    }
    for (int k = 0; k < b->n && !s->w->st; k++) {
        in[k] = emit_unary(s, "Identity", "executed", (mr_out){b->pivot[k], 0});
        add_after(in[k].node, b->placed[k].done);
    }
    replace_controls(s, merge_of(s, in, b->n).node);
}

/* Instantiates the functions; false if they cannot be inlined. Errors are dropped: running the node reports them. */
static bool read_branches(site *s, branches *b)
{
    const mr_func_ref *f[MAX_BRANCHES];
    const mr_attr *list = mr_node_attr(s->n, "branches"), *yes = mr_node_attr(s->n, "then_branch"),
                  *no = mr_node_attr(s->n, "else_branch");
    b->n = 2;
    if (list && list->is_list && list->kind == MR_ATTR_FUNC && list->n >= 1 && list->n <= MAX_BRANCHES) {
        b->n = list->n;
        memcpy(f, list->funcs, sizeof *f * (size_t)b->n);
    } else if (yes && no && yes->kind == MR_ATTR_FUNC && no->kind == MR_ATTR_FUNC) {
        f[0] = no->func;
        f[1] = yes->func;
    } else {
        return false;
    }
    for (int k = 0; k < b->n; k++) {
        MR_ASSERT(b->n <= MAX_BRANCHES);
        mr_status *st = instantiate_function(s, f[k], &b->body[k]);
        bool good = !st && body_fits(s, &b->body[k], 1, -1);
        mr_status_free(st);
        if (!good)
            return false;
    }
    return true;
}

/* Returns false if the node stays as it is. branches is large, so it is on the heap. */
static bool lower_branches(site *s)
{
    branches *b = mr_new(branches);
    bool good = read_branches(s, b);
    if (good) {
        bool is_case = mr_node_attr(s->n, "branches") != NULL;
        b->index = is_case ? emit_unary(s, "Identity", "index", s->n->in[0]) : make_predicate(s, s->n->in[0]);
        after_controls(s, b->index.node);
        if (!s->w->st)
            place_branches(s, b);
        if (!s->w->st)
            join_branches(s, b);
    }
    for (int k = 0; k < b->n; k++)
        mr_body_deinit(&b->body[k]);
    mr_free(b);
    return good;
}

/* ---- While ---- */

typedef struct loop_var {
    bool constant; /* the body returns it unchanged */
    mr_out enter, merge, way, exit;
} loop_var;

/* A While: one variable for each input of the node. args is used for the condition, then for the body. */
typedef struct while_loop {
    mr_body cond, body;
    int n;
    loop_var *v;
    mr_out *args;
} while_loop;

/* Makes an Enter for each loop variable, and a Merge whose back edge follows later for each that changes. */
static void enter_loop(site *s, while_loop *l)
{
    const char *frame = mr_graph_unique_name(s->w->g, s->n->name);
    const mr_attr *parallel = mr_node_attr(s->n, "parallel_iterations");
    int64_t n_parallel = parallel && parallel->kind == MR_ATTR_INT ? parallel->i : 10;
    for (int i = 0; i < l->n && !s->w->st; i++) {
        loop_var *v = &l->v[i];
        mr_named_attr attrs[] = {{"frame_name", mr_a_str(frame)},
                                 {"is_constant", mr_a_bool(v->constant)},
                                 {"parallel_iterations", mr_a_int(n_parallel)}};
        v->enter = (mr_out){emit_node(s, "Enter", "enter", attrs, 3, &s->n->in[i], 1, 0), 0};
        after_controls(s, v->enter.node);
        if (v->constant || s->w->st)
            continue;
        v->merge =
            (mr_out){emit_node(s, "Merge", "merge", NULL, 0, &v->enter, 1, mr_dtype_base(mr_out_type(v->enter))), 0};
    }
}

/* The pivot of the condition: find_invariants guarantees that some variable has a Merge. */
static mr_node *first_merge(const while_loop *l)
{
    for (int i = 0; i < l->n; i++)
        if (!l->v[i].constant)
            return l->v[i].merge.node;
    return NULL;
}

/* Inlines the condition; it reads the Merges, so it is evaluated in every iteration. */
static mr_out place_cond(site *s, while_loop *l)
{
    placed_body p;
    for (int i = 0; i < l->n; i++)
        l->args[i] = l->v[i].constant ? l->v[i].enter : l->v[i].merge;
    place_body(s, &l->cond, "cond", l->args, first_merge(l), &p);
    return s->w->st ? MR_NO_OUT : emit_unary(s, "LoopCond", "loop_cond", make_predicate(s, p.rets[0]));
}

/* Inlines the body after the Switches and closes the back edges. A constant is live in the last iteration too,
 * when the body does not run, so the body reads it through an Identity that waits for the pivot. */
static void place_loop_body(site *s, while_loop *l, mr_out cond)
{
    placed_body p;
    mr_node *pivot = NULL;
    for (int i = 0; i < l->n && !s->w->st; i++) {
        if (l->v[i].constant)
            continue;
        l->v[i].way = emit_binary(s, "Switch", "switch", l->v[i].merge, cond);
        l->args[i] = (mr_out){l->v[i].way.node, 1};
        if (!pivot)
            pivot = emit_unary(s, "Identity", "pivot", l->args[i]).node;
    }
    for (int i = 0; i < l->n && !s->w->st; i++)
        if (l->v[i].constant) {
            l->args[i] = emit_unary(s, "Identity", "invariant", l->v[i].enter);
            add_after(l->args[i].node, pivot);
        }
    place_body(s, &l->body, "body", l->args, pivot, &p);
    MR_ASSERT(s->w->st || pivot);
    for (int i = 0; i < l->n && !s->w->st; i++)
        if (!l->v[i].constant) {
            mr_out next = emit_unary(s, "NextIteration", "next", p.rets[i]);
            add_after(next.node, p.done);
            if (!s->w->st)
                s->w->st = mr_node_set_input(l->v[i].merge.node, 1, next);
        }
}

/* Makes the Exits that are read, and at least one, which marks the end of the loop. The result of a constant is
 * its input, but not before the loop has ended. */
static void leave_loop(site *s, while_loop *l)
{
    mr_node *executed = NULL;
    for (int i = 0; i < l->n && !s->w->st; i++) {
        if (l->v[i].constant || (executed && !is_used(s->n, i)))
            continue;
        l->v[i].exit = emit_unary(s, "Exit", "exit", (mr_out){l->v[i].way.node, 0});
        if (!executed)
            executed = l->v[i].exit.node;
    }
    for (int i = 0; i < l->n && !s->w->st; i++) {
        if (!is_used(s->n, i))
            continue;
        mr_out v = l->v[i].exit;
        if (l->v[i].constant) {
            v = emit_unary(s, "Identity", "invariant_out", s->n->in[i]);
            add_after(v.node, executed);
        }
        replace_output(s, i, v);
    }
    replace_controls(s, executed);
}

/* A variable that the body returns unchanged needs no iterations; but at least one variable must make them. */
static void find_invariants(while_loop *l)
{
    bool any = false;
    for (int i = 0; i < l->n; i++) {
        l->v[i].constant = mr_out_eq(l->body.rets[i]->in[0], (mr_out){l->body.args[i], 0});
        any |= !l->v[i].constant;
    }
    MR_ASSERT(l->n > 0);
    if (!any)
        l->v[0].constant = false;
}

/* Instantiates the condition and the body; false if they cannot be inlined. Errors are dropped: running the node
 * reports them. */
static bool read_while(site *s, while_loop *l)
{
    const mr_attr *c = mr_node_attr(s->n, "cond"), *b = mr_node_attr(s->n, "body");
    if (!c || !b || c->kind != MR_ATTR_FUNC || b->kind != MR_ATTR_FUNC || s->n->n_in == 0)
        return false;
    mr_status *st = instantiate_function(s, c->func, &l->cond);
    if (!st)
        st = instantiate_function(s, b->func, &l->body);
    bool good = !st && body_fits(s, &l->cond, 0, 1) && body_fits(s, &l->body, 0, -1);
    mr_status_free(st);
    return good;
}

/* Returns false if the node stays as it is. The arrays are in the graph's arena, so only the bodies are freed. */
static bool lower_while(site *s)
{
    mr_arena *a = &s->w->g->arena;
    while_loop l = {.n = s->n->n_in};
    bool good = read_while(s, &l);
    if (good) {
        l.v = mr_arena_array(a, loop_var, l.n + 1);
        l.args = mr_arena_array(a, mr_out, l.n + 1);
        find_invariants(&l);
        enter_loop(s, &l);
        mr_out cond = s->w->st ? MR_NO_OUT : place_cond(s, &l);
        if (!s->w->st)
            place_loop_body(s, &l, cond);
        if (!s->w->st)
            leave_loop(s, &l);
    }
    mr_body_deinit(&l.cond);
    mr_body_deinit(&l.body);
    return good;
}

/* ---- calls ---- */

/* The arguments of a call arrive one by one, but not before the node's control inputs. Returns the pivot, or NULL if
 * the call has neither arguments nor control inputs. */
static mr_node *call_args(site *s, mr_out *args)
{
    mr_node *pivot = NULL;
    for (int i = 0; i < s->n->n_in && !s->w->st; i++) {
        args[i] = s->n->in[i];
        if (i > 0 && s->n->n_ctrl == 0)
            continue;
        args[i] = emit_unary(s, "Identity", "arg", s->n->in[i]);
        after_controls(s, args[i].node);
        if (!pivot)
            pivot = args[i].node;
    }
    if (!pivot && s->n->n_ctrl > 0) {
        pivot = no_op(s, "start");
        after_controls(s, pivot);
    }
    return pivot;
}

/* Inlines a call. Nodes that wait for it wait for all its results and side effects. */
static void place_call(site *s, const mr_body *b)
{
    placed_body p;
    mr_out *args = mr_arena_array(&s->w->g->arena, mr_out, s->n->n_in + 1);
    mr_node *pivot = call_args(s, args);
    place_body(s, b, "call", args, pivot, &p);
    mr_node *executed = no_op(s, "executed");
    add_after(executed, pivot);
    add_after(executed, p.done);
    for (int i = 0; i < s->n->n_out && !s->w->st; i++) {
        mr_out ret = emit_unary(s, "Identity", "result", p.rets[i]);
        add_after(executed, ret.node);
        replace_output(s, i, ret);
    }
    if (!s->w->st)
        replace_controls(s, executed);
}

/* Returns false if the node stays as it is. */
static bool lower_call(site *s)
{
    const mr_attr *f = mr_node_attr(s->n, "f");
    mr_body b = {0};
    if (!f || f->kind != MR_ATTR_FUNC)
        return false;
    mr_status *st = instantiate_function(s, f->func, &b);
    bool good = !st && body_fits(s, &b, 0, -1);
    mr_status_free(st);
    if (good)
        place_call(s, &b);
    mr_body_deinit(&b);
    return good;
}

/* ---- which nodes ---- */

static bool has_true_attr(const mr_node *n, const char *attr)
{
    const mr_attr *v = mr_node_attr(n, attr);
    return v && v->kind == MR_ATTR_BOOL && !v->is_list && v->b;
}

static bool is_one_of(const mr_node *n, const char *const *ops)
{
    for (; *ops; ops++)
        if (mr_node_is(n, *ops))
            return true;
    return false;
}

/* True if an input is a reference, which would be read on its way through a body. */
static bool has_ref_input(const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node || mr_dtype_is_ref(mr_out_type(n->in[i])))
            return true;
    return false;
}

/* Returns true if the node was lowered (or an error is set); the caller removes it. */
static bool lower_node(site *s)
{
    static const char *const ifs[] = {"If", "StatelessIf", "Case", "StatelessCase", NULL},
                             *const whiles[] = {"While", "StatelessWhile", NULL},
                             *const calls[] = {"PartitionedCall", "StatefulPartitionedCall", NULL};
    const mr_node *n = s->n;
    bool wants = has_true_attr(n, "_lower_using_switch_merge");
    if (!wants && !has_true_attr(n, "_lower_as_multi_device_function"))
        return false;
    if (has_ref_input(n))
        return false;
    if (is_one_of(n, calls))
        return lower_call(s);
    if (!wants)
        return false;
    return is_one_of(n, ifs) ? lower_branches(s) : is_one_of(n, whiles) && lower_while(s);
}

/* New nodes that request no device run where the lowered node was placed. Nodes with handles or references are
 * left to the placer, because they must be with their resources. */
static void keep_place(lowerer *w, const mr_node *n, int start)
{
    for (int i = start; n->placed && i < w->g->nodes.n; i++) {
        mr_node *m = w->g->nodes.p[i];
        bool handles = false;
        for (int k = 0; m && k < m->n_in; k++)
            handles |= m->in_types[k] == MR_RESOURCE || mr_dtype_is_ref(m->in_types[k]);
        for (int k = 0; m && k < m->n_out; k++)
            handles |= m->out_types[k] == MR_RESOURCE || mr_dtype_is_ref(m->out_types[k]);
        if (m && !handles && !m->device[0] && !m->placed && !mr_node_attr(m, "_class"))
            m->placed = n->placed;
    }
}

/* ---- what nobody needs ---- */

/* Removes new nodes that nobody needs by copying the others. Old nodes and side effects are needed, and everything
 * they depend on. On success *g is the copy. */
static mr_status *drop_unneeded(lowerer *w, mr_graph **g)
{
    mr_graph *out = NULL;
    mr_node_list todo = {0};
    bool *keep = mr_new_array(bool, w->g->nodes.n + 1);
    for (int i = 0; i < w->g->nodes.n; i++) {
        mr_node *n = w->g->nodes.p[i];
        if (n && (i < w->n_old || (n->def->flags & MR_STATEFUL)))
            mr_vec_push(&todo, n);
    }
    /* The back edges of loops are inputs too, so a needed loop is kept as a whole. */
    while (todo.n > 0) {
        mr_node *n = mr_vec_pop(&todo);
        if (keep[n->id])
            continue;
        keep[n->id] = true;
        for (int i = 0; i < n->n_in; i++)
            mr_vec_push(&todo, n->in[i].node);
        for (int i = 0; i < n->n_ctrl; i++)
            mr_vec_push(&todo, n->ctrl[i]);
    }
    mr_status *st = mr_graph_copy(w->g, keep, &out, NULL);
    if (!st) {
        mr_graph_unref(*g);
        *g = out;
    }
    mr_vec_deinit(&todo);
    mr_free(keep);
    return st;
}

/* The loop also visits the nodes that it adds, so calls inside functions are lowered too, up to MAX_DEPTH. */
mr_status *mr_lower(mr_graph **g, bool *any)
{
    lowerer w = {.g = *g, .n_old = (*g)->nodes.n};
    *any = false;
    for (int i = 0; i < w.g->nodes.n && !w.st && w.g->nodes.n < w.n_old + MAX_NODES; i++) {
        mr_node *n = w.g->nodes.p[i];
        if (!n)
            continue;
        site s = {&w, n, (int)(intptr_t)mr_imap_get(&w.depth, (uint64_t)i)};
        int start = w.g->nodes.n;
        if (s.depth >= MAX_DEPTH || !lower_node(&s) || w.st)
            continue;
        keep_place(&w, n, start);
        *any = true;
        mr_graph_remove(w.g, n);
    }
    mr_imap_deinit(&w.depth);
    if (!w.st && *any)
        w.st = drop_unneeded(&w, g);
    return w.st;
}
