/* tensor/dtype.h -- the element types, defined in one place.
 *
 * A type is one row M(ENUM, name, number, S, C, ...): its number in types.proto, the C type it is stored as (S) and the
 * type its arithmetic is done in (C). Kernels are generated from the lists of rows below; sizes, names and conversions
 * come from the same rows. */
#ifndef MR_TENSOR_DTYPE_H
#define MR_TENSOR_DTYPE_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "base/str.h"

typedef struct mr_half { uint16_t bits; } mr_half; /* IEEE binary16 */
typedef struct mr_bf16 { uint16_t bits; } mr_bf16; /* the upper half of a float */
typedef float complex mr_c64;
typedef double complex mr_c128;

#define MR_TYPE_HALF(M, ...)       M(HALF,       half,       19, mr_half,  float,    __VA_ARGS__)
#define MR_TYPE_BFLOAT16(M, ...)   M(BFLOAT16,   bfloat16,   14, mr_bf16,  float,    __VA_ARGS__)
#define MR_TYPE_FLOAT(M, ...)      M(FLOAT,      float,       1, float,    float,    __VA_ARGS__)
#define MR_TYPE_DOUBLE(M, ...)     M(DOUBLE,     double,      2, double,   double,   __VA_ARGS__)
#define MR_TYPE_INT8(M, ...)       M(INT8,       int8,        6, int8_t,   int8_t,   __VA_ARGS__)
#define MR_TYPE_UINT8(M, ...)      M(UINT8,      uint8,       4, uint8_t,  uint8_t,  __VA_ARGS__)
#define MR_TYPE_INT16(M, ...)      M(INT16,      int16,       5, int16_t,  int16_t,  __VA_ARGS__)
#define MR_TYPE_UINT16(M, ...)     M(UINT16,     uint16,     17, uint16_t, uint16_t, __VA_ARGS__)
#define MR_TYPE_INT32(M, ...)      M(INT32,      int32,       3, int32_t,  int32_t,  __VA_ARGS__)
#define MR_TYPE_UINT32(M, ...)     M(UINT32,     uint32,     22, uint32_t, uint32_t, __VA_ARGS__)
#define MR_TYPE_INT64(M, ...)      M(INT64,      int64,       9, int64_t,  int64_t,  __VA_ARGS__)
#define MR_TYPE_UINT64(M, ...)     M(UINT64,     uint64,     23, uint64_t, uint64_t, __VA_ARGS__)
#define MR_TYPE_COMPLEX64(M, ...)  M(COMPLEX64,  complex64,   8, mr_c64,   mr_c64,   __VA_ARGS__)
#define MR_TYPE_COMPLEX128(M, ...) M(COMPLEX128, complex128, 18, mr_c128,  mr_c128,  __VA_ARGS__)
#define MR_TYPE_BOOL(M, ...)       M(BOOL,       bool,       10, bool,     bool,     __VA_ARGS__)
#define MR_TYPE_QINT8(M, ...)      M(QINT8,      qint8,      11, int8_t,   int8_t,   __VA_ARGS__)
#define MR_TYPE_QUINT8(M, ...)     M(QUINT8,     quint8,     12, uint8_t,  uint8_t,  __VA_ARGS__)
#define MR_TYPE_QINT16(M, ...)     M(QINT16,     qint16,     15, int16_t,  int16_t,  __VA_ARGS__)
#define MR_TYPE_QUINT16(M, ...)    M(QUINT16,    quint16,    16, uint16_t, uint16_t, __VA_ARGS__)
#define MR_TYPE_QINT32(M, ...)     M(QINT32,     qint32,     13, int32_t,  int32_t,  __VA_ARGS__)

#define MR_FLOATS32(M, ...) MR_TYPE_FLOAT(M, __VA_ARGS__) MR_TYPE_DOUBLE(M, __VA_ARGS__)
#define MR_FLOATS16(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_BFLOAT16(M, __VA_ARGS__)
#define MR_FLOATS(M, ...) MR_FLOATS16(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)
#define MR_SIGNED(M, ...)                                                  \
    MR_TYPE_INT8(M, __VA_ARGS__) MR_TYPE_INT16(M, __VA_ARGS__)             \
    MR_TYPE_INT32(M, __VA_ARGS__) MR_TYPE_INT64(M, __VA_ARGS__)
