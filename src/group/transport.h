/* group/transport.h -- bytes between the members of a group.
 *
 * Members have ranks 0 .. size - 1, for as long as the transport lives: a group that changes gets a new one.  Messages
 * from one member to another arrive whole and in the order of sending.  The receiver says how much it expects; another
 * size is an error on its side.  Three kinds: shared memory (shm.h), net/net.h's calls over gRPC or a local socket
 * (post.h), MPI (mpi.h).  One conformance test runs over all.
 *
 * One thread at a time uses a transport, but for `fail`.  Every wait ends: by its deadline (DEADLINE_EXCEEDED naming
 * the rank), by a peer that does not answer (UNAVAILABLE naming the rank, if the transport notices that), or by fail,
 * which the group calls when a member is lost. */
#ifndef MR_GROUP_TRANSPORT_H
#define MR_GROUP_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_transport mr_transport;
typedef struct mr_group_work mr_group_work;

/* A message in progress; embedded in the waiting object. */
typedef struct mr_transfer {
    bool sending;
    int peer;
    void *data; /* the caller's, used until finish; not written when sending */
    size_t n;
    void *impl; /* this and the fields below belong to the transport */
    uint64_t number;
    size_t done;
    struct mr_transfer *next;
} mr_transfer;

typedef struct mr_transport_class {
    const char *name; /* "shm", "grpc", "mpi" */
    /* Begins to send or to receive; never waits.  Every transfer that was begun must be finished. */
    void (*start)(mr_transport *t, mr_transfer *x);
    /* Waits for the end of a transfer.  Afterwards, even on error, the transport does not touch its data. */
    mr_status *(*finish)(mr_transport *t, mr_transfer *x, int64_t deadline_ns);
    /* Runs an operation faster than by messages.  May be NULL; *done false: it was not run. */
    mr_status *(*run)(mr_transport *t, const mr_group_work *w, int64_t deadline_ns, bool *done);
    /* From any thread: every wait, now or later, ends with a copy of st (borrowed).  Only the first call has an effect.
     */
    void (*fail)(mr_transport *t, const mr_status *st);
    void (*free)(mr_transport *t);
} mr_transport_class;

struct mr_transport { /* the first member of each kind's struct */
    const mr_transport_class *of;
    int rank, size;
};

static inline void mr_transport_free(mr_transport *t)
{
    if (t)
        t->of->free(t);
}

#endif
