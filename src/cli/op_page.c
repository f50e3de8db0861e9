/* cli/op_page.c -- ops described from the registry.
 *
 * The pages of docs/ops/ come from the registry, so they describe what the library does. Only two things are written
 * by hand: one line about each family (below) and the list of TensorFlow's ops (cli/tensorflow_ops.inc).
 * `make docs` writes the pages; `make docs-check` fails if they are out of date. */
#include "cli/op_page.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
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

static bool attr_allows_type(const mr_attr_def *a, int type)
{
    for (int i = 0; i < a->n_allowed; i++)
        if (a->types[i] == type)
            return true;
    return a->n_allowed == 0;
}

/* A kernel that needs further type attrs prints them too: "int32 (Tout float)". */
static void print_kernel(void *ctx, const mr_kernel *k)
{
    rows *r = ctx;
    bool same = r->device && strcmp(r->device, k->device) == 0;
    if (k->type && r->op->key && !attr_allows_type(r->op->key, k->type))
        return; /* kernel lists are shared by many ops and may name types that this op does not allow */
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
    if (!mr_op_absent(d))
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
            return "yes, as part of its loop, conditional or call";
    return d->flags & MR_NO_GRADIENT ? "stops here" : "none";
}

static void print_op(const mr_op_def *d, mr_str *out)
{
    mr_str_printf(out, "\n## %s\n\n    ", d->name);
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
        mr_str_printf(out, "- not allowed in graphs of version %d and later%s%s\n", d->deprecated,
                      d->deprecation_text && d->deprecation_text[0] ? ": " : "",
                      d->deprecation_text ? d->deprecation_text : "");
}

/* ---- families ---- */

static const struct {
    const char *op, *family;
} family_of_op[] = {
#define X(Op, family) {#Op, #family},
#include "op_families.inc"
#undef X
};

static const struct {
    const char *name, *doc;
} families[] = {
    {"absent", "TensorFlow ops without a kernel: graphs with them can be loaded and edited, but running one fails"},
    {"array", "shapes, slicing, gathering, concatenation, padding, transposition, sorting and image resizing"},
    {"audio", "WAV files, spectrograms and MFCC features"},
    {"batch", "collecting the inputs of several calls into one batch"},
    {"collective", "all-reduce, all-gather, broadcast and other operations over a group of devices"},
    {"control", "conditionals, loops, function calls, send and receive, Python functions"},
    {"data", "datasets and iterators"},
    {"debug", "copying and checking tensors for a debugger"},
    {"fft", "Fourier transforms"},
    {"fused", "nodes that the runtime makes of several element-wise ones"},
    {"image", "image files, colours, cropping, bounding boxes and non-maximum suppression"},
    {"io", "files, record readers and checkpoints"},
    {"linalg", "matrix products, solvers and decompositions"},
    {"list", "tensor lists and tensor maps"},
    {"math", "arithmetic, comparison, reduction and special functions"},
    {"nn", "activations, convolution, pooling, normalization, losses and recurrent cells"},
    {"optim", "optimizer updates of dense and sparse variables"},
    {"parse", "decoding of Examples, CSV, JSON, protocol buffers and raw bytes"},
    {"ps", "pull from and push to parameter servers"},
    {"quant", "quantization and simulated quantization"},
    {"queue", "queues, barriers, staging areas and gradient accumulators"},
    {"ragged", "ragged tensors"},
    {"random", "random numbers, shuffling and candidate sampling"},
    {"segment", "reductions over the segments of a tensor"},
    {"sets", "set operations and edit distance"},
    {"sparse", "sparse tensors and sparse matrices"},
    {"state", "variables, tensor arrays, stacks, mutexes and scatter updates"},
    {"string", "strings, regular expressions, hashing and Unicode"},
    {"summary", "summaries for TensorBoard"},
    {"table", "lookup tables"},
};

static const char *family_of(const char *op)
{
    for (int i = 0; i < MR_COUNT(family_of_op); i++)
        if (strcmp(family_of_op[i].op, op) == 0)
            return family_of_op[i].family;
    return "";
}

static int count_ops(const char *family)
{
    int n = 0;
    for (int i = 0; i < MR_COUNT(family_of_op); i++)
        n += strcmp(family_of_op[i].family, family) == 0;
    return n;
}

/* Every op belongs to a family that has a line in the table above. */
static mr_status *check_families(void)
{
    for (int i = 0; i < MR_COUNT(family_of_op); i++) {
        int at = 0;
        while (at < MR_COUNT(families) && strcmp(families[at].name, family_of_op[i].family) != 0)
            at++;
        if (at == MR_COUNT(families))
            return mr_error(MR_INTERNAL, "%s: the op family '%s' has no description; add one to src/cli/op_page.c",
                            family_of_op[i].op, family_of_op[i].family);
    }
    return NULL;
}

static void print_family_table(mr_str *out)
{
    mr_str_appendz(out, "| family | ops | contents |\n|---|---|---|\n");
    for (int i = 0; i < MR_COUNT(families); i++)
        mr_str_printf(out, "| [%s](%s.md) | %d | %s |\n", families[i].name, families[i].name,
                      count_ops(families[i].name), families[i].doc);
}

