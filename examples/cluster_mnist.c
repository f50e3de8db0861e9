/* cluster_mnist.c -- trains the network of mnist.c on a cluster: between-graph replication.
 *
 *     cluster_mnist [--ps_hosts A:1,B:1 --worker_hosts C:1,D:1 --job_name ps|worker --task_index I] [option value]...    (--help)
 *
 * The same program is every task; without hosts, TF_CONFIG says which.  Parameter servers serve until they are ended.
 * Workers train, each with batches of its own: every one for itself (async), all together (sync; backup: without those who
 * come last), each for itself but not too far ahead of the slowest (bounded), or without parameter servers, every worker with
 * all variables (all_reduce).  Without --synchrony the launcher's flag of that name counts.  Tasks may be killed and started
 * again: variables that are lost come back from the newest checkpoint, which the chief makes beside training, or with all_reduce
 * from the other workers.  The chief is worker 0, or the next one while worker 0 is gone.  With --trace every worker writes
 * traces of some steps, for `millrace trace FOLDER`. */
#include <millrace/cluster.h>
#include <millrace/data.h>
#include <millrace/progress.h>
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

typedef struct plan { /* what the command line says */
    mr_cluster_task *task;
    int worker, n_workers;
    const char *synchrony;
    int share;                        /* workers that share out each large batch; 1: each has its own */
    int64_t batch, per_epoch, total;  /* steps */
    const char *checkpoints, *trace, *trace_steps;
} plan;

typedef struct network {
    TF_Output images, labels, drop, loss, accuracy;
    mr_barrier *barrier;
    mr_supervisor *supervisor;
} network;

static network build(TF_Graph *graph, const plan *p)
{
    network n = {.barrier = NULL};
    mr_model *m = mr_model_new(graph);
    mr_replicate_as(m, p->task, MR_BY_SIZE, p->synchrony);
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
    adam.schedule = mr_polynomial_decay(m, 0.0015f, p->total, 0.00005f, 1);
    n.barrier = mr_minimize_as(m, n.loss, adam, p->synchrony, p->task);
    mr_model_status(m, status);
    check("building the network");
    n.supervisor = mr_supervisor_new(m,
                                     &(mr_supervisor_options){sizeof(mr_supervisor_options),
                                                              .task = p->task,
                                                              .barrier = n.barrier,
                                                              .checkpoints = p->checkpoints,
                                                              .save_ms = 1000,
                                                              .max_to_keep = 3,
                                                              .trace = p->trace,
                                                              .trace_steps = p->trace_steps},
                                     status);
    check("building the supervisor");
    mr_model_free(m);
    return n;
}

/* One run on a batch: the mean loss and accuracy; training moves the variables and returns the step. */
static int64_t run_batch(const network *n, const mr_digits *d, mr_split split, uint64_t seed, int64_t first, int64_t size,
                         float figures[2])
{
    TF_Tensor *in[3], *out[2];
    int64_t step = 0;
    int training = split == MR_SPLIT_TRAIN;
    mr_digits_batch(d, split, seed, first, size, &in[0], &in[1], status);
    check("reading a batch");
    in[2] = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float));
    *(float *)TF_TensorData(in[2]) = training ? 0.4f : 0;
    TF_Output feeds[] = {n->images, n->labels, n->drop}, fetches[] = {n->loss, n->accuracy};
    if (training)
        step = mr_supervisor_train(n->supervisor, feeds, in, 3, fetches, out, 2, status);
    else
        mr_supervisor_run(n->supervisor, feeds, in, 3, fetches, out, 2, NULL, 0, status);
    check(training ? "training" : "testing");
    for (int i = 0; i < 2; i++) {
        figures[i] = *(float *)TF_TensorData(out[i]);
        TF_DeleteTensor(out[i]);
    }
    for (int i = 0; i < 3; i++)
        TF_DeleteTensor(in[i]);
    return step;
}

