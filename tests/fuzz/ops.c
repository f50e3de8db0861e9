/* tests/fuzz/ops.c -- every op with inputs and attrs it never asked for.
 *
 * A run takes one example of one op (ops/example.h), in some type, and changes what it gives: other
 * values, shapes and types of inputs, more or fewer of them, attrs inside and outside of what the
 * op allows, inputs known as constants or only by a part of their shape.  Most runs stay near the
 * example and succeed; some leave nothing of it.  Setting-up steps (a variable, a queue) run as
 * written.
 *
 * A run that succeeds has to keep three promises: the outputs have the types declared and shapes
 * that agree with those inferred; the outputs depend on the inputs alone, not on what was in fresh
 * memory before; and they are the same when the kernel may write over its inputs.  And all tensor
 * memory is given back. */
#include <stdlib.h>

#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "graph/infer.h"
#include "ops/table.h"
#include "ops/trial_test.h"
#include "run/run.h"
#include "tests/fuzz/values.h"

enum { MEMORY_LIMIT = 8 << 20, PATIENCE_MS = 10, MAX_TYPES = 64 };

/* Counts of an op. */
enum { RUNS, BUILT, SUCCEEDED, N_COUNTS };

typedef struct subject { /* an op under test */
    const mr_op_def *def;
    int n_examples, n_types;
    mr_example **examples;
    mr_dtype types[MAX_TYPES]; /* of its key attr; none: one MR_INVALID */
} subject;

static subject *subjects;
static int n_subjects;
static mr_arena examples_arena;

/* ---- memory: limited, and dirty in a way that is known ---- */

static uint8_t dirt; /* what fresh memory is filled with */

static void *dirty_alloc(mr_allocator *a, size_t bytes)
{
    (void)a;
    mr_allocator *cpu = mr_cpu_allocator();
    void *p = cpu->alloc(cpu, bytes);
    if (p)
        memset(p, dirt, bytes);
    return p;
}

static void dirty_free(mr_allocator *a, void *p, size_t bytes)
{
    (void)a;
    mr_allocator *cpu = mr_cpu_allocator();
    cpu->free(cpu, p, bytes);
}

static mr_allocator dirty = {"dirty", dirty_alloc, dirty_free, NULL, NULL, true};

/* ---- the subjects ---- */

/* Examples that leave files behind, so they are not among the op's own.  A child runs in a folder
 * of its own. */
static const struct {
    const char *op, *text;
} more_examples[] = {
#define SAVE "SaveV2 dtypes=[float]: \"c\", [\"a\"], [\"\"], (float[1, 2])"
    {"SaveV2", "dtypes=[float, string]: \"c\", [\"a\", \"b\"], [\"\", \"\"], (float[1, 2], "
               "string[\"x\"]) -> ?"},
    {"SaveV2", "dtypes=[float]: \"c\", [\"a\"], [\"4 0,2\"], (float[1, 2]) -> ?"},
    {"RestoreV2", SAVE "; dtypes=[float]: \"c\", [\"a\"], [\"\"] -> [1, 2]"},
    {"RestoreV2", SAVE "; dtypes=[float]: \"c\", [\"a\"], [\"2 1,1\"] -> [2]"},
    {"MergeV2Checkpoints", SAVE "; [\"c\"], \"d\" -> ?"},
#undef SAVE
};

static void add_example(subject *s, const char *text)
{
    s->examples = mr_realloc(s->examples, (size_t)(s->n_examples + 1) * sizeof(*s->examples));
    fuzz_must(mr_example_parse(&examples_arena, text, &s->examples[s->n_examples++]), s->def->name);
}

static void add_subject(const mr_op_def *d)
{
    subject *s = &subjects[n_subjects];
    *s = (subject){.def = d};
    if (mr_trial_excuse(d->name))
        return;
    for (int i = 0; d->op->examples && d->op->examples[i]; i++)
        add_example(s, d->op->examples[i]);
    for (int i = 0; i < MR_COUNT(more_examples); i++)
        if (strcmp(more_examples[i].op, d->name) == 0)
            add_example(s, more_examples[i].text);
    s->n_types = mr_trial_types(d, s->types, MAX_TYPES);
    if (s->n_types == 0)
        s->types[s->n_types++] = MR_INVALID;
    n_subjects += s->n_examples > 0;
}

