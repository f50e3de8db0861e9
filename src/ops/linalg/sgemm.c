/* ops/linalg/sgemm.c -- products of float matrices.
 *
 * After Goto and van Zee: B is packed block by block into panels as wide as a tile, A into strips
 * as high as one.  A panel of KC rows stays in the first cache while the strips of a block of A
 * pass by it from the second, and a tile of C is summed in registers over KC entries.  There are
 * two heights of strips, so that little is computed beyond the last row.
 *
 * Products of few rows (or one column) are made row by row, without packing. */
#include "ops/linalg/sgemm.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/simd.h"

enum {
    KC = 256,  /* k in one block */
    MC = 144,  /* rows of A in one block; a multiple of all heights that are used in full */
    NC = 1024, /* columns of B in one block; a multiple of all widths */
    MAX_TILE = 12 * 32,
    SPARE = 8, /* floats that packing may write behind the last strip */
    THIN = 3,  /* rows of a thin product */
};

typedef struct height {
    int rows;
    void (*tile)(int64_t kc, const float *a, const float *b, float *c, int64_t ldc,
                 mr_sgemm_to_c how);
    void (*strip_rows)(const float *a, int64_t lda, int64_t kc, int64_t mc, float *to);
    void (*strip_cols)(const float *a, int64_t lda, int64_t kc, int64_t mc, float *to);
} height;

typedef struct cpu {
    int cols; /* of a tile */
    void (*pack_rows)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to);
    void (*pack_cols)(const float *b, int64_t ldb, int64_t kc, int64_t nc, float *to);
    const height *high, *low;
    void (*thin_rows)(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c);
    void (*thin_cols)(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c);
} cpu;

/* ---- kinds of CPUs ---- */

#define ROWS_4(M) M(0) M(1) M(2) M(3)
#define ROWS_6(M) ROWS_4(M) M(4) M(5)
#define ROWS_8(M) ROWS_6(M) M(6) M(7)
#define ROWS_12(M) ROWS_8(M) M(8) M(9) M(10) M(11)

#if defined(__x86_64__)
#define FN(name) avx512_##name
#define TARGET __attribute__((target("avx512f,fma")))
#define LANES 16
#include "ops/linalg/sgemm_pack.h"
#include "ops/linalg/sgemm_thin.h"
#define HIGH(name) avx512_12_##name
#define N_ROWS 12
#define ROWS ROWS_12
#include "ops/linalg/sgemm_tile.h"
#define HIGH(name) avx512_8_##name
#define N_ROWS 8
#define ROWS ROWS_8
#include "ops/linalg/sgemm_tile.h"
#undef FN
#undef TARGET
#undef LANES
static const cpu avx512 = {32,
                           avx512_pack_rows,
                           avx512_pack_cols,
                           &avx512_12_height,
                           &avx512_8_height,
                           avx512_thin_rows,
                           avx512_thin_cols};

#define FN(name) avx2_##name
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#include "ops/linalg/sgemm_pack.h"
#include "ops/linalg/sgemm_thin.h"
#define HIGH(name) avx2_6_##name
#define N_ROWS 6
#define ROWS ROWS_6
#include "ops/linalg/sgemm_tile.h"
#define HIGH(name) avx2_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/sgemm_tile.h"
#undef FN
#undef TARGET
#undef LANES
static const cpu avx2 = {16,
                         avx2_pack_rows,
                         avx2_pack_cols,
                         &avx2_6_height,
                         &avx2_4_height,
                         avx2_thin_rows,
                         avx2_thin_cols};
#endif

#define FN(name) plain_##name
#define TARGET
#define LANES 4
#include "ops/linalg/sgemm_pack.h"
#include "ops/linalg/sgemm_thin.h"
#define HIGH(name) plain_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/sgemm_tile.h"
#undef FN
#undef TARGET
#undef LANES
static const cpu plain = {8,
                          plain_pack_rows,
                          plain_pack_cols,
                          &plain_4_height,
                          &plain_4_height,
                          plain_thin_rows,
                          plain_thin_cols};

/* What there is, best first; `runs` tells whether this CPU can. */
typedef struct kind {
    const char *name;
    const cpu *cpu;
    bool runs;
} kind;

static const cpu *find_cpu(const char *name)
{
    const kind kinds[] = {
#if defined(__x86_64__)
        {"avx512", &avx512, __builtin_cpu_supports("avx512f")},
        {"avx2", &avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
#endif
        {"plain", &plain, true},
    };
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if (kinds[i].runs && (!name || strcmp(kinds[i].name, name) == 0))
            return kinds[i].cpu;
    return NULL;
}

static _Atomic(const cpu *) chosen;

static const cpu *this_cpu(void)
{
    const cpu *c = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!c)
        atomic_store_explicit(&chosen, c = find_cpu(NULL), memory_order_relaxed);
    return c;
}

