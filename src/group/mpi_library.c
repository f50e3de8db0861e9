/* group/mpi_library.c -- opens libmillrace-mpi.so.
 *
 * The library is opened once and never closed, because MPI cannot be started twice in a process. */
#include <dlfcn.h>

#include "base/beside.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "group/mpi.h"

#define FILE_NAME "libmillrace-mpi.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_mpi_library *opened MR_GUARDED_BY(mu);

/* Opens the library and checks that it is of this build. The lock is held. */
static mr_status *open_at(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return mr_error(MR_FAILED_PRECONDITION,
                        "MPI is not available: %s. It needs " FILE_NAME
                        " (set MILLRACE_MPI_LIB to its path) and the package libopenmpi3",
                        dlerror());
    mr_mpi_library_fn get = (mr_mpi_library_fn)(uintptr_t)dlsym(lib, MR_MPI_SYMBOL);
    const mr_mpi_library *l = get ? get() : NULL;
    if (!l || l->abi != MR_MPI_ABI) {
        dlclose(lib);
        return mr_error(MR_FAILED_PRECONDITION, "%s belongs to another build of Millrace", path);
    }
    opened = l;
    return NULL;
}

/* The mr_mpi_tell_wait of this build: MPI's library calls it after each sleep of a wait. */
static void tell_wait(mr_long_wait *w, const mr_transfer *x, int size)
{
    int64_t now_ns = mr_now_ns();
    double seconds;
    if (!w->begun_ns)
        mr_long_wait_begin(w, now_ns);
    if (mr_long_wait_due(w, now_ns, &seconds))
        mr_info("Still waiting for member %d of %d of the group over MPI: %s (%.0f s)", x->peer, size,
                x->sending ? "it has not received what was sent" : "it has sent nothing", seconds);
}

/* Opens the library at the first call. A failure is not remembered: the next call tries again. */
mr_status *mr_mpi_open(int n, mr_transport **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_MPI_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    const mr_mpi_library *l = opened;
    MR_ASSERT(st || l);
    mr_unlock(&mu);
    return st ? st : l->open(n, tell_wait, out);
}
