/* tensor/convert.c -- converts element types into each other, by the rules of the Cast op.
 *
 * Any pair of stored types is one loop, made by the lists at the end and found in a table. half and
 * bfloat16 do not have a loop for each other type: they are converted through a short run of floats
 * on the stack, which is also what TensorFlow computes (double to half rounds twice).
 *
 * Float to integer out of range is undefined in C.  Here it gives what x86 gives, on every machine:
 * int32 and int64 their minimum, smaller types the low bits of that int32, unsigned 32 bits the low
 * bits of the int64.  The range test and the choice compile to compare and blend, so the loops
 * still vectorise. */
#include "tensor/dtype.h"

#include "base/memory.h"
#include "base/simd.h"

/* ---- half ------------------------------------------------------------------------------------ */

/* Without branches, so that loops over it vectorise.  Three cases are computed, one is chosen:
 * normal results round by adding to the integer bits; results below 2^-14 round by adding 0.5,
 * whose last mantissa bit weighs 2^-24, that of the smallest half; the rest is infinity or a quiet
 * NaN. */
MR_INLINE uint16_t half_bits(float f)
{
    uint32_t u, tiny_u;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    float tiny;
    memcpy(&tiny, &u, 4);
    tiny += 0.5f;
    memcpy(&tiny_u, &tiny, 4);
    uint32_t small = tiny_u - 0x3f000000;
    uint32_t normal = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    uint32_t special = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : 0x7c00;
    /* 65520 = 0x477ff000 is halfway between the largest half and the next power, and goes up. */
    uint32_t h = u < 0x38800000 ? small : u < 0x477ff000 ? normal : special;
    return (uint16_t)(sign | h);
}

mr_half mr_float_to_half(float f) { return (mr_half){half_bits(f)}; }

/* ---- one value ------------------------------------------------------------------------------- */

static inline int32_t f32_to_i32(float x)
{
    return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}
/* -2147483648.5 is in range: it truncates to the minimum. */
static inline int32_t f64_to_i32(double x)
{
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}
static inline int64_t f32_to_i64(float x)
{
    return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}
static inline int64_t f64_to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
/* The upper half of the range is converted separately; the rest, including negative numbers,
 * through int64 as on x86. */
static inline uint64_t f64_to_u64(double x)
{
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)f64_to_i64(x);
}

/* The value v, of any real type, as another: TO_x(v).  Integers keep their low bits. */
#define AS_I32(v) _Generic((v), float: f32_to_i32(v), double: f64_to_i32(v), default: (int32_t)(v))
#define AS_I64(v) _Generic((v), float: f32_to_i64(v), double: f64_to_i64(v), default: (int64_t)(v))
#define AS_U64(v) _Generic((v), float: f64_to_u64(v), double: f64_to_u64(v), default: (uint64_t)(v))
#define TO_i8(v) (int8_t)AS_I32(v)
#define TO_u8(v) (uint8_t)AS_I32(v)
#define TO_i16(v) (int16_t)AS_I32(v)
#define TO_u16(v) (uint16_t)AS_I32(v)
#define TO_i32(v) AS_I32(v)
#define TO_u32(v) (uint32_t)AS_I64(v)
#define TO_i64(v) AS_I64(v)
#define TO_u64(v) AS_U64(v)
#define TO_f32(v) (float)(v)
#define TO_f64(v) (double)(v)
#define TO_b8(v) (uint8_t)((v) != 0)

/* ---- loops ----------------------------------------------------------------------------------- */

/* The stored kinds of real numbers: M(name, C type, ...).  A bool is read as a byte, since foreign
 * memory may hold other bytes than 0 and 1, which C forbids to look at as a bool. */
