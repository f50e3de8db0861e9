/* ops/linalg/sgemm.c -- products of float matrices.
 *
 * After Goto and van Zee: B is packed block by block into panels as wide as a tile, A into strips
 * as high as one.  A panel of KC rows stays in the first cache while the strips of a block of A
 * pass by it from the second, and a tile of C is summed in registers over KC entries (tiles.h).
 *
 * Products of few rows (or one column) are made row by row, without packing. */
#include "ops/linalg/sgemm.h"

#include <string.h>

#include "base/memory.h"

enum {
    KC = 256,  /* k in one block */
    MC = 144,  /* rows of A in one block; a multiple of MR_TILE_ROWS */
    NC = 1024, /* columns of B in one block; a multiple of MR_TILE_COLS */
    THIN = 3,  /* rows of a thin product */
};

/* ---- blocks ---- */

/* A block of A and one of B, and the piece of C they add to. */
typedef struct block {
    const mr_tiles *p;
    const mr_sgemm *g;
    int64_t i, mc, j, nc, k, kc;
    float *a, *b; /* packed */
} block;

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static void pack_b(const block *b)
{
    const mr_sgemm *g = b->g;
    if (g->tb)
        b->p->pack_cols(g->b + b->j * g->ldb + b->k, g->ldb, b->kc, b->nc, b->b);
    else
        b->p->pack_rows(g->b + b->k * g->ldb + b->j, g->ldb, b->kc, b->nc, b->b);
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

/* All strips of a block beside the panel at column j. */
static void multiply(const block *b, int64_t j)
{
    const mr_sgemm *g = b->g;
    const mr_tile_height *h;
    mr_tile t = {.runs = 1, .kc = b->kc, .b = b->b + j * b->kc, .ldc = g->ldc};
    t.how = g->how == MR_C_WRITE && b->k > 0 ? MR_C_ADD : g->how;
    for (int64_t i = 0; i < b->mc; i += h->rows) {
        h = mr_tile_next(b->p, b->mc - i);
        t.rows = MR_MIN(h->rows, b->mc - i);
        t.step = h->rows;
        t.a = b->a + i * b->kc;
        t.c = g->c + (b->i + i) * g->ldc + b->j + j;
        mr_tile_run(b->p, h, true, &t, MR_MIN(b->p->cols, b->nc - j));
    }
}

static size_t floats_of_b(const mr_tiles *c, const mr_sgemm *g)
{
    return (size_t)(up(MR_MIN(NC, g->n), c->cols) * MR_MIN(KC, g->k));
}

static void run_blocks(const mr_sgemm *g, float *room)
{
    block b = {.p = mr_tiles_here(), .g = g, .b = room};
    b.a = b.b + floats_of_b(b.p, g);
    for (b.j = 0; b.j < g->n; b.j += NC)
        for (b.k = 0; b.k < g->k; b.k += KC) {
            b.nc = MR_MIN(NC, g->n - b.j);
            b.kc = MR_MIN(KC, g->k - b.k);
            pack_b(&b);
            for (b.i = 0; b.i < g->m; b.i += MC) {
                b.mc = MR_MIN(MC, g->m - b.i);
                pack_a(&b);
                for (int64_t j = 0; j < b.nc; j += b.p->cols)
                    multiply(&b, j);
            }
        }
}

/* ---- thin products ---- */

static bool is_column(const mr_sgemm *g) { return g->n == 1 && g->ldc == 1; }
bool mr_sgemm_thin(const mr_sgemm *g) { return g->m <= THIN || is_column(g); }

/* One column is one row of the product's transpose. */
static mr_sgemm transposed(const mr_sgemm *g)
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
    const mr_tiles *c = mr_tiles_here();
    size_t a = (size_t)((MR_MIN(MC, g->m) + c->high->rows) * MR_MIN(KC, g->k));
    return (floats_of_b(c, g) + a + MR_TILE_SPARE) * sizeof(float);
}

void mr_sgemm_run(const mr_sgemm *g, void *room)
{
    if (!g->thin) {
        run_blocks(g, room);
    } else if (is_column(g)) {
        mr_sgemm t = transposed(g);
        run_thin(&t, room);
    } else {
        run_thin(g, room);
    }
}
