/* train/layers.c -- layers and losses: small compositions of ops.
 *
 * A layer enters its name as a scope, makes its variables, adds its ops and leaves the scope. Errors
 * stay in the network's scope, and MR_NO_OUT is returned. */
#include "train/nn.h"

/* Dimension i of a layer's input (negative: from the end). -1 after an error: the dimension must be
 * known, because it is the size of a variable. */
static int64_t known_dim(mr_nn *n, const char *layer, mr_out x, int i)
{
    if (!mr_scope_ok(&n->s))
        return -1;
    const mr_pshape *s = mr_out_shape(x);
    int at = i < 0 ? i + s->rank : i;
    if (s->rank < 0 || at < 0 || at >= s->rank || s->dims[at] < 0) {
        mr_scope_fail(&n->s, mr_invalid("layer '%s': dimension %d of its input %s must be known", layer, i,
                                        MR_PSHAPE_TEXT(s)));
        return -1;
    }
    return s->dims[at];
}

static mr_out add_activation(mr_nn *n, mr_out x, mr_nn_activation act)
{
    switch (act) {
    case MR_NN_LINEAR: return x;
    case MR_NN_RELU: return mr_emit(&n->s, "Relu", x);
    case MR_NN_TANH: return mr_emit(&n->s, "Tanh", x);
    case MR_NN_SIGMOID: return mr_emit(&n->s, "Sigmoid", x);
    }
    mr_scope_fail(&n->s, mr_invalid("unknown activation %d", (int)act));
    return MR_NO_OUT;
}

/* The usual initializer of a kernel: He's for ReLU, Glorot's for the others. */
static mr_nn_init init_for(mr_nn_activation act)
{
    return (mr_nn_init){act == MR_NN_RELU ? MR_NN_HE : MR_NN_GLOROT, 0, 0};
}

static const mr_nn_init zero = {MR_NN_CONSTANT, 0, 0};

/* Reshapes x [a, b, .., n] to [a*b*.., n]; with_last_dim reshapes the result back. */
static mr_out as_matrix(mr_nn *n, mr_out x, int64_t columns)
{
    return mr_emit(&n->s, "Reshape", x, mr_const_vec_i32(&n->s, 2, (int32_t[]){-1, (int32_t)columns}));
}

/* Gives y, the result of a layer on as_matrix(x), the leading dimensions of x, which may be unknown until the run. */
static mr_out with_last_dim(mr_nn *n, mr_out y, mr_out x, int rank, int64_t units)
{
    MR_ASSERT(rank >= 1);
    mr_out shape = mr_emit(&n->s, "Shape", x);
    mr_out head = mr_emit(&n->s, "Slice", shape, mr_const_vec_i32(&n->s, 1, (int32_t[]){0}),
                          mr_const_vec_i32(&n->s, 1, (int32_t[]){rank - 1}));
    mr_out full = mr_emit(&n->s, "ConcatV2", head, mr_const_vec_i32(&n->s, 1, (int32_t[]){(int32_t)units}),
                          mr_const_i32(&n->s, 0));
    return mr_emit(&n->s, "Reshape", y, full);
}

/* Inputs of rank other than 2 are treated as matrices of their last dimension. */
mr_out mr_nn_dense(mr_nn *n, const char *name, mr_out x, int64_t units, mr_nn_activation act)
{
    int64_t in = known_dim(n, name, x, -1);
    if (in < 0)
        return MR_NO_OUT;
    const char *saved;
    int rank = mr_out_shape(x)->rank;
    mr_dtype t = mr_dtype_base(mr_out_type(x));
    mr_nn_enter(n, name, &saved);
    mr_out w = mr_nn_variable(n, "kernel", t, 2, (int64_t[]){in, units}, init_for(act), true);
    mr_out b = mr_nn_variable(n, "bias", t, 1, (int64_t[]){units}, zero, true);
    mr_out flat = rank == 2 ? x : as_matrix(n, x, in);
    mr_out y = mr_emit(&n->s, "BiasAdd", mr_emit(&n->s, "MatMul", flat, w), b);
    y = add_activation(n, y, act);
    if (rank != 2)
        y = with_last_dim(n, y, x, rank, units);
    mr_nn_leave(n, saved);
    return y;
}

