/* ops/table_test.c -- our op definitions against the list of TensorFlow's (ops.tsv, if available).
 *
 * Each definition is printed in the notation of that list and compared part by part; named type
 * sets (%S1) are replaced by their members, floats compared as numbers. */
#include "ops/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "graph/op.h"
#include "tests/harness/test.h"

enum { NAME, INPUTS, OUTPUTS, ATTRS, FLAGS, N_COLUMNS };

typedef struct reference {
    char *text;  /* the file, cut at tabs and line ends */
    mr_map sets; /* "%S1" -> "{float,...}" */
    mr_map ops;  /* name -> char *[N_COLUMNS] */
    MR_VEC(char **) rows;
} reference;

static int n_failed;

static void complain(const char *op, const char *what, const char *ours, const char *theirs)
{
    fprintf(stderr, "%s %s\n  ours:   %s\n  theirs: %s\n", op, what, ours, theirs);
    n_failed++;
}

/* ---- reading the list ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = mr_alloc((size_t)n + 1);
    text[fread(text, 1, (size_t)n, f)] = '\0';
    fclose(f);
    return text;
}

static void read_set(reference *r, char *line)
{
    char *name = strchr(line, '%'), *eq = name ? strstr(name, " = ") : NULL;
    if (!eq)
        return;
    *eq = '\0';
    mr_map_putz(&r->sets, name, eq + 3);
}

static void read_op(reference *r, char *line)
{
    char **columns = mr_new_array(char *, N_COLUMNS);
    for (int i = 0; i < N_COLUMNS; i++) {
        columns[i] = line;
        line = strchr(line, '\t');
        MR_CHECK(line);
        *line++ = '\0';
        if (strcmp(columns[i], "-") == 0)
            columns[i] = line - 1; /* empty */
    }
    mr_vec_push(&r->rows, columns);
    mr_map_putz(&r->ops, columns[NAME], columns);
}

static void reference_init(reference *r)
{
    *r = (reference){0};
    r->text = read_file("tests/reference/ops.tsv");
    MR_CHECK(r->text != NULL);
    char *save, *line = strtok_r(r->text, "\n", &save);
    for (; line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "#set ", 5) == 0)
            read_set(r, line);
        else if (line[0] != '#')
            read_op(r, line);
    }
}

static void reference_deinit(reference *r)
{
    for (int i = 0; i < r->rows.n; i++)
        mr_free(r->rows.p[i]);
    mr_vec_deinit(&r->rows);
    mr_map_deinit(&r->sets);
    mr_map_deinit(&r->ops);
    mr_free(r->text);
}

/* ---- printing ours ---- */

static void print_args(mr_str *s, const mr_arg_def *args, int n)
{
    for (int i = 0; i < n; i++) {
        const mr_arg_def *a = &args[i];
        mr_str_printf(s, "%s%s:%s", i ? ", " : "", a->name, a->is_ref ? "&" : "");
        if (a->number_attr)
            mr_str_printf(s, "$%s*", a->number_attr);
        if (a->type_list_attr)
            mr_str_printf(s, "@%s", a->type_list_attr);
        else if (a->type_attr)
            mr_str_printf(s, "$%s", a->type_attr);
        else
            mr_str_appendz(s, mr_dtype_name(mr_dtype_base(a->type)));
    }
}

static void print_string(mr_str *s, mr_sv v)
{
    mr_str_appendc(s, '"');
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] == '\n')
            mr_str_appendz(s, "\\n");
        else if (v.p[i] == '\t')
            mr_str_appendz(s, "\\t");
        else
            mr_str_appendc(s, v.p[i]);
    }
    mr_str_appendc(s, '"');
}

static void print_shape(mr_str *s, const mr_pshape *shape)
{
    if (shape->rank < 0)
        mr_str_appendc(s, '?');
    else
        mr_pshape_print(s, shape);
}

static void print_tensor(mr_str *s, const mr_tensor_attr *v)
{
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_attr_tensor(v, &t));
    mr_str_appendz(s, mr_dtype_name(t->dtype));
    mr_shape_print(s, t->rank, t->dims);
    for (int64_t i = 0; i < t->n; i++) {
        double x = 0;
        mr_dtype_convert((mr_dtype)t->dtype,
                         (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype), MR_DOUBLE,
                         &x, 1, false);
        mr_str_printf(s, "%c%g", i ? ',' : '{', x);
    }
    mr_str_appendc(s, '}');
    mr_tensor_unref(t);
}

