/* ops/math/diag.c -- Diag and DiagPart: tensors that are zero unless their first indices equal their last. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"

static mr_status *run_diag(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_shape s;
    mr_tensor *out;
    mr_blit b;
    if (x->rank < 1)
        return mr_invalid("Input must be at least rank 1, got 0");
    mr_shape_set(&s, x->rank, x->dims);
    for (int d = 0; d < x->rank; d++)
        MR_TRY(mr_shape_push(&s, x->dims[d]));
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(mr_move_fill(r, out, 0, (char[16]){0}, out->n));
    mr_blit_init(&b);
    mr_blit_dim(&b, x->n, 1, x->n + 1);
    return mr_blit_copy(r, &b, out, 0, x, 0);
}

static mr_status *run_diag_part(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int half = x->rank / 2;
    mr_tensor *out;
    mr_blit b;
    if (x->rank == 0 || x->rank % 2)
        return mr_invalid("The rank of the tensor should be even and positive, got shape %s",
                          MR_TENSOR_SHAPE(x));
    for (int d = 0; d < half; d++)
        if (x->dims[d] != x->dims[d + half])
            return mr_invalid("Invalid shape %s: dimensions %d and %d do not match.",
                              MR_TENSOR_SHAPE(x), d, d + half);
    MR_TRY(mr_run_output(r, 0, half, x->dims, &out));
    if (out->n == 0)
        return NULL;
    mr_blit_init(&b);
    mr_blit_dim(&b, out->n, out->n + 1, 1);
    return mr_blit_copy(r, &b, out, 0, x, 0);
}

static mr_status *diag_shape(mr_infer *c)
{
    const mr_pshape *x;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    if (x->rank >= 0)
        c->out[0] = mr_infer_concat(c, x, x);
    return NULL;
}

static mr_status *diag_part_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0];
    if (x->rank < 0)
        return NULL;
    if (x->rank == 0 || x->rank % 2)
        return mr_invalid("Input must have even and non-zero rank, input rank is %d", x->rank);
    mr_pshape *half = mr_pshape_new(c->arena, x->rank / 2);
    for (int d = 0; d < half->rank; d++)
        MR_TRY(mr_infer_merge_dim(x->dims[d], x->dims[d + half->rank], &half->dims[d]));
    c->out[0] = half;
    return NULL;
}

static void diag_backward(mr_grad *g) { mr_dxi(g, 0, mr_emit(g->s, "DiagPart", mr_dyi(g, 0))); }
static void diag_part_backward(mr_grad *g) { mr_dxi(g, 0, mr_emit(g->s, "Diag", mr_dyi(g, 0))); }

#define TYPES(M, ...) \
    MR_FLOATS(M, __VA_ARGS__) MR_INDEXES(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define ATTRS "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"

MR_OP(Diag,
    .doc      = "a tensor of twice the rank with these elements where its first indices are its "
                "last",
    .sig      = "diagonal: T -> output: T",
    .attrs    = ATTRS,
    .shape    = diag_shape,
    .grad     = diag_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_diag, TYPES)),
    .examples = MR_EXAMPLES(
        "[1, 2] -> [[1, 0], [0, 2]]", "[[1, 2]] -> [[[[1, 0]], [[0, 2]]]]", "[1+1i] -> [[1+1i]]",
        "shape(0) -> shape(0,0)", "shape(2,0) -> shape(2,0,2,0)",
        "1 -> !INVALID_ARGUMENT at least rank 1"));

MR_OP(DiagPart,
    .doc      = "the elements of a tensor whose first indices are their last",
    .sig      = "input: T -> diagonal: T",
    .attrs    = ATTRS,
    .shape    = diag_part_shape,
    .grad     = diag_part_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_diag_part, TYPES)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [1, 4]", "[[[[1, 2]], [[3, 4]]]] -> [[1, 4]]",
        "shape(0,0) -> shape(0)",
        "[1, 2] -> !INVALID_ARGUMENT even and non-zero rank",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 2]]; : x -> !INVALID_ARGUMENT Invalid "
        "shape [1,2]: dimensions 0 and 1 do not match."));
