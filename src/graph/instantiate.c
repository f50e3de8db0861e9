/* graph/instantiate.c -- turns a function, with values for its attrs, into a graph.
 *
 * Arguments, body and results are all parts of one assembly: an _Arg for each argument value, the nodes of the body, a
 * _Retval for each result, in this order. Inside a function a value is named by argument: `x` and `x:1`, `node:out` and
 * `node:out:1`; without a number, the name refers to all values of a list. */
#include "base/memory.h"
#include "graph/assemble.h"
#include "graph/library.h"
#include "graph/wire.h"

/* Attrs determine the lengths of lists, so a few bytes could request a huge body. */
#define MAX_ARGS (1 << 16)
#define MAX_VALUES (1 << 22) /* edges of a body, and outputs of its nodes */

typedef struct body {
    const mr_function *f;
    mr_graph *g;
    mr_named_attr *values; /* of the function's attrs, sorted */
    int n_values;
    int n_args, n_rets;
    int *arg_start;  /* per argument of the signature, its first _Arg; one more at the end */
    int **out_start; /* per body node the same for its outputs */
    mr_map index;    /* name of a body node -> its part, plus one */
    mr_map names;    /* all names in use */
    MR_VEC(mr_part) parts;
    MR_VEC(mr_part_edge) edges;
    int64_t n_outputs;
    int *seen; /* by part: the last part that has it as a control input, plus one */
} body;

static mr_status *no_memory(const body *b)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to instantiate function '%s'",
                    b->f->def.name);
}

static mr_part *body_part(const body *b, int i) { return &b->parts.p[b->n_args + i]; }

/* ---- the function's attrs ---- */

/* The caller's attrs, completed by defaults. Attrs that the signature does not have are ignored: a func attr of a node
 * may carry more than the function takes. */
static mr_status *take_values(body *b, const mr_named_attr *attrs, int n)
{
    mr_draft d = {.name = b->f->def.name, .def = &b->f->def};
    d.attrs = mr_arena_array(&b->g->arena, mr_named_attr, n);
    for (int i = 0; i < n; i++)
        if (attrs[i].name[0] == '_' || mr_op_def_attr(d.def, attrs[i].name))
            d.attrs[d.n_attrs++] = attrs[i];
    MR_TRY(mr_named_attrs_sort(d.attrs, &d.n_attrs));
    MR_TRY(mr_draft_attrs(&b->g->arena, &d, false));
    /* Copies everything: callers and the function may be freed before the graph. */
    for (int i = 0; i < d.n_attrs; i++)
        d.attrs[i] = (mr_named_attr){mr_arena_strdup(&b->g->arena, d.attrs[i].name),
                                     mr_attr_copy(&b->g->arena, &b->g->held, &d.attrs[i].v)};
    b->values = d.attrs;
    b->n_values = d.n_attrs;
    return NULL;
}

static mr_status *substitute_attr(const body *b, mr_attr *v);

static mr_status *substitute_func(const body *b, const mr_func_ref **f)
{
    mr_arena *a = &b->g->arena;
    mr_func_ref *copy = mr_arena_memdup(a, *f, sizeof(**f));
    mr_named_attr *attrs = mr_arena_memdup(a, (*f)->attrs, (size_t)(*f)->n_attrs * sizeof(*attrs));
    copy->attrs = attrs;
    for (int i = 0; i < copy->n_attrs; i++)
        MR_TRY(substitute_attr(b, &attrs[i].v));
    *f = copy;
    return NULL;
}

/* "$T" becomes the value of T, also inside the functions that are passed on. */
static mr_status *substitute_attr(const body *b, mr_attr *v)
{
    if (v->kind == MR_ATTR_PLACEHOLDER) {
        const char *name = mr_arena_strndup(&b->g->arena, v->s.p, v->s.n);
        const mr_attr *value = mr_named_attrs_find(b->values, b->n_values, name);
        if (!value)
            return mr_invalid("Failed to bind placeholder '%s' in function '%s'", name,
                              b->f->def.name);
        *v = *value;
        return NULL;
    }
    if (v->kind != MR_ATTR_FUNC)
        return NULL;
    if (!v->is_list)
        return substitute_func(b, &v->func);
    const mr_func_ref **all = mr_arena_memdup(&b->g->arena, v->funcs, (size_t)v->n * sizeof(*all));
    for (int i = 0; i < v->n; i++)
        MR_TRY(substitute_func(b, &all[i]));
    v->funcs = all;
    return NULL;
}

/* ---- names ---- */

