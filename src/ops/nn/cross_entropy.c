/* ops/nn/cross_entropy.c -- softmax and cross entropy in one: the loss of each row and its
 * gradient.
 *
 * With d = logits - their maximum and z = log(sum(exp(d))), the loss is sum(labels (z - d)).  It is
 * computed as z sum(labels) - sum(labels d): for labels that are not negative nothing cancels, because
 * d <= 0, and each row is read only twice.  Labels are neither checked nor normalised; a label of 0 on
 * a logit of -inf gives NaN, as in TensorFlow.
 *
 * The second output may use the memory of the logits: each element is read before it is written. */
#ifndef T /* ---- included once: the ops ---- */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "ops/nn/wide.h"
#include "run/accel.h"

#define BLOCK 512 /* elements that stay in the first-level cache */
#define ELEMENT_NS 2.5

typedef struct job {
    const void *logits, *labels; /* sparse: labels NULL */
    const mr_tensor *classes;    /* sparse: the label of each row, in range */
    void *loss, *backprop;
    int64_t width;
} job;

#define MR_TYPED_FILE "ops/nn/cross_entropy.c"
#include "ops/nn/each_wide.h"

static void run_rows(mr_run *r, mr_dtype type, int64_t rows, job *j)
{
    mr_run_for(r, rows, ELEMENT_NS * (double)j->width, type == MR_DOUBLE ? rows_double : rows_float,
               j);
}

/* ---- labels as a distribution ---- */

/* Repeats x to the shape [rows, cols], to which it must broadcast. */
static mr_status *broadcast_to_rows(mr_run *r, mr_wide *x, const int64_t *dims)
{
    const mr_tensor *from = x->t;
    if (mr_shape_eq(from->rank, from->dims, 2, dims))
        return NULL;
    mr_tensor *to;
    MR_TRY(mr_run_temp(r, (mr_dtype)from->dtype, 2, dims, &to));
    size_t bytes = mr_dtype_size((mr_dtype)from->dtype);
    bool one_row = from->rank < 2 || from->dims[0] == 1,
         one_col = from->rank < 1 || from->dims[from->rank - 1] == 1;
    int64_t width = one_col ? 1 : dims[1];
    for (int64_t i = 0; i < to->n; i++) {
        int64_t at = (one_row ? 0 : i / dims[1] * width) + (one_col ? 0 : i % dims[1]);
        memcpy((char *)to->data + (size_t)i * bytes, (const char *)from->data + (size_t)at * bytes,
               bytes);
    }
    mr_wide_deinit(x);
    *x = (mr_wide){to, true};
    return NULL;
}

static mr_status *check_shapes(const mr_tensor *logits, const mr_tensor *labels, int64_t *dims)
{
    mr_shape s;
    mr_status *st = mr_shape_broadcast(logits->rank, logits->dims, labels->rank, labels->dims, &s);
    mr_status_free(st);
    if (st)
        return mr_invalid("logits and labels must be broadcastable: logits_size=%s labels_size=%s",
                          MR_TENSOR_SHAPE(logits), MR_TENSOR_SHAPE(labels));
    if (s.rank != 2)
        return mr_invalid("logits and labels must be either 2-dimensional, or broadcasted to be "
                          "2-dimensional, got "
                          "logits_size=%s labels_size=%s",
                          MR_TENSOR_SHAPE(logits), MR_TENSOR_SHAPE(labels));
    dims[0] = s.dims[0];
    dims[1] = s.dims[1];
    return NULL;
}

static mr_status *run_dense(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide x = {0}, labels = {0}, loss = {0}, backprop = {0};
    int64_t dims[2];
    MR_GO(check_shapes(mr_in(r, 0), mr_in(r, 1), dims));
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_in(r, 1, &labels));
    MR_GO(broadcast_to_rows(r, &x, dims));
    MR_GO(broadcast_to_rows(r, &labels, dims));
    MR_GO(mr_wide_out(r, -1, 0, 1, dims, &loss));
    MR_GO(mr_wide_out(r, 0, 1, 2, dims, &backprop));
    job j = {x.t->data, labels.t->data, NULL, loss.t->data, backprop.t->data, dims[1]};
    run_rows(r, (mr_dtype)x.t->dtype, dims[0], &j);
    mr_wide_store(r, 0, &loss);
    mr_wide_store(r, 1, &backprop);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&labels);
    mr_wide_deinit(&loss);
    mr_wide_deinit(&backprop);
    return st;
}

/* The strides of rows and columns of t when it is broadcast to dims: 0 along a repeated dimension. */
static void row_strides(const mr_tensor *t, const int64_t *dims, int64_t *row, int64_t *col)
{
    int64_t width = t->rank > 0 ? t->dims[t->rank - 1] : 1;
    *col = width == dims[1] && width != 1;
    *row = t->rank == 2 && t->dims[0] == dims[0] && t->dims[0] != 1 ? width : 0;
}

