/* ops/linalg/tiles_edge.h -- tiles at the edge of C; included once for each kind of CPU.
 *
 * The including file defines FN(name), TARGET, LANES (floats of a vector), VMIN and VMAX. */

/* What `end` makes of one row of sums, of which `cols` exist. c: its place in C; col: its first column. */
TARGET MR_INLINE void FN(finish_row)(const mr_tile_end *end, float *sums, const float *c, int64_t col,
                                     int64_t cols)
{
    const float *center = end->center ? end->center + col : NULL;
    const float *scale = end->scale ? end->scale + col : NULL;
    const float *shift = end->shift ? end->shift + col : NULL;
    const float *add = end->add ? end->add + (c - end->c) : NULL;
    const float low = end->low, high = end->high;
    if (center) {
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            sums[j] -= center[j];
    }
    if (scale) {
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            sums[j] *= scale[j];
    }
    if (shift) {
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            sums[j] += shift[j];
    }
    if (add) {
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            sums[j] += add[j];
    }
    if (end->clamp) {
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++) {
            float v = sums[j];
            v = v < low ? low : v;
            sums[j] = v > high ? high : v;
        }
    }
}

TARGET static void FN(edge)(const mr_tile_height *h, bool by_cols, const mr_tile *t, int64_t cols)
{
    _Alignas(64) float sums[MR_TILE_MOST * 2 * LANES];
    mr_tile aside = *t;
    aside.c = sums;
    aside.ldc = 2 * LANES;
    aside.how = MR_C_WRITE;
    aside.end = NULL;
    if (cols <= LANES)
        (by_cols ? h->narrow_by_cols : h->narrow_by_rows)(&aside);
    else
        (by_cols ? h->by_cols : h->by_rows)(&aside);
    for (int64_t i = 0; i < t->rows; i++) {
        float *row = sums + i * 2 * LANES, *c = t->c + i * t->ldc;
        if (t->how == MR_C_ADD) {
            MR_IVDEP
            for (int64_t j = 0; j < cols; j++)
                row[j] += c[j];
        } else if (t->how == MR_C_SUBTRACT) {
            MR_IVDEP
            for (int64_t j = 0; j < cols; j++)
                row[j] = c[j] - row[j];
        }
        if (t->end)
            FN(finish_row)(t->end, row, c, t->col, cols);
        MR_IVDEP
        for (int64_t j = 0; j < cols; j++)
            c[j] = row[j];
    }
}

TARGET static void FN(finish_rows)(const mr_tile_end *end, float *c, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        FN(finish_row)(end, c + i * cols, c + i * cols, 0, cols);
}
