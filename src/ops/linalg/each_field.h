/* ops/linalg/each_field.h -- reads MR_TYPED_FILE again, once for each type that linear algebra
 * computes in.
 *
 * There T is the type, R that of its absolute values, TYPE its mr_dtype, FN(f) is f_float and so on, and CONJ, RE
 * take conjugates and real parts.  MUL multiplies the parts directly: C's product of complex numbers checks for
 * infinities, which costs several times the product. SIZE is the absolute value, or a substitute that is good
 * enough to choose a pivot. */
#define T float
#define R float
#define TYPE MR_FLOAT
#define FN(f) f##_float
#define CONJ(x) (x)
#define RE(x) (x)
#define MUL(x, y) ((x) * (y))
#define SIZE(x) fabsf(x)
#include MR_TYPED_FILE
#undef T
#undef R
#undef TYPE
#undef FN

#define T double
#define R double
#define TYPE MR_DOUBLE
#define FN(f) f##_double
#undef SIZE
#define SIZE(x) fabs(x)
#include MR_TYPED_FILE
#undef T
#undef R
#undef TYPE
#undef FN
#undef CONJ
#undef RE
#undef MUL
#undef SIZE

#define T mr_c64
#define R float
#define TYPE MR_COMPLEX64
#define FN(f) f##_complex64
#define CONJ(x) conjf(x)
#define RE(x) crealf(x)
#define MUL(x, y) mr_mul_c64(x, y)
#define SIZE(x) (fabsf(crealf(x)) + fabsf(cimagf(x)))
#include MR_TYPED_FILE
#undef T
#undef R
#undef TYPE
#undef FN
#undef CONJ
#undef RE
#undef MUL
#undef SIZE

#define T mr_c128
#define R double
#define TYPE MR_COMPLEX128
#define FN(f) f##_complex128
#define CONJ(x) conj(x)
#define RE(x) creal(x)
#define MUL(x, y) mr_mul_c128(x, y)
#define SIZE(x) (fabs(creal(x)) + fabs(cimag(x)))
#include MR_TYPED_FILE
#undef T
#undef R
#undef TYPE
#undef FN
#undef CONJ
#undef RE
#undef MUL
#undef SIZE
