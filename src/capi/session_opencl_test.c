/* capi/session_opencl_test.c -- the examples of all ops that have a kernel for OpenCL, run on the device. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "exec/opencl/opencl_fixture.h"
#include "ops/table.h"
#include "ops/example_fixture.h"

enum { MAX_TYPES = 64 };

static int n_failed, n_on_device;

/* ---- one example, as a graph in a session ---- */

static void keep_inputs(void *ctx, const mr_arg_def *arg, mr_trial_inputs *in, int start)
{
    (void)ctx, (void)arg, (void)in, (void)start;
}

static void keep_attrs(void *ctx, const mr_op_def *d, mr_node_builder *b) { (void)ctx, (void)d, (void)b; }

static const mr_pshape *no_placeholder(void *ctx, const mr_tensor *t)
{
    (void)ctx, (void)t;
    return NULL;
}

/* No pass folds, simplifies or merges nodes: all of the graph runs. */
static mr_status *run_in_session(void *ctx, mr_trial_step *step)
{
    mr_trial *t = ctx;
    gpu_fixture r = {
        .g = t->graph,
        .traced = true,
        .config = {.no_fold = true, .no_simplify = true, .no_cse = true, .soft_placement = true}};
    mr_out *fetches = mr_new_array(mr_out, step->n_out + 1);
    mr_node *targets[] = {step->node};
    for (int i = 0; i < step->n_out; i++)
        fetches[i] = (mr_out){step->node, i};
    mr_run_args a = {
        .fetches = fetches, .fetched = step->out, .n_fetches = step->n_out, .targets = targets, .n_targets = 1};
    mr_status *st = gpu_run(&r, &a);
    bool wanted = mr_kernel_find(step->node, MR_ACCEL_KERNELS) != NULL;
    bool there = !st && strcmp(gpu_place_of(&r, step->node->name), "GPU") == 0;
    if (!st && wanted && !there)
        st = mr_invalid("it did not run on the device");
    n_on_device += there;
    mr_session_free(r.session);
    mr_str_deinit(&r.metadata);
    mr_free(fetches);
    return st;
}

static void run_example(const mr_op_def *d, const mr_example *e, const char *text, mr_dtype key)
{
    mr_trial t;
    mr_trial_init(&t, d, e, key, MR_TRIAL_CONST);
    mr_trial_hooks hooks = {keep_inputs, keep_attrs, no_placeholder, run_in_session, &t};
    t.hooks = &hooks;
    t.whole = true;
    mr_status *st = mr_trial_run(&t);
    if (st) {
        fprintf(stderr, "%s %s: %s: %s\n  %s\n", d->name, key ? mr_dtype_name(key) : "",
                mr_code_name(mr_status_code(st)), mr_status_message(st), text);
        n_failed++;
    }
    mr_status_free(st);
    mr_trial_deinit(&t);
}

/* ---- all of them ---- */

/* The example fixes the key attr to another type than this one. */
static bool is_of_other_type(const mr_op_def *d, const mr_example *e, mr_dtype key)
{
    const mr_example_step *s = &e->steps[e->n_steps - 1];
    for (int i = 0; i < s->n_attrs; i++)
        if (d->key && mr_sv_is(s->attrs[i].name, d->key->name))
            return mr_dtype_from_name(s->attrs[i].text) != key;
    return false;
}

static void run_text(const mr_op_def *d, const char *text, mr_dtype key)
{
    mr_arena a;
    mr_example *e;
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_example_parse(&a, text, &e));
    if (!is_of_other_type(d, e, key))
        run_example(d, e, text, key);
    mr_arena_deinit(&a);
}

typedef struct rows {
    mr_dtype types[MAX_TYPES];
    int n;
} rows;

static void add_row(void *ctx, const mr_kernel *k)
{
    rows *r = ctx;
    bool seen = strcmp(k->device, MR_ACCEL_KERNELS) != 0 || r->n == MAX_TYPES;
    mr_dtype type = k->type ? (mr_dtype)k->type : MR_FLOAT;
    for (int i = 0; i < r->n; i++)
        seen |= r->types[i] == type;
    if (!seen)
        r->types[r->n++] = type;
}

MR_TEST(opencl_examples_of_all_ops_give_what_they_say)
{
    const char *only = getenv("MILLRACE_OP");
    int n, n_ops = 0;
    gpu_require();
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++) {
        rows r = {.n = 0};
        mr_kernel_each(all[i], add_row, &r);
        if (r.n == 0 || (only && strcmp(only, all[i]->name) != 0))
            continue;
        n_ops++;
        for (const char *const *x = all[i]->op->examples; x && *x; x++)
            for (int k = 0; k < (all[i]->key ? r.n : 1); k++)
                run_text(all[i], *x, all[i]->key ? r.types[k] : MR_INVALID);
    }
    mr_free(all);
    if (n_failed > 0)
        mr_test_fail(__FILE__, __LINE__, "%d failures", n_failed);
    MR_CHECK(only || (n_ops > 90 && n_on_device > 400));
}
