/* bench/data_parallel.c -- a step of data-parallel training with two workers, each a process of this host.
 *
 * The same network and batches by all-reduce, with and without overlap of back-propagation and exchange, and by a parameter
 * server in a third process with a barrier.  The modes take turns; medians of the first worker's steps. */
#include <millrace/cluster.h>

#include "bench/tasks.h"

enum { WORKERS = 2, BATCH = 64, IN = 784, HIDDEN = 1024, CLASSES = 10, WARM = 5, STEPS = 40, ROUNDS = 3 };

typedef enum mode { OVERLAP, NO_OVERLAP, PS_SYNC, MODES } mode;
static const char *const names[MODES] = {"all_reduce_overlap", "all_reduce_no_overlap", "ps_sync"};

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- a worker ---- */

typedef struct worker {
    mr_cluster_task *task;
    TF_Output images, labels, loss;
    mr_all_reduce *all_reduce;
    mr_barrier *barrier;
    mr_supervisor *supervisor;
    TF_Tensor *batch[2];
} worker;

static void build(worker *w, mode how, int number)
{
    mr_model *m = mr_model_new(TF_NewGraph());
    if (how == PS_SYNC)
        mr_replicate(m, w->task, MR_BY_TURNS);
    else
        mr_model_on_worker(m, w->task);
    w->images = mr_input(m, "images", TF_FLOAT, 2, (int64_t[]){-1, IN});
    w->labels = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_dense(m, "fc1", w->images, HIDDEN, MR_RELU);
    h = mr_dense(m, "fc2", h, HIDDEN, MR_RELU);
    w->loss = mr_softmax_loss(m, mr_dense(m, "fc3", h, CLASSES, MR_LINEAR), w->labels);
    if (how == PS_SYNC)
        w->barrier = mr_minimize_sync(m, w->loss, mr_sgd(0.01f),
                                      &(mr_barrier_options){sizeof(mr_barrier_options), .num_workers = WORKERS, .worker = number});
    else
        w->all_reduce = mr_minimize_all_reduce(m, w->loss, mr_sgd(0.01f),
                                               &(mr_all_reduce_options){sizeof(mr_all_reduce_options),
                                                                        .num_workers = WORKERS,
                                                                        .worker = number,
                                                                        .no_overlap = how == NO_OVERLAP});
    mr_model_status(m, status);
    check("building the network");
    w->supervisor = mr_supervisor_new(m, &(mr_supervisor_options){sizeof(mr_supervisor_options), .task = w->task,
                                                                  .barrier = w->barrier, .all_reduce = w->all_reduce}, status);
    check("building the supervisor");
    mr_model_free(m);
}

static void fill_batch(worker *w, int number)
{
    w->batch[0] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, IN}, 2, BATCH * IN * sizeof(float));
    w->batch[1] = TF_AllocateTensor(TF_INT32, (int64_t[]){BATCH}, 1, BATCH * sizeof(int32_t));
    for (int i = 0; i < BATCH * IN; i++)
        ((float *)TF_TensorData(w->batch[0]))[i] = (float)((i * 31 + number) % 97) / 97;
    for (int i = 0; i < BATCH; i++)
        ((int32_t *)TF_TensorData(w->batch[1]))[i] = (i + number) % CLASSES;
}

static double step_ms(worker *w)
{
    TF_Tensor *loss;
    int64_t began = mr_now_ns();
    mr_supervisor_train(w->supervisor, (TF_Output[]){w->images, w->labels}, w->batch, 2, &w->loss, &loss, 1, status);
    check("training");
    TF_DeleteTensor(loss);
    return (double)(mr_now_ns() - began) / 1e6;
}

/* Runs until its process ends. */
static void work(const mr_cluster_options *o, mode how, int out)
{
    double ms[STEPS];
    worker w = {.task = mr_cluster_task_new(o, status)};
    check("starting the task");
    if (!mr_cluster_task_is_worker(w.task))
        mr_cluster_task_serve(w.task, status);
    build(&w, how, o->index);
    fill_batch(&w, o->index);
    mr_supervisor_start(w.supervisor, status);
    check("starting");
    for (int i = -WARM; i < STEPS; i++)
        ms[MR_MAX(i, 0)] = step_ms(&w);
    qsort(ms, STEPS, sizeof *ms, by_value);
    if (o->index == 0 && write(out, &ms[STEPS / 2], sizeof *ms) != sizeof *ms)
        exit(1);
    mr_supervisor_finish(w.supervisor, status);
    mr_supervisor_free(w.supervisor);
    _exit(0);
}

/* ---- the processes of a mode ---- */

static double run(mode how)
{
    int fds[WORKERS + 1], pipe_of[2], n = WORKERS + (how == PS_SYNC);
    char hosts[WORKERS + 1][64], workers[128];
    double ms = 0;
    pid_t pids[WORKERS + 1];
    if (pipe(pipe_of) != 0)
        exit(1);
    for (int i = 0; i <= WORKERS; i++)
        snprintf(hosts[i], sizeof hosts[i], "127.0.0.1:%d", tasks_port(&fds[i]));
    for (int i = 0; i <= WORKERS; i++)
        close(fds[i]);
    snprintf(workers, sizeof workers, "%s,%s", hosts[0], hosts[1]);
    for (int i = 0; i < n; i++) {
        mr_cluster_options o = {sizeof o, .ps_hosts = how == PS_SYNC ? hosts[WORKERS] : "", .worker_hosts = workers,
                                .job = i < WORKERS ? "worker" : "ps", .index = i < WORKERS ? i : 0};
        pids[i] = fork();
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(&o, how, pipe_of[1]);
        }
    }
    close(pipe_of[1]);
    if (read(pipe_of[0], &ms, sizeof ms) != sizeof ms)
        ms = -1;
    close(pipe_of[0]);
    for (int i = 0; i < n; i++) {
        if (i == WORKERS)
            kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return ms;
}

int main(void)
{
    double ms[MODES][ROUNDS];
    status = TF_NewStatus();
    setenv("MILLRACE_TLS", "off", 0);
    for (int i = 0; i < ROUNDS; i++)
        for (int how = 0; how < MODES; how++)
            ms[how][i] = run(how);
    for (int how = 0; how < MODES; how++) {
        qsort(ms[how], ROUNDS, sizeof(double), by_value);
        printf("data_parallel_%s_ms %.2f ms\n", names[how], ms[how][ROUNDS / 2]);
    }
    printf("data_parallel_overlap_ratio_no_overlap %.2f ratio\n", ms[NO_OVERLAP][ROUNDS / 2] / ms[OVERLAP][ROUNDS / 2]);
    printf("data_parallel_all_reduce_ratio_ps_sync %.2f ratio\n", ms[PS_SYNC][ROUNDS / 2] / ms[OVERLAP][ROUNDS / 2]);
    return 0;
}