static mr_status *dense_accel(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *labels = mr_in(r, 1);
    mr_tensor *loss, *backprop;
    int64_t dims[2], xr, xc, lr, lc;
    MR_TRY(check_shapes(x, labels, dims));
    MR_TRY(mr_run_output(r, 0, 1, dims, &loss));
    MR_TRY(mr_run_output(r, 1, 2, dims, &backprop));
    row_strides(x, dims, &xr, &xc);
    row_strides(labels, dims, &lr, &lc);
    return mr_accel_launch(r, "cross_entropy", dims[0] * MR_ACCEL_GROUP,
                           MR_ACCEL(MR_AI(dims[1]), MR_AT(loss), MR_AT(backprop), MR_AT(x), MR_AI(xr), MR_AI(xc),
                                    MR_AT(labels), MR_AI(lr), MR_AI(lc)));
}

/* Logits and labels are assumed to have the same shape if that is possible; otherwise one is broadcast to the other.
 * Unlike in TensorFlow, a size of 1 is assumed only if both have it: the other one may be larger and broadcast it. */
static mr_status *dense_shape(mr_infer *c)
{
    const mr_pshape *s;
    mr_status *st = mr_infer_rank(c, c->in[0], 2, &s);
    if (!st)
        st = mr_infer_merge(c, s, c->in[1], &s);
    for (int d = 0; !st && d < 2; d++)
        if (s->dims[d] == 1 && (mr_infer_dim(c->in[0], d) < 0 || mr_infer_dim(c->in[1], d) < 0))
            s = mr_pshape_with(c->arena, s, d, -1);
    if (st) {
        mr_status_free(st);
        MR_TRY(mr_infer_broadcast(c, c->in[0], c->in[1], &s));
        if (s->rank < 0)
            return mr_invalid("Shape must be broadcasted with rank 2, but is rank is unknown.");
        if (s->rank != 2)
            return mr_invalid("Shape must be broadcasted with rank 2, but is rank %d", s->rank);
    }
    mr_infer_out_vector(c, 0, mr_infer_dim(s, 0));
    c->out[1] = s;
    return NULL;
}

/* ---- labels as class numbers ---- */

static mr_status *check_classes(const mr_tensor *logits, const mr_tensor *labels)
{
    if (logits->rank != 2)
        return mr_invalid("logits must be 2-D, but got shape %s", MR_TENSOR_SHAPE(logits));
    if (labels->rank != 1)
        return mr_invalid("labels must be 1-D, but got shape %s", MR_TENSOR_SHAPE(labels));
    if (logits->dims[0] != labels->dims[0])
        return mr_invalid("logits and labels must have the same first dimension, got logits shape "
                          "%s and labels shape %s",
                          MR_TENSOR_SHAPE(logits), MR_TENSOR_SHAPE(labels));
    if (logits->dims[1] < 1)
        return mr_invalid("Must have at least one class, but got logits shape %s",
                          MR_TENSOR_SHAPE(logits));
    for (int64_t i = 0; i < labels->n; i++) {
        int64_t label = mr_tensor_int_at(labels, i);
        if (label >= 0 && label < logits->dims[1])
            continue;
        mr_str all = {0};
        mr_tensor_summarize(labels, -1, &all);
        mr_status *st = mr_invalid(
            "Received a label value of %lld which is outside the valid range of [0, %lld).  "
            "Label values: %s",
            (long long)label, (long long)logits->dims[1], mr_str_z(&all));
        mr_str_deinit(&all);
        return st;
    }
    return NULL;
}

static mr_status *run_sparse(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *logits = mr_in(r, 0);
    mr_wide x = {0}, loss = {0}, backprop = {0};
    MR_GO(check_classes(logits, mr_in(r, 1)));
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, -1, 0, 1, logits->dims, &loss));
    MR_GO(mr_wide_out(r, 0, 1, 2, logits->dims, &backprop));
    job j = {x.t->data, NULL, mr_in(r, 1), loss.t->data, backprop.t->data, logits->dims[1]};
    run_rows(r, (mr_dtype)x.t->dtype, logits->dims[0], &j);
    mr_wide_store(r, 0, &loss);
    mr_wide_store(r, 1, &backprop);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&loss);
    mr_wide_deinit(&backprop);
    return st;
}

