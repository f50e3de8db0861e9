/* sim/train/train.h -- a training job over n workers and p parameter servers, in virtual time.
 *
 * Every worker runs the same step: fetch the parameters of each chunk (one or more layers) from the parameter servers,
 * compute forward as they arrive, compute backward, and push each chunk's gradients as soon as they are computed. A
 * parameter server processes one message after the other. The production code decides when a worker may begin its next
 * step: the barrier of dist/sync.c (with the first m of n for backup workers, m chosen by dist/backups.c on request),
 * bounded delay of dist/delay.c, members by dist/membership.c, the way back after a loss by dist/recovery.c. In training
 * by all-reduce there are no parameter servers: workers reduce their gradients in a ring, whose members dist/elastic.c
 * chooses.
 *
 * The result depends only on the job and its seed, to the last bit. Nothing is measured here; the caller supplies the
 * times (from a graph's placement, a measured step, or calibration.h).
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

#include "base/cancel_flag.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vec.h"

/* Larger jobs are rejected: they would not end in a reasonable time. */
enum {
    MR_SIMTRAIN_MAX_TASKS = 20000,
    MR_SIMTRAIN_MAX_CHUNKS = 10000,
    MR_SIMTRAIN_MAX_STEPS = 10000000,
    MR_SIMTRAIN_MAX_CRASHES = 10000,
    MR_SIMTRAIN_MAX_SPANS = 1000000, /* of steps; later ones are left out */
    MR_SIMTRAIN_WATCHED = 64,        /* tasks whose spans are left out last */
    MR_SIMTRAIN_WATCHED_PS = 16,     /* parameter servers among them, if there are so many workers */
    MR_SIMTRAIN_MAX_INCIDENTS = 100000, /* spans of checkpoints and failures; later ones are left out */
};
#define MR_SIMTRAIN_MAX_SECONDS 1e9     /* of any one time */
#define MR_SIMTRAIN_MAX_WORK INT64_C(100000000) /* workers x steps x chunks (x parameter servers, on shared hosts) */

typedef enum mr_simtrain_mode {
    MR_SIMTRAIN_ASYNC,   /* workers do not wait for each other */
    MR_SIMTRAIN_SYNC,    /* a step is complete when the gradients of n_workers are there; `backup` more workers run */
    MR_SIMTRAIN_BOUNDED, /* a worker is at most `delay_bound` steps ahead of the slowest */
    MR_SIMTRAIN_ALLREDUCE, /* all workers wait for all, and reduce their gradients in a ring; no parameter servers */
} mr_simtrain_mode;

typedef enum mr_simtrain_kind {
    MR_SIMTRAIN_WORKER,
    MR_SIMTRAIN_PS,
    MR_SIMTRAIN_CHIEF, /* in a crash: the worker that is the chief at that time */
} mr_simtrain_kind;

typedef struct mr_simtrain_chunk {
    const char *name; /* for timelines; NULL: its number */
    double forward_s, backward_s;
    double bytes; /* size of the parameters, and of the gradients */
    int ps;       /* which one holds it; -1: spread evenly over all of them */
} mr_simtrain_chunk;

/* A slow task. The factor applies to work that begins in the interval; factors of overlapping intervals multiply. */
typedef struct mr_simtrain_slow {
    int index;
    double factor; /* on the compute time of a worker, or on the time of a message at a parameter server */
    mr_simtrain_kind kind; /* WORKER or PS */
    double at_s, for_s;    /* for_s 0: to the end */
} mr_simtrain_slow;

typedef struct mr_simtrain_crash {
    mr_simtrain_kind kind;
    int index;
    double at_s;
    bool silent; /* the whole host fails, which only its silence reveals. Otherwise a process: connections to it are
                  * refused at once */
} mr_simtrain_crash;

/* No message passes between a worker and a parameter server. Messages wait until the cut ends, and those that are under
 * way when it begins are sent again after it. Messages between a worker and the chief, and the chief's record, pass
 * through parameter server 0. */
