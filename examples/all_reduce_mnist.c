/* all_reduce_mnist.c -- trains the network of mnist.c by all-reduce: every worker has all variables, and all make the same step.
 *
 *     millrace launch --ps 0 --workers 2 build/gcc/examples/all_reduce_mnist
 *     all_reduce_mnist [option value]...                (--help)
 *
 * TF_CONFIG says who is in the cluster.  Each worker computes the gradients of its share of a large batch; their means travel
 * in buckets while earlier layers are still being differentiated.  Workers may be killed and started again: the rest goes
 * on, and who comes back takes the variables of the others.  (With `--ps 1` that holds for the first worker too: the
 * group's leader is then a task of its own.) */
#include <millrace/cluster.h>
#include <millrace/data.h>
#include <millrace/progress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t batch, per_epoch, total; /* of a worker; steps */
    mr_all_reduce_options all_reduce;
    const char *checkpoints;
} plan;

typedef struct network {
    TF_Output images, labels, drop, loss, accuracy;
    mr_all_reduce *all_reduce;
    mr_supervisor *supervisor;
} network;

static network build(TF_Graph *graph, const plan *p)
{
    network n = {.all_reduce = NULL};
    mr_model *m = mr_model_new(graph);
    mr_model_on_worker(m, p->task);
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
    n.all_reduce = mr_minimize_all_reduce(m, n.loss, adam, &p->all_reduce);
    mr_model_status(m, status);
    check("building the network");
    n.supervisor = mr_supervisor_new(m,
                                     &(mr_supervisor_options){sizeof(mr_supervisor_options),
                                                              .task = p->task,
                                                              .all_reduce = n.all_reduce,
                                                              .checkpoints = p->checkpoints,
                                                              .save_ms = 1000,
                                                              .max_to_keep = 3},
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

static void train(const network *n, const plan *p, const mr_digits *d)
{
    float figures[2] = {0, 0};
    int64_t step = mr_supervisor_step(n->supervisor, status);
    check("reading the step");
    mr_progress *bar = p->worker == 0 ? mr_progress_new(stdout, "training", step, p->total) : NULL;
    while (step < p->total) { /* workers share out each large batch */
        int64_t at = (step % p->per_epoch * p->n_workers + p->worker) * p->batch;
        step = run_batch(n, d, MR_SPLIT_TRAIN, 1 + (uint64_t)(step / p->per_epoch), at, p->batch, figures);
        if (bar)
            mr_progress_update(bar, step, "loss %.4f  accuracy %.2f %%  %d workers", figures[0], 100 * figures[1],
                               mr_all_reduce_size(n->all_reduce));
    }
    mr_progress_end(bar);
    mr_supervisor_finish(n->supervisor, status);
    check("finishing");
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

static option options[] = {
    DIGITS_OPTION,
    {"--epochs", "N", "2", "times that all digits are seen"},
    {"--steps", "N", NULL, "instead of epochs"},
    {"--batch", "N", "50", "digits of a worker and step"},
    {"--bucket", "BYTES", "0", "of gradients that travel together; 0: as many as are usual"},
    {"--no_overlap", NULL, NULL, "nothing travels before all gradients are there"},
    {"--checkpoints", "FOLDER", NULL, "for checkpoints; training goes on from the newest"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "all_reduce_mnist: a task of a cluster that trains on digits by all-reduce; `millrace launch` starts it.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    status = TF_NewStatus();
    plan p = {.task = mr_cluster_task_new(NULL, status)};
    check("starting the task");
    if (!mr_cluster_task_is_worker(p.task))
        mr_cluster_task_serve(p.task, status);
    check("serving");
    p.worker = mr_cluster_task_worker(p.task);
    p.n_workers = mr_cluster_task_num_workers(p.task);
    p.all_reduce = (mr_all_reduce_options){sizeof(mr_all_reduce_options),
                                           .num_workers = p.n_workers,
                                           .worker = p.worker,
                                           .bucket_bytes = integer("--bucket", 0),
                                           .no_overlap = (unsigned char)has("--no_overlap")};
    mr_digits *digits = mr_digits_open(digits_folder(), status);
    check("reading the digits");
    p.batch = integer("--batch", 1);
    p.per_epoch = mr_digits_count(digits, MR_SPLIT_TRAIN) / (p.batch * p.n_workers);
    p.total = has("--steps") ? integer("--steps", 0) : integer("--epochs", 0) * p.per_epoch;
    p.checkpoints = said("--checkpoints");
    TF_Graph *graph = TF_NewGraph();
    network n = build(graph, &p);
    mr_supervisor_start(n.supervisor, status);
    check("starting");
    train(&n, &p, digits);
    if (mr_supervisor_is_chief(n.supervisor))
        test(&n, digits);
    mr_supervisor_free(n.supervisor);
    mr_all_reduce_free(n.all_reduce);
    mr_cluster_task_free(p.task);
    return 0;
}
