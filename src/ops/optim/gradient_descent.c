/* ops/optim/gradient_descent.c -- var -= alpha * delta. */
#include "ops/optim/apply.h"

MR_APPLY(descend, 1, w -= h0 * g)
static const mr_apply_form form = {1, .grad = 2, .indices = -1, .n_scalars = 1, .scalars = {1}};

MR_OP(ApplyGradientDescent,
    .doc      = "var -= alpha * delta",
    .sig      = "var: Ref(T), alpha: T, delta: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_apply_shape,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(descend, form)),
    .examples = MR_EXAMPLES("[1, 2], 0.5, [2, 4] -> [0, 0]", "[1, 2], 0.5, [2] -> !INVALID_ARGUMENT same shape"));

MR_OP(ResourceApplyGradientDescent,
    .doc      = "var -= alpha * delta",
    .sig      = "var: resource, alpha: T, delta: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(descend, form)),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: v, [1, 2]; : v, 0.5, [2, 4] ->"));
