/* passes/effort.c -- estimates what a node computes, by family of op.
 *
 * A family says how many operations an element takes and which elements count. An op without a family makes one
 * pass over its inputs and outputs, with one operation per element. Shapes may be hostile, so sizes are doubles:
 * they cannot overflow. */
#include "passes/effort.h"

#include <stdio.h>

#include "base/memory.h"
#include "run/fused.h"

typedef enum counted { NOTHING, OUTPUT, INPUT, PRODUCT, CONVOLUTION, WINDOW, LSTM, FUSED } counted;

typedef struct family {
    const char *op;
    counted what;
    double flops; /* an element */
} family;

/* Sorted by name, for the binary search. */
static const family families[] = {
    {"Assert", NOTHING, 0},
    {"AvgPool", WINDOW, 1},
    {"AvgPoolGrad", WINDOW, 1},
    {"BatchMatMul", PRODUCT, 2},
    {"BatchMatMulV2", PRODUCT, 2},
    {"BlockLSTM", LSTM, 2},
    {"BlockLSTMGrad", LSTM, 4},
    {"BlockLSTMGradV2", LSTM, 4},
    {"BlockLSTMV2", LSTM, 2},
    {"BroadcastGradientArgs", NOTHING, 0},
    {"Cholesky", OUTPUT, 50},
    {"Const", NOTHING, 0},
    {"ControlTrigger", NOTHING, 0},
    {"Conv2D", CONVOLUTION, 2},
    {"Conv2DBackpropFilter", CONVOLUTION, 2},
    {"Conv2DBackpropInput", CONVOLUTION, 2},
    {"Conv3D", CONVOLUTION, 2},
    {"Conv3DBackpropFilterV2", CONVOLUTION, 2},
    {"Conv3DBackpropInputV2", CONVOLUTION, 2},
    {"Cos", OUTPUT, 10},
    {"Enter", NOTHING, 0},
    {"Exit", NOTHING, 0},
    {"Exp", OUTPUT, 10},
    {"ExpandDims", NOTHING, 0},
    {"FusedBatchNorm", INPUT, 6},
    {"FusedBatchNormGradV3", INPUT, 10},
    {"FusedBatchNormV3", INPUT, 6},
    {"Identity", NOTHING, 0},
    {"IdentityN", NOTHING, 0},
    {"LRN", INPUT, 20},
    {"LRNGrad", INPUT, 30},
    {"Log", OUTPUT, 10},
    {"LogSoftmax", INPUT, 12},
    {"LoopCond", NOTHING, 0},
    {"MatMul", PRODUCT, 2},
    {"MaxPool", WINDOW, 1},
    {"MaxPoolGrad", WINDOW, 2},
    {"Merge", NOTHING, 0},
    {"Multinomial", INPUT, 20},
    {"NextIteration", NOTHING, 0},
    {"NoOp", NOTHING, 0},
    {"Placeholder", NOTHING, 0},
    {"PlaceholderV2", NOTHING, 0},
    {"PlaceholderWithDefault", NOTHING, 0},
    {"Pow", OUTPUT, 20},
    {"PreventGradient", NOTHING, 0},
    {"RandomStandardNormal", OUTPUT, 30},
    {"RandomUniform", OUTPUT, 15},
    {"Rank", NOTHING, 0},
    {"ReadVariableOp", NOTHING, 0}, /* shares the tensor */
    {"Reshape", NOTHING, 0},
    {"Shape", NOTHING, 0},
    {"ShapeN", NOTHING, 0},
    {"Sigmoid", OUTPUT, 12},
    {"Sin", OUTPUT, 10},
    {"Size", NOTHING, 0},
    {"Softmax", INPUT, 12},
    {"SoftmaxCrossEntropyWithLogits", INPUT, 15},
    {"SparseSoftmaxCrossEntropyWithLogits", INPUT, 15},
    {"Squeeze", NOTHING, 0},
    {"StopGradient", NOTHING, 0},
    {"Switch", NOTHING, 0},
    {"Tanh", OUTPUT, 12},
    {"TruncatedNormal", OUTPUT, 35},
    {"VarHandleOp", NOTHING, 0},
    {"Variable", NOTHING, 0},
    {"VariableV2", NOTHING, 0},
    {"_Arg", NOTHING, 0},
    {"_FusedConv2D", CONVOLUTION, 2},
    {"_FusedDepthwiseConv2dNative", CONVOLUTION, 2},
    {"_FusedElementwise", FUSED, 1},
    {"_FusedMatMul", PRODUCT, 2},
    {"_Recv", NOTHING, 0},
    {"_Retval", NOTHING, 0},
    {"_Send", NOTHING, 0},
};

