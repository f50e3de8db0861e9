/* ops/control/while.c -- loops over whole functions: While, For and their variants.
 *
 * A loop is a record that passes through callbacks: a call of cond, then one of body, then cond again. Calls are
 * posted to the step's runner and end there (exec/function.c), so that neither the stack nor memory grows with the
 * number of iterations, and no thread is blocked. A cancelled step ends the loop between two calls at the latest.
 *
 * Iterations run one after the other; parallel_iterations matters only for loops that are lowered (passes/lower.c). */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/control/truth.h"
#include "run/result.h"

typedef struct loop {
    mr_run *r;
    const mr_func_ref *cond, *body; /* cond is NULL for a For */
    int n;                          /* number of variables */
    int first;                      /* arguments of body before the variables: 1 for the counter of a For */
    int64_t i, limit, delta;        /* counter of a For */
    mr_tensor *verdict;             /* result of cond */
    mr_tensor **args;               /* first + n, owned: the counter and the variables */
    mr_tensor **rets;               /* n results of the running body */
} loop;

static size_t loop_bytes(int n) { return sizeof(loop) + sizeof(mr_tensor *) * (size_t)(2 * n + 1); }

static loop *loop_new(mr_run *r, int n)
{
    loop *l = mr_small_alloc(loop_bytes(n));
    memset(l, 0, loop_bytes(n));
    l->r = r;
    l->n = n;
    l->args = (mr_tensor **)(l + 1);
    l->rets = l->args + n + 1;
    return l;
}

static void loop_end(loop *l, mr_status *st)
{
    mr_run *r = l->r;
    for (int i = 0; i < l->n && !st; i++)
        st = mr_run_check_result(r, i, l->args[l->first + i]);
    for (int i = 0; i < l->n; i++) {
        if (st)
            mr_tensor_unref(l->args[l->first + i]);
        else
            mr_run_set(r, i, l->args[l->first + i]);
    }
    if (l->first)
        mr_tensor_unref(l->args[0]);
    mr_small_free(l, loop_bytes(l->n));
    mr_run_done(r, st);
}

static void call_function(loop *l, const mr_func_ref *f, int n_args, mr_tensor **rets, int n_rets,
                          void (*done)(void *ctx, mr_status *st))
{
    mr_caller *c = l->r->step->caller;
    if (mr_cancel_started(l->r->step->cancel))
        loop_end(l, mr_error(MR_CANCELLED, "Loop was cancelled"));
    else
        c->call(c, l->r, f, l->args, n_args, rets, n_rets, done, l);
}

/* ---- one iteration ---- */

static void next_iteration(loop *l);

/* The variables must keep the types that the node declares, because readers of its outputs rely on them. */
static mr_status *take_results(loop *l)
{
    mr_status *st = NULL;
    for (int i = 0; i < l->n; i++) {
        if (l->rets[i]->dtype != mr_out_dtype(l->r, i) && !st)
            st = mr_invalid("Expected type %s for output %d of the body %s, got %s", mr_dtype_name(mr_out_dtype(l->r, i)), i,
                            l->body->name, mr_dtype_name(l->rets[i]->dtype));
        mr_tensor_unref(l->args[l->first + i]);
        l->args[l->first + i] = l->rets[i];
        l->rets[i] = NULL;
    }
    return st;
}

static void body_done(void *ctx, mr_status *st)
{
    loop *l = ctx;
    if (!st)
        st = take_results(l);
    if (st)
        loop_end(l, st);
    else
        next_iteration(l);
}

static void cond_done(void *ctx, mr_status *st)
{
    loop *l = ctx;
    bool go_on = false;
    if (!st) {
        st = mr_tensor_truth(l->verdict, &go_on);
        mr_tensor_unref(l->verdict);
    }
    if (st || !go_on)
        loop_end(l, st);
    else
        call_function(l, l->body, l->n, l->rets, l->n, body_done);
}

/* Advances the counter of a For; false when the loop has ended. */
static bool count_turn(loop *l)
{
    if (l->delta > 0 ? l->i >= l->limit : l->i <= l->limit)
        return false;
    mr_tensor_unref(l->args[0]);
    l->args[0] = mr_tensor_scalar_i32((int32_t)l->i);
    l->i += l->delta;
    return true;
}

