/* base/vmath_limits.c -- arguments from which results no longer change; in a separate file so that
 * the compiler does not see the constants (vmath.h explains why). */
#include "base/vmath.h"

const struct mr_vmath_limits mr_vmath_limits = {
    .exp_low = -104.5f,  /* under half the least denormal */
    .exp_high = 89.0f,   /* over FLT_MAX */
    .expm1_low = -30.0f, /* -1 */
    .tanh_high = 9.1f,   /* 1 */
    .erf_high = 4.0f,    /* 1 */
    .one = 1.0f,
};