static mr_status *evaluate(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    return mr_eval_node(n, NULL, in, out);
}

static void prepare(void)
{
    int n;
    if (subjects)
        return;
    mr_ops_register();
    fuzz_must(mr_op_check_all(), "the table of ops");
    mr_infer_set_evaluator(evaluate);
    mr_eval_set_patience(PATIENCE_MS);
    mr_arena_init(&examples_arena, 0);
    const mr_op_def **all = mr_op_all(&n);
    subjects = mr_new_array(subject, n);
    for (int i = 0; i < n; i++)
        add_subject(all[i]);
    mr_free(all);
}

/* A thousand for each op, when that is more. */
static int64_t n_runs(void) { return MR_MAX(200000, 1000 * (int64_t)n_subjects); }
static int n_counts(void) { return n_subjects * N_COUNTS; }

/* ---- changes ---- */

typedef struct op_run {
    fuzz_run *r;
    const subject *s;
    mr_trial *trial;
    unsigned wildness; /* 0: the example itself, 1: near it, 2: anything */
    mr_tensor_vec held;
    int64_t *counts;
    mr_str what; /* for people */
} op_run;

static bool changes(op_run *x, unsigned once_in)
{
    return x->wildness > 0 && fuzz_once_in(&x->r->rng, x->wildness > 1 ? 2 : once_in);
}

static void replace(mr_trial_input *in, mr_tensor *t)
{
    mr_tensor_unref(in->t);
    *in = (mr_trial_input){MR_NO_OUT, t};
}

/* A list argument: one item more, or fewer. */
static void change_length(op_run *x, mr_trial_inputs *in, int start)
{
    if (in->n > start && fuzz_once_in(&x->r->rng, 2)) {
        mr_tensor_unref(mr_vec_pop(in).t);
    } else if (in->n > start) {
        mr_trial_input last = mr_vec_last(in);
        mr_tensor_ref(last.t);
        mr_vec_push(in, last);
    }
}

static void change_inputs(void *ctx, const mr_arg_def *arg, mr_trial_inputs *in, int start)
{
    op_run *x = ctx;
    bool list = arg->number_attr || arg->type_list_attr;
    if (list && changes(x, 6))
        change_length(x, in, start);
    for (int i = start; i < in->n; i++) {
        bool handle = in->p[i].t->dtype == MR_RESOURCE || in->p[i].t->dtype == MR_VARIANT;
        if (changes(x, handle ? 20 : 3))
            replace(&in->p[i], fuzz_tensor_like(&x->r->rng, in->p[i].t));
    }
    for (int i = start; i < in->n; i++)
        mr_str_printf(&x->what, " %s=%s%s", arg->name, mr_dtype_name(in->p[i].t->dtype),
                      MR_TENSOR_SHAPE(in->p[i].t));
}

/* Attrs that the inputs determine are left to them, mostly: any other value is refused at once. */
static bool told_by_inputs(const mr_op_def *d, const char *attr)
{
    for (int i = 0; i < d->n_in; i++) {
        const mr_arg_def *a = &d->in[i];
        if ((a->type_attr && strcmp(a->type_attr, attr) == 0) ||
            (a->number_attr && strcmp(a->number_attr, attr) == 0) ||
            (a->type_list_attr && strcmp(a->type_list_attr, attr) == 0))
            return true;
    }
    return false;
}

static void change_attrs(void *ctx, const mr_op_def *d, mr_node_builder *b)
{
    op_run *x = ctx;
    for (int i = 0; i < d->n_attrs; i++) {
        if (!changes(x, told_by_inputs(d, d->attrs[i].name) ? 60 : 4))
            continue;
        mr_attr v = fuzz_attr(&x->r->rng, &x->trial->arena, &d->attrs[i], &x->held);
        mr_str_printf(&x->what, " %s:", d->attrs[i].name);
        mr_attr_print(&x->what, &v);
        mr_nb_attr(b, d->attrs[i].name, v);
    }
}

