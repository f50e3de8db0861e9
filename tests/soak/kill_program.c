/* tests/soak/kill_program.c -- the program whose tasks tests/soak/kill.c kills: a line learnt over a cluster.
 *
 *     kill_program FOLDER [SYNCHRONY|all-reduce]
 *
 * It learns y = Wx + b from points without noise, so the result is known: W and b themselves. Workers train until
 * FOLDER/enough holds the number of the last step, and write what they do to FOLDER/worker-I.log, one write a line:
 *
 *     A B S    a step, begun at A, complete at B, the global step then being S
 *     A B left this worker has nothing more to do
 *     A B end S E  the chief is done, S is the step of the last checkpoint, E the largest difference to W and b
 *
 * Times are nanoseconds of the clock that all processes of the host share.  Public headers only. */
#include <fcntl.h>
#include <millrace/cluster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INPUTS = 16, OUTPUTS = 4, BATCH = 32 };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(3);
}

static void heard(const char *text) { fprintf(stderr, "%s\n", text); }

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- the line ---- */

static float true_weight(int i, int k) { return (float)((i * 7 + k * 13) % 11) / 5 - 1; }
static float true_bias(int k) { return (float)k / 2 - 1; }

/* Points that depend only on the worker and the step. */
static void make_batch(int worker, long long step, TF_Tensor *v[2])
{
    unsigned seed = (unsigned)(step * 31 + worker + 1);
    v[0] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, INPUTS}, 2, BATCH * INPUTS * sizeof(float));
    v[1] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, OUTPUTS}, 2, BATCH * OUTPUTS * sizeof(float));
    float *x = TF_TensorData(v[0]), *y = TF_TensorData(v[1]);
    for (int n = 0; n < BATCH; n++)
        for (int i = 0; i < INPUTS; i++)
            x[n * INPUTS + i] = (float)(rand_r(&seed) % 2001) / 1000 - 1;
    for (int n = 0; n < BATCH; n++)
        for (int k = 0; k < OUTPUTS; k++) {
            float sum = true_bias(k);
            for (int i = 0; i < INPUTS; i++)
                sum += x[n * INPUTS + i] * true_weight(i, k);
            y[n * OUTPUTS + k] = sum;
        }
}

/* ---- the program ---- */

typedef struct program {
    const char *folder;
    mr_cluster_task *task;
    int worker, log;
    TF_Output x, y, weights, bias;
    mr_barrier *barrier;
    mr_all_reduce *all_reduce;
    mr_supervisor *supervisor;
} program;

static void write_log(const program *p, long long began, const char *what)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%lld %lld %s\n", began, now_ns(), what);
    if (write(p->log, line, (size_t)n) != n)
        exit(3);
}

static void build(program *p, const char *how)
{
    int all_reduce = strcmp(how, "all-reduce") == 0;
    mr_model *m = mr_model_new(TF_NewGraph());
    mr_init zero = {MR_INIT_CONSTANT, 0, 0};
    if (all_reduce)
        mr_model_on_worker(m, p->task);
    else
        mr_replicate(m, p->task, MR_BY_TURNS);
    p->x = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, INPUTS});
    p->y = mr_input(m, "y", TF_FLOAT, 2, (int64_t[]){-1, OUTPUTS});
    TF_Output line = mr_dense(m, "line", p->x, OUTPUTS, MR_LINEAR);
    mr_model_reuse(m, 1); /* the variables of that layer, by their names */
    p->weights = mr_parameter(m, "line/kernel", TF_FLOAT, 2, (int64_t[]){INPUTS, OUTPUTS}, zero);
    p->bias = mr_parameter(m, "line/bias", TF_FLOAT, 1, (int64_t[]){OUTPUTS}, zero);
    mr_model_reuse(m, 0);
    TF_Output loss = mr_squared_loss(m, line, p->y);
    mr_all_reduce_options group = {sizeof group, .num_workers = mr_cluster_task_num_workers(p->task), .worker = p->worker};
    if (all_reduce)
        p->all_reduce = mr_minimize_all_reduce(m, loss, mr_sgd(0.5f), &group);
    else
        p->barrier = mr_minimize_as(m, loss, mr_sgd(0.5f), how, p->task);
    mr_model_status(m, status);
    check("building the model");
    mr_supervisor_options o = {sizeof o, .task = p->task, .barrier = p->barrier, .checkpoints = p->folder,
                               .save_ms = 100, .max_to_keep = 3, .all_reduce = p->all_reduce};
    p->supervisor = mr_supervisor_new(m, &o, status);
    check("building the supervisor");
    mr_model_free(m);
}

