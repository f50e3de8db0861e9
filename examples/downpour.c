/* downpour.c -- Downpour SGD: replicas of a network train against parameter servers and never wait for each other.
 *
 *     downpour [--processes] [option value]...          (--help)
 *     downpour --manager HOST:PORT --replica I ...      one replica of a job whose servers run elsewhere
 *
 * Alone it starts servers in this process, and replicas as threads, or with --processes as processes of their own: kill one
 * (its number is shown) and the others do not notice.  Digits are MNIST's where --dir or MNIST_DIR has them, else drawn.  A
 * network of 784, 128 and 10 units: after 4 x 400 steps of 50 digits it knows from 94 to 99 % of drawn digits it has not seen,
 * and about 91 % of MNIST's; how many depends on how the replicas happen to meet. */
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
    int number;
    const char *manager;
    pthread_t thread;
    TF_Graph *graph;
    TF_Session *session;
    TF_Output in[2], figures[2]; /* images, labels; loss, accuracy */
    mr_downpour *pour;
    mr_ps *ps;
    TF_Status *status;
} replica;

static void build(replica *r)
{
    mr_model *m = mr_model_new(r->graph = TF_NewGraph());
    r->in[0] = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    r->in[1] = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_dense(m, "hidden", mr_flatten(m, r->in[0]), 128, MR_RELU);
    TF_Output logits = mr_dense(m, "out", h, 10, MR_LINEAR);
    r->figures[0] = mr_softmax_loss(m, logits, r->in[1]);
    r->figures[1] = mr_accuracy(m, logits, r->in[1]);
    mr_downpour_options o = {.struct_size = sizeof o, .replica = r->number};
    o.n_fetch = integer("--n-fetch", 1);
    o.n_push = integer("--n-push", 1);
    o.warm_steps = integer("--warm", 0);
    o.rate = (float)number("--rate");
    o.update = has("--sgd") ? MR_PS_SGD : MR_PS_ADAGRAD;
    r->pour = mr_downpour_new(m, r->figures[0], &o);
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, r->status);
    check(r->status, "building the network");
    mr_model_free(m);
    TF_SessionOptions *so = TF_NewSessionOptions();
    r->session = TF_NewSession(r->graph, so, r->status);
    check(r->status, "starting a session");
    TF_DeleteSessionOptions(so);
    TF_SessionRun(r->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, r->status);
    check(r->status, "initialising");
}

/* Every replica sees all digits, in an order of its own. */
static void train(replica *r)
{
    int64_t steps = integer("--steps", 0), batch = integer("--batch", 1);
    float loss = 0;
    for (int64_t i = 0; i < steps; i++) {
        TF_Tensor *in[2], *out = NULL;
        mr_digits_batch(digits, MR_SPLIT_TRAIN, 1 + (uint64_t)r->number, i * batch, batch, &in[0], &in[1], r->status);
        check(r->status, "reading a batch");
        mr_downpour_train(r->pour, r->in, in, 2, r->figures, &out, 1, r->status);
        check(r->status, "training");
        loss += (*(float *)TF_TensorData(out) - loss) * (i ? 0.05f : 1);
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        TF_DeleteTensor(out);
    }
    mr_downpour_finish(r->pour, r->status);
    check(r->status, "finishing");
    mr_downpour_stats stats = {.struct_size = sizeof stats};
    mr_downpour_get_stats(r->pour, &stats);
    printf("replica %d: %lld steps, loss %.3f, %lld fetches, %lld pushes, waited %.2f s for servers\n", r->number,
           (long long)stats.steps, loss, (long long)stats.fetches, (long long)stats.pushes, stats.waited_s);
    fflush(stdout);
}

static void join(replica *r)
{
    r->status = TF_NewStatus();
    build(r);
    r->ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = r->manager}, r->status);
    check(r->status, "looking for the parameter servers");
    mr_downpour_start(r->pour, r->session, r->ps, r->status);
    check(r->status, "starting");
}

static void drop(replica *r)
{
    mr_downpour_free(r->pour);
    mr_ps_free(r->ps);
    TF_DeleteSession(r->session, r->status);
    TF_DeleteGraph(r->graph);
    TF_DeleteStatus(r->status);
}

static void *run(void *arg)
{
    join(arg);
    train(arg);
    return NULL;
}

