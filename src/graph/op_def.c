/* graph/op_def.c -- queries, checks and prints parsed op definitions.
 *
 * Whatever created it (op_text.c from an op's text, op_def_wire.c from an OpDef), mr_op_def_finish has checked it last:
 * names are unique and sorted through the *_order arrays, each argument is exactly one of a fixed type, a type attr or
 * a list of types, whose attrs exist and are of the right kind, and defaults are valid values. */
#include "graph/op.h"

#include <stdlib.h>

#include "base/memory.h"

/* ---- lookup ---- */

/* Arguments and attrs both begin with their name, so one search serves both. */
static const char *name_at(const void *items, size_t item_bytes, int i)
{
    return *(const char *const *)((const char *)items + (size_t)i * item_bytes);
}

static int search_sorted(const void *items, size_t item_bytes, const int *order, int n, const char *name)
{
    int low = 0, high = n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        int c = strcmp(name, name_at(items, item_bytes, order[mid]));
        if (c == 0)
            return order[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

const mr_attr_def *mr_op_def_attr(const mr_op_def *d, const char *name)
{
    int i = search_sorted(d->attrs, sizeof(d->attrs[0]), d->attr_order, d->n_attrs, name);
    return i < 0 ? NULL : &d->attrs[i];
}

int mr_op_def_input(const mr_op_def *d, const char *name)
{
    return search_sorted(d->in, sizeof(d->in[0]), d->in_order, d->n_in, name);
}

int mr_op_def_output(const mr_op_def *d, const char *name)
{
    return search_sorted(d->out, sizeof(d->out[0]), d->out_order, d->n_out, name);
}

/* ---- checks ---- */

typedef struct sort_entry {
    const char *name;
    int index;
} sort_entry;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const sort_entry *)a)->name, ((const sort_entry *)b)->name);
}

static mr_status *sort_names(mr_arena *a, const mr_op_def *d, const char *what, const void *items,
                             size_t item_bytes, int n, const int **out)
{
    mr_status *st = NULL;
    sort_entry *e = mr_try_calloc((size_t)n, sizeof(*e));
    int *order = mr_arena_try_array(a, int, n);
    if (!e || !order)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Op '%s': no memory for %d %ss", d->name, n, what));
    for (int i = 0; i < n; i++)
        e[i] = (sort_entry){name_at(items, item_bytes, i), i};
    qsort(e, (size_t)n, sizeof(*e), by_name);
    for (int i = 0; i < n; i++) {
        order[i] = e[i].index;
        if (!e[i].name[0])
            MR_GO(mr_invalid("Op '%s': an %s has no name", d->name, what));
        if (i > 0 && strcmp(e[i].name, e[i - 1].name) == 0)
            MR_GO(mr_invalid("Op '%s': duplicate %s '%s'", d->name, what, e[i].name));
    }
    *out = order;
out:
    mr_free(e);
    return st;
}

static mr_status *check_ref(const mr_op_def *d, const mr_arg_def *arg, const char *attr,
                            mr_attr_kind kind, bool is_list)
{
    const mr_attr_def *a = mr_op_def_attr(d, attr);
    if (!a)
        return mr_invalid("Op '%s': argument '%s' refers to unknown attr '%s'", d->name, arg->name,
                          attr);
    if (a->kind != kind || a->is_list != is_list)
        return mr_invalid("Op '%s': argument '%s' refers to attr '%s', which has the wrong type",
                          d->name, arg->name, attr);
    return NULL;
}

