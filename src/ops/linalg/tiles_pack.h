/* ops/linalg/tiles_pack.h -- packs panels of B; included once for each kind of CPU.
 *
 * The including file defines FN(name), TARGET (an attribute) and LANES (floats of a vector). A panel is 2 LANES
 * columns, row after row. */

typedef float FN(vec) __attribute__((vector_size(4 * LANES)));
typedef float FN(loose) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float FN(vec8) __attribute__((vector_size(32)));
typedef float FN(loose8) __attribute__((vector_size(32), aligned(4), may_alias));

/* Only the first nc columns exist; the others become zero. */
TARGET static void FN(panel_edge)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to)
{
    for (int64_t k = 0; k < kc; k++, b += ldb, to += 2 * LANES)
        for (int64_t j = 0; j < 2 * LANES; j++)
            to[j] = j < nc ? b[j] : 0;
}

/* Four panels side by side, so that memory is read in runs long enough for the prefetcher. */
TARGET static void FN(panels)(const float *b, int64_t ldb, int64_t kc, float *to)
{
    for (int64_t k = 0; k < kc; k++, b += ldb, to += 2 * LANES)
#pragma GCC unroll 4
        for (int p = 0; p < 4; p++) {
            const float *from = b + p * 2 * LANES;
            float *row = to + p * 2 * LANES * kc;
            *(FN(vec) *)row = *(const FN(loose) *)from;
            *(FN(vec) *)(row + LANES) = *(const FN(loose) *)(from + LANES);
        }
}

/* Packs nc columns of B, stored by rows. */
TARGET static void FN(pack_rows)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to)
{
    int64_t j = 0;
    for (; j + 8 * LANES <= nc; j += 8 * LANES)
        FN(panels)(b + j, ldb, kc, to + j * kc);
    for (; j < nc; j += 2 * LANES)
        FN(panel_edge)(b + j, ldb, kc, nc - j, to + j * kc);
}

/* Transposes 8 x 8 entries: `to` has rows `step` apart. That may be less than 8, because they are written in order.
 * Rows of b from `rows` on repeat the last. */
TARGET MR_INLINE void FN(turn8)(const float *b, int64_t ldb, int64_t rows, float *to, int64_t step)
{
    FN(vec8) r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = *(const FN(loose8) *)(b + MR_MIN(i, rows - 1) * ldb);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        int at = (i & 4) | (i >> 1 & 1);
        r[i] = i & 1 ? __builtin_shufflevector(s[at], s[at + 2], 2, 3, 10, 11, 6, 7, 14, 15)
                     : __builtin_shufflevector(s[at], s[at + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        *(FN(loose8) *)(to + i * step) =
            __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        *(FN(loose8) *)(to + (i + 4) * step) =
            __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
}

/* 8 rows and columns of a panel, of which kc and nc exist. */
TARGET MR_INLINE void FN(panel_turn)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to)
{
    if (kc >= 8 && nc >= 8) {
        FN(turn8)(b, ldb, 8, to, 2 * LANES);
        return;
    }
    for (int64_t k = 0; k < MR_MIN(8, kc); k++)
        for (int64_t j = 0; j < 8; j++)
            to[k * 2 * LANES + j] = j < nc ? b[j * ldb + k] : 0;
}

/* A panel of B stored by columns, of which nc exist: 16 rows at a time are a cache line. */
TARGET static void FN(panel_cols)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to)
{
    for (int64_t k = 0; k < kc; k += 16)
        for (int64_t j = 0; j < 2 * LANES; j += 8)
            for (int64_t l = k; l < MR_MIN(k + 16, kc); l += 8)
                FN(panel_turn)(b + j * ldb + l, ldb, kc - l, nc - j, to + l * 2 * LANES + j);
}

TARGET static void FN(pack_cols)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to)
{
    for (int64_t j = 0; j < nc; j += 2 * LANES)
        FN(panel_cols)(b + j * ldb, ldb, kc, MR_MIN(2 * LANES, nc - j), to + j * kc);
}
