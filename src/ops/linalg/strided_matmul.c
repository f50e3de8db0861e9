/* ops/linalg/strided_matmul.c -- batches of products whose operands and result are read and written through transposes.
 *
 * passes/fuse_transpose.c makes such a node of a BatchMatMul with the Transposes (and Unpacks) around it: so the heads of
 * an attention need no copies. A view of an operand has strides; the product reads it in place if rows or columns of its
 * matrices are contiguous. What broadcasts, or is wrong, goes to the graph that defines the op. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/linalg/gemm.h"
#include "ops/nn/inside.h"

enum { MOST_RANK = 8 };

typedef struct order { /* of dimensions, as the perm of Transpose has it; n 0: unchanged */
    int n, perm[MOST_RANK];
} order;

typedef struct strided_state { /* `inside` is first: mr_inside_run takes the whole for it */
    mr_inside inside;
    order x, y, out;
    int64_t part[2], axis[2];
    bool adj[2];
} strided_state;

typedef struct view {
    int rank;
    int64_t dims[MOST_RANK], strides[MOST_RANK], offset;
} view;

/* ---- attrs ---- */

static mr_status *read_order(const mr_node *n, const char *attr, order *out)
{
    const mr_attr *a;
    unsigned seen = 0;
    MR_TRY(mr_node_get_list(n, attr, MR_ATTR_INT, &a));
    if (a->n > MOST_RANK)
        return mr_invalid("%s has %d dimensions, at most %d are supported", attr, a->n, MOST_RANK);
    out->n = a->n;
    for (int i = 0; i < a->n; i++) {
        if (a->is[i] < 0 || a->is[i] >= a->n || (seen >> a->is[i] & 1))
            return mr_invalid("%s is no order of %d dimensions", attr, a->n);
        seen |= 1u << a->is[i];
        out->perm[i] = (int)a->is[i];
    }
    return NULL;
}

static mr_status *read_attrs(const mr_node *n, strided_state *s)
{
    MR_TRY(read_order(n, "x_order", &s->x));
    MR_TRY(read_order(n, "y_order", &s->y));
    MR_TRY(read_order(n, "order", &s->out));
    MR_TRY(mr_node_get_int(n, "x_part", &s->part[0]));
    MR_TRY(mr_node_get_int(n, "y_part", &s->part[1]));
    MR_TRY(mr_node_get_int(n, "x_axis", &s->axis[0]));
    MR_TRY(mr_node_get_int(n, "y_axis", &s->axis[1]));
    MR_TRY(mr_node_get_bool(n, "adj_x", &s->adj[0]));
    return mr_node_get_bool(n, "adj_y", &s->adj[1]);
}

/* ---- the definition ---- */

static mr_out emit_order(mr_scope *s, mr_out x, const order *o)
{
    int32_t perm[MOST_RANK];
    for (int i = 0; i < o->n; i++)
        perm[i] = o->perm[i];
    return o->n ? mr_emit(s, "Transpose", x, mr_const_vec_i32(s, o->n, perm)) : x;
}

static void emit_strided(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    strided_state a = {.part = {0}};
    bool broadcasts = false;
    mr_scope_fail(s, read_attrs(n, &a));
    mr_scope_fail(s, mr_node_get_bool(n, "broadcasts", &broadcasts));
    if (!mr_scope_ok(s))
        return;
    mr_out v[2] = {emit_order(s, in[0], &a.x), emit_order(s, in[1], &a.y)};
    for (int i = 0; i < 2; i++)
        if (a.part[i] >= 0)
            v[i] = mr_emit(s, "GatherV2", v[i], mr_const_i32(s, (int32_t)a.part[i]), mr_const_i32(s, (int32_t)a.axis[i]));
    mr_out z = mr_inside_emit(s, n, broadcasts ? "BatchMatMulV2" : "BatchMatMul", "T adj_x adj_y", v, 2);
    out[0] = emit_order(s, z, &a.out);
}

static mr_status *strided_init(mr_make *m, void *state)
{
    MR_TRY(mr_inside_init(m, state, emit_strided));
    return read_attrs(m->node, state);
}

static mr_status *strided_shape(mr_infer *c) { return mr_inside_infer(c, emit_strided); }

/* ---- the kernel ---- */

static void packed_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t n = 1;
    for (int i = rank - 1; i >= 0; n *= dims[i--])
        strides[i] = n;
}

/* False if the graph must find out what is wrong. */
static bool make_view(const mr_tensor *t, const order *o, int64_t part, int64_t axis, view *v)
{
    int64_t strides[MOST_RANK];
    if (t->rank > MOST_RANK || t->rank < 2 || (o->n && o->n != t->rank))
        return false;
    packed_strides(t->rank, t->dims, strides);
    *v = (view){0};
    for (int i = 0; i < t->rank; i++) {
        int d = o->n ? o->perm[i] : i;
        if (part >= 0 && i == axis) {
            if (part >= t->dims[d])
                return false;
            v->offset = part * strides[d];
            continue;
        }
        v->dims[v->rank] = t->dims[d];
        v->strides[v->rank++] = strides[d];
    }
    return v->rank >= 2;
}

/* Describes the last two dimensions as a matrix that is stored by rows, or, with *turned, by columns. */
static bool matrix_of(const view *v, bool *turned, int64_t *distance)
{
    int64_t row = v->strides[v->rank - 2], col = v->strides[v->rank - 1];
    int64_t rows = v->dims[v->rank - 2], cols = v->dims[v->rank - 1];
    *turned = !(col == 1 && row >= cols);
    *distance = *turned ? col : row;
    return !*turned || (row == 1 && col >= rows);
}

