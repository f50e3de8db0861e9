/* ops/sparse/csr.c -- sparse matrices in CSR form: creating, reading, adding. */
#include "ops/sparse/csr.h"

#include "base/memory.h"
#include "ops/sparse/sparse.h"
#include "tensor/variant.h"

/* ---- the object ---- */

static void csr_free(mr_object *o)
{
    mr_csr *m = (mr_csr *)o;
    mr_tensor_unref(m->batch_ptrs);
    mr_tensor_unref(m->row_ptrs);
    mr_tensor_unref(m->col_inds);
    mr_tensor_unref(m->values);
    mr_free(m);
}

static mr_status *zeros_like(const mr_object *o, mr_allocator *a, mr_object **out)
{
    const mr_csr *m = (const mr_csr *)o;
    mr_csr *zeros;
    MR_TRY(mr_csr_new(a, m->type, m->rank, m->batch, m->rows, m->cols, 0, &zeros));
    *out = &zeros->base;
    return NULL;
}

static mr_status *add_csr(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out)
{
    mr_csr *sum;
    MR_TRY(mr_csr_add((const mr_csr *)x, (const mr_csr *)y, 1, 1, a, &sum));
    *out = &sum->base;
    return NULL;
}

/* TensorFlow's order: dense shape, then the four arrays. */
static mr_status *encode_csr(const mr_object *o, struct mr_variant_data *out)
{
    const mr_csr *m = (const mr_csr *)o;
    int64_t dims[] = {m->batch, m->rows, m->cols};
    mr_vec_push(&out->tensors, mr_tensor_vector_i64(m->rank, m->rank == 3 ? dims : dims + 1));
    mr_vec_push(&out->tensors, mr_tensor_ref(m->batch_ptrs));
    mr_vec_push(&out->tensors, mr_tensor_ref(m->row_ptrs));
    mr_vec_push(&out->tensors, mr_tensor_ref(m->col_inds));
    mr_vec_push(&out->tensors, mr_tensor_ref(m->values));
    return NULL;
}

static const mr_object_type csr_type = {.name = "tensorflow::CSRSparseMatrix",
                                        .free = csr_free,
                                        .zeros_like = zeros_like,
                                        .add = add_csr,
                                        .encode = encode_csr};

mr_status *mr_csr_new(mr_allocator *a, mr_dtype type, int rank, int64_t batch, int64_t rows,
                      int64_t cols, int64_t nnz, mr_csr **out)
{
    mr_status *st = NULL;
    int64_t ptrs;
    if (batch < 0 || rows < 0 || cols < 0 || nnz < 0 || rows >= INT32_MAX || cols > INT32_MAX ||
        nnz > INT32_MAX || !mr_i64_mul(batch, rows + 1, &ptrs))
        return mr_invalid(
            "a sparse matrix of [%lld, %lld, %lld] and %lld entries is too large for int32 indices",
            (long long)batch, (long long)rows, (long long)cols, (long long)nnz);
    mr_csr *m = mr_new(mr_csr);
    mr_object_init(&m->base, &csr_type);
    m->type = type;
    m->rank = rank;
    m->batch = batch;
    m->rows = rows;
    m->cols = cols;
    m->nnz = nnz;
    MR_GO(mr_tensor_zeros(a, MR_INT32, 1, (int64_t[]){batch + 1}, &m->batch_ptrs));
    MR_GO(mr_tensor_zeros(a, MR_INT32, 1, &ptrs, &m->row_ptrs));
    MR_GO(mr_tensor_new(a, MR_INT32, 1, &nnz, &m->col_inds));
    MR_GO(mr_tensor_new(a, type, 1, &nnz, &m->values));
    *out = m;
    m = NULL;
out:
    mr_object_unref(m ? &m->base : NULL);
    return st;
}

mr_status *mr_csr_read(const mr_run *r, int i, mr_dtype type, const mr_csr **out)
{
    const mr_tensor *t = mr_in(r, i);
    const mr_object *o = t->n == 1 ? *MR_DATA(mr_object *, t) : NULL;
    if (t->rank != 0 || !o || o->type != &csr_type)
        return mr_invalid("Input %d does not hold a CSRSparseMatrix", i);
    *out = (const mr_csr *)o;
    if (type && (*out)->type != type)
        return mr_invalid("dtype of input %d is not equal to 'type': %s vs. %s", i,
                          mr_dtype_name((*out)->type), mr_dtype_name(type));
    return NULL;
}

mr_status *mr_csr_give(mr_run *r, int i, mr_csr *m)
{
    mr_tensor *t;
    MR_TRY(mr_variant_tensor(&m->base, &t));
    mr_run_set(r, i, t);
    return NULL;
}

mr_status *mr_csr_wide(const mr_csr *m, mr_c128 **out)
{
    *out = mr_try_alloc(((size_t)m->nnz + 1) * sizeof **out);
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld entries", (long long)m->nnz);
    mr_dtype_convert(m->type, m->values->data, MR_COMPLEX128, *out, m->nnz, false);
    return NULL;
}

