/* graph/node_builder.c -- builds a node step by step, like TF_NewOperation ... TF_FinishOperation.
 *
 * The builder keeps copies of its inputs in its own memory and uses the graph only in mr_node_finish, so several
 * builders may be open at the same time. Finishing goes through the arguments of the op in order, takes the inputs
 * given for each and learns from them the attrs they determine; then the draft is checked like every node (draft.c). */
#include <stdlib.h>

#include "base/memory.h"
#include "graph/draft.h"
#include "graph/infer_op.h"
#include "graph/library.h"
#include "graph/scope.h"

typedef struct entry { /* one call of mr_nb_input* */
    enum { SINGLE, LIST, LATER } how;
    int first, n; /* among inputs */
} entry;

struct mr_node_builder {
    mr_graph *graph;
    mr_arena arena;
    mr_tensor_vec held;
    const char *op, *name, *device;
    MR_VEC(mr_out) inputs; /* node NULL: set later */
    MR_VEC(int) types;     /* of inputs */
    MR_VEC(entry) entries;
    MR_VEC(mr_node *) controls;
    MR_VEC(mr_named_attr) attrs;
    MR_VEC(mr_sv) classes; /* the entries of _class */
    mr_sv extra;
    bool internal, client;
    mr_status *st; /* first error */
};

/* ---- being told ---- None of these can fail: errors are kept and returned by mr_node_finish. */

mr_node_builder *mr_node_begin(mr_graph *g, const char *op, const char *name)
{
    mr_node_builder *b = mr_new(mr_node_builder);
    mr_arena_init(&b->arena, 1024);
    b->graph = g;
    b->op = mr_arena_strdup(&b->arena, op);
    b->name = mr_arena_strdup(&b->arena, name);
    b->device = "";
    return b;
}

void mr_nb_abandon(mr_node_builder *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->held.n; i++)
        mr_tensor_unref(b->held.p[i]);
    mr_vec_deinit(&b->held);
    mr_vec_deinit(&b->inputs);
    mr_vec_deinit(&b->types);
    mr_vec_deinit(&b->entries);
    mr_vec_deinit(&b->controls);
    mr_vec_deinit(&b->attrs);
    mr_vec_deinit(&b->classes);
    mr_arena_deinit(&b->arena);
    mr_status_free(b->st);
    mr_free(b);
}

static void fail_builder(mr_node_builder *b, mr_status *st) { mr_status_update(&b->st, st); }

void mr_nb_device(mr_node_builder *b, const char *device)
{
    b->device = mr_arena_strdup(&b->arena, device ? device : "");
}

static void push_input(mr_node_builder *b, mr_out o)
{
    int type = MR_INVALID;
    if (!o.node)
        fail_builder(b, mr_invalid("Input %d of node '%s' is null", b->inputs.n, b->name));
    else if (o.node->graph != b->graph)
        fail_builder(b, mr_invalid("Input %d of node '%s' belongs to another graph", b->inputs.n, b->name));
    else if (o.index < 0 || o.index >= o.node->n_out)
        fail_builder(b, mr_invalid("Node '%s': Connecting to invalid output %d of source node %s which has "
                                   "%d outputs.",
                                   b->name, o.index, o.node->name, o.node->n_out));
    else
        type = mr_out_type(o);
    mr_vec_push(&b->inputs, o);
    mr_vec_push(&b->types, type);
}

void mr_nb_input(mr_node_builder *b, mr_out o)
{
    mr_vec_push(&b->entries, (entry){SINGLE, b->inputs.n, 1});
    push_input(b, o);
}

void mr_nb_input_list(mr_node_builder *b, const mr_out *o, int n)
{
    mr_vec_push(&b->entries, (entry){LIST, b->inputs.n, n});
    for (int i = 0; i < n; i++)
        push_input(b, o[i]);
}

void mr_nb_input_later(mr_node_builder *b, int type)
{
    mr_vec_push(&b->entries, (entry){LATER, b->inputs.n, 1});
    mr_vec_push(&b->inputs, MR_NO_OUT);
    mr_vec_push(&b->types, type);
}

void mr_nb_control(mr_node_builder *b, mr_node *n)
{
    if (!n || n->graph != b->graph)
        fail_builder(b, mr_invalid("A control input of node '%s' is null or belongs to another graph", b->name));
    else
        mr_vec_push(&b->controls, n);
}

static void push_class(mr_node_builder *b, mr_sv text)
{
    mr_vec_push(&b->classes,
                (mr_sv){mr_arena_strndup(&b->arena, text.p ? text.p : "", text.n), text.n});
}

