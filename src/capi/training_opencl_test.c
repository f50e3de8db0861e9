/* capi/training_opencl_test.c -- networks trained wholly on an OpenCL device learn what they learn on the CPU. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "exec/opencl/opencl_fixture.h"
#include "train/nn.h"
#include "train/saver.h"

enum { BATCH = 24, SIDE = 28, CLASSES = 10, STEPS = 30 };

typedef struct trial {
    gpu_fixture gpu, cpu; /* the same graph, with and without the device */
    mr_nn *n;
    mr_out images, labels, loss, accuracy;
    mr_node *train, *init;
    mr_tensor *feeds[2];
} trial;

typedef mr_out network_fn(mr_nn *n, mr_out images);

static mr_out lenet(mr_nn *n, mr_out x)
{
    x = mr_nn_pool(n, "MaxPool", mr_nn_conv2d(n, "conv1", x, 20, 5, 1, "SAME", MR_NN_RELU), 2, 2, "SAME");
    x = mr_nn_pool(n, "MaxPool", mr_nn_conv2d(n, "conv2", x, 50, 5, 1, "SAME", MR_NN_RELU), 2, 2, "SAME");
    x = mr_nn_dense(n, "fc1", mr_nn_flatten(n, x), 100, MR_NN_RELU);
    return mr_nn_dense(n, "fc2", x, CLASSES, MR_NN_LINEAR);
}

static mr_out mlp(mr_nn *n, mr_out x)
{
    x = mr_nn_dense(n, "fc1", mr_nn_flatten(n, x), 64, MR_NN_RELU);
    x = mr_nn_dense(n, "fc2", x, 32, MR_NN_TANH);
    return mr_nn_dense(n, "fc3", x, CLASSES, MR_NN_LINEAR);
}

static void begin(trial *t, network_fn *build, mr_nn_optimizer o)
{
    gpu_begin(&t->gpu);
    mr_nn *n = t->n = mr_nn_new(t->gpu.g);
    t->images = mr_nn_input(n, "images", MR_FLOAT, 4, (int64_t[]){-1, SIDE, SIDE, 1});
    t->labels = mr_nn_input(n, "labels", MR_INT32, 1, (int64_t[]){-1});
    mr_out logits = build(n, t->images);
    t->loss = mr_nn_softmax_loss(n, logits, t->labels);
    t->accuracy = mr_nn_accuracy(n, logits, t->labels);
    t->train = mr_nn_minimize(n, t->loss, &o);
    t->init = mr_nn_initializer(n);
    MR_CHECK_OK(mr_scope_status(&n->s));
    t->gpu.config = (mr_session_config){.soft_placement = true};
    t->cpu = (gpu_fixture){.g = t->gpu.g, .config = {.n_counts = 1, .counts = {{"GPU", 0}}}};
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 4, (int64_t[]){BATCH, SIDE, SIDE, 1}, &t->feeds[0]));
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT32, 1, (int64_t[]){BATCH}, &t->feeds[1]));
}

static void end(trial *t)
{
    mr_tensor_unref(t->feeds[0]);
    mr_tensor_unref(t->feeds[1]);
    mr_nn_free(t->n);
    mr_session_free(t->cpu.session);
    mr_str_deinit(&t->cpu.metadata);
    gpu_end(&t->gpu);
}

/* A class is where most of the light falls; the rest is noise that the seed decides. */
static void next_batch(trial *t, uint64_t *seed)
{
    for (int i = 0; i < BATCH; i++) {
        int class = (int)((*seed >> 33) % CLASSES);
        MR_DATA(int32_t, t->feeds[1])[i] = class;
        for (int p = 0; p < SIDE * SIDE; p++) {
            *seed = *seed * 6364136223846793005u + 1442695040888963407u;
            float noise = (float)(*seed >> 40) / (float)(1 << 24);
            MR_DATA(float, t->feeds[0])[i * SIDE * SIDE + p] = 0.5f * noise + (p * CLASSES / (SIDE * SIDE) == class);
        }
    }
}

static void initialise(trial *t, gpu_fixture *r)
{
    MR_CHECK_OK(gpu_run(r, &(mr_run_args){.targets = &t->init, .n_targets = 1}));
}

/* One step; the loss and the accuracy before it. */
static void step(trial *t, gpu_fixture *r, float out[2])
{
    mr_tensor *got[2];
    mr_out feeds[] = {t->images, t->labels}, fetches[] = {t->loss, t->accuracy};
    mr_run_args a = {feeds, fetches, t->feeds, got, &t->train, 2, 2, 1};
    MR_CHECK_OK(gpu_run(r, &a));
    for (int i = 0; i < 2; i++) {
        out[i] = *MR_DATA(float, got[i]);
        mr_tensor_unref(got[i]);
    }
}

/* ---- where it ran ---- */

typedef struct census {
    int on_gpu, elsewhere;
} census;

/* Nodes that bring values to and from the client are where the client is. */
static bool is_at_the_edge(const char *label)
{
    return strstr(label, " = _Arg(") || strstr(label, " = _Recv(") || strstr(label, " = _Send(") ||
           strstr(label, " = _Retval(");
}

/* A control edge between devices travels as a tensor without elements. */
static bool is_float(const Tensorflow__TensorDescription *t)
{
    bool floats = mr_dtype_base((int)t->dtype) == MR_FLOAT;
    for (size_t i = 0; t->shape && i < t->shape->n_dim; i++)
        floats &= t->shape->dim[i]->size != 0;
    return floats;
}