static const mr_pshape *choose_placeholder(void *ctx, const mr_tensor *t)
{
    op_run *x = ctx;
    fuzz_rng *r = &x->r->rng;
    if (fuzz_once_in(r, 2) && t->dtype != MR_RESOURCE && t->dtype != MR_VARIANT)
        return NULL;
    if (x->wildness > 0 && fuzz_once_in(r, 20)) /* a declared shape that is not that of the value */
        return fuzz_pshape(r, &x->trial->graph->arena);
    return fuzz_pshape_of(r, &x->trial->graph->arena, t->rank, t->dims);
}

/* ---- promises ---- */

static bool fed_as_declared(const mr_node *n, const mr_trial_step *s)
{
    mr_arena a;
    bool ok = true;
    mr_arena_init(&a, 0);
    for (int i = 0; i < n->n_in && ok; i++)
        ok = !s->in[i] || mr_pshape_compatible(mr_out_shape(n->in[i]),
                                               mr_pshape_of(&a, s->in[i]->rank, s->in[i]->dims));
    mr_arena_deinit(&a);
    return ok;
}

static void check_outputs(op_run *x, const mr_trial_step *s)
{
    const mr_node *n = s->node;
    mr_arena a;
    if (mr_node_is(n, "PlaceholderWithDefault")) /* its shape is the client's promise */
        return;
    mr_arena_init(&a, 0);
    for (int i = 0; i < n->n_out; i++) {
        const mr_tensor *t = s->out[i];
        if (!t)
            continue; /* dead */
        if (t->dtype != mr_dtype_base(n->out_types[i]))
            fuzz_fail("%s: output %d is %s, declared %s;%s", n->def->name, i,
                      mr_dtype_name(t->dtype), mr_dtype_name(n->out_types[i]), mr_str_z(&x->what));
        if (!mr_pshape_compatible(n->out_shapes[i], mr_pshape_of(&a, t->rank, t->dims)))
            fuzz_fail("%s: output %d has shape %s, inferred was %s;%s", n->def->name, i,
                      MR_TENSOR_SHAPE(t), MR_PSHAPE_TEXT(n->out_shapes[i]), mr_str_z(&x->what));
    }
    mr_arena_deinit(&a);
}

static bool is_pure(const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (mr_dtype_is_ref(n->in_types[i]) || n->in_types[i] == MR_RESOURCE ||
            n->in_types[i] == MR_VARIANT)
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (mr_dtype_is_ref(n->out_types[i]) || n->out_types[i] == MR_RESOURCE ||
            n->out_types[i] == MR_VARIANT)
            return false;
    return !(n->def->flags & MR_STATEFUL);
}

/* Bits that nobody set differ between two runs in differently dirty memory. */
static void compare_outputs(op_run *x, const mr_trial_step *s, mr_tensor **again, const char *when)
{
    for (int i = 0; i < s->n_out; i++)
        if ((s->out[i] != NULL) != (again[i] != NULL) ||
            (s->out[i] && !mr_tensor_equal(s->out[i], again[i])))
            fuzz_fail("%s: output %d differs %s;%s", s->node->def->name, i, when,
                      mr_str_z(&x->what));
}

static void run_again(op_run *x, const mr_trial_step *s, bool in_place)
{
    const mr_node *n = s->node;
    mr_tensor **in = mr_new_array(mr_tensor *, n->n_in + 1),
              **out = mr_new_array(mr_tensor *, n->n_out + 1);
    for (int i = 0; i < n->n_in; i++) {
        in[i] = mr_tensor_ref(s->in[i]);
        if (in_place && in[i]) {
            mr_tensor_unref(in[i]);
            fuzz_must(mr_tensor_copy(NULL, s->in[i], &in[i]), "copy");
        }
    }
    dirt = (uint8_t)~dirt;
    mr_status *st = mr_eval_node_take(n, x->trial->device, in, out);
    const char *when =
        in_place ? "when it may write over its inputs" : "with what was in memory before";
    if (st)
        fuzz_fail("%s: %s, second time: %s;%s", n->def->name, when, mr_status_message(st),
                  mr_str_z(&x->what));
    compare_outputs(x, s, out, when);
    for (int i = 0; i < n->n_out; i++)
        mr_tensor_unref(out[i]);
    mr_free(in);
    mr_free(out);
}