/* x is [batch, height, width, channels]; the filter is kernel x kernel. Conv2D checks rank, stride and padding. */
mr_out mr_nn_conv2d(mr_nn *n, const char *name, mr_out x, int64_t filters, int64_t kernel, int64_t stride,
                     const char *padding, mr_nn_activation act)
{
    int64_t in = known_dim(n, name, x, -1);
    if (in < 0)
        return MR_NO_OUT;
    const char *saved;
    mr_dtype t = mr_dtype_base(mr_out_type(x));
    mr_nn_enter(n, name, &saved);
    mr_out w = mr_nn_variable(n, "kernel", t, 4, (int64_t[]){kernel, kernel, in, filters}, init_for(act), true);
    mr_out b = mr_nn_variable(n, "bias", t, 1, (int64_t[]){filters}, zero, true);
    mr_out y = mr_emit_with(&n->s, "Conv2D",
                            MR_ATTRS({"strides", mr_a_ints(4, (int64_t[]){1, stride, stride, 1})},
                                     {"padding", mr_a_str(padding)}),
                            x, w);
    y = add_activation(n, mr_emit(&n->s, "BiasAdd", y, b), act);
    mr_nn_leave(n, saved);
    return y;
}

mr_out mr_nn_pool(mr_nn *n, const char *op, mr_out x, int64_t size, int64_t stride, const char *padding)
{
    return mr_emit_with(&n->s, op,
                        MR_ATTRS({"ksize", mr_a_ints(4, (int64_t[]){1, size, size, 1})},
                                 {"strides", mr_a_ints(4, (int64_t[]){1, stride, stride, 1})},
                                 {"padding", mr_a_str(padding)}),
                        x);
}

/* x / keep where a uniform number is below keep, 0 elsewhere; so the expected value is unchanged. */
mr_out mr_nn_dropout(mr_nn *n, mr_out x, mr_out rate)
{
    if (!mr_scope_ok(&n->s))
        return MR_NO_OUT;
    mr_dtype t = mr_dtype_base(mr_out_type(x));
    const char *saved;
    mr_nn_enter(n, "dropout", &saved);
    mr_out keep = mr_emit(&n->s, "Sub", mr_const_f32(&n->s, 1), rate);
    keep = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), keep);
    n->next_seed++;
    mr_out u = mr_emit_with(&n->s, "RandomUniform",
                            MR_ATTRS({"dtype", mr_a_type(t)}, {"seed", mr_a_int(n->seed)},
                                     {"seed2", mr_a_int(n->next_seed)}),
                            mr_emit(&n->s, "Shape", x));
    mr_out mask = mr_emit(&n->s, "Floor", mr_emit(&n->s, "AddV2", u, keep));
    mr_out y = mr_emit(&n->s, "Mul", mr_emit(&n->s, "RealDiv", x, keep), mask);
    mr_nn_leave(n, saved);
    return y;
}

/* All dimensions but the first must be known: their product is the size of a kernel of the next layer. */
mr_out mr_nn_flatten(mr_nn *n, mr_out x)
{
    int64_t columns = 1;
    if (!mr_scope_ok(&n->s))
        return MR_NO_OUT;
    for (int i = 1; i < mr_out_shape(x)->rank; i++) {
        int64_t d = known_dim(n, "flatten", x, i);
        if (d < 0 || !mr_i64_mul(columns, d, &columns) || columns > INT32_MAX) {
            mr_scope_fail(&n->s, mr_invalid("flatten: %s is too large", MR_PSHAPE_TEXT(mr_out_shape(x))));
            return MR_NO_OUT;
        }
    }
    return as_matrix(n, x, columns);
}

/* Zeros [batch of x, units], where x is [time, batch, n]. */
static mr_out state_zeros(mr_nn *n, mr_out x, mr_dtype t, int64_t units)
{
    mr_out batch = mr_emit(&n->s, "Slice", mr_emit(&n->s, "Shape", x), mr_const_vec_i32(&n->s, 1, (int32_t[]){1}),
                           mr_const_vec_i32(&n->s, 1, (int32_t[]){1}));
    mr_out dims = mr_emit(&n->s, "ConcatV2", batch, mr_const_vec_i32(&n->s, 1, (int32_t[]){(int32_t)units}),
                          mr_const_i32(&n->s, 0));
    return mr_emit(&n->s, "Fill", dims, mr_const_num(&n->s, t, 0));
}

