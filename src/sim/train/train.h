/* sim/train/train.h -- a training job over n workers and p parameter servers, in virtual time.
 *
 * Every worker runs the same step: ask the parameter servers for the parameters of each chunk (a layer, or several), compute
 * forward as they come, compute backward, and push each chunk's gradients as soon as they are there.  A parameter server
 * does one message after the other.  Who may begin its next step when is decided by the very code of the real thing: the
 * barrier of dist/sync.c (with the first m of n for backup workers, m chosen by dist/backups.c on request), bounded delay of dist/delay.c, members by dist/membership.c, the way back after a
 * loss by dist/recovery.c.
 *
 * All is made of the job and its seed: the same job gives the same result to the last bit.  Nothing here measures anything;
 * where the times come from is the caller's affair (a graph's placement, a measured step, or calibration.h).
 *
 *     mr_simtrain_job job;
 *     mr_simtrain_job_init(&job);
 *     job.chunks = chunks, job.n_chunks = 10, job.n_workers = 50, job.n_ps = 17;
 *     mr_simtrain_result r;
 *     MR_TRY(mr_simtrain_run(&job, &r));
 *     mr_simtrain_print(&job, &r, &text);
 *     mr_simtrain_result_deinit(&r);
 */
#ifndef MR_SIM_TRAIN_TRAIN_H
#define MR_SIM_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "base/vec.h"

/* Beyond these a job is refused: it would not end in a bearable time. */
enum {
    MR_SIMTRAIN_MAX_TASKS = 20000,
    MR_SIMTRAIN_MAX_CHUNKS = 10000,
    MR_SIMTRAIN_MAX_STEPS = 10000000,
    MR_SIMTRAIN_MAX_CRASHES = 10000,
    MR_SIMTRAIN_MAX_SPANS = 1000000, /* later ones are left out */
};
#define MR_SIMTRAIN_MAX_SECONDS 1e9     /* of any one time */
#define MR_SIMTRAIN_MAX_WORK INT64_C(100000000) /* workers x steps x chunks (x parameter servers, on shared hosts) */

typedef enum mr_simtrain_mode {
    MR_SIMTRAIN_ASYNC,   /* nobody waits for anybody */
    MR_SIMTRAIN_SYNC,    /* a step is complete when the gradients of n_workers are there; `backup` more workers run */
    MR_SIMTRAIN_BOUNDED, /* a worker is at most `delay_bound` steps ahead of the slowest */
} mr_simtrain_mode;

typedef enum mr_simtrain_kind {
    MR_SIMTRAIN_WORKER,
    MR_SIMTRAIN_PS,
    MR_SIMTRAIN_CHIEF, /* in a crash: whichever worker is the chief then */
} mr_simtrain_kind;

typedef struct mr_simtrain_chunk {
    const char *name; /* for timelines; NULL: its number */
    double forward_s, backward_s;
    double bytes; /* of parameters; as many of gradients */
    int ps;       /* which one holds it; -1: spread evenly over all of them */
} mr_simtrain_chunk;

typedef struct mr_simtrain_slow {
    int worker;
    double factor; /* its compute takes so many times as long */
} mr_simtrain_slow;

typedef struct mr_simtrain_crash {
    mr_simtrain_kind kind;
    int index;
    double at_s;
    bool silent; /* the whole host: only its silence tells.  Else a process: connections to it are refused at once */
} mr_simtrain_crash;

