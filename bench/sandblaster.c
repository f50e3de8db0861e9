/* bench/sandblaster.c -- Sandblaster L-BFGS: the speedup of replicas, the traffic of the coordinator, the effect of
 * small portions.
 *
 * A network on digits, two parameter servers and up to four replicas, all in this process but over its sockets. Most of
 * a portion's time is a sleep, as if a device somewhere computed it, so that four replicas fit on a machine with fewer
 * cores. Runs take turns; medians of TURNS. The cost of a slow replica is computed in virtual time, because real sleeps
 * on a loaded machine vary as much as the effect.
 *
 * sandblaster_iteration_*_replicas  an iteration of L-BFGS with a full history and 32 portions; *_speedup: beside one replica's
 * sandblaster_iteration_overhead_*  an iteration with so many parameters in which there is next to nothing to compute: vectors
 *                                   added and multiplied by servers, one after the other, one pull and one push
 * sandblaster_coordinator_*         bytes that it sends and receives in an iteration, to and from replicas and servers, with
 *                                   so many parameters; *_of_model: beside the bytes of these
 * sandblaster_virtual_batch_*       one loss and gradient of all data by four replicas in virtual time, with a portion for each or
 *                                   32 of them, as dist/sandblaster.c gives them out; *_slow: one of the four takes four
 *                                   times as long for whatever it computes.  Waiting for that one would take four times as
 *                                   long, and 1.23 times is the least (speeds of 3.25 instead of 4) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "dist/sandblaster.h"
#include "millrace/data.h"
#include "millrace/distbelief.h"
#include "train/digits.h"

enum { SERVERS = 2, REPLICAS = 4, PORTIONS = 32, WORK_MS = 160, SLOW = 4, HISTORY = 10, TURNS = 3 };
enum { SIDE = 28, SMALL = 64, LARGE = 512 }; /* of a digit; hidden units */
/* Few examples, for they are computed here.  Iterations before the history is full are not measured. */
enum { EXAMPLES = 64, WARM = HISTORY, MEASURED = 6 };

static struct mr_digits *digits;

static void must(TF_Status *status, const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
}

/* ---- in virtual time ---- */

#define MS INT64_C(1000000)
#define HOP_NS (MS / 5) /* latency of an order, and of its answer */
#define FLUSH_NS (2 * MS)
#define TICK_NS (50 * MS)

typedef struct world {
    mr_blast b;
    int64_t now_ns, tick_ns, portion_ns, batches;
    int slow;
    mr_blast_action orders[REPLICAS];
    int64_t done_ns[REPLICAS]; /* INT64_MAX: idle */
} world;

static void tell(world *w, mr_blast_event e)
{
    mr_blast_actions todo = {0};
    mr_blast_step(&w->b, &e, w->now_ns, &todo);
    for (int i = 0; i < todo.n; i++) {
        const mr_blast_action *a = &todo.p[i];
        if (a->what == MR_BLAST_COMPLETE) {
            w->batches++;
            continue;
        }
        w->orders[a->replica] = *a;
        w->done_ns[a->replica] =
            w->now_ns + HOP_NS + (a->what == MR_BLAST_FLUSH ? FLUSH_NS : w->portion_ns * (a->replica == 0 ? w->slow : 1));
    }
    mr_vec_deinit(&todo);
}

/* The next replica that is done, or a tick. */
static void pass_time(world *w)
{
    int r = 0;
    for (int i = 1; i < REPLICAS; i++)
        r = w->done_ns[i] < w->done_ns[r] ? i : r;
    if (w->tick_ns < w->done_ns[r]) {
        w->now_ns = w->tick_ns;
        w->tick_ns += TICK_NS;
        tell(w, (mr_blast_event){.kind = MR_BLAST_TICK, .replica = -1});
        return;
    }
    const mr_blast_action *a = &w->orders[r];
    w->now_ns = w->done_ns[r];
    w->done_ns[r] = INT64_MAX;
    tell(w, (mr_blast_event){a->what == MR_BLAST_FLUSH ? MR_BLAST_FLUSHED : MR_BLAST_DONE, r, a->evaluation, a->portion, 1});
}

static double virtual_batch_ms(int portions, int slow)
{
    enum { BATCHES = 100 };
    world w = {.tick_ns = TICK_NS, .portion_ns = WORK_MS * MS / portions, .slow = slow};
    mr_blast_init(&w.b, &(mr_blast_rules){portions, 1000 * MS});
    for (int i = 0; i < REPLICAS; i++) {
        w.done_ns[i] = INT64_MAX;
        tell(&w, (mr_blast_event){.kind = MR_BLAST_JOIN, .replica = i});
    }
    for (int64_t i = 1; i <= BATCHES; i++)
        for (tell(&w, (mr_blast_event){.kind = MR_BLAST_EVALUATE, .replica = -1}); w.batches < i;)
            pass_time(&w);
    mr_blast_deinit(&w.b);
    return (double)w.now_ns / MS / BATCHES;
}

