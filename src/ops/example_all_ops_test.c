/* ops/example_all_ops_test.c -- runs the examples of every op in every type, and checks every gradient.
 *
 * A failure does not end the run: all are listed, then the test fails.  MILLRACE_OP=Name restricts
 * the tests to one op (or, ended by *, to those whose name begins so). */
#include <complex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/absent.h"
#include "ops/table.h"
#include "ops/example_fixture.h"
#include "ops/values_fixture.h"
#include "run/run.h"
#include "tests/harness/test.h"

enum { MAX_TYPES = 64 };

/* ---- the example that is running, for the report of a crash ---- */

static char current[600];

static void on_crash(int sig)
{
    ssize_t ignored = write(2, current, strlen(current));
    (void)ignored;
    signal(sig, SIG_DFL);
    raise(sig);
}

static void watch_for_crashes(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGFPE, on_crash);
#endif
    signal(SIGABRT, on_crash);
}

static void note(const mr_op_def *d, mr_dtype key, const char *text)
{
    snprintf(current, sizeof current, "crashed in %s (%s): %.400s\n", d->name,
             key ? mr_dtype_name(key) : "", text);
}

/* ---- over all ops ---- */

static int n_failed;

static void report(const mr_op_def *d, mr_dtype key, const char *text, mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s%s%s: %s: %s\n  %s\n", d->name, key ? " " : "",
            key ? mr_dtype_name(key) : "", mr_code_name(mr_status_code(st)), mr_status_message(st),
            text);
    mr_status_free(st);
    n_failed++;
}

static bool selected(const char *name)
{
    const char *only = getenv("MILLRACE_OP");
    size_t n = only ? strlen(only) : 0;
    if (!only)
        return true;
    return n > 0 && only[n - 1] == '*' ? strncmp(name, only, n - 1) == 0 : strcmp(name, only) == 0;
}

static void each_op(void (*fn)(const mr_op_def *d))
{
    mr_ops_register();
    watch_for_crashes();
    mr_test_deadline(120);
    int n;
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        if (selected(all[i]->name))
            fn(all[i]);
    mr_free(all);
    if (n_failed > 0)
        mr_test_fail(__FILE__, __LINE__, "%d failures", n_failed);
}

/* The type that an example fixes by setting the key attr; MR_INVALID: none. */
static mr_dtype fixed_type(const mr_op_def *d, const mr_example *e)
{
    const mr_example_step *s = &e->steps[e->n_steps - 1];
    for (int i = 0; i < s->n_attrs; i++)
        if (d->key && mr_sv_is(s->attrs[i].name, d->key->name))
            return mr_dtype_from_name(s->attrs[i].text);
    return MR_INVALID;
}

/* Calls fn for an example in each type in which it must run. A type that the op does not support is tried too when
 * the example names it (to show the error). */
static void each_trial(const mr_op_def *d, const char *text,
                       void (*fn)(const mr_op_def *d, const mr_example *e, const char *text,
                                  mr_dtype key))
{
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_example *e;
    mr_status *st = mr_example_parse(&a, text, &e);
    if (st) {
        report(d, MR_INVALID, text, st);
        mr_arena_deinit(&a);
        return;
    }
    mr_dtype types[MAX_TYPES] = {MR_INVALID};
    int n = mr_trial_types(d, types, MAX_TYPES);
    mr_dtype fixed = fixed_type(d, e);
    if (fixed) {
        types[0] = fixed;
        n = 1;
    }
    for (int i = 0; i < MR_MAX(n, d->key ? 0 : 1); i++)
        fn(d, e, text, types[i]);
    mr_arena_deinit(&a);
}

/* ---- values ---- */

static mr_dtype covered[MAX_TYPES];
static int n_covered, n_ran;

static bool is_covered(mr_dtype t)
{
    for (int i = 0; i < n_covered; i++)
        if (covered[i] == t)
            return true;
    return t == MR_RESOURCE || t == MR_VARIANT || t == MR_QINT8 || t == MR_QUINT8 ||
           t == MR_QINT16 || t == MR_QUINT16 || t == MR_QINT32 || t >= MR_FLOAT8_E5M2;
}

static void run_trial(const mr_op_def *d, const mr_example *e, const char *text, mr_dtype key)
{
    mr_trial t;
    note(d, key, text);
    mr_trial_init(&t, d, e, key, MR_TRIAL_CONST);
    report(d, key, text, mr_trial_run(&t));
    n_ran += !t.skipped;
    /* An error that an example shows for one type needs no further check. */
    if (!t.skipped && (!e->fails || fixed_type(d, e)) && !is_covered(key) && n_covered < MAX_TYPES)
        covered[n_covered++] = key;
    mr_trial_deinit(&t);
}

