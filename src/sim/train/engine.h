/* sim/train/engine.h -- internals of a simulated training job, for the files of this folder.
 *
 * Tasks are numbered: workers (backups too) from 0, then parameter servers. Everything happens in events, in the order
 * of their time and then of their creation. An event belongs to a task and to one generation of it; events of an
 * earlier generation are dropped. A worker's generation ends when it crashes and also when its session ends. */
#ifndef MR_SIM_TRAIN_ENGINE_H
#define MR_SIM_TRAIN_ENGINE_H

#include "dist/delay.h"
#include "dist/elastic.h"
#include "dist/election.h"
#include "dist/membership.h"
#include "dist/recovery.h"
#include "dist/sync.h"
#include "sim/train/train.h"

enum { MR_JOBSIM_ALL_PS = -1 };

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

/* Times in which a worker is cut off from parameter servers. */
typedef struct mr_jobsim_cut {
    int worker, ps; /* ps -1: all */
    bool matters;   /* a step needs one of these servers */
    double from_s, to_s;
} mr_jobsim_cut;

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
    double tail;   /* of the current step: added to the factor */
    /* the step */
    double began_s, free_s; /* free: since when it has not computed anything */
    bool began;             /* this generation has begun a step before: the step time counts */
    int asked, at, open;    /* chunks requested; computed forward; gradients in flight */
    bool computing, computed;
    uint8_t *arrived;    /* by chunk */
    uint16_t *parts[2];  /* on shared hosts, and with cuts: unserved parts of a chunk's message; fetch, push */
    int64_t version;     /* number of updates when the parameters were requested */
    double in_free_s, out_free_s, nic_s;
    int64_t clock;       /* steps done */
    /* at the barrier */
    int64_t stamp, token, gave, judged;
    int push_span; /* position of the recorded span of its last push; -1: there is none */
    mr_recovery recovery;
    mr_election election;
    int loss; /* the crash it is recovering from; -1: none */
    int64_t held;        /* ALLREDUCE: the step of its parameters; -1: it has none */
    bool is_member;      /* ALLREDUCE: of the present generation, and has not crashed since */
    mr_jobsim_cut *cuts; /* that have not ended, by their begin */
    int n_cuts;
    bool is_split; /* it has cuts: its messages to several parameter servers arrive at different times */
    mr_simtrain_worker sum;
} mr_jobsim_worker;

typedef struct mr_jobsim_checkpoint {
    double at_s; /* when it was complete; NAN: there is none */
    int64_t done;
    double taken_s; /* when it was started: it holds the state of that time */
} mr_jobsim_checkpoint;

/* From at_s on, until the next one of the same task. */
typedef struct mr_jobsim_pace {
    int task;
    double at_s, factor;
} mr_jobsim_pace;

typedef struct mr_jobsim_samples {
    double *p;
    int64_t n, every, skipped; /* one of every `every` samples is kept */
    int64_t cap;
} mr_jobsim_samples;

/* The workers that reduce their gradients together. */
typedef struct mr_jobsim_ring {
    mr_elastic elastic; /* decides who is a member */
    int64_t tick_ns;    /* time of the pending event that advances its clock; 0: no event is pending */
    int n_ticks;        /* the number of the newest such event; earlier ones are void */
    int *members, size; /* of the present generation; 0: none works */
    int source;         /* the member whose parameters the others take */
    int epoch;          /* rises when the ring stops: events of earlier epochs are void */
    bool is_broken;     /* a member has crashed */
    bool is_waiting;    /* for a worker that has the parameters */
    int *ready;         /* by chunk: members that have computed its gradients */
    int at;             /* the chunk that is reduced now or next; -1: all are */
    bool is_busy;       /* it is being reduced */
    int n_computed;     /* members that have computed the whole step */
    int last;           /* the newest of them */
    double computed_s;  /* when the last of them had */
    int lost;           /* the crash after which no worker had parameters; -1: none */
    double bytes;       /* of all parameters */
} mr_jobsim_ring;

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
    mr_jobsim_pace *paces; /* by task and time; only of tasks that are slow for a limited time, and of slow servers */
    int n_paces;

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
    int64_t warm_done;
    int n_incidents;  /* spans of checkpoints and failures */
    int n_spans[3];   /* other spans: of watched workers, of watched servers, of the rest */
    uint8_t *watched; /* by task */
    double progress_every, progress_next; /* distance of the points of progress; the next one; in units of `done` */

    /* the barrier */
    int chief; /* -1: there is none */
    bool leads;
    mr_sync sync;
    int64_t top_stamp;
    double chief_free_s, chief_s;

    mr_jobsim_ring ring; /* ALLREDUCE */

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
    int n_unsettled;  /* losses whose pause may become longer */
    double usual_pause_s; /* longest time between two updates while no loss was unsettled */
    mr_jobsim_cut *cuts; /* by worker */
    bool is_level;    /* a cut began, and no update has been applied since */

    mr_jobsim_samples steps, staleness;
};

