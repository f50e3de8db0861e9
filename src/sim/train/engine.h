/* sim/train/engine.h -- the inside of a simulated training job; for the files of this folder.
 *
 * Tasks are numbered: workers (backups too) from 0, then parameter servers.  Everything happens in events, in the order of
 * their time and then of their making.  An event belongs to a task and to one of its lives; with the life ends what it
 * had planned.  A life of a worker ends when it crashes and also when its session does. */
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
    int task, arg; /* task -1: of the world */
    uint32_t generation;
} mr_jobsim_event;

/* Work for the cores of a shared host. */
typedef struct mr_jobsim_work {
    double end; /* in the host's own time, which goes by as its cores let it */
    uint64_t seq;
    double cores;
    mr_jobsim_fn *fn;
    int task, arg;
    uint32_t generation;
} mr_jobsim_work;

typedef struct mr_jobsim_host {
    MR_VEC(mr_jobsim_work) works;
    double time, looked_s; /* its own time, and when that was */
    double wanted;         /* cores, by all works */
    double used_s;         /* core seconds */
} mr_jobsim_host;

/* A message in the queue of a parameter server on a shared host. */
typedef struct mr_jobsim_message {
    int worker, chunk;
    uint32_t generation;
    bool push;
} mr_jobsim_message;

typedef struct mr_jobsim_ps {
    double free_s[2]; /* when it has done what is there: sending, receiving; with one queue only the first */
    double busy_s;
    bool up, ready; /* ready: has variables */
    MR_VEC(mr_jobsim_message) queue; /* from `first` on */
    int first;
    bool serving;
} mr_jobsim_ps;

typedef enum mr_jobsim_phase {
    MR_JOBSIM_AWAY, /* down, or on the way back */
    MR_JOBSIM_IDLE, /* waits for a token or for the slowest */
    MR_JOBSIM_STEP,
} mr_jobsim_phase;

typedef struct mr_jobsim_worker {
    mr_jobsim_phase phase;
    bool up;
    uint64_t random;
    double factor; /* of its compute, for good */
    double scale;  /* and in this step */
    /* the step */
    double began_s, free_s; /* free: since when it computes nothing */
    bool began;             /* there was a step before in this life: its length counts */
    int asked, at, open;    /* chunks asked for; computed forward; gradients under way */
    bool computing, computed;
    uint8_t *arrived;    /* by chunk */
    uint16_t *parts[2];  /* on shared hosts: of a chunk's message, those not done; fetched, pushed */
    int64_t version;     /* updates when the parameters were asked for */
    double in_free_s, out_free_s, nic_s;
    int64_t clock;       /* steps done */
    /* at the barrier */
    int64_t stamp, token, gave, judged;
    mr_recovery recovery;
    mr_election election;
    int loss; /* the crash it is on the way back from; -1: none */
    mr_simtrain_worker sum;
} mr_jobsim_worker;

typedef struct mr_jobsim_checkpoint {
    double at_s; /* complete; NAN: there is none */
    int64_t done;
    double taken_s; /* what it holds is of then */
} mr_jobsim_checkpoint;

typedef struct mr_jobsim_samples {
    double *p;
    int64_t n, every, skipped; /* one of so many is kept */
    int64_t cap;
} mr_jobsim_samples;

struct mr_jobsim {
    const mr_simtrain_job *job;
    mr_simtrain_result *result;
    mr_status *st; /* the first trouble ends the run */
    bool ended;
    double now_s;
    uint64_t seq, random;
    int64_t budget; /* of events */
    mr_jobsim_event *heap;
    size_t n_heap, cap_heap;

    int n_workers, n_ps; /* that run */
    mr_jobsim_worker *workers;
    mr_jobsim_ps *ps;
    uint32_t *generations;     /* by task, and behind them by shared host */
    mr_jobsim_host *hosts;
    uint8_t *arrived_memory;
    uint16_t *parts_memory;
    double compute_s; /* of one step, all chunks */
    int n_holders;    /* parameter servers that hold any of them */

