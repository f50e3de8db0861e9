/* ops/linalg/product_narrow.h -- products of few columns or few rows, of real types; included by product_kind.h.
 *
 * With few columns, op(A) is read in place: it is used once, so packing it would cost as much as the product. With few
 * rows, op(B) is used only a few times and is not packed either. */

/* Rows of A times a packed panel of `vecs` vectors. Excess columns are stored too, as long as later rows overwrite
 * them: so full vectors can be stored although C has n columns only. */
#define NARROW(name, n_rows, ROWS_, vecs)                                                                     \
    TARGET static void FN(name)(const narrow *w, int64_t kc, const void *panel, mr_to_c how)                  \
    {                                                                                                         \
        _Alignas(64) R sums[n_rows * 2 * LANES];                                                              \
        const int64_t right = w->right, down = w->down, n = w->n;                                             \
        for (int64_t i = 0; i < w->m; i += n_rows) {                                                          \
            const R *a = (const R *)w->a + i * down, *b = panel;                                              \
            int64_t rows = MR_MIN(n_rows, w->m - i), last = rows - 1;                                         \
            R *c = (R *)w->c + i * w->ldc;                                                                    \
            ROWS_(FROM)                                                                                       \
            ROWS_(ZERO)                                                                                       \
            for (int64_t k = 0; k < kc; k++, b += vecs * LANES) {                                             \
                const FN(vec) b0 = *(const FN(vec) *)b, b1 = *(const FN(vec) *)(b + (vecs - 1) * LANES);      \
                (void)b1;                                                                                     \
                ROWS_(STEP##vecs)                                                                             \
            }                                                                                                 \
            bool full = rows == n_rows && how == MR_C_WRITE &&                                                \
                        (n == vecs * LANES || (w->ldc == n && (w->m - i - n_rows) * n >= vecs * LANES - n));  \
            R *to = full ? c : sums;                                                                          \
            int64_t step = full ? w->ldc : 2 * LANES;                                                         \
            ROWS_(STORE##vecs)                                                                                \
            if (!full)                                                                                        \
                FN(edge)(sums, rows, n, c, w->ldc, how);                                                      \
        }                                                                                                     \
    }
#define FROM(i) const R *a##i = a + MR_MIN(i, last) * down;
#define ZERO(i) FN(vec) x##i = {0}, y##i = {0};
#define STEP1(i) x##i += a##i[k * right] * b0;
#define STEP2(i) x##i += a##i[k * right] * b0; y##i += a##i[k * right] * b1;
#define STORE1(i) *(FN(loose) *)(to + i * step) = x##i; (void)y##i;
#define STORE2(i) *(FN(loose) *)(to + i * step) = x##i; *(FN(loose) *)(to + i * step + LANES) = y##i;

NARROW(narrow1, 8, ROWS_8, 1)
NARROW(narrow2, N_NARROW, ROWS_NARROW, 2)

#undef NARROW
#undef FROM
#undef ZERO
#undef STEP1
#undef STEP2
#undef STORE1
#undef STORE2

/* c += a B for one row: n columns of B, stored by rows; 8 of them are used at a time, so that c is accessed rarely. */
TARGET static void FN(thin_rows)(int64_t n, int64_t k, const void *row, const void *from, int64_t ldb, void *to)
{
    const R *a = row, *b = from;
    R *c = to;
    for (; k >= 8; k -= 8, a += 8, b += 8 * ldb) {
        MR_IVDEP
        for (int64_t j = 0; j < n; j++) {
            R v = c[j];
            v += TIMES(a[0], b[j]);
            v += TIMES(a[1], b[j + ldb]);
            v += TIMES(a[2], b[j + 2 * ldb]);
            v += TIMES(a[3], b[j + 3 * ldb]);
            v += TIMES(a[4], b[j + 4 * ldb]);
            v += TIMES(a[5], b[j + 5 * ldb]);
            v += TIMES(a[6], b[j + 6 * ldb]);
            v += TIMES(a[7], b[j + 7 * ldb]);
            c[j] = v;
        }
    }
    for (; k > 0; k--, a++, b += ldb) {
        MR_IVDEP
        for (int64_t j = 0; j < n; j++)
            c[j] += TIMES(a[0], b[j]);
    }
}

/* The same for B stored by columns. */
TARGET static void FN(thin_cols)(int64_t n, int64_t k, const void *row, const void *from, int64_t ldb, void *to)
{
    const R *b = from;
    R *c = to;
    for (int64_t j = 0; j < n; j++, b += ldb) {
        const R *a = row;
        FN(vec) s[4] = {{0}};
        R sum = 0;
        int64_t i = 0;
        for (; i + 4 * LANES <= k; i += 4 * LANES)
#pragma GCC unroll 4
            for (int l = 0; l < 4; l++)
                s[l] += *(const FN(loose) *)(a + i + l * LANES) * *(const FN(loose) *)(b + i + l * LANES);
        for (; i < k; i++)
            sum += TIMES(a[i], b[i]);
        s[0] += s[1] + (s[2] + s[3]);
        for (int l = 0; l < LANES; l++)
            sum += s[0][l];
        c[j] += sum;
    }
}

TARGET static void FN(copy_row)(int64_t n, const void *from, int64_t step, bool minus, void *to)
{
    const R *x = from;
    R *out = to;
    if (minus)
        for (int64_t i = 0; i < n; i++)
            out[i] = (R)-x[i * step];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i * step];
}

/* Packs n columns of op(B) as one panel of one or two vectors; columns beyond are zero. */
TARGET MR_INLINE void FN(narrow_panel)(const R *b, int64_t down, int64_t right, int64_t kc, int64_t n, int64_t width,
                                       R *to)
{
    for (int64_t k = 0; k < kc; k++, b += down, to += width) {
        if (right == 1 && n == width) {
            memcpy(to, b, (size_t)width * sizeof(R));
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            to[j] = b[j * right];
        for (int64_t j = n; j < width; j++)
            to[j] = 0;
    }
}

TARGET static void FN(half_panel)(const void *b, int64_t down, int64_t right, int64_t kc, int64_t n, void *to)
{
    FN(narrow_panel)(b, down, right, kc, n, LANES, to);
}

TARGET static void FN(panel)(const void *b, int64_t down, int64_t right, int64_t kc, int64_t n, void *to)
{
    FN(narrow_panel)(b, down, right, kc, n, 2 * LANES, to);
}
