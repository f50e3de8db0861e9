/* ops/array/space_to_depth.c -- blocks of space as channels: SpaceToDepth, DepthToSpace.
 *
 * Pixel (y, x) of space, channel c, is pixel (y / b, x / b) of depth, channel (y % b * b + x % b) *
 * C + c. So both are one walk over [batch, y / b, y % b, x / b, x % b, c], whatever the layout. */
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"

/* The positions of the dimensions in a layout. */
typedef struct layout {
    int rank, c, h, w;
    bool split; /* NCHW_VECT_C: the last dimension holds 4 channels of each group that c counts */
} layout;

static mr_status *read_attrs(const mr_node *n, layout *l, int64_t *block)
{
    mr_sv format = MR_SV("");
    MR_TRY(mr_node_get_str(n, "data_format", &format));
    MR_TRY(mr_node_get_int(n, "block_size", block));
    if (*block < 2 || *block > INT32_MAX)
        return mr_invalid("Block size should be > 1, but was: %lld", (long long)*block);
    if (mr_sv_is(format, "NHWC"))
        *l = (layout){4, 3, 1, 2, false};
    else if (mr_sv_is(format, "NCHW"))
        *l = (layout){4, 1, 2, 3, false};
    else
        *l = (layout){5, 1, 2, 3, true};
    return NULL;
}

/* Converts a shape, with the messages of TensorFlow's shape functions; sizes of -1 are unknown and stay unknown. */
static mr_status *convert_shape(bool to_depth, const layout *l, int64_t b, const int64_t *in, int64_t *out)
{
    for (int d = 0; d < l->rank; d++)
        out[d] = in[d];
    if (l->split && in[4] >= 0 && in[4] != 4)
        return mr_invalid("The last dimension must be 4 for NCHW_VECT_C, but is %lld",
                          (long long)in[4]);
    mr_status *(*space)(int64_t, int64_t, int64_t *) = to_depth ? mr_infer_divide : mr_infer_multiply;
    MR_TRY(space(in[l->h], b, &out[l->h]));
    MR_TRY(space(in[l->w], b, &out[l->w]));
    return (to_depth ? mr_infer_multiply : mr_infer_divide)(in[l->c], b * b, &out[l->c]);
}

/* The kernel's errors for sizes that are not divisible; shape inference may not have known them. */
static mr_status *check_divisible(bool to_depth, const layout *l, int64_t b, const int64_t *in)
{
    if (to_depth && (in[l->h] % b != 0 || in[l->w] % b != 0))
        return mr_invalid("Image width %lld and height %lld should be divisible by block_size: %lld",
                          (long long)in[l->w], (long long)in[l->h], (long long)b);
    if (!to_depth && in[l->c] % (b * b) != 0)
        return mr_invalid("Input depth dimension %lld should be divisible by: %lld",
                          (long long)in[l->c], (long long)(b * b));
    return NULL;
}

static void add_dim(mr_blit *w, bool to_depth, int64_t n, int64_t space, int64_t depth)
{
    mr_blit_dim(w, n, to_depth ? space : depth, to_depth ? depth : space);
}

static mr_status *rearrange_blocks(mr_run *r, bool to_depth)
{
    const mr_tensor *x = mr_in(r, 0);
    layout l;
    int64_t b = 0, dims[5], s[5], p[5];
    mr_tensor *out;
    mr_blit w;
    MR_TRY(read_attrs(r->node, &l, &b));
    if (x->rank != l.rank)
        return to_depth ? mr_invalid("Input rank should be %d instead of %d", l.rank, x->rank)
                        : mr_invalid("Input rank should be: %d instead of: %d", l.rank, x->rank);
    MR_TRY(check_divisible(to_depth, &l, b, x->dims));
    MR_TRY(convert_shape(to_depth, &l, b, x->dims, dims));
    MR_TRY(mr_run_output(r, 0, l.rank, dims, &out));
    if (out->n == 0)
        return NULL;
    const int64_t *space = to_depth ? x->dims : dims, *depth = to_depth ? dims : x->dims;
    mr_dims_strides(l.rank, space, s);
    mr_dims_strides(l.rank, depth, p);
    mr_blit_init(&w);
    add_dim(&w, to_depth, space[0], s[0], p[0]);
    add_dim(&w, to_depth, depth[l.h], b * s[l.h], p[l.h]);
    add_dim(&w, to_depth, b, s[l.h], b * space[l.c] * p[l.c]);
    add_dim(&w, to_depth, depth[l.w], b * s[l.w], p[l.w]);
    add_dim(&w, to_depth, b, s[l.w], space[l.c] * p[l.c]);
    add_dim(&w, to_depth, space[l.c], s[l.c], p[l.c]);
    if (l.split)
        add_dim(&w, to_depth, 4, 1, 1);
    MR_TRY(mr_blit_copy(r, &w, out, 0, x, 0));
    return NULL;
}