/* Setting _class replaces the entries collected so far. */
static void set_classes(mr_node_builder *b, const mr_attr *v)
{
    b->classes.n = 0;
    if (v->kind != MR_ATTR_STRING && !(v->is_list && v->n == 0)) {
        fail_builder(b, mr_invalid("Expected a list of strings for attr \"_class\" of node '%s'", b->name));
    } else if (!v->is_list) {
        push_class(b, v->s);
    } else {
        for (int i = 0; i < v->n; i++)
            push_class(b, v->ss[i]);
    }
}

void mr_nb_attr(mr_node_builder *b, const char *name, mr_attr v)
{
    if (strcmp(name, "_class") == 0) {
        set_classes(b, &v);
        return;
    }
    mr_named_attr a = {mr_arena_strdup(&b->arena, name), mr_attr_copy(&b->arena, &b->held, &v)};
    mr_vec_push(&b->attrs, a);
}

void mr_nb_attr_tensor(mr_node_builder *b, const char *name, mr_tensor *t)
{
    mr_tensor_attr v = {.t = t};
    mr_nb_attr(b, name, (mr_attr){MR_ATTR_TENSOR, .tensor = &v});
}

void mr_nb_colocate(mr_node_builder *b, const mr_node *with)
{
    push_class(b, mr_sv_of(mr_arena_printf(&b->arena, "loc:@%s", with->name)));
}

void mr_nb_extra(mr_node_builder *b, mr_sv node_def_fields)
{
    b->extra = (mr_sv){mr_arena_memdup(&b->arena, node_def_fields.p, node_def_fields.n),
                       node_def_fields.n};
}

void mr_nb_internal(mr_node_builder *b) { b->internal = true; }
void mr_nb_client(mr_node_builder *b) { b->client = true; }

/* ---- attrs that inputs determine ---- */

static mr_status *while_building(mr_status *st, const mr_node_builder *b, const mr_op_def *def)
{
    if (!st)
        return NULL;
    mr_str op = {0};
    mr_op_def_print(&op, def);
    st = mr_status_append(st, " while building NodeDef '%s' using %s", b->name, mr_str_z(&op));
    mr_str_deinit(&op);
    return st;
}

static const mr_attr *find_attr(const mr_node_builder *b, const char *name)
{
    for (int i = b->attrs.n - 1; i >= 0; i--) /* the last one set counts */
        if (strcmp(b->attrs.p[i].name, name) == 0)
            return &b->attrs.p[i].v;
    return NULL;
}