/* The ops that write summaries write files, which examples must not leave behind: their examples show only errors,
 * and ops/summary/writer_test.c runs them. */
static bool shows_errors_only(const char *op) { return strncmp(op, "Write", 5) == 0 && strstr(op, "Summary"); }

static void check_values(const mr_op_def *d)
{
    n_covered = 0;
    for (const char *const *x = d->op->examples; x && *x; x++) {
        n_ran = 0;
        each_trial(d, *x, run_trial);
        if (n_ran == 0)
            report(d, MR_INVALID, *x, mr_invalid("the example fits no type of the op"));
    }
    mr_dtype types[MAX_TYPES];
    int n = mr_trial_types(d, types, MAX_TYPES);
    bool limited = n > 0 && (d->key->n_allowed > 0 ||
                             d->op->kernels->type); /* otherwise one example covers all types */
    for (int i = 0; i < n && d->op->examples && limited; i++)
        if (!is_covered(types[i]) && !shows_errors_only(d->name))
            report(d, types[i], "", mr_invalid("no example runs in this type"));
}

MR_TEST(examples_give_what_they_say) { each_op(check_values); }

/* ---- shapes ---- */

static void run_shapes(const mr_op_def *d, const mr_example *e, const char *text, mr_dtype key)
{
    for (int mode = MR_TRIAL_SHAPED; mode <= MR_TRIAL_UNKNOWN && !e->fails; mode++) {
        mr_trial t;
        note(d, key, text);
        mr_trial_init(&t, d, e, key, (mr_trial_mode)mode);
        report(d, key, text,
               mr_status_prepend(mr_trial_run(&t), mode == MR_TRIAL_SHAPED
                                                       ? "inputs of known shape: "
                                                       : "inputs of unknown shape: "));
        mr_trial_deinit(&t);
    }
}

static void check_shapes(const mr_op_def *d)
{
    for (const char *const *x = d->op->examples; x && *x; x++)
        each_trial(d, *x, run_shapes);
}

MR_TEST(examples_hold_when_shapes_are_unknown_before) { each_op(check_shapes); }

MR_TEST(examples_exist_for_every_op)
{
    mr_ops_register();
    int n, missing = 0;
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++) {
        bool excused = all[i]->op->examples && all[i]->op->examples[0];
        excused |= mr_trial_excuse(all[i]->name) != NULL || mr_op_absent(all[i]);
        if (!excused)
            fprintf(stderr, "%s has no example\n", all[i]->name);
        missing += !excused;
    }
    mr_free(all);
    MR_CHECK_INT(missing, 0);
}

/* ---- gradients ----
 *
 * With outputs y and fixed weights w, L = sum of Re(conj(w) y) is a real function of the inputs.
 * The gradient the op declares for incoming gradients w must be dL/dx; for a complex x that is
 * dL/dRe(x) + i dL/dIm(x). */

static bool differentiable(int type)
{
    mr_dtype t = mr_dtype_base(type);
    return mr_dtype_is_floating(t) || mr_dtype_is_complex(t);
}

/* The values of a trial's graph, with the inputs and outputs of its steps. */
static void trial_values(mr_values *v, mr_trial *t)
{
    mr_values_init(v, t->graph, t->device);
    for (int i = 0; i < t->example->n_steps; i++)
        mr_values_set(v, t->steps[i].node, t->steps[i].out, t->steps[i].n_out);
    mr_trial_step *s = mr_trial_last(t);
    for (int i = 0; i < s->n_in; i++)
        mr_values_set(v, s->node->in[i].node, &s->in[i], 1);
}

static double complex number_at(const mr_tensor *t, int64_t i)
{
    double complex v = 0;
    mr_dtype_convert((mr_dtype)t->dtype,
                     (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype), MR_COMPLEX128,
                     &v, 1, false);
    return v;
}

static void set_number(mr_tensor *t, int64_t i, double complex v)
{
    char *at = (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype);
    if (mr_dtype_is_complex((mr_dtype)t->dtype)) {
        mr_dtype_convert(MR_COMPLEX128, &v, (mr_dtype)t->dtype, at, 1, false);
    } else {
        double re = creal(v);
        mr_dtype_convert(MR_DOUBLE, &re, (mr_dtype)t->dtype, at, 1, false);
    }
}