/* Class numbers are in host memory, so they are checked before the launch and no kernel reads out of bounds. */
static mr_status *sparse_accel(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *labels = mr_in(r, 1);
    mr_tensor *loss, *backprop, *wide = NULL, *classes = NULL;
    mr_status *st = NULL;
    MR_TRY(check_classes(x, labels));
    MR_TRY(mr_run_output(r, 0, 1, x->dims, &loss));
    MR_TRY(mr_run_output(r, 1, 2, x->dims, &backprop));
    MR_GO(mr_tensor_new(NULL, MR_INT64, 1, x->dims, &wide));
    for (int64_t i = 0; i < labels->n; i++)
        MR_DATA(int64_t, wide)[i] = mr_tensor_int_at(labels, i);
    MR_GO(mr_run_temp(r, MR_INT64, 1, x->dims, &classes));
    MR_GO(mr_accel_upload(r, classes, wide->data));
    MR_GO(mr_accel_launch(r, "sparse_cross_entropy", x->dims[0] * MR_ACCEL_GROUP,
                          MR_ACCEL(MR_AI(x->dims[1]), MR_AT(loss), MR_AT(backprop), MR_AT(x), MR_AT(classes))));
out:
    mr_tensor_unref(wide);
    mr_tensor_unref(classes);
    return st;
}

static mr_status *sparse_shape(mr_infer *c)
{
    const mr_pshape *logits, *labels;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &logits));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &labels));
    int64_t rows;
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(logits, 0), mr_infer_dim(labels, 0), &rows));
    mr_infer_out_vector(c, 0, rows);
    c->out[1] = mr_pshape_matrix(c->arena, rows, mr_infer_dim(logits, 1));
    return NULL;
}

/* ---- gradients ---- */

static mr_out times_column(mr_grad *g, mr_out column, mr_out m)
{
    return mr_emit(g->s, "Mul", mr_emit(g->s, "ExpandDims", column, mr_const_i32(g->s, -1)), m);
}

/* The derivative of the loss by the logits is the second output.  The second output is softmax minus
 * labels, so its derivative by the logits is that of softmax. */
static mr_out logits_gradient(mr_grad *g)
{
    mr_out d = times_column(g, mr_dyi(g, 0), mr_yi(g, 1));
    if (!mr_has_dy(g, 1))
        return d;
    mr_out gg = mr_dyi(g, 1), s = mr_emit(g->s, "Softmax", mr_xi(g, 0));
    mr_out mean = mr_emit_with(g->s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}),
                               mr_emit(g->s, "Mul", gg, s), mr_const_i32(g->s, -1));
    return mr_emit(g->s, "AddV2", d, mr_emit(g->s, "Mul", mr_emit(g->s, "Sub", gg, mean), s));
}

static mr_out labels_gradient(mr_grad *g)
{
    mr_out log_p = mr_emit(g->s, "LogSoftmax", mr_xi(g, 0));
    mr_out d = times_column(g, mr_dyi(g, 0), mr_emit(g->s, "Neg", log_p));
    return mr_has_dy(g, 1) ? mr_emit(g->s, "Sub", d, mr_dyi(g, 1)) : d;
}

/* Whether one input may be broadcast to the shape of the other.  Matrices of unknown sizes count as equal,
 * as in TensorFlow: otherwise each gradient would need a dozen nodes for sums over axes that are rarely
 * broadcast. */
static bool input_is_repeated(mr_grad *g)
{
    const mr_pshape *a = mr_out_shape(mr_xi(g, 0)), *b = mr_out_shape(mr_xi(g, 1));
    bool differ = a->rank < 0 || a->rank != b->rank;
    for (int i = 0; i < a->rank && !differ; i++)
        differ = a->dims[i] != b->dims[i] && a->dims[i] >= 0 && b->dims[i] >= 0;
    return differ;
}

static void dense_backward(mr_grad *g)
{
    mr_out logits = logits_gradient(g), labels = labels_gradient(g);
    if (input_is_repeated(g)) {
        mr_dx_broadcast(g, logits, labels);
        return;
    }
    mr_dxi(g, 0, logits);
    mr_dxi(g, 1, labels);
}

static void sparse_backward(mr_grad *g) { mr_dxi(g, 0, logits_gradient(g)); }

MR_OP(SoftmaxCrossEntropyWithLogits,
    .doc      = "cross entropy between labels and softmax(features) for each row, and its "
                "gradient by the features",
    .sig      = "features: T, labels: T -> loss: T, backprop: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = dense_shape,
    .grad     = dense_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_dense, MR_FLOATS) MR_GPU(dense_accel, FLOAT)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3]], [[0.2, 0.3, 0.5]] -> [1.10760596], [[-0.10996943, -0.05527153, 0.16524096]]",
        "[[0, 0], [2, 2]], [[1, 0], [0.5, 0.5]] -> [0.69314718, 0.69314718], [[-0.5, 0.5], [0, 0]]",
        "[[1, 2, 3], [1, 2, 3]], [0.2, 0.3, 0.5] -> [1.10760596, 1.10760596], "
        "[[-0.10996943, -0.05527153, 0.16524096], [-0.10996943, -0.05527153, 0.16524096]]",
        "nograd: [[1, 2]], [[0.5], [0.25]] -> [0.8132616875, 0.4066308438], [[-0.231058579, "
        "0.231058579], "
        "[0.018941421, 0.481058579]]",
        "x = PlaceholderWithDefault dtype=$T shape=[?,?]: [[1, 2]]; nograd: x, [[0.5], [0.25]] -> [0.8132616875, "
        "0.4066308438], [[-0.231058579, 0.231058579], [0.018941421, 0.481058579]]",
        "T=float nograd: [[1, -inf]], [[1, 0]] -> [nan], [[0, 0]]",
        "shape(0,3), shape(0,3) -> shape(0), shape(0,3)",
        "shape(2,0), shape(2,0) -> [0, 0], shape(2,0)",
        "[[1, 2, 3]], [[1, 2]] -> !INVALID_ARGUMENT",
        "[1, 2], [1, 0] -> !INVALID_ARGUMENT"));

