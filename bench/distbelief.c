/* bench/distbelief.c -- how fast a loss falls by Downpour, in virtual time; parameter servers compared with a batch
 * system's driver.
 *
 *     distbelief [--tune]       --tune: every method with every rate of the grid, for the virtual times
 *
 * downpour_virtual_time_*       seconds of virtual time to the same loss, the mean of five seeds, each method at its best rate
 * batch_driver_*                the same network and batches, four workers: all parameters from one driver to every worker and
 *                               all gradients back, beside Downpour on four servers; medians of five turns.  Bytes are those
 *                               of the busiest machine (the driver; a server) for each gradient, times are those of all
 *                               workers together for each gradient.  All servers together see fewer bytes than the driver
 *                               too: what is computed while a push is under way travels as one sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "capi/model.h"
#include "distbelief/batch_driver.h"
#include "distbelief/downpour.h"
#include "ps/client.h"
#include "ps/manager.h"
#include "ps/server.h"
#include "sim/downpour.h"
#include "train/digits.h"

enum { WORKERS = 4, SERVERS = 4, HIDDEN = 512, BATCH = 20, STEPS = 60, WARM = 5, SEEDS = 5 };

static bool failed;

static bool check(mr_status *st, const char *what)
{
    if (!st)
        return true;
    fprintf(stderr, "%s: %s\n", what, mr_status_message(st));
    mr_status_free(st);
    failed = true;
    return false;
}

/* ---- virtual time ---- */

static const char *const methods[] = {"sgd", "downpour", "downpour_adagrad"};

static double virtual_time(int method, bool convex, double rate)
{
    double sum = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mr_falls_result r = {0};
        mr_falls_options o = {.method = (mr_falls_method)method, .convex = convex, .rate = rate, .seed = seed};
        check(mr_falls_run(&o, &r), "simulating");
        sum += r.seconds; /* the limit if the loss was not reached */
    }
    return sum / SEEDS;
}

static void show_virtual(bool tune)
{
    for (int convex = 0; convex < 2; convex++) {
        const char *problem = convex ? "convex" : "network";
        double t[3];
        for (int m = 0; m < 3; m++) {
            for (int r = 0; tune && r < MR_FALLS_RATES; r++)
                printf("downpour_virtual_time_%s_%s_rate_%g %.2f s\n", problem, methods[m], mr_falls_rates[r],
                       virtual_time(m, convex, mr_falls_rates[r]));
            t[m] = virtual_time(m, convex, 0);
            printf("downpour_virtual_time_%s_%s %.2f s\n", problem, methods[m], t[m]);
        }
        printf("downpour_virtual_speedup_%s %.1f x\n", problem, t[0] / t[1]);
        printf("downpour_virtual_adagrad_speedup_%s %.1f x\n", problem, t[1] / t[2]);
    }
    fflush(stdout);
}

/* ---- the same network for both ---- */

static struct mr_digits *digits;

typedef struct model {
    mr_graph *g;
    mr_nn *n;
    mr_out in[2], loss;
    mr_session *s;
} model;

static void build(model *m)
{
    m->g = mr_graph_new();
    m->n = mr_nn_new(m->g);
    m->in[0] = mr_nn_input(m->n, "images", MR_FLOAT, 4, (int64_t[]){-1, MR_DIGIT_SIDE, MR_DIGIT_SIDE, 1});
    m->in[1] = mr_nn_input(m->n, "labels", MR_INT32, 1, (int64_t[]){-1});
    mr_out h = mr_nn_dense(m->n, "hidden", mr_nn_flatten(m->n, m->in[0]), HIDDEN, MR_NN_RELU);
    m->loss = mr_nn_softmax_loss(m->n, mr_nn_dense(m->n, "out", h, 10, MR_NN_LINEAR), m->in[1]);
}

static bool open_session(model *m)
{
    mr_node *init = mr_nn_initializer(m->n);
    return check(mr_status_copy(m->n->s.st), "building") &&
           check(mr_direct_session_new(m->g, NULL, &(mr_session_config){0}, &m->s), "opening a session") &&
           check(mr_session_run(m->s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL), "initialising");
}

static void drop(model *m)
{
    mr_session_free(m->s);
    mr_nn_free(m->n);
    mr_graph_unref(m->g);
}

