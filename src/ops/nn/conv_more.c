/* ops/nn/conv_more.c -- Conv, with one to three spatial dimensions, and gradients of convolutions that
 * take a tensor instead of its shape. */
#include "base/memory.h"
#include "ops/nn/inside.h"

/* ---- gradients by the tensor ---- */

static mr_out shape_of(mr_scope *s, mr_out x) { return mr_emit(s, "Shape", x); }

#define ATTRS_2D "strides use_cudnn_on_gpu padding explicit_paddings data_format dilations"
#define ATTRS_3D "strides padding dilations"

static void input_2d(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    out[0] = mr_inside_emit(s, n, "Conv2DBackpropInput", ATTRS_2D,
                            MR_OUTS(shape_of(s, in[0]), in[1], in[2]));
}

static void filter_2d(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    out[0] = mr_inside_emit(s, n, "Conv2DBackpropFilter", ATTRS_2D,
                            MR_OUTS(in[0], shape_of(s, in[1]), in[2]));
}

static void input_3d(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    out[0] = mr_inside_emit(s, n, "Conv3DBackpropInputV2", ATTRS_3D,
                            MR_OUTS(shape_of(s, in[0]), in[1], in[2]));
}

static void filter_3d(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    out[0] = mr_inside_emit(s, n, "Conv3DBackpropFilterV2", ATTRS_3D,
                            MR_OUTS(in[0], shape_of(s, in[1]), in[2]));
}

MR_INSIDE(input_2d, input_2d)
MR_INSIDE(filter_2d, filter_2d)
MR_INSIDE(input_3d, input_3d)
MR_INSIDE(filter_3d, filter_3d)

#define SIG "input: T, filter: T, out_backprop: T -> output: T"
#define WITH_INT32(M, ...) MR_FLOATS(M, __VA_ARGS__) MR_TYPE_INT32(M, __VA_ARGS__)
#define THREE(M, ...)                                             \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)    \
    MR_TYPE_DOUBLE(M, __VA_ARGS__)
#define REST                                                                                 \
    "strides: list(int); use_cudnn_on_gpu: bool = true; padding: {'SAME', 'VALID', "         \
    "'EXPLICIT'}; explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW'} = 'NHWC'; " \
    "dilations: list(int) = [1, 1, 1, 1]"
#define OLD_3D                                                                               \
    .attrs = "T: {half, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; " \
             "dilations: list(int) = [1, 1, 1, 1, 1]",                                       \
    .deprecated = 10
#define VALID_2D "strides=[1, 1, 1, 1] padding=\"VALID\": "
#define VALID_3D "strides=[1, 1, 1, 1, 1] padding=\"VALID\": "

MR_OP(Conv2DBackpropInputV2,
    .doc      = "gradient of Conv2D by its image; only the shape of input is read",
    .sig      = SIG,
    .attrs    = "T: {half, bfloat16, float, double, int32}; " REST,
    MR_INSIDE_OP(input_2d),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, WITH_INT32)),
    .examples = MR_EXAMPLES(
        VALID_2D "fill(9, 1,1,3,1), [[[[2]], [[1]]]], [[[[1], [3]]]] -> [[[[2], [7], [3]]]]",
        VALID_2D "fill(9, 1,1,3,1), [[[[2]], [[1]]]], [[[[1]]]] -> !INVALID_ARGUMENT"));

MR_OP(Conv2DBackpropFilterV2,
    .doc      = "gradient of Conv2D by its filter; only the shape of filter is read",
    .sig      = SIG,
    .attrs    = "T: {half, bfloat16, float, double}; " REST,
    MR_INSIDE_OP(filter_2d),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        VALID_2D "[[[[1], [2], [4]]]], fill(9, 1,2,1,1), [[[[1], [3]]]] -> [[[[7]], [[14]]]]",
        VALID_2D "[[[[1], [2], [4]]]], fill(9, 1,2,1,1), [[[[1]]]] -> !INVALID_ARGUMENT"));

