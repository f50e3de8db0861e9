/* ops/linalg/product.c -- one product of matrices of any type in one thread.
 *
 * The scheme is that of sgemm.c: B is packed block by block into panels as wide as a tile, A into strips as high as
 * one, and the sums of a tile stay in registers over all k of a block. The inner loops are one text
 * (product_kind.h) for all element types and kinds of CPU; the loops around them are here, once for all types.
 *
 * Floats have better loops in tiles.c, which convolutions share; products of few columns come here all the same. */
#include "ops/linalg/product.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/simd.h"

enum {
    MOST_ROWS = 12,        /* of a tile */
    MOST_ROW_BYTES = 128,  /* of a row of a panel: two vectors */
    PANEL_BYTES = 32 << 10, /* a panel stays in the first-level cache */
    MOST_KC = 256,
    NC = 512,                /* columns of B in one block; a multiple of all widths */
    FEW = 128,               /* the same, if A is one block */
    NARROW_KC = 512,         /* k at a time, if there are few columns */
    THIN_ROWS = 3,
};

typedef struct height {
    int rows;
    void (*sum)(int64_t kc, const void *strip, const void *panel, void *c, int64_t ldc, mr_to_c how);
    void (*strip)(const void *a, int64_t down, int64_t right, int64_t kc, int64_t mc, bool conj, void *to);
} height;

/* A product of few columns. */
typedef struct narrow {
    const void *a;
    void *c;
    int64_t m, n, down, right, ldc; /* down, right: distances in op(A) */
} narrow;
typedef void narrow_fn(const narrow *w, int64_t kc, const void *panel, mr_to_c how);
typedef void panel_fn(const void *b, int64_t down, int64_t right, int64_t kc, int64_t n, void *to);
typedef void thin_fn(int64_t n, int64_t k, const void *row, const void *b, int64_t ldb, void *c);

typedef struct kind_loops {
    int cols;
    height high, low;
    void (*panels)(const void *b, int64_t down, int64_t right, int64_t kc, int64_t nc, bool conj, void *to);
    void (*edge)(const void *sums, int64_t mc, int64_t nc, void *c, int64_t ldc, mr_to_c how);
    /* NULL for complex types: products of few columns, for panels of one and two vectors, and what packs these */
    narrow_fn *narrow1, *narrow2;
    panel_fn *half_panel, *panel;
    thin_fn *thin_rows, *thin_cols; /* c += a B for one row, B being stored by rows or by columns */
    /* Copies n entries `step` apart, or their negative. */
    void (*copy_row)(int64_t n, const void *from, int64_t step, bool minus, void *to);
} kind_loops;

/* One kind of CPU. */
typedef struct kind {
    const kind_loops *f32, *f64, *i16, *i32, *i64, *c64, *c128;
} kind;

/* The indices that interleave two vectors: the low and the high half of the result. */
#define LOW_PAIRS_(lanes) LOW_##lanes
#define HIGH_PAIRS_(lanes) HIGH_##lanes
#define LOW_PAIRS(lanes) LOW_PAIRS_(lanes)
#define HIGH_PAIRS(lanes) HIGH_PAIRS_(lanes)
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#define ROWS_2(M) M(0) M(1)
#define ROWS_4(M) ROWS_2(M) M(2) M(3)
#define ROWS_6(M) ROWS_4(M) M(4) M(5)
#define ROWS_8(M) ROWS_6(M) M(6) M(7)
#define ROWS_12(M) ROWS_8(M) M(8) M(9) M(10) M(11)

/* ---- the loops of all types, for each kind of CPU ---- */

#if defined(__x86_64__)
#define KIND(name) avx512_##name
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define LANES_OF_2 32
#define LANES_OF_4 16
#define LANES_OF_8 8
#define N_HIGH 12
#define ROWS_HIGH ROWS_12
#define N_LOW 8
#define ROWS_LOW ROWS_8
#define N_NARROW 8
#define ROWS_NARROW ROWS_8
#include "ops/linalg/product_types.h"

#define KIND(name) avx2_##name
#define TARGET __attribute__((target("avx2,fma")))
#define LANES_OF_2 16
#define LANES_OF_4 8
#define LANES_OF_8 4
#define N_HIGH 6
#define ROWS_HIGH ROWS_6
#define N_LOW 4
#define ROWS_LOW ROWS_4
#define N_NARROW 6
#define ROWS_NARROW ROWS_6
#include "ops/linalg/product_types.h"
#endif