/* ---- building ---- */

mr_status *mr_csr_builder_init(mr_csr_builder *b, int64_t rows)
{
    *b = (mr_csr_builder){0};
    b->ends = mr_try_calloc((size_t)rows + 1, sizeof *b->ends);
    return b->ends ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld rows", (long long)rows);
}

void mr_csr_builder_deinit(mr_csr_builder *b)
{
    mr_free(b->cols);
    mr_free(b->values);
    mr_free(b->ends);
}

static mr_status *grow_builder(mr_csr_builder *b)
{
    int64_t cap = b->cap ? 2 * b->cap : 64;
    if (cap > INT32_MAX)
        return mr_invalid("a sparse matrix cannot have more than %d entries", INT32_MAX / 2);
    int32_t *cols = mr_try_realloc(b->cols, (size_t)cap * sizeof *cols);
    if (cols)
        b->cols = cols;
    mr_c128 *values = cols ? mr_try_realloc(b->values, (size_t)cap * sizeof *values) : NULL;
    if (!values)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld entries", (long long)cap);
    b->values = values;
    b->cap = cap;
    return NULL;
}

mr_status *mr_csr_push(mr_csr_builder *b, int64_t col, mr_c128 value)
{
    if (b->n == b->cap)
        MR_TRY(grow_builder(b));
    b->cols[b->n] = (int32_t)col;
    b->values[b->n++] = value;
    return NULL;
}

mr_status *mr_csr_build(mr_csr_builder *b, mr_allocator *a, mr_dtype type, int rank, int64_t batch,
                        int64_t rows, int64_t cols, mr_csr **out)
{
    MR_ASSERT(b->n_rows == batch * rows);
    MR_TRY(mr_csr_new(a, type, rank, batch, rows, cols, b->n, out));
    int32_t *batches = (*out)->batch_ptrs->data, *ptrs = (*out)->row_ptrs->data;
    for (int64_t k = 0; k < batch; k++) {
        int64_t base = batches[k];
        for (int64_t i = 0; i < rows; i++)
            ptrs[k * (rows + 1) + i + 1] = (int32_t)(b->ends[k * rows + i] - base);
        batches[k + 1] = (int32_t)(rows > 0 ? b->ends[k * rows + rows - 1] : base);
    }
    if (b->n > 0)
        memcpy((*out)->col_inds->data, b->cols, (size_t)b->n * sizeof(int32_t));
    mr_dtype_convert(MR_COMPLEX128, b->values, type, (*out)->values->data, b->n, false);
    return NULL;
}

/* ---- adding ---- */

typedef struct operand {
    const mr_csr *m;
    mr_c128 *values, by;
} operand;

/* Adds one row of a and b by merging their entries. */
static mr_status *add_row(mr_csr_builder *out, const operand *a, const operand *b, int64_t k,
                          int64_t i)
{
    int64_t p = mr_csr_begin(a->m, k, i), p_end = mr_csr_end(a->m, k, i);
    int64_t q = mr_csr_begin(b->m, k, i), q_end = mr_csr_end(b->m, k, i);
    while (p < p_end || q < q_end) {
        int64_t x = p < p_end ? mr_csr_col(a->m, p) : INT64_MAX,
                y = q < q_end ? mr_csr_col(b->m, q) : INT64_MAX;
        mr_c128 sum = 0;
        if (x <= y)
            sum += a->by * a->values[p++];
        if (y <= x)
            sum += b->by * b->values[q++];
        MR_TRY(mr_csr_push(out, MR_MIN(x, y), sum));
    }
    mr_csr_end_row(out);
    return NULL;
}

mr_status *mr_csr_add(const mr_csr *a, const mr_csr *b, mr_c128 alpha, mr_c128 beta,
                      mr_allocator *alloc, mr_csr **out)
{
    operand x = {a, NULL, alpha}, y = {b, NULL, beta};
    mr_csr_builder sum = {0};
    mr_status *st = NULL;
    if (a->type != b->type || a->rank != b->rank || a->batch != b->batch || a->rows != b->rows ||
        a->cols != b->cols)
        return mr_invalid("the sparse matrices of a sum differ in type or shape: [%lld,%lld,%lld] "
                          "and [%lld,%lld,%lld]",
                          (long long)a->batch, (long long)a->rows, (long long)a->cols,
                          (long long)b->batch, (long long)b->rows, (long long)b->cols);
    MR_GO(mr_csr_wide(a, &x.values));
    MR_GO(mr_csr_wide(b, &y.values));
    MR_GO(mr_csr_builder_init(&sum, a->batch * a->rows));
    for (int64_t k = 0; k < a->batch; k++)
        for (int64_t i = 0; i < a->rows; i++)
            MR_GO(add_row(&sum, &x, &y, k, i));
    st = mr_csr_build(&sum, alloc, a->type, a->rank, a->batch, a->rows, a->cols, out);
out:
    mr_free(x.values);
    mr_free(y.values);
    mr_csr_builder_deinit(&sum);
    return st;
}
