/* ops/linalg/sgemm_tile.h -- the inner loop of sgemm.c, read once for each kind of CPU and height.
 *
 * Defined by the reader, besides what sgemm_pack.h asks for: N_ROWS, ROWS(M), which is
 * M(0) .. M(N_ROWS - 1), and HIGH(name), a name that tells the height.  A tile is N_ROWS x 2 LANES
 * sums in registers; each is the sum over k in order, whatever the tile's height and place. */

#define ZERO(i) FN(vec) x##i = {0}, y##i = {0};
#define STEP(i)        \
    x##i += a[i] * b0; \
    y##i += a[i] * b1;
#define PLUS(i)                                       \
    x##i += *(const FN(loose) *)(c + i * ldc);        \
    y##i += *(const FN(loose) *)(c + i * ldc + LANES);
#define MINUS(i)                                             \
    x##i = *(const FN(loose) *)(c + i * ldc) - x##i;         \
    y##i = *(const FN(loose) *)(c + i * ldc + LANES) - y##i;
#define STORE(i)                               \
    *(FN(loose) *)(c + i * ldc) = x##i;        \
    *(FN(loose) *)(c + i * ldc + LANES) = y##i;
/* C comes from memory while the sums are made. */
#define TOUCH(i)                                        \
    __builtin_prefetch(c + i * ldc, 1);                 \
    __builtin_prefetch(c + i * ldc + 2 * LANES - 1, 1);

TARGET static void HIGH(tile)(int64_t kc, const float *a, const float *b, float *c, int64_t ldc,
                              mr_sgemm_to_c how)
{
    ROWS(TOUCH)
    ROWS(ZERO)
    for (int64_t k = 0; k < kc; k++, a += N_ROWS, b += 2 * LANES) {
        const FN(vec) b0 = *(const FN(vec) *)b, b1 = *(const FN(vec) *)(b + LANES);
        ROWS(STEP)
    }
    if (how == MR_C_ADD) {
        ROWS(PLUS)
    } else if (how == MR_C_SUBTRACT) {
        ROWS(MINUS)
    }
    ROWS(STORE)
}

/* A strip of N_ROWS rows of A, of which mc are there, column behind column; A stored by columns. */
TARGET static void HIGH(strip_cols)(const float *a, int64_t lda, int64_t kc, int64_t mc, float *to)
{
    for (int64_t k = 0; k < kc; k++, a += lda, to += N_ROWS) {
        if (mc == N_ROWS) {
            memcpy(to, a, N_ROWS * sizeof(float));
            continue;
        }
        for (int64_t i = 0; i < N_ROWS; i++)
            to[i] = i < mc ? a[i] : 0;
    }
}

/* The same of A stored by rows.  What turn8 writes behind a column is written over afterwards; 8
 * floats of room follow the last one. */
TARGET static void HIGH(strip_rows)(const float *a, int64_t lda, int64_t kc, int64_t mc, float *to)
{
    int64_t k = 0;
    for (; k + 8 <= kc; k += 8)
        for (int64_t i = (N_ROWS - 1) / 8 * 8; i >= 0; i -= 8) {
            int64_t row = MR_MIN(i, mc - 1);
            FN(turn8)(a + row * lda + k, lda, mc - row, to + k * N_ROWS + i, N_ROWS);
        }
    for (; k < kc; k++)
        for (int64_t i = 0; i < N_ROWS; i++)
            to[k * N_ROWS + i] = a[MR_MIN(i, mc - 1) * lda + k];
}

static const height HIGH(height) = {N_ROWS, HIGH(tile), HIGH(strip_rows), HIGH(strip_cols)};

#undef ZERO
#undef STEP
#undef PLUS
#undef MINUS
#undef STORE
#undef TOUCH
#undef HIGH
#undef N_ROWS
#undef ROWS