#define KIND(name) plain_##name
#define TARGET 
#define LANES_OF_2 8
#define LANES_OF_4 4
#define LANES_OF_8 2
#define N_HIGH 4
#define ROWS_HIGH ROWS_4
#define N_LOW 2
#define ROWS_LOW ROWS_2
#define N_NARROW 4
#define ROWS_NARROW ROWS_4
#include "ops/linalg/product_types.h"

static const kind *find_kind(const char *name)
{
#if defined(__x86_64__)
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (wide && (!name || strcmp(name, "avx512") == 0))
        return &avx512_kind;
    bool some = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (some && (!name || strcmp(name, "avx2") == 0))
        return &avx2_kind;
#endif
    return !name || strcmp(name, "plain") == 0 ? &plain_kind : NULL;
}

static _Atomic(const kind *) chosen;

bool mr_product_use(const char *name)
{
    const kind *k = find_kind(name);
    if (k)
        chosen = k;
    return k;
}

static const kind_loops *loops_of(mr_dtype type)
{
    const kind *k = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!k)
        atomic_store_explicit(&chosen, k = find_kind(NULL), memory_order_relaxed);
    switch (type) {
    case MR_FLOAT: return k->f32;
    case MR_DOUBLE: return k->f64;
    case MR_INT16: return k->i16;
    case MR_INT32: return k->i32;
    case MR_INT64: return k->i64;
    case MR_COMPLEX64: return k->c64;
    case MR_COMPLEX128: return k->c128;
    default: return NULL;
    }
}

bool mr_product_has(mr_dtype type) { return loops_of(type); }

/* ---- blocks ---- */

/* A block of A and one of B, and the part of C to which their product is added. */
typedef struct block {
    const mr_product *p;
    const kind_loops *loops;
    size_t size; /* of an element */
    int parts;
    int64_t i, mc, j, nc, k, kc;
    char *a, *b; /* packed */
} block;

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static size_t row_bytes(const kind_loops *l, size_t size) { return (size_t)l->cols * size; }

/* k in one block: all blocks have about the same size, because a small last one would be mostly overhead. */
static int64_t k_of_block(const kind_loops *l, size_t size, int64_t k)
{
    int64_t most = MR_MIN(MOST_KC, PANEL_BYTES / (int64_t)row_bytes(l, size));
    int64_t blocks = (k + most - 1) / most;
    return MR_MIN(k, round_up((k + blocks - 1) / blocks, 8));
}

/* Rows of A in one block, a multiple of the height of tiles. */
static int64_t rows_of_block(const kind_loops *l, size_t size, int64_t kc)
{
    return MR_MAX(1, MR_PRODUCT_BLOCK_BYTES / (int64_t)size / kc / l->high.rows) * l->high.rows;
}

/* The height of the next tile when this many rows are left: for 8 rows of heights 6 and 4, 4 and 4 are best. */
static const height *next_height(const kind_loops *l, int64_t left)
{
    bool low = left <= l->low.rows || (left > l->high.rows && left <= 2 * l->low.rows);
    return low ? &l->low : &l->high;
}

static void pack_b(const block *b)
{
    const mr_product *p = b->p;
    int64_t down = p->tb ? 1 : p->ldb, right = p->tb ? p->ldb : 1;
    const char *from = (const char *)p->b + (size_t)(b->k * down + b->j * right) * b->size;
    b->loops->panels(from, down, right, b->kc, b->nc, p->conj_b, b->b);
}

static void pack_a(const block *b)
{
    const mr_product *p = b->p;
    const height *h;
    int64_t down = p->ta ? 1 : p->lda, right = p->ta ? p->lda : 1;
    for (int64_t i = 0; i < b->mc; i += h->rows) {
        h = next_height(b->loops, b->mc - i);
        const char *from = (const char *)p->a + (size_t)((b->i + i) * down + b->k * right) * b->size;
        h->strip(from, down, right, b->kc, MR_MIN(h->rows, b->mc - i), p->conj_a,
                 b->a + (size_t)(i * b->kc) * b->size);
    }
}