/* All workers make each step together. */
static inline bool mr_jobsim_is_sync(const mr_simtrain_job *j)
{
    return j->mode == MR_SIMTRAIN_SYNC || j->mode == MR_SIMTRAIN_ALLREDUCE;
}

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

/* ---- slow.c ---- */
bool mr_jobsim_slow_init(mr_jobsim *s); /* false if memory runs out */
double mr_jobsim_pace_of(const mr_jobsim *s, int task, double at_s); /* factor on work that begins at that time */

/* ---- cut.c ---- */
bool mr_jobsim_cuts_init(mr_jobsim *s); /* false if memory runs out */
void mr_jobsim_start_cuts(mr_jobsim *s);
void mr_jobsim_end_cuts(mr_jobsim *s);  /* the job has ended */
/* When a message between a worker and a parameter server arrives that is sent at leaves_s and takes takes_s. ps
 * MR_JOBSIM_ALL_PS: one to all parameter servers that a step needs. */
double mr_jobsim_pass(const mr_jobsim *s, int worker, int ps, double leaves_s, double takes_s);
/* When it is sent so that it arrives. */
double mr_jobsim_leaves(const mr_jobsim *s, int worker, int ps, double leaves_s, double takes_s);
bool mr_jobsim_is_cut(const mr_jobsim *s, int worker, int ps); /* now */

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

/* ---- spans.c ---- */
void mr_jobsim_span(mr_jobsim *s, mr_simtrain_kind kind, int index, mr_simtrain_doing doing, int chunk, int step, double start_s,
                    double end_s);

/* ---- modes.c: when workers may begin a step ---- */
void mr_jobsim_go(mr_jobsim *s, int worker);       /* it has a session and is ready to work */
void mr_jobsim_finished(mr_jobsim *s, int worker); /* its step is done */
void mr_jobsim_lead(mr_jobsim *s);                 /* the chief leads the barrier from now on */
void mr_jobsim_start_alive(mr_jobsim *s);          /* workers report regularly that they are alive */
void mr_jobsim_given_up(mr_jobsim *s, int worker); /* its crash was noticed */

/* n_gradients were applied, which are n_done steps of the barrier, or gradients. */
void mr_jobsim_count_updates(mr_jobsim *s, int n_gradients, int64_t n_done);

/* ---- ring.c: training by all-reduce ---- */
bool mr_jobsim_ring_init(mr_jobsim *s); /* false if memory runs out */
void mr_jobsim_ring_deinit(mr_jobsim *s);
void mr_jobsim_ring_join(mr_jobsim *s, int worker);             /* it is ready to work */
void mr_jobsim_ring_ready(mr_jobsim *s, int worker, int chunk); /* it has computed the gradients of a chunk */
void mr_jobsim_ring_computed(mr_jobsim *s, int worker);         /* it has computed its step */
void mr_jobsim_ring_crashed(mr_jobsim *s, int worker, int loss);
void mr_jobsim_ring_given_up(mr_jobsim *s, int worker);         /* the others have noticed that it is missing */

/* ---- check.c ---- */
double mr_jobsim_messages(const mr_simtrain_job *j); /* about the number of messages; bounds the time of a run */

/* ---- crash.c ---- */
void mr_jobsim_start_failures(mr_jobsim *s);
void mr_jobsim_set_chief(mr_jobsim *s, int worker);
void mr_jobsim_restored_ring(mr_jobsim *s, int loss); /* the newest checkpoint, after all workers were lost */
void mr_jobsim_updated(mr_jobsim *s); /* the variables were updated */
double mr_jobsim_steps(const mr_jobsim *s, int64_t done); /* `done` in steps of each worker */

/* ---- result.c ---- */
mr_status *mr_jobsim_samples_init(mr_jobsim_samples *a, int64_t expected);
void mr_jobsim_sample(mr_jobsim_samples *a, double v);
void mr_jobsim_warm(mr_jobsim *s);
void mr_jobsim_progress(mr_jobsim *s); /* adds a point: so many steps are done now */
/* Adds the time since it was last free: it was down if it has crashed, otherwise it waited. */
void mr_jobsim_count_idle(mr_jobsim *s, int worker);
void mr_jobsim_conclude(mr_jobsim *s);

#endif
