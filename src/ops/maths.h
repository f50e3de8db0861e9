/* ops/maths.h -- the functions that kernels' expressions use.
 *
 * <tgmath.h> selects the function by the computing type: exp(x) is expf, exp, cexpf or cexp. Loops over floats
 * should rather call base/vmath.h, which vectorises. The definitions below are missing from C. */
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
/* Quantized types under the names of the integers they are stored as, whose kernels they use: an op that ignores
 * scales computes with the stored codes. MR_CODES are those of `numbertype`. */
#define MR_CODE_QINT8(M, ...) M(QINT8, int8, 11, int8_t, int8_t, __VA_ARGS__)
#define MR_CODE_QUINT8(M, ...) M(QUINT8, uint8, 12, uint8_t, uint8_t, __VA_ARGS__)
#define MR_CODE_QINT16(M, ...) M(QINT16, int16, 15, int16_t, int16_t, __VA_ARGS__)
#define MR_CODE_QUINT16(M, ...) M(QUINT16, uint16, 16, uint16_t, uint16_t, __VA_ARGS__)
#define MR_CODE_QINT32(M, ...) M(QINT32, int32, 13, int32_t, int32_t, __VA_ARGS__)
#define MR_CODES(M, ...)                                             \
    MR_CODE_QINT8(M, __VA_ARGS__) MR_CODE_QUINT8(M, __VA_ARGS__)     \
    MR_CODE_QINT32(M, __VA_ARGS__)
#define MR_ALL_CODES(M, ...)                                         \
    MR_CODES(M, __VA_ARGS__) MR_CODE_QINT16(M, __VA_ARGS__)          \
    MR_CODE_QUINT16(M, __VA_ARGS__)

/* The larger and the smaller of two numbers; NaN in either gives NaN. For floats and integers. */
#define MR_LARGER(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MR_SMALLER(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

#endif
