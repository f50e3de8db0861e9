/* cli/op_page.c -- ops described from the registry.
 *
 * Nothing here is written by hand but the list of TensorFlow's ops, so the page cannot say other
 * than the library does; `make test` compares docs/ops.md with it. */
#include "cli/op_page.h"

#include <ctype.h>
#include <string.h>

#include "ops/absent.h"

/* ---- one op ---- */

static void print_arg(const mr_arg_def *a, mr_str *out)
{
    mr_str_printf(out, "%s: %s", a->name, a->is_ref ? "Ref(" : "");
    if (a->number_attr)
        mr_str_printf(out, "%s * ", a->number_attr);
    mr_str_appendz(out, a->type_list_attr ? a->type_list_attr
                        : a->type_attr    ? a->type_attr
                                          : mr_dtype_name(mr_dtype_base(a->type)));
    mr_str_appendz(out, a->is_ref ? ")" : "");
}

static void print_args(const mr_arg_def *args, int n, mr_str *out)
{
    mr_str_appendc(out, '(');
    for (int i = 0; i < n; i++) {
        mr_str_appendz(out, i ? ", " : "");
        print_arg(&args[i], out);
    }
    mr_str_appendc(out, ')');
}

void mr_op_signature(const mr_op_def *d, mr_str *out)
{
    mr_str_appendz(out, d->name);
    print_args(d->in, d->n_in, out);
    mr_str_appendz(out, " -> ");
    print_args(d->out, d->n_out, out);
}

void mr_attr_rule(const mr_attr_def *a, mr_str *out)
{
    mr_attr_type_name(out, a->kind, a->is_list);
    for (int i = 0; i < a->n_allowed; i++) {
        mr_sv one = a->types ? mr_sv_of(mr_dtype_name(a->types[i])) : a->names[i];
        mr_str_printf(out, "%s%.*s", i ? ", " : " in {", MR_SV_ARG(one));
    }
    if (a->n_allowed)
        mr_str_appendc(out, '}');
    if (a->has_min)
        mr_str_printf(out, " >= %lld", (long long)a->min);
    if (a->has_default) {
        mr_str_appendz(out, " = ");
        mr_attr_print(out, &a->deflt);
    }
}

typedef struct rows { /* kernels seen so far */
    mr_str *out;
    const mr_op_def *op;
    const char *device; /* of the last one */
    int n;
} rows;

static bool allows(const mr_attr_def *a, int type)
{
    for (int i = 0; i < a->n_allowed; i++)
        if (a->types[i] == type)
            return true;
    return a->n_allowed == 0;
}

/* A kernel for pairs of types tells both. */
static void print_kernel(void *ctx, const mr_kernel *k)
{
    rows *r = ctx;
    bool same = r->device && strcmp(r->device, k->device) == 0;
    if (k->type && r->op->key && !allows(r->op->key, k->type))
        return; /* a list of types that many ops share may say more than this one's attrs */
    if (!same)
        mr_str_printf(r->out, "%s%s: ", r->n ? "; " : "", k->device);
    mr_str_printf(r->out, "%s%s", same ? ", " : "", k->type ? mr_dtype_name(k->type) : "any");
    for (const mr_named_attr *c = k->constraints; c && c->name; c++)
        mr_str_printf(r->out, " (%s %s)", c->name, mr_dtype_name(c->v.type));
    r->device = k->device;
    r->n++;
}

void mr_op_devices(const mr_op_def *d, mr_str *out)
{
    rows r = {out, d, NULL, 0};
    mr_kernel_each(d, print_kernel, &r);
    if (r.n == 0)
        mr_str_appendz(out, "none");
}

const char *mr_op_gradient(const mr_op_def *d)
{
    enum { NONE, STOP, GRAD, FLOW };
    static const struct {
        const char *name;
        int gradient;
    } tier_a[] = {
#define X(Name, gradient) {#Name, gradient},
#include "ops/tier_a.inc"
#undef X
    };
    if (d->op && d->op->grad)
        return "yes";
    for (int i = 0; i < MR_COUNT(tier_a); i++)
        if (tier_a[i].gradient == FLOW && strcmp(tier_a[i].name, d->name) == 0)
            return "yes, that of its loop, conditional or call";
    return d->flags & MR_NO_GRADIENT ? "none flows" : "none";
}

