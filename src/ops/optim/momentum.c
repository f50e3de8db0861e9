/* ops/optim/momentum.c -- Momentum, plain and Nesterov's; in the Keras version, accum holds the steps
 * themselves. */
#include "ops/optim/apply.h"

/* h0 lr, h1 momentum; p accum */
MR_APPLY(momentum, MR_APPLY_NUMBERS, 2,
         p = p * h1 + g;
         w -= flag ? g * h0 + p * h1 * h0 : h0 * p)
static const mr_apply_form dense =
    {2, .grad = 3, .indices = -1, .n_scalars = 2, .scalars = {2, 4}, .flag = "use_nesterov"};
static const mr_apply_form sparse =
    {2, .grad = 3, .indices = 4, .n_scalars = 2, .scalars = {2, 5}, .flag = "use_nesterov"};

MR_OP(ApplyMomentum,
    .doc      = "accum = accum * momentum + grad; var -= lr * accum",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, grad: T, momentum: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    MR_APPLY_BY_REF(momentum, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(momentum, dense)),
    .examples = MR_EXAMPLES(
        "[1], [0.5], 0.1, [0.2], 0.9 -> [0.935]",
        "use_nesterov=true: [1], [0.5], 0.1, [0.2], 0.9 -> [0.9215]"));

MR_OP(SparseApplyMomentum,
    .doc      = "ApplyMomentum on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices, momentum: T -> "
                "out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "use_nesterov: bool = false",
    MR_APPLY_BY_REF(momentum, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "[1, 1], [0.5, 0.5], 0.1, [0.2], int32[1], 0.9 -> [1, 0.935]",
        "[1, 1], [0.5, 0.5], 0.1, [0.2], int64[2], 0.9 -> !INVALID_ARGUMENT Index 2 at offset 0"));

MR_OP(ResourceApplyMomentum,
    .doc      = "accum = accum * momentum + grad; var -= lr * accum",
    .sig      = "var: resource, accum: resource, lr: T, grad: T, momentum: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    MR_APPLY_BY_HANDLE(momentum, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(momentum, dense)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, [2], 0.5 ->"));

MR_OP(ResourceSparseApplyMomentum,
    .doc      = "ResourceApplyMomentum on the rows named by indices",
    .sig      = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: "
                "T ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "use_nesterov: bool = false",
    MR_APPLY_BY_HANDLE(momentum, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, [2], int32[0], 0.5 ->"));

/* ---- as in Keras ---- */

MR_APPLY(keras, MR_APPLY_NUMBERS, 2,
         p = p * h1 - g * h0;
         w += flag ? p * h1 - g * h0 : p)

MR_OP(ResourceApplyKerasMomentum,
    .doc      = "accum = accum * momentum - lr * grad; var += accum",
    .sig      = "var: resource, accum: resource, lr: T, grad: T, momentum: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    MR_APPLY_BY_HANDLE(keras, MR_APPLY_NUMBERS, dense, MR_GPU_APPLY(keras, dense)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, [2], 0.5 ->"));

MR_OP(ResourceSparseApplyKerasMomentum,
    .doc      = "ResourceApplyKerasMomentum on the rows named by indices",
    .sig      = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: "
                "T ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "use_nesterov: bool = false",
    MR_APPLY_BY_HANDLE(keras, MR_APPLY_NUMBERS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, [2], int32[0], 0.5 ->"));
