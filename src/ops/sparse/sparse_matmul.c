/* ops/sparse/sparse_matmul.c -- SparseTensorDenseMatMul, and SparseMatMul, the product of dense
 * matrices with many zeros. */
#include "base/memory.h"
#include "base/simd.h"
#include "ops/array/index.h"
#include "ops/linalg/gemm.h"
#include "ops/maths.h"
#include "ops/segment/segment.h"
#include "ops/sparse/sparse.h"

enum { AHEAD = 8, PREFETCH_BYTES = 512 }; /* entries; of a longer row the CPU fetches the rest by itself */

/* ---- row of the result += number * row of b ---- */

typedef void mr_axpy(void *y, const void *a, const void *x, int64_t step, int64_t n, bool conj_a,
                     bool conj_x);

#define AXPY(E, name, number, S, C, MUL_ADD)                                                                          \
    MR_CLONES static void axpy_##name(void *y, const void *a, const void *x, int64_t step, int64_t n, bool conj_a,    \
                                      bool conj_x)                                                                    \
    {                                                                                                                 \
        const S *from = x;                                                                                            \
        const S by = *(const S *)a;                                                                                   \
        (void)conj_a, (void)conj_x;                                                                                   \
        if (step == 1) {                                                                                              \
            MR_IVDEP for (int64_t i = 0; i < n; i++)                                                                  \
                ((S *)y)[i] = (S)MUL_ADD(((S *)y)[i], by, from[i]);                                                   \
            return;                                                                                                   \
        }                                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                               \
            ((S *)y)[i] = (S)MUL_ADD(((S *)y)[i], by, from[i * step]);                                                \
    }
#define MUL_ADD_REAL(y, a, x) ((y) + (a) * (x))
#define MUL_ADD_INT(y, a, x) ((uint64_t)(y) + (uint64_t)(a) * (uint64_t)(x))
#define MUL_ADD_COMPLEX(y, a, x) ((y) + (conj_a ? conj(a) : (a)) * (conj_x ? conj(x) : (x)))
MR_FLOATS32(AXPY, MUL_ADD_REAL)
MR_INTS(AXPY, MUL_ADD_INT)
MR_COMPLEXES(AXPY, MUL_ADD_COMPLEX)

static mr_axpy *axpy_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return axpy_##name;
    switch (t) {
        MR_FLOATS32(CASE, ) MR_INTS(CASE, ) MR_COMPLEXES(CASE, ) default : return NULL;
    }
}

typedef struct product {
    const mr_tensor *indices, *values, *b;
    mr_tensor *out;
    bool adjoint_a, adjoint_b;
    int64_t m, k, n; /* sizes of op(A) op(B) */
} product;

static mr_status *check_product(product *p, const mr_tensor *shape)
{
    if (p->b->rank != 2)
        return mr_invalid("Tensor 'b' is not a matrix");
    if (shape->rank != 1 || shape->n != 2)
        return mr_invalid("Tensor 'a_shape' must have 2 elements");
    if (p->values->rank != 1)
        return mr_invalid("Tensor 'a_values' is not a vector");
    if (p->indices->rank != 2)
        return mr_invalid("Tensor 'a_indices' is not a matrix");
    if (p->indices->dims[0] != p->values->n)
        return mr_invalid(
            "Number of rows of a_indices does not match number of entries in a_values");
    if (p->indices->dims[1] != 2)
        return mr_invalid(
            "Number of columns of a_indices does not match number of entries in a_shape");
    const int64_t *a = shape->data;
    p->m = a[p->adjoint_a];
    p->k = a[!p->adjoint_a];
    p->n = p->b->dims[!p->adjoint_b];
    int64_t inner = p->b->dims[p->adjoint_b];
    if (a[0] < 0 || a[1] < 0)
        return mr_invalid("the sizes of A must not be negative: [%lld, %lld]", (long long)a[0],
                          (long long)a[1]);
    return inner == p->k
               ? NULL
               : mr_invalid(
                     "Cannot multiply A and B because inner dimension does not match: %lld vs. "
                     "%lld.  Did you "
                     "forget a transpose?  Dimensions of A: [%lld, %lld).  Dimensions of B: %s",
                     (long long)p->k, (long long)inner, (long long)a[0], (long long)a[1],
                     MR_TENSOR_SHAPE(p->b));
}

static mr_status *check_indices(const product *p)
{
    for (int64_t i = 0; i < p->values->n; i++) {
        int64_t row = mr_index_at(p->indices, 2 * i + p->adjoint_a),
                col = mr_index_at(p->indices, 2 * i + !p->adjoint_a);
        if ((uint64_t)col >= (uint64_t)p->k)
            return mr_invalid("k (%lld) from index[%lld,%d] out of bounds (>=%lld)", (long long)col,
                              (long long)i, !p->adjoint_a, (long long)p->k);
        if ((uint64_t)row >= (uint64_t)p->m)
            return mr_invalid("m (%lld) from index[%lld,%d] out of bounds (>=%lld)", (long long)row,
                              (long long)i, p->adjoint_a, (long long)p->m);
    }
    return NULL;
}