MR_OP(SparseSoftmaxCrossEntropyWithLogits,
    .doc      = "cross entropy between class numbers and softmax(features) for each row, and its "
                "gradient by the features",
    .sig      = "features: T, labels: Tlabels -> loss: T, backprop: T",
    .attrs    = "T: {half, bfloat16, float, double}; Tlabels: {int32, int64} = DT_INT64",
    .shape    = sparse_shape,
    .grad     = sparse_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_sparse, MR_FLOATS) MR_GPU_HOST(sparse_accel, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3]], [2] -> [0.40760596], [[0.09003057, 0.24472847, -0.33475904]]",
        "Tlabels=int32: [[0, 0], [2, 2]], [0, 1] -> [0.69314718, 0.69314718], [[-0.5, 0.5], [0.5, "
        "-0.5]]",
        "shape(0,3), shape(0) -> shape(0), shape(0,3)",
        "[[1, 2, 3]], [3] -> !INVALID_ARGUMENT Received a label value of 3 which is outside the "
        "valid range of [0, 3).  "
        "Label values: 3",
        "[[1, 2, 3]], [-1] -> !INVALID_ARGUMENT Received a label value of -1",
        "[[1, 2, 3]], [1, 2] -> !INVALID_ARGUMENT",
        "shape(1,0), [0] -> !INVALID_ARGUMENT Must have at least one class"));

#else /* ---- included once per type ---- */
#include "ops/nn/row.h"

/* Stores exp(d) in y and returns its sum; with labels, also sum(labels d) and sum(labels). */
MR_INLINE T FN(row_exp)(const T *x, const T *labels, T top, int64_t width, T *y, T *out_labels_d,
                        T *out_labels)
{
    T d[BLOCK], sum = 0;
    for (int64_t at = 0; at < width; at += BLOCK) {
        int64_t n = MR_MIN(BLOCK, width - at);
        for (int64_t i = 0; i < n; i++)
            d[i] = x[at + i] - top;
        if (labels) {
            *out_labels_d += FN(row_dot)(labels + at, d, n);
            *out_labels += FN(row_sum)(labels + at, n);
        }
        for (int64_t i = 0; i < n; i++)
            y[at + i] = EXP(d[i]);
        sum += FN(row_sum)(y + at, n);
    }
    return sum;
}

MR_INLINE void FN(dense_row)(const T *x, const T *labels, int64_t width, T *loss, T *y)
{
    T labels_d = 0, labels_sum = 0;
    const T sum = FN(row_exp)(x, labels, FN(row_max)(x, width), width, y, &labels_d, &labels_sum);
    const T scale = 1 / sum;
    for (int64_t i = 0; i < width; i++)
        y[i] = y[i] * scale - labels[i];
    *loss = width > 0 ? LOG(sum) * labels_sum - labels_d : 0;
}

MR_INLINE void FN(sparse_row)(const T *x, int64_t label, int64_t width, T *loss, T *y)
{
    const T top = FN(row_max)(x, width), d = x[label] - top;
    const T sum = FN(row_exp)(x, NULL, top, width, y, NULL, NULL);
    const T scale = 1 / sum;
    for (int64_t i = 0; i < width; i++)
        y[i] *= scale;
    y[label] -= 1;
    *loss = LOG(sum) - d;
}

MR_CLONES static void FN(rows)(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const T *x = (const T *)j->logits + begin * j->width,
            *labels = (const T *)j->labels + begin * j->width;
    T *y = (T *)j->backprop + begin * j->width, *loss = j->loss;
    for (int64_t i = begin; i < end; i++, x += j->width, y += j->width) {
        if (j->labels) {
            FN(dense_row)(x, labels, j->width, &loss[i], y);
            labels += j->width;
        } else {
            FN(sparse_row)(x, mr_tensor_int_at(j->classes, i), j->width, &loss[i], y);
        }
    }
}
#endif
