/* ops/example_tier_test.c -- checks that the ops of tier A, which no graph can do without, lack nothing.
 *
 * tier_a.inc lists them. The test prints what is missing, op by op and type by type, then fails. Each exception has
 * a reason beside it, and an exception that is no longer needed fails too.
 *
 * Types are tried, not looked up, because a kernel for any type may still refuse one. Every combination of the
 * types that the signature allows is forced on the op's examples, until one of them runs. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "ops/table.h"
#include "ops/example_fixture.h"
#include "tests/harness/test.h"

enum { NONE, STOP, GRAD, FLOW };

typedef struct tier_op {
    const char *name;
    int gradient;
} tier_op;

static const tier_op tier_a[] = {
#define X(Name, gradient) {#Name, gradient},
#include "ops/tier_a.inc"
#undef X
};

static int n_lacking;

/* Prints only the first line of the detail. */
static void lacks(const char *op, const char *what, const char *detail)
{
    fprintf(stderr, "%s lacks %s%s%.*s\n", op, what, detail ? ": " : "",
            detail ? (int)strcspn(detail, "\n") : 0, detail ? detail : "");
    n_lacking++;
}

static void end_of_walk(void)
{
    if (n_lacking > 0)
        mr_test_fail(__FILE__, __LINE__, "%d things are lacking", n_lacking);
}

static void each(void (*fn)(const tier_op *t, const mr_op_def *d))
{
    mr_ops_register();
    for (int i = 0; i < MR_COUNT(tier_a); i++) {
        const mr_op_def *d = mr_op_find(mr_sv_of(tier_a[i].name));
        if (d)
            fn(&tier_a[i], d);
    }
    end_of_walk();
}

/* ---- registration ---- */

MR_TEST(tier_a_is_registered)
{
    mr_ops_register();
    for (int i = 0; i < MR_COUNT(tier_a); i++)
        if (!mr_op_find(mr_sv_of(tier_a[i].name)))
            lacks(tier_a[i].name, "registration", NULL);
    end_of_walk();
}

/* Compares with the list of TensorFlow's ops by tier: lines of op, tab and tier. */
MR_TEST(tier_a_is_all_of_the_list)
{
    char line[200];
    FILE *f = fopen("tests/reference/op_priority.tsv", "r");
    int n = 0;
    MR_CHECK(f != NULL);
    while (fgets(line, sizeof line, f)) {
        char *tab = strchr(line, '\t');
        if (line[0] == '#' || !tab || strcmp(tab, "\tA\n") != 0)
            continue;
        *tab = '\0';
        bool listed = false;
        for (int i = 0; i < MR_COUNT(tier_a); i++)
            listed |= strcmp(tier_a[i].name, line) == 0;
        if (!listed)
            lacks(line, "a line in tier_a.inc", NULL);
        n++;
    }
    fclose(f);
    end_of_walk();
    MR_CHECK_INT(n, MR_COUNT(tier_a));
}

/* ---- shapes, examples ---- */

static void check_shape(const tier_op *t, const mr_op_def *d)
{
    if (!d->op->shape && d->n_out > 0)
        lacks(t->name, "a shape function", NULL);
}

MR_TEST(tier_a_has_shape_functions) { each(check_shape); }

/* The fuzzer starts from examples (tests/fuzz/ops.c), so an op with one is a target. */
static void check_examples(const tier_op *t, const mr_op_def *d)
{
    bool there = d->op->examples && d->op->examples[0];
    if (!there && !mr_trial_excuse(t->name))
        lacks(t->name, "an example, and so a fuzz target", NULL);
    if (there && mr_trial_excuse(t->name))
        lacks(t->name, "no example, but has an excuse for that", NULL);
}

MR_TEST(tier_a_has_examples) { each(check_examples); }

/* ---- gradients ---- */

static void check_gradient(const tier_op *t, const mr_op_def *d)
{
    if (t->gradient == GRAD && !d->op->grad)
        lacks(t->name, "a gradient", NULL);
    if (t->gradient == FLOW && d->op->grad)
        lacks(t->name, "sense: a gradient that the walk back has of its own", NULL);
    if (t->gradient == STOP && !(d->flags & MR_NO_GRADIENT) && !d->op->grad)
        lacks(t->name, "a word that it has no gradient", NULL);
    if (t->gradient != GRAD && d->op->grad && (d->flags & MR_NO_GRADIENT))
        lacks(t->name, "sense: a gradient, and said to have none", NULL);
}

MR_TEST(tier_a_has_gradients) { each(check_gradient); }

/* ---- types ---- */

enum { MAX_ATTRS = 8, MAX_TYPES = 32, LAST_TYPE = MR_UINT64 };

/* Types that an op's signature lists although they have no meaning for it. TensorFlow has no kernel for them
 * either, except for variants. */