static mr_status *check_arg(const mr_op_def *d, const mr_arg_def *arg)
{
    int n_ways = (arg->type != 0) + (arg->type_attr != NULL) + (arg->type_list_attr != NULL);
    if (n_ways != 1)
        return mr_invalid(
            "Op '%s': argument '%s' must have exactly one of a type, a type attr and a list of "
            "types",
            d->name, arg->name);
    if (arg->type && !mr_dtype_valid(arg->type))
        return mr_invalid("Op '%s': argument '%s' has invalid type %d", d->name, arg->name,
                          arg->type);
    if (arg->type_attr)
        MR_TRY(check_ref(d, arg, arg->type_attr, MR_ATTR_TYPE, false));
    if (arg->type_list_attr) {
        if (arg->number_attr)
            return mr_invalid("Op '%s': argument '%s' has both a number and a list of types",
                              d->name, arg->name);
        MR_TRY(check_ref(d, arg, arg->type_list_attr, MR_ATTR_TYPE, true));
    }
    if (arg->number_attr)
        MR_TRY(check_ref(d, arg, arg->number_attr, MR_ATTR_INT, false));
    return NULL;
}

/* Nodes use defaults without checking them, so they must be valid. */
static mr_status *check_default(const mr_op_def *d, const mr_attr_def *a)
{
    mr_status *st = a->has_default ? mr_attr_def_check(a, &a->deflt) : NULL;
    return mr_status_prepend(st, "Op '%s', default of attr '%s': ", d->name, a->name);
}

mr_status *mr_op_def_finish(mr_arena *a, mr_op_def *d)
{
    if (!d->name || !d->name[0])
        return mr_invalid("Op definition has no name");
    MR_TRY(sort_names(a, d, "attr", d->attrs, sizeof(d->attrs[0]), d->n_attrs, &d->attr_order));
    MR_TRY(sort_names(a, d, "input", d->in, sizeof(d->in[0]), d->n_in, &d->in_order));
    MR_TRY(sort_names(a, d, "output", d->out, sizeof(d->out[0]), d->n_out, &d->out_order));
    for (int i = 0; i < d->n_attrs; i++)
        MR_TRY(check_default(d, &d->attrs[i]));
    for (int i = 0; i < d->n_in; i++)
        MR_TRY(check_arg(d, &d->in[i]));
    for (int i = 0; i < d->n_out; i++)
        MR_TRY(check_arg(d, &d->out[i]));
    return NULL;
}

/* ---- printing, in the form TensorFlow's messages have ---- */

static void print_args(mr_str *out, const mr_arg_def *args, int n)
{
    for (int i = 0; i < n; i++) {
        const mr_arg_def *a = &args[i];
        mr_str_printf(out, "%s%s:%s", i ? ", " : "", a->name, a->is_ref ? "Ref(" : "");
        if (a->number_attr)
            mr_str_printf(out, "%s*", a->number_attr);
        mr_str_appendz(out, a->type_attr        ? a->type_attr
                            : a->type_list_attr ? a->type_list_attr
                                                : mr_dtype_name(a->type));
        if (a->is_ref)
            mr_str_appendc(out, ')');
    }
}

static void print_attr_def(mr_str *out, const mr_attr_def *a)
{
    mr_str_printf(out, "%s:", a->name);
    mr_attr_type_name(out, a->kind, a->is_list);
    if (a->has_default) {
        mr_str_appendz(out, ",default=");
        mr_attr_print(out, &a->deflt);
    }
    if (a->has_min)
        mr_str_printf(out, ",min=%lld", (long long)a->min);
    if (a->n_allowed) {
        mr_attr all = {.kind = a->kind, .is_list = true, .n = a->n_allowed};
        if (a->kind == MR_ATTR_TYPE)
            all.types = a->types;
        else
            all.ss = a->names;
        mr_str_appendz(out, ",allowed=");
        mr_attr_print(out, &all);
    }
}

void mr_op_def_print(mr_str *out, const mr_op_def *d)
{
    mr_str_printf(out, "Op<name=%s; signature=", d->name);
    print_args(out, d->in, d->n_in);
    mr_str_appendz(out, " -> ");
    print_args(out, d->out, d->n_out);
    for (int i = 0; i < d->n_attrs; i++) {
        mr_str_appendz(out, "; attr=");
        print_attr_def(out, &d->attrs[i]);
    }
    if (d->flags & MR_STATEFUL)
        mr_str_appendz(out, "; is_stateful=true");
    mr_str_appendc(out, '>');
}
