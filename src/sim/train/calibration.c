/* sim/train/calibration.c -- the table, and the experiments it belongs to. */
#include "sim/train/calibration.h"

#include "base/memory.h"

/* Fitted by `make calibrate`. */
const mr_simtrain_calibration mr_simtrain_osdi16 = {
    .rpc_s = 0.4295e-3,
    .token_s = 0.05157e-3,
    .compute_s = 1.727,
    .tail_s = 0.09565,
    .ps_bytes_per_s = 869.2e6,
};

/* Known facts of the experiments. How far ahead they fetch parameters is unknown: WINDOW follows our own schedule
 * (passes/schedule.c). */
enum { NULL_PS = 16, INCEPTION_PS = 17, WINDOW = 2 };

/* The stages of Inception-v3 on images of 299 x 299: millions of parameters, and millions of multiplications in the
 * forward pass of one image. */
static const struct {
    const char *name;
    double parameters, products;
} stages[] = {
    {"stem", 0.172, 1341},     {"mixed_5b", 0.255, 312}, {"mixed_5c", 0.276, 339}, {"mixed_5d", 0.284, 348},
    {"mixed_6a", 1.152, 402},  {"mixed_6b", 1.294, 374}, {"mixed_6c", 1.688, 488}, {"mixed_6d", 1.688, 488},
    {"mixed_6e", 2.138, 618},  {"mixed_7a", 1.696, 291}, {"mixed_7b", 5.038, 322}, {"mixed_7c", 6.070, 388},
    {"logits", 2.048, 2},
};

static void init_experiment(mr_simtrain_experiment *e, const mr_simtrain_calibration *c, int workers)
{
    mr_simtrain_job_init(&e->job);
    e->job.chunks = e->chunks;
    e->job.n_workers = workers;
    e->job.rpc_s = e->job.rpc_tail_s = c->rpc_s;
    e->job.token_s = c->token_s;
}

void mr_simtrain_null_step(const mr_simtrain_calibration *c, int workers, mr_simtrain_experiment *out)
{
    init_experiment(out, c, workers);
    out->job.n_ps = NULL_PS;
    out->job.mode = MR_SIMTRAIN_SYNC;
    out->chunks[0] = (mr_simtrain_chunk){.name = "scalar", .bytes = 4 * NULL_PS, .ps = -1};
    out->job.n_chunks = 1;
}

/* A stage has many variables, so each chunk is spread over all servers. The service time of a message is exponential,
 * as is usual in queueing models. Backward takes twice as long as forward. */
void mr_simtrain_inception(const mr_simtrain_calibration *c, mr_simtrain_mode mode, int workers, int backup,
                           mr_simtrain_experiment *out)
{
    init_experiment(out, c, workers);
    out->job.n_ps = INCEPTION_PS;
    out->job.mode = mode;
    out->job.backup = backup;
    out->job.batch = 32;
    out->job.tail_s = c->tail_s;
    out->job.ps_bytes_per_s = c->ps_bytes_per_s;
    out->job.ps_jitter = 1;
    out->job.window = WINDOW;
    out->job.n_chunks = MR_COUNT(stages);
    double products = 0;
    for (int i = 0; i < MR_COUNT(stages); i++)
        products += stages[i].products;
    for (int i = 0; i < MR_COUNT(stages); i++) {
        double compute_s = c->compute_s * stages[i].products / products;
        out->chunks[i] = (mr_simtrain_chunk){.name = stages[i].name, .forward_s = compute_s / 3, .backward_s = compute_s * 2 / 3,
                                             .bytes = 4e6 * stages[i].parameters, .ps = -1};
    }
}

/* ---- published results ---- */

#define NULL_STEP(x, v, end) {MR_SIMTRAIN_NULL_STEP, "null step, ms", x, v, end}
#define ASYNC(x, v, end) {MR_SIMTRAIN_INCEPTION_ASYNC, "async, images/s", x, v, end}
#define SYNC(x, v, end) {MR_SIMTRAIN_INCEPTION_SYNC, "sync, images/s", x, v, end}
#define BACKUP(x, v, end) {MR_SIMTRAIN_INCEPTION_BACKUP, "50 + backups, s", x, v, end}

const mr_simtrain_figure mr_simtrain_osdi16_figures[] = {
    NULL_STEP(1, 1.85, true), NULL_STEP(10, 3.12, false), NULL_STEP(25, 4.45, false),
    NULL_STEP(50, 6.55, false), NULL_STEP(100, 8.89, true),
    ASYNC(25, 437, true),     ASYNC(50, 878, false),      ASYNC(100, 1625, false),  ASYNC(200, 2316, true),
    SYNC(25, 403, true),      SYNC(50, 786, false),       SYNC(100, 1457, false),   SYNC(200, 2112, true),
    BACKUP(0, 2.264, true),   BACKUP(1, 2.105, false),    BACKUP(2, 2.069, false),
    BACKUP(3, 1.951, false),  BACKUP(4, 1.936, false),    BACKUP(5, 1.967, true),
};
const int mr_simtrain_n_figures = MR_COUNT(mr_simtrain_osdi16_figures);

/* Enough steps that another seed changes no result by more than about 1 %. */
static void make_experiment(const mr_simtrain_calibration *c, const mr_simtrain_figure *f, mr_simtrain_experiment *e)
{
    bool is_sync = f->kind != MR_SIMTRAIN_INCEPTION_ASYNC;
    if (f->kind == MR_SIMTRAIN_NULL_STEP) {
        mr_simtrain_null_step(c, f->x, e);
        e->job.steps = 1000;
    } else if (f->kind == MR_SIMTRAIN_INCEPTION_BACKUP) {
        mr_simtrain_inception(c, MR_SIMTRAIN_SYNC, 50, f->x, e);
        e->job.steps = 320;
    } else {
        mr_simtrain_inception(c, is_sync ? MR_SIMTRAIN_SYNC : MR_SIMTRAIN_ASYNC, f->x, 0, e);
        e->job.steps = is_sync ? 120 : 60;
    }
    e->job.warmup = 20;
}

mr_status *mr_simtrain_figure_run(const mr_simtrain_calibration *c, const mr_simtrain_figure *f, double *out)
{
    mr_simtrain_experiment e;
    mr_simtrain_result r;
    make_experiment(c, f, &e);
    MR_TRY(mr_simtrain_run(&e.job, &r));
    if (f->kind == MR_SIMTRAIN_NULL_STEP)
        *out = r.step.median * 1e3;
    else
        *out = f->kind == MR_SIMTRAIN_INCEPTION_BACKUP ? r.step.median : r.examples_per_s;
    mr_simtrain_result_deinit(&r);
    return NULL;
}
