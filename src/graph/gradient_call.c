/* graph/gradient_call.c -- the gradient of a call is a call of the gradient.
 *
 * The gradient of a function is a function too: it takes the arguments of the function and the gradients of its
 * results, computes the body again as far as needed, walks back through it and returns the gradients of the arguments.
 * It is created from the body once for each call node and added to the graph's library. The two branches of an If (and
 * all of a Case) get the same signature, so that one If can call their gradients.
 *
 * A library may name a gradient written by hand (GradientDef), which is then called instead: it takes all arguments and
 * the gradients of all results, and returns one gradient for each argument.
 *
 * Nothing is kept from the forward call, as in TensorFlow's SymbolicGradient: random ops in a body
 * draw again. */
#include "graph/backward.h"
#include "graph/library.h"

/* Recursion would never end: a function that calls itself cannot be differentiated. */
enum { MAX_CALLS = 32 };
static _Thread_local int call_depth;

/* ---- one function ---- */
typedef struct part { /* a function that is being differentiated */
    const mr_function *f;
    mr_body body;
    mr_out *dys;      /* by result; node NULL if it has no gradient */
    mr_gradient *dxs; /* by argument */
} part;

static mr_status *find_function(const mr_library *l, const char *name, const mr_function **out)
{
    *out = mr_library_find(l, mr_sv_of(name));
    return *out ? NULL
                : mr_error(MR_NOT_FOUND, "Function '%s' is not in the graph's library", name);
}

static bool may_flow(int type) { return mr_dtype_is_trainable(mr_dtype_base(type)); }

/* Adds an argument to a body. */
static mr_out add_arg(mr_scope *s, int type, int index)
{
    return mr_emit0_with(s, "_Arg", MR_ATTRS({"T", mr_a_type(type)}, {"index", mr_a_int(index)}));
}

static mr_status *walk_body(part *p, mr_arena *a)
{
    const mr_body *b = &p->body;
    mr_out *ys = mr_arena_array(a, mr_out, b->n_rets + 1),
           *xs = mr_arena_array(a, mr_out, b->n_args + 1);
    mr_gradient *dys = mr_arena_array(a, mr_gradient, b->n_rets + 1),
                *dxs = mr_arena_array(a, mr_gradient, b->n_args + 1);
    int n_y = 0, n_x = 0;
    for (int i = 0; i < b->n_rets; i++)
        if (p->dys[i].node) {
            ys[n_y] = b->rets[i]->in[0];
            dys[n_y++] = mr_dense_grad(p->dys[i]);
        }
    for (int i = 0; i < b->n_args; i++)
        if (may_flow(b->args[i]->out_types[0]))
            xs[n_x++] = (mr_out){b->args[i], 0};
    mr_gradient_options options = {.grad_ys = dys};
    MR_TRY(mr_graph_gradients(b->graph, ys, n_y, xs, n_x, &options, dxs));
    for (int i = 0, j = 0; i < b->n_args; i++)
        p->dxs[i] = may_flow(b->args[i]->out_types[0]) ? dxs[j++] : MR_NO_GRAD;
    return NULL;
}

/* Instantiates the function and differentiates its body. */
static mr_status *differentiate_part(const mr_library *l, part *p, const mr_named_attr *attrs,
                                     int n_attrs, mr_arena *a)
{
    mr_scope s;
    MR_TRY(mr_function_instantiate(l, p->f, attrs, n_attrs, &p->body));
    mr_body *b = &p->body;
    p->dys = mr_arena_array(a, mr_out, b->n_rets + 1);
    p->dxs = mr_arena_array(a, mr_gradient, b->n_args + 1);
    mr_scope_init(&s, b->graph, "dy");
    for (int i = 0; i < b->n_rets; i++) {
        int type = mr_dtype_base(b->rets[i]->in_types[0]);
        bool flows = may_flow(type) && type != MR_RESOURCE;
        p->dys[i] = flows ? add_arg(&s, type, b->n_args + i) : MR_NO_OUT;
    }
    mr_status *st = mr_scope_status(&s);
    mr_scope_deinit(&s);
    return st ? st : walk_body(p, a);
}

