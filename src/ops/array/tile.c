/* ops/array/tile.c -- repeats a tensor: Tile and its gradient, BroadcastTo. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "ops/reduce.h"
#include "run/accel.h"

/* ---- Tile ---- */

static mr_status *tiled_dims(const mr_tensor *x, const mr_tensor *multiples, int64_t *dims)
{
    if (multiples->rank != 1)
        return mr_invalid("Expected multiples to be 1-D, but got shape %s",
                          MR_TENSOR_SHAPE(multiples));
    if (multiples->n != x->rank)
        return mr_invalid(
            "Expected multiples argument to be a vector of length %d but got length %lld", x->rank,
            (long long)multiples->n);
    for (int d = 0; d < x->rank; d++) {
        int64_t m = mr_tensor_int_at(multiples, d);
        if (m < 0)
            return mr_invalid("Expected multiples[%d] >= 0, but got %lld", d, (long long)m);
        if (!mr_i64_mul(x->dims[d], m, &dims[d]))
            return mr_invalid("Dimension %d of the tiled tensor is too large", d);
    }
    return NULL;
}

static mr_status *run_tile(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t dims[MR_MAX_RANK], from[MR_MAX_RANK], to[MR_MAX_RANK];
    mr_tensor *out;
    mr_blit b;
    MR_TRY(tiled_dims(x, mr_in(r, 1), dims));
    if (mr_shape_eq(x->rank, x->dims, x->rank, dims)) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, x->rank, dims, &out));
    if (out->n == 0)
        return NULL;
    mr_dims_strides(x->rank, x->dims, from);
    mr_dims_strides(x->rank, dims, to);
    mr_blit_init(&b);
    for (int d = 0; d < x->rank; d++) {
        mr_blit_dim(&b, dims[d] / x->dims[d], 0, to[d] * x->dims[d]); /* the copies, */
        mr_blit_dim(&b, x->dims[d], from[d], to[d]);                  /* and the elements of each */
    }
    MR_TRY(mr_blit_copy(r, &b, out, 0, x, 0));
    return NULL;
}

static mr_status *tile_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *m = NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &m));
    if (x->rank < 0 && m->dims[0] >= 0 && m->dims[0] <= MR_MAX_RANK)
        x = mr_pshape_new(c->arena, (int)m->dims[0]);
    if (x->rank < 0)
        return NULL;
    if (m->dims[0] >= 0 && m->dims[0] != x->rank)
        return mr_invalid(
            "Expected multiples argument to be a vector of length %d but got length %lld", x->rank,
            (long long)m->dims[0]);
    MR_TRY(
        mr_infer_shape_value(c, 1, &m)); /* sizes follow the same rules as shapes: -1 is unknown */
    mr_pshape *out = mr_pshape_new(c->arena, x->rank);
    for (int d = 0; d < x->rank; d++)
        if (m->rank >= 0 && m->dims[d] >= 0 && x->dims[d] >= 0 &&
            !mr_i64_mul(m->dims[d], x->dims[d], &out->dims[d]))
            return mr_invalid("Dimension %d of the tiled tensor is too large", d);
    c->out[0] = out;
    return NULL;
}

/* 0, 2, 4 .. below twice the rank of x. */
static mr_out even_axes(mr_grad *g, mr_out x, mr_out split)
{
    int rank = mr_out_shape(x)->rank;
    int32_t axes[MR_MAX_RANK];
    for (int i = 0; i < rank; i++)
        axes[i] = 2 * i;
    if (rank >= 0)
        return mr_const_vec_i32(g->s, rank, axes);
    return mr_emit(g->s, "Range", mr_const_i32(g->s, 0), mr_emit(g->s, "Size", split),
                   mr_const_i32(g->s, 2));
}

