/* ops/linalg/matmul.c -- MatMul, BatchMatMul, BatchMatMulV2 and BatchMatMulV3. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/broadcast.h"
#include "ops/linalg/gemm.h"
#include "ops/nn/wide.h"
#include "run/accel.h"

#define MATMUL_TYPES(M, ...) \
    MR_FLOATS(M, __VA_ARGS__) MR_INDEXES(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define MATMUL_V2_TYPES(M, ...) MATMUL_TYPES(M, __VA_ARGS__) MR_TYPE_INT16(M, __VA_ARGS__)

/* ---- MatMul ---- */

/* Sets the sizes of the product, and creates its output. */
static mr_status *begin_matmul(mr_run *r, mr_gemm *g, mr_tensor **c)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    MR_TRY(mr_node_get_bool(r->node, "transpose_a", &g->ta));
    MR_TRY(mr_node_get_bool(r->node, "transpose_b", &g->tb));
    for (int i = 0; i < 2; i++)
        if (mr_in(r, i)->rank != 2)
            return mr_invalid("In[%d] is not a matrix. Instead it has shape %s", i,
                              MR_TENSOR_SHAPE(mr_in(r, i)));
    g->m = a->dims[g->ta];
    g->k = a->dims[!g->ta];
    g->n = b->dims[!g->tb];
    if (b->dims[g->tb] != g->k)
        return mr_invalid("Matrix size-incompatible: In[0]: %s, In[1]: %s", MR_TENSOR_SHAPE(a),
                          MR_TENSOR_SHAPE(b));
    return mr_run_output(r, 0, 2, (int64_t[]){g->m, g->n}, c);
}

static mr_status *matmul_accel(mr_run *r)
{
    mr_gemm g = {.type = MR_FLOAT};
    mr_tensor *c;
    MR_TRY(begin_matmul(r, &g, &c));
    if (c->n == 0 || g.k == 0)
        return mr_accel_fill(r, c, 0);
    return mr_accel_gemm_run(
        r, &(mr_accel_gemm){g.m, g.n, g.k, {mr_in(r, 0), 0, g.ta}, {mr_in(r, 1), 0, g.tb}, {c, 0, false}, .n_batch = 1});
}

static mr_status *run_matmul(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_gemm g = {.type = (mr_dtype)a->dtype};
    mr_tensor *c;
    MR_TRY(begin_matmul(r, &g, &c));
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g,
                                           .n_batch = 1,
                                           .a = a->data,
                                           .b = b->data,
                                           .a_n = a->n,
                                           .b_n = b->n,
                                           .c = c->data});
}

static mr_status *matmul_shape(mr_infer *c)
{
    const mr_pshape *a, *b;
    bool ta, tb;
    int64_t inner;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &a));
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &b));
    MR_TRY(mr_node_get_bool(c->node, "transpose_a", &ta));
    MR_TRY(mr_node_get_bool(c->node, "transpose_b", &tb));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(a, ta ? 0 : 1), mr_infer_dim(b, tb ? 1 : 0), &inner));
    c->out[0] =
        mr_pshape_matrix(c->arena, mr_infer_dim(a, ta ? 1 : 0), mr_infer_dim(b, tb ? 0 : 1));
    return NULL;
}

/* Emits a product by the same kind of op, with the two flags. */
static mr_out emit_product(mr_grad *g, const char *op, const char *flag_a, const char *flag_b, mr_out a,
                           mr_out b, bool ta, bool tb)
{
    return mr_emit_with(g->s, op, MR_ATTRS({flag_a, mr_a_bool(ta)}, {flag_b, mr_a_bool(tb)}), a, b);
}

