/* cli/ranks.h -- which rank this process is of a job that mpirun or Slurm started, and where all ranks are.
 *
 * Only their environment is read; nothing of MPI is linked. */
#ifndef MR_CLI_RANKS_H
#define MR_CLI_RANKS_H

#include "cli/hosts.h"

typedef struct mr_ranks {
    const char *scheduler; /* "Slurm"; NULL: nobody started this process as a rank */
    int rank, size;
    bool has_job;          /* the scheduler gives the job a number or a name: */
    uint64_t job;          /* the same for all ranks, another one for other jobs */
    mr_hosts hosts;        /* a place for each rank; all 127.0.0.1 when they share one machine */
} mr_ranks;

typedef const char *(*mr_env_fn)(const char *name); /* getenv, or a test's */

/* given: hosts from the command line, for a scheduler that does not tell (may be empty). */
mr_status *mr_ranks_read(mr_env_fn env, const mr_hosts *given, mr_ranks *out);
void mr_ranks_deinit(mr_ranks *r);

#endif
