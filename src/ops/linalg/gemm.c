/* ops/linalg/gemm.c -- products of matrices, cut into pieces for threads.
 *
 * sgemm.c computes products of floats, unless they are so small that packing costs more than a plain loop; product.c
 * computes those of the other types, and bf16_product.c those of bfloat16 where the CPU has instructions for them. Otherwise
 * tensors of half and bfloat16 are converted to float, which costs little compared with the product.
 *
 * The algorithm for a product is chosen before it is split, and every sum is computed in one piece: so the bits do
 * not depend on the number of threads. */
#include "ops/linalg/gemm.h"

#include "base/deterministic.h"
#include "ops/linalg/bf16_product.h"
#include "ops/linalg/product.h"
#include "ops/linalg/sgemm.h"

#define FINISH_NS 0.5 /* of an element */

enum {
    SMALL = 1024, /* below this number of multiplications packing floats does not pay */
    ROW_UNIT = 24,
    COL_UNIT = 64, /* pieces for threads are multiples of these */
};

/* A piece of a product: rows [m0, m1) and columns [n0, n1) of C. */
typedef struct piece {
    const mr_gemm *g;
    const void *a, *b;
    void *c;
    int64_t m0, m1, n0, n1;
} piece;

/* ---- floats ---- */

static void small_floats(const piece *p)
{
    const mr_gemm *g = p->g;
    const float *a = p->a, *b = p->b;
    int64_t a_row = g->ta ? 1 : g->lda, a_col = g->ta ? g->lda : 1;
    for (int64_t i = p->m0; i < p->m1; i++) {
        float *c = (float *)p->c + i * g->ldc;
        for (int64_t j = p->n0; j < p->n1 && !g->minus && !g->plus; j++)
            c[j] = 0;
        for (int64_t k = 0; k < g->k; k++) {
            float v = a[i * a_row + k * a_col];
            v = g->minus ? -v : v;
            if (g->tb)
                for (int64_t j = p->n0; j < p->n1; j++)
                    c[j] += v * b[j * g->ldb + k];
            else
                for (int64_t j = p->n0; j < p->n1; j++)
                    c[j] += v * b[k * g->ldb + j];
        }
    }
}

/* A piece of floats; `thin` as for the whole product. */
static mr_sgemm float_piece(const piece *p, bool thin)
{
    const mr_gemm *g = p->g;
    return (mr_sgemm){.ta = g->ta,
                      .tb = g->tb,
                      .thin = thin,
                      .how = g->minus  ? MR_C_SUBTRACT
                             : g->plus ? MR_C_ADD
                                       : MR_C_WRITE,
                      .m = p->m1 - p->m0,
                      .n = p->n1 - p->n0,
                      .k = g->k,
                      .a = (const float *)p->a + p->m0 * (g->ta ? 1 : g->lda),
                      .b = (const float *)p->b + p->n0 * (g->tb ? g->ldb : 1),
                      .c = (float *)p->c + p->m0 * g->ldc + p->n0,
                      .lda = g->lda,
                      .ldb = g->ldb,
                      .ldc = g->ldc,
                      .packed_b = g->packed_b ? g->packed_b->data : NULL};
}

/* ---- other types ---- */

static mr_product product_of(const piece *p, mr_product_way way)
{
    const mr_gemm *g = p->g;
    size_t size = mr_dtype_size(g->type);
    return (mr_product){.type = g->type,
                        .way = way,
                        .ta = g->ta,
                        .tb = g->tb,
                        .conj_a = g->conj_a,
                        .conj_b = g->conj_b,
                        .how = g->minus  ? MR_C_SUBTRACT
                               : g->plus ? MR_C_ADD
                                         : MR_C_WRITE,
                        .m = p->m1 - p->m0,
                        .n = p->n1 - p->n0,
                        .k = g->k,
                        .a = (const char *)p->a + (size_t)(p->m0 * (g->ta ? 1 : g->lda)) * size,
                        .b = (const char *)p->b + (size_t)(p->n0 * (g->tb ? g->ldb : 1)) * size,
                        .c = (char *)p->c + (size_t)(p->m0 * g->ldc + p->n0) * size,
                        .lda = g->lda,
                        .ldb = g->ldb,
                        .ldc = g->ldc};
}

/* A piece of bfloat16. */
static mr_bf16_product bf16_product_of(const piece *p)
{
    const mr_gemm *g = p->g;
    return (mr_bf16_product){.ta = g->ta,
                      .tb = g->tb,
                      .m = p->m1 - p->m0,
                      .n = p->n1 - p->n0,
                      .k = g->k,
                      .a = (const mr_bf16 *)p->a + p->m0 * (g->ta ? 1 : g->lda),
                      .b = (const mr_bf16 *)p->b + p->n0 * (g->tb ? g->ldb : 1),
                      .c = (mr_bf16 *)p->c + p->m0 * g->ldc + p->n0,
                      .lda = g->lda,
                      .ldb = g->ldb,
                      .ldc = g->ldc};
}