/* Entries may name any row of B: the memory is asked for entry i before it is needed. */
static void prefetch_b(const product *p, int64_t i, int64_t begin, int64_t end, size_t size)
{
    if (p->adjoint_b || i >= p->values->n)
        return;
    int64_t col = mr_index_at(p->indices, 2 * i + !p->adjoint_a);
    const char *from = (const char *)p->b->data + (size_t)(col * p->n + begin) * size;
    for (size_t at = 0; at < (size_t)(end - begin) * size && at < PREFETCH_BYTES; at += 64)
        __builtin_prefetch(from + at);
}

/* Computes columns begin..end of all rows, so that no two threads write the same place. */
static void multiply_columns(void *ctx, int64_t begin, int64_t end)
{
    const product *p = ctx;
    size_t size = mr_dtype_size((mr_dtype)p->out->dtype);
    mr_axpy *axpy = axpy_of((mr_dtype)p->out->dtype);
    int64_t step = p->adjoint_b ? p->k : 1, along = p->adjoint_b ? 1 : p->n;
    for (int64_t i = 0; i < p->values->n; i++) {
        int64_t row = mr_index_at(p->indices, 2 * i + p->adjoint_a),
                col = mr_index_at(p->indices, 2 * i + !p->adjoint_a);
        prefetch_b(p, i + AHEAD, begin, end, size);
        axpy((char *)p->out->data + (size_t)(row * p->n + begin) * size,
             (const char *)p->values->data + (size_t)i * size,
             (const char *)p->b->data + (size_t)(col * along + begin * step) * size, step,
             end - begin, p->adjoint_a, p->adjoint_b);
    }
}

static void multiply_all(mr_run *r, product *p)
{
    mr_tensor_zero(p->out);
    if (p->out->n > 0)
        mr_run_for(r, p->n, 2.0 * (double)p->values->n + 1, multiply_columns, p);
}

/* Multiplies 16-bit floats as floats. */
static mr_status *multiply_wide(mr_run *r, product *p)
{
    mr_tensor *values = NULL, *b = NULL, *out = NULL;
    mr_dtype t = (mr_dtype)p->out->dtype;
    mr_status *st = NULL;
    MR_GO(mr_run_temp(r, MR_FLOAT, 1, p->values->dims, &values));
    MR_GO(mr_run_temp(r, MR_FLOAT, 2, p->b->dims, &b));
    MR_GO(mr_run_temp(r, MR_FLOAT, 2, p->out->dims, &out));
    mr_dtype_convert(t, p->values->data, MR_FLOAT, values->data, values->n, false);
    mr_dtype_convert(t, p->b->data, MR_FLOAT, b->data, b->n, false);
    product wide = *p;
    wide.values = values;
    wide.b = b;
    wide.out = out;
    multiply_all(r, &wide);
    mr_dtype_convert(MR_FLOAT, out->data, t, p->out->data, out->n, false);
out:
    mr_tensor_unref(values);
    mr_tensor_unref(b);
    mr_tensor_unref(out);
    return st;
}

typedef struct adjoints {
    bool a, b;
} adjoints;

static mr_status *adjoints_init(mr_make *m, void *p)
{
    adjoints *s = p;
    MR_TRY(mr_node_get_bool(m->node, "adjoint_a", &s->a));
    return mr_node_get_bool(m->node, "adjoint_b", &s->b);
}

static mr_status *run_product(mr_run *r)
{
    const adjoints *s = r->state;
    product p = {mr_in(r, 0), mr_in(r, 1), mr_in(r, 3), .adjoint_a = s->a, .adjoint_b = s->b};
    MR_TRY(check_product(&p, mr_in(r, 2)));
    MR_TRY(check_indices(&p));
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){p.m, p.n}, &p.out));
    if (p.out->dtype == MR_HALF || p.out->dtype == MR_BFLOAT16)
        return multiply_wide(r, &p);
    multiply_all(r, &p);
    return NULL;
}

static mr_status *product_shape(mr_infer *c)
{
    const mr_pshape *a = NULL, *b = NULL, *vector;
    bool adjoint_a, adjoint_b;
    int64_t inner;
    MR_TRY(mr_node_get_bool(c->node, "adjoint_a", &adjoint_a));
    MR_TRY(mr_node_get_bool(c->node, "adjoint_b", &adjoint_b));
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &vector));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &vector));
    MR_TRY(mr_infer_shape_value(c, 2, &a));
    MR_TRY(mr_infer_rank(c, a, 2, &a));
    MR_TRY(mr_infer_rank(c, c->in[3], 2, &b));
    MR_TRY(mr_infer_merge_dim(a->dims[!adjoint_a], b->dims[adjoint_b], &inner));
    c->out[0] = mr_pshape_matrix(c->arena, a->dims[adjoint_a], b->dims[!adjoint_b]);
    return NULL;
}

