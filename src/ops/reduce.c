/* ops/reduce.c -- the loops of a reduction.
 *
 * Dimensions are first merged: neighbours that are both folded or both kept become one group, so groups alternate.
 * The innermost folded group and the kept group inside it form a matrix of R rows and K packed columns (K is 1 when
 * the last axis is folded): its columns are folded. The outer groups are walked: each index of a kept group gives
 * another result, each index of a folded group another matrix for the same results.
 *
 * One kind of loop does all the work, acc[j] op= x[j], which vectorises. Narrow rows are placed side by side:
 * `lanes` = m K accumulators take m rows at a time, and the m parts are joined at the end. Every FLUSH steps the
 * blocks are merged into the totals, which bounds rounding errors.
 *
 * Work is split into units (a result group and a tile of columns) and, when there are few units, also into segments
 * of rows, whose totals are joined in order: results do not depend on the number of threads. */
#include "ops/reduce.h"

#include "ops/broadcast.h"

enum {
    LANES = 512,        /* at most this many accumulators per unit; with 16 bytes each they fit L1 */
    FEW_LANES = 64,     /* for rows of moderate length: joining costs time too */
    FLUSH = 64,
    SHORT_ROW = 24,     /* packed rows up to this length are faster in a plain loop */
    MAX_SEGMENTS = 16,
};
#define SEGMENT_ELEMENTS INT64_C(65536)
#define COST_NS 0.3

typedef struct groups { /* sizes and strides (in elements), outermost first */
    int n;
    int64_t size[MR_MAX_RANK], stride[MR_MAX_RANK];
} groups;

typedef struct job {
    const mr_reducer *f;
    mr_dtype type;
    bool widen;
    const char *x;
    size_t elem_bytes; /* as stored */
    char *out;
    groups kept, folded;  /* the groups outside the matrix */
    int64_t rows, cols;   /* of the matrix: R and K */
    int64_t n_matrices;   /* the number of matrices folded together: the product of folded.size */
    int64_t tiles, tile;  /* of columns */
    int64_t units, segments, n_out, count; /* count: elements per result */
    char *partial;        /* [segments][n_out] totals; NULL when there is one segment */
} job;

/* ---- one unit ---- */

static int64_t offset_of(const groups *g, int64_t i)
{
    int64_t offset = 0;
    for (int k = g->n - 1; k >= 0; k--) {
        offset += i % g->size[k] * g->stride[k];
        i /= g->size[k];
    }
    return offset;
}

typedef struct accumulators {
    _Alignas(64) char block[LANES * 16];
    _Alignas(64) char total[LANES * 16];
    _Alignas(64) float wide[LANES];
    int64_t lanes;
    int fed; /* steps since the last flush */
} accumulators;

static void flush_block(const job *j, accumulators *a)
{
    if (a->fed == 0)
        return;
    j->f->merge(a->total, a->block, a->lanes);
    mr_splat(a->block, j->f->empty_block, j->f->block_bytes, a->lanes);
    a->fed = 0;
}

/* The n packed elements from x on, in the type of the loops. */
static const void *load_elements(const job *j, int64_t x, int64_t n, float *wide)
{
    const char *p = j->x + (size_t)x * j->elem_bytes;
    if (!j->widen)
        return p;
    mr_dtype_convert(j->type, p, MR_FLOAT, wide, n, false);
    return wide;
}

static void feed_block(const job *j, accumulators *a, int64_t x, int64_t n)
{
    j->f->add(a->block, load_elements(j, x, n, a->wide), n);
    if (++a->fed == FLUSH)
        flush_block(j, a);
}

/* Folds `rows` rows of a matrix, of which a tile of w columns begins at x. */
static void fold_matrix(const job *j, accumulators *a, int64_t x, int64_t rows, int64_t w)
{
    if (w < j->cols) { /* a tile: its rows are not adjacent */
        for (int64_t i = 0; i < rows; i++)
            feed_block(j, a, x + i * j->cols, w);
        return;
    }
    for (int64_t left = rows * w; left > 0;) {
        int64_t n = MR_MIN(left, a->lanes);
        feed_block(j, a, x, n);
        x += n;
        left -= n;
    }
}