static void print_family(const char *family, const char *doc, const mr_op_def **all, int n, mr_str *out)
{
    mr_str_printf(out, "# Operations: %s\n\n%c%s.\n\n", family, toupper((unsigned char)doc[0]), doc + 1);
    mr_str_appendz(out, "[All families](README.md). `make docs` generates this page from the op registry.\n");
    for (int i = 0; i < n; i++)
        if (strcmp(family_of(all[i]->name), family) == 0)
            print_op(all[i], out);
}

/* ---- comparison with TensorFlow ---- */

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

static void count_tensorflow_ops(int version, int *all, int *here)
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
    count_tensorflow_ops(IN_1_15, &all_1, &here_1);
    count_tensorflow_ops(IN_2_9, &all_2, &here_2);
    mr_str_printf(out,
                  "| | TensorFlow 1.15 | TensorFlow 2.9 |\n|---|---|---|\n"
                  "| ops | %d | %d |\n| implemented | %d | %d |\n| missing | %d | %d |\n",
                  all_1, all_2, here_1, here_2, all_1 - here_1, all_2 - here_2);
}

/* "[Abs](math.md#abs)": the heading of an op makes the anchor, in lower case. */
static void print_link(const char *op, mr_str *out)
{
    mr_str_printf(out, "[%s](%s.md#", op, family_of(op));
    for (const char *c = op; *c; c++)
        mr_str_appendc(out, (char)tolower((unsigned char)*c));
    mr_str_appendc(out, ')');
}

static void print_comparison(mr_str *out)
{
    mr_str_appendz(out, "# TensorFlow's operations in Millrace\n\n"
                        "Every op of TensorFlow 1.15 and 2.9, the versions that have it, and whether Millrace\n"
                        "implements it. [README.md](README.md) says which ops are left out.\n\n"
                        "| op | 1.15 | 2.9 | Millrace |\n|---|---|---|---|\n");
    for (int i = 0; i < MR_COUNT(tensorflow); i++) {
        const char *name = tensorflow[i].name;
        mr_str_appendz(out, "| ");
        if (mr_op_find(mr_sv_of(name)))
            print_link(name, out);
        else
            mr_str_appendz(out, name);
        mr_str_printf(out, " | %s | %s | %s |\n", tensorflow[i].versions & IN_1_15 ? "x" : "",
                      tensorflow[i].versions & IN_2_9 ? "x" : "", has_kernels(name) ? "x" : "missing");
    }
}

/* ---- the pages ---- */

static void print_index(int n_ops, mr_str *out)
{
    mr_str_printf(out,
                  "# Operations\n\n"
                  "Millrace knows %d operations in %d families; each family has a page. `make docs` generates these\n"
                  "pages from the op registry. `millrace ops` lists the ops on the command line, and\n"
                  "`millrace ops OP` describes one, with examples.\n\n",
                  n_ops, MR_COUNT(families));
    print_family_table(out);
    mr_str_appendz(out,
                   "\n## Fields of an op\n\n"
                   "- The signature: inputs and outputs with their types. `N * T` is a list of N tensors of type T.\n"
                   "- The attributes, with the values they allow and their default.\n"
                   "- `kernels`: the devices that run the op, and the element types on each. `any` stands for every\n"
                   "  type that the attributes allow.\n"
                   "- `gradient`: `yes`; `stops here` if backpropagation ends at the op without an error; `none` if\n"
                   "  asking for a gradient through the op is an error.\n\n"
                   "## Coverage of TensorFlow\n\n");
    print_counts(out);
    mr_str_appendz(out,
                   "\n[tensorflow.md](tensorflow.md) lists them one by one. These ops are not counted:\n\n"
                   "- ops for TPUs, XLA, cuDNN, NCCL and Hexagon\n"
                   "- ops of the tf.data service and of boosted trees\n"
                   "- fused quantized ops\n"
                   "- the aliases `Experimental...`\n");
}

/* Writes FOLDER/NAME.md and empties the text for the next page. */
static mr_status *write_page(const char *folder, const char *name, mr_str *text)
{
    mr_str path = {0};
    mr_str_printf(&path, "%s/%s.md", folder, name);
    mr_status *st = mr_file_write_all(mr_str_z(&path), mr_str_view(text));
    mr_str_deinit(&path);
    mr_str_deinit(text);
    return st;
}

mr_status *mr_op_pages_write(const char *folder)
{
    MR_TRY(check_families());
    MR_TRY(mr_dir_make(folder));
    int n;
    const mr_op_def **all = mr_op_all(&n);
    mr_str text = {0};
    mr_status *st = NULL;
    print_index(n, &text);
    MR_GO(write_page(folder, "README", &text));
    print_comparison(&text);
    MR_GO(write_page(folder, "tensorflow", &text));
    for (int i = 0; i < MR_COUNT(families); i++) {
        print_family(families[i].name, families[i].doc, all, n, &text);
        MR_GO(write_page(folder, families[i].name, &text));
    }
out:
    mr_free(all);
    return st;
}
