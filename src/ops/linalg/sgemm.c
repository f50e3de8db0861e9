/* ops/linalg/sgemm.c -- products of float matrices.
 *
 * After Goto and van Zee: B is packed block by block into panels as wide as a tile, A into strips as high as one.
 * A panel stays in the first or second-level cache while the strips of a block of A are read from the second, and
 * a tile of C is summed in registers over the entries of k in a block (tiles.h).
 *
 * Products of few rows (or one column) are computed row by row, without packing. */
#include "ops/linalg/sgemm.h"

#include <string.h>

#include "base/memory.h"

enum {
    NC = 1024,    /* columns of B in one block; a multiple of MR_TILE_COLS */
    THIN = 3,     /* rows of a thin product */
    FEW = 64,     /* columns packed at once for few rows; a multiple of MR_TILE_COLS */
    DIRECT = 256, /* up to this number of columns A is read in place */
};

/* ---- blocks ---- */

/* A block of A and one of B, and the part of C to which their product is added. */
typedef struct block {
    const mr_tiles *p;
    const mr_sgemm *g;
    int64_t i, mc, j, nc, k, kc;
    bool direct;    /* A is read in place */
    float *a;       /* packed */
    const float *b; /* packed */
} block;

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* k in one block: all blocks have about the same size, because a small last one would be mostly overhead. */
static int64_t k_of_block(const mr_tiles *p, int64_t k)
{
    int64_t blocks = (k + p->deep - 1) / p->deep;
    return MR_MIN(k, round_up((k + blocks - 1) / blocks, 8));
}

/* Rows of A are read in place, unless they collide in the cache, or there are so many panels that packing pays. */
static bool reads_directly(const mr_sgemm *g)
{
    return !g->ta && g->n <= (g->lda % 1024 == 0 ? MR_TILE_COLS : DIRECT);
}

static void pack_b(const block *b, float *to)
{
    const mr_sgemm *g = b->g;
    if (g->tb)
        b->p->pack_cols(g->b + b->j * g->ldb + b->k, g->ldb, b->kc, b->nc, to);
    else
        b->p->pack_rows(g->b + b->k * g->ldb + b->j, g->ldb, b->kc, b->nc, to);
}

static void pack_a(const block *b)
{
    const mr_sgemm *g = b->g;
    const mr_tile_height *h;
    for (int64_t i = 0; i < b->mc; i += h->rows) {
        h = mr_tile_next(b->p, b->mc - i);
        int64_t rows = MR_MIN(h->rows, b->mc - i);
        if (g->ta)
            h->strip_cols(g->a + b->k * g->lda + b->i + i, g->lda, b->kc, rows, b->a + i * b->kc);
        else
            h->strip_rows(g->a + (b->i + i) * g->lda + b->k, g->lda, b->kc, rows, b->a + i * b->kc);
    }
}

/* True if the sums are complete after this block. */
static bool is_last(const block *b) { return b->k + b->kc == b->g->k; }

/* Multiplies all strips of a block by the panel at column j. */
static void multiply_panel(const block *b, int64_t j)
{
    const mr_sgemm *g = b->g;
    const mr_tile_height *h;
    mr_tile t = {.runs = 1, .kc = b->kc, .b = b->b + j * b->kc, .ldc = g->ldc};
    t.how = g->how == MR_C_WRITE && b->k > 0 ? MR_C_ADD : g->how;
    t.end = is_last(b) && g->end ? &g->end->tile : NULL;
    t.col = g->col + b->j + j;
    for (int64_t i = 0; i < b->mc; i += h->rows) {
        h = mr_tile_next(b->p, b->mc - i);
        t.rows = MR_MIN(h->rows, b->mc - i);
        t.step = b->direct ? g->lda : h->rows;
        t.a = b->direct ? g->a + (b->i + i) * g->lda + b->k : b->a + i * b->kc;
        t.c = g->c + (b->i + i) * g->ldc + b->j + j;
        mr_tile_run(b->p, h, !b->direct, &t, MR_MIN(b->p->cols, b->nc - j));
    }
}

/* Multiplies the packed block of A by one of B, and applies the function for complete sums while they are in the cache. */
static void multiply_block(const block *b)
{
    const mr_sgemm *g = b->g;
    for (int64_t j = 0; j < b->nc; j += b->p->cols)
        multiply_panel(b, j);
    for (int64_t i = 0; g->end && g->end->then && is_last(b) && i < b->mc; i++)
        g->end->then(g->c + (b->i + i) * g->ldc + b->j, b->nc, g->end->alpha);
}

