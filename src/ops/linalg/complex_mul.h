/* ops/linalg/complex_mul.h -- products of complex numbers without the checks for infinities that C's operator makes,
 * which cost several times the product. */
#ifndef MR_OPS_LINALG_COMPLEX_MUL_H
#define MR_OPS_LINALG_COMPLEX_MUL_H

#include <complex.h>

#include "base/simd.h"
#include "tensor/dtype.h"

/* __builtin_complex because glibc does not define CMPLX for clang. */
MR_INLINE mr_c64 mr_mul_c64(mr_c64 x, mr_c64 y)
{
    float a = crealf(x), b = cimagf(x), c = crealf(y), d = cimagf(y);
    return __builtin_complex(a * c - b * d, a * d + b * c);
}

MR_INLINE mr_c128 mr_mul_c128(mr_c128 x, mr_c128 y)
{
    double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
    return __builtin_complex(a * c - b * d, a * d + b * c);
}

#endif