/* Weights that are neither equal nor small. */
static mr_tensor *weights_for(const mr_tensor *y, int which)
{
    mr_tensor *w;
    MR_CHECK_OK(mr_tensor_new(NULL, (mr_dtype)y->dtype, y->rank, y->dims, &w));
    for (int64_t i = 0; i < y->n; i++)
        set_number(w, i,
                   0.5 + (double)((i * 7 + which * 3) % 5) * 0.25 +
                       I * (0.25 * (double)((i + which) % 3)));
    return w;
}

static double loss(mr_tensor *const *y, mr_tensor *const *w, int n)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; w[k] && i < w[k]->n; i++)
            sum += creal(conj(number_at(w[k], i)) * number_at(y[k], i));
    return sum;
}

/* L with element i of input k moved by d. */
static mr_status *loss_at(mr_trial *t, int k, int64_t i, double complex d, mr_tensor *const *w,
                          double *out)
{
    mr_trial_step *s = mr_trial_last(t);
    mr_tensor *kept = s->in[k], *moved, **y = mr_new_array(mr_tensor *, s->n_out + 1);
    mr_status *st = mr_tensor_copy(NULL, kept, &moved);
    if (!st) {
        set_number(moved, i, number_at(kept, i) + d);
        s->in[k] = moved;
        st = mr_eval_node(s->node, t->device, s->in, y);
        s->in[k] = kept;
        mr_tensor_unref(moved);
    }
    if (!st)
        *out = loss(y, w, s->n_out);
    for (int j = 0; j < s->n_out; j++)
        mr_tensor_unref(y[j]);
    mr_free(y);
    return st;
}

static bool is_narrow(int type)
{
    mr_dtype t = mr_dtype_base(type);
    return mr_dtype_is_floating(t) ? t != MR_DOUBLE : t == MR_COMPLEX64;
}

static mr_status *compare_input(mr_trial *t, int k, const mr_tensor *dx, mr_tensor *const *w)
{
    const mr_tensor *x = mr_trial_last(t)->in[k];
    const mr_node *n = mr_trial_last(t)->node;
    bool wide = !is_narrow(n->in_types[k]); /* and no output is rounded to a narrower type */
    for (int i = 0; i < n->n_out; i++)
        wide &= !is_narrow(n->out_types[i]);
    double tolerance = wide ? 1e-5 : 2e-2;
    if (!mr_tensor_same_shape(x, dx))
        return mr_invalid("gradient of input %d has shape %s, the input %s", k, MR_TENSOR_SHAPE(dx),
                          MR_TENSOR_SHAPE(x));
    for (int64_t i = 0; i < x->n; i++) {
        double complex numeric = 0, declared = number_at(dx, i);
        double h = (wide ? 1e-6 : 1e-2) * fmax(1, cabs(number_at(x, i)));
        for (int part = 0; part <= (int)mr_dtype_is_complex((mr_dtype)x->dtype); part++) {
            double complex unit = part ? I : 1;
            double up = 0, down = 0;
            MR_TRY(loss_at(t, k, i, h * unit, w, &up));
            MR_TRY(loss_at(t, k, i, -h * unit, w, &down));
            numeric += (up - down) / (2 * h) * unit;
        }
        double error = cabs(numeric - declared);
        if (!(error <= tolerance * (1 + fmax(cabs(numeric), cabs(declared)))))
            return mr_invalid("gradient of input %d, element %lld is %g%+gi, by differences %g%+gi",
                              k, (long long)i, creal(declared), cimag(declared), creal(numeric),
                              cimag(numeric));
    }
    return NULL;
}

/* Emits the gradient nodes: one gradient per input that can have one. */
static mr_status *emit_gradients(mr_trial *t, mr_tensor *const *w, mr_gradient *dx)
{
    mr_node *n = mr_trial_last(t)->node;
    mr_out *ys = mr_new_array(mr_out, n->n_out + 1), *xs = mr_new_array(mr_out, n->n_in + 1);
    mr_gradient *dy = mr_new_array(mr_gradient, n->n_out + 1);
    mr_gradient *got = mr_new_array(mr_gradient, n->n_in + 1);
    int n_y = 0, n_x = 0;
    for (int i = 0; i < n->n_out; i++) {
        if (!w[i])
            continue;
        ys[n_y] = (mr_out){n, i};
        dy[n_y] = MR_NO_GRAD;
        dy[n_y++].dense = mr_const(&t->scope, mr_tensor_ref(w[i]));
    }
    for (int i = 0; i < n->n_in; i++)
        if (differentiable(n->in_types[i]))
            xs[n_x++] = n->in[i];
    mr_status *st =
        mr_graph_gradients(t->graph, ys, n_y, xs, n_x, &(mr_gradient_options){.grad_ys = dy}, got);
    n_x = 0;
    for (int i = 0; i < n->n_in; i++)
        dx[i] = !st && differentiable(n->in_types[i]) ? got[n_x++] : MR_NO_GRAD;
    mr_free(ys);
    mr_free(xs);
    mr_free(dy);
    mr_free(got);
    return st;
}

