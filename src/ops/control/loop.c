/* ops/control/loop.c -- the boundaries of a loop: Enter, Exit, NextIteration, LoopCond.
 *
 * The kernels only pass their input through; the executor manages frames and iterations (exec/frames.c). */
#include "graph/infer.h"
#include "run/run.h"

static mr_status *pass_input(mr_run *r)
{
    mr_run_pass(r, 0, 0);
    return NULL;
}

/* Also checks for cancellation, so that an endless loop ends with its step. */
static mr_status *loop_cond(mr_run *r)
{
    if (r->step->cancel && mr_cancel_started(r->step->cancel))
        return mr_error(MR_CANCELLED, "Loop execution was cancelled.");
    if (mr_in(r, 0)->rank != 0) /* shape inference cannot check this when shapes are unknown */
        return mr_invalid("LoopCond '%s': the condition must be a scalar, not of shape %s",
                          r->node->name, MR_TENSOR_SHAPE(mr_in(r, 0)));
    mr_run_pass(r, 0, 0);
    return NULL;
}

static mr_status *infer_unchanged(mr_infer *c)
{
    c->out[0] = c->in[0];
    c->out_handles[0] = c->in_handles[0];
    return NULL;
}

/* A loop variable may change its shape between iterations; an invariant may not. */
static mr_status *enter_shape(mr_infer *c)
{
    bool is_constant;
    MR_TRY(mr_node_get_bool(c->node, "is_constant", &is_constant));
    if (is_constant)
        c->out[0] = c->in[0];
    c->out_handles[0] = c->in_handles[0];
    return NULL;
}

static mr_status *scalar_in(mr_infer *c)
{
    return mr_infer_rank(c, c->in[0], 0, &c->out[0]);
}

#define PASSING MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY

MR_OP(Enter,
    .doc     = "brings a value into the loop named frame_name",
    .sig     = "data: T -> output: T",
    .attrs   = "T: type; frame_name: string; is_constant: bool = false; "
               "parallel_iterations: int = 10",
    .flags   = PASSING,
    .shape   = enter_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(pass_input)));

MR_OP(RefEnter,
    .doc     = "Enter for a reference",
    .sig     = "data: Ref(T) -> output: Ref(T)",
    .attrs   = "T: type; frame_name: string; is_constant: bool = false; "
               "parallel_iterations: int = 10",
    .flags   = PASSING,
    .shape   = enter_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(pass_input)));

MR_OP(Exit,
    .doc     = "brings a value out of its loop",
    .sig     = "data: T -> output: T",
    .attrs   = "T: type",
    .flags   = PASSING,
    .shape   = infer_unchanged,
    .kernels = MR_KERNELS(MR_CPU_ANY(pass_input)));

MR_OP(RefExit,
    .doc     = "Exit for a reference",
    .sig     = "data: Ref(T) -> output: Ref(T)",
    .attrs   = "T: type",
    .flags   = PASSING,
    .shape   = infer_unchanged,
    .kernels = MR_KERNELS(MR_CPU_ANY(pass_input)));

MR_OP(NextIteration,
    .doc     = "hands a value to the next iteration of its loop",
    .sig     = "data: T -> output: T",
    .attrs   = "T: type",
    .flags   = PASSING,
    .shape   = infer_unchanged,
    .kernels = MR_KERNELS(MR_CPU_ANY(pass_input)));

MR_OP(RefNextIteration,
    .doc     = "NextIteration for a reference",
    .sig     = "data: Ref(T) -> output: Ref(T)",
    .attrs   = "T: type",
    .flags   = PASSING,
    .shape   = infer_unchanged,
    .kernels = MR_KERNELS(MR_CPU_ANY(pass_input)));

MR_OP(LoopCond,
    .doc     = "marks the condition of a loop",
    .sig     = "input: bool -> output: bool",
    .flags   = PASSING | MR_NO_GRADIENT,
    .shape   = scalar_in,
    .kernels = MR_KERNELS(MR_CPU_ANY(loop_cond)),
    .examples = MR_EXAMPLES("true -> true"));
