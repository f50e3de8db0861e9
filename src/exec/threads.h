/* exec/threads.h -- the pools that sessions compute with: shared by the process, or a session's own. */
#ifndef MR_EXEC_THREADS_H
#define MR_EXEC_THREADS_H

#include "base/pool.h"

/* How many threads a setting means: n itself, or for 0 the environment variable, or else one per core. */
int mr_threads_wanted(int n, const char *variable);

/* A pool of n threads (limited to what is possible): the process-wide one of that size, or a new one. served: all n are
 * its workers; otherwise one of them is the caller of a step. */
mr_status *mr_threads_take(int n, bool own, bool served, mr_pool **out);
void mr_threads_give(mr_pool *p, bool own); /* NULL is fine */

#endif
