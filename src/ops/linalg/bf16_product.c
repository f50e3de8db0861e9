/* ops/linalg/bf16_product.c -- products of bfloat16 matrices by the CPU's sums of pairs of products.
 *
 * Both operands are packed so that two entries with neighbouring k are side by side: B into panels of 32 columns, A
 * into strips of up to 14 rows. A tile of 14 x 32 sums stays in registers over the whole of k, so each sum is rounded
 * to bfloat16 once, and C needs no floats in memory. Where k is large, a panel is read from the second-level cache,
 * which is fast enough. There is a tile of every height, and stores at the right edge are masked. */
#include "ops/linalg/bf16_product.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/tile_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum {
    ROWS = 14,
    LANES = 16, /* pairs in a vector */
    COLS = 2 * LANES,
    NC = 512,                 /* columns of B packed at once; a multiple of COLS */
    BLOCK_BYTES = 256 << 10,  /* packed rows of A stay in the second-level cache */
    LEAST_COLS = 3,           /* fewer leave so much of a tile unused that floats are faster */
};

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/* ---- packing ---- */

/* Up to 32 rows of op(X), stored by rows, with up to 16 columns: row pair p goes to to[p * step ..]. 16 entries are
 * written for each pair, in order, so that the surplus ones are overwritten if step is less. */
TARGET static void pack_from_rows(const mr_bf16 *x, int64_t ld, int64_t rows, int64_t cols, uint32_t *to, int64_t step)
{
    const __mmask16 some = (__mmask16)((1u << cols) - 1);
    for (int64_t k = 0; k < rows; k += 2, x += 2 * ld, to += step) {
        __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, x)), high = _mm512_setzero_si512();
        if (k + 1 < rows)
            high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, x + ld));
        _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

/* The same for op(X) stored by columns: a transpose of 16 x 16 pairs. Missing rows become zero, and missing columns
 * repeat the last one. All 16 pairs are written. */
TARGET static void pack_from_columns(const mr_bf16 *x, int64_t ld, int64_t rows, int64_t cols, uint32_t *to,
                                     int64_t step)
{
    const __mmask32 some = (__mmask32)((UINT64_C(1) << rows) - 1);
    __m512i r[LANES], s[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = _mm512_maskz_loadu_epi16(some, x + MR_MIN(i, cols - 1) * ld);
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) { /* r[i + q]: pair q of each four, of columns i .. i + 3 */
        r[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        const __m512i a = _mm512_shuffle_i32x4(r[q], r[4 + q], 0x88), c = _mm512_shuffle_i32x4(r[q], r[4 + q], 0xdd);
        const __m512i b = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0xdd);
        s[q] = _mm512_shuffle_i32x4(a, b, 0x88);
        s[8 + q] = _mm512_shuffle_i32x4(a, b, 0xdd);
        s[4 + q] = _mm512_shuffle_i32x4(c, d, 0x88);
        s[12 + q] = _mm512_shuffle_i32x4(c, d, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        _mm512_storeu_si512(to + i * step, s[i]);
}

/* Rows of packed pairs: pack_from_columns writes 16 at a time. */
static int64_t depth_of(int64_t k) { return (k + 2 * LANES - 1) / (2 * LANES) * LANES; }

/* Packs `cols` columns of op(X), all k rows of them. Both halves of a panel are packed for a few rows at a time,
 * because they are in the same lines of the cache. */
static void pack(const mr_bf16 *x, int64_t ld, bool by_cols, int64_t k, int64_t cols, uint32_t *to, int64_t step)
{
    for (int64_t at = 0; at < k; at += 2 * LANES)
        for (int64_t j = 0; j < cols; j += LANES) {
            const mr_bf16 *from = x + (by_cols ? j * ld + at : at * ld + j);
            int64_t rows = MR_MIN(2 * LANES, k - at), some = MR_MIN(LANES, cols - j);
            (by_cols ? pack_from_columns : pack_from_rows)(from, ld, rows, some, to + at / 2 * step + j, step);
        }
}

/* ---- tiles ---- */

#define ZERO(i) __m512 x##i = _mm512_setzero_ps(), y##i = _mm512_setzero_ps();
#define STEP(i)                                                    \
    {                                                              \
        const __m512bh v = (__m512bh)_mm512_set1_epi32((int)a[i]); \
        x##i = _mm512_dpbf16_ps(x##i, v, b0);                      \
        y##i = _mm512_dpbf16_ps(y##i, v, b1);                      \
    }
#define STORE(i) _mm512_mask_storeu_epi16(c + i * ldc, some, (__m512i)_mm512_cvtne2ps_pbh(y##i, x##i));

/* C, of which `some` columns exist, = a strip times a panel. */
#define TILE(n_rows)                                                                                                  \
    TARGET static void tile_##n_rows(int64_t pairs, const uint32_t *a, const uint32_t *b, mr_bf16 *c, int64_t ldc,    \
                                     __mmask32 some)                                                                  \
    {                                                                                                                 \
        ROWS_##n_rows(ZERO)                                                                                           \
        for (int64_t p = 0; p < pairs; p++, a += n_rows, b += COLS) {                                                 \
            const __m512bh b0 = (__m512bh)_mm512_load_si512(b), b1 = (__m512bh)_mm512_load_si512(b + LANES);          \
            ROWS_##n_rows(STEP)                                                                                       \
        }                                                                                                             \
        ROWS_##n_rows(STORE)                                                                                          \
    }
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)

