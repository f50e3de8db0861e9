/* run/call.c -- a kernel that is a call: all inputs in, all outputs from the function.
 *
 * The arguments are borrowed from the run, which lives until mr_run_done. The results are owned by the call
 * until they become outputs. */
#include "base/memory.h"
#include "run/result.h"

typedef struct call {
    mr_run *run;
    int n_in, n_out;
    mr_tensor *tensors[]; /* n_in arguments (borrowed from the run), then n_out results */
} call;

static size_t call_bytes(int n_in, int n_out)
{
    return sizeof(call) + (size_t)(n_in + n_out) * sizeof(mr_tensor *);
}

/* The text is TensorFlow's. */
mr_status *mr_run_check_result(const mr_run *r, int i, const mr_tensor *t)
{
    if (t->dtype == mr_out_dtype(r, i))
        return NULL;
    return mr_error(MR_INTERNAL, "Expect %d-th output is of type %s but get %s", i, mr_dtype_name(mr_out_dtype(r, i)),
                    mr_dtype_name(t->dtype));
}

static mr_status *check_results(const mr_run *r, mr_tensor *const *rets)
{
    for (int i = 0; i < r->n_out; i++)
        MR_TRY(mr_run_check_result(r, i, rets[i]));
    return NULL;
}

/* Moves the results to the outputs and ends the run. If one result has the wrong type, all are dropped and the run
 * fails. A call that failed has no results. c is freed before the run ends. */
static void call_done(void *ctx, mr_status *st)
{
    call *c = ctx;
    mr_run *r = c->run;
    mr_tensor **rets = c->tensors + c->n_in;
    if (!st) {
        MR_ASSERT(c->n_out == r->n_out);
        st = check_results(r, rets);
        for (int i = 0; i < c->n_out; i++)
            if (st)
                mr_tensor_unref(rets[i]);
            else
                mr_run_set(r, i, rets[i]);
    }
    mr_small_free(c, call_bytes(c->n_in, c->n_out));
    mr_run_done(r, st);
}

/* Starts the call of f with the inputs from `first` on. An empty device means the device of the run. The run ends
 * in call_done, perhaps before this returns, so r and c must not be touched after the call. */
static void start_call(mr_run *r, mr_sv device, const mr_func_ref *f, int first)
{
    mr_caller *by = r->step->caller;
    if (!by) {
        mr_run_done(r, mr_error(MR_FAILED_PRECONDITION,
                                "Function %s cannot be called here: the op does not run in a session", f->name));
        return;
    }
    int n_in = r->n_in - first;
    MR_ASSERT(first >= 0 && n_in >= 0);
    call *c = mr_small_alloc(call_bytes(n_in, r->n_out));
    *c = (call){r, n_in, r->n_out};
    for (int i = 0; i < n_in; i++)
        c->tensors[i] = mr_in(r, first + i);
    for (int i = 0; i < r->n_out; i++)
        c->tensors[n_in + i] = NULL;
    if (device.n)
        by->call_on(by, r, device, f, c->tensors, n_in, c->tensors + n_in, c->n_out, call_done, c);
    else
        by->call(by, r, f, c->tensors, n_in, c->tensors + n_in, c->n_out, call_done, c);
}

void mr_run_call_from(mr_run *r, const mr_func_ref *f, int first) { start_call(r, MR_SV(""), f, first); }

void mr_run_call_on(mr_run *r, mr_sv device, const mr_func_ref *f, int first) { start_call(r, device, f, first); }

void mr_run_call(mr_run *r, const mr_func_ref *f) { mr_run_call_from(r, f, 0); }
