/* tests/fuzz/ops.c -- runs every op with unexpected inputs and attrs.
 *
 * A run takes one example of one op (ops/example.h), in some type, and changes its inputs: other values, shapes and
 * types of inputs, more or fewer of them, attrs inside and outside of what the op allows, inputs known as constants or
 * only by a part of their shape. Most runs stay near the example and succeed; some change everything. Setting-up steps
 * (a variable, a queue) run as written. Ops that cannot be run alone come with a scene (scenes.h), which a session
 * runs; some runs of all others go through a session too.
 *
 * Every registered op is a subject; it is a failure if one of them ran less often than LEAST_RUNS (if that many runs
 * were requested), or never reached its kernel.
 *
 * A run that succeeds must satisfy three conditions: the outputs have the types declared and shapes that agree with
 * those inferred; the outputs depend only on the inputs, not on the contents of fresh memory; and they are the same if
 * the kernel may overwrite its inputs. All tensor memory must be released. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/simd.h"
#include "graph/infer.h"
#include "ops/table.h"
#include "run/run.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/op_session.h"
#include "tests/fuzz/scenes.h"
#include "tests/fuzz/subjects.h"
#include "tests/fuzz/values.h"

enum { TOTAL_RUNS = 2000000, LEAST_RUNS = 1000 };
enum { MOST_WAITS = 2000, WAIT_US = 1000 }; /* time for memory to be released */
enum { PATIENCE_MS = 3, WHOLE_ONCE_IN = 8, GROWN_ONCE_IN = 20, MOST_GROWN = 20000 };

/* Counts of an op. */
enum { RUNS, BUILT, REACHED, SUCCEEDED, N_COUNTS };

static fuzz_subject *subjects; /* one for each op */
static int n_subjects;

/* ---- memory: limited, and dirty in a way that is known ---- */

static uint8_t dirt; /* the byte that fills fresh memory */

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

/* ---- preparation ---- */

static mr_status *evaluate(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    return mr_eval_node(n, NULL, in, out);
}

static void prepare(void)
{
    if (subjects)
        return;
    mr_ops_register();
    fuzz_must(mr_op_check_all(), "the table of ops");
    mr_infer_set_evaluator(evaluate);
    mr_eval_set_patience(PATIENCE_MS);
    subjects = fuzz_subjects(&n_subjects);
}

static int64_t n_runs(void) { return MR_MAX(TOTAL_RUNS, LEAST_RUNS * (int64_t)n_subjects); }
static int n_counts(void) { return n_subjects * N_COUNTS; }

/* ---- changes ---- */