static void next_iteration(loop *l)
{
    if (l->cond)
        call_function(l, l->cond, l->n, &l->verdict, 1, cond_done);
    else if (count_turn(l))
        call_function(l, l->body, l->n + 1, l->rets, l->n, body_done);
    else
        loop_end(l, NULL);
}

/* ---- starting ---- */

static mr_status *check_caller(const mr_run *r)
{
    return r->step->caller ? NULL : mr_error(MR_FAILED_PRECONDITION, "Functions cannot be called here");
}

static mr_status *read_while(const mr_run *r, const mr_func_ref **cond, const mr_func_ref **body)
{
    MR_TRY(check_caller(r));
    MR_TRY(mr_node_get_func(r->node, "cond", cond));
    return mr_node_get_func(r->node, "body", body);
}

static void run_while(mr_run *r)
{
    const mr_func_ref *cond = NULL, *body = NULL;
    mr_status *st = read_while(r, &cond, &body);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    loop *l = loop_new(r, r->n_in);
    l->cond = cond;
    l->body = body;
    for (int i = 0; i < l->n; i++)
        l->args[i] = mr_tensor_ref(mr_in(r, i));
    next_iteration(l);
}

enum { START, LIMIT, DELTA, INPUT };

static mr_status *read_for(const mr_run *r, int64_t bounds[3], const mr_func_ref **body)
{
    MR_TRY(check_caller(r));
    MR_TRY(mr_in_scalar_int(r, START, "start", &bounds[START]));
    MR_TRY(mr_in_scalar_int(r, LIMIT, "limit", &bounds[LIMIT]));
    MR_TRY(mr_in_scalar_int(r, DELTA, "delta", &bounds[DELTA]));
    if (bounds[DELTA] == 0)
        return mr_invalid("delta must not be 0");
    if (bounds[DELTA] > 0 ? bounds[START] > bounds[LIMIT] : bounds[START] < bounds[LIMIT])
        return mr_invalid("For cannot get from start %lld to limit %lld with delta %lld", (long long)bounds[START],
                          (long long)bounds[LIMIT], (long long)bounds[DELTA]);
    return mr_node_get_func(r->node, "body", body);
}

static void run_for(mr_run *r)
{
    int64_t bounds[3];
    const mr_func_ref *body = NULL;
    mr_status *st = read_for(r, bounds, &body);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    loop *l = loop_new(r, r->n_in - INPUT);
    l->body = body;
    l->first = 1;
    l->i = bounds[START];
    l->limit = bounds[LIMIT];
    l->delta = bounds[DELTA];
    for (int i = 0; i < l->n; i++)
        l->args[1 + i] = mr_tensor_ref(mr_in(r, INPUT + i));
    next_iteration(l);
}

/* ---- the ops ---- */

/* The shapes that the attr output_shapes declares. When it is empty nothing is known: a body may change shapes. */
static mr_status *while_shape(mr_infer *c)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n == 0)
        return NULL;
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as num outputs (%d vs. %d)", shapes->n, c->n_out);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = shapes->shapes[i];
    return NULL;
}

#define WHILE_ATTRS \
    "T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10"

MR_OP(While,
    .doc     = "output = input; while cond(output) counts as true: output = body(output)",
    .sig     = "input: T -> output: T",
    .attrs   = WHILE_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = while_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_while)));

MR_OP(StatelessWhile,
    .doc     = "While with functions that have no side effects",
    .sig     = "input: T -> output: T",
    .attrs   = WHILE_ATTRS,
    .flags   = MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = while_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_while)));

MR_OP(_While,
    .doc     = "While as older programs have it",
    .sig     = "input: T -> output: T",
    .attrs   = "T: list(type) >= 0; cond: func; body: func",
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_while)));

MR_OP(For,
    .doc     = "output = input; for i from start to limit by delta: output = body(i, output)",
    .sig     = "start: int32, limit: int32, delta: int32, input: T -> output: T",
    .attrs   = "T: list(type) >= 0; body: func",
    .flags   = MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS({"CPU", 0, NULL, run_for, .host_in = 7}, ));
