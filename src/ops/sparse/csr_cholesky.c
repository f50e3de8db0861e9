/* ops/sparse/csr_cholesky.c -- SparseMatrixOrderingAMD, SparseMatrixSparseCholesky.
 *
 * The ordering is a minimum degree ordering on the quotient graph: an eliminated node becomes an element
 * that represents the clique of its neighbours, and elements adjacent to it are absorbed, so fill is
 * never stored.  Degrees are upper bounds, as in AMD (Amestoy, Davis and Duff).  The factorization goes
 * row by row (up-looking), along the elimination tree. */
#include <stdlib.h>

#include "base/memory.h"
#include "ops/maths.h"
#include "ops/sparse/csr.h"
#include "ops/sparse/sparse.h"

/* ---- ordering ---- */

typedef struct list {
    int32_t *p;
    int64_t n;
} list;

/* A node's slot holds its remaining neighbours, then the elements it belongs to; their total number never
 * grows. */
typedef struct quotient {
    int64_t n;
    int32_t *room; /* the memory of all slots */
    list *near, *elements;
    list *members; /* the members of an eliminated node's element; p is NULL if there is none, or it is absorbed */
    int64_t *degree;
    int64_t *mark; /* the last stamp that each node got */
    int64_t stamp;
    bool *gone;
    int64_t *heap, heap_n; /* pairs of degree and node, some of them stale */
    int64_t heap_cap;
} quotient;

static void quotient_deinit(quotient *q)
{
    for (int64_t i = 0; q->members && i < q->n; i++)
        mr_free(q->members[i].p);
    mr_free(q->room);
    mr_free(q->near);
    mr_free(q->elements);
    mr_free(q->members);
    mr_free(q->degree);
    mr_free(q->mark);
    mr_free(q->gone);
    mr_free(q->heap);
}

static bool heap_before(const quotient *q, int64_t a, int64_t b)
{
    const int64_t *x = q->heap + 2 * a, *y = q->heap + 2 * b;
    return x[0] != y[0] ? x[0] < y[0] : x[1] < y[1];
}

static void heap_swap(quotient *q, int64_t a, int64_t b)
{
    for (int i = 0; i < 2; i++) {
        int64_t t = q->heap[2 * a + i];
        q->heap[2 * a + i] = q->heap[2 * b + i];
        q->heap[2 * b + i] = t;
    }
}

static mr_status *heap_push(quotient *q, int64_t degree, int64_t node)
{
    if (q->heap_n == q->heap_cap) {
        int64_t cap = 2 * q->heap_cap + 64;
        int64_t *heap = mr_try_realloc(q->heap, (size_t)cap * 2 * sizeof *heap);
        if (!heap)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to order %lld rows", (long long)q->n);
        q->heap = heap;
        q->heap_cap = cap;
    }
    int64_t at = q->heap_n++;
    q->heap[2 * at] = degree;
    q->heap[2 * at + 1] = node;
    for (; at > 0 && heap_before(q, at, (at - 1) / 2); at = (at - 1) / 2)
        heap_swap(q, at, (at - 1) / 2);
    return NULL;
}

static int64_t heap_pop(quotient *q)
{
    int64_t node = q->heap[1];
    heap_swap(q, 0, --q->heap_n);
    for (int64_t at = 0;;) {
        int64_t least = at;
        for (int64_t k = 2 * at + 1; k <= 2 * at + 2 && k < q->heap_n; k++)
            if (heap_before(q, k, least))
                least = k;
        if (least == at)
            return node;
        heap_swap(q, at, least);
        at = least;
    }
}

/* Adds node i to the list, unless it is eliminated or already in it. */
static void take_node(quotient *q, list *out, int32_t i)
{
    if (q->gone[i] || q->mark[i] == q->stamp)
        return;
    q->mark[i] = q->stamp;
    out->p[out->n++] = i;
}