typedef struct op_run {
    fuzz_run *r;
    const fuzz_subject *s;
    mr_trial *trial;
    unsigned wildness; /* 0: the example itself, 1: near it, 2: anything */
    mr_tensor_vec held;
    int64_t *counts;
    mr_str what;         /* for people */
    int64_t from, to;    /* every size `from` becomes `to`; to 0: sizes stay */
    int n_args;          /* number of values in lists, and the type of the first: the arguments of functions */
    mr_dtype first_type;
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

/* Adds or removes one item of a list argument. */
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

static int type_of(const mr_trial_input *in)
{
    return in->t ? (int)in->t->dtype : (int)mr_dtype_base(mr_out_type(in->out));
}

/* Kernels work in blocks and lanes that examples do not fill. All inputs grow in the same way, so that they still fit
 * each other; the elements are repeated, so that indices stay valid. */
static void grow_input(op_run *x, mr_trial_input *in)
{
    mr_shape s;
    mr_tensor *larger;
    mr_shape_set(&s, in->t->rank, in->t->dims);
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = s.dims[i] == x->from ? x->to : s.dims[i];
    fuzz_shape_limit(&s, MOST_GROWN);
    if (in->t->n == 0 || mr_shape_eq(s.rank, s.dims, in->t->rank, in->t->dims))
        return;
    fuzz_must(mr_tensor_new(NULL, (mr_dtype)in->t->dtype, s.rank, s.dims, &larger), "larger");
    for (int64_t at = 0; at < larger->n; at += in->t->n)
        fuzz_must(mr_tensor_try_copy_elements(larger, at, in->t, 0, MR_MIN(in->t->n, larger->n - at)), "larger");
    replace(in, larger);
}

/* Another tensor for an input; for the output of a node, one of its type. */
static void change_input(op_run *x, mr_trial_input *in)
{
    int type = type_of(in);
    bool handle = type == MR_RESOURCE || type == MR_VARIANT;
    if (x->to && in->t && !handle)
        grow_input(x, in);
    if (!changes(x, in->t && !handle ? 3 : 20))
        return;
    if (in->t)
        replace(in, fuzz_tensor_like(&x->r->rng, in->t));
    else if (!handle)
        replace(in, fuzz_any_tensor(&x->r->rng, (mr_dtype)type));
}

static void change_inputs(void *ctx, const mr_arg_def *arg, mr_trial_inputs *in, int start)
{
    op_run *x = ctx;
    bool list = arg->number_attr || arg->type_list_attr;
    if (list && changes(x, 6))
        change_length(x, in, start);
    for (int i = start; i < in->n; i++)
        change_input(x, &in->p[i]);
    for (int i = start; i < in->n; i++)
        mr_str_printf(&x->what, " %s=%s%s", arg->name, mr_dtype_name(type_of(&in->p[i])),
                      in->p[i].t ? MR_TENSOR_SHAPE(in->p[i].t) : "");
    if (arg->type_list_attr) {
        x->n_args = in->n - start;
        x->first_type = in->n > start ? (mr_dtype)type_of(&in->p[start]) : MR_FLOAT;
    }
}

/* Attrs that the inputs determine are mostly left alone: any other value is rejected at once. */
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

/* A function that could be called; the grammar of examples has no functions. */
static void give_function(op_run *x, const mr_op_def *op, const mr_attr_def *d, mr_node_builder *b)
{
    /* the element types of the datasets of scenes */
    mr_dtype t = x->first_type == MR_VARIANT ? MR_INT64 : x->first_type;
    const mr_named_attr type = {"T", mr_a_type(t ? t : MR_FLOAT)};
    const mr_func_ref f = {fuzz_function_for(op, d, x->n_args), 1, &type};
    const mr_func_ref *both[] = {&f, &f};
    mr_nb_attr(b, d->name,
               d->is_list ? (mr_attr){MR_ATTR_FUNC, true, MR_COUNT(both), .funcs = both}
                          : (mr_attr){MR_ATTR_FUNC, .func = &f});
}

static void change_attrs(void *ctx, const mr_op_def *d, mr_node_builder *b)
{
    op_run *x = ctx;
    for (int i = 0; i < d->n_attrs; i++) {
        if (d->attrs[i].kind == MR_ATTR_FUNC)
            give_function(x, d, &d->attrs[i], b);
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
    if (x->wildness > 0 && fuzz_once_in(r, 20)) /* a declared shape that differs from that of the value */
        return fuzz_pshape(r, &x->trial->graph->arena);
    return fuzz_pshape_of(r, &x->trial->graph->arena, t->rank, t->dims);
}

/* ---- promises ---- */

static bool step_fed_as_declared(const mr_trial_step *s)
{
    const mr_node *n = s->node;
    mr_arena a;
    bool ok = true;
    mr_arena_init(&a, 0);
    for (int i = 0; i < n->n_in && i < s->n_in && ok; i++)
        ok = !s->in[i] || mr_pshape_compatible(mr_out_shape(n->in[i]),
                                               mr_pshape_of(&a, s->in[i]->rank, s->in[i]->dims));
    mr_arena_deinit(&a);
    return ok;
}

/* The inferred shapes of a step also depend on the declared shapes of earlier steps. */
static bool fed_as_declared(const mr_trial *t)
{
    for (int i = 0; i < t->example->n_steps; i++)
        if (t->steps[i].node && !step_fed_as_declared(&t->steps[i]))
            return false;
    return true;
}

static bool calls_functions(const mr_node *n)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].v.kind == MR_ATTR_FUNC)
            return true;
    return false;
}

/* Whether the inferred shapes of a node are only the client's promise, which its kernel does not check.  As in TensorFlow,
 * TensorListGetItem infers its element_shape input, but reads it only when the element is missing. */
static bool shapes_are_promised(const mr_node *n)
{
    return mr_node_is(n, "PlaceholderWithDefault") || mr_node_is(n, "TensorListGetItem") || calls_functions(n);
}

static void check_outputs(op_run *x, const mr_trial_step *s)
{
    const mr_node *n = s->node;
    mr_arena a;
    if (shapes_are_promised(n))
        return;
    mr_arena_init(&a, 0);
    for (int i = 0; i < n->n_out; i++) {
        const mr_tensor *t = s->out[i];
        if (!t)
            continue; /* dead, or not fetched */
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
    /* Fractional pools are random unless told otherwise; Batch and related ops interact with other runs. */
    return !(n->def->flags & MR_STATEFUL) && !mr_op_def_attr(n->def, "deterministic") && !mr_op_def_attr(n->def, "shared_name");
}

/* Uninitialized bits differ between two runs with different fill bytes. */
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
    bool no_room = mr_status_code(st) == MR_RESOURCE_EXHAUSTED; /* the first outputs are held */
    if (st && !no_room)
        fuzz_fail("%s: %s, second time: %s;%s", n->def->name, when, mr_status_message(st),
                  mr_str_z(&x->what));
    if (!no_room)
        compare_outputs(x, s, out, when);
    mr_status_free(st);
    for (int i = 0; i < n->n_out; i++)
        mr_tensor_unref(out[i]);
    mr_free(in);
    mr_free(out);
}

