/* ops/sparse/csr_math.c -- arithmetic on sparse matrices: SparseMatrixTranspose, Add, Mul, MatMul,
 * SparseMatMul, Softmax and its gradient.  Sums are computed in complex128, which can represent the values
 * of every type. */
#include <stdlib.h>

#include "base/memory.h"
#include "ops/array/layout.h"
#include "ops/maths.h"
#include "ops/sparse/csr.h"
#include "ops/sparse/sparse.h"

#define FIELD "{float, double, complex64, complex128}"
#define FIELDS(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)

static mr_status *variant_scalar(mr_infer *c)
{
    mr_infer_out_scalar(c, 0);
    return NULL;
}

/* Reads the attr `type` once. */
static mr_status *type_init(mr_make *m, void *state)
{
    return mr_node_get_type(m->node, "type", state);
}

/* Creates a matrix with the same entries as a; their values are not set. */
static mr_status *copy_pattern(const mr_csr *a, mr_allocator *alloc, mr_csr **out)
{
    MR_TRY(mr_csr_new(alloc, a->type, a->rank, a->batch, a->rows, a->cols, a->nnz, out));
    memcpy((*out)->batch_ptrs->data, a->batch_ptrs->data, mr_tensor_bytes(a->batch_ptrs));
    memcpy((*out)->row_ptrs->data, a->row_ptrs->data, mr_tensor_bytes(a->row_ptrs));
    if (a->nnz > 0)
        memcpy((*out)->col_inds->data, a->col_inds->data, (size_t)a->nnz * sizeof(int32_t));
    return NULL;
}

/* ---- transposing ---- */

/* A counting sort by column: within a row of the result, columns increase, because rows increased before. */
static mr_status *transpose_csr(const mr_csr *a, bool conjugate, mr_allocator *alloc, mr_csr **out)
{
    MR_TRY(mr_csr_new(alloc, a->type, a->rank, a->batch, a->cols, a->rows, a->nnz, out));
    int32_t *ptrs = (*out)->row_ptrs->data, *cols = (*out)->col_inds->data, *next;
    mr_c128 *wide = NULL, *moved = NULL;
    mr_status *st = NULL;
    next = mr_try_alloc(((size_t)a->cols + 1) * sizeof *next);
    moved = mr_try_alloc(((size_t)a->nnz + 1) * sizeof *moved);
    if (!next || !moved)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory to transpose %lld entries",
                       (long long)a->nnz));
    MR_GO(mr_csr_wide(a, &wide));
    memcpy((*out)->batch_ptrs->data, a->batch_ptrs->data, mr_tensor_bytes(a->batch_ptrs));
    for (int64_t b = 0; b < a->batch; b++) {
        int32_t *p = ptrs + b * (a->cols + 1), base = MR_DATA(const int32_t, a->batch_ptrs)[b];
        for (int64_t k = base; k < MR_DATA(const int32_t, a->batch_ptrs)[b + 1]; k++)
            p[mr_csr_col(a, k) + 1]++;
        for (int64_t i = 0; i < a->cols; i++)
            p[i + 1] += p[i];
        memcpy(next, p, (size_t)a->cols * sizeof *next);
        for (int64_t i = 0; i < a->rows; i++)
            for (int64_t k = mr_csr_begin(a, b, i); k < mr_csr_end(a, b, i); k++) {
                int32_t to = base + next[mr_csr_col(a, k)]++;
                cols[to] = (int32_t)i;
                moved[to] = conjugate ? conj(wide[k]) : wide[k];
            }
    }
    mr_dtype_convert(MR_COMPLEX128, moved, a->type, (*out)->values->data, a->nnz, false);
out:
    mr_free(next);
    mr_free(moved);
    mr_free(wide);
    if (st) {
        mr_object_unref(&(*out)->base);
        *out = NULL;
    }
    return st;
}

typedef struct transpose_state {
    mr_dtype type;
    bool conjugate;
} transpose_state;

static mr_status *transpose_init(mr_make *m, void *p)
{
    transpose_state *s = p;
    MR_TRY(mr_node_get_type(m->node, "type", &s->type));
    return mr_node_get_bool(m->node, "conjugate", &s->conjugate);
}

