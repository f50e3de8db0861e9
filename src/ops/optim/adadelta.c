/* ops/optim/adadelta.c -- Adadelta: the size of a step follows from the sizes of earlier steps. */
#include "ops/optim/apply.h"

/* h0 lr, h1 rho, h2 epsilon; p accum, q accum_update */
MR_APPLY(adadelta, MR_APPLY_NUMBERS, 3,
         p = p * h1 + g * g * (1 - h1);
         g = sqrt(q + h2) / sqrt(p + h2) * g; /* the update */
         w -= h0 * g;
         q = q * h1 + g * g * (1 - h1))
static const mr_apply_form dense =
    {3, .grad = 6, .indices = -1, .n_scalars = 3, .scalars = {3, 4, 5}};
static const mr_apply_form sparse =
    {3, .grad = 6, .indices = 7, .n_scalars = 3, .scalars = {3, 4, 5}};

MR_OP(ApplyAdadelta,
    .doc      = "accum: moving mean of grad^2; u = sqrt(accum_update + epsilon) / sqrt(accum + "
                "epsilon) * grad; var -= lr * u; accum_update: moving mean of u^2",
    .sig      = "var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, "
                "grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(adadelta, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(adadelta, dense)),
    .examples = MR_EXAMPLES(
        "T=float: [1], [0.2], [0.1], 0.5, 0.95, 1e-6, [0.4] -> [0.85786584]",
        "T=double: [1], [0.2], [0.1], 0.5, 0.95, 1e-6, [0.4] -> [0.85786584]",
        "[1], [4], [3.5], 0.5, 0.5, 0.5, [3] -> [-0.13389342]",
        "[1], [4], [3.5], [0.5], 0.5, 0.5, [3] -> !INVALID_ARGUMENT Shape must be rank 0 but is rank 1"));

MR_OP(SparseApplyAdadelta,
    .doc      = "ApplyAdadelta on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, "
                "grad: T, indices: Tindices -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_REF(adadelta, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "[1, 1], [4, 4], [3.5, 3.5], 0.5, 0.5, 0.5, [3], int64[1] -> [1, -0.13389342]"));

MR_OP(ResourceApplyAdadelta,
    .doc      = "accum: moving mean of grad^2; u = sqrt(accum_update + epsilon) / sqrt(accum + "
                "epsilon) * grad; var -= lr * u; accum_update: moving mean of u^2",
    .sig      = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, "
                "epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(adadelta, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(adadelta, dense)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, 0.5, 0.5, 0.5, [2] ->"));

MR_OP(ResourceSparseApplyAdadelta,
    .doc      = "ResourceApplyAdadelta on the rows named by indices",
    .sig      = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, "
                "epsilon: T, grad: T, indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(adadelta, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, 0.5, 0.5, 0.5, [2], int32[0] ->"));