#define INTEGERS "int8 int16 int32 int64 uint8 uint16 uint32 uint64 qint8 quint8 qint32"
#define COMPLEXES "complex64 complex128"
#define NO_ORDER "complex numbers have no order"
static const struct type_exception {
    const char *op; /* perhaps a pattern */
    const char *types, *reason;
} type_exceptions[] = {
    {"*Apply*", INTEGERS, "a rate or a root below one is zero in an integer"},
    {"*ApplyAdaMax", COMPLEXES, NO_ORDER},
    {"*ApplyAdagradDA", COMPLEXES, NO_ORDER},
    {"*ApplyAdamWithAmsgrad", COMPLEXES, NO_ORDER},
    {"*ApplyFtrl*", COMPLEXES, NO_ORDER},
    {"*ApplyProximal*", COMPLEXES, NO_ORDER},
    {"*Apply*Sign", COMPLEXES, NO_ORDER},
    {"ArgMax", COMPLEXES, NO_ORDER},
    {"ArgMin", COMPLEXES, NO_ORDER},
    {"AssignAddVariableOp", "bool string resource variant", "cannot be added"},
    {"AssignSubVariableOp", "bool string resource variant", "cannot be subtracted"},
    {"*Cast", "string resource variant", "is no number"},
    {"ClipByValue", COMPLEXES, NO_ORDER},
    {"Conj", "variant", "no variant with a conjugate exists: lists of tensors are not here yet"},
    {"Equal", "resource variant", "handles have no value to compare"},
    {"FloorDiv", COMPLEXES, "a complex quotient has no floor"},
    {"ListDiff", "resource variant", "handles have no value to compare"},
    {"MirrorPadGrad", "string resource variant", "cannot be added"},
    {"NotEqual", "resource variant", "handles have no value to compare"},
    {"RestoreV2", "resource variant", "a handle outlives no process, so no checkpoint holds one"},
    {"SaveV2", "resource variant", "a handle outlives no process, so no checkpoint holds one"},
    {"ScatterNd", "resource variant", "cannot be added, as rows named twice are"},
    {"TruncateDiv", COMPLEXES, "a complex quotient cannot be cut"},
    {"Unique", "resource variant", "handles have no value to compare"},
    {"ZerosLike", "resource", "a handle has no zero"},
#include "ops/tier_exceptions_data.inc"
#include "ops/tier_exceptions_fn.inc"
#include "ops/tier_exceptions_image.inc"
#include "ops/tier_exceptions_io.inc"
#include "ops/tier_exceptions_math.inc"
#include "ops/tier_exceptions_nn.inc"
#include "ops/tier_exceptions_sparse.inc"
#include "ops/tier_exceptions_str.inc"
};
static bool exception_used[MR_COUNT(type_exceptions)];

/* Ops whose types depend on those of the nodes before them in an example: forcing the op's types alone does not fit. */
static const struct {
    const char *op, *reason;
} not_forced[] = {
    {"*Dataset*", "output_types says what the dataset before gives; elements pass as they are: see the test of that"},
    {"*IteratorGetNext*", "output_types says what the dataset gives; elements pass as they are"},
    {"_FusedElementwise", "the types are those of the nodes in its body"},
    {"_ListToArray", "the types of both lists must be the same"},
    {"_ArrayToList", "the types of both lists must be the same"},
    {"TensorMapLookup", "the key must be in the map, which another node made"},
    {"TensorMapErase", "the key must be in the map, which another node made"},
    {"_ScopedAllocator[CS]*", "the buffer was made by another node"},
    {"_FusedUpdate", "its types are those of the nodes in its body"},
};

static bool cannot_be_forced(const char *op)
{
    for (int i = 0; i < MR_COUNT(not_forced); i++)
        if (fnmatch(not_forced[i].op, op, 0) == 0)
            return true;
    return false;
}

/* Further examples to try; the op's own examples must leave no files behind. */
static const struct {
    const char *op, *text;
} more_examples[] = {
#define SAVE "SaveV2 dtypes=[float]: \"c\", [\"a\"], [\"\"], (float[1, 2])"
    {"RestoreV2", SAVE "; dtypes=[float]: \"c\", [\"a\"], [\"\"] -> [1, 2]"},
    {"SaveV2", "dtypes=[float]: \"c\", [\"a\"], [\"\"], (float[1, 2]) ->"},
#undef SAVE
};

typedef struct type_attr {
    const mr_attr_def *def;
    int n;
    int types[MAX_TYPES];
} type_attr;

typedef struct combination {
    const mr_op_def *op;
    int n_attrs;
    type_attr attrs[MAX_ATTRS];
    mr_named_attr forced[MAX_ATTRS + 1];
    bool tried; /* some example expects success */
} combination;