static mr_status *run_transpose(mr_run *r)
{
    const transpose_state *s = r->state;
    const mr_csr *a;
    mr_csr *out;
    MR_TRY(mr_csr_read(r, 0, s->type, &a));
    MR_TRY(transpose_csr(a, s->conjugate, mr_run_allocator(r), &out));
    return mr_csr_give(r, 0, out);
}

static void transpose_backward(mr_grad *g)
{
    mr_dxi(g, 0,
           mr_emit_like(g, "SparseMatrixTranspose", "conjugate type", (mr_out[]){mr_dyi(g, 0)}, 1));
}

#define MATRIX(name, values) name " = SparseTensorToCSRSparseMatrix T=$T: [[0, 1], [1, 0], [1, 1]], " values ", [2, 2]; "

MR_OP(SparseMatrixTranspose,
    .doc      = "a sparse matrix transposed, perhaps conjugated",
    .sig      = "input: variant -> output: variant",
    .attrs    = "conjugate: bool = false; type: " FIELD,
    .shape    = variant_scalar,
    .grad     = transpose_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_transpose)),
    .state_bytes = sizeof(transpose_state), .init = transpose_init,
    .examples = MR_EXAMPLES(MATRIX("a", "[3, 4, 5]") ": a -> shape()", MATRIX("a", "[3, 4, 5]") "conjugate=true: a -> shape()",
                            "a = SparseMatrixZeros type=float: [2, 3]; type=double: a -> !INVALID_ARGUMENT is not equal to 'type'"));

/* ---- adding ---- */

static mr_status *scalar_of(const mr_tensor *t, const char *what, mr_c128 *out)
{
    if (t->rank != 0)
        return mr_invalid("Expected %s to be a scalar, got shape %s", what, MR_TENSOR_SHAPE(t));
    mr_dtype_convert((mr_dtype)t->dtype, t->data, MR_COMPLEX128, out, 1, false);
    return NULL;
}

static mr_status *run_add(mr_run *r)
{
    const mr_csr *a, *b;
    mr_c128 alpha = 0, beta = 0;
    mr_csr *out;
    mr_dtype type = (mr_dtype)mr_in(r, 2)->dtype;
    MR_TRY(mr_csr_read(r, 0, type, &a));
    MR_TRY(mr_csr_read(r, 1, type, &b));
    MR_TRY(scalar_of(mr_in(r, 2), "alpha", &alpha));
    MR_TRY(scalar_of(mr_in(r, 3), "beta", &beta));
    MR_TRY(mr_csr_add(a, b, alpha, beta, mr_run_allocator(r), &out));
    return mr_csr_give(r, 0, out);
}

static mr_status *add_shape(mr_infer *c)
{
    const mr_pshape *scalar;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &scalar));
    MR_TRY(mr_infer_rank(c, c->in[3], 0, &scalar));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

/* Removes the entries of v that are not in the pattern. */
static mr_out prune_to_pattern(mr_grad *g, mr_out v, mr_out pattern, mr_attr type)
{
    mr_out indices =
        mr_emit_with(g->s, "CSRSparseMatrixToSparseTensor", MR_ATTRS({"type", type}), pattern);
    return mr_emit(g->s, "DenseToCSRSparseMatrix",
                   mr_emit_with(g->s, "CSRSparseMatrixToDense", MR_ATTRS({"type", type}), v),
                   indices);
}

static void add_backward(mr_grad *g)
{
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(mr_xi(g, 2))));
    for (int i = 0; i < 2; i++)
        mr_dxi(g, i,
               mr_emit(g->s, "SparseMatrixMul", prune_to_pattern(g, mr_dyi(g, 0), mr_xi(g, i), type),
                       mr_conj(g, mr_xi(g, 2 + i))));
}

MR_OP(SparseMatrixAdd,
    .doc      = "alpha a + beta b for sparse matrices",
    .sig      = "a: variant, b: variant, alpha: T, beta: T -> c: variant",
    .attrs    = "T: " FIELD,
    .shape    = add_shape,
    .grad     = add_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_add)),
    .examples = MR_EXAMPLES(
        MATRIX("a", "[3, 4, 5]") "b = SparseMatrixZeros type=$T: [2, 2]; nograd: a, b, 1, 2 -> shape()",
        "a = SparseMatrixZeros type=$T: [2, 2]; b = SparseMatrixZeros type=$T: [2, 3]; : a, b, 1, 1 -> !INVALID_ARGUMENT differ in type or shape"));