/* Multiplies a strip by a panel; at the edges of C in a buffer. */
static void multiply_tile(const block *b, const height *h, int64_t i, int64_t j, mr_to_c how)
{
    _Alignas(64) char sums[MOST_ROWS * MOST_ROW_BYTES];
    const mr_product *p = b->p;
    int64_t rows = MR_MIN(h->rows, b->mc - i), cols = MR_MIN(b->loops->cols, b->nc - j);
    char *c = (char *)p->c + (size_t)((b->i + i) * p->ldc + b->j + j) * b->size;
    const char *strip = b->a + (size_t)(i * b->kc) * b->size, *panel = b->b + (size_t)(j * b->kc) * b->size;
    if (rows == h->rows && cols == b->loops->cols) {
        h->sum(b->kc, strip, panel, c, p->ldc * b->parts, how);
        return;
    }
    h->sum(b->kc, strip, panel, sums, b->loops->cols * b->parts, MR_C_WRITE);
    b->loops->edge(sums, rows, cols, c, p->ldc * b->parts, how);
}

/* Multiplies all panels of a block of B by all strips of one of A. */
static void multiply_block(const block *b)
{
    const height *h;
    mr_to_c how = b->p->how == MR_C_WRITE && b->k > 0 ? MR_C_ADD : b->p->how;
    for (int64_t j = 0; j < b->nc; j += b->loops->cols)
        for (int64_t i = 0; i < b->mc; i += h->rows) {
            h = next_height(b->loops, b->mc - i);
            multiply_tile(b, h, i, j, how);
        }
}

/* If A is one block, it is packed once for each k, and little of B at a time; else B is packed in large blocks. */
static void run_blocks(block *b, int64_t rows)
{
    const mr_product *p = b->p;
    int64_t kc = b->kc, nc = p->m <= rows ? FEW : NC;
    for (int64_t j0 = 0; j0 < p->n; j0 += p->m <= rows ? p->n : NC)
        for (b->k = 0; b->k < p->k; b->k += kc) {
            b->kc = MR_MIN(kc, p->k - b->k);
            if (p->m <= rows) {
                b->i = 0, b->mc = p->m;
                pack_a(b);
                for (b->j = 0; b->j < p->n; b->j += nc) {
                    b->nc = MR_MIN(nc, p->n - b->j);
                    pack_b(b);
                    multiply_block(b);
                }
                continue;
            }
            b->j = j0, b->nc = MR_MIN(nc, p->n - j0);
            pack_b(b);
            for (b->i = 0; b->i < p->m; b->i += rows) {
                b->mc = MR_MIN(rows, p->m - b->i);
                pack_a(b);
                multiply_block(b);
            }
        }
}

/* ---- few columns ---- */

/* C has so few columns that a row of it fits in a panel. */
static void run_narrow(const mr_product *p, const kind_loops *l, void *panel)
{
    size_t size = mr_dtype_size(p->type);
    narrow w = {.c = p->c, .m = p->m, .n = p->n, .ldc = p->ldc};
    w.down = p->ta ? 1 : p->lda;
    w.right = p->ta ? p->lda : 1;
    int64_t down = p->tb ? 1 : p->ldb, right = p->tb ? p->ldb : 1;
    bool one = 2 * p->n <= l->cols;
    for (int64_t k = 0; k < p->k; k += NARROW_KC) {
        int64_t kc = MR_MIN(NARROW_KC, p->k - k);
        w.a = (const char *)p->a + (size_t)(k * w.right) * size;
        const char *b = (const char *)p->b + (size_t)(k * down) * size;
        (one ? l->half_panel : l->panel)(b, down, right, kc, p->n, panel);
        (one ? l->narrow1 : l->narrow2)(&w, kc, panel, k > 0 && p->how == MR_C_WRITE ? MR_C_ADD : p->how);
    }
}

/* ---- few rows, or one column ---- */

static bool is_column(const mr_product *p) { return p->n == 1 && p->ldc == 1; }

/* A product with one column is the transpose of one with one row. */
static mr_product transposed_product(const mr_product *p)
{
    mr_product t = *p;
    t.m = p->n, t.n = p->m, t.ldc = p->m;
    t.a = p->b, t.lda = p->ldb, t.ta = !p->tb;
    t.b = p->a, t.ldb = p->lda, t.tb = !p->ta;
    return t;
}

/* Copies kc entries of row i of op(A) from k on; if the product is subtracted, with the other sign. */
static void copy_row(const mr_product *p, const kind_loops *l, int64_t i, int64_t k, int64_t kc, void *row)
{
    size_t size = mr_dtype_size(p->type);
    int64_t down = p->ta ? 1 : p->lda, right = p->ta ? p->lda : 1;
    const char *from = (const char *)p->a + (size_t)(i * down + k * right) * size;
    l->copy_row(kc, from, right, p->how == MR_C_SUBTRACT, row);
}