/* Multiplies all rows by a block of B. */
static void run_rows(block *b)
{
    for (b->i = 0; b->i < b->g->m; b->i += b->p->high) {
        b->mc = MR_MIN(b->p->high, b->g->m - b->i);
        if (!b->direct)
            pack_a(b);
        multiply_block(b);
    }
}

/* The number of floats of one packed block of B; 0 if B is already packed. */
static size_t floats_of_b(const mr_tiles *p, const mr_sgemm *g)
{
    return g->packed_b ? 0 : (size_t)(round_up(MR_MIN(NC, g->n), p->cols) * k_of_block(p, g->k));
}

/* Calls fn for the blocks of B in the order in which they are packed. */
static void each_block(block *b, void (*fn)(block *b, float *room), float *room)
{
    const mr_sgemm *g = b->g;
    int64_t kc = k_of_block(b->p, g->k);
    for (b->j = 0; b->j < g->n; b->j += NC)
        for (b->k = 0; b->k < g->k; b->k += kc) {
            b->nc = MR_MIN(NC, g->n - b->j);
            b->kc = MR_MIN(kc, g->k - b->k);
            fn(b, room);
        }
}

/* The position of a block among all packed ones. */
static int64_t block_at(const block *b) { return b->j * b->g->k + b->k * round_up(b->nc, b->p->cols); }

static void keep_block(block *b, float *to) { pack_b(b, to + block_at(b)); }

/* One block of A: a few panels of B at a time are packed just before use. */
static void run_few_rows(block *b, float *room)
{
    block few = *b;
    few.i = 0;
    few.mc = b->g->m;
    few.b = room;
    if (!b->direct)
        pack_a(&few);
    for (few.j = b->j; few.j < b->j + b->nc; few.j += FEW) {
        few.nc = MR_MIN(FEW, b->j + b->nc - few.j);
        pack_b(&few, room);
        multiply_block(&few);
    }
}

static void run_block(block *b, float *room)
{
    if (b->g->packed_b) {
        b->b = b->g->packed_b + block_at(b);
        run_rows(b);
    } else if (b->g->m <= b->p->high) {
        run_few_rows(b, room);
    } else {
        pack_b(b, room);
        b->b = room;
        run_rows(b);
    }
}

static void run_blocks(const mr_sgemm *g, float *room)
{
    block b = {.p = mr_tiles_here(), .g = g, .direct = reads_directly(g)};
    b.a = room + floats_of_b(b.p, g);
    each_block(&b, run_block, room);
}

/* ---- B packed once for many products ---- */

int64_t mr_sgemm_packed_size(const mr_sgemm *g) { return g->k * round_up(g->n, mr_tiles_here()->cols); }

void mr_sgemm_pack_b(const mr_sgemm *g, float *out)
{
    block b = {.p = mr_tiles_here(), .g = g};
    each_block(&b, keep_block, out);
}

/* ---- thin products ---- */

static bool is_column(const mr_sgemm *g) { return g->n == 1 && g->ldc == 1; }
bool mr_sgemm_thin(const mr_sgemm *g) { return g->m <= THIN || is_column(g); }

/* A product with one column is the transpose of one with one row. */
static mr_sgemm transposed_product(const mr_sgemm *g)
{
    mr_sgemm t = *g;
    t.m = g->n, t.n = g->m, t.ldc = g->m;
    t.a = g->b, t.lda = g->ldb, t.ta = !g->tb;
    t.b = g->a, t.ldb = g->lda, t.tb = !g->ta;
    return t;
}

static void run_thin(const mr_sgemm *g, float *row)
{
    const mr_tiles *p = mr_tiles_here();
    float sign = g->how == MR_C_SUBTRACT ? -1 : 1;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t k = 0; k < g->k; k++)
            row[k] = sign * g->a[g->ta ? k * g->lda + i : i * g->lda + k];
        float *c = g->c + i * g->ldc;
        if (g->how == MR_C_WRITE)
            memset(c, 0, (size_t)g->n * sizeof(float));
        (g->tb ? p->thin_cols : p->thin_rows)(g->n, g->k, row, g->b, g->ldb, c);
    }
}

/* ---- */

size_t mr_sgemm_room(const mr_sgemm *g)
{
    if (g->thin)
        return (size_t)g->k * sizeof(float);
    const mr_tiles *p = mr_tiles_here();
    size_t a = (size_t)((MR_MIN(p->high, g->m) + p->most) * k_of_block(p, g->k));
    return (floats_of_b(p, g) + a + MR_TILE_SPARE) * sizeof(float);
}

void mr_sgemm_run(const mr_sgemm *g, void *room)
{
    if (!g->thin) {
        run_blocks(g, room);
    } else if (is_column(g)) {
        mr_sgemm t = transposed_product(g);
        run_thin(&t, room);
    } else {
        run_thin(g, room);
    }
}
