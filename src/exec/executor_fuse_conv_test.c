/* exec/executor_fuse_conv_test.c -- passes/fuse_conv.c: which nodes become one, and that the values are those of the single nodes. */
#include <math.h>

#include "base/memory.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

typedef struct net {
    mr_graph *g;
    mr_scope s;
    mr_out x;          /* a placeholder: images of 4 channels, or rows of 4 numbers */
    int64_t dims[4];   /* of the value fed to x */
    int rank;
    float special;     /* the first element of that value */
    uint32_t seed;
} net;

static void begin(net *n, int rank)
{
    static const int64_t image[4] = {2, 5, 6, 4}, rows[2] = {7, 4};
    mr_ops_register();
    *n = (net){.g = mr_graph_new(), .rank = rank, .special = 0.5f, .seed = 1};
    memcpy(n->dims, rank == 4 ? image : rows, (size_t)rank * sizeof(int64_t));
    mr_scope_init(&n->s, n->g, "");
    n->x = mr_placeholder(&n->s, MR_FLOAT, "x", mr_pshape_of(&n->g->arena, rank, n->dims));
}

static void end(net *n)
{
    mr_scope_deinit(&n->s);
    mr_graph_unref(n->g);
}

/* Numbers from low to low + 1. */
static mr_tensor *numbers(net *n, int rank, const int64_t *dims, float low)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, rank, dims, &t));
    for (int64_t i = 0; i < t->n; i++) {
        n->seed = n->seed * 1664525 + 1013904223;
        MR_DATA(float, t)[i] = (float)(n->seed >> 8) / (float)(1 << 24) + low;
    }
    return t;
}

static mr_out constant(net *n, int rank, const int64_t *dims, float low)
{
    return mr_const(&n->s, numbers(n, rank, dims, low));
}

static mr_out vector(net *n, int64_t size, float low) { return constant(n, 1, &size, low); }

static mr_out paddings(net *n, int batch)
{
    const int32_t v[8] = {batch, 0, 1, 2, 3, 0, 0, 0}, shape[2] = {4, 2};
    return mr_emit(&n->s, "Reshape", mr_const_vec_i32(&n->s, 8, v), mr_const_vec_i32(&n->s, 2, shape));
}

static mr_out conv_with(net *n, mr_out x, mr_out filter, const char *padding)
{
    static const int64_t ones[4] = {1, 1, 1, 1};
    return mr_emit_with(&n->s, "Conv2D", MR_ATTRS({"strides", mr_a_ints(4, ones)}, {"padding", mr_a_str(padding)}), x,
                        filter);
}

static mr_out conv(net *n, mr_out x, int64_t channels)
{
    return conv_with(n, x, constant(n, 4, (const int64_t[]){3, 3, 4, channels}, -0.5f), "SAME");
}

static mr_out depthwise_with(net *n, mr_out x, const char *padding)
{
    static const int64_t ones[4] = {1, 1, 1, 1}, dims[4] = {3, 3, 4, 1};
    return mr_emit_with(&n->s, "DepthwiseConv2dNative",
                        MR_ATTRS({"strides", mr_a_ints(4, ones)}, {"padding", mr_a_str(padding)}), x,
                        constant(n, 4, dims, -0.5f));
}

static mr_out depthwise(net *n, mr_out x) { return depthwise_with(n, x, "SAME"); }

static mr_out bias(net *n, mr_out x, int64_t channels) { return mr_emit(&n->s, "BiasAdd", x, vector(n, channels, -0.5f)); }

static mr_out norm_with(net *n, mr_out x, mr_out scale, int64_t channels, bool training)
{
    mr_out v[4] = {scale, vector(n, channels, -0.5f), vector(n, channels, -0.5f), vector(n, channels, 0.5f)};
    if (training)
        v[2] = v[3] = vector(n, 0, 0);
    return mr_emit_with(&n->s, "FusedBatchNormV3", MR_ATTRS({"is_training", mr_a_bool(training)}), x, v[0], v[1], v[2], v[3]);
}

static mr_out norm(net *n, mr_out x, int64_t channels) { return norm_with(n, x, vector(n, channels, 0.5f), channels, false); }

