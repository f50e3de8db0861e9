/* group/mpi/transport.c -- messages over MPI: for libmillrace-mpi.so only.
 *
 * Each transport has its own communicator. All calls into MPI are made under one lock, and none of them blocks: a
 * waiter polls, at intervals that grow to LONGEST_NAP_NS, so that it does not occupy a core. Messages are copied
 * before they are sent, because MPI cannot take a message back when a wait is given up. */
#include <limits.h>
#include <mpi.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/mpi.h"

#define LOOKS 200 /* polls before the first sleep */
#define FIRST_NAP_NS 20000
#define LONGEST_NAP_NS 500000

typedef struct world {
    mr_transport t;
    mr_mpi_tell_wait tell;
    MPI_Comm comm;
    _Atomic bool has_failed;
    mr_status *failed MR_GUARDED_BY(mu);
} world;

typedef struct letter { /* the state of a transfer, from start to finish */
    MPI_Request request;
    mr_status *st; /* why it could not be started */
    char *copy;
    bool begun;
} letter;

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* around every call of MPI; the innermost lock */
static int n_open MR_GUARDED_BY(mu);
static bool is_ours MR_GUARDED_BY(mu); /* this library started MPI */

/* MPI's error as a status; peer -1: it concerns no single member. The lock is held. */
static mr_status *mpi_status(int code, int peer)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return mr_error(MR_UNAVAILABLE, "group: member %d: MPI: %s", peer, text);
}

/* Starts a transfer. If that fails, the error is kept for finish. */
static void start_transfer(mr_transport *t, mr_transfer *x)
{
    MR_ASSERT(x->peer >= 0 && x->peer < t->size);
    world *w = (world *)t;
    letter *l = mr_new(letter);
    int rc = MPI_SUCCESS;
    x->impl = l;
    if (x->n > INT_MAX) {
        l->st = mr_invalid("group: a message of %zu bytes exceeds the limit of MPI, INT_MAX", x->n);
        return;
    }
    if (x->sending && x->n && !(l->copy = mr_try_alloc(x->n))) {
        l->st = mr_error(MR_RESOURCE_EXHAUSTED, "group: out of memory for a message of %zu bytes", x->n);
        return;
    }
    if (l->copy)
        memcpy(l->copy, x->data, x->n);
    mr_lock(&mu);
    if (x->sending)
        rc = MPI_Isend(l->copy, (int)x->n, MPI_BYTE, x->peer, 0, w->comm, &l->request);
    else
        rc = MPI_Irecv(x->data, (int)x->n, MPI_BYTE, x->peer, 0, w->comm, &l->request);
    l->begun = rc == MPI_SUCCESS;
    if (!l->begun)
        l->st = mpi_status(rc, x->peer);
    mr_unlock(&mu);
}

/* Polls once: whether the transfer is complete, and with which error. */
static bool poll_transfer(mr_transfer *x, mr_status **st)
{
    letter *l = x->impl;
    MPI_Status status;
    int done = 0, n = 0;
    mr_lock(&mu);
    int rc = MPI_Test(&l->request, &done, &status);
    if (rc == MPI_SUCCESS && done && !x->sending)
        MPI_Get_count(&status, MPI_BYTE, &n);
    if (rc != MPI_SUCCESS)
        *st = mpi_status(rc, x->peer);
    mr_unlock(&mu);
    if (rc == MPI_SUCCESS && done && !x->sending && (size_t)n != x->n)
        *st =
            mr_invalid("group: member %d runs a different operation: it sent %d bytes, expected %zu", x->peer, n, x->n);
    return rc != MPI_SUCCESS || done;
}

/* Abandons a transfer. A send leaks its copy on purpose, because MPI may still read it. */
static void give_up(mr_transfer *x)
{
    letter *l = x->impl;
    mr_lock(&mu);
    if (x->sending) {
        MPI_Request_free(&l->request);
        l->copy = NULL;
    } else {
        MPI_Cancel(&l->request);
        MPI_Wait(&l->request, MPI_STATUS_IGNORE);
    }
    mr_unlock(&mu);
}