#define MR_UNSIGNED(M, ...)                                                \
    MR_TYPE_UINT8(M, __VA_ARGS__) MR_TYPE_UINT16(M, __VA_ARGS__)           \
    MR_TYPE_UINT32(M, __VA_ARGS__) MR_TYPE_UINT64(M, __VA_ARGS__)
#define MR_INTS(M, ...) MR_SIGNED(M, __VA_ARGS__) MR_UNSIGNED(M, __VA_ARGS__)
#define MR_INDEXES(M, ...) MR_TYPE_INT32(M, __VA_ARGS__) MR_TYPE_INT64(M, __VA_ARGS__)
#define MR_REALS(M, ...) MR_FLOATS(M, __VA_ARGS__) MR_INTS(M, __VA_ARGS__)
#define MR_COMPLEXES(M, ...) MR_TYPE_COMPLEX64(M, __VA_ARGS__) MR_TYPE_COMPLEX128(M, __VA_ARGS__)
#define MR_NUMBERS(M, ...) MR_REALS(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define MR_QUANTIZED(M, ...)                                               \
    MR_TYPE_QINT8(M, __VA_ARGS__) MR_TYPE_QUINT8(M, __VA_ARGS__)           \
    MR_TYPE_QINT16(M, __VA_ARGS__) MR_TYPE_QUINT16(M, __VA_ARGS__)         \
    MR_TYPE_QINT32(M, __VA_ARGS__)
/* All types whose elements are plain bytes. */
#define MR_PLAIN(M, ...) MR_NUMBERS(M, __VA_ARGS__) MR_TYPE_BOOL(M, __VA_ARGS__) MR_QUANTIZED(M, __VA_ARGS__)

typedef enum mr_dtype {
    MR_INVALID = 0,
#define M(E, name, number, S, C, ...) MR_##E = number,
    MR_PLAIN(M, )
#undef M
    MR_STRING = 7,    /* TF_TString, 24 bytes */
    MR_RESOURCE = 20, /* mr_handle *, 8 bytes */
    MR_VARIANT = 21,  /* mr_object *, 8 bytes */
    MR_FLOAT8_E5M2 = 24, MR_FLOAT8_E4M3FN = 25, MR_INT4 = 29, MR_UINT4 = 30, /* stored, 1 byte each, no arithmetic */
} mr_dtype;

#define MR_REF_OFFSET 100 /* a reference type is its base + 100 */
static inline mr_dtype mr_dtype_base(int t) { return (mr_dtype)(t > MR_REF_OFFSET ? t - MR_REF_OFFSET : t); }
static inline bool mr_dtype_is_ref(int t) { return t > MR_REF_OFFSET; }
static inline int mr_dtype_ref(int t) { return t + MR_REF_OFFSET; }

bool mr_dtype_valid(int t);             /* a base type of the list above */
size_t mr_dtype_size(mr_dtype t);       /* bytes in our memory: 24 for strings; 0 when invalid */
const char *mr_dtype_name(int t);       /* "float", "int32_ref"; "invalid" */
mr_dtype mr_dtype_from_name(mr_sv name); /* accepts "float", "DT_FLOAT", "float32"; MR_INVALID */
const char *mr_dtype_enum_name(int t);  /* "DT_FLOAT", "DT_INT32_REF" */
bool mr_dtype_is_plain(mr_dtype t);     /* memcpy copies it */
bool mr_dtype_is_floating(mr_dtype t);  /* half, bfloat16, float, double */
bool mr_dtype_is_complex(mr_dtype t);
bool mr_dtype_is_integer(mr_dtype t);   /* signed and unsigned, not quantized, not bool */
/* Values of this type may carry a gradient (floating or complex, resource and variant handles). */
bool mr_dtype_is_trainable(mr_dtype t);