/* Fetches n_fetches outputs with or without fusing; the caller owns *out. */
static mr_status *run(net *n, bool no_fuse, const mr_out *fetches, int n_fetches, mr_tensor **out)
{
    mr_session *session;
    MR_CHECK_OK(mr_scope_status(&n->s));
    MR_CHECK_OK(mr_direct_session_new(n->g, NULL, &(mr_session_config){.no_fuse = no_fuse, .intra_threads = 1}, &session));
    n->seed = 77;
    mr_tensor *x = numbers(n, n->rank, n->dims, -0.5f);
    MR_DATA(float, x)[0] = n->special;
    mr_status *st = mr_session_run(session,
                                   &(mr_run_args){.feeds = &n->x,
                                                  .feed_values = &x,
                                                  .n_feeds = 1,
                                                  .fetches = fetches,
                                                  .fetched = out,
                                                  .n_fetches = n_fetches},
                                   NULL, NULL);
    mr_tensor_unref(x);
    mr_session_free(session);
    return st;
}

static void check_close(const mr_tensor *a, const mr_tensor *b)
{
    MR_CHECK(mr_tensor_same_shape(a, b));
    for (int64_t i = 0; i < a->n; i++) {
        float p = MR_DATA(float, a)[i], q = MR_DATA(float, b)[i];
        MR_CHECK((isnan(p) && isnan(q)) || p == q || fabsf(p - q) <= 4e-6f * (1 + fabsf(q)));
    }
}

static void check_values(net *n, const mr_out *fetches, int n_fetches)
{
    mr_tensor *fused[2] = {NULL}, *single[2] = {NULL};
    MR_CHECK_OK(run(n, false, fetches, n_fetches, fused));
    MR_CHECK_OK(run(n, true, fetches, n_fetches, single));
    for (int i = 0; i < n_fetches; i++) {
        check_close(fused[i], single[i]);
        mr_tensor_unref(fused[i]);
        mr_tensor_unref(single[i]);
    }
}

/* The graph that a run of these fetches executes, as "Op Op .." of the nodes that compute something. */
static mr_str ops_of(net *n, const mr_out *fetches, int n_fetches)
{
    mr_device *cpu;
    mr_graph *part = NULL;
    mr_str text = {0};
    MR_CHECK_OK(mr_scope_status(&n->s));
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &cpu));
    MR_CHECK_OK(mr_prepare(n->g,
                           &(mr_run_signature){.feeds = &n->x, .n_feeds = 1, .fetches = fetches, .n_fetches = n_fetches},
                           &(mr_prepare_options){.devices = &cpu, .n_devices = 1}, &part));
    for (int i = 0; i < part->nodes.n; i++) {
        const mr_node *p = part->nodes.p[i];
        if (p && !mr_node_is(p, "Const") && !mr_node_is(p, "_Arg") && !mr_node_is(p, "_Retval"))
            mr_str_printf(&text, "%s%s", text.n ? " " : "", p->def->name);
    }
    mr_graph_unref(part);
    mr_device_free(cpu);
    return text;
}

/* One fetch runs these ops, and gives the same values as without fusing. */
static void check_net(net *n, mr_out y, const char *ops)
{
    mr_str text = ops_of(n, &y, 1);
    MR_CHECK_STR(mr_str_z(&text), ops);
    mr_str_deinit(&text);
    check_values(n, &y, 1);
    end(n);
}

