/* graph/node.c -- queries about a node: its attrs, its arguments, its kind. */
#include "graph/draft.h"

/* ---- attrs ---- */

const mr_attr *mr_node_attr(const mr_node *n, const char *name)
{
    return mr_named_attrs_find(n->attrs, n->n_attrs, name);
}

static mr_status *get_attr(const mr_node *n, const char *name, mr_attr_kind kind, bool is_list,
                           const mr_attr **out)
{
    const mr_attr *v = mr_node_attr(n, name);
    if (!v)
        return mr_error(MR_NOT_FOUND, "No attr named '%s' in NodeDef:\n\t {{node %s}} (op %s)",
                        name, n->name, n->def->name);
    bool empty = v->is_list && v->n == 0;
    if (v->is_list == is_list && (v->kind == kind || empty)) {
        *out = v;
        return NULL;
    }
    mr_str have = {0}, want = {0};
    mr_attr_type_name(&have, v->kind, v->is_list);
    mr_attr_type_name(&want, kind, is_list);
    mr_status *st =
        mr_invalid("AttrValue had value with type '%s' when '%s' expected\n\t for attr '%s'\n\t; "
                   "NodeDef: {{node %s}}",
                   mr_str_z(&have), mr_str_z(&want), name, n->name);
    mr_str_deinit(&have);
    mr_str_deinit(&want);
    return st;
}

mr_status *mr_node_get_int(const mr_node *n, const char *name, int64_t *out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_INT, false, &v));
    *out = v->i;
    return NULL;
}

mr_status *mr_node_get_float(const mr_node *n, const char *name, float *out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_FLOAT, false, &v));
    *out = v->f;
    return NULL;
}

mr_status *mr_node_get_bool(const mr_node *n, const char *name, bool *out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_BOOL, false, &v));
    *out = v->b;
    return NULL;
}

mr_status *mr_node_get_type(const mr_node *n, const char *name, mr_dtype *out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_TYPE, false, &v));
    *out = (mr_dtype)v->type;
    return NULL;
}

mr_status *mr_node_get_str(const mr_node *n, const char *name, mr_sv *out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_STRING, false, &v));
    *out = v->s;
    return NULL;
}

mr_status *mr_node_get_shape(const mr_node *n, const char *name, const mr_pshape **out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_SHAPE, false, &v));
    *out = v->shape;
    return NULL;
}

mr_status *mr_node_get_func(const mr_node *n, const char *name, const mr_func_ref **out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_FUNC, false, &v));
    *out = v->func;
    return NULL;
}

mr_status *mr_node_get_list(const mr_node *n, const char *name, mr_attr_kind kind,
                            const mr_attr **out)
{
    return get_attr(n, name, kind, true, out);
}

mr_status *mr_node_get_tensor(const mr_node *n, const char *name, mr_tensor **out)
{
    const mr_attr *v;
    MR_TRY(get_attr(n, name, MR_ATTR_TENSOR, false, &v));
    mr_status *st = mr_attr_tensor(v->tensor, out);
    return mr_status_append(st, "\n\t for attr '%s'\n\t; NodeDef: {{node %s}}", name, n->name);
}

/* ---- arguments ---- */

static mr_status *arg_range(const mr_node *n, const mr_arg_def *args, int index, int *start, int *count)
{
    int64_t at = 0, size = 0;
    for (int i = 0; i <= index; i++) {
        at += size;
        MR_TRY(mr_arg_count(&args[i], n->attrs, n->n_attrs, &size));
    }
    *start = (int)at;
    *count = (int)size;
    return NULL;
}

mr_status *mr_node_in_range(const mr_node *n, const char *arg, int *start, int *count)
{
    int i = mr_op_def_input(n->def, arg);
    if (i < 0)
        return mr_invalid("Input '%s' not found in op %s of node '%s'", arg, n->def->name, n->name);
    return arg_range(n, n->def->in, i, start, count);
}

mr_status *mr_node_out_range(const mr_node *n, const char *arg, int *start, int *count)
{
    int i = mr_op_def_output(n->def, arg);
    if (i < 0)
        return mr_invalid("Output '%s' not found in op %s of node '%s'", arg, n->def->name,
                          n->name);
    return arg_range(n, n->def->out, i, start, count);
}

/* ---- kinds ---- */

bool mr_node_is(const mr_node *n, const char *op_name)
{
    return strcmp(n->def->name, op_name) == 0;
}

bool mr_node_is_switch(const mr_node *n)
{
    return mr_node_is(n, "Switch") || mr_node_is(n, "RefSwitch") || mr_node_is(n, "_SwitchN");
}

bool mr_node_is_merge(const mr_node *n)
{
    return mr_node_is(n, "Merge") || mr_node_is(n, "RefMerge");
}
bool mr_node_is_enter(const mr_node *n)
{
    return mr_node_is(n, "Enter") || mr_node_is(n, "RefEnter");
}
bool mr_node_is_exit(const mr_node *n) { return mr_node_is(n, "Exit") || mr_node_is(n, "RefExit"); }

bool mr_node_is_next(const mr_node *n)
{
    return mr_node_is(n, "NextIteration") || mr_node_is(n, "RefNextIteration");
}

bool mr_node_is_control_flow(const mr_node *n)
{
    return mr_node_is_switch(n) || mr_node_is_merge(n) || mr_node_is_enter(n) ||
           mr_node_is_exit(n) || mr_node_is_next(n);
}
