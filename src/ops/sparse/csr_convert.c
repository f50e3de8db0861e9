/* ops/sparse/csr_convert.c -- conversions to and from sparse matrices: SparseTensorToCSRSparseMatrix,
 * DenseToCSRSparseMatrix, SparseMatrixZeros; CSRSparseMatrixToSparseTensor, CSRSparseMatrixToDense,
 * CSRSparseMatrixComponents, SparseMatrixNNZ. */
#include "base/memory.h"
#include "ops/array/layout.h"
#include "ops/segment/segment.h"
#include "ops/sparse/csr.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

#define FIELD "{float, double, complex64, complex128}"

static mr_status *variant_scalar(mr_infer *c)
{
    mr_infer_out_scalar(c, 0);
    return NULL;
}

/* ---- to CSR ---- */

/* Creates a matrix with these indices, which must be in order and within bounds; its values are not set. */
static mr_status *from_indices(mr_run *r, const mr_sparse *s, mr_dtype type, mr_csr **out)
{
    if (s->rank != 2 && s->rank != 3)
        return mr_invalid("SparseTensor must have rank 2 or 3; but indices has rank: %lld",
                          (long long)s->rank);
    MR_TRY(mr_sparse_check_order(s));
    int lead = (int)s->rank - 2;
    int64_t rows = s->dims[lead];
    MR_TRY(mr_csr_new(mr_run_allocator(r), type, (int)s->rank, lead ? s->dims[0] : 1, rows,
                      s->dims[lead + 1], s->n, out));
    int32_t *batches = (*out)->batch_ptrs->data, *ptrs = (*out)->row_ptrs->data,
            *cols = (*out)->col_inds->data;
    for (int64_t i = 0; i < s->n; i++) { /* count the entries first; the running sums follow */
        const int64_t *at = mr_sparse_at(s, i);
        int64_t b = lead ? at[0] : 0;
        batches[b + 1]++;
        ptrs[b * (rows + 1) + at[lead] + 1]++;
        cols[i] = (int32_t)at[lead + 1];
    }
    for (int64_t b = 0; b < (*out)->batch; b++) {
        batches[b + 1] += batches[b];
        for (int64_t i = 0; i < rows; i++)
            ptrs[b * (rows + 1) + i + 1] += ptrs[b * (rows + 1) + i];
    }
    return NULL;
}

static mr_status *from_sparse(mr_run *r)
{
    mr_sparse s;
    mr_csr *m;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    MR_TRY(from_indices(r, &s, (mr_dtype)s.values->dtype, &m));
    memcpy(m->values->data, s.values->data, mr_tensor_bytes(s.values));
    return mr_csr_give(r, 0, m);
}

static mr_status *from_sparse_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

static void from_sparse_backward(mr_grad *g)
{
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(mr_xi(g, 1))));
    mr_dxi(g, 1,
           mr_nth(mr_emit_with(g->s, "CSRSparseMatrixToSparseTensor", MR_ATTRS({"type", type}),
                               mr_dyi(g, 0)),
                  1));
}

MR_OP(SparseTensorToCSRSparseMatrix,
    .doc      = "a sparse tensor of rank 2 or 3 as a sparse matrix or a batch of them",
    .sig      = "indices: int64, values: T, dense_shape: int64 -> sparse_matrix: variant",
    .attrs    = "T: " FIELD,
    .shape    = from_sparse_shape,
    .grad     = from_sparse_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(from_sparse)),
    .examples = MR_EXAMPLES(
        "nograd: [[0, 1], [1, 0]], [1, 2], [2, 2] -> shape()", "nograd: [[1, 0, 1]], [1], [2, 2, 2] -> shape()",
        "nograd: shape(0,2), shape(0), [2, 2] -> shape()", "[[0]], [1], [2] -> !INVALID_ARGUMENT must have rank 2 or 3",
        "[[1, 0], [0, 0]], [1, 2], [2, 2] -> !INVALID_ARGUMENT is out of order",
        "[[0, 2]], [1], [2, 2] -> !INVALID_ARGUMENT is out of bounds",
        "shape(0,2), shape(0), [4294967296, 2] -> !INVALID_ARGUMENT too large for int32"));

