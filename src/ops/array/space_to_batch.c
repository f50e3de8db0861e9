/* ops/array/space_to_batch.c -- blocks of space as batches: SpaceToBatchND, BatchToSpaceND, and the older
 * SpaceToBatch and BatchToSpace of images with square blocks.
 *
 * Space is [batch, s1 .. sM, rest], padded to p1 .. pM, multiples of the blocks b1 .. bM.  Position (i1 b1 + o1,
 * ..) of the padded space is position (i1, ..) of the batch with number (o1 .. oM) * batch + n.  Both ops move the
 * same elements, in opposite directions; without padding one walk does it, otherwise one walk for each (o1 .. oM),
 * over the i that are inside. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"

typedef struct blocks {
    int m; /* dimensions of space */
    int64_t block[MR_MAX_RANK], before[MR_MAX_RANK], after[MR_MAX_RANK];
    int64_t space[MR_MAX_RANK]; /* s: sizes without padding */
    int64_t count[MR_MAX_RANK]; /* p / b: sizes in the batches */
    int64_t product;            /* of the blocks */
    bool padded;
} blocks;

/* Reads block_shape [m] and paddings or crops [m, 2]. */
static mr_status *read_blocks(int rank, const mr_tensor *shape, const mr_tensor *pads,
                              const char *what, blocks *b)
{
    b->product = 1;
    b->padded = false;
    if (shape->rank != 1)
        return mr_invalid("block_shape rank should be 1 instead of %d", shape->rank);
    if (rank < 1 + shape->n)
        return mr_invalid("input rank should be >= %lld instead of %d", (long long)shape->n + 1,
                          rank);
    if (pads->rank != 2 || pads->dims[0] != shape->n || pads->dims[1] != 2)
        return mr_invalid("%s should have shape [%lld, 2] instead of %s", what, (long long)shape->n,
                          MR_TENSOR_SHAPE(pads));
    b->m = (int)shape->n;
    for (int d = 0; d < b->m; d++) {
        b->block[d] = mr_tensor_int_at(shape, d);
        b->before[d] = mr_tensor_int_at(pads, 2 * d);
        b->after[d] = mr_tensor_int_at(pads, 2 * d + 1);
        b->padded = b->padded || b->before[d] || b->after[d];
        if (b->block[d] < 1)
            return mr_invalid(
                "All values in block_shape must be positive, got value, %lld at index %d.",
                (long long)b->block[d], d);
        if (b->before[d] < 0 || b->after[d] < 0)
            return mr_invalid("%s must be non-negative, got %lld and %lld at index %d", what,
                              (long long)b->before[d], (long long)b->after[d], d);
        if (!mr_i64_mul(b->product, b->block[d], &b->product))
            return mr_invalid("Product of block sizes must be positive and fit in int64");
    }
    return NULL;
}

/* One dimension of the result from the same dimension of the input (-1: unknown). For both ops the padded space is
 * count * block, and the space is that without `before` and `after`. */
static mr_status *space_to_count(int d, int64_t space, int64_t block, int64_t before, int64_t after,
                                 int64_t *count)
{
    int64_t padded;
    if (!mr_i64_add(space, before, &padded) || !mr_i64_add(padded, after, &padded))
        return mr_invalid("padded_shape[%d] is too large", d);
    if (padded % block != 0)
        return mr_invalid("padded_shape[%d]=%lld is not divisible by block_shape[%d]=%lld", d,
                          (long long)padded, d, (long long)block);
    *count = padded / block;
    return NULL;
}

static mr_status *count_to_space(int d, int64_t count, int64_t block, int64_t before, int64_t after,
                                 int64_t *space)
{
    int64_t padded;
    if (!mr_i64_mul(count, block, &padded))
        return mr_invalid("cropped_shape[%d] is too large", d);
    if (padded < before || padded - before < after)
        return mr_invalid("cropped_shape[%d] must be non-negative: %lld cropped by %lld and %lld",
                          d, (long long)padded, (long long)before, (long long)after);
    *space = padded - before - after;
    return NULL;
}

/* ---- moving ---- */