static void show_virtual(int portions)
{
    double alike = virtual_batch_ms(portions, 1), slow = virtual_batch_ms(portions, SLOW);
    printf("sandblaster_virtual_batch_%d_portions %.1f ms\n", portions, alike);
    printf("sandblaster_virtual_batch_%d_portions_slow %.1f ms\n", portions, slow);
    printf("sandblaster_virtual_slow_ratio_%d_portions %.2f x\n", portions, slow / alike);
}

/* ---- what is run, and what was seen ---- */

typedef struct plan {
    int replicas, portions, hidden;
    int work_ms; /* of all portions together */
} plan;

typedef struct figures {
    double iteration_ms;
    double to_replicas, to_servers; /* bytes of an iteration, and from them */
} figures;

typedef struct moment {
    int64_t ns, iterations;
    mr_sandblaster_stats blaster;
    mr_ps_stats ps;
} moment;

typedef struct job {
    plan p;
    mr_ps_manager *manager;
    mr_ps_server *servers[SERVERS];
    mr_ps *ps; /* the coordinator's own */
    mr_sandblaster *s;
    moment first, last;
} job;

static void report(void *arg, int64_t iteration, double loss, double gradient_norm)
{
    job *j = arg;
    moment m = {mr_now_ns(), iteration, {.struct_size = sizeof m.blaster}, {.struct_size = sizeof m.ps}};
    (void)loss, (void)gradient_norm;
    mr_sandblaster_get_stats(j->s, &m.blaster);
    mr_ps_get_stats(j->ps, &m.ps);
    j->last = m;
    if (iteration == WARM)
        j->first = m;
}

static figures compare(const moment *a, const moment *b)
{
    double n = (double)(b->iterations - a->iterations), ms = (double)(b->ns - a->ns) * 1e-6;
    int64_t replicas = b->blaster.bytes_sent + b->blaster.bytes_received - a->blaster.bytes_sent - a->blaster.bytes_received;
    int64_t servers = b->ps.bytes_sent + b->ps.bytes_received - a->ps.bytes_sent - a->ps.bytes_received;
    return (figures){ms / n, (double)replicas / n, (double)servers / n};
}

/* ---- a replica ---- */

typedef struct replica {
    job *j;
    TF_Status *status;
    TF_Graph *graph;
    TF_Session *session;
    mr_sandblaster_replica *blaster;
    mr_ps *ps;
    mr_thread thread;
} replica;

static void read_portion(void *arg, int64_t portion, int64_t portions, TF_Tensor **in, double *weight, TF_Status *status)
{
    const replica *r = arg;
    (void)weight;
    int64_t each = EXAMPLES / portions;
    mr_digits_batch(digits, MR_SPLIT_TRAIN, 0, portion * each, each, &in[0], &in[1], status);
    mr_sleep_ns(r->j->p.work_ms * MS / portions);
}

static void join(replica *r)
{
    TF_Output in[2];
    mr_model *m = mr_model_new(r->graph = TF_NewGraph());
    in[0] = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, SIDE, SIDE, 1});
    in[1] = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_dense(m, "hidden", mr_flatten(m, in[0]), r->j->p.hidden, MR_TANH);
    r->blaster = mr_sandblaster_replica_new(m, mr_softmax_loss(m, mr_dense(m, "out", h, 10, MR_LINEAR), in[1]), in, 2);
    const TF_Operation *init = mr_initializer(m);
    mr_model_status(m, r->status);
    must(r->status, "building the model");
    mr_model_free(m);
    TF_SessionOptions *so = TF_NewSessionOptions();
    r->session = TF_NewSession(r->graph, so, r->status);
    must(r->status, "opening a session");
    TF_DeleteSessionOptions(so);
    TF_SessionRun(r->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, r->status);
    must(r->status, "initialising");
    r->ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = mr_ps_manager_address(r->j->manager)}, r->status);
    must(r->status, "connecting");
}

static void work(void *arg)
{
    replica *r = arg;
    mr_sandblaster_replica_work(r->blaster, r->session, r->ps,
                                &(mr_sandblaster_work){sizeof(mr_sandblaster_work), .coordinator = mr_sandblaster_address(r->j->s),
                                                       .portion = read_portion, .arg = r},
                                r->status);
    must(r->status, "working");
}

static void leave(replica *r)
{
    mr_sandblaster_replica_free(r->blaster);
    mr_ps_free(r->ps);
    TF_DeleteSession(r->session, r->status);
    TF_DeleteGraph(r->graph);
    TF_DeleteStatus(r->status);
}

/* ---- a job ---- */

