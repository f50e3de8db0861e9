/* ops/linalg/tiles.h -- the inner loops of products of floats: tiles of sums in registers.
 *
 * A tile is some rows times the columns of a panel; each of its sums is computed over k in order. B is packed into
 * panels: as many columns as a tile has, row after row. There is one set of these loops for each kind of CPU. They
 * use fused multiply-add if the CPU supports it. */
#ifndef MR_OPS_LINALG_TILES_H
#define MR_OPS_LINALG_TILES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum mr_to_c { MR_C_WRITE, MR_C_ADD, MR_C_SUBTRACT } mr_to_c;

/* What becomes of a finished sum: y = (sum - center[column]) scale[column] + shift[column] + add, at least `low` and at
 * most `high`. A NaN stays one. */
typedef struct mr_tile_end {
    const float *center, *scale, *shift; /* NULL: 0, 1 and 0 */
    const float *add, *c;       /* add: has the layout of C, which begins at c; NULL: 0 */
    bool clamp;                 /* low and high are used */
    float low, high;
} mr_tile_end;

/* What becomes of all sums of a product: first `tile`, then `then` for some elements of a row at a time. */
typedef struct mr_sums_end {
    mr_tile_end tile;
    void (*then)(float *x, int64_t n, float alpha); /* NULL: nothing */
    float alpha;
} mr_sums_end;

/* The sum goes over `runs` stretches of k, of kc entries each, `jump` apart in A. B holds those of all stretches,
 * one after the other. */
typedef struct mr_tile {
    int64_t runs, kc;
    const float *a;
    int64_t step, jump;
    const float *b; /* aligned to 64 bytes */
    /* Half as many floats as this tile reads of B, which are brought into the second-level cache for later tiles; NULL:
     * nothing. */
    const float *ahead;
    float *c;
    int64_t ldc;
    int64_t rows; /* number of existing rows of A; rows beyond repeat the last one */
    mr_to_c how;
    const mr_tile_end *end; /* the sum is complete after this tile; or NULL */
    int64_t col;            /* the tile's first column, for `end` */
} mr_tile;

typedef struct mr_tile_height {
    int rows;
    /* A by columns: entry (i, k) is a[i + k step]; `rows` is ignored. By rows: a[i step + k]. The narrow ones compute
     * only the first half of the columns. */
    void (*by_cols)(const mr_tile *t);
    void (*by_rows)(const mr_tile *t);
    void (*narrow_by_cols)(const mr_tile *t);
    void (*narrow_by_rows)(const mr_tile *t);
    /* Packs a strip for by_cols, with a step of `rows`: mc existing rows of A, the others are arbitrary. A is
     * stored by rows or by columns; MR_TILE_SPARE floats after the strip may be overwritten. */
    void (*strip_rows)(const float *a, int64_t lda, int64_t kc, int64_t mc, float *to);
    void (*strip_cols)(const float *a, int64_t lda, int64_t kc, int64_t mc, float *to);
} mr_tile_height;

/* A row of the out image of a depthwise convolution: each channel is summed over `rows` x `cols` pixels of the image,
 * `jump` and `tap` floats apart, times the filter [rows, cols, channels]. */
typedef struct mr_depth_row {
    const float *in; /* the window of pixel 0; that of the next pixel is `step` floats later */
    const float *filter;
    int64_t step, jump, tap;
    int64_t rows, cols, channels;
    int64_t first, last; /* windows of pixels [first, last) are inside the image */
    const float *ahead; /* as many pixels as the next row needs in addition, which may be prefetched; or NULL */
    float *out;
    const mr_tile_end *end; /* or NULL */
} mr_depth_row;

enum {
    MR_TILE_SPARE = 8,
    MR_TILE_MOST = 14, /* rows of the highest tile of any kind */
    MR_TILE_ROWS = 24, /* rows that are divided into tiles of about equal height */
    MR_TILE_COLS = 32, /* a multiple of all widths */
};

typedef struct mr_tiles {
    int cols; /* of a panel */
    int most; /* rows of the highest tile */
    /* A block of a product has at most `deep` entries of k, so that adding to C is a small part of the work, and `high`
     * rows of A, a multiple of `most`; both fit in the second-level cache. */
    int deep, high;
    const mr_tile_height *heights[MR_TILE_MOST]; /* of 1, 2.. most rows */
    /* Packs nc columns of B, stored by rows or by columns, into panels of kc rows, one after the other; the last is
     * padded with zeros. */
    void (*pack_rows)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to);
    void (*pack_cols)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to);
    /* c += a B for one row: n columns of B, stored by rows or by columns. */
    void (*thin_rows)(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c);
    void (*thin_cols)(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c);
    /* mr_tile_run for a tile that extends over the edge of C, and mr_tile_finish */
    void (*edge)(const mr_tile_height *h, bool by_cols, const mr_tile *t, int64_t cols);
    void (*finish_rows)(const mr_tile_end *end, float *c, int64_t rows, int64_t cols);
    /* Computes pixels [first, last); one pixel, with columns [from, end) of the window only. */
    void (*depth_row)(const mr_depth_row *r);
    void (*depth_edge)(const mr_depth_row *r, int64_t x, int64_t from, int64_t end);
} mr_tiles;

/* The loops for this CPU. */
const mr_tiles *mr_tiles_here(void);
/* Selects the loops for another kind of CPU: "avx512", "avx2" or "plain"; NULL: the best. False if this CPU cannot
 * run them. For tests. */
bool mr_tiles_use(const char *kind);

/* The height of the next tile when this many rows are left, at most `most`: never more than that, and the last two
 * tiles are about equally high. */
static inline const mr_tile_height *mr_tile_next_of(const mr_tiles *p, int most, int64_t left)
{
    int64_t rows = left <= most ? left : left < 2 * most ? (left + 1) / 2 : most;
    return p->heights[rows - 1];
}
static inline const mr_tile_height *mr_tile_next(const mr_tiles *p, int64_t left)
{
    return mr_tile_next_of(p, p->most, left);
}

/* Computes a tile of which only t->rows x cols are inside C. */
void mr_tile_run(const mr_tiles *p, const mr_tile_height *h, bool by_cols, const mr_tile *t,
                 int64_t cols);

/* Applies `end` to rows of C that are complete, for sums that no tile has computed. */
void mr_tile_finish(const mr_tile_end *end, float *c, int64_t rows, int64_t cols);

#endif