typedef struct mover {
    mr_run *r;
    const blocks *b;
    bool to_batch;
    mr_tensor *out;
    const mr_tensor *in;
    int64_t batch, rest;
    int64_t space_stride[MR_MAX_RANK + 1], batch_stride[MR_MAX_RANK + 1]; /* [0]: stride of the batch */
} mover;

static void strides_of(const blocks *b, const int64_t *sizes, int64_t rest, int64_t *out)
{
    int64_t step = rest;
    for (int d = b->m - 1; d >= 0; d--) {
        out[d + 1] = step;
        step *= sizes[d];
    }
    out[0] = step;
}

static void add_dim(const mover *m, mr_blit *w, int64_t n, int64_t space, int64_t batch)
{
    mr_blit_dim(w, n, m->to_batch ? space : batch, m->to_batch ? batch : space);
}

static mr_status *run_walk(const mover *m, const mr_blit *w, int64_t space, int64_t batch)
{
    return mr_blit_copy(m->r, w, m->out, m->to_batch ? batch : space, m->in, m->to_batch ? space : batch);
}

static mr_status *move_whole(const mover *m)
{
    const blocks *b = m->b;
    mr_blit w;
    int64_t step = m->batch * m->batch_stride[0]; /* from one offset within a block to the next */
    mr_blit_init(&w);
    add_dim(m, &w, m->batch, m->space_stride[0], m->batch_stride[0]);
    add_dim(m, &w, m->rest, 1, 1);
    for (int d = b->m - 1; d >= 0; d--) {
        add_dim(m, &w, b->count[d], b->block[d] * m->space_stride[d + 1], m->batch_stride[d + 1]);
        add_dim(m, &w, b->block[d], m->space_stride[d + 1], step);
        step *= b->block[d];
    }
    return run_walk(m, &w, 0, 0);
}

/* Moves the elements at one offset within all blocks; number is the index of the offset. */
static mr_status *move_offset(const mover *m, const int64_t *offset, int64_t number)
{
    const blocks *b = m->b;
    mr_blit w;
    int64_t space = 0, batch = number * m->batch * m->batch_stride[0];
    mr_blit_init(&w);
    add_dim(m, &w, m->batch, m->space_stride[0], m->batch_stride[0]);
    add_dim(m, &w, m->rest, 1, 1);
    for (int d = 0; d < b->m; d++) {
        /* inside: before <= i * block + offset < before + space */
        int64_t low = b->before[d] - offset[d], high = low + b->space[d];
        int64_t first = low <= 0 ? 0 : (low + b->block[d] - 1) / b->block[d];
        int64_t end = high <= 0 ? 0 : MR_MIN(b->count[d], (high + b->block[d] - 1) / b->block[d]);
        if (first >= end)
            return NULL;
        add_dim(m, &w, end - first, b->block[d] * m->space_stride[d + 1], m->batch_stride[d + 1]);
        space += (first * b->block[d] - low) * m->space_stride[d + 1];
        batch += first * m->batch_stride[d + 1];
    }
    return run_walk(m, &w, space, batch);
}

static mr_status *move_all(mover *m)
{
    const blocks *b = m->b;
    int64_t offset[MR_MAX_RANK] = {0};
    strides_of(b, b->space, m->rest, m->space_stride);
    strides_of(b, b->count, m->rest, m->batch_stride);
    if (!b->padded)
        return move_whole(m);
    for (int64_t i = 0; i < b->product; i++) {
        MR_TRY(move_offset(m, offset, i));
        for (int d = b->m - 1; d >= 0 && ++offset[d] == b->block[d]; d--)
            offset[d] = 0;
    }
    return NULL;
}

/* ---- kernels ---- */

