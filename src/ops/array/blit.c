/* ops/array/blit.c -- finds a fast way to walk a block, and walks it.
 *
 * The dimensions are sorted by the output's strides, so that writes run forward, and dimensions that continue each
 * other on both sides are merged. The innermost remaining dimension decides: a run of elements is a memcpy; where
 * neighbours in the output are apart in the input, the walk combines that dimension with the one in which the
 * input's elements are adjacent, in square tiles that stay in the first-level cache. A short inner run is moved as
 * one larger element ([.., 2] of float as 8 bytes).
 *
 * So a plan has one plane of two dimensions, n0 outside and n1 inside, and the dimensions around it. The plane is
 * split into blocks; a block of a plane is the unit of work for threads. */
#include "ops/array/blit.h"

#include "base/memory.h"
#include "base/simd.h"
#include "ops/first_error.h"
#include "run/accel.h"

#define BLOCK_BYTES 65536
#define TILE_OF(elem) (64 / (int64_t)(elem)) /* a cache line of elements */
#define AHEAD 4 /* tiles between the one that is transposed and the one that is fetched into the cache */
#define COPY_NS 0.1  /* per byte in a run */
#define MOVE_NS 1.0  /* per separate element */

typedef struct dim {
    int64_t n, from, to; /* strides in bytes */
} dim;

typedef struct plan plan;
/* Moves n0 x n1 elements of a plane. */
typedef void plane_fn(const plan *p, char *d, const char *s, int64_t n0, int64_t n1);

struct plan {
    int rank; /* dimensions around the plane */
    dim dims[MR_BLIT_RANK];
    dim d0, d1; /* the plane */
    int64_t b0, b1, nb0, nb1; /* its blocks: size and count in each direction */
    size_t elem;
    plane_fn *plane;
    char *to;
    const char *from;
    mr_tensor *dst;       /* the output, if its elements are not plain, else NULL */
    const mr_tensor *src;
    mr_first_error *failed; /* for errors of those elements */
};

void mr_blit_dim(mr_blit *b, int64_t size, int64_t from, int64_t to)
{
    MR_ASSERT(size >= 0);
    if (size == 0)
        b->empty = true;
    if (size <= 1 || b->rank == MR_BLIT_RANK)
        return;
    b->dims[b->rank] = size;
    b->from[b->rank] = from;
    b->to[b->rank++] = to;
}

/* ---- planes ---- */

/* Elements as the machine moves them; without alignment, because foreign memory and widened elements may start at
 * any byte. */
typedef uint8_t u1 __attribute__((may_alias));
typedef uint16_t u2 __attribute__((aligned(1), may_alias));
typedef uint32_t u4 __attribute__((aligned(1), may_alias));
typedef uint64_t u8 __attribute__((aligned(1), may_alias));
typedef struct u16 {
    u8 lo, hi;
} u16;

/* n0 runs of so many bytes. Where `bytes` is a constant, a copy is a few moves instead of a call. */
MR_INLINE void copy_runs(const plan *p, char *d, const char *s, int64_t n0, size_t bytes)
{
    int64_t to = p->d0.to, from = p->d0.from;
    for (int64_t i = 0; i < n0; i++)
        memcpy(d + i * to, s + i * from, bytes);
}

/* Runs of `half` to 2 * half bytes as two halves that may overlap. */
MR_INLINE void short_runs(const plan *p, char *d, const char *s, int64_t n0, size_t bytes, size_t half)
{
    for (int64_t i = 0; i < n0; i++, d += p->d0.to, s += p->d0.from) {
        char first[16], last[16];
        memcpy(first, s, half);
        memcpy(last, s + bytes - half, half);
        memcpy(d, first, half);
        memcpy(d + bytes - half, last, half);
    }
}

/* Runs of 1, 2, 4, 8 and 16 bytes are elements by now (widen_elements). */
static void plane_run(const plan *p, char *d, const char *s, int64_t n0, int64_t n1)
{
    size_t bytes = (size_t)n1 * p->elem;
    if (bytes == 3)
        copy_runs(p, d, s, n0, 3);
    else if (bytes >= 4 && bytes < 8)
        short_runs(p, d, s, n0, bytes, 4);
    else if (bytes >= 8 && bytes < 16)
        short_runs(p, d, s, n0, bytes, 8);
    else if (bytes >= 16 && bytes <= 32)
        short_runs(p, d, s, n0, bytes, 16);
    else
        copy_runs(p, d, s, n0, bytes);
}

