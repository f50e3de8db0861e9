/* ops/optim/gradient_descent.c -- gradient descent, plain and proximal.
 *
 * After the step, the proximal version (Fobos) applies the l1 and l2 penalties: it moves the variable
 * towards zero by eta l1, but not past it, and then divides it by 1 + eta l2. */
#include "ops/optim/apply.h"

MR_APPLY(descend, MR_APPLY_NUMBERS, 1, w -= h0 * g)
static const mr_apply_form form = {1, .grad = 2, .indices = -1, .n_scalars = 1, .scalars = {1}};

MR_OP(ApplyGradientDescent,
    .doc      = "var -= alpha * delta",
    .sig      = "var: Ref(T), alpha: T, delta: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(descend, MR_APPLY_NUMBERS, form, MR_GPU_APPLY(descend, form)),
    .examples = MR_EXAMPLES(
        "[1, 2], 0.5, [2, 4] -> [0, 0]", "[1+1i], 2i, [1] -> [1-1i]",
        "shape(0), 1, shape(0) -> shape(0)",
        "[1, 2], 0.5, [2] -> !INVALID_ARGUMENT Dimension 0 in both shapes must be equal, but are 2 and 1",
        "g = PlaceholderWithDefault dtype=$T shape=?: [2]; : [1, 2], 0.5, g -> !INVALID_ARGUMENT var and delta do not "
        "have the same shape",
        "T=float: [1], [0.5], [2] -> !INVALID_ARGUMENT Shape must be rank 0 but is rank 1",
        "a = PlaceholderWithDefault dtype=float shape=?: float[0.5]; T=float: [1], a, [2] -> !INVALID_ARGUMENT alpha "
        "is not a scalar: [1]"));

MR_OP(ResourceApplyGradientDescent,
    .doc      = "var -= alpha * delta",
    .sig      = "var: resource, alpha: T, delta: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(descend, MR_APPLY_NUMBERS, form, MR_GPU_APPLY(descend, form)),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: v, [1, 2]; "
                            ": v, 0.5, [2, 4] ->"));

/* ---- proximal ---- */

/* h0 eta, h1 l1, h2 l2 */
MR_APPLY(proximal, MR_APPLY_REALS, 1,
         w -= h0 * g;
         w = (h1 > 0 ? MR_SIGN(w) * MR_LARGER(fabs(w) - h0 * h1, 0) : w) / (1 + h0 * h2))
static const mr_apply_form proximal_dense =
    {1, .grad = 4, .indices = -1, .n_scalars = 3, .scalars = {1, 2, 3}};
static const mr_apply_form proximal_sparse =
    {1, .grad = 4, .indices = 5, .n_scalars = 3, .scalars = {1, 2, 3}};

MR_OP(ApplyProximalGradientDescent,
    .doc      = "v = var - alpha * delta; "
                "var = sign(v) * max(|v| - alpha * l1, 0) / (1 + alpha * l2)",
    .sig      = "var: Ref(T), alpha: T, l1: T, l2: T, delta: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(proximal, MR_APPLY_REALS, proximal_dense),
    .examples = MR_EXAMPLES("[2, -2, 1], 0.5, 1, 2, [1, -1, 1.5] -> [0.5, -0.5, 0]",
                            "[2, -2], 0.5, 0, 2, [1, -1] -> [0.75, -0.75]"));

MR_OP(SparseApplyProximalGradientDescent,
    .doc      = "ApplyProximalGradientDescent on the rows named by indices",
    .sig      = "var: Ref(T), alpha: T, l1: T, l2: T, grad: T, indices: Tindices -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_REF(proximal, MR_APPLY_REALS, proximal_sparse),
    .examples = MR_EXAMPLES("[2, 2, 2], 0.5, 1, 2, [1], int32[1] -> [2, 0.5, 2]"));

MR_OP(ResourceApplyProximalGradientDescent,
    .doc      = "v = var - alpha * delta; "
                "var = sign(v) * max(|v| - alpha * l1, 0) / (1 + alpha * l2)",
    .sig      = "var: resource, alpha: T, l1: T, l2: T, delta: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(proximal, MR_APPLY_REALS, proximal_dense),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: v, [1, 2]; "
                            ": v, 0.5, 1, 2, [2, 4] ->"));

MR_OP(ResourceSparseApplyProximalGradientDescent,
    .doc      = "ResourceApplyProximalGradientDescent on the rows named by indices",
    .sig      = "var: resource, alpha: T, l1: T, l2: T, grad: T, indices: Tindices ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(proximal, MR_APPLY_REALS, proximal_sparse),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: v, [1, 2]; "
                            ": v, 0.5, 1, 2, [2], int64[1] ->"));
