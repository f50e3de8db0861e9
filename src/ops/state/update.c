/* ops/state/update.c -- the loops of update.h.  Integers wrap. */
#include "ops/state/update.h"

#include "base/simd.h"
#include "run/accel.h"

#define FLOAT_LOOP(E, name, number, S, C, fn, OP)              \
    static void fn##_##name(void *dst, const void *src, int64_t n) \
    {                                                          \
        S *d = dst;                                            \
        const S *s = src;                                      \
        for (int64_t i = 0; i < n; i++)                        \
            MR_ST(d + i, (C)(MR_LD(d + i) OP MR_LD(s + i)));   \
    }
#define INT_LOOP(E, name, number, S, C, fn, OP)                \
    static void fn##_##name(void *dst, const void *src, int64_t n) \
    {                                                          \
        S *d = dst;                                            \
        const S *s = src;                                      \
        for (int64_t i = 0; i < n; i++)                        \
            d[i] = (S)((uint64_t)d[i] OP(uint64_t) s[i]);      \
    }
MR_FLOATS(FLOAT_LOOP, add, +)
MR_COMPLEXES(FLOAT_LOOP, add, +)
MR_INTS(INT_LOOP, add, +)
MR_FLOATS(FLOAT_LOOP, sub, -)
MR_COMPLEXES(FLOAT_LOOP, sub, -)
MR_INTS(INT_LOOP, sub, -)

mr_update_loop *mr_update_find(mr_update_kind kind, mr_dtype t)
{
#define ROW(E, name, number, S, C, ...) [MR_##E] = {add_##name, sub_##name},
    static mr_update_loop *const loops[MR_UINT64 + 1][2] = {MR_NUMBERS(ROW, ) MR_ALL_CODES(ROW, )};
    return kind < MR_UPDATE_SET && t <= MR_UINT64 ? loops[t][kind] : NULL;
}

mr_status *mr_update_run(mr_run *r, mr_update_kind kind, mr_update_loop *loop, mr_tensor *dst, const mr_tensor *src)
{
    if (mr_on_accel(r))
        return mr_accel_launch(r, kind == MR_UPDATE_ADD ? "each_add" : "each_sub", dst->n,
                               MR_ACCEL(MR_AI(dst->n), MR_AT(dst), MR_AT(dst), MR_AT(src)));
    loop(dst->data, src->data, dst->n);
    return NULL;
}
