/* ops/math/integer_div.h -- division of integers that never traps. */
#ifndef MR_OPS_MATH_INTEGER_DIV_H
#define MR_OPS_MATH_INTEGER_DIV_H

#include "run/run.h"

/* Runs an element-wise kernel (mr_kernel.user) after checking that its second input has no zero: INVALID_ARGUMENT
 * "Integer division by zero". */
mr_status *mr_integer_div_run(mr_run *r);
/* The same for an op whose only input is the divisor. */
mr_status *mr_integer_inverse_run(mr_run *r);

/* y must not be 0. The minimum divided by -1 wraps to itself, where the CPU would trap. */
static inline uint64_t mr_truncate_div(int64_t x, int64_t y)
{
    return y == -1 ? 0 - (uint64_t)x : (uint64_t)(x / y);
}
static inline int64_t mr_truncate_mod(int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }
/* Rounds down. */
static inline uint64_t mr_floor_div(int64_t x, int64_t y)
{
    if (y == -1)
        return 0 - (uint64_t)x;
    return (uint64_t)(x / y - (x % y != 0 && (x < 0) != (y < 0)));
}
/* The remainder of mr_floor_div, with the sign of y. */
static inline int64_t mr_floor_mod(int64_t x, int64_t y)
{
    int64_t m = mr_truncate_mod(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

#endif
