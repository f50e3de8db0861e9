/* graph/draft.c -- checks a node against its op's definition, with TensorFlow's error messages.
 *
 * Attrs of the node and of the definition are both sorted by name, so completing and checking them
 * is one walk along both lists, whatever their length. */
#include "graph/draft.h"

#include "base/memory.h"
#include "graph/library.h"

/* Adds the node to an error message, as TensorFlow does. */
static mr_status *at_node(mr_status *st, const mr_draft *d)
{
    if (!st)
        return NULL;
    mr_str op = {0};
    mr_op_def_print(&op, d->def);
    st = mr_status_append(st, "; NodeDef: {{node %s}}; %s", d->name, mr_str_z(&op));
    mr_str_deinit(&op);
    return st;
}

/* ---- which op ---- The producer version of a graph tells how old it is. Ops that were removed from TensorFlow remain
 * available to old graphs, but not to newer ones. */

static mr_status *check_deprecation(const mr_op_def *d, int producer)
{
    if (!d->deprecated || producer < d->deprecated)
        return NULL;
    return mr_error(
        MR_UNIMPLEMENTED,
        "Op %s is not available in GraphDef version %d. It has been removed in version %d. %s.",
        d->name, producer, d->deprecated,
        d->deprecation_text ? d->deprecation_text : "Use a newer op instead");
}

mr_status *mr_draft_def(const mr_graph *g, const mr_library *more, mr_sv op, int producer, const mr_op_def **out)
{
    const mr_op_def *d = mr_library_op(g->library, op);
    if (!d && more) {
        const mr_function *f = mr_library_find(more, op);
        d = f ? &f->def : NULL;
    }
    if (!d)
        return mr_op_unknown(op);
    MR_TRY(check_deprecation(d, producer));
    *out = d;
    return NULL;
}

/* ---- all attrs ---- */

/* Whether a value is probably the default of an unknown attr. */
static bool says_nothing(const mr_attr *v)
{
    if (v->is_list)
        return v->n == 0;
    switch (v->kind) {
    case MR_ATTR_NONE: return true;
    case MR_ATTR_STRING: return v->s.n == 0;
    case MR_ATTR_INT: return v->i == 0;
    case MR_ATTR_FLOAT: return v->f == 0;
    case MR_ATTR_BOOL: return !v->b;
    case MR_ATTR_SHAPE: return v->shape->rank < 0;
    default: return false;
    }
}

static mr_status *missing_attr(const mr_attr_def *def)
{
    return mr_invalid("NodeDef missing attr '%s'", def->name);
}

/* Attrs that begin with '_' belong to the code that set them and are not checked. */
static mr_status *check_unknown(const mr_named_attr *a, bool drop_unknown, bool *keep)
{
    *keep = a->name[0] == '_';
    if (*keep || (drop_unknown && says_nothing(&a->v)))
        return NULL;
    return mr_invalid(
        "NodeDef mentions attr '%s' not in the op's definition (check whether your "
        "GraphDef-interpreting binary is up to date with your GraphDef-generating binary)",
        a->name);
}

static bool tells_types(const mr_arg_def *args, int n, const char *attr)
{
    for (int i = 0; i < n; i++) {
        const char *by[] = {args[i].number_attr, args[i].type_attr, args[i].type_list_attr};
        for (int k = 0; k < MR_COUNT(by); k++)
            if (by[k] && strcmp(by[k], attr) == 0)
                return true;
    }
    return false;
}

/* The types of inputs and outputs must be known from the start. */
static mr_status *check_value(const mr_draft *d, const mr_attr_def *want, const mr_attr *v)
{
    if (v->kind != MR_ATTR_PLACEHOLDER || !d->placeholders)
        return mr_attr_def_check(want, v);
    if (tells_types(d->def->in, d->def->n_in, want->name) || tells_types(d->def->out, d->def->n_out, want->name))
        return mr_invalid("AttrValue had value with unexpected type 'placeholder'\n\t for attr '%s'", want->name);
    return NULL;
}

/* Merges the node's attrs with the definition's, both sorted by name. */
mr_status *mr_draft_attrs(mr_arena *a, mr_draft *d, bool drop_unknown)
{
    const mr_op_def *def = d->def;
    mr_named_attr *all = mr_arena_try_array(a, mr_named_attr, d->n_attrs + def->n_attrs);
    if (!all)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the attrs of node '%s'", d->name);
    int n = 0, i = 0, k = 0; /* in all, in the node's attrs, in the definition's */
    while (i < d->n_attrs || k < def->n_attrs) {
        const mr_attr_def *want = k < def->n_attrs ? &def->attrs[def->attr_order[k]] : NULL;
        int c = i == d->n_attrs ? 1 : !want ? -1 : strcmp(d->attrs[i].name, want->name);
        if (c < 0) {
            bool keep;
            MR_TRY(at_node(check_unknown(&d->attrs[i], drop_unknown, &keep), d));
            if (keep)
                all[n++] = d->attrs[i];
            i++;
        } else if (c > 0) {
            if (!want->has_default)
                return at_node(missing_attr(want), d);
            all[n++] = (mr_named_attr){want->name, want->deflt};
            k++;
        } else {
            MR_TRY(at_node(check_value(d, want, &d->attrs[i].v), d));
            all[n++] = d->attrs[i];
            i++, k++;
        }
    }
    d->attrs = all;
    d->n_attrs = n;
    return NULL;
}