    int64_t done, want;  /* steps of the barrier, or gradients */
    int64_t version;     /* updates of the variables */
    int64_t slowest, n_slowest; /* as seen from outside, for the figures */
    mr_delay delay;             /* BOUNDED: who may begin */
    double update_s;     /* the last one */
    double warm_s;
    bool warm;
    struct {
        double nic, chief, core, *by_ps;
    } at_warm;
    double warm_examples, examples;

    /* the barrier */
    int chief; /* -1: nobody is */
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
    int save_epoch; /* counts what makes a save under way useless */
    int *ps_loss;   /* by parameter server: the crash it is not back from; -1 */
    uint8_t *noticed; /* by task: its present crash was */
    int n_open;       /* losses that nobody has worked on after yet */

    mr_jobsim_samples steps, staleness;
};

/* ---- events.c ---- */
void mr_jobsim_after(mr_jobsim *s, int task, double s_later, mr_jobsim_fn *fn, int arg);
bool mr_jobsim_next(mr_jobsim *s);
void mr_jobsim_fail(mr_jobsim *s, mr_status *st); /* takes st */
uint64_t mr_jobsim_random(uint64_t *state);
double mr_jobsim_uniform(uint64_t *state); /* over 0, at most 1 */
double mr_jobsim_exponential(uint64_t *state, double mean);
double mr_jobsim_longest(uint64_t *state, double mean, int n); /* of n exponential ones */
double mr_jobsim_normal(uint64_t *state);
static inline int64_t mr_jobsim_ns(double s) { return (int64_t)(s * 1e9); }

/* ---- hosts.c ---- */
/* Work for a task: at its full speed on a host of its own, else as the host's cores allow. */
void mr_jobsim_compute(mr_jobsim *s, int task, double cores, double work_s, mr_jobsim_fn *fn, int arg);
void mr_jobsim_forget_work(mr_jobsim *s, int task); /* its life has ended */
double mr_jobsim_core_seconds(const mr_jobsim *s);

/* ---- servers.c ---- */
void mr_jobsim_send(mr_jobsim *s, int worker, int chunk, bool push); /* ends in mr_jobsim_answered, unless it is lost */
void mr_jobsim_ps_forget(mr_jobsim *s, int ps);                      /* it has crashed: what it had to do is gone */

/* ---- worker.c ---- */
void mr_jobsim_begin(mr_jobsim *s, int worker, int arg); /* the next step, now */
void mr_jobsim_answered(mr_jobsim *s, int worker, int chunk, bool push);
void mr_jobsim_stop(mr_jobsim *s, int worker); /* what it does is over; a new life */
void mr_jobsim_span(mr_jobsim *s, mr_simtrain_kind kind, int index, mr_simtrain_doing doing, int chunk, int step, double start_s,
                    double end_s);

/* ---- modes.c: who may begin when ---- */
void mr_jobsim_go(mr_jobsim *s, int worker);       /* it has a session and wants to work */
void mr_jobsim_finished(mr_jobsim *s, int worker); /* its step */
void mr_jobsim_lead(mr_jobsim *s);                 /* the chief can lead the barrier from now on */
void mr_jobsim_start_alive(mr_jobsim *s);          /* workers say now and then that they live */
void mr_jobsim_given_up(mr_jobsim *s, int worker); /* its crash was noticed */

/* ---- crash.c ---- */
void mr_jobsim_start_failures(mr_jobsim *s);
void mr_jobsim_updated(mr_jobsim *s); /* variables have been */

/* ---- result.c ---- */
mr_status *mr_jobsim_samples_init(mr_jobsim_samples *a, int64_t expected);
void mr_jobsim_sample(mr_jobsim_samples *a, double v);
void mr_jobsim_warm(mr_jobsim *s);
void mr_jobsim_conclude(mr_jobsim *s);

#endif