static mr_out zeros_for(mr_scope *s, mr_out arg, int type)
{
    if ((int)mr_dtype_base(mr_out_type(arg)) != MR_RESOURCE)
        return mr_emit(s, "ZerosLike", arg);
    return mr_emit(s, "Fill", mr_emit(s, "VariableShape", arg), mr_const_num(s, (mr_dtype)type, 0));
}

/* ---- into the library ---- */
typedef MR_VEC(mr_node *) node_vec;

/* The nodes that the outputs depend on: side effects of the forward body are not repeated. */
static void needed_nodes(const mr_graph *g, const mr_out *outs, int n, node_vec *need)
{
    bool *seen = mr_new_array(bool, g->nodes.n + 1);
    node_vec todo = {0};
    for (int i = 0; i < n; i++)
        mr_vec_push(&todo, outs[i].node);
    while (todo.n) {
        mr_node *node = mr_vec_pop(&todo);
        if (seen[node->id])
            continue;
        seen[node->id] = true;
        if (!mr_node_is(node, "_Arg"))
            mr_vec_push(need, node);
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i].node)
                mr_vec_push(&todo, node->in[i].node);
        for (int i = 0; i < node->n_ctrl; i++)
            mr_vec_push(&todo, node->ctrl[i]);
    }
    mr_vec_deinit(&todo);
    mr_free(seen);
}

static char *free_name(const mr_library *l, const char *base)
{
    for (int i = 0;; i++) {
        char *name = mr_printf("%s_grad_%d", base, i);
        if (!mr_library_op(l, mr_sv_of(name)))
            return name;
        mr_free(name);
    }
}

/* types[i] is the type of the gradient of argument i, 0 where there is none. */
static mr_status *part_function(mr_library *l, part *p, const int *types, mr_arena *a, char **name)
{
    const mr_body *b = &p->body;
    mr_scope s;
    mr_function *f = NULL;
    mr_out *in = mr_arena_array(a, mr_out, b->n_args + b->n_rets + 1),
           *out = mr_arena_array(a, mr_out, b->n_args + 1);
    int n_in = 0, n_out = 0;
    node_vec need = {0};
    mr_scope_init(&s, b->graph, "dx");
    for (int i = 0; i < b->n_args; i++) {
        mr_out arg = {b->args[i], 0};
        in[n_in++] = arg;
        if (types[i])
            out[n_out++] = p->dxs[i].dense.node ? p->dxs[i].dense : zeros_for(&s, arg, types[i]);
    }
    for (int i = 0; i < b->n_rets; i++)
        if (p->dys[i].node)
            in[n_in++] = p->dys[i];
    mr_status *st = mr_scope_status(&s);
    mr_scope_deinit(&s);
    if (st)
        return st;
    needed_nodes(b->graph, out, n_out, &need);
    *name = free_name(l, p->f->def.name);
    mr_function_spec spec = {.name = *name,
                             .n_nodes = need.n,
                             .nodes = need.p,
                             .n_inputs = n_in,
                             .inputs = in,
                             .n_outputs = n_out,
                             .outputs = out};
    st = mr_function_from_graph(b->graph, &spec, &f);
    if (!st && b->graph->library != l) /* gradients of what the body calls */
        st = mr_library_copy(b->graph->library, l);
    if (!st)
        st = mr_library_add(l, f);
    mr_function_unref(f);
    mr_vec_deinit(&need);
    return st;
}

/* ---- call nodes ---- */
typedef struct call {
    mr_grad *g;
    int n_parts, first; /* inputs from `first` on are the functions' arguments */
    part *parts;
    char **names;
    int *types; /* of the gradients of the arguments */
    mr_arena arena;
} call;

