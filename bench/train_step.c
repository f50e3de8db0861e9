/* bench/train_step.c -- CPU time of one training step, single-threaded: the networks that PyTorch is held against.
 *
 *     train_step mlp|lenet [--steps N] [--threads N]
 *
 * Prints `NAME_step_ms VALUE ms`, the median over blocks of steps.  Built on the public headers only. */
#include <millrace/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 128, BLOCKS = 9 };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
}

static double cpu_seconds(int wall)
{
    struct timespec t;
    clock_gettime(wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static TF_Output mlp(mr_model *m, TF_Output x)
{
    TF_Output h = mr_dense(m, "fc1", mr_flatten(m, x), 256, MR_RELU);
    return mr_dense(m, "out", mr_dense(m, "fc2", h, 128, MR_RELU), 10, MR_LINEAR);
}

static TF_Output lenet(mr_model *m, TF_Output x)
{
    TF_Output h = mr_max_pool(m, mr_conv2d(m, "conv1", x, 32, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_max_pool(m, mr_conv2d(m, "conv2", h, 64, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    return mr_dense(m, "out", mr_dense(m, "fc", mr_flatten(m, h), 1024, MR_RELU), 10, MR_LINEAR);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static TF_Session *open_session(TF_Graph *g, int threads)
{
    unsigned char config[] = {0x10, (unsigned char)threads, 0x28, (unsigned char)threads}; /* intra and inter threads */
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, status);
    TF_Session *s = TF_NewSession(g, o, status);
    check("session");
    TF_DeleteSessionOptions(o);
    return s;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "mlp";
    int steps = 20, threads = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--steps") == 0)
            steps = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
    }
    status = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    mr_model *m = mr_model_new(g);
    TF_Output x = mr_input(m, "x", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1}), y = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
    TF_Output logits = strcmp(name, "lenet") == 0 ? lenet(m, x) : mlp(m, x);
    TF_Output loss = mr_softmax_loss(m, logits, y);
    const TF_Operation *train[] = {mr_minimize(m, loss, mr_sgd(0.01f))}, *init[] = {mr_initializer(m)};
    mr_model_status(m, status);
    check("model");
    TF_Session *s = open_session(g, threads);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 1, NULL, status);
    check("init");
    TF_Tensor *feed[2] = {TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, 28, 28, 1}, 4, BATCH * 784 * 4),
                          TF_AllocateTensor(TF_INT32, (int64_t[]){BATCH}, 1, BATCH * 4)};
    for (int i = 0; i < BATCH * 784; i++)
        ((float *)TF_TensorData(feed[0]))[i] = (float)(rand() % 256) / 255;
    for (int i = 0; i < BATCH; i++)
        ((int *)TF_TensorData(feed[1]))[i] = i % 10;
    double ms[BLOCKS];
    for (int b = -2; b < BLOCKS; b++) { /* two blocks to warm up */
        double start = cpu_seconds(threads > 1);
        for (int i = 0; i < steps; i++) {
            TF_Tensor *out = NULL;
            TF_SessionRun(s, NULL, (TF_Output[]){x, y}, feed, 2, &loss, &out, 1, train, 1, NULL, status);
            check("step");
            TF_DeleteTensor(out);
        }
        if (b >= 0)
            ms[b] = 1e3 * (cpu_seconds(threads > 1) - start) / steps;
    }
    qsort(ms, BLOCKS, sizeof ms[0], by_value);
    printf("%s_b%d_%dt_step_ms %.4f ms\n", name, BATCH, threads, ms[BLOCKS / 2]);
    TF_DeleteSession(s, status);
    TF_DeleteGraph(g);
    mr_model_free(m);
    return 0;
}
