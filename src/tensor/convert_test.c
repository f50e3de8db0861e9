#include "tensor/dtype.h"

#include <float.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* What a half means, by the definition of the format. */
static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return bits & 0x8000 ? -v : v;
}

/* Nearest even the slow way: the quantum at this size is known, rounding to it is nearbyint. */
static uint16_t slow_half(float f)
{
    uint16_t sign = signbit(f) ? 0x8000 : 0;
    double x = fabs((double)f);
    if (isnan(f))
        return 0x7e00;
    int e = x > 0 ? ilogb(x) : -30;
    double quantum = ldexp(1, MR_MAX(e - 10, -24));
    double rounded = nearbyint(x / quantum) * quantum;
    if (rounded >= 65536)
        return sign | 0x7c00;
    uint16_t lo = 0, hi = 0x7bff;
    while (lo < hi) { /* values grow with the bits */
        uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (half_value(mid) < rounded)
            lo = (uint16_t)(mid + 1);
        else
            hi = mid;
    }
    return sign | lo;
}

MR_TEST(half_to_float_is_exact_for_all_halves)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = mr_half_to_float((mr_half){(uint16_t)h});
        if ((h & 0x7fff) > 0x7c00)
            MR_CHECK(isnan(f));
        else if ((h & 0x7fff) == 0x7c00)
            MR_CHECK(isinf(f) && !signbit(f) == !(h & 0x8000));
        else
            MR_CHECK(bits_of(f) == bits_of((float)half_value((uint16_t)h)));
    }
}

MR_TEST(half_survives_the_way_to_float_and_back)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t back = mr_float_to_half(mr_half_to_float((mr_half){(uint16_t)h})).bits;
        if ((h & 0x7fff) > 0x7c00) /* a NaN stays one, and becomes quiet */
            MR_CHECK_INT(back, h | 0x200);
        else
            MR_CHECK_INT(back, h);
    }
}

MR_TEST(float_to_half_rounds_to_nearest_even)
{
    for (uint64_t u = 0; u < UINT32_MAX; u += 3989) { /* a prime: all exponents, all low bits */
        float f = float_of((uint32_t)u);
        if (!isnan(f))
            MR_CHECK_INT(mr_float_to_half(f).bits, slow_half(f));
    }
}

MR_TEST(float_to_half_is_right_around_every_half)
{
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double middle = (half_value((uint16_t)h) + half_value((uint16_t)(h + 1))) / 2;
        float f = (float)middle, around[] = {f, nextafterf(f, 0), nextafterf(f, INFINITY)};
        for (int i = 0; i < 3; i++) {
            MR_CHECK_INT(mr_float_to_half(around[i]).bits, slow_half(around[i]));
            MR_CHECK_INT(mr_float_to_half(-around[i]).bits, slow_half(-around[i]));
        }
    }
}

MR_TEST(float_to_half_keeps_nan_and_overflows_to_infinity)
{
    MR_CHECK_INT(mr_float_to_half(INFINITY).bits, 0x7c00);
    MR_CHECK_INT(mr_float_to_half(-FLT_MAX).bits, 0xfc00);
    MR_CHECK_INT(mr_float_to_half(65519.996f).bits, 0x7bff);
    MR_CHECK_INT(mr_float_to_half(65520.0f).bits, 0x7c00);
    MR_CHECK((mr_float_to_half(float_of(0x7f800001)).bits & 0x7fff) > 0x7c00);
    MR_CHECK((mr_float_to_half(float_of(0xffffffff)).bits & 0x7fff) > 0x7c00);
}

MR_TEST(float_to_bf16_rounds_to_nearest_even)
{
    MR_CHECK_INT(mr_float_to_bf16(float_of(0x3f808000)).bits, 0x3f80); /* a tie goes to even */
    MR_CHECK_INT(mr_float_to_bf16(float_of(0x3f818000)).bits, 0x3f82);
    MR_CHECK_INT(mr_float_to_bf16(float_of(0x3f808001)).bits, 0x3f81);
    MR_CHECK_INT(mr_float_to_bf16(FLT_MAX).bits, 0x7f80);
    MR_CHECK((mr_float_to_bf16(float_of(0x7f800001)).bits & 0x7fff) > 0x7f80);
}

