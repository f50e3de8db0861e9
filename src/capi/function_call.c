/* capi/function_call.c -- the functions of a front end that PyFunc and similar ops call: run/py_func.h with the
 * client's types.
 *
 * We own a call from the hook until it is finished. The operation owns the tensors and waits, so nothing is copied; the
 * front end may use the call from any thread, but only from one at a time. */
#include "capi/internal.h"
#include "millrace/front_end.h"
#include "run/py_func.h"

struct mr_function_call {
    const mr_py_call *c; /* the operation's; its `out` is ours to fill */
    void (*done)(void *arg, mr_status *st);
    void *arg;
};

/* ---- the hook ---- */

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_function_hook *the_hook MR_GUARDED_BY(mu);
static void *the_ctx MR_GUARDED_BY(mu);

/* Passes a call of an op to the hook of the front end, which owns it until mr_function_call_finish. */
static void hand_over(void *unused, const mr_py_call *c, void (*done)(void *arg, mr_status *st), void *arg)
{
    (void)unused;
    mr_lock(&mu);
    mr_function_hook *hook = the_hook;
    void *ctx = the_ctx;
    mr_unlock(&mu);
    if (!hook) { /* it was just removed */
        done(arg, mr_error(MR_UNIMPLEMENTED, "%s '%.*s': the front end that defined it is no longer running", c->op,
                           MR_SV_ARG(c->token)));
        return;
    }
    mr_function_call *call = mr_small_alloc(sizeof *call);
    *call = (mr_function_call){c, done, arg};
    hook(ctx, call);
}

void mr_set_function_hook(mr_function_hook *hook, void *ctx)
{
    mr_lock(&mu);
    the_hook = hook;
    the_ctx = ctx;
    mr_unlock(&mu);
    mr_py_func_set_hook(hook ? hand_over : NULL, NULL);
}

/* ---- a call ---- */

const char *mr_function_call_token(const mr_function_call *c, size_t *length)
{
    *length = c->c->token.n;
    return c->c->token.p;
}

int mr_function_call_num_inputs(const mr_function_call *c) { return c->c->n_in; }

/* Shared, not copied: the client must not write to it. */
TF_Tensor *mr_function_call_input(const mr_function_call *c, int i)
{
    return i >= 0 && i < c->c->n_in ? mr_capi_tensor_new(mr_tensor_ref(c->c->in[i])) : NULL;
}

int mr_function_call_num_outputs(const mr_function_call *c) { return c->c->n_out; }

TF_DataType mr_function_call_output_type(const mr_function_call *c, int i)
{
    return i >= 0 && i < c->c->n_out ? (TF_DataType)mr_dtype_base(c->c->out_types[i]) : (TF_DataType)0;
}

/* The last value wins. A value for an output that does not exist is dropped. Takes ownership of t. */
void mr_function_call_set_output(mr_function_call *c, int i, TF_Tensor *t)
{
    if (i >= 0 && i < c->c->n_out) {
        mr_tensor_unref(c->c->out[i]);
        c->c->out[i] = NULL; /* a tensor of malformed bytes counts as not set */
        mr_status_free(mr_capi_tensor_value(t, &c->c->out[i]));
    }
    TF_DeleteTensor(t);
}

void mr_function_call_finish(mr_function_call *c, const TF_Status *status)
{
    mr_function_call call = *c;
    mr_small_free(c, sizeof *c); /* first, because the step may have ended when done returns */
    call.done(call.arg, status ? mr_capi_status_copy(status) : NULL);
}
