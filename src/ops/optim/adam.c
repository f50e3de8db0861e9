/* ops/optim/adam.c -- Adam.  epsilon is added outside of the root ("epsilon hat"); the powers of the betas are
 * the caller's to multiply. */
#include "ops/optim/apply.h"

/* h0 beta1_power, h1 beta2_power, h2 lr, h3 beta1, h4 beta2, h5 epsilon; p m, q v; flag use_nesterov */
MR_APPLY(adam, 3,
         p += (g - p) * (1 - h3);
         q += (g * g - q) * (1 - h4);
         w -= (flag ? g * (1 - h3) + h3 * p : p) * (h2 * sqrt(1 - h1) / (1 - h0)) / (sqrt(q) + h5))
static const mr_apply_form form = {3, .grad = 9, .indices = -1, .n_scalars = 6, .scalars = {3, 4, 5, 6, 7, 8}, .flag = "use_nesterov"};

MR_OP(ApplyAdam,
    .doc      = "m, v: moving means of grad and grad^2; var -= lr' * m / (sqrt(v) + epsilon)",
    .sig      = "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
                "epsilon: T, grad: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_apply_shape,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(adam, form)),
    .examples = MR_EXAMPLES("T=float: [1], [0.1], [0.2], 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, [0.5] -> [0.99990102]",
                            "T=double: [1], [0.1], [0.2], 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, [0.5] -> [0.99990102]",
                            "[1], [0], [0], 0.5, 0.5, 0.25, 0.5, 0.5, 0.5, [2] -> [0.8153]"));

MR_OP(ResourceApplyAdam,
    .doc      = "m, v: moving means of grad and grad^2; var -= lr' * m / (sqrt(v) + epsilon)",
    .sig      = "var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
                "epsilon: T, grad: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_APPLY(adam, form)),
    .examples = MR_EXAMPLES("a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; "
                            "b = VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0]; "
                            "c = VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0]; "
                            ": a, b, c, 0.5, 0.5, 0.25, 0.5, 0.5, 0.5, [2] ->"));