/* Converts one value, placed so that the vector part of a loop and its tail both see it. */
static void one(mr_dtype from, const void *x, mr_dtype to, void *y, bool truncate)
{
    enum { N = 37, AT = 35 };
    uint64_t in[2 * N] = {0}, out[2 * N] = {0};
    size_t a = mr_dtype_size(from), b = mr_dtype_size(to);
    for (int i = 0; i < N; i++)
        memcpy((char *)in + (size_t)i * a, x, a);
    MR_CHECK(mr_dtype_convert(from, in, to, out, N, truncate));
    for (int i = 1; i < N; i++)
        MR_CHECK(memcmp(out, (char *)out + (size_t)i * b, b) == 0);
    memcpy(y, (char *)out + AT * b, b);
}

#define CHECK_CAST(FROM, TFrom, x, TO, TTo, expected)         \
    do {                                                      \
        TFrom x_ = (x);                                       \
        TTo y_;                                               \
        one(FROM, &x_, TO, &y_, false);                       \
        MR_CHECK(y_ == (TTo)(expected));                      \
    } while (0)

MR_TEST(cast_float_to_integer_truncates_toward_zero)
{
    CHECK_CAST(MR_FLOAT, float, 2.9f, MR_INT32, int32_t, 2);
    CHECK_CAST(MR_FLOAT, float, -2.9f, MR_INT32, int32_t, -2);
    CHECK_CAST(MR_DOUBLE, double, -1e15 - 0.5, MR_INT64, int64_t, -1000000000000000);
    CHECK_CAST(MR_DOUBLE, double, -2147483648.5, MR_INT32, int32_t, INT32_MIN);
    CHECK_CAST(MR_FLOAT, float, 200.7f, MR_UINT8, uint8_t, 200);
    CHECK_CAST(MR_FLOAT, float, 4e9f, MR_UINT32, uint32_t, 4000000000u);
    CHECK_CAST(MR_DOUBLE, double, 1.5e19, MR_UINT64, uint64_t, 15000000000000000000u);
}

MR_TEST(cast_float_out_of_range_is_what_x86_gives)
{
    CHECK_CAST(MR_FLOAT, float, 1e10f, MR_INT32, int32_t, INT32_MIN);
    CHECK_CAST(MR_FLOAT, float, NAN, MR_INT32, int32_t, INT32_MIN);
    CHECK_CAST(MR_DOUBLE, double, 2147483648.0, MR_INT32, int32_t, INT32_MIN);
    CHECK_CAST(MR_FLOAT, float, -INFINITY, MR_INT64, int64_t, INT64_MIN);
    CHECK_CAST(MR_DOUBLE, double, 1e300, MR_INT64, int64_t, INT64_MIN);
    CHECK_CAST(MR_FLOAT, float, 300, MR_INT8, int8_t, 44); /* wraps through int32 */
    CHECK_CAST(MR_FLOAT, float, -1, MR_UINT8, uint8_t, 255);
    CHECK_CAST(MR_FLOAT, float, 1e10f, MR_INT16, int16_t, 0);
    CHECK_CAST(MR_FLOAT, float, -1, MR_UINT32, uint32_t, UINT32_MAX);
    CHECK_CAST(MR_DOUBLE, double, -1, MR_UINT64, uint64_t, UINT64_MAX);
}

MR_TEST(cast_integer_keeps_the_low_bits)
{
    CHECK_CAST(MR_INT64, int64_t, 0x123456789abcdef0, MR_INT32, int32_t, 0x9abcdef0);
    CHECK_CAST(MR_INT32, int32_t, -1, MR_UINT64, uint64_t, UINT64_MAX);
    CHECK_CAST(MR_UINT64, uint64_t, UINT64_MAX, MR_INT8, int8_t, -1);
    CHECK_CAST(MR_UINT16, uint16_t, 65535, MR_INT32, int32_t, 65535);
    CHECK_CAST(MR_INT32, int32_t, 300, MR_QUINT8, uint8_t, 44);
    CHECK_CAST(MR_QINT32, int32_t, -7, MR_FLOAT, float, -7);
}