static void open_job(job *j, TF_Status *status)
{
    j->manager = mr_ps_manager_start(&(mr_ps_manager_options){sizeof(mr_ps_manager_options), .servers = SERVERS, .replicas = 1}, status);
    must(status, "starting the manager");
    const char *manager = mr_ps_manager_address(j->manager);
    for (int i = 0; i < SERVERS; i++) {
        j->servers[i] = mr_ps_server_start(&(mr_ps_server_options){sizeof(mr_ps_server_options), .manager = manager}, status);
        must(status, "starting a server");
    }
    j->ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = manager}, status);
    must(status, "connecting");
    j->s = mr_sandblaster_start(&(mr_sandblaster_options){sizeof(mr_sandblaster_options), .portions = j->p.portions,
                                                          .history = HISTORY, .iterations = WARM + MEASURED, .l2 = 0.001,
                                                          .report = report, .arg = j}, j->ps, status);
    must(status, "starting the coordinator");
}

static figures run(plan p)
{
    TF_Status *status = TF_NewStatus();
    job j = {.p = p};
    replica r[REPLICAS] = {0};
    open_job(&j, status);
    for (int i = 0; i < p.replicas; i++) {
        r[i] = (replica){.j = &j, .status = TF_NewStatus()};
        join(&r[i]);
    }
    for (int i = 0; i < p.replicas; i++)
        if (mr_thread_start(&r[i].thread, "replica", work, &r[i]) != 0)
            exit(1);
    mr_sandblaster_minimize(j.s, status);
    must(status, "minimising");
    mr_sandblaster_free(j.s); /* lets them go */
    for (int i = 0; i < p.replicas; i++) {
        mr_thread_join(&r[i].thread);
        leave(&r[i]);
    }
    mr_ps_free(j.ps);
    for (int i = 0; i < SERVERS; i++)
        mr_ps_server_free(j.servers[i]);
    mr_ps_manager_free(j.manager);
    TF_DeleteStatus(status);
    if (j.last.iterations <= WARM) {
        fprintf(stderr, "the minimum was found too early for a measurement\n");
        exit(1);
    }
    return compare(&j.first, &j.last);
}

/* ---- by turns, for a machine that others use too ---- */

enum { ONE, TWO, FOUR, EMPTY, EMPTY_LARGE, LARGE_ONE, RUNS };

static const plan plans[RUNS] = {
    [ONE] = {1, PORTIONS, SMALL, WORK_MS},
    [TWO] = {2, PORTIONS, SMALL, WORK_MS},
    [FOUR] = {4, PORTIONS, SMALL, WORK_MS},
    [EMPTY] = {1, 1, SMALL, 0},
    [EMPTY_LARGE] = {1, 1, LARGE, 0},
    [LARGE_ONE] = {1, PORTIONS, LARGE, 0},
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the figure at this offset. */
static double median(figures f[TURNS][RUNS], int which, size_t offset)
{
    double x[TURNS];
    for (int i = 0; i < TURNS; i++)
        memcpy(&x[i], (char *)&f[i][which] + offset, sizeof x[i]);
    qsort(x, TURNS, sizeof *x, by_size);
    return x[TURNS / 2];
}

#define MEDIAN(run, what) median(f, run, offsetof(figures, what))

static long parameters(int which)
{
    int hidden = plans[which].hidden;
    return (SIDE * SIDE + 1) * hidden + (hidden + 1) * 10;
}

static void show_overhead(figures f[TURNS][RUNS], int which)
{
    printf("sandblaster_iteration_overhead_%ld %.1f ms\n", parameters(which), MEDIAN(which, iteration_ms));
}

static void show_bytes(figures f[TURNS][RUNS], int which)
{
    long n = parameters(which);
    double replicas = MEDIAN(which, to_replicas), servers = MEDIAN(which, to_servers);
    printf("sandblaster_coordinator_replica_bytes_%ld %.0f bytes\n", n, replicas);
    printf("sandblaster_coordinator_server_bytes_%ld %.0f bytes\n", n, servers);
    printf("sandblaster_coordinator_of_model_%ld %.3f x\n", n, (replicas + servers) / 4 / (double)n);
}

static void show(figures f[TURNS][RUNS])
{
    double one = MEDIAN(ONE, iteration_ms), two = MEDIAN(TWO, iteration_ms), four = MEDIAN(FOUR, iteration_ms);
    printf("sandblaster_iteration_1_replica %.1f ms\n", one);
    printf("sandblaster_iteration_2_replicas %.1f ms\n", two);
    printf("sandblaster_iteration_4_replicas %.1f ms\n", four);
    printf("sandblaster_iteration_2_replicas_speedup %.2f x\n", one / two);
    printf("sandblaster_iteration_4_replicas_speedup %.2f x\n", one / four);
    show_overhead(f, EMPTY);
    show_overhead(f, EMPTY_LARGE);
    show_bytes(f, ONE);
    show_bytes(f, LARGE_ONE);
}

int main(void)
{
    figures f[TURNS][RUNS];
    show_virtual(REPLICAS);
    show_virtual(PORTIONS);
    fflush(stdout);
    digits = mr_digits_generate(EXAMPLES, 10);
    for (int i = 0; i < TURNS; i++)
        for (int k = 0; k < RUNS; k++)
            f[i][k] = run(plans[k]);
    show(f);
    mr_digits_drop(digits);
    return 0;
}