/* Whether the kernel has run: it returned outputs, or an error that names its node. */
static bool reached(const mr_trial *t, const mr_op_def *op, const mr_status *st)
{
    char mark[80];
    if (!st)
        return true;
    for (int i = 0; i < t->example->n_steps; i++) {
        const mr_node *n = t->steps[i].node;
        if (!n || n->def != op)
            continue;
        snprintf(mark, sizeof(mark), "[[{{node %.50s}}]]", n->name);
        if (strstr(mr_status_message(st), mark))
            return true;
    }
    return false;
}

/* Results of a session depend on more than the inputs: on timing, or on functions. */
static bool same_alone(const mr_trial *t)
{
    const mr_node *n = t->steps[t->example->n_steps - 1].node;
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].v.kind == MR_ATTR_FUNC)
            return false;
    return is_pure(n) && !mr_node_is_merge(n) && t->example->n_steps == 1;
}

/* A session must return the same as the kernel, in a thread with the same treatment of denormals. */
static void compare_alone(op_run *x, const mr_trial_step *s)
{
    mr_tensor **out = mr_new_array(mr_tensor *, s->n_out + 1);
    mr_fp_mode before = mr_denormals_flush();
    mr_status *st = mr_eval_node(s->node, x->trial->device, s->in, out);
    mr_denormals_restore(before);
    for (int i = 0; i < s->n_out && !st; i++) {
        if (s->out[i] && (!out[i] || !mr_tensor_equal(s->out[i], out[i])))
            fuzz_fail("%s: output %d differs in a session;%s", s->node->def->name, i,
                      mr_str_z(&x->what));
        mr_tensor_unref(out[i]);
    }
    if (st && mr_status_code(st) != MR_RESOURCE_EXHAUSTED)
        fuzz_fail("%s: succeeds only in a session: %s;%s", s->node->def->name,
                  mr_status_message(st), mr_str_z(&x->what));
    mr_status_free(st);
    mr_free(out);
}

static mr_status *run_whole(op_run *x, mr_trial_step *last)
{
    bool as_declared;
    MR_TRY(fuzz_run_whole(&x->r->rng, x->trial, &as_declared));
    if (as_declared)
        check_outputs(x, last);
    if (as_declared && same_alone(x->trial))
        compare_alone(x, last);
    return NULL;
}

static mr_status *run_alone(op_run *x, mr_trial_step *s)
{
    MR_TRY(mr_eval_node(s->node, x->trial->device, s->in, s->out));
    if (fed_as_declared(x->trial))
        check_outputs(x, s);
    if (is_pure(s->node) && fuzz_once_in(&x->r->rng, 2))
        run_again(x, s, fuzz_once_in(&x->r->rng, 2));
    return NULL;
}

static mr_status *run_last(void *ctx, mr_trial_step *s)
{
    op_run *x = ctx;
    x->counts[BUILT]++;
    fuzz_notef(x->r, "%s%s%s\n", x->s->def->name, mr_str_z(&x->what),
               x->trial->whole ? " in a session" : "");
    dirt = (uint8_t)fuzz_u64(&x->r->rng);
    mr_status *st = x->trial->whole ? run_whole(x, s) : run_alone(x, s);
    x->counts[REACHED] += reached(x->trial, x->s->def, st);
    x->counts[SUCCEEDED] += !st;
    return st;
}

/* ---- a run ---- */

static void run_trial(op_run *x, const fuzz_script *c, mr_dtype key)
{
    mr_trial t;
    mr_trial_hooks hooks = {change_inputs, change_attrs, choose_placeholder, run_last, x};
    mr_allocator *budget = mr_budget_new(&dirty, "fuzz", FUZZ_MEMORY_LIMIT);
    mr_allocator_stats stats;
    mr_trial_init(&t, c->last, c->example, key, MR_TRIAL_CONST);
    t.hooks = &hooks;
    t.device->alloc = budget;
    t.whole = c->whole || fuzz_once_in(&x->r->rng, WHOLE_ONCE_IN);
    t.subject = c->whole ? x->s->def : NULL;
    t.forced = &(mr_named_attr){0}; /* nothing matches, but no literal is rejected either */
    if (x->s->def->deprecated) /* only graphs of that version or older may use it */
        t.graph->versions.producer = x->s->def->deprecated - 1;
    if (c->whole)
        fuzz_add_functions(t.graph);
    x->trial = &t;
    mr_status *st = mr_trial_steps(&t);
    fuzz_say(x->r, "%s%s: %s %s", x->s->def->name, mr_str_z(&x->what),
             t.skipped ? "skipped" : mr_code_name(mr_status_code(st)), mr_status_message(st));
    mr_status_free(st);
    mr_trial_deinit(&t);
    mr_allocator_get_stats(budget, &stats);
    for (int i = 0; i < MOST_WAITS && stats.in_use; i++) { /* threads of iterators end by themselves, a little later */
        usleep(WAIT_US);
        mr_allocator_get_stats(budget, &stats);
    }
    if (stats.in_use)
        fuzz_fail("%s: %lld bytes of tensors are leaked;%s", x->s->def->name, (long long)stats.in_use,
                  mr_str_z(&x->what));
    mr_budget_free(budget);
}