/* Names of arguments and results give way to those of the body, which may refer to state. */
static const char *free_name(body *b, const char *base)
{
    const char *name = mr_arena_strdup(&b->g->arena, base);
    for (int k = 1; mr_map_has(&b->names, mr_sv_of(name)); k++)
        name = mr_arena_printf(&b->g->arena, "%s_%d", base, k);
    mr_map_putz(&b->names, name, b);
    return name;
}

static mr_status *index_body(body *b)
{
    b->index.borrow_keys = b->names.borrow_keys = true;
    for (int i = 0; i < b->f->n_nodes; i++) {
        const char *name = b->f->nodes[i].name;
        if (!mr_name_valid_internal(mr_sv_of(name)))
            return mr_invalid("Function '%s': bad node name '%s'", b->f->def.name, name);
        if (mr_map_putz(&b->index, name, (void *)(intptr_t)(i + 1)))
            return mr_invalid("Function '%s': node '%s' is not unique", b->f->def.name, name);
        mr_map_putz(&b->names, name, b);
    }
    return NULL;
}

/* ---- arguments ---- */

/* The first of each argument's values in the flat list, and their number at the end. */
static mr_status *flat_starts(const body *b, const mr_arg_def *args, int n,
                              const mr_named_attr *attrs, int n_attrs, int most, int **out)
{
    int64_t at = 0, count;
    int *start = mr_arena_try_array(&b->g->arena, int, (size_t)n + 1);
    if (!start)
        return no_memory(b);
    for (int i = 0; i < n; i++) {
        MR_TRY(mr_arg_count(&args[i], attrs, n_attrs, &count));
        if (!mr_i64_add(at, count, &at) || at > most)
            return mr_invalid("Function '%s': too many values for '%s'", b->f->def.name,
                              args[i].name);
        start[i + 1] = (int)at;
    }
    *out = start;
    return NULL;
}

/* The type of value i of an argument. */
static int value_type(const body *b, const mr_arg_def *arg, int i)
{
    const char *name = arg->type_list_attr ? arg->type_list_attr : arg->type_attr;
    const mr_attr *v = name ? mr_named_attrs_find(b->values, b->n_values, name) : NULL;
    return v ? v->is_list ? v->types[i] : v->type : arg->type;
}

/* An _Arg or _Retval, whose edges follow. */
static mr_status *push_end(body *b, const char *op, const char *name, int type, int index,
                           const mr_named_attr *more, int n_more)
{
    mr_arena *a = &b->g->arena;
    mr_part p = {.first_edge = b->edges.n, .d = {.name = free_name(b, name), .device = ""}};
    MR_TRY(mr_draft_def(b->g, NULL, mr_sv_of(op), 0, &p.d.def));
    p.d.attrs = mr_arena_array(a, mr_named_attr, n_more + 2);
    for (int i = 0; i < n_more; i++)
        if (more[i].name[0] == '_') /* attrs from elsewhere must not change what it is */
            p.d.attrs[p.d.n_attrs++] = more[i];
    p.d.attrs[p.d.n_attrs++] = (mr_named_attr){"T", mr_a_type(type)};
    p.d.attrs[p.d.n_attrs++] = (mr_named_attr){"index", mr_a_int(index)};
    MR_TRY(mr_named_attrs_sort(p.d.attrs, &p.d.n_attrs));
    MR_TRY(mr_draft_attrs(a, &p.d, false));
    MR_TRY(mr_draft_types(a, &p.d, strcmp(op, "_Retval") == 0));
    return MR_TRY_PUSH(&b->parts, p) ? NULL : no_memory(b);
}

/* ArgAttrs: additional attrs of an argument, for its _Arg. */
static mr_status *read_arg_attrs(const body *b, mr_pb_reader *r, mr_named_attr **out, int *n)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    size_t most = mr_wire_count(*r, 1);
    *n = 0;
    *out = mr_arena_try_array(&b->g->arena, mr_named_attr, most);
    if (!*out || most > INT32_MAX)
        return no_memory(b);
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1 && (size_t)*n < most) {
            mr_pb_message(r, &sub);
            MR_TRY(mr_named_attr_read(&(mr_attr_room){&b->g->arena, &b->g->held}, &sub, &(*out)[(*n)++]));
        } else {
            mr_pb_skip(r);
        }
    }
    return mr_pb_reader_status(r, "FunctionDef.ArgAttrs");
}

