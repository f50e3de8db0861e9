/* ops/nn/l2_loss.c -- L2Loss: half the sum of squares.
 *
 * Pieces of a fixed length are summed separately and their sums are added in order, so the result does
 * not depend on the number of threads. */
#ifndef T /* ---- included once: the op ---- */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/nn/wide.h"
#include "ops/reduce_accel.h"

#define PIECE 4096
#define ELEMENT_NS 0.15

typedef struct job {
    const void *x;
    int64_t n;
    void *sums; /* one per piece */
} job;

#define MR_TYPED_FILE "ops/nn/l2_loss.c"
#include "ops/nn/each_wide.h"

static mr_status *l2_loss(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    mr_tensor *sums = NULL;
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, -1, 0, 0, NULL, &y));
    int64_t pieces = x.t->n / PIECE + (x.t->n % PIECE != 0);
    MR_GO(mr_run_temp(r, (mr_dtype)x.t->dtype, 1, &pieces, &sums));
    bool wide = x.t->dtype == MR_DOUBLE;
    job j = {x.t->data, x.t->n, sums->data};
    mr_run_for(r, pieces, ELEMENT_NS * PIECE, wide ? pieces_double : pieces_float, &j);
    (wide ? total_double : total_float)(&j, pieces, y.t->data);
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    mr_tensor_unref(sums);
    return st;
}

static mr_status *l2_loss_accel(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    bool fold[MR_MAX_RANK];
    mr_tensor *y;
    memset(fold, true, sizeof fold);
    MR_TRY(mr_run_output(r, 0, 0, NULL, &y));
    return mr_reduce_accel(r, "squares", x, fold, 2, y);
}

static void l2_loss_backward(mr_grad *g) { mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_xi(g, 0), mr_dyi(g, 0))); }

MR_OP(L2Loss,
    .doc      = "half the sum of squares of all elements",
    .sig      = "t: T -> output: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_scalar,
    .grad     = l2_loss_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(l2_loss, MR_FLOATS) MR_GPU(l2_loss_accel, FLOAT)),
    .examples = MR_EXAMPLES(
        "[[1, -2], [3, 0.5]] -> 7.125",
        "fill(0.5, 100,100) -> 1250",
        "3 -> 4.5",
        "shape(0) -> 0",
        "T=float: [1, nan] -> nan"));

#else /* ---- included once per type ---- */
#include "ops/nn/row.h"

MR_CLONES static void FN(pieces)(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const T *x = j->x;
    T *sums = j->sums;
    for (int64_t i = begin; i < end; i++)
        sums[i] = FN(row_dot)(x + i * PIECE, x + i * PIECE, MR_MIN(PIECE, j->n - i * PIECE));
}

static void FN(total)(const job *j, int64_t pieces, void *out)
{
    *(T *)out = FN(row_sum)(j->sums, pieces) / 2;
}
#endif