static mr_status *to_batch(mr_run *r, const mr_tensor *block, const mr_tensor *pads)
{
    const mr_tensor *x = mr_in(r, 0);
    blocks b;
    int64_t dims[MR_MAX_RANK];
    mover m = {.r = r, .b = &b, .to_batch = true, .in = x};
    MR_TRY(read_blocks(x->rank, block, pads, "paddings", &b));
    memcpy(dims, x->dims, (size_t)x->rank * sizeof(int64_t));
    if (!mr_i64_mul(x->dims[0], b.product, &dims[0]))
        return mr_invalid("Batch size times block sizes must fit in int64");
    for (int d = 0; d < b.m; d++) {
        b.space[d] = x->dims[d + 1];
        MR_TRY(space_to_count(d, b.space[d], b.block[d], b.before[d], b.after[d], &b.count[d]));
        dims[d + 1] = b.count[d];
    }
    MR_TRY(mr_run_output(r, 0, x->rank, dims, &m.out));
    if (m.out->n == 0)
        return NULL;
    if (b.padded && mr_dtype_is_plain(x->dtype))
        MR_TRY(mr_move_fill(r, m.out, 0, (char[16]){0}, m.out->n));
    m.batch = x->dims[0];
    m.rest = mr_dims_product(x->dims, b.m + 1, x->rank);
    return x->n > 0 ? move_all(&m) : NULL;
}

static mr_status *to_space(mr_run *r, const mr_tensor *block, const mr_tensor *crops)
{
    const mr_tensor *x = mr_in(r, 0);
    blocks b;
    int64_t dims[MR_MAX_RANK];
    mover m = {.r = r, .b = &b, .to_batch = false, .in = x};
    MR_TRY(read_blocks(x->rank, block, crops, "crops", &b));
    memcpy(dims, x->dims, (size_t)x->rank * sizeof(int64_t));
    if (x->dims[0] % b.product != 0)
        return mr_invalid(
            "Input batch dimension (%lld) is not divisible by product of block sizes (%lld)",
            (long long)x->dims[0], (long long)b.product);
    dims[0] = m.batch = x->dims[0] / b.product;
    for (int d = 0; d < b.m; d++) {
        b.count[d] = x->dims[d + 1];
        MR_TRY(count_to_space(d, b.count[d], b.block[d], b.before[d], b.after[d], &b.space[d]));
        dims[d + 1] = b.space[d];
    }
    MR_TRY(mr_run_output(r, 0, x->rank, dims, &m.out));
    m.rest = mr_dims_product(x->dims, b.m + 1, x->rank);
    return m.out->n > 0 ? move_all(&m) : NULL;
}

static mr_status *run_space_to_batch(mr_run *r) { return to_batch(r, mr_in(r, 1), mr_in(r, 2)); }
static mr_status *run_batch_to_space(mr_run *r) { return to_space(r, mr_in(r, 1), mr_in(r, 2)); }

/* The older ops: [batch, height, width, depth] and one block size. */
static mr_status *run_images(mr_run *r, mr_status *(*run)(mr_run *, const mr_tensor *, const mr_tensor *))
{
    int64_t size = *(const int64_t *)r->state;
    if (mr_in(r, 0)->rank != 4)
        return mr_invalid("input rank should be 4 instead of %d", mr_in(r, 0)->rank);
    mr_tensor *block = mr_tensor_vector_i64(2, (int64_t[]){size, size});
    mr_status *st = run(r, block, mr_in(r, 1));
    mr_tensor_unref(block);
    return st;
}

static mr_status *run_images_to_batch(mr_run *r) { return run_images(r, to_batch); }
static mr_status *run_images_to_space(mr_run *r) { return run_images(r, to_space); }

static mr_status *images_init(mr_make *m, void *state) { return mr_node_get_int(m->node, "block_size", state); }

/* ---- shapes ---- */

/* The batch size of the result, computed block by block as in TensorFlow's shape function. */
static mr_status *infer_batch(bool to_batch, int m, const mr_tensor *block, int64_t n, int64_t *out)
{
    for (int d = 0; d < m; d++) {
        int64_t b = mr_tensor_int_at(block, d);
        if (b < 1)
            return mr_invalid("block_shape must be positive");
        MR_TRY((to_batch ? mr_infer_multiply : mr_infer_divide)(n, b, &n));
    }
    *out = n;
    return NULL;
}

/* Dimension 1 + d of the result. */
static mr_status *infer_space(bool to_batch, int64_t n, int64_t block, int64_t before, int64_t after, int64_t *out)
{
    if (to_batch) {
        if (n >= 0 && (!mr_i64_add(n, before, &n) || !mr_i64_add(n, after, &n)))
            return mr_invalid("The padded size is too large");
        return mr_infer_divide(n, block, out);
    }
    MR_TRY(mr_infer_multiply(n, block, &n));
    MR_TRY(mr_infer_subtract(n, before, &n));
    return mr_infer_subtract(n, after, out);
}