/* Field 7 of FunctionDef, map<uint32, ArgAttrs>: the bytes of each argument's ArgAttrs. */
static mr_status *find_arg_attrs(const body *b, mr_sv *per_arg)
{
    mr_pb_reader r, entry;
    uint32_t field, wire;
    mr_pb_reader_init(&r, b->f->extra);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 7) {
            mr_pb_skip(&r);
            continue;
        }
        uint32_t arg = 0;
        mr_sv value = MR_SV("");
        mr_pb_message(&r, &entry);
        while (mr_pb_next(&entry, &field, &wire)) {
            if (field == 1)
                arg = mr_pb_uint32(&entry);
            else if (field == 2)
                value = mr_pb_bytes(&entry);
            else
                mr_pb_skip(&entry);
        }
        if (arg < (uint32_t)b->f->def.n_in)
            per_arg[arg] = value;
    }
    return mr_pb_reader_status(&r, "FunctionDef");
}

/* A list argument becomes one _Arg for each of its values. */
static mr_status *make_args(body *b)
{
    const mr_op_def *def = &b->f->def;
    mr_arena *a = &b->g->arena;
    mr_sv *known = mr_arena_try_array(a, mr_sv, def->n_in);
    if (!known)
        return no_memory(b);
    MR_TRY(find_arg_attrs(b, known));
    MR_TRY(flat_starts(b, def->in, def->n_in, b->values, b->n_values, MAX_ARGS, &b->arg_start));
    for (int i = 0; i < def->n_in; i++) {
        int n = b->arg_start[i + 1] - b->arg_start[i], n_attrs = 0;
        mr_pb_reader r;
        mr_named_attr *attrs = NULL;
        mr_pb_reader_init(&r, known[i]);
        MR_TRY(read_arg_attrs(b, &r, &attrs, &n_attrs));
        for (int k = 0; k < n; k++) {
            const char *name =
                n == 1 ? def->in[i].name : mr_arena_printf(a, "%s_%d", def->in[i].name, k);
            if (def->in[i].is_ref)
                return mr_invalid("Function '%s': argument '%s' is a reference", def->name,
                                  def->in[i].name);
            MR_TRY(push_end(b, "_Arg", name, value_type(b, &def->in[i], k), b->arg_start[i] + k,
                            attrs, n_attrs));
        }
    }
    b->n_args = b->parts.n;
    return NULL;
}

/* ---- the body ---- */

/* Deprecation is not checked: the graph that contained the function was already accepted. */
static mr_status *make_node(body *b, int i)
{
    mr_arena *a = &b->g->arena;
    const mr_fn_node *n = &b->f->nodes[i];
    mr_part p = {
        .d = {.name = mr_arena_strdup(a, n->name), .device = mr_arena_strdup(a, n->device)}};
    MR_TRY(mr_draft_def(b->g, NULL, mr_sv_of(n->op), 0, &p.d.def));
    p.d.attrs = mr_arena_array(a, mr_named_attr, n->n_attrs);
    p.d.n_attrs = n->n_attrs;
    for (int k = 0; k < n->n_attrs; k++) {
        p.d.attrs[k].name = mr_arena_strdup(a, n->attrs[k].name);
        p.d.attrs[k].v = mr_attr_copy(a, &b->g->held, &n->attrs[k].v);
        MR_TRY(substitute_attr(b, &p.d.attrs[k].v));
    }
    MR_TRY(mr_draft_attrs(a, &p.d, true));
    MR_TRY(mr_wire_keep(a, n->extra, &p.d.extra));
    p.is_merge = !strcmp(p.d.def->name, "Merge") || !strcmp(p.d.def->name, "RefMerge");
    p.is_next =
        !strcmp(p.d.def->name, "NextIteration") || !strcmp(p.d.def->name, "RefNextIteration");
    MR_TRY(flat_starts(b, p.d.def->out, p.d.def->n_out, p.d.attrs, p.d.n_attrs, MR_MAX_OUTPUTS,
                       &b->out_start[i]));
    b->n_outputs += b->out_start[i][p.d.def->n_out];
    if (b->n_outputs > MAX_VALUES)
        return mr_error(MR_RESOURCE_EXHAUSTED, "too many outputs");
    return MR_TRY_PUSH(&b->parts, p) ? NULL : no_memory(b);
}

/* ---- what an input names ---- Inputs name the outputs of a node by argument, and the number of values of an argument
 * depends on the node's attrs. So all nodes are drafted first, and names are resolved afterwards. */

typedef struct span {
    int part;  /* of the first value */
    int index; /* its output; values of arguments are each output 0 of their own part */
    int n;
    bool is_argument;
} span;

/* Removes a trailing ":3" and returns the number; -1 if there is none. */
static int cut_index(mr_sv *text)
{
    mr_tensor_name t;
    size_t before = text->n;
    if (!mr_tensor_name_parse(*text, &t) || t.index < 0 || t.node.n == before)
        return -1;
    *text = t.node;
    return t.index;
}