/* The number of accumulators for rows of w columns. */
static int64_t lanes_for(const job *j, int64_t n_rows, int64_t w)
{
    if (w < j->cols)
        return w;
    int64_t most = n_rows * w < 32 * FEW_LANES ? FEW_LANES : LANES;
    return MR_MAX(w, MR_MIN(n_rows, most / w) * w);
}

/* Folds w columns over the rows [first, last), counted over all matrices of a result group; leaves the totals in
 * a->total[0..w). */
static void fold_columns(const job *j, accumulators *a, int64_t base, int64_t first, int64_t last,
                         int64_t w)
{
    const mr_reducer *f = j->f;
    a->lanes = lanes_for(j, last - first, w);
    a->fed = 0;
    mr_splat(a->block, f->empty_block, f->block_bytes, a->lanes);
    mr_splat(a->total, f->empty_total, f->total_bytes, a->lanes);
    while (first < last) {
        int64_t row = first % j->rows, n = MR_MIN(j->rows - row, last - first);
        fold_matrix(j, a, base + offset_of(&j->folded, first / j->rows) + row * j->cols, n, w);
        first += n;
    }
    flush_block(j, a);
    for (int64_t parts = a->lanes / w; parts > 1;) { /* fold one half onto the other */
        int64_t half = (parts + 1) / 2;
        f->join(a->total, a->total + (size_t)(half * w) * f->total_bytes, (parts - half) * w);
        parts = half;
    }
}

/* ---- results ---- */

static void finish_totals(const job *j, int64_t at, const void *totals, int64_t n, float *wide)
{
    char *out = j->out + (size_t)at * j->elem_bytes;
    void *to = j->widen ? (void *)wide : out;
    if (j->f->finish)
        j->f->finish(to, totals, n, j->count);
    else
        memcpy(to, totals, (size_t)n * j->f->total_bytes);
    if (j->widen)
        mr_dtype_convert(MR_FLOAT, wide, j->type, out, n, false);
}

static void store_totals(const job *j, int64_t segment, int64_t at, int64_t n, accumulators *a)
{
    if (j->partial)
        memcpy(j->partial + (size_t)(segment * j->n_out + at) * j->f->total_bytes, a->total,
               (size_t)n * j->f->total_bytes);
    else
        finish_totals(j, at, a->total, n, a->wide);
}

/* Folds packed rows, one per result, with the reducer's fold loop, in batches that fit the buffers. */
static void packed_rows_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    accumulators a;
    int64_t batch = j->widen ? MR_MIN(LANES, MR_MAX(1, LANES / j->rows)) : LANES;
    for (int64_t u = begin; u < end; u += batch) {
        int64_t n = MR_MIN(batch, end - u);
        j->f->fold(a.total, load_elements(j, u * j->rows, n * j->rows, a.wide), n, j->rows);
        finish_totals(j, u, a.total, n, a.wide);
    }
}

/* True if each result is the fold of one packed row and the rows are consecutive, so that the reducer's fold loop
 * can compute them. */
static bool are_packed_rows(const job *j)
{
    bool in_order = j->kept.n == 0 || (j->kept.n == 1 && j->kept.stride[0] == j->rows);
    int64_t longest = j->widen ? LANES : j->f->folds_long ? INT64_MAX : SHORT_ROW;
    return j->cols == 1 && j->n_matrices == 1 && j->segments == 1 && in_order && j->rows <= longest;
}

/* True if the rows of a unit are packed elements that the reducer's fold loop adds up in registers. */
static bool are_packed_units(const job *j)
{
    return j->cols == 1 && j->n_matrices == 1 && j->f->folds_long && !j->widen;
}