#define REAL_KINDS(M, ...)                                                                   \
    M(f32, float, __VA_ARGS__) M(f64, double, __VA_ARGS__) M(i8, int8_t, __VA_ARGS__)        \
    M(u8, uint8_t, __VA_ARGS__) M(i16, int16_t, __VA_ARGS__) M(u16, uint16_t, __VA_ARGS__)   \
    M(i32, int32_t, __VA_ARGS__) M(u32, uint32_t, __VA_ARGS__) M(i64, int64_t, __VA_ARGS__)  \
    M(u64, uint64_t, __VA_ARGS__) M(b8, uint8_t, __VA_ARGS__)

enum kind {
    KIND_NONE,
#define M(k, T, ...) KIND_##k,
    REAL_KINDS(M, )
#undef M
    N_REAL_KINDS,
    KIND_half,
    KIND_bf16,
    KIND_c64,
    KIND_c128,
};

typedef void loop_fn(const void *src, void *dst, int64_t n);

/* One loop per pair of types. Those from floating types and to float and bool are compiled for several generations of CPUs. A bool
 * as source is a separate case, because any non-zero byte counts as 1. */
#define CLONES_TO_f32 MR_CLONES
#define CLONES_TO_b8 MR_CLONES
#define CLONES_TO_f64
#define CLONES_TO_i8
#define CLONES_TO_u8
#define CLONES_TO_i16
#define CLONES_TO_u16
#define CLONES_TO_i32
#define CLONES_TO_u32
#define CLONES_TO_i64
#define CLONES_TO_u64
#define HOT_LOOP(to, To, from, From) LOOP_BY(MR_CLONES, to, To, from, From)
#define LOOP(to, To, from, From) LOOP_BY(CLONES_TO_##to, to, To, from, From)
#define LOOP_BY(clones, to, To, from, From)                          \
    clones static void loop_##from##_##to(const void *src, void *dst, int64_t n) \
    {                                                                \
        const From *x = src;                                         \
        To *y = dst;                                                 \
        for (int64_t i = 0; i < n; i++)                              \
            y[i] = TO_##to(x[i]);                                    \
    }
#define BOOL_LOOP(to, To)                                         \
    static void loop_b8_##to(const void *src, void *dst, int64_t n) \
    {                                                             \
        const uint8_t *x = src;                                   \
        To *y = dst;                                              \
        for (int64_t i = 0; i < n; i++)                           \
            y[i] = (To)(x[i] != 0);                               \
    }
#define BOOL_LOOP_ROW(to, To, ...) BOOL_LOOP(to, To)

REAL_KINDS(HOT_LOOP, f32, float)
REAL_KINDS(HOT_LOOP, f64, double)
REAL_KINDS(LOOP, i8, int8_t)
REAL_KINDS(LOOP, u8, uint8_t)
REAL_KINDS(LOOP, i16, int16_t)
REAL_KINDS(LOOP, u16, uint16_t)
REAL_KINDS(LOOP, i32, int32_t)
REAL_KINDS(LOOP, u32, uint32_t)
REAL_KINDS(LOOP, i64, int64_t)
REAL_KINDS(LOOP, u64, uint64_t)
REAL_KINDS(BOOL_LOOP_ROW, )

#define CELL(to, To, from) [KIND_##to] = loop_##from##_##to,
#define LINE(from) [KIND_##from] = {REAL_KINDS(CELL, from)}
static loop_fn *const real_loops[N_REAL_KINDS][N_REAL_KINDS] = {
    LINE(f32), LINE(f64), LINE(i8),  LINE(u8),  LINE(i16),  LINE(u16),
    LINE(i32), LINE(u32), LINE(i64), LINE(u64), LINE(b8),
};

/* ---- half and bfloat16 through floats, complex through its parts ----------------------------- */

MR_CLONES static void half_to_floats(const mr_half *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_half_to_float(x[i]);
}

MR_CLONES static void bf16_to_floats(const mr_bf16 *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_bf16_to_float(x[i]);
}

MR_CLONES static void floats_to_half(const float *x, mr_half *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i].bits = half_bits(x[i]);
}