/* ---- threads ---- */

bool mr_gemm_has(mr_dtype type)
{
    return type == MR_FLOAT || type == MR_HALF || type == MR_BFLOAT16 || mr_product_has(type);
}

typedef struct job {
    const mr_gemm_batch *b;
    mr_allocator *alloc;
    bool small, thin;      /* algorithms for floats */
    bool by_products;      /* product.c instead of sgemm.c */
    mr_product_way way;    /* of product.c */
    const mr_sums_end *end;
    bool by_cols;          /* a product is split along its columns, else along its rows */
    int64_t unit, n_units; /* of one product */
    size_t room;           /* bytes of packing memory for a piece */
    atomic_bool out_of_room;
} job;

static const char *operand_at(const mr_gemm_batch *b, int which, int64_t i)
{
    const char *p = which ? b->b : b->a;
    return p + (size_t)(b->at ? b->at(b->ctx, which, i) : 0) * mr_dtype_size(b->one.type);
}

/* Computes units [begin, end) of one product. */
static void run_units(const job *j, int64_t batch, int64_t begin, int64_t end, void *packed)
{
    const mr_gemm *g = &j->b->one;
    size_t bytes = mr_dtype_size(g->type);
    piece p = {g,
               operand_at(j->b, 0, batch),
               operand_at(j->b, 1, batch),
               (char *)j->b->c + (size_t)(j->b->places_c ? j->b->at(j->b->ctx, 2, batch) : batch * g->m * g->n) * bytes,
               0,
               g->m,
               0,
               g->n};
    if (j->by_cols) {
        p.n0 = begin * j->unit;
        p.n1 = MR_MIN(g->n, end * j->unit);
    } else {
        p.m0 = begin * j->unit;
        p.m1 = MR_MIN(g->m, end * j->unit);
    }
    if (j->small) {
        small_floats(&p);
    } else if (g->type == MR_BFLOAT16) {
        mr_bf16_product part = bf16_product_of(&p);
        mr_bf16_product_run(&part, packed);
    } else if (!j->by_products) {
        mr_sgemm floats = float_piece(&p, j->thin);
        floats.end = j->thin ? NULL : j->end;
        floats.col = p.n0;
        mr_sgemm_run(&floats, packed);
    } else {
        mr_product part = product_of(&p, j->way);
        mr_product_run(&part, packed);
    }
}

static void multiply_part(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    void *packed = j->room ? j->alloc->alloc(j->alloc, j->room) : NULL;
    if (j->room && !packed) {
        j->out_of_room = true;
        return;
    }
    while (begin < end) {
        int64_t batch = begin / j->n_units, first = begin % j->n_units;
        int64_t last = MR_MIN(j->n_units, first + (end - begin));
        run_units(j, batch, first, last, packed);
        begin += last - first;
    }
    if (packed)
        j->alloc->free(j->alloc, packed, j->room);
}

static bool is_small(const mr_gemm *g)
{
    return (double)g->m * (double)g->n * (double)g->k <= SMALL;
}

/* Chooses the algorithm, and the size of its memory: no piece needs more than a whole product. */
static void choose_way(job *j)
{
    const mr_gemm *g = &j->b->one;
    const piece whole = {g, j->b->a, j->b->b, j->b->c, .m1 = g->m, .n1 = g->n};
    if (g->type == MR_BFLOAT16) {
        mr_bf16_product part = bf16_product_of(&whole);
        j->room = mr_bf16_product_room(&part);
        return;
    }
    mr_product other = product_of(&whole, MR_PRODUCT_BLOCKS);
    other.way = j->way = mr_product_choose(&other);
    bool few = j->way == MR_PRODUCT_NARROW || j->way == MR_PRODUCT_LONG;
    j->small = g->type == MR_FLOAT && is_small(g);
    j->by_products = g->type != MR_FLOAT || (few && !g->packed_b);
    if (j->small)
        return;
    if (j->by_products) {
        j->room = mr_product_room(&other);
        return;
    }
    mr_sgemm floats = float_piece(&whole, false);
    floats.thin = j->thin = mr_sgemm_thin(&floats);
    j->room = mr_sgemm_room(&floats);
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Every piece packs the other operand again, so the larger operand is split, into few pieces. */
static void choose_units(job *j, int threads)
{
    const mr_gemm *g = &j->b->one;
    j->by_cols = g->n > g->m && !g->packed_b;
    int64_t size = j->by_cols ? g->n : g->m, least = j->by_cols ? COL_UNIT : ROW_UNIT;
    int64_t pieces = MR_MAX(1, 2 * threads / j->b->n_batch);
    j->unit = round_up(round_up(size, pieces) / pieces, least);
    j->n_units = round_up(size, j->unit) / j->unit;
}

/* Rows that no tile has finished. */
static void finish_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const mr_gemm *g = &j->b->one;
    float *c = (float *)j->b->c + begin * g->n;
    mr_tile_finish(&j->end->tile, c, end - begin, g->n);
    if (j->end->then)
        j->end->then(c, (end - begin) * g->n, j->end->alpha);
}