MR_TEST(fuse_conv_takes_bias_and_each_activation)
{
    static const char *const names[] = {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"};
    for (int i = 0; i < MR_COUNT(names); i++)
        for (int specials = 0; specials < 4; specials++) {
            static const float values[] = {0.5f, NAN, INFINITY, -INFINITY};
            net n;
            begin(&n, 4);
            n.special = values[specials];
            check_net(&n, mr_emit(&n.s, names[i], bias(&n, conv(&n, n.x, 20), 20)), "_FusedConv2D");
        }
}

MR_TEST(fuse_conv_folds_constant_normalization_into_the_filter)
{
    net n;
    begin(&n, 4);
    check_net(&n, mr_emit(&n.s, "Relu6", norm(&n, conv(&n, n.x, 17), 17)), "_FusedConv2D");
    begin(&n, 4);
    check_net(&n, norm(&n, bias(&n, conv(&n, n.x, 17), 17), 17), "_FusedConv2D");
    begin(&n, 4);
    check_net(&n, mr_emit(&n.s, "Relu", norm(&n, depthwise(&n, n.x), 4)), "_FusedDepthwiseConv2dNative");
}

MR_TEST(fuse_conv_folds_products_and_sums_with_constant_vectors)
{
    net n;
    begin(&n, 4);
    mr_out y = mr_emit(&n.s, "Mul", conv(&n, n.x, 17), vector(&n, 17, 0));
    y = mr_emit(&n.s, "Sub", y, vector(&n, 17, 0));
    check_net(&n, mr_emit(&n.s, "AddV2", vector(&n, 17, 0), y), "_FusedConv2D");
    begin(&n, 4); /* not a difference the other way round */
    y = mr_emit(&n.s, "Sub", vector(&n, 17, 0), conv(&n, n.x, 17));
    check_net(&n, y, "Conv2D Sub");
}

MR_TEST(fuse_conv_passes_normalization_that_is_not_constant)
{
    net n;
    begin(&n, 4);
    mr_out scale = mr_emit(&n.s, "Sum", n.x, mr_const_vec_i32(&n.s, 3, (const int32_t[]){0, 1, 2}));
    check_net(&n, mr_emit(&n.s, "Relu", norm_with(&n, depthwise(&n, n.x), scale, 4, false)),
              "Sum _FusedDepthwiseConv2dNative");
}

MR_TEST(fuse_conv_takes_a_residual)
{
    net n;
    begin(&n, 4);
    mr_out y = mr_emit(&n.s, "AddV2", n.x, norm(&n, conv(&n, n.x, 4), 4));
    check_net(&n, mr_emit(&n.s, "Relu", y), "_FusedConv2D");
    begin(&n, 4); /* both sides are chains */
    y = mr_emit(&n.s, "Add", norm(&n, depthwise(&n, n.x), 4), norm(&n, conv(&n, n.x, 4), 4));
    check_net(&n, mr_emit(&n.s, "Relu", y), "_FusedDepthwiseConv2dNative _FusedConv2D");
}

static mr_out pointwise(net *n, mr_out x, int64_t in, int64_t out)
{
    return bias(n, conv_with(n, x, constant(n, 4, (const int64_t[]){1, 1, in, out}, -0.5f), "SAME"), out);
}

/* Nobody else reads the addend, so its memory may become the output: also if the sums are stored more than once, and
 * for channels that do not fill a vector. */
MR_TEST(fuse_conv_may_store_over_a_residual)
{
    static const int64_t sizes[][2] = {{12, 32}, {12, 37}, {2100, 32}, {4100, 45}};
    for (int i = 0; i < MR_COUNT(sizes); i++) {
        net n;
        begin(&n, 4);
        int64_t in = sizes[i][0], out = sizes[i][1];
        mr_out addend = pointwise(&n, n.x, 4, out);
        mr_out sums = pointwise(&n, pointwise(&n, n.x, 4, in), in, out);
        check_net(&n, mr_emit(&n.s, "Relu", mr_emit(&n.s, "Add", addend, sums)),
                  "_FusedConv2D _FusedConv2D _FusedConv2D");
    }
}

MR_TEST(fuse_conv_takes_a_zero_pad)
{
    net n;
    begin(&n, 4);
    mr_out filter = constant(&n, 4, (const int64_t[]){3, 3, 4, 17}, -0.5f);
    mr_out pads = paddings(&n, 0);
    check_net(&n, bias(&n, conv_with(&n, mr_emit(&n.s, "Pad", n.x, pads), filter, "VALID"), 17), "_FusedConv2D");
    begin(&n, 4);
    filter = constant(&n, 4, (const int64_t[]){3, 3, 4, 17}, -0.5f);
    pads = paddings(&n, 0);
    check_net(&n, conv_with(&n, mr_emit(&n.s, "PadV2", n.x, pads, mr_const_f32(&n.s, 0)), filter, "VALID"), "Conv2D");
}

MR_TEST(fuse_conv_takes_a_zero_pad_before_a_depthwise_convolution)
{
    net n;
    begin(&n, 4);
    mr_out y = norm(&n, depthwise_with(&n, mr_emit(&n.s, "Pad", n.x, paddings(&n, 0)), "VALID"), 4);
    check_net(&n, mr_emit(&n.s, "Relu6", y), "_FusedDepthwiseConv2dNative");
    begin(&n, 4); /* by the graph that defines the op: the addend broadcasts */
    y = norm(&n, depthwise_with(&n, mr_emit(&n.s, "Pad", n.x, paddings(&n, 0)), "VALID"), 4);
    y = mr_emit(&n.s, "AddV2", y, mr_emit(&n.s, "Reshape", mr_emit(&n.s, "Max", n.x, mr_const_vec_i32(&n.s, 4, (const int32_t[]){0, 1, 2, 3})),
                                          mr_const_vec_i32(&n.s, 4, (const int32_t[]){1, 1, 1, 1})));
    check_values(&n, &y, 1);
    end(&n);
}

MR_TEST(fuse_conv_leaves_a_pad_that_it_cannot_express)
{
    net n;
    for (int i = 0; i < 4; i++) {
        begin(&n, 4);
        mr_out filter = constant(&n, 4, (const int64_t[]){3, 3, 4, 4}, i == 3 ? INFINITY : -0.5f);
        mr_out pads = paddings(&n, i == 1);
        mr_out x = i == 2 ? mr_emit(&n.s, "PadV2", n.x, pads, mr_const_f32(&n.s, 1)) : mr_emit(&n.s, "Pad", n.x, pads);
        check_net(&n, conv_with(&n, x, filter, i == 0 ? "SAME" : "VALID"), i == 2 ? "PadV2 Conv2D" : "Pad Conv2D");
    }
}

MR_TEST(fuse_conv_takes_what_follows_a_product)
{
    for (int turned = 0; turned < 2; turned++) {
        net n;
        begin(&n, 2);
        mr_out w = constant(&n, 2, turned ? (const int64_t[]){33, 4} : (const int64_t[]){4, 33}, -0.5f);
        mr_out y = mr_emit_with(&n.s, "MatMul", MR_ATTRS({"transpose_b", mr_a_bool(turned)}), n.x, w);
        y = mr_emit(&n.s, "AddV2", mr_emit(&n.s, "Mul", y, vector(&n, 33, 0)), vector(&n, 33, 0));
        check_net(&n, mr_emit(&n.s, "Relu", y), "_FusedMatMul");
    }
}

MR_TEST(fuse_conv_with_a_sum_broadcasts_a_fed_vector_of_another_size)
{
    net n;
    begin(&n, 1);
    n.dims[0] = 4; /* what the graph says */
    n.x.node->out_shapes[0] = mr_pshape_of(&n.g->arena, 1, n.dims);
    mr_out w = constant(&n, 2, (const int64_t[]){3, 4}, 0), a = constant(&n, 2, (const int64_t[]){5, 3}, 0);
    mr_out y = mr_emit(&n.s, "Relu", mr_emit(&n.s, "AddV2", mr_emit(&n.s, "MatMul", a, w), n.x));
    n.dims[0] = 1; /* what is fed */
    check_values(&n, &y, 1);
    end(&n);
}

MR_TEST(fuse_conv_keeps_values_that_others_read)
{
    net n;
    begin(&n, 4);
    mr_out b = bias(&n, conv(&n, n.x, 17), 17), y[2] = {b, mr_emit(&n.s, "Relu", b)};
    mr_str text = ops_of(&n, y, 2);
    MR_CHECK_STR(mr_str_z(&text), "Relu _FusedConv2D");
    mr_str_deinit(&text);
    check_values(&n, y, 2);
    end(&n);
    begin(&n, 4);
    mr_out c = conv(&n, n.x, 17);
    y[0] = c;
    y[1] = bias(&n, c, 17);
    text = ops_of(&n, y, 2);
    MR_CHECK_STR(mr_str_z(&text), "Conv2D BiasAdd");
    mr_str_deinit(&text);
    check_values(&n, y, 2);
    end(&n);
}

MR_TEST(fuse_conv_keeps_a_node_that_others_wait_for)
{
    net n;
    begin(&n, 4);
    mr_out c = conv(&n, n.x, 17), y[2] = {bias(&n, c, 17), mr_emit(&n.s, "Neg", n.x)};
    mr_node_add_control(y[1].node, c.node);
    mr_str text = ops_of(&n, y, 2);
    MR_CHECK_STR(mr_str_z(&text), "Conv2D BiasAdd Neg");
    mr_str_deinit(&text);
    end(&n);
}

/* What waits for the last node waits for the fused one, and the fused node waits for what the single ones do. */
MR_TEST(fuse_conv_moves_control_edges)
{
    net n;
    begin(&n, 4);
    mr_out first = mr_emit(&n.s, "Neg", n.x), c = conv(&n, n.x, 17), b = bias(&n, c, 17);
    mr_out y[2] = {mr_emit(&n.s, "Relu", b), mr_emit(&n.s, "Exp", n.x)};
    mr_node_add_control(b.node, first.node);
    mr_node_add_control(y[1].node, y[0].node);
    mr_device *cpu;
    mr_graph *part = NULL;
    int found = 0;
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &cpu));
    MR_CHECK_OK(mr_prepare(n.g, &(mr_run_signature){.feeds = &n.x, .n_feeds = 1, .fetches = y, .n_fetches = 2},
                           &(mr_prepare_options){.devices = &cpu, .n_devices = 1}, &part));
    for (int i = 0; i < part->nodes.n; i++) {
        const mr_node *p = part->nodes.p[i];
        if (p && mr_node_is(p, "_FusedConv2D") && p->n_ctrl == 1)
            found += mr_node_is(p->ctrl[0], "Neg");
        if (p && mr_node_is(p, "Exp") && p->n_ctrl == 1)
            found += mr_node_is(p->ctrl[0], "_FusedConv2D");
    }
    MR_CHECK_INT(found, 2);
    mr_graph_unref(part);
    mr_device_free(cpu);
    end(&n);
}