/* Collects the neighbours of p: its own and the members of its elements, which it absorbs. */
static mr_status *gather_neighbours(quotient *q, int64_t p, list *out)
{
    int64_t most = q->near[p].n;
    for (int64_t e = 0; e < q->elements[p].n; e++)
        most += q->members[q->elements[p].p[e]].n;
    *out = (list){mr_try_alloc((size_t)(most + 1) * sizeof(int32_t)), 0};
    if (!out->p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to order %lld rows", (long long)q->n);
    q->stamp++;
    q->gone[p] = true;
    for (int64_t k = 0; k < q->near[p].n; k++)
        take_node(q, out, q->near[p].p[k]);
    for (int64_t e = 0; e < q->elements[p].n; e++) {
        list *m = &q->members[q->elements[p].p[e]];
        for (int64_t k = 0; k < m->n; k++)
            take_node(q, out, m->p[k]);
        mr_free(m->p);
        *m = (list){0};
    }
    return NULL;
}

/* Updates node i, a member of the new element p: drops its neighbours that are in p, and elements that were
 * absorbed. */
static void update_member(quotient *q, int64_t i, int64_t p)
{
    list *near = &q->near[i], *elements = &q->elements[i];
    int32_t *slot = near->p;
    int64_t n = 0, n_elements = 0, degree = q->members[p].n - 1;
    for (int64_t k = 0; k < near->n; k++)
        if (!q->gone[near->p[k]] && q->mark[near->p[k]] != q->stamp)
            slot[n++] = near->p[k];
    for (int64_t e = 0; e < elements->n; e++)
        if (q->members[elements->p[e]].p) {
            degree += q->members[elements->p[e]].n - 1;
            slot[n + n_elements++] = elements->p[e];
        }
    slot[n + n_elements++] = (int32_t)p;
    *near = (list){slot, n};
    *elements = (list){slot + n, n_elements};
    q->degree[i] = MR_MIN(degree + n, q->n - 1);
}

static mr_status *eliminate_node(quotient *q, int64_t p)
{
    list members;
    MR_TRY(gather_neighbours(q, p, &members));
    q->members[p] = members;
    for (int64_t k = 0; k < members.n; k++) {
        int64_t i = members.p[k], was = q->degree[i];
        update_member(q, i, p);
        if (q->degree[i] != was)
            MR_TRY(heap_push(q, q->degree[i], i));
    }
    return NULL;
}

/* Collects the neighbours of each row from the entries on both sides of the diagonal, without the
 * diagonal. */
static mr_status *quotient_init(quotient *q, const mr_csr *m, int64_t b)
{
    size_t n = (size_t)m->rows + 1;
    int64_t total = 2 * (MR_DATA(const int32_t, m->batch_ptrs)[b + 1] -
                         MR_DATA(const int32_t, m->batch_ptrs)[b]),
            at = 0;
    q->n = m->rows;
    q->room = mr_try_alloc((size_t)(total + m->rows + 1) * sizeof *q->room);
    q->near = mr_try_calloc(n, sizeof *q->near);
    q->elements = mr_try_calloc(n, sizeof *q->elements);
    q->members = mr_try_calloc(n, sizeof *q->members);
    q->degree = mr_try_calloc(n, sizeof *q->degree);
    q->mark = mr_try_calloc(n, sizeof *q->mark);
    q->gone = mr_try_calloc(n, sizeof *q->gone);
    if (!q->room || !q->near || !q->elements || !q->members || !q->degree || !q->mark || !q->gone)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to order %lld rows", (long long)m->rows);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t k = mr_csr_begin(m, b, i); k < mr_csr_end(m, b, i); k++) {
            q->near[i].n++;
            q->near[mr_csr_col(m, k)].n++;
        }
    for (int64_t i = 0; i < m->rows;
         i++) { /* one place more than neighbours, for the first element of a node without any */
        q->near[i].p = q->room + at;
        at += q->near[i].n + 1;
        q->near[i].n = 0;
    }
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t k = mr_csr_begin(m, b, i); k < mr_csr_end(m, b, i); k++) {
            int64_t c = mr_csr_col(m, k);
            q->near[i].p[q->near[i].n++] = (int32_t)c;
            q->near[c].p[q->near[c].n++] = (int32_t)i;
        }
    return NULL;
}

/* Removes repeated neighbours and the node itself. */
static void clean_neighbours(quotient *q, int64_t i)
{
    list *near = &q->near[i];
    int64_t n = 0;
    q->stamp++;
    q->mark[i] = q->stamp;
    for (int64_t k = 0; k < near->n; k++)
        if (q->mark[near->p[k]] != q->stamp) {
            q->mark[near->p[k]] = q->stamp;
            near->p[n++] = near->p[k];
        }
    near->n = n;
    q->elements[i] = (list){near->p + n, 0};
    q->degree[i] = n;
}

