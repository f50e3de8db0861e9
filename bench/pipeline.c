/* bench/pipeline.c -- the gain of micro-batches in flight: a network in four stages on four simulated devices.
 *
 *     pipeline [--product-ms N]      of a micro-batch, usual: 5
 *
 * The same batches pass through the stages one stage at a time (a single micro-batch), with fill-drain and with 1F1B
 * with eight micro-batches. The three take turns; figures are medians over the turns. pipeline_predicted_ratio_alone is
 * the gain if only products took time. */
#include <millrace/cluster.h>
#include <millrace/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STAGES = 4, WIDTH = 64, MICRO = 8, BATCH = 8 * MICRO, ROUNDS = 9, STEPS = 5 };

typedef enum mode { ALONE, FILL_DRAIN, ONE_F_ONE_B, MODES } mode;
static const char *const names[MODES] = {"alone", "fill_drain", "1f1b"};

typedef struct trained {
    TF_Graph *graph;
    mr_model *model;
    TF_Output in[2], loss;
    const TF_Operation *step;
    TF_Session *session;
    double times[ROUNDS];
} trained;

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static TF_Output stage(void *arg, mr_model *m, int i, TF_Output x, const TF_Output *inputs)
{
    char name[16];
    (void)arg;
    snprintf(name, sizeof name, "layer%d", i);
    TF_Output h = mr_dense(m, name, x, WIDTH, i < STAGES - 1 ? MR_TANH : MR_LINEAR);
    return i < STAGES - 1 ? h : mr_squared_loss(m, h, inputs[1]);
}

static mr_pipeline_options options_of(mode how)
{
    static const char *const devices[STAGES] = {"/device:SIM:0", "/device:SIM:1", "/device:SIM:2", "/device:SIM:3"};
    return (mr_pipeline_options){sizeof(mr_pipeline_options), STAGES, devices, how == ALONE ? 1 : MICRO,
                                 how == FILL_DRAIN ? MR_PIPELINE_FILL_DRAIN : MR_PIPELINE_1F1B, stage, NULL};
}

/* Products take the requested time, by their number of operations; everything else takes little. */
static TF_SessionOptions *make_devices(double product_s)
{
    TF_SessionOptions *options = TF_NewSessionOptions();
    for (int i = 0; i < STAGES; i++) {
        mr_simulated_device d = {sizeof d, "SIM", i, .flops_per_s = 2.0 * (BATCH / MICRO) * WIDTH * WIDTH / product_s, .bytes_per_s = 1e12,
                                 .op_s = 2e-5};
        mr_session_add_simulated_device(options, &d, status);
        check("adding a device");
    }
    return options;
}

static void begin(trained *t, mode how, double product_s)
{
    mr_pipeline_options o = options_of(how);
    *t = (trained){.graph = TF_NewGraph()};
    t->model = mr_model_new(t->graph);
    for (int i = 0; i < 2; i++)
        t->in[i] = mr_input(t->model, i ? "y" : "x", TF_FLOAT, 2, (int64_t[]){-1, WIDTH});
    t->step = mr_pipeline_minimize(t->model, t->in, 2, mr_sgd(0.01f), &o, &t->loss);
    const TF_Operation *init = mr_initializer(t->model);
    mr_model_status(t->model, status);
    check("building a pipeline");
    TF_SessionOptions *options = make_devices(product_s);
    t->session = TF_NewSession(t->graph, options, status);
    check("opening a session");
    TF_DeleteSessionOptions(options);
    TF_SessionRun(t->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, status);
    check("initialising");
}

static void end(trained *t)
{
    TF_DeleteSession(t->session, status);
    mr_model_free(t->model);
    TF_DeleteGraph(t->graph);
}

static double run(trained *t, TF_Tensor *const *batch, int steps)
{
    double start = seconds();
    for (int i = 0; i < steps; i++) {
        TF_SessionRun(t->session, NULL, t->in, batch, 2, NULL, NULL, 0, &t->step, 1, NULL, status);
        check("training");
    }
    return (seconds() - start) / steps;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of)
{
    qsort(of, ROUNDS, sizeof *of, by_value);
    return of[ROUNDS / 2];
}

/* One product forward, two backward; the first stage needs only one of them, because the gradient of its input is not
 * needed. */
static void show_prediction(void)
{
    mr_pipeline_options o = options_of(ONE_F_ONE_B);
    mr_pipeline_figures f = {.struct_size = sizeof f};
    mr_pipeline_predict(&o, (double[STAGES]){1, 1, 1, 1}, (double[STAGES]){1, 2, 2, 2}, 0, &f, status);
    check("predicting");
    printf("pipeline_predicted_ratio_alone %.2f times\n", f.alone_s / f.step_s);
}

int main(int argc, char **argv)
{
    double product_ms = argc == 3 && strcmp(argv[1], "--product-ms") == 0 ? atof(argv[2]) : 5;
    trained t[MODES];
    TF_Tensor *batch[2];
    double ratios[MODES][ROUNDS];
    status = TF_NewStatus();
    if (argc == 2 || product_ms <= 0) {
        fprintf(stderr, "pipeline [--product-ms N]\n");
        return 2;
    }
    for (int k = 0; k < 2; k++) {
        batch[k] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, WIDTH}, 2, BATCH * WIDTH * sizeof(float));
        for (int i = 0; i < BATCH * WIDTH; i++)
            ((float *)TF_TensorData(batch[k]))[i] = (float)(i * 37 % 64) / 32 - 1;
    }
    for (int how = 0; how < MODES; how++) {
        begin(&t[how], (mode)how, product_ms / 1000);
        run(&t[how], batch, 2); /* the first one compiles the program */
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int how = 0; how < MODES; how++) {
            t[how].times[round] = run(&t[how], batch, STEPS);
            ratios[how][round] = t[ALONE].times[round] / t[how].times[round];
        }
    for (int how = 0; how < MODES; how++)
        printf("pipeline_step_%s %.1f ms\n", names[how], 1e3 * median(t[how].times));
    for (int how = FILL_DRAIN; how < MODES; how++)
        printf("pipeline_%s_ratio_alone %.2f times\n", names[how], median(ratios[how]));
    show_prediction();
    for (int how = 0; how < MODES; how++)
        end(&t[how]);
    TF_DeleteTensor(batch[0]);
    TF_DeleteTensor(batch[1]);
    TF_DeleteStatus(status);
    return 0;
}
