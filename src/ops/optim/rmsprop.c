/* ops/optim/rmsprop.c -- RMSProp.  epsilon is added inside of the root. */
#include "ops/optim/apply.h"

/* h0 lr, h1 rho, h2 momentum, h3 epsilon; p ms, q mom */
MR_APPLY(rmsprop, 3,
         p += (g * g - p) * (1 - h1);
         q = q * h2 + g * h0 / sqrt(p + h3);
         w -= q)
static const mr_apply_form dense = {3, .grad = 7, .indices = -1, .n_scalars = 4, .scalars = {3, 4, 5, 6}};
static const mr_apply_form sparse = {3, .grad = 7, .indices = 8, .n_scalars = 4, .scalars = {3, 4, 5, 6}};

MR_OP(ApplyRMSProp,
    .doc      = "ms: moving mean of grad^2; mom = mom * momentum + lr * grad / sqrt(ms + epsilon); var -= mom",
    .sig      = "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_apply_shape,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(rmsprop, dense)),
    .examples = MR_EXAMPLES("[1], [0.3], [0.05], 0.01, 0.9, 0.8, 0.001, [0.5] -> [0.95080982]"));

MR_OP(ResourceApplyRMSProp,
    .doc      = "ms: moving mean of grad^2; mom = mom * momentum + lr * grad / sqrt(ms + epsilon); var -= mom",
    .sig      = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(rmsprop, dense)),
    .examples = MR_EXAMPLES("a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; "
                            "b = VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0]; "
                            "c = VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0]; "
                            ": a, b, c, 0.1, 0.5, 0.25, 0.5, [2] ->"));

MR_OP(ResourceSparseApplyRMSProp,
    .doc      = "ResourceApplyRMSProp on the rows named by indices",
    .sig      = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T, "
                "indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(rmsprop, sparse)),
    .examples = MR_EXAMPLES("a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; "
                            "b = VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0]; "
                            "c = VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0]; "
                            ": a, b, c, 0.1, 0.5, 0.25, 0.5, [2], int32[0] ->"));