static mr_status *order_one(const mr_csr *m, int64_t b, int32_t *out)
{
    quotient q = {0};
    int64_t n = 0;
    mr_status *st = NULL;
    MR_GO(quotient_init(&q, m, b));
    for (int64_t i = 0; i < q.n; i++) {
        clean_neighbours(&q, i);
        MR_GO(heap_push(&q, q.degree[i], i));
    }
    while (n < q.n) {
        int64_t degree = q.heap[0], p = heap_pop(&q);
        if (q.gone[p] || q.degree[p] != degree)
            continue; /* stale: its degree has changed */
        out[n++] = (int32_t)p;
        MR_GO(eliminate_node(&q, p));
    }
out:
    quotient_deinit(&q);
    return st;
}

static mr_status *run_order(mr_run *r)
{
    const mr_csr *m;
    mr_tensor *out;
    MR_TRY(mr_csr_read(r, 0, 0, &m));
    if (m->rows != m->cols)
        return mr_invalid("sparse matrix must be square; got: %lld != %lld", (long long)m->rows,
                          (long long)m->cols);
    int64_t dims[] = {m->batch, m->rows};
    MR_TRY(mr_run_output(r, 0, m->rank - 1, m->rank == 3 ? dims : dims + 1, &out));
    for (int64_t b = 0; b < m->batch; b++)
        MR_TRY(order_one(m, b, MR_DATA(int32_t, out) + b * m->rows));
    return NULL;
}

#define ARROW "m = SparseTensorToCSRSparseMatrix T=float: [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 2]], float[4, 1, 2, 1, 5, 2, 6], [3, 3]; "

MR_OP(SparseMatrixOrderingAMD,
    .doc      = "an order of rows and columns in which a sparse Cholesky factor stays sparse: minimum degree first",
    .sig      = "input: variant -> output: int32",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_order)),
    .examples = MR_EXAMPLES(ARROW ": m -> [1, 0, 2]", "m = SparseMatrixZeros type=double: [2, 2, 2]; : m -> [[0, 1], [0, 1]]",
                            "m = SparseMatrixZeros type=double: [0, 0]; : m -> shape(0)",
                            "m = SparseMatrixZeros type=double: [2, 3]; : m -> !INVALID_ARGUMENT sparse matrix must be square"));

/* ---- factorization ---- */

typedef struct factor {
    int64_t n;
    const int32_t *order;
    int64_t *place;     /* position of an old row in the new order */
    int64_t *row_begin; /* entries of the permuted matrix's lower half, by row */
    int32_t *col;
    mr_c128 *value;
    int64_t *parent, *mark;
    int64_t *col_end; /* next free entry of each column of L */
    int64_t *col_begin;
    int32_t *l_row; /* L by columns */
    mr_c128 *l_value;
    double *diagonal;
    int64_t *pattern; /* columns of the current row */
    mr_c128 *x;
} factor;

static void factor_deinit(factor *f)
{
    mr_free(f->place);
    mr_free(f->row_begin);
    mr_free(f->col);
    mr_free(f->value);
    mr_free(f->parent);
    mr_free(f->mark);
    mr_free(f->col_end);
    mr_free(f->col_begin);
    mr_free(f->l_row);
    mr_free(f->l_value);
    mr_free(f->diagonal);
    mr_free(f->pattern);
    mr_free(f->x);
}

static mr_status *read_order(factor *f)
{
    for (int64_t i = 0; i < f->n; i++)
        f->place[i] = -1;
    for (int64_t i = 0; i < f->n; i++) {
        int32_t p = f->order[i];
        if (p < 0 || p >= f->n || f->place[p] >= 0)
            return mr_invalid(
                "permutation must contain each number in [0, %lld) exactly once: entry %lld is %d",
                (long long)f->n, (long long)i, p);
        f->place[p] = i;
    }
    return NULL;
}

/* Permutes the lower half of the matrix: entry (i, k) goes to (place[i], place[k]), or conjugated to the
 * transposed place if that is above the diagonal. */
