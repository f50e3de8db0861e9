/* group/shm_internal.h -- the shared-memory transport: shm.c waits and passes messages, shm_run.c runs operations. */
#ifndef MR_GROUP_SHM_INTERNAL_H
#define MR_GROUP_SHM_INTERNAL_H

#include "base/long_wait.h"
#include "base/thread.h"
#include "group/group.h"
#include "group/shm_pipe.h"

/* Precedes the bytes of an operation or a message in each pipe to a member. */
typedef struct mr_shm_head {
    uint32_t magic;
    uint16_t kind; /* mr_group_kind, or MR_SHM_MESSAGE and following */
    uint8_t type, merge;
    uint64_t number; /* of the operation */
    int64_t count;
    int32_t root;
    uint32_t mean;
    uint64_t buffer, at; /* the shared buffer that holds the values, and where in it; buffer 0: none */
    uint64_t unused[2];
} mr_shm_head;
_Static_assert(sizeof(mr_shm_head) == MR_PIPE_LINE, "one line");
#define MR_SHM_MAGIC 0x4d52474du
enum { MR_SHM_MESSAGE = 100, MR_SHM_END = 101, MR_SHM_GIVEN_UP = 102 };

/* The progress of an operation with one other member. */
typedef struct mr_shm_lane {
    bool told, heard; /* head sent, head received */
    mr_shm_head head; /* a copy of the one that came */
    const char *push; /* to it */
    size_t push_n, pushed;
    char *pull; /* from it */
    size_t pull_n, pulled;
    char *place; /* its buffer, when all are in shared memory */
} mr_shm_lane;

typedef struct mr_shm {
    mr_transport t;
    size_t bytes; /* of a segment */
    char **segments;
    mr_pipe *to;      /* by rank; own: the common pipe */
    mr_pipe *from;    /* by rank: to this member */
    mr_pipe *commons; /* by rank */
    mr_shm_memory memory;
    size_t *owed; /* bytes moved since the member was last woken */
    int waits_for; /* the first member that something is missing from */
    mr_long_wait wait; /* for logging; begun_ns 0: not waiting */
    uint64_t number; /* operations so far */
    mr_shm_lane *lanes;
    mr_transfer *transfers; /* begun, in their order */

    /* whether to spin before sleeping (shm.c) */
    bool may_spin;
    int worth;
    int64_t no_spin_until_ns;

    mr_mutex mu;
    mr_status *failed MR_GUARDED_BY(mu);
    _Atomic bool has_failed;
} mr_shm;

static inline size_t mr_shm_pad(size_t n) { return (n + MR_PIPE_LINE - 1) & ~(size_t)(MR_PIPE_LINE - 1); }
static inline mr_shm_bell *mr_shm_bell_of(mr_shm *s, int rank) { return (mr_shm_bell *)s->segments[rank]; }

/* Reports n bytes put into a pipe to `rank` or taken from one of its pipes; wakes it when that is worthwhile. */
void mr_shm_moved(mr_shm *s, int rank, size_t n);
/* Wakes every sleeping member with bytes not yet reported: at the end of an operation, and before sleeping. */
void mr_shm_tell(mr_shm *s);

typedef struct mr_shm_wait {
    int phase;
    int rounds;
    int64_t began_ns;
    uint32_t rings;
} mr_shm_wait;
/* Call after a look that found nothing to do; returns when to look again.  Ends with an error at the deadline and after
 * fail. */
mr_status *mr_shm_idle(mr_shm *s, mr_shm_wait *w, int64_t deadline_ns);
/* Call after a look that found something. */
void mr_shm_busy(mr_shm *s, mr_shm_wait *w);

mr_status *mr_shm_broken(const mr_shm *s, int rank);
/* shm_run.c */
mr_status *mr_shm_run(mr_transport *t, const mr_group_work *w, int64_t deadline_ns, bool *done);

#endif
