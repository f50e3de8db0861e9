/* ops/maths.h -- the functions that kernels' expressions are written with.
 *
 * <tgmath.h> picks the function of the computing type: exp(x) is expf, exp, cexpf or cexp.  Loops
 * over floats should rather call base/vmath.h, which vectorises.  Below is what C lacks. */
#ifndef MR_OPS_MATHS_H
#define MR_OPS_MATHS_H

#include <float.h>
#include <tgmath.h>

#include "base/vmath.h"
#include "tensor/dtype.h"

/* Lists of rows (tensor/dtype.h) that several ops share. */
#define MR_DOUBLE_COMPLEX(M, ...) MR_TYPE_DOUBLE(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define MR_FLOATS_COMPLEX(M, ...) MR_FLOATS(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define MR_FLOAT_FAMILY(M, ...) MR_FLOATS16(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

/* Larger and smaller; NaN in either gives NaN.  For floats as for integers. */
#define MR_LARGER(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MR_SMALLER(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

#endif
