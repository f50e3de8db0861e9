/* ops/image/png_filter.c -- undoes the filters of PNG rows.
 *
 * A byte depends on the same byte of the pixel before it, so a row cannot be computed in parallel, but the bytes of a
 * pixel can: they are the lanes of a vector (SSE2, which every x86-64 CPU has). The prediction of Paeth needs 9 bits a
 * byte and is computed in lanes of 16. */
#include "base/memory.h"
#include "base/simd.h"
#include "ops/image/png.h"

#if defined(__SSE2__)
#include <emmintrin.h>

/* Reads up to 7 bytes beyond the pixel: rows have MR_PNG_SLACK bytes behind them. */
MR_INLINE __m128i load_pixel(const uint8_t *p) { return _mm_loadl_epi64((const __m128i *)p); }

MR_INLINE void store_pixel(uint8_t *p, __m128i x, size_t step)
{
    uint64_t v = (uint64_t)_mm_cvtsi128_si64(x);
    memcpy(p, &v, step);
}

MR_INLINE void undo_sub(uint8_t *row, size_t n, size_t step)
{
    __m128i left = _mm_setzero_si128();
    for (size_t i = 0; i < n; i += step) {
        left = _mm_add_epi8(load_pixel(row + i), left);
        store_pixel(row + i, left, step);
    }
}

MR_INLINE void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    __m128i left = _mm_setzero_si128(), one = _mm_set1_epi8(1);
    for (size_t i = 0; i < n; i += step) {
        __m128i up = load_pixel(above + i), odd = _mm_and_si128(_mm_xor_si128(left, up), one);
        __m128i half = _mm_sub_epi8(_mm_avg_epu8(left, up), odd); /* the instruction rounds up */
        left = _mm_add_epi8(load_pixel(row + i), half);
        store_pixel(row + i, left, step);
    }
}

MR_INLINE __m128i magnitude(__m128i x) { return _mm_max_epi16(x, _mm_sub_epi16(_mm_setzero_si128(), x)); }
MR_INLINE __m128i choose(__m128i mask, __m128i yes, __m128i no)
{
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

/* mr_png_paeth in each lane. */
MR_INLINE void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    __m128i zero = _mm_setzero_si128(), left = zero, corner = zero;
    for (size_t i = 0; i < n; i += step) {
        __m128i up = _mm_unpacklo_epi8(load_pixel(above + i), zero), x = _mm_unpacklo_epi8(load_pixel(row + i), zero);
        __m128i right = _mm_sub_epi16(up, corner), down = _mm_sub_epi16(left, corner);
        __m128i to_left = magnitude(right), to_up = magnitude(down), to_corner = magnitude(_mm_add_epi16(right, down));
        __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_up));
        __m128i up_or_corner = choose(_mm_cmpeq_epi16(least, to_up), up, corner);
        left = _mm_add_epi8(x, choose(_mm_cmpeq_epi16(least, to_left), left, up_or_corner));
        store_pixel(row + i, _mm_packus_epi16(left, left), step);
        corner = up;
    }
}
#else
MR_INLINE void undo_sub(uint8_t *row, size_t n, size_t step)
{
    for (size_t i = step; i < n; i++)
        row[i] = (uint8_t)(row[i] + row[i - step]);
}

MR_INLINE void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(row[i] + (((i < step ? 0 : row[i - step]) + above[i]) >> 1));
}

MR_INLINE void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++) {
        bool first = i < step;
        row[i] = (uint8_t)(row[i] + mr_png_paeth(first ? 0 : row[i - step], above[i], first ? 0 : above[i - step]));
    }
}
#endif

static void undo_up(uint8_t *restrict row, const uint8_t *restrict above, size_t n)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

/* Written out for each size of a pixel, so that `step` is a constant in the loops. */
MR_INLINE void undo_filter(int filter, uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    if (filter == MR_PNG_SUB)
        undo_sub(row, n, step);
    else if (filter == MR_PNG_AVERAGE)
        undo_average(row, above, n, step);
    else
        undo_paeth(row, above, n, step);
}

bool mr_png_unfilter(int filter, uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    if (filter >= MR_PNG_FILTERS)
        return false;
    if (filter == MR_PNG_UP)
        undo_up(row, above, n);
    if (filter == MR_PNG_NONE || filter == MR_PNG_UP)
        return true;
    switch (step) {
    case 1: undo_filter(filter, row, above, n, 1); break;
    case 2: undo_filter(filter, row, above, n, 2); break;
    case 3: undo_filter(filter, row, above, n, 3); break;
    case 4: undo_filter(filter, row, above, n, 4); break;
    case 6: undo_filter(filter, row, above, n, 6); break;
    default: undo_filter(filter, row, above, n, 8); break;
    }
    return true;
}