/* dA and dB of C = op(A) op(B). If the flags mean adjoints, A and B are used unchanged, else conjugated. */
static void products_backward(mr_grad *g, const char *op, const char *fa, const char *fb, bool ta,
                              bool tb, mr_out a, mr_out b, mr_out *da, mr_out *db)
{
    mr_out dc = mr_dyi(g, 0);
    *da = ta ? emit_product(g, op, fa, fb, b, dc, tb, true) : emit_product(g, op, fa, fb, dc, b, false, !tb);
    *db = tb ? emit_product(g, op, fa, fb, dc, a, true, ta) : emit_product(g, op, fa, fb, a, dc, !ta, false);
}

static void matmul_backward(mr_grad *g)
{
    bool ta = false, tb = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "transpose_a", &ta));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "transpose_b", &tb));
    mr_out da, db;
    products_backward(g, "MatMul", "transpose_a", "transpose_b", ta, tb, mr_conj(g, mr_xi(g, 0)),
                      mr_conj(g, mr_xi(g, 1)), &da, &db);
    mr_dxi(g, 0, da);
    mr_dxi(g, 1, db);
}

/* ---- batches ---- */

typedef struct batch {
    mr_broadcast walk; /* over the batch dimensions */
    int64_t size[2];   /* elements of one matrix */
} batch;

static int64_t matrix_at(void *ctx, int operand, int64_t i)
{
    const batch *b = ctx;
    return mr_broadcast_offset(&b->walk, operand, i) * b->size[operand];
}

static mr_status *batch_sizes(mr_run *r, const mr_tensor *x, const mr_tensor *y, mr_gemm *g)
{
    for (int i = 0; i < 2; i++)
        if (mr_in(r, i)->rank < 2)
            return mr_invalid("In[%d] ndims must be >= 2: %d", i, mr_in(r, i)->rank);
    g->type = (mr_dtype)x->dtype;
    MR_TRY(mr_node_get_bool(r->node, "adj_x", &g->ta));
    MR_TRY(mr_node_get_bool(r->node, "adj_y", &g->tb));
    g->conj_a = g->ta && mr_dtype_is_complex(g->type);
    g->conj_b = g->tb && mr_dtype_is_complex(g->type);
    g->m = x->dims[x->rank - 2 + g->ta];
    g->k = x->dims[x->rank - 1 - g->ta];
    g->n = y->dims[y->rank - 1 - g->tb];
    if (y->dims[y->rank - 2 + g->tb] != g->k)
        return mr_invalid("Matrix size-incompatible: In[0]: %s, In[1]: %s", MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(y));
    return NULL;
}

/* x and y are the inputs, in the type of the output. */
static mr_status *batch_product(mr_run *r, const mr_tensor *x, const mr_tensor *y)
{
    mr_gemm g = {.type = MR_INVALID};
    MR_TRY(batch_sizes(r, x, y, &g));
    batch b = {.size = {g.m * g.k, g.k * g.n}};
    mr_broadcast_init(&b.walk);
    MR_TRY(mr_broadcast_add(&b.walk, x->rank - 2, x->dims));
    MR_TRY(mr_broadcast_add(&b.walk, y->rank - 2, y->dims));
    MR_TRY(mr_broadcast_collapse(&b.walk));
    mr_shape shape;
    mr_shape_set(&shape, b.walk.shape.rank, b.walk.shape.dims);
    MR_TRY(mr_shape_push(&shape, g.m));
    MR_TRY(mr_shape_push(&shape, g.n));
    mr_tensor *z;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &z));
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g,
                                           .n_batch = b.walk.n,
                                           .at = matrix_at,
                                           .ctx = &b,
                                           .a = x->data,
                                           .b = y->data,
                                           .a_n = x->n,
                                           .b_n = y->n,
                                           .c = z->data});
}

static mr_status *batch_matmul_v2(mr_run *r) { return batch_product(r, mr_in(r, 0), mr_in(r, 1)); }

