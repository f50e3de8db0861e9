/* tests/soak/downpour.c -- kill -9 of Downpour replicas while others train: how long are the others delayed?
 *
 *     downpour [--kills N] [--seed S]
 *
 * One process runs the servers, others are replicas, which record each step in memory shared with this process. In
 * turns it measures the longest pause between two steps of any replica during a quiet period, and during a period that
 * begins with a kill; then another replica replaces the dead one. The cost of a death is the difference: the machine
 * itself causes pauses in both periods.
 *
 * Pauses are wall-clock time. Waits are the part of them spent waiting for servers (mr_downpour_stats). */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "millrace/distbelief.h"

enum { REPLICAS = 4, SERVERS = 3, FEATURES = 32, CLASSES = 4, BATCH = 16, MOST_KILLS = 10000 };
#define MS INT64_C(1000000)
#define WINDOW_NS (500 * MS) /* of either kind */
#define HANG_NS (60000 * MS)

typedef struct seen { /* of one replica; its replacements continue with it */
    _Atomic int64_t steps, last_ns;
    _Atomic int64_t pause_ns, wait_ns; /* the longest since this process reset them */
} seen;

typedef struct shared {
    char manager[64];
    _Atomic int served, failed;
    seen replicas[REPLICAS];
} shared;

static shared *all;
static pid_t servers, replicas[REPLICAS];

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void sleep_ns(int64_t ns)
{
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static void check(TF_Status *status, const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    all->failed = 1;
    _exit(1);
}

/* ---- other processes: begun by this one, which never has threads ---- */

static pid_t begin(void (*fn)(int i), int i)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fn(i);
    _exit(0);
}

static void serve(int unused)
{
    TF_Status *status = TF_NewStatus();
    mr_ps_manager_options mo = {.struct_size = sizeof mo, .replicas = 2, .servers = SERVERS};
    mr_ps_manager *manager = mr_ps_manager_start(&mo, status);
    check(status, "starting the manager");
    for (int i = 0; i < SERVERS; i++) {
        mr_ps_server_options so = {.struct_size = sizeof so, .manager = mr_ps_manager_address(manager)};
        mr_ps_server_start(&so, status);
        check(status, "starting a server");
    }
    snprintf(all->manager, sizeof all->manager, "%s", mr_ps_manager_address(manager));
    all->served = 1;
    for (;;)
        pause();
    (void)unused;
}

typedef struct replica {
    TF_Graph *graph;
    TF_Session *session;
    TF_Output in[2];
    mr_downpour *pour;
    TF_Status *status;
} replica;

static void build(replica *r, int number)
{
    r->status = TF_NewStatus();
    mr_model *m = mr_model_new(r->graph = TF_NewGraph());
    r->in[0] = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, FEATURES});
    r->in[1] = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_dense(m, "hidden", r->in[0], 64, MR_TANH);
    TF_Output loss = mr_softmax_loss(m, mr_dense(m, "out", h, CLASSES, MR_LINEAR), r->in[1]);
    r->pour = mr_downpour_new(m, loss, &(mr_downpour_options){.struct_size = sizeof(mr_downpour_options), .replica = number});
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, r->status);
    check(r->status, "building a network");
    TF_SessionOptions *so = TF_NewSessionOptions();
    r->session = TF_NewSession(r->graph, so, r->status);
    check(r->status, "starting a session");
    TF_SessionRun(r->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, r->status);
    check(r->status, "initialising");
}

static void train_once(replica *r, unsigned *seed)
{
    TF_Tensor *in[2] = {TF_AllocateTensor(TF_FLOAT, (int64_t[]){BATCH, FEATURES}, 2, BATCH * FEATURES * sizeof(float)),
                        TF_AllocateTensor(TF_INT32, (int64_t[]){BATCH}, 1, BATCH * sizeof(int32_t))};
    float *x = TF_TensorData(in[0]);
    for (int i = 0; i < BATCH * FEATURES; i++)
        x[i] = (float)rand_r(seed) / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < BATCH; i++)
        ((int32_t *)TF_TensorData(in[1]))[i] = (x[i * FEATURES] > 0) + 2 * (x[i * FEATURES + 1] > 0);
    mr_downpour_train(r->pour, r->in, in, 2, NULL, NULL, 0, r->status);
    check(r->status, "training");
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
}

static void raise_to(_Atomic int64_t *to, int64_t value)
{
    if (value > *to)
        *to = value;
}

