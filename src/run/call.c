/* run/call.c -- a kernel that is a call: all inputs in, all outputs from the function. */
#include "base/memory.h"
#include "run/run.h"

typedef struct call {
    mr_run *run;
    int n_in, n_out;
    mr_tensor *tensors[]; /* n_in arguments (borrowed from the run), then n_out results */
} call;

static size_t call_bytes(int n_in, int n_out)
{
    return sizeof(call) + (size_t)(n_in + n_out) * sizeof(mr_tensor *);
}

static void call_done(void *ctx, mr_status *st)
{
    call *c = ctx;
    mr_run *r = c->run;
    mr_tensor **rets = c->tensors + c->n_in;
    for (int i = 0; !st && i < c->n_out; i++)
        mr_run_set(r, i, rets[i]);
    mr_small_free(c, call_bytes(c->n_in, c->n_out));
    mr_run_done(r, st);
}

void mr_run_call(mr_run *r, const mr_func_ref *f)
{
    if (!r->step->caller) {
        mr_run_done(r,
                    mr_error(MR_FAILED_PRECONDITION, "Function %s cannot be called here", f->name));
        return;
    }
    call *c = mr_small_alloc(call_bytes(r->n_in, r->n_out));
    *c = (call){r, r->n_in, r->n_out};
    for (int i = 0; i < r->n_in; i++)
        c->tensors[i] = mr_in(r, i);
    for (int i = 0; i < r->n_out; i++)
        c->tensors[r->n_in + i] = NULL;
    r->step->caller->call(r->step->caller, r, f, c->tensors, c->n_in, c->tensors + c->n_in,
                          c->n_out, call_done, c);
}
