/* group/mpi.h -- MPI's processes as members, through libmillrace-mpi.so, which alone links MPI.
 *
 * It is opened when it is first wanted (beside this library, or where MILLRACE_MPI_LIB says).  Members are those of the world; they
 * cannot change.  MPI is started when the program has not, and ended with the last transport then. */
#ifndef MR_GROUP_MPI_H
#define MR_GROUP_MPI_H

#include "base/long_wait.h"
#include "group/transport.h"

/* n transports between all processes, which all ask for.  FAILED_PRECONDITION naming what is missing. */
mr_status *mr_mpi_open(int n, mr_transport **out);

/* ---- between the two libraries, which are of one build ---- */
#define MR_MPI_ABI 2
/* Logs that a transfer between `size` members has not ended, when that is due; w->begun_ns 0: the wait begins.  The
 * library has no log of its own. */
typedef void (*mr_mpi_tell_wait)(mr_long_wait *w, const mr_transfer *x, int size);
typedef struct mr_mpi_library {
    int abi;
    mr_status *(*open)(int n, mr_mpi_tell_wait tell, mr_transport **out);
} mr_mpi_library;
#define MR_MPI_SYMBOL "mr_mpi_library_get"
typedef const mr_mpi_library *(*mr_mpi_library_fn)(void);

#endif
