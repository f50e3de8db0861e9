/* lenet.c -- trains a small convolutional network twice: on the CPU, and on devices of a library.
 *
 *     lenet LIBRARY [STEPS] [BATCH]
 *
 * The library is loaded between the two; from then on its device is there, and what it can run goes to it.  The losses of
 * both are printed side by side; they must agree, and kernels of the device must have run. */
#include <dlfcn.h>
#include <math.h>
#include <millrace/data.h>
#include <millrace/device.h>
#include <millrace/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

typedef struct network {
    TF_Graph *graph;
    TF_Output images, labels, loss;
    TF_Operation *train, *init;
} network;

static network build(void)
{
    network n = {.graph = TF_NewGraph()};
    mr_model *m = mr_model_new(n.graph);
    n.images = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    n.labels = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_max_pool(m, mr_conv2d(m, "conv1", n.images, 6, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_max_pool(m, mr_conv2d(m, "conv2", h, 16, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_dense(m, "fc1", mr_flatten(m, h), 120, MR_RELU);
    h = mr_dense(m, "fc2", h, 84, MR_RELU);
    n.loss = mr_softmax_loss(m, mr_dense(m, "fc3", h, 10, MR_LINEAR), n.labels);
    n.train = mr_minimize(m, n.loss, mr_sgd(0.05f));
    n.init = mr_initializer(m);
    mr_model_status(m, status);
    check("building the network");
    mr_model_free(m);
    return n;
}

static float step(TF_Session *s, const network *n, const mr_digits *d, int64_t number, int64_t batch)
{
    TF_Tensor *in[2], *out = NULL;
    mr_digits_batch(d, MR_SPLIT_TRAIN, 1, number * batch, batch, &in[0], &in[1], status);
    check("reading a batch");
    TF_Output feeds[] = {n->images, n->labels};
    const TF_Operation *targets[] = {n->train};
    TF_SessionRun(s, NULL, feeds, in, 2, &n->loss, &out, 1, targets, 1, NULL, status);
    check("training");
    float loss = *(float *)TF_TensorData(out);
    TF_DeleteTensor(out);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    return loss;
}

/* The device that operations go to where nothing else decides is the last. */
static void train(const mr_digits *d, int steps, int64_t batch, float *losses)
{
    network n = build();
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Session *s = TF_NewSession(n.graph, o, status);
    check("starting a session");
    TF_DeviceList *devices = TF_SessionListDevices(s, status);
    printf("training on %s\n", TF_DeviceListName(devices, TF_DeviceListCount(devices) - 1, status));
    TF_DeleteDeviceList(devices);
    const TF_Operation *init[] = {n.init};
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 1, NULL, status);
    check("initialising");
    for (int i = 0; i < steps; i++)
        losses[i] = step(s, &n, d, i, batch);
    TF_DeleteSession(s, status);
    TF_DeleteSessionOptions(o);
    TF_DeleteGraph(n.graph);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 200, bad = 0;
    int64_t batch = argc > 3 ? atoll(argv[3]) : 64;
    if (argc < 2 || steps < 1 || batch < 1) {
        fprintf(stderr, "usage: lenet LIBRARY [STEPS] [BATCH]\n");
        return 2;
    }
    status = TF_NewStatus();
    mr_digits *digits = mr_digits_open(NULL, status);
    check("drawing digits");
    float *cpu = calloc((size_t)steps, sizeof *cpu), *device = calloc((size_t)steps, sizeof *device);
    train(digits, steps, batch, cpu);
    TF_Library *library = TF_LoadLibrary(argv[1], status);
    check("loading the library");
    train(digits, steps, batch, device);
    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    long (*runs)(int) = NULL;
    void *found = handle ? dlsym(handle, "example_device_runs") : NULL;
    memcpy(&runs, &found, sizeof runs);
    printf("step  CPU       device\n");
    for (int i = 0; i < steps; i++) {
        if (i % (steps / 10 + 1) == 0 || i == steps - 1)
            printf("%4d  %.6f  %.6f\n", i, cpu[i], device[i]);
        bad += !(fabsf(cpu[i] - device[i]) <= 1e-4f * (1 + (float)i)); /* rounding grows from step to step */
    }
    printf("%ld operations ran with kernels of the device, %ld with borrowed ones\n", runs ? runs(1) : 0, runs ? runs(0) : 0);
    bad += !runs || runs(1) < steps * 10L || runs(0) < 1;
    puts(bad ? "FAILED" : "equal");
    TF_DeleteLibraryHandle(library);
    mr_digits_free(digits);
    TF_DeleteStatus(status);
    free(cpu);
    free(device);
    return bad != 0;
}
