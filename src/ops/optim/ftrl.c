/* ops/optim/ftrl.c -- "Follow the regularized leader": as in AdagradDA, each step recomputes the
 * variable from sums, so l1 gives exact zeros.  V2 adds a penalty on the size of the variable
 * (shrinkage), which only enters the linear term.
 *
 * With multiply_linear_by_lr the slot `linear` is multiplied by lr, so that the learning rate may be
 * zero. */
#include "ops/optim/apply.h"

/* h0 lr, h1 l1, h2 l2, h3 lr_power, h4 l2_shrinkage; p accum, q linear; flag
 * multiply_linear_by_lr.  POWER(x) is x^-lr_power. */
#define FTRL(fn, POWER)                                                       \
    MR_APPLY(fn, MR_APPLY_REALS, 3,                                           \
             const __typeof__(w) sum = p + g * g, shrunk = g + 2 * h4 * w;    \
             const __typeof__(w) moved = (POWER(sum) - POWER(p)) * w;         \
             q += flag ? shrunk * h0 - moved : shrunk - moved / h0;           \
             const __typeof__(w) l1 = flag ? h1 * h0 : h1;                    \
             const __typeof__(w) quadratic = flag ? POWER(sum) + 2 * h2 * h0  \
                                                  : POWER(sum) / h0 + 2 * h2; \
             w = fabs(q) > l1 ? (MR_SIGN(q) * l1 - q) / quadratic : 0;        \
             p = sum)
#define POWER_ANY(x) pow(x, -h3)
FTRL(ftrl, POWER_ANY)
FTRL(ftrl_root, sqrt)

static bool is_root(const mr_apply_args *a) { return creal(a->h[3]) == -0.5; }

#define LIMITS                                                        \
    {MR_APPLY_POSITIVE, MR_APPLY_NON_NEGATIVE, MR_APPLY_NON_NEGATIVE, \
     MR_APPLY_NON_POSITIVE, MR_APPLY_NON_NEGATIVE}
#define FORM(indices_, n_scalars_, ...)                          \
    {3, .grad = 3, .indices = indices_, .n_scalars = n_scalars_, \
     .scalars = {__VA_ARGS__}, .limits = LIMITS,                 \
     .flag = "multiply_linear_by_lr", .use_second = is_root}
static const mr_apply_form dense = FORM(-1, 4, 4, 5, 6, 7);
static const mr_apply_form sparse = FORM(4, 4, 5, 6, 7, 8);
static const mr_apply_form dense_v2 = FORM(-1, 5, 4, 5, 6, 8, 7);
static const mr_apply_form sparse_v2 = FORM(4, 5, 5, 6, 7, 9, 8);

MR_OP(ApplyFtrl,
    .doc      = "linear += grad - (accum'^-lr_power - accum^-lr_power) / lr * var; var = "
                "|linear| > l1 ? (sign(linear) * l1 - linear) / (accum'^-lr_power / lr + 2 * "
                "l2) : 0, where accum' = accum + grad^2",
    .sig      = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, "
                "lr_power: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_REF2(ftrl, ftrl_root, MR_APPLY_REALS, dense),
    .examples = MR_EXAMPLES(
        "T=float: [1], [0.1], [0.5], [0.2], 0.5, 0.01, 0.1, -0.5 -> [-0.60540441]",
        "T=double: [1], [0.1], [0.5], [0.2], 0.5, 0.01, 0.1, -0.5 -> [-0.60540441]",
        "[1, 1], [3, 3], [2, -5], [1, 1], 1, 1, 0.5, -1 -> [-0.2, 0.8]",
        "[1], [3], [-0.5], [1], 1, 1, 0.5, -0.5 -> [0]",
        "[1], [0], [0], [1], 0, 0, 0, -0.5 -> !INVALID_ARGUMENT lr is not a positive scalar",
        "T=float: [1], [0], [0], [1], nan, 0, 0, -0.5 -> !INVALID_ARGUMENT lr is not a "
        "positive scalar",
        "[1], [0], [0], [1], 1, -1, 0, -0.5 -> !INVALID_ARGUMENT l1 is not a non-negative "
        "scalar",
        "[1], [0], [0], [1], 1, 0, 0, 0.5 -> !INVALID_ARGUMENT lr_power is not a non-positive "
        "scalar",
        "multiply_linear_by_lr=true: [1], [3], [1], [1], 0.5, 2, 1, -0.5 -> [-0.07735026919]",
        "multiply_linear_by_lr=true: [1], [3], [0], [1], 0, 0, 0, -0.5 -> [0.1339746]"));