/* Types later than those of TensorFlow 2.9 (float8, int4) are in none of its signatures. */
static void collect_types(type_attr *a, const mr_attr_def *def)
{
    a->def = def;
    for (int i = 0; i < def->n_allowed && a->n < MAX_TYPES; i++)
        a->types[a->n++] = def->types[i];
    for (int t = 1; t <= LAST_TYPE && def->n_allowed == 0; t++)
        if (mr_dtype_valid(t))
            a->types[a->n++] = t;
}

static void collect_attrs(combination *c, const mr_op_def *d)
{
    *c = (combination){.op = d};
    for (int i = 0; i < d->n_attrs; i++)
        if (d->attrs[i].kind == MR_ATTR_TYPE && c->n_attrs < MAX_ATTRS)
            collect_types(&c->attrs[c->n_attrs++], &d->attrs[i]);
    for (int i = 0; i < c->n_attrs; i++)
        c->forced[i].name = c->attrs[i].def->name;
}

static mr_dtype key_of(const combination *c)
{
    for (int i = 0; i < c->n_attrs; i++)
        if (c->attrs[i].def == c->op->key)
            return (mr_dtype)c->forced[i].v.type;
    return MR_INVALID;
}

/* Runs one example with these types; false if it fails, then *why gets the reason. */
static bool try_example(combination *c, const char *text, mr_status **why)
{
    mr_arena a;
    mr_example *e;
    mr_trial t;
    bool ran = false;
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_example_parse(&a, text, &e));
    if (!e->fails) {
        c->tried = true;
        mr_trial_init(&t, c->op, e, key_of(c), MR_TRIAL_CONST);
        t.forced = c->forced;
        mr_status_free(*why);
        *why = mr_trial_steps(&t);
        ran = !*why && !t.skipped;
        mr_trial_deinit(&t);
    }
    mr_arena_deinit(&a);
    return ran;
}

static void print_types(const combination *c, mr_str *out)
{
    for (int i = 0; i < c->n_attrs; i++)
        mr_str_printf(out, "%s%s=%s", i ? " " : "", c->forced[i].name,
                      mr_dtype_name(c->forced[i].v.type));
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = strstr(words, word); p; p = strstr(p + 1, word))
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

static bool is_exception(const combination *c)
{
    for (int i = 0; i < MR_COUNT(type_exceptions); i++)
        for (int k = 0; k < c->n_attrs && fnmatch(type_exceptions[i].op, c->op->name, 0) == 0; k++)
            if (has_word(type_exceptions[i].types, mr_dtype_name(c->forced[k].v.type)))
                return exception_used[i] = true;
    return false;
}

/* A combination that does not run must be reported as in TensorFlow: no kernel for these types, or an error that
 * names the op and the type. A TensorFlow kernel that refuses a type itself returns INVALID_ARGUMENT
 * (GuaranteeConst of a resource). */
static bool is_told(const combination *c, const mr_status *why)
{
    const char *text = mr_status_message(why);
    bool told = mr_status_code(why) == MR_NOT_FOUND &&
                strstr(text, "No OpKernel was registered to support Op") &&
                strstr(text, c->op->name);
    bool refused = mr_status_code(why) == MR_UNIMPLEMENTED || mr_status_code(why) == MR_INVALID_ARGUMENT;
    for (int i = 0; i < c->n_attrs && refused; i++)
        told |= strstr(text, mr_dtype_name(c->forced[i].v.type)) != NULL;
    return told;
}

/* For ops whose examples all show errors (a reference to nothing): checks that a kernel exists. */
static void find_kernel(void *ctx, const mr_kernel *k)
{
    combination *c = ctx;
    if (strcmp(k->device, "CPU") == 0 && (!k->type || k->type == (int)key_of(c)))
        c->tried = true;
}

static bool runs(combination *c, mr_status **why)
{
    bool ran = false;
    c->tried = false;
    for (const char *const *x = c->op->op->examples; x && *x && !ran; x++)
        ran = try_example(c, *x, why);
    for (int i = 0; i < MR_COUNT(more_examples) && !ran; i++)
        if (strcmp(more_examples[i].op, c->op->name) == 0)
            ran = try_example(c, more_examples[i].text, why);
    if (c->tried)
        return ran;
    mr_kernel_each(c->op, find_kernel, c);
    return c->tried;
}

static void try_types(combination *c)
{
    mr_status *why = NULL;
    if (!runs(c, &why)) {
        mr_str what = {0};
        print_types(c, &what);
        if (!is_exception(c))
            lacks(c->op->name, mr_str_z(&what), why ? mr_status_message(why) : "no kernel");
        else if (!is_told(c, why))
            lacks(c->op->name, "a clear answer", mr_status_message(why));
        mr_str_deinit(&what);
    }
    mr_status_free(why);
}

