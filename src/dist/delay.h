/* dist/delay.h -- bounded delay: who may begin its next iteration, and who is waited for.
 *
 * Pure: words in, actions out.  Each worker does iterations 0, 1, 2, ..; iteration t may begin when every worker that is
 * there has finished all of its own up to t - 1 - bound.  With a bound of 0 all go in step, with MR_DELAY_EVENTUAL nobody
 * ever waits, and with MR_DELAY_ADAPTIVE the bound follows what it costs and what it gains (below).  Who left or was lost is
 * not waited for; who comes late begins where the slowest is, who comes back too, unless it was further.
 *
 * Words may come twice, late, or from nobody: an iteration is finished once, an ASK is answered each time, and a worker that
 * is not (or no longer) there is told that it has to join.
 *
 *     mr_delay_step(&d, &(mr_delay_event){worker, MR_DELAY_FINISH, t}, now_ns, &todo);
 *     mr_delay_step(&d, &(mr_delay_event){worker, MR_DELAY_ASK, t + 1}, now_ns, &todo);
 *
 * The adaptive bound.  How fast training goes is how fast the slowest gets on: a wider bound that only lets the others run
 * ahead of a worker that is slow for good gains nothing and costs staleness; one that lets them ride over delays that come
 * by chance does gain.  So after every MR_DELAY_WINDOW iterations of the slowest: room that nobody used is given back; while
 * somebody waits for more than a twentieth of its time a neighbouring bound is tried for a window, a wider one is kept when
 * the slowest gets on 3 % faster, a narrower one when it does not get on 3 % slower, and after each trial in vain the next
 * one waits twice as long. */
#ifndef MR_DIST_DELAY_H
#define MR_DIST_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

enum {
    MR_DELAY_EVENTUAL = -1,
    MR_DELAY_ADAPTIVE = -2,
    MR_DELAY_HI = 16,     /* the widest adaptive bound, unless told */
    MR_DELAY_WINDOW = 12, /* iterations of the slowest from one look at the bound to the next */
};

typedef enum mr_delay_message {
    MR_DELAY_JOIN,
    MR_DELAY_FINISH, /* what it did in `iteration` is to be seen by all */
    MR_DELAY_ASK,    /* wants to begin `iteration`; so the one before is finished, should that word have been lost */
    MR_DELAY_LEAVE,  /* has no more to do */
    MR_DELAY_LOST,   /* of somebody else: it is gone, for all we know */
} mr_delay_message;

typedef struct mr_delay_event {
    int64_t worker, message, iteration; /* from the wire: checked here */
} mr_delay_event;

typedef enum mr_delay_do {
    MR_DELAY_JOINED,   /* `worker` is there and its next iteration is `iteration`, for which it has to ask */
    MR_DELAY_BEGIN,    /* `worker` may begin `iteration`; comes again when asked again */
    MR_DELAY_STRANGER, /* `worker` is not there, or speaks of an iteration it cannot know: it has to join */
} mr_delay_do;

typedef struct mr_delay_action {
    mr_delay_do what;
    int64_t worker, iteration;
} mr_delay_action;
typedef MR_VEC(mr_delay_action) mr_delay_actions;

typedef enum mr_delay_state {
    MR_DELAY_GONE,    /* left, or lost */
    MR_DELAY_RESTING, /* finished an iteration, or has just come, and has not asked */
    MR_DELAY_WAITING, /* has asked */
    MR_DELAY_WORKING,
} mr_delay_state;

/* One worker: what is known of it, and its figures, which outlive its going. */
typedef struct mr_delay_worker {
    int64_t id;
    mr_delay_state state;
    int64_t clock;      /* the iteration that it works on, or would begin next */
    int64_t iterations; /* finished, of all its lives */
    int64_t since_ns;   /* when it came into its state */
    int64_t waited_ns;  /* for others; up to its last change of state */
    int64_t worked_ns;
    int64_t blamed_ns;  /* others waited, and it was among the slowest; up to when it last was */
    int64_t blamed_from; /* while it is: mr_delay.waits_ns when it began to be */
    int64_t begun;      /* others' iterations when it began its own */
    int64_t staleness_sum, staleness_max; /* iterations that others finished while it worked on one */
    int64_t lead_max;   /* how far ahead of the slowest it began one; never above the bound then */
} mr_delay_worker;

typedef struct mr_delay_options {
    int64_t bound;  /* or MR_DELAY_EVENTUAL, MR_DELAY_ADAPTIVE; other negative ones are as ADAPTIVE */
    int64_t lo, hi; /* of an adaptive one; hi 0: MR_DELAY_HI */
    int64_t start;  /* the first iteration of the first worker: after a restart, where all were */
} mr_delay_options;

/* The adaptive bound's memory. */
typedef struct mr_delay_trial {
    int64_t from_clock, from_ns; /* this window */
    int64_t waited_ns, worked_ns; /* of all, then */
    int64_t lead;                /* the widest that was used in it */
    double rate;                 /* of the slowest before the trial, in iterations a nanosecond */
    int64_t before;              /* the bound then */
    int way;                     /* +1 or -1: the direction of this or the next trial */
    int pause, rested;           /* windows between trials; since the last */
    bool on;
} mr_delay_trial;

typedef struct mr_delay {
    mr_delay_options o;
    int64_t bound;   /* at present; MR_DELAY_EVENTUAL: none */
    int64_t slowest; /* the lowest clock of who is there, or the last one when nobody is; never falls */
    int64_t finished; /* iterations, of all */
    int64_t last_ns;
    MR_VEC(mr_delay_worker) workers; /* by id */
    int n_there, n_waiting;
    int n_slowest;    /* who is there with the lowest clock */
    int64_t waits_ns; /* time in which somebody waited */
    mr_delay_trial trial;
} mr_delay;

void mr_delay_init(mr_delay *d, const mr_delay_options *o, int64_t now_ns);
void mr_delay_deinit(mr_delay *d);
/* What was said, and what follows from it, in the order in which it is to be done. */
void mr_delay_step(mr_delay *d, const mr_delay_event *e, int64_t now_ns, mr_delay_actions *out);

/* NULL: never heard of. */
const mr_delay_worker *mr_delay_find(const mr_delay *d, int64_t worker);
/* With what it has waited until now. */
int64_t mr_delay_waited_ns(const mr_delay_worker *w, int64_t now_ns);
/* How long others have waited while it was among the slowest. */
int64_t mr_delay_blamed_ns(const mr_delay *d, const mr_delay_worker *w);
/* Over its iterations; 0 when there are none. */
double mr_delay_mean_staleness(const mr_delay_worker *w);
/* Whether somebody waits at present, and for this worker. */
bool mr_delay_is_waited_for(const mr_delay *d, const mr_delay_worker *w);

#endif