static mr_status *from_dense(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *shape = mr_tensor_vector_i64(x->rank, x->dims);
    mr_sparse s;
    mr_csr *m = NULL;
    int64_t *rows = NULL, strides[MR_MAX_RANK];
    mr_status *st = NULL;
    MR_GO(mr_sparse_of(mr_in(r, 1), NULL, shape, "", &s));
    MR_GO(from_indices(r, &s, (mr_dtype)x->dtype, &m));
    MR_GO(mr_new_i64(r, s.n, &rows));
    mr_sparse_strides(&s, strides);
    for (int64_t i = 0; i < s.n; i++)
        rows[i] = mr_sparse_flat(mr_sparse_at(&s, i), strides, s.rank);
    MR_GO(mr_sparse_pick(r, m->values, x, rows));
    st = mr_csr_give(r, 0, m);
    m = NULL;
out:
    mr_object_unref(m ? &m->base : NULL);
    mr_tensor_unref(shape);
    mr_scratch_free(rows);
    return st;
}

static mr_status *from_dense_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *indices;
    MR_TRY(mr_infer_rank_at_least(c, x, 2, &x));
    MR_TRY(mr_infer_rank_at_most(c, x, 3, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &indices));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

static void from_dense_backward(mr_grad *g)
{
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(mr_xi(g, 0))));
    mr_dxi(g, 0,
           mr_emit_with(g->s, "CSRSparseMatrixToDense", MR_ATTRS({"type", type}), mr_dyi(g, 0)));
}

MR_OP(DenseToCSRSparseMatrix,
    .doc      = "the elements of a dense matrix at these indices as a sparse one",
    .sig      = "dense_input: T, indices: int64 -> sparse_output: variant",
    .attrs    = "T: " FIELD,
    .shape    = from_dense_shape,
    .grad     = from_dense_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(from_dense)),
    .examples = MR_EXAMPLES("nograd: [[1, 2], [3, 4]], [[0, 1], [1, 0]] -> shape()", "nograd: [[[1, 2]]], [[0, 0, 1]] -> shape()",
                            "[[1, 2]], [[1, 0]] -> !INVALID_ARGUMENT is out of bounds", "[1, 2], [[0]] -> !INVALID_ARGUMENT at least rank 2"));

static mr_status *csr_zeros(mr_run *r)
{
    mr_shape s;
    mr_dtype type = *(const mr_dtype *)r->state;
    mr_csr *m;
    MR_TRY(mr_in_shape(r, 0, "dense_shape", 0, &s));
    if (s.rank != 2 && s.rank != 3)
        return mr_invalid("dense_shape must have rank 2 or 3, got %d", s.rank);
    int lead = s.rank - 2;
    MR_TRY(mr_csr_new(mr_run_allocator(r), type, s.rank, lead ? s.dims[0] : 1, s.dims[lead],
                      s.dims[lead + 1], 0, &m));
    return mr_csr_give(r, 0, m);
}

static mr_status *zeros_init(mr_make *m, void *state)
{
    return mr_node_get_type(m->node, "type", state);
}

MR_OP(SparseMatrixZeros,
    .doc      = "a sparse matrix without entries",
    .sig      = "dense_shape: int64 -> sparse_matrix: variant",
    .attrs    = "type: " FIELD,
    .flags    = MR_NO_GRADIENT,
    .shape    = variant_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(csr_zeros)),
    .state_bytes = sizeof(mr_dtype), .init = zeros_init,
    .examples = MR_EXAMPLES("[2, 3] -> shape()", "[2, 3, 4] -> shape()", "[2] -> !INVALID_ARGUMENT must have rank 2 or 3",
                            "[-1, 2] -> !INVALID_ARGUMENT"));

/* ---- from CSR ---- */

static void entry_index(const mr_csr *m, int64_t b, int64_t row, int64_t k, int64_t *out)
{
    int at = 0;
    if (m->rank == 3)
        out[at++] = b;
    out[at++] = row;
    out[at] = mr_csr_col(m, k);
}

