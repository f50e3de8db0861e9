/* sandblaster.c -- Sandblaster L-BFGS: the whole batch, cut into portions, by replicas that may come and die as they like.
 *
 *     sandblaster [--processes] [option value]...                     (--help)
 *     sandblaster --manager HOST:PORT --coordinator HOST:PORT ...     one replica more for a job that runs
 *
 * Softmax regression of digits with an L2 penalty, a convex problem: however many replicas there are, and whoever is killed
 * meanwhile, the minimum is the same to six digits.  Alone it starts servers and the coordinator in this process, and replicas as
 * threads, or with --processes as processes.  Digits are MNIST's where --dir or MNIST_DIR has them, else drawn.
 * With the numbers above it ends after about 120 iterations with a loss of 0.05609 and knows 99.7 % of the drawn digits it
 * has not seen; 3000 of MNIST's are enough for 89 %. */
#define _POSIX_C_SOURCE 200809L
#include <millrace/data.h>
#include <millrace/distbelief.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

enum { MOST = 64 };

static int n_words;
static char **words;
static mr_digits *digits;

static void check(TF_Status *status, const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

/* ---- a replica ---- */

typedef struct replica {
    const char *manager, *coordinator;
    pthread_t thread;
    TF_Graph *graph;
    TF_Session *session;
    TF_Output in[2], accuracy;
    mr_sandblaster_replica *blaster;
    mr_ps *ps;
    TF_Status *status;
} replica;

static void join(replica *r)
{
    r->status = TF_NewStatus();
    mr_model *m = mr_model_new(r->graph = TF_NewGraph());
    r->in[0] = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    r->in[1] = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output logits = mr_dense(m, "out", mr_flatten(m, r->in[0]), 10, MR_LINEAR);
    r->accuracy = mr_accuracy(m, logits, r->in[1]);
    r->blaster = mr_sandblaster_replica_new(m, mr_softmax_loss(m, logits, r->in[1]), r->in, 2);
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, r->status);
    check(r->status, "building the model");
    mr_model_free(m);
    TF_SessionOptions *so = TF_NewSessionOptions();
    r->session = TF_NewSession(r->graph, so, r->status);
    check(r->status, "starting a session");
    TF_DeleteSessionOptions(so);
    TF_SessionRun(r->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, r->status);
    check(r->status, "initialising");
    r->ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = r->manager}, r->status);
    check(r->status, "looking for the parameter servers");
}

static void drop(replica *r)
{
    mr_sandblaster_replica_free(r->blaster);
    mr_ps_free(r->ps);
    TF_DeleteSession(r->session, r->status);
    TF_DeleteGraph(r->graph);
    TF_DeleteStatus(r->status);
}

/* Portions differ by one example at most; the weight sees to it that each example counts the same. */
static void read_portion(void *arg, int64_t portion, int64_t portions, TF_Tensor **in, double *weight, TF_Status *status)
{
    (void)arg;
    int64_t all = integer("--examples", 1);
    int64_t first = all * portion / portions, n = all * (portion + 1) / portions - first;
    mr_digits_batch(digits, MR_SPLIT_TRAIN, 0, first, n, &in[0], &in[1], status);
    *weight = (double)n / (double)all;
}

static void *work(void *arg)
{
    replica *r = arg;
    join(r);
    mr_sandblaster_replica_work(r->blaster, r->session, r->ps,
                                &(mr_sandblaster_work){sizeof(mr_sandblaster_work), .coordinator = r->coordinator,
                                                       .portion = read_portion},
                                r->status);
    check(r->status, "working");
    return NULL;
}

static void test(replica *r)
{
    double hits = 0;
    int64_t n = mr_digits_count(digits, MR_SPLIT_TEST), n_batch;
    mr_sandblaster_replica_fetch(r->blaster, r->session, r->ps, NULL, r->status);
    check(r->status, "fetching");
    for (int64_t i = 0; i < n; i += n_batch) {
        TF_Tensor *in[2], *out = NULL;
        n_batch = n - i < 500 ? n - i : 500;
        mr_digits_batch(digits, MR_SPLIT_TEST, 0, i, n_batch, &in[0], &in[1], r->status);
        TF_SessionRun(r->session, NULL, r->in, in, 2, &r->accuracy, &out, 1, NULL, 0, NULL, r->status);
        check(r->status, "testing");
        hits += *(float *)TF_TensorData(out) * (double)n_batch;
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        TF_DeleteTensor(out);
    }
    printf("test accuracy %.1f %% (%s)\n", 100 * hits / (double)n, mr_digits_name(digits));
}

/* ---- all of them ---- */

static void show(void *arg, int64_t iteration, double loss, double gradient_norm)
{
    (void)arg;
    if (iteration % 10 == 0)
        printf("iteration %3lld  loss %.6f  gradient %.2e\n", (long long)iteration, loss, gradient_norm);
    fflush(stdout);
}