/* y[time - 1] of y [time, batch, units]. */
static mr_out last_step(mr_nn *n, mr_out y)
{
    return mr_emit_with(&n->s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}), y,
                        mr_const_vec_i32(&n->s, 1, (int32_t[]){-1}), mr_const_vec_i32(&n->s, 1, (int32_t[]){0}),
                        mr_const_vec_i32(&n->s, 1, (int32_t[]){1}));
}

/* x is [time, batch, inputs]. BlockLSTM computes all steps in one op. */
mr_out mr_nn_lstm(mr_nn *n, const char *name, mr_out x, int64_t units, bool all_steps)
{
    enum { H = 6 }; /* index of the output h of BlockLSTM */
    int64_t in = known_dim(n, name, x, 2);
    if (in < 0)
        return MR_NO_OUT;
    const char *saved;
    mr_dtype t = mr_dtype_base(mr_out_type(x));
    mr_nn_enter(n, name, &saved);
    mr_out w = mr_nn_variable(n, "kernel", t, 2, (int64_t[]){in + units, 4 * units},
                               (mr_nn_init){MR_NN_GLOROT, 0, 0}, true);
    mr_out b = mr_nn_variable(n, "bias", t, 1, (int64_t[]){4 * units}, zero, true);
    mr_out time = mr_emit(&n->s, "Slice", mr_emit(&n->s, "Shape", x), mr_const_vec_i32(&n->s, 1, (int32_t[]){0}),
                          mr_const_vec_i32(&n->s, 1, (int32_t[]){1}));
    time = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}),
                        mr_emit(&n->s, "Reshape", time, mr_const_vec_i32(&n->s, 0, NULL)));
    mr_out start = state_zeros(n, x, t, units);
    mr_out hole = mr_emit(&n->s, "Fill", mr_const_vec_i32(&n->s, 1, (int32_t[]){(int32_t)units}),
                          mr_const_num(&n->s, t, 0)); /* peephole weights, which are not used */
    mr_out y = mr_nth(mr_emit_with(&n->s, "BlockLSTM", MR_ATTRS({"cell_clip", mr_a_float(0)}), time, x, start, start, w,
                                   hole, hole, hole, b), H);
    y = all_steps ? y : last_step(n, y);
    mr_nn_leave(n, saved);
    return y;
}

/* The gather runs on the device of the table, so only the rows travel. */
mr_out mr_nn_embedding(mr_nn *n, const char *name, mr_out ids, int64_t rows, int64_t columns)
{
    const char *saved;
    mr_nn_enter(n, name, &saved);
    mr_out value = mr_nn_variable(n, "table", MR_FLOAT, 2, (int64_t[]){rows, columns},
                                   (mr_nn_init){MR_NN_UNIFORM, -0.05f, 0.05f}, true);
    const mr_nn_var *v = mr_nn_find(n, value);
    const char *before = mr_nn_at(n, v ? v->device : n->s.device);
    mr_out y = v ? mr_emit_with(&n->s, "ResourceGather", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), v->handle, ids)
                 : MR_NO_OUT;
    mr_nn_at(n, before);
    mr_nn_leave(n, saved);
    return y;
}

/* ---- losses ---- */

/* The mean over all elements. If the rank is not known, the axes are computed when the graph runs. */
static mr_out mean_all(mr_nn *n, mr_out x)
{
    int rank = mr_scope_ok(&n->s) ? mr_out_shape(x)->rank : 0;
    mr_out axes = mr_emit(&n->s, "Range", mr_const_i32(&n->s, 0),
                          rank >= 0 ? mr_const_i32(&n->s, rank) : mr_emit(&n->s, "Rank", x), mr_const_i32(&n->s, 1));
    return mr_emit(&n->s, "Mean", x, axes);
}

