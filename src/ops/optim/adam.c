/* ops/optim/adam.c -- Adam and its variants.  epsilon is added outside of the root ("epsilon hat"); the
 * caller updates the powers of the betas. */
#include "ops/optim/apply.h"

/* h0 beta1_power, h1 beta2_power, h2 lr, h3 beta1, h4 beta2, h5 epsilon; p m, q v; flag
 * use_nesterov */
MR_APPLY(adam, MR_APPLY_NUMBERS, 3,
         p += (g - p) * (1 - h3);
         q += (g * g - q) * (1 - h4);
         w -= (flag ? g * (1 - h3) + h3 * p : p) * (h2 * sqrt(1 - h1) / (1 - h0)) /
              (sqrt(q) + h5))
static const mr_apply_form adam_form = {3, .grad = 9, .indices = -1, .n_scalars = 6,
                                        .scalars = {3, 4, 5, 6, 7, 8}, .flag = "use_nesterov"};

MR_OP(ApplyAdam,
    .doc      = "m, v: moving means of grad and grad^2; var -= lr' * m / (sqrt(v) + epsilon)",
    .sig      = "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, beta2_power: T, lr: T, "
                "beta1: T, beta2: T, epsilon: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    MR_APPLY_BY_REF(adam, MR_APPLY_NUMBERS, adam_form, MR_GPU_APPLY(adam, adam_form)),
    .examples = MR_EXAMPLES(
        "T=float: [1], [0.1], [0.2], 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, [0.5] -> [0.99990102]",
        "T=double: [1], [0.1], [0.2], 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, [0.5] -> "
        "[0.99990102]",
        "[1], [0], [0], 0.5, 0.5, 0.25, 0.5, 0.5, 0.5, [2] -> [0.8153]",
        "use_nesterov=true: [1], [0], [0], 0.5, 0.75, 1, 0.5, 0.5, 1.5857864, [2] -> [0.5]"));

MR_OP(ResourceApplyAdam,
    .doc      = "m, v: moving means of grad and grad^2; var -= lr' * m / (sqrt(v) + epsilon)",
    .sig      = "var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: "
                "T, beta1: T, beta2: T, epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    MR_APPLY_BY_HANDLE(adam, MR_APPLY_NUMBERS, adam_form, MR_GPU_APPLY(adam, adam_form)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, [2] ->"));

/* ---- AMSGrad: the largest v so far ---- */

/* as above; s vhat */
MR_APPLY(amsgrad, MR_APPLY_REALS, 4,
         p += (g - p) * (1 - h3);
         q += (g * g - q) * (1 - h4);
         s = MR_LARGER(s, q);
         w -= p * (h2 * sqrt(1 - h1) / (1 - h0)) / (sqrt(s) + h5))
static const mr_apply_form amsgrad_form =
    {4, .grad = 10, .indices = -1, .n_scalars = 6, .scalars = {4, 5, 6, 7, 8, 9}};

MR_OP(ResourceApplyAdamWithAmsgrad,
    .doc      = "m, v: moving means of grad and grad^2; vhat = max(vhat, v); var -= lr' * m / "
                "(sqrt(vhat) + epsilon)",
    .sig      = "var: resource, m: resource, v: resource, vhat: resource, beta1_power: T, "
                "beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(amsgrad, MR_APPLY_REALS, amsgrad_form),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; d = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"d\"; AssignVariableOp: d, [0.5]; : a, b, "
        "c, d, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, [2] ->"));

/* ---- AdaMax: by the largest gradient ---- */

/* h0 beta1_power, h1 lr, h2 beta1, h3 beta2, h4 epsilon; p m, q v */
MR_APPLY(adamax, MR_APPLY_REALS, 3,
         p += (g - p) * (1 - h2);
         q = MR_LARGER(h3 * q, fabs(g));
         w -= h1 / (1 - h0) * (p / (q + h4)))
static const mr_apply_form adamax_form =
    {3, .grad = 8, .indices = -1, .n_scalars = 5, .scalars = {3, 4, 5, 6, 7}};

MR_OP(ApplyAdaMax,
    .doc      = "m: moving mean of grad; v = max(beta2 * v, |grad|); var -= lr / (1 - "
                "beta1_power) * m / (v + epsilon)",
    .sig      = "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, lr: T, beta1: T, beta2: T, "
                "epsilon: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_REF(adamax, MR_APPLY_REALS, adamax_form),
    .examples = MR_EXAMPLES(
        "[1, 1], [0, 2], [1, 8], 0.5, 1, 0.5, 0.5, 0, [2, -2] -> [0, 1]"));

MR_OP(ResourceApplyAdaMax,
    .doc      = "m: moving mean of grad; v = max(beta2 * v, |grad|); var -= lr / (1 - "
                "beta1_power) * m / (v + epsilon)",
    .sig      = "var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, "
                "beta2: T, epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false",
    MR_APPLY_BY_HANDLE(adamax, MR_APPLY_REALS, adamax_form),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, 0.5, 0.5, 0.5, 0.5, 0.5, [2] ->"));