/* dims: 1 + m sizes of the result. block and pads are NULL where they are not known; known values are checked. */
static mr_status *infer_blocks(bool to_batch, const mr_pshape *x, int m, const mr_tensor *block,
                               const mr_tensor *pads, int64_t *dims)
{
    dims[0] = m > 0 ? -1 : mr_infer_dim(x, 0);
    if (block)
        MR_TRY(infer_batch(to_batch, m, block, mr_infer_dim(x, 0), &dims[0]));
    for (int d = 0; d < m; d++) {
        int64_t before = pads ? mr_tensor_int_at(pads, 2 * d) : 0;
        int64_t after = pads ? mr_tensor_int_at(pads, 2 * d + 1) : 0;
        dims[1 + d] = -1;
        if (before < 0 || after < 0)
            return mr_invalid("%s cannot be negative", to_batch ? "paddings" : "crops");
        if (block && pads)
            MR_TRY(infer_space(to_batch, mr_infer_dim(x, 1 + d), mr_tensor_int_at(block, d), before, after,
                               &dims[1 + d]));
    }
    return NULL;
}

/* TensorFlow refuses a block_shape of unknown size; here the kernel checks it. */
static mr_status *blocks_shape(mr_infer *c, bool to_batch)
{
    const mr_pshape *x = NULL, *pads = NULL;
    int64_t dims[MR_MAX_RANK + 1];
    if (c->in[1]->rank >= 0 && c->in[1]->rank != 1)
        return mr_invalid("block_shape must have rank 1.");
    int64_t m = mr_infer_dim(c->in[1], 0);
    MR_TRY(mr_infer_merge(c, c->in[2], mr_pshape_matrix(c->arena, m, 2), &pads));
    m = pads->dims[0];
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], (int)MR_MIN(m < 0 ? 1 : m + 1, MR_MAX_RANK + 1), &x));
    if (m >= MR_MAX_RANK || m < 0) {
        c->out[0] = x->rank < 0 ? x : mr_pshape_new(c->arena, x->rank);
        return NULL;
    }
    const mr_tensor *block = mr_infer_const(c, 1), *values = mr_infer_const(c, 2);
    MR_TRY(infer_blocks(to_batch, x, (int)m, block && block->n == m ? block : NULL,
                        values && values->n == 2 * m ? values : NULL, dims));
    c->out[0] = mr_infer_concat(c, mr_pshape_of(c->arena, 1 + (int)m, dims),
                                mr_infer_sub(c, x, 1 + (int)m, MR_MAX_RANK));
    return NULL;
}

static mr_status *space_to_batch_shape(mr_infer *c) { return blocks_shape(c, true); }
static mr_status *batch_to_space_shape(mr_infer *c) { return blocks_shape(c, false); }

static mr_status *images_shape(mr_infer *c, bool to_batch)
{
    const mr_pshape *x = NULL, *pads = NULL;
    int64_t size;
    MR_TRY(mr_node_get_int(c->node, "block_size", &size));
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    MR_TRY(mr_infer_merge(c, c->in[1], mr_pshape_matrix(c->arena, 2, 2), &pads));
    mr_pshape *out = mr_pshape_new(c->arena, 4);
    mr_tensor *block = mr_tensor_vector_i64(2, (int64_t[]){size, size});
    const mr_tensor *values = mr_infer_const(c, 1);
    mr_status *st = infer_blocks(to_batch, x, 2, block, values && values->n == 4 ? values : NULL, out->dims);
    mr_tensor_unref(block);
    out->dims[3] = x->dims[3];
    c->out[0] = out;
    return st;
}

static mr_status *images_to_batch_shape(mr_infer *c) { return images_shape(c, true); }
static mr_status *images_to_space_shape(mr_infer *c) { return images_shape(c, false); }

/* ---- ops ---- */

static void space_to_batch_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "BatchToSpaceND", mr_dyi(g, 0), mr_xi(g, 1), mr_xi(g, 2)));
}

static void batch_to_space_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "SpaceToBatchND", mr_dyi(g, 0), mr_xi(g, 1), mr_xi(g, 2)));
}

