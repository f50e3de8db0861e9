/* passes/fuse_conv.c -- a convolution or a product of matrices takes over what follows it.
 *
 * Conv2D, DepthwiseConv2dNative or MatMul, then
 *   1. a bias (BiasAdd, or an addition of a vector), or a batch normalization with given mean and variance,
 *   2. perhaps an addition of another tensor of the same shape (a residual),
 *   3. perhaps an activation
 * become one _FusedConv2D, _FusedDepthwiseConv2dNative or _FusedMatMul, whose kernel does all that in the store of its
 * sums. If filter and vectors are constants, any number of additions, multiplications and normalizations by vectors in
 * place of 1 becomes a scaled filter and one bias: equal up to rounding, and only if all numbers stay finite. A Pad with
 * zeros before a convolution becomes its explicit padding, if the filter is a finite constant (the kernels skip the
 * products with zeros beside the image).
 *
 * Only floats with channels last on a CPU: other types and layouts gain nothing. Every node that is replaced, except
 * the last, must have the next one as its only consumer; so nobody sees its value, and the fused node is dead, and
 * waits, exactly as the last node would. References to variables are not touched: a fused node reads all its inputs at
 * one time. */
#include "passes/fuse.h"

#include <math.h>

#include "base/memory.h"

enum { MOST_NODES = 16, MOST_ARGS = 6 };

typedef struct chain {
    mr_graph *g;
    const mr_prepare_options *o;
    mr_node *nodes[MOST_NODES]; /* the anchor, then those that follow it */
    int n;
    int64_t channels; /* -1: unknown */
    int n_args, n_ops;
    mr_out args[MOST_ARGS];
    mr_sv ops[3]; /* of the attr fused_ops */
    float epsilon, alpha;
    bool broadcasts; /* the bias comes from an addition, which broadcasts if a fed shape is not the static one */
    /* What constants do to the sums, in double: sum factor + shift, for each channel; NULL: nothing yet. */
    double *factor, *shift;
    bool scaled; /* factor is not 1 */
} chain;

/* ---- looking at nodes ---- */

static mr_node *last_of(const chain *c) { return c->nodes[c->n - 1]; }
static mr_node *anchor_of(const chain *c) { return c->nodes[0]; }

static bool is_float(mr_out o) { return mr_out_type(o) == MR_FLOAT; }

/* True if all inputs are floats, and no references. */
static bool reads_floats(const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node || !is_float(n->in[i]))
            return false;
    return n->n_in > 0;
}

static bool is_channels_last(const mr_node *n)
{
    mr_sv format = mr_sv_of("NHWC");
    if (mr_node_attr(n, "data_format"))
        mr_status_free(mr_node_get_str(n, "data_format", &format));
    return mr_sv_is(format, "NHWC");
}

static bool is_true(const mr_node *n, const char *attr)
{
    bool v = false;
    mr_status_free(mr_node_get_bool(n, attr, &v));
    return v;
}

/* The value of a Const; NULL: it is none. The caller owns it. */
static mr_tensor *value_of(mr_out o)
{
    mr_tensor *t = NULL;
    if (mr_node_is(o.node, "Const"))
        mr_status_free(mr_node_get_tensor(o.node, "value", &t));
    return t;
}

/* The value of a Const that is a vector of one float for each channel; NULL: it is none. */
static mr_tensor *vector_of(const chain *c, mr_out o)
{
    mr_tensor *t = value_of(o);
    if (t && t->dtype == MR_FLOAT && t->rank == 1 && t->dims[0] == c->channels && mr_fuse_same_device(o.node, anchor_of(c)))
        return t;
    mr_tensor_unref(t);
    return NULL;
}

/* The static shape is that of one number for each channel. */
static bool is_vector(const chain *c, mr_out o)
{
    const mr_pshape *s = mr_out_shape(o);
    return s->rank == 1 && c->channels > 0 && s->dims[0] == c->channels;
}