MR_TEST(fuse_conv_leaves_what_it_does_not_know)
{
    net n;
    begin(&n, 4);
    check_net(&n, mr_emit(&n.s, "Exp", conv(&n, n.x, 17)), "Conv2D Exp");
    begin(&n, 4);
    check_net(&n, mr_emit(&n.s, "Relu", conv(&n, n.x, 17)), "Conv2D Relu"); /* 0 added to -0 would be 0 */
    begin(&n, 4);
    check_net(&n, norm_with(&n, conv(&n, n.x, 17), vector(&n, 17, 0.5f), 17, true), "Conv2D FusedBatchNormV3");
    begin(&n, 4);
    mr_out c = conv(&n, n.x, 17);
    check_net(&n, mr_emit(&n.s, "AddV2", c, c), "Conv2D AddV2");
}

/* scale / sqrt(variance) is infinite: the filter stays as it is. */
MR_TEST(fuse_conv_does_not_make_infinite_filters)
{
    net n;
    begin(&n, 4);
    mr_out zero = mr_emit(&n.s, "ZerosLike", vector(&n, 17, 0)), c = conv(&n, n.x, 17);
    mr_out y = mr_emit_with(&n.s, "FusedBatchNorm", MR_ATTRS({"is_training", mr_a_bool(false)}, {"epsilon", mr_a_float(0)}), c,
                            vector(&n, 17, 0.5f), vector(&n, 17, 0), vector(&n, 17, 0), zero);
    check_net(&n, y, "_FusedConv2D");
}

MR_TEST(fuse_conv_stays_on_one_device)
{
    net n;
    begin(&n, 4);
    mr_out c = conv(&n, n.x, 17), v = vector(&n, 17, 0);
    n.s.device = "/device:CPU:1";
    mr_out y = mr_emit(&n.s, "BiasAdd", c, v);
    mr_device *cpus[2];
    mr_graph *parts[2];
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &cpus[0]));
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:1", NULL, &cpus[1]));
    MR_CHECK_OK(mr_prepare(n.g, &(mr_run_signature){.feeds = &n.x, .n_feeds = 1, .fetches = &y, .n_fetches = 1},
                           &(mr_prepare_options){.devices = cpus, .n_devices = 2}, parts));
    for (int i = 0; i < 2; i++) {
        int found = 0;
        for (int k = 0; k < parts[i]->nodes.n; k++)
            found += parts[i]->nodes.p[k] && mr_node_is(parts[i]->nodes.p[k], i ? "BiasAdd" : "Conv2D");
        MR_CHECK_INT(found, 1);
        mr_graph_unref(parts[i]);
        mr_device_free(cpus[i]);
    }
    end(&n);
}