mr_out mr_nn_softmax_loss(mr_nn *n, mr_out logits, mr_out labels)
{
    return mean_all(n, mr_emit(&n->s, "SparseSoftmaxCrossEntropyWithLogits", logits, labels));
}

/* Whether the dimensions of `few` are the last dimensions of `many`, which has more. */
static bool is_row_of(const mr_pshape *few, const mr_pshape *many)
{
    if (few->rank < 0 || few->rank >= many->rank)
        return false;
    for (int i = 0; i < few->rank; i++)
        if (few->dims[i] < 0 || few->dims[i] != many->dims[many->rank - few->rank + i])
            return false;
    return true;
}

/* Tensors that are compared element by element must have the same shape: [n, 1] against [n] would
 * broadcast to n * n pairs and learn nothing. Only a scalar, or a row of known size, is broadcast. An
 * unknown rank is checked when the graph runs. */
static void want_same_shape(mr_nn *n, const char *loss, const char *a_name, mr_out *a, const char *b_name,
                            mr_out *b)
{
    if (!mr_scope_ok(&n->s))
        return;
    const mr_pshape *x = mr_out_shape(*a), *y = mr_out_shape(*b);
    if (is_row_of(x, y) || is_row_of(y, x)) /* a scalar is a row of each */
        return;
    if (!mr_pshape_compatible(x, y))
        mr_scope_fail(&n->s, mr_invalid("%s: %s %s and %s %s must have the same shape; Reshape one of them", loss,
                                        a_name, MR_PSHAPE_TEXT(x), b_name, MR_PSHAPE_TEXT(y)));
    else if (x->rank < 0 && y->rank > 0)
        *a = mr_emit_with(&n->s, "EnsureShape", MR_ATTRS({"shape", mr_a_shape(y)}), *a);
    else if (y->rank < 0 && x->rank > 0)
        *b = mr_emit_with(&n->s, "EnsureShape", MR_ATTRS({"shape", mr_a_shape(x)}), *b);
}

/* max(x, 0) - x*z + log(1 + exp(-|x|)): stable for large |x|. */
mr_out mr_nn_sigmoid_loss(mr_nn *n, mr_out x, mr_out z)
{
    want_same_shape(n, "mr_sigmoid_loss", "logits", &x, "targets", &z);
    mr_out soft = mr_emit(&n->s, "Log1p", mr_emit(&n->s, "Exp", mr_emit(&n->s, "Neg", mr_emit(&n->s, "Abs", x))));
    mr_out hinge = mr_emit(&n->s, "Sub", mr_emit(&n->s, "Relu", x), mr_emit(&n->s, "Mul", x, z));
    return mean_all(n, mr_emit(&n->s, "AddV2", hinge, soft));
}

mr_out mr_nn_squared_loss(mr_nn *n, mr_out values, mr_out targets)
{
    want_same_shape(n, "mr_squared_loss", "values", &values, "targets", &targets);
    return mean_all(n, mr_emit(&n->s, "SquaredDifference", values, targets));
}

/* weight * the sum of L2Loss over the trainable variables made so far; 0 without any. */
mr_out mr_nn_l2_penalty(mr_nn *n, float weight)
{
    mr_out sum = MR_NO_OUT;
    for (int i = 0; i < n->vars.n; i++) {
        const mr_nn_var *v = &n->vars.p[i];
        if (!v->trainable)
            continue;
        mr_out l = mr_emit(&n->s, "L2Loss", v->value);
        sum = sum.node ? mr_emit(&n->s, "AddV2", sum, l) : l;
    }
    return sum.node ? mr_emit(&n->s, "Mul", sum, mr_const_f32(&n->s, weight)) : mr_const_f32(&n->s, 0);
}

mr_out mr_nn_accuracy(mr_nn *n, mr_out logits, mr_out labels)
{
    mr_out best = mr_emit(&n->s, "ArgMax", logits, mr_const_i32(&n->s, 1));
    mr_out wide = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), labels);
    want_same_shape(n, "mr_accuracy", "classes", &best, "labels", &wide);
    mr_out hit = mr_emit(&n->s, "Equal", best, wide);
    return mean_all(n, mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), hit));
}