/* Arguments of the current op whose gradient was compared at some element. */
enum { MAX_ARGS = 32 };
static bool compared[MAX_ARGS];

static void mark_compared(const mr_node *n, int input)
{
    for (int i = 0; i < n->def->n_in && i < MAX_ARGS; i++) {
        int start, count;
        MR_CHECK_OK(mr_node_in_range(n, n->def->in[i].name, &start, &count));
        compared[i] |= input >= start && input < start + count;
    }
}

static mr_status *compare_all(mr_trial *t, mr_tensor *const *w, const mr_gradient *dx)
{
    mr_status *st = NULL;
    mr_values v;
    trial_values(&v, t);
    for (int i = 0; i < mr_trial_last(t)->n_in; i++) {
        mr_tensor *made;
        if (!dx[i].dense.node)
            continue;
        MR_GO(mr_values_get(&v, dx[i].dense, &made));
        MR_GO(compare_input(t, i, made, w));
        if (mr_trial_last(t)->in[i]->n > 0)
            mark_compared(mr_trial_last(t)->node, i);
    }
out:
    mr_values_deinit(&v);
    return st;
}

/* Ops whose gradient ignores the gradients of some outputs, as TensorFlow's does; bit i: output i. */
static const struct {
    const char *op;
    unsigned counted;
    const char *left_out;
} some_outputs[] = {
    {"BlockLSTM", 1 << 1 | 1 << 6, "the gates"},
    {"BlockLSTMV2", 1 << 1 | 1 << 6, "the gates"},
    {"CTCLoss", 1, "the gradient"},
    {"CTCLossV2", 1, "the gradient"},
    {"FusedBatchNorm", 1, "the statistics"},
    {"FusedBatchNormV2", 1, "the statistics"},
    {"FusedBatchNormV3", 1, "the statistics"},
    {"GRUBlockCell", 1 << 3, "the gates"},
    {"LSTMBlockCell", 1 << 1 | 1 << 6, "the gates"},
};

static bool counts(const char *op, int output)
{
    for (int i = 0; i < MR_COUNT(some_outputs); i++)
        if (strcmp(some_outputs[i].op, op) == 0)
            return some_outputs[i].counted >> output & 1;
    return true;
}

static mr_status *check_gradient(mr_trial *t)
{
    mr_trial_step *s = mr_trial_last(t);
    mr_tensor **w = mr_new_array(mr_tensor *, s->n_out + 1);
    mr_gradient *dx = mr_new_array(mr_gradient, s->n_in + 1);
    int n_y = 0, n_x = 0;
    for (int i = 0; i < s->n_in; i++)
        n_x += differentiable(s->node->in_types[i]);
    for (int i = 0; i < s->n_out; i++) {
        bool carries = differentiable(s->node->out_types[i]) && counts(t->def->name, i);
        w[i] = carries && s->out[i] ? weights_for(s->out[i], i) : NULL;
        n_y += w[i] != NULL;
    }
    mr_status *st = NULL;
    if (n_x > 0 && n_y > 0) {
        st = emit_gradients(t, w, dx);
        if (!st)
            st = compare_all(t, w, dx);
    }
    for (int i = 0; i < s->n_out; i++)
        mr_tensor_unref(w[i]);
    mr_free(w);
    mr_free(dx);
    return mr_status_prepend(st, "gradient: ");
}