MR_OP(SpaceToBatchND,
    .doc      = "pads the dimensions behind the first and makes the offsets within blocks batches",
    .sig      = "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T",
    .attrs    = "T: type; Tblock_shape: {int32, int64} = DT_INT32; "
                "Tpaddings: {int32, int64} = DT_INT32",
    .shape    = space_to_batch_shape,
    .grad     = space_to_batch_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_space_to_batch)),
    .examples = MR_EXAMPLES(
        "[[[[1], [2]], [[3], [4]]]], [2, 2], [[0, 0], [0, 0]] -> [[[[1]]], [[[2]]], [[[3]]], "
        "[[[4]]]]",
        "[[1, 2, 3, 4], [5, 6, 7, 8]], [2], [[0, 0]] -> [[1, 3], [5, 7], [2, 4], [6, 8]]",
        "[[1, 2, 3]], [2], [[1, 0]] -> [[0, 2], [1, 3]]",
        "[[1, 2, 3]], [3], [[2, 1]] -> [[0, 2], [0, 3], [1, 0]]",
        "Tblock_shape=int64 Tpaddings=int64: [[[1, 2], [3, 4]]], [1, 2], [[0, 0], [0, 0]] -> "
        "[[[1], [3]], [[2], [4]]]",
        "[[\"a\", \"b\"]], [2], [[1, 1]] -> [[\"\", \"b\"], [\"a\", \"\"]]",
        "[1, 2], shape(0), shape(0,2) -> [1, 2]", "shape(0,2), [2], [[0, 0]] -> shape(0,1)",
        "[[1, 2, 3]], [2], [[0, 0]] -> !INVALID_ARGUMENT Dimension size must be evenly divisible by 2 but is 3",
        "unknown: [[1, 2, 3]], [2], [[0, 0]] -> !INVALID_ARGUMENT padded_shape[0]=3 is not divisible by "
        "block_shape[0]=2",
        "[[1, 2]], [0], [[0, 0]] -> !INVALID_ARGUMENT block_shape must be positive",
        "[[1, 2]], [[2]], [[0, 0]] -> !INVALID_ARGUMENT block_shape must have rank 1.",
        "unknown: [[1, 2]], [[2]], [[0, 0]] -> !INVALID_ARGUMENT block_shape rank should be 1 instead of 2",
        "[[1, 2]], [2], [[0, 0], [0, 0]] -> !INVALID_ARGUMENT Dimension 0 in both shapes must be equal, but are 2 and "
        "1",
        "b = PlaceholderWithDefault dtype=int32 shape=?: int32[0]; : [[1, 2]], b, [[0, 0]] -> "
        "!INVALID_ARGUMENT All values in block_shape must be positive",
        "[[1, 2]], [2], [[-1, 1]] -> !INVALID_ARGUMENT paddings cannot be negative",
        "b = PlaceholderWithDefault dtype=int32 shape=[1]: int32[1]; : [[1, 2]], b, [[-1, 1]] -> "
        "!INVALID_ARGUMENT paddings cannot be negative",
        "b = PlaceholderWithDefault dtype=int32 shape=[1]: int32[2]; : [[1, 2]], b, [[0, 0]] -> [[1], [2]]",
        "[1], [2], [[0, 0]] -> !INVALID_ARGUMENT at least rank 2"));