MR_CLONES static void floats_to_bf16(const float *x, mr_bf16 *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mr_float_to_bf16(x[i]);
}

/* `twice` means doubles.  Complex numbers are pairs of reals in memory, so a real number is every
 * second one of them. */
static void parts_to_reals(bool twice, const void *src, void *dst, int64_t n)
{
    if (twice) {
        const double *x = src;
        double *y = dst;
        for (int64_t i = 0; i < n; i++)
            y[i] = x[2 * i];
    } else {
        const float *x = src;
        float *y = dst;
        for (int64_t i = 0; i < n; i++)
            y[i] = x[2 * i];
    }
}

static void reals_to_parts(bool twice, const void *src, void *dst, int64_t n)
{
    if (twice) {
        const double *x = src;
        double *y = dst;
        for (int64_t i = 0; i < n; i++)
            y[2 * i] = x[i], y[2 * i + 1] = 0;
    } else {
        const float *x = src;
        float *y = dst;
        for (int64_t i = 0; i < n; i++)
            y[2 * i] = x[i], y[2 * i + 1] = 0;
    }
}

/* ---- Truncate=true --------------------------------------------------------------------------- */

/* Clears all but the upper `keep` mantissa bits; what remains converts exactly or overflows.  A NaN
 * whose set bits are all below would become an infinity, so NaNs stay as they are. */
static void cut_floats(float *x, int64_t n, int keep)
{
    uint32_t mask = ~0u << (23 - keep);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], 4);
        u = (u & 0x7fffffff) > 0x7f800000 ? u : u & mask;
        memcpy(&x[i], &u, 4);
    }
}

static void cut_doubles(double *x, int64_t n, int keep)
{
    uint64_t mask = ~(uint64_t)0 << (52 - keep);
    for (int64_t i = 0; i < n; i++) {
        uint64_t u;
        memcpy(&u, &x[i], 8);
        u = (u & INT64_MAX) > 0x7ff0000000000000 ? u : u & mask;
        memcpy(&x[i], &u, 8);
    }
}

/* ---- any pair -------------------------------------------------------------------------------- */

/* How the elements are stored; quantized types are their integers. */
static enum kind kind_of(mr_dtype t)
{
    switch (t) {
    case MR_HALF: return KIND_half;
    case MR_BFLOAT16: return KIND_bf16;
    case MR_FLOAT: return KIND_f32;
    case MR_DOUBLE: return KIND_f64;
    case MR_INT8: case MR_QINT8: return KIND_i8;
    case MR_UINT8: case MR_QUINT8: return KIND_u8;
    case MR_INT16: case MR_QINT16: return KIND_i16;
    case MR_UINT16: case MR_QUINT16: return KIND_u16;
    case MR_INT32: case MR_QINT32: return KIND_i32;
    case MR_UINT32: return KIND_u32;
    case MR_INT64: return KIND_i64;
    case MR_UINT64: return KIND_u64;
    case MR_BOOL: return KIND_b8;
    case MR_COMPLEX64: return KIND_c64;
    case MR_COMPLEX128: return KIND_c128;
    default: return KIND_NONE;
    }
}

enum { RUN = 256 }; /* elements on the stack between two loops */
typedef union run_buffer {
    float f[RUN];
    double d[RUN];
} run_buffer;

/* The kind of a run once its elements are plain real numbers. */
static enum kind real_of(enum kind k)
{
    switch (k) {
    case KIND_half: case KIND_bf16: case KIND_c64: return KIND_f32;
    case KIND_c128: return KIND_f64;
    default: return k;
    }
}

/* Makes real numbers of a run: in `room`, or where they are when they are real already. */
static const void *load_run(enum kind k, const void *src, run_buffer *room, int64_t n)
{
    switch (k) {
    case KIND_half: half_to_floats(src, room->f, n); return room;
    case KIND_bf16: bf16_to_floats(src, room->f, n); return room;
    case KIND_c64: parts_to_reals(false, src, room, n); return room;
    case KIND_c128: parts_to_reals(true, src, room, n); return room;
    default: return src;
    }
}