static mr_status *not_found(const body *b, const char *text)
{
    return mr_invalid("Function '%s': '%s' is not found", b->f->def.name, text);
}

static mr_status *resolve_argument(const body *b, const char *text, mr_sv name, span *out)
{
    const char *z = mr_arena_strndup(&b->g->arena, name.p, name.n);
    int arg = mr_op_def_input(&b->f->def, z);
    if (arg < 0)
        return not_found(b, text);
    *out = (span){b->arg_start[arg], 0, b->arg_start[arg + 1] - b->arg_start[arg], true};
    return NULL;
}

static mr_status *resolve_output(const body *b, const char *text, mr_sv node, mr_sv output,
                                 span *out)
{
    int i = (int)(intptr_t)mr_map_get(&b->index, node) - 1;
    if (i < 0)
        return not_found(b, text);
    const char *z = mr_arena_strndup(&b->g->arena, output.p, output.n);
    int arg = mr_op_def_output(body_part(b, i)->d.def, z);
    if (arg < 0)
        return not_found(b, text);
    const int *start = b->out_start[i];
    *out = (span){b->n_args + i, start[arg], start[arg + 1] - start[arg], false};
    return NULL;
}

static mr_status *resolve_text(const body *b, const char *text, span *out)
{
    mr_sv name = mr_sv_of(text);
    int index = cut_index(&name);
    const char *colon = memchr(name.p, ':', name.n);
    if (colon) {
        mr_sv node = {name.p, (size_t)(colon - name.p)}, output = {colon + 1, name.n - node.n - 1};
        MR_TRY(resolve_output(b, text, node, output, out));
    } else {
        MR_TRY(resolve_argument(b, text, name, out));
    }
    if (index < 0)
        return NULL;
    if (index >= out->n)
        return mr_invalid("Function '%s': '%s' has only %d values", b->f->def.name, text, out->n);
    MR_ASSERT(out->part >= 0);
    if (out->is_argument)
        out->part += index;
    else
        out->index += index;
    out->n = 1;
    return NULL;
}

static mr_status *push_span(body *b, const span *s)
{
    if (s->n > MAX_VALUES - b->edges.n)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Function '%s' has too many edges", b->f->def.name);
    for (int i = 0; i < s->n; i++) {
        mr_part_edge e = {s->is_argument ? s->part + i : s->part, s->is_argument ? 0 : s->index + i,
                          NULL};
        if (!MR_TRY_PUSH(&b->edges, e))
            return no_memory(b);
    }
    return NULL;
}

/* "^node" or "^argument": for a list argument, one of its values is enough. */
static mr_status *push_control(body *b, int part, const char *text)
{
    mr_sv name = mr_sv_of(text + 1);
    int i = (int)(intptr_t)mr_map_get(&b->index, name) - 1, src = b->n_args + i;
    if (i < 0) {
        span s;
        MR_TRY(resolve_argument(b, text, name, &s));
        if (s.n == 0)
            return NULL;
        src = s.part;
    }
    if (b->seen[src] == part + 1)
        return NULL;
    b->seen[src] = part + 1;
    b->parts.p[part].n_ctrl++;
    return MR_TRY_PUSH(&b->edges, (mr_part_edge){src, -1, NULL}) ? NULL : no_memory(b);
}

static mr_status *resolve_inputs(body *b, int i)
{
    const mr_fn_node *n = &b->f->nodes[i];
    mr_part *p = body_part(b, i);
    int k = 0;
    p->first_edge = b->edges.n;
    for (; k < n->n_inputs && n->inputs[k][0] != '^'; k++) {
        span s;
        MR_TRY(resolve_text(b, n->inputs[k], &s));
        MR_TRY(push_span(b, &s));
    }
    MR_TRY(mr_draft_types(&b->g->arena, &p->d, b->edges.n - p->first_edge));
    for (; k < n->n_inputs; k++) {
        if (n->inputs[k][0] != '^')
            return mr_invalid(
                "Function '%s': non-control input '%s' after control input of node '%s'",
                b->f->def.name, n->inputs[k], n->name);
        MR_TRY(push_control(b, b->n_args + i, n->inputs[k]));
    }
    return NULL;
}

static mr_status *make_nodes(body *b)
{
    b->out_start = mr_arena_try_array(&b->g->arena, int *, b->f->n_nodes);
    b->seen = mr_try_calloc((size_t)b->n_args + (size_t)b->f->n_nodes, sizeof(int));
    if (!b->out_start || !b->seen)
        return no_memory(b);
    for (int i = 0; i < b->f->n_nodes; i++)
        MR_TRY(mr_status_prepend(make_node(b, i), "Function '%s', node '%s': ", b->f->def.name,
                                 b->f->nodes[i].name));
    for (int i = 0; i < b->f->n_nodes; i++)
        MR_TRY(resolve_inputs(b, i));
    return NULL;
}