static void run_gradient(const mr_op_def *d, const mr_example *e, const char *text, mr_dtype key)
{
    /* float is too coarse for finite differences: it is used only where the op has no wider type. */
    mr_dtype types[MAX_TYPES];
    bool has_double = false;
    for (int i = 0, n = mr_trial_types(d, types, MAX_TYPES); i < n; i++)
        has_double |= types[i] == MR_DOUBLE;
    /* Its gradient is MaxPool3DGrad, which does not support double. */
    has_double &= strcmp(d->name, "MaxPool3DGradGrad") != 0;
    bool fit = !key || (key == MR_DOUBLE && has_double) || key == MR_COMPLEX128 ||
               (key == MR_FLOAT && !has_double);
    if (e->fails || e->nograd || !fit)
        return;
    /* Once with the inputs known as constants, and once with nothing known before the run. */
    for (int mode = MR_TRIAL_CONST; mode <= MR_TRIAL_UNKNOWN; mode += MR_TRIAL_UNKNOWN) {
        mr_trial t;
        note(d, key, text);
        mr_trial_init(&t, d, e, key, (mr_trial_mode)mode);
        mr_status *st = mr_trial_run(&t);
        if (!st && !t.skipped)
            st = check_gradient(&t);
        if (mode == MR_TRIAL_UNKNOWN && mr_status_code(st) == MR_UNIMPLEMENTED) {
            mr_status_free(st); /* a gradient may require more knowledge, if its error says so */
            st = NULL;
        }
        report(d, key, text,
               mr_status_prepend(st, mode == MR_TRIAL_UNKNOWN ? "inputs of unknown shape: " : ""));
        mr_trial_deinit(&t);
    }
}

/* Arguments without a gradient although their type is numeric, and gradients that no example can show. */
static const struct {
    const char *op, *arg, *reason;
} no_comparison[] = {
    {"OptionalFromValue", "components", "what it gives is an optional: its gradient is one too"},
    {"Betainc", "a", "none in TensorFlow either"},
    {"Betainc", "b", "none in TensorFlow either"},
    {"FusedBatchNorm", "mean", "a statistic of earlier steps"},
    {"FusedBatchNorm", "variance", "a statistic of earlier steps"},
    {"FusedBatchNormV2", "mean", "a statistic of earlier steps"},
    {"FusedBatchNormV2", "variance", "a statistic of earlier steps"},
    {"FusedBatchNormV3", "mean", "a statistic of earlier steps"},
    {"FusedBatchNormV3", "variance", "a statistic of earlier steps"},
    {"FusedBatchNormGrad", "reserve_space_1", "a statistic of x, or of earlier steps"},
    {"FusedBatchNormGrad", "reserve_space_2", "a statistic of x, or of earlier steps"},
    {"FusedBatchNormGradV2", "reserve_space_1", "a statistic of x, or of earlier steps"},
    {"FusedBatchNormGradV2", "reserve_space_2", "a statistic of x, or of earlier steps"},
    {"FusedBatchNormGradV3", "reserve_space_1", "a statistic of x, or of earlier steps"},
    {"FusedBatchNormGradV3", "reserve_space_2", "a statistic of x, or of earlier steps"},
    {"FusedBatchNormGradV3", "reserve_space_3", "unused"},
    {"MatrixDiagPartV2", "padding_value", "none in TensorFlow either"},
    {"MatrixDiagPartV3", "padding_value", "none in TensorFlow either"},
    {"MatrixDiagV2", "padding_value", "none in TensorFlow either"},
    {"MatrixDiagV3", "padding_value", "none in TensorFlow either"},
    {"MatrixSolveLs", "l2_regularizer", "none in TensorFlow either"},
    {"PadV2", "constant_values", "none in TensorFlow either"},
    {"Polygamma", "a", "an integer"},
    {"PreventGradient", "input", "refuses to have one"},
    {"Print", "data", "is only shown"},
    {"RaggedTensorToVariant", "rt_dense_values", "goes into a variant (ops/ragged/ragged_variant_test.c)"},
    {"DenseToCSRSparseMatrix", "dense_input", "goes into a variant (ops/sparse/csr_test.c)"},
    {"SparseMatrixAdd", "alpha", "none in TensorFlow either"},
    {"SparseMatrixAdd", "beta", "none in TensorFlow either"},
    {"SparseTensorToCSRSparseMatrix", "values", "goes into a variant (ops/sparse/csr_test.c)"},
    {"SparseAdd", "thresh", "a limit: none in TensorFlow either"},
    {"TensorArrayConcatV3", "flow_in", "an order, not a number"},
    {"TensorArrayGatherV3", "flow_in", "an order, not a number"},
    {"TensorArrayReadV3", "flow_in", "an order, not a number"},
    {"TensorArrayScatterV3", "flow_in", "an order, not a number"},
    {"TensorArrayScatterV3", "value", "needs an array of the step (exec/gradient_loops_test.c)"},
    {"TensorArraySplitV3", "flow_in", "an order, not a number"},
    {"TensorArraySplitV3", "value", "needs an array of the step (exec/gradient_loops_test.c)"},
    {"TensorArrayWriteV3", "flow_in", "an order, not a number"},
    {"TensorArrayWriteV3", "value", "needs an array of the step (exec/gradient_loops_test.c)"},
    {"TensorArrayConcat", "flow_in", "an order, not a number"},
    {"TensorArrayConcatV2", "flow_in", "an order, not a number"},
    {"TensorArrayGather", "flow_in", "an order, not a number"},
    {"TensorArrayGatherV2", "flow_in", "an order, not a number"},
    {"TensorArrayRead", "flow_in", "an order, not a number"},
    {"TensorArrayReadV2", "flow_in", "an order, not a number"},
    {"TensorArrayScatter", "flow_in", "an order, not a number"},
    {"TensorArrayScatter", "value", "needs an array of the step (exec/functional_string_handles_test.c)"},
    {"TensorArrayScatterV2", "flow_in", "an order, not a number"},
    {"TensorArrayScatterV2", "value", "needs an array of the step (exec/functional_string_handles_test.c)"},
    {"TensorArraySplit", "flow_in", "an order, not a number"},
    {"TensorArraySplit", "value", "needs an array of the step (exec/functional_string_handles_test.c)"},
    {"TensorArraySplitV2", "flow_in", "an order, not a number"},
    {"TensorArraySplitV2", "value", "needs an array of the step (exec/functional_string_handles_test.c)"},
    {"TensorArrayWrite", "flow_in", "an order, not a number"},
    {"TensorArrayWrite", "value", "needs an array of the step (exec/functional_string_handles_test.c)"},
    {"TensorArrayWriteV2", "flow_in", "an order, not a number"},
    {"TensorArrayWriteV2", "value", "needs an array of the step (exec/functional_string_handles_test.c)"},
    {"CompositeTensorVariantFromComponents", "components", "goes into a variant (exec/functional_list_gradients_test.c)"},
    {"DebugGradientRefIdentity", "input", "a reference"},
    {"TensorListFromTensor", "tensor", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorListPushBack", "tensor", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorListScatter", "tensor", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorListScatterIntoExistingList", "tensor", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorListScatterV2", "tensor", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorListSetItem", "item", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorListSplit", "tensor", "goes into a list (exec/functional_list_gradients_test.c)"},
    {"TensorMapErase", "key", "finds a value, is none"},
    {"TensorMapInsert", "key", "finds a value, is none"},
    {"TensorMapInsert", "value", "goes into a map (exec/functional_list_gradients_test.c)"},
    {"TensorMapLookup", "key", "finds a value, is none"},
    {"Zeta", "x", "none in TensorFlow either"},
#include "ops/no_comparison_image.inc"
#include "ops/no_comparison_nn.inc"
};