/* An op that is supposed to end the process runs in a separate one. */
static void run_apart(op_run *x, const fuzz_script *c, mr_dtype key)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        x->counts[REACHED]++; /* it does not return */
        run_trial(x, c, key);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fuzz_fail("fork: no memory");
    if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGABRT : WEXITSTATUS(status) != 0)
        fuzz_fail("%s: ended by %d", x->s->def->name, status);
    x->counts[SUCCEEDED]++;
}

static void run(fuzz_run *r)
{
    int at = (int)(r->number % n_subjects); /* each op as often as any other */
    const fuzz_subject *s = &subjects[at];
    static const uint8_t wildness[] = {0, 1, 1, 1, 1, 1, 1, 1, 2, 2};
    static const int16_t sizes[] = {7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 255, 257, 1000, 4099};
    op_run x = {.r = r,
                .s = s,
                .wildness = fuzz_pick(&r->rng, wildness),
                .counts = r->counts + at * N_COUNTS};
    const fuzz_script *c = &s->scripts[fuzz_below(&r->rng, (uint64_t)s->n_scripts)];
    mr_dtype key = c->types[fuzz_below(&r->rng, (uint64_t)c->n_types)];
    if (fuzz_once_in(&r->rng, GROWN_ONCE_IN)) {
        x.from = fuzz_between(&r->rng, 1, 4);
        x.to = fuzz_pick(&r->rng, sizes);
    }
    x.counts[RUNS]++;
    fuzz_notef(r, "%s %s\n", s->def->name, mr_dtype_name(key));
    if (strcmp(s->def->name, "Abort") == 0)
        run_apart(&x, c, key);
    else
        run_trial(&x, c, key);
    for (int i = 0; i < x.held.n; i++)
        mr_tensor_unref(x.held.p[i]);
    mr_vec_deinit(&x.held);
    mr_str_deinit(&x.what);
}

/* ---- the sum of it ---- */

/* The problem with the runs of one op; NULL: none. Few runs prove little. */
static const char *complaint(const int64_t *c, int64_t runs)
{
    if (c[RUNS] < LEAST_RUNS && runs >= n_runs())
        return "was run too seldom";
    if (c[RUNS] >= 100 && c[REACHED] == 0)
        return "never reached its kernel";
    return NULL;
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    int64_t sum[N_COUNTS] = {0}, least = INT64_MAX;
    int n_covered = 0, n_never = 0;
    for (int i = 0; i < n_subjects; i++) {
        const int64_t *c = counts + i * N_COUNTS;
        const char *wrong = complaint(c, runs);
        for (int k = 0; k < N_COUNTS; k++)
            sum[k] += c[k];
        least = MR_MIN(least, c[RUNS]);
        n_covered += !wrong && c[REACHED] > 0;
        bool never = c[RUNS] >= 100 && c[SUCCEEDED] == 0;
        n_never += never;
        if (err && (wrong || never))
            fprintf(err, "fuzz ops: %s %s in %lld runs (%lld built)\n", subjects[i].def->name,
                    wrong ? wrong : "never succeeded", (long long)c[RUNS], (long long)c[BUILT]);
    }
    fprintf(out,
            "ops_covered %d of %d least_runs_an_op %lld built_percent %.1f reached_kernel_percent "
            "%.1f succeeded_percent %.1f never_succeeded %d",
            n_covered, n_subjects, (long long)least, 100.0 * (double)sum[BUILT] / (double)runs,
            100.0 * (double)sum[REACHED] / (double)runs,
            100.0 * (double)sum[SUCCEEDED] / (double)runs, n_never);
    return n_covered == n_subjects || runs < 100 * (int64_t)n_subjects;
}

const fuzz_target fuzz_ops = {.name = "ops",
                              .about = "every op with changed examples",
                              .prepare = prepare,
                              .n_runs = n_runs,
                              .n_counts = n_counts,
                              .run = run,
                              .summary = summary};