static void print_one(mr_str *s, const mr_attr_def *d, const mr_attr *v, int i)
{
    switch (d->kind) {
    case MR_ATTR_STRING: print_string(s, d->is_list ? v->ss[i] : v->s); break;
    case MR_ATTR_INT: mr_str_printf(s, "%lld", (long long)(d->is_list ? v->is[i] : v->i)); break;
    case MR_ATTR_FLOAT: mr_str_printf(s, "%.7g", (double)(d->is_list ? v->fs[i] : v->f)); break;
    case MR_ATTR_BOOL: mr_str_appendz(s, (d->is_list ? v->bs[i] : v->b) ? "true" : "false"); break;
    case MR_ATTR_TYPE: mr_str_appendz(s, mr_dtype_name(d->is_list ? v->types[i] : v->type)); break;
    case MR_ATTR_SHAPE: print_shape(s, d->is_list ? v->shapes[i] : v->shape); break;
    case MR_ATTR_TENSOR: print_tensor(s, d->is_list ? v->tensors[i] : v->tensor); break;
    default: mr_str_appendz(s, "<no notation>"); break;
    }
}

static void print_default(mr_str *s, const mr_attr_def *d)
{
    mr_str_appendc(s, '=');
    if (!d->is_list) {
        print_one(s, d, &d->deflt, 0);
        return;
    }
    mr_str_appendc(s, '[');
    for (int i = 0; i < d->deflt.n; i++) {
        mr_str_appendz(s, i ? "," : "");
        print_one(s, d, &d->deflt, i);
    }
    mr_str_appendc(s, ']');
}

static void print_attr(mr_str *s, const mr_attr_def *d)
{
    mr_str_printf(s, "%s:", d->name);
    mr_attr_type_name(s, d->kind, d->is_list);
    if (d->has_default)
        print_default(s, d);
    for (int i = 0; i < d->n_allowed; i++) {
        mr_str_appendz(s, i ? "," : " in {");
        if (d->kind == MR_ATTR_STRING)
            print_string(s, d->names[i]);
        else
            mr_str_appendz(s, mr_dtype_name(d->types[i]));
    }
    if (d->n_allowed)
        mr_str_appendc(s, '}');
    if (d->has_min)
        mr_str_printf(s, " >=%lld", (long long)d->min);
}

/* ---- comparing ---- */

/* Copies the list's text with %Sn replaced, and floats in our notation. */
static void expand(const reference *r, const char *theirs, mr_str *out)
{
    const char *in_set = strstr(theirs, " in %");
    size_t cut = in_set ? (size_t)(in_set - theirs) + 4 : strlen(theirs);
    mr_str_append(out, theirs, cut);
    if (!in_set)
        return;
    const char *name = theirs + cut;
    size_t n = strcspn(name, " ");
    const char *set = mr_map_get(&r->sets, (mr_sv){name, n});
    mr_str_appendz(out, set ? set : "<unknown set>");
    mr_str_appendz(out, name + n);
}

/* name:float=0.1 and name:float=0.10000000149 are the same. */
static bool same_floats(const char *a, const char *b)
{
    const char *x = strchr(a, '='), *y = strchr(b, '=');
    if (!strstr(a, "float") || !x || !y || x - a != y - b || strncmp(a, b, (size_t)(x - a)) != 0)
        return false;
    do {
        char *ex, *ey;
        x += 1 + (x[1] == '[');
        y += 1 + (y[1] == '[');
        if (strtof(x, &ex) != strtof(y, &ey) || *ex != *ey)
            return false;
        x = ex;
        y = ey;
    } while (*x == ',');
    return strcmp(x, y) == 0;
}

/* Splits an attr list at "; " outside quotes; returns the next part in a new buffer. */
static char *next_attr(const char **rest)
{
    bool in_string = false;
    const char *p = *rest;
    if (!*p)
        return NULL;
    for (; *p && !(!in_string && p[0] == ';' && p[1] == ' '); p++)
        if (*p == '"')
            in_string = !in_string;
    char *part = mr_strndup(*rest, (size_t)(p - *rest));
    *rest = *p ? p + 2 : p;
    return part;
}