static mr_out index_column(mr_grad *g, mr_out indices, int i)
{
    return mr_emit(g->s, "GatherV2", indices, mr_const_i32(g->s, i), mr_const_i32(g->s, 1));
}

/* Conjugated and transposed. */
static mr_out emit_adjoint(mr_grad *g, mr_out v)
{
    return mr_emit(g->s, "Transpose", mr_conj(g, v), mr_const_vec_i32(g->s, 2, (int32_t[]){1, 0}));
}

static void product_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    bool aa = false, ab = false;
    mr_scope_fail(s, mr_node_get_bool(g->node, "adjoint_a", &aa));
    mr_scope_fail(s, mr_node_get_bool(g->node, "adjoint_b", &ab));
    mr_out indices = mr_xi(g, 0), dy = mr_dyi(g, 0), b = mr_xi(g, 3), axis = mr_const_i32(s, 0);
    mr_out db = mr_emit_with(s, "SparseTensorDenseMatMul", MR_ATTRS({"adjoint_a", mr_a_bool(!aa)}),
                             indices, mr_xi(g, 1), mr_xi(g, 2), dy);
    mr_dxi(g, 3, ab ? emit_adjoint(g, db) : db);
    mr_out left = mr_emit(s, "GatherV2", dy, index_column(g, indices, aa), axis);
    mr_out right = mr_emit(s, "GatherV2", ab ? emit_adjoint(g, b) : b, index_column(g, indices, !aa), axis);
    mr_out both = aa ? mr_emit(s, "Mul", right, mr_conj(g, left))
                     : mr_emit(s, "Mul", left, mr_conj(g, right));
    mr_dxi(g, 1, mr_emit(s, "Sum", both, mr_const_i32(s, 1)));
}

MR_OP(SparseTensorDenseMatMul,
    .doc      = "the product of a sparse and a dense matrix",
    .sig      = "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T",
    .attrs    = "T: type; Tindices: {int32, int64} = DT_INT64; adjoint_a: bool = false; adjoint_b: bool = false",
    .shape    = product_shape,
    .grad     = product_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_product, MR_NUMBERS)),
    .state_bytes = sizeof(adjoints), .init = adjoints_init,
    .examples = MR_EXAMPLES(
        "[[0, 1], [1, 0]], [2, 3], [2, 2], [[1, 2], [3, 4]] -> [[6, 8], [3, 6]]",
        "Tindices=int32 adjoint_a=true: [[0, 1], [1, 0]], [2, 3], [2, 3], [[1, 2], [3, 4]] -> [[9, 12], [2, 4], [0, 0]]",
        "adjoint_b=true: [[0, 1], [1, 0]], [2, 3], [2, 2], [[1, 2], [3, 4]] -> [[4, 8], [3, 9]]",
        "adjoint_a=true adjoint_b=true: [[0, 0]], [1i], [1, 1], [[1i]] -> [[-1]]", "[[0, 0]], [1i], [1, 1], [[1i]] -> [[-1]]",
        "adjoint_a=true: [[0, 0]], [1i], [1, 1], [[1i]] -> [[1]]",
        "shape(0,2), shape(0), [1, 2], [[1], [2]] -> [[0]]", "[[0, 0], [0, 0]], [1, 2], [1, 1], [[3]] -> [[9]]",
        "[[0, 2]], [2], [2, 2], [[1, 2], [3, 4]] -> !INVALID_ARGUMENT k (2) from index[0,1] out of bounds (>=2)",
        "[[2, 0]], [2], [2, 2], [[1, 2], [3, 4]] -> !INVALID_ARGUMENT m (2) from index[0,0] out of bounds (>=2)",
        "[[0, 0]], [2], [2, 3], [[1, 2], [3, 4]] -> !INVALID_ARGUMENT must be equal"));

/* ---- SparseMatMul: computed as a dense product ---- */

typedef struct transposes {
    bool a, b;
} transposes;

static mr_status *transposes_init(mr_make *m, void *p)
{
    transposes *s = p;
    MR_TRY(mr_node_get_bool(m->node, "transpose_a", &s->a));
    return mr_node_get_bool(m->node, "transpose_b", &s->b);
}

static mr_status *as_float(mr_run *r, const mr_tensor *t, mr_tensor **out)
{
    if (t->dtype == MR_FLOAT) {
        *out = mr_tensor_ref(t);
        return NULL;
    }
    MR_TRY(mr_run_temp(r, MR_FLOAT, t->rank, t->dims, out));
    mr_dtype_convert((mr_dtype)t->dtype, t->data, MR_FLOAT, (*out)->data, t->n, false);
    return NULL;
}

