/* ops/state/update.c -- the loops of update.h.  Integers wrap. */
#include "ops/state/update.h"

#include "base/simd.h"
#include "run/accel.h"
#include "tensor/variant.h"

#define LOOP(E, name, number, S, C, fn, EXPR) CLONED(, name, S, C, fn, EXPR)
#define HOT_LOOP(E, name, number, S, C, fn, EXPR) CLONED(MR_CLONES, name, S, C, fn, EXPR)
#define CLONED(clones, name, S, C, fn, EXPR)                       \
    clones static void fn##_##name(void *dst, const void *src, int64_t n) \
    {                                                              \
        S *d = dst;                                                \
        const S *s = src;                                          \
        for (int64_t i = 0; i < n; i++) {                          \
            const C x = MR_LD(d + i), y = MR_LD(s + i);            \
            MR_ST(d + i, (C)EXPR);                                 \
        }                                                          \
    }
#define FLOATS(fn, EXPR) MR_FLOATS(LOOP, fn, EXPR) MR_COMPLEXES(LOOP, fn, EXPR)
#define INTS(fn, EXPR) MR_INTS(LOOP, fn, EXPR)
/* Hot: they add up gradients of rows, and apply them. */
#define HOT_FLOATS(fn, EXPR) MR_FLOATS16(LOOP, fn, EXPR) MR_FLOATS32(HOT_LOOP, fn, EXPR) MR_COMPLEXES(LOOP, fn, EXPR)
HOT_FLOATS(add, (x + y))
INTS(add, ((uint64_t)x + (uint64_t)y))
HOT_FLOATS(sub, (x - y))
INTS(sub, ((uint64_t)x - (uint64_t)y))
FLOATS(mul, (x * y))
INTS(mul, ((uint64_t)x * (uint64_t)y))
FLOATS(div, (x / y))
/* The lowest number divided by -1 wraps, like its negation; the division itself would trap. */
MR_SIGNED(LOOP, div, (y == -1 ? (int64_t)(0 - (uint64_t)x) : x / (y == 0 ? 1 : y)))
MR_UNSIGNED(LOOP, div, (x / (y == 0 ? 1 : y)))
MR_REALS(LOOP, min, MR_SMALLER(x, y))
MR_REALS(LOOP, max, MR_LARGER(x, y))

mr_update_loop *mr_update_find(mr_update_kind kind, mr_dtype t)
{
#define REAL_ROW(E, name, number, S, C, ...) \
    [MR_##E] = {add_##name, sub_##name, mul_##name, div_##name, min_##name, max_##name},
#define COMPLEX_ROW(E, name, number, S, C, ...) \
    [MR_##E] = {add_##name, sub_##name, mul_##name, div_##name, NULL, NULL},
    static mr_update_loop *const loops[MR_UINT64 + 1][MR_UPDATE_SET] = {
        MR_REALS(REAL_ROW, ) MR_ALL_CODES(REAL_ROW, ) MR_COMPLEXES(COMPLEX_ROW, )};
    return kind < MR_UPDATE_SET && t <= MR_UINT64 ? loops[t][kind] : NULL;
}

/* Whether one of n integers is zero: all of its bytes are. */
static bool has_zero(const char *p, size_t size, int64_t n)
{
    static const char zero[8];
    for (int64_t i = 0; i < n; i++, p += size)
        if (memcmp(p, zero, size) == 0)
            return true;
    return false;
}

mr_status *mr_update_check(mr_update_kind kind, const mr_tensor *src)
{
    mr_dtype t = (mr_dtype)src->dtype;
    bool whole = !mr_dtype_is_floating(t) && !mr_dtype_is_complex(t);
    if (kind != MR_UPDATE_DIV || !whole || !has_zero(src->data, mr_dtype_size(t), src->n))
        return NULL;
    return mr_invalid("Integer division by zero");
}

mr_status *mr_update_run(mr_run *r, mr_update_kind kind, mr_update_loop *loop, mr_tensor *dst, const mr_tensor *src)
{
    if (mr_on_accel(r))
        return mr_accel_launch(r, kind == MR_UPDATE_ADD ? "each_add" : "each_sub", dst->n,
                               MR_ACCEL(MR_AI(dst->n), MR_AT(dst), MR_AT(dst), MR_AT(src)));
    loop(dst->data, src->data, dst->n);
    return NULL;
}

mr_status *mr_update_sum(mr_allocator *a, const mr_tensor *x, const mr_tensor *y, mr_tensor **out)
{
    if (x->dtype != y->dtype)
        return mr_invalid("Trying to add two tensors with incompatible element types. One is %s and the other is %s",
                          mr_dtype_name(x->dtype), mr_dtype_name(y->dtype));
    if (x->dtype == MR_VARIANT)
        return mr_variants_add(a, x, y, out);
    mr_update_loop *add = mr_update_find(MR_UPDATE_ADD, x->dtype);
    if (!add)
        return mr_error(MR_UNIMPLEMENTED, "Adding elements of type %s is not implemented", mr_dtype_name(x->dtype));
    if (!mr_tensor_same_shape(x, y))
        return mr_invalid("Trying to add two tensors with incompatible element shapes. One is %s and the other is %s",
                          MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(y));
    MR_TRY(mr_tensor_copy(a, x, out));
    add((*out)->data, y->data, y->n);
    return NULL;
}

mr_status *mr_update_variable(mr_run *r, mr_update_kind kind, mr_status *(*change_locked)(mr_run *r, mr_variable *v, mr_update_kind kind))
{
    bool by_ref = mr_dtype_is_ref(r->node->in_types[0]);
    mr_variable *v = NULL;
    if (by_ref)
        v = mr_variable_ref(mr_in_ref(r, 0));
    else
        MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    mr_status *st = change_locked(r, v, kind);
    mr_unlock(&v->mu);
    if (!st && by_ref)
        mr_run_set_ref(r, 0, mr_variable_ref(v));
    mr_variable_unref(v);
    return st;
}
