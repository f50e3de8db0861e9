/* mnist.c -- trains a small convolutional network on handwritten digits, from C.
 *
 *     mnist [option value]...                (--help)
 *
 * Two convolutions, two dense layers, Adam.  Every epoch ends with a checkpoint; started again after Ctrl-C, a
 * crash or kill -9, training goes on where the newest checkpoint left it. */
#include <millrace/data.h>
#include <millrace/progress.h>
#include <millrace/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

typedef struct network {
    TF_Output images, labels, drop, loss, accuracy, step;
    TF_Operation *train, *init;
    mr_saver *saver;
} network;

static network build(TF_Graph *graph, int64_t steps)
{
    network n;
    mr_model *m = mr_model_new(graph);
    n.images = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    n.labels = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    n.drop = mr_setting(m, "drop", 0);
    TF_Output h = mr_max_pool(m, mr_conv2d(m, "conv1", n.images, 20, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_max_pool(m, mr_conv2d(m, "conv2", h, 50, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_dense(m, "fc1", mr_flatten(m, h), 256, MR_RELU);
    TF_Output logits = mr_dense(m, "fc2", mr_dropout(m, h, n.drop), 10, MR_LINEAR);
    n.loss = mr_softmax_loss(m, logits, n.labels);
    n.accuracy = mr_accuracy(m, logits, n.labels);
    mr_optimizer adam = mr_adam(0.001f);
    adam.schedule = mr_polynomial_decay(m, 0.0015f, steps, 0.00005f, 1);
    n.train = mr_minimize(m, n.loss, adam);
    n.step = mr_global_step(m);
    n.saver = mr_saver_new(m, 3);
    n.init = mr_initializer(m);
    mr_model_status(m, status);
    check("building the network");
    mr_model_free(m);
    return n;
}

/* One run on a batch: the mean loss and accuracy; with `train` the variables move. */
static void run_batch(TF_Session *s, const network *n, const mr_digits *d, mr_split split, uint64_t seed, int64_t first,
                      int64_t size, float figures[2])
{
    TF_Tensor *in[3], *out[2];
    int training = split == MR_SPLIT_TRAIN;
    mr_digits_batch(d, split, seed, first, size, &in[0], &in[1], status);
    check("reading a batch");
    in[2] = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
    *(float *)TF_TensorData(in[2]) = training ? 0.4f : 0;
    TF_Output feeds[] = {n->images, n->labels, n->drop}, fetches[] = {n->loss, n->accuracy};
    const TF_Operation *targets[] = {n->train};
    TF_SessionRun(s, NULL, feeds, in, 3, fetches, out, 2, targets, training, NULL, status);
    check(training ? "training" : "testing");
    for (int i = 0; i < 2; i++) {
        figures[i] = *(float *)TF_TensorData(out[i]);
        TF_DeleteTensor(out[i]);
    }
    for (int i = 0; i < 3; i++)
        TF_DeleteTensor(in[i]);
}

static int64_t current_step(TF_Session *s, const network *n)
{
    TF_Tensor *t = NULL;
    TF_SessionRun(s, NULL, NULL, NULL, 0, &n->step, &t, 1, NULL, 0, NULL, status);
    check("reading the step");
    int64_t step = *(int64_t *)TF_TensorData(t);
    TF_DeleteTensor(t);
    return step;
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "cpu": whatever else there is (device_count of the ConfigProto: no GPU); "gpu": one must be there. */
static TF_Session *open_session(TF_Graph *graph, const char *device)
{
    static const char no_gpu[] = {0x0a, 7, 0x0a, 3, 'G', 'P', 'U', 0x10, 0};
    TF_SessionOptions *options = TF_NewSessionOptions();
    if (strcmp(device, "cpu") == 0)
        TF_SetConfig(options, no_gpu, sizeof no_gpu, status);
    TF_Session *session = TF_NewSession(graph, options, status);
    check("starting a session");
    TF_DeviceList *devices = TF_SessionListDevices(session, status);
    check("looking for devices");
    int found = strcmp(device, "gpu") != 0;
    for (int i = 0; i < TF_DeviceListCount(devices); i++)
        found |= strcmp(TF_DeviceListType(devices, i, status), "GPU") == 0;
    TF_DeleteDeviceList(devices);
    TF_DeleteSessionOptions(options);
    if (!found) {
        fprintf(stderr, "there is no GPU (docs/opencl.md)\n");
        exit(1);
    }
    return session;
}

static option options[] = {
    DIGITS_OPTION,
    {"--epochs", "N", "3", "times that all digits are seen"},
    {"--batch", "N", "100", "digits of a step"},
    {"--checkpoints", "FOLDER", "build/mnist-checkpoints", "for a checkpoint an epoch; training goes on from the newest"},
    {"--device", "KIND", "", "cpu or gpu; else whatever suits each operation"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "mnist: trains a convolutional network on handwritten digits.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    int64_t epochs = integer("--epochs", 0), batch = integer("--batch", 1);
    const char *folder = said("--checkpoints");
    status = TF_NewStatus();
    mr_digits *digits = mr_digits_open(digits_folder(), status);
    check("reading the digits");
    int64_t per_epoch = mr_digits_count(digits, MR_SPLIT_TRAIN) / batch, total = epochs * per_epoch;
    TF_Graph *graph = TF_NewGraph();
    network net = build(graph, total);
    TF_Session *session = open_session(graph, said("--device"));
    const TF_Operation *init[] = {net.init};
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 1, NULL, status);
    check("initialising");
    char prefix[4096];
    snprintf(prefix, sizeof prefix, "%s/model", folder);
    if (mr_saver_restore_latest(net.saver, session, folder, status))
        printf("going on from step %lld\n", (long long)current_step(session, &net));
    check("restoring");
    float figures[2], loss = 0, accuracy = 0; /* the last two smoothed over some fifty batches */
    int64_t step = current_step(session, &net), start = step;
    double began = seconds();
    mr_progress *bar = mr_progress_new(stdout, "training", step, total);
    while (step < total) {
        run_batch(session, &net, digits, MR_SPLIT_TRAIN, 1 + (uint64_t)(step / per_epoch), step % per_epoch * batch,
                  batch, figures);
        float keep = loss == 0 ? 0 : 0.98f;
        loss = keep * loss + (1 - keep) * figures[0];
        accuracy = keep * accuracy + (1 - keep) * figures[1];
        step++;
        mr_progress_update(bar, step, "loss %.4f  accuracy %.2f %%  %.0f images/s", loss, 100 * accuracy,
                           (double)((step - start) * batch) / (seconds() - began));
        if (step % per_epoch == 0) {
            mr_saver_save(net.saver, session, prefix, step, status);
            check("saving");
        }
    }
    mr_progress_end(bar);
    double hits = 0, n_test = (double)mr_digits_count(digits, MR_SPLIT_TEST);
    for (int64_t i = 0; i < (int64_t)n_test; i += 500) {
        run_batch(session, &net, digits, MR_SPLIT_TEST, 0, i, 500, figures);
        hits += 500 * figures[1];
    }
    printf("test accuracy %.1f %% (%s)\n", 100 * hits / n_test, mr_digits_name(digits));
    return 0;
}