/* The node that may follow the chain: it alone reads output 0 of the last node, on the same device. */
static mr_node *follower_of(const chain *c)
{
    const mr_node *last = last_of(c);
    mr_node *n = mr_fuse_sole_consumer(last);
    if (!n || c->n == MOST_NODES || last->uses.p[0].output != 0 || !mr_fuse_same_device(n, last))
        return NULL;
    return reads_floats(n) ? n : NULL;
}

/* The other operand of a sum or product of the last value and something else. */
static mr_out other_operand(const chain *c, const mr_node *n)
{
    return n->in[n->in[0].node == last_of(c) ? 1 : 0];
}

static bool is_add(const mr_node *n) { return mr_node_is(n, "Add") || mr_node_is(n, "AddV2"); }

static bool is_bias(const chain *c, const mr_node *n)
{
    if (mr_node_is(n, "BiasAdd") || mr_node_is(n, "BiasAddV1"))
        return n->in[0].node == last_of(c) && is_channels_last(n);
    return is_add(n) && is_vector(c, other_operand(c, n));
}

/* A normalization with given mean and variance, of which only the result is used. */
static bool is_norm(const chain *c, const mr_node *n)
{
    if (!mr_node_is(n, "FusedBatchNorm") && !mr_node_is(n, "FusedBatchNormV2") && !mr_node_is(n, "FusedBatchNormV3"))
        return false;
    for (int i = 0; i < n->uses.n; i++)
        if (n->uses.p[i].output > 0)
            return false;
    return n->in[0].node == last_of(c) && is_channels_last(n) && !is_true(n, "is_training") &&
           !mr_node_is(anchor_of(c), "MatMul");
}

static void take(chain *c, mr_node *n)
{
    MR_ASSERT(c->n < MOST_NODES);
    c->nodes[c->n++] = n;
}

static void take_op(chain *c, const char *name) { c->ops[c->n_ops++] = mr_sv_of(name); }
static void take_arg(chain *c, mr_out o) { c->args[c->n_args++] = o; }

/* ---- constants ---- */

static void scale_by(chain *c, int64_t i, double factor)
{
    c->factor[i] *= factor;
    c->shift[i] *= factor;
    c->scaled = true;
}

/* in: scale, offset, mean, variance */
static void apply_norm(chain *c, float epsilon, mr_tensor *const *in)
{
    for (int64_t i = 0; i < c->channels; i++) {
        c->shift[i] -= (double)MR_DATA(float, in[2])[i];
        scale_by(c, i, (double)(MR_DATA(float, in[0])[i] / sqrtf(MR_DATA(float, in[3])[i] + epsilon)));
        c->shift[i] += (double)MR_DATA(float, in[1])[i];
    }
}

static bool absorb_norm(chain *c, mr_node *n)
{
    mr_tensor *in[4] = {NULL};
    float epsilon = 0;
    bool all = true;
    for (int i = 0; i < 4; i++)
        all &= (in[i] = vector_of(c, n->in[1 + i])) != NULL;
    mr_status_free(mr_node_get_float(n, "epsilon", &epsilon));
    if (all)
        apply_norm(c, epsilon, in);
    for (int i = 0; i < 4; i++)
        mr_tensor_unref(in[i]);
    return all;
}

/* n adds, subtracts or multiplies a constant vector. */
static bool absorb_vector(chain *c, const mr_node *n)
{
    bool first = n->in[0].node == last_of(c), times = mr_node_is(n, "Mul"), minus = mr_node_is(n, "Sub") && first;
    if (!times && !minus && !is_bias(c, n))
        return false;
    mr_tensor *v = vector_of(c, other_operand(c, n));
    for (int64_t i = 0; v && i < c->channels; i++) {
        double x = (double)MR_DATA(float, v)[i];
        if (times)
            scale_by(c, i, x);
        else
            c->shift[i] += minus ? -x : x;
    }
    mr_tensor_unref(v);
    return v != NULL;
}

