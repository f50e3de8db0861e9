/* bench/backups.c -- how much a straggler still slows a step if the number of backup workers is chosen adaptively.
 *
 * Eight workers train together with one parameter server; one of them takes four times as long as the others. A ratio
 * of 1 means that the step is as short as without it; waiting for all would give 4. In virtual time (sim/train), and
 * for real: tasks of one process, each worker on a simulated device (exec/device_sim.h) whose operations take most of
 * the step, so that eight of them fit on a machine with fewer cores. */
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/device_sim.h"
#include "ops/table.h"
#include "server/server.h"
#include "sim/train/train.h"
#include "train/replicas.h"
#include "train/sync.h"
#include "wire/pb.h"

enum { WORKERS = 8, STEPS = 40, SKIPPED = 10, STRAGGLER = 5, FACTOR = 4 };
#define OP_MS 4

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

/* ---- in virtual time ---- */

static double virtual_step(double factor)
{
    mr_simtrain_job j;
    mr_simtrain_result r;
    mr_simtrain_chunk c[8];
    mr_simtrain_slow slow = {STRAGGLER, factor};
    mr_simtrain_job_init(&j);
    for (int i = 0; i < MR_COUNT(c); i++)
        c[i] = (mr_simtrain_chunk){.forward_s = 0.004, .backward_s = 0.008, .bytes = 4e6, .ps = -1};
    j.chunks = c;
    j.n_chunks = MR_COUNT(c);
    j.mode = MR_SIMTRAIN_SYNC;
    j.adaptive = true;
    j.n_workers = WORKERS;
    j.n_ps = 2;
    j.steps = 500;
    j.latency_s = 1e-4;
    j.ps_bytes_per_s = 1e10;
    j.tail_s = 0.003;
    j.slow = &slow;
    j.n_slow = 1;
    must(mr_simtrain_run(&j, &r));
    double step_s = r.step.mean; /* including the steps it took to detect the straggler */
    mr_simtrain_result_deinit(&r);
    return step_s;
}

/* ---- for real ---- */

typedef struct crew {
    mr_cluster cluster;
    mr_server *servers[WORKERS + 1];
    int aggregate;
    double times[STEPS]; /* of worker 0 */
    _Atomic bool enough; /* worker 0 is done: the others leave after their current step */
} crew;

typedef struct worker {
    crew *c;
    int number;
    mr_thread thread;
    mr_graph *graph;
    mr_nn *net;
    mr_out x;
    mr_nn_sync *sync;
    mr_node *init;
    mr_session *session;
} worker;

static void start_task(crew *c, int i, double factor)
{
    mr_server_def def = {.job = c->cluster.tasks.p[i].job, .task = c->cluster.tasks.p[i].number};
    mr_device_sims sims = {0};
    bool works = mr_sv_is(mr_sv_of(def.job), "worker"), slow = works && def.task == STRAGGLER;
    mr_device_sim d = {.type = "SIM", .speed = {.flops_per_s = 1e15, .bytes_per_s = 1e15, .op_s = OP_MS * 1e-3 * (slow ? factor : 1)},
                       .latency_s = 1e-6, .link_bytes_per_s = 1e12};
    if (works)
        must(mr_device_sims_add(&sims, &d));
    must(mr_cluster_copy(&c->cluster, &def.cluster));
    must(mr_server_new(&def, &(mr_server_options){.net = mr_net_loop(), .simulated = &sims}, &c->servers[i]));
    must(mr_server_start(c->servers[i]));
    mr_cluster_deinit(&def.cluster);
    mr_device_sims_deinit(&sims);
}

static void start_crew(crew *c, double factor)
{
    char address[32];
    must(mr_cluster_add(&c->cluster, MR_SV("ps"), 0, MR_SV("ps0:1")));
    for (int i = 0; i < WORKERS; i++) {
        snprintf(address, sizeof address, "worker%d:1", i);
        must(mr_cluster_add(&c->cluster, MR_SV("worker"), i, mr_sv_of(address)));
    }
    for (int i = 0; i <= WORKERS; i++)
        start_task(c, i, factor);
}

