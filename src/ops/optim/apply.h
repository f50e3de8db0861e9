/* ops/optim/apply.h -- optimizer updates: Apply*, SparseApply* and their Resource forms from one loop.
 *
 * An optimizer is a formula for one element: w the variable, p and q its slots, g the gradient, h0..h5 the
 * hyper-parameters, `flag` a bool attr.  It is written once, changes w, p and q, and serves all four forms in
 * all floating types:
 *
 *     MR_APPLY(momentum, 2, p = p * h1 + g; w -= flag ? g * h0 + p * h1 * h0 : h0 * p)
 *
 * Everything else is done in apply.c: reading variables through references or handles, locks in address order,
 * copies when somebody still reads a value, shape checks, rows of a sparse gradient, threads.  One pass over
 * memory updates variable and slots together. */
#ifndef MR_OPS_OPTIM_APPLY_H
#define MR_OPS_OPTIM_APPLY_H

#include <tgmath.h>

#include "base/simd.h"
#include "graph/infer.h"
#include "run/run.h"

enum { MR_APPLY_VARS = 3, MR_APPLY_SCALARS = 6 };

typedef struct mr_apply_args {
    void *var[MR_APPLY_VARS];
    const void *grad;
    double h[MR_APPLY_SCALARS];
    bool flag;
} mr_apply_args;

typedef void mr_apply_loop(const mr_apply_args *a, int64_t begin, int64_t end);

/* How a form of the op is laid out; the loop belongs to the type. */
typedef struct mr_apply_form {
    int n_vars;          /* inputs 0..n_vars-1: the variable and its slots */
    int grad, indices;   /* inputs; indices -1: dense */
    int n_scalars;
    int scalars[MR_APPLY_SCALARS];
    const char *flag;    /* bool attr, or NULL */
} mr_apply_form;

typedef struct mr_apply {
    mr_apply_loop *loop;
    const mr_apply_form *form;
} mr_apply;

/* For a kernel whose .user is an mr_apply. */
mr_status *mr_apply_run(mr_run *r);
mr_status *mr_apply_shape(mr_infer *c); /* of the Ref forms: the variable's shape */

#define MR_APPLY(fn, n_vars, ...) MR_FLOATS(MR_APPLY_LOOP_ROW, fn, n_vars, (__VA_ARGS__))
/* Rows for MR_KERNELS; `form` is a constant mr_apply_form. */
#define MR_CPU_APPLY(fn, form) MR_FLOATS(MR_APPLY_KERNEL_ROW, fn, form)

/* ---- how they are made ---- */
#define MR_APPLY_BODY(...) __VA_ARGS__
#define MR_APPLY_CLONES_HALF
#define MR_APPLY_CLONES_BFLOAT16
#define MR_APPLY_CLONES_FLOAT MR_CLONES
#define MR_APPLY_CLONES_DOUBLE MR_CLONES
#define MR_APPLY_LOOP_ROW(E, name, number, S, C, fn, n_vars, body)                              \
    MR_APPLY_CLONES_##E static void fn##_##name(const mr_apply_args *a, int64_t begin, int64_t end) \
    {                                                                                           \
        S *restrict var = a->var[0], *restrict slot1 = a->var[1], *restrict slot2 = a->var[2];  \
        const S *restrict grad = a->grad;                                                       \
        const C h0 = (C)a->h[0], h1 = (C)a->h[1], h2 = (C)a->h[2], h3 = (C)a->h[3], h4 = (C)a->h[4], h5 = (C)a->h[5]; \
        const bool flag = a->flag;                                                              \
        (void)h0, (void)h1, (void)h2, (void)h3, (void)h4, (void)h5, (void)flag, (void)slot1, (void)slot2; \
        for (int64_t i = begin; i < end; i++) {                                                 \
            C w = MR_LD(var + i), g = MR_LD(grad + i);                                          \
            MR_APPLY_LOAD_##n_vars(C)                                                           \
            MR_APPLY_BODY body;                                                                 \
            MR_ST(var + i, w);                                                                  \
            MR_APPLY_STORE_##n_vars                                                             \
        }                                                                                       \
    }
#define MR_APPLY_LOAD_1(C)
#define MR_APPLY_LOAD_2(C) C p = MR_LD(slot1 + i);
#define MR_APPLY_LOAD_3(C) MR_APPLY_LOAD_2(C) C q = MR_LD(slot2 + i);
#define MR_APPLY_STORE_1
#define MR_APPLY_STORE_2 MR_ST(slot1 + i, p);
#define MR_APPLY_STORE_3 MR_APPLY_STORE_2 MR_ST(slot2 + i, q);
#define MR_APPLY_KERNEL_ROW(E, name, number, S, C, fn, form_)                  \
    {.device = "CPU", .type = MR_##E, .run = mr_apply_run,                     \
     .user = (void *)(uintptr_t) & (const mr_apply){fn##_##name, &form_}},

#endif
