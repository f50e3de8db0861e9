/* ops/optim/apply.h -- optimizer updates: Apply*, SparseApply* and their Resource forms from one
 * loop.
 *
 * An optimizer is a formula for one element: w the variable, p, q and s its slots, g the gradient,
 * h0..h5 the hyper-parameters, `flag` a bool attr.  It is written once, changes w and the slots,
 * and serves all four forms in all types of the list:
 *
 *     MR_APPLY(momentum, MR_APPLY_NUMBERS, 2,
 *              p = p * h1 + g; w -= flag ? g * h0 + p * h1 * h0 : h0 * p)
 *
 * A second, faster formula may be used for special values of the hyper-parameters.  apply.c does
 * everything else: it reads variables through references or handles, locks them in address order,
 * copies a value that someone still reads, checks shapes, walks the rows of a sparse gradient and
 * splits work over threads.  One pass over memory updates the variable and its slots together. */
#ifndef MR_OPS_OPTIM_APPLY_H
#define MR_OPS_OPTIM_APPLY_H

#include "base/simd.h"
#include "graph/infer.h"
#include "ops/maths.h"
#include "run/accel.h"

enum { MR_APPLY_VARS = 4, MR_APPLY_SCALARS = 6 };

typedef struct mr_apply_args {
    void *var[MR_APPLY_VARS];
    const void *grad;
    mr_c128 h[MR_APPLY_SCALARS]; /* the imaginary part of real numbers is 0 */
    bool flag;
} mr_apply_args;

typedef void mr_apply_loop(const mr_apply_args *a, int64_t begin, int64_t end);

/* The limit of a hyper-parameter, which is always a scalar. */
typedef enum mr_apply_limit {
    MR_APPLY_ANY = 0,
    MR_APPLY_POSITIVE, /* also 0 if the flag is set: Ftrl's lr with multiply_linear_by_lr */
    MR_APPLY_NON_NEGATIVE,
    MR_APPLY_NON_POSITIVE,
} mr_apply_limit;

/* The inputs of a form of the op; the loops depend on the type. */
typedef struct mr_apply_form {
    int n_vars;        /* inputs 0..n_vars-1: the variable and its slots */
    int grad, indices; /* inputs; indices -1: dense */
    int n_scalars;
    int scalars[MR_APPLY_SCALARS];
    mr_apply_limit limits[MR_APPLY_SCALARS];
    const char *flag; /* bool attr, or NULL */
    bool (*use_second)(const mr_apply_args *a); /* or NULL: there is no second loop */
} mr_apply_form;

typedef struct mr_apply {
    mr_apply_loop *loop, *second;
    const mr_apply_form *form;
    const char *accel; /* the kernel of an accelerator; the loops are NULL then */
} mr_apply;

typedef struct mr_apply_state { /* of a kernel: its attrs */
    bool flag;
} mr_apply_state;

/* For a kernel whose .user is an mr_apply. */
mr_status *mr_apply_init(mr_make *m, void *state);
mr_status *mr_apply_run(mr_run *r);
mr_status *mr_apply_run_accel(mr_run *r);
/* Variables and the gradient have the same shape, except for the rows of a sparse gradient; all other inputs are
 * scalars. */
mr_status *mr_apply_shape(mr_infer *c);

/* Types: formulas that use only + - * / and sqrt are also defined for complex numbers. */
#define MR_APPLY_NUMBERS MR_FLOATS_COMPLEX
#define MR_APPLY_REALS MR_FLOATS
/* sign(x), for formulas. */
#define MR_SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : 0)

#define MR_APPLY(fn, TYPES, n_vars, ...) TYPES(MR_APPLY_LOOP_ROW, fn, n_vars, (__VA_ARGS__))
/* The fields that the Ref and the Resource forms of an op share; `form` is a constant mr_apply_form.
 * fn2: the second formula.  More rows may follow. */
#define MR_APPLY_BY_REF(fn, TYPES, form, ...) MR_APPLY_BY_REF2(fn, fn, TYPES, form, __VA_ARGS__)
#define MR_APPLY_BY_REF2(fn, fn2, TYPES, form, ...)                \
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_apply_shape, \
    .kernels = MR_KERNELS(TYPES(MR_APPLY_KERNEL_ROW, fn, fn2, form) __VA_ARGS__)
