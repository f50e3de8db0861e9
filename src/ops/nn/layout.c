/* ops/nn/layout.c -- transposes images between NHWC and NCHW.
 *
 * A matrix is transposed in tiles: both the lines read and the lines written stay in the
 * first-level cache, and a tile's two loops are short enough for the compiler to unroll. */
#include "ops/nn/layout.h"

#include "base/memory.h"
#include "base/simd.h"

mr_status *mr_layout_get(const mr_node *n, mr_layout *out)
{
    *out = MR_CHANNELS_LAST;
    if (!mr_node_attr(n, "data_format"))
        return NULL;
    mr_sv s;
    MR_TRY(mr_node_get_str(n, "data_format", &s));
    if (mr_sv_is(s, "NCHW") || mr_sv_is(s, "NCDHW"))
        *out = MR_CHANNELS_FIRST;
    else if (!mr_sv_is(s, "NHWC") && !mr_sv_is(s, "NDHWC"))
        return mr_error(MR_UNIMPLEMENTED, "data_format %.*s is not supported on CPU", MR_SV_ARG(s));
    return NULL;
}

enum { TILE = 16 };

typedef struct turn_job {
    const char *from;
    char *to;
    int64_t rows, cols, tiles; /* tiles: bands of TILE rows in a matrix */
    size_t bytes;
} turn_job;

typedef struct bytes16 { uint64_t half[2]; } bytes16;

/* Transposes rows begin..end of one matrix. */
#define BAND(S)                                                                                 \
    MR_CLONES static void band_##S(const S *x, S *y, int64_t rows, int64_t cols, int64_t begin, \
                                   int64_t end)                                                 \
    {                                                                                           \
        int64_t at = 0;                                                                         \
        for (; end - begin == TILE && at + TILE <= cols; at += TILE)                            \
            for (int64_t k = at; k < at + TILE; k++)                                            \
                for (int64_t i = 0; i < TILE; i++)                                              \
                    y[k * rows + begin + i] = x[(begin + i) * cols + k];                        \
        for (; at < cols; at++)                                                                 \
            for (int64_t i = begin; i < end; i++)                                               \
                y[at * rows + i] = x[i * cols + at];                                            \
    }
BAND(uint8_t)
BAND(uint16_t)
BAND(uint32_t)
BAND(uint64_t)
BAND(bytes16)

static void turn_part(void *ctx, int64_t begin, int64_t end)
{
    const turn_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        size_t offset = (size_t)(i / j->tiles * j->rows * j->cols) * j->bytes;
        const void *x = j->from + offset;
        void *y = j->to + offset;
        int64_t first = i % j->tiles * TILE, last = MR_MIN(first + TILE, j->rows);
        switch (j->bytes) {
        case 1: band_uint8_t(x, y, j->rows, j->cols, first, last); break;
        case 2: band_uint16_t(x, y, j->rows, j->cols, first, last); break;
        case 4: band_uint32_t(x, y, j->rows, j->cols, first, last); break;
        case 8: band_uint64_t(x, y, j->rows, j->cols, first, last); break;
        default: band_bytes16(x, y, j->rows, j->cols, first, last); break;
        }
    }
}

void mr_run_turn(mr_run *r, const void *from, void *to, size_t bytes, int64_t batch, int64_t rows,
                 int64_t cols)
{
    MR_ASSERT(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16);
    int64_t tiles = (rows + TILE - 1) / TILE;
    turn_job j = {from, to, rows, cols, tiles, bytes};
    mr_run_for(r, batch * tiles, 0.5 * TILE * (double)cols, turn_part, &j);
}