static mr_status *run_sparse_matmul(mr_run *r)
{
    const transposes *s = r->state;
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    mr_tensor *a = NULL, *b = NULL, *out;
    mr_status *st = NULL;
    if (x->rank != 2 || y->rank != 2)
        return mr_invalid("%s is not a matrix", x->rank != 2 ? "a" : "b");
    mr_gemm one = {.type = MR_FLOAT,
                   .m = x->dims[s->a],
                   .k = x->dims[!s->a],
                   .n = y->dims[!s->b],
                   .ta = s->a,
                   .tb = s->b};
    if (one.k != y->dims[s->b])
        return mr_invalid("Matrix size incompatible: a: %s, b: %s", MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(y));
    MR_GO(mr_run_output(r, 0, 2, (int64_t[]){one.m, one.n}, &out));
    if (one.k == 0)
        mr_tensor_zero(out);
    if (out->n == 0 || one.k == 0)
        goto out;
    MR_GO(as_float(r, x, &a));
    MR_GO(as_float(r, y, &b));
    st = mr_gemm_run(r, &(mr_gemm_batch){.one = one,
                                         .n_batch = 1,
                                         .a = a->data,
                                         .b = b->data,
                                         .a_n = a->n,
                                         .b_n = b->n,
                                         .c = out->data});
out:
    mr_tensor_unref(a);
    mr_tensor_unref(b);
    return st;
}

static mr_status *sparse_matmul_shape(mr_infer *c)
{
    const mr_pshape *a = NULL, *b = NULL;
    bool ta, tb;
    int64_t inner;
    MR_TRY(mr_node_get_bool(c->node, "transpose_a", &ta));
    MR_TRY(mr_node_get_bool(c->node, "transpose_b", &tb));
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &a));
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &b));
    MR_TRY(mr_infer_merge_dim(a->dims[!ta], b->dims[tb], &inner));
    c->out[0] = mr_pshape_matrix(c->arena, a->dims[ta], b->dims[!tb]);
    return NULL;
}

/* One product of the gradient, in the type of input i. */
static void give_product(mr_grad *g, int i, mr_out a, mr_out b, bool ta, bool tb)
{
    mr_out d = mr_emit_with(
        g->s, "SparseMatMul",
        MR_ATTRS({"transpose_a", mr_a_bool(ta)}, {"transpose_b", mr_a_bool(tb)}), a, b);
    mr_dtype t = mr_out_type(mr_xi(g, i));
    mr_dxi(g, i, t == MR_FLOAT ? d : mr_cast(g, d, t));
}

static void sparse_matmul_backward(mr_grad *g)
{
    bool ta = false, tb = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "transpose_a", &ta));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "transpose_b", &tb));
    mr_out a = mr_xi(g, 0), b = mr_xi(g, 1), dy = mr_dyi(g, 0);
    give_product(g, 0, ta ? b : dy, ta ? dy : b, ta && tb, ta ? true : !tb);
    give_product(g, 1, tb ? dy : a, tb ? a : dy, tb ? true : !ta, ta && tb);
}

MR_OP(SparseMatMul,
    .doc      = "the product of matrices with many zeros",
    .sig      = "a: Ta, b: Tb -> product: float",
    .attrs    = "transpose_a: bool = false; transpose_b: bool = false; a_is_sparse: bool = false; b_is_sparse: bool = false; "
                "Ta: {float, bfloat16} = DT_FLOAT; Tb: {float, bfloat16} = DT_FLOAT",
    .shape    = sparse_matmul_shape,
    .grad     = sparse_matmul_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_sparse_matmul)),
    .state_bytes = sizeof(transposes), .init = transposes_init,
    .examples = MR_EXAMPLES(
        "[[1, 0], [0, 2]], [[1, 2], [3, 4]] -> [[1, 2], [6, 8]]",
        "nograd Tb=bfloat16 transpose_a=true: [[1, 0, 3], [0, 2, 0]], [[1, 2], [3, 4]] -> [[1, 2], [6, 8], [3, 6]]",
        "transpose_b=true: [[1, 0], [0, 2]], [[1, 2], [3, 4]] -> [[1, 3], [4, 8]]",
        "transpose_a=true: [[1, 0, 3], [0, 2, 0]], [[1, 2], [3, 4]] -> [[1, 2], [6, 8], [3, 6]]",
        "transpose_a=true transpose_b=true: [[1, 2], [0, 1]], [[1, 2], [3, 4]] -> [[1, 3], [4, 10]]",
        "shape(2,0), shape(0,1) -> [[0], [0]]", "[[1, 2]], [[1, 2]] -> !INVALID_ARGUMENT must be equal"));
