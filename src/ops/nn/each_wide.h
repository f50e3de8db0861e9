/* ops/nn/each_wide.h -- includes MR_TYPED_FILE again, once for float and once for double.
 *
 * For each type, T is the type, FN(f) is f_float or f_double, V is an unaligned vector of LANES
 * elements, MASK is the type of a comparison of two of them, and EXP and LOG compute one element (for
 * float, such that a loop over them is vectorised). */
#include "base/simd.h"
#include "ops/maths.h"
#include "ops/nn/lanes.h"

#define T float
#define FN(f) f##_float
#define V mr_v8f
#define MASK mr_v8i
#define LANES 8
#define EXP(x) mr_expf(x)
#define LOG(x) mr_logf(x)
#include MR_TYPED_FILE
#undef T
#undef FN
#undef V
#undef MASK
#undef LANES
#undef EXP
#undef LOG

#define T double
#define FN(f) f##_double
#define V mr_v4d
#define MASK mr_v4i
#define LANES 4
#define EXP(x) exp(x)
#define LOG(x) log(x)
#include MR_TYPED_FILE
#undef T
#undef FN
#undef V
#undef MASK
#undef LANES
#undef EXP
#undef LOG
