/* cli/cmd_ops.c -- `millrace ops`: lists the operations, describes one, or writes the op reference. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/op_page.h"

static const char *markdown; /* the folder for the pages, or NULL */

static void print_line(const char *before, mr_str *s)
{
    printf("%s%s\n", before, mr_str_z(s));
    mr_str_deinit(s);
}

static void print_signature(const mr_op_def *d)
{
    mr_str s = {0};
    mr_op_signature(d, &s);
    print_line("", &s);
}

/* Prints the signature, attributes, kernels, gradient and examples of an op. */
static mr_status *describe_op(const char *name)
{
    const mr_op_def *d = mr_op_find(mr_sv_of(name));
    if (!d)
        return mr_error(MR_NOT_FOUND, "there is no op '%s'; `millrace ops` lists all ops", name);
    print_signature(d);
    if (d->op && d->op->doc)
        printf("  %s\n", d->op->doc);
    for (int i = 0; i < d->n_attrs; i++) {
        mr_str s = {0};
        mr_str_printf(&s, "%s: ", d->attrs[i].name);
        mr_attr_rule(&d->attrs[i], &s);
        print_line("  ", &s);
    }
    mr_str kernels = {0};
    mr_op_devices(d, &kernels);
    print_line("  kernels: ", &kernels);
    printf("  gradient: %s\n", mr_op_gradient(d));
    for (const char *const *e = d->op ? d->op->examples : NULL; e && *e; e++)
        printf("  example: %s\n", *e);
    return NULL;
}

static mr_status *run_ops(int n_args, char **args)
{
    if (markdown && n_args)
        return mr_invalid("--markdown writes all ops; it takes no op (got '%s')", args[0]);
    if (markdown)
        return mr_op_pages_write(markdown);
    if (n_args == 1)
        return describe_op(args[0]);
    int n;
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        print_signature(all[i]);
    mr_free(all);
    return NULL;
}

static const mr_option options[] = {
    {"markdown", MR_OPT_STRING, &markdown, "FOLDER",
     "write the op reference into FOLDER, a page per family (docs/ops/)"},
    {0},
};

MR_COMMAND(ops, .summary = "list the operations, or describe one", .group = MR_COMMANDS_MODEL, .usage = "[OP]",
           .options = options, .max_args = 1, .run = run_ops,
           .about = "Without OP, prints the signature of every operation. With OP, prints its signature, attributes, kernels and "
                    "examples, and whether it has a gradient.");
