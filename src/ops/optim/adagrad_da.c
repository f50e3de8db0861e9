/* ops/optim/adagrad_da.c -- Adagrad with dual averaging: each step recomputes the variable from the
 * sums of all gradients and of their squares, so l1 gives exact zeros. */
#include "ops/optim/apply.h"

/* h0 lr, h1 l1, h2 l2, h3 global_step; p, q sums of gradients and of their squares */
MR_APPLY(adagrad_da, MR_APPLY_REALS, 3,
         p += g;
         q += g * g;
         w = -h0 * (h1 > 0 ? MR_SIGN(p) * MR_LARGER(fabs(p) - h1 * h3, 0) : p) /
             (h2 * h3 * h0 + sqrt(q)))
static const mr_apply_form dense =
    {3, .grad = 3, .indices = -1, .n_scalars = 4, .scalars = {4, 5, 6, 7}};
static const mr_apply_form sparse =
    {3, .grad = 3, .indices = 4, .n_scalars = 4, .scalars = {5, 6, 7, 8}};

MR_OP(ApplyAdagradDA,
    .doc      = "g, s: sums of grad and grad^2; var = -lr * sign(g) * max(|g| - l1 * "
                "global_step, 0) / (l2 * global_step * lr + sqrt(s))",
    .sig      = "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: "
                "Ref(T), grad: T, lr: T, l1: T, l2: T, global_step: int64 -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(adagrad_da, MR_APPLY_REALS, dense),
    .examples = MR_EXAMPLES(
        "[7, 7, 7], [1, -1, 0], [12, 12, 3], [2, -2, 1], 2, 1, 0.5, 2 -> [-0.33333333, "
        "0.33333333, 0]",
        "[7], [1], [12], [2], 2, 0, 0, 2 -> [-1.5]"));

MR_OP(SparseApplyAdagradDA,
    .doc      = "ApplyAdagradDA on the rows named by indices",
    .sig      = "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: "
                "Ref(T), grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: int64 "
                "-> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_REF(adagrad_da, MR_APPLY_REALS, sparse),
    .examples = MR_EXAMPLES(
        "[7, 7], [1, 1], [12, 12], [2], int32[1], 2, 0, 0, 2 -> [7, -1.5]"));

MR_OP(ResourceApplyAdagradDA,
    .doc      = "g, s: sums of grad and grad^2; var = -lr * sign(g) * max(|g| - l1 * "
                "global_step, 0) / (l2 * global_step * lr + sqrt(s))",
    .sig      = "var: resource, gradient_accumulator: resource, gradient_squared_accumulator: "
                "resource, grad: T, lr: T, l1: T, l2: T, global_step: int64 ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(adagrad_da, MR_APPLY_REALS, dense),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, [2], 0.5, 0.5, 0.5, 1 ->"));

MR_OP(ResourceSparseApplyAdagradDA,
    .doc      = "ResourceApplyAdagradDA on the rows named by indices",
    .sig      = "var: resource, gradient_accumulator: resource, gradient_squared_accumulator: "
                "resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: int64 "
                "->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(adagrad_da, MR_APPLY_REALS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, [2], int32[0], 0.5, 0.5, 0.5, 1 ->"));