static bool is_excused(const char *op, const char *arg)
{
    for (int i = 0; i < MR_COUNT(no_comparison); i++)
        if (strcmp(no_comparison[i].op, op) == 0 && strcmp(no_comparison[i].arg, arg) == 0)
            return true;
    return false;
}

/* True if an argument can have a type with gradients. */
static bool may_have_gradient(const mr_op_def *d, const mr_arg_def *arg)
{
    if (arg->type)
        return differentiable(arg->type);
    const mr_attr_def *a = mr_op_def_attr(d, arg->type_attr ? arg->type_attr : arg->type_list_attr);
    bool may = a->n_allowed == 0;
    for (int i = 0; i < a->n_allowed; i++)
        may |= differentiable(a->types[i]);
    return may;
}

static void check_gradients(const mr_op_def *d)
{
    memset(compared, 0, sizeof compared);
    if (!d->op->grad)
        return;
    for (const char *const *x = d->op->examples; x && *x; x++)
        each_trial(d, *x, run_gradient);
    for (int i = 0; i < d->n_in && i < MAX_ARGS; i++) {
        bool should = may_have_gradient(d, &d->in[i]), excused = is_excused(d->name, d->in[i].name);
        if (should && !compared[i] && !excused)
            report(d, MR_INVALID, d->in[i].name,
                   mr_invalid("no example compares the gradient of this argument"));
        if (excused && (compared[i] || !should))
            report(d, MR_INVALID, d->in[i].name,
                   mr_invalid("is excused from comparison for nothing"));
    }
}

MR_TEST(examples_agree_with_their_gradients) { each_op(check_gradients); }
