/* ops/math/cast.cl -- numbers in another type; out of range gives the minimum, as in tensor/convert.c. */
#define CAST(name, T, R, ...)                                         \
    kernel void cast_##name(const long n, P(R, o), P(T, a))           \
    {                                                                 \
        const long i = get_global_id(0);                              \
        if (i >= n)                                                   \
            return;                                                   \
        const T x = AT(T, a)[i];                                      \
        AT(R, o)[i] = (__VA_ARGS__);                                  \
    }
CAST(float_bool, float, uchar, x != 0 ? 1 : 0)
CAST(float_int32, float, int, x >= -0x1p31f && x < 0x1p31f ? (int)x : INT_MIN)
CAST(float_int64, float, long, x >= -0x1p63f && x < 0x1p63f ? (long)x : LONG_MIN)
CAST(bool_float, uchar, float, x != 0 ? 1 : 0)
CAST(int32_float, int, float, (float)x)
CAST(int64_float, long, float, (float)x)
/* The upper half of a float; a NaN stays one though its bits may all be in the lower. */
CAST(float_bfloat16, uint, ushort, (x & 0x7fffffff) > 0x7f800000 ? x >> 16 | 0x40 : x >> 16)
CAST(bfloat16_float, ushort, uint, (uint)x << 16)
