/* next_word.c -- which word follows which: embeddings in tables that are sharded over the parameter servers.
 *
 *     millrace launch --ps 2 --workers 2 -- next_word [option value]...        (--help)
 *
 * The same program is every task.  A word is a row of one table, the layer that predicts the next word the rows of another: each server
 * has a part of both, gathers the rows that a step asks for where they lie, and gets gradients of those rows alone.  A step computes the
 * logits of the true words and of some others that are drawn (sampled softmax); the test at the end computes all of them, each
 * shard's where it lies.  Parameter servers may be killed and started again: with --checkpoints their rows come back. */
#include <math.h>
#include <millrace/cluster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { WORDS = 1000, COLUMNS = 32, SAMPLED = 50, BATCH = 200, TESTED = 2000 };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

/* ---- the language ---- */

/* Words are numbered by how often they come: number 0 most often, as in any text. */
static int64_t draw_word(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    double u = (double)(*seed >> 11) / 9007199254740992.0;
    int64_t word = (int64_t)exp(u * log(WORDS + 1.0)) - 1;
    return word < 0 ? 0 : word >= WORDS ? WORDS - 1 : word;
}

/* Of ten words the first is followed by the last, the second by the last but one. */
static int64_t next_of(int64_t word) { return word - word % 10 + 9 - word % 10; }

static void make_batch(TF_Tensor *v[2], int64_t n, uint64_t *seed)
{
    for (int k = 0; k < 2; k++)
        v[k] = TF_AllocateTensor(TF_INT64, &n, 1, (size_t)n * sizeof(int64_t));
    int64_t *word = TF_TensorData(v[0]), *next = TF_TensorData(v[1]);
    for (int64_t i = 0; i < n; i++) {
        word[i] = draw_word(seed);
        next[i] = next_of(word[i]);
    }
}

/* ---- the network ---- */

typedef struct network {
    TF_Output in[2], loss, accuracy;
    mr_barrier *barrier;
    mr_supervisor *supervisor;
} network;

static network build(TF_Graph *graph, mr_cluster_task *task, const char *checkpoints)
{
    network n = {.barrier = NULL};
    mr_model *m = mr_model_new(graph);
    mr_replicate(m, task, MR_BY_TURNS);
    n.in[0] = mr_input(m, "words", TF_INT64, 1, (int64_t[]){-1});
    n.in[1] = mr_input(m, "next_words", TF_INT64, 1, (int64_t[]){-1});
    TF_Output h = mr_embedding_sharded(m, "embedding", n.in[0], WORDS, COLUMNS, NULL);
    n.loss = mr_sampled_softmax_loss(m, "next", h, n.in[1], WORDS, SAMPLED, NULL);
    n.accuracy = mr_accuracy(m, mr_sharded_logits(m, "next", h, WORDS, NULL), n.in[1]);
    n.barrier = mr_minimize_as(m, n.loss, mr_adagrad(1), NULL, task);
    mr_model_status(m, status);
    check("building the network");
    n.supervisor = mr_supervisor_new(m, &(mr_supervisor_options){sizeof(mr_supervisor_options), .task = task, .barrier = n.barrier,
                                                                 .checkpoints = checkpoints, .save_ms = 1000, .max_to_keep = 3}, status);
    check("building the supervisor");
    mr_model_free(m);
    return n;
}

/* One run; training moves the rows and returns the step. */
static int64_t run_batch(const network *n, int training, int64_t size, uint64_t *seed, float *figure)
{
    TF_Tensor *v[2], *out = NULL;
    int64_t step = 0;
    make_batch(v, size, seed);
    if (training)
        step = mr_supervisor_train(n->supervisor, n->in, v, 2, &n->loss, &out, 1, status);
    else
        mr_supervisor_run(n->supervisor, n->in, v, 2, &n->accuracy, &out, 1, NULL, 0, status);
    check(training ? "training" : "testing");
    *figure = *(float *)TF_TensorData(out);
    TF_DeleteTensor(out);
    TF_DeleteTensor(v[0]);
    TF_DeleteTensor(v[1]);
    return step;
}

static void train(const network *n, int64_t total, int worker)
{
    uint64_t seed = 1 + (uint64_t)worker;
    int64_t step = mr_supervisor_step(n->supervisor, status), told = 0;
    float loss;
    check("reading the step");
    do { /* again when rows were lost before the last checkpoint was made */
        while (step < total) {
            step = run_batch(n, 1, BATCH, &seed, &loss);
            if (step >= told + 500 && worker == 0) {
                printf("step %lld  loss %.3f\n", (long long)step, loss);
                told = step;
            }
        }
        step = mr_supervisor_finish(n->supervisor, status);
        check("finishing");
    } while (step < total);
}

static option options[] = {
    {"--steps", "N", "3000", "of training"},
    {"--checkpoints", "FOLDER", NULL, "for checkpoints; training goes on from the newest"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "next_word: a task of a cluster that learns which word follows which; `millrace launch` starts it.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    int64_t total = integer("--steps", 0);
    uint64_t seed = 1000;
    float accuracy;
    status = TF_NewStatus();
    mr_cluster_task *task = mr_cluster_task_new(NULL, status);
    check("starting the task (see millrace launch)");
    if (!mr_cluster_task_is_worker(task)) {
        mr_cluster_task_serve(task, status);
        return 0;
    }
    TF_Graph *graph = TF_NewGraph();
    network n = build(graph, task, said("--checkpoints"));
    mr_supervisor_start(n.supervisor, status);
    check("starting");
    train(&n, total, mr_cluster_task_worker(task));
    if (mr_supervisor_is_chief(n.supervisor)) {
        run_batch(&n, 0, TESTED, &seed, &accuracy);
        printf("%d words in %d shards, %d workers: next word right %.1f %%\n", WORDS, mr_cluster_task_num_ps(task),
               mr_cluster_task_num_workers(task), 100 * accuracy);
    }
    mr_supervisor_free(n.supervisor);
    mr_barrier_free(n.barrier);
    TF_DeleteGraph(graph);
    mr_cluster_task_free(task);
    TF_DeleteStatus(status);
    return 0;
}
