/* towers.c -- one network on many devices of one process: in-graph replication.
 *
 *     towers [option value]...                (--help)
 *
 * Every batch is split; each tower computes the gradients of its part on its own device, with the same variables,
 * which live on CPU:0; their mean updates the variables once. */
#include <millrace/cluster.h>
#include <millrace/data.h>
#include <millrace/progress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { MAX_TOWERS = 64 };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

typedef struct network {
    TF_Output images, labels, accuracy, loss; /* the last two of the first tower */
    TF_Operation *train, *init;
} network;

/* x cut into n parts along its first dimension: outputs 0 .. n-1 of the operation. */
static TF_Operation *split(TF_Graph *graph, const char *name, TF_Output x, int n)
{
    char axis_name[64];
    snprintf(axis_name, sizeof axis_name, "%s/axis", name);
    TF_Tensor *axis = TF_AllocateTensor(TF_INT32, NULL, 0, sizeof(int32_t));
    *(int32_t *)TF_TensorData(axis) = 0;
    TF_OperationDescription *d = TF_NewOperation(graph, "Const", axis_name);
    TF_SetAttrTensor(d, "value", axis, status);
    TF_SetAttrType(d, "dtype", TF_INT32);
    TF_Operation *c = TF_FinishOperation(d, status);
    check("adding a constant");
    TF_DeleteTensor(axis);
    d = TF_NewOperation(graph, "Split", name);
    TF_AddInput(d, (TF_Output){c, 0});
    TF_AddInput(d, x);
    TF_SetAttrInt(d, "num_split", n);
    TF_Operation *op = TF_FinishOperation(d, status);
    check("splitting the batch");
    return op;
}

/* The loss of one part of the batch, and how much of it is right. */
static TF_Output tower(mr_model *m, TF_Output images, TF_Output labels, TF_Output *accuracy)
{
    TF_Output h = mr_max_pool(m, mr_conv2d(m, "conv1", images, 20, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_max_pool(m, mr_conv2d(m, "conv2", h, 50, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_dense(m, "fc1", mr_flatten(m, h), 256, MR_RELU);
    TF_Output logits = mr_dense(m, "fc2", h, 10, MR_LINEAR);
    *accuracy = mr_accuracy(m, logits, labels);
    return mr_softmax_loss(m, logits, labels);
}

static network build(TF_Graph *graph, int n_towers, int64_t steps)
{
    network n;
    TF_Output losses[MAX_TOWERS], accuracy;
    mr_model *m = mr_model_new(graph);
    n.images = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    n.labels = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Operation *images = split(graph, "images_parts", n.images, n_towers);
    TF_Operation *labels = split(graph, "labels_parts", n.labels, n_towers);
    mr_replicate_on(m, "localhost", 1, "", MR_BY_TURNS); /* variables: /job:localhost/task:0, that is its CPU:0 */
    for (int i = 0; i < n_towers; i++) {
        char device[32];
        snprintf(device, sizeof device, "/cpu:%d", i);
        mr_model_device(m, device);
        losses[i] = tower(m, (TF_Output){images, i}, (TF_Output){labels, i}, i ? &accuracy : &n.accuracy);
        mr_model_reuse(m, 1);
    }
    n.loss = losses[0];
    mr_model_device(m, "/cpu:0");
    mr_optimizer adam = mr_adam(0.001f);
    adam.schedule = mr_polynomial_decay(m, 0.0015f, steps, 0.00005f, 1);
    n.train = mr_minimize_towers(m, losses, n_towers, adam);
    n.init = mr_initializer(m);
    mr_model_status(m, status);
    check("building the network");
    mr_model_free(m);
    return n;
}

static void run_batch(TF_Session *s, const network *n, const mr_digits *d, mr_split part, uint64_t seed, int64_t first,
                      int64_t size, float figures[2])
{
    TF_Tensor *in[2], *out[2];
    mr_digits_batch(d, part, seed, first, size, &in[0], &in[1], status);
    check("reading a batch");
    TF_Output feeds[] = {n->images, n->labels}, fetches[] = {n->loss, n->accuracy};
    const TF_Operation *targets[] = {n->train};
    TF_SessionRun(s, NULL, feeds, in, 2, fetches, out, 2, targets, part == MR_SPLIT_TRAIN, NULL, status);
    check(part == MR_SPLIT_TRAIN ? "training" : "testing");
    for (int i = 0; i < 2; i++) {
        figures[i] = *(float *)TF_TensorData(out[i]);
        TF_DeleteTensor(out[i]);
        TF_DeleteTensor(in[i]);
    }
}

/* A session with n CPU devices: ConfigProto { device_count { "CPU": n } }. */
static TF_Session *session_with(TF_Graph *graph, int n)
{
    const unsigned char config[] = {0x0a, 7, 0x0a, 3, 'C', 'P', 'U', 0x10, (unsigned char)n};
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, status);
    TF_Session *s = TF_NewSession(graph, o, status);
    check("starting a session");
    TF_DeleteSessionOptions(o);
    return s;
}

static option options[] = {
    DIGITS_OPTION,
    {"--epochs", "N", "3", "times that all digits are seen"},
    {"--batch", "N", "100", "digits of a step, of all towers"},
    {"--towers", "N", "2", "devices, each with a copy of the network"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "towers: one network on many devices of one process; the mean of their gradients updates the variables once.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    int64_t epochs = integer("--epochs", 0), batch = integer("--batch", 1);
    int n_towers = (int)integer("--towers", 1);
    status = TF_NewStatus();
    mr_digits *digits = mr_digits_open(digits_folder(), status);
    check("reading the digits");
    int64_t n_train = mr_digits_count(digits, MR_SPLIT_TRAIN);
    if (n_towers > MAX_TOWERS || batch > n_train || batch % n_towers) {
        fprintf(stderr, "a batch of %lld is not split over %d towers\n", (long long)batch, n_towers);
        return 1;
    }
    int64_t per_epoch = n_train / batch, total = epochs * per_epoch;
    TF_Graph *graph = TF_NewGraph();
    network net = build(graph, n_towers, total);
    TF_Session *session = session_with(graph, n_towers);
    const TF_Operation *init[] = {net.init};
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 1, NULL, status);
    check("initialising");
    float figures[2];
    mr_progress *bar = mr_progress_new(stdout, "training", 0, total);
    for (int64_t step = 0; step < total; step++) {
        run_batch(session, &net, digits, MR_SPLIT_TRAIN, 1 + (uint64_t)(step / per_epoch), step % per_epoch * batch, batch,
                  figures);
        mr_progress_update(bar, step + 1, "loss %.4f  accuracy %.2f %%", figures[0], 100 * figures[1]);
    }
    mr_progress_end(bar);
    /* The first tower tests what it gets: a part of each batch, so batches begin where parts end. */
    double hits = 0, n_test = (double)mr_digits_count(digits, MR_SPLIT_TEST);
    int64_t part = 500, size = part * n_towers;
    for (int64_t i = 0; i < (int64_t)n_test; i += part) {
        run_batch(session, &net, digits, MR_SPLIT_TEST, 0, i, size, figures);
        hits += (double)part * figures[1];
    }
    printf("test accuracy %.1f %% (%s)\n", 100 * hits / n_test, mr_digits_name(digits));
    TF_DeleteSession(session, status);
    TF_DeleteGraph(graph);
    mr_digits_free(digits);
    return 0;
}