/* ---- multiplying elements ---- */

/* Multiplies by a scalar, or each matrix of a batch by one of the numbers [batch, 1, 1]. */
static mr_status *run_mul(mr_run *r)
{
    const mr_tensor *by = mr_in(r, 1);
    const mr_csr *a;
    mr_csr *out;
    mr_c128 *values, *factors = NULL;
    MR_TRY(mr_csr_read(r, 0, (mr_dtype)by->dtype, &a));
    if (by->rank != 0 && (a->rank != 3 || by->rank != 3 || by->dims[0] != a->batch ||
                          by->dims[1] != 1 || by->dims[2] != 1))
        return mr_error(MR_UNIMPLEMENTED,
                        "b must be a scalar, or for a batch of matrices have shape [batch, 1, 1]; "
                        "it has type %s and shape %s",
                        mr_dtype_name(by->dtype), MR_TENSOR_SHAPE(by));
    MR_TRY(mr_csr_wide(a, &values));
    mr_status *st = NULL;
    factors = mr_try_alloc(((size_t)by->n + 1) * sizeof *factors);
    if (!factors)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld factors", (long long)by->n));
    mr_dtype_convert((mr_dtype)by->dtype, by->data, MR_COMPLEX128, factors, by->n, false);
    const int32_t *ptrs = a->batch_ptrs->data;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t k = ptrs[b]; k < ptrs[b + 1]; k++)
            values[k] *= factors[by->rank ? b : 0];
    MR_GO(copy_pattern(a, mr_run_allocator(r), &out));
    mr_dtype_convert(MR_COMPLEX128, values, a->type, out->values->data, a->nnz, false);
    st = mr_csr_give(r, 0, out);
out:
    mr_free(values);
    mr_free(factors);
    return st;
}

MR_OP(SparseMatrixMul,
    .doc      = "a sparse matrix times a number, or a batch of them times one each",
    .sig      = "a: variant, b: T -> output: variant",
    .attrs    = "T: type",
    .shape    = variant_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_mul, FIELDS)),
    .examples = MR_EXAMPLES(
        MATRIX("a", "[3, 4, 5]") ": a, 2 -> shape()", "a = SparseMatrixZeros type=$T: [2, 2, 2]; : a, [[[1]], [[2]]] -> shape()",
        MATRIX("a", "[3, 4, 5]") ": a, [1, 2] -> !UNIMPLEMENTED must be a scalar",
        "a = SparseMatrixZeros type=float: [2, 2]; T=float: a, 2 -> shape()"));

/* ---- products ---- */

typedef struct ops_of {  /* how the operands and the result are changed */
    bool ta, tb, ca, cb; /* transposed, conjugated */
    bool t_out, c_out;
    mr_dtype type;
} ops_of;

static mr_status *read_ops(const mr_node *n, ops_of *o)
{
    bool adjoint_a, adjoint_b;
    MR_TRY(mr_node_get_bool(n, "transpose_a", &o->ta));
    MR_TRY(mr_node_get_bool(n, "transpose_b", &o->tb));
    MR_TRY(mr_node_get_bool(n, "adjoint_a", &adjoint_a));
    MR_TRY(mr_node_get_bool(n, "adjoint_b", &adjoint_b));
    if ((adjoint_a && o->ta) || (adjoint_b && o->tb))
        return mr_invalid("Only one of adjoint_%s and transpose_%s may be true.",
                          adjoint_a && o->ta ? "a" : "b", adjoint_a && o->ta ? "a" : "b");
    o->ca = adjoint_a;
    o->cb = adjoint_b;
    o->ta |= adjoint_a;
    o->tb |= adjoint_b;
    return NULL;
}

static mr_status *dense_init(mr_make *m, void *p)
{
    ops_of *o = p;
    MR_TRY(read_ops(m->node, o));
    MR_TRY(mr_node_get_bool(m->node, "transpose_output", &o->t_out));
    return mr_node_get_bool(m->node, "conjugate_output", &o->c_out);
}

static mr_status *sparse_init(mr_make *m, void *p)
{
    ops_of *o = p;
    MR_TRY(read_ops(m->node, o));
    return mr_node_get_type(m->node, "type", &o->type);
}