MR_TEST(cast_to_bool_asks_for_not_zero)
{
    CHECK_CAST(MR_FLOAT, float, NAN, MR_BOOL, uint8_t, 1);
    CHECK_CAST(MR_FLOAT, float, -0.0f, MR_BOOL, uint8_t, 0);
    CHECK_CAST(MR_DOUBLE, double, 1e-300, MR_BOOL, uint8_t, 1);
    CHECK_CAST(MR_INT64, int64_t, (int64_t)1 << 40, MR_BOOL, uint8_t, 1);
    CHECK_CAST(MR_HALF, uint16_t, 0x0001, MR_BOOL, uint8_t, 1);
    CHECK_CAST(MR_HALF, uint16_t, 0x8000, MR_BOOL, uint8_t, 0);
}

MR_TEST(cast_from_bool_gives_0_and_1_whatever_the_byte)
{
    CHECK_CAST(MR_BOOL, uint8_t, 1, MR_FLOAT, float, 1);
    CHECK_CAST(MR_BOOL, uint8_t, 7, MR_INT64, int64_t, 1);
    CHECK_CAST(MR_BOOL, uint8_t, 0, MR_DOUBLE, double, 0);
    CHECK_CAST(MR_BOOL, uint8_t, 255, MR_HALF, uint16_t, 0x3c00);
}

MR_TEST(cast_complex_drops_and_adds_the_imaginary_part)
{
    CHECK_CAST(MR_COMPLEX64, mr_c64, 3 + 4 * I, MR_FLOAT, float, 3);
    CHECK_CAST(MR_COMPLEX128, mr_c128, -3.5 + 4 * I, MR_INT32, int32_t, -3);
    CHECK_CAST(MR_COMPLEX64, mr_c64, 3 + 4 * I, MR_COMPLEX128, mr_c128, 3 + 4 * I);
    CHECK_CAST(MR_COMPLEX128, mr_c128, 3 + 4 * I, MR_COMPLEX64, mr_c64, 3 + 4 * I);
    CHECK_CAST(MR_INT8, int8_t, -5, MR_COMPLEX128, mr_c128, -5);
    CHECK_CAST(MR_BFLOAT16, uint16_t, 0x4040, MR_COMPLEX64, mr_c64, 3);
    CHECK_CAST(MR_COMPLEX128, mr_c128, 1.5 + 4 * I, MR_HALF, uint16_t, 0x3e00);
}

MR_TEST(cast_through_half_and_bfloat16)
{
    CHECK_CAST(MR_DOUBLE, double, 1.5, MR_HALF, uint16_t, 0x3e00);
    CHECK_CAST(MR_HALF, uint16_t, 0x3e00, MR_BFLOAT16, uint16_t, 0x3fc0);
    CHECK_CAST(MR_INT32, int32_t, 100000, MR_HALF, uint16_t, 0x7c00);
    CHECK_CAST(MR_HALF, uint16_t, 0xc100, MR_INT32, int32_t, -2);
    CHECK_CAST(MR_INT64, int64_t, -3, MR_BFLOAT16, uint16_t, 0xc040);
}

static uint16_t truncated(float f, mr_dtype to)
{
    uint16_t y;
    one(MR_FLOAT, &f, to, &y, true);
    return y;
}

MR_TEST(cast_truncate_cuts_the_surplus_bits)
{
    MR_CHECK_INT(truncated(float_of(0x3f80ffff), MR_BFLOAT16), 0x3f80);
    MR_CHECK_INT(truncated(float_of(0x3f801fff), MR_HALF), 0x3c00);
    MR_CHECK_INT(truncated(65535.0f, MR_HALF), 0x7bff); /* not infinity */
    MR_CHECK_INT(truncated(FLT_MAX, MR_BFLOAT16), 0x7f7f);
    MR_CHECK((truncated(float_of(0x7f800001), MR_BFLOAT16) & 0x7fff) > 0x7f80);
    MR_CHECK((truncated(float_of(0xff800001), MR_HALF) & 0x7fff) > 0x7c00);
    double d = 1 + 0x1.8p-24;
    float f;
    one(MR_DOUBLE, &d, MR_FLOAT, &f, true);
    MR_CHECK(f == 1.0f);
    one(MR_DOUBLE, &d, MR_FLOAT, &f, false);
    MR_CHECK(f == 1 + 0x1p-23f);
}

