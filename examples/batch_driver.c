/* batch_driver.c -- training as batch systems do it: a driver ships all parameters to every worker in every iteration.
 *
 *     batch_driver [--no-kill] [option value]...   (--help)
 *     batch_driver --driver HOST:PORT              one worker of a driver that runs elsewhere
 *
 * What parameter servers replaced, to see what it costs: workers keep nothing, so whatever they need goes through the one driver, forth
 * and back.  Workers are processes; one is killed after a third of the iterations, and its partition is computed by another, so
 * that the result stays.  Digits are MNIST's where --dir or MNIST_DIR has them, else drawn. */
#define _POSIX_C_SOURCE 200809L
#include <millrace/batch.h>
#include <millrace/data.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

enum { MOST = 64, BATCH = 100 };

static mr_digits *digits;
static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

/* ---- the network, the same for all ---- */

typedef struct network {
    TF_Graph *graph;
    TF_Session *session;
    TF_Output in[2], accuracy;
    mr_batch_job *job;
} network;

static network build(void)
{
    network n = {.graph = TF_NewGraph()};
    mr_model *m = mr_model_new(n.graph);
    n.in[0] = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    n.in[1] = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_dense(m, "hidden", mr_flatten(m, n.in[0]), 64, MR_RELU);
    TF_Output logits = mr_dense(m, "out", h, 10, MR_LINEAR);
    n.accuracy = mr_accuracy(m, logits, n.in[1]);
    n.job = mr_batch_job_new(m, mr_softmax_loss(m, logits, n.in[1]), n.in, 2);
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, status);
    check("building the network");
    mr_model_free(m);
    TF_SessionOptions *o = TF_NewSessionOptions();
    n.session = TF_NewSession(n.graph, o, status);
    check("starting a session");
    TF_DeleteSessionOptions(o);
    TF_SessionRun(n.session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, status);
    check("initialising");
    return n;
}

static void drop(network *n)
{
    mr_batch_job_free(n->job);
    TF_DeleteSession(n->session, status);
    TF_DeleteGraph(n->graph);
}

/* ---- a worker ---- */

static void read_partition(void *arg, int64_t iteration, int64_t partition, int64_t partitions, TF_Tensor **values, TF_Status *s)
{
    (void)arg;
    mr_digits_batch(digits, MR_SPLIT_TRAIN, 1, ((iteration - 1) * partitions + partition) * BATCH, BATCH, &values[0], &values[1], s);
}

static void run_worker(const char *driver)
{
    network n = build();
    mr_batch_job_work(n.job, n.session, &(mr_batch_work){sizeof(mr_batch_work), .driver = driver, .partition = read_partition}, status);
    check("working");
    drop(&n);
}

/* This program again. */
static pid_t start_worker(const char *driver)
{
    char *args[] = {"batch_driver", "--driver", (char *)driver, "--dir", (char *)digits_folder(), NULL};
    if (!args[4])
        args[3] = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        execv("/proc/self/exe", args);
        _exit(127);
    }
    return pid;
}

/* ---- the driver ---- */

static double test(network *n)
{
    double hits = 0;
    int64_t all = mr_digits_count(digits, MR_SPLIT_TEST), size;
    mr_batch_job_fetch(n->job, n->session, status);
    check("fetching");
    for (int64_t i = 0; i < all; i += size) {
        TF_Tensor *in[2], *out = NULL;
        size = all - i < 500 ? all - i : 500;
        mr_digits_batch(digits, MR_SPLIT_TEST, 0, i, size, &in[0], &in[1], status);
        TF_SessionRun(n->session, NULL, n->in, in, 2, &n->accuracy, &out, 1, NULL, 0, NULL, status);
        check("testing");
        hits += *(float *)TF_TensorData(out) * (double)size;
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        TF_DeleteTensor(out);
    }
    return 100 * hits / (double)all;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Makes all iterations; a worker is killed on the way.  The number that were. */
static int iterate(network *n, int iterations, pid_t *pids, int workers)
{
    int killed = 0;
    for (int i = 0; i < iterations; i++) {
        double loss = mr_batch_job_step(n->job, status);
        check("an iteration");
        if (i % 25 == 24)
            printf("iteration %d  loss %.3f\n", i + 1, loss);
        if (i == iterations / 3 && workers > 1 && !has("--no-kill")) {
            kill(pids[0], SIGKILL);
            killed++;
        }
    }
    return killed;
}

static int run_driver(void)
{
    int workers = (int)integer("--workers", 1), partitions = (int)integer("--partitions", 1);
    int iterations = (int)integer("--iterations", 1), code = 0;
    pid_t pids[MOST];
    if (workers > MOST) {
        fprintf(stderr, "at most %d workers\n", MOST);
        return 2;
    }
    network n = build();
    mr_batch_job_drive(n.job, n.session, &(mr_batch_job_options){sizeof(mr_batch_job_options), .partitions = partitions, .rate = 0.2f}, status);
    check("opening the driver");
    for (int i = 0; i < workers; i++)
        pids[i] = start_worker(mr_batch_job_address(n.job));
    double began = seconds();
    int killed = iterate(&n, iterations, pids, workers);
    double took = seconds() - began, right = test(&n);
    mr_batch_job_stats s = {.struct_size = sizeof s};
    mr_batch_job_get_stats(n.job, &s);
    drop(&n); /* the workers end with the driver */
    for (int i = 0, end; i < workers; i++)
        if (waitpid(pids[i], &end, 0) < 0 || (end != 0 && i >= killed))
            code = 1;
    printf("the driver sent %.1f and received %.1f MB in an iteration of %.1f ms\n", (double)s.bytes_sent / iterations / 1e6,
           (double)s.bytes_received / iterations / 1e6, 1e3 * took / iterations);
    printf("%d workers, %d killed, %d partitions, %lld iterations: test accuracy %.1f %%\n", workers, killed, partitions,
           (long long)s.iterations, right);
    return code;
}

static option options[] = {
    DIGITS_OPTION,
    {"--workers", "N", "3", "processes that compute gradients"},
    {"--partitions", "N", "4", "of the batch"},
    {"--iterations", "N", "150", "of gradient descent"},
    {"--no-kill", NULL, NULL, "no worker is killed after a third of them"},
    {"--driver", "HOST:PORT", NULL, "be a worker of the driver there"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "batch_driver: a driver ships all parameters to every worker in every iteration, as batch systems do.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    status = TF_NewStatus();
    digits = mr_digits_open(digits_folder(), status);
    check("reading the digits");
    int code = 0;
    if (has("--driver"))
        run_worker(said("--driver"));
    else
        code = run_driver();
    mr_digits_free(digits);
    TF_DeleteStatus(status);
    return code;
}