static void units_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    accumulators a;
    int64_t all_rows = j->rows * j->n_matrices;
    for (int64_t i = begin; i < end; i++) {
        int64_t unit = i / j->segments, segment = i % j->segments;
        int64_t group = unit / j->tiles, col = unit % j->tiles * j->tile,
                w = MR_MIN(j->tile, j->cols - col);
        /* rows * segments may overflow only for more rows than memory holds */
        int64_t base = offset_of(&j->kept, group) + col, first = all_rows / j->segments * segment;
        int64_t last = segment + 1 == j->segments ? all_rows : all_rows / j->segments * (segment + 1);
        if (are_packed_units(j))
            j->f->fold(a.total, j->x + (size_t)(base + first) * j->elem_bytes, 1, last - first);
        else
            fold_columns(j, &a, base, first, last, w);
        store_totals(j, segment, group * j->cols + col, w, &a);
    }
}

static void join_segments(const job *j)
{
    float wide[LANES];
    size_t bytes = j->f->total_bytes;
    for (int64_t s = 1; s < j->segments; s++)
        j->f->join(j->partial, j->partial + (size_t)(s * j->n_out) * bytes, j->n_out);
    for (int64_t at = 0; at < j->n_out; at += LANES)
        finish_totals(j, at, j->partial + (size_t)at * bytes, MR_MIN(LANES, j->n_out - at), wide);
}

/* ---- preparing ---- */

static void push_group(groups *g, int64_t size, int64_t stride)
{
    g->size[g->n] = size;
    g->stride[g->n++] = stride;
}

/* Merges neighbouring dimensions; the last folded group and the kept one inside it become the matrix. */
static void make_groups(job *j, int rank, const int64_t *dims, const bool *fold)
{
    groups all; /* large: not zeroed */
    bool is_fold[MR_MAX_RANK];
    all.n = 0;
    for (int d = 0; d < rank; d++) {
        if (dims[d] == 1)
            continue;
        if (all.n > 0 && is_fold[all.n - 1] == fold[d]) {
            all.size[all.n - 1] *= dims[d];
        } else {
            is_fold[all.n] = fold[d];
            push_group(&all, dims[d], 0);
        }
    }
    int64_t stride = 1;
    for (int k = all.n - 1; k >= 0; k--) {
        all.stride[k] = stride;
        stride *= all.size[k];
    }
    int last = all.n - 1;
    j->cols = last >= 0 && !is_fold[last] ? all.size[last--] : 1;
    j->rows = last >= 0 ? all.size[last--] : 1;
    j->n_matrices = 1;
    j->kept.n = j->folded.n = 0;
    for (int k = 0; k <= last; k++) {
        push_group(is_fold[k] ? &j->folded : &j->kept, all.size[k], all.stride[k]);
        j->n_matrices *= is_fold[k] ? all.size[k] : 1;
    }
}

static void cut_work(job *j)
{
    int64_t n_groups = 1;
    for (int k = 0; k < j->kept.n; k++)
        n_groups *= j->kept.size[k];
    j->tile = MR_MAX(1, MR_MIN(j->cols, LANES)); /* cols is 0 when the result is empty */
    j->tiles = (j->cols + j->tile - 1) / j->tile;
    j->units = n_groups * j->tiles;
    j->n_out = n_groups * j->cols;
    j->count = j->rows * j->n_matrices;
    j->segments = 1;
    int64_t elements_per_unit = j->count * j->tile;
    if (j->units < MAX_SEGMENTS)
        j->segments = MR_MIN(MAX_SEGMENTS, MR_MIN(j->count, elements_per_unit / SEGMENT_ELEMENTS));
    j->segments = MR_MAX(j->segments, 1);
}

