/* sim/train/engine.h -- internals of a simulated training job, for the files of this folder.
 *
 * Tasks are numbered: workers (backups too) from 0, then parameter servers. Everything happens in events, in the order
 * of their time and then of their creation. An event belongs to a task and to one generation of it; events of an
 * earlier generation are dropped. A worker's generation ends when it crashes and also when its session ends. */
#ifndef MR_SIM_TRAIN_ENGINE_H
#define MR_SIM_TRAIN_ENGINE_H

#include "dist/delay.h"
#include "dist/election.h"
#include "dist/membership.h"
#include "dist/recovery.h"
#include "dist/sync.h"
#include "sim/train/train.h"

typedef struct mr_jobsim mr_jobsim;
typedef void mr_jobsim_fn(mr_jobsim *s, int task, int arg);

typedef struct mr_jobsim_event {
    double at_s;
    uint64_t seq;
    mr_jobsim_fn *fn;
    int task, arg; /* task -1: belongs to no task */
    uint32_t generation;
} mr_jobsim_event;

/* Work for the cores of a shared host. */
typedef struct mr_jobsim_work {
    double end; /* in the host's own time, which advances at the rate of its cores */
    uint64_t seq;
    double cores;
    mr_jobsim_fn *fn;
    int task, arg;
    uint32_t generation;
} mr_jobsim_work;

typedef struct mr_jobsim_host {
    MR_VEC(mr_jobsim_work) works;
    double time, looked_s; /* its own time, and the simulated time at which it was computed */
    double wanted;         /* cores that all its work could use */
    double used_s;         /* core seconds */
} mr_jobsim_host;

/* A message in the queue of a parameter server on a shared host. */
typedef struct mr_jobsim_message {
    int worker, chunk;
    uint32_t generation;
    bool push;
} mr_jobsim_message;

typedef struct mr_jobsim_ps {
    double free_s[2]; /* when its queues are empty: sending, receiving; without duplex only the first */
    double busy_s;
    bool up, ready; /* ready: its variables are initialized */
    MR_VEC(mr_jobsim_message) queue; /* from `first` on */
    int first;
    bool serving;
} mr_jobsim_ps;

typedef enum mr_jobsim_phase {
    MR_JOBSIM_AWAY, /* down, or recovering */
    MR_JOBSIM_IDLE, /* waiting for a token or for the slowest worker */
    MR_JOBSIM_STEP,
} mr_jobsim_phase;

typedef struct mr_jobsim_worker {
    mr_jobsim_phase phase;
    bool up;
    uint64_t random;
    double factor; /* slowness of its compute, constant */
    double scale;  /* the same for the current step */
    /* the step */
    double began_s, free_s; /* free: since when it has not computed anything */
    bool began;             /* this generation has begun a step before: the step time counts */
    int asked, at, open;    /* chunks requested; computed forward; gradients in flight */
    bool computing, computed;
    uint8_t *arrived;    /* by chunk */
    uint16_t *parts[2];  /* on shared hosts: unserved parts of a chunk's message; fetch, push */
    int64_t version;     /* number of updates when the parameters were requested */
    double in_free_s, out_free_s, nic_s;
    int64_t clock;       /* steps done */
    /* at the barrier */
    int64_t stamp, token, gave, judged;
    mr_recovery recovery;
    mr_election election;
    int loss; /* the crash it is recovering from; -1: none */
    mr_simtrain_worker sum;
} mr_jobsim_worker;

typedef struct mr_jobsim_checkpoint {
    double at_s; /* when it was complete; NAN: there is none */
    int64_t done;
    double taken_s; /* when it was started: it holds the state of that time */
} mr_jobsim_checkpoint;

typedef struct mr_jobsim_samples {
    double *p;
    int64_t n, every, skipped; /* one of every `every` samples is kept */
    int64_t cap;
} mr_jobsim_samples;

struct mr_jobsim {
    const mr_simtrain_job *job;
    mr_simtrain_result *result;
    mr_status *st; /* the first error ends the run */
    bool ended;
    double now_s;
    uint64_t seq, random;
    int64_t budget; /* of events */
    mr_jobsim_event *heap;
    size_t n_heap, cap_heap;

    int n_workers, n_ps; /* including backups */
    mr_jobsim_worker *workers;
    mr_jobsim_ps *ps;
    uint32_t *generations;     /* by task, and behind them by shared host */
    mr_jobsim_host *hosts;
    uint8_t *arrived_memory;
    uint16_t *parts_memory;
    double compute_s; /* of all chunks in one step */
    int n_holders;    /* parameter servers that hold at least one chunk */