typedef struct mr_simtrain_cut {
    int worker;
    int ps; /* -1: all parameter servers. ALLREDUCE: -1, and the worker is cut off from all others */
    double at_s, for_s;
} mr_simtrain_cut;

typedef struct mr_simtrain_job {
    /* What is trained.  Chunks are borrowed for the call. */
    const mr_simtrain_chunk *chunks;
    int n_chunks;
    double batch; /* examples per worker and step */
    int steps;    /* of each worker, on average: steps * n_workers gradients are applied in total */
    int warmup;   /* the first steps are not counted in distributions and rates */
    uint64_t seed;

    /* Who trains. */
    int n_workers, n_ps; /* ALLREDUCE: n_ps is not used, and the servers of chunks are not either */
    mr_simtrain_mode mode;
    int backup;      /* SYNC: this many workers more than n_workers; the last gradients of each step are dropped */
    bool adaptive;   /* SYNC: the number of dropped gradients is chosen before each step (dist/backups.h); BOUNDED: the
                      * bound is chosen (dist/delay.h) */
    int delay_bound; /* BOUNDED */

    /* Costs of a step besides its chunks. */
    double step_s;   /* once per worker and step, before anything else */
    double rpc_s;      /* the call that begins a step, one to each task it has a part on; round trip */
    double rpc_tail_s; /* mean of an exponential addition to each call; the step waits for the last */
    double latency_s;  /* one way, of any message of a step, to the chief and from it */
    double token_s;    /* the chief's time to release one worker; all get their tokens when the last is released */
    int window;      /* chunks requested ahead of the one that computes; 0: all at once */

    /* Time of a message at a parameter server, or at a worker's network interface: one message at a time. */
    double ps_message_s, ps_bytes_per_s;         /* 0 bytes/s: no limit */
    double ps_jitter; /* random share of that time (exponential, with the same mean); 0: none, 1: all */
    double worker_bytes_per_s;
    bool duplex; /* parameter servers send and receive at the same time */

    /* Tasks may share hosts: parameter servers, then workers, are assigned to them in turn. Compute and the time of a
     * parameter server's messages are then work for the cores of the host, shared evenly. */
    int n_hosts;         /* 0: each task has its own */
    double cores;        /* cores of a host */
    double worker_cores; /* cores that one worker can use */

    /* Stragglers. */
    double tail_s;     /* mean of an exponential addition to a step's compute */
    double tail_share; /* share of steps with this addition; 1: all */
    double spread;     /* sigma of a log-normal factor of each worker's compute, drawn once */
    const mr_simtrain_slow *slow;
    int n_slow;

    /* Crashes, at given times or by the mean time between failures of one task (0: none), and recovery. */
    const mr_simtrain_crash *crashes;
    int n_crashes;
    const mr_simtrain_cut *cuts;
    int n_cuts;
    double worker_mtbf_s, ps_mtbf_s;
    double mtbf_silent;  /* share of these crashes that take down the whole host */
    double restart_s;    /* until a crashed task runs again */
    double open_s;       /* to open a session with the cluster */
    double lease_s;      /* SYNC, ALLREDUCE: how long to wait for a silent worker; 0: 10 s */
    double checkpoint_s; /* time between checkpoints; 0: no checkpoints */
    const double *checkpoints; /* times of further checkpoints, in any order */
    int n_checkpoints;
    double save_s, restore_s;
    bool save_blocks; /* no step begins while a checkpoint is written; otherwise training continues meanwhile */
    double chief_s;      /* how long the chief may be silent before the next worker takes over; 0: 10 s */

    int span_steps; /* number of steps whose timeline is kept; 0: none */
    int64_t max_events; /* a job that needs more is considered stuck; 0: a default limit */
    const mr_cancel_flag *cancelled; /* ends the run with CANCELLED; NULL: nothing does */
} mr_simtrain_job;

