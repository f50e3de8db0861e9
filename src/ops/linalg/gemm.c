/* ops/linalg/gemm.c -- products of matrices, cut into pieces for threads.
 *
 * sgemm.c computes products of floats, unless they are so small that packing costs more than a plain loop. The
 * others are computed here: B is packed into panels of NR columns, A into strips of MR rows, both in blocks that
 * fit the caches and padded with zeros, so that the inner kernel is one loop over k with MR x NR sums in registers.
 * Tensors of half and bfloat16 are converted to float, which costs little compared with the product.
 *
 * The algorithm for a product is chosen before it is split, and every sum is computed in one piece: so the bits do
 * not depend on the number of threads. */
#include "ops/linalg/gemm.h"

#include <complex.h>

#include "base/deterministic.h"
#include "base/simd.h"
#include "ops/linalg/sgemm.h"

enum {
    MR = 4,       /* rows of a strip; a panel has two vectors of 32 bytes in a row */
    KC = 256,     /* k in one block */
    NC = 64,      /* columns in one block: with k and up to 16 bytes each 256 KB, in L2 */
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

typedef void gemm_fn(const piece *p,
                     void *packed); /* packed: memory for one block of B and a strip of A */

/* ---- the inner kernel: acc[MR][NR] of a strip and a panel ---- */

/* Real types: sums are vectors of 32 bytes, which every CPU variant maps to its own vectors. */
#define INNER_REAL(name, S, lanes)                                                          \
    typedef S name##_vec __attribute__((vector_size(32)));                                  \
    MR_INLINE void name##_inner(int64_t kc, const S *a, const S *b, S *acc)                 \
    {                                                                                       \
        name##_vec s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0};                              \
        name##_vec s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0};                              \
        for (int64_t k = 0; k < kc; k++, a += MR, b += 2 * lanes) {                         \
            name##_vec b0 = *(const name##_vec *)b, b1 = *(const name##_vec *)(b + lanes);  \
            s00 += a[0] * b0;                                                               \
            s01 += a[0] * b1;                                                               \
            s10 += a[1] * b0;                                                               \
            s11 += a[1] * b1;                                                               \
            s20 += a[2] * b0;                                                               \
            s21 += a[2] * b1;                                                               \
            s30 += a[3] * b0;                                                               \
            s31 += a[3] * b1;                                                               \
        }                                                                                   \
        name##_vec *o = (name##_vec *)acc;                                                  \
        o[0] = s00;                                                                         \
        o[1] = s01;                                                                         \
        o[2] = s10;                                                                         \
        o[3] = s11;                                                                         \
        o[4] = s20;                                                                         \
        o[5] = s21;                                                                         \
        o[6] = s30;                                                                         \
        o[7] = s31;                                                                         \
    }

/* Complex types: panels and strips are packed with their real parts first, then the imaginary ones, so that a
 * vector holds parts of one kind. (C's product of complex numbers also checks for infinities, element by element.) */
#define INNER_COMPLEX(name, S, R, lanes)                                                       \
    typedef R name##_vec __attribute__((vector_size(32)));                                     \
    /* sums += (re + i im) b; vectors by reference, as passing them depends on the CPU */      \
    MR_INLINE void name##_row(R re, R im, const name##_vec *br, const name##_vec *bi,          \
                              name##_vec *sr, name##_vec *si)                                  \
    {                                                                                          \
        *sr += re * *br;                                                                       \
        *sr -= im * *bi;                                                                       \
        *si += re * *bi;                                                                       \
        *si += im * *br;                                                                       \
    }                                                                                          \
    MR_INLINE void name##_inner(int64_t kc, const S *a_, const S *b_, S *acc)                  \
    {                                                                                          \
        const R *a = (const R *)a_, *b = (const R *)b_;                                        \
        name##_vec r0 = {0}, i0 = {0}, r1 = {0}, i1 = {0};                                     \
        name##_vec r2 = {0}, i2 = {0}, r3 = {0}, i3 = {0};                                     \
        for (int64_t k = 0; k < kc; k++, a += 2 * MR, b += 4 * lanes) {                        \
            name##_vec br = *(const name##_vec *)b, bi = *(const name##_vec *)(b + 2 * lanes); \
            name##_row(a[0], a[MR], &br, &bi, &r0, &i0);                                       \
            name##_row(a[1], a[MR + 1], &br, &bi, &r1, &i1);                                   \
            name##_row(a[2], a[MR + 2], &br, &bi, &r2, &i2);                                   \
            name##_row(a[3], a[MR + 3], &br, &bi, &r3, &i3);                                   \
        }                                                                                      \
        const name##_vec re[MR] = {r0, r1, r2, r3}, im[MR] = {i0, i1, i2, i3};                 \
        for (int i = 0; i < MR; i++)                                                           \
            for (int j = 0; j < 2 * lanes; j++)                                                \
                acc[i * 2 * lanes + j] = __builtin_complex(re[i][j], im[i][j]);                \
    }

/* ---- packing, and the loops around ---- */

typedef enum store { WRITE, ADD, SUBTRACT } store; /* what a strip's sums do to C */

/* Element i of a packed group of n; conj: conjugated. */
#define PUT_REAL(R, out, i, n, v, conj) ((out)[i] = (v), (void)(conj))
#define PUT_COMPLEX(R, out, i, n, v, conj) \
    (((R *)(out))[i] = __real__(v), ((R *)(out))[(n) + (i)] = (conj) ? -__imag__(v) : __imag__(v))

#define GEMM(clones, name, S, R, lanes, PUT)                                                     \
    /* n elements `step` apart, filled up with zeros to a group of `room` */                     \
    MR_INLINE void name##_pack(const S *from, int64_t step, int64_t n, int64_t room, bool conj,  \
                               S *out)                                                           \
    {                                                                                            \
        for (int64_t i = 0; i < n; i++)                                                          \
            PUT(R, out, i, room, from[i * step], conj);                                          \
        for (int64_t i = n; i < room; i++)                                                       \
            PUT(R, out, i, room, (S)0, false);                                                   \
    }                                                                                            \
    /* rows [k0, k0 + kc), columns [j0, j0 + nc) of op(B), in panels */                          \
    static void name##_pack_b(const mr_gemm *g, const S *b, int64_t k0, int64_t kc, int64_t j0,  \
                              int64_t nc, S *out)                                                \
    {                                                                                            \
        int64_t down = g->tb ? 1 : g->ldb, right = g->tb ? g->ldb : 1;                           \
        for (int64_t j = 0; j < nc; j += 2 * lanes) {                                            \
            const S *from = b + k0 * down + (j0 + j) * right;                                    \
            int64_t n = MR_MIN(2 * lanes, nc - j);                                               \
            for (int64_t k = 0; k < kc; k++, from += down, out += 2 * lanes)                     \
                if (n == 2 * lanes && right == 1)                                                \
                    name##_pack(from, 1, 2 * lanes, 2 * lanes, g->conj_b, out);                  \
                else                                                                             \
                    name##_pack(from, right, n, 2 * lanes, g->conj_b, out);                      \
        }                                                                                        \
    }                                                                                            \
    /* rows [i0, i0 + mc) of op(A), k from k0 on: one strip */                                   \
    static void name##_pack_a(const mr_gemm *g, const S *a, int64_t i0, int64_t mc, int64_t k0,  \
                              int64_t kc, S *out)                                                \
    {                                                                                            \
        int64_t down = g->ta ? 1 : g->lda, right = g->ta ? g->lda : 1;                           \
        const S *from = a + i0 * down + k0 * right;                                              \
        for (int64_t k = 0; k < kc; k++, from += right, out += MR)                               \
            if (mc == MR)                                                                        \
                name##_pack(from, down, MR, MR, g->conj_a, out);                                 \
            else                                                                                 \
                name##_pack(from, down, mc, MR, g->conj_a, out);                                 \
    }                                                                                            \
    static void name##_store(const S *acc, S *c, int64_t ldc, int64_t mc, int64_t nc, store how) \
    {                                                                                            \
        for (int64_t i = 0; i < mc; i++)                                                         \
            for (int64_t j = 0; j < nc; j++) {                                                   \
                S v = acc[i * 2 * lanes + j], old = how == WRITE ? 0 : c[i * ldc + j];           \
                c[i * ldc + j] = (S)(how == SUBTRACT ? old - v : old + v);                       \
            }                                                                                    \
    }                                                                                            \
    clones static void name##_strip(int64_t kc, int64_t nc, const S *a, const S *b, S *c,        \
                                    int64_t ldc, int64_t mc, store how)                          \
    {                                                                                            \
        _Alignas(64) S acc[MR * 2 * lanes];                                                      \
        for (int64_t j = 0; j < nc; j += 2 * lanes) {                                            \
            name##_inner(kc, a, b + j * kc, acc);                                                \
            name##_store(acc, c + j, ldc, mc, MR_MIN(2 * lanes, nc - j), how);                   \
        }                                                                                        \
    }                                                                                            \
    static void name##_gemm(const piece *p, void *packed)                                        \
    {                                                                                            \
        const mr_gemm *g = p->g;                                                                 \
        S *pa = packed, *pb = pa + MR * KC;                                                      \
        for (int64_t j = p->n0; j < p->n1; j += NC)                                              \
            for (int64_t k = 0; k < g->k; k += KC) {                                             \
                int64_t nc = MR_MIN(NC, p->n1 - j), kc = MR_MIN(KC, g->k - k);                   \
                store how = g->minus ? SUBTRACT : k == 0 && !g->plus ? WRITE : ADD;              \
                name##_pack_b(g, p->b, k, kc, j, nc, pb);                                        \
                for (int64_t i = p->m0; i < p->m1; i += MR) {                                    \
                    int64_t mc = MR_MIN(MR, p->m1 - i);                                          \
                    name##_pack_a(g, p->a, i, mc, k, kc, pa);                                    \
                    name##_strip(kc, nc, pa, pb, (S *)p->c + i * g->ldc + j, g->ldc, mc, how);   \
                }                                                                                \
            }                                                                                    \
    }

