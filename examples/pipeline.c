/* pipeline.c -- a network in four stages on four devices, with micro-batches in flight.
 *
 *     pipeline [option value]...                (--help)
 *
 * The devices are simulated: each multiplies as slowly as it is told, whatever this machine has.  The same training is run with
 * one micro-batch, so that three of four devices always wait, and with several; the step gets shorter, the losses stay. */
#include <math.h>
#include <millrace/cluster.h>
#include <millrace/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"

enum { STAGES = 4, WIDTH = 64, BATCH = 64 };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A layer each; the last one compares with what is wanted. */
static TF_Output stage(void *arg, mr_model *m, int i, TF_Output x, const TF_Output *inputs)
{
    char name[16];
    (void)arg;
    snprintf(name, sizeof name, "layer%d", i);
    TF_Output h = mr_dense(m, name, x, WIDTH, i < STAGES - 1 ? MR_TANH : MR_LINEAR);
    return i < STAGES - 1 ? h : mr_squared_loss(m, h, inputs[1]);
}

/* What is learnt: each number's square, of its neighbour. */
static void make_batch(TF_Tensor *v[2], unsigned *seed)
{
    for (int k = 0; k < 2; k++)
        v[k] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, WIDTH}, 2, BATCH * WIDTH * sizeof(float));
    float *x = TF_TensorData(v[0]), *y = TF_TensorData(v[1]);
    for (int i = 0; i < BATCH * WIDTH; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        x[i] = (float)(*seed >> 8) / (1 << 23) - 1;
    }
    for (int i = 0; i < BATCH * WIDTH; i++)
        y[i] = x[i ^ 1] * x[i ^ 1];
}

/* Trains so many steps; returns the seconds a step takes. */
static double train(const mr_pipeline_options *o, int steps, float *loss)
{
    TF_Graph *graph = TF_NewGraph();
    mr_model *m = mr_model_new(graph);
    TF_Output in[2] = {mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, WIDTH}), mr_input(m, "y", TF_FLOAT, 2, (int64_t[]){-1, WIDTH})};
    TF_Output mean;
    const TF_Operation *step = mr_pipeline_minimize(m, in, 2, mr_adam(0.01f), o, &mean), *init = mr_initializer(m);
    mr_model_status(m, status);
    check("building the pipeline");
    TF_SessionOptions *options = TF_NewSessionOptions();
    for (int i = 0; i < STAGES; i++) { /* a product of 64 rows takes 40 ms, other operations little */
        mr_simulated_device d = {sizeof d, "SIM", i, .flops_per_s = 2.0 * BATCH * WIDTH * WIDTH / 40e-3, .bytes_per_s = 1e12, .op_s = 2e-5};
        mr_session_add_simulated_device(options, &d, status);
        check("adding a device");
    }
    TF_Session *s = TF_NewSession(graph, options, status);
    check("opening a session");
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, status);
    check("initialising");
    unsigned seed = 1;
    double began = 0;
    for (int i = 0; i <= steps; i++) {
        TF_Tensor *v[2], *out = NULL;
        make_batch(v, &seed);
        TF_SessionRun(s, NULL, in, v, 2, &mean, &out, 1, &step, 1, NULL, status);
        check("training");
        *loss = *(float *)TF_TensorData(out);
        TF_DeleteTensor(out);
        TF_DeleteTensor(v[0]);
        TF_DeleteTensor(v[1]);
        if (i == 0) /* the first one makes the program */
            began = seconds();
    }
    double took = (seconds() - began) / steps;
    TF_DeleteSession(s, status);
    TF_DeleteSessionOptions(options);
    mr_model_free(m);
    TF_DeleteGraph(graph);
    return took;
}

static option options[] = {
    {"--steps", "N", "8", "of training, in both ways"},
    {"--micro", "N", "8", "micro-batches of a step"},
    {"--fill-drain", NULL, NULL, "all go forward before one goes back; else by turns (1F1B)"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "pipeline: a network in four stages on four simulated devices, with micro-batches in flight.";

int main(int argc, char **argv)
{
    const char *const devices[STAGES] = {"/device:SIM:0", "/device:SIM:1", "/device:SIM:2", "/device:SIM:3"};
    read_options(argc, argv, about, options);
    int steps = (int)integer("--steps", 1), micro = (int)integer("--micro", 1);
    mr_pipeline_options o = {sizeof o, STAGES, devices, 1, MR_PIPELINE_1F1B, stage, NULL};
    float loss[2];
    if (has("--fill-drain"))
        o.kind = MR_PIPELINE_FILL_DRAIN;
    status = TF_NewStatus();
    double alone = train(&o, steps, &loss[0]);
    o.micro_batches = micro;
    double together = train(&o, steps, &loss[1]);
    mr_pipeline_figures f = {.struct_size = sizeof f};
    mr_pipeline_predict(&o, (double[]){1, 1, 1, 1}, (double[]){1, 2, 2, 2}, 0, &f, status);
    check("predicting");
    printf("one stage at a time: %.1f ms a step, loss %.4f\n", alone * 1e3, loss[0]);
    printf("%d micro-batches:     %.1f ms a step, loss %.4f\n", micro, together * 1e3, loss[1]);
    printf("%.2f times as fast; by the model %.2f, with %.0f %% of the time idle; losses differ by %.6f\n", alone / together,
           f.alone_s / f.step_s, 100 * f.bubble, fabsf(loss[0] - loss[1]));
    TF_DeleteStatus(status);
    return 0;
}