static mr_status *to_sparse(mr_run *r)
{
    const mr_csr *m;
    mr_tensor *indices, *values;
    MR_TRY(mr_csr_read(r, 0, mr_out_dtype(r, 1), &m));
    MR_TRY(mr_sparse_output(r, 0, m->nnz, m->rank, &indices, &values));
    for (int64_t b = 0; b < m->batch; b++)
        for (int64_t i = 0; i < m->rows; i++)
            for (int64_t k = mr_csr_begin(m, b, i); k < mr_csr_end(m, b, i); k++)
                entry_index(m, b, i, k, MR_DATA(int64_t, indices) + k * m->rank);
    if (m->nnz > 0)
        memcpy(values->data, m->values->data, mr_tensor_bytes(m->values));
    int64_t dims[] = {m->batch, m->rows, m->cols};
    return mr_give_vector(r, 2, m->rank, m->rank == 3 ? dims : dims + 1);
}

static mr_status *to_sparse_shape(mr_infer *c)
{
    mr_infer_out_sparse(c, 0, -1, -1, true);
    return NULL;
}

static void to_sparse_backward(mr_grad *g)
{
    mr_dxi(g, 0,
           mr_emit(g->s, "SparseTensorToCSRSparseMatrix", mr_yi(g, 0), mr_dyi(g, 1), mr_yi(g, 2)));
}

#define MATRIX "m = SparseTensorToCSRSparseMatrix T=$T: [[0, 1], [1, 0]], [3, 4], [2, 2]; "
#define BATCH "m = SparseTensorToCSRSparseMatrix T=$T: [[0, 0, 1], [1, 0, 0], [1, 1, 1]], [3, 4, 5], [2, 2, 2]; "

MR_OP(CSRSparseMatrixToSparseTensor,
    .doc      = "a sparse matrix as a sparse tensor",
    .sig      = "sparse_matrix: variant -> indices: int64, values: type, dense_shape: int64",
    .attrs    = "type: " FIELD,
    .shape    = to_sparse_shape,
    .grad     = to_sparse_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(to_sparse)),
    .examples = MR_EXAMPLES(MATRIX ": m -> [[0, 1], [1, 0]], [3, 4], [2, 2]",
                            BATCH ": m -> [[0, 0, 1], [1, 0, 0], [1, 1, 1]], [3, 4, 5], [2, 2, 2]",
                            "m = SparseMatrixZeros type=$T: [2, 3]; : m -> shape(0,2), shape(0), [2, 3]",
                            "m = SparseMatrixZeros type=float: [2, 3]; type=double: m -> !INVALID_ARGUMENT is not equal to 'type'"));

static mr_status *to_dense(mr_run *r)
{
    const mr_csr *m;
    mr_tensor *out;
    MR_TRY(mr_csr_read(r, 0, mr_out_dtype(r, 0), &m));
    int64_t dims[] = {m->batch, m->rows, m->cols};
    MR_TRY(mr_run_output(r, 0, m->rank, m->rank == 3 ? dims : dims + 1, &out));
    mr_tensor_zero(out);
    for (int64_t b = 0; b < m->batch; b++)
        for (int64_t i = 0; i < m->rows; i++)
            for (int64_t k = mr_csr_begin(m, b, i); k < mr_csr_end(m, b, i); k++)
                MR_TRY(mr_tensor_try_copy_elements(out, (b * m->rows + i) * m->cols + mr_csr_col(m, k),
                                                   m->values, k, 1));
    return NULL;
}

static void to_dense_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out dy = mr_dyi(g, 0);
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(dy)));
    mr_out indices =
        mr_emit_with(s, "CSRSparseMatrixToSparseTensor", MR_ATTRS({"type", type}), mr_xi(g, 0));
    mr_out values = mr_emit(s, "GatherNd", dy, indices);
    mr_dxi(g, 0,
           mr_emit(s, "SparseTensorToCSRSparseMatrix", indices, values,
                   mr_cast(g, mr_shape_of(g, dy), MR_INT64)));
}