/* Input i in the type of the output; the caller releases it. */
static mr_status *in_type_of_output(mr_run *r, int i, mr_tensor **out)
{
    const mr_tensor *t = mr_in(r, i);
    mr_dtype wanted = mr_out_dtype(r, 0);
    if (t->dtype == wanted) {
        *out = mr_tensor_ref(t);
        return NULL;
    }
    MR_TRY(mr_run_temp(r, wanted, t->rank, t->dims, out));
    if (t->n > 0)
        mr_run_convert(r, t, *out);
    return NULL;
}

static mr_status *batch_matmul_v3(mr_run *r)
{
    mr_status *st = NULL;
    mr_tensor *x = NULL, *y = NULL;
    MR_GO(in_type_of_output(r, 0, &x));
    MR_GO(in_type_of_output(r, 1, &y));
    MR_GO(batch_product(r, x, y));
out:
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    return st;
}

static mr_status *batch_matmul(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    if (x->rank != y->rank ||
        (x->rank >= 2 && !mr_shape_eq(x->rank - 2, x->dims, y->rank - 2, y->dims)))
        return mr_invalid("In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                          MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(y));
    return batch_matmul_v2(r);
}

/* The rows, columns and batch dimensions of an input. */
static mr_status *batch_parts(mr_infer *c, int i, const char *flag, const mr_pshape **front,
                              int64_t *rows, int64_t *cols)
{
    const mr_pshape *s;
    bool adj;
    MR_TRY(mr_infer_rank_at_least(c, c->in[i], 2, &s));
    MR_TRY(mr_node_get_bool(c->node, flag, &adj));
    *rows = mr_infer_dim(s, adj ? -1 : -2);
    *cols = mr_infer_dim(s, adj ? -2 : -1);
    *front = mr_infer_sub(c, s, 0, -2);
    return NULL;
}

static mr_status *batch_shape(mr_infer *c, bool broadcast)
{
    const mr_pshape *x, *y, *both;
    int64_t m, k, k2, n, inner;
    MR_TRY(batch_parts(c, 0, "adj_x", &x, &m, &k));
    MR_TRY(batch_parts(c, 1, "adj_y", &y, &k2, &n));
    MR_TRY(mr_infer_merge_dim(k, k2, &inner));
    MR_TRY(broadcast ? mr_infer_broadcast(c, x, y, &both) : mr_infer_merge(c, x, y, &both));
    c->out[0] = mr_infer_concat(c, both, mr_pshape_matrix(c->arena, m, n));
    return NULL;
}

static mr_status *batch_matmul_shape(mr_infer *c) { return batch_shape(c, false); }
static mr_status *batch_matmul_v2_shape(mr_infer *c) { return batch_shape(c, true); }

static void batch_products(mr_grad *g, const char *op, mr_out *dx, mr_out *dy)
{
    bool ta = false, tb = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "adj_x", &ta));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "adj_y", &tb));
    products_backward(g, op, "adj_x", "adj_y", ta, tb, mr_xi(g, 0), mr_xi(g, 1), dx, dy);
}

static void batch_matmul_backward(mr_grad *g)
{
    mr_out dx, dy;
    batch_products(g, "BatchMatMul", &dx, &dy);
    mr_dxi(g, 0, dx);
    mr_dxi(g, 1, dy);
}

/* True if both inputs are known to have the same batch dimensions. */
static bool same_batch(const mr_pshape *x, const mr_pshape *y)
{
    if (x->rank < 2 || x->rank != y->rank)
        return false;
    for (int d = 0; d < x->rank - 2; d++)
        if (x->dims[d] < 0 || x->dims[d] != y->dims[d])
            return false;
    return true;
}

/* shape[:-2] */
static mr_out batch_dims(mr_grad *g, mr_out shape)
{
    mr_scope *s = g->s;
    mr_out begin = mr_const_vec_i32(s, 1, (int32_t[]){0}),
           end = mr_const_vec_i32(s, 1, (int32_t[]){-2});
    return mr_emit(s, "StridedSlice", shape, begin, end, mr_const_vec_i32(s, 1, (int32_t[]){1}));
}