/* NULL: the op has no family. */
static const family *find_family(const char *op)
{
    int lo = 0, hi = MR_COUNT(families);
    while (lo < hi) {
        int mid = (lo + hi) / 2, c = strcmp(op, families[mid].op);
        if (c == 0)
            return &families[mid];
        *(c < 0 ? &hi : &lo) = c < 0 ? mid : mid + 1;
    }
    return NULL;
}

/* ---- sizes ---- */

typedef struct sizes { /* shapes of a node: the static ones, or those seen when it ran */
    const mr_node *n;
    const mr_pshape *const *in, *const *out; /* seen shapes; NULL, or a NULL entry: the static shape */
    int unknown; /* counts for a dimension that is not known */
} sizes;

static const mr_pshape *in_shape(const sizes *s, int i)
{
    return s->in && s->in[i] ? s->in[i] : mr_out_shape(s->n->in[i]);
}

static const mr_pshape *out_shape(const sizes *s, int i) { return s->out && s->out[i] ? s->out[i] : s->n->out_shapes[i]; }

static bool has_in(const sizes *s, int i) { return i < s->n->n_in && s->n->in[i].node; }

/* Dimension i of a shape; a negative i counts from the end. A dimension outside of the rank counts as 1. */
static double dim_size(const mr_pshape *s, int i, int unknown)
{
    if (s->rank < 0)
        return unknown;
    i = i < 0 ? i + s->rank : i;
    return i < 0 || i >= s->rank ? 1 : s->dims[i] < 0 ? unknown : (double)s->dims[i];
}

/* The number of elements; a shape of unknown rank counts as one unknown dimension. */
static double count_elements(const mr_pshape *s, int unknown)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= dim_size(s, i, unknown);
    return s->rank < 0 ? unknown : n;
}

/* Handles count 8 bytes each, also where the pointers behind them are shorter (WebAssembly): a simulated device does not
 * depend on the machine that simulates it. */
static double element_bytes(mr_dtype type)
{
    return type == MR_RESOURCE || type == MR_VARIANT ? 8 : (double)mr_dtype_size(type);
}

/* A reference counts as one word: the tensor behind it is not copied. */
static double out_bytes(int type, const mr_pshape *shape, int unknown)
{
    return mr_dtype_is_ref(type) ? 8 : count_elements(shape, unknown) * element_bytes((mr_dtype)type);
}

double mr_effort_out_bytes(mr_out o, int unknown) { return out_bytes(mr_out_type(o), mr_out_shape(o), unknown); }

/* The bytes that the node reads and writes. Of an input that is a reference, the tensor behind it counts. */
static double traffic_bytes(const sizes *s)
{
    double sum = 0;
    for (int i = 0; i < s->n->n_in; i++)
        if (has_in(s, i))
            sum += count_elements(in_shape(s, i), s->unknown) *
                   element_bytes(mr_dtype_base(mr_out_type(s->n->in[i])));
    for (int i = 0; i < s->n->n_out; i++)
        sum += out_bytes(s->n->out_types[i], out_shape(s, i), s->unknown);
    return sum;
}

/* Of the largest input. */
static double in_elements(const sizes *s)
{
    double most = 0;
    for (int i = 0; i < s->n->n_in; i++)
        most = has_in(s, i) ? MR_MAX(most, count_elements(in_shape(s, i), s->unknown)) : most;
    return most;
}

/* Of all outputs together. */
static double out_elements(const sizes *s)
{
    double sum = 0;
    for (int i = 0; i < s->n->n_out; i++)
        sum += count_elements(out_shape(s, i), s->unknown);
    return sum;
}

/* ---- families whose work is more than their elements ---- */

static bool bool_attr(const mr_node *n, const char *name)
{
    const mr_attr *a = mr_node_attr(n, name);
    return a && a->kind == MR_ATTR_BOOL && !a->is_list && a->b;
}