static void permute_matrix(factor *f, const mr_csr *m, const mr_c128 *values, int64_t b)
{
    int64_t *count = f->col_end; /* col_end is not used yet */
    memset(f->row_begin, 0, (size_t)(f->n + 1) * sizeof(int64_t));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < f->n; i++)
            for (int64_t k = mr_csr_begin(m, b, i);
                 k < mr_csr_end(m, b, i) && mr_csr_col(m, k) <= i; k++) {
                int64_t x = f->place[i], y = f->place[mr_csr_col(m, k)], row = MR_MAX(x, y);
                if (pass == 0) {
                    f->row_begin[row + 1]++;
                    continue;
                }
                int64_t to = count[row]++;
                f->col[to] = (int32_t)MR_MIN(x, y);
                f->value[to] = x >= y ? values[k] : conj(values[k]);
            }
        for (int64_t i = 0; pass == 0 && i < f->n; i++) {
            f->row_begin[i + 1] += f->row_begin[i];
            count[i] = f->row_begin[i];
        }
    }
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The columns of row k of L: the row's entries and their ancestors in the elimination tree. */
static int64_t row_pattern(factor *f, int64_t k)
{
    int64_t n = 0;
    f->mark[k] = k;
    for (int64_t e = f->row_begin[k]; e < f->row_begin[k + 1]; e++)
        for (int64_t i = f->col[e]; i >= 0 && i < k && f->mark[i] != k; i = f->parent[i]) {
            f->mark[i] = k;
            f->pattern[n++] = i;
        }
    qsort(f->pattern, (size_t)n, sizeof *f->pattern, by_number);
    return n;
}

/* Computes the elimination tree (a column's parent is the first row below it that has an entry in L) and
 * the sizes of L's columns. */
static mr_status *analyse_columns(factor *f, int64_t *entries)
{
    *entries = 0;
    for (int64_t i = 0; i < f->n; i++) {
        f->parent[i] = -1;
        f->mark[i] = -1;
        f->col_begin[i + 1] = 0;
    }
    f->col_begin[0] = 0;
    for (int64_t k = 0; k < f->n; k++) {
        f->mark[k] = k;
        for (int64_t e = f->row_begin[k]; e < f->row_begin[k + 1]; e++)
            for (int64_t i = f->col[e]; i < k && f->mark[i] != k; i = f->parent[i]) {
                if (f->parent[i] < 0)
                    f->parent[i] = k;
                f->mark[i] = k;
                f->col_begin[i + 1]++;
                ++*entries;
            }
        if (*entries > INT32_MAX / 2)
            return mr_invalid("the Cholesky factor has too many entries for int32 indices");
    }
    for (int64_t i = 0; i < f->n; i++) {
        f->col_begin[i + 1] += f->col_begin[i];
        f->col_end[i] = f->col_begin[i];
        f->mark[i] = -1;
    }
    return NULL;
}

/* Computes row k of L and adds it to the builder; *ok is false if the matrix is not positive definite. */
static mr_status *factor_row(factor *f, int64_t k, mr_csr_builder *out, bool *ok)
{
    int64_t n = row_pattern(f, k);
    double d = 0;
    f->x[k] = 0;
    for (int64_t e = f->row_begin[k]; e < f->row_begin[k + 1]; e++)
        f->x[f->col[e]] += f->value[e];
    d = creal(f->x[k]);
    f->x[k] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t col = f->pattern[i];
        mr_c128 v = f->x[col] / f->diagonal[col];
        f->x[col] = 0;
        for (int64_t e = f->col_begin[col]; e < f->col_end[col]; e++)
            f->x[f->l_row[e]] -= v * conj(f->l_value[e]);
        d -= creal(v) * creal(v) + cimag(v) * cimag(v);
        f->l_row[f->col_end[col]] = (int32_t)k;
        f->l_value[f->col_end[col]++] = v;
        MR_TRY(mr_csr_push(out, col, v));
    }
    *ok = d > 0 && isfinite(d);
    f->diagonal[k] = *ok ? sqrt(d) : 1;
    MR_TRY(mr_csr_push(out, k, f->diagonal[k]));
    mr_csr_end_row(out);
    return NULL;
}

static mr_status *factor_init(factor *f, int64_t n, int64_t entries)
{
    size_t rows = (size_t)n + 1;
    f->n = n;
    f->place = mr_try_calloc(rows, sizeof *f->place);
    f->row_begin = mr_try_calloc(rows, sizeof *f->row_begin);
    f->col = mr_try_calloc((size_t)entries + 1, sizeof *f->col);
    f->value = mr_try_calloc((size_t)entries + 1, sizeof *f->value);
    f->parent = mr_try_calloc(rows, sizeof *f->parent);
    f->mark = mr_try_calloc(rows, sizeof *f->mark);
    f->col_end = mr_try_calloc(rows, sizeof *f->col_end);
    f->col_begin = mr_try_calloc(rows, sizeof *f->col_begin);
    f->diagonal = mr_try_calloc(rows, sizeof *f->diagonal);
    f->pattern = mr_try_calloc(rows, sizeof *f->pattern);
    f->x = mr_try_calloc(rows, sizeof *f->x);
    bool all = f->place && f->row_begin && f->col && f->value && f->parent && f->mark &&
               f->col_end && f->col_begin && f->diagonal && f->pattern && f->x;
    return all ? NULL
               : mr_error(MR_RESOURCE_EXHAUSTED, "no memory to factor a matrix of %lld rows",
                          (long long)n);
}