/* ---- the driver ---- */

typedef struct batch_worker {
    model m;
    mr_mirror mirror;
    const char *driver;
    mr_thread thread;
} batch_worker;

static mr_status *take_partition(void *arg, int64_t iteration, int64_t partition, int64_t partitions, mr_tensor **values)
{
    (void)arg;
    return mr_digits_take(digits, 0, 1, (iteration * partitions + partition) * BATCH, BATCH, &values[0], &values[1]);
}

static void run_batch_worker(void *arg)
{
    batch_worker *w = arg;
    mr_batch_worker b = {&w->mirror, w->m.s, w->driver, w->m.in, 2, take_partition, w};
    check(mr_batch_worker_run(&b), "a batch's worker");
}

typedef struct figures {
    double step_s, bytes; /* for each gradient */
} figures;

static figures measure_driver(mr_batch_driver *d)
{
    mr_batch_driver_stats before, after;
    double loss = 0;
    for (int i = 0; i < WARM && !failed; i++)
        check(mr_batch_driver_step(d, &loss), "a batch's step");
    mr_batch_driver_count(d, &before);
    int64_t begin = mr_now_ns();
    for (int i = 0; i < STEPS && !failed; i++)
        check(mr_batch_driver_step(d, &loss), "a batch's step");
    int64_t end = mr_now_ns();
    mr_batch_driver_count(d, &after);
    double n = (double)STEPS * WORKERS;
    return (figures){(double)(end - begin) * 1e-9 / n,
                     (double)(after.sent + after.received - before.sent - before.received) / n};
}

static figures run_driver(void)
{
    batch_worker w[WORKERS] = {0};
    mr_batch_driver *d = NULL;
    mr_mirror_values v = {0};
    figures f = {0};
    for (int i = 0; i < WORKERS && !failed; i++) {
        build(&w[i].m);
        mr_mirror_build(w[i].m.n, w[i].m.loss, false, 0, &w[i].mirror);
        open_session(&w[i].m);
    }
    if (!failed && check(mr_mirror_values_init(&w[0].mirror, &v), "memory"))
        check(mr_mirror_read(&w[0].mirror, w[0].m.s, &v), "reading variables");
    if (!failed)
        check(mr_batch_driver_new(&(mr_batch_driver_options){.partitions = WORKERS, .rate = 0.1f}, v.vector, w[0].mirror.n, &d),
              "opening the driver");
    int started = 0;
    for (; started < WORKERS && !failed; started++) {
        w[started].driver = mr_batch_driver_address(d);
        failed |= mr_thread_start(&w[started].thread, "worker", run_batch_worker, &w[started]) != 0;
    }
    if (!failed)
        f = measure_driver(d);
    mr_batch_driver_free(d);
    for (int i = 0; i < started; i++)
        mr_thread_join(&w[i].thread);
    mr_mirror_values_deinit(&w[0].mirror, &v);
    for (int i = 0; i < WORKERS; i++) {
        mr_mirror_deinit(&w[i].mirror);
        drop(&w[i].m);
    }
    return f;
}

/* ---- parameter servers ---- */

typedef struct replica_worker {
    model m;
    mr_downpour_replica *replica;
    mr_ps *ps;
    int number;
    mr_thread thread;
} replica_worker;

static void replica(replica_worker *w, int steps)
{
    for (int i = 0; i < steps && !failed; i++) {
        mr_tensor *in[2];
        if (!check(mr_digits_take(digits, 0, 1, (i * WORKERS + w->number) * (int64_t)BATCH, BATCH, &in[0], &in[1]), "digits"))
            return;
        mr_run_args a = {.feeds = w->m.in, .feed_values = in, .n_feeds = 2};
        check(mr_downpour_replica_train(w->replica, &a, NULL), "a replica's step");
        mr_tensor_unref(in[0]);
        mr_tensor_unref(in[1]);
    }
}

static void run_replica_worker(void *arg)
{
    replica_worker *w = arg;
    replica(w, STEPS);
    check(mr_downpour_replica_finish(w->replica), "finishing");
}

static double traffic(replica_worker *w)
{
    double sum = 0;
    for (int i = 0; i < WORKERS; i++) {
        mr_ps_stats s = {sizeof s};
        mr_ps_count(w[i].ps, &s);
        sum += (double)(s.bytes_sent + s.bytes_received);
    }
    return sum;
}

