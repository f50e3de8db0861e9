/* dist/membership.h -- which tasks of a cluster are alive, since when, and which were restarted.
 *
 * Pure: what is heard and what time it is goes in; events and tasks to ask come out.  Each task watches the others
 * by itself: whatever comes from a task (a heartbeat, its answer, a call) is a sign of life and carries the task's
 * incarnation, a number chosen at random when its process starts.  A silent task is first suspected, which has no
 * consequence but that it can be shown, and then lost.  Another incarnation means that the process was restarted
 * and its state is gone.  Incarnations have no order, and messages overtake each other: while a task seems alive,
 * another incarnation is believed only as the answer to something that was asked after the present one had been
 * heard; all else may be a late word of an earlier life, and changes nothing. */
#ifndef MR_DIST_MEMBERSHIP_H
#define MR_DIST_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef enum mr_member_state {
    MR_MEMBER_UNHEARD, /* never heard of: not started yet, for all we know */
    MR_MEMBER_ALIVE,
    MR_MEMBER_SUSPECT, /* silent for longer than it should be */
    MR_MEMBER_LOST,    /* silent for so long that nobody waits for it, or its end was seen */
} mr_member_state;

enum { MR_LIVES_REMEMBERED = 8 };

typedef struct mr_member {
    mr_member_state state;
    uint64_t incarnation; /* of its present or last life; 0: unheard */
    int64_t since_ns;     /* when it came into this state */
    int64_t heard_ns;     /* the last sign of life */
    int64_t born_ns;      /* the first one of this life */
    int64_t ask_ns;       /* when it is to be asked next */
    bool ignored;         /* nobody wants to know: it is not asked, and its silence means nothing */
    int64_t cared_ns;     /* since when somebody does */
    uint64_t past[MR_LIVES_REMEMBERED]; /* earlier incarnations, the newest at `at` - 1 */
    int at;
} mr_member;

typedef enum mr_member_what {
    MR_MEMBER_JOINED,    /* first heard of, or back in the same life after it was lost */
    MR_MEMBER_LEFT,      /* lost: `incarnation` is the life that ended */
    MR_MEMBER_RESTARTED, /* lives again, without its state; no LEFT comes before when it was quick */
    MR_MEMBER_SUSPECTED,
    MR_MEMBER_CLEARED, /* a suspect was heard of */
} mr_member_what;

typedef struct mr_member_event {
    mr_member_what what;
    int task;
    uint64_t incarnation;
} mr_member_event;
typedef MR_VEC(mr_member_event) mr_member_events;
typedef MR_VEC(int) mr_member_tasks;

typedef struct mr_membership_times {
    int64_t ask_ns;     /* from one heartbeat to the next */
    int64_t suspect_ns; /* of silence */
    int64_t lost_ns;    /* of silence */
} mr_membership_times;
extern const mr_membership_times mr_membership_default; /* 1 s, 3 s, 10 s */

typedef struct mr_membership {
    mr_membership_times times;
    int n, self; /* self is never asked and always alive; -1: the watcher is no task */
    mr_member *members;
} mr_membership;

/* times NULL: the default. */
void mr_membership_init(mr_membership *m, int n, int self, const mr_membership_times *times, int64_t now_ns);
void mr_membership_deinit(mr_membership *m);

/* A sign of life: an answer to what was asked at asked_ns, or (asked_ns -1) a call of its own.  False: it is not of the
 * present life, for all we know. */
bool mr_membership_heard(mr_membership *m, int task, uint64_t incarnation, int64_t asked_ns, int64_t now_ns,
                         mr_member_events *out);
/* The end of that life was seen (it said so, or its process is gone); incarnation 0: of the present one. */
void mr_membership_gone(mr_membership *m, int task, uint64_t incarnation, int64_t now_ns, mr_member_events *out);
/* Whether anybody cares for a task; at first somebody does for all.  Silence counts from when it is cared for again. */
void mr_membership_care(mr_membership *m, int task, bool on, int64_t now_ns);
/* The watcher itself did not run until now: silence counts anew for all, whose words may wait to be read. */
void mr_membership_slept(mr_membership *m, int64_t now_ns);
/* Time passes: who is silent for too long, and whom to send a heartbeat (ask may be NULL).  Returns the time of the
 * next tick. */
int64_t mr_membership_tick(mr_membership *m, int64_t now_ns, mr_member_events *out, mr_member_tasks *ask);
/* Whether a life is known to have ended: its sessions and steps have nobody any more. */
bool mr_membership_ended(const mr_membership *m, int task, uint64_t incarnation);

const char *mr_member_what_name(mr_member_what what); /* "joined" */

#endif