typedef struct mr_simtrain_dist {
    int64_t n;
    double mean, min, p10, median, p90, p99, max; /* each but the mean is one of the samples */
} mr_simtrain_dist;

/* What a crash cost. */
typedef struct mr_simtrain_loss {
    mr_simtrain_kind kind; /* WORKER, PS; CHIEF if the worker was the chief */
    int index;
    bool silent;
    double at_s, noticed_s, back_s; /* back: the task works again; NAN: it did not before the end */
    double restarted_s;     /* when its process ran again; NAN: it did not before the end */
    double reached_s;       /* PS: when the chief, which tries with growing pauses, found it and began to restore; NAN:
                             * it did not. A worker: restarted_s */
    double stopped_s;       /* from the crash until gradients are applied again; after the loss of a worker, those of
                             * others, or the longest time without any until it is back, if that is unusually long: a
                             * barrier may complete one more step with gradients that the worker had already sent */
    bool settled;           /* stopped_s does not change any more */
    double lost_steps;      /* steps, in units of one worker, that were applied and must be repeated */
    double lost_s;          /* the time since that checkpoint */
    double checkpoint_at_s; /* when the restored checkpoint was complete; NAN: none was restored */
    double checkpoint_taken_s; /* when it was begun: it holds the state of that time; NAN: none was restored */
    double saved_steps;     /* steps that need not be repeated thanks to it */
} mr_simtrain_loss;

typedef enum mr_simtrain_doing {
    MR_SIMTRAIN_CALL,  /* opens the step */
    MR_SIMTRAIN_FETCH, /* waits for parameters */
    MR_SIMTRAIN_FORWARD,
    MR_SIMTRAIN_BACKWARD,
    MR_SIMTRAIN_PUSH, /* waits for the last gradients to be taken */
    MR_SIMTRAIN_WAIT, /* at the barrier, or for the slowest */
    MR_SIMTRAIN_SERVE, /* a parameter server handles a message */
    MR_SIMTRAIN_SAVE,
    MR_SIMTRAIN_RESTORE,
    MR_SIMTRAIN_DOWN,
    MR_SIMTRAIN_CUT, /* a worker is cut off from parameter servers */
    MR_SIMTRAIN_REDUCE, /* ALLREDUCE: all have computed, and wait for the rest of the exchange */
} mr_simtrain_doing;

typedef struct mr_simtrain_span {
    mr_simtrain_kind kind;
    int index;
    mr_simtrain_doing doing;
    int chunk; /* -1: belongs to no chunk */
    int step;
    double start_s, end_s;
    bool dropped; /* PUSH: the gradient came too late for its step */
} mr_simtrain_span;

/* How many steps count at a time: steps that a crash has lost are subtracted. */
typedef struct mr_simtrain_progress {
    double at_s, steps; /* of each worker, on average: mr_simtrain_job.steps at the end */
} mr_simtrain_progress;

/* A worker is down from its crash until it works again. All other time in which it can do nothing is spent waiting, also
 * while another task is down. */
typedef struct mr_simtrain_worker {
    double call_s, busy_s, fetch_s, push_s, wait_s, down_s; /* since the warm-up; push: also the rest of an all-reduce */
    int64_t steps, dropped; /* of the whole training: steps that it ended, and those whose gradients came too late */
    int64_t last;           /* SYNC, ALLREDUCE: steps of the whole training that its gradients completed */
} mr_simtrain_worker;

