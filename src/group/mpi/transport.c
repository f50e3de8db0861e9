/* group/mpi/transport.c -- messages by MPI: for libmillrace-mpi.so only.
 *
 * Each transport has a communicator of its own.  All calls into MPI are made under one lock, and none of them waits: who waits looks
 * again after a while that grows, so that a core is not kept from others.  What is sent is copied, because a message cannot be
 * called back. */
#include <limits.h>
#include <mpi.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/mpi.h"

#define LOOKS 200 /* before it sleeps at all */
#define FIRST_NAP_NS 20000
#define LONGEST_NAP_NS 500000

typedef struct world {
    mr_transport t;
    mr_mpi_tell_wait tell;
    MPI_Comm comm;
    _Atomic bool has_failed;
    mr_status *failed MR_GUARDED_BY(mu);
} world;

typedef struct letter {
    MPI_Request request;
    mr_status *st; /* it never began */
    char *copy;
    bool begun;
} letter;

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* around MPI; nothing is locked within */
static int n_open MR_GUARDED_BY(mu);
static bool is_ours MR_GUARDED_BY(mu); /* we have started MPI */

static mr_status *trouble(int code, int peer)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return mr_error(MR_UNAVAILABLE, "group: member %d: MPI: %s", peer, text);
}

static void start(mr_transport *t, mr_transfer *x)
{
    world *w = (world *)t;
    letter *l = mr_new(letter);
    int rc = MPI_SUCCESS;
    x->impl = l;
    if (x->n > INT_MAX) {
        l->st = mr_invalid("group: a message of %zu bytes is too large for MPI", x->n);
        return;
    }
    if (x->sending && x->n && !(l->copy = mr_try_alloc(x->n))) {
        l->st = mr_error(MR_RESOURCE_EXHAUSTED, "group: no memory for %zu bytes to send", x->n);
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
        l->st = trouble(rc, x->peer);
    mr_unlock(&mu);
}

/* One look: whether it is over, and how it ended. */
static bool look(mr_transfer *x, mr_status **st)
{
    letter *l = x->impl;
    MPI_Status status;
    int done = 0, n = 0;
    mr_lock(&mu);
    int rc = MPI_Test(&l->request, &done, &status);
    if (rc == MPI_SUCCESS && done && !x->sending)
        MPI_Get_count(&status, MPI_BYTE, &n);
    if (rc != MPI_SUCCESS)
        *st = trouble(rc, x->peer);
    mr_unlock(&mu);
    if (rc == MPI_SUCCESS && done && !x->sending && (size_t)n != x->n)
        *st = mr_invalid("group: member %d does something else: %d bytes came from it, expected %zu", x->peer, n, x->n);
    return rc != MPI_SUCCESS || done;
}

/* It is not waited for any more.  A message that is being sent keeps its copy: MPI may still read it. */
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

static mr_status *why_not(world *w, const mr_transfer *x, int64_t deadline_ns)
{
    mr_status *st = NULL;
    if (atomic_load(&w->has_failed)) {
        mr_lock(&mu);
        st = mr_status_copy(w->failed);
        mr_unlock(&mu);
    } else if (deadline_ns && mr_now_ns() > deadline_ns) {
        st = mr_error(MR_DEADLINE_EXCEEDED, "group: member %d of %d was waited for until the deadline", x->peer, w->t.size);
    }
    return st;
}

static mr_status *finish(mr_transport *t, mr_transfer *x, int64_t deadline_ns)
{
    world *w = (world *)t;
    letter *l = x->impl;
    mr_status *st = l->st;
    int64_t nap_ns = FIRST_NAP_NS;
    mr_long_wait wait = {0};
    for (int i = 0; l->begun && !look(x, &st); i++) {
        if ((st = why_not(w, x, deadline_ns))) {
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

static void fail(mr_transport *t, const mr_status *st)
{
    world *w = (world *)t;
    mr_lock(&mu);
    if (!w->failed)
        w->failed = mr_status_copy(st);
    mr_unlock(&mu);
    atomic_store(&w->has_failed, true);
}

static void world_free(mr_transport *t)
{
    world *w = (world *)t;
    mr_lock(&mu);
    MPI_Comm_free(&w->comm);
    if (--n_open == 0 && is_ours)
        MPI_Finalize();
    mr_unlock(&mu);
    mr_status_free(w->failed);
    mr_free(w);
}

static const mr_transport_class class = {"mpi", start, finish, NULL, fail, world_free};

/* ---- starting MPI ---- */

static mr_status *begin_locked(void) MR_REQUIRES(mu)
{
    int begun, ended, level;
    MPI_Finalized(&ended);
    if (ended)
        return mr_error(MR_FAILED_PRECONDITION, "group: MPI has ended in this process, and does not start again");
    MPI_Initialized(&begun);
    if (!begun) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
            return mr_error(MR_UNAVAILABLE, "group: MPI does not start");
        is_ours = true;
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        return mr_error(MR_FAILED_PRECONDITION, "group: MPI was started for one thread alone: MPI_Init_thread with "
                                                "MPI_THREAD_SERIALIZED is needed");
    return NULL;
}

static mr_status *open_locked(mr_mpi_tell_wait tell, mr_transport **out) MR_REQUIRES(mu)
{
    world *w = mr_new(world);
    w->t.of = &class;
    w->tell = tell;
    int rc = MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
    if (rc != MPI_SUCCESS) {
        mr_free(w);
        return trouble(rc, -1);
    }
    MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(w->comm, &w->t.rank);
    MPI_Comm_size(w->comm, &w->t.size);
    n_open++;
    *out = &w->t;
    return NULL;
}

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