/* Why to stop waiting: the transport has failed, or the deadline has passed; NULL: go on. */
static mr_status *stop_reason(world *w, const mr_transfer *x, int64_t deadline_ns)
{
    mr_status *st = NULL;
    if (atomic_load(&w->has_failed)) {
        mr_lock(&mu);
        st = mr_status_copy(w->failed);
        mr_unlock(&mu);
    } else if (deadline_ns && mr_now_ns() > deadline_ns) {
        st = mr_error(MR_DEADLINE_EXCEEDED, "group: waited for member %d of %d until the deadline", x->peer, w->t.size);
    }
    return st;
}

/* Waits for the end of a transfer by polling, and frees its state. */
static mr_status *finish_transfer(mr_transport *t, mr_transfer *x, int64_t deadline_ns)
{
    MR_ASSERT(x->impl);
    world *w = (world *)t;
    letter *l = x->impl;
    mr_status *st = l->st;
    int64_t nap_ns = FIRST_NAP_NS;
    mr_long_wait wait = {0};
    for (int i = 0; l->begun && !poll_transfer(x, &st); i++) {
        if ((st = stop_reason(w, x, deadline_ns))) {
            give_up(x);
            break;
        }
        if (i < LOOKS)
            continue;
        w->tell(&wait, x, t->size);
        mr_sleep_ns(nap_ns);
        nap_ns = MR_MIN(nap_ns * 2, LONGEST_NAP_NS);
    }
    mr_free(l->copy);
    mr_free(l);
    x->impl = NULL;
    return st;
}

/* The flag is set after the error, so a waiter that sees it finds the error. */
static void fail_transport(mr_transport *t, const mr_status *st)
{
    world *w = (world *)t;
    mr_lock(&mu);
    if (!w->failed)
        w->failed = mr_status_copy(st);
    mr_unlock(&mu);
    atomic_store(&w->has_failed, true);
}

/* All processes must free their transports: MPI_Comm_free is collective. The last one ends MPI if we started it. */
static void world_free(mr_transport *t)
{
    world *w = (world *)t;
    mr_lock(&mu);
    MR_ASSERT(n_open > 0);
    MPI_Comm_free(&w->comm);
    if (--n_open == 0 && is_ours)
        MPI_Finalize();
    mr_unlock(&mu);
    mr_status_free(w->failed);
    mr_free(w);
}

static const mr_transport_class class = {"mpi", start_transfer, finish_transfer, NULL, fail_transport, world_free};

/* ---- starting MPI ---- */

/* Starts MPI unless the program has. MPI must allow calls from several threads, one at a time. */
static mr_status *begin_locked(void) MR_REQUIRES(mu)
{
    int begun, ended, level;
    MPI_Finalized(&ended);
    if (ended)
        return mr_error(MR_FAILED_PRECONDITION, "group: MPI was finalized in this process and cannot be started again");
    MPI_Initialized(&begun);
    if (!begun) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
            return mr_error(MR_UNAVAILABLE, "group: MPI_Init_thread failed");
        is_ours = true;
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        return mr_error(MR_FAILED_PRECONDITION,
                        "group: the program started MPI for a single thread: call MPI_Init_thread "
                        "with MPI_THREAD_SERIALIZED");
    return NULL;
}

/* Makes one transport. MPI_Comm_dup is collective: all processes make theirs in the same order. Errors of the new
 * communicator are returned; the default would end the process. */
static mr_status *open_locked(mr_mpi_tell_wait tell, mr_transport **out) MR_REQUIRES(mu)
{
    world *w = mr_new(world);
    w->t.of = &class;
    w->tell = tell;
    int rc = MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
    if (rc != MPI_SUCCESS) {
        mr_free(w);
        return mpi_status(rc, -1);
    }
    MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(w->comm, &w->t.rank);
    MPI_Comm_size(w->comm, &w->t.size);
    MR_ASSERT(w->t.rank >= 0 && w->t.rank < w->t.size);
    n_open++;
    *out = &w->t;
    return NULL;
}

/* All n transports or none. */
static mr_status *open_all(int n, mr_mpi_tell_wait tell, mr_transport **out)
{
    mr_lock(&mu);
    mr_status *st = begin_locked();
    int made = 0;
    for (; made < n && !st; made += !st)
        st = open_locked(tell, &out[made]);
    mr_unlock(&mu);
    for (int i = 0; st && i < made; i++)
        world_free(out[i]);
    return st;
}

const mr_mpi_library *mr_mpi_library_get(void);
__attribute__((visibility("default"))) const mr_mpi_library *mr_mpi_library_get(void)
{
    static const mr_mpi_library library = {MR_MPI_ABI, open_all};
    return &library;
}