static void train_for_ever(int i)
{
    replica r = {0};
    seen *s = &all->replicas[i];
    unsigned seed = (unsigned)getpid();
    mr_downpour_stats stats = {.struct_size = sizeof stats};
    build(&r, i);
    mr_ps *ps = mr_ps_connect(&(mr_ps_options){.struct_size = sizeof(mr_ps_options), .manager = all->manager}, r.status);
    check(r.status, "looking for the servers");
    mr_downpour_start(r.pour, r.session, ps, r.status);
    check(r.status, "starting a replica");
    for (int64_t last = 0;; last = s->last_ns) {
        double waited = stats.waited_s;
        train_once(&r, &seed);
        mr_downpour_get_stats(r.pour, &stats);
        int64_t now = now_ns();
        if (last)
            raise_to(&s->pause_ns, now - last);
        raise_to(&s->wait_ns, (int64_t)((stats.waited_s - waited) * 1e9));
        s->last_ns = now;
        s->steps++;
        sleep_ns(MS);
    }
}

/* ---- this one ---- */

static void await_steps(int i, int64_t more)
{
    int64_t to = all->replicas[i].steps + more;
    for (int64_t end = now_ns() + HANG_NS; all->replicas[i].steps < to; sleep_ns(2 * MS))
        if (all->failed || now_ns() > end) {
            fprintf(stderr, "replica %d: %s\n", i, all->failed ? "training failed" : "no step for a minute");
            exit(1);
        }
}

typedef struct figures {
    double pause_ms, wait_ms;
} figures;

/* The longest pause of all replicas except `dead` (-1: none), in a period that begins with its death. */
static figures look(int dead)
{
    int64_t pause = 0, wait = 0;
    for (int i = 0; i < REPLICAS; i++)
        all->replicas[i].pause_ns = all->replicas[i].wait_ns = 0;
    if (dead >= 0) {
        kill(replicas[dead], SIGKILL);
        waitpid(replicas[dead], NULL, 0);
    }
    sleep_ns(WINDOW_NS);
    for (int i = 0; i < REPLICAS; i++) {
        if (i == dead)
            continue;
        await_steps(i, 1); /* a pause counts where it ends */
        pause = all->replicas[i].pause_ns > pause ? all->replicas[i].pause_ns : pause;
        wait = all->replicas[i].wait_ns > wait ? all->replicas[i].wait_ns : wait;
    }
    return (figures){(double)pause / 1e6, (double)wait / 1e6};
}

static int by_pause(const void *a, const void *b)
{
    double x = ((const figures *)a)->pause_ms, y = ((const figures *)b)->pause_ms;
    return (x > y) - (x < y);
}

static void show(const char *kind, figures *f, int n)
{
    double wait = 0;
    for (int i = 0; i < n; i++)
        wait = f[i].wait_ms > wait ? f[i].wait_ms : wait;
    qsort(f, (size_t)n, sizeof *f, by_pause);
    printf("downpour_longest_pause_%s %.1f ms\n", kind, f[n - 1].pause_ms);
    printf("downpour_median_pause_%s %.1f ms\n", kind, f[n / 2].pause_ms);
    printf("downpour_longest_wait_%s %.1f ms\n", kind, wait);
}

static int option(int argc, char **argv, const char *name, int otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return atoi(argv[i + 1]);
    return otherwise;
}

int main(int argc, char **argv)
{
    static figures quiet[MOST_KILLS], killed[MOST_KILLS];
    int kills = option(argc, argv, "--kills", 50);
    unsigned seed = (unsigned)option(argc, argv, "--seed", (int)getpid());
    kills = kills < 1 ? 1 : kills > MOST_KILLS ? MOST_KILLS : kills;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 1;
    servers = begin(serve, 0);
    while (!all->served && !all->failed)
        sleep_ns(5 * MS);
    for (int i = 0; i < REPLICAS; i++)
        replicas[i] = begin(train_for_ever, i);
    for (int i = 0; i < REPLICAS; i++)
        await_steps(i, 50);
    for (int k = 0; k < kills; k++) {
        int dead = (int)(rand_r(&seed) % REPLICAS);
        sleep_ns(rand_r(&seed) % 10 * MS);
        quiet[k] = look(-1);
        killed[k] = look(dead);
        replicas[dead] = begin(train_for_ever, dead);
        await_steps(dead, 50); /* it began in neither period */
    }
    printf("downpour_kills %d kills\n", kills);
    show("without_kills", quiet, kills);
    show("with_kills", killed, kills);
    for (int i = 0; i < REPLICAS; i++)
        kill(replicas[i], SIGKILL);
    kill(servers, SIGKILL);
    return all->failed;
}