/* Each element of the result is a sum over the inner dimension, which is the last one of the first factor, or the
 * one before if it is transposed. */
static double product_terms(const sizes *s)
{
    if (s->n->n_in < 2 || !has_in(s, 0))
        return 0;
    bool across = bool_attr(s->n, "transpose_a") || bool_attr(s->n, "adj_x");
    return out_elements(s) * dim_size(in_shape(s, 0), across ? -2 : -1, s->unknown);
}

/* Each filter tap meets every position of one image: the output of Conv2D, and the last input of its gradients. */
static double convolution_terms(const sizes *s)
{
    bool back = strstr(s->n->def->name, "Backprop") != NULL;
    bool of_filter = strstr(s->n->def->name, "BackpropFilter") != NULL;
    if (s->n->n_in < (back ? 3 : 2) || !has_in(s, 1) || (back && !has_in(s, 2)))
        return 0;
    const mr_pshape *filter = of_filter ? out_shape(s, 0) : in_shape(s, 1);
    const mr_pshape *image = back ? in_shape(s, 2) : out_shape(s, 0);
    double out_channels = MR_MAX(dim_size(filter, -1, s->unknown), 1);
    return count_elements(image, s->unknown) * count_elements(filter, s->unknown) / out_channels;
}

/* Each output element combines ksize elements of the input. */
static double window_terms(const sizes *s)
{
    const mr_attr *k = mr_node_attr(s->n, "ksize");
    double taps = 1;
    for (int i = 0; k && k->is_list && k->kind == MR_ATTR_INT && i < k->n; i++)
        taps *= (double)k->is[i];
    return out_elements(s) * MR_MAX(taps, 1);
}

/* At each time step every example meets the whole matrix: inputs 1 and 4 are x [time, batch, ..] and w. */
static double lstm_terms(const sizes *s)
{
    if (s->n->n_in < 5 || !has_in(s, 1) || !has_in(s, 4))
        return 0;
    const mr_pshape *x = in_shape(s, 1);
    return dim_size(x, 0, s->unknown) * dim_size(x, 1, s->unknown) * count_elements(in_shape(s, 4), s->unknown);
}

/* Each member of a fused node makes one pass over the largest input, with the operations of its own family. */
static double fused_flops(const sizes *s)
{
    const mr_attr *members = mr_node_attr(s->n, MR_FUSED_MEMBERS);
    double sum = 0;
    for (int i = 0; members && members->is_list && members->kind == MR_ATTR_STRING && i < members->n; i++) {
        const char *colon = members->ss[i].n == 0 ? NULL : memrchr(members->ss[i].p, ':', members->ss[i].n);
        char op[64];
        snprintf(op, sizeof op, "%.*s", colon ? (int)(members->ss[i].p + members->ss[i].n - colon - 1) : 0, colon ? colon + 1 : "");
        const family *f = find_family(op);
        sum += f ? f->flops : 1;
    }
    return sum * MR_MAX(in_elements(s), out_elements(s));
}

/* An op without a family counts the larger of its inputs and outputs. NOTHING means that the op moves no data at
 * all, so neither operations nor bytes count. */
mr_effort mr_effort_seen(const mr_node *n, const mr_pshape *const *in, const mr_pshape *const *out, int unknown)
{
    const family *f = find_family(n->def->name);
    sizes s = {n, in, out, unknown};
    double flops = f ? f->flops : 1;
    switch (f ? f->what : OUTPUT) {
    case NOTHING: return (mr_effort){0, 0};
    case OUTPUT: flops *= f ? out_elements(&s) : MR_MAX(in_elements(&s), out_elements(&s)); break;
    case INPUT: flops *= in_elements(&s); break;
    case PRODUCT: flops *= product_terms(&s); break;
    case CONVOLUTION: flops *= convolution_terms(&s); break;
    case WINDOW: flops *= window_terms(&s); break;
    case LSTM: flops *= lstm_terms(&s); break;
    case FUSED: flops = fused_flops(&s); break;
    }
    return (mr_effort){flops, traffic_bytes(&s)};
}

mr_effort mr_effort_of(const mr_node *n, int unknown) { return mr_effort_seen(n, NULL, NULL, unknown); }
