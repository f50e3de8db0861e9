/* cli/cmd_ops.c -- `millrace ops`: which operations there are, and what one of them takes and gives. */
#include <stdio.h>

#include "cli/command.h"
#include "graph/op.h"

static void print_arg(const mr_arg_def *a, bool first)
{
    printf("%s%s: ", first ? "" : ", ", a->name);
    if (a->is_ref)
        printf("Ref(");
    if (a->number_attr)
        printf("%s * ", a->number_attr);
    printf("%s", a->type_list_attr ? a->type_list_attr : a->type_attr ? a->type_attr : mr_dtype_name(a->type));
    if (a->is_ref)
        printf(")");
}

static void print_signature(const mr_op_def *d)
{
    printf("%s(", d->name);
    for (int i = 0; i < d->n_in; i++)
        print_arg(&d->in[i], i == 0);
    printf(") -> (");
    for (int i = 0; i < d->n_out; i++)
        print_arg(&d->out[i], i == 0);
    printf(")\n");
}

static void print_attr(const mr_attr_def *a)
{
    mr_str s = {0};
    mr_attr_type_name(&s, a->kind, a->is_list);
    for (int i = 0; i < a->n_allowed; i++) {
        mr_sv one = a->types ? mr_sv_of(mr_dtype_name(a->types[i])) : a->names[i];
        mr_str_printf(&s, "%s%.*s", i ? ", " : " in {", MR_SV_ARG(one));
    }
    if (a->n_allowed)
        mr_str_appendc(&s, '}');
    if (a->has_min)
        mr_str_printf(&s, " >= %lld", (long long)a->min);
    if (a->has_default) {
        mr_str_appendz(&s, " = ");
        mr_attr_print(&s, &a->deflt);
    }
    printf("  %s: %s\n", a->name, mr_str_z(&s));
    mr_str_deinit(&s);
}

static void print_kernel(void *ctx, const mr_kernel *k)
{
    int *n = ctx;
    printf("%s%s:%s", (*n)++ ? " " : "  kernels: ", k->device, k->type ? mr_dtype_name(k->type) : "any");
}

static mr_status *describe(const char *name)
{
    const mr_op_def *d = mr_op_find(mr_sv_of(name));
    int n = 0;
    if (!d)
        return mr_error(MR_NOT_FOUND, "there is no op '%s'; `millrace ops` lists them", name);
    print_signature(d);
    if (d->op && d->op->doc)
        printf("  %s\n", d->op->doc);
    for (int i = 0; i < d->n_attrs; i++)
        print_attr(&d->attrs[i]);
    mr_kernel_each(d, print_kernel, &n);
    printf("%s  gradient: %s\n", n ? "\n" : "", d->op && d->op->grad ? "yes" : "none");
    for (const char *const *e = d->op ? d->op->examples : NULL; e && *e; e++)
        printf("  example: %s\n", *e);
    return NULL;
}

static mr_status *ops(int n_args, char **args)
{
    if (n_args == 1)
        return describe(args[0]);
    int n;
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        print_signature(all[i]);
    mr_free(all);
    return NULL;
}

MR_COMMAND(ops, .summary = "list the operations, or describe one", .usage = "[OP]", .max_args = 1, .run = ops);
