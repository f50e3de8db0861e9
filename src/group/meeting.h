/* group/meeting.h -- how the processes of a group find each other, generation after generation.
 *
 * One of them keeps the roster (keeper.h), all attend.  On one host the keeper is whoever holds the lock of a file in a folder of
 * the user, so that it changes by itself when the process of the keeper ends.  Over gRPC it is the first of the last generation
 * that answers, at first the first of the addresses. */
#ifndef MR_GROUP_MEETING_H
#define MR_GROUP_MEETING_H

#include "group/gift.h"
#include "group/post.h"
#include "group/words.h"

typedef struct mr_meeting mr_meeting;

typedef struct mr_meeting_options {
    const char *name;
    int rank, size;                /* in the first generation; rank -1: any */
    int least;                     /* as of mr_roster_options */
    const char *folder;            /* of one host; or */
    const char *const *addresses;  /* by rank, of gRPC: this process listens at its own */
    int n_addresses;
    const mr_net_keys *keys;       /* of gRPC; NULL: plain */
    int64_t join_ns;               /* how long a generation may take to come up */
    /* A generation is over; from a thread of a transport, must not block. */
    void (*ended)(void *arg, int64_t generation, const mr_status *why);
    void *arg;
} mr_meeting_options;

mr_status *mr_meeting_new(const mr_meeting_options *o, mr_meeting **out);
/* Leaves. */
void mr_meeting_free(mr_meeting *m);
/* Joins, for the first time or again, and waits for the next generation. */
mr_status *mr_meeting_gather(mr_meeting *m, int64_t deadline_ns);

/* Of the generation that was gathered last, until the next gather. */
int64_t mr_meeting_generation(const mr_meeting *m);
uint64_t mr_meeting_key(const mr_meeting *m); /* the same number for all members of it */
int mr_meeting_rank(const mr_meeting *m);
int mr_meeting_size(const mr_meeting *m);
const char *mr_meeting_address(const mr_meeting *m, int rank); /* of gRPC, or of its gifts */
bool mr_meeting_waits(mr_meeting *m);   /* somebody waits for the next one */
bool mr_meeting_is_over(mr_meeting *m); /* it has ended already */

/* What goes with it: the gifts of this process, on one host; its post office, over gRPC. */
mr_gifts *mr_meeting_gifts(mr_meeting *m);
mr_post *mr_meeting_post(mr_meeting *m);
mr_net *mr_meeting_net(mr_meeting *m);

#endif