/* The number of the last step; very large until it is known. */
static long long enough(const program *p)
{
    char path[4200];
    long long step = 1LL << 60;
    snprintf(path, sizeof path, "%s/enough", p->folder);
    FILE *f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%lld", &step) != 1)
            step = 1LL << 60;
        fclose(f);
    }
    return step;
}

static long long train(program *p, long long step)
{
    char text[32];
    TF_Tensor *in[2];
    while (step < enough(p)) {
        long long began = now_ns();
        make_batch(p->worker, step, in);
        step = mr_supervisor_train(p->supervisor, (TF_Output[]){p->x, p->y}, in, 2, NULL, NULL, 0, status);
        check("training");
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        snprintf(text, sizeof text, "%lld", step);
        write_log(p, began, text);
        usleep(2000); /* leaves time for kills */
    }
    return step;
}

/* The maximum; NaN counts as larger than any number. */
static float larger(float most, float d) { return most != most || (d <= most && -d <= most) ? most : d < 0 ? -d : d; }

/* The largest difference between the learnt line and the true one. */
static double difference(program *p)
{
    TF_Tensor *v[2];
    float most = 0;
    mr_supervisor_run(p->supervisor, NULL, NULL, 0, (TF_Output[]){p->weights, p->bias}, v, 2, NULL, 0, status);
    check("reading the variables");
    for (int k = 0; k < OUTPUTS; k++) {
        most = larger(most, ((float *)TF_TensorData(v[1]))[k] - true_bias(k));
        for (int i = 0; i < INPUTS; i++)
            most = larger(most, ((float *)TF_TensorData(v[0]))[i * OUTPUTS + k] - true_weight(i, k));
    }
    TF_DeleteTensor(v[0]);
    TF_DeleteTensor(v[1]);
    return most;
}

int main(int argc, char **argv)
{
    char text[4200];
    if (argc < 2)
        return 2;
    program p = {.folder = argv[1]};
    status = TF_NewStatus();
    TF_RegisterLogListener(heard);
    p.task = mr_cluster_task_new(NULL, status);
    check("starting the task");
    p.worker = mr_cluster_task_worker(p.task);
    snprintf(text, sizeof text, "%s/worker-%d.log", p.folder, p.worker);
    p.log = open(text, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (p.log < 0)
        return 3;
    build(&p, argc > 2 ? argv[2] : "async");
    mr_supervisor_start(p.supervisor, status);
    check("starting");
    long long began, step = mr_supervisor_step(p.supervisor, status);
    check("reading the step");
    do { /* repeated if a parameter server was killed before the last checkpoint was complete */
        step = train(&p, step);
        began = now_ns();
        step = mr_supervisor_finish(p.supervisor, status);
        check("finishing");
    } while (step < enough(&p));
    write_log(&p, began, "left");
    if (p.worker == 0) {
        snprintf(text, sizeof text, "end %lld %.9g", step, difference(&p));
        write_log(&p, began, text);
    }
    mr_supervisor_free(p.supervisor);
    mr_barrier_free(p.barrier);
    mr_all_reduce_free(p.all_reduce);
    mr_cluster_task_free(p.task);
    return 0;
}