MR_OP(Conv3DBackpropInput,
    .doc      = "gradient of Conv3D by its image; only the shape of input is read",
    .sig      = SIG, OLD_3D,
    .deprecation = "Use Conv3DBackpropInputV2",
    MR_INSIDE_OP(input_3d),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, THREE)),
    .examples = MR_EXAMPLES(
        VALID_3D "fill(9, 1,1,1,3,1), [[[[[2]], [[1]]]]], [[[[[1], [3]]]]] -> [[[[[2], [7], "
        "[3]]]]]",
        VALID_3D "fill(9, 1,1,1,3,1), [[[[[2]], [[1]]]]], [[[[[1]]]]] -> !INVALID_ARGUMENT"));

MR_OP(Conv3DBackpropFilter,
    .doc      = "gradient of Conv3D by its filter; only the shape of filter is read",
    .sig      = SIG, OLD_3D,
    .deprecation = "Use Conv3DBackpropFilterV2",
    MR_INSIDE_OP(filter_3d),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, THREE)),
    .examples = MR_EXAMPLES(
        VALID_3D "[[[[[1], [2], [4]]]]], fill(9, 1,1,2,1,1), [[[[[1], [3]]]]] -> [[[[[7]], "
        "[[14]]]]]",
        VALID_3D "[[[[[1], [2], [4]]]]], fill(9, 1,1,2,1,1), [[[[[1]]]]] -> !INVALID_ARGUMENT"));

/* ---- Conv ----
 *
 * The length of strides determines the number of spatial dimensions: one, two or three.  If there is one,
 * another of size 1 is inserted before it.  The first batch_dims dimensions are flattened to one batch. */

enum { MAX_RANK = 5 };

typedef struct attrs {
    int space; /* number of spatial dimensions */
    bool first;
    int64_t batch_dims, groups;
    const char *padding;
    int64_t strides[MAX_RANK], dilations[MAX_RANK], pads[2 * MAX_RANK];
    bool explicit_;
} attrs;

static mr_status *read_steps(const mr_node *n, const char *name, int rank, bool may_lack,
                             int64_t *out)
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(n, name, MR_ATTR_INT, &a));
    for (int i = 0; i < rank; i++)
        out[i] = 1;
    if (a->n == 0 && may_lack)
        return NULL;
    if (a->n != rank)
        return mr_invalid("%s must specify %d dimensions, but got %d", name, rank, a->n);
    memcpy(out, a->is, sizeof(int64_t) * (size_t)rank);
    return NULL;
}

static mr_status *read_attrs(const mr_node *n, attrs *a)
{
    const mr_attr *strides, *pads;
    mr_sv format, padding;
    MR_TRY(mr_node_get_list(n, "strides", MR_ATTR_INT, &strides));
    MR_TRY(mr_node_get_list(n, "explicit_paddings", MR_ATTR_INT, &pads));
    MR_TRY(mr_node_get_str(n, "data_format", &format));
    MR_TRY(mr_node_get_str(n, "padding", &padding));
    MR_TRY(mr_node_get_int(n, "batch_dims", &a->batch_dims));
    MR_TRY(mr_node_get_int(n, "groups", &a->groups));
    int rank = strides->n;
    if (rank < 3 || rank > MAX_RANK)
        return mr_invalid("strides must specify 3 to %d dimensions, but got %d", MAX_RANK, rank);
    if (a->batch_dims < 0 || a->batch_dims > MR_MAX_RANK)
        return mr_invalid("batch_dims must not be negative, got %lld", (long long)a->batch_dims);
    if (a->groups < 1)
        return mr_invalid("groups must be positive, got %lld", (long long)a->groups);
    a->space = rank - 2;
    a->first = mr_sv_is(format, "CHANNELS_FIRST");
    a->padding = mr_sv_is(padding, "SAME") ? "SAME" : "VALID"; /* explicit padding is a Pad before the convolution */
    a->explicit_ = mr_sv_is(padding, "EXPLICIT");
    if (pads->n != (a->explicit_ ? 2 * rank : 0))
        return mr_invalid("explicit_paddings must have %d numbers for this padding, but got %d",
                          a->explicit_ ? 2 * rank : 0, pads->n);
    memcpy(a->pads, pads->is, sizeof(int64_t) * (size_t)pads->n);
    MR_TRY(read_steps(n, "strides", rank, false, a->strides));
    return read_steps(n, "dilations", rank, true, a->dilations);
}