static void print_op(const mr_op_def *d, mr_str *out)
{
    mr_str_printf(out, "\n### %s\n\n    ", d->name);
    mr_op_signature(d, out);
    const char *doc = d->op && d->op->doc ? d->op->doc : "";
    mr_str_printf(out, "\n\n%c%s.\n\n", toupper((unsigned char)doc[0]), doc[0] ? doc + 1 : "");
    for (int i = 0; i < d->n_attrs; i++) {
        mr_str_printf(out, "- `%s`: `", d->attrs[i].name);
        mr_attr_rule(&d->attrs[i], out);
        mr_str_appendz(out, "`\n");
    }
    mr_str_appendz(out, "- kernels: ");
    mr_op_devices(d, out);
    mr_str_printf(out, "\n- gradient: %s\n", mr_op_gradient(d));
    if (d->deprecated)
        mr_str_printf(out, "- refused in graphs of version %d and later%s%s\n", d->deprecated,
                      d->deprecation_text && d->deprecation_text[0] ? ": " : "",
                      d->deprecation_text ? d->deprecation_text : "");
}

/* ---- beside TensorFlow ---- */

enum { IN_1_15 = 1, IN_2_9 = 2 };

static const struct {
    const char *name;
    int versions;
} tensorflow[] = {
#define X(Name, versions) {#Name, versions},
#include "cli/tensorflow_ops.inc"
#undef X
};

static bool has_kernels(const char *name)
{
    const mr_op_def *d = mr_op_find(mr_sv_of(name));
    return d && !mr_op_absent(d);
}

static void count(int version, int *all, int *here)
{
    *all = *here = 0;
    for (int i = 0; i < MR_COUNT(tensorflow); i++) {
        bool counts = tensorflow[i].versions & version;
        *all += counts;
        *here += counts && has_kernels(tensorflow[i].name);
    }
}

static void print_counts(mr_str *out)
{
    int all_1, here_1, all_2, here_2;
    count(IN_1_15, &all_1, &here_1);
    count(IN_2_9, &all_2, &here_2);
    mr_str_printf(out,
                  "| | TensorFlow 1.15 | TensorFlow 2.9 |\n|---|---|---|\n"
                  "| ops | %d | %d |\n| here | %d | %d |\n| missing | %d | %d |\n",
                  all_1, all_2, here_1, here_2, all_1 - here_1, all_2 - here_2);
}

static void print_comparison(mr_str *out)
{
    mr_str_appendz(out, "\n| op | 1.15 | 2.9 | here |\n|---|---|---|---|\n");
    for (int i = 0; i < MR_COUNT(tensorflow); i++) {
        const char *name = tensorflow[i].name;
        bool here = has_kernels(name);
        mr_str_printf(out, "| %s | %s | %s | %s |\n", name,
                      tensorflow[i].versions & IN_1_15 ? "x" : "",
                      tensorflow[i].versions & IN_2_9 ? "x" : "", here ? "x" : "missing");
    }
}

void mr_op_page(mr_str *out)
{
    int n;
    const mr_op_def **all = mr_op_all(&n);
    mr_str_printf(
        out,
        "# The %d operations\n\n"
        "Made from the registry by `make docs`; `millrace ops OP` tells the same of one op, "
        "with examples.\nA kernel for `any` type runs in all that the attrs allow.\n\n"
        "## Beside TensorFlow\n\n",
        n);
    print_counts(out);
    mr_str_appendz(
        out, "\nNot counted are ops for TPUs, XLA, cuDNN, NCCL and Hexagon, of data services and "
             "boosted trees,\nfused quantized ones, and the second names `Experimental...`.\n");
    print_comparison(out);
    mr_str_appendz(out, "\n## Each of them\n");
    for (int i = 0; i < n; i++)
        print_op(all[i], out);
    mr_free(all);
}
