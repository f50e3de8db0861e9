/* group/mpi.h -- MPI's processes as members, through libmillrace-mpi.so, the only library that links MPI.
 *
 * The library is opened when it is first needed (beside this library, or at MILLRACE_MPI_LIB). The members are
 * those of MPI's world and cannot change. If the program has not started MPI, the library does, and ends it with
 * the last transport. */
#ifndef MR_GROUP_MPI_H
#define MR_GROUP_MPI_H

#include "base/long_wait.h"
#include "group/transport.h"

/* n transports between all processes; all must call this.  FAILED_PRECONDITION names what is missing. */
mr_status *mr_mpi_open(int n, mr_transport **out);

/* ---- between the two libraries of one build ---- */
#define MR_MPI_ABI 2
/* Logs that a transfer between `size` members has not ended, when that is due; w->begun_ns 0: the wait begins.  A
 * callback, because the library has no log. */
typedef void (*mr_mpi_tell_wait)(mr_long_wait *w, const mr_transfer *x, int size);
typedef struct mr_mpi_library {
    int abi;
    mr_status *(*open)(int n, mr_mpi_tell_wait tell, mr_transport **out);
} mr_mpi_library;
#define MR_MPI_SYMBOL "mr_mpi_library_get"
typedef const mr_mpi_library *(*mr_mpi_library_fn)(void);

#endif
