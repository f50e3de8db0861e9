/* ops/nn/each_number.h -- includes MR_TYPED_FILE again, once for each type of real numbers: float
 * and double, integers of 8 to 64 bits.
 *
 * For each type, T is the type, FN(f) is f_float, f_int8 and so on, LOWEST is the lowest number, PLUS
 * adds two numbers (integers wrap), and CLONES is MR_CLONES for floats: CPU variants only where they
 * are worth their size. */
#include <math.h>
#include <stdint.h>

#include "base/simd.h"

#define PLUS(a, b) ((a) + (b))
#define CLONES MR_CLONES
#define LOWEST -INFINITY
#define T float
#define FN(f) f##_float
#include MR_TYPED_FILE
#undef T
#undef FN

#define T double
#define FN(f) f##_double
#include MR_TYPED_FILE
#undef T
#undef FN
#undef LOWEST

#undef PLUS
#undef CLONES
#define CLONES
#define PLUS(a, b) (T)((uint64_t)(a) + (uint64_t)(b))
#define T int8_t
#define LOWEST INT8_MIN
#define FN(f) f##_int8
#include MR_TYPED_FILE
#undef T
#undef LOWEST
#undef FN

#define T int16_t
#define LOWEST INT16_MIN
#define FN(f) f##_int16
#include MR_TYPED_FILE
#undef T
#undef LOWEST
#undef FN

#define T int32_t
#define LOWEST INT32_MIN
#define FN(f) f##_int32
#include MR_TYPED_FILE
#undef T
#undef LOWEST
#undef FN

#define T int64_t
#define LOWEST INT64_MIN
#define FN(f) f##_int64
#include MR_TYPED_FILE
#undef T
#undef LOWEST
#undef FN

#define LOWEST 0
#define T uint8_t
#define FN(f) f##_uint8
#include MR_TYPED_FILE
#undef T
#undef FN

#define T uint16_t
#define FN(f) f##_uint16
#include MR_TYPED_FILE
#undef T
#undef FN

#define T uint32_t
#define FN(f) f##_uint32
#include MR_TYPED_FILE
#undef T
#undef FN

#define T uint64_t
#define FN(f) f##_uint64
#include MR_TYPED_FILE
#undef T
#undef FN
#undef LOWEST
#undef PLUS
#undef CLONES