static void try_all(combination *c, int at)
{
    if (at == c->n_attrs) {
        try_types(c);
        return;
    }
    for (int i = 0; i < c->attrs[at].n; i++) {
        c->forced[at].v = mr_a_type(c->attrs[at].types[i]);
        try_all(c, at + 1);
    }
}

static void check_types(const mr_op_def *d)
{
    combination c;
    collect_attrs(&c, d);
    if (c.n_attrs > 0 && !cannot_be_forced(d->name))
        try_all(&c, 0);
}

/* Includes the ops outside tier A. */
MR_TEST(ops_run_in_every_type_of_their_signature)
{
    int n;
    mr_ops_register();
    mr_test_deadline(120);
    MR_CHECK_INT(chdir(mr_test_dir()), 0);
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        check_types(all[i]);
    mr_free(all);
    for (int i = 0; i < MR_COUNT(type_exceptions); i++)
        if (!exception_used[i])
            lacks(type_exceptions[i].op, "nothing, but is an exception", type_exceptions[i].types);
    end_of_walk();
}

/* ---- elements of datasets ---- */

/* Datasets that only take or give elements of these types. */
static const struct {
    const char *op, *types, *reason;
} few_types[] = {
    {"DirectedInterleaveDataset", "int64", "in its example the numbers of datasets and their elements are the same"},
    {"UniqueDataset", "int32 int64 string", "TensorFlow compares these"},
    {"WindowDataset", "variant", "gives datasets"},
};

static bool is_passed(const char *op, mr_dtype t)
{
    for (int i = 0; i < MR_COUNT(few_types); i++)
        if (strcmp(few_types[i].op, op) == 0)
            return has_word(few_types[i].types, mr_dtype_name(t));
    return true;
}

/* Prints "output_types=[..]" with the same number of unknown shapes. */
static void print_element(mr_str *out, const char *types, const char *end)
{
    mr_str_printf(out, "%.*s output_shapes=[?", (int)(end - types), types);
    for (const char *p = types; p < end; p++)
        if (*p == ',')
            mr_str_printf(out, ", ?");
    mr_str_printf(out, "]");
}

/* Rewrites an example of a dataset over a range to one over rows of any type, and takes one element of it; false
 * for other examples. */
static bool over_rows(const mr_op_def *d, const char *text, mr_str *out)
{
    const char *range = strstr(text, " = RangeDataset "), *first = strchr(text, ';'), *last = strrchr(text, ';');
    const char *arrow = last ? strstr(last, " -> shape()") : NULL, *types = last ? strstr(last, "output_types=[") : NULL;
    if (!range || range > first || !arrow || !types)
        return false;
    const char *end = strchr(types, ']') + 1;
    mr_str_printf(out, "%.*s = TensorSliceDataset output_shapes=[[]]: ([1, 0, 1, 1, 0, 0, 1, 0, 1, 1]);%.*s x = %s%.*s; t = TakeDataset ",
                  (int)(range - text), text, (int)(last - first), first + 1, d->name, (int)(arrow - last - 1), last + 1);
    print_element(out, types, end);
    mr_str_printf(out, ": x, 1; ");
    print_element(out, types, end);
    mr_str_printf(out, ": t -> ?");
    return true;
}

/* True if there was an element: some examples have none. */
static bool pass_type(const mr_op_def *d, const char *text, mr_dtype t)
{
    combination c;
    mr_status *why = NULL;
    collect_attrs(&c, mr_op_find(MR_SV("DatasetToSingleElement")));
    c.forced[0].v = mr_a_type(t);
    bool ran = try_example(&c, text, &why), empty = why && strstr(mr_status_message(why), "Dataset was empty.");
    if (!empty && ran != is_passed(d->name, t))
        lacks(d->name, mr_dtype_name(t), why ? mr_status_message(why) : "it should not pass");
    mr_status_free(why);
    return !empty;
}

/* The number of types that work, over all examples. */
static int pass_types(const mr_op_def *d)
{
    mr_str text = {0};
    int n = 0;
    for (const char *const *x = d->op->examples; x && *x; x++) {
        mr_str_clear(&text);
        if (!over_rows(d, *x, &text))
            continue;
        for (int t = 1; t <= LAST_TYPE; t++)
            if (mr_dtype_valid(t))
                n += pass_type(d, mr_str_z(&text), (mr_dtype)t);
    }
    mr_str_deinit(&text);
    return n;
}

MR_TEST(datasets_pass_elements_of_every_type)
{
    enum { LEAST = 30, TYPES = 20 };
    int n, n_tried = 0;
    mr_ops_register();
    mr_test_deadline(120);
    MR_CHECK_INT(chdir(mr_test_dir()), 0);
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        if (fnmatch("*Dataset*", all[i]->name, 0) == 0)
            n_tried += pass_types(all[i]) >= TYPES;
    mr_free(all);
    end_of_walk();
    MR_CHECK(n_tried >= LEAST);
}