/* Views dy as [m0, d0, m1, d1, ..] and sums over the copies. */
static void tile_backward(mr_grad *g)
{
    mr_out x = mr_xi(g, 0), m = mr_xi(g, 1), shape = mr_shape_of(g, x);
    if (mr_out_type(m) != MR_INT32)
        m = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), m);
    mr_out pairs = mr_emit_with(g->s, "Pack", MR_ATTRS({"axis", mr_a_int(1)}), m, shape);
    mr_out split = mr_emit(g->s, "Reshape", pairs, mr_const_vec_i32(g->s, 1, (int32_t[]){-1}));
    mr_out dy = mr_emit(g->s, "Reshape", mr_dyi(g, 0), split);
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", dy, even_axes(g, x, split)), shape));
}

MR_OP(Tile,
    .doc      = "the input repeated multiples[i] times along dimension i",
    .sig      = "input: T, multiples: Tmultiples -> output: T",
    .attrs    = "T: type; Tmultiples: {int32, int64} = DT_INT32",
    .shape    = tile_shape,
    .grad     = tile_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_tile) MR_GPU_HOST(run_tile, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[1, 2], [2] -> [1, 2, 1, 2]", "[[1, 2], [3, 4]], [1, 2] -> [[1, 2, 1, 2], [3, 4, 3, 4]]",
        "Tmultiples=int64: [[1], [2]], [2, 3] -> [[1, 1, 1], [2, 2, 2], [1, 1, 1], [2, 2, 2]]",
        "[\"a\"], [3] -> [\"a\", \"a\", \"a\"]", "1, shape(0) -> 1", "[1, 2], [0] -> shape(0)",
        "shape(0,2), [2, 3] -> shape(0,6)", "[1, 2], [1] -> [1, 2]",
        "[1, 2], [1, 1] -> !INVALID_ARGUMENT Expected multiples argument to be a vector of length "
        "1 but got length 2",
        "m = PlaceholderWithDefault dtype=int32 shape=?: int32[-1]; : [1, 2], m -> "
        "!INVALID_ARGUMENT Expected multiples[0] >= 0, but got -1"));

/* The sum of the copies: dimension d is viewed as [m, size / m] and folded over the first. */
static mr_status *run_tile_grad(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *m = mr_in(r, 1);
    const mr_reducer *sum = mr_sum_reducer((mr_dtype)x->dtype);
    int64_t dims[MR_MAX_RANK], split[2 * MR_MAX_RANK];
    bool fold[2 * MR_MAX_RANK];
    mr_tensor *out;
    if (!sum)
        return mr_error(MR_UNIMPLEMENTED, "TileGrad does not support type %s, whose elements cannot be added",
                        mr_dtype_name(x->dtype));
    if (m->rank != 1 || m->n != x->rank || 2 * x->rank > MR_MAX_RANK)
        return mr_invalid("Expected multiples argument to be a vector of length %d but got shape %s", x->rank,
                          MR_TENSOR_SHAPE(m));
    for (int d = 0; d < x->rank; d++) {
        int64_t n = mr_tensor_int_at(m, d);
        if (n < 1 || x->dims[d] % n != 0)
            return mr_invalid("Expected input_dim[%d] to be a multiple of multiples[%d], got %lld and %lld", d, d,
                              (long long)x->dims[d], (long long)n);
        split[2 * d] = n;
        split[2 * d + 1] = dims[d] = x->dims[d] / n;
        fold[2 * d] = true;
        fold[2 * d + 1] = false;
    }
    MR_TRY(mr_run_output(r, 0, x->rank, dims, &out));
    return mr_reduce(r, sum, (mr_dtype)x->dtype, x->data, 2 * x->rank, split, fold, out->data);
}

static mr_status *tile_grad_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *v;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &v));
    if (x->rank >= 0)
        c->out[0] = mr_pshape_new(c->arena, x->rank);
    return NULL;
}

MR_OP(TileGrad,
    .doc      = "the copies that Tile made added up: its gradient",
    .sig      = "input: T, multiples: int32 -> output: T",
    .attrs    = "T: type",
    .deprecated = 3, .deprecation = "TileGrad has been replaced with reduce_sum",
    .shape    = tile_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_tile_grad)),
    .examples = MR_EXAMPLES("[1, 2, 3, 4], [2] -> !UNIMPLEMENTED TileGrad has been replaced with reduce_sum"));