/* One matrix of the product: out[i, j] += a[i, k] op(b)[k, j], by entries of a. */
typedef struct dense_product {
    const ops_of *o;
    const mr_csr *a;
    const mr_c128 *values, *b;
    mr_c128 *out;
    int64_t m, k, n;
} dense_product;

static void add_entry(const dense_product *p, int64_t row, int64_t inner, mr_c128 v)
{
    const mr_c128 *b = p->b + (p->o->tb ? inner : inner * p->n);
    int64_t b_step = p->o->tb ? p->k : 1, out_step = p->o->t_out ? p->m : 1;
    mr_c128 *out = p->out + (p->o->t_out ? row : row * p->n);
    for (int64_t j = 0; j < p->n; j++) {
        mr_c128 y = b[j * b_step];
        out[j * out_step] += v * (p->o->cb ? conj(y) : y);
    }
}

static void multiply_one(const dense_product *p, int64_t batch)
{
    for (int64_t i = 0; i < p->a->rows; i++)
        for (int64_t e = mr_csr_begin(p->a, batch, i); e < mr_csr_end(p->a, batch, i); e++) {
            int64_t col = mr_csr_col(p->a, e);
            mr_c128 v = p->o->ca ? conj(p->values[e]) : p->values[e];
            add_entry(p, p->o->ta ? col : i, p->o->ta ? i : col, v);
        }
}

static mr_status *check_dense(const mr_csr *a, const mr_tensor *b, dense_product *p)
{
    if (b->rank != a->rank)
        return mr_invalid("Ranks of a and b must match, saw: %d vs. %d.", a->rank, b->rank);
    if (b->rank == 3 && b->dims[0] != a->batch)
        return mr_invalid("Batch sizes of a and b must match, saw: %lld vs. %lld.",
                          (long long)a->batch, (long long)b->dims[0]);
    const int64_t *dims = b->dims + b->rank - 2;
    p->m = p->o->ta ? a->cols : a->rows;
    p->k = p->o->ta ? a->rows : a->cols;
    p->n = dims[!p->o->tb];
    return dims[p->o->tb] == p->k ? NULL
                                  : mr_invalid("Inner dimensions of a and b must match, saw: %lld "
                                               "vs. %lld.  Did you forget a transpose?",
                                               (long long)p->k, (long long)dims[p->o->tb]);
}

static mr_status *wide_copy(const mr_tensor *t, mr_c128 **out)
{
    size_t bytes;
    *out = mr_size_mul((size_t)t->n + 1, sizeof **out, &bytes) ? mr_try_calloc(1, bytes) : NULL;
    return *out ? NULL
                : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld values", (long long)t->n);
}

static mr_status *multiply_dense(mr_run *r, dense_product *p, const mr_tensor *b, mr_tensor *out)
{
    mr_c128 *values = NULL, *y = NULL, *sums = NULL;
    mr_status *st = NULL;
    MR_GO(mr_csr_wide(p->a, &values));
    MR_GO(wide_copy(b, &y));
    MR_GO(wide_copy(out, &sums));
    mr_dtype_convert((mr_dtype)b->dtype, b->data, MR_COMPLEX128, y, b->n, false);
    p->values = values;
    for (int64_t i = 0; i < p->a->batch; i++) {
        p->b = y + i * p->k * p->n;
        p->out = sums + i * p->m * p->n;
        multiply_one(p, i);
        if (r->step->cancel && mr_cancel_started(r->step->cancel))
            MR_GO(mr_error(MR_CANCELLED, "the matrix product was cancelled"));
    }
    for (int64_t i = 0; p->o->c_out && i < out->n; i++)
        sums[i] = conj(sums[i]);
    mr_dtype_convert(MR_COMPLEX128, sums, (mr_dtype)out->dtype, out->data, out->n, false);
out:
    mr_free(values);
    mr_free(y);
    mr_free(sums);
    return st;
}

static mr_status *run_matmul(mr_run *r)
{
    const mr_tensor *b = mr_in(r, 1);
    dense_product p = {.o = r->state};
    mr_tensor *out;
    MR_TRY(mr_csr_read(r, 0, (mr_dtype)b->dtype, &p.a));
    MR_TRY(check_dense(p.a, b, &p));
    int64_t dims[] = {p.a->batch, p.o->t_out ? p.n : p.m, p.o->t_out ? p.m : p.n};
    MR_TRY(mr_run_output(r, 0, b->rank, b->rank == 3 ? dims : dims + 1, &out));
    return multiply_dense(r, &p, b, out);
}

