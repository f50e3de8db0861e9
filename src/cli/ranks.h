/* cli/ranks.h -- which rank of a job of mpirun or Slurm this process is, and the hosts of all ranks.
 *
 * All of it comes from environment variables; we do not link MPI. */
#ifndef MR_CLI_RANKS_H
#define MR_CLI_RANKS_H

#include "cli/hosts.h"

typedef struct mr_ranks {
    const char *scheduler; /* "Slurm"; NULL: this process is not a rank */
    int rank, size;
    bool has_job;          /* the scheduler gives the job a number or a name; then */
    uint64_t job;          /* is the same for all ranks and differs between jobs */
    mr_hosts hosts;        /* a place for each rank; all are 127.0.0.1 if they share one machine */
} mr_ranks;

typedef const char *(*mr_env_fn)(const char *name); /* getenv, or a fake in tests */

/* given: hosts from the command line, which override those of the scheduler; may be empty. */
mr_status *mr_ranks_read(mr_env_fn env, const mr_hosts *given, mr_ranks *out);
void mr_ranks_deinit(mr_ranks *r);

#endif
