/* ops/control/partitioned_call.c -- ops that call a function given as an attribute.
 *
 * A node whose op is itself the name of a function needs nothing here: run/instance.c gives it a kernel.
 * SymbolicGradient is passed on under its own name; exec/function.c derives the function it denotes.
 * graph/gradient_call.c builds the gradient of a call. */
#include "graph/infer.h"
#include "run/executor_type.h"
#include "run/run.h"

static void run_call(mr_run *r)
{
    const mr_func_ref *f = NULL;
    const mr_attr *type = mr_node_attr(r->node, "executor_type");
    mr_status *st = mr_node_get_func(r->node, "f", &f);
    if (!st && type && type->kind == MR_ATTR_STRING)
        st = mr_executor_type_check(type->s);
    if (st)
        mr_run_done(r, st);
    else
        mr_run_call(r, f);
}

static void run_symbolic_gradient(mr_run *r)
{
    mr_run_call(r, &(mr_func_ref){"SymbolicGradient", r->node->n_attrs, r->node->attrs});
}

/* Gradient i has the shape of the function's input i. */
static mr_status *symbolic_gradient_shape(mr_infer *c)
{
    if (c->n_in < c->n_out)
        return mr_invalid("len(inputs) < len(outputs)");
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = c->in[i];
    return NULL;
}

#define CALL_ATTRS                                                                          \
    "Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ''; "           \
    "config_proto: string = ''; executor_type: string = ''"

MR_OP(PartitionedCall,
    .doc     = "returns f(args), which may run over several devices; f has no side effects",
    .sig     = "args: Tin -> output: Tout",
    .attrs   = CALL_ATTRS,
    .flags   = MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_call)));

MR_OP(StatefulPartitionedCall,
    .doc     = "returns f(args), which may run over several devices",
    .sig     = "args: Tin -> output: Tout",
    .attrs   = CALL_ATTRS,
    .flags   = MR_STATEFUL | MR_DISTCOMM | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_call)));

MR_OP(SymbolicGradient,
    .doc     = "the gradient of f at the inputs, given the gradients of its outputs",
    .sig     = "input: Tin -> output: Tout",
    .attrs   = "Tin: list(type) >= 1; Tout: list(type) >= 1; f: func",
    .flags   = MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = symbolic_gradient_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_symbolic_gradient)));