typedef void tile_fn(int64_t pairs, const uint32_t *a, const uint32_t *b, mr_bf16 *c, int64_t ldc, __mmask32 some);
static tile_fn *const tiles[ROWS] = {tile_1, tile_2, tile_3,  tile_4,  tile_5,  tile_6,  tile_7,
                                     tile_8, tile_9, tile_10, tile_11, tile_12, tile_13, tile_14};

/* The height of the next tile if this many rows are left: the last two are about equally high. */
static int64_t next_height(int64_t left) { return left <= ROWS ? left : left < 2 * ROWS ? (left + 1) / 2 : ROWS; }

/* ---- blocks ---- */

/* Rows of A packed at once. A few tiles are enough, and each row of C may be in another page. */
static int64_t rows_of_block(int64_t k)
{
    int64_t tiles_in_cache = BLOCK_BYTES / (int64_t)sizeof(uint32_t) / depth_of(k) / ROWS;
    return MR_MAX(1, MR_MIN(tiles_in_cache, 10)) * ROWS;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

size_t mr_bf16_product_room(const mr_bf16_product *p)
{
    int64_t cols = MR_MIN(NC, round_up(p->n, COLS)), rows = MR_MIN(rows_of_block(p->k), p->m);
    return ((size_t)(cols + rows) * (size_t)depth_of(p->k) + LANES) * sizeof(uint32_t);
}

/* Packs mc rows of A, and multiplies them by the packed columns [j0, j0 + nc) of B. */
static void multiply_rows(const mr_bf16_product *p, int64_t i0, int64_t mc, int64_t j0, int64_t nc, const uint32_t *b,
                          uint32_t *a)
{
    int64_t depth = depth_of(p->k);
    for (int64_t i = 0, h; i < mc; i += h) {
        h = next_height(mc - i);
        const mr_bf16 *from = p->a + (p->ta ? i0 + i : (i0 + i) * p->lda);
        pack(from, p->lda, !p->ta, p->k, h, a + i * depth, h);
    }
    for (int64_t j = 0; j < nc; j += COLS) {
        int64_t cols = MR_MIN(COLS, nc - j);
        for (int64_t i = 0, h; i < mc; i += h) {
            h = next_height(mc - i);
            tiles[h - 1]((p->k + 1) / 2, a + i * depth, b + j * depth, p->c + (i0 + i) * p->ldc + j0 + j, p->ldc,
                         (__mmask32)((UINT64_C(1) << cols) - 1));
        }
    }
}

void mr_bf16_product_run(const mr_bf16_product *p, void *room)
{
    int64_t depth = depth_of(p->k), rows = rows_of_block(p->k);
    uint32_t *b = room, *a = b + MR_MIN(NC, round_up(p->n, COLS)) * depth;
    for (int64_t j0 = 0; j0 < p->n; j0 += NC) {
        int64_t nc = MR_MIN(NC, p->n - j0);
        for (int64_t j = 0; j < nc; j += COLS) {
            const mr_bf16 *from = p->b + (p->tb ? (j0 + j) * p->ldb : j0 + j);
            pack(from, p->ldb, p->tb, p->k, MR_MIN(COLS, nc - j), b + j * depth, COLS);
        }
        for (int64_t i = 0; i < p->m; i += rows)
            multiply_rows(p, i, MR_MIN(rows, p->m - i), j0, nc, b, a);
    }
}

static bool can_run(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}
#else
enum { LEAST_COLS };
static bool can_run(void) { return false; }
size_t mr_bf16_product_room(const mr_bf16_product *p)
{
    (void)p;
    return 0;
}
void mr_bf16_product_run(const mr_bf16_product *p, void *room) { (void)p, (void)room; }
#endif

static atomic_bool refused;

bool mr_bf16_product_pay(int64_t n)
{
    return n >= LEAST_COLS && !atomic_load_explicit(&refused, memory_order_relaxed) && can_run();
}

void mr_bf16_product_use(bool use) { refused = !use; }