/* Sets an attr that follows from inputs; it must agree with a value that was set before. */
static mr_status *learn_attr(mr_node_builder *b, const char *name, const mr_attr *v)
{
    const mr_attr *have = find_attr(b, name);
    if (!have) {
        mr_nb_attr(b, name, *v);
        return NULL;
    }
    if (mr_attr_eq(have, v))
        return NULL;
    mr_str text = {0};
    mr_str_printf(&text, "Inconsistent values for attr '%s' ", name);
    mr_attr_print(&text, have);
    mr_str_appendz(&text, " vs. ");
    mr_attr_print(&text, v);
    mr_status *st = mr_invalid("%s", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

static mr_status *check_input(const mr_arg_def *arg, int type, int expected)
{
    if (arg->is_ref && !mr_dtype_is_ref(type))
        return mr_invalid("Input '%s' passed %s expected ref type", arg->name, mr_dtype_name(type));
    if ((int)mr_dtype_base(type) != expected)
        return mr_invalid("Input '%s' passed %s expected %s", arg->name, mr_dtype_name(type),
                          mr_dtype_name(expected));
    return NULL;
}

/* All inputs of an argument have the same type, which is fixed or determines an attr. */
static mr_status *take_same(mr_node_builder *b, const mr_arg_def *arg, const int *types, int n)
{
    int expected = arg->type ? arg->type : n ? (int)mr_dtype_base(types[0]) : 0;
    for (int i = 0; i < n; i++)
        MR_TRY(check_input(arg, types[i], expected));
    if (arg->number_attr)
        MR_TRY(learn_attr(b, arg->number_attr, &(mr_attr){MR_ATTR_INT, .i = n}));
    if (arg->type_attr && n)
        MR_TRY(learn_attr(b, arg->type_attr, &(mr_attr){MR_ATTR_TYPE, .type = expected}));
    return NULL;
}

/* Each input has its own type: the list of types is the attr. */
static mr_status *take_types(mr_node_builder *b, const mr_arg_def *arg, const int *types, int n)
{
    int *base = mr_arena_array(&b->arena, int, n);
    for (int i = 0; i < n; i++) {
        base[i] = mr_dtype_base(types[i]);
        MR_TRY(check_input(arg, types[i], base[i]));
    }
    mr_attr v = mr_a_types(n, base);
    return learn_attr(b, arg->type_list_attr, &v);
}

/* The number of entries that belong to an argument: one, and for a list the back edges after it, as long as enough
 * entries remain for the following arguments. */
static int entries_of(const mr_node_builder *b, bool is_list, int at, int n_args_behind)
{
    int end = at + 1;
    while (is_list && end < b->entries.n && b->entries.p[end].how == LATER &&
           b->entries.n - end > n_args_behind)
        end++;
    return end - at;
}

/* Entries are assigned to arguments in order, as calls of TF_AddInput and TF_AddInputList are; a list may be empty, but
 * it must be given. */
static mr_status *take_inputs(mr_node_builder *b, const mr_op_def *def)
{
    int at = 0;
    for (int i = 0; i < def->n_in; i++) {
        const mr_arg_def *arg = &def->in[i];
        bool is_list = arg->number_attr || arg->type_list_attr;
        if (at == b->entries.n)
            return mr_invalid("%d inputs specified of %d inputs in Op", at, def->n_in);
        const entry *e = &b->entries.p[at];
        if (is_list && e->how == SINGLE)
            return mr_invalid("Single tensor passed to '%s', expected list", arg->name);
        if (!is_list && e->how == LIST)
            return mr_invalid("List provided to input '%s' when single Tensor expected", arg->name);
        int n_entries = entries_of(b, is_list, at, def->n_in - i - 1);
        const int *types = b->types.p ? b->types.p + e->first : NULL;
        int n = e->n + n_entries - 1;
        MR_TRY(arg->type_list_attr ? take_types(b, arg, types, n) : take_same(b, arg, types, n));
        at += n_entries;
    }
    if (at < b->entries.n)
        return mr_invalid("More than %d inputs given", def->n_in);
    return NULL;
}

/* ---- the draft ---- */

static int by_text(const void *a, const void *b)
{
    const mr_sv *x = a, *y = b;
    int c = memcmp(x->p, y->p, MR_MIN(x->n, y->n));
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* Sorted, without duplicates, as TensorFlow keeps it. */
static void add_classes(mr_node_builder *b)
{
    int n = 0;
    if (!b->classes.n)
        return;
    qsort(b->classes.p, (size_t)b->classes.n, sizeof(mr_sv), by_text);
    for (int i = 0; i < b->classes.n; i++)
        if (n == 0 || !mr_sv_eq(b->classes.p[n - 1], b->classes.p[i]))
            b->classes.p[n++] = b->classes.p[i];
    mr_vec_push(&b->attrs, (mr_named_attr){"_class", mr_a_strs(n, b->classes.p)});
}

static mr_status *check_name(const mr_node_builder *b)
{
    mr_sv name = mr_sv_of(b->name);
    bool ok = b->internal ? mr_name_valid_internal(name) : b->client ? mr_name_valid_client(name) : mr_name_valid_node(name);
    if (!ok)
        return mr_invalid("Node '%s': Node name contains invalid characters", b->name);
    if (mr_graph_find(b->graph, name))
        return mr_invalid("Duplicate node name in graph: '%s'", b->name);
    return NULL;
}

/* Moves attrs to the graph's arena; names that the definition has are shared with it. */
static mr_status *move_attrs(mr_node_builder *b, mr_draft *d)
{
    mr_graph *g = b->graph;
    add_classes(b);
    MR_TRY(mr_named_attrs_sort(b->attrs.p, &b->attrs.n));
    d->n_attrs = b->attrs.n;
    d->attrs = mr_arena_array(&g->arena, mr_named_attr, d->n_attrs);
    for (int i = 0; i < d->n_attrs; i++) {
        const mr_attr_def *known = mr_op_def_attr(d->def, b->attrs.p[i].name);
        d->attrs[i].name = known ? known->name : mr_arena_strdup(&g->arena, b->attrs.p[i].name);
        d->attrs[i].v = mr_attr_copy(&g->arena, &g->held, &b->attrs.p[i].v);
    }
    return mr_draft_attrs(&g->arena, d, false);
}

static mr_status *make_draft(mr_node_builder *b, mr_draft *d)
{
    MR_ASSERT(b->inputs.n == b->types.n);
    mr_graph *g = b->graph;
    *d = (mr_draft){.name = b->name, .placeholders = b->client};
    MR_TRY(mr_draft_def(g, NULL, mr_sv_of(b->op), g->versions.producer, &d->def));
    MR_TRY(while_building(take_inputs(b, d->def), b, d->def));
    MR_TRY(move_attrs(b, d));
    MR_TRY(mr_draft_types(&g->arena, d, b->inputs.n));
    d->name = mr_arena_strdup(&g->arena, b->name);
    d->device = b->device[0] ? mr_arena_strdup(&g->arena, b->device) : "";
    d->extra = (mr_sv){mr_arena_memdup(&g->arena, b->extra.p, b->extra.n), b->extra.n};
    return NULL;
}

static int by_id(const void *a, const void *b)
{
    const mr_node *x = *(mr_node *const *)a, *y = *(mr_node *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

static void link_all(mr_node_builder *b, mr_node *n)
{
    for (int i = 0; i < b->inputs.n; i++)
        if (b->inputs.p[i].node)
            mr_node_link(n, i, b->inputs.p[i]);
    /* Many control inputs are sorted, so that finding duplicates stays cheap; few keep their order.
     */
    bool many = b->controls.n > 64;
    if (many)
        qsort(b->controls.p, (size_t)b->controls.n, sizeof(mr_node *), by_id);
    for (int i = 0; i < b->controls.n; i++) {
        if (!many)
            mr_node_add_control(n, b->controls.p[i]);
        else if (i == 0 || b->controls.p[i] != b->controls.p[i - 1])
            mr_node_push_control(n, b->controls.p[i]);
    }
}

static mr_status *finish_node(mr_node_builder *b, mr_node **out)
{
    mr_draft d;
    mr_node *n;
    if (b->st) {
        mr_status *st = b->st;
        b->st = NULL;
        return st;
    }
    MR_TRY(check_name(b));
    MR_TRY(make_draft(b, &d));
    MR_TRY(mr_draft_make(b->graph, &d, &n));
    link_all(b, n);
    MR_TRY(mr_node_infer(n));
    *out = n;
    return NULL;
}

/* Memory of a failed node stays in the arena until the graph is freed; its nodes, names, edges and tensors are
 * removed. */
mr_status *mr_node_finish(mr_node_builder *b, mr_node **out)
{
    mr_graph *g = b->graph;
    mr_node *n = NULL;
    int n_nodes = g->nodes.n, n_held = g->held.n;
    mr_status *st = finish_node(b, &n);
    if (st)
        mr_graph_truncate(g, n_nodes, n_held);
    if (out)
        *out = n;
    mr_nb_abandon(b);
    return st;
}

/* ---- without a node ---- */

/* An input of this type and shape, or of a known value. */
static mr_out stand_in(mr_scope *s, int type, const mr_pshape *shape, mr_tensor *value)
{
    mr_dtype t = mr_dtype_base(type);
    if (value && value->dtype == t)
        return mr_const(s, mr_tensor_ref(value));
    return mr_placeholder(s, t, "in", shape);
}

mr_status *mr_nb_infer(mr_node_builder *b, mr_graph *scratch, int n_in, const mr_pshape *const *shapes,
                       mr_tensor *const *values, mr_node **out)
{
    mr_graph *own = b->graph;
    mr_draft d = {.name = mr_arena_strdup(&scratch->arena, b->name)};
    mr_scope s;
    mr_node *n = NULL;
    MR_TRY(mr_draft_def(own, NULL, mr_sv_of(b->op), own->versions.producer, &d.def));
    if (!d.def->op || !d.def->op->shape)
        return mr_invalid("No shape inference function exists for op '%s', did you forget to define it?", b->op);
    b->graph = scratch; /* attrs are copied there */
    mr_status *st = move_attrs(b, &d);
    b->graph = own;
    MR_TRY(st);
    MR_TRY(mr_draft_types(&scratch->arena, &d, n_in));
    mr_scope_init(&s, scratch, "inputs");
    mr_out *in = mr_new_array(mr_out, n_in + 1);
    for (int i = 0; i < n_in; i++)
        in[i] = stand_in(&s, d.in_types[i], shapes[i], values ? values[i] : NULL);
    st = mr_scope_status(&s);
    if (!st)
        st = mr_draft_make(scratch, &d, &n);
    for (int i = 0; i < n_in && !st; i++)
        mr_node_link(n, i, in[i]);
    if (!st)
        st = mr_node_infer(n);
    mr_scope_deinit(&s);
    mr_free(in);
    *out = n;
    return st;
}
