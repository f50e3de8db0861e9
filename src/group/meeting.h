/* group/meeting.h -- how the processes of a group find each other, generation after generation.
 *
 * One process keeps the roster (roster_server.h), all attend.  On one host it is the process that holds the lock of a
 * file in the user's folder; the kernel releases the lock when that process ends.  Over gRPC it is the first member of
 * the last generation that answers, and for the first generation the member with the first address. */
#ifndef MR_GROUP_MEETING_H
#define MR_GROUP_MEETING_H

#include "group/fd_passing.h"
#include "group/post.h"
#include "group/roster_messages.h"

typedef struct mr_meeting mr_meeting;

typedef struct mr_meeting_options {
    const char *name;
    int rank, size;                /* in the first generation; rank -1: any */
    int least;                     /* as in mr_roster_options */
    const char *folder;            /* on one host; NULL: use addresses */
    const char *const *addresses;  /* over gRPC, by rank: this process listens at its own */
    int n_addresses;
    const mr_net_keys *keys;       /* over gRPC; NULL: plain text */
    int64_t join_ns;               /* how long a generation may take to come up */
    /* A generation has ended; called on a thread of a transport, must not block. */
    void (*ended)(void *arg, int64_t generation, const mr_status *why);
    void *arg;
} mr_meeting_options;

mr_status *mr_meeting_new(const mr_meeting_options *o, mr_meeting **out);
/* Leaves the group. */
void mr_meeting_free(mr_meeting *m);
/* Joins, for the first time or again, and waits for the next generation. */
mr_status *mr_meeting_gather(mr_meeting *m, int64_t deadline_ns);

/* About the generation that was gathered last, until the next gather. */
int64_t mr_meeting_generation(const mr_meeting *m);
uint64_t mr_meeting_key(const mr_meeting *m); /* the same number for all members of it */
int mr_meeting_rank(const mr_meeting *m);
int mr_meeting_size(const mr_meeting *m);
const char *mr_meeting_address(const mr_meeting *m,
                               int rank); /* over gRPC, or of the socket that passes its descriptors */
bool mr_meeting_waits(mr_meeting *m);   /* a process waits for the next one */
bool mr_meeting_is_over(mr_meeting *m); /* it has ended already */

/* Borrowed: the server of descriptors (on one host), the endpoint for messages (over gRPC), and the network. */
mr_fd_server *mr_meeting_fd_server(mr_meeting *m);
mr_post *mr_meeting_post(mr_meeting *m);
mr_net *mr_meeting_net(mr_meeting *m);

#endif