static void run_thin(const mr_product *p, const kind_loops *l, char *room)
{
    size_t size = mr_dtype_size(p->type);
    for (int64_t i = 0; i < p->m; i++) {
        char *c = (char *)p->c + (size_t)(i * p->ldc) * size;
        copy_row(p, l, i, 0, p->k, room);
        if (p->how == MR_C_WRITE)
            memset(c, 0, (size_t)p->n * size);
        (p->tb ? l->thin_cols : l->thin_rows)(p->n, p->k, room, p->b, p->ldb, c);
    }
}

/* Few rows and few columns of B, stored by rows: a part of B is stored by columns, so that whole vectors are used. */
static void run_long(const mr_product *p, const kind_loops *l, char *room)
{
    size_t size = mr_dtype_size(p->type);
    char *row = room + (size_t)(p->n * NARROW_KC) * size;
    for (int64_t k = 0; k < p->k; k += NARROW_KC) {
        int64_t kc = MR_MIN(NARROW_KC, p->k - k);
        for (int64_t j = 0; j < p->n; j++)
            l->copy_row(kc, (const char *)p->b + (size_t)(k * p->ldb + j) * size, p->ldb, false,
                        room + (size_t)(j * NARROW_KC) * size);
        for (int64_t i = 0; i < p->m; i++) {
            char *c = (char *)p->c + (size_t)(i * p->ldc) * size;
            copy_row(p, l, i, k, kc, row);
            if (p->how == MR_C_WRITE && k == 0)
                memset(c, 0, (size_t)p->n * size);
            l->thin_cols(p->n, kc, row, room, NARROW_KC, c);
        }
    }
}

/* ---- */

mr_product_way mr_product_choose(const mr_product *p)
{
    const kind_loops *l = loops_of(p->type);
    bool few_rows = p->m <= THIN_ROWS, few_columns = l->narrow1 && p->n <= l->cols;
    if (mr_dtype_is_complex(p->type))
        return MR_PRODUCT_BLOCKS;
    if (few_rows && few_columns && p->n > 1 && !p->tb)
        return MR_PRODUCT_LONG;
    if (few_rows || is_column(p))
        return MR_PRODUCT_THIN;
    return few_columns ? MR_PRODUCT_NARROW : MR_PRODUCT_BLOCKS;
}

static size_t room_of_blocks(const mr_product *p, const kind_loops *l, size_t size)
{
    int64_t kc = k_of_block(l, size, p->k), rows = rows_of_block(l, size, kc);
    int64_t mc = round_up(MR_MIN(rows, p->m), l->high.rows) + l->high.rows;
    int64_t nc = round_up(MR_MIN(NC, p->n), l->cols);
    return (size_t)round_up(mc * kc * (int64_t)size, 64) + (size_t)(nc * kc) * size;
}

size_t mr_product_room(const mr_product *p)
{
    const kind_loops *l = loops_of(p->type);
    size_t size = mr_dtype_size(p->type);
    switch (p->way) {
    case MR_PRODUCT_NARROW: return (size_t)(MR_MIN(NARROW_KC, p->k) * l->cols) * size;
    case MR_PRODUCT_LONG: return (size_t)((p->n + 1) * NARROW_KC) * size;
    case MR_PRODUCT_THIN: return (size_t)p->k * size;
    default: return room_of_blocks(p, l, size);
    }
}

void mr_product_run(const mr_product *p, void *room)
{
    block b = {.p = p, .loops = loops_of(p->type), .size = mr_dtype_size(p->type)};
    if (p->way == MR_PRODUCT_NARROW) {
        run_narrow(p, b.loops, room);
        return;
    }
    if (p->way == MR_PRODUCT_LONG) {
        run_long(p, b.loops, room);
        return;
    }
    if (p->way == MR_PRODUCT_THIN) {
        mr_product t = is_column(p) ? transposed_product(p) : *p;
        run_thin(&t, b.loops, room);
        return;
    }
    b.parts = mr_dtype_is_complex(p->type) ? 2 : 1;
    b.kc = k_of_block(b.loops, b.size, p->k);
    int64_t rows = rows_of_block(b.loops, b.size, b.kc), nc = MR_MIN(NC, p->n);
    b.b = room;
    b.a = b.b + round_up(round_up(nc, b.loops->cols) * b.kc * (int64_t)b.size, 64);
    run_blocks(&b, rows);
}
