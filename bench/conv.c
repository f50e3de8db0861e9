/* bench/conv.c -- convolutions and the ops around them in a network, on one thread.
 *
 * Prints `name value unit` lines: GFLOP/s of the passes of convolutions, milliseconds of the other
 * ops. The best of several rounds by the CPU time of the process: others use the machine too.  An
 * argument restricts it to names that contain it, a second one is the number of threads (then wall
 * time counts). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "run/run.h"

enum { ROUNDS = 9, MAX_IN = 8 };

static const char *only = "";
static int n_threads = 1;

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(n_threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one node, run again and again ---- */

typedef struct subject {
    mr_graph *graph;
    mr_scope scope;
    mr_pool *pool;
    mr_device *device;
    mr_node *node;
    mr_instance *kernel;
    int n_in;
    mr_tensor *in[MAX_IN];
} subject;

static mr_tensor *image(int64_t a, int64_t b, int64_t c, int64_t d)
{
    mr_tensor *t;
    must(mr_tensor_new(NULL, MR_FLOAT, 4, (const int64_t[]){a, b, c, d}, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(float, t)[i] = (float)(i * 7919 % 1009) / 1009.0f - 0.4f;
    return t;
}

static mr_tensor *sizes(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return mr_tensor_vector_i32(4,
                                (const int32_t[]){(int32_t)a, (int32_t)b, (int32_t)c, (int32_t)d});
}

static void subject_init(subject *s, const char *op, const mr_named_attr *attrs, int n_attrs)
{
    mr_out in[MAX_IN];
    mr_scope_init(&s->scope, s->graph = mr_graph_new(), "");
    for (int i = 0; i < s->n_in; i++)
        in[i] = mr_placeholder(&s->scope, (mr_dtype)s->in[i]->dtype, "in", NULL);
    s->node = mr_emit_n(&s->scope, op, attrs, n_attrs, in, s->n_in).node;
    must(mr_scope_status(&s->scope));
    must(mr_pool_new("bench", n_threads, &s->pool));
    must(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", s->pool, &s->device));
    must(mr_instance_new(&(mr_make){s->node, NULL, s->device, s->graph->library}, &s->kernel));
}

static void subject_deinit(subject *s)
{
    mr_instance_unref(s->kernel);
    mr_device_free(s->device);
    mr_pool_free(s->pool);
    mr_scope_deinit(&s->scope);
    mr_graph_unref(s->graph);
    for (int i = 0; i < s->n_in; i++)
        mr_tensor_unref(s->in[i]);
}

static void run_once(subject *s)
{
    mr_value in[MAX_IN], out[MAX_IN] = {{.kind = MR_ABSENT}};
    mr_step step = {.device = s->device};
    mr_run r = {.node = s->node,
                .kernel = s->kernel->kernel,
                .state = s->kernel->state,
                .n_in = s->n_in,
                .n_out = s->node->n_out,
                .in = in,
                .out = out,
                .step = &step};
    for (int i = 0; i < s->n_in; i++)
        in[i] = (mr_value){.t = mr_tensor_ref(s->in[i]), .kind = MR_LIVE};
    must(r.kernel->run(&r));
    for (int i = 0; i < r.n_in; i++)
        mr_value_drop(&in[i]);
    for (int i = 0; i < r.n_out; i++)
        mr_value_drop(&out[i]);
}

/* Seconds of a run. */
static double measure(subject *s, const char *op, const mr_named_attr *attrs, int n_attrs)
{
    double best = 1e9;
    subject_init(s, op, attrs, n_attrs);
    for (int i = 0; i < ROUNDS + 2; i++) {
        double begin = now();
        run_once(s);
        if (i >= 2) /* the first rounds generate code and touch memory */
            best = MR_MIN(best, now() - begin);
    }
    subject_deinit(s);
    return best;
}

/* ---- convolutions ---- */

typedef struct conv {
    const char *name;
    int64_t batch, in_size, in, out, kernel, stride;
    const char *padding;
} conv;

static const conv convs[] = {
    {"lenet1", 128, 28, 1, 32, 5, 1, "SAME"},
    {"lenet2", 128, 14, 32, 64, 5, 1, "SAME"},
    {"lenet1_valid", 128, 28, 1, 20, 5, 1, "VALID"},
    {"lenet2_valid", 128, 12, 20, 50, 5, 1, "VALID"},
    {"resnet_first", 32, 32, 3, 16, 3, 1, "SAME"},
    {"resnet_16", 32, 32, 16, 16, 3, 1, "SAME"},
    {"resnet_32", 32, 16, 32, 32, 3, 1, "SAME"},
    {"resnet_64", 32, 8, 64, 64, 3, 1, "SAME"},
    {"resnet_down", 32, 16, 32, 64, 3, 2, "SAME"},
    {"imagenet_first", 4, 224, 3, 64, 7, 2, "SAME"},
    {"imagenet_mid", 8, 14, 256, 256, 3, 1, "SAME"},
    {"lenet2_b1", 1, 14, 32, 64, 5, 1, "SAME"},
    {"imagenet_mid_b1", 1, 14, 256, 256, 3, 1, "SAME"},
    {"pointwise", 8, 28, 128, 128, 1, 1, "SAME"},
};

static void bench_conv(const conv *c)
{
    static const char *const ops[] = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"};
    static const char *const passes[] = {"fwd", "input", "filter"};
    int64_t size, before, after, strides[4] = {1, c->stride, c->stride, 1};
    must(mr_window_size(c->in_size, c->kernel, 1, c->stride,
                        *c->padding == 'S' ? MR_PAD_SAME : MR_PAD_VALID, &before, &after, &size));
    double flops =
        2.0 * (double)(c->batch * size * size * c->kernel * c->kernel) * (double)(c->in * c->out);
    for (int pass = 0; pass < (c->batch == 1 ? 1 : 3); pass++) {
        char name[64];
        snprintf(name, sizeof name, "conv_%s_%s_gflops", c->name, passes[pass]);
        if (!strstr(name, only))
            continue;
        int64_t n = c->batch, hw = c->in_size, k = c->kernel;
        subject s = {.n_in = pass == 0 ? 2 : 3};
        s.in[0] = pass == 1 ? sizes(n, hw, hw, c->in) : image(n, hw, hw, c->in);
        s.in[1] = pass == 2 ? sizes(k, k, c->in, c->out) : image(k, k, c->in, c->out);
        s.in[1]->readonly = c->batch == 1; /* single images are for inference: constants */
        s.in[2] = pass == 0 ? NULL : image(n, size, size, c->out);
        double t = measure(
            &s, ops[pass],
            MR_ATTRS({"strides", mr_a_ints(4, strides)}, {"padding", mr_a_str(c->padding)}));
        printf("%s %.1f GFLOP/s (%.2f ms)\n", name, flops / t * 1e-9, t * 1e3);
        fflush(stdout);
    }
}

/* ---- the others ---- */

static void report(const char *name, subject *s, const char *op, const mr_named_attr *attrs,
                   int n_attrs)
{
    if (strstr(name, only))
        printf("%s %.3f ms\n", name, measure(s, op, attrs, n_attrs) * 1e3);
}

static mr_tensor *vector(int64_t n)
{
    mr_tensor *t = image(n, 1, 1, 1), *v;
    must(mr_tensor_view(t, MR_FLOAT, 1, &n, &v));
    mr_tensor_unref(t);
    return v;
}

static mr_tensor *matrix(int64_t rows, int64_t cols)
{
    mr_tensor *t = image(rows, cols, 1, 1), *v;
    must(mr_tensor_view(t, MR_FLOAT, 2, (const int64_t[]){rows, cols}, &v));
    mr_tensor_unref(t);
    return v;
}

static mr_tensor *input(int64_t n, int64_t size, int64_t channels)
{
    return image(n, size, size, channels);
}

/* A pool with a stride of 2 over n images, and its gradient. */
static void bench_pool(const char *op, int64_t window, int64_t n, int64_t size, int64_t channels)
{
    const int64_t strides[4] = {1, 2, 2, 1}, ksize[4] = {1, window, window, 1};
    char name[64], grad[64];
    bool is_max = op[0] == 'M';
    snprintf(name, sizeof name, "%s_%d_ms", op, (int)window);
    report(name, &(subject){.n_in = 1, .in = {input(n, size, channels)}}, op,
           MR_ATTRS({"ksize", mr_a_ints(4, ksize)}, {"strides", mr_a_ints(4, strides)},
                    {"padding", mr_a_str("SAME")}));
    snprintf(name, sizeof name, "%sGrad_%d_ms", op, (int)window);
    snprintf(grad, sizeof grad, "%sGrad", op);
    mr_tensor *g = input(n, size / 2, channels);
    subject s = {.n_in = 3, .in = {input(n, size, channels), mr_tensor_ref(g), g}};
    if (!is_max)
        s = (subject){.n_in = 2, .in = {sizes(n, size, size, channels), g}};
    report(name, &s, grad,
           MR_ATTRS({"ksize", mr_a_ints(4, ksize)}, {"strides", mr_a_ints(4, strides)},
                    {"padding", mr_a_str("SAME")}));
}

static void bench_rest(void)
{
    report("bias_add_ms", &(subject){.n_in = 2, .in = {image(128, 28, 28, 32), vector(32)}},
           "BiasAdd", NULL, 0);
    report("bias_add_grad_ms", &(subject){.n_in = 1, .in = {image(128, 28, 28, 32)}}, "BiasAddGrad",
           NULL, 0);
    report("bias_add_grad_20_ms", &(subject){.n_in = 1, .in = {image(128, 28, 28, 20)}},
           "BiasAddGrad", NULL, 0);
    report("relu_ms", &(subject){.n_in = 1, .in = {image(128, 28, 28, 32)}}, "Relu", NULL, 0);
    report("relu_grad_ms",
           &(subject){.n_in = 2, .in = {image(128, 28, 28, 32), image(128, 28, 28, 32)}},
           "ReluGrad", NULL, 0);
    report("softmax_10_ms", &(subject){.n_in = 1, .in = {matrix(128, 10)}}, "Softmax", NULL, 0);
    report("softmax_40000_ms", &(subject){.n_in = 1, .in = {matrix(128, 40000)}}, "Softmax", NULL,
           0);
    report("xent_10_ms", &(subject){.n_in = 2, .in = {matrix(128, 10), matrix(128, 10)}},
           "SoftmaxCrossEntropyWithLogits", NULL, 0);
    report("xent_40000_ms", &(subject){.n_in = 2, .in = {matrix(128, 40000), matrix(128, 40000)}},
           "SoftmaxCrossEntropyWithLogits", NULL, 0);
}

static void bench_norm(void)
{
    report("batch_norm_ms",
           &(subject){.n_in = 5,
                      .in = {input(32, 32, 16), vector(16), vector(16), vector(0), vector(0)}},
           "FusedBatchNormV3", NULL, 0);
    report("batch_norm_grad_ms",
           &(subject){.n_in = 6,
                      .in = {input(32, 32, 16), input(32, 32, 16), vector(16), vector(16),
                             vector(16), vector(0)}},
           "FusedBatchNormGradV3", NULL, 0);
    report("lrn_ms", &(subject){.n_in = 1, .in = {input(32, 28, 96)}}, "LRN", NULL, 0);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : "";
    n_threads = argc > 2 ? atoi(argv[2]) : 1;
    mr_ops_register();
    for (int i = 0; i < MR_COUNT(convs); i++)
        bench_conv(&convs[i]);
    bench_rest();
    bench_norm();
    bench_pool("MaxPool", 2, 128, 28, 32);
    bench_pool("MaxPool", 3, 32, 56, 64);
    bench_pool("AvgPool", 2, 128, 28, 32);
    bench_pool("AvgPool", 3, 32, 56, 64);
    return 0;
}