static mr_out slice_shape(mr_scope *s, mr_out shape, int32_t begin, int32_t size)
{
    return mr_emit(s, "Slice", shape, mr_const_vec_i32(s, 1, &begin),
                   mr_const_vec_i32(s, 1, &size));
}

static mr_out join_shapes(mr_scope *s, mr_out a, mr_out b)
{
    return mr_emit_lists(s, "ConcatV2", NULL, 0,
                         (mr_emit_arg[]){{2, (mr_out[]){a, b}},
                                         {-1, (mr_out[]){mr_const_i32(s, 0)}}}, 2);
}

/* Inserts a 1 at position `at` of a list of `rank` numbers. */
static void put_one(int64_t *v, int rank, int at)
{
    memmove(v + at + 1, v + at, sizeof(int64_t) * (size_t)(rank - at));
    v[at] = 1;
}

static mr_out pad_image(mr_scope *s, const attrs *a, mr_out x)
{
    const int64_t dims[2] = {a->space + 2, 2};
    return mr_emit(s, "Pad", x, mr_const(s, mr_tensor_of(MR_INT64, 2, dims, a->pads)));
}

/* One spatial dimension and one batch dimension: a Conv2D over an image of height 1. */
static mr_out conv_1d(mr_scope *s, attrs *a, mr_out x, mr_out filter)
{
    int at = a->first ? 2 : 1;
    int64_t squeezed = at;
    put_one(a->strides, 3, at);
    put_one(a->dilations, 3, at);
    x = mr_emit(s, "ExpandDims", x, mr_const_i32(s, at));
    filter = mr_emit(s, "ExpandDims", filter, mr_const_i32(s, 0));
    mr_out y = mr_emit_with(s, "Conv2D",
                            MR_ATTRS({"strides", mr_a_ints(4, a->strides)},
                                     {"dilations", mr_a_ints(4, a->dilations)},
                                     {"padding", mr_a_str(a->padding)},
                                     {"data_format", mr_a_str(a->first ? "NCHW" : "NHWC")}),
                            x, filter);
    return mr_emit_with(s, "Squeeze", MR_ATTRS({"squeeze_dims", mr_a_ints(1, &squeezed)}), y);
}

static mr_out conv_nd(mr_scope *s, attrs *a, mr_out x, mr_out filter)
{
    if (a->explicit_)
        x = pad_image(s, a, x);
    if (a->space == 1)
        return conv_1d(s, a, x, filter);
    bool flat = a->space == 2;
    const char *format = flat ? (a->first ? "NCHW" : "NHWC") : a->first ? "NCDHW" : "NDHWC";
    return mr_emit_with(s, flat ? "Conv2D" : "Conv3D",
                        MR_ATTRS({"strides", mr_a_ints(a->space + 2, a->strides)},
                                 {"dilations", mr_a_ints(a->space + 2, a->dilations)},
                                 {"padding", mr_a_str(a->padding)},
                                 {"data_format", mr_a_str(format)}),
                        x, filter);
}

static void emit_conv(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    attrs a = {0};
    mr_scope_fail(s, read_attrs(n, &a));
    if (!mr_scope_ok(s))
        return;
    if (a.batch_dims == 1) {
        out[0] = conv_nd(s, &a, in[0], in[1]);
        return;
    }
    int32_t batch = (int32_t)a.batch_dims, inner = a.space + 1;
    mr_out shape = shape_of(s, in[0]), before = slice_shape(s, shape, 0, batch);
    mr_out all = mr_emit_with(s, "Prod", MR_ATTRS({"keep_dims", mr_a_bool(true)}), before,
                              mr_const_i32(s, 0));
    mr_out x = mr_emit(s, "Reshape", in[0], join_shapes(s, all, slice_shape(s, shape, batch, inner)));
    mr_out y = conv_nd(s, &a, x, in[1]);
    out[0] = mr_emit(s, "Reshape", y, join_shapes(s, before, slice_shape(s, shape_of(s, y), 1, inner)));
}

