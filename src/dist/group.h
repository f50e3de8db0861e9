/* dist/group.h -- who is in a group, in which generation.
 *
 * Pure: events in, actions out.  One process of a group keeps its roster; all join with it and hear of it when a generation is
 * formed and when it has ended.  A generation is a fixed list of members, their ranks being the order; it ends when one of them
 * is gone or leaves, or wants another (by joining again), and it is never changed.  Who was in it then joins again, those that
 * are new join too, and when all are there the next one is formed.  Nobody is waited for longer than rejoin_ns.
 *
 * When the keeper is gone, another process keeps a roster of its own.  Whoever joins tells which generation it was last in, with
 * whom, and who is lost: so the new keeper knows whom to wait for, and counts on from there.  A generation's name is its number
 * with the keeper's key, for a keeper may have formed one that not all heard of; numbers rise for each member in any case.  Behind
 * the last of them comes 1: so nobody can end a group by telling a high one. */
#ifndef MR_DIST_GROUP_H
#define MR_DIST_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

typedef MR_VEC(uint64_t) mr_roster_keys; /* processes: numbers chosen at random, not 0 */

typedef enum mr_roster_message {
    MR_ROSTER_JOIN,
    MR_ROSTER_LEAVE,
    MR_ROSTER_GONE, /* its end was seen */
    MR_ROSTER_TICK, /* time passes, nothing else */
} mr_roster_message;

typedef struct mr_roster_event {
    mr_roster_message message;
    uint64_t who;
    /* of a join; from the wire: checked here */
    int wanted;         /* its rank in the first generation; -1: any */
    int64_t generation; /* the last it was in; 0: none */
    const uint64_t *peers; /* of that, in the order of ranks */
    int n_peers;
    uint64_t lost; /* whom it knows to be gone; 0: nobody */
} mr_roster_event;

typedef enum mr_roster_do {
    MR_ROSTER_FORM,   /* tell all `members` of the generation */
    MR_ROSTER_END,    /* tell the members but `who`, because of whom it is over: `why` */
    MR_ROSTER_REFUSE, /* tell `who` that it cannot join: `why` */
    MR_ROSTER_WAITS,  /* tell the members that `who` waits for the next generation */
} mr_roster_do;

typedef struct mr_roster_action {
    mr_roster_do what;
    uint64_t who;
    mr_code code;    /* of a refusal */
    const char *why; /* "is gone", "has left", ...: follows the member's name */
} mr_roster_action;
typedef MR_VEC(mr_roster_action) mr_roster_actions;

enum { MR_ROSTER_MOST = 4096 }; /* processes that a roster has room for */
#define MR_ROSTER_LAST (INT64_C(1) << 62) /* number of a generation */

typedef struct mr_roster_options {
    int size;          /* of the first generation, which is not formed before all are there */
    int least;         /* members without which none is formed; 0: 1, or more than half of the last one with `majority` */
    bool majority;     /* nobody else can keep a roster of the rest: processes may be cut off from each other */
    int64_t join_ns;   /* how long a generation may take to come up; then who waits is refused; 0: for ever */
    int64_t rejoin_ns; /* how long members of the last one are waited for */
} mr_roster_options;

typedef struct mr_roster_seat { /* somebody who waits */
    uint64_t who;
    int wanted;
} mr_roster_seat;

typedef struct mr_roster {
    mr_roster_options o;
    int64_t generation; /* the present or last one: that of `members` */
    int64_t highest;    /* the latest that anybody who joined was in; the next one is later */
    bool running;
    mr_roster_keys members;  /* of it, in the order of ranks */
    mr_roster_keys expected; /* of those, who should join again and has not yet */
    MR_VEC(mr_roster_seat) waiting;
    int64_t since_ns; /* when somebody first waited, or the last generation ended */
} mr_roster;

void mr_roster_init(mr_roster *r, const mr_roster_options *o);
void mr_roster_deinit(mr_roster *r);
/* What happened, and what follows, in its order.  Words that make no sense change nothing. */
void mr_roster_step(mr_roster *r, const mr_roster_event *e, int64_t now_ns, mr_roster_actions *out);
/* Whether generation b is later than a (0: none), numbers going round: it is less than half a round ahead. */
bool mr_roster_is_later(int64_t b, int64_t a);
/* When time alone may change something; INT64_MAX: never. */
int64_t mr_roster_next_ns(const mr_roster *r);
/* The rank of a process in the present or last generation; -1: none. */
int mr_roster_rank(const mr_roster *r, uint64_t who);

#endif