MR_TEST(cast_of_many_is_the_cast_of_each)
{
    enum { N = 0x10000 + 13 }; /* all halves and bfloat16s there are, and an odd end */
    static uint16_t in[N], half[N], bf16[N];
    static float from_half[N], from_bf16[N];
    for (int i = 0; i < N; i++)
        in[i] = (uint16_t)i;
    MR_CHECK(mr_dtype_convert(MR_HALF, in, MR_FLOAT, from_half, N, false));
    MR_CHECK(mr_dtype_convert(MR_BFLOAT16, in, MR_FLOAT, from_bf16, N, false));
    MR_CHECK(mr_dtype_convert(MR_FLOAT, from_bf16, MR_HALF, half, N, false));
    MR_CHECK(mr_dtype_convert(MR_FLOAT, from_half, MR_BFLOAT16, bf16, N, false));
    for (int i = 0; i < N; i++) {
        MR_CHECK(bits_of(from_half[i]) == bits_of(mr_half_to_float((mr_half){in[i]})));
        MR_CHECK(bits_of(from_bf16[i]) == bits_of(mr_bf16_to_float((mr_bf16){in[i]})));
        MR_CHECK_INT(half[i], mr_float_to_half(from_bf16[i]).bits);
        MR_CHECK_INT(bf16[i], mr_float_to_bf16(from_half[i]).bits);
    }
}

MR_TEST(cast_truncate_leaves_integers_alone)
{
    int32_t i = 16777219;
    float f;
    one(MR_INT32, &i, MR_FLOAT, &f, true);
    MR_CHECK(f == 16777220.0f);
}

MR_TEST(cast_truncate_of_complex_keeps_the_imaginary_part)
{
    mr_c128 x = 1 + (2 + 0x1.8p-23) * I;
    mr_c64 y;
    one(MR_COMPLEX128, &x, MR_COMPLEX64, &y, true);
    MR_CHECK(crealf(y) == 1 && cimagf(y) == 2);
}

MR_TEST(cast_knows_every_plain_pair)
{
    static const mr_dtype plain[] = {
#define M(E, ...) MR_##E,
        MR_PLAIN(M, )
#undef M
    };
    for (int i = 0; i < MR_COUNT(plain); i++) {
        for (int j = 0; j < MR_COUNT(plain); j++) {
            uint64_t x[2] = {0}, y[2], back[2] = {0};
            uint8_t one_bool = 1;
            MR_CHECK(mr_dtype_convert(MR_BOOL, &one_bool, plain[i], x, 1, false));
            MR_CHECK(mr_dtype_convert(plain[i], x, plain[j], y, 1, false));
            MR_CHECK(mr_dtype_convert(plain[j], y, plain[i], back, 1, false));
            MR_CHECK(memcmp(x, back, sizeof(x)) == 0); /* 1 is in every type */
        }
    }
}

MR_TEST(cast_refuses_strings_and_handles)
{
    uint64_t x[4] = {0}, y[4];
    MR_CHECK(!mr_dtype_convert(MR_STRING, x, MR_FLOAT, y, 1, false));
    MR_CHECK(!mr_dtype_convert(MR_FLOAT, x, MR_RESOURCE, y, 1, false));
    MR_CHECK(!mr_dtype_convert(MR_STRING, x, MR_STRING, y, 1, false));
    MR_CHECK(!mr_dtype_convert(MR_STRING, x, MR_FLOAT, y, 0, false));
    MR_CHECK(!mr_dtype_convert(MR_FLOAT8_E5M2, x, MR_FLOAT, y, 1, false));
    MR_CHECK(mr_dtype_convert(MR_FLOAT8_E5M2, x, MR_FLOAT8_E5M2, y, 1, false));
}