static mr_status *factor_one(const mr_csr *m, const mr_c128 *values, int64_t b,
                             const int32_t *order, mr_csr_builder *out)
{
    factor f = {.order = order};
    int64_t entries;
    bool ok = true;
    mr_status *st = NULL;
    MR_GO(factor_init(&f, m->rows,
                      MR_DATA(const int32_t, m->batch_ptrs)[b + 1] -
                          MR_DATA(const int32_t, m->batch_ptrs)[b]));
    MR_GO(read_order(&f));
    permute_matrix(&f, m, values, b);
    MR_GO(analyse_columns(&f, &entries));
    f.l_row = mr_try_alloc(((size_t)entries + 1) * sizeof *f.l_row);
    f.l_value = mr_try_alloc(((size_t)entries + 1) * sizeof *f.l_value);
    if (!f.l_row || !f.l_value)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a factor of %lld entries",
                       (long long)entries));
    for (int64_t k = 0; k < f.n && ok; k++)
        MR_GO(factor_row(&f, k, out, &ok));
    if (!ok)
        st = mr_invalid("Sparse Cholesky factorization failed for batch index %lld. The input "
                        "might not be valid.",
                        (long long)b);
out:
    factor_deinit(&f);
    return st;
}

static mr_status *run_cholesky(mr_run *r)
{
    const mr_csr *m;
    const mr_tensor *order = mr_in(r, 1);
    mr_c128 *values = NULL;
    mr_csr_builder build = {0};
    mr_csr *out;
    mr_status *st = NULL;
    MR_TRY(mr_csr_read(r, 0, *(const mr_dtype *)r->state, &m));
    if (m->rows != m->cols)
        return mr_invalid("sparse matrix must be square; got: %lld != %lld", (long long)m->rows,
                          (long long)m->cols);
    if (order->rank != m->rank - 1 || order->dims[order->rank - 1] != m->rows ||
        (m->rank == 3 && order->dims[0] != m->batch))
        return mr_invalid(
            "permutation must have an entry for each row of the sparse matrix; got shape: %s",
            MR_TENSOR_SHAPE(order));
    MR_GO(mr_csr_wide(m, &values));
    MR_GO(mr_csr_builder_init(&build, m->batch * m->rows));
    for (int64_t b = 0; b < m->batch; b++)
        MR_GO(factor_one(m, values, b, MR_DATA(const int32_t, order) + b * m->rows, &build));
    MR_GO(mr_csr_build(&build, mr_run_allocator(r), m->type, m->rank, m->batch, m->rows, m->cols,
                       &out));
    st = mr_csr_give(r, 0, out);
out:
    mr_free(values);
    mr_csr_builder_deinit(&build);
    return st;
}

static mr_status *type_init(mr_make *m, void *state)
{
    return mr_node_get_type(m->node, "type", state);
}

static mr_status *cholesky_shape(mr_infer *c)
{
    const mr_pshape *order = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &order));
    MR_TRY(mr_infer_rank_at_most(c, order, 2, &order));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

MR_OP(SparseMatrixSparseCholesky,
    .doc      = "the lower Cholesky factor of a sparse matrix whose rows and columns are permuted first",
    .sig      = "input: variant, permutation: int32 -> output: variant",
    .attrs    = "type: {float, double, complex64, complex128}",
    .flags    = MR_NO_GRADIENT,
    .shape    = cholesky_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_cholesky)),
    .state_bytes = sizeof(mr_dtype), .init = type_init,
    .examples = MR_EXAMPLES(
        "m = SparseTensorToCSRSparseMatrix T=$T: [[0, 0], [1, 0], [1, 1]], [4, 2, 5], [2, 2]; : m, [0, 1] -> shape()",
        "m = SparseMatrixZeros type=$T: [2, 2]; : m, [0, 1] -> !INVALID_ARGUMENT Sparse Cholesky factorization failed for batch index 0.",
        "m = SparseMatrixZeros type=$T: [2, 2]; : m, [0, 0] -> !INVALID_ARGUMENT each number in [0, 2) exactly once",
        "m = SparseMatrixZeros type=$T: [2, 2]; : m, [0] -> !INVALID_ARGUMENT permutation must have an entry for each row"));