static void count(void *ctx, const char *device, const Tensorflow__NodeExecStats *n)
{
    census *c = ctx;
    bool floats = false;
    for (size_t i = 0; i < n->n_output; i++)
        floats |= is_float(n->output[i]->tensor_description);
    if (!floats || is_at_the_edge(n->timeline_label))
        return;
    c->on_gpu += strstr(device, "GPU:0") != NULL;
    if (!strstr(device, "GPU:0")) {
        fprintf(stderr, "%s ran on %s\n", n->timeline_label, device);
        c->elsewhere++;
    }
}

static void check_same(network_fn *build, mr_nn_optimizer o, int steps)
{
    trial t;
    uint64_t seed = 1;
    census c = {0};
    float gpu[2], cpu[2], first = 0;
    begin(&t, build, o);
    initialise(&t, &t.gpu);
    initialise(&t, &t.cpu);
    for (int i = 0; i < steps; i++) {
        next_batch(&t, &seed);
        t.gpu.traced = i == steps - 1; /* the others do not wait for each kernel */
        step(&t, &t.gpu, gpu);
        step(&t, &t.cpu, cpu);
        first = i == 0 ? cpu[0] : first;
        MR_CHECK_NEAR(gpu[0], cpu[0], 1e-4);
        MR_CHECK_NEAR(gpu[1], cpu[1], 0.1);
    }
    MR_CHECK(cpu[0] < 0.8f * first); /* it learnt something */
    gpu_each_node(&t.gpu, count, &c);
    MR_CHECK_INT(c.elsewhere, 0);
    MR_CHECK(c.on_gpu > 30);
    end(&t);
}

MR_TEST(opencl_lenet_trains_as_on_the_cpu) { check_same(lenet, (mr_nn_optimizer){MR_NN_SGD, .rate = 0.003f}, STEPS); }

MR_TEST(opencl_mlp_trains_as_on_the_cpu_with_every_optimizer)
{
    check_same(mlp, (mr_nn_optimizer){MR_NN_SGD, .rate = 0.05f}, STEPS);
    check_same(mlp, (mr_nn_optimizer){MR_NN_MOMENTUM, .rate = 0.01f, .a = 0.9f}, STEPS);
    check_same(mlp, (mr_nn_optimizer){MR_NN_NESTEROV, .rate = 0.01f, .a = 0.9f}, STEPS);
    check_same(mlp, (mr_nn_optimizer){MR_NN_ADAGRAD, .rate = 0.01f, .a = 0.1f}, STEPS);
    check_same(mlp, (mr_nn_optimizer){MR_NN_RMSPROP, .rate = 0.005f, .a = 0.9f, .epsilon = 1e-4f}, STEPS);
    check_same(mlp, (mr_nn_optimizer){MR_NN_ADAM, .rate = 0.001f, .a = 0.9f, .b = 0.999f, .epsilon = 1e-4f}, STEPS);
}

/* ---- memory ---- */

MR_TEST(opencl_memory_stays_flat_over_1000_steps)
{
    trial t;
    uint64_t seed = 1;
    float figures[2];
    mr_opencl *const *devices;
    mr_allocator_stats early, late;
    begin(&t, mlp, (mr_nn_optimizer){MR_NN_MOMENTUM, .rate = 0.01f, .a = 0.9f});
    MR_CHECK(mr_opencl_devices(&devices) > 0);
    mr_allocator *a = mr_opencl_allocator(devices[0]->memory);
    initialise(&t, &t.gpu);
    next_batch(&t, &seed);
    for (int i = 0; i < 1000; i++) {
        step(&t, &t.gpu, figures);
        if (i == 20)
            mr_allocator_get_stats(a, &early);
    }
    mr_allocator_get_stats(a, &late);
    MR_CHECK_INT(late.in_use, early.in_use);
    MR_CHECK(late.peak <= early.peak + (early.peak >> 2));
    end(&t);
    mr_allocator_get_stats(a, &late);
    MR_CHECK_INT(late.in_use, 0);
}

/* ---- checkpoints ---- */

MR_TEST(opencl_variables_are_saved_and_restored)
{
    trial t;
    uint64_t seed = 1, same = 7;
    float before[2], after[2];
    begin(&t, mlp, (mr_nn_optimizer){MR_NN_MOMENTUM, .rate = 0.05f, .a = 0.9f});
    mr_nn_saver *saver = mr_nn_saver_new(t.n, 3);
    char *prefix = mr_printf("%s/model", mr_test_dir()), *path = mr_printf("%s-5", prefix);
    initialise(&t, &t.gpu);
    initialise(&t, &t.cpu);
    for (int i = 0; i < 5; i++) {
        next_batch(&t, &seed);
        step(&t, &t.gpu, before);
    }
    MR_CHECK_OK(mr_nn_save(saver, t.gpu.session, prefix, 5));
    MR_CHECK_OK(mr_nn_restore(saver, t.cpu.session, path));
    next_batch(&t, &same);
    step(&t, &t.gpu, before);
    step(&t, &t.cpu, after);
    MR_CHECK_NEAR(after[0], before[0], 1e-5);
    step(&t, &t.gpu, before); /* on, and back to where it was saved */
    MR_CHECK_OK(mr_nn_restore(saver, t.gpu.session, path));
    MR_CHECK_OK(mr_nn_restore(saver, t.cpu.session, path));
    step(&t, &t.gpu, before);
    step(&t, &t.cpu, after);
    MR_CHECK_NEAR(after[0], before[0], 1e-5);
    mr_free(prefix);
    mr_free(path);
    mr_nn_saver_free(saver);
    end(&t);
}