/* ---- types ---- */

mr_status *mr_arg_count(const mr_arg_def *arg, const mr_named_attr *attrs, int n_attrs,
                        int64_t *out)
{
    const char *name = arg->number_attr ? arg->number_attr : arg->type_list_attr;
    *out = 1;
    if (!name)
        return NULL;
    const mr_attr *v = mr_named_attrs_find(attrs, n_attrs, name);
    MR_ENSURE(v && v->is_list == !arg->number_attr);
    *out = v->is_list ? v->n : v->i;
    if (*out < 0)
        return mr_invalid("Value for number_attr() %lld < 0", (long long)*out);
    return NULL;
}

/* In 64 bits, because the numbers come from attrs and may have any value. */
static mr_status *count_args(const mr_draft *d, const mr_arg_def *args, int n, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        int64_t count;
        MR_TRY(mr_arg_count(&args[i], d->attrs, d->n_attrs, &count));
        if (!mr_i64_add(*out, count, out))
            *out = INT64_MAX; /* more than any node may have: the caller rejects it */
    }
    return NULL;
}

/* Appends the types of an argument; count_args has ensured that there is room. */
static mr_status *push_types(const mr_draft *d, const mr_arg_def *arg, int *types, int *n)
{
    int64_t count;
    int ref = arg->is_ref ? MR_REF_OFFSET : 0;
    MR_TRY(mr_arg_count(arg, d->attrs, d->n_attrs, &count));
    const char *name = arg->type_list_attr ? arg->type_list_attr : arg->type_attr;
    const mr_attr *v = name ? mr_named_attrs_find(d->attrs, d->n_attrs, name) : NULL;
    MR_ENSURE(!name || v);
    for (int64_t i = 0; i < count; i++)
        types[(*n)++] = (v ? v->is_list ? v->types[i] : v->type : arg->type) + ref;
    return NULL;
}

static mr_status *make_types(mr_arena *a, const mr_draft *d, const mr_arg_def *args, int n_args,
                             int n, int **out)
{
    int filled = 0;
    *out = mr_arena_try_array(a, int, n);
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the %d types of node '%s'", n,
                        d->name);
    for (int i = 0; i < n_args; i++)
        MR_TRY(push_types(d, &args[i], *out, &filled));
    MR_ENSURE(filled == n);
    return NULL;
}

/* TensorFlow's message, which lists the types that the op takes. */
static mr_status *wrong_inputs(mr_arena *a, const mr_draft *d, int64_t want, int n_in)
{
    enum { MOST = 1000 }; /* a hostile count does not produce a long message */
    int *types = NULL;
    mr_str text = {0};
    if (want > MOST)
        return at_node(mr_invalid("NodeDef expected %lld inputs but %d are given", (long long)want, n_in), d);
    MR_TRY(make_types(a, d, d->def->in, d->def->n_in, (int)want, &types));
    mr_str_appendz(&text, "NodeDef expected inputs '");
    for (int i = 0; i < want; i++)
        mr_str_printf(&text, "%s%s", i ? ", " : "", mr_dtype_name(types[i]));
    mr_str_printf(&text, "' do not match %d inputs specified; ", n_in);
    mr_op_def_print(&text, d->def);
    mr_str_printf(&text, "; NodeDef: {{node %s}}", d->name);
    mr_status *st = mr_invalid("%s", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

mr_status *mr_draft_types(mr_arena *a, mr_draft *d, int n_in)
{
    const mr_op_def *def = d->def;
    int64_t want, n_out;
    MR_TRY(at_node(count_args(d, def->in, def->n_in, &want), d));
    MR_TRY(at_node(count_args(d, def->out, def->n_out, &n_out), d));
    if (want != n_in)
        return wrong_inputs(a, d, want, n_in);
    if (n_out > MR_MAX_OUTPUTS)
        return at_node(mr_invalid("Number of outputs is too big: %lld", (long long)n_out), d);
    d->n_in = n_in; /* both are known to be small now, so arrays can be allocated */
    d->n_out = (int)n_out;
    MR_TRY(make_types(a, d, def->in, def->n_in, d->n_in, &d->in_types));
    return make_types(a, d, def->out, def->n_out, d->n_out, &d->out_types);
}

bool mr_types_fit(int expected, int actual)
{
    /* A reference may be used as a value, but not a value as a reference. */
    return expected == actual || expected == (int)mr_dtype_base(actual);
}