INNER_REAL(f64, double, 4)
INNER_REAL(i16, uint16_t, 16)
INNER_REAL(i32, uint32_t, 8)
INNER_REAL(i64, uint64_t, 4)
INNER_COMPLEX(c64, mr_c64, float, 4)
INNER_COMPLEX(c128, mr_c128, double, 2)
GEMM(MR_CLONES, f64, double, double, 4, PUT_REAL)
GEMM(, i16, uint16_t, uint16_t, 16, PUT_REAL)
GEMM(, i32, uint32_t, uint32_t, 8, PUT_REAL)
GEMM(, i64, uint64_t, uint64_t, 4, PUT_REAL)
GEMM(MR_CLONES, c64, mr_c64, float, 4, PUT_COMPLEX)
GEMM(MR_CLONES, c128, mr_c128, double, 2, PUT_COMPLEX)

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

/* ---- threads ---- */

static gemm_fn *gemm_of(mr_dtype type)
{
    switch (type) {
    case MR_DOUBLE: return f64_gemm;
    case MR_INT16: return i16_gemm;
    case MR_INT32: return i32_gemm;
    case MR_INT64: return i64_gemm;
    case MR_COMPLEX64: return c64_gemm;
    case MR_COMPLEX128: return c128_gemm;
    default: return NULL;
    }
}