/* With the servers' parameters. */
static void test(replica *r)
{
    double hits = 0;
    int64_t n = mr_digits_count(digits, MR_SPLIT_TEST), n_batch;
    mr_downpour_fetch(r->pour, r->status);
    check(r->status, "fetching");
    for (int64_t i = 0; i < n; i += n_batch) {
        TF_Tensor *in[2], *out = NULL;
        n_batch = n - i < 500 ? n - i : 500;
        mr_digits_batch(digits, MR_SPLIT_TEST, 0, i, n_batch, &in[0], &in[1], r->status);
        TF_SessionRun(r->session, NULL, r->in, in, 2, &r->figures[1], &out, 1, NULL, 0, NULL, r->status);
        check(r->status, "testing");
        hits += *(float *)TF_TensorData(out) * (double)n_batch;
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        TF_DeleteTensor(out);
    }
    printf("test accuracy %.1f %% (%s)\n", 100 * hits / (double)n, mr_digits_name(digits));
}

/* ---- all of them ---- */

/* This program again, as one replica. */
static pid_t start_process(int number, const char *manager)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    char *args[80] = {words[0], "--manager", (char *)manager, "--replica", text};
    for (int i = 1, n = 5; i < n_words && n < 79; i++)
        if (strcmp(words[i], "--processes") != 0)
            args[n++] = words[i];
    pid_t pid = fork();
    if (pid == 0) {
        execv("/proc/self/exe", args);
        _exit(127);
    }
    printf("replica %d is process %d\n", number, (int)pid);
    fflush(stdout);
    return pid;
}

static void run_processes(int n, const char *manager)
{
    pid_t pids[MOST];
    for (int i = 0; i < n; i++)
        pids[i] = start_process(i, manager);
    for (int i = 0; i < n; i++) {
        int code = 0;
        waitpid(pids[i], &code, 0);
        if (WIFSIGNALED(code))
            printf("replica %d was killed; nobody waited for it\n", i);
    }
}

static void run_threads(replica *r, int n)
{
    for (int i = 0; i < n; i++)
        pthread_create(&r[i].thread, NULL, run, &r[i]);
    for (int i = 0; i < n; i++)
        pthread_join(r[i].thread, NULL);
}

static int run_all(void)
{
    static replica r[MOST], judge;
    TF_Status *status = TF_NewStatus();
    int n = (int)integer("--replicas", 1), servers = (int)integer("--servers", 1);
    if (n > MOST || servers > MOST) {
        fprintf(stderr, "from 1 to %d replicas and servers\n", MOST);
        return 2;
    }
    mr_ps_manager *manager = mr_ps_manager_start(
        &(mr_ps_manager_options){sizeof(mr_ps_manager_options), .servers = servers, .replicas = servers > 1 ? 2 : 1}, status);
    check(status, "starting the manager");
    mr_ps_server *s[MOST];
    for (int i = 0; i < servers; i++) {
        s[i] = mr_ps_server_start(
            &(mr_ps_server_options){sizeof(mr_ps_server_options), .manager = mr_ps_manager_address(manager)}, status);
        check(status, "starting a server");
    }
    for (int i = 0; i < n; i++)
        r[i] = (replica){.number = i, .manager = mr_ps_manager_address(manager)};
    int processes = has("--processes");
    if (processes)
        run_processes(n, mr_ps_manager_address(manager));
    else
        run_threads(r, n);
    judge = (replica){.number = n, .manager = mr_ps_manager_address(manager)};
    join(&judge);
    test(&judge);
    mr_downpour_finish(judge.pour, judge.status);
    drop(&judge);
    for (int i = 0; i < n && !processes; i++)
        drop(&r[i]);
    for (int i = 0; i < servers; i++)
        mr_ps_server_free(s[i]);
    mr_ps_manager_free(manager);
    TF_DeleteStatus(status);
    return 0;
}

static option options[] = {
    DIGITS_OPTION,
    {"--replicas", "N", "4", "of the network"},
    {"--servers", "N", "3", "parameter servers"},
    {"--steps", "N", "400", "of each replica"},
    {"--batch", "N", "50", "digits of a step"},
    {"--rate", "X", "0.05", "of the updates"},
    {"--n-fetch", "N", "1", "steps between two fetches of parameters"},
    {"--n-push", "N", "1", "steps between two pushes of gradients"},
    {"--sgd", NULL, NULL, "plain updates on the servers; else Adagrad"},
    {"--warm", "N", "20", "steps of the first replica alone"},
    {"--processes", NULL, NULL, "replicas are processes; else threads"},
    {"--manager", "HOST:PORT", NULL, "be one replica of the job there"},
    {"--replica", "N", "0", "which one"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "downpour: replicas of a network train against parameter servers and never wait for each other.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    n_words = argc;
    words = argv;
    TF_Status *status = TF_NewStatus();
    digits = mr_digits_open(digits_folder(), status);
    check(status, "reading the digits");
    int code = 0;
    if (has("--manager")) {
        replica r = {.number = (int)integer("--replica", 0), .manager = said("--manager")};
        run(&r);
        drop(&r);
    } else {
        code = run_all();
    }
    mr_digits_free(digits);
    TF_DeleteStatus(status);
    return code;
}