bool mr_sgemm_use(const char *name)
{
    const cpu *c = find_cpu(name);
    if (c)
        chosen = c;
    return c;
}

/* ---- blocks ---- */

/* A block of A and one of B, and the piece of C they add to. */
typedef struct block {
    const cpu *cpu;
    const mr_sgemm *g;
    int64_t i, mc, j, nc, k, kc;
    float *a, *b; /* packed */
} block;

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Of the next strip when this many rows are left: 8 are better two of 4 than 6 and 2. */
static const height *next_height(const cpu *c, int64_t left)
{
    bool low = left <= c->low->rows || (left > c->high->rows && left <= 2 * c->low->rows);
    return low ? c->low : c->high;
}

static void pack_b(const block *b)
{
    const mr_sgemm *g = b->g;
    if (g->tb)
        b->cpu->pack_cols(g->b + b->j * g->ldb + b->k, g->ldb, b->kc, b->nc, b->b);
    else
        b->cpu->pack_rows(g->b + b->k * g->ldb + b->j, g->ldb, b->kc, b->nc, b->b);
}

static void pack_a(const block *b)
{
    const mr_sgemm *g = b->g;
    const height *h;
    for (int64_t i = 0; i < b->mc; i += h->rows) {
        h = next_height(b->cpu, b->mc - i);
        int64_t rows = MR_MIN(h->rows, b->mc - i);
        if (g->ta)
            h->strip_cols(g->a + b->k * g->lda + b->i + i, g->lda, b->kc, rows, b->a + i * b->kc);
        else
            h->strip_rows(g->a + (b->i + i) * g->lda + b->k, g->lda, b->kc, rows, b->a + i * b->kc);
    }
}

/* A tile that reaches over the edge of C is made aside. */
static void edge_tile(const block *b, const height *h, const float *a, const float *panel, float *c,
                      int64_t rows, int64_t cols, mr_sgemm_to_c how)
{
    _Alignas(64) float sums[MAX_TILE];
    int64_t width = b->cpu->cols, ldc = b->g->ldc;
    h->tile(b->kc, a, panel, sums, width, MR_C_WRITE);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            float v = sums[i * width + j], old = how == MR_C_WRITE ? 0 : c[i * ldc + j];
            c[i * ldc + j] = how == MR_C_SUBTRACT ? old - v : old + v;
        }
}

/* All strips of a block beside the panel at column j. */
static void multiply(const block *b, int64_t j)
{
    const mr_sgemm *g = b->g;
    const height *h;
    mr_sgemm_to_c how = g->how == MR_C_WRITE && b->k > 0 ? MR_C_ADD : g->how;
    int64_t cols = MR_MIN(b->cpu->cols, b->nc - j);
    for (int64_t i = 0; i < b->mc; i += h->rows) {
        h = next_height(b->cpu, b->mc - i);
        int64_t rows = MR_MIN(h->rows, b->mc - i);
        float *c = g->c + (b->i + i) * g->ldc + b->j + j;
        const float *a = b->a + i * b->kc, *panel = b->b + j * b->kc;
        if (rows == h->rows && cols == b->cpu->cols)
            h->tile(b->kc, a, panel, c, g->ldc, how);
        else
            edge_tile(b, h, a, panel, c, rows, cols, how);
    }
}

static size_t floats_of_b(const cpu *c, const mr_sgemm *g)
{
    return (size_t)(up(MR_MIN(NC, g->n), c->cols) * MR_MIN(KC, g->k));
}

static void run_blocks(const mr_sgemm *g, float *room)
{
    block b = {.cpu = this_cpu(), .g = g, .b = room};
    b.a = b.b + floats_of_b(b.cpu, g);
    for (b.j = 0; b.j < g->n; b.j += NC)
        for (b.k = 0; b.k < g->k; b.k += KC) {
            b.nc = MR_MIN(NC, g->n - b.j);
            b.kc = MR_MIN(KC, g->k - b.k);
            pack_b(&b);
            for (b.i = 0; b.i < g->m; b.i += MC) {
                b.mc = MR_MIN(MC, g->m - b.i);
                pack_a(&b);
                for (int64_t j = 0; j < b.nc; j += b.cpu->cols)
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
    const cpu *p = this_cpu();
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
    const cpu *c = this_cpu();
    size_t a = (size_t)((MR_MIN(MC, g->m) + c->high->rows) * MR_MIN(KC, g->k));
    return (floats_of_b(c, g) + a + SPARE) * sizeof(float);
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