/* Sums over broadcast dimensions, and sets both gradients. */
static void set_batch_gradients(mr_grad *g, mr_out dx, mr_out dy)
{
    if (mr_scope_ok(g->s) && !same_batch(mr_out_shape(mr_xi(g, 0)), mr_out_shape(mr_xi(g, 1)))) {
        mr_out x = mr_shape_of(g, mr_xi(g, 0)), y = mr_shape_of(g, mr_xi(g, 1));
        mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", batch_dims(g, x), batch_dims(g, y));
        dx = mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", dx, mr_nth(axes, 0)), x);
        dy = mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", dy, mr_nth(axes, 1)), y);
    }
    mr_dxi(g, 0, dx);
    mr_dxi(g, 1, dy);
}

static void batch_matmul_v2_backward(mr_grad *g)
{
    mr_out dx, dy;
    batch_products(g, "BatchMatMulV2", &dx, &dy);
    set_batch_gradients(g, dx, dy);
}

static mr_out cast_like(mr_grad *g, mr_out v, mr_out like)
{
    if (!mr_scope_ok(g->s) || mr_out_type(v) == mr_out_type(like))
        return v;
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_dtype_base(mr_out_type(like)))}), v);
}

/* Computes in the type of the output, then casts to those of the inputs. */
static void batch_matmul_v3_backward(mr_grad *g)
{
    bool ta = false, tb = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "adj_x", &ta));
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "adj_y", &tb));
    mr_out x = mr_xi(g, 0), y = mr_xi(g, 1), dz = mr_dyi(g, 0), dx, dy;
    products_backward(g, "BatchMatMulV2", "adj_x", "adj_y", ta, tb, cast_like(g, x, dz),
                      cast_like(g, y, dz), &dx, &dy);
    set_batch_gradients(g, cast_like(g, dx, x), cast_like(g, dy, y));
}

MR_OP(MatMul,
    .doc      = "product of two matrices, each transposed if asked",
    .sig      = "a: T, b: T -> product: T",
    .attrs    = "transpose_a: bool = false; transpose_b: bool = false; "
                "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    .key      = "T",
    .shape    = matmul_shape,
    .grad     = matmul_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_matmul, MATMUL_TYPES) MR_GPU(matmul_accel, FLOAT)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [[5, 6], [7, 8]] -> [[19, 22], [43, 50]]",
        "[[1, 2, 3]], [[4], [5], [6]] -> [[32]]",
        "transpose_a=true: [[1, 3], [2, 4]], [[5, 6], [7, 8]] -> [[19, 22], [43, 50]]",
        "transpose_b=true: [[1, 2], [3, 4]], [[5, 7], [6, 8]] -> [[19, 22], [43, 50]]",
        "transpose_a=true transpose_b=true: [[1, 3], [2, 4]], [[5, 7], [6, 8]] -> [[19, 22], [43, "
        "50]]",
        "[[1+1i]], [[2i, 3]] -> [[-2+2i, 3+3i]]",
        "nograd: fill(1, 20,33), fill(2, 33,17) -> fill(66, 20,17)",
        "shape(2,0), shape(0,3) -> [[0, 0, 0], [0, 0, 0]]",
        "shape(0,2), [[1, 2], [3, 4]] -> shape(0,2)", "T=float: [[nan, 1]], [[0], [1]] -> [[nan]]",
        "T=float: [[1, 2]], [[1, 2]] -> !INVALID_ARGUMENT",
        "T=float: [1, 2], [[1, 2]] -> !INVALID_ARGUMENT"));