/* Together, workers share out each large batch; alone, each goes through the digits in an order of its own. */
static int64_t train_step(const network *n, const plan *p, const mr_digits *d, int64_t step, float figures[2])
{
    uint64_t epoch = (uint64_t)(step / p->per_epoch);
    int64_t at = step % p->per_epoch;
    if (p->share > 1)
        return run_batch(n, d, MR_SPLIT_TRAIN, 1 + epoch, (at * p->n_workers + p->worker) * p->batch, p->batch, figures);
    uint64_t seed = 1 + epoch * (uint64_t)p->n_workers + (uint64_t)p->worker;
    return run_batch(n, d, MR_SPLIT_TRAIN, seed, at * p->batch, p->batch, figures);
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* From a step to the last; returns the step then. */
static int64_t train_from(const network *n, const plan *p, const mr_digits *d, int64_t step)
{
    float figures[2], loss = 0, accuracy = 0; /* the last two smoothed over some fifty batches */
    double began = seconds(), per_step = (double)(p->batch * p->share);
    int64_t start = step;
    mr_progress *bar = p->worker == 0 ? mr_progress_new(stdout, "training", step, p->total) : NULL;
    while (step < p->total) {
        step = train_step(n, p, d, step, figures);
        float keep = loss == 0 ? 0 : 0.98f;
        loss = keep * loss + (1 - keep) * figures[0];
        mr_tell_progress(loss, p->total);
        accuracy = keep * accuracy + (1 - keep) * figures[1];
        if (bar)
            mr_progress_update(bar, step, "loss %.4f  accuracy %.2f %%  %.0f images/s", loss, 100 * accuracy,
                               (double)(step - start) * per_step / (seconds() - began));
    }
    mr_progress_end(bar);
    return step;
}

static void train(const network *n, const plan *p, const mr_digits *d)
{
    int64_t step = mr_supervisor_step(n->supervisor, status);
    check("reading the step");
    if (p->worker == 0 && step > 0)
        printf("going on from step %lld\n", (long long)step);
    do { /* again when variables were lost before the last checkpoint was made */
        train_from(n, p, d, step);
        step = mr_supervisor_finish(n->supervisor, status);
        check("finishing");
    } while (step < p->total);
}

static void test(const network *n, const mr_digits *d)
{
    float figures[2];
    double hits = 0, n_test = (double)mr_digits_count(d, MR_SPLIT_TEST);
    for (int64_t i = 0; i < (int64_t)n_test; i += 500) {
        run_batch(n, d, MR_SPLIT_TEST, 0, i, 500, figures);
        hits += 500 * figures[1];
    }
    printf("test accuracy %.1f %% (%s)\n", 100 * hits / n_test, mr_digits_name(d));
}

/* How the workers fared with each other, where this one knows it. */
static void show_workers(const network *n, const plan *p)
{
    for (int i = 0; i < p->n_workers; i++) {
        mr_worker_figures f = {.struct_size = sizeof f};
        if (mr_supervisor_figures(n->supervisor, i, &f))
            printf("worker %d: %lld iterations, %lld too late, waited %.1f s, staleness %.2f (at most %lld)\n", i,
                   (long long)f.iterations, (long long)f.late, f.waited_s, f.staleness, (long long)f.staleness_max);
    }
}

static option options[] = {
    {"--ps_hosts", "A:1,B:1", NULL, "parameter servers; without hosts TF_CONFIG tells"},
    {"--worker_hosts", "C:1,D:1", NULL, "workers"},
    {"--job_name", "JOB", "worker", "of this task: ps or worker"},
    {"--task_index", "N", "0", "of this task"},
    {"--synchrony", "HOW", NULL, "async, sync, backup, backup:K, bounded, bounded:T or all_reduce; else as the launcher says"},
    {"--sync", NULL, NULL, "the same as --synchrony sync"},
    DIGITS_OPTION,
    {"--epochs", "N", "3", "times that all digits are seen"},
    {"--batch", "N", "100", "digits of a worker and step"},
    {"--checkpoints", "FOLDER", "build/cluster-checkpoints", "for checkpoints; training goes on from the newest"},
    {"--trace", "FOLDER", NULL, "for traces of some steps (`millrace trace FOLDER`)"},
    {"--trace_steps", "A-B", NULL, "which"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "cluster_mnist: a task of a cluster that trains on digits; `millrace launch` starts it.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    mr_cluster_options o = {.struct_size = sizeof o,
                            .ps_hosts = said("--ps_hosts"),
                            .worker_hosts = said("--worker_hosts"),
                            .job = said("--job_name"),
                            .index = (int)integer("--task_index", 0)};
    status = TF_NewStatus();
    plan p = {.task = mr_cluster_task_new(&o, status)};
    check("starting the task");
    if (!mr_cluster_task_is_worker(p.task))
        mr_cluster_task_serve(p.task, status);
    check("serving");
    p.worker = mr_cluster_task_worker(p.task);
    p.n_workers = mr_cluster_task_num_workers(p.task);
    p.synchrony = has("--synchrony") ? said("--synchrony") : getenv("MILLRACE_SYNCHRONY");
    if (!p.synchrony)
        p.synchrony = has("--sync") ? "sync" : "async";
    int together = strcmp(p.synchrony, "sync") == 0 || strncmp(p.synchrony, "backup", 6) == 0 || strcmp(p.synchrony, "all_reduce") == 0;
    p.share = together ? p.n_workers : 1;
    mr_digits *digits = mr_digits_open(digits_folder(), status);
    check("reading the digits");
    p.batch = integer("--batch", 1);
    p.per_epoch = mr_digits_count(digits, MR_SPLIT_TRAIN) / (p.batch * p.share);
    p.total = integer("--epochs", 0) * p.per_epoch;
    p.checkpoints = said("--checkpoints");
    p.trace = said("--trace");
    p.trace_steps = said("--trace_steps");
    TF_Graph *graph = TF_NewGraph();
    network n = build(graph, &p);
    mr_supervisor_start(n.supervisor, status);
    check("starting");
    train(&n, &p, digits);
    if (p.worker == 0 || mr_supervisor_is_chief(n.supervisor))
        test(&n, digits);
    if (mr_supervisor_is_chief(n.supervisor))
        show_workers(&n, &p);
    mr_supervisor_free(n.supervisor);
    mr_barrier_free(n.barrier);
    mr_cluster_task_free(p.task);
    return 0;
}