typedef struct mr_simtrain_job {
    /* What is trained.  Chunks are borrowed for the call. */
    const mr_simtrain_chunk *chunks;
    int n_chunks;
    double batch; /* examples a worker and step */
    int steps;    /* of each worker, on average: steps * n_workers gradients are applied in all */
    int warmup;   /* the first of them are not counted in distributions and rates */
    uint64_t seed;

    /* By whom. */
    int n_workers, n_ps;
    mr_simtrain_mode mode;
    int backup;      /* SYNC: so many workers more than n_workers; the last to come in each step are dropped */
    bool adaptive;   /* SYNC: how many are dropped is chosen before each step, of all who run (dist/backups.h); BOUNDED: so is the
                        bound, as it pays (dist/delay.h) */
    int delay_bound; /* BOUNDED */

    /* What a step costs beside its chunks. */
    double step_s;   /* once a worker and step, before anything else */
    double rpc_s;      /* the call that begins a step, one to each task it has a part on; there and back */
    double rpc_tail_s; /* mean of an exponential addition to each of them; the step waits for the last */
    double latency_s;  /* one way, of any message of a step, of a word to the chief and of its token */
    double token_s;    /* the chief's time for each worker it tells to go on; when all are told, all hear it */
    int window;      /* chunks asked for ahead of the one that computes; 0: all at once */

    /* What a parameter server, or a worker's network interface, needs for a message: one at a time. */
    double ps_message_s, ps_bytes_per_s;         /* 0 bytes/s: no limit */
    double ps_jitter; /* share of that time that chance decides (exponential, of the same mean); 0: none, 1: all */
    double worker_bytes_per_s;
    bool duplex; /* parameter servers send and receive at once */

    /* Tasks that share hosts: parameter servers, then workers, are dealt out to them.  Compute and the time of a parameter
     * server's messages are then work for the cores of the host, shared evenly. */
    int n_hosts;         /* 0: each task has one for itself */
    double cores;        /* a host */
    double worker_cores; /* what one worker's compute can use */

    /* Stragglers. */
    double tail_s;     /* mean of an exponential addition to a step's compute */
    double tail_share; /* of steps that have one; 1: all */
    double spread;     /* sigma of a log-normal factor of each worker's compute, drawn once */
    const mr_simtrain_slow *slow;
    int n_slow;

    /* Crashes, given or by mean time between failures of one task (0: none), and the way back. */
    const mr_simtrain_crash *crashes;
    int n_crashes;
    double worker_mtbf_s, ps_mtbf_s;
    double mtbf_silent;  /* share of those crashes that take the host */
    double restart_s;    /* until a crashed task is there again */
    double open_s;       /* to open a session over the cluster */
    double lease_s;      /* SYNC: a silent worker is waited for so long; 0: 10 s */
    double checkpoint_s; /* from one checkpoint to the next; 0: none are written */
    double save_s, restore_s;
    bool save_blocks; /* no step begins while a checkpoint is written; else it is written beside training */
    double chief_s;      /* after so long a silence of the chief the next worker takes its place; 0: 10 s */

    int span_steps; /* the timeline of so many steps is kept; 0: none */
    int64_t max_events; /* a job that needs more does not get on; 0: as many as are bearable */
} mr_simtrain_job;

typedef struct mr_simtrain_dist {
    int64_t n;
    double mean, min, p10, median, p90, p99, max;
} mr_simtrain_dist;

/* What a crash cost. */
typedef struct mr_simtrain_loss {
    mr_simtrain_kind kind; /* WORKER, PS; CHIEF when the worker was the chief */
    int index;
    bool silent;
    double at_s, noticed_s, back_s; /* back: the task works again; NAN: not before the end */
    double stopped_s;       /* from the crash until gradients are applied again; of others, when a worker was lost */
    double lost_steps;      /* a worker's worth of steps that were applied and are to be done again */
    double lost_s;          /* ... and the time since that checkpoint */
    double checkpoint_at_s; /* the one that was restored: when it was complete; NAN: none, from the start or not needed */
    double saved_steps;     /* what it saved: steps that need not be done again */
} mr_simtrain_loss;

typedef enum mr_simtrain_doing {
    MR_SIMTRAIN_CALL,  /* opens the step */
    MR_SIMTRAIN_FETCH, /* waits for parameters */
    MR_SIMTRAIN_FORWARD,
    MR_SIMTRAIN_BACKWARD,
    MR_SIMTRAIN_PUSH, /* waits for the last gradients to be taken */
    MR_SIMTRAIN_WAIT, /* at the barrier, or for the slowest */
    MR_SIMTRAIN_SERVE, /* of a parameter server: a message */
    MR_SIMTRAIN_SAVE,
    MR_SIMTRAIN_RESTORE,
    MR_SIMTRAIN_DOWN,
} mr_simtrain_doing;