static void compare_attrs(const reference *r, const mr_op_def *d, const char *theirs)
{
    int i = 0;
    for (char *part; (part = next_attr(&theirs)); mr_free(part), i++) {
        mr_str ours = {0}, wanted = {0};
        expand(r, part, &wanted);
        if (i < d->n_attrs)
            print_attr(&ours, &d->attrs[i]);
        if (strcmp(mr_str_z(&ours), mr_str_z(&wanted)) != 0 &&
            !same_floats(mr_str_z(&ours), mr_str_z(&wanted)))
            complain(d->name, "attr", mr_str_z(&ours), mr_str_z(&wanted));
        mr_str_deinit(&ours);
        mr_str_deinit(&wanted);
    }
    if (i < d->n_attrs)
        complain(d->name, "attr that should not be", d->attrs[i].name, "");
}

static void compare_args(const char *op, const char *what, const mr_arg_def *args, int n,
                         const char *theirs)
{
    mr_str ours = {0};
    print_args(&ours, args, n);
    if (strcmp(mr_str_z(&ours), theirs) != 0)
        complain(op, what, mr_str_z(&ours), theirs);
    mr_str_deinit(&ours);
}

static bool has_flag(const char *flags, const char *flag)
{
    size_t n = strlen(flag);
    for (const char *p = strstr(flags, flag); p; p = strstr(p + 1, flag))
        if ((p == flags || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
            return true;
    return false;
}

static void compare_flags(const mr_op_def *d, const char *theirs)
{
    static const struct {
        const char *name;
        unsigned flag;
    } flags[] = {{"stateful", MR_STATEFUL},
                 {"commutative", MR_COMMUTATIVE},
                 {"aggregate", MR_AGGREGATE},
                 {"uninit_ok", MR_UNINIT_OK},
                 {"distcomm", MR_DISTCOMM}};
    for (int i = 0; i < MR_COUNT(flags); i++) {
        bool ours = (d->flags & flags[i].flag) != 0, wanted = has_flag(theirs, flags[i].name);
        if (ours != wanted)
            complain(d->name, flags[i].name, ours ? "yes" : "no", wanted ? "yes" : "no");
    }
    const char *deprecated = strstr(theirs, "deprecated>=");
    if (d->deprecated != (deprecated ? atoi(deprecated + 12) : 0))
        complain(d->name, "deprecated", d->deprecated ? "yes" : "no",
                 deprecated ? deprecated : "no");
}

/* The list has the gradients of the C++ registries; ours include those of Python too, so more are accepted. */
static void compare_gradient(const mr_op_def *d, const char *theirs)
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
    bool has = d->op->grad != NULL, stops = d->flags & MR_NO_GRADIENT;
    for (int i = 0; i < MR_COUNT(tier_a); i++)
        has |= tier_a[i].gradient == FLOW && strcmp(tier_a[i].name, d->name) == 0;
    if (!has && (has_flag(theirs, "cgrad") || has_flag(theirs, "fgrad")))
        complain(d->name, "gradient", "no", "yes");
    if (!has && !stops && (has_flag(theirs, "cnograd") || has_flag(theirs, "fnograd")))
        complain(d->name, "gradient", "unknown", "known to have none");
}

MR_TEST(op_table_agrees_with_tensorflow)
{
    reference r;
    reference_init(&r);
    mr_ops_register();
    int n;
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++) {
        char **row = mr_map_getz(&r.ops, all[i]->name);
        if (!row)
            continue; /* an op of our own, or one that the list leaves out */
        compare_args(all[i]->name, "inputs", all[i]->in, all[i]->n_in, row[INPUTS]);
        compare_args(all[i]->name, "outputs", all[i]->out, all[i]->n_out, row[OUTPUTS]);
        compare_attrs(&r, all[i], row[ATTRS]);
        compare_flags(all[i], row[FLAGS]);
        compare_gradient(all[i], row[FLAGS]);
    }
    mr_free(all);
    reference_deinit(&r);
    MR_CHECK_INT(n_failed, 0);
}

MR_TEST(op_table_is_sorted_and_every_definition_parses)
{
    mr_ops_register();
    int n;
    const mr_op_def **all = mr_op_all(&n);
    MR_CHECK(n > 0);
    for (int i = 0; i < n; i++) {
        MR_CHECK(all[i]->op && all[i]->op->sig && all[i]->op->doc);
        if (i > 0)
            MR_CHECK(strcmp(all[i - 1]->name, all[i]->name) < 0);
    }
    mr_free(all);
}