MR_OP(CSRSparseMatrixToDense,
    .doc      = "a sparse matrix as a dense one",
    .sig      = "sparse_input: variant -> dense_output: type",
    .attrs    = "type: " FIELD,
    .shape    = mr_shape_unknown,
    .grad     = to_dense_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(to_dense)),
    .examples = MR_EXAMPLES(MATRIX ": m -> [[0, 3], [4, 0]]", BATCH ": m -> [[[0, 3], [0, 0]], [[4, 0], [0, 5]]]",
                            "m = SparseMatrixZeros type=$T: [0, 3]; : m -> shape(0,3)"));

static mr_status *csr_components(mr_run *r)
{
    const mr_csr *m;
    mr_tensor *ptrs, *cols, *values;
    int64_t b;
    MR_TRY(mr_csr_read(r, 0, mr_out_dtype(r, 2), &m));
    MR_TRY(mr_in_scalar_int(r, 1, "index", &b));
    if (b < 0 || b >= m->batch)
        return mr_invalid("index (%lld) not in [0, %lld)", (long long)b, (long long)m->batch);
    int64_t begin = MR_DATA(const int32_t, m->batch_ptrs)[b],
            n = MR_DATA(const int32_t, m->batch_ptrs)[b + 1] - begin;
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){m->rows + 1}, &ptrs));
    MR_TRY(mr_run_output(r, 1, 1, &n, &cols));
    MR_TRY(mr_run_output(r, 2, 1, &n, &values));
    MR_TRY(mr_tensor_try_copy_elements(ptrs, 0, m->row_ptrs, b * (m->rows + 1), m->rows + 1));
    MR_TRY(mr_tensor_try_copy_elements(cols, 0, m->col_inds, begin, n));
    return mr_tensor_try_copy_elements(values, 0, m->values, begin, n);
}

static mr_status *components_shape(mr_infer *c)
{
    const mr_pshape *scalar;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &scalar));
    for (int i = 0; i < 3; i++)
        mr_infer_out_vector(c, i, -1);
    return NULL;
}

MR_OP(CSRSparseMatrixComponents,
    .doc      = "the arrays of one matrix: where rows begin, columns, values",
    .sig      = "csr_sparse_matrix: variant, index: int32 -> row_ptrs: int32, col_inds: int32, values: type",
    .attrs    = "type: " FIELD,
    .flags    = MR_NO_GRADIENT,
    .shape    = components_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(csr_components)),
    .examples = MR_EXAMPLES(MATRIX ": m, 0 -> [0, 1, 2], [1, 0], [3, 4]", BATCH ": m, 1 -> [0, 1, 2], [0, 1], [4, 5]",
                            MATRIX ": m, 1 -> !INVALID_ARGUMENT index (1) not in [0, 1)"));

static mr_status *csr_nnz(mr_run *r)
{
    const mr_csr *m;
    mr_tensor *out;
    MR_TRY(mr_csr_read(r, 0, 0, &m));
    MR_TRY(mr_run_output(r, 0, m->rank - 2, &m->batch, &out));
    const int32_t *ptrs = m->batch_ptrs->data;
    for (int64_t b = 0; b < out->n; b++)
        MR_DATA(int32_t, out)[b] = ptrs[b + 1] - ptrs[b];
    return NULL;
}

MR_OP(SparseMatrixNNZ,
    .doc      = "how many entries a sparse matrix, or each of a batch, has",
    .sig      = "sparse_matrix: variant -> nnz: int32",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = MR_KERNELS(MR_CPU_ANY(csr_nnz)),
    .examples = MR_EXAMPLES(
        "m = SparseTensorToCSRSparseMatrix T=float: [[0, 1], [1, 0]], float[3, 4], [2, 2]; : m -> 2",
        "m = SparseTensorToCSRSparseMatrix T=float: [[0, 0, 1], [2, 0, 0]], float[3, 4], [3, 2, 2]; : m -> [1, 0, 1]"));
