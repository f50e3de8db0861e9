/* base/busy_threads_fixture.h -- all threads of base/blocking.h are in use.  For tests of what then waits for one. */
#ifndef MR_BASE_BUSY_THREADS_FIXTURE_H
#define MR_BASE_BUSY_THREADS_FIXTURE_H

typedef struct mr_busy_threads mr_busy_threads;

mr_busy_threads *mr_busy_threads_new(void);     /* returns when each of MR_BLOCKING_MAX threads is kept */
void mr_busy_threads_free(mr_busy_threads *b); /* lets them go, and waits until they have left */

#endif