static mr_status *matmul_shape(mr_infer *c)
{
    const mr_pshape *b = NULL;
    ops_of o;
    MR_TRY(read_ops(c->node, &o));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_rank_at_most(c, b, 3, &b));
    if (b->rank > 0)
        c->out[0] = mr_pshape_new(c->arena, b->rank);
    return NULL;
}

static mr_out swap_dims(mr_grad *g, mr_out v)
{
    mr_scope *s = g->s;
    mr_out rank = mr_emit(s, "Rank", v), one = mr_const_i32(s, 1), two = mr_const_i32(s, 2);
    mr_out lead = mr_emit(s, "Range", mr_const_i32(s, 0), mr_emit(s, "Sub", rank, two), one);
    mr_out last = mr_emit(s, "Pack", mr_emit(s, "Sub", rank, one), mr_emit(s, "Sub", rank, two));
    return mr_emit(s, "Transpose", v, mr_emit(s, "ConcatV2", lead, last, mr_const_i32(s, 0)));
}

static mr_out with_op(mr_grad *g, mr_out v, bool transposed, bool conjugated)
{
    v = conjugated ? mr_conj(g, v) : v;
    return transposed ? swap_dims(g, v) : v;
}

/* With C = A' B', where A' and B' are the operands after transposing: dA' = dC B'^H at the entries of A, and
 * dB' = A'^H dC. */
static void matmul_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    ops_of o = {0};
    mr_scope_fail(s, read_ops(g->node, &o));
    mr_scope_fail(s, mr_node_get_bool(g->node, "transpose_output", &o.t_out));
    mr_scope_fail(s, mr_node_get_bool(g->node, "conjugate_output", &o.c_out));
    mr_out a = mr_xi(g, 0), b = mr_xi(g, 1), d = with_op(g, mr_dyi(g, 0), o.t_out, o.c_out);
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(b)));
    mr_out inner = with_op(g, b, o.tb, o.cb);
    mr_out da = mr_emit_with(s, "BatchMatMulV2", MR_ATTRS({"adj_y", mr_a_bool(true)}), d, inner);
    mr_out indices = mr_emit_with(s, "CSRSparseMatrixToSparseTensor", MR_ATTRS({"type", type}), a);
    mr_dxi(g, 0, mr_emit(s, "DenseToCSRSparseMatrix", with_op(g, da, o.ta, o.ca), indices));
    mr_out db;
    if (!o.ta)
        db = mr_emit_with(s, "SparseMatrixMatMul", MR_ATTRS({"adjoint_a", mr_a_bool(true)}), a, d);
    else if (o.ca)
        db = mr_emit(s, "SparseMatrixMatMul", a, d);
    else
        db = mr_conj(g, mr_emit(s, "SparseMatrixMatMul", a, mr_conj(g, d)));
    mr_dxi(g, 1, with_op(g, db, o.tb, o.cb));
}

MR_OP(SparseMatrixMatMul,
    .doc      = "the product of a sparse and a dense matrix, or of batches of them",
    .sig      = "a: variant, b: T -> output: T",
    .attrs    = "T: type; transpose_a: bool = false; transpose_b: bool = false; adjoint_a: bool = false; adjoint_b: bool = false; "
                "transpose_output: bool = false; conjugate_output: bool = false",
    .shape    = matmul_shape,
    .grad     = matmul_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_matmul, FIELDS)),
    .state_bytes = sizeof(ops_of), .init = dense_init,
    .examples = MR_EXAMPLES(
        MATRIX("a", "[3, 4, 5]") ": a, [[1, 2], [3, 4]] -> [[9, 12], [19, 28]]",
        MATRIX("a", "[3, 4, 5]") "transpose_a=true: a, [[1, 2], [3, 4]] -> [[12, 16], [18, 26]]",
        MATRIX("a", "[3, 4, 5]") "adjoint_b=true transpose_output=true: a, [[1, 2], [3, 4]] -> [[6, 14], [12, 32]]",
        MATRIX("a", "[3i, 4, 5]") "adjoint_a=true conjugate_output=true: a, [[1], [2]] -> [[8], [10+3i]]",
        MATRIX("a", "[3i, 4, 5]") "transpose_a=true transpose_b=true: a, [[1, 2i]] -> [[8i], [13i]]",
        "a = SparseTensorToCSRSparseMatrix T=$T: [[0, 0, 0], [1, 0, 0]], [2, 3], [2, 1, 1]; : a, [[[5]], [[7]]] -> [[[10]], [[21]]]",
        MATRIX("a", "[3, 4, 5]") ": a, [[1, 2]] -> !INVALID_ARGUMENT Inner dimensions of a and b must match, saw: 2 vs. 1.",
        MATRIX("a", "[3, 4, 5]") "adjoint_a=true transpose_a=true: a, [[1, 2]] -> !INVALID_ARGUMENT Only one of adjoint_a and transpose_a",
        "a = SparseMatrixZeros type=float: [1, 2]; T=float: a, [[1], [2]] -> [[0]]"));