MR_OP(SparseApplyFtrl,
    .doc      = "ApplyFtrl on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: "
                "T, l1: T, l2: T, lr_power: T -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_REF2(ftrl, ftrl_root, MR_APPLY_REALS, sparse),
    .examples = MR_EXAMPLES(
        "[1, 1, 1], [3, 3, 3], [2, 2, -5], [1, 1], int32[2, 1], 1, 1, 0.5, -1 -> [1, -0.2, 0.8]",
        "[1], [3], [1], [1], int32[1], 1, 1, 0.5, -1 -> !INVALID_ARGUMENT Index 1 at offset 0"));

MR_OP(ResourceApplyFtrl,
    .doc      = "linear += grad - (accum'^-lr_power - accum^-lr_power) / lr * var; var = "
                "|linear| > l1 ? (sign(linear) * l1 - linear) / (accum'^-lr_power / lr + 2 * "
                "l2) : 0, where accum' = accum + grad^2",
    .sig      = "var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: "
                "T, lr_power: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_HANDLE2(ftrl, ftrl_root, MR_APPLY_REALS, dense),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, [2], 0.5, 0.5, 0.5, -0.5 ->"));

MR_OP(ResourceSparseApplyFtrl,
    .doc      = "ResourceApplyFtrl on the rows named by indices",
    .sig      = "var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, "
                "lr: T, l1: T, l2: T, lr_power: T ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_HANDLE2(ftrl, ftrl_root, MR_APPLY_REALS, sparse),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, [2], int32[0], 0.5, 0.5, 0.5, -0.5 ->"));

/* ---- V2 ---- */

MR_OP(ApplyFtrlV2,
    .doc      = "ApplyFtrl with grad + 2 * l2_shrinkage * var instead of grad in linear",
    .sig      = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, "
                "l2_shrinkage: T, lr_power: T -> out: Ref(T)",
    .attrs    = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_REF2(ftrl, ftrl_root, MR_APPLY_REALS, dense_v2),
    .examples = MR_EXAMPLES(
        "[1, 1], [3, 3], [0, -6], [1, 1], 1, 1, 0.5, 0.5, -1 -> [0, 0.8]",
        "[1], [0], [0], [1], 1, 0, 0, -0.5, -0.5 -> !INVALID_ARGUMENT l2_shrinkage is not a "
        "non-negative scalar"));

MR_OP(SparseApplyFtrlV2,
    .doc      = "ApplyFtrlV2 on the rows named by indices",
    .sig      = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: "
                "T, l1: T, l2: T, l2_shrinkage: T, lr_power: T -> out: Ref(T)",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_REF2(ftrl, ftrl_root, MR_APPLY_REALS, sparse_v2),
    .examples = MR_EXAMPLES(
        "[1, 1], [3, 3], [-6, -6], [1], int64[1], 1, 1, 0.5, 0.5, -1 -> [1, 0.8]"));

MR_OP(ResourceApplyFtrlV2,
    .doc      = "ApplyFtrl with grad + 2 * l2_shrinkage * var instead of grad in linear",
    .sig      = "var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: "
                "T, l2_shrinkage: T, lr_power: T ->",
    .attrs    = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_HANDLE2(ftrl, ftrl_root, MR_APPLY_REALS, dense_v2),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, [2], 0.5, 0.5, 0.5, 0.5, -0.5 ->"));

MR_OP(ResourceSparseApplyFtrlV2,
    .doc      = "ResourceApplyFtrlV2 on the rows named by indices",
    .sig      = "var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, "
                "lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T ->",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; "
                "multiply_linear_by_lr: bool = false",
    MR_APPLY_BY_HANDLE2(ftrl, ftrl_root, MR_APPLY_REALS, sparse_v2),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=$T shape=[1] shared_name=\"a\"; AssignVariableOp: a, [1]; b = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"b\"; AssignVariableOp: b, [0.5]; c = "
        "VarHandleOp dtype=$T shape=[1] shared_name=\"c\"; AssignVariableOp: c, [0.5]; : a, b, "
        "c, [2], int32[0], 0.5, 0.5, 0.5, 0.5, -0.5 ->"));