    int64_t done, want;  /* steps of the barrier, or gradients */
    int64_t version;     /* updates of the variables */
    int64_t slowest, n_slowest; /* observed, for the figures */
    mr_delay delay;             /* BOUNDED: decides which workers may begin */
    double update_s;     /* time of the last update */
    double warm_s;
    bool warm;
    struct {
        double nic, chief, core, *by_ps;
    } at_warm;
    double warm_examples, examples;

    /* the barrier */
    int chief; /* -1: there is none */
    bool leads;
    mr_sync sync;
    int64_t top_stamp;
    double chief_free_s, chief_s;

    /* failures */
    bool may_fail;
    mr_membership members;
    uint64_t *incarnations;
    mr_chief_record record;
    mr_jobsim_checkpoint checkpoint, saving;
    bool is_saving;
    int save_epoch; /* incremented by everything that invalidates a save in progress */
    int *ps_loss;   /* by parameter server: the crash it has not recovered from; -1 */
    uint8_t *noticed; /* by task: its current crash was noticed */
    int n_open;       /* losses after which no update has been applied yet */

    mr_jobsim_samples steps, staleness;
};

/* ---- events.c ---- */
void mr_jobsim_after(mr_jobsim *s, int task, double s_later, mr_jobsim_fn *fn, int arg);
bool mr_jobsim_next(mr_jobsim *s);
void mr_jobsim_fail(mr_jobsim *s, mr_status *st); /* takes ownership of st */
uint64_t mr_jobsim_random(uint64_t *state);
double mr_jobsim_uniform(uint64_t *state); /* greater than 0, at most 1 */
double mr_jobsim_exponential(uint64_t *state, double mean);
double mr_jobsim_longest(uint64_t *state, double mean, int n); /* the maximum of n exponential numbers */
double mr_jobsim_normal(uint64_t *state);
static inline int64_t mr_jobsim_ns(double s) { return (int64_t)(s * 1e9); }

/* ---- hosts.c ---- */
/* Work for a task: at full speed if it has its own host, otherwise at the rate of the shared cores. */
void mr_jobsim_compute(mr_jobsim *s, int task, double cores, double work_s, mr_jobsim_fn *fn, int arg);
void mr_jobsim_forget_work(mr_jobsim *s, int task); /* its generation has ended */
double mr_jobsim_core_seconds(const mr_jobsim *s);

/* ---- servers.c ---- */
void mr_jobsim_send(mr_jobsim *s, int worker, int chunk, bool push); /* mr_jobsim_answered follows, unless the message
                                                                      * is lost */
void mr_jobsim_ps_forget(mr_jobsim *s, int ps);                      /* it has crashed: drops its queue */

/* ---- worker.c ---- */
void mr_jobsim_begin(mr_jobsim *s, int worker, int arg); /* begins the next step now */
void mr_jobsim_answered(mr_jobsim *s, int worker, int chunk, bool push);
void mr_jobsim_stop(mr_jobsim *s, int worker); /* cancels what it does and begins a new generation */
void mr_jobsim_span(mr_jobsim *s, mr_simtrain_kind kind, int index, mr_simtrain_doing doing, int chunk, int step, double start_s,
                    double end_s);

/* ---- modes.c: when workers may begin a step ---- */
void mr_jobsim_go(mr_jobsim *s, int worker);       /* it has a session and is ready to work */
void mr_jobsim_finished(mr_jobsim *s, int worker); /* its step is done */
void mr_jobsim_lead(mr_jobsim *s);                 /* the chief leads the barrier from now on */
void mr_jobsim_start_alive(mr_jobsim *s);          /* workers report regularly that they are alive */
void mr_jobsim_given_up(mr_jobsim *s, int worker); /* its crash was noticed */

/* ---- crash.c ---- */
void mr_jobsim_start_failures(mr_jobsim *s);
void mr_jobsim_updated(mr_jobsim *s); /* the variables were updated */

/* ---- result.c ---- */
mr_status *mr_jobsim_samples_init(mr_jobsim_samples *a, int64_t expected);
void mr_jobsim_sample(mr_jobsim_samples *a, double v);
void mr_jobsim_warm(mr_jobsim *s);
void mr_jobsim_conclude(mr_jobsim *s);

#endif
