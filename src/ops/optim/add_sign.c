/* ops/optim/add_sign.c -- AddSign and PowerSign: longer steps while the gradient and its moving
 * mean agree in sign. */
#include "ops/optim/apply.h"

/* h0 lr, h1 alpha, h2 sign_decay, h3 beta; p m */
MR_APPLY(add_sign, MR_APPLY_REALS, 2,
         p = p * h3 + g * (1 - h3);
         w -= h0 * (h1 + h2 * (MR_SIGN(g) * MR_SIGN(p))) * g)
/* h1 logbase */
MR_APPLY(power_sign, MR_APPLY_REALS, 2,
         p = p * h3 + g * (1 - h3);
         w -= h0 * exp(h1 * h2 * (MR_SIGN(g) * MR_SIGN(p))) * g)
static const mr_apply_form form =
    {2, .grad = 6, .indices = -1, .n_scalars = 4, .scalars = {2, 3, 4, 5}};

MR_OP(ApplyAddSign,
    .doc      = "m: moving mean of grad; var -= lr * (alpha + sign_decay * sign(grad) * "
                "sign(m)) * grad",
    .sig      = "var: Ref(T), m: Ref(T), lr: T, alpha: T, sign_decay: T, beta: T, grad: T -> "
                "out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(add_sign, MR_APPLY_REALS, form),
    .examples = MR_EXAMPLES(
        "[1, 1, 1], [4, -4, 0], 0.5, 2, 1, 0.5, [2, 2, 0] -> [-2, 0, 1]"));

MR_OP(ResourceApplyAddSign,
    .doc      = "m: moving mean of grad; var -= lr * (alpha + sign_decay * sign(grad) * "
                "sign(m)) * grad",
    .sig      = "var: resource, m: resource, lr: T, alpha: T, sign_decay: T, beta: T, grad: T "
                "->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(add_sign, MR_APPLY_REALS, form),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, 0.5, 0.5, 0.5, [2] ->"));


MR_OP(ApplyPowerSign,
    .doc      = "m: moving mean of grad; var -= lr * exp(logbase * sign_decay * sign(grad) * "
                "sign(m)) * grad",
    .sig      = "var: Ref(T), m: Ref(T), lr: T, logbase: T, sign_decay: T, beta: T, grad: T -> "
                "out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(power_sign, MR_APPLY_REALS, form),
    .examples = MR_EXAMPLES(
        "[1, 1, 1], [4, -4, 0], 0.5, 0.6931471805599453, 1, 0.5, [2, 2, 0] -> [-1, 0.5, 1]"));

MR_OP(ResourceApplyPowerSign,
    .doc      = "m: moving mean of grad; var -= lr * exp(logbase * sign_decay * sign(grad) * "
                "sign(m)) * grad",
    .sig      = "var: resource, m: resource, lr: T, logbase: T, sign_decay: T, beta: T, grad: "
                "T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(power_sign, MR_APPLY_REALS, form),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; : a, b, "
        "0.5, 0.5, 0.5, 0.5, [2] ->"));
