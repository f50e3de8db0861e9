/* ops/optim/adagrad.c -- Adagrad: steps shrink with the sum of squared gradients. */
#include "ops/optim/apply.h"

/* h0 lr; p accum; flag update_slots */
MR_APPLY(adagrad, 2, p += flag ? g * g : 0; w -= g * h0 / sqrt(p))
static const mr_apply_form dense = {2, .grad = 3, .indices = -1, .n_scalars = 1, .scalars = {2}, .flag = "update_slots"};
static const mr_apply_form sparse = {2, .grad = 3, .indices = 4, .n_scalars = 1, .scalars = {2}, .flag = "update_slots"};

MR_OP(ApplyAdagrad,
    .doc      = "accum += grad^2; var -= lr * grad / sqrt(accum)",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_apply_shape,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(adagrad, dense)),
    .examples = MR_EXAMPLES("[1], [0.1], 0.5, [0.3] -> [0.65587640]",
                            "update_slots=false: [1], [4], 1, [1] -> [0.5]"));

MR_OP(SparseApplyAdagrad,
    .doc      = "ApplyAdagrad on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; update_slots: bool = true",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_apply_shape,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(adagrad, sparse)),
    .examples = MR_EXAMPLES("[[1], [2]], [[0.1], [0.1]], 0.5, [[0.3]], int32[0] -> [[0.65587640], [2]]"));

MR_OP(ResourceApplyAdagrad,
    .doc      = "accum += grad^2; var -= lr * grad / sqrt(accum)",
    .sig      = "var: resource, accum: resource, lr: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(adagrad, dense)),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[1] shared_name=\"v\"; AssignVariableOp: v, [1]; "
                            "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [0.5]; "
                            ": v, a, 0.5, [0.3] ->"));

MR_OP(ResourceSparseApplyAdagrad,
    .doc      = "ResourceApplyAdagrad on the rows named by indices",
    .sig      = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; update_slots: bool = true",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(adagrad, sparse)),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[1] shared_name=\"v\"; AssignVariableOp: v, [1]; "
                            "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [0.5]; "
                            ": v, a, 0.5, [0.3], int64[0] ->"));