/* The way back, from the real numbers of real_of(k). */
static void store_run(enum kind k, const void *reals, void *dst, int64_t n)
{
    switch (k) {
    case KIND_half: floats_to_half(reals, dst, n); break;
    case KIND_bf16: floats_to_bf16(reals, dst, n); break;
    case KIND_c64: reals_to_parts(false, reals, dst, n); break;
    case KIND_c128: reals_to_parts(true, reals, dst, n); break;
    default: break;
    }
}

static int mantissa_bits(enum kind k)
{
    switch (k) {
    case KIND_half: return 10;
    case KIND_bf16: return 7;
    case KIND_f32: case KIND_c64: return 23;
    case KIND_f64: case KIND_c128: return 52;
    default: return 0; /* not a float: there is no mantissa to cut */
    }
}

/* The run with its surplus bits cut, in a copy when there are any.  Integers have none, even where
 * the target cannot hold them exactly: TensorFlow rounds those. */
static const void *cut_run(enum kind from, enum kind to, const void *x, run_buffer *room, int64_t n)
{
    int have = mantissa_bits(from), keep = mantissa_bits(to);
    if (!have || !keep || keep >= have)
        return x;
    bool twice = real_of(from) == KIND_f64;
    if (x != room)
        memcpy(room, x, (size_t)n * (twice ? sizeof(double) : sizeof(float)));
    if (twice)
        cut_doubles(room->d, n, keep);
    else
        cut_floats(room->f, n, keep);
    return room;
}

/* At most RUN elements by any pair: load as real numbers, cut, convert, store. */
static void convert_run(enum kind from, const void *src, enum kind to, void *dst, int64_t n,
                        bool truncate)
{
    run_buffer a, b;
    const void *x = load_run(from, src, &a, n);
    if (truncate)
        x = cut_run(from, to, x, &a, n);
    enum kind x_kind = real_of(from), y_kind = real_of(to);
    MR_ASSERT(n <= RUN && x_kind < N_REAL_KINDS && y_kind < N_REAL_KINDS);
    if (y_kind == to) { /* real numbers are stored where they belong */
        real_loops[x_kind][y_kind](x, dst, n);
        return;
    }
    if (x_kind != y_kind) {
        real_loops[x_kind][y_kind](x, &b, n);
        x = &b;
    }
    store_run(to, x, dst, n);
}

/* Equal types are copied. Real types without truncation use one loop over all elements; everything else goes through
 * runs of RUN elements on the stack. Complex numbers are handled as pairs of real ones. */
bool mr_dtype_convert(mr_dtype from, const void *src, mr_dtype to, void *dst, int64_t n,
                      bool truncate)
{
    enum kind f = kind_of(from), t = kind_of(to);
    bool same = from == to ? mr_dtype_is_plain(from) : f && f == t;
    if ((!f || !t) && !same)
        return false;
    if (n == 0)
        return true;
    size_t in = mr_dtype_size(from), out = mr_dtype_size(to);
    if (same) {
        memmove(dst, src, (size_t)n * in);
        return true;
    }
    if (f >= KIND_c64 && t >= KIND_c64) { /* both parts alike: twice as many real numbers */
        f = real_of(f), t = real_of(t);
        in /= 2, out /= 2, n *= 2;
    }
    if (f < N_REAL_KINDS && t < N_REAL_KINDS && !truncate) { /* nearly always: one loop over all */
        real_loops[f][t](src, dst, n);
        return true;
    }
    for (int64_t at = 0; at < n; at += RUN)
        convert_run(f, (const char *)src + (size_t)at * in, t, (char *)dst + (size_t)at * out,
                    MR_MIN(n - at, RUN), truncate);
    return true;
}
