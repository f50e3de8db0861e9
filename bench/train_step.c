/* bench/train_step.c -- one training step of the networks that are compared with PyTorch.
 *
 *     train_step mlp|lenet|lstm [--steps N] [--threads N] [--wall 1] [--by-thread 1] [--sessions N]
 *
 * Prints `NAME_step_ms VALUE ms`, the median over blocks of steps: CPU time with one thread unless
 * --wall is given, else wall time; --threads 0 means as many as there are cores.  --by-thread prints instead
 * how much CPU time a step takes in each of the busiest threads, which shows even on a busy machine
 * whether all of them work.  --sessions prints how many steps a second N sessions with the default threads do
 * at once, each called by its own thread, against one of them alone.  Under bench/count_alloc_lib.so it also prints how often steps 100 to 200
 * called the allocator.  Built on the public headers only. */
#include <dirent.h>
#include <millrace/train.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 128, BLOCKS = 9 };

/* The number of allocations, if bench/count_alloc_lib.so is preloaded. */
extern long count_alloc(void) __attribute__((weak));

static _Thread_local TF_Status *status;

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

/* The picture row by row: 28 steps of 28 numbers. */
static TF_Output lstm(mr_model *m, TF_Output x)
{
    return mr_dense(m, "out", mr_lstm(m, "lstm", x, 128, 0), 10, MR_LINEAR);
}

typedef struct network {
    const char *name;
    TF_Output (*build)(mr_model *m, TF_Output x);
    int rank;
    int64_t dims[4]; /* of x; -1 is the batch */
} network;
static const network networks[] = {
    {"mlp", mlp, 4, {-1, 28, 28, 1}},
    {"lenet", lenet, 4, {-1, 28, 28, 1}},
    {"lstm", lstm, 3, {28, -1, 28}},
};

static const network *network_named(const char *name)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (strcmp(networks[i].name, name) == 0)
            return &networks[i];
    fprintf(stderr, "train_step: no network '%s' (mlp, lenet, lstm)\n", name);
    exit(2);
}

static TF_Tensor *random_batch(const network *net)
{
    int64_t dims[4], n = 1;
    for (int i = 0; i < net->rank; i++)
        n *= dims[i] = net->dims[i] < 0 ? BATCH : net->dims[i];
    TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, net->rank, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        ((float *)TF_TensorData(t))[i] = (float)(rand() % 256) / 255;
    return t;
}

static TF_Tensor *labels(void)
{
    TF_Tensor *t = TF_AllocateTensor(TF_INT32, (int64_t[]){BATCH}, 1, BATCH * 4);
    for (int i = 0; i < BATCH; i++)
        ((int *)TF_TensorData(t))[i] = i % 10;
    return t;
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

/* Everything a step needs, allocated in advance. */
typedef struct training {
    TF_Graph *graph;
    mr_model *model;
    TF_Session *session;
    TF_Output in[2], loss;
    TF_Tensor *feed[2];
    const TF_Operation *train;
} training;

static void run_steps(const training *t, int n)
{
    for (int i = 0; i < n; i++) {
        TF_Tensor *out = NULL;
        TF_SessionRun(t->session, NULL, t->in, t->feed, 2, &t->loss, &out, 1, &t->train, 1, NULL, status);
        check("step");
        TF_DeleteTensor(out);
    }
}

static double median_ms(const training *t, int steps, int wall)
{
    double ms[BLOCKS];
    for (int b = -2; b < BLOCKS; b++) { /* two blocks to warm up */
        double start = cpu_seconds(wall);
        run_steps(t, steps);
        if (b >= 0)
            ms[b] = 1e3 * (cpu_seconds(wall) - start) / steps;
    }
    qsort(ms, BLOCKS, sizeof ms[0], by_value);
    return ms[BLOCKS / 2];
}

/* ---- CPU time by thread ---- */

enum { MAX_THREADS = 256, THREADS_SHOWN = 4 };

typedef struct thread_times {
    int n;
    long id[MAX_THREADS];
    double seconds[MAX_THREADS];
} thread_times;

/* The kernel's accounting: nanoseconds on a CPU, for each thread. */
static void read_thread_times(thread_times *t)
{
    t->n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d)) && t->n < MAX_THREADS;) {
        char path[300];
        unsigned long long ns;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%llu", &ns) == 1) {
            t->id[t->n] = atol(e->d_name);
            t->seconds[t->n++] = (double)ns * 1e-9;
        }
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
}

static double seconds_of(const thread_times *t, long id)
{
    for (int i = 0; i < t->n; i++)
        if (t->id[i] == id)
            return t->seconds[i];
    return 0;
}

