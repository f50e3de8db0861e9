/* ops/array/pad.c -- a tensor with a border: Pad, PadV2. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/pad.h"
#include "run/accel.h"

mr_status *mr_pads_read(const mr_tensor *x, const mr_tensor *t, mr_pads *p)
{
    if (t->rank != 2 || t->dims[1] != 2)
        return mr_invalid("paddings must be a matrix with 2 columns: %s", MR_TENSOR_SHAPE(t));
    if (t->dims[0] != x->rank)
        return mr_invalid("The first dimension of paddings must be the rank of inputs %s %s",
                          MR_TENSOR_SHAPE(t), MR_TENSOR_SHAPE(x));
    for (int d = 0; d < x->rank; d++) {
        int64_t a = mr_tensor_int_at(t, 2 * d), b = mr_tensor_int_at(t, 2 * d + 1);
        if (a < 0 || b < 0)
            return mr_invalid("Paddings must be non-negative: %lld %lld", (long long)a,
                              (long long)b);
        p->before[d] = a;
        p->after[d] = b;
        if (!mr_i64_add(x->dims[d], a, &p->dims[d]) || !mr_i64_add(p->dims[d], b, &p->dims[d]))
            return mr_invalid("Dimension %d of the padded tensor is too large", d);
    }
    return NULL;
}

mr_status *mr_pads_shape(mr_infer *c, int sign)
{
    const mr_pshape *x = c->in[0], *pads = NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &pads));
    MR_TRY(mr_infer_dim_is(pads->dims[1], 2));
    if (x->rank >= 0 && pads->dims[0] >= 0 && pads->dims[0] != x->rank)
        return mr_invalid("Shape must be rank %lld but is rank %d", (long long)pads->dims[0], x->rank);
    if (x->rank < 0 && pads->dims[0] >= 0 && pads->dims[0] <= MR_MAX_RANK)
        x = mr_pshape_new(c->arena, (int)pads->dims[0]);
    if (x->rank < 0)
        return NULL;
    const mr_tensor *t = mr_infer_const(c, 1);
    mr_pshape *out = mr_pshape_new(c->arena, x->rank);
    c->out[0] = out;
    for (int d = 0; t && t->n == 2 * (int64_t)x->rank && d < x->rank; d++) {
        int64_t a = mr_tensor_int_at(t, 2 * d), b = mr_tensor_int_at(t, 2 * d + 1), sum;
        if (a < 0 || b < 0)
            return mr_invalid("Paddings must be non-negative: %lld %lld", (long long)a,
                              (long long)b);
        if (!mr_i64_add(a, b, &sum) ||
            (x->dims[d] >= 0 && !mr_i64_add(x->dims[d], sign * sum, &out->dims[d])))
            return mr_invalid("Dimension %d of the padded tensor is too large", d);
        if (x->dims[d] >= 0 && out->dims[d] < 0)
            return mr_invalid("Dimension %d has no room for paddings %lld and %lld", d,
                              (long long)a, (long long)b);
    }
    return NULL;
}

/* ---- kernel ---- */

typedef struct border {
    const mr_pads *p;
    const mr_tensor *x;
    mr_tensor *out;
    int64_t to[MR_MAX_RANK];
    const mr_tensor *scalar; /* the padding value, one element */
} border;

/* Writes the border of dimension d from `start` on, `size` wide, where the dimensions before d are within the input
 * and those after d are arbitrary. So every border element is written once. */
static mr_status *write_border(mr_run *r, border *b, int d, int64_t start, int64_t size)
{
    int64_t at = start * b->to[d];
    mr_blit area;
    mr_blit_init(&area);
    for (int k = 0; k < b->x->rank; k++) {
        mr_blit_dim(&area, k < d ? b->x->dims[k] : k == d ? size : b->p->dims[k], 0, b->to[k]);
        at += k < d ? b->p->before[k] * b->to[k] : 0;
    }
    return mr_blit_copy(r, &area, b->out, at, b->scalar, 0);
}

static mr_status *pad_with(mr_run *r, const mr_tensor *scalar)
{
    mr_pads p;
    border b = {&p, mr_in(r, 0), NULL, {0}, scalar};
    int rank = b.x->rank;
    MR_TRY(mr_pads_read(b.x, mr_in(r, 1), &p));
    if (mr_shape_eq(rank, b.x->dims, rank, p.dims)) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, rank, p.dims, &b.out));
    if (b.out->n == 0)
        return NULL;
    mr_dims_strides(rank, p.dims, b.to);
    int64_t from[MR_MAX_RANK], at = 0;
    mr_dims_strides(rank, b.x->dims, from);
    mr_blit inside;
    mr_blit_init(&inside);
    for (int d = 0; d < rank; d++) {
        mr_blit_dim(&inside, b.x->dims[d], from[d], b.to[d]);
        at += p.before[d] * b.to[d];
    }
    if (b.x->n > 0)
        MR_TRY(mr_blit_copy(r, &inside, b.out, at, b.x, 0));
    for (int d = 0; d < rank; d++) {
        if (p.before[d])
            MR_TRY(write_border(r, &b, d, 0, p.before[d]));
        if (p.after[d])
            MR_TRY(write_border(r, &b, d, p.before[d] + b.x->dims[d], p.after[d]));
    }
    return NULL;
}

