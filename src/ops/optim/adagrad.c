/* ops/optim/adagrad.c -- Adagrad: steps shrink with the sum of squared gradients.  Plain, with
 * epsilon (V2), and with a proximal step (see gradient_descent.c). */
#include "ops/optim/apply.h"

/* h0 lr; p accum; flag update_slots */
MR_APPLY(adagrad, MR_APPLY_NUMBERS, 2, p += flag ? g * g : 0; w -= g * h0 / sqrt(p))
static const mr_apply_form dense =
    {2, .grad = 3, .indices = -1, .n_scalars = 1, .scalars = {2}, .flag = "update_slots"};
static const mr_apply_form sparse =
    {2, .grad = 3, .indices = 4, .n_scalars = 1, .scalars = {2}, .flag = "update_slots"};

MR_OP(ApplyAdagrad,
    .doc      = "accum += grad^2; var -= lr * grad / sqrt(accum)",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    MR_APPLY_BY_REF(adagrad, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(adagrad, dense)),
    .examples = MR_EXAMPLES(
        "[1], [0.1], 0.5, [0.3] -> [0.65587640]",
        "update_slots=false: [1], [4], 1, [1] -> [0.5]"));

MR_OP(SparseApplyAdagrad,
    .doc      = "ApplyAdagrad on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "update_slots: bool = true",
    MR_APPLY_BY_REF(adagrad, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "[[1], [2]], [[0.1], [0.1]], 0.5, [[0.3]], int32[0] -> [[0.65587640], [2]]",
        "[[1], [2]], [[0.1], [0.1]], 0.5, [[0.3]], int32[2] -> !INVALID_ARGUMENT Index 2 at "
        "offset 0 in indices is out of range",
        "[[1], [2]], [[0.1], [0.1]], 0.5, [[0.3, 1]], int32[1] -> !INVALID_ARGUMENT"));

MR_OP(ResourceApplyAdagrad,
    .doc      = "accum += grad^2; var -= lr * grad / sqrt(accum)",
    .sig      = "var: resource, accum: resource, lr: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    MR_APPLY_BY_HANDLE(adagrad, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(adagrad, dense)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, [2] ->"));

