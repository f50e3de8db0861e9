/* ops/nn/softmax.c -- Softmax and LogSoftmax over the last dimension.
 *
 * The row's maximum is subtracted first, so that nothing overflows; a row that contains +inf or NaN
 * gives NaN.  Rows are computed in blocks that stay in the L1 cache between exp and sum. */
#ifndef T /* ---- included once: the ops ---- */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/nn/wide.h"
#include "run/accel.h"

#define BLOCK 1024 /* elements */

#define MR_TYPED_FILE "ops/nn/softmax.c"
#include "ops/nn/each_wide.h"

#define ELEMENT_NS 2.0

typedef void rows_fn(const void *x, void *y, int64_t rows, int64_t width);

typedef struct job {
    const char *x;
    char *y;
    int64_t width;
    size_t row_bytes;
    rows_fn *rows;
} job;

static void run_softmax_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    j->rows(j->x + (size_t)begin * j->row_bytes, j->y + (size_t)begin * j->row_bytes, end - begin,
            j->width);
}

static mr_status *run_rows(mr_run *r, rows_fn *of_float, rows_fn *of_double)
{
    const mr_tensor *in = mr_in(r, 0);
    if (in->rank < 1)
        return mr_invalid("logits must have >= 1 dimension, got %s", MR_TENSOR_SHAPE(in));
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, 0, 0, in->rank, in->dims, &y));
    if (in->n > 0) {
        int64_t width = in->dims[in->rank - 1];
        job j = {x.t->data, y.t->data, width, (size_t)width * mr_dtype_size((mr_dtype)x.t->dtype),
                 x.t->dtype == MR_DOUBLE ? of_double : of_float};
        mr_run_for(r, in->n / width, ELEMENT_NS * (double)width, run_softmax_part, &j);
    }
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *run_accel(mr_run *r, const char *kernel)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    if (x->rank < 1)
        return mr_invalid("logits must have >= 1 dimension, got %s", MR_TENSOR_SHAPE(x));
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &y));
    int64_t width = x->dims[x->rank - 1], rows = x->n > 0 ? x->n / width : 0;
    return mr_accel_launch(r, kernel, rows * MR_ACCEL_GROUP, MR_ACCEL(MR_AI(width), MR_AT(y), MR_AT(x)));
}

static mr_status *softmax_accel(mr_run *r) { return run_accel(r, "softmax"); }
static mr_status *log_softmax_accel(mr_run *r) { return run_accel(r, "log_softmax"); }

static mr_status *run_softmax(mr_run *r)
{
    return run_rows(r, softmax_rows_float, softmax_rows_double);
}
static mr_status *log_softmax(mr_run *r)
{
    return run_rows(r, log_softmax_rows_float, log_softmax_rows_double);
}

static mr_status *infer_softmax(mr_infer *c) { return mr_infer_rank_at_least(c, c->in[0], 1, &c->out[0]); }

static mr_out sum_last(mr_grad *g, mr_out x)
{
    return mr_emit_with(g->s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), x,
                        mr_const_i32(g->s, -1));
}

/* (g - sum(g s)) s */
static void softmax_backward(mr_grad *g)
{
    mr_out s = mr_yi(g, 0), dy = mr_dyi(g, 0);
    mr_out mean = sum_last(g, mr_emit(g->s, "Mul", dy, s));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_emit(g->s, "Sub", dy, mean), s));
}

/* g - sum(g) exp(y) */
static void log_softmax_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_out s = mr_emit(g->s, "Exp", mr_yi(g, 0));
    mr_dxi(g, 0, mr_emit(g->s, "Sub", dy, mr_emit(g->s, "Mul", sum_last(g, dy), s)));
}

MR_OP(Softmax,
    .doc      = "exp(x) / sum(exp(x)) over the last dimension",
    .sig      = "logits: T -> softmax: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = infer_softmax,
    .grad     = softmax_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_softmax, MR_FLOATS) MR_GPU(softmax_accel, FLOAT)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3], [0, 0, 0]] -> [[0.090030573170, 0.244728471055, 0.665240955775], "
        "[0.333333333333, 0.333333333333, 0.333333333333]]",
        "[1000, 1000] -> [0.5, 0.5]",
        "nograd: iota(2,40) -> shape(2,40)",
        "fill(1, 3,64) -> fill(0.015625, 3,64)",
        "T=float: [[1, inf], [-inf, 0], [nan, 1], [-inf, -inf]] -> [[nan, nan], [0, 1], [nan, "
        "nan], [nan, nan]]",
        "shape(3,0) -> shape(3,0)",
        "shape(0,3) -> shape(0,3)",
        "1 -> !INVALID_ARGUMENT"));

MR_OP(LogSoftmax,
    .doc      = "x - log(sum(exp(x))) over the last dimension",
    .sig      = "logits: T -> logsoftmax: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = infer_softmax,
    .grad     = log_softmax_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(log_softmax, MR_FLOATS) MR_GPU(log_softmax_accel, FLOAT)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3]] -> [[-2.40760596444, -1.40760596444, -0.40760596444]]",
        "[1000, 1000] -> [-0.69314718056, -0.69314718056]",
        "T=float: [[1, inf], [-inf, 0]] -> [[nan, nan], [-inf, 0]]",
        "shape(3,0) -> shape(3,0)"));

#else /* ---- included once per type ---- */
#include "ops/nn/row.h"

MR_CLONES static void FN(softmax_rows)(const void *from, void *to, int64_t rows, int64_t width)
{
    const T *x = from;
    T *y = to;
    for (; rows > 0; rows--, x += width, y += width) {
        const T top = FN(row_max)(x, width);
        T sum = 0;
        for (int64_t at = 0; at < width; at += BLOCK) {
            int64_t n = MR_MIN(BLOCK, width - at);
            MR_IVDEP
            for (int64_t i = at; i < at + n; i++)
                y[i] = EXP(x[i] - top);
            sum += FN(row_sum)(y + at, n);
        }
        const T scale = 1 / sum;
        for (int64_t i = 0; i < width; i++)
            y[i] *= scale;
    }
}

MR_CLONES static void FN(log_softmax_rows)(const void *from, void *to, int64_t rows, int64_t width)
{
    const T *x = from;
    T *y = to, block[BLOCK];
    for (; rows > 0; rows--, x += width, y += width) {
        const T top = FN(row_max)(x, width);
        T sum = 0;
        for (int64_t at = 0; at < width; at += BLOCK) {
            int64_t n = MR_MIN(BLOCK, width - at);
            for (int64_t i = 0; i < n; i++)
                block[i] = EXP(x[at + i] - top);
            sum += FN(row_sum)(block, n);
        }
        const T shift = LOG(sum);
        MR_IVDEP
        for (int64_t i = 0; i < width; i++)
            y[i] = (x[i] - top) - shift;
    }
}
#endif