bool mr_backward_is_call(const mr_node *n)
{
    static const char *const ops[] = {
        "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "_If", "Case",
        "StatelessCase"};
    if (n->def->function)
        return true;
    for (int i = 0; i < MR_COUNT(ops); i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}

static mr_status *read_call(const mr_node *n, const mr_func_ref **refs, int *n_refs, int max)
{
    const mr_attr *list;
    *n_refs = 1;
    if (mr_node_is(n, "PartitionedCall") || mr_node_is(n, "StatefulPartitionedCall"))
        return mr_node_get_func(n, "f", &refs[0]);
    if (mr_node_is(n, "Case") || mr_node_is(n, "StatelessCase")) {
        MR_TRY(mr_node_get_list(n, "branches", MR_ATTR_FUNC, &list));
        if (list->n > max)
            return mr_error(MR_UNIMPLEMENTED, "Case '%s' has more than %d branches", n->name, max);
        *n_refs = list->n;
        for (int i = 0; i < list->n; i++)
            refs[i] = list->funcs[i];
        return NULL;
    }
    *n_refs = 2;
    MR_TRY(mr_node_get_func(n, "then_branch", &refs[0]));
    return mr_node_get_func(n, "else_branch", &refs[1]);
}

/* Differentiates all functions; an argument has a gradient if it has one in any of them. */
static mr_status *differentiate_parts(call *c, const mr_func_ref *const *refs)
{
    const mr_node *n = c->g->node;
    const mr_library *l = n->graph->library;
    int n_args = n->n_in - c->first;
    c->types = mr_arena_array(&c->arena, int, n_args + 1);
    for (int i = 0; i < c->n_parts; i++) {
        part *p = &c->parts[i];
        MR_TRY(find_function(l, refs[i]->name, &p->f));
        MR_TRY(differentiate_part(l, p, refs[i]->attrs, refs[i]->n_attrs, &c->arena));
        if (p->body.n_args != n_args || p->body.n_rets != n->n_out)
            return mr_invalid(
                "Function '%s' does not take %d arguments and return %d results, as '%s' expects",
                refs[i]->name, n_args, n->n_out, n->name);
        for (int j = 0; j < n_args; j++)
            if (p->dxs[j].dense.node)
                c->types[j] = mr_dtype_base(mr_out_type(p->dxs[j].dense));
    }
    return NULL;
}

/* The attrs of the gradient's call: the same op with other functions and types. */
static int call_attrs(call *c, const mr_func_ref *funcs, const mr_attr *tin, const mr_attr *tout,
                      mr_named_attr *attrs)
{
    const mr_node *n = c->g->node;
    int k = 0;
    attrs[k++] = (mr_named_attr){"Tin", *tin};
    attrs[k++] = (mr_named_attr){"Tout", *tout};
    if (c->n_parts == 1 && c->first == 0) {
        attrs[k++] = (mr_named_attr){"f", {MR_ATTR_FUNC, .func = &funcs[0]}};
    } else if (mr_node_attr(n, "branches")) {
        const mr_func_ref **list = mr_arena_array(&c->arena, const mr_func_ref *, c->n_parts);
        for (int i = 0; i < c->n_parts; i++)
            list[i] = &funcs[i];
        attrs[k++] = (mr_named_attr){"branches", {MR_ATTR_FUNC, true, c->n_parts, .funcs = list}};
    } else {
        attrs[k++] = (mr_named_attr){"then_branch", {MR_ATTR_FUNC, .func = &funcs[0]}};
        attrs[k++] = (mr_named_attr){"else_branch", {MR_ATTR_FUNC, .func = &funcs[1]}};
    }
    return k;
}

/* The call of the gradient takes all inputs of the forward call, then the gradients of the results that have one, and
 * returns the gradients of the arguments that have one. */
static void emit_call(call *c)
{
    mr_grad *g = c->g;
    const mr_node *n = g->node;
    mr_arena *a = &c->arena;
    int n_in = 0, n_out = 0, n_args = n->n_in - c->first;
    mr_out *in = mr_arena_array(a, mr_out, n->n_in + n->n_out + 1);
    int *tin = mr_arena_array(a, int, n->n_in + n->n_out + 1),
        *tout = mr_arena_array(a, int, n_args + 1);
    for (int i = 0; i < n->n_in; i++)
        in[n_in++] = mr_xi(g, i);
    for (int i = 0; i < n->n_out; i++)
        if (c->parts[0].dys[i].node)
            in[n_in++] = mr_dyi(g, i);
    if (!mr_scope_ok(g->s))
        return;
    for (int i = c->first; i < n_in; i++)
        tin[i - c->first] = mr_dtype_base(mr_out_type(in[i]));
    for (int i = 0; i < n_args; i++)
        if (c->types[i])
            tout[n_out++] = c->types[i];
    mr_func_ref *funcs = mr_arena_array(a, mr_func_ref, c->n_parts);
    for (int i = 0; i < c->n_parts; i++)
        funcs[i].name = c->names[i];
    mr_named_attr attrs[4];
    mr_attr types_in = mr_a_types(n_in - c->first, tin), types_out = mr_a_types(n_out, tout);
    int n_attrs = call_attrs(c, funcs, &types_in, &types_out, attrs);
    bool stateful = n->def->flags & MR_STATEFUL;
    const char *op = !n->def->function ? n->def->name
                     : stateful        ? "StatefulPartitionedCall"
                                       : "PartitionedCall";
    mr_out o = mr_emit_n(g->s, op, attrs, n_attrs, in, n_in);
    for (int i = 0, j = 0; i < n_args && o.node; i++)
        if (c->types[i])
            mr_dxi(g, c->first + i, mr_nth(o, j++));
}

/* A call of a gradient written by hand. */
static void emit_named(call *c, const char *name)
{
    mr_grad *g = c->g;
    const mr_node *n = g->node;
    int n_in = 0;
    mr_out *in = mr_arena_array(&c->arena, mr_out, n->n_in + n->n_out + 1);
    int *types = mr_arena_array(&c->arena, int, n->n_in + 1);
    for (int i = 0; i < n->n_in; i++) {
        in[n_in++] = mr_xi(g, i);
        types[i] = mr_dtype_base(n->in_types[i]);
    }
    for (int i = 0; i < n->n_out; i++)
        in[n_in++] = mr_dyi(g, i);
    mr_func_ref f = {.name = name};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                             {"Tout", mr_a_types(n->n_in, types)}};
    bool stateful = n->def->flags & MR_STATEFUL;
    mr_out o = mr_emit_n(g->s, stateful ? "StatefulPartitionedCall" : "PartitionedCall", attrs, 2,
                         in, n_in);
    for (int i = 0; i < n->n_in && o.node; i++)
        if (may_flow(types[i]))
            mr_dxi(g, i, mr_nth(o, i));
}