/* The filter is a constant that only the anchor reads. */
static bool has_own_filter(const chain *c)
{
    mr_out filter = anchor_of(c)->in[1];
    return mr_node_is(filter.node, "Const") && filter.node->uses.n == 1 && mr_fuse_same_device(filter.node, anchor_of(c));
}

static void absorb_constants(chain *c)
{
    mr_node *n;
    if (!has_own_filter(c) || c->channels <= 0)
        return;
    c->factor = mr_new_array(double, c->channels);
    c->shift = mr_new_array(double, c->channels);
    for (int64_t i = 0; i < c->channels; i++)
        c->factor[i] = 1;
    while ((n = follower_of(c)) && (is_norm(c, n) ? absorb_norm(c, n) : absorb_vector(c, n)))
        take(c, n);
}

/* The channel of element i of the filter. */
static int64_t channel_at(const chain *c, int64_t i, int64_t n)
{
    const mr_node *a = anchor_of(c);
    return mr_node_is(a, "MatMul") && is_true(a, "transpose_b") ? i / (n / c->channels) : i % c->channels;
}

static mr_status *make_tensor(int rank, const int64_t *dims, mr_tensor **out)
{
    return mr_tensor_new(NULL, MR_FLOAT, rank, dims, out);
}

/* The scaled filter and the bias; *finite is false if a number has become infinite or NaN. The caller owns both. */
static mr_status *scale_filter(const chain *c, mr_tensor **filter, mr_tensor **bias, bool *finite)
{
    mr_tensor *old = value_of(anchor_of(c)->in[1]);
    mr_status *st = make_tensor(old->rank, old->dims, filter);
    if (!st)
        st = make_tensor(1, &c->channels, bias);
    *finite = true;
    for (int64_t i = 0; !st && i < old->n; i++) {
        float v = MR_DATA(float, old)[i];
        if (c->scaled)
            v = (float)((double)v * c->factor[channel_at(c, i, old->n)]);
        MR_DATA(float, *filter)[i] = v;
        *finite &= !c->scaled || isfinite(v);
    }
    for (int64_t i = 0; !st && i < c->channels; i++) {
        MR_DATA(float, *bias)[i] = (float)c->shift[i];
        *finite &= isfinite((float)c->shift[i]) && isfinite((float)c->factor[i]);
    }
    mr_tensor_unref(old);
    return st;
}

/* A Const beside the anchor that exists when the inputs of the absorbed nodes do. */
static mr_status *add_const(chain *c, const char *suffix, mr_tensor *t, int n_absorbed, mr_out *out)
{
    mr_node *a = anchor_of(c), *made;
    char *name = mr_printf("%s/%s", a->name, suffix);
    mr_node_builder *b = mr_node_begin(c->g, "Const", mr_graph_unique_name(c->g, name));
    mr_free(name);
    mr_nb_internal(b);
    mr_nb_device(b, a->device);
    mr_nb_attr(b, "dtype", mr_a_type(MR_FLOAT));
    mr_nb_attr_tensor(b, "value", t);
    MR_TRY(mr_node_finish(b, &made));
    made->placed = a->placed;
    made->mark = a->mark;
    for (int k = 0; k < n_absorbed; k++)
        for (int i = 0; i < c->nodes[k]->n_in; i++) {
            const mr_node *src = c->nodes[k]->in[i].node;
            for (int j = 0; mr_node_is(src, "Const") && j < src->n_ctrl; j++)
                mr_node_add_control(made, src->ctrl[j]);
        }
    *out = (mr_out){made, 0};
    return NULL;
}