static mr_status *run_space_to_depth(mr_run *r) { return rearrange_blocks(r, true); }
static mr_status *run_depth_to_space(mr_run *r) { return rearrange_blocks(r, false); }

static mr_status *infer_shape(mr_infer *c, bool to_depth)
{
    const mr_pshape *x = NULL;
    layout l;
    int64_t b = 0;
    MR_TRY(read_attrs(c->node, &l, &b));
    MR_TRY(mr_infer_rank(c, c->in[0], l.rank, &x));
    mr_pshape *out = mr_pshape_new(c->arena, l.rank);
    MR_TRY(convert_shape(to_depth, &l, b, x->dims, out->dims));
    c->out[0] = out;
    return NULL;
}

static mr_status *space_to_depth_shape(mr_infer *c) { return infer_shape(c, true); }
static mr_status *depth_to_space_shape(mr_infer *c) { return infer_shape(c, false); }

static void space_to_depth_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit_like(g, "DepthToSpace", "block_size data_format", &dy, 1));
}

static void depth_to_space_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit_like(g, "SpaceToDepth", "block_size data_format", &dy, 1));
}

#define DEPTH_ATTRS \
    "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'"

MR_OP(SpaceToDepth,
    .doc      = "blocks of pixels become channels",
    .sig      = "input: T -> output: T",
    .attrs    = DEPTH_ATTRS,
    .shape    = space_to_depth_shape,
    .grad     = space_to_depth_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_space_to_depth) MR_GPU(run_space_to_depth, FLOAT)),
    .examples = MR_EXAMPLES(
        "block_size=2: [[[[1], [2]], [[3], [4]]]] -> [[[[1, 2, 3, 4]]]]",
        "block_size=2: [[[[1, 2], [3, 4], [5, 6], [7, 8]], [[9, 10], [11, 12], [13, 14], [15, "
        "16]]]] -> [[[[1, 2, 3, 4, 9, 10, 11, 12], [5, 6, 7, 8, 13, 14, 15, 16]]]]",
        "block_size=2 data_format=\"NCHW\": [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]] -> [[[[1]], "
        "[[5]], [[2]], [[6]], [[3]], [[7]], [[4]], [[8]]]]",
        "block_size=2 data_format=\"NCHW_VECT_C\": iota(1,1,2,2,4) -> [[[[[0, 1, 2, 3]]], [[[4, 5, "
        "6, 7]]], [[[8, 9, 10, 11]]], [[[12, 13, 14, 15]]]]]",
        "block_size=2: shape(0,2,2,1) -> shape(0,1,1,4)",
        "block_size=2: shape(1,3,2,1) -> !INVALID_ARGUMENT Dimension size must be evenly divisible by 2 but is 3",
        "unknown block_size=2: shape(1,3,2,1) -> !INVALID_ARGUMENT Image width 2 and height 3 should be divisible by "
        "block_size: 2",
        "unknown block_size=2: [1] -> !INVALID_ARGUMENT Input rank should be 4 instead of 1",
        "block_size=2: [1] -> !INVALID_ARGUMENT must be rank 4"));

MR_OP(DepthToSpace,
    .doc      = "channels become blocks of pixels",
    .sig      = "input: T -> output: T",
    .attrs    = DEPTH_ATTRS,
    .shape    = depth_to_space_shape,
    .grad     = depth_to_space_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_depth_to_space) MR_GPU(run_depth_to_space, FLOAT)),
    .examples = MR_EXAMPLES(
        "block_size=2: [[[[1, 2, 3, 4]]]] -> [[[[1], [2]], [[3], [4]]]]",
        "block_size=2: [[[[1, 2, 3, 4, 9, 10, 11, 12], [5, 6, 7, 8, 13, 14, 15, 16]]]] -> [[[[1, "
        "2], [3, 4], [5, 6], [7, 8]], [[9, 10], [11, 12], [13, 14], [15, 16]]]]",
        "block_size=2 data_format=\"NCHW\": [[[[1]], [[5]], [[2]], [[6]], [[3]], [[7]], [[4]], "
        "[[8]]]] -> [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]",
        "block_size=2: [[[[1, 2, 3]]]] -> !INVALID_ARGUMENT Dimension size must be evenly divisible by 4 but is 3",
        "unknown block_size=2: [1] -> !INVALID_ARGUMENT Input rank should be: 4 instead of: 1",
        "unknown block_size=2: [[[[1, 2, 3]]]] -> !INVALID_ARGUMENT Input depth dimension 3 should be "
        "divisible by: 4"));