/* This program again, as one replica. */
static pid_t start_process(const char *manager, const char *coordinator)
{
    char *args[80] = {words[0], "--manager", (char *)manager, "--coordinator", (char *)coordinator};
    for (int i = 1, n = 5; i < n_words && n < 79; i++)
        if (strcmp(words[i], "--processes") != 0)
            args[n++] = words[i];
    pid_t pid = fork();
    if (pid == 0) {
        execv("/proc/self/exe", args);
        _exit(127);
    }
    printf("a replica is process %d\n", (int)pid);
    fflush(stdout);
    return pid;
}

static void minimize(mr_sandblaster *s, TF_Status *status)
{
    double loss = mr_sandblaster_minimize(s, status);
    check(status, "minimising");
    mr_sandblaster_stats stats = {.struct_size = sizeof stats};
    mr_sandblaster_get_stats(s, &stats);
    printf("loss %.6f after %lld iterations, %lld evaluations; %lld replicas, %lld lost; %lld portions given twice\n", loss,
           (long long)stats.iterations, (long long)stats.evaluations, (long long)stats.joined, (long long)stats.lost,
           (long long)stats.given_twice);
    printf("bytes through the coordinator: %lld an evaluation\n",
           (long long)((stats.bytes_sent + stats.bytes_received) / (stats.evaluations + 1)));
}

static void run_replicas(mr_sandblaster *s, int n, const char *manager, TF_Status *status)
{
    static replica r[MOST];
    pid_t pids[MOST];
    int processes = has("--processes");
    for (int i = 0; i < n; i++) {
        r[i] = (replica){.manager = manager, .coordinator = mr_sandblaster_address(s)};
        if (processes)
            pids[i] = start_process(manager, r[i].coordinator);
        else
            pthread_create(&r[i].thread, NULL, work, &r[i]);
    }
    minimize(s, status);
    mr_sandblaster_free(s); /* lets them go */
    for (int i = 0; i < n; i++) {
        if (processes)
            waitpid(pids[i], NULL, 0);
        else
            pthread_join(r[i].thread, NULL);
        if (!processes)
            drop(&r[i]);
    }
}

static int run_all(void)
{
    TF_Status *status = TF_NewStatus();
    int n = (int)integer("--replicas", 1), servers = (int)integer("--servers", 1);
    if (n > MOST || servers > MOST) {
        fprintf(stderr, "from 1 to %d replicas and servers\n", MOST);
        return 2;
    }
    mr_ps_manager *manager = mr_ps_manager_start(
        &(mr_ps_manager_options){sizeof(mr_ps_manager_options), .servers = servers, .replicas = servers > 1 ? 2 : 1}, status);
    check(status, "starting the manager");
    const char *address = mr_ps_manager_address(manager);
    mr_ps_server *s[MOST];
    for (int i = 0; i < servers; i++) {
        s[i] = mr_ps_server_start(&(mr_ps_server_options){sizeof(mr_ps_server_options), .manager = address}, status);
        check(status, "starting a server");
    }
    mr_ps *ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = address}, status);
    check(status, "looking for the parameter servers");
    mr_sandblaster_options o = {.struct_size = sizeof o, .report = show};
    o.portions = (int)integer("--portions", 1);
    o.iterations = integer("--iterations", 0);
    o.l2 = number("--l2");
    mr_sandblaster *b = mr_sandblaster_start(&o, ps, status);
    check(status, "starting the coordinator");
    run_replicas(b, n, address, status);
    replica judge = {.manager = address};
    join(&judge);
    test(&judge);
    drop(&judge);
    mr_ps_free(ps);
    for (int i = 0; i < servers; i++)
        mr_ps_server_free(s[i]);
    mr_ps_manager_free(manager);
    TF_DeleteStatus(status);
    return 0;
}

static option options[] = {
    DIGITS_OPTION,
    {"--replicas", "N", "4", "that compute gradients"},
    {"--servers", "N", "2", "parameter servers"},
    {"--examples", "N", "3000", "digits of the batch"},
    {"--portions", "N", "24", "that the batch is cut into"},
    {"--iterations", "N", "200", "of L-BFGS at most"},
    {"--l2", "X", "0.001", "weight of the penalty"},
    {"--processes", NULL, NULL, "replicas are processes; else threads"},
    {"--manager", "HOST:PORT", NULL, "of the servers of a job that runs"},
    {"--coordinator", "HOST:PORT", NULL, "of that job: be one replica more"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "sandblaster: softmax regression of the whole batch by L-BFGS, by replicas that may come and die as they like.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    n_words = argc;
    words = argv;
    TF_Status *status = TF_NewStatus();
    digits = mr_digits_open(digits_folder(), status);
    check(status, "reading the digits");
    int code = 0;
    if (has("--coordinator")) {
        replica r = {.manager = said("--manager"), .coordinator = said("--coordinator")};
        work(&r);
        drop(&r);
    } else {
        code = run_all();
    }
    mr_digits_free(digits);
    TF_DeleteStatus(status);
    return code;
}