/* ---- sparse times sparse ---- */

/* Rows of b are added in a dense row; the columns that it has are listed and sorted afterwards. */
typedef struct row_sum {
    mr_c128 *sums;
    bool *there;
    int64_t *cols, n;
} row_sum;

static mr_status *row_sum_init(row_sum *s, int64_t cols)
{
    s->sums = mr_try_calloc((size_t)cols + 1, sizeof *s->sums);
    s->there = mr_try_calloc((size_t)cols + 1, sizeof *s->there);
    s->cols = mr_try_calloc((size_t)cols + 1, sizeof *s->cols);
    return s->sums && s->there && s->cols
               ? NULL
               : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a row of %lld columns", (long long)cols);
}

static void row_sum_deinit(row_sum *s)
{
    mr_free(s->sums);
    mr_free(s->there);
    mr_free(s->cols);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static mr_status *product_row(const mr_csr *a, const mr_c128 *x, const mr_csr *b, const mr_c128 *y,
                              int64_t batch, int64_t i, row_sum *s, mr_csr_builder *out)
{
    s->n = 0;
    for (int64_t e = mr_csr_begin(a, batch, i); e < mr_csr_end(a, batch, i); e++)
        for (int64_t k = mr_csr_begin(b, batch, mr_csr_col(a, e)),
                     end = mr_csr_end(b, batch, mr_csr_col(a, e));
             k < end; k++) {
            int64_t col = mr_csr_col(b, k);
            if (!s->there[col])
                s->cols[s->n++] = col;
            s->there[col] = true;
            s->sums[col] += x[e] * y[k];
        }
    qsort(s->cols, (size_t)s->n, sizeof *s->cols, by_number);
    mr_status *st = NULL;
    for (int64_t k = 0; k < s->n; k++) {
        int64_t col = s->cols[k];
        if (!st)
            st = mr_csr_push(out, col, s->sums[col]);
        s->sums[col] = 0;
        s->there[col] = false;
    }
    mr_csr_end_row(out);
    return st;
}

static mr_status *multiply_csr(const mr_csr *a, const mr_csr *b, mr_allocator *alloc, mr_csr **out)
{
    mr_c128 *x = NULL, *y = NULL;
    row_sum s = {0};
    mr_csr_builder build = {0};
    mr_status *st = NULL;
    if (a->rank != b->rank || a->batch != b->batch)
        return mr_invalid("Ranks and batch sizes of a and b must match, saw: %d, %lld vs. %d, %lld",
                          a->rank, (long long)a->batch, b->rank, (long long)b->batch);
    if (a->cols != b->rows)
        return mr_invalid("Inner dimensions of a and b must match, saw: %lld vs. %lld.",
                          (long long)a->cols, (long long)b->rows);
    MR_GO(mr_csr_wide(a, &x));
    MR_GO(mr_csr_wide(b, &y));
    MR_GO(row_sum_init(&s, b->cols));
    MR_GO(mr_csr_builder_init(&build, a->batch * a->rows));
    for (int64_t k = 0; k < a->batch; k++)
        for (int64_t i = 0; i < a->rows; i++)
            MR_GO(product_row(a, x, b, y, k, i, &s, &build));
    st = mr_csr_build(&build, alloc, a->type, a->rank, a->batch, a->rows, b->cols, out);
out:
    mr_free(x);
    mr_free(y);
    row_sum_deinit(&s);
    mr_csr_builder_deinit(&build);
    return st;
}

static mr_status *run_sparse_matmul(mr_run *r)
{
    const ops_of *o = r->state;
    const mr_csr *a, *b;
    mr_csr *ta = NULL, *tb = NULL, *out;
    mr_status *st = NULL;
    MR_TRY(mr_csr_read(r, 0, o->type, &a));
    MR_TRY(mr_csr_read(r, 1, o->type, &b));
    if (o->ta)
        MR_GO(transpose_csr(a, o->ca, mr_run_allocator(r), &ta));
    if (o->tb)
        MR_GO(transpose_csr(b, o->cb, mr_run_allocator(r), &tb));
    MR_GO(multiply_csr(ta ? ta : a, tb ? tb : b, mr_run_allocator(r), &out));
    st = mr_csr_give(r, 0, out);
out:
    mr_object_unref(ta ? &ta->base : NULL);
    mr_object_unref(tb ? &tb->base : NULL);
    return st;
}

static mr_status *sparse_matmul_shape(mr_infer *c)
{
    ops_of o;
    MR_TRY(read_ops(c->node, &o));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

static mr_out csr_transpose(mr_grad *g, mr_out v, bool conjugate, mr_attr type)
{
    return mr_emit_with(g->s, "SparseMatrixTranspose",
                        MR_ATTRS({"conjugate", mr_a_bool(conjugate)}, {"type", type}), v);
}

static mr_out csr_product(mr_grad *g, mr_out a, mr_out b, bool ta, bool tb, mr_attr type)
{
    return mr_emit_with(
        g->s, "SparseMatrixSparseMatMul",
        MR_ATTRS({"transpose_a", mr_a_bool(ta)}, {"transpose_b", mr_a_bool(tb)}, {"type", type}), a,
        b);
}

/* As above, but all matrices are sparse.  For an operand that is used unchanged, transposed or adjoint, the
 * adjoint is its adjoint, its conjugate (the transpose of the adjoint), or the operand itself. */
static void sparse_matmul_backward(mr_grad *g)
{
    ops_of o = {0};
    const mr_attr *attr = mr_node_attr(g->node, "type");
    mr_scope_fail(g->s, read_ops(g->node, &o));
    mr_attr type = *attr;
    mr_out a = mr_xi(g, 0), b = mr_xi(g, 1), d = mr_dyi(g, 0);
    mr_out ah = o.ca ? a : csr_transpose(g, a, true, type),
           bh = o.cb ? b : csr_transpose(g, b, true, type);
    mr_out da = csr_product(g, d, bh, false, o.tb && !o.cb, type),
           db = csr_product(g, ah, d, o.ta && !o.ca, false, type);
    mr_dxi(g, 0, prune_to_pattern(g, o.ta ? csr_transpose(g, da, o.ca, type) : da, a, type));
    mr_dxi(g, 1, prune_to_pattern(g, o.tb ? csr_transpose(g, db, o.cb, type) : db, b, type));
}

MR_OP(SparseMatrixSparseMatMul,
    .doc      = "the product of two sparse matrices, or of batches of them",
    .sig      = "a: variant, b: variant -> c: variant",
    .attrs    = "type: " FIELD "; transpose_a: bool = false; transpose_b: bool = false; adjoint_a: bool = false; adjoint_b: bool = false",
    .shape    = sparse_matmul_shape,
    .grad     = sparse_matmul_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_sparse_matmul)),
    .state_bytes = sizeof(ops_of), .init = sparse_init,
    .examples = MR_EXAMPLES(
        MATRIX("a", "[3, 4, 5]") MATRIX("b", "[1, 2, 3]") ": a, b -> shape()",
        MATRIX("a", "[3, 4, 5]") MATRIX("b", "[1, 2, 3]") "transpose_a=true adjoint_b=true: a, b -> shape()",
        "a = SparseMatrixZeros type=$T: [2, 2]; b = SparseMatrixZeros type=$T: [3, 2]; : a, b -> !INVALID_ARGUMENT Inner dimensions"));