static mr_status *run_units(mr_run *r, job *j)
{
    mr_allocator *alloc = mr_run_allocator(r);
    size_t bytes = (size_t)(j->segments * j->n_out) * j->f->total_bytes;
    if (j->segments > 1) { /* at most 16 * 16 * 512 totals */
        j->partial = alloc->alloc(alloc, bytes);
        if (!j->partial)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for partial results");
    }
    double cost = (double)(j->count / j->segments * j->tile) * COST_NS;
    mr_run_for(r, j->units * j->segments, cost, units_part, j);
    if (j->partial) {
        join_segments(j);
        alloc->free(alloc, j->partial, bytes);
    }
    return NULL;
}

mr_status *mr_reduce(mr_run *r, const mr_reducer *f, mr_dtype type, const void *x, int rank,
                     const int64_t *dims, const bool *fold, void *out)
{
    int64_t n;
    MR_TRY(mr_shape_elements(rank, dims, &n));
    job j; /* large: not zeroed */
    j.f = f;
    j.type = type;
    j.x = x;
    j.elem_bytes = mr_dtype_size(type);
    j.out = out;
    j.partial = NULL;
    j.widen = type == MR_HALF || type == MR_BFLOAT16;
    MR_ASSERT(f->x_bytes == (j.widen ? sizeof(float) : j.elem_bytes) && f->total_bytes <= 16);
    make_groups(&j, rank, dims, fold);
    cut_work(&j);
    if (j.n_out == 0)
        return NULL;
    if (n == 0) { /* only empty sets */
        char total[LANES * 16];
        float wide[LANES];
        mr_splat(total, f->empty_total, f->total_bytes, MR_MIN(j.n_out, LANES));
        for (int64_t at = 0; at < j.n_out; at += LANES)
            finish_totals(&j, at, total, MR_MIN(LANES, j.n_out - at), wide);
        return NULL;
    }
    if (are_packed_rows(&j)) {
        mr_run_for(r, j.units, (double)j.rows * COST_NS + 4, packed_rows_part, &j);
        return NULL;
    }
    return run_units(r, &j);
}

/* ---- as an op ---- */

mr_status *mr_reduce_axes(const mr_tensor *axes, int rank, bool *fold)
{
    memset(fold, 0, (size_t)rank * sizeof *fold);
    if (axes->rank > 1)
        return mr_invalid(
            "Invalid reduction arguments: axes must be a scalar or vector, got shape %s",
            MR_TENSOR_SHAPE(axes));
    for (int64_t i = 0; i < axes->n; i++) {
        int64_t axis = mr_tensor_int_at(axes, i);
        if (axis < -rank || axis >= rank)
            return mr_invalid("Invalid reduction dimension (%lld for input with %d dimension(s)",
                              (long long)axis, rank);
        axis += axis < 0 ? rank : 0;
        if (fold[axis])
            return mr_invalid(
                "Invalid reduction arguments: Axes contains duplicate dimension: %lld",
                (long long)axis);
        fold[axis] = true;
    }
    return NULL;
}

/* True if folding changes only the shape, because it folds dimensions of size 1 or none. */
static bool is_reshape(const mr_tensor *x, const bool *fold)
{
    for (int d = 0; d < x->rank; d++)
        if (fold[d] && x->dims[d] != 1)
            return false;
    return true;
}

mr_status *mr_reduce_run(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    bool fold[MR_MAX_RANK], keep_dims;
    MR_TRY(mr_reduce_axes(mr_in(r, 1), x->rank, fold));
    MR_TRY(mr_node_get_bool(r->node, "keep_dims", &keep_dims));
    mr_shape shape;
    shape.rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (!fold[d] || keep_dims)
            shape.dims[shape.rank++] = fold[d] ? 1 : x->dims[d];
    if (is_reshape(x, fold))
        return mr_run_reshape(r, 0, 0, shape.rank, shape.dims);
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &y));
    return mr_reduce(r, r->kernel->user, (mr_dtype)x->dtype, x->data, x->rank, x->dims, fold,
                     y->data);
}