static bool any_gradient(const call *c)
{
    for (int i = 0; i < c->g->node->n_in - c->first; i++)
        if (c->types[i])
            return true;
    return false;
}

/* A gradient from the library takes precedence. Otherwise all called functions are differentiated and added to the
 * library. */
static mr_status *run_call(call *c)
{
    enum { MAX_BRANCHES = 256 };
    const mr_node *n = c->g->node;
    const mr_func_ref own = {n->def->name, n->n_attrs, n->attrs}, *refs[MAX_BRANCHES] = {&own};
    c->n_parts = 1;
    if (!n->def->function)
        MR_TRY(read_call(n, refs, &c->n_parts, MAX_BRANCHES));
    c->first = n->def->function || mr_node_attr(n, "f") ? 0 : 1;
    const char *named =
        c->first == 0 ? mr_library_gradient(n->graph->library, refs[0]->name) : NULL;
    if (named) {
        emit_named(c, named);
        return NULL;
    }
    c->parts = mr_arena_array(&c->arena, part, c->n_parts);
    c->names = mr_arena_array(&c->arena, char *, c->n_parts);
    MR_TRY(differentiate_parts(c, refs));
    if (!any_gradient(c))
        return NULL;
    for (int i = 0; i < c->n_parts; i++)
        MR_TRY(part_function(n->graph->library, &c->parts[i], c->types, &c->arena, &c->names[i]));
    emit_call(c);
    return NULL;
}

