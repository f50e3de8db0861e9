/* ops/linalg/product_kind.h -- the inner loops for one kind of CPU; included once for each element type and kind.
 *
 * The including file defines the type T of elements, the type R of their PARTS parts (one, or two of a complex
 * number), LANES of a vector, TARGET (an attribute), NAME (a name with both), and ROWS_HIGH and ROWS_LOW with the
 * numbers N_HIGH and N_LOW. A panel is COLS columns of op(B); a row of it fills two vectors: COLS numbers, or the real
 * parts of COLS complex numbers and then the imaginary ones. */

#define FN_(name, f) name##_##f
#define FN__(name, f) FN_(name, f)
#define FN(f) FN__(NAME, f)
#define BYTES (LANES * sizeof(R))
#define COLS (2 * LANES / PARTS)

typedef R FN(vec) __attribute__((vector_size(BYTES)));
typedef R FN(loose) __attribute__((vector_size(BYTES), aligned(sizeof(R)), may_alias));

/* Packs columns [0, nc) of op(B), kc rows of them, into panels; columns beyond are zero. */
TARGET static void FN(panels)(const void *from, int64_t down, int64_t right, int64_t kc, int64_t nc, bool conj,
                              void *to)
{
    const R sign = conj ? (R)-1 : 1;
    R *out = to;
    for (int64_t j = 0; j < nc; j += COLS) {
        const R *b = (const R *)from + PARTS * j * right;
        int64_t n = MR_MIN(COLS, nc - j);
        for (int64_t k = 0; k < kc; k++, b += PARTS * down, out += 2 * LANES) {
            if (PARTS == 1 && n == COLS && right == 1) {
                *(FN(vec) *)out = *(const FN(loose) *)b;
                *(FN(vec) *)(out + LANES) = *(const FN(loose) *)(b + LANES);
                continue;
            }
            if (n < COLS)
                memset(out, 0, 2 * BYTES);
            if (PARTS == 2)
                for (int64_t i = 0; i < n; i++) {
                    out[i] = b[2 * i * right];
                    out[LANES + i] = sign * b[2 * i * right + 1];
                }
            else
                for (int64_t i = 0; i < n; i++)
                    out[i] = b[i * right];
        }
    }
}

/* A tile that extends over the edge of C was computed in a buffer; ldc counts parts. */
TARGET static void FN(edge)(const void *from, int64_t mc, int64_t nc, void *to, int64_t ldc, mr_to_c how)
{
    const R *sums = from;
    R *c = to;
    for (int64_t i = 0; i < mc; i++, c += ldc, sums += 2 * LANES)
        for (int64_t j = 0; j < PARTS * nc; j++)
            c[j] = (R)(how == MR_C_WRITE ? sums[j] : how == MR_C_ADD ? c[j] + sums[j] : c[j] - sums[j]);
}

#define HIGH(f) FN(high_##f)
#define N_ROWS N_HIGH
#define ROWS ROWS_HIGH
#include "ops/linalg/product_sum.h"
#define HIGH(f) FN(low_##f)
#define N_ROWS N_LOW
#define ROWS ROWS_LOW
#include "ops/linalg/product_sum.h"

#if PARTS == 1
#include "ops/linalg/product_narrow.h"
#endif

static const kind_loops FN(loops) = {
    COLS, {N_HIGH, FN(high_sum), FN(high_strip)}, {N_LOW, FN(low_sum), FN(low_strip)}, FN(panels), FN(edge),
#if PARTS == 1
    FN(narrow1), FN(narrow2), FN(half_panel), FN(panel), FN(thin_rows), FN(thin_cols), FN(copy_row),
#endif
};

#undef FN_
#undef FN__
#undef FN
#undef BYTES
#undef COLS
#undef NAME