static bool start_replica(replica_worker *w, int number, const char *manager)
{
    mr_downpour_options o = {.struct_size = sizeof o, .replica = number, .update = MR_PS_SGD, .rate = 0.1f};
    mr_ps_options po = {.struct_size = sizeof po, .manager = manager};
    w->number = number;
    build(&w->m);
    w->replica = mr_downpour_replica_new(w->m.n, w->m.loss, &o);
    return open_session(&w->m) && check(mr_ps_open(&po, &w->ps), "connecting") &&
           check(mr_downpour_replica_start(w->replica, w->m.s, w->ps), "starting a replica");
}

static figures measure_replica(replica_worker *w)
{
    for (int i = 0; i < WORKERS; i++)
        replica(&w[i], WARM);
    double before = traffic(w), n = (double)STEPS * WORKERS;
    int64_t begin = mr_now_ns();
    int started = 0;
    for (; started < WORKERS && !failed; started++)
        failed |= mr_thread_start(&w[started].thread, "replica", run_replica_worker, &w[started]) != 0;
    for (int i = 0; i < started; i++)
        mr_thread_join(&w[i].thread);
    /* each server gets its share of the workers' messages */
    return (figures){(double)(mr_now_ns() - begin) * 1e-9 / n, (traffic(w) - before) / n / SERVERS};
}

static figures run_replica(void)
{
    replica_worker w[WORKERS] = {0};
    mr_ps_manager *manager = NULL;
    mr_ps_server *servers[SERVERS] = {0};
    figures f = {0};
    mr_ps_manager_options mo = {.struct_size = sizeof mo, .replicas = 1, .servers = SERVERS};
    check(mr_ps_manager_open(&mo, NULL, &manager), "opening the manager");
    for (int i = 0; i < SERVERS && !failed; i++) {
        mr_ps_server_options so = {.struct_size = sizeof so, .manager = mr_ps_manager_where(manager)};
        check(mr_ps_server_open(&so, NULL, &servers[i]), "opening a server");
    }
    for (int i = 0; i < WORKERS && !failed; i++)
        start_replica(&w[i], i, mr_ps_manager_where(manager));
    if (!failed)
        f = measure_replica(w);
    for (int i = 0; i < WORKERS; i++) {
        mr_downpour_replica_free(w[i].replica);
        mr_ps_close(w[i].ps);
        drop(&w[i].m);
    }
    for (int i = 0; i < SERVERS; i++)
        mr_ps_server_close(servers[i]);
    mr_ps_manager_close(manager);
    return f;
}

/* ---- both by turns, for a machine that others use too ---- */

enum { TURNS = 5 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, TURNS, sizeof *x, by_size);
    return x[TURNS / 2];
}

static void show_driver(void)
{
    double step[2][TURNS], bytes[2][TURNS];
    for (int i = 0; i < TURNS && !failed; i++) {
        figures f[2] = {run_driver(), {0}};
        if (!failed)
            f[1] = run_replica();
        for (int k = 0; k < 2; k++) {
            step[k][i] = f[k].step_s;
            bytes[k][i] = f[k].bytes;
        }
    }
    if (failed)
        return;
    double t[2] = {median(step[0]), median(step[1])}, n[2] = {median(bytes[0]), median(bytes[1])};
    printf("batch_driver_step %.2f ms\n", t[0] * 1e3);
    printf("downpour_step %.2f ms\n", t[1] * 1e3);
    printf("batch_driver_step_ratio %.2f x\n", t[0] / t[1]);
    printf("batch_driver_bytes %.0f bytes\n", n[0]);
    printf("downpour_server_bytes %.0f bytes\n", n[1]);
    printf("batch_driver_bytes_ratio %.2f x\n", n[0] / n[1]);
    printf("batch_driver_total_bytes_ratio %.2f x\n", n[0] / n[1] / SERVERS);
}

int main(int argc, char **argv)
{
    mr_capi_init();
    digits = mr_digits_generate(2000, 10);
    show_virtual(argc > 1 && strcmp(argv[1], "--tune") == 0);
    show_driver();
    mr_digits_drop(digits);
    return failed;
}