static mr_status *run_last(void *ctx, mr_trial_step *s)
{
    op_run *x = ctx;
    x->counts[BUILT]++;
    fuzz_notef(x->r, "%s%s\n", x->s->def->name, mr_str_z(&x->what));
    dirt = (uint8_t)fuzz_u64(&x->r->rng);
    mr_status *st = mr_eval_node(s->node, x->trial->device, s->in, s->out);
    if (st)
        return st;
    x->counts[SUCCEEDED]++;
    if (fed_as_declared(s->node, s))
        check_outputs(x, s);
    if (is_pure(s->node) && fuzz_once_in(&x->r->rng, 2))
        run_again(x, s, fuzz_once_in(&x->r->rng, 2));
    return NULL;
}

/* ---- a run ---- */

static void run_trial(op_run *x, const mr_example *e, mr_dtype key)
{
    mr_trial t;
    mr_trial_hooks hooks = {change_inputs, change_attrs, choose_placeholder, run_last, x};
    mr_allocator *budget = mr_budget_new(&dirty, "fuzz", MEMORY_LIMIT);
    mr_allocator_stats stats;
    mr_trial_init(&t, x->s->def, e, key, MR_TRIAL_CONST);
    t.hooks = &hooks;
    t.device->alloc = budget;
    x->trial = &t;
    mr_status *st = mr_trial_steps(&t);
    fuzz_say(x->r, "%s%s: %s%s", x->s->def->name, mr_str_z(&x->what),
             t.skipped ? "skipped" : mr_code_name(mr_status_code(st)), mr_status_message(st));
    mr_status_free(st);
    mr_trial_deinit(&t);
    mr_allocator_get_stats(budget, &stats);
    if (stats.in_use)
        fuzz_fail("%s: %lld bytes of tensors are lost;%s", x->s->def->name, (long long)stats.in_use,
                  mr_str_z(&x->what));
    mr_budget_free(budget);
}

static void run(fuzz_run *r)
{
    int at = (int)(r->number % n_subjects); /* each op as often as any other */
    const subject *s = &subjects[at];
    static const uint8_t wildness[] = {0, 1, 1, 1, 1, 1, 1, 1, 2, 2};
    op_run x = {.r = r,
                .s = s,
                .wildness = fuzz_pick(&r->rng, wildness),
                .counts = r->counts + at * N_COUNTS};
    const mr_example *e = s->examples[fuzz_below(&r->rng, (uint64_t)s->n_examples)];
    mr_dtype key = s->types[fuzz_below(&r->rng, (uint64_t)s->n_types)];
    x.counts[RUNS]++;
    fuzz_notef(r, "%s %s\n", s->def->name, mr_dtype_name(key));
    run_trial(&x, e, key);
    for (int i = 0; i < x.held.n; i++)
        mr_tensor_unref(x.held.p[i]);
    mr_vec_deinit(&x.held);
    mr_str_deinit(&x.what);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    int64_t sum[N_COUNTS] = {0}, least = INT64_MAX;
    int n_never = 0;
    for (int i = 0; i < n_subjects; i++) {
        const int64_t *c = counts + i * N_COUNTS;
        for (int k = 0; k < N_COUNTS; k++)
            sum[k] += c[k];
        least = MR_MIN(least, c[RUNS]);
        if (c[SUCCEEDED] > 0 || c[RUNS] < 100)
            continue;
        n_never++;
        if (err)
            fprintf(err, "fuzz ops: %s never succeeded in %lld runs (%lld built)\n",
                    subjects[i].def->name, (long long)c[RUNS], (long long)c[BUILT]);
    }
    fprintf(
        out,
        "ops %d least_runs_an_op %lld built_percent %.1f succeeded_percent %.1f never_succeeded %d",
        n_subjects, (long long)least, 100.0 * (double)sum[BUILT] / (double)runs,
        100.0 * (double)sum[SUCCEEDED] / (double)runs, n_never);
    return true;
}

const fuzz_target fuzz_ops = {.name = "ops",
                              .about = "every op with changed examples",
                              .prepare = prepare,
                              .n_runs = n_runs,
                              .n_counts = n_counts,
                              .run = run,
                              .summary = summary};