/* Makes constants of what absorb_constants found, unless a number is not finite: then the chain is as short as before. */
static mr_status *finish_constants(chain *c, mr_out *filter)
{
    mr_status *st = NULL;
    mr_tensor *w = NULL, *b = NULL;
    mr_out bias = MR_NO_OUT;
    bool finite;
    if (c->n == 1)
        return NULL;
    if (c->n == 2 && !c->scaled && !mr_node_is(c->nodes[1], "Sub")) {
        c->n = 1; /* a lone bias is taken as it is */
        return NULL;
    }
    MR_GO(scale_filter(c, &w, &b, &finite));
    if (!finite) {
        c->n = 1;
        goto out;
    }
    if (c->scaled)
        MR_GO(add_const(c, "scaled_filter", w, c->n, filter));
    MR_GO(add_const(c, "bias", b, c->n, &bias));
    take_op(c, "BiasAdd");
    take_arg(c, bias);
out:
    mr_tensor_unref(w);
    mr_tensor_unref(b);
    return st;
}

/* ---- what follows ---- */

/* Takes a bias or a normalization that is not constant. */
static void take_bias(chain *c)
{
    mr_node *n = follower_of(c);
    if (n && is_bias(c, n)) {
        take_op(c, "BiasAdd");
        take_arg(c, other_operand(c, n));
        c->broadcasts = is_add(n);
        take(c, n);
    } else if (n && is_norm(c, n)) {
        take_op(c, "FusedBatchNorm");
        for (int i = 1; i <= 4; i++)
            take_arg(c, n->in[i]);
        mr_status_free(mr_node_get_float(n, "epsilon", &c->epsilon));
        take(c, n);
    }
}

/* An addition of two tensors that may have the same shape: the kernel finds out. */
static void take_residual(chain *c)
{
    mr_node *n = follower_of(c);
    if (!n || !is_add(n) || n->in[0].node == n->in[1].node)
        return;
    mr_out other = other_operand(c, n);
    const mr_pshape *x = mr_out_shape((mr_out){last_of(c), 0}), *y = mr_out_shape(other);
    if (x->rank >= 0 && y->rank >= 0 && x->rank != y->rank)
        return;
    for (int i = 0; i < MR_MIN(x->rank, y->rank); i++)
        if (x->dims[i] >= 0 && y->dims[i] >= 0 && x->dims[i] != y->dims[i])
            return;
    take_op(c, "Add");
    take_arg(c, other);
    take(c, n);
}

static void take_activation(chain *c)
{
    static const char *const names[] = {"Relu",     "Relu6",     "Elu",     "Tanh",         "Sigmoid",
                                        "LeakyRelu", "_GeluTanh", "_GeluErf", "_GeluSigmoid", "_Swish"};
    mr_node *n = follower_of(c);
    for (int i = 0; n && i < MR_COUNT(names); i++)
        if (mr_node_is(n, names[i])) {
            if (mr_node_attr(n, "alpha"))
                mr_status_free(mr_node_get_float(n, "alpha", &c->alpha));
            take_op(c, names[i]);
            take(c, n);
            return;
        }
}

/* ---- the new node ---- */

/* TensorFlow's fused depthwise convolution knows no explicit paddings; they are an attr of ours. */
static void copy_attrs(mr_node_builder *b, const mr_node *from)
{
    static const char *const names[] = {"strides",   "data_format", "dilations",         "transpose_a",
                                        "transpose_b", "padding",   "explicit_paddings"};
    const mr_attr *paddings = mr_node_attr(from, "explicit_paddings");
    bool depthwise = mr_node_is(from, "DepthwiseConv2dNative"), own = depthwise && paddings && paddings->n > 0;
    if (own) {
        mr_nb_attr(b, "padding", mr_a_str("VALID"));
        mr_nb_attr(b, MR_FUSED_PADDINGS, *paddings);
    }
    for (int i = 0; i < MR_COUNT(names) - (own ? 2 : depthwise ? 1 : 0); i++) {
        const mr_attr *a = mr_node_attr(from, names[i]);
        if (a)
            mr_nb_attr(b, names[i], *a);
    }
}

static const char *fused_name(const mr_node *anchor)
{
    return mr_node_is(anchor, "Conv2D")                  ? "_FusedConv2D"
           : mr_node_is(anchor, "DepthwiseConv2dNative") ? "_FusedDepthwiseConv2dNative"
                                                         : "_FusedMatMul";
}

