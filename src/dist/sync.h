/* dist/sync.h -- the barrier of synchronous training: when a step is complete, and who may begin the next.
 *
 * Pure: events in, actions out.  Workers compute gradients for a stamp, put them into the accumulators and report that
 * they arrived.  When enough have, the chief applies the mean, the stamp rises and every worker in the barrier gets a
 * token that names it.  A worker gives at most once for each stamp: tokens may come twice, and what is older than the
 * stamp is dropped by the accumulators.  Words and tokens can be lost, when a session that is gone still waited for them: so
 * tokens come again, once a lease, and who has given for such a token already reports again that it arrived.
 *
 * The barrier knows its members.  All workers of the cluster are waited for at the start, for a while; who leaves or is
 * silent for longer than its lease is not waited for any more, and comes back with its next word.  Where there are leases
 * the chief says a word of its own several times in each, so that time passes: only then silence counts.  The first m of n:
 * with `aggregate` set, that many gradients complete a step and the rest are backups; with MR_SYNC_ADAPTIVE that number is
 * chosen before each step from how long each worker has taken lately (dist/backups.h), and made smaller within a step that
 * takes far too long.
 *
 * Workers may also be held together less tightly: with `bounded` nothing is collected, each worker makes its own update, and
 * its token for the next iteration comes when that is at most so many ahead of the slowest (dist/delay.h).  The stamp is then
 * the worker's own: the first one and its iterations.  Who is silent is not waited for, here too.
 *
 * A chief that starts anew takes a stamp above all earlier ones (the time in microseconds: steps are rarer), so that
 * gradients and tokens from before count for nothing. */
#ifndef MR_DIST_SYNC_H
#define MR_DIST_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "dist/backups.h"
#include "dist/delay.h"

typedef enum mr_sync_message {
    MR_SYNC_JOIN,    /* begins, or begins anew: wants a token */
    MR_SYNC_ALIVE,   /* nothing else; now and then */
    MR_SYNC_ARRIVED, /* its gradients for `stamp` are in the accumulators */
    MR_SYNC_LEAVE,   /* has no more data */
} mr_sync_message;

typedef struct mr_sync_event {
    int64_t worker, message, stamp; /* from the wire: checked here */
} mr_sync_event;

typedef enum mr_sync_do {
    MR_SYNC_APPLY, /* take `count` gradients, update, then the stamp is `stamp` */
    MR_SYNC_TOKEN, /* tell `worker` the stamp */
    MR_SYNC_END,   /* nobody is left: all have said so, or have been silent for MR_SYNC_PATIENCE leases */
} mr_sync_do;

typedef struct mr_sync_action {
    mr_sync_do what;
    int worker;
    int count;
    int64_t stamp;
} mr_sync_action;
typedef MR_VEC(mr_sync_action) mr_sync_actions;

enum {
    MR_SYNC_PATIENCE = 2,
    MR_SYNC_ADAPTIVE = -1,
    MR_SYNC_REMEMBERED = 32, /* stamps whose beginning is known */
};

typedef enum mr_sync_state {
    MR_SYNC_UNHEARD, /* since the chief started; waited for until join_ns */
    MR_SYNC_ACTIVE,
    MR_SYNC_SILENT,
    MR_SYNC_LEFT,
} mr_sync_state;

typedef struct mr_sync_member {
    mr_sync_state state;
    bool arrived; /* for the present stamp */
    int64_t heard_ns, told_ns; /* in listened time */
    int64_t gave, free_ns;     /* the newest stamp it has arrived for, and when that was, or when it joined */
    int64_t n_gave, n_late;    /* gradients, and those of them that came too late */
    int64_t took_ns;           /* the last one */
    int64_t waited_ns;         /* for tokens, from its words to the tokens that followed */
} mr_sync_member;

typedef struct mr_sync_options {
    int n_workers;
    int aggregate;    /* m of n; 0: all; MR_SYNC_ADAPTIVE */
    int64_t lease_ns; /* silence that ends a membership; 0: none does */
    int64_t join_ns;  /* how long workers never heard are waited for; 0: for ever */
    bool bounded;     /* each for itself, by `delay`; then `aggregate` means nothing */
    int64_t delay;    /* as mr_delay_options.bound */
} mr_sync_options;

typedef struct mr_sync {
    mr_sync_options o;
    mr_sync_member *members;
    int64_t stamp, first; /* first: at the start */
    int64_t last_ns;     /* of the newest word, by the caller's clock */
    int64_t listened_ns; /* since the start; what leases are counted in */
    bool ended;
    mr_delay delay;      /* of `bounded` */
    mr_backups backups;  /* of MR_SYNC_ADAPTIVE */
    int wait_for;        /* the choice for this step; 0: none was made yet, so all */
    int64_t chosen_ns;   /* when it was last thought over */
    int64_t began_ns[MR_SYNC_REMEMBERED]; /* by stamp: when its tokens were given */
} mr_sync;

void mr_sync_init(mr_sync *s, const mr_sync_options *o, int64_t stamp, int64_t now_ns);
void mr_sync_deinit(mr_sync *s);
/* That worker left in an earlier chief's time, as far as is known: it is not waited for, but may join. */
void mr_sync_remember_left(mr_sync *s, int worker);
/* What a worker said, and what follows; also from the mere passing of time.  Actions are in the order in which they are
 * to be done.  Words of nobody, or that are none, only let time pass. */
void mr_sync_step(mr_sync *s, const mr_sync_event *e, int64_t now_ns, mr_sync_actions *out);
/* Figures of a worker, all since the start. */
typedef struct mr_sync_figures {
    int64_t iterations; /* gradients given, or updates made */
    int64_t late;       /* of them: came too late for their step */
    int64_t waited_ns;
    double staleness;   /* mean of updates by others while it worked on one; of a barrier 0 */
    int64_t staleness_max;
    bool waited_for;    /* at present: somebody waits, and for this one */
} mr_sync_figures;
mr_sync_figures mr_sync_figures_of(const mr_sync *s, int worker);
/* Gradients that complete the present step; 0 while workers are still waited for, or none is left. */
int mr_sync_required(const mr_sync *s);

#endif