typedef struct mr_simtrain_result {
    double total_s;
    double ideal_s;       /* of the same job without crashes, cuts and checkpoints; total_s if it has none */
    double calm_s;        /* of the same job without crashes and cuts, but with its checkpoints; total_s if it has none */
    double examples_per_s;
    double steps_per_s; /* since the warm-up. SYNC, ALLREDUCE: updates; otherwise the steps of all workers together */
    mr_simtrain_dist step; /* SYNC, ALLREDUCE: from one update to the next; otherwise of each worker, from one begin to the next */
    mr_simtrain_dist staleness; /* updates by others between the fetch of parameters and the worker's own update */
    int max_lead;          /* the most steps that a worker was ahead of the slowest when it began one */
    double ps_busy, ps_busiest; /* share of the time that parameter servers work: the mean, and the busiest one */
    double worker_busy, worker_nic_busy, chief_busy;
    double core_busy;      /* of shared hosts; 0 if there are none */
    int64_t applied;       /* gradients, including repeated ones */
    int64_t dropped;       /* gradients that arrived too late for their step */
    int64_t events;
    int n_checkpoints;
    int n_workers;         /* including backups */
    mr_simtrain_worker *workers;
    MR_VEC(mr_simtrain_loss) losses;
    MR_VEC(mr_simtrain_span) spans; /* ordered by their ends */
    double spans_until_s; /* spans of watched tasks are missing from this time on; INFINITY: none are */
    MR_VEC(mr_simtrain_progress) progress; /* by time: a few hundred points, one at 0 and one at the end */
} mr_simtrain_result;

/* One worker, one parameter server, asynchronous, no failures, 100 steps of a batch of 1, no chunks, no costs. */
void mr_simtrain_job_init(mr_simtrain_job *job);
/* INVALID_ARGUMENT; the message names the invalid member. */
mr_status *mr_simtrain_check(const mr_simtrain_job *job);
mr_status *mr_simtrain_run(const mr_simtrain_job *job, mr_simtrain_result *out);
void mr_simtrain_result_deinit(mr_simtrain_result *r);
/* A page of text. */
void mr_simtrain_print(const mr_simtrain_job *job, const mr_simtrain_result *r, mr_str *out);

const char *mr_simtrain_mode_name(mr_simtrain_mode m);    /* "async" */
const char *mr_simtrain_doing_name(mr_simtrain_doing d);  /* "forward" */
const char *mr_simtrain_kind_name(mr_simtrain_kind k);    /* "worker" */
/* Checkpoints and failures: recorded for the whole training, everything else only for its first steps. */
bool mr_simtrain_is_incident(mr_simtrain_doing d);

/* Sets watched[task], which must be 0, of the tasks that are watched; workers come first, then parameter servers. */
void mr_simtrain_watch(const mr_simtrain_job *job, uint8_t *watched);

/* ---- sweep.c: varies one member ---- */

typedef struct mr_simtrain_point {
    double value;
    double examples_per_s, step_median_s, step_p99_s, ps_busiest, steps_per_s;
} mr_simtrain_point;

typedef struct mr_simtrain_sweep {
    char what[24];
    bool doubles; /* each value is twice the one before; otherwise they are evenly spaced */
    MR_VEC(mr_simtrain_point) points;
    /* The smallest value from which doubling adds less than 5 % of throughput, at every later point of the table; NAN:
     * there is none, or it is not computed. */
    double knee;
    double dip; /* without a knee: the first value whose doubling adds less than 5 % although later ones add more; NAN:
                 * none */
    double best; /* the smallest value whose throughput is within 1 % of the highest */
} mr_simtrain_sweep;

/* what: "workers" or "ps" (doubling between from and to, both included), "backup" or "delay" (every value, or about 32
 * evenly spaced ones). INVALID_ARGUMENT for others. */
mr_status *mr_simtrain_sweep_run(const mr_simtrain_job *job, const char *what, double from, double to, mr_simtrain_sweep *out);
/* Sets knee, dip and best from the points. */
void mr_simtrain_sweep_conclude(mr_simtrain_sweep *s);
void mr_simtrain_sweep_print(const mr_simtrain_sweep *s, mr_str *out);
void mr_simtrain_sweep_deinit(mr_simtrain_sweep *s);

#endif