/* ---- softmax ---- */

static void softmax_row(mr_c128 *v, int64_t n)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = MR_LARGER(top, creal(v[i]));
    for (int64_t i = 0; i < n; i++) {
        v[i] = exp(creal(v[i]) - top);
        sum += creal(v[i]);
    }
    for (int64_t i = 0; i < n; i++)
        v[i] /= sum;
}

static mr_status *run_softmax(mr_run *r)
{
    const mr_csr *a;
    mr_csr *out = NULL;
    mr_c128 *values = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_csr_read(r, 0, *(const mr_dtype *)r->state, &a));
    MR_GO(mr_csr_wide(a, &values));
    MR_GO(copy_pattern(a, mr_run_allocator(r), &out));
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < a->rows; i++)
            softmax_row(values + mr_csr_begin(a, b, i),
                        mr_csr_end(a, b, i) - mr_csr_begin(a, b, i));
    mr_dtype_convert(MR_COMPLEX128, values, a->type, out->values->data, a->nnz, false);
    st = mr_csr_give(r, 0, out);
out:
    mr_free(values);
    return st;
}

static void softmax_backward(mr_grad *g)
{
    mr_dxi(g, 0,
           mr_emit_like(g, "SparseMatrixSoftmaxGrad", "type", (mr_out[]){mr_yi(g, 0), mr_dyi(g, 0)},
                        2));
}