/* One value repeated along n1, where the output's elements are adjacent. */
#define PLANE_SPLAT(U)                                                                       \
    MR_CLONES static void plane_splat_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                        \
        for (int64_t i = 0; i < n0; i++) {                                                   \
            U v = *(const U *)(s + i * p->d0.from), *o = (U *)(d + i * p->d0.to);            \
            for (int64_t k = 0; k < n1; k++)                                                 \
                o[k] = v;                                                                    \
        }                                                                                    \
    }

/* Rows of the output from elements of the input that are one stride apart. Neighbours in reverse order and every
 * second element have loops that the compiler vectorises. */
#define PLANE_STRIDED(U)                                                                     \
    MR_CLONES static void plane_strided_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                        \
        const int64_t step = p->d1.from;                                                     \
        for (int64_t i = 0; i < n0; i++) {                                                   \
            const char *x = s + i * p->d0.from;                                              \
            U *o = (U *)(d + i * p->d0.to);                                                  \
            if (step == -(int64_t)sizeof(U))                                                 \
                MR_IVDEP for (int64_t k = 0; k < n1; k++)                                    \
                    o[k] = ((const U *)x)[-k];                                               \
            else if (step == 2 * (int64_t)sizeof(U))                                         \
                MR_IVDEP for (int64_t k = 0; k < n1; k++)                                    \
                    o[k] = ((const U *)x)[2 * k];                                            \
            else                                                                             \
                for (int64_t k = 0; k < n1; k++)                                             \
                    o[k] = *(const U *)(x + k * step);                                       \
        }                                                                                    \
    }

/* The three channels of an image, from neighbours (RGBRGB..) to planes (RR..GG..BB..) and back. */
#define PLANE_CHANNELS(U)                                                                    \
    MR_CLONES static void plane_split3_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                        \
        const U *x = (const U *)s;                                                           \
        U *a = (U *)d, *b = (U *)(d + p->d0.to), *c = (U *)(d + 2 * p->d0.to);               \
        MR_ASSERT(n0 == 3);                                                                  \
        (void)n0;                                                                            \
        MR_IVDEP for (int64_t k = 0; k < n1; k++) {                                          \
            a[k] = x[3 * k];                                                                 \
            b[k] = x[3 * k + 1];                                                             \
            c[k] = x[3 * k + 2];                                                             \
        }                                                                                    \
    }                                                                                        \
    MR_CLONES static void plane_join3_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                        \
        const U *a = (const U *)s, *b = (const U *)(s + p->d1.from), *c = (const U *)(s + 2 * p->d1.from); \
        U *o = (U *)d;                                                                       \
        MR_ASSERT(n1 == 3);                                                                  \
        (void)n1;                                                                            \
        MR_IVDEP for (int64_t i = 0; i < n0; i++) {                                          \
            o[3 * i] = a[i];                                                                 \
            o[3 * i + 1] = b[i];                                                             \
            o[3 * i + 2] = c[i];                                                             \
        }                                                                                    \
    }

/* Any strides, in tiles: both sides stay in cache even if neither is walked in order. */
#define PLANE_TILES(U)                                                                       \
    static inline void tile_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                        \
        for (int64_t i = 0; i < n0; i++) {                                                   \
            char *o = d + i * p->d0.to;                                                      \
            const char *x = s + i * p->d0.from;                                              \
            for (int64_t k = 0; k < n1; k++)                                                 \
                *(U *)(o + k * p->d1.to) = *(const U *)(x + k * p->d1.from);                 \
        }                                                                                    \
    }                                                                                        \
    static void plane_tiles_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                        \
        const int64_t t = TILE_OF(sizeof(U));                                                \
        for (int64_t i = 0; i < n0; i += t)                                                  \
            for (int64_t k = 0; k < n1; k += t)                                              \
                tile_##U(p, d + i * p->d0.to + k * p->d1.to, s + i * p->d0.from + k * p->d1.from, \
                         MR_MIN(t, n0 - i), MR_MIN(t, n1 - k));                              \
    }