/* Prints a line for each of the busiest threads, with its share of the total. */
static void print_by_thread(const char *name, int threads, const training *t, int steps)
{
    thread_times before, after;
    double ms[MAX_THREADS], sum = 0;
    run_steps(t, steps); /* warms up */
    read_thread_times(&before);
    run_steps(t, steps);
    read_thread_times(&after);
    for (int i = 0; i < after.n; i++)
        sum += ms[i] = 1e3 * (after.seconds[i] - seconds_of(&before, after.id[i])) / steps;
    qsort(ms, (size_t)after.n, sizeof ms[0], by_value);
    for (int i = 0; i < after.n && i < THREADS_SHOWN; i++)
        printf("%s_b%d_%dt_thread%d_cpu_ms %.3f ms %.0f %%\n", name, BATCH, threads, i, ms[after.n - 1 - i],
               100 * ms[after.n - 1 - i] / sum);
}

/* ---- many sessions at once ---- */

enum { MAX_SESSIONS = 16 };

/* Builds the network in its own graph and initializes its variables. */
static training new_training(const network *net, int threads)
{
    TF_Graph *g = TF_NewGraph();
    mr_model *m = mr_model_new(g);
    training t = {.graph = g, .model = m, .feed = {random_batch(net), labels()}};
    t.in[0] = mr_input(m, "x", TF_FLOAT, net->rank, net->dims);
    t.in[1] = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
    t.loss = mr_softmax_loss(m, net->build(m, t.in[0]), t.in[1]);
    t.train = mr_minimize(m, t.loss, mr_sgd(0.01f));
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, status);
    check("model");
    t.session = open_session(g, threads);
    TF_SessionRun(t.session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, status);
    check("init");
    return t;
}

static void free_training(training *t)
{
    TF_DeleteSession(t->session, status);
    TF_DeleteGraph(t->graph);
    mr_model_free(t->model);
    TF_DeleteTensor(t->feed[0]);
    TF_DeleteTensor(t->feed[1]);
}

typedef struct caller {
    const training *training;
    int steps;
    pthread_t thread;
} caller;

static void *call_steps(void *arg)
{
    caller *c = arg;
    status = TF_NewStatus();
    run_steps(c->training, c->steps);
    TF_DeleteStatus(status);
    return NULL;
}

/* Seconds of `n` sessions that do `steps` steps each at the same time. */
static double seconds_at_once(const training *t, int n, int steps)
{
    caller callers[MAX_SESSIONS];
    double start = cpu_seconds(1);
    for (int i = 0; i < n; i++) {
        callers[i] = (caller){.training = &t[i], .steps = steps};
        if (pthread_create(&callers[i].thread, NULL, call_steps, &callers[i]) != 0) {
            fprintf(stderr, "train_step: no thread\n");
            exit(1);
        }
    }
    for (int i = 0; i < n; i++)
        pthread_join(callers[i].thread, NULL);
    return cpu_seconds(1) - start;
}

/* One session and all of them take turns with the same number of steps; the best turn of each counts. */
static void print_sessions(const network *net, int n, int steps)
{
    training t[MAX_SESSIONS];
    double one = 1e9, all = 1e9;
    if (n < 1 || n > MAX_SESSIONS) {
        fprintf(stderr, "train_step: --sessions takes 1 to %d\n", MAX_SESSIONS);
        exit(2);
    }
    for (int i = 0; i < n; i++)
        t[i] = new_training(net, 0);
    for (int block = -1; block < BLOCKS; block++) { /* one block to warm up */
        double a = seconds_at_once(t, 1, n * steps), b = seconds_at_once(t, n, steps);
        if (block >= 0) {
            one = a < one ? a : one;
            all = b < all ? b : all;
        }
    }
    printf("%s_b%d_one_session_steps %.1f 1/s\n", net->name, BATCH, n * steps / one);
    printf("%s_b%d_%d_sessions_steps %.1f 1/s\n", net->name, BATCH, n, n * steps / all);
    printf("%s_b%d_%d_sessions_against_one %.2f x\n", net->name, BATCH, n, one / all);
    for (int i = 0; i < n; i++)
        free_training(&t[i]);
}

int main(int argc, char **argv)
{
    const network *net = network_named(argc > 1 ? argv[1] : "mlp");
    int steps = 20, threads = 1, wall = 0, by_thread = 0, sessions = 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--steps") == 0)
            steps = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--wall") == 0)
            wall = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--by-thread") == 0)
            by_thread = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--sessions") == 0)
            sessions = atoi(argv[i + 1]);
    }
    status = TF_NewStatus();
    if (sessions) {
        print_sessions(net, sessions, steps);
        return 0;
    }
    training t = new_training(net, threads);
    if (count_alloc) {
        run_steps(&t, 100);
        long before = count_alloc();
        run_steps(&t, 100);
        printf("%s_warm_step_mallocs %.2f calls\n", net->name, (double)(count_alloc() - before) / 100);
    } else if (by_thread) {
        print_by_thread(net->name, threads, &t, steps);
    } else {
        printf("%s_b%d_%dt_step_ms %.4f ms\n", net->name, BATCH, threads, median_ms(&t, steps, wall || threads != 1));
    }
    free_training(&t);
    return 0;
}
