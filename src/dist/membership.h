/* dist/membership.h -- which tasks of a cluster are alive, since when, and which were restarted.
 *
 * Pure: messages and the time go in; events, and tasks to send heartbeats to, come out.  Each task watches the others
 * by itself: every message of a task (a heartbeat, its answer, a call) shows that the task is alive and carries its
 * incarnation, a random number chosen when its process starts.  A silent task is first suspected, which is only shown
 * to the user, and then lost.  Another incarnation means that the process was restarted and its state is gone.
 * Incarnations have no order, and messages overtake each other.  So while a task seems alive, another incarnation is
 * believed only as the answer to a question that was asked after the present one had been heard from; any other message
 * may be a late one of an earlier incarnation, and changes nothing. */
#ifndef MR_DIST_MEMBERSHIP_H
#define MR_DIST_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef enum mr_member_state {
    MR_MEMBER_UNHEARD, /* never heard from: probably not started yet */
    MR_MEMBER_ALIVE,
    MR_MEMBER_SUSPECT, /* silent for longer than suspect_ns */
    MR_MEMBER_LOST,    /* silent for longer than lost_ns, or its end was noticed */
} mr_member_state;

enum { MR_INCARNATIONS_REMEMBERED = 8 };

typedef struct mr_member {
    mr_member_state state;
    uint64_t incarnation; /* the present or last one; 0: never heard from */
    int64_t since_ns;     /* when it entered this state */
    int64_t heard_ns;     /* its last message */
    int64_t born_ns;      /* the first message of this incarnation */
    int64_t ask_ns;       /* when its next heartbeat is due */
    bool ignored;         /* not watched: it gets no heartbeats, and its silence means nothing */
    int64_t cared_ns;     /* since when it is watched */
    uint64_t past[MR_INCARNATIONS_REMEMBERED]; /* earlier incarnations, the newest at `at` - 1 */
    int at;
} mr_member;

typedef enum mr_member_what {
    MR_MEMBER_JOINED,    /* first heard from, or back in the same incarnation after it was lost */
    MR_MEMBER_LEFT,      /* lost: `incarnation` is the one that ended */
    MR_MEMBER_RESTARTED, /* alive again, without its state; if that was quick, no LEFT comes before */
    MR_MEMBER_SUSPECTED,
    MR_MEMBER_CLEARED, /* a suspect was heard from */
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
    int n, self; /* self is always alive and gets no heartbeats; -1: the watcher is not a task */
    mr_member *members;
} mr_membership;

/* times NULL: the default. */
void mr_membership_init(mr_membership *m, int n, int self, const mr_membership_times *times, int64_t now_ns);
void mr_membership_deinit(mr_membership *m);

/* A message of a task: the answer to a question of asked_ns, or (asked_ns -1) a call.  False: it is not believed to be
 * of the present incarnation. */
bool mr_membership_heard(mr_membership *m, int task, uint64_t incarnation, int64_t asked_ns, int64_t now_ns,
                         mr_member_events *out);
/* The end of an incarnation was noticed: it said so, or its process is gone.  incarnation 0: the present one. */
void mr_membership_gone(mr_membership *m, int task, uint64_t incarnation, int64_t now_ns, mr_member_events *out);
/* Starts or stops watching a task; at first all are watched.  Silence counts from when it is watched again. */
void mr_membership_care(mr_membership *m, int task, bool on, int64_t now_ns);
/* The watcher itself did not run until now: silence counts from now on for all tasks, whose messages may be unread. */
void mr_membership_slept(mr_membership *m, int64_t now_ns);
/* Time passes: which tasks have been silent for too long, and which are due for a heartbeat (ask may be NULL).  Returns
 * the time of the next tick. */
int64_t mr_membership_tick(mr_membership *m, int64_t now_ns, mr_member_events *out, mr_member_tasks *ask);
/* Whether an incarnation is known to have ended; then its sessions and steps are abandoned. */
bool mr_membership_ended(const mr_membership *m, int task, uint64_t incarnation);

const char *mr_member_what_name(mr_member_what what); /* "joined" */

#endif