/* Lists the nodes of the chain, for traces. */
static void add_members(mr_node_builder *b, const chain *c)
{
    mr_sv members[MOST_NODES];
    char *texts[MOST_NODES];
    for (int i = 0; i < c->n; i++)
        members[i] = mr_sv_of(texts[i] = mr_printf("%s:%s", c->nodes[i]->name, c->nodes[i]->def->name));
    mr_nb_attr(b, MR_FUSED_MEMBERS, mr_a_strs(c->n, members));
    for (int i = 0; i < c->n; i++)
        mr_free(texts[i]);
}

/* Adds the fused node. */
static mr_status *add_fused(chain *c, mr_out filter, mr_node **out)
{
    mr_node *a = anchor_of(c);
    mr_node_builder *b = mr_node_begin(c->g, fused_name(a), mr_graph_unique_name(c->g, a->name));
    mr_nb_internal(b);
    mr_nb_device(b, a->device);
    mr_nb_input(b, a->in[0]);
    mr_nb_input(b, filter);
    mr_nb_input_list(b, c->args, c->n_args);
    copy_attrs(b, a);
    mr_nb_attr(b, "fused_ops", mr_a_strs(c->n_ops, c->ops));
    mr_nb_attr(b, "epsilon", mr_a_float(c->epsilon));
    mr_nb_attr(b, "leakyrelu_alpha", mr_a_float(c->alpha));
    add_members(b, c);
    if (c->broadcasts)
        mr_nb_attr(b, MR_FUSED_BROADCASTS, mr_a_bool(true));
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = a->placed;
    (*out)->mark = a->mark;
    for (int k = 0; k < c->n; k++)
        for (int i = 0; i < c->nodes[k]->n_ctrl; i++)
            mr_node_add_control(*out, c->nodes[k]->ctrl[i]);
    return NULL;
}

/* Removes the chain from its end, and constants that nobody reads any more. */
static void remove_chain(chain *c)
{
    for (int k = c->n - 1; k >= 0; k--) {
        mr_node *n = c->nodes[k], *from[8];
        int n_from = MR_MIN(n->n_in, MR_COUNT(from));
        for (int i = 0; i < n_from; i++)
            from[i] = n->in[i].node;
        mr_graph_remove(c->g, n);
        for (int i = 0; i < n_from; i++) {
            bool again = false;
            for (int j = 0; j < i; j++)
                again |= from[j] == from[i];
            if (!again && mr_node_is(from[i], "Const") && from[i]->uses.n == 0)
                mr_graph_remove(c->g, from[i]);
        }
    }
}

/* The fused node takes the name of the anchor, which does most of the work. */
static mr_status *replace_chain(chain *c, mr_out filter)
{
    mr_node *fused;
    const char *name = anchor_of(c)->name;
    MR_TRY(add_fused(c, filter, &fused));
    MR_TRY(mr_graph_replace_uses((mr_out){last_of(c), 0}, (mr_out){fused, 0}));
    mr_fuse_move_controls(last_of(c), fused);
    remove_chain(c);
    mr_node_rename(fused, name);
    return NULL;
}

/* ---- Pad ---- */

static bool all_finite(mr_out o)
{
    mr_tensor *t = value_of(o);
    bool finite = t && t->dtype == MR_FLOAT;
    for (int64_t i = 0; finite && i < t->n; i++)
        finite = isfinite(MR_DATA(float, t)[i]);
    mr_tensor_unref(t);
    return finite;
}

/* Reads the constant paddings of an image: none of batch and channels. */
static bool read_paddings(const mr_node *pad, int64_t out[8])
{
    mr_tensor *t = value_of(pad->in[1]);
    bool good = t && t->rank == 2 && t->dims[0] == 4 && t->dims[1] == 2 && (t->dtype == MR_INT32 || t->dtype == MR_INT64);
    for (int i = 0; good && i < 8; i++) {
        out[i] = mr_tensor_int_at(t, i);
        good = out[i] >= 0 && out[i] < INT32_MAX && (out[i] == 0 || (i >= 2 && i < 6));
    }
    mr_tensor_unref(t);
    return good;
}

