/* ops/state/update.h -- dst[i] = dst[i] OP src[i] for every numeric type, shared by the ops that assign, scatter,
 * combine segments and add sparse tensors. */
#ifndef MR_OPS_STATE_UPDATE_H
#define MR_OPS_STATE_UPDATE_H

#include "ops/maths.h"
#include "run/run.h"

typedef void mr_update_loop(void *dst, const void *src, int64_t n);

typedef enum mr_update_kind {
    MR_UPDATE_ADD,
    MR_UPDATE_SUB,
    MR_UPDATE_MUL,
    MR_UPDATE_DIV, /* for integers, see mr_update_check */
    MR_UPDATE_MIN, /* a NaN in either operand gives NaN */
    MR_UPDATE_MAX,
    MR_UPDATE_SET,
} mr_update_kind;

/* NULL if the type does not support the operation.  SET has no loop, because it moves elements of any type. */
mr_update_loop *mr_update_find(mr_update_kind kind, mr_dtype t);
/* INVALID_ARGUMENT "Integer division by zero" if an integer would be divided by a zero in src. */
mr_status *mr_update_check(mr_update_kind kind, const mr_tensor *src);
/* dst = dst OP src, which have the same shape, by that loop or on the device of the run. */
mr_status *mr_update_run(mr_run *r, mr_update_kind kind, mr_update_loop *loop, mr_tensor *dst, const mr_tensor *src);

/* x + y as a new tensor; both must have the same type and shape.  Variants are added by the type of their objects. */
mr_status *mr_update_sum(mr_allocator *a, const mr_tensor *x, const mr_tensor *y, mr_tensor **out);

/* Runs change_locked(r, v, kind) with the lock of the variable in input 0 held.  Input 0 is a reference, which then
 * also becomes output 0, or a resource handle. */
mr_status *mr_update_variable(mr_run *r, mr_update_kind kind, mr_status *(*change_locked)(mr_run *r, mr_variable *v, mr_update_kind kind));

#endif