void mr_backward_call(mr_grad *g)
{
    call c = {.g = g};
    if (call_depth >= MAX_CALLS) {
        mr_grad_fail(g, MR_UNIMPLEMENTED,
                     "Cannot differentiate '%s': its function calls itself, or calls are nested "
                     "more than %d deep.",
                     g->node->name, MAX_CALLS);
        return;
    }
    call_depth++;
    mr_arena_init(&c.arena, 0);
    mr_scope_fail(g->s, run_call(&c));
    for (int i = 0; c.parts && i < c.n_parts; i++) {
        mr_body_deinit(&c.parts[i].body);
        mr_free(c.names[i]);
    }
    mr_arena_deinit(&c.arena);
    call_depth--;
}

/* ---- SymbolicGradient ---- */
/* Replaces the results of a differentiated body by the gradients of its arguments. */
static mr_status *return_gradients(part *p)
{
    mr_body *b = &p->body;
    mr_scope s;
    mr_node **rets = mr_arena_array(&b->graph->arena, mr_node *, b->n_args + 1);
    for (int i = 0; i < b->n_rets; i++)
        mr_graph_remove(b->graph, b->rets[i]);
    mr_scope_init(&s, b->graph, "dx");
    for (int i = 0; i < b->n_args; i++) {
        mr_out arg = {b->args[i], 0};
        mr_out d = p->dxs[i].dense.node ? p->dxs[i].dense : mr_emit(&s, "ZerosLike", arg);
        rets[i] = mr_emit_with(&s, "_Retval", MR_ATTRS({"index", mr_a_int(i)}), d).node;
    }
    b->rets = rets;
    b->n_rets = b->n_args;
    mr_status *st = mr_scope_status(&s);
    mr_scope_deinit(&s);
    return st;
}

mr_status *mr_function_gradient(const mr_library *l, const mr_function *f,
                                const mr_named_attr *attrs, int n_attrs, mr_body *out)
{
    part p = {.f = f};
    mr_arena arena;
    const char *named = mr_library_gradient(l, f->def.name);
    if (named) {
        const mr_function *by_hand;
        MR_TRY(find_function(l, named, &by_hand));
        return mr_function_instantiate(l, by_hand, attrs, n_attrs, out);
    }
    mr_arena_init(&arena, 0);
    mr_status *st = call_depth < MAX_CALLS ? NULL
                                           : mr_error(MR_UNIMPLEMENTED,
                                                      "Function '%s' calls itself and cannot be "
                                                      "differentiated",
                                                      f->def.name);
    call_depth++;
    if (!st)
        st = differentiate_part(l, &p, attrs, n_attrs, &arena);
    int n_rets = p.body.n_rets, n_args = p.body.n_args;
    if (!st)
        st = return_gradients(&p);
    if (!st) {
        mr_node **args = mr_arena_array(&p.body.graph->arena, mr_node *, n_args + n_rets + 1);
        memcpy(args, p.body.args, (size_t)n_args * sizeof(*args));
        for (int i = 0; i < n_rets;
             i++) /* NULL if the result is not numeric: it is never read */
            args[n_args + i] = p.dys[i].node;
        p.body.args = args;
        p.body.n_args = n_args + n_rets;
        *out = p.body;
    } else {
        mr_body_deinit(&p.body);
    }
    call_depth--;
    mr_arena_deinit(&arena);
    return st;
}