typedef struct walk {
    int n; /* batch dimensions */
    const view *views[3];
} walk;

static int64_t place_of(void *ctx, int operand, int64_t i)
{
    const walk *w = ctx;
    const view *v = w->views[operand];
    int64_t at = v->offset;
    for (int d = w->n - 1; d >= 0; d--) {
        at += i % v->dims[d] * v->strides[d];
        i /= v->dims[d];
    }
    return at;
}

/* The result as the product sees it: its dimensions in their order, with the strides of the output. */
static bool make_result(const strided_state *s, const view *x, int64_t m, int64_t n, view *z, int64_t *out_dims)
{
    int64_t strides[MOST_RANK];
    *z = (view){.rank = x->rank};
    if (s->out.n && s->out.n != z->rank)
        return false;
    memcpy(z->dims, x->dims, sizeof z->dims);
    z->dims[z->rank - 2] = m;
    z->dims[z->rank - 1] = n;
    for (int i = 0; i < z->rank; i++)
        out_dims[i] = z->dims[s->out.n ? s->out.perm[i] : i];
    packed_strides(z->rank, out_dims, strides);
    for (int i = 0; i < z->rank; i++)
        z->strides[s->out.n ? s->out.perm[i] : i] = strides[i];
    return z->strides[z->rank - 1] == 1;
}

static mr_status *run_strided(mr_run *r)
{
    strided_state *s = r->state;
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    view x, y, z;
    int64_t dims[MOST_RANK], distances[2];
    bool turned[2];
    if (!make_view(a, &s->x, s->part[0], s->axis[0], &x) || !make_view(b, &s->y, s->part[1], s->axis[1], &y) ||
        !mr_shape_eq(x.rank - 2, x.dims, y.rank - 2, y.dims) || !matrix_of(&x, &turned[0], &distances[0]) ||
        !matrix_of(&y, &turned[1], &distances[1]))
        return mr_inside_run(r);
    mr_gemm g = {.type = MR_FLOAT, .ta = s->adj[0] != turned[0], .tb = s->adj[1] != turned[1],
                 .lda = distances[0], .ldb = distances[1]};
    g.m = x.dims[x.rank - 2 + s->adj[0]];
    g.k = x.dims[x.rank - 1 - s->adj[0]];
    g.n = y.dims[y.rank - 1 - s->adj[1]];
    if (y.dims[y.rank - 2 + s->adj[1]] != g.k || !make_result(s, &x, g.m, g.n, &z, dims))
        return mr_inside_run(r);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, z.rank, dims, &out));
    if (out->n == 0)
        return NULL;
    if (g.k == 0)
        return mr_tensor_zero(out), NULL;
    g.ldc = z.strides[z.rank - 2];
    walk w = {x.rank - 2, {&x, &y, &z}};
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g, .n_batch = out->n / (g.m * g.n), .at = place_of, .places_c = true,
                                           .ctx = &w, .a = a->data, .b = b->data, .a_n = a->n, .b_n = b->n,
                                           .c = out->data});
}

MR_OP(_StridedBatchMatMul,
    .doc         = "BatchMatMul of transposed and sliced operands, transposed; made by the runtime from single nodes",
    .sig         = "x: T, y: T -> output: T",
    .attrs       = "T: {float}; adj_x: bool = false; adj_y: bool = false; x_order: list(int) = []; "
                   "y_order: list(int) = []; order: list(int) = []; x_part: int = -1; y_part: int = -1; "
                   "x_axis: int = 0; y_axis: int = 0; broadcasts: bool = true",
    .flags       = MR_NO_GRADIENT,
    .shape       = strided_shape,
    .kernels     = MR_KERNELS(MR_CPU_ONE(run_strided, MR_TYPE_FLOAT)),
    .state_bytes = sizeof(strided_state),
    .init        = strided_init,
    .deinit      = mr_inside_deinit,
    .examples    = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [[5, 6], [7, 8]] -> [[19, 22], [43, 50]]",
        "x_order=[1, 0]: [[1, 3], [2, 4]], [[5, 6], [7, 8]] -> [[19, 22], [43, 50]]",
        "y_order=[0, 2, 1] adj_y=true order=[1, 0, 2]: [[[1, 2]], [[3, 4]]], [[[1, 0], [0, 1]], [[2, 0], [0, 2]]] -> "
        "[[[1, 2], [6, 8]]]",
        "x_order=[1, 0, 2] x_part=1 y_part=0 order=[1, 0]: [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[[1, 0], [0, 1]]] -> "
        "[[3, 7], [4, 8]]",
        "x_order=[1, 0]: shape(0,2), shape(0,3) -> [[0, 0, 0], [0, 0, 0]]",
        "y_order=[1, 0]: [[[1, 2]], [[3, 4]]], [[1, 0], [0, 1]] -> [[[1, 2]], [[3, 4]]]",
        "x_order=[1, 0]: [[[1, 2]]], [[1], [2]] -> !INVALID_ARGUMENT",
        "x_order=[1, 1]: [[1]], [[1]] -> !INVALID_ARGUMENT x_order is no order of 2 dimensions",
        "x_order=[1, 0]: [[1, 2]], [[1], [2]] -> !INVALID_ARGUMENT"));
