/* ops/control/py_func.c -- Python functions as ops; the Python front end sets the hook of run/py_func.h. */
#include "run/py_func.h"

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/absent.h"
#include "run/run.h"

typedef struct call {
    mr_py_call c;
    mr_run *r;
    mr_tensor *tensors[]; /* inputs, then outputs */
} call;

static size_t call_bytes(const mr_run *r)
{
    return sizeof(call) + sizeof(mr_tensor *) * (size_t)(r->n_in + r->n_out);
}

static mr_status *check_outputs(const call *k)
{
    for (int i = 0; i < k->c.n_out; i++) {
        if (!k->c.out[i])
            return mr_error(MR_INTERNAL, "%.*s returned no value %d", MR_SV_ARG(k->c.token), i);
        if (k->c.out[i]->dtype != mr_dtype_base(k->c.out_types[i]))
            return mr_invalid("%d-th value returned by %.*s is %s, but expects %s", i, MR_SV_ARG(k->c.token),
                              mr_dtype_name(k->c.out[i]->dtype), mr_dtype_name(mr_dtype_base(k->c.out_types[i])));
    }
    return NULL;
}

static void call_done(void *arg, mr_status *st)
{
    call *k = arg;
    mr_run *r = k->r;
    if (!st)
        st = check_outputs(k);
    for (int i = 0; i < r->n_out; i++)
        if (st)
            mr_tensor_unref(k->c.out[i]);
        else
            mr_run_set(r, i, k->c.out[i]);
    mr_small_free(k, call_bytes(r));
    mr_run_done(r, st);
}

static void py_func(mr_run *r)
{
    void *ctx;
    mr_py_func_hook *hook = mr_py_func_get_hook(&ctx);
    const mr_attr *token = mr_node_attr(r->node, "token"), *is_async = mr_node_attr(r->node, "is_async");
    mr_sv name = token && token->kind == MR_ATTR_STRING ? token->s : MR_SV("");
    if (!hook) {
        mr_run_done(r, mr_error(MR_UNIMPLEMENTED, "%s '%.*s' needs the Python front end, which is not in this process",
                                r->node->def->name, MR_SV_ARG(name)));
        return;
    }
    call *k = mr_small_alloc(call_bytes(r));
    memset(k, 0, call_bytes(r));
    k->r = r;
    for (int i = 0; i < r->n_in; i++)
        k->tensors[i] = mr_in(r, i);
    k->c = (mr_py_call){.op = r->node->def->name, .token = name, .is_async = is_async && is_async->b, .n_in = r->n_in,
                        .n_out = r->n_out, .in = k->tensors, .out_types = r->node->out_types, .out = k->tensors + r->n_in};
    hook(ctx, &k->c, call_done, k);
}

/* Without our Python front end this kernel can only fail, so a kernel that another front end registers
 * takes precedence. */
#define PY_KERNELS MR_KERNELS({"CPU", 0, NULL, py_func, .priority = MR_STAND_IN}, )

MR_OP(PyFunc,
    .doc      = "what a Python function returns for the inputs; token tells which one",
    .sig      = "input: Tin -> output: Tout",
    .attrs    = "token: string; Tin: list(type) >= 0; Tout: list(type) >= 0",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = PY_KERNELS,
    .examples = MR_EXAMPLES("token=\"pyfunc_0\" Tout=[float]: ([1, 2]) -> !UNIMPLEMENTED pyfunc_0"));

MR_OP(PyFuncStateless,
    .doc      = "PyFunc of a function without side effects",
    .sig      = "input: Tin -> output: Tout",
    .attrs    = "token: string; Tin: list(type) >= 0; Tout: list(type) >= 0",
    .flags    = MR_BLOCKS | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = PY_KERNELS,
    .examples = MR_EXAMPLES("token=\"pyfunc_0\" Tout=[float]: ([1, 2]) -> !UNIMPLEMENTED pyfunc_0"));

MR_OP(EagerPyFunc,
    .doc      = "what a Python function of eager tensors returns for the inputs",
    .sig      = "input: Tin -> output: Tout",
    .attrs    = "token: string; is_async: bool = false; Tin: list(type) >= 0; Tout: list(type) >= 0",
    .flags    = MR_BLOCKS | MR_STATEFUL,
    .shape    = mr_shape_unknown,
    .kernels  = PY_KERNELS,
    .examples = MR_EXAMPLES("token=\"f\" Tout=[float]: ([1, 2]) -> !UNIMPLEMENTED Python front end"));