static void finish_sums(mr_run *r, job *j)
{
    const mr_gemm *g = &j->b->one;
    mr_run_for(r, g->m, FINISH_NS * (double)g->n, finish_part, j);
}

static mr_status *run_batch(mr_run *r, const mr_gemm_batch *b)
{
    const mr_gemm *g = &b->one;
    job j = {.b = b, .alloc = mr_run_allocator(r), .end = b->end};
    choose_way(&j);
    choose_units(&j, mr_pool_shares(r->step->device->pool));
    double multiplications = (double)j.unit * (double)(j.by_cols ? g->m : g->n) * (double)g->k;
    double ns = g->type == MR_BFLOAT16 ? 0.01 : g->type == MR_FLOAT ? 0.025 : g->type == MR_DOUBLE ? 0.1 : 0.5;
    mr_run_for(r, b->n_batch * j.n_units, multiplications * ns, multiply_part, &j);
    if (j.out_of_room)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to multiply matrices");
    if (j.end && (j.small || j.thin || j.by_products))
        finish_sums(r, &j);
    return NULL;
}

/* ---- 16-bit floats ---- */

static mr_status *to_floats(mr_run *r, mr_dtype type, const void *x, int64_t n, mr_tensor **out)
{
    MR_TRY(mr_run_temp(r, MR_FLOAT, 1, &n, out));
    mr_dtype_convert(type, x, MR_FLOAT, (*out)->data, n, false);
    return NULL;
}

static mr_status *run_wide(mr_run *r, const mr_gemm_batch *b)
{
    mr_status *st = NULL;
    mr_tensor *x = NULL, *y = NULL, *z = NULL;
    mr_gemm_batch wide = *b;
    int64_t n = b->n_batch * b->one.m * b->one.n;
    wide.one.type = MR_FLOAT;
    MR_GO(to_floats(r, b->one.type, b->a, b->a_n, &x));
    MR_GO(to_floats(r, b->one.type, b->b, b->b_n, &y));
    MR_GO(mr_run_temp(r, MR_FLOAT, 1, &n, &z));
    wide.a = x->data;
    wide.b = y->data;
    wide.c = z->data;
    MR_GO(run_batch(r, &wide));
    mr_dtype_convert(MR_FLOAT, z->data, b->one.type, b->c, n, false);
out:
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    mr_tensor_unref(z);
    return st;
}

static void fill_distances(mr_gemm *g)
{
    g->lda = g->lda ? g->lda : g->ta ? g->m : g->k;
    g->ldb = g->ldb ? g->ldb : g->tb ? g->k : g->n;
    g->ldc = g->ldc ? g->ldc : g->n;
}

mr_status *mr_gemm_run(mr_run *r, const mr_gemm_batch *batch)
{
    mr_gemm_batch b = *batch;
    mr_gemm *g = &b.one;
    mr_sums_end end;
    bool narrow = g->type == MR_HALF || g->type == MR_BFLOAT16;
    bool parts = g->lda || g->ldb || g->ldc;
    bool into = g->minus || g->plus;
    MR_ENSURE(mr_gemm_has(g->type) && !((into || parts || b.places_c) && narrow));
    MR_ENSURE(!g->ldc || b.n_batch == 1 || b.places_c);
    MR_ENSURE(!b.end || (g->type == MR_FLOAT && b.n_batch == 1 && !parts && !into));
    if (b.end) {
        end = *b.end;
        end.tile.c = b.c;
        b.end = &end;
    }
    if (b.n_batch == 0 || g->m == 0 || g->n == 0 || (g->k == 0 && into))
        return NULL;
    if (g->k == 0) { /* empty sums */
        MR_ENSURE(!parts && !b.places_c);
        memset(b.c, 0, (size_t)(b.n_batch * g->m * g->n) * mr_dtype_size(g->type));
        if (b.end)
            finish_sums(r, &(job){.b = &b, .end = b.end});
        return NULL;
    }
    fill_distances(g);
    bool wide = g->type == MR_HALF || (g->type == MR_BFLOAT16 && !mr_bf16_product_pay(g->n));
    return wide ? run_wide(r, &b) : run_batch(r, &b);
}

mr_status *mr_gemm_pack_b(mr_run *r, const mr_gemm *one, const float *b, mr_tensor **out)
{
    mr_gemm g = *one;
    fill_distances(&g);
    mr_sgemm whole = float_piece(&(piece){&g, b, b, (void *)(uintptr_t)b, .m1 = g.m, .n1 = g.n}, false);
    *out = NULL;
    if (g.k == 0 || is_small(&g) || mr_sgemm_thin(&whole))
        return NULL;
    int64_t size = mr_sgemm_packed_size(&whole);
    MR_TRY(mr_run_temp(r, MR_FLOAT, 1, &size, out));
    mr_sgemm_pack_b(&whole, (*out)->data);
    return NULL;
}
