/* dist/delay.h -- bounded delay: which worker may begin its next iteration, and which workers are waited for.
 *
 * Pure: messages in, actions out.  Each worker makes iterations 0, 1, 2, ..; iteration t may begin when every present
 * worker has finished its own up to t - 1 - bound.  With a bound of 0 all proceed in lockstep, with MR_DELAY_EVENTUAL
 * no worker ever waits, and with MR_DELAY_ADAPTIVE the bound is chosen by its cost and gain (below).  A worker that
 * left or was lost is not waited for.  A worker that joins late begins where the slowest is; so does one that comes
 * back, unless it was further.
 *
 * Messages may be repeated, late, or from an unknown worker: an iteration is finished once, every ASK is answered, and
 * a worker that is not present, or no longer, is told to join.
 *
 *     mr_delay_step(&d, &(mr_delay_event){worker, MR_DELAY_FINISH, t}, now_ns, &todo);
 *     mr_delay_step(&d, &(mr_delay_event){worker, MR_DELAY_ASK, t + 1}, now_ns, &todo);
 *
 * The adaptive bound.  Training is as fast as the slowest worker.  A wider bound that only lets the others run ahead of
 * a worker that is always slow gains nothing and costs staleness; one that absorbs random delays does gain.  So after
 * every MR_DELAY_WINDOW iterations of the slowest: a bound wider than any worker used is lowered; and while workers
 * wait for more than a twentieth of their time, a neighbouring bound is tried for a window.  A wider one is kept if the
 * slowest becomes 3 % faster, a narrower one if it does not become 3 % slower.  After each failed trial the pause
 * before the next one doubles. */
#ifndef MR_DIST_DELAY_H
#define MR_DIST_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

enum {
    MR_DELAY_EVENTUAL = -1,
    MR_DELAY_ADAPTIVE = -2,
    MR_DELAY_HI = 16,     /* the default of the widest adaptive bound */
    MR_DELAY_WINDOW = 12, /* iterations of the slowest between two decisions about the bound */
};

typedef enum mr_delay_message {
    MR_DELAY_JOIN,
    MR_DELAY_FINISH, /* the results of `iteration` are visible to all */
    MR_DELAY_ASK,    /* wants to begin `iteration`; so the one before is finished, even if its FINISH was lost */
    MR_DELAY_LEAVE,  /* has no more to do */
    MR_DELAY_LOST,   /* reported by another process: the worker seems to be gone */
} mr_delay_message;

typedef struct mr_delay_event {
    int64_t worker, message, iteration; /* from the wire: checked here */
} mr_delay_event;

typedef enum mr_delay_do {
    MR_DELAY_JOINED,   /* `worker` is present; its next iteration is `iteration`, for which it must ask */
    MR_DELAY_BEGIN,    /* `worker` may begin `iteration`; repeated if it asks again */
    MR_DELAY_STRANGER, /* `worker` is not present, or names an impossible iteration: it must join */
} mr_delay_do;

typedef struct mr_delay_action {
    mr_delay_do what;
    int64_t worker, iteration;
} mr_delay_action;
typedef MR_VEC(mr_delay_action) mr_delay_actions;

typedef enum mr_delay_state {
    MR_DELAY_GONE,    /* left, or lost */
    MR_DELAY_RESTING, /* finished an iteration, or has just joined, and has not asked yet */
    MR_DELAY_WAITING, /* has asked */
    MR_DELAY_WORKING,
} mr_delay_state;

/* One worker: its state, and its figures, which are kept after it has gone. */
typedef struct mr_delay_worker {
    int64_t id;
    mr_delay_state state;
    int64_t clock;      /* the iteration that it works on, or would begin next */
    int64_t iterations; /* finished, of all its incarnations */
    int64_t since_ns;   /* when it entered its state */
    int64_t waited_ns;  /* for others; up to its last change of state */
    int64_t worked_ns;
    int64_t blamed_ns;  /* time in which others waited and it was among the slowest, without the present such time */
    int64_t blamed_from; /* while it is among the slowest: mr_delay.waits_ns when that began */
    int64_t begun;      /* iterations that others had finished when it began its own */
    int64_t staleness_sum, staleness_max; /* iterations that others finished while it worked on one */
    int64_t lead_max;   /* how far ahead of the slowest it began one at most; never above the bound at that time */
} mr_delay_worker;

typedef struct mr_delay_options {
    int64_t bound;  /* or MR_DELAY_EVENTUAL, MR_DELAY_ADAPTIVE; other negative numbers mean ADAPTIVE */
    int64_t lo, hi; /* limits of an adaptive bound; hi 0: MR_DELAY_HI */
    int64_t start;  /* the first iteration of the first worker: after a restart, where the workers were */
} mr_delay_options;

/* The state of the adaptive bound. */
typedef struct mr_delay_trial {
    int64_t from_clock, from_ns; /* where the present window began */
    int64_t waited_ns, worked_ns; /* of all workers, at that time */
    int64_t lead;                /* the largest lead in the window */
    double rate;                 /* of the slowest before the trial, in iterations per nanosecond */
    int64_t before;              /* the bound before the trial */
    int way;                     /* +1 or -1: the direction of this or the next trial */
    int pause, rested;           /* windows between two trials; windows since the last one */
    bool on;                     /* a trial is in progress */
} mr_delay_trial;

typedef struct mr_delay {
    mr_delay_options o;
    int64_t bound;   /* at present; MR_DELAY_EVENTUAL: none */
    int64_t slowest; /* the lowest clock of the present workers, or the last such one if there are none; never falls */
    int64_t finished; /* iterations, of all */
    int64_t last_ns;
    MR_VEC(mr_delay_worker) workers; /* by id */
    int n_there, n_waiting;
    int n_slowest;    /* present workers with the lowest clock */
    int64_t waits_ns; /* time in which at least one worker waited */
    mr_delay_trial trial;
} mr_delay;

void mr_delay_init(mr_delay *d, const mr_delay_options *o, int64_t now_ns);
void mr_delay_deinit(mr_delay *d);
/* Handles a message; appends the actions in the order in which they must be done. */
void mr_delay_step(mr_delay *d, const mr_delay_event *e, int64_t now_ns, mr_delay_actions *out);

/* NULL: unknown. */
const mr_delay_worker *mr_delay_find(const mr_delay *d, int64_t worker);
/* How long it has waited for others, including the present wait. */
int64_t mr_delay_waited_ns(const mr_delay_worker *w, int64_t now_ns);
/* How long others have waited while it was among the slowest. */
int64_t mr_delay_blamed_ns(const mr_delay *d, const mr_delay_worker *w);
/* The mean over its iterations; 0 if there are none. */
double mr_delay_mean_staleness(const mr_delay_worker *w);
/* Whether a worker waits at present, and this one is among the slowest. */
bool mr_delay_is_waited_for(const mr_delay *d, const mr_delay_worker *w);

#endif
