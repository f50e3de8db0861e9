/* run/py_func.h -- the hook through which PyFunc and similar ops call Python.
 *
 * The library does not link to Python. A front end sets one hook for the process. The ops pass it their token and
 * inputs, and they end when it calls done, from any thread. */
#ifndef MR_RUN_PY_FUNC_H
#define MR_RUN_PY_FUNC_H

#include "graph/op.h"
#include "tensor/tensor.h"

typedef struct mr_py_call { /* lives until the call is over */
    const char *op;         /* PyFunc, PyFuncStateless, EagerPyFunc */
    mr_sv token;            /* which function */
    bool is_async;          /* of EagerPyFunc */
    int n_in, n_out;
    mr_tensor *const *in;   /* live, borrowed */
    const int *out_types;   /* mr_dtype */
    mr_tensor **out;        /* n_out of them to be set, owned by the op afterwards; NULL before */
} mr_py_call;

/* Calls done(arg, st) once, perhaps before it returns. It may block: the ops are MR_BLOCKS. */
typedef void mr_py_func_hook(void *ctx, const mr_py_call *call, void (*done)(void *arg, mr_status *st), void *arg);

/* Sets the hook of the process; NULL removes it. The caller makes sure that no such op runs meanwhile. */
void mr_py_func_set_hook(mr_py_func_hook *hook, void *ctx);
mr_py_func_hook *mr_py_func_get_hook(void **ctx); /* NULL: none */

#endif
