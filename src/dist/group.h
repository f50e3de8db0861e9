/* dist/group.h -- the roster of a process group: which processes are in which generation.
 *
 * Pure: events in, actions out.  One process of a group, the roster server, keeps the roster; all processes join there
 * and are told when a generation is formed and when it has ended.  A generation is a fixed list of members in the order
 * of their ranks and never changes.  It ends when a member is gone, leaves, or asks for another one by joining again.
 * Then its members join again, new processes join too, and when all are present the next generation is formed.  No
 * process is waited for longer than rejoin_ns.
 *
 * When the roster server is gone, another process keeps a new roster.  A process that joins says which generation it
 * was last in, with which members, and which of them is lost: so the new roster server knows which processes to wait
 * for, and continues the numbering.  A generation is identified by its number and the key of its roster server, because
 * a roster server may have formed one that not all members learned of.  The numbers that a member sees always rise;
 * after the last one comes 1, so a process cannot end a group by naming a high number. */
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
    MR_ROSTER_GONE, /* the end of its process was noticed */
    MR_ROSTER_TICK, /* only time has passed */
} mr_roster_message;

typedef struct mr_roster_event {
    mr_roster_message message;
    uint64_t who;
    /* of a join; from the wire: checked here */
    int wanted;         /* its rank in the first generation; -1: any */
    int64_t generation; /* the last one it was in; 0: none */
    const uint64_t *peers; /* the members of that generation, in the order of ranks */
    int n_peers;
    uint64_t lost; /* the member that it knows to be gone; 0: none */
} mr_roster_event;

typedef enum mr_roster_do {
    MR_ROSTER_FORM,   /* tell all `members` of the generation */
    MR_ROSTER_END,    /* tell all members but `who`, which caused it, that the generation is over: `why` */
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
    int size;          /* of the first generation, which is formed when all members are present */
    int least;         /* members that a generation needs; 0: 1, or with `majority` more than half of the last one */
    bool majority;     /* processes may be cut off from each other: only one side may form a generation */
    int64_t join_ns;   /* how long a generation may take to form; then the waiting processes are refused; 0: no limit */
    int64_t rejoin_ns; /* how long members of the last generation are waited for */
} mr_roster_options;

typedef struct mr_roster_seat { /* a process that waits for the next generation */
    uint64_t who;
    int wanted;
} mr_roster_seat;

typedef struct mr_roster {
    mr_roster_options o;
    int64_t generation; /* the present or last one: that of `members` */
    int64_t highest;    /* the latest generation that any joining process was in; the next one is later */
    bool running;
    mr_roster_keys members;  /* of it, in the order of ranks */
    mr_roster_keys expected; /* the members that should join again and have not yet */
    MR_VEC(mr_roster_seat) waiting;
    int64_t since_ns; /* when a process first waited, or the last generation ended */
} mr_roster;

void mr_roster_init(mr_roster *r, const mr_roster_options *o);
void mr_roster_deinit(mr_roster *r);
/* Handles an event; appends the actions in the order in which they must be done.  An invalid event changes nothing. */
void mr_roster_step(mr_roster *r, const mr_roster_event *e, int64_t now_ns, mr_roster_actions *out);
/* Whether generation b is later than a (0: none).  Numbers wrap around: b is less than half of all numbers ahead. */
bool mr_roster_is_later(int64_t b, int64_t a);
/* When time alone may change something; INT64_MAX: never. */
int64_t mr_roster_next_ns(const mr_roster *r);
/* The rank of a process in the present or last generation; -1: none. */
int mr_roster_rank(const mr_roster *r, uint64_t who);

#endif