PLANE_SPLAT(u1) PLANE_SPLAT(u2) PLANE_SPLAT(u4) PLANE_SPLAT(u8) PLANE_SPLAT(u16)
PLANE_STRIDED(u1) PLANE_STRIDED(u2) PLANE_STRIDED(u4) PLANE_STRIDED(u8) PLANE_STRIDED(u16)
PLANE_CHANNELS(u1) PLANE_CHANNELS(u2) PLANE_CHANNELS(u4) PLANE_CHANNELS(u8) PLANE_CHANNELS(u16)
PLANE_TILES(u1) PLANE_TILES(u2) PLANE_TILES(u4) PLANE_TILES(u8) PLANE_TILES(u16)

/* Strings and handles: one call per run, or one per element. */
static void plane_objects(const plan *p, char *d, const char *s, int64_t n0, int64_t n1)
{
    int64_t e = (int64_t)p->elem;
    bool run = p->d1.from == e && p->d1.to == e;
    mr_status *st = NULL;
    for (int64_t i = 0; i < n0 && !st && !mr_first_error_any(p->failed); i++) {
        int64_t at = (d - (char *)p->dst->data + i * p->d0.to) / e;
        int64_t from = (s - (const char *)p->src->data + i * p->d0.from) / e;
        if (run)
            st = mr_tensor_try_copy_elements(p->dst, at, p->src, from, n1);
        for (int64_t k = 0; !run && !st && k < n1; k++)
            st = mr_tensor_try_copy_elements(p->dst, at + k * (p->d1.to / e), p->src,
                                             from + k * (p->d1.from / e), 1);
    }
    mr_first_error_note(p->failed, st);
}

/* ---- transposition: the output's elements are adjacent along n1, the input's along n0 ---- */

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE 1
#endif
#endif

#ifdef HAVE_SHUFFLE
typedef uint16_t v8 __attribute__((vector_size(16)));
typedef uint32_t v4 __attribute__((vector_size(16)));
typedef uint64_t v2 __attribute__((vector_size(16)));

/* 4 x 4 elements of 4 bytes. Row k of the input is at s + k * from, row i of the output at d + i * to. */
static inline void square_u4(char *d, int64_t to, const char *s, int64_t from)
{
    v4 a, b, c, e;
    memcpy(&a, s, 16);
    memcpy(&b, s + from, 16);
    memcpy(&c, s + 2 * from, 16);
    memcpy(&e, s + 3 * from, 16);
    v4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5),
       ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4 ce0 = __builtin_shufflevector(c, e, 0, 4, 1, 5),
       ce1 = __builtin_shufflevector(c, e, 2, 6, 3, 7);
    v4 r0 = __builtin_shufflevector(ab0, ce0, 0, 1, 4, 5),
       r1 = __builtin_shufflevector(ab0, ce0, 2, 3, 6, 7);
    v4 r2 = __builtin_shufflevector(ab1, ce1, 0, 1, 4, 5),
       r3 = __builtin_shufflevector(ab1, ce1, 2, 3, 6, 7);
    memcpy(d, &r0, 16);
    memcpy(d + to, &r1, 16);
    memcpy(d + 2 * to, &r2, 16);
    memcpy(d + 3 * to, &r3, 16);
}

static inline void square_u8(char *d, int64_t to, const char *s, int64_t from)
{
    v2 a, b;
    memcpy(&a, s, 16);
    memcpy(&b, s + from, 16);
    v2 r0 = __builtin_shufflevector(a, b, 0, 2), r1 = __builtin_shufflevector(a, b, 1, 3);
    memcpy(d, &r0, 16);
    memcpy(d + to, &r1, 16);
}