MR_OP(BatchToSpaceND,
    .doc      = "the reverse of SpaceToBatchND; crops what it padded",
    .sig      = "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T",
    .attrs    = "T: type; Tblock_shape: {int32, int64} = DT_INT32; "
                "Tcrops: {int32, int64} = DT_INT32",
    .shape    = batch_to_space_shape,
    .grad     = batch_to_space_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_batch_to_space)),
    .examples = MR_EXAMPLES(
        "[[[[1]]], [[[2]]], [[[3]]], [[[4]]]], [2, 2], [[0, 0], [0, 0]] -> [[[[1], [2]], [[3], "
        "[4]]]]",
        "[[1, 3], [5, 7], [2, 4], [6, 8]], [2], [[0, 0]] -> [[1, 2, 3, 4], [5, 6, 7, 8]]",
        "[[9, 2], [1, 3]], [2], [[1, 0]] -> [[1, 2, 3]]",
        "[[9, 2], [8, 3], [1, 7]], [3], [[2, 1]] -> [[1, 2, 3]]",
        "[[\"a\"], [\"b\"]], [2], [[0, 0]] -> [[\"a\", \"b\"]]",
        "shape(0,1), [2], [[0, 0]] -> shape(0,2)", "[[1], [2]], [2], [[1, 1]] -> shape(1,0)",
        "[[1], [2], [3]], [2], [[0, 0]] -> !INVALID_ARGUMENT Dimension size must be evenly divisible by 2 but is 3",
        "unknown: [[1], [2], [3]], [2], [[0, 0]] -> !INVALID_ARGUMENT Input batch dimension (3) is not "
        "divisible by product of block sizes (2)",
        "b = PlaceholderWithDefault dtype=int32 shape=[1]: int32[2]; : [[1], [2]], b, [[0, -1]] -> "
        "!INVALID_ARGUMENT crops cannot be negative",
        "[[1], [2]], [2], [[2, 1]] -> !INVALID_ARGUMENT Negative dimension size caused by subtracting 1 from 0",
        "unknown: [[1], [2]], [2], [[2, 1]] -> !INVALID_ARGUMENT cropped_shape[0] must be non-negative"));

static void images_to_batch_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "BatchToSpace", "block_size", (mr_out[]){mr_dyi(g, 0), mr_xi(g, 1)}, 2));
}

static void images_to_space_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "SpaceToBatch", "block_size", (mr_out[]){mr_dyi(g, 0), mr_xi(g, 1)}, 2));
}

MR_OP(SpaceToBatch,
    .doc      = "pads images and makes the offsets within their square blocks batches",
    .sig      = "input: T, paddings: Tpaddings -> output: T",
    .attrs    = "T: type; Tpaddings: {int32, int64} = DT_INT32; block_size: int >= 2",
    .shape    = images_to_batch_shape,
    .grad     = images_to_batch_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_images_to_batch)),
    .state_bytes = sizeof(int64_t), .init = images_init,
    .examples = MR_EXAMPLES(
        "block_size=2: [[[[1], [2]], [[3], [4]]]], [[0, 0], [0, 0]] -> [[[[1]]], [[[2]]], [[[3]]], [[[4]]]]",
        "block_size=2 Tpaddings=int64: [[[[1]]]], [[1, 0], [0, 1]] -> [[[[0]]], [[[0]]], [[[1]]], [[[0]]]]",
        "block_size=2: [[[[\"a\"]]]], [[0, 1], [0, 1]] -> [[[[\"a\"]]], [[[\"\"]]], [[[\"\"]]], [[[\"\"]]]]",
        "block_size=2: [[[[1]]]], [[0, 0], [0, 1]] -> !INVALID_ARGUMENT must be evenly divisible by 2 but is 1",
        "block_size=2: [[1]], [[0, 0], [0, 0]] -> !INVALID_ARGUMENT must be rank 4"));

MR_OP(BatchToSpace,
    .doc      = "the reverse of SpaceToBatch; crops what it padded",
    .sig      = "input: T, crops: Tidx -> output: T",
    .attrs    = "T: type; block_size: int >= 2; Tidx: {int32, int64} = DT_INT32",
    .shape    = images_to_space_shape,
    .grad     = images_to_space_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_images_to_space)),
    .state_bytes = sizeof(int64_t), .init = images_init,
    .examples = MR_EXAMPLES(
        "block_size=2: [[[[1]]], [[[2]]], [[[3]]], [[[4]]]], [[0, 0], [0, 0]] -> [[[[1], [2]], [[3], [4]]]]",
        "block_size=2 Tidx=int64: [[[[1]]], [[[2]]], [[[3]]], [[[4]]]], [[1, 0], [0, 1]] -> [[[[3]]]]",
        "block_size=2: [[[[1]]], [[[2]]]], [[0, 0], [0, 0]] -> !INVALID_ARGUMENT must be evenly divisible by 2 but is "
        "1",
        "block_size=2: [[[[1]]], [[[2]]], [[[3]]], [[[4]]]], [[2, 1], [0, 0]] -> !INVALID_ARGUMENT subtracting 1 "
        "from 0"));