MR_OP(SparseMatrixSoftmax,
    .doc      = "softmax over the entries of each row",
    .sig      = "logits: variant -> softmax: variant",
    .attrs    = "type: {float, double}",
    .shape    = variant_scalar,
    .grad     = softmax_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_softmax)),
    .state_bytes = sizeof(mr_dtype), .init = type_init,
    .examples = MR_EXAMPLES(MATRIX("a", "[3, 4, 5]") ": a -> shape()"));

/* y (dy - sum of y dy over the row), at the entries of y; dy may have other entries. */
static void softmax_grad_row(const mr_csr *y, const mr_csr *d, const mr_c128 *dv, mr_c128 *v,
                             int64_t b, int64_t i)
{
    int64_t begin = mr_csr_begin(y, b, i), end = mr_csr_end(y, b, i), q = mr_csr_begin(d, b, i),
            q_end = mr_csr_end(d, b, i);
    mr_c128 sum = 0;
    for (int64_t pass = 0; pass < 2; pass++) {
        int64_t at = q;
        for (int64_t k = begin; k < end; k++) {
            while (at < q_end && mr_csr_col(d, at) < mr_csr_col(y, k))
                at++;
            mr_c128 dy = at < q_end && mr_csr_col(d, at) == mr_csr_col(y, k) ? dv[at] : 0;
            if (pass == 0)
                sum += v[k] * dy;
            else
                v[k] *= dy - sum;
        }
    }
}

static mr_status *run_softmax_grad(mr_run *r)
{
    const mr_csr *y, *d;
    mr_csr *out = NULL;
    mr_c128 *values = NULL, *grads = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_csr_read(r, 0, *(const mr_dtype *)r->state, &y));
    MR_TRY(mr_csr_read(r, 1, *(const mr_dtype *)r->state, &d));
    if (y->rank != d->rank || y->batch != d->batch || y->rows != d->rows || y->cols != d->cols)
        return mr_invalid("Shapes of softmax and grad_softmax must match");
    MR_GO(mr_csr_wide(y, &values));
    MR_GO(mr_csr_wide(d, &grads));
    MR_GO(copy_pattern(y, mr_run_allocator(r), &out));
    for (int64_t b = 0; b < y->batch; b++)
        for (int64_t i = 0; i < y->rows; i++)
            softmax_grad_row(y, d, grads, values, b, i);
    mr_dtype_convert(MR_COMPLEX128, values, y->type, out->values->data, y->nnz, false);
    st = mr_csr_give(r, 0, out);
out:
    mr_free(values);
    mr_free(grads);
    return st;
}

MR_OP(SparseMatrixSoftmaxGrad,
    .doc      = "the gradient of SparseMatrixSoftmax",
    .sig      = "softmax: variant, grad_softmax: variant -> gradient: variant",
    .attrs    = "type: {float, double}",
    .shape    = variant_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_softmax_grad)),
    .state_bytes = sizeof(mr_dtype), .init = type_init,
    .examples = MR_EXAMPLES(MATRIX("a", "[0.5, 0.25, 0.75]") MATRIX("b", "[1, 2, 3]") ": a, b -> shape()",
                            "a = SparseMatrixZeros type=$T: [2, 2]; b = SparseMatrixZeros type=$T: [2, 3]; : a, b -> !INVALID_ARGUMENT must match"));
