/* ops/linalg/tiles_sum.h -- tiles of one height; included once for each kind of CPU and height.
 *
 * The including file defines, in addition to the macros of tiles_pack.h: N_ROWS, ROWS(M), which is M(0) .. M(N_ROWS
 * - 1), HIGH(name), a name that contains the height, and VMIN and VMAX(a, b) of
 * vectors, which give b if a and b are equal or one is NaN. A tile is N_ROWS x 2 LANES sums; their order over k is the
 * same in all heights. */

#define ZERO(i) FN(vec) x##i = {0}, y##i = {0};
#define PLUS(i)                                     \
    x##i += *(const FN(loose) *)(c + i * ldc);      \
    if (wide)                                       \
        y##i += *(const FN(loose) *)(c + i * ldc + LANES);
#define MINUS(i)                                           \
    x##i = *(const FN(loose) *)(c + i * ldc) - x##i;       \
    if (wide)                                              \
        y##i = *(const FN(loose) *)(c + i * ldc + LANES) - y##i;
#define STORE(i)                               \
    *(FN(loose) *)(c + i * ldc) = x##i;        \
    if (wide)                                  \
        *(FN(loose) *)(c + i * ldc + LANES) = y##i;
/* Prefetches C, and what is added to it, while the sums are computed. */
#define TOUCH(i)                                            \
    __builtin_prefetch(c + i * ldc, 1);                     \
    if (wide)                                               \
        __builtin_prefetch(c + i * ldc + 2 * LANES - 1, 1);
#define TOUCH_ADD(i)                                        \
    __builtin_prefetch(add + i * ldc);                      \
    if (wide)                                               \
        __builtin_prefetch(add + i * ldc + 2 * LANES - 1);
#define BEGIN                                               \
    ROWS(TOUCH)                                             \
    if (t->end && t->end->add) {                            \
        const float *add = t->end->add + (c - t->end->c);   \
        ROWS(TOUCH_ADD)                                     \
    }                                                       \
    ROWS(ZERO)
#define CENTER(i)         \
    x##i = x##i - by0;    \
    if (wide)             \
        y##i = y##i - by1;
#define SCALE(i)          \
    x##i = x##i * by0;    \
    if (wide)             \
        y##i = y##i * by1;
#define SHIFT(i)          \
    x##i = x##i + by0;    \
    if (wide)             \
        y##i = y##i + by1;
#define ADD(i)                                           \
    x##i += *(const FN(loose) *)(add + i * ldc);         \
    if (wide)                                            \
        y##i += *(const FN(loose) *)(add + i * ldc + LANES);
#define CLAMP(i)                           \
    x##i = VMIN(high, VMAX(low, x##i));    \
    if (wide)                              \
        y##i = VMIN(high, VMAX(low, y##i));
#define BY_COLUMN(factors, ROW)                                      \
    if (factors) {                                                   \
        const FN(vec) by0 = *(const FN(loose) *)((factors) + t->col); \
        FN(vec) by1 = by0;                                           \
        if (wide)                                                    \
            by1 = *(const FN(loose) *)((factors) + t->col + LANES);  \
        ROWS(ROW)                                                    \
    }
#define FINISH                                            \
    if (how == MR_C_ADD) {                                \
        ROWS(PLUS)                                        \
    } else if (how == MR_C_SUBTRACT) {                    \
        ROWS(MINUS)                                       \
    }                                                     \
    const mr_tile_end *end = t->end;                      \
    if (end) {                                            \
        BY_COLUMN(end->center, CENTER)                    \
        BY_COLUMN(end->scale, SCALE)                      \
        BY_COLUMN(end->shift, SHIFT)                      \
        if (end->add) {                                   \
            const float *add = end->add + (c - end->c);   \
            ROWS(ADD)                                     \
        }                                                 \
        if (end->clamp) {                                 \
            const FN(vec) low = (FN(vec)){0} + end->low;  \
            const FN(vec) high = (FN(vec)){0} + end->high; \
            ROWS(CLAMP)                                   \
        }                                                 \
    }                                                     \
    ROWS(STORE)

TARGET MR_INLINE void HIGH(sum_cols)(const mr_tile *t, const bool wide)
{
    float *c = t->c;
    const float *a = t->a, *b = t->b, *ahead = t->ahead ? t->ahead : b;
    const int64_t kc = t->kc, step = t->step, rest = t->jump - t->kc * t->step, ldc = t->ldc;
    const mr_to_c how = t->how;
    BEGIN
    for (int64_t run = t->runs; run > 0; run--, a += rest)
        for (int64_t k = 0; k < kc; k++, a += step, b += 2 * LANES, ahead += LANES) {
            __builtin_prefetch(ahead, 0, 2);
            const FN(vec) b0 = *(const FN(vec) *)b, b1 = *(const FN(vec) *)(b + LANES);
#define STEP(i)            \
    x##i += a[i] * b0;     \
    if (wide)              \
        y##i += a[i] * b1;
            ROWS(STEP)
#undef STEP
        }
    FINISH
}

TARGET MR_INLINE void HIGH(sum_rows)(const mr_tile *t, const bool wide)
{
    float *c = t->c;
    const float *b = t->b, *ahead = t->ahead ? t->ahead : b;
    const int64_t kc = t->kc, jump = t->jump, ldc = t->ldc;
    const mr_to_c how = t->how;
#define ROW(i) const float *a##i = t->a + MR_MIN(i, t->rows - 1) * t->step;
    ROWS(ROW)
#undef ROW
    BEGIN
    for (int64_t run = t->runs; run > 0; run--) {
        for (int64_t k = 0; k < kc; k++, b += 2 * LANES, ahead += LANES) {
            __builtin_prefetch(ahead, 0, 2);
            const FN(vec) b0 = *(const FN(vec) *)b, b1 = *(const FN(vec) *)(b + LANES);
#define STEP(i)               \
    x##i += a##i[k] * b0;     \
    if (wide)                 \
        y##i += a##i[k] * b1;
            ROWS(STEP)
#undef STEP
        }
#define JUMP(i) a##i += jump;
        ROWS(JUMP)
#undef JUMP
    }
    FINISH
}

TARGET static void HIGH(by_cols)(const mr_tile *t) { HIGH(sum_cols)(t, true); }
TARGET static void HIGH(by_rows)(const mr_tile *t) { HIGH(sum_rows)(t, true); }
TARGET static void HIGH(narrow_by_cols)(const mr_tile *t) { HIGH(sum_cols)(t, false); }
TARGET static void HIGH(narrow_by_rows)(const mr_tile *t) { HIGH(sum_rows)(t, false); }

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

/* The entries that turn8 writes after a column are overwritten afterwards, except the last. */
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

static const mr_tile_height HIGH(height) = {
    N_ROWS,
    HIGH(by_cols),
    HIGH(by_rows),
    HIGH(narrow_by_cols),
    HIGH(narrow_by_rows),
    HIGH(strip_rows),
    HIGH(strip_cols),
};

#undef ZERO
#undef PLUS
#undef MINUS
#undef STORE
#undef TOUCH
#undef TOUCH_ADD
#undef BEGIN
#undef CENTER
#undef SCALE
#undef SHIFT
#undef ADD
#undef CLAMP
#undef BY_COLUMN
#undef FINISH
#undef HIGH
#undef N_ROWS
#undef ROWS