/* 8 x 8 elements of 2 bytes, in three rounds: elements, then pairs, then quadruples are exchanged. */
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
static inline void square_u2(char *d, int64_t to, const char *s, int64_t from)
{
    v8 r[8], t[8]; /* registers, once the loops are unrolled */
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        memcpy(&r[i], s + i * from, 16);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = LOW(r[i], r[i + 4]);
        t[2 * i + 1] = HIGH(r[i], r[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[2 * i] = LOW(t[i], t[i + 4]);
        r[2 * i + 1] = HIGH(t[i], t[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v8 low = LOW(r[i], r[i + 4]), high = HIGH(r[i], r[i + 4]);
        memcpy(d + 2 * i * to, &low, 16);
        memcpy(d + (2 * i + 1) * to, &high, 16);
    }
}
#undef LOW
#undef HIGH

/* Transposes a tile in squares of Q x Q, and the rest element by element. */
#define PLANE_TRANSPOSE(U, Q)                                                                     \
    static inline void turn_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1)    \
    {                                                                                             \
        int64_t q0 = n0 - n0 % Q, q1 = n1 - n1 % Q;                                               \
        int64_t to = p->d0.to, from = p->d1.from, e = sizeof(U);                                  \
        for (int64_t i = 0; i < q0; i += Q)                                                       \
            for (int64_t k = 0; k < q1; k += Q)                                                   \
                square_##U(d + i * to + k * e, to, s + i * e + k * from, from);                   \
        tile_##U(p, d + q1 * e, s + q1 * from, q0, n1 - q1);                                      \
        tile_##U(p, d + q0 * to, s + q0 * e, n0 - q0, n1);                                        \
    }                                                                                             \
    static void plane_transpose_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1) \
    {                                                                                             \
        const int64_t t = TILE_OF(sizeof(U));                                                     \
        for (int64_t i = 0; i < n0; i += t)                                                       \
            for (int64_t k = 0; k < n1; k += t) {                                                 \
                int64_t n = MR_MIN(t, n1 - k);                                                    \
                const char *x = s + i * p->d0.from + k * p->d1.from;                              \
                for (int64_t q = 0; i + AHEAD * t < n0 && q < n; q++)                             \
                    __builtin_prefetch(x + q * p->d1.from + AHEAD * 64);                          \
                turn_##U(p, d + i * p->d0.to + k * p->d1.to, x, MR_MIN(t, n0 - i), n);            \
            }                                                                                     \
    }
PLANE_TRANSPOSE(u2, 8)
PLANE_TRANSPOSE(u4, 4)
PLANE_TRANSPOSE(u8, 2)
/* Pixels of three elements in reverse order, `count` of them in one move. A move reads `skip` elements before the last
 * of them, and what it writes after them is overwritten by the next one; so the last pixels are copied one by one. */
#define PLANE_TURNED(U, lanes, count, skip, ...)                                                                      \
    MR_CLONES static void plane_turned_##U(const plan *p, char *d, const char *s, int64_t n0, int64_t n1)             \
    {                                                                                                                 \
        typedef U vec __attribute__((vector_size(lanes * sizeof(U)), aligned(1)));                                    \
        const int64_t bytes = 3 * sizeof(U);                                                                          \
        int64_t i = 0;                                                                                                \
        (void)n1;                                                                                                     \
        for (; i + count < n0; i += count) {                                                                          \
            vec v;                                                                                                    \
            memcpy(&v, s - (i + count - 1) * bytes - skip * sizeof(U), sizeof(v));                                    \
            v = __builtin_shufflevector(v, v, __VA_ARGS__);                                                           \
            memcpy(d + i * bytes, &v, sizeof(v));                                                                     \
        }                                                                                                             \
        copy_runs(p, d + i * bytes, s - i * bytes, n0 - i, (size_t)bytes);                                            \
    }
PLANE_TURNED(uint8_t, 16, 5, 1, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0)
PLANE_TURNED(uint16_t, 8, 2, 2, 5, 6, 7, 2, 3, 4, 0, 1)
PLANE_TURNED(uint32_t, 8, 2, 2, 5, 6, 7, 2, 3, 4, 0, 1)

/* The function for such pixels, which lie side by side in the output and backwards in the input; or NULL. */
static plane_fn *turned_pixels(const plan *p)
{
    int64_t bytes = p->d1.n * (int64_t)p->elem;
    if (p->d0.to != bytes || p->d0.from != -bytes)
        return NULL;
    return bytes == 3    ? plane_turned_uint8_t
           : bytes == 6  ? plane_turned_uint16_t
           : bytes == 12 ? plane_turned_uint32_t
                         : NULL;
}
#else
static plane_fn *turned_pixels(const plan *p) { return NULL; }
#define plane_transpose_u2 plane_tiles_u2
#define plane_transpose_u4 plane_tiles_u4
#define plane_transpose_u8 plane_tiles_u8
#endif

/* ---- making a plan ---- */

#define BY_SIZE(elem, fn)    \
    ((elem) == 1   ? fn##_u1 \
     : (elem) == 2 ? fn##_u2 \
     : (elem) == 4 ? fn##_u4 \
     : (elem) == 8 ? fn##_u8 \
                   : fn##_u16)

/* Converts strides to bytes and sorts the dimensions: the output is walked forward, with its largest strides first. */
static void order_dims(plan *p, const mr_blit *b)
{
    int64_t e = (int64_t)p->elem;
    p->rank = 0;
    for (int i = 0; i < b->rank; i++) {
        dim d = {b->dims[i], b->from[i] * e, b->to[i] * e};
        if (d.to < 0) {
            p->to += (d.n - 1) * d.to;
            p->from += (d.n - 1) * d.from;
            d.to = -d.to;
            d.from = -d.from;
        }
        int at = p->rank++;
        for (; at > 0 && p->dims[at - 1].to < d.to; at--)
            p->dims[at] = p->dims[at - 1];
        p->dims[at] = d;
    }
}

/* Merges neighbouring dimensions if, on both sides, a step of the outer one continues after the last element of the
 * inner one. */
static void merge_dims(plan *p)
{
    int kept = 0;
    for (int i = 1; i < p->rank; i++) {
        dim *o = &p->dims[kept], d = p->dims[i];
        if (o->to == d.to * d.n && o->from == d.from * d.n)
            *o = (dim){o->n * d.n, d.from, d.to};
        else
            p->dims[++kept] = d;
    }
    p->rank = p->rank ? kept + 1 : 0;
}

static bool is_run(const plan *p, dim d)
{
    return d.from == (int64_t)p->elem && d.to == (int64_t)p->elem;
}

/* Treats an innermost run of 2, 4, 8 or 16 bytes as one element of that size. */
static void widen_elements(plan *p)
{
    while (p->rank > 0) {
        dim d = p->dims[p->rank - 1];
        if (!is_run(p, d) || d.n > 16)
            return;
        size_t bytes = (size_t)d.n * p->elem;
        if (bytes > 16 || (bytes & (bytes - 1)))
            return;
        p->elem = bytes;
        p->rank--;
    }
}

static bool moves_runs(const plan *p) { return !p->dst && is_run(p, p->d1); }

static int64_t stride_length(dim d) { return d.from < 0 ? -d.from : d.from; }

/* Removes the two dimensions of the plane from the list: the innermost of the output, and the one with the smallest
 * stride in the input, if that is smaller than the first one's. */
static void choose_plane(plan *p)
{
    p->d0 = p->d1 = (dim){1, 0, 0};
    if (p->rank == 0)
        return;
    p->d1 = p->dims[--p->rank];
    if (p->rank == 0)
        return;
    int best = p->rank - 1;
    if (!is_run(p, p->d1) && p->d1.from != 0)
        for (int i = 0; i < p->rank; i++)
            if (p->dims[i].from != 0 && stride_length(p->dims[i]) < stride_length(p->d1) &&
                (p->dims[best].from == 0 ||
                 stride_length(p->dims[i]) < stride_length(p->dims[best])))
                best = i;
    p->d0 = p->dims[best];
    memmove(&p->dims[best], &p->dims[best + 1], (size_t)(--p->rank - best) * sizeof(dim));
}

/* How the plane is cut into blocks: long rows are faster than square blocks where each row is read and written in
 * order; three channels stay together. */
typedef enum cut { CUT_SQUARES, CUT_ROWS, CUT_D0_WHOLE, CUT_D1_WHOLE } cut;

static cut choose_function(plan *p)
{
    int64_t e = (int64_t)p->elem;
    dim d0 = p->d0, d1 = p->d1;
    if (p->dst) {
        p->plane = plane_objects;
        return d1.from == 0 ? CUT_ROWS : CUT_SQUARES;
    }
    plane_fn *turned = turned_pixels(p);
    if (is_run(p, d1))
        p->plane = turned ? turned : plane_run;
    else if (d1.from == 0 && d1.to == e)
        p->plane = BY_SIZE(e, plane_splat);
    else if (d1.to == e && d1.from == 3 * e && d0.n == 3 && d0.from == e) {
        p->plane = BY_SIZE(e, plane_split3);
        return CUT_D0_WHOLE;
    } else if (d1.to == e && d1.n == 3 && d0.from == e && d0.to == 3 * e) {
        p->plane = BY_SIZE(e, plane_join3);
        return CUT_D1_WHOLE;
    } else if (d1.to == e && (d0.n == 1 || stride_length(d1) < stride_length(d0)))
        p->plane = BY_SIZE(e, plane_strided);
    else {
        bool squares = d1.to == e && d0.from == e && (e == 2 || e == 4 || e == 8);
        p->plane = !squares ? BY_SIZE(e, plane_tiles)
                   : e == 2 ? plane_transpose_u2
                   : e == 4 ? plane_transpose_u4
                            : plane_transpose_u8;
        return d1.from == 0 ? CUT_ROWS : CUT_SQUARES;
    }
    return CUT_ROWS;
}

static void choose_blocks(plan *p, cut c)
{
    int64_t e = (int64_t)p->elem, most = c == CUT_SQUARES ? 256 : 4 * BLOCK_BYTES / e;
    p->b1 = c == CUT_D1_WHOLE ? p->d1.n : MR_MIN(p->d1.n, most);
    p->b0 = c == CUT_D0_WHOLE ? p->d0.n : MR_MAX(BLOCK_BYTES / (p->b1 * e), 1);
    if (c == CUT_SQUARES)
        p->b0 = (p->b0 + TILE_OF(e) - 1) / TILE_OF(e) * TILE_OF(e);
    p->b0 = MR_MIN(p->b0, p->d0.n);
    p->nb0 = (p->d0.n + p->b0 - 1) / p->b0;
    p->nb1 = (p->d1.n + p->b1 - 1) / p->b1;
}

/* ---- walking ---- */

typedef struct place { /* a position in the dimensions around the plane */
    int64_t index[MR_BLIT_RANK];
    char *to;
    const char *from;
} place;

static void place_at(const plan *p, int64_t i, place *at)
{
    at->to = p->to;
    at->from = p->from;
    for (int k = p->rank - 1; k >= 0; k--) {
        at->index[k] = i % p->dims[k].n;
        i /= p->dims[k].n;
        at->to += at->index[k] * p->dims[k].to;
        at->from += at->index[k] * p->dims[k].from;
    }
}

static void place_next(const plan *p, place *at)
{
    for (int k = p->rank - 1; k >= 0; k--) {
        const dim *d = &p->dims[k];
        at->to += d->to;
        at->from += d->from;
        if (++at->index[k] < d->n)
            return;
        at->index[k] = 0;
        at->to -= d->n * d->to;
        at->from -= d->n * d->from;
    }
}

/* Moves units begin..end: (place, block of n0, block of n1); the last index varies fastest. */
static void walk_units(void *ctx, int64_t begin, int64_t end)
{
    const plan *p = ctx;
    int64_t k1 = begin % p->nb1, k0 = begin / p->nb1 % p->nb0;
    place at;
    place_at(p, begin / p->nb1 / p->nb0, &at);
    for (int64_t i = begin; i < end; i++) {
        int64_t i0 = k0 * p->b0, i1 = k1 * p->b1;
        p->plane(p, at.to + i0 * p->d0.to + i1 * p->d1.to,
                 at.from + i0 * p->d0.from + i1 * p->d1.from, MR_MIN(p->b0, p->d0.n - i0),
                 MR_MIN(p->b1, p->d1.n - i1));
        if (++k1 < p->nb1)
            continue;
        k1 = 0;
        if (++k0 < p->nb0)
            continue;
        k0 = 0;
        place_next(p, &at);
    }
}

static double unit_ns(const plan *p)
{
    double elements = (double)p->b0 * (double)p->b1;
    if (p->dst)
        return elements * 20;
    return moves_runs(p) ? elements * (double)p->elem * COPY_NS + (double)p->b0 * 4
                                 : elements * MOVE_NS;
}

static void run_plan(mr_run *r, plan *p, const mr_blit *b)
{
    order_dims(p, b);
    merge_dims(p);
    if (!p->dst)
        widen_elements(p);
    choose_plane(p);
    choose_blocks(p, choose_function(p));
    int64_t n = p->nb0 * p->nb1;
    for (int i = 0; i < p->rank; i++)
        n *= p->dims[i].n;
    if (n == 1)
        p->plane(p, p->to, p->from, p->d0.n, p->d1.n);
    else
        mr_pool_for(r ? r->step->device->pool : NULL, n, unit_ns(p), walk_units, p);
}

/* ---- on an accelerator ---- */

enum { DEVICE_DIMS = 8 };

/* Appends the sizes, then the strides of both sides, in elements. */
static int device_args(const plan *p, mr_accel_arg *args, int n)
{
    int pad = DEVICE_DIMS - p->rank;
    int64_t e = (int64_t)p->elem;
    for (int i = 0; i < DEVICE_DIMS; i++)
        args[n++] = MR_AI(i < pad ? 1 : p->dims[i - pad].n);
    for (int i = 0; i < DEVICE_DIMS; i++)
        args[n++] = MR_AI(i < pad ? 0 : p->dims[i - pad].from / e);
    for (int i = 0; i < DEVICE_DIMS; i++)
        args[n++] = MR_AI(i < pad ? 0 : p->dims[i - pad].to / e);
    return n;
}

/* If src is NULL, the source is one value. */
static mr_status *run_on_device(mr_run *r, plan *p, const mr_blit *b, mr_tensor *dst, const mr_tensor *src)
{
    static const char *const kernels[] = {[1] = "blit_1", [4] = "blit_4", [8] = "blit_8"};
    mr_accel_arg args[4 + 3 * DEVICE_DIMS], to = MR_AT(dst), from = MR_AT(src);
    int64_t n = 1, value = 0;
    order_dims(p, b);
    merge_dims(p);
    if (p->rank > DEVICE_DIMS || p->elem > 8 || !kernels[p->elem])
        return mr_error(MR_UNIMPLEMENTED, "%s on %s cannot move a block of %d dimensions with elements of %zu bytes",
                        r->node->def->name, r->step->device->type->name, p->rank, p->elem);
    for (int i = 0; i < p->rank; i++)
        n *= p->dims[i].n;
    to.i = (p->to - (char *)dst->data) / (int64_t)p->elem;
    if (src)
        from.i = (p->from - (const char *)src->data) / (int64_t)p->elem;
    else
        memcpy(&value, p->from, p->elem);
    args[0] = MR_AI(n);
    args[1] = to;
    args[2] = src ? from : MR_AI(value);
    return mr_accel_launch(r, src ? kernels[p->elem] : "blit_fill_4", n, args, device_args(p, args, 3));
}

/* ---- public functions ---- */

mr_status *mr_blit_copy(mr_run *r, const mr_blit *b, mr_tensor *dst, int64_t at, const mr_tensor *src,
                  int64_t from)
{
    if (b->empty)
        return NULL;
    MR_ASSERT(dst->dtype == src->dtype && at >= 0 && at < dst->n && from >= 0 && from < src->n);
    bool plain = mr_dtype_is_plain(dst->dtype);
    mr_first_error failed = {NULL};
    plan p;
    p.elem = mr_dtype_size(dst->dtype);
    p.to = (char *)dst->data + (size_t)at * p.elem;
    p.from = (const char *)src->data + (size_t)from * p.elem;
    p.dst = plain ? NULL : dst;
    p.src = plain ? NULL : src;
    p.failed = &failed;
    if (MR_UNLIKELY(!mr_tensor_on_host(dst)))
        return run_on_device(r, &p, b, dst, src);
    run_plan(r, &p, b);
    return plain ? NULL : mr_first_error_take(&failed);
}

mr_status *mr_blit_fill(mr_run *r, const mr_blit *b, mr_tensor *dst, int64_t at, const void *value)
{
    if (b->empty)
        return NULL;
    MR_ASSERT(mr_dtype_is_plain(dst->dtype) && at >= 0 && at < dst->n);
    plan p;
    p.elem = mr_dtype_size(dst->dtype);
    p.to = (char *)dst->data + (size_t)at * p.elem;
    p.from = value;
    p.dst = NULL;
    p.src = NULL;
    p.failed = NULL;
    if (MR_UNLIKELY(!mr_tensor_on_host(dst)))
        return run_on_device(r, &p, b, dst, NULL);
    run_plan(r, &p, b);
    return NULL;
}

mr_status *mr_move(mr_run *r, mr_tensor *dst, int64_t at, const mr_tensor *src, int64_t from, int64_t n)
{
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, n, 1, 1);
    return mr_blit_copy(r, &b, dst, at, src, from);
}

mr_status *mr_move_fill(mr_run *r, mr_tensor *dst, int64_t at, const void *value, int64_t n)
{
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, n, 0, 1);
    return mr_blit_fill(r, &b, dst, at, value);
}