/* ---- results ---- An output argument may be a list, which becomes as many _Retval nodes. */

/* A list result becomes one _Retval for each of its values; its length must match the signature. */
static mr_status *make_rets(body *b)
{
    const mr_op_def *def = &b->f->def;
    int *start;
    MR_TRY(flat_starts(b, def->out, def->n_out, b->values, b->n_values, MAX_ARGS, &start));
    for (int i = 0; i < def->n_out; i++) {
        const char *arg = def->out[i].name, *from = mr_fn_pairs_find(b->f->ret, b->f->n_ret, arg);
        span s;
        if (!from)
            return mr_invalid("Return %s missing in function '%s'", arg, def->name);
        MR_TRY(resolve_text(b, from, &s));
        int n = start[i + 1] - start[i];
        if (s.n != n)
            return mr_invalid("Function '%s': output '%s' has %d values, not %d", def->name, arg, n,
                              s.n);
        for (int k = 0; k < n; k++) {
            const char *name = n == 1 ? mr_arena_printf(&b->g->arena, "%s_RetVal", arg)
                                      : mr_arena_printf(&b->g->arena, "%s_RetVal_%d", arg, k);
            MR_TRY(push_end(b, "_Retval", name, value_type(b, &def->out[i], k), start[i] + k, NULL,
                            0));
            span one = {s.is_argument ? s.part + k : s.part, s.is_argument ? 0 : s.index + k, 1,
                        s.is_argument};
            MR_TRY(push_span(b, &one));
        }
    }
    b->n_rets = start[def->n_out];
    return NULL;
}

/* ---- the whole ---- */

/* In the order of the signature. */
static mr_status *hand_over(body *b, mr_body *out)
{
    const mr_function *f = b->f;
    mr_arena *a = &b->g->arena;
    *out = (mr_body){.n_args = b->n_args, .n_rets = b->n_rets, .n_keep = f->n_control_ret};
    out->args = mr_arena_array(a, mr_node *, out->n_args);
    out->rets = mr_arena_array(a, mr_node *, out->n_rets);
    out->keep = mr_arena_array(a, mr_node *, out->n_keep);
    for (int i = 0; i < out->n_args; i++)
        out->args[i] = b->parts.p[i].node;
    for (int i = 0; i < out->n_rets; i++)
        out->rets[i] = b->parts.p[b->parts.n - b->n_rets + i].node;
    for (int i = 0; i < out->n_keep; i++) {
        const char *name =
            mr_fn_pairs_find(f->control_ret, f->n_control_ret, f->control_outputs[i]);
        int part = name ? (int)(intptr_t)mr_map_getz(&b->index, name) - 1 : -1;
        if (part < 0)
            return mr_invalid("Function '%s': control output '%s' is not the name of a node", f->def.name,
                              f->control_outputs[i]);
        out->keep[i] = body_part(b, part)->node;
    }
    return NULL;
}

static mr_status *instantiate_body(body *b, const mr_named_attr *attrs, int n_attrs, mr_body *out)
{
    MR_TRY(take_values(b, attrs, n_attrs));
    MR_TRY(index_body(b));
    MR_TRY(make_args(b));
    MR_TRY(make_nodes(b));
    MR_TRY(make_rets(b));
    mr_assembly a = {
        .graph = b->g, .parts = b->parts.p, .n_parts = b->parts.n, .edges = b->edges.p};
    MR_TRY(mr_status_prepend(mr_assemble(&a), "Function '%s': ", b->f->def.name));
    return hand_over(b, out);
}

mr_status *mr_function_instantiate(const mr_library *l, const mr_function *f,
                                   const mr_named_attr *attrs, int n_attrs, mr_body *out)
{
    body b = {.f = f, .g = mr_graph_new()};
    mr_status *st = l ? mr_library_copy(l, b.g->library) : NULL;
    if (!st)
        st = instantiate_body(&b, attrs, n_attrs, out);
    if (st)
        mr_graph_unref(b.g);
    else
        out->graph = b.g;
    mr_vec_deinit(&b.parts);
    mr_vec_deinit(&b.edges);
    mr_map_deinit(&b.index);
    mr_map_deinit(&b.names);
    mr_free(b.seen);
    return st;
}

void mr_body_deinit(mr_body *b)
{
    mr_graph_unref(b->graph);
    *b = (mr_body){0};
}