bool mr_gemm_has(mr_dtype type)
{
    return type == MR_FLOAT || type == MR_HALF || type == MR_BFLOAT16 || gemm_of(type);
}

typedef struct job {
    const mr_gemm_batch *b;
    mr_allocator *alloc;
    bool small, thin;      /* algorithm for floats */
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
               (char *)j->b->c + (size_t)(batch * g->m * g->n) * bytes,
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
    } else if (g->type == MR_FLOAT) {
        mr_sgemm floats = float_piece(&p, j->thin);
        mr_sgemm_run(&floats, packed);
    } else {
        gemm_of(g->type)(&p, packed);
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
    if (g->type != MR_FLOAT) {
        j->room = (size_t)(MR * KC + KC * NC) * mr_dtype_size(g->type);
        return;
    }
    mr_sgemm whole =
        float_piece(&(piece){g, j->b->a, j->b->b, j->b->c, .m1 = g->m, .n1 = g->n}, false);
    whole.thin = j->thin = mr_sgemm_thin(&whole);
    j->small = is_small(g);
    j->room = j->small ? 0 : mr_sgemm_room(&whole);
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

static mr_status *run_batch(mr_run *r, const mr_gemm_batch *b)
{
    const mr_gemm *g = &b->one;
    job j = {.b = b, .alloc = mr_run_allocator(r)};
    choose_way(&j);
    choose_units(&j, mr_pool_shares(r->step->device->pool));
    double multiplications = (double)j.unit * (double)(j.by_cols ? g->m : g->n) * (double)g->k;
    double ns = g->type == MR_FLOAT ? 0.025 : g->type == MR_DOUBLE ? 0.1 : 0.5;
    mr_run_for(r, b->n_batch * j.n_units, multiplications * ns, multiply_part, &j);
    if (j.out_of_room)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to multiply matrices");
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
    bool narrow = g->type == MR_HALF || g->type == MR_BFLOAT16;
    bool parts = g->lda || g->ldb || g->ldc;
    bool into = g->minus || g->plus;
    MR_ENSURE(mr_gemm_has(g->type) && !((into || parts) && narrow));
    MR_ENSURE(!parts || b.n_batch == 1);
    if (b.n_batch == 0 || g->m == 0 || g->n == 0 || (g->k == 0 && into))
        return NULL;
    if (g->k == 0) { /* empty sums */
        MR_ENSURE(!parts);
        memset(b.c, 0, (size_t)(b.n_batch * g->m * g->n) * mr_dtype_size(g->type));
        return NULL;
    }
    fill_distances(g);
    return narrow ? run_wide(r, &b) : run_batch(r, &b);
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
