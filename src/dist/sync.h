/* dist/sync.h -- the barrier of synchronous training: when a step is complete, and which workers may begin the next.
 *
 * Pure: events in, actions out.  Workers compute gradients for a stamp, put them into the accumulators and report that
 * they arrived.  When enough have, the chief applies the mean, the stamp rises and every worker in the barrier gets a
 * token that names it.  A worker gives at most once for each stamp: tokens may be repeated, and the accumulators drop
 * gradients older than the stamp.  Messages and tokens can be lost if a session that has ended was still waiting for
 * them.  So tokens are repeated once per lease, and a worker that has already given for such a token reports again that
 * it arrived.
 *
 * The barrier knows its members.  At the start it waits for all workers of the cluster, for a limited time.  A worker
 * that leaves, or is silent for longer than its lease, is no longer waited for, and comes back with its next message.
 * With leases the chief itself sends a message several times per lease, so that time is seen to pass: silence counts
 * only then.  The first m of n: with `aggregate` set, that many gradients complete a step and the other workers are
 * backups.  With MR_SYNC_ADAPTIVE the number is chosen before each step from how long each worker has taken recently
 * (dist/backups.h), and is reduced within a step that takes far too long.
 *
 * Workers may also be coupled less tightly.  With `bounded` nothing is collected: each worker makes its own update, and
 * gets its token for the next iteration when that is at most `delay` ahead of the slowest (dist/delay.h).  The stamp is
 * then the worker's own: the first stamp plus its iterations.  Here too, a silent worker is not waited for.
 *
 * A chief that is started again takes a stamp above all earlier ones (the time in microseconds: steps are rarer), so
 * that earlier gradients and tokens count for nothing. */
#ifndef MR_DIST_SYNC_H
#define MR_DIST_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "dist/backups.h"
#include "dist/delay.h"

typedef enum mr_sync_message {
    MR_SYNC_JOIN,    /* begins, or begins again: wants a token */
    MR_SYNC_ALIVE,   /* a heartbeat */
    MR_SYNC_ARRIVED, /* its gradients for `stamp` are in the accumulators */
    MR_SYNC_LEAVE,   /* has no more data */
} mr_sync_message;

typedef struct mr_sync_event {
    int64_t worker, message, stamp; /* from the wire: checked here */
} mr_sync_event;

typedef enum mr_sync_do {
    MR_SYNC_APPLY, /* take `count` gradients and update; then the stamp is `stamp` */
    MR_SYNC_TOKEN, /* send `worker` the stamp */
    MR_SYNC_END,   /* no worker is left: all have left, or have been silent for MR_SYNC_PATIENCE leases */
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
    MR_SYNC_REMEMBERED = 32, /* stamps whose start time is remembered */
};

typedef enum mr_sync_state {
    MR_SYNC_UNHEARD, /* no message since the chief started; waited for until join_ns */
    MR_SYNC_ACTIVE,
    MR_SYNC_SILENT,
    MR_SYNC_LEFT,
} mr_sync_state;

typedef struct mr_sync_member {
    mr_sync_state state;
    bool arrived; /* for the present stamp */
    int64_t heard_ns, told_ns; /* in listened time */
    int64_t gave, free_ns;     /* the newest stamp it has arrived for, and when it did, or when it joined */
    int64_t n_gave, n_late;    /* gradients, and those that came too late for their step */
    int64_t took_ns;           /* how long its last gradient took */
    int64_t waited_ns;         /* for tokens, from its messages to the tokens that followed */
} mr_sync_member;

typedef struct mr_sync_options {
    int n_workers;
    int aggregate;    /* m of n; 0: all; MR_SYNC_ADAPTIVE */
    int64_t lease_ns; /* silence that ends a membership; 0: silence never does */
    int64_t join_ns;  /* how long UNHEARD workers are waited for; 0: no limit */
    bool bounded;     /* each worker updates by itself, bounded by `delay`; then `aggregate` is ignored */
    int64_t delay;    /* as mr_delay_options.bound */
} mr_sync_options;

typedef struct mr_sync {
    mr_sync_options o;
    mr_sync_member *members;
    int64_t stamp, first; /* first: at the start */
    int64_t last_ns;     /* time of the newest message, by the caller's clock */
    int64_t listened_ns; /* listened time since the start, in which leases are measured */
    bool ended;
    mr_delay delay;      /* of `bounded` */
    mr_backups backups;  /* of MR_SYNC_ADAPTIVE */
    int wait_for;        /* workers that this step waits for; 0: not chosen yet, so all */
    int64_t chosen_ns;   /* when it was last chosen */
    int64_t began_ns[MR_SYNC_REMEMBERED]; /* by stamp: when its tokens were given */
} mr_sync;

void mr_sync_init(mr_sync *s, const mr_sync_options *o, int64_t stamp, int64_t now_ns);
void mr_sync_deinit(mr_sync *s);
/* The worker left while an earlier chief led, as far as is known: it is not waited for, but may join. */
void mr_sync_remember_left(mr_sync *s, int worker);
/* Handles a message, and the time that has passed.  Appends the actions in the order in which they must be done.  For
 * an unknown worker or an invalid message only the time counts. */
void mr_sync_step(mr_sync *s, const mr_sync_event *e, int64_t now_ns, mr_sync_actions *out);
/* Figures of a worker, all since the start. */
typedef struct mr_sync_figures {
    int64_t iterations; /* gradients given, or updates made */
    int64_t late;       /* gradients that came too late for their step */
    int64_t waited_ns;
    double staleness;   /* mean number of updates by others while it worked on one; 0 with a barrier */
    int64_t staleness_max;
    bool waited_for;    /* others wait for it at present */
} mr_sync_figures;
mr_sync_figures mr_sync_figures_of(const mr_sync *s, int worker);
/* Gradients that complete the present step; 0 while UNHEARD workers are still waited for, or if no worker is left. */
int mr_sync_required(const mr_sync *s);

#endif