/* Conversions, exact to the bit: nearest even, overflow to infinity, NaN stays NaN. */
static inline float mr_bf16_to_float(mr_bf16 h)
{
    uint32_t u = (uint32_t)h.bits << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline mr_bf16 mr_float_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (mr_bf16){(uint16_t)((u >> 16) | 0x40)}; /* a quiet NaN */
    u += 0x7fff + ((u >> 16) & 1);
    return (mr_bf16){(uint16_t)(u >> 16)};
}
static inline float mr_half_to_float(mr_half h)
{
    /* Shifting the exponent by a multiplication treats denormals and normals alike. */
    uint32_t u = (uint32_t)(h.bits & 0x7fff) << 13, sign = (uint32_t)(h.bits & 0x8000) << 16;
    float f, magic = 0x1p112f;
    if ((h.bits & 0x7c00) == 0x7c00) {
        u |= 0x7f800000;
        memcpy(&f, &u, 4);
    } else if ((h.bits & 0x7c00) == 0) { /* the FTZ/DAZ flags of pool threads must not eat these */
        f = (float)(h.bits & 0x3ff) * 0x1p-24f;
    } else {
        memcpy(&f, &u, 4);
        f *= magic;
    }
    memcpy(&u, &f, 4);
    u |= sign;
    memcpy(&f, &u, 4);
    return f;
}
mr_half mr_float_to_half(float f);

/* Load to the computing type, store from it.  The pointer's type picks the conversion. */
static inline float mr_ld_half(const mr_half *p) { return mr_half_to_float(*p); }
static inline float mr_ld_bf16(const mr_bf16 *p) { return mr_bf16_to_float(*p); }
#define MR_LD_ROW(T) static inline T mr_ld_##T(const T *p) { return *p; }
#define MR_ST_ROW(T) static inline void mr_st_##T(T *p, T v) { *p = v; }
#define MR_LDST(T) MR_LD_ROW(T) MR_ST_ROW(T)
MR_LDST(float) MR_LDST(double) MR_LDST(int8_t) MR_LDST(uint8_t) MR_LDST(int16_t) MR_LDST(uint16_t)
MR_LDST(int32_t) MR_LDST(uint32_t) MR_LDST(int64_t) MR_LDST(uint64_t) MR_LDST(mr_c64) MR_LDST(mr_c128)
/* By hand: `bool` is a macro, which would be pasted as _Bool. */
static inline bool mr_ld_bool(const bool *p) { return *p; }
static inline void mr_st_bool(bool *p, bool v) { *p = v; }
static inline void mr_st_half(mr_half *p, float v) { *p = mr_float_to_half(v); }
static inline void mr_st_bf16(mr_bf16 *p, float v) { *p = mr_float_to_bf16(v); }

#define MR_LD(p)                                                                                       \
    _Generic(*(p), mr_half: mr_ld_half, mr_bf16: mr_ld_bf16, float: mr_ld_float, double: mr_ld_double, \
        int8_t: mr_ld_int8_t, uint8_t: mr_ld_uint8_t, int16_t: mr_ld_int16_t, uint16_t: mr_ld_uint16_t, \
        int32_t: mr_ld_int32_t, uint32_t: mr_ld_uint32_t, int64_t: mr_ld_int64_t,                      \
        uint64_t: mr_ld_uint64_t, bool: mr_ld_bool, mr_c64: mr_ld_mr_c64, mr_c128: mr_ld_mr_c128)(p)
#define MR_ST(p, v)                                                                                    \
    _Generic(*(p), mr_half: mr_st_half, mr_bf16: mr_st_bf16, float: mr_st_float, double: mr_st_double, \
        int8_t: mr_st_int8_t, uint8_t: mr_st_uint8_t, int16_t: mr_st_int16_t, uint16_t: mr_st_uint16_t, \
        int32_t: mr_st_int32_t, uint32_t: mr_st_uint32_t, int64_t: mr_st_int64_t,                      \
        uint64_t: mr_st_uint64_t, bool: mr_st_bool, mr_c64: mr_st_mr_c64, mr_c128: mr_st_mr_c128)(p, v)

/* Converts n elements between any two plain types by the rules of the Cast op; false when the pair is
 * not convertible (strings, handles). */
bool mr_dtype_convert(mr_dtype from, const void *src, mr_dtype to, void *dst, int64_t n, bool truncate);

#endif
