/* ops/optim/rmsprop.c -- RMSProp, plain and centered.  epsilon is added inside of the root. */
#include "ops/optim/apply.h"

/* h0 lr, h1 rho, h2 momentum, h3 epsilon; p ms, q mom */
MR_APPLY(rmsprop, MR_APPLY_NUMBERS, 3,
         p += (g * g - p) * (1 - h1);
         q = q * h2 + g * h0 / sqrt(p + h3);
         w -= q)
static const mr_apply_form dense =
    {3, .grad = 7, .indices = -1, .n_scalars = 4, .scalars = {3, 4, 5, 6}};
static const mr_apply_form sparse =
    {3, .grad = 7, .indices = 8, .n_scalars = 4, .scalars = {3, 4, 5, 6}};

MR_OP(ApplyRMSProp,
    .doc      = "ms: moving mean of grad^2; mom = mom * momentum + lr * grad / sqrt(ms + "
                "epsilon); var -= mom",
    .sig      = "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, "
                "grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(rmsprop, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(rmsprop, dense)),
    .examples = MR_EXAMPLES(
        "[1], [0.3], [0.05], 0.01, 0.9, 0.8, 0.001, [0.5] -> [0.95080982]"));

MR_OP(SparseApplyRMSProp,
    .doc      = "ApplyRMSProp on the rows named by indices",
    .sig      = "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, "
                "grad: T, indices: Tindices -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_REF(rmsprop, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "[1, 1], [0.3, 0.3], [0.05, 0.05], 0.01, 0.9, 0.8, 0.001, [0.5], int32[1] -> [1, "
        "0.95080982]"));

MR_OP(ResourceApplyRMSProp,
    .doc      = "ms: moving mean of grad^2; mom = mom * momentum + lr * grad / sqrt(ms + "
                "epsilon); var -= mom",
    .sig      = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, "
                "epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(rmsprop, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(rmsprop, dense)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, 0.5, 0.5, 0.5, 0.5, [2] ->"));

MR_OP(ResourceSparseApplyRMSProp,
    .doc      = "ResourceApplyRMSProp on the rows named by indices",
    .sig      = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, "
                "epsilon: T, grad: T, indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(rmsprop, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, 0.5, 0.5, 0.5, 0.5, [2], int32[0] ->"));

/* ---- centered: the variance instead of the mean square ---- */

/* as above; p mg, q ms, s mom */
MR_APPLY(centered, MR_APPLY_NUMBERS, 4,
         q += (g * g - q) * (1 - h1);
         p += (g - p) * (1 - h1);
         s = s * h2 + g * h0 / sqrt(q - p * p + h3);
         w -= s)
static const mr_apply_form centered_dense =
    {4, .grad = 8, .indices = -1, .n_scalars = 4, .scalars = {4, 5, 6, 7}};
static const mr_apply_form centered_sparse =
    {4, .grad = 8, .indices = 9, .n_scalars = 4, .scalars = {4, 5, 6, 7}};

MR_OP(ApplyCenteredRMSProp,
    .doc      = "mg, ms: moving means of grad and grad^2; mom = mom * momentum + lr * grad / "
                "sqrt(ms - mg^2 + epsilon); var -= mom",
    .sig      = "var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, "
                "epsilon: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(centered, MR_APPLY_NUMBERS, centered_dense, MR_GPU_APPLY(centered, centered_dense)),
    .examples = MR_EXAMPLES(
        "[1], [1], [3], [0.5], 0.5, 0.5, 0.5, 0.75, [2] -> [0.0428932]"));

MR_OP(SparseApplyCenteredRMSProp,
    .doc      = "ApplyCenteredRMSProp on the rows named by indices",
    .sig      = "var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, "
                "epsilon: T, grad: T, indices: Tindices -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_REF(centered, MR_APPLY_NUMBERS, centered_sparse),
    .examples = MR_EXAMPLES(
        "[1, 1], [1, 1], [3, 3], [0.5, 0.5], 0.5, 0.5, 0.5, 0.75, [2], int64[0] -> [0.0428932, "
        "1]"));

MR_OP(ResourceApplyCenteredRMSProp,
    .doc      = "mg, ms: moving means of grad and grad^2; mom = mom * momentum + lr * grad / "
                "sqrt(ms - mg^2 + epsilon); var -= mom",
    .sig      = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, "
                "momentum: T, epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(centered, MR_APPLY_NUMBERS, centered_dense, MR_GPU_APPLY(centered, centered_dense)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; d = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"d\"; AssignVariableOp: d, [0.5]; : a, b, "
        "c, d, 0.5, 0.5, 0.5, 0.5, [2] ->"));

MR_OP(ResourceSparseApplyCenteredRMSProp,
    .doc      = "ResourceApplyCenteredRMSProp on the rows named by indices",
    .sig      = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, "
                "momentum: T, epsilon: T, grad: T, indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(centered, MR_APPLY_NUMBERS, centered_sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; d = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"d\"; AssignVariableOp: d, [0.5]; : a, b, "
        "c, d, 0.5, 0.5, 0.5, 0.5, [2], int32[0] ->"));