MR_OP(ResourceSparseApplyAdagrad,
    .doc      = "ResourceApplyAdagrad on the rows named by indices",
    .sig      = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "update_slots: bool = true",
    MR_APPLY_BY_HANDLE(adagrad, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, [2], int32[0] ->"));

/* ---- with epsilon ---- */

/* h0 lr, h1 epsilon; p accum; flag update_slots */
MR_APPLY(adagrad_v2, MR_APPLY_NUMBERS, 2, p += flag ? g * g : 0; w -= g * h0 / (sqrt(p) + h1))
static const mr_apply_form dense_v2 =
    {2, .grad = 4, .indices = -1, .n_scalars = 2, .scalars = {2, 3}, .flag = "update_slots"};
static const mr_apply_form sparse_v2 =
    {2, .grad = 4, .indices = 5, .n_scalars = 2, .scalars = {2, 3}, .flag = "update_slots"};

MR_OP(ApplyAdagradV2,
    .doc      = "accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    MR_APPLY_BY_REF(adagrad_v2, MR_APPLY_NUMBERS, dense_v2, MR_GPU_APPLY(adagrad_v2, dense_v2)),
    .examples = MR_EXAMPLES(
        "[1], [5], 1, 1, [2] -> [0.5]",
        "update_slots=false: [1], [1], 1, 1, [1] -> [0.5]"));

MR_OP(SparseApplyAdagradV2,
    .doc      = "ApplyAdagradV2 on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T, indices: Tindices -> "
                "out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "update_slots: bool = true",
    MR_APPLY_BY_REF(adagrad_v2, MR_APPLY_NUMBERS, sparse_v2),
    .examples = MR_EXAMPLES(
        "[[1], [2]], [[0], [5]], 1, 1, [[2]], int64[1] -> [[1], [1.5]]"));

MR_OP(ResourceApplyAdagradV2,
    .doc      = "accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)",
    .sig      = "var: resource, accum: resource, lr: T, epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    MR_APPLY_BY_HANDLE(adagrad_v2, MR_APPLY_NUMBERS, dense_v2, MR_GPU_APPLY(adagrad_v2, dense_v2)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, 0.5, [2] ->"));

MR_OP(ResourceSparseApplyAdagradV2,
    .doc      = "ResourceApplyAdagradV2 on the rows named by indices",
    .sig      = "var: resource, accum: resource, lr: T, epsilon: T, grad: T, indices: Tindices "
                "->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "update_slots: bool = true",
    MR_APPLY_BY_HANDLE(adagrad_v2, MR_APPLY_NUMBERS, sparse_v2),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, 0.5, [2], int32[0] ->"));

/* ---- proximal ---- */

/* h0 lr, h1 l1, h2 l2; p accum; w takes the step, then the penalties pull it towards zero */
MR_APPLY(proximal, MR_APPLY_REALS, 2,
         p += g * g;
         w -= g * h0 / sqrt(p);
         w = (h1 > 0 ? MR_SIGN(w) * MR_LARGER(fabs(w) - h0 / sqrt(p) * h1, 0) : w) /
             (1 + h2 * h0 / sqrt(p)))
#define PROXIMAL_LIMITS {MR_APPLY_POSITIVE, MR_APPLY_NON_NEGATIVE, MR_APPLY_NON_NEGATIVE}
static const mr_apply_form proximal_dense =
    {2, .grad = 5, .indices = -1, .n_scalars = 3, .scalars = {2, 3, 4}, .limits = PROXIMAL_LIMITS};
static const mr_apply_form proximal_sparse =
    {2, .grad = 5, .indices = 6, .n_scalars = 3, .scalars = {2, 3, 4}, .limits = PROXIMAL_LIMITS};

MR_OP(ApplyProximalAdagrad,
    .doc      = "accum += grad^2; eta = lr / sqrt(accum); v = var - eta * grad; var = sign(v) "
                "* max(|v| - eta * l1, 0) / (1 + eta * l2)",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(proximal, MR_APPLY_REALS, proximal_dense),
    .examples = MR_EXAMPLES(
        "[2, -2, 0.5], [12, 12, 0], 2, 1, 2, [2, -2, 0.5] -> [0.25, -0.25, 0]",
        "[2], [12], 2, 0, 2, [2] -> [0.5]",
        "[2], [12], 0, 0, 0, [2] -> !INVALID_ARGUMENT lr is not a positive scalar"));

MR_OP(SparseApplyProximalAdagrad,
    .doc      = "ApplyProximalAdagrad on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T, indices: Tindices "
                "-> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_REF(proximal, MR_APPLY_REALS, proximal_sparse),
    .examples = MR_EXAMPLES(
        "[2, 2], [12, 12], 2, 0, 2, [2], int32[1] -> [2, 0.5]",
        "[2, 2], [12, 12], 2, -1, 2, [2], int32[1] -> !INVALID_ARGUMENT l1 is not a "
        "non-negative scalar"));

MR_OP(ResourceApplyProximalAdagrad,
    .doc      = "accum += grad^2; eta = lr / sqrt(accum); v = var - eta * grad; var = sign(v) "
                "* max(|v| - eta * l1, 0) / (1 + eta * l2)",
    .sig      = "var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(proximal, MR_APPLY_REALS, proximal_dense),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, 0.5, 0.5, [2] ->"));

MR_OP(ResourceSparseApplyProximalAdagrad,
    .doc      = "ResourceApplyProximalAdagrad on the rows named by indices",
    .sig      = "var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T, indices: "
                "Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(proximal, MR_APPLY_REALS, proximal_sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, 0.5, 0.5, [2], int32[0] ->"));