/* ---- BroadcastTo ---- */

static mr_status *check_broadcast(int rank, const int64_t *x, int to_rank, const int64_t *to)
{
    if (rank > to_rank)
        return mr_invalid("Rank of input (%d) must be no greater than rank of output shape (%d).",
                          rank, to_rank);
    for (int i = 1; i <= rank; i++) {
        int64_t a = x[rank - i], b = to[to_rank - i];
        if (a >= 0 && b >= 0 && a != 1 && a != b)
            return mr_invalid("Incompatible shapes: %s vs. %s", MR_SHAPE_TEXT(rank, x),
                              MR_SHAPE_TEXT(to_rank, to));
    }
    return NULL;
}

static mr_status *run_broadcast_to(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_shape s;
    int64_t from[MR_MAX_RANK], to[MR_MAX_RANK];
    mr_tensor *out;
    mr_blit b;
    MR_TRY(mr_in_shape(r, 1, "shape", 0, &s));
    MR_TRY(check_broadcast(x->rank, x->dims, s.rank, s.dims));
    if (mr_shape_eq(x->rank, x->dims, s.rank, s.dims)) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    if (out->n == 0)
        return NULL;
    mr_dims_strides(x->rank, x->dims, from);
    mr_dims_strides(s.rank, s.dims, to);
    mr_blit_init(&b);
    for (int d = 0; d < s.rank; d++) {
        int k = d - (s.rank - x->rank); /* the input's dimension, which may be missing or 1 */
        mr_blit_dim(&b, s.dims[d], k >= 0 && x->dims[k] != 1 ? from[k] : 0, to[d]);
    }
    MR_TRY(mr_blit_copy(r, &b, out, 0, x, 0));
    return NULL;
}

/* The requested shape, as far as it is known, with the sizes that the input has. */
static mr_status *broadcast_to_shape(mr_infer *c)
{
    MR_TRY(mr_infer_shape_value(c, 1, &c->out[0]));
    const mr_pshape *x = c->in[0], *s = c->out[0];
    if (x->rank < 0 || s->rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank_at_most(c, x, s->rank, &x));
    for (int d = 1; d <= x->rank; d++) { /* a size above 1 is kept */
        int64_t n = mr_infer_dim(x, -d);
        if (n <= 1)
            continue;
        MR_TRY(mr_infer_merge_dim(n, mr_infer_dim(s, -d), &n));
        s = mr_pshape_with(c->arena, s, s->rank - d, n);
    }
    c->out[0] = s;
    return NULL;
}

static void broadcast_to_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), shape = mr_shape_of(g, mr_xi(g, 0));
    mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", shape, mr_shape_of(g, dy));
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", dy, axes), shape));
}

MR_OP(BroadcastTo,
    .doc      = "the input repeated to have this shape, by NumPy's rule",
    .sig      = "input: T, shape: Tidx -> output: T",
    .attrs    = "T: type; Tidx: {int32, int64} = DT_INT32",
    .shape    = broadcast_to_shape,
    .grad     = broadcast_to_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_broadcast_to) MR_GPU_HOST(run_broadcast_to, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [2, 3] -> [[1, 2, 3], [1, 2, 3]]", "[[1], [2]], [2, 2] -> [[1, 1], [2, 2]]",
        "1, [3] -> [1, 1, 1]", "Tidx=int64: \"a\", [2] -> [\"a\", \"a\"]", "[1, 2], [2] -> [1, 2]",
        "[1], [0] -> shape(0)", "[1, 2], [3] -> !INVALID_ARGUMENT Dimensions must be equal, but are 2 and 3",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[3]; : [1, 2], s -> !INVALID_ARGUMENT Incompatible "
        "shapes: [2] vs. [3]",
        "[1, 2], shape(0) -> !INVALID_ARGUMENT Shape must be at most rank 0 but is rank 1",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[2, 0]; : [1, 2], s -> "
        "!INVALID_ARGUMENT Incompatible shapes: [2] vs. [2,0]",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[-2]; : [1, 2], s -> "
        "!INVALID_ARGUMENT must be at least 0"));