static mr_status *run_pad(mr_run *r)
{
    mr_tensor *zero = NULL;
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), mr_in(r, 0)->dtype, 0, NULL, &zero));
    mr_status *st = pad_with(r, zero);
    mr_tensor_unref(zero);
    return st;
}

static mr_status *run_pad_v2(mr_run *r)
{
    const mr_tensor *value = mr_in(r, 2);
    if (value->rank != 0)
        return mr_invalid("constant_values must be a scalar. Found: %s", MR_TENSOR_SHAPE(value));
    return pad_with(r, value);
}

static mr_status *pad_shape(mr_infer *c) { return mr_pads_shape(c, 1); }

static mr_status *pad_v2_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    return mr_pads_shape(c, 1);
}

/* The part of dy that was the input: it starts at the first column of paddings. */
static void pad_backward(mr_grad *g)
{
    mr_out pads = mr_xi(g, 1);
    mr_out column = mr_emit(g->s, "Slice", pads, mr_const_vec_i32(g->s, 2, (int32_t[]){0, 0}),
                            mr_const_vec_i32(g->s, 2, (int32_t[]){-1, 1}));
    mr_out begin = mr_emit(g->s, "Reshape", column, mr_const_vec_i32(g->s, 1, (int32_t[]){-1}));
    if (mr_out_type(pads) != MR_INT32)
        begin = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), begin);
    mr_dxi(g, 0, mr_emit(g->s, "Slice", mr_dyi(g, 0), begin, mr_shape_of(g, mr_xi(g, 0))));
}

MR_OP(Pad,
    .doc      = "the input in a border of zeros, paddings[d] = [before, after] wide",
    .sig      = "input: T, paddings: Tpaddings -> output: T",
    .attrs    = "T: type; Tpaddings: {int32, int64} = DT_INT32",
    .shape    = pad_shape,
    .grad     = pad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_pad) MR_GPU_HOST(run_pad, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [[1, 0], [0, 2]] -> [[0, 0, 0, 0], [1, 2, 0, 0], [3, 4, 0, 0]]",
        "Tpaddings=int64: [1, 2], [[2, 1]] -> [0, 0, 1, 2, 0]",
        "[\"a\"], [[1, 0]] -> [\"\", \"a\"]", "1, shape(0,2) -> 1", "[1, 2], [[0, 0]] -> [1, 2]",
        "shape(0), [[1, 1]] -> [0, 0]", "shape(2,0), [[1, 0], [0, 1]] -> [[0], [0], [0]]",
        "[1, 2], [[-1, 0]] -> !INVALID_ARGUMENT Paddings must be non-negative: -1 0",
        "p = PlaceholderWithDefault dtype=int32 shape=?: int32[[1, 2, 3]]; : [1, 2], p -> "
        "!INVALID_ARGUMENT paddings must be a matrix with 2 columns: [1,3]",
        "p = PlaceholderWithDefault dtype=int32 shape=?: int32[[0, 0], [0, 0]]; : [1, 2], p -> "
        "!INVALID_ARGUMENT The first dimension of paddings must be the rank of inputs"));

MR_OP(PadV2,
    .doc      = "the input in a border of one value",
    .sig      = "input: T, paddings: Tpaddings, constant_values: T -> output: T",
    .attrs    = "T: type; Tpaddings: {int32, int64} = DT_INT32",
    .shape    = pad_v2_shape,
    .grad     = pad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_pad_v2) MR_GPU_HOST(run_pad_v2, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [[1, 1], [1, 0]], 9 -> [[9, 9, 9], [9, 1, 2], [9, 3, 4], [9, 9, "
        "9]]",
        "[\"a\"], [[1, 1]], \"-\" -> [\"-\", \"a\", \"-\"]",
        "iota(2,2,2), [[0, 1], [0, 0], [1, 0]], 8 -> [[[8, 0, 1], [8, 2, 3]], [[8, 4, 5], "
        "[8, 6, 7]], [[8, 8, 8], [8, 8, 8]]]",
        "[1], [[0, 0]], [1] -> !INVALID_ARGUMENT must be rank 0"));