MR_OP(BatchMatMul,
    .doc      = "products of the matrices in the last two dimensions; the dimensions before are "
                "equal",
    .sig      = "x: T, y: T -> output: T",
    .attrs    = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}; adj_x: "
                "bool = false; "
                "adj_y: bool = false",
    .shape    = batch_matmul_shape,
    .grad     = batch_matmul_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(batch_matmul, MATMUL_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[1, 2], [3, 4]], [[1, 0], [0, 1]]], [[[5], [6]], [[7], [8]]] -> [[[17], [39]], [[7], "
        "[8]]]",
        "adj_x=true: [[[1, 3], [2, 4]]], [[[5, 6], [7, 8]]] -> [[[19, 22], [43, 50]]]",
        "adj_y=true: [[[1, 2]]], [[[3, 4]]] -> [[[11]]]",
        "adj_x=true adj_y=true: [[[1], [2]]], [[[3, 4]]] -> [[[11]]]",
        "adj_x=true: [[1+1i]], [[2i]] -> [[2+2i]]",
        "T=float: shape(2,1,1), shape(3,1,1) -> !INVALID_ARGUMENT",
        "T=float: shape(2,1,1), shape(1,1) -> !INVALID_ARGUMENT"));

MR_OP(BatchMatMulV2,
    .doc      = "products of the matrices in the last two dimensions; the dimensions before "
                "broadcast",
    .sig      = "x: T, y: T -> output: T",
    .attrs    = "T: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}; "
                "adj_x: bool = false; "
                "adj_y: bool = false",
    .shape    = batch_matmul_v2_shape,
    .grad     = batch_matmul_v2_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(batch_matmul_v2, MATMUL_V2_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[1, 2], [3, 4]], [[1, 0], [0, 1]]], [[5], [6]] -> [[[17], [39]], [[5], [6]]]",
        "[[[[1]], [[2]]]], [[[[3]]], [[[4]]]] -> [[[[3]], [[6]]], [[[4]], [[8]]]]",
        "adj_x=true adj_y=true: [[1+1i], [2]], [[2i, 1]] -> [[-2i]]",
        "adj_y=true: [[[1, 2]]], [[[3, 4]], [[5, 6]]] -> [[[11]], [[17]]]",
        "shape(0,2,3), shape(3,2) -> shape(0,2,2)",
        "T=float: shape(2,1,1), shape(3,1,1) -> !INVALID_ARGUMENT",
        "T=float: [1], [[1]] -> !INVALID_ARGUMENT"));

#define V3_TYPES "{bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}"
MR_OP(BatchMatMulV3,
    .doc      = "products of the matrices in the last two dimensions, in a type of their own; the "
                "dimensions before broadcast",
    .sig      = "x: Ta, y: Tb -> output: Tout",
    .attrs    = "Ta: " V3_TYPES "; Tb: " V3_TYPES "; "
                "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}; "
                "adj_x: bool = false; adj_y: bool = false",
    .key      = "Tout",
    .shape    = batch_matmul_v2_shape,
    .grad     = batch_matmul_v3_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(batch_matmul_v3, MATMUL_V2_TYPES)),
    .examples = MR_EXAMPLES(
        "Ta=$T Tb=$T: [[[1, 2], [3, 4]], [[1, 0], [0, 1]]], [[5], [6]] -> [[[17], [39]], [[5], [6]]]",
        "Ta=int8 Tb=int8 Tout=int32: [[-128, 127]], [[-128], [127]] -> [[32513]]",
        "Ta=uint8 Tb=int8 Tout=int32: [[255]], [[-128]] -> [[-32640]]",
        "Ta=int8 Tb=float Tout=double: [[2, 3]], [[0.5], [0.25]] -> [[1.75]]",
        "Ta=$T Tb=$T adj_x=true adj_y=true: [[1+1i], [2]], [[2i, 1]] -> [[-2i]]",
        "Ta=$T Tb=$T adj_y=true: [[[1, 2]]], [[[3, 4]], [[5, 6]]] -> [[[11]], [[17]]]",
        "Ta=$T Tb=$T: shape(0,2,3), shape(3,2) -> shape(0,2,2)",
        "Tout=float Ta=float Tb=float: [[1, 2]], [[1, 2]] -> !INVALID_ARGUMENT",
        "Tout=float Ta=float Tb=float: [1], [[1]] -> !INVALID_ARGUMENT"));