/* Three layers; everything that is not on a parameter server is on the simulated device. */
static void build(worker *w)
{
    char device[64];
    w->graph = mr_graph_new();
    w->net = mr_nn_new(w->graph);
    snprintf(device, sizeof device, "/job:worker/task:%d/device:SIM:0", w->number);
    mr_nn_replicate(w->net, "ps", 1, device, MR_REPLICAS_ROUND_ROBIN);
    w->x = mr_nn_input(w->net, "x", MR_FLOAT, 2, (int64_t[]){-1, 8});
    mr_out h = mr_nn_dense(w->net, "a", w->x, 8, MR_NN_TANH);
    h = mr_nn_dense(w->net, "b", h, 8, MR_NN_TANH);
    mr_out loss = mr_nn_squared_loss(w->net, mr_nn_dense(w->net, "c", h, 8, MR_NN_LINEAR), w->x);
    mr_nn_optimizer o = {MR_NN_SGD, 0.01f, MR_NO_OUT, 0, 0, 0, 0};
    w->sync = mr_nn_sync_new(w->net, loss, &o, &(mr_nn_sync_options){.n_workers = WORKERS, .worker = w->number,
                                                                        .aggregate = w->c->aggregate});
    w->init = mr_nn_initializer(w->net);
    must(mr_scope_status(&w->net->s));
}

static void open_session(worker *w)
{
    mr_str config = {0};
    mr_pb_writer p;
    char own[64];
    snprintf(own, sizeof own, "/job:worker/task:%d", w->number);
    mr_pb_writer_init(&p, &config);
    mr_pb_put_bytes(&p, 4, MR_SV("/job:ps")); /* ConfigProto.device_filters */
    mr_pb_put_bytes(&p, 4, mr_sv_of(own));
    must(mr_server_session(w->c->servers[1 + w->number], w->graph, NULL, mr_str_view(&config), NULL, &w->session));
    mr_str_deinit(&config);
}

static void work(void *arg)
{
    worker *w = arg;
    mr_sync_worker at = {0};
    mr_tensor *x;
    must(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){4, 8}, &x));
    for (int i = 0; i < 32; i++)
        MR_DATA(float, x)[i] = (float)(i % 5) / 5;
    mr_run_args a = {.feeds = &w->x, .feed_values = &x, .n_feeds = 1};
    for (int i = 0; w->number ? !w->c->enough : i < STEPS; i++) {
        int64_t start = mr_now_ns();
        must(mr_nn_sync_run(w->sync, w->session, &a, &at));
        if (w->number == 0)
            w->c->times[i] = (double)(mr_now_ns() - start) / 1e9;
    }
    w->c->enough |= w->number == 0;
    must(mr_nn_sync_say(w->sync, w->session, w->number, MR_SYNC_LEAVE));
    mr_tensor_unref(x);
}

static void end_worker(worker *w)
{
    mr_session_free(w->session);
    mr_nn_sync_free(w->sync);
    mr_nn_free(w->net);
    mr_graph_unref(w->graph);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median step. */
static double real_step(double factor, int aggregate)
{
    crew *c = mr_new(crew);
    worker w[WORKERS + 1] = {0};
    c->aggregate = aggregate;
    start_crew(c, factor);
    for (int i = 0; i <= WORKERS; i++) { /* the last leads only */
        w[i].c = c;
        w[i].number = i % WORKERS;
        build(&w[i]);
        open_session(&w[i]);
    }
    must(mr_session_run(w[0].session, &(mr_run_args){.targets = &w[0].init, .n_targets = 1}, NULL, NULL));
    for (int i = 0; i < WORKERS; i++)
        mr_thread_start(&w[i].thread, "worker", work, &w[i]);
    must(mr_nn_sync_lead(w[WORKERS].sync, w[WORKERS].session));
    for (int i = 0; i < WORKERS; i++)
        mr_thread_join(&w[i].thread);
    for (int i = 0; i <= WORKERS; i++)
        end_worker(&w[i]);
    for (int i = 0; i <= WORKERS; i++)
        mr_server_free(c->servers[i]);
    mr_cluster_deinit(&c->cluster);
    qsort(c->times + SKIPPED, STEPS - SKIPPED, sizeof(double), by_size);
    double median = c->times[(STEPS + SKIPPED) / 2];
    mr_free(c);
    return median;
}

int main(void)
{
    mr_ops_register();
    printf("adaptive_backup_step_ratio_virtual %.3f times\n", virtual_step(FACTOR) / virtual_step(1));
    double alike = real_step(1, MR_SYNC_ADAPTIVE), straggler = real_step(FACTOR, MR_SYNC_ADAPTIVE), all = real_step(FACTOR, 0);
    printf("backup_step_without_straggler %.1f ms\n", alike * 1e3);
    printf("backup_step_waiting_for_straggler %.1f ms\n", all * 1e3);
    printf("adaptive_backup_step_ratio_real %.3f times\n", straggler / alike);
    return 0;
}
