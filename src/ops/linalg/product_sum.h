/* ops/linalg/product_sum.h -- tiles of one height; included once for each element type, kind of CPU and height.
 *
 * The including file defines, in addition to the macros of product_kind.h: N_ROWS, ROWS(M), which is M(0) ..
 * M(N_ROWS - 1), and HIGH(name), a name that contains the height. A tile is N_ROWS x COLS sums, which stay in 2 N_ROWS
 * vectors; their order over k is the same in all heights. */

#define ZERO(i) FN(vec) x##i = {0}, y##i = {0};
/* Prefetches C while the sums are computed. */
#define TOUCH(i)                                        \
    __builtin_prefetch(c + i * ldc, 1);                 \
    __builtin_prefetch(c + i * ldc + 2 * LANES - 1, 1);
#define ADD_OLD(i)                                    \
    x##i += *(const FN(loose) *)(c + i * ldc);        \
    y##i += *(const FN(loose) *)(c + i * ldc + LANES);
#define SUBTRACT_FROM_OLD(i)                                 \
    x##i = *(const FN(loose) *)(c + i * ldc) - x##i;         \
    y##i = *(const FN(loose) *)(c + i * ldc + LANES) - y##i;
#define STORE(i)                               \
    *(FN(loose) *)(c + i * ldc) = x##i;        \
    *(FN(loose) *)(c + i * ldc + LANES) = y##i;

#if PARTS == 1
#define STEP(i)        \
    x##i += a[i] * b0; \
    y##i += a[i] * b1;
#define JOIN(i)
#else /* x holds real parts, y imaginary ones; JOIN brings them into the order of C */
#define STEP(i)                \
    x##i += a[2 * i] * b0;     \
    y##i += a[2 * i] * b1;     \
    x##i -= a[2 * i + 1] * b1; \
    y##i += a[2 * i + 1] * b0;
#define JOIN(i)                                                         \
    {                                                                   \
        const FN(vec) re = x##i;                                        \
        x##i = __builtin_shufflevector(re, y##i, LOW_PAIRS(LANES));     \
        y##i = __builtin_shufflevector(re, y##i, HIGH_PAIRS(LANES));    \
    }
#endif

/* Distances in C count parts: two of a complex number. */
TARGET static void HIGH(sum)(int64_t kc, const void *strip, const void *panel, void *to, int64_t ldc,
                             mr_to_c how)
{
    const R *a = strip, *b = panel;
    R *c = to;
    ROWS(TOUCH)
    ROWS(ZERO)
    for (int64_t k = 0; k < kc; k++, a += PARTS * N_ROWS, b += 2 * LANES) {
        const FN(vec) b0 = *(const FN(vec) *)b, b1 = *(const FN(vec) *)(b + LANES);
        ROWS(STEP)
    }
    ROWS(JOIN)
    if (how == MR_C_ADD) {
        ROWS(ADD_OLD)
    } else if (how == MR_C_SUBTRACT) {
        ROWS(SUBTRACT_FROM_OLD)
    }
    ROWS(STORE)
}

/* Packs rows [0, mc) of op(A), k columns of it; rows beyond are zero. */
TARGET static void HIGH(strip)(const void *from, int64_t down, int64_t right, int64_t kc, int64_t mc,
                               bool conj, void *to)
{
    const T *a = from;
    T *out = to;
    for (int64_t k = 0; k < kc; k++, a += right, out += N_ROWS) {
        if (mc == N_ROWS)
#pragma GCC unroll 12
            for (int64_t i = 0; i < N_ROWS; i++)
                out[i] = a[i * down];
        else
            for (int64_t i = 0; i < N_ROWS; i++)
                out[i] = i < mc ? a[i * down] : 0;
    }
    R *part = to;
    for (int64_t i = 1; PARTS == 2 && conj && i < 2 * kc * N_ROWS; i += 2)
        part[i] = -part[i];
}

#undef ZERO
#undef TOUCH
#undef ADD_OLD
#undef SUBTRACT_FROM_OLD
#undef STORE
#undef STEP
#undef JOIN
#undef HIGH
#undef N_ROWS
#undef ROWS