#define MR_APPLY_BY_HANDLE(fn, TYPES, form, ...) MR_APPLY_BY_HANDLE2(fn, fn, TYPES, form, __VA_ARGS__)
#define MR_APPLY_BY_HANDLE2(fn, fn2, TYPES, form, ...)             \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_apply_shape, \
    .kernels = MR_KERNELS(TYPES(MR_APPLY_KERNEL_ROW, fn, fn2, form) __VA_ARGS__)
/* A row for accelerators, from the same formula (tools/cl-kernels).  Only for dense forms without limits, because
 * scalars stay in the device's memory. */
#define MR_GPU_APPLY(fn, form_)                                                                           \
    {.device = MR_ACCEL_KERNELS, .type = MR_FLOAT, .run = mr_apply_run_accel,                             \
     .user = (void *)(uintptr_t) & (const mr_apply){.form = &form_, .accel = "apply_" #fn},               \
     .state_bytes = sizeof(mr_apply_state), .init = mr_apply_init},

/* ---- the loops that the macros define ---- */
#define MR_APPLY_BODY(...) __VA_ARGS__
#define MR_APPLY_CLONES_HALF
#define MR_APPLY_CLONES_BFLOAT16
#define MR_APPLY_CLONES_FLOAT MR_CLONES
#define MR_APPLY_CLONES_DOUBLE MR_CLONES
#define MR_APPLY_CLONES_COMPLEX64
#define MR_APPLY_CLONES_COMPLEX128
#define MR_APPLY_LOOP_ROW(E, name, number, S, C, fn, n_vars, body)                      \
    MR_APPLY_CLONES_##E static void fn##_##name(const mr_apply_args *a, int64_t begin,  \
                                                int64_t end)                            \
    {                                                                                   \
        S *var = a->var[0], *slot1 = a->var[1], *slot2 = a->var[2], *slot3 = a->var[3]; \
        const S *grad = a->grad;                                                        \
        const C h0 = (C)a->h[0], h1 = (C)a->h[1], h2 = (C)a->h[2];                      \
        const C h3 = (C)a->h[3], h4 = (C)a->h[4], h5 = (C)a->h[5];                      \
        const bool flag = a->flag;                                                      \
        (void)h0, (void)h1, (void)h2, (void)h3, (void)h4, (void)h5, (void)flag;         \
        (void)slot1, (void)slot2, (void)slot3;                                          \
        MR_IVDEP /* a variable may be its own slot, never a shifted one */              \
        for (int64_t i = begin; i < end; i++) {                                         \
            C w = MR_LD(var + i), g = MR_LD(grad + i);                                  \
            MR_APPLY_LOAD_##n_vars(C)                                                   \
            MR_APPLY_BODY body;                                                         \
            MR_ST(var + i, w);                                                          \
            MR_APPLY_STORE_##n_vars                                                     \
        }                                                                               \
    }
#define MR_APPLY_LOAD_1(C)
#define MR_APPLY_LOAD_2(C) C p = MR_LD(slot1 + i);
#define MR_APPLY_LOAD_3(C) MR_APPLY_LOAD_2(C) C q = MR_LD(slot2 + i);
#define MR_APPLY_LOAD_4(C) MR_APPLY_LOAD_3(C) C s = MR_LD(slot3 + i);
#define MR_APPLY_STORE_1
#define MR_APPLY_STORE_2 MR_ST(slot1 + i, p);
#define MR_APPLY_STORE_3 MR_APPLY_STORE_2 MR_ST(slot2 + i, q);
#define MR_APPLY_STORE_4 MR_APPLY_STORE_3 MR_ST(slot3 + i, s);
#define MR_APPLY_KERNEL_ROW(E, name, number, S, C, fn, fn2, form_)                      \
    {.device = "CPU", .type = MR_##E, .run = mr_apply_run,                              \
     .user = (void *)(uintptr_t) & (const mr_apply){fn##_##name, fn2##_##name, &form_}, \
     .state_bytes = sizeof(mr_apply_state), .init = mr_apply_init, .update = true},

#endif