typedef struct mr_simtrain_span {
    mr_simtrain_kind kind;
    int index;
    mr_simtrain_doing doing;
    int chunk; /* -1: of none */
    int step;
    double start_s, end_s;
} mr_simtrain_span;

typedef struct mr_simtrain_worker {
    double call_s, busy_s, fetch_s, push_s, wait_s, down_s; /* since the warm-up */
    int64_t steps, dropped;
} mr_simtrain_worker;

typedef struct mr_simtrain_result {
    double total_s;
    double ideal_s;       /* the same job without crashes and checkpoints; total_s when there are none */
    double examples_per_s;
    mr_simtrain_dist step; /* SYNC: from one update to the next; else of each worker, from one begin to the next */
    mr_simtrain_dist staleness; /* updates by others between the fetch of parameters and the own update */
    int max_lead;          /* steps that a worker was ahead of the slowest when it began one */
    double ps_busy, ps_busiest; /* share of the time that the mean, the busiest parameter server works */
    double worker_busy, worker_nic_busy, chief_busy;
    double core_busy;      /* of shared hosts; 0: there are none */
    int64_t applied;       /* gradients, counting again what was lost and redone */
    int64_t dropped;       /* gradients that came too late for their step */
    int64_t events;
    int n_checkpoints;
    int n_workers;         /* that run: backups too */
    mr_simtrain_worker *workers;
    MR_VEC(mr_simtrain_loss) losses;
    MR_VEC(mr_simtrain_span) spans; /* in the order of their ends */
} mr_simtrain_result;

/* One worker, one parameter server, asynchronous, no failures, 100 steps of a batch of 1, no chunks, no costs. */
void mr_simtrain_job_init(mr_simtrain_job *job);
/* INVALID_ARGUMENT names the member that makes no sense. */
mr_status *mr_simtrain_check(const mr_simtrain_job *job);
mr_status *mr_simtrain_run(const mr_simtrain_job *job, mr_simtrain_result *out);
void mr_simtrain_result_deinit(mr_simtrain_result *r);
/* For people: a page of text. */
void mr_simtrain_print(const mr_simtrain_job *job, const mr_simtrain_result *r, mr_str *out);

const char *mr_simtrain_mode_name(mr_simtrain_mode m);    /* "async" */
const char *mr_simtrain_doing_name(mr_simtrain_doing d);  /* "forward" */
const char *mr_simtrain_kind_name(mr_simtrain_kind k);    /* "worker" */

/* ---- sweep.c: one member from .. to ---- */

typedef struct mr_simtrain_point {
    double value;
    double examples_per_s, step_median_s, step_p99_s, ps_busiest;
} mr_simtrain_point;

typedef struct mr_simtrain_sweep {
    char what[24];
    bool doubles; /* from one point to the next; else they are evenly apart */
    MR_VEC(mr_simtrain_point) points;
    /* The smallest value from which twice as much adds under 5 % of throughput, at each later point of the table; NAN: there
     * is none, or it is not asked. */
    double knee;
    double dip; /* without a knee: the first value whose double adds under 5 % although later ones add more; NAN: none */
    double best; /* the smallest value whose throughput is within 1 % of the highest */
} mr_simtrain_sweep;

/* what: "workers", "ps" (1, 2, 4, .. between from and to, both included) or "backup", "delay" (every one, or steps that
 * make 32).  INVALID_ARGUMENT for others. */
mr_status *mr_simtrain_sweep_run(const mr_simtrain_job *job, const char *what, double from, double to, mr_simtrain_sweep *out);
/* knee, dip and best of the points. */
void mr_simtrain_sweep_conclude(mr_simtrain_sweep *s);
void mr_simtrain_sweep_print(const mr_simtrain_sweep *s, mr_str *out);
void mr_simtrain_sweep_deinit(mr_simtrain_sweep *s);

#endif