static mr_status *conv_shape(mr_infer *c) { return mr_inside_infer(c, emit_conv); }

typedef struct state {
    mr_inside inside; /* must be first: mr_inside_run expects it at the start of the state */
    attrs attrs;
} state;

static mr_status *conv_init(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(mr_inside_init(m, &s->inside, emit_conv));
    return read_attrs(m->node, &s->attrs);
}

/* Checks the ranks, and that the attr `groups` agrees with the channels of the image and the filter. */
static mr_status *run_conv(mr_run *r)
{
    const attrs *a = &((const state *)r->state)->attrs;
    const mr_tensor *x = mr_in(r, 0), *f = mr_in(r, 1);
    if (x->rank != a->batch_dims + a->space + 1 || f->rank != a->space + 2)
        return mr_invalid("input and filter must have %lld and %d dimensions, got %s and %s",
                          (long long)a->batch_dims + a->space + 1, a->space + 2, MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(f));
    int64_t channels = x->dims[a->first ? a->batch_dims : x->rank - 1], in,
            want = f->dims[a->space];
    if (!mr_i64_mul(want, a->groups, &in) || in != channels)
        return mr_invalid("input has %lld channels, expected %lld groups of the filter's %lld channels",
                          (long long)channels, (long long)a->groups, (long long)want);
    return mr_inside_run(r);
}

MR_OP(Conv,
    .doc      = "convolution in one, two or three dimensions, by the length of strides",
    .sig      = "input: T, filter: T -> output: T",
    .attrs    = "T: {half, bfloat16, float, double, int32}; strides: list(int); padding: {'SAME', "
                "'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; data_format: "
                "{'CHANNELS_FIRST', 'CHANNELS_LAST'} = 'CHANNELS_LAST'; dilations: list(int) = []; "
                "batch_dims: int = 1; groups: int = 1",
    .shape    = conv_shape,
    .state_bytes = sizeof(state),
    .init     = conv_init,
    .deinit   = mr_inside_deinit,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_conv, WITH_INT32)),
    .examples = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [2], [4]]]], [[[[1]], [[10]]]] -> "
        "[[[[21], [42]]]]",
        "strides=[1, 1, 1] padding=\"SAME\": [[[1], [2], [4]]], [[[1]], [[10]]] -> [[[21], [42], "
        "[4]]]",
        "strides=[1, 1, 2] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 0, 0, 1, 0] "
        "data_format=\"CHANNELS_FIRST\": [[[1, 2, 4]]], [[[1]], [[10]]] -> [[[10, 42]]]",
        "T=float strides=[1, 1, 1, 1, 1] padding=\"VALID\" dilations=[1, 1, 1, 2, 1]: "
        "[[[[[1], [2], [4]]]]], [[[[[1]], [[10]]]]] -> [[[[[41]]]]]",
        "strides=[1, 1, 1] padding=\"VALID\" batch_dims=2: [[[[1], [2]]], [[[3], [4]]]], [[[2]]] "
        "-> [[[[2], [4]]], [[[6], [8]]]]",
        "strides=[1, 1, 1] padding=\"VALID\" batch_dims=0: [[1], [2]], [[[2]]] -> [[2], [4]]",
        "strides=[1, 1] padding=\"VALID\": [[[1]]], [[[1]]] -> !INVALID_ARGUMENT strides must "
        "specify",
        "strides=[1, 1, 1] padding=\"VALID\" groups=2: [[[1, 2]]], [[[10, 20]]] -> [[[10, 40]]]",
        "strides=[1, 1, 1] padding=\"VALID\": [[[1, 2]]], [[[10, 20]]] -> !INVALID_ARGUMENT",
        "strides=[1, 1, 1] padding=\"VALID\" explicit_paddings=[1]: [[[1]]], [[[1]]] -> "
        "!INVALID_ARGUMENT explicit_paddings",
        "strides=[1, 1, 1] padding=\"VALID\": [[[[1]]]], [[[1]]] -> !INVALID_ARGUMENT"));