static bool pads_with_zeros(const mr_node *pad)
{
    if (mr_node_is(pad, "Pad"))
        return true;
    mr_tensor *t = mr_node_is(pad, "PadV2") ? value_of(pad->in[2]) : NULL;
    bool zero = t && t->dtype == MR_FLOAT && t->n == 1 && MR_DATA(float, t)[0] == 0 && !signbit(MR_DATA(float, t)[0]);
    mr_tensor_unref(t);
    return zero;
}

/* The padding of a convolution in numbers: VALID or explicit ones. */
static bool add_own_padding(const mr_node *conv, int64_t paddings[8])
{
    mr_sv kind = {0};
    const mr_attr *own = NULL;
    mr_status_free(mr_node_get_str(conv, "padding", &kind));
    if (mr_sv_is(kind, "VALID"))
        return true;
    if (!mr_sv_is(kind, "EXPLICIT"))
        return false;
    mr_status_free(mr_node_get_list(conv, "explicit_paddings", MR_ATTR_INT, &own));
    for (int i = 0; own && own->n == 8 && i < 8; i++)
        paddings[i] += own->is[i];
    return own && own->n == 8;
}

static void absorb_pad(mr_graph *g, mr_node *conv)
{
    mr_node *pad = conv->in[0].node;
    int64_t paddings[8];
    if ((!mr_node_is(pad, "Pad") && !mr_node_is(pad, "PadV2")) || mr_fuse_sole_consumer(pad) != conv ||
        !mr_fuse_same_device(pad, conv) || !is_float(pad->in[0]))
        return;
    if (!pads_with_zeros(pad) || !read_paddings(pad, paddings) || !add_own_padding(conv, paddings) ||
        !all_finite(conv->in[1]))
        return;
    mr_node_set_attr(conv, "padding", mr_a_str("EXPLICIT"));
    mr_node_set_attr(conv, "explicit_paddings", mr_a_ints(8, paddings));
    for (int i = 0; i < pad->n_ctrl; i++)
        mr_node_add_control(conv, pad->ctrl[i]);
    mr_status_free(mr_node_set_input(conv, 0, pad->in[0]));
    remove_chain(&(chain){.g = g, .nodes = {pad}, .n = 1});
}

/* ---- */

static bool is_anchor(const mr_prepare_options *o, const mr_node *n)
{
    bool conv = mr_node_is(n, "Conv2D") || mr_node_is(n, "DepthwiseConv2dNative");
    if (!conv && !mr_node_is(n, "MatMul"))
        return false;
    return reads_floats(n) && mr_fuse_on_cpu(o, n) && (conv ? is_channels_last(n) : !is_true(n, "transpose_a"));
}

static mr_status *fuse_at(mr_graph *g, const mr_prepare_options *o, mr_node *n)
{
    mr_status *st = NULL;
    if (!mr_node_is(n, "MatMul"))
        absorb_pad(g, n);
    const mr_pshape *y = n->out_shapes[0];
    chain c = {.g = g, .o = o, .nodes = {n}, .n = 1, .channels = y->rank > 0 ? y->dims[y->rank - 1] : -1};
    mr_out filter = n->in[1];
    absorb_constants(&c);
    MR_GO(finish_constants(&c, &filter));
    if (c.n_ops == 0)
        take_bias(&c);
    if (c.n_ops == 0)
        goto out;
    take_residual(&c);
    take_activation(&c);
    MR_GO(replace_chain(&c, filter));
out:
    mr_free(c.factor);
    mr_free(c.shift);
    return st;
}

mr_status *mr_fuse_conv(mr_graph *g, const mr_prepare_options *o)
{
    for (int i = 0, n = g->nodes.n; i < n; i++)
        if (g->nodes.p[i] && is_anchor(o, g->nodes.p[i]))
            MR_TRY(fuse_at(g, o, g->nodes.p[i]));
    return NULL;
}
